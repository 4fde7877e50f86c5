//! What a layout means, computed without the library: digits of the index times strides.

use colex_layout::{IntTuple, Layout};

/// The extents and integer strides of the leaves.
pub(crate) type Leaves = Vec<(i64, i64)>;

/// The leaves of a layout with integer strides.
pub(crate) fn leaves(layout: &Layout) -> Leaves {
    let leaf = |l: &colex_layout::LeafMode| (l.extent.value(), l.stride.coefficient().value());
    layout.leaves().iter().map(leaf).collect()
}

/// The offset at `index`; the last mode goes on beyond the size, negative indices mirror the positive ones.
pub(crate) fn at(leaves: &[(i64, i64)], index: i64) -> i64 {
    let Some((&(_, last), before)) = leaves.split_last() else {
        return 0;
    };
    let (mut rest, mut sum) = (index, 0);
    for (extent, stride) in before {
        sum += rest % extent * stride;
        rest /= extent;
    }
    sum + rest * last
}

/// All offsets, by an odometer.
pub(crate) fn table(leaves: &[(i64, i64)]) -> Vec<i64> {
    let mut values = vec![0];
    for (extent, stride) in leaves {
        let steps = (0..*extent).flat_map(|c| values.iter().map(move |v| v + c * stride));
        values = steps.collect();
    }
    values
}

/// Whether the sizes agree at every leaf of `coarse`, for shapes.
pub(crate) fn is_compatible(coarse: &IntTuple, fine: &IntTuple) -> bool {
    if let Some(size) = coarse.as_leaf() {
        return fine.leaves().iter().map(|n| n.value()).product::<i64>() == size.value();
    }
    let mut modes = coarse.modes().zip(fine.modes());
    !fine.is_leaf() && coarse.rank() == fine.rank() && modes.all(|(c, f)| is_compatible(&c, &f))
}
