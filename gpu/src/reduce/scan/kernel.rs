//! The kernels of a plan: sums by the threads of a block together, or by each thread of its own.

use colex_atom::{Arch, Ty};
use colex_ir::BinaryOp::Add;
use colex_layout::Layout;
use colex_tensor::{Builder, Error, Expr, Fragment, Index, Tensor, TensorKernel};

use super::plan::{MOST_PARTS, ScanPlan};
use super::problem::ScanProblem;
use crate::reduce::plan::MOST_COLUMNS;
use crate::reduce::problem::MOST;

/// What a kernel of a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanStage {
    /// The sums, by blocks that share none.
    Whole,
    /// The totals of the parts.
    Totals,
    /// The sums of the parts, by the totals of those before.
    Parts,
}

/// The totals that a thread loads before it adds them.
const IN_FLIGHT: i64 = 8;

/// A kernel that is being built.
struct ScanKernel<'a> {
    plan: &'a ScanPlan,
    x: Tensor,
    /// None where only totals are stored.
    y: Option<Tensor>,
    totals: Option<Tensor>,
    /// The place of the thread: the row, and the number along the mode that runs fastest.
    row: Index,
    along: Index,
    /// The number of the part.
    part: Index,
    /// The first turn, and the one after the last.
    turns: [Index; 2],
    /// The type of the sums.
    wide: Ty,
}

/// Builds the kernel.
pub(crate) fn build(plan: &ScanPlan, arch: Arch, stage: ScanStage) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = match stage {
        ScanStage::Whole => "scan",
        ScanStage::Totals => "scan_totals",
        ScanStage::Parts => "scan_parts",
    };
    let mut k = Builder::new(name, arch, plan.threads() as u32);
    let wide = if operands.ty.is_integer() {
        Ty::S32
    } else {
        Ty::F32
    };
    let [of_x, of_y, of_totals] = ScanProblem::like(operands).layouts(2)?;
    let x = k.tensor("x", operands.ty, &of_x);
    let y = (stage != ScanStage::Totals).then(|| k.tensor("y", operands.ty, &of_y));
    let totals = (stage != ScanStage::Whole).then(|| k.tensor("totals", wide, &of_totals));
    let block = k.block_index(0);
    let block = k.within(block, 0..MOST / plan.rows + 1);
    let extent = k.within(x.extent(1), 1..MOST + 1);
    let chunk = plan.chunk();
    let all = (extent + (chunk - 1)) / chunk;
    let (part, turns) = match stage {
        ScanStage::Whole => (Index::constant(0), [Index::constant(0), all]),
        ScanStage::Totals | ScanStage::Parts => {
            let part = k.block_index(2);
            let most = (MOST / chunk.saturating_mul(plan.turns) + 1).min(MOST_PARTS);
            let part = k.within(part, 0..most + 1);
            let first = &part * plan.turns;
            let end = (&first + plan.turns).min(&all);
            (part, [first, end])
        }
    };
    let thread = k.thread();
    let kernel = ScanKernel {
        plan,
        x,
        y,
        totals,
        row: block * plan.rows + &thread / plan.along,
        along: &thread % plan.along,
        part,
        turns,
        wide,
    };
    if operands.keeps_inner {
        // A launch has at most 65535 blocks along its second axis: beyond that, a block has several tiles.
        let first = k.block_index(1);
        let first = k.within(first, 0..MOST_COLUMNS);
        let step = k.grid_extent(1);
        let step = k.within(step, 1..MOST_COLUMNS + 1);
        let tile = plan.along * plan.vector;
        let inner = k.within(kernel.x.extent(2), 1..MOST + 1);
        let tiles = (inner + (tile - 1)) / tile;
        k.for_(first, tiles, step, |k, number| {
            let inner = number * tile + &kernel.along * plan.vector;
            kernel.own(k, &inner);
        });
    } else {
        kernel.shared(&mut k);
    }
    k.finish()
}

