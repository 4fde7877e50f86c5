//! A tiled copy on the host, instruction by instruction.

use core::ops::{Deref, DerefMut};

use colex_atom::Space;
use colex_layout::{IntTuple, Layout};

use crate::copy::{Side, TiledCopy, size};
use crate::partition::{slice, thread_slice};
use crate::tensor::one_place_each;
use crate::{Error, Tensor};

/// The coordinates that each thread names, in the order of its values.
pub(crate) type Named = Vec<Vec<IntTuple>>;

/// What one thread gives an instruction, and what it gets.
struct Lane<'a> {
    thread: i64,
    from: &'a [IntTuple],
    to: &'a [IntTuple],
}

impl Lane<'_> {
    fn check(&self, tensor: &Layout) -> Result<(), Error> {
        let mut named = self.from.iter().chain(self.to);
        named.try_for_each(|coord| inside(self.thread, coord, tensor))
    }
}

impl TiledCopy {
    /// Copies `src` to `dst`: every thread partitions both, and every instruction moves what its threads give it, by
    /// the thread-value layouts of the atom.
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint128_t>")?, 32, &"(8,4):(1,8)".parse()?, &"(4,1):(1,4)".parse()?,
    /// )?;
    /// let data: Vec<i32> = (0..256).collect();
    /// let src = Tensor::new(&data[..], "(32,8):(1,32)".parse()?)?;
    /// let mut dst = Tensor::new(vec![0; 256], "(32,8):(8,1)".parse()?)?;
    /// copy.copy(&src, &mut dst)?;
    /// assert_eq!(src.elements()?, dst.elements()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TiledCopy::copy_if`], and [`Error::Outside`] where the tile does not divide the tensors.
    pub fn copy<T, S, D>(&self, src: &Tensor<S>, dst: &mut Tensor<D>) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        self.copy_if(src, dst, |_| true)
    }

    /// As [`TiledCopy::copy`], of the coordinates of which `predicate` says true: an instruction moves all of its
    /// values or none.
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when the tensors differ in their extents, when `dst` has one element at several
    /// coordinates, or an instruction has values that `predicate`
    /// keeps and others that it drops, and for an atom that reduces ([`TiledCopy::copy_reducing`]) or only prefetches;
    /// [`Error::Outside`] when it keeps a coordinate outside of the tensors;
    /// [`Error::Atom`] for an atom that is a layout only; [`Error::Layout`]. Nothing is written then.
    pub fn copy_if<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        predicate: impl Fn(&IntTuple) -> bool,
    ) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        if let Some((operation, _)) = self.atom().reduction() {
            let name = self.atom().name();
            return refuse(format!(
                "{name} leaves the {operation:?} of what is there and what arrives: copy_reducing does it"
            ));
        }
        self.execute(src, dst, predicate, |_, value| value)
    }

    /// As [`TiledCopy::copy`] of an atom that reduces: every element of `dst` becomes `combine` of itself and of what
    /// arrives. What the atom combines, and in which type, is [`colex_atom::CopyAtom::reduction`].
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let add = colex_atom::copy("SM90_TMA_REDUCE_ADD_1D")?;
    /// let copy = TiledCopy::new(add, 32, &"1:0".parse()?, &"4:1".parse()?)?;
    /// let src = Tensor::new(vec![1, 2, 3, 4], "4:1".parse()?)?;
    /// let mut dst = Tensor::new(vec![10; 4], "4:1".parse()?)?;
    /// assert_eq!(
    ///     copy.copy(&src, &mut dst).unwrap_err().to_string(),
    ///     "copy: SM90_TMA_REDUCE_ADD_1D leaves the Add of what is there and what arrives: copy_reducing does it"
    /// );
    /// copy.copy_reducing(&src, &mut dst, |there, arrives| there + arrives)?;
    /// assert_eq!(dst.elements()?, [&11, &12, &13, &14]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`TiledCopy::copy`]; [`Error::Assumption`] for an atom that does not reduce.
    pub fn copy_reducing<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        combine: impl Fn(&T, &T) -> T,
    ) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        if self.atom().reduction().is_none() {
            return refuse(format!("{} does not reduce", self.atom().name()));
        }
        self.execute(
            src,
            dst,
            |_| true,
            |there, arrives| combine(there, &arrives),
        )
    }

    /// Every instruction that the predicate keeps, once it is known that nothing is refused.
    fn execute<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        predicate: impl Fn(&IntTuple) -> bool,
        combine: impl Fn(&T, T) -> T,
    ) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        if self.atom().to() == Space::L2 {
            let name = self.atom().name();
            return refuse(format!(
                "{name} brings its source into the second-level cache, and writes to no tensor"
            ));
        }
        let extents = self.same_extents(src.layout(), dst.layout())?;
        one_place_each("copy", dst.layout())?;
        let from = self.named(&extents, Side::Source)?;
        let to = self.named(&extents, Side::Destination)?;
        let mut active = Vec::new();
        for lanes in self.instructions(&from, &to)? {
            if whole(&lanes, &predicate)? {
                lanes.iter().try_for_each(|lane| lane.check(src.layout()))?;
                active.push(lanes);
            }
        }
        // Nothing is written before everything is known to lie inside.
        let mut run = active.iter();
        run.try_for_each(|lanes| self.instruction(lanes, src, dst, &combine))
    }

    /// The instructions, each with the threads that take part together: as many in a row as the atom has.
    fn instructions<'a>(
        &self,
        from: &'a Named,
        to: &'a Named,
    ) -> Result<Vec<Vec<Lane<'a>>>, Error> {
        let layouts = self.atom().val_layouts(self.value_bits())?;
        let chunk = |layout| usize::try_from(size(layout, 1)).expect("values are counted");
        let (given, got) = (chunk(&layouts.src), chunk(&layouts.dst));
        let group = usize::try_from(self.atom_threads()).expect("threads are counted");
        let mut instructions = Vec::new();
        for first in (0..from.len()).step_by(group) {
            for i in 0..from[first].len() / given {
                let lane = |t: usize| Lane {
                    thread: t as i64,
                    from: &from[t][i * given..(i + 1) * given],
                    to: &to[t][i * got..(i + 1) * got],
                };
                instructions.push((first..first + group).map(lane).collect());
            }
        }
        Ok(instructions)
    }

    /// One instruction: gather what the lanes give, execute, scatter what they get.
    fn instruction<T, S, D>(
        &self,
        lanes: &[Lane<'_>],
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        combine: &impl Fn(&T, T) -> T,
    ) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        let mut given = Vec::new();
        for lane in lanes {
            let values = lane.from.iter().map(|coord| Ok(src.get(coord)?.clone()));
            given.push(values.collect::<Result<Vec<T>, Error>>()?);
        }
        let got = self.atom().execute(self.value_bits(), &given)?;
        for (lane, values) in lanes.iter().zip(got) {
            for (coord, value) in lane.to.iter().zip(values.into_iter().flatten()) {
                let left = combine(dst.get(coord)?, value);
                dst.set(coord, left)?;
            }
        }
        Ok(())
    }

    /// The extents of both tensors.
    pub(crate) fn same_extents(&self, src: &Layout, dst: &Layout) -> Result<IntTuple, Error> {
        let extents = src.shape().product_each()?;
        if extents == dst.shape().product_each()? {
            return Ok(extents);
        }
        Err(Error::Assumption {
            operation: "copy",
            why: format!("{src} and {dst} differ in their extents"),
        })
    }

    /// The coordinates that each thread names of a tensor of these extents.
    pub(crate) fn named(&self, extents: &IntTuple, side: Side) -> Result<Named, Error> {
        let identity = Layout::identity(extents)?;
        let all = self.partitions(&identity, side)?;
        let rest = identity.rank();
        let thread = |t| {
            let values = slice(&identity, &all, &thread_slice(t, rest))?.values()?;
            Ok(values.into_iter().map(bare).collect())
        };
        (0..self.threads()).map(thread).collect()
    }
}

