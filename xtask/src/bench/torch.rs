//! PyTorch on the same device, in a process of its own, whose samples take turns with ours.
//!
//! The process reads one question per line and answers each with one line, both in JSON (`gpu/bench/beside_torch.py serve`). Between a
//! question and its answer this process gives the device nothing to do, so that the contenders do not share it.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::device::Contender;

/// A process that runs PyTorch.
pub(super) struct Torch {
    process: Child,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Torch {
    /// Starts the script by `python3`.
    pub(super) fn start(script: &Path) -> Result<Torch> {
        let mut process = Command::new("python3")
            .arg(script)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("python3 cannot be started")?;
        let to = process.stdin.take().context("the process has an input")?;
        let from = process.stdout.take().context("the process has an output")?;
        let torch = Torch {
            process,
            pipes: RefCell::new((to, BufReader::new(from))),
        };
        let hello = torch.ask(&json!({"hello": true}))?;
        println!("beside PyTorch {}", hello["torch"].as_str().unwrap_or("?"));
        Ok(torch)
    }

    fn ask(&self, question: &Value) -> Result<Value> {
        let (to, from) = &mut *self.pipes.borrow_mut();
        writeln!(to, "{question}").context("the process of PyTorch takes no question")?;
        to.flush()?;
        let mut line = String::new();
        from.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line)
            .with_context(|| format!("the process of PyTorch said `{}`", line.trim()))?;
        match answer.get("error") {
            Some(why) => Err(anyhow!("PyTorch: {why}")),
            None => Ok(answer),
        }
    }

    /// Returns PyTorch's contenders for a case: eager, and compiled if it compiles the case.
    pub(super) fn contenders(&self, case: &Value) -> Result<Vec<Contender<'_>>> {
        let answer = self.ask(&json!({"prepare": case}))?;
        let names = answer["names"].as_array().context("there are names")?;
        ensure!(!names.is_empty(), "PyTorch has no way to do {case}");
        let names = names.iter().filter_map(Value::as_str);
        let contenders = names.map(|name| {
            let asked = name.to_string();
            Contender::elsewhere(name, move |batch| {
                let answer = self.ask(&json!({"sample": asked, "batch": batch}))?;
                answer["us"].as_f64().context("a sample has a time")
            })
        });
        Ok(contenders.collect())
    }
}

impl Drop for Torch {
    fn drop(&mut self) {
        // It ends by itself when its input does. Where it hangs, this process is not to wait for it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
