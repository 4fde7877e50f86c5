//! `RowwisePlan`: how rows are divided among threads, and the reasons for it.

use core::fmt;

use colex_atom::{Arch, Ty};
use colex_device::Rates;
use colex_ir::launch::Limits;
use colex_layout::Layout;
use colex_tensor::TensorKernel;

use super::kernel;
use super::problem::{RowFunction, RowTensor, RowwiseOperands, RowwiseProblem, check_type};
use crate::error::{Error, RowwiseError};
use crate::gemm::sm90::clusters_at_once;
use crate::memory_bound::plan::{
    MOST_GRID, MOST_THREADS, PlanCheck, WARP, WIDEST, check_operands, check_width, counted, div_up,
    has_clusters, power_up, product, refused_operands, steps,
};

/// How a kernel divides rows among its threads.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
///
/// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [100, 1000]);
/// let plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
/// assert_eq!(
///     plan.to_string(),
///     "softmax bf16, vectors of 8, 32 threads for a row, 4 rows in a block, 4 accesses, rows in registers"
/// );
/// plan.check(Arch::Sm90a)?;
/// let refused = RowwisePlan { threads: 48, ..plan }.check(Arch::Sm90a).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "the plan's number of threads of a row is 48: the softmax kernel takes a power of two, 1 to 1024"
/// );
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowwisePlan {
    /// What the kernel knows of its tensors.
    pub operands: RowwiseOperands,
    /// The elements of an access: 1, 2, 4 or 8, and at most 16 bytes.
    pub vector: i64,
    /// The threads of a block that share a row: a power of two.
    pub threads: i64,
    /// The rows of a block: a power of two.
    pub rows: i64,
    /// The accesses of a thread to each tensor that are under way at once; of rows staged in shared memory, the elements that a thread has
    /// of a row.
    pub accesses: i64,
    /// The blocks that share a row: those of a cluster, 1, 2, 4 or 8, or of a team ([`RowStorage::Teams`]), any number up to 256.
    pub blocks: i64,
    /// Where the rows are between their reading and the results.
    pub storage: RowStorage,
    /// Whether the warps of a row make one cross-warp reduction, in place of two for its totals. In a softmax, each warp takes the powers under its own
    /// maximum; the warps exchange the maximum with the sum, and the results are multiplied by the power of the difference of both
    /// maxima, so that they differ in the last bits. In a layer norm, each warp takes the squares of the differences from its own mean; the
    /// warps exchange the sums of both, and the results differ in the last bits too. In an RMSNorm, rows that follow each other exchange
    /// through memory in turn.
    pub meets_once: bool,
    /// Whether shared memory keeps the weight and the bias of a norm. Each block copies them there once, before its first results, and reads
    /// them for each of its rows, in place of loading them again from the second-level cache. Each thread copies the elements of its own
    /// columns and reads no others, so a block has them once for each of its `rows`: for one row of 16384 columns of `bf16`, the weight and
    /// the bias take 64 KiB. The results have the same bits. Of blocks that have one tile of rows after the other
    /// ([`RowStorage::Ahead`]), with accesses of at least 4 bytes, from `sm_80` on, and of blocks whose groups take rows in turn;
    /// [`keeping_weights`](RowwisePlan::keeping_weights) builds such plans.
    pub keeps_weights: bool,
}

/// Where rows are between their reading and the results.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::rowwise::{RowFunction, RowStorage, RowwisePlan, RowwiseProblem};
///
/// let plan = |columns| {
///     let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1000, columns]);
///     RowwisePlan::fastest(&problem, Arch::Sm90a).map(|plan| plan.storage)
/// };
/// assert_eq!(plan(4096)?, RowStorage::Registers);
/// assert_eq!(plan(1 << 13)?, RowStorage::Registers);
/// assert!(matches!(plan(1 << 16)?, RowStorage::Ahead { rows: 3, .. }));
/// assert!(matches!(plan(1 << 20)?, RowStorage::Passes { .. }));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowStorage {
    /// The threads have a whole row in registers. The launch has a block or a cluster for each tile of rows.
    Registers,
    /// The threads have a whole row in registers. Each cluster of the launch has one tile of rows after the other, and shared
    /// memory receives the next ones meanwhile.
    Ahead {
        /// The tiles of rows that are under way to shared memory, or there. If there are 0, a thread loads its part of a tile into
        /// registers when the cluster begins the tile.
        rows: i64,
        /// The most clusters of the launch.
        clusters: i64,
    },
    /// The threads have a whole row in registers. Rows lie one after the other without gaps, begin where they do, and are peeled:
    /// accesses take the vectors inside of a row at multiples of their width, and single elements what is left at both ends. A thread loads the
    /// weight and the bias of its columns by single elements.
    Shifted {
        /// The rows that are under way to registers while a block computes one: 0 or 1, and 0 if a block has one row alone.
        rows: i64,
        /// The most blocks of the launch: a multiple of the vector. Each has one row after the other, and as many rows lie between two of
        /// them as there are blocks, so that all of them begin equally far behind a multiple of the vector. So a thread has the same columns
        /// of each row, and registers keep the weight and the bias of these. If there are 0, the launch has a block for each row.
        clusters: i64,
    },
    /// A block copies its rows to shared memory, and the results from there, by whole vectors: rows lie one after the other without
    /// gaps, so those of a block are one span of elements. There, each thread takes single elements of a row into registers. Of short rows,
    /// whose threads are lanes of one warp.
    Staged {
        /// The tiles of rows that are under way to registers while a block computes one: 0 or 1, and 0 if a block has one tile alone.
        rows: i64,
        /// The most blocks of the launch. Each has one tile of rows after the other, and registers keep the weight and the bias of a thread's
        /// columns. If there are 0, the launch has a block for each tile.
        clusters: i64,
    },
    /// The threads have a whole row in registers. Each cluster of the launch has one row after the other, and groups of threads take
    /// them in turn: while one group waits for the other blocks of the cluster, another one reduces a row or stores it. Bulk copies
    /// bring the rows to a ring of slots in shared memory, and a slot receives its next row when a group has taken a row from it into
    /// registers. For Hopper, vectors of 16 bytes, and functions whose warps meet once.
    Alternating {
        /// The groups of threads of a block. Each has the plan's number of threads.
        groups: i64,
        /// The slots of the ring, each for a block's part of a row: as many for each group. A group that shared a slot with another one
        /// could be two rows of the slot ahead of it, which the parity of the slot's barrier does not tell from none.
        slots: i64,
        /// The most clusters of the launch.
        clusters: i64,
    },
    /// The threads have a whole row in registers, as of [`Alternating`](RowStorage::Alternating), but the blocks that share a row are a
    /// team: all blocks of the launch run at once (a cooperative launch), and those of a team meet through global memory. So a row may
    /// have the registers and the shared memory of many more blocks than a cluster has. For Hopper, vectors of 16 bytes, and functions
    /// whose warps meet once. A call needs memory for the totals of the blocks ([`workspace`](RowwisePlan::workspace)), which no other
    /// kernel may write: it keeps what the last launch left.
    Teams {
        /// The groups of threads of a block. Each has the plan's number of threads.
        groups: i64,
        /// The slots of the ring, as many for each group.
        slots: i64,
        /// The most teams of the launch.
        teams: i64,
        /// The number of rows that a group begins between the totals and the results of a row. If it is 0, the group waits for the other
        /// blocks of its team, and the row stays in registers. Otherwise the row stays in its slot, and the group begins as many further rows
        /// before it reads the row again from the slot and stores its results: by then, the other blocks have left their totals. A group has
        /// at least one slot more.
        lag: i64,
    },
    /// Registers and shared memory hold a whole row together: the threads have some of its chunks in registers, and shared memory keeps
    /// the others. So several blocks of a multiprocessor have a row each, and one of them stores while another one computes. Each thread
    /// copies its own elements and reads them. Each cluster of the launch has one row after the other: where a thread has read a chunk
    /// for its results, it asks for the same chunk of the next row. Of functions that read one tensor, and of rows that end in the last
    /// chunk of all blocks.
    Divided {
        /// The chunks of each thread that registers hold: the last ones of a row.
        held: i64,
        /// The chunks of each block that shared memory keeps.
        kept: i64,
        /// The most clusters of the launch.
        clusters: i64,
    },
    /// Rows lie beside each other: columns have another stride than 1, and a mode of the rows has the stride 1 in every tensor with rows.
    /// Vectors are along this mode, and neighbouring threads have neighbouring vectors, so a block has `rows` rows by `rows / vector` threads
    /// beside each other. Each of these is one of the plan's `threads`, which share a row and have a column at a time.
    Turned {
        /// Whether rows are read again for the results, after one pass for all totals. Otherwise the threads have whole rows in
        /// registers.
        again: bool,
    },
    /// The row is read again for the results.
    Passes {
        /// The chunks of each block that shared memory keeps, so that they are read once.
        kept: i64,
    },
}

impl RowStorage {
    /// Returns whether registers hold a whole row.
    pub(crate) fn is_whole(self) -> bool {
        match self {
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. } => true,
            RowStorage::Turned { again } => !again,
            RowStorage::Passes { .. } => false,
        }
    }

    /// Returns the groups of threads of a block that have rows of their own.
    pub(crate) fn groups(self) -> i64 {
        match self {
            RowStorage::Alternating { groups, .. } | RowStorage::Teams { groups, .. } => groups,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => 1,
        }
    }

    /// Returns the chunks for which a block has shared memory.
    pub(crate) fn slots(self) -> i64 {
        match self {
            RowStorage::Registers
            | RowStorage::Shifted { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Turned { .. } => 0,
            RowStorage::Ahead { rows, .. } => rows,
            RowStorage::Alternating { slots, .. } | RowStorage::Teams { slots, .. } => slots,
            RowStorage::Divided { kept, .. } => kept,
            RowStorage::Passes { kept: 0 } => 0,
            RowStorage::Passes { kept } => kept.saturating_add(STREAMED),
        }
    }

    /// Returns the chunks of a block's part of a row that is held whole.
    pub(crate) fn chunks(self) -> i64 {
        match self {
            RowStorage::Divided { held, kept, .. } => held.saturating_add(kept),
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => 1,
        }
    }
}

/// The chunks that are on their way through shared memory beside those that it keeps.
pub(crate) const STREAMED: i64 = 4;

/// The most slots of shared memory, and the most clusters of a launch in which each has several rows.
const MOST_SLOTS: i64 = 64;
const MOST_CLUSTERS: i64 = 4096;

/// The most blocks of a team, and the most rows of a call whose blocks are in teams: a launch has as many tags at most.
const MOST_OF_TEAM: i64 = 256;
pub(crate) const MOST_TEAM_ROWS: i64 = 1 << 22;

/// The registers of a thread beside the rows that it holds where results lag.
const LAGGING_REGISTERS: i64 = 60;

/// The named barriers of a block beside its own, and the most groups whose results lag: each has two.
const NAMED_BARRIERS: i64 = 15;
const MOST_LAGGING_GROUPS: i64 = NAMED_BARRIERS / 2;

/// The words of 32 bits in front of those of the blocks of teams, and how many words are made 0 at once: those of a block are a multiple of it.
pub(crate) const TEAM_HEADER: i64 = 32;
pub(crate) const CLEARED_WORDS: i64 = 4;

/// The most groups of a block that take rows in turn, the bytes that all of them have in registers, half of what there is, and those of a
/// thread; and the slots by default of each group.
const MOST_GROUPS: i64 = 8;
const BLOCK_BYTES: i64 = 1 << 17;
const THREAD_BYTES: i64 = 256;
const SLOTS: i64 = 4;

/// The bytes of shared memory that the totals of a divided row take at most, and the threads of a multiprocessor of which each has as many
/// registers as such a row needs.
const DIVIDED_TOTALS: i64 = 1024;
const DIVIDED_THREADS: i64 = 1024;

/// The registers of a multiprocessor, and those of a thread whose block keeps weights: these beside its elements of a row, and at least.
const REGISTERS: i64 = 65536;
const OWN_REGISTERS: i64 = 32;
const LEAST_REGISTERS: i64 = 64;

/// Rows that lie beside each other: the bytes of a column that a block takes at once, the first ones preferred; the threads of a block, which
/// hold 64 KiB of its rows, and the least of a block of few columns; the accesses of a thread under way in passes, and the least of a
/// cluster; and the registers of a thread beside those of its elements. Measured on an H200 as shares of a copy (gpu/PERFORMANCE.md), softmax
/// along mode 0 of (1000,65536) and mode 1 of (64,1024,1024): of `f32`, 128 bytes by 512 threads 0.84 and 0.94, and 64 bytes by 256 threads
/// 0.74 and 0.91; of `bf16` these 0.75 and 0.83, and 128 bytes by 512 threads 0.67 for both. In passes along mode 0 of (65536,1024), 256
/// threads 0.59 and 0.46, 512 threads 0.49 and 0.41.
const TURNED_BYTES: [i64; 2] = [128, 64];
const TURNED_THREADS: i64 = 256;
const TURNED_LEAST: i64 = 128;
const TURNED_ACCESSES: i64 = 4;
const TURNED_REGISTERS: i64 = 56;

/// The most bytes of a divided row that a thread has in registers.
const DIVIDED_BYTES: i64 = 128;

/// Rows of a softmax or log-softmax that registers and shared memory hold together by default, on a fast memory.
struct DividedRows {
    /// The bytes of an element.
    size: i64,
    /// The bytes of a row above which it is one of these, and the most.
    bytes: [i64; 2],
    /// The blocks of a row, the threads of a block, and the blocks of a multiprocessor.
    of_row: [i64; 3],
    /// Whether the launch has a cluster for each row. Otherwise it has as many as run at once.
    is_of_all: bool,
}

/// The lengths of rows that registers and shared memory hold together by default. Measured on an H200, as shares of a copy, in brackets
/// what the default was before: `f32` of 20000 0.960 (0.946), 24576 0.955 (0.937), 32768 0.953 (0.898), 40000 0.945 (0.848), 52000 0.920,
/// 65536 0.931 (0.888), 98304 0.914, 131072 0.909 (0.847) and 262144 0.902 (0.815); `bf16` of 20000 0.964 (0.909), 24576 0.965 (0.905), 32768 0.955 (0.906), 40000
/// 0.952 (0.882), 52000 0.929, 65536 0.917 (0.857), 98304 0.888, 131072 0.899 (0.802), 262144 0.871 (0.783) and 524288 0.826 (0.803). Lengths between were not measured.
const DIVIDED: &[DividedRows] = &[
    DividedRows {
        size: 4,
        bytes: [1 << 16, 88 << 10],
        of_row: [1, 512, 2],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [88 << 10, 208 << 10],
        of_row: [1, 1024, 1],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [208 << 10, 1 << 18],
        of_row: [4, 256, 4],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [1 << 18, 416 << 10],
        of_row: [4, 256, 3],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [416 << 10, 1 << 19],
        of_row: [8, 256, 4],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [3 << 18, 1 << 20],
        of_row: [8, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 15, 1 << 17],
        of_row: [1, 512, 2],
        is_of_all: true,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 17, 1 << 18],
        of_row: [4, 256, 4],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [3 << 17, 1 << 19],
        of_row: [8, 256, 4],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [3 << 18, 1 << 20],
        of_row: [8, 512, 2],
        is_of_all: false,
    },
];

