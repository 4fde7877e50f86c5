//! `figure layout`: the offsets of a layout, rows along its first mode and columns along its second.

use colex_layout::Layout;

use super::{Body, Error, grid};

/// The largest extent of either mode whose cells are still legible.
const LARGEST: i64 = 64;

/// Draws the layout's offsets; a layout of one mode is one row, and further modes are not drawn.
pub(super) fn draw(body: &Body) -> Result<String, Error> {
    let text = body.subject()?;
    let layout: Layout = text
        .parse()
        .map_err(|error| Error::new(format!("`{text}` is not a layout: {error}")))?;
    let (rows, columns) = extents(&layout)?;
    let mut labels = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let index = i64::try_from(row + rows * column).expect("the extents are small");
            let offset = layout
                .at(index)
                .map_err(|error| Error::new(error.to_string()))?;
            labels.push((offset.to_string(), shade(offset)));
        }
    }
    Ok(grid::svg(text, rows, columns, |row, column| {
        labels[row * columns + column].clone()
    }))
}

/// Rows and columns.
fn extents(layout: &Layout) -> Result<(usize, usize), Error> {
    let sizes: Vec<i64> = layout.modes().map(|mode| mode.size()).collect();
    let (rows, columns) = match sizes.as_slice() {
        [size] => (1, *size),
        [rows, columns] => (*rows, *columns),
        _ => {
            return Err(Error::new(format!(
                "{layout} has {} modes; a grid has 2",
                sizes.len()
            )));
        }
    };
    if rows.max(columns) > LARGEST {
        return Err(Error::new(format!(
            "{layout} is {rows} by {columns} cells; the largest grid is {LARGEST} by {LARGEST}"
        )));
    }
    let cells = |extent: i64| usize::try_from(extent).expect("an extent is at least 1");
    Ok((cells(rows), cells(columns)))
}

/// Eight shades, so that equal residues of the offset are seen.
fn shade(offset: i64) -> usize {
    usize::try_from(offset.rem_euclid(8)).expect("a residue is not negative")
}

#[cfg(test)]
mod tests {
    use crate::figure::draw;

    #[test]
    fn a_layout_is_drawn_with_its_offsets() {
        let html =
            draw("layout", "(2,3):(3,1)\ncaption = Row-major").expect("the layout is well formed");
        assert!(html.starts_with("<figure class=\"colex\"><svg "), "{html}");
        assert!(
            html.ends_with("<figcaption>Row-major</figcaption></figure>"),
            "{html}"
        );
        assert_eq!(html.matches("<rect").count(), 6);
        assert!(html.contains("aria-label=\"(2,3):(3,1)\""));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| {
            draw("layout", body)
                .expect_err("the figure is wrong")
                .to_string()
        };
        assert_eq!(
            error("(2,3,4):(1,2,6)"),
            "(2,3,4):(1,2,6) has 3 modes; a grid has 2"
        );
        assert_eq!(
            error("65:1"),
            "65:1 is 1 by 65 cells; the largest grid is 64 by 64"
        );
        assert!(error("(2,3").starts_with("`(2,3` is not a layout: "));
        assert_eq!(
            error("4:1\nlabels = x"),
            "this kind of figure has no key `labels`"
        );
    }
}
