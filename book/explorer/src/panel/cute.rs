//! What CuTe C++ answers to an operation of the algebra, by CuTe's own rules, for static integers.
//!
//! CuTe's results of version 4.7.0 that come with the repository confirm each rule: the law
//! `the_panel_says_what_cute_answers` compares this module with all of them. What they do not cover is not known here, and
//! the panel says so.

use colex_layout::{Error, IntTuple, Layout, Refusal, Stride, Tiler, Unbounded};

use super::operations::{Operation, Second, Value};

/// The most elements of a layout that is compared with the truth.
const COMPARED: i64 = 1 << 12;

/// What CuTe C++ does with an operation.
pub(crate) enum Cute {
    /// It returns this text; with it, where the answer breaks the law of the operation.
    Answers(String, Option<String>),
    /// It does not compile.
    Refuses(String),
    /// Nothing is known of this case.
    NotKnown(&'static str),
}

/// The second operand, as CuTe takes it.
pub(crate) enum SecondOperand<'a> {
    /// There is none, or it is a shape or a coordinate, which no rule here reads.
    None,
    Layout(&'a Layout),
    Tiler(&'a Tiler),
    Shape(&'a IntTuple),
    Number(i64),
    Bits(i64, i64),
}

/// Why no rule here returns a layout.
enum Why {
    Refused(String),
    NotKnown(&'static str),
    /// CuTe's results are Colex's in all cases where both have one.
    AsColex,
}

type Answer = Result<Layout, Why>;

const NOT_RUN: &str = "CuTe's results that the repository has do not cover this case";
const OVERLAPS: &str = "Non-injective Layout detected in complement.";

fn refused<T>(what: &str) -> Result<T, Why> {
    Err(Why::Refused(what.to_string()))
}

/// What the library refuses for a reason that is not CuTe's.
fn not_known(_: Error) -> Why {
    Why::NotKnown(NOT_RUN)
}

/// Returns what CuTe C++ answers, or nothing where it has no such operation. `ours` is what Colex answers.
pub(crate) fn answer(
    operation: &Operation,
    a: &Layout,
    b: &SecondOperand<'_>,
    ours: &Result<Value, Error>,
) -> Option<Cute> {
    if operation.cpp.is_empty() {
        return None;
    }
    let mut wrong = None;
    let answer = known(operation, a, b).and_then(|()| layout(operation, a, b, ours, &mut wrong));
    let bare = |text: String| text.replace('_', "");
    Some(match (answer, ours) {
        (Ok(answer), ours) => {
            let differs =
                matches!(ours, Ok(Value::Layout(ours)) if !ours.is_same_function(&answer));
            if wrong.is_none() && differs {
                wrong = Some("the result above obeys the law of the operation".to_string());
            }
            Cute::Answers(bare(answer.to_string()), wrong)
        }
        (Err(Why::AsColex), Ok(value)) => Cute::Answers(bare(value.to_string()), None),
        (Err(Why::AsColex), Err(_)) => Cute::NotKnown(NOT_RUN),
        (Err(Why::Refused(what)), _) => Cute::Refuses(what),
        (Err(Why::NotKnown(what)), _) => Cute::NotKnown(what),
    })
}

/// Whether CuTe's rules are known for the strides of the operands.
fn known(operation: &Operation, a: &Layout, b: &SecondOperand<'_>) -> Result<(), Why> {
    let of_b = match b {
        SecondOperand::Layout(b) => b.to_string(),
        SecondOperand::Tiler(b) => b.to_string(),
        _ => String::new(),
    };
    let of_a = a.to_string();
    if of_a.contains('^') || of_b.contains('^') {
        return Err(Why::NotKnown("CuTe has no XOR strides"));
    }
    let by_coordinate = matches!(
        operation.name,
        "composition" | "logical_divide" | "zipped_divide" | "tiled_divide" | "flat_divide"
    );
    let with_signs = matches!(operation.name, "composition" | "coalesce");
    let is_seen = !of_b.contains('@')
        && (by_coordinate || !of_a.contains('@'))
        && (with_signs || !of_a.contains('-') && !of_b.contains('-'));
    if is_seen {
        Ok(())
    } else {
        Err(Why::NotKnown(NOT_RUN))
    }
}

/// CuTe's layout, where it may differ from Colex's.
fn layout(
    operation: &Operation,
    a: &Layout,
    b: &SecondOperand<'_>,
    ours: &Result<Value, Error>,
    wrong: &mut Option<String>,
) -> Answer {
    let same = Err(Why::AsColex);
    match (operation.name, b) {
        ("composition", SecondOperand::Layout(b)) => compose(a, b, wrong),
        ("composition", SecondOperand::Tiler(b)) => {
            by_modes(a, b, Rest::Dropped, &mut |a, b| compose(a, b, wrong))
        }
        ("complement", _) if overlaps(a) => refused(OVERLAPS),
        ("left_inverse", _) => left_inverse(a, ours.is_ok(), wrong),
        ("logical_divide", SecondOperand::Tiler(b)) => divide(a, b, wrong),
        ("zipped_divide", SecondOperand::Tiler(b)) => {
            gathered(divide(a, b, wrong)?, b, Form::Zipped)
        }
        ("tiled_divide", SecondOperand::Tiler(b)) => gathered(divide(a, b, wrong)?, b, Form::Tiled),
        ("flat_divide", SecondOperand::Tiler(b)) => gathered(divide(a, b, wrong)?, b, Form::Flat),
        ("logical_product", SecondOperand::Tiler(b)) => product(a, b, wrong),
        ("zipped_product", SecondOperand::Tiler(b)) => {
            gathered(product(a, b, wrong)?, b, Form::Zipped)
        }
        ("tiled_product", SecondOperand::Tiler(b)) => {
            gathered(product(a, b, wrong)?, b, Form::Tiled)
        }
        ("flat_product", SecondOperand::Tiler(b)) => gathered(product(a, b, wrong)?, b, Form::Flat),
        ("blocked_product", SecondOperand::Layout(b)) => interleaved(a, b, true, wrong),
        ("raked_product", SecondOperand::Layout(b)) => interleaved(a, b, false, wrong),
        ("tile_to_shape", SecondOperand::Shape(b)) => tile_to_shape(a, b, wrong),
        ("upcast", SecondOperand::Number(n)) => upcast(a, *n),
        ("downcast", SecondOperand::Number(n)) => downcast(a, *n),
        ("recast", SecondOperand::Bits(old, new)) => recast(a, *old, *new),
        // The extents of a shape and of a tuple of integers are divided one by one; a layout takes another way.
        ("tiles", SecondOperand::Tiler(b))
            if b.to_string().contains([':', '_'])
                || a.is_leaf() && matches!(b, Tiler::Modes(_)) =>
        {
            Err(Why::NotKnown(NOT_RUN))
        }
        ("tile_unzip" | "inner_product", _) => Err(Why::NotKnown(NOT_RUN)),
        _ if operation.second == Second::None => same,
        ("complement" | "max_common_layout" | "max_common_vector" | "domain_distribute", _) => same,
        ("slice" | "dice" | "tiles", _) => same,
        _ => Err(Why::NotKnown(NOT_RUN)),
    }
}

/// CuTe's composition with one layout.
fn compose(a: &Layout, b: &Layout, wrong: &mut Option<String>) -> Answer {
    let answer = match a.cute_composition(b) {
        Ok(answer) => answer,
        Err(error) => {
            let Some(Refusal::Straddle { stride, left, .. }) =
                error.composition().map(|refused| &refused.reason)
            else {
                return Err(Why::NotKnown(NOT_RUN));
            };
            // CuTe looks at the stride first.
            let is_stride = stride % left != 0 && stride.abs() >= *left;
            let which = if is_stride { "Stride" } else { "Shape" };
            return refused(&format!("{which} Divisibility Condition"));
        }
    };
    if wrong.is_none() && b.size() <= COMPARED && !a.has_coordinate_values() {
        *wrong = (0..b.size()).find_map(|c| {
            let x = b.at(c).ok()?;
            let truth = a.at(Unbounded(x)).ok()?;
            let found = answer.at(c).ok()?;
            (found != truth).then(|| {
                let place = format!("at index {c}, where {b} is {x}");
                format!("{place}, the answer is {found}, but {a} at {x} is {truth}")
            })
        });
        *wrong = wrong.take().map(|what| what.replace('_', ""));
    }
    Ok(answer)
}

/// What happens to the modes that a tiler does not reach.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Dropped,
    Kept,
}

type OfLayout<'a> = dyn FnMut(&Layout, &Layout) -> Answer + 'a;

/// An operation by one layout, mode by mode where the tiler has modes.
fn by_modes(a: &Layout, b: &Tiler, rest: Rest, of_layout: &mut OfLayout<'_>) -> Answer {
    match b {
        Tiler::All => Ok(a.clone()),
        Tiler::Int(n) => {
            // Divides and products make an integer a layout by its shape, which gives extent 1 the stride 0.
            let stride = i64::from(rest == Rest::Dropped || n.value() > 1);
            let b = Layout::new(*n, stride).map_err(not_known)?;
            of_layout(a, &b)
        }
        Tiler::Layout(b) => of_layout(a, b),
        Tiler::Modes(tilers) if tilers.len() > a.rank() => refused("Too many modes in tiler."),
        Tiler::Modes(tilers) => {
            let mut modes = Vec::new();
            for (at, mode) in a.modes().enumerate() {
                match tilers.get(at) {
                    Some(tiler) => modes.push(by_modes(&mode, tiler, rest, of_layout)?),
                    None if rest == Rest::Kept => modes.push(mode),
                    None => {}
                }
            }
            Layout::concat(&modes).map_err(not_known)
        }
    }
}

/// Whether CuTe's complement refuses: a stride lies within what the smaller ones cover.
fn overlaps(layout: &Layout) -> bool {
    let mut covered = 1_i64;
    for (extent, stride) in sorted(layout) {
        if stride < covered {
            return true;
        }
        covered = stride.saturating_mul(extent);
    }
    false
}

/// The extents and strides of the leaves that move, by stride.
fn sorted(layout: &Layout) -> Vec<(i64, i64)> {
    let moving = leaves(layout).into_iter().flatten();
    let mut moving: Vec<_> = moving
        .filter(|(extent, stride)| *extent > 1 && *stride != 0)
        .collect();
    moving.sort_by_key(|(_, stride)| *stride);
    moving
}

/// The extents and strides of the leaves, where all strides are integers.
fn leaves(layout: &Layout) -> Option<Vec<(i64, i64)>> {
    let extents = layout.shape().leaves().to_vec();
    let strides = layout.stride();
    let pairs = extents.iter().zip(strides.leaves());
    pairs
        .map(|(extent, stride)| match stride {
            Stride::Int(stride) => Some((extent.value(), stride.value())),
            Stride::Basis(_) | Stride::Xor(_) => None,
        })
        .collect()
}

fn complement(layout: &Layout, target: IntTuple) -> Answer {
    if overlaps(layout) {
        return refused(OVERLAPS);
    }
    layout.complement(target).map_err(not_known)
}

fn divide(a: &Layout, b: &Tiler, wrong: &mut Option<String>) -> Answer {
    by_modes(a, b, Rest::Kept, &mut |a, b| {
        let rest = complement(b, a.coalesce(..).shape())?;
        compose(a, &Layout::concat([b, &rest]).map_err(not_known)?, wrong)
    })
}

fn product(a: &Layout, b: &Tiler, wrong: &mut Option<String>) -> Answer {
    by_modes(a, b, Rest::Kept, &mut |a, b| {
        let copies = copies(a, b, wrong)?;
        Layout::concat([a, &copies]).map_err(not_known)
    })
}

/// Where the copies of a block lie: CuTe's composition of the block's complement with the tiler.
fn copies(a: &Layout, b: &Layout, wrong: &mut Option<String>) -> Answer {
    let room = a.size().saturating_mul(b.cosize().map_err(not_known)?);
    compose(&complement(a, IntTuple::leaf(room.into()))?, b, wrong)
}

/// How the modes of a divide or a product are gathered.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Zipped,
    Tiled,
    Flat,
}

fn gathered(logical: Layout, tiler: &Tiler, form: Form) -> Answer {
    if tiler
        .to_string()
        .split(['(', ')', ','])
        .any(|part| part == "_")
    {
        return refused("Index out of range");
    }
    let zipped = logical.tile_unzip(tiler).map_err(not_known)?;
    let [tile, rest] = [0, 1].map(|i| zipped.mode(i));
    let (Some(tile), Some(rest)) = (tile, rest) else {
        return Err(Why::NotKnown(NOT_RUN));
    };
    // A tuple of one mode stays one.
    let side_by_side = |layout: &Layout| match layout.rank() {
        1 => vec![layout.clone()],
        _ => layout.modes().collect(),
    };
    let modes: Vec<Layout> = match form {
        Form::Zipped => return Ok(zipped),
        Form::Tiled => [vec![tile], side_by_side(&rest)].concat(),
        Form::Flat => [side_by_side(&tile), side_by_side(&rest)].concat(),
    };
    Layout::concat(&modes).map_err(not_known)
}

/// `blocked_product` and `raked_product`: each mode of the block beside that of the copies, or the other way round.
fn interleaved(a: &Layout, b: &Layout, block_first: bool, wrong: &mut Option<String>) -> Answer {
    let rank = a.rank().max(b.rank());
    let [first, second] = if block_first { [a, b] } else { [b, a] };
    if rank == 1 && !first.is_leaf() && second.is_leaf() {
        return refused("incomplete type: a tuple of one meets an integer");
    }
    let unit = Layout::new(1, 0).map_err(not_known)?;
    let padded = |layout: &Layout| {
        if layout.rank() < rank {
            layout.append_to_rank(rank, &unit).map_err(not_known)
        } else {
            Ok(layout.clone())
        }
    };
    let (block, tiler) = (padded(a)?, padded(b)?);
    let copies = copies(&block, &tiler, wrong)?;
    let pair = |block: &Layout, copies: &Layout| {
        let pair = if block_first {
            [block, copies]
        } else {
            [copies, block]
        };
        Layout::concat(pair).map_err(not_known)
    };
    if rank == 1 && first.is_leaf() {
        return Layout::concat([&pair(&block, &copies)?]).map_err(not_known);
    }
    let pairs: Result<Vec<Layout>, Why> = block
        .modes()
        .zip(copies.modes())
        .map(|(block, copies)| pair(&block, &copies))
        .collect();
    Layout::concat(&pairs?).map_err(not_known)
}

fn tile_to_shape(block: &Layout, target: &IntTuple, wrong: &mut Option<String>) -> Answer {
    let rank = target.rank();
    if block.rank() > rank {
        return refused("tile_to_shape: the block has more modes than the target shape");
    }
    let unit = Layout::new(1, 0).map_err(not_known)?;
    let block = if block.rank() < rank {
        block.append_to_rank(rank, &unit).map_err(not_known)?
    } else {
        block.clone()
    };
    let target = target.product_each().map_err(not_known)?;
    let mut times = Vec::new();
    for (mode, extent) in block.modes().zip(target.leaves()) {
        if extent.value() % mode.size() != 0 {
            return refused("tile_to_shape: block shape does not divide the target shape.");
        }
        times.push((extent.value() / mode.size()).into());
    }
    let times = match (target.as_leaf(), &times[..]) {
        (Some(_), [only]) => IntTuple::leaf(*only),
        _ => IntTuple::flat(times),
    };
    let order = Layout::column_major(times).map_err(not_known)?;
    interleaved(&block, &order, true, wrong)
}

/// Each leaf by itself: how CuTe casts.
fn each_leaf(a: &Layout, of_leaf: &mut dyn FnMut(i64, i64) -> Result<(i64, i64), Why>) -> Answer {
    if !a.is_leaf() {
        let modes: Result<Vec<Layout>, Why> =
            a.modes().map(|mode| each_leaf(&mode, of_leaf)).collect();
        return Layout::concat(&modes?).map_err(not_known);
    }
    let [(extent, stride)] = leaves(a).ok_or(Why::NotKnown(NOT_RUN))?[..] else {
        return Err(Why::NotKnown(NOT_RUN));
    };
    let (extent, stride) = of_leaf(extent, stride)?;
    Layout::new(extent, stride).map_err(not_known)
}

fn upcast(a: &Layout, n: i64) -> Answer {
    if n < 1 {
        return Err(Why::NotKnown(NOT_RUN));
    }
    each_leaf(a, &mut |extent, stride| {
        if stride == 0 {
            return Ok((extent, 0));
        }
        let size = stride.abs();
        if size % n != 0 && n % size != 0 {
            return refused("Divisibility condition");
        }
        let steps = ceil_div(n, size);
        Ok((ceil_div(extent, steps), stride.signum() * ceil_div(size, n)))
    })
}

fn downcast(a: &Layout, n: i64) -> Answer {
    if n < 1 {
        return Err(Why::NotKnown(NOT_RUN));
    }
    let strides = leaves(a).ok_or(Why::NotKnown(NOT_RUN))?;
    if !strides.iter().any(|(_, stride)| stride.abs() == 1) {
        return refused("Downcast requires adjacent elements");
    }
    let times = |x: i64| x.checked_mul(n).ok_or(Why::NotKnown(NOT_RUN));
    each_leaf(a, &mut |extent, stride| match stride.abs() {
        1 => Ok((times(extent)?, stride)),
        _ => Ok((extent, times(stride)?)),
    })
}

fn recast(a: &Layout, old: i64, new: i64) -> Answer {
    let common = gcd(old, new);
    match (new / common, old / common) {
        (1, 1) => Ok(a.clone()),
        (up, 1) => upcast(a, up),
        (1, down) => downcast(a, down),
        (up, down) => downcast(&upcast(a, up)?, down),
    }
}

/// The quotient of two positive numbers, rounded up.
fn ceil_div(a: i64, b: i64) -> i64 {
    (a - 1) / b + 1
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The leaves by stride, each up to where the next one starts.
fn left_inverse(a: &Layout, holds: bool, wrong: &mut Option<String>) -> Answer {
    let strides = leaves(a).ok_or(Why::NotKnown(NOT_RUN))?;
    let mut at = 1_i64;
    let mut moving = Vec::new();
    for (extent, stride) in strides {
        if extent > 1 && stride != 0 {
            moving.push((stride, extent, at));
        }
        at = at.checked_mul(extent).ok_or(Why::NotKnown(NOT_RUN))?;
    }
    moving.sort_unstable();
    let mut modes = Vec::new();
    let (mut covered, mut index) = (1, 0);
    for (stride, _, next) in &moving {
        if stride % covered != 0 {
            return refused("Left inverse divisibility condition");
        }
        modes.push(Layout::new(stride / covered, index).map_err(not_known)?);
        (covered, index) = (*stride, *next);
    }
    // Where nothing moves, all of the layout is at offset 0.
    let last = moving.last().map_or(a.size(), |(_, extent, _)| *extent);
    modes.push(Layout::new(last, index).map_err(not_known)?);
    let inverse = Layout::concat(&modes).map_err(not_known)?.coalesce(..);
    if !holds && a.size() <= COMPARED {
        *wrong = (0..a.size()).find_map(|i| {
            let value = a.at(i).ok()?;
            let back = inverse
                .at(Unbounded(value))
                .and_then(|i| a.at(Unbounded(i)))
                .ok()?;
            (back != value).then(|| format!("A({i}) is {value}, but A(R({value})) is {back}"))
        });
    }
    Ok(inverse)
}
