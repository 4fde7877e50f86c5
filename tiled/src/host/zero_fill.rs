//! A tiled copy that fills up with zeros where its source ends.

use core::ops::{Deref, DerefMut};

use colex_atom::{Argument, CopyForm};
use colex_layout::{IntTuple, Layout};

use crate::Error;
use crate::access::map::{Addresses, Coords, tuple};
use crate::copy::{Side, TiledCopy};
use crate::tensor::extents::{bare, size};
use crate::tensor::{Tensor, one_place_each};

const OPERATION: &str = "copy_zero_filled";

impl TiledCopy {
    /// Copies `src` to a `dst` that may be larger, and writes zeros where `src` has nothing: what the zero-filling
    /// `cp.async` does, whose source has a size of its own. The result is how many values were zeros.
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let atom = colex_atom::copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint64_t>")?;
    /// let copy = TiledCopy::new(atom, 32, "(2,4):(1,2)", "(2,1):(1,0)")?;
    /// let src = Tensor::new(vec![1; 20], "(3,5):(1,4)")?;
    /// let mut tile = Tensor::new(vec![7; 32], "(4,8):(1,4)")?;
    /// assert_eq!(copy.copy_zero_filled(&src, &mut tile)?, 32 - 15);
    /// assert_eq!((tile.get((2, 4))?, tile.get((3, 4))?, tile.get((0, 5))?), (&1, &0, &0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that fills nothing, for a `dst` that is smaller than `src` along a mode or has one
    /// element at several coordinates, for elements and vectors as in [`TiledCopy::copy_if`], for an instruction that
    /// would read again after the first zero, if the tile does not divide `dst`, or for an atom that is a layout only.
    /// Nothing is written then.
    ///
    /// Source: PTX ISA 9.7.9 (`cp.async`, `src-size`).
    #[doc(alias = "zfill")]
    pub fn copy_zero_filled<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
    ) -> Result<usize, Error>
    where
        T: Clone + Default,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        self.atom().op()?;
        self.check_fills()?;
        self.check_element::<T>(OPERATION)?;
        one_place_each(OPERATION, dst.layout())?;
        let extents = larger(src.layout(), dst.layout())?;
        let (there, to) = (Addresses::new(src.layout())?, dst.layout().clone());
        let to = Addresses::new(&to)?;
        let vector = usize::try_from(self.atom_values()).expect("values are counted");
        let mut writes = Vec::new();
        for (thread, coords) in self.named(&extents, Side::Destination)?.lanes() {
            for coords in coords.chunks(vector) {
                let read = read(src, &there, thread, coords)?;
                self.check_vector(OPERATION, Side::Source, thread, coords, &there, src)?;
                self.check_vector(OPERATION, Side::Destination, thread, coords, &to, dst)?;
                for (coord, value) in coords.iter().zip(read) {
                    writes.push((to.inside(thread, coord)?, value));
                }
            }
        }
        let zeros = writes.iter().filter(|(_, value)| value.is_none()).count();
        for (place, value) in writes {
            *dst.element_mut(place) = value.unwrap_or_default();
        }
        Ok(zeros)
    }

    fn check_fills(&self) -> Result<(), Error> {
        match self.atom().row().form {
            CopyForm::Instruction(arguments) if arguments.contains(&Argument::SourceBytes) => {
                Ok(())
            }
            _ => refuse(format!(
                "{} fills nothing with zeros; SM80_CP_ASYNC_CACHEALWAYS_ZFILL and SM80_CP_ASYNC_CACHEGLOBAL_ZFILL do",
                self.atom().name()
            )),
        }
    }
}

/// What one instruction reads: a value for each coordinate that the source has, which are the first ones.
fn read<T: Clone, S: Deref<Target = [T]>>(
    src: &Tensor<S>,
    there: &Addresses<'_>,
    thread: i64,
    coords: Coords<'_>,
) -> Result<Vec<Option<T>>, Error> {
    let mut values: Vec<Option<T>> = Vec::new();
    for coord in coords.iter() {
        let place = there.at(coord);
        if place.is_some() && values.last().is_some_and(Option::is_none) {
            return refuse(format!(
                "one instruction of thread {thread} reads {} after what the source {} does not have, and it can leave \
                 out the last values only",
                tuple(coord),
                src.layout()
            ));
        }
        values.push(place.map(|place| src.element(place).clone()));
    }
    Ok(values)
}

/// The extents of the destination, along no mode smaller than the source.
fn larger(src: &Layout, dst: &Layout) -> Result<IntTuple, Error> {
    let fits = src.rank() == dst.rank() && (0..src.rank()).all(|i| size(src, i) <= size(dst, i));
    if fits {
        Ok(bare(dst.shape().product_each()?))
    } else {
        refuse(format!(
            "the destination {dst} has not room for the source {src}"
        ))
    }
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::assumption(OPERATION, why))
}
