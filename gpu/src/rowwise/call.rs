//! Functions of rows as calls: checked, planned, built once for each plan, launched.

use std::sync::LazyLock;

use colex_atom::Arch;
use colex_device::{Memo, View, ViewMut};
use colex_layout::Layout;
use colex_tensor::{Arg, TensorKernel};

use super::kernel;
use super::plan::{MOST_BLOCKS, MOST_SHIFTED, RowStorage, RowwisePlan, STREAMED};
use super::problem::{MOST, RowFunction, RowTensor, RowwiseProblem, check_type};
use crate::calls::Addresses;
use crate::error::{Error, ErrorKind, RowwiseError};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    BuiltKernels, LaunchGrid, Made, Planned, Preparing, SharedMemory, load_plans,
};
use crate::memory_bound::modes::extents;
use crate::memory_bound::plan::{div_up, product, steps};
use crate::memory_bound::traffic::{Traffic, first_access};
use crate::recent::{CallKind, GivenCall};
use crate::scratch::{WordKind, Workspace};

/// Computes the softmax of each row of `x`: `e^x` over the sum of it along the last mode. All other modes are rows, of any
/// strides, 0 too, also of several strides each; elements are f32, f16 or bf16, computed in f32 and rounded once.
///
/// Each element is read once where a block holds a row, or on Hopper a cluster, or in large tensors a team of blocks; of other long rows a
/// part is read twice. The device caches what it prepares for a call, as for [`gemm`](crate::gemm()).
///
/// A row with a NaN or +inf is NaN, and so is one of -inf alone. Beside these, -inf becomes 0.
///
/// ```
/// use colex_gpu::{Device, softmax};
///
/// let device = Device::open();
/// let x = device.upload(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY])?;
/// let mut y = device.poisoned::<f32>(4)?;
/// softmax(&x.view((2, 2))?, &y.view_mut((2, 2))?)?;
/// assert_eq!(y.download()?, [0.5, 0.5, 1.0, 0.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the shapes or devices differ, if `y` overlaps `x` or has one element at several coordinates, if no kernel takes the
/// type, if the columns have several strides, or if there are more than 2^30 rows or columns. Columns of one matrix do not overlap if each
/// is in `x` or in `y`. Returns the device's error if the launch fails.
pub fn softmax<T: GemmElement>(x: &View<'_, T>, y: &ViewMut<'_, T>) -> Result<(), Error> {
    Rowwise::new(RowFunction::Softmax, x, y).run()
}

/// Computes the natural logarithm of the [`softmax`] of each row of `x`, without the softmax's underflow.
///
/// ```
/// use colex_gpu::{Device, log_softmax};
///
/// let device = Device::open();
/// let x = device.upload(&[0.0f32, -1000.0])?;
/// let mut y = device.poisoned::<f32>(2)?;
/// log_softmax(&x.view((1, 2))?, &y.view_mut((1, 2))?)?;
/// assert_eq!(y.download()?, [0.0, -1000.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`softmax`].
pub fn log_softmax<T: GemmElement>(x: &View<'_, T>, y: &ViewMut<'_, T>) -> Result<(), Error> {
    Rowwise::new(RowFunction::LogSoftmax, x, y).run()
}

/// Computes `x / sqrt(mean(x^2) + epsilon) * weight` of each row. [`Rowwise`] has the residual, and a norm without weights.
///
/// The squares are added in f32: a row whose sum of squares is beyond its largest number, from elements of 1.8e19 on, becomes 0. A row with
/// an infinity becomes 0, and NaN there; one with a NaN is NaN. A row of zeros is 0 if epsilon is above 0, and NaN if epsilon is 0.
///
/// ```
/// use colex_gpu::{Device, rms_norm};
///
/// let device = Device::open();
/// let (x, weight) = (device.upload(&[3.0f32, -3.0])?, device.upload(&[1.0f32, 2.0])?);
/// let mut y = device.poisoned::<f32>(2)?;
/// rms_norm(&x.view((1, 2))?, &weight.view(2)?, 0.0, &y.view_mut((1, 2))?)?;
/// assert!((y.download()?[1] + 2.0).abs() < 1e-6);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`softmax`], and an error if `weight` has not one element for each column, or if epsilon is below 0
/// or no number.
pub fn rms_norm<T: GemmElement>(
    x: &View<'_, T>,
    weight: &View<'_, T>,
    epsilon: f32,
    y: &ViewMut<'_, T>,
) -> Result<(), Error> {
    let norm = Rowwise::new(RowFunction::RmsNorm, x, y);
    norm.weight(weight).epsilon(epsilon).run()
}

