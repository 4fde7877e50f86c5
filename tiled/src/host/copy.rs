//! A tiled copy on the host, instruction by instruction.

use core::ops::{Deref, DerefMut};

use colex_atom::{Route, Space};
use colex_layout::IntTuple;

use crate::Error;
use crate::access::coverage::Coverage;
use crate::access::map::{AccessMap, Addresses, Coords, tuple};
use crate::access::traffic::Engine;
use crate::copy::{Side, TiledCopy};
use crate::tensor::extents::size;
use crate::tensor::{Tensor, one_place_each};

/// What one thread gives an instruction, and what it gets.
struct LaneCopy<'a> {
    thread: i64,
    from: Coords<'a>,
    to: Coords<'a>,
}

/// Which coordinates a copy moves; all without a predicate.
type Predicate<'a> = Option<&'a dyn Fn(&IntTuple) -> bool>;

/// Where both tensors have each coordinate, and where an instruction takes each value from.
struct CopyAddresses<'a> {
    src: Addresses<'a>,
    dst: Addresses<'a>,
    routes: Vec<Option<Vec<Route>>>,
}

impl LaneCopy<'_> {
    fn check(&self, src: &Addresses<'_>) -> Result<(), Error> {
        let mut named = self.from.iter().chain(self.to.iter());
        named.try_for_each(|coord| src.inside(self.thread, coord).map(drop))
    }
}

impl TiledCopy {
    /// Copies `src` to `dst`: every thread partitions both, and every instruction moves what its threads give it, by
    /// the thread-value layouts of the atom.
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let copy = TiledCopy::new(
    ///     colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)",
    /// )?;
    /// let data: Vec<i32> = (0..256).collect();
    /// let src = Tensor::new(&data[..], "(32,8):(1,32)")?;
    /// let mut dst = Tensor::new(vec![0; 256], "(32,8):(8,1)")?;
    /// copy.copy(&src, &mut dst)?;
    /// assert_eq!(src.elements()?, dst.elements()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledCopy::copy_if`], and an error if the tile does not divide the tensors.
    pub fn copy<T, S, D>(&self, src: &Tensor<S>, dst: &mut Tensor<D>) -> Result<(), Error>
    where
        T: Clone,
        S: Deref<Target = [T]>,
        D: DerefMut<Target = [T]>,
    {
        self.move_if(src, dst, None)
    }

    /// Copies as [`TiledCopy::copy`] does, but only the coordinates for which `predicate` returns true. An instruction
    /// moves all of its values or none.
    ///
    /// An element of the tensors stands for one value of the copy. Its type may be wider than the value (an index for a
    /// half), and not narrower. What a thread reads or writes by one instruction must be next to each other in a memory
    /// and begin at a multiple of its length, counted from the first element of the data: where [`TiledCopy::report`]
    /// says [`Traffic::Scattered`](crate::Traffic::Scattered), the copy is refused.
    ///
    /// ```
    /// # use colex_layout::Layout;
    /// # use colex_tiled::{Tensor, TiledCopy};
    /// # let copy = TiledCopy::new(colex_atom::copy("UniversalCopy<uint128_t>")?, 32, "(8,4):(1,8)", "(4,1):(1,4)")?;
    /// let layout: Layout = "(64,8):(1,64)".parse()?;
    /// let src = Tensor::new((1..=512).collect::<Vec<i32>>(), layout.clone())?;
    /// let mut dst = Tensor::new(vec![0; 512], layout)?;
    /// // The first column only: whole accesses of four elements are moved or left out.
    /// copy.copy_if(&src, &mut dst, |coord| coord.to_string().ends_with(",0)"))?;
    /// assert_eq!(dst.elements()?.iter().filter(|element| ***element != 0).count(), 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tensors differ in their extents, if `dst` has one element at several coordinates, if an
    /// element does not hold a value, if an instruction has values that `predicate` keeps and others that it drops, or
    /// reaches a memory at several places, if no thread writes an element that `predicate` keeps, for an atom that
    /// reduces ([`TiledCopy::copy_reducing`]) or only prefetches, if it keeps a coordinate outside of the tensors, for
    /// an atom that is a layout only, or if the layout algebra has no result. Nothing is written then.
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
        self.move_if(src, dst, Some(&predicate))
    }

    fn move_if<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        predicate: Predicate<'_>,
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

