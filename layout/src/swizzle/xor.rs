//! XOR strides: a swizzled layout as an ordinary layout over bit-vectors.

use alloc::format;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::layout::LeafMode;
use crate::tuple::TupleBuilder;
use crate::tuple::int::bit_length;
use crate::{BinaryMatrix, ComposedLayout, Error, Int, Layout, Outer, Stride, Swizzle};

/// The bit-vectors of one leaf: the offsets at coordinates 1, 2, 4, ...
pub(crate) fn vectors(leaf: &LeafMode, d: i64) -> Result<SmallVec<[i64; 16]>, Error> {
    (0..bit_length(leaf.size()))
        .map(|k| {
            d.checked_mul(1 << k).ok_or_else(|| {
                ErrorKind::Overflow {
                    left: d,
                    operator: '*',
                    right: 1 << k,
                }
                .into()
            })
        })
        .collect()
}

impl Layout {
    /// Returns whether some stride is an XOR stride.
    #[must_use]
    pub fn is_xor(&self) -> bool {
        self.leaves()
            .iter()
            .any(|l| matches!(l.stride, Stride::Xor(_)))
    }

    /// The bits that offsets may set, when the layout is linear over F2: its bit-vectors do not share bits.
    ///
    /// # Errors
    ///
    /// Returns an error if the offsets of two coordinates share a bit, or if a stride is negative; it names them.
    pub(crate) fn linear_mask(&self) -> Result<i64, Error> {
        let mut mask = 0;
        for leaf in self.leaves() {
            let d = self.int_stride("to_xor", leaf)?.value();
            for v in vectors(leaf, d)? {
                if v < 0 || mask & v != 0 {
                    let why = if v < 0 {
                        format!("stride {d} is negative")
                    } else {
                        format!(
                            "mode {leaf} sets bits of {v:#b} that other coordinates set too, so sums carry"
                        )
                    };
                    return Err(Error::operand("to_xor", self.text(), why));
                }
                mask |= v;
            }
        }
        Ok(mask)
    }

    /// Returns the same layout with XOR strides, where adding its strides never carries.
    ///
    /// # Errors
    ///
    /// Returns an error if two coordinates set the same bit, so that sums carry, or for strides of another kind.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let l: Layout = "(8,64):(64,1)".parse()?;
    /// assert_eq!(l.to_xor()?.to_string(), "(8,64):(^64,^1)");
    /// assert_eq!(
    ///     "(4,2):(1,3)".parse::<Layout>()?.to_xor().unwrap_err().to_string(),
    ///     "to_xor of (4,2):(1,3): mode 2:3 sets bits of 0b11 that other coordinates set too, so sums carry",
    /// );
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn to_xor(&self) -> Result<Self, Error> {
        if self.is_xor() {
            return Ok(self.clone());
        }
        self.linear_mask()?;
        let xor = |leaf: LeafMode| match leaf.stride {
            d if d.is_zero() => leaf,
            d => LeafMode::new(leaf.extent, Stride::Xor(d.coefficient())),
        };
        Ok(Self(self.0.map(xor)))
    }

    /// Returns the matrix over F2 that maps the bits of the index to the bits of the offset.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is not a power of two, or sums of strides carry.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let l: Layout = "(2,(2,2)):(^1,(^3,^4))".parse()?;
    /// assert_eq!(l.to_matrix()?.columns(), [1, 3, 4]);
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn to_matrix(&self) -> Result<BinaryMatrix, Error> {
        let xor = self.to_xor()?;
        let mut columns = Vec::new();
        for leaf in xor.leaves() {
            if leaf.size().count_ones() != 1 {
                return Err(Error::operand(
                    "to_matrix",
                    self.text(),
                    format!("extent {} is not a power of two", leaf.extent),
                ));
            }
            columns.extend(vectors(leaf, leaf.stride.coefficient().value())?);
        }
        BinaryMatrix::new(columns)
    }

