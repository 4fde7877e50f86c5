//! `AttentionPlan`: the kernel of an attention call, with its tile and stages.

use core::fmt;

use std::ops::RangeInclusive;

use colex_atom::{Arch, Ty};
use colex_tensor::TensorKernel;

use super::combine::{self, MOST_ROWS};
use super::family::sizes;
use super::problem::{AttentionProblem, MOST_LENGTH, Mask, Sequences, TYPES};
use super::schedule::{self, MOST_ITEMS, MOST_SEQUENCES};
use crate::error::{AttentionError, Error, ErrorKind, PlanRefusal, begins_late, flag, heads_of};
use crate::method::AttentionMethod;

/// The facts about a problem that a kernel is built from. Extents, strides, the numbers of a window, the scale and the
/// soft-cap's number are arguments of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionOperands {
    /// The type of Q, K, V and O.
    pub ty: Ty,
    /// The features of Q and K, and those of V and O.
    pub features: [i64; 2],
    /// Which scores are masked besides those of keys that do not exist: for each side of a query's place, whether it has a
    /// bound. A causal mask bounds the right side, a window both.
    pub bounded: [bool; 2],
    /// Whether scores are capped.
    pub softcap: bool,
    /// Whether the log-sum-exp is an output.
    pub log_sum_exp: bool,
    /// Whether the heads of Q have sinks.
    pub sinks: bool,
    /// Whether the queries of all sequences are packed into the rows of one tensor, and whether their keys are.
    pub packed: [bool; 2],
    /// The rows of a page, if the keys and values lie in pages.
    pub page: Option<i64>,
    /// The numbers of elements that one access to Q, K, V and O may take. Addresses and strides are multiples of them.
    pub vectors: [i64; 4],
}

/// The part of the time of a method that is faster in most cases, at which another one is taken: the model is not more precise.
const CLEARLY: f64 = 0.9;

/// The words of sequences of one length, and of packed ones.
const PACKED: [&str; 2] = ["of one length", "packed"];

impl AttentionOperands {
    /// Returns the facts about a problem whose tensors begin at these addresses.
    pub fn of(problem: &AttentionProblem, addresses: [u64; 4]) -> AttentionOperands {
        let bytes = i64::from(problem.ty.bits() / 8);
        let vector = |i: usize| {
            let strides = &problem.strides[i][..3];
            let fits = |n: &i64| {
                addresses[i].is_multiple_of((n * bytes) as u64)
                    && strides.iter().all(|s| s % n == 0)
            };
            [8, 4, 2].into_iter().find(fits).unwrap_or(1)
        };
        AttentionOperands {
            ty: problem.ty,
            features: problem.features,
            bounded: match problem.mask {
                Mask::Full => [false, false],
                Mask::Causal => [false, true],
                Mask::Window { .. } => [true, true],
            },
            softcap: problem.softcap.is_some(),
            log_sum_exp: problem.log_sum_exp,
            sinks: problem.sinks.is_some(),
            packed: (problem.sequences).map(|of| matches!(of, Sequences::Packed { .. })),
            page: match problem.sequences[1] {
                Sequences::Paged { rows, .. } => Some(rows),
                Sequences::Batch | Sequences::Packed { .. } => None,
            },
            vectors: [0, 1, 2, 3].map(vector),
        }
    }

    /// Whether queries see all keys before their place, and none after it.
    pub(crate) fn is_causal(&self) -> bool {
        self.bounded == [false, true]
    }
}

/// Whether kernels may begin before the launch before them has ended on an architecture.
pub(super) fn begins_early(arch: Arch) -> bool {
    arch >= Arch::Sm90
}

/// The error of a call that no method takes, with why each does not.
pub(super) fn no_kernel(refusals: &[Error]) -> Error {
    let refusals: Vec<String> = refusals.iter().map(Error::to_string).collect();
    let why = format!("no kernel takes the call: {}", refusals.join("; "));
    AttentionError::Unbuilt { why }.into()
}

