//! `xtask gpu targets`: for every kernel of the library and every sample, the target, the lowest version of PTX that has
//! its instructions, and the release of CUDA whose driver brought that version. No GPU is needed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use colex_atom::{Arch, PtxVersion, Release};
use colex_gpu::ir::Kernel;
use serde_json::json;

use crate::verdict::{Checked, Ended};
use crate::{output, workspace};

/// Kernels that no device has run yet: a new one stands here until it has.
const NEVER_RUN: &[&str] = &[];

/// What is known of kernels for a target: those for the machine that this is developed on have run, but for the newest.
fn seen(name: &str, target: Arch) -> &'static str {
    match target {
        Arch::Sm90 | Arch::Sm90a if !NEVER_RUN.contains(&name) => "run on an H200",
        _ => "assembled, never run",
    }
}

/// The kernels that need the same, and how many they are.
type Needs = BTreeMap<(String, Arch, PtxVersion), usize>;

fn needs<'a>(kernels: impl Iterator<Item = &'a Kernel>) -> Needs {
    let mut needs = Needs::new();
    for kernel in kernels {
        let key = (kernel.name.clone(), kernel.target, kernel.ptx_version());
        *needs.entry(key).or_default() += 1;
    }
    needs
}

/// The lines of the kept file, its head first.
pub(crate) fn lines() -> Result<Vec<String>> {
    let samples =
        colex_proof::corpus::samples().context("a kernel of the corpus cannot be built")?;
    let mut lines = vec!["kernel\tvariants\ttarget\tPTX\tfirst release\tseen".to_string()];
    for ((name, target, version), count) in needs(samples.iter().map(|sample| &sample.kernel)) {
        let release = version.release();
        let release = release.with_context(|| format!("no release is known of PTX {version}"))?;
        lines.push(format!(
            "{name}\t{count}\t{target}\t{version}\t{release}\t{}",
            seen(&name, target)
        ));
        add(&name, target, version, release, count);
    }
    Ok(lines)
}

fn add(name: &str, target: Arch, version: PtxVersion, release: Release, count: usize) {
    let data = json!({
        "target": target.target(), "ptx": version.to_string(), "cuda": release.number(), "driver": release.driver,
        "variants": count,
    });
    let what = format!("{target}, PTX {version}, {release}");
    Checked {
        data,
        ..Checked::new(name, Ended::Passed, what)
    }
    .add();
}

fn path(root: &Path) -> std::path::PathBuf {
    root.join("xtask/targets.tsv")
}

/// What differs from the kept file.
pub(crate) fn complaints(root: &Path, lines: &[String]) -> Result<Vec<String>> {
    let path = path(root);
    let kept = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "{} cannot be read: `cargo xtask gpu targets --keep` writes it",
            path.display()
        )
    })?;
    let kept: Vec<&str> = kept.lines().collect();
    let shown = |line: &str| line.replace('\t', "  ");
    let gone = kept
        .iter()
        .filter(|line| !lines.iter().any(|now| now == *line));
    let new = lines.iter().filter(|line| !kept.contains(&line.as_str()));
    let gone = gone.map(|line| format!("kept, but not so now: {}", shown(line)));
    let mut all: Vec<String> = gone
        .chain(new.map(|line| format!("so now, but not kept: {}", shown(line))))
        .collect();
    if !all.is_empty() {
        all.push(
            "if each is right, `cargo xtask gpu targets --keep` writes xtask/targets.tsv anew"
                .to_string(),
        );
    }
    Ok(all)
}

/// Prints the table; `keep` writes the file.
pub(crate) fn task(keep: bool) -> Result<ExitCode> {
    let lines = lines()?;
    for line in &lines {
        let cells: Vec<&str> = line.split('\t').collect();
        println!(
            "{:<20} {:>8}  {:<8} {:<4} {:<24} {}",
            cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]
        );
    }
    let root = workspace::root()?;
    if keep {
        std::fs::write(path(&root), lines.join("\n") + "\n")?;
        println!("kept in {}", path(&root).display());
        return Ok(ExitCode::SUCCESS);
    }
    let complaints = complaints(&root, &lines)?;
    complaints
        .iter()
        .for_each(|complaint| println!("{complaint}"));
    Checked::new(
        "kept",
        Ended::of(complaints.is_empty()),
        format!("{} lines", lines.len() - 1),
    )
    .complaining(&complaints.join("\n"))
    .add();
    Ok(output::code(complaints.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_gpu::ir::KernelBuilder;

    #[test]
    fn kernels_that_need_the_same_are_one_line() {
        let kernels = [Arch::Sm80, Arch::Sm80, Arch::Sm90a];
        let kernels = kernels.map(|arch| KernelBuilder::new("k", arch).finish());
        let needs = needs(kernels.iter());
        let counts: Vec<_> = needs
            .into_iter()
            .map(|((_, arch, version), n)| (arch, version, n))
            .collect();
        assert_eq!(
            counts,
            [
                (Arch::Sm80, PtxVersion(7, 0), 2),
                (Arch::Sm90a, PtxVersion(8, 0), 1)
            ]
        );
    }
}
