//! `figure parts`: what the model of time says of one query over the number of parts of its keys.
//!
//! The subject is the number of keys of one sequence, such as `131072`. Keys:
//! - `heads`, needed: heads of Q and of K, such as `32x8`;
//! - `measured`: measured times by the number of parts, such as `1 2337; 8 309`.
//!
//! The plan is the one that `suited_to` gives Ampere's kernel for 128 features of f16 on 132 multiprocessors, with each number of parts
//! from 1 to 128, added without lanes. Both axes are logarithmic.

use std::fmt::Write as _;

use colex_atom::Ty;
use colex_gpu::attention::{
    AttentionCost, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem,
};

use super::{Body, Error, extents};

/// The most parts, and the least and the largest time of the drawing.
const PARTS: i64 = 128;
const TIMES: [f64; 2] = [1.0, 4000.0];
/// Units of the drawing: the ends of both axes, and its size.
const ACROSS: [f64; 2] = [56.0, 536.0];
const UP: [f64; 2] = [300.0, 24.0];
const SIZE: [f64; 2] = [690.0, 344.0];

/// A curve: its name, its class, and its term.
type Curve = (&'static str, &'static str, fn(&AttentionCost) -> f64);

const CURVES: [Curve; 4] = [
    ("whole call", "cx-whole", AttentionCost::total),
    ("steps", "cx-steps", |cost| cost.steps),
    ("loads", "cx-loads", |cost| cost.loads),
    ("second kernel", "cx-second", |cost| cost.combination),
];

pub(in super::super) fn draw(body: &Body) -> Result<String, Error> {
    let [text] = body.subjects()? else {
        return Err(Error::new(
            "a figure of parts has one subject, the number of keys",
        ));
    };
    let keys: i64 = text
        .parse()
        .ok()
        .filter(|keys| (1..=1 << 24).contains(keys))
        .ok_or_else(|| Error::new(format!("`{text}` is not a number of keys up to 16777216")))?;
    let heads = extents(body, "heads")?;
    let measured = body.value("measured").map_or(Ok(Vec::new()), measured)?;
    let costs = costs(heads, keys);
    let mut inner = String::new();
    axes(&mut inner);
    let mut words = Vec::new();
    for (name, class, term) in CURVES {
        let points: Vec<(i64, f64)> = (1..).zip(&costs).map(|(n, cost)| (n, term(cost))).collect();
        let drawn: Vec<String> = points
            .iter()
            .filter(|(_, time)| *time >= TIMES[0])
            .map(|(n, time)| format!("{:.1},{:.1}", across(*n), up(*time)))
            .collect();
        put(
            &mut inner,
            format_args!(
                "<polyline class=\"cx-curve {class}\" points=\"{}\"/>",
                drawn.join(" ")
            ),
        );
        let last = points.last().map_or(TIMES[0], |point| point.1);
        put(
            &mut inner,
            format_args!(
                "<text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                ACROSS[1] + 6.0,
                up(last) + label_shift(name)
            ),
        );
        let said = points.iter().filter(|(n, _)| (*n as u64).is_power_of_two());
        let said: Vec<String> = said
            .map(|(n, time)| format!("{time:.1} with {n}"))
            .collect();
        words.push(format!("{name}: {}.", said.join(", ")));
    }
    for (n, time) in &measured {
        put(
            &mut inner,
            format_args!(
                "<circle class=\"cx-point\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                across(*n),
                up(*time)
            ),
        );
    }
    let [width, height] = SIZE;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\"><title>The time of one query of {keys} keys over the number of \
         parts</title><desc>Microseconds by the model. {}</desc><style>.cx-text{{fill:light-dark(#222,#ddd)}}\
         .cx-axis{{stroke:light-dark(#ccc,#555);stroke-width:1}}.cx-curve{{fill:none;stroke-width:1.6}}\
         .cx-whole{{stroke:light-dark(#222,#eee);stroke-width:2.4}}.cx-steps{{stroke:light-dark(#4878a8,#7aa6d0)}}\
         .cx-loads{{stroke:light-dark(#2f8f4e,#6cc48a);stroke-dasharray:6 3}}\
         .cx-second{{stroke:light-dark(#b0582a,#e09a6a);stroke-dasharray:2 3}}\
         .cx-point{{fill:light-dark(#fff,#222);stroke:light-dark(#222,#eee);stroke-width:1.5}}</style>{inner}</svg>",
        words.join(" ")
    ))
}

