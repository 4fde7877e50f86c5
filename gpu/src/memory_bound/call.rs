//! A prepared call of a kernel that memory limits: its launches, their arguments and their memory; found again by its numbers.

use core::fmt;
use std::collections::HashSet;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use colex_atom::Arch;
use colex_device::{BareLaunch, Buffer, Device, DeviceSlice, Extension, Function, Memo, ViewMut};
use colex_ir::launch::Launch;
use colex_sim::Report;
use colex_tensor::{Arg, TensorKernel};

use crate::calls::{
    self, Addresses, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape, same_device,
};
use crate::error::{Error, disjoint};
use crate::recent::{self, CallKey};
use crate::scratch::{self, Piece, WordKind, Workspace};

use super::traffic::{Traffic, explained};

/// A plan of a kernel that memory limits. Only the plans of this crate are such plans.
pub trait MemoryBoundPlan: Planned + fmt::Display {}

impl<P: Planned + fmt::Display> MemoryBoundPlan for P {}

/// What a plan says of its calls to the code that all of them share. No other crate can name it.
pub trait Planned: Clone + fmt::Debug + Eq + Hash + Send + Sync + 'static {
    /// What the plan divides.
    type Problem: fmt::Debug + Send + Sync;
    /// What tells the kernels of a plan apart.
    type Stage: Copy + fmt::Debug + Eq + Hash + Send + Sync;
    /// The numbers of a call besides its addresses.
    type Key: Clone + fmt::Debug + Eq + Hash + Send + Sync;

    /// Says in sentences how the plan divides a problem.
    fn sentences(&self, problem: &Self::Problem) -> String;

    /// Says why the plan is the default one on a device, where its rates decide.
    fn reason(&self, _: &Self::Problem, _: &Device) -> Option<String> {
        None
    }

    /// Counts what the plan asks of the memory.
    fn counted(&self, problem: &Self::Problem) -> Traffic;

    /// Returns the plans that differ from this one in a number or two, for the problem or not.
    fn neighbours(&self, problem: &Self::Problem) -> Vec<Self>;

    /// Checks that the plan is for the problem, on an architecture.
    fn check_for(&self, arch: Arch, problem: &Self::Problem) -> Result<(), Error>;

    /// Builds the kernel of a stage, for a load, which verifies it.
    fn kernel(&self, arch: Arch, stage: Self::Stage) -> Result<TensorKernel, Error>;

    /// Returns the plan and the stage of every kernel that a call by this plan may take, those of a stream capture among them.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan is not for the problem.
    fn stages(&self, problem: &Self::Problem) -> Result<Vec<(Self, Self::Stage)>, Error>;

    /// Returns the kernels built so far. Building a kernel needs no device, so each kernel is built once per process.
    fn kernels() -> &'static BuiltKernels<Self>;

    /// Makes what all calls with these numbers have in common.
    fn prepare(key: &Self::Key, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error>;
}

/// Kernels by plan, stage and architecture.
pub(crate) type BuiltKernels<P> = LazyLock<Memo<(P, <P as Planned>::Stage, Arch), TensorKernel>>;

/// What a plan makes of a call's numbers: itself, its problem, and its launches with the kernel of the first one.
#[derive(Debug)]
pub struct Made<P: Planned> {
    pub(crate) plan: P,
    pub(crate) problem: P::Problem,
    pub(crate) launches: Vec<MadeLaunch>,
}

/// A launch with its kernel.
#[derive(Debug)]
pub(crate) struct MadeLaunch {
    kernel: Arc<TensorKernel>,
    launch: PreparedLaunch,
}

/// The memory through which the blocks of a call share results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedMemory {
    /// The bytes of the workspace; without them, the call has no address of one.
    pub(crate) bytes: i64,
    /// The words of 32 bits by which blocks meet, and their kind.
    pub(crate) words: Option<(WordKind, i64)>,
}

impl SharedMemory {
    /// A workspace of these bytes.
    pub(crate) fn of(bytes: i64) -> SharedMemory {
        SharedMemory { bytes, words: None }
    }
}

/// The blocks of a launch, the threads of a block, and the blocks of a cluster.
#[derive(Debug)]
pub(crate) struct LaunchGrid {
    pub(crate) blocks: [i64; 3],
    pub(crate) threads: i64,
    pub(crate) cluster: i64,
    /// Whether all blocks run at once, and wait for each other.
    pub(crate) at_once: bool,
}

