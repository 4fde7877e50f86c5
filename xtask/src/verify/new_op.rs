//! The step `new op`: the compiler names every place that an instruction must change.

use anyhow::{Result, bail};
use serde_json::Value;

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, cargo};

/// The families of instructions, as `colex_ir::Op` lists them.
const FAMILIES: [&str; 7] = [
    "Alu", "Memory", "Exchange", "Sync", "Async", "Control", "Atom",
];

/// One compilation with `--cfg new_op`, and the modules in which it must fail.
struct Probe {
    /// The value of the configuration. `inside` adds a variant to each family; a crate that depends on the families
    /// cannot be compiled then, since they do not compile. `outside` marks each family as one that may grow, which
    /// rustc takes as a missing variant in every other crate.
    value: &'static str,
    package: &'static str,
    /// The innermost folders first.
    modules: &'static [MatchingModule],
}

/// A module, its folder, and the enums over which it matches. In `rows` that is every family: an instruction without a
/// row does not compile. `verify` and `ptx` read the rows: a new instruction whose row consists of known kinds of
/// operands, text and values needs nothing there, and a new kind does.
struct MatchingModule {
    name: &'static str,
    folder: &'static str,
    matches: &'static [&'static str],
}

const PROBES: [Probe; 2] = [
    Probe {
        value: "inside",
        package: "colex-ir",
        modules: &[
            MatchingModule {
                name: "verify",
                folder: "gpu/ir/src/verify/",
                matches: &["Memory", "Sync", "Async", "Control", "Atom", "Formula"],
            },
            MatchingModule {
                name: "ptx",
                folder: "gpu/ir/src/ptx/",
                matches: &["Control", "Atom", "Arg", "Ptx"],
            },
            MatchingModule {
                name: "rows",
                folder: "gpu/ir/src/op/",
                matches: &FAMILIES,
            },
            MatchingModule {
                name: "ir",
                folder: "gpu/ir/src/",
                matches: &["Arg"],
            },
        ],
    },
    Probe {
        value: "outside",
        package: "colex-sim",
        modules: &[MatchingModule {
            name: "sim",
            folder: "gpu/sim/src/",
            matches: &FAMILIES,
        }],
    },
];

/// Compiles with a new instruction in each family, and looks for a module in which nothing fails for one.
pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let (mut places, mut enums, mut complaints) = (0, 0, Vec::new());
    for probe in &PROBES {
        let errors = compile(run, probe, progress)?;
        places += errors.len();
        let module_of = |error: &Missing| {
            let mut modules = probe.modules.iter();
            modules.find(|module| error.file.starts_with(module.folder))
        };
        for module in probe.modules {
            let within = errors.iter().filter(|error| {
                module_of(error).is_some_and(|other| other.folder == module.folder)
            });
            let within: Vec<&Missing> = within.collect();
            enums += module.matches.len();
            for name in module.matches {
                if !within.iter().any(|error| error.names(name)) {
                    complaints.push(format!(
                        "a new variant of `{name}` compiles in `{}`: no `match` over it is total there",
                        module.name
                    ));
                }
            }
        }
    }
    let covered = format!("{enums} enums by module: {places} matches that a new variant breaks");
    Ok(Outcome::of(places, covered, &complaints))
}

/// A `match` that misses a variant.
#[derive(Debug, PartialEq)]
struct Missing {
    file: String,
    /// The message and its notes.
    text: String,
}

impl Missing {
    /// Whether it is a variant of that family: `Alu::New`, or one that a family that may grow might have.
    fn names(&self, family: &str) -> bool {
        let inside = format!("{family}::New");
        let outside = format!("{family}` is marked as non-exhaustive");
        [inside, outside].iter().any(|what| {
            let before = |at: usize| self.text[..at].chars().next_back();
            (self.text.match_indices(what.as_str()))
                .any(|(at, _)| !before(at).is_some_and(char::is_alphanumeric))
        })
    }
}

/// In a folder of its own: other flags would throw away what the other steps have built.
fn compile(run: &Run, probe: &Probe, progress: &Progress) -> Result<Vec<Missing>> {
    let words = format!(
        "check --lib --message-format json --package {}",
        probe.package
    );
    let folder = run.packages.target_folder.join("new_op").join(probe.value);
    let mut command = cargo::command(&run.root, &words);
    command
        .env("CARGO_TARGET_DIR", folder)
        .env("RUSTFLAGS", format!("--cfg new_op=\"{}\"", probe.value));
    let done = cargo::run(command, progress)?;
    let found = missing(&done.stdout);
    if found.is_empty() {
        bail!("rustc finds no incomplete `match`:\n{}", done.all);
    }
    Ok(found)
}

