//! The modes of layouts, and the layouts of the tensors of other calls: those of this call with other extents.

use colex_layout::{IntTuple, Layout, Stride, Tuple};

use crate::error::{Error, ErrorKind};

/// The largest extent of another call.
const MOST: i64 = (1 << 40) - 1;

/// The modes of a layout.
pub(crate) fn modes(layout: &Layout) -> Vec<Layout> {
    if layout.is_leaf() {
        vec![layout.clone()]
    } else {
        layout.modes().collect()
    }
}

/// The extents of the modes of a layout.
pub(crate) fn sizes(layout: &Layout) -> Vec<i64> {
    modes(layout).iter().map(Layout::size).collect()
}

/// The extents of the modes of a shape. One beside an extent of 0 may be too large for 64 bits: it is the largest of them then.
pub(crate) fn extents(shape: &IntTuple) -> Vec<i64> {
    let size = |mode: IntTuple| {
        let leaves = mode.leaves().iter();
        leaves.fold(1, |all: i64, extent| all.saturating_mul(extent.value()))
    };
    shape.modes().map(size).collect()
}

/// The extent and the stride of a mode that coalesces into one leaf.
pub(crate) fn one_leaf(mode: &Layout) -> Option<(i64, i64)> {
    let mode = mode.coalesce(..);
    let [leaf] = mode.leaves() else {
        return None;
    };
    Some((leaf.extent.value(), leaf.stride.as_int()?.value()))
}

/// The parts of one mode of several layouts, the first one innermost: the extent, which is that of a loop over all of the layouts, and the
/// stride in each. `None` if there are no such parts, as of (2,3) and (3,2), or if a stride is no number.
pub(crate) fn parts(of_layouts: &[&Layout]) -> Option<Vec<(i64, Vec<i64>)>> {
    let leaves = |mode: &&Layout| {
        let mode = mode.coalesce(..);
        let all = mode.leaves().iter().rev();
        all.map(|leaf| Some((leaf.extent.value(), leaf.stride.as_int()?.value())))
            .collect()
    };
    let left: Option<Vec<Vec<(i64, i64)>>> = of_layouts.iter().map(leaves).collect();
    let mut left = left?;
    let mut parts = Vec::new();
    while left.iter().any(|leaves| !leaves.is_empty()) {
        let first: Option<Vec<(i64, i64)>> = left.iter_mut().map(Vec::pop).collect();
        let first = first?;
        let extent = first.iter().map(|(extent, _)| *extent).min()?;
        for (leaves, (all, stride)) in left.iter_mut().zip(&first) {
            if all % extent > 0 {
                return None;
            }
            if *all > extent {
                leaves.push((all / extent, stride.checked_mul(extent)?));
            }
        }
        let strides = first.into_iter().map(|(_, stride)| stride).collect();
        parts.push((extent, strides));
    }
    Some(parts)
}

/// A layout of these modes.
pub(crate) fn of_modes(modes: &[Layout]) -> Result<Layout, Error> {
    match modes {
        [one] => Ok(one.clone()),
        all => Ok(Layout::concat(all).map_err(colex_tensor::Error::from)?),
    }
}

/// A mode that is one element.
pub(crate) fn repeated(mode: &Layout) -> Result<Layout, Error> {
    Ok(Layout::leaf(mode.size(), 0).map_err(colex_tensor::Error::from)?)
}

/// `(64,1000)`, `5`
pub(crate) fn shown(extents: &[i64]) -> String {
    let each: Vec<String> = extents.iter().map(i64::to_string).collect();
    match &each[..] {
        [one] => one.clone(),
        all => format!("({})", all.join(",")),
    }
}

/// The strides of modes without gaps, the last one innermost.
pub(crate) fn row_major(extents: &[i64]) -> Vec<i64> {
    let mut strides = vec![1_i64; extents.len()];
    for at in (1..extents.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(extents[at]);
    }
    strides
}

/// Returns whether a tensor of these extents has an element.
///
/// # Errors
///
/// Returns an error if an extent is negative, or 2^40 or more.
pub(crate) fn has_elements(extents: &[i64]) -> Result<bool, Error> {
    if let Some(&extent) = extents.iter().find(|n| !(0..=MOST).contains(*n)) {
        let (what, most) = ("an extent", MOST);
        return Err(ErrorKind::Extent { what, extent, most }.into());
    }
    Ok(!extents.contains(&0))
}

