//! `GemmPlan`: the kernel of a product, with its tile, stages and vectors.

use core::fmt;

use colex_atom::{Arch, MmaAtom, Ty};
use colex_layout::{IntoTiler, Layout, layout};
use colex_tiled::{Operand, TiledMma};

use super::batch::BatchForm;
use super::epilogue::sm90::own_columns;
use super::epilogue::split_sum;
use super::epilogue::terms::KernelEpilogue;
use super::family::Numbers;
use super::groups::{self, Groups};
use super::sm90::{takes_orders, transposes};
use crate::kernels::{GemmProblem, Major};
use crate::method::GemmMethod;
use colex_sched::pipeline::Schedule;
use colex_sched::{Order, RasterOrder};
use colex_tensor::{Error, TensorKernel};

/// The facts about the matrices that a kernel is built from: types, majors, and the number of elements of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operands {
    /// The type of A and B.
    pub ab: Ty,
    /// The type of C.
    pub c: Ty,
    /// The contiguous modes of A, B and C.
    pub majors: [Major; 3],
    /// The numbers of elements that one access to A, B and C may take. Addresses and leading dimensions are multiples
    /// of them.
    pub vectors: [i64; 3],
    /// Whether C is read.
    pub beta: bool,
    /// Whether there are two right factors of one layout, B and B2: the kernel multiplies A by both, and the epilogue has both
    /// accumulators.
    pub gated: bool,
}

impl Operands {
    /// The operands with vectors that an access may take.
    pub(crate) fn possible(&self) -> Operands {
        Operands {
            vectors: self.vectors.map(|n| n.clamp(1, 1 << 10)),
            ..*self
        }
    }

    /// The layout of an operand. Its extents and leading dimension are arguments of the launch; their values here serve
    /// the reports.
    pub(crate) fn layout(&self, operand: Operand) -> Layout {
        match self.majors[operand as usize] {
            Major::First => layout!((4096, 4096) : (_1, 4096)),
            Major::Second => layout!((4096, 4096) : (4096, _1)),
        }
    }

    /// The contiguous mode of an operand.
    pub(crate) fn major(&self, operand: Operand) -> Major {
        self.majors[operand as usize]
    }

    /// The names of the parameters of the right factors.
    pub(crate) fn names_of_right_factors(&self) -> &'static [&'static str] {
        if self.gated { &["B", "B2"] } else { &["B"] }
    }

    /// The number of right factors.
    pub(crate) fn right_factors(&self) -> i64 {
        self.names_of_right_factors().len() as i64
    }

    /// Whether A and B hold 16-bit numbers that are read 16 bytes at a time.
    pub(crate) fn wide_halves(&self) -> bool {
        self.ab.bits() == 16 && self.vectors[..2] == [8, 8]
    }

    /// Whether a tensor map describes an operand: rows of whole vectors of 16 bytes.
    pub(crate) fn has_map(&self, operand: Operand) -> bool {
        self.vector(operand) == 128 / i64::from(self.ab.bits())
    }

    /// Whether a tensor map describes an operand whose tiles `wgmma` multiplies as they are: of numbers of other than 16 bits along K.
    pub(crate) fn is_mapped(&self, operand: Operand) -> bool {
        self.has_map(operand)
            && (takes_orders(self.ab.bits() as usize / 8) || self.major(operand) == Major::Second)
    }

    /// Whether that holds of A and of B.
    pub(crate) fn are_mapped(&self) -> bool {
        [Operand::A, Operand::B]
            .iter()
            .all(|operand| self.is_mapped(*operand))
    }

    /// Whether Hopper's kernel transposes the tiles of an operand in shared memory: those of tf32 and of bytes whose contiguous mode is not K.
    pub(crate) fn is_transposed(&self, operand: Operand) -> bool {
        transposes(self.ab) && self.major(operand) == Major::First
    }

    /// Whether tiles of a factor are transposed.
    pub(crate) fn transposes(&self) -> bool {
        [Operand::A, Operand::B]
            .iter()
            .any(|operand| self.is_transposed(*operand))
    }

    /// Whether Hopper's kernel loads an operand by TMA.
    pub(crate) fn is_loaded(&self, operand: Operand) -> bool {
        self.is_mapped(operand) || self.has_map(operand) && self.is_transposed(operand)
    }

    pub(crate) fn vector(&self, operand: Operand) -> i64 {
        self.vectors[operand as usize]
    }

    /// Whether A and B lie along K, in vectors of more than one element.
    pub(crate) fn has_words(&self) -> bool {
        [Operand::A, Operand::B]
            .iter()
            .all(|operand| self.major(*operand) == Major::Second && self.vector(*operand) > 1)
    }

    /// Bytes go one by one, or four or more at once: two have no place in a register.
    fn narrow_bytes(&mut self) {
        let bits = i64::from(self.ab.bits());
        for vector in &mut self.vectors[..2] {
            if vector.saturating_mul(bits) < 32 {
                *vector = 1;
            }
        }
    }
}

