//! The complement that the laws of divide and product speak of, after the header's definition.

/// Extents and strides, fastest first.
type Leaves = Vec<(i64, i64)>;

/// The layout's extents once neighbours that run on from each other are one.
pub(super) fn coalesced_extents(leaves: &[(i64, i64)]) -> Vec<i64> {
    let mut merged: Leaves = Vec::new();
    for &(extent, stride) in leaves.iter().filter(|(extent, _)| *extent != 1) {
        match merged.last_mut() {
            Some((last, first)) if *last * *first == stride => *last *= extent,
            _ => merged.push((extent, stride)),
        }
    }
    if merged.is_empty() {
        vec![1]
    } else {
        merged.into_iter().map(|(extent, _)| extent).collect()
    }
}

/// The complement of a layout up to a cotarget, or nothing where the layout's modes overlap.
pub(super) fn complement(leaves: &[(i64, i64)], cotarget: &[i64]) -> Option<Leaves> {
    let mut modes: Leaves = leaves
        .iter()
        .copied()
        .filter(|(extent, stride)| *extent != 1 && *stride != 0)
        .collect();
    modes.sort_by_key(|(_, stride)| *stride);
    let (mut gaps, mut reached) = (Leaves::new(), 1);
    for (extent, stride) in modes {
        if stride < reached {
            return None;
        }
        gaps.push((stride / reached, reached));
        reached = stride * extent;
    }
    for extent in ceil_div(cotarget, reached) {
        gaps.push((extent, reached));
        reached *= extent;
    }
    Some(gaps)
}

/// How many steps of `divisor` cover `extents`, mode by mode: what a mode absorbs, the next need not.
fn ceil_div(extents: &[i64], mut divisor: i64) -> Vec<i64> {
    let mut quotients = Vec::new();
    for extent in extents {
        quotients.push((extent + divisor - 1) / divisor);
        divisor = (divisor + extent - 1) / extent;
    }
    quotients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complement_fills_the_gaps() {
        assert_eq!(
            complement(&[(2, 1), (2, 6)], &[24]),
            Some(vec![(1, 1), (3, 2), (2, 12)])
        );
        assert_eq!(complement(&[(2, 1), (2, 1)], &[8]), None);
    }

    #[test]
    fn a_shape_is_divided_mode_by_mode() {
        assert_eq!(complement(&[(3, 1)], &[8]), Some(vec![(1, 1), (3, 3)]));
        assert_eq!(
            complement(&[(3, 1)], &[4, 2]),
            Some(vec![(1, 1), (2, 3), (2, 6)])
        );
        assert_eq!(ceil_div(&[4, 2, 3], 3), [2, 2, 3]);
    }

    #[test]
    fn neighbours_coalesce() {
        assert_eq!(
            coalesced_extents(&[(2, 1), (1, 9), (6, 2), (3, 1)]),
            [12, 3]
        );
        assert_eq!(coalesced_extents(&[(1, 0)]), [1]);
    }
}
