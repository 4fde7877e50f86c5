//! Threadblock swizzles of CUTLASS 2: which output tile a block of the grid computes.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div, product, within};
use crate::number::expr::Arith;
use crate::number::formula;
use crate::problem::conv::{Conv, ConvOperator};
use crate::problem::coord::{Dim3, GemmCoord};
use crate::problem::tiles::{tiled_mn, tiled_shape};
use std::fmt;
use std::str::FromStr;

/// A map from the blocks of a grid to output tiles. Source: `threadblock_swizzle.h`,
/// `conv/threadblock/threadblock_swizzle.h`.
///
/// Widths are the `N` of CUTLASS's templates: the most columns of tiles that consecutive blocks visit before
/// they step to the next row. Any width of at least 1 is taken; 1, 2, 4 and 8 make a difference.
///
/// ```
/// use colex_sched::{Dim3, GemmCoord, ThreadblockSwizzle};
/// let swizzle: ThreadblockSwizzle = "GemmIdentity<2>".parse()?;
/// let tiles = GemmCoord::new(4, 4, 1);
/// assert_eq!(swizzle.grid_shape(tiles)?, Dim3::new(8, 2, 1));
/// assert_eq!(swizzle.tile_offset(tiles, Dim3::new(3, 1, 0))?, Some(GemmCoord::new(1, 3, 0)));
/// # Ok::<(), colex_sched::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadblockSwizzle {
    /// Rows of blocks folded into strips of up to `width` columns; the grid may have blocks outside the problem.
    #[doc(alias = "GemmIdentityThreadblockSwizzle")]
    Identity {
        /// The template argument `N`.
        width: i64,
    },
    /// As identity, with the widest strip that divides the columns: no block outside the problem.
    #[doc(alias = "GemmIdentityThreadblockSwizzleNoPadding")]
    IdentityNoPadding {
        /// The template argument `N`.
        width: i64,
    },
    /// Blocks run along n first.
    #[doc(alias = "GemmHorizontalThreadblockSwizzle")]
    Horizontal,
    /// Blocks run along m first; z is the batch.
    #[doc(alias = "GemmBatchedIdentityThreadblockSwizzle")]
    Batched,
    /// As identity; z is the split along k.
    #[doc(alias = "GemmSplitKIdentityThreadblockSwizzle")]
    SplitKIdentity {
        /// The template argument `N`.
        width: i64,
    },
    /// As horizontal; z is the split along k.
    #[doc(alias = "GemmSplitKHorizontalThreadblockSwizzle")]
    SplitKHorizontal,
    /// As identity, for a strided data gradient: more rows of tiles.
    #[doc(alias = "StridedDgradIdentityThreadblockSwizzle")]
    StridedDgradIdentity {
        /// The template argument `N`.
        width: i64,
    },
    /// As horizontal, for a strided data gradient.
    #[doc(alias = "StridedDgradHorizontalThreadblockSwizzle")]
    StridedDgradHorizontal,
    /// As identity with one row of tiles: a depthwise convolution walks its outputs inside the block.
    #[doc(alias = "DepthwiseDirect2dConvIdentityThreadblockSwizzle")]
    DepthwiseDirect2dConv {
        /// The template argument `N`.
        width: i64,
        /// Images, rows and columns of outputs a block computes at a time; they do not change the grid.
        output: [i64; 3],
    },
}

use ThreadblockSwizzle as Swizzle;

impl ThreadblockSwizzle {
    /// Returns the swizzles that map a plain GEMM, at widths 1, 2, 4 and 8.
    pub fn all() -> Vec<ThreadblockSwizzle> {
        let widths = [1, 2, 4, 8];
        let mut all = vec![
            Swizzle::Horizontal,
            Swizzle::Batched,
            Swizzle::SplitKHorizontal,
        ];
        all.extend(widths.map(|width| Swizzle::Identity { width }));
        all.extend(widths.map(|width| Swizzle::IdentityNoPadding { width }));
        all.extend(widths.map(|width| Swizzle::SplitKIdentity { width }));
        all
    }

    /// Returns a GEMM in tiles; the third extent is `splits` (for [`ThreadblockSwizzle::Batched`], the batches).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tiled_shape`], and an error for the convolution swizzles, or for more batches than the
    /// grid's z takes, where CUTLASS wraps round to few or none.
    #[doc(alias = "get_tiled_shape")]
    pub fn tiled_shape(
        &self,
        problem: GemmCoord,
        tile: GemmCoord,
        splits: i64,
    ) -> Result<GemmCoord, Error> {
        match self {
            Swizzle::Batched => {
                at_least("the number of batches", splits, 1)?;
                Dim3::new(1, 1, splits).launchable()?;
                tiled_mn(problem, tile, splits)
            }
            Swizzle::StridedDgradIdentity { .. }
            | Swizzle::StridedDgradHorizontal
            | Swizzle::DepthwiseDirect2dConv { .. } => Err(ErrorKind::WrongProblem {
                swizzle: self.to_string(),
                maps: "convolutions only, not a plain GEMM",
            }
            .into()),
            _ => tiled_shape(problem, tile, splits),
        }
    }

