//! `figure mma`: the thread and value of each element of a matrix instruction, A at the left, B at the top, C in the centre.
//!
//! The subject is its name, in any of CuTe's spellings. Keys:
//! - `operand`: one of `a`, `b` and `c`, to draw that one alone;
//! - `squares`: rows and columns, such as `(8,8)`: heavy lines run between squares of this size;
//! - `element`: row and column of an element of C, which is outlined with its row of A and its column of B;
//! - `thread`: the one to show before the others, alone or with `operand`.

use colex_atom::MmaAtom;
use colex_draw::{Grid, Picture, ThreadValues};

use super::options::{outlined, pair, parsed};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [name] = body.subjects()? else {
        return Err(Error::new("the subject is the name of one instruction"));
    };
    let atom = colex_atom::mma(name)?;
    let Some(operand) = body.value("operand") else {
        if let Some(squares) = body.value("squares") {
            return in_squares(name, atom.maps()?, pair(squares)?);
        }
        if let Some(element) = body.value("element") {
            return with_element(name, atom.maps()?, pair(element)?);
        }
        if let Some(thread) = body.value("thread") {
            return of_thread(&atom, parsed(thread, "a thread")?);
        }
        return atom.picture().map_err(Error::from);
    };
    let [c, a, b] = titled(&atom)?;
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
    let Some(thread) = body.value("thread") else {
        return Ok(map.picture());
    };
    let thread = thread_of(&map, parsed(thread, "a thread")?)?;
    Ok(map.picture_of(thread))
}

/// The number of a thread that the map has.
fn thread_of(map: &ThreadValues, thread: i64) -> Result<i64, Error> {
    let threads = map.threads();
    if (0..threads).contains(&thread) {
        Ok(thread)
    } else {
        Err(Error::new(format!(
            "there is no thread {thread} of {threads}"
        )))
    }
}

/// The maps of C, A and B under their layouts. All of them are static, so the marks would say nothing.
fn titled(atom: &MmaAtom) -> Result<[ThreadValues; 3], Error> {
    let [c, a, b] = atom.maps()?;
    let traits = atom.traits();
    Ok([
        c.titled(format!("{:#}", traits.c)),
        a.titled(format!("{:#}", traits.a)),
        b.titled(format!("{:#}", traits.b)),
    ])
}

/// The three operands, with the cells of one thread in focus.
fn of_thread(atom: &MmaAtom, thread: i64) -> Result<Picture, Error> {
    let [c, a, b] = titled(atom)?;
    let thread = thread_of(&c, thread)?;
    ThreadValues::mma_of(&c, &a, &b, thread).map_err(Error::from)
}

/// The three operands, with heavy lines between squares of `rows` by `cols`.
fn in_squares(
    name: &str,
    [c, a, b]: [ThreadValues; 3],
    (rows, cols): (i64, i64),
) -> Result<Picture, Error> {
    if rows < 1 || cols < 1 {
        let why = format!("a square has at least one row and one column, not {rows} and {cols}");
        return Err(Error::new(why));
    }
    let grid = |map: &ThreadValues, name: &str, down: &str, right: &str| -> Grid {
        let across = (map.cols() + cols - 1) / cols;
        let grid = map.grid().caption(name).axes(down, right);
        grid.regions(move |row, col| row / rows * across + col / cols)
    };
    let picture = Picture::mma(
        grid(&a, "A", "m", "k"),
        grid(&b.transposed(), "B", "k", "n"),
        grid(&c, "C", "m", "n"),
    );
    Ok(described(picture, name, [&c, &a, &b]))
}

