//! `figure flow`: boxes on a grid, and arrows between them: a system and not a layout.
//!
//! A subject is a box or an arrow. `box NAME at COLUMN,ROW: text | text` draws a box whose lines are the texts, the first
//! one bold. `NAME -> NAME: text | text` draws an arrow with a label; the label may be left out. A text that begins as a
//! layout does, with `(` and a digit or with `Sw<`, must be one, and is drawn as code, as is a text in backticks.
//!
//! `frame COLUMN,ROW to COLUMN,ROW: text` draws a frame with a name around the boxes from the one place to the other. Of two frames,
//! one contains the other, or they have no place in common.

use std::fmt::Write as _;

use colex_layout::ComposedLayout;

use super::{Body, Error, escaped};

/// Units of the drawing: the width of a narrow and of a wide character, a line's height, the room around text and drawing.
const NARROW: f64 = 7.3;
const WIDE: f64 = 9.5;
const LINE: f64 = 17.0;
const ROOM: f64 = 12.0;
/// The least distance of two boxes.
const GAP: f64 = 44.0;
/// The room between a frame and what it contains; above it is the name of the frame, too.
const FRAME: f64 = 14.0;

const STYLE: &str = ".cx-text{fill:light-dark(#222,#ddd)}.cx-node{fill:light-dark(#e6eef6,#27323d);\
    stroke:light-dark(#4878a8,#7aa6d0);stroke-width:1.2}.cx-frame{fill:light-dark(#00000008,#ffffff0a);stroke:light-dark(#777,#999);\
    stroke-width:1.2;stroke-dasharray:6 4}.cx-arrow{fill:none;stroke:light-dark(#555,#bbb);stroke-width:1.4}\
    .cx-head{fill:light-dark(#555,#bbb)}";

pub(super) fn draw(body: &Body) -> Result<String, Error> {
    let chart = Chart::parse(body.subjects()?)?;
    let place = Places::new(&chart);
    let mut inner = String::new();
    for frame in &chart.frames {
        place.frame(&mut inner, &chart, frame)?;
    }
    for node in &chart.nodes {
        place.node(&mut inner, node);
    }
    for arrow in &chart.arrows {
        place.arrow(&mut inner, &chart, arrow);
    }
    let [width, height] = place.size(&chart);
    let title = body.caption().unwrap_or("A diagram");
    let title = title.split(['.', ':']).next().unwrap_or(title);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cx\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"13\"><title>{}</title>\
         <desc>{}</desc><style>{STYLE}</style>{inner}</svg>",
        escaped(title),
        escaped(&chart.in_words())
    ))
}

/// A box: its name, its place on the grid, its lines.
struct Node {
    name: String,
    at: [usize; 2],
    lines: Vec<Text>,
}

/// A frame around the boxes from one place to another one, both within it.
struct Frame {
    first: [usize; 2],
    last: [usize; 2],
    name: Text,
}

impl Frame {
    fn has(&self, at: [usize; 2]) -> bool {
        (0..2).all(|axis| (self.first[axis]..=self.last[axis]).contains(&at[axis]))
    }

    fn contains(&self, other: &Frame) -> bool {
        self.has(other.first) && self.has(other.last)
    }

    fn is_apart(&self, other: &Frame) -> bool {
        (0..2)
            .any(|axis| self.last[axis] < other.first[axis] || other.last[axis] < self.first[axis])
    }

    fn is_equal(&self, other: &Frame) -> bool {
        (self.first, self.last) == (other.first, other.last)
    }
}

/// An arrow between two boxes, by number.
struct Arrow {
    from: usize,
    to: usize,
    label: Vec<Text>,
}

/// A line of text, of prose or of code.
struct Text {
    text: String,
    is_code: bool,
}

impl Text {
    /// The texts between bars.
    fn all(texts: &str) -> Result<Vec<Text>, Error> {
        let texts = texts
            .split(" | ")
            .map(str::trim)
            .filter(|text| !text.is_empty());
        texts.map(Text::new).collect()
    }

