//! The transposition of an operand inside of Hopper's kernel: TMA brings a tile as it lies in memory, contiguous along M or N, and
//! warps of the producer transpose it in its stage into the tile that `wgmma` reads, contiguous along K.
//!
//! A block of the tile is one row of the swizzle along either mode: 32 by 32 numbers of tf32, or 128 by 128 bytes. Both tiles have
//! each block in the same memory, so it is transposed in place: its elements are read into registers, and written back when all of
//! them are there. A warp does this for a block of tf32, and all warps together for one of bytes.

use colex_atom::{Major, Ty};
use colex_ir::{Reg, TernaryOp, Type};
use colex_layout::{ComposedLayout, IntTuple, Layout, LayoutLeft};
use colex_tensor::{AtThread, Builder, Cond, Error, Fragment, Index, Stage, Tensor};
use colex_tiled::TiledCopy;

use super::swizzled;

/// The warps of the producer that transpose: all but the one that loads.
pub(crate) const WARPS: i64 = 3;

/// The threads of a warp.
const LANES: i64 = 32;

/// The extents of a block along M or N and along K: those of a row of either tile's swizzle.
pub(crate) fn block(bits: u32, [mn, bk]: [i64; 2]) -> Result<[i64; 2], Error> {
    let row = |major: Major, mode: usize| {
        let atom = swizzled(major, bits, &[mn, bk], 1)?;
        Ok::<_, Error>(atom.inner().mode(mode).map_or(1, |row| row.size()))
    };
    Ok([row(Major::First, 0)?, row(Major::Second, 1)?])
}

/// The stages of an operand that is contiguous along M or N, as TMA fills them: blocks of both tiles follow each other in one
/// order, first along M or N.
pub(crate) fn landing_layout(bits: u32, shape: &[i64]) -> Result<ComposedLayout, Error> {
    let block = block(bits, [shape[0], shape[1]])?;
    let atom = swizzled(Major::First, bits, shape, 1)?;
    let [block, shape] =
        [&block[..], shape].map(|extents| IntTuple::flat(extents.iter().map(|n| (*n).into())));
    let block = atom.tile_to_shape(&block, LayoutLeft)?;
    Ok(block.tile_to_shape(&shape, LayoutLeft)?)
}

/// The transposition of the tiles of an operand by warps.
pub(crate) struct Transposition {
    /// (M or N, K, STAGES), as TMA fills them.
    landing: Tensor,
    /// The same memory, as `wgmma` reads it.
    stages: Tensor,
    ty: Ty,
    /// The extents of a block, and the numbers of blocks of a tile.
    block: [i64; 2],
    blocks: [i64; 2],
    /// The lanes that lie along M or N, each with a word of a row, and those along K, each with a vector of 16 bytes.
    lanes: [i64; 2],
    read: TiledCopy,
    write: TiledCopy,
    /// The barrier at which the warps meet.
    barrier: Index,
}

impl Transposition {
    pub(crate) fn new(
        ty: Ty,
        [mn, bk]: [i64; 2],
        [landing, stages]: [&Tensor; 2],
        barrier: Index,
    ) -> Result<Transposition, Error> {
        let block = block(ty.bits(), [mn, bk])?;
        let [rows, columns] = block;
        let bits = i64::from(ty.bits());
        let [word, vector] = [32 / bits, 128 / bits];
        let along = (rows / word).min(LANES);
        let across = (LANES / along).min(columns / vector);
        // A lane reads words along M or N, and writes vectors along K. Of bytes, each lane has a vector of its own number.
        let lanes = match ty {
            Ty::S8 => Layout::new((along, 1), (1, along))?,
            _ => Layout::new((along, across), (1, along))?,
        };
        let copy = |name: &str, order: [i64; 2]| {
            let values = Layout::new((word, vector), (order[0], order[1]))?;
            Ok::<_, Error>(TiledCopy::new(
                colex_atom::copy(name)?,
                bits,
                &lanes,
                &values,
            )?)
        };
        Ok(Transposition {
            landing: landing.clone(),
            stages: stages.clone(),
            ty,
            block,
            blocks: [mn / rows, bk / columns],
            lanes: [along, across],
            read: copy("UniversalCopy<uint32_t>", [1, word])?,
            write: copy("UniversalCopy<uint128_t>", [vector, 1])?,
            barrier,
        })
    }

    /// Transposes what falls to a warp of a stage. `warp` is its number among the [`WARPS`].
    pub(crate) fn run(&self, k: &mut Builder, stage: &Stage, [warp, lane]: [&Index; 2]) {
        match self.ty {
            Ty::S8 => self.bytes(k, stage, [warp, lane]),
            _ => self.words(k, stage, [warp, lane]),
        }
    }