/// The curves of the loads and of the whole call end near each other.
fn label_shift(name: &str) -> f64 {
    match name {
        "whole call" => -4.0,
        "steps" => 12.0,
        _ => 4.0,
    }
}

/// What the model says of 1 to [`PARTS`] parts.
fn costs([queries, keys_heads]: [i64; 2], keys: i64) -> Vec<AttentionCost> {
    let problem = AttentionProblem::new(Ty::F16, 1, [queries, keys_heads], [1, keys], [128; 2]);
    let operands = AttentionOperands::of(&problem, [0; 4]);
    let plan = AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(&problem, 132);
    let of = |splits| AttentionPlan {
        splits,
        by_lanes: false,
        ..plan
    };
    (1..=PARTS).map(|n| of(n).cost(&problem, 132)).collect()
}

fn measured(text: &str) -> Result<Vec<(i64, f64)>, Error> {
    let pair = |text: &str| {
        let (n, time) = text.trim().split_once(' ')?;
        let (n, time): (i64, f64) = (n.parse().ok()?, time.parse().ok()?);
        ((1..=PARTS).contains(&n) && (TIMES[0]..=TIMES[1]).contains(&time)).then_some((n, time))
    };
    let all: Option<Vec<(i64, f64)>> = text.split(';').map(pair).collect();
    all.ok_or_else(|| {
        Error::new(format!(
            "`measured = {text}` is not a list of parts and microseconds, such as `1 2337; 8 309`"
        ))
    })
}

fn across(n: i64) -> f64 {
    let share = (n as f64).ln() / (PARTS as f64).ln();
    ACROSS[0] + share * (ACROSS[1] - ACROSS[0])
}

fn up(time: f64) -> f64 {
    let share = (time / TIMES[0]).ln() / (TIMES[1] / TIMES[0]).ln();
    UP[0] + share * (UP[1] - UP[0])
}

/// The lines and the numbers of both axes.
fn axes(out: &mut String) {
    let line = |out: &mut String, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2]| {
        put(
            out,
            format_args!(
                "<line class=\"cx-axis\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\"/>"
            ),
        );
    };
    let text = |out: &mut String, [x, y]: [f64; 2], anchor: &str, text: &str| {
        put(
            out,
            format_args!(
                "<text class=\"cx-text\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
            ),
        );
    };
    for n in (0..8).map(|power| 1 << power) {
        let x = across(n);
        line(out, [x, UP[0]], [x, UP[1]]);
        text(out, [x, UP[0] + 16.0], "middle", &n.to_string());
    }
    for time in [1.0, 10.0, 100.0, 1000.0] {
        let y = up(time);
        line(out, [ACROSS[0], y], [ACROSS[1], y]);
        text(out, [ACROSS[0] - 6.0, y + 4.0], "end", &time.to_string());
    }
    text(out, [4.0, 14.0], "start", "microseconds");
    text(out, [ACROSS[1], UP[0] + 34.0], "end", "parts of the keys");
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::costs;
    use crate::figure::{draw, refused};

    #[test]
    fn the_curves_are_those_of_the_model() {
        let costs = costs([32, 8], 131_072);
        let least = (1..)
            .zip(&costs)
            .min_by(|x, y| x.1.total().total_cmp(&y.1.total()));
        assert!(least.is_some_and(|(n, _)| (32..=33).contains(&n)));
        // 2048 steps of 64 keys in one part.
        assert_eq!(format!("{:.1}", costs[0].steps), "2457.6");
        let html = draw("parts", "131072\nheads = 32x8\nmeasured = 1 2337; 8 309");
        let html = html.expect("it is well formed");
        assert_eq!(html.matches("<polyline").count(), 4);
        assert_eq!(html.matches("<circle").count(), 2);
        assert!(
            html.contains("steps: 2457.6 with 1, 1228.8 with 2"),
            "{html}"
        );
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("parts", "many\nheads = 32x8"),
            "`many` is not a number of keys up to 16777216"
        );
        assert_eq!(
            refused("parts", "131072\nheads = 32x8\nmeasured = 1"),
            "`measured = 1` is not a list of parts and microseconds, such as `1 2337; 8 309`"
        );
        assert_eq!(
            refused("parts", "1\n2\nheads = 32x8"),
            "a figure of parts has one subject, the number of keys"
        );
        assert_eq!(refused("parts", "131072"), "the figure needs `heads = ..`");
    }
}
