//! The lines of a figure's fence.

use std::cell::Cell;

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
