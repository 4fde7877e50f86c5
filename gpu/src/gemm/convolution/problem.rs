//! `ConvolutionProblem`: the description of a convolution, and of the product that it is.

use core::fmt;

use super::refuse;
use crate::error::Error;
use crate::gemm::problem::{GemmProblem, check_extent};

/// A convolution of activations (N,H,W,C) with filters (K,R,S,C) into (N,P,Q,K).
///
/// It is the product of a matrix over the activations with the filters: its rows are the positions of the filter, `(Q,P,N)`, and its
/// columns what the filter sees there, `(C,S,R)`. Pixels in the padding are 0.
///
/// ```
/// use colex_gpu::gemm::ConvolutionProblem;
///
/// let problem = ConvolutionProblem::new(64, [56, 56], 128, 128, [3, 3]).stride([2, 2]).padding([1, 1]);
/// assert_eq!(
///     problem.to_string(),
///     "convolution of 64x56x56x128 with 128 filters of 3x3, stride 2x2, padding 1x1, into 64x28x28x128"
/// );
/// assert_eq!(problem.product()?.to_string().split(',').next(), Some("gemm 50176x128x1152"));
///
/// let error = problem.stride([2, 65]).check().unwrap_err();
/// assert_eq!(error.to_string(), "convolution: the stride along W is 65: it must be 1 to 64");
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionProblem {
    /// The number of images, N.
    pub images: i64,
    /// The pixels of an image along H and W.
    pub size: [i64; 2],
    /// The channels of a pixel, C.
    pub channels: i64,
    /// The number of filters, K: the channels of the output.
    pub filters: i64,
    /// The taps of a filter along H and W: R and S.
    pub taps: [i64; 2],
    /// The pixels from one position of the filter to the next, along H and W.
    pub stride: [i64; 2],
    /// The pixels of the padding before the first and behind the last pixel, along H and W.
    pub padding: [[i64; 2]; 2],
    /// The pixels from one tap of the filter to the next, along H and W.
    pub dilation: [i64; 2],
}

/// The most pixels along a dimension, also of the padding and of the positions.
pub(crate) const MOST_PIXELS: i64 = (1 << 24) - 1;

/// The most taps, the greatest stride and the greatest dilation along a dimension: coordinates have 31 bits.
pub(crate) const MOST_TAPS: i64 = 1 << 8;
pub(crate) const MOST_STRIDE: i64 = 1 << 6;
pub(crate) const MOST_DILATION: i64 = 1 << 16;

impl ConvolutionProblem {
    /// Returns the convolution of a number of images with pixels along H and W and channels, with a number of filters of taps along
    /// H and W: at every pixel, without padding.
    pub fn new(
        images: i64,
        size: [i64; 2],
        channels: i64,
        filters: i64,
        taps: [i64; 2],
    ) -> ConvolutionProblem {
        ConvolutionProblem {
            images,
            size,
            channels,
            filters,
            taps,
            stride: [1; 2],
            padding: [[0; 2]; 2],
            dilation: [1; 2],
        }
    }

    /// Returns the same with other pixels from one position of the filter to the next, along H and W.
    #[must_use]
    pub fn stride(self, stride: [i64; 2]) -> ConvolutionProblem {
        ConvolutionProblem { stride, ..self }
    }

    /// Returns the same with padding of as many pixels before the first and behind the last one, along H and W.
    #[must_use]
    pub fn padding(self, [h, w]: [i64; 2]) -> ConvolutionProblem {
        self.padding_of([[h, h], [w, w]])
    }

    /// Returns the same with padding before the first and behind the last pixel, along H and W.
    #[must_use]
    pub fn padding_of(self, padding: [[i64; 2]; 2]) -> ConvolutionProblem {
        ConvolutionProblem { padding, ..self }
    }

