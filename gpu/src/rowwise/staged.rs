//! Rows that are staged in shared memory: a block copies whole rows there by vectors, and each thread takes single elements of a row.
//!
//! A block may have one tile of rows after the other. Its threads have the same columns of all of them, so the weight and the bias of these
//! stay in registers. A thread brings vectors to places of shared memory from which it alone stores results, so the next tile is brought
//! without a barrier behind the stores.

use colex_atom::Ty;
use colex_tensor::{Builder, Expr, Fragment, Index};

use super::kernel::{RowKernel, changed};
use super::plan::{MOST_SHIFTED, RowwisePlan};
use super::problem::RowTensor;
use crate::memory_bound::span::{RowElements, RowSpan};

impl RowKernel<'_> {
    /// Copies the rows of a block to shared memory, computes them there, and copies the results from there: one tile of rows, or one after the
    /// other. The results replace the elements of `x`, and the sum with a residual replaces those of the residual: each thread reads and writes
    /// its own ones alone.
    pub(super) fn of_staged(&self, k: &mut Builder, ahead: i64, clusters: i64) {
        let RowwisePlan {
            threads,
            rows,
            vector,
            accesses,
            ..
        } = *self.plan;
        self.same_extents(k);
        let columns = self.columns.clone().expect("the kernel has the argument");
        let columns = k.within(columns, 1..threads * accesses + 1);
        let begin = &self.at[0] * (rows / vector) * &columns;
        let begin = k.within(begin, 0..MOST_SHIFTED / vector + 1);
        let span = self.span(k, &columns, &begin);
        let inputs = [RowTensor::X, RowTensor::Residual].map(|of| self.tensor(of));
        let inputs: Vec<_> = inputs.into_iter().flatten().zip(&self.staged).collect();
        let lane = &self.thread % threads;
        let has_last = (threads > 1).then(|| k.less(&(&lane + (accesses - 1) * threads), &columns));
        let own = RowElements {
            threads,
            count: accesses,
            has_last,
        };
        let first = &self.thread / threads * &columns + &lane;
        let weights = |k: &mut Builder| {
            [RowTensor::Weight, RowTensor::Bias].map(|of| {
                let of = self.tensor(of)?;
                Some(own.gathered_columns(k, of, &lane))
            })
        };
        let loaded = (clusters == 0 || ahead > 0).then(|| span.load(k, &inputs));
        if let (0, Some(loaded)) = (clusters, &loaded) {
            span.bring(k, &inputs, loaded);
            k.sync();
            self.staged_results(k, &own, &first, &weights);
            k.sync();
            return self.store_span(k, &span);
        }
        let kept = weights(k);
        let x = self.tensor(RowTensor::X).expect("it is there");
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let all = (all + (vector - 1)) / vector;
        // A launch has no more blocks than tiles of rows, of which the last one may end behind the tensors.
        let step = k.grid_extent(0) * (rows / vector) * &columns;
        let step = k.within(step, 1..(MOST_SHIFTED + self.plan.span()) / vector + 1);
        k.for_(&begin, &all, &step, |k, begin| {
            let span = self.span(k, &columns, begin);
            match &loaded {
                None => {
                    let loaded = span.load(k, &inputs);
                    span.bring(k, &inputs, &loaded);
                    k.sync();
                }
                Some(held) => {
                    span.bring(k, &inputs, held);
                    k.sync();
                    // Behind the last tile, there is one without elements.
                    let next = self.span(k, &columns, &(begin + &step).min(&all));
                    let next = next.load(k, &inputs);
                    k.emit(|ir| {
                        let all = held.iter().zip(&next);
                        for (held, next) in all {
                            for (to, from) in held.regs().iter().zip(next.regs()) {
                                ir.mov_to(*to, *from);
                            }
                        }
                    });
                }
            }
            self.staged_results(k, &own, &first, &|_| kept.clone());
            k.sync();
            self.store_span(k, &span);
        });
    }

    /// Computes the rows that are in shared memory, and puts the results there.
    fn staged_results(
        &self,
        k: &mut Builder,
        own: &RowElements,
        first: &Index,
        weights: &dyn Fn(&mut Builder) -> [Option<Fragment>; 2],
    ) {
        let x = own.gathered(k, &self.staged[0], first);
        if let Some(residual) = self.staged.get(1) {
            let added = own.gathered(k, residual, first);
            let sum = k.map((&x + &added).to(self.plan.operands.ty));
            k.assign(&x, Expr::from(&sum).to(Ty::F32));
            own.scattered(k, &x, residual, first);
        }
        let results = self.results(k, x.clone(), &|k, x, other| {
            if let Some(test) = own.has_last {
                k.mask(&x.values(own.count - 1, 1), other, |_, _| test);
            }
        });
        let of_columns = weights(k).map(|of| Some(Expr::from(&of?)));
        k.assign(&x, changed(results, of_columns));
        own.scattered(k, &x, &self.staged[0], first);
    }

    /// Copies results from shared memory.
    fn store_span(&self, k: &mut Builder, span: &RowSpan) {
        let outputs = [RowTensor::Y, RowTensor::Sum].map(|of| self.tensor(of));
        for (to, from) in outputs.into_iter().flatten().zip(&self.staged) {
            span.store(k, from, to);
        }
    }

    /// The span of a tile of rows, from a vector on. It begins with a vector, since a block has at least as many rows as a vector has elements.
    fn span(&self, k: &mut Builder, columns: &Index, begin: &Index) -> RowSpan {
        let RowwisePlan { rows, vector, .. } = *self.plan;
        let x = self.tensor(RowTensor::X).expect("it is there");
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let end = (begin * vector + columns * rows).min(&all);
        let of = [
            vector,
            self.plan.staged_vectors(),
            self.plan.threads_of_block(),
        ];
        RowSpan::of(k, &self.thread, of, [begin, &end])
    }
}
