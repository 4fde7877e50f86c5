//! Copies and transposes as calls: checked, planned, built once for each kind, launched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use colex_atom::Arch;
use colex_layout::Layout;

use super::gemm_problem::disjoint;
use super::pieces::dynamic;
use super::plan::{CopyMethod, CopyPlan};
use super::view::View;
use super::walk::{Step, Walk};
use super::{copy_flat, copy_strided, transpose_tile};
use crate::argument::Argument;
use crate::device::Device;
use crate::element::Element;
use crate::error::Error;
use crate::function::Function;
use crate::launch::Launch;
use crate::tensor::{Built, Given};

/// Copies the element at every coordinate of `source` to the same coordinate of `destination`: whatever the two
/// layouts, of whatever rank. The fastest kernel that layouts, addresses and device allow is taken.
///
/// ```
/// use colex_gpu::{Device, copy, kernels::View};
///
/// let device = Device::open();
/// let (from, to) = (device.upload(&[1u32, 2, 3, 4, 5, 6])?, device.poisoned::<u32>(6)?);
/// // (2,3), row-major to column-major.
/// copy(&View::new(&from, "(2,3):(3,1)".parse()?)?, &View::new(&to, "(2,3):(1,2)".parse()?)?)?;
/// assert_eq!(to.download()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`Error::Kernel`] for layouts that do not correspond and views that overlap, [`Error::OtherDevice`], and what the
/// device says of the launch.
pub fn copy<T: Element>(source: &View<'_, T>, destination: &View<'_, T>) -> Result<(), Error> {
    CopyCall::new(source, destination, None)?.run(source.device())
}

/// Copies `source` to `destination` with its modes in another order: mode `i` of the destination is mode `order[i]` of
/// the source.
///
/// ```
/// use colex_gpu::{Device, kernels::View, transpose};
///
/// let device = Device::open();
/// let (from, to) = (device.upload(&[1u16, 2, 3, 4, 5, 6])?, device.poisoned::<u16>(6)?);
/// transpose(&View::new(&from, "(2,3):(3,1)".parse()?)?, &View::new(&to, "(3,2):(2,1)".parse()?)?, &[1, 0])?;
/// assert_eq!(to.download()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Those of [`copy`], and [`KernelError::Permutation`](super::KernelError::Permutation).
pub fn transpose<T: Element>(
    source: &View<'_, T>,
    destination: &View<'_, T>,
    order: &[usize],
) -> Result<(), Error> {
    copy(&source.permute(order)?, destination)
}

/// A copy ready to be launched, as often as one likes.
#[derive(Clone, Debug)]
pub struct CopyCall {
    plan: CopyPlan,
    function: Function,
    launches: Vec<(Launch, Vec<Argument>)>,
}

impl CopyCall {
    /// The copy of what is at every coordinate of one view to the other, by the fastest kernel or the one named.
    ///
    /// # Errors
    ///
    /// Those of [`copy`], and [`KernelError::Method`](super::KernelError::Method) for a kernel that does not do it.
    pub fn new<T: Element>(
        source: &View<'_, T>,
        destination: &View<'_, T>,
        method: Option<CopyMethod>,
    ) -> Result<CopyCall, Error> {
        let device = source.device();
        if !device.is(destination.device()) {
            return Err(Error::OtherDevice {
                what: "the destination",
                device: device.name(),
                holder: destination.device().name(),
            });
        }
        disjoint(
            "the destination",
            destination.bytes(),
            "the source",
            source.bytes(),
        )?;
        let walk = Walk::new(source.layout(), destination.layout())?;
        let addresses = [source.bytes().0, destination.bytes().0];
        let bytes = T::BYTES as i64;
        let plan = match method {
            None => CopyPlan::choose(&walk, bytes, addresses),
            Some(method) => CopyPlan::new(&walk, bytes, addresses, method)?,
        };
        CopyCall::of(plan, device, addresses)
    }