/// A device and the addresses of the operands for which launches are made.
#[derive(Debug)]
pub struct Preparing<'a, P: Planned> {
    prepared: &'a Prepared<P>,
    device: &'a Device,
    pub(crate) addresses: &'a [u64],
}

impl<P: Planned> Preparing<'_, P> {
    /// Returns the architecture of the device.
    pub(crate) fn arch(&self) -> Arch {
        self.device.arch()
    }

    /// Returns the kernel of a stage of a plan, loaded on the device.
    ///
    /// # Errors
    ///
    /// Returns the errors of the kernel's construction, and the device's error if it does not load it.
    pub(crate) fn kernel(&self, plan: &P, stage: P::Stage) -> Result<Arc<KernelOf>, Error> {
        let key = (plan.clone(), stage);
        self.prepared.0.kernels.get_or_make(&key, || {
            let arch = self.device.arch();
            let of_arch = (plan.clone(), stage, arch);
            let built = P::kernels().get_or_make(&of_arch, || plan.kernel(arch, stage))?;
            let loaded = self.device.load_kernel(&built.kernel)?;
            Ok(KernelOf { built, loaded })
        })
    }

    /// Returns the checked launch of a kernel. `order` names the operand of each tensor that is `given`.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments or the blocks do not fit the kernel or the device.
    pub(crate) fn launch(
        &self,
        kernel: &KernelOf,
        given: &[Arg<'_>],
        order: impl IntoIterator<Item = usize>,
        grid: LaunchGrid,
    ) -> Result<MadeLaunch, Error> {
        let arguments = kernel.built.arguments(given)?;
        // The check of the launch refuses a grid that is too large.
        let blocks = (grid.blocks).map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        let launch = Launch::new(blocks, grid.threads as u32);
        let launch = launch.dynamic_shared(kernel.built.dynamic_shared());
        let launch = match grid.cluster {
            1 => launch,
            blocks => launch.cluster([blocks as u32, 1, 1]),
        };
        let launch = if grid.at_once {
            launch.cooperative()
        } else {
            launch
        };
        (kernel.loaded).check_launch(&launch, &arguments, self.device.limits())?;
        let loaded = kernel.loaded.clone();
        let launch = PreparedLaunch::new(loaded, launch, arguments, self.addresses, order);
        let kernel = kernel.built.clone();
        Ok(MadeLaunch { kernel, launch })
    }
}

/// The cache of prepared calls of a device, of one type of plans.
#[derive(Debug)]
struct Prepared<P: Planned>(PreparedCalls<P::Key, (P, P::Stage), About<P>>);

impl<P: Planned> Default for Prepared<P> {
    fn default() -> Prepared<P> {
        Prepared(PreparedCalls::new())
    }
}

impl<P: Planned> Extension for Prepared<P> {
    fn clear(&self) {
        self.0.clear();
    }
}

impl<P: Planned> Prepared<P> {
    fn call(
        &self,
        key: P::Key,
        device: &Device,
        addresses: &[u64],
    ) -> Result<PreparedWork<P>, Error> {
        self.0.call(key, addresses, device, |key| {
            let (prepared, device) = (self, device);
            let on = Preparing {
                prepared,
                device,
                addresses,
            };
            let Made {
                plan,
                problem,
                launches,
            } = P::prepare(key, &on)?;
            let built = launches.first().map(|first| first.kernel.clone());
            let about = About {
                plan,
                problem,
                built,
            };
            let launches = launches.into_iter().map(|made| made.launch);
            Ok(Shape::new(about, launches.collect()))
        })
    }
}

/// What is known of a prepared call.
#[derive(Debug)]
struct About<P: Planned> {
    plan: P,
    problem: P::Problem,
    built: Option<Arc<TensorKernel>>,
}

type PreparedWork<P> = Arc<Call<About<P>>>;

