//! The lines of dumps, read back.

use core::fmt;

/// The lines that dumps of a kernel printed, on the simulator or on a GPU, sorted: by name, block, thread, and the order in
/// which they were printed.
///
/// ```
/// use colex_sim::Dumps;
///
/// let dumps = Dumps::of(
///     "block (0,0,0) thread (1,0,0) x (0,1)=2.5 (1,1)=-inf\n\
///      another line of the program\n\
///      block (0,0,0) thread (0,0,0) x (0,0)=1 (1,0)=10\n",
/// );
/// assert_eq!(dumps.lines[0].value("(1,0)"), Some(10.0));
/// assert_eq!(
///     dumps.to_string(),
///     "x\n\
///      block    thread\n\
///      (0,0,0)  (0,0,0)  (0,0)=1    (1,0)=10\n\
///      (0,0,0)  (1,0,0)  (0,1)=2.5  (1,1)=-inf\n"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dumps {
    /// The lines.
    pub lines: Vec<DumpLine>,
}

/// A line of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpLine {
    /// The name of the dump.
    pub name: String,
    /// The coordinates of the block in the grid.
    pub block: [u32; 3],
    /// The coordinates of the thread in its block.
    pub thread: [u32; 3],
    /// The elements: the coordinates `(0,5)` or the number `[3]` of each, and its value, as they were printed.
    pub elements: Vec<(String, String)>,
}

impl DumpLine {
    /// Reads a line; returns `None` if it is none of a dump.
    pub fn parse(line: &str) -> Option<DumpLine> {
        let rest = line.strip_prefix("block ")?;
        let (block, rest) = rest.split_once(" thread ")?;
        let (thread, rest) = rest.split_once(' ')?;
        let (name, rest) = rest.split_once(' ')?;
        let element = |word: &str| {
            let (label, value) = word.split_once('=')?;
            Some((label.to_string(), value.to_string()))
        };
        Some(DumpLine {
            name: name.to_string(),
            block: three(block)?,
            thread: three(thread)?,
            elements: rest.split(' ').map(element).collect::<Option<_>>()?,
        })
    }

    /// Returns the value of the element with those coordinates or that number.
    pub fn value(&self, label: &str) -> Option<f64> {
        let element = self.elements.iter().find(|(own, _)| own == label)?;
        element.1.parse().ok()
    }
}

/// `(1,2,3)`
fn three(text: &str) -> Option<[u32; 3]> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let numbers: Option<Vec<u32>> = inside.split(',').map(|n| n.parse().ok()).collect();
    numbers?.try_into().ok()
}

impl Dumps {
    /// Reads the lines of dumps from all that a program has printed.
    pub fn of(text: &str) -> Dumps {
        let mut lines: Vec<DumpLine> = text.lines().filter_map(DumpLine::parse).collect();
        // The order of threads along x first, as warps have them.
        let key = |line: &DumpLine| {
            let turned = |[x, y, z]: [u32; 3]| [z, y, x];
            (line.name.clone(), turned(line.block), turned(line.thread))
        };
        lines.sort_by_key(key);
        Dumps { lines }
    }

    /// Reads the lines that a run of the simulator has printed.
    pub fn of_printed(printed: &[super::Printed]) -> Dumps {
        let lines: Vec<&str> = printed.iter().map(|line| &line.text[..]).collect();
        Dumps::of(&lines.join("\n"))
    }
}

/// A table for each name.
impl fmt::Display for Dumps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.lines.chunk_by(|a, b| a.name == b.name);
        for (number, lines) in named.enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{}", lines[0].name)?;
            let tuple = |[x, y, z]: [u32; 3]| format!("({x},{y},{z})");
            let mut rows = vec![vec!["block".to_string(), "thread".to_string()]];
            rows.extend(lines.iter().map(|line| {
                let elements = line.elements.iter();
                let elements = elements.map(|(label, value)| format!("{label}={value}"));
                [tuple(line.block), tuple(line.thread)]
                    .into_iter()
                    .chain(elements)
                    .collect()
            }));
            columns(f, &rows)?;
        }
        Ok(())
    }
}

/// Rows of words in columns, each as wide as its widest word.
pub(crate) fn columns(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let words = rows.iter().filter_map(|row| row.get(column));
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    for row in rows {
        let words: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(word, width)| format!("{word:width$}"))
            .collect();
        writeln!(f, "{}", words.join("  ").trim_end())?;
    }
    Ok(())
}
