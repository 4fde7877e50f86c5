//! The copy between two layouts that run fastest along different modes, by tensor maps: a tile comes into swizzled shared
//! memory, is transposed there by matrices of 8x8 (16 bits) or micro-tiles of 4x4 (32 bits), and goes out.
//!
//! Modes of a tile: 0 runs fastest in the source, 1 in the destination.

use std::sync::Arc;

use colex_atom::Arch;
use colex_device::Device;
use colex_layout::{ComposedLayout, Coord, Int, IntTuple, Layout, Slot, Swizzle, Tiler};
use colex_tiled::TiledCopy;

use super::family::CopyFamily;
use super::launches::{self, KernelKey, prepare, shape};
use super::loop_nest::Loop;
use super::pieces::{MAP, crossed, digits, dynamic, not_crossed, raw, universal};
use super::plan::{CopyMethod, CopyPlan};
use crate::calls::{PreparedLaunch, unencoded};
use crate::error::ErrorKind;
use colex_ir::FenceKind;
use colex_ir::launch::Limits;
use colex_tensor::{
    Arg, AtThread, Barriers, Builder, Error, Index, Tensor, TensorKernel, TmaTensor, swizzled,
};

/// Two layouts with different contiguous modes, by tensor maps of both.
pub(crate) struct Tma;

impl CopyFamily for Tma {
    fn refusal(&self, plan: &CopyPlan, addresses: [u64; 2], arch: Arch) -> Option<String> {
        not_crossed(plan)
            .or_else(|| no_maps(plan, addresses, arch))
            .or_else(|| plan.grid_refusal())
    }

    fn tile(&self, plan: &CopyPlan) -> Option<[i64; 2]> {
        Some(plan.squares().tile(plan.bytes()))
    }

    /// The kernel for loops of which the first runs fastest in the source and the second in the destination.
    fn build(&self, key: &KernelKey, loops: &[Loop]) -> Result<TensorKernel, Error> {
        let KernelKey {
            arch,
            bytes,
            squares,
            ..
        } = *key;
        let threads = squares.threads(bytes);
        let mut k = Builder::new("transpose_tma", arch, threads as u32);
        let source = dynamic(loops, |step| step.source, Some(0));
        let destination = dynamic(loops, |step| step.destination, Some(1));
        let from = MappedTile::new(&mut k, "source", &source, bytes, squares, 0)?;
        let to = MappedTile::new(&mut k, "destination", &destination, bytes, squares, 1)?;
        let around =
            (2..loops.len()).map(|mode| k.index_argument(&format!("around_{mode}"), 1..1 << 31));
        let around: Vec<Index> = around.collect();
        let most = (1 << 31) / squares.tile(bytes)[1];
        let (row, column) = (k.block_index(1), k.block_index(0));
        let mut block = vec![row, k.within(column, 0..most)];
        block.extend(digits(&k.block_index(2), &around));
        let landed = k.barriers(from.slabs);
        let thread = k.thread();
        let first = k.equal(&thread, &0.into());
        k.if_(first, |k| load(k, &from, &block, &landed));
        k.sync();
        let within = Within::new(&mut k, bytes, squares)?;
        for slab in 0..from.slabs {
            k.wait(&landed.at(slab), &0.into());
            within.run(&mut k, &from.squares(0, slab), &to.squares(0, slab))?;
        }
        k.fence(FenceKind::ProxyAsyncShared);
        k.sync();
        k.if_(first, |k| store(k, &to, &block));
        k.finish()
    }

