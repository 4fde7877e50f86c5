//! Builds the programs, runs each, and compares what it prints with what the chapters show.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use super::chapter::{self, Output};
use super::sections;
use super::source::{self, Programs};
use crate::book::BookReport;
use crate::book::chapters::Chapters;
use crate::workspace::{self, counted};

/// How long a program may run. Attention takes 20 s of processor time, and a machine that builds beside it gives it a third.
const LIMIT: Duration = Duration::from_secs(240);

/// Whether outputs that differ are written into the chapters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Blessing {
    /// They are complaints.
    Compare,
    /// They are written.
    Write,
}

impl Blessing {
    /// Whether `--bless` was given.
    pub(crate) fn of(is_given: bool) -> Blessing {
        if is_given {
            Blessing::Write
        } else {
            Blessing::Compare
        }
    }
}

/// Builds and runs every program; `at` is told its name first.
pub(crate) fn check(
    root: &Path,
    blessing: Blessing,
    mut at: impl FnMut(&str),
) -> Result<BookReport> {
    let programs = Programs::read(root)?;
    at("cargo build --examples");
    let built = build(root)?;
    let mut printed = BTreeMap::new();
    let mut complaints = Vec::new();
    for name in programs.names() {
        at(name);
        let example = source::example(name);
        let binary = built
            .get(&example)
            .with_context(|| format!("cargo built no example {example}"))?;
        match run(Command::new(binary).current_dir(root), LIMIT) {
            Ok(text) => drop(printed.insert(name.to_string(), text)),
            Err(why) => complaints.push(format!("book/examples/{name}.rs {why}")),
        }
    }
    let mut compared = Compared::new(&printed, &mut complaints);
    let chapters = Chapters::read(root)?;
    for file in &chapters.files {
        let path = chapters.folder.join(file);
        let text = workspace::read(&path)?;
        let edits = compared.chapter(file, &text, blessing);
        if !edits.is_empty() {
            fs::write(&path, edited(text, edits))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    let outputs = compared.outputs;
    complaints.extend(compared.unseen());
    let count = printed.len();
    let covered = format!(
        "{} ran, {} compared",
        counted(count, "program"),
        counted(outputs, "output")
    );
    Ok(BookReport {
        covered,
        count,
        complaints,
    })
}

/// Builds the examples as the tests are built, so that they share what they need; where each lies, by name.
fn build(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["build", "--workspace", "--all-features", "--examples"])
        .args(["--message-format", "json-render-diagnostics"])
        .output()
        .context("cargo cannot be started: the programs need the Rust toolchain")?;
    if !output.status.success() {
        bail!(
            "the programs do not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok());
    Ok(messages.filter_map(|message| example(&message)).collect())
}

/// The name and the binary of an example that cargo reports.
fn example(message: &Json) -> Option<(String, PathBuf)> {
    let is_example = message["target"]["kind"]
        .as_array()?
        .iter()
        .any(|kind| kind == "example");
    let binary = message["executable"].as_str().filter(|_| is_example)?;
    Some((
        message["target"]["name"].as_str()?.to_string(),
        PathBuf::from(binary),
    ))
}

/// What a command printed; or why it has no answer.
fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|error| format!("cannot be started: {error}"))?;
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let status = wait(&mut child, limit);
    let [stdout, stderr] =
        [stdout, stderr].map(|text| text.join().expect("a reader does not panic"));
    match status? {
        status if status.success() => Ok(stdout),
        status => Err(format!("ended with {status}:\n{stderr}")),
    }
}

fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus, String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(|error| format!("cannot be ended: {error}"))?;
                return Err(format!("had not ended after {} seconds", limit.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

/// Reads a stream to its end, beside the other.
fn reader(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before an error is shown.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The comparison of what was printed with what is shown.
struct Compared<'a> {
    /// By program and section.
    printed: BTreeMap<(&'a str, &'a str), String>,
    seen: BTreeSet<(String, String)>,
    outputs: usize,
    complaints: Vec<String>,
    /// Programs that did not end well: nothing is said of their outputs.
    ran: BTreeSet<&'a str>,
}

impl<'a> Compared<'a> {
    fn new(printed: &'a BTreeMap<String, String>, complaints: &mut Vec<String>) -> Compared<'a> {
        let mut compared = Compared {
            printed: BTreeMap::new(),
            seen: BTreeSet::new(),
            outputs: 0,
            complaints: Vec::new(),
            ran: BTreeSet::new(),
        };
        for (program, text) in printed {
            match sections::sections(text) {
                Ok(sections) => {
                    compared.ran.insert(program);
                    let sections = sections
                        .into_iter()
                        .map(|(name, text)| ((program.as_str(), name), text));
                    compared.printed.extend(sections);
                }
                Err(what) => complaints.push(format!("book/examples/{program}.rs {what}")),
            }
        }
        compared
    }

    /// Compares the outputs of a chapter; gives what is to be written where.
    fn chapter(
        &mut self,
        file: &str,
        text: &str,
        blessing: Blessing,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits = Vec::new();
        for shown in chapter::read(text, file).shown {
            let (program, name) = (shown.program.as_str(), shown.name.as_str());
            let Some(output) = shown.output.filter(|_| self.ran.contains(program)) else {
                continue;
            };
            self.outputs += 1;
            self.seen.insert((program.to_string(), name.to_string()));
            let place = format!("book/chapters/{file}:{}", output.line);
            match self.printed.get(&(program, name)) {
                None => self.complaints.push(format!(
                    "{place}: book/examples/{program}.rs prints no line `== {name} ==`"
                )),
                Some(printed) if *printed == output.body => {}
                Some(printed) if blessing == Blessing::Write => {
                    edits.push((output.range.clone(), fence(printed)))
                }
                Some(printed) => self.complaints.push(difference(&place, &output, printed)),
            }
        }
        edits
    }

    /// All complaints, with one for each section that no chapter shows.
    fn unseen(mut self) -> Vec<String> {
        for (program, name) in self.printed.keys() {
            if !self.seen.contains(&(program.to_string(), name.to_string())) {
                self.complaints.push(format!(
                    "book/examples/{program}.rs prints the section `{name}`, and no `output` block shows it"
                ));
            }
        }
        self.complaints
    }
}

fn difference(place: &str, output: &Output, printed: &str) -> String {
    format!(
        "{place}: the program prints something else (`cargo xtask book --bless` writes it here).\nThe chapter shows:\n{}The program prints:\n{printed}",
        output.body
    )
}

/// An `output` fence around `printed`; longer than any row of backticks in it.
fn fence(printed: &str) -> String {
    let mut marks = "```".to_string();
    while printed.contains(&marks) {
        marks.push('`');
    }
    format!("{marks}output\n{printed}{marks}\n")
}

/// `text` with its `edits`, which are in order.
fn edited(mut text: String, edits: Vec<(Range<usize>, String)>) -> String {
    for (range, fence) in edits.into_iter().rev() {
        // The range of a fence may leave out the end of its last line.
        let end = if text[range.clone()].ends_with('\n') {
            range.end
        } else {
            (range.end + 1).min(text.len())
        };
        text.replace_range(range.start..end, &fence);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAPTER: &str = "# A\n\n```program\n{{#include ../../examples/layout/a.rs:p}}\n```\n\n```output\n1\n```\n\nText.\n";

    fn compare(printed: &str, blessing: Blessing) -> (Vec<(Range<usize>, String)>, Vec<String>) {
        let printed = BTreeMap::from([("layout/a".to_string(), printed.to_string())]);
        let mut complaints = Vec::new();
        let mut compared = Compared::new(&printed, &mut complaints);
        let edits = compared.chapter("layout/a.md", CHAPTER, blessing);
        complaints.extend(compared.unseen());
        (edits, complaints)
    }

    fn complaints(printed: &str) -> Vec<String> {
        let (edits, complaints) = compare(printed, Blessing::Compare);
        assert_eq!(edits, []);
        complaints
    }

    #[test]
    fn an_output_is_what_is_printed() {
        assert_eq!(complaints("== p ==\n1\n\n"), Vec::<String>::new());
        assert_eq!(
            complaints("== p ==\n2\n"),
            [
                "book/chapters/layout/a.md:7: the program prints something else (`cargo xtask book --bless` writes it here).\n\
              The chapter shows:\n1\nThe program prints:\n2\n"
            ]
        );
    }

    #[test]
    fn a_section_has_its_output_and_an_output_its_section() {
        assert_eq!(
            complaints("== q ==\n1\n"),
            [
                "book/chapters/layout/a.md:7: book/examples/layout/a.rs prints no line `== p ==`",
                "book/examples/layout/a.rs prints the section `q`, and no `output` block shows it",
            ]
        );
        assert_eq!(
            complaints("1\n"),
            [
                "book/examples/layout/a.rs prints `1` before the first line of the form `== PIECE ==`"
            ]
        );
    }

    #[test]
    fn a_blessed_output_is_written_into_the_chapter() {
        let (edits, complaints) = compare("== p ==\n2\n```\n", Blessing::Write);
        assert_eq!(complaints, Vec::<String>::new());
        let text = edited(CHAPTER.to_string(), edits);
        assert_eq!(
            text,
            CHAPTER.replace("```output\n1\n```", "````output\n2\n```\n````")
        );
        assert_eq!(chapter::read(&text, "layout/a.md").complaints, []);
    }

    #[test]
    fn a_program_that_hangs_or_fails_is_named() {
        let started = Instant::now();
        let hung = run(Command::new("sleep").arg("30"), Duration::from_secs(0));
        assert_eq!(hung, Err("had not ended after 0 seconds".to_string()));
        assert!(started.elapsed() < Duration::from_secs(20));
        let failed = run(
            Command::new("cargo").arg("no-such-command"),
            Duration::from_secs(20),
        );
        let what = failed.expect_err("cargo has no such command");
        assert!(what.starts_with("ended with exit status: 101:\n"), "{what}");
    }

    #[test]
    fn cargo_says_where_an_example_lies() {
        let message = |kind: &str| serde_json::json!({"target": {"kind": [kind], "name": "a"}, "executable": "/t/a"});
        assert_eq!(
            example(&message("example")),
            Some(("a".to_string(), PathBuf::from("/t/a")))
        );
        assert_eq!(example(&message("bin")), None);
    }
}
