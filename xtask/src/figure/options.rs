//! What the kinds of figures share: subjects, colours, labels, and the cells in focus.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use colex_draw::{ColorBy, Grid, LabelBy, Mark, Nesting, Table};
use colex_layout::{ComposedLayout, Coord, Layout};

use super::{Body, Error};

/// A text as a value, or why it is not one.
pub(super) fn parsed<T: FromStr<Err: Display>>(text: &str, what: &str) -> Result<T, Error> {
    text.parse()
        .map_err(|error| Error::new(format!("`{text}` is not {what}: {error}")))
}

/// The value of `key`, which this kind of figure needs.
pub(super) fn needed<'a>(body: &'a Body, key: &str) -> Result<&'a str, Error> {
    body.value(key)
        .ok_or_else(|| Error::new(format!("the figure needs `{key} = ..`")))
}

/// A layout, or a composed one such as `Sw<3,3,3> o 0 o (8,64):(64,1)`.
pub(super) fn table(text: &str) -> Result<Table, Error> {
    let what = if is_composed(text) {
        "a composed layout"
    } else {
        "a layout"
    };
    let layout: ComposedLayout = parsed(text, what)?;
    Table::of(layout).map_err(Error::from)
}

/// The layout, or the inner layout of a composed one.
pub(super) fn inner(text: &str) -> Result<Layout, Error> {
    if is_composed(text) {
        let layout: ComposedLayout = parsed(text, "a composed layout")?;
        return Ok(layout.inner().clone());
    }
    parsed(text, "a layout")
}

pub(super) fn is_composed(text: &str) -> bool {
    text.contains(" o ")
}

/// The key `color`.
pub(super) fn color(body: &Body) -> Result<ColorBy, Error> {
    let name = body.value("color").unwrap_or("cycle");
    Ok(match name {
        "cycle" => ColorBy::Cycle,
        "offset" => ColorBy::Offset,
        "index" => ColorBy::Index,
        "nothing" => ColorBy::Nothing,
        _ => ColorBy::Bank(bank_bits(name).ok_or_else(|| {
            let known = "cycle, offset, index, nothing, bank BITS";
            Error::new(format!("there is no color `{name}`; there are: {known}"))
        })?),
    })
}

/// The key `label`.
pub(super) fn label(body: &Body, otherwise: LabelBy) -> Result<LabelBy, Error> {
    let Some(name) = body.value("label") else {
        return Ok(otherwise);
    };
    Ok(match name {
        "offset" => LabelBy::Offset,
        "index" => LabelBy::Index,
        "coord" => LabelBy::Coord,
        "nothing" => LabelBy::Nothing,
        _ => LabelBy::Bank(bank_bits(name).ok_or_else(|| {
            let known = "offset, index, coord, nothing, bank BITS";
            Error::new(format!("there is no label `{name}`; there are: {known}"))
        })?),
    })
}

/// The key `transposed`.
pub(super) fn is_transposed(body: &Body) -> Result<bool, Error> {
    match body.value("transposed") {
        None => Ok(false),
        Some("yes") => Ok(true),
        Some(other) => Err(Error::new(format!("`transposed` is yes, not `{other}`"))),
    }
}

/// The bits of `bank BITS`.
fn bank_bits(name: &str) -> Option<i64> {
    let bits = name.strip_prefix("bank ")?.parse().ok()?;
    (bits > 0).then_some(bits)
}

/// The grid of the layout `text`, which is subject `at`, with the cells that the keys `highlight` and `outline` name:
/// those of `highlight` before the others, those of `outline` with the others as they are.
pub(super) fn marked(grid: Grid, body: &Body, at: usize, text: &str) -> Result<Grid, Error> {
    let rows = grid.rows();
    if let Some(cells) = cells(body, "highlight", at, text)? {
        return Ok(grid.focus(|row, col| cells.contains(&(row + rows * col))));
    }
    let Some(cells) = cells(body, "outline", at, text)? else {
        return Ok(grid);
    };
    let [down, right] = nesting(&inner(text)?)?;
    let grid = outlined(&grid, |row, col| cells.contains(&(row + rows * col)))?;
    Ok(grid.nested(down, right).caption(text))
}

/// The cells of the grid with an outline around some of them, and none paler than it was.
pub(super) fn outlined(grid: &Grid, stands_out: impl Fn(i64, i64) -> bool) -> Result<Grid, Error> {
    let cell = |row, col| {
        let mut cell = grid.cell(row, col).clone();
        if stands_out(row, col) {
            cell.mark = Mark::Focus;
        }
        cell
    };
    Ok(Grid::from_fn(grid.rows(), grid.cols(), cell)?)
}

/// Where the heavy lines of a layout's rows and columns are.
pub(super) fn nesting(layout: &Layout) -> Result<[Nesting; 2], Error> {
    Ok(match layout.rank() {
        0 | 1 => [Nesting::default(), Nesting::of(layout)?],
        rank => [
            Nesting::of(layout.get(&[0])?)?,
            Nesting::of(layout.take(1..rank)?)?,
        ],
    })
}

/// The key `key`, `highlight` or `outline`: coordinates of the layout `text`, which is subject `at`, with `_` for whole
/// modes, separated by `;`. The indices of the cells that it names, if it is given. Bars separate the coordinates of the
/// subjects.
fn cells(body: &Body, key: &str, at: usize, text: &str) -> Result<Option<BTreeSet<i64>>, Error> {
    let Some(coords) = body.value(key) else {
        return Ok(None);
    };
    let parts: Vec<&str> = coords.split('|').collect();
    let subjects = body.subjects()?.len();
    let coords = match parts.as_slice() {
        [all] => all,
        parts if parts.len() == subjects => parts[at],
        parts => {
            let count = parts.len();
            return Err(Error::new(format!(
                "`{key} = {coords}` has {count} parts for {subjects} subjects"
            )));
        }
    };
    let places = Layout::column_major(inner(text)?.shape())?;
    let mut cells = BTreeSet::new();
    for coord in coords.split(';') {
        let coord: Coord = parsed(coord.trim(), "a coordinate")?;
        let (part, start) = places.slice_and_offset(&coord)?;
        cells.extend(part.table()?.iter().map(|at| start + at));
    }
    Ok(Some(cells))
}

/// The key `titles`: texts separated by `;`, one for each subject; none without the key.
pub(super) fn titles(body: &Body, subjects: usize) -> Result<Vec<&str>, Error> {
    let Some(texts) = body.value("titles") else {
        return Ok(Vec::new());
    };
    let titles: Vec<&str> = texts.split(';').map(str::trim).collect();
    if titles.len() == subjects {
        return Ok(titles);
    }
    let count = titles.len();
    Err(Error::new(format!(
        "{count} titles for {subjects} subjects"
    )))
}

/// Two numbers in parentheses.
pub(super) fn pair(text: &str) -> Result<(i64, i64), Error> {
    let inside = text
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let numbers = inside.and_then(|inside| inside.split_once(','));
    let number = |text: &str| text.trim().parse().ok();
    numbers
        .and_then(|(a, b)| Some((number(a)?, number(b)?)))
        .ok_or_else(|| Error::new(format!("`{text}` is not a pair of numbers, as in (4,2)")))
}
