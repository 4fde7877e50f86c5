//! Convolutions by im2col tensor maps: what a kernel is built from, and what its launch is given.

use colex_atom::{Taps, Ty};
use colex_device::{Element, View};
use colex_layout::{Int, Layout};
use colex_tensor::Index;

use super::problem::ConvolutionProblem;
use super::refuse;
use crate::error::Error;
use crate::gemm::batch::Apart;
use crate::gemm::factors::matrix::Matrix;
use crate::gemm::plan::GemmPlan;
use crate::kernels::Major;
use crate::method::GemmMethod;

/// The taps of a filter along W and H: the facts about a convolution that a kernel is built from.
///
/// A step along K is some channels under one tap. All taps of the same channels follow each other, so that what lies in the
/// L2 cache is read again soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    taps: [i64; 2],
}

/// What a step along K loads.
pub(crate) struct FilterStep {
    /// The tile of channels.
    pub(crate) channels: Index,
    /// The tap along W and H.
    pub(crate) taps: [Index; 2],
    /// The number of the tap.
    pub(crate) tap: Index,
}

impl Filter {
    /// The taps along W and H.
    pub(crate) fn taps(self) -> [i64; 2] {
        self.taps
    }

    /// The number of taps.
    pub(crate) fn count(self) -> i64 {
        self.taps[0] * self.taps[1]
    }

    /// What a step along K loads.
    pub(crate) fn at(self, step: &Index) -> FilterStep {
        let (channels, tap) = (step / self.count(), step % self.count());
        FilterStep {
            channels,
            taps: [&tap % self.taps[0], &tap / self.taps[0]],
            tap,
        }
    }
}

/// A convolution whose activations a tensor map describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Im2col {
    pub(crate) problem: ConvolutionProblem,
    /// The strides of the activations along C, W, H and N.
    strides: [i64; 4],
    /// The elements from one tap of a filter to the next.
    tap: i64,
}

/// What the kernel of a convolution is given, where a tensor map describes both the activations and the filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped {
    pub(crate) im2col: Im2col,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
}

/// The most steps along K, by the fewest channels of a step.
const MOST_STEPS: i64 = 1 << 20;

/// The channels that the shortest step along K has.
pub(crate) const LEAST_CHANNELS: i64 = 16;

/// The coordinates of a tensor map in im2col mode of two spatial dimensions (`PixelBox`): corners, offsets and strides.
const CORNERS: core::ops::Range<i64> = -128..128;
const MOST_OFFSET: i64 = 255;
const MOST_MAPPED_STRIDE: i64 = 8;

