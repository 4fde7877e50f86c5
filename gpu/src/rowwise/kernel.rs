//! The kernel of a plan: rows in registers, or read in passes.
//!
//! Threads share a row in vectors, one beside the other, so that a warp reads consecutive bytes. What the rows of a block have in
//! common is one partition: every tensor has the same one. The totals of a row go through `reduce_along` of a tile of one
//! element for each thread, or through `reduce_cluster` where a row has several blocks.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::{self, Add, Max};
use colex_ir::Type;
use colex_layout::{C, Layout};
use colex_tensor::{AtThread, Builder, Error, Expr, Fragment, Index, Mask, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::plan::RowwisePlan;
use super::problem::{MOST, RowFunction, RowTensor, RowwiseProblem};

/// A kernel that is being built.
struct RowKernel<'a> {
    plan: &'a RowwisePlan,
    tensors: Vec<(RowTensor, Tensor)>,
    copy: TiledCopy,
    /// One element for each thread.
    lanes: TiledCopy,
    thread: Index,
    /// The tile of the rows, and the rank of the block among those of a row.
    at: [Index; 2],
    epsilon: Option<Expr>,
}

/// The part of a row that a thread has in registers.
struct Part {
    /// The elements in the type of the tensors.
    held: Fragment,
    /// Those of a tensor of the whole shape, for coordinates.
    of: Tensor,
}

/// What the elements of a row have in common.
enum Totals {
    /// The maximum, or 0 where it is -inf, and the sum of the powers under it.
    Powers { top: Fragment, sum: Fragment },
    /// The mean, and the reciprocal of the root of the variance.
    Moments {
        mean: Option<Fragment>,
        scale: Fragment,
    },
}

/// Builds the kernel.
pub(crate) fn build(plan: &RowwisePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = match operands.function {
        RowFunction::Softmax => "softmax",
        RowFunction::LogSoftmax => "log_softmax",
        RowFunction::RmsNorm => "rms_norm",
        RowFunction::LayerNorm => "layer_norm",
    };
    let mut k = Builder::new(name, arch, (plan.threads * plan.rows) as u32);
    if plan.blocks > 1 {
        k.cluster([plan.blocks as u32, 1, 1]);
    }
    let layouts = RowwiseProblem::like(operands).layouts()?;
    let named = operands.tensors().zip(&layouts);
    let tensors: Vec<_> = named
        .map(|(tensor, layout)| (tensor, k.tensor(tensor.name(), operands.ty, layout)))
        .collect();
    let epsilon = operands.function.is_norm().then(|| {
        let register = k.scalar_argument("epsilon", Type::F32);
        Expr::register(register, Ty::F32)
    });
    let bits = i64::from(operands.ty.bits());
    let (rows, threads, vector) = (plan.rows, plan.threads, plan.vector);
    let over = Layout::new((rows, threads), (threads, 1))?;
    let tiled = |vector: i64| {
        let values = Layout::new((1, vector), (0, 1))?;
        TiledCopy::new(universal(bits * vector), bits, &over, &values)
    };
    let block = k.block_index(0);
    let block = k.within(block, 0..MOST * plan.blocks);
    let row = RowKernel {
        plan,
        tensors,
        copy: tiled(vector)?,
        lanes: tiled(1)?,
        thread: k.thread(),
        at: [&block / plan.blocks, &block % plan.blocks],
        epsilon,
    };
    if plan.held {
        row.of_registers(&mut k);
    } else {
        row.of_passes(&mut k);
    }
    k.finish()
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("16 to 128 bits are in the table")
}

/// A register with a number.
fn number(k: &mut Builder, value: f64) -> Fragment {
    let one = k.fragment(Ty::F32, (C::<1>, C::<0>));
    k.fill(&one, value);
    one
}

/// The maximum, or 0 where it is -inf, from which nothing may be subtracted.
fn under(k: &mut Builder, top: &Fragment) -> Fragment {
    let is_empty = Expr::from(top).equals(f64::NEG_INFINITY);
    k.map(is_empty.select(0.0, top))
}

impl Part {
    /// The elements in f32.
    fn wide(&self) -> Expr {
        Expr::from(&self.held).to(Ty::F32)
    }
}

