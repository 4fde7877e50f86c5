//! Runs a case on a device, and records the outcome.

use std::fmt;
use std::time::{Duration, Instant};

use colex_atom::Side;

use super::case::{Agreement, Case, Shot};
use colex_device::{Buffer, Device, Error, Function, Origin};
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

    /// Returns the judgement on the outputs of all launches together.
    pub fn judged(&self, outputs: &[Vec<u8>]) -> Agreement {
        let judged = outputs.iter().enumerate();
        judged
            .map(|(shot, output)| self.judge.judge(shot, output))
            .reduce(Agreement::and)
            .unwrap_or_default()
    }

    /// Returns the output of each launch. All are under way before the first is looked at.
    ///
    /// # Errors
    ///
    /// Returns the error of the device.
    pub fn launched(&self, device: &Device, times: &mut Times) -> Result<Vec<Vec<u8>>, Error> {
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
        let tensor = if *side == Side::Source { input } else { output };
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
            Some(Origin::Whole { took }) => self.assembled = Some(*took),
            Some(Origin::Disk { took } | Origin::Image { loaded: took }) => {
                self.loaded = Some(*took);
            }
            None => {}
        }
    }
}
