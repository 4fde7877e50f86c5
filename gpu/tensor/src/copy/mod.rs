//! Tiled copies between memory and registers.

pub(crate) mod bulk;
pub(crate) mod check;
pub(crate) mod gather;
pub(crate) mod im2col;
pub(crate) mod run;
pub(crate) mod tma;
pub(crate) mod vector;

use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

use colex_atom::{Argument, CopyForm, Space, Ty};
use colex_tiled::{Side, TiledCopy};

use crate::build::Builder;
use crate::build::flow::Cond;
use crate::build::held::{Held, HeldElements};
use crate::copy::run::Run;
use crate::error::ErrorKind;
use crate::fragment::Fragment;
use crate::fragment::contents::{Known, of_parts};
use crate::fragment::expr::{Expr, Mask, Test};
use crate::index::Index;
use crate::tensor::Tensor;
use crate::tensor::partition_coords::Partitioner;
use colex_ir::claims::ClaimId;
use colex_ir::{Cache, End, Reg};

/// One end of a copy: a partition in memory, or registers.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// A thread's part of a tensor in memory.
    Memory(&'a Tensor),
    /// Registers.
    Registers(&'a Fragment),
}

impl<'a> From<&'a Tensor> for Piece<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Piece::Memory(tensor)
    }
}

impl<'a> From<&'a Fragment> for Piece<'a> {
    fn from(fragment: &'a Fragment) -> Self {
        Piece::Registers(fragment)
    }
}

impl Piece<'_> {
    fn layout(&self) -> &colex_layout::Layout {
        match self {
            Piece::Memory(tensor) => tensor.layout(),
            Piece::Registers(fragment) => fragment.layout(),
        }
    }

    fn ty(&self) -> Ty {
        match self {
            Piece::Memory(tensor) => tensor.ty,
            Piece::Registers(fragment) => fragment.ty,
        }
    }

    fn space(&self) -> Space {
        match self {
            Piece::Memory(tensor) => tensor.space,
            Piece::Registers(_) => Space::Register,
        }
    }
}

/// Refuses a partition by a tiled copy that gives its threads other elements.
fn check_partition(copy: &TiledCopy, piece: &Piece<'_>, end: Side) -> Result<(), ErrorKind> {
    let Piece::Memory(Tensor {
        share: Some(share), ..
    }) = piece
    else {
        return Ok(());
    };
    let Partitioner::Copy(other, side) = &share.of else {
        return Ok(());
    };
    let values = |copy: &TiledCopy, side| {
        let values = copy.atom().val_layouts(copy.value_bits())?;
        Ok::<_, ErrorKind>(match side {
            Side::Source => values.src,
            Side::Destination => values.dst,
        })
    };
    if copy.tv() == other.tv()
        && copy.tiler() == other.tiler()
        && values(copy, end)? == values(other, *side)?
    {
        return Ok(());
    }
    let why = format!(
        "the partition is of threads and values {} of tiles {} by {}, and the copy has {} of {} by {}: partition the tensor with \
         the copy",
        other.tv(),
        other.tiler(),
        other.atom().name(),
        copy.tv(),
        copy.tiler(),
        copy.atom().name()
    );
    Err(ErrorKind::operands("copy", why))
}

/// Which of its instructions a copy executes.
pub(crate) enum Predication<'a> {
    All,
    Inside,
    If(&'a mut dyn FnMut(&mut Builder, &[Index]) -> Cond),
}

/// Cache hints of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hints {
    /// The cache operator of loads and stores.
    pub cache: Cache,
    /// A 64-bit cache policy.
    pub policy: Option<Reg>,
}

/// A tiled copy as [`Builder::copy`] and its siblings take it: a `&TiledCopy`, or one with cache hints.
#[derive(Clone, Copy, Debug)]
pub struct HintedCopy<'c> {
    copy: &'c TiledCopy,
    hints: Hints,
}

impl<'c> From<&'c TiledCopy> for HintedCopy<'c> {
    fn from(copy: &'c TiledCopy) -> Self {
        Hints::default().on(copy)
    }
}

