//! A simulator of CUDA devices on the host, which reports data races, faults and costs that a GPU does not report.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod insn;
mod lane;
mod machine;
mod options;
mod order;
mod ranks;
mod report;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use machine::watch::Until;
pub use options::{PrintTo, Schedule, SimOptions};
pub use ranks::Ranks;
pub use report::dump::{DumpLine, Dumps};
pub use report::event::{BarrierAt, Event, EventKind, Grouped, SharedBytes};
pub use report::fault::{Fault, FaultKind, FlagWait, Place};
pub use report::show::Table;
pub use report::trace::{Trace, TraceOptions, Traced};
pub use report::{LineCount, Printed, Report, Warning};
pub use state::memory::{Error, Memory};
pub use step::{Prepared, Stepper, Stop};

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

/// Runs a kernel as [`simulate`] does, and lists what chosen threads execute: each instruction with the values of its
/// operands and the author's source line.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::launch::Launch;
/// use colex_ir::{KernelBuilder, Special, Type};
/// use colex_sim::{Memory, SimOptions, TraceOptions, trace};
///
/// let mut k = KernelBuilder::new("traced", Arch::Sm80);
/// let tid = k.mov(Type::U32, Special::Tid(0));
/// let line = line!() + 1;
/// k.mul(Type::S32, tid, -3);
/// let kernel = k.finish();
/// let options = TraceOptions::of_thread([0, 0, 0], [5, 0, 0]);
/// let (ran, trace) = trace(&kernel, &Launch::new(1, 32), &[], &mut Memory::default(), &SimOptions::default(), &options);
/// ran?;
/// let step = &trace.steps[1];
/// assert_eq!((step.at.line(), &step.instruction[..]), (line, "%r1 = mul.s32 %r0, -3"));
/// assert_eq!(step.reads, [("%r0".to_string(), "5".to_string())]);
/// assert_eq!(step.writes, [("%r1".to_string(), "-15".to_string())]);
/// assert!(trace.to_string().contains("thread (5,0,0)  %r1 = mul.s32 %r0, -3  %r0=5  -> %r1=-15\n"));
/// # Ok::<(), colex_sim::Fault>(())
/// ```
pub fn trace(
    kernel: &Kernel,
    launch: &Launch,
    arguments: &[Argument],
    memory: &mut Memory,
    options: &SimOptions,
    traced: &TraceOptions,
) -> (Result<Report, Fault>, Trace) {
    machine::simulate_watched(kernel, launch, arguments, memory, options, Some(traced))
}

/// The examples of the README run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
