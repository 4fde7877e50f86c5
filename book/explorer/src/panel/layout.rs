//! Layouts: the grid of offsets, the table, the memory that the offsets name, and what holds of the layout.

use std::collections::BTreeMap;

use colex_draw::{Cell, ColorBy, Fill, Grid, LabelBy, Picture, Table, print_latex, print_layout};
use colex_layout::{ComposedLayout, Error, IntTuple, Layout};
use serde_json::json;

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Cells, Link, Reply, svg, table};

/// The most elements of a layout that is shown.
const SHOWN: i64 = 1 << 12;
/// The most offsets of the memory that is shown.
const MEMORY: i64 = 1 << 12;
/// The columns of the memory: the banks of shared memory, for elements of 4 bytes.
const ROW: i64 = 32;

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let layout = read::composed("layout", fields.text("layout"))?;
    let color = color(fields.text("color"))?;
    let mut reply = Reply::of(fields, layout.to_string());
    facts(&mut reply, &layout);
    copies(&mut reply, &layout, color);
    if layout.size() > SHOWN {
        let why = format!(
            "it has {} elements, and the explorer draws {SHOWN} at most",
            layout.size()
        );
        reply.view(json!({"kind": "missing", "id": "grid", "title": "Offsets", "why": why}));
        return Ok(reply);
    }
    let fixed = layout
        .position_independent()
        .map_err(|error| error.to_string())?;
    if fixed.is_plain() && fixed.inner().has_coordinate_values() {
        coordinates(&mut reply, fixed.inner())?;
    } else {
        offsets(&mut reply, &fixed, color)?;
    }
    Ok(reply)
}

/// What the colours of the grid say.
fn color(text: &str) -> Result<ColorBy, Sentence> {
    Ok(match text {
        "" | "cycle" => ColorBy::Cycle,
        "offset" => ColorBy::Offset,
        "index" => ColorBy::Index,
        "bank8" => ColorBy::Bank(8),
        "bank16" => ColorBy::Bank(16),
        "bank32" => ColorBy::Bank(32),
        _ => return Err(format!("color: there is no colour by `{text}`")),
    })
}

fn facts(reply: &mut Reply, layout: &ComposedLayout) {
    let inner = layout.inner();
    reply.fact("shape", inner.shape());
    reply.fact("stride", inner.stride());
    reply.fact("size", layout.size());
    reply.fact("rank", layout.rank());
    reply.fact("depth", layout.depth());
    if !layout.is_plain() {
        reply.fact("outer function", layout.outer());
        reply.fact("offset", layout.middle());
        return;
    }
    if inner.has_coordinate_values() {
        reply.fact("coshape", said(inner.coshape()));
        return;
    }
    reply.fact("cosize", said(inner.cosize()));
    reply.fact("coalesced", inner.coalesce(..));
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    reply.fact("injective", said(inner.is_injective().map(yes)));
    reply.fact("contiguous", yes(inner.is_contiguous()));
}