/// A coordinate of one mode as its number, which every tensor of one mode takes.
pub(crate) fn bare(coord: IntTuple) -> IntTuple {
    match coord.leaves() {
        [one] => IntTuple::leaf(*one),
        _ => coord,
    }
}

/// Whether the lanes take part: all of their values, or none.
fn whole(lanes: &[Lane<'_>], predicate: impl Fn(&IntTuple) -> bool) -> Result<bool, Error> {
    let named = || {
        let values = lanes.iter();
        values.flat_map(|lane| lane.from.iter().chain(lane.to).map(|c| (lane.thread, c)))
    };
    let kept = named().find(|(_, coord)| predicate(coord));
    let dropped = named().find(|(_, coord)| !predicate(coord));
    match (kept, dropped) {
        (Some((thread, coord)), Some((other, without))) => Err(Error::Assumption {
            operation: "copy_if",
            why: format!(
                "one instruction moves {coord} of thread {thread}, which the predicate keeps, and {without} of \
                 thread {other}, which it drops"
            ),
        }),
        (kept, _) => Ok(kept.is_some()),
    }
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::Assumption {
        operation: "copy",
        why,
    })
}

/// Refuses a coordinate, one number a mode, outside of the tensor.
pub(crate) fn inside(thread: i64, coord: &IntTuple, tensor: &Layout) -> Result<(), Error> {
    if is_inside(coord, tensor) {
        return Ok(());
    }
    Err(Error::Outside {
        thread,
        coord: coord.to_string(),
        tensor: tensor.to_string(),
    })
}

fn is_inside(coord: &IntTuple, tensor: &Layout) -> bool {
    let (digits, leaves) = (coord.leaves(), tensor.leaves());
    let below = |digit: i64, extent: i64| (0..extent).contains(&digit);
    match digits {
        [index] => below(index.value(), tensor.size()),
        // Of a flat tensor, which most are, the leaves are the modes.
        _ if digits.len() == leaves.len() && tensor.rank() == leaves.len() => {
            let pairs = digits.iter().zip(leaves);
            pairs
                .into_iter()
                .all(|(digit, leaf)| below(digit.value(), leaf.extent.value()))
        }
        _ => {
            let pairs = digits.iter().zip(tensor.modes());
            digits.len() == tensor.rank()
                && pairs
                    .into_iter()
                    .all(|(digit, mode)| below(digit.value(), mode.size()))
        }
    }
}