/// A kernel and its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionPlan {
    /// The generation.
    pub method: AttentionMethod,
    /// The facts about the problem.
    pub operands: AttentionOperands,
    /// The queries of a block, and the keys of a step.
    pub tile: [i64; 2],
    /// The number of warps (Ampere) or of consumer warpgroups (Hopper), which divide the queries of a block.
    pub consumers: i64,
    /// The number of pipeline stages of K and V.
    pub stages: i64,
    /// Whether the consumers follow a pingpong schedule: they take turns in issuing their products, so that the softmax of one
    /// runs beside the products of another (Hopper, with several consumers).
    pub turns: bool,
    /// The number of heads that are computed side by side, so that the L2 cache holds their keys and values (Hopper).
    pub strip: i64,
    /// Whether a block computes tiles of queries in pairs, one that sees many keys and one that sees few: equal work for every
    /// block (Hopper, under a causal mask).
    pub pairs: bool,
    /// The number of tiles of queries in shared memory: with 2, one is loaded while another is computed (Hopper).
    pub ahead: i64,
    /// The number of neighbouring heads of Q whose queries share a tile, a divisor of the heads of Q for each head of K: with
    /// `n`, row `i` of the tile is query `i / n` of head `i % n` of the pack, and a block reads K and V once for all of them
    /// (Ampere).
    pub packs: i64,
    /// The number of blocks among which the keys of a tile of queries are divided. If there are several, a second kernel adds
    /// their parts in the order of the keys (Ampere).
    pub splits: i64,
    /// Whether the lanes of a warp share the parts of a row in the second kernel; if not, a thread adds all parts of a row in the
    /// order of the keys (Ampere).
    pub by_lanes: bool,
    /// Whether a kernel that runs first sorts the sequences of packed queries, so that no block takes an empty tile and the
    /// longest sequences come first (Hopper).
    pub sorted: bool,
    /// Whether a kernel uses programmatic dependent launch (from `sm_90` on): it may begin before the launch before it on the
    /// stream has ended, and its blocks take the multiprocessors that this launch leaves, prepare themselves, and wait there
    /// for its end. So do the kernel that adds the parts of the keys and the one that sorts sequences.
    pub early: bool,
    /// The number of steps whose keys and values a block asks the L2 cache for while it waits for the launch before it, after it
    /// has computed where they lie. So a block needs less time after the wait until its first loads arrive. Nothing is read before
    /// the wait ends. Where the rows of a head do not follow each other in memory, a block only computes. `None`: a block waits
    /// first (Ampere, with `early`, neither packed nor paged).
    pub prefetch: Option<i64>,
    /// Whether the kernel that adds the parts of the keys lets the launch behind it begin before it has waited for the parts; if
    /// not, after that (Ampere, with `early`).
    pub next_early: bool,
    /// The most blocks that run on a multiprocessor at once, which a block ensures by the shared memory that it takes; 0: as
    /// many as have room. Where a launch begins early, its blocks spread over the multiprocessors as those before them did
    /// (Ampere).
    pub beside: i64,
    /// Whether a consumer issues the scores of the next keys before the product of the present weights with their values, so that
    /// the softmax of the one runs beside the other; if not, after it (Hopper).
    pub overlap: bool,
    /// Whether there are as many blocks as multiprocessors, each of which computes tile after tile; if not, a block for each tile
    /// or pair of tiles (Hopper).
    pub persistent: bool,
    /// The number of blocks of a cluster, which compute neighbouring tiles of queries of a head side by side: each loads its part
    /// of K and V for all of them (Hopper, without a mask).
    pub cluster: i64,
    /// The registers of a thread of the producer and of a consumer, multiples of 8; `None`: those that suit the number of consumers
    /// (Hopper).
    pub registers: Option<[i64; 2]>,
}

impl AttentionPlan {
    /// Returns the default plan of a method. [`AttentionPlan::check`] refuses it where the kernel does not take the operands.
    pub fn new(method: AttentionMethod, operands: AttentionOperands) -> AttentionPlan {
        method.family().default_of(AttentionPlan {
            method,
            operands,
            tile: [64, 64],
            consumers: 4,
            stages: 2,
            turns: false,
            strip: 1,
            pairs: false,
            ahead: 1,
            packs: 1,
            splits: 1,
            by_lanes: false,
            sorted: false,
            early: false,
            prefetch: None,
            next_early: false,
            beside: 0,
            overlap: false,
            persistent: false,
            cluster: 1,
            registers: None,
        })
    }

    /// Returns the same plan with the numbers that depend on the extents of a problem and on the multiprocessors of a device.
    ///
    /// The Ampere kernel packs as many heads of Q that read one head of K as have their queries in one tile of 64 rows, and
    /// takes a tile of fewer rows where there are fewer. Where one tile has all queries of a pack, it divides the keys among as
    /// many blocks as take the least time by the model of [`cost`](AttentionPlan::cost), or into equal parts where that takes no
    /// more than 2 % longer. Lanes add the parts where the model says that this is faster. As many blocks run at once as have room
    /// in 160 KiB of shared memory of each multiprocessor. Where the keys of 128 features stay whole, a step has 32 of them.
    ///
    /// The Hopper kernel takes two consumers instead of three where 64 features meet a causal mask of few queries, no more
    /// consumers than have a query each, and steps of 64 or 32 keys where there are no more. Of 256 features without a mask
    /// or under a causal one, and of 192 and 128 under a causal one, its default computes one product after the other. Where steps
    /// of 80 keys would compute 5 % more keys than steps of 64, 256 features without a mask take these, with overlapping products.
    /// It sorts packed sequences, up to 2048 of them, where they may have more items than the device has multiprocessors.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    ///
    /// // One query of each of 32 heads, in groups of 8 on a head of K.
    /// let problem = AttentionProblem::new(Ty::Bf16, 64, [32, 4], [1, 8192], [128, 128]);
    /// let plan = AttentionPlan::new(AttentionMethod::Ampere, AttentionOperands::of(&problem, [0; 4]));
    /// assert_eq!(
    ///     plan.suited_to(&problem, 132).to_string(),
    ///     "Ampere bf16, features 128, tile 16x32, 1 consumers, 2 stages, packs of 8 heads"
    /// );
    /// // One sequence has only four blocks.
    /// let one = AttentionProblem::new(Ty::Bf16, 1, [32, 4], [1, 8192], [128, 128]);
    /// assert_eq!(plan.suited_to(&one, 132).splits, 43);
    /// ```
    #[must_use]
    pub fn suited_to(self, problem: &AttentionProblem, multiprocessors: u32) -> AttentionPlan {
        let family = self.method.family();
        family.suited_to(self, problem, multiprocessors.into())
    }