    /// Returns a convolution in tiles.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`tiled_shape`] and [`Conv::implicit_gemm`], and an error if the swizzle has no such form.
    pub fn conv_tiled_shape(
        &self,
        operator: ConvOperator,
        conv: &Conv,
        tile: GemmCoord,
        splits: i64,
    ) -> Result<GemmCoord, Error> {
        let gemm = conv.implicit_gemm(operator)?;
        let wrong = |maps| {
            Err(ErrorKind::WrongProblem {
                swizzle: self.to_string(),
                maps,
            }
            .into())
        };
        match self {
            Swizzle::Identity { .. } | Swizzle::IdentityNoPadding { .. } => {
                tiled_shape(gemm, tile, splits)
            }
            Swizzle::StridedDgradIdentity { .. } | Swizzle::StridedDgradHorizontal => {
                if operator != ConvOperator::Dgrad {
                    return wrong("data gradients only");
                }
                let shape = tiled_shape(gemm, tile, splits)?;
                Ok(GemmCoord {
                    m: conv.strided_dgrad_tiles_m(tile.m)?,
                    ..shape
                })
            }
            Swizzle::DepthwiseDirect2dConv {
                output: [_, p, q], ..
            } => {
                conv.depthwise_iterations(*p, *q, splits)?;
                Ok(GemmCoord {
                    m: 1,
                    ..tiled_mn(gemm, tile, splits)?
                })
            }
            _ => wrong("plain GEMMs only"),
        }
    }

    /// Returns the grid to launch (S74).
    ///
    /// # Errors
    ///
    /// Returns an error for an empty tiled shape or width, or for a grid no device launches.
    #[doc(alias = "get_grid_shape")]
    pub fn grid_shape(&self, tiled: GemmCoord) -> Result<Dim3, Error> {
        if self.is_horizontal() {
            tiled.positive([
                "extent m in tiles",
                "extent n in tiles",
                "extent k in tiles",
            ])?;
            return Dim3::new(tiled.n, tiled.m, tiled.k).launchable();
        }
        let strip = 1 << self.log_tile(tiled)?;
        Dim3::new(
            product("the grid's x", &[tiled.m, strip])?,
            ceil_div(tiled.n, strip),
            tiled.k,
        )
        .launchable()
    }

    /// Returns the base-2 logarithm of the strip's width for this many columns of tiles (S75).
    ///
    /// CUTLASS halves the width when the last strip would be mostly empty: 8 from 6 columns, 4 from 3, 2 from 2.
    ///
    /// # Errors
    ///
    /// Returns an error for an empty tiled shape or a width below 1.
    ///
    /// ```
    /// use colex_sched::{GemmCoord, ThreadblockSwizzle};
    /// let eight = ThreadblockSwizzle::Identity { width: 8 };
    /// let logs = (1..=8).map(|n| eight.log_tile(GemmCoord::new(1, n, 1))).collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(logs, [0, 1, 2, 2, 2, 3, 3, 3]);
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    #[doc(alias = "get_log_tile")]
    pub fn log_tile(&self, tiled: GemmCoord) -> Result<u32, Error> {
        tiled.positive([
            "extent m in tiles",
            "extent n in tiles",
            "extent k in tiles",
        ])?;
        let n = tiled.n;
        Ok(match self {
            Swizzle::Identity { width }
            | Swizzle::SplitKIdentity { width }
            | Swizzle::StridedDgradIdentity { width }
            | Swizzle::DepthwiseDirect2dConv { width, .. } => {
                log_by_threshold(at_least("the width of the swizzle", *width, 1)?, n)
            }
            Swizzle::IdentityNoPadding { width } => {
                log_by_division(at_least("the width of the swizzle", *width, 1)?, n)
            }
            _ => 0,
        })
    }

