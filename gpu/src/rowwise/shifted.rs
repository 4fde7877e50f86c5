//! Rows that begin anywhere: threads take the vectors inside of a row at multiples of their width in memory, and single elements at both ends.
//!
//! A block may have one row after the other. They are as many rows apart as the launch has blocks, a multiple of the vector, and rows lie one
//! after the other without gaps. So all rows of a block begin equally far behind a multiple of the vector, regardless of their number of columns,
//! and a thread has the same columns of each of them: the weight and the bias of these stay in its registers.

use colex_atom::Ty;
use colex_ir::BinaryOp::Add;
use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Elements, Expr, Fragment, Index, Mask, Outside, Tensor};

use super::kernel::{RowKernel, changed};
use super::plan::{MOST_SHIFTED, RowwisePlan};
use super::problem::RowTensor;

/// What a thread has of a row, in the span of all rows: vectors, and one element before the first vector of the row or behind the last one.
struct ShiftedRow {
    /// The first element of the row.
    first: Index,
    /// The number of each vector, and whether it is inside of the row.
    vectors: Vec<(Index, Cond)>,
    /// The element, and whether there is one.
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
        self.same_extents(k);
        let all = k.within(x.extent(0), 1..MOST_SHIFTED + 1);
        let first = k.within(&self.at[0] * &columns, 0..MOST_SHIFTED);
        let row_at = |k: &mut Builder, first: &Index| {
            let end = (first + &columns).min(&all);
            self.shifted_row(k, first, &end)
        };
        let own = row_at(k, &first);
        let mut row = self.clone();
        if self.plan.meets_once {
            row.of_warp = Some(self.columns_of_shifted_warp(k, &own));
        }
        if clusters == 0 {
            let inputs = row.shifted_inputs(k, &own);
            let weights = row.shifted_weights(k, &own);
            let x = row.shifted_x(k, &own, &inputs);
            return row.shifted_results(k, &own, x, &weights);
        }
        // A launch has no more blocks than rows.
        let step = k.grid_extent(0) * &columns;
        let step = k.within(step, 1..MOST_SHIFTED + 1);
        let held = (ahead > 0).then(|| row.shifted_inputs(k, &own));
        let weights = row.shifted_weights(k, &own);
        let turn = self.plan.meets_once.then(|| k.var(0, 0..2));
        k.for_(&first, &all, &step, |k, first| {
            let mut row = row.clone();
            if let Some(turn) = &turn {
                row.turn = k.get(turn);
            }
            let own = row_at(k, first);
            let x = match &held {
                None => {
                    let inputs = row.shifted_inputs(k, &own);
                    row.shifted_x(k, &own, &inputs)
                }
                Some(held) => {
                    let x = row.shifted_x(k, &own, held);
                    // Behind the last row, there is one without elements.
                    let next = row_at(k, &(first + &step).min(&all));
                    let loaded = row.shifted_inputs(k, &next);
                    for (held, loaded) in held.iter().zip(&loaded) {
                        held.take(k, loaded);
                    }
                    x
                }
            };
            row.shifted_results(k, &own, x, &weights);
            if let Some(turn) = &turn {
                k.set(turn, (&row.turn + 1) % 2);
            }
        });
    }

    /// What a thread has of the row from `first` to `end`.
    fn shifted_row(&self, k: &mut Builder, first: &Index, end: &Index) -> ShiftedRow {
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
            .map(|access| {
                let number = &begin + access * threads + &self.thread;
                let is_inside = k.less(&number, &stop);
                (number, is_inside)
            })
            .collect();
        let side = &self.thread / vector;
        let lane = &self.thread % vector;
        let one = [first + &lane, &tail + &lane];
        let one = Index::select_less(&side, &1.into(), &one[0], &one[1]);
        let bound = Index::select_less(&side, &1.into(), &head, end);
        let (is_edge, is_one) = (k.less(&side, &2.into()), k.less(&one, &bound));
        ShiftedRow {
            first: first.clone(),
            vectors,
            edge: one,
            has_edge: k.both(is_edge, is_one),
        }
    }

    /// A vector of a row of a tensor.
    fn shifted_vector(&self, of: &Tensor, own: &ShiftedRow, access: i64) -> Elements {
        let (number, is_inside) = &own.vectors[access as usize];
        let vector = self.plan.vector;
        let at = of.elements(number * vector).vectors(0, vector);
        at.outside(Outside::Stated).only(Mask::from(*is_inside))
    }

    /// The single element of a row of a tensor.
    fn shifted_edge(of: &Tensor, own: &ShiftedRow) -> Elements {
        of.elements(&own.edge).only(Mask::from(own.has_edge))
    }

    /// Loads a thread's elements of a row of each input.
    fn shifted_inputs(&self, k: &mut Builder, own: &ShiftedRow) -> Vec<ShiftedPart> {
        let inputs = [RowTensor::X, RowTensor::Residual].map(|of| self.tensor(of));
        let of = |of: &Tensor| ShiftedPart {
            vectors: (0..self.plan.accesses)
                .map(|access| k.gather(&self.shifted_vector(of, own, access)))
                .collect(),
            edge: k.gather(&Self::shifted_edge(of, own)),
        };
        inputs.into_iter().flatten().map(of).collect()
    }

    /// A thread's elements of a row in `f32`; with a residual, of the rounded sum, which is stored.
    fn shifted_x(&self, k: &mut Builder, own: &ShiftedRow, inputs: &[ShiftedPart]) -> Fragment {
        let RowwisePlan {
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let count = accesses * vector;
        let wide = k.fragment(Ty::F32, line(count + 1));
        let to = self.tensor(RowTensor::Sum);
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
            let to = to.map(|to| self.shifted_vector(to, own, access));
            piece(k, [access * vector, vector], of, to);
        }
        let of = [inputs.first(), inputs.get(1)].map(|part| part.map(|part| &part.edge));
        let to = to.map(|to| Self::shifted_edge(to, own));
        piece(k, [count, 1], of, to);
        wide
    }

    /// The weight and the bias of a thread's columns, in the type of the tensors. They begin elsewhere than rows do, so each is loaded by an
    /// access of its own.
    fn shifted_weights(&self, k: &mut Builder, own: &ShiftedRow) -> [Option<Fragment>; 2] {
        let RowwisePlan {
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        let count = accesses * vector;
        // In the columns of the row: the same of all rows of the block.
        let edge = (&own.edge - &own.first, own.has_edge);
        let columns = own.vectors.iter().flat_map(|(number, is_inside)| {
            (0..vector).map(move |i| (number * vector + i - &own.first, *is_inside))
        });
        let columns: Vec<(Index, Cond)> = columns.chain([edge]).collect();
        [RowTensor::Weight, RowTensor::Bias].map(|of| {
            let of = self.tensor(of)?;
            // All loads are under way before the first number is put into its place.
            let loaded: Vec<Fragment> = columns
                .iter()
                .map(|(column, is_one)| k.gather(&of.elements(column).only(Mask::from(*is_one))))
                .collect();
            let all = k.fragment(operands.ty, line(count + 1));
            // Numbers of 16 bits are put into halves of registers.
            k.fill(&all, 0.0);
            for (i, one) in (0..).zip(&loaded) {
                k.assign(&all.values(i, 1), one.with_layout(line(1)));
            }
            Some(all)
        })
    }

    /// The columns of a row that the thread's warp has, the same of each row.
    fn columns_of_shifted_warp(&self, k: &mut Builder, own: &ShiftedRow) -> Fragment {
        let RowwisePlan {
            vector, accesses, ..
        } = *self.plan;
        let each = k.fragment(Ty::F32, line(accesses + 1));
        k.fill(&each, vector as f64);
        k.fill(&each.values(accesses, 1), 1.0);
        let tests = own.vectors.iter().map(|(_, test)| *test);
        let tests: Vec<Cond> = tests.chain([own.has_edge]).collect();
        k.mask(&each, 0.0, |_, i| tests[i as usize]);
        let count = k.reduce_all(Add, &each);
        k.reduce_warp(Add, &count)
    }

    /// Computes the results of a row that begins at `first`, and stores them.
    fn shifted_results(
        &self,
        k: &mut Builder,
        own: &ShiftedRow,
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
                    Some((_, test)) => *test,
                    None => own.has_edge,
                }
            });
        });
        let of_columns = weights.each_ref().map(|of| {
            let of = of.as_ref()?;
            Some(Expr::from(of).to(Ty::F32))
        });
        k.assign(&x, changed(results, of_columns));
        let y = self.tensor(RowTensor::Y).expect("it is there");
        let vector_line = Layout::column_major((vector, 1))
            .expect("a vector")
            .to_static();
        for access in 0..accesses {
            let of = x.values(access * vector, vector);
            let of = k.map(Expr::from(&of).to(operands.ty));
            let to = self.shifted_vector(y, own, access);
            k.scatter(of.with_layout(&vector_line), &to);
        }
        let edge = Expr::from(&x.values(count, 1)).to(operands.ty);
        k.scatter(edge, &Self::shifted_edge(y, own));
    }
}