/// Returns the layout of a tensor with other extents, which are above 0. `own` is the layout in this call, `None` if it has no element.
///
/// The modes have the order in memory that they have in this call; of modes with one stride, the last is the innermost. A mode that
/// follows the one inside of it without a gap does so again. A mode with a gap keeps its stride, and so does one of several elements with the
/// stride 0. What this call does not say is row-major: the order of a tensor without elements, and the place of a mode of one element whose
/// stride is 0, which row-major layouts have too, or lies among the elements of another mode. The stride of a mode of one element moves
/// nothing and may be any number. So if the extents have no room, those of all such modes count as 0.
///
/// # Errors
///
/// Returns an error if the tensor has another number of modes, or a mode with several strides, or if a gap has no room for the extents.
pub(crate) fn resized(name: &str, own: Option<&Layout>, extents: &[i64]) -> Result<Layout, Error> {
    let strides = match own {
        Some(own) => strides_of(name, own, extents)?,
        None => row_major(extents),
    };
    let layout = match (extents, &strides[..]) {
        ([extent], [stride]) if own.is_none_or(Layout::is_leaf) => Layout::leaf(*extent, *stride),
        _ => Layout::new(
            IntTuple::flat(extents.iter().map(|extent| (*extent).into())),
            Tuple::flat(strides.into_iter().map(Stride::from)),
        ),
    };
    Ok(layout.map_err(colex_tensor::Error::from)?)
}

fn strides_of(name: &str, own: &Layout, extents: &[i64]) -> Result<Vec<i64>, Error> {
    let refused = |why: String| {
        let (name, layout) = (name.to_string(), own.to_string());
        Error::from(ErrorKind::Resized { name, layout, why })
    };
    let modes = modes(own);
    if modes.len() != extents.len() {
        let shape = shown(extents);
        return Err(refused(format!("the shape {shape} has another rank")));
    }
    let leaves: Option<Vec<(i64, i64)>> = modes.iter().map(one_leaf).collect();
    let leaves = leaves.ok_or_else(|| refused("each mode must have one stride".to_string()))?;
    let mut with_gaps = leaves.clone();
    for (leaf, mode) in with_gaps.iter_mut().zip(&modes) {
        if leaf.0 == 1 {
            leaf.1 = stride_of_one(mode);
        }
    }
    let found = placed(with_gaps, extents).or_else(|_| placed(leaves, extents));
    found.map_err(|stride| {
        let shape = shown(extents);
        refused(format!(
            "its stride {stride} has no room for the shape {shape}"
        ))
    })
}

/// The stride of a mode of one element, which coalescing drops: the largest one of its leaves.
fn stride_of_one(mode: &Layout) -> i64 {
    let leaves = mode.leaves().iter();
    let strides = leaves.filter_map(|leaf| Some(leaf.stride.as_int()?.value()));
    strides
        .max_by_key(|stride| stride.unsigned_abs())
        .unwrap_or(0)
}

/// Whether the stride of a mode says where it lies in memory: behind all elements of each mode inside of it.
fn says_place(leaves: &[(i64, i64)], at: usize) -> bool {
    let own = leaves[at].1.unsigned_abs();
    let mut others = leaves.iter().enumerate();
    others.all(|(other, (extent, stride))| {
        let size = stride.unsigned_abs();
        let is_inside = size < own || (size == own && other > at);
        *extent == 1 || !is_inside || size.saturating_mul(extent.unsigned_abs()) <= own
    })
}

