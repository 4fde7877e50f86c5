//! Runs a case on a device, and records the outcome.

use std::fmt;
use std::time::{Duration, Instant};

use super::case::{Agreement, Case, Shot, Side};
use colex_device::Buffer;
use colex_device::Device;
use colex_device::Error;
use colex_device::{Function, Origin};
use colex_ir::launch::Argument;

/// Bytes that a launch's input and output begin at a multiple of: what a tensor map and every load want.
const ALIGN: usize = 256;

/// The outcome of checking one instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every element is bit for bit what the row's arithmetic gives, as it must be.
    Exact,
    /// Every element of a float sum is bit for bit what the model of Hopper's tensor cores gives.
    Modelled,
    /// Every element of a float sum is within the rounding, not all as the model gives.
    Within,
    /// The assembler, the driver or the device refused it.
    Refused {
        /// `verifier`, `assembler`, `driver`, `hardware` or `simulator`.
        by: &'static str,
        /// The sentence of the refusal.
        words: String,
    },
    /// An element is something else.
    Wrong(String),
}

impl Verdict {
    /// Returns the verdict of a comparison.
    pub fn of(agreement: &Agreement) -> Verdict {
        match &agreement.wrong {
            Some(wrong) => Verdict::Wrong(wrong.clone()),
            None if agreement.must_be_exact => Verdict::Exact,
            None if agreement.modelled == agreement.elements => Verdict::Modelled,
            None => Verdict::Within,
        }
    }

    /// Returns the verdict of a device's error.
    pub fn of_error(error: &Error) -> Verdict {
        let by = match error {
            _ if error.refused().is_some() => "verifier",
            _ if error.assembler_log().is_some() => "assembler",
            _ if error.is_context_lost() => "hardware",
            _ if error.is_unsupported() => "simulator",
            _ => "driver",
        };
        Verdict::Refused {
            by,
            words: error.to_string(),
        }
    }

    /// Returns whether the device did what the row says.
    pub fn agrees(&self) -> bool {
        matches!(self, Verdict::Exact | Verdict::Modelled | Verdict::Within)
    }
}

/// One word: `exact`, `modelled`, `within`, `refused`, `wrong`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Exact => "exact",
            Verdict::Modelled => "modelled",
            Verdict::Within => "within",
            Verdict::Refused { .. } => "refused",
            Verdict::Wrong(_) => "wrong",
        })
    }
}

/// The record of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The case's name.
    pub name: String,
    /// Its row in the table of counts.
    pub family: String,
    /// The outcome.
    pub verdict: Verdict,
    /// What was compared; nothing if it was refused.
    pub agreement: Agreement,
    /// How long it took to get there.
    pub times: Times,
}

/// From a description to a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the kernel to its PTX.
    pub printed: Duration,
    /// From PTX to machine code.
    pub assembled: Option<Duration>,
    /// From machine code to the device, or from the cache on the disk to the device.
    pub loaded: Option<Duration>,
    /// From the first upload to the last download.
    pub ran: Duration,
}

impl Case {
    /// Runs every launch on the device and judges what came out.
    pub fn run(&self, device: &Device) -> Record {
        let mut times = Times::default();
        let ran = self.launched(device, &mut times);
        let agreement = match &ran {
            Ok(outputs) => self.judged(outputs),
            Err(_) => Agreement::default(),
        };
        let verdict = match &ran {
            Ok(_) => Verdict::of(&agreement),
            Err(error) => Verdict::of_error(error),
        };
        Record {
            name: self.name.clone(),
            family: self.family.to_string(),
            verdict,
            agreement,
            times,
        }
    }

    fn judged(&self, outputs: &[Vec<u8>]) -> Agreement {
        let judged = outputs.iter().enumerate();
        judged
            .map(|(shot, output)| self.judge.judge(shot, output))
            .reduce(Agreement::and)
            .unwrap_or_default()
    }

    /// The output of each launch. All are under way before the first is looked at.
    fn launched(&self, device: &Device, times: &mut Times) -> Result<Vec<Vec<u8>>, Error> {
        let started = Instant::now();
        if !device.is_simulator() {
            self.kernel.ptx()?;
        }
        times.printed = started.elapsed();
        let function = device.load(&self.kernel)?;
        times.note(function.origin());
        let started = Instant::now();
        let (inputs, of_input) = joined(self.shots.iter().map(|shot| &shot.input));
        let (outputs, of_output) = joined(self.shots.iter().map(|shot| &shot.output));
        let [inputs, outputs] = [device.upload(&inputs)?, device.upload(&outputs)?];
        for ((shot, input), output) in self.shots.iter().zip(&of_input).zip(&of_output) {
            let part =
                |all: &Buffer<u8>, begin: usize, length: usize| all.slice(begin..begin + length);
            let input = part(&inputs, *input, shot.input.len())?;
            let output = part(&outputs, *output, shot.output.len())?;
            launch(device, &function, shot, &input, &output)?;
        }
        device.synchronize()?;
        let found = outputs.download()?;
        times.ran = started.elapsed();
        let parts = self.shots.iter().zip(of_output);
        Ok(parts
            .map(|(shot, begin)| found[begin..][..shot.output.len()].to_vec())
            .collect())
    }
}

