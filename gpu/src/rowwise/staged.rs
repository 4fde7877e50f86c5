//! Rows that are staged in shared memory: a block copies whole rows there by vectors, and each thread takes single elements of a row.

use colex_atom::Ty;
use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Elements, Expr, Fragment, Index, Mask, Outside, Tensor};

use super::kernel::{RowKernel, changed};
use super::plan::{MOST_SHIFTED, RowwisePlan};
use super::problem::RowTensor;

/// The rows of a block, as one span of elements.
struct RowSpan {
    vector: i64,
    vectors: Vec<SpanVector>,
    /// Whether the thread has the elements behind the last whole vector of the tensors.
    has_rest: Cond,
    /// The first of these elements in the tensors and in shared memory, and the end of the span.
    rest: Index,
    rest_place: Index,
    end: Index,
}

/// A vector of a thread.
struct SpanVector {
    /// Its number in the tensors, and whether all of it is in the span.
    number: Index,
    is_inside: Cond,
    /// Its first element in shared memory.
    place: Index,
}

impl RowSpan {
    fn of_tensor(&self, of: &Tensor, vector: &SpanVector) -> Elements {
        let at = of.elements(&vector.number * self.vector);
        let at = at.vectors(0, self.vector).outside(Outside::Stated);
        at.only(Mask::from(vector.is_inside))
    }

    fn of_shared(&self, of: &Tensor, vector: &SpanVector) -> Elements {
        let at = of.elements(&vector.place).vectors(0, self.vector);
        at.outside(Outside::Stated)
    }

    /// The elements behind the last whole vector, in a tensor and in shared memory.
    fn rests(&self, k: &mut Builder, of: &Tensor, shared: &Tensor) -> Vec<[Elements; 2]> {
        let one = |i: i64| {
            let at = &self.rest + i;
            let exists = k.less(&at, &self.end);
            let place = &self.rest_place + i;
            [of.elements(at), shared.elements(place)]
                .map(|at| at.outside(Outside::Stated).only(Mask::from(exists)))
        };
        (0..self.vector - 1).map(one).collect()
    }

    /// Copies the span of tensors to shared memory, with zeros behind it.
    fn bring(&self, k: &mut Builder, tensors: &[(&Tensor, &Tensor)]) {
        let loaded: Vec<Vec<Fragment>> = tensors
            .iter()
            .map(|(from, _)| {
                let all = self.vectors.iter();
                all.map(|vector| k.gather(&self.of_tensor(from, vector)))
                    .collect()
            })
            .collect();
        for ((_, to), loaded) in tensors.iter().zip(&loaded) {
            for (vector, loaded) in self.vectors.iter().zip(loaded) {
                k.scatter(loaded, &self.of_shared(to, vector));
            }
        }
        k.if_(self.has_rest, |k| {
            for (from, to) in tensors {
                for [from, to] in self.rests(k, from, to) {
                    let one = k.gather(&from);
                    k.scatter(&one, &to);
                }
            }
        });
    }

    /// Copies the span from shared memory to a tensor.
    fn store(&self, k: &mut Builder, from: &Tensor, to: &Tensor) {
        for vector in &self.vectors {
            let own = k.gather(&self.of_shared(from, vector));
            k.scatter(&own, &self.of_tensor(to, vector));
        }
        k.if_(self.has_rest, |k| {
            for [to, from] in self.rests(k, to, from) {
                let one = k.gather(&from);
                k.scatter(&one, &to);
            }
        });
    }
}

/// A thread's elements of a row: its first one, and then every one that is as many threads further.
struct RowElements {
    threads: i64,
    count: i64,
    /// Whether the last one is in the row. All others are.
    has_last: Option<Cond>,
}

impl RowElements {
    /// Element `i` of a tensor with one mode, in which the first one is at `first`.
    fn at(&self, of: &Tensor, first: &Index, i: i64) -> Elements {
        let at = of.elements(first + i * self.threads);
        let at = at.outside(Outside::Stated);
        match self.has_last {
            Some(test) if i + 1 == self.count => at.only(Mask::from(test)),
            _ => at,
        }
    }

