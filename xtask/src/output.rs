//! The standard output of a task: lines for a reader, or with `--json` one verdict for a program.
//!
//! The macros `println!` and `print!` of this crate write through [`text`]. With `--json` the text goes to standard
//! error, so that standard output holds the verdict alone. A reader that closes the pipe ends the task without a message.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

use crate::verdict;

/// The exit code of a task that found something wrong.
pub(crate) const FAILED: u8 = 1;

/// The exit code of a task that could not do its work. The parser of arguments has 2.
const COULD_NOT_RUN: u8 = 4;

/// The exit code of a task whose reader closed the pipe: 128 + 13, as a shell reports of a program that SIGPIPE ended.
const READER_GONE: i32 = 141;

static IS_FOR_PROGRAMS: AtomicBool = AtomicBool::new(false);

macro_rules! print {
    ($($text:tt)*) => { $crate::output::text(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::text(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::text(format_args!("{}\n", format_args!($($text)*))) };
}

/// Whether standard output holds the verdict alone.
pub(crate) fn is_for_programs() -> bool {
    IS_FOR_PROGRAMS.load(Ordering::Relaxed)
}

/// Writes text for a reader.
pub(crate) fn text(text: Arguments<'_>) {
    if cfg!(test) {
        // The test harness captures what goes through the standard macro.
        #[expect(clippy::print_stdout, reason = "the one place that writes for tests")]
        return std::print!("{text}");
    }
    let written = if is_for_programs() {
        io::stderr().write_fmt(text)
    } else {
        io::stdout().write_fmt(text)
    };
    or_end(written);
}

/// Ends the process where the reader has closed the pipe, or the text cannot be written.
fn or_end(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(READER_GONE),
        Err(error) => {
            drop(writeln!(
                io::stderr(),
                "error: the output cannot be written: {error}"
            ));
            std::process::exit(i32::from(COULD_NOT_RUN));
        }
    }
}

/// How a task that found nothing wrong ends, or one that did.
pub(crate) fn code(is_fine: bool) -> ExitCode {
    ExitCode::from(if is_fine { 0 } else { FAILED })
}

/// Runs a task and returns its exit code; with `json`, writes its verdict to standard output.
pub(crate) fn end(command: &str, json: bool, task: impl FnOnce() -> Result<ExitCode>) -> ExitCode {
    IS_FOR_PROGRAMS.store(json, Ordering::Relaxed);
    let done = task();
    if let Err(error) = &done {
        complain(format_args!("{error:#}"));
    }
    if json {
        let ended = done.as_ref().map(|code| *code == ExitCode::SUCCESS);
        or_end(writeln!(io::stdout(), "{}", verdict::of(command, ended)));
    }
    done.unwrap_or(ExitCode::from(COULD_NOT_RUN))
}

fn complain(what: impl Display) {
    // Where standard error is closed too, there is no place left to say so.
    drop(writeln!(io::stderr(), "error: {what}"));
}
