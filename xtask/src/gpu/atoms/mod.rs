//! `xtask gpu atoms`: the atom sweep on a GPU, in many processes, or on the simulator.

mod baseline;
mod processes;
mod record;
mod table;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use colex_atom::Arch;
use colex_gpu::Device;
use colex_proof::sweep::{Record, Subject, Verdict, subjects};

use crate::output;
use crate::verdict::{self, Checked, Ended};

use super::shares::Sharing;
pub(crate) use baseline::against_recorded;
use record::Head;
use table::Table;

/// What to sweep, and how.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AtomOptions {
    /// On the simulator of an sm_90a instead of the GPU.
    #[arg(long)]
    simulator: bool,
    /// A sample on the simulator, compared with what the H200 said of it.
    #[arg(long)]
    recorded: bool,
    /// Only atoms whose name contains this; several are alternatives.
    #[arg(long)]
    filter: Vec<String>,
    /// Only every so-many-th of them.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// What the random data comes from; the time if left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Rounds of each kind of data.
    #[arg(long, default_value_t = 1)]
    repeats: usize,
    /// A file for the records, JSON lines.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The same, as it is kept in the repository: without times, packed.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// A folder for the kernels' PTX; nothing is run.
    #[arg(long)]
    ptx: Option<PathBuf>,
    #[command(flatten)]
    sharing: Sharing,
}

impl AtomOptions {
    /// The chosen subjects.
    fn subjects(&self) -> Vec<Subject> {
        let chosen = |subject: &Subject| {
            let name = subject.atom();
            self.filter.is_empty() || self.filter.iter().any(|part| name.contains(part.as_str()))
        };
        subjects()
            .into_iter()
            .filter(chosen)
            .step_by(self.every.max(1))
            .collect()
    }
}

/// Runs the sweep and prints the table of counts.
pub(crate) fn task(options: &AtomOptions) -> Result<ExitCode> {
    if let Some(shard) = &options.sharing.shard {
        return processes::child(options, shard);
    }
    if options.recorded {
        return compare();
    }
    let subjects = options.subjects();
    if subjects.is_empty() {
        bail!("no atom's name contains {:?}", options.filter);
    }
    let seed = options.seed.unwrap_or_else(from_the_clock);
    if let Some(folder) = &options.ptx {
        return print_all(&subjects, seed, folder);
    }
    let started = Instant::now();
    let device = if options.simulator {
        simulator()
    } else {
        super::device()?
    };
    let head = Head::of(&device, seed, options.repeats);
    drop(device);
    println!("{} cases on {}, seed {seed}", subjects.len(), head.device);
    verdict::subject(format!("{}, seed {seed}", head.device));
    let progress = RecordProgress::new(subjects.len());
    let records = if options.simulator {
        on_simulator(&subjects, seed, options.repeats, &|record| {
            progress.step(record)
        })
    } else {
        processes::run(options, seed, &subjects, &|record| progress.step(record))?
    };
    if let Some(path) = &options.out {
        write(path, &head, &records)?;
    }
    if let Some(path) = &options.keep {
        baseline::keep(path, &head, &records)?;
    }
    Ok(report(&records, started))
}

/// The sample that is run on the simulator, and how many there are in all.
#[cfg(feature = "repository")]
pub(crate) fn sampled() -> (Vec<Subject>, usize) {
    let all = subjects();
    (baseline::sample(&all), all.len())
}

/// The whole sweep on the GPU with fresh data.
///
/// It complains of what is wrong, and of what is refused that was not when the record was made.
#[cfg(feature = "repository")]
pub(crate) fn on_gpu(root: &std::path::Path) -> Result<baseline::Comparison> {
    let options = AtomOptions {
        every: 1,
        repeats: 1,
        ..AtomOptions::default()
    };
    let seed = from_the_clock();
    let records = processes::run(&options, seed, &subjects(), &|_| {})?;
    let mut table = Table::default();
    records.iter().for_each(|record| table.add(record));
    let rounded = table.rounded.iter();
    let rounded: String = rounded.map(|(_, remark)| format!("; {remark}")).collect();
    Ok(baseline::Comparison {
        covered: format!("{}, seed {seed}{rounded}", table.summary()),
        count: records.len(),
        complaints: baseline::fallen(root, &records)?,
    })
}

/// Compares the simulator with the record.
fn compare() -> Result<ExitCode> {
    let started = Instant::now();
    let compared = against_recorded(&crate::workspace::root()?)?;
    compared
        .complaints
        .iter()
        .for_each(|complaint| println!("{complaint}"));
    let seconds = started.elapsed().as_secs_f64();
    println!("{} in {seconds:.1} s", compared.covered);
    let is_fine = compared.complaints.is_empty();
    Checked {
        seconds: Some(seconds),
        ..Checked::new("recorded", Ended::of(is_fine), compared.covered)
            .complaining(&compared.complaints.join("\n"))
    }
    .add();
    Ok(output::code(is_fine))
}

