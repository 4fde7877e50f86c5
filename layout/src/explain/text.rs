//! The text of a derivation: one line per step, numbers in columns.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::{Case, Explanation, Gap, Join, Pick, Step, Visit};
use crate::error::composition::why_straddle;
use crate::layout::LeafMode;
use crate::{IntTuple, Layout};

/// A line of the text.
enum Line {
    /// As it is, at this depth.
    Text(usize, String),
    /// In columns, as wide as those of all such lines of one explanation.
    Row(usize, Vec<String>),
}

impl fmt::Display for Explanation {
    /// The title, the steps, and `= result` or `no result: why`, each on its own line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Explanation {
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        line(f, depth, &self.title)?;
        let widths = self.widths();
        let mut before = None;
        for step in &self.steps {
            if let Some(heading) = step.heading(before) {
                line(f, depth + 1, heading)?;
            }
            match step {
                Step::Within(inner) => inner.write(f, depth + 1)?,
                _ => {
                    for l in step.lines() {
                        l.write(f, depth, &widths)?;
                    }
                }
            }
            before = Some(step);
        }
        match &self.result {
            Ok(result) => line(f, depth + 1, &format!("= {result}")),
            Err(_) if self.told() => line(f, depth + 1, "no result"),
            Err(e) => line(f, depth + 1, &format!("no result: {e}")),
        }
    }

    /// Whether a step has said why there is no result.
    fn told(&self) -> bool {
        let tells = |s: &Step| match s {
            Step::Within(inner) => inner.result.is_err(),
            Step::Search(_) => true,
            _ => false,
        };
        self.steps.iter().any(tells)
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        for l in self.steps.iter().flat_map(Step::lines) {
            let Line::Row(_, cells) = l else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            // The last cell of a row has nothing to its right, so it may be as long as it is.
            let before = cells.iter().take(cells.len() - 1);
            for (width, cell) in widths.iter_mut().zip(before) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }
}

fn line(f: &mut fmt::Formatter<'_>, depth: usize, text: &str) -> fmt::Result {
    writeln!(f, "{:1$}{text}", "", 2 * depth)
}

impl Line {
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize, widths: &[usize]) -> fmt::Result {
        match self {
            Self::Text(more, text) => line(f, depth + more, text),
            Self::Row(more, cells) => {
                let padded = cells.iter().zip(widths).map(|(c, w)| format!("{c:w$}"));
                let text = padded.collect::<Vec<_>>().join("  ");
                line(f, depth + more, text.trim_end())
            }
        }
    }
}

impl Step {
    /// The line that opens a group of such steps.
    fn heading(&self, before: Option<&Self>) -> Option<&'static str> {
        match (self, before) {
            (Self::Together { .. }, Some(Self::Together { .. }))
            | (Self::Values { .. }, Some(Self::Values { .. })) => None,
            (Self::Together { .. }, _) => Some("together"),
            (Self::Values { .. }, _) => Some(
                "refused by the rule, but along each mode of B the values A(B(c)) are a layout",
            ),
            _ => None,
        }
    }

    fn lines(&self) -> Vec<Line> {
        let one = |l| Vec::from([l]);
        let text = |t: String| one(Line::Text(1, t));
        match self {
            Self::Formula(formula) => text(formula.to_string()),
            Self::Named { name, layout } => text(format!("{name}: {layout}")),
            Self::Leaf { path, mode } => text(format!("mode {path} of B, {mode}")),
            Self::Visit { visit, left } => one(Line::Row(2, visit_cells(visit, left))),
            Self::Together { left, digits } => one(Line::Row(2, together_cells(left, digits))),
            Self::Signs { up, down } => text(format!(
                "mode {up} goes up and mode {down} goes down: coordinates borrow between left modes"
            )),
            Self::Values {
                path,
                values,
                more,
                found,
            } => one(Line::Row(2, values_cells(path, values, *more, found))),
            Self::Found { size } => text(format!(
                "and these add up to A(B(c)) at all {size} coordinates"
            )),
            Self::Search(search) => text(search.to_string()),
            Self::Join(join) => one(Line::Row(1, join_cells(join))),
            Self::Gap { gap, target } => one(Line::Row(1, gap_cells(gap, target.as_deref()))),
            Self::Right(pick) => one(Line::Row(1, right_cells(pick))),
            Self::Left { pick, below, last } => left_rows(pick, *below, *last),
            Self::Within(_) => Vec::new(),
        }
    }
}

fn values_cells(path: &str, values: &[i64], more: bool, found: &Layout) -> Vec<String> {
    let dots = if more { " .." } else { "" };
    let values = format!("{}{dots}", list(values, " "));
    Vec::from([format!("mode {path}"), values, format!("-> {found}")])
}

fn list(values: &[i64], between: &str) -> String {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    texts.join(between)
}

fn visit_cells(visit: &Visit, left: &LeafMode) -> Vec<String> {
    let steps = if visit.extent == 1 { "step" } else { "steps" };
    let mut cells = Vec::from([
        format!("at {left}"),
        format!("{} {steps} of {}", visit.extent, visit.stride),
        visit_reason(visit, left.size()),
    ]);
    cells.extend(visit_piece(visit, left));
    cells
}

