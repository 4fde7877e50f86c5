//! The step `words`: the house words that no comment, error sentence, chapter or README may contain, summary lines,
//! layouts made of formatted text, types of one name in a crate, and public methods without an example.
//!
//! The check reads the words of every `.rs` and `.md` file, code included, so that names and texts agree. Comment
//! markers are skipped, so a phrase is also found across the lines of one comment. A blank line ends a phrase.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, examples};
use crate::workspace;

/// Phrases, each with what to write instead. The change log quotes old texts and is not checked.
const PHRASES: &[(&[&str], &str)] = &[
    (&["so", "many"], "name the parameter: `count` bytes"),
    (&["shall"], "write `is to`, `must` or `will`"),
    (
        &["who"],
        "name the actor: the thread that .., the caller that ..",
    ),
    (&["whom"], "name the actor: the thread that .."),
    (&["whoever"], "name the actor: the thread that .."),
    (&["somebody"], "name the actor: a thread, another process"),
    (&["someone"], "name the actor: a thread, another process"),
    (&["anybody"], "name the actor: any thread"),
    (&["anyone"], "name the actor: any thread"),
    (&["everybody"], "name the actors: all threads, all callers"),
    (&["everyone"], "name the actors: all threads, all callers"),
    (&["nobody"], "name the actor: no thread; or use the passive"),
    (&["whatever"], "write `for every ..` or `regardless of ..`"),
    (&["whichever"], "write `in either order`, `for every ..`"),
    (&["he"], "name the actor"),
    (&["him"], "name the actor"),
    (&["his"], "name the actor"),
    (&["of", "the", "day"], "write `given at launch`"),
    (&["for", "certain"], "write `certainly`"),
    (&["came", "off"], "write `the outcome of ..`"),
];

/// What a rate counts, in the singular: "one ELEMENT per thread".
const COUNTED: &str = "access argument arrival axis barrier bit block box byte case cell chunk colour column copy coordinate digit \
    dimension element family fetch float half index instruction integer k-tile kernel line load loop map method \
    mode multiply number operand operation pair part pass piece place point product register request row score \
    sector segment sentence shuffle slot square stage step stride sum thread tile tiler tuple unit value vector \
    warp wave wavefront word";

/// What a rate is taken over: "one element per THREAD".
const OVER: &str = "access argument batch block box call case cell chunk cluster column coordinate copy core cycle digit dimension \
    element file function group instruction iteration kernel lane leaf line loop mode multiprocessor operand \
    operation part pass phase place process product quad-pair register request row second segment slot square \
    stage step stride thread tile unit value vector warp warpgroup wave wavefront word";

/// Whether a list of words has this one.
fn lists(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// Looks for the phrases and for rates without `per` in all files of the repository.
pub(super) fn check(run: &mut Run, _: &Progress) -> Result<Outcome> {
    let mut files = workspace::files(&run.root, ".rs")?;
    files.extend(workspace::files(&run.root, ".md")?);
    let (mut words, mut complaints, mut types) = (0, Vec::new(), Types::default());
    for path in files.iter().filter(|path| !is_exempt(path)) {
        let text = workspace::read(path)?;
        let found = tokens(&text);
        words += found.len();
        let shown = workspace::shown(&run.root, path);
        let mut found = complaints_about(&found);
        if SUMMARISED
            .split(' ')
            .any(|folder| shown.starts_with(folder))
        {
            found.extend(summaries(&text));
        }
        if makes_layouts(&shown) {
            found.extend(formatted_layouts(&text));
        }
        if let Some((krate, _)) = shown.split_once("/src/") {
            found.extend(types.declared_twice(krate, &shown, &text));
        }
        let found = found.into_iter();
        complaints.extend(found.map(|(line, what)| format!("{shown}:{line}: {what}")));
    }
    let examples = examples::missing(&run.root)?;
    complaints.extend(examples.complaints);
    let covered = format!(
        "{words} words of {} files, against {} phrases and the rates without `per`, the summary lines and formatted \
         layouts; the names of {} types; the examples of {} methods",
        files.len(),
        PHRASES.len(),
        types.0.len(),
        examples.methods
    );
    Ok(Outcome::of(files.len(), covered, &complaints))
}

/// The types seen so far, by crate and name, each with its first place.
#[derive(Default)]
struct Types(HashMap<(String, String), String>);

impl Types {
    /// The lines of a file with a type whose name another type of the crate has: inside one crate a name has one meaning.
    fn declared_twice(&mut self, krate: &str, file: &str, text: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let lines = text.lines().enumerate();
        for (at, line) in lines.take_while(|(_, line)| *line != "#[cfg(test)]") {
            let Some(name) = declared(line) else {
                continue;
            };
            let key = (krate.to_string(), name.to_string());
            if let Some(first) = self.0.get(&key) {
                let what = format!(
                    "`{name}` is a type at {first} as well: inside one crate a name has one meaning"
                );
                found.push((at + 1, what));
            } else {
                self.0.insert(key, format!("{file}:{}", at + 1));
            }
        }
        found
    }
}

/// The name of the type that a line declares. A `type` inside an `impl` is an associated one, which a trait has named.
fn declared(line: &str) -> Option<&str> {
    let item = line.trim_start();
    let item = match item.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
        None => item,
    };
    let (word, rest) = item.split_once(' ')?;
    let is_type = ["struct", "enum", "union", "trait"].contains(&word)
        || word == "type" && !line.starts_with(' ');
    let name = rest.split(|c| !is_of_word(c)).next().unwrap_or_default();
    (is_type && !name.is_empty()).then_some(name)
}

