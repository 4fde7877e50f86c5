//! Reductions as calls: checked, planned, built once for each plan, launched.

use std::marker::PhantomData;
use std::sync::LazyLock;

use colex_atom::{Arch, Ty};
use colex_device::{Device, DeviceSlice, Element, Memo, View, ViewKey, ViewMut};
use colex_layout::{IntTuple, Layout};
use colex_tensor::{Arg, TensorKernel};

use super::kernel;
use super::plan::ReducePlan;
use super::problem::{
    GivenMode, ReduceFunction, ReduceMode, ReduceProblem, ReduceStage, check_modes, check_types,
    row_major_modes, size,
};
use crate::calls::Addresses;
use crate::error::{Error, ErrorKind, ReduceError};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    BuiltKernels, LaunchGrid, Made, Planned, Preparing, SharedMemory, given_workspace, load_plans,
};
use crate::memory_bound::modes::{extents, modes, one_leaf, parts, repeated, shown};
use crate::memory_bound::plan::{product, steps};
use crate::memory_bound::traffic::{Traffic, first_access};
use crate::recent::{CallKind, GivenCall};
use crate::scratch::{self, WordKind, Workspace};

/// Reduces `x` along its modes `modes`, counted from 0: the sum, the mean, the largest or the least element, the sum of the squares
/// or its root, the largest size.
///
/// `y` has the modes of `x` that are kept, in their order; modes of extent 1 may stand in the place of those that are reduced. If
/// none is kept, `y` has one element. All tensors have any strides; elements are f32, f16, bf16 or s32. Floats are computed in f32
/// and rounded once, into the type of `x` or f32; integers modulo 2^32. A result with a NaN among its elements is NaN, also the
/// largest and the least; only [the largest size](ReduceFunction::AbsMax) leaves a NaN out. A sum with infinities of both signs is NaN,
/// and a [norm](ReduceFunction::Norm) with one is infinite. The sum of no elements is 0, their mean NaN.
///
/// The order of the additions is fixed by the plan ([`ReducePlan`]), so that a call has the same bits on every run. The device
/// caches what it prepares for a call, as for [`gemm`](crate::gemm()).
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::{ReduceFunction, reduce};
///
/// let device = Device::open();
/// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut y = device.poisoned::<f32>(3)?;
/// reduce(ReduceFunction::Sum, &x.view((2, 3))?, &[0], &y.view_mut(3)?)?;
/// assert_eq!(y.download()?, [5.0, 7.0, 9.0]);
/// let mut most = device.poisoned::<f32>(1)?;
/// reduce(ReduceFunction::Max, &x.view((2, 3))?, &[0, 1], &most.view_mut(1)?)?;
/// assert_eq!(most.download()?, [6.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the shapes or devices do not fit, if a mode is none of `x` or named twice, if `y` overlaps `x` or has one
/// element at several coordinates, if no kernel takes the types, if the largest or least of no elements is asked for, or if more than 2^30
/// results or elements of each are, not counting the innermost mode, which has up to 2^30 as well. Returns the device's error if the launch
/// fails.
pub fn reduce<T: GemmElement, U: GemmElement>(
    function: ReduceFunction,
    x: &View<'_, T>,
    modes: &[usize],
    y: &ViewMut<'_, U>,
) -> Result<(), Error> {
    Reduce::new(function, x, modes, y).run()
}

/// Finds the index of the largest element along a mode of `x`, the lowest of several; a NaN counts as the largest. `indices` are of
/// `i32` or `i64`, and have the modes of `x` that are kept. [`Reduce::values`] stores the elements too.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::arg_max;
///
/// let device = Device::open();
/// let x = device.upload(&[1.0f32, 7.0, 7.0, f32::NAN, 8.0, f32::NAN])?;
/// let mut at = device.poisoned::<i64>(2)?;
/// arg_max(&x.view((2, 3))?, 1, &at.view_mut(2)?)?;
/// assert_eq!(at.download()?, [1, 0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`reduce`], and an error if `x` has several strides along the mode.
pub fn arg_max<T: GemmElement, I: ReduceIndex>(
    x: &View<'_, T>,
    mode: usize,
    indices: &ViewMut<'_, I>,
) -> Result<(), Error> {
    Reduce::index(ReduceFunction::ArgMax, x, mode, indices).run()
}

