//! From a shared-memory layout to its descriptor, by algebra.

use colex_layout::{ComposedLayout, Int, IntoComposedLayout, Layout};

use super::{GmmaDescriptor, SmemSwizzle};
use crate::error::{Error, GmmaError};
use crate::mma::{Major, MmaAtom};

impl GmmaDescriptor {
    /// Returns the descriptor of one operand tile, `(MN, K)` to elements of `bits` bits in shared memory.
    ///
    /// The layout is read in units of 16 bytes and divided by the pattern of its swizzle; what is left are the two
    /// strides. An offset in the middle becomes the start address.
    ///
    /// ```
    /// use colex_atom::{GmmaDescriptor, Major};
    ///
    /// let rows = "(64,16):(16,1)";
    /// assert_eq!(
    ///     GmmaDescriptor::of(rows, 16, Major::K).unwrap_err().to_string(),
    ///     "(64,16):(16,1) is not a canonical K-major layout of wgmma: without a swizzle, neighbouring rows lie 16 bytes apart, not 32"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a layout that `wgmma` does not read, with what would have to be otherwise, for elements
    /// that do not divide 128 bits, or for an offset that does not fit its field.
    #[doc(alias = "make_gmma_desc")]
    pub fn of(tile: impl IntoComposedLayout, bits: u32, major: Major) -> Result<Self, Error> {
        let tile = &tile.into_composed_layout()?;
        if bits == 0 || 128 % bits != 0 {
            return Err(GmmaError::Element { bits }.into());
        }
        let reader = Reader {
            text: tile.to_string(),
            bits: bits.into(),
            major,
        };
        let (swizzle, start, units) = reader.in_units(tile)?;
        let (leading, stride) = match major {
            Major::K => reader.k_major(swizzle, &units)?,
            Major::MN => reader.mn_major(swizzle, &units)?,
        };
        let descriptor = GmmaDescriptor {
            start,
            leading: leading * 16,
            stride: stride * 16,
            base_offset: 0,
            swizzle,
        };
        descriptor.encode()?;
        Ok(descriptor)
    }
}

/// Reads a tile; knows how it was asked, for the refusal.
struct Reader {
    text: String,
    bits: i64,
    major: Major,
}

impl Reader {
    fn refuse<T>(&self, why: String) -> Result<T, Error> {
        Err(GmmaError::NotCanonical {
            layout: self.text.clone(),
            major: self.major,
            why,
        }
        .into())
    }

    /// The swizzle, the start address, and the inner layout in units of 16 bytes.
    fn in_units(&self, tile: &ComposedLayout) -> Result<(SmemSwizzle, i64, Layout), Error> {
        if tile.rank() != 2 {
            return self.refuse(format!("it has {} modes, not two: MN and K", tile.rank()));
        }
        let tile = tile.position_independent()?;
        let elements = 128 / self.bits;
        let (swizzle, base) = (tile.swizzle(), i64::from(elements.trailing_zeros()));
        let kind = SmemSwizzle::of_bits(swizzle.bits());
        let kind = kind
            .filter(|_| swizzle.is_identity() || (swizzle.base(), swizzle.shift()) == (base, 3));
        let Some(kind) = kind else {
            return self.refuse(format!("its swizzle is not Sw<0..3,{base},3>"));
        };
        let start = tile.base_offset() * self.bits;
        if start % 128 != 0 {
            return self.refuse(format!(
                "it starts at bit {start}, not at a multiple of 16 bytes"
            ));
        }
        let units = tile.inner().upcast_exact(elements);
        match units {
            Ok(units) => Ok((kind, start / 8, units)),
            Err(error) => self.refuse(format!("16 bytes of it do not lie together: {error}")),
        }
    }

    /// `((8,m),(2,k)):((W,stride),(1,2))`, without a swizzle `((8,m),(2,k)):((1,stride),(leading,2 leading))`.
    fn k_major(&self, swizzle: SmemSwizzle, units: &Layout) -> Result<(i64, i64), Error> {
        let [mn, k] = extents(units);
        if mn % 8 != 0 {
            return self.refuse(format!("{mn} rows are not a multiple of 8"));
        }
        if k != 2 && k != 4 {
            return self.refuse(format!(
                "a row is 32 bytes of K, or 64 beside a sparse A, not {} bytes",
                k * 16
            ));
        }
        let [[row, stride], [unit, rest]] = self.divided(units, 8, 2)?;
        self.check_rows(swizzle, row)?;
        if swizzle != SmemSwizzle::None && unit != 1 {
            return self.refuse(format!(
                "neighbours along K lie 16 bytes apart, not {}",
                unit * 16
            ));
        }
        if k == 4 && rest != 2 * unit {
            return self.refuse(format!(
                "the second 32 bytes of a row lie {} bytes after the first, not {}",
                rest * 16,
                unit * 32
            ));
        }
        Ok((unit, stride))
    }

