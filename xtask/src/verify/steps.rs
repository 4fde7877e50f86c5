//! The steps of `verify`, in order.

use std::fs;

use anyhow::Result;
use colex_gpu::Device;

use super::outcome::Outcome;
use super::outcome::counts::Counts;
use super::progress::Progress;
use super::{Run, cargo, commands, layers, new_op, packages, ptxas, snapshots, suite, wasm, words};
use crate::{book, golden, gpu, workspace};

type StepCheck = fn(&mut Run, &Progress) -> Result<Outcome>;

/// One check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) check: StepCheck,
    /// Whether cargo compiles for it: only one such step runs at a time, since cargo locks the target folder.
    pub(super) compiles: bool,
    /// The steps that must have ended before it begins.
    pub(super) after: &'static [&'static str],
}

/// A step that only reads what is there.
const fn step(name: &'static str, check: StepCheck) -> Step {
    Step {
        name,
        check,
        compiles: false,
        after: &[],
    }
}

/// A step for which cargo compiles.
const fn build(name: &'static str, check: StepCheck) -> Step {
    Step {
        compiles: true,
        ..step(name, check)
    }
}

impl Step {
    const fn after(self, after: &'static [&'static str]) -> Step {
        Step { after, ..self }
    }
}

/// Every step of a plain run but `times`. Those that compile run in this order; the tests are built first, since what
/// runs them compiles nothing and takes longest.
pub(super) const ALL: &[Step] = &[
    step("format", format),
    build("tests, built", suite::build),
    step("unit and law tests", suite::check).after(&["tests, built"]),
    step("snapshots", snapshots::check).after(&["unit and law tests"]),
    build("rustdoc", rustdoc),
    build("clippy", clippy),
    build("clippy, bare", clippy_bare),
    build("new op", new_op::check),
    build("wasm32", wasm::check),
    build("doctests", doctests).after(&["tests, built"]),
    build("programs", programs).after(&["tests, built"]),
    step("book", book_pages).after(&["rustdoc", "wasm32"]),
    step("browser", browser).after(&["book"]),
    step("chapters", chapters),
    step("golden files", golden_files),
    step("layers", layers::check),
    step("words", words::check),
    step("packages", packages::check),
    step("commands", commands::check),
    step("ptxas", ptxas::rows::check),
    step("ptxas, forms", ptxas::forms::check),
    step("ptxas, kernels", ptxas::kernels::check),
    step("ptxas, atom sweep", ptxas::sweep::check),
    step("targets", targets),
    step("atom sweep", atom_sweep),
    step("gpu", gpu),
    step("gpu, atoms", gpu_atoms).after(&["gpu"]),
    step("gpu, kernels", gpu_kernels).after(&["gpu", "gpu, atoms"]),
];

fn format(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let files = workspace::files(&run.root, ".rs")?.len();
    let done = cargo::run(cargo::command(&run.root, "fmt --all --check"), progress)?;
    Ok(done.judged(format!("{files} files")))
}

fn clippy(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let words = "clippy --workspace --all-targets --all-features -- -D warnings";
    let done = cargo::run(cargo::command(&run.root, words), progress)?;
    Ok(done.judged(format!(
        "{} packages, {} targets and their tests",
        run.packages.all.len(),
        run.packages.targets
    )))
}

/// Features only add, so everything builds without any of them. `xtask` goes by itself: it asks for one of `layout`.
fn clippy_bare(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let covered = format!(
        "{} packages without their default features",
        run.packages.all.len()
    );
    for choice in ["--workspace --exclude xtask", "--package xtask"] {
        let words = format!("clippy --no-default-features {choice} -- -D warnings");
        let done = cargo::run(cargo::command(&run.root, &words), progress)?;
        if !done.ok {
            return Ok(done.judged(covered));
        }
    }
    Ok(Outcome::ok(covered))
}

/// The book is left out: its pages are made of the chapters by other means, and checked there.
///
/// Rustdoc links a re-export to the item's page only where the folder of the item's crate is there, and `cargo doc
/// --no-deps` documents the crates in no order: a crate that comes before the one that it re-exports has no links. So the
/// folders of all crates are made first.
fn rustdoc(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let folder = book::documentation(&run.root);
    for package in &run.packages.all {
        let name = package["name"].as_str().unwrap_or_default();
        fs::create_dir_all(folder.join(name.replace('-', "_")))?;
    }
    let words = "doc --workspace --exclude colex-book --no-deps --all-features";
    let mut command = cargo::command(&run.root, words);
    command.env("RUSTDOCFLAGS", "-D warnings");
    let done = cargo::run(command, progress)?;
    Ok(done.judged(format!(
        "{} packages, warnings denied",
        run.packages.all.len() - 1
    )))
}

/// One run for the libraries and the book: apart, cargo would build what they share twice.
fn doctests(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let words = "test --workspace --all-features --doc";
    let done = cargo::run(cargo::command(&run.root, words), progress)?;
    let counts = Counts::read(&done.stdout);
    let is_of_book = |line: &&str| {
        let is_there = line.starts_with("test book/") && !line.starts_with("test book/explorer/");
        is_there && line.ends_with("... ok")
    };
    let ran = done.stdout.lines().filter(is_of_book).count() as u64;
    let libraries = counts.passed.saturating_sub(ran);
    let covered = format!(
        "{libraries} examples of the libraries, {ran} code blocks of the book and the README"
    );
    run.counted("examples of the libraries", libraries);
    run.counted("code blocks of the book", ran);
    let written = book::rust_blocks(&run.root)?;
    if done.ok && ran != written {
        let why = format!("the chapters and the README hold {written} Rust blocks, but {ran} ran");
        return Ok(Outcome::failed(covered, why));
    }
    Ok(counts.judge(&done, covered))
}