/// What the parts of K are parts of, where clusters divide it. A call takes plans of stream-K only where they are given or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Each tile that is divided has the same number of parts, which a second kernel adds.
    SplitK,
    /// Each tile that is divided has the same number of parts, 2 to 8. The last warpgroup to come to the end of its part
    /// adds the others, and stores the tile as it stores a whole one. There is no second kernel, and the bits are those of as many parts by
    /// [`SplitK`](Division::SplitK). CUTLASS calls the exchange fixup.
    SplitKFixup,
    /// The steps along K of all tiles that are divided are one row, in even shares that may begin and end inside of tiles and cross
    /// their borders ([`StreamKRow`](colex_sched::StreamKRow)). A share stores the tiles that it has whole; its parts of others go
    /// to the workspace.
    StreamK,
}

/// The step of the widths of a kernel for several, by the width of its widest tile: a tile has at most eight widths above half of it.
const WIDTHS: [(i64, i64); 2] = [(128, 8), (256, 16)];

/// The most parts of a tile whose last warpgroup to arrive adds the others.
pub(crate) const MOST_FIXUP: i64 = 8;

/// The fewest steps along K that a share has of a tile that is divided by stream-K: to write and read the sums of a part takes as long as
/// about two steps of the largest tile.
pub(crate) const LEAST_STEPS: i64 = 2;

/// The most tiles of a plan whose K is not divided.
pub(crate) const MOST_UNDIVIDED: i64 = 1 << 40;