/// The same of an RMSNorm without a residual, on an H200: `f32` of 16384 0.951 (0.903), 32768 0.874 (0.731) and 65536 0.822 (0.689), `bf16`
/// of 32768 0.922 (0.871), 65536 0.853 (0.737) and 131072 0.805 (0.694). Lengths between were not measured.
const DIVIDED_RMS_NORM: &[DividedRows] = &[
    DividedRows {
        size: 4,
        bytes: [48 << 10, 1 << 16],
        of_row: [1, 512, 2],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [1 << 16, 1 << 17],
        of_row: [1, 1024, 1],
        is_of_all: true,
    },
    DividedRows {
        size: 4,
        bytes: [1 << 17, 1 << 18],
        of_row: [2, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 15, 1 << 16],
        of_row: [1, 512, 2],
        is_of_all: true,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 16, 1 << 17],
        of_row: [1, 1024, 1],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 17, 1 << 18],
        of_row: [2, 512, 2],
        is_of_all: false,
    },
];

/// The same of a layer norm without a residual, on an H200: `f32` of 32768 0.789 (0.706) and 65536 0.753 (0.626), `bf16` of 65536 0.760
/// (0.559) and 131072 0.729 (0.508). And `f32` of 98304 0.737 (0.367), `bf16` of 196608 0.686 (0.350).
const DIVIDED_LAYER_NORM: &[DividedRows] = &[
    DividedRows {
        size: 4,
        bytes: [1 << 16, 1 << 17],
        of_row: [1, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 4,
        bytes: [1 << 17, 1 << 18],
        of_row: [2, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 16, 1 << 17],
        of_row: [1, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 17, 1 << 18],
        of_row: [2, 512, 2],
        is_of_all: false,
    },
    DividedRows {
        size: 4,
        bytes: [1 << 18, 1 << 19],
        of_row: [4, 512, 2],
        is_of_all: true,
    },
    DividedRows {
        size: 2,
        bytes: [1 << 18, (1 << 19) - 1],
        of_row: [4, 512, 2],
        is_of_all: false,
    },
];

/// Rows in teams whose results lag behind their totals by default, on a fast memory.
struct LaggingRows {
    functions: &'static [RowFunction],
    /// The bytes of an element.
    size: i64,
    /// The bytes of a row above which it is one of these, and the most.
    bytes: [i64; 2],
    /// The most bytes of a row that a block has.
    part: i64,
    /// The threads of a group, and the groups of a block.
    of_block: [i64; 2],
    /// How many rows a group begins between the totals and the results of a row.
    lag: i64,
}

/// The lengths of such rows, measured on H200s (2026-11-30), as shares of a copy, in brackets what the default was before. RMSNorm of `f32`:
/// 32768 0.911 (0.860), 65536 0.917 (0.824), 98304 0.911 (0.856), 2^18 0.934 (0.833), 2^19 0.924 (0.825), 2^20 0.921 (0.813); of `bf16`: 65536
/// 0.897 (0.851), 131072 0.903 (0.812), 196608 0.886 (0.828), 2^18 0.900 (0.812), 2^19 0.908 (0.805), 2^20 0.906 (0.797). Layer norm of `f32`:
/// 32768 0.878 (0.790), 65536 0.890 (0.748), 98304 0.876 (0.735), 2^18 0.892 (0.738), 2^19 0.877 (0.732), 2^20 0.859 (0.595); of `bf16`: 65536
/// 0.851 (0.761), 131072 0.843 (0.739), 196608 0.808 (0.695), 2^18 0.845 (0.760), 2^19 0.819 (0.739), 2^20 0.828 (0.721). Softmax of `f32`: 2^18
/// 0.917 (0.903), 2^19 0.918 (0.816), 2^20 0.907 (0.782); of `bf16`: 2^18 0.896 (0.872), 2^19 0.910 (0.838), 2^20 0.896 (0.785). Log-softmax
/// of `bf16`: 196608 0.901 (0.781). Lengths between were not measured, nor a log-softmax of `bf16` by six groups.
const LAGGING: &[LaggingRows] = &[
    LaggingRows {
        functions: &[RowFunction::RmsNorm],
        size: 4,
        bytes: [LAGGING_LEAST, 1 << 20],
        part: 1 << 14,
        of_block: [256, 4],
        lag: 2,
    },
    // Accesses of 128 threads divide lengths that are no power of two into parts that leave few multiprocessors idle.
    LaggingRows {
        functions: &[RowFunction::RmsNorm],
        size: 4,
        bytes: [1 << 20, (1 << 21) - 1],
        part: 1 << 14,
        of_block: [128, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::RmsNorm],
        size: 4,
        bytes: [(1 << 21) - 1, 1 << 21],
        part: 1 << 14,
        of_block: [256, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::RmsNorm],
        size: 2,
        bytes: [LAGGING_LEAST, 1 << 20],
        part: 1 << 14,
        of_block: [256, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::RmsNorm],
        size: 2,
        bytes: [1 << 20, 1 << 21],
        part: 1 << 14,
        of_block: [128, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::LayerNorm],
        size: 4,
        bytes: [LAGGING_LEAST, 1 << 21],
        part: 1 << 14,
        of_block: [128, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::LayerNorm],
        size: 2,
        bytes: [LAGGING_LEAST, 1 << 21],
        part: 1 << 14,
        of_block: [128, 4],
        lag: 2,
    },
    LaggingRows {
        functions: &[RowFunction::Softmax, RowFunction::LogSoftmax],
        size: 4,
        bytes: [1 << 19, 1 << 22],
        part: 1 << 15,
        of_block: [256, 2],
        lag: 1,
    },
    LaggingRows {
        functions: &[RowFunction::Softmax, RowFunction::LogSoftmax],
        size: 2,
        bytes: [1 << 18, 3 << 17],
        part: 3 << 13,
        of_block: [128, 4],
        lag: 1,
    },
    LaggingRows {
        functions: &[RowFunction::Softmax, RowFunction::LogSoftmax],
        size: 2,
        bytes: [(1 << 19) - 1, 1 << 21],
        part: 1 << 14,
        of_block: [128, 6],
        lag: 1,
    },
    // The longest ones of all functions that are not above.
    LaggingRows {
        functions: &[RowFunction::RmsNorm, RowFunction::LayerNorm],
        size: 4,
        bytes: [1 << 21, 1 << 22],
        part: 1 << 15,
        of_block: [256, 2],
        lag: 1,
    },
    LaggingRows {
        functions: &RowFunction::ALL,
        size: 2,
        bytes: [1 << 20, 1 << 22],
        part: 1 << 15,
        of_block: [256, 2],
        lag: 1,
    },
];

/// The bytes of a row of a norm above which it is one of these; and the most blocks of a launch. Of the 132 multiprocessors of an H200, 128 have
/// teams of a power of two of blocks: a layer norm of 196608 `bf16` was at 0.782 of a copy by 8 teams of 16 blocks, and at 0.757 by 11 of 12.
const LAGGING_LEAST: i64 = 88 << 10;
const LAGGING_BLOCKS: i64 = 128;

/// The bytes of a row's part that a block has of rows one after the other, those of each of two blocks beside each other, and
/// the threads of both kinds.
const AHEAD_BYTES: i64 = 65536;
const AHEAD_THREADS: i64 = 1024;

/// The most elements of a thread of those.
const AHEAD_ELEMENTS: i64 = 32;

/// The most elements of tensors whose rows are one mode with their elements, and the least columns of such rows by default.
pub(crate) const MOST_SHIFTED: i64 = 1 << 30;
const SHIFTED_COLUMNS: i64 = 512;

/// Shifted rows with weights: the threads of a block, the fewest that have no more elements each than the next number, and half of it in a
/// layer norm with a residual; the threads of a multiprocessor where a block has one row after the other; and the registers of a thread beside
/// those of its elements, also of staged rows one tile after the other. Of 4097 `bf16` on an H200, as shares of a copy: a layer norm 0.906 (by
/// 256 threads with 1024 on a multiprocessor 0.888, by single elements 0.65), an RMSNorm 0.931 (0.933 and 0.78), with a residual 0.921 and
/// 0.965 (by single elements 0.80 and 0.82).
const SHIFTED_THREADS: [i64; 5] = [64, 128, 256, 512, 1024];
const SHIFTED_ELEMENTS: i64 = 32;
const SHIFTED_RESIDENT: i64 = 512;
const KEPT_REGISTERS: i64 = 20;
const KEPT_STAGED_REGISTERS: i64 = 36;

/// The most elements that a thread has of a staged row by default.
const STAGED: i64 = 40;

/// The threads of a block of staged rows of another function than a softmax: of 33 `bf16` on an H200, 64 threads were at 0.98 of a copy in a
/// log-softmax and 0.89 in an RMSNorm, and 128 at 0.96 and 0.87. A layer norm has at most half as many elements in a thread: 0.74 by two
/// threads for each row, 0.66 by one.
const STAGED_THREADS: i64 = 64;

/// The threads of a multiprocessor whose blocks have one tile of staged rows after the other, of an RMSNorm and of a layer norm without a
/// residual: of 33 `bf16` on an H200, 0.943 and 0.885 of a copy, and 0.902 and 0.759 by a block for each tile.
const STAGED_RESIDENT: [i64; 2] = [512, 768];

/// The blocks of `threads` threads that a device has at once, if a multiprocessor has `resident` threads of them, or one block that has more; 0
/// if it has none.
fn at_once(arch: Arch, resident: i64, threads: i64) -> i64 {
    let multiprocessors = i64::from(Limits::of(arch).multiprocessors);
    let beside = (resident / threads).max(resident.min(1));
    product([multiprocessors, beside]).min(MOST_CLUSTERS)
}

/// The most rows that are on their way to a block of a cluster, and to one that has whole rows.
const MOST_AHEAD: i64 = 8;
const MOST_AHEAD_ALONE: i64 = 1;

/// The bytes of shared memory that totals take, and alignments.
const RESERVED: i64 = 8192;

/// The same of rows that stay in shared memory until their team has met. The warps of a block leave four numbers, twice, the warps that look
/// at the words too, and a slot has a barrier: 2560 bytes for 32 warps and 64 slots, and what aligns them.
const LAGGING_RESERVED: i64 = 3072;

/// The bytes of the narrowest copy to shared memory.
const NARROWEST: i64 = 4;

/// The warps from which on each of them adds their totals by its lanes.
const MANY_WARPS: i64 = 8;

/// The chunks that shared memory keeps of a row in passes: with those under way, they leave room for two blocks of 512 threads on a
/// multiprocessor, or for four of 256. A layer norm has three passes, and keeps more with one block of 1024.
const KEPT: i64 = 8;
const KEPT_ALONE: i64 = 9;

/// The bytes of a row up to which a block in passes has half of the threads, and the bytes of a part of each of eight blocks: four blocks
/// beside each other, each of which keeps half as much, are better there. Measured on an H200, as shares of a copy: 48 KiB of bf16 by
/// 256 threads at 0.91 and by 512 at 0.86, but 64 KiB at 0.86 and 0.89, of f32 at 0.89 and 0.96. Of 512 KiB of f32, eight blocks of 256
/// threads are at 0.80, of 512 at 0.73, and four of 512 at 0.78. Lengths between 48 and 64 KiB were not measured.
const QUARTERED_ROW: i64 = 49152;
const QUARTERED: i64 = (KEPT + 1) * PASS_THREADS * WIDEST;

/// The bytes of a row up to which one block has it in registers by itself, with another block beside it.
const BESIDE: i64 = AHEAD_BYTES / 2;

/// The bytes of a row of 16-bit elements up to which a block has one row after the other, on a slower memory than an H200's.
const AHEAD_NARROW: i64 = 49152;

/// The bytes in a microsecond of a memory from which on it is a fast one: an H200's has 4.9 million, and an H100's 3.4 million. A fast
/// memory waits longer for what the threads of a block do alone.
const FAST: u64 = 4_000_000;

/// The bytes of a row of `f32` above which two groups of threads of each block of a cluster take rows in turn, and the most; and the
/// threads of a group. Measured on an H100, as shares of a copy: of 512 KiB 0.933 (passes 0.854), of 256 KiB 0.917 (0.915 one after the
/// other).
const IN_TURN: [i64; 2] = [1 << 18, 1 << 19];
const GROUP_THREADS: i64 = 256;

/// The most bytes of a row that a thread has in registers, and the most where that suffices.
const HELD: i64 = 128;
const PREFERRED: i64 = 64;

/// The most bytes of a row that a thread has in registers where fewer threads have less work beyond the end of a row.
const DENSE: i64 = 96;

/// The most elements that a thread has in registers, which hold each of them apart if accesses are of one element.
const MOST_ELEMENTS: i64 = 64;
const MOST_SINGLE: i64 = 32;

/// The threads of a block of several rows.
const THREADS: i64 = 128;

/// The most threads of a row in registers by default. Twice as many have it where it would be read again from two tensors;
/// each has 128 registers then, and more threads would spill.
const HELD_THREADS: i64 = 256;

/// The least threads of a row whose accesses are of one element.
const SINGLES: i64 = 8;

/// The most blocks of a cluster.
pub(crate) const MOST_BLOCKS: i64 = 8;

/// The threads of a block that reads a row in passes, and its accesses.
const PASS_THREADS: i64 = 512;
const PASS_ACCESSES: i64 = 4;

/// The bytes of a row up to which a block has it in passes, and up to which two blocks do; from the last number on, eight do.
const PASS_BYTES: [i64; 3] = [1 << 17, 1 << 18, 1 << 19];

/// The bytes of a row from which on one block has it in passes by twice the threads, on a memory that is not fast: they keep all of it, and no
/// other block fits beside them. As shares of a copy on an H100, with half of the threads in brackets: 96 KiB of `f32` 0.982 (0.962), 128
/// KiB of `f32` 0.978 (0.882) and of `bf16` 0.949 (0.889), but 80 KiB of `bf16` 0.887 (0.957).
const KEPT_WHOLE: i64 = 3 << 15;

/// The bytes of a row for each block of a cluster of a layer norm in passes, and where shared memory keeps nothing.
const PART_BYTES: i64 = 65536;

/// The microseconds of a row in which the blocks of a cluster wait for each other, once: of 65536 numbers of `f32`, clusters of four took
/// 5.0 us for each row on an H200, 3.8 of them at the rate of a copy.
const EXCHANGE: f64 = 1.2;

/// The share of a row that a second pass costs, as if it read so much from memory. With nothing kept it was 0.74 on an H100 and 0.59 on
/// an H200; with half of the row kept it is 0.47 on the H200, from which 0.6 is predicted for the H100, on which the choice hangs.
const AGAIN: f64 = 0.6;

/// The bytes of the parts of rows that all groups of a block of a team have; the bytes of a tensor from which on teams have its rows; and
/// the bytes of a row in `f32` and in a type of 16 bits above which they do.
const TEAM_BYTES: i64 = 1 << 17;
const TEAM_LEAST: i64 = 1 << 26;
const TEAM_ROWS: [i64; 2] = [1 << 19, (1 << 19) - 1];

/// The numbers of groups of a block of a team, the best first: while one meets, the others move their rows. With as many as leave two
/// teams to a device, an H100 was the fastest or within a hundredth of it, for rows of 2^18 to 2^21 numbers.
const TEAM_GROUPS: [i64; 3] = [4, 2, 1];

/// The microseconds of a row in which a team of one group moves nothing: those of its meeting, and those of an element of a block. On an
/// H100 a row of 32768 numbers of f32 for each block loses 1.6 to 2.4, and one of 65536 of bf16 2.3 to 3.0. Two groups lose
/// 0.7 to 0.9 and 1.0 to 1.4, four 0.4 and 0.4 to 0.5: the last number is the power of the number of groups by which they lose less.
const TEAM_EXCHANGE: f64 = 1.4;
const TEAM_ELEMENT: f64 = 0.6 / 32768.0;
const TEAM_HIDDEN: f64 = 1.2;

/// The share of a row that a second pass costs, as if it read so much from memory, in `f32` and in a type of 16 bits: of what shared memory
/// does not keep of it, which is what is beyond the bytes behind it, and at least the last number of all rows. On an H200, softmax took 2.6,
/// 2.8, 3.1 and 3.5 times the time of the bytes of a tensor for 2^18 to 2^21 numbers of `f32`, and 2.5, 2.8, 3.1 and 3.6 for those of bf16.
const AGAIN_LONG: [f64; 2] = [1.25, 1.7];
const KEPT_LONG: i64 = 1 << 19;
const AGAIN_LEAST: f64 = 0.5;

/// The same number of norms: an RMSNorm of 2^18 numbers of bf16 took 3.2 times the time of the bytes of a tensor in passes on an H200, and 2.4
/// times by teams. And the bytes of a row of an RMSNorm above which teams have it: blocks hold shorter ones.
const AGAIN_LEAST_OF_NORMS: f64 = 1.0;
const TEAM_ROWS_OF_RMS_NORM: i64 = 1 << 18;

/// The share of the memory's rate that a copy has.
const COPIED: f64 = 0.85;

/// The most elements that a tile may begin behind the end of a row.
const FARTHEST: i64 = 65536;

impl RowwisePlan {
    /// Returns the plan for a length of rows. Up to 16 KiB, the registers of a block hold the row; such plans were the fastest on
    /// an H200 (`PERFORMANCE.md`). On Hopper, a block has rows of whole vectors up to 32 KiB in registers too. Longer ones are read again
    /// in passes, and shared memory keeps eight turns of each block. One block has a row of up to 128 KiB, two have 256 KiB, and eight have
    /// 512 KiB and more. A row of more than 128 KiB and up to 256 KiB in `f32` has a cluster of four. [`fastest_on`] weighs it against
    /// passes, by the rates of a device. A layer norm, which would have three passes, has a cluster up to 512 KiB. The warps of a softmax
    /// meet once, and those of a layer norm whose rows are in registers, unless accesses are of one element or only few warps share a row.
    /// Rows of 16-bit elements whose length is not a multiple of the vector are staged in shared memory below 512 elements, and longer ones
    /// are peeled ([`RowStorage::Shifted`]), of norms without a residual with or without weights.
    ///
    /// Rows that lie beside each other, as those of a softmax along the first mode of a row-major matrix, have plans of their own
    /// ([`RowStorage::Turned`]): a block of 256 threads holds 64 KiB of its rows in registers and takes 128 bytes of a column at once, or
    /// 64. Longer rows have the blocks of a cluster, up to eight, or passes.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::along(RowFunction::Softmax, Ty::Bf16, &[4096, 16384], 0)?;
    /// assert_eq!(
    ///     RowwisePlan::fastest(&problem, Arch::Sm90a)?.to_string(),
    ///     "softmax bf16, vectors of 8, 64 threads for a row, 32 rows in a block, 16 accesses, clusters of 4 blocks, \
    ///      turned rows in registers"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// [`fastest_on`]: RowwisePlan::fastest_on
    ///
    /// Elsewhere the passes after the first find a row in the caches. The registers of a block, or of a cluster on Hopper, also
    /// hold the longer rows of a norm with a residual, which has two tensors to read again, and those of accesses of one element.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the type.
    pub fn fastest(problem: &RowwiseProblem, arch: Arch) -> Result<RowwisePlan, Error> {
        RowwisePlan::chosen(problem, arch, None, true)
    }

    /// Returns the plan for a length of rows on a device with these rates, which the calls have by default.
    ///
    /// Below 4 TB per second, it compares a cluster of four blocks that has one row after the other with passes. The blocks of the cluster
    /// wait for each other at the end of a row, 1.2 us in which the memory does nothing. A second pass costs as much as reading 0.6 of
    /// the row again, which takes less time the faster the memory is and the shorter the row is. The `explain` of a call says both times.
    ///
    /// From 4 TB per second on:
    ///
    /// - A block has two rows of a layer norm without a residual of more than 24 KiB and at most 32 KiB, or one row and its weights in
    ///   shared memory ([`keeps_weights`](RowwisePlan::keeps_weights)) if it has weights. Up to 64 KiB, it has two rows of `f32` in registers,
    ///   or one row of 16 bits, the next one on its way, and the weights in shared memory.
    /// - Registers and shared memory hold a row together ([`RowStorage::Divided`]). These are rows of a softmax or log-softmax of `f32` of
    ///   more than 64 KiB and at most 512 KiB, or more than 768 KiB and at most 1 MiB, and of 16 bits of more than 32 KiB and at most
    ///   256 KiB, of more than 384 KiB and at most 512 KiB, or more than 768 KiB and at most 1 MiB. Without a residual, these are also
    ///   rows of an RMSNorm of `f32` of more than 48 KiB and at most 256 KiB, and of 16 bits of more than 32 KiB and at most 256 KiB,
    ///   and of a layer norm of more than 64 KiB and at most 512 KiB, or less than 512 KiB in 16 bits.
    ///
    /// - Tensors of 64 MiB and more have teams of blocks whose results lag behind their totals ([`RowStorage::Teams`]). These are rows without a
    ///   residual of an RMSNorm or a layer norm of more than 88 KiB and at most 4 MiB, and of a softmax or log-softmax of more than 512 KiB
    ///   and at most 4 MiB, in 16 bits also of 512 KiB, and of more than 256 KiB and at most 384 KiB. A block has at most 24 KiB of a row by four or
    ///   six groups of 128 or 256 threads, or 32 KiB by two, and the launch has at most 128 blocks. Such rows of smaller tensors have the plans above, or passes.
    ///
    /// Below this rate, two groups of threads take rows of `f32` of more than 256 KiB and at most 512 KiB in turn
    /// ([`RowStorage::Alternating`]), and one block keeps all of a row of a softmax of 96 to 128 KiB.
    ///
    /// Other rows of more than 512 KiB in `f32`, of 512 KiB and more in a type of 16 bits, and of more than 256 KiB of an RMSNorm, of tensors
    /// of 64 MiB and more, are held by teams of blocks without a lag, if a model finds that faster than passes: a block loses 1.4 us
    /// of each row to the meeting and 0.6 to each 32768 elements of it, less if several groups of threads take rows in turn, and a second
    /// pass takes as long as reading 1.25 of what shared memory does not keep of the row, 1.7 of 16 bits, or at least half of the row, of a
    /// norm all of it. Blocks of teams keep the weights of a norm in shared memory, if it has room.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Rates;
    /// use colex_gpu::rowwise::{RowFunction, RowStorage, RowwisePlan, RowwiseProblem};
    ///
    /// let h200 = Rates::of(Arch::Sm90a); // 4.9 TB in a second
    /// let h100 = Rates { memory_clock: 2_619_000, bus: 5120, ..h200 }; // 3.4
    /// let storage = |function, rates| {
    ///     let problem = RowwiseProblem::new(function, Ty::F32, [1000, 65536]);
    ///     RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates).map(|plan| plan.storage)
    /// };
    /// let [softmax, norm] = [RowFunction::Softmax, RowFunction::RmsNorm];
    /// assert!(matches!(storage(softmax, h200)?, RowStorage::Divided { held: 3, kept: 13, .. }));
    /// assert!(matches!(storage(norm, h200)?, RowStorage::Teams { groups: 4, lag: 2, .. }));
    /// assert!(matches!(storage(softmax, h100)?, RowStorage::Ahead { .. }));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the type.
    pub fn fastest_on(
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Rates,
    ) -> Result<RowwisePlan, Error> {
        RowwisePlan::chosen(problem, arch, Some(rates), true)
    }

    /// Returns the plan whose blocks have groups of threads that take rows in turn ([`RowStorage::Alternating`]): by `blocks` blocks of
    /// a cluster, and `groups` groups of `threads` threads in each. A thread has as many accesses as a row needs, and shared memory has
    /// as many slots as it holds, up to four for each group.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1000, 65536]);
    /// let plan = RowwisePlan::alternating(&problem, Arch::Sm90a, 4, [256, 2])?;
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "softmax f32, vectors of 4, 256 threads for a row, 1 row in a block, 16 accesses, clusters of 4 blocks, \
    ///      rows in registers, 2 groups in turn, 2 slots, 30 clusters, warps meet once"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](RowwisePlan::check), and an error if the plan does not hold a row.
    pub fn alternating(
        problem: &RowwiseProblem,
        arch: Arch,
        blocks: i64,
        [threads, groups]: [i64; 2],
    ) -> Result<RowwisePlan, Error> {
        let operands = problem.operands();
        check_type(operands.ty)?;
        let vector = operands.vector;
        let plan = RowwisePlan {
            operands,
            vector,
            threads,
            rows: 1,
            accesses: div_up(problem.columns(), product([vector, threads, blocks])),
            blocks,
            storage: RowStorage::Registers,
            meets_once: true,
            keeps_weights: false,
        };
        let limits = Limits::of(arch);
        let shared = i64::from(limits.shared) - RESERVED;
        let slots = shared / product([plan.chunk(), plan.size(), groups]).max(1);
        let plan = RowwisePlan {
            storage: RowStorage::Alternating {
                groups,
                slots: slots.clamp(1, SLOTS).saturating_mul(groups),
                clusters: clusters_at_once(blocks.max(1), i64::from(limits.multiprocessors)),
            },
            ..plan
        };
        plan.check(arch)?;
        plan.check_problem(problem)?;
        Ok(plan)
    }

    /// Returns the plan whose blocks hold a row in registers and shared memory together ([`RowStorage::Divided`]): by `blocks` blocks of a
    /// cluster of `threads` threads each, of which a multiprocessor has `beside` beside each other. Shared memory keeps as many chunks as it has room for, and
    /// registers hold the others. Each cluster has one row after the other.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1000, 40_000]);
    /// let plan = RowwisePlan::divided(&problem, Arch::Sm90a, 1, [512, 2])?;
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "softmax f32, vectors of 4, 512 threads for a row, 1 row in a block, 1 access, 6 chunks in registers, \
    ///      14 in shared memory, 264 clusters, warps meet once"
    /// );
    /// // A block of a multiprocessor that holds four has not enough registers.
    /// assert!(RowwisePlan::divided(&problem, Arch::Sm90a, 1, [256, 4]).is_err());
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](RowwisePlan::check), and an error if the plan does not hold a row.
    pub fn divided(
        problem: &RowwiseProblem,
        arch: Arch,
        blocks: i64,
        [threads, beside]: [i64; 2],
    ) -> Result<RowwisePlan, Error> {
        let operands = problem.operands();
        check_type(operands.ty)?;
        let plan = RowwisePlan {
            operands,
            vector: operands.vector,
            threads,
            rows: 1,
            accesses: 1,
            blocks,
            storage: RowStorage::Registers,
            meets_once: false,
            keeps_weights: false,
        };
        let limits = Limits::of(arch);
        let chunks = div_up(problem.columns(), product([plan.chunk(), blocks]));
        let own = i64::from(limits.resident_shared) / beside.max(1) - i64::from(Limits::RESERVED);
        let shared = (own - DIVIDED_TOTALS).min(i64::from(limits.shared) - RESERVED);
        let slots = shared / product([plan.chunk(), plan.size()]).max(1);
        let kept = slots.min(chunks).max(1);
        let at_once = clusters_at_once(blocks.max(1), i64::from(limits.multiprocessors));
        let plan = RowwisePlan {
            storage: RowStorage::Divided {
                held: (chunks - kept).max(0),
                kept,
                clusters: product([at_once, beside]),
            },
            ..plan
        };
        let plan = RowwisePlan {
            meets_once: plan.is_better_once(),
            ..plan
        };
        plan.check(arch)?;
        plan.check_problem(problem)?;
        Ok(plan)
    }

    /// Returns the plan whose rows are each held by a team of `blocks` blocks of a cooperative launch ([`RowStorage::Teams`]), with
    /// `groups` groups of `threads` threads in each block. A thread has as many accesses as a row needs. Shared memory has as many slots as
    /// it holds, up to four for each group, and the launch as many teams as `multiprocessors` hold, one block on each.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, 1 << 20]);
    /// let plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, [32, 132], [1024, 1])?;
    /// assert_eq!(
    ///     plan.to_string(),
    ///     "softmax f32, vectors of 4, 1024 threads for a row, 1 row in a block, 8 accesses, teams of 32 blocks, \
    ///      rows in registers, 1 group in turn, 1 slot, 4 teams, warps meet once"
    /// );
    /// // Two groups with a slot each need blocks whose part of a row is half as long.
    /// assert!(RowwisePlan::in_teams(&problem, Arch::Sm90a, [32, 132], [512, 2]).is_err());
    /// assert!(RowwisePlan::in_teams(&problem, Arch::Sm90a, [66, 132], [512, 2]).is_ok());
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](RowwisePlan::check), and an error if the plan does not hold a row.
    pub fn in_teams(
        problem: &RowwiseProblem,
        arch: Arch,
        [blocks, multiprocessors]: [i64; 2],
        [threads, groups]: [i64; 2],
    ) -> Result<RowwisePlan, Error> {
        let operands = problem.operands();
        check_type(operands.ty)?;
        let vector = operands.vector;
        let plan = RowwisePlan {
            operands,
            vector,
            threads,
            rows: 1,
            accesses: div_up(problem.columns(), product([vector, threads, blocks])),
            blocks,
            storage: RowStorage::Registers,
            meets_once: true,
            keeps_weights: false,
        };
        let shared = i64::from(Limits::of(arch).shared) - RESERVED;
        let slots = shared / product([plan.chunk(), plan.size(), groups]).max(1);
        let plan = RowwisePlan {
            storage: RowStorage::Teams {
                groups,
                slots: slots.clamp(1, SLOTS).saturating_mul(groups),
                teams: (multiprocessors / blocks.max(1)).max(1),
                lag: 0,
            },
            ..plan
        };
        plan.check(arch)?;
        plan.check_problem(problem)?;
        Ok(plan)
    }

    /// Returns this plan in teams with rows that stay in shared memory: a group begins `lag` further rows between the totals and the results
    /// of a row ([`RowStorage::Teams`]). The ring has as many slots as shared memory holds.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::LayerNorm, Ty::F32, [64, 1 << 20]);
    /// let plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, [132, 132], [512, 1])?;
    /// assert_eq!(
    ///     plan.lagging(Arch::Sm90a, 2)?.to_string(),
    ///     "layer norm f32, vectors of 4, 512 threads for a row, 1 row in a block, 4 accesses, teams of 132 blocks, \
    ///      rows in shared memory, 1 group in turn, 7 slots, 1 team, 2 rows behind, warps meet once"
    /// );
    /// // A group that is seven rows behind needs eight slots.
    /// assert_eq!(
    ///     plan.lagging(Arch::Sm90a, 7).unwrap_err().to_string(),
    ///     "the plan's number of slots of a group is 7: the layer norm kernel takes 8 to 64"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the plan has no teams, and the errors of [`check`](RowwisePlan::check).
    pub fn lagging(&self, arch: Arch, lag: i64) -> Result<RowwisePlan, Error> {
        let RowStorage::Teams { groups, teams, .. } = self.storage else {
            let must = "results lag behind totals only where blocks are in teams";
            return Err(refused_operands(&self.operands, must));
        };
        let slot = product([self.rows, self.chunk(), self.size(), self.inputs()]);
        let shared = i64::from(Limits::of(arch).shared) - self.weight_bytes() - LAGGING_RESERVED;
        let slots = shared / product([slot, groups]).max(1);
        let plan = RowwisePlan {
            storage: RowStorage::Teams {
                groups,
                slots: product([slots.clamp(1, MOST_SLOTS / groups.max(1)), groups]),
                teams,
                lag,
            },
            ..*self
        };
        plan.check(arch)?;
        Ok(plan)
    }

    /// Returns this plan with the weight and the bias of a norm in shared memory ([`keeps_weights`](RowwisePlan::keeps_weights)): each cluster
    /// has one tile of rows after the other, `ahead` tiles are on their way to shared memory meanwhile, and the launch has as many clusters
    /// as run at once. How the threads divide a row stays as it is. Where groups of threads take rows in turn, they still do, and each group
    /// has `ahead` slots of the ring.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowTensor, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::LayerNorm, Ty::Bf16, [4096, 16384]);
    /// let mut plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
    /// let refused = plan.keeping_weights(Arch::Sm90a, 0).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "the operands of the plan are `layer norm of bf16, x, y, rows of 1 mode`: shared memory keeps the weight and the bias of a norm \
    ///      that has one of them"
    /// );
    /// plan.operands.given[RowTensor::Weight as usize] = true;
    /// assert_eq!(
    ///     plan.keeping_weights(Arch::Sm90a, 0)?.to_string(),
    ///     "layer norm bf16, vectors of 8, 512 threads for a row, 1 row in a block, 4 accesses, rows in registers, 0 tiles ahead, \
    ///      264 clusters, warps meet once, weights in shared memory"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](RowwisePlan::check): among others, if there is neither a weight nor a bias, or if shared memory has no
    /// room for them beside the rows.
    pub fn keeping_weights(&self, arch: Arch, ahead: i64) -> Result<RowwisePlan, Error> {
        let in_turn = match self.storage {
            RowStorage::Alternating {
                groups, clusters, ..
            } => Some(RowStorage::Alternating {
                groups,
                slots: product([groups, ahead]),
                clusters,
            }),
            RowStorage::Teams {
                groups, teams, lag, ..
            } => Some(RowStorage::Teams {
                groups,
                slots: product([groups, ahead]),
                teams,
                lag,
            }),
            _ => None,
        };
        if let Some(storage) = in_turn {
            let plan = RowwisePlan {
                storage,
                keeps_weights: true,
                ..*self
            };
            plan.check(arch)?;
            return Ok(plan);
        }
        let of = |clusters| RowwisePlan {
            storage: RowStorage::Ahead {
                rows: ahead,
                clusters,
            },
            keeps_weights: true,
            ..*self
        };
        let plan = of(1);
        plan.check(arch)?;
        let multiprocessors = i64::from(Limits::of(arch).multiprocessors);
        let at_once = clusters_at_once(self.blocks, multiprocessors);
        let clusters = product([at_once, plan.beside(arch)]);
        Ok(of(clusters.min(MOST_CLUSTERS)))
    }

    /// Returns the blocks of a cluster of the launch: 1 if blocks share no row, or if they do in a team.
    pub(crate) fn cluster(&self) -> i64 {
        match self.storage {
            RowStorage::Teams { .. } => 1,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => self.blocks,
        }
    }

    /// Whether the kernel regards rows and columns as one mode.
    pub(crate) fn is_one_mode(&self) -> bool {
        matches!(
            self.storage,
            RowStorage::Shifted { .. } | RowStorage::Staged { .. }
        )
    }

    /// Whether rows are staged in shared memory.
    pub(crate) fn is_staged(&self) -> bool {
        matches!(self.storage, RowStorage::Staged { .. })
    }

    /// Whether the blocks that share a row are a team.
    pub(crate) fn has_teams(&self) -> bool {
        matches!(self.storage, RowStorage::Teams { .. })
    }

    /// Returns the plan of a call that has no memory to share, such as one in a stream capture: this plan, or in place of one in teams the
    /// default one, whose blocks share nothing but what a cluster has.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`fastest_on`](RowwisePlan::fastest_on).
    pub(crate) fn alone(&self, problem: &RowwiseProblem) -> Result<RowwisePlan, Error> {
        if !self.has_teams() {
            return Ok(*self);
        }
        // Those in teams are for Hopper, and those whose results lag for a fast memory.
        let rates = (self.lag() > 0).then(|| Rates::of(Arch::Sm90a));
        RowwisePlan::chosen(problem, Arch::Sm90a, rates, false)
    }

    /// Returns the bytes of memory for what the blocks of teams tell each other: 128 bytes for what a launch tells the next one, and for
    /// each team and group two pairs of words of 8 bytes of each block, which rows take in turn, or four and more pairs where a group is
    /// rows behind. Such a word is a total and the tag of its row. 0 if there are no teams.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [64, 1 << 20]);
    /// let plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, [32, 132], [1024, 1])?;
    /// assert_eq!(plan.workspace(), 128 + 4 * 2 * 32 * 16);
    /// assert_eq!(RowwisePlan::fastest(&problem, Arch::Sm90a)?.workspace(), 0);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn workspace(&self) -> i64 {
        product([4, self.team_words()])
    }

    /// Returns the words of 32 bits through which the blocks of teams meet; 0 if there are no teams.
    pub(crate) fn team_words(&self) -> i64 {
        match self.storage {
            RowStorage::Teams { groups, teams, .. } => {
                let turns = self.team_turns();
                let of_blocks = product([teams, groups, turns, self.blocks, self.totals_words()]);
                of_blocks.saturating_add(TEAM_HEADER)
            }
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => 0,
        }
    }

    /// Returns how many rows a group begins between the totals and the results of a row.
    pub(crate) fn lag(&self) -> i64 {
        match self.storage {
            RowStorage::Teams { lag, .. } => lag,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => 0,
        }
    }

    /// Returns how many rows of a group have words of their own in a team, before words are written again.
    ///
    /// A block writes the words of row `j` when it has seen the words of row `j - 1 - lag` of all blocks of the team. Each of these had by
    /// then seen the words of row `j - 2 - 2 lag`, so those may be written again.
    pub(crate) fn team_turns(&self) -> i64 {
        self.lag().saturating_add(1).saturating_mul(2)
    }

    /// Returns the totals of a row that a block leaves for its team: room for two, or for the three of a layer norm in accesses of two.
    fn totals(&self) -> i64 {
        match self.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax | RowFunction::RmsNorm => 2,
            RowFunction::LayerNorm => 4,
        }
    }

    /// Returns the words of 32 bits of the totals of a block, each of which has its tag.
    pub(crate) fn totals_words(&self) -> i64 {
        2 * self.totals()
    }

    /// Returns the bytes of what a warp has found of a row's totals.
    pub(crate) fn result_bytes(&self) -> i64 {
        4 * self.totals()
    }

    /// Returns the bytes of what the looking warps of a group have found of a row's totals.
    pub(crate) fn results_bytes(&self) -> i64 {
        self.team_warps() * self.result_bytes()
    }

    /// Returns the warps of a group that look at the words of the blocks of their team.
    pub(crate) fn team_warps(&self) -> i64 {
        div_up(self.blocks, WARP).min(self.threads / WARP).max(1)
    }

    /// Returns the first warp of a group that looks at the words: the first of all, or the first of the last ones of a layer norm whose results lag, whose first one
    /// leaves the totals of its block meanwhile.
    pub(crate) fn first_looker(&self) -> i64 {
        if self.lag() > 0 && self.operands.function == RowFunction::LayerNorm {
            self.threads / WARP - self.team_warps()
        } else {
            0
        }
    }

    /// Returns the named barriers of a group whose results lag: one at which its threads meet, one where registers hold the row of the next
    /// results, and one row behind the one at which the first warp waits for the totals of all warps.
    pub(crate) fn lagging_barriers(&self) -> i64 {
        1 + i64::from(self.lag() == 1) + i64::from(self.holds_later())
    }

    /// Whether registers hold a layer norm's row from one turn to the next where results lag: a thread has room for two rows beside what it computes with,
    /// and a block for the barriers.
    pub(crate) fn holds_later(&self) -> bool {
        let row = product([self.accesses, self.vector, self.size()]);
        let all = REGISTERS / self.threads_of_block().max(1);
        let barriers = if self.lag() == 1 { 3 } else { 2 };
        let has_barriers = self.storage.groups().saturating_mul(barriers) <= NAMED_BARRIERS;
        self.lag() > 0
            && self.operands.function == RowFunction::LayerNorm
            && has_barriers
            && row.saturating_mul(2) <= 4 * (all - LAGGING_REGISTERS)
    }

    fn chosen(
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Option<Rates>,
        may_have_teams: bool,
    ) -> Result<RowwisePlan, Error> {
        let operands = problem.operands();
        check_type(operands.ty)?;
        let columns = problem.columns();
        let plan = RowwisePlan {
            operands,
            vector: operands.vector,
            threads: 1,
            rows: 1,
            accesses: 1,
            blocks: 1,
            storage: RowStorage::Registers,
            meets_once: false,
            keeps_weights: false,
        };
        if let Some(turned) = plan.turned(problem, arch, rates) {
            return Ok(turned);
        }
        let is_single = plan.vector == 1;
        let has_residual = operands.has(RowTensor::Residual);
        let [preferred, most] = plan.registers();
        let held_by = |threads: i64, blocks: i64, most: i64| {
            let accesses = div_up(columns, plan.vector * threads * blocks);
            (accesses <= most).then_some(RowwisePlan {
                threads,
                accesses,
                blocks,
                ..plan
            })
        };
        // Neighbouring threads read neighbouring elements: few threads with single elements read few bytes at a time.
        let least = if is_single { SINGLES } else { 1 };
        let mut threads = (0..)
            .map(|log| least << log)
            .take_while(|t| *t <= HELD_THREADS);
        let short = threads.find_map(|threads| held_by(threads, 1, preferred));
        // Half the threads, or the most of a short row, with a few more accesses.
        let denser = if is_single || has_residual {
            None
        } else {
            let threads = short.map_or(HELD_THREADS, |short| short.threads / 2);
            let held = held_by(threads, 1, DENSE / (plan.size() * plan.vector));
            held.filter(|held| held.threads >= WARP)
        };
        let short = match (short, denser) {
            (Some(short), Some(denser)) if 8 * short.chunk() < 9 * denser.chunk() => Some(short),
            (_, Some(denser)) => Some(denser),
            (short, None) => short,
        };
        let longer = || {
            // Single elements by twice the threads were faster on both devices, 4097 of f32: 0.97 and 0.98 of a copy for 0.93 and 0.97.
            let fewest = if is_single { 2 } else { 1 };
            let mut threads = [fewest * HELD_THREADS, 2 * HELD_THREADS].into_iter();
            threads.find_map(|threads| held_by(threads, 1, most))
        };
        let in_cluster = || {
            // A cluster is worth its barrier only where its blocks are full.
            let mut clusters = [2, 4, MOST_BLOCKS].into_iter();
            clusters.find_map(|blocks| held_by(2 * HELD_THREADS, blocks, most))
        };
        let in_registers = short
            .or_else(|| longer().filter(|_| is_single || has_residual))
            .or_else(|| in_cluster().filter(|_| has_residual && has_clusters(arch)));
        let ahead = || plan.one_after_the_other(problem, arch, rates);
        let in_turn = || rates.and_then(|_| plan.in_turn(problem, arch));
        let of_teams = rates.filter(|_| may_have_teams);
        let lagging = || plan.lagging_by_default(problem, arch, of_teams?);
        let of_teams = || {
            plan.of_teams(problem, arch, of_teams?)
                .map(|(teams, _)| teams)
        };
        let shifted = plan
            .staged(problem, arch)
            .or_else(|| plan.shifted(problem, arch));
        let divided = || plan.divided_by_default(problem, arch, rates?);
        let held = shifted.or(in_registers).or_else(lagging).or_else(divided);
        let held = held.or_else(in_turn);
        let plan = match held.or_else(of_teams).or_else(ahead) {
            Some(plan) if plan.storage == RowStorage::Registers => RowwisePlan {
                rows: match plan.blocks {
                    1 => plan.rows_of_block().max(plan.rows),
                    _ => 1,
                },
                ..plan
            },
            Some(plan) => plan,
            None => plan.in_passes(problem, arch, rates),
        };
        Ok(RowwisePlan {
            meets_once: plan.is_better_once(),
            ..plan
        })
    }

    /// The rows of a block that has them in registers.
    fn rows_of_block(&self) -> i64 {
        // With a residual, a layer norm's threads that have as many registers as there are wait less with two rows: 0.95 of a copy in
        // place of 0.91 for 16384 of bf16 on an H200. With fewer registers they wait longer, and so do those of an RMSNorm.
        let [_, most] = self.registers();
        let is_full = self.accesses == most && self.vector > 1 && self.threads == HELD_THREADS;
        let is_norm = self.operands.function == RowFunction::LayerNorm;
        if is_full && is_norm && self.operands.has(RowTensor::Residual) {
            return 2;
        }
        (THREADS / self.threads).max(1)
    }

    /// Whether the warps of a row meet once by default. Single accesses were slower so on an H200 (f32 of 4097: 0.966 of a copy with two
    /// meetings and 0.958 with one), and an RMSNorm was too (0.964 and 0.961). A layer norm of one row in a block was faster so, with rows in
    /// registers (0.980 and 0.974 of 5120 numbers with a residual) and with one ahead (0.886 and 0.877 of 16384), and with two rows in
    /// a block slower (0.869 and 0.897), but not of `f32` with both in registers (0.932 and 0.921 of 16384).
    fn is_better_once(&self) -> bool {
        let is_held = matches!(
            self.storage,
            RowStorage::Registers | RowStorage::Ahead { .. }
        );
        let is_layer_norm = self.operands.function == RowFunction::LayerNorm;
        // 1024 threads have 64 registers each, in which ptxas spilled 88 bytes of one that meets once.
        // With kept weights, warps that met twice were at 0.903 of a copy, and once at 0.900.
        let is_pair = self.rows == 2
            && self.storage == RowStorage::Registers
            && self.size() == 4
            && self.inputs() == 1;
        let has_registers =
            (self.rows == 1 || is_pair) && self.threads < AHEAD_THREADS && !self.keeps_weights;
        // Groups that take rows in turn have no other way.
        let is_in_turn = matches!(
            self.storage,
            RowStorage::Alternating { .. } | RowStorage::Teams { .. }
        );
        let has_two_totals =
            self.has_powers() || is_in_turn || is_layer_norm && is_held && has_registers;
        has_two_totals && self.vector > 1 && self.has_scratch()
    }

    /// Whether the function takes powers of the elements.
    fn has_powers(&self) -> bool {
        match self.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => true,
            RowFunction::RmsNorm | RowFunction::LayerNorm => false,
        }
    }

    /// Returns the times of a row of `f32` that four blocks hold and two do not; `None` of other rows, of a layer norm, and of rows that
    /// registers and shared memory hold together by default.
    pub(crate) fn weighed(
        &self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Rates,
    ) -> Option<Weighed> {
        let row = product([problem.columns(), self.size()]);
        let is_held = (2 * AHEAD_BYTES < row) && (row <= 4 * AHEAD_BYTES);
        let is_norm = self.operands.function == RowFunction::LayerNorm;
        if !is_held || is_norm || self.operands.ty != Ty::F32 || !self.has_room(arch) {
            return None;
        }
        if self.divided_by_default(problem, arch, rates).is_some() {
            return None;
        }
        let clusters = clusters_at_once(4, rates.multiprocessors.into());
        Some(Weighed {
            exchange: EXCHANGE / clusters as f64,
            again: AGAIN * row as f64 / (rates.memory() as f64 * COPIED),
        })
    }

    /// The bytes of an element.
    fn size(&self) -> i64 {
        i64::from(self.operands.ty.bits()) / 8
    }

    /// The tensors with rows that are read.
    pub(crate) fn inputs(&self) -> i64 {
        let all = self.operands.tensors();
        all.filter(|of| !of.is_output() && !of.is_of_columns())
            .count() as i64
    }

    /// Whether a block may have rows on their way to shared memory: Hopper's shared memory, and vectors of 16 bytes.
    fn has_room(&self, arch: Arch) -> bool {
        has_clusters(arch) && self.vector * self.size() == WIDEST && self.inputs() == 1
    }

    /// The plan of rows that lie beside each other. Threads beside each other take 128 bytes of a column at once, or 64 where whole rows fit
    /// into registers so. A block of 256 threads holds 64 KiB of its rows, so that another one beside it moves rows while it meets. Rows of `f32`
    /// of which it does not hold 128 bytes side by side have 512 threads on Hopper; longer rows have the blocks of a cluster, or are read again. Among these, the first plan whose blocks fill the device is taken, or the one of most
    /// blocks.
    fn turned(
        self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Option<Rates>,
    ) -> Option<RowwisePlan> {
        let [inner, _] = problem.beside()?;
        let columns = problem.columns();
        let vector = self.operands.turned;
        let all = Limits::of(arch).multiprocessors;
        let all = i64::from(rates.map_or(all, |rates| all.min(rates.multiprocessors)));
        let there = power_up(div_up(inner, vector));
        let beside = |bytes: i64| (bytes / (vector * self.size())).clamp(1, there);
        let plan = RowwisePlan {
            vector,
            storage: RowStorage::Turned { again: false },
            ..self
        };
        let of = |plan: RowwisePlan, [across, threads, blocks]: [i64; 3]| {
            let along = (threads / across).max(1);
            RowwisePlan {
                threads: along,
                rows: across * vector,
                blocks,
                accesses: div_up(columns, product([along, blocks])),
                ..plan
            }
        };
        let blocks = if has_clusters(arch) {
            &[1, 2, 4, MOST_BLOCKS][..]
        } else {
            &[1]
        };
        let whole = || {
            // Few columns: half of the registers, and blocks that are as wide as they need be.
            let along = power_up(div_up(columns, (plan.most_turned() / 2).max(1)));
            let across = (TURNED_LEAST / along).clamp(beside(TURNED_BYTES[0]), there.max(1));
            let few = [across, beside(TURNED_BYTES[0])]
                .map(|across| [across, (across * along).max(WARP), 1]);
            let few = few
                .into_iter()
                .filter(|[_, threads, _]| *threads <= TURNED_THREADS);
            // Of `f32`, 128 bytes of a column by twice the threads are faster than 64.
            let wide = [beside(TURNED_BYTES[0]), 2 * TURNED_THREADS, 1];
            let wide = (self.size() == 4 && has_clusters(arch)).then_some(wide);
            let many = blocks.iter().flat_map(move |blocks| {
                let [broad, narrow] =
                    TURNED_BYTES.map(|bytes| [beside(bytes), TURNED_THREADS, *blocks]);
                let wide = wide.filter(|_| *blocks == 1);
                [Some(broad), wide, Some(narrow)].into_iter().flatten()
            });
            // Without clusters, a block may have twice the threads.
            let doubled = TURNED_BYTES.map(|bytes| [beside(bytes), 2 * TURNED_THREADS, 1]);
            let doubled = doubled.into_iter().filter(|_| !has_clusters(arch));
            let all = few
                .chain(many)
                .chain(doubled)
                .map(|of_block| of(plan, of_block));
            // A cluster is worth its barrier only where its threads have some accesses.
            let is_worth =
                |plan: &RowwisePlan| plan.blocks == 1 || plan.accesses >= TURNED_ACCESSES;
            all.filter(|plan| plan.accesses <= plan.most_turned())
                .filter(is_worth)
        };
        let again = || {
            let plan = RowwisePlan {
                storage: RowStorage::Turned { again: true },
                ..plan
            };
            let threads = if has_clusters(arch) {
                TURNED_THREADS
            } else {
                2 * TURNED_THREADS
            };
            TURNED_BYTES.into_iter().flat_map(move |bytes| {
                blocks.iter().map(move |blocks| RowwisePlan {
                    accesses: TURNED_ACCESSES.min(plan.most_turned()),
                    ..of(plan, [beside(bytes), threads, *blocks])
                })
            })
        };
        let is_valid = |plan: &RowwisePlan| {
            // The last block of a row has some of its columns.
            let before = product([plan.blocks - 1, plan.chunk()]);
            before < columns && plan.check(arch).is_ok() && plan.takes(problem)
        };
        let chosen = |plans: Vec<RowwisePlan>| {
            let fills = |plan: &&RowwisePlan| plan.grid(problem) >= all;
            // The first of those with the most blocks.
            let most = || plans.iter().rev().max_by_key(|plan| plan.grid(problem));
            plans.iter().find(fills).or_else(most).copied()
        };
        chosen(whole().filter(is_valid).collect())
            .or_else(|| chosen(again().filter(is_valid).collect()))
    }

    /// The plan of rows of narrow elements that no vector divides: single elements of 16 bits would take as many instructions as
    /// wide ones, for half the bytes.
    fn shifted(self, problem: &RowwiseProblem, arch: Arch) -> Option<RowwisePlan> {
        let vector = WIDEST / self.size();
        let columns = problem.columns();
        let plan = RowwisePlan {
            vector,
            storage: RowStorage::Shifted {
                rows: 0,
                clusters: 0,
            },
            ..self
        };
        let is_narrow = self.vector * self.size() < NARROWEST && columns >= SHIFTED_COLUMNS;
        if !is_narrow || self.weights() == 0 && self.inputs() != 1 || !problem.has_no_gaps(vector) {
            return None;
        }
        if self.weights() > 0 {
            return plan.shifted_with_weights(columns, arch);
        }
        let mut threads = [64, 128, 256, 512].into_iter().map(|threads| RowwisePlan {
            threads,
            accesses: div_up(columns / vector, threads),
            ..plan
        });
        threads.find(|plan| plan.accesses * vector <= AHEAD_ELEMENTS)
    }

    /// The same of a norm with weights: a block has one row after the other and loads the weights once. Of an RMSNorm with a residual, whose
    /// rows have twice the bytes for the same weights, a block for each row is faster.
    fn shifted_with_weights(self, columns: i64, arch: Arch) -> Option<RowwisePlan> {
        let has_residual = self.inputs() > 1;
        let is_layer_norm = self.operands.function == RowFunction::LayerNorm;
        let most = if has_residual && is_layer_norm {
            SHIFTED_ELEMENTS / 2
        } else {
            SHIFTED_ELEMENTS
        };
        let of = |threads: i64| {
            let accesses = div_up(columns / self.vector, threads);
            (product([accesses, self.vector]) <= most).then_some(RowwisePlan {
                threads,
                accesses,
                ..self
            })
        };
        let plan = SHIFTED_THREADS.into_iter().find_map(of)?;
        if has_residual && !is_layer_norm {
            return Some(plan);
        }
        let clusters = at_once(arch, SHIFTED_RESIDENT, plan.threads) / self.vector * self.vector;
        Some(RowwisePlan {
            storage: RowStorage::Shifted { rows: 1, clusters },
            ..plan
        })
    }

    /// The plan of short rows of narrow elements that no vector divides.
    fn staged(self, problem: &RowwiseProblem, arch: Arch) -> Option<RowwisePlan> {
        let vector = WIDEST / self.size();
        let columns = problem.columns();
        let is_narrow = self.vector * self.size() < NARROWEST && columns < SHIFTED_COLUMNS;
        if !is_narrow || self.operands.modes != 1 || !problem.has_no_gaps(vector) {
            return None;
        }
        let mut threads = (0..).map(|log| 1 << log).take_while(|t| *t <= WARP);
        let (most, of_block) = match self.operands.function {
            RowFunction::Softmax => (STAGED, THREADS),
            RowFunction::LogSoftmax | RowFunction::RmsNorm => (STAGED, STAGED_THREADS),
            RowFunction::LayerNorm => (STAGED / 2, STAGED_THREADS),
        };
        let threads = threads.find(|threads| div_up(columns, *threads) <= most)?;
        let resident = match self.operands.function {
            _ if self.inputs() > 1 => 0,
            RowFunction::Softmax | RowFunction::LogSoftmax => 0,
            RowFunction::RmsNorm => STAGED_RESIDENT[0],
            RowFunction::LayerNorm => STAGED_RESIDENT[1],
        };
        let clusters = at_once(arch, resident, of_block);
        Some(RowwisePlan {
            vector,
            threads,
            rows: (of_block / threads).max(vector),
            accesses: div_up(columns, threads),
            storage: RowStorage::Staged {
                rows: clusters.min(1),
                clusters,
            },
            ..self
        })
    }

    /// The plan whose rows registers and shared memory hold together: of the lengths for which it was measured to be faster.
    fn divided_by_default(
        &self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Rates,
    ) -> Option<RowwisePlan> {
        let row = product([problem.columns(), self.size()]);
        let is_one = rates.memory() >= FAST && self.has_room(arch);
        let all = match self.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax => DIVIDED,
            RowFunction::RmsNorm => DIVIDED_RMS_NORM,
            RowFunction::LayerNorm => DIVIDED_LAYER_NORM,
        };
        let mut all = all.iter().filter(|_| is_one);
        let of =
            all.find(|of| of.size == self.size() && of.bytes[0] < row && row <= of.bytes[1])?;
        let [blocks, threads, beside] = of.of_row;
        let plan = RowwisePlan::divided(problem, arch, blocks, [threads, beside]).ok()?;
        let RowStorage::Divided { held, kept, .. } = plan.storage else {
            return None;
        };
        let storage = RowStorage::Divided {
            held,
            kept,
            clusters: MOST_CLUSTERS,
        };
        Some(if of.is_of_all {
            RowwisePlan { storage, ..plan }
        } else {
            plan
        })
    }

    /// The plan in teams of a large tensor whose results lag behind their totals: of the lengths, types and functions for which it was measured
    /// to be the fastest.
    fn lagging_by_default(
        &self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Rates,
    ) -> Option<RowwisePlan> {
        let row = product([problem.columns(), self.size()]);
        let is_large = product([problem.rows(), row]) >= TEAM_LEAST;
        if !is_large || rates.memory() < FAST || !self.has_room(arch) {
            return None;
        }
        let function = self.operands.function;
        let of = LAGGING.iter().find(|of| {
            let is_one = of.functions.contains(&function) && of.size == self.size();
            is_one && of.bytes[0] < row && row <= of.bytes[1]
        })?;
        let all = i64::from(Limits::of(arch).multiprocessors.min(rates.multiprocessors));
        let all = all.min(LAGGING_BLOCKS);
        // The parts of a row that leave the fewest multiprocessors idle, and the longest of those. Shorter parts than half of the
        // longest have twice as many blocks exchange totals.
        let [threads, _] = of.of_block;
        let access = product([threads, self.vector, self.size()]);
        let most = of.part / access.max(1);
        let parts = ((most / 2).max(1)..=most).rev().filter_map(|accesses| {
            let part = product([accesses, access]);
            let blocks = div_up(row, part);
            let teams = all.checked_div(blocks).filter(|teams| *teams > 0)?;
            // How much of all blocks rows fill, in parts of a row: larger is better.
            let filled = teams as f64 * row as f64 / part as f64;
            Some((blocks, filled))
        });
        let (blocks, _) = parts.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let plan = RowwisePlan::in_teams(problem, arch, [blocks, all], of.of_block).ok()?;
        let kept = plan.keeping_weights(arch, 1);
        let kept = kept.and_then(|kept| kept.lagging(arch, of.lag));
        kept.or_else(|_| plan.lagging(arch, of.lag)).ok()
    }

    /// The plan whose groups of threads take rows in turn: of the lengths, types and functions for which it was measured to be faster.
    fn in_turn(self, problem: &RowwiseProblem, arch: Arch) -> Option<RowwisePlan> {
        if !self.is_in_turn(problem, arch) {
            return None;
        }
        let (blocks, groups) = (MOST_BLOCKS, 2);
        let of_block = [GROUP_THREADS, groups];
        let plan = RowwisePlan::alternating(problem, arch, blocks, of_block).ok()?;
        // A slot is free long before its group needs the next row.
        let storage = RowStorage::Alternating {
            groups,
            slots: groups,
            clusters: clusters_at_once(blocks, i64::from(Limits::of(arch).multiprocessors)),
        };
        Some(RowwisePlan { storage, ..plan })
    }

    /// The plan in teams of a large tensor whose rows no cluster holds, and the times of this plan and of passes, if it is the faster one by
    /// the rates of a device.
    pub(crate) fn of_teams(
        &self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Rates,
    ) -> Option<(RowwisePlan, [f64; 2])> {
        let kind = usize::from(self.size() < 4);
        let row = product([problem.columns(), self.size()]);
        let shortest = match self.operands.function {
            RowFunction::RmsNorm => TEAM_ROWS_OF_RMS_NORM,
            RowFunction::Softmax | RowFunction::LogSoftmax | RowFunction::LayerNorm => {
                TEAM_ROWS[kind]
            }
        };
        let is_large = row > shortest && product([problem.rows(), row]) >= TEAM_LEAST;
        if !is_large || !self.has_room(arch) {
            return None;
        }
        let all = i64::from(Limits::of(arch).multiprocessors.min(rates.multiprocessors));
        let with_groups = |groups: i64| {
            let blocks = div_up(product([row, groups]), TEAM_BYTES);
            let fits = blocks <= all && (groups == 1 || product([blocks, 2]) <= all);
            let threads = [MOST_THREADS / groups, groups];
            let plan = RowwisePlan::in_teams(problem, arch, [blocks, all], threads);
            fits.then_some((groups, plan.ok()?))
        };
        let usual = || TEAM_GROUPS.into_iter().find_map(with_groups);
        // A norm has four groups if two such teams have room. Otherwise a layer norm, whose blocks exchange more numbers, has one group in each
        // block of two teams: of 2^20 numbers of `f32` on an H200, 0.594 of a copy, with two groups 0.543, and by one team of 132 blocks with
        // four groups 0.505.
        let of_half = || {
            let blocks = all / 2 / WARP * WARP;
            let is_held = blocks > 0 && div_up(row, TEAM_BYTES) <= blocks;
            let plan = RowwisePlan::in_teams(problem, arch, [blocks, all], [MOST_THREADS, 1]);
            is_held.then_some((1, plan.ok()?))
        };
        let (groups, plan) = match self.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax | RowFunction::RmsNorm => usual()?,
            RowFunction::LayerNorm => with_groups(TEAM_GROUPS[0])
                .or_else(of_half)
                .or_else(usual)?,
        };
        // A row is read while the one before it is stored, but for the first one.
        let rate = rates.memory() as f64 * COPIED;
        let teams = (all / plan.blocks).min(problem.rows());
        let turns = div_up(problem.rows(), teams) as f64;
        let of_turn = (row * teams) as f64 / rate;
        let of_block = product([div_up(problem.columns(), plan.blocks), groups]);
        let lost = TEAM_EXCHANGE + TEAM_ELEMENT * of_block as f64;
        let lost = lost / (groups as f64).powf(TEAM_HIDDEN);
        let of_teams = of_turn + turns * (2.0 * of_turn + lost);
        let kept = KEPT_LONG as f64 / row as f64;
        let least = if self.operands.function.is_norm() {
            AGAIN_LEAST_OF_NORMS
        } else {
            AGAIN_LEAST
        };
        let again = (AGAIN_LONG[kind] * (1.0 - kept)).max(least);
        // A layer norm reads its rows two times more.
        let again = again * (self.operands.function.reads() - 1) as f64;
        let of_passes = problem.rows() as f64 * row as f64 * (2.0 + again) / rate;
        // Blocks that load the weights again for each row have them from the second-level cache, as many bytes as the row or twice as many.
        let keeping = |ahead: i64| plan.keeping_weights(arch, ahead).ok();
        let kept = (1..=plan.storage.slots() / groups).rev().find_map(keeping);
        let plan = kept.unwrap_or(plan);
        (of_teams < of_passes).then_some((plan, [of_teams, of_passes]))
    }

    /// Whether groups of threads take rows in turn by default.
    pub(crate) fn is_in_turn(&self, problem: &RowwiseProblem, arch: Arch) -> bool {
        let [least, most] = IN_TURN;
        let row = product([problem.columns(), self.size()]);
        let is_of_f32 = self.operands.ty == Ty::F32 && self.has_powers() && self.has_room(arch);
        is_of_f32 && least < row && row <= most
    }

    /// The plan whose blocks have one row after the other, by the fewest blocks that hold a row.
    fn one_after_the_other(
        self,
        problem: &RowwiseProblem,
        arch: Arch,
        rates: Option<Rates>,
    ) -> Option<RowwisePlan> {
        let size = self.size();
        let held = |(blocks, bytes): (i64, i64)| {
            let part = div_up(problem.columns(), blocks).saturating_mul(size);
            (part <= bytes).then_some((blocks, part))
        };
        let most = AHEAD_THREADS * AHEAD_ELEMENTS * size;
        let mut ways = [1, 2, 4, MOST_BLOCKS]
            .map(|blocks| (blocks, AHEAD_BYTES))
            .into_iter()
            // A layer norm's mean would be one number too many for the registers.
            .chain(
                (self.operands.function != RowFunction::LayerNorm).then_some((MOST_BLOCKS, most)),
            );
        let (blocks, part) = ways.find_map(held).filter(|_| self.has_room(arch))?;
        // The blocks of a cluster wait for each other longer than a second pass takes, which mostly hits shared memory or the
        // second-level cache: measured for softmax. A layer norm has two more passes. Four blocks with numbers of f32 are faster than
        // passes on an H100 (0.78 of a copy and 0.73), and slower on an H200 (0.67 and 0.77): the rates of the device decide, if they
        // are known. Two blocks are slower on an H200 (0.77, and passes of one block 0.89).
        let is_layer_norm = self.operands.function == RowFunction::LayerNorm;
        let is_fast = rates.is_some_and(|rates| rates.memory() >= FAST);
        let is_alone = blocks == 1 && part <= BESIDE;
        let is_held_well = match size {
            _ if is_layer_norm => true,
            ..4 => is_alone && part <= AHEAD_NARROW,
            _ => is_alone || blocks == 4,
        };
        let is_read_again = || {
            let weighed = self.weighed(problem, arch, rates?)?;
            Some(weighed.again < weighed.exchange)
        };
        if !is_held_well || is_read_again() == Some(true) {
            return None;
        }
        // Two smaller blocks beside each other wait at their barriers in turn.
        let beside = if 2 * part <= AHEAD_BYTES { 2 } else { 1 };
        // On an H200, a layer norm with a weight or a bias was the fastest with them in shared memory and one row by 512 threads: of 16384
        // numbers with none ahead (0.903 of a copy; 0.855 with a row ahead, and 0.878 by two rows beside each other with another two
        // ahead). Twice as many blocks as run at once share the rows more evenly: 0.915 in place of 0.907 of 4096 rows, and 0.911 in
        // place of 0.881 of 2048.
        let keeps = is_layer_norm && is_fast && blocks == 1 && beside == 2;
        let keeps = keeps && self.weights() > 0 && self.inputs() == 1 && self.vector > 1;
        let kept = || {
            let threads = AHEAD_THREADS / 2;
            let plan = RowwisePlan {
                threads,
                accesses: div_up(problem.columns(), self.vector * threads),
                ..self
            };
            let plan = plan.keeping_weights(arch, 0).ok()?;
            Some(plan.with_twice_the_clusters())
        };
        if let Some(kept) = keeps.then(kept).flatten() {
            return Some(kept);
        }
        // Of `f32`, two rows in one block whose warps meet once, by a launch of all rows, were at 0.932 of a copy of 16384 numbers; one row
        // by 1024 threads with one ahead at 0.893 and 0.907.
        if is_layer_norm && is_fast && blocks == 1 && size == 4 && beside == 1 && self.inputs() == 1
        {
            let threads = AHEAD_THREADS / 2;
            return Some(RowwisePlan {
                rows: 2,
                threads,
                accesses: div_up(problem.columns(), self.vector * threads),
                meets_once: true,
                ..self
            });
        }
        // Of 16 bits, one row by 512 threads with one ahead, whose warps meet once, was at 0.900, 0.916, 0.844 and 0.850 of a copy of 32768
        // numbers on four machines; with kept weights and warps that meet twice at 0.869 and 0.905 on the first two, and 0.897 on the
        // last one; and by 1024 threads at 0.816.
        if is_layer_norm && is_fast && blocks == 1 && size < 4 && beside == 1 {
            let threads = AHEAD_THREADS / 2;
            let multiprocessors = i64::from(Limits::of(arch).multiprocessors);
            let plan = RowwisePlan {
                threads,
                accesses: div_up(problem.columns(), self.vector * threads),
                storage: RowStorage::Ahead {
                    rows: 1,
                    clusters: clusters_at_once(blocks, multiprocessors),
                },
                ..self
            };
            let may_keep = self.weights() > 0 && self.inputs() == 1 && self.vector > 1;
            let kept = may_keep.then(|| plan.keeping_weights(arch, 1).ok());
            return Some(kept.flatten().unwrap_or(plan));
        }
        // Without kept weights, that of 16384 was with two rows beside each other in one block, another two ahead and warps that meet
        // twice (0.893 and 0.897). One row by 512 threads whose warps meet once was at 0.882 without a row ahead and at
        // 0.886 with one; whose warps meet twice, at 0.58 and 0.88.
        let rows = match beside {
            2 if is_layer_norm && is_fast && blocks == 1 => 2,
            _ => 1,
        };
        let threads = AHEAD_THREADS / beside / rows;
        let plan = RowwisePlan {
            rows,
            threads,
            accesses: div_up(problem.columns(), self.vector * threads * blocks),
            blocks,
            ..self
        };
        // Other blocks of the multiprocessor load while one of a launch of all rows computes. A layer norm whose warps met twice was
        // slower so on an H100 (0.73 of a copy in place of 0.94).
        if beside == 2 && blocks == 1 && !is_layer_norm {
            return Some(plan);
        }
        let most_ahead = match blocks {
            1 => MOST_AHEAD_ALONE,
            _ => MOST_AHEAD,
        };
        let shared = Limits::of(arch).shared as i64 / beside - RESERVED;
        let slots = shared / (rows * plan.chunk() * size + 1);
        let multiprocessors = i64::from(Limits::of(arch).multiprocessors);
        Some(RowwisePlan {
            storage: RowStorage::Ahead {
                rows: slots.clamp(1, most_ahead),
                clusters: clusters_at_once(blocks, multiprocessors) * beside,
            },
            ..plan
        })
    }

    /// The plan with twice as many clusters.
    fn with_twice_the_clusters(self) -> RowwisePlan {
        match self.storage {
            RowStorage::Ahead { rows, clusters } => RowwisePlan {
                storage: RowStorage::Ahead {
                    rows,
                    clusters: product([clusters, 2]).min(MOST_CLUSTERS),
                },
                ..self
            },
            _ => self,
        }
    }

    /// The plan that reads the rows again.
    fn in_passes(self, problem: &RowwiseProblem, arch: Arch, rates: Option<Rates>) -> RowwisePlan {
        let row = problem.columns().saturating_mul(self.size());
        let is_layer_norm = self.operands.function == RowFunction::LayerNorm;
        let is_kept = self.has_room(arch) && !is_layer_norm;
        let [one, two, eight] = PASS_BYTES;
        let blocks = if !has_clusters(arch) {
            1
        } else if is_kept {
            match row {
                _ if row <= one => 1,
                _ if row <= two => 2,
                _ if row < eight => 4,
                _ => MOST_BLOCKS,
            }
        } else {
            match row / PART_BYTES {
                ..2 => 1,
                2..4 => 2,
                4..8 => 4,
                _ => MOST_BLOCKS,
            }
        };
        // The differences from a mean are a pass of their own: a layer norm has fewer rows under way with more threads.
        let [threads, accesses] = match blocks {
            1 if is_layer_norm => [PASS_THREADS / 2, PASS_ACCESSES / 2],
            _ => [PASS_THREADS, PASS_ACCESSES],
        };
        let plan = RowwisePlan {
            threads,
            accesses,
            blocks,
            storage: RowStorage::Passes { kept: 0 },
            ..self
        };
        let part = div_up(problem.columns(), blocks).saturating_mul(self.size());
        if self.has_room(arch) {
            let is_quartered = match blocks {
                MOST_BLOCKS => part <= QUARTERED,
                _ => row <= QUARTERED_ROW,
            };
            let is_slow = rates.is_some_and(|rates| rates.memory() < FAST);
            let is_whole = is_slow && row >= KEPT_WHOLE && blocks == 1 && self.has_powers();
            let [threads, kept] = match is_quartered {
                _ if is_layer_norm => [2 * PASS_THREADS, KEPT_ALONE],
                _ if is_whole => [2 * PASS_THREADS, KEPT],
                true => [PASS_THREADS / 2, KEPT],
                false => [PASS_THREADS, KEPT],
            };
            return RowwisePlan {
                threads,
                accesses: 1,
                storage: RowStorage::Passes { kept },
                ..plan
            };
        }
        // A tile begins at most so far behind the end of a row.
        let is_near = (blocks - 1) * plan.chunk() <= FARTHEST;
        RowwisePlan {
            accesses: if is_near { accesses } else { accesses / 2 },
            ..plan
        }
    }

    /// The accesses whose elements fit into the registers of a thread: preferred ones, and the most.
    fn registers(&self) -> [i64; 2] {
        let size = i64::from(self.operands.ty.bits()) / 8;
        [PREFERRED, HELD].map(|bytes| {
            let most = if self.vector == 1 {
                MOST_SINGLE
            } else {
                MOST_ELEMENTS
            };
            (bytes / size).min(most) / self.vector
        })
    }

    /// Returns the threads of a block.
    pub(crate) fn threads_of_block(&self) -> i64 {
        if let RowStorage::Turned { .. } = self.storage {
            return product([self.threads, self.across()]);
        }
        product([self.threads, self.rows, self.storage.groups()])
    }

    /// Returns the threads beside each other of a block whose rows are.
    pub(crate) fn across(&self) -> i64 {
        self.rows / self.vector.max(1)
    }

    /// Returns the lanes of a warp, and the warps of a block, that share rows beside each other.
    pub(crate) fn sharing(&self) -> [i64; 2] {
        let lanes = (WARP / self.across().max(1)).max(1).min(self.threads);
        [lanes, self.threads / lanes.max(1)]
    }

    /// Returns the layouts of the shared memory for the totals of rows beside each other: of warps, (row, total, warp), of the blocks of a
    /// cluster, (row, total, meeting), and of rows. `None` if one warp alone shares a row.
    pub(crate) fn meeting_layouts(&self) -> Result<Option<[Layout; 3]>, colex_layout::Error> {
        let [_, warps] = self.sharing();
        if warps == 1 && self.blocks == 1 {
            return Ok(None);
        }
        let totals = if self.has_powers() { 2 } else { 1 };
        let of = |last: i64| {
            let (rows, all) = (self.rows, product([self.rows, totals]));
            Layout::new((rows, totals, last), (1, rows, all))
        };
        let of_blocks = match self.blocks {
            1 => 1,
            _ => self.meetings(),
        };
        Ok(Some([of(warps)?, of(of_blocks)?, of(1)?]))
    }

    /// The times that the blocks of turned rows meet.
    fn meetings(&self) -> i64 {
        match self.operands.function {
            RowFunction::Softmax | RowFunction::LogSoftmax | RowFunction::RmsNorm => 1,
            RowFunction::LayerNorm => 2,
        }
    }

    /// The bytes of that shared memory.
    fn meeting_bytes(&self) -> i64 {
        let [_, warps] = self.sharing();
        let totals = if self.has_powers() { 2 } else { 1 };
        let all = warps.saturating_add(self.meetings()).saturating_add(1);
        product([4, self.rows, totals, all])
    }

    /// Returns the blocks that a multiprocessor has of a plan of divided, turned or shifted rows or of one that keeps weights: as many as shared memory has room
    /// for, and at most such that each thread has 64 registers, or more if it has many elements of a row.
    pub(crate) fn beside(&self, arch: Arch) -> i64 {
        let threads = self.threads_of_block();
        if let RowStorage::Turned { .. } = self.storage {
            let held = product([self.accesses, self.vector, self.size()]) / 4;
            let held = if self.vector == 1 {
                self.accesses
            } else {
                held
            };
            let registers = held.saturating_add(TURNED_REGISTERS);
            let shared = self.meeting_bytes() as u64;
            let beside = Limits::of(arch).blocks_of_multiprocessor(threads as u64, shared) as i64;
            let most = REGISTERS / product([registers.max(1), threads.max(1)]);
            return beside.min(most).max(1);
        }
        if let Some((registers, clusters)) = self.of_kept_columns() {
            let limits = Limits::of(arch);
            let shared = if self.is_staged() {
                product([self.inputs(), self.span(), self.size()])
            } else {
                DIVIDED_TOTALS
            };
            let asked = div_up(clusters, i64::from(limits.multiprocessors));
            let there = limits.blocks_of_multiprocessor(threads as u64, shared as u64) as i64;
            let most = REGISTERS / product([registers, threads.max(1)]);
            return asked.min(there).min(most).max(1);
        }
        let shared = self.slot_bytes().saturating_add(self.weight_bytes());
        let shared = shared.saturating_add(DIVIDED_TOTALS) as u64;
        let beside = Limits::of(arch).blocks_of_multiprocessor(threads as u64, shared) as i64;
        let most = if self.keeps_weights {
            let elements = product([self.accesses, self.vector]);
            let registers = elements.saturating_add(OWN_REGISTERS).max(LEAST_REGISTERS);
            REGISTERS / product([registers, threads.max(1)])
        } else {
            DIVIDED_THREADS / threads.max(1)
        };
        beside.min(most).max(1)
    }

    /// The registers of a thread whose weights stay in them, and the most blocks of the launch: its numbers in `f32`, those of the next rows
    /// in the type of the tensors, the weights in this type if rows are shifted and in `f32` if they are staged, and the others.
    fn of_kept_columns(&self) -> Option<(i64, i64)> {
        let bytes = |elements: i64, of: i64| product([elements, of, self.size()]);
        let (elements, [narrow, wide], clusters) = match self.storage {
            RowStorage::Shifted {
                rows,
                clusters: clusters @ 1..,
            } => {
                let elements = product([self.accesses, self.vector]).saturating_add(1);
                let of = product([self.inputs(), rows]).saturating_add(self.weights());
                (elements, [bytes(elements, of), 0], clusters)
            }
            RowStorage::Staged {
                rows,
                clusters: clusters @ 1..,
            } => {
                let next = product([self.staged_vectors(), self.vector, rows]);
                let weights = product([self.accesses, self.weights()]);
                (
                    self.accesses,
                    [bytes(next, self.inputs()), weights],
                    clusters,
                )
            }
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => return None,
        };
        let all = elements.saturating_add(div_up(narrow, 4));
        let others = if self.is_staged() {
            KEPT_STAGED_REGISTERS
        } else {
            KEPT_REGISTERS
        };
        Some((all.saturating_add(wide).saturating_add(others), clusters))
    }

    /// The bytes of shared memory that are left for totals and barriers.
    fn reserved(&self) -> i64 {
        match self.lag() {
            0 => RESERVED,
            _ => LAGGING_RESERVED,
        }
    }

    /// The bytes of shared memory for the rows that a block keeps or that are on their way to it.
    fn slot_bytes(&self) -> i64 {
        let slot = product([self.rows, self.chunk(), self.size(), self.inputs()]);
        self.storage.slots().saturating_mul(slot)
    }

    /// The bytes of shared memory for the weight and the bias, if the block keeps them.
    fn weight_bytes(&self) -> i64 {
        if !self.keeps_weights {
            return 0;
        }
        product([self.rows, self.chunk(), self.size(), self.weights()])
    }

    /// The tensors with one element for each column.
    fn weights(&self) -> i64 {
        let all = self.operands.tensors();
        all.filter(|of| of.is_of_columns()).count() as i64
    }

    /// Returns the columns that a block has at once.
    pub(crate) fn chunk(&self) -> i64 {
        match self.storage {
            RowStorage::Staged { .. } | RowStorage::Turned { .. } => {
                product([self.threads, self.accesses])
            }
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Passes { .. } => product([self.threads, self.vector, self.accesses]),
        }
    }

    /// Returns the bytes that the kernel moves between memory and registers for a problem: those of each pass over the rows.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowStorage, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::F32, [1, 1 << 20]);
    /// let plan = RowwisePlan::fastest(&problem, Arch::Sm80)?;
    /// assert_eq!(plan.storage, RowStorage::Passes { kept: 0 }); // the row is read twice and written once
    /// assert_eq!(plan.bytes(&problem), 3 * 4 << 20);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn bytes(&self, problem: &RowwiseProblem) -> i64 {
        let again = match self.storage {
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. } => 0,
            // The sum of two tensors is read again.
            RowStorage::Turned { again } => i64::from(again),
            RowStorage::Passes { .. } => {
                product([self.operands.function.reads() - 1, self.inputs()])
            }
        };
        let kept = match self.storage {
            RowStorage::Passes { kept } => product([kept.max(0), self.chunk(), self.blocks]),
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. } => 0,
        };
        let columns = problem.columns().saturating_sub(kept).max(0);
        let of_pass = product([problem.rows(), columns, self.size()]);
        let of_all = of_pass.saturating_mul(again);
        problem.compulsory_bytes().saturating_add(of_all)
    }

    /// Says in sentences how the plan divides a problem.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [100, 1000]);
    /// let plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
    /// assert_eq!(
    ///     plan.explain(&problem),
    ///     "softmax bf16, 100 rows of 1000
    /// An access takes 8 elements, 16 bytes: addresses, strides and columns allow 8.
    /// 32 threads and 4 accesses make 1024 columns, and a row has 1000.
    /// A block of 128 threads has 4 rows; the launch has 25 blocks.
    /// Rows stay in registers: 400000 bytes are moved, and 400000 must be."
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self, problem: &RowwiseProblem) -> String {
        let RowwisePlan {
            vector,
            threads,
            rows,
            blocks,
            ..
        } = *self;
        let bytes = vector.saturating_mul(i64::from(self.operands.ty.bits())) / 8;
        let columns = problem.columns();
        let (allowed, by) = match self.storage {
            RowStorage::Turned { .. } => (self.operands.turned, "rows"),
            _ => (self.operands.vector, "columns"),
        };
        let [moved, must] = [self.bytes(problem), problem.compulsory_bytes()];
        let all = self.capacity();
        let [elements, sharing, of_block, of_rows, grid] = [
            (vector, "element"),
            (threads, "thread"),
            (self.threads_of_block(), "thread"),
            (rows, "row"),
            (self.grid(problem), "block"),
        ]
        .map(counted);
        let each = match blocks {
            1 => String::new(),
            _ => format!(" of each of {blocks} blocks"),
        };
        let accesses = self.accesses.saturating_mul(self.storage.chunks());
        let accesses = counted((accesses, "access"));
        let chunks = if self.storage.is_whole() {
            String::new()
        } else {
            format!(", in {}", counted((div_up(columns, all), "turn")))
        };
        let reads = self.operands.function.reads();
        let how = match self.storage {
            RowStorage::Registers => "Rows stay in registers".to_string(),
            RowStorage::Shifted { clusters: 0, .. } => {
                "Rows stay in registers, wherever they begin".to_string()
            }
            RowStorage::Shifted { .. } => {
                let kept = match self.weights() {
                    0 => "",
                    _ => ", and so do the weights of its columns",
                };
                format!("Rows stay in registers, wherever they begin: a block has one after the other{kept}")
            }
            RowStorage::Staged { clusters: 0, .. } => {
                "A block copies its rows to shared memory and the results from there, and a thread takes single elements".to_string()
            }
            RowStorage::Staged { .. } => {
                let kept = match self.weights() {
                    0 => "",
                    _ => ", and registers keep the weights of its columns",
                };
                format!(
                    "A block copies one tile of rows after the other to shared memory and the results from there, and a thread takes single \
                     elements{kept}"
                )
            }
            RowStorage::Ahead { rows: 0, .. } => {
                "Rows stay in registers, and a block has one tile of rows after the other".to_string()
            }
            RowStorage::Ahead { rows, .. } => {
                let next = counted((rows, "tile"));
                format!(
                    "Rows stay in registers, and shared memory receives the next {next} of rows"
                )
            }
            RowStorage::Alternating { groups, slots, .. } => {
                let [groups, slots] = [(groups, "group"), (slots, "slot")].map(counted);
                format!(
                    "Rows stay in registers; {groups} of threads take them in turn from {slots} of shared memory"
                )
            }
            RowStorage::Teams {
                groups, slots, lag, ..
            } => {
                let [groups, slots] = [(groups, "group"), (slots, "slot")].map(counted);
                let stay = match lag {
                    0 => "registers".to_string(),
                    _ => format!(
                        "shared memory, and a group stores a row when it has begun the next {}",
                        counted((lag, "row"))
                    ),
                };
                format!(
                    "All blocks run at once, and those of a team meet through global memory. Rows stay in {stay}; {groups} of threads \
                     of each block take them in turn from {slots} of shared memory"
                )
            }
            RowStorage::Divided { held, kept, .. } => {
                let [held, kept] = [held, kept].map(|count| counted((count, "chunk")));
                format!("Registers hold {held} of a row, and shared memory keeps {kept}")
            }
            RowStorage::Turned { again } => {
                let beside = counted((self.across(), "thread"));
                let held = if again {
                    "rows are read twice"
                } else {
                    "rows stay in registers"
                };
                format!("Rows lie beside each other: {beside} of a block take a column of its rows, and {held}")
            }
            RowStorage::Passes { kept: 0 } => format!("Rows are read {reads} times"),
            RowStorage::Passes { kept } => {
                let kept = counted((kept, "turn"));
                format!("Rows are read {reads} times, but shared memory keeps {kept}")
            }
        };
        let meeting = if self.meets_once {
            "The warps of a row meet once: each gives its own totals.\n"
        } else {
            ""
        };
        let keeping = if self.keeps_weights {
            let all = product([columns, self.weights(), self.size()]);
            let of_block = rows.min(problem.rows());
            let kept = product([self.grid(problem) / blocks.max(1), of_block, all]);
            let of_rows = product([problem.rows(), all]);
            format!(
                "Shared memory keeps the weight and the bias: all blocks load {kept} bytes of them, and {of_rows} without it.\n"
            )
        } else {
            String::new()
        };
        format!(
            "{problem}\n\
             An access takes {elements}, {bytes} bytes: addresses, strides and {by} allow {allowed}.\n\
             {sharing}{each} and {accesses} make {all} columns, and a row has {columns}{chunks}.\n\
             A block of {of_block} has {of_rows}; the launch has {grid}.\n\
             {meeting}{keeping}{how}: {moved} bytes are moved, and {must} must be."
        )
    }

    /// Returns the blocks of a launch.
    pub(crate) fn grid(&self, problem: &RowwiseProblem) -> i64 {
        let tiles = match (self.storage, problem.beside()) {
            (RowStorage::Turned { .. }, Some([inner, others])) => {
                product([div_up(inner, self.rows), others])
            }
            _ => div_up(problem.rows(), self.rows),
        };
        let clusters = match self.storage {
            RowStorage::Ahead { clusters, .. }
            | RowStorage::Alternating { clusters, .. }
            | RowStorage::Divided { clusters, .. }
            | RowStorage::Shifted {
                clusters: clusters @ 1..,
                ..
            }
            | RowStorage::Staged {
                clusters: clusters @ 1..,
                ..
            }
            | RowStorage::Teams {
                teams: clusters, ..
            } => tiles.min(clusters),
            RowStorage::Registers
            | RowStorage::Shifted { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => tiles,
        };
        clusters.saturating_mul(self.blocks)
    }

    /// Checks that the kernel can be built: every number.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub fn check(&self, arch: Arch) -> Result<(), Error> {
        let operands = &self.operands;
        operands.check()?;
        let check = self.plan_check();
        let is_turned = matches!(self.storage, RowStorage::Turned { .. });
        let must = "accesses of several elements need columns with the stride 1";
        let is_wide = operands.contiguous || is_turned;
        check.access((self.vector, operands.ty), is_wide, must)?;
        check.power("number of threads of a row", self.threads, MOST_THREADS)?;
        let others = MOST_THREADS / self.threads;
        if is_turned {
            return self.check_turned(&check, arch, others);
        }
        check.power("number of rows of a block", self.rows, others)?;
        if self.has_teams() {
            let of = [2, MOST_OF_TEAM, 1];
            check.number("number of blocks of a team", self.blocks, of)?;
        } else {
            let clusters = if has_clusters(arch) { MOST_BLOCKS } else { 1 };
            check.power("number of blocks of a row", self.blocks, clusters)?;
        }
        let most = match self.storage {
            RowStorage::Alternating { .. } | RowStorage::Teams { .. } => {
                THREAD_BYTES / (self.vector * self.size()).max(1)
            }
            RowStorage::Divided { .. } => HELD / (self.vector * self.size()).max(1),
            RowStorage::Staged { .. } => MOST_ELEMENTS,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Shifted { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => {
                let [_, most] = self.registers();
                most
            }
        };
        check.number("number of accesses", self.accesses, [1, most, 1])?;
        if self.cluster() > 1 {
            let what = "number of rows of a block of a cluster";
            check.number(what, self.rows, [1, 1, 1])?;
            let what = "number of threads of a block of a cluster";
            check.number(what, self.threads, [WARP, MOST_THREADS, WARP])?;
        }
        if self.meets_once && !self.has_scratch() {
            return check.refuse(
                "warps meet once only where 8 and more, a cluster or shifted rows exchange totals",
            );
        }
        self.check_storage(&check, arch)?;
        self.check_weights(&check, arch)?;
        check.block(self.threads_of_block())
    }

    /// Checks what a plan needs whose rows lie beside each other.
    fn check_turned(&self, check: &PlanCheck<'_>, arch: Arch, others: i64) -> Result<(), Error> {
        if self.operands.turned < 1 || self.operands.contiguous {
            return check.refuse(
                "rows lie beside each other where a mode of them has the stride 1 in every tensor with rows, and columns have another",
            );
        }
        if self.meets_once {
            return check.refuse("rows that lie beside each other always meet once for a total: `meets_once` is false");
        }
        let rows = product([others, self.vector]);
        check.power("number of rows of a block", self.rows, rows)?;
        let what = "number of rows of a block of turned rows";
        check.number(what, self.rows, [self.vector, rows, 1])?;
        let clusters = if has_clusters(arch) { MOST_BLOCKS } else { 1 };
        check.power("number of blocks of a row", self.blocks, clusters)?;
        check.number(
            "number of accesses",
            self.accesses,
            [1, self.most_turned(), 1],
        )?;
        self.check_weights(check, arch)?;
        check.block(self.threads_of_block())?;
        let most = Limits::of(arch).shared.into();
        check.limit(
            "bytes of shared memory for totals",
            self.meeting_bytes(),
            most,
        )
    }

    /// The plans around one whose rows lie beside each other: fewer and more threads of a row, rows of a block, blocks of a cluster and
    /// accesses, and the other way to have the rows.
    pub(crate) fn turned_neighbours(
        &self,
        problem: &RowwiseProblem,
        again: bool,
    ) -> Vec<RowwisePlan> {
        let plan = *self;
        let holding = |plan: RowwisePlan| RowwisePlan {
            accesses: match plan.storage {
                RowStorage::Turned { again: true } => plan.accesses,
                _ => div_up(problem.columns(), product([plan.threads, plan.blocks])),
            },
            ..plan
        };
        let threads = steps(plan.threads).map(|threads| RowwisePlan { threads, ..plan });
        let rows = steps(plan.rows).map(|rows| RowwisePlan { rows, ..plan });
        let blocks = steps(plan.blocks).map(|blocks| RowwisePlan { blocks, ..plan });
        // As many threads of a block, more of them beside each other or fewer.
        let wider = [(2, 1), (1, 2)].map(|(up, down)| RowwisePlan {
            rows: plan.rows.saturating_mul(up) / down,
            threads: plan.threads.saturating_mul(down) / up,
            ..plan
        });
        let other = RowwisePlan {
            storage: RowStorage::Turned { again: !again },
            accesses: TURNED_ACCESSES.min(plan.most_turned()),
            ..plan
        };
        let accesses = steps(plan.accesses).map(|accesses| RowwisePlan { accesses, ..plan });
        let accesses = accesses.into_iter().filter(|_| again);
        let all = threads.into_iter().chain(rows).chain(blocks).chain(wider);
        let all = all.chain([other]).map(holding);
        all.chain(accesses).collect()
    }

    /// The most accesses of a thread to rows that lie beside each other.
    fn most_turned(&self) -> i64 {
        match self.vector {
            1 => MOST_SINGLE,
            _ => THREAD_BYTES / product([self.vector, self.size()]).max(1),
        }
    }

    /// Checks what a plan needs that keeps weights.
    fn check_weights(&self, check: &PlanCheck<'_>, arch: Arch) -> Result<(), Error> {
        if !self.keeps_weights {
            return Ok(());
        }
        if self.weights() == 0 {
            return check.refuse(
                "shared memory keeps the weight and the bias of a norm that has one of them",
            );
        }
        let has_one_after_the_other = matches!(
            self.storage,
            RowStorage::Ahead { .. } | RowStorage::Alternating { .. } | RowStorage::Teams { .. }
        );
        if !has_one_after_the_other {
            return check.refuse(
                "blocks keep the weight and the bias that have one tile of rows in registers after the other",
            );
        }
        if arch < Arch::Sm80 || self.vector * self.size() < NARROWEST {
            return Err(RowwiseError::Asynchronous { arch }.into());
        }
        let bytes = self.slot_bytes().saturating_add(self.weight_bytes());
        check.limit(
            "bytes of shared memory for rows and weights",
            bytes.saturating_add(self.reserved()),
            Limits::of(arch).shared.into(),
        )
    }

    /// Checks the numbers of the storage, and the shared memory.
    fn check_storage(&self, check: &PlanCheck<'_>, arch: Arch) -> Result<(), Error> {
        match self.storage {
            RowStorage::Registers | RowStorage::Turned { .. } => {}
            RowStorage::Shifted { rows, clusters } => {
                return self.check_shifted(check, [rows, clusters]);
            }
            RowStorage::Staged { rows, clusters } => {
                return self.check_staged(check, arch, [rows, clusters]);
            }
            RowStorage::Ahead { rows, clusters } => {
                let of = [0, MOST_SLOTS, 1];
                check.number("number of tiles of rows ahead", rows, of)?;
                let of = [1, MOST_CLUSTERS, 1];
                check.number("number of clusters", clusters, of)?;
            }
            RowStorage::Alternating {
                groups,
                slots,
                clusters,
            } => {
                let of = [1, MOST_CLUSTERS, 1];
                check.number("number of clusters", clusters, of)?;
                self.check_alternating(check, arch, [groups, slots])?;
            }
            RowStorage::Teams {
                groups,
                slots,
                teams,
                lag,
            } => {
                check.number("number of teams", teams, [1, MOST_CLUSTERS, 1])?;
                self.check_alternating(check, arch, [groups, slots])?;
                check.number("number of rows behind", lag, [0, MOST_SLOTS, 1])?;
                if lag > 0 {
                    let of = [1, MOST_LAGGING_GROUPS, 1];
                    check.number("number of groups whose results are rows behind", groups, of)?;
                }
                let least = lag.saturating_add(1);
                let what = "number of slots of a group";
                check.number(what, slots / groups, [least, MOST_SLOTS, 1])?;
            }
            RowStorage::Divided {
                held,
                kept,
                clusters,
            } => {
                check.number("number of clusters", clusters, [1, MOST_CLUSTERS, 1])?;
                let what = "number of chunks that shared memory keeps";
                check.number(what, kept, [1, MOST_SLOTS, 1])?;
                let what = "number of chunks that registers hold";
                check.number(what, held, [0, MOST_SLOTS, 1])?;
                let own = product([held, self.accesses, self.vector, self.size()]);
                check.limit("bytes in the registers of a thread", own, DIVIDED_BYTES)?;
                if self.inputs() != 1 {
                    return check.refuse(
                        "rows that registers and shared memory hold together are those of one tensor",
                    );
                }
            }
            RowStorage::Passes { kept } => {
                let of = [0, MOST_SLOTS, 1];
                check.number("number of chunks that are kept", kept, of)?;
            }
        }
        let slots = self.storage.slots();
        if slots == 0 {
            return Ok(());
        }
        if arch < Arch::Sm80 || self.vector * self.size() < NARROWEST {
            return Err(RowwiseError::Asynchronous { arch }.into());
        }
        let bytes = self.slot_bytes().saturating_add(self.reserved());
        let limits = Limits::of(arch);
        check.limit(
            "bytes of shared memory for rows",
            bytes,
            limits.shared.into(),
        )?;
        if let RowStorage::Teams { teams, .. } = self.storage {
            let threads = self.threads_of_block() as u64;
            let bytes = bytes.saturating_add(self.weight_bytes());
            let each = limits.blocks_of_multiprocessor(threads, bytes as u64) as i64;
            let most = each * i64::from(limits.multiprocessors);
            let blocks = product([teams, self.blocks]);
            check.limit("blocks of teams, which all run at once", blocks, most)?;
        }
        Ok(())
    }

    /// Checks what groups need that take rows in turn.
    fn check_alternating(
        &self,
        check: &PlanCheck<'_>,
        arch: Arch,
        [groups, slots]: [i64; 2],
    ) -> Result<(), Error> {
        if !has_clusters(arch) || self.vector * self.size() != WIDEST {
            return Err(RowwiseError::Bulk { arch }.into());
        }
        if !self.meets_once || self.inputs() != 1 {
            return check.refuse(
                "rows that groups take in turn are those of one tensor, and their warps meet once",
            );
        }
        let what = "number of rows of a group";
        check.number(what, self.rows, [1, 1, 1])?;
        let of = [WARP, MOST_THREADS, WARP];
        check.number("number of threads of a group", self.threads, of)?;
        let of = [1, MOST_GROUPS.min(MOST_THREADS / self.threads), 1];
        check.number("number of groups that take rows in turn", groups, of)?;
        let of = [groups, MOST_SLOTS, groups];
        check.number("number of slots of rows", slots, of)?;
        let all = product([groups, self.chunk(), self.size()]);
        check.limit("bytes in the registers of a block", all, BLOCK_BYTES)
    }

    /// Checks what a plan needs that regards rows as one mode.
    fn check_shifted(
        &self,
        check: &PlanCheck<'_>,
        [ahead, clusters]: [i64; 2],
    ) -> Result<(), Error> {
        let [rows, blocks] = [self.rows, self.blocks];
        check.number("number of rows of a block of shifted rows", rows, [1, 1, 1])?;
        check.number("number of blocks of a shifted row", blocks, [1, 1, 1])?;
        let of = [2 * WARP, MOST_THREADS, WARP];
        check.number("number of threads of a shifted row", self.threads, of)?;
        // Rows of a block begin equally far behind a multiple of the vector only if the number of blocks is a multiple of it.
        let of = [0, MOST_CLUSTERS, self.vector];
        check.number("number of blocks of shifted rows", clusters, of)?;
        let of = [0, clusters.min(1), 1];
        check.number("number of shifted rows ahead", ahead, of)?;
        if self.operands.modes != 1 {
            return check.refuse("shifted rows are one mode of each tensor");
        }
        Ok(())
    }

    /// Checks what a plan needs whose blocks copy whole rows to shared memory.
    fn check_staged(
        &self,
        check: &PlanCheck<'_>,
        arch: Arch,
        [ahead, clusters]: [i64; 2],
    ) -> Result<(), Error> {
        check.number("number of blocks of a staged row", self.blocks, [1, 1, 1])?;
        let what = "number of threads of a staged row";
        check.number(what, self.threads, [1, WARP, 1])?;
        // A span of rows begins with a vector, and a block has whole warps.
        let least = self.vector.max(WARP / self.threads);
        let what = "number of rows of a block of staged rows";
        check.number(what, self.rows, [least, MOST_THREADS, 1])?;
        if self.operands.modes != 1 {
            return check.refuse("staged rows are one mode of each tensor");
        }
        let of = [0, MOST_CLUSTERS, 1];
        check.number("number of blocks of staged rows", clusters, of)?;
        let of = [0, clusters.min(1), 1];
        check.number("number of tiles of staged rows ahead", ahead, of)?;
        let bytes = product([self.inputs(), self.span(), self.size()]);
        let most = Limits::of(arch).shared;
        check.limit("bytes of shared memory for rows", bytes, most.into())
    }

    /// Returns the vectors of each thread that a block with staged rows copies.
    pub(crate) fn staged_vectors(&self) -> i64 {
        div_up(self.accesses, self.vector)
    }

    /// Returns the elements of shared memory for the rows of a block with staged rows.
    pub(crate) fn span(&self) -> i64 {
        product([self.staged_vectors(), self.threads_of_block(), self.vector])
    }

    /// The columns that the threads of a row have.
    fn capacity(&self) -> i64 {
        let all = product([self.chunk(), self.storage.chunks(), self.blocks]);
        match self.storage {
            // Fewer elements than a vector are left at the ends, or there is one vector less inside.
            RowStorage::Shifted { .. } => all.saturating_add(self.vector.saturating_sub(1)),
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Turned { .. }
            | RowStorage::Passes { .. } => all,
        }
    }

    /// Whether the totals of a row go through the lanes of each warp: in a cluster, and in a block of many warps, where each lane
    /// would add many numbers otherwise.
    pub(crate) fn has_scratch(&self) -> bool {
        let has_own = match self.storage {
            RowStorage::Shifted { .. }
            | RowStorage::Alternating { .. }
            | RowStorage::Teams { .. } => true,
            RowStorage::Registers
            | RowStorage::Ahead { .. }
            | RowStorage::Divided { .. }
            | RowStorage::Staged { .. }
            | RowStorage::Passes { .. } => false,
            // Its totals have memory of their own.
            RowStorage::Turned { .. } => return false,
        };
        // A block of several rows has memory for the warps of each only where they meet once.
        let has_memory = self.rows == 1 || self.meets_once;
        self.blocks > 1 || has_own || has_memory && self.threads >= MANY_WARPS * WARP
    }

    /// Checks that the plan is for a problem.
    ///
    /// # Errors
    ///
    /// Returns an error if tensors, types or modes are others, if the plan's accesses are wider than the tensors allow, if a
    /// row does not fit into the registers, or if the launch has too many blocks.
    pub(crate) fn check_problem(&self, problem: &RowwiseProblem) -> Result<(), Error> {
        let call = problem.operands();
        let refused = |why: RowwiseError| Err(why.into());
        let like = RowwiseOperands {
            vector: call.vector,
            turned: call.turned,
            contiguous: call.contiguous,
            ..self.operands
        };
        check_operands(&self.operands, &like, &call)?;
        if let RowStorage::Turned { .. } = self.storage {
            if call.turned == 0 {
                return refused(RowwiseError::Beside);
            }
            check_width((self.vector, false), (call.turned, true), "rows")?;
        } else if self.is_staged() {
            if !problem.has_no_gaps(self.vector) {
                let most = MOST_SHIFTED;
                return refused(RowwiseError::Spans { most });
            }
        } else if !matches!(self.storage, RowStorage::Shifted { .. }) {
            let plan = (self.vector, self.operands.contiguous);
            check_width(plan, (call.vector, call.contiguous), "columns")?;
        } else if !problem.has_no_gaps(self.vector) {
            let most = MOST_SHIFTED;
            return refused(RowwiseError::Gaps { most });
        }
        let all = self.capacity();
        let columns = problem.columns();
        if self.storage.is_whole() && all < columns {
            return refused(RowwiseError::Columns { all, columns });
        }
        if let RowStorage::Divided { .. } = self.storage {
            let full = all.saturating_sub(product([self.chunk(), self.blocks]));
            if columns <= full {
                return refused(RowwiseError::Full { full, columns });
            }
        }
        if self.is_staged() {
            let full = all.saturating_sub(self.threads);
            if columns <= full {
                return refused(RowwiseError::Elements { full, columns });
            }
        }
        if self.has_teams() && problem.rows() > MOST_TEAM_ROWS {
            let (rows, most) = (problem.rows(), MOST_TEAM_ROWS);
            return refused(RowwiseError::OfTeams { rows, most });
        }
        let beyond = if self.storage.is_whole() {
            all.saturating_sub(self.chunk()).saturating_sub(columns)
        } else {
            all.saturating_sub(self.chunk())
        };
        if beyond > FARTHEST {
            let most = FARTHEST;
            return refused(RowwiseError::Beyond { beyond, most });
        }
        let blocks = self.grid(problem);
        self.plan_check().limit("blocks", blocks, MOST_GRID)
    }

    fn plan_check(&self) -> PlanCheck<'_> {
        PlanCheck {
            kernel: &self.operands.function,
            operands: &self.operands,
        }
    }

    /// Returns whether the plan is for a problem: its tensors, accesses that they allow, and registers for a row that it holds.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let of = |columns| RowwiseProblem::new(RowFunction::Softmax, Ty::Bf16, [100, columns]);
    /// let plan = RowwisePlan::fastest(&of(1000), Arch::Sm80)?;
    /// assert!(plan.takes(&of(1024)));
    /// assert!(!plan.takes(&of(1032))); // its registers hold 1024 columns
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn takes(&self, problem: &RowwiseProblem) -> bool {
        self.check_problem(problem).is_ok()
    }

    /// Builds the kernel for an architecture.
    ///
    /// Its parameters are the tensors in the order of [`RowTensor::ALL`](super::RowTensor::ALL), each (rows, column), those of
    /// columns with the stride 0 along the rows; then, of a norm, epsilon as `f32`. There is a block, or a cluster, for each
    /// `rows` rows.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::rowwise::{RowFunction, RowwisePlan, RowwiseProblem};
    ///
    /// let problem = RowwiseProblem::new(RowFunction::RmsNorm, Ty::Bf16, [100, 4096]);
    /// let plan = RowwisePlan::fastest(&problem, Arch::Sm80)?;
    /// let text = plan.build(Arch::Sm80)?.kernel.ptx()?;
    /// assert_eq!(text.matches("ld.global.v4.b32").count() as i64, plan.accesses);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](RowwisePlan::check), and the error of the layout algebra, with the line of the kernel, if a
    /// layout has no such partition.
    pub fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let built = self.unverified(arch)?;
        built.kernel.verify()?;
        Ok(built)
    }

    /// Builds the kernel as [`build`](RowwisePlan::build) does, for a load, which verifies it.
    pub(crate) fn unverified(&self, arch: Arch) -> Result<TensorKernel, Error> {
        self.check(arch)?;
        Ok(kernel::build(self, arch)?)
    }
}

