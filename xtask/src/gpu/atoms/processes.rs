//! The sweep in several processes: the driver assembles in each at the same time, and an instruction that breaks its
//! process, or never ends, takes no other with it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use colex_gpu::sweep::{Record, Subject, Verdict};

use super::{Options, cores, one, record};

/// What a process says when its context was lost and there is more to do.
const BROKEN: u8 = 3;

/// How long one instruction may take, its process's start and the assembler included.
const PATIENCE: Duration = Duration::from_secs(90);

/// One of the processes: a line for each record of its share.
pub(super) fn child(options: &Options, shard: &str) -> Result<ExitCode> {
    let (index, count) = shard.split_once('/').context("a shard is `2/16`")?;
    let device = crate::gpu::device()?;
    let seed = options.seed.context("a process is told its seed")?;
    let subjects = options.subjects();
    let mine = subjects.iter().skip(index.parse()?).step_by(count.parse()?);
    for subject in mine.skip(options.skip) {
        let record = one(subject, &device, seed, options.repeats)?;
        println!("{}", record::line(&record, true));
        if matches!(&record.verdict, Verdict::Refused { by: "hardware", .. }) {
            return Ok(ExitCode::from(BROKEN));
        }
        device.forget_modules();
    }
    Ok(ExitCode::SUCCESS)
}

/// All processes; the records in the order of the subjects.
pub(super) fn run(
    options: &Options,
    seed: u64,
    subjects: &[Subject],
    done: &(dyn Fn(&Record) + Sync),
) -> Result<Vec<Record>> {
    let count = options
        .processes
        .unwrap_or_else(cores)
        .clamp(1, subjects.len());
    let records = Mutex::new(Vec::new());
    let add = |at: usize, record: Record| {
        done(&record);
        let mut records = records
            .lock()
            .expect("nobody panics while it holds the list");
        records.push((at, record));
    };
    std::thread::scope(|scope| {
        let shards: Vec<_> = (0..count)
            .map(|index| {
                let mine: Vec<(usize, &Subject)> = subjects
                    .iter()
                    .enumerate()
                    .skip(index)
                    .step_by(count)
                    .collect();
                let shard = format!("{index}/{count}");
                let add = &add;
                scope.spawn(move || share(options, seed, &shard, &mine, add))
            })
            .collect();
        let ended = shards
            .into_iter()
            .map(|shard| shard.join().expect("a share does not panic"));
        ended.collect::<Result<Vec<()>>>()
    })?;
    let mut records = records.into_inner().expect("the threads are done");
    records.sort_by_key(|(at, _)| *at);
    Ok(records.into_iter().map(|(_, record)| record).collect())
}

/// One share: started again behind each instruction that ended its process.
fn share(
    options: &Options,
    seed: u64,
    shard: &str,
    mine: &[(usize, &Subject)],
    add: &dyn Fn(usize, Record),
) -> Result<()> {
    let mut done = 0;
    while done < mine.len() {
        let mut process = start(options, seed, shard, done)?;
        let output = process.stdout.take().context("a process without output")?;
        let before = done;
        let (sender, receiver) = channel();
        let reader = std::thread::spawn(move || read(output, &sender));
        let ended = loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(line) => {
                    add(mine[done].0, record::parse(&line)?);
                    done += 1;
                }
                Err(RecvTimeoutError::Disconnected) => break process.wait()?.to_string(),
                Err(RecvTimeoutError::Timeout) => {
                    process.kill()?;
                    process.wait()?;
                    break format!("no answer within {} s", PATIENCE.as_secs());
                }
            }
        };
        drop(reader.join());
        let status = process.wait()?;
        let told = status.code() == Some(i32::from(BROKEN)) && done > before;
        match mine.get(done) {
            Some(_) if status.code() == Some(1) => bail!("share {shard} could not run"),
            Some((at, subject)) if !told => {
                add(*at, silent(subject, ended));
                done += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

fn start(options: &Options, seed: u64, shard: &str, skip: usize) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["gpu", "atoms", "--shard", shard]);
    command.args(["--seed", &seed.to_string(), "--skip", &skip.to_string()]);
    command.args(["--repeats", &options.repeats.to_string()]);
    command.args(["--every", &options.every.to_string()]);
    for part in &options.filter {
        command.args(["--filter", part]);
    }
    command
        .stdout(Stdio::piped())
        .spawn()
        .context("the process cannot be started")
}

/// Hands on the lines that are records; what a tool around the process says is not ours.
fn read(output: ChildStdout, to: &Sender<String>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for line in lines.filter(|line| line.starts_with('{')) {
        if to.send(line).is_err() {
            return;
        }
    }
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
