//! What the page shows: facts, grids of cells, tables, chips, texts to copy.
//!
//! Cells, rows and chips carry keys. What has a key in common with what is under the pointer lights up in every view of
//! the reply; what has only its kin in common lights up less.

use std::collections::BTreeMap;

use colex_draw::{Cell, Fill, Grid, Labels, Nesting, Picture, ThreadValues};
use colex_layout::Layout;
use serde_json::{Value as Json, json};

use crate::fields::{Fields, Sentence};

/// The most cells whose labels a reader can read; larger grids show colours.
const LABELLED: i64 = 1 << 10;
/// The most rows that a table shows: the browser lays them out before it shows anything.
const ROWS: usize = 64;
/// The most values of a thread that have a chip each.
const VALUES: i64 = 256;
/// The most cells that a grid shows.
pub(crate) const CELLS: i64 = 1 << 14;

/// What links a cell with others.
#[derive(Clone, Default)]
pub(crate) struct Link {
    /// What the cell is: what shares one of these is the same thing.
    pub(crate) keys: Vec<i64>,
    /// What the cell belongs to.
    pub(crate) kin: Vec<i64>,
}

impl Link {
    /// Returns the link of what is one thing.
    pub(crate) fn key(key: i64) -> Self {
        Self::keys([key])
    }

    /// Returns the link of what is one thing and belongs to another.
    pub(crate) fn of(key: i64, kin: i64) -> Self {
        Self {
            keys: vec![key],
            kin: vec![kin],
        }
    }

    /// Returns the link of what is several things.
    pub(crate) fn keys(keys: impl IntoIterator<Item = i64>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            kin: Vec::new(),
        }
    }
}

/// The answer of a panel.
#[derive(Default)]
pub(crate) struct Reply {
    /// What stands above all: the value that was computed.
    pub(crate) title: String,
    /// Why there is no value, where the rest of the answer is worth a look.
    pub(crate) refusal: Option<String>,
    facts: Vec<(String, String)>,
    /// Lines that explain: a derivation, reasons.
    texts: Vec<(String, String)>,
    views: Vec<Json>,
    copies: Vec<(String, Copied)>,
    /// The last step of each field that is played.
    lasts: BTreeMap<String, usize>,
    /// The text to copy that the page asks for, if it does.
    wanted: String,
    /// The cell whose words the page asks for, if it does: the id of its grid and its number. Then its words.
    cell: Option<(String, i64)>,
    says: String,
}

/// What a button copies.
enum Copied {
    Text(String),
    /// Why there is nothing to copy.
    Nothing(String),
    /// A text that is made when it is asked for.
    Later,
}

impl Reply {
    /// Returns an answer with a title and nothing else yet.
    pub(crate) fn of(fields: &Fields, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            wanted: fields.text("copy").to_string(),
            cell: fields.text("say").split_once(' ').and_then(|(id, cell)| {
                let cell = cell.parse().ok()?;
                Some((id.to_string(), cell))
            }),
            ..Self::default()
        }
    }

    /// Adds a fact: its name and its value.
    pub(crate) fn fact(&mut self, name: &str, value: impl ToString) {
        self.facts.push((name.to_string(), value.to_string()));
    }

    /// Adds a text of several lines under a heading.
    pub(crate) fn text(&mut self, heading: &str, text: impl ToString) {
        self.texts.push((heading.to_string(), text.to_string()));
    }

    /// Says how many steps the field `name` can be played.
    pub(crate) fn last(&mut self, name: &str, steps: usize) {
        self.lasts.insert(name.to_string(), steps);
    }

    /// Adds what the button `name` copies, or why there is nothing to copy.
    pub(crate) fn copy(&mut self, name: &str, text: Result<String, impl ToString>) {
        let copied = match text {
            Ok(text) => Copied::Text(text),
            Err(why) => Copied::Nothing(why.to_string()),
        };
        self.copies.push((name.to_string(), copied));
    }

    /// Adds what the button `name` copies, which is made only if the request asks for it.
    pub(crate) fn copy_later<E: ToString>(
        &mut self,
        name: &str,
        text: impl FnOnce() -> Result<String, E>,
    ) {
        if self.wanted == name {
            self.copy(name, text());
        } else {
            self.copies.push((name.to_string(), Copied::Later));
        }
    }

    /// Adds a view.
    pub(crate) fn view(&mut self, view: Json) {
        self.views.push(view);
    }

    /// Adds a grid, or the sentence that stands in its place.
    pub(crate) fn grid(&mut self, id: &str, title: &str, grid: Result<Cells<'_>, String>) {
        if let (Some((of, cell)), Ok(cells)) = (&self.cell, &grid) {
            let (rows, cols) = (cells.grid.rows(), cells.grid.cols());
            if of == id && (0..rows * cols).contains(cell) {
                self.says = (cells.say)(cell / cols, cell % cols);
            }
            return;
        }
        self.view(match grid {
            Ok(cells) => cells.json(id, title),
            Err(why) => json!({"kind": "missing", "id": id, "title": title, "why": why}),
        });
    }

    /// Returns the answer, or of it only the text or the words that the request asks for.
    pub(crate) fn json(self) -> Json {
        if self.cell.is_some() {
            return json!({ "says": self.says });
        }
        let wanted = self.wanted;
        let copies = self.copies.into_iter().map(|(name, text)| match text {
            Copied::Text(text) => json!({"name": name, "text": text}),
            Copied::Nothing(why) => json!({"name": name, "why": why}),
            Copied::Later => json!({"name": name}),
        });
        if !wanted.is_empty() {
            let mut copies = copies.filter(|copy| copy["name"] == wanted);
            return copies
                .next()
                .unwrap_or_else(|| json!({"name": wanted, "why": "there is no such text"}));
        }
        let texts = self.texts.into_iter();
        json!({
            "title": self.title,
            "refusal": self.refusal,
            "facts": self.facts,
            "texts": texts.map(|(heading, text)| json!({"heading": heading, "text": text})).collect::<Vec<_>>(),
            "views": self.views,
            "last": self.lasts,
            "copies": copies.collect::<Vec<_>>(),
        })
    }
}