/// Computes `(x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias` of each row. The variance is the mean of the squared
/// differences from the mean, computed after it. A row with a NaN or an infinity is NaN, and so is one whose sum is beyond the largest
/// number of `f32`. A row of equal numbers becomes the bias, or NaN if epsilon is 0, if `f32` has the sum of any number of them. From elements
/// of 1.8e19 on the squares overflow, as in [`rms_norm`].
///
/// ```
/// use colex_gpu::{Device, layer_norm};
///
/// let device = Device::open();
/// let upload = |all: &[f32]| device.upload(all);
/// let (x, weight, bias) = (upload(&[4.0, 10.0])?, upload(&[1.0, 2.0])?, upload(&[0.0, 1.0])?);
/// let mut y = device.poisoned::<f32>(2)?;
/// layer_norm(&x.view((1, 2))?, &weight.view(2)?, &bias.view(2)?, 0.0, &y.view_mut((1, 2))?)?;
/// let y = y.download()?;
/// assert!((y[0] + 1.0).abs() < 1e-6 && (y[1] - 3.0).abs() < 1e-6);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`rms_norm`].
pub fn layer_norm<T: GemmElement>(
    x: &View<'_, T>,
    weight: &View<'_, T>,
    bias: &View<'_, T>,
    epsilon: f32,
    y: &ViewMut<'_, T>,
) -> Result<(), Error> {
    let norm = Rowwise::new(RowFunction::LayerNorm, x, y);
    norm.weight(weight).bias(bias).epsilon(epsilon).run()
}

/// A function of rows that is being described.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::rowwise::{RowFunction, Rowwise};
/// use half::bf16;
///
/// let device = Device::open();
/// let number = |x: f32| bf16::from_f32(x);
/// let (x, residual) = (device.upload(&[number(1.0); 8])?, device.upload(&[number(3.0); 8])?);
/// let (mut y, mut sum) = (device.poisoned::<bf16>(8)?, device.poisoned::<bf16>(8)?);
/// let x = x.view((2, 4))?;
/// Rowwise::new(RowFunction::RmsNorm, &x, &y.view_mut((2, 4))?)
///     .residual(&residual.view((2, 4))?, &sum.view_mut((2, 4))?)
///     .run()?;
/// assert_eq!(sum.download()?, [number(4.0); 8]);
/// assert_eq!(y.download()?, [number(1.0); 8]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Rowwise<'a, T> {
    function: RowFunction,
    /// In the order of [`RowTensor::ALL`].
    tensors: [Option<View<'a, T>>; 6],
    epsilon: f32,
}

/// The default of epsilon.
const EPSILON: f32 = 1e-5;

