//! The matrices that kernels take: a view with a contiguous mode and a leading dimension, or a compact copy of the
//! view.

use colex_device::{Element, View};
use colex_layout::{IntTuple, Layout, Stride};
use colex_tiled::Operand;

use super::plan::vector;
use super::problem::{MOST, Major};
use crate::copy::call::CopyCall;
use crate::copy::plan::CopyPlan;
use crate::error::{Error, ErrorKind};

/// A matrix as a kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) major: Major,
    pub(crate) leading: i64,
}

/// The compact form of a view whose strides no kernel takes.
#[derive(Debug)]
pub(crate) struct Packed {
    layout: Layout,
    leading: i64,
    bytes: usize,
}

/// How a kernel is given a matrix.
#[derive(Debug)]
pub(crate) enum Place {
    /// Where it is.
    Here(Matrix),
    /// By a compact copy.
    Packed(Box<Packed>),
}

/// The alignment of the rows of a packed matrix, in bytes: that of the widest access.
const ROW: i64 = 16;

/// Returns the extents of a view of two modes.
///
/// # Errors
///
/// Returns an error if the view does not have two modes.
pub(crate) fn extents(operand: Operand, shape: &IntTuple) -> Result<[i64; 2], Error> {
    let size = |mode: IntTuple| mode.leaves().iter().map(|extent| extent.value()).product();
    let extents: Vec<i64> = shape.modes().map(size).collect();
    match extents[..] {
        [first, second] if !shape.is_leaf() => Ok([first, second]),
        _ => Err(ErrorKind::NotAMatrix {
            what: operand.name(),
            shape: shape.to_string(),
        }
        .into()),
    }
}

impl Matrix {
    /// Returns the form of a view that kernels take, or `None` if they take none: one mode must be contiguous, and the rows
    /// of the other must not overlap. `wanted` is the contiguous mode where both are.
    pub(crate) fn of<T: Element>(view: &View<'_, T>, wanted: Option<Major>) -> Option<Matrix> {
        let layout = view.layout()?;
        let [(rows, down), (columns, across)] = [mode(layout, 0)?, mode(layout, 1)?];
        // The stride of a mode of extent 1 contributes nothing to an offset, so any leading dimension describes it.
        let second = || match (columns == 1 || across == 1, rows == 1) {
            (true, true) => Some(aligned(columns, T::BYTES as i64)),
            (true, false) if (columns..=MOST).contains(&down) => Some(down),
            _ => None,
        };
        let first = || match (rows == 1 || down == 1, columns == 1) {
            (true, true) => Some(aligned(rows, T::BYTES as i64)),
            (true, false) if (rows..=MOST).contains(&across) => Some(across),
            _ => None,
        };
        let forms = [(Major::Second, second()), (Major::First, first())];
        let forms = forms.into_iter();
        let forms: Vec<_> = forms
            .filter_map(|(major, form)| Some((major, form?)))
            .collect();
        let longer = if columns >= rows {
            Major::Second
        } else {
            Major::First
        };
        let found = |major| forms.iter().find(|form| form.0 == major);
        let (major, leading) = wanted
            .and_then(found)
            .or_else(|| found(longer))
            .or_else(|| forms.first())?;
        Some(Matrix {
            address: view.bytes().0,
            major: *major,
            leading: *leading,
        })
    }
}

/// Returns extent and stride of a mode of a layout, if it is one after coalescing.
fn mode(layout: &Layout, at: usize) -> Option<(i64, i64)> {
    let mode = layout.mode(at)?;
    let mode = if mode.is_leaf() {
        mode
    } else {
        mode.coalesce(..)
    };
    match mode.leaves() {
        [one] => match one.stride {
            Stride::Int(stride) => Some((one.extent.value(), stride.value())),
            Stride::Basis(_) | Stride::Xor(_) => None,
        },
        _ => None,
    }
}

/// Returns the layout with the shape of a matrix whose second mode is contiguous and whose first mode has a stride of
/// `leading`.
fn compact(matrix: &Layout, leading: i64) -> Result<Layout, colex_layout::Error> {
    let mode = |at| matrix.mode(at).expect("a matrix has two modes").shape();
    let rows = Layout::column_major(mode(0))?;
    let rows = Layout::leaf(rows.size(), leading)?.composition(&rows)?;
    Layout::concat([&rows, &Layout::column_major(mode(1))?])
}

/// Returns the least number of elements, at least `length`, whose bytes are a multiple of [`ROW`].
fn aligned(length: i64, bytes: i64) -> i64 {
    let step = (ROW / bytes).max(1);
    (length + step - 1) / step * step
}

impl Packed {
    /// Returns the compact form of a view, with the second mode contiguous.
    ///
    /// # Errors
    ///
    /// Returns an error if the size does not fit 63 bits.
    pub(crate) fn new<T: Element>(view: &View<'_, T>) -> Result<Packed, Error> {
        let layout = view.layout().expect("a matrix that is packed has elements");
        let columns = layout.mode(1).map_or(1, |mode| mode.size());
        let leading = aligned(columns, T::BYTES as i64);
        let layout = compact(layout, leading).map_err(colex_tensor::Error::from)?;
        let count = layout.cosize().map_err(colex_tensor::Error::from)?;
        Ok(Packed {
            layout,
            leading,
            bytes: (count as usize).saturating_mul(T::BYTES),
        })
    }

    /// Returns the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the matrix of a copy at an address.
    pub(crate) fn at(&self, address: u64) -> Matrix {
        Matrix {
            address,
            major: Major::Second,
            leading: self.leading,
        }
    }

    /// Returns the copy of the view to memory at an address.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`](crate::copy()).
    pub(crate) fn fill<T: Element>(
        &self,
        view: &View<'_, T>,
        address: u64,
    ) -> Result<CopyCall<'static>, Error> {
        let layout = view.layout().expect("a matrix that is packed has elements");
        let addresses = [view.bytes().0, address];
        CopyCall::between(view.device(), [layout, &self.layout], addresses, T::BYTES)
    }

    /// Returns the copy of memory at an address to the view.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`](crate::copy()).
    pub(crate) fn empty<T: Element>(
        &self,
        view: &View<'_, T>,
        address: u64,
    ) -> Result<CopyCall<'static>, Error> {
        let layout = view.layout().expect("a matrix that is packed has elements");
        let addresses = [address, view.bytes().0];
        CopyCall::between(view.device(), [&self.layout, layout], addresses, T::BYTES)
    }
}

impl Place {
    /// Returns how a kernel is given a view: where it is, or packed if its strides require it. Where `packs` says so, a
    /// matrix that no tensor map describes is packed too. `wanted` is the contiguous mode where both are.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Packed::new`].
    pub(crate) fn of<T: Element>(
        view: &View<'_, T>,
        wanted: Option<Major>,
        packs: bool,
    ) -> Result<Place, Error> {
        let bytes = T::BYTES as i64;
        let is_mapped =
            |matrix: &Matrix| vector(bytes, matrix.address, matrix.leading) * bytes == 16;
        Ok(match Matrix::of(view, wanted) {
            Some(matrix) if !packs || is_mapped(&matrix) => Place::Here(matrix),
            _ => Place::Packed(Box::new(Packed::new(view)?)),
        })
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Place::Here(_) => 0,
            Place::Packed(packed) => packed.bytes(),
        }
    }
}

/// Returns the plan of a copy of at least one element.
pub(crate) fn plan<'a>(copy: &'a CopyCall<'_>) -> &'a CopyPlan {
    copy.plan().expect("a matrix that is packed has elements")
}
