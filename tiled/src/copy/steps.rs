//! From a tensor to its partition by a tiled copy, every form on the way.

use core::fmt;

use colex_layout::{IntTuple, IntoLayout, Layout, Tiler};

use crate::Error;
use crate::copy::{Side, TiledCopy};
use crate::tensor::extents::fixed;

/// What [`TiledCopy::partitions`] computes, form by form, as CuTe's `tidfrg_S` and `tidfrg_D` go through them.
///
/// The atom's thread and value are `t` and `v`, the rest of the tiled copy's `T` and `V`.
#[derive(Clone, Debug, PartialEq)]
pub struct CopySteps {
    /// The tensor cut by the tiler: `((tile ..), (rest ..))`.
    pub tiled: Layout,
    /// `(t, v)` of the side to `(t, v)` of the atom's reference (CuTe's `ref2trg`).
    pub to_reference: Layout,
    /// The thread-value layout cut by the atom: `((t, v), (T, V)) -> index in the tile` (CuTe's `atom_layout_TV`).
    pub by_atom: Layout,
    /// The same with the side's threads and values (CuTe's `trg_layout_TV`).
    pub of_side: Layout,
    /// Threads and values together: `((t, T), (v, V)) -> index in the tile`.
    pub zipped: Layout,
    /// Each of the two coalesced, values only within one atom and within the rest (CuTe's `thrval2mn`).
    pub thread_value: Layout,
    /// The tensor by threads and values: `((thread, (v, V)), (rest ..))`.
    pub by_thread: Layout,
    /// The modes unpacked: `(thread, (v, V), (rest ..))`.
    pub partition: Layout,
}

/// The forms that do not depend on a tensor.
pub(crate) struct ThreadValue {
    to_reference: Layout,
    by_atom: Layout,
    of_side: Layout,
    zipped: Layout,
    pub(crate) coalesced: Layout,
}

impl TiledCopy {
    /// Returns every form of a tensor on its way to [`TiledCopy::partitions`].
    ///
    /// ```
    /// use colex_tiled::{Side, TiledCopy};
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(8,16):(1,8)", "(2,4):(1,2)",
    /// )?;
    /// let steps = copy.partition_steps("(24,16):(1,24)", Side::Source)?;
    /// assert_eq!(format!("{:#}", steps.by_atom), "((1,1),((8,16),(2,4))):((0,0),((2,64),(1,16)))");
    /// assert_eq!(format!("{:#}", steps.thread_value), "((8,16),(1,(2,4))):((2,64),(0,(1,16)))");
    /// assert_eq!(steps.partition, copy.partitions(&"(24,16):(1,24)".parse::<colex_layout::Layout>()?, Side::Source)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::partitions`].
    ///
    /// Source: `tile2thrfrg` in `cute/atom/copy_atom.hpp`.
    #[doc(alias = "tile2thrfrg")]
    pub fn partition_steps(&self, tensor: impl IntoLayout, side: Side) -> Result<CopySteps, Error> {
        let tensor = &tensor.into_layout()?;
        self.check_rank(tensor.rank(), tensor)?;
        let tiled = tensor.zipped_divide(self.tiler())?;
        let tv = self.thread_value(side)?;
        let by_thread = tiled.composition((&tv.coalesced, ..))?;
        let modes = [&[0, 0][..], &[0, 1], &[1]].map(|path| by_thread.get(path));
        let [thread, values, rest] = modes;
        Ok(CopySteps {
            partition: Layout::concat([&thread?, &values?, &rest?])?,
            tiled,
            to_reference: tv.to_reference,
            by_atom: tv.by_atom,
            of_side: tv.of_side,
            zipped: tv.zipped,
            thread_value: tv.coalesced,
            by_thread,
        })
    }

    /// The thread-value layout as a side has it, form by form.
    pub(crate) fn thread_value(&self, side: Side) -> Result<ThreadValue, Error> {
        let target = match side {
            Side::Source => &self.values.src,
            Side::Destination => &self.values.dst,
        };
        let to_reference = self.values.reference.right_inverse()?.composition(target)?;
        let atom = IntTuple::flat([self.atom_threads(), self.atom_values()].map(fixed));
        let by_atom = self.tv().zipped_divide(Tiler::try_from(&atom)?)?;
        let of_side = by_atom.composition((&to_reference, ..))?;
        let zipped = of_side.zip()?;
        Ok(ThreadValue {
            coalesced: zipped.coalesce((1, (1, 1)))?,
            to_reference,
            by_atom,
            of_side,
            zipped,
        })
    }
}

/// One form a line.
impl fmt::Display for CopySteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "((tile),(rest))        {}", self.tiled)?;
        writeln!(f, "side to reference      {}", self.to_reference)?;
        writeln!(f, "((t,v),(T,V))          {}", self.by_atom)?;
        writeln!(f, "the same of the side   {}", self.of_side)?;
        writeln!(f, "((t,T),(v,V))          {}", self.zipped)?;
        writeln!(f, "coalesced              {}", self.thread_value)?;
        writeln!(f, "((thread,value),rest)  {}", self.by_thread)?;
        writeln!(f, "(thread,value,rest)    {}", self.partition)
    }
}
