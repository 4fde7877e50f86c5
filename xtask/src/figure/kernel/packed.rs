//! `figure packed`: sequences that follow each other in the rows of one tensor, and the offsets at which they begin.
//!
//! The subject is the list of offsets, such as `0 1 1 4`: one more than there are sequences. Key: `rows`, the rows of the tensor, needed.
//!
//! A colour is a sequence, and a row says which token of it it holds.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};

use super::{Body, Error, count, needed};

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [text] = body.subjects()? else {
        return Err(Error::new(
            "a figure of packed sequences has one subject, the offsets",
        ));
    };
    needed(body, "rows")?;
    let rows = count(body, "rows", 1)?;
    let offsets = offsets(text, rows)?;
    let last = offsets.len() - 1;
    let offset = |_, at: i64| {
        let cell = Cell::new([offsets[at as usize].to_string()]);
        if at == last as i64 {
            cell
        } else {
            cell.filled(Fill::pastel(at))
        }
    };
    let list = Grid::from_fn(1, offsets.len() as i64, offset)?
        .headers(Headers::None, Headers::Numbers)
        .caption("offsets: sequence i has the rows from offsets[i] up to offsets[i + 1]");
    let row = |_, row: i64| match owner(&offsets, row) {
        None => Cell::default().filled(Fill::Void),
        Some(sequence) => {
            let token = row - offsets[sequence];
            Cell::new([format!("{token}")]).filled(Fill::pastel(sequence as i64))
        }
    };
    let tensor = Grid::from_fn(1, rows, row)?
        .headers(Headers::None, Headers::Numbers)
        .caption("rows of the tensor: the token of the sequence in each");
    let mut legend: Vec<(Fill, String)> = (0..last)
        .map(|sequence| {
            let tokens = offsets[sequence + 1] - offsets[sequence];
            let plural = if tokens == 1 { "" } else { "s" };
            (
                Fill::pastel(sequence as i64),
                format!("sequence {sequence}, {tokens} row{plural}"),
            )
        })
        .collect();
    legend.push((Fill::Void, "of no sequence".into()));
    Ok(Picture::above([list, tensor])
        .title(format!(
            "The offsets of {last} sequences in a tensor of {rows} rows"
        ))
        .legend(legend))
}

/// The sequence that has a row.
fn owner(offsets: &[i64], row: i64) -> Option<usize> {
    offsets
        .windows(2)
        .position(|ends| (ends[0]..ends[1]).contains(&row))
}

fn offsets(text: &str, rows: i64) -> Result<Vec<i64>, Error> {
    let all: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
    all.ok()
        .filter(|all| all.len() > 1 && all[0] >= 0 && all.is_sorted() && all[all.len() - 1] <= rows)
        .ok_or_else(|| {
            Error::new(format!(
                "`{text}` is not a list of growing offsets up to {rows}, such as `0 1 1 4`"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::owner;
    use crate::figure::{draw, refused};

    #[test]
    fn a_row_belongs_to_the_sequence_whose_offsets_surround_it() {
        let owners: Vec<Option<usize>> = (0..5).map(|row| owner(&[0, 1, 1, 4], row)).collect();
        assert_eq!(owners, [Some(0), Some(2), Some(2), Some(2), None]);
        let html = draw("packed", "0 1 1 4\nrows = 5").expect("it is well formed");
        for text in [
            ">sequence 0, 1 row<",
            ">sequence 1, 0 rows<",
            ">sequence 2, 3 rows<",
            ">of no sequence<",
        ] {
            assert!(html.contains(text), "{text}");
        }
    }

    #[test]
    fn mistakes_are_sentences() {
        let wrong = |text: &str| {
            format!("`{text}` is not a list of growing offsets up to 5, such as `0 1 1 4`")
        };
        for text in ["0 2 1", "0 6", "0", "0 x"] {
            assert_eq!(refused("packed", &format!("{text}\nrows = 5")), wrong(text));
        }
        assert_eq!(refused("packed", "0 1"), "the figure needs `rows = ..`");
        assert_eq!(
            refused("packed", "0 1\n0 2\nrows = 5"),
            "a figure of packed sequences has one subject, the offsets"
        );
    }
}