    fn new(text: &str) -> Result<Text, Error> {
        let digit_follows = |rest: &str| {
            let first = rest.trim_start_matches('(').chars().next();
            first.is_some_and(|c| c.is_ascii_digit() || c == '_')
        };
        let is_layout = text.starts_with("Sw<")
            || text.contains(':') && text.strip_prefix('(').is_some_and(digit_follows);
        if is_layout {
            let layout: Result<ComposedLayout, _> = text.parse();
            layout.map_err(|error| Error::new(format!("`{text}` is not a layout: {error}")))?;
        }
        let code = text
            .strip_prefix('`')
            .and_then(|text| text.strip_suffix('`'));
        Ok(Text {
            text: code.unwrap_or(text).to_string(),
            is_code: is_layout || code.is_some(),
        })
    }

    fn width(&self) -> f64 {
        let is_wide = |c: char| !self.is_code && (c.is_uppercase() || c == '_');
        let width = |c| if is_wide(c) { WIDE } else { NARROW };
        self.text.chars().map(width).sum()
    }

    fn put(&self, out: &mut String, [x, y]: [f64; 2], anchor: &str, is_bold: bool) {
        let family = if self.is_code {
            " font-family=\"monospace\" font-size=\"12\""
        } else {
            ""
        };
        let weight = if is_bold { " font-weight=\"bold\"" } else { "" };
        write!(
            out,
            "<text class=\"cx-text\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{family}{weight}>{}</text>",
            escaped(&self.text)
        )
        .expect("a string takes all text");
    }
}

/// The widest of some texts.
fn widest(texts: &[Text]) -> f64 {
    texts.iter().map(Text::width).fold(0.0, f64::max)
}

struct Chart {
    nodes: Vec<Node>,
    frames: Vec<Frame>,
    arrows: Vec<Arrow>,
}

impl Chart {
    fn parse(subjects: &[String]) -> Result<Chart, Error> {
        let mut chart = Chart {
            nodes: Vec::new(),
            frames: Vec::new(),
            arrows: Vec::new(),
        };
        for subject in subjects {
            if let Some(rest) = subject.strip_prefix("box ") {
                chart.add_node(subject, rest)?;
            } else if let Some(rest) = subject.strip_prefix("frame ") {
                chart.add_frame(subject, rest)?;
            } else {
                chart.add_arrow(subject)?;
            }
        }
        if chart.nodes.is_empty() {
            return Err(Error::new("the figure has no box"));
        }
        Ok(chart)
    }

    fn add_node(&mut self, subject: &str, rest: &str) -> Result<(), Error> {
        let read = || {
            let (head, lines) = rest.split_once(": ")?;
            let (name, at) = head.split_once(" at ")?;
            let (column, row) = at.split_once(',')?;
            let at = [column.trim().parse().ok()?, row.trim().parse().ok()?];
            Some((name.trim().to_string(), at, lines))
        };
        let (name, at, lines) = read().ok_or_else(|| {
            Error::new(format!(
                "`{subject}` is not a box: write `box NAME at COLUMN,ROW: text | text`"
            ))
        })?;
        if let Some(other) = self
            .nodes
            .iter()
            .find(|node| node.name == name || node.at == at)
        {
            return Err(Error::new(format!(
                "the boxes `{}` and `{name}` have one name or one place",
                other.name
            )));
        }
        let lines = Text::all(lines)?;
        self.nodes.push(Node { name, at, lines });
        Ok(())
    }

    fn add_frame(&mut self, subject: &str, rest: &str) -> Result<(), Error> {
        let place = |text: &str| {
            let (column, row) = text.split_once(',')?;
            Some([column.trim().parse().ok()?, row.trim().parse().ok()?])
        };
        let read = || {
            let (places, name) = rest.split_once(": ")?;
            let (first, last) = places.split_once(" to ")?;
            let (first, last): ([usize; 2], [usize; 2]) = (place(first)?, place(last)?);
            (first[0] <= last[0] && first[1] <= last[1]).then_some((first, last, name))
        };
        let (first, last, name) = read().ok_or_else(|| {
            Error::new(format!(
                "`{subject}` is not a frame: write `frame COLUMN,ROW to COLUMN,ROW: text`, from the upper left place to the lower right one"
            ))
        })?;
        let name = Text::new(name)?;
        let frame = Frame { first, last, name };
        let crossing = self.frames.iter().find(|other| {
            let nested = frame.contains(other) || other.contains(&frame);
            frame.is_equal(other) || !nested && !frame.is_apart(other)
        });
        if let Some(other) = crossing {
            return Err(Error::new(format!(
                "the frames `{}` and `{}` cross: one must contain the other, or they have no place in common",
                other.name.text, frame.name.text
            )));
        }
        self.frames.push(frame);
        Ok(())
    }

