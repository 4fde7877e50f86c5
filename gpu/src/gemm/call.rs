//! Matrix products as calls: checked, planned, built once for each plan, launched.

use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::Operand;

use super::epilogue::convert::{outputs, scale_type};
use super::plan::{GemmPlan, Operands, vector};
use super::prepared::{GemmShape, PreparedGemms};
use crate::calls::{Call, KernelOf, PreparedLaunch, Shape};
use crate::error::{Error, ErrorKind};
use crate::kernels::{Compute, DeviceSlice, GemmElement, GemmProblem};
use crate::method::GemmMethod;
use colex_device::Device;
use colex_device::Function;
use colex_device::Memo;
use colex_ir::Type;
use colex_ir::launch::Argument;
use colex_ir::launch::Launch;
use colex_sim::Report;
use colex_tensor::{Arg, TensorKernel};

/// `C = alpha A B^T + beta C` by the fastest kernel that types, orders, addresses and device allow.
///
/// The device keeps what it prepares for a call: a second call of the same numbers and addresses looks it up and makes
/// one launch; one with other addresses encodes its tensor maps anew; one of another shape that takes the same kernel
/// makes new arguments. Nothing is verified, printed or built twice.
///
/// ```
/// use colex_gpu::{Device, gemm, kernels::GemmProblem};
/// use half::f16;
///
/// let device = Device::open();
/// let problem = GemmProblem::new(16, 8, 24);
/// let (a, b) = (device.upload(&[f16::ONE; 16 * 24])?, device.upload(&[f16::ONE; 8 * 24])?);
/// let c = device.poisoned::<f32>(16 * 8)?;
/// gemm(&problem, &a, &b, &c)?;
/// assert_eq!(c.download()?, [24.0; 16 * 8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Fails for a problem that cannot be, buffers that are too short, misaligned or overlap, a C that was lent to
/// be read, and types that no kernel takes; for memory of another device, and with what the device says of the launch.
pub fn gemm<T: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
    a: &impl DeviceSlice<T>,
    b: &impl DeviceSlice<T>,
    c: &impl DeviceSlice<C>,
) -> Result<(), Error> {
    GemmCall::new(problem, a, b, c, None)?.run(a.device())
}

/// A product ready to be launched, as often as one likes, while its matrices are there.
#[derive(Clone, Debug)]
pub struct GemmCall<'a> {
    call: Arc<Call<(GemmPlan, Arc<TensorKernel>)>>,
    function: Function,
    matrices: PhantomData<&'a ()>,
}

