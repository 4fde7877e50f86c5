//! The launches of a copy: kernels, built once for each kind, grids and arguments.

use std::sync::{Arc, LazyLock};

use colex_atom::Arch;
use colex_layout::Layout;

use super::pieces::dynamic;
use super::plan::{CopyMethod, CopyPlan};
use super::tma::Squares;
use super::walk::Step;
use super::{bulk, flat, strided, tile, tma};
use crate::calls::{Calls, KernelOf, OneLaunch, unencoded};
use crate::error::Error;
use colex_device::Device;
use colex_device::Kept;
use colex_ir::launch::Launch;
use colex_tensor::{Built, Given};

/// What a plan launches on a device, its kernels loaded.
pub(crate) fn of(
    plan: &CopyPlan,
    device: &Device,
    addresses: [u64; 2],
) -> Result<Vec<OneLaunch>, Error> {
    let steps = plan.ordered();
    match plan.method() {
        CopyMethod::Flat | CopyMethod::Bulk => flat(plan, device, addresses),
        CopyMethod::Strided => Ok(vec![strided(plan, &steps, device, addresses)?]),
        CopyMethod::Tma => Ok(vec![mapped(plan, &steps, device, addresses)?]),
        _ => Ok(vec![tiles(plan, &steps, device, addresses)?]),
    }
}

/// One run: elements up to the first vector, bulk copies of whole chunks, and vectors for the rest.
fn flat(plan: &CopyPlan, device: &Device, addresses: [u64; 2]) -> Result<Vec<OneLaunch>, Error> {
    let (size, bytes) = (plan.walk().size(), plan.bytes());
    let vector = plan.vector() * bytes;
    let head = (vector - (addresses[0] % vector as u64) as i64) % vector / bytes;
    let mut run = Run {
        device,
        bytes,
        addresses,
        done: 0,
        launches: Vec::new(),
    };
    run.by_vectors(1, head.min(size))?;
    if plan.method() == CopyMethod::Bulk {
        let chunk = bulk::CHUNK / bytes;
        run.by_chunks((size - run.done) / chunk * chunk)?;
    }
    run.by_vectors(plan.vector(), size - run.done)?;
    Ok(run.launches)
}

/// The launches of one run, as far as they are made.
struct Run<'a> {
    device: &'a Device,
    bytes: i64,
    addresses: [u64; 2],
    /// Elements from the first on that have their launch.
    done: i64,
    launches: Vec<OneLaunch>,
}

impl Run<'_> {
    /// So many elements more, so many an access.
    fn by_vectors(&mut self, vector: i64, elements: i64) -> Result<(), Error> {
        let kind = self.kind(CopyMethod::Flat, vector);
        self.pieces(&kind, elements, flat::THREADS, |piece| {
            flat::blocks(piece, vector)
        })
    }

    /// So many elements more, which are whole chunks.
    fn by_chunks(&mut self, elements: i64) -> Result<(), Error> {
        let kind = self.kind(CopyMethod::Bulk, 1);
        let chunk = bulk::CHUNK / self.bytes;
        self.pieces(&kind, elements, bulk::THREADS, |piece| piece / chunk)
    }

    fn kind(&self, method: CopyMethod, vector: i64) -> Kind {
        Kind {
            arch: self.device.arch(),
            method,
            rank: 1,
            bytes: self.bytes,
            vector,
            squares: tma::SQUARES,
        }
    }

    /// Pieces, each as long as a kernel can count.
    fn pieces(
        &mut self,
        kind: &Kind,
        elements: i64,
        threads: i64,
        blocks: impl Fn(i64) -> i64,
    ) -> Result<(), Error> {
        let end = self.done + elements;
        while self.done < end {
            let piece = (end - self.done).min(flat::PIECE);
            let layout = flat::run(piece);
            let at = self
                .addresses
                .map(|address| address + (self.done * self.bytes) as u64);
            let layouts = [layout.clone(), layout];
            let kernel = known(self.device, kind, &[])?;
            let grid = [blocks(piece), 1, 1];
            let given = Tensors { at, layouts };
            let one = launch(&kernel, grid, threads, self.addresses, &given)?;
            self.launches.push(one);
            self.done += piece;
        }
        Ok(())
    }
}

