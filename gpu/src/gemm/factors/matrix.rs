//! The matrices that kernels take: a view with a contiguous mode and a leading dimension, or a compact copy of the
//! view.

use colex_atom::Major;
use colex_device::{Element, View};
use colex_layout::{IntTuple, Layout, LeafMode, Stride};
use colex_tiled::Operand;

use crate::copy::call::CopyCall;
use crate::copy::plan::CopyPlan;
use crate::error::{Error, ErrorKind};
use crate::gemm::batch::{Apart, Batch, MOST_MODES, alignment};
use crate::gemm::plan::vector;
use crate::gemm::problem::MOST;
use crate::gemm::sm90::takes_orders;

/// A matrix as a kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) major: Major,
    pub(crate) leading: i64,
    /// Along the modes of a batch.
    pub(crate) steps: Apart,
}

/// The compact form of a view whose strides no kernel takes.
#[derive(Debug)]
pub(crate) struct Packed {
    /// The view's layout without the modes along which all products have one matrix.
    from: Layout,
    layout: Layout,
    leading: i64,
    steps: Apart,
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

/// Returns the extents of a matrix, and those of the modes behind it.
///
/// # Errors
///
/// Returns an error if the view has fewer than two modes.
pub(crate) fn extents(operand: Operand, shape: &IntTuple) -> Result<([i64; 2], Vec<i64>), Error> {
    if let ([first, second], 1) = (shape.leaves(), shape.depth()) {
        return Ok(([first.value(), second.value()], Vec::new()));
    }
    // An extent of 0 may stand beside others whose product no number holds.
    let size = |mode: IntTuple| {
        let extents = mode.leaves();
        let all = extents.iter().map(|extent| extent.value());
        all.fold(1_i64, |all, extent| extent.saturating_mul(all))
    };
    let extents: Vec<i64> = shape.modes().map(size).collect();
    match &extents[..] {
        [first, second, batch @ ..] if !shape.is_leaf() => Ok(([*first, *second], batch.to_vec())),
        _ => Err(ErrorKind::NotAMatrix {
            what: operand.name(),
            shape: shape.to_string(),
        }
        .into()),
    }
}

impl Matrix {
    /// Returns the matrix as far as decides about accesses that serve another one of its layout too: at an address with the
    /// alignment that both have.
    pub(crate) fn aligned_with(&self, other: &Matrix) -> Matrix {
        Matrix {
            address: self.address | other.address,
            ..*self
        }
    }

    /// Returns the form of a matrix of one row as one among many: with the stride between rows that its view states, or else
    /// without a gap. What a kernel may read at once then does not depend on the number of rows.
    pub(crate) fn among_rows<T: Element>(self, view: &View<'_, T>) -> Matrix {
        self.among(view.layout().and_then(modes))
    }

    /// The same for the modes of the view.
    fn among(self, modes: Option<Modes>) -> Matrix {
        match (modes, self.major) {
            (Some([(1, down), (columns, _)]), Major::Second) => Matrix {
                leading: if (columns..=MOST).contains(&down) {
                    down
                } else {
                    columns
                },
                ..self
            },
            _ => self,
        }
    }

    /// Returns a column of `count` elements at an address.
    pub(crate) fn column(address: u64, count: i64) -> Matrix {
        Matrix {
            address,
            major: Major::First,
            leading: count,
            steps: Apart::default(),
        }
    }

    /// Returns the form of a packed matrix with this number of columns in the place of this one.
    pub(crate) fn packed<T: Element>(self, columns: i64) -> Matrix {
        Matrix {
            address: 0,
            major: Major::Second,
            leading: aligned(columns, T::BYTES as i64),
            // Strides of packed matrices are multiples of the widest access.
            steps: self.steps.map(|step| if step == 0 { 0 } else { ROW }),
        }
    }

    /// Returns the form of a view that kernels take, or `None` if they take none: one mode must be contiguous, and the rows
    /// of the other must not overlap. `wanted` is the contiguous mode where both are.
    pub(crate) fn of<T: Element>(
        view: &View<'_, T>,
        wanted: Option<Major>,
        steps: Apart,
    ) -> Option<Matrix> {
        Matrix::of_modes(view, modes(view.layout()?)?, (wanted, steps))
    }

    /// Returns the form that a view would have with another number of rows, as [`of`](Matrix::of) does: see [`with_rows`]. `among`
    /// says whether one row counts as one among many.
    pub(crate) fn of_rows<T: Element>(
        view: &View<'_, T>,
        (wanted, steps): (Option<Major>, Apart),
        rows: i64,
        among: bool,
    ) -> Option<Matrix> {
        let modes = with_rows(modes(view.layout()?)?, rows);
        let matrix = Matrix::of_modes(view, modes, (wanted, steps))?;
        Some(if among {
            matrix.among(Some(modes))
        } else {
            matrix
        })
    }