impl ScanKernel<'_> {
    /// The numbers that the sums of a part begin with: the totals of the parts before it, `count` beside each other.
    fn first(&self, k: &mut Builder, inner: &Index, count: i64) -> Fragment {
        let layout = Layout::column_major(count)
            .expect("a vector has elements")
            .to_static();
        let carry = k.fragment(self.wide, &layout);
        k.fill(&carry, 0.0);
        let (Some(totals), Some(_)) = (&self.totals, &self.y) else {
            return carry;
        };
        k.for_(0, &self.part, IN_FLIGHT, |k, first| {
            let mut loaded = Vec::new();
            for i in 0..IN_FLIGHT {
                let is_before = Expr::from(first + i).lt(&self.part);
                let at = totals
                    .elements((&self.row, first + i, inner))
                    .vectors(2, count);
                loaded.push(k.gather(&at.only(is_before)));
            }
            for total in loaded {
                k.assign(&carry, &carry + &total);
            }
        });
        carry
    }

    /// Stores the total of a part.
    fn put_total(&self, k: &mut Builder, total: &Fragment, inner: &Index, only: Option<Expr>) {
        let (Some(totals), None) = (&self.totals, &self.y) else {
            return;
        };
        let count = total.layout().size();
        // A vector of the plan may be wider than 16 bytes of totals.
        let vector = count.min(4);
        for place in (0..count).step_by(vector as usize) {
            let at = totals.elements((&self.row, &self.part, inner + place));
            let at = at.vectors(2, vector);
            let at = match &only {
                Some(number) => at.only(number.equals(0)),
                None => at,
            };
            k.scatter(total.values(place, vector), &at);
        }
    }

    /// Sums that the threads of a block share.
    fn shared(&self, k: &mut Builder) {
        let ScanPlan {
            vector,
            along,
            accesses,
            operands,
            ..
        } = *self.plan;
        let zero = Index::constant(0);
        let items = vector * accesses;
        let carry = self.first(k, &zero, 1);
        let layout = Layout::column_major(items)
            .expect("a thread has elements")
            .to_static();
        let [first, end] = &self.turns;
        k.for_(first, end, 1, |k, turn| {
            let place = (turn * along + &self.along) * items;
            let own = k.fragment(self.wide, &layout);
            let mut loaded = Vec::new();
            for access in 0..accesses {
                let at = self
                    .x
                    .elements((&self.row, &place + access * vector, &zero));
                loaded.push(k.gather(&at.vectors(1, vector)));
            }
            for (access, x) in (0..).zip(&loaded) {
                let x = Expr::from(x).to(self.wide);
                k.assign(&own.values(access * vector, vector), x);
            }
            let (prefixes, total) = k.scan_block(Add, &own, operands.exclusive);
            if let Some(y) = &self.y {
                let sums = k.map((&carry + &prefixes).to(operands.ty));
                for access in 0..accesses {
                    let at = y.elements((&self.row, &place + access * vector, &zero));
                    let part = sums.values(access * vector, vector);
                    k.scatter(part, &at.vectors(1, vector));
                }
            }
            k.assign(&carry, &carry + &total);
        });
        let own = Expr::from(&self.along);
        self.put_total(k, &carry, &zero, Some(own));
    }

    /// Sums of each thread of its own, at this place of the inner mode.
    fn own(&self, k: &mut Builder, inner: &Index) {
        let ScanPlan {
            vector,
            accesses,
            operands,
            ..
        } = *self.plan;
        // Totals lie in vectors of at most 16 bytes.
        let layout = Layout::column_major(vector)
            .expect("a vector has elements")
            .to_static();
        let carry = k.fragment(self.wide, &layout);
        let step = vector.min(4);
        for place in (0..vector).step_by(step as usize) {
            let first = self.first(k, &(inner + place), step);
            k.assign(&carry.values(place, step), &first);
        }
        let [first, end] = &self.turns;
        k.for_(first, end, 1, |k, turn| {
            let places: Vec<Index> = (0..accesses)
                .map(|access| turn * accesses + access)
                .collect();
            let mut loaded = Vec::new();
            for place in &places {
                let at = self.x.elements((&self.row, place, inner));
                loaded.push(k.gather(&at.vectors(2, vector)));
            }
            for (place, x) in places.iter().zip(&loaded) {
                let next = k.map(&carry + Expr::from(x).to(self.wide));
                if let Some(y) = &self.y {
                    let sum = if operands.exclusive { &carry } else { &next };
                    let sum = k.map(Expr::from(sum).to(operands.ty));
                    let at = y.elements((&self.row, place, inner));
                    k.scatter(&sum, &at.vectors(2, vector));
                }
                k.assign(&carry, &next);
            }
        });
        self.put_total(k, &carry, inner, None);
    }
}
