//! The operations of the algebra: what each needs, its definition, how CuTe C++ spells it, and its result.

use std::fmt::{self, Display};

use colex_layout::{Coord, Error, Explanation, IntTuple, Layout, LayoutLeft, Tiler};

use super::cute::{self, Cute, SecondOperand};
use crate::fields::Sentence;
use crate::read;

/// An operation.
pub(crate) struct Operation {
    /// Its name here and in Rust.
    pub(crate) name: &'static str,
    pub(crate) second: Second,
    /// The definition in terms of A and B.
    formula: &'static str,
    /// How CuTe C++ spells it, or nothing where CuTe has no such operation.
    pub(crate) cpp: &'static str,
}

/// The second operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    None,
    Layout,
    Tiler,
    /// A shape or strides; a complement without one is that in the cosize of the first operand.
    Shape,
    Number,
    /// The bits of an old and of a new element, as in `(16,32)`.
    Bits,
    /// A coordinate with `_` for the modes that stay.
    Coord,
}

use Second::{Bits, Coord as Place, Layout as Other, None as Alone, Number, Shape, Tiler as Cut};

const fn operation(
    name: &'static str,
    second: Second,
    formula: &'static str,
    cpp: &'static str,
) -> Operation {
    Operation {
        name,
        second,
        formula,
        cpp,
    }
}

/// Every operation of the panel.
#[rustfmt::skip]
pub(crate) const OPERATIONS: [Operation; 37] = [
    operation("composition", Other, "(A o B)(c) = A(B(c))", "composition(A, B)"),
    operation("complement", Shape, "the offsets below B that A skips", "complement(A, B)"),
    operation("coalesce", Alone, "the fewest modes of the same function", "coalesce(A)"),
    operation("right_inverse", Alone, "A(R(i)) = i", "right_inverse(A)"),
    operation("left_inverse", Alone, "R(A(i)) = i", "left_inverse(A)"),
    operation("logical_divide", Cut, "A / B = A o (B, complement of B)", "logical_divide(A, B)"),
    operation("zipped_divide", Cut, "A / B with the tiles in mode 0 and the rests in mode 1", "zipped_divide(A, B)"),
    operation("tiled_divide", Cut, "zipped_divide(A, B) with the modes of the rests beside the tile", "tiled_divide(A, B)"),
    operation("flat_divide", Cut, "zipped_divide(A, B) with all modes side by side", "flat_divide(A, B)"),
    operation("logical_divide_exact", Cut, "A / B, where B divides A without a rest", ""),
    operation("logical_product", Cut, "A * B = (A, complement of A o B)", "logical_product(A, B)"),
    operation("zipped_product", Cut, "A * B with the blocks in mode 0 and the copies in mode 1", "zipped_product(A, B)"),
    operation("tiled_product", Cut, "zipped_product(A, B) with the modes of the copies beside the block", "tiled_product(A, B)"),
    operation("flat_product", Cut, "zipped_product(A, B) with all modes side by side", "flat_product(A, B)"),
    operation("blocked_product", Other, "A * B, mode by mode: the block first, then its copies", "blocked_product(A, B)"),
    operation("raked_product", Other, "A * B, mode by mode: the copies first, then the block", "raked_product(A, B)"),
    operation("tile_to_shape", Shape, "A repeated until it has the shape B, along mode 0 first", "tile_to_shape(A, B)"),
    operation("tile_unzip", Cut, "the first halves of the modes that B names in mode 0, the second in mode 1", "tile_unzip(A, B)"),
    operation("tiles", Cut, "the number of tiles B along each mode of the shape of A, rounded up", "ceil_div(shape(A), B)"),
    operation("nullspace", Alone, "A(N(i)) = 0: the modes of stride 0, where their indices are", "nullspace(A)"),
    operation("max_common_layout", Other, "the longest R with A(R(i)) = B(R(i)) = i", "max_common_layout(A, B)"),
    operation("max_common_vector", Other, "the size of the longest R with A(R(i)) = B(R(i)) = i", "max_common_vector(A, B)"),
    operation("sum", Other, "(A + B)(i) = A(i) + B(i)", ""),
    operation("greatest_common_domain", Other, "the coarsest shape that both shapes refine to", ""),
    operation("domain_distribute", Number, "up to B indices of the shape of A, taken from each mode by greatest common divisors", "domain_distribute(shape(A), B)"),
    operation("upcast", Number, "units of B elements: the unit of each element, once", "upcast<B>(A)"),
    operation("upcast_exact", Number, "upcast(A, B), where every unit is used whole", ""),
    operation("downcast", Number, "each element becomes B smaller ones", "downcast<B>(A)"),
    operation("recast", Bits, "the same memory in elements of other bits", "recast_layout<Old, New>(A)"),
    operation("recast_exact", Bits, "recast(A, old, new), where every new element is used whole", ""),
    operation("max_alignment", Alone, "the most elements n such that the offsets are those of whole aligned vectors of n", "max_alignment(A)"),
    operation("filter", Alone, "coalesce(filter_zeros(A))", "filter(A)"),
    operation("layout_like", Alone, "a compact layout with the order of the strides of A", "make_layout_like(A)"),
    operation("fragment_like", Alone, "a compact layout of registers: mode 0 first, then the order of the strides of A", "make_fragment_like(A)"),
    operation("inner_product", Shape, "the coordinate values of A times the strides B", ""),
    operation("slice", Place, "the modes of A where B has _", "slice(B, A)"),
    operation("dice", Place, "the modes of A where B has a number", "dice(B, A)"),
];

