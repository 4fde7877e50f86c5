//! Cumulative sums as calls: checked, planned, built once for each plan, launched.

use std::sync::LazyLock;

use colex_atom::Arch;
use colex_device::{DeviceSlice, Memo, View, ViewMut};
use colex_tensor::{Arg, TensorKernel};

use super::kernel::ScanStage;
use super::plan::ScanPlan;
use super::problem::ScanProblem;
use crate::calls::Addresses;
use crate::error::{Error, ErrorKind, ReduceError};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    BuiltKernels, LaunchGrid, Made, Planned, Preparing, SharedMemory, given_workspace, load_plans,
};
use crate::memory_bound::modes::{extents, modes};
use crate::memory_bound::plan::{product, steps};
use crate::memory_bound::traffic::{Traffic, first_access};
use crate::recent::{CallKind, GivenCall};
use crate::reduce::call::{aligned, parts_of, stride_along};
use crate::reduce::problem::{ReduceMode, check_mode, row_major};
use crate::scratch::Workspace;

/// Adds up `x` along its mode `mode`, counted from 0: element `i` of `y` is the sum of the elements up to `i`. [`Scan`] leaves an
/// element out of its own sum.
///
/// Both tensors have one shape and any strides; elements are f32, f16, bf16 or s32. Floats are added in f32 and rounded once;
/// integers modulo 2^32. The order of the additions is that of the plan ([`ScanPlan`]), so that a call has the same bits on every run. The
/// device caches what it prepares for a call, as for [`gemm`](crate::gemm()).
///
/// From a NaN on all sums are NaN. From an infinity on they are infinite, and NaN from one of the other sign on. A sum of an infinity is
/// also NaN where finite elements of it that the plan adds up by themselves overflow to an infinity of the other sign.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::scan::cumulative_sum;
///
/// let device = Device::open();
/// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let mut y = device.poisoned::<f32>(6)?;
/// cumulative_sum(&x.view((2, 3))?, 1, &y.view_mut((2, 3))?)?;
/// assert_eq!(y.download()?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the shapes or devices differ, if `x` has no such mode, if `y` overlaps `x` or has one element at several
/// coordinates, if no kernel takes the type, if the mode has several strides, or if it or the other modes together, but for the innermost
/// one, have more than 2^30 elements. Returns the device's error if the launch fails.
pub fn cumulative_sum<T: GemmElement>(
    x: &View<'_, T>,
    mode: usize,
    y: &ViewMut<'_, T>,
) -> Result<(), Error> {
    Scan::new(x, mode, y).run()
}

/// A cumulative sum that is being described.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::scan::Scan;
///
/// let device = Device::open();
/// let x = device.upload(&[1, 2, 3, 4, 5, 6])?;
/// let mut y = device.poisoned::<i32>(6)?;
/// Scan::new(&x.view((2, 3))?, 1, &y.view_mut((2, 3))?).exclusive().run()?;
/// assert_eq!(y.download()?, [0, 1, 3, 0, 4, 9]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Scan<'a, T> {
    x: View<'a, T>,
    mode: usize,
    y: View<'a, T>,
    exclusive: bool,
}

