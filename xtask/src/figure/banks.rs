//! `figure banks`: the shared-memory banks of a tile, before and after a swizzle.
//!
//! The subjects are two layouts, plain or composed, of one shape; or one composed layout, which stands after its inner
//! layout. Keys:
//! - `bits`: the width of an element; needed;
//! - `label`, as in `figure layout`; without it, the bank.

use colex_draw::{LabelBy, Picture, banks};

use super::options::{inner, is_composed, label, needed, parsed, table};
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
    Ok(banks(&before, &after, bits, label))
}

#[cfg(test)]
mod tests {
    use crate::figure::draw;

    #[test]
    fn a_swizzled_tile_stands_after_its_plain_one() {
        let body = "Sw<3,3,3> o 0 o (8,64):(64,1)\nbits = 16\nlabel = offset";
        let html = draw("banks", body).expect("the body is well formed");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert_eq!(html.matches(">511</text>").count(), 2);
        assert!(html.contains(">bank 0 to 31</text>"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| {
            draw("banks", body)
                .expect_err("the figure is wrong")
                .to_string()
        };
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
