//! The lines of a figure's fence.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Error;

/// The subjects and the keys of one figure.
#[derive(Debug)]
pub(crate) struct Body {
    subjects: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    key: String,
    value: String,
    is_read: Cell<bool>,
}

impl Body {
    /// Reads the lines: `key = value`, or a subject alone.
    pub(crate) fn parse(text: &str) -> Result<Body, Error> {
        let mut body = Body {
            subjects: Vec::new(),
            entries: Vec::new(),
        };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.split_once(" = ") {
                Some((key, value)) => body.add(key.trim(), value.trim())?,
                None => body.subjects.push(line.to_string()),
            }
        }
        Ok(body)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), Error> {
        if self.entries.iter().any(|entry| entry.key == key) {
            return Err(Error::new(format!("the key `{key}` is given twice")));
        }
        self.entries.push(Entry {
            key: key.into(),
            value: value.into(),
            is_read: Cell::new(false),
        });
        Ok(())
    }

    /// What is drawn: the lines without a key, of which there is at least one.
    pub(crate) fn subjects(&self) -> Result<&[String], Error> {
        match self.subjects.as_slice() {
            [] => Err(Error::new(
                "the figure has no subject: write it on a line of its own",
            )),
            subjects => Ok(subjects),
        }
    }

    /// The value of `key`, if the fence gives it.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        entry.is_read.set(true);
        Some(&entry.value)
    }

    /// The text below the drawing.
    pub(crate) fn caption(&self) -> Option<&str> {
        self.value("caption")
    }

    /// The panel of the explorer that takes the figure's place, and its fields, as an address of the explorer's page has
    /// them after the `#`. The panel must have an answer.
    pub(crate) fn live(&self) -> Result<Option<String>, Error> {
        let Some(text) = self.value("live") else {
            return Ok(None);
        };
        let mut parts = text.split("; ");
        let panel = parts.next().unwrap_or_default();
        let mut fields = vec![("panel", panel)];
        for part in parts {
            let field = part.split_once(" = ").ok_or_else(|| {
                Error::new(format!("`{part}` is not a field such as `a = (4,8):(8,1)`"))
            })?;
            fields.push(field);
        }
        let request: BTreeMap<&str, &str> = fields.iter().copied().collect();
        let request = json!(request).to_string();
        let answer: Json = serde_json::from_str(&colex_explorer::answer(&request))?;
        if let Some(sentence) = answer["error"].as_str() {
            return Err(Error::new(format!(
                "the explorer refuses `{text}`: {sentence}"
            )));
        }
        let parts = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)));
        Ok(Some(parts.collect::<Vec<_>>().join("&")))
    }

    /// Refuses a key that no drawing asked for: it is misspelt, or belongs to another kind.
    pub(crate) fn refuse_unread(&self) -> Result<(), Error> {
        self.caption();
        match self.entries.iter().find(|entry| !entry.is_read.get()) {
            Some(entry) => Err(Error::new(format!(
                "this kind of figure has no key `{}`",
                entry.key
            ))),
            None => Ok(()),
        }
    }
}

/// `text` as a value in an address (RFC 3986, section 2): all but unreserved characters are encoded.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn error(text: &str) -> String {
        Body::parse(text)
            .expect_err("the body is wrong")
            .to_string()
    }

    #[test]
    fn a_body_is_a_subject_and_keys() {
        let body = Body::parse("(4,8):(8,1)\n\ncaption = a = b\nlabels = index\n")
            .expect("the body is well formed");
        assert_eq!(body.subjects(), Ok(&["(4,8):(8,1)".to_string()][..]));
        assert_eq!(body.caption(), Some("a = b"));
        assert_eq!(body.value("labels"), Some("index"));
        assert_eq!(body.value("colour"), None);
        assert_eq!(body.refuse_unread(), Ok(()));
    }

    #[test]
    fn a_figure_names_its_panel() {
        let live = |text: &str| Body::parse(text).expect("the body is well formed").live();
        assert_eq!(live("4:1"), Ok(None));
        assert_eq!(
            live("live = algebra; operation = composition; a = (6,2):(8,2); b = 4:1"),
            Ok(Some(
                "panel=algebra&operation=composition&a=%286%2C2%29%3A%288%2C2%29&b=4%3A1"
                    .to_string()
            ))
        );
        assert_eq!(
            live("live = layout; layout"),
            Err(Error::new(
                "`layout` is not a field such as `a = (4,8):(8,1)`"
            ))
        );
        assert_eq!(
            live("live = picture; layout = 4:1"),
            Err(Error::new(
                "the explorer refuses `picture; layout = 4:1`: there is no panel `picture`"
            ))
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(error("a = 1\na = 2"), "the key `a` is given twice");
        let body = Body::parse("captoin = x").expect("the body is well formed");
        assert_eq!(
            body.refuse_unread(),
            Err(Error::new("this kind of figure has no key `captoin`"))
        );
        let sentence = "the figure has no subject: write it on a line of its own";
        assert_eq!(body.subjects(), Err(Error::new(sentence)));
    }
}
