//! A kernel for the assembler to read.

use colex_ir::Kernel;

/// A kernel, and the most that it may take.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The kernel.
    pub kernel: Kernel,
    /// Registers a thread, as ptxas 12.9 counts them.
    pub registers: u32,
    /// Bytes of registers that a thread spills.
    pub spilled: u32,
}

impl Sample {
    /// Returns a kernel that spills nothing.
    pub fn new(kernel: Kernel, registers: u32) -> Sample {
        Sample {
            kernel,
            registers,
            spilled: 0,
        }
    }

    /// Returns the same sample, which spills `spilled` bytes.
    pub fn spilling(self, spilled: u32) -> Sample {
        Sample { spilled, ..self }
    }
}
