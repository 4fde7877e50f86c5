//! Convolutions as calls: the views are checked, and the product that they are is prepared and launched.

use colex_device::{View, ViewMut};
use colex_layout::Layout;

use super::form::{Im2col, Mapped, takes};
use super::problem::ConvolutionProblem;
use super::refuse;
use crate::error::Error;
use crate::gemm::call::{Gemm, GemmCall};
use crate::gemm::problem::GemmElement;
use crate::method::GemmMethod;
use crate::recent::{self, CallKind, GivenCall};

/// Computes the convolution of activations (N,H,W,C) with filters (K,R,S,C) into `y` (N,P,Q,K), at every pixel, without padding.
/// [`Convolution`] has strides, padding, dilation and what becomes of the sums.
///
/// ```
/// use colex_gpu::{Device, convolution};
///
/// let device = Device::open();
/// let (x, ones) = (device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0])?, device.upload(&[1f32; 3])?);
/// let mut y = device.poisoned::<f32>(3)?;
/// convolution(&x.view((1, 1, 5, 1))?, &ones.view((1, 1, 3, 1))?, &y.view_mut((1, 1, 3, 1))?)?;
/// assert_eq!(y.download()?, [6.0, 9.0, 12.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the views are not those of one convolution, and the errors of [`gemm`](crate::gemm()) of the product that it
/// is, whose A are the activations, B the filters and C the output.
pub fn convolution<T: GemmElement, C: GemmElement>(
    x: &View<'_, T>,
    filters: &View<'_, T>,
    y: &ViewMut<'_, C>,
) -> Result<(), Error> {
    Convolution::new(x, filters, y).run()
}

/// A convolution of views that is being described: activations (N,H,W,C), filters (K,R,S,C), and the output (N,P,Q,K), of any strides.
///
/// It is a product, and [`product`](Convolution::product) returns it: convolutions have what [`Gemm`] has, epilogues, factors and methods
/// among it, but neither groups, nor `f32` by three products of tf32, nor autotuning. Filters of one tap at every pixel are a plain product of
/// pixels. Otherwise, on Hopper, im2col tensor maps load 16-bit activations and filters, and no matrix is written, if their channels are
/// contiguous, addresses and strides are multiples of 16 bytes, one stride leads from each tap to the next, and along H and W the filter
/// stands at most 8 pixels apart, the padding before the first pixel is at most 128, and the last tap is at most 255 pixels behind the first
/// one: at most 128 more than the padding behind the last pixel, and at most 127 less. Others are written out as a matrix first.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::gemm::{Convolution, Epilogue};
/// use colex_gpu::{Device, View};
///
/// let device = Device::open();
/// let x = device.upload(&[1f32, 2.0, 3.0, 4.0])?; // one image of 1 by 4 pixels
/// let filters = device.upload(&[1f32, 1.0, 1.0, -1.0, 0.0, 1.0])?; // a sum, and a difference
/// let bias = device.upload(&[-6f32, 0.0])?;
/// let mut y = device.poisoned::<f32>(8)?;
/// let bias_and_relu = Epilogue::new(Ty::F32, |e| (e.accumulator() + e.tensor("bias", Ty::F32)).relu())?;
/// Convolution::new(&x.view((1, 1, 4, 1))?, &filters.view((2, 1, 3, 1))?, &y.view_mut((1, 1, 4, 2))?)
///     .padding([0, 1])
///     .product()?
///     .epilogue(&bias_and_relu)
///     .tensor("bias", &View::new(&bias, "(4,2):(0,1)")?) // (M,N): positions and filters
///     .run()?;
/// assert_eq!(y.download()?, [0.0, 2.0, 0.0, 2.0, 3.0, 2.0, 1.0, 0.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Convolution<'a, T, C> {
    x: View<'a, T>,
    filters: View<'a, T>,
    y: View<'a, C>,
    stride: [i64; 2],
    padding: [[i64; 2]; 2],
    dilation: [i64; 2],
}