impl Mapped {
    /// Returns how a kernel is given activations (N,H,W,C) and filters (K,R,S,C) of these strides; `None` where TMA takes no such
    /// strides, channels or filter.
    pub(crate) fn new<T: Element>(
        problem: &ConvolutionProblem,
        (x, of_x): (&View<'_, T>, [i64; 4]),
        (filters, of_filters): (&View<'_, T>, [i64; 4]),
    ) -> Option<Mapped> {
        let bytes = T::BYTES as i64;
        if bytes != 2 {
            return None;
        }
        let ([h, w], [r, s]) = (problem.size, problem.taps);
        for d in 0..2 {
            let [before, behind] = problem.padding[d];
            let reach = (problem.taps[d] - 1) * problem.dilation[d];
            let fits = CORNERS.contains(&-before)
                && CORNERS.contains(&(behind - reach))
                && reach <= MOST_OFFSET
                && problem.stride[d] <= MOST_MAPPED_STRIDE;
            if !fits {
                return None;
            }
        }
        let blocks = problem.channels / LEAST_CHANNELS + 1;
        if r * s * blocks > MOST_STEPS {
            return None;
        }
        let vector = 16 / bytes;
        // The stride of a mode of extent 1 moves nothing, and any multiple of a vector stands for it.
        let stride = |extent: i64, stride: i64| match extent {
            1 => Some(vector),
            _ => (stride > 0 && stride % vector == 0 && stride < 1 << 36).then_some(stride),
        };
        let [sn, sh, sw, sc] = of_x;
        let [sk, sr, ss, sc_of_filters] = of_filters;
        let is_contiguous = problem.channels == 1 || [sc, sc_of_filters] == [1, 1];
        // One stride leads from each tap to the next.
        let tap = match (r, s) {
            (1, 1) => 0,
            (_, 1) => sr,
            (1, _) => ss,
            _ if sr == ss.checked_mul(s)? => ss,
            _ => return None,
        };
        let strides = [
            1,
            stride(w, sw)?,
            stride(h, sh)?,
            stride(problem.images, sn)?,
        ];
        let tap = stride(r * s, tap)?;
        let rows = stride(problem.filters, sk)?;
        let addresses = [x.bytes().0, filters.bytes().0];
        let are_aligned = addresses.iter().all(|address| address % 16 == 0);
        if !is_contiguous
            || !are_aligned
            || rows > i64::from(i32::MAX)
            || strides[1] > i64::from(i32::MAX)
        {
            return None;
        }
        let matrix = |address, leading, steps: [i64; 2]| {
            let mut all = Apart::default();
            all[..2].copy_from_slice(&steps);
            Matrix {
                address,
                major: Major::Second,
                leading,
                steps: all,
            }
        };
        Some(Mapped {
            im2col: Im2col {
                problem: *problem,
                strides,
                tap,
            },
            a: matrix(addresses[0], strides[1], [strides[2], strides[3]]),
            b: matrix(addresses[1], rows, [tap, 0]),
        })
    }
}

impl Im2col {
    /// The facts that a kernel is built from.
    pub(crate) fn filter(&self) -> Filter {
        let [r, s] = self.problem.taps;
        Filter { taps: [s, r] }
    }

    /// The filter along W and H, as a tensor map has it.
    pub(crate) fn taps(&self) -> [Taps; 2] {
        [1, 0].map(|d| Taps {
            count: self.problem.taps[d],
            stride: self.problem.stride[d],
            // One tap has no next one.
            dilation: match self.problem.taps[d] {
                1 => 1,
                _ => self.problem.dilation[d],
            },
            padding: self.problem.padding[d],
        })
    }

    /// The activations, (C,W,H,N).
    pub(crate) fn activations(&self) -> Layout {
        let [h, w] = self.problem.size;
        let extents = [self.problem.channels, w, h, self.problem.images];
        let layout = Layout::new(extents.to_vec(), self.strides.to_vec());
        layout.expect("a convolution with elements has positive extents")
    }

    /// The filters, (K,C,(S,R)), with a stride from one to the next.
    pub(crate) fn filters(&self, like: &Layout, leading: i64) -> Layout {
        let [r, s] = self.problem.taps;
        let extents = [self.problem.filters, self.problem.channels, r * s];
        let values: Vec<i64> = extents.into_iter().chain([leading, self.tap]).collect();
        let bound = like.with_dynamic_values(&values);
        bound.expect("extents and strides but that of the channels are dynamic")
    }

    /// The numbers along K that the steps of a plan load, zeros among them.
    pub(crate) fn loaded(&self, step: i64) -> i64 {
        let channels = (self.problem.channels + step - 1) / step * step;
        self.filter().count() * channels
    }
}

/// The layout of filters (K,C,(S,R)) that a kernel is built for. Extents and strides are arguments of the launch.
pub(crate) fn filters_like() -> Layout {
    let (dynamic, one) = (Int::Dynamic, Int::Static(1));
    let layout = Layout::new(
        (dynamic(4096), dynamic(4096), dynamic(16)),
        (dynamic(1 << 16), one, dynamic(4096)),
    );
    layout.expect("positive extents make a layout")
}

/// Whether a kernel that loads by im2col tensor maps multiplies elements of a type with a plan.
///
/// # Errors
///
/// Returns an error that says what it does not take.
pub(crate) fn check(plan: &GemmPlan) -> Result<(), Error> {
    if plan.method != GemmMethod::Hopper {
        return refuse(format!(
            "the plan is one of the {} kernel: the Hopper kernel loads by im2col tensor maps; `.method({:?})` writes the matrix out",
            plan.method, plan.method
        ));
    }
    if plan.swap {
        return refuse("the plan swaps A and B: the activations are A");
    }
    if plan.gather {
        return refuse("the plan loads by threads: activations are loaded by im2col tensor maps");
    }
    Ok(())
}

/// Whether a type is one whose activations tensor maps load for `wgmma`.
pub(crate) fn takes(ty: Ty) -> bool {
    matches!(ty, Ty::F16 | Ty::Bf16)
}
