//! `figure micro-tiles`: which thread of a transpose has which micro-tile, and where in shared memory it is.
//!
//! The subjects are two sides, `LAYOUT over MEMORY`: the thread-value layout by which the threads read, or write, and the composed
//! layout of the tile in shared memory, in words. Keys:
//! - `threads`: the swizzle that gives a thread its number in the layout, such as `Sw<3,0,-3>`; needed;
//! - `focus`: the threads that stand out, a range such as `0..8`; needed.
//!
//! A cell is a micro-tile: its thread, and the place of its first vector among the eight vectors of a row of memory, which is the colour.
//! The contiguous mode of the memory goes right.

use colex_draw::{Cell, Fill, Grid, Picture};
use colex_layout::{ComposedLayout, Layout, Swizzle};

use crate::figure::options::{needed, outlined, parsed};
use crate::figure::{Body, Error};

/// The words of a vector of 16 bytes, which is also a side of a micro-tile.
const VECTOR: i64 = 4;
/// The words of a row of memory: one for each bank.
const ROW: i64 = 32;

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [read, written] = body.subjects()? else {
        return Err(Error::new(
            "micro-tiles have two subjects, the side that is read and the side that is written",
        ));
    };
    let threads: Swizzle = parsed(needed(body, "threads")?, "a swizzle")?;
    let text = needed(body, "focus")?;
    let ends = text.split_once("..");
    let focus = ends
        .and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?))
        .ok_or_else(|| Error::new(format!("`focus = {text}` is not a range such as 0..8")))?;
    let side = |text: &str, name: &str| -> Result<Grid, Error> {
        let side = Side::read(text, threads)?;
        let owner = side.owners()?;
        let grid = Grid::from_fn(side.down(), side.across(), |row, column| {
            let Owner { thread, place } = owner[(row * side.across() + column) as usize];
            let lines = [format!("T{thread}"), place.to_string()];
            Cell::new(lines).filled(Fill::pastel(place))
        })?;
        let stands_out = |row: i64, column: i64| {
            focus.contains(&owner[(row * side.across() + column) as usize].thread)
        };
        let [down, across] = side.axes();
        let grid = outlined(&grid, stands_out)?;
        Ok(grid.axes(down, across).caption(name))
    };
    let grids = [side(read, "read")?, side(written, "written")?];
    let places = (0..ROW / VECTOR).map(|place| {
        let word = if place == 0 { "place " } else { "" };
        (Fill::pastel(place), format!("{word}{place}"))
    });
    Ok(Picture::beside(grids)
        .title("The thread of each micro-tile, and the place of its first vector in a row of shared memory, of the side that is read and of the side that is written")
        .legend(places))
}

/// The thread of a micro-tile, and the place of the first vector that it accesses.
#[derive(Clone, Copy)]
struct Owner {
    thread: i64,
    place: i64,
}

/// How the threads access a tile in shared memory.
struct Side {
    tv: Layout,
    memory: ComposedLayout,
    threads: Swizzle,
    extents: [i64; 2],
    /// The mode that is contiguous in memory.
    fastest: usize,
}

impl Side {
    fn read(text: &str, threads: Swizzle) -> Result<Side, Error> {
        let (tv, memory) = text.split_once(" over ").ok_or_else(|| {
            Error::new(format!(
                "`{text}` is not a side such as `((8,8),(4,4)):((4,128),(1,32)) over (32,32):(1,32)`"
            ))
        })?;
        let tv: Layout = parsed(tv, "a layout")?;
        let memory: ComposedLayout = parsed(memory, "a composed layout")?;
        let inner = memory.inner();
        let extents = [inner.get(&[0])?.size(), inner.get(&[1])?.size()];
        let fastest = usize::from(inner.at((1, 0))? != 1);
        let side = Side {
            tv,
            memory,
            threads,
            extents,
            fastest,
        };
        if extents.iter().any(|extent| extent % VECTOR != 0) {
            let [rows, columns] = extents;
            return Err(Error::new(format!(
                "a tile of {rows} by {columns} has no micro-tiles of {VECTOR} by {VECTOR}"
            )));
        }
        Ok(side)
    }

    fn down(&self) -> i64 {
        self.extents[1 - self.fastest] / VECTOR
    }

    fn across(&self) -> i64 {
        self.extents[self.fastest] / VECTOR
    }

    /// The names that the chapter gives the micro-tiles along mode 0 and along mode 1, those down before those across.
    fn axes(&self) -> [&'static str; 2] {
        if self.fastest == 0 {
            ["r", "c"]
        } else {
            ["c", "r"]
        }
    }