impl Hints {
    /// Returns the copy with these hints: CuTe's `copy.with(hint)`.
    ///
    /// ```
    /// # use colex_ir::Cache;
    /// # use colex_proof::examples::copied;
    /// # use colex_tensor::Hints;
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     let streaming = Hints { cache: Cache::Cs, ..Hints::default() };
    ///     k.copy(streaming.on(copy), src, &held); // `ld.global.cs`: read once
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!(to[..4], [0.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(self, copy: &TiledCopy) -> HintedCopy<'_> {
        HintedCopy { copy, hints: self }
    }
}

impl Default for Hints {
    fn default() -> Self {
        Hints {
            cache: Cache::Default,
            policy: None,
        }
    }
}

impl Builder {
    /// Copies a thread's part of a tensor, with one instruction for each atom's values: CuTe's `copy`.
    ///
    /// `src` and `dst` are partitions of the same [`TiledCopy`], or fragments in its modes, with one element type
    /// ([`Fragment::as_type`] and [`Tensor::as_type`] reinterpret the bits). The vector of the atom must be contiguous and
    /// aligned in memory, and the tile must lie inside of its tensor. [`crate::TensorKernel::arguments`] checks what depends on
    /// the launch: the alignment of the pointer and the strides, and that the tile divides dynamic extents. If a branch of the
    /// kernel tests that the tile lies inside, declare it with [`Tensor::stated_inside`].
    ///
    /// ```
    /// # use colex_proof::examples::copied;
    /// // The matrices are 4 by 8; `src` and `dst` are a thread's parts of them, one element each.
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy(copy, src, &held);
    ///     k.copy(copy, &held, dst);
    /// })?;
    /// assert_eq!(to[..4], [0.0, 1.0, 2.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Ends that are all of a thread's part of a tile hold the same elements of it. Of an end that is a slice or another part
    /// the distances between elements are compared: what one operation has put into registers moves by one shift, which is the
    /// same for all elements and threads.
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if sizes or element types differ; if the values of a vector are not contiguous; if the atom
    /// does not copy between these memory spaces; if source and destination do not hold the same elements of tiles of the same
    /// extents in every thread (registers remember the elements that a copy or arithmetic stored first), or elements of parts lie
    /// at other distances; if a partition reaches
    /// beyond its tile, or a tile may reach beyond a tensor of static extents; if the tiled copy has threads that the block does
    /// not have; or if the layout algebra has no result.
    #[track_caller]
    pub fn copy<'a>(
        &mut self,
        copy: impl Into<HintedCopy<'a>>,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
    ) {
        let (copy, ends) = (copy.into(), (src.into(), dst.into()));
        self.run(Location::caller(), |k| {
            k.run_copy(copy, ends, Predication::All)
        });
    }

