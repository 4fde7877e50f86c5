//! The protocol on a GPU: contenders in turn, in one process, on the same data; medians and ratios.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use colex_gpu::{Buffer, Device, Element, Error, Timing};
use serde_json::{Value, json};

use super::host;
use crate::verdict::{Checked, Ended};

/// How the numbers are taken, for the reader of them.
pub(super) const PROTOCOL: &str = "contenders in turn in one process, a run of its own before each sample, events around every sample, \
medians; random data; buffers larger than the second-level cache";

/// What is given to a device.
type DeviceWork<'a> = dyn Fn(&Device) -> Result<(), Error> + 'a;

/// What another process measures: the microseconds of each of a number of runs.
type Elsewhere<'a> = dyn Fn(usize) -> Result<f64> + 'a;

/// One way to do the work.
pub(super) struct Contender<'a> {
    pub(super) name: String,
    run: ContenderRun<'a>,
}

/// Where a contender runs.
enum ContenderRun<'a> {
    Here(Box<DeviceWork<'a>>),
    Elsewhere(Box<Elsewhere<'a>>),
}

impl<'a> Contender<'a> {
    pub(super) fn new(
        name: impl Into<String>,
        run: impl Fn(&Device) -> Result<(), Error> + 'a,
    ) -> Contender<'a> {
        Contender {
            name: name.into(),
            run: ContenderRun::Here(Box::new(run)),
        }
    }

    /// Builds a contender that another process runs and measures, with a run of its own before each sample.
    pub(super) fn elsewhere(
        name: impl Into<String>,
        run: impl Fn(usize) -> Result<f64> + 'a,
    ) -> Contender<'a> {
        Contender {
            name: name.into(),
            run: ContenderRun::Elsewhere(Box::new(run)),
        }
    }

    /// Does the work once.
    pub(super) fn run_once(&self, device: &Device) -> Result<()> {
        match &self.run {
            ContenderRun::Here(run) => Ok(run(device)?),
            ContenderRun::Elsewhere(run) => run(1).map(drop),
        }
    }
}

/// Times of each contender: `rounds` samples of `batch` runs one after the other, the contenders taking turns. A run that is not
/// measured is before each sample: the memory takes what the contender before has left in the L2 cache, some 25 MB of the
/// output of a copy.
pub(super) fn take_turns(
    device: &Device,
    contenders: &[Contender<'_>],
    rounds: usize,
    batch: usize,
) -> Result<Vec<Timing>> {
    for contender in contenders {
        contender.run_once(device)?;
    }
    device.synchronize()?;
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..rounds {
        let mut spans = Vec::new();
        // Another one begins each round: what runs first finds the device cooler.
        let order: Vec<usize> = (0..contenders.len())
            .map(|i| (i + round) % contenders.len())
            .collect();
        for i in order {
            match &contenders[i].run {
                ContenderRun::Here(run) => {
                    run(device)?;
                    let start = device.record()?;
                    (0..batch).try_for_each(|_| run(device))?;
                    spans.push((i, start, device.record()?));
                }
                ContenderRun::Elsewhere(run) => {
                    // Both processes never have work for the device at the same time.
                    device.synchronize()?;
                    samples[i].push(run(batch)?);
                }
            }
        }
        for (i, start, end) in &spans {
            let milliseconds = f64::from(end.milliseconds_since(start)?);
            samples[*i].push(milliseconds * 1e3 / batch as f64);
        }
    }
    Ok(samples.into_iter().map(Timing::of).collect())
}

/// What a bench on a GPU found.
pub(super) struct BenchReport {
    value: Value,
}

impl BenchReport {
    pub(super) fn new(bench: &str, unit: &str, device: &Device) -> BenchReport {
        let driver = driver(device);
        BenchReport {
            value: json!({
                "bench": bench, "unit": unit, "device": device.name(), "driver": driver,
                "date": host::today(), "commit": commit(), "protocol": PROTOCOL, "groups": [],
            }),
        }
    }

    /// The report as it is written.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// Adds a group of a problem, which drawings need the operations and the bytes of, and prints it.
    pub(super) fn group_of(
        &mut self,
        (title, problem): (&str, Value),
        names: &[String],
        times: &[Timing],
        work: f64,
    ) {
        self.group(title, names, times, work);
        let groups = self.value["groups"].as_array_mut();
        let added = groups.and_then(|groups| groups.last_mut());
        added.expect("a group was added")["problem"] = problem;
    }

    /// Adds a group and prints it; `work` is what one run does in units of `unit` times a microsecond. The first
    /// contender is the one that ratios are to.
    pub(super) fn group(&mut self, title: &str, names: &[String], times: &[Timing], work: f64) {
        let unit = self.value["unit"].as_str().unwrap_or_default().to_string();
        println!("\n{title}");
        let first = times.first().map_or(f64::NAN, Timing::median);
        let mut rows = Vec::new();
        for (name, time) in names.iter().zip(times) {
            let (value, ratio) = (work / time.median(), first / time.median());
            println!("  {name:<44} {value:>9.3} {unit}  ratio {ratio:.3}  {time}");
            rows.push(json!({
                "name": name, "value": round(value), "ratio": round(ratio), "microseconds": round(time.median()),
                "least": round(time.least()), "most": round(time.most()), "samples": time.samples(),
            }));
        }
        Checked {
            data: json!({"unit": unit, "rows": rows}),
            ..Checked::new(title, Ended::Passed, PROTOCOL)
        }
        .add();
        let groups = self.value["groups"].as_array_mut();
        groups
            .expect("groups are a list")
            .push(json!({"title": title, "rows": rows}));
    }

    /// Writes the numbers to a file, for the figures of the book.
    pub(super) fn write(&self, path: Option<&Path>) -> Result<()> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(&self.value)? + "\n";
        std::fs::write(path, text)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        println!("\nwritten to {}", path.display());
        Ok(())
    }
}

