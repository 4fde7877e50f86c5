//! How a row of the copy table is written.

use super::reduction::{Reduction, Scalar};
pub use crate::machine::Argument;
use crate::machine::{Arch, PtxVersion, Space};

/// Which side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the data comes from.
    Source,
    /// Where the data goes.
    Destination,
}

/// One paragraph of the copy table: an instruction, or a family that differs in a number or a word of its opcode.
///
/// Text columns may hold placeholders, filled per atom: `{bits}` what one thread moves, `{T}` the C++ type of that
/// width, `{n}` the free number of the family (also in products, `{256*n}`), `{op}` and `{OP}` the reduction, `{t}`
/// and `{TY}` its type, `{.L2::cache_hint}` where that word goes if there is a cache policy.
#[derive(Clone, Copy, Debug)]
pub struct CopyRow {
    /// The name of the operation in CuTe, or one made like CuTe's where it has none ([`in_cute`](Self::in_cute)).
    pub name: &'static str,
    /// Whether CuTe has an operation of this name.
    pub in_cute: bool,
    /// The opcode as the PTX manual spells it.
    pub ptx: &'static str,
    /// The first architecture that has it.
    pub since: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
    /// Where the data comes from.
    pub from: Space,
    /// Where it goes.
    pub to: Space,
    /// How the instruction is written.
    pub form: CopyForm,
    /// What it moves, where that is free.
    pub sizes: Sizes,
    /// The values of the free number: the rank of the tensor, or how often a pattern is repeated.
    pub n: &'static [i64],
    /// The reductions there are.
    pub reductions: &'static [(Reduction, Scalar)],
    /// `logical thread -> thread index`.
    pub thread: &'static str,
    /// `(thread, value) -> bit` of the source.
    pub src: &'static str,
    /// `(thread, value) -> bit` of the destination.
    pub dst: &'static str,
    /// Which of the two layouts numbers the threads (`RefLayout`).
    pub reference: Side,
    /// Tensor memory only: `value -> address` (`ValID`), and the same of the member called `.._16b`.
    pub value: [&'static str; 2],
    /// Where CuTe's traits say something else than the hardware does.
    pub defect: Option<Defect>,
}

/// How an instruction is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyForm {
    /// `ld`, `st` or `mov`, as the two ends demand.
    Universal,
    /// The opcode, and its operands in this order.
    Instruction(&'static [Argument]),
    /// Each thread trades one of its two registers with the thread whose index differs in this bit:
    /// `shfl.sync.bfly` between selections.
    Shuffle(u32),
    /// A row with layouts and no opcode.
    LayoutOnly,
}

/// How many bits one thread moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// What the layouts say.
    Given,
    /// One of these.
    OneOf(&'static [i64]),
    /// Any multiple of this.
    Multiple(i64),
    /// The width is chosen when the tensors are known: the layouts have one bit, which stands for any number of them.
    Nominal,
}

/// Where CuTe's traits and the hardware differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// CuTe's destination layout.
    pub cute_dst: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What rows leave unsaid: one thread, as many bits as `sizes` says.
pub(super) const ONE_THREAD: CopyRow = CopyRow {
    name: "",
    in_cute: true,
    ptx: "",
    since: Arch::Sm50,
    version: PtxVersion(4, 0),
    from: Space::Global,
    to: Space::Register,
    form: CopyForm::LayoutOnly,
    sizes: Sizes::Given,
    n: &[],
    reductions: &[],
    thread: "1:0",
    src: "(1,{bits}):(0,1)",
    dst: "(1,{bits}):(0,1)",
    reference: Side::Source,
    value: ["", ""],
    defect: None,
};

/// The same for a warp.
pub(super) const WARP: CopyRow = CopyRow {
    thread: "32:1",
    src: "",
    dst: "",
    ..ONE_THREAD
};