/// Whether a file is one of a library, an example, a chapter or a README, where no string is formatted to make a layout.
/// Tests may write what the parser has to read.
fn makes_layouts(file: &str) -> bool {
    let is_test = file
        .split('/')
        .any(|folder| folder == "tests" || folder == "fuzz_targets");
    !is_test
}

/// The lines with a `format!` whose text is a layout in CuTe's notation.
fn formatted_layouts(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, call) in text.match_indices("format!(") {
        let rest =
            text[at + call.len()..].trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        let literal = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        if let Some((literal, _)) = literal.filter(|(literal, _)| is_layout(literal)) {
            let line = 1 + text[..at].matches('\n').count();
            let what = format!(
                "\"{literal}\": make the layout of Rust tuples, as `Layout::new((m, n), (n, 1))`"
            );
            found.push((line, what));
        }
    }
    found
}

/// Whether a format string is a layout with placeholders. `{file}:{line}` is not: a layout has a digit or a parenthesis.
fn is_layout(literal: &str) -> bool {
    let (mut plain, mut depth) = (String::new(), 0);
    for c in literal.chars() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                plain.push('#');
            }
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let layout = plain.rsplit(" o ").next().unwrap_or_default();
    layout.contains(':')
        && layout.contains(|c: char| c == '(' || c.is_ascii_digit())
        && layout
            .chars()
            .all(|c| "#(),:_@^- ".contains(c) || c.is_ascii_digit())
}

/// The folders whose public functions have summary lines in the third person present.
const SUMMARISED: &str = "layout/src/ layout/draw/src/ atom/src/ tiled/src/ sched/src/ gpu/ir/src/ gpu/sim/src/ gpu/device/src/ \
    gpu/proof/src/ gpu/tensor/src/ gpu/src/";

/// The verbs with which summary lines begin. Plural nouns end like verbs, so the verbs are listed.
const VERBS: &str = "Adds Advances Allocates Appends Applies Arrives Assigns Attaches Borrows Branches Broadcasts Builds Calls \
    Checks Chooses Closes Commits Compares Computes Converts Copies Counts Cuts Declares Derives Describes Does \
    Draws Drops Ends Enqueues Exchanges Executes Finds Frees Gathers Gives Groups Hands Initialises Joins Judges \
    Keeps Leaves Limits Loads Makes Measures Multiplies Names Opens Orders Panics Predicates Prefetches Prepares \
    Prepends Prints Puts Reads Records Reduces Refuses Regroups Releases Repeats Replaces Requires Reserves \
    Returns Runs Says Sets Shows Splits Starts Stores Synchronises Takes Visits Waits Walks Writes";

/// Those of the verbs that are nouns as well, such as `Copies of a mode`.
const NOUNS_TOO: &str = "Branches Calls Copies Counts Cuts Draws Drops Ends Groups Hands Limits Loads Names Orders Predicates Reads \
    Records Repeats Runs Sets Splits Starts Stores Visits Waits Walks Writes";

/// Whether a summary that begins with these two words begins with a verb in the third person.
fn is_verb(word: &str, next: Option<&str>) -> bool {
    let is_noun = lists(NOUNS_TOO, word)
        && next.is_some_and(|next| ["of", "in", "that", "it", "per", "side"].contains(&next));
    lists(VERBS, word) && !is_noun
}