/// Finds the index of the least element along a mode of `x` as [`arg_max`] finds that of the largest; a NaN counts as the least.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::arg_min;
///
/// let device = Device::open();
/// let x = device.upload(&[1, 7, 7, 3, 8, 2])?;
/// let mut at = device.poisoned::<i32>(3)?;
/// arg_min(&x.view((2, 3))?, 0, &at.view_mut(3)?)?;
/// assert_eq!(at.download()?, [0, 0, 1]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`reduce`], and an error if `x` has several strides along the mode.
pub fn arg_min<T: GemmElement, I: ReduceIndex>(
    x: &View<'_, T>,
    mode: usize,
    indices: &ViewMut<'_, I>,
) -> Result<(), Error> {
    Reduce::index(ReduceFunction::ArgMin, x, mode, indices).run()
}

/// A type of indices.
pub trait ReduceIndex: Element {
    /// Its type in the table of atoms.
    const TY: Ty;
}

impl ReduceIndex for i32 {
    const TY: Ty = Ty::S32;
}

impl ReduceIndex for i64 {
    const TY: Ty = Ty::S64;
}

/// A reduction that is being described.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::{Reduce, ReduceFunction};
///
/// let device = Device::open();
/// let x = device.upload(&[1.0f32, 9.0, 3.0, 4.0])?;
/// let (mut at, mut most) = (device.poisoned::<i32>(2)?, device.poisoned::<f32>(2)?);
/// Reduce::index(ReduceFunction::ArgMax, &x.view((2, 2))?, 1, &at.view_mut(2)?)
///     .values(&most.view_mut(2)?)
///     .run()?;
/// assert_eq!((at.download()?, most.download()?), (vec![1, 1], vec![9.0, 4.0]));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Reduce<'a, T> {
    function: ReduceFunction,
    x: View<'a, T>,
    modes: Vec<usize>,
    y: Written,
    values: Option<Written>,
    outputs: PhantomData<&'a ()>,
}

/// An output of any type.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) name: &'static str,
    pub(super) ty: Ty,
    pub(super) key: ViewKey,
    pub(super) bytes: (u64, u64),
    pub(super) device: Device,
}

impl Written {
    pub(super) fn new<U: Element>(name: &'static str, ty: Ty, view: &View<'_, U>) -> Written {
        Written {
            name,
            ty,
            key: view.key(),
            bytes: view.bytes(),
            device: view.device().clone(),
        }
    }

    pub(super) fn shape(&self) -> &IntTuple {
        self.key.shape()
    }

    /// Where its elements lie.
    pub(super) fn elements(&self) -> Elements<'_> {
        Elements {
            bytes: self.bytes,
            layout: self.key.layout(),
            size: i64::from(self.ty.bits()) / 8,
        }
    }
}

/// The stride of a layout along a mode that coalesces into one leaf.
pub(super) fn stride_along(layout: &Layout, mode: usize) -> Result<i64, Error> {
    let found = modes(layout).get(mode).and_then(one_leaf);
    let refused = || {
        let layout = layout.to_string();
        Error::from(ReduceError::Along { layout, mode })
    };
    Ok(found.ok_or_else(refused)?.1)
}

/// The parts of a mode that x, which has this layout, and both outputs have.
pub(super) fn parts_of(x: &Layout, of_mode: [&Layout; 3]) -> Result<Vec<ReduceMode>, Error> {
    let refused = || {
        let layout = x.to_string();
        Error::from(ReduceError::Modes { layout })
    };
    let found = parts(&of_mode).ok_or_else(refused)?;
    let mode = |(extent, strides): (i64, Vec<i64>)| ReduceMode {
        extent,
        stride: strides[0],
        outputs: [strides[1], strides[2]],
    };
    Ok(found.into_iter().map(mode).collect())
}