    /// Returns the plan that a call takes unless it is given one: of the methods that take the problem on an architecture, the
    /// plan of the one that is the fastest by the model of [`cost`](AttentionPlan::cost). Ampere's kernel is taken in place of
    /// Hopper's where the model says at most 0.9 of the time. From `sm_90` on, kernels begin early where the keys are divided or the
    /// model says at most 12 microseconds.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionOperands, AttentionPlan, AttentionProblem, Mask};
    ///
    /// let of = |queries, arch| {
    ///     let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 8], [queries; 2], [64, 64]).mask(Mask::Causal);
    ///     AttentionPlan::fastest(&problem, AttentionOperands::of(&problem, [0; 4]), arch, 132)
    /// };
    /// // Few queries leave two consumers more blocks to share.
    /// assert_eq!(of(1024, Arch::Sm90a)?.tile, [128, 128]);
    /// assert_eq!(of(8192, Arch::Sm90a)?.tile, [192, 128]);
    /// assert_eq!(of(1024, Arch::Sm80)?.to_string(), "Ampere bf16, features 64, tile 64x64, 4 consumers, 2 stages");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that says for each method why it does not take the problem.
    pub fn fastest(
        problem: &AttentionProblem,
        operands: AttentionOperands,
        arch: Arch,
        multiprocessors: u32,
    ) -> Result<AttentionPlan, Error> {
        let mut refusals = Vec::new();
        let mut best: Option<(f64, AttentionPlan)> = None;
        for method in AttentionMethod::BY_SPEED {
            let plan = AttentionPlan::new(method, operands).suited_to(problem, multiprocessors);
            let plan = plan.beginning(problem, (arch, multiprocessors));
            let checked = plan.check(arch);
            match checked.and_then(|()| plan.check_problem(problem)) {
                Ok(()) => {
                    let time = plan.cost(problem, multiprocessors).total();
                    if best.is_none_or(|(least, _)| time < CLEARLY * least) {
                        best = Some((time, plan));
                    }
                }
                Err(error) => refusals.push(error),
            }
        }
        match best {
            Some((_, plan)) => Ok(plan),
            None => Err(no_kernel(&refusals)),
        }
    }

