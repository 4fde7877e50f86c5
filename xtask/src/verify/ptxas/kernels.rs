//! Whole kernels: assembled without a warning, in no more registers and with no more spills than they are allowed.

use anyhow::{Context, Result};
use colex_proof::corpus::{Sample, drawn_samples, samples};

#[path = "../../../../gpu/examples/attention.rs"]
#[allow(
    dead_code,
    reason = "the assembler reads its kernel; cargo runs its main"
)]
mod attention;

use super::Ptxas;
use crate::verify::Run;
use crate::verify::outcome::Outcome;
use crate::verify::progress::Progress;

/// Runs the step, or says that there is no assembler.
pub(in crate::verify) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let mut samples = samples().context("a kernel of the corpus cannot be built")?;
    samples.extend(drawn_samples().map_err(anyhow::Error::msg)?);
    for is_causal in [false, true] {
        let kernel = attention::attention(is_causal)?.kernel;
        samples.push(Sample::new(kernel, 128));
    }
    let Some(ptxas) = Ptxas::find() else {
        let why = format!("no ptxas found for {} kernels", samples.len());
        return Ok(Outcome::skipped(why));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas/kernels");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let (mut complaints, mut most) = (Vec::new(), 0);
    for sample in &samples {
        let kernel = &sample.kernel;
        progress.at(&format!("{} for {}", kernel.name, kernel.target));
        let text = kernel.ptx()?;
        let target = kernel.target.target();
        let seen = match ptxas.report(&text, target, &folder)? {
            Ok(said) => judge(sample, &said),
            Err(said) => Err(said),
        };
        match seen {
            Ok(registers) => most = most.max(registers),
            Err(why) => complaints.push(format!("{} for {target}: {why}", kernel.name)),
        }
    }
    let spilling = samples.iter().filter(|sample| sample.spilled > 0).count();
    let covered = format!(
        "{} kernels assembled, no warning, at most {most} registers, {spilling} spill as known",
        samples.len()
    );
    Ok(Outcome::of(samples.len(), covered, &complaints))
}

/// The registers that a kernel takes, or what is wrong with what the assembler said of it.
pub(super) fn judge(sample: &Sample, said: &str) -> Result<u32, String> {
    let remark = said
        .lines()
        .find(|line| line.contains("warning") || line.contains("(C75"));
    if let Some(line) = remark {
        return Err(line.to_string());
    }
    let number = |before: &str, after: &str| -> Option<u32> {
        let rest = said.split(before).nth(1)?;
        rest.split(after).next()?.trim().parse().ok()
    };
    let registers = number("Used ", " registers").ok_or("it did not say how many registers")?;
    let spilled = number("bytes stack frame, ", " bytes spill stores")
        .ok_or("it did not say how much it spills")?;
    match (spilled <= sample.spilled, registers <= sample.registers) {
        (true, true) => Ok(registers),
        (true, false) => Err(format!(
            "{registers} registers, and it is allowed {}",
            sample.registers
        )),
        _ => Err(format!(
            "{spilled} bytes are spilled, and it is allowed {}",
            sample.spilled
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(registers: u32) -> Sample {
        let kernel = colex_proof::corpus::reduce(colex_atom::Arch::Sm80);
        Sample::new(kernel, registers)
    }

    #[test]
    fn registers_spills_and_warnings_are_judged() {
        let said = "ptxas info    : Function properties for k\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 26 registers, used 1 barriers\n";
        assert_eq!(judge(&sample(26), said), Ok(26));
        assert_eq!(
            judge(&sample(25), said),
            Err("26 registers, and it is allowed 25".into())
        );
        let spilled = said.replace("0 bytes spill stores", "8 bytes spill stores");
        assert_eq!(
            judge(&sample(26), &spilled),
            Err("8 bytes are spilled, and it is allowed 0".into())
        );
        let line = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async serialized";
        assert_eq!(
            judge(&sample(26), &format!("{line}\n{said}")),
            Err(line.into())
        );
        assert!(judge(&sample(26), "").is_err());
    }
}