    /// A kernel that was built for tensors whose maps have other dimensions is built again.
    fn launches(
        &self,
        plan: &CopyPlan,
        device: &Device,
        addresses: [u64; 2],
    ) -> Result<Vec<PreparedLaunch>, crate::Error> {
        let loops = &plan.ordered();
        let key = KernelKey::of(plan, loops, device.arch());
        let usual = prepare(device, &key, loops)?;
        let layouts = crossed(loops);
        let maps = |built: &TensorKernel| {
            let [source, destination] = &layouts;
            Ok::<_, crate::Error>([
                built.tensor_map("source", source)?,
                built.tensor_map("destination", destination)?,
            ])
        };
        let (kernel, maps) = match maps(&usual.built) {
            Ok(maps) => (usual, maps),
            Err(_) => {
                let built = self.build(&key, loops)?;
                let maps = maps(&built)?;
                (Arc::new(launches::load(device, Arc::new(built))?), maps)
            }
        };
        let mut given = Vec::new();
        for (map, address) in maps.into_iter().zip(addresses) {
            given.push(Arg::Value(unencoded(map, address)));
        }
        given.extend(
            loops[2..]
                .iter()
                .map(|step| Arg::Value((step.extent as u32).into())),
        );
        let arguments = kernel.built.arguments(&given)?;
        let threads = plan.squares().threads(plan.bytes());
        let launch = shape(&kernel.built, plan.grid(), threads);
        let loaded = kernel.loaded.clone();
        let one = PreparedLaunch::new(loaded, launch, arguments, &addresses, [0, 1]);
        Ok(vec![one])
    }
}

/// Returns the reason why a copy has no tensor maps, if there is one.
fn no_maps(plan: &CopyPlan, addresses: [u64; 2], arch: Arch) -> Option<String> {
    if !Arch::Sm90.runs_on(arch) {
        return Some(format!("{arch} has no tensor maps"));
    }
    if ![2, 4].contains(&plan.bytes()) {
        return Some(format!(
            "elements of {} bytes; 2 and 4 are done",
            plan.bytes()
        ));
    }
    if plan.nest().loops().len() > 5 {
        return Some("a tensor map has at most 5 dimensions".into());
    }
    if let Some(why) = partial_unit(plan) {
        return Some(why);
    }
    let strides = |step: &Loop| [step.source, step.destination];
    let strides = plan.nest().loops().iter().flat_map(strides);
    let unit = MAP / plan.bytes();
    let uneven = strides
        .filter(|&stride| stride != 1)
        .find(|stride| stride % unit != 0);
    if let Some(stride) = uneven {
        return Some(format!(
            "the stride {stride} is not a multiple of {MAP} bytes"
        ));
    }
    (!is_aligned(addresses))
        .then(|| format!("tensor maps need addresses at multiples of {MAP} bytes"))
}

/// A store by tensor map ends at a multiple of 16 bytes of the innermost dimension, not at its last element: seen on
/// an H200, where it wrote zeros into the gap behind a row of 66 elements of 2 bytes.
fn partial_unit(plan: &CopyPlan) -> Option<String> {
    let (_, destination) = plan.crossed()?;
    let extent = plan.nest().loops()[destination].extent;
    (extent % (MAP / plan.bytes()) != 0)
        .then(|| format!("a row of {extent} elements is no multiple of {MAP} bytes, and stores would go beyond it"))
}

fn is_aligned(addresses: [u64; 2]) -> bool {
    addresses.iter().all(|at| at.is_multiple_of(MAP as u64))
}

/// The bytes of a row of shared memory: what a swizzle of TMA spans at most.
const ROW: i64 = 128;

/// Squares of one row's length in a block's tile, along mode 0 and along mode 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Squares(pub(crate) [i64; 2]);

/// The block's tile that was fastest on an H200: 2x2 squares.
pub(crate) const SQUARES: Squares = Squares([2, 2]);

impl Squares {
    /// The extents of the block's tile in elements of `bytes` bytes.
    pub(crate) fn tile(self, bytes: i64) -> [i64; 2] {
        self.0.map(|n| n * ROW / bytes)
    }

