//! Orders that are layouts: where the grid divides, the map from place to tile is a shape and strides.

use crate::number::error::{Error, ErrorKind, product};
use crate::order::persistent::{Persistent, RasterOrder};
use crate::order::swizzle::ThreadblockSwizzle;
use crate::problem::coord::GemmCoord;
use colex_layout::{IntoIntTuple, IntoStride, Layout};

impl ThreadblockSwizzle {
    /// Returns the launch order as a layout: place of the block (x fastest) to index of the tile (m fastest, then n,
    /// then k).
    ///
    /// # Errors
    ///
    /// Returns an error if the strip does not divide the columns, so that the grid has blocks without a tile. It also
    /// returns the errors of [`ThreadblockSwizzle::grid_shape`].
    ///
    /// ```
    /// use colex_sched::{GemmCoord, ThreadblockSwizzle};
    /// let layout = ThreadblockSwizzle::Identity { width: 2 }.layout(GemmCoord::new(4, 4, 1))?;
    /// assert_eq!(layout.to_string(), "((2,4),2,1):((4,1),8,16)");
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn layout(&self, tiled: GemmCoord) -> Result<Layout, Error> {
        self.grid_shape(tiled)?;
        let GemmCoord { m, n, k } = tiled;
        let plane = product("the number of tiles", &[m, n])?;
        if self.is_horizontal() {
            return built((n, m, k), (m, 1, plane));
        }
        let strip = 1i64 << self.log_tile(tiled)?;
        if n % strip != 0 {
            return Err(ErrorKind::NotALayout {
                schedule: self.to_string(),
                extent: n,
                divisor: strip,
            }
            .into());
        }
        let (strips, step) = (n / strip, product("a strip of tiles", &[m, strip])?);
        built(((strip, m), strips, k), ((m, 1), step, plane))
    }
}

impl Persistent {
    /// Returns the linear order as a layout: place to index of the tile (m fastest, then n, then the batch).
    ///
    /// Its modes are: minor and major place in the cluster, cluster in the strip, clusters along the strip, strips,
    /// batches.
    ///
    /// # Errors
    ///
    /// Returns an error if the order has places without a tile.
    ///
    /// ```
    /// use colex_sched::{GemmCoord, Persistent, RasterChoice};
    /// let s = Persistent::new(GemmCoord::new(4, 4, 1), [1, 1], 2, RasterChoice::AlongN)?;
    /// assert_eq!(s.layout()?.to_string(), "((1,1),2,4,2,1):((1,4),1,4,2,16)");
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn layout(&self) -> Result<Layout, Error> {
        let (tiles, [bm, bn], [cm, cn]) = (self.tiles(), self.blocks(), self.cluster());
        for (extent, padded, cluster) in [(tiles.m, bm, cm), (tiles.n, bn, cn)] {
            if extent != padded {
                let divisor = cluster << self.log_swizzle();
                return Err(ErrorKind::NotALayout {
                    schedule: self.to_string(),
                    extent,
                    divisor,
                }
                .into());
            }
        }
        let strip = 1i64 << self.log_swizzle();
        // Extent, cluster extent and tile stride of the minor and of the major axis.
        let [(minor, in_minor, at_minor), (major, in_major, at_major)] = match self.order() {
            RasterOrder::AlongN => [(bm, cm, 1), (bn, cn, bm)],
            RasterOrder::AlongM => [(bn, cn, bm), (bm, cm, 1)],
        };
        let strips = minor / (in_minor * strip);
        let shape = (
            (in_minor, in_major),
            strip,
            major / in_major,
            strips,
            tiles.k,
        );
        let stride = (
            (at_minor, at_major),
            in_minor * at_minor,
            in_major * at_major,
            in_minor * strip * at_minor,
            bm * bn,
        );
        built(shape, stride)
    }
}

/// The layout of a shape and strides.
fn built(shape: impl IntoIntTuple, stride: impl IntoStride) -> Result<Layout, Error> {
    Layout::new(shape, stride).map_err(Error::invalid)
}
