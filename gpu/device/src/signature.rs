//! The signatures of the entries of a PTX text, against which a launch is checked.

use crate::error::{Error, ErrorKind};
use colex_atom::PtxVersion;
use colex_ir::Kernel;
use colex_ir::launch::{EntrySignature, ParameterType};

/// Returns the signature of a kernel.
///
/// # Errors
///
/// Returns an error if a parameter has no [`ParameterType`].
pub(crate) fn of_kernel(kernel: &Kernel) -> Result<EntrySignature, Error> {
    EntrySignature::of(kernel).map_err(|param| {
        ErrorKind::Parameter {
            entry: kernel.name.clone(),
            declaration: format!("{}: {:?}", param.name, param.ty),
        }
        .into()
    })
}

/// Returns the signature of an entry.
///
/// The text is read once, from its start to the entry: the work is linear in its length.
///
/// # Errors
///
/// Returns an error that lists the entries if there is no such entry, and an error if a parameter has no
/// [`ParameterType`].
pub(crate) fn of(ptx: &str, entry: &str) -> Result<EntrySignature, Error> {
    let mut tokens = Tokens::of(ptx);
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        if token != ".entry" {
            continue;
        }
        match tokens.next() {
            Some(name) if name == entry => {
                let header = tokens.take_while(|token| !["{", ";"].contains(token));
                return read(entry, &header.collect::<Vec<_>>());
            }
            Some(name) => found.push(name.to_string()),
            None => {}
        }
    }
    Err(ErrorKind::NoEntry {
        entry: entry.to_string(),
        found,
    }
    .into())
}

