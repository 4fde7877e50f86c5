//! A kernel as PTX text.
//!
//! The text is a function of the kernel alone, one instruction per line, for [`Kernel::target`], in the lowest
//! `.version` of PTX that has its instructions.

mod atoms;
mod entry;
mod flow;
mod foreign;
mod lines;
mod names;

use colex_atom::PtxVersion;

use crate::Kernel;
pub use crate::Needs;
use crate::rows::Rows;
use crate::verify::Refused;

impl Kernel {
    /// Returns the kernel as a module of PTX.
    ///
    /// Parameters and shared variables are named after the kernel and their own name (`scale_data`), so that several
    /// kernels can be put in one module.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::{Access, KernelBuilder, Space, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("twice", Arch::Sm70);
    /// let data = k.pointer("data");
    /// let base = k.param(data);
    /// let thread = k.mov(Type::U32, Special::Tid(0));
    /// let offset = k.mul_wide(Type::U32, thread, 4);
    /// let address = k.add(Type::S64, base, offset);
    /// let x = k.load(Access::new(Space::Global, Type::F32), address);
    /// let y = k.mul(Type::F32, x, 2.0);
    /// k.store(Access::new(Space::Global, Type::F32), address, y);
    /// assert_eq!(k.finish().ptx()?, "\
    /// .version 6.0
    /// .target sm_70
    /// .address_size 64
    ///
    /// .visible .entry twice(
    ///     .param .u64 .ptr .global .align 16 twice_data
    /// )
    /// {
    ///     .reg .b32 %r<1>;
    ///     .reg .b64 %rd<3>;
    ///     .reg .f32 %f<2>;
    ///     ld.param.u64 %rd0, [twice_data];
    ///     mov.u32 %r0, %tid.x;
    ///     mul.wide.u32 %rd1, %r0, 4;
    ///     add.s64 %rd2, %rd0, %rd1;
    ///     ld.global.f32 %f0, [%rd2];
    ///     mul.rn.f32 %f1, %f0, 0f40000000;
    ///     st.global.f32 [%rd2], %f1;
    ///     exit;
    /// }
    /// ");
    /// # Ok::<(), colex_ir::verify::Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`Refused`] with everything that the assembler or the hardware would not accept, and the source
    /// location of each finding.
    pub fn ptx(&self) -> Result<String, Refused> {
        let rows = Rows::of(self);
        self.verify_rows(&rows)?;
        entry::module(self, &rows, false)
    }

    /// Returns the kernel as a module of PTX whose instructions name the source lines of the builder's calls (`.file` and
    /// `.loc`), so that a profiler, `compute-sanitizer` and a debugger show the author's lines. The names of the files are
    /// those that the compiler gave [`std::panic::Location`]: relative to the workspace for its own crates.
    ///
    /// ```
    /// use colex_ir::{KernelBuilder, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// k.mov(Type::U32, Special::LaneId);
    /// let text = k.finish().ptx_with_lines()?;
    /// assert!(text.contains(".file 1 \""));
    /// assert!(text.contains("    .loc 1 "));
    /// # Ok::<(), colex_ir::verify::Refused>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ptx`](Kernel::ptx).
    pub fn ptx_with_lines(&self) -> Result<String, Refused> {
        let rows = Rows::of(self);
        self.verify_rows(&rows)?;
        entry::module(self, &rows, true)
    }

    /// Returns the `.version` of the kernel's PTX: the lowest that has everything in it.
    ///
    /// ```
    /// use colex_atom::{Arch, PtxVersion};
    /// use colex_ir::KernelBuilder;
    ///
    /// assert_eq!(KernelBuilder::new("empty", Arch::Sm90a).finish().ptx_version(), PtxVersion(8, 0));
    /// ```
    pub fn ptx_version(&self) -> PtxVersion {
        entry::version(self, &Rows::of(self))
    }

    /// Returns the PTX of the kernel without verifying it first, so that tests can ask the assembler about a wrong kernel.
    ///
    /// # Errors
    ///
    /// Returns a [`Refused`] if an instruction has no text, such as an atom with too few registers.
    pub fn ptx_unverified(&self) -> Result<String, Refused> {
        entry::module(self, &Rows::of(self), false)
    }
}
