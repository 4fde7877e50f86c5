//! Copies of one run of elements, against the driver's own.

use std::path::Path;

use anyhow::Result;
use colex_gpu::kernels::{CopyCall, CopyMethod, CopyPlan, View, ViewMut};
use colex_gpu::{Device, Element};

use super::device::{BenchReport, Contender, Noise, take_turns};

/// Bytes of a copy.
const BYTES: usize = 2 << 30;

pub(super) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("copy", "TB/s", device);
    println!("{}", super::device::PROTOCOL);
    group::<u8>(device, &mut report)?;
    group::<f32>(device, &mut report)?;
    report.write(json)
}

fn group<T: Element>(device: &Device, report: &mut BenchReport) -> Result<()> {
    let length = BYTES / T::BYTES;
    let (source, destination) = (
        device.uninitialised::<T>(length)?,
        device.poisoned::<T>(length)?,
    );
    Noise::<T>::new().fill(&source)?;
    let layout = |length: usize| colex_layout::Layout::new(length, 1);
    let view = |buffer, length| Ok::<_, anyhow::Error>(View::new(buffer, layout(length)?)?);
    // The calls share the destination: each has a handle of its own.
    let mut written = [(); 3].map(|()| destination.clone());
    let [first, second, third] = &mut written;
    let view_mut = |buffer, length| Ok::<_, anyhow::Error>(ViewMut::new(buffer, layout(length)?)?);
    let ours = CopyCall::new(&view(&source, length)?, &view_mut(first, length)?, None)?;
    let bulk = CopyCall::new(
        &view(&source, length)?,
        &view_mut(second, length)?,
        Some(CopyMethod::Bulk),
    )?;
    // The source one element later: no vector is wider than an element.
    let later = source.slice(1..)?;
    let narrow = CopyCall::new(
        &view(&later, length - 1)?,
        &view_mut(third, length - 1)?,
        None,
    )?;
    // Both one element later: a few elements first, then vectors.
    let mut after = destination.slice(1..)?;
    let both = CopyCall::new(
        &view(&later, length - 1)?,
        &view_mut(&mut after, length - 1)?,
        None,
    )?;
    let contenders = [
        Contender::new("cuMemcpyDtoDAsync", |_| Ok(destination.copy_from(&source)?)),
        Contender::new(format!("copy, {}", vector::<T>(&ours)), |device| {
            ours.run(device)
        }),
        Contender::new("copy, bulk, 16 KiB per block", |device| bulk.run(device)),
        Contender::new(
            format!("both sides later, {}", vector::<T>(&both)),
            |device| both.run(device),
        ),
        Contender::new(
            format!("one side later, {}", vector::<T>(&narrow)),
            |device| narrow.run(device),
        ),
    ];
    let times = take_turns(device, &contenders, 15, 1)?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    report.group(
        &format!("2 GiB of {}", T::NAME),
        &names,
        &times,
        2.0 * BYTES as f64 / 1e6,
    );
    Ok(())
}

/// `16 bytes per access`
fn vector<T: Element>(call: &CopyCall<'_>) -> String {
    match call.plan().map_or(0, CopyPlan::vector) * T::BYTES as i64 {
        1 => "1 byte per access".to_string(),
        bytes => format!("{bytes} bytes per access"),
    }
}
