//! Cumulative sums as calls: checked, planned, built once for each plan, launched.

use core::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use colex_atom::Arch;
use colex_device::{Device, DeviceSlice, Extension, Function, Memo, View, ViewMut};
use colex_ir::launch::Launch;
use colex_sim::Report;
use colex_tensor::{Arg, TensorKernel};

use super::kernel::ScanStage;
use super::plan::ScanPlan;
use super::problem::ScanProblem;
use crate::calls::{Addresses, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape, same_device};
use crate::error::{Error, ErrorKind, ReduceError, disjoint};
use crate::gemm::problem::GemmElement;
use crate::reduce::call::{WORKSPACE, aligned, extents, strides};
use crate::reduce::problem::ReduceMode;
use crate::scratch::{self, Piece, Workspace};

/// Adds up `x` along its mode `mode`, counted from 0: element `i` of `y` is the sum of the elements up to `i`. [`Scan`] leaves an
/// element out of its own sum.
///
/// Both tensors have one shape and any strides; elements are f32, f16, bf16 or s32. Floats are added in f32 and rounded once;
/// integers modulo 2^32. The order of the additions is that of the plan ([`ScanPlan`]), so that a call has the same bits on every
/// run. The device caches what it prepares for a call, as for [`gemm`](crate::gemm()).
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
/// coordinates, or if no kernel takes the type. Returns the device's error if the launch fails.
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
        let (of_x, of_y) = (strides(of_x)?, strides(of_y)?);
        let mode = |at: usize| ReduceMode {
            extent: all[at],
            stride: of_x[at],
            outputs: [of_y[at]; 2],
        };
        let others = (0..all.len()).filter(|at| *at != self.mode).map(mode);
        let alignment = [&self.x, &self.y].map(|view| aligned(view.bytes().0, T::TY));
        let along = mode(self.mode);
        let problem = ScanProblem::of(T::TY, self.exclusive, others.collect(), along, alignment);
        problem.map(Some)
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
        let plan = |problem: &ScanProblem| Ok(ScanPlan::fastest(problem));
        let call = self.call(&Workspace::Kept(device), plan)?;
        call.run(device)?;
        if let Some(totals) = call.totals.and_then(|piece| piece.memory) {
            scratch::give_back(device, totals);
        }
        Ok(())
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
    /// [`workspace`](Scan::workspace) bytes at a multiple of 256. Calls of one stream may share the memory, since the work of a
    /// stream runs in order. A graph that captured the call uses it whenever it runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`cumulative_sum`], and an error if the workspace is too short, begins elsewhere, is on another
    /// device, may not be written, or overlaps a tensor.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<ScanCall<'a>, Error> {
        let count = workspace.count() as i64;
        let given = ViewMut::row_major(workspace, count)?;
        self.x.device().check_same(WORKSPACE, given.device())?;
        for (name, view) in [("x", &self.x), ("y", &self.y)] {
            disjoint(WORKSPACE, given.bytes(), name, view.bytes())?;
        }
        let of = ["cumulative sum", "Scan"];
        let memory = Workspace::given(given.bytes(), self.workspace()?, of)?;
        self.call(&memory, |problem| Ok(ScanPlan::fastest(problem)))
    }

    /// Prepares the call with the plan that `plan` makes of its problem.
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
        disjoint("y", self.y.bytes(), "x", self.x.bytes())?;
        let mut made = ScanCall {
            device: device.clone(),
            work: None,
            totals: None,
            function: OnceLock::new(),
            tensors: PhantomData,
        };
        let Some(problem) = problem else {
            return Ok(made);
        };
        let mut plan = plan(&problem)?;
        plan.check(device.arch())?;
        plan.check_problem(&problem)?;
        if plan.parts(&problem) == 1 {
            plan.turns = 0;
        }
        let mut addresses = Addresses::new();
        addresses.extend([&self.x, &self.y].map(|view| view.bytes().0));
        let prepared = device.extension::<PreparedScans>();
        let call = |plan, addresses: &[u64]| {
            let problem = problem.clone();
            let key = ScanKey { plan, problem };
            (prepared.0).call(key, addresses, device, |key| {
                prepare(key, device, addresses)
            })
        };
        // A capture of the same call takes the plan whose blocks share no sum, which must be loaded by then.
        let whole = ScanPlan { turns: 0, ..plan };
        let mut work = call(whole, &addresses)?;
        if plan.turns != 0 {
            made.totals = memory.take_rest(plan.workspace(&problem) as usize)?;
        }
        match &made.totals {
            Some(totals) => {
                addresses.push(totals.address);
                work = call(plan, &addresses)?;
            }
            None => plan = whole,
        }
        made.work = Some((plan, work));
        Ok(made)
    }
}

