//! What a sweep of products wrote, line by line, as two drawings: the ratios of speeds to cuBLASLt's best by stratum, and the
//! roofline.

use std::fmt::{self, Write as _};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The bounds of microseconds between strata, and their names.
pub(super) const STRATA: [f64; 2] = [5.0, 50.0];
pub(super) const STRATUM_NAMES: [&str; 3] = ["below 5 us", "5 to 50 us", "above 50 us"];

/// A sweep as its file has it.
pub(crate) struct Recorded {
    /// The device, the driver, the date and the types.
    source: String,
    /// The operations and bytes in a second at most, if they are known of the device and the types.
    roofs: Option<[f64; 2]>,
    /// The bytes of an element of A or B, and of C.
    bytes: [f64; 2],
    shapes: Vec<RecordedShape>,
}

/// A shape and its microseconds.
struct RecordedShape {
    extents: [f64; 3],
    best: f64,
    default: f64,
    tuned: Option<f64>,
}

impl RecordedShape {
    fn operations(&self) -> f64 {
        2.0 * self.extents.iter().product::<f64>()
    }

    /// The bytes of A, B and C, each once.
    fn bytes(&self, [ab, c]: [f64; 2]) -> f64 {
        let [m, n, k] = self.extents;
        (m * k + n * k) * ab + m * n * c
    }
}

impl Recorded {
    /// Reads the lines of a file. Shapes that were measured again, and those that the default plan or cuBLASLt did not take,
    /// are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if a line is not JSON, if the first is not the head of a sweep, or if no shape is left.
    pub(crate) fn parse(text: &str) -> Result<Recorded> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let head: Value = serde_json::from_str(lines.next().unwrap_or_default())
            .context("the first line is not JSON")?;
        ensure!(
            head["bench"] == "gemm" && head["types"].is_array(),
            "the first line is not the head of `xtask bench gemm --shapes` or `--random`"
        );
        let types = [0, 1].map(|i| head["types"][i].as_str().unwrap_or("?").to_string());
        let bytes = [0, 1].map(|i| bytes_of(&types[i]));
        let device = head["device"].as_str().unwrap_or("?");
        let words = ["device", "driver", "date"].map(|key| head[key].as_str().unwrap_or("?"));
        let mut shapes = Vec::new();
        for (i, line) in lines.enumerate() {
            let value: Value = serde_json::from_str(line)
                .with_context(|| format!("line {} is not JSON", i + 2))?;
            if value["again"] != true {
                shapes.extend(shape(&value));
            }
        }
        ensure!(!shapes.is_empty(), "no shape was measured");
        Ok(Recorded {
            source: format!("{} to {}; {}", types[0], types[1], words.join(", ")),
            roofs: device.contains("H200").then(|| roofs(&types[0])).flatten(),
            bytes,
            shapes,
        })
    }

    /// Returns the histogram of the ratios of speeds, a panel for each stratum: bars for the default plan, a line for the tuned
    /// one.
    pub(crate) fn ratios(&self) -> String {
        let mut panels = Panels::new();
        for (at, name) in STRATUM_NAMES.into_iter().enumerate() {
            let of = |shape: &&RecordedShape| stratum(shape.best) == at;
            let these: Vec<&RecordedShape> = self.shapes.iter().filter(of).collect();
            if these.is_empty() {
                continue;
            }
            let ratios = |time: &dyn Fn(&RecordedShape) -> Option<f64>| -> Vec<f64> {
                let ratio = |shape: &&RecordedShape| Some(shape.best / time(shape)?);
                these.iter().filter_map(ratio).collect()
            };
            let default = ratios(&|shape| Some(shape.default));
            let tuned = ratios(&|shape| shape.tuned);
            let said = format!(
                "cuBLASLt {name}: {} shapes, geometric mean {:.3}, 1st percentile {:.3}{}",
                default.len(),
                geometric_mean(&default),
                percentile(&default, 1),
                match &tuned[..] {
                    [] => String::new(),
                    all => format!(", tuned {:.3}", geometric_mean(all)),
                }
            );
            panels.add(said, [&default, &tuned]);
        }
        let title = "Ratios of speeds: ours over the best of cuBLASLt";
        panels.svg(title, &self.source)
    }

    /// Returns the roofline: the operations in a second of each shape over its operations for each byte, ours and cuBLASLt's
    /// best.
    pub(crate) fn roofline(&self) -> String {
        let speed = |shape: &RecordedShape, time: f64| shape.operations() / time / 1e6;
        let points = self.shapes.iter().map(|shape| {
            let dense = shape.operations() / shape.bytes(self.bytes);
            (
                dense,
                Some(speed(shape, shape.best)),
                speed(shape, shape.default),
            )
        });
        Roofline {
            what: "shapes",
            axes: [
                "TFLOP/s: ours in blue, the best of cuBLASLt in gray",
                "operations for each byte of A, B and C",
            ],
            roofs: self.roofs,
            points: points.collect(),
        }
        .svg(&self.source)
    }
}