/// The three operands, with an outline around an element of C, its row of A and its column of B.
fn with_element(
    name: &str,
    [c, a, b]: [ThreadValues; 3],
    (m, n): (i64, i64),
) -> Result<Picture, Error> {
    if !(0..c.rows()).contains(&m) || !(0..c.cols()).contains(&n) {
        let (rows, cols) = (c.rows(), c.cols());
        let why = format!("C has {rows} by {cols} elements, and none at ({m},{n})");
        return Err(Error::new(why));
    }
    let upright = b.transposed();
    let picture = Picture::mma(
        outlined(&a.grid(), |row, _| row == m)?
            .caption("A")
            .axes("m", "k"),
        outlined(&upright.grid(), |_, col| col == n)?
            .caption("B")
            .axes("k", "n"),
        outlined(&c.grid(), |row, col| (row, col) == (m, n))?
            .caption("C")
            .axes("m", "n"),
    );
    Ok(described(picture, name, [&c, &a, &b]))
}

/// The picture with its title, and with notes that have the layouts.
fn described(picture: Picture, name: &str, [c, a, b]: [&ThreadValues; 3]) -> Picture {
    let notes = [("A", a), ("B", b), ("C", c)].map(|(name, map)| {
        let layout = map.heading().replace('_', "");
        format!("{name}  {layout}")
    });
    let title = format!("Which thread holds what of {name}: {}", notes.join(", "));
    notes.into_iter().fold(picture.title(title), Picture::note)
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn an_element_is_outlined_with_what_it_is_computed_from() {
        let body = "SM80_8x8x4_F64F64F64F64_TN\nelement = (1,2)";
        let html = draw("mma", body).expect("the instruction exists");
        // The thread and the value of four cells of A, of four of B and of one of C.
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 2 * 9);
        assert_eq!(
            refused("mma", "SM80_8x8x4_F64F64F64F64_TN\nelement = (8,0)"),
            "C has 8 by 8 elements, and none at (8,0)"
        );
    }

    #[test]
    fn an_instruction_is_drawn_whole_or_by_operand() {
        let html = draw("mma", "SM70_8x8x4_F32F16F16F32_NT").expect("it is in the table");
        assert_eq!(html.matches(">T16</text>").count(), 4 + 4 + 8);
        let html = draw("mma", "SM70_8x8x4_F32F16F16F32_NT\noperand = c").expect("it has a C");
        assert_eq!(html.matches(">T16</text>").count(), 8);
    }

    #[test]
    fn a_thread_stands_out() {
        let html = draw("mma", "SM80_16x8x16_F32F16F16F32_TN\nthread = 5").expect("it is there");
        // Its eight values of A, four of B and four of C, each with two lines of text.
        assert_eq!(
            html.matches("font-weight=\"bold\"").count(),
            2 * (8 + 4 + 4)
        );
        let of_a = "SM80_16x8x16_F32F16F16F32_TN\noperand = a\nthread = 5";
        let html = draw("mma", of_a).expect("it is there");
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 2 * 8);
        assert_eq!(
            refused("mma", &format!("{of_a}0")),
            "there is no thread 50 of 32"
        );
        assert_eq!(
            refused("mma", "SM80_16x8x16_F32F16F16F32_TN\nthread = 32"),
            "there is no thread 32 of 32"
        );
    }

    #[test]
    fn squares_are_outlined() {
        let name = "SM80_16x8x16_F32F16F16F32_TN";
        let plain = draw("mma", name).expect("it is in the table");
        let squares = draw("mma", &format!("{name}\nsquares = (8,8)"));
        let squares = squares.expect("it is in the table");
        let cells = |html: &str| html.matches(">T31</text>").count();
        assert_eq!(cells(&plain), cells(&squares));
        assert_ne!(plain, squares);
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("mma", body);
        assert_eq!(
            error("SM80_16x8x16_F32F16F16F32_TN\nsquares = (0,8)"),
            "a square has at least one row and one column, not 0 and 8"
        );
        assert!(error("SM80").starts_with("no MMA operation is called `SM80`"));
        assert_eq!(
            error("SM70_8x8x4_F32F16F16F32_NT\noperand = d"),
            "there is no operand `d`; there are: a, b, c"
        );
    }
}
