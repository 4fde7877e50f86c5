//! Kernels that fail, and the state of the device afterwards.

use anyhow::{Result, ensure};
use colex_gpu::{Argument, Device, Launch};

use super::{refused, same};

const TEXT: &str = include_str!("../ptx/trap.ptx");

/// The error of a kernel that traps, and of everything after it in the same process.
pub(super) fn trap() -> Result<String> {
    broken_by("stop", &[])
}

/// The same for an access outside of all allocations.
pub(super) fn stray() -> Result<String> {
    broken_by("stray", &[Argument::Pointer(0x10)])
}

fn broken_by(entry: &str, arguments: &[Argument]) -> Result<String> {
    let device = Device::gpu(0)?;
    let buffer = device.upload(&[1u32, 2, 3])?;
    let function = device.load_ptx(TEXT, entry)?;
    device.launch(&function, Launch::new(1, 1), arguments)?;
    let error = refused("waiting for it", device.synchronize())?;
    ensure!(error.is_context_lost(), "{error}");
    same(
        "a download",
        refused("a download", buffer.download())?,
        error.clone(),
    )?;
    same(
        "a launch",
        refused(
            "a launch",
            device.launch(&function, Launch::new(1, 1), arguments),
        )?,
        error.clone(),
    )?;
    same(
        "opening it again",
        refused("opening it", Device::gpu(0))?,
        error.clone(),
    )?;
    drop((device, buffer, function));
    same(
        "opening it afresh",
        refused("opening it", Device::gpu(0))?,
        error.clone(),
    )?;
    Ok(error.to_string())
}

/// A new process can use the device.
pub(super) fn afterwards() -> Result<String> {
    let device = Device::gpu(0)?;
    super::kernels::add_on(&device, 100_000)?;
    Ok("opened by another process, 100000 sums exact".to_string())
}
