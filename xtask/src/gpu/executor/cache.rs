//! Machine code from the assembler, from the disk, from memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use colex_gpu::{Cache, Device, Origin};

use super::ADD;

/// A text that is not in any cache: the time stands in a comment.
fn fresh(text: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("// {}\n{text}", now.unwrap_or_default().as_nanos())
}

/// Assembled, then from the disk, then from memory; damaged, then assembled again.
pub(super) fn cold_and_warm(device: &Device) -> Result<String> {
    let before = device.cache().unwrap_or(Cache::off());
    let folder = std::env::temp_dir().join(format!("colex-executor-{}", std::process::id()));
    device.set_cache(Cache::at(&folder));
    let seen = phases(device, &folder);
    device.set_cache(before);
    let _ = fs::remove_dir_all(&folder);
    seen
}

fn phases(device: &Device, folder: &Path) -> Result<String> {
    let small = phase(device, folder, &fresh(ADD), "add")?;
    let tensor_core = phase(
        device,
        folder,
        &fresh(include_str!("../ptx/serialized.ptx")),
        "serialized",
    )?;
    Ok(format!("add: {small}; wgmma: {tensor_core}"))
}

fn phase(device: &Device, folder: &Path, text: &str, entry: &str) -> Result<String> {
    let load = |again: bool| {
        if again {
            device.clear_module_cache();
        }
        let started = Instant::now();
        let function = device.load_ptx(text, entry)?;
        Ok::<_, anyhow::Error>((function.origin().cloned(), started.elapsed()))
    };
    let (
        Some(Origin::Assembled {
            assembled,
            loaded,
            not_stored,
        }),
        _,
    ) = load(true)?
    else {
        bail!("a fresh text was not assembled");
    };
    ensure!(not_stored.is_none(), "it was not stored: {not_stored:?}");
    let (Some(Origin::Disk { took: disk }), _) = load(true)? else {
        bail!("it was not read from the disk");
    };
    let (_, memory) = load(false)?;
    damage(folder)?;
    ensure!(
        matches!(load(true)?.0, Some(Origin::Assembled { .. })),
        "damaged code was taken from the disk"
    );
    ensure!(
        matches!(load(true)?.0, Some(Origin::Disk { .. })),
        "the damaged entry was not replaced"
    );
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(format!(
        "assembled {:.2} ms + loaded {:.2} ms, from the disk {:.2} ms, from memory {:.4} ms",
        ms(assembled),
        ms(loaded),
        ms(disk),
        ms(memory)
    ))
}

/// Changes one bit in the middle of every entry.
fn damage(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let mut bytes = fs::read(&path)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes)?;
    }
    Ok(())
}
