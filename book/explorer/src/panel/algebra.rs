//! The algebra: an operation on typed operands, its derivation, its result or its refusal, and their values linked.

use colex_draw::{ColorBy, LabelBy, Table};
use colex_layout::Layout;

use super::cute::Cute;
use super::operations::{Done, OPERATIONS, Operation, Second, computed};
use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Cells, Link, Reply, svg};

/// The most elements of a layout that is drawn.
const SHOWN: i64 = 1 << 12;

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
        }
        Err(error) => {
            reply.refusal = Some(error.to_string());
        }
    }
    if let Some(result) = done.layout() {
        reply.fact("size", result.size());
        reply.fact("cosize", said(result.cosize()));
    }
    reply.fact(
        "in CuTe C++",
        if operation.cpp.is_empty() {
            "no such operation"
        } else {
            operation.cpp
        },
    );
    match &done.cute {
        Some(Cute::Answers(text, wrong)) => {
            reply.fact("CuTe C++ answers", text);
            if let Some(wrong) = wrong {
                reply.fact("which is wrong", wrong);
            }
        }
        Some(Cute::Refuses(what)) => reply.fact("CuTe C++ refuses", what),
        Some(Cute::NotKnown(why)) => reply.fact("CuTe C++ answers", format!("not known: {why}")),
        None => {}
    }
    reply.text("Derivation", &done.derivation);
    copies(&mut reply, &done, &a, fields.text("b"), operation);
    views(&mut reply, name, &a, &done);
    Ok(reply)
}

fn said<T: ToString, E: ToString>(value: Result<T, E>) -> String {
    value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn copies(reply: &mut Reply, done: &Done, a: &Layout, b: &str, operation: &Operation) {
    let why = || match &done.result {
        Ok(_) => "the result is no layout".to_string(),
        Err(_) => "there is no result".to_string(),
    };
    let Operation {
        name, second, cpp, ..
    } = *operation;
    let arguments = &done.arguments;
    // What is always a layout has no error.
    let question = if matches!(name, "coalesce" | "filter") {
        ""
    } else {
        "?"
    };
    let rust = match name {
        "complement" if b.is_empty() => format!("let r = layout!({a}).complement_in_cosize()?;"),
        "tiles" | "domain_distribute" => {
            format!("let r = layout!({a}).shape().{name}({arguments})?;")
        }
        _ => format!("let r = layout!({a}).{name}({arguments}){question};"),
    };
    reply.copy("Rust", Ok::<_, Sentence>(rust));
    reply.copy("CuTe C++", cpp_call(second, cpp, a, b, done));
    let spelt = |language| match done.layout() {
        Some(result) => spell::plain(language, result).map_err(str::to_string),
        None => Err(why()),
    };
    reply.copy("CuTe C++ result", spelt(Language::Cpp));
    reply.copy("CuTe DSL result", spelt(Language::Python));
    let drawn = || done.layout().ok_or_else(why).and_then(small_table);
    reply.copy_later("LaTeX", || drawn().map(|table| table.latex()));
    reply.copy_later("SVG", || {
        drawn().map(|table| svg(table.picture(ColorBy::Cycle, LabelBy::Offset)))
    });
}

/// The call of an operation in C++.
fn cpp_call(
    second: Second,
    cpp: &str,
    a: &Layout,
    b: &str,
    done: &Done,
) -> Result<String, Sentence> {
    if cpp.is_empty() {
        return Err("CuTe C++ has no such operation".to_string());
    }
    let spelt = |layout: &Layout| spell::plain(Language::Cpp, layout).map_err(str::to_string);
    let a = spelt(a)?;
    let with_b = |b: String| Ok(format!("auto A = {a};\nauto B = {b};\nauto R = {cpp};"));
    match (second, &done.inner) {
        (Second::None, _) => Ok(format!("auto A = {a};\nauto R = {cpp};")),
        (Second::Layout, Some(b)) => with_b(spelt(b)?),
        (Second::Layout | Second::Tiler, _) => {
            with_b(spell::cpp_tiler(&read::tiler("B", b)?).map_err(str::to_string)?)
        }
        (Second::Shape, _) if b.is_empty() => Ok(format!(
            "auto A = {a};\nauto R = {};",
            cpp.replace(", B", "")
        )),
        (Second::Shape, _) => with_b(spell::cpp_shape(&read::typed("B", b)?)),
        (Second::Number, _) => {
            // A number is a template argument, or an integer that is one.
            let call = cpp.replace("<B>", &format!("<{b}>"));
            let call = call.replace("B)", &format!("Int<{b}>{{}})"));
            Ok(format!("auto A = {a};\nauto R = {call};"))
        }
        (Second::Coord, _) => with_b(format!("make_coord{}", nested(b))),
        (Second::Bits, _) => Err(format!(
            "the types of the elements are yours to name; the call is {cpp}"
        )),
    }
}

/// A coordinate whose inner tuples are made as the outer one is.
fn nested(place: &str) -> String {
    let place: String = place.split_whitespace().collect();
    match place.strip_prefix('(') {
        Some(rest) => format!("({}", rest.replace('(', "make_coord(")),
        None => format!("({place})"),
    }
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
        ("R", "Result", done.layout()),
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
            ("composition", _)
            | ("right_inverse" | "left_inverse" | "nullspace", "A")
            | ("coalesce" | "sum", _) => By::Index,
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
        reply.grid(id, &title, Cells::new(&grid, say, link).nested(layout));
    }
}