impl<'a, T: GemmElement> Scan<'a, T> {
    /// Builds the call on `x`, the mode of the sums, and `y`.
    pub fn new(x: &View<'a, T>, mode: usize, y: &ViewMut<'a, T>) -> Scan<'a, T> {
        Scan {
            x: x.clone(),
            mode,
            y: (**y).clone(),
            exclusive: false,
        }
    }

    /// Leaves each element out of its own sum: the first sum is 0.
    pub fn exclusive(self) -> Self {
        Scan {
            exclusive: true,
            ..self
        }
    }

    /// Returns the problem of the views; `None` if they have no element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`] that concern the views.
    pub fn problem(&self) -> Result<Option<ScanProblem>, Error> {
        let (shape, found) = (self.x.shape(), self.y.shape());
        let all = extents(shape);
        if self.mode >= all.len() {
            let (mode, x, rank) = (self.mode, shape.to_string(), all.len());
            return Err(ReduceError::Mode { mode, x, rank }.into());
        }
        if found != shape {
            let (found, x) = (found.to_string(), shape.to_string());
            return Err(ReduceError::Same { found, x }.into());
        }
        let (Some(of_x), Some(of_y)) = (self.x.layout(), self.y.layout()) else {
            return Ok(None);
        };
        let once = of_y.is_injective();
        if !once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })? {
            let layout = format!("y {of_y}");
            return Err(ErrorKind::Twice { layout }.into());
        }
        let along = ReduceMode {
            extent: all[self.mode],
            stride: stride_along(of_x, self.mode)?,
            outputs: [stride_along(of_y, self.mode)?; 2],
        };
        let mut others = Vec::new();
        for (at, (x, y)) in modes(of_x).iter().zip(&modes(of_y)).enumerate() {
            if at != self.mode {
                others.extend(parts_of(of_x, [x, y, y])?);
            }
        }
        self.problem_of(others, along).map(Some)
    }

    /// The problem of tensors with these modes at the addresses of this call.
    fn problem_of(&self, others: Vec<ReduceMode>, along: ReduceMode) -> Result<ScanProblem, Error> {
        let alignment = [&self.x, &self.y].map(|view| aligned(view.bytes().0, T::TY));
        ScanProblem::of(T::TY, self.exclusive, others, along, alignment)
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Scan::problem`].
    pub fn plan(&self) -> Result<Option<ScanPlan>, Error> {
        Ok(self.problem()?.map(|problem| ScanPlan::fastest(&problem)))
    }

    /// Enqueues the call on the stream of the device that holds `x`. Memory for the totals of the parts ([`ScanPlan::workspace`])
    /// is the stream's, allocated by its first call that needs as much. Inside a stream capture, or if the device has no such
    /// memory left, blocks share no sum, so that sums may have other bits.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x.device();
        device.check_same("y", self.y.device())?;
        let given = GivenCall {
            kind: CallKind::CumulativeSum,
            views: [Some(self.x.key()), Some(self.y.key())]
                .into_iter()
                .collect(),
            types: [T::TY; 2],
            numbers: [self.mode as u64, self.exclusive.into()]
                .into_iter()
                .collect(),
        };
        ScanCall::run_recent(device, &given, || {
            let mut needs_memory = false;
            let call = self.call(&Workspace::Kept(device), |problem| {
                let plan = ScanPlan::fastest(problem);
                needs_memory = plan.turns != 0 && plan.parts(problem) > 1;
                Ok(plan)
            })?;
            Ok((call, needs_memory))
        })
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture: builds and loads its kernels, and
    /// allocates the memory of the totals ([`ScanPlan::workspace`]), which the call owns. It must then live as long as the
    /// graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`].
    pub fn prepare(&self) -> Result<ScanCall<'a>, Error> {
        self.prepare_with(|problem| Ok(ScanPlan::fastest(problem)))
    }

    /// Returns the bytes of memory that [`prepare_in`](Scan::prepare_in) needs: those of the totals of the parts, 0 if blocks share
    /// no sum.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::scan::Scan;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&vec![1.0f32; 10_000])?;
    /// let mut y = device.poisoned::<f32>(10_000)?;
    /// let call = Scan::new(&x.view(10_000)?, 0, &y.view_mut(10_000)?);
    /// let mut memory = device.uninitialised::<u8>(call.workspace()?)?;
    /// assert_eq!(memory.len(), 5 * 4); // the totals of 5 parts
    /// call.prepare_in(&mut memory)?.run(&device)?;
    /// assert_eq!(y.download()?[9_999], 10_000.0);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Scan::problem`].
    pub fn workspace(&self) -> Result<usize, Error> {
        let problem = self.problem()?;
        let bytes = problem.map(|problem| ScanPlan::fastest(&problem).workspace(&problem));
        Ok(bytes.unwrap_or(0) as usize)
    }

    /// Prepares the call as [`prepare`](Scan::prepare) does, with the memory of the caller for the totals of the parts: at least
    /// [`workspace`](Scan::workspace) bytes at a multiple of 256. Calls that one thread gives to one stream may share the memory,
    /// since they run in that order. Launches that another thread gives to the stream may come between those of one call. A graph
    /// that captured the call uses it whenever it runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`], and an error if the workspace is too short, begins elsewhere, is on another
    /// device, may not be written, or overlaps a tensor.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<ScanCall<'a>, Error> {
        let operands = [("x", self.x.bytes()), ("y", self.y.bytes())];
        let of = ["cumulative sum", "Scan"];
        let device = self.x.device();
        let memory = given_workspace(device, workspace, operands, || self.workspace(), of)?;
        self.call(&memory, |problem| Ok(ScanPlan::fastest(problem)))
    }

    /// Builds and loads every kernel that a call with tensors of these shapes takes by default, along the mode of this call, so that a
    /// new shape assembles none in the middle of a request. Returns the number of kernels; shapes that share one need it once.
    ///
    /// For a shape, these are the kernel of a call in a stream capture and, where blocks share a sum, the kernel of the totals and the
    /// kernel of the parts. The other calls differ from this one in the extents alone: they have the same type and mode,
    /// addresses of the same alignment, and row-major tensors. A device keeps the last 256 kernels of cumulative sums.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::scan::Scan;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut y) = (device.zeros::<f32>(64)?, device.poisoned::<f32>(64)?);
    /// let call = Scan::new(&x.view((1, 64))?, 1, &y.view_mut((1, 64))?);
    /// // Rows of 4096 and of 1000 share a kernel; few long rows need two more, since blocks share a row.
    /// assert_eq!(call.load_plans([[4096, 4096], [5000, 1000], [2, 1 << 20]])?, 3);
    /// let refused = call.load_plans([[100]]).unwrap_err();
    /// assert_eq!(refused.to_string(), "mode 1 is named, and x 100 has 1 mode: modes are counted from 0");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Scan::problem`], those that concern a shape among them, and the device's error if it does not take a
    /// kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        self.problem()?;
        let problems = shapes.into_iter().map(|shape| {
            let extents = shape.as_ref();
            check_mode(self.mode, extents)?;
            let strides = row_major(extents)?;
            if extents.contains(&0) {
                return Ok(None);
            }
            let mode = |at: usize| ReduceMode {
                extent: extents[at],
                stride: strides[at],
                outputs: [strides[at]; 2],
            };
            let others = (0..extents.len()).filter(|at| *at != self.mode).map(mode);
            let problem = self.problem_of(others.collect(), mode(self.mode))?;
            Ok(Some(problem))
        });
        let fastest = |problem: &ScanProblem| Ok(ScanPlan::fastest(problem));
        load_plans(self.x.device(), problems, fastest)
    }

    /// Prepares the call with the plan that `plan` makes of its problem. Blocks that share a result need memory. If there is none, as
    /// inside a stream capture, the call has the same plan without parts, and the call's `plan` says so.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::scan::{Scan, ScanPlan};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&[1.0f32; 1000])?;
    /// let mut y = device.poisoned::<f32>(1000)?;
    /// let call = Scan::new(&x.view(1000)?, 0, &y.view_mut(1000)?);
    /// let call = call.prepare_with(|problem| {
    ///     let plan = ScanPlan::fastest(problem);
    ///     Ok(ScanPlan { along: 32, accesses: 1, turns: 2, ..plan })
    /// })?;
    /// assert_eq!(
    ///     call.to_string(),
    ///     "cumulative sum f32, vectors of 4, threads 1x32, 1 access, 2 turns in a part"
    /// );
    /// call.run(&device)?;
    /// assert_eq!(y.download()?[999], 1000.0);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`], of the function and of [`ScanPlan::build`], and an error if the plan was made for
    /// other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&ScanProblem) -> Result<ScanPlan, Error>,
    ) -> Result<ScanCall<'a>, Error> {
        self.call(&Workspace::Own(self.x.device()), plan)
    }

    fn call(
        &self,
        memory: &Workspace<'_>,
        plan: impl FnOnce(&ScanProblem) -> Result<ScanPlan, Error>,
    ) -> Result<ScanCall<'a>, Error> {
        let device = self.x.device();
        device.check_same("y", self.y.device())?;
        let problem = self.problem()?;
        let [x, y] = [&self.x, &self.y].map(Elements::of);
        apart(("y", y), ("x", x))?;
        let Some(problem) = problem else {
            return Ok(ScanCall::of_nothing(device));
        };
        let mut plan = plan(&problem)?;
        plan.check(device.arch())?;
        plan.check_problem(&problem)?;
        if plan.parts(&problem) == 1 {
            plan.turns = 0;
        }
        let addresses = [&self.x, &self.y].map(|view| view.bytes().0);
        let key = |plan| {
            let problem = problem.clone();
            ScanKey { plan, problem }
        };
        let whole = ScanPlan { turns: 0, ..plan };
        let sharing = (plan.turns != 0).then(|| (plan, SharedMemory::of(plan.workspace(&problem))));
        let addresses = Addresses::from_slice(&addresses);
        ScanCall::sharing(device, memory, key, whole, sharing, addresses)
    }
}