/// Prints the table and what was refused or wrong.
fn report(records: &[Record], started: Instant) -> ExitCode {
    let mut table = Table::default();
    records.iter().for_each(|record| table.add(record));
    println!("{table}");
    table.remarks.iter().for_each(|remark| println!("{remark}"));
    times(records);
    println!(
        "{} in {:.1} s",
        table.summary(),
        started.elapsed().as_secs_f64()
    );
    table.checks().into_iter().for_each(Checked::add);
    output::code(table.wrong() == 0)
}

/// The medians of the steps from a description to a loaded module.
fn times(records: &[Record]) {
    let median = |mut times: Vec<u128>| {
        times.sort_unstable();
        times.get(times.len() / 2).map(|us| *us as f64 / 1000.0)
    };
    let of = |time: &dyn Fn(&Record) -> Option<std::time::Duration>| {
        median(
            records
                .iter()
                .filter_map(time)
                .map(|time| time.as_micros())
                .collect(),
        )
    };
    let ran = |record: &Record| record.verdict.agrees();
    let steps = [
        ("kernel to PTX", of(&|record| Some(record.times.printed))),
        ("PTX to machine code", of(&|record| record.times.assembled)),
        (
            "machine code to the device",
            of(&|record| record.times.loaded),
        ),
        (
            "data there, launches, data back",
            of(&|record| ran(record).then_some(record.times.ran)),
        ),
    ];
    for (what, median) in steps {
        if let Some(ms) = median {
            println!("median {what}: {ms:.3} ms");
        }
    }
}

pub(super) fn from_the_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |since| since.as_nanos() as u64)
}

pub(super) fn simulator() -> Device {
    Device::simulator(Arch::Sm90a)
}

/// One subject on a device. An atom that has no case is told like any other that is refused.
pub(super) fn one(subject: &Subject, device: &Device, seed: u64, repeats: usize) -> Result<Record> {
    let case = subject.case(repeats, seed);
    Ok(case.with_context(|| subject.atom())?.run(device))
}

/// All subjects on as many simulators as there are cores, in their order.
pub(super) fn on_simulator(
    subjects: &[Subject],
    seed: u64,
    repeats: usize,
    done: &(dyn Fn(&Record) + Sync),
) -> Vec<Record> {
    let next = AtomicUsize::new(0);
    let records = Mutex::new(Vec::new());
    let work = || {
        let device = simulator();
        while let Some((at, subject)) = take(subjects, &next) {
            let record = one(subject, &device, seed, repeats).unwrap_or_else(|error| Record {
                name: subject.atom(),
                family: "without a case".to_string(),
                verdict: Verdict::Wrong(format!("{error:#}")),
                agreement: Default::default(),
                times: Default::default(),
            });
            done(&record);
            records
                .lock()
                .expect("no worker panics while it holds the list")
                .push((at, record));
        }
    };
    std::thread::scope(|scope| {
        (0..cores()).for_each(|_| drop(scope.spawn(work)));
    });
    let mut records = records.into_inner().expect("the workers are done");
    records.sort_by_key(|(at, _)| *at);
    records.into_iter().map(|(_, record)| record).collect()
}

fn take<'a>(subjects: &'a [Subject], next: &AtomicUsize) -> Option<(usize, &'a Subject)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, subjects.get(at)?))
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A line every few hundred records.
struct RecordProgress {
    done: AtomicUsize,
    all: usize,
    started: Instant,
}

impl RecordProgress {
    fn new(all: usize) -> RecordProgress {
        RecordProgress {
            done: AtomicUsize::new(0),
            all,
            started: Instant::now(),
        }
    }

    fn step(&self, _: &Record) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(500) || done == self.all {
            let seconds = self.started.elapsed().as_secs_f64();
            println!("{done} of {} after {seconds:.1} s", self.all);
        }
    }
}

fn write(path: &std::path::Path, head: &Head, records: &[Record]) -> Result<()> {
    let file =
        File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut file = BufWriter::new(file);
    writeln!(file, "{}", head.line())?;
    for record in records {
        writeln!(file, "{}", record::line(record, true))?;
    }
    Ok(file.flush()?)
}

/// Writes the PTX of every kernel.
fn print_all(subjects: &[Subject], seed: u64, folder: &std::path::Path) -> Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    for subject in subjects {
        let case = subject.case(1, seed).with_context(|| subject.atom())?;
        let text = case.kernel.ptx().with_context(|| subject.atom())?;
        std::fs::write(folder.join(format!("{}.ptx", case.kernel.name)), text)?;
    }
    println!("{} kernels in {}", subjects.len(), folder.display());
    Ok(ExitCode::SUCCESS)
}
