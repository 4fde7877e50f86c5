//! The steps from a convolution to a matrix over its activations.

use colex_layout::{Basis, Int, Layout, LeafMode, Stride, Tiler, Tuple};

use super::plan::Taps;
use crate::error::{Error, Im2colError, TmaError};
use crate::tma::derive::order;

/// Extents and strides of the activations.
pub(super) fn modes(activations: &Layout) -> Result<(Vec<i64>, Vec<i64>), Error> {
    let (mut dims, mut strides) = (Vec::new(), Vec::new());
    for leaf in activations.leaves() {
        let Stride::Int(stride) = leaf.stride else {
            return Err(TmaError::Element {
                text: format!("a layout without integer strides, {activations}"),
            }
            .into());
        };
        dims.push(leaf.extent.value());
        strides.push(stride.value());
    }
    let rank = dims.len();
    if !(3..=5).contains(&rank) {
        return Err(Im2colError::Rank { rank }.into());
    }
    match strides[0] {
        1 => Ok((dims, strides)),
        stride => Err(TmaError::Major {
            mode: "the channels".into(),
            stride,
        }
        .into()),
    }
}

/// `shared-memory offset -> (pixel, channel)`.
pub(super) fn tile_order(shared: &Layout) -> Result<Layout, Error> {
    let (Some(pixels), Some(channels), 2) = (shared.mode(0), shared.mode(1), shared.rank()) else {
        return Err(Im2colError::Order.into());
    };
    let extents = [pixels.size(), channels.size()].map(Int::Dynamic);
    let whole = extents.map(Tiler::Int).to_vec();
    let tile = Layout::identity(Tuple::flat(extents))?;
    order(&tile, &Tiler::Modes(whole), shared)
}

/// The channels and the pixels that follow each other in shared memory.
pub(super) fn column(order: &Layout) -> Result<[i64; 2], Error> {
    let leaves = order.leaves();
    let along = |leaf: Option<&LeafMode>, mode: usize| {
        let leaf = leaf?;
        match leaf.stride {
            Stride::Basis(b) if b.value.value() == 1 && b.path().eq([mode]) => {
                Some(leaf.extent.value())
            }
            _ => None,
        }
    };
    let channels = along(leaves.first(), 1).ok_or(Im2colError::Order)?;
    Ok([channels, along(leaves.get(1), 0).unwrap_or(1)])
}

/// The matrix over the activations, and over the operands of an instruction.
pub(super) fn matrix(
    taps: &[Taps],
    outputs: &[i64],
    dims: &[i64],
    strides: &[i64],
) -> Result<(Layout, Layout), Error> {
    let last = dims.len() - 1;
    let rows: Vec<i64> = [outputs, &dims[last..]].concat();
    let columns: Vec<i64> = dims[..1]
        .iter()
        .copied()
        .chain(taps.iter().map(|t| t.count))
        .collect();
    let times = |a: i64, b: i64| {
        a.checked_mul(b).ok_or_else(|| TmaError::Long {
            dims: dims.to_vec(),
        })
    };
    let (mut of_rows, mut of_columns) = (Vec::new(), vec![Stride::constant(1)]);
    let (mut at_rows, mut at_columns) = (Vec::new(), vec![basis(1, 0)?]);
    for (d, taps) in taps.iter().enumerate() {
        of_rows.push(Stride::Int(Int::Dynamic(times(
            taps.stride,
            strides[d + 1],
        )?)));
        of_columns.push(Stride::Int(Int::Dynamic(times(
            taps.dilation,
            strides[d + 1],
        )?)));
        at_rows.push(basis(taps.stride, d + 1)?);
        at_columns.push(basis(taps.dilation, last + 1 + d)?);
    }
    of_rows.push(Stride::Int(Int::Dynamic(strides[last])));
    at_rows.push(basis(1, last)?);
    let mode = |extents: &[i64], strides: Vec<Stride>| {
        Layout::new(
            Tuple::flat(extents.iter().copied().map(Int::Dynamic)),
            Tuple::flat(strides),
        )
    };
    let pair = |a, b| Layout::concat([&mode(&rows, a)?, &mode(&columns, b)?]);
    Ok((pair(of_rows, of_columns)?, pair(at_rows, at_columns)?))
}

fn basis(value: i64, mode: usize) -> Result<Stride, colex_layout::Error> {
    Ok(Stride::Basis(Basis::new(Int::Dynamic(value), &[mode])?))
}
