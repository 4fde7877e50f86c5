//! Every executable instruction of the MMA and the copy table, assembled for the first architecture that has it, and refused by the
//! assembler one architecture and one version of PTX earlier.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use colex_atom::{Arch, PtxVersion};
use colex_proof::corpus::{FormCase, copies, products};

use super::forms::{Judge, by_needs, module};
use super::{Ptxas, is_too_early};
use crate::verify::Run;
use crate::verify::outcome::Outcome;
use crate::verify::progress::Progress;

/// Kernels in a module: the assembler takes longer than linear for large ones.
const BATCH: usize = 64;

/// The versions of PTX that added a target or an instruction of the table, or came just before one that did.
#[rustfmt::skip] // A list to read, not a column.
const VERSIONS: &[(u8, u8)] = &[
    (4, 0), (4, 3), (5, 0), (6, 0), (6, 2), (6, 3), (6, 4), (6, 5), (7, 0), (7, 1), (7, 3), (7, 7), (7, 8), (8, 0), (8, 1),
    (8, 2), (8, 3), (8, 4), (8, 6), (8, 7),
];

/// Runs the step, or says that there is no assembler.
pub(in crate::verify) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let cases: Vec<FormCase> = products().into_iter().chain(copies()).collect();
    let Some(ptxas) = Ptxas::find() else {
        let why = format!("no ptxas found for {} instructions", cases.len());
        return Ok(Outcome::skipped(why));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas/rows");
    let (right, wrong): (Vec<&FormCase>, Vec<&FormCase>) =
        cases.iter().partition(|case| case.right);
    let refused = |case: &&FormCase| format!("{} is refused by the verifier", case.word);
    let mut complaints: Vec<String> = wrong.iter().map(refused).collect();
    complaints.extend(assemble_all(&ptxas, &right, &folder, progress)?);
    let judge = Judge {
        ptxas: &ptxas,
        folder: &folder.join("0"),
        progress,
        oldest: None,
    };
    let early = judge.refused_earlier(&right, &mut complaints)?;
    let covered = format!(
        "{} instructions assembled, {early} refused before their time (ptxas {})",
        right.len(),
        ptxas.release
    );
    Ok(Outcome::of(right.len(), covered, &complaints))
}

/// A module's cases, and the architecture and the version of PTX that first have them.
type Batch<'a> = (Arch, PtxVersion, Vec<&'a FormCase>);

/// Assembles the cases in batches, two at a time; what the assembler refused, in its words.
fn assemble_all(
    ptxas: &Ptxas,
    cases: &[&FormCase],
    folder: &Path,
    progress: &Progress,
) -> Result<Vec<String>> {
    let mut batches: Vec<Batch<'_>> = Vec::new();
    for ((arch, version), cases) in by_needs(cases) {
        batches.extend(
            cases
                .chunks(BATCH)
                .map(|batch| (arch, version, batch.to_vec())),
        );
    }
    let next = AtomicUsize::new(0);
    let work = |folder: PathBuf, at: &dyn Fn(&str)| -> Result<Vec<String>> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut complaints = Vec::new();
        while let Some((arch, version, cases)) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            at(&format!("{} kernels for {arch}", cases.len()));
            let (text, _) = module(cases, *arch, *version)?;
            if let Err(said) = ptxas.assemble(&text, arch.target(), &folder)? {
                complaints.push(format!("{} to ..: {said}", cases[0].word));
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
