//! What the bench wrote of drawn problems, line by line, or of chosen ones in one value, as drawings: the roofline, the plans that were chosen, and the ratios of
//! speeds to the best of a library where its times are there.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::super::product::recorded::{
    Panels, PlanShares, Roofline, geometric_mean, percentile, roofs,
};

/// A run as its file has it.
pub(in crate::bench) struct Recorded {
    /// The device, the driver and the date.
    source: String,
    /// The operations and bytes in a second at most, if they are known of the device.
    roofs: Option<[f64; 2]>,
    problems: Vec<RecordedProblem>,
}

/// A problem with its microseconds.
struct RecordedProblem {
    operations: f64,
    bytes: f64,
    /// The plan of the call, without the type of the elements.
    plan: String,
    /// Queries and keys of a sequence.
    lengths: [f64; 2],
    is_causal: bool,
    ours: f64,
    library: Option<f64>,
}

impl RecordedProblem {
    fn of(line: &Value) -> Option<RecordedProblem> {
        let problem = &line["problem"];
        let positive = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
        let times = line["library"].as_object()?.values();
        Some(RecordedProblem {
            operations: positive(&problem["operations"])?,
            bytes: positive(&problem["bytes"])?,
            plan: without_type(line["plan"].as_str()?),
            lengths: [
                positive(&problem["lengths"][0])?,
                positive(&problem["lengths"][1])?,
            ],
            is_causal: problem["right"] == 0,
            ours: positive(&line["us"])?,
            library: times.filter_map(positive).reduce(f64::min),
        })
    }

    /// Steps of decoding, and what more queries do.
    fn kind(&self) -> usize {
        match (self.lengths[0] > 8.0, self.is_causal) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }
}

/// A plan's words without the type of its elements: `Hopper bf16, features 64, ..` is `Hopper, features 64, ..`.
fn without_type(plan: &str) -> String {
    let (first, rest) = plan.split_once(',').unwrap_or((plan, ""));
    let method = first.split(' ').next().unwrap_or_default();
    if rest.is_empty() {
        method.to_string()
    } else {
        format!("{method},{rest}")
    }
}

const KINDS: [&str; 3] = [
    "up to 8 queries",
    "more queries, full mask",
    "more queries, causal or window",
];

impl Recorded {
    /// Reads a file: the value of chosen problems, or the lines of drawn ones. Problems without a time of ours are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or a line is not JSON, if the first line is not the head of such a run, or if no problem is left.
    pub(in crate::bench) fn parse(text: &str) -> Result<Recorded> {
        if let Ok(value) = serde_json::from_str::<Value>(text)
            && value["groups"].is_array()
        {
            return Recorded::of(&value);
        }
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let head: Value = serde_json::from_str(lines.next().unwrap_or_default())
            .context("the first line is not JSON")?;
        ensure!(
            head["bench"] == "attention"
                && head["protocol"].is_string()
                && head["groups"].is_null(),
            "the first line is not the head of `xtask bench attention` or of `attention_beside_cudnn.py --drawn`"
        );
        let mut problems = Vec::new();
        for (i, line) in lines.enumerate() {
            let value: Value = serde_json::from_str(line)
                .with_context(|| format!("line {} is not JSON", i + 2))?;
            problems.extend(RecordedProblem::of(&value));
        }
        Recorded::new(&head, problems)
    }

    /// Reads the report of chosen problems: the first plan of each, which is that of a call. A problem that is there twice is read once.
    ///
    /// # Errors
    ///
    /// Returns an error if it is the report of another bench, or if no problem is left.
    pub(in crate::bench) fn of(report: &Value) -> Result<Recorded> {
        let bench = &report["bench"];
        ensure!(
            bench == "attention",
            "the file is of the bench {bench}: what is drawn here is that of `xtask bench attention`"
        );
        let mut known: Vec<&Value> = Vec::new();
        let mut problems = Vec::new();
        for group in report["groups"].as_array().into_iter().flatten() {
            let (problem, usual) = (&group["problem"], &group["rows"][0]);
            if known.contains(&problem) {
                continue;
            }
            known.push(problem);
            let line = json!({
                "problem": problem, "plan": usual["name"], "us": usual["microseconds"], "library": {},
            });
            problems.extend(RecordedProblem::of(&line));
        }
        Recorded::new(report, problems)
    }

