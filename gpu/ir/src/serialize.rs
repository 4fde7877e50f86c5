//! Feature `serde`: findings and places as data.

use std::panic::Location;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::verify::{Diagnostic, Refused};

/// Writes the call of a builder as the fields `file`, `line` and `column`, counted from 1.
///
/// # Errors
///
/// Returns the errors of the serialiser.
pub fn place<S: Serializer>(at: &&'static Location<'static>, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_struct("Place", 3)?;
    fields.serialize_field("file", at.file())?;
    fields.serialize_field("line", &at.line())?;
    fields.serialize_field("column", &at.column())?;
    fields.end()
}

/// `sentence`, `file`, `line` and `column`.
impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Diagnostic", 4)?;
        fields.serialize_field("sentence", &self.problem.to_string())?;
        fields.serialize_field("file", self.at.file())?;
        fields.serialize_field("line", &self.at.line())?;
        fields.serialize_field("column", &self.at.column())?;
        fields.end()
    }
}

/// `kernel`, `sentence` and `diagnostics`.
impl Serialize for Refused {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Refused", 3)?;
        fields.serialize_field("kernel", self.kernel())?;
        fields.serialize_field("sentence", &self.to_string())?;
        fields.serialize_field("diagnostics", self.diagnostics())?;
        fields.end()
    }
}
