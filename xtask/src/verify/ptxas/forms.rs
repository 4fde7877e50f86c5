//! Every form of every instruction, right or wrong, put before the assembler.
//!
//! What the verifier accepts is assembled in the version of PTX and for the architecture that it is said to need, and
//! refused one version and one architecture earlier. What the verifier refuses is refused; where the assembler takes it
//! all the same (it reads bits as it is told), that is counted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use colex_atom::{Arch, PtxVersion};
use colex_gpu::ptx::Needs;
use colex_proof::corpus::{FormCase, instructions};

use super::Ptxas;
use crate::verify::Run;
use crate::verify::outcome::Outcome;
use crate::verify::progress::Progress;

/// Kernels in one module.
const BATCH: usize = 400;

/// The last version of PTX that the assembler must know.
const LAST: PtxVersion = PtxVersion(8, 7);

/// Runs the step, or says that there is no assembler.
pub(in crate::verify) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let cases = instructions();
    let Some(ptxas) = Ptxas::find() else {
        let why = format!("no ptxas found for {} forms", cases.len());
        return Ok(Outcome::skipped(why));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas/forms");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let judge = Judge {
        ptxas: &ptxas,
        folder: &folder,
        progress,
        oldest: Some(Needs::BASE),
    };
    let (right, wrong): (Vec<&FormCase>, Vec<&FormCase>) =
        cases.iter().partition(|case| case.right);
    let mut complaints = judge.needed(&right)?;
    let early = judge.refused_earlier(&right, &mut complaints)?;
    let taken = judge.verdicts(&wrong, Arch::Sm90a, LAST)?;
    let taken = taken.iter().filter(|verdict| verdict.is_none()).count();
    let covered = format!(
        "{} forms assembled, {early} refused before their time, {} refused, {taken} by us alone",
        right.len(),
        wrong.len()
    );
    Ok(Outcome::of(right.len(), covered, &complaints))
}

pub(super) struct Judge<'a> {
    pub(super) ptxas: &'a Ptxas,
    pub(super) folder: &'a Path,
    pub(super) progress: &'a Progress,
    /// What nothing is tried below, where the printer writes for nothing older.
    pub(super) oldest: Option<Needs>,
}

impl Judge<'_> {
    /// What is not assembled with what it needs.
    fn needed(&self, cases: &[&FormCase]) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for ((arch, version), cases) in by_needs(cases) {
            for (case, verdict) in cases.iter().zip(self.verdicts(&cases, arch, version)?) {
                complaints.extend(
                    verdict.map(|said| {
                        format!("`{}` for {arch} and PTX {version}: {said}", case.word)
                    }),
                );
            }
        }
        Ok(complaints)
    }

    /// How many are refused one step earlier; complaints about those that are not.
    pub(super) fn refused_earlier(
        &self,
        cases: &[&FormCase],
        complaints: &mut Vec<String>,
    ) -> Result<usize> {
        let mut refused = 0;
        for ((arch, version), cases) in by_needs(cases) {
            let newer = |is_newer: fn(Needs, Arch, PtxVersion) -> bool| {
                self.oldest
                    .is_none_or(|oldest| is_newer(oldest, arch, version))
            };
            let arch_before = super::rows::before_arch(arch)
                .filter(|_| newer(|oldest, arch, _| arch > oldest.arch));
            let version_before = super::rows::before_version(arch, version)
                .filter(|_| newer(|oldest, _, version| version > oldest.version));
            for (arch, version) in [arch_before, version_before].into_iter().flatten() {
                for (case, verdict) in cases.iter().zip(self.verdicts(&cases, arch, version)?) {
                    match super::rows::early_complaint(verdict.as_deref()) {
                        None => refused += 1,
                        Some(what) => {
                            complaints.push(format!("`{}` {what} {arch}, PTX {version}", case.word))
                        }
                    }
                }
            }
        }
        Ok(refused)
    }

    /// What the assembler says against each kernel, if anything.
    fn verdicts(
        &self,
        cases: &[&FormCase],
        arch: Arch,
        version: PtxVersion,
    ) -> Result<Vec<Option<String>>> {
        let mut all = Vec::new();
        for batch in cases.chunks(BATCH) {
            self.progress
                .at(&format!("{} forms for {arch}, PTX {version}", batch.len()));
            all.extend(self.batch(batch, arch, version)?);
        }
        Ok(all)
    }

    /// The same of one module. An error of syntax ends the assembler's reading, so the module is then halved.
    fn batch(
        &self,
        cases: &[&FormCase],
        arch: Arch,
        version: PtxVersion,
    ) -> Result<Vec<Option<String>>> {
        let (text, ends) = module(cases, arch, version)?;
        let mut verdicts = vec![None; cases.len()];
        let Err(said) = self.ptxas.assemble(&text, arch.target(), self.folder)? else {
            return Ok(verdicts);
        };
        for (line, error) in errors(&said) {
            let at = ends.partition_point(|end| *end < line);
            match verdicts.get_mut(at) {
                Some(verdict) if !error.contains("fatal") => *verdict = Some(error),
                _ if cases.len() == 1 => return Ok(vec![Some(error)]),
                _ => {
                    let (first, second) = cases.split_at(cases.len() / 2);
                    let mut all = self.batch(first, arch, version)?;
                    all.extend(self.batch(second, arch, version)?);
                    return Ok(all);
                }
            }
        }
        Ok(verdicts)
    }
}

/// A module of all the cases' kernels, and the line where each ends.
pub(super) fn module(
    cases: &[&FormCase],
    arch: Arch,
    version: PtxVersion,
) -> Result<(String, Vec<usize>)> {
    let mut text = format!(".version {version}\n.target {arch}\n.address_size 64\n");
    let mut ends = Vec::new();
    let mut lines = text.lines().count();
    for case in cases {
        let module = case.kernel.ptx_unverified()?;
        let kernel = module.splitn(4, '\n').nth(3).unwrap_or_default();
        text += kernel;
        lines += kernel.lines().count();
        ends.push(lines);
    }
    Ok((text, ends))
}

/// The cases by the architecture and the version of PTX that they need.
pub(super) fn by_needs<'a>(
    cases: &[&'a FormCase],
) -> BTreeMap<(Arch, PtxVersion), Vec<&'a FormCase>> {
    let mut all: BTreeMap<_, Vec<&FormCase>> = BTreeMap::new();
    for case in cases {
        let needs = case.needs;
        let version = needs.version.max(needs.arch.ptx_version());
        all.entry((needs.arch, version)).or_default().push(case);
    }
    all
}

/// The errors by line; line 0 stands for the whole file.
fn errors(said: &str) -> Vec<(usize, String)> {
    let of_line = |line: &str| {
        let (number, error) = line.split(", line ").nth(1)?.split_once(';')?;
        Some((number.parse().ok()?, error.trim().to_string()))
    };
    let lines = said
        .lines()
        .filter(|line| !line.contains("aborted due to errors") && !line.starts_with("ptxas info"));
    lines
        .map(|line| of_line(line).unwrap_or((0, format!("fatal: {line}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::errors;

    #[test]
    fn errors_are_read_by_line() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas m.ptx, line 13; error   : Unexpected instruction types specified for 'rem'\n\
            ptxas fatal   : Ptx assembly aborted due to errors\n";
        let text = "error   : Unexpected instruction types specified for 'rem'";
        assert_eq!(errors(said), [(13, text.to_string())]);
    }
}
