//! How a row of the MMA table is written.

use crate::machine::{Arch, PtxVersion};
use crate::number::Ty;

/// One paragraph of the MMA table: an instruction, or a family that differs in a word of its opcode.
///
/// Text columns may hold placeholders, filled per atom:
/// `{A}` `{B}` the types of A and B as CuTe writes them, `{a}` `{b}` as PTX does, `{N}` the extent of N, `{N/2}`, `{N/8}`,
/// `{_SATURATE}` and `{.satfinite}` that word or nothing, `{SS}` where A comes from (`SS` or `RS`).
#[derive(Clone, Copy, Debug)]
pub struct MmaRow {
    /// The name of the operation in CuTe.
    pub name: &'static str,
    /// The opcode as the PTX manual spells it.
    pub ptx: &'static str,
    /// The first architecture that has it.
    pub since: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
    /// The extents of M, N and K; N is 0 where [`n`](Self::n) lists them.
    pub mnk: [i64; 3],
    /// The extents N can have, where it is free.
    pub n: &'static [i64],
    /// The types of A and B, one pair for each member of the family.
    pub ab: &'static [(Ty, Ty)],
    /// The type of C and D.
    pub c: Ty,
    /// Whether each member also exists with `.satfinite`.
    pub saturating: bool,
    /// The memory of the operands and the syntax of the instruction.
    pub form: Form,
    /// What the instruction computes.
    pub rule: Rule,
    /// `logical thread -> thread index`.
    pub thread: &'static str,
    /// `(thread, value) -> m + M*k`.
    pub a_layout: &'static str,
    /// `(thread, value) -> n + N*k`.
    pub b_layout: &'static str,
    /// `(thread, value) -> m + M*n`.
    pub c_layout: &'static str,
    /// `(thread, value) -> m + M*k` of the sparsity metadata, one value per element of the unpacked A.
    pub e_layout: &'static str,
    /// The same for the block scale factors of A, and of B (`n + N*k`).
    pub scale_layouts: Option<[&'static str; 2]>,
    /// The type that A's and B's elements are stored in, where it is wider than they are.
    pub stored: Option<Ty>,
}

/// Where an instruction's operands live, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `opcode d, a, b, c` on single registers.
    Scalar,
    /// `mma.sync`: `opcode {d..}, {a..}, {b..}, {c..}`.
    Sync,
    /// `wgmma.mma_async`: B in shared memory, A in shared memory (`SS`) or registers (`RS`), D in place.
    Async {
        /// Whether A and B may be MN-major in shared memory (16-bit types only).
        transposable: bool,
        /// Whether A and B may be negated (all but the integer types).
        negatable: bool,
    },
    /// A row with layouts and no opcode.
    LayoutOnly,
}

/// What an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `D = A B + C`.
    Multiply,
    /// `D = A B + C` over pairs of reals, as four real instructions.
    PlanarComplex,
    /// Three real instructions into the three sums of Gauss's product.
    GaussComplex,
    /// `D = C + popcount(A xor B)` along K.
    XorPopc,
    /// `D = C + popcount(A and B)` along K.
    AndPopc,
    /// `D = A B + C` where A keeps two of each four elements along K.
    Sparse2Of4,
    /// `D = A B + C` where A keeps one of each two elements along K.
    Sparse1Of2,
}

// Pairs of types of A and B.
pub(super) const F16_F16: &[(Ty, Ty)] = &[(Ty::F16, Ty::F16)];
pub(super) const BF16_BF16: &[(Ty, Ty)] = &[(Ty::Bf16, Ty::Bf16)];
pub(super) const TF32_TF32: &[(Ty, Ty)] = &[(Ty::Tf32, Ty::Tf32)];
pub(super) const F64_F64: &[(Ty, Ty)] = &[(Ty::F64, Ty::F64)];
pub(super) const C64_C64: &[(Ty, Ty)] = &[(Ty::C64, Ty::C64)];
pub(super) const B1_B1: &[(Ty, Ty)] = &[(Ty::B1, Ty::B1)];
pub(super) const S8_S8: &[(Ty, Ty)] = &[(Ty::S8, Ty::S8)];
pub(super) const S16_S8: &[(Ty, Ty)] = &[(Ty::S16, Ty::S8)];
/// Every pair of signs.
pub(super) const INT8: &[(Ty, Ty)] = &[
    (Ty::S8, Ty::S8),
    (Ty::S8, Ty::U8),
    (Ty::U8, Ty::S8),
    (Ty::U8, Ty::U8),
];
/// Of those, the equal and the mixed ones.
pub(super) const INT8_EQUAL: &[(Ty, Ty)] = &[(Ty::S8, Ty::S8), (Ty::U8, Ty::U8)];
pub(super) const INT8_MIXED: &[(Ty, Ty)] = &[(Ty::S8, Ty::U8), (Ty::U8, Ty::S8)];
pub(super) const INT4: &[(Ty, Ty)] = &[
    (Ty::S4, Ty::S4),
    (Ty::S4, Ty::U4),
    (Ty::U4, Ty::S4),
    (Ty::U4, Ty::U4),
];
/// Every pair of 8-bit floats.
pub(super) const FP8: &[(Ty, Ty)] = &[
    (Ty::E4m3, Ty::E4m3),
    (Ty::E4m3, Ty::E5m2),
    (Ty::E5m2, Ty::E4m3),
    (Ty::E5m2, Ty::E5m2),
];

/// What rows leave unsaid: one warp, `mma.sync`, `D = A B + C`.
pub(super) const WARP: MmaRow = MmaRow {
    name: "",
    ptx: "",
    since: Arch::Sm80,
    version: PtxVersion(7, 0),
    mnk: [0; 3],
    n: &[],
    ab: &[],
    c: Ty::F32,
    saturating: false,
    form: Form::Sync,
    rule: Rule::Multiply,
    thread: "32:1",
    a_layout: "",
    b_layout: "",
    c_layout: "",
    e_layout: "",
    scale_layouts: None,
    stored: None,
};

/// Two rows of four threads, eight times: the accumulator of every `m16n8` (PTX ISA 9.7.14.5).
pub(super) const C_16X8: &str = "((4,8),(2,2)):((32,1),(16,8))";
/// The accumulator of every `m8n8` of a full warp.
pub(super) const C_8X8: &str = "((4,8),2):((16,1),8)";