/// The value, or the sentence why there is none.
fn said(value: Result<impl ToString, Error>) -> String {
    value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn copies(reply: &mut Reply, layout: &ComposedLayout, color: ColorBy) {
    reply.copy("Rust", Ok::<_, Sentence>(spell::rust(layout)));
    reply.copy("CuTe C++", spell::composed(Language::Cpp, layout));
    reply.copy("CuTe DSL", spell::composed(Language::Python, layout));
    reply.copy_later("Text table", || {
        small(layout).and_then(|()| text_table(layout))
    });
    reply.copy_later("LaTeX", || small(layout).and_then(|()| latex(layout)));
    reply.copy_later("SVG", || {
        small(layout).and_then(|()| picture(layout, color))
    });
}

fn small(layout: &ComposedLayout) -> Result<(), Sentence> {
    let size = layout.size();
    if size <= SHOWN {
        return Ok(());
    }
    Err(format!(
        "it has {size} elements, and the explorer draws {SHOWN} at most"
    ))
}

fn text_table(layout: &ComposedLayout) -> Result<String, Sentence> {
    print_layout(layout).map_err(|error| error.to_string())
}

fn latex(layout: &ComposedLayout) -> Result<String, Sentence> {
    if layout.is_plain() {
        return print_latex(layout.inner()).map_err(|error| error.to_string());
    }
    let table = Table::of(layout).map_err(|error| error.to_string())?;
    Ok(table.latex())
}

fn picture(layout: &ComposedLayout, color: ColorBy) -> Result<String, Sentence> {
    let picture = if layout.inner().has_coordinate_values() {
        Grid::of_coordinates(layout.inner()).map(Picture::of)
    } else {
        Table::of(layout).map(|table| table.picture(color, LabelBy::Offset))
    };
    picture.map(svg).map_err(|error| error.to_string())
}

/// The grid of a layout whose values are coordinates.
fn coordinates(reply: &mut Reply, layout: &Layout) -> Result<(), Sentence> {
    let grid = Grid::of_coordinates(layout).map_err(|error| error.to_string())?;
    let rows = grid.rows();
    let shape = layout.shape();
    let value = |index: i64| grid.cell(index % rows, index / rows).lines.join(" ");
    let say = |row, col| {
        let index = row + rows * col;
        format!("{} at {}", value(index), coordinate(&shape, index))
    };
    let link = |row, col| Link::key(row + rows * col);
    let cells = Cells::new(&grid, say, link).nested(layout)?;
    reply.grid("grid", "Values", Ok(cells));
    let size = layout.size() as usize;
    reply.view(table(
        "table",
        "Table",
        &["index", "coordinate", "value"],
        size,
        |index| {
            let index = index as i64;
            let cells = vec![index.to_string(), coordinate(&shape, index), value(index)];
            (cells, Link::key(index))
        },
    ));
    Ok(())
}

/// The natural coordinate of an index.
pub(crate) fn coordinate(shape: &IntTuple, index: i64) -> String {
    said(shape.coord(index))
}

/// The grid of offsets, the memory that they name, and the table.
fn offsets(reply: &mut Reply, layout: &ComposedLayout, color: ColorBy) -> Result<(), Sentence> {
    let drawn = Table::of(layout).map_err(|error| error.to_string())?;
    let (rows, shape) = (drawn.rows(), layout.shape());
    let grid = drawn.grid(color, LabelBy::Offset);
    let at = |index: i64| drawn.at(index % rows, index / rows);
    let say = |row, col| {
        let index = row + rows * col;
        format!(
            "offset {} at {}, index {index}",
            at(index),
            coordinate(&shape, index)
        )
    };
    let link = |row, col| Link::key(row + rows * col);
    let cells = Cells::new(&grid, say, link).nested(layout.inner())?;
    reply.grid("grid", "Offsets", Ok(cells));
    memory(reply, &drawn);
    let size = layout.size() as usize;
    reply.view(table(
        "table",
        "Table",
        &["index", "coordinate", "offset"],
        size,
        |index| {
            let index = index as i64;
            let cells = vec![
                index.to_string(),
                coordinate(&shape, index),
                at(index).to_string(),
            ];
            (cells, Link::key(index))
        },
    ));
    Ok(())
}

/// The memory from the least offset to the largest, in rows of 32 elements: which index each one is.
fn memory(reply: &mut Reply, drawn: &Table) {
    let (low, high) = drawn.range();
    let span = high.checked_sub(low).and_then(|span| span.checked_add(1));
    let Some(span) = span.filter(|span| *span <= MEMORY) else {
        let why = format!(
            "the offsets reach from {low} to {high}, and the explorer draws {MEMORY} at most"
        );
        reply.view(json!({"kind": "missing", "id": "memory", "title": "Memory", "why": why}));
        return;
    };
    let mut indices: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for index in 0..drawn.rows() * drawn.cols() {
        let offset = drawn.at(index % drawn.rows(), index / drawn.rows());
        indices.entry(offset).or_default().push(index);
    }
    let cols = span.min(ROW);
    let rows = (span + cols - 1) / cols;
    let offset = |row: i64, col: i64| low + row * cols + col;
    let none = Vec::new();
    let here = |row, col| indices.get(&offset(row, col)).unwrap_or(&none);
    let cell = |row, col| match here(row, col)[..] {
        [] => Cell::default().filled(Fill::Void),
        [index] => Cell::new([index.to_string()]).filled(Fill::pastel(offset(row, col))),
        [index, ..] => Cell::new([format!("{index}+")]).filled(Fill::pastel(offset(row, col))),
    };
    let grid = Grid::from_fn(rows, cols, cell).map_err(|error| error.to_string());
    let grid = match grid {
        Ok(grid) => grid,
        Err(why) => return reply.grid("memory", "Memory", Err(why)),
    };
    let say = |row, col| {
        let offset = offset(row, col);
        match &here(row, col)[..] {
            [] => format!("offset {offset}: no index"),
            [index] => format!("offset {offset}: index {index}"),
            several => {
                let shown: Vec<String> = several.iter().take(8).map(i64::to_string).collect();
                format!(
                    "offset {offset}: {} indices, {}",
                    several.len(),
                    shown.join(", ")
                )
            }
        }
    };
    let names = (0..rows).map(|row| offset(row, 0).to_string());
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, |row, col| {
            Link::keys(here(row, col).iter().copied())
        })
    };
    reply.grid(
        "memory",
        "Memory, from the least offset on: the index of each element",
        Ok(cells),
    );
}