/// What an operation returns.
pub(crate) enum Value {
    Layout(Box<Layout>),
    Shape(Box<IntTuple>),
    Number(i64),
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(layout) => layout.fmt(f),
            Self::Shape(shape) => shape.fmt(f),
            Self::Number(n) => n.fmt(f),
        }
    }
}

impl From<Layout> for Value {
    fn from(layout: Layout) -> Self {
        Self::Layout(layout.into())
    }
}

impl From<IntTuple> for Value {
    fn from(shape: IntTuple) -> Self {
        Self::Shape(shape.into())
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Number(n)
    }
}

/// What an operation came to.
pub(crate) struct Done {
    pub(crate) result: Result<Value, Error>,
    /// The second operand, where it is a layout and no tiler.
    pub(crate) inner: Option<Layout>,
    pub(crate) derivation: String,
    /// What CuTe C++ answers, where it has the operation.
    pub(crate) cute: Option<Cute>,
    /// The arguments in Rust.
    pub(crate) arguments: String,
}

impl Done {
    /// The result, where it is a layout.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        match &self.result {
            Ok(Value::Layout(layout)) => Some(layout),
            Ok(Value::Shape(_) | Value::Number(_)) | Err(_) => None,
        }
    }
}

impl Done {
    /// With what CuTe C++ answers to the operation.
    fn beside_cute(self, operation: &Operation, a: &Layout, b: &SecondOperand<'_>) -> Self {
        let cute = cute::answer(operation, a, b, &self.result);
        Self { cute, ..self }
    }
}

/// Computes an operation.
pub(crate) fn computed(operation: &Operation, a: &Layout, b: &str) -> Result<Done, Sentence> {
    match operation.second {
        Alone => Ok(alone(operation, a).beside_cute(operation, a, &SecondOperand::None)),
        Shape if operation.name == "complement" && b.is_empty() => {
            let steps = [("the cosize of A", a.cosize().map(|n| n.to_string()))];
            let result = a.complement_in_cosize();
            let done = by_formula(operation, &steps, result, "");
            Ok(done.beside_cute(operation, a, &SecondOperand::None))
        }
        Shape => {
            let b = read::typed("B", b)?;
            let done = with_shape(operation, a, &b)?;
            Ok(done.beside_cute(operation, a, &SecondOperand::Shape(&b)))
        }
        // A tiler composes mode by mode.
        Other if operation.name == "composition" && b.starts_with('<') => {
            let tiler = read::tiler("B", b)?;
            let result = a.composition(&tiler);
            let done = by_formula(operation, &[], result, format!("tiler!({tiler})"));
            Ok(done.beside_cute(operation, a, &SecondOperand::Tiler(&tiler)))
        }
        Other => {
            let b = read::layout("B", b)?;
            let done = with_layout(operation, a, b.clone());
            Ok(done.beside_cute(operation, a, &SecondOperand::Layout(&b)))
        }
        Cut => {
            let b = read::tiler("B", b)?;
            let done = with_tiler(operation, a, &b);
            Ok(done.beside_cute(operation, a, &SecondOperand::Tiler(&b)))
        }
        Number => {
            let n = read::number("B", b, 0, i64::MAX)?;
            let result = match operation.name {
                "domain_distribute" => a.shape().domain_distribute(n),
                "upcast" => a.upcast(n),
                "upcast_exact" => a.upcast_exact(n),
                _ => a.downcast(n),
            };
            let done = by_formula(operation, &[], result, n);
            Ok(done.beside_cute(operation, a, &SecondOperand::Number(n)))
        }
        Bits => {
            let (old, new) = bits(b)?;
            let result = match operation.name {
                "recast" => a.recast(old, new),
                _ => a.recast_exact(old, new),
            };
            let done = by_formula(operation, &[], result, format!("{old}, {new}"));
            Ok(done.beside_cute(operation, a, &SecondOperand::Bits(old, new)))
        }
        Place => {
            let place: Coord = read::typed("B", b)?;
            let (result, steps) = match operation.name {
                "slice" => {
                    let offset = a.slice_and_offset(&place).map(|(_, at)| at.to_string());
                    (
                        a.slice(&place),
                        vec![("the offset of the fixed modes", offset)],
                    )
                }
                _ => (a.dice(&place), Vec::new()),
            };
            let arguments = format!("\"{place}\".parse::<Coord>()?");
            let done = by_formula(operation, &steps, result, arguments);
            Ok(done.beside_cute(operation, a, &SecondOperand::None))
        }
    }
}

