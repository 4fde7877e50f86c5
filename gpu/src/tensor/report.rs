//! What the copies and matrix instructions of a kernel do.

use std::fmt;

use colex_atom::CopyAtom;
use colex_tiled::TiledMma;

use super::builder::Builder;
use super::copy::Piece;
use super::error::ErrorKind;

/// A line for every copy and matrix instruction, in the order of the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report(pub(super) Vec<Line>);

/// What one call of `copy` or `mma` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The atom.
    pub atom: String,
    /// How often each thread issues it.
    pub instructions: i64,
    /// What it does, in a sentence.
    pub what: String,
}

impl Report {
    /// The lines.
    pub fn lines(&self) -> &[Line] {
        &self.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.0 {
            writeln!(f, "{} x {}: {}", line.instructions, line.atom, line.what)?;
        }
        Ok(())
    }
}

impl Builder {
    pub(super) fn report_copy(
        &mut self,
        atom: &CopyAtom,
        src: Piece<'_>,
        _dst: Piece<'_>,
        counts: [i64; 2],
    ) -> Result<(), ErrorKind> {
        let layout = match src {
            Piece::Memory(tensor) => tensor.layout().size(),
            Piece::Registers(fragment) => fragment.layout().size(),
        };
        self.reports.push(Line {
            atom: atom.name(),
            instructions: layout / counts[0],
            what: format!(
                "{} bits of a thread from {} to {}",
                atom.bits_per_thread(),
                atom.from(),
                atom.to()
            ),
        });
        Ok(())
    }

    pub(super) fn report_mma(&mut self, mma: &TiledMma, [m, n, k]: [i64; 3]) {
        self.reports.push(Line {
            atom: mma.atom().name(),
            instructions: m * n * k,
            what: format!("{m} along M, {n} along N, {k} along K"),
        });
    }
}
