//! A statement: an instruction, its guard, and its source location.

use std::panic::Location;

use super::claims::ClaimId;
use super::op::Op;
use super::operand::Reg;

/// Executed only by threads whose predicate is `when`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The predicate.
    pub pred: Reg,
    /// The value it must have.
    pub when: bool,
}

impl Guard {
    /// Returns the negated guard: it holds in the other threads.
    pub fn negated(self) -> Self {
        Guard {
            when: !self.when,
            ..self
        }
    }
}

impl From<Reg> for Guard {
    fn from(pred: Reg) -> Self {
        Guard { pred, when: true }
    }
}

/// One instruction of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// The operation.
    pub op: Op,
    /// The predicate under which a thread executes it; `None` if all threads do.
    pub guard: Option<Guard>,
    /// Its claim about the coordinates that it reaches, among [`crate::Kernel::claims`].
    pub claim: Option<ClaimId>,
    /// The call of the builder that made it.
    pub at: &'static Location<'static>,
}
