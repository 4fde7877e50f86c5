//! The steps from two layouts to the dimensions of a tensor map.

use crate::error::{Error, TmaError};
use colex_layout::{Basis, ComposedLayout, Int, Layout, Outer, Stride, Tiler, Tuple};

use super::map::TmaElement;
use super::swizzle::TmaSwizzle;

/// A dimension of the tensor map: one mode of the tensor, or several joined.
#[derive(Clone, Debug)]
pub(super) struct Dimension {
    /// What the box takes of each mode.
    pub(super) modes: Vec<Piece>,
}

/// A part of the box along one mode of the tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) extent: i64,
    /// The mode of the tensor, as the basis vector that names it, times the step from one element to the next.
    pub(super) mode: Basis,
    /// Its stride in the tensor, in elements.
    pub(super) stride: i64,
}

impl Piece {
    /// Every so-many-th element of the mode is taken.
    pub(super) fn step(&self) -> i64 {
        self.mode.value.value()
    }
}

impl Dimension {
    pub(super) fn extent(&self) -> i64 {
        let extents = self.modes.iter().map(|piece| piece.extent);
        extents.fold(1, i64::saturating_mul)
    }

    /// The stride of the dimension in elements: that of its mode, or what the strides of its modes have in common.
    pub(super) fn stride(&self) -> i64 {
        self.modes
            .iter()
            .fold(0, |common, piece| gcd(common, piece.stride))
    }