    /// Returns the tile of `block`, or `None` where the grid reaches beyond the problem and the block has nothing to do
    /// (S76).
    ///
    /// # Errors
    ///
    /// Returns an error for a block that is not in the grid. It also returns the errors of
    /// [`ThreadblockSwizzle::grid_shape`].
    #[doc(alias = "get_tile_offset")]
    pub fn tile_offset(&self, tiled: GemmCoord, block: Dim3) -> Result<Option<GemmCoord>, Error> {
        let grid = self.grid_shape(tiled)?;
        if !grid.contains(block) {
            let (coord, extent) = ([block.x, block.y, block.z], [grid.x, grid.y, grid.z]);
            return Err(Error::outside("block", coord, extent));
        }
        let tile = self.tile_offset_unbounded(self.log_tile(tiled)?, block)?;
        Ok(tiled.contains(tile).then_some(tile))
    }

    /// Returns the tile that CUTLASS's formula gives, which may lie outside the problem: what a kernel computes before
    /// its check.
    ///
    /// # Errors
    ///
    /// Returns an error for a block below 0, for a `log_tile` above 62, or if a count does not fit in 64 bits.
    pub fn tile_offset_unbounded(&self, log_tile: u32, block: Dim3) -> Result<GemmCoord, Error> {
        within(
            "the base-2 logarithm of the width",
            log_tile as usize,
            0,
            MOST_LOG as usize,
        )?;
        let block = below_nothing(block)?;
        if !self.is_horizontal() {
            fits(block, 1 << log_tile)?;
        }
        let [m, n] = self.formula(block.x, block.y, log_tile);
        Ok(GemmCoord::new(m, n, block.z))
    }

    /// Returns the formula of [`ThreadblockSwizzle::tile_offset_unbounded`] over any [`Arith`]: numbers, or
    /// [`crate::Expr`] for a kernel. A `log_tile` above 62 counts as 62.
    pub fn formula<T: Arith>(&self, bx: T, by: T, log_tile: u32) -> [T; 2] {
        if self.is_horizontal() {
            [by, bx]
        } else {
            formula::identity(bx, by, T::from(1 << log_tile.min(MOST_LOG)))
        }
    }

    /// Returns the block that computes `tile`: the inverse of [`ThreadblockSwizzle::tile_offset`].
    ///
    /// # Errors
    ///
    /// Returns an error for a tile that is not in the problem. It also returns the errors of
    /// [`ThreadblockSwizzle::grid_shape`].
    pub fn block_of(&self, tiled: GemmCoord, tile: GemmCoord) -> Result<Dim3, Error> {
        let (grid, log_tile) = (self.grid_shape(tiled)?, self.log_tile(tiled)?);
        if !tiled.contains(tile) {
            return Err(Error::outside("tile", tile.array(), tiled.array()));
        }
        if self.is_horizontal() {
            return Ok(Dim3::new(tile.n, tile.m, tile.k));
        }
        let [x, y] = formula::identity_block(tile.m, tile.n, 1 << log_tile);
        let block = Dim3::new(x, y, tile.k);
        debug_assert!(
            grid.contains(block),
            "invariant: every tile has a block of the grid"
        );
        Ok(block)
    }

    /// Returns whether blocks run along n first.
    pub fn is_horizontal(&self) -> bool {
        matches!(
            self,
            Swizzle::Horizontal | Swizzle::SplitKHorizontal | Swizzle::StridedDgradHorizontal
        )
    }
}

/// The most that a width of strips can be shifted by.
const MOST_LOG: u32 = 62;

/// The block, if none of its numbers is below 0.
fn below_nothing(block: Dim3) -> Result<Dim3, Error> {
    at_least("x of the block", block.x, 0)?;
    at_least("y of the block", block.y, 0)?;
    at_least("z of the block", block.z, 0)?;
    Ok(block)
}

/// Refuses a block whose column of tiles is beyond 64 bits.
fn fits(block: Dim3, width: i64) -> Result<(), Error> {
    let first = product("the column of the tile", &[block.y, width])?;
    first.checked_add(block.x % width).map(drop).ok_or_else(|| {
        ErrorKind::Overflow {
            what: "the column of the tile",
        }
        .into()
    })
}

/// The widest power of two up to `width` that leaves few enough blocks idle. Source: `get_log_tile`.
pub(crate) fn log_by_threshold(width: i64, n: i64) -> u32 {
    match (width, n) {
        (8.., 6..) => 3,
        (4.., 3..) => 2,
        (2.., 2..) => 1,
        _ => 0,
    }
}

/// The widest power of two up to `width`, and at most 8, that divides `n`.
fn log_by_division(width: i64, n: i64) -> u32 {
    (1..=3)
        .rev()
        .find(|log| width >= 1 << log && n % (1 << log) == 0)
        .unwrap_or(0)
}