impl<'a, T: GemmElement> Rowwise<'a, T> {
    /// Builds the call on `x` and `y`. A norm has the epsilon 1e-5.
    pub fn new(function: RowFunction, x: &View<'a, T>, y: &ViewMut<'a, T>) -> Rowwise<'a, T> {
        let (x, y) = (Some(x.clone()), Some((**y).clone()));
        Rowwise {
            function,
            tensors: [x, None, None, None, y, None],
            epsilon: EPSILON,
        }
    }

    fn with(mut self, tensor: RowTensor, view: &View<'a, T>) -> Self {
        self.tensors[tensor as usize] = Some(view.clone());
        self
    }

    /// Sets the factors of a norm's columns.
    pub fn weight(self, weight: &View<'a, T>) -> Self {
        self.with(RowTensor::Weight, weight)
    }

    /// Sets the terms of a norm's columns, which are added after the factors.
    pub fn bias(self, bias: &View<'a, T>) -> Self {
        self.with(RowTensor::Bias, bias)
    }

    /// Adds `residual` to the input of a norm. Their sum, rounded to the type, is stored in `sum`, and is what the norm is of.
    pub fn residual(self, residual: &View<'a, T>, sum: &ViewMut<'a, T>) -> Self {
        let call = self.with(RowTensor::Residual, residual);
        call.with(RowTensor::Sum, sum)
    }

    /// Sets what a norm adds to the mean of the squares.
    pub fn epsilon(self, epsilon: f32) -> Self {
        Rowwise { epsilon, ..self }
    }

    fn given(&self) -> impl Iterator<Item = (RowTensor, &View<'a, T>)> {
        let all = RowTensor::ALL.into_iter().zip(&self.tensors);
        all.filter_map(|(tensor, view)| Some((tensor, view.as_ref()?)))
    }

    fn x(&self) -> &View<'a, T> {
        self.tensors[0].as_ref().expect("there is an input")
    }

    /// Returns the problem of the views; `None` if they have no element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`softmax`] and [`rms_norm`] that concern the views.
    pub fn problem(&self) -> Result<Option<RowwiseProblem>, Error> {
        check_type(T::TY)?;
        let is_norm = self.function.is_norm();
        let shape = self.x().shape();
        let Some(&columns) = extents(shape).last() else {
            let x = shape.to_string();
            return Err(RowwiseError::Rank { x }.into());
        };
        for (tensor, view) in self.given() {
            let (what, found, x) = (tensor.name(), view.shape().to_string(), shape.to_string());
            if !is_norm && !matches!(tensor, RowTensor::X | RowTensor::Y) {
                let function = self.function.to_string();
                return Err(RowwiseError::Tensor { function, what }.into());
            }
            if tensor.is_of_columns() {
                if extents(view.shape()) != [columns] {
                    return Err(RowwiseError::OfColumns {
                        what,
                        found,
                        columns,
                        x,
                    }
                    .into());
                }
            } else if view.shape() != shape {
                return Err(RowwiseError::Shape { what, found, x }.into());
            }
        }
        if is_norm && !(self.epsilon >= 0.0 && self.epsilon.is_finite()) {
            let value = self.epsilon;
            return Err(RowwiseError::Epsilon { value }.into());
        }
        let layout = |(tensor, view): (RowTensor, &'_ View<'a, T>)| {
            Some((tensor, view.layout().cloned()?, view.bytes().0))
        };
        let layouts: Option<Vec<(RowTensor, Layout, u64)>> = self.given().map(layout).collect();
        let Some(layouts) = layouts else {
            return Ok(None);
        };
        for (tensor, layout, _) in layouts.iter().filter(|(tensor, ..)| tensor.is_output()) {
            let once = layout.is_injective();
            let once = once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })?;
            if !once {
                let layout = format!("{} {layout}", tensor.name());
                return Err(ErrorKind::Twice { layout }.into());
            }
        }
        let layouts: Vec<_> = layouts
            .iter()
            .map(|(of, layout, at)| (*of, layout, *at))
            .collect();
        let problem = RowwiseProblem::of(self.function, T::TY, &layouts)?;
        problem.check()?;
        Ok(Some(problem))
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rowwise::problem`].
    pub fn plan(&self) -> Result<Option<RowwisePlan>, Error> {
        let problem = self.problem()?;
        problem.map(|problem| self.fastest(&problem)).transpose()
    }

    /// Enqueues the call on the stream of the device that holds `x`. A capture of the stream takes it once its kernel is loaded. Only a plan
    /// in teams ([`RowStorage::Teams`](super::RowStorage::Teams)) needs memory, which is the stream's, allocated by its first call that
    /// needs as much. Inside a stream capture, or if the device has no such memory left, the call has the fastest plan without teams, so that
    /// the last bits may be others.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`softmax`] and [`rms_norm`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x().device();
        for (tensor, view) in self.given() {
            device.check_same(tensor.name(), view.device())?;
        }
        let views = self.tensors.iter();
        let given = GivenCall {
            kind: CallKind::Rows,
            views: views.map(|view| view.as_ref().map(View::key)).collect(),
            types: [T::TY; 2],
            numbers: [self.function as u64, self.epsilon.to_bits().into()]
                .into_iter()
                .collect(),
        };
        RowwiseCall::run_recent(device, &given, || {
            let mut has_teams = false;
            let call = self.call(&Workspace::Kept(device), |problem, _| {
                let plan = self.fastest(problem)?;
                has_teams = plan.has_teams();
                Ok(plan)
            })?;
            Ok((call, has_teams))
        })
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture. The call owns the memory of a plan in teams,
    /// and must then live as long as the graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`softmax`] and [`rms_norm`].
    pub fn prepare(&self) -> Result<RowwiseCall<'a>, Error> {
        self.prepare_with(|problem, _| self.fastest(problem))
    }

    /// The default plan on the device of the tensors.
    fn fastest(&self, problem: &RowwiseProblem) -> Result<RowwisePlan, Error> {
        let device = self.x().device();
        RowwisePlan::fastest_on(problem, device.arch(), device.rates())
    }

    /// Builds and loads every kernel that a call with these numbers of columns, and with any number of rows, takes by default, so that a
    /// new shape assembles none in the middle of a request. Returns the number of kernels; lengths that share one need it once.
    ///
    /// The other calls differ in their extents alone: they have the same tensors of the same type, at addresses that are multiples of as
    /// many bytes, and their rows lie one after the other without gaps. If a mode of the rows has the stride 1 in place of the columns, the
    /// other calls have the same rows. A device keeps the last 256 kernels of functions of rows.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::rowwise::{RowFunction, Rowwise};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut y) = (device.zeros::<f32>(64)?, device.poisoned::<f32>(64)?);
    /// let call = Rowwise::new(RowFunction::Softmax, &x.view((1, 64))?, &y.view_mut((1, 64))?);
    /// // Of 1, 2 and 1024 columns; those of 1000 share the last kernel.
    /// assert_eq!(call.load_plans([1, 2, 1000, 1024])?, 3);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rowwise::problem`], an error if there are more columns than a kernel counts, and the device's error if it
    /// does not take a kernel.
    pub fn load_plans(&self, columns: impl IntoIterator<Item = i64>) -> Result<usize, Error> {
        let device = self.x().device();
        let Some(problem) = self.problem()? else {
            return Ok(0);
        };
        let columns = columns.into_iter().filter(|columns| *columns > 0);
        // Rows of too many elements are not regarded as one mode. The plan of rows beside each other depends on their number.
        let of_rows = |columns: i64| {
            // Rows of one element lie one after the other in a tensor without gaps.
            if columns > 1 && problem.beside().is_some() {
                return vec![problem.with_columns(columns)];
            }
            let many = (MOST_SHIFTED / columns).saturating_add(1).min(MOST);
            let extents = [1, 2, many].map(|rows| [rows, columns]);
            extents.map(|extents| problem.with_extents(extents)).into()
        };
        let problems = columns.flat_map(of_rows).map(|problem| {
            problem.check()?;
            Ok(Some(problem))
        });
        load_plans(device, problems, |problem| self.fastest(problem))
    }

    /// Prepares the call with the plan that `plan` makes of its problem. Teams of blocks need memory. If there is none, as inside a stream
    /// capture, the call has a plan without teams, and the call's `plan` says so.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&[1.0f32; 2 * 100])?;
    /// let mut y = device.poisoned::<f32>(2 * 100)?;
    /// let call = Rowwise::new(RowFunction::Softmax, &x.view((2, 100))?, &y.view_mut((2, 100))?);
    /// let call = call.prepare_with(|problem, arch| {
    ///     let plan = RowwisePlan::fastest(problem, arch)?;
    ///     Ok(RowwisePlan { threads: 64, rows: 1, accesses: 1, storage: RowStorage::Passes { kept: 0 }, ..plan })
    /// })?;
    /// assert_eq!(
    ///     call.to_string(),
    ///     "softmax f32, vectors of 4, 64 threads for a row, 1 row in a block, 1 access, rows in passes"
    /// );
    /// call.run(&device)?;
    /// assert!(y.download()?.iter().all(|y| (y - 0.01).abs() < 1e-8));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`softmax`] and [`rms_norm`], of the function and of [`RowwisePlan::build`], and an error if the
    /// plan was made for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&RowwiseProblem, Arch) -> Result<RowwisePlan, Error>,
    ) -> Result<RowwiseCall<'a>, Error> {
        self.call(&Workspace::Own(self.x().device()), plan)
    }

    fn call(
        &self,
        memory: &Workspace<'_>,
        plan: impl FnOnce(&RowwiseProblem, Arch) -> Result<RowwisePlan, Error>,
    ) -> Result<RowwiseCall<'a>, Error> {
        let device = self.x().device();
        for (tensor, view) in self.given() {
            device.check_same(tensor.name(), view.device())?;
        }
        let problem = self.problem()?;
        let mut outputs = self.given().filter(|(tensor, _)| tensor.is_output());
        outputs.try_for_each(|(output, written)| {
            let mut others = self.given().filter(|(tensor, _)| *tensor != output);
            others.try_for_each(|(other, read)| {
                let [written, read] = [written, read].map(Elements::of);
                apart((output.name(), written), (other.name(), read))
            })
        })?;
        let Some(problem) = problem else {
            return Ok(RowwiseCall::of_nothing(device));
        };
        let plan = plan(&problem, device.arch())?;
        plan.check(device.arch())?;
        plan.check_problem(&problem)?;
        let addresses: Addresses = self.given().map(|(_, view)| view.bytes().0).collect();
        let epsilon = self.epsilon.to_bits();
        let whole = plan.alone(&problem)?;
        let key = |plan| RowwiseKey {
            plan,
            problem: problem.clone(),
            epsilon,
        };
        let need = SharedMemory {
            bytes: 0,
            words: Some((WordKind::Tags, plan.team_words())),
        };
        let sharing = plan.has_teams().then_some((plan, need));
        RowwiseCall::sharing(device, memory, key, whole, sharing, addresses)
    }
}