/// A kernel and its numbers.
///
/// The fields may hold any numbers. Every plan becomes a kernel that computes the right product, or is refused with an
/// error that names the limit: [`check`](Self::check) and [`build`](Self::build) refuse what the kernel does not take,
/// [`Gemm::prepare_with`](super::Gemm::prepare_with) what does not suit the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmPlan {
    /// The generation.
    pub method: GemmMethod,
    /// The facts about the matrices.
    pub operands: Operands,
    /// The tile of a block, along M, N and K.
    pub tile: [i64; 3],
    /// The columns of C that a tile has, where one kernel serves several widths (Hopper): a multiple of 16, above half of `tile[1]` and at
    /// most `tile[1]`, which is then a multiple of 16 too. Up to 128 columns, with one block along M in a cluster and A and B of no `i8`,
    /// multiples of 8 do. With an epilogue of the caller, these are whole parts in which TMA stores C. Plans that differ in this number
    /// alone have one kernel with a main loop for each width, and each launch gives it the number. 0 stands for a kernel of one width,
    /// whose tiles have `tile[1]` columns. A kernel of several widths computes one product, which it does not add to C. It takes K whole,
    /// or in parts that [the last warpgroup to arrive](Division::SplitKFixup) adds. The rows of B (of A, if the plan swaps them) are
    /// contiguous along K. TMA loads A and B and stores C, but for up to 56 columns of 16 bits or 24 of 32 bits at the end of a tile, which
    /// threads store. Blocks along M of its clusters are at most 2.
    pub columns: i64,
    /// The number of pipeline stages: 2 for SIMT and Volta, 2 to 64 for Ampere and Hopper, 1 for GEMV.
    pub stages: i64,
    /// Threads (SIMT), warps (Volta, Ampere) or consumer warpgroups (Hopper, 1 along N) along M and N. Of the 256 threads of
    /// the GEMV kernel, those along N; the others share K.
    pub warps: [i64; 2],
    /// How the consumer warpgroups share the tiles (Hopper; cooperative for the others). With [`Schedule::Pingpong`], a block has two
    /// consumers, each of which computes whole tiles: `tile` and `warps` are those of one consumer. Their main loops take turns,
    /// so that one multiplies while the other stores. K is not divided.
    pub schedule: Schedule,
    /// The blocks of a cluster along M, N and K (Hopper; 1 each for the others). Blocks along M share the tile of B
    /// and those along N that of A: each loads its part for all, of up to 4 blocks along both. Up to 8 blocks along K divide the sum: each has a part of
    /// K, and then each sums a part of the tile's columns over all blocks, in the order of their ranks. The GEMV kernel takes
    /// up to 8 blocks along K too.
    pub cluster: [i64; 3],
    /// The number of parts into which clusters divide K (Hopper; 1 for the others). Each writes its sums to a workspace. A
    /// second kernel adds them in the order of the parts and stores C. By [`Division::SplitKFixup`], the last warpgroup to arrive does.
    pub split: i64,
    /// What these are parts of: each tile, or the row of the steps of all tiles that are divided (split-K if `split` is 1).
    pub division: Division,
    /// The number of the clusters' tiles whose K is not divided: the first of the order (0 if `split` is 1). Those that
    /// fill whole rounds need no parts.
    pub undivided: i64,
    /// Whether a kernel uses programmatic dependent launch (Hopper, and GEMV from `sm_90` on): it may begin before the launch before it on
    /// the stream has ended, and its blocks take the multiprocessors that this launch leaves, prepare themselves, and wait there until it has
    /// ended and its writes are visible. So does the kernel that adds the parts of K. No other work of the stream sees a difference but in time. The model of time sets this for
    /// short products; a plan with `false` in [`Gemm::prepare_with`](super::Gemm::prepare_with) is launched in order.
    pub early: bool,
    /// The order in which blocks (on Hopper, clusters) visit the tiles: a grouped order with strips of 1 to 65536 tiles.
    pub order: Order,
    /// Whether the kernel multiplies B by A and stores the transpose of C (Hopper, GEMV). The tile, the warps, the cluster and
    /// the order are then those of the kernel, whose M is the problem's N. With few rows, an instruction has fewer columns
    /// that are not used than rows.
    pub swap: bool,
    /// Whether the threads of a warpgroup load A and B by `cp.async` or through registers, in place of TMA (Hopper). They
    /// load rows of any alignment into the same tiles of shared memory.
    pub gather: bool,
    /// Whether the tiles must divide the problem. A call sets this by itself if they do; the Ampere kernel then has no
    /// predicates.
    pub whole: bool,
}

impl GemmPlan {
    /// Returns the default plan of a method.
    pub fn new(method: GemmMethod, mut operands: Operands) -> GemmPlan {
        // What may be rounded to tf32 is multiplied as it is.
        if (method, operands.ab) == (GemmMethod::Simt, Ty::Tf32) {
            operands.ab = Ty::F32;
        }
        operands.narrow_bytes();
        let Numbers {
            tile,
            stages,
            warps,
            cluster,
        } = method.family().numbers(&operands);
        let mut plan = GemmPlan {
            method,
            operands,
            tile,
            columns: 0,
            stages,
            warps,
            schedule: Schedule::Cooperative,
            cluster,
            split: 1,
            division: Division::SplitK,
            undivided: 0,
            early: false,
            order: Order::Grouped {
                width: 8,
                raster: if method == GemmMethod::Hopper {
                    RasterOrder::AlongN
                } else {
                    RasterOrder::AlongM
                },
            },
            swap: false,
            gather: false,
            whole: false,
        };
        if operands.gated {
            // As many accumulators and as much of the right factors as with one.
            plan.tile[1] = (plan.tile[1] / 2).max(plan.steps()[1]);
        }
        plan
    }

