//! The instructions.

use colex_atom::CopyAtom;
use colex_atom::MmaAtom;

use super::operand::{Address, Operand, Reg};
use super::stmt::{Guard, Stmt};
use super::ty::Type;
use super::words::{
    AtomicOp, BarrierOp, BinaryOp, Cache, ClusterOrder, Compare, FenceKind, Order, Rounding, Scope,
    ShuffleMode, Space, TernaryOp, UnaryOp, VoteMode,
};

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Which memory.
    pub space: Space,
    /// The type of one element of the vector.
    pub ty: Type,
    /// What is asked of the caches.
    pub cache: Cache,
    /// How it is ordered.
    pub order: Order,
    /// A 64-bit cache policy from `createpolicy`.
    pub policy: Option<Reg>,
}

impl Access {
    /// A plain access.
    pub fn new(space: Space, ty: Type) -> Self {
        Access {
            space,
            ty,
            cache: Cache::Default,
            order: Order::Weak,
            policy: None,
        }
    }

    /// The same with a cache hint.
    pub fn cache(self, cache: Cache) -> Self {
        Access { cache, ..self }
    }

    /// The same, ordered.
    pub fn order(self, order: Order) -> Self {
        Access { order, ..self }
    }

    /// The same under a cache policy.
    pub fn policy(self, policy: Reg) -> Self {
        Access {
            policy: Some(policy),
            ..self
        }
    }
}

/// Whether `wgmma` adds to what D holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleD {
    /// D = A·B.
    Zero,
    /// D = A·B + D.
    One,
    /// Adds where the predicate holds.
    Pred(Reg),
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Registers.
    Regs(Vec<Reg>),
    /// Memory.
    Memory(Address),
    /// The instruction has no such operand.
    None,
}

/// The operands of a copy instruction, as its row asks for them (`colex_atom::Argument`).
#[derive(Clone, Debug, PartialEq)]
pub struct CopyArgs {
    /// Where the data goes.
    pub dst: End,
    /// Where it comes from.
    pub src: End,
    /// A tensor map, and where in it.
    pub tensor: Option<(Address, Vec<Operand>)>,
    /// The barrier that counts the bytes.
    pub barrier: Option<Address>,
    /// Offsets of an im2col copy.
    pub offsets: Vec<Reg>,
    /// The blocks of the cluster that receive it.
    pub mask: Option<Reg>,
    /// Bytes, where the instruction leaves them open.
    pub size: Option<Operand>,
    /// Bytes that are read, the rest being filled with zeros.
    pub source_bytes: Option<Operand>,
    /// A cache policy.
    pub policy: Option<Reg>,
}