/// Returns the tile by CUTLASS's *other* overload, `get_tile_offset(tiled_shape)`, which does not fit its own grid
/// (S77).
///
/// It folds by the template argument instead of by `log_tile`, so for `width` 2, 4 and 8 it disagrees with the
/// grid of [`ThreadblockSwizzle::grid_shape`] on 10, 46 and 94 of the 121 shapes of 1 to 11 by 1 to 11 tiles:
/// tiles are computed twice or not at all. It is here to show that; nothing uses it.
///
/// ```
/// use colex_sched::{Dim3, GemmCoord, ThreadblockSwizzle, tile_offset_disagreeing_with_grid};
/// let (tiles, block) = (GemmCoord::new(1, 2, 1), Dim3::new(1, 0, 0));
/// let right = ThreadblockSwizzle::Identity { width: 2 }.tile_offset(tiles, block)?;
/// assert_eq!(right, Some(GemmCoord::new(0, 1, 0)));
/// assert_eq!(tile_offset_disagreeing_with_grid(2, tiles, block)?, GemmCoord::new(1, 0, 0));
/// # Ok::<(), colex_sched::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error for a width below 1 or a block below 0, or if a count does not fit in 64 bits.
pub fn tile_offset_disagreeing_with_grid(
    width: i64,
    tiled: GemmCoord,
    block: Dim3,
) -> Result<GemmCoord, Error> {
    at_least("the width of the swizzle", width, 1)?;
    let block = below_nothing(block)?;
    if tiled.m < width || tiled.n < width {
        return Ok(GemmCoord::new(block.x, block.y, block.z));
    }
    fits(block, width)?;
    let [m, n] = formula::identity(block.x, block.y, width);
    Ok(GemmCoord::new(m, n, block.z))
}

impl fmt::Display for ThreadblockSwizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Swizzle::Identity { width } => write!(f, "GemmIdentity<{width}>"),
            Swizzle::IdentityNoPadding { width } => write!(f, "GemmIdentityNoPadding<{width}>"),
            Swizzle::Horizontal => f.write_str("GemmHorizontal"),
            Swizzle::Batched => f.write_str("GemmBatchedIdentity"),
            Swizzle::SplitKIdentity { width } => write!(f, "GemmSplitKIdentity<{width}>"),
            Swizzle::SplitKHorizontal => f.write_str("GemmSplitKHorizontal"),
            Swizzle::StridedDgradIdentity { width } => write!(f, "StridedDgradIdentity<{width}>"),
            Swizzle::StridedDgradHorizontal => f.write_str("StridedDgradHorizontal"),
            Swizzle::DepthwiseDirect2dConv {
                width,
                output: [n, p, q],
            } => {
                write!(f, "DepthwiseDirect2dConvIdentity<{width},{n},{p},{q}>")
            }
        }
    }
}

impl FromStr for ThreadblockSwizzle {
    type Err = Error;

    /// Reads what [`fmt::Display`] prints; the arguments have CUTLASS's defaults, all 1.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            ErrorKind::Parse {
                text: text.to_string(),
            }
            .into()
        };
        let (name, rest) = text.split_once('<').unwrap_or((text, ">"));
        let inside = rest.strip_suffix('>').ok_or_else(wrong)?;
        let given: Vec<i64> = match inside {
            "" => Vec::new(),
            _ => inside
                .split(',')
                .map(|x| x.trim().parse().map_err(|_| wrong()))
                .collect::<Result<_, _>>()?,
        };
        let width = given.first().copied().unwrap_or(1);
        let arg = |i: usize| given.get(i).copied().unwrap_or(1);
        let (most, swizzle) = match name {
            "GemmIdentity" => (1, Swizzle::Identity { width }),
            "GemmIdentityNoPadding" => (1, Swizzle::IdentityNoPadding { width }),
            "GemmHorizontal" => (0, Swizzle::Horizontal),
            "GemmBatchedIdentity" => (0, Swizzle::Batched),
            "GemmSplitKIdentity" => (1, Swizzle::SplitKIdentity { width }),
            "GemmSplitKHorizontal" => (0, Swizzle::SplitKHorizontal),
            "StridedDgradIdentity" => (1, Swizzle::StridedDgradIdentity { width }),
            "StridedDgradHorizontal" => (0, Swizzle::StridedDgradHorizontal),
            "DepthwiseDirect2dConvIdentity" => (
                4,
                Swizzle::DepthwiseDirect2dConv {
                    width,
                    output: [arg(1), arg(2), arg(3)],
                },
            ),
            _ => return Err(wrong()),
        };
        if given.len() > most {
            Err(wrong())
        } else {
            Ok(swizzle)
        }
    }
}
