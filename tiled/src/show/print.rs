//! Tiled operations and their threads in the words of CuTe's `print`.

use core::fmt;

use colex_layout::Tiler;

use crate::copy::{ThrCopy, TiledCopy};
use crate::mma::{ThrMma, TiledMma};

/// CuTe's `print`.
impl fmt::Display for TiledCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "TiledCopy")?;
        writeln!(f, "  Tiler_MN:       {}", self.tiler())?;
        writeln!(f, "  TiledLayout_TV: {}", self.tv())?;
        // The atom was read in values of this width when the copy was built.
        let atom = self.atom().print(self.value_bits());
        f.write_str(&atom.map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for TiledCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// CuTe's `print`.
///
/// ```
/// use colex_tiled::TiledCopy;
/// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "32:1", "1:0")?;
/// assert!(copy.slice(5)?.to_string().starts_with("ThrCopy\n  ThrIdx: 5\nTiledCopy\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for ThrCopy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ThrCopy\n  ThrIdx: {}", self.thread())?;
        fmt::Display::fmt(self.copy, f)
    }
}

/// CuTe's `print`.
impl fmt::Display for TiledMma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permutation = Tiler::Modes(self.permutation.to_vec());
        writeln!(f, "TiledMMA")?;
        writeln!(f, "  ThrLayoutVMNK:  {}", self.thread_layout())?;
        writeln!(f, "  PermutationMNK: {permutation}")?;
        f.write_str(&self.atom().print())
    }
}

impl fmt::Debug for TiledMma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// CuTe's `print`: a coordinate along a mode of one thread or atom is static.
///
/// ```
/// use colex_tiled::TiledMma;
/// let mma = TiledMma::new(colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?, "(2,2):(2,1)", ..)?;
/// assert!(mma.slice(5)?.to_string().starts_with("ThrMMA\n  Thr VMNK: (1,0,1,_0)\nTiledMMA\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for ThrMma<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modes = self.mma.thread_layout().modes();
        let places = modes.zip(self.vmnk()).map(|(mode, place)| {
            let mark = if mode.size() == 1 { "_" } else { "" };
            format!("{mark}{place}")
        });
        let places: Vec<String> = places.collect();
        writeln!(f, "ThrMMA\n  Thr VMNK: ({})", places.join(","))?;
        fmt::Display::fmt(self.mma, f)
    }
}