    /// Returns the same with other pixels from one tap of the filter to the next, along H and W.
    #[must_use]
    pub fn dilation(self, dilation: [i64; 2]) -> ConvolutionProblem {
        ConvolutionProblem { dilation, ..self }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// Returns an error if a number is out of its range, if the filter is longer than the padded image, or if the rows or the columns
    /// of the product are more than 2^31 - 2^17.
    pub fn check(&self) -> Result<(), Error> {
        self.positions().map(|_| ())
    }

    /// Returns the positions of the filter along H and W: P and Q, the extents of the output.
    ///
    /// ```
    /// use colex_gpu::gemm::ConvolutionProblem;
    ///
    /// let problem = ConvolutionProblem::new(1, [224, 224], 3, 64, [7, 7]).stride([2, 2]).padding([3, 3]);
    /// assert_eq!(problem.positions()?, [112, 112]);
    /// let error = problem.dilation([1, 39]).positions().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "convolution: the filter reaches over 235 pixels along W, and the padded image has 230"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](Self::check).
    pub fn positions(&self) -> Result<[i64; 2], Error> {
        check_extent("the number of images", self.images)?;
        check_extent("the number of channels", self.channels)?;
        check_extent("the number of filters", self.filters)?;
        let mut positions = [0; 2];
        for (d, along) in ["H", "W"].into_iter().enumerate() {
            let [before, behind] = self.padding[d];
            let numbers = [
                ("number of pixels", self.size[d], 1, MOST_PIXELS),
                ("number of taps", self.taps[d], 1, MOST_TAPS),
                ("stride", self.stride[d], 1, MOST_STRIDE),
                ("padding before the first pixel", before, 0, MOST_PIXELS),
                ("padding behind the last pixel", behind, 0, MOST_PIXELS),
                ("dilation", self.dilation[d], 1, MOST_DILATION),
            ];
            for (what, found, least, most) in numbers {
                if !(least..=most).contains(&found) {
                    return refuse(format!(
                        "the {what} along {along} is {found}: it must be {least} to {most}"
                    ));
                }
            }
            let padded = self.size[d] + before + behind;
            let reach = (self.taps[d] - 1) * self.dilation[d] + 1;
            if reach > padded {
                return refuse(format!(
                    "the filter reaches over {reach} pixels along {along}, and the padded image has {padded}"
                ));
            }
            positions[d] = (padded - reach) / self.stride[d] + 1;
            if positions[d] > MOST_PIXELS {
                return refuse(format!(
                    "the filter has {} positions along {along}: at most {MOST_PIXELS} are counted",
                    positions[d]
                ));
            }
        }
        let [p, q] = positions;
        check_extent(
            "the number of positions in all images",
            (p * q).saturating_mul(self.images),
        )?;
        check_extent("the number of numbers that a filter has", self.seen())?;
        Ok(positions)
    }

    /// The numbers of a filter.
    fn seen(&self) -> i64 {
        let [r, s] = self.taps;
        (r * s).saturating_mul(self.channels)
    }

    /// Returns the product that the convolution is: M positions, N filters, and K numbers of a filter.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`check`](Self::check).
    pub fn product(&self) -> Result<GemmProblem, Error> {
        let [p, q] = self.positions()?;
        let (m, k) = (p * q * self.images, self.seen());
        Ok(GemmProblem::new(m, self.filters, k))
    }
}

impl fmt::Display for ConvolutionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([h, w], [r, s]) = (self.size, self.taps);
        let (images, channels, filters) = (self.images, self.channels, self.filters);
        write!(
            f,
            "convolution of {images}x{h}x{w}x{channels} with {filters} filters of {r}x{s}"
        )?;
        let by = |[h, w]: [i64; 2]| format!("{h}x{w}");
        if self.stride != [1, 1] {
            write!(f, ", stride {}", by(self.stride))?;
        }
        match self.padding {
            [[0, 0], [0, 0]] => {}
            [[h, below], [w, right]] if h == below && w == right => {
                write!(f, ", padding {}", by([h, w]))?;
            }
            [[above, below], [left, right]] => {
                write!(f, ", padding {above}+{below}x{left}+{right}")?;
            }
        }
        if self.dilation != [1, 1] {
            write!(f, ", dilation {}", by(self.dilation))?;
        }
        match self.positions() {
            Ok([p, q]) => write!(f, ", into {images}x{p}x{q}x{filters}"),
            Err(error) => write!(f, ": {error}"),
        }
    }
}
