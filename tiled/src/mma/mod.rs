//! `TiledMma`: one MMA atom repeated over threads and over a tile.

pub(crate) mod check;
mod steps;
mod thread;

pub use steps::MmaSteps;
pub use thread::ThrMma;

use core::fmt;

use colex_atom::MmaAtom;
use colex_layout::{Int, IntTuple, IntoLayout, IntoTiler, Layout, Tiler};

use crate::Error;
use crate::error::ErrorKind;
use crate::mma::check::{
    MOST_THREADS, check_order, check_rank, check_reach, refused, repeated, unnested,
};
use crate::tensor::extents::{fixed, fixed_layout, reach, size};
use crate::tensor::partition::Partitionable;

/// An MMA atom repeated over a grid of atoms, and over the values of each thread: which thread holds which elements
/// of A, B and C.
///
/// `MmaOp -> MmaTraits -> MmaAtom -> TiledMma -> ThrMma`.
///
/// # Example
///
/// ```
/// use colex_tiled::{Operand, TiledMma};
/// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (32, 32, 16))?;
/// assert_eq!(mma.tile_shape(), [32, 32, 16]);
/// assert_eq!(format!("{:#}", mma.thread_layout()), "(32,2,2,1):(1,32,64,0)");
/// assert_eq!(format!("{:#}", mma.tv(Operand::A)?), "((4,8,2,2),((2,2,2),(1,1))):((64,1,16,0),((32,8,256),(0,0)))");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Source: `TiledMMA` in `cute/atom/mma_atom.hpp`.
#[derive(Clone, PartialEq)]
pub struct TiledMma {
    atom: MmaAtom,
    threads: Layout,
    pub(crate) permutation: [Tiler; 3],
}

/// An operand, by the modes of MNK that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// `(M, K)`.
    A,
    /// `(N, K)`.
    B,
    /// `(M, N)`.
    C,
}

impl Operand {
    /// All three.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Returns the modes of MNK that the operand has.
    #[must_use]
    pub const fn modes(self) -> [usize; 2] {
        match self {
            Self::A => [0, 2],
            Self::B => [1, 2],
            Self::C => [0, 1],
        }
    }