    /// Builds the kernel for an architecture.
    ///
    /// ```
    /// use colex_atom::{Arch, MmaAtom, Ty};
    /// use colex_gpu::kernels::Major;
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::F16, c: Ty::F16, majors, vectors: [8; 3], beta: false, gated: false };
    /// let plan = GemmPlan::new(GemmMethod::Hopper, operands);
    /// assert_eq!(plan.build(Arch::Sm90a)?.kernel.block, Some([384, 1, 1]));
    ///
    /// let refused = GemmPlan { stages: 1, ..plan }.build(Arch::Sm90a).unwrap_err();
    /// assert_eq!(refused.to_string(), "the plan's number of stages is 1: the Hopper kernel takes 2 to 64");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names the limit if the kernel does not take a number of the plan, or if it needs more than
    /// a block has. Returns the error of the layout algebra, with the line of the kernel, if a layout has no such
    /// partition.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, crate::Error> {
        self.check(arch)?;
        let built = self.unverified(BatchForm::default(), None, arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel of a product in groups, as [`build`](GemmPlan::build) does that of one product.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::gemm::Groups;
    /// use colex_gpu::kernels::Major;
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false, gated: false };
    /// let plan = GemmPlan::new(GemmMethod::Hopper, operands);
    /// let built = plan.build_groups(Groups::Rows, Arch::Sm90a)?;
    /// let names: Vec<_> = built.parameters().map(|parameter| parameter.name.to_string()).collect();
    /// assert_eq!(names, ["A", "B", "C", "rows_of_C", "m", "n", "k", "l0", "offsets", "alpha", "beta"]);
    ///
    /// let plan = GemmPlan { split: 2, ..plan };
    /// let refused = plan.build_groups(Groups::AlongK, Arch::Sm90a).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "groups: the plan divides K into 2 parts for 1 blocks of a cluster each: K of a group is not divided"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](GemmPlan::build), and an error if the kernel takes no such groups.
    pub fn build_groups(&self, groups: Groups, arch: Arch) -> Result<TensorKernel, crate::Error> {
        self.check(arch)?;
        let one = GemmProblem::new(1, 1, 1);
        groups::check(groups, self, &one)?;
        let operands = groups::narrowed(groups, (self.method, self.gather), self.operands);
        let plan = GemmPlan {
            operands,
            whole: false,
            ..*self
        };
        let built = plan.unverified(BatchForm::of_groups(groups), None, arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel that adds the parts of K and stores C; `None` if the plan does not divide K among clusters, or if their blocks
    /// add the parts themselves.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::kernels::Major;
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::F16, c: Ty::F16, majors, vectors: [8; 3], beta: false, gated: false };
    /// let plan = GemmPlan::new(GemmMethod::Hopper, operands);
    /// assert!(plan.build_sum(Arch::Sm90a)?.is_none());
    /// let sum = GemmPlan { split: 4, ..plan }.build_sum(Arch::Sm90a)?;
    /// assert_eq!(sum.map(|sum| sum.kernel.block), Some(Some([128, 1, 1])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](GemmPlan::build).
    pub fn build_sum(&self, arch: Arch) -> Result<Option<TensorKernel>, crate::Error> {
        if !self.has_sum_kernel() {
            return Ok(None);
        }
        self.check(arch)?;
        let built = self.unverified_sum(BatchForm::default(), None, arch)?;
        built.kernel.verify()?;
        Ok(Some(built))
    }

    /// Builds the kernel that adds the parts of K, for a load.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](GemmPlan::build), except those of the verifier.
    pub(crate) fn unverified_sum(
        &self,
        batch: BatchForm,
        epilogue: Option<&KernelEpilogue>,
        arch: Arch,
    ) -> Result<TensorKernel, crate::Error> {
        self.check_kernel(arch)?;
        let launched = self.launched();
        let epilogue = launched.epilogue(epilogue);
        Ok(split_sum::build(&launched, batch, &epilogue, arch)?)
    }

    /// The epilogue that is given, or else that of a scaled sum.
    fn epilogue(&self, given: Option<&KernelEpilogue>) -> KernelEpilogue {
        match given {
            Some(epilogue) => epilogue.clone(),
            None => KernelEpilogue::scaled(&self.operands),
        }
    }

    /// Builds the kernel as [`build`](GemmPlan::build) does, for a load, which verifies it; with an epilogue that is not a scaled
    /// sum if one is given.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](GemmPlan::build), except those of the verifier.
    pub(crate) fn unverified(
        &self,
        batch: BatchForm,
        epilogue: Option<&KernelEpilogue>,
        arch: Arch,
    ) -> Result<TensorKernel, crate::Error> {
        self.check_kernel(arch)?;
        if self.columns != 0 && !batch.is_one() {
            let why = "the plan's kernel has several widths: it computes one product";
            return Err(crate::error::flag(why.to_string()));
        }
        let launched = self.launched();
        let epilogue = launched.epilogue(epilogue);
        Ok(self
            .method
            .family()
            .build(&launched, batch, &epilogue, arch)?)
    }

    /// The plan for the extents of a problem, of a plan that was checked: where a vector must be whole, one that they
    /// are no multiples of is narrower.
    pub(crate) fn narrowed(mut self, problem: &GemmProblem) -> GemmPlan {
        let family = self.method.family();
        self.whole = family.gains_from_whole() && self.remainder(problem).is_none();
        let usual = GemmPlan {
            whole: self.whole,
            ..GemmPlan::new(self.method, self.operands)
        };
        let is_usual = self == usual;
        // A load by TMA takes the part of a vector that there is. A store by TMA does not: on an H200 it wrote the rest
        // of the 16 bytes too. `cp.async` would, but memcheck counts the bytes that it leaves as read.
        let parts = |name| name != Operand::C && family.loads_parts() && !self.gather;
        let parts = Operand::ALL.map(parts);
        for name in Operand::ALL {
            let along = match self.operands.majors[name as usize] {
                Major::First => 0,
                Major::Second => 1,
            };
            let (extent, vector) = (
                problem.extents(name)[along].0,
                &mut self.operands.vectors[name as usize],
            );
            while !parts[name as usize] && extent % *vector != 0 {
                *vector /= 2;
            }
        }
        self.operands.narrow_bytes();
        if is_usual {
            let whole = self.whole;
            self = GemmPlan {
                whole,
                ..GemmPlan::new(self.method, self.operands)
            };
        }
        self
    }

    /// Whether C goes through shared memory and TMA, both ways if it is read: 16 or 32 bits, rows (or columns) that begin
    /// and end at multiples of 16 bytes, and whole parts of a tile.
    pub(crate) fn stages_c(&self) -> bool {
        let operands = &self.operands;
        let bits = i64::from(operands.c.bits());
        self.method == GemmMethod::Hopper
            && [16, 32].contains(&bits)
            && operands.vector(Operand::C) * bits == 128
            && super::epilogue::sm90::columns(self).is_some()
    }

    /// The plan of the kernel that is launched: that of the transposed product if A and B are swapped.
    pub(crate) fn launched(&self) -> GemmPlan {
        if !self.swap {
            return *self;
        }
        let ([a, b, c], [va, vb, vc]) = (self.operands.majors, self.operands.vectors);
        GemmPlan {
            operands: Operands {
                majors: [b, a, c.transposed()],
                vectors: [vb, va, vc],
                ..self.operands
            },
            swap: false,
            ..*self
        }
    }

    /// The problem as the kernel sees it, and the operands in its order.
    pub(crate) fn seen(&self, problem: &GemmProblem) -> (GemmProblem, [usize; 3]) {
        if self.swap {
            (problem.turned(), [1, 0, 2])
        } else {
            (*problem, [0, 1, 2])
        }
    }

    /// The plan of the kernel, which takes any number of parts of K if it takes several: of each tile, or shares of the row, which are
    /// two kernels. Two parts that a block adds have a kernel of their own. One of plain products waits for the launch before it where it can: whether it begins before that has ended is left to
    /// its launch.
    pub(crate) fn of_kernel(&self, form: &BatchForm, arch: Arch) -> GemmPlan {
        let parts = match self.division {
            Division::SplitK | Division::StreamK => 2,
            Division::SplitKFixup => 3,
        };
        GemmPlan {
            split: self.split.min(parts),
            undivided: 0,
            columns: if self.columns == 0 { 0 } else { self.tile[1] },
            early: self.early || form.is_plain() && self.can_begin_early(arch),
            ..*self
        }
    }

    /// Whether a kernel of the method can wait for the launch before it.
    pub(crate) fn can_begin_early(&self, arch: Arch) -> bool {
        match self.method {
            GemmMethod::Hopper => true,
            GemmMethod::Gemv => arch >= Arch::Sm90,
            GemmMethod::Simt | GemmMethod::Volta | GemmMethod::Ampere => false,
        }
    }

    /// The extents along M and N of what a block computes of C at once.
    pub(crate) fn computed(&self) -> [i64; 2] {
        let [m, n, _] = self.tile;
        [m, if self.columns == 0 { n } else { self.columns }]
    }

    /// The widths of the tiles of a plan's kernel, if it has several: the launch gives one of them.
    pub(crate) fn widths(&self) -> Option<Vec<i64>> {
        let (widest, step) = (self.tile[1], self.width_step());
        let all = (1..=widest / step).map(|number| number * step);
        (self.columns != 0).then(|| all.filter(|width| 2 * width > widest).collect())
    }

    /// The step of the widths of a plan's kernel. The rows of B that a block of two loads of it are whole periods of the swizzle, of eight.
    /// Instructions of bytes have no other steps.
    pub(crate) fn width_step(&self) -> i64 {
        if self.operands.ab == Ty::S8 {
            return 16;
        }
        let mut steps = WIDTHS.iter().filter(|(most, _)| self.tile[1] <= *most);
        let step = steps.next().map_or(16, |(_, step)| *step);
        step.max(8 * self.cluster[0])
    }

    /// The columns of a part of C, of which the width of a tile is a multiple where a kernel for several widths has an epilogue of the
    /// caller: each formula is there once, and no columns are left behind the last whole part.
    pub(crate) fn part_columns(&self) -> i64 {
        own_columns(&self.launched().stored()).unwrap_or(self.width_step())
    }

    /// The clusters' tiles of a problem.
    pub(crate) fn cluster_tiles(&self, problem: &GemmProblem) -> i64 {
        let (problem, _) = self.seen(problem);
        let tile = self.computed();
        let along = |extent: i64, mode: usize| {
            let tile = tile[mode].saturating_mul(self.cluster[mode]);
            (extent - 1) / tile + 1
        };
        let tiles = along(problem.m, 0).saturating_mul(along(problem.n, 1));
        tiles.saturating_mul(problem.batch)
    }

    /// The clusters' tiles of a problem whose K is divided.
    pub(crate) fn divided_tiles(&self, problem: &GemmProblem) -> i64 {
        match self.split {
            1 => 0,
            _ => (self.cluster_tiles(problem) - self.undivided).max(0),
        }
    }

    /// The steps along K of a tile of a problem: those of each block of a cluster that divides K.
    pub(crate) fn steps_of(&self, problem: &GemmProblem) -> i64 {
        let step = self.tile[2].saturating_mul(self.cluster[2]).max(1);
        (problem.k - 1) / step + 1
    }

    /// The parts of each tile, or the shares of all, of a number of tiles that are divided with these steps each: none has less than
    /// one step, or than [`LEAST_STEPS`] of a row.
    pub(crate) fn parts_of(&self, tiles: i64, steps: i64) -> i64 {
        let most = match self.division {
            Division::SplitK | Division::SplitKFixup => steps,
            Division::StreamK => tiles.saturating_mul(steps) / LEAST_STEPS,
        };
        self.split.min(most.max(1))
    }

    /// The places of a workspace for the parts of a number of clusters' tiles.
    pub(crate) fn places(&self, tiles: i64) -> i64 {
        match self.division {
            Division::SplitK => tiles.saturating_mul(self.split),
            // Of two parts, one is written.
            Division::SplitKFixup if self.split == 2 => tiles,
            Division::SplitKFixup => tiles.saturating_mul(self.split),
            // A part has the number of its share and of its tile.
            Division::StreamK if tiles > 0 => tiles.saturating_add(self.split - 1),
            Division::StreamK => 0,
        }
    }

    /// The numbers of whole tiles and of parts or shares that clusters take for a number of clusters' tiles.
    pub(crate) fn items(&self, tiles: i64) -> i64 {
        let divided = match self.split {
            1 => 0,
            _ => (tiles - self.undivided).max(0),
        };
        let parts = match self.division {
            Division::SplitK | Division::SplitKFixup => divided.saturating_mul(self.split),
            Division::StreamK if divided > 0 => self.split,
            Division::StreamK => 0,
        };
        (tiles - divided).saturating_add(parts)
    }

    /// The bytes of the sums of one part of K of a cluster's tile.
    pub(crate) fn bytes_of_parts(&self) -> i64 {
        let [m, n, _] = self.tile;
        let [along_m, along_n, _] = self.cluster;
        m * n * along_m * along_n * 4 * self.operands.right_factors()
    }

    /// Whether a second kernel adds the parts of K.
    pub(crate) fn has_sum_kernel(&self) -> bool {
        match self.division {
            Division::SplitK | Division::StreamK => self.split > 1,
            Division::SplitKFixup => false,
        }
    }

    /// What is said of the parts of K.
    pub(crate) fn adder(&self) -> &'static str {
        match self.division {
            Division::SplitK | Division::StreamK => "another kernel adds",
            Division::SplitKFixup => "one of them adds",
        }
    }

    /// The words of 32 bits by which the blocks meet that have parts of one tile of a problem: one for each warpgroup of a tile.
    pub(crate) fn words(&self, problem: &GemmProblem) -> i64 {
        match self.division {
            Division::SplitK | Division::StreamK => 0,
            Division::SplitKFixup => {
                let blocks = self.cluster.iter().product::<i64>();
                let each = blocks.saturating_mul(self.warps[0]);
                self.divided_tiles(problem).saturating_mul(each)
            }
        }
    }

    /// Returns the bytes of memory through which the parts of K of a problem are summed; 0 if K is not divided.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::kernels::{GemmProblem, Major};
    /// use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
    ///
    /// let majors = [Major::Second; 3];
    /// let operands = Operands { ab: Ty::Bf16, c: Ty::Bf16, majors, vectors: [8; 3], beta: false, gated: false };
    /// let plan = GemmPlan { cluster: [1, 1, 1], split: 8, ..GemmPlan::new(GemmMethod::Hopper, operands) };
    /// // 8 parts of 2 tiles of 128 by 256 f32.
    /// assert_eq!(plan.workspace(&GemmProblem::new(200, 256, 65536)), 8 * 2 * 131072);
    /// ```
    pub fn workspace(&self, problem: &GemmProblem) -> i64 {
        if self.split == 1 {
            return 0;
        }
        let (plan, problem) = (self.possible(), problem.possible());
        let places = plan.places(plan.divided_tiles(&problem));
        plan.bytes_of_parts().saturating_mul(places)
    }

    /// The plan whose numbers are the nearest that a kernel may take: what is computed of a plan before its check fits 64 bits.
    pub(crate) fn possible(&self) -> GemmPlan {
        let within = |n: i64, most: i64| n.clamp(1, most);
        GemmPlan {
            operands: self.operands.possible(),
            tile: self.tile.map(|n| within(n, 1 << 12)),
            columns: self.columns.clamp(0, 1 << 12),
            stages: within(self.stages, 1 << 12),
            warps: self.warps.map(|n| within(n, 1 << 10)),
            cluster: self.cluster.map(|n| within(n, 16)),
            split: within(self.split, 1 << 12),
            undivided: self.undivided.clamp(0, MOST_UNDIVIDED),
            ..*self
        }
    }

    /// The tiles that a block computes at once.
    pub(crate) fn tiles_at_once(&self) -> i64 {
        match self.schedule {
            Schedule::Cooperative => 1,
            Schedule::Pingpong => 2,
        }
    }

    /// The consumer warpgroups of a block.
    pub(crate) fn consumer_groups(&self) -> i64 {
        self.warps[0].saturating_mul(self.tiles_at_once())
    }

    /// The plan of what one block stores: where the blocks of a cluster divide K, each stores a part of the columns.
    pub(crate) fn stored(&self) -> GemmPlan {
        let [m, n, k] = self.tile;
        let [along_m, along_n, along_k] = self.cluster;
        GemmPlan {
            tile: [m, n / along_k, k],
            cluster: [along_m, along_n, 1],
            ..*self
        }
    }

    /// The matrix instruction repeated over the warps.
    pub(crate) fn tiled_mma(&self) -> Result<TiledMma, Error> {
        self.method.family().tiled_mma(self)
    }

    /// An instruction repeated over the units of the plan, with a tile.
    pub(crate) fn over_units(
        &self,
        atom: MmaAtom,
        tile: impl IntoTiler,
    ) -> Result<TiledMma, Error> {
        let [m, n] = self.warps;
        Ok(TiledMma::new(atom, ((m, n, 1), (1, m, 0)), tile)?)
    }
}