    /// Copies as [`TiledCopy::copy`] does, by an atom that reduces: every element of `dst` becomes `combine` of itself
    /// and of what arrives. What the atom combines, and in which type, is [`colex_atom::CopyAtom::reduction`].
    ///
    /// ```
    /// use colex_tiled::{Tensor, TiledCopy};
    /// let add = colex_atom::copy("SM90_TMA_REDUCE_ADD_1D")?;
    /// let copy = TiledCopy::new(add, 32, "1:0", "4:1")?;
    /// let src = Tensor::new(vec![1, 2, 3, 4], "4:1")?;
    /// let mut dst = Tensor::new(vec![10; 4], "4:1")?;
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
    /// Returns the errors of [`TiledCopy::copy`], and an error for an atom that does not reduce, or if an element would
    /// be combined with twice.
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
        self.execute(src, dst, None, |there, arrives| combine(there, &arrives))
    }

    /// Every instruction that the predicate keeps, once it is known that nothing is refused.
    fn execute<T, S, D>(
        &self,
        src: &Tensor<S>,
        dst: &mut Tensor<D>,
        predicate: Predicate<'_>,
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
        self.check_element::<T>("copy")?;
        let extents = self.same_extents(src.layout(), dst.layout())?;
        one_place_each("copy", dst.layout())?;
        let to_layout = dst.layout().clone();
        let ends = CopyAddresses {
            src: Addresses::new(src.layout())?,
            dst: Addresses::new(&to_layout)?,
            routes: self.atom().routes(self.value_bits())?,
        };
        let from = self.named(&extents, Side::Source)?;
        let to = self.named(&extents, Side::Destination)?;
        let mut active = Vec::new();
        for lanes in self.instructions(&from, &to)? {
            if whole(&lanes, predicate)? {
                lanes.iter().try_for_each(|lane| lane.check(&ends.src))?;
                self.check_vectors(&lanes, &ends, src, dst)?;
                active.push(lanes);
            }
        }
        let written = active.iter().flatten().zip(ends.routes.iter().cycle());
        let written = written.filter(|(_, routes)| routes.is_some());
        let coverage = Coverage::new(&to_layout, written.map(|(lane, _)| (lane.thread, lane.to)));
        let kept = |coord: &IntTuple| predicate.is_none_or(|predicate| predicate(coord));
        self.check_coverage(&coverage, &extents, kept)?;
        // Nothing is written before everything is known to lie inside.
        let mut run = active.iter();
        run.try_for_each(|lanes| instruction(lanes, &ends, src, dst, &combine))
    }

    /// Refuses to leave out an element that is to be copied, and to combine with one twice.
    fn check_coverage(
        &self,
        coverage: &Coverage,
        extents: &IntTuple,
        kept: impl Fn(&IntTuple) -> bool,
    ) -> Result<(), Error> {
        if let (count, Some(first)) = coverage.missing_of(extents, kept)? {
            return refuse(format!(
                "no thread writes {first}, nor {} others: the thread-value layout {} does not have the whole tile",
                count - 1,
                self.tv()
            ));
        }
        match &coverage.repeated {
            (_, Some((thread, coord))) if self.atom().reduction().is_some() => refuse(format!(
                "thread {thread} combines with {coord} again: the thread-value layout {} has an element twice",
                self.tv()
            )),
            _ => Ok(()),
        }
    }

    /// Refuses elements that are narrower than the values of the copy.
    pub(crate) fn check_element<T>(&self, operation: &'static str) -> Result<(), Error> {
        let bits = 8 * size_of::<T>();
        if bits as i64 >= self.value_bits() {
            return Ok(());
        }
        Err(Error::assumption(
            operation,
            format!(
                "an element of {bits} bits does not hold a value of the copy, which has {}",
                self.value_bits()
            ),
        ))
    }

    /// Refuses an instruction that reaches a memory at several places, as the report does.
    fn check_vectors<T, S, D>(
        &self,
        lanes: &[LaneCopy<'_>],
        ends: &CopyAddresses<'_>,
        src: &Tensor<S>,
        dst: &Tensor<D>,
    ) -> Result<(), Error>
    where
        S: Deref<Target = [T]>,
        D: Deref<Target = [T]>,
    {
        for (lane, routes) in lanes.iter().zip(&ends.routes) {
            self.check_vector("copy", Side::Source, lane.thread, lane.from, &ends.src, src)?;
            // The address of a thread without routes is not looked at.
            if routes.is_some() {
                let to = lane.to;
                self.check_vector("copy", Side::Destination, lane.thread, to, &ends.dst, dst)?;
            }
        }
        Ok(())
    }

    /// Refuses the values of one thread and instruction that are not next to each other in a memory, or that do not
    /// begin at a multiple of their number. What the tensor does not have is not looked at.
    pub(crate) fn check_vector<T, S: Deref<Target = [T]>>(
        &self,
        operation: &'static str,
        side: Side,
        thread: i64,
        coords: Coords<'_>,
        places: &Addresses<'_>,
        tensor: &Tensor<S>,
    ) -> Result<(), Error> {
        let (space, name, verb) = match side {
            Side::Source => (self.atom().from(), "the source", "reads"),
            Side::Destination => (self.atom().to(), "the destination", "writes"),
        };
        let engine = self.engine();
        let is_memory = matches!(space, Space::Shared | Space::Cluster | Space::Global);
        if !is_memory || engine == Some(Engine::Tma) {
            return Ok(());
        }
        let place = |coord| Some((coord, tensor.place(places.at(coord)?) as i64));
        let at: Vec<(&[i64], i64)> = coords.iter().filter_map(place).collect();
        let values = coords.iter().len();
        let Some(((_, start), rest)) = at.split_first() else {
            return Ok(());
        };
        let expected = (start + 1..).zip(rest).find(|(next, at)| *next != at.1);
        let aligned = engine.is_some() || start % values as i64 == 0;
        let (coord, offset, wanted) = match expected {
            Some((next, (coord, offset))) => (*coord, *offset, format!("at {next}")),
            None if !aligned => (at[0].0, *start, format!("at a multiple of {values}")),
            None => return Ok(()),
        };
        Err(Error::assumption(
            operation,
            format!(
                "one instruction of thread {thread} {verb} {values} values of {name} at once, and {} is at element \
                 {offset}, not {wanted}",
                tuple(coord)
            ),
        ))
    }

    /// The instructions, each with the threads that take part together: as many in a row as the atom has.
    fn instructions<'a>(
        &self,
        from: &'a AccessMap,
        to: &'a AccessMap,
    ) -> Result<Vec<Vec<LaneCopy<'a>>>, Error> {
        let layouts = self.atom().val_layouts(self.value_bits())?;
        let chunk = |layout| usize::try_from(size(layout, 1)).expect("values are counted");
        let (given, got) = (chunk(&layouts.src), chunk(&layouts.dst));
        let group = usize::try_from(self.atom_threads()).expect("threads are counted");
        let lanes: Vec<_> = from.lanes().zip(to.lanes()).collect();
        let mut instructions = Vec::new();
        for lanes in lanes.chunks(group) {
            for i in 0..from.per_thread() / given {
                let lane = |((thread, from), (_, to)): &((i64, Coords<'a>), (i64, Coords<'a>))| {
                    Some(LaneCopy {
                        thread: *thread,
                        from: from.part(i * given, given)?,
                        to: to.part(i * got, got)?,
                    })
                };
                let lanes = lanes.iter().map(lane).collect::<Option<_>>();
                instructions.push(lanes.expect("both sides have as many instructions"));
            }
        }
        Ok(instructions)
    }
}

