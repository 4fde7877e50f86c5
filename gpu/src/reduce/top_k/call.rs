//! Selections as calls: checked, planned, built once for each plan, launched.

use std::marker::PhantomData;
use std::sync::LazyLock;

use colex_atom::Arch;
use colex_device::{DeviceSlice, Memo, View, ViewMut};
use colex_tensor::{Arg, TensorKernel};

use super::kernel::TopKStage;
use super::plan::TopKPlan;
use super::problem::TopKProblem;
use crate::calls::Addresses;
use crate::error::{Error, ErrorKind, ReduceError};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    BuiltKernels, LaunchGrid, Made, Planned, Preparing, SharedMemory, given_workspace, load_plans,
};
use crate::memory_bound::modes::{extents, modes};
use crate::memory_bound::plan::{div_up, product, steps};
use crate::memory_bound::traffic::{Traffic, first_access};
use crate::recent::{CallKind, GivenCall};
use crate::reduce::ReduceIndex;
use crate::reduce::call::{Written, aligned, parts_of, stride_along};
use crate::reduce::problem::{ReduceMode, check_mode, row_major};
use crate::scratch::Workspace;

/// Finds the largest elements of `x` along its mode `mode`, counted from 0, the largest first, and their indices along the mode.
/// [`TopK::smallest`] finds the smallest ones.
///
/// `values` and `indices` have the shape of `x`, with `k` in the place of the extent of the mode: at most 4096, and at most the extent; 0
/// selects nothing.
/// Of equal elements the lower index comes first, and both zeros are equal. A NaN counts as the largest element, as in PyTorch, so that
/// it comes last among the smallest. All tensors have any strides; elements are f32, f16, bf16 or s32, and their bits are copied. Indices
/// are of `i32` or `i64`. The results do not depend on the plan ([`TopKPlan`]). The device caches what it prepares for a call,
/// as for [`gemm`](crate::gemm()).
///
/// ```
/// use colex_gpu::{Device, top_k};
///
/// let device = Device::open();
/// let x = device.upload(&[3.0f32, 7.0, 5.0, 7.0, f32::NAN, 1.0, 2.0, 3.0])?;
/// let (mut values, mut indices) = (device.poisoned::<f32>(4)?, device.poisoned::<i32>(4)?);
/// top_k(&x.view((2, 4))?, 1, &values.view_mut((2, 2))?, &indices.view_mut((2, 2))?)?;
/// assert_eq!(indices.download()?, [1, 3, 0, 3]);
/// let values = values.download()?;
/// assert_eq!(values[..2], [7.0, 7.0]);
/// assert!(values[2].is_nan() && values[3] == 3.0);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the shapes or devices do not fit, if `x` has no such mode, if `k` is larger than the extent or than 4096, if an
/// output overlaps another tensor or has one element at several coordinates, if no kernel takes the type, if the mode has several strides, or
/// if it or the other modes together have more than 2^30 elements. Returns the device's error if the launch fails.
pub fn top_k<T: GemmElement, I: ReduceIndex>(
    x: &View<'_, T>,
    mode: usize,
    values: &ViewMut<'_, T>,
    indices: &ViewMut<'_, I>,
) -> Result<(), Error> {
    TopK::new(x, mode, values, indices).run()
}

/// A selection that is being described.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::reduce::top_k::TopK;
///
/// let device = Device::open();
/// let x = device.upload(&[4, 1, 3, 1, 2])?;
/// let (mut values, mut indices) = (device.poisoned::<i32>(3)?, device.poisoned::<i64>(3)?);
/// TopK::new(&x.view(5)?, 0, &values.view_mut(3)?, &indices.view_mut(3)?).smallest().run()?;
/// assert_eq!((values.download()?, indices.download()?), (vec![1, 1, 2], vec![1, 3, 4]));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TopK<'a, T> {
    x: View<'a, T>,
    mode: usize,
    smallest: bool,
    /// The values and the indices.
    outputs: [Written; 2],
    lives: PhantomData<&'a ()>,
}