/// Histograms of ratios under each other.
pub(in crate::bench) struct Panels {
    inner: String,
    words: Vec<String>,
    top: f64,
}

impl Panels {
    pub(in crate::bench) fn new() -> Panels {
        Panels {
            inner: String::new(),
            words: Vec::new(),
            top: 6.0,
        }
    }

    /// Adds a histogram under its words: bars for the first ratios, a line for the second ones, if there are any.
    pub(in crate::bench) fn add(&mut self, said: String, ratios: [&[f64]; 2]) {
        panel(&mut self.inner, &said, ratios, self.top);
        self.words.push(said);
        self.top += PANEL + 52.0;
    }

    pub(in crate::bench) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the drawing.
    pub(in crate::bench) fn svg(&self, title: &str, source: &str) -> String {
        svg(title, &self.words.join(". "), &self.inner, source, self.top)
    }
}

/// How many problems have each of several plans, as bars under the words of the plans.
pub(in crate::bench) struct PlanShares {
    inner: String,
    words: Vec<String>,
    top: f64,
    /// The number of problems of the longest bar.
    most: usize,
}

/// The most characters of a line of a plan's words.
const LINE: usize = 92;

impl PlanShares {
    /// Builds a drawing whose longest bar stands for `most` problems.
    pub(in crate::bench) fn new(most: usize) -> PlanShares {
        PlanShares {
            inner: String::new(),
            words: Vec::new(),
            top: 6.0,
            most: most.max(1),
        }
    }

    /// Adds a plan with the number of its problems, and what is said of them.
    pub(in crate::bench) fn add(&mut self, plan: &str, count: usize, said: &str) {
        let mut lines = vec![String::new()];
        for word in format!("{count}: {plan}; {said}").split(' ') {
            let last = lines.last_mut().expect("invariant: there is a line");
            if last.len() + word.len() >= LINE {
                lines.push(word.to_string());
            } else {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(word);
            }
        }
        for line in &lines {
            self.top += 16.0;
            put(
                &mut self.inner,
                format_args!(
                    "<text class=\"cx-text\" x=\"8\" y=\"{:.1}\">{line}</text>",
                    self.top
                ),
            );
        }
        let width = (WIDTH - 24.0) * count as f64 / self.most as f64;
        put(
            &mut self.inner,
            format_args!(
                "<rect class=\"cx-bar\" x=\"8\" y=\"{:.1}\" width=\"{width:.1}\" height=\"6\"/>",
                self.top + 5.0
            ),
        );
        self.words.push(lines.join(" "));
        self.top += 18.0;
    }

    /// Returns the drawing.
    pub(in crate::bench) fn svg(&self, title: &str, source: &str) -> String {
        svg(
            title,
            &self.words.join(". "),
            &self.inner,
            source,
            self.top + 12.0,
        )
    }
}

