//! Cases in several processes: the driver assembles in all of them at once, and a case that breaks its process, or never
//! ends, does not affect other cases.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The message of a process whose context was lost before its share was done.
pub(super) const BROKEN: u8 = 17;

/// How cases are shared among processes.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Sharing {
    /// How many processes share the GPU, or threads the host; the number of cores if left out.
    #[arg(long)]
    pub(super) processes: Option<usize>,
    /// For the processes themselves: `2/16`, the third of sixteen.
    #[arg(long, hide = true)]
    pub(super) shard: Option<String>,
    /// For the processes themselves: how many of the shard are done.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(super) skip: usize,
}

/// Cases, and how processes of this binary run them.
pub(super) struct SharedCases<'a, T> {
    /// How many there are.
    pub(super) count: usize,
    /// How many processes share them.
    pub(super) processes: usize,
    /// How long one case may take, its process's start and the assembler included.
    pub(super) patience: Duration,
    /// The arguments of the process of a shard, `2/16` for the third of sixteen, and the number of its cases that are done. It prints a
    /// line of JSON for each of the others.
    pub(super) arguments: &'a (dyn Fn(&str, usize) -> Vec<String> + Sync),
    /// What a line says.
    pub(super) parse: &'a (dyn Fn(&str) -> Result<T> + Sync),
    /// The answer for a case whose process ended in this way.
    pub(super) silent: &'a (dyn Fn(usize, String) -> T + Sync),
    /// Told of every case that is done.
    pub(super) done: &'a (dyn Fn(&T) + Sync),
}

/// The part of a list that belongs to a shard, `2/16`, and how far apart its cases are.
pub(super) fn shard(text: &str) -> Result<(usize, usize)> {
    let (index, count) = text.split_once('/').context("a shard is `2/16`")?;
    Ok((index.parse()?, count.parse()?))
}

impl<T: Send> SharedCases<'_, T> {
    /// Runs all of them; the answers in the order of the cases.
    pub(super) fn run(&self) -> Result<Vec<T>> {
        let processes = self.processes.clamp(1, self.count.max(1));
        let answers = Mutex::new(Vec::new());
        let add = |at: usize, answer: T| {
            (self.done)(&answer);
            let mut answers = answers
                .lock()
                .expect("no thread panics while it holds the list");
            answers.push((at, answer));
        };
        std::thread::scope(|scope| {
            let shards: Vec<_> = (0..processes)
                .map(|index| {
                    let mine: Vec<usize> = (index..self.count).step_by(processes).collect();
                    let shard = format!("{index}/{processes}");
                    let add = &add;
                    scope.spawn(move || self.share(&shard, &mine, add))
                })
                .collect();
            let ended = shards
                .into_iter()
                .map(|shard| shard.join().expect("a share does not panic"));
            ended.collect::<Result<Vec<()>>>()
        })?;
        let mut answers = answers.into_inner().expect("the threads are done");
        answers.sort_by_key(|(at, _)| *at);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// One share: started again behind each case that ended its process.
    fn share(&self, shard: &str, mine: &[usize], add: &dyn Fn(usize, T)) -> Result<()> {
        let mut done = 0;
        while done < mine.len() {
            let mut process = self.start(shard, done)?;
            let output = process.stdout.take().context("a process without output")?;
            let before = done;
            let (sender, receiver) = channel();
            let reader = std::thread::spawn(move || read(output, &sender));
            let ended = loop {
                match receiver.recv_timeout(self.patience) {
                    Ok(line) => {
                        let at = mine.get(done).context("a process answers too often")?;
                        add(*at, (self.parse)(&line)?);
                        done += 1;
                    }
                    Err(RecvTimeoutError::Disconnected) => break process.wait()?.to_string(),
                    Err(RecvTimeoutError::Timeout) => {
                        process.kill()?;
                        process.wait()?;
                        break format!("no answer within {} s", self.patience.as_secs());
                    }
                }
            };
            drop(reader.join());
            let status = process.wait()?;
            let told = status.code() == Some(i32::from(BROKEN)) && done > before;
            match mine.get(done) {
                Some(_) if status.code() == Some(1) => bail!("share {shard} could not run"),
                Some(at) if !told => {
                    add(*at, (self.silent)(*at, ended));
                    done += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn start(&self, shard: &str, skip: usize) -> Result<Child> {
        Command::new(std::env::current_exe()?)
            .args((self.arguments)(shard, skip))
            .stdout(Stdio::piped())
            .spawn()
            .context("the process cannot be started")
    }
}

/// Forwards the lines that are answers, and ignores the output of a tool around the process.
fn read(output: ChildStdout, to: &Sender<String>) {
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    for line in lines.filter(|line| line.starts_with('{')) {
        if to.send(line).is_err() {
            return;
        }
    }
}
