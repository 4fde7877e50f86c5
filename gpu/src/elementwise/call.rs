//! Elementwise kernels as calls: checked, planned, built once for each plan, launched.

use std::sync::{Arc, LazyLock};

use colex_atom::{Arch, Ty};
use colex_device::{Device, Element, Memo, View, ViewKey};
use colex_ir::launch::Argument;
use colex_layout::Layout;
use colex_tensor::{Arg, TensorKernel};

use super::nest::Nest;
use super::operands::{
    Access, ElementwiseOperand, ElementwiseProblem, ElementwiseWork, Kind, OperandForm,
};
use super::plan::ElementwisePlan;
use crate::calls::{Addresses, KernelOf};
use crate::error::{ElementwiseError, Error, ErrorKind};
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    self, BuiltKernels, LaunchGrid, Made, MadeLaunch, Planned, Preparing,
};
use crate::memory_bound::modes::extents;
use crate::memory_bound::modes::{resized, shown, sizes};
use crate::memory_bound::plan::{WARP, product, steps};
use crate::memory_bound::traffic::Traffic;

/// A tensor that a call is given.
#[derive(Clone, Debug)]
pub(crate) struct GivenView {
    pub(crate) name: Arc<str>,
    pub(crate) element: &'static str,
    pub(crate) element_bytes: i64,
    pub(crate) key: ViewKey,
    /// The layout and the shape of the tensor of another call, instead of those of the view.
    other: Option<Arc<(Layout, String)>>,
    pub(crate) bytes: (u64, u64),
    pub(crate) device: Device,
    pub(crate) is_output: bool,
}

impl GivenView {
    pub(crate) fn new<T: Element>(name: &str, view: &View<'_, T>, is_output: bool) -> GivenView {
        GivenView {
            name: name.into(),
            element: T::NAME,
            element_bytes: T::BYTES as i64,
            key: view.key(),
            other: None,
            bytes: view.bytes(),
            device: view.device().clone(),
            is_output,
        }
    }

    /// The layout; `None` of a view without elements.
    pub(crate) fn layout(&self) -> Option<&Layout> {
        match &self.other {
            Some(other) => Some(&other.0),
            None => self.key.layout(),
        }
    }

    /// The shape, for errors.
    pub(crate) fn shape(&self) -> String {
        match &self.other {
            Some(other) => other.1.clone(),
            None => self.key.shape().to_string(),
        }
    }

    /// The extents of the modes, also of a view without elements.
    pub(crate) fn extents(&self) -> Vec<i64> {
        match self.layout() {
            Some(layout) => sizes(layout),
            None => extents(self.key.shape()),
        }
    }

    /// Where its elements lie.
    pub(crate) fn elements(&self) -> Elements<'_> {
        Elements {
            bytes: self.bytes,
            layout: self.layout(),
            size: self.element_bytes,
        }
    }

    /// The tensor of another call, whose extents are above 0 ([`resized`]). It has no memory of its own.
    pub(crate) fn resized(&self, extents: &[i64]) -> Result<GivenView, Error> {
        let layout = resized(&self.name, self.layout(), extents)?;
        Ok(self.with_layout(layout, extents))
    }

    /// The tensor of another call, with a layout of these extents.
    pub(crate) fn with_layout(&self, layout: Layout, extents: &[i64]) -> GivenView {
        GivenView {
            other: Some(Arc::new((layout, shown(extents)))),
            ..self.clone()
        }
    }
}

/// Checks that outputs have each element once, and overlap nothing but an input that lies exactly there.
pub(crate) fn check_memory(given: &[GivenView]) -> Result<(), Error> {
    let outputs = || given.iter().enumerate().filter(|(_, one)| one.is_output);
    for (_, output) in outputs() {
        let Some(layout) = output.layout() else {
            continue;
        };
        let once = layout.is_injective();
        if !once.map_err(|e| ErrorKind::Undecided { why: e.to_string() })? {
            let layout = format!("{} {layout}", output.name);
            return Err(ErrorKind::Twice { layout }.into());
        }
    }
    for (at, output) in outputs() {
        for (other, read) in given.iter().enumerate() {
            if other == at || (read.is_output && other > at) {
                continue;
            }
            let is_apart = apart(
                (output.name.to_string(), output.elements()),
                (read.name.to_string(), read.elements()),
            );
            if read.is_output || output.bytes.0 != read.bytes.0 {
                is_apart?;
            } else if is_apart.is_err() {
                check_in_place(output, read)?;
            }
        }
    }
    Ok(())
}

