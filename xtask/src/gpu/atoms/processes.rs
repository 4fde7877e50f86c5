//! The sweep in several processes.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use colex_proof::sweep::{Record, Subject, Verdict};

use super::super::shares::{BROKEN, SharedCases, shard};
use super::{AtomOptions, cores, one, record};

/// How long one instruction may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// One of the processes: a line for each record of its share.
pub(super) fn child(options: &AtomOptions, of: &str) -> Result<ExitCode> {
    let (index, count) = shard(of)?;
    let device = crate::gpu::device()?;
    let seed = options.seed.context("a process is told its seed")?;
    let subjects = options.subjects();
    let mine = subjects.iter().skip(index).step_by(count);
    for subject in mine.skip(options.sharing.skip) {
        let record = one(subject, &device, seed, options.repeats)?;
        println!("{}", record::line(&record, true));
        if matches!(&record.verdict, Verdict::Refused { by: "hardware", .. }) {
            return Ok(ExitCode::from(BROKEN));
        }
        device.clear_module_cache();
    }
    Ok(ExitCode::SUCCESS)
}

/// All processes; the records in the order of the subjects.
pub(super) fn run(
    options: &AtomOptions,
    seed: u64,
    subjects: &[Subject],
    done: &(dyn Fn(&Record) + Sync),
) -> Result<Vec<Record>> {
    let cases = SharedCases {
        count: subjects.len(),
        processes: options.sharing.processes.unwrap_or_else(cores),
        patience: PATIENCE,
        arguments: &|shard, skip| arguments(options, seed, shard, skip),
        parse: &record::parse,
        silent: &|at, ended| silent(&subjects[at], ended),
        done,
    };
    cases.run()
}

fn arguments(options: &AtomOptions, seed: u64, shard: &str, skip: usize) -> Vec<String> {
    let mut list: Vec<String> = ["gpu", "atoms", "--shard", shard]
        .map(String::from)
        .to_vec();
    let mut option = |name: &str, value: String| list.extend([name.to_string(), value]);
    option("--seed", seed.to_string());
    option("--skip", skip.to_string());
    option("--repeats", options.repeats.to_string());
    option("--every", options.every.to_string());
    for part in &options.filter {
        option("--filter", part.clone());
    }
    list
}

/// The record of an instruction whose process said nothing more.
fn silent(subject: &Subject, ended: String) -> Record {
    Record {
        name: subject.atom(),
        family: "ended its process".to_string(),
        verdict: Verdict::Refused {
            by: "hardware",
            words: ended,
        },
        agreement: Default::default(),
        times: Default::default(),
    }
}
