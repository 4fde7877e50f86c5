//! Streams, events, and the time that work takes.

use anyhow::{Result, ensure};
use colex_gpu::{Argument, Device, Launch, Repeats};

use super::{ADD, COPY, refused, same};

/// Two streams in order by an event, and the time between two events.
pub(super) fn streams(device: &Device) -> Result<String> {
    let beside = device.on_new_stream()?;
    let function = device.load_ptx(COPY, "copy")?;
    let bytes = 64 << 20;
    let first = device.zeros::<u8>(bytes)?;
    let (second, third) = (device.poisoned::<u8>(bytes)?, device.poisoned::<u8>(bytes)?);
    let launch = Launch::new((bytes / 16 / 256) as u32, 256);
    first.fill_bytes(7)?;
    let start = device.record()?;
    device.launch(&function, launch, &[(&first).into(), (&second).into()])?;
    let copied = device.record()?;
    beside.wait_for(&copied)?;
    beside.launch(&function, launch, &[(&second).into(), (&third).into()])?;
    let done = beside.record()?;
    device.wait_for(&done)?;
    let wrong = third.download()?.iter().position(|&byte| byte != 7);
    same("the first byte not copied", wrong, None)?;
    let took = (
        copied.milliseconds_since(&start)?,
        done.milliseconds_since(&start)?,
    );
    ensure!(0.0 < took.0 && took.0 < took.1, "the times are {took:?} ms");
    Ok(format!(
        "64 MiB copied after {:.3} ms, by another stream on after {:.3} ms",
        took.0, took.1
    ))
}

/// The time of a copy and of almost nothing, by replaying a graph.
pub(super) fn graphs(device: &Device) -> Result<String> {
    let function = device.load_ptx(COPY, "copy")?;
    let bytes = 512 << 20;
    let (from, to) = (device.zeros::<u8>(bytes)?, device.poisoned::<u8>(bytes)?);
    let arguments: [Argument; 2] = [(&from).into(), (&to).into()];
    let launch = Launch::new((bytes / 16 / 256) as u32, 256);
    let repeats = Repeats::default();
    let copy = device.time(repeats, |device| {
        device.launch(&function, launch, &arguments)
    })?;
    let rate = 2.0 * bytes as f64 / copy.median() / 1e6;
    ensure!(rate > 0.1, "a copy at {rate} TB/s");
    let add = device.load_ptx(ADD, "add")?;
    let nothing: [Argument; 4] = [(&from).into(), (&from).into(), (&to).into(), 0u32.into()];
    let many = Repeats {
        batch: 100,
        ..repeats
    };
    let empty = device.time(many, |device| {
        device.launch(&add, Launch::new(1, 32), &nothing)
    })?;
    let elsewhere = device.time(repeats, |_| device.launch(&function, launch, &arguments));
    let elsewhere = refused("work given to another stream", elsewhere)?;
    ensure!(elsewhere.is_nothing_captured(), "{elsewhere}");
    same("what was copied", to.slice(..16)?.download()?, vec![0; 16])?;
    Ok(format!(
        "512 MiB copied in {copy}, {rate:.2} TB/s read and written; an empty kernel in {empty}"
    ))
}