/// A prepared cumulative sum. It may be launched any number of times while its tensors exist. Concurrent runs on several streams are
/// a data race, since each of them writes `y`.
///
/// Its `Display` output is its plan.
#[derive(Clone, Debug)]
pub struct ScanCall<'a> {
    device: Device,
    /// `None` if there is nothing to do.
    work: Option<(ScanPlan, Arc<Call<Arc<TensorKernel>>>)>,
    /// The memory of the totals.
    totals: Option<Piece>,
    /// Made for the first caller that asks for it: a run needs none.
    function: OnceLock<Function>,
    tensors: PhantomData<&'a ()>,
}

impl ScanCall<'_> {
    /// Returns the plan; `None` if there is nothing to do.
    pub fn plan(&self) -> Option<&ScanPlan> {
        self.work.as_ref().map(|(plan, _)| plan)
    }

    /// Returns the first kernel with its report; `None` if there is nothing to do.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.work.as_ref().map(|(_, work)| &**work.about())
    }

    /// Returns the first kernel on its device; `None` if there is nothing to do.
    pub fn function(&self) -> Option<&Function> {
        let kernel = self.work.as_ref()?.1.kernels().next()?;
        let function = || self.device.function(kernel.clone());
        Some(self.function.get_or_init(function))
    }

    /// Runs the call on the simulator, and returns what each of its launches counted; no report if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        let work = self.work.as_ref();
        work.map_or(Ok(Vec::new()), |(_, work)| work.profile(device))
    }

    /// Enqueues the call on a stream of its device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        self.work
            .as_ref()
            .map_or(Ok(()), |(_, work)| work.run(device))
    }
}

impl fmt::Display for ScanCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Some((plan, _)) => plan.fmt(f),
            None => f.write_str("nothing to do"),
        }
    }
}

/// The cache of prepared calls of a device.
#[derive(Debug)]
struct PreparedScans(PreparedCalls<ScanKey, (ScanPlan, ScanStage), Arc<TensorKernel>>);

impl Default for PreparedScans {
    fn default() -> PreparedScans {
        PreparedScans(PreparedCalls::new())
    }
}

impl Extension for PreparedScans {
    fn clear(&self) {
        self.0.clear();
    }
}

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ScanKey {
    plan: ScanPlan,
    problem: ScanProblem,
}

/// What all calls with a problem's numbers have in common, made for these addresses: of x, of y, and of the totals if there are
/// parts.
fn prepare(
    key: &ScanKey,
    device: &Device,
    addresses: &[u64],
) -> Result<Shape<Arc<TensorKernel>>, Error> {
    let ScanKey { plan, problem } = key;
    let prepared = device.extension::<PreparedScans>();
    let layouts = problem.layouts(plan.parts(problem))?;
    let launched = |stage: ScanStage, order: &[usize]| {
        let kernel = prepared.0.kernels.get_or_make(&(*plan, stage), || {
            let arch = device.arch();
            let key = (*plan, stage, arch);
            let built = BUILT.get_or_make(&key, || plan.unverified(arch, stage))?;
            let loaded = device.load_kernel(&built.kernel)?;
            Ok::<_, Error>(KernelOf { built, loaded })
        })?;
        let given: Vec<Arg<'_>> = (order.iter())
            .map(|at| Arg::checked(addresses[*at], &layouts[*at]))
            .collect();
        let arguments = kernel.built.arguments(&given)?;
        let grid = plan
            .grid(problem)
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let launch =
            Launch::new(grid, plan.threads() as u32).dynamic_shared(kernel.built.dynamic_shared());
        (kernel.loaded).check_launch(&launch, &arguments, device.limits())?;
        let loaded = kernel.loaded.clone();
        let order = order.iter().copied();
        let launch = PreparedLaunch::new(loaded, launch, arguments, addresses, order);
        Ok::<_, Error>((kernel.built.clone(), launch))
    };
    if plan.turns == 0 {
        let (built, launch) = launched(ScanStage::Whole, &[0, 1])?;
        return Ok(Shape::new(built, vec![launch]));
    }
    let (built, one) = launched(ScanStage::Totals, &[0, 2])?;
    let (_, two) = launched(ScanStage::Parts, &[0, 1, 2])?;
    Ok(Shape::new(built, vec![one, two]))
}

/// The kernels built so far, by plan, stage and architecture. Building a kernel needs no device, so each kernel is built once per
/// process.
static BUILT: LazyLock<Memo<(ScanPlan, ScanStage, Arch), TensorKernel>> =
    LazyLock::new(|| Memo::new(256));
