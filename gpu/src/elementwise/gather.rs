//! Gathers of the rows of a table: an embedding.

use std::marker::PhantomData;
use std::sync::LazyLock;

use colex_atom::{Arch, Ty};
use colex_device::{Element, View, ViewMut};
use colex_layout::Layout;
use smallvec::SmallVec;

use super::call::{Checked, ElementwiseCall, GivenView, check_memory};
use super::expression::MapExpression;
use super::operands::{Binding, ElementwiseProblem, ElementwiseWork, Kind, Operand};
use super::plan::ElementwisePlan;
use crate::copy::pieces::raw;
use crate::error::{ElementwiseError, Error, ErrorKind};
use crate::memory_bound::apart::apart;
use crate::memory_bound::modes::{has_elements, modes, of_modes, one_leaf, repeated, shown, sizes};
use crate::recent::{CallKind, GivenCall};

/// A type of the numbers of rows.
pub trait RowNumber: Element + sealed::Sealed {
    /// Its type in the table of atoms.
    const TY: Ty;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($of:ident = $ty:ident;)*) => {$(
        impl sealed::Sealed for $of {}

        impl RowNumber for $of {
            const TY: Ty = Ty::$ty;
        }
    )*};
}
numbers! {
    i32 = S32;
    u32 = U32;
    i64 = S64;
}

/// Copies the row of `table` that each element of `index` names: `out[i, ..] = table[index[i], ..]`. The first mode of the table
/// is that of its rows; `index` has any shape, and `out` that of `index` followed by that of a row.
///
/// A row whose number is negative, or not below the number of rows, is filled with zeros: nothing beyond the table is read. (In
/// torch such a number is an error, which ends the process's use of the device.)
///
/// ```
/// use colex_gpu::{Device, gather};
///
/// let device = Device::open();
/// let table = device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let index = device.upload(&[2i32, 0, 7])?;
/// let mut out = device.poisoned::<f32>(6)?;
/// gather(&table.view((3, 2))?, &index.view(3)?, &out.view_mut((3, 2))?)?;
/// assert_eq!(out.download()?, [5.0, 6.0, 1.0, 2.0, 0.0, 0.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if shapes or devices differ, if the table has no rows and `out` has elements, if the table has more than
/// 2^31 - 2^17 rows or a mode of rows with several strides, if the modes of all tensors make more than 8 loops, or if `out` overlaps another view or has one element at several coordinates.
/// Returns the device's error if the launch fails.
pub fn gather<T: Element, I: RowNumber>(
    table: &View<'_, T>,
    index: &View<'_, I>,
    out: &ViewMut<'_, T>,
) -> Result<(), Error> {
    Gather::new(table, index, out).run()
}

/// A gather that is being described: what [`gather`] runs.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::elementwise::Gather;
///
/// let device = Device::open();
/// let (table, index) = (device.upload(&[7u8; 64])?, device.upload(&[3i64, 1])?);
/// let mut out = device.poisoned::<u8>(32)?;
/// let call = Gather::new(&table.view((4, 16))?, &index.view(2)?, &out.view_mut((2, 16))?).prepare()?;
/// assert_eq!(call.to_string(), "gather, vectors of 16, 128 threads, 1 access");
/// call.run(&device)?;
/// assert_eq!(out.download()?, [7; 32]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Gather<'a> {
    table: GivenView,
    index: GivenView,
    out: GivenView,
    /// Of the numbers of rows, and of the elements as bits.
    types: [Ty; 2],
    memory: PhantomData<&'a ()>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ElementwiseError::Gather { why }.into())
}

/// The formula of elements of 1, 2, 4 and 8 bytes.
static COPIES: LazyLock<[MapExpression; 4]> = LazyLock::new(|| {
    [1, 2, 4, 8].map(|bytes| {
        let copy = MapExpression::new(|m| {
            let element = m.tensor("table", raw(bytes));
            m.output("out", element);
        });
        copy.expect("invariant: one element is a formula")
    })
});