    fn of(plan: CopyPlan, device: &Device, addresses: [u64; 2]) -> Result<CopyCall, Error> {
        let steps = plan.ordered();
        let built = built(&plan, &steps, device.arch())?;
        let launches = match plan.method() {
            CopyMethod::Flat => flat(&plan, &built, addresses)?,
            CopyMethod::Strided => {
                let fastest = copy_strided::fastest(plan.vector());
                let layouts = [
                    dynamic(&steps, |step| step.source, fastest),
                    dynamic(&steps, |step| step.destination, fastest),
                ];
                let vectors = plan.walk().size() / plan.vector();
                let blocks = (vectors - 1) / copy_strided::THREADS + 1;
                vec![launch(
                    &built,
                    [blocks, 1, 1],
                    copy_strided::THREADS,
                    addresses,
                    &layouts,
                )?]
            }
            _ => vec![tiles(&steps, &built, addresses)?],
        };
        Ok(CopyCall {
            function: device.load(&built.kernel)?,
            plan,
            launches,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &CopyPlan {
        &self.plan
    }

    /// The kernel on its device.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Gives the copy to a stream of its device.
    ///
    /// # Errors
    ///
    /// What the device says of the launch.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        self.launches
            .iter()
            .try_for_each(|(launch, arguments)| device.launch(&self.function, *launch, arguments))
    }
}

/// Pieces of one run, each as long as a kernel can count.
fn flat(
    plan: &CopyPlan,
    built: &Built,
    addresses: [u64; 2],
) -> Result<Vec<(Launch, Vec<Argument>)>, Error> {
    let (size, mut first) = (plan.walk().size(), 0);
    let mut launches = Vec::new();
    while first < size {
        let elements = (size - first).min(copy_flat::PIECE);
        let layout = copy_flat::run(elements);
        let at = addresses.map(|address| address + (first * plan.bytes()) as u64);
        let blocks = copy_flat::blocks(elements, plan.vector());
        let layouts = [layout.clone(), layout];
        launches.push(launch(
            built,
            [blocks, 1, 1],
            copy_flat::THREADS,
            at,
            &layouts,
        )?);
        first += elements;
    }
    Ok(launches)
}

/// A block a tile.
fn tiles(
    steps: &[Step],
    built: &Built,
    addresses: [u64; 2],
) -> Result<(Launch, Vec<Argument>), Error> {
    let layouts = [
        dynamic(steps, |step| step.source, Some(0)),
        dynamic(steps, |step| step.destination, Some(1)),
    ];
    let along = |step: &Step| (step.extent - 1) / transpose_tile::TILE + 1;
    let around = steps[2..].iter().map(|step| step.extent).product();
    let grid = [along(&steps[1]), along(&steps[0]), around];
    launch(
        built,
        grid,
        transpose_tile::THREADS[0] * transpose_tile::THREADS[1],
        addresses,
        &layouts,
    )
}

fn launch(
    built: &Built,
    grid: [i64; 3],
    threads: i64,
    addresses: [u64; 2],
    layouts: &[Layout; 2],
) -> Result<(Launch, Vec<Argument>), Error> {
    let given = [
        Given::Tensor(addresses[0], &layouts[0]),
        Given::Tensor(addresses[1], &layouts[1]),
    ];
    let arguments = built.arguments(&given)?;
    let grid = grid.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
    let launch = Launch::new(grid, threads as u32).dynamic_shared(built.dynamic_shared());
    Ok((launch, arguments))
}

/// What a kernel is built for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    arch: Arch,
    method: CopyMethod,
    rank: usize,
    bytes: i64,
    vector: i64,
}

/// Kernels that were built, by kind: building is pure, and done once in a program.
static BUILT: Mutex<Option<HashMap<Kind, Arc<Built>>>> = Mutex::new(None);

/// The kernel of a plan.
fn built(plan: &CopyPlan, steps: &[Step], arch: Arch) -> Result<Arc<Built>, Error> {
    let kind = Kind {
        arch,
        method: plan.method(),
        rank: steps.len(),
        bytes: plan.bytes(),
        vector: plan.vector(),
    };
    let mut known = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(built) = known.get(&kind) {
        return Ok(Arc::clone(built));
    }
    let built = match plan.method() {
        CopyMethod::Flat => copy_flat::build(arch, kind.bytes, kind.vector),
        CopyMethod::Strided => copy_strided::build(arch, steps, kind.bytes, kind.vector),
        method => transpose_tile::build(arch, steps, kind.bytes, method),
    };
    let built = Arc::new(built?);
    known.insert(kind, Arc::clone(&built));
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kernel is one that the verifier passes and the printer prints.
    #[test]
    fn every_kernel_prints() {
        let layout = |text: &str| text.parse::<Layout>().expect("a layout");
        let walk = |source: &str, destination: &str| {
            Walk::new(&layout(source), &layout(destination)).expect("a copy")
        };
        let crossed = walk("(70,45,3):(45,1,3150)", "(70,45,3):(1,70,3150)");
        let flat = walk("1000:1", "1000:1");
        let strided = walk("(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)");
        let cases = [
            (&flat, CopyMethod::Flat),
            (&strided, CopyMethod::Strided),
            (&crossed, CopyMethod::Naive),
            (&crossed, CopyMethod::Padded),
            (&crossed, CopyMethod::Swizzled),
        ];
        for (walk, method) in cases {
            for bytes in [1, 2, 4, 8] {
                let plan = CopyPlan::new(walk, bytes, [0, 0], method).expect("a plan");
                let built = built(&plan, &plan.ordered(), Arch::Sm90a).expect("a kernel");
                assert_eq!(built.kernel.verify(), Ok(()), "{plan}");
                let text = built.kernel.ptx().expect("it prints");
                if let Ok(folder) = std::env::var("COLEX_PTX") {
                    std::fs::write(format!("{folder}/{method}_{bytes}.ptx"), text)
                        .expect("it is written");
                }
            }
        }
    }
}
