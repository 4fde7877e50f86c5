//! Fragments of one tiling in the modes of another.

use colex_layout::{Coord, IntoLayout, Layout, Slot, Tiler};

use crate::Error;
use crate::copy::TiledCopy;
use crate::error::ErrorKind;
use crate::tensor::extents::{check_walk, size};

impl TiledCopy {
    /// Returns a fragment of another tiling (its first mode the values of one atom there) in the modes of this copy's
    /// partitions. CuTe's `retile_S` and `retile_D`.
    ///
    /// ```
    /// use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    /// let load = TiledCopy::for_operand(colex_atom::copy("SM75_U32x4_LDSM_N")?, 16, &mma, Operand::A)?;
    /// let fragment = mma.slice(0)?.fragment("(128,64):(64,1)", Operand::A)?;
    /// assert_eq!(format!("{fragment:#}"), "((2,2,2),4,4):((1,2,4),32,8)");
    /// assert_eq!(format!("{:#}", load.retile(&fragment)?), "((8,1),4,4):((1,0),32,8)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a fragment of fewer modes than the values and the tiler's modes, if its values do not
    /// divide those of a thread, or the tile not what the fragment is of (CuTe names other registers then), or if the
    /// layout algebra has no result.
    #[doc(alias = "retile_S")]
    #[doc(alias = "retile_D")]
    pub fn retile(&self, fragment: impl IntoLayout) -> Result<Layout, Error> {
        let fragment = &fragment.into_layout()?;
        let values = size(fragment, 0);
        self.check_fragment(fragment, values)?;
        check_walk("retile", fragment)?;
        let order = self.tv().right_inverse()?.with_shape(self.tile_shape()?)?;
        let order = order.upcast(self.threads() * values)?;
        let first = Layout::column_major(values)?;
        let by_value = first.logical_product(order.right_inverse()?)?;
        let by_value = by_value.zipped_divide(self.atom_values())?;
        let mut tiler = vec![Tiler::from(values)];
        tiler.extend(order.modes().map(|m| Tiler::from(m.size())));
        let tiled = fragment.zipped_divide(Tiler::Modes(tiler))?;
        let cut = tiled.composition((&by_value, ..))?;
        let retiled = cut.slice(retile_coord(fragment.rank()))?;
        if sorted(&retiled)? == sorted(fragment)? {
            return Ok(retiled);
        }
        Err(Error::assumption(
            "retile",
            format!(
                "{retiled:#} is not all of the fragment {fragment}: the tile {} of the copy does not divide what it is of",
                self.tiler()
            ),
        ))
    }

    fn check_fragment(&self, fragment: &Layout, values: i64) -> Result<(), Error> {
        let (have, need) = (fragment.rank(), self.tiler().rank() + 1);
        if have < need {
            return Err(ErrorKind::Rank {
                operation: "retile",
                tensor: fragment.to_string(),
                have,
                need,
            }
            .into());
        }
        let of_thread = size(self.tv(), 1);
        if of_thread % values == 0 || values % of_thread == 0 {
            Ok(())
        } else {
            Err(Error::assumption(
                "retile",
                format!(
                    "neither do the {values} values in the first mode of {fragment} divide the {of_thread} values of a \
                     thread of the copy, nor these them"
                ),
            ))
        }
    }
}

/// `(_, (0, _, _, ..))`: all values, the first mode of the rest fixed.
fn retile_coord(rank: usize) -> Coord {
    let rest = (0..rank).map(|i| {
        if i == 0 {
            Coord::from(0)
        } else {
            Coord::from(Slot::All)
        }
    });
    Coord::concat(&[
        Coord::from(Slot::All),
        Coord::concat(&rest.collect::<Vec<_>>()),
    ])
}

/// The registers in ascending order.
fn sorted(fragment: &Layout) -> Result<Vec<i64>, Error> {
    let mut registers = fragment.table()?;
    registers.sort_unstable();
    Ok(registers)
}