    /// The run with this head.
    fn new(head: &Value, problems: Vec<RecordedProblem>) -> Result<Recorded> {
        ensure!(!problems.is_empty(), "no problem was measured");
        let words = ["device", "driver", "library", "date"];
        let words: Vec<&str> = words.iter().filter_map(|key| head[*key].as_str()).collect();
        let device = head["device"].as_str().unwrap_or_default();
        Ok(Recorded {
            source: words.join(", "),
            roofs: device.contains("H200").then(|| roofs("bf16")).flatten(),
            problems,
        })
    }

    /// Writes `roofline.svg`, `plans.svg`, and `ratios.svg` if a library was measured, into a folder.
    pub(in crate::bench) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let always = [("roofline", self.roofline()), ("plans", self.plans())];
        let ratios = self.ratios().map(|svg| ("ratios", svg));
        for (name, svg) in always.into_iter().chain(ratios) {
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, svg + "\n")
                .with_context(|| format!("{} cannot be written", path.display()))?;
            println!("{}", path.display());
        }
        Ok(())
    }

    /// The operations in a second of each problem over its operations for each byte, ours and the library's best.
    fn roofline(&self) -> String {
        let speed = |of: &RecordedProblem, time: f64| of.operations / time / 1e6;
        let points = self.problems.iter().map(|of| {
            let library = of.library.map(|time| speed(of, time));
            (of.operations / of.bytes, library, speed(of, of.ours))
        });
        Roofline {
            what: "problems",
            axes: [
                "TFLOP/s: ours in blue, the library's best in gray",
                "operations for each byte of Q, K, V and O",
            ],
            roofs: self.roofs,
            points: points.collect(),
        }
        .svg(&self.source)
    }

    /// The plans that were chosen, those of the most problems first: for each the number of its problems, their lengths, and the
    /// geometric means of our speeds and of the ratios to the library's best.
    fn plans(&self) -> String {
        let mut by_plan: BTreeMap<&str, Vec<&RecordedProblem>> = BTreeMap::new();
        for problem in &self.problems {
            by_plan.entry(&problem.plan).or_default().push(problem);
        }
        let mut by_plan: Vec<_> = by_plan.into_iter().collect();
        by_plan.sort_by_key(|(_, these)| std::cmp::Reverse(these.len()));
        let mut shares = PlanShares::new(by_plan.first().map_or(0, |(_, these)| these.len()));
        for (plan, these) in by_plan {
            let ends = |i: usize| {
                let lengths = these.iter().map(|of| of.lengths[i]);
                let least = lengths.clone().fold(f64::INFINITY, f64::min);
                format!("{least} to {}", lengths.fold(0.0, f64::max))
            };
            let speeds = these.iter().map(|of| of.operations / of.ours / 1e6);
            let mut said = format!(
                "{} queries, {} keys, {:.1} TFLOP/s",
                ends(0),
                ends(1),
                geometric_mean(&speeds.collect::<Vec<f64>>())
            );
            let ratios = these.iter().filter_map(|of| Some(of.library? / of.ours));
            let ratios: Vec<f64> = ratios.collect();
            if !ratios.is_empty() {
                let mean = geometric_mean(&ratios);
                said += &format!(", {mean:.3} of the library in {}", ratios.len());
            }
            shares.add(plan, these.len(), &said);
        }
        shares.svg("The plans that were chosen", &self.source)
    }

    /// The histogram of the ratios of speeds, a panel for each kind of problem; `None` if no library was measured.
    fn ratios(&self) -> Option<String> {
        let mut panels = Panels::new();
        for (at, name) in KINDS.into_iter().enumerate() {
            let these = self.problems.iter().filter(|of| of.kind() == at);
            let ratios: Vec<f64> = these.filter_map(|of| Some(of.library? / of.ours)).collect();
            if ratios.is_empty() {
                continue;
            }
            let said = format!(
                "{name}: {} problems, geometric mean {:.3}, 1st percentile {:.3}",
                ratios.len(),
                geometric_mean(&ratios),
                percentile(&ratios, 1)
            );
            panels.add(said, [&ratios, &[]]);
        }
        let title = "Ratios of speeds: ours over the best of the library";
        (!panels.is_empty()).then(|| panels.svg(title, &self.source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of four problems, of which the library was measured for two.
    const KEPT: &str = include_str!("recorded_sample.jsonl");

    #[test]
    fn ratios_are_counted_by_kind() {
        let svg = Recorded::parse(KEPT).expect("a run").ratios();
        let svg = svg.expect("a library was measured");
        for said in [
            "up to 8 queries: 1 problems, geometric mean 0.500, 1st percentile 0.500",
            "more queries, causal or window: 1 problems, geometric mean 1.250, 1st percentile 1.250",
        ] {
            assert!(svg.contains(said), "{svg}");
        }
        assert!(!svg.contains("full mask"), "the library has no such time");
        assert!(
            svg.ends_with("NVIDIA H200, 13.0, cuDNN 9, 2026-11-26</text></svg>"),
            "{svg}"
        );
    }

    #[test]
    fn a_roofline_has_a_point_for_each_time() {
        let svg = Recorded::parse(KEPT).expect("a run").roofline();
        assert_eq!(svg.matches("<circle").count(), 5);
        assert!(
            svg.contains("3 problems; the roof is 4.8 TB/s and 989 TFLOP/s"),
            "{svg}"
        );
        let times = ["25.0", "30.0", "200.0"];
        let alone = times
            .iter()
            .fold(KEPT.to_string(), |text, time| text.replace(time, "null"));
        let alone = Recorded::parse(&alone).expect("a run");
        assert_eq!(alone.roofline().matches("<circle").count(), 3);
        assert!(alone.ratios().is_none());
    }

    /// Every plan that was measured has a bar, the one of the most problems first and whole, with what is said of its problems.
    #[test]
    fn the_chosen_plans_are_drawn() {
        let plan = "Hopper bf16, features 64, tile 192x128, 3 consumers, 2 stages, in turns, 2 tiles of queries, and more words";
        let text = KEPT.replace("\"two\"", &format!("\"{plan}\""));
        let text = text.replace("\"three\"", &format!("\"{}\"", plan.replace("bf16", "f16")));
        let svg = Recorded::parse(&text).expect("a run").plans();
        assert_eq!(svg.matches("<rect class=\"cx-bar\"").count(), 2, "{svg}");
        let both = svg
            .find("2: Hopper, features 64, tile 192x128")
            .expect("a plan");
        let one = svg.find(
            "1: one; 1 to 1 queries, 8192 to 8192 keys, 8.0 TFLOP/s, 0.500 of the library in 1",
        );
        assert!(both < one.expect("another plan"), "{svg}");
        assert!(svg.contains("4096 to 4096 queries"), "{svg}");
        assert!(
            svg.contains("width=\"696.0\"") && svg.contains("width=\"348.0\""),
            "{svg}"
        );
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let said = |text: &str| match Recorded::parse(text) {
            Ok(_) => "it is taken".to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(""), "the first line is not JSON");
        let of_another = "the first line is not the head of `xtask bench attention` or of `attention_beside_cudnn.py --drawn`";
        assert_eq!(said("{\"bench\": \"gemm\"}"), of_another);
        let chosen = "{\"bench\": \"attention\", \"protocol\": \"\", \"groups\": []}";
        assert_eq!(said(chosen), "no problem was measured");
        assert_eq!(
            said(&chosen.replace("attention", "decode")),
            "the file is of the bench \"decode\": what is drawn here is that of `xtask bench attention`"
        );
        let head = KEPT.lines().next().expect("a head");
        assert_eq!(said(head), "no problem was measured");
        assert_eq!(said(&format!("{head}\nm")), "line 2 is not JSON");
    }
}
