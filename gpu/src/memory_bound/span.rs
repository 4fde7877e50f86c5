//! Rows that lie one after the other: a block copies some of them to shared memory as one span of vectors, and the results from there.

use colex_atom::Ty;
use colex_ir::Type;
use colex_layout::Layout;
use colex_tensor::{Builder, Cond, Elements, Expr, Fragment, Index, Mask, Outside, Tensor};

/// The rows of a block, as one span of elements.
pub(crate) struct RowSpan {
    thread: Index,
    /// The threads of the block.
    threads: i64,
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
    /// The span from the vector `begin` on to the element `end`. Each of the `threads` of a block has as many `vectors` of it, the ones of a warp
    /// beside each other.
    pub(crate) fn of(
        k: &mut Builder,
        thread: &Index,
        [vector, vectors, threads]: [i64; 3],
        [begin, end]: [&Index; 2],
    ) -> RowSpan {
        let stop = end / vector;
        let vectors = (0..vectors)
            .map(|i| {
                let own = thread + i * threads;
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
            thread: thread.clone(),
            threads,
            vector,
            vectors,
            begin: begin.clone(),
            has_rest: k.less(&rest, end),
            rest,
            end: end.clone(),
        }
    }

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
    fn rests(&self, k: &mut Builder, [of, shared]: [&Tensor; 2]) -> Vec<[Elements; 2]> {
        // The thread's vectors inside of the span are its first ones.
        let stop = &self.rest / self.vector;
        let inside = self
            .vectors
            .iter()
            .map(|vector| Index::select_less(&vector.number, &stop, &1.into(), &0.into()));
        let inside = inside.fold(Index::constant(0), |sum, one| sum + one);
        let number = &self.thread + inside * self.threads;
        let is_own = k.equal(&(&self.begin + &number), &stop);
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
    pub(crate) fn load(&self, k: &mut Builder, tensors: &[(&Tensor, &Tensor)]) -> Vec<Fragment> {
        let mut loaded = Vec::new();
        for (from, _) in tensors {
            for vector in &self.vectors {
                loaded.push(k.gather(&self.of_tensor(from, vector)));
            }
        }
        loaded
    }

    /// Copies the span of tensors to shared memory, of which the vectors are loaded.
    pub(crate) fn bring(
        &self,
        k: &mut Builder,
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
                for [from, to] in self.rests(k, [from, to]) {
                    let one = k.gather(&from);
                    k.scatter(&one, &to);
                }
            }
        });
    }

    /// Copies the span from shared memory to a tensor.
    pub(crate) fn store(&self, k: &mut Builder, from: &Tensor, to: &Tensor) {
        for vector in &self.vectors {
            // A block with fewer rows than others has written no more of it.
            let own = self.of_shared(from, vector);
            let own = k.gather(&own.only(Mask::from(vector.is_inside)));
            k.scatter(&own, &self.of_tensor(to, vector));
        }
        k.if_(self.has_rest, |k| {
            for [to, from] in self.rests(k, [to, from]) {
                let one = k.gather(&from);
                k.scatter(&one, &to);
            }
        });
    }
}

/// A thread's elements of a row: its first one, and then every one that is as many threads further.
pub(crate) struct RowElements {
    pub(crate) threads: i64,
    pub(crate) count: i64,
    /// Whether the last one is in the row. All others are.
    pub(crate) has_last: Option<Cond>,
}

impl RowElements {
    /// Element `i` of a tensor with one mode, in which the first one is at `first`.
    pub(crate) fn at(&self, of: &Tensor, first: &Index, i: i64) -> Elements {
        let at = of.elements(first + i * self.threads);
        let at = at.outside(Outside::Stated);
        match self.has_last {
            Some(test) if i + 1 == self.count => at.only(Mask::from(test)),
            _ => at,
        }
    }

    /// All of them, in `f32`; 0 where the last one is not in the row.
    pub(crate) fn gathered(&self, k: &mut Builder, of: &Tensor, first: &Index) -> Fragment {
        self.gathered_by(k, |i| self.at(of, first, i))
    }

    /// The same of a tensor of columns. The kernel compares the last one with the extent itself.
    pub(crate) fn gathered_columns(&self, k: &mut Builder, of: &Tensor, first: &Index) -> Fragment {
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
    pub(crate) fn scattered(
        &self,
        k: &mut Builder,
        numbers: &Fragment,
        of: &Tensor,
        first: &Index,
    ) {
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

/// Makes numbers of 16 bits others in the eyes of the assembler. Where it knows that they are the same as before, it keeps them in `f32`
/// from one use to the next and spills: with 64 numbers of 1024 threads up to 96 bytes, and none with this.
pub(crate) fn renew<'b>(k: &mut Builder, ty: Ty, held: impl IntoIterator<Item = &'b Fragment>) {
    if ty == Ty::F32 {
        return;
    }
    let grid = k.grid_extent(0);
    let grid = k.operand(&grid);
    k.emit(|ir| {
        // 0, since a grid has fewer than 2^31 blocks, which the assembler does not use.
        let zero = ir.shr(Type::U32, grid, 31);
        for reg in held.into_iter().flat_map(Fragment::regs) {
            let same = ir.xor(Type::B32, *reg, zero);
            ir.mov_to(*reg, same);
        }
    });
}