/// A grid with what its cells say and how they are linked.
pub(crate) struct Cells<'a> {
    /// The cells as the crates draw them.
    pub(crate) grid: &'a Grid,
    /// What a cell is in words.
    pub(crate) say: Box<dyn Fn(i64, i64) -> String + 'a>,
    /// How a cell is linked.
    pub(crate) link: Box<dyn Fn(i64, i64) -> Link + 'a>,
    /// The names of the rows, where numbers say nothing.
    pub(crate) row_names: Option<Vec<String>>,
    /// The blocks of rows and of columns, with a heavy line between two of them.
    pub(crate) nesting: [Nesting; 2],
}

impl<'a> Cells<'a> {
    /// Returns a grid with numbered rows.
    pub(crate) fn new(
        grid: &'a Grid,
        say: impl Fn(i64, i64) -> String + 'a,
        link: impl Fn(i64, i64) -> Link + 'a,
    ) -> Self {
        Self {
            grid,
            say: Box::new(say),
            link: Box::new(link),
            row_names: None,
            nesting: Default::default(),
        }
    }

    /// Returns the grid with heavy lines where the outer number of a nested mode of `layout` changes.
    pub(crate) fn nested(mut self, layout: &Layout) -> Result<Self, Sentence> {
        self.nesting = nesting(layout).map_err(|error| error.to_string())?;
        Ok(self)
    }

    fn json(&self, id: &str, title: &str) -> Json {
        let (rows, cols) = (self.grid.rows(), self.grid.cols());
        if rows * cols > CELLS {
            let why = format!(
                "{} cells are more than the {CELLS} that the explorer draws",
                rows * cols
            );
            return json!({"kind": "missing", "id": id, "title": title, "why": why});
        }
        let places = || (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
        let is_small = rows * cols <= LABELLED;
        let links: Vec<Link> = places().map(|(row, col)| (self.link)(row, col)).collect();
        let labels = is_small.then(|| {
            let cells = places().map(|(row, col)| self.grid.cell(row, col).lines.join("\n"));
            cells.collect::<Vec<_>>()
        });
        // The words of a large grid are made when the page asks for those of a cell.
        let says = is_small.then(|| {
            let says = places().map(|(row, col)| (self.say)(row, col));
            says.collect::<Vec<_>>()
        });
        let mut classes: Vec<Fill> = Vec::new();
        let mut fills = Vec::with_capacity((rows * cols) as usize);
        for (row, col) in places() {
            let fill = self.grid.cell(row, col).fill;
            let at = classes.iter().position(|class| *class == fill);
            fills.push(at.unwrap_or_else(|| {
                classes.push(fill);
                classes.len() - 1
            }));
        }
        json!({
            "kind": "grid", "id": id, "title": title, "rows": rows, "cols": cols,
            "fills": fills,
            "classes": classes.into_iter().map(class).collect::<Vec<_>>(),
            "labels": labels,
            "says": says,
            "keys": lists(links.iter().map(|link| &link.keys)),
            "kin": lists(links.iter().map(|link| &link.kin)),
            "rowNames": self.row_names,
            "rowLevels": levels(&self.nesting[0], rows),
            "colLevels": levels(&self.nesting[1], cols),
        })
    }
}

/// The blocks of a layout's rows, which its first mode counts, and of its columns.
fn nesting(layout: &Layout) -> Result<[Nesting; 2], colex_draw::Error> {
    Ok(match layout.rank() {
        0 | 1 => [Nesting::default(), Nesting::of(layout)?],
        rank => [
            Nesting::of(layout.get(&[0])?)?,
            Nesting::of(layout.take(1..rank)?)?,
        ],
    })
}

/// The levels of the lines before rows or columns: nothing where no block ends.
fn levels(nesting: &Nesting, size: i64) -> Json {
    let levels: Vec<usize> = (0..size).map(|at| nesting.level(at)).collect();
    if levels.iter().all(|level| *level == 0) {
        return Json::Null;
    }
    json!(levels)
}

/// Lists of keys: nothing where all are empty, and numbers where each has one.
fn lists<'a>(lists: impl Iterator<Item = &'a Vec<i64>> + Clone) -> Json {
    if lists.clone().all(Vec::is_empty) {
        return Json::Null;
    }
    if lists.clone().all(|list| list.len() == 1) {
        return lists.map(|list| list[0]).collect();
    }
    json!(lists.collect::<Vec<_>>())
}

