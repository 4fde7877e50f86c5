//! The processor time of the steps, and the check that all of them together take at most twice their recorded time, and none
//! more than three times its own.
//!
//! The clock says little: it doubles when another program runs, and it halves on four cores. What is compared is the
//! processor time of a step and of the programs that it started, with that of a first run in an empty target folder on
//! the machine that wrote `xtask/verify/times.json`. A probe, the same work each time on every core at once, says how
//! much slower this machine is than that one, now; a step may take that much longer. A faster machine gains nothing,
//! since the probe would then have to be as unoptimised as it was. A later run builds less and stays far below.
//!
//! Processor time still depends on what runs beside a step: two steps on the two threads of one core take longer than one after
//! the other, and which steps meet differs from run to run. A single step, above all one that compiles, therefore has a factor of
//! three. The sum over all steps evens this out, and has a factor of two.
//! Only CI fails, so that a laptop on battery, or one whose settings make builds heavier, does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};

use super::Run;
use super::outcome::Outcome;
use super::outcome::report::Report;
use crate::workspace::{counted, read};

/// The step that judges the times of all others, after them.
pub(super) const NAME: &str = "times";

/// Where the times of a first run are kept, in the repository.
const KEPT: &str = "xtask/verify/times.json";

/// What a step, or all of them together, may take beside the multiple of its time: short steps vary more. It is all that a step has
/// that is not kept.
const GRACE: f64 = 20.0;

/// How many times its kept time a single step may take.
const STEP: f64 = 3.0;

/// How many times their kept time all steps together may take.
const TOTAL: f64 = 2.0;

/// The steps of a run.
pub(super) struct Ran<'a> {
    /// How each ended, by name.
    pub(super) reports: &'a [(&'static str, Report)],
    /// By the clock: steps run side by side.
    pub(super) seconds: f64,
    /// Whether nothing was built in this target folder before.
    pub(super) first: bool,
    /// Whether a step has failed.
    pub(super) failed: bool,
}

