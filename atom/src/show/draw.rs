//! Pictures of matrix instructions: which thread holds which element.

use colex_draw::{Picture, ThreadValues, print_latex_mma};
use colex_layout::{Layout, Unbounded};

use crate::MmaAtom;
use crate::error::Error;

impl MmaAtom {
    /// Returns the maps of C (M by N), A (M by K) and B (N by K), in that order: which lane holds which element.
    ///
    /// # Errors
    ///
    /// Returns an error for an operation whose layouts do not stay within its shape.
    ///
    /// # Example
    ///
    /// ```
    /// let [c, a, b] = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?.maps().expect("it fits its shape");
    /// assert_eq!(c.place(5, 2), (9, 2));
    /// assert_eq!((a.cols(), b.rows()), (16, 8));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn maps(&self) -> Result<[ThreadValues; 3], Error> {
        let traits = self.traits();
        let [m, n, k] = traits.mnk;
        let lane = |thread| traits.thread.at(Unbounded(thread)).unwrap_or(thread);
        let map = |layout: &Layout, rows, cols| {
            ThreadValues::of(layout, rows, cols).map(|m| m.numbered(lane))
        };
        Ok([
            map(&traits.c, m, n)?,
            map(&traits.a, m, k)?,
            map(&traits.b, n, k)?,
        ])
    }

    /// Returns a picture of the operands around the result: A on the left, B at the top, C in the centre, each cell
    /// with its lane
    /// and value.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`MmaAtom::maps`].
    ///
    /// # Example
    ///
    /// ```
    /// let volta = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    /// let svg = volta.picture().expect("it fits its shape").svg();
    /// // A quad-pair is the lanes 0 to 3 and 16 to 19.
    /// assert!(svg.contains(">T16</text>") && !svg.contains(">T4</text>"));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn picture(&self) -> Result<Picture, Error> {
        let traits = self.traits();
        // All of it is static, so the marks would say nothing.
        let [c, a, b] = self.maps()?;
        let c = c.titled(format!("{:#}", traits.c));
        let a = a.titled(format!("{:#}", traits.a));
        let b = b.titled(format!("{:#}", traits.b));
        let [m, n, k] = traits.mnk;
        let title = format!(
            "{}: which thread holds which element of {m} by {n} by {k}",
            self.name()
        );
        Ok(ThreadValues::mma(&c, &a, &b)?.title(title))
    }

    /// Returns the tables of A, B and C as text, each cell with its lane and value.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`MmaAtom::maps`].
    ///
    /// # Example
    ///
    /// ```
    /// let text = colex_atom::mma("SM80_16x8x8_F32TF32TF32F32_TN")?.text().expect("it fits its shape");
    /// assert!(text.starts_with("A ((_4,_8),(_2,_2)):((_16,_1),(_8,_64))\n"));
    /// // Row 1 of B, n = 1: thread 4 holds k = 0 and k = 4.
    /// assert!(text.contains("\n 1   T4V0  T5V0  T6V0  T7V0  T4V1  T5V1  T6V1  T7V1\n"));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn text(&self) -> Result<String, Error> {
        let [c, a, b] = self.maps()?;
        Ok(format!("A {}\nB {}\nC {}", a.text(), b.text(), c.text()))
    }

    /// Returns the picture of A, B and C as a page of LaTeX, in the form of CuTe's `print_latex`.
    ///
    /// The comments name the layouts of the atom; CuTe names those of a tiled operation that it builds first.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`MmaAtom::maps`].
    pub fn latex(&self) -> Result<String, Error> {
        let [c, a, b] = self.maps()?;
        Ok(print_latex_mma(&c, &a, &b)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::{MmaAtom, mma, mma_atoms};

    /// Wide instructions differ from narrow ones in N only.
    fn small() -> impl Iterator<Item = MmaAtom> {
        mma_atoms().filter(|atom| atom.is_executable() && atom.mnk()[1] <= 8)
    }

    #[test]
    fn every_small_instruction_has_a_picture() {
        let mut drawn = 0;
        for atom in small() {
            let picture = atom
                .picture()
                .unwrap_or_else(|error| panic!("{}: {error}", atom.name()));
            assert_eq!(picture.grids().count(), 3, "{}", atom.name());
            drawn += 1;
        }
        assert!(drawn > 100, "{drawn}");
    }

    #[test]
    fn every_element_of_c_is_labelled_with_its_lane() {
        for atom in small() {
            let [c, _, _] = atom.maps().expect("it has a picture");
            let (grid, traits) = (c.grid(), atom.traits());
            for thread in 0..c.threads() {
                let lane = traits
                    .thread
                    .at(thread)
                    .expect("a logical thread has a lane");
                let (row, col) = c.place(thread, 0);
                assert_eq!(
                    grid.cell(row, col).lines[0],
                    format!("T{lane}"),
                    "{}",
                    atom.name()
                );
            }
        }
    }

    #[test]
    fn a_page_of_latex_has_every_element_once() {
        let page = mma("SM80_16x8x8_F32F16F16F32_TN")
            .expect("it is in the table")
            .latex();
        let page = page.expect("it fits its shape");
        assert_eq!(
            page.matches("\\shortstack").count(),
            16 * 8 + 16 * 8 + 8 * 8
        );
    }
}
