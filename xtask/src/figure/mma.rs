//! `figure mma`: the thread and value of each element of a matrix instruction, A at the left, B at the top, C in the centre.
//!
//! The subject is its name, in any of CuTe's spellings. Keys:
//! - `operand`: one of `a`, `b` and `c`, to draw that one alone.

use colex_draw::{Picture, ThreadValues};

use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [name] = body.subjects()? else {
        return Err(Error::new("the subject is the name of one instruction"));
    };
    let atom = colex_atom::mma(name)?;
    let Some(operand) = body.value("operand") else {
        return atom.picture().map_err(Error::from);
    };
    let [c, a, b] = atom.maps()?;
    let map: ThreadValues = match operand {
        "a" => a,
        "b" => b.transposed(),
        "c" => c,
        _ => {
            return Err(Error::new(format!(
                "there is no operand `{operand}`; there are: a, b, c"
            )));
        }
    };
    Ok(map.picture())
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn an_instruction_is_drawn_whole_or_by_operand() {
        let html = draw("mma", "SM70_8x8x4_F32F16F16F32_NT").expect("it is in the table");
        assert_eq!(html.matches(">T16</text>").count(), 4 + 4 + 8);
        let html = draw("mma", "SM70_8x8x4_F32F16F16F32_NT\noperand = c").expect("it has a C");
        assert_eq!(html.matches(">T16</text>").count(), 8);
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("mma", body);
        assert!(error("SM80").starts_with("no MMA operation is called `SM80`"));
        assert_eq!(
            error("SM70_8x8x4_F32F16F16F32_NT\noperand = d"),
            "there is no operand `d`; there are: a, b, c"
        );
    }
}
