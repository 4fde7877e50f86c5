//! The checks of the executor, each on a few lines of PTX.

mod assembler;
mod cache;
mod failure;
mod interop;
mod kernels;
mod memory;
mod tile;
mod time;

use anyhow::{Result, bail};
use colex_gpu::DeviceError;

use super::check::{Breaking, Check};

/// Checks that leave the device usable.
#[rustfmt::skip] // A list to read, not a column.
pub(super) const CHECKS: &[Check] = &[
    Check { name: "limits", run: memory::limits },
    Check { name: "memory", run: memory::every_element },
    Check { name: "out of memory", run: memory::too_much },
    Check { name: "vector add", run: kernels::add },
    Check { name: "arguments", run: kernels::arguments },
    Check { name: "refused launches", run: kernels::refused },
    Check { name: "largest shared memory", run: kernels::reverse },
    Check { name: "clusters", run: kernels::clusters },
    Check { name: "many threads", run: kernels::threads },
    Check { name: "a kernel of the IR", run: kernels::of_the_ir },
    Check { name: "tensor maps", run: tile::every_swizzle },
    Check { name: "resources", run: assembler::resources },
    Check { name: "assembler's errors", run: assembler::errors },
    Check { name: "assembler's remarks", run: assembler::remarks },
    Check { name: "registers of warpgroups", run: assembler::registers },
    Check { name: "machine code of another", run: assembler::machine_code },
    Check { name: "cache of machine code", run: cache::cold_and_warm },
    Check { name: "streams and events", run: time::streams },
    Check { name: "graph timing", run: time::graphs },
    Check { name: "cudarc beside", run: interop::beside },
];

/// Checks after which the process has lost the device, and a check that a new process has not.
#[rustfmt::skip] // A list to read, not a column.
pub(super) const BREAKING: &[Breaking] = &[
    Breaking { name: "a kernel that traps", run: failure::trap },
    Breaking { name: "a stray address", run: failure::stray },
    Breaking { name: "a stray pointer", run: failure::stray_pointer },
    Breaking { name: "an access outside of its tensor", run: failure::outside },
    Breaking { name: "an unaligned box", run: tile::unaligned },
    Breaking { name: "a process afterwards", run: failure::afterwards },
];

const ADD: &str = include_str!("../ptx/add.ptx");
const COPY: &str = include_str!("../ptx/copy.ptx");

/// Passes if the two are equal.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<()> {
    if found != expected {
        bail!("{what} is {found:?} instead of {expected:?}");
    }
    Ok(())
}

/// The error of a result that must be one.
fn refused<T>(what: &str, result: Result<T, DeviceError>) -> Result<DeviceError> {
    match result {
        Ok(_) => bail!("{what} was not refused"),
        Err(error) => Ok(error),
    }
}
