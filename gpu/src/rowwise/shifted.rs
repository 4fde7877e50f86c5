//! Rows that begin anywhere: threads take the vectors inside of a row at multiples of their width in memory, and single elements at both ends.
//!
//! A block may have one row after the other. They are as many rows apart as the launch has blocks, a multiple of the vector, and rows lie one
//! after the other without gaps. So all rows of a block begin equally far behind a multiple of the vector, whatever their number of columns,
//! and a thread has the same columns of each of them: the weight and the bias of these stay in its registers.

use colex_atom::Ty;
use colex_ir::BinaryOp::Add;
use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Elements, Expr, Fragment, Index, Mask, Outside, Tensor};

use super::kernel::{RowKernel, changed, renew};
use super::plan::{MOST_SHIFTED, RowwisePlan};
use super::problem::RowTensor;

/// Which columns of its rows a thread has: vectors, and one element before the first vector of a row or behind the last one.
struct ShiftedColumns {
    /// The column of the first vector inside of a row.
    lead: Index,
    /// Whether each vector is inside of a row.
    vectors: Vec<Cond>,
    /// The column of the element, and whether there is one.
    edge: Index,
    has_edge: Cond,
}

/// What a thread has of a row: vectors, and an element.
struct ShiftedPart {
    vectors: Vec<Fragment>,
    edge: Fragment,
}

impl ShiftedPart {
    /// Takes the numbers of another part. The registers stay.
    fn take(&self, k: &mut Builder, other: &ShiftedPart) {
        let all = |part: &ShiftedPart| -> Vec<_> {
            let fragments = part.vectors.iter().chain([&part.edge]);
            fragments.flat_map(Fragment::regs).copied().collect()
        };
        let [to, from] = [self, other].map(all);
        k.emit(|ir| {
            for (to, from) in to.into_iter().zip(from) {
                ir.mov_to(to, from);
            }
        });
    }
}

fn line(count: i64) -> Layout {
    let line = Layout::column_major(count).expect("a vector");
    line.to_static()
}