/// The matches that rustc finds incomplete (E0004), by cargo's messages.
fn missing(messages: &str) -> Vec<Missing> {
    let parsed = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed
        .filter(|line| line["message"]["code"]["code"] == "E0004")
        .map(|line| {
            let message = &line["message"];
            let spans = message["spans"].as_array().into_iter().flatten();
            let mut primary = spans.filter(|span| span["is_primary"] == true);
            let file = primary.next().and_then(|span| span["file_name"].as_str());
            let notes = message["children"].as_array().into_iter().flatten();
            let texts = [message].into_iter().chain(notes);
            let texts: Vec<&str> = texts.filter_map(|m| m["message"].as_str()).collect();
            Missing {
                file: file.unwrap_or_default().replace('\\', "/"),
                text: texts.join("\n"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    fn message(code: &str, file: &str, text: &str, note: &str) -> String {
        format!(
            r#"{{"message":{{"code":{{"code":"{code}"}},"message":"{text}","spans":[{{"is_primary":true,"file_name":"{file}"}}],"children":[{{"message":"{note}"}}]}}}}"#
        )
    }

    #[test]
    fn an_incomplete_match_names_its_family() {
        let file = "gpu/ir/src/verify/wgmma.rs";
        let text = "non-exhaustive patterns: `&Op::Async(asynchronous::Async::New)` not covered";
        let inside = message("E0004", file, text, "");
        let note = "`colex_ir::Sync` is marked as non-exhaustive, so a wildcard `_` is necessary";
        let outside = message("E0004", "gpu/sim/src/lib.rs", "`&_` not covered", note);
        let other = message("E0433", file, "cannot find `Alu::New`", "");
        let found = missing(&[inside, other, outside].join("\n"));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].file, file);
        let named = |missing: &Missing| FAMILIES.map(|family| missing.names(family));
        assert_eq!(named(&found[0]), FAMILIES.map(|family| family == "Async"));
        assert_eq!(named(&found[1]), FAMILIES.map(|family| family == "Sync"));
    }

    #[test]
    fn an_instruction_is_named_in_three_files() {
        let root = workspace::root().expect("the test runs in the workspace");
        let mut sources = Vec::new();
        for folder in ["gpu/ir/src", "gpu/sim/src", "gpu/proof/src"] {
            for path in workspace::files(&root.join(folder), ".rs").expect("a folder of sources") {
                let text = std::fs::read_to_string(&path).expect("a source is text");
                sources.push((workspace::shown(&root, &path), text));
            }
        }
        // The methods of the builder are other names for instructions; those beside the rows count.
        sources.retain(|(file, _)| !file.starts_with("gpu/ir/src/build/"));
        sources.sort();
        let named_in = |instruction: &str| -> Vec<&str> {
            let names = |text: &str| {
                let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric());
                text.split(instruction).skip(1).any(ends)
            };
            let found = sources.iter().filter(|(_, text)| names(text));
            found.map(|(file, _)| file.as_str()).collect()
        };
        let three = |row, meaning| [row, "gpu/proof/src/corpus/instructions.rs", meaning];
        assert_eq!(
            named_in("Alu::Dp4a"),
            three("gpu/ir/src/op/alu.rs", "gpu/sim/src/insn/compute.rs")
        );
        assert_eq!(
            named_in("Exchange::Match"),
            three("gpu/ir/src/op/exchange.rs", "gpu/sim/src/insn/shuffle.rs")
        );
        let mut instructions = 0;
        for family in ["Alu", "Exchange"] {
            let head = format!("pub enum {family} {{\n");
            let body = sources.iter().find_map(|(_, text)| text.split_once(&head));
            let (_, body) = body.expect("the family is an enum");
            let variants = body
                .lines()
                .take_while(|line| *line != "}")
                .filter_map(|line| {
                    let name = line.strip_prefix("    ")?;
                    let end = name.find(|c: char| !c.is_alphanumeric())?;
                    (name.starts_with(char::is_uppercase) && &name[..end] != "New")
                        .then_some(&name[..end])
                });
            for name in variants {
                let found = named_in(&format!("{family}::{name}"));
                assert!(found.len() <= 3, "{family}::{name} is named in {found:?}");
                instructions += 1;
            }
        }
        println!("law an_instruction_is_named_in_three_files: {instructions} cases");
    }
}