/// Which case of the walk applies in a digit of `s`, with its numbers.
fn visit_reason(visit: &Visit, s: i64) -> String {
    let (n, r) = (visit.extent, visit.stride.abs());
    match visit.case {
        Case::Skips if r % s == 0 => format!("{s} divides {r}: this digit stays 0"),
        Case::Skips => "one step only: this digit stays 0".to_string(),
        Case::Within => format!("({n}-1)*{r} = {} stays below {s}", (n - 1) * r),
        Case::Splits => {
            let fill = s / r;
            format!("{s}/{r} = {fill} of them fill {s}, and {fill} divides {n}")
        }
        Case::Last => "the last mode takes them".to_string(),
        Case::Broadcast => "every step stays at 0".to_string(),
        Case::Carries => {
            let mut why = String::from("carries: ");
            why_straddle(&mut why, n, r, s).expect("writing to a string does not fail");
            why
        }
    }
}

/// What the visit gives to the result, or to the next left mode.
fn visit_piece(visit: &Visit, left: &LeafMode) -> Option<String> {
    let (step, s) = (visit.stride, left.size());
    match (visit.case, visit.piece) {
        (Case::Carries, _) => None,
        (Case::Broadcast, Some(piece)) => Some(format!("-> {piece}")),
        (_, Some(piece)) => {
            let n = piece.size();
            Some(format!("-> {n}:{step}*{:#} = {piece}", left.stride))
        }
        (_, None) => {
            let next = step.abs() / s + i64::from(step % s != 0);
            Some(format!("-> steps of {}", step.signum() * next))
        }
    }
}

fn together_cells(left: &LeafMode, digits: &[i64]) -> Vec<String> {
    let sum: i128 = digits.iter().map(|d| i128::from(d.abs())).sum();
    let sizes: Vec<i64> = digits.iter().map(|d| d.saturating_abs()).collect();
    let verdict = if sum < i128::from(left.size()) {
        format!("stays below {}", left.size())
    } else {
        format!("is not below {}: they carry", left.size())
    };
    let sum = format!("{} = {sum}", list(&sizes, " + "));
    Vec::from([format!("at {left}"), sum, verdict])
}

fn join_cells(join: &Join) -> Vec<String> {
    match join {
        Join::Dropped(leaf) => Vec::from([
            leaf.to_string(),
            "one step only".into(),
            "-> nothing".into(),
        ]),
        Join::Kept(leaf) => Vec::from([leaf.to_string(), "stays".into()]),
        Join::Joined { leaf, next, both } => Vec::from([
            leaf.to_string(),
            format!(
                "{}*{:#} = {:#} goes on at {:#}",
                leaf.size(),
                leaf.stride,
                next.stride,
                next.stride
            ),
            format!("-> joined with {next}: {both}"),
        ]),
    }
}

fn gap_cells(gap: &Gap, target: Option<&IntTuple>) -> Vec<String> {
    let Gap { mode, covered, gap } = gap;
    let below = if *covered == 1 {
        "the 1 offset below".to_string()
    } else {
        format!("the {covered} offsets below")
    };
    let becomes = format!("-> {gap}:{covered}");
    if let Some(target) = target {
        let exact = target.as_leaf().is_some_and(|n| n.value() % covered == 0);
        let quotient = if exact {
            format!("{target:#}/{covered}")
        } else {
            format!("ceil({target:#}/{covered})")
        };
        let times = format!("{quotient} = {gap} times {below}");
        return Vec::from([format!("up to {target:#}"), times, becomes]);
    }
    let mode = mode.unwrap_or(LeafMode::UNIT);
    let d = mode.stride.coefficient().value();
    let quotient = if d % covered == 0 {
        format!("{d}/{covered}")
    } else {
        format!("floor({d}/{covered})")
    };
    let times = format!("{quotient} = {gap} times {below}");
    if *gap < 1 {
        return Vec::from([format!("before {mode}"), times, "-> overlaps".to_string()]);
    }
    let then = i128::from(mode.size()) * i128::from(d);
    let then = format!("then {}*{d} = {then} are covered", mode.size());
    Vec::from([format!("before {mode}"), times, becomes, then])
}

fn right_cells(pick: &Pick) -> Vec<String> {
    let mut cells = Vec::from([
        format!("{} from index {}", pick.mode, pick.index),
        format!("stride {} is wanted", pick.current),
    ]);
    let Some(extent) = pick.extent else {
        cells.push("-> left out".into());
        return cells;
    };
    cells.push(format!("-> {extent}:{}", pick.index));
    let then = i128::from(extent) * i128::from(pick.current);
    cells.push(format!("then {extent}*{} = {then} is wanted", pick.current));
    cells
}

fn left_rows(pick: &Pick, below: i64, last: bool) -> Vec<Line> {
    let d = pick.mode.stride.coefficient().value();
    let name = format!("{} from index {}", pick.mode, pick.index);
    let Some(extent) = pick.extent else {
        let why = if d < 0 {
            "its stride is negative".to_string()
        } else {
            format!("{} does not divide {d}", pick.current)
        };
        return Vec::from([Line::Row(1, Vec::from([name, why, "-> refused".into()]))]);
    };
    let offsets = if extent == 1 { "offset" } else { "offsets" };
    let why = format!(
        "{d}/{} = {extent} {offsets} for each index step of {below}",
        pick.current
    );
    let mut rows = Vec::from([Line::Row(
        1,
        Vec::from([name, why, format!("-> {extent}:{below}")]),
    )]);
    if last {
        let why = format!("its own {} steps", pick.mode.size());
        let becomes = format!("-> {}:{}", pick.mode.size(), pick.index);
        rows.push(Line::Row(1, Vec::from([String::new(), why, becomes])));
    }
    rows
}