/// Reads two numbers of bits as in `(16,32)`.
fn bits(text: &str) -> Result<(i64, i64), Sentence> {
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let parts = inner.and_then(|inner| inner.split_once(','));
    let Some((old, new)) = parts else {
        let shown: String = text.chars().take(24).collect();
        return Err(format!(
            "B: `{shown}` is not a pair of bits such as (16,32)"
        ));
    };
    let number = |text: &str| read::number("B", text.trim(), 1, 1 << 20);
    Ok((number(old)?, number(new)?))
}

/// A value of a derivation: its name, and what it is.
type Part<'a> = (&'a str, Result<String, Error>);

/// An operation that is said by its definition and the values on the way.
fn by_formula(
    operation: &Operation,
    steps: &[Part<'_>],
    result: Result<impl Into<Value>, Error>,
    arguments: impl Display,
) -> Done {
    let result = result.map(Into::into);
    let mut derivation = format!("{}: {}", operation.name, operation.formula);
    for (name, value) in steps {
        derivation += &match value {
            Ok(value) => format!("\n  {name} = {value}"),
            Err(error) => format!("\n  {name}: {error}"),
        };
    }
    derivation += &match &result {
        Ok(value) => format!("\n  = {value}"),
        Err(error) => format!("\n  refused: {error}"),
    };
    Done {
        result,
        inner: None,
        derivation,
        cute: None,
        arguments: arguments.to_string(),
    }
}

/// An operation whose derivation the library has.
fn explained(explanation: Explanation, arguments: impl Display) -> Done {
    Done {
        derivation: explanation.to_string().trim_end().to_string(),
        result: explanation.result.map(Value::from),
        inner: None,
        cute: None,
        arguments: arguments.to_string(),
    }
}

fn alone(operation: &Operation, a: &Layout) -> Done {
    let of = |steps: &[Part<'_>], result: Result<Layout, Error>| {
        by_formula(operation, steps, result, "")
    };
    match operation.name {
        "coalesce" => explained(a.explain_coalesce(), ".."),
        "right_inverse" => explained(a.explain_right_inverse(), ""),
        "left_inverse" => explained(a.explain_left_inverse(), ""),
        "nullspace" => {
            let places = Layout::column_major(a.shape().flatten()).map(|l| l.to_string());
            of(&[("the indices of the modes", places)], a.nullspace())
        }
        "filter" => {
            let steps = [("filter_zeros(A)", Ok(a.filter_zeros().to_string()))];
            by_formula(operation, &steps, Ok(a.filter(..)), "..")
        }
        "layout_like" => of(&[], a.layout_like()),
        "fragment_like" => of(&[], a.fragment_like()),
        _ => by_formula(operation, &[], a.max_alignment(), ""),
    }
}

fn with_shape(operation: &Operation, a: &Layout, b: &IntTuple) -> Result<Done, Sentence> {
    let arguments = format!("int_tuple!({b})");
    if b.leaves().len() > 32 {
        return Err(format!(
            "B: it has {} modes, and the explorer takes 32 at most",
            b.leaves().len()
        ));
    }
    Ok(match operation.name {
        "complement" => explained(a.explain_complement(b), arguments),
        "inner_product" => by_formula(operation, &[], a.inner_product(b), arguments),
        _ => {
            let sizes: Vec<String> = a.modes().map(|mode| mode.size().to_string()).collect();
            let steps = [("the extents of A", Ok(format!("({})", sizes.join(","))))];
            let result = a.tile_to_shape(b, LayoutLeft);
            by_formula(
                operation,
                &steps,
                result,
                format!("{arguments}, LayoutLeft"),
            )
        }
    })
}

fn with_layout(operation: &Operation, a: &Layout, b: Layout) -> Done {
    let arguments = format!("layout!({b})");
    let common = || {
        let inverse = b.right_inverse();
        let run = inverse.clone().and_then(|inverse| a.composition(&inverse));
        [
            ("right_inverse(B)", inverse.map(|l| l.to_string())),
            (
                "coalesce(A o right_inverse(B))",
                run.map(|l| l.coalesce(..).to_string()),
            ),
        ]
    };
    let product = || {
        let steps = a.logical_product(&b).map(|l| l.to_string());
        [("A * B", steps)]
    };
    let done = match operation.name {
        "composition" => explained(a.explain_composition(&b), arguments),
        "blocked_product" => by_formula(operation, &product(), a.blocked_product(&b), arguments),
        "raked_product" => by_formula(operation, &product(), a.raked_product(&b), arguments),
        "max_common_layout" => by_formula(operation, &common(), a.max_common_layout(&b), arguments),
        "max_common_vector" => by_formula(operation, &common(), a.max_common_vector(&b), arguments),
        "sum" => {
            let domain = a.greatest_common_domain(&b).map(|shape| shape.to_string());
            let steps = [("the greatest common domain", domain)];
            by_formula(operation, &steps, a.sum(&b), arguments)
        }
        _ => by_formula(operation, &[], a.greatest_common_domain(&b), arguments),
    };
    Done {
        inner: Some(b),
        ..done
    }
}

fn with_tiler(operation: &Operation, a: &Layout, b: &Tiler) -> Done {
    let arguments = format!("tiler!({b})");
    let divided = |result: Result<Layout, Error>| Done {
        result: result.map(Value::from),
        ..explained(a.explain_logical_divide(b), &arguments)
    };
    let multiplied = |result: Result<Layout, Error>| Done {
        result: result.map(Value::from),
        ..explained(a.explain_logical_product(b), &arguments)
    };
    match operation.name {
        "logical_divide" => divided(a.logical_divide(b)),
        "zipped_divide" => divided(a.zipped_divide(b)),
        "tiled_divide" => divided(a.tiled_divide(b)),
        "flat_divide" => divided(a.flat_divide(b)),
        "logical_divide_exact" => divided(a.logical_divide_exact(b)),
        "logical_product" => multiplied(a.logical_product(b)),
        "zipped_product" => multiplied(a.zipped_product(b)),
        "tiled_product" => multiplied(a.tiled_product(b)),
        "flat_product" => multiplied(a.flat_product(b)),
        "tile_unzip" => by_formula(operation, &[], a.tile_unzip(b), arguments),
        _ => {
            let steps = [("the shape of A", Ok(a.shape().to_string()))];
            by_formula(operation, &steps, a.shape().tiles(b), arguments)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The page's list of operations is this one, with a field for the second operand where there is one.
    #[test]
    fn the_page_offers_every_operation() {
        let script = include_str!("../../../theme/explorer/panels.js");
        let list = script
            .split_once("explorer.OPERATIONS = {")
            .expect("a list")
            .1;
        let list = list.split_once("};").expect("its end").0;
        let offered: Vec<(&str, &str)> = list
            .split(',')
            .filter_map(|entry| entry.split_once(':'))
            .map(|(name, second)| (name.trim(), second.trim()))
            .collect();
        let names: Vec<&str> = offered.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, OPERATIONS.map(|operation| operation.name));
        for (operation, (name, second)) in OPERATIONS.iter().zip(&offered) {
            assert_eq!(operation.second == Alone, *second == "null", "{name}");
        }
    }

    /// Every public operation of the algebra that returns a layout, a shape or a number is one of the panel.
    #[test]
    fn every_public_operation_is_here() {
        let sources = [
            include_str!("../../../../layout/src/algebra/complement.rs"),
            include_str!("../../../../layout/src/algebra/composition.rs"),
            include_str!("../../../../layout/src/algebra/divide.rs"),
            include_str!("../../../../layout/src/algebra/domain.rs"),
            include_str!("../../../../layout/src/algebra/infer.rs"),
            include_str!("../../../../layout/src/algebra/inverse.rs"),
            include_str!("../../../../layout/src/algebra/product.rs"),
            include_str!("../../../../layout/src/algebra/recast.rs"),
            include_str!("../../../../layout/src/layout/coalesce.rs"),
        ];
        // Those that take a program, or answer yes or no, or are a form or a part of one that is here.
        let others = BTreeSet::from([
            "complement_in_cosize", // `complement` without B
            "cute_composition",     // a fact of `composition`
            "evenly_divides",
            "is_divided_by",
            "infer",
            "infer_modes",
            "infer_with",
            "filter_zeros", // a step of `filter`
        ]);
        let mut names = BTreeSet::new();
        for source in sources {
            let public = source.split("\n    pub fn ").skip(1);
            names.extend(public.filter_map(|text| text.split(['(', '<']).next()));
        }
        let here: BTreeSet<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        let missing: Vec<&&str> = names
            .iter()
            .filter(|name| !here.contains(**name) && !others.contains(**name))
            .collect();
        assert!(names.len() > 30 && missing.is_empty(), "{missing:?}");
    }
}
