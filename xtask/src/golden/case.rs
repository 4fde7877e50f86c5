//! Cases as files hold them: JSON lines or tab-separated atoms, plain or gzipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::Crc;
use flate2::read::MultiGzDecoder;
use serde_json::{Value as Json, json};

/// One call of CuTe, with its result.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The operation.
    pub(crate) op: String,
    /// Its arguments, in the order of the call in C++.
    pub(crate) args: Vec<Json>,
    /// CuTe's result; the text `REJECT` if the call does not compile.
    pub(crate) result: Json,
    /// Whether CuTe's result fulfils its own documented postcondition, where that was checked.
    pub(crate) post: Option<bool>,
    /// `file:line`.
    pub(crate) place: String,
}

impl Case {
    /// Whether CuTe refuses the arguments.
    pub(crate) fn is_reject(&self) -> bool {
        self.result == "REJECT"
    }

    /// Argument `i` as text: a number is its digits.
    pub(crate) fn text(&self, i: usize) -> Result<String, String> {
        match self.args.get(i) {
            Some(Json::String(text)) => Ok(text.clone()),
            Some(Json::Number(number)) => Ok(number.to_string()),
            Some(other) => Err(format!("argument {i} is {other}, not a text or a number")),
            None => Err(format!("there is no argument {i}")),
        }
    }

    /// Argument `i` as an integer.
    pub(crate) fn int(&self, i: usize) -> Result<i64, String> {
        let argument = self.args.get(i).and_then(Json::as_i64);
        argument.ok_or_else(|| format!("argument {i} is not an integer"))
    }

    /// Argument `i` as a list of integers.
    pub(crate) fn ints(&self, i: usize) -> Result<Vec<i64>, String> {
        let list = self.args.get(i).and_then(Json::as_array);
        let ints = list.and_then(|list| list.iter().map(Json::as_i64).collect());
        ints.ok_or_else(|| format!("argument {i} is not a list of integers"))
    }

    /// The call and its result on one line, for a report.
    pub(crate) fn shown(&self) -> String {
        let args: Vec<String> = self.args.iter().map(plain).collect();
        let args = args.join(", ");
        format!(
            "{}: {}({args}), CuTe: {}",
            self.place,
            self.op,
            shortened(&plain(&self.result))
        )
    }
}

/// A JSON value as it reads best: texts without their quotes.
fn plain(json: &Json) -> String {
    json.as_str()
        .map_or_else(|| json.to_string(), str::to_string)
}

/// At most the first 160 characters.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// A file with its cases.
pub(crate) struct CaseFile {
    /// Its name, without the folder.
    pub(crate) name: String,
    /// The check sum of its lines.
    pub(crate) sum: u32,
    /// At least one.
    pub(crate) cases: Vec<Case>,
}

/// Reads a file: `.jsonl` or `.tsv`, with or without `.gz`.
pub(crate) fn read(path: &Path) -> Result<CaseFile> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let plain_name = name.trim_end_matches(".gz");
    let bytes: Box<dyn Read> = if name == plain_name {
        Box::new(file)
    } else {
        Box::new(MultiGzDecoder::new(file))
    };
    let (mut cases, mut sum) = (Vec::new(), Crc::new());
    for (at, line) in BufReader::new(bytes).lines().enumerate() {
        let place = format!("{name}:{}", at + 1);
        let line = line.with_context(|| format!("{place} cannot be read"))?;
        sum.update(line.as_bytes());
        if line.trim().is_empty() {
            continue;
        }
        cases.push(if plain_name.ends_with(".tsv") {
            of_tsv(&line, place)?
        } else {
            of_json(&line, place)?
        });
    }
    if cases.is_empty() {
        bail!("{} holds no cases", path.display());
    }
    Ok(CaseFile {
        name,
        sum: sum.sum(),
        cases,
    })
}

/// A line of JSON: `{"op":..., "args":[...], "result":...}`.
fn of_json(line: &str, place: String) -> Result<Case> {
    let mut json: Json =
        serde_json::from_str(line).with_context(|| format!("{place} is not JSON"))?;
    let op = json["op"]
        .as_str()
        .with_context(|| format!("{place} has no `op`"))?
        .to_string();
    let Json::Array(args) = json["args"].take() else {
        bail!("{place} has no list `args`")
    };
    if json.get("result").is_none() {
        bail!("{place} has no `result`");
    }
    Ok(Case {
        op,
        args,
        post: json["post"].as_bool(),
        result: json["result"].take(),
        place,
    })
}

/// A row of `atoms.tsv`: its op is `tsv_` and the kind, its argument the name, its result the list of other columns.
fn of_tsv(line: &str, place: String) -> Result<Case> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [kind, name, rest @ ..] = columns.as_slice() else {
        bail!("{place} has fewer than two columns")
    };
    let op = format!("tsv_{}", kind.to_lowercase());
    Ok(Case {
        op,
        args: vec![json!(name)],
        result: json!(rest),
        post: None,
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_is_a_case() {
        let line = r#"{"op":"get","args":["(4,8):(1,4)",[0,1],3],"result":"4:1","post":false}"#;
        let case = of_json(line, "a.jsonl:1".into()).expect("the line is well formed");
        assert_eq!((case.op.as_str(), case.post), ("get", Some(false)));
        assert_eq!(case.text(0).as_deref(), Ok("(4,8):(1,4)"));
        assert_eq!(case.ints(1), Ok(vec![0, 1]));
        assert_eq!(case.int(2), Ok(3));
        assert_eq!(case.int(3), Err("argument 3 is not an integer".into()));
        assert_eq!(
            case.shown(),
            "a.jsonl:1: get((4,8):(1,4), [0,1], 3), CuTe: 4:1"
        );
    }

    #[test]
    fn a_row_of_atoms_is_a_case() {
        let case = of_tsv("COPY\tX\t_1:_0\tRef=Src", "atoms.tsv:1".into())
            .expect("the row is well formed");
        assert_eq!(
            (case.op.as_str(), &case.result),
            ("tsv_copy", &json!(["_1:_0", "Ref=Src"]))
        );
    }

    #[test]
    fn mistakes_name_their_place() {
        let error = |line: &str| {
            of_json(line, "a.jsonl:7".into())
                .expect_err("the line is wrong")
                .to_string()
        };
        assert_eq!(error("{"), "a.jsonl:7 is not JSON");
        assert_eq!(error(r#"{"args":[]}"#), "a.jsonl:7 has no `op`");
        assert_eq!(
            error(r#"{"op":"x","args":[]}"#),
            "a.jsonl:7 has no `result`"
        );
    }
}