impl<'a, T: GemmElement> TopK<'a, T> {
    /// Builds the call on `x`, the mode, the values and their indices.
    pub fn new<I: ReduceIndex>(
        x: &View<'a, T>,
        mode: usize,
        values: &ViewMut<'a, T>,
        indices: &ViewMut<'a, I>,
    ) -> TopK<'a, T> {
        TopK {
            x: x.clone(),
            mode,
            smallest: false,
            outputs: [
                Written::new("`values`", T::TY, values),
                Written::new("`indices`", I::TY, indices),
            ],
            lives: PhantomData,
        }
    }

    /// Takes the smallest elements, the smallest first.
    pub fn smallest(self) -> Self {
        TopK {
            smallest: true,
            ..self
        }
    }

    /// Returns the problem of the views; `None` if there are no results.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`top_k`] that concern the views.
    pub fn problem(&self) -> Result<Option<TopKProblem>, Error> {
        let shape = self.x.shape();
        let all = extents(shape);
        let mode = self.mode;
        if mode >= all.len() {
            let (x, rank) = (shape.to_string(), all.len());
            return Err(ReduceError::Mode { mode, x, rank }.into());
        }
        let [values, indices] = &self.outputs;
        let found = extents(values.shape());
        let is_other = |at: usize| at != mode && found.get(at) != all.get(at);
        if found.len() != all.len() || (0..all.len()).any(is_other) {
            return Err(ReduceError::ButForOne {
                what: values.name,
                found: values.shape().to_string(),
                x: shape.to_string(),
                mode,
            }
            .into());
        }
        if extents(indices.shape()) != found {
            let [indices, values] = [indices, values].map(|of| of.shape().to_string());
            return Err(ReduceError::Indices { indices, values }.into());
        }
        let (k, extent) = (found[mode], all[mode]);
        let (Some(of_values), Some(of_indices)) = (values.key.layout(), indices.key.layout())
        else {
            return Ok(None);
        };
        let Some(of_x) = self.x.layout() else {
            let (which, most) = (super::problem::which(self.smallest), 0);
            return Err(ReduceError::Selected {
                which,
                k,
                extent,
                most,
            }
            .into());
        };
        for (name, layout) in [(values.name, of_values), (indices.name, of_indices)] {
            let once = layout.is_injective();
            if !once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })? {
                let layout = format!("{name} {layout}");
                return Err(ErrorKind::Twice { layout }.into());
            }
        }
        let along = ReduceMode {
            extent,
            stride: stride_along(of_x, mode)?,
            outputs: [
                stride_along(of_values, mode)?,
                stride_along(of_indices, mode)?,
            ],
        };
        let [x, values, indices] = [of_x, of_values, of_indices].map(modes);
        let mut others = Vec::new();
        for at in (0..x.len()).filter(|at| *at != mode) {
            others.extend(parts_of(of_x, [&x[at], &values[at], &indices[at]])?);
        }
        self.problem_of(others, (along, k)).map(Some)
    }

    /// The problem of tensors with these modes at the addresses of this call.
    fn problem_of(
        &self,
        others: Vec<ReduceMode>,
        along: (ReduceMode, i64),
    ) -> Result<TopKProblem, Error> {
        TopKProblem::of(
            [T::TY, self.outputs[1].ty],
            self.smallest,
            others,
            along,
            aligned(self.x.bytes().0, T::TY),
        )
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TopK::problem`].
    pub fn plan(&self) -> Result<Option<TopKPlan>, Error> {
        Ok(self.problem()?.map(|problem| TopKPlan::fastest(&problem)))
    }

    /// Enqueues the call on the stream of the device that holds `x`. Memory for the candidates of the parts
    /// ([`TopKPlan::workspace`]) is the stream's, allocated by its first call that needs as much. Inside a stream capture, or if
    /// the device has no such memory left, blocks share no row; the results are the same.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`top_k`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x.device();
        for output in &self.outputs {
            device.check_same(output.name, &output.device)?;
        }
        let [values, indices] = &self.outputs;
        let keys = [self.x.key(), values.key.clone(), indices.key.clone()];
        let given = GivenCall {
            kind: CallKind::Selection,
            views: keys.map(Some).into_iter().collect(),
            types: [T::TY, indices.ty],
            numbers: [self.mode as u64, self.smallest.into()]
                .into_iter()
                .collect(),
        };
        TopKCall::run_recent(device, &given, || {
            let mut needs_memory = false;
            let call = self.call(&Workspace::Kept(device), |problem| {
                let plan = TopKPlan::fastest(problem);
                needs_memory = plan.parts > 1;
                Ok(plan)
            })?;
            Ok((call, needs_memory))
        })
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture: builds and loads its kernels, and
    /// allocates the memory of the candidates ([`TopKPlan::workspace`]), which the call owns. It must then live as long as the
    /// graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`top_k`].
    pub fn prepare(&self) -> Result<TopKCall<'a>, Error> {
        self.prepare_with(|problem| Ok(TopKPlan::fastest(problem)))
    }

    /// Returns the bytes of memory that [`prepare_in`](TopK::prepare_in) needs: those of the candidates of the parts, 0 if blocks
    /// share no row.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::top_k::TopK;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let numbers: Vec<i32> = (0..40_000).collect();
    /// let x = device.upload(&numbers)?;
    /// let (mut values, mut indices) = (device.poisoned::<i32>(2)?, device.poisoned::<i32>(2)?);
    /// let call = TopK::new(&x.view(40_000)?, 0, &values.view_mut(2)?, &indices.view_mut(2)?);
    /// let mut memory = device.uninitialised::<u8>(call.workspace()?)?;
    /// assert_eq!(memory.len(), 5 * 32 * 8); // the candidates of 5 parts
    /// call.prepare_in(&mut memory)?.run(&device)?;
    /// assert_eq!(indices.download()?, [39_999, 39_998]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TopK::problem`].
    pub fn workspace(&self) -> Result<usize, Error> {
        let problem = self.problem()?;
        let bytes = problem.map(|problem| TopKPlan::fastest(&problem).workspace(&problem));
        Ok(bytes.unwrap_or(0) as usize)
    }

    /// Prepares the call as [`prepare`](TopK::prepare) does, with the memory of the caller for the candidates of the parts: at
    /// least [`workspace`](TopK::workspace) bytes at a multiple of 256. Calls that one thread gives to one stream may share the
    /// memory, since they run in that order. Launches that another thread gives to the stream may come between those of one call. A
    /// graph that captured the call uses it whenever it runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`top_k`], and an error if the workspace is too short, begins elsewhere, is on another device,
    /// may not be written, or overlaps a tensor.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<TopKCall<'a>, Error> {
        let outputs = self
            .outputs
            .iter()
            .map(|output| (output.name, output.bytes));
        let operands = [("x", self.x.bytes())].into_iter().chain(outputs);
        let of = ["selection", "TopK"];
        let device = self.x.device();
        let memory = given_workspace(device, workspace, operands, || self.workspace(), of)?;
        self.call(&memory, |problem| Ok(TopKPlan::fastest(problem)))
    }

    /// Builds and loads every kernel that a call with `x` of these shapes takes by default, along the mode and with the `k` of this call,
    /// so that a new shape assembles none in the middle of a request. Returns the number of kernels; shapes that share one need it
    /// once.
    ///
    /// For a shape, these are the kernel of a call in a stream capture and, where blocks share a row, the kernel of the parts and the
    /// kernel that selects among their candidates. The other calls differ from this one in the extents alone: they have the
    /// same types, mode and `k`, addresses of the same alignment, and row-major tensors. A device keeps the last 256 kernels of
    /// selections.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::top_k::TopK;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut at) = (device.zeros::<f32>(64)?, device.poisoned::<i32>(8)?);
    /// let mut values = device.poisoned::<f32>(8)?;
    /// let call = TopK::new(&x.view((1, 64))?, 1, &values.view_mut((1, 8))?, &at.view_mut((1, 8))?);
    /// // Any number of such rows takes one kernel; few long rows need three, since blocks share a row.
    /// assert_eq!(call.load_plans([[1, 1000], [4096, 1000], [2, 1 << 20]])?, 4);
    /// let refused = call.load_plans([[100, 5]]).unwrap_err();
    /// assert_eq!(refused.to_string(), "the 8 largest of 5 elements: there must be at most 5");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TopK::problem`], those that concern a shape among them, and the device's error if it does not take a
    /// kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        self.problem()?;
        let k = extents(self.outputs[0].shape())[self.mode];
        let problems = shapes.into_iter().map(|shape| {
            let all = shape.as_ref();
            check_mode(self.mode, all)?;
            let of_x = row_major(all)?;
            let mut results = all.to_vec();
            results[self.mode] = k;
            if results.contains(&0) {
                return Ok(None);
            }
            let of_outputs = row_major(&results)?;
            let at = |at: usize| ReduceMode {
                extent: all[at],
                stride: of_x[at],
                outputs: [of_outputs[at]; 2],
            };
            let others = (0..all.len()).filter(|other| *other != self.mode).map(at);
            self.problem_of(others.collect(), (at(self.mode), k))
                .map(Some)
        });
        let fastest = |problem: &TopKProblem| Ok(TopKPlan::fastest(problem));
        load_plans(self.x.device(), problems, fastest)
    }

    /// Prepares the call with the plan that `plan` makes of its problem. Blocks that share a result need memory. If there is none, as
    /// inside a stream capture, the call has the same plan without parts, and the call's `plan` says so.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::reduce::top_k::{TopK, TopKPlan};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let numbers: Vec<f32> = (0..1000).map(|i| (i * 37 % 1000) as f32).collect();
    /// let x = device.upload(&numbers)?;
    /// let (mut values, mut indices) = (device.poisoned::<f32>(3)?, device.poisoned::<i32>(3)?);
    /// let call = TopK::new(&x.view(1000)?, 0, &values.view_mut(3)?, &indices.view_mut(3)?);
    /// let call = call.prepare_with(|problem| {
    ///     let plan = TopKPlan::fastest(problem);
    ///     Ok(TopKPlan { threads: 32, accesses: 2, held: false, slots: 4, digit: 8, parts: 2, ..plan })
    /// })?;
    /// assert_eq!(
    ///     call.to_string(),
    ///     "largest of f32, vectors of 4, 32 threads, 2 accesses, 4 slots, digits of 8 bits, 2 parts"
    /// );
    /// call.run(&device)?;
    /// assert_eq!(values.download()?, [999.0, 998.0, 997.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`top_k`], of the function and of [`TopKPlan::build`], and an error if the plan was made for other
    /// tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&TopKProblem) -> Result<TopKPlan, Error>,
    ) -> Result<TopKCall<'a>, Error> {
        self.call(&Workspace::Own(self.x.device()), plan)
    }

    fn call(
        &self,
        memory: &Workspace<'_>,
        plan: impl FnOnce(&TopKProblem) -> Result<TopKPlan, Error>,
    ) -> Result<TopKCall<'a>, Error> {
        let device = self.x.device();
        for output in &self.outputs {
            device.check_same(output.name, &output.device)?;
        }
        let problem = self.problem()?;
        let [values, indices] = &self.outputs;
        for output in [values, indices] {
            apart(
                (output.name, output.elements()),
                ("x", Elements::of(&self.x)),
            )?;
        }
        apart(
            (indices.name, indices.elements()),
            (values.name, values.elements()),
        )?;
        let Some(problem) = problem else {
            return Ok(TopKCall::of_nothing(device));
        };
        let plan = plan(&problem)?;
        plan.check(device.arch())?;
        plan.check_problem(&problem)?;
        let addresses = [self.x.bytes().0, values.bytes.0, indices.bytes.0];
        let key = |plan| {
            let problem = problem.clone();
            TopKKey { plan, problem }
        };
        let whole = TopKPlan { parts: 1, ..plan };
        let sharing = (plan.parts > 1).then(|| (plan, SharedMemory::of(plan.workspace(&problem))));
        let addresses = Addresses::from_slice(&addresses);
        TopKCall::sharing(device, memory, key, whole, sharing, addresses)
    }
}