    /// All of them, in `f32`; 0 where the last one is not in the row.
    fn gathered(&self, k: &mut Builder, of: &Tensor, first: &Index) -> Fragment {
        let wide = k.fragment(Ty::F32, line(self.count));
        for i in 0..self.count {
            let one = k.gather(&self.at(of, first, i)).with_layout(line(1));
            k.assign(&wide.values(i, 1), Expr::from(&one).to(Ty::F32));
        }
        wide
    }

    /// Stores numbers of `f32` in their places, rounded.
    fn scattered(&self, k: &mut Builder, numbers: &Fragment, of: &Tensor, first: &Index) {
        for i in 0..self.count {
            let one = Expr::from(&numbers.values(i, 1)).to(of.ty());
            k.scatter(one, &self.at(of, first, i));
        }
    }
}

fn line(count: i64) -> Layout {
    let line = Layout::column_major(count).expect("a vector");
    line.to_static()
}

impl RowKernel<'_> {
    /// Copies the rows of a block to shared memory, computes them there, and copies the results from there. The results replace the
    /// elements of `x`, and the sum with a residual replaces those of the residual: each thread reads and writes its own ones alone.
    pub(super) fn of_staged(&self, k: &mut Builder) {
        let RowwisePlan {
            threads,
            accesses,
            operands,
            ..
        } = *self.plan;
        let columns = self.columns.clone().expect("the kernel has the argument");
        let columns = k.within(columns, 1..threads * accesses + 1);
        let span = self.span(k, &columns);
        let inputs = [RowTensor::X, RowTensor::Residual].map(|of| self.tensor(of));
        let inputs: Vec<_> = inputs.into_iter().flatten().zip(&self.staged).collect();
        span.bring(k, &inputs);
        k.sync();
        let lane = &self.thread % threads;
        let has_last = (threads > 1).then(|| k.less(&(&lane + (accesses - 1) * threads), &columns));
        let own = RowElements {
            threads,
            count: accesses,
            has_last,
        };
        let first = &self.thread / threads * &columns + &lane;
        let x = own.gathered(k, &self.staged[0], &first);
        if let Some(residual) = self.staged.get(1) {
            let added = own.gathered(k, residual, &first);
            let sum = k.map((&x + &added).to(operands.ty));
            k.assign(&x, Expr::from(&sum).to(Ty::F32));
            own.scattered(k, &x, residual, &first);
        }
        let results = self.results(k, x.clone(), &|k, x, other| {
            if let Some(test) = has_last {
                k.mask(&x.values(accesses - 1, 1), other, |_, _| test);
            }
        });
        let of_columns = [RowTensor::Weight, RowTensor::Bias].map(|of| {
            let of = self.tensor(of)?;
            Some(Expr::from(&own.gathered(k, of, &lane)))
        });
        k.assign(&x, changed(results, of_columns));
        own.scattered(k, &x, &self.staged[0], &first);
        k.sync();
        let outputs = [RowTensor::Y, RowTensor::Sum].map(|of| self.tensor(of));
        for (to, from) in outputs.into_iter().flatten().zip(&self.staged) {
            span.store(k, from, to);
        }
    }

    /// The span of the block's rows. It begins with a vector, since a block has at least as many rows as a vector has elements.
    fn span(&self, k: &mut Builder, columns: &Index) -> RowSpan {
        let RowwisePlan { rows, vector, .. } = *self.plan;
        let of_block = self.plan.threads_of_block();
        let x = self.tensor(RowTensor::X).expect("it is there");
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let begin = &self.at[0] * (rows / vector) * columns;
        let begin = k.within(begin, 0..MOST_SHIFTED / vector + 1);
        let end = (&begin * vector + columns * rows).min(&all);
        let stop = &end / vector;
        let vectors = (0..self.plan.staged_vectors())
            .map(|i| {
                let own = &self.thread + i * of_block;
                let number = &begin + &own;
                SpanVector {
                    is_inside: k.less(&number, &stop),
                    number,
                    place: own * vector,
                }
            })
            .collect();
        let rest = &stop * vector;
        let of_rest = k.within(&stop - &begin, 0..self.plan.span() / vector + 1);
        let is_own = k.equal(&self.thread, &(&of_rest % of_block));
        let exists = k.less(&rest, &end);
        RowSpan {
            vector,
            vectors,
            has_rest: k.both(is_own, exists),
            rest,
            rest_place: of_rest * vector,
            end,
        }
    }
}