    /// Whether the kernel has such tiles.
    ///
    /// # Errors
    ///
    /// Returns an error if a number is out of its range, if no block has as much shared memory as the tile takes on both sides, or if the
    /// threads have no equal shares of the tile.
    pub(crate) fn check(self, bytes: i64) -> Result<(), crate::Error> {
        let method = || CopyMethod::Tma.to_string();
        // A box of a tensor map has at most 256 rows.
        let most = 256 / (ROW / bytes);
        let names = [
            "number of squares along the source",
            "number of squares along the destination",
        ];
        for (found, what) in self.0.into_iter().zip(names) {
            if !(1..=most).contains(&found) {
                return Err(ErrorKind::Plan {
                    method: method(),
                    what,
                    found,
                    least: 1,
                    most,
                    step: 1,
                }
                .into());
            }
        }
        let tile = self.tile(bytes);
        // Each square along the source has a barrier.
        let found = 2 * tile[0] * tile[1] * bytes + 8 * self.0[0];
        let most = i64::from(Limits::of(Arch::Sm90).shared);
        if found > most {
            let (method, what) = (method(), "bytes of shared memory for both tiles");
            return Err(ErrorKind::PlanLimit {
                method,
                what,
                found,
                most,
            }
            .into());
        }
        // Threads change places with others by the bits of their numbers.
        if bytes == 2 || self.0[1].count_ones() == 1 {
            Ok(())
        } else {
            Err(ErrorKind::PlanShares {
                method: method(),
                operand: "the copy",
                tile,
                threads: self.threads(bytes),
            }
            .into())
        }
    }

    /// The threads of a block: for 16 bits 4 warps per square along mode 1, for 32 bits one thread per micro-tile of it.
    pub(crate) fn threads(self, bytes: i64) -> i64 {
        match bytes {
            2 => 128 * self.0[1],
            _ => 64 * self.0[1],
        }
    }
}

/// The layout of a tile of squares in shared memory: rows of 128 bytes along mode `fastest`, swizzled; square after
/// square along the other mode, then along `fastest`. Squares of one number along `fastest` are a slab, the tile of a
/// tensor map.
fn squares_in_memory(
    extents: [i64; 2],
    bytes: i64,
    fastest: usize,
) -> Result<ComposedLayout, Error> {
    let row = static_pair([ROW / bytes; 2]);
    let (square, order) = match fastest {
        0 => (Layout::column_major(row)?, static_pair([2, 1])),
        _ => (Layout::row_major(row)?, static_pair([1, 2])),
    };
    let tile = square.tile_to_shape(static_pair(extents), &order)?;
    let swizzle = Swizzle::new(3, i64::from((16 / bytes).ilog2()), 3)?;
    Ok(ComposedLayout::new(swizzle, 0, tile)?)
}

fn static_pair(pair: [i64; 2]) -> IntTuple {
    IntTuple::flat(pair.map(Int::Static))
}

/// A tensor in global memory with its map, and the block's tile of it in shared memory: `((row,squares),(row,squares))`.
struct MappedTile {
    map: TmaTensor,
    tile: Tensor,
    fastest: usize,
    slabs: i64,
}

impl MappedTile {
    fn new(
        k: &mut Builder,
        name: &str,
        global: &Layout,
        bytes: i64,
        squares: Squares,
        fastest: usize,
    ) -> Result<MappedTile, Error> {
        let tile = squares.tile(bytes);
        let mut slab = tile;
        slab[fastest] = ROW / bytes;
        let memory = squares_in_memory(slab, bytes, fastest)?;
        let map = k.tma_tensor(name, raw(bytes), global, slab, &memory, 1);
        let tile = k.shared_tensor(raw(bytes), squares_in_memory(tile, bytes, fastest)?);
        Ok(MappedTile {
            map,
            tile,
            fastest,
            slabs: squares.0[fastest],
        })
    }