impl<'a> Gather<'a> {
    /// Builds the call on views.
    pub fn new<T: Element, I: RowNumber>(
        table: &View<'a, T>,
        index: &View<'a, I>,
        out: &ViewMut<'a, T>,
    ) -> Gather<'a> {
        Gather {
            table: GivenView::new("table", table, false),
            index: GivenView::new("index", index, false),
            out: GivenView::new("out", out, true),
            types: [I::TY, raw(T::BYTES as i64)],
            memory: PhantomData,
        }
    }

    fn checked(&self) -> Result<Checked, Error> {
        let Gather {
            table, index, out, ..
        } = self;
        let device = &out.device;
        device.check_same("the table", &table.device)?;
        device.check_same("the index", &index.device)?;
        for read in [table, index] {
            apart(
                (out.name.to_string(), out.elements()),
                (read.name.to_string(), read.elements()),
            )?;
        }
        check_memory(std::slice::from_ref(out))?;
        self.work()
    }

    /// What is computed, of tensors whose memory was checked.
    fn work(&self) -> Result<Checked, Error> {
        let Gather {
            table, index, out, ..
        } = self;
        let device = &out.device;
        let of_table = table.extents();
        let [_, row @ ..] = &of_table[..] else {
            return refuse(format!(
                "the table has the shape {}, which has no mode of rows: it must have at least one mode",
                table.shape()
            ));
        };
        let wanted = [&index.extents(), row].concat();
        if out.extents() != wanted {
            return refuse(format!(
                "out has the shape {}, and must have {}: that of index {} and that of a row of the table {}",
                out.shape(),
                shown(&wanted),
                index.shape(),
                table.shape()
            ));
        }
        let (Some(of_table), Some(of_index), Some(of_out)) =
            (table.layout(), index.layout(), out.layout())
        else {
            if out.layout().is_some() {
                let [table, index, out] = [table, index, out].map(GivenView::shape);
                return refuse(format!(
                    "the table has the shape {table}, index {index} and out {out}: one of them has no elements"
                ));
            }
            return Ok(Checked {
                work: None,
                device: device.clone(),
            });
        };
        let own = modes(of_index);
        let mut row = modes(of_table);
        let rows = row.remove(0);
        let Some((count, stride)) = one_leaf(&rows) else {
            return refuse(format!(
                "the rows of the table {of_table} have several strides: its first mode must have one"
            ));
        };
        let most = colex_tensor::MAX_EXTENT;
        if count > most {
            let (what, extent) = ("the number of rows of the table", count);
            return Err(ErrorKind::Extent { what, extent, most }.into());
        }
        if stride >= 1 << 40 {
            let (name, most) = ("table".to_string(), (1 << 40) - 1);
            return Err(ElementwiseError::Stride { name, stride, most }.into());
        }
        let same =
            |all: &[Layout]| -> Result<Vec<Layout>, Error> { all.iter().map(repeated).collect() };
        let index_layout = of_modes(&[own.clone(), same(&row)?].concat())?;
        let table_layout = of_modes(&[same(&own)?, row].concat())?;
        let [ty, element] = self.types;
        let work = ElementwiseWork {
            what: "gather",
            expression: COPIES[(out.element_bytes.trailing_zeros() as usize).min(3)].clone(),
            inputs: vec![Binding::Operand(1)],
            outputs: vec![Binding::Operand(2)],
            scalars: Vec::new(),
            operands: vec![
                Operand {
                    name: "index".into(),
                    ty,
                    is_output: false,
                    kind: Kind::Tensor,
                    layout: index_layout,
                },
                Operand {
                    name: "table".into(),
                    ty: element,
                    is_output: false,
                    kind: Kind::Rows {
                        index: 0,
                        rows: count,
                        stride,
                    },
                    layout: table_layout,
                },
                Operand {
                    name: "out".into(),
                    ty: element,
                    is_output: true,
                    kind: Kind::Tensor,
                    layout: of_out.clone(),
                },
            ],
        };
        let addresses = [index, table, out].into_iter().map(|given| given.bytes.0);
        Ok(Checked {
            work: Some((work, addresses.collect())),
            device: device.clone(),
        })
    }

    /// Returns the problem of the views; `None` if they have no element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`] that concern the views.
    pub fn problem(&self) -> Result<Option<ElementwiseProblem>, Error> {
        self.checked()?.problem()
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`] that concern the views.
    pub fn plan(&self) -> Result<Option<ElementwisePlan>, Error> {
        self.checked()?.plan()
    }

    /// Enqueues the call on the stream of the device that holds `out`. It allocates nothing, so that a capture of the stream takes it
    /// once its kernel is loaded.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`].
    pub fn run(&self) -> Result<(), Error> {
        let Gather {
            table, index, out, ..
        } = self;
        let device = &out.device;
        device.check_same("the table", &table.device)?;
        device.check_same("the index", &index.device)?;
        let keys = [table, index, out].map(|given| Some(given.key.clone()));
        let given = GivenCall {
            kind: CallKind::Gather,
            views: keys.into_iter().collect(),
            types: self.types,
            numbers: SmallVec::new(),
        };
        ElementwiseCall::run_recent(device, &given, || {
            let needs_memory = false;
            Ok((self.prepare()?, needs_memory))
        })
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`].
    pub fn prepare(&self) -> Result<ElementwiseCall<'a>, Error> {
        self.checked()?.prepare()
    }

    /// Builds and loads every kernel that a gather with an `index` of these shapes takes by default, so that a new shape assembles none in
    /// the middle of a request. Returns the number of kernels; shapes that share one need it once.
    ///
    /// The other calls have this table, and differ from this one in the extents of `index` and of `out` alone, as those of
    /// [`Map::load_plans`](super::Map::load_plans) do.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::elementwise::Gather;
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (table, index) = (device.zeros::<bf16>(50 * 64)?, device.zeros::<i32>(1)?);
    /// let mut out = device.poisoned::<bf16>(64)?;
    /// let call = Gather::new(&table.view((50, 64))?, &index.view(1)?, &out.view_mut((1, 64))?);
    /// // One row has one loop; any number of rows has two.
    /// assert_eq!(call.load_plans([[1], [2], [100], [1000]])?, 2);
    /// assert_eq!(
    ///     call.load_plans([[-1]]).unwrap_err().to_string(),
    ///     "an extent is -1: it must be 0 to 1099511627775"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`] that concern the views, those of [`Map::load_plans`](super::Map::load_plans) that concern a shape,
    /// and the device's error if it does not take a kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        let device = self.checked()?.device;
        let calls = shapes
            .into_iter()
            .map(|shape| self.of_shape(shape.as_ref()));
        Checked::load_plans(&device, calls)
    }

    /// The call with an index of another shape.
    fn of_shape(&self, extents: &[i64]) -> Result<Checked, Error> {
        let row = match self.table.layout() {
            Some(table) if has_elements(extents)? => sizes(table)[1..].to_vec(),
            _ => {
                let (work, device) = (None, self.out.device.clone());
                return Ok(Checked { work, device });
            }
        };
        let other = Gather {
            index: self.index.resized(extents)?,
            out: self.out.resized(&[extents, &row].concat())?,
            ..self.clone()
        };
        other.work()
    }

    /// Prepares the call with the plan that `plan` makes of its problem.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gather`], of the function and of [`ElementwisePlan::build`], and an error if the plan was made
    /// for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&ElementwiseProblem, Arch) -> Result<ElementwisePlan, Error>,
    ) -> Result<ElementwiseCall<'a>, Error> {
        self.checked()?.prepare_with(plan)
    }
}