/// One instruction: gather what the lanes give, scatter what they get.
fn instruction<T, S, D>(
    lanes: &[LaneCopy<'_>],
    ends: &CopyAddresses<'_>,
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
        let values = lane.from.iter().map(|coord| {
            let offset = ends.src.inside(lane.thread, coord)?;
            Ok(src.element(offset).clone())
        });
        given.push(values.collect::<Result<Vec<T>, Error>>()?);
    }
    for (lane, routes) in lanes.iter().zip(&ends.routes) {
        for (coord, route) in lane.to.iter().zip(routes.iter().flatten()) {
            let value = given[route.thread][route.value].clone();
            let there = dst.element_mut(ends.dst.inside(lane.thread, coord)?);
            *there = combine(there, value);
        }
    }
    Ok(())
}

/// Whether the lanes take part: all of their values, or none.
fn whole(lanes: &[LaneCopy<'_>], predicate: Predicate<'_>) -> Result<bool, Error> {
    let Some(predicate) = predicate else {
        return Ok(true);
    };
    let (mut kept, mut dropped) = (None, None);
    for lane in lanes {
        for coord in lane.from.iter().chain(lane.to.iter()).map(tuple) {
            let first = if predicate(&coord) {
                &mut kept
            } else {
                &mut dropped
            };
            first.get_or_insert((lane.thread, coord));
        }
    }
    match (kept, dropped) {
        (Some((thread, coord)), Some((other, without))) => Err(Error::assumption(
            "copy_if",
            format!(
                "one instruction moves {coord} of thread {thread}, which the predicate keeps, and {without} of \
                 thread {other}, which it drops"
            ),
        )),
        (kept, _) => Ok(kept.is_some()),
    }
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::assumption("copy", why))
}
