//! GEMM kernels that stage their tiles through registers, as before `cp.async`. They have two stages: the kernel loads the
//! next tile while it multiplies the current one.

use colex_atom::{Arch, Ty};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::batch::BatchForm;
use super::epilogue::terms::{EarlyTerms, KernelEpilogue, Terms};
use super::groups::tiles::{self, BlockWork};
use super::operand::{Shares, shares, uneven};
use super::plan::GemmPlan;
use crate::kernels::Major;
use colex_tensor::{AtThread, Builder, Error, Fragment, Index, MAX_EXTENT, Tensor, TensorKernel};

/// The tile of an operand in shared memory.
pub(crate) struct SmemTile {
    /// The type of its elements there, and in the registers that are multiplied.
    pub(crate) ty: Ty,
    /// The two stages: `(M or N, K, stage)`.
    pub(crate) layout: Layout,
    /// Elements that a thread writes at once.
    pub(crate) write: i64,
    /// Elements that a thread reads at once.
    pub(crate) read: i64,
}

/// The parameters in which these kernels differ.
pub(crate) struct RegisterStagedGemm<'a> {
    pub(crate) name: &'static str,
    pub(crate) plan: &'a GemmPlan,
    pub(crate) batch: BatchForm,
    pub(crate) mma: TiledMma,
    /// The shared memory tiles of A and B.
    pub(crate) tiles: [SmemTile; 2],
    /// Whether the product is computed transposed: B in the place of A, and N in the place of M.
    pub(crate) transposed: bool,
    /// The number of elements of C that are neighbours both in memory and in a thread's registers.
    pub(crate) neighbours: i64,
}

/// The kernel of a plan. The launch takes A, B, C, alpha and beta, and has one block for each tile.
pub(crate) fn build(
    gemm: RegisterStagedGemm<'_>,
    epilogue: &KernelEpilogue,
    arch: Arch,
) -> Result<TensorKernel, Error> {
    let (plan, mma) = (gemm.plan, &gemm.mma);
    let ([bm, bn, _], operands) = (plan.tile, &plan.operands);
    let mut k = Builder::new(gemm.name, arch, mma.threads() as u32);
    let layout = |operand| gemm.batch.layout(plan, operand);
    let a = k.tensor("A", operands.ab, layout(Operand::A));
    let right = operands.names_of_right_factors().iter();
    let right = right.map(|name| k.tensor(name, operands.ab, layout(Operand::B)));
    let right: Vec<Tensor> = right.collect();
    let c = k.tensor("C", operands.c, layout(Operand::C));
    let numbers = tiles::declare_numbers(&mut k, &gemm.batch);
    let terms = epilogue.declare(&mut k);
    let matrices = [&a, &right[0], &c];
    let extents = tiles::extents(&mut k, &gemm.batch, matrices, numbers.as_ref());
    for second in &right[1..] {
        gemm.batch.agree(&mut k, Operand::B, second, &extents);
    }
    terms.agree(&mut k, &gemm.batch, &extents);
    let work = BlockWork::new(
        &mut k,
        plan,
        (gemm.batch, &extents),
        [&a, &right[0]],
        numbers.as_ref(),
    );
    let at = work.at.clone();
    let [m, n] = at.clone();
    let [a, c] =
        [(Operand::A, a), (Operand::C, c)].map(|(of, matrix)| work.part(&mut k, of, &matrix));
    let terms = work.terms(&terms);
    let [smem_a, smem_b] = &gemm.tiles;
    let a = (Operand::A, a, m, smem_a);
    let right = right.into_iter().map(|b| {
        let b = work.part(&mut k, Operand::B, &b);
        (Operand::B, b, n.clone(), smem_b)
    });
    let right: Vec<_> = right.collect();
    // Those in the place of A, and those in the place of B.
    let (x, y): (Vec<_>, Vec<_>) = if gemm.transposed {
        (right, vec![a])
    } else {
        (vec![a], right)
    };
    let tile = |matrix: &Tensor| {
        let tile = matrix.local_tile((bm, bn), &at);
        if gemm.transposed {
            tile.compose(transposed([bm, bn]))
        } else {
            tile
        }
    };
    let mut staged = |place, side| StagedOperand::new(&mut k, plan, mma, place, side);
    let x = x.into_iter().map(|side| staged(Operand::A, side));
    let x: Vec<StagedOperand> = x.collect::<Result<_, _>>()?;
    let y = y.into_iter().map(|side| staged(Operand::B, side));
    let y: Vec<StagedOperand> = y.collect::<Result<_, _>>()?;
    let tiles = x
        .iter()
        .flat_map(|x| y.iter().map(move |y| [x.tile[0], y.tile[0]]));
    let acc = tiles.map(|tile| k.accumulators(mma, tile)); // (MMA, MMA_M, MMA_N) of each product
    let acc: Vec<Fragment> = acc.collect();
    main_loop(&mut k, mma, [&x, &y], &acc, &work.steps);
    let bits = i64::from(operands.c.bits());
    let vector = operands.vector(Operand::C).min(gemm.neighbours);
    // What fills no register goes one by one.
    let vector = if vector * bits < 32 { 1 } else { vector };
    store(&mut k, plan, mma, &acc, (&c, &tile), vector, &terms)?;
    k.finish()
}

