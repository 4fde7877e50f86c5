//! What is wrong with a kernel, and where.

use core::fmt;
use std::panic::Location;

use super::problem::Problem;
use crate::ir::Kernel;

/// A kernel that cannot be right, with everything that is wrong in it.
#[derive(Clone, Debug, PartialEq)]
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
            diagnostics,
        }
    }
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