/// The microseconds of a row that a device of Hopper loses by each way to have it: a cluster of four blocks waits for its own blocks,
/// and passes read a part again. Both read the row once, and write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed {
    /// The wait of a cluster, divided by the clusters that wait at once.
    pub(crate) exchange: f64,
    /// The second pass.
    pub(crate) again: f64,
}

/// `softmax of bf16, x, y, rows of 1 mode`
impl fmt::Display for RowwiseOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.function, self.ty)?;
        for tensor in self.tensors() {
            write!(f, ", {}", tensor.name())?;
        }
        let modes = counted((i64::try_from(self.modes).unwrap_or(i64::MAX), "mode"));
        write!(f, ", rows of {modes}")
    }
}

/// `softmax bf16, vectors of 8, 32 threads for a row, 4 rows in a block, 4 accesses, rows in registers`
impl fmt::Display for RowwisePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowwiseOperands { function, ty, .. } = self.operands;
        let [threads, rows] = [(self.threads, "thread"), (self.rows, "row")].map(counted);
        let accesses = counted((self.accesses, "access"));
        write!(
            f,
            "{function} {ty}, vectors of {}, {threads} for a row, {rows} in a block, {accesses}",
            self.vector
        )?;
        if self.blocks > 1 {
            let kind = if self.has_teams() {
                "teams"
            } else {
                "clusters"
            };
            write!(f, ", {kind} of {} blocks", self.blocks)?;
        }
        match self.storage {
            RowStorage::Registers => f.write_str(", rows in registers"),
            RowStorage::Shifted { clusters: 0, .. } => f.write_str(", shifted rows in registers"),
            RowStorage::Shifted { rows, clusters } => {
                let [rows, clusters] = [(rows, "row"), (clusters, "block")].map(counted);
                write!(f, ", shifted rows in registers, {rows} ahead, {clusters}")
            }
            RowStorage::Staged { clusters: 0, .. } => f.write_str(", rows staged in shared memory"),
            RowStorage::Staged { rows, clusters } => {
                let [rows, clusters] = [(rows, "tile"), (clusters, "block")].map(counted);
                write!(
                    f,
                    ", rows staged in shared memory, {rows} ahead, {clusters}"
                )
            }
            RowStorage::Ahead { rows, clusters } => {
                let [rows, clusters] = [(rows, "tile"), (clusters, "cluster")].map(counted);
                write!(f, ", rows in registers, {rows} ahead, {clusters}")
            }
            RowStorage::Alternating {
                groups,
                slots,
                clusters,
            } => {
                let [groups, slots] = [(groups, "group"), (slots, "slot")].map(counted);
                let clusters = counted((clusters, "cluster"));
                write!(
                    f,
                    ", rows in registers, {groups} in turn, {slots}, {clusters}"
                )
            }
            RowStorage::Teams {
                groups,
                slots,
                teams,
                lag,
            } => {
                let [groups, slots] = [(groups, "group"), (slots, "slot")].map(counted);
                let teams = counted((teams, "team"));
                match lag {
                    0 => write!(f, ", rows in registers, {groups} in turn, {slots}, {teams}"),
                    _ => {
                        let behind = counted((lag, "row"));
                        write!(
                            f,
                            ", rows in shared memory, {groups} in turn, {slots}, {teams}, {behind} behind"
                        )
                    }
                }
            }
            RowStorage::Divided {
                held,
                kept,
                clusters,
            } => {
                let [held, clusters] = [(held, "chunk"), (clusters, "cluster")].map(counted);
                write!(
                    f,
                    ", {held} in registers, {kept} in shared memory, {clusters}"
                )
            }
            RowStorage::Turned { again: false } => f.write_str(", turned rows in registers"),
            RowStorage::Turned { again: true } => f.write_str(", turned rows in passes"),
            RowStorage::Passes { kept: 0 } => f.write_str(", rows in passes"),
            RowStorage::Passes { kept } => {
                write!(f, ", rows in passes, {} kept", counted((kept, "chunk")))
            }
        }?;
        if self.meets_once {
            f.write_str(", warps meet once")?;
        }
        if self.keeps_weights {
            f.write_str(", weights in shared memory")?;
        }
        Ok(())
    }
}