/// A tile by its columns first.
fn transposed([bm, bn]: [i64; 2]) -> Layout {
    let layout = Layout::new((bn, bm), (bm, 1)).expect("the plan's numbers make a layout");
    layout.to_static()
}

/// One operand: its way into shared memory, and from there into the registers of its place in the product.
struct StagedOperand {
    ty: Ty,
    tile: [i64; 2],
    tensor: Tensor,
    /// The number of the block's tile along M or N.
    row: Index,
    thread: Index,
    load: TiledCopy,
    put: TiledCopy,
    smem_dst: Tensor,
    read: TiledCopy,
    smem_src: Tensor,
    registers: Fragment,
    fragment_dst: Fragment,
}

impl StagedOperand {
    fn new(
        k: &mut Builder,
        plan: &GemmPlan,
        mma: &TiledMma,
        place: Operand,
        (operand, tensor, row, smem): (Operand, Tensor, Index, &SmemTile),
    ) -> Result<StagedOperand, Error> {
        let tile = operand.modes().map(|mode| plan.tile[mode]);
        let [from, to] = [plan.operands.ab, smem.ty].map(|ty| i64::from(ty.bits()));
        let (major, widest) = (plan.operands.major(operand), plan.operands.vector(operand));
        let shares = shares(major, tile, widest, mma.threads(), plan.operands.ab);
        let Shares {
            threads,
            values,
            vector,
        } = shares.ok_or_else(|| uneven(tile, mma.threads()))?;
        // Rows and columns have whole vectors.
        if vector > 1 {
            let along = if major == Major::First { 0 } else { 1 };
            k.within(tensor.extent(along), vector..MAX_EXTENT + 1);
        }
        let load = TiledCopy::new(universal(vector * from)?, from, &threads, &values)?;
        let write = universal(smem.write.min(vector) * to)?;
        let put = TiledCopy::new(write, to, &threads, &values)?;
        let read = TiledCopy::for_operand(universal(smem.read * to)?, to, mma, place)?;
        let shared = k.shared_tensor(smem.ty, &smem.layout);
        let thread = k.thread();
        // (MMA, MMA_M, MMA_K) of A, (MMA, MMA_N, MMA_K) of B. For B, CPY_N stands in place of CPY_M.
        let registers = k.fragment_of(mma, place, tile);
        Ok(StagedOperand {
            ty: smem.ty,
            tile,
            tensor,
            row,
            smem_dst: put.at(&thread).partition_dst(&shared), // (CPY, CPY_M, CPY_K, STAGES)
            smem_src: read.at(&thread).partition_src(&shared), // (CPY, CPY_M, CPY_K, STAGES)
            fragment_dst: registers.retile(&read),            // (CPY, CPY_M, CPY_K)
            registers,
            thread,
            load,
            put,
            read,
        })
    }