/// The convolution that a product is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenConvolution {
    pub(crate) problem: ConvolutionProblem,
    /// The strides of the activations along N, H, W and C.
    pub(crate) strides: [i64; 4],
    /// How a kernel is given it by an im2col tensor map.
    mapped: Option<Mapped>,
}

impl GivenConvolution {
    /// How the kernel is given the convolution if it loads by an im2col tensor map: `method` is the one that the call asks for.
    pub(crate) fn mapped(&self, method: Option<GemmMethod>) -> Option<&Mapped> {
        let is_hopper = method.is_none_or(|method| method == GemmMethod::Hopper);
        self.mapped.as_ref().filter(|_| is_hopper)
    }

    /// The same, as far as plans and launches depend on it.
    pub(crate) fn im2col(&self, method: Option<GemmMethod>) -> Option<Im2col> {
        self.mapped(method).map(|mapped| mapped.im2col)
    }
}

/// The extents and strides of a view with four modes, each of one stride. An extent of 0 has no strides.
fn modes<T>(name: &str, form: &str, view: &View<'_, T>) -> Result<([i64; 4], [i64; 4]), Error>
where
    T: GemmElement,
{
    let shape = view.shape();
    let wrong = || {
        refuse(format!(
            "{name} has the shape {shape}: it must have four modes, {form}"
        ))
    };
    if shape.is_leaf() || shape.rank() != 4 {
        return wrong();
    }
    let size = |mode: colex_layout::IntTuple| -> i64 {
        let leaves = mode.leaves().iter();
        leaves.fold(1, |size, extent| i64::saturating_mul(size, extent.value()))
    };
    let extents: Vec<i64> = shape.modes().map(size).collect();
    let [a, b, c, d] = extents[..] else {
        return wrong();
    };
    let Some(layout) = view.layout() else {
        return Ok(([a, b, c, d], [0; 4]));
    };
    let mut strides = [0; 4];
    for (i, stride) in strides.iter_mut().enumerate() {
        let found = layout
            .mode(i)
            .and_then(|mode| match mode.coalesce(..).leaves() {
                [one] => Some(one.stride.as_int()?.value()),
                _ => None,
            });
        let Some(found) = found else {
            return refuse(format!(
                "mode {i} of {name}, {layout}, has several strides: each mode of {form} must have one"
            ));
        };
        *stride = found;
    }
    Ok(([a, b, c, d], strides))
}

/// The view as a matrix whose first mode consists of these modes, the fastest first, and whose second of those.
fn matrix<'a, T: GemmElement>(
    view: &View<'a, T>,
    (extents, strides): ([i64; 4], [i64; 4]),
    [rows, columns]: [&[usize]; 2],
) -> Result<View<'a, T>, Error> {
    let error = |e: colex_layout::Error| Error::from(colex_tensor::Error::from(e));
    let mode = |of: &[usize]| -> Result<Layout, Error> {
        let extents: Vec<i64> = of.iter().map(|i| extents[*i]).collect();
        let strides: Vec<i64> = of.iter().map(|i| strides[*i]).collect();
        Ok(Layout::new(extents, strides).map_err(error)?.coalesce(..))
    };
    if view.layout().is_none() {
        // No layout has an extent of 0.
        let size = |of: &[usize]| -> i64 {
            let extents = of.iter().map(|i| extents[*i]);
            extents.fold(1, i64::saturating_mul)
        };
        return Ok(view.without_elements((size(rows), size(columns)))?);
    }
    let layout = Layout::concat([&mode(rows)?, &mode(columns)?]).map_err(error)?;
    Ok(view.with_layout(layout)?)
}

impl<'a, T: GemmElement, C: GemmElement> Convolution<'a, T, C> {
    /// Builds the convolution of activations (N,H,W,C) with filters (K,R,S,C) into `y` (N,P,Q,K), at every pixel, without padding.
    pub fn new(x: &View<'a, T>, filters: &View<'a, T>, y: &ViewMut<'a, C>) -> Self {
        Convolution {
            x: x.clone(),
            filters: filters.clone(),
            y: (**y).clone(),
            stride: [1; 2],
            padding: [[0; 2]; 2],
            dilation: [1; 2],
        }
    }