    /// The squares of the tile with that number along a mode.
    fn squares(&self, mode: usize, number: i64) -> Tensor {
        let part = Coord::concat(&[Slot::All.into(), number.into()]);
        let modes = match mode {
            0 => [part, Slot::All.into()],
            _ => [Slot::All.into(), part],
        };
        self.tile.slice(Coord::concat(&modes))
    }

    /// The slab of that number, and its place among the slabs of the tensor.
    fn slab(&self, number: i64, block: &[Index]) -> (Tensor, Vec<Index>) {
        let mut place = block.to_vec();
        place[self.fastest] = &place[self.fastest] * self.slabs + number;
        (self.squares(self.fastest, number), place)
    }
}

/// How the threads of a block transpose the squares of one number along mode 0: a copy that reads and one that writes
/// the same elements of each thread, which thread that is, and the registers of the second in the order of the first.
struct Within {
    read: TiledCopy,
    write: TiledCopy,
    thread: Index,
    written: Option<Layout>,
}

impl Within {
    fn new(k: &mut Builder, bytes: i64, squares: Squares) -> Result<Within, Error> {
        match bytes {
            2 => Within::by_matrices(k, squares),
            _ => Within::by_micro_tiles(k, squares),
        }
    }

    /// A warp moves four matrices of 8x8, next to each other along mode 1: `ldmatrix.trans` gives each thread pairs along
    /// mode 1, `stmatrix` takes them.
    fn by_matrices(k: &mut Builder, squares: Squares) -> Result<Within, Error> {
        // Mode 0: rows of a matrix, warps. Mode 1: a pair, the four pairs of a row, the four matrices, warps.
        let along = squares.0[1] * 2;
        let tile = Layout::column_major(((8, 2), (2, 4, 4, along)))?.to_static();
        let threads = parts(&tile, &[&[1, 1], &[0, 0], &[1, 3], &[0, 1]])?;
        let values = parts(&tile, &[&[1, 0], &[1, 2]])?;
        let tv = Layout::concat([&threads, &values])?;
        let tiler = Tiler::try_from(&tile.shape().product_each()?)?;
        let atom = |name: &str| colex_atom::copy(name).map_err(Error::from);
        let copy = |name: &str| {
            Ok::<_, Error>(TiledCopy::from_tv(
                atom(name)?,
                16,
                tv.clone(),
                tiler.clone(),
            )?)
        };
        Ok(Within {
            read: copy("SM75_U16x8_LDSM_T")?,
            write: copy("SM90_U32x4_STSM_N")?,
            thread: k.thread(),
            written: None,
        })
    }

    /// A thread moves a micro-tile of 4x4: it reads rows along mode 0 and writes rows along mode 1, by the names of its
    /// registers. The threads of a quarter of a warp stand on a diagonal of micro-tiles, so that neither side has two of
    /// them in one bank.
    fn by_micro_tiles(k: &mut Builder, squares: Squares) -> Result<Within, Error> {
        let tile = Layout::column_major(((4, 8), (4, 8, squares.0[1])))?.to_static();
        let threads = parts(&tile, &[&[0, 1], &[1, 1], &[1, 2]])?;
        let tiler = Tiler::try_from(&tile.shape().product_each()?)?;
        let copy = |values: &Layout| {
            let tv = Layout::concat([&threads, values])?;
            Ok::<_, Error>(TiledCopy::from_tv(universal(128), 32, tv, tiler.clone())?)
        };
        Ok(Within {
            read: copy(&parts(&tile, &[&[0, 0], &[1, 0]])?)?,
            write: copy(&parts(&tile, &[&[1, 0], &[0, 0]])?)?,
            thread: swizzled(Swizzle::new(3, 0, -3)?, &k.thread()),
            written: Some("(_4,_4):(_4,_1)".parse()?),
        })
    }

