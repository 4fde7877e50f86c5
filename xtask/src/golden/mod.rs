//! `cargo xtask golden [FILE..]`: our operations against the results of CuTe itself.
//!
//! A file holds one case per line: an operation, its arguments, and what CuTe gave. Each case ends in a [`Verdict`]:
//! the law first, then the text.
//!
//! # Adding a family of operations
//!
//! 1. Write `golden/FAMILY.rs` (or a folder, as `golden/layout` is) with `const OPS: &[Op]`, one row per operation: its
//!    name in the files, and a function of the [`Case`]. Where the result is one value, [`Op::judged`] takes our answer
//!    or the sentence of our error, and the rules of `golden/judge.rs` do the rest; the law, if there is one, is found
//!    by name in `golden/law`. Where it is a record of fields, [`Op::own`] compares them itself and fails with the
//!    field that differs.
//! 2. Add its rows to [`FAMILIES`].

/// The operations of a family: the name of each, and its answer, which is judged; with `own`, its verdict.
macro_rules! ops {
    (|$case:ident| $($name:literal => $answer:expr;)*) => {
        &[$(Op::judged($name, |$case| $answer)),*]
    };
    (own |$case:ident| $($name:literal => $verdict:expr;)*) => {
        &[$(Op::own($name, |$case| $verdict)),*]
    };
}

mod atoms;
mod baseline;
mod case;
mod copy_atoms;
mod function;
mod gmma;
mod judge;
mod law;
mod layout;
mod print;
mod print_tiled;
mod schedule;
mod tiled;
mod value;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::verdict::{Checked, Ended};
use crate::{output, workspace};
pub(crate) use case::Case;
pub(crate) use verdict::{GoldenReport, Verdict};

/// An operation of the files.
pub(crate) struct Op {
    /// Its name there.
    name: &'static str,
    run: Judgement,
}

/// How an operation comes to its verdict.
enum Judgement {
    /// By the rules of [`judge::judge`]: our answer, or the sentence with which we refuse.
    Judged(fn(&Case) -> Result<value::Value, String>),
    /// By its own comparison.
    Own(fn(&Case) -> Verdict),
}

impl Op {
    /// An operation whose result is one value.
    const fn judged(name: &'static str, answer: fn(&Case) -> Result<value::Value, String>) -> Op {
        Op {
            name,
            run: Judgement::Judged(answer),
        }
    }

    /// An operation that compares for itself.
    const fn own(name: &'static str, run: fn(&Case) -> Verdict) -> Op {
        Op {
            name,
            run: Judgement::Own(run),
        }
    }
}

/// A step to an answer: what goes wrong on the way is a sentence.
type Tried<T> = Result<T, Sentence>;

/// The sentence of any error.
#[derive(Debug, PartialEq)]
struct Sentence(String);

impl<E: std::fmt::Display> From<E> for Sentence {
    fn from(error: E) -> Sentence {
        Sentence(error.to_string())
    }
}

/// Every operation that runs.
const FAMILIES: &[&[&[Op]]] = &[
    layout::FAMILIES,
    atoms::FAMILIES,
    copy_atoms::FAMILIES,
    gmma::FAMILIES,
    schedule::FAMILIES,
    tiled::FAMILIES,
    print::FAMILIES,
];

/// Compares the cases of `files`, or of the repository's files, and prints the report. Those of the repository must end
/// as they are known to; `keep` makes how they end now what is known.
pub(crate) fn task(files: &[PathBuf], keep: bool) -> Result<ExitCode> {
    if files.is_empty() {
        return own(&workspace::root()?, keep);
    }
    let report = compare(files, |_| {})?;
    show(&report);
    Ok(output::code(report.failures().is_empty()))
}

