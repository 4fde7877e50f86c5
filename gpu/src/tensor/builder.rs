//! `Builder`: a kernel builder that computes with [`Index`] and keeps what it has computed.

use std::collections::{HashMap, HashSet};
use std::ops::{Deref, DerefMut, Range};
use std::panic::Location;

use colex_atom::Arch;

use super::error::{Error, ErrorKind};
use super::index::{Index, Leaf};
use crate::ir::{
    BinaryOp, Compare, Guard, Kernel, KernelBuilder, Op, Operand, Reg, RegType, Special, Type,
};

/// Builds a kernel from tensors; every instruction of [`KernelBuilder`] is there too.
///
/// What an [`Index`] needs is computed once in the outermost loop where it can be, and found again. The methods of
/// control flow here take the place of those of [`KernelBuilder`], which know nothing of what was computed where.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::tensor::Builder;
///
/// let mut k = Builder::new("k", Arch::Sm80, 128);
/// let tid = k.thread();
/// let a = k.value(&(&tid % 8 * 16 + 3));
/// let b = k.value(&(&tid % 8 * 16 + 3));
/// assert_eq!(a, b);
/// let kernel = k.finish()?;
/// # Ok::<(), colex_gpu::tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    pub(super) ir: KernelBuilder,
    pub(super) scopes: Vec<Scope>,
    pub(super) threads: u32,
    specials: HashMap<Special, Reg>,
    stamp: u32,
    written: HashMap<Reg, u32>,
    failed: Option<Error>,
    pub(super) launch: super::launch::Signature,
    pub(super) reports: super::report::Report,
}

/// One open body.
#[derive(Debug)]
pub(super) struct Scope {
    /// Whether it repeats: what does not change in it is computed before it.
    repeats: bool,
    /// The stamp at which it began.
    began: u32,
    pub(super) values: HashMap<(Index, bool), Reg>,
    pub(super) tests: HashMap<(Index, i64, Compare), Reg>,

    /// Variables whose value from before the body was used in it.
    used: HashSet<Reg>,
}

impl Scope {
    fn new(repeats: bool, began: u32) -> Self {
        Scope {
            repeats,
            began,
            values: HashMap::new(),
            tests: HashMap::new(),

            used: HashSet::new(),
        }
    }
}

/// An integer that changes as the kernel runs: a stage, a phase, a tile number.
#[derive(Clone, Debug)]
pub struct Var {
    reg: Reg,
    range: (i64, i64),
}

/// Whether something holds: known, or in a predicate register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cond {
    /// In every thread, or in none.
    Known(bool),
    /// Where the predicate says so.
    Where(Guard),
}

impl From<Reg> for Cond {
    fn from(pred: Reg) -> Self {
        Cond::Where(pred.into())
    }
}

impl Deref for Builder {
    type Target = KernelBuilder;
    fn deref(&self) -> &KernelBuilder {
        &self.ir
    }
}

impl DerefMut for Builder {
    fn deref_mut(&mut self) -> &mut KernelBuilder {
        &mut self.ir
    }
}

impl Builder {
    /// A kernel of that name for that architecture, in blocks of so many threads.
    pub fn new(name: &str, target: Arch, threads: u32) -> Self {
        let mut ir = KernelBuilder::new(name, target);
        ir.block([threads, 1, 1]);
        Builder {
            ir,
            scopes: vec![Scope::new(false, 0)],
            threads,
            specials: HashMap::new(),
            stamp: 0,
            written: HashMap::new(),
            failed: None,
            launch: super::launch::Signature::default(),
            reports: super::report::Report::default(),
        }
    }

