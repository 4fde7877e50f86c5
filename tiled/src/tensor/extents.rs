//! Extents, the values that a layout reaches, and how many elements are walked one by one.

use colex_layout::{Int, IntTuple, Layout, Stride, Tiler, Tuple};

use crate::Error;
use crate::error::ErrorKind;

/// The most coordinates that are walked: a gigabyte of matrix coordinates.
const MOST: i64 = 1 << 26;

/// Refuses to walk a tensor whose coordinates would not fit the memory of a small machine.
pub(crate) fn check_walk(operation: &'static str, tensor: &Layout) -> Result<(), Error> {
    if tensor.size() <= MOST {
        return Ok(());
    }
    Err(Error::assumption(
        operation,
        format!(
            "{tensor} has {} elements, and each of at most {MOST} is looked at: take a part of whole tiles, the others \
             are alike",
            tensor.size()
        ),
    ))
}

/// The size of mode `i`; 1 beyond the rank.
pub(crate) fn size(layout: &Layout, i: usize) -> i64 {
    layout.mode(i).map_or(1, |m| m.size())
}

/// The extents that a tiler cuts, if it says.
pub(crate) fn shape_of(tiler: &Tiler) -> Option<IntTuple> {
    match tiler {
        Tiler::All => None,
        Tiler::Int(n) => Some(IntTuple::leaf(*n)),
        Tiler::Layout(l) => Some(l.shape()),
        Tiler::Modes(modes) => {
            let shapes: Vec<IntTuple> = modes.iter().map(shape_of).collect::<Option<_>>()?;
            Some(IntTuple::concat(&shapes))
        }
    }
}

/// An integer as a static leaf.
pub(crate) fn fixed(n: i64) -> Int {
    Int::Static(n)
}

/// The flat layout of static leaves.
pub(crate) fn fixed_layout(modes: &[(i64, i64)]) -> Result<Layout, Error> {
    let shape = IntTuple::flat(modes.iter().map(|m| fixed(m.0)));
    let stride = Tuple::flat(modes.iter().map(|m| Stride::constant(m.1)));
    Ok(Layout::new(shape, stride)?)
}

/// The least and the greatest value of a layout of integers.
pub(crate) fn reach(layout: &Layout) -> Result<Option<[i64; 2]>, Error> {
    let mut ends = [0_i64, 0];
    for leaf in layout.leaves() {
        let (steps, stride) = (leaf.extent.value() - 1, leaf.stride);
        let d = match stride {
            Stride::Int(d) => d.value(),
            other if other.is_zero() => 0,
            _ => return Ok(None),
        };
        let far = steps.checked_mul(d).ok_or(overflow(steps, '*', d))?;
        let end = &mut ends[usize::from(far > 0)];
        *end = end.checked_add(far).ok_or(overflow(*end, '+', far))?;
    }
    Ok(Some(ends))
}

/// A coordinate of one mode as its number, which every tensor of one mode takes.
pub(crate) fn bare(coord: IntTuple) -> IntTuple {
    match coord.leaves() {
        [one] => IntTuple::leaf(*one),
        _ => coord,
    }
}

/// Whether a coordinate, one number per mode or one for all, lies inside of a tensor.
pub(crate) fn is_inside(coord: &IntTuple, tensor: &Layout) -> bool {
    let below = |digit: i64, extent: i64| (0..extent).contains(&digit);
    match coord.leaves() {
        [index] => below(index.value(), tensor.size()),
        digits => {
            let mut pairs = digits.iter().zip(tensor.modes());
            digits.len() == tensor.rank()
                && pairs.all(|(digit, mode)| below(digit.value(), mode.size()))
        }
    }
}

pub(crate) const fn overflow(left: i64, operator: char, right: i64) -> ErrorKind {
    ErrorKind::Overflow {
        left,
        operator,
        right,
    }
}
