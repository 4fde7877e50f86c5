//! `ThrMma`: one thread of a tiled MMA.

use colex_layout::{Coord, IntTuple, IntoIntTuple, IntoLayout, Layout, Slot};

use crate::Error;
use crate::mma::{Operand, TiledMma};
use crate::tensor::partition::{Partition, fragment_like, slice};

/// One thread of a [`TiledMma`].
///
/// # Example
///
/// ```
/// use colex_tiled::{Operand, TiledMma};
/// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
/// let thread = mma.slice(37)?;
/// // Thread 5 of the warp that is second along M and first along N.
/// assert_eq!((thread.thread(), thread.vmnk(), thread.is_member()), (37, [5, 1, 0, 0], true));
/// let part = thread.partition(((64, 32), (32, 1)), Operand::C)?; // (MMA, MMA_M, MMA_N)
/// assert_eq!(part.layout.shape(), "((2,2),2,2)".parse()?);
/// assert_eq!(thread.fragment(((64, 32), (32, 1)), Operand::C)?.size(), 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThrMma<'a> {
    pub(crate) mma: &'a TiledMma,
    pub(crate) thread: i64,
    /// The thread of the atom, and the atom along M, N and K.
    pub(crate) vmnk: [i64; 4],
    pub(crate) is_member: bool,
}

impl ThrMma<'_> {
    /// Returns the thread.
    #[must_use]
    pub const fn thread(&self) -> i64 {
        self.thread
    }

    /// Returns the thread of the atom, and the atom along M, N and K.
    #[must_use]
    pub const fn vmnk(&self) -> [i64; 4] {
        self.vmnk
    }

    /// Returns whether the thread is one of the MMA's own, not another lane of a warp that repeats one of them.
    #[must_use]
    pub const fn is_member(&self) -> bool {
        self.is_member
    }

    /// Returns what this thread has of an operand: `(MMA, MMA_M, MMA_K)` and so on.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::fragments`].
    #[doc(alias = "partition_A")]
    #[doc(alias = "partition_B")]
    #[doc(alias = "partition_C")]
    pub fn partition(&self, tensor: impl IntoLayout, operand: Operand) -> Result<Partition, Error> {
        let tensor = &tensor.into_layout()?;
        self.part_of(tensor, &self.mma.fragments(tensor, operand)?, operand)
    }

    /// This thread's part of `all`, the fragments of a tensor.
    pub(crate) fn part_of(
        &self,
        tensor: &Layout,
        all: &Layout,
        operand: Operand,
    ) -> Result<Partition, Error> {
        slice(tensor, all, &self.coord(operand, all)?)
    }

    /// Returns the layout of the registers for this thread's part: CuTe's `partition_fragment_A`, `B`, `C`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`ThrMma::partition`].
    #[doc(alias = "partition_fragment_A")]
    #[doc(alias = "partition_fragment_B")]
    #[doc(alias = "partition_fragment_C")]
    pub fn fragment(&self, tensor: impl IntoLayout, operand: Operand) -> Result<Layout, Error> {
        let tensor = &tensor.into_layout()?;
        let partition = self.partition(tensor, operand)?.layout;
        Ok(match operand {
            Operand::C => Layout::column_major(partition.shape())?,
            _ => fragment_like(&partition)?,
        })
    }

    /// `((v, (i, j)), (_, (_, ..)))`.
    fn coord(&self, operand: Operand, all: &Layout) -> Result<Coord, Error> {
        let [i, j] = operand.modes();
        let thread = Coord::from((self.vmnk[0], (self.vmnk[i + 1], self.vmnk[j + 1])));
        let rest = all.get(&[1, 1])?.rank();
        let all = || Coord::from(Slot::All);
        let rest = if rest == 1 {
            all()
        } else {
            Coord::concat(&vec![all(); rest])
        };
        Ok(Coord::concat(&[thread, Coord::concat(&[all(), rest])]))
    }
}

impl TiledMma {
    /// Returns the shape of what any thread has of an operand of this shape: `(MMA, MMA_M, MMA_K)` and so on. CuTe's
    /// `partition_shape_A`, `B`, `C`.
    ///
    /// ```
    /// use colex_tiled::{Operand, TiledMma};
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    /// assert_eq!(format!("{:#}", mma.partition_shape((128, 64), Operand::A)?), "((2,2,2),4,4)");
    /// assert_eq!(format!("{:#}", mma.accumulator((128, 128))?), "((2,2),4,8):((1,2),4,16)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::fragments`].
    #[doc(alias = "partition_shape_A")]
    #[doc(alias = "partition_shape_B")]
    #[doc(alias = "partition_shape_C")]
    pub fn partition_shape(
        &self,
        shape: impl IntoIntTuple,
        operand: Operand,
    ) -> Result<IntTuple, Error> {
        let tensor = Layout::column_major(shape)?;
        Ok(self.slice(0)?.partition(&tensor, operand)?.layout.shape())
    }

    /// Returns the layout of the accumulators that a thread has of a C of this shape: CuTe's `partition_fragment_C` of
    /// an MMA.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let acc = mma.accumulator((64, 32))?;
    /// assert_eq!(format!("{acc:#}"), "((2,2),2,2):((1,2),4,8)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::fragments`].
    #[doc(alias = "partition_fragment_C")]
    pub fn accumulator(&self, shape: impl IntoIntTuple) -> Result<Layout, Error> {
        Ok(Layout::column_major(
            self.partition_shape(shape, Operand::C)?,
        )?)
    }
}