    fn add_arrow(&mut self, subject: &str) -> Result<(), Error> {
        let (ends, label) = subject.split_once(": ").unwrap_or((subject, ""));
        let (from, to) = ends.split_once(" -> ").ok_or_else(|| {
            Error::new(format!(
                "`{subject}` is neither a box nor an arrow: write `NAME -> NAME: text`"
            ))
        })?;
        let number = |name: &str| {
            let at = self.nodes.iter().position(|node| node.name == name.trim());
            at.ok_or_else(|| Error::new(format!("no box before this line is called `{name}`")))
        };
        let (from, to) = (number(from)?, number(to)?);
        if from == to {
            return Err(Error::new(format!(
                "`{subject}` leads from a box to itself"
            )));
        }
        let label = Text::all(label)?;
        self.arrows.push(Arrow { from, to, label });
        Ok(())
    }

    /// The diagram for readers that cannot see it.
    fn in_words(&self) -> String {
        let joined = |texts: &[Text]| {
            let texts: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
            texts.join(", ")
        };
        let first = |at: usize| {
            let line = self.nodes[at].lines.first();
            line.map_or("", |text| text.text.as_str())
        };
        let boxes = self.nodes.iter().map(|node| joined(&node.lines));
        let arrows = self.arrows.iter().map(|arrow| {
            let by = if arrow.label.is_empty() { "" } else { " by " };
            let (from, to) = (first(arrow.from), first(arrow.to));
            format!("From {from} to {to}{by}{}", joined(&arrow.label))
        });
        let frames = self.frames.iter().map(|frame| {
            let inside = self.nodes.iter().filter(|node| frame.has(node.at));
            let inside = inside.filter_map(|node| node.lines.first());
            let inside: Vec<&str> = inside.map(|text| text.text.as_str()).collect();
            format!("{} contains {}", frame.name.text, inside.join(", "))
        });
        boxes
            .chain(frames)
            .chain(arrows)
            .collect::<Vec<_>>()
            .join(". ")
            + "."
    }

    fn has_box(&self, at: [usize; 2]) -> bool {
        self.nodes.iter().any(|node| node.at == at)
    }

    /// How many frames stand between a side of a frame and the boxes there, itself included.
    fn depth(&self, frame: &Frame, side: impl Fn(&Frame) -> usize + Copy) -> usize {
        let inside = self.frames.iter().filter(|other| {
            frame.contains(other) && !frame.is_equal(other) && side(other) == side(frame)
        });
        1 + inside
            .map(|other| self.depth(other, side))
            .max()
            .unwrap_or(0)
    }

    /// The frames before or behind a column or a row, by the side that they have there.
    fn frames_at(&self, at: usize, side: impl Fn(&Frame) -> usize + Copy) -> f64 {
        let here = self.frames.iter().filter(|frame| side(frame) == at);
        here.map(|frame| self.depth(frame, side)).max().unwrap_or(0) as f64
    }
}

/// Where columns and rows begin, and how long they are.
struct Places {
    columns: Vec<[f64; 2]>,
    rows: Vec<[f64; 2]>,
}

impl Places {
    fn new(chart: &Chart) -> Places {
        let count = |axis: usize| {
            1 + chart
                .nodes
                .iter()
                .map(|node| node.at[axis])
                .max()
                .unwrap_or(0)
        };
        let largest = |axis: usize, at: usize, size: &dyn Fn(&Node) -> f64| {
            let nodes = chart.nodes.iter().filter(|node| node.at[axis] == at);
            nodes.map(size).fold(0.0, f64::max)
        };
        let width = |node: &Node| widest(&node.lines) + 2.0 * ROOM;
        let height = |node: &Node| LINE * node.lines.len() as f64 + ROOM;
        let (mut columns, mut x) = (Vec::new(), ROOM);
        for column in 0..count(0) {
            let width = largest(0, column, &width);
            x += FRAME * chart.frames_at(column, |frame| frame.first[0]);
            columns.push([x, width]);
            x += width + FRAME * chart.frames_at(column, |frame| frame.last[0]);
            x += chart.gap(0, column);
        }
        let (mut rows, mut y) = (Vec::new(), ROOM + LINE);
        for row in 0..count(1) {
            let height = largest(1, row, &height);
            y += (FRAME + LINE) * chart.frames_at(row, |frame| frame.first[1]);
            rows.push([y, height]);
            y += height + FRAME * chart.frames_at(row, |frame| frame.last[1]);
            y += chart.gap(1, row);
        }
        Places { columns, rows }
    }

