//! `figure tiled-copy` and `figure tiled-mma`: which thread holds what of a tiled operation.
//!
//! The subject is the name of the atom. Keys of both:
//! - `thread`: the one to show before the others.
//!
//! Keys of `tiled-copy`:
//! - `bits`: the width of a value; 32 unless given;
//! - `threads` and `values`: layouts over the tile; needed;
//! - `tensor`: extents such as `(24,16)`. The drawing is that of all tiles that cover them, what is inside in focus; heavy
//!   lines separate tiles and, within a tile, warps;
//! - `sectors`: columns of a sector of memory: heavy lines run between sectors, if both sides of the copy are equal;
//! - `transposed = yes`: the first mode goes right instead of down; the axes are named, and heavy lines separate tiles.
//!
//! Keys of `tiled-mma`:
//! - `atoms`: the layout of the atoms along M, N and K; one atom unless given;
//! - `tile`: per mode an extent, a layout or `_`; `_` unless given;
//! - `product`: extents of M, N and K, such as `(64,32,16)`, to draw all tiles that cover them;
//! - `operand`: one of `a`, `b` and `c`, to draw that one alone;
//! - `copy`: with `operand`, a copy atom: the tiled copy of 16-bit values that fits the operand, source and destination.

use colex_draw::{Grid, Picture, ThreadValues};
use colex_layout::{IntTuple, Layout, Tiler};
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use super::options::{is_transposed, needed, outlined, pair, parsed};
use super::{Body, Error};

pub(super) fn copy(body: &Body) -> Result<Picture, Error> {
    let [name] = body.subjects()? else {
        return Err(Error::new("the subject is the name of one copy"));
    };
    let atom = colex_atom::copy(name)?;
    let bits = body.value("bits").unwrap_or("32");
    let threads: Layout = parsed(needed(body, "threads")?, "a layout")?;
    let values: Layout = parsed(needed(body, "values")?, "a layout")?;
    let copy = TiledCopy::new(atom, parsed(bits, "a width")?, &threads, &values);
    let copy = copy?;
    let transposed = is_transposed(body)?;
    let focus = Focus {
        thread: thread(body)?,
        transposed,
    };
    match body.value("tensor") {
        Some(tensor) => padded(&copy, pair(tensor)?, focus),
        None => match body.value("sectors") {
            Some(columns) => in_sectors(&copy, parsed(columns, "a number of columns")?),
            None => sides(&copy, focus),
        },
    }
}

/// A copy whose sides are equal, with heavy lines between the sectors of a row.
fn in_sectors(copy: &TiledCopy, columns: i64) -> Result<Picture, Error> {
    let [map, other] = copy.maps()?;
    if map != other || columns < 1 {
        return Err(Error::new(
            "`sectors = ..` is a number of columns from 1 on, of a copy whose sides are equal",
        ));
    }
    let layout = format!("{:#}", copy.tv_of(Side::Source)?);
    let across = (map.cols() + columns - 1) / columns;
    let grid = map.grid();
    let grid = grid.regions(move |row, col| row * across + col / columns);
    Ok(Picture::of(grid.caption(layout)))
}

/// What to show before the rest, and which way.
struct Focus {
    thread: Option<i64>,
    transposed: bool,
}

impl Focus {
    fn turn(&self, map: ThreadValues) -> ThreadValues {
        if self.transposed {
            map.transposed()
        } else {
            map
        }
    }
}

fn thread(body: &Body) -> Result<Option<i64>, Error> {
    let text = body.value("thread");
    text.map(|text| parsed(text, "a thread")).transpose()
}

fn sides(copy: &TiledCopy, focus: Focus) -> Result<Picture, Error> {
    if let Some(thread) = focus.thread {
        copy.slice(thread)?;
    }
    let map = |map: ThreadValues, side| {
        let tv = copy.tv_of(side)?;
        Ok::<_, Error>(focus.turn(map.titled(format!("{tv:#}"))))
    };
    let [source, destination] = copy.maps()?;
    let source = map(source, Side::Source)?;
    let destination = map(destination, Side::Destination)?;
    if focus.transposed && source == destination {
        return Ok(one_side(&source, focus.thread));
    }
    let picture = match focus.thread {
        Some(thread) => ThreadValues::copy_of(&source, &destination, thread),
        None => ThreadValues::copy(&source, &destination),
    };
    picture.map_err(Error::from)
}

