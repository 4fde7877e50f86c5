//! The explorer's page: its scripts beside the pages, and the module of WebAssembly that they run.
//!
//! The module is the crate `colex-explorer`, built for `wasm32-unknown-unknown` where a compiler has std for it. A page
//! that is opened as a file may fetch nothing, so the bytes also travel as base64 in a script; the `.wasm` lies beside it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::platforms::{Compiler, Std};
use crate::workspace;

/// The target of the module.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// The profile that it is built in.
pub(crate) const PROFILE: &str = "explorer";
/// The largest module, in bytes.
const LARGEST: usize = 3_000_000;

/// Whether the module can be built: a compiler has std for its target.
pub(super) fn has_module() -> Result<bool> {
    Ok(Compiler::find(TARGET)?.is_some())
}

/// Puts the scripts and the module into the folder of the pages; returns what became of the module, as a phrase.
///
/// # Errors
///
/// Returns an error if a file cannot be copied, if the module does not build, or if it is too large.
pub(super) fn place(root: &Path, pages: &Path) -> Result<String> {
    let folder = pages.join("explorer");
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let scripts = workspace::files(&root.join("book/theme/explorer"), ".js")?;
    ensure!(!scripts.is_empty(), "the explorer has no scripts");
    for script in scripts {
        let name = script.file_name().context("a script has a name")?;
        fs::copy(&script, folder.join(name))
            .with_context(|| format!("{} cannot be copied", script.display()))?;
    }
    let Some(compiler) = Compiler::find(TARGET)? else {
        return Ok(format!(
            "without the explorer's module, as rustc has no std for {TARGET} (rustup target add {TARGET})"
        ));
    };
    let module = build(root, &compiler)?;
    ensure!(
        module.len() <= LARGEST,
        "the explorer's module has {} bytes, more than {LARGEST}",
        module.len()
    );
    let script = format!("window.colexExplorerBytes = \"{}\";\n", base64(&module));
    for (name, bytes) in [
        ("explorer.wasm", &module[..]),
        ("wasm.js", script.as_bytes()),
    ] {
        fs::write(folder.join(name), bytes).with_context(|| format!("{name} cannot be written"))?;
    }
    Ok(format!(
        "the explorer's module of {:.1} MB",
        module.len() as f64 / 1e6
    ))
}

/// Builds the module and returns its bytes. After the step `wasm32` of `verify` there is nothing left to build.
fn build(root: &Path, compiler: &Compiler) -> Result<Vec<u8>> {
    let target = target_folder(root);
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--quiet", "--package", "colex-explorer"])
        .current_dir(root);
    configure(&mut cargo, compiler)?;
    cargo.arg("--target-dir").arg(&target);
    let output = cargo.output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!(
            "the explorer's module does not build:\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let module = target
        .join(TARGET)
        .join(PROFILE)
        .join("colex_explorer.wasm");
    fs::read(&module).with_context(|| format!("{} cannot be read", module.display()))
}

/// Where cargo builds for the module's target: apart from the other builds, which another compiler would make anew.
fn target_folder(root: &Path) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(target.unwrap_or_else(|| "target".into()))
        .join("wasm")
}

/// Gives a command of cargo the target, the profile and the compiler of the module.
///
/// # Errors
///
/// Returns an error if the compiler brings only the source of std, and rustc has no linker for the target.
pub(crate) fn configure(cargo: &mut Command, compiler: &Compiler) -> Result<()> {
    cargo.args(["--target", TARGET, "--profile", PROFILE]);
    compiler.prepare(cargo);
    if compiler.std == Std::Source {
        cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker()?);
    }
    Ok(())
}

/// The linker that comes with rustc: a compiler that brings only the source of std may have none for the target.
fn linker() -> Result<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).args(["--print", "sysroot"]).output();
    let output = output.with_context(|| format!("{} cannot be started", rustc.display()))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let hosts = fs::read_dir(sysroot.join("lib/rustlib"))
        .into_iter()
        .flatten()
        .flatten();
    let mut linkers = hosts.map(|host| host.path().join("bin/rust-lld"));
    linkers
        .find(|linker| linker.is_file())
        .with_context(|| format!("{} has no rust-lld", sysroot.display()))
}

/// The bytes in base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let shift = 18 - 6 * digit;
            // Each byte beyond the end leaves out a digit.
            if digit <= three.len() {
                text.push(char::from(DIGITS[(bits >> shift & 63) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }
}
