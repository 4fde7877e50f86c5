//! Rows that are staged in shared memory: a block copies whole rows there by vectors, each thread takes single elements of a row, and the
//! numbers go back by vectors too.

use colex_ir::BinaryOp::Max;
use colex_layout::Layout;
use colex_tensor::{Builder, Expr, Index};

use super::kernel::QuantiseKernel;
use super::plan::QuantisePlan;
use super::problem::MOST_RUN;
use crate::memory_bound::span::{RowElements, RowSpan};

impl QuantiseKernel<'_> {
    /// Copies the rows of a block to shared memory, finds their largest sizes there, and copies the numbers from there.
    pub(super) fn of_staged(&self, k: &mut Builder) {
        let QuantisePlan {
            threads,
            rows,
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let span = Layout::leaf(self.plan.span(), 1);
        let span = span.and_then(|span| Layout::concat(&[span]));
        let span = span.expect("a line of elements");
        let [x, q] = [operands.from, operands.to].map(|ty| k.shared_tensor(ty, &span));
        // Where an access is inside of x, it is inside of q.
        k.same_extents(&self.x, &self.q);
        let columns = self.columns.clone().expect("the kernel has the argument");
        let columns = k.within(columns, 1..threads * accesses + 1);
        let begin = &self.at[0] * (rows / vector) * &columns;
        let begin = k.within(begin, 0..MOST_RUN / vector + 1);
        let all = k.within(self.x.extent(0), 1..MOST_RUN + 1);
        let end = (&begin * vector + &columns * rows).min(&all);
        let of = [
            vector,
            self.plan.staged_vectors(),
            self.plan.threads_of_block(),
        ];
        let span = RowSpan::of(k, &self.thread, of, [&begin, &end]);
        let from = [(&self.x, &x)];
        let loaded = span.load(k, &from);
        span.bring(k, &from, &loaded);
        k.sync();
        let lane = &self.thread % threads;
        let has_last = (threads > 1).then(|| k.less(&(&lane + (accesses - 1) * threads), &columns));
        let own = RowElements {
            threads,
            count: accesses,
            has_last,
        };
        let first: Index = &self.thread / threads * &columns + &lane;
        let numbers = own.gathered(k, &x, &first);
        let most = k.reduce_all(Max, Expr::from(&numbers).abs());
        // Of NaN alone it is 0, as where a maximum begins with 0.
        let most = k.map(Expr::from(&most).max(0.0));
        let inverse = self.scale(k, &most);
        for i in 0..accesses {
            let number = self.quantised(&numbers.values(i, 1), &inverse);
            k.scatter(number, &own.at(&q, &first, i));
        }
        k.sync();
        span.store(k, &q, &self.q);
    }
}
