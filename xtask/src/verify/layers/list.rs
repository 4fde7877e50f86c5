//! The list of layers in ARCHITECTURE.md, lowest first.
//!
//! ```text
//! | crate | in `src` | what it holds |
//! |---|---|---|
//! | `colex-layout` | `error` | the errors |
//! | | `tuple` `int` | integers and tuples of them |
//! ```
//!
//! A row that names a crate begins it; the rows below it are the folders of its `src`, and the files beside them,
//! without `.rs`. What one row names may import each other. The crate's root (`lib.rs`) stands above all of them.

use anyhow::{Result, bail};

/// Where the list stands.
pub(super) const FILE: &str = "ARCHITECTURE.md";

/// The crates and their folders.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) layers: Vec<Layer>,
}

/// One row: folders that may import each other and everything below.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) package: String,
    pub(super) folders: Vec<String>,
    pub(super) line: usize,
}

impl List {
    /// Reads the table below the heading `## Layers`.
    ///
    /// # Errors
    ///
    /// Returns an error if the heading is missing, or if a row cannot be read.
    pub(super) fn read(text: &str) -> Result<List> {
        let mut list = List::default();
        let mut in_section = false;
        let mut in_table = false;
        for (line, row) in (1..).zip(text.lines()) {
            if row.starts_with("## ") {
                in_section = row == "## Layers";
            }
            if !in_section || !row.starts_with('|') {
                in_table = false;
                continue;
            }
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            // The first row of a table is its header, the second a rule.
            if in_table && !cells[0].starts_with("--") {
                list.add_layer(line, &cells)?;
            }
            in_table = true;
        }
        if list.layers.is_empty() {
            bail!("{FILE} has no table of crates and folders below a heading `## Layers`");
        }
        Ok(list)
    }

    fn add_layer(&mut self, line: usize, cells: &[&str]) -> Result<()> {
        let named = names(cells[0]);
        let above = self.layers.last().map(|layer| layer.package.clone());
        let Some(package) = named.first().cloned().or(above) else {
            bail!("{FILE}:{line}: the first row names no crate");
        };
        self.layers.push(Layer {
            package,
            folders: cells.get(1).map(|cell| names(cell)).unwrap_or_default(),
            line,
        });
        Ok(())
    }
}

/// What stands between backticks in a cell.
fn names(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_string)
        .collect()
}