fn own(root: &Path, keep: bool) -> Result<ExitCode> {
    let report = compare(&repository_files(root)?, |_| {})?;
    show(&report);
    if keep {
        println!("{}", baseline::keep(root, &report)?);
        return Ok(ExitCode::SUCCESS);
    }
    let complaints = complaints(root, &report)?;
    complaints.iter().for_each(|what| println!("{what}"));
    let known = Ended::of(complaints.is_empty());
    Checked::new("known endings", known, report.summary())
        .complaining(&complaints.join("\n"))
        .add();
    Ok(output::code(complaints.is_empty()))
}

/// What is wrong with a run over the repository's files: the cases that failed, and those that end otherwise than is known.
pub(crate) fn complaints(root: &Path, report: &GoldenReport) -> Result<Vec<String>> {
    let mut complaints = report.failures();
    complaints.extend(baseline::complaints(root, report)?);
    Ok(complaints)
}

/// Prints the report, and adds its operations to the verdict.
fn show(report: &GoldenReport) {
    println!("{report}");
    report.checks().into_iter().for_each(Checked::add);
}

/// The files that travel with the repository.
pub(crate) fn repository_files(root: &Path) -> Result<Vec<PathBuf>> {
    workspace::files(&root.join("xtask/golden"), ".gz")
}

/// Runs every case of every file; `at` hears which file is next.
pub(crate) fn compare(files: &[PathBuf], at: impl Fn(&str)) -> Result<GoldenReport> {
    let mut report = GoldenReport::default();
    for file in files {
        at(&file.display().to_string());
        let file = case::read(file)?;
        report.add_file(&file);
        for case in &file.cases {
            report.add(case, &verdict(case));
        }
    }
    Ok(report)
}

fn verdict(case: &Case) -> Verdict {
    // A dynamic case is the same call, its integers known only when it runs.
    let name = case.op.trim_end_matches("_dynamic");
    let mut ops = FAMILIES.iter().copied().flatten().copied().flatten();
    match ops.find(|op| op.name == name).map(|op| &op.run) {
        Some(Judgement::Judged(answer)) => judge::judge(case, answer(case), law::of(case)),
        Some(Judgement::Own(run)) => run(case),
        None => Verdict::Failed(format!("no family knows the operation `{}`", case.op)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    fn ends(op: &str, args: &[&str], result: Json) -> Verdict {
        verdict(&Case {
            op: op.into(),
            args: args.iter().map(|arg| json!(arg)).collect(),
            result,
            post: None,
            place: "derived:1".into(),
        })
    }

    /// Cases whose results follow from the definitions; not computed by CuTe.
    #[test]
    fn the_format_takes_what_other_files_may_hold() {
        // 2*5 + 3*7 + 4*11.
        let sum = ends("inner_product", &["(2,(3,4))", "(5,(7,11))"], json!(75));
        assert_eq!(sum, Verdict::Equal);
        let wrong = ends("inner_product", &["(2,3)", "(5,7)"], json!(30));
        assert!(matches!(wrong, Verdict::Refuted(_)), "{wrong:?}");
        let refused = ends("inner_product", &["(2,3)", "(5,7,1)"], json!("REJECT"));
        assert!(matches!(refused, Verdict::Error(_)), "{refused:?}");
        // The swizzle and its offset stay, and two copies of the block lie 8 apart.
        let product = ends(
            "logical_product",
            &["Sw<1,0,2> o 0 o (4,2):(1,4)", "2"],
            json!("Sw<1,0,2> o 0 o ((4,2),2):((1,4),8)"),
        );
        assert_eq!(product, Verdict::Equal);
        // A step along mode 1 of the layout is a step of 8.
        let composed = ends("composition", &["(4,8):(1,8)", "2:3@1"], json!("2:24"));
        assert_eq!(composed, Verdict::Equal);
        let by_mode = ends(
            "composition_tiler",
            &["((4,2),(2,3)):((1,8),(4,16))", "(2:1@1,2:1@0)"],
            json!("(2,2):(8,4)"),
        );
        assert_eq!(by_mode, Verdict::Equal);
        let wrong = ends("composition", &["(4,8):(1,8)", "2:3@1"], json!("2:3"));
        assert!(matches!(wrong, Verdict::Refuted(_)), "{wrong:?}");
    }
}