/// A prepared function of rows.
pub type RowwiseCall<'a> = MemoryBoundCall<'a, RowwisePlan>;

/// A plan, a problem that was checked, and the bits of epsilon.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowwiseKey {
    plan: RowwisePlan,
    problem: RowwiseProblem,
    epsilon: u32,
}

static BUILT: BuiltKernels<RowwisePlan> = LazyLock::new(|| Memo::new(256));

impl Planned for RowwisePlan {
    type Problem = RowwiseProblem;
    type Stage = ();
    type Key = RowwiseKey;

    fn sentences(&self, problem: &RowwiseProblem) -> String {
        self.explain(problem)
    }

    fn reason(&self, problem: &RowwiseProblem, device: &colex_device::Device) -> Option<String> {
        let default = RowwisePlan::fastest_on(problem, device.arch(), device.rates());
        if !default.is_ok_and(|default| default == *self) {
            return None;
        }
        if let RowStorage::Turned { .. } = self.storage {
            // The rates of the memory are no reason for it.
            return None;
        }
        let rate = device.rates().memory() as f64 / 1e6;
        if self.lag() > 0 {
            return Some(format!(
                "The memory of the device moves {rate:.1} TB per second: from 4 TB per second on, teams of blocks hold a row of this length, \
                 and its results lag behind its totals."
            ));
        }
        if let RowStorage::Divided { .. } = self.storage {
            return Some(format!(
                "The memory of the device moves {rate:.1} TB per second: from 4 TB per second on, registers and shared memory hold a row of \
                 this length together."
            ));
        }
        if self.is_in_turn(problem, device.arch()) {
            return Some(format!(
                "The memory of the device moves {rate:.1} TB per second: below 4 TB per second, two groups of threads take rows of more than \
                 256 KiB in turn."
            ));
        }
        if let Some((_, times)) = self.of_teams(problem, device.arch(), device.rates()) {
            let [teams, passes] = times;
            return Some(format!(
                "By the rates of the device, teams of blocks that hold a row take {teams:.1} us, and kernels that read rows again {passes:.1} us."
            ));
        }
        let weighed = self.weighed(problem, device.arch(), device.rates())?;
        let [exchange, again] = [weighed.exchange, weighed.again].map(|us| us * 1000.0);
        let chosen = match self.storage {
            RowStorage::Passes { .. } => "rows are read again",
            _ => "a cluster has the rows",
        };
        Some(format!(
            "By the rates of the device, the blocks of a cluster wait {exchange:.1} ns for each other in a row, and a second pass takes \
             {again:.1} ns: {chosen}."
        ))
    }