    /// Sets the pixels from one position of the filter to the next, along H and W.
    pub fn stride(self, stride: [i64; 2]) -> Self {
        Convolution { stride, ..self }
    }

    /// Sets padding of as many pixels before the first and behind the last one, along H and W.
    pub fn padding(self, [h, w]: [i64; 2]) -> Self {
        self.padding_of([[h, h], [w, w]])
    }

    /// Sets the padding before the first and behind the last pixel, along H and W.
    pub fn padding_of(self, padding: [[i64; 2]; 2]) -> Self {
        Convolution { padding, ..self }
    }

    /// Sets the pixels from one tap of the filter to the next, along H and W.
    pub fn dilation(self, dilation: [i64; 2]) -> Self {
        Convolution { dilation, ..self }
    }

    /// Returns the problem of the views.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::gemm::Convolution;
    ///
    /// let device = Device::open();
    /// let (x, filters) = (device.upload(&[1f32; 64])?, device.upload(&[1f32; 72])?);
    /// let mut y = device.poisoned::<f32>(64)?;
    /// let (x, filters) = (x.view((1, 4, 4, 4))?, filters.view((2, 3, 3, 4))?);
    /// let error = Convolution::new(&x, &filters, &y.view_mut((1, 4, 4, 2))?).problem().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "convolution: the output has the shape (1,4,4,2), and the filter has 2x2 positions in each of 1 images, and 2 filters: \
    ///      it must be (1,2,2,2)"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a view has not four modes of one stride each, if the shapes do not match, and the errors of
    /// [`ConvolutionProblem::check`].
    pub fn problem(&self) -> Result<ConvolutionProblem, Error> {
        let ([images, h, w, channels], _) =
            modes("the tensor of activations", "(N,H,W,C)", &self.x)?;
        let ([filters, r, s, seen], _) =
            modes("the tensor of filters", "(K,R,S,C)", &self.filters)?;
        let (found, _) = modes("the output", "(N,P,Q,K)", &self.y)?;
        if channels != seen {
            return refuse(format!(
                "the activations have {channels} channels, and the filters {seen}"
            ));
        }
        let problem = ConvolutionProblem {
            images,
            size: [h, w],
            channels,
            filters,
            taps: [r, s],
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
        };
        let [p, q] = problem.positions()?;
        if found != [images, p, q, filters] {
            return refuse(format!(
                "the output has the shape {}, and the filter has {p}x{q} positions in each of {images} images, and {filters} \
                 filters: it must be ({images},{p},{q},{filters})",
                self.y.shape()
            ));
        }
        Ok(problem)
    }

