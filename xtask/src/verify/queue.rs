//! The steps of a run side by side: one that compiles, since cargo locks the target folder, beside those that do not.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::{env, thread};

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::outcome::report::{Report, Said};
use super::progress::Display;
use super::steps::Step;
use super::times::Stopwatch;

/// The steps that have not ended.
struct Queue<'a> {
    /// In the order of the list.
    waiting: Vec<&'a Step>,
    running: Vec<&'a Step>,
    ended: Vec<(&'static str, Report)>,
}

impl<'a> Queue<'a> {
    /// Takes the first step that may start.
    fn take(&mut self) -> Option<&'a Step> {
        let is_open = |name: &&str| {
            let mut open = self.waiting.iter().chain(&self.running);
            open.any(|step| step.name == *name)
        };
        let compiles = self.running.iter().any(|step| step.compiles);
        let at = self
            .waiting
            .iter()
            .position(|step| !(step.after.iter().any(is_open) || step.compiles && compiles))?;
        let step = self.waiting.remove(at);
        self.running.push(step);
        Some(step)
    }

    fn end(&mut self, step: &'a Step, report: Report) {
        self.running.retain(|running| running.name != step.name);
        self.ended.push((step.name, report));
    }
}

/// Runs the steps, as many at a time as there are cores but two at least, and prints a line for each. How they ended,
/// in the order of the list.
pub(super) fn run(steps: &[&Step], gpu: bool) -> Result<Vec<(&'static str, Report)>> {
    let queue = Mutex::new(Queue {
        waiting: steps.to_vec(),
        running: Vec::new(),
        ended: Vec::new(),
    });
    let changed = Condvar::new();
    let display = Display::new();
    let program = env::current_exe().context("this program's own file is not known")?;
    let lock = || -> MutexGuard<'_, Queue<'_>> { queue.lock().expect("no worker panics") };
    let work = || {
        let mut open = lock();
        loop {
            if let Some(step) = open.take() {
                drop(open);
                let mut command = Command::new(&program);
                command.args(["verify", "--step", step.name]);
                command.args(gpu.then_some("--gpu"));
                let report = process(command, step, &display);
                open = lock();
                open.end(step, report);
                changed.notify_all();
            } else if open.waiting.is_empty() {
                break;
            } else {
                open = changed.wait(open).expect("no worker panics");
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores.max(2) {
            scope.spawn(work);
        }
    });
    let mut ended = queue.into_inner().expect("no worker panics").ended;
    let place = |name: &str| steps.iter().position(|step| step.name == name);
    ended.sort_by_key(|(name, _)| place(name));
    Ok(ended)
}

/// Runs a step in a process of its own and prints its line, with the tool's output below it if it failed.
fn process(mut command: Command, step: &Step, display: &Display) -> Report {
    let watch = Stopwatch::start();
    let mut shown = display.begin(step.name);
    let (mut report, mut other) = (None, String::new());
    let mut read = || -> Result<()> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().context("it has no standard error")?;
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            drop(BufReader::new(stderr).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let stdout = child.stdout.take().context("it has no standard output")?;
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            match Said::read(&line) {
                Some(Said::At(what)) => shown.at(what),
                Some(Said::Ended(ended)) => report = Some(ended),
                None => other += &format!("{line}\n"),
            }
        }
        other += &stderr.join().unwrap_or_default();
        other += &child.wait()?.to_string();
        Ok(())
    };
    if let Err(error) = read() {
        other += &format!("{error:#}");
    }
    let report = report.unwrap_or_else(|| Report {
        outcome: Outcome::failed("it ended without an outcome", other),
        counts: Vec::new(),
        seconds: watch.elapsed().as_secs_f64(),
        processor: None,
    });
    shown.finish(&report.outcome.text(step.name, watch.elapsed()));
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::steps;

    fn ok() -> Report {
        Report {
            outcome: Outcome::ok(""),
            counts: Vec::new(),
            seconds: 0.0,
            processor: None,
        }
    }

    /// With any order of ends, nothing waits for ever, two compilations never meet, and nothing starts too early.
    #[test]
    fn every_step_starts_once_and_in_its_turn() {
        let mut cases = 0u64;
        for workers in 1..4 {
            for seed in 0..200usize {
                let mut queue = Queue {
                    waiting: steps::ALL.iter().collect(),
                    running: Vec::new(),
                    ended: Vec::new(),
                };
                let mut state = seed;
                while queue.ended.len() < steps::ALL.len() {
                    while queue.running.len() < workers {
                        let Some(step) = queue.take() else { break };
                        let has_ended =
                            |name: &&str| queue.ended.iter().any(|(ended, _)| ended == name);
                        assert!(step.after.iter().all(has_ended), "{}", step.name);
                        cases += 1;
                    }
                    let compiling = queue.running.iter().filter(|step| step.compiles);
                    assert!(compiling.count() <= 1);
                    assert!(!queue.running.is_empty(), "everything waits");
                    state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
                    let step = queue.running[(state >> 33) % queue.running.len()];
                    queue.end(step, ok());
                }
            }
        }
        println!("law every_step_starts_once_and_in_its_turn: {cases} cases");
    }

    #[test]
    fn a_process_without_an_outcome_has_failed() {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.arg("no-such-command");
        let report = process(command, &steps::ALL[0], &Display::new());
        let Outcome::Failed { covered, output } = report.outcome else {
            panic!("{:?}", report.outcome);
        };
        assert_eq!(covered, "it ended without an outcome");
        assert!(output.contains("no-such-command"), "{output}");
    }
}
