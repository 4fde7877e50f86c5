//! `figure tv`: which thread holds what of a tile; several maps of one tile stand side by side.
//!
//! The subjects are thread-value layouts. Keys:
//! - `tile`: rows and columns, such as `(16,8)`; needed;
//! - `thread`: the one to show before the others;
//! - `transposed = yes`: the layouts number the elements along the rows of the tile, and not down its columns;
//! - `titles`: texts separated by `;`, one for each map, before the layouts;
//! - `colors`: a layout from the threads to the numbers by which they are coloured, such as their lanes.

use colex_draw::{Cell, Fill, Grid, Picture, ThreadValues};

use colex_layout::Layout;

use super::options::{is_transposed, needed, pair, parsed, titles};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let (rows, cols) = pair(needed(body, "tile")?)?;
    let thread = body.value("thread");
    let thread: Option<i64> = thread.map(|text| parsed(text, "a thread")).transpose()?;
    let transposed = is_transposed(body)?;
    let colors = body.value("colors");
    let colors: Option<Layout> = colors.map(|text| parsed(text, "a layout")).transpose()?;
    let mut maps = Vec::new();
    let subjects = body.subjects()?;
    let titles = titles(body, subjects.len())?;
    for (at, text) in subjects.iter().enumerate() {
        let map = ThreadValues::of(parsed::<Layout>(text, "a layout")?, rows, cols)?;
        if let Some(thread) = thread.filter(|thread| !(0..map.threads()).contains(thread)) {
            let threads = map.threads();
            return Err(Error::new(format!(
                "there is no thread {thread} of {threads}"
            )));
        }
        let map = if transposed { map.transposed() } else { map };
        maps.push(match titles.get(at) {
            Some(title) => {
                let heading = format!("{title}  {}", map.heading());
                map.titled(heading)
            }
            None => map,
        });
    }
    if let Some(colors) = colors {
        let grid = |map: &ThreadValues| {
            let grid = thread.map_or_else(|| map.grid(), |thread| map.grid_of(thread));
            recolored(map, &grid, &colors)
        };
        let grids: Result<Vec<Grid>, Error> = maps.iter().map(grid).collect();
        return Ok(Picture::beside(grids?));
    }
    let picture = match (maps.as_slice(), thread) {
        ([map], Some(thread)) => map.picture_of(thread),
        ([map], None) => map.picture(),
        (maps, Some(thread)) => Picture::beside(maps.iter().map(|map| map.grid_of(thread))),
        (maps, None) => Picture::beside(maps.iter().map(ThreadValues::grid)),
    };
    Ok(picture)
}

/// The cells of `grid`, each in the colour of the number to which `colors` maps its thread.
fn recolored(map: &ThreadValues, grid: &Grid, colors: &Layout) -> Result<Grid, Error> {
    let numbers: Result<Vec<i64>, _> = (0..map.threads()).map(|thread| colors.at(thread)).collect();
    let numbers = numbers?;
    let cell = |row, col| -> Cell {
        let cell = grid.cell(row, col).clone();
        match map.owners(row, col) {
            [(thread, _), ..] => cell.filled(Fill::thread(numbers[*thread as usize])),
            [] => cell,
        }
    };
    let heading = map.heading();
    Ok(Grid::from_fn(grid.rows(), grid.cols(), cell)?.caption(heading))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    const VOLTA: &str = "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))\ntile = (8,8)";

    #[test]
    fn a_map_shows_every_thread_or_one() {
        let all = draw("tv", VOLTA).expect("the body is well formed");
        assert_eq!(all.matches(">T7</text>").count(), 8);
        let one = draw("tv", &format!("{VOLTA}\nthread = 7")).expect("the body is well formed");
        // The thread and the value of each of its eight cells.
        assert_eq!(one.matches("font-weight=\"bold\"").count(), 16);
    }

    #[test]
    fn maps_of_one_tile_stand_side_by_side() {
        let body = "(4,2):(1,4)\n(4,2):(2,1)\ntile = (4,2)";
        let html = draw("tv", body).expect("the body is well formed");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert_eq!(html.matches(">T3</text>").count(), 4);
    }

    #[test]
    fn a_title_stands_before_its_layout() {
        let body = "(4,2):(1,4)\n(4,2):(2,1)\ntile = (4,2)\ntitles = one; two";
        let html = draw("tv", body).expect("the body is well formed");
        assert!(html.contains(">one  (4,2):(1,4)</text>"), "{html}");
        assert!(html.contains(">two  (4,2):(2,1)</text>"), "{html}");
    }

    #[test]
    fn elements_may_be_numbered_along_the_rows() {
        let down = draw("tv", "(4,2):(1,4)\ntile = (4,2)").expect("the body is well formed");
        let along = "(4,2):(2,1)\ntile = (2,4)\ntransposed = yes";
        let along = draw("tv", along).expect("the body is well formed");
        let cells = |html: &str| html[html.find("Row 0").expect("it is described")..].to_string();
        assert_eq!(
            cells(&down),
            cells(&along).replace("(4,2):(2,1)", "(4,2):(1,4)")
        );
    }

    #[test]
    fn threads_are_coloured_by_another_number() {
        let plain = draw("tv", "(2,2):(1,2)\ntile = (2,2)").expect("the body is well formed");
        let colored = "(2,2):(1,2)\ntile = (2,2)\ncolors = 2:16";
        let colored = draw("tv", colored).expect("the body is well formed");
        assert_eq!(colored.matches(">T1</text>").count(), 2);
        assert_ne!(plain, colored);
        let few = draw("tv", "(4,2):(1,4)\ntile = (4,2)\ncolors = 2:16");
        assert!(few.is_err(), "two numbers do not colour four threads");
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("tv", body);
        assert_eq!(error("(4,2):(1,4)"), "the figure needs `tile = ..`");
        assert_eq!(
            error("(4,2):(1,4)\ntile = 8"),
            "`8` is not a pair of numbers, as in (4,2)"
        );
        assert_eq!(
            error("(4,2):(1,4)\ntile = (4,2)\nthread = 4"),
            "there is no thread 4 of 4"
        );
        assert_eq!(
            error("(4,2):(1,4)\ntile = (2,2)"),
            "draw of (4,2):(1,4): thread 0, value 1 falls on element 4, outside the tile of 2 by 2"
        );
    }
}
