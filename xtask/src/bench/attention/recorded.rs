//! What the bench of drawn problems wrote, line by line, as two drawings: the roofline, and the ratios of speeds to the best of a
//! library where its times are there.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::product::recorded::{Panels, Roofline, geometric_mean, percentile, roofs};

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
    /// Queries of a sequence.
    queries: f64,
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
            queries: positive(&problem["lengths"][0])?,
            is_causal: problem["right"] == 0,
            ours: positive(&line["us"])?,
            library: times.filter_map(positive).reduce(f64::min),
        })
    }

    /// Steps of decoding, and what more queries do.
    fn kind(&self) -> usize {
        match (self.queries > 8.0, self.is_causal) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => 2,
        }
    }
}

const KINDS: [&str; 3] = [
    "up to 8 queries",
    "more queries, full mask",
    "more queries, causal or window",
];

impl Recorded {
    /// Reads the lines of a file. Problems without a time of ours are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if a line is not JSON, if the first is not the head of such a run, or if no problem is left.
    pub(in crate::bench) fn parse(text: &str) -> Result<Recorded> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let head: Value = serde_json::from_str(lines.next().unwrap_or_default())
            .context("the first line is not JSON")?;
        ensure!(
            head["bench"] == "attention"
                && head["protocol"].is_string()
                && head["groups"].is_null(),
            "the first line is not the head of `xtask bench attention --random` or of `attention_beside_cudnn.py --drawn`"
        );
        let words = ["device", "driver", "library", "date"];
        let words: Vec<&str> = words.iter().filter_map(|key| head[*key].as_str()).collect();
        let mut problems = Vec::new();
        for (i, line) in lines.enumerate() {
            let value: Value = serde_json::from_str(line)
                .with_context(|| format!("line {} is not JSON", i + 2))?;
            problems.extend(RecordedProblem::of(&value));
        }
        ensure!(!problems.is_empty(), "no problem was measured");
        let device = head["device"].as_str().unwrap_or_default();
        Ok(Recorded {
            source: words.join(", "),
            roofs: device.contains("H200").then(|| roofs("bf16")).flatten(),
            problems,
        })
    }

    /// Writes `roofline.svg`, and `ratios.svg` if a library was measured, into a folder.
    pub(in crate::bench) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let roofline = Some(("roofline", self.roofline()));
        let ratios = self.ratios().map(|svg| ("ratios", svg));
        for (name, svg) in roofline.into_iter().chain(ratios) {
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

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let said = |text: &str| match Recorded::parse(text) {
            Ok(_) => "it is taken".to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(""), "the first line is not JSON");
        let of_another = "the first line is not the head of `xtask bench attention --random` or of `attention_beside_cudnn.py --drawn`";
        assert_eq!(said("{\"bench\": \"gemm\"}"), of_another);
        // What `xtask bench attention FILE` writes for chosen problems.
        let chosen = "{\"bench\": \"attention\", \"protocol\": \"\", \"groups\": []}";
        assert_eq!(said(chosen), of_another);
        let head = KEPT.lines().next().expect("a head");
        assert_eq!(said(head), "no problem was measured");
        assert_eq!(said(&format!("{head}\nm")), "line 2 is not JSON");
    }
}