impl<'a> GemmCall<'a> {
    /// The product by the fastest kernel, or by that of a method, or by a plan.
    ///
    /// # Errors
    ///
    /// Those of [`gemm`].
    pub fn new<T: GemmElement, C: GemmElement>(
        problem: &GemmProblem,
        a: &'a impl DeviceSlice<T>,
        b: &'a impl DeviceSlice<T>,
        c: &'a impl DeviceSlice<C>,
        method: Option<GemmMethod>,
    ) -> Result<GemmCall<'a>, Error> {
        GemmCall::with_plan(problem, a, b, c, |operands, arch| match method {
            Some(method) => Ok(GemmPlan::new(method, operands)),
            None => Ok(choose(operands, arch)),
        })
    }

    /// The product by the plan that a function makes of what is known of the matrices.
    ///
    /// # Errors
    ///
    /// Those of [`gemm`], of the function, and of [`GemmPlan::build`], and for a plan that was made for
    /// other types, orders or a wider access than the addresses allow, for one whose tiles should
    /// divide the problem and do not, and for a grid that the device does not take.
    pub fn with_plan<T: GemmElement, C: GemmElement>(
        problem: &GemmProblem,
        a: &'a impl DeviceSlice<T>,
        b: &'a impl DeviceSlice<T>,
        c: &'a impl DeviceSlice<C>,
        plan: impl FnOnce(Operands, Arch) -> Result<GemmPlan, Error>,
    ) -> Result<GemmCall<'a>, Error> {
        let device = a.device();
        one_device(device, [("B", b.device()), ("C", c.device())])?;
        problem.check_buffers(a, b, c)?;
        check_types::<T, C>(problem)?;
        check_factors::<T>(problem)?;
        let addresses = [a.address(), b.address(), c.address()];
        let operands = operands::<T, C>(problem, addresses);
        let plan = plan(operands, device.arch())?;
        let shape = GemmShape {
            plan,
            operands,
            sizes: [problem.m, problem.n, problem.k],
            leading: Operand::ALL.map(|operand| problem.leading_of(operand)),
            factors: [problem.alpha, problem.beta].map(f64::to_bits),
        };
        let gemms = device.extension::<PreparedGemms>();
        let call = gemms.0.call(shape, addresses, device, |shape| {
            prepare(problem, shape, device, addresses)
        })?;
        let mut kernels = call.kernels();
        let kernel = kernels.next().expect("a product is one launch").clone();
        drop(kernels);
        Ok(GemmCall {
            call,
            function: device.function(kernel),
            matrices: PhantomData,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &GemmPlan {
        &self.call.about().0
    }

    /// The kernel with its report.
    pub fn built(&self) -> &TensorKernel {
        &self.call.about().1
    }

    /// The kernel on its device.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Runs the product on the simulator, and says what it counted.
    ///
    /// # Errors
    ///
    /// Those of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Report, Error> {
        device.owns(&self.function)?;
        Ok(self.call.profile(device)?.remove(0))
    }

    /// Gives the product to a stream of its device.
    ///
    /// # Errors
    ///
    /// What the device says of the launch.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        device.owns(&self.function)?;
        self.call.run(device)
    }
}

/// What all calls with a problem's numbers have in common, made for these addresses.
fn prepare(
    problem: &GemmProblem,
    shape: &GemmShape,
    device: &Device,
    addresses: [u64; 3],
) -> Result<Shape<(GemmPlan, Arc<TensorKernel>)>, Error> {
    shape.plan.check(device.arch())?;
    shape.plan.check_call(problem, &shape.operands)?;
    let plan = &shape.plan.narrowed(problem);
    let gemms = device.extension::<PreparedGemms>();
    let kernel = gemms.0.kernels.get_or_make(plan, || {
        let built = built(plan, device.arch())?;
        let loaded = device.load_kernel(&built.kernel)?;
        Ok::<_, Error>(KernelOf { built, loaded })
    })?;
    let arguments = arguments(problem, plan, &kernel.built, addresses)?;
    let launch = launch(problem, plan, &kernel.built, device);
    kernel
        .loaded
        .check_launch(&launch, &arguments, device.limits())?;
    let one = PreparedLaunch::new(kernel.loaded.clone(), launch, arguments, addresses);
    Ok(Shape::new((*plan, kernel.built.clone()), vec![one]))
}

/// What is known of the matrices of a problem.
pub(crate) fn operands<T: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
    addresses: [u64; 3],
) -> Operands {
    let bytes = [T::BYTES, T::BYTES, C::BYTES].map(|bytes| bytes as i64);
    let vectors =
        [0, 1, 2].map(|i| vector(bytes[i], addresses[i], problem.leading_of(Operand::ALL[i])));
    Operands {
        ab: match problem.compute {
            Some(Compute::Tf32) => Ty::Tf32,
            _ => T::TY,
        },
        c: C::TY,
        majors: problem.majors,
        vectors,
        beta: problem.beta != 0.0,
    }
}

