//! The same memory in larger or smaller elements.

use alloc::format;
use alloc::string::String;

use smallvec::SmallVec;

use crate::layout::LeafMode;
use crate::tuple::int::{bit_length, ceil_div, gcd};
use crate::tuple::int_tuple::rank_error;
use crate::{Error, Int, Layout, Stride};

impl Layout {
    /// Returns the layout in units of `n` elements: at each coordinate the unit in which the element lies.
    ///
    /// A mode `s:d` with `0 < d < n` is gathered: `k = n / d` of its steps stay within one unit, so it has
    /// `ceil(s / k)` units, and digit `c` becomes digit `c / k`. Every other stride is divided by `n`.
    /// For all coordinates the result at the gathered digits is `floor(self(c) / n)`; where no layout of these modes
    /// gives that, `upcast` refuses (CuTe gives a layout that leaves out some of the units).
    ///
    /// As in CuTe, the last unit may be used in part only: `6:1` by 4 is `2:1`. [`Layout::upcast_exact`] refuses that.
    ///
    /// Law `upcast_floor`.
    ///
    /// # Errors
    ///
    /// Returns an error if a stride neither divides `n` nor is divided by it, if a stride that `n` does not divide is
    /// negative, if the modes within one unit together reach into the next, for XOR strides and a factor that is not a
    /// power of two, for coordinate strides, or for a factor below 1.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let bytes: Layout = "(8,4):(1,16)".parse()?;
    /// assert_eq!(format!("{:#}", bytes.upcast(4)?), "(2,4):(1,4)");
    /// let error = "(4,4):(1,6)".parse::<Layout>()?.upcast(4).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "upcast of (4,4):(1,6) by 4: neither does 4 divide the stride 6, nor 6 divide 4",
    /// );
    /// // The element at (2,1) is 2*2 + 3 = 7, in the second unit of 6.
    /// let error = "(3,2):(2,3)".parse::<Layout>()?.upcast(6).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "upcast of (3,2):(2,3) by 6: the modes with strides below 6 together reach offset 7, in another unit of 6",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    ///
    /// Source: `upcast` in `cute/layout.hpp`.
    pub fn upcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("upcast", self, n)?;
        self.gathered(n, Units::Touched, &self.refusal("upcast", n))
    }

    /// Returns [`Layout::upcast`] where every unit is whole: each unit of the result holds `n` elements of `self`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::upcast`], and an error if a unit is used in part only.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!("(4,8):(8,1)".parse::<Layout>()?.upcast_exact(4)?.to_string(), "(4,2):(2,1)");
    /// assert_eq!(
    ///     "6:1".parse::<Layout>()?.upcast_exact(4).unwrap_err().to_string(),
    ///     "upcast_exact of 6:1 by 4: its 6 elements do not fill the 2 units of 4 elements that they lie in",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn upcast_exact(&self, n: i64) -> Result<Self, Error> {
        check_factor("upcast_exact", self, n)?;
        self.gathered(n, Units::Whole, &self.refusal("upcast_exact", n))
    }

    /// The error of a recast by the factor `n`.
    fn refusal(&self, operation: &'static str, n: i64) -> impl Fn(String) -> Error + '_ {
        move |why| Error::operand(operation, format!("{self} by {n}"), why)
    }

    /// The layout in units of `n` elements.
    pub(crate) fn gathered(
        &self,
        n: i64,
        units: Units,
        refuse: &impl Fn(String) -> Error,
    ) -> Result<Self, Error> {
        if n > 1 && self.is_xor() && n.count_ones() != 1 {
            return Err(refuse(format!(
                "XOR strides are divided by powers of two only, and {n} is none"
            )));
        }
        let coarse = self.0.try_map(|leaf| {
            self.gathered_leaf(leaf, n)
                .map_err(|e| e.into_error(refuse))
        })?;
        self.check_within_units(n, refuse)?;
        let coarse = Self(coarse);
        let fits = match units {
            Units::Touched => true,
            Units::Whole => self.fills_units(n),
            Units::Parts(parts) => self.fills_units(n) || self.covers_parts(n, parts),
        };
        if fits {
            Ok(coarse)
        } else {
            Err(refuse(format!(
                "its {} elements do not fill the {} units of {n} elements that they lie in",
                self.size(),
                coarse.size()
            )))
        }
    }

    fn gathered_leaf(&self, leaf: LeafMode, n: i64) -> Result<LeafMode, RecastMisfit> {
        let d = match leaf.stride {
            d if d.is_zero() => return Ok(leaf),
            Stride::Int(d) | Stride::Xor(d) => d,
            Stride::Basis(_) => {
                return Err(RecastMisfit::Error(Error::stride_kind(
                    "upcast",
                    self.text(),
                    "integer or XOR strides",
                )));
            }
        };
        let size = d.value().unsigned_abs();
        let to = |stride| leaf.stride.with_coefficient(d.with_value(stride));
        if size.is_multiple_of(n.unsigned_abs()) {
            return Ok(LeafMode::new(leaf.extent, to(d.value() / n)));
        }
        let divides = n.unsigned_abs().is_multiple_of(size);
        if leaf.extent.is(1) {
            // No step is taken; the stride is CuTe's, or 0 where CuTe has none.
            let stride = if divides { d.value().signum() } else { 0 };
            return Ok(LeafMode::new(leaf.extent, to(stride)));
        }
        if !divides {
            return Err(RecastMisfit::Why(format!(
                "neither does {n} divide the stride {d:#}, nor {d:#} divide {n}"
            )));
        }
        if d.value() < 0 {
            return Err(RecastMisfit::Why(format!(
                "the first step of the stride {d:#} leads into the unit before, and the next ones stay there"
            )));
        }
        let extent = leaf.extent.ceil_div(d.with_value(n / d.value()));
        Ok(LeafMode::new(extent.map_err(RecastMisfit::Error)?, to(1)))
    }

    /// The part of each mode that lies within one unit of `n`, as `(steps, stride)`; strides are positive divisors.
    fn within_unit(&self, n: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.leaves().iter().filter_map(move |leaf| {
            let d = leaf.stride.coefficient().value();
            let within = leaf.size() > 1 && d > 0 && d < n;
            within.then(|| (leaf.size().min(n / d), d))
        })
    }

    /// Refuses modes that step within one unit of `n`, but together reach the next.
    fn check_within_units(&self, n: i64, refuse: &impl Fn(String) -> Error) -> Result<(), Error> {
        if self.is_xor() {
            // The bits below a power of two stay below it.
            return Ok(());
        }
        let reach: i128 = self
            .within_unit(n)
            .map(|(steps, d)| i128::from(steps - 1) * i128::from(d))
            .sum();
        if reach < i128::from(n) {
            return Ok(());
        }
        Err(refuse(format!(
            "the modes with strides below {n} together reach offset {reach}, in another unit of {n}"
        )))
    }

    /// Whether each unit that the layout touches holds `n` of its elements, for a layout that [`Layout::upcast`] takes.
    fn fills_units(&self, n: i64) -> bool {
        let mut within: SmallVec<[(i64, i64); 12]> = self.within_unit(n).collect();
        within.sort_unstable_by_key(|(_, d)| *d);
        let mut filled = 1;
        for (steps, d) in within {
            if d != filled {
                return false;
            }
            filled *= steps;
        }
        let whole = |leaf: &LeafMode| {
            let d = leaf.stride.coefficient().value();
            d <= 0 || d >= n || leaf.size() <= n / d || leaf.size() % (n / d) == 0
        };
        filled == n && self.leaves().iter().all(whole)
    }

    /// Whether, of each unit of `n` that the layout touches, its elements touch every one of `parts` equal parts, for a
    /// layout that [`Layout::upcast`] takes; `false` where that is not looked at.
    fn covers_parts(&self, n: i64, parts: i64) -> bool {
        if n > COVERED_UNIT {
            return false;
        }
        // The fewest elements of a unit: those of the last unit of every mode.
        let mut within = alloc::vec![0];
        for leaf in self.leaves() {
            let d = leaf.stride.coefficient().value();
            if leaf.size() > 1 && d > 0 && d < n {
                let last = (leaf.size() - 1) % (n / d) + 1;
                let to = |x: i64, c: i64| match leaf.stride {
                    Stride::Xor(_) => x ^ (c * d),
                    _ => x + c * d,
                };
                let steps = (0..last).flat_map(|c| within.iter().map(move |x| to(*x, c)));
                within = steps.collect();
                within.sort_unstable();
                within.dedup();
            }
        }
        let part = |x: i64| i128::from(x) * i128::from(parts) / i128::from(n);
        let mut covered = 0;
        for x in within {
            if part(x) > covered {
                return false;
            }
            // The part of the last bit: the next element begins behind it.
            let end = (i128::from(x) + 1) * i128::from(parts) - 1;
            covered = end / i128::from(n) + 1;
        }
        covered == i128::from(parts)
    }

    /// Whether some offset has one of the bits of `low`, a run of bits below the power of two `n`, for a layout that
    /// [`Layout::upcast`] takes.
    pub(crate) fn sets_bits_within(&self, n: i64, low: i64) -> bool {
        let lowest = low & low.wrapping_neg();
        let (mut set, mut below) = (0, 0);
        for (steps, d) in self.within_unit(n) {
            if self.is_xor() {
                set |= (0..bit_length(steps)).fold(0, |bits, k| bits | d << k);
            } else if d < lowest {
                below += (steps - 1) * d;
            } else {
                set |= d;
            }
        }
        set & low != 0 || low != 0 && below >= lowest
    }

    /// The layout as an outer function in units of `n`, and how many of its indices make one index of the result.
    ///
    /// With `(outer, k)`, `outer(x / k) == floor(self(x) / n)` for every `x`, where `x >= 0` if `k > 1`; both sides
    /// beyond their sizes as [`Layout::at`] has it.
    pub(crate) fn upcast_outer(
        &self,
        n: i64,
        refuse: &impl Fn(String) -> Error,
    ) -> Result<(Self, i64), Error> {
        if n > 1 && self.is_xor() && n.count_ones() != 1 {
            return Err(refuse(format!(
                "XOR strides are divided by powers of two only, and {n} is none"
            )));
        }
        let (first, last) = self.first_and_last();
        let (mut at, mut indices) = (0.., 1);
        let outer = self.0.try_map(|leaf| {
            let at = at.next().expect("indices do not end");
            let d = leaf.stride.coefficient();
            let to = |stride| leaf.stride.with_coefficient(d.with_value(stride));
            if let Stride::Basis(_) = leaf.stride
                && !leaf.stride.is_zero()
            {
                return Err(Error::stride_kind("upcast", self.text(), "integer or XOR strides"));
            }
            if d.value() % n == 0 {
                return Ok(LeafMode::new(leaf.extent, to(d.value() / n)));
            }
            if leaf.extent.is(1) && at != last {
                return Ok(LeafMode::new(leaf.extent, to(0)));
            }
            let steps = n / d.value();
            let gathers = at == first && d.value() > 0 && n % d.value() == 0;
            if !gathers || at != last && leaf.size() % steps != 0 {
                return Err(refuse(format!(
                    "the outer function {self} is divided by {n} where its first mode is contiguous in units of {n} and \
                     all other strides are multiples of {n}; {leaf:#} is neither"
                )));
            }
            indices = steps;
            let extent = leaf.extent.with_value(ceil_div(leaf.size(), steps)?);
            Ok(LeafMode::new(extent, to(1)))
        })?;
        Ok((Self(outer), indices))
    }

    /// The layout as an outer function in parts of `1/n`: `outer(n*x + k) == n * self(x) + k` for all `0 <= k < n` and
    /// `x`, where `x >= 0` if the layout has several modes.
    pub(crate) fn downcast_outer(
        &self,
        n: i64,
        refuse: &impl Fn(String) -> Error,
    ) -> Result<Self, Error> {
        let (first, _) = self.first_and_last();
        let stride = self.leaves().get(first).map(|l| l.stride);
        if !matches!(stride, Some(Stride::Int(d) | Stride::Xor(d)) if d.is(1)) {
            return Err(refuse(format!(
                "the first mode of the outer function {self} does not have stride 1, so the parts of one element do not lie \
                 together"
            )));
        }
        let mut at = 0..;
        let n = Int::Static(n);
        let outer = self.0.try_map(|leaf| {
            if at.next() == Some(first) {
                return Ok(LeafMode::new(leaf.extent.times(n)?, leaf.stride));
            }
            Ok::<_, Error>(LeafMode::new(leaf.extent, leaf.stride.times(n)?))
        })?;
        Self::checked(outer)
    }

    /// The leaf that takes the first step of the index, and the last leaf, which goes on beyond the size.
    fn first_and_last(&self) -> (usize, usize) {
        let last = self.leaves().len().saturating_sub(1);
        let long = self.leaves().iter().position(|l| l.size() > 1);
        (long.unwrap_or(last), last)
    }

    /// Returns the layout of the parts when each element is split into `n` parts.
    ///
    /// One mode of stride 1 grows: its extent is multiplied by `n`. The strides of the other modes are multiplied by `n`.
    /// The mode that grows is the first of stride 1 with an extent above 1, or else the first of stride 1. CuTe's
    /// `downcast` lets every mode of stride 1 grow, which counts parts twice.
    ///
    /// Law `downcast_parts`: at digit `n*c + k` of the mode that grows, the result is `n*self(c) + k`.
    ///
    /// # Errors
    ///
    /// Returns an error if no mode has stride 1, so that the parts of one element have no place, if a number does not
    /// fit in 64 bits, for strides of another kind, for XOR strides and a factor that is not a power of two, or for a
    /// factor below 1.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let words: Layout = "(2,4):(1,4)".parse()?;
    /// assert_eq!(words.downcast(4)?.to_string(), "(8,4):(1,16)");
    /// let twice: Layout = "(1,12):(1,1)".parse()?;
    /// assert_eq!(twice.downcast(2)?.to_string(), "(1,24):(2,1)"); // CuTe: (2,24):(1,1)
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn downcast(&self, n: i64) -> Result<Self, Error> {
        check_factor("downcast", self, n)?;
        self.parted(n, &|why| Error::operand("downcast", self.text(), why))
    }

    /// The layout in units of `1/n` element.
    pub(crate) fn parted(&self, n: i64, refuse: &impl Fn(String) -> Error) -> Result<Self, Error> {
        let unit = |d: Stride| matches!(d, Stride::Int(d) | Stride::Xor(d) if d.is(1));
        let leaves = self.leaves();
        let neighbours = || (0..leaves.len()).filter(|&i| unit(leaves[i].stride));
        let long = neighbours().find(|&i| leaves[i].extent.value() > 1);
        let Some(grown) = long.or_else(|| neighbours().next()) else {
            return Err(refuse(
                "no mode has stride 1, so the parts of one element have no mode to go to".into(),
            ));
        };
        let n = Int::Static(n);
        let mut at = 0..;
        let leaves = self.0.try_map(|leaf| {
            if at.next() == Some(grown) {
                return Ok(LeafMode::new(leaf.extent.times(n)?, leaf.stride));
            }
            Ok::<_, Error>(LeafMode::new(leaf.extent, leaf.stride.times(n)?))
        })?;
        Self::checked(leaves)
    }

    /// Returns the layout of elements of `old_bits` as one of elements of `new_bits`: CuTe's `recast_layout<Old,New>`.
    ///
    /// Its offsets are the elements of `new_bits` that share bits with an element of the layout. Where `new_bits` is a
    /// multiple of `old_bits` that is [`Layout::upcast`], and the last element may be used in part only;
    /// [`Layout::recast_exact`] refuses that.
    ///
    /// Law `recast_touches`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::upcast`] and [`Layout::downcast`]. Where neither size divides the other, each
    /// unit of their least common multiple is cut into its parts, and it also returns an error if some part is not
    /// touched; units of more than 4096 elements must be whole.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let halves: Layout = "(8,32):(32,1)".parse()?;
    /// assert_eq!(format!("{:#}", halves.recast(16, 128)?), "(8,4):(4,1)");
    /// assert_eq!(format!("{:#}", halves.recast(16, 8)?), "(8,64):(64,1)");
    /// assert_eq!(
    ///     "(4,4):(3,12)".parse::<Layout>()?.recast(16, 32).unwrap_err().to_string(),
    ///     "recast of (4,4):(3,12) from 16 to 32 bits: neither does 2 divide the stride 3, nor 3 divide 2",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    #[doc(alias = "recast_layout")]
    pub fn recast(&self, old_bits: i64, new_bits: i64) -> Result<Self, Error> {
        self.in_bits("recast", old_bits, new_bits, Units::Touched)
    }

    /// Returns [`Layout::recast`] where every element of the result lies in elements of `self` with all its bits.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::recast`], and an error if an element of `new_bits` is used in part only.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let words: Layout = "32:1".parse()?;
    /// assert_eq!(words.recast_exact(1, 32)?.to_string(), "1:1");
    /// assert_eq!(
    ///     words.recast_exact(1, 64).unwrap_err().to_string(),
    ///     "recast_exact of 32:1 from 1 to 64 bits: its 32 elements do not fill the 1 units of 64 elements that they lie in",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn recast_exact(&self, old_bits: i64, new_bits: i64) -> Result<Self, Error> {
        self.in_bits("recast_exact", old_bits, new_bits, Units::Whole)
    }

    fn in_bits(
        &self,
        operation: &'static str,
        old_bits: i64,
        new_bits: i64,
        units: Units,
    ) -> Result<Self, Error> {
        let (larger, smaller) = factors(operation, self, old_bits, new_bits)?;
        let refuse = |why: String| {
            Error::operand(
                operation,
                format!("{self} from {old_bits} to {new_bits} bits"),
                why,
            )
        };
        let up = match larger {
            1 => self.clone(),
            _ => self.gathered(larger, units.before(smaller), &refuse)?,
        };
        if smaller == 1 {
            Ok(up)
        } else {
            up.parted(smaller, &refuse)
        }
    }

    /// Returns the largest `n` that [`Layout::upcast_exact`] takes: how many elements every access may move.
    ///
    /// The layout is then made of whole aligned vectors: its offsets, counted as often as they occur, are `n*u` to
    /// `n*u + n - 1` for some numbers `u`.
    ///
    /// Law `max_alignment_tiles`.
    ///
    /// # Errors
    ///
    /// Returns an error for coordinate and XOR strides, or if a number does not fit in 64 bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// assert_eq!("(4,(2)):(1,(4))".parse::<Layout>()?.max_alignment()?, 8);
    /// assert_eq!("(3,2):(16,8)".parse::<Layout>()?.max_alignment()?, 1);
    /// // The second column starts at element 7, between two vectors.
    /// assert_eq!("(8,4):(1,7)".parse::<Layout>()?.max_alignment()?, 1);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn max_alignment(&self) -> Result<i64, Error> {
        let mut modes: SmallVec<[(i64, i64); 12]> = SmallVec::new();
        for leaf in self.leaves() {
            let d = self.int_stride("max_alignment", leaf)?.value();
            if leaf.size() > 1 && d != 0 {
                modes.push((d, leaf.size()));
            }
        }
        modes.sort_unstable();
        // The modes that continue one another from stride 1 make up vectors; all others step by whole vectors.
        let mut run: SmallVec<[(i64, i64); 12]> = SmallVec::new();
        let (mut end, mut divisor) = (1_i64, 0);
        for (d, extent) in modes {
            if d == end {
                run.push((d, extent));
                end = crate::tuple::int::mul(d, extent)?;
            } else {
                divisor = gcd(divisor, d);
            }
        }
        // Each mode of the run that is not whole within a vector has to be a number of vectors.
        let mut n = 1;
        for (d, extent) in run {
            if n == d {
                n *= gcd(extent, divisor / d);
            }
        }
        Ok(n)
    }
}

