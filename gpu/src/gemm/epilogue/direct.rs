//! The direct epilogue: each thread stores its own accumulators, also where C has no whole vectors.

use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::terms::{EarlyTerms, Terms};
use crate::gemm::plan::GemmPlan;
use colex_tensor::{AtThread, Builder, Error, Fragment, Index, Tensor};

/// The most elements that a thread stores at once.
const PART: i64 = 32;

/// The most elements that a thread with as many accumulators has in its registers for what it stores at once, and for what it reads of C: the
/// accumulators leave room for no more.
const MANY: i64 = 64;
const OF_MANY: i64 = 16;

/// The most elements of a thread for which it loads what the epilogue reads before it multiplies: the registers of all tensors hold few then.
pub(crate) const MOST_EARLY: i64 = 8;

/// The number of elements that a thread stores at once: whole modes of its accumulators, and the part of the next mode
/// that fits.
fn part(acc: &Fragment, reads_c: bool) -> i64 {
    let most = match (acc.layout().size(), reads_c) {
        (..MANY, _) | (MANY, false) => PART,
        (_, false) | (MANY, true) => OF_MANY,
        (_, true) => OF_MANY / 2,
    };
    let mut part = 1;
    for leaf in acc.layout().leaves() {
        let extent = leaf.extent.value();
        let fitting = (1..=extent.min(most / part))
            .rev()
            .find(|n| extent % n == 0);
        part *= fitting.unwrap_or(1);
        if fitting != Some(extent) {
            break;
        }
    }
    part
}

/// The tiled copy between a thread's accumulators and its elements of C.
pub(crate) struct Direct {
    copy: TiledCopy,
    mma: TiledMma,
}

impl Direct {
    pub(crate) fn new(plan: &GemmPlan, mma: &TiledMma) -> Result<Direct, Error> {
        let bits = i64::from(plan.operands.c.bits());
        // A thread has two neighbours along N; two bytes fill no register.
        let pair = plan.operands.major(Operand::C) == crate::kernels::Major::Second
            && plan.operands.vector(Operand::C) > 1
            && bits > 8;
        let width = if pair { 2 * bits } else { bits };
        let atom = colex_atom::copy(&format!("UniversalCopy<uint{width}_t>"))?;
        let copy = TiledCopy::for_accumulator_atom(atom, bits, mma)?;
        let mma = mma.clone();
        Ok(Direct { copy, mma })
    }

    /// Stores elements of C, those that lie in it.
    pub(crate) fn store_elements(&self, k: &mut Builder, out: &Fragment, to: &Tensor) {
        k.copy_in_bounds(&self.copy, out, to);
    }

    /// A thread's elements of a matrix in tile `at`, in the order of the accumulators for both orders of C: (MMA, MMA_M, MMA_N).
    fn own(&self, plan: &GemmPlan, matrix: &Tensor, at: &[Index; 2], thread: &Index) -> Tensor {
        let tile = matrix.local_tile((plan.tile[0], plan.tile[1]), at);
        self.mma.at(thread).partition(&tile, Operand::C)
    }

    /// Loads a thread's elements of what the epilogue reads in tile `at`, if they are few. Otherwise [`store`](Self::store) loads them, part by part.
    pub(crate) fn load_early(
        &self,
        k: &mut Builder,
        plan: &GemmPlan,
        (c, at): (&Tensor, &[Index; 2]),
        thread: &Index,
        terms: &Terms,
    ) -> EarlyTerms {
        let elements = self.own(plan, c, at, thread).layout().size();
        if elements > MOST_EARLY {
            return EarlyTerms::default();
        }
        let in_one = Layout::new((elements, 1), (1, elements));
        let in_one = in_one.expect("positive extents make a layout");
        let part = |matrix: &Tensor| self.own(plan, matrix, at, thread).compose(&in_one);
        terms.load_all(k, &|matrix| part(matrix).at(1, 0))
    }

    /// Stores what the epilogue makes of tile `at`'s accumulators, those of each right factor: each thread its own elements. `early` is what
    /// the thread has loaded for all of them.
    pub(crate) fn store(
        &self,
        k: &mut Builder,
        plan: &GemmPlan,
        acc: &[Fragment],
        (c, at): (&Tensor, &[Index; 2]),
        thread: &Index,
        (terms, early): (&Terms, &EarlyTerms),
    ) {
        // A few elements at a time, so that the old and the new elements of C are live only briefly.
        let all = &acc[0];
        let part = part(all, plan.operands.beta);
        let parts = all.layout().size() / part;
        let by_part = Layout::new((part, parts), (1, part));
        let by_part = by_part.expect("positive extents make a layout");
        let whole = |matrix: &Tensor| {
            self.own(plan, matrix, at, thread).compose(&by_part) // (values of a part, parts)
        };
        let to = whole(c);
        for i in 0..parts {
            let sums = acc.iter().map(|acc| acc.gathered(part * i, part));
            let sums: Vec<Fragment> = sums.collect();
            let to = to.at(1, i);
            let old = plan.operands.beta.then(|| {
                let old = k.fragment(plan.operands.c, sums[0].layout());
                k.copy_in_bounds(&self.copy, &to, &old);
                old
            });
            let part = |matrix: &Tensor| whole(matrix).at(1, i);
            let out = terms.finish(k, (&sums, old.as_ref(), early), &part);
            k.copy_in_bounds(&self.copy, &out, &to);
        }
    }
}