    /// The kernel as data, with its shared memory laid out.
    ///
    /// # Errors
    ///
    /// The first that a method without a result of its own met: [`ErrorKind::Stale`], [`ErrorKind::Wide`].
    pub fn finish(self) -> Result<super::launch::Built, Error> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(super::launch::Built {
                kernel: self.launch.aligned(self.ir.finish()),
                signature: self.launch,
                report: self.reports,
            }),
        }
    }

    pub(super) fn fail(&mut self, kind: ErrorKind, at: &'static Location<'static>) {
        let site = self.ir.ascribe(None);
        self.ir.ascribe(site);
        let at = site.unwrap_or(at);
        self.failed.get_or_insert(Error { kind, at });
    }

    /// Runs `body`, whose instructions are ascribed to `at` unless a call around it is.
    pub(super) fn site<T>(
        &mut self,
        at: &'static Location<'static>,
        body: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = self.ir.ascribe(None);
        self.ir.ascribe(outer.or(Some(at)));
        let result = body(self);
        self.ir.ascribe(outer);
        result
    }

    /// The thread's place in its block, along x.
    pub fn thread(&mut self) -> Index {
        let threads = i64::from(self.threads);
        let thread = self.special(Special::Tid(0), 0..threads);
        self.reports.values.thread = self.specials.get(&Special::Tid(0)).copied();
        thread
    }

    /// The thread's place in its warp.
    pub fn lane(&mut self) -> Index {
        self.thread() % 32
    }

    /// The number of the thread's warp, the same register value in all of its lanes by `shfl.sync`, so that branches on
    /// it are uniform. `threads` is how many consecutive threads share the number: 32 for a warp, 128 for a warpgroup.
    #[track_caller]
    pub fn uniform(&mut self, threads: u32) -> Index {
        let count = i64::from(self.threads.div_ceil(threads));
        let at = Location::caller();
        self.site(at, |k| {
            let number = k.thread() / i64::from(threads);
            let reg = k.value(&number);
            let shared = k.ir.shuffle(crate::ir::ShuffleMode::Idx, reg, 0);
            k.reports.values.groups.insert(shared, i64::from(threads));
            let depth = k.depth();
            Index::leaf(
                Leaf {
                    reg: shared,
                    stamp: 0,
                },
                (0, count - 1),
                1,
                depth,
            )
        })
    }

    /// The block's place in the grid along axis 0, 1 or 2; below 2^31 along x, 65536 along y and z.
    pub fn block_index(&mut self, axis: u8) -> Index {
        let limit = if axis == 0 { (1 << 31) - 1 } else { 1 << 16 };
        self.special(Special::Ctaid(axis), 0..limit)
    }

    /// The grid's extent along an axis.
    pub fn grid_extent(&mut self, axis: u8) -> Index {
        self.special(Special::NCtaid(axis), 1..1 << 31)
    }

    /// The block's rank in its cluster of `blocks` blocks.
    pub fn cluster_rank(&mut self, blocks: u32) -> Index {
        self.special(Special::ClusterCtaRank, 0..i64::from(blocks))
    }

    /// A special register, read once at the beginning.
    pub fn special(&mut self, special: Special, range: Range<i64>) -> Index {
        let reg = match self.specials.get(&special) {
            Some(reg) => *reg,
            None => {
                let reg = self.ir.hoisted(0, |k| k.mov(Type::U32, special));
                self.specials.insert(special, reg);
                reg
            }
        };
        Index::leaf(Leaf { reg, stamp: 0 }, (range.start, range.end - 1), 1, 0)
    }

    /// A register that is written here and never again, as an integer of that range (ends excluded).
    pub fn index_of(&mut self, reg: Reg, range: Range<i64>) -> Index {
        self.index_with(reg, range, 1)
    }

    /// The same, known to be a multiple of a power of two.
    pub fn index_with(&mut self, reg: Reg, range: Range<i64>, multiple: i64) -> Index {
        let depth = self.depth();
        Index::leaf(
            Leaf { reg, stamp: 0 },
            (range.start, range.end - 1),
            multiple,
            depth,
        )
    }

    pub(super) fn depth(&self) -> u32 {
        self.scopes.len() as u32 - 1
    }

    /// A variable of 32 bits with its first value, always within a range (ends excluded).
    #[track_caller]
    pub fn var(&mut self, first: impl Into<Index>, range: Range<i64>) -> Var {
        let at = Location::caller();
        let first = first.into();
        self.site(at, |k| {
            let value = k.operand(&first);
            let reg = k.ir.mov(Type::U32, value);
            k.stamp += 1;
            k.written.insert(reg, k.stamp);
            Var {
                reg,
                range: (range.start, range.end - 1),
            }
        })
    }

    /// The variable's value now.
    pub fn get(&mut self, var: &Var) -> Index {
        let written = self.written.get(&var.reg).copied().unwrap_or(0);
        let began = self.scopes.iter().filter(|s| s.repeats).map(|s| s.began);
        let stamp = began.fold(written, u32::max);
        let leaf = Leaf {
            reg: var.reg,
            stamp,
        };
        Index::leaf(leaf, var.range, 1, self.depth())
    }

    /// Gives the variable another value.
    #[track_caller]
    pub fn set(&mut self, var: &Var, value: impl Into<Index>) {
        let at = Location::caller();
        let value = value.into().within(var.range.0..var.range.1 + 1);
        self.site(at, |k| {
            k.update(var.reg, &value);
            k.touch(var);
        });
    }

    /// The variable's register, to be written by instructions of the author's own: [`Builder::touch`] must follow.
    pub fn variable(&self, var: &Var) -> Reg {
        var.reg
    }

    /// Says that the variable's register has been written.
    #[track_caller]
    pub fn touch(&mut self, var: &Var) {
        let used = |s: &Scope| s.repeats && s.used.contains(&var.reg);
        if self.scopes.iter().any(used) {
            self.fail(ErrorKind::Stale { reg: var.reg }, Location::caller());
        }
        self.stamp += 1;
        self.written.insert(var.reg, self.stamp);
    }

    fn update(&mut self, reg: Reg, value: &Index) {
        // `x = x + c` needs no register in between.
        let inner = match &value.0.node {
            super::index::Node::Unit(inner) => inner,
            _ => value,
        };
        let (terms, constant) = inner.terms();
        if let [(x, 1)] = &terms[..]
            && matches!(&x.0.node, super::index::Node::Leaf(leaf) if leaf.reg == reg)
        {
            self.check_leaf(x);
            self.ir
                .binary_to(BinaryOp::Add, Type::U32, reg, reg, constant);
            return;
        }
        let value = self.operand(value);
        self.ir.mov_to(reg, value);
    }

    /// Notes the use of a variable's value, and refuses one that has been overwritten.
    pub(super) fn check_leaf(&mut self, index: &Index) {
        let super::index::Node::Leaf(leaf) = &index.0.node else {
            return;
        };
        let Some(written) = self.written.get(&leaf.reg) else {
            return;
        };
        if *written > leaf.stamp {
            let at = Location::caller();
            self.fail(ErrorKind::Stale { reg: leaf.reg }, at);
        }
        for scope in self.scopes.iter_mut().filter(|s| s.began > leaf.stamp) {
            scope.used.insert(leaf.reg);
        }
    }

    /// The outermost open body where something that depends on a body of `depth` can be computed: outside of loops, not
    /// of branches.
    pub(super) fn home(&self, depth: u32) -> usize {
        let branch = self.scopes.iter().rposition(|s| !s.repeats).unwrap_or(0);
        branch.max(depth as usize)
    }

    pub(super) fn body<T>(
        &mut self,
        repeats: bool,
        body: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<(T, Vec<crate::ir::Stmt>), Error> {
        self.stamp += 1;
        let site = self.ir.ascribe(None);
        self.scopes.push(Scope::new(repeats, self.stamp));
        self.ir.open_scope();
        let result = body(self);
        let stmts = self.ir.close_scope();
        self.scopes.pop();
        self.ir.ascribe(site);
        Ok((result?, stmts))
    }

    /// `body` where the condition holds.
    ///
    /// # Errors
    ///
    /// Those of `body`.
    #[track_caller]
    pub fn if_(
        &mut self,
        cond: Cond,
        body: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.if_else(cond, body, |_| Ok(()))
    }

    /// `then` where the condition holds, `other` where it does not.
    ///
    /// # Errors
    ///
    /// Those of the two.
    #[track_caller]
    pub fn if_else(
        &mut self,
        cond: Cond,
        then: impl FnOnce(&mut Self) -> Result<(), Error>,
        other: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let p = match cond {
            Cond::Known(true) => return then(self),
            Cond::Known(false) => return other(self),
            Cond::Where(guard) => guard,
        };
        let ((), then) = self.body(false, then)?;
        let ((), other) = self.body(false, other)?;
        self.site(at, |k| k.ir.push(Op::If { p, then, other }));
        Ok(())
    }

    /// Repeats `body` until it breaks.
    ///
    /// # Errors
    ///
    /// Those of `body`.
    #[track_caller]
    pub fn loop_(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let ((), body) = self.body(true, body)?;
        self.site(at, |k| k.ir.push(Op::Loop { body }));
        Ok(())
    }

    /// `body(i)` for `i` from `start` to `end` (excluded) by `step`; none at all if `start >= end`. All three, and the sum
    /// of the last two, are numbers of 32 bits.
    ///
    /// # Errors
    ///
    /// Those of `body`.
    #[track_caller]
    pub fn for_(
        &mut self,
        start: impl Into<Index>,
        end: impl Into<Index>,
        step: impl Into<Index>,
        body: impl FnOnce(&mut Self, &Index) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        let (start, end, step): (Index, Index, Index) = (start.into(), end.into(), step.into());
        let range = start.range().0..(end.range().1).max(start.range().0 + 1);
        self.site(at, |k| {
            // Counters are numbers of 32 bits, the one after the last too.
            let beyond = (range.end + step.range().1).min(1 << 32);
            let first = start.clone();
            let i = k.var(start, range.start..beyond);
            // Where the first time is certain, the question is asked at the end: once less, and what the body writes is
            // written on every way.
            let certain = first.range().1 < end.range().0;
            let ask = |k: &mut Self| {
                let now = k.get(&i);
                let more = k.site(at, |k| k.less(&now, &end));
                k.site(at, |k| k.break_unless(more));
            };
            k.loop_(|k| {
                if !certain {
                    ask(k);
                }
                let now = k.get(&i);
                body(k, &now.within(range))?;
                let now = k.get(&i);
                k.site(at, |k| k.set(&i, now + step));
                if certain {
                    ask(k);
                }
                Ok(())
            })
        })
    }

    /// Leaves the innermost loop where the condition does not hold.
    #[track_caller]
    pub fn break_unless(&mut self, cond: Cond) {
        match cond {
            Cond::Known(true) => {}
            Cond::Known(false) => self.ir.push(Op::Break),
            Cond::Where(guard) => self.ir.break_if(guard.negated()),
        }
    }

    /// The instructions that `body` adds are executed only where the condition holds, without a branch.
    pub fn where_<T>(
        &mut self,
        cond: Cond,
        body: impl FnOnce(&mut KernelBuilder) -> T,
    ) -> Option<T> {
        match cond {
            Cond::Known(true) => Some(body(&mut self.ir)),
            Cond::Known(false) => None,
            Cond::Where(guard) => Some(self.ir.when(guard, body)),
        }
    }

    /// Both conditions.
    #[track_caller]
    pub fn both(&mut self, a: Cond, b: Cond) -> Cond {
        match (a, b) {
            (Cond::Known(true), other) | (other, Cond::Known(true)) => other,
            (Cond::Known(false), _) | (_, Cond::Known(false)) => Cond::Known(false),
            (Cond::Where(a), Cond::Where(b)) if a == b => Cond::Where(a),
            (Cond::Where(a), Cond::Where(b)) => {
                Cond::Where(self.ir.pred(BinaryOp::And, a, b).into())
            }
        }
    }

    /// The other way round.
    pub fn not(cond: Cond) -> Cond {
        match cond {
            Cond::Known(known) => Cond::Known(!known),
            Cond::Where(guard) => Cond::Where(guard.negated()),
        }
    }

    /// The kernel built so far, for a look at it.
    pub fn kernel_so_far(self) -> Kernel {
        self.ir.finish()
    }
}

/// The constant zero as an operand of a class.
pub(super) fn zero_of(ty: RegType) -> Operand {
    match ty {
        RegType::F32 | RegType::F64 => Operand::Float(0.0),
        _ => Operand::Int(0),
    }
}