/// A running step.
pub(super) struct Stopwatch {
    started: Instant,
    processor: Option<f64>,
}

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch {
            started: Instant::now(),
            processor: processor_seconds(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Processor seconds of this process and of those it has waited for.
    pub(super) fn processor(&self) -> Option<f64> {
        Some(processor_seconds()? - self.processor?)
    }
}

/// Processor seconds of the steps of a first run, and of the probe then.
#[derive(Debug, Default, PartialEq)]
struct Memo {
    probe: f64,
    steps: BTreeMap<String, f64>,
}

impl Memo {
    fn read(root: &Path) -> Result<Memo> {
        let json: Json = serde_json::from_str(&read(&root.join(KEPT))?)?;
        let steps = json["steps"].as_object().context("it has no `steps`")?;
        Ok(Memo {
            probe: json["probe"].as_f64().context("it has no `probe`")?,
            steps: steps
                .iter()
                .filter_map(|(name, seconds)| Some((name.clone(), seconds.as_f64()?)))
                .collect(),
        })
    }

    /// What took too long, where the probe takes `probe` seconds: single steps, and all of them together.
    fn slow(&self, reports: &[(&str, Report)], probe: f64) -> Vec<String> {
        let slower = (probe / self.probe).max(1.0);
        let judged = |name: &str, took: f64, kept: f64, times: f64| {
            let may = (times * kept + GRACE) * slower;
            (took > may).then(|| {
                format!(
                    "{name} took {took:.1} s of processor time; {may:.1} s are {times} times the {kept:.1} s of {KEPT} and {GRACE} s, \
                     {slower:.2} times as long on this machine. Where that is meant: cargo xtask verify --bless-times"
                )
            })
        };
        let timed = || {
            let all = reports.iter();
            all.filter_map(|(name, report)| Some((*name, report.processor?, self.kept(name))))
        };
        let steps = timed().filter_map(|(name, took, kept)| judged(name, took, kept, STEP));
        let took = timed().map(|(_, took, _)| took).sum();
        let kept = timed().map(|(_, _, kept)| kept).sum();
        steps
            .chain(judged("all steps together", took, kept, TOTAL))
            .collect()
    }

    /// The seconds that are kept of a step; none of a step that is not kept.
    fn kept(&self, name: &str) -> f64 {
        self.steps.get(name).copied().unwrap_or(0.0)
    }

    /// With the times of a run in place of the old ones; what was skipped keeps its time.
    fn with(mut self, reports: &[(&str, Report)], probe: f64) -> Memo {
        let slower = if self.probe > 0.0 {
            probe / self.probe
        } else {
            1.0
        };
        self.steps
            .values_mut()
            .for_each(|seconds| *seconds *= slower);
        self.probe = probe;
        for (name, report) in reports {
            let seconds = report.processor.filter(|_| !report.outcome.is_skipped());
            self.steps
                .extend(seconds.map(|seconds| (name.to_string(), seconds)));
        }
        self
    }

    fn write(&self, root: &Path) -> Result<()> {
        let tenths = |seconds: f64| (seconds * 10.0).ceil() / 10.0;
        let steps: BTreeMap<_, _> = self
            .steps
            .iter()
            .map(|(name, seconds)| (name, tenths(*seconds)))
            .collect();
        let json = json!({"probe": (self.probe * 1e3).round() / 1e3, "steps": steps});
        let file = root.join(KEPT);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(&file, format!("{json:#}\n")).with_context(|| format!("{KEPT} cannot be written"))
    }
}

/// Says what the run took, keeps it in a file, and compares it.
pub(super) fn check(run: &Run, ran: &Ran<'_>, bless: bool) -> Result<Outcome> {
    let reports = ran.reports;
    let probe = probe();
    let file = folder(run).join("times.json");
    let counts = reports.iter().flat_map(|(_, report)| &report.counts);
    let json = json!({
        "first run in this target folder": ran.first,
        "probe": probe,
        "seconds": ran.seconds,
        "counts": counts.collect::<Vec<_>>(),
        "steps": reports.iter().map(|(name, report)| json!({
            "name": name,
            "seconds": report.seconds,
            "processor seconds": report.processor,
            "skipped": report.outcome.is_skipped(),
        })).collect::<Vec<_>>(),
    });
    fs::write(&file, format!("{json:#}\n"))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    let processor: f64 = reports
        .iter()
        .filter_map(|(_, report)| report.processor)
        .sum();
    let covered = format!(
        "{} in {:.0} s, {processor:.0} s of processor time, kept in {}",
        counted(reports.len(), "step"),
        ran.seconds,
        file.display()
    );
    let Some(probe) = probe else {
        return Ok(Outcome::skipped(format!(
            "{covered}: not compared, since this system tells no processor time"
        )));
    };
    if bless {
        return keep(run, ran, probe);
    }
    if !run.root.join(KEPT).exists() {
        let why =
            format!("{covered}: {KEPT} is missing (cargo xtask verify --bless-times writes it)");
        return Ok(Outcome::skipped(why));
    }
    let kept = Memo::read(&run.root).context(KEPT)?;
    let mut slow = kept.slow(reports, probe);
    if !slow.is_empty() {
        // The machine may have been slower then than at the first probe.
        slow = kept.slow(
            reports,
            self::probe().map_or(probe, |again| again.max(probe)),
        );
    }
    if is_ci() || slow.is_empty() {
        return Ok(Outcome::of(reports.len(), covered, &slow));
    }
    Ok(Outcome::ok(format!(
        "{covered}; CI would fail: {}",
        slow.join("; ")
    )))
}

/// Keeps the times of a first run without a failure in the repository.
fn keep(run: &Run, ran: &Ran<'_>, probe: f64) -> Result<Outcome> {
    if !ran.first || ran.failed {
        bail!(
            "times are kept of a first run without a failure: \
             CARGO_TARGET_DIR=$(mktemp -d) cargo xtask verify --bless-times"
        );
    }
    let old = Memo::read(&run.root).unwrap_or_default();
    old.with(ran.reports, probe).write(&run.root)?;
    Ok(Outcome::ok(format!(
        "the times of {} kept in {KEPT}",
        counted(ran.reports.len(), "step")
    )))
}

/// The folder of what `verify` keeps of a run.
pub(super) fn folder(run: &Run) -> PathBuf {
    run.packages.target_folder.join("verify")
}

fn is_ci() -> bool {
    env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false")
}

/// Processor seconds of this process and of those it has waited for, from Linux's `/proc`.
fn processor_seconds() -> Option<f64> {
    seconds_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 14 to 17 of `stat` (`man 5 proc_pid_stat`), in hundredths of a second on every architecture.
fn seconds_in(stat: &str) -> Option<f64> {
    // The second field is the program's name, in parentheses, which may hold spaces and parentheses of its own.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse::<u64>().ok());
    let ticks: Vec<u64> = ticks.collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| ticks.iter().sum::<u64>() as f64 / 100.0)
}

/// Processor seconds of the same work on every core at once, for each core.
fn probe() -> Option<f64> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let before = processor_seconds()?;
    let threads: Vec<_> = (0..cores).map(|_| thread::spawn(work)).collect();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Some((processor_seconds()? - before) / cores as f64)
}

