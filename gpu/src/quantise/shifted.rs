//! Rows that begin anywhere: threads take the vectors inside of a row at multiples of their width in memory, and single elements at both ends.
//!
//! Rows of x and of q lie one after the other without gaps, and both tensors begin with a vector. So an element of x and its number in q are
//! equally far behind a multiple of the vector, and one shift serves both.

use colex_tensor::{Builder, Cond, Elements, Fragment, Index, Mask, Outside, Tensor};

use super::kernel::{QuantiseKernel, of_access};
use super::plan::QuantisePlan;
use super::problem::MOST_RUN;

/// What a thread has of a row, in the span of all rows: vectors, and one element before the first vector of the row or behind the last one.
pub(super) struct ShiftedNumbers {
    /// The first vector inside of the row, and the one behind the last.
    begin: Index,
    stop: Index,
    /// The element, and whether there is one.
    edge: Index,
    has_edge: Cond,
}

impl QuantiseKernel<'_> {
    /// What a thread has of its row. A row behind the last one has no elements.
    pub(super) fn shifted_row(&self, k: &mut Builder) -> ShiftedNumbers {
        let QuantisePlan {
            threads,
            rows,
            vector,
            ..
        } = *self.plan;
        let columns = self.columns.clone().expect("the kernel has the argument");
        // Where an access is inside of x, it is inside of q.
        k.same_extents(&self.x, &self.q);
        let all = k.within(self.x.extent(0), 1..MOST_RUN + 1);
        let [tile, rank] = &self.at;
        let first = match rows {
            1 => k.within(tile * &columns, 0..MOST_RUN),
            // A block may have rows behind the last one.
            _ => ((tile * rows + &self.thread / threads) * &columns).min(&all),
        };
        let end = (&first + &columns).min(&all);
        // Vectors from `begin` to `stop` are inside, and elements up to `head` and from `tail` on are not in them.
        let begin = (&first + (vector - 1)) / vector;
        let stop = &end / vector;
        let head = (&begin * vector).min(&end);
        let tail = Index::select_less(&(&stop * vector), &head, &head, &(&stop * vector));
        let lane = &self.thread % threads;
        // Of the blocks of a cluster, the first one has both ends.
        let (side, place) = (&lane / vector + rank * 2, &lane % vector);
        let one = [&first + &place, &tail + &place];
        let one = Index::select_less(&side, &1.into(), &one[0], &one[1]);
        let bound = Index::select_less(&side, &1.into(), &head, &end);
        let (is_side, is_one) = (k.less(&side, &2.into()), k.less(&one, &bound));
        let has_edge = k.both(is_side, is_one);
        ShiftedNumbers {
            begin,
            stop,
            edge: one,
            has_edge,
        }
    }

    /// A vector of a turn of a row.
    pub(super) fn shifted_vector(
        &self,
        k: &mut Builder,
        of: &Tensor,
        row: &ShiftedNumbers,
        [turn, access]: [&Index; 2],
    ) -> Elements {
        let QuantisePlan {
            threads,
            vector,
            accesses,
            blocks,
            ..
        } = *self.plan;
        let of_block = (turn * blocks + &self.at[1]) * accesses + access;
        let number = &row.begin + of_block * threads + &self.thread % threads;
        let is_inside = k.less(&number, &row.stop);
        let at = of.elements(number * vector).vectors(0, vector);
        at.outside(Outside::Stated).only(Mask::from(is_inside))
    }

    /// Stores the quantised numbers of a vector.
    pub(super) fn store_shifted(
        &self,
        k: &mut Builder,
        row: &ShiftedNumbers,
        x: &Fragment,
        inverse: &Fragment,
        at: [&Index; 2],
    ) {
        let to = self.shifted_vector(k, &self.q, row, at);
        let x = x.with_layout(of_access(self.plan.vector));
        let numbers = k.fragment(self.plan.operands.to, of_access(self.plan.vector));
        k.assign(&numbers, self.quantised(&x, inverse));
        k.scatter(&numbers, &to);
    }

    /// The single element of a row; 0 if the thread has none.
    pub(super) fn shifted_edge(&self, k: &mut Builder, row: &ShiftedNumbers) -> Fragment {
        let at = self.x.elements(&row.edge);
        k.gather(&at.only(Mask::from(row.has_edge)))
    }

    /// Stores the number of the single element.
    pub(super) fn store_shifted_edge(
        &self,
        k: &mut Builder,
        row: &ShiftedNumbers,
        x: &Fragment,
        inverse: &Fragment,
    ) {
        let to = self.q.elements(&row.edge);
        let numbers = self.quantised(x, inverse);
        k.scatter(numbers, &to.only(Mask::from(row.has_edge)));
    }
}
