//! `cargo xtask book`: the chapters, their figures and formulas, as pages that work offline.

mod api;
pub(crate) mod browser;
mod cells;
mod chapters;
mod drawings;
pub(crate) mod explorer;
mod math;
mod pages;
mod preprocess;
mod programs;
mod serve;
mod server;
mod swap;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use mdbook_driver::MDBook;
use mdbook_driver::builtin_preprocessors::LinkPreprocessor;

use crate::figure;
use crate::markdown::{self, Fence};
use crate::workspace::{self, counted};
use chapters::{Chapters, examples, links, names, outsider, terms};
pub(crate) use programs::Blessing;

/// What a check of the book covered and found.
pub(crate) struct BookReport {
    /// The counts, as a phrase.
    pub(crate) covered: String,
    /// How many chapters or pages there are.
    pub(crate) count: usize,
    /// A sentence for each thing that is wrong, with its file and line.
    pub(crate) complaints: Vec<String>,
}

/// Runs the programs and builds the book, and says where it is; with a port, serves it there.
pub(crate) fn task(port: Option<u16>, blessing: Blessing) -> Result<ExitCode> {
    let root = workspace::root()?;
    let ran = run_programs(&root, blessing, |_| ())?;
    if !ran.complaints.is_empty() {
        bail!(
            "the programs of the book have mistakes:\n{}",
            ran.complaints.join("\n")
        );
    }
    println!("{}", ran.covered);
    let built = build(&root)?;
    if !built.complaints.is_empty() {
        bail!("the book has mistakes:\n{}", built.complaints.join("\n"));
    }
    println!("{}", built.covered);
    println!(
        "the book is at {}",
        folder(&root).join("index.html").display()
    );
    if let Some(port) = port {
        serve::forever(&folder(&root), port)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the pages are.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("book/build")
}

/// Where `cargo doc` builds the documentation of the library.
pub(crate) fn documentation(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(target.unwrap_or_else(|| "target".into()))
        .join("doc")
}

/// Builds and runs the programs of the book, and compares what they print with the chapters; `at` is told the name of each.
pub(crate) fn run_programs(
    root: &Path,
    blessing: Blessing,
    at: impl FnMut(&str),
) -> Result<BookReport> {
    programs::run(root, blessing, at)
}

/// Builds the pages aside, checks what became of them, and puts them in the place of the old ones at once: a reader finds
/// a page of either book, and never half of one.
pub(crate) fn build(root: &Path) -> Result<BookReport> {
    let aside = swap::Aside::in_folder(&root.join("book"));
    let mut book = MDBook::load(root.join("book")).context("the book cannot be loaded")?;
    book.config.build.build_dir = aside.folder().to_path_buf();
    let drawings = drawings::Drawings::default();
    let api = api::Api::read(&documentation(root))?.map(Arc::new);
    book.with_preprocessor(programs::Included::new(root, drawings.clone())?)
        .with_preprocessor(preprocess::Drawn {
            drawings: drawings.clone(),
            api: api.clone(),
            root: root.to_path_buf(),
            has_module: explorer::has_module()?,
        })
        .with_preprocessor(LinkPreprocessor::new());
    book.build()?;
    drawings.put_back(aside.folder())?;
    if let Some(api) = &api {
        api.copy(&aside.folder().join("api"))?;
    }
    let module = explorer::place(root, aside.folder())?;
    let mut report = pages::check(aside.folder())?;
    report.covered = format!("{}, {module}", report.covered);
    if api.is_none() {
        report.covered += ", without the documentation of the library, which `cargo xtask verify --only rustdoc` builds";
    }
    aside.replace(&folder(root))?;
    Ok(report)
}

/// Checks the chapters' text: the list of chapters, the code blocks, the figures, the formulas, the links.
pub(crate) fn check(root: &Path) -> Result<BookReport> {
    let chapters = Chapters::read(root)?;
    let mut complaints = chapters.complaints();
    let (mut blocks, mut figures, mut formulas) = (0, 0, 0);
    for chapter in &chapters.files {
        let path = chapters.folder.join(chapter);
        let parts = markdown::parts(&workspace::read(&path)?);
        let place = |line: usize| format!("{}:{line}", workspace::shown(root, &path));
        for fence in &parts.fences {
            complaints.extend(
                fence_complaint(fence).map(|what| format!("{}: {what}", place(fence.line))),
            );
            blocks += usize::from(fence.is_rust());
            figures += usize::from(fence.figure_kind().is_some());
        }
        complaints.extend(parts.stray_dollars.iter().map(|line| {
            let what = "a `$` opens no formula: does it close, and do its braces balance?";
            format!("{}: {what}", place(*line))
        }));
        complaints.extend(parts.stray_delimiters.iter().map(|line| {
            let what = "`\\(` and `\\[` delimit no formula: write `$`";
            format!("{}: {what}", place(*line))
        }));
        for formula in &parts.formulas {
            complaints.extend(
                math::mathml(formula)
                    .err()
                    .map(|what| format!("{}: {what}", place(formula.line))),
            );
            formulas += 1;
        }
    }
    let pieces = programs::check(root, &chapters, &mut complaints)?;
    outsider::check(root, &mut complaints)?;
    let links = links::check(root, &chapters, &mut complaints)?;
    let examples = examples::check(root, &chapters, &mut complaints)?;
    let names = names::check(root, &chapters, &mut complaints)?;
    let terms = terms::check(&chapters, &mut complaints)?;
    let counts = [
        counted(blocks, "code block"),
        counted(pieces, "included piece"),
        counted(figures, "figure"),
        counted(formulas, "formula"),
        counted(links, "link"),
        counted(examples, "marked example"),
        counted(names, "name"),
        counted(terms, "term"),
    ];
    let covered = format!(
        "{}: {}",
        counted(chapters.files.len(), "chapter"),
        counts.join(", ")
    );
    Ok(BookReport {
        covered,
        count: chapters.files.len(),
        complaints,
    })
}

/// Why a chapter may not hold this block.
fn fence_complaint(fence: &Fence) -> Option<String> {
    match fence.figure_kind() {
        Some(kind) => figure::draw(kind, &fence.body)
            .err()
            .map(|error| error.to_string()),
        None => fence.complaint(),
    }
}

/// How many Rust blocks the book's crate must run: those of the chapters and of the README.
pub(crate) fn rust_blocks(root: &Path) -> Result<u64> {
    let chapters = Chapters::read(root)?;
    let mut blocks = 0;
    for path in chapters.paths().chain([root.join("README.md")]) {
        let fences = markdown::parts(&workspace::read(&path)?).fences;
        blocks += fences.iter().filter(|fence| fence.is_rust()).count() as u64;
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_book_has_no_mistakes() {
        let root = workspace::root().expect("the test runs in the repository");
        let report = check(&root).expect("the chapters can be read");
        assert_eq!(report.complaints, Vec::<String>::new());
    }
}