/// Operations in a second over operations for each byte.
pub(in crate::bench) struct Roofline {
    /// What is counted.
    pub(in crate::bench) what: &'static str,
    /// The words beside the axis upwards and beside the one across.
    pub(in crate::bench) axes: [&'static str; 2],
    /// The operations and bytes in a second at most.
    pub(in crate::bench) roofs: Option<[f64; 2]>,
    /// Operations for each byte, and the TFLOP/s of the library, if it was measured, and of ours.
    pub(in crate::bench) points: Vec<(f64, Option<f64>, f64)>,
}

impl Roofline {
    /// Returns the drawing.
    pub(in crate::bench) fn svg(&self, source: &str) -> String {
        let mut inner = String::new();
        // A scale of logarithms has no place for 0 and for infinity, and powers of ten beyond these are one of them.
        let points = self.points.iter().filter(|(dense, library, ours)| {
            let mut numbers = [*dense, *ours].into_iter().chain(*library);
            numbers.all(|number| (1e-300..=1e300).contains(&number))
        });
        let points: Vec<_> = points.collect();
        let dense = points.iter().map(|(dense, ..)| *dense);
        let across = Scale::around(dense, [LEFT, WIDTH - 16.0]);
        let speeds = points
            .iter()
            .flat_map(|(_, library, ours)| library.iter().chain([ours]));
        let up = Scale::around(speeds.copied(), [ROOFLINE, 24.0]);
        for (scale, is_across) in [(&across, true), (&up, false)] {
            for tick in scale.ticks() {
                let at = scale.at(tick);
                let (line, x, y, anchor) = if is_across {
                    let line = format!("M{at:.1} 24V{ROOFLINE}");
                    (line, at, ROOFLINE + 16.0, "middle")
                } else {
                    let line = format!("M{LEFT} {at:.1}H{:.1}", WIDTH - 16.0);
                    (line, LEFT - 6.0, at + 4.0, "end")
                };
                put(
                    &mut inner,
                    format_args!(
                        "<path class=\"cx-grid\" d=\"{line}\"/><text class=\"cx-text\" x=\"{x:.1}\" y=\"{y:.1}\" \
                         text-anchor=\"{anchor}\">{tick}</text>"
                    ),
                );
            }
        }
        let mut words = format!("{} {}", points.len(), self.what);
        if let Some([operations, bytes]) = self.roofs {
            let roof = |x: f64| (x * bytes / 1e12).min(operations / 1e12);
            let ends = [across.from, operations / bytes, across.to];
            let points = ends.map(|x| {
                let x = x.clamp(across.from, across.to);
                format!(
                    "{:.1},{:.1}",
                    across.at(x),
                    up.at(roof(x)).clamp(24.0, ROOFLINE)
                )
            });
            put(
                &mut inner,
                format_args!(
                    "<polyline class=\"cx-roof\" points=\"{}\"/>",
                    points.join(" ")
                ),
            );
            let _ = write!(
                words,
                "; the roof is {:.1} TB/s and {:.0} TFLOP/s",
                bytes / 1e12,
                operations / 1e12
            );
        }
        for (dense, library, ours) in points {
            let library = library.map(|speed| ("cx-base", speed));
            for (class, speed) in library.into_iter().chain([("cx-bar", *ours)]) {
                put(
                    &mut inner,
                    format_args!(
                        "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.2\"/>",
                        across.at(*dense),
                        up.at(speed)
                    ),
                );
            }
        }
        let [upwards, along] = self.axes;
        put(
            &mut inner,
            format_args!(
                "<text class=\"cx-text\" x=\"4\" y=\"14\">{upwards}</text>\
                 <text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{along}</text>",
                WIDTH - 16.0,
                ROOFLINE + 34.0
            ),
        );
        svg("Roofline", &words, &inner, source, ROOFLINE + 40.0)
    }
}

/// The shape of a line, if all of its times are there.
fn shape(value: &Value) -> Option<RecordedShape> {
    // A time that was rounded to 0 says nothing.
    let positive = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
    let times = value["library"].as_array()?.iter().filter_map(positive);
    let best = times.reduce(f64::min)?;
    let ours = value["ours"].as_array()?;
    let tuned = ours.iter().find(|one| one["by"] == "tuned");
    let extent = |name: &str| positive(&value[name]);
    Some(RecordedShape {
        extents: [extent("m")?, extent("n")?, extent("k")?],
        best,
        default: positive(&ours.first()?["us"])?,
        tuned: tuned.and_then(|one| positive(&one["us"])),
    })
}

/// The bytes of an element of a type, by its name in Rust.
fn bytes_of(name: &str) -> f64 {
    match name {
        "i8" => 1.0,
        "bf16" | "f16" => 2.0,
        "f64" => 8.0,
        _ => 4.0,
    }
}

/// The operations and bytes in a second of NVIDIA's table of the H200 (dense).
pub(in crate::bench) fn roofs(ab: &str) -> Option<[f64; 2]> {
    let operations = match ab {
        "bf16" | "f16" => 989e12,
        "f32" => 495e12,
        "i8" => 1979e12,
        _ => return None,
    };
    Some([operations, 4.8e12])
}

/// The number of the stratum of a time of cuBLASLt's best.
pub(super) fn stratum(best: f64) -> usize {
    STRATA.iter().filter(|bound| best > **bound).count()
}

/// The geometric mean of some ratios.
pub(in crate::bench) fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// The ratio that a number of percent of them do not exceed.
pub(in crate::bench) fn percentile(ratios: &[f64], percent: usize) -> f64 {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[percent * (sorted.len() - 1) / 100]
}

/// Units of the drawings.
const WIDTH: f64 = 720.0;
const LEFT: f64 = 56.0;
const PANEL: f64 = 90.0;
const ROOFLINE: f64 = 380.0;

/// The bins of a histogram: eight for each doubling, from a quarter to four.
const BINS: usize = 32;

/// The bin of a ratio; the first and the last have what is beyond.
fn bin(ratio: f64) -> usize {
    let at = (ratio.log2() * 8.0).floor() + BINS as f64 / 2.0;
    at.clamp(0.0, BINS as f64 - 1.0) as usize
}

/// A histogram under its words, from `top` on.
fn panel(out: &mut String, said: &str, [default, tuned]: [&[f64]; 2], top: f64) {
    let counts = |ratios: &[f64]| {
        let mut counts = [0usize; BINS];
        ratios.iter().for_each(|ratio| counts[bin(*ratio)] += 1);
        counts.map(|count| count as f64 / ratios.len().max(1) as f64)
    };
    let [bars, line] = [counts(default), counts(tuned)];
    let most = bars
        .iter()
        .chain(&line)
        .copied()
        .fold(f64::MIN_POSITIVE, f64::max);
    let width = (WIDTH - LEFT - 16.0) / BINS as f64;
    let x = |at: usize| LEFT + at as f64 * width;
    let floor = top + 24.0 + PANEL;
    put(
        out,
        format_args!(
            "<text class=\"cx-text\" x=\"4\" y=\"{:.1}\">{said}</text>",
            top + 14.0
        ),
    );
    for (at, share) in bars
        .into_iter()
        .enumerate()
        .filter(|(_, share)| *share > 0.0)
    {
        let height = share / most * PANEL;
        put(
            out,
            format_args!(
                "<rect class=\"cx-bar\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                x(at) + 0.5,
                floor - height,
                width - 1.0
            ),
        );
    }
    if !tuned.is_empty() {
        let mut path = format!("M{LEFT} {floor:.1}");
        for (at, share) in line.into_iter().enumerate() {
            let _ = write!(
                path,
                "V{:.1}H{:.1}",
                floor - share / most * PANEL,
                x(at + 1)
            );
        }
        put(out, format_args!("<path class=\"cx-range\" d=\"{path}\"/>"));
    }
    // What the highest bar stands for, since its height is that of the panel.
    put(
        out,
        format_args!(
            "<text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
            LEFT - 6.0,
            floor - PANEL + 4.0,
            most * default.len() as f64
        ),
    );
    put(
        out,
        format_args!(
            "<path class=\"cx-grid\" d=\"M{:.1} {:.1}V{floor:.1}M{LEFT} {floor:.1}H{:.1}\"/>",
            x(BINS / 2),
            floor - PANEL,
            WIDTH - 16.0
        ),
    );
    for (at, name) in ["1/4", "1/2", "1", "2", "4"].into_iter().enumerate() {
        put(
            out,
            format_args!(
                "<text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                x(at * BINS / 4),
                floor + 15.0
            ),
        );
    }
}

/// A logarithmic scale between powers of ten, of numbers from 1e-300 to 1e300.
struct Scale {
    from: f64,
    to: f64,
    ends: [f64; 2],
}

impl Scale {
    fn around(values: impl Iterator<Item = f64>, ends: [f64; 2]) -> Scale {
        let ends_of = |(least, most): (f64, f64), (x, _): (f64, f64)| (least.min(x), most.max(x));
        let of_values = values.map(|x| (x, x)).reduce(ends_of);
        let (least, most) = of_values.unwrap_or((1.0, 10.0));
        let from = 10_f64.powf(least.log10().floor());
        let to = 10_f64.powf(most.log10().ceil()).max(10.0 * from);
        Scale { from, to, ends }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        self.ends[0] + share * (self.ends[1] - self.ends[0])
    }