/// The programs of the book, built as the tests are: what they need is there.
fn programs(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let ran = book::run_programs(&run.root, book::Blessing::Compare, |what| progress.at(what))?;
    run.counted("programs of the book", &ran.covered);
    Ok(Outcome::of(ran.count, ran.covered, &ran.complaints))
}

fn chapters(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let report = book::check(&run.root)?;
    Ok(Outcome::of(
        report.count,
        report.covered,
        &report.complaints,
    ))
}

fn book_pages(run: &mut Run, _: &Progress) -> Result<Outcome> {
    if !book::documentation(&run.root)
        .join("colex_gpu/all.html")
        .is_file()
    {
        return Ok(Outcome::failed(
            "no documentation to link to",
            "cargo xtask verify --only rustdoc builds it",
        ));
    }
    let built = book::build(&run.root)?;
    Ok(Outcome::of(built.count, built.covered, &built.complaints))
}

/// The pages that the step before has built, shown to a browser.
fn browser(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let folder = book::folder(&run.root);
    if !folder.join("index.html").is_file() {
        return Ok(Outcome::failed(
            "no pages",
            "the book is not built: cargo xtask book",
        ));
    }
    let Some(program) = book::browser::find() else {
        return Ok(Outcome::skipped(
            "no chromium or google-chrome found to show the pages to",
        ));
    };
    let report = book::browser::check(&program, &folder, |page| progress.at(page))?;
    Ok(Outcome::of(
        report.count,
        report.covered,
        &report.complaints,
    ))
}

fn golden_files(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let files = golden::repository_files(&run.root)?;
    let report = golden::compare(&files, |file| progress.at(file))?;
    let complaints = golden::complaints(&run.root, &report)?;
    run.counted("golden", report.summary());
    Ok(Outcome::of(files.len(), report.summary(), &complaints))
}

/// The atoms on the simulator, compared with what the hardware said of them.
fn atom_sweep(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let compared = gpu::against_recorded(&run.root)?;
    run.counted("atoms on the simulator", &compared.covered);
    Ok(Outcome::of(
        compared.count,
        compared.covered,
        &compared.complaints,
    ))
}

/// The targets, versions of PTX and drivers of the kernels, compared with those that are kept.
fn targets(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let lines = gpu::target_lines()?;
    let complaints = gpu::target_complaints(&run.root, &lines)?;
    let covered = format!(
        "{} kernels with target, PTX and driver, as kept",
        lines.len() - 1
    );
    Ok(Outcome::of(lines.len() - 1, covered, &complaints))
}

fn gpu(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    on_gpu(run, |_, _| {
        let report = gpu::executor_report(|line| progress.at(line))?;
        let covered = format!("{} checks of the executor on {}", report.ran, report.device);
        Ok(Outcome::of(report.ran, covered, &report.failures))
    })
}

/// Every atom on the device.
fn gpu_atoms(run: &mut Run, _: &Progress) -> Result<Outcome> {
    on_gpu(run, |run, _| {
        let swept = gpu::atoms_on_gpu(&run.root)?;
        Ok(Outcome::of(swept.count, swept.covered, &swept.complaints))
    })
}

/// The kernel library on the device, but for its large cases: they are for `xtask gpu kernels`, optimised.
fn gpu_kernels(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    on_gpu(run, |_, device| {
        let cases = (gpu::Cases::Small, "");
        let report = gpu::kernels_report(device, cases, |line| progress.at(line))?;
        let covered = format!("{} checks of kernels on {}", report.ran, report.device);
        Ok(Outcome::of(report.ran, covered, &report.failures))
    })
}

/// Runs a check on the GPU. On a machine without one the step is skipped, and with `--gpu` that is a failure.
fn on_gpu(run: &Run, check: impl FnOnce(&Run, &Device) -> Result<Outcome>) -> Result<Outcome> {
    match gpu::device() {
        Ok(device) => check(run, &device),
        Err(why) => Ok(without_gpu(run.gpu, &why.to_string())),
    }
}

/// The outcome on a machine without a GPU.
fn without_gpu(required: bool, why: &str) -> Outcome {
    if required {
        Outcome::failed("no GPU", why)
    } else {
        Outcome::skipped(format!("no GPU ({why})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_for_steps_before_it() {
        for (at, step) in ALL.iter().enumerate() {
            for name in step.after {
                let is_before = ALL[..at].iter().any(|before| before.name == *name);
                assert!(is_before, "{} waits for {name}", step.name);
            }
        }
    }

    #[test]
    fn a_missing_gpu_is_a_failure_only_where_one_was_asked_for() {
        let skipped = Outcome::skipped("no GPU (no driver)");
        assert_eq!(without_gpu(false, "no driver"), skipped);
        assert_eq!(
            without_gpu(true, "no driver"),
            Outcome::failed("no GPU", "no driver")
        );
    }
}
