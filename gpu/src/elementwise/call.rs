//! Elementwise kernels as calls: checked, planned, built once for each plan, launched.

use core::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use colex_atom::{Arch, Ty};
use colex_device::{Device, Element, Extension, Function, Memo, View};
use colex_ir::launch::{Argument, Launch};
use colex_layout::Layout;
use colex_sim::Report;
use colex_tensor::{Arg, TensorKernel};

use super::nest::Nest;
use super::operands::{ElementwiseProblem, ElementwiseWork, Kind, OperandForm};
use super::plan::ElementwisePlan;
use crate::calls::{Addresses, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape, same_device};
use crate::error::{ElementwiseError, Error, ErrorKind, disjoint};

/// A tensor that a call is given.
#[derive(Clone, Debug)]
pub(crate) struct GivenView {
    pub(crate) name: String,
    pub(crate) element: &'static str,
    pub(crate) element_bytes: i64,
    /// None of a view without elements.
    pub(crate) layout: Option<Layout>,
    pub(crate) shape: String,
    pub(crate) bytes: (u64, u64),
    pub(crate) device: Device,
    pub(crate) is_output: bool,
}

impl GivenView {
    pub(crate) fn new<T: Element>(name: &str, view: &View<'_, T>, is_output: bool) -> GivenView {
        GivenView {
            name: name.to_string(),
            element: T::NAME,
            element_bytes: T::BYTES as i64,
            layout: view.layout().cloned(),
            shape: view.shape().to_string(),
            bytes: view.bytes(),
            device: view.device().clone(),
            is_output,
        }
    }
}

/// Checks that outputs have each element once, and overlap nothing but an input that lies exactly there.
pub(crate) fn check_memory(given: &[GivenView]) -> Result<(), Error> {
    let outputs = || given.iter().enumerate().filter(|(_, one)| one.is_output);
    for (_, output) in outputs() {
        let Some(layout) = &output.layout else {
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
            let apart = disjoint(
                output.name.clone(),
                output.bytes,
                read.name.clone(),
                read.bytes,
            );
            if read.is_output || output.bytes.0 != read.bytes.0 {
                apart?;
            } else if apart.is_err() {
                check_in_place(output, read)?;
            }
        }
    }
    Ok(())
}

/// Whether an input lies exactly where an output does.
fn check_in_place(output: &GivenView, read: &GivenView) -> Result<(), Error> {
    let (Some(written), Some(layout)) = (&output.layout, &read.layout) else {
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
        output: output.name.clone(),
        input: read.name.clone(),
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

    fn prepared<'a>(self, plan: Option<ElementwisePlan>) -> Result<ElementwiseCall<'a>, Error> {
        let Checked { work, device } = self;
        let work = work.map(|(work, addresses)| {
            let prepared = device.extension::<PreparedElementwise>();
            let key = ElementwiseKey { work, plan };
            prepared.0.call(key, &addresses, &device, |key| {
                prepare(key, &device, &addresses)
            })
        });
        Ok(ElementwiseCall {
            work: work.transpose()?,
            device,
            tensors: PhantomData,
        })
    }
}

/// A prepared map, gather or rotary embedding. It may be launched any number of times while its tensors exist. Concurrent runs
/// on several streams are a data race, since each of them writes the outputs.
///
/// Its `Display` output is its plan.
#[derive(Clone, Debug)]
pub struct ElementwiseCall<'a> {
    device: Device,
    /// `None` if there is nothing to do.
    work: Option<Arc<Call<ElementwiseAbout>>>,
    tensors: PhantomData<&'a ()>,
}

/// What is known of a prepared call.
#[derive(Debug)]
struct ElementwiseAbout {
    problem: ElementwiseProblem,
    plan: ElementwisePlan,
    built: Arc<TensorKernel>,
}