/// The lines of summaries of public functions that do not begin with a verb in the third person.
fn summaries(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |at: usize| lines[at].starts_with("///");
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_function = ["pub fn ", "pub const fn ", "pub unsafe fn "]
            .iter()
            .any(|start| line.starts_with(start));
        // The documentation of a function in a macro is an argument of the macro.
        if !is_function || line.contains("fn $") {
            continue;
        }
        // Attributes stand between the documentation and the function; their lines are no documentation.
        let end = (0..at)
            .rev()
            .find(|&i| is_doc(i) || lines[i].is_empty() || lines[i] == "}");
        let Some(end) = end.filter(|&i| is_doc(i)) else {
            continue;
        };
        let first = (0..=end)
            .rev()
            .take_while(|&i| is_doc(i))
            .last()
            .unwrap_or(end);
        let summary = lines[first].trim_start_matches('/').trim();
        let word = summary
            .split(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or("");
        if !is_verb(word, summary.split(' ').nth(1)) {
            let what =
                format!("\"{summary}\": begin with a verb in the third person, as `Returns ..`");
            found.push((first + 1, what));
        }
    }
    found
}

/// The change log, and the list itself.
fn is_exempt(path: &Path) -> bool {
    path.ends_with("CHANGELOG.md") || path.ends_with("verify/words.rs")
}

/// A word or another character, with its line. An empty one is a blank line.
struct Token<'t> {
    line: usize,
    word: &'t str,
}

/// Splits a text into words and other characters; comment markers are left out.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    for (line, content) in text.lines().enumerate() {
        let content = content.trim();
        let content = ["///", "//!", "//"]
            .into_iter()
            .find_map(|marker| content.strip_prefix(marker))
            .unwrap_or(content);
        let line = line + 1;
        if content.trim().is_empty() {
            all.push(Token { line, word: "" });
        }
        let mut rest = content;
        while let Some(first) = rest.chars().next() {
            let end = match first {
                _ if is_of_word(first) => rest
                    .find(|c: char| !is_of_word(c) && c != '-' && c != '\'')
                    .unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            if !first.is_whitespace() {
                let word = rest[..end].trim_end_matches(['-', '\'']);
                all.push(Token { line, word });
            }
            rest = &rest[end..];
        }
    }
    all
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The lines with a phrase of the list or a rate, each with what to write.
fn complaints_about(tokens: &[Token<'_>]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let line = tokens[at].line;
        for (phrase, instead) in PHRASES {
            if starts_with(&tokens[at..], phrase) {
                found.push((line, format!("\"{}\": {instead}", phrase.join(" "))));
            }
        }
        if let [number, counted, article, over, ..] = &tokens[at..]
            && ["a", "an"].contains(&article.word)
            && is_number(number.word)
            && is_counted(counted.word)
            && lists(OVER, over.word)
        {
            let (n, what, over) = (number.word, counted.word, over.word);
            let rate = format!("{n} {what} {} {over}", article.word);
            let is_article = n.eq_ignore_ascii_case("a") || n.eq_ignore_ascii_case("an");
            let n = if is_article { "one" } else { n };
            found.push((line, format!("\"{rate}\": write `{n} {what} per {over}`")));
        }
    }
    found
}

