//! Convolutions as implicit GEMMs: the problem a tile scheduler sees.

use crate::number::error::{Error, ErrorKind, at_least, ceil_div, product};
use crate::problem::coord::GemmCoord;

/// Which of the three products of a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvOperator {
    /// Forward: output from activations and filter.
    Fprop,
    /// Data gradient (and deconvolution): activations from output gradient and filter.
    Dgrad,
    /// Weight gradient: filter from output gradient and activations.
    Wgrad,
}

/// One spatial axis of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvAxis {
    /// Input positions (D, H or W).
    pub input: i64,
    /// Filter positions (T, R or S).
    pub filter: i64,
    /// Zeros added on each side.
    pub pad: i64,
    /// Input positions from one output to the next.
    pub stride: i64,
    /// Input positions from one filter tap to the next.
    pub dilation: i64,
}

impl ConvAxis {
    /// Returns an axis without padding, of stride and dilation 1.
    pub const fn new(input: i64, filter: i64) -> Self {
        ConvAxis {
            input,
            filter,
            pad: 0,
            stride: 1,
            dilation: 1,
        }
    }

    /// Returns the same axis with `pad` zeros on each side.
    pub const fn pad(self, pad: i64) -> Self {
        ConvAxis { pad, ..self }
    }

    /// Returns the same axis with another stride.
    pub const fn stride(self, stride: i64) -> Self {
        ConvAxis { stride, ..self }
    }

    /// Returns the same axis with another dilation.
    pub const fn dilation(self, dilation: i64) -> Self {
        ConvAxis { dilation, ..self }
    }

    /// Output positions: places where the dilated filter, `(filter - 1) * dilation + 1` long, fits.
    ///
    /// CUTLASS's constructors take `filter * dilation` as its length, which loses positions for dilation above 1
    /// (`conv2d_problem_size.h`); with dilation 1 the two agree.
    fn output(&self, axis: char) -> Result<i64, Error> {
        at_least("an input extent", self.input, 1)?;
        at_least("a filter extent", self.filter, 1)?;
        at_least("a padding", self.pad, 0)?;
        at_least("a stride", self.stride, 1)?;
        at_least("a dilation", self.dilation, 1)?;
        let overflow = ErrorKind::Overflow {
            what: "the span of the filter",
        };
        let span = (self.filter - 1)
            .checked_mul(self.dilation)
            .and_then(|x| x.checked_add(1));
        let padded = self
            .pad
            .checked_mul(2)
            .and_then(|x| x.checked_add(self.input));
        let (span, padded) = span.zip(padded).ok_or(overflow)?;
        if span > padded {
            return Err(ErrorKind::Filter { axis, span, padded }.into());
        }
        Ok((padded - span) / self.stride + 1)
    }
}

/// A convolution over two or three spatial axes. Source: `conv2d_problem_size.h`, `conv3d_problem_size.h`.
///
/// The letters of the formulas: activations `N D H W C`, filter `K T R S C`, output `N Z P Q K`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Images (N).
    pub batch: i64,
    /// Input channels (C).
    pub channels: i64,
    /// Output channels (K).
    pub filters: i64,
    /// Depth, height, width; depth is `ConvAxis::new(1, 1)` for two dimensions.
    pub axes: [ConvAxis; 3],
    /// Channel groups: each output channel sees `C / groups` inputs.
    pub groups: i64,
}

/// Returns a convolution over height and width.
#[doc(alias = "Conv2dProblemSize")]
pub const fn conv2d(
    batch: i64,
    channels: i64,
    filters: i64,
    height: ConvAxis,
    width: ConvAxis,
) -> Conv {
    Conv {
        batch,
        channels,
        filters,
        axes: [ConvAxis::new(1, 1), height, width],
        groups: 1,
    }
}

/// Returns a convolution over depth, height and width.
#[doc(alias = "Conv3dProblemSize")]
pub const fn conv3d(batch: i64, channels: i64, filters: i64, axes: [ConvAxis; 3]) -> Conv {
    Conv {
        batch,
        channels,
        filters,
        axes,
        groups: 1,
    }
}

impl Conv {
    /// Returns the same convolution in `groups` channel groups.
    pub const fn groups(self, groups: i64) -> Conv {
        Conv { groups, ..self }
    }

    /// Returns output positions along depth, height and width (Z, P, Q).
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below its least value, or if the filter does not fit.
    pub fn output(&self) -> Result<[i64; 3], Error> {
        let [d, h, w] = &self.axes;
        Ok([d.output('D')?, h.output('H')?, w.output('W')?])
    }