/// A prepared selection.
pub type TopKCall<'a> = MemoryBoundCall<'a, TopKPlan>;

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopKKey {
    plan: TopKPlan,
    problem: TopKProblem,
}

static BUILT: BuiltKernels<TopKPlan> = LazyLock::new(|| Memo::new(256));

impl Planned for TopKPlan {
    type Problem = TopKProblem;
    type Stage = TopKStage;
    type Key = TopKKey;

    fn sentences(&self, problem: &TopKProblem) -> String {
        self.explain(problem)
    }

    fn counted(&self, problem: &TopKProblem) -> Traffic {
        let size = i64::from(self.operands.ty.bits()) / 8;
        // Accesses beyond a row ask for nothing.
        let share = div_up(problem.along.extent, product([self.threads, self.parts]));
        let own = product([self.vector, self.accesses]).min(share);
        let layouts = problem.layouts(1, self.slots).ok();
        let place = |lane: i64| [0, lane.saturating_mul(self.vector)];
        let traffic = Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: self.bytes(problem),
            sectors: 1,
            least_sectors: 1,
            under_way: product([own, size]),
            threads: self.threads,
            blocks: problem.selections().saturating_mul(self.parts),
            launches: 1 + i64::from(self.parts > 1),
        };
        let x = layouts.as_ref().map(|[x, _, _, _]| x);
        traffic.touching(first_access(x, place), size, self.vector)
    }

    fn neighbours(&self, _: &TopKProblem) -> Vec<TopKPlan> {
        let plan = *self;
        let accesses = steps(plan.accesses).map(|accesses| TopKPlan { accesses, ..plan });
        let threads = steps(plan.threads).map(|threads| TopKPlan { threads, ..plan });
        let parts = steps(plan.parts).map(|parts| TopKPlan { parts, ..plan });
        let all = accesses.into_iter().chain(threads).chain(parts);
        let (held, one) = (!plan.held, 1);
        let others = [TopKPlan { held, ..plan }, TopKPlan { parts: one, ..plan }];
        all.chain(others).collect()
    }

    fn check_for(&self, arch: Arch, problem: &TopKProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, stage: TopKStage) -> Result<TensorKernel, Error> {
        self.unverified(arch, stage)
    }

    fn stages(&self, problem: &TopKProblem) -> Result<Vec<(Self, TopKStage)>, Error> {
        self.check_problem(problem)?;
        let mut stages = vec![(TopKPlan { parts: 1, ..*self }, TopKStage::Whole)];
        if self.parts > 1 {
            stages.push((*self, TopKStage::Part));
            stages.push((self.second(), TopKStage::Combine));
        }
        Ok(stages)
    }

    fn kernels() -> &'static BuiltKernels<TopKPlan> {
        &BUILT
    }

    /// The addresses are those of x, the values and the indices, and of the candidates if there are parts.
    fn prepare(key: &TopKKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let TopKKey { plan, problem } = key;
        let layouts = problem.layouts(plan.parts, plan.slots)?;
        let launch = |plan: &TopKPlan, stage: TopKStage, parts: i64, order: &[usize]| {
            let kernel = on.kernel(plan, stage)?;
            let mut given: Vec<Arg<'_>> = (order.iter())
                .map(|at| Arg::checked(on.addresses[*at], &layouts[*at]))
                .collect();
            if stage == TopKStage::Part {
                given.push(Arg::Value((problem.k as u32).into()));
            }
            let grid = LaunchGrid {
                blocks: [problem.selections().saturating_mul(parts), 1, 1],
                threads: plan.threads,
                cluster: 1,
                at_once: false,
            };
            on.launch(&kernel, &given, order.iter().copied(), grid)
        };
        let launches = if plan.parts == 1 {
            vec![launch(plan, TopKStage::Whole, 1, &[0, 1, 2])?]
        } else {
            let one = launch(plan, TopKStage::Part, plan.parts, &[0, 3])?;
            let second = plan.second();
            vec![one, launch(&second, TopKStage::Combine, 1, &[3, 0, 1, 2])?]
        };
        Ok(Made {
            plan: *plan,
            problem: problem.clone(),
            launches,
        })
    }
}