/// The strides of modes with other extents. `leaves` are the extents and strides in this call.
///
/// # Errors
///
/// Returns the stride of a mode whose gap has no room for the extents.
fn placed(mut leaves: Vec<(i64, i64)>, extents: &[i64]) -> Result<Vec<i64>, i64> {
    let mut behind = 1;
    for at in (0..leaves.len()).rev() {
        if leaves[at].0 == 1 && (leaves[at].1 == 0 || !says_place(&leaves, at)) {
            leaves[at].1 = behind;
        }
        let (extent, stride) = leaves[at];
        behind = behind.max(stride.saturating_abs().saturating_mul(extent));
    }
    let mut order: Vec<usize> = (0..leaves.len()).rev().collect();
    order.retain(|at| leaves[*at].1 != 0);
    order.sort_by_key(|at| leaves[*at].1.unsigned_abs());
    let mut strides = vec![0; extents.len()];
    // The stride that a mode has behind the one before it without a gap: in this call, and in the other one.
    let (mut here, mut there) = (1_i64, 1_i64);
    for at in order {
        let (extent, stride) = leaves[at];
        let size = stride.saturating_abs();
        let other = if size == here { there } else { size };
        if size > here && other < there {
            return Err(stride);
        }
        strides[at] = other * stride.signum();
        here = size.saturating_mul(extent);
        there = other.saturating_mul(extents[at]);
    }
    Ok(strides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(own: &str, extents: &[i64]) -> String {
        let own: Layout = own.parse().expect("a layout");
        match resized("x", Some(&own), extents) {
            Ok(layout) => layout.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Parts have the extents of the finest of all layouts, and the elements of each.
    #[test]
    fn parts_of_a_mode_are_those_of_all_layouts() {
        let of = |layouts: &[&str]| {
            let layouts: Vec<Layout> = layouts
                .iter()
                .map(|text| text.parse().expect("a layout"))
                .collect();
            let found = parts(&layouts.iter().collect::<Vec<_>>());
            found.map(|parts| format!("{parts:?}"))
        };
        let text = |parts: &str| Some(parts.to_string());
        assert_eq!(of(&["12:5"]), text("[(12, [5])]"));
        assert_eq!(
            of(&["(3,4):(10,1)", "12:2"]),
            text("[(3, [10, 2]), (4, [1, 6])]")
        );
        assert_eq!(
            of(&["(2,6):(7,1)", "(4,3):(1,8)", "12:0"]),
            text("[(2, [7, 1, 0]), (2, [1, 2, 0]), (3, [2, 8, 0])]")
        );
        assert_eq!(of(&["1:0", "1:0"]), text("[(1, [0, 0])]"));
        assert_eq!(of(&["(2,3):(9,1)", "(3,2):(9,1)"]), None);
        assert_eq!(of(&["4:1", "6:1"]), None);
    }

    #[test]
    fn other_extents_keep_the_order_the_gaps_and_the_repetitions() {
        let cases: [(&str, &[i64], &str); 29] = [
            ("100:1", &[7], "7:1"),
            ("100:3", &[7], "7:3"),
            ("(4,100):(100,1)", &[2, 7], "(2,7):(7,1)"),
            ("(4,100):(1,4)", &[2, 7], "(2,7):(1,2)"),
            ("(4,100):(128,1)", &[2, 7], "(2,7):(128,1)"),
            ("(4,100):(0,1)", &[2, 7], "(2,7):(0,1)"),
            ("(4,100):(1,0)", &[2, 7], "(2,7):(1,0)"),
            ("(4,1):(1,1)", &[2, 7], "(2,7):(7,1)"),
            ("(4,1):(1,0)", &[2, 7], "(2,7):(7,1)"),
            ("(1,1,64):(0,0,1)", &[2, 3, 7], "(2,3,7):(21,7,1)"),
            // The heads within the sequence.
            (
                "(1,4,2,8):(64,8,32,1)",
                &[3, 4, 5, 8],
                "(3,4,5,8):(160,8,32,1)",
            ),
            // Columns of a wider matrix, in a batch.
            ("(3,4,10):(256,64,1)", &[5, 6, 20], "(5,6,20):(384,64,1)"),
            // One row of a wider matrix, and one of many that lie apart.
            ("(1,64):(128,1)", &[100, 64], "(100,64):(128,1)"),
            ("(1,64):(128,1)", &[2, 3], "(2,3):(128,1)"),
            ("(1,64):(-128,1)", &[2, 3], "(2,3):(-128,1)"),
            ("((1,1),64):((0,128),1)", &[100, 64], "(100,64):(128,1)"),
            ("1:128", &[5], "5:128"),
            // One row without a gap, and one of a column-major matrix.
            ("(1,64):(64,1)", &[100, 32], "(100,32):(32,1)"),
            ("(64,1):(1,64)", &[32, 100], "(32,100):(1,32)"),
            // A part of the columns of a batch of one row each.
            ("(3,1,64):(128,128,1)", &[5, 7, 64], "(5,7,64):(896,128,1)"),
            // One head within the sequence, whose stride is that of the sequence.
            (
                "(1,1,2,8):(16,8,8,1)",
                &[3, 4, 5, 8],
                "(3,4,5,8):(160,40,8,1)",
            ),
            // Strides of one element that lie among the elements of another mode say nothing.
            ("(64,1):(1,32)", &[5, 7], "(5,7):(7,1)"),
            ("(1,64):(3,1)", &[5, 7], "(5,7):(7,1)"),
            // Those without room say nothing either.
            ("(2,1,8):(8,999,1)", &[2, 3, 8], "(2,3,8):(8,999,1)"),
            ("(2,1,8):(8,999,1)", &[200, 3, 8], "(200,3,8):(24,8,1)"),
            ("(1,64):(128,1)", &[100, 200], "(100,200):(200,1)"),
            (
                "(4,100):(128,1)",
                &[2, 200],
                "x has the layout (4,100):(128,1), and cannot have another shape: its stride 128 has no room for the shape (2,200)",
            ),
            (
                "(4,(2,5)):(10,(1,3))",
                &[2, 7],
                "x has the layout (4,(2,5)):(10,(1,3)), and cannot have another shape: each mode must have one stride",
            ),
            (
                "(4,100):(100,1)",
                &[7],
                "x has the layout (4,100):(100,1), and cannot have another shape: the shape 7 has another rank",
            ),
        ];
        for (own, extents, wanted) in cases {
            assert_eq!(found(own, extents), wanted, "{own}");
        }
        let without = resized("x", None, &[2, 3]).expect("a layout");
        assert_eq!(without.to_string(), "(2,3):(3,1)");
        assert!(!has_elements(&[2, 0]).expect("extents") && has_elements(&[]).expect("extents"));
        assert_eq!(
            has_elements(&[2, -1]).unwrap_err().to_string(),
            "an extent is -1: it must be 0 to 1099511627775"
        );
    }
}