    /// The powers of ten.
    fn ticks(&self) -> Vec<f64> {
        let [from, to] = [self.from, self.to].map(|end| end.log10().round() as i32);
        (from..=to).map(|power| 10_f64.powi(power)).collect()
    }
}

pub(super) fn svg(title: &str, words: &str, inner: &str, source: &str, end: f64) -> String {
    let height = end + 22.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {WIDTH} {height:.1}\" \
         width=\"{WIDTH}\" height=\"{height:.1}\" font-family=\"sans-serif\" font-size=\"12\">\
         <title>{title}</title><desc>{}</desc><style>.cx-text{{fill:light-dark(#222,#ddd)}}\
         .cx-bar{{fill:light-dark(#4878a8,#7aa6d0)}}.cx-base{{fill:light-dark(#b0b0b0,#707070)}}\
         .cx-range{{fill:none;stroke:light-dark(#222,#eee);stroke-width:1.5}}\
         .cx-grid{{fill:none;stroke:light-dark(#888,#888);stroke-width:0.5}}\
         .cx-roof{{fill:none;stroke:light-dark(#a03030,#e08080);stroke-width:1.5}}</style>{inner}\
         <text class=\"cx-text\" x=\"4\" y=\"{:.1}\" font-size=\"11\">{}</text></svg>",
        escaped(words),
        end + 14.0,
        escaped(source)
    )
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

pub(super) fn put(out: &mut String, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sweep of three shapes, one of them measured again.
    const KEPT: &str = include_str!("recorded_sample.jsonl");

    #[test]
    fn ratios_are_counted_by_stratum() {
        let svg = Recorded::parse(KEPT).expect("a sweep").ratios();
        let said = "cuBLASLt below 5 us: 1 shapes, geometric mean 0.800, 1st percentile 0.800, tuned 1.000";
        assert!(svg.contains(said), "{svg}");
        let said = "cuBLASLt above 50 us: 2 shapes, geometric mean 1.000, 1st percentile 0.500, tuned 1.414";
        assert!(svg.contains(said), "{svg}");
        assert!(!svg.contains("5 to 50"), "no shape is of that stratum");
        // Three shapes, two of which share no bin with another; the third, measured again, is not counted.
        assert_eq!(svg.matches("<rect class=\"cx-bar\"").count(), 3);
        assert_eq!(svg.matches("<path class=\"cx-range\"").count(), 2);
        assert!(svg.ends_with("bf16 to bf16; NVIDIA H200, 13.0, 2026-11-22</text></svg>"));
    }

    #[test]
    fn a_ratio_is_in_its_bin() {
        assert_eq!(
            [0.2, 0.25, 0.99, 1.0, 1.09, 3.99, 9.0].map(bin),
            [0, 0, 15, 16, 16, 31, 31]
        );
    }

    #[test]
    fn a_roofline_has_a_point_for_each_contender_and_the_roof_of_its_device() {
        let svg = Recorded::parse(KEPT).expect("a sweep").roofline();
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("3 shapes; the roof is 4.8 TB/s and 989 TFLOP/s"));
        assert_eq!(svg.matches("<polyline class=\"cx-roof\"").count(), 1);
        let other = KEPT.replace("NVIDIA H200", "another GPU");
        let svg = Recorded::parse(&other).expect("a sweep").roofline();
        assert!(!svg.contains("<polyline") && svg.contains("<desc>3 shapes</desc>"));
    }

