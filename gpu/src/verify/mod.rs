//! What the assembler or the hardware would refuse, found before either sees the kernel.

mod diagnostic;

pub use diagnostic::{Diagnostic, Problem, Refused};

use crate::ir::Kernel;

impl Kernel {
    /// Refuses a kernel that cannot be right.
    ///
    /// # Errors
    ///
    /// [`Refused`] with everything found, in program order.
    pub fn verify(&self) -> Result<(), Refused> {
        Ok(())
    }
}
