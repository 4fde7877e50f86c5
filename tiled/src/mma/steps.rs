//! From a tensor to its partition by a tiled MMA, every form on the way.

use core::fmt;

use colex_layout::{IntoLayout, Layout, Tiler};

use crate::Error;
use crate::mma::check::check_rank;
use crate::mma::{Operand, TiledMma};
use crate::tensor::extents::size;

/// What [`TiledMma::fragments`] computes, form by form, as CuTe's `thrfrg_A`, `thrfrg_B` and `thrfrg_C` go through
/// them.
#[derive(Clone, Debug, PartialEq)]
pub struct MmaSteps {
    /// The tensor with each mode in the order of its permutation: `((tile, rest), (tile, rest))`.
    pub permuted: Layout,
    /// The permuted tensor cut by one atom: `((atom, atom), (rest, rest))`.
    pub by_atom: Layout,
    /// One atom by its threads and values: `((thread, value), (rest, rest))`.
    pub by_value: Layout,
    /// The atoms of the grid with the threads: `((thread, (atoms, atoms)), (value, (rest, rest)))`.
    pub by_thread: Layout,
}

impl TiledMma {
    /// Returns every form of a tensor on its way to [`TiledMma::fragments`].
    ///
    /// ```
    /// use colex_tiled::{Operand, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    /// let steps = mma.fragment_steps("(32,32):(1,32)", Operand::C)?;
    /// assert_eq!(format!("{:#}", steps.by_atom), "((16,8),(2,4)):((1,32),(16,256))");
    /// assert_eq!(format!("{:#}", steps.by_value), "(((4,8),(2,2)),(2,4)):(((64,1),(32,8)),(16,256))");
    /// assert_eq!(format!("{:#}", steps.by_thread), "(((4,8),(2,2)),((2,2),(1,2))):(((64,1),(16,256)),((32,8),(0,512)))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::fragments`].
    ///
    /// Source: `thrfrg_C` in `cute/atom/mma_atom.hpp`.
    pub fn fragment_steps(
        &self,
        tensor: impl IntoLayout,
        operand: Operand,
    ) -> Result<MmaSteps, Error> {
        let tensor = &tensor.into_layout()?;
        check_rank(tensor.rank(), tensor)?;
        let traits = self.atom().traits();
        let tv = match operand {
            Operand::A => &traits.a,
            Operand::B => &traits.b,
            Operand::C => &traits.c,
        };
        let modes = operand.modes();
        let order = modes.map(|i| self.permutation(i));
        let permuted = tensor.logical_divide(Tiler::Modes(order.to_vec()))?;
        let by_atom = permuted.zipped_divide(&both(modes.map(|i| self.atom().mnk()[i]))?)?;
        let by_value = by_atom.composition((tv, ..))?;
        let atoms = both(modes.map(|i| size(self.thread_layout(), i + 1)))?;
        let grid = Tiler::Modes(vec![Tiler::All, atoms]);
        let by_thread = by_value.logical_divide(&grid)?.tile_unzip(&grid)?;
        Ok(MmaSteps {
            permuted,
            by_atom,
            by_value,
            by_thread,
        })
    }
}

/// A tiler of `extents` consecutive coordinates along two modes.
fn both(extents: [i64; 2]) -> Result<Tiler, Error> {
    let mode = |n: i64| Ok::<_, Error>(Tiler::Layout(Layout::column_major(n)?.to_static()));
    let modes: Result<Vec<Tiler>, Error> = extents.into_iter().map(mode).collect();
    Ok(Tiler::Modes(modes?))
}

/// One form a line.
impl fmt::Display for MmaSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "((tile,rest),..)              {}", self.permuted)?;
        writeln!(f, "((atom,atom),rest)            {}", self.by_atom)?;
        writeln!(f, "((thread,value),rest)         {}", self.by_value)?;
        writeln!(f, "((thread,atoms),(value,rest)) {}", self.by_thread)
    }
}
