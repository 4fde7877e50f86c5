//! The kernel of a plan: the largest size of a row, its scale, the quantised numbers.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_ir::BinaryOp::Max;
use colex_layout::{C, Layout};
use colex_tensor::{AtThread, Builder, Error, Expr, Fragment, Index, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::plan::QuantisePlan;
use super::problem::{MOST, QuantiseProblem};

/// The largest number of a type that numbers are quantised to.
pub(crate) fn largest(to: Ty) -> f64 {
    match to {
        Ty::E4m3 => 448.0,
        Ty::E5m2 => 57344.0,
        _ => 127.0,
    }
}

/// The scale of numbers of which none is larger than `most`.
pub(crate) fn scale_of(most: impl Into<Expr>, to: Ty) -> Expr {
    let most = most.into();
    // A subnormal number has no reciprocal in f32, so no scale but 0 is one.
    let scale = (&most / largest(to)).max(f64::from(f32::MIN_POSITIVE));
    most.equals(0.0).select(0.0, scale)
}

/// A kernel that is being built.
struct QuantiseKernel<'a> {
    plan: &'a QuantisePlan,
    x: Tensor,
    q: Tensor,
    scales: Tensor,
    /// Of x, of q, and of one element for each thread.
    copies: [TiledCopy; 3],
    thread: Index,
    row: Index,
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

/// Builds the kernel.
pub(crate) fn build(plan: &QuantisePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let mut k = Builder::new("quantise", arch, (plan.threads * plan.rows) as u32);
    let [x, q, scales] = QuantiseProblem::layouts_like(operands)?;
    let x = k.tensor("x", operands.from, x);
    let q = k.tensor("q", operands.to, q);
    let scales = k.tensor("scales", Ty::F32, scales);
    let (rows, threads) = (plan.rows, plan.threads);
    let over = Layout::new((rows, threads), (threads, 1))?;
    let tiled = |bits: i64, vector: i64| {
        let values = Layout::new((1, vector), (0, 1))?;
        TiledCopy::new(universal(bits * vector), bits, &over, &values)
    };
    let bits = i64::from(operands.from.bits());
    let copies = [
        tiled(bits, plan.vector)?,
        tiled(8, plan.vector)?,
        tiled(bits, 1)?,
    ];
    let block = k.block_index(0);
    let row = k.within(block, 0..MOST / plan.rows + 1);
    let kernel = QuantiseKernel {
        plan,
        x,
        q,
        scales,
        copies,
        thread: k.thread(),
        row,
    };
    if plan.held {
        let zero = Index::constant(0);
        let x = kernel.load(&mut k, &zero);
        let own = k.reduce_all(Max, wide(&x).abs());
        let inverse = kernel.scale(&mut k, &own);
        kernel.store(&mut k, &x, &inverse, &zero);
    } else {
        let own = k.fragment(Ty::F32, (C::<1>, C::<0>));
        k.fill(&own, 0.0);
        kernel.pass(&mut k, |k, x, _| {
            let more = k.reduce_all(Max, wide(x).abs());
            k.assign(&own, Expr::from(&own).max(&more));
        });
        let inverse = kernel.scale(&mut k, &own);
        kernel.pass(&mut k, |k, x, chunk| kernel.store(k, x, &inverse, chunk));
    }
    k.finish()
}

/// Numbers in f32.
fn wide(x: &Fragment) -> Expr {
    Expr::from(x).to(Ty::F32)
}

impl QuantiseKernel<'_> {
    /// A thread's part of a chunk of the columns.
    fn part(&self, copy: &TiledCopy, of: &Tensor, chunk: &Index) -> Tensor {
        let tile = of.local_tile((self.plan.rows, self.plan.chunk()), (&self.row, chunk));
        copy.at(&self.thread).partition_src(&tile) // (CPY, CPY_M, CPY_N)
    }

    fn fragment(&self, k: &mut Builder, part: &Tensor) -> Fragment {
        match self.plan.vector {
            1 => k.fragment_unpacked(part),
            _ => k.fragment_like(part),
        }
    }

    /// A thread's part of the numbers. Those beyond the end are 0.
    fn load(&self, k: &mut Builder, chunk: &Index) -> Fragment {
        let part = self.part(&self.copies[0], &self.x, chunk);
        let held = self.fragment(k, &part);
        k.copy_in_bounds(&self.copies[0], &part, &held);
        held
    }

    /// The scale of a row from the largest size in each thread's part, which the first thread stores. Its reciprocal is returned.
    fn scale(&self, k: &mut Builder, own: &Fragment) -> Fragment {
        let plan = self.plan;
        let lanes = &self.copies[2];
        let tile = self.x.local_tile((plan.rows, plan.threads), (&self.row, 0));
        let part = lanes.at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_N)
        let most = k.reduce_along(Max, own, &part, 1);
        let scale = k.map(scale_of(&most, plan.operands.to));
        let row = &self.row * plan.rows + &self.thread / plan.threads;
        let is_first = Expr::from(&self.thread % plan.threads).equals(0);
        let place = self.scales.elements((row, Index::constant(0)));
        k.scatter(&scale, &place.only(is_first));
        let is_zero = Expr::from(&scale).equals(0.0);
        let inverse = Expr::from(1.0) / &scale;
        k.map(is_zero.select(0.0, inverse))
    }

    /// The quantised numbers of a part.
    fn store(&self, k: &mut Builder, x: &Fragment, inverse: &Fragment, chunk: &Index) {
        let part = self.part(&self.copies[1], &self.q, chunk);
        let held = self.fragment(k, &part);
        k.assign(&held, (wide(x) * inverse).saturating(self.plan.operands.to));
        k.copy_in_bounds(&self.copies[1], &held, &part);
    }

    /// Reads all chunks of the rows.
    fn pass(&self, k: &mut Builder, body: impl Fn(&mut Builder, &Fragment, &Index)) {
        let all = self.plan.chunk();
        let chunks = (self.x.extent(1) + (all - 1)) / all;
        k.for_(0, chunks, 1, |k, chunk| {
            let x = self.load(k, chunk);
            body(k, &x, chunk);
        });
    }
}