    fn of_modes<T: Element>(
        view: &View<'_, T>,
        [(rows, down), (columns, across)]: Modes,
        (wanted, steps): (Option<Major>, Apart),
    ) -> Option<Matrix> {
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
        let form = |major| {
            let leading = match major {
                Major::First => first(),
                Major::Second => second(),
            };
            Some((major, leading?))
        };
        let longer = if columns >= rows {
            Major::Second
        } else {
            Major::First
        };
        let (major, leading) = wanted
            .and_then(form)
            .or_else(|| form(longer))
            .or_else(|| form(longer.transposed()))?;
        Some(Matrix {
            address: view.bytes().0,
            major,
            leading,
            steps,
        })
    }
}

/// Extent and stride of both modes of a matrix.
type Modes = [(i64, i64); 2];

/// Returns the modes of a matrix with another number of rows: rows that follow each other without a gap along the first mode still do,
/// and those of a matrix that has one row follow each other without a gap if their stride leaves no room for a row.
fn with_rows([(own, down), (columns, across)]: Modes, rows: i64) -> Modes {
    let down = match own {
        1 if across == 1 && !(columns..=MOST).contains(&down) => columns,
        _ => down,
    };
    let follows = down == 1 && columns > 1 && across == own;
    let across = if follows { rows } else { across };
    [(rows, down), (columns, across)]
}

/// Returns the layout of a matrix with modes behind it and with another number of rows, by [`with_rows`]; `None` if a mode of the
/// matrix has several strides.
fn layout_of_rows(layout: &Layout, rows: i64) -> Option<Layout> {
    let leaf = |(extent, stride): (i64, i64)| Layout::leaf(extent, stride).ok();
    let [first, second] = with_rows(modes(layout)?, rows);
    let behind = layout.modes().skip(2);
    let modes: Vec<Layout> = [leaf(first)?, leaf(second)?]
        .into_iter()
        .chain(behind)
        .collect();
    Layout::concat(&modes).ok()
}

/// Returns extent and stride of both modes of a layout, if each is one after coalescing.
fn modes(layout: &Layout) -> Option<Modes> {
    // Without copies of the modes: every call of the library comes by here.
    if let ([first, second], 1) = (layout.leaves(), layout.depth()) {
        return Some([strided(first)?, strided(second)?]);
    }
    let mode = |at| {
        let mode = layout.mode(at)?.coalesce(..);
        match mode.leaves() {
            [one] => strided(one),
            _ => None,
        }
    };
    Some([mode(0)?, mode(1)?])
}

/// Returns extent and stride of a leaf whose stride is a number.
fn strided(leaf: &LeafMode) -> Option<(i64, i64)> {
    match leaf.stride {
        Stride::Int(stride) => Some((leaf.extent.value(), stride.value())),
        Stride::Basis(_) | Stride::Xor(_) => None,
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
    pub(crate) fn new<T: Element>(
        view: &View<'_, T>,
        batch: &Batch,
        apart: Apart,
    ) -> Result<Packed, Error> {
        Packed::repeated(view, batch, apart, 1)
    }

    /// Returns the same with room for `times` times the columns in each row, of which the first are those of the view. The rows
    /// of a batch follow each other if there is room for more than the columns.
    ///
    /// # Errors
    ///
    /// Returns an error if the size does not fit 63 bits.
    pub(crate) fn repeated<T: Element>(
        view: &View<'_, T>,
        batch: &Batch,
        apart: Apart,
        times: i64,
    ) -> Result<Packed, Error> {
        let layout = view.layout().expect("a matrix that is packed has elements");
        Packed::of_layout(layout, T::BYTES, (batch, apart), times)
    }

    fn of_layout(
        layout: &Layout,
        bytes: usize,
        (batch, apart): (&Batch, Apart),
        times: i64,
    ) -> Result<Packed, Error> {
        let size = |mode| layout.mode(mode).map_or(1, |mode| mode.size());
        let leading = aligned(size(1) * times, bytes as i64);
        let error = colex_tensor::Error::from;
        let one = compact(layout, leading).map_err(error)?;
        let rows = size(0).saturating_mul(leading);
        let count = match times {
            1 => one.cosize().map_err(error)?,
            _ => rows,
        };
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for at in 0..2 {
            from.push(layout.mode(at).expect("a matrix has two modes"));
            to.push(one.mode(at).expect("a matrix has two modes"));
        }
        let (mut steps, mut next) = ([0; MOST_MODES], aligned(count, bytes as i64));
        for (i, extent) in batch
            .extents()
            .iter()
            .enumerate()
            .filter(|(i, _)| apart[*i] != 0)
        {
            steps[i] = next;
            from.push(Layout::leaf(*extent, apart[i]).map_err(error)?);
            to.push(Layout::leaf(*extent, next).map_err(error)?);
            next = next.saturating_mul(*extent);
        }
        let layout = Layout::concat(&to).map_err(error)?;
        let count = match times {
            1 => layout.cosize().map_err(error)?,
            _ => next,
        };
        Ok(Packed {
            from: Layout::concat(&from).map_err(error)?,
            layout,
            leading,
            steps,
            bytes: (count as usize).saturating_mul(bytes),
        })
    }

    /// Returns the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of rows that follow each other.
    pub(crate) fn rows(&self, bytes: usize) -> i64 {
        (self.bytes / bytes) as i64 / self.leading
    }

    /// Returns the matrix of a copy at an address.
    pub(crate) fn at(&self, address: u64) -> Matrix {
        Matrix {
            address,
            major: Major::Second,
            leading: self.leading,
            steps: self.steps,
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
        let addresses = [view.bytes().0, address];
        let layouts = [&self.from, &self.layout];
        CopyCall::between(view.device(), layouts, addresses, T::BYTES)
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
        let addresses = [address, view.bytes().0];
        let layouts = [&self.layout, &self.from];
        CopyCall::between(view.device(), layouts, addresses, T::BYTES)
    }
}

/// Where memory for a matrix might begin, for what is loaded before there is any.
pub(crate) const ANYWHERE: u64 = 1 << 40;

/// Loads the kernels that pack a view into rows with room for `times` times its columns, and those that copy it back if it is written,
/// as if it had each of these numbers of rows, and with its own.
///
/// # Errors
///
/// Returns the errors of [`copy`](crate::copy()).
pub(crate) fn load_copies<T: Element>(
    view: &View<'_, T>,
    rows: &[i64],
    of_batch: (&Batch, Apart),
    (times, is_written): (i64, bool),
) -> Result<(), Error> {
    let Some(own) = view.layout() else {
        return Ok(());
    };
    let others = rows.iter().filter_map(|rows| layout_of_rows(own, *rows));
    let mut copies = Vec::new();
    for layout in others.chain([own.clone()]) {
        let packed = Packed::of_layout(&layout, T::BYTES, of_batch, times)?;
        copies.push([packed.from, packed.layout]);
    }
    let load = |copies: Vec<[Layout; 2]>, addresses: [u64; 2]| {
        let copies = copies.into_iter().map(|layouts| Ok(Some(layouts)));
        CopyCall::load(view.device(), copies, addresses, T::BYTES)
    };
    let (at, packed) = (view.bytes().0, ANYWHERE);
    if is_written {
        let back = copies.iter().map(|[from, to]| [to.clone(), from.clone()]);
        load(back.collect(), [packed, at])?;
    }
    load(copies, [at, packed])?;
    Ok(())
}

impl Place {
    /// Returns how a kernel is given a view, which `found` describes if a kernel takes its strides: where it is, or packed.
    /// Where `packs` says so, a matrix that no tensor map describes is packed too, and one that `wgmma` does not take in its
    /// order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Packed::new`].
    pub(crate) fn of<T: Element>(
        view: &View<'_, T>,
        found: Option<Matrix>,
        packs: bool,
        (batch, steps): (&Batch, Apart),
    ) -> Result<Place, Error> {
        Ok(match found {
            Some(matrix) if Place::is_here::<T>(found, packs) => Place::Here(matrix),
            _ => Place::Packed(Box::new(Packed::new(view, batch, steps)?)),
        })
    }

    /// Whether a kernel is given a matrix where it is.
    pub(crate) fn is_here<T: Element>(found: Option<Matrix>, packs: bool) -> bool {
        let bytes = T::BYTES as i64;
        let is_mapped = |matrix: Matrix| {
            let leading = alignment(matrix.leading, &matrix.steps);
            vector(bytes, matrix.address, leading) * bytes == 16
                && (takes_orders(T::BYTES) || matrix.major == Major::Second)
        };
        found.is_some_and(|matrix| !packs || is_mapped(matrix))
    }

    /// Whether it is a compact copy.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self, Place::Packed(_))
    }

    /// Returns the matrix that a kernel is given, with an address of its alignment.
    pub(crate) fn matrix(&self) -> Matrix {
        match self {
            Place::Here(matrix) => *matrix,
            Place::Packed(packed) => packed.at(0),
        }
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
