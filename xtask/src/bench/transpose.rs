//! Transposes of a large matrix, against copies of as many bytes.

use std::path::Path;

use anyhow::{Result, bail};
use colex_gpu::kernels::{CopyCall, CopyMethod, View, ViewMut};
use colex_gpu::{Buffer, Device, Element};
use colex_layout::{IntoStride, Layout};

use super::device::{BenchReport, Contender, Noise, take_turns};

/// Rows and columns.
const SIDE: usize = 32768;

/// Tiles that are tried, in squares of 128 bytes along the rows and along the columns of the source.
const SQUARES: [[i64; 2]; 5] = [[1, 1], [1, 2], [2, 1], [2, 2], [2, 4]];

pub(super) fn run(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("transpose", "TB/s", device);
    println!("{}", super::device::PROTOCOL);
    group::<half::bf16>(device, &mut report)?;
    group::<f32>(device, &mut report)?;
    report.write(json)
}

fn group<T: Element>(device: &Device, report: &mut BenchReport) -> Result<()> {
    let length = SIDE * SIDE;
    let (source, destination) = (
        device.uninitialised::<T>(length)?,
        device.poisoned::<T>(length)?,
    );
    let noise = Noise::<T>::new();
    noise.fill(&source)?;
    // The calls share the destination: each has a handle of its own.
    let (mut crossed, mut written) = (destination.clone(), destination.clone());
    let views = (
        View::new(&source, square((1, SIDE))?)?,
        ViewMut::new(&mut crossed, square((SIDE, 1))?)?,
    );
    let line = Layout::new(length, 1)?;
    let copy = CopyCall::new(
        &View::new(&source, line.clone())?,
        &ViewMut::new(&mut written, line)?,
        None,
    )?;
    let mut calls = Vec::new();
    for method in [CopyMethod::Naive, CopyMethod::Padded, CopyMethod::Swizzled] {
        calls.push((
            format!("transpose, {method}"),
            CopyCall::new(&views.0, &views.1, Some(method))?,
        ));
    }
    for squares in SQUARES {
        let call = CopyCall::with_squares(&views.0, &views.1, squares)?;
        calls.push((
            format!("transpose, tma, {}x{} squares", squares[0], squares[1]),
            call,
        ));
    }
    let mut contenders = vec![
        Contender::new("cuMemcpyDtoDAsync", |_| Ok(destination.copy_from(&source)?)),
        Contender::new("copy", |device| copy.run(device)),
    ];
    for (name, call) in &calls {
        destination.fill_bytes(0xff)?;
        call.run(device)?;
        check(name, &destination, &noise)?;
        contenders.push(Contender::new(name, |device| call.run(device)));
    }
    let times = take_turns(device, &contenders, 11, 1)?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    let work = 2.0 * (length * T::BYTES) as f64 / 1e6;
    report.group(
        &format!("{SIDE}x{SIDE} of {}", T::NAME),
        &names,
        &times,
        work,
    );
    Ok(())
}

fn square(strides: impl IntoStride) -> Result<Layout> {
    Ok(Layout::new((SIDE, SIDE), strides)?)
}

/// Compares some rows of the transpose, first and last among them.
fn check<T: Element>(name: &str, transposed: &Buffer<T>, noise: &Noise<T>) -> Result<()> {
    for row in (0..SIDE).step_by(1021).chain([SIDE - 1]) {
        let found = transposed.slice(row * SIDE..(row + 1) * SIDE)?.download()?;
        let expected: Vec<T> = (0..SIDE)
            .map(|column| noise.at(column * SIDE + row))
            .collect();
        if T::to_bytes(&found) != T::to_bytes(&expected) {
            bail!("{name}: row {row} of the transpose is wrong");
        }
    }
    Ok(())
}
