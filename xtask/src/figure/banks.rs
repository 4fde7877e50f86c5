//! `figure banks`: the shared-memory banks of a tile, before and after a swizzle.
//!
//! The subjects are two layouts, plain or composed, of one shape; or one composed layout, which stands after its inner
//! layout. Keys:
//! - `bits`: the width of an element; needed;
//! - `label`, `titles`, `highlight` and `outline`, as in `figure layout`; without a label, the bank.

use colex_draw::{ColorBy, LabelBy, Picture, banks};

use super::options::{inner, is_composed, label, marked, needed, parsed, table, titles};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let bits: i64 = parsed(needed(body, "bits")?, "a number of bits")?;
    if bits < 1 {
        return Err(Error::new(format!(
            "an element has at least one bit, not {bits}"
        )));
    }
    let (before, after) = match body.subjects()? {
        [before, after] => (before.clone(), after),
        [after] if is_composed(after) => (inner(after)?.to_string(), after),
        _ => {
            return Err(Error::new(
                "the subjects are two layouts, or one composed layout",
            ));
        }
    };
    let (before, after) = (table(&before)?, table(after)?);
    if (before.rows(), before.cols()) != (after.rows(), after.cols()) {
        return Err(Error::new(format!(
            "{} and {} have different shapes",
            before.heading(),
            after.heading()
        )));
    }
    let label = label(body, LabelBy::Bank(bits))?;
    let [first, .., last] = body.subjects()? else {
        return Ok(banks(&before, &after, bits, label));
    };
    let names = titles(body, 2)?;
    let is_marked = ["highlight", "outline"].map(|key| body.value(key).is_some());
    if is_marked == [false, false] && names.is_empty() {
        return Ok(banks(&before, &after, bits, label));
    }
    let color = ColorBy::Bank(bits);
    let mut grids = Vec::new();
    for (at, (table, text)) in [(&before, first), (&after, last)].into_iter().enumerate() {
        let grid = marked(table.grid(color, label), body, at, text)?;
        grids.push(match names.get(at) {
            Some(name) => grid.caption(*name),
            None => grid,
        });
    }
    let title = format!(
        "The banks of {} and of {}",
        before.heading(),
        after.heading()
    );
    let legend = before.legend(color);
    Ok(Picture::beside(grids).title(title).legend(legend))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_swizzled_tile_stands_after_its_plain_one() {
        let body = "Sw<3,3,3> o 0 o (8,64):(64,1)\nbits = 16\nlabel = offset";
        let html = draw("banks", body).expect("the body is well formed");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert_eq!(html.matches(">511</text>").count(), 2);
        assert!(html.contains(">bank 0 to 31</text>"));
    }

    #[test]
    fn an_access_is_outlined_in_both() {
        let body = "(8,8):(8,1)\nSw<3,0,3> o 0 o (8,8):(8,1)\nbits = 128\nhighlight = (_,0)\ntitles = a; b";
        let html = draw("banks", body).expect("the body is well formed");
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 16);
        assert!(html.contains(">bank 0 to 31</text>") && html.contains(">b</text>"));
    }

    /// `figure.svg` in the repository's root is what this draws; with the variable `COLEX_BLESS` it is written anew.
    #[test]
    fn the_figure_of_the_readme_is_what_the_code_draws() {
        use colex_draw::{LabelBy, Table, banks};
        let tile = |text| Table::of(text).expect("a layout");
        let (plain, swizzled) = (tile("(8,8):(8,1)"), tile("Sw<3,0,3> o 0 o (8,8):(8,1)"));
        let drawn = banks(&plain, &swizzled, 128, LabelBy::Offset).svg() + "\n";
        let path = crate::workspace::root()
            .expect("the repository")
            .join("figure.svg");
        if std::env::var_os("COLEX_BLESS").is_some() {
            std::fs::write(&path, &drawn).expect("the figure is written");
        }
        let kept = std::fs::read_to_string(&path).expect("the figure is there");
        assert!(
            kept == drawn,
            "figure.svg is not what the code draws: COLEX_BLESS=1 writes it"
        );
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("banks", body);
        assert_eq!(error("(8,8):(8,1)"), "the figure needs `bits = ..`");
        assert_eq!(
            error("(8,8):(8,1)\nbits = 16"),
            "the subjects are two layouts, or one composed layout"
        );
        assert_eq!(
            error("(8,8):(8,1)\n(4,8):(8,1)\nbits = 16"),
            "(8,8):(8,1) and (4,8):(8,1) have different shapes"
        );
        assert_eq!(
            error("8:1\n8:2\nbits = 0"),
            "an element has at least one bit, not 0"
        );
    }
}