    /// Checks that the kernel can be built: the types and head sizes on an architecture, and every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        let AttentionOperands { ty, vectors, .. } = self.operands;
        if !TYPES.contains(&ty) {
            return Err(ErrorKind::from(AttentionError::Type { ty }).into());
        }
        let names = ["vector of Q", "vector of K", "vector of V", "vector of O"];
        for (what, found) in names.into_iter().zip(vectors) {
            if !matches!(found, 1 | 2 | 4 | 8) {
                let most = 8;
                return Err(ErrorKind::PlanVector {
                    what,
                    found,
                    ty,
                    most,
                }
                .into());
            }
        }
        if self.operands.packed[1] && self.operands.page.is_some() {
            return Err(ErrorKind::from(AttentionError::OffsetsAndPages).into());
        }
        if self.by_lanes && self.splits == 1 {
            let why = "the plan's lanes share the parts of a row: it has one part of the keys";
            return Err(AttentionError::plan(PlanRefusal::Combination, why).into());
        }
        if self.early && !begins_early(arch) {
            return Err(flag(begins_late(arch)));
        }
        let refused = |why: &str| Err(AttentionError::plan(PlanRefusal::Combination, why).into());
        if self.prefetch.is_some() && !self.early {
            return refused(
                "the plan asks the L2 cache for keys before it waits: its kernels do not begin early",
            );
        }
        if self.next_early && !(self.early && self.splits > 1) {
            return refused(
                "the plan lets the launch behind its second kernel begin early: it needs several parts of the keys, and an early \
                 begin of its own",
            );
        }
        self.method.family().check(self, arch)
    }

    /// Builds the kernel for an architecture.
    ///
    /// Parameters of an Ampere kernel: the tensors Q, K and O as (sequence, feature, head, batch), the one of V as (feature,
    /// sequence, head, batch); if the log-sum-exp is an output, the tensor of f32 (sequence, head, batch); if there are sinks, the
    /// tensor of f32 (head); the offsets of packed queries and of packed keys, tensors of u32 with one more than the sequences; of
    /// keys in pages the table (sequence, entry) and the numbers of keys, tensors of u32; then as `u32` the numbers of queries, keys, and heads of Q for each head of K. A plan that packs `n` heads has ((head of the pack,
    /// sequence), feature, pack, batch) for Q and O, ((head of the pack, sequence), pack, batch) for the log-sum-exp, and the
    /// number of packs for each head of K. A plan that divides the keys has the outputs of the parts in place of O, ((head of the
    /// pack, sequence), feature, pack, batch, part), and their maxima and sums, two tensors ((head of the pack, sequence), pack,
    /// batch, part), in place of the log-sum-exp and the sinks, all of f32. Then as `f32` the factor in the exponent of 2 and, where scores
    /// are capped, the factor before the hyperbolic tangent; as `u32` the two sides of a window. There is a block for each tile
    /// of queries of each head.
    ///
    /// Parameters of a Hopper kernel: the same tensors, those of 16-bit numbers as tensor maps, but O of packed queries; of a
    /// plan that sorts sequences the two vectors of [`build_schedule`](AttentionPlan::build_schedule); then as
    /// `u32` the numbers of queries, keys, heads of Q, sequences, and heads of Q for each head of K, and of packed keys the number
    /// of all rows; then as for an Ampere kernel the factors and
    /// the sides of a window. The blocks are persistent.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 2], [100, 300], [64, 64]);
    /// let operands = AttentionOperands::of(&problem, [0; 4]);
    /// let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
    /// assert_eq!(plan.build(Arch::Sm80)?.kernel.block, Some([128, 1, 1]));
    ///
    /// let refused = AttentionPlan { stages: 1, ..plan }.build(Arch::Sm80).unwrap_err();
    /// assert_eq!(refused.to_string(), "the plan's number of stages is 1: the Ampere attention kernel takes 2 to 8");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](AttentionPlan::check), and the error of the layout algebra, with the line of the kernel,
    /// if a layout has no such partition.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let built = self.unverified(arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel as [`build`](AttentionPlan::build) does, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        self.method.family().build(self, arch)
    }

    /// Builds the kernel that adds the parts of the keys; `None` if the plan does not divide them.
    ///
    /// Its parameters are tensors of f32 in the workspace: the outputs of the parts before the division (row, feature, part),
    /// the maxima of their rows and their sums (row, part); then O (row, feature), the log-sum-exp (row, 1) if it is an
    /// output, and the sinks (row, 1) if there are any. A row is (head of the pack, sequence, pack, batch). Of packed queries O, the
    /// log-sum-exp, the sinks and the query offsets have the modes of [`build`](AttentionPlan::build), and behind them is, as `u32`,
    /// the most queries of a sequence. A thread has four features of a row, or a warp where lanes share the parts.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem};
    ///
    /// let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 2], [1, 30_000], [64, 64]);
    /// let operands = AttentionOperands::of(&problem, [0; 4]);
    /// let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
    /// assert!(plan.build_combination(Arch::Sm80)?.is_none());
    /// let plan = AttentionPlan { splits: 8, ..plan };
    /// let combination = plan.build_combination(Arch::Sm80)?;
    /// assert_eq!(combination.map(|built| built.kernel.block), Some(Some([128, 1, 1])));
    /// // For each of 8 rows and 8 parts 64 features and two numbers, in pieces of 256 bytes.
    /// assert_eq!(plan.workspace(&problem), 8 * 8 * (64 + 2) * 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](AttentionPlan::build).
    pub fn build_combination(&self, arch: Arch) -> Result<Option<TensorKernel>, Error> {
        if self.splits == 1 {
            return Ok(None);
        }
        let built = self.unverified_combination(arch)?;
        built.kernel.verify()?;
        Ok(Some(built))
    }

    /// Builds the kernel that adds the parts of the keys, for a load.
    pub(crate) fn unverified_combination(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(combine::build(self, arch)?)
    }

    /// Builds the kernel that sorts packed sequences; `None` if the plan does not.
    ///
    /// Its parameters are the query offsets, and the key offsets or the numbers of keys of keys in pages, if there are any; then,
    /// as tensors of u32 in the workspace, the first item of each sequence with the number of all items behind them, and the
    /// sequences in descending order of their numbers of keys, those with as many in their own order; then as `u32` the most
    /// queries and keys of a sequence, the heads of Q, the rows of queries, and of packed keys their rows. A sequence has an item
    /// for each head and tile of queries, or pair of tiles.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::attention::{AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Sequences};
    ///
    /// let mut problem = AttentionProblem::new(Ty::Bf16, 30, [16, 16], [8192, 8192], [128, 128]);
    /// problem.sequences = [Sequences::Packed { rows: 32768 }; 2];
    /// let plan = AttentionPlan::new(AttentionMethod::Hopper, AttentionOperands::of(&problem, [0; 4]));
    /// assert!(plan.build_schedule(Arch::Sm90a)?.is_none());
    /// let plan = plan.suited_to(&problem, 132);
    /// assert!(plan.sorted);
    /// assert_eq!(plan.build_schedule(Arch::Sm90a)?.map(|built| built.kernel.block), Some(Some([256, 1, 1])));
    /// // Two vectors of about 30 numbers, in pieces of 256 bytes.
    /// assert_eq!(plan.workspace(&problem), 2 * 256);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`build`](AttentionPlan::build).
    pub fn build_schedule(&self, arch: Arch) -> Result<Option<TensorKernel>, Error> {
        if !self.sorted {
            return Ok(None);
        }
        let built = self.unverified_schedule(arch)?;
        built.kernel.verify()?;
        Ok(Some(built))
    }

    /// Builds the kernel that sorts packed sequences, for a load.
    pub(crate) fn unverified_schedule(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(schedule::build(self, arch)?)
    }

    /// Returns the bytes of device memory that a call with the plan needs besides its tensors: 0, unless it divides the keys or
    /// sorts sequences.
    pub fn workspace(&self, problem: &AttentionProblem) -> u64 {
        let of_order = if self.sorted {
            schedule::places(problem)[2]
        } else {
            0
        };
        match self.splits {
            1 => of_order,
            _ => combine::places(problem, self)[3].saturating_add(of_order),
        }
    }

    /// The plan of which the kernel is built: the number of parts is an argument of the launch.
    pub(crate) fn built(&self) -> AttentionPlan {
        let splits = self.splits.min(2);
        // So is the number of blocks.
        let persistent = self.method == AttentionMethod::Hopper;
        AttentionPlan {
            splits,
            persistent,
            ..*self
        }
    }

    /// Checks that the plan is for a call with such tensors.
    ///
    /// # Errors
    ///
    /// Returns an error if the types, the head sizes or the kind of scores are others, or if the plan's accesses are wider than
    /// addresses and strides allow.
    pub(crate) fn check_call(&self, call: &AttentionOperands) -> Result<(), Error> {
        let plan = &self.operands;
        let differs = |what, plan: String, call: String| {
            let why = AttentionError::PlanCall { what, plan, call };
            Err(ErrorKind::from(why).into())
        };
        if plan.ty != call.ty {
            return differs(
                "the tensors are of",
                plan.ty.to_string(),
                call.ty.to_string(),
            );
        }
        if plan.features != call.features {
            let [plan, call] = [plan.features, call.features].map(heads_of);
            return differs("there are", plan, call);
        }
        if plan.bounded != call.bounded {
            let mask = |bounded: [bool; 2]| match bounded {
                [false, false] => "full",
                [false, true] => "causal",
                _ => "a window",
            };
            let [plan, call] = [plan.bounded, call.bounded].map(|of| mask(of).to_string());
            return differs("the mask is", plan, call);
        }
        let flags = [
            (
                "scores are",
                plan.softcap,
                call.softcap,
                ["not capped", "capped"],
            ),
            (
                "the log-sum-exp is",
                plan.log_sum_exp,
                call.log_sum_exp,
                ["no output", "an output"],
            ),
            (
                "the heads have",
                plan.sinks,
                call.sinks,
                ["no sinks", "sinks"],
            ),
            (
                "the sequences of queries are",
                plan.packed[0],
                call.packed[0],
                PACKED,
            ),
            (
                "the sequences of keys are",
                plan.packed[1],
                call.packed[1],
                PACKED,
            ),
        ];
        for (what, plan, call, words) in flags {
            if plan != call {
                let [plan, call] = [plan, call].map(|flag| words[usize::from(flag)].to_string());
                return differs(what, plan, call);
            }
        }
        if plan.page != call.page {
            let words = |page: Option<i64>| match page {
                Some(rows) => format!("in pages of {rows} rows"),
                None => "in no pages".to_string(),
            };
            return differs("the keys lie", words(plan.page), words(call.page));
        }
        let accesses = [
            "Q is read by",
            "K is read by",
            "V is read by",
            "O is written by",
        ];
        for (i, what) in accesses.into_iter().enumerate() {
            let (plan, call) = (plan.vectors[i], call.vectors[i]);
            if plan > call {
                let call = format!("no more than {call} can be");
                return differs(what, format!("{plan} elements"), call);
            }
        }
        Ok(())
    }

    /// Checks that the plan is for a problem that was checked: its extents, and the heads that are packed.
    ///
    /// # Errors
    ///
    /// Returns an error that names the extent, and what the kernel takes.
    pub(crate) fn check_problem(&self, problem: &AttentionProblem) -> Result<(), Error> {
        let [heads, of_keys] = problem.heads;
        let (packs, group) = (self.packs, heads / of_keys.max(1));
        if packs > 1 && group % packs != 0 {
            return Err(ErrorKind::from(AttentionError::Packs { packs, group }).into());
        }
        if let [length, _] = problem.lengths
            && length > MOST_LENGTH / packs
        {
            let (what, most) = ("queries of a plan that packs heads", MOST_LENGTH / packs);
            return Err(ErrorKind::from(AttentionError::Length { what, length, most }).into());
        }
        let [batch, queries] = [problem.batch, problem.lengths[0]];
        let rows = batch.saturating_mul(heads).saturating_mul(queries);
        let refused = |why: String| Err(AttentionError::plan(PlanRefusal::Limit, why).into());
        if self.splits > 1 && rows > MOST_ROWS {
            let why = format!(
                "{rows} queries of all heads and sequences: a plan that divides the keys takes at most {MOST_ROWS}"
            );
            return refused(why);
        }
        if self.sorted && batch > MOST_SEQUENCES {
            return refused(format!(
                "{batch} sequences: a plan that sorts them takes at most {MOST_SEQUENCES}"
            ));
        }
        let items = schedule::most_items(self, problem);
        if self.method == AttentionMethod::Hopper && items >= MOST_ITEMS {
            return refused(format!(
                "{items} tiles of queries of all heads and sequences, each as long as the longest: the Hopper kernel takes fewer than {MOST_ITEMS}"
            ));
        }
        self.method.family().check_problem(problem)
    }

    /// The name of the kernel in errors.
    fn kernel(&self) -> String {
        format!("{} attention", self.method)
    }

    /// Checks that a number of the plan lies in a range and is a multiple of `step`.
    pub(crate) fn number(
        &self,
        what: &'static str,
        found: i64,
        range: RangeInclusive<i64>,
        step: i64,
    ) -> Result<(), Error> {
        if range.contains(&found) && found % step == 0 {
            return Ok(());
        }
        Err(ErrorKind::Plan {
            method: self.kernel(),
            what,
            found,
            least: *range.start(),
            most: *range.end(),
            step,
        }
        .into())
    }

    /// Checks that what the plan asks for is at most what the kernel has.
    pub(crate) fn limit(&self, what: &'static str, found: i64, most: i64) -> Result<(), Error> {
        if found <= most {
            return Ok(());
        }
        Err(ErrorKind::PlanLimit {
            method: self.kernel(),
            what,
            found,
            most,
        }
        .into())
    }

    /// The error of head sizes that are not among those of the kernel.
    pub(crate) fn other_features(&self, features: &[[i64; 2]]) -> Error {
        let why = AttentionError::Features {
            method: self.method,
            features: self.operands.features,
            can: sizes(features),
        };
        ErrorKind::from(why).into()
    }

    /// The error of a tile that the threads cannot share equally.
    pub(crate) fn no_shares(&self, operand: &'static str, tile: [i64; 2], threads: i64) -> Error {
        ErrorKind::PlanShares {
            method: self.kernel(),
            operand,
            tile,
            threads,
        }
        .into()
    }
}