    /// Loads tile `step` along K into registers. Elements outside the matrix are zeros.
    fn load(&self, k: &mut Builder, step: &Index) -> Fragment {
        let tile = self.tensor.local_tile(self.tile, (&self.row, step));
        let from = self.load.at(&self.thread).partition_src(&tile); // (CPY, CPY_M, CPY_K)
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&self.load, &from, &held);
        held
    }

    /// Converts the loaded tile to the type of the product and stores it into a stage.
    fn put(&self, k: &mut Builder, held: &Fragment, stage: &Index) {
        let wide = k.convert(held, self.ty);
        k.copy(&self.put, &wide, &self.smem_dst.at(3, stage));
    }

    /// Steps of the instruction along K in a tile.
    fn steps(&self) -> i64 {
        let mode = self.registers.layout().mode(2);
        mode.map_or(1, |mode| mode.size())
    }

    /// Loads step `i` of a stage into registers.
    fn read(&self, k: &mut Builder, i: i64, stage: &Index) -> Fragment {
        let from = self.smem_src.at(3, stage).at(2, i);
        k.copy(&self.read, &from, &self.fragment_dst.slice((.., .., i)));
        self.registers.slice((.., .., i))
    }
}

fn universal(bits: i64) -> Result<colex_atom::CopyAtom, Error> {
    Ok(colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>"))?)
}

fn main_loop(
    k: &mut Builder,
    mma: &TiledMma,
    [x, y]: [&[StagedOperand]; 2],
    acc: &[Fragment],
    steps: &Index,
) {
    let sides: Vec<&StagedOperand> = x.iter().chain(y).collect();
    for side in &sides {
        let first = side.load(k, &0.into());
        side.put(k, &first, &0.into());
    }
    k.sync();
    let stage = k.var(0, 0..2);
    k.for_(0, steps, 1, |k, step| {
        let from = k.get(&stage);
        let to = Index::from(1) - &from;
        // The loads of the next tile overlap the product of this one. Beyond K they yield zeros and read nothing.
        let next = step + 1;
        let next: Vec<Fragment> = sides.iter().map(|side| side.load(k, &next)).collect();
        for i in 0..sides[0].steps() {
            let [x, y] = [x, y].map(|sides| {
                let read = sides.iter().map(|side| side.read(k, i, &from));
                read.collect::<Vec<Fragment>>()
            });
            let pairs = x.iter().flat_map(|x| y.iter().map(move |y| (x, y)));
            for ((x, y), acc) in pairs.zip(acc) {
                k.mma(mma, acc, x, y, acc);
            }
        }
        for (side, next) in sides.iter().zip(&next) {
            side.put(k, next, &to);
        }
        k.sync();
        k.set(&stage, to);
    });
}

/// Stores what the epilogue makes of the accumulators: each thread its own elements, `vector` neighbours at once.
fn store(
    k: &mut Builder,
    plan: &GemmPlan,
    mma: &TiledMma,
    acc: &[Fragment],
    (c, tile): (&Tensor, &dyn Fn(&Tensor) -> Tensor),
    vector: i64,
    terms: &Terms,
) -> Result<(), Error> {
    let ty = plan.operands.c;
    let bits = i64::from(ty.bits());
    let copy = TiledCopy::for_operand(universal(vector * bits)?, bits, mma, Operand::C)?;
    let thread = k.thread();
    let to = copy.at(&thread).partition_dst(&tile(c)); // (CPY, CPY_M, CPY_N)
    let old = if plan.operands.beta {
        let old = k.fragment(ty, acc[0].layout());
        k.copy_in_bounds(&copy, &to, &old.retile(&copy));
        Some(old)
    } else {
        None
    };
    let own = |matrix: &Tensor| mma.at(&thread).partition(&tile(matrix), Operand::C); // (MMA, MMA_M, MMA_N)
    let out = terms.finish(k, (acc, old.as_ref(), &EarlyTerms::default()), &own);
    k.copy_in_bounds(&copy, &out.retile(&copy), &to);
    Ok(())
}