    /// Returns the GEMM whose tiles compute this convolution.
    ///
    /// | operator | M | N | K |
    /// |---|---|---|---|
    /// | fprop | N Z P Q | K | T R S C / groups |
    /// | dgrad | N D H W | C | T R S K / groups |
    /// | wgrad | K | T R S C / groups | N Z P Q |
    ///
    /// Source: `conv2d_problem_size.h`, `implicit_gemm_problem_size`, which divides by `groups` for fprop alone
    /// because it has no grouped gradients.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, for the reasons of [`Conv::output`], for groups that do not divide the
    /// channels, or if a count does not fit in 64 bits.
    ///
    /// ```
    /// use colex_sched::{ConvAxis, ConvOperator, GemmCoord, conv2d};
    /// let side = ConvAxis::new(56, 3).pad(1);
    /// let gemm = conv2d(8, 64, 128, side, side).implicit_gemm(ConvOperator::Fprop)?;
    /// assert_eq!(gemm, GemmCoord::new(8 * 56 * 56, 128, 3 * 3 * 64));
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    #[doc(alias = "implicit_gemm_problem_size")]
    pub fn implicit_gemm(&self, operator: ConvOperator) -> Result<GemmCoord, Error> {
        let [z, p, q] = self.output()?;
        self.check_channels()?;
        let [d, h, w] = self.axes.map(|axis| axis.input);
        let [t, r, s] = self.axes.map(|axis| axis.filter);
        let (c, k) = (self.channels / self.groups, self.filters / self.groups);
        let outputs = || product("the outputs of the convolution", &[self.batch, z, p, q]);
        let taps = |per_tap| product("the taps of the filter", &[t, r, s, per_tap]);
        Ok(match operator {
            ConvOperator::Fprop => GemmCoord::new(outputs()?, self.filters, taps(c)?),
            ConvOperator::Dgrad => {
                let inputs = product("the inputs of the convolution", &[self.batch, d, h, w])?;
                GemmCoord::new(inputs, self.channels, taps(k)?)
            }
            ConvOperator::Wgrad => GemmCoord::new(self.filters, taps(c)?, outputs()?),
        })
    }

    /// Returns main-loop iterations of one block: taps times channel slices, or slices of the outputs for wgrad.
    ///
    /// A slice of channels never crosses a tap, so this can exceed `ceil(K / tile_k)` of the implicit GEMM.
    /// Source: `implicit_gemm_k_iterations` (analytic and optimized iterators).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Conv::implicit_gemm`], and an error for more splits than channels (outputs, for wgrad)
    /// to split.
    #[doc(alias = "implicit_gemm_k_iterations")]
    pub fn k_iterations(
        &self,
        operator: ConvOperator,
        tile_k: i64,
        splits: i64,
    ) -> Result<i64, Error> {
        let gemm = self.implicit_gemm(operator)?;
        at_least("extent k of the tile", tile_k, 1)?;
        at_least("the number of splits", splits, 1)?;
        let taps: i64 = self.axes.iter().map(|axis| axis.filter).product();
        let (taps, long) = match operator {
            ConvOperator::Fprop => (taps, self.channels / self.groups),
            ConvOperator::Dgrad => (taps, self.filters / self.groups),
            ConvOperator::Wgrad => (1, gemm.k),
        };
        if splits > long {
            return Err(ErrorKind::Splits {
                splits,
                k_tiles: long,
            }
            .into());
        }
        product(
            "the iterations",
            &[taps, ceil_div(ceil_div(long, splits), tile_k)],
        )
    }

    /// Returns the rows of tiles of a strided data gradient: one share for each of the `stride_h * stride_w` starting filter taps.
    ///
    /// Source: `conv/threadblock/threadblock_swizzle.h`, `get_strided_dgrad_tile_m`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Conv::implicit_gemm`], and an error for three spatial axes.
    pub fn strided_dgrad_tiles_m(&self, tile_m: i64) -> Result<i64, Error> {
        self.implicit_gemm(ConvOperator::Dgrad)?;
        at_least("extent m of the tile", tile_m, 1)?;
        let [d, h, w] = &self.axes;
        if *d != ConvAxis::new(1, 1) {
            let sentence = "the strided dgrad swizzles map convolutions over two axes".to_string();
            return Err(Error::invalid(sentence));
        }
        let rows = product(
            "the rows of a filter tap",
            &[
                self.batch,
                ceil_div(h.input, h.stride),
                ceil_div(w.input, w.stride),
            ],
        )?;
        product(
            "the rows of tiles",
            &[ceil_div(rows, tile_m), h.stride, w.stride],
        )
    }

    /// Returns the iterations of a depthwise direct convolution whose block computes `on * op * oq` outputs at a time.
    ///
    /// Source: `conv2d_problem_size.h`, `depthwise_gemm_k_iterations` (which, like this, takes the batch whole).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Conv::output`], and an error for an output block or split count below 1.
    pub fn depthwise_iterations(&self, op: i64, oq: i64, splits: i64) -> Result<i64, Error> {
        let [_, p, q] = self.output()?;
        at_least("the number of images", self.batch, 1)?;
        at_least("extent p of the output block", op, 1)?;
        at_least("extent q of the output block", oq, 1)?;
        at_least("the number of splits", splits, 1)?;
        let all = product(
            "the output blocks",
            &[self.batch, ceil_div(p, op), ceil_div(q, oq)],
        )?;
        if splits > all {
            return Err(ErrorKind::Splits {
                splits,
                k_tiles: all,
            }
            .into());
        }
        Ok(ceil_div(all, splits))
    }

    fn check_channels(&self) -> Result<(), Error> {
        at_least("the number of images", self.batch, 1)?;
        at_least("the number of input channels", self.channels, 1)?;
        at_least("the number of output channels", self.filters, 1)?;
        at_least("the number of groups", self.groups, 1)?;
        for (axis, channels) in [('C', self.channels), ('K', self.filters)] {
            if channels % self.groups != 0 {
                return Err(ErrorKind::Groups {
                    axis,
                    channels,
                    groups: self.groups,
                }
                .into());
            }
        }
        Ok(())
    }
}
