//! Thread-value maps as text.

use alloc::format;
use alloc::string::String;

use crate::ThreadValues;
use crate::table::text::put;

impl ThreadValues {
    /// Returns the tile as a table of characters under its heading: `T5V2` in the cell that thread 5 holds as its value
    /// 2.
    ///
    /// A cell that several threads hold shows the first; one that no thread holds is a dash.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_draw::ThreadValues;
    /// let map = ThreadValues::of("((2,2),2):((4,1),2)", 4, 2)?;
    /// let lines = [
    ///     "((2,2),2):((4,1),2)",
    ///     "       0    1",
    ///     " 0  T0V0 T1V0",
    ///     " 1  T2V0 T3V0",
    ///     " 2  T0V1 T1V1",
    ///     " 3  T2V1 T3V1",
    /// ];
    /// assert_eq!(map.text(), lines.join("\n") + "\n");
    /// # Ok::<(), colex_draw::Error>(())
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        let label = |row, col| match self.owners(row, col).first() {
            Some((thread, value)) => format!("T{}V{value}", self.number(*thread)),
            None => String::from("-"),
        };
        let cells = (0..self.rows()).flat_map(|row| (0..self.cols()).map(move |col| (row, col)));
        let width = cells
            .map(|(row, col)| label(row, col).len())
            .max()
            .unwrap_or(1);
        let mut out = String::new();
        put(&mut out, format_args!("{}\n   ", self.heading()));
        (0..self.cols()).for_each(|col| put(&mut out, format_args!(" {col:>width$}")));
        for row in 0..self.rows() {
            put(&mut out, format_args!("\n{row:2} "));
            (0..self.cols())
                .for_each(|col| put(&mut out, format_args!(" {:>width$}", label(row, col))));
        }
        out + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_stands_in_its_cell() {
        let map =
            ThreadValues::of("((4,8),(2,2)):((32,1),(16,8))", 16, 8).expect("it fits the tile");
        let text = map.text();
        let rows: alloc::vec::Vec<&str> = text.lines().skip(2).collect();
        for (thread, value) in (0..32).flat_map(|t| (0..4).map(move |v| (t, v))) {
            let (row, col) = map.place(thread, value);
            let cell = rows[row as usize].split_whitespace().nth(col as usize + 1);
            assert_eq!(cell, Some(format!("T{thread}V{value}").as_str()));
        }
    }
}
