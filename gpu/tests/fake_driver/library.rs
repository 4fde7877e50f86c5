//! The fake driver as a library in a folder, and what it counted: for tests, and for the bench of host time.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use colex_gpu::{Device, Error};

/// The text of the library, so that a program carries it along.
const TEXT: &str = include_str!("cuda.rs");

/// The variable that names the file with the counts.
pub(crate) const CALLS: &str = "FAKE_CUDA_CALLS";

/// Builds the library in a folder, for `LD_LIBRARY_PATH`; with or without its functions for tensor maps.
///
/// # Errors
///
/// What stands in the way: there is no `rustc`, it refused the text, or the folder cannot be written.
pub(crate) fn build(folder: &Path, whole: bool) -> Result<(), String> {
    let text = folder.join("cuda.rs");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&text, TEXT));
    written.map_err(|error| format!("{} cannot be written: {error}", folder.display()))?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition", "2021", "--crate-type", "cdylib"]);
    rustc.args(["--crate-name", "cuda", "-O"]);
    rustc.args(["--check-cfg", "cfg(without_tensor_maps)"]);
    if !whole {
        rustc.args(["--cfg", "without_tensor_maps"]);
    }
    let library = folder.join("libcuda.so.1");
    rustc.arg("-o").arg(&library).arg(text);
    let output = rustc
        .output()
        .map_err(|error| format!("rustc cannot be started: {error}"))?;
    if output.status.success() {
        // The same file by the name that `cudarc` looks for: the loader opens one library.
        let link = folder.join("libcuda.so");
        let linked = fs::hard_link(&library, &link);
        linked.map_err(|error| format!("{} cannot be made: {error}", link.display()))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The calls of the driver's functions, by name.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Returns the calls that some work makes of the fake driver, whose counts go to the file that the variable names.
///
/// # Errors
///
/// Those of the work and of the waits before and after it.
///
/// # Panics
///
/// Without that variable, or where the fake driver does not count.
pub(crate) fn counted(
    device: &Device,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<Counts, Error> {
    let file = env::var_os(CALLS).expect("the variable names the file with the counts");
    device.synchronize()?;
    work()?;
    device.synchronize()?;
    let mut counts = read(&file);
    // The last wait has made the context current twice: it asks first whether it may wait.
    let current = counts.get_mut("cuCtxSetCurrent");
    let current = current.expect("every call makes the context current");
    *current -= 2;
    counts.retain(|_, count| *count > 0);
    Ok(counts)
}

/// Reads counts that the fake driver has written.
pub(crate) fn read(file: impl AsRef<Path>) -> Counts {
    let text = fs::read_to_string(file).expect("the fake driver has written its counts");
    let line = |line: &str| {
        let (name, count) = line.split_once(' ').expect("a name and a number");
        (name.to_string(), count.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}

/// Names and numbers in one line: `cuCtxSetCurrent 1, cuLaunchKernelEx 1`.
pub(crate) fn shown(counts: &Counts) -> String {
    let each: Vec<String> = counts
        .iter()
        .map(|(name, n)| format!("{name} {n}"))
        .collect();
    if each.is_empty() {
        "none".to_string()
    } else {
        each.join(", ")
    }
}
