//! The algebra: an operation on typed operands, its derivation, its result or its refusal, and their values linked.

use colex_draw::{ColorBy, LabelBy, Table};
use colex_layout::{Error, Explanation, IntTuple, Layout};

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Cells, Link, Reply, svg};

/// The most elements of a layout that is drawn.
const SHOWN: i64 = 1 << 12;

/// An operation: its name here and in Rust, and what its second operand is.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) second: Second,
}

/// The second operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    None,
    Layout,
    Tiler,
    /// A shape; without one, the cosize of the first operand.
    Shape,
}

/// Every operation of the panel.
pub(crate) const OPERATIONS: [Operation; 15] = [
    operation("composition", Second::Layout),
    operation("complement", Second::Shape),
    operation("coalesce", Second::None),
    operation("right_inverse", Second::None),
    operation("left_inverse", Second::None),
    operation("logical_divide", Second::Tiler),
    operation("zipped_divide", Second::Tiler),
    operation("tiled_divide", Second::Tiler),
    operation("flat_divide", Second::Tiler),
    operation("logical_product", Second::Tiler),
    operation("zipped_product", Second::Tiler),
    operation("tiled_product", Second::Tiler),
    operation("flat_product", Second::Tiler),
    operation("blocked_product", Second::Layout),
    operation("raked_product", Second::Layout),
];

const fn operation(name: &'static str, second: Second) -> Operation {
    Operation { name, second }
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let name = fields.text("operation");
    let operation = OPERATIONS.iter().find(|operation| operation.name == name);
    let operation = operation.ok_or_else(|| format!("operation: there is no `{name}`"))?;
    let a = read::layout("A", fields.text("a"))?;
    let done = computed(operation, &a, fields.text("b"))?;
    let mut reply = Reply::of(fields, "no result");
    match &done.result {
        Ok(result) => {
            reply.title = result.to_string();
            reply.fact("result", result);
            reply.fact("size", result.size());
            reply.fact("cosize", said(result.cosize()));
        }
        Err(error) => {
            reply.refusal = Some(error.to_string());
        }
    }
    if let Some(inner) = &done.inner
        && name == "composition"
    {
        reply.fact("CuTe C++ answers", said(a.cute_composition(inner)));
    }
    if let Some(explanation) = &done.explanation {
        reply.text("Derivation", explanation.to_string().trim_end());
    }
    copies(&mut reply, &done, &a, fields.text("b"), name);
    views(&mut reply, name, &a, &done);
    Ok(reply)
}

/// What an operation came to.
struct Done {
    result: Result<Layout, Error>,
    /// The second operand, where it is a layout and no tiler.
    inner: Option<Layout>,
    explanation: Option<Explanation>,
}

fn computed(operation: &Operation, a: &Layout, b: &str) -> Result<Done, Sentence> {
    let done = |result, explanation| Done {
        result,
        inner: None,
        explanation,
    };
    let of_explanation =
        |explanation: Explanation| done(explanation.result.clone(), Some(explanation));
    Ok(match operation.second {
        Second::None => of_explanation(match operation.name {
            "coalesce" => a.explain_coalesce(),
            "right_inverse" => a.explain_right_inverse(),
            _ => a.explain_left_inverse(),
        }),
        Second::Shape if b.is_empty() => done(a.complement_in_cosize(), None),
        Second::Shape => of_explanation(a.explain_complement(read::typed::<IntTuple>("B", b)?)),
        // A tiler composes mode by mode.
        Second::Layout if operation.name == "composition" && b.starts_with('<') => {
            done(a.composition(&read::tiler("B", b)?), None)
        }
        Second::Layout => {
            let b = read::layout("B", b)?;
            let done = match operation.name {
                "composition" => of_explanation(a.explain_composition(&b)),
                "blocked_product" => done(a.blocked_product(&b), None),
                _ => done(a.raked_product(&b), None),
            };
            Done {
                inner: Some(b),
                ..done
            }
        }
        Second::Tiler => {
            let b = read::tiler("B", b)?;
            let divided = || Some(a.explain_logical_divide(&b));
            let multiplied = || Some(a.explain_logical_product(&b));
            match operation.name {
                "logical_divide" => done(a.logical_divide(&b), divided()),
                "zipped_divide" => done(a.zipped_divide(&b), divided()),
                "tiled_divide" => done(a.tiled_divide(&b), divided()),
                "flat_divide" => done(a.flat_divide(&b), divided()),
                "logical_product" => done(a.logical_product(&b), multiplied()),
                "zipped_product" => done(a.zipped_product(&b), multiplied()),
                "tiled_product" => done(a.tiled_product(&b), multiplied()),
                _ => done(a.flat_product(&b), multiplied()),
            }
        }
    })
}

