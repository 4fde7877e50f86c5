//! A simulator of CUDA devices on the host, which reports data races, faults and costs that a GPU does not report.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod insn;
mod lane;
mod machine;
mod options;
mod order;
mod report;
mod state;

pub use options::{Schedule, SimOptions};
pub use report::event::{BarrierAt, Event, EventKind, Grouped, SharedBytes};
pub use report::fault::{Fault, FaultKind, Place};
pub use report::{LineCount, Report, Warning};
pub use state::memory::{Error, Memory};

use colex_ir::Kernel;
use colex_ir::launch::{Argument, Launch};

/// Runs a kernel on simulated memory.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::{Access, KernelBuilder, Space, Special, Type};
/// use colex_sim::{Memory, SimOptions, simulate};
/// use colex_ir::launch::{Argument, Launch};
///
/// let mut k = KernelBuilder::new("twice", Arch::Sm80);
/// let data = k.pointer("data");
/// let base = k.param(data);
/// let thread = k.mov(Type::U32, Special::Tid(0));
/// let offset = k.mul_wide(Type::U32, thread, 4);
/// let address = k.add(Type::S64, base, offset);
/// let x = k.load(Access::new(Space::Global, Type::U32), address);
/// let y = k.add(Type::U32, x, x);
/// k.store(Access::new(Space::Global, Type::U32), address, y);
/// let kernel = k.finish();
///
/// let mut memory = Memory::default();
/// let at = memory.allocate(64 * 4)?;
/// memory.write(at, &[3; 64 * 4])?;
/// let report = simulate(&kernel, &Launch::new(1, 64), &[Argument::Pointer(at)], &mut memory, &SimOptions::default())?;
/// assert_eq!(memory.read(at, 4)?, [6; 4]);
/// assert_eq!(report.sectors(), (16, 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the first [`Fault`] of the kernel or of the launch.
pub fn simulate(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &SimOptions,
) -> Result<Report, Fault> {
    machine::simulate(kernel, launch, arguments, memory, options)
}

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