    /// The owner of each micro-tile, row by row. Refuses threads whose elements are not one micro-tile each, read or written in vectors.
    fn owners(&self) -> Result<Vec<Owner>, Error> {
        let threads = self.tv.get(&[0])?.size();
        let values = self.tv.get(&[1])?.size();
        let mut owners = vec![None; (self.down() * self.across()) as usize];
        for thread in 0..threads {
            let number = self.threads.apply(thread);
            let mut seen = Vec::new();
            for value in 0..values {
                let element = self.tv.at((number, value))?;
                let at = [element % self.extents[0], element / self.extents[0]];
                let tile = [at[1 - self.fastest] / VECTOR, at[self.fastest] / VECTOR];
                let offset = self.memory.at((at[0], at[1]))?;
                seen.push((tile, offset));
            }
            let (tile, first) = seen[0];
            let whole = seen.len() as i64 == VECTOR * VECTOR
                && seen.iter().all(|(other, _)| *other == tile)
                && seen.chunks(VECTOR as usize).all(|vector| {
                    let start = vector[0].1;
                    start % VECTOR == 0
                        && (start..)
                            .zip(vector)
                            .all(|(offset, (_, found))| offset == *found)
                });
            let owner = &mut owners[(tile[0] * self.across() + tile[1]) as usize];
            if !whole || owner.is_some() {
                return Err(Error::new(format!(
                    "thread {thread} has no micro-tile of its own in four vectors of memory"
                )));
            }
            *owner = Some(Owner {
                thread,
                place: first % ROW / VECTOR,
            });
        }
        owners
            .into_iter()
            .collect::<Option<Vec<Owner>>>()
            .ok_or_else(|| Error::new("some micro-tiles have no thread"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Owner, Side};
    use crate::figure::{draw, refused};
    use colex_layout::Swizzle;

    const READ: &str = "((8,8),(4,4)):((4,128),(1,32)) over Sw<3,2,3> o 0 o (32,32):(1,32)";
    const WRITTEN: &str = "((8,8),(4,4)):((4,128),(32,1)) over Sw<3,2,3> o 0 o (32,32):(32,1)";

    fn owners(text: &str) -> Vec<Owner> {
        let diagonal = Swizzle::new(3, 0, -3).expect("the shift is as long as the mask");
        let side = Side::read(text, diagonal).expect("it is a side");
        side.owners().expect("each thread has a micro-tile")
    }

    fn places(owners: &[Owner], of: impl Fn(usize, &Owner) -> bool) -> usize {
        let of = owners
            .iter()
            .enumerate()
            .filter(|(at, owner)| of(*at, owner));
        of.map(|(_, owner)| owner.place)
            .collect::<BTreeSet<i64>>()
            .len()
    }

    #[test]
    fn eight_threads_meet_eight_places_and_a_column_two() {
        for side in [READ, WRITTEN] {
            let owners = owners(side);
            for eight in 0..8 {
                let of = |_: usize, owner: &Owner| owner.thread / 8 == eight;
                assert_eq!(places(&owners, of), 8, "{side}");
                let row = |at: usize, _: &Owner| at / 8 == eight as usize;
                assert_eq!(places(&owners, row), 8, "{side}");
                let column = |at: usize, _: &Owner| at % 8 == eight as usize;
                assert_eq!(places(&owners, column), 2, "{side}");
            }
        }
    }

    #[test]
    fn a_thread_writes_the_micro_tile_that_it_reads() {
        let (read, written) = (owners(READ), owners(WRITTEN));
        for (at, owner) in read.iter().enumerate() {
            assert_eq!(owner.thread, written[at % 8 * 8 + at / 8].thread, "{at}");
        }
    }

    #[test]
    fn every_thread_is_drawn_on_both_sides() {
        let body = format!("{READ}\n{WRITTEN}\nthreads = Sw<3,0,-3>\nfocus = 0..8");
        let html = draw("micro-tiles", &body).expect("the sides are right");
        assert_eq!(html.matches(">T9</text>").count(), 2);
        // The thread and the place of eight micro-tiles on each side.
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 2 * 8 * 2);
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("micro-tiles", body);
        let keys = "threads = Sw<3,0,-3>\nfocus = 0..8";
        assert_eq!(
            error(&format!("{READ}\n{keys}")),
            "micro-tiles have two subjects, the side that is read and the side that is written"
        );
        assert_eq!(
            error(&format!("{READ}\n4:1\n{keys}")),
            "`4:1` is not a side such as `((8,8),(4,4)):((4,128),(1,32)) over (32,32):(1,32)`"
        );
        assert_eq!(
            error(&format!(
                "{READ}\n{WRITTEN}\nthreads = Sw<3,0,-3>\nfocus = 8"
            )),
            "`focus = 8` is not a range such as 0..8"
        );
        let along_the_other = READ.replace("(1,32)) over", "(32,1)) over");
        assert_eq!(
            error(&format!("{along_the_other}\n{WRITTEN}\n{keys}")),
            "thread 0 has no micro-tile of its own in four vectors of memory"
        );
        let few = READ.replace("(8,8),(4,4)):((4,128)", "(8,4),(4,4)):((4,128)");
        assert_eq!(
            error(&format!(
                "{few}\n{WRITTEN}\nthreads = Sw<2,0,-3>\nfocus = 0..8"
            )),
            "some micro-tiles have no thread"
        );
    }
}