/// The elements of which an address is a multiple.
pub(super) fn aligned(address: u64, ty: Ty) -> i64 {
    let element = address / (u64::from(ty.bits()) / 8);
    1 << element.trailing_zeros().min(4)
}

impl<'a, T: GemmElement> Reduce<'a, T> {
    /// Builds the call on `x`, the modes that are reduced and the results `y`.
    pub fn new<U: GemmElement>(
        function: ReduceFunction,
        x: &View<'a, T>,
        modes: &[usize],
        y: &ViewMut<'a, U>,
    ) -> Reduce<'a, T> {
        Reduce::of_views(function, x, modes, y)
    }

    /// The call on views whose results are checked later.
    pub(crate) fn of_views<U: GemmElement>(
        function: ReduceFunction,
        x: &View<'a, T>,
        modes: &[usize],
        y: &View<'a, U>,
    ) -> Reduce<'a, T> {
        Reduce::into(function, x, modes, Written::new("y", U::TY, y))
    }

    fn into(
        function: ReduceFunction,
        x: &View<'a, T>,
        modes: &[usize],
        y: Written,
    ) -> Reduce<'a, T> {
        Reduce {
            function,
            x: x.clone(),
            modes: modes.to_vec(),
            y,
            values: None,
            outputs: PhantomData,
        }
    }

    /// Builds the call that finds indices along a mode.
    pub fn index<I: ReduceIndex>(
        function: ReduceFunction,
        x: &View<'a, T>,
        mode: usize,
        indices: &ViewMut<'a, I>,
    ) -> Reduce<'a, T> {
        let indices = Written::new("`indices`", I::TY, indices);
        Reduce::into(function, x, &[mode], indices)
    }

    /// Stores the elements that an arg-max or arg-min finds, too.
    pub fn values(self, values: &ViewMut<'a, T>) -> Reduce<'a, T> {
        let values = Some(Written::new("`values`", T::TY, values));
        Reduce { values, ..self }
    }

    fn outputs(&self) -> impl Iterator<Item = &Written> {
        std::iter::once(&self.y).chain(&self.values)
    }

    /// Returns the problem of the views; `None` if there are no results.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reduce`] that concern the views.
    pub fn problem(&self) -> Result<Option<ReduceProblem>, Error> {
        let function = self.function;
        check_types(function, T::TY, self.y.ty)?;
        let shape = self.x.shape();
        let all = extents(shape);
        check_modes(function, &all, &self.modes)?;
        let is_kept = |mode: usize| !self.modes.contains(&mode);
        let kept: Vec<i64> = (0..all.len())
            .filter(|m| is_kept(*m))
            .map(|m| all[m])
            .collect();
        let with_ones: Vec<i64> = (0..all.len())
            .map(|mode| if is_kept(mode) { all[mode] } else { 1 })
            .collect();
        if self.values.is_some() && !function.is_index() {
            let function = function.to_string();
            return Err(ReduceError::Values { function }.into());
        }
        for output in self.outputs() {
            let found = extents(output.shape());
            let is_one = kept.is_empty() && found == [1];
            if found != kept && found != with_ones && !is_one {
                let (what, found) = (output.name, output.shape().to_string());
                let (x, modes) = (shape.to_string(), self.modes.clone());
                let must = match &kept[..] {
                    [] => "1".to_string(),
                    [one] => one.to_string(),
                    _ => IntTuple::flat(kept.iter().map(|n| (*n).into())).to_string(),
                };
                return Err(ReduceError::Shape {
                    what,
                    found,
                    x,
                    modes,
                    must,
                }
                .into());
            }
        }
        if kept.contains(&0) {
            return Ok(None);
        }
        let is_empty = self.x.is_empty();
        if is_empty && !function.is_sum() {
            let (function, x) = (function.to_string(), shape.to_string());
            return Err(ReduceError::Nothing { function, x }.into());
        }
        let of_x = self.x.layout().map(modes);
        let mut of_outputs = [vec![None; all.len()], vec![None; all.len()]];
        for (output, to) in self.outputs().zip(&mut of_outputs) {
            let layout = output.key.layout().expect("no extent of the output is 0");
            let once = layout.is_injective();
            if !once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })? {
                let layout = format!("{} {layout}", output.name);
                return Err(ErrorKind::Twice { layout }.into());
            }
            let own = modes(layout);
            let has_all = own.len() == all.len();
            let mut next = own.into_iter();
            for (mode, to) in to.iter_mut().enumerate() {
                if has_all && !kept.is_empty() || is_kept(mode) {
                    *to = next.next();
                }
            }
        }
        let mut given: Vec<GivenMode> = Vec::new();
        for at in 0..all.len() {
            if let (Some(layout), true) = (self.x.layout(), function.is_index() && !is_kept(at)) {
                stride_along(layout, at)?;
            }
            // What has no such mode, or has it no longer, has one element there.
            let still = Layout::leaf(all[at].max(1), 0).map_err(colex_tensor::Error::from)?;
            let own = of_x.as_ref().map_or(&still, |modes| &modes[at]);
            let [y, values] = of_outputs.each_ref().map(|modes| match &modes[at] {
                Some(mode) if is_kept(at) => mode,
                Some(_) | None => &still,
            });
            let whole = self.x.layout().unwrap_or(&still);
            let parts = parts_of(whole, [own, y, values])?;
            given.extend(parts.into_iter().map(|mode| (is_kept(at), mode)));
        }
        self.problem_of(&given, is_empty).map(Some)
    }

    /// The problem of tensors with these modes at the addresses of this call.
    fn problem_of(&self, given: &[GivenMode], is_empty: bool) -> Result<ReduceProblem, Error> {
        let y = aligned(self.y.bytes.0, self.y.ty);
        let values = (self.values.as_ref()).map(|values| aligned(values.bytes.0, values.ty));
        let alignment = [aligned(self.x.bytes().0, T::TY), y, values.unwrap_or(y)];
        let types = [T::TY, self.y.ty];
        let ty = self.values.as_ref().map(|values| values.ty);
        let problem = ReduceProblem::of(self.function, types, ty, given, alignment)?;
        Ok(if is_empty {
            problem.of_nothing()
        } else {
            problem
        })
    }

    /// The problem of all elements of a tensor of this layout, whose modes have one stride each, at the address of `x`.
    pub(crate) fn problem_of_all(&self, layout: &Layout) -> Result<ReduceProblem, Error> {
        let mut given: Vec<GivenMode> = Vec::new();
        for mode in modes(layout) {
            let still = repeated(&mode)?;
            let parts = parts_of(layout, [&mode, &still, &still])?;
            given.extend(parts.into_iter().map(|mode| (false, mode)));
        }
        self.problem_of(&given, false)
    }

    /// The problem of row-major tensors of another shape at the addresses of this call; `None` if there are no results.
    fn problem_of_shape(&self, extents: &[i64]) -> Result<Option<ReduceProblem>, Error> {
        let function = self.function;
        check_modes(function, extents, &self.modes)?;
        let given = row_major_modes(extents, &self.modes)?;
        let is_zero = |at: &usize| extents[*at] == 0;
        let mut zeros = (0..extents.len()).filter(is_zero);
        if zeros.any(|at| !self.modes.contains(&at)) {
            return Ok(None);
        }
        let is_empty = extents.contains(&0);
        if is_empty && !function.is_sum() {
            let (function, x) = (function.to_string(), shown(extents));
            return Err(ReduceError::Nothing { function, x }.into());
        }
        self.problem_of(&given, is_empty).map(Some)
    }

    /// The plan of a problem on the device of `x`.
    fn fastest(&self, problem: &ReduceProblem) -> Result<ReducePlan, Error> {
        ReducePlan::fastest_on(problem, self.x.device().arch())
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Reduce::problem`].
    pub fn plan(&self) -> Result<Option<ReducePlan>, Error> {
        let problem = self.problem()?;
        problem.map(|problem| self.fastest(&problem)).transpose()
    }

    /// Enqueues the call on the stream of the device that holds `x`. Memory for the parts of the results
    /// ([`ReducePlan::workspace`]) is the stream's, allocated by its first call that needs as much. Inside a stream capture, or
    /// if the device has no such memory left, the results are not divided, so that sums may have other bits. A plan whose clusters have all
    /// parts ([`ReducePlan::cluster`]) needs no such memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reduce`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x.device();
        for output in self.outputs() {
            device.check_same(output.name, &output.device)?;
        }
        let values = self.values.as_ref();
        let modes = self.modes.iter().map(|mode| *mode as u64);
        let given = GivenCall {
            kind: CallKind::Reduction,
            views: [Some(self.x.key()), Some(self.y.key.clone())]
                .into_iter()
                .chain([values.map(|values| values.key.clone())])
                .collect(),
            types: [T::TY, self.y.ty],
            numbers: [self.function as u64].into_iter().chain(modes).collect(),
        };
        ReduceCall::run_recent(device, &given, || {
            // The results of no elements are made of the device's zeros.
            let mut needs_memory = self.x.is_empty();
            let call = self.call(&Workspace::Kept(device), |problem| {
                let plan = self.fastest(problem)?;
                needs_memory |= plan.parts > 1 && !plan.is_one_cluster();
                Ok(plan)
            })?;
            Ok((call, needs_memory))
        })
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture: builds and loads its kernels, and
    /// allocates the memory of the parts ([`ReducePlan::workspace`]), which the call owns. It must then live as long as the
    /// graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reduce`].
    pub fn prepare(&self) -> Result<ReduceCall<'a>, Error> {
        self.prepare_with(|problem| self.fastest(problem))
    }

    /// Returns the bytes of memory that [`prepare_in`](Reduce::prepare_in) needs: those of the parts of the results, 0 if blocks
    /// share none.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::{Reduce, ReduceFunction};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&vec![1.0f32; 100_000])?;
    /// let mut y = device.poisoned::<f32>(1)?;
    /// let call = Reduce::new(ReduceFunction::Sum, &x.view(100_000)?, &[0], &y.view_mut(1)?);
    /// let mut memory = device.uninitialised::<u8>(call.workspace()?)?;
    /// assert_eq!(memory.len(), 6 * 4); // 6 parts
    /// call.prepare_in(&mut memory)?.run(&device)?;
    /// assert_eq!(y.download()?, [100_000.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Reduce::problem`].
    pub fn workspace(&self) -> Result<usize, Error> {
        let Some(problem) = self.problem()? else {
            return Ok(0);
        };
        Ok(self.fastest(&problem)?.workspace(&problem) as usize)
    }

    /// Prepares the call as [`prepare`](Reduce::prepare) does, with the memory of the caller for the parts of the results: at least
    /// [`workspace`](Reduce::workspace) bytes at a multiple of 256. Calls that one thread gives to one stream may share the memory,
    /// since they run in that order. Launches that another thread gives to the stream may come between those of one call. A graph
    /// that captured the call uses it whenever it runs. A plan whose last block adds the parts has counters of its own besides; a
    /// call that is prepared inside a capture takes none, and divides no result.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reduce`], and an error if the workspace is too short, begins elsewhere, is on another device,
    /// may not be written, or overlaps a tensor.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<ReduceCall<'a>, Error> {
        let outputs = self.outputs().map(|output| (output.name, output.bytes));
        let operands = [("x", self.x.bytes())].into_iter().chain(outputs);
        let of = ["reduction", "Reduce"];
        let device = self.x.device();
        let memory = given_workspace(device, workspace, operands, || self.workspace(), of)?;
        self.call(&memory, |problem| self.fastest(problem))
    }

    /// Builds and loads every kernel that a call with `x` of these shapes takes by default, along the modes of this call, so that a new
    /// shape assembles none in the middle of a request. Returns the number of kernels; shapes that share one need it once.
    ///
    /// For a shape, these are the kernel of a call in a stream capture and, where blocks share a result, the kernel of the parts, whose
    /// last block adds them. The other calls differ from this one in the extents alone: they have the same function, types and
    /// modes, addresses of the same alignment, and row-major tensors. A device keeps the last 256 kernels of reductions.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::{Reduce, ReduceFunction};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut y) = (device.zeros::<f32>(64)?, device.poisoned::<f32>(1)?);
    /// let call = Reduce::new(ReduceFunction::Sum, &x.view((1, 64))?, &[1], &y.view_mut(1)?);
    /// // The first two shapes share a kernel; few long rows need two, since blocks share a row.
    /// assert_eq!(call.load_plans([[4096, 4096], [5000, 4096], [2, 1 << 20]])?, 3);
    /// let refused = call.load_plans([[100]]).unwrap_err();
    /// assert_eq!(refused.to_string(), "mode 1 is named, and x 100 has 1 mode: modes are counted from 0");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Reduce::problem`], those that concern a shape among them, and the device's error if it does not take a
    /// kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        self.problem()?;
        let (device, mut reads_zeros) = (self.x.device(), false);
        let problems = shapes.into_iter().map(|shape| {
            let problem = self.problem_of_shape(shape.as_ref())?;
            let stage = problem.as_ref().map(|problem| problem.stage);
            reads_zeros |= stage == Some(ReduceStage::Combine);
            Ok(problem)
        });
        let count = load_plans(device, problems, |problem| self.fastest(problem))?;
        if reads_zeros {
            // A capture allocates none.
            scratch::zeros(device, 8)?;
        }
        Ok(count)
    }

    /// Prepares the call with the plan that `plan` makes of its problem. Blocks that share a result need memory. If there is none, as
    /// inside a stream capture, the call has the same plan without parts, and the call's `plan` says so.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::{Reduce, ReduceFunction, ReducePlan};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&[1.0f32; 2 * 1000])?;
    /// let mut y = device.poisoned::<f32>(2)?;
    /// let call = Reduce::new(ReduceFunction::Sum, &x.view((2, 1000))?, &[1], &y.view_mut(2)?);
    /// let call = call.prepare_with(|problem| {
    ///     let plan = ReducePlan::fastest(problem)?;
    ///     Ok(ReducePlan { along: 32, rows: 1, accesses: 1, parts: 3, ..plan })
    /// })?;
    /// assert_eq!(
    ///     call.to_string(),
    ///     "sum f32, vectors of 4, threads 1x1x32, 1 access along the inner mode, 3 parts"
    /// );
    /// call.run(&device)?;
    /// assert_eq!(y.download()?, [1000.0; 2]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`reduce`], of the function and of [`ReducePlan::build`], and an error if the plan was made for
    /// other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&ReduceProblem) -> Result<ReducePlan, Error>,
    ) -> Result<ReduceCall<'a>, Error> {
        self.call(&Workspace::Own(self.x.device()), plan)
    }

    pub(crate) fn call(
        &self,
        memory: &Workspace<'_>,
        plan: impl FnOnce(&ReduceProblem) -> Result<ReducePlan, Error>,
    ) -> Result<ReduceCall<'a>, Error> {
        let device = self.x.device();
        for output in self.outputs() {
            device.check_same(output.name, &output.device)?;
        }
        let problem = self.problem()?;
        for output in self.outputs() {
            apart(
                (output.name, output.elements()),
                ("x", Elements::of(&self.x)),
            )?;
        }
        if let Some(values) = &self.values {
            apart(
                (self.y.name, self.y.elements()),
                (values.name, values.elements()),
            )?;
        }
        let Some(problem) = problem else {
            return Ok(ReduceCall::of_nothing(device));
        };
        let is_nothing = problem.stage == ReduceStage::Combine;
        // What stores the results of no elements has no plan of the caller's.
        let plan = if is_nothing {
            ReducePlan::fastest(&problem)?
        } else {
            let plan = plan(&problem)?;
            plan.check(device.arch())?;
            plan
        };
        plan.check_problem(&problem)?;
        let zeros = is_nothing.then(|| scratch::zeros(device, 8)).transpose()?;
        let mut addresses = Addresses::new();
        addresses.push(match &zeros {
            Some(zeros) => zeros.address(),
            None => self.x.bytes().0,
        });
        addresses.extend(self.outputs().map(|output| output.bytes.0));
        let key = |plan| {
            let problem = problem.clone();
            ReduceKey { plan, problem }
        };
        let memory_of = |plan: ReducePlan| SharedMemory {
            bytes: plan.workspace(&problem),
            words: Some((WordKind::Counters, plan.counters(&problem))),
        };
        if plan.is_one_cluster() {
            // It needs no memory, also in a capture.
            return ReduceCall::sharing(device, memory, key, plan, None, addresses);
        }
        let sharing = (plan.parts > 1).then(|| (plan, memory_of(plan)));
        let whole = plan.whole();
        let call = ReduceCall::sharing(device, memory, key, whole, sharing, addresses)?;
        Ok(call.with_zeros(zeros))
    }
}

