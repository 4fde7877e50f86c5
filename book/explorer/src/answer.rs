//! From a request to its answer.

use serde_json::{Value as Json, json};

use crate::fields::{Fields, Sentence};
use crate::panel;
use crate::view::{Reply, palette};

/// Returns the answer to a request, as one JSON object: `reply` or `error`.
#[must_use]
pub fn answer(request: &str) -> String {
    match answered(request) {
        Ok(reply) => json!({ "reply": reply }).to_string(),
        Err(sentence) => refused(&sentence),
    }
}

/// The answer that is a sentence.
pub(crate) fn refused(sentence: &str) -> String {
    json!({ "error": sentence }).to_string()
}

fn answered(request: &str) -> Result<Json, Sentence> {
    let fields = Fields::read(request)?;
    let reply: Reply = match fields.text("panel") {
        "layout" => panel::layout::reply(&fields)?,
        "algebra" => panel::algebra::reply(&fields)?,
        "atom" => panel::atom::reply(&fields)?,
        "swizzle" => panel::swizzle::reply(&fields)?,
        "copy" => panel::tiled::copy(&fields)?,
        "mma" => panel::tiled::mma(&fields)?,
        "schedule" => panel::schedule::reply(&fields)?,
        "pipeline" => panel::pipeline::reply(&fields)?,
        "tma" => panel::tma::reply(&fields)?,
        "descriptor" => panel::descriptor::reply(&fields)?,
        "kernel" => panel::kernel::reply(&fields)?,
        "paste" => return panel::paste::read_text(&fields),
        "atoms" => return panel::table::list(fields.text("query")),
        "palette" => return Ok(Json::from(palette())),
        other => return Err(format!("there is no panel `{other}`")),
    };
    Ok(reply.json())
}