/// Whether B and C are where A is.
fn one_device(device: &Device, others: [(&'static str, &Device); 2]) -> Result<(), Error> {
    let mut others = others.into_iter();
    Ok(others.try_for_each(|(what, other)| device.check_same(what, other))?)
}

/// Whether there are kernels for the types of a problem.
fn check_types<T: GemmElement, C: GemmElement>(problem: &GemmProblem) -> Result<(), Error> {
    let (ab, can) = (T::TY, outputs(T::TY));
    if !can.contains(&C::TY) {
        let c = C::TY;
        return Err(ErrorKind::Types { ab, c, can }.into());
    }
    let can: &[Compute] = match T::COMPUTE {
        Compute::F32 if ab == Ty::F32 => &[Compute::F32, Compute::Tf32],
        Compute::F32 | Compute::Tf32 => &[Compute::F32],
        Compute::F64 => &[Compute::F64],
        Compute::S32 => &[Compute::S32],
    };
    match problem.compute {
        Some(compute) if !can.contains(&compute) => {
            Err(ErrorKind::Compute { ab, compute, can }.into())
        }
        _ => Ok(()),
    }
}

/// Whether alpha and beta are numbers of the type that they scale in, unless they are infinite by themselves.
fn check_factors<T: GemmElement>(problem: &GemmProblem) -> Result<(), Error> {
    let ab = T::TY;
    let beyond = |x: f64| x.is_finite() && (x as f32).is_infinite();
    let factors = [("alpha", problem.alpha), ("beta", problem.beta)];
    match factors.into_iter().find(|(_, x)| beyond(*x)) {
        Some((what, value)) if scale_type(ab) == Type::F32 => Err(ErrorKind::Factor {
            what,
            value: format!("{value:e}"),
            ab,
        }
        .into()),
        _ => Ok(()),
    }
}

/// The usual plan of the fastest kernel that fits; SIMT's says why where none does.
fn choose(operands: Operands, arch: Arch) -> GemmPlan {
    let mut methods = GemmMethod::BY_SPEED.into_iter();
    let method = methods.find(|method| method.fits(&operands, arch));
    GemmPlan::new(method.unwrap_or(GemmMethod::Simt), operands)
}

fn arguments(
    problem: &GemmProblem,
    plan: &GemmPlan,
    built: &TensorKernel,
    addresses: [u64; 3],
) -> Result<Vec<Argument>, Error> {
    let layout = |operand: Operand| -> Layout {
        let [rows, columns] = problem.extents(operand).map(|(extent, _)| extent);
        let values = [rows, columns, problem.leading_of(operand)];
        let like = plan.operands.layout(operand);
        like.with_dynamic_values(&values)
            .expect("two extents and a leading dimension are dynamic")
    };
    let layouts = Operand::ALL.map(layout);
    let scale = [problem.alpha, problem.beta].map(|x| match scale_type(plan.operands.ab) {
        Type::F32 => Arg::Value(Argument::F32(x as f32)),
        _ => Arg::Value(Argument::F64(x)),
    });
    let family = plan.method.family();
    let mut given = family.matrices(problem, plan, built, &layouts, addresses)?;
    given.extend(scale);
    Ok(built.arguments(&given)?)
}

fn launch(problem: &GemmProblem, plan: &GemmPlan, built: &TensorKernel, device: &Device) -> Launch {
    let [tiles_m, tiles_n] = [(problem.m, plan.tile[0]), (problem.n, plan.tile[1])]
        .map(|(extent, tile)| (extent + tile - 1) / tile);
    let threads = built.kernel.block.map_or(1, |block| block[0]);
    let launch = plan
        .method
        .family()
        .launch([tiles_m, tiles_n], threads, device);
    launch.dynamic_shared(built.dynamic_shared())
}

/// Kernels that were built, by plan and architecture: building asks no device, and is done once in a program.
static BUILT: LazyLock<Memo<(GemmPlan, Arch), TensorKernel>> = LazyLock::new(|| Memo::new(256));

/// The kernel of a plan.
fn built(plan: &GemmPlan, arch: Arch) -> Result<Arc<TensorKernel>, Error> {
    BUILT.get_or_make(&(*plan, arch), || plan.build(arch))
}
