//! What CuTe prints, byte for byte: text grids, lines of tensors, LaTeX and SVG.
//!
//! The arguments describe an object in words, and the object is built from them: atoms and tiled operations in
//! `print_tiled.rs`.

use colex_draw::Table;
use colex_layout::{Basis, ComposedLayout, Int, IntTuple, Layout, Slot};

use super::case::shortened;
use super::{Case, Op, Tried, Verdict, print_tiled};

pub(super) const FAMILIES: &[&[Op]] = &[&[
    Op::own("print", print),
    Op::own("print_layout", print_layout),
    Op::own("print_latex", print_latex),
    Op::own("print_svg", print_svg),
    Op::own("print_tensor_body", print_tensor_body),
]];

/// An answer, `None` for what this library has no object for: pointers with their addresses.
pub(super) type PrintedAnswer = Tried<Option<String>>;

fn print(case: &Case) -> Verdict {
    judge(case, |words| {
        if words.starts_with("Sw<") {
            return Ok(Some(composed(words)?.heading().into()));
        }
        if let Some(shape) = words.strip_prefix("identity_tensor dynamic ") {
            return coordinates(shape);
        }
        let plain = value(words)?.or(layout(words)?.map(|layout| layout.to_string()));
        match plain {
            Some(text) => Ok(Some(text)),
            None => print_tiled::print(words),
        }
    })
}

/// The tensor of the coordinates of a shape.
fn coordinates(shape: &str) -> PrintedAnswer {
    let shape: IntTuple = shape.parse()?;
    let start = shape.repeat_like(Int::Static(0));
    let layout = Layout::identity(shape)?;
    Ok(Some(format!("ArithTuple{start} o {layout}")))
}

/// The text of an integer, a basis vector, a shape or `_`.
fn value(words: &str) -> PrintedAnswer {
    let between = |open, close| words.strip_prefix(open)?.strip_suffix(close);
    let number = |text: &str| text.parse::<i64>();
    if let Some(n) = between("Int<", ">") {
        return Ok(Some(Int::Static(number(n)?).to_string()));
    }
    if let Some(path) = between("E<", ">") {
        let path: Result<Vec<usize>, _> = path.split(',').map(str::parse).collect();
        let basis = Basis::new(Int::Static(1), &path?);
        return Ok(Some(basis?.to_string()));
    }
    if let Some(shape) = between("Shape ", " mixed") {
        let shape: IntTuple = shape.parse()?;
        return Ok(Some(shape.to_string()));
    }
    if let Some(n) = words.strip_prefix("int ") {
        return Ok(Some(Int::Dynamic(number(n)?).to_string()));
    }
    Ok((words == "Underscore").then(|| Slot::All.to_string()))
}

fn print_layout(case: &Case) -> Verdict {
    judge(case, |words| {
        if words.starts_with("Sw<") {
            return Ok(Some(composed(words)?.text()));
        }
        let Some(layout) = layout(words)? else {
            return Ok(None);
        };
        colex_draw::print_layout(&layout)
            .map(Some)
            .map_err(Into::into)
    })
}

fn print_latex(case: &Case) -> Verdict {
    judge(case, |words| match layout(words)? {
        Some(layout) => colex_draw::print_latex(&layout)
            .map(Some)
            .map_err(Into::into),
        None => print_tiled::latex(words),
    })
}

fn print_svg(case: &Case) -> Verdict {
    judge(case, print_tiled::svg)
}

/// `TYPE SHAPE:STRIDE values i*FACTOR-LESS`, where `i` is the offset; the factor and the rest may have fractions.
fn print_tensor_body(case: &Case) -> Verdict {
    judge(case, |words| {
        let parts = words
            .split_once(' ')
            .and_then(|(ty, rest)| Some((ty, rest.split_once(" values i")?)));
        let (ty, (layout, formula)) = parts.ok_or("the words are not `TYPE LAYOUT values i..`")?;
        let (factor, rest) = match formula.strip_prefix('*') {
            None => ("1", formula),
            Some(times) => times.split_at(times.find(['-', '+']).unwrap_or(times.len())),
        };
        let number = |text: &str| text.parse::<f64>().map_err(|error| error.to_string());
        let (factor, rest) = (
            number(factor)?,
            if rest.is_empty() { 0.0 } else { number(rest)? },
        );
        let shown = shown(ty).ok_or_else(|| format!("a type `{ty}`, which no case names"))?;
        let layout: Layout = layout.parse()?;
        colex_draw::print_tensor(&layout, |i| shown(i as f64 * factor + rest))
            .map(Some)
            .map_err(Into::into)
    })
}