/// A prepared call of a kernel that memory limits: a function of rows, a reduction, a cumulative sum, a selection, a map, a gather or a
/// quantisation. It may be launched any number of times while its tensors exist, also inside a stream capture. Concurrent runs on
/// several streams are a data race, since each of them writes the results. Two runs at once of rows in teams of blocks
/// ([`RowStorage::Teams`](crate::rowwise::RowStorage::Teams)), or of a computed scale whose blocks run at once
/// ([`TensorScalePlan::at_once`](crate::quantise::TensorScalePlan::at_once)), also share the words by which the blocks wait, and may never
/// end.
///
/// Its `Display` output is its plan.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::reduce::{Reduce, ReduceFunction};
///
/// let device = Device::simulator(Arch::Sm80);
/// let x = device.upload(&[1.0f32; 2 * 1000])?;
/// let mut y = device.poisoned::<f32>(2)?;
/// let call = Reduce::new(ReduceFunction::Sum, &x.view((2, 1000))?, &[1], &y.view_mut(2)?).prepare()?;
/// assert_eq!(call.to_string(), "sum f32, vectors of 4, threads 2x1x32, 8 accesses along the inner mode");
/// call.run(&device)?;
/// assert_eq!(y.download()?, [1000.0; 2]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
pub struct MemoryBoundCall<'a, P: MemoryBoundPlan> {
    device: Device,
    /// `None` if there is nothing to do.
    work: Option<PreparedWork<P>>,
    /// The memory that blocks share results through.
    memory: Option<Piece>,
    /// The words by which these blocks meet.
    words: Option<(WordKind, Buffer<u32>)>,
    /// The zeros of the device that the call reads in place of a tensor without elements. They are the stream's at no time.
    zeros: Option<Buffer<u8>>,
    /// Made for the first caller that asks for it: a run needs none.
    function: OnceLock<Function>,
    tensors: PhantomData<&'a ()>,
}

impl<P: MemoryBoundPlan> Clone for MemoryBoundCall<'_, P> {
    fn clone(&self) -> Self {
        MemoryBoundCall {
            device: self.device.clone(),
            work: self.work.clone(),
            memory: self.memory.clone(),
            words: self.words.clone(),
            zeros: self.zeros.clone(),
            function: self.function.clone(),
            tensors: PhantomData,
        }
    }
}

impl<P: MemoryBoundPlan> fmt::Debug for MemoryBoundCall<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("MemoryBoundCall");
        let all = all.field("device", &self.device).field("work", &self.work);
        all.field("memory", &self.memory).finish()
    }
}