/// The number of elements of a vector that a leading dimension, an address and the bytes of an element allow.
pub(crate) fn vector(bytes: i64, address: u64, leading: i64) -> i64 {
    let fits = |n: &i64| address.is_multiple_of((n * bytes) as u64) && leading % n == 0;
    [16, 8, 4, 2]
        .into_iter()
        .map(|wide| wide / bytes)
        .find(|n| *n > 0 && fits(n))
        .unwrap_or(1)
}

impl fmt::Display for GemmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        let Operands { ab, c, .. } = self.operands;
        let [_, columns] = self.computed();
        write!(f, "{} {ab} to {c}, tile {m}x{columns}x{k}", self.method)?;
        if self.columns != 0 {
            write!(f, " of up to {n} columns")?;
        }
        f.write_str(", ")?;
        match self.method {
            GemmMethod::Gemv => write!(
                f,
                "{} threads along N, {} blocks along K, ",
                self.warps[1], self.cluster[2]
            )?,
            _ => write!(f, "{} stages, ", self.stages)?,
        }
        if self.method == GemmMethod::Hopper {
            let [along_m, along_n, along_k] = self.cluster;
            write!(
                f,
                "{} consumers{}, cluster {along_m}x{along_n}x{along_k}, ",
                self.consumer_groups(),
                match self.schedule {
                    Schedule::Cooperative => "",
                    Schedule::Pingpong => " by pingpong",
                }
            )?;
            match (self.division, self.split) {
                (Division::SplitK, 1) => {}
                (Division::SplitK, parts) => write!(f, "{parts} parts of K")?,
                (Division::SplitKFixup, parts) => {
                    write!(f, "{parts} parts of K added by the last block")?
                }
                (Division::StreamK, shares) => write!(f, "stream-K in {shares} shares")?,
            }
            match (self.division, self.split, self.undivided) {
                (Division::SplitK, 1, _) => {}
                (_, _, 0) => f.write_str(", ")?,
                (_, _, whole) => write!(f, " after {whole} tiles, ")?,
            }
        }
        f.write_str(if self.early { "early, " } else { "" })?;
        self.order.fmt(f)?;
        f.write_str(if self.operands.gated {
            ", two right factors"
        } else {
            ""
        })?;
        f.write_str(if self.swap { ", A and B swapped" } else { "" })?;
        if self.method == GemmMethod::Hopper {
            let transposed = [Operand::A, Operand::B].map(|of| self.operands.is_transposed(of));
            f.write_str(match transposed {
                [false, false] => "",
                [true, false] => ", A transposed in shared memory",
                [false, true] => ", B transposed in shared memory",
                [true, true] => ", A and B transposed in shared memory",
            })?;
        }
        f.write_str(if self.gather {
            ", loaded by threads"
        } else {
            ""
        })
    }
}
