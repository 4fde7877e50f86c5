//! Whole kernels: assembled without a warning, in no more registers and with no more spills than they are allowed.
//!
//! No text is assembled twice. All kernels of the corpus are assembled, among them those of every list of plans. Of the drawn
//! kernels (`drawn_samples`), `verify` assembles the first of each name and target, each that may spill, and one in [`SHARE`] of
//! the others, by a hash of its text. With a number above 1 in `COLEX_SOAK`, as `cargo xtask soak` has it, it assembles all.

use std::collections::HashSet;

use anyhow::{Context, Result};
use colex_gpu::ir::{Alu, BinaryOp, Control, Op, Stmt, Type};
use colex_proof::corpus::{Sample, drawn_samples, samples};
use colex_proof::soak::takes;

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

/// Of how many drawn kernels one is assembled.
const SHARE: usize = 4;

/// Runs the step, or says that there is no assembler.
pub(in crate::verify) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let mut samples = samples().context("a kernel of the corpus cannot be built")?;
    let drawn = drawn_samples().map_err(anyhow::Error::msg)?;
    for is_causal in [false, true] {
        let kernel = attention::attention(is_causal)?.kernel;
        samples.push(Sample::new(kernel, 128));
    }
    let all = samples.into_iter().map(|sample| (sample, false));
    let all = all.chain(drawn.into_iter().map(|sample| (sample, true)));
    let samples: Vec<(Sample, bool)> = all.collect();
    let Some(ptxas) = Ptxas::find() else {
        let why = format!("no ptxas found for {} kernels", samples.len());
        return Ok(Outcome::skipped(why));
    };
    let folder = run.packages.target_folder.join("xtask-ptxas/kernels");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let (mut complaints, mut most) = (Vec::new(), 0);
    let (mut texts, mut names) = (HashSet::new(), HashSet::new());
    let (mut assembled, mut spilling) = (0, 0);
    for (sample, is_drawn) in &samples {
        let kernel = &sample.kernel;
        progress.at(&format!("{} for {}", kernel.name, kernel.target));
        let long = long_divisions(&kernel.body, false);
        let known = KNOWN.iter().find(|(name, _)| *name == kernel.name);
        if long > known.map_or(0, |(_, count)| *count) {
            complaints.push(format!(
                "{} for {}: {long} divisions of 64 bits in loops, of some hundred instructions each: an index that no proof bounds is \
                 checked in 64 bits, with all that it is made of, unless it is in a register",
                kernel.name, kernel.target
            ));
        }
        let text = kernel.ptx()?;
        let target = kernel.target.target();
        let hash = hash(&text);
        if !texts.insert((target, hash)) {
            continue;
        }
        let is_first = names.insert((target, kernel.name.clone()));
        let is_taken = !is_drawn || is_first || sample.spilled > 0 || takes(SHARE, hash as usize);
        if !is_taken {
            continue;
        }
        assembled += 1;
        spilling += usize::from(sample.spilled > 0);
        let seen = match ptxas.report(&text, target, &folder)? {
            Ok(said) => judge(sample, &said),
            Err(said) => Err(said),
        };
        match seen {
            Ok(registers) => most = most.max(registers),
            Err(why) => complaints.push(format!("{} for {target}: {why}", kernel.name)),
        }
    }
    let covered = format!(
        "{assembled} of {} kernels assembled, no warning, at most {most} registers, {spilling} spill as known",
        texts.len()
    );
    Ok(Outcome::of(assembled, covered, &complaints))
}

/// A hash of a text, the same in every build: FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Kernels with divisions of 64 bits in loops, and the most that one has: two forms of Ampere's.
const KNOWN: [(&str, usize); 1] = [("gemm_sm80", 4)];

/// The divisions of 64 bits within loops.
fn long_divisions(body: &[Stmt], is_loop: bool) -> usize {
    let each = body.iter().map(|stmt| match &stmt.op {
        Op::Control(Control::If { then, other, .. }) => {
            long_divisions(then, is_loop) + long_divisions(other, is_loop)
        }
        Op::Control(Control::Loop { body }) => long_divisions(body, true),
        Op::Alu(Alu::Binary {
            op: BinaryOp::Div | BinaryOp::Rem,
            ty: Type::S64 | Type::U64,
            ..
        }) if is_loop => 1,
        _ => 0,
    });
    each.sum()
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
    fn texts_have_the_same_hash_in_every_build() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn long_divisions_are_counted_in_loops() {
        let mut k = colex_gpu::ir::KernelBuilder::new("k", colex_atom::Arch::Sm80);
        let x = k.mov(Type::U64, 9);
        k.div(Type::U64, x, 2);
        k.loop_(|k| {
            let rest = k.rem(Type::U64, x, 2);
            k.div(Type::U64, rest, 3);
            k.div(Type::U32, 7, 2);
            let is_over = k.setp(colex_gpu::ir::Compare::Eq, Type::U64, rest, 0);
            k.break_if(is_over);
        });
        assert_eq!(long_divisions(&k.finish().body, false), 2);
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