/// Numbers in a tree, and sorted: memory and branches, as compilers and tests have them.
fn work() -> usize {
    let mut state = 1u64;
    let mut tree = BTreeMap::new();
    let mut list = Vec::new();
    for at in 0..200_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        tree.insert(state, at);
        list.push(state);
    }
    list.sort();
    list.iter().filter_map(|number| tree.get(number)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, outcome: Outcome, processor: Option<f64>) -> (&str, Report) {
        let report = Report {
            outcome,
            counts: Vec::new(),
            seconds: 1.0,
            processor,
        };
        (name, report)
    }

    fn time(name: &str, processor: f64) -> (&str, Report) {
        ended(name, Outcome::ok(""), Some(processor))
    }

    fn kept() -> Memo {
        let steps = [("clippy", 60.0), ("book", 1.0)];
        Memo {
            probe: 0.5,
            steps: steps
                .map(|(name, seconds)| (name.to_string(), seconds))
                .into(),
        }
    }

    #[test]
    fn a_step_of_three_times_its_time_is_slow() {
        let (kept, probe) = (kept(), 0.5);
        for fast in [time("clippy", 139.0), time("book", 22.0), time("new", 19.0)] {
            assert_eq!(kept.slow(&[fast], probe), [""; 0]);
        }
        // Three times the time of a long step is also too much for all steps together.
        let slow = kept.slow(&[time("clippy", 201.0)], probe);
        assert_eq!(
            slow[0],
            "clippy took 201.0 s of processor time; 200.0 s are 3 times the 60.0 s of xtask/verify/times.json and 20 s, \
             1.00 times as long on this machine. Where that is meant: cargo xtask verify --bless-times"
        );
        assert_eq!(kept.slow(&[time("book", 24.0)], probe).len(), 2);
        assert!(
            !kept.slow(&[time("new", 21.0)], probe).is_empty(),
            "a step that is not kept has the grace"
        );
    }

    #[test]
    fn steps_that_double_together_are_slow() {
        let (kept, probe) = (kept(), 0.5);
        let steps = |clippy: f64| [time("clippy", clippy), time("book", 2.0)];
        assert_eq!(kept.slow(&steps(139.0), probe), [""; 0]);
        assert_eq!(
            kept.slow(&steps(141.0), probe),
            [
                "all steps together took 143.0 s of processor time; 142.0 s are 2 times the 61.0 s of xtask/verify/times.json and \
                 20 s, 1.00 times as long on this machine. Where that is meant: cargo xtask verify --bless-times"
            ]
        );
    }

    #[test]
    fn a_slow_machine_may_take_longer_and_a_fast_one_need_not_be_faster() {
        let kept = kept();
        assert_eq!(kept.slow(&[time("clippy", 279.0)], 1.0), [""; 0]);
        assert_eq!(kept.slow(&[time("clippy", 281.0)], 1.0).len(), 1);
        assert_eq!(kept.slow(&[time("clippy", 139.0)], 0.1), [""; 0]);
    }

    #[test]
    fn a_system_that_tells_no_processor_time_judges_nothing() {
        let silent = ended("clippy", Outcome::ok(""), None);
        assert_eq!(kept().slow(&[silent], 0.5), [""; 0]);
    }

    #[test]
    fn what_was_skipped_keeps_its_time_at_the_speed_of_the_new_machine() {
        let skipped = ended("clippy", Outcome::skipped("why"), Some(0.0));
        let now = kept().with(&[skipped, time("book", 3.0)], 1.0);
        assert_eq!(
            (now.probe, now.steps["clippy"], now.steps["book"]),
            (1.0, 120.0, 3.0)
        );
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        let root = env::temp_dir().join(format!("colex-times-{}", std::process::id()));
        kept().write(&root).expect("the folder can be written");
        let again = Memo::read(&root).expect("it was just written");
        fs::remove_dir_all(&root).expect("it was just written");
        assert_eq!(again, kept());
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4 1 2 3 4 150 50 1000 300 20 0 1 0 9 9 9";
        assert_eq!(seconds_in(stat), Some(15.0));
        assert_eq!(seconds_in("7 (a) S 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn work_takes_processor_time() {
        let probe = probe().expect("Linux tells processor time");
        assert!(probe > 0.0, "{probe}");
    }
}