/// `Ampere bf16, features 64, tile 64x64, 4 consumers, 2 stages`
impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [queries, keys] = self.tile;
        let AttentionOperands {
            ty,
            features: [inner, outer],
            ..
        } = self.operands;
        write!(f, "{} {ty}, features {inner}", self.method)?;
        if inner != outer {
            write!(f, " and {outer}")?;
        }
        write!(
            f,
            ", tile {queries}x{keys}, {} consumers, {} stages",
            self.consumers, self.stages
        )?;
        if self.turns {
            f.write_str(", in turns")?;
        }
        if self.strip != 1 {
            write!(f, ", strips of {} heads", self.strip)?;
        }
        if self.pairs {
            f.write_str(", in pairs")?;
        }
        if self.ahead != 1 {
            write!(f, ", {} tiles of queries", self.ahead)?;
        }
        if self.packs != 1 {
            write!(f, ", packs of {} heads", self.packs)?;
        }
        if self.splits != 1 {
            write!(f, ", {} parts of the keys", self.splits)?;
        }
        if self.by_lanes {
            f.write_str(", added by lanes")?;
        }
        if self.sorted {
            f.write_str(", longest sequences first")?;
        }
        if self.early {
            f.write_str(", early")?;
        }
        if let Some(steps) = self.prefetch {
            write!(f, ", {steps} steps asked for before the wait")?;
        }
        if self.next_early {
            f.write_str(", the next launch too")?;
        }
        if self.beside != 0 {
            write!(f, ", at most {} blocks beside each other", self.beside)?;
        }
        // The words are those of what the method does not do by itself.
        match (self.method, self.overlap) {
            (AttentionMethod::Ampere, false) | (AttentionMethod::Hopper, true) => {}
            (AttentionMethod::Ampere, true) => f.write_str(", overlapping products")?,
            (AttentionMethod::Hopper, false) => f.write_str(", one product after the other")?,
        }
        match (self.method, self.persistent) {
            (AttentionMethod::Ampere, false) | (AttentionMethod::Hopper, true) => {}
            (AttentionMethod::Ampere, true) => f.write_str(", persistent blocks")?,
            (AttentionMethod::Hopper, false) => f.write_str(", a block for each tile")?,
        }
        if self.cluster != 1 {
            write!(f, ", clusters of {}", self.cluster)?;
        }
        if let Some([producer, consumer]) = self.registers {
            write!(f, ", {producer} and {consumer} registers")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_problem_and_the_words_of_a_plan() {
        let mut problem = AttentionProblem::new(Ty::Bf16, 2, [4, 2], [3, 5], [192, 128]);
        problem.mask = Mask::Causal;
        problem.strides[1][2] = 196;
        problem.strides[2][0] += 1;
        let operands = AttentionOperands::of(&problem, [64, 0, 0, 12]);
        assert_eq!(operands.vectors, [8, 4, 1, 2]);
        assert_eq!(operands.bounded, [false, true]);
        let plan = AttentionPlan {
            method: AttentionMethod::Ampere,
            operands,
            tile: [128, 64],
            consumers: 8,
            stages: 2,
            turns: true,
            strip: 4,
            pairs: true,
            ahead: 2,
            packs: 4,
            splits: 8,
            by_lanes: true,
            sorted: true,
            early: true,
            prefetch: Some(2),
            next_early: true,
            beside: 3,
            overlap: true,
            persistent: true,
            cluster: 2,
            registers: Some([40, 232]),
        };
        assert_eq!(
            plan.to_string(),
            "Ampere bf16, features 192 and 128, tile 128x64, 8 consumers, 2 stages, in turns, strips of 4 heads, in pairs, 2 tiles of queries, packs of 4 heads, 8 parts of the keys, added by lanes, longest sequences first, early, 2 steps asked for before the wait, the next launch too, at most 3 blocks beside each other, overlapping products, persistent blocks, clusters of 2, 40 and 232 registers"
        );
    }

    /// A plan that is suited to a problem is one that the check takes, if the check takes the plan itself; and plans of any numbers
    /// and types are suited and cost something without a panic.
    #[test]
    fn law_a_suited_plan_is_checked_if_the_plan_is() {
        let mut state = 11_u64;
        let mut one_of = |all: &[i64]| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            all[(state >> 33) as usize % all.len()]
        };
        let (mut cases, mut of_method, mut changed) = (0, [0; 2], 0);
        for round in 0..6000 {
            let method = AttentionMethod::BY_SPEED[round % 2];
            let is_ampere = method == AttentionMethod::Ampere;
            let arch = if is_ampere {
                [Arch::Sm80, Arch::Sm86, Arch::Sm90a][one_of(&[0, 1, 2]) as usize]
            } else {
                Arch::Sm90a
            };
            let heads = [[64; 2], [96; 2], [128; 2], [192, 128], [192; 2], [256; 2]];
            let features = heads[one_of(&[0, 1, 2, 3, 4, 5]) as usize];
            let types = [Ty::F16, Ty::Bf16, Ty::B1, Ty::S4];
            let ty = types[one_of(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 3]) as usize];
            let wide = !is_ampere || one_of(&[0, 1, 1]) == 1;
            let operands = AttentionOperands {
                ty,
                features,
                bounded: [[false; 2], [false, true], [true; 2]][one_of(&[0, 0, 1, 2]) as usize],
                softcap: one_of(&[0, 1]) == 1,
                log_sum_exp: false,
                sinks: false,
                packed: [one_of(&[0, 0, 1]) == 1, false],
                page: [None, Some(16), Some(48)][one_of(&[0, 0, 0, 1, 2]) as usize],
                vectors: [0; 4].map(|_| if wide { 8 } else { one_of(&[1, 2, 4, 8]) }),
            };
            let consumers = one_of(&[1, 1, 2, 2, 3, 4, 5, 6, 8, 12, 16]);
            let rows = if is_ampere { 16 } else { 64 };
            let few = one_of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
            let keys = one_of(&[16, 16, 32, 48, 64, 80, 96, 128, few]);
            let plan = AttentionPlan {
                tile: [rows * consumers * one_of(&[1, 1, 1, 2]), keys],
                consumers,
                stages: one_of(&[1, 2, 2, 3, 7]),
                ..AttentionPlan::new(method, operands)
            };
            let early = arch == Arch::Sm90a && one_of(&[0, 1]) == 1;
            let plan = if is_ampere {
                let splits = one_of(&[1, 2, 5]);
                AttentionPlan {
                    early,
                    splits,
                    by_lanes: splits > 1 && one_of(&[0, 1]) == 1,
                    next_early: splits > 1 && early && one_of(&[0, 1]) == 1,
                    beside: one_of(&[0, 1, 8]),
                    ..plan
                }
            } else {
                AttentionPlan {
                    early,
                    turns: consumers > 1 && one_of(&[0, 1]) == 1,
                    pairs: operands.is_causal() && one_of(&[0, 1]) == 1,
                    ahead: one_of(&[1, 1, 2]),
                    cluster: one_of(&[1, 1, 1, 2, 3, 4]),
                    registers: [None, Some([24, 208]), Some([24, 160])]
                        [one_of(&[0, 0, 1, 2]) as usize],
                    ..plan
                }
            };
            let queries = one_of(&[1, 1, 2, 3, 5, 12, 40, 90, 200, 5000]);
            let lengths = [queries, one_of(&[1, 20, 50, 100, 700, 9000])];
            let of_keys = one_of(&[1, 2, 8]);
            let heads = [of_keys * one_of(&[1, 2, 3, 4, 8, 20]), of_keys];
            let batch = one_of(&[1, 2, 100]);
            let problem = AttentionProblem::new(ty, batch, heads, lengths, features);
            let suited = plan.suited_to(&problem, 132);
            for plan in [plan, suited] {
                let cost = plan.cost(&problem, 132).total();
                assert!(cost.is_finite() && cost > 0.0, "{plan}: {cost}");
            }
            cases += 1;
            if plan.check(arch).is_ok() {
                assert_eq!(suited.check(arch), Ok(()), "{plan} for {problem}: {suited}");
                of_method[usize::from(is_ampere)] += 1;
                changed += usize::from(suited != plan);
            }
        }
        assert!(of_method.iter().all(|count| *count > 40), "{of_method:?}");
        println!(
            "law attention.suited: {cases} cases, {of_method:?} plans of Hopper and Ampere are checked, {changed} change"
        );
    }

    /// Steps of keys that instructions do not divide by two stay whole.
    #[test]
    fn odd_steps_of_keys_are_not_halved() {
        let keys_of = |features: i64, keys: i64| {
            let problem = AttentionProblem::new(Ty::F16, 64, [32, 8], [1, 8192], [features; 2]);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
            let plan = AttentionPlan {
                tile: [64, keys],
                ..plan
            };
            plan.suited_to(&problem, 132).tile[1]
        };
        assert_eq!([1, 8, 16, 48].map(|n| keys_of(256, n)), [1, 8, 16, 48]);
        assert_eq!([32, 64].map(|n| keys_of(256, n)), [16, 32]);
        assert_eq!([16, 48].map(|n| keys_of(128, n)), [16, 48]);
        assert_eq!([32, 64].map(|n| keys_of(128, n)), [16, 32]);
    }

    /// A block of a part finds its first keys by numbers of 32 bits: those of 64 are checked, and a division of them takes longer
    /// than a load. A block that asks the L2 cache does so before it waits.
    #[test]
    fn the_places_of_parts_take_32_bits() {
        let problem = AttentionProblem::new(Ty::Bf16, 1, [32, 8], [1, 9000], [128; 2]);
        let plan = AttentionPlan::new(
            AttentionMethod::Ampere,
            AttentionOperands::of(&problem, [0; 4]),
        );
        let plan = AttentionPlan {
            splits: 32,
            early: true,
            ..plan.suited_to(&problem, 132)
        };
        for prefetch in [None, Some(0), Some(2)] {
            let built = AttentionPlan { prefetch, ..plan }.build(Arch::Sm90a);
            let ptx = built.expect("a kernel").kernel.ptx().expect("a text");
            assert!(!ptx.contains("div.s64") && !ptx.contains("trap"), "{ptx}");
            let at = |what| ptx.find(what);
            let wait = at("griddepcontrol.wait").expect("it waits");
            match prefetch {
                None => assert!(wait < at("div.u32").expect("a division")),
                Some(n) => {
                    assert!(wait > at("div.u32").expect("a division"));
                    let requests = ptx[..wait].matches("cp.async.bulk.prefetch.L2.global");
                    // Of each step one for the keys and one for the values.
                    assert_eq!(requests.count(), 2 * n as usize);
                }
            }
            assert!(at("cp.async.cg").is_some_and(|load| load > wait));
        }
    }

    /// The kernel that adds the parts counts the rows with 32 bits.
    #[test]
    fn a_plan_that_divides_the_keys_takes_a_bounded_number_of_rows() {
        let of = |batch, queries| {
            let problem = AttentionProblem::new(Ty::Bf16, batch, [64, 64], [queries, 9], [64, 64]);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
            let divided = AttentionPlan { splits: 2, ..plan };
            [plan, divided].map(|plan| {
                let checked = plan.check_problem(&problem);
                checked.map_err(|error| error.to_string())
            })
        };
        assert_eq!(of(1 << 10, 1 << 8), [Ok(()), Ok(())]);
        let why = "16777280 queries of all heads and sequences: a plan that divides the keys takes at most 16777216";
        assert_eq!(of(1, (1 << 18) + 1), [Ok(()), Err(why.to_string())]);
        let why = "4611686018427387904 queries of all heads and sequences: a plan that divides the keys takes at most 16777216";
        assert_eq!(of(1 << 28, 1 << 28)[1], Err(why.to_string()));
    }
}