/// What becomes of a unit that is used in part only.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Units {
    /// It counts.
    Touched,
    /// It is refused.
    Whole,
    /// It is refused unless its elements touch each of the parts.
    Parts(i64),
}

/// The longest unit, in elements, of which [`Layout::recast`] looks at the parts where it is not whole.
const COVERED_UNIT: i64 = 1 << 12;

impl Units {
    /// What must hold for the units that a recast cuts into `parts`.
    pub(crate) fn before(self, parts: i64) -> Self {
        match self {
            Self::Touched if parts > 1 => Self::Parts(parts),
            _ => self,
        }
    }

    /// The same where the places of elements within a unit are not known.
    pub(crate) fn at_least_whole(self) -> Self {
        match self {
            Self::Touched => self,
            Self::Whole | Self::Parts(_) => Self::Whole,
        }
    }
}

/// Why one mode has no place in larger units.
enum RecastMisfit {
    Why(String),
    Error(Error),
}

impl RecastMisfit {
    fn into_error(self, refuse: &impl Fn(String) -> Error) -> Error {
        match self {
            Self::Why(why) => refuse(why),
            Self::Error(error) => error,
        }
    }
}

/// By how much a recast gathers, and into how many parts it cuts then.
pub(crate) fn factors(
    operation: &'static str,
    layout: &impl core::fmt::Display,
    old_bits: i64,
    new_bits: i64,
) -> Result<(i64, i64), Error> {
    if old_bits < 1 || new_bits < 1 {
        return Err(rank_error(
            operation,
            layout,
            &old_bits.min(new_bits),
            "element sizes of at least one bit",
        ));
    }
    let g = gcd(old_bits, new_bits);
    Ok((new_bits / g, old_bits / g))
}

pub(crate) fn check_factor(
    operation: &'static str,
    layout: &impl core::fmt::Display,
    n: i64,
) -> Result<(), Error> {
    if n >= 1 {
        Ok(())
    } else {
        Err(rank_error(operation, layout, &n, "a factor of at least 1"))
    }
}
