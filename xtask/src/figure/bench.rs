//! `figure bench`: the numbers of a bench on a GPU, as bars.
//!
//! The subject is a file of `gpu/bench`, which `cargo xtask bench NAME FILE` wrote: `copy.json`. Keys:
//! - `group`: draw only this group of the file;
//! - `runs`: another file of `gpu/bench`, with the ratios of every recorded run by group and row.
//!
//! The longest bar of a group is the most; each says its value and its ratio to the group's first row, or over several
//! runs the least and the largest ratio, between which a line stands across the end of the bar. What is measured
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
const WIDTH: f64 = NAMES + LONGEST + 290.0;

pub(super) fn draw(body: &Body) -> Result<String, Error> {
    let [file] = body.subjects()? else {
        return Err(Error::new(
            "the figure has one subject, a file of gpu/bench",
        ));
    };
    let runs = body
        .value("runs")
        .map(read)
        .transpose()?
        .unwrap_or_default();
    bars(&read(file)?, &runs, body.value("group"))
}

pub(super) fn read(file: &str) -> Result<Value, Error> {
    let root = workspace::root().map_err(|error| Error::new(error.to_string()))?;
    let path = root.join("gpu/bench").join(file);
    let text = fs::read_to_string(&path)
        .map_err(|error| Error::new(format!("gpu/bench/{file} cannot be read: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| Error::new(format!("gpu/bench/{file} is not JSON: {error}")))
}

/// The least and the largest ratio of a row over the recorded runs, and how many runs have it.
fn range(runs: &Value, group: &Value, row: &Value) -> Option<(f64, f64, usize)> {
    let (group, name) = (group["title"].as_str()?, row["name"].as_str()?);
    let runs = runs["runs"].as_array()?.iter();
    let ratios: Vec<f64> = runs
        .filter_map(|run| run["ratios"][group][name].as_f64())
        .collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    Some((least, most, ratios.len()))
}

/// A row's ratio to the first, in words: a range where there were several runs.
fn share(runs: &Value, group: &Value, row: &Value) -> Result<String, Error> {
    Ok(match range(runs, group, row) {
        Some((least, most, count)) if count > 1 => {
            format!("{least:.3} to {most:.3}, {count} runs")
        }
        _ => format!("{:.3}", number(row, "ratio")?),
    })
}

/// One chart under the other.
fn bars(value: &Value, runs: &Value, only: Option<&str>) -> Result<String, Error> {
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
        y = chart(&mut inner, group, runs, unit, y)?;
        words.push(in_words(group, runs, unit)?);
    }
    let title = escaped(value["bench"].as_str().unwrap_or("bench"));
    let source = ["device", "driver", "date"].map(|key| value[key].as_str().unwrap_or("?"));
    let foot = escaped(&source.join(", "));
    let height = y + ROW;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\
         <title>{title}</title><desc>{}</desc><style>.cx-text{{fill:light-dark(#222,#ddd)}}.cx-bar{{fill:light-dark(#4878a8,#7aa6d0)}}\
         .cx-base{{fill:light-dark(#b0b0b0,#707070)}}.cx-range{{fill:none;stroke:light-dark(#222,#eee);stroke-width:1.5}}</style>{inner}\
         <text class=\"cx-text\" x=\"4\" y=\"{}\" font-size=\"11\">{foot}</text></svg>",
        escaped(&words.join(" ")),
        y + 14.0
    ))
}

/// A group for readers that cannot see its bars.
fn in_words(group: &Value, runs: &Value, unit: &str) -> Result<String, Error> {
    let row = |row: &Value| {
        let name = row["name"].as_str().unwrap_or_default();
        Ok(format!(
            "{name}: {:.2} {unit}, {} of the first",
            number(row, "value")?,
            share(runs, group, row)?
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
fn chart(
    out: &mut String,
    group: &Value,
    runs: &Value,
    unit: &str,
    top: f64,
) -> Result<f64, Error> {
    let rows = rows(group);
    let values: Result<Vec<f64>, Error> = rows.iter().map(|row| number(row, "value")).collect();
    let values = values?;
    let base = values.first().copied().unwrap_or_default();
    let ranges: Vec<_> = rows.iter().map(|row| range(runs, group, row)).collect();
    let highest = ranges.iter().flatten().map(|(_, most, _)| base * most);
    let most = values
        .iter()
        .copied()
        .chain(highest)
        .fold(f64::MIN_POSITIVE, f64::max);
    let title = escaped(group["title"].as_str().unwrap_or_default());
    put(
        out,
        format_args!(
            "<text class=\"cx-text\" x=\"4\" y=\"{}\" font-weight=\"bold\">{title}</text>",
            top + 16.0
        ),
    );
    let mut y = top + ROW;
    for (row, range) in rows.iter().zip(ranges) {
        let value = number(row, "value")?;
        let share = share(runs, group, row)?;
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
             <text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\">{value:.2} {unit} ({share})</text>",
                NAMES - 8.0,
                y + 15.0,
                y + 2.0,
                ROW - 4.0,
                NAMES
                    + range.map_or(length, |(_, high, _)| length
                        .max(base * high / most * LONGEST))
                    + 6.0,
                y + 15.0
            ),
        );
        if let Some((least, high, _)) = range.filter(|(.., count)| *count > 1) {
            let [from, to] = [least, high].map(|ratio| NAMES + base * ratio / most * LONGEST);
            let (middle, top, bottom) = (y + 11.0, y + 6.0, y + 16.0);
            put(
                out,
                format_args!(
                    "<path class=\"cx-range\" d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {top:.1}V{bottom:.1}M{to:.1} {top:.1}V{bottom:.1}\"/>"
                ),
            );
        }
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
        let svg = bars(
            &serde_json::from_str(FILE).expect("JSON"),
            &Value::Null,
            None,
        )
        .expect("rows");
        assert!(svg.contains("class=\"cx-base\" x=\"300\" y=\"28.0\" width=\"300.0\""));
        assert!(svg.contains("class=\"cx-bar\" x=\"300\" y=\"50.0\" width=\"150.0\""));
        assert!(
            svg.contains("<desc>2 GiB. memcpy: 4.00 TB/s, 1.000 of the first; a &lt;b&gt;: 2.00")
        );
        assert!(svg.contains(">2.00 TB/s (0.500)</text>") && svg.contains(">a &lt;b&gt;</text>"));
    }

    #[test]
    fn several_runs_are_a_line_across_the_end_of_the_bar() {
        let file: Value = serde_json::from_str(FILE).expect("JSON");
        let run = |ratio: f64| serde_json::json!({"ratios": {"2 GiB": {"a <b>": ratio}}});
        let runs = serde_json::json!({"runs": [run(0.4), run(0.75)]});
        let svg = bars(&file, &runs, None).expect("rows");
        assert!(
            svg.contains("M420.0 59.0H525.0M420.0 54.0V64.0M525.0 54.0V64.0"),
            "{svg}"
        );
        assert!(svg.contains(">2.00 TB/s (0.400 to 0.750, 2 runs)</text>"));
        assert!(svg.contains("a &lt;b&gt;: 2.00 TB/s, 0.400 to 0.750, 2 runs of the first."));
        let once = bars(&file, &serde_json::json!({"runs": [run(0.4)]}), None).expect("rows");
        assert!(once.contains("(0.500)") && !once.contains("cx-range\" d"));
    }

    #[test]
    fn what_is_measured_against_is_gray() {
        let row = |name: &str| serde_json::json!({"name": name, "value": 1.0, "ratio": 1.0});
        let rows = ["cuBLASLt, its choice", "cuBLASLt, best of 8", "Hopper"].map(row);
        let file = serde_json::json!({"groups": [{"title": "2048", "rows": rows}]});
        let svg = bars(&file, &Value::Null, None).expect("rows");
        assert_eq!(svg.matches("class=\"cx-base\"").count(), 2);
        assert_eq!(svg.matches("class=\"cx-bar\"").count(), 1);
    }

    #[test]
    fn mistakes_are_sentences() {
        let file: Value = serde_json::from_str(FILE).expect("JSON");
        let error = bars(&file, &Value::Null, Some("4 GiB"))
            .expect_err("there is none")
            .to_string();
        assert_eq!(error, "the file has no group `4 GiB`");
        let error = bars(&Value::Null, &Value::Null, None)
            .expect_err("there are none")
            .to_string();
        assert_eq!(error, "the file has no groups");
    }
}
