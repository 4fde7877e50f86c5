//! A kernel's instructions in one list, with jumps in place of blocks.

use crate::order::release::Ordering;
use crate::order::strength::Strength;
use colex_ir::{Atom, Control, Guard, Kernel, Memory, Op, Order, RegType, Scope, Space, Stmt};

/// One step of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'k> {
    /// An instruction without a block.
    Do(&'k Stmt),
    /// The beginning of a branch; the steps of its `Else` and `EndIf`.
    If {
        guard: Guard,
        other: usize,
        end: usize,
    },
    /// Between the two sides.
    Else { end: usize },
    /// Where both sides meet.
    EndIf,
    /// The beginning of a loop; the step of its `EndLoop`.
    Loop { end: usize },
    /// The end of its body.
    EndLoop { start: usize },
    /// The end of the kernel.
    End,
}

/// A kernel, ready to be executed.
#[derive(Debug)]
pub(crate) struct Program<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) steps: Vec<Step<'k>>,
    /// The statement that each step belongs to.
    pub(crate) stmts: Vec<Option<&'k Stmt>>,
    /// Whether each step lies in a loop.
    pub(crate) repeated: Vec<bool>,
    /// Whether no instruction is made for clusters that meet in global memory.
    pub(crate) independent: bool,
    /// The number of loops around the next step.
    loops: usize,
    /// Where the registers of each class begin among all but the predicates.
    first: [usize; 6],
    /// The number of registers.
    pub(crate) registers: usize,
    /// Where each variable lies in static shared memory, and where that ends.
    pub(crate) shared: Vec<u64>,
    pub(crate) static_shared: u32,
    /// Where each parameter lies.
    pub(crate) params: Vec<u64>,
    pub(crate) param_bytes: u64,
}

impl<'k> Program<'k> {
    pub(crate) fn new(kernel: &'k Kernel) -> Self {
        let ((shared, _), (params, param_bytes)) =
            (kernel.shared_places(), kernel.parameter_places());
        let mut first = [0; 6];
        let mut registers = 0;
        for (at, ty) in RegType::ALL.into_iter().enumerate() {
            first[at] = registers;
            if ty != RegType::Pred {
                registers += kernel.registers[at] as usize;
            }
        }
        let mut program = Program {
            kernel,
            steps: Vec::new(),
            stmts: Vec::new(),
            repeated: Vec::new(),
            independent: true,
            loops: 0,
            first,
            registers,
            shared,
            static_shared: kernel.static_shared(),
            params,
            param_bytes,
        };
        program.block(&kernel.body);
        program.push(Step::End, None);
        let mut stmts = program.stmts.iter().flatten();
        program.independent = !stmts.any(|stmt| meets_others(stmt));
        program
    }

    /// Where a register that is no predicate lies.
    pub(crate) fn slot(&self, reg: colex_ir::Reg) -> Option<usize> {
        let known = reg.ty != RegType::Pred && reg.index < self.kernel.count(reg.ty);
        known.then(|| self.first[reg.ty as usize] + reg.index as usize)
    }

    fn push(&mut self, step: Step<'k>, stmt: Option<&'k Stmt>) -> usize {
        self.steps.push(step);
        self.stmts.push(stmt);
        self.repeated.push(self.loops > 0);
        self.steps.len() - 1
    }

    fn block(&mut self, body: &'k [Stmt]) {
        use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
        for stmt in body {
            match &stmt.op {
                Op::Control(Comment(_)) if stmt.claim.is_none() => {}
                Op::Control(If { p, then, other }) => self.guarded(stmt, |program| {
                    program.branch(stmt, *p, |p| p.block(then), |p| p.block(other));
                }),
                Op::Control(Loop { body }) => {
                    self.guarded(stmt, |program| program.repeat(stmt, body));
                }
                Op::Control(Break | Continue | Exit | Trap | Comment(_))
                | Op::Alu(_)
                | Op::Memory(_)
                | Op::Exchange(_)
                | Op::Sync(_)
                | Op::Async(_)
                | Op::Atom(_) => {
                    self.push(Step::Do(stmt), Some(stmt));
                }
            }
        }
    }

    /// A block that itself is predicated: in a branch of its own.
    fn guarded(&mut self, stmt: &'k Stmt, inner: impl FnOnce(&mut Self)) {
        match stmt.guard {
            None => inner(self),
            Some(guard) => self.branch(stmt, guard, inner, |_| {}),
        }
    }

