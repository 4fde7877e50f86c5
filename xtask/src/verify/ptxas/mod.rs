//! The PTX assembler of NVIDIA, where there is one.

pub(super) mod forms;
pub(super) mod kernels;
pub(super) mod rows;
pub(super) mod sweep;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// A ptxas that answers.
pub(super) struct Ptxas {
    program: PathBuf,
    /// Its release: `12.9`.
    pub(super) release: String,
}

impl Ptxas {
    /// `$PTXAS`, or `ptxas` on the path, or the one of the CUDA toolkit.
    pub(super) fn find() -> Option<Ptxas> {
        let named = std::env::var_os("PTXAS").map(PathBuf::from);
        let homes = ["CUDA_HOME", "CUDA_PATH"]
            .into_iter()
            .filter_map(std::env::var_os);
        let toolkits = homes
            .map(PathBuf::from)
            .chain([PathBuf::from("/usr/local/cuda")]);
        let candidates = named
            .into_iter()
            .chain([PathBuf::from("ptxas")])
            .chain(toolkits.map(|home| home.join("bin/ptxas")));
        candidates.into_iter().find_map(Ptxas::at)
    }

    /// The assembler at a path, if it says its release.
    fn at(program: PathBuf) -> Option<Ptxas> {
        let output = Command::new(&program).arg("--version").output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?;
        let release = said
            .split("release ")
            .nth(1)?
            .split(',')
            .next()?
            .to_string();
        Some(Ptxas { program, release })
    }

    /// Assembles a module for a target; the error is what the assembler said.
    pub(super) fn assemble(
        &self,
        text: &str,
        target: &str,
        folder: &Path,
    ) -> Result<Result<(), String>> {
        Ok(self.report(text, target, folder)?.map(|_| ()))
    }

    /// Assembles a module, and answers with what the assembler said of registers, spills and warnings.
    pub(super) fn report(
        &self,
        text: &str,
        target: &str,
        folder: &Path,
    ) -> Result<Result<String, String>> {
        let source = folder.join("module.ptx");
        std::fs::File::create(&source)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("{} cannot be written", source.display()))?;
        let output = Command::new(&self.program)
            .arg("-v")
            .arg(format!("-arch={target}"))
            .arg(&source)
            .arg("-o")
            .arg(folder.join("module.cubin"))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{} cannot be started", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() {
            Ok(said)
        } else {
            Err(said)
        })
    }
}

/// Whether a refusal is for the target or the version of PTX. Any other reason says that the text itself is wrong, and
/// then it proves nothing about what an instruction needs.
pub(super) fn is_too_early(said: &str) -> bool {
    const REASONS: [&str; 5] = [
        "requires .target",
        "requires PTX ISA",
        "not supported on .target",
        // What a later target no longer asks for, or first allows.
        "modifier required for instruction",
        "Result discard mode is not allowed",
    ];
    REASONS.iter().any(|reason| said.contains(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_text_is_not_one_of_its_time() {
        assert!(is_too_early(
            "error   : Feature '.m16n8k16' requires .target sm_80 or higher"
        ));
        assert!(is_too_early(
            "error   : Instruction 'wgmma.fence' not supported on .target 'sm_89'"
        ));
        assert!(!is_too_early("error   : Unknown modifier '.m16n8k17'"));
        assert!(!is_too_early(
            "fatal   : Unsupported .version 9.9; current version is '8.8'"
        ));
        assert!(!is_too_early(
            "fatal   : Missing .version directive at start of file 'a.ptx'"
        ));
    }
}