impl Default for CopyArgs {
    fn default() -> Self {
        CopyArgs {
            dst: End::None,
            src: End::None,
            tensor: None,
            barrier: None,
            offsets: Vec::new(),
            mask: None,
            size: None,
            source_bytes: None,
            policy: None,
        }
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: d the destination, a b c the sources, p a predicate"
)]
pub enum Op {
    /// `mov`
    Mov { d: Reg, a: Operand },
    /// `mov` of an address into a 32-bit (shared memory) or 64-bit (parameter, generic) register.
    AddressOf { d: Reg, a: Address },
    /// `mov` of narrower registers into a wider one, lowest first.
    Pack { d: Reg, parts: Vec<Reg> },
    /// `mov` of a wide register into narrower ones, lowest first.
    Unpack { parts: Vec<Reg>, a: Reg },
    Unary {
        op: UnaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
    },
    Binary {
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
    },
    Ternary {
        op: TernaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
    },
    /// `lop3`: any function of three bits, by its truth table.
    Lop3 {
        d: Reg,
        a: Operand,
        b: Operand,
        c: Operand,
        table: u8,
    },
    /// `bfi`: `length` bits of `a` into `b` at bit `start`.
    Bfi {
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        start: Operand,
        length: Operand,
    },
    /// `setp`
    Setp {
        cmp: Compare,
        ty: Type,
        p: Reg,
        a: Operand,
        b: Operand,
    },
    /// `and`, `or`, `xor` or `not` (no `b`) of predicates.
    PredLogic {
        op: BinaryOp,
        p: Reg,
        a: Guard,
        b: Guard,
    },
    /// `selp`: `a` where `p`, else `b`.
    Selp {
        ty: Type,
        d: Reg,
        a: Operand,
        b: Operand,
        p: Reg,
    },
    /// `cvt`
    Cvt {
        to: Type,
        from: Type,
        rounding: Option<Rounding>,
        saturate: bool,
        d: Reg,
        a: Operand,
    },
    /// `cvt` of two numbers into a packed pair.
    CvtPack {
        to: Type,
        from: Type,
        relu: bool,
        d: Reg,
        hi: Operand,
        lo: Operand,
    },
    /// `ld`, into a vector of 1, 2 or 4 registers.
    Load {
        access: Access,
        d: Vec<Reg>,
        a: Address,
    },
    /// `st`
    Store {
        access: Access,
        a: Address,
        s: Vec<Operand>,
    },
    /// `atom`, which answers with the old value.
    Atomic {
        op: AtomicOp,
        space: Space,
        ty: Type,
        order: Order,
        d: Reg,
        a: Address,
        s: Operand,
        t: Option<Operand>,
    },
    /// `red`, which does not. Several sources are a vector.
    Reduce {
        op: AtomicOp,
        space: Space,
        ty: Type,
        order: Order,
        a: Address,
        s: Vec<Operand>,
    },
    /// `mapa`: the address of the same place in another block of the cluster.
    Mapa { d: Reg, a: Operand, rank: Operand },
    /// `cvta.to.global` and its like: a generic address from or to that of a space.
    Cvta {
        to_generic: bool,
        space: Space,
        d: Reg,
        a: Operand,
    },
    /// `prefetch.tensormap`
    PrefetchTensorMap { a: Address },
    /// `createpolicy.fractional`
    CreatePolicy {
        d: Reg,
        primary: &'static str,
        fraction: f32,
    },
    /// `shfl.sync`
    Shuffle {
        mode: ShuffleMode,
        d: Reg,
        p: Option<Reg>,
        a: Operand,
        lane: Operand,
        clamp: Operand,
        mask: Operand,
    },
    /// `vote.sync`
    Vote {
        mode: VoteMode,
        d: Reg,
        p: Guard,
        mask: Operand,
    },
    /// `redux.sync`
    Redux {
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: Operand,
        mask: Operand,
    },
    /// `elect.sync`: one lane of the mask.
    Elect { p: Reg, mask: Operand },
    /// `activemask`
    ActiveMask { d: Reg },
    /// `barrier.sync` and `barrier.arrive` of a block; `threads` a multiple of 32, all if not said.
    Barrier {
        op: BarrierOp,
        id: Operand,
        threads: Option<Operand>,
    },
    /// `bar.warp.sync`
    WarpSync { mask: Operand },
    /// `barrier.cluster.arrive`
    ClusterArrive { order: ClusterOrder },
    /// `barrier.cluster.wait`
    ClusterWait,
    /// A fence.
    Fence(FenceKind),
    /// `mbarrier.init`
    MbarrierInit { a: Address, count: Operand },
    /// `mbarrier.inval`
    MbarrierInval { a: Address },
    /// `mbarrier.arrive`, on the block's own barrier or one of the cluster.
    MbarrierArrive {
        space: Space,
        a: Address,
        count: Option<Operand>,
        expect: Option<Operand>,
    },
    /// `mbarrier.expect_tx`
    MbarrierExpect {
        space: Space,
        a: Address,
        bytes: Operand,
    },
    /// `mbarrier.try_wait.parity`, once (`test_wait` where `test`).
    MbarrierTry {
        test: bool,
        p: Reg,
        a: Address,
        parity: Operand,
        scope: Scope,
    },
    /// Waits until the phase of that parity has completed: `try_wait` in a loop.
    MbarrierWait { a: Address, parity: Operand },
    /// `cp.async.mbarrier.arrive.noinc`
    CpAsyncArrive { a: Address, noinc: bool },
    /// `cp.async.commit_group`
    CpAsyncCommit,
    /// `cp.async.wait_group`
    CpAsyncWait { pending: u32 },
    /// `cp.async.bulk.commit_group`
    BulkCommit,
    /// `cp.async.bulk.wait_group`, of the reads only where `read`.
    BulkWait { pending: u32, read: bool },
    /// `wgmma.fence`
    WgmmaFence,
    /// `wgmma.commit_group`
    WgmmaCommit,
    /// `wgmma.wait_group`
    WgmmaWait { pending: u32 },
    /// `setmaxnreg`
    SetMaxReg { increase: bool, count: u32 },
    /// `griddepcontrol`
    GridDependency { wait: bool },
    /// `nanosleep`
    NanoSleep { nanoseconds: Operand },
    /// `trap`
    Trap,
    /// One matrix instruction. Descriptors of operands in shared memory are one 64-bit register.
    Mma {
        atom: Box<MmaAtom>,
        d: Vec<Reg>,
        a: Vec<Reg>,
        b: Vec<Reg>,
        c: Vec<Reg>,
        e: Vec<Reg>,
        scale_d: ScaleD,
    },
    /// One copy instruction.
    Copy {
        atom: Box<CopyAtom>,
        args: Box<CopyArgs>,
    },
    /// `then` where the guard holds, else `other`.
    If {
        p: Guard,
        then: Vec<Stmt>,
        other: Vec<Stmt>,
    },
    /// Repeats until a `Break`.
    Loop { body: Vec<Stmt> },
    /// Leaves the innermost loop.
    Break,
    /// Begins the innermost loop again.
    Continue,
    /// Ends the thread.
    Exit,
    /// A remark in the listing.
    Comment(String),
}

impl Op {
    /// The blocks inside it, in program order.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Op::If { then, other, .. } => vec![then, other],
            Op::Loop { body } => vec![body],
            _ => Vec::new(),
        }
    }
}