    fn repeat(&mut self, stmt: &'k Stmt, body: &'k [Stmt]) {
        let start = self.push(Step::Loop { end: 0 }, Some(stmt));
        self.loops += 1;
        self.block(body);
        self.loops -= 1;
        let end = self.push(Step::EndLoop { start }, Some(stmt));
        self.steps[start] = Step::Loop { end };
    }

    fn branch(
        &mut self,
        stmt: &'k Stmt,
        guard: Guard,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        let start = self.push(Step::EndIf, Some(stmt));
        then(self);
        let middle = self.push(Step::EndIf, Some(stmt));
        other(self);
        let end = self.push(Step::EndIf, Some(stmt));
        self.steps[middle] = Step::Else { end };
        self.steps[start] = Step::If {
            guard,
            other: middle,
            end,
        };
    }
}

/// Whether an instruction is an ordered access with the scope of the system (PTX ISA, scope: `.sys`, which `.volatile` has).
pub(crate) fn is_system(stmt: &Stmt) -> bool {
    let order = match &stmt.op {
        Op::Memory(op) => match op {
            Memory::Load { access, .. } | Memory::Store { access, .. } => access.order,
            Memory::Atomic { order, .. } | Memory::Reduce { order, .. } => *order,
            Memory::AddressOf { .. }
            | Memory::Mapa { .. }
            | Memory::Cvta { .. }
            | Memory::PrefetchTensorMap { .. }
            | Memory::CreatePolicy { .. }
            | Memory::Print { .. }
            | Memory::Text { .. } => return false,
        },
        Op::Atom(_)
        | Op::Alu(_)
        | Op::Exchange(_)
        | Op::Sync(_)
        | Op::Async(_)
        | Op::Control(_) => {
            return false;
        }
    };
    match order {
        Order::Volatile => true,
        Order::Weak => false,
        Order::Relaxed(scope)
        | Order::Acquire(scope)
        | Order::Release(scope)
        | Order::AcqRel(scope) => scope == Scope::Sys,
    }
}

/// The scope of an ordered access, and the bytes of its operations.
pub(crate) fn strength(stmt: &Stmt) -> Option<Strength> {
    let (ordering, ty) = match &stmt.op {
        Op::Memory(Memory::Load { access, .. } | Memory::Store { access, .. }) => {
            (Ordering::of(access.order)?, access.ty)
        }
        Op::Memory(Memory::Atomic { order, ty, .. } | Memory::Reduce { order, ty, .. }) => {
            (Ordering::of_atomic(*order), *ty)
        }
        Op::Memory(
            Memory::AddressOf { .. }
            | Memory::Mapa { .. }
            | Memory::Cvta { .. }
            | Memory::PrefetchTensorMap { .. }
            | Memory::CreatePolicy { .. }
            | Memory::Print { .. }
            | Memory::Text { .. },
        )
        | Op::Atom(_)
        | Op::Alu(_)
        | Op::Exchange(_)
        | Op::Sync(_)
        | Op::Async(_)
        | Op::Control(_) => return None,
    };
    // Of a pair, each half is one operation, or both are.
    let is_pair = ty.float_pair().is_some();
    Some(Strength {
        scope: ordering.scope,
        bytes: if is_pair { 0 } else { ty.bits() / 8 },
    })
}

/// Whether an instruction is made for threads of several clusters that meet in global memory: their order then depends on
/// the order of the clusters.
fn meets_others(stmt: &Stmt) -> bool {
    let outside = |space: Space| match space {
        Space::Shared | Space::Cluster | Space::Param => false,
        Space::Global | Space::Generic => true,
    };
    match &stmt.op {
        Op::Memory(op) => match op {
            Memory::Load { access, .. } | Memory::Store { access, .. } => {
                access.order != Order::Weak && outside(access.space)
            }
            Memory::Atomic { space, .. } | Memory::Reduce { space, .. } => outside(*space),
            // Lines are listed in the order of one core, and a text may do anything.
            Memory::Print { .. } | Memory::Text { .. } => true,
            Memory::AddressOf { .. }
            | Memory::Mapa { .. }
            | Memory::Cvta { .. }
            | Memory::PrefetchTensorMap { .. }
            | Memory::CreatePolicy { .. } => false,
        },
        Op::Atom(_) => reduces(stmt),
        Op::Alu(_) | Op::Exchange(_) | Op::Sync(_) | Op::Async(_) | Op::Control(_) => false,
    }
}

/// Whether an instruction is a copy that reduces: each of its operations on an element is atomic (PTX ISA,
/// `cp.reduce.async.bulk`).
pub(crate) fn reduces(stmt: &Stmt) -> bool {
    matches!(&stmt.op, Op::Atom(Atom::Copy { atom, .. }) if atom.reduction().is_some())
}