    /// `((W,m),(8,k)):((1,leading),(W,stride))`, without a swizzle `((1,m),(8,k)):((_,stride),(1,leading))`.
    fn mn_major(&self, swizzle: SmemSwizzle, units: &Layout) -> Result<(i64, i64), Error> {
        let [mn, k] = extents(units);
        let width = swizzle.span() / 16;
        if mn % width != 0 {
            return self.refuse(format!(
                "{} bytes along MN are not a multiple of {}",
                mn * 16,
                width * 16
            ));
        }
        if ![1, 2, 4].contains(&(k * self.bits / 128)) || k * self.bits % 128 != 0 {
            return self.refuse(format!(
                "{k} elements along K are {} bits, not 128, 256 or 512",
                k * self.bits
            ));
        }
        let [[unit, next], [row, rest]] = self.divided(units, width, 8)?;
        if width > 1 && unit != 1 {
            return self.refuse(format!(
                "neighbours along MN lie 16 bytes apart, not {}",
                unit * 16
            ));
        }
        self.check_rows(swizzle, row)?;
        Ok(if swizzle == SmemSwizzle::None {
            (rest, next)
        } else {
            (next, rest)
        })
    }

    fn check_rows(&self, swizzle: SmemSwizzle, row: i64) -> Result<(), Error> {
        let span = swizzle.span();
        if row * 16 == span {
            return Ok(());
        }
        let kind = match swizzle {
            SmemSwizzle::None => "without a swizzle".to_string(),
            _ => format!("swizzled over {span} bytes"),
        };
        self.refuse(format!(
            "{kind}, neighbouring rows lie {span} bytes apart, not {}",
            row * 16
        ))
    }

    /// The strides of `((a,m),(b,n))`.
    fn divided(&self, units: &Layout, a: i64, b: i64) -> Result<[[i64; 2]; 2], Error> {
        let divided = units.logical_divide((a, b))?;
        let mut strides = [[0; 2]; 2];
        for (i, mode) in divided.modes().enumerate().take(2) {
            for (j, part) in mode.modes().enumerate().take(2) {
                let part = part.coalesce(..);
                let leaf = part.leaves().first().filter(|_| part.leaves().len() == 1);
                let Some(stride) = leaf.and_then(|leaf| leaf.stride.as_int()).map(Int::value)
                else {
                    return self.refuse(format!("in units of 16 bytes, {part} is not one stride"));
                };
                strides[i][j] = stride;
            }
        }
        Ok(strides)
    }
}

/// The extents of the two modes.
fn extents(layout: &Layout) -> [i64; 2] {
    [0, 1].map(|i| layout.mode(i).map_or(1, |mode| mode.size()))
}

impl MmaAtom {
    /// Returns the descriptor of A (`'A'`) or B (`'B'`) of a `wgmma`, whose tile lies in shared memory by this layout.
    ///
    /// A is `(M, K)`, of a sparse operation `(M, K/2)`; B is `(N, K)`; the major is the operation's own.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`GmmaDescriptor::of`], and an error for another shape, and an error for an operand in
    /// registers.
    pub fn descriptor(
        &self,
        operand: char,
        tile: impl IntoComposedLayout,
    ) -> Result<GmmaDescriptor, Error> {
        let tile = &tile.into_composed_layout()?;
        let ([m, n, k], t, options) = (self.mnk(), self.traits(), self.options());
        let (shared, shape, ty, major) = match operand {
            'A' => (
                self.a_in_shared(),
                [m, k / self.rule().packing() as i64],
                t.ty_a,
                options.major_a,
            ),
            _ => (self.b_in_shared(), [n, k], t.ty_b, options.major_b),
        };
        let expected = if shared {
            format!("a tile ({},{}) of shared memory", shape[0], shape[1])
        } else {
            "in registers".to_string()
        };
        if !shared || tile.rank() != 2 || extents(tile.inner()) != shape {
            let found = format!("a tile {}", tile.shape());
            return Err(self.wrong_operand(operand, expected, found));
        }
        GmmaDescriptor::of(tile, ty.bits(), major)
    }
}
