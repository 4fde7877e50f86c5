//! The processor time of the steps, and the check that no step takes more than twice its recorded time.
//!
//! The clock says little: it doubles when another program runs, and it halves on four cores. What is compared is the
//! processor time of a step and of the programs that it started, with that of a first run in an empty target folder on
//! the machine that wrote `xtask/verify/times.json`. A probe, the same work each time on every core at once, says how
//! much slower this machine is than that one, now; a step may take that much longer. A faster machine gains nothing,
//! since the probe would then have to be as unoptimised as it was. A later run builds less and stays far below.
//! Only CI fails, so that a laptop on battery, or one whose settings make builds heavier, does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};

use super::Run;
use super::outcome::Outcome;
use super::progress::Progress;
use crate::workspace::{counted, read};

/// Where the times of a first run are kept, in the repository.
const KEPT: &str = "xtask/verify/times.json";

/// What a step may take beside twice its time: short steps vary more. It is all that a step has that is not kept.
const GRACE: f64 = 20.0;

/// What one step took.
#[derive(Clone, Debug)]
pub(super) struct Time {
    name: &'static str,
    seconds: f64,
    /// Of the step and of the programs it started; none where the system does not tell.
    processor: Option<f64>,
    skipped: bool,
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

    /// What the step took until now.
    pub(super) fn stop(&self, name: &'static str, outcome: &Outcome) -> Time {
        let now = processor_seconds();
        Time {
            name,
            seconds: self.elapsed().as_secs_f64(),
            processor: self
                .processor
                .zip(now)
                .map(|(before, after)| after - before),
            skipped: matches!(outcome, Outcome::Skipped { .. }),
        }
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

    /// The steps that took more than twice their time and the grace, where the probe takes `probe` seconds.
    fn slow(&self, times: &[Time], probe: f64) -> Vec<String> {
        let slower = (probe / self.probe).max(1.0);
        let judged = |time: &Time| {
            let took = time.processor?;
            let kept = self.steps.get(time.name).copied().unwrap_or(0.0);
            let may = (2.0 * kept + GRACE) * slower;
            (took > may).then(|| {
                format!(
                    "{} took {took:.1} s of processor time; {may:.1} s are twice the {kept:.1} s of {KEPT} and {GRACE} s, \
                     {slower:.2} times as long on this machine. Where that is meant: cargo xtask verify --bless-times",
                    time.name
                )
            })
        };
        times.iter().filter_map(judged).collect()
    }

    /// With the times of a run in place of the old ones; what was skipped keeps its time.
    fn with(mut self, times: &[Time], probe: f64) -> Memo {
        let slower = if self.probe > 0.0 {
            probe / self.probe
        } else {
            1.0
        };
        self.steps
            .values_mut()
            .for_each(|seconds| *seconds *= slower);
        self.probe = probe;
        for time in times.iter().filter(|time| !time.skipped) {
            self.steps.extend(
                time.processor
                    .map(|seconds| (time.name.to_string(), seconds)),
            );
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

/// Prints what the run took, keeps it in a file, and compares it.
pub(super) fn check(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let times = &run.times;
    let probe = probe();
    let sum = |of: fn(&Time) -> f64| times.iter().map(of).sum::<f64>();
    let seconds = sum(|time| time.seconds);
    let file = folder(run).join("times.json");
    let json = json!({
        "first run in this target folder": run.first,
        "probe": probe,
        "seconds": seconds,
        "counts": run.counts.iter().map(|(name, count)| json!([name, count])).collect::<Vec<_>>(),
        "steps": times.iter().map(|time| json!({
            "name": time.name,
            "seconds": time.seconds,
            "processor seconds": time.processor,
            "skipped": time.skipped,
        })).collect::<Vec<_>>(),
    });
    fs::create_dir_all(folder(run))?;
    fs::write(&file, format!("{json:#}\n"))
        .with_context(|| format!("{} cannot be written", file.display()))?;
    let processor = sum(|time| time.processor.unwrap_or(0.0));
    let covered = format!(
        "{} in {seconds:.0} s, {processor:.0} s of processor time, kept in {}",
        counted(times.len(), "step"),
        file.display()
    );
    let Some(probe) = probe else {
        return Ok(Outcome::skipped(format!(
            "{covered}: not compared, since this system tells no processor time"
        )));
    };
    if run.bless {
        return bless(run, probe);
    }
    if !run.root.join(KEPT).exists() {
        let why =
            format!("{covered}: {KEPT} is missing (cargo xtask verify --bless-times writes it)");
        return Ok(Outcome::skipped(why));
    }
    let kept = Memo::read(&run.root).context(KEPT)?;
    let mut slow = kept.slow(times, probe);
    if !slow.is_empty() {
        // The machine may have been slower then than at the first probe.
        slow = kept.slow(times, self::probe().map_or(probe, |again| again.max(probe)));
    }
    if is_ci() || slow.is_empty() {
        return Ok(Outcome::of(times.len(), covered, &slow));
    }
    Ok(Outcome::ok(format!(
        "{covered}; CI would fail: {}",
        slow.join("; ")
    )))
}

/// Keeps the times of a first run without a failure in the repository.
fn bless(run: &Run, probe: f64) -> Result<Outcome> {
    if !run.first || run.failed {
        bail!(
            "times are kept of a first run without a failure: \
             CARGO_TARGET_DIR=$(mktemp -d) cargo xtask verify --bless-times"
        );
    }
    let old = Memo::read(&run.root).unwrap_or_default();
    old.with(&run.times, probe).write(&run.root)?;
    Ok(Outcome::ok(format!(
        "the times of {} kept in {KEPT}",
        counted(run.times.len(), "step")
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

    fn time(name: &'static str, processor: f64) -> Time {
        Time {
            name,
            seconds: 1.0,
            processor: Some(processor),
            skipped: false,
        }
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
    fn a_step_that_doubles_is_slow() {
        let (kept, probe) = (kept(), 0.5);
        assert_eq!(
            kept.slow(
                &[time("clippy", 139.0), time("book", 21.0), time("new", 19.0)],
                probe
            ),
            [""; 0]
        );
        assert_eq!(
            kept.slow(&[time("clippy", 141.0)], probe),
            [
                "clippy took 141.0 s of processor time; 140.0 s are twice the 60.0 s of xtask/verify/times.json and 20 s, \
              1.00 times as long on this machine. Where that is meant: cargo xtask verify --bless-times"
            ]
        );
        assert_eq!(kept.slow(&[time("book", 23.0)], probe).len(), 1);
        assert_eq!(
            kept.slow(&[time("new", 21.0)], probe).len(),
            1,
            "a step that is not kept has the grace"
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
        let silent = Time {
            processor: None,
            ..time("clippy", 0.0)
        };
        assert_eq!(kept().slow(&[silent], 0.5), [""; 0]);
    }

    #[test]
    fn what_was_skipped_keeps_its_time_at_the_speed_of_the_new_machine() {
        let skipped = Time {
            skipped: true,
            ..time("clippy", 0.0)
        };
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