    #[test]
    fn times_that_no_scale_has_are_left_out() {
        let mut lines: Vec<&str> = KEPT.lines().collect();
        let of = |library: &str, us: &str, m: &str| {
            format!(
                "{{\"m\": {m}, \"n\": 8, \"k\": 8, \"library\": {library}, \"ours\": [{{\"plan\": \"p\", \"us\": {us}}}]}}"
            )
        };
        // Rounded to 0, negative, none, and a negative extent.
        let others = [
            of("[0.0]", "1.0", "8"),
            of("[-1.0]", "1.0", "8"),
            of("[]", "1.0", "8"),
            of("[1.0]", "0.0", "8"),
            of("[1.0]", "1.0", "-8"),
        ];
        lines.extend(others.iter().map(String::as_str));
        let found = Recorded::parse(&lines.join("\n")).expect("a sweep");
        let kept = Recorded::parse(KEPT).expect("a sweep");
        assert_eq!(found.roofline(), kept.roofline());
        assert_eq!(found.ratios(), kept.ratios());
        // One of the times of cuBLASLt that is 0 leaves the others.
        let head = KEPT.lines().next().expect("a head");
        let some = format!("{head}\n{}", of("[0.0, 2.0]", "1.0", "8"));
        assert_eq!(Recorded::parse(&some).expect("a sweep").shapes[0].best, 2.0);
        // The operations of such a shape are no finite number, and it is no point.
        let large = format!("{head}\n{}", of("[1.0]", "1.0", "1e308"));
        let svg = Recorded::parse(&large).expect("a sweep").roofline();
        assert_eq!(svg.matches("<circle").count(), 0);
        assert!(svg.contains("<desc>0 shapes"), "{svg}");
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let said = |text: &str| match Recorded::parse(text) {
            Ok(_) => "it is taken".to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(""), "the first line is not JSON");
        assert_eq!(
            said("{\"bench\": \"copy\"}"),
            "the first line is not the head of `xtask bench gemm --shapes` or `--random`"
        );
        let head = KEPT.lines().next().expect("a head");
        assert_eq!(said(head), "no shape was measured");
        assert_eq!(said(&format!("{head}\nm")), "line 2 is not JSON");
    }
}
