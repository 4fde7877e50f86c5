//! A sample of the kernels of the atom sweep before ptxas: the instructions alone, as the IR builds and prints them.

use anyhow::{Context, Result};
use colex_proof::corpus::Sample;

use super::{Ptxas, kernels};
use crate::gpu;
use crate::verify::Run;
use crate::verify::outcome::Outcome;
use crate::verify::progress::Progress;

/// The most registers that a thread can have.
const REGISTERS: u32 = 255;

/// Runs the step, or says that there is no assembler.
pub(in crate::verify) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let (sample, all) = gpu::sampled_atoms();
    let Some(ptxas) = Ptxas::find() else {
        let why = format!("no ptxas found for {} kernels of the sweep", sample.len());
        return Ok(Outcome::skipped(why));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas/sweep");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut complaints = Vec::new();
    for subject in &sample {
        let case = subject.case(1, 1).with_context(|| subject.atom())?;
        progress.at(&case.name);
        let (text, target) = (case.kernel.ptx()?, case.kernel.target.target());
        let seen = match ptxas.report(&text, target, &folder)? {
            Ok(said) => kernels::judge(&Sample::new(case.kernel, REGISTERS), &said).map(|_| ()),
            Err(said) => Err(said),
        };
        complaints.extend(seen.err().map(|why| format!("{}: {why}", case.name)));
    }
    let covered = format!(
        "{} of {all} kernels of the sweep assembled, no warning, no spill",
        sample.len()
    );
    Ok(Outcome::of(sample.len(), covered, &complaints))
}
