//! What the layouts and the operands of a tiled MMA must satisfy.

use core::fmt;
use std::collections::HashMap;

use colex_layout::{Layout, LeafMode, Stride, Tiler};

use crate::Error;
use crate::error::ErrorKind;
use crate::tensor::extents::size;

/// The most threads of a tiling, and the most elements of an order, which are looked at one by one.
pub(super) const MOST_THREADS: i64 = 1 << 20;

pub(super) fn check_order(order: &Tiler, mode: &str) -> Result<(), Error> {
    let order = match order {
        Tiler::Layout(order) => order,
        Tiler::Modes(modes) => return modes.iter().try_for_each(|order| check_order(order, mode)),
        Tiler::Int(_) | Tiler::All => return Ok(()),
    };
    if order.size() > MOST_THREADS {
        return Err(refused(format!(
            "the order {order} of {mode} has {} elements, and at most {MOST_THREADS} are looked at: an extent keeps the \
             order as it is",
            order.size()
        )));
    }
    if let Some((first, place, element)) = repeated(order, order.size())? {
        return Err(refused(format!(
            "places {first} and {place} of the order {order} of {mode} are one element, {element}, which would be \
             computed twice"
        )));
    }
    match unnested(order) {
        None => Ok(()),
        Some(why) => Err(refused(format!(
            "{why} of the order {order} of {mode}: its repetitions would leave elements out"
        ))),
    }
}

/// What is wrong where the strides of integers do not nest: where one is not a multiple of the one below it times its
/// extent. Only of nested strides is `offset / stride % extent` the place along a mode, and only these and their
/// complement have every offset once.
pub(super) fn unnested(layout: &Layout) -> Option<String> {
    let leaf = |leaf: &LeafMode| match leaf.stride {
        Stride::Int(d) => Some((d.value().saturating_abs(), leaf.extent.value())),
        _ => None,
    };
    let mut modes: Vec<(i64, i64)> = layout.leaves().iter().filter_map(leaf).collect();
    modes.retain(|(_, extent)| *extent > 1);
    modes.sort_unstable();
    let pairs = modes.iter().zip(modes.iter().skip(1));
    let ends = pairs.map(|((d, n), (above, _))| (*d, *n, d.saturating_mul(*n), *above));
    let mut apart = ends.filter(|(_, _, end, above)| *end == 0 || above % end != 0);
    let (d, n, end, above) = apart.next()?;
    Some(format!(
        "the stride {above} is not a multiple of {end}, the end of the {n} at stride {d},"
    ))
}

/// The first two of the first `places` places that have one value, and the value.
pub(super) fn repeated(layout: &Layout, places: i64) -> Result<Option<(i64, i64, i64)>, Error> {
    let mut seen = HashMap::new();
    for place in 0..places {
        let value = layout.at(place)?;
        if let Some(first) = seen.insert(value, place) {
            return Ok(Some((first, place, value)));
        }
    }
    Ok(None)
}

/// Whether a thread-value layout stays within its tile.
pub(super) fn check_reach(tv: &Layout, [rows, cols]: [i64; 2]) -> Result<(), Error> {
    let reach = tv.cosize()?;
    if reach <= rows * cols {
        return Ok(());
    }
    Err(Error::assumption(
        "TiledMma::tv",
        format!(
            "{tv:#} reaches index {} of a tile of {rows} by {cols}: the order of a mode is not a permutation of it",
            reach - 1
        ),
    ))
}

pub(super) fn check_rank(have: usize, tensor: &dyn fmt::Display) -> Result<(), Error> {
    if have >= 2 {
        return Ok(());
    }
    Err(ErrorKind::Rank {
        operation: "fragments",
        tensor: tensor.to_string(),
        have,
        need: 2,
    }
    .into())
}

/// Refuses operands whose extents are not those of a product; a sparse A has one element for `packing` along K.
pub(crate) fn check_extents(
    operation: &'static str,
    tensors: [&Layout; 3],
    packing: i64,
) -> Result<(), Error> {
    let refuse = |why| Err(Error::assumption(operation, why));
    let [a, b, c] = tensors;
    if tensors.iter().any(|t| t.rank() != 2) {
        return refuse(format!("A {a}, B {b} and C {c} are not all of rank 2"));
    }
    let agree =
        size(a, 0) == size(c, 0) && size(b, 0) == size(c, 1) && size(a, 1) * packing == size(b, 1);
    let modes = match packing {
        1 => "(M,K)".to_string(),
        n => format!("(M,K/{n})"),
    };
    if agree {
        Ok(())
    } else {
        refuse(format!(
            "A {a}, B {b} and C {c} are not of the extents {modes}, (N,K) and (M,N)"
        ))
    }
}

pub(super) fn refused(why: String) -> Error {
    Error::assumption("TiledMma::new", why)
}
