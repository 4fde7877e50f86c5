//! Memory and limits.

use anyhow::{Result, ensure};
use colex_gpu::{Device, Element, Limits};
use half::{bf16, f16};

use super::{refused, same};

/// The device's limits against the table of its architecture.
pub(super) fn limits(device: &Device) -> Result<String> {
    let (found, table) = (device.limits(), Limits::of(device.arch()));
    let compared = |limits: Limits| Limits {
        multiprocessors: 0,
        ..limits
    };
    same("a limit", compared(found), compared(table))?;
    Ok(format!(
        "{} threads and {} bytes of shared memory a block, clusters of {}, {} multiprocessors",
        found.threads, found.shared, found.cluster, found.multiprocessors
    ))
}

/// Upload, download, fills, slices and copies of every type of element.
pub(super) fn every_element(device: &Device) -> Result<String> {
    round_trip(device, |i| i as f64 / 3.0)?;
    round_trip(device, |i| i as f32 / 3.0)?;
    round_trip(device, |i| f16::from_f32(i as f32 / 3.0))?;
    round_trip(device, |i| bf16::from_f32(i as f32 / 3.0))?;
    round_trip(device, |i| i as i64 - 50)?;
    round_trip(device, |i| u64::MAX - i as u64)?;
    round_trip(device, |i| i as i32 - 50)?;
    round_trip(device, |i| u32::MAX - i as u32)?;
    round_trip(device, |i| i as i16 - 50)?;
    round_trip(device, |i| u16::MAX - i as u16)?;
    round_trip(device, |i| i as i8)?;
    round_trip(device, |i| i as u8)?;
    same(
        "an empty download",
        device.upload::<f32>(&[])?.download()?,
        vec![],
    )?;
    Ok("12 types, 1001 elements each: uploaded, sliced, copied, filled, downloaded".to_string())
}

fn round_trip<T: Element>(device: &Device, element: impl Fn(usize) -> T) -> Result<()> {
    let values: Vec<T> = (0..1001).map(element).collect();
    let buffer = device.upload(&values)?;
    same(T::NAME, buffer.download()?, values.clone())?;
    let copy = device.poisoned::<T>(1001)?;
    let poison = T::to_bytes(&copy.download()?);
    ensure!(
        poison.iter().all(|&byte| byte == 0xff),
        "{} is not poisoned",
        T::NAME
    );
    copy.slice(1..1000)?.copy_from(&buffer.slice(2..)?)?;
    let copied = copy.slice(1..1000)?.download()?;
    same(T::NAME, copied, values[2..].to_vec())?;
    same(T::NAME, device.zeros::<T>(7)?.download()?, vec![T::ZERO; 7])
}

/// More memory than there is.
pub(super) fn too_much(device: &Device) -> Result<String> {
    let bytes = 1 << 42;
    let error = refused("an allocation of 4 TiB", device.uninitialised::<u8>(bytes))?;
    ensure!(
        error.is_out_of_memory() && error.to_string().starts_with(&format!("{bytes} bytes ")),
        "{error}"
    );
    same(
        "a buffer after that",
        device.upload(&[7u8])?.download()?,
        vec![7],
    )?;
    Ok(error.to_string())
}