fn said(value: Result<impl ToString, Error>) -> String {
    value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn copies(reply: &mut Reply, done: &Done, a: &Layout, b: &str, name: &str) {
    let why = || "there is no result".to_string();
    let rust = match (name, b) {
        (_, "") if name == "complement" => format!("let r = layout!({a}).complement_in_cosize()?;"),
        ("coalesce", _) => format!("let r = layout!({a}).coalesce(..);"),
        (_, "") => format!("let r = layout!({a}).{name}()?;"),
        _ => match &done.inner {
            Some(inner) => format!("let r = layout!({a}).{name}(layout!({inner}))?;"),
            None if name == "complement" => {
                format!("let r = layout!({a}).complement(int_tuple!({b}))?;")
            }
            None => format!("let r = layout!({a}).{name}(tiler!({b}))?;"),
        },
    };
    reply.copy("Rust", Ok::<_, Sentence>(rust));
    let spelt = |language| match &done.result {
        Ok(result) => spell::plain(language, result).map_err(str::to_string),
        Err(_) => Err(why()),
    };
    reply.copy("CuTe C++ result", spelt(Language::Cpp));
    reply.copy("CuTe DSL result", spelt(Language::Python));
    let drawn = || {
        done.result
            .as_ref()
            .map_err(|_| why())
            .and_then(small_table)
    };
    reply.copy_later("LaTeX", || drawn().map(|table| table.latex()));
    reply.copy_later("SVG", || {
        drawn().map(|table| svg(table.picture(ColorBy::Cycle, LabelBy::Offset)))
    });
}

fn small_table(layout: &Layout) -> Result<Table, Sentence> {
    if layout.size() > SHOWN {
        return Err(format!(
            "it has {} elements, and the explorer draws {SHOWN} at most",
            layout.size()
        ));
    }
    Table::of(layout).map_err(|error| error.to_string())
}

/// How the cells of a layout are linked: by the index that each is, by its value, or by what it is of another layout.
#[derive(Clone, Copy)]
enum By {
    Index,
    Value,
}

/// The operands and the result as grids. The values of a composition are linked with the cell of B that they come from
/// and the cell of A where they are read; those of an inverse with the index that they name; all others by offset.
fn views(reply: &mut Reply, name: &str, a: &Layout, done: &Done) {
    let tables = [
        ("R", "Result", done.result.as_ref().ok()),
        ("A", "A", Some(a)),
        ("B", "B", done.inner.as_ref()),
    ];
    let values = |layout: &Layout| {
        small_table(layout)
            .ok()
            .map(|_| layout.table().unwrap_or_default())
    };
    let of_b = (name == "composition")
        .then(|| done.inner.as_ref().and_then(values))
        .flatten();
    for (id, title, layout) in tables {
        let Some(layout) = layout else { continue };
        let title = format!("{title}: {layout}");
        let table = match small_table(layout) {
            Ok(table) => table,
            Err(why) => {
                reply.grid(id, &title, Err(why));
                continue;
            }
        };
        let by = match (name, id) {
            ("composition", _) | ("right_inverse" | "left_inverse", "A") | ("coalesce", _) => {
                By::Index
            }
            _ => By::Value,
        };
        let (rows, shape) = (table.rows(), layout.shape());
        let grid = table.grid(ColorBy::Cycle, LabelBy::Offset);
        let say = |row, col| {
            let (index, value) = (row + rows * col, table.at(row, col));
            format!(
                "{id}: {value} at {}, index {index}",
                super::layout::coordinate(&shape, index)
            )
        };
        let link = |row, col| {
            let index = row + rows * col;
            match (id, &of_b) {
                // The cell of A with index B(c) belongs to every such c.
                ("A", Some(of_b)) => {
                    let places = of_b
                        .iter()
                        .enumerate()
                        .filter(|(_, value)| **value == index);
                    Link::keys(places.map(|(c, _)| c as i64).take(64))
                }
                _ => match by {
                    By::Index => Link::key(index),
                    By::Value => Link::key(table.at(row, col)),
                },
            }
        };
        reply.grid(id, &title, Ok(Cells::new(&grid, say, link)));
    }
}