/// A copy whose sides are equal, its first mode to the right, with named axes.
fn one_side(map: &ThreadValues, thread: Option<i64>) -> Picture {
    let grid = thread.map_or_else(|| map.grid(), |thread| map.grid_of(thread));
    let heading = map.heading();
    let grid: Grid = grid.caption(format!("source and destination  {heading}"));
    let (rows, cols) = (map.rows(), map.cols());
    let title =
        format!("Which thread reads and writes what of a tile of {rows} by {cols}, {heading}");
    Picture::of(grid.axes("k", "m")).title(title)
}

/// All tiles that cover a tensor, with what is inside of it in focus, or of that what one thread has.
fn padded(copy: &TiledCopy, extents: (i64, i64), focus: Focus) -> Result<Picture, Error> {
    let (rows, cols) = extents;
    let map = copy.map_over([rows, cols], Side::Source);
    let map = focus.turn(map?);
    let (rows, cols) = if focus.transposed {
        (cols, rows)
    } else {
        (rows, cols)
    };
    let holds = |row, col| {
        let mut owners = map.owners(row, col).iter();
        focus
            .thread
            .is_none_or(|thread| owners.any(|(owner, _)| *owner == thread))
    };
    let stands_out = |row, col| row < rows && col < cols && holds(row, col);
    let grid = if (rows, cols) == (map.rows(), map.cols()) {
        outlined(&map.grid(), stands_out)?.caption(map.heading())
    } else {
        map.grid().focus(stands_out)
    };
    let tile = copy.tile_shape()?;
    let [m, k] = [0, 1].map(|mode| tile.leaves()[mode].value());
    let grid = if focus.transposed {
        let across = map.cols() / m;
        let grid = grid.axes("k", "m");
        grid.regions(move |row, col| row / k * across + col / m)
    } else {
        let (across, warps) = (map.cols() / k, copy.threads() / 32 + 1);
        let warp = |row, col| {
            let owner = map.owners(row, col).first();
            owner.map_or(0, |(thread, _)| thread / 32)
        };
        grid.regions(|row, col| (row / m * across + col / k) * warps + warp(row, col))
    };
    let title = format!("{}: what lies inside stands out", map.heading());
    Ok(Picture::of(grid).title(title))
}

pub(super) fn mma(body: &Body) -> Result<Picture, Error> {
    let [name] = body.subjects()? else {
        return Err(Error::new("the subject is the name of one instruction"));
    };
    let atom = colex_atom::mma(name)?;
    let atoms: Layout = parsed(body.value("atoms").unwrap_or("(1,1,1):(0,0,0)"), "a layout")?;
    let tile: Tiler = parsed(body.value("tile").unwrap_or("_"), "a tiler")?;
    let mma = TiledMma::new(atom, &atoms, &tile)?;
    let thread = thread(body)?;
    if let Some(product) = body.value("product") {
        return whole(&mma, product, thread);
    }
    let Some(name) = body.value("operand") else {
        let picture = match thread {
            Some(thread) => mma.picture_of(thread),
            None => mma.picture(),
        };
        return picture.map_err(Error::from);
    };
    let operand = operand(name)?;
    match body.value("copy") {
        Some(name) => {
            let atom = colex_atom::copy(name)?;
            let copy = TiledCopy::for_operand(atom, 16, &mma, operand)?;
            let focus = Focus {
                thread,
                transposed: false,
            };
            sides(&copy, focus)
        }
        None => alone(&mma, operand, thread),
    }
}

/// All tiles of a product.
fn whole(mma: &TiledMma, product: &str, thread: Option<i64>) -> Result<Picture, Error> {
    let extents: IntTuple = parsed(product, "a shape")?;
    let extents: Vec<i64> = extents.leaves().iter().map(|n| n.value()).collect();
    let Ok(mnk) = <[i64; 3]>::try_from(extents) else {
        return Err(Error::new(format!("`{product}` is not M, N and K")));
    };
    if let Some(thread) = thread {
        mma.slice(thread)?;
    }
    let [c, a, b] = mma.maps_over(mnk)?;
    let picture = match thread {
        Some(thread) => ThreadValues::mma_of(&c, &a, &b, thread),
        None => ThreadValues::mma(&c, &a, &b),
    };
    picture.map_err(Error::from)
}