    /// The parts of a tile that are of one number and fall to a warp in a turn, and whether there is one.
    fn turn(k: &mut Builder, warp: &Index, (turn, parts): (i64, i64)) -> (Index, Cond) {
        let number = warp + turn * WARPS;
        let is_there = k.less(&number, &parts.into());
        // The minimum states a bound that holds in the branch, and that no proof finds.
        (number.min(&(parts - 1).into()), is_there)
    }

    /// Each warp transposes blocks of its own.
    fn words(&self, k: &mut Builder, stage: &Stage, [warp, lane]: [&Index; 2]) {
        let [along, across] = self.blocks;
        let blocks = along * across;
        let lanes = self.lanes[0] * self.lanes[1];
        // Of small blocks, further lanes read what others read, and write nothing.
        let writes = k.less(lane, &lanes.into());
        let lane = lane % lanes;
        for turn in 0..(blocks + WARPS - 1) / WARPS {
            let (number, is_there) = Transposition::turn(k, warp, (turn, blocks));
            let at = [&number % along, &number / along];
            k.if_(is_there, |k| {
                let part = |tensor: &Tensor| tensor.at(2, stage).local_tile(self.block, &at);
                let from = self.read.at(&lane).partition_src(&part(&self.landing)); // (CPY, CPY_M, CPY_K)
                let to = self.write.at(&lane).partition_dst(&part(&self.stages));
                let held = k.fragment_like(&from);
                k.copy(&self.read, &from, &held);
                // A lane writes where others have read.
                k.emit(|ir| ir.warp_sync());
                let held = held.retile(&self.write);
                k.if_(writes, |k| k.copy(&self.write, &held, &to));
            });
        }
    }

    /// The warps share each block: they read all of it, meet, and write it.
    fn bytes(&self, k: &mut Builder, stage: &Stage, [warp, lane]: [&Index; 2]) {
        let [rows, columns] = self.block;
        let [along, across] = self.lanes;
        let vector = 128 / i64::from(self.ty.bits());
        let vectors = columns / vector;
        let turns = (vectors / across + WARPS - 1) / WARPS;
        // Further lanes and warps read what others read, and write nothing.
        let is_used = k.less(lane, &(along * across).into());
        let quad = lane % along;
        let of_lane = (lane / along).min(&(across - 1).into());
        // Eight lanes write a vector each at once. Their rows have two numbers within the swizzle, so every other lane takes the
        // vectors of its block in another order: the eight vectors then lie in different banks.
        let other = &quad / 2 % vectors.min(4);
        for number in 0..self.blocks[0] * self.blocks[1] {
            let at = [number % self.blocks[0], number / self.blocks[0]].map(Index::from);
            let block = |tensor: &Tensor| tensor.at(2, stage).local_tile(self.block, &at);
            let (landing, stages) = (block(&self.landing), block(&self.stages));
            let parts = (0..turns).map(|turn| {
                let (number, is_there) = Transposition::turn(k, warp, (turn, vectors / across));
                let is_there = k.both(is_there, is_used);
                let vector_of = (number * across + &of_lane).xor(&other);
                let at = [Index::from(0), vector_of.min(&(vectors - 1).into())];
                let from = landing.local_tile([rows, vector], &at);
                let from = self.read.at(&quad).partition_src(&from);
                let to = stages.local_tile([rows, vector], &at);
                let to = self.write.at(&quad).partition_dst(&to);
                let held = k.fragment_like(&from);
                k.copy(&self.read, &from, &held);
                (held, to, is_there)
            });
            let parts: Vec<(Fragment, Tensor, Cond)> = parts.collect();
            k.sync_named(&self.barrier, (WARPS * LANES) as u32);
            for (held, to, is_there) in parts {
                k.if_(is_there, |k| {
                    let turned = k.fragment_like(&to);
                    turn_bytes(k, held.regs(), turned.regs());
                    k.copy(&self.write, &turned, &to);
                });
            }
        }
    }
}

/// Turns words of four rows, one for each of 16 columns, into four words of each row.
fn turn_bytes(k: &mut Builder, columns: &[Reg], rows: &[Reg]) {
    /// The bytes of the first two rows of two columns, of the last two, and the first and the last halves of two words.
    const BYTES: [i64; 4] = [0x5140, 0x7362, 0x5410, 0x7632];
    let [first, last, low, high] = BYTES;
    k.emit(|ir| {
        for (i, four) in columns.chunks_exact(4).enumerate() {
            let mut pair = |a: usize, bytes: i64| {
                ir.ternary(TernaryOp::Prmt, Type::B32, four[a], four[a + 1], bytes)
            };
            let [upper, lower] = [first, last].map(|bytes| [pair(0, bytes), pair(2, bytes)]);
            let of_rows = [(upper, low), (upper, high), (lower, low), (lower, high)];
            for (row, ([a, b], bytes)) in of_rows.into_iter().enumerate() {
                let to = rows[row * columns.len() / 4 + i];
                ir.ternary_to(TernaryOp::Prmt, Type::B32, to, a, b, bytes);
            }
        }
    });
}