/// Whether an input lies exactly where an output does.
fn check_in_place(output: &GivenView, read: &GivenView) -> Result<(), Error> {
    let (Some(written), Some(layout)) = (output.layout(), read.layout()) else {
        return Ok(());
    };
    let is_same = output.element_bytes == read.element_bytes
        && (written == layout
            || Nest::new(&[(&output.name, written), (&read.name, layout)]).is_ok_and(|nest| {
                let mut loops = nest.loops().iter();
                loops.all(|step| step.strides[0] == step.strides[1])
            }));
    if is_same {
        return Ok(());
    }
    Err(ElementwiseError::InPlace {
        output: output.name.to_string(),
        input: read.name.to_string(),
        written: written.to_string(),
        read: layout.to_string(),
    }
    .into())
}

/// A call that was checked: what is computed, where its operands are.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// `None` if there is nothing to do.
    pub(crate) work: Option<(ElementwiseWork, Addresses)>,
    pub(crate) device: Device,
}

impl Checked {
    /// The problem; `None` if there is nothing to do.
    pub(crate) fn problem(&self) -> Result<Option<ElementwiseProblem>, Error> {
        let work = self.work.as_ref();
        work.map(|(work, addresses)| ElementwiseProblem::of(work, addresses))
            .transpose()
    }

    /// The default plan; `None` if there is nothing to do.
    pub(crate) fn plan(&self) -> Result<Option<ElementwisePlan>, Error> {
        let problem = self.problem()?;
        problem
            .map(|problem| ElementwisePlan::fastest(&problem, self.device.arch()))
            .transpose()
    }

    /// The call with the default plan.
    pub(crate) fn prepare<'a>(self) -> Result<ElementwiseCall<'a>, Error> {
        self.prepared(None)
    }

    /// The call with the plan that a function makes of its problem.
    pub(crate) fn prepare_with<'a>(
        self,
        plan: impl FnOnce(&ElementwiseProblem, Arch) -> Result<ElementwisePlan, Error>,
    ) -> Result<ElementwiseCall<'a>, Error> {
        let arch = self.device.arch();
        let own = self.problem()?.map(|problem| {
            let plan = plan(&problem, arch)?;
            plan.check(arch)?;
            plan.check_problem(&problem)?;
            Ok::<_, Error>(plan)
        });
        let own = own.transpose()?;
        self.prepared(own)
    }

    /// Loads the kernels of the default plans of calls on a device.
    pub(crate) fn load_plans(
        device: &Device,
        calls: impl IntoIterator<Item = Result<Checked, Error>>,
    ) -> Result<usize, Error> {
        let problems = calls.into_iter().map(|call| call?.problem());
        let arch = device.arch();
        call::load_plans(device, problems, |problem| {
            ElementwisePlan::fastest(problem, arch)
        })
    }

    fn prepared<'a>(self, plan: Option<ElementwisePlan>) -> Result<ElementwiseCall<'a>, Error> {
        let Checked { work, device } = self;
        let Some((work, addresses)) = work else {
            return Ok(ElementwiseCall::of_nothing(&device));
        };
        ElementwiseCall::of(&device, ElementwiseKey { work, plan }, &addresses)
    }
}

/// A prepared map, gather or rotary embedding.
pub type ElementwiseCall<'a> = MemoryBoundCall<'a, ElementwisePlan>;

/// What is computed, and the plan if the caller has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseKey {
    work: ElementwiseWork,
    plan: Option<ElementwisePlan>,
}

static BUILT: BuiltKernels<ElementwisePlan> = LazyLock::new(|| Memo::new(256));

impl Planned for ElementwisePlan {
    type Problem = ElementwiseProblem;
    type Stage = ();
    type Key = ElementwiseKey;

    fn sentences(&self, problem: &ElementwiseProblem) -> String {
        self.explain(problem)
    }