    /// Whether the box takes all of each mode.
    pub(super) fn is_whole(&self, global: &Layout) -> Result<bool, Error> {
        for piece in &self.modes {
            if piece.extent != extent_at(global, &piece.mode)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The swizzle of shared memory as the hardware knows it, and the layout it permutes.
pub(super) fn plain(
    shared: &ComposedLayout,
    element: TmaElement,
) -> Result<(TmaSwizzle, Layout), Error> {
    let swizzled = shared.position_independent()?;
    let Outer::Swizzle(swizzle) = swizzled.outer() else {
        return Err(TmaError::Swizzle {
            swizzle: swizzled.to_string(),
        }
        .into());
    };
    if swizzled.base_offset() != 0 {
        return Err(TmaError::Gaps {
            shared: swizzled.to_string(),
        }
        .into());
    }
    Ok((
        TmaSwizzle::of(*swizzle, 8 * element.bytes())?,
        swizzled.inner().clone(),
    ))
}

/// A tensor of a single mode that is no tuple has a tuple of one, so that there is a basis vector to name it.
pub(super) fn of_rank_one(global: &Layout, tile: &Tiler) -> Result<(Layout, Tiler), Error> {
    if !global.is_leaf() {
        return Ok((global.clone(), tile.clone()));
    }
    let tile = match tile {
        Tiler::Modes(_) => tile.clone(),
        one => Tiler::Modes(vec![one.clone()]),
    };
    Ok((Layout::concat([global])?, tile))
}

/// `shared-memory offset -> tensor coordinate`: the inverse of the shared-memory layout, then the tile.
pub(super) fn order(global: &Layout, tile: &Tiler, shared: &Layout) -> Result<Layout, Error> {
    let tile = Layout::identity(global.shape())?.composition(tile)?;
    if tile.size() != shared.size() {
        return Err(TmaError::Size {
            tile: tile.size(),
            shared: shared.size(),
        }
        .into());
    }
    let inverse = shared.right_inverse()?;
    if inverse.size() != shared.size() {
        return Err(TmaError::Gaps {
            shared: shared.to_string(),
        }
        .into());
    }
    Ok(tile.composition(&inverse)?.coalesce(..))
}

/// `tensor coordinate -> coordinate of the map`: each mode's basis vector is that of its dimension.
pub(super) fn tensor(global: &Layout, dimensions: &[Dimension]) -> Result<Layout, Error> {
    let identity = Layout::identity(global.shape())?;
    let mut strides = Vec::new();
    for leaf in identity.leaves() {
        let Stride::Basis(mode) = leaf.stride else {
            return Err(TmaError::NoVector {
                order: format!("{identity:#}"),
            }
            .into());
        };
        let of = |(at, dimension): (usize, &Dimension)| {
            let piece = dimension
                .modes
                .iter()
                .find(|piece| piece.mode.is_parallel(&mode))?;
            Some((at, scale(piece, dimension)))
        };
        strides.push(match dimensions.iter().enumerate().find_map(of) {
            Some((at, scale)) => Stride::Basis(Basis::new(Int::Dynamic(scale), &[at])?),
            None => Stride::constant(0),
        });
    }
    let stride = Tuple::flat(strides).unflatten(&global.shape())?;
    Ok(Layout::new(global.shape(), stride)?)
}

/// The modes of the order that step by one, or by no more than an element stride can, save the innermost: what a box can
/// be made of. CuTe takes those that step by one.
pub(super) fn contiguous(order: &Layout, global: &Layout) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    for leaf in order.leaves() {
        match leaf.stride {
            Stride::Basis(mode) if takes(&pieces, &mode) => {
                let stride = stride_at(global, &mode)?;
                pieces.push(Piece {
                    extent: leaf.extent.value(),
                    mode,
                    stride,
                });
            }
            _ => break,
        }
    }
    if pieces.is_empty() {
        Err(TmaError::NoVector {
            order: format!("{order:#}"),
        }
        .into())
    } else {
        Ok(pieces)
    }
}

/// Whether a box can go on along a mode, with this step.
fn takes(pieces: &[Piece], mode: &Basis) -> bool {
    let again = pieces.iter().any(|piece| piece.mode.is_parallel(mode));
    match mode.value.value() {
        1 => !again,
        2..=8 => !again && !pieces.is_empty(),
        _ => false,
    }
}

/// Pieces that follow each other in the tensor become one dimension, up to the 256 elements that a box can have.
///
/// CuTe joins them by their strides alone; here the inner one must also be the whole of its mode, so that no padding
/// between the modes is taken for elements. Modes of stride 0 stay apart: no dimension has the same element at several
/// coordinates and another mode behind it.
pub(super) fn joined_to_256(pieces: &[Piece], global: &Layout) -> Result<Vec<Dimension>, Error> {
    let mut dimensions: Vec<Dimension> = Vec::new();
    for piece in pieces {
        if let Some(last) = dimensions.last_mut()
            && piece.stride != 0
            && last.extent().checked_mul(last.modes[0].stride) == Some(piece.stride)
            && last.extent().saturating_mul(piece.extent) <= 256
            && piece.step() == 1
            && last.modes[0].step() == 1
            && last.is_whole(global)?
        {
            last.modes.push(*piece);
        } else {
            dimensions.push(Dimension {
                modes: vec![*piece],
            });
        }
    }
    Ok(dimensions)
}

/// The modes of the tensor that the box does not extend along.
pub(super) fn absent(global: &Layout, pieces: &[Piece]) -> Result<Vec<Dimension>, Error> {
    let mut rest = Vec::new();
    let identity = Layout::identity(global.shape())?;
    for (leaf, coordinate) in global.leaves().iter().zip(identity.leaves()) {
        let (Stride::Basis(mode), Stride::Int(_)) = (coordinate.stride, leaf.stride) else {
            continue;
        };
        if pieces.iter().any(|piece| piece.mode.is_parallel(&mode)) {
            continue;
        }
        let stride = stride_at(global, &mode)?;
        if stride != 0 {
            let piece = Piece {
                extent: 1,
                mode,
                stride,
            };
            rest.push(Dimension { modes: vec![piece] });
        }
    }
    Ok(rest)
}

/// The pieces of a dimension that are longer than one step must follow each other at its stride. The stride of a mode of one
/// element is that of no step, so nothing follows it in its dimension, nor does anything follow a mode of stride 0.
pub(super) fn progression(
    index: usize,
    dimension: &Dimension,
    global: &Layout,
) -> Result<(), Error> {
    let is_joined = dimension.modes.len() > 1;
    let mut next = Some(dimension.stride());
    for piece in dimension.modes.iter().filter(|piece| piece.extent > 1) {
        if !is_joined && extent_at(global, &piece.mode)? == 1 {
            continue;
        }
        let is_still = is_joined && piece.stride == 0;
        if is_still || Some(piece.stride) != next || piece.step() != 1 && is_joined {
            let modes: Vec<String> = dimension
                .modes
                .iter()
                .map(|p| format!("{}:{}", p.extent, p.stride))
                .collect();
            return Err(TmaError::Joined {
                dimension: index,
                modes: modes.join(", "),
            }
            .into());
        }
        next = piece.stride.checked_mul(piece.extent);
    }
    Ok(())
}

/// One block's slice of the box: cut from the last dimension inwards.
pub(super) fn cut(extents: &mut [i64], blocks: i64) -> Result<(), Error> {
    let whole = extents.to_vec();
    let refused = || TmaError::Multicast {
        blocks,
        extents: whole.clone(),
    };
    let mut rest = blocks;
    for extent in extents.iter_mut().rev() {
        if rest > 1 && *extent % rest != 0 && rest % *extent != 0 || rest < 1 {
            return Err(refused().into());
        }
        let next = ceil_div(rest, *extent);
        *extent = ceil_div(*extent, rest);
        rest = next;
    }
    if rest == 1 {
        Ok(())
    } else {
        Err(refused().into())
    }
}

/// The quotient of two numbers above 0, rounded up.
fn ceil_div(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

/// How many steps of the dimension one step of the mode is.
pub(super) fn scale(piece: &Piece, dimension: &Dimension) -> i64 {
    if dimension.stride() == 0 {
        1
    } else {
        piece.stride / dimension.stride()
    }
}

/// The extent of the mode that a basis vector names.
pub(super) fn extent_at(global: &Layout, mode: &Basis) -> Result<i64, Error> {
    let path: Vec<usize> = mode.path().collect();
    Ok(global.get(&path)?.size())
}

/// The stride of the mode that a basis vector names; 0 if the mode has one element, from which no step leads.
///
/// The map walks forwards along each dimension, so a negative stride is refused.
pub(super) fn stride_at(global: &Layout, mode: &Basis) -> Result<i64, Error> {
    let path: Vec<usize> = mode.path().collect();
    let text = || format!("{mode:#}");
    let mode = global.get(&path)?;
    match mode.leaves() {
        [leaf] => match leaf.stride {
            Stride::Int(_) if leaf.extent.value() == 1 => Ok(0),
            Stride::Int(stride) if stride.value() < 0 => Err(TmaError::Backwards {
                mode: text(),
                stride: stride.value(),
            }
            .into()),
            Stride::Int(stride) => Ok(stride.value()),
            _ => Err(TmaError::Element {
                text: format!("a layout without integer strides, {global}"),
            }
            .into()),
        },
        _ => Err(TmaError::NoVector {
            order: format!("{mode:#}"),
        }
        .into()),
    }
}

/// The greatest common divisor, at most the largest integer.
pub(super) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(i64::MAX)
}
