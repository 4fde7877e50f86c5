//! The fields of a request, and the limits that come before any work.

use std::collections::BTreeMap;

/// The longest request, in bytes.
pub const MAX_REQUEST: usize = 1 << 14;
/// The longest text of one field, in bytes.
pub const MAX_TEXT: usize = 1000;

/// A sentence for the reader instead of an answer.
pub(crate) type Sentence = String;

/// The fields of a request.
#[derive(Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// Returns a sentence for a request that is too long or no object of texts, and for a text that is too long.
    pub(crate) fn read(request: &str) -> Result<Self, Sentence> {
        if request.len() > MAX_REQUEST {
            return Err(format!(
                "the texts have {} bytes together; the explorer reads {MAX_REQUEST} at most",
                request.len()
            ));
        }
        let fields: BTreeMap<String, String> = serde_json::from_str(request)
            .map_err(|error| format!("the request is no JSON object of texts: {error}"))?;
        match fields.iter().find(|(_, text)| text.len() > MAX_TEXT) {
            Some((name, text)) => Err(format!(
                "the field `{name}` has {} bytes; the explorer reads {MAX_TEXT} at most",
                text.len()
            )),
            None => Ok(Self(fields)),
        }
    }

    /// Returns the text of a field without blanks at its ends; a field that is missing is empty.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |text| text.trim())
    }
}
