//! Findings of the verifier, with their locations.

use core::fmt;
use std::collections::HashMap;
use std::panic::Location;

use super::problem::{Join, Problem};
use crate::{Escaped, Kernel};

colex_layout::opaque_error! {
    /// Why the verifier refuses a kernel: everything that is wrong in it.
    ///
    /// Its sentences, one line for each finding, are its `Display` and `Debug` output.
    #[derive(Clone, PartialEq)]
    pub struct Refused(Refusal);
}

/// The name of a kernel, with the findings about it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    kernel: String,
    diagnostics: Vec<Diagnostic>,
}

impl Refused {
    /// Returns the name of the kernel.
    pub fn kernel(&self) -> &str {
        &self.kind().kernel
    }

    /// Returns what is wrong: findings about the kernel itself first, then those about its instructions in program order.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.kind().diagnostics
    }

    pub(crate) fn new(kernel: &Kernel, diagnostics: Vec<Diagnostic>) -> Self {
        Refusal {
            kernel: kernel.name.clone(),
            diagnostics: joined(diagnostics),
        }
        .into()
    }
}

/// Joins the findings of one mistake: a call of the builder may add one instruction for each of a hundred registers, all
/// of which are wrong in the same way.
fn joined(all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    // Where in `out` the finding of a kind and place is.
    let mut places = HashMap::new();
    for mut one in all {
        if let Join::Registers(issued, regs) = one.problem.join() {
            let at = *places.entry((one.at, issued)).or_insert(out.len());
            if let Some(Join::Registers(_, known)) = out.get_mut(at).map(|one| one.problem.join()) {
                known.append(regs);
                continue;
            }
        }
        out.push(one);
    }
    for one in &mut out {
        if let Join::Registers(_, regs) = one.problem.join() {
            regs.sort_by_key(|reg| (reg.ty, reg.index));
            regs.dedup();
        }
    }
    out
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` is refused:", Escaped(&self.kernel))?;
        self.diagnostics
            .iter()
            .try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))
    }
}

impl std::error::Error for Refusal {}

/// One finding about a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The call of the builder that made the instruction.
    pub at: &'static Location<'static>,
    /// The problem, whose sentence says what is wrong and what would be right.
    pub problem: Problem,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.problem)
    }
}
