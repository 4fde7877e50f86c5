//! Accumulators as an operand of the next product, without copies.

use std::collections::HashMap;
use std::panic::Location;

use colex_layout::Layout;
use colex_tiled::{Operand, TiledMma};

use super::Fragment;
use super::rows::places;
use crate::error::ErrorKind;

impl Fragment {
    /// Returns the same registers as the left factor ([`Operand::A`]: rows are M, columns K) or the right one
    /// ([`Operand::B`]: rows are N, columns K) of another product: `self` holds the accumulators of `from` over a tile
    /// of C, in their order, converted to the element type that `to` reads. No instruction is added: every thread must
    /// already hold the elements that the other MMA takes from it.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::Builder;
    /// use colex_tiled::{Operand, TiledMma};
    ///
    /// let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    /// let mma = TiledMma::new(mma, "(4,1,1):(1,0,0)", (64, 16, 16))?;
    /// let mut k = Builder::new("k", Arch::Sm80, 128);
    /// let sums = k.accumulators(&mma, (64, 32));
    /// let halves = k.convert(&sums, Ty::F16);
    /// let left = halves.as_operand(&mma, &mma, Operand::A, (64, 32));
    /// assert_eq!(left.layout().to_string(), "((_2,_2,_2),_1,_2):((_1,_2,_4),_0,_8)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`](crate::Builder::finish) fails if another thread holds an element, if no layout over the registers is
    /// the operand's, or if a partition has no result.
    #[track_caller]
    pub fn as_operand(
        &self,
        from: &TiledMma,
        to: &TiledMma,
        operand: Operand,
        tile: impl Into<[i64; 2]>,
    ) -> Fragment {
        self.attempt(Location::caller(), || {
            self.factor(from, to, operand, tile.into())
        })
    }

    fn factor(
        &self,
        from: &TiledMma,
        to: &TiledMma,
        operand: Operand,
        tile: [i64; 2],
    ) -> Result<Fragment, ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands("as_operand", why));
        if operand == Operand::C {
            return refuse("C is no factor: A and B are".to_string());
        }
        // Before every element of the tile is listed.
        let (threads, values) = (from.threads(), self.layout.size());
        if tile[0].saturating_mul(tile[1]) > threads.saturating_mul(values) {
            let [m, n] = tile;
            return refuse(format!(
                "{threads} threads with {values} values each do not hold a tile of {m} x {n} elements"
            ));
        }
        let (_, have) = places(from, Operand::C, tile)?;
        let (shape, wanted) = places(to, operand, tile)?;
        if have.len() != wanted.len() || have[0].len() as i64 != self.layout.size() {
            return refuse(format!(
                "{} threads and {} values of C of {}, {} threads of {}, and the fragment {}: threads and values are the same",
                have.len(),
                have[0].len(),
                from.atom().name(),
                wanted.len(),
                to.atom().name(),
                self.layout
            ));
        }
        let mut first: Option<Vec<i64>> = None;
        for (t, (have, wanted)) in have.iter().zip(&wanted).enumerate() {
            let at: HashMap<i64, i64> = have.iter().copied().zip(0..).collect();
            let mut values = Vec::new();
            for place in wanted {
                let Some(value) = at.get(place) else {
                    return refuse(format!(
                        "thread {t} wants element ({},{}) as {} of {}, which is not among its accumulators of {}",
                        place % tile[0],
                        place / tile[0],
                        if operand == Operand::A { "A" } else { "B" },
                        to.atom().name(),
                        from.atom().name()
                    ));
                };
                values.push(self.layout.at(*value)?);
            }
            match &first {
                None => first = Some(values),
                Some(first) if *first == values => {}
                Some(_) => {
                    let why = format!("threads 0 and {t} have the elements in different registers");
                    return refuse(why);
                }
            }
        }
        let values = first.unwrap_or_default();
        let layout = Layout::infer_modes(&shape, |i| values[i as usize])?;
        Ok(self.under(layout.to_static()))
    }
}