    fn counted(&self, problem: &ElementwiseProblem) -> Traffic {
        let nest = problem.nest();
        let bytes = |operand: &ElementwiseOperand| i64::from(operand.ty.bits()) / 8;
        let asked: i64 = (self.operands.iter())
            .filter(|operand| !operand.is_output)
            .map(|operand| match operand.access {
                Access::Once => 0,
                Access::Vector(_) | Access::Strided => bytes(operand),
            })
            .sum();
        let parts = self.parts(nest);
        let blocks = parts.iter().map(|(nest, _)| self.blocks(nest)).max();
        let traffic = Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: problem.moved_bytes(),
            sectors: 1,
            least_sectors: 1,
            // A map of no tensor has its results under way.
            under_way: product([self.vector, self.accesses, asked.max(1)]),
            threads: self.threads,
            blocks: blocks.unwrap_or(1),
            launches: parts.len() as i64,
        };
        // The tensor with the most bytes decides.
        let tensors = self.operands.iter().enumerate().filter(|(_, operand)| {
            matches!(operand.kind, OperandForm::Tensor | OperandForm::Pairs)
                && !matches!(operand.access, Access::Once)
        });
        let most = tensors.max_by_key(|(number, operand)| {
            let distinct = nest.distinct(*number);
            (distinct.saturating_mul(bytes(operand)), !operand.is_output)
        });
        let Some((number, operand)) = most else {
            return traffic;
        };
        let offsets = nest.first_vectors(number, self.vector, WARP);
        let width = match operand.access {
            Access::Vector(_) => operand.width(self.vector),
            Access::Strided | Access::Once => 1,
        };
        traffic.touching(offsets, bytes(operand), width)
    }

    fn neighbours(&self, _: &ElementwiseProblem) -> Vec<ElementwisePlan> {
        let accesses = steps(self.accesses).map(|accesses| ElementwisePlan {
            accesses,
            ..self.clone()
        });
        let threads = steps(self.threads).map(|threads| ElementwisePlan {
            threads,
            ..self.clone()
        });
        accesses.into_iter().chain(threads).collect()
    }

    fn check_for(&self, arch: Arch, problem: &ElementwiseProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, (): ()) -> Result<TensorKernel, Error> {
        self.unverified(arch)
    }

    fn stages(&self, problem: &ElementwiseProblem) -> Result<Vec<(Self, ())>, Error> {
        self.check_problem(problem)?;
        Ok(vec![(self.clone(), ())])
    }

    fn kernels() -> &'static BuiltKernels<ElementwisePlan> {
        &BUILT
    }

    fn prepare(key: &ElementwiseKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let problem = ElementwiseProblem::of(&key.work, on.addresses)?;
        let plan = match &key.plan {
            Some(plan) => plan.clone(),
            None => ElementwisePlan::fastest(&problem, on.arch())?,
        };
        let kernel = on.kernel(&plan, ())?;
        let launches = (plan.parts(problem.nest()).iter())
            .map(|(nest, first)| launch((&problem, &plan), &kernel, (nest, first), on))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Made {
            plan,
            problem,
            launches,
        })
    }
}

/// The launch of a part of the nest, which begins at these elements of the operands.
fn launch(
    (problem, plan): (&ElementwiseProblem, &ElementwisePlan),
    kernel: &KernelOf,
    (nest, first): (&Nest, &[i64]),
    on: &Preparing<'_, ElementwisePlan>,
) -> Result<MadeLaunch, Error> {
    let mut layouts = Vec::new();
    for (number, operand) in plan.operands.0.operands.iter().enumerate() {
        layouts.push(match operand.kind {
            OperandForm::Coordinate => None,
            OperandForm::Tensor | OperandForm::Pairs | OperandForm::Rows { .. } => {
                Some(problem.layout(nest, number)?)
            }
        });
    }
    let scalar = |(ty, bits): &(Ty, u64)| {
        Arg::Value(match ty {
            Ty::F64 => Argument::F64(f64::from_bits(*bits)),
            Ty::S32 => Argument::U32(*bits as u32),
            _ => Argument::F32(f32::from_bits(*bits as u32)),
        })
    };
    let mut given: Vec<Arg<'_>> = problem.work.scalars.iter().map(scalar).collect();
    let mut next = on.addresses.iter();
    for (number, operand) in problem.work.operands.iter().enumerate() {
        match (&layouts[number], &operand.kind) {
            (Some(layout), Kind::Tensor | Kind::Pairs | Kind::Rows { .. }) => {
                let bytes = i64::from(operand.ty.bits()) / 8;
                let address = next.next().expect("an operand has an address");
                let at = address + (first[number] * bytes) as u64;
                given.push(Arg::checked(at, layout));
            }
            (None, _) | (_, Kind::Coordinate) => {
                let steps = nest.loops().iter().map(|step| step.strides[number]);
                let numbers = [first[number]].into_iter().chain(steps);
                given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as i32 as u32))));
            }
        }
    }
    let grid = LaunchGrid {
        blocks: [plan.blocks(nest), 1, 1],
        threads: plan.threads,
        cluster: 1,
        at_once: false,
    };
    on.launch(kernel, &given, 0..on.addresses.len(), grid)
}