    fn counted(&self, problem: &RowwiseProblem) -> Traffic {
        let size = i64::from(self.operands.ty.bits()) / 8;
        let is_read = |tensor: &RowTensor| !tensor.is_output() && !tensor.is_of_columns();
        let read = self.operands.tensors().filter(is_read).count() as i64;
        // Accesses beyond a row ask for nothing.
        let share = div_up(problem.columns(), product([self.threads, self.blocks]));
        let own = match self.storage {
            RowStorage::Turned { .. } => product([self.vector, self.accesses.min(share)]),
            _ => product([self.vector, self.accesses]).min(share),
        };
        let is_turned = matches!(self.storage, RowStorage::Turned { .. });
        let layouts = if is_turned {
            problem.turned_layouts()
        } else {
            problem.layouts()
        };
        let layouts = layouts.unwrap_or_default();
        let turned = |lane: i64| {
            let across = self.across().max(1);
            [
                0,
                lane / across,
                (lane % across).saturating_mul(self.vector),
            ]
        };
        let place = |lane: i64| {
            let (threads, columns) = (self.threads.max(1), problem.columns().max(1));
            let of_span = lane.saturating_mul(self.vector);
            match self.storage {
                RowStorage::Staged { .. } => [of_span / columns, of_span % columns],
                _ => [lane / threads, (lane % threads).saturating_mul(self.vector)],
            }
        };
        let chunks = match self.storage {
            RowStorage::Registers
            | RowStorage::Shifted { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { kept: 0 } => 1,
            // A thread asks for the tile itself if none is ahead.
            RowStorage::Ahead { rows, .. } => rows.max(1),
            RowStorage::Alternating { slots, .. } | RowStorage::Teams { slots, .. } => slots,
            RowStorage::Divided { .. } => self.storage.chunks(),
            RowStorage::Passes { .. } => STREAMED,
        };
        let traffic = Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: self.bytes(problem),
            sectors: 1,
            least_sectors: 1,
            under_way: product([own, size, read, chunks]),
            threads: self.threads_of_block(),
            blocks: self.grid(problem),
            launches: 1,
        };
        let first = if is_turned {
            first_access(layouts.first(), turned)
        } else {
            first_access(layouts.first(), place)
        };
        traffic.touching(first, size, self.vector)
    }