impl<P: MemoryBoundPlan> MemoryBoundCall<'_, P> {
    /// The call that does nothing.
    pub(crate) fn of_nothing(device: &Device) -> Self {
        MemoryBoundCall {
            device: device.clone(),
            work: None,
            memory: None,
            words: None,
            zeros: None,
            function: OnceLock::new(),
            tensors: PhantomData,
        }
    }

    /// The call with these numbers on tensors at these addresses.
    ///
    /// # Errors
    ///
    /// Returns the errors of the plan's kernels and launches.
    pub(crate) fn of(device: &Device, key: P::Key, addresses: &[u64]) -> Result<Self, Error> {
        let prepared = device.extension::<Prepared<P>>();
        let work = Some(prepared.call(key, device, addresses)?);
        Ok(MemoryBoundCall {
            work,
            ..MemoryBoundCall::of_nothing(device)
        })
    }

    /// The same call, which owns zeros that it reads.
    pub(crate) fn with_zeros(self, zeros: Option<Buffer<u8>>) -> Self {
        MemoryBoundCall { zeros, ..self }
    }

    /// The call by a plan whose blocks share results through memory, with the memory that it needs. If there is no such plan, or no
    /// such memory (a capture takes none), the call is by the plan `whole`, whose blocks share nothing.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`of`](MemoryBoundCall::of), and the device's error if an allocation fails.
    pub(crate) fn sharing(
        device: &Device,
        memory: &Workspace<'_>,
        key: impl Fn(P) -> P::Key,
        whole: P,
        sharing: Option<(P, SharedMemory)>,
        addresses: Addresses,
    ) -> Result<Self, Error> {
        // A capture of the same call takes this plan, which must be loaded by then.
        let whole = MemoryBoundCall::of(device, key(whole), &addresses)?;
        let Some((plan, need)) = sharing else {
            return Ok(whole);
        };
        let shared = MemoryBoundCall::in_memory(device, memory, (key(plan), need), addresses)?;
        Ok(shared.unwrap_or(whole))
    }

    /// The call whose blocks share results through memory; `None` if there is no such memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`of`](MemoryBoundCall::of), and the device's error if an allocation fails.
    pub(crate) fn in_memory(
        device: &Device,
        memory: &Workspace<'_>,
        (key, need): (P::Key, SharedMemory),
        mut addresses: Addresses,
    ) -> Result<Option<Self>, Error> {
        let words = match need.words {
            None | Some((_, 0)) => None,
            Some((kind, count)) => match memory.take_words(device, (kind, count as usize))? {
                None => return Ok(None),
                Some(taken) => Some((kind, taken)),
            },
        };
        let memory = match need.bytes {
            0 => None,
            bytes => match memory.take_rest(bytes as usize)? {
                None => return Ok(None),
                taken => taken,
            },
        };
        addresses.extend(memory.as_ref().map(|piece| piece.address));
        addresses.extend(words.as_ref().map(|(_, words)| words.address()));
        let call = MemoryBoundCall::of(device, key, &addresses)?;
        Ok(Some(MemoryBoundCall {
            memory,
            words,
            ..call
        }))
    }

    /// Runs a call on these views: a recent one, or the one that `make` prepares, with whether its plan needs memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of `make`, and the device's error if a launch fails.
    pub(crate) fn run_recent(
        device: &Device,
        given: &impl CallKey,
        make: impl FnOnce() -> Result<(Self, bool), Error>,
    ) -> Result<(), Error> {
        recent::run(device, given, || {
            let (call, needs_memory) = make()?;
            let work = call.work.clone().filter(|_| !needs_memory);
            call.run_once(device)?;
            Ok(work.into_iter().collect())
        })
    }

    /// Runs calls on these views one after the other: recent ones, or those that `make` prepares, none of which needs memory.
    ///
    /// # Errors
    ///
    /// Returns the errors of `make`, and the device's error if a launch fails.
    pub(crate) fn run_recent_calls(
        device: &Device,
        given: &impl CallKey,
        make: impl FnOnce() -> Result<Vec<Self>, Error>,
    ) -> Result<(), Error> {
        recent::run(device, given, || {
            let calls = make()?;
            calls.iter().try_for_each(|call| call.run(device))?;
            Ok(calls.into_iter().filter_map(|call| call.work).collect())
        })
    }

    /// Runs the call once, and returns its memory to the stream's.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub(crate) fn run_once(self, device: &Device) -> Result<(), Error> {
        // After an error, counters may be others than 0: they are freed.
        self.run(device)?;
        if let Some(memory) = self.memory.and_then(|piece| piece.memory) {
            scratch::give_back(device, memory);
        }
        if let Some(words) = self.words {
            scratch::give_back_words(device, words);
        }
        Ok(())
    }

    /// Returns the launches, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let work = self.work.as_ref();
        work.map_or(Ok(Vec::new()), |work| work.bare(&self.device))
    }

    /// Returns the plan; `None` if there is nothing to do.
    pub fn plan(&self) -> Option<&P> {
        self.work.as_ref().map(|work| &work.about().plan)
    }

    /// Returns the problem; `None` if there is nothing to do.
    pub fn problem(&self) -> Option<&P::Problem> {
        self.work.as_ref().map(|work| &work.about().problem)
    }

    /// Returns what the launches ask of the memory; `None` if there is nothing to do.
    pub fn traffic(&self) -> Option<Traffic> {
        let about = self.work.as_ref()?.about();
        Some(about.plan.counted(&about.problem))
    }

    /// Says in sentences how the plan divides the problem, as the `explain` of the plan does; then what the first access of a warp
    /// touches, the time that the model predicts ([`Traffic::time`]), and the plans beside this one that it finds the fastest. Where the
    /// rates of the device chose the plan, the last line says so.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::scan::Scan;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&[1.0f32; 4 * 1000])?;
    /// let mut y = device.poisoned::<f32>(4 * 1000)?;
    /// let call = Scan::new(&x.view((4, 1000))?, 1, &y.view_mut((4, 1000))?).prepare()?;
    /// let (plan, problem) = (call.plan().expect("sums"), call.problem().expect("sums"));
    /// let text = call.explain();
    /// let model = text.strip_prefix(&plan.explain(problem)).expect("the plan's own sentences");
    /// assert!(model.starts_with(
    ///     "\nThe first access of a warp touches 16 sectors of 32 bytes, and uses all of their bytes.\nPredicted on an H200: "
    /// ));
    ///
    /// let (x, mut y) = (device.zeros::<f32>(1)?, device.zeros::<f32>(1)?);
    /// let nothing = Scan::new(&x.view((4, 0))?, 1, &y.view_mut((4, 0))?).prepare()?;
    /// assert_eq!(nothing.explain(), "nothing to do");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        match &self.work {
            Some(work) => {
                let About { plan, problem, .. } = work.about();
                let mut text = explained(plan, problem, self.device.arch());
                if let Some(reason) = plan.reason(problem, &self.device) {
                    text += &format!("\n{reason}");
                }
                text
            }
            None => NOTHING.to_string(),
        }
    }

    /// Returns the first kernel with its report; `None` if there is nothing to do.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.work.as_ref()?.about().built.as_deref()
    }

    /// Returns the first kernel on its device; `None` if there is nothing to do.
    pub fn function(&self) -> Option<&Function> {
        let kernel = self.work.as_ref()?.kernels().next()?;
        let function = || calls::function(&self.device, kernel);
        Some(self.function.get_or_init(function))
    }

    /// Returns the kernel of each launch on its device.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        let kernels = self.work.iter().flat_map(|work| work.kernels());
        kernels.map(|kernel| calls::function(&self.device, kernel))
    }

    /// Runs the call on the simulator, and returns what each of its launches counted; no report if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        let work = self.work.as_ref();
        let counted = work.map_or(Ok(Vec::new()), |work| work.profile(device));
        self.cleared_after(device, counted)
    }

    /// Enqueues the call on a stream of its device. It allocates nothing, so that a capture of the stream takes it.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        let ran = self.work.as_ref().map_or(Ok(()), |work| work.run(device));
        self.cleared_after(device, ran)
    }

    /// Clears the words of the call if a run of it has failed, and returns the result of that run.
    ///
    /// A simulated kernel that fails leaves its counts, and the next run may succeed. A GPU runs nothing more after such a failure,
    /// and a launch that it refuses counts nothing. Tags may begin at 0 again where all words are 0.
    fn cleared_after<R>(&self, device: &Device, ran: Result<R, Error>) -> Result<R, Error> {
        match (&ran, &self.words) {
            (Err(_), Some((_, words))) if device.is_simulator() => words.fill_bytes(0)?,
            _ => (),
        }
        ran
    }
}