fn starts_with(tokens: &[Token<'_>], phrase: &[&str]) -> bool {
    tokens.len() >= phrase.len()
        && tokens
            .iter()
            .zip(phrase)
            .all(|(token, word)| token.word.eq_ignore_ascii_case(word))
}

fn is_number(word: &str) -> bool {
    let words = [
        "a", "an", "one", "two", "three", "four", "five", "six", "eight", "sixteen",
    ];
    words.contains(&word)
        || word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a word is one that rates count, in the singular or the plural.
fn is_counted(word: &str) -> bool {
    let singular = match word {
        "halves" => "half",
        "families" => "family",
        "axes" => "axis",
        _ => word,
    };
    let stems = [
        Some(singular),
        singular.strip_suffix('s'),
        singular.strip_suffix("es"),
    ];
    stems.into_iter().flatten().any(|stem| lists(COUNTED, stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(text: &str) -> Vec<(usize, String)> {
        complaints_about(&tokens(text))
    }

    #[test]
    fn every_phrase_is_found_also_across_the_lines_of_a_comment() {
        for (phrase, instead) in PHRASES {
            let text = format!("fn f() {{}}\n    /// The {}\n", phrase.join("\n    /// "));
            let said = format!("\"{}\": {instead}", phrase.join(" "));
            assert_eq!(found(&text), [(2, said)], "{phrase:?}");
        }
        assert_eq!(found("Copies SO Many bytes.").len(), 1);
        assert_eq!(found("format!(\"nobody can go on\")").len(), 1);
    }

    #[test]
    fn rates_want_per() {
        let said = |text: &str| {
            found(text)
                .into_iter()
                .map(|(_, what)| what)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            said("copies an element a thread"),
            ["\"an element a thread\": write `one element per thread`"]
        );
        assert_eq!(
            said("16 bytes an access, two halves\n/// a row"),
            [
                "\"16 bytes an access\": write `16 bytes per access`",
                "\"two halves a row\": write `two halves per row`"
            ]
        );
    }

    #[test]
    fn summaries_begin_with_a_verb() {
        let text = "    /// The size.\n    #[must_use]\n    pub fn size() {}\n\n    /// Returns it.\n    ///\n    \
                    /// More.\n    pub const fn it() {}\n\n    pub fn bare() {}\n    /// Its own.\n    fn private() {}\n";
        let what = "\"The size.\": begin with a verb in the third person, as `Returns ..`";
        assert_eq!(summaries(text), [(1, what.to_string())]);
    }

    #[test]
    fn plural_nouns_are_no_verbs() {
        for noun in [
            "Bytes it takes.",
            "Blocks along m.",
            "Copies of `mode` at the end.",
            "Groups of units.",
            "Its own.",
        ] {
            let text = format!("    /// {noun}\n    pub fn it() {{}}\n");
            assert_eq!(summaries(&text).len(), 1, "{noun}");
        }
        for verb in [
            "Copies `a` to `b`.",
            "Groups the modes.",
            "Reads from `space`.",
        ] {
            let text = format!("    /// {verb}\n    pub fn it() {{}}\n");
            assert_eq!(summaries(&text), [], "{verb}");
        }
    }

    #[test]
    fn a_type_is_declared_once_in_a_crate() {
        let mut types = Types::default();
        let text = "pub(crate) struct Held<T> {}\nimpl X for Y {\n    type Line = u8;\n}\npub type Line = u8;\n";
        assert_eq!(types.declared_twice("a", "a/src/x.rs", text), []);
        assert_eq!(types.declared_twice("b", "b/src/x.rs", text), []);
        let again = "\nenum Held {}\n    trait Line {}\n#[cfg(test)]\nstruct Held;\n";
        let found = types.declared_twice("a", "a/src/y.rs", again);
        let first =
            "`Held` is a type at a/src/x.rs:1 as well: inside one crate a name has one meaning";
        assert_eq!(found[0], (2, first.to_string()));
        assert_eq!((found.len(), found[1].0), (2, 3));
    }

    #[test]
    fn layouts_are_not_formatted() {
        for text in [
            "format!(\"({n},{n}):({n},1)\")",
            "/// let run = format!(\"{length}:1\");",
            "format!(\n    \"((8,{}),({t},{})):(({t},{stride}),(1,{leading}))\",\n    mn / 8)",
            "format!(\"Sw<3,3,3> o 0 o ({rows},64):(64,1)\")",
            "format!(\"(_{v},_{n}):(_1,_{})\", v)",
        ] {
            assert_eq!(formatted_layouts(text).len(), 1, "{text}");
        }
        for text in [
            "format!(\"{file}:{line}\")",
            "format!(\"{:#}\", layout)",
            "format!(\"{shown}:{line}: {what}\")",
            "format!(\"-> {n}:{step}*{:#} = {piece}\", left)",
            "format!(\"(4,8):(8,1)\\nelide = {elide}\")",
            "\"(4,8):(8,1)\".parse()",
        ] {
            assert_eq!(formatted_layouts(text), [], "{text}");
        }
    }

    #[test]
    fn other_sentences_are_not_found() {
        for text in [
            "which element a thread holds",
            "is element 3 of a block of 8",
            "lane 3 writes a word",
            "so that many plans are accepted",
            "so\n\nmany",
            "### A row\n\nA row of the table",
            "the whole of the daytime, forcertain, whose",
            "one number per mode",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