    /// What a thread has of `from` goes to the same coordinates of `to`.
    fn run(&self, k: &mut Builder, from: &Tensor, to: &Tensor) -> Result<(), Error> {
        let source = self.read.at(&self.thread).partition_src(from); // (CPY, CPY_M, CPY_N)
        let destination = self.write.at(&self.thread).partition_dst(to); // (CPY, CPY_M, CPY_N)
        let values = self.read.tv().get(&[1])?.size();
        let rest = source.layout().size() / values;
        let held = Layout::column_major(static_pair([values, rest]))?.to_static();
        let held = k.fragment(from.ty(), &held);
        k.copy(&self.read, &source, &held);
        match &self.written {
            None => k.copy(&self.write, &held, &destination),
            Some(order) => {
                let all = order.append(&Layout::leaf(Int::Static(rest), Int::Static(values))?)?;
                k.copy(&self.write, &held.with_layout(all), &destination);
            }
        }
        Ok(())
    }
}

/// The modes of a layout with these paths, side by side as the modes of one.
fn parts(layout: &Layout, paths: &[&[usize]]) -> Result<Layout, Error> {
    let modes: Result<Vec<Layout>, _> = paths.iter().map(|path| layout.get(path)).collect();
    Ok(Layout::concat(&modes?)?)
}

/// The work of one thread before the transpose: it initialises the barriers and loads each slab.
fn load(k: &mut Builder, from: &MappedTile, block: &[Index], landed: &Barriers) {
    k.init_barriers(landed, 1);
    k.fence(FenceKind::MbarrierInit);
    for number in 0..from.slabs {
        let (slab, place) = from.slab(number, block);
        k.arrive_expect(&landed.at(number), from.map.tile_bytes());
        k.tma_load(&from.map, &place, &slab, &landed.at(number));
    }
}

/// The work of one thread after the transpose: it stores each slab and waits until the stores have read shared memory.
fn store(k: &mut Builder, to: &MappedTile, block: &[Index]) {
    for number in 0..to.slabs {
        let (slab, place) = to.slab(number, block);
        k.tma_store(&to.map, &place, &slab);
    }
    k.bulk_commit();
    k.bulk_wait(0, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::loop_nest::LoopNest;

    /// Of the tiles of any numbers of squares, each that a plan takes is built.
    #[test]
    fn law_squares_that_a_plan_takes_are_built() {
        let nest = LoopNest::new("(4096,4096):(4096,1)", "(4096,4096):(1,4096)");
        let nest = nest.expect("one shape");
        let (mut built, mut large) = (0, Vec::new());
        for bytes in [2, 4] {
            let plan = CopyPlan::new(&nest, bytes, [0, 0], Arch::Sm90a, CopyMethod::Tma);
            let plan = plan.expect("a transpose");
            for squares in (0..=9).flat_map(|a| (0..=9).map(move |b| [a, b])) {
                match plan.clone().with_squares(squares) {
                    Ok(plan) => {
                        let loops = &plan.ordered();
                        let key = KernelKey::of(&plan, loops, Arch::Sm90a);
                        let kernel = Tma.build(&key, loops);
                        let kernel = kernel.unwrap_or_else(|e| panic!("{bytes}, {squares:?}: {e}"));
                        assert_eq!(kernel.kernel.verify(), Ok(()), "{bytes}, {squares:?}");
                        built += 1;
                    }
                    Err(error) if error.to_string().contains("shared memory") => {
                        large.push((bytes, squares, error.to_string()));
                    }
                    Err(_) => {}
                }
            }
        }
        assert_eq!(
            large[0],
            (
                2,
                [4, 4],
                "the plan asks for 262176 bytes of shared memory for both tiles: the tma kernel takes at most 232448, 29728 fewer"
                    .to_string()
            )
        );
        let large: Vec<_> = large.iter().map(|(bytes, of, _)| (*bytes, *of)).collect();
        assert!(
            [(4, [4, 8]), (4, [8, 8])]
                .iter()
                .all(|of| large.contains(of))
        );
        println!("law copies.squares: {built} tiles are built");
    }
}