/// What a call without work says of itself.
pub(crate) const NOTHING: &str = "nothing to do";

impl<P: MemoryBoundPlan> fmt::Display for MemoryBoundCall<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plan() {
            Some(plan) => fmt::Display::fmt(plan, f),
            None => f.write_str(NOTHING),
        }
    }
}

/// Builds and loads the kernels of the default plans of problems on a device, where its calls find them: the `load_plans` of every call.
/// Returns how many kernels there are. `None` is the problem of a call with nothing to do.
///
/// # Errors
///
/// Returns the error of a problem or of its plan, before a kernel is loaded; the errors of the kernels' construction, and the device's
/// error if it does not load one.
pub(crate) fn load_plans<P: Planned>(
    device: &Device,
    problems: impl IntoIterator<Item = Result<Option<P::Problem>, Error>>,
    fastest: impl Fn(&P::Problem) -> Result<P, Error>,
) -> Result<usize, Error> {
    let planned = problems.into_iter().map(|problem| {
        let Some(problem) = problem? else {
            return Ok(None);
        };
        let plan = fastest(&problem)?;
        Ok(Some((problem, plan)))
    });
    load_planned(device, planned)
}

/// As [`load_plans`], for problems whose plans are made.
///
/// # Errors
///
/// Returns the errors of [`load_plans`].
pub(crate) fn load_planned<P: Planned>(
    device: &Device,
    planned: impl IntoIterator<Item = Result<Option<(P::Problem, P)>, Error>>,
) -> Result<usize, Error> {
    let mut kernels = HashSet::new();
    for planned in planned {
        let Some((problem, plan)) = planned? else {
            continue;
        };
        kernels.extend(plan.stages(&problem)?);
    }
    let prepared = device.extension::<Prepared<P>>();
    let on = Preparing {
        prepared: &prepared,
        device,
        addresses: &[],
    };
    for (plan, stage) in &kernels {
        on.kernel(plan, *stage)?;
    }
    Ok(kernels.len())
}

/// The name of the memory that a caller gives, in errors.
const WORKSPACE: &str = "the workspace";

/// Returns the caller's memory as the workspace of a call on these operands, with their names and bytes. The call is named in errors:
/// what is computed, and the type that describes it.
///
/// # Errors
///
/// Returns an error if the memory is shorter than `need` returns, begins elsewhere than at a multiple of 256, is on another device, may
/// not be written, or overlaps an operand.
pub(crate) fn given_workspace<'a>(
    device: &Device,
    workspace: &'a mut impl DeviceSlice<u8>,
    operands: impl IntoIterator<Item = (&'static str, (u64, u64))>,
    need: impl FnOnce() -> Result<usize, Error>,
    of: [&'static str; 2],
) -> Result<Workspace<'a>, Error> {
    let count = workspace.count() as i64;
    let given = ViewMut::row_major(workspace, count)?;
    device.check_same(WORKSPACE, given.device())?;
    for (name, bytes) in operands {
        disjoint(WORKSPACE, given.bytes(), name, bytes)?;
    }
    Workspace::given(given.bytes(), need()?, of)
}