/// A prepared reduction.
pub type ReduceCall<'a> = MemoryBoundCall<'a, ReducePlan>;

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReduceKey {
    plan: ReducePlan,
    problem: ReduceProblem,
}

static BUILT: BuiltKernels<ReducePlan> = LazyLock::new(|| Memo::new(256));

impl Planned for ReducePlan {
    type Problem = ReduceProblem;
    type Stage = ();
    type Key = ReduceKey;

    fn sentences(&self, problem: &ReduceProblem) -> String {
        self.explain(problem)
    }

    fn counted(&self, problem: &ReduceProblem) -> Traffic {
        let size = i64::from(self.operands.ty.bits()) / 8;
        let layouts = problem.layouts(1).unwrap_or_default();
        let place = |lane: i64| {
            let (along, across) = (self.along.max(1), self.across.max(1));
            let inner = (lane % along).saturating_mul(self.vector);
            [lane / along / across, lane / along % across, inner]
        };
        let offsets = first_access(layouts.first(), place);
        self.traffic(problem).touching(offsets, size, self.vector)
    }

    fn neighbours(&self, _: &ReduceProblem) -> Vec<ReducePlan> {
        let plan = *self;
        let accesses = steps(plan.accesses).map(|accesses| ReducePlan { accesses, ..plan });
        let parts = steps(plan.parts).map(|parts| ReducePlan { parts, ..plan });
        let wider = steps(plan.along).map(|along| ReducePlan {
            along,
            across: product([plan.across, plan.along]) / along.max(1),
            ..plan
        });
        let all = accesses.into_iter().chain(parts).chain(wider);
        all.chain([plan.whole()]).collect()
    }