impl RowKernel<'_> {
    fn tensor(&self, which: RowTensor) -> Option<&Tensor> {
        let mut all = self.tensors.iter();
        all.find(|(tensor, _)| *tensor == which).map(|(_, of)| of)
    }

    fn x(&self) -> &Tensor {
        &self.tensors[0].1
    }

    /// A thread's part of a chunk of the columns.
    fn part(&self, of: &Tensor, chunk: &Index) -> Tensor {
        let [row, rank] = &self.at;
        let columns = chunk * self.plan.blocks + rank;
        let tile = of.local_tile((self.plan.rows, self.plan.chunk()), (row, &columns));
        self.copy.at(&self.thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    }

    /// Loads a thread's part of a tensor.
    fn load(&self, k: &mut Builder, of: &Tensor, chunk: &Index) -> Part {
        let of = self.part(of, chunk);
        let held = match self.plan.vector {
            1 => k.fragment_unpacked(&of),
            _ => k.fragment_like(&of),
        };
        k.copy_in_bounds(&self.copy, &of, &held);
        Part { held, of }
    }

    /// Loads a thread's part of the rows, with the residual. `first` is the pass that stores the sum of both.
    fn rows(&self, k: &mut Builder, chunk: &Index, first: bool) -> Part {
        let x = self.load(k, self.x(), chunk);
        if let Some(residual) = self.tensor(RowTensor::Residual) {
            let residual = self.load(k, residual, chunk);
            let sum = x.wide() + residual.wide();
            k.assign(&x.held, sum.to(self.plan.operands.ty));
            if let (true, Some(to)) = (first, self.tensor(RowTensor::Sum)) {
                let to = self.part(to, chunk);
                k.copy_in_bounds(&self.copy, &x.held, &to);
            }
        }
        x
    }

    /// Whether an element of a part is one of the row.
    fn is_inside(&self, part: &Part) -> Mask {
        Expr::coordinate(&part.of, 1).lt(self.x().extent(1))
    }

    /// The elements of a part, and another number in place of those beyond the end.
    fn inside(&self, part: &Part, value: &Expr, other: f64) -> Expr {
        self.is_inside(part).select(value, other)
    }

    /// The total of a number of each thread over the threads of its row.
    fn total(&self, k: &mut Builder, op: BinaryOp, own: &Fragment) -> Fragment {
        if self.plan.blocks > 1 {
            return k.reduce_cluster(op, own, self.plan.blocks as u32);
        }
        let tile = self
            .x()
            .local_tile((self.plan.rows, self.plan.threads), (&self.at[0], 0));
        let part = self.lanes.at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
        k.reduce_along(op, own, &part, 1)
    }

    /// The number of columns in f32.
    fn columns(&self) -> Expr {
        Expr::from(self.x().extent(1)).to(Ty::F32)
    }

    /// The reciprocal of the root of a mean of squares.
    fn scale(&self, k: &mut Builder, squares: &Fragment) -> Fragment {
        let epsilon = self.epsilon.clone().unwrap_or_else(|| Expr::from(0.0));
        k.map((squares / self.columns() + epsilon).rsqrt())
    }

    /// The results of a part, which are stored.
    fn store(&self, k: &mut Builder, part: &Part, totals: &Totals, chunk: &Index) {
        let x = part.wide();
        let mut y = match (totals, self.plan.operands.function) {
            (Totals::Powers { top, sum }, RowFunction::LogSoftmax) => {
                let log = k.map(Expr::from(sum).log());
                x - top - &log
            }
            (Totals::Powers { top, sum }, _) => {
                let inverse = k.map(Expr::from(sum).recip());
                (x - top).exp() * &inverse
            }
            (Totals::Moments { mean, scale }, _) => {
                let x = match mean {
                    Some(mean) => x - mean,
                    None => x,
                };
                x * scale
            }
        };
        if let Some(weight) = self.tensor(RowTensor::Weight) {
            let weight = self.load(k, weight, chunk);
            y = y * weight.wide();
        }
        if let Some(bias) = self.tensor(RowTensor::Bias) {
            let bias = self.load(k, bias, chunk);
            y = y + bias.wide();
        }
        k.assign(&part.held, y.to(self.plan.operands.ty));
        let to = self.tensor(RowTensor::Y).expect("there is an output");
        let to = self.part(to, chunk);
        k.copy_in_bounds(&self.copy, &part.held, &to);
    }

    /// Rows that registers hold: each element is read once.
    fn of_registers(&self, k: &mut Builder) {
        let zero = Index::constant(0);
        let part = self.rows(k, &zero, true);
        let x = part.wide();
        let totals = match self.plan.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let masked = self.inside(&part, &x, f64::NEG_INFINITY);
                let own = k.reduce_all(Max, masked.clone());
                let top = self.total(k, Max, &own);
                let top = under(k, &top);
                let own = k.reduce_all(Add, (masked - &top).exp());
                let sum = self.total(k, Add, &own);
                Totals::Powers { top, sum }
            }
            RowFunction::RmsNorm => {
                // Elements beyond the end are 0.
                let own = k.reduce_all(Add, &x * &x);
                let squares = self.total(k, Add, &own);
                let scale = self.scale(k, &squares);
                Totals::Moments { mean: None, scale }
            }
            RowFunction::LayerNorm => {
                let own = k.reduce_all(Add, x.clone());
                let sum = self.total(k, Add, &own);
                let mean = k.map(&sum / self.columns());
                let apart = self.inside(&part, &(x - &mean), 0.0);
                let own = k.reduce_all(Add, &apart * &apart);
                let squares = self.total(k, Add, &own);
                let scale = self.scale(k, &squares);
                let mean = Some(mean);
                Totals::Moments { mean, scale }
            }
        };
        self.store(k, &part, &totals, &zero);
    }

    /// Reads all chunks of the rows.
    fn pass(&self, k: &mut Builder, first: bool, body: impl Fn(&mut Builder, &Part, &Index)) {
        let all = self.plan.chunk() * self.plan.blocks;
        let chunks = (self.x().extent(1) + (all - 1)) / all;
        k.for_(0, chunks, 1, |k, chunk| {
            let part = self.rows(k, chunk, first);
            body(k, &part, chunk);
        });
    }

    /// The total of a function of each element, by a pass over the rows.
    fn sum(&self, k: &mut Builder, first: bool, of: impl Fn(&Part) -> Expr) -> Fragment {
        let own = number(k, 0.0);
        self.pass(k, first, |k, part, _| {
            let more = k.reduce_all(Add, of(part));
            k.assign(&own, &own + &more);
        });
        self.total(k, Add, &own)
    }

    /// Rows that registers do not hold: they are read again.
    fn of_passes(&self, k: &mut Builder) {
        let totals = match self.plan.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => {
                let (top, sum) = (number(k, f64::NEG_INFINITY), number(k, 0.0));
                self.pass(k, true, |k, part, _| {
                    let x = self.inside(part, &part.wide(), f64::NEG_INFINITY);
                    let own = k.reduce_all(Max, x.clone());
                    let next = k.map(Expr::from(&top).max(&own));
                    let below = under(k, &next);
                    let own = k.reduce_all(Add, (x - &below).exp());
                    // The sum so far, under the new maximum.
                    let kept = (&top - &below).exp();
                    k.assign(&sum, Expr::from(&sum).fma(kept, &own));
                    k.assign(&top, &next);
                });
                let all = self.total(k, Max, &top);
                let all = under(k, &all);
                let own = k.map(&sum * (&top - &all).exp());
                let sum = self.total(k, Add, &own);
                Totals::Powers { top: all, sum }
            }
            RowFunction::RmsNorm => {
                let squares = self.sum(k, true, |part| part.wide() * part.wide());
                let scale = self.scale(k, &squares);
                Totals::Moments { mean: None, scale }
            }
            RowFunction::LayerNorm => {
                let sum = self.sum(k, true, Part::wide);
                let mean = k.map(&sum / self.columns());
                let squares = self.sum(k, false, |part| {
                    let apart = self.inside(part, &(part.wide() - &mean), 0.0);
                    &apart * &apart
                });
                let scale = self.scale(k, &squares);
                let mean = Some(mean);
                Totals::Moments { mean, scale }
            }
        };
        self.pass(k, false, |k, part, chunk| {
            self.store(k, part, &totals, chunk);
        });
    }
}