    /// Returns `A`, `B` or `C`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

impl TiledMma {
    /// Returns the atom repeated over `atoms`, a layout of atoms along M, N and K, and over the tile that `permutation`
    /// says: per mode an extent, a layout that reorders the mode, or `_` for one atom times the atoms along it.
    ///
    /// Missing modes of `atoms` are `1:0`, of `permutation` `_`. CuTe's `make_tiled_mma`.
    ///
    /// ```
    /// use colex_tiled::TiledMma;
    ///
    /// // Four warps, two along M and two along N.
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!((mma.threads(), mma.tile_shape()), (128, [32, 16, 16]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if either has more than three modes, for an extent that the atoms do not divide, for an order
    /// that has an element twice or more than 2^20 elements, for atoms that share threads, for threads below 0 or from
    /// 2^20 on, for threads whose strides do not nest (each a multiple of the one below times its extent): a thread
    /// divides its index by them to find its place, here and in a kernel (CuTe goes on and gives it another thread's
    /// place), or if the layout algebra has no result.
    #[doc(alias = "make_tiled_mma")]
    pub fn new(
        atom: MmaAtom,
        atoms: impl IntoLayout,
        permutation: impl IntoTiler,
    ) -> Result<Self, Error> {
        let atoms = &atoms.into_layout()?;
        let permutation = &permutation.into_tiler()?;
        let too_many = |what: &dyn fmt::Display, have| {
            refused(format!("{what} has {have} modes, more than M, N and K"))
        };
        let atoms = atoms
            .append_to_rank(3, Layout::unit())
            .map_err(|_| too_many(atoms, atoms.rank()))?;
        let mut modes = match permutation {
            Tiler::Modes(modes) => modes.clone(),
            other => vec![other.clone()],
        };
        if modes.len() > 3 {
            return Err(too_many(permutation, modes.len()));
        }
        modes.resize(3, Tiler::All);
        let one = &atom.traits().thread;
        let threads = one.tiled_product(&atoms).map_err(|error| {
            // The threads of one atom may leave room for others between them, as a quad-pair of Volta does.
            match one.complement_in_cosize().map(|room| room.size()) {
                Ok(room @ 2..) => refused(format!(
                    "the atoms {atoms} have no threads: the threads {one} of one {} leave room for {room} atoms between \
                     them (consecutive numbers for a divisor or a multiple of {room} atoms would fit)",
                    atom.name()
                )),
                _ => error.into(),
            }
        })?;
        let permutation = modes.try_into().expect("resized to three modes");
        let mma = Self {
            atom,
            threads,
            permutation,
        };
        mma.check_threads()?;
        (0..3).try_for_each(|i| mma.check_extent(i))?;
        (0..3).try_for_each(|i| mma.check_order(i))?;
        Ok(mma)
    }

    /// Whether every place in the atoms has a thread of its own, and every thread finds its place.
    fn check_threads(&self) -> Result<(), Error> {
        let threads = &self.threads;
        let Some([low, high]) = reach(threads)? else {
            return Err(refused(format!("the threads {threads:#} are not numbers")));
        };
        if low < 0 {
            return Err(refused(format!(
                "the threads {threads:#} go down to {low}, and there is none below 0"
            )));
        }
        if high >= MOST_THREADS {
            return Err(refused(format!(
                "the threads {threads:#} go up to {high}, and at most {MOST_THREADS} are looked at"
            )));
        }
        // One place more than there are threads meets another one.
        let places = threads.size().min(high + 2);
        if let Some((first, place, thread)) = repeated(threads, places)? {
            return Err(refused(format!(
                "places {first} and {place} of the threads {threads:#} are one thread, {thread}: the atoms overlap"
            )));
        }
        self.check_nested()
    }

    /// Whether `thread / stride % extent` is the place of a thread along each mode, as [`TiledMma::slice`] and kernels
    /// compute it.
    fn check_nested(&self) -> Result<(), Error> {
        match unnested(&self.threads) {
            None => Ok(()),
            Some(why) => Err(refused(format!(
                "{why} of the threads {:#}: a thread finds its place by dividing its index by the strides",
                self.threads
            ))),
        }
    }

    /// Whether the order of mode `i`, and its repetitions along a longer mode, have every element once.
    fn check_order(&self, i: usize) -> Result<(), Error> {
        check_order(&self.permutation[i], ["M", "N", "K"][i])
    }

    /// Whether the atoms along mode `i` divide the tile.
    fn check_extent(&self, i: usize) -> Result<(), Error> {
        let covered = Int::Dynamic(self.atom.mnk()[i]);
        let covered = IntTuple::flat([covered, size(&self.threads, i + 1).into()]);
        let covered = covered.product()?.value();
        let tile = tiler_extents(&self.permutation(i)).product()?.value();
        if tile > 0 && tile % covered == 0 {
            return Ok(());
        }
        Err(refused(format!(
            "the tile of {tile} along {} is not a multiple of the {covered} that the atoms along it cover",
            ["M", "N", "K"][i]
        )))
    }

    /// Returns the atom.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.atom().mnk(), [16, 8, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn atom(&self) -> &MmaAtom {
        &self.atom
    }

    /// Returns `(thread of an atom, atom along M, along N, along K) -> thread index` (CuTe's `ThrLayoutVMNK`).
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(format!("{:#}", mma.thread_layout()), "(32,2,2,1):(1,32,64,0)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "get_thr_layout_vmnk")]
    #[must_use]
    pub const fn thread_layout(&self) -> &Layout {
        &self.threads
    }

    /// Whether the instruction reads the operand from shared memory, by descriptor.
    pub(crate) fn in_shared(&self, operand: Operand) -> bool {
        match operand {
            Operand::A => self.atom().a_in_shared(),
            Operand::B => self.atom().b_in_shared(),
            Operand::C => false,
        }
    }

    /// Returns how many threads take part.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.threads(), 128);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn threads(&self) -> i64 {
        self.threads.size()
    }

    /// Returns the permutation of mode `i` of MNK, with `_` replaced by the extent that the atoms cover.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.permutation(0).to_string(), "_32");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "permutation_mnk")]
    #[must_use]
    pub fn permutation(&self, i: usize) -> Tiler {
        match &self.permutation[i] {
            Tiler::All => Tiler::Int(fixed(self.atom.mnk()[i] * size(&self.threads, i + 1))),
            other => other.clone(),
        }
    }

    /// Returns the extents of the tile along M, N and K.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.tile_shape(), [32, 16, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "tile_size")]
    #[must_use]
    pub fn tile_shape(&self) -> [i64; 3] {
        [0, 1, 2].map(|i| tiler_size(&self.permutation(i)))
    }

    /// Returns the extents of an operand's tile.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.operand_tile(Operand::A), [32, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn operand_tile(&self, operand: Operand) -> [i64; 2] {
        let tile = self.tile_shape();
        operand.modes().map(|i| tile[i])
    }

    /// Returns the whole operand as `((thread of an atom, (atoms, atoms)), (values of an atom, (rest, rest)))`.
    ///
    /// CuTe's `thrfrg_A`, `thrfrg_B`, `thrfrg_C`; [`TiledMma::fragment_steps`] has every form on the way.
    ///
    /// ```
    /// # use colex_layout::Layout;
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let a: Layout = "(32,16):(16,1)".parse()?;
    /// let fragments = mma.fragments(&a, Operand::A)?;
    /// assert_eq!(
    ///     format!("{fragments:#}"),
    ///     "(((4,8),(2,1)),((2,2,2),(1,1))):(((2,16),(256,0)),((1,128,8),(0,0)))"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor has a rank below 2, or if the layout algebra has no result.
    #[doc(alias = "thrfrg_A")]
    #[doc(alias = "thrfrg_B")]
    #[doc(alias = "thrfrg_C")]
    pub fn fragments<T: Partitionable>(&self, tensor: &T, operand: Operand) -> Result<T, Error> {
        let inner = tensor.inner_layout();
        check_rank(inner.rank(), tensor)?;
        tensor.with_inner(self.fragment_steps(inner, operand)?.by_thread)
    }