    /// The middle of a place.
    fn middle(&self, [column, row]: [usize; 2]) -> [f64; 2] {
        let half = |[start, length]: [f64; 2]| start + length / 2.0;
        [half(self.columns[column]), half(self.rows[row])]
    }

    /// Where an arrow leaves a box towards another coordinate along one axis.
    fn edge(&self, at: [usize; 2], axis: usize, towards: f64) -> [f64; 2] {
        let mut point = self.middle(at);
        let half = [self.columns[at[0]][1], self.rows[at[1]][1]][axis] / 2.0;
        point[axis] += half.copysign(towards - point[axis]);
        point
    }

    fn frame(&self, out: &mut String, chart: &Chart, frame: &Frame) -> Result<(), Error> {
        let end = |places: &[[f64; 2]], at: usize| {
            let place: Option<&[f64; 2]> = places.get(at);
            place.map(|[start, length]| [*start, start + length])
        };
        let sides = [0, 1].map(|axis| {
            let places = [&self.columns, &self.rows][axis];
            let first = end(places, frame.first[axis])?;
            let last = end(places, frame.last[axis])?;
            let before = chart.depth(frame, |frame| frame.first[axis]) as f64;
            let behind = chart.depth(frame, |frame| frame.last[axis]) as f64;
            let room = [FRAME, FRAME + LINE][axis];
            Some([first[0] - room * before, last[1] + FRAME * behind])
        });
        let name = &frame.name;
        let [Some([left, right]), Some([top, bottom])] = sides else {
            return Err(Error::new(format!(
                "the frame `{}` reaches beyond the boxes",
                name.text
            )));
        };
        let [width, height] = [right - left, bottom - top];
        if name.width() + FRAME > width {
            return Err(Error::new(format!(
                "the name `{}` is wider than its frame",
                name.text
            )));
        }
        write!(
            out,
            "<rect class=\"cx-frame\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>"
        )
        .expect("a string takes all text");
        name.put(out, [left + FRAME / 2.0, top + LINE], "start", true);
        Ok(())
    }

    fn node(&self, out: &mut String, node: &Node) {
        let ([x, width], [y, height]) = (self.columns[node.at[0]], self.rows[node.at[1]]);
        let [middle, centre] = self.middle(node.at);
        write!(
            out,
            "<rect class=\"cx-node\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\"/>"
        )
        .expect("a string takes all text");
        let top = centre - LINE * node.lines.len() as f64 / 2.0 + 12.5;
        for (line, text) in node.lines.iter().enumerate() {
            text.put(
                out,
                [middle, top + LINE * line as f64],
                "middle",
                line == 0 && !text.is_code,
            );
        }
    }

    /// The way of an arrow: straight in a row or a column, else with one corner, which stands where no box is.
    fn way(&self, chart: &Chart, arrow: &Arrow) -> Vec<[f64; 2]> {
        let (from, to) = (chart.nodes[arrow.from].at, chart.nodes[arrow.to].at);
        let (start, end) = (self.middle(from), self.middle(to));
        if let Some(same) = (0..2).find(|&axis| from[1 - axis] == to[1 - axis]) {
            let mut ends = [
                self.edge(from, same, end[same]),
                self.edge(to, same, start[same]),
            ];
            // Two arrows between the same boxes stand beside each other.
            let mut arrows = chart.arrows.iter();
            if arrows.any(|other| other.from == arrow.to && other.to == arrow.from) {
                let aside = if start[same] < end[same] { -9.0 } else { 9.0 };
                ends.iter_mut().for_each(|end| end[1 - same] += aside);
            }
            return ends.to_vec();
        }
        let first = usize::from(chart.has_box([to[0], from[1]]));
        let mut corner = start;
        corner[first] = end[first];
        let leaves = self.edge(from, first, end[first]);
        vec![leaves, corner, self.edge(to, 1 - first, start[1 - first])]
    }

