//! What is wrong with a kernel, and where.

use core::fmt;
use std::collections::HashMap;
use std::panic::Location;

use super::problem::Problem;
use crate::Kernel;

/// A kernel that cannot be right, with everything that is wrong in it.
#[derive(Clone, PartialEq)]
pub struct Refused {
    /// The kernel's name.
    pub kernel: String,
    /// What is wrong: the kernel itself first, then its instructions in program order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Refused {
    pub(crate) fn new(kernel: &Kernel, diagnostics: Vec<Diagnostic>) -> Self {
        Refused {
            kernel: kernel.name.clone(),
            diagnostics: joined(diagnostics),
        }
    }
}

/// One finding for each mistake: a call of the builder may write an instruction for each of a hundred registers, and then
/// the same is wrong with all of them.
fn joined(all: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    // Where in `out` the finding of a kind and place is.
    let mut places = HashMap::new();
    for mut one in all {
        let kind = one.problem.mistake().map(|issued| (one.at, issued));
        let known = kind.and_then(|kind| places.get(&kind).copied());
        match known.and_then(|at: usize| out[at].problem.regs_mut()) {
            Some(regs) => regs.extend(one.problem.regs_mut().into_iter().flat_map(std::mem::take)),
            None => {
                places.extend(kind.map(|kind| (kind, out.len())));
                out.push(one);
            }
        }
    }
    for regs in out.iter_mut().filter_map(|one| one.problem.regs_mut()) {
        regs.sort_by_key(|reg| (reg.ty, reg.index));
        regs.dedup();
    }
    out
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` is refused:", self.kernel)?;
        self.diagnostics
            .iter()
            .try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))
    }
}

impl std::error::Error for Refused {}

colex_layout::debug_as_display!(Refused);

/// One thing that is wrong with a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The call of the builder that wrote it.
    pub at: &'static Location<'static>,
    /// What is wrong, and what would be right.
    pub problem: Problem,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.problem)
    }
}