fn launch(
    device: &Device,
    function: &Function,
    shot: &Shot,
    input: &Buffer<u8>,
    output: &Buffer<u8>,
) -> Result<(), Error> {
    let mut arguments: Vec<Argument> = vec![input.into(), output.into()];
    if let Some((map, side)) = &shot.map {
        let tensor = if *side == Side::Input { input } else { output };
        arguments.push(device.tensor_map(map, tensor)?.into());
    }
    device.launch(function, shot.launch, &arguments)
}

/// All parts behind each other, aligned, and where each begins.
fn joined<'a>(parts: impl Iterator<Item = &'a Vec<u8>>) -> (Vec<u8>, Vec<usize>) {
    let (mut all, mut begins) = (Vec::new(), Vec::new());
    for part in parts {
        all.resize(all.len().next_multiple_of(ALIGN), 0);
        begins.push(all.len());
        all.extend_from_slice(part);
    }
    (all, begins)
}

impl Times {
    fn note(&mut self, origin: Option<&Origin>) {
        match origin {
            Some(Origin::Assembled {
                assembled, loaded, ..
            }) => {
                self.assembled = Some(*assembled);
                self.loaded = Some(*loaded);
            }
            Some(Origin::Disk { took }) => self.loaded = Some(*took),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use colex_atom::{Arch, TmaSwizzle, copy, mma};

    use super::super::{Kind, TmaForm, TmaVariant, bulk_case, copy_case, mma_case, tma_case};
    use super::*;

    fn cases() -> Vec<Case> {
        let of_mma = |name| mma_case(&mma(name).unwrap(), &Kind::ALL, 5).unwrap();
        let of_copy = |name| copy_case(&copy(name).unwrap(), false, 2, 5).unwrap();
        let of_bulk = |name| bulk_case(&copy(name).unwrap(), 208, false, 2, 5).unwrap();
        let of_tma = |name, variant| {
            let atom = copy(name).unwrap();
            let form = TmaForm {
                swizzle: TmaSwizzle::B64,
                element: None,
                hinted: false,
                variant,
            };
            tma_case(&atom, &form, 5).unwrap()
        };
        vec![
            of_mma("SM61_DP4A"),
            of_mma("SM70_8x8x4_F32F16F16F32_NT"),
            of_mma("SM80_16x8x16_F32F16F16F32_TN"),
            of_mma("SM80_8x8x4_GC64C64C64GC64_TN"),
            of_mma("SM90_64x24x16_F16F16F16_SS<Major::MN,Major::K>"),
            of_mma("SPARSE::GMMA_64x8x64_S32S8S8_RS_TN"),
            of_copy("SM75_U16x4_LDSM_T"),
            of_copy("SM90_U32x2_STSM_N"),
            of_copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>"),
            of_copy("SM50_Shuffle_U32_2x2Trans_XOR4"),
            of_bulk("SM90_BULK_COPY_G2S_MULTICAST"),
            of_bulk("SM90_BULK_REDUCE_ADD_F16_S2G"),
            of_tma("SM90_TMA_LOAD_3D", TmaVariant::Plain),
            of_tma("SM90_TMA_STORE_2D", TmaVariant::Plain),
            of_tma("SM90_TMA_LOAD_2D", TmaVariant::Nan),
            of_tma("SM90_TMA_STORE_3D", TmaVariant::Strided),
            of_tma("SM90_TMA_LOAD_IM2COL_4D", TmaVariant::Plain),
            of_tma("SM90_TMA_STORE_IM2COL_5D", TmaVariant::Plain),
        ]
    }

    /// What the simulator gives agrees; what was not written, or lies elsewhere, does not.
    #[test]
    fn the_judge_tells_a_right_result_from_a_misplaced_one() {
        let device = Device::simulator(Arch::Sm90a);
        let mut cases_seen = 0;
        for case in cases() {
            let outputs = case.launched(&device, &mut Times::default()).unwrap();
            let right = case.judged(&outputs);
            assert!(Verdict::of(&right).agrees(), "{}: {right:?}", case.name);
            assert_eq!(right.modelled, right.elements, "{}", case.name);
            let poison: Vec<Vec<u8>> = outputs.iter().map(|out| vec![0xff; out.len()]).collect();
            let moved = outputs
                .iter()
                .map(|out| [&out[16..], &out[..16]].concat())
                .collect();
            for wrong in [poison, moved] {
                let seen = case.judged(&wrong);
                assert!(seen.wrong.is_some(), "{}", case.name);
                assert_ne!(seen.digest, right.digest, "{}", case.name);
                cases_seen += 1;
            }
        }
        println!("law sweep.judge: {cases_seen} cases");
    }

    #[test]
    fn the_same_seed_gives_the_same_data() {
        for (a, b) in cases().iter().zip(cases()) {
            assert_eq!(a.shots[0].input, b.shots[0].input, "{}", a.name);
            assert_eq!(a.kernel.name, b.kernel.name);
        }
    }
}