    fn arrow(&self, out: &mut String, chart: &Chart, arrow: &Arrow) {
        let way = self.way(chart, arrow);
        let [.., before, tip] = way.as_slice() else {
            return;
        };
        let length = (tip[0] - before[0]).hypot(tip[1] - before[1]).max(1.0);
        let [dx, dy] = [(tip[0] - before[0]) / length, (tip[1] - before[1]) / length];
        let points = way.iter().map(|[x, y]| format!("{x:.1} {y:.1}"));
        let path = points.collect::<Vec<_>>().join("L");
        let back = [tip[0] - 9.0 * dx, tip[1] - 9.0 * dy];
        let (left, right) = (
            [back[0] - 4.5 * dy, back[1] + 4.5 * dx],
            [back[0] + 4.5 * dy, back[1] - 4.5 * dx],
        );
        write!(
            out,
            "<path class=\"cx-arrow\" d=\"M{path}\"/><path class=\"cx-head\" d=\"M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z\"/>",
            tip[0], tip[1], left[0], left[1], right[0], right[1]
        )
        .expect("a string takes all text");
        self.label(out, &way, &arrow.label);
    }

    /// The label at the first stretch of the way: half of it above a line that goes across, else beside the line.
    fn label(&self, out: &mut String, way: &[[f64; 2]], label: &[Text]) {
        let [start, end, ..] = way else { return };
        let [x, y] = [(start[0] + end[0]) / 2.0, (start[1] + end[1]) / 2.0];
        let is_across = (start[0] - end[0]).abs() > (start[1] - end[1]).abs();
        let above = label.len().div_ceil(2);
        for (line, text) in label.iter().enumerate() {
            let (line, above) = (line as f64, above as f64);
            let below = if line < above { -6.0 } else { 3.0 };
            let (at, anchor) = if is_across {
                ([x, y + LINE * (line - above + 1.0) + below], "middle")
            } else {
                let top = y - LINE * (label.len() as f64 - 1.0) / 2.0 + 4.0;
                ([x + 8.0, top + LINE * line], "start")
            };
            text.put(out, at, anchor, false);
        }
    }

    /// Width and height of the whole drawing, with the labels beside arrows that go down.
    fn size(&self, chart: &Chart) -> [f64; 2] {
        let end = |axis: usize| {
            let places = [&self.columns, &self.rows][axis];
            let end = places.last().map_or(0.0, |[start, length]| start + length);
            let last = places.len().saturating_sub(1);
            end + FRAME * chart.frames_at(last, |frame| frame.last[axis])
        };
        let labels = chart.arrows.iter().map(|arrow| {
            let way = self.way(chart, arrow);
            let goes_down = way[0][0] == way[1][0];
            let share = if goes_down { 1.0 } else { 0.5 };
            (way[0][0] + way[1][0]) / 2.0 + 8.0 + share * widest(&arrow.label)
        });
        let width = labels.fold(end(0), f64::max) + ROOM;
        [width, end(1) + ROOM + LINE]
    }
}