/// A prepared cumulative sum.
pub type ScanCall<'a> = MemoryBoundCall<'a, ScanPlan>;

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScanKey {
    plan: ScanPlan,
    problem: ScanProblem,
}

static BUILT: BuiltKernels<ScanPlan> = LazyLock::new(|| Memo::new(256));

impl Planned for ScanPlan {
    type Problem = ScanProblem;
    type Stage = ScanStage;
    type Key = ScanKey;

    fn sentences(&self, problem: &ScanProblem) -> String {
        self.explain(problem)
    }

    fn counted(&self, problem: &ScanProblem) -> Traffic {
        let size = i64::from(self.operands.ty.bits()) / 8;
        let layouts = problem.layouts(1).ok();
        let place = |lane: i64| {
            if self.operands.keeps_inner {
                let along = self.along.max(1);
                let inner = (lane % along).saturating_mul(self.vector);
                [lane / along, 0, inner]
            } else {
                [0, product([lane, self.vector, self.accesses]), 0]
            }
        };
        let is_shared = self.parts(problem) > 1;
        let traffic = Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: self.bytes(problem),
            sectors: 1,
            least_sectors: 1,
            under_way: product([self.vector, self.accesses, size]),
            threads: self.threads(),
            blocks: product(self.grid(problem)),
            launches: 1 + i64::from(is_shared),
        };
        let x = layouts.as_ref().map(|[x, _, _]| x);
        traffic.touching(first_access(x, place), size, self.vector)
    }

    fn neighbours(&self, _: &ScanProblem) -> Vec<ScanPlan> {
        let plan = *self;
        let accesses = steps(plan.accesses).map(|accesses| ScanPlan { accesses, ..plan });
        let along = steps(plan.along).map(|along| ScanPlan { along, ..plan });
        let all = accesses.into_iter().chain(along);
        all.chain([ScanPlan { turns: 0, ..plan }]).collect()
    }

    fn check_for(&self, arch: Arch, problem: &ScanProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, stage: ScanStage) -> Result<TensorKernel, Error> {
        self.unverified(arch, stage)
    }

    fn stages(&self, problem: &ScanProblem) -> Result<Vec<(Self, ScanStage)>, Error> {
        self.check_problem(problem)?;
        let mut stages = vec![(ScanPlan { turns: 0, ..*self }, ScanStage::Whole)];
        if self.parts(problem) > 1 {
            stages.extend([ScanStage::Totals, ScanStage::Parts].map(|stage| (*self, stage)));
        }
        Ok(stages)
    }

    fn kernels() -> &'static BuiltKernels<ScanPlan> {
        &BUILT
    }

    /// The addresses are those of x, of y, and of the totals if there are parts.
    fn prepare(key: &ScanKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let ScanKey { plan, problem } = key;
        let layouts = problem.layouts(plan.parts(problem))?;
        let launch = |stage: ScanStage, order: &[usize]| {
            let kernel = on.kernel(plan, stage)?;
            let given: Vec<Arg<'_>> = (order.iter())
                .map(|at| Arg::checked(on.addresses[*at], &layouts[*at]))
                .collect();
            let grid = LaunchGrid {
                blocks: plan.grid(problem),
                threads: plan.threads(),
                cluster: 1,
                at_once: false,
            };
            on.launch(&kernel, &given, order.iter().copied(), grid)
        };
        let launches = if plan.turns == 0 {
            vec![launch(ScanStage::Whole, &[0, 1])?]
        } else {
            let one = launch(ScanStage::Totals, &[0, 2])?;
            vec![one, launch(ScanStage::Parts, &[0, 1, 2])?]
        };
        Ok(Made {
            plan: *plan,
            problem: problem.clone(),
            launches,
        })
    }
}
