//! Every executable instruction of the MMA and the copy table, assembled for the first architecture that has it, and refused by the
//! assembler one architecture and one version of PTX earlier.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use colex_atom::{Arch, KernelBatch, MmaAtom, PtxVersion, kernel_batches, mma_atoms};

use super::Run;
use super::assemble_copies;
use super::outcome::Outcome;
use super::progress::Progress;
use super::ptxas::{Ptxas, is_too_early};

/// Kernels in a module: the assembler takes longer than linear for large ones.
const BATCH: usize = 64;

/// The versions of PTX that added a target or an instruction of the table, or came just before one that did.
#[rustfmt::skip] // A list to read, not a column.
const VERSIONS: &[(u8, u8)] = &[
    (4, 0), (4, 3), (5, 0), (6, 0), (6, 2), (6, 3), (6, 4), (6, 5), (7, 0), (7, 1), (7, 3), (7, 7), (7, 8), (8, 0), (8, 1),
    (8, 2), (8, 3), (8, 4), (8, 6), (8, 7),
];

/// Runs the step, or says that there is no assembler.
pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let Some(ptxas) = Ptxas::find() else {
        return Ok(Outcome::skipped("no ptxas found"));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas");
    let batches = kernel_batches(BATCH);
    let complaints = assemble_all(&ptxas, &batches, &folder, progress)?;
    let kernels: usize = batches.iter().map(|batch| batch.atoms.len()).sum();
    let (rows, early) = refused_earlier(&ptxas, &folder, progress)?;
    let copies = assemble_copies::check(&ptxas, &folder.join("0"), progress)?;
    let covered = format!(
        "{} instructions assembled, {} refused before their time (ptxas {})",
        kernels + copies.assembled,
        rows + copies.refused,
        ptxas.release
    );
    let mut complaints: Vec<String> = complaints.into_iter().chain(early).collect();
    complaints.extend(copies.complaints);
    Ok(Outcome::of(
        kernels.min(copies.assembled),
        covered,
        &complaints,
    ))
}

/// Assembles the batches, two at a time; what the assembler refused, in its words.
fn assemble_all(
    ptxas: &Ptxas,
    batches: &[KernelBatch],
    folder: &Path,
    progress: &Progress,
) -> Result<Vec<String>> {
    let next = AtomicUsize::new(0);
    let work = |folder: PathBuf, at: &dyn Fn(&str)| -> Result<Vec<String>> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut complaints = Vec::new();
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            at(&format!("{} kernels for {}", batch.atoms.len(), batch.arch));
            if let Err(said) = ptxas.assemble(&batch.text, batch.arch.target(), &folder)? {
                complaints.push(format!("{} to ..: {said}", batch.atoms[0].name()));
            }
        }
        Ok(complaints)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(folder.join("1"), &|_| {}));
        let mut complaints = work(folder.join("0"), &|what| progress.at(what))?;
        complaints.extend(
            other
                .join()
                .expect("the assembling thread does not panic")?,
        );
        Ok(complaints)
    })
}

/// One member of each row and pair of types: refused for the architecture before its own, and for the version before.
/// How many there are, and those that were not refused.
fn refused_earlier(
    ptxas: &Ptxas,
    folder: &Path,
    progress: &Progress,
) -> Result<(usize, Vec<String>)> {
    let folder = folder.join("0");
    let (mut seen, mut accepted) = (HashSet::new(), Vec::new());
    for atom in mma_atoms().filter(MmaAtom::is_executable) {
        let op = atom.op()?;
        if !seen.insert((atom.row().name, atom.elements())) {
            continue;
        }
        progress.at(&atom.name());
        let text = atom.module("kernel")?;
        for (arch, version) in [before_arch(op.since), before_version(op.since, op.version)]
            .into_iter()
            .flatten()
        {
            let text = rewritten(&text, arch, version);
            let seen = ptxas.assemble(&text, arch.target(), &folder)?;
            let complaint = early_complaint(seen.err().as_deref());
            accepted.extend(
                complaint.map(|what| format!("{} {what} {arch}, PTX {version}", atom.name())),
            );
        }
    }
    Ok((seen.len(), accepted))
}

/// What is wrong with the assembler's answer to a text before its time: that there was no refusal, or one for another
/// reason. The target and the version are to follow.
pub(super) fn early_complaint(refusal: Option<&str>) -> Option<String> {
    match refusal {
        None => Some("assembles already for".to_string()),
        Some(said) if !is_too_early(said) => Some(format!(
            "is refused as wrong, not as too early ({}), for",
            said.trim()
        )),
        Some(_) => None,
    }
}

/// The architecture before, with the newest PTX.
pub(super) fn before_arch(arch: Arch) -> Option<(Arch, PtxVersion)> {
    let at = Arch::ALL.iter().position(|&known| known == arch)?;
    Some((*Arch::ALL.get(at.checked_sub(1)?)?, PtxVersion(8, 7)))
}

/// The version before, if the architecture was there by then.
pub(super) fn before_version(arch: Arch, version: PtxVersion) -> Option<(Arch, PtxVersion)> {
    let earlier = VERSIONS
        .iter()
        .map(|&(major, minor)| PtxVersion(major, minor))
        .rev()
        .find(|&v| v < version)?;
    (earlier >= arch.ptx_version()).then_some((arch, earlier))
}

/// The module with another head.
pub(super) fn rewritten(text: &str, arch: Arch, version: PtxVersion) -> String {
    let body = text.splitn(3, '\n').nth(2).unwrap_or_default();
    format!(".version {version}\n.target {arch}\n{body}")
}