/// Returns the number after `.version`.
pub(crate) fn version(ptx: &str) -> Option<PtxVersion> {
    let mut tokens = Tokens::of(ptx);
    tokens.find(|&token| token == ".version")?;
    let (major, minor) = tokens.next()?.split_once('.')?;
    Some(PtxVersion(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the word after `.target`: `sm_90a`.
pub(crate) fn target(ptx: &str) -> Option<String> {
    let mut tokens = Tokens::of(ptx);
    tokens.find(|&token| token == ".target")?;
    tokens.next().map(str::to_string)
}

/// The tokens of a PTX text: words, punctuation of one character each, and strings in quotation marks. Comments
/// separate tokens, as spaces do.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Tokens<'a> {
        Tokens { rest: text }
    }

    /// Drops spaces and comments from the front. Each search ends at the comment's end, so that no part of the text
    /// is looked at twice.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let (inside, end) = match self.rest.get(..2) {
                Some("//") => (&self.rest[2..], "\n"),
                Some("/*") => (&self.rest[2..], "*/"),
                _ => return,
            };
            self.rest = inside.find(end).map_or("", |at| &inside[at + end.len()..]);
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        const SINGLE: &str = "(),[];{}";
        self.skip();
        let first = self.rest.chars().next()?;
        let length = match first {
            '"' => self.rest[1..]
                .find('"')
                .map_or(self.rest.len(), |at| at + 2),
            _ if SINGLE.contains(first) => 1,
            _ => {
                let after = self.rest.char_indices().skip(1);
                let ends = |at: usize, c: char| {
                    c.is_whitespace()
                        || c == '"'
                        || SINGLE.contains(c)
                        || (c == '/' && matches!(self.rest.get(at..at + 2), Some("//" | "/*")))
                };
                let mut ends = after.filter(|&(at, c)| ends(at, c));
                ends.next().map_or(self.rest.len(), |(at, _)| at)
            }
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

/// Returns the signature in the tokens between the entry's name and its body.
fn read(entry: &str, tokens: &[&str]) -> Result<EntrySignature, Error> {
    let (inside, after) = match (
        tokens.first(),
        tokens.iter().position(|&token| token == ")"),
    ) {
        (Some(&"("), Some(close)) => (&tokens[1..close], &tokens[close + 1..]),
        _ => (&tokens[..0], tokens),
    };
    let declared = inside
        .split(|&token| token == ",")
        .filter(|declaration| !declaration.is_empty());
    let parameters = declared
        .clone()
        .map(|declaration| parameter(entry, declaration));
    Ok(EntrySignature {
        alignments: declared.map(pointer_alignment).collect(),
        parameters: parameters.collect::<Result<_, _>>()?,
        block: extents(after, ".reqntid"),
        cluster: extents(after, ".reqnctapercluster"),
        is_flat: false,
    })
}

/// The type of one parameter: `.param .u64 .ptr .global .align 16 name`, `.param .align 64 .b8 name[128]`.
fn parameter(entry: &str, declaration: &[&str]) -> Result<ParameterType, Error> {
    let length = declaration
        .iter()
        .position(|&token| token == "[")
        .and_then(|at| declaration.get(at + 1));
    let types = declaration.iter().find_map(|&token| match token {
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => Some(ParameterType::B16),
        ".u32" | ".s32" => Some(ParameterType::U32),
        ".b32" => Some(ParameterType::B32),
        ".f32" => Some(ParameterType::F32),
        ".u64" | ".s64" => Some(ParameterType::U64),
        ".b64" => Some(ParameterType::B64),
        ".f64" => Some(ParameterType::F64),
        ".b8" if length == Some(&"128") => Some(ParameterType::TensorMap),
        _ => None,
    });
    match (types, length) {
        (Some(ParameterType::TensorMap), _) => Ok(ParameterType::TensorMap),
        (Some(ty), None) => Ok(ty),
        _ => Err(ErrorKind::Parameter {
            entry: entry.to_string(),
            declaration: declaration.join(" "),
        }
        .into()),
    }
}

/// Returns the alignment that a pointer's declaration states (`.ptr .global .align 16`); 1 if it states none.
fn pointer_alignment(declaration: &[&str]) -> u64 {
    let after = |word: &str, tokens: &[&str]| tokens.iter().position(|&token| token == word);
    let pointer = after(".ptr", declaration).map(|at| &declaration[at..]);
    let number = pointer.and_then(|tokens| tokens.get(after(".align", tokens)? + 1));
    let number = number.and_then(|number| number.parse().ok());
    number.filter(|&bytes| bytes > 0).unwrap_or(1)
}

/// The numbers after a directive, 1 where there are fewer than three.
fn extents(tokens: &[&str], directive: &str) -> Option<[u32; 3]> {
    let at = tokens.iter().position(|&token| token == directive)?;
    let numbers = tokens[at + 1..]
        .iter()
        .take_while(|token| !token.starts_with('.'));
    let mut numbers = numbers.filter_map(|token| token.parse().ok());
    Some([(); 3].map(|()| numbers.next().unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0 // .entry not(.param .u8 x)
.target sm_90a /* .target sm_70 */
.address_size 64
.visible .entry one(
    .param .u64 .ptr .global .align 16 a,
    .param .align 64 .b8 map[128],
    .param .f32 /* .f64 */ scale,
    .param .b16 half
) .reqntid 128, 2 .reqnctapercluster 2,1,1 .maxnreg 64
{ ret; }
.entry two { ret; }
.visible .entry three(){ret;}
.entry four(.param .align 16 .b8 pair[16]) { ret; }
";

    #[test]
    fn parameters_and_shapes_are_read() {
        use ParameterType::*;
        let one = of(TEXT, "one").unwrap();
        assert_eq!(one.parameters, [U64, TensorMap, F32, B16]);
        assert_eq!(one.alignments, [16, 1, 1, 1]);
        assert_eq!(one.block, Some([128, 2, 1]));
        assert_eq!(one.cluster, Some([2, 1, 1]));
        for name in ["two", "three"] {
            let none = of(TEXT, name).unwrap();
            assert_eq!(
                (none.parameters.len(), none.block, none.cluster),
                (0, None, None)
            );
        }
    }

    #[test]
    fn refusals_name_what_is_there() {
        let said = |entry: &str| of(TEXT, entry).unwrap_err().to_string();
        assert_eq!(
            said("not"),
            "the module has no entry `not`: it has one, two, three, four"
        );
        assert_eq!(
            said("four"),
            "the parameter `.param .align 16 .b8 pair [ 16 ]` of `four` is neither a number of 16 to 64 bits nor a tensor map of 128 bytes"
        );
        assert_eq!(
            of("", "k").unwrap_err().to_string(),
            "the module has no entry `k`: it has none"
        );
    }

    /// Comments of one kind only: a search for the other kind finds none up to the end of the text, and one such search
    /// per comment made the work quadratic (26 s for 2.8 MB).
    #[test]
    fn megabytes_of_comments_are_read_in_linear_time() {
        let lines = "// 0123456789 0123456789\n".repeat(150_000);
        let blocks = "/* 0123456789 0123456789 */\n".repeat(150_000);
        let mut bytes = 0;
        for comments in [lines, blocks] {
            bytes += comments.len();
            let text = format!("{comments}{TEXT}");
            let started = std::time::Instant::now();
            assert_eq!(of(&text, "one").unwrap(), of(TEXT, "one").unwrap());
            assert_eq!(target(&text).as_deref(), Some("sm_90a"));
            let took = started.elapsed();
            assert!(took.as_secs() < 5, "{} bytes took {took:?}", text.len());
        }
        println!("law load_ptx_is_linear_in_comments: {bytes} cases");
    }

    #[test]
    fn what_looks_like_a_comment_in_a_string_is_none() {
        let text =
            ".file 1 \"https://a.b/*.cu\"\n.entry k/**/(.param .u32 n) .reqntid 32// 64\n{ exit; }";
        let one = of(text, "k").unwrap();
        assert_eq!(one.parameters, [ParameterType::U32]);
        assert_eq!(one.block, Some([32, 1, 1]));
        assert_eq!(target(".entry k { exit; } /* .target sm_80"), None);
        assert_eq!(target("\"open"), None);
    }

    #[test]
    fn the_target_is_that_of_the_text() {
        assert_eq!(target(TEXT).as_deref(), Some("sm_90a"));
        assert_eq!(target("// .target sm_90\n"), None);
    }
}
