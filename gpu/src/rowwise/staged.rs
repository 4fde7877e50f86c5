//! Rows that are staged in shared memory: a block copies whole rows there by vectors, and each thread takes single elements of a row.
//!
//! A block may have one tile of rows after the other. Its threads have the same columns of all of them, so the weight and the bias of these
//! stay in registers. A thread brings vectors to places of shared memory from which it alone stores results, so the next tile is brought
//! without a barrier behind the stores.

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
    /// The first vector, the first element behind the last whole one, and the end of the span.
    begin: Index,
    rest: Index,
    end: Index,
    /// Whether there are elements behind the last whole vector, which is so in the last tile of the tensors alone.
    has_rest: Cond,
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

    /// The elements behind the last whole vector, in a tensor and in shared memory, of the thread that would have the whole vector.
    fn rests(
        &self,
        k: &mut Builder,
        row: &RowKernel<'_>,
        [of, shared]: [&Tensor; 2],
    ) -> Vec<[Elements; 2]> {
        let vectors = row.plan.span() / self.vector;
        let number = k.within(&self.rest / self.vector - &self.begin, 0..vectors + 1);
        let is_own = k.equal(&row.thread, &(&number % row.plan.threads_of_block()));
        let one = |i: i64| {
            let at = &self.rest + i;
            let exists = k.less(&at, &self.end);
            let exists = k.both(is_own, exists);
            let place = &number * self.vector + i;
            [of.elements(at), shared.elements(place)]
                .map(|at| at.outside(Outside::Stated).only(Mask::from(exists)))
        };
        (0..self.vector - 1).map(one).collect()
    }

    /// Loads the vectors of the span of tensors, with zeros behind it.
    fn load(&self, k: &mut Builder, tensors: &[(&Tensor, &Tensor)]) -> Vec<Fragment> {
        let mut loaded = Vec::new();
        for (from, _) in tensors {
            for vector in &self.vectors {
                loaded.push(k.gather(&self.of_tensor(from, vector)));
            }
        }
        loaded
    }

    /// Copies the span of tensors to shared memory, of which the vectors are loaded.
    fn bring(
        &self,
        k: &mut Builder,
        row: &RowKernel<'_>,
        tensors: &[(&Tensor, &Tensor)],
        loaded: &[Fragment],
    ) {
        let all = tensors
            .iter()
            .flat_map(|(_, to)| self.vectors.iter().map(move |vector| (to, vector)));
        for ((to, vector), loaded) in all.zip(loaded) {
            k.scatter(loaded, &self.of_shared(to, vector));
        }
        k.if_(self.has_rest, |k| {
            for (from, to) in tensors {
                for [from, to] in self.rests(k, row, [from, to]) {
                    let one = k.gather(&from);
                    k.scatter(&one, &to);
                }
            }
        });
    }

    /// Copies the span from shared memory to a tensor.
    fn store(&self, k: &mut Builder, row: &RowKernel<'_>, from: &Tensor, to: &Tensor) {
        for vector in &self.vectors {
            let own = k.gather(&self.of_shared(from, vector));
            k.scatter(&own, &self.of_tensor(to, vector));
        }
        k.if_(self.has_rest, |k| {
            for [to, from] in self.rests(k, row, [to, from]) {
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
        self.gathered_by(k, |i| self.at(of, first, i))
    }

    /// The same of a tensor of columns. The kernel compares the last one with the extent itself.
    fn gathered_columns(&self, k: &mut Builder, of: &Tensor, first: &Index) -> Fragment {
        self.gathered_by(k, |i| match self.has_last {
            Some(_) if i + 1 == self.count => of.elements(first + i * self.threads),
            _ => self.at(of, first, i),
        })
    }

    fn gathered_by(&self, k: &mut Builder, at: impl Fn(i64) -> Elements) -> Fragment {
        let wide = k.fragment(Ty::F32, line(self.count));
        for i in 0..self.count {
            let one = k.gather(&at(i)).with_layout(line(1));
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
            span.bring(k, self, &inputs, loaded);
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
                    span.bring(k, self, &inputs, &loaded);
                    k.sync();
                }
                Some(held) => {
                    span.bring(k, self, &inputs, held);
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
            span.store(k, self, from, to);
        }
    }

    /// The span of a tile of rows, from a vector on. It begins with a vector, since a block has at least as many rows as a vector has elements.
    fn span(&self, k: &mut Builder, columns: &Index, begin: &Index) -> RowSpan {
        let RowwisePlan { rows, vector, .. } = *self.plan;
        let of_block = self.plan.threads_of_block();
        let x = self.tensor(RowTensor::X).expect("it is there");
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let end = (begin * vector + columns * rows).min(&all);
        let stop = &end / vector;
        let vectors = (0..self.plan.staged_vectors())
            .map(|i| {
                let own = &self.thread + i * of_block;
                let number = begin + &own;
                SpanVector {
                    is_inside: k.less(&number, &stop),
                    number,
                    place: own * vector,
                }
            })
            .collect();
        let rest = &stop * vector;
        RowSpan {
            vector,
            vectors,
            begin: begin.clone(),
            has_rest: k.less(&rest, &end),
            rest,
            end,
        }
    }
}