impl RowKernel<'_> {
    /// Rows without regard for where they begin: one of each block, or one after the other.
    pub(super) fn of_shifted(&self, k: &mut Builder, ahead: i64, clusters: i64) {
        let columns = self.columns.clone().expect("the kernel has the argument");
        let x = self.tensor(RowTensor::X).expect("it is there");
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let first = k.within(&self.at[0] * &columns, 0..MOST_SHIFTED);
        let own = self.shifted_columns(k, &first, &(&first + &columns).min(&all));
        let mut row = self.clone();
        if self.plan.meets_once {
            row.of_warp = Some(self.columns_of_shifted_warp(k, &own));
        }
        let always = Cond::Known(true);
        if clusters == 0 {
            let inputs = row.shifted_inputs(k, &own, &first, always);
            let weights = row.shifted_weights(k, &own);
            let x = row.shifted_x(k, &own, &first, &inputs);
            return row.shifted_results(k, &own, &first, x, &weights);
        }
        // A launch has no more blocks than rows.
        let step = k.grid_extent(0) * &columns;
        let step = k.within(step, 1..MOST_SHIFTED + 1);
        let held = (ahead > 0).then(|| row.shifted_inputs(k, &own, &first, always));
        let weights = row.shifted_weights(k, &own);
        let turn = self.plan.meets_once.then(|| k.var(0, 0..2));
        k.for_(&first, &all, &step, |k, first| {
            let mut row = row.clone();
            if let Some(turn) = &turn {
                row.turn = k.get(turn);
            }
            let x = match &held {
                None => {
                    let inputs = row.shifted_inputs(k, &own, first, always);
                    row.shifted_x(k, &own, first, &inputs)
                }
                Some(held) => {
                    let x = row.shifted_x(k, &own, first, held);
                    let next = first + &step;
                    let exists = k.less(&next, &all);
                    let loaded = row.shifted_inputs(k, &own, &next.min(&all), exists);
                    for (held, loaded) in held.iter().zip(&loaded) {
                        held.take(k, loaded);
                    }
                    x
                }
            };
            let of_columns = weights.iter().flatten();
            renew(k, self.plan.operands.ty, of_columns);
            row.shifted_results(k, &own, first, x, &weights);
            if let Some(turn) = &turn {
                k.set(turn, (&row.turn + 1) % 2);
            }
        });
    }

    /// The columns of a thread, from those of a row that begins at `first` and ends at `end`.
    fn shifted_columns(&self, k: &mut Builder, first: &Index, end: &Index) -> ShiftedColumns {
        let RowwisePlan {
            threads,
            vector,
            accesses,
            ..
        } = *self.plan;
        // Vectors from `begin` to `stop` are inside, and elements up to `head` and from `tail` on are not in them.
        let begin = (first + (vector - 1)) / vector;
        let stop = end / vector;
        let head = (&begin * vector).min(end);
        let tail = Index::select_less(&(&stop * vector), &head, &head, &(&stop * vector));
        let vectors = (0..accesses)
            .map(|access| k.less(&(&begin + access * threads + &self.thread), &stop))
            .collect();
        let side = &self.thread / vector;
        let lane = &self.thread % vector;
        let one = [first + &lane, &tail + &lane];
        let one = Index::select_less(&side, &1.into(), &one[0], &one[1]);
        let bound = Index::select_less(&side, &1.into(), &head, end);
        let (is_edge, is_one) = (k.less(&side, &2.into()), k.less(&one, &bound));
        ShiftedColumns {
            lead: k.within(&begin * vector - first, 0..vector),
            vectors,
            edge: k.within(one - first, 0..MOST_SHIFTED + vector),
            has_edge: k.both(is_edge, is_one),
        }
    }
    /// The vector of an access to a tensor's row that begins at `first`.
    fn shifted_vector(
        &self,
        of: &Tensor,
        own: &ShiftedColumns,
        first: &Index,
        access: i64,
        exists: Cond,
    ) -> Elements {
        let RowwisePlan {
            threads, vector, ..
        } = *self.plan;
        let number = (first + (vector - 1)) / vector + access * threads + &self.thread;
        let at = of.elements(number * vector).vectors(0, vector);
        let at = at.only(Mask::from(own.vectors[access as usize]));
        with(at.outside(Outside::Stated), exists)
    }

    /// The single element of a thread of the same row.
    fn shifted_edge(of: &Tensor, own: &ShiftedColumns, first: &Index, exists: Cond) -> Elements {
        let at = of.elements(first + &own.edge).outside(Outside::Stated);
        with(at.only(Mask::from(own.has_edge)), exists)
    }

    /// Loads a thread's elements of a row of each input, if the row exists.
    fn shifted_inputs(
        &self,
        k: &mut Builder,
        own: &ShiftedColumns,
        first: &Index,
        exists: Cond,
    ) -> Vec<ShiftedPart> {
        let inputs = [RowTensor::X, RowTensor::Residual].map(|of| self.tensor(of));
        let of = |of: &Tensor| ShiftedPart {
            vectors: (0..self.plan.accesses)
                .map(|access| k.gather(&self.shifted_vector(of, own, first, access, exists)))
                .collect(),
            edge: k.gather(&Self::shifted_edge(of, own, first, exists)),
        };
        inputs.into_iter().flatten().map(of).collect()
    }

    /// A thread's elements of a row in `f32`; with a residual, of the rounded sum, which is stored.
    fn shifted_x(
        &self,
        k: &mut Builder,
        own: &ShiftedColumns,
        first: &Index,
        inputs: &[ShiftedPart],
    ) -> Fragment {
        let RowwisePlan {
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let count = accesses * vector;
        let wide = k.fragment(Ty::F32, line(count + 1));
        let to = self.tensor(RowTensor::Sum);
        let always = Cond::Known(true);
        let piece = |k: &mut Builder, at: [i64; 2], of: [Option<&Fragment>; 2], to| {
            let [x, residual] = of;
            let mut x = x.expect("there is an input").clone();
            if let Some(residual) = residual {
                let sum = Expr::from(&x).to(Ty::F32) + Expr::from(residual).to(Ty::F32);
                x = k.map(sum.to(operands.ty));
                if let Some(to) = to {
                    k.scatter(&x, &to);
                }
            }
            let from = x.with_layout(line(at[1]));
            k.assign(&wide.values(at[0], at[1]), Expr::from(&from).to(Ty::F32));
        };
        for access in 0..accesses {
            let of = [inputs.first(), inputs.get(1)];
            let of = of.map(|part| part.map(|part| &part.vectors[access as usize]));
            let to = to.map(|to| self.shifted_vector(to, own, first, access, always));
            piece(k, [access * vector, vector], of, to);
        }
        let of = [inputs.first(), inputs.get(1)].map(|part| part.map(|part| &part.edge));
        let to = to.map(|to| Self::shifted_edge(to, own, first, always));
        piece(k, [count, 1], of, to);
        wide
    }

    /// The weight and the bias of a thread's columns, in the type of the tensors. They begin elsewhere than rows do, so each is loaded by an
    /// access of its own.
    fn shifted_weights(&self, k: &mut Builder, own: &ShiftedColumns) -> [Option<Fragment>; 2] {
        let RowwisePlan {
            threads,
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let count = accesses * vector;
        [RowTensor::Weight, RowTensor::Bias].map(|of| {
            let of = self.tensor(of)?;
            let column = |i: i64| {
                let (access, at) = (i / vector, i % vector);
                let number = &self.thread + access * threads;
                (
                    &own.lead + number * vector + at,
                    own.vectors[access as usize],
                )
            };
            let edge = (own.edge.clone(), own.has_edge);
            // All loads are under way before the first number is put into its place.
            let loaded: Vec<Fragment> = (0..count)
                .map(column)
                .chain([edge])
                .map(|(column, is_one)| {
                    let at = of.elements(column).outside(Outside::Stated);
                    k.gather(&at.only(Mask::from(is_one)))
                })
                .collect();
            let all = k.fragment(operands.ty, line(count + 1));
            // Numbers of 16 bits are put into halves of registers.
            k.fill(&all, 0.0);
            for (i, one) in (0..).zip(&loaded) {
                k.assign(&all.values(i, 1), &one.with_layout(line(1)));
            }
            Some(all)
        })
    }

    /// The columns of a row that the thread's warp has, the same of each row.
    fn columns_of_shifted_warp(&self, k: &mut Builder, own: &ShiftedColumns) -> Fragment {
        let RowwisePlan {
            vector, accesses, ..
        } = *self.plan;
        let each = k.fragment(Ty::F32, line(accesses + 1));
        k.fill(&each, vector as f64);
        k.fill(&each.values(accesses, 1), 1.0);
        let mut tests = own.vectors.clone();
        tests.push(own.has_edge);
        k.mask(&each, 0.0, |_, i| tests[i as usize]);
        let count = k.reduce_all(Add, &each);
        k.reduce_warp(Add, &count)
    }

    /// Computes the results of a row that begins at `first`, and stores them.
    fn shifted_results(
        &self,
        k: &mut Builder,
        own: &ShiftedColumns,
        first: &Index,
        x: Fragment,
        weights: &[Option<Fragment>; 2],
    ) {
        let RowwisePlan {
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let count = accesses * vector;
        let results = self.results(k, x.clone(), &|k, x, other| {
            k.mask(x, other, |_, i| {
                match own.vectors.get((i / vector) as usize) {
                    Some(test) => *test,
                    None => own.has_edge,
                }
            });
        });
        let of_columns = weights.each_ref().map(|of| {
            let of = of.as_ref()?;
            Some(Expr::from(of).to(Ty::F32))
        });
        k.assign(&x, changed(results, of_columns));
        let always = Cond::Known(true);
        let y = self.tensor(RowTensor::Y).expect("it is there");
        let vector_line = Layout::column_major((vector, 1))
            .expect("a vector")
            .to_static();
        for access in 0..accesses {
            let of = x.values(access * vector, vector);
            let of = k.map(Expr::from(&of).to(operands.ty));
            let to = self.shifted_vector(y, own, first, access, always);
            k.scatter(of.with_layout(&vector_line), &to);
        }
        let edge = Expr::from(&x.values(count, 1)).to(operands.ty);
        k.scatter(edge, &Self::shifted_edge(y, own, first, always));
    }
}

/// The same elements, if a row exists.
fn with(at: Elements, exists: Cond) -> Elements {
    match exists {
        Cond::Known(true) => at,
        _ => at.only(Mask::from(exists)),
    }
}