    fn neighbours(&self, problem: &RowwiseProblem) -> Vec<RowwisePlan> {
        let plan = *self;
        if let RowStorage::Staged { .. } = plan.storage {
            let threads = steps(plan.threads).map(|threads| RowwisePlan {
                threads,
                rows: product([plan.rows, plan.threads]) / threads.max(1),
                accesses: div_up(problem.columns(), threads.max(1)),
                ..plan
            });
            let rows = steps(plan.rows).map(|rows| RowwisePlan { rows, ..plan });
            return threads.into_iter().chain(rows).collect();
        }
        if let RowStorage::Turned { again } = plan.storage {
            return self.turned_neighbours(problem, again);
        }
        let accesses = steps(plan.accesses).map(|accesses| RowwisePlan { accesses, ..plan });
        let threads = steps(plan.threads).map(|threads| RowwisePlan { threads, ..plan });
        // More and fewer blocks of shifted rows, and a row ahead or none.
        let mut shifted = Vec::new();
        if let RowStorage::Shifted {
            rows,
            clusters: clusters @ 1..,
        } = plan.storage
        {
            let others = steps(clusters).map(|clusters| [rows, clusters]);
            for [rows, clusters] in others.into_iter().chain([[1 - rows.min(1), clusters]]) {
                let storage = RowStorage::Shifted { rows, clusters };
                shifted.push(RowwisePlan { storage, ..plan });
            }
        }
        let storage = match plan.storage {
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Shifted { .. } => RowStorage::Passes { kept: 0 },
            RowStorage::Passes { .. } => RowStorage::Registers,
        };
        let all = accesses.into_iter().chain(threads).chain(shifted);
        let other = RowwisePlan {
            storage,
            blocks: plan.blocks.min(MOST_BLOCKS),
            keeps_weights: false,
            ..plan
        };
        all.chain([other]).collect()
    }