    /// Returns the product that the convolution is, for what [`Gemm`] has: an epilogue, factors, a kernel. C of the
    /// product is (M,N), of M positions `(Q,P,N)` and N filters: so are the tensors of an epilogue.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`problem`](Convolution::problem).
    pub fn product(&self) -> Result<Gemm<'a, T, C>, Error> {
        let problem = self.problem()?;
        let of_x = modes("the tensor of activations", "(N,H,W,C)", &self.x)?;
        let of_filters = modes("the tensor of filters", "(K,R,S,C)", &self.filters)?;
        let of_y = modes("the output", "(N,P,Q,K)", &self.y)?;
        // The fastest first: (Q,P,N) of positions, (C,S,R) of what a filter sees.
        let y = matrix(&self.y, of_y, [&[2, 1, 0], &[3]])?;
        let filters = matrix(&self.filters, of_filters, [&[0], &[3, 2, 1]])?;
        let is_of_pixels = problem.taps == [1, 1]
            && problem.stride == [1, 1]
            && problem.padding == [[0, 0], [0, 0]];
        if is_of_pixels {
            let x = matrix(&self.x, of_x, [&[2, 1, 0], &[3]])?;
            let is_one = |layout: &Layout| layout.mode(0).is_some_and(|mode| mode.is_leaf());
            if x.layout().is_none_or(is_one) {
                return Ok(Gemm::of([x, filters], y));
            }
        }
        let device = self.x.device();
        let hopper = GemmMethod::Hopper.family();
        let is_loaded = hopper.runs_on(device.arch())
            && takes(T::TY)
            && !self.x.is_empty()
            && !self.filters.is_empty();
        let mapped = is_loaded.then(|| {
            let (x, filters) = ((&self.x, of_x.1), (&self.filters, of_filters.1));
            Mapped::new(&problem, x, filters)
        });
        let convolution = GivenConvolution {
            problem,
            strides: of_x.1,
            mapped: mapped.flatten(),
        };
        Ok(Gemm::of([self.x.clone(), filters], y).convolution(convolution))
    }

    /// Enqueues the convolution on the stream of the device that holds the activations.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`convolution`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x.device();
        let others = [self.filters.device(), self.y.device()];
        if !others.iter().all(|other| device.is_same_device(other)) {
            return self.product()?.run();
        }
        let keys = [self.x.key(), self.filters.key(), self.y.key()];
        let [above, beside] = self.padding;
        let numbers = [self.stride, above, beside, self.dilation];
        let given = GivenCall {
            kind: CallKind::Convolution,
            views: keys.map(Some).into_iter().collect(),
            types: [T::TY, C::TY],
            numbers: numbers.iter().flatten().map(|n| *n as u64).collect(),
        };
        recent::run(device, &given, || self.product()?.run_first())
    }

    /// Builds and loads every kernel that this convolution takes by default with any number of images, so that a new number assembles none
    /// in the middle of a request: those of [`Gemm::load_plans`] for the product that it is. Returns the number of kernels.
    ///
    /// The kernel that writes out a matrix first, such as that of a convolution of three channels, is loaded too, and not counted. Such a
    /// call needs memory for the matrix, so that it is prepared before a stream capture. The other calls have the filters, the images of
    /// the same size, and addresses of the same alignment. Their images follow each other in memory as those of this call do.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::gemm::Convolution;
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, filters) = (device.zeros::<bf16>(256)?, device.zeros::<bf16>(1152)?);
    /// let mut y = device.poisoned::<bf16>(128)?;
    /// let (x, filters) = (x.view((1, 4, 4, 16))?, filters.view((8, 3, 3, 16))?);
    /// let call = Convolution::new(&x, &filters, &y.view_mut((1, 4, 4, 8))?).padding([1, 1]);
    /// // Of Ampere's kernel, one for any number of positions.
    /// assert_eq!(call.load_plans()?, 1);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`problem`](Convolution::problem) and of [`Gemm::load_plans`].
    pub fn load_plans(&self) -> Result<usize, Error> {
        self.product()?.load_plans()
    }

    /// Prepares the convolution, to be launched any number of times, also inside a stream capture.
    ///
    /// ```
    /// use colex_gpu::gemm::Convolution;
    /// use colex_gpu::Device;
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let (x, filters) = (device.upload(&[bf16::ONE; 256])?, device.upload(&[bf16::ONE; 1152])?);
    /// let mut y = device.poisoned::<bf16>(128)?;
    /// let (x, filters) = (x.view((1, 4, 4, 16))?, filters.view((8, 3, 3, 16))?);
    /// let call = Convolution::new(&x, &filters, &y.view_mut((1, 4, 4, 8))?).padding([1, 1]).prepare()?;
    /// assert!(call.to_string().starts_with("Hopper bf16 to bf16, tile "));
    /// call.run(&device)?;
    /// assert_eq!(y.download()?[0].to_f32(), 64.0); // four pixels of 16 channels
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`convolution`].
    pub fn prepare(&self) -> Result<GemmCall<'a>, Error> {
        self.product()?.prepare()
    }
}