fn operand(name: &str) -> Result<Operand, Error> {
    Ok(match name {
        "a" => Operand::A,
        "b" => Operand::B,
        "c" => Operand::C,
        _ => {
            return Err(Error::new(format!(
                "there is no operand `{name}`; there are: a, b, c"
            )));
        }
    })
}

/// One operand: B upright, as in the picture of all three.
fn alone(mma: &TiledMma, operand: Operand, thread: Option<i64>) -> Result<Picture, Error> {
    if let Some(thread) = thread {
        mma.slice(thread)?;
    }
    let [c, a, b] = mma.maps()?;
    let map: ThreadValues = match operand {
        Operand::A => a,
        Operand::B => b.transposed(),
        Operand::C => c,
    };
    let map = map.titled(format!("{:#}", mma.tv(operand)?));
    Ok(match thread {
        Some(thread) => map.picture_of(thread),
        None => map.picture(),
    })
}

#[cfg(test)]
mod tests {
    use crate::figure::draw;

    const COPY: &str = "UniversalCopy<uint32_t>\nthreads = (8,16):(1,8)\nvalues = (2,4):(1,2)";
    const MMA: &str = "SM70_8x8x4_F32F16F16F32_NT\natoms = (2,2):(2,1)";

    #[test]
    fn a_copy_is_drawn_by_tile_or_over_a_tensor() {
        let tile = draw("tiled-copy", COPY).expect("it is well formed");
        assert!(tile.contains("a tile of 16 by 64"));
        let tensor = format!("{COPY}\ntensor = (24,16)");
        let tensor = draw("tiled-copy", &tensor).expect("it is well formed");
        assert!(tensor.contains("over 24 by 16: what lies inside stands out"));
        let transposed = format!("{COPY}\ntransposed = yes");
        let transposed = draw("tiled-copy", &transposed).expect("it is well formed");
        assert!(transposed.contains("a tile of 64 by 16"));
    }

    #[test]
    fn an_mma_is_drawn_whole_or_by_operand_or_as_a_copy() {
        let whole = draw("tiled-mma", MMA).expect("it is well formed");
        assert_eq!(whole.matches(">T4</text>").count(), 4 + 8);
        let four = draw("tiled-mma", &format!("{MMA}\nproduct = (32,16,4)"));
        let four = four.expect("it is well formed");
        assert_eq!(four.matches(">T4</text>").count(), 4 + 2 * 8);
        let c = draw("tiled-mma", &format!("{MMA}\noperand = c\nthread = 4"));
        assert!(c.expect("it is well formed").contains("values of thread 4"));
        let body = "SM80_16x8x16_F32F16F16F32_TN\noperand = a\ncopy = SM75_U32x4_LDSM_N";
        let copy = draw("tiled-mma", body).expect("it is well formed");
        assert!(copy.contains("source  ((16,2),(8,1))") && copy.contains("destination  ((4,8)"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |kind: &str, body: &str| {
            let error = draw(kind, body).expect_err("the figure is wrong");
            error.to_string()
        };
        assert_eq!(
            error("tiled-copy", "UniversalCopy<uint32_t>\nvalues = 4:1"),
            "the figure needs `threads = ..`"
        );
        assert_eq!(
            error("tiled-copy", &format!("{COPY}\nthread = 128")),
            "thread 128 is not within 0..128"
        );
        assert_eq!(
            error("tiled-mma", &format!("{MMA}\nproduct = (32,16)")),
            "`(32,16)` is not M, N and K"
        );
        assert_eq!(
            error("tiled-mma", &format!("{MMA}\noperand = d")),
            "there is no operand `d`; there are: a, b, c"
        );
        assert_eq!(
            error("tiled-mma", &format!("{MMA}\noperand = c\nthread = 32")),
            "thread 32 is not within 0..32"
        );
    }
}