    fn check_for(&self, arch: Arch, problem: &RowwiseProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, (): ()) -> Result<TensorKernel, Error> {
        self.unverified(arch)
    }

    fn stages(&self, problem: &RowwiseProblem) -> Result<Vec<(Self, ())>, Error> {
        self.check_problem(problem)?;
        let alone = self.alone(problem)?;
        let mut all = vec![(alone, ())];
        if alone != *self {
            all.push((*self, ()));
        }
        Ok(all)
    }

    fn kernels() -> &'static BuiltKernels<RowwisePlan> {
        &BUILT
    }

    fn prepare(key: &RowwiseKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let RowwiseKey { plan, problem, .. } = key;
        let built = on.kernel(plan, ())?;
        let is_one_mode = plan.is_one_mode();
        let mut layouts = if is_one_mode {
            let all = problem.rows().saturating_mul(problem.columns());
            let tensors = plan.operands.tensors();
            let layouts = tensors.map(|tensor| {
                let elements = if tensor.is_of_columns() {
                    problem.columns()
                } else {
                    all
                };
                kernel::shifted(elements)
            });
            layouts.collect::<Result<_, _>>()?
        } else {
            match plan.storage {
                RowStorage::Turned { .. } => problem.turned_layouts()?,
                _ => problem.layouts()?,
            }
        };
        if plan.has_teams() {
            layouts.push(kernel::shifted(plan.team_words())?);
        }
        let tensors = on.addresses.iter().zip(&layouts);
        let mut given: Vec<Arg<'_>> = tensors
            .map(|(at, layout)| Arg::checked(*at, layout))
            .collect();
        if plan.operands.function.is_norm() {
            given.push(Arg::Value(f32::from_bits(key.epsilon).into()));
        }
        if is_one_mode {
            given.push(Arg::Value((problem.columns() as u32).into()));
        }
        let grid = LaunchGrid {
            blocks: [plan.grid(problem), 1, 1],
            threads: plan.threads_of_block(),
            cluster: plan.cluster(),
            at_once: plan.has_teams(),
        };
        let launch = on.launch(&built, &given, 0..on.addresses.len(), grid)?;
        Ok(Made {
            plan: *plan,
            problem: problem.clone(),
            launches: vec![launch],
        })
    }
}