    /// Returns the flat layout of a matrix over F2: one mode a run of columns that shift into one another.
    ///
    /// # Errors
    ///
    /// Returns an error if the matrix has more columns than an index has bits.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::{BinaryMatrix, Layout};
    /// let m = BinaryMatrix::new(vec![1, 2, 4, 8, 9, 18])?;
    /// assert_eq!(format!("{:#}", Layout::from_matrix(&m)?), "(16,4):(^1,^9)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn from_matrix(matrix: &BinaryMatrix) -> Result<Self, Error> {
        let size = 1_i64
            .checked_shl(u32::try_from(matrix.columns().len()).unwrap_or(64))
            .filter(|n| *n > 0);
        let size = size.ok_or(ErrorKind::Overflow {
            left: 2,
            operator: '^',
            right: matrix.columns().len() as i64,
        })?;
        let mut b = TupleBuilder::new();
        push_runs(Int::Static(size), matrix.columns(), Stride::Xor, &mut b)?;
        Self::checked(b.finish())
    }

    /// Returns the swizzle and the integer layout that together are this XOR layout.
    ///
    /// The swizzle has the fewest bits possible. An integer layout is its own with the identity swizzle.
    ///
    /// # Errors
    ///
    /// Returns an error if no `Swizzle o Layout` equals it.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::Layout;
    /// let xor: Layout = "(8,64):(^72,^1)".parse()?;
    /// assert_eq!(xor.to_swizzled()?.to_string(), "Sw<3,3,3> o 0 o (8,64):(64,1)");
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn to_swizzled(&self) -> Result<ComposedLayout, Error> {
        let all = self
            .leaves()
            .iter()
            .map(|l| vectors(l, l.stride.coefficient().value()));
        let all: Vec<_> = all.collect::<Result<_, _>>()?;
        let top = all.iter().flatten().fold(0, |a, v| a | v);
        let width = i64::from(64 - top.leading_zeros());
        let fit = |sw: &Swizzle| unswizzled(&all, *sw).map(|strides| (*sw, strides));
        let Some((swizzle, strides)) = Swizzle::within(width).find_map(|sw| fit(&sw)) else {
            return Err(Error::operand(
                "to_swizzled",
                self.text(),
                format!("no swizzle within its {width} bits leaves an integer layout"),
            ));
        };
        let mut strides = strides.into_iter();
        let inner = self.0.map(|leaf| {
            let d = strides.next().expect("one stride per leaf");
            LeafMode::new(
                leaf.extent,
                Stride::Int(leaf.stride.coefficient().with_value(d)),
            )
        });
        ComposedLayout::new(swizzle, 0, Self::checked(inner)?)
    }
}

/// The integer strides that `swizzle` turns into these bit-vectors, if they are one layout's.
fn unswizzled(all: &[SmallVec<[i64; 16]>], swizzle: Swizzle) -> Option<SmallVec<[i64; 12]>> {
    let mut mask = 0;
    let mut strides = SmallVec::new();
    for vectors in all {
        // A swizzle is its own inverse.
        let d = vectors.first().map_or(0, |v| swizzle.apply(*v));
        for (k, v) in vectors.iter().enumerate() {
            let w = swizzle.apply(*v);
            if w != d << k || mask & w != 0 {
                return None;
            }
            mask |= w;
        }
        strides.push(d);
    }
    Some(strides)
}

/// One leaf of `extent` whose coordinate bits have these images: as few modes as possible, with strides of one kind.
pub(crate) fn push_runs(
    extent: Int,
    columns: &[i64],
    stride: fn(Int) -> Stride,
    out: &mut TupleBuilder<LeafMode>,
) -> Result<(), Error> {
    let mut runs: SmallVec<[LeafMode; 8]> = SmallVec::new();
    let mut rest = extent.value();
    let mut k = 0;
    while k < columns.len() {
        let mut n = 1;
        while k + n < columns.len() && columns[k].checked_mul(1 << n) == Some(columns[k + n]) {
            n += 1;
        }
        let last = k + n == columns.len();
        let size = if last { rest } else { 1 << n };
        if rest % size != 0 {
            return Err(Error::operand(
                "to_xor",
                format!("a mode of extent {extent}"),
                format!("its bits need different strides, and {size} does not divide {rest}"),
            ));
        }
        rest /= size;
        runs.push(LeafMode::new(
            extent.with_value(size),
            match columns[k] {
                0 => Stride::Int(extent.with_value(0)),
                v => stride(extent.with_value(v)),
            },
        ));
        k += n;
    }
    if runs.is_empty() {
        runs.push(LeafMode::new(extent, Stride::constant(0)));
    }
    out.pieces(&runs);
    Ok(())
}