/// A vector a thread.
fn strided(
    plan: &CopyPlan,
    steps: &[Step],
    device: &Device,
    addresses: [u64; 2],
) -> Result<OneLaunch, Error> {
    let kernel = known(device, &Kind::of(plan, steps, device.arch()), steps)?;
    let fastest = strided::fastest(plan.vector());
    let layouts = [
        dynamic(steps, |step| step.source, fastest),
        dynamic(steps, |step| step.destination, fastest),
    ];
    let vectors = plan.walk().size() / plan.vector();
    let blocks = (vectors - 1) / strided::THREADS + 1;
    let given = Tensors {
        at: addresses,
        layouts,
    };
    let grid = [blocks, 1, 1];
    launch(&kernel, grid, strided::THREADS, addresses, &given)
}

/// A block a tile.
fn tiles(
    plan: &CopyPlan,
    steps: &[Step],
    device: &Device,
    addresses: [u64; 2],
) -> Result<OneLaunch, Error> {
    let kernel = known(device, &Kind::of(plan, steps, device.arch()), steps)?;
    let threads = tile::THREADS[0] * tile::THREADS[1];
    let given = Tensors {
        at: addresses,
        layouts: crossed(steps),
    };
    launch(&kernel, plan.grid(), threads, addresses, &given)
}

/// The layouts of a copy whose first loop runs fastest in the source and whose second in the destination.
fn crossed(steps: &[Step]) -> [Layout; 2] {
    [
        dynamic(steps, |step| step.source, Some(0)),
        dynamic(steps, |step| step.destination, Some(1)),
    ]
}

/// A block a tile, by tensor maps of both sides. A kernel that was built for tensors whose maps have other dimensions is
/// built again.
fn mapped(
    plan: &CopyPlan,
    steps: &[Step],
    device: &Device,
    addresses: [u64; 2],
) -> Result<OneLaunch, Error> {
    let usual = known(device, &Kind::of(plan, steps, device.arch()), steps)?;
    let layouts = crossed(steps);
    let maps = |built: &Built| {
        let [source, destination] = &layouts;
        Ok::<_, Error>([
            built.tensor_map("source", source)?,
            built.tensor_map("destination", destination)?,
        ])
    };
    let (kernel, maps) = match maps(&usual.built) {
        Ok(maps) => (usual, maps),
        Err(_) => {
            let built = tma::build(device.arch(), steps, plan.bytes(), plan.squares())?;
            let maps = maps(&built)?;
            (Arc::new(load(device, Arc::new(built))?), maps)
        }
    };
    let mut given = Vec::new();
    for (map, address) in maps.into_iter().zip(addresses) {
        given.push(Given::Value(unencoded(map, address)));
    }
    given.extend(
        steps[2..]
            .iter()
            .map(|step| Given::Value((step.extent as u32).into())),
    );
    let arguments = kernel.built.arguments(&given)?;
    let threads = plan.squares().threads(plan.bytes());
    let launch = shape(&kernel.built, plan.grid(), threads);
    let loaded = kernel.loaded.clone();
    Ok(OneLaunch::new(loaded, launch, arguments, addresses))
}

fn shape(built: &Built, grid: [i64; 3], threads: i64) -> Launch {
    // A grid that is too large stays so, and the launch is refused.
    let grid = grid.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
    Launch::new(grid, threads as u32).dynamic_shared(built.dynamic_shared())
}

/// The two tensors of a launch.
struct Tensors {
    at: [u64; 2],
    layouts: [Layout; 2],
}