    fn check_for(&self, arch: Arch, problem: &ReduceProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, (): ()) -> Result<TensorKernel, Error> {
        self.unverified(arch)
    }

    fn stages(&self, problem: &ReduceProblem) -> Result<Vec<(Self, ())>, Error> {
        self.check_problem(problem)?;
        if self.is_one_cluster() {
            return Ok(vec![(*self, ())]);
        }
        let mut stages = vec![(self.whole(), ())];
        if self.joins() {
            stages.push((*self, ()));
        } else if self.parts > 1 {
            stages.extend([(self.first(problem), ()), (self.second(problem)?, ())]);
        }
        Ok(stages)
    }

    fn kernels() -> &'static BuiltKernels<ReducePlan> {
        &BUILT
    }

    /// The addresses are those of the tensor, of the outputs, of the workspace if there are parts, and of the counters if the last block
    /// adds them.
    fn prepare(key: &ReduceKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let ReduceKey { plan, problem } = key;
        let launch = |plan: &ReducePlan, problem: &ReduceProblem, parts: i64, order: &[usize]| {
            let kernel = on.kernel(plan, ())?;
            // The first of two kernels has all parts in its grid; the second one has them as elements.
            let mut layouts = problem.layouts(parts)?;
            if plan.joins() {
                let [rows, tiles] = plan.shared_results(problem);
                layouts.extend([
                    problem.parts_layout(plan.stored_parts())?,
                    kernel::counters(rows, tiles)?,
                ]);
            }
            // The same tensor, as one mode.
            let run = plan.shifted.then_some(0);
            if plan.shifted {
                let all = size(&problem.outer).saturating_mul(problem.inner.extent);
                layouts.push(kernel::one_run(all)?);
            }
            let order: Vec<usize> = order.iter().copied().chain(run).collect();
            let mut given: Vec<Arg<'_>> = (order.iter().zip(&layouts))
                .map(|(at, layout)| Arg::checked(on.addresses[*at], layout))
                .collect();
            let is_mean = problem.function == ReduceFunction::Mean;
            if is_mean && problem.stage != ReduceStage::Part {
                given.push(Arg::Value((problem.count as f32).into()));
            }
            let [x, y] = plan.grid(problem);
            let grid = LaunchGrid {
                blocks: [x, y, 1],
                threads: plan.threads(),
                cluster: plan.cluster,
                at_once: false,
            };
            on.launch(&kernel, &given, order.iter().copied(), grid)
        };
        let workspace = 2 + usize::from(problem.values.is_some());
        let launches = if plan.parts == 1 || plan.last_adds {
            let joint = if plan.joins() { 2 } else { 0 };
            let order: Vec<usize> = (0..workspace + joint).collect();
            vec![launch(plan, problem, 1, &order)?]
        } else {
            let (first, second) = (problem.first(plan.parts), problem.second(plan.parts));
            let one = launch(&plan.first(problem), &first, plan.parts, &[0, workspace])?;
            let order: Vec<usize> = [workspace].into_iter().chain(1..workspace).collect();
            vec![one, launch(&plan.second(problem)?, &second, 1, &order)?]
        };
        Ok(Made {
            plan: *plan,
            problem: problem.clone(),
            launches,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that has all parts needs no memory of the stream or of the caller.
    #[test]
    fn law_one_cluster_needs_no_memory() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm90a);
        let x = device.upload(&vec![1.0_f32; 1024 * 64])?;
        let mut y = device.poisoned::<f32>(64)?;
        let call = |y: &ViewMut<'_, f32>, memory: &Workspace<'_>| {
            let x = x.view((1024, 64))?;
            let call = Reduce::new(ReduceFunction::Sum, &x, &[0], y);
            let call = call.call(memory, |problem| {
                let plan = ReducePlan::last_adding(problem)?.expect("blocks share results");
                Ok(ReducePlan { parts: 4, ..plan }.in_clusters(4))
            })?;
            assert!(call.plan().is_some_and(|plan| plan.is_one_cluster()));
            call.run(&device)
        };
        for memory in [Workspace::Kept(&device), Workspace::Given([0, 0])] {
            y.fill_bytes(0xff)?;
            call(&y.view_mut(64)?, &memory)?;
            assert_eq!(y.download()?, vec![1024.0; 64]);
        }
        Ok(())
    }

    /// Calls that run once, more results than before, and memory of the caller that is not 0: the counters are
    /// 0 for each of them.
    #[test]
    fn law_the_last_block_adds_in_every_memory() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm80);
        let by_last_block = |problem: &ReduceProblem| {
            let plan = ReducePlan::last_adding(problem)?;
            Ok(plan.expect("blocks share results"))
        };
        for columns in [64, 4096, 256] {
            let x = device.upload(&vec![1.0_f32; 1024 * columns])?;
            let x = x.view((1024, columns))?;
            let mut y = device.poisoned::<f32>(columns)?;
            for round in 0..4 {
                y.fill_bytes(0xff)?;
                {
                    let y = y.view_mut(columns)?;
                    let call = Reduce::new(ReduceFunction::Sum, &x, &[0], &y);
                    if round < 3 {
                        let call = call.call(&Workspace::Kept(&device), by_last_block)?;
                        assert!(call.plan().is_some_and(ReducePlan::joins));
                        call.run_once(&device)?;
                    } else {
                        let memory = device.poisoned::<u8>(1 << 22)?;
                        let begin = memory.address();
                        let given = Workspace::Given([begin, begin + (1 << 22)]);
                        let call = call.call(&given, by_last_block)?;
                        assert!(call.plan().is_some_and(ReducePlan::joins));
                        call.run(&device)?;
                        call.run(&device)?;
                    }
                }
                assert_eq!(y.download()?, vec![1024.0; columns], "round {round}");
            }
        }
        Ok(())
    }
}
