//! `TiledCopy`: one copy atom repeated over threads and values.

mod check;
mod lanes;
mod make;
mod retile;
mod steps;
mod thread;

pub use colex_atom::Side;
pub use steps::CopySteps;
pub use thread::ThrCopy;

use core::fmt;

use colex_atom::{CopyAtom, ValLayouts};
use colex_layout::{IntTuple, IntoLayout, IntoTiler, Layout, Tiler};

use crate::Error;
use crate::copy::check::{check_compact, check_consecutive, check_thread_value};
use crate::error::ErrorKind;
use crate::tensor::extents::{shape_of, size};
use crate::tensor::partition::Partitionable;

/// A copy atom repeated over a tile: which thread moves which element, as source and as destination.
///
/// It is described by a thread-value layout `(thread, value) -> index in the tile` and a tiler that says which
/// elements of a tensor are the tile. A law of every tiled copy: source and destination partitions of one thread name
/// the elements in the order in which the instruction moves them.
///
/// # Example
///
/// ```
/// use colex_tiled::TiledCopy;
/// // 128 threads, (32,4), each moves a column of 4 floats: 16 bytes.
/// let copy = TiledCopy::new(
///     colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(32,4):(1,32)", "(4,1):(1,4)",
/// )?;
/// assert_eq!(copy.tiler().to_string(), "(128,4)");
/// assert_eq!(format!("{:#}", copy.tv()), "(128,4):(4,1)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `TiledCopy` in `cute/atom/copy_atom.hpp`.
#[derive(Clone, PartialEq)]
pub struct TiledCopy {
    atom: CopyAtom,
    bits: i64,
    pub(crate) values: ValLayouts,
    tv: Layout,
    tiler: Tiler,
}

impl TiledCopy {
    /// Returns a copy of values of `bits` bits by threads laid out as `threads`, each with values laid out as `values`;
    /// both map coordinates of the tile. CuTe's `make_tiled_copy`.
    ///
    /// The tile is the raked product of the two, and the thread-value layout its right inverse. That is what the two
    /// say only if each of them numbers its coordinates 0, 1, 2 and so on, each once, in some order.
    ///
    /// ```
    /// use colex_tiled::TiledCopy;
    ///
    /// // 32 threads, each with four neighbours of a column: one access of 16 bytes.
    /// let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.tile_shape()?.to_string(), "(32,4)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `threads` or `values` leave numbers out or repeat them (CuTe goes on, and gives threads
    /// elements that the layouts do not give them), if the atom takes more threads or values, if the product does not
    /// exist, or if the atom cannot move values of that width.
    #[doc(alias = "make_tiled_copy")]
    pub fn new(
        atom: CopyAtom,
        bits: i64,
        threads: impl IntoLayout,
        values: impl IntoLayout,
    ) -> Result<Self, Error> {
        let threads = &threads.into_layout()?;
        let values = &values.into_layout()?;
        check_compact("threads", threads)?;
        check_compact("values", values)?;
        let tile = threads.raked_product(values)?;
        let tv = tile.right_inverse()?.with_shape(IntTuple::flat([
            threads.shape().product()?,
            values.shape().product()?,
        ]))?;
        let tiler = Tiler::try_from(&tile.shape().product_each()?)?;
        Self::from_tv(atom, bits, tv, tiler)
    }

    /// Returns the copy with this thread-value layout over the tile that `tiler` cuts. CuTe's `make_tiled_copy_impl`.
    ///
    /// ```
    /// use colex_layout::{Layout, Tiler};
    /// use colex_tiled::TiledCopy;
    ///
    /// let tv: Layout = "(4,2):(2,1)".parse()?;
    /// let copy = TiledCopy::from_tv(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, tv, Tiler::from(8))?;
    /// assert_eq!((copy.threads(), copy.tile_shape()?.to_string()), (4, "8".to_string()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the atom takes more threads or values, for a width it cannot move, for a `tv` that is not of
    /// threads and values, or names an index that the tile does not have, or for an atom whose threads do not follow
    /// each other (CuTe checks none of these).
    #[doc(alias = "make_tiled_copy_impl")]
    pub fn from_tv(
        atom: CopyAtom,
        bits: i64,
        tv: impl IntoLayout,
        tiler: impl IntoTiler,
    ) -> Result<Self, Error> {
        let tv = tv.into_layout()?;
        let tiler = tiler.into_tiler()?;
        let values = atom.val_layouts(bits)?;
        check_thread_value(&tv, &tiler)?;
        let copy = Self {
            atom,
            bits,
            values,
            tv,
            tiler,
        };
        copy.check_count("threads", copy.threads(), copy.atom_threads())?;
        copy.check_count("values", size(&copy.tv, 1), copy.atom_values())?;
        check_consecutive(&copy.atom.name(), &copy.atom.traits().thread)?;
        Ok(copy)
    }