impl Chart {
    /// The room behind a column or a row: what the labels of the arrows that cross it need.
    fn gap(&self, axis: usize, at: usize) -> f64 {
        let crosses = |arrow: &&Arrow| {
            let ends = [arrow.from, arrow.to].map(|node| self.nodes[node].at[axis]);
            ends.contains(&at) && ends.contains(&(at + 1))
        };
        let across = |arrow: &Arrow| match axis {
            0 => widest(&arrow.label) + 2.0 * ROOM,
            _ => LINE * arrow.label.len() as f64 + 2.0 * ROOM,
        };
        let labels = self.arrows.iter().filter(crosses).map(across);
        labels.fold(GAP, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn boxes_and_arrows_are_drawn_and_said() {
        let body = "box a at 0,0: Global memory | (64,64):(1024,1)\nbox b at 1,0: Shared memory\n\
            a -> b: `cp.async` | 16 bytes\ncaption = The way of a slab. More.";
        let html = draw("flow", body).expect("the body is well formed");
        assert_eq!(html.matches("class=\"cx-node\"").count(), 2);
        assert_eq!(html.matches("class=\"cx-head\"").count(), 1);
        assert!(html.contains("<title>The way of a slab</title>"));
        assert!(html.contains(
            "<desc>Global memory, (64,64):(1024,1). Shared memory. From Global memory to Shared memory by cp.async, 16 bytes.</desc>"
        ));
        assert!(
            html.contains("font-family=\"monospace\" font-size=\"12\">(64,64):(1024,1)</text>")
        );
    }

    #[test]
    fn frames_contain_the_boxes_from_one_place_to_another() {
        let body = "box a at 0,0: First\nbox b at 1,0: Second\nbox c at 1,1: Third\n\
            frame 0,0 to 1,1: Outer\nframe 1,0 to 1,0: Inner";
        let html = draw("flow", body).expect("the body is well formed");
        assert!(html.contains("Outer contains First, Second, Third. Inner contains Second."));
        let rects = |class: &str| -> Vec<[f64; 4]> {
            let all = html.split("<rect ").skip(1).filter(|r| r.contains(class));
            let number = |rect: &str, key: &str| {
                let rest = rect.split(&format!(" {key}=\"")).nth(1);
                let text = rest.and_then(|rest| rest.split('"').next());
                text.and_then(|text| text.parse().ok())
                    .expect("a rectangle has numbers")
            };
            all.map(|rect| {
                let [x, y, width, height] =
                    ["x", "y", "width", "height"].map(|key| number(rect, key));
                [x, y, x + width, y + height]
            })
            .collect()
        };
        let inside = |inner: &[f64; 4], outer: &[f64; 4]| {
            inner[0] > outer[0] && inner[1] > outer[1] && inner[2] < outer[2] && inner[3] < outer[3]
        };
        let (frames, boxes) = (rects("cx-frame"), rects("cx-node"));
        let [outer, inner] = frames.as_slice() else {
            panic!("there are two frames")
        };
        assert!(boxes.iter().all(|rect| inside(rect, outer)) && inside(inner, outer));
        let in_inner: Vec<bool> = boxes.iter().map(|rect| inside(rect, inner)).collect();
        assert_eq!(in_inner, [false, true, false]);
    }

    #[test]
    fn an_arrow_turns_where_no_box_is() {
        let boxes = "box a at 0,0: A\nbox b at 1,0: B\nbox c at 1,1: C\n";
        let path = |arrow: &str| {
            let html = draw("flow", &format!("{boxes}{arrow}")).expect("it is well formed");
            let path = html.split("class=\"cx-arrow\" d=\"").nth(1);
            path.and_then(|rest| rest.split('"').next())
                .expect("an arrow has a path")
                .matches('L')
                .count()
        };
        assert_eq!((path("a -> b"), path("b -> c"), path("a -> c")), (1, 1, 2));
        // Straight down from A, as B stands where the other corner would be.
        let html = draw("flow", &format!("{boxes}a -> c")).expect("it is well formed");
        let start = html
            .split("d=\"M")
            .nth(1)
            .and_then(|rest| rest.split('L').next());
        let corner = html.split("d=\"M").nth(1).and_then(|r| r.split('L').nth(1));
        let x = |point: Option<&str>| point.and_then(|p| p.split(' ').next()).map(str::to_string);
        assert_eq!(x(start), x(corner));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("flow", body);
        assert_eq!(
            error("box a: A"),
            "`box a: A` is not a box: write `box NAME at COLUMN,ROW: text | text`"
        );
        assert_eq!(
            error("box a at 0,0: A\na"),
            "`a` is neither a box nor an arrow: write `NAME -> NAME: text`"
        );
        assert_eq!(
            error("box a at 0,0: A\na -> b"),
            "no box before this line is called `b`"
        );
        assert_eq!(
            error("box a at 0,0: A\na -> a"),
            "`a -> a` leads from a box to itself"
        );
        assert_eq!(
            error("box a at 0,0: A\nbox b at 0,0: B"),
            "the boxes `a` and `b` have one name or one place"
        );
        let boxes = "box a at 0,0: A box\nbox b at 1,1: Another box\n";
        let frame = |lines: &str| error(&format!("{boxes}{lines}"));
        assert_eq!(
            frame("frame 1,0 to 0,1: F"),
            "`frame 1,0 to 0,1: F` is not a frame: write `frame COLUMN,ROW to COLUMN,ROW: text`, from the upper left place to the lower right one"
        );
        assert_eq!(
            frame("frame 0,0 to 1,0: F\nframe 0,0 to 0,1: G"),
            "the frames `F` and `G` cross: one must contain the other, or they have no place in common"
        );
        assert_eq!(
            frame("frame 0,0 to 2,0: F"),
            "the frame `F` reaches beyond the boxes"
        );
        assert_eq!(
            frame("frame 0,0 to 0,0: A name that has no room"),
            "the name `A name that has no room` is wider than its frame"
        );
        assert!(
            error("box a at 0,0: (4,8):(8)")
                .starts_with("`(4,8):(8)` is not a layout: the shape (4,8)")
        );
    }
}
