//! Mutable integers, and the place in the kernel where values that depend on them are computed.

use std::ops::Range;
use std::panic::Location;

use super::{Builder, Scope};
use crate::error::ErrorKind;
use crate::failure::Owner;
use crate::index::{Index, Leaf, Node};
use colex_ir::{BinaryOp, Reg, Type};

/// A mutable integer of the kernel: a stage, a parity, the index of a tile.
#[derive(Clone, Debug)]
pub struct Var {
    pub(crate) reg: Reg,
    pub(crate) range: (i64, i64),
    pub(crate) owner: Owner,
}

impl Builder {
    /// Declares a 32-bit variable with an initial value. It always lies in `range` (end excluded).
    ///
    /// If the range is empty, or if a value given here or to [`Builder::set`] cannot lie in it, [`Builder::finish`]
    /// returns an error. A value outside of it is refused as for [`Builder::index_of`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stage = k.var(2, 0..3);
    /// let now = k.get(&stage);
    /// assert_eq!(now.range(), (0, 2));
    /// assert_eq!(values(k, &now)?[0], 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn var(&mut self, first: impl Into<Index>, range: Range<i64>) -> Var {
        let at = Location::caller();
        let range = self.ends("var", range, at);
        let first = first.into();
        self.site(at, |k| {
            k.claim_unless_derived(&first, range);
            let value = k.operand(&first.within(range.0..range.1 + 1));
            let reg = k.ir.mov(Type::U32, value);
            k.stamp += 1;
            k.written.insert(reg, k.stamp);
            let owner = k.failure.owner();
            Var { reg, range, owner }
        })
    }

    /// Returns the current value of the variable.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stage = k.var(0, 0..3);
    /// let before = k.get(&stage);
    /// k.set(&stage, 1);
    /// k.value(&before); // the value of then is gone
    /// let error = k.finish().unwrap_err();
    /// assert!(error.what().ends_with("is written between where its value is read and where it is used; read it again"));
    /// ```
    #[track_caller]
    pub fn get(&mut self, var: &Var) -> Index {
        self.own_var(var, Location::caller());
        let written = self.written.get(&var.reg).copied().unwrap_or(0);
        let began = self.scopes.iter().filter(|s| s.repeats).map(|s| s.began);
        let stamp = began.fold(written, u32::max);
        let leaf = Leaf {
            reg: var.reg,
            stamp,
            is_signed: false,
            owner: var.owner,
        };
        Index::leaf(leaf, var.range, 1, self.depth())
    }

    /// Assigns a value to the variable.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (stage, tid) = (k.var(0, 0..32), k.thread());
    /// k.set(&stage, -tid + 31);
    /// let now = k.get(&stage);
    /// assert_eq!(values(k, &now)?[..3], [31, 30, 29]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn set(&mut self, var: &Var, value: impl Into<Index>) {
        let at = Location::caller();
        self.own_var(var, at);
        let value = value.into();
        self.site(at, |k| {
            k.claim_unless_derived(&value, var.range);
            k.assign_var(var, &value);
        });
    }

    /// Assigns a value that lies in the variable's range.
    pub(crate) fn assign_var(&mut self, var: &Var, value: &Index) {
        self.update(var.reg, &value.within(var.range.0..var.range.1 + 1));
        self.written_now(var);
    }

    /// Returns the variable's register, for instructions of the caller that write it. Call [`Builder::touch`] after
    /// them.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::values;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stage = k.var(0, 0..8);
    /// let register = k.variable(&stage);
    /// k.emit(|ir| ir.mov_to(register, 5));
    /// k.touch(&stage);
    /// let now = k.get(&stage);
    /// assert_eq!(values(k, &now)?[0], 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn variable(&self, var: &Var) -> Reg {
        if let Err(kind) = self.failure.own("a variable", var.owner) {
            self.failure.keep(kind, Location::caller());
        }
        var.reg
    }

    /// Declares that instructions of the caller have written the variable's register. A value outside of the variable's range
    /// is refused as for [`Builder::index_of`].
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let stage = k.var(0, 0..8);
    /// let before = k.get(&stage);
    /// k.touch(&stage); // instructions of the author have written its register
    /// k.value(&before);
    /// assert!(k.finish().is_err());
    /// ```
    #[track_caller]
    pub fn touch(&mut self, var: &Var) {
        let at = Location::caller();
        self.own_var(var, at);
        self.written_now(var);
        self.site(at, |k| {
            let now = k.get(var);
            k.claim_range(&now, var.range, 1);
        });
    }

    /// Notes that the variable's register has another value, which lies in its range.
    #[track_caller]
    pub(crate) fn written_now(&mut self, var: &Var) {
        let used = |s: &Scope| s.repeats && s.used.contains(&var.reg);
        if self.scopes.iter().any(used) {
            self.fail(ErrorKind::Stale { reg: var.reg }, Location::caller());
        }
        self.stamp += 1;
        self.written.insert(var.reg, self.stamp);
    }

    fn own_var(&mut self, var: &Var, at: &'static Location<'static>) {
        if let Err(kind) = self.failure.own("a variable", var.owner) {
            self.fail(kind, at);
        }
    }

    /// Declares that a value lies in a range, unless the rules derive it.
    fn claim_unless_derived(&mut self, value: &Index, (low, high): (i64, i64)) {
        if value.range().0 < low || value.range().1 > high {
            self.claim_range(value, (low, high), 1);
        }
    }

    fn update(&mut self, reg: Reg, value: &Index) {
        // `x = x + c` needs no register in between.
        let inner = match &value.0.node {
            Node::Opaque(inner) => inner,
            _ => value,
        };
        let (terms, constant) = inner.terms();
        if let [(x, 1)] = &terms[..]
            && let Node::Leaf(leaf) = &x.0.node
            && leaf.reg == reg
        {
            self.check_leaf(leaf);
            self.ir
                .binary_to(BinaryOp::Add, Type::U32, reg, reg, constant);
            return;
        }
        let value = self.operand(value);
        self.ir.mov_to(reg, value);
    }

    /// Notes the use of the variables' values, and refuses one that has been overwritten.
    pub(crate) fn check_leaves(&mut self, index: &Index) {
        let mut leaves = Vec::new();
        index.leaves(&mut leaves);
        leaves.iter().for_each(|leaf| self.check_leaf(leaf));
    }

    /// The same of one variable.
    pub(crate) fn check_leaf(&mut self, leaf: &Leaf) {
        let Some(written) = self.written.get(&leaf.reg) else {
            return;
        };
        if *written > leaf.stamp {
            let kind = if self.pipelines.stages.contains(&leaf.reg) {
                let why = "the stage was committed or released before it is used here: it belongs to the other side by then";
                ErrorKind::operands("stage", why)
            } else {
                ErrorKind::Stale { reg: leaf.reg }
            };
            self.fail(kind, Location::caller());
        }
        for scope in self.scopes.iter_mut().filter(|s| s.began > leaf.stamp) {
            scope.used.insert(leaf.reg);
        }
    }

    /// The outermost open body where something that depends on a body of `depth` can be computed: outside of loops, not
    /// of branches.
    pub(crate) fn home(&self, depth: u32) -> usize {
        let branch = self.scopes.iter().rposition(|s| !s.repeats).unwrap_or(0);
        // An integer of a body that has ended is computed in the innermost body that is open.
        branch.max((depth as usize).min(self.scopes.len() - 1))
    }
}