/// Returns a table; each row has a link. Rows beyond the first [`ROWS`] are counted and left out.
pub(crate) fn table(
    id: &str,
    title: &str,
    columns: &[&str],
    size: usize,
    row: impl Fn(usize) -> (Vec<String>, Link),
) -> Json {
    let rows: Vec<(Vec<String>, Link)> = (0..size.min(ROWS)).map(row).collect();
    json!({
        "kind": "table", "id": id, "title": title, "columns": columns, "size": size,
        "rows": rows.iter().map(|(cells, _)| cells).collect::<Vec<_>>(),
        "keys": lists(rows.iter().map(|(_, link)| &link.keys)),
        "kin": lists(rows.iter().map(|(_, link)| &link.kin)),
    })
}

/// Returns chips: small labels in a row, each linked with cells.
pub(crate) fn chips(id: &str, title: &str, items: Vec<(String, Link)>) -> Json {
    json!({
        "kind": "chips", "id": id, "title": title,
        "labels": items.iter().map(|(label, _)| label).collect::<Vec<_>>(),
        "keys": lists(items.iter().map(|(_, link)| &link.keys)),
        "kin": lists(items.iter().map(|(_, link)| &link.kin)),
    })
}

/// A map of threads and values among several of one reply.
pub(crate) struct Operand<'a> {
    /// Its name, such as `A`.
    pub(crate) name: &'a str,
    /// What a row and a column count, such as `m` and `k`.
    pub(crate) axes: [&'a str; 2],
    /// Where its elements are, or why that cannot be drawn.
    pub(crate) place: Result<Place, String>,
    /// The number by which a thread is called.
    pub(crate) lane: &'a dyn Fn(i64) -> i64,
}

/// Where the elements of an operand are.
pub(crate) enum Place {
    /// Threads hold them.
    Threads(ThreadValues),
    /// They lie in shared memory, a tile of this many rows and columns.
    Shared([i64; 2]),
}

/// The most pairs of threads and values of one operand, so that the keys of operands differ.
const PAIRS: i64 = 1 << 21;

