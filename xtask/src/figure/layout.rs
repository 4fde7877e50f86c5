//! `figure layout`: the offsets of a layout, rows along its first mode; several layouts stand side by side.
//!
//! Keys: `color`, one of `cycle` (the offset modulo 8), `offset`, `index`, `nothing` and `bank BITS`, and `label`, one of
//! `offset`, `index`, `coord`, `nothing` and `bank BITS`, where BITS is the width of an element.

use colex_layout::Layout;
use colex_layout::draw::{ColorBy, LabelBy, Picture, Table};

use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<String, Error> {
    let color = color(body.value("color").unwrap_or("cycle"))?;
    let label = label(body.value("label").unwrap_or("offset"))?;
    let tables: Vec<Table> = body
        .subjects()?
        .iter()
        .map(|text| table(text))
        .collect::<Result<_, _>>()?;
    let picture = match tables.as_slice() {
        [table] => table.picture(color, label),
        tables => Picture::beside(tables.iter().map(|table| table.grid(color, label)))
            .legend(tables[0].legend(color)),
    };
    Ok(picture.svg())
}

fn table(text: &str) -> Result<Table, Error> {
    let layout: Layout = text
        .parse()
        .map_err(|error| Error::new(format!("`{text}` is not a layout: {error}")))?;
    Table::of(&layout).map_err(|error| Error::new(error.to_string()))
}

fn color(name: &str) -> Result<ColorBy, Error> {
    Ok(match name {
        "cycle" => ColorBy::Cycle,
        "offset" => ColorBy::Offset,
        "index" => ColorBy::Index,
        "nothing" => ColorBy::Nothing,
        _ => ColorBy::Bank(bank_bits(name).ok_or_else(|| {
            Error::new(format!(
                "there is no color `{name}`; there are: cycle, offset, index, nothing, bank BITS"
            ))
        })?),
    })
}

fn label(name: &str) -> Result<LabelBy, Error> {
    Ok(match name {
        "offset" => LabelBy::Offset,
        "index" => LabelBy::Index,
        "coord" => LabelBy::Coord,
        "nothing" => LabelBy::Nothing,
        _ => LabelBy::Bank(bank_bits(name).ok_or_else(|| {
            Error::new(format!(
                "there is no label `{name}`; there are: offset, index, coord, nothing, bank BITS"
            ))
        })?),
    })
}

/// The bits of `bank BITS`.
fn bank_bits(name: &str) -> Option<i64> {
    let bits = name.strip_prefix("bank ")?.parse().ok()?;
    (bits > 0).then_some(bits)
}

#[cfg(test)]
mod tests {
    use crate::figure::draw;

    #[test]
    fn a_layout_is_drawn_with_its_caption() {
        let html =
            draw("layout", "(2,3):(3,1)\ncaption = Row-major").expect("the layout is well formed");
        assert!(html.starts_with("<figure class=\"colex\"><svg "), "{html}");
        assert!(
            html.ends_with("<figcaption>Row-major</figcaption></figure>"),
            "{html}"
        );
        assert!(html.contains("(2,3):(3,1)") && !html.contains('\n'));
    }

    #[test]
    fn several_layouts_share_a_figure() {
        let html = draw(
            "layout",
            "(2,3):(3,1)\n(2,3):(1,2)\ncolor = offset\nlabel = coord",
        )
        .expect("both are layouts");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert!(html.contains("(2,3):(3,1)") && html.contains("(2,3):(1,2)"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| {
            draw("layout", body)
                .expect_err("the figure is wrong")
                .to_string()
        };
        assert!(error("(2,3").starts_with("`(2,3` is not a layout: "));
        assert_eq!(
            error("4:1\nlabels = x"),
            "this kind of figure has no key `labels`"
        );
        assert_eq!(
            error("4:1\nlabel = x"),
            "there is no label `x`; there are: offset, index, coord, nothing, bank BITS"
        );
        assert_eq!(
            error("4:1\ncolor = bank 0"),
            "there is no color `bank 0`; there are: cycle, offset, index, nothing, bank BITS"
        );
        assert_eq!(
            error("caption = x"),
            "the figure has no subject: write it on a line of its own"
        );
    }
}