/// How a value of a type stands in a printed tensor. Source: `cute/util/print_tensor.hpp`, `cute/numeric/numeric_types.hpp`.
fn shown(ty: &str) -> Option<fn(f64) -> String> {
    Some(match ty {
        "int" | "int32_t" | "uint32_t" | "int64_t" | "uint64_t" => |v| format!("{v:>5.0}"),
        "bool" => |v| format!("{:>3}", u8::from(v != 0.0)),
        "half" | "half_t" | "bfloat16_t" | "float_e4m3_t" | "float_e5m2_t" => {
            |v| format!("{v:>8.2}")
        }
        "float" | "double" | "tf32" | "tfloat32_t" => |v| format!("{:>10}", exponential(v)),
        _ => return None,
    })
}

/// A number as C prints it with `%.2e`: the exponent has a sign and two digits at least.
fn exponential(value: f64) -> String {
    let text = format!("{value:.2e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Compares every byte.
fn judge(case: &Case, answer: impl Fn(&str) -> PrintedAnswer) -> Verdict {
    let words = match case.text(0) {
        Ok(words) => words,
        Err(error) => return Verdict::Failed(error),
    };
    let ours = match answer(&words) {
        Ok(Some(ours)) => ours,
        Ok(None) => return Verdict::NotYet("print of pointers".into()),
        Err(error) => return Verdict::Failed(error.0),
    };
    let theirs = case.result.as_str().unwrap_or_default();
    if ours == theirs {
        return Verdict::Equal;
    }
    let lines = ours.lines().zip(theirs.lines());
    let differs = lines.enumerate().find(|(_, (ours, theirs))| ours != theirs);
    Verdict::Failed(match differs {
        Some((at, (ours, theirs))) => {
            format!(
                "line {} is `{}`, CuTe's `{}`",
                at + 1,
                shortened(ours),
                shortened(theirs)
            )
        }
        None => format!("{} bytes, CuTe's {}", ours.len(), theirs.len()),
    })
}

/// The layout of `Layout X`, static unless the words say otherwise; `None` for other objects.
fn layout(words: &str) -> Tried<Option<Layout>> {
    let Some(text) = words.strip_prefix("Layout ") else {
        return Ok(None);
    };
    let (text, is_static) = match text.split_once(' ') {
        Some(("dynamic" | "mixed", text)) => (text, false),
        _ => (text, true),
    };
    let layout: Layout = text.parse()?;
    Ok(Some(if is_static {
        layout.to_static()
    } else {
        layout
    }))
}

/// The table of a composed layout, all of it static.
fn composed(words: &str) -> Tried<Table> {
    let layout: ComposedLayout = words.parse()?;
    let inner = layout.inner().to_static();
    let layout = ComposedLayout::new(layout.outer().clone(), layout.base_offset(), inner)?;
    Table::of(&layout).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(op: &str, words: &str, result: &str) -> Case {
        Case {
            op: op.into(),
            args: vec![json!(words)],
            result: json!(result),
            post: None,
            place: "a:1".into(),
        }
    }

    #[test]
    fn every_byte_counts() {
        let case = |result| case("print_tensor_body", "int 2:1 values i*10-1", result);
        assert_eq!(print_tensor_body(&case("   -1\n    9\n")), Verdict::Equal);
        let failed = |sentence: &str| Verdict::Failed(sentence.into());
        assert_eq!(
            print_tensor_body(&case("   -1\n   9\n")),
            failed("line 2 is `    9`, CuTe's `   9`")
        );
        assert_eq!(
            print_tensor_body(&case("   -1\n    9")),
            failed("12 bytes, CuTe's 11")
        );
    }

    /// Derived from the `printf` formats of the headers; not computed by CuTe.
    #[test]
    fn values_may_have_fractions() {
        let case = |words, result| print_tensor_body(&case("print_tensor_body", words, result));
        assert_eq!(
            case(
                "half_t (2,2):(1,2) values i*0.5-1",
                "   -1.00    0.00\n   -0.50    0.50\n"
            ),
            Verdict::Equal
        );
        assert_eq!(
            case(
                "float 3:1 values i*1000+0.25",
                "  2.50e-01\n  1.00e+03\n  2.00e+03\n"
            ),
            Verdict::Equal
        );
        assert_eq!(case("int 2:3 values i", "    0\n    3\n"), Verdict::Equal);
        assert_eq!(
            case("word 2:3 values i", ""),
            Verdict::Failed("a type `word`, which no case names".into())
        );
    }

    #[test]
    fn words_name_layouts() {
        let text = |words| layout(words).map(|it| it.map(|layout| layout.to_string()));
        assert_eq!(
            text("Layout (4,1):(1,0)"),
            Ok(Some("(_4,_1):(_1,_0)".into()))
        );
        assert_eq!(text("Layout dynamic 4:1"), Ok(Some("4:1".into())));
        assert_eq!(
            text("Layout mixed (4,_8):(_1,4)"),
            Ok(Some("(4,_8):(_1,4)".into()))
        );
        assert_eq!(text("MMA_Atom X"), Ok(None));
    }
}