/// The launch of a kernel for two tensors, which are parts of those that begin at `addresses`.
fn launch(
    kernel: &KernelOf,
    grid: [i64; 3],
    threads: i64,
    addresses: [u64; 2],
    given: &Tensors,
) -> Result<OneLaunch, Error> {
    let tensors = [0, 1].map(|i| Given::checked(given.at[i], &given.layouts[i]));
    let arguments = kernel.built.arguments(&tensors)?;
    let launch = shape(&kernel.built, grid, threads);
    let loaded = kernel.loaded.clone();
    Ok(OneLaunch::new(loaded, launch, arguments, addresses))
}

/// What a kernel is built for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    arch: Arch,
    method: CopyMethod,
    rank: usize,
    bytes: i64,
    vector: i64,
    squares: Squares,
}

impl Kind {
    fn of(plan: &CopyPlan, steps: &[Step], arch: Arch) -> Kind {
        Kind {
            arch,
            method: plan.method(),
            rank: steps.len(),
            bytes: plan.bytes(),
            vector: plan.vector(),
            squares: plan.squares(),
        }
    }
}

/// Kernels that were built, by kind: building asks no device, and is done once in a program.
static BUILT: LazyLock<Kept<Kind, Built>> = LazyLock::new(|| Kept::new(256));

impl CopyPlan {
    /// Builds the kernel of the plan for an architecture.
    ///
    /// # Errors
    ///
    /// [`Error::Build`] where the architecture lacks what the plan takes.
    pub fn kernel(&self, arch: Arch) -> Result<Arc<Built>, Error> {
        let steps = self.ordered();
        of_kind(&Kind::of(self, &steps, arch), &steps)
    }
}

fn of_kind(kind: &Kind, steps: &[Step]) -> Result<Arc<Built>, Error> {
    BUILT.get_or_make(kind, || build(kind, steps))
}

/// The kernel of a kind on a device.
fn known(device: &Device, kind: &Kind, steps: &[Step]) -> Result<Arc<KernelOf>, Error> {
    let calls = device.extension::<Calls>();
    let kernels = &calls.copies.kernels;
    kernels.get_or_make(kind, || load(device, of_kind(kind, steps)?))
}

fn load(device: &Device, built: Arc<Built>) -> Result<KernelOf, Error> {
    let loaded = device.load_kernel(&built.kernel)?;
    Ok(KernelOf { built, loaded })
}

/// Builds the kernel of a kind for these loops.
fn build(kind: &Kind, steps: &[Step]) -> Result<Built, Error> {
    let (arch, bytes) = (kind.arch, kind.bytes);
    Ok(match kind.method {
        CopyMethod::Flat => flat::build(arch, bytes, kind.vector),
        CopyMethod::Bulk => bulk::build(arch, bytes),
        CopyMethod::Strided => strided::build(arch, steps, bytes, kind.vector),
        CopyMethod::Tma => tma::build(arch, steps, bytes, kind.squares),
        method => tile::build(arch, steps, bytes, method),
    }?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Walk;

    /// Every kernel is one that the verifier passes and the printer prints.
    #[test]
    fn every_kernel_prints() {
        let layout = |text: &str| text.parse::<Layout>().expect("a layout");
        let walk = |source: &str, destination: &str| {
            Walk::new(&layout(source), &layout(destination)).expect("a copy")
        };
        let crossed = walk("(70,45,3):(45,1,3150)", "(70,45,3):(1,70,3150)");
        let mapped = walk("(256,512,3):(512,1,131072)", "(256,512,3):(1,256,131072)");
        let flat = walk("1000:1", "1000:1");
        let strided = walk("(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)");
        let cases = [
            (&flat, CopyMethod::Flat),
            (&flat, CopyMethod::Bulk),
            (&strided, CopyMethod::Strided),
            (&crossed, CopyMethod::Naive),
            (&crossed, CopyMethod::Padded),
            (&crossed, CopyMethod::Swizzled),
            (&mapped, CopyMethod::Tma),
        ];
        for (walk, method) in cases {
            for bytes in [1, 2, 4, 8] {
                let Ok(plan) = CopyPlan::new(walk, bytes, [0, 0], Arch::Sm90a, method) else {
                    continue;
                };
                let built = plan.kernel(Arch::Sm90a).expect("a kernel");
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
