//! The Ampere epilogue: the accumulators go through shared memory, so that a warp reads and writes whole rows of C.

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::terms::{EarlyTerms, Terms};
use crate::gemm::operand::{Shares, shares, uneven};
use crate::gemm::plan::GemmPlan;
use crate::kernels::Major;
use colex_ir::launch::Limits;
use colex_tensor::{AtThread, Builder, Error, Fragment, Index, Tensor};

/// The staging of the accumulators: rows of one atom of each warp at a time, so that the buffer is small.
struct SmemEpilogue {
    rows: i64,
    columns: i64,
    /// Stores a thread's accumulators into the buffer.
    put: TiledCopy,
    put_to: Tensor,
    /// Vectors along what runs fastest in C, as sums and as elements of C.
    read: TiledCopy,
    read_from: Tensor,
    store: TiledCopy,
}

/// Where the sums of some rows lie: what runs fastest in C contiguous, and what follows it as far apart as a warp's pairs
/// need to meet no other in a bank.
fn places(major: Major, [rows, columns]: [i64; 2], bits: i64) -> Layout {
    let stride = match major {
        Major::First => (1, rows + 128 / bits),
        Major::Second => (columns + 8, 1),
    };
    Layout::new((rows, columns), stride).expect("the plan's numbers make a layout")
}

/// The rows of C whose accumulators are in shared memory at a time: those of one atom of each warp along M.
fn rows(plan: &GemmPlan, mma: &TiledMma) -> i64 {
    mma.atom().mnk()[0] * plan.warps[0]
}

/// The threads' shares of the rows of C that are in shared memory at a time, if they are equal.
fn shares_of_rows(plan: &GemmPlan, mma: &TiledMma, sums: &Fragment) -> Option<Shares> {
    let major = plan.operands.major(Operand::C);
    let widest = 128 / i64::from(sums.ty().bits());
    let vector = plan.operands.vector(Operand::C).min(widest);
    let tile = [rows(plan, mma), plan.tile[1]];
    let narrower = if plan.operands.c.bits() < sums.ty().bits() {
        plan.operands.c
    } else {
        sums.ty()
    };
    shares(major, tile, vector, mma.threads(), narrower)
}

/// Whether a block's shared memory holds the sums beside the stages, and its threads have equal shares of them.
pub(crate) fn fits(plan: &GemmPlan, mma: &TiledMma, sums: &Fragment, arch: Arch) -> bool {
    let [bm, bn, bk] = plan.tile;
    let bytes = |elements: i64, ty: Ty| elements * i64::from(ty.bits()) / 8;
    let (major, bits) = (plan.operands.major(Operand::C), i64::from(sums.ty().bits()));
    let places = places(major, [rows(plan, mma), bn], bits).cosize();
    let places = places.expect("rows of a tile are few");
    let columns = bn * plan.operands.right_factors();
    let stages = bytes((bm + columns) * bk * plan.stages, plan.operands.ab);
    let room = stages + bytes(places, sums.ty()) <= i64::from(Limits::of(arch).shared);
    room && shares_of_rows(plan, mma, sums).is_some()
}

fn universal(bits: i64) -> Result<colex_atom::CopyAtom, Error> {
    Ok(colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>"))?)
}

impl SmemEpilogue {
    fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        mma: &TiledMma,
        sums: &Fragment,
    ) -> Result<SmemEpilogue, Error> {
        let [from, to] = [sums.ty(), plan.operands.c].map(|ty| i64::from(ty.bits()));
        let (rows, columns) = (rows(plan, mma), plan.tile[1]);
        let major = plan.operands.major(Operand::C);
        let shared = k.shared_tensor(sums.ty(), places(major, [rows, columns], from));
        // A thread has pairs of neighbours along N.
        let pair = match major {
            Major::First => from,
            Major::Second => 2 * from,
        };
        let Shares {
            threads,
            values,
            vector,
        } = shares_of_rows(plan, mma, sums)
            .ok_or_else(|| uneven([rows, columns], mma.threads()))?;
        let read = TiledCopy::new(universal(vector * from)?, from, &threads, &values)?;
        let thread = k.thread();
        Ok(SmemEpilogue {
            rows,
            columns,
            put: TiledCopy::for_accumulator_atom(universal(pair)?, from, mma)?,
            // (MMA, MMA_M, MMA_N), with MMA_M = 1: the buffer has the rows of one atom of every warp.
            put_to: mma.at(&thread).partition(&shared, Operand::C),
            // (CPY, CPY_M, CPY_N)
            read_from: read.at(&thread).partition_src(&shared),
            read,
            store: TiledCopy::new(universal(vector * to)?, to, &threads, &values)?,
        })
    }
}

/// Stores what the epilogue makes of the accumulators of tile (M, N), those of each right factor.
pub(crate) fn store(
    k: &mut Builder,
    plan: &GemmPlan,
    mma: &TiledMma,
    sums: &[Fragment],
    (c, [m, n]): (&Tensor, [Index; 2]),
    terms: &Terms,
) -> Result<(), Error> {
    let epilogue = SmemEpilogue::new(k, plan, mma, &sums[0])?;
    let thread = k.thread();
    let parts = plan.tile[0] / epilogue.rows;
    for part in 0..parts {
        let mut all = Vec::new();
        for (factor, sums) in sums.iter().enumerate() {
            if part > 0 || factor > 0 {
                k.sync();
            }
            k.copy(&epilogue.put, &sums.slice((.., part, ..)), &epilogue.put_to);
            k.sync();
            let held = k.fragment_like(&epilogue.read_from);
            k.copy(&epilogue.read, &epilogue.read_from, &held);
            all.push(held);
        }
        let own = |matrix: &Tensor| {
            let at = (&m * parts + part, &n);
            let tile = matrix.local_tile((epilogue.rows, epilogue.columns), at);
            epilogue.store.at(&thread).partition_dst(&tile) // (CPY, CPY_M, CPY_N)
        };
        let to = own(c);
        let old = if plan.operands.beta {
            let old = k.fragment_like(&to);
            k.copy_in_bounds(&epilogue.store, &to, &old);
            Some(old)
        } else {
            None
        };
        let out = terms.finish(k, (&all, old.as_ref(), &EarlyTerms::default()), &own);
        k.copy_in_bounds(&epilogue.store, &out, &to);
    }
    Ok(())
}