impl ElementwiseCall<'_> {
    /// Returns the plan; `None` if there is nothing to do.
    pub fn plan(&self) -> Option<&ElementwisePlan> {
        self.work.as_ref().map(|work| &work.about().plan)
    }

    /// Returns the problem; `None` if there is nothing to do.
    pub fn problem(&self) -> Option<&ElementwiseProblem> {
        self.work.as_ref().map(|work| &work.about().problem)
    }

    /// Returns the kernel with its report; `None` if there is nothing to do.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.work.as_ref().map(|work| &*work.about().built)
    }

    /// Returns the kernel of each launch on its device.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        let kernels = self.work.iter().flat_map(|work| work.kernels());
        kernels.map(|kernel| self.device.function(kernel.clone()))
    }

    /// Runs the call on the simulator, and returns the counts of each launch; none if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        let work = self.work.as_ref();
        work.map_or(Ok(Vec::new()), |work| work.profile(device))
    }

    /// Enqueues the call on a stream of its device. It allocates nothing, so that a capture of the stream takes it.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        self.work.as_ref().map_or(Ok(()), |work| work.run(device))
    }
}

impl fmt::Display for ElementwiseCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plan() {
            Some(plan) => plan.fmt(f),
            None => f.write_str("nothing to do"),
        }
    }
}

/// The cache of prepared calls of a device.
#[derive(Debug)]
struct PreparedElementwise(PreparedCalls<ElementwiseKey, ElementwisePlan, ElementwiseAbout>);

impl Default for PreparedElementwise {
    fn default() -> PreparedElementwise {
        PreparedElementwise(PreparedCalls::new())
    }
}

impl Extension for PreparedElementwise {
    fn clear(&self) {
        self.0.clear();
    }
}

/// What is computed, and the plan if the caller has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ElementwiseKey {
    work: ElementwiseWork,
    plan: Option<ElementwisePlan>,
}

/// What all calls with a problem's numbers have in common, made for these addresses.
fn prepare(
    key: &ElementwiseKey,
    device: &Device,
    addresses: &[u64],
) -> Result<Shape<ElementwiseAbout>, Error> {
    let arch = device.arch();
    let problem = ElementwiseProblem::of(&key.work, addresses)?;
    let plan = match &key.plan {
        Some(plan) => plan.clone(),
        None => ElementwisePlan::fastest(&problem, arch)?,
    };
    let prepared = device.extension::<PreparedElementwise>();
    let kernel = prepared.0.kernels.get_or_make(&plan, || {
        let built = BUILT.get_or_make(&(plan.clone(), arch), || plan.unverified(arch))?;
        let loaded = device.load_kernel(&built.kernel)?;
        Ok::<_, Error>(KernelOf { built, loaded })
    })?;
    let mut launches = Vec::new();
    for (nest, first) in plan.parts(problem.nest()) {
        launches.push(launch(
            (&problem, &plan),
            &kernel,
            (&nest, &first),
            device,
            addresses,
        )?);
    }
    let about = ElementwiseAbout {
        problem,
        plan,
        built: kernel.built.clone(),
    };
    Ok(Shape::new(about, launches))
}

/// The launch of a part of the nest, which begins at these elements of the operands.
fn launch(
    (problem, plan): (&ElementwiseProblem, &ElementwisePlan),
    kernel: &KernelOf,
    (nest, first): (&Nest, &[i64]),
    device: &Device,
    addresses: &[u64],
) -> Result<PreparedLaunch, Error> {
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
    let mut next = addresses.iter();
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
    let arguments = kernel.built.arguments(&given)?;
    let blocks = u32::try_from(plan.blocks(nest)).unwrap_or(u32::MAX);
    let launch = Launch::new(blocks, plan.threads as u32);
    let launch = launch.dynamic_shared(kernel.built.dynamic_shared());
    (kernel.loaded).check_launch(&launch, &arguments, device.limits())?;
    let order = 0..addresses.len();
    let loaded = kernel.loaded.clone();
    Ok(PreparedLaunch::new(
        loaded, launch, arguments, addresses, order,
    ))
}

/// The kernels built so far, by plan and architecture. Building a kernel needs no device, so each kernel is built once per
/// process.
static BUILT: LazyLock<Memo<(ElementwisePlan, Arch), TensorKernel>> =
    LazyLock::new(|| Memo::new(256));