    /// Returns `(thread, value) -> index in the operand's tile` (CuTe's `get_layoutA_TV`, `B`, `C`).
    ///
    /// Threads that share elements have stride 0 along the mode that the operand lacks: N for A, M for B, K for C.
    /// (CuTe's `get_layoutC_TV` goes on along N instead of along K, and beyond the tile, where atoms repeat along
    /// both.)
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let tv = mma.tv(Operand::C)?;
    /// assert_eq!(format!("{tv:#}"), "((4,8,2,2),((2,2),(1,1))):((64,1,16,256),((32,8),(0,0)))");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the order of a mode is not a permutation, so that indices lie beyond the tile (CuTe gives
    /// them), or if the layout algebra has no result.
    #[doc(alias = "get_layoutA_TV")]
    #[doc(alias = "get_layoutB_TV")]
    #[doc(alias = "get_layoutC_TV")]
    pub fn tv(&self, operand: Operand) -> Result<Layout, Error> {
        let extents = self.operand_tile(operand);
        let tile = Layout::column_major(IntTuple::flat(extents.map(fixed)))?;
        let fragments = self.fragments(&tile, operand)?;
        let [m, n, k] = [1, 2, 3].map(|i| size(&self.threads, i));
        let all = || Tiler::All;
        let atoms = match operand {
            Operand::A => Tiler::Modes(vec![fixed_layout(&[(m, 1), (n, 0)])?.into(), all()]),
            Operand::B => Tiler::Modes(vec![fixed_layout(&[(m, 0), (n, 1)])?.into(), all()]),
            Operand::C if k > 1 => fixed_layout(&[(m, 1), (n, m), (k, 0)])?.into(),
            Operand::C => all(),
        };
        let shared = Tiler::Modes(vec![Tiler::Modes(vec![all(), atoms]), all()]);
        let fragments = fragments.composition(&shared)?;
        let tv = fragments.composition((&self.index_to_thread()?, ..))?;
        check_reach(&tv, extents)?;
        Ok(tv)
    }

    /// From a thread index to the coordinate of the thread in VMNK.
    fn index_to_thread(&self) -> Result<Layout, Error> {
        let all = Layout::concat([&self.threads, &self.threads.complement_in_cosize()?])?;
        Ok(
            fixed_layout(&[(self.threads.size(), 1), (1, 0)])?
                .composition(&all.right_inverse()?)?,
        )
    }

    /// Returns what thread `thread` does.
    ///
    /// The threads of Volta's atom are those of one quad-pair; the other lanes of the warp repeat what their fellows
    /// do, as in CuTe, and [`ThrMma::is_member`] tells them apart.
    ///
    /// ```
    /// # use colex_tiled::{Operand, TiledCopy, TiledMma};
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// assert_eq!(mma.slice(5)?.thread(), 5);
    /// assert_eq!(mma.slice(128).unwrap_err().to_string(), "thread 128 is not within 0..128");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error beyond the last warp that has a thread of the MMA.
    #[doc(alias = "get_slice")]
    #[doc(alias = "get_thread_slice")]
    pub fn slice(&self, thread: i64) -> Result<ThrMma<'_>, Error> {
        let threads = match self.threads.cosize()? {
            1 => 1,
            n => (n + 31) / 32 * 32,
        };
        if !(0..threads).contains(&thread) {
            return Err(ErrorKind::Thread { thread, threads }.into());
        }
        let mut vmnk = [0; 4];
        for (slot, mode) in vmnk.iter_mut().zip(self.threads.modes()) {
            *slot = place(&mode, thread);
        }
        let owner = self.threads.at(vmnk)?;
        Ok(ThrMma {
            mma: self,
            thread,
            vmnk,
            is_member: owner == thread,
        })
    }
}

/// The place of a thread index in one mode of the thread layout: `thread / stride % extent` of each leaf.
fn place(mode: &Layout, thread: i64) -> i64 {
    let mut before = 1;
    mode.leaves().iter().fold(0, |place, leaf| {
        let (n, d) = (leaf.extent.value(), leaf.stride.coefficient().value());
        let digit = if d > 0 { thread / d % n } else { 0 };
        let sum = place + digit * before;
        before *= n;
        sum
    })
}

/// The size of a tiler that says one, which was checked to fit.
fn tiler_size(tiler: &Tiler) -> i64 {
    let size = tiler_extents(tiler).product();
    size.expect("a tile's extents were multiplied before")
        .value()
}

/// The extents of a tiler, one for each of its parts.
fn tiler_extents(tiler: &Tiler) -> IntTuple {
    match tiler {
        Tiler::Int(n) => IntTuple::leaf(*n),
        Tiler::Layout(l) => l.shape(),
        Tiler::Modes(modes) => {
            IntTuple::concat(&modes.iter().map(tiler_extents).collect::<Vec<_>>())
        }
        Tiler::All => 1.into(),
    }
}