    /// Copies as [`Builder::copy`] does, but only elements whose coordinates lie within the tensor in global memory and
    /// within the partitioned tile. For other elements a load into registers or a zero-filling `cp.async` yields zeros,
    /// and nothing is stored. A test that the ranges of the coordinates decide takes no instruction.
    ///
    /// ```
    /// # use colex_proof::examples::copied;
    /// // The tile is 4 by 8, and the matrices are 3 by 5.
    /// let to = copied((3, 5), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy_in_bounds(copy, src, &held);
    ///     k.copy_in_bounds(copy, &held, dst);
    /// })?;
    /// assert_eq!(to, (0..15).map(|i| i as f32).collect::<Vec<_>>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::copy`], and if a vector may cross the end of a static extent. For
    /// dynamic extents the launch checks that they are multiples of the vector.
    #[doc(alias = "copy_if")]
    #[track_caller]
    pub fn copy_in_bounds<'a>(
        &mut self,
        copy: impl Into<HintedCopy<'a>>,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
    ) {
        let (copy, ends) = (copy.into(), (src.into(), dst.into()));
        self.run(Location::caller(), |k| {
            k.run_copy(copy, ends, Predication::Inside)
        });
    }

    /// Copies as [`Builder::copy`] does, but predicates each instruction with `cond`, which is called with the
    /// coordinates of the instruction's first element in the tensor in global memory. The list is empty if neither end
    /// is in global memory. Elements of a partition beyond its tile are not copied.
    ///
    /// ```
    /// # use colex_proof::examples::copied;
    /// // Copies what is on the diagonal and below it.
    /// let to = copied((4, 8), |k, copy, src, dst| {
    ///     let held = k.fragment_like(src);
    ///     k.copy(copy, src, &held);
    ///     k.copy_if(copy, &held, dst, |k, at| k.less(&at[1], &(&at[0] + 1)));
    /// })?;
    /// assert_eq!(to[..8], [0.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
    /// assert_eq!(to[8..11], [8.0, 9.0, -1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::copy`].
    #[track_caller]
    pub fn copy_if<'a>(
        &mut self,
        copy: impl Into<HintedCopy<'a>>,
        src: impl Into<Piece<'a>>,
        dst: impl Into<Piece<'a>>,
        mut cond: impl FnMut(&mut Builder, &[Index]) -> Cond,
    ) {
        let (copy, ends) = (copy.into(), (src.into(), dst.into()));
        let mask = Predication::If(&mut cond);
        self.run(Location::caller(), |k| k.run_copy(copy, ends, mask));
    }

    fn run_copy(
        &mut self,
        HintedCopy { copy, hints }: HintedCopy<'_>,
        (src, dst): (Piece<'_>, Piece<'_>),
        mut mask: Predication<'_>,
    ) -> Result<(), ErrorKind> {
        for piece in [src, dst] {
            match piece {
                Piece::Memory(tensor) => self.own_memory(&[tensor])?,
                Piece::Registers(fragment) => self.own_fragments(&[fragment])?,
            }
        }
        let atom = match copy.atom().row().form {
            CopyForm::Universal => copy.atom().between(src.space(), dst.space())?,
            _ => copy.atom().clone(),
        };
        if [atom.from(), atom.to()] != [src.space(), dst.space()] {
            let why = format!(
                "{} goes from {} to {}, and the copy from {} to {}",
                atom.name(),
                atom.from(),
                atom.to(),
                src.space(),
                dst.space()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        for piece in [src, dst] {
            if let Piece::Memory(Tensor {
                share: Some(share), ..
            }) = piece
            {
                self.check_share(share)?;
            }
        }
        let widths = [src.ty(), dst.ty()].map(|ty| i64::from(ty.bits()));
        if widths != [copy.value_bits(); 2] {
            let why = format!(
                "elements of {} bits into elements of {}, by a tiled copy of {}: all three are the same (`convert` makes other \
                 elements)",
                widths[0],
                widths[1],
                copy.value_bits()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        if src.ty() != dst.ty() {
            let why = format!(
                "elements of {} into elements of {}: both are the same (`convert` makes other elements, `as_type` reads the \
                 same bits as others)",
                src.ty(),
                dst.ty()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        // A load in bounds fills registers that it does not load with zeros; a `copy_if` leaves them alone.
        let fills = match (&src, &mask) {
            (Piece::Memory(_), Predication::If(_)) => atom.row().form == CopyForm::Universal,
            (Piece::Registers(_), Predication::If(_)) => false,
            (_, Predication::All | Predication::Inside) => true,
        };
        let held = self.check_places(copy, (&src, &dst), fills)?;
        for (piece, end) in [(&src, Side::Source), (&dst, Side::Destination)] {
            check_partition(copy, piece, end)?;
        }
        self.check_target(&dst)?;
        let values = atom.val_layouts(copy.value_bits())?;
        let counts = [&values.src, &values.dst].map(|l| l.mode(1).map_or(1, |m| m.size()));
        let [n, m] =
            [(src, counts[0]), (dst, counts[1])].map(|(piece, c)| piece.layout().size() / c);
        if n != m {
            let why = format!(
                "{} takes {n} instructions from {} and {m} into {}",
                atom.name(),
                src.layout(),
                dst.layout()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        if let (Piece::Registers(from), Piece::Registers(to)) = (&src, &dst)
            && atom.row().form == CopyForm::Universal
            && (shares(from, to) || is_narrow(from, counts[0]) || is_narrow(to, counts[1]))
        {
            self.move_elements(from, to, counts[1], &mut mask)?;
            self.note(atom.name(), n, String::new(), Vec::new());
            return self.fill_parts(to, held);
        }
        let mut run = Run {
            atom,
            src,
            dst,
            counts,
            hints,
            halves: HashMap::new(),
            claim: None,
            addresses: [Vec::new(), Vec::new()],
        };
        // All instructions of an unpredicated copy execute together, so one claim covers them.
        let whole = matches!(mask, Predication::All).then(|| self.open_claim());
        run.claim = whole;
        for i in 0..n {
            self.instruction(&mut run, i, (&mut mask, whole))?;
        }
        let ends = run.ends(copy);
        self.note(run.atom.name(), n, String::new(), ends);
        if let Some(line) = self.reports.lines.last_mut() {
            line.predicated = !matches!(mask, Predication::All);
        }
        run.join(self);
        match dst {
            Piece::Registers(fragment) => self.fill_parts(fragment, held),
            Piece::Memory(_) => Ok(()),
        }
    }

    /// Moves elements between registers that do not hold whole instructions of them, or that both fragments name.
    fn move_elements(
        &mut self,
        from: &Fragment,
        to: &Fragment,
        count: i64,
        mask: &mut Predication<'_>,
    ) -> Result<(), ErrorKind> {
        let values = Expr::from(from);
        let Predication::If(says) = mask else {
            return self.assigned("copy", to, &values);
        };
        let mut conds = Vec::new();
        for _ in 0..to.layout.size() / count {
            let cond = says(self, &[]);
            conds.extend((0..count).map(|_| cond));
        }
        let moved = Mask(Rc::new(Test::Conds(conds))).select(values, to);
        self.assigned("copy", to, &moved)
    }

    /// Refuses ends that hold other elements of their tiles; what registers hold afterwards, if it is known. Plain registers
    /// that the copy fills hold what the source has.
    fn check_places(
        &mut self,
        copy: &TiledCopy,
        (src, dst): (&Piece<'_>, &Piece<'_>),
        fills: bool,
    ) -> Result<HeldElements, ErrorKind> {
        let is_filled = match dst {
            Piece::Registers(fragment) => fills && !self.is_declared(fragment)?,
            Piece::Memory(_) => false,
        };
        let operation = self.operation();
        // An atom whose threads exchange elements has one side in memory: the registers hold those of the other side.
        let values = copy.atom().val_layouts(copy.value_bits())?;
        let exchanges = values.src != values.dst;
        let memory = |k: &mut Self, piece: &Piece<'_>, other: Option<Side>| {
            let Piece::Memory(tensor) = piece else {
                return Ok(None);
            };
            let held = k.held_in_memory(tensor)?;
            match other.filter(|_| exchanges) {
                Some(other) => k.other_side(held, copy, other),
                None => Ok(held),
            }
        };
        let other = matches!(src, Piece::Registers(_)).then_some(Side::Source);
        let in_memory = [
            memory(self, src, Some(Side::Destination))?,
            memory(self, dst, other)?,
        ];
        let whole = |k: &Self, piece: &Piece<'_>, held: &Option<Held>| match (piece, held) {
            (Piece::Registers(fragment), _) => k.known_in_registers(fragment),
            (_, Some(held)) if held.is_whole => Ok(Known::All(held.clone())),
            _ => Ok(Known::Nothing),
        };
        let source = whole(self, src, &in_memory[0])?;
        let target = if is_filled {
            Known::Nothing
        } else {
            whole(self, dst, &in_memory[1])?
        };
        if let (Piece::Registers(fragment), Known::All(_), Piece::Registers(_)) =
            (src, &source, dst)
        {
            self.read(fragment)?;
        }
        let known = match source {
            Known::All(ref held) => Some(held.each(operation)),
            Known::Nothing | Known::Either => None,
        };
        if !matches!(source, Known::Nothing)
            && !matches!(target, Known::Nothing)
            && let (Some(a), Some(b)) = (source.all("copy")?, target.all("copy")?)
        {
            for piece in [src, dst] {
                if let Piece::Registers(fragment) = piece {
                    self.read(fragment)?;
                }
            }
            self.check_same_places("copy", [&a, &b], ["the source", "the destination"])?;
            return Ok(a.each(operation));
        }
        let [from, to] = in_memory;
        let end = |k: &Self, piece: &Piece<'_>, held: Option<Held>| match piece {
            Piece::Registers(fragment) => k.held_elements(fragment),
            Piece::Memory(_) => Ok((
                Vec::new(),
                held.map_or_else(Vec::new, |held| held.each(operation)),
            )),
        };
        let (registers, source) = end(self, src, from)?;
        if !is_filled {
            let (_, target) = end(self, dst, to)?;
            self.check_copied((&source, &registers), &target)?;
        }
        Ok(match (src, known) {
            _ if !fills => Vec::new(),
            (_, Some(known)) => known,
            (Piece::Registers(_), None) => of_parts(source, operation),
            (Piece::Memory(_), None) => source,
        })
    }

    fn instruction(
        &mut self,
        run: &mut Run<'_>,
        i: i64,
        (mask, whole): (&mut Predication<'_>, Option<ClaimId>),
    ) -> Result<(), ErrorKind> {
        let [s, d] = [run.counts[0] * i, run.counts[1] * i];
        let fills = run.takes(Argument::SourceBytes);
        let memory = |piece, at| match piece {
            Piece::Memory(tensor) => Some((tensor, at)),
            Piece::Registers(_) => None,
        };
        let (source, target) = (memory(run.src, s), memory(run.dst, d));
        let (mut cond, mut stored, mut partial) = (Cond::Known(true), Cond::Known(true), None);
        match mask {
            Predication::All => {
                for ((tensor, at), count) in [source, target]
                    .into_iter()
                    .zip(run.counts)
                    .filter_map(|(end, n)| Some((end?, n)))
                {
                    self.check_whole(tensor, at, count)?;
                    if let Some(claim) = whole {
                        self.claim_vector(claim, tensor, at, count)?;
                    }
                }
            }
            Predication::Inside => {
                let mut claim = None;
                if let Some((tensor, at)) = source {
                    (cond, partial) = self.inside(tensor, at, run.counts[0], fills, &mut claim)?;
                }
                if let Some((tensor, at)) = target {
                    (stored, _) = self.inside(tensor, at, run.counts[1], false, &mut claim)?;
                }
                run.claim = claim;
            }
            Predication::If(says) => {
                let global = [source, target]
                    .into_iter()
                    .flatten()
                    .find(|(tensor, _)| tensor.space == Space::Global);
                let coordinates = match global {
                    Some((tensor, at)) => tensor.coordinates_at(at)?,
                    None => Vec::new(),
                };
                cond = says(self, &coordinates);
                if let Some((tensor, at)) = source {
                    let inside = self.in_tile(tensor, at, run.counts[0])?;
                    cond = self.both(cond, inside);
                }
                if let Some((tensor, at)) = target {
                    stored = self.in_tile(tensor, at, run.counts[1])?;
                }
            }
        }
        // What a fill leaves out is no predicate of the instruction.
        if matches!(mask, Predication::If(_)) && (!fills || cond == Cond::Known(true)) {
            let claim = self.open_claim();
            for (end, count) in [source, target].into_iter().zip(run.counts) {
                if let Some((tensor, at)) = end {
                    self.claim_vector(claim, tensor, at, count)?;
                }
            }
            run.claim = Some(claim);
        }
        // Zeros are stored too, where the destination has a place for them.
        if !fills {
            cond = self.both(cond, stored);
        }
        let from = self.end(run, 0, s)?;
        let to = self.end(run, 1, d)?;
        match (run.atom.row().form, from, to) {
            (CopyForm::Universal, End::Memory(a), End::Regs(..)) => self.load_run(run, a, d, cond),
            (CopyForm::Universal, End::Regs(..), End::Memory(a)) => self.store_run(run, a, s, cond),
            (CopyForm::Universal, End::Regs(from), End::Regs(to)) => {
                for (from, to) in from.iter().zip(&to) {
                    self.where_(cond, |k| k.mov_to(*to, *from));
                }
                Ok(())
            }
            (_, from, to) => {
                self.special_copy(run, (from, to), (cond, stored), partial);
                Ok(())
            }
        }
    }
}

/// Whether two fragments name a register in common.
fn shares(from: &Fragment, to: &Fragment) -> bool {
    from.regs.iter().any(|reg| to.regs.contains(reg))
}

/// Whether that many elements of a fragment fill no register.
fn is_narrow(fragment: &Fragment, count: i64) -> bool {
    let own = fragment.regs.first().map_or(0, |reg| reg.ty.bits());
    count * i64::from(fragment.ty.bits()) < i64::from(own)
}
