//! `cargo xtask`: the tasks of the workspace, one file or folder each.
//!
//! Only `verify` needs cargo (and `bench` to make itself an optimised build), so a release binary does the rest of its
//! work on a machine without Rust.
//!
//! A task ends with 0 if it found nothing wrong, 1 if it did, 2 if its arguments are not understood, 4 if it could not
//! do its work, and 141 if the reader of its output closed the pipe.

#![deny(clippy::print_stdout)]

#[macro_use]
mod output;

mod bench;
mod golden;
mod gpu;
mod verdict;
mod workspace;

#[cfg(feature = "repository")]
mod book;
#[cfg(feature = "repository")]
mod examples;
#[cfg(feature = "repository")]
mod figure;
#[cfg(feature = "repository")]
mod markdown;
#[cfg(feature = "repository")]
mod package;
#[cfg(feature = "repository")]
mod platforms;
#[cfg(feature = "repository")]
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The tasks of the Colex workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    /// Write one JSON object to standard output, the verdict, and text for a reader to standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every check and print one line for each.
    #[cfg(feature = "repository")]
    Verify {
        /// Run the kernels on the GPU too; a machine without one is then a failure.
        #[arg(long)]
        gpu: bool,
        /// Run only the steps whose names contain this.
        #[arg(long)]
        only: Option<String>,
        /// Keep in the repository what the steps of this first run took: later runs are compared with it.
        #[arg(long, conflicts_with = "only")]
        bless_times: bool,
        /// Run the step of this name in this process, as a run does for each of its steps.
        #[arg(long, hide = true, conflicts_with_all = ["only", "bless_times"])]
        step: Option<String>,
    },
    /// Run the laws of kernels over several times as many random cases as `verify` draws, those of layouts over all, and assemble all
    /// kernels.
    #[cfg(feature = "repository")]
    Soak {
        /// How many times as many.
        #[arg(default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
        factor: u32,
    },
    /// Build the book, figures included, and say where it is.
    #[cfg(feature = "repository")]
    Book {
        /// Show it on this machine afterwards, until interrupted.
        #[arg(long)]
        serve: bool,
        /// Write what the programs print into the chapters' `output` blocks.
        #[arg(long)]
        bless: bool,
        /// The port to serve on.
        #[arg(long, default_value_t = 3000, requires = "serve")]
        port: u16,
    },
    /// Check the programs under `examples/`, which use Colex as a program of its users does.
    #[cfg(feature = "repository")]
    Examples {
        /// The folder of one of them; all of them if left out.
        name: Option<String>,
    },
    /// Package the published crates together, and build each from its packaged files.
    #[cfg(feature = "repository")]
    Package,
    /// Check the library for Windows and for Linux on ARM.
    #[cfg(feature = "repository")]
    Platforms,
    /// Compare with cases computed by CuTe: those of the repository, or the files named.
    Golden {
        /// Files of JSON lines, plain or gzipped, or an `atoms.tsv`.
        files: Vec<PathBuf>,
        /// Keep how the repository's cases end as what is known of them.
        #[arg(long, conflicts_with = "files")]
        keep: bool,
    },
    /// Check on a GPU what only a GPU can show.
    Gpu {
        #[command(subcommand)]
        what: gpu::GpuTask,
    },
    /// Measure, and print the medians with how they were taken.
    #[command(after_help = bench::names())]
    Bench {
        /// Which group of benches; all of them if left out.
        name: Option<String>,
        /// Where a bench on a GPU writes its numbers.
        file: Option<PathBuf>,
        #[command(flatten)]
        sweep: bench::Sweep,
    },
}

fn main() -> ExitCode {
    let Arguments { json, task } = Arguments::parse();
    output::end(task.name(), json, || task.run())
}

impl Task {
    /// Its name, as its verdict says it.
    fn name(&self) -> &'static str {
        match self {
            #[cfg(feature = "repository")]
            Task::Verify { .. } => "verify",
            #[cfg(feature = "repository")]
            Task::Soak { .. } => "soak",
            #[cfg(feature = "repository")]
            Task::Book { .. } => "book",
            #[cfg(feature = "repository")]
            Task::Examples { .. } => "examples",
            #[cfg(feature = "repository")]
            Task::Package => "package",
            #[cfg(feature = "repository")]
            Task::Platforms => "platforms",
            Task::Golden { .. } => "golden",
            Task::Gpu { what } => what.name(),
            Task::Bench { .. } => "bench",
        }
    }

    fn run(self) -> Result<ExitCode> {
        match self {
            #[cfg(feature = "repository")]
            Task::Verify {
                gpu,
                only,
                bless_times,
                step,
            } => match step {
                Some(name) => verify::step(gpu, &name),
                None => verify::task(gpu, only.as_deref(), bless_times),
            },
            #[cfg(feature = "repository")]
            Task::Soak { factor } => verify::soak::task(factor),
            #[cfg(feature = "repository")]
            Task::Book { serve, bless, port } => {
                book::task(serve.then_some(port), book::Blessing::of(bless))
            }
            #[cfg(feature = "repository")]
            Task::Examples { name } => examples::task(name.as_deref()),
            #[cfg(feature = "repository")]
            Task::Package => package::task(),
            #[cfg(feature = "repository")]
            Task::Platforms => platforms::task(),
            Task::Golden { files, keep } => golden::task(&files, keep),
            Task::Gpu { what } => gpu::task(&what),
            Task::Bench { name, file, sweep } => {
                bench::task(name.as_deref(), file.as_deref(), &sweep)
            }
        }
    }
}