/// Four digits after the point.
fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// The version of CUDA that the driver has.
pub(super) fn driver(device: &Device) -> String {
    let version = device.driver_version().unwrap_or(0);
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}

/// The commit that the binary was built from, where its build knew it; else that of the repository in which it runs.
pub(super) fn commit() -> String {
    if let Some(commit) = option_env!("COLEX_BUILT_FROM") {
        return commit.to_string();
    }
    let said = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    match said {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => "unknown".to_string(),
    }
}

/// Elements without a pattern: one block of random bits, repeated.
pub(super) struct Noise<T>(Vec<T>);

/// Elements of the block: a prime, so that no row or column of a matrix repeats another.
const BLOCK: usize = 8_388_593;

impl<T: Element> Noise<T> {
    pub(super) fn new() -> Noise<T> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let words = (BLOCK * T::BYTES).div_ceil(8);
        let bytes: Vec<u8> = (0..words).flat_map(|_| next()).collect();
        Noise(T::from_bytes(&bytes[..BLOCK * T::BYTES]))
    }

    /// A block of what a function returns.
    pub(super) fn of(mut next: impl FnMut() -> T) -> Noise<T> {
        Noise((0..BLOCK).map(|_| next()).collect())
    }

    /// The element at a place.
    pub(super) fn at(&self, place: usize) -> T {
        self.0[place % BLOCK]
    }

    /// Fills a buffer.
    pub(super) fn fill(&self, buffer: &Buffer<T>) -> Result<(), Error> {
        let first = buffer.slice(..BLOCK.min(buffer.len()))?;
        first.write(&self.0[..first.len()])?;
        let mut start = BLOCK;
        while start < buffer.len() {
            let part = buffer.slice(start..buffer.len().min(start + BLOCK))?;
            part.copy_from(&first.slice(..part.len())?)?;
            start += BLOCK;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_ratios_to_its_first_row() {
        let device = Device::simulator(colex_atom::Arch::Sm90a);
        let mut report = BenchReport::new("copy", "TB/s", &device);
        let names = ["memcpy".to_string(), "ours".to_string()];
        let times = [Timing::of(vec![2.0, 2.0]), Timing::of(vec![1.0, 9.0, 4.0])];
        report.group("2 GiB", &names, &times, 8.0);
        let rows = &report.value["groups"][0]["rows"];
        assert_eq!(
            (&rows[0]["value"], &rows[1]["value"]),
            (&json!(4.0), &json!(2.0))
        );
        assert_eq!(rows[1]["ratio"], json!(0.5));
    }
}