impl ComposedLayout {
    /// Returns the layout with XOR strides, and the offset that every value is XORed with:
    /// `value(c) == start ^ layout(c)`.
    ///
    /// # Errors
    ///
    /// Returns an error if the inner layout, or its sum with the offset, carries; or when the outer function is not
    /// linear over F2.
    ///
    /// # Example
    ///
    /// ```
    /// use colex_layout::ComposedLayout;
    /// let tile: ComposedLayout = "Sw<3,3,3> o 0 o (8,64):(64,1)".parse()?;
    /// let (xor, start) = tile.to_xor()?;
    /// assert_eq!((xor.to_string().as_str(), start), ("(8,64):(^72,^1)", 0));
    ///
    /// // Rows 2 and 3 of the tile begin at offset 128, which the swizzle takes to 128 ^ 16.
    /// let rows: ComposedLayout = "Sw<3,3,3> o 128 o (2,64):(64,1)".parse()?;
    /// let (xor, start) = rows.to_xor()?;
    /// assert_eq!((xor.to_string().as_str(), start), ("(2,64):(^72,^1)", 144));
    /// for c in 0..128 {
    ///     assert_eq!(rows.at(c)?, start ^ xor.at(c)?);
    /// }
    /// # Ok::<(), colex_layout::Error>(())
    /// ```
    pub fn to_xor(&self) -> Result<(Layout, i64), Error> {
        let offset = self.base_offset();
        let Outer::Swizzle(swizzle) = self.outer_in_elements()? else {
            let flat = self.to_layout()?;
            return Ok((flat.to_xor()?, 0));
        };
        let inner = self.inner();
        let mask = inner.to_xor()?.xor_mask()?;
        if offset < 0 || mask & offset != 0 {
            return Err(Error::operand(
                "to_xor",
                self.text(),
                format!("the offset {offset} and the layout set the same bits, so sums carry"),
            ));
        }
        let xor = inner.map_bits(|v| swizzle.apply(v))?;
        Ok((xor, swizzle.apply(offset)))
    }
}

impl Layout {
    /// The least and the greatest offset; of an XOR layout, bounds for both.
    pub(crate) fn reach(&self) -> Result<(i64, i64), Error> {
        if self.is_xor() {
            let mask = self.xor_mask()?;
            return Ok(if mask < 0 {
                (i64::MIN, i64::MAX)
            } else {
                // No offset has a bit above the highest one of the mask.
                (0, i64::MAX.unbounded_shr(mask.leading_zeros() - 1))
            });
        }
        let (mut least, mut most) = (0, 0);
        for leaf in self.leaves() {
            let d = self.int_stride("the range of offsets", leaf)?.value();
            let part = crate::tuple::int::mul(leaf.size() - 1, d)?;
            let end = if part < 0 { &mut least } else { &mut most };
            *end = crate::tuple::int::add(*end, part)?;
        }
        Ok((least, most))
    }

    /// Whether no bit of an offset is set by two bits of a coordinate, and none is a sign: then XOR strides add.
    pub(crate) fn sets_bits_once(&self) -> Result<bool, Error> {
        let mut mask = 0;
        for leaf in self.leaves() {
            for v in vectors(leaf, leaf.stride.coefficient().value())? {
                if v < 0 || mask & v != 0 {
                    return Ok(false);
                }
                mask |= v;
            }
        }
        Ok(true)
    }

    /// The layout `r` with `start + r(c) == start ^ self(c)`, for an XOR layout.
    ///
    /// Where `start` has none of its bits that is the layout itself. Otherwise a bit that `start` has is a step down:
    /// the result has integer strides, and a mode for each run of bits that step alike.
    ///
    /// # Errors
    ///
    /// Returns an error of `operation` if two coordinates set the same bit, or an extent does not split.
    pub(crate) fn added_to(&self, operation: &'static str, start: i64) -> Result<Self, Error> {
        if start & self.xor_mask()? == 0 {
            return Ok(self.clone());
        }
        let refuse = |why: &str| {
            Error::operand(
                operation,
                self.text(),
                format!("its XOR offsets do not add to its start {start}: {why}"),
            )
        };
        if !self.sets_bits_once()? {
            return Err(refuse(
                "both set the same bits, and coordinates of the layout set bits together",
            ));
        }
        let integers = self.0.try_refine(|_, leaf, out| {
            let vectors = vectors(leaf, leaf.stride.coefficient().value())?;
            // A bit that the start has goes down, the others go up.
            let step = |v: &i64| (v & !start) - (v & start);
            let steps: SmallVec<[i64; 16]> = vectors.iter().map(step).collect();
            push_runs(leaf.extent, &steps, Stride::Int, out).map_err(|_| {
                refuse("both set the same bits, and the extent of a mode is not a power of two")
            })
        })?;
        Self::checked(integers)
    }

    /// The bits that an XOR layout may set.
    pub(crate) fn xor_mask(&self) -> Result<i64, Error> {
        let mut mask = 0;
        for leaf in self.leaves() {
            mask = vectors(leaf, leaf.stride.coefficient().value())?
                .iter()
                .fold(mask, |m, v| m | v);
        }
        Ok(mask)
    }
}