    fn check_count(&self, what: &'static str, have: i64, need: i64) -> Result<(), Error> {
        if need > 0 && have % need == 0 {
            return Ok(());
        }
        Err(ErrorKind::Count {
            atom: self.atom.name(),
            what,
            have,
            need,
        }
        .into())
    }

    /// Returns the atom.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.atom().name(), "UniversalCopy<uint128_t>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn atom(&self) -> &CopyAtom {
        &self.atom
    }

    /// Returns the width of a value in bits.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.value_bits(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn value_bits(&self) -> i64 {
        self.bits
    }

    /// Returns the tile, mode by mode (CuTe's `Tiler_MN`).
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.tiler().to_string(), "(32,4)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn tiler(&self) -> &Tiler {
        &self.tiler
    }

    /// Returns `(thread, value) -> index in the tile` (CuTe's `TiledLayout_TV`).
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(format!("{:#}", copy.tv()), "(32,4):(4,1)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn tv(&self) -> &Layout {
        &self.tv
    }

    /// Returns how many threads take part.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.threads(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn threads(&self) -> i64 {
        size(&self.tv, 0)
    }

    /// Returns how many threads one instruction takes.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.atom_threads(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn atom_threads(&self) -> i64 {
        size(&self.values.reference, 0)
    }

    /// Returns how many values each thread moves by one instruction (CuTe's `AtomNumVal`).
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.atom_values(), 4); // 128 bits in values of 32
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn atom_values(&self) -> i64 {
        size(&self.values.reference, 1)
    }

    /// Returns `(thread, value) -> index in the tile` as the side has it: `get_layoutS_TV`, `get_layoutD_TV`.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(format!("{:#}", copy.tv_of(Side::Source)?), "(32,(4,1)):(4,(1,0))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the atom's threads or values cannot be cut from the thread-value layout.
    #[doc(alias = "get_layoutS_TV")]
    #[doc(alias = "get_layoutD_TV")]
    pub fn tv_of(&self, side: Side) -> Result<Layout, Error> {
        let tile = Layout::column_major(self.tile_shape()?)?;
        Ok(tile.composition(&self.thread_value(side)?.coalesced)?)
    }

    /// Returns the extents of the tile.
    ///
    /// ```
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// assert_eq!(copy.tile_shape()?.to_string(), "(32,4)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tiler has `_`, whose extent only a tensor knows.
    pub fn tile_shape(&self) -> Result<IntTuple, Error> {
        shape_of(&self.tiler).ok_or_else(|| {
            Error::assumption(
                "tile_shape",
                format!(
                    "the tiler {} keeps a whole mode, whose extent only a tensor knows",
                    self.tiler
                ),
            )
        })
    }

    /// Returns the whole tensor as
    /// `(threads, (one atom's values, the rest of a thread's values), (rest of each mode))`.
    ///
    /// CuTe's `tidfrg_S` and `tidfrg_D`; [`TiledCopy::partition_steps`] has every form on the way.
    ///
    /// ```
    /// # use colex_layout::Layout;
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// let tensor: Layout = "(64,8):(1,64)".parse()?;
    /// let partitions = copy.partitions(&tensor, Side::Source)?;
    /// assert_eq!(format!("{partitions:#}"), "((8,4),(4,1),(2,2)):((4,64),(1,0),(32,256))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor has fewer modes than the tiler, or if the layout algebra has no result.
    #[doc(alias = "tidfrg_S")]
    #[doc(alias = "tidfrg_D")]
    pub fn partitions<T: Partitionable>(&self, tensor: &T, side: Side) -> Result<T, Error> {
        let inner = tensor.inner_layout();
        self.check_rank(inner.rank(), tensor)?;
        tensor.with_inner(self.partition_steps(inner, side)?.partition)
    }

    pub(crate) fn check_rank(&self, have: usize, tensor: &dyn fmt::Display) -> Result<(), Error> {
        let need = self.tiler.rank();
        if have >= need {
            return Ok(());
        }
        Err(ErrorKind::Rank {
            operation: "partitions",
            tensor: tensor.to_string(),
            have,
            need,
        }
        .into())
    }

    /// Returns what thread `thread` does.
    ///
    /// ```
    /// # use colex_layout::Layout;
    /// # use colex_tiled::{Side, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// let tensor: Layout = "(64,8):(1,64)".parse()?;
    /// let part = copy.slice(3)?.partition_src(&tensor)?;
    /// assert_eq!(format!("{} + {:#}", part.start, part.layout), "12 + ((4,1),2,2):((1,0),32,256)");
    /// assert_eq!(copy.slice(32).unwrap_err().to_string(), "thread 32 is not within 0..32");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `thread` is not below the number of threads.
    #[doc(alias = "get_slice")]
    #[doc(alias = "get_thread_slice")]
    pub fn slice(&self, thread: i64) -> Result<ThrCopy<'_>, Error> {
        if (0..self.threads()).contains(&thread) {
            return Ok(ThrCopy { copy: self, thread });
        }
        Err(ErrorKind::Thread {
            thread,
            threads: self.threads(),
        }
        .into())
    }
}