/// Adds chips for the threads and registers of operands, and the operands' grids.
pub(crate) fn operands(reply: &mut Reply, operands: &[Operand<'_>]) {
    let mut threads: BTreeMap<i64, i64> = BTreeMap::new();
    let mut registers = Vec::new();
    let base = |at: usize| at as i64 * PAIRS;
    for (at, operand) in operands.iter().enumerate() {
        let Ok(Place::Threads(map)) = &operand.place else {
            continue;
        };
        threads.extend((0..map.threads()).map(|thread| (thread, (operand.lane)(thread))));
        let (values, name) = (map.values(), operand.name);
        registers.extend((0..values.min(VALUES)).map(|v| {
            let keys = (0..map.threads()).map(|t| base(at) + t * values + v);
            (format!("{name} V{v}"), Link::keys(keys))
        }));
    }
    let threads = threads.into_iter().map(|(thread, lane)| {
        let link = Link {
            keys: Vec::new(),
            kin: vec![thread],
        };
        (format!("T{lane}"), link)
    });
    reply.view(chips("threads", "Threads", threads.collect()));
    reply.view(chips("registers", "Values of a thread", registers));
    for (at, operand) in operands.iter().enumerate() {
        match &operand.place {
            Ok(Place::Threads(map)) => held(reply, operand, map, base(at)),
            Ok(Place::Shared(tile)) => shared(reply, operand, *tile),
            Err(why) => reply.grid(operand.name, operand.name, Err(why.clone())),
        }
    }
}

/// The grid of an operand that no thread holds.
fn shared(reply: &mut Reply, operand: &Operand<'_>, [rows, cols]: [i64; 2]) {
    let [down, across] = operand.axes;
    let name = operand.name;
    let title =
        format!("{name}, {down} down and {across} across: {rows} by {cols} in shared memory");
    let grid = Grid::from_fn(rows, cols, |_, _| Cell::default());
    let say = |row, col| format!("{name}, {down} = {row}, {across} = {col}: in shared memory");
    match &grid {
        Ok(grid) => reply.grid(
            name,
            &title,
            Ok(Cells::new(grid, say, |_, _| Link::default())),
        ),
        Err(error) => reply.grid(name, &title, Err(error.to_string())),
    }
}

/// The most owners of a cell that are linked.
const OWNERS: usize = 64;

/// The grid of an operand that threads hold.
fn held(reply: &mut Reply, operand: &Operand<'_>, map: &ThreadValues, base: i64) {
    let [down, across] = operand.axes;
    let (name, lane, values) = (operand.name, operand.lane, map.values());
    let say = |row, col| {
        let place = format!("{name}, {down} = {row}, {across} = {col}");
        let owners = map.owners(row, col);
        if owners.is_empty() {
            return format!("{place}: no thread holds it");
        }
        let shown = owners.iter().take(4);
        let texts: Vec<String> = shown
            .map(|(t, v)| format!("thread {} value {v}", lane(*t)))
            .collect();
        let more = match owners.len().saturating_sub(4) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{place}: {}{more}", texts.join(", "))
    };
    let link = |row, col| {
        let owners = map.owners(row, col).iter().take(OWNERS);
        Link {
            keys: owners.clone().map(|(t, v)| base + t * values + v).collect(),
            kin: owners.map(|(t, _)| *t).collect(),
        }
    };
    let title = format!("{name}, {down} down and {across} across: {}", map.heading());
    let grid = map.grid();
    reply.grid(name, &title, Ok(Cells::new(&grid, say, link)));
}

/// The class of a fill in the style sheet of a picture.
pub(crate) fn class(fill: Fill) -> String {
    match fill {
        Fill::Blank => "b0".to_string(),
        Fill::Void => "v0".to_string(),
        Fill::Pastel(n) => format!("p{}", n % 8),
        Fill::Thread(n) => format!("t{}", n % 32),
        Fill::Scale(n) => format!("s{}", n.min(15)),
    }
}

/// Every fill.
fn fills() -> impl Iterator<Item = Fill> {
    let pastels = (0..8).map(Fill::Pastel);
    let threads = (0..32).map(Fill::Thread);
    let steps = (0..16).map(Fill::Scale);
    [Fill::Blank, Fill::Void]
        .into_iter()
        .chain(pastels)
        .chain(threads)
        .chain(steps)
}

/// Returns the style sheet that a picture with every fill carries.
pub(crate) fn palette() -> String {
    let grid = colex_draw::Grid::from_fn(1, 1, |_, _| colex_draw::Cell::default());
    let grid = grid.expect("a grid of one cell can be drawn");
    let legend = fills().map(|fill| (fill, String::new()));
    let svg = Picture::of(grid).legend(legend).svg();
    let sheet = svg
        .split_once("<style>")
        .and_then(|(_, rest)| rest.split_once("</style>"));
    let (sheet, _) = sheet.expect("a picture carries its style sheet");
    sheet.to_string()
}

/// Returns the picture of a grid with all labels, for a file of its own.
pub(crate) fn svg(picture: Picture) -> String {
    picture.labels(Labels::Fitting).svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_has_every_class() {
        let sheet = palette();
        for fill in fills() {
            assert!(
                sheet.contains(&format!(".cx-{}{{", class(fill))),
                "{fill:?}"
            );
        }
        assert!(sheet.contains("light-dark("));
    }

    #[test]
    fn a_long_table_is_cut_and_counted() {
        let long = table("t", "t", &["n"], 1000, |n| {
            (vec![n.to_string()], Link::key(n as i64))
        });
        assert_eq!(long["rows"].as_array().map(Vec::len), Some(ROWS));
        assert_eq!(long["size"], 1000);
    }
}
