//! `figure bench`: the numbers of a bench on a GPU, as bars.
//!
//! The subject is a file of `gpu/bench`, which `cargo xtask bench NAME --json FILE` wrote: `copy.json`. Keys:
//! - `group`: draw only this group of the file.
//!
//! The longest bar of a group is the most; each says its value and its ratio to the group's first row. What is measured
//! against, the first row and others whose names begin with the same word, is gray.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::{Body, Error, escaped};
use crate::workspace;

/// Units of the drawing: the names' column, the longest bar, a row's height.
const NAMES: f64 = 300.0;
const LONGEST: f64 = 300.0;
const ROW: f64 = 22.0;
const WIDTH: f64 = NAMES + LONGEST + 150.0;

pub(super) fn draw(body: &Body) -> Result<String, Error> {
    let [file] = body.subjects()? else {
        return Err(Error::new(
            "the figure has one subject, a file of gpu/bench",
        ));
    };
    let root = workspace::root().map_err(|error| Error::new(error.to_string()))?;
    let path = root.join("gpu/bench").join(file);
    let text = fs::read_to_string(&path)
        .map_err(|error| Error::new(format!("gpu/bench/{file} cannot be read: {error}")))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Error::new(format!("gpu/bench/{file} is not JSON: {error}")))?;
    bars(&value, body.value("group"))
}

/// One chart under the other.
fn bars(value: &Value, only: Option<&str>) -> Result<String, Error> {
    let groups = value["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let wanted = |group: &&Value| only.is_none_or(|only| group["title"] == only);
    let groups: Vec<&Value> = groups.iter().filter(wanted).collect();
    if groups.is_empty() {
        return Err(Error::new(match only {
            Some(only) => format!("the file has no group `{only}`"),
            None => "the file has no groups".to_string(),
        }));
    }
    let unit = value["unit"].as_str().unwrap_or_default();
    let (mut inner, mut y) = (String::new(), 4.0);
    let mut words = Vec::new();
    for group in groups {
        y = chart(&mut inner, group, unit, y)?;
        words.push(in_words(group, unit)?);
    }
    let title = escaped(value["bench"].as_str().unwrap_or("bench"));
    let source = ["device", "driver", "date"].map(|key| value[key].as_str().unwrap_or("?"));
    let foot = escaped(&source.join(", "));
    let height = y + ROW;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\
         <title>{title}</title><desc>{}</desc><style>.cx-text{{fill:light-dark(#222,#ddd)}}.cx-bar{{fill:light-dark(#4878a8,#7aa6d0)}}\
         .cx-base{{fill:light-dark(#b0b0b0,#707070)}}</style>{inner}\
         <text class=\"cx-text\" x=\"4\" y=\"{}\" font-size=\"11\">{foot}</text></svg>",
        escaped(&words.join(" ")),
        y + 14.0
    ))
}

/// A group for readers that cannot see its bars.
fn in_words(group: &Value, unit: &str) -> Result<String, Error> {
    let row = |row: &Value| {
        let name = row["name"].as_str().unwrap_or_default();
        Ok(format!(
            "{name}: {:.2} {unit}, {:.3} of the first",
            number(row, "value")?,
            number(row, "ratio")?
        ))
    };
    let rows: Result<Vec<String>, Error> = rows(group).iter().map(row).collect();
    let title = group["title"].as_str().unwrap_or_default();
    Ok(format!("{title}. {}.", rows?.join("; ")))
}

fn rows(group: &Value) -> &[Value] {
    group["rows"].as_array().map_or(&[][..], Vec::as_slice)
}

fn number(row: &Value, key: &str) -> Result<f64, Error> {
    row[key]
        .as_f64()
        .ok_or_else(|| Error::new(format!("a row has no number `{key}`")))
}

/// The rows of one group from `top` on; where it ends.
fn chart(out: &mut String, group: &Value, unit: &str, top: f64) -> Result<f64, Error> {
    let rows = rows(group);
    let values: Result<Vec<f64>, Error> = rows.iter().map(|row| number(row, "value")).collect();
    let most = values?.into_iter().fold(f64::MIN_POSITIVE, f64::max);
    let title = escaped(group["title"].as_str().unwrap_or_default());
    put(
        out,
        format_args!(
            "<text class=\"cx-text\" x=\"4\" y=\"{}\" font-weight=\"bold\">{title}</text>",
            top + 16.0
        ),
    );
    let mut y = top + ROW;
    for row in rows {
        let (value, ratio) = (number(row, "value")?, number(row, "ratio")?);
        let (name, length) = (
            escaped(row["name"].as_str().unwrap_or_default()),
            value / most * LONGEST,
        );
        let class = if maker(row) == maker(&rows[0]) {
            "cx-base"
        } else {
            "cx-bar"
        };
        put(
            out,
            format_args!(
                "<text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <rect class=\"{class}\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{:.1}\"/>\
             <text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\">{value:.2} {unit} ({ratio:.3})</text>",
                NAMES - 8.0,
                y + 15.0,
                y + 2.0,
                ROW - 4.0,
                NAMES + length + 6.0,
                y + 15.0
            ),
        );
        y += ROW;
    }
    Ok(y + 8.0)
}

/// The first word of a row's name: rows of what the first one is measure it too, `cuBLASLt, best of 8`.
fn maker(row: &Value) -> &str {
    let name = row["name"].as_str().unwrap_or_default();
    name.split([' ', ',']).next().unwrap_or_default()
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"bench": "copy", "unit": "TB/s", "device": "a GPU", "driver": "13.0", "date": "2026-11-20",
        "groups": [{"title": "2 GiB", "rows": [
            {"name": "memcpy", "value": 4.0, "ratio": 1.0}, {"name": "a <b>", "value": 2.0, "ratio": 0.5}]}]}"#;

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let svg = bars(&serde_json::from_str(FILE).expect("JSON"), None).expect("rows");
        assert!(svg.contains("class=\"cx-base\" x=\"300\" y=\"28.0\" width=\"300.0\""));
        assert!(svg.contains("class=\"cx-bar\" x=\"300\" y=\"50.0\" width=\"150.0\""));
        assert!(
            svg.contains("<desc>2 GiB. memcpy: 4.00 TB/s, 1.000 of the first; a &lt;b&gt;: 2.00")
        );
        assert!(svg.contains(">2.00 TB/s (0.500)</text>") && svg.contains(">a &lt;b&gt;</text>"));
    }

    #[test]
    fn what_is_measured_against_is_gray() {
        let row = |name: &str| serde_json::json!({"name": name, "value": 1.0, "ratio": 1.0});
        let rows = ["cuBLASLt, its choice", "cuBLASLt, best of 8", "Hopper"].map(row);
        let file = serde_json::json!({"groups": [{"title": "2048", "rows": rows}]});
        let svg = bars(&file, None).expect("rows");
        assert_eq!(svg.matches("class=\"cx-base\"").count(), 2);
        assert_eq!(svg.matches("class=\"cx-bar\"").count(), 1);
    }

    #[test]
    fn mistakes_are_sentences() {
        let file: Value = serde_json::from_str(FILE).expect("JSON");
        let error = bars(&file, Some("4 GiB"))
            .expect_err("there is none")
            .to_string();
        assert_eq!(error, "the file has no group `4 GiB`");
        let error = bars(&Value::Null, None)
            .expect_err("there are none")
            .to_string();
        assert_eq!(error, "the file has no groups");
    }
}
