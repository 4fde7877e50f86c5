//! Matrix products as calls: checked, planned, built once for each plan, launched.

use core::fmt;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use colex_atom::{Arch, Major, Ty};
use colex_layout::Layout;
use colex_tiled::Operand;

use super::batch::{Apart, Batch, BatchForm, alignment, common};
use super::choose::{
    Machine, Packing, SOME_ROWS, Unmapped, choosable, choose, choose_invariant, choose_whole,
    of_any_number, packing, takes_hopper, tuned,
};
use super::chunks::call::GivenChunks;
use super::chunks::departures::{self, GivenDepartures};
use super::chunks::{self};
use super::convolution::call::GivenConvolution;
use super::convolution::columns::{Columns, ColumnsCall};
use super::convolution::{self as convolutions};
use super::epilogue::arguments::{Bound, EpilogueArguments, Given, Product};
use super::epilogue::awaited;
use super::epilogue::convert::{outputs, scale_type, sum_type};
use super::epilogue::expression::{Epilogue, EpilogueReduction, EpilogueReductionKind};
use super::epilogue::reduction::{ReductionShape, Reductions, reduction};
use super::epilogue::split_sum;
use super::epilogue::terms::KernelEpilogue;
use super::epilogue::vectors::{WithVectors, stored_for_vectors};
use super::factors::high_low::{self, HighLow, HighLowCall, Side};
use super::factors::matrix::{self, Matrix, Place};
use super::groups::call::GivenGroups;
use super::groups::call::GroupNumber;
use super::groups::lists::{self, GivenLists};
use super::groups::tiles;
use super::groups::{self, Groups};
use super::plan::{Division, GemmPlan, Operands, vector};
use super::prepared::{BuiltProduct, GemmKernel, GemmShape, PreparedGemms, Role, Wish};
use super::problem::{EpilogueWork, MOST, check_extent, holds_f32};
use super::sm90::{WARPGROUP_THREADS, beside_operands, counted_along_k, numbers_of_parts};
use crate::autotune::Autotune;
use crate::calls::{
    self, AddressOf, Addresses, Call, KernelOf, NO_ADDRESS, PreparedLaunch, Shape, same_device,
};
use crate::copy::call::CopyCall;
use crate::error::{Error, ErrorKind, disjoint};
use crate::kernels::{Compute, GemmElement, GemmProblem};
use crate::method::GemmMethod;
use crate::recent::{self, CallKind, GivenCall, Launches};
use crate::scratch::{self, WordKind, Workspace};
use colex_device::{
    BareLaunch, Buffer, Device, DeviceSlice, Element, Function, Memo, View, ViewMut,
};
use colex_ir::launch::{Argument, Launch};
use colex_ir::{BinaryOp, Type};
use colex_sim::Report;
use colex_tensor::{Arg, TensorKernel};

/// Computes `C = A B^T` for A (M,K), B (N,K) and C (M,N), the shapes of CuTe's GEMM, by the fastest kernel that types,
/// layouts, addresses and device allow. [`Gemm`] has factors, the type of the sums and the choice of a kernel.
///
/// The layouts may have any integer strides. If no kernel takes the strides of a matrix, the call packs the matrix into
/// compact memory first; the `Display` output of [`GemmCall`] says so. The product of a row-major A (M,K) and a
/// row-major B (K,N), as torch writes it, sees B as `b.view_t((n, k))`. Extents may be 0: if M or N is 0, nothing is
/// done; if K is 0, the product is 0.
///
/// The device caches what it prepares for a call. A second call with the same layouts and addresses makes one launch. A
/// call with other addresses encodes its tensor maps anew. A call with another shape that takes the same kernel makes
/// new arguments. No kernel is built, verified or printed twice.
///
/// ```
/// use colex_gpu::{Device, gemm};
/// use half::f16;
///
/// let device = Device::open();
/// let (a, b) = (device.upload(&[f16::ONE; 16 * 24])?, device.upload(&[f16::ONE; 8 * 24])?);
/// let mut c = device.poisoned::<f32>(16 * 8)?;
/// gemm(&a.view((16, 24))?, &b.view((8, 24))?, &c.view_mut((16, 8))?)?;
/// assert_eq!(c.download()?, [24.0; 16 * 8]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the views are not matrices of one problem, if they lie on several devices, if C overlaps A or B or
/// has one element at several coordinates, or if no kernel takes the types. Returns the device's error if an allocation or
/// a launch fails.
///
/// Matrices overlap if their ranges of bytes do, each from the first element to the last, also where their elements interleave.
pub fn gemm<T: GemmElement, C: GemmElement>(
    a: &View<'_, T>,
    b: &View<'_, T>,
    c: &ViewMut<'_, C>,
) -> Result<(), Error> {
    Gemm::new(a, b, c).run()
}

/// A product of views that is being described: `C = alpha A B^T + beta C`.
///
/// Modes of the views behind those of the matrices are a batch, computed in one launch: A is (M,K,L..), B (N,K,L..) and C
/// (M,N,L..). Where all products share A or B, its stride is 0.
///
/// ```
/// use colex_gpu::{Device, Gemm};
///
/// let device = Device::open();
/// let (a, b) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[1f32, 0.0, 0.0, 1.0])?);
/// let mut c = device.upload(&[10f32; 4])?;
/// let (rows, columns) = (a.view((2, 2))?, b.view((2, 2))?);
/// Gemm::new(&rows, &columns, &c.view_mut((2, 2))?).alpha(2.0).beta(0.5).run()?;
/// assert_eq!(c.download()?, [7.0, 9.0, 11.0, 13.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Gemm<'a, T, C> {
    a: View<'a, T>,
    b: View<'a, T>,
    /// The second right factor.
    b2: Option<View<'a, T>>,
    c: View<'a, C>,
    alpha: f64,
    beta: f64,
    compute: Option<Compute>,
    method: Option<GemmMethod>,
    /// Whether matrices are packed that Hopper's kernel would not multiply as TMA brings them; the model decides if it is not set.
    packs: Option<bool>,
    /// Whether the bits of a row do not depend on the number of rows.
    is_batch_invariant: bool,
    has_whole_sums: bool,
    measured: Option<&'a Autotune>,
    /// The contiguous modes of a BLAS-shaped problem, which states them even if an extent is 1.
    majors: [Option<Major>; 3],
    epilogue: Option<Epilogue>,
    /// What the epilogue is given.
    given: Given<'a>,
    /// The groups of the product.
    pub(in crate::gemm) groups: Option<GivenGroups<'a>>,
    /// The addresses of the products' matrices, of which the views are the first.
    pub(in crate::gemm) lists: Option<GivenLists<'a>>,
    /// What the products of the batch are if they are the chunks of ranks.
    pub(in crate::gemm) chunks: Option<GivenChunks<'a>>,
    /// The convolution that the product is: A is then the tensor of activations.
    convolution: Option<GivenConvolution>,
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Builds the product of A (M,K) and B (N,K) into C (M,N), alpha 1 and beta 0.
    pub fn new(a: &View<'a, T>, b: &View<'a, T>, c: &ViewMut<'a, C>) -> Gemm<'a, T, C> {
        Gemm::of([a.clone(), b.clone()], (**c).clone())
    }

    /// Builds the product of these views, the last of which may be written.
    pub(crate) fn of([a, b]: [View<'a, T>; 2], c: View<'a, C>) -> Gemm<'a, T, C> {
        Gemm {
            a,
            b,
            b2: None,
            c,
            alpha: 1.0,
            beta: 0.0,
            compute: None,
            method: None,
            packs: None,
            is_batch_invariant: false,
            has_whole_sums: false,
            measured: None,
            majors: [None; 3],
            epilogue: None,
            given: Given::default(),
            groups: None,
            lists: None,
            chunks: None,
            convolution: None,
        }
    }

    /// Whether it has a second right factor.
    pub(in crate::gemm) fn has_second(&self) -> bool {
        self.b2.is_some()
    }

    /// The epilogue that was set.
    pub(in crate::gemm) fn own_epilogue(&self) -> Option<&Epilogue> {
        self.epilogue.as_ref()
    }

    /// Makes it the product of a convolution, whose A is the tensor of activations.
    pub(in crate::gemm) fn convolution(self, convolution: GivenConvolution) -> Self {
        let convolution = Some(convolution);
        Gemm {
            convolution,
            ..self
        }
    }

    /// Sets what becomes of the accumulators, in the place of `alpha A B^T + beta C`.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// // A product of bytes as bytes: scaled, rounded, saturated.
    /// let quantised = Epilogue::new(Ty::S32, |e| {
    ///     (e.accumulator().to(Ty::F32) * e.scalar("scale", Ty::F32)).saturating(Ty::S8)
    /// })?;
    /// let device = Device::open();
    /// let (a, b) = (device.upload(&[100i8, 50])?, device.upload(&[100i8, 100, -1, 3])?);
    /// let mut c = device.poisoned::<i8>(2)?;
    /// let product = Gemm::new(&a.view((1, 2))?, &b.view((2, 2))?, &c.view_mut((1, 2))?);
    /// product.epilogue(&quantised).scalar("scale", 0.01).run()?;
    /// assert_eq!(c.download()?, [127, 0]); // 150, and 0.5 to the even number
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn epilogue(self, epilogue: &Epilogue) -> Self {
        let epilogue = Some(epilogue.clone());
        Gemm { epilogue, ..self }
    }

    /// Sets a second right factor B2, by the layout of B: the kernel multiplies A by both, and the epilogue's formulas have the
    /// accumulators of both products. SwiGLU and GeGLU are such epilogues. Of one matrix whose rows are alternately those of B and
    /// of B2, or those of B before those of B2, the factors are two views.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// let swiglu = Epilogue::new(Ty::F32, |e| e.accumulator().silu() * e.second_accumulator())?;
    /// let device = Device::open();
    /// let x = device.upload(&[1f32, 2.0, 3.0, 0.0])?;
    /// // The rows of the gate and of what it multiplies, alternating.
    /// let weights = device.upload(&[0f32, 0.0, 1.0, 1.0, 40.0, 0.0, 0.0, 2.0])?;
    /// let gate = View::new(&weights, "(2,2):(4,1)")?;
    /// let behind = weights.slice(2..)?;
    /// let up = View::new(&behind, "(2,2):(4,1)")?;
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let product = Gemm::new(&x.view((2, 2))?, &gate, &c.view_mut((2, 2))?);
    /// product.b2(&up).epilogue(&swiglu).run()?;
    /// assert_eq!(c.download()?, [0.0, 160.0, 0.0, 0.0]); // silu(0) 3, silu(40) 4, silu(0) 3, silu(120) 0
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn b2(self, b2: &View<'a, T>) -> Self {
        let b2 = Some(b2.clone());
        Gemm { b2, ..self }
    }

    /// Gives the epilogue a tensor by any layout of the shape (M,N): of stride 0 along a mode along which all elements are one.
    /// Of two tensors of one name, the last is taken.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// let scaled = Epilogue::new(Ty::F32, |e| e.accumulator() * e.tensor("rows", Ty::F32))?;
    /// let device = Device::open();
    /// let (a, rows) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[10f32, 100.0])?);
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let (x, rows) = (a.view((2, 2))?, View::new(&rows, "(2,2):(1,0)")?);
    /// Gemm::new(&x, &x, &c.view_mut((2, 2))?).epilogue(&scaled).tensor("rows", &rows).run()?;
    /// assert_eq!(c.download()?, [50.0, 110.0, 1100.0, 2500.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor<X: Element>(mut self, name: &str, view: &View<'a, X>) -> Self {
        self.given.tensor(name, view, false);
        self
    }

    /// Makes the epilogue wait until its tensors are there: `flags` has any number of flags, and as the last word the number of the
    /// round, which was written before the kernel begins. Behind the main loop of its first tile, each block waits until every flag
    /// has at least this number: it acquires the flags at the scope of the system, so that copy engines or other devices may write
    /// the tensors, and then the flags, while the kernel multiplies. The Hopper kernel waits.
    ///
    /// Nothing but that releases the kernel: where a tensor may never come, something else has to write its flag after some time.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    /// use half::bf16;
    ///
    /// let sum = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("other", Ty::F32))?;
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, other) = (device.upload(&[bf16::ONE; 8 * 16])?, device.upload(&[0.5f32; 64])?);
    /// let mut c = device.poisoned::<f32>(64)?;
    /// let flags = device.upload(&[7u32, 7])?; // the tensor of the seventh round is there
    /// {
    ///     let (x, rows) = (a.view((8, 16))?, c.view_mut((8, 8))?);
    ///     let product = Gemm::new(&x, &x, &rows).epilogue(&sum).tensor("other", &other.view((8, 8))?);
    ///     product.clone().awaits(&flags.view(2)?).run()?;
    ///     let error = product.awaits(&flags.view(1)?).run().unwrap_err();
    ///     assert_eq!(
    ///         error.to_string(),
    ///         "epilogue: the flags for which it waits have 1 words: there is at least one flag, and the round behind the flags"
    ///     );
    /// }
    /// assert_eq!(c.download()?, [16.5; 64]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn awaits(mut self, flags: &View<'a, u32>) -> Self {
        self.given.awaits(flags);
        self
    }

    /// Gives the epilogue an output beside C, by any layout of the shape (M,N) that has each element once, or a vector of sums or
    /// maxima by a layout of the shape (M) or (N). Behind these are the modes of a batch.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm, ViewMut};
    ///
    /// let both = Epilogue::new(Ty::F32, |e| {
    ///     e.output("negative", -e.accumulator());
    ///     e.accumulator()
    /// })?;
    /// let device = Device::open();
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let (mut c, mut d) = (device.poisoned::<f32>(4)?, device.poisoned::<f32>(4)?);
    /// let x = a.view((2, 2))?;
    /// let (c, transposed) = (c.view_mut((2, 2))?, ViewMut::column_major(&mut d, (2, 2))?);
    /// Gemm::new(&x, &x, &c).epilogue(&both).output("negative", &transposed).run()?;
    /// drop(transposed);
    /// assert_eq!(d.download()?, [-5.0, -11.0, -11.0, -25.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn output<X: Element>(mut self, name: &str, view: &ViewMut<'a, X>) -> Self {
        self.given.tensor(name, view, true);
        self
    }

    /// Gives the epilogue a tensor whose rows a list names: row `i` of the product reads row `rows[i]` of the view, which has any
    /// number of rows and the product's columns. A row that the view does not have counts as zeros. The list lies on the device, and
    /// the host does not read it.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// let added = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("residual", Ty::F32))?;
    /// let device = Device::open();
    /// let (x, residual) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[100f32, 200.0, 1000.0, 2000.0])?);
    /// let rows = device.upload(&[1u32, 7])?; // the second row of the residual, and none
    /// let mut c = device.poisoned::<f32>(4)?;
    /// Gemm::new(&x.view((2, 2))?, &x.view((2, 2))?, &c.view_mut((2, 2))?)
    ///     .epilogue(&added)
    ///     .tensor_rows("residual", &residual.view((2, 2))?, &rows.view(2)?)
    ///     .run()?;
    /// assert_eq!(c.download()?, [1005.0, 2011.0, 11.0, 25.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor_rows<X: Element, R: GroupNumber>(
        mut self,
        name: &str,
        view: &View<'a, X>,
        rows: &View<'a, R>,
    ) -> Self {
        self.given.tensor(name, view, false);
        self.given.rows(rows);
        self
    }

    /// Gives the epilogue an output whose rows a list names: row `i` of the product goes to row `rows[i]` of the view, which has any
    /// number of rows and the product's columns. Rows that the list does not name stay as they are, and a row that the view does not
    /// have is not written. The numbers must differ: two rows with one number are a data race, and any of both may stay. The
    /// simulator reports the race if different threads write the two rows. If one thread writes both, it does so in an order that
    /// depends on the plan, and nothing is reported.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let both = Epilogue::new(Ty::F32, |e| {
    ///     e.output("scattered", e.accumulator());
    ///     e.accumulator()
    /// })?;
    /// let device = Device::open();
    /// let (x, rows) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[2u32, 0])?);
    /// let (mut c, mut d) = (device.poisoned::<f32>(4)?, device.zeros::<f32>(6)?);
    /// Gemm::new(&x.view((2, 2))?, &x.view((2, 2))?, &c.view_mut((2, 2))?)
    ///     .epilogue(&both)
    ///     .output_rows("scattered", &d.view_mut((3, 2))?, &rows.view(2)?)
    ///     .run()?;
    /// assert_eq!(d.download()?, [11.0, 25.0, 0.0, 0.0, 5.0, 11.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn output_rows<X: Element, R: GroupNumber>(
        mut self,
        name: &str,
        view: &ViewMut<'a, X>,
        rows: &View<'a, R>,
    ) -> Self {
        self.given.tensor(name, view, true);
        self.given.rows(rows);
        self
    }

    /// Gives the epilogue a number, which is rounded to the nearest `f32` where the scalar is one. A number that becomes 0 or
    /// infinite by that is refused.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::gemm::Epilogue;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let capped = Epilogue::new(Ty::F32, |e| e.accumulator().min(e.scalar("most", Ty::F32)))?;
    /// let device = Device::open();
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let x = a.view((2, 2))?;
    /// Gemm::new(&x, &x, &c.view_mut((2, 2))?).epilogue(&capped).scalar("most", 20.0).run()?;
    /// assert_eq!(c.download()?, [5.0, 11.0, 11.0, 20.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn scalar(mut self, name: &str, value: f64) -> Self {
        self.given.scalar(name, value);
        self
    }

    /// Sets the factor of the product. If it is 0, A and B are not read, as in BLAS.
    pub fn alpha(self, alpha: f64) -> Self {
        Gemm { alpha, ..self }
    }

    /// Sets the factor of what C held. If it is 0, C is not read, as in BLAS.
    pub fn beta(self, beta: f64) -> Self {
        Gemm { beta, ..self }
    }

    /// Sets the type of the accumulators, for example [`Compute::Tf32`] for operands of f32, or [`Compute::Tf32x3`] with the
    /// exactness of f32. The default is [`GemmElement::COMPUTE`].
    ///
    /// Hopper's kernel multiplies f32 in tf32, and i8, along K: tiles of another order are transposed in shared memory, or a call
    /// without a method packs A or B along K where the model says that this is faster. [`pack`](Gemm::pack) decides it. Rows that
    /// do not begin at multiples of 16 bytes are packed where that takes less than half the time of Ampere's kernel.
    pub fn compute(self, compute: Compute) -> Self {
        let compute = Some(compute);
        Gemm { compute, ..self }
    }

    /// Sets whether a copy packs, along K, those of A and B that Hopper's kernel would not multiply as TMA brings them: rows that do not
    /// begin at multiples of 16 bytes, and f32 in tf32 or i8 in another order. Without this the model of time decides, and with a method
    /// or a plan none is packed. Matrices whose strides no kernel takes are packed in any case; groups, lists and chunks are not.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm, View};
    /// use colex_gpu::kernels::Compute;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let (a, b) = (device.zeros::<f32>(64 * 64)?, device.zeros::<f32>(64 * 64)?);
    /// let mut c = device.zeros::<f32>(64 * 64)?;
    /// let columns = View::new(&a, ((64, 64), (1, 64)))?; // contiguous along M
    /// let (b, c) = (b.view((64, 64))?, c.view_mut((64, 64))?);
    /// let product = Gemm::new(&columns, &b, &c).compute(Compute::Tf32);
    /// let transposed = product.clone().pack(false).prepare()?;
    /// let plan = transposed.plan().map(|plan| plan.to_string());
    /// assert!(plan.is_some_and(|plan| plan.ends_with("A transposed in shared memory")));
    /// let packed = product.pack(true).prepare()?;
    /// assert_eq!(packed.packed().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pack(self, packs: bool) -> Self {
        let packs = Some(packs);
        Gemm { packs, ..self }
    }

    /// Sets the generation of the kernel. The default is the fastest that takes the problem.
    pub fn method(self, method: GemmMethod) -> Self {
        let method = Some(method);
        Gemm { method, ..self }
    }

    /// Keeps the bits of a row of C the same for every M, every place of the row and every order of A and C. All plans then divide K in one
    /// way for a B: of the divisions that have a plan for 1, 64, 256, 1024 and 4096 rows, the one that costs the least where it costs the
    /// most, by the model of time. The GEMV kernel is not taken. Where TMA loads B, and A lies as TMA does not load it, A is packed first.
    /// So a product may take longer than without it. [`prepare_with`](Gemm::prepare_with) takes plans that divide K in this way, and refuses
    /// others.
    ///
    /// Calls that pack nothing keep the bits among those whose A is contiguous along K with one stride of its rows: calls with groups,
    /// lists, chunks or a [`method`](Gemm::method), and those with [`pack(false)`](Gemm::pack). Convolutions keep them among calls whose
    /// activations take the same way: an im2col tensor map, a written matrix, or a plain product.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let device = Device::open();
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let rows = a.view((2, 2))?;
    /// Gemm::new(&rows, &rows, &c.view_mut((2, 2))?).batch_invariant().run()?;
    /// assert_eq!(c.download()?, [5.0, 11.0, 11.0, 25.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn batch_invariant(self) -> Self {
        Gemm {
            is_batch_invariant: true,
            ..self
        }
    }

    /// Takes the plan that was measured as the fastest for this product on this device, and measures it if it is new. A
    /// call with a method or [`batch_invariant`](Gemm::batch_invariant) takes the plan of these.
    ///
    /// [`Autotune`] says what is measured and kept.
    pub fn autotune(self, measured: &'a Autotune) -> Self {
        let measured = Some(measured);
        Gemm { measured, ..self }
    }

    /// Sets the contiguous mode of each matrix whose layout leaves it open because an extent is 1.
    pub(crate) fn majors(self, majors: [Major; 3]) -> Self {
        let majors = majors.map(Some);
        Gemm { majors, ..self }
    }

    /// Sets the type of the accumulators if `compute` is given.
    pub(crate) fn compute_if(self, compute: Option<Compute>) -> Self {
        Gemm { compute, ..self }
    }

    /// Enqueues the product on the stream of the device that holds A. Memory in which parts of K are summed
    /// ([`GemmPlan::workspace`]) is the stream's, allocated by its first call that needs as much. A device keeps eight pieces of such
    /// memory for all streams: with more, a call allocates again, and waits for the device. Inside a stream capture,
    /// the plan is one that needs none.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`].
    pub fn run(&self) -> Result<(), Error> {
        match self.given_call() {
            Some(given) => recent::run(self.a.device(), &given, || self.run_first()),
            None => self.run_first().map(drop),
        }
    }

    /// Prepares and runs the product. Returns its launches if they are all that it is.
    pub(in crate::gemm) fn run_first(&self) -> Result<Launches<BuiltProduct>, Error> {
        let device = self.a.device();
        let mut memory = Workspace::Kept(device);
        let call = self.call(&mut memory, self.may_pack(), |_, _| Ok(self.wish()))?;
        let alone = call.alone();
        call.run(device)?;
        call.give_back(device);
        Ok(alone.into_iter().collect())
    }

    /// What a caller gives, by which a product is found that ran before; `None` of a product that is more than A, B, C and factors, and if
    /// the devices differ.
    fn given_call(&self) -> Option<GivenCall> {
        let device = self.a.device();
        let is_plain = self.b2.is_none()
            && self.compute.is_none()
            && self.method.is_none()
            && self.packs.is_none()
            && !self.is_batch_invariant
            && !self.has_whole_sums
            && self.measured.is_none()
            && self.epilogue.is_none()
            && self.given.is_empty()
            && self.groups.is_none()
            && self.lists.is_none()
            && self.chunks.is_none()
            && self.convolution.is_none();
        let is_one_device = [self.b.device(), self.c.device()]
            .iter()
            .all(|other| device.is_same_device(other));
        (is_plain && is_one_device).then(|| GivenCall {
            kind: CallKind::Product,
            views: [self.a.key(), self.b.key(), self.c.key()]
                .map(Some)
                .into_iter()
                .collect(),
            types: [T::TY, C::TY],
            numbers: [self.alpha, self.beta]
                .map(f64::to_bits)
                .into_iter()
                .chain(self.majors.map(|major| match major {
                    None => 0,
                    Some(Major::First) => 1,
                    Some(Major::Second) => 2,
                }))
                .collect(),
        })
    }

    /// Prepares the product, to be launched any number of times: builds and loads its kernels, and allocates the memory
    /// of the matrices that it packs and of the parts of K that it sums ([`GemmPlan::workspace`]), which the call owns.
    /// All that a stream capture forbids is done here, so that the call may run in one. It must then live as long as the
    /// graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`].
    pub fn prepare(&self) -> Result<GemmCall<'a>, Error> {
        let mut memory = Workspace::Own(self.a.device());
        self.call(&mut memory, self.may_pack(), |_, _| Ok(self.wish()))
    }

    /// Returns the number of bytes of memory that the product needs besides its matrices: 0, unless it packs one, writes the
    /// high and low parts of factors ([`Compute::Tf32x3`]), stores elements that only sums or maxima of an epilogue are made of, or
    /// writes the matrix of a convolution.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// let device = Device::open();
    /// let (a, b) = (device.upload(&[1f32; 64])?, device.upload(&[1f32; 16])?);
    /// let mut c = device.poisoned::<f32>(16)?;
    /// // Every second element of every second row: no stride is 1.
    /// let scattered = View::new(&a, "(4,4):(16,2)")?;
    /// let rows = b.view((4, 4))?;
    /// let product = Gemm::new(&scattered, &rows, &c.view_mut((4, 4))?);
    /// assert!(product.workspace()? >= 64); // A takes 64 bytes
    /// let mut memory = device.uninitialised::<u8>(product.workspace()?)?;
    /// product.prepare_in(&mut memory)?.run(&device)?;
    /// assert_eq!(c.download()?, [4.0; 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views.
    pub fn workspace(&self) -> Result<usize, Error> {
        let Some(problem) = self.checked()? else {
            return Ok(0);
        };
        let (batch, steps) = self.batch()?;
        let (operands, c) = self.places(&problem, self.may_pack(), (&batch, &steps))?;
        let each = operands.iter().flat_map(Places::bytes).chain([c.bytes()]);
        let elements = problem.m.saturating_mul(problem.n);
        let elements = elements.saturating_mul(problem.batch);
        let stored = self.epilogue.iter();
        let of_vectors = |epilogue| stored_for_vectors(epilogue, &self.given, elements);
        let stored = stored.flat_map(of_vectors);
        let each = each.chain(stored.map(|(_, _, bytes)| bytes));
        Ok(each.map(scratch::aligned).fold(0, usize::saturating_add))
    }

    /// Returns the number of bytes with which [`prepare_in`](Gemm::prepare_in) takes the plan that [`prepare`](Gemm::prepare)
    /// takes: [`workspace`](Gemm::workspace), and what that plan needs to sum parts of K ([`GemmPlan::workspace`]). A plan of
    /// [`autotune`](Gemm::autotune) may need more.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::kernels::GemmProblem;
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let rows = device.upload(&vec![bf16::ONE; 8 * 65536])?;
    /// let mut c = device.poisoned::<f32>(64)?;
    /// let product = GemmProblem::new(8, 8, 65536).on(&rows, &rows, &mut c)?;
    /// assert_eq!(product.workspace()?, 0); // nothing is packed
    /// let mut memory = device.uninitialised::<u8>(product.workspace_in_parts()?)?;
    /// let call = product.prepare_in(&mut memory)?;
    /// assert!(call.plan().is_some_and(|plan| plan.split > 1));
    /// call.run(&device)?;
    /// assert_eq!(c.download()?, [65536.0; 64]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views, and those of the plan.
    pub fn workspace_in_parts(&self) -> Result<usize, Error> {
        let Some(Opened { problem, shape, .. }) = self.opened()? else {
            return Ok(0);
        };
        let bytes = plan_of(&problem, &shape, self.a.device())?.workspace(&problem);
        Ok(self.workspace()?.saturating_add(bytes as usize))
    }

    /// Returns the product as its kernel is given it, at addresses of no memory where matrices are packed; `None` if there is nothing
    /// to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views.
    fn opened(&self) -> Result<Option<Opened>, Error> {
        let Some(mut problem) = self.checked()? else {
            return Ok(None);
        };
        let (batch, apart) = self.batch()?;
        // Addresses of no memory, for elements that are stored for a vector.
        let mut elsewhere = Workspace::Given([1 << 60, 1 << 62]);
        let take = |bytes: usize| Ok(elsewhere.take(bytes)?.address);
        let (bound, reductions) = self.bound(&batch, take)?;
        let bound = bound.map(|(arguments, _)| arguments);
        let (factors, c) = self.places(&problem, self.may_pack(), (&batch, &apart))?;
        let packing = factors
            .as_ref()
            .and_then(|places| self.said_of_packing(&problem, places, &c, (&batch, &apart)));
        let matrices = match factors {
            Some(places) => {
                if problem.compute == Some(Compute::Tf32x3) {
                    problem.k *= high_low::TIMES;
                }
                places.matrices(&c)
            }
            None => {
                problem = of_zeros(problem);
                let zeros = Matrix::column(0, problem.m.max(problem.n));
                [zeros, zeros, c.matrix()]
            }
        };
        let matrices = self.aligned(matrices);
        let shape = shape::<T, C>(&mut problem, &matrices, &batch, self.wish(), bound);
        Ok(Some(Opened {
            problem,
            shape,
            packing,
            reductions,
        }))
    }

    /// Builds and loads every kernel that a call of this product may take with any number of rows M below 2^21, so that a call with a
    /// new M assembles none: those of the list of plans for these types, orders, N and K, those that sum parts of K, and those that
    /// pack a matrix. Returns the number of kernels that multiply and sum; of the list these are at most 24, and one that sums
    /// for each that divides K.
    ///
    /// The other calls differ in M alone: their matrices have the same orders, gaps and alignments. Where M runs fastest in A or C
    /// and the matrix has no gaps, its rows begin at other alignments with other M, and kernels for all of them are loaded. So are
    /// kernels for matrices that are packed and for those that are not, if M decides. Tensors of the epilogue lie as those of
    /// this call do.
    ///
    /// A call that runs loads the kernels of its own M. A device keeps the last 256 kernels of products. The calls of
    /// [`Device::load_kernel`] assemble one after the other, some tenths of a second each, and the cache on the disk keeps what
    /// they assembled.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, weights) = (device.zeros::<bf16>(32 * 64)?, device.zeros::<bf16>(128 * 64)?);
    /// let mut c = device.poisoned::<bf16>(32 * 128)?;
    /// let (x, weights) = (x.view((32, 64))?, weights.view((128, 64))?);
    /// // Of Ampere's kernel, one for any M, and one for an M that its tiles divide.
    /// assert_eq!(Gemm::new(&x, &weights, &c.view_mut((32, 128))?).load_plans()?, 2);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views, those of the plan, and the device's error if it does not take a kernel.
    pub fn load_plans(&self) -> Result<usize, Error> {
        let device = self.a.device();
        let Some(Opened {
            problem,
            shape,
            reductions,
            packing: _,
        }) = self.opened()?
        else {
            return Ok(0);
        };
        // A product without rows fills the sums of its columns.
        let of_columns = |one: &EpilogueReduction| one.kind == EpilogueReductionKind::ColumnSums;
        let mut own = self.epilogue.iter().flat_map(Epilogue::reductions);
        let has_columns = own.any(of_columns);
        for (shape, addresses) in reductions {
            if has_columns && shape.op == BinaryOp::Add {
                let vector = shape.layouts[1].clone();
                let nothing = ReductionShape::of_nothing(shape.op, shape.ty, vector);
                reduction(device, nothing, addresses)?;
            }
            reduction(device, shape, addresses)?;
        }
        self.load_steps()?;
        let (own, mut kernels) = (problem.m, HashSet::new());
        for rows in self.numbers_of_rows(&problem) {
            for packs in [false, true] {
                let Some((problem, shape)) = self.with_rows(rows, packs, (&problem, &shape))?
                else {
                    continue;
                };
                match kernels_of(&problem, &shape, device) {
                    // No kernel counts that number of rows of groups.
                    Err(_) if rows != own => {}
                    found => kernels.extend(found?),
                }
            }
        }
        for kernel in &kernels {
            loaded(kernel, device)?;
        }
        Ok(kernels.len())
    }

    /// The numbers of rows that stand for all others.
    fn numbers_of_rows(&self, problem: &GemmProblem) -> Vec<i64> {
        // More rows than columns: of a product that is 0, both factors have the larger number.
        let beyond = problem.n / 1024 * 1024 + 1024;
        let others = SOME_NUMBERS.map(|rows| match &self.groups {
            Some(_) => rows.saturating_mul(problem.batch).min(MOST),
            None => rows.saturating_add(beyond).min(MOST),
        });
        let own = [problem.m];
        let all = SOME_NUMBERS.into_iter().chain(others);
        all.chain(own).collect()
    }

    /// Loads the kernels of the steps before and after the product.
    fn load_steps(&self) -> Result<(), Error> {
        let Some(problem) = self.checked()? else {
            return Ok(());
        };
        let (batch, apart) = self.batch()?;
        let [of_a, of_b, of_c] = apart;
        let (factors, c) = self.places(&problem, false, (&batch, &apart))?;
        let Some(Places { a, b, b2 }) = factors else {
            return Ok(());
        };
        let rows = self.numbers_of_rows(&problem);
        // Where another number of rows has another form, a matrix that is not packed now may be.
        let is_unmapped = |matrix: Matrix| !Place::is_here::<T>(Some(matrix), true);
        let may_be_packed =
            self.may_pack() && takes_hopper(multiplied::<T>(&problem), self.a.device().arch());
        let packs = |place: &GivenFactor| match place {
            GivenFactor::Plain(Place::Packed(_)) => Some(1),
            GivenFactor::Plain(Place::Here(matrix)) => {
                (may_be_packed && is_unmapped(*matrix)).then_some(1)
            }
            GivenFactor::HighLow(parts) => parts.packs().then_some(high_low::TIMES),
            GivenFactor::Columns(_) => None,
        };
        let follows = rows.iter().filter_map(|rows| {
            Matrix::of_rows(
                &self.a,
                (self.majors[0], of_a),
                *rows,
                self.is_batch_invariant,
            )
        });
        let packs_some =
            may_be_packed && self.convolution.is_none() && follows.into_iter().any(is_unmapped);
        let packs_a = packs(&a).or(packs_some.then_some(1));
        if let Some(times) = packs_a {
            matrix::load_copies(&self.a, &rows, (&batch, of_a), (times, false))?;
        }
        if let Some(times) = packs(&b) {
            matrix::load_copies(&self.b, &[], (&batch, of_b), (times, false))?;
            if let Some(b2) = &self.b2 {
                matrix::load_copies(b2, &[], (&batch, of_b), (times, false))?;
            }
        }
        if c.is_packed() {
            matrix::load_copies(&self.c, &rows, (&batch, of_c), (1, true))?;
        }
        let second = b2.as_ref().zip(self.b2.as_ref());
        for (factor, view) in [(&a, &self.a), (&b, &self.b)].into_iter().chain(second) {
            match factor {
                GivenFactor::Plain(_) => {}
                GivenFactor::HighLow(parts) => parts.load(view)?,
                GivenFactor::Columns(columns) => columns.load(view)?,
            }
        }
        Ok(())
    }

    /// The product with another number of rows, as its kernel is given it; `None` if `packs` says that matrices are packed which no
    /// call packs.
    fn with_rows(
        &self,
        rows: i64,
        packs: bool,
        (problem, known): (&GemmProblem, &GemmShape),
    ) -> Result<Option<(GemmProblem, GemmShape)>, Error> {
        let Some(checked) = self.checked()? else {
            return Ok(None);
        };
        let (batch, apart) = self.batch()?;
        let (factors, c) = self.places(&checked, false, (&batch, &apart))?;
        let c_of_rows = Matrix::of_rows(&self.c, (self.majors[2], apart[2]), rows, false);
        let of_c = c_of_rows.filter(|_| !c.is_packed());
        let of_c = of_c.unwrap_or_else(|| c.matrix());
        let (a, b) = match &factors {
            None => {
                let zeros = Matrix::column(0, rows.max(problem.n));
                (zeros, zeros)
            }
            Some(places) => {
                let [own, b, _] = places.matrices(&c);
                let is_plain = matches!(&places.a, GivenFactor::Plain(Place::Here(_)))
                    && self.convolution.is_none();
                let of = (self.majors[0], apart[0]);
                let a = Matrix::of_rows(&self.a, of, rows, self.is_batch_invariant);
                (a.filter(|_| is_plain).unwrap_or(own), b)
            }
        };
        let mut problem = GemmProblem {
            m: rows,
            ..*problem
        };
        let shape = |problem: &mut GemmProblem, matrices: [Matrix; 3]| {
            shape::<T, C>(
                problem,
                &matrices,
                &batch,
                self.wish(),
                known.epilogue.clone(),
            )
        };
        let matrices = self.aligned([a, b, of_c]);
        let as_is = shape(&mut problem, matrices);
        if !packs {
            return Ok(Some((problem, as_is)));
        }
        let is_mapped = as_is.operands.are_mapped();
        let takes_hopper = takes_hopper(as_is.operands.ab, self.a.device().arch());
        // Of a convolution, the filters may be packed beside a matrix that is written out, and nothing beside a tensor map of activations.
        let is_written = |places: &Places| matches!(places.a, GivenFactor::Columns(_));
        let may_be_packed = (factors.as_ref())
            .is_some_and(|places| self.convolution.is_none() || is_written(places));
        if is_mapped || !takes_hopper || !self.may_pack() || !may_be_packed {
            return Ok(None);
        }
        let k = problem.k;
        let packed = |matrix: Matrix| {
            if Place::is_here::<T>(Some(matrix), true) {
                matrix
            } else {
                matrix.packed::<T>(k)
            }
        };
        let packed = [packed(a), packed(b), of_c];
        let shape = shape(&mut problem, packed);
        Ok(Some((problem, shape)))
    }

    /// Returns why a call takes its plan, without preparing it: whether matrices are packed by the times of the model, the cost of
    /// the plan by its terms, and those of the plans that the model says are the fastest among the others. Times are in microseconds,
    /// by the [rates](Device::rates) of the device. [`GemmCall::explain`] says the same of a prepared call, whose plan [`autotune`](Gemm::autotune) may have measured.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let (a, b) = (device.zeros::<bf16>(300 * 777)?, device.zeros::<bf16>(200 * 777)?);
    /// let mut c = device.poisoned::<bf16>(300 * 200)?;
    /// let (a, b) = (a.view((300, 777))?, b.view((200, 777))?);
    /// let said = Gemm::new(&a, &b, &c.view_mut((300, 200))?).explain()?;
    /// let lines: Vec<_> = said.lines().collect();
    /// assert!(lines[0].starts_with("nothing is packed: "), "{said}"); // rows of 777 elements are loaded by threads
    /// assert!(lines[1].starts_with("Hopper bf16 to bf16, tile "));
    /// assert_eq!(lines.len(), 2 + 5); // five other plans
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views, and those of the plan.
    pub fn explain(&self) -> Result<String, Error> {
        let device = self.a.device();
        let Some(open) = self.opened()? else {
            return Ok("nothing to do".to_string());
        };
        let (problem, shape) = (&open.problem, &open.shape);
        let plan = plan_of(problem, shape, device)?;
        let of_plan = Explained::new(problem, shape).of(Some(&plan), device);
        let lines = open.packing.into_iter().chain(of_plan);
        Ok(lines.collect::<Vec<String>>().join("\n"))
    }

    /// Prepares the product as [`prepare`](Gemm::prepare) does, with the memory of the caller for the matrices that it packs and
    /// the parts of factors: [`workspace`](Gemm::workspace) bytes at a multiple of 256. What is left is for sums of parts of K:
    /// with [`workspace_in_parts`](Gemm::workspace_in_parts) bytes the plan is that of [`prepare`](Gemm::prepare), with fewer it is
    /// one that divides no K among clusters. The counters of [`Division::SplitKFixup`] are not in it: the call owns them. Calls that one
    /// thread gives to one stream may share the memory, since they run in that order. Launches that another thread gives to the stream may come between those of one call. A graph that captured the call
    /// uses it whenever it runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`], and an error if the workspace is too short, does not begin at a multiple of 256, is
    /// on another device, may not be written, or overlaps a matrix.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<GemmCall<'a>, Error> {
        let count = workspace.count() as i64;
        let given = ViewMut::row_major(workspace, count)?;
        one_device(self.a.device(), [("the workspace", given.device())])?;
        let bytes = [self.a.bytes(), self.b.bytes(), self.c.bytes()];
        for (matrix, bytes) in Operand::ALL.into_iter().zip(bytes) {
            disjoint("the workspace", given.bytes(), matrix.name(), bytes)?;
        }
        if let Some(b2) = &self.b2 {
            disjoint("the workspace", given.bytes(), B2, b2.bytes())?;
        }
        for (name, bytes) in self.given.memory().chain(self.more_memory()) {
            disjoint("the workspace", given.bytes(), name, bytes)?;
        }
        let mut memory = Workspace::given(given.bytes(), self.workspace()?, ["product", "Gemm"])?;
        self.call(&mut memory, self.may_pack(), |_, _| Ok(self.wish()))
    }

    /// Prepares the product with the plan that `plan` makes from the types, majors and alignments of the matrices.
    ///
    /// The alignments are those of whole matrices. In [`groups`](Gemm::groups), which begin and end anywhere, some kernels have accesses
    /// of one element along the mode that is divided, and the plan says so in [`Operands::vectors`]: those of A and C for groups of
    /// rows whose first mode is contiguous; those of such a C for masked rows, but by the Hopper kernel; and those of A and B for
    /// groups along K whose second mode is contiguous, but where TMA loads them. [`prepare`](Gemm::prepare) and
    /// [`method`](Gemm::method) narrow them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`], of the function and of [`GemmPlan::build`]. Returns an error if the plan was made for
    /// other types or orders, if its accesses are wider than the addresses allow, if its tiles are to divide the problem and
    /// do not, if the call is [`batch_invariant`](Gemm::batch_invariant) and the plan sums rows in another order, or if the device
    /// does not take the grid.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(Operands, Arch) -> Result<GemmPlan, Error>,
    ) -> Result<GemmCall<'a>, Error> {
        let mut memory = Workspace::Own(self.a.device());
        let packs = self.packs == Some(true) && self.may_pack();
        self.call(&mut memory, packs, |operands, arch| {
            Ok(Wish::Plan(plan(operands, arch)?))
        })
    }

    /// Returns the matrices with addresses of the alignment that a kernel may rely on: that of all matrices of a list.
    fn aligned(&self, matrices: [Matrix; 3]) -> [Matrix; 3] {
        match &self.lists {
            Some(lists) => lists.aligned(matrices),
            None => matrices,
        }
    }

    /// Returns whether the product may pack a matrix that a kernel would take: not if a method was set, but where it is asked for.
    fn may_pack(&self) -> bool {
        self.packs.unwrap_or(self.method.is_none())
            && self.groups.is_none()
            && self.lists.is_none()
            && self.chunks.is_none()
    }

    /// Returns the wish for the usual plan of the method that was set, or for the fastest plan.
    fn wish(&self) -> Wish {
        match self.method {
            Some(method) => Wish::Method(method),
            None if self.is_batch_invariant => Wish::BatchInvariant,
            None if self.has_whole_sums => Wish::Whole,
            None => Wish::Fastest,
        }
    }

    /// Takes the fastest plan that divides no K, as products in chunks do: they have the same bits.
    pub(crate) fn whole_sums(self) -> Self {
        Gemm {
            has_whole_sums: true,
            ..self
        }
    }

    /// Returns the extents M, N and K, which the views must agree on, and those of C's modes behind the matrix: of a batch, or of
    /// groups.
    pub(in crate::gemm) fn extents(&self) -> Result<([i64; 3], Vec<i64>), Error> {
        if let Some(convolution) = &self.convolution {
            let GemmProblem { m, n, k, .. } = convolution.problem.product()?;
            return Ok(([m, n, k], Vec::new()));
        }
        let ([m, k], behind_a) = matrix::extents(Operand::A, self.a.shape())?;
        let ([n, of_b], behind_b) = matrix::extents(Operand::B, self.b.shape())?;
        let (of_c, behind_c) = matrix::extents(Operand::C, self.c.shape())?;
        let pairs = [
            ("K", "A", k, "B", of_b),
            ("M", "A", m, "C", of_c[0]),
            ("N", "B", n, "C", of_c[1]),
        ];
        for (extent, first, in_first, second, in_second) in pairs {
            check_extent(extent, in_first)?;
            if in_first != in_second {
                return Err(ErrorKind::Extents {
                    extent,
                    matrices: [first, second],
                    found: [in_first, in_second],
                }
                .into());
            }
        }
        let behind_c = match self.chunks.as_ref().and_then(GivenChunks::count) {
            // Each chunk of C is a matrix of its own.
            Some(owners) => [behind_c, vec![owners]].concat(),
            None => behind_c,
        };
        let behind = [behind_a, behind_b, behind_c];
        let behind = match &self.groups {
            Some(groups) => groups.behind(behind)?,
            None => common(behind)?,
        };
        Ok(([m, n, k], behind))
    }

    /// Whether a tensor map takes the second filters of a convolution, which have the layout of the first ones, or there are none.
    fn maps_second_filters(&self) -> bool {
        self.b2.as_ref().is_none_or(|b2| b2.bytes().0 % 16 == 0)
    }

    /// Returns the batch of the views, and the strides of A, B and C along its modes.
    ///
    /// # Errors
    ///
    /// Returns an error if a kernel has fewer modes than the batch.
    fn batch(&self) -> Result<(Batch, [Apart; 3]), Error> {
        if let Some(convolution) = &self.convolution {
            // A product that is 0 has no activations.
            let is_multiplied = self.alpha != 0.0 && !self.a.is_empty();
            let im2col = convolution.im2col(self.method);
            let im2col = im2col.filter(|_| is_multiplied && self.maps_second_filters());
            let batch = im2col.map(Batch::of_convolution);
            return Ok((batch.unwrap_or_default(), Default::default()));
        }
        let layouts = (self.a.layout(), self.b.layout(), self.c.layout());
        if let Some(groups) = &self.groups {
            let (a, b, c) = layouts;
            return Batch::of_groups(groups.kind, groups.count()?, [a, b, c]);
        }
        if let Some(lists) = &self.lists {
            return match &self.extents()?.1[..] {
                [] => Ok((Batch::of_lists(lists.count()), Default::default())),
                _ => Err(not_listed(
                    "the views have modes behind those of a matrix: a list has one matrix in each place",
                )),
            };
        }
        match (layouts, &self.chunks) {
            // A product that is 0 has no A and B.
            ((a, b, Some(c)), None) => Batch::of([a.unwrap_or(c), b.unwrap_or(c), c]),
            ((a, b, Some(c)), Some(given)) => {
                let chunks = given.checked(&self.extents()?.1)?;
                let (batch, steps) = if given.has_owners() {
                    Batch::of_owners(chunks.form.owners, [a, b])?
                } else {
                    Batch::of([a.unwrap_or(c), b.unwrap_or(c), c])?
                };
                Ok((batch.of_chunks(chunks), steps))
            }
            _ => Ok(Default::default()),
        }
    }

    /// Returns the problem of the views, or `None` if there is nothing to do. If the product is 0, its K is 0.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`] that concern the views.
    fn checked(&self) -> Result<Option<GemmProblem>, Error> {
        let device = self.a.device();
        one_device(device, [("B", self.b.device())])?;
        // Owners of chunks may be other devices.
        if !self.chunks.as_ref().is_some_and(GivenChunks::has_owners) {
            one_device(device, [("C", self.c.device())])?;
        }
        let ([m, n, k], behind) = self.extents()?;
        self.check_convolution()?;
        self.check_lists()?;
        disjoint("C", self.c.bytes(), "A", self.a.bytes())?;
        disjoint("C", self.c.bytes(), "B", self.b.bytes())?;
        if let Some(b2) = &self.b2 {
            one_device(device, [(B2, b2.device())])?;
            self.check_second(b2)?;
            disjoint("C", self.c.bytes(), B2, b2.bytes())?;
        }
        let batch = match &self.groups {
            Some(groups) => {
                one_device(device, [(groups.name(), &groups.device)])?;
                disjoint("C", self.c.bytes(), groups.name(), groups.bytes)?;
                self.check_groups()?;
                groups.count()?
            }
            None if let Some(lists) = &self.lists => lists.count(),
            // An extent of 0 may stand beside others whose product no number holds.
            None => behind
                .iter()
                .fold(1, |all, extent| extent.saturating_mul(all)),
        };
        if let Some(chunks) = &self.chunks {
            chunks.checked(&behind)?;
            self.check_chunks()?;
            let mut read = vec![("A", self.a.bytes()), ("B", self.b.bytes())];
            read.extend(self.b2.as_ref().map(|b2| (B2, b2.bytes())));
            chunks.check_memory(device, self.c.bytes(), &read)?;
        }
        let problem = GemmProblem {
            alpha: self.alpha,
            beta: self.beta,
            compute: self.compute,
            batch,
            ..GemmProblem::new(m, n, if self.alpha == 0.0 { 0 } else { k })
        };
        check_compute::<T>(&problem)?;
        let problem = GemmProblem {
            compute: self.computed(),
            epilogue: (self.epilogue.as_ref()).map(|own| EpilogueWork {
                tensor_bytes: self.given.bytes_along_both(),
                ..own.work_beyond_scaled()
            }),
            keeps_sides: (self.epilogue.as_ref())
                .is_some_and(|own| own.closures().next().is_some()),
            alone: behind.iter().all(|extent| *extent == 1)
                && self.groups.is_none()
                && self.lists.is_none()
                && self.chunks.is_none()
                && self.convolution.is_none(),
            ..problem
        };
        if self.epilogue.is_some() {
            return Ok((m > 0 && n > 0 && problem.batch > 0).then_some(problem));
        }
        check_types::<T, C>()?;
        check_factors::<T>(&problem)?;
        let is_nothing =
            m == 0 || n == 0 || problem.batch == 0 || problem.k == 0 && self.beta == 1.0;
        Ok((!is_nothing).then_some(problem))
    }

    /// Returns the type of the accumulators. No kernel that multiplies tf32 is needed for three products of it where there is
    /// none: f32 is as exact.
    fn computed(&self) -> Option<Compute> {
        let multiplies_tf32 = |method: &GemmMethod| {
            let family = method.family();
            family.types().contains(&Ty::Tf32) && family.runs_on(self.a.device().arch())
        };
        match (self.compute, self.method) {
            (Some(Compute::Tf32x3), None) if !GemmMethod::BY_SPEED.iter().any(multiplies_tf32) => {
                Some(Compute::F32)
            }
            (Some(Compute::Tf32x3), Some(method)) if !multiplies_tf32(&method) => {
                Some(Compute::F32)
            }
            (compute, _) => compute,
        }
    }

    /// Checks that a convolution asks for nothing that only other products have.
    fn check_convolution(&self) -> Result<(), Error> {
        if self.convolution.is_none() {
            return Ok(());
        }
        if self.groups.is_some() {
            return convolutions::refuse("its product has no groups");
        }
        if self.compute == Some(Compute::Tf32x3) {
            return convolutions::refuse("none is computed in 3xTF32: tf32 and f32 are");
        }
        Ok(())
    }

    /// Whether the product is one of high and low parts.
    pub(crate) fn is_three_products(&self) -> bool {
        self.compute == Some(Compute::Tf32x3)
    }

    /// The memory that the call gives beside the matrices: tensors of the epilogue and the lists of their rows.
    pub(crate) fn given_memory(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        self.given.memory()
    }

    /// The numbers of groups, the matrices of lists, and the flags of chunks.
    fn more_memory(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let groups = (self.groups.as_ref()).map(|groups| (groups.name().to_string(), groups.bytes));
        let lists = self.lists.iter().flat_map(|lists| {
            let named = |(operand, at, bytes): (Operand, usize, _)| {
                (format!("{} {at}", operand.name()), bytes)
            };
            lists.memory().map(named)
        });
        let chunks = self.chunks.iter().flat_map(GivenChunks::memory);
        groups.into_iter().chain(lists).chain(chunks)
    }

    /// Checks that a product of chunks asks for nothing that only other products have.
    fn check_chunks(&self) -> Result<(), Error> {
        if self.groups.is_some() || self.lists.is_some() || self.convolution.is_some() {
            return chunks::refuse(
                "the product is one of groups, of lists or a convolution: chunks are those of a batch".to_string(),
            );
        }
        if self.compute == Some(Compute::Tf32x3) {
            return chunks::refuse("none are computed in 3xTF32: tf32 is".to_string());
        }
        let has_more = |epilogue: &Epilogue| {
            epilogue.outputs().count() > 1 || epilogue.reductions().next().is_some()
        };
        let has_owners = self.chunks.as_ref().is_some_and(GivenChunks::has_owners);
        if has_owners && self.epilogue.as_ref().is_some_and(has_more) {
            return chunks::refuse(
                "C has an owner for each chunk, and the epilogue has outputs beside C, which all chunks would write".to_string(),
            );
        }
        if has_owners && let Some(name) = self.given.differs_behind() {
            return chunks::refuse(format!(
                "C has an owner for each chunk, and {name} has other elements for each: the kernel reads those of chunk 0, and takes a \
                 tensor whose stride along the chunks is 0"
            ));
        }
        let reduces = |epilogue: &Epilogue| epilogue.reductions().next().is_some();
        let leaves_last = self.chunks.as_ref().is_some_and(GivenChunks::leaves_last);
        if leaves_last && self.epilogue.as_ref().is_some_and(reduces) {
            return chunks::refuse(
                "the last chunk is left out, and the epilogue reduces rows or columns of all: an output holds what is reduced"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// Checks that a product in groups asks for nothing else that only other products have.
    fn check_groups(&self) -> Result<(), Error> {
        let refuse = |why: &str| {
            let why = why.to_string();
            Err(ErrorKind::Groups { why }.into())
        };
        if self.compute == Some(Compute::Tf32x3) {
            return refuse("no product in groups is computed in 3xTF32: tf32 and f32 are");
        }
        // Along K, all elements of C are written, also those of an empty part.
        let has_rows = self.groups.as_ref().is_some_and(|own| own.kind.has_rows());
        let reduces = |epilogue: &Epilogue| epilogue.reductions().next().is_some();
        if has_rows && self.epilogue.as_ref().is_some_and(reduces) {
            return refuse(
                "the epilogue reduces rows or columns, some of which belong to no group: an output holds what is reduced",
            );
        }
        Ok(())
    }

    /// Checks that the second right factor lies as the first does, and that an epilogue has its accumulators.
    fn check_second(&self, b2: &View<'a, T>) -> Result<(), Error> {
        let refuse = |why: String| Err(ErrorKind::Epilogue { why }.into());
        if self.epilogue.is_none() {
            let why =
                "the call has two right factors, and no epilogue: `.epilogue(&epilogue)` sets it";
            return refuse(why.to_string());
        }
        let form = |view: &View<'a, T>| match view.layout() {
            Some(layout) => layout.to_string(),
            None => view.shape().to_string(),
        };
        let values = |view: &View<'a, T>| view.layout().map(Layout::to_static);
        if b2.shape() != self.b.shape() || values(b2) != values(&self.b) {
            return refuse(format!(
                "B2 is {}, and B {}: both right factors have one layout",
                form(b2),
                form(&self.b)
            ));
        }
        Ok(())
    }

    /// Returns what the epilogue is given, and its addresses, with the reductions behind the product. `take` returns the address of
    /// memory for elements that are stored for a vector only.
    ///
    /// # Errors
    ///
    /// Returns an error if it has other inputs or outputs, of another type or shape, or if an output overlaps another tensor.
    fn bound(
        &self,
        batch: &Batch,
        take: impl FnMut(usize) -> Result<u64, Error>,
    ) -> Result<(Option<Bound>, Reductions), Error> {
        let ([m, n, _], behind) = self.extents()?;
        let mut read = vec![("A", self.a.bytes()), ("B", self.b.bytes())];
        read.extend(self.b2.as_ref().map(|b2| (B2, b2.bytes())));
        read.extend((self.groups.as_ref()).map(|groups| (groups.name(), groups.bytes)));
        read.extend(self.chunks.as_ref().and_then(GivenChunks::read));
        let beside_c: Vec<_> = self.chunks.iter().flat_map(GivenChunks::written).collect();
        let batch = &batch.of_c();
        let product = Product {
            sums: sum_type(T::TY),
            c: C::TY,
            extents: [m, n],
            behind: &behind,
            batch,
            factors: [self.alpha, self.beta],
            device: self.a.device(),
            read: &read,
            written: self.c.bytes(),
            beside_c: &beside_c,
        };
        let reduces = |epilogue: &&Epilogue| epilogue.reductions().next().is_some();
        let Some(epilogue) = self.epilogue.as_ref().filter(reduces) else {
            let bound = self.given.bind(self.epilogue.as_ref(), &product)?;
            return Ok((bound, Reductions::new()));
        };
        let all = WithVectors::new(&self.given, epilogue, &product, self.c.layout(), take)?;
        let bound = all.given.bind(Some(&all.epilogue), &product)?;
        Ok((bound, all.reductions))
    }

    /// Returns how the kernel is given A and B, unless their product is 0, and C.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Place::of`].
    fn places(
        &self,
        problem: &GemmProblem,
        may_pack: bool,
        (batch, steps): (&Batch, &[Apart; 3]),
    ) -> Result<(Option<Places>, Place), Error> {
        let [of_a, of_b, of_c] = self.majors;
        let [steps_a, steps_b, steps_c] = *steps;
        let c = Matrix::of(&self.c, of_c, steps_c);
        if let (Some(_), None, Some(layout)) = (&self.groups, c, self.c.layout()) {
            return Err(not_packed("C", Some(layout)));
        }
        if let (Some(_), None, Some(layout)) = (&self.chunks, c, self.c.layout()) {
            return chunks::refuse(format!(
                "C is {layout}: no kernel takes its strides, and chunks are not packed"
            ));
        }
        if let (Some(_), None, Some(layout)) = (&self.lists, c, self.c.layout()) {
            return Err(not_listed(&format!(
                "C is {layout}: no kernel takes its strides, and lists are not packed"
            )));
        }
        let place = Place::of(&self.c, c, false, (batch, steps_c))?;
        if problem.k == 0 {
            return Ok((None, place));
        }
        if problem.compute == Some(Compute::Tf32x3) {
            let right = |view| high_low(Side::Right, view, (batch, steps_b));
            let a = high_low(Side::Left, &self.a, (batch, steps_a))?;
            let b2 = self.b2.as_ref().map(right).transpose()?;
            let b = right(&self.b)?;
            return Ok((Some(Places { a, b, b2 }), place));
        }
        if let Some(mapped) =
            (self.convolution.as_ref()).and_then(|convolution| convolution.mapped(self.method))
            && self.maps_second_filters()
        {
            let plain = |matrix| GivenFactor::Plain(Place::Here(matrix));
            let second = self.b2.as_ref().map(|b2| Matrix {
                address: b2.bytes().0,
                ..mapped.b
            });
            let places = Places {
                a: plain(mapped.a),
                b: plain(mapped.b),
                b2: second.map(plain),
            };
            return Ok((Some(places), place));
        }
        let columns = self
            .convolution
            .as_ref()
            .map(|convolution| Columns::new::<T>(&convolution.problem, convolution.strides));
        let columns = columns.transpose()?;
        let a = match &columns {
            Some(columns) => Some(columns.at(0)),
            None if self.is_batch_invariant => {
                let a = Matrix::of(&self.a, of_a, steps_a);
                a.map(|a| a.among_rows(&self.a))
            }
            None => Matrix::of(&self.a, of_a, steps_a),
        };
        let b = Matrix::of(&self.b, of_b, steps_b);
        let b2 = self.b2.as_ref().map(|b2| Matrix::of(b2, of_b, steps_b));
        if self.groups.is_some() {
            if a.is_none() {
                return Err(not_packed("A", self.a.layout()));
            }
            if b.is_none() || b2.is_some_and(|b2| b2.is_none()) {
                return Err(not_packed("B", self.b.layout()));
            }
        }
        if self.chunks.is_some() && (a.is_none() || b.is_none()) {
            return chunks::refuse(
                "no kernel takes the strides of A or B, and chunks are not packed".to_string(),
            );
        }
        if self.lists.is_some() && (a.is_none() || b.is_none()) {
            return Err(not_listed(
                "no kernel takes the strides of A or B, and lists are not packed",
            ));
        }
        // Both right factors lie alike: the kernel takes the alignment that both have.
        let both = match (b, b2.flatten()) {
            (Some(b), Some(b2)) => Some(b.aligned_with(&b2)),
            (b, _) => b,
        };
        // Packed matrices are for kernels with tensor maps.
        let [packs_a, packs] = if may_pack && !batch.exceeds_maps() {
            self.packs(problem, batch, [a, both, c])?
        } else {
            [false; 2]
        };
        let a = match columns {
            Some(columns) => GivenFactor::Columns(Box::new(columns)),
            None => GivenFactor::Plain(Place::of(&self.a, a, packs_a, (batch, steps_a))?),
        };
        let of_b = (batch, steps_b);
        let right = match &self.b2 {
            None => (Place::of(&self.b, b, packs, of_b)?, None),
            // Both are packed, or none is.
            Some(second) if Place::is_here::<T>(both, packs) => (
                Place::of(&self.b, b, false, of_b)?,
                Some(Place::of(second, b2.flatten(), false, of_b)?),
            ),
            Some(second) => (
                Place::of(&self.b, None, true, of_b)?,
                Some(Place::of(second, None, true, of_b)?),
            ),
        };
        let (b, b2) = right;
        let places = Places {
            a,
            b: GivenFactor::Plain(b),
            b2: b2.map(GivenFactor::Plain),
        };
        Ok((Some(places), place))
    }

    /// Whether those of A and of B that no tensor map describes are packed first.
    ///
    /// In a batch-invariant call, the rows of A may lie in another way in a call with other rows: where B is loaded by TMA, A is packed
    /// whenever it is not. What is done with B depends on neither A nor C.
    fn packs(
        &self,
        problem: &GemmProblem,
        batch: &Batch,
        matrices: [Option<Matrix>; 3],
    ) -> Result<[bool; 2], Error> {
        let unmapped = self.unmapped(problem, batch, matrices);
        if !self.is_batch_invariant {
            let packs = self.packs_unmapped(unmapped)?;
            return Ok([packs; 2]);
        }
        let is_loaded = match &unmapped {
            Some(unmapped) => unmapped.operands().is_loaded(Operand::B),
            None => takes_hopper(multiplied::<T>(problem), self.a.device().arch()),
        };
        let packs_b = self.packs_unmapped(unmapped)?;
        Ok([packs_b || is_loaded, packs_b])
    }

    /// Whether the matrices of a product that no tensor map describes are packed first, if there are any.
    fn packs_unmapped(&self, unmapped: Option<Unmapped>) -> Result<bool, Error> {
        let device = self.a.device();
        let Some(unmapped) = unmapped else {
            return Ok(false);
        };
        if let Some(packs) = self.packs {
            return Ok(packs);
        }
        let answers = &device.extension::<PreparedGemms>().1;
        let answer = answers.get_or_make(&unmapped, || {
            Ok::<_, Error>(packing_of(&unmapped, device).is_faster())
        })?;
        Ok(*answer)
    }

    /// What the model says of packing, and the matrices that are packed; `None` if there is nothing to say.
    fn said_of_packing(
        &self,
        problem: &GemmProblem,
        places: &Places,
        c: &Place,
        (batch, [of_a, of_b, of_c]): (&Batch, &[Apart; 3]),
    ) -> Option<String> {
        if let GivenFactor::HighLow(_) = places.a {
            return Some("the factors are written as high and low parts".to_string());
        }
        if let GivenFactor::Columns(_) = places.a {
            return Some("the matrix over the activations is written".to_string());
        }
        if self.groups.is_some() || self.convolution.is_some() {
            return None;
        }
        let second = places.b2.as_ref().map(|b2| (B2, b2.is_packed()));
        let all = [("A", places.a.is_packed()), ("B", places.b.is_packed())];
        let all = all.into_iter().chain(second).chain([("C", c.is_packed())]);
        let packed: Vec<&str> = all
            .filter_map(|(name, is_packed)| is_packed.then_some(name))
            .collect();
        let packed = match &packed[..] {
            [] => "nothing is packed".to_string(),
            [one] => format!("{one} is packed"),
            [some @ .., last] => format!("{} and {last} are packed", some.join(", ")),
        };
        let [of_a, of_b, of_c] = [
            Matrix::of(&self.a, self.majors[0], *of_a),
            Matrix::of(&self.b, self.majors[1], *of_b),
            Matrix::of(&self.c, self.majors[2], *of_c),
        ];
        match self.unmapped(problem, batch, [of_a, of_b, of_c]) {
            Some(unmapped) if self.may_pack() => {
                let packing = packing_of(&unmapped, self.a.device());
                Some(format!("{packed}: {packing}"))
            }
            _ if packed.starts_with("nothing") => None,
            _ if self.is_batch_invariant && [of_a, of_b, of_c].iter().all(Option::is_some) => Some(
                format!("{packed}: TMA loads the rows of A for every number of rows"),
            ),
            _ => Some(format!("{packed}: no kernel takes such strides")),
        }
    }

    /// The product as it is, if Hopper's kernel does not multiply one of its matrices as TMA brings it and would if it were packed. Of a
    /// batch-invariant call it is that of any number of rows, whose A and C may lie in any way.
    fn unmapped(
        &self,
        problem: &GemmProblem,
        batch: &Batch,
        [a, b, c]: [Option<Matrix>; 3],
    ) -> Option<Unmapped> {
        if !takes_hopper(multiplied::<T>(problem), self.a.device().arch()) {
            return None;
        }
        let (mut problem, matrices) = if self.is_batch_invariant {
            let problem = GemmProblem {
                m: SOME_ROWS,
                ..of_any_number(problem)
            };
            (problem, [None, b, None])
        } else {
            (*problem, [a, b, c])
        };
        // Those with strides that no kernel takes are packed in any case.
        let packed = Matrix {
            address: 0,
            major: Major::Second,
            leading: 16,
            steps: Apart::default(),
        };
        let matrices = matrices.map(|matrix| matrix.unwrap_or(packed));
        let single = Batch::default();
        let shape = shape::<T, C>(&mut problem, &matrices, &single, self.wish(), None);
        let copies = [0, 1].map(|i: usize| {
            let modes = batch.extents().iter().zip(matrices[i].steps);
            let own = modes.filter(|(_, step)| *step != 0);
            let own = own.fold(1, |count: i64, (extent, _)| count.saturating_mul(*extent));
            // A second right factor is packed with the first.
            let factors = if i == 1 && self.b2.is_some() { 2 } else { 1 };
            own.saturating_mul(factors)
        });
        let is_mapped = shape.operands.are_mapped();
        (!is_mapped).then(|| Unmapped::new(&problem, shape.operands, copies))
    }

    fn call(
        &self,
        memory: &mut Workspace<'_>,
        may_pack: bool,
        wish: impl FnOnce(Operands, Arch) -> Result<Wish, Error>,
    ) -> Result<GemmCall<'a>, Error> {
        let device = self.a.device();
        let checked = self.checked()?;
        let (batch, apart) = self.batch()?;
        let mut steps = Steps::default();
        let (bound, reductions) = self.bound(&batch, |bytes| steps.take(bytes, memory))?;
        for (shape, addresses) in reductions {
            let reduction = reduction(device, shape, addresses)?;
            steps.reductions.push(reduction);
        }
        let Some(mut problem) = checked else {
            return Ok(GemmCall {
                filled: steps.reductions,
                ..GemmCall::of_nothing(device)
            });
        };
        let (factors, c) = self.places(&problem, may_pack, (&batch, &apart))?;
        let (a, b, b2) = match factors {
            Some(Places { a, b, b2 }) => {
                let a = steps.operand("A", &self.a, a, memory)?;
                let b = steps.operand("B", &self.b, b, memory)?;
                let b2 = match (&self.b2, b2) {
                    (Some(view), Some(b2)) => Some(steps.operand(B2, view, b2, memory)?),
                    _ => None,
                };
                if problem.compute == Some(Compute::Tf32x3) {
                    problem.k *= high_low::TIMES;
                }
                (a, b, b2)
            }
            None => {
                problem = of_zeros(problem);
                let count = problem.m.max(problem.n);
                let zeros = scratch::zeros(device, count as usize * T::BYTES)?;
                let [a, b] = steps.zeros(count, zeros);
                (a, b, self.b2.as_ref().map(|_| b))
            }
        };
        let reads_c = match &self.epilogue {
            Some(epilogue) => epilogue.reads_c(),
            None => self.beta != 0.0,
        };
        let c = steps.output(&self.c, c, reads_c, memory)?;
        let mut addresses: Addresses = [a, b, c].iter().map(|matrix| matrix.address).collect();
        addresses.extend(b2.map(|b2| b2.address));
        addresses.extend(self.groups.as_ref().map(|groups| groups.bytes.0));
        if let Some(chunks) = self.chunks.as_ref().filter(|_| batch.chunks().is_some()) {
            addresses.extend(chunks.flags());
            addresses.extend(chunks.other_owners());
            addresses.extend(
                chunks
                    .departs()
                    .into_iter()
                    .flat_map(GivenDepartures::addresses),
            );
        }
        let matrices = self.aligned([a, b2.map_or(b, |b2| b.aligned_with(&b2)), c]);
        if let Some(lists) = &self.lists {
            if device.is_capturing()? {
                return Err(ErrorKind::Captured.into());
            }
            let zeros = steps.zeros.is_some().then_some([a.address, b.address]);
            let table = device.upload(&lists.table(zeros))?;
            // The call may run on another stream.
            device.synchronize()?;
            addresses.push(table.address());
            steps.table = Some(table);
        }
        let bound = bound.map(|(arguments, more)| {
            addresses.extend(more);
            arguments
        });
        let mut shape = shape::<T, C>(&mut problem, &matrices, &batch, Wish::Fastest, bound);
        shape.wish = wish(shape.operands, device.arch())?;
        if let (Wish::Plan(plan), true) = (shape.wish, self.is_batch_invariant) {
            check_invariant(&plan, &problem, &shape, device)?;
        }
        // What is measured is a plain product.
        let is_plain = self.epilogue.is_none()
            && self.groups.is_none()
            && self.lists.is_none()
            && self.chunks.is_none()
            && self.convolution.is_none()
            && problem.batch == 1;
        if let (Some(measured), Wish::Fastest, true) = (self.measured, shape.wish, is_plain) {
            let bytes = Operand::ALL.map(|operand| {
                let [outer, inner] = match problem.majors[operand as usize] {
                    Major::First => [1, 0],
                    Major::Second => [0, 1],
                };
                let extents = problem.extents(operand).map(|(extent, _)| extent);
                let elements = (extents[outer] - 1) * problem.leading_of(operand) + extents[inner];
                let size = if operand == Operand::C {
                    C::BYTES
                } else {
                    T::BYTES
                };
                elements as usize * size
            });
            let at = (bytes, &addresses[..]);
            shape.wish = tuned::<T>(measured, &problem, &shape, device, at)?;
        }
        let explained = Explained::new(&problem, &shape);
        let gemms = device.extension::<PreparedGemms>();
        let product = |shape| {
            gemms.0.call(shape, &addresses, device, |shape| {
                prepare(&problem, shape, device, &addresses)
            })
        };
        let (mut product, wanted) = (product(shape.clone())?, &product);
        let (mut sums, mut words) = (None, None);
        let plan = product.about().plan;
        if let bytes @ 1.. = plan.workspace(&problem) {
            let count = plan.words(&problem);
            if count > 0 {
                words = memory.take_words(device, (WordKind::Counters, count as usize))?;
            }
            if count == 0 || words.is_some() {
                sums = memory.take_rest(bytes as usize)?;
            }
            // A capture of the same call takes this kernel, which must be loaded by then.
            let without = wanted(GemmShape {
                wish: Wish::Whole,
                ..shape
            })?;
            product = match &sums {
                None => without,
                Some(sums) => {
                    let words = words.as_ref().map(|words| words.address());
                    Arc::new(product.with_workspace(sums.address, words))
                }
            };
        }
        Ok(GemmCall {
            device: device.clone(),
            filled: Vec::new(),
            work: Some(Arc::new(Work {
                steps,
                explained,
                product,
                function: OnceLock::new(),
                needs_memory: plan.workspace(&problem) > 0,
                sums: sums.and_then(|piece| piece.memory),
                words,
            })),
            matrices: PhantomData,
        })
    }
}

/// A prepared product. It may be launched any number of times while its matrices exist. Concurrent runs on several
/// streams are a data race, since each of them writes C. Two runs at once by a plan whose blocks add the parts of K
/// ([`Division::SplitKFixup`](super::Division::SplitKFixup)) also share the words by which blocks wait, and may never end.
///
/// Its `Display` output lists its steps in order:
///
/// ```
/// use colex_gpu::{Device, Gemm, View};
///
/// let device = Device::simulator(colex_atom::Arch::Sm80);
/// let (a, b) = (device.upload(&[1f32; 64])?, device.upload(&[1f32; 16])?);
/// let mut c = device.poisoned::<f32>(16)?;
/// // Every second element of every second row: no stride is 1.
/// let scattered = View::new(&a, "(4,4):(16,2)")?;
/// let call = Gemm::new(&scattered, &b.view((4, 4))?, &c.view_mut((4, 4))?).prepare()?;
/// assert_eq!(
///     call.to_string(),
///     "pack A: (4,4):(2,16) -> (4,4):(1,4) of 4 bytes: strided, 4 bytes per access; \
///      SIMT f32 to f32, tile 128x128x16, 2 stages, grouped 8 along m"
/// );
/// call.run(&device)?;
/// assert_eq!(c.download()?, [4.0; 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GemmCall<'a> {
    device: Device,
    /// `None` if there is nothing to multiply.
    work: Option<Arc<Work>>,
    /// The sums of no elements, where there is nothing to multiply.
    filled: Vec<Arc<Call<()>>>,
    matrices: PhantomData<&'a ()>,
}

/// How the kernel is given a factor.
enum GivenFactor {
    /// As its numbers.
    Plain(Place),
    /// As their high and low parts.
    HighLow(Box<HighLow>),
    /// As the matrix over the activations of a convolution, written out.
    Columns(Box<Columns>),
}

impl GivenFactor {
    /// Whether it is packed as it is.
    fn is_packed(&self) -> bool {
        match self {
            GivenFactor::Plain(place) => place.is_packed(),
            GivenFactor::HighLow(_) | GivenFactor::Columns(_) => false,
        }
    }

    /// Returns the matrix that a kernel is given, with an address of its alignment.
    fn matrix(&self) -> Matrix {
        match self {
            GivenFactor::Plain(place) => place.matrix(),
            GivenFactor::HighLow(parts) => parts.at(0),
            GivenFactor::Columns(columns) => columns.at(0),
        }
    }

    /// Returns the bytes of memory that it takes.
    fn bytes(&self) -> usize {
        match self {
            GivenFactor::Plain(place) => place.bytes(),
            GivenFactor::HighLow(parts) => parts.bytes(),
            GivenFactor::Columns(columns) => columns.bytes(),
        }
    }
}

/// How the kernel is given the factors.
struct Places {
    a: GivenFactor,
    b: GivenFactor,
    b2: Option<GivenFactor>,
}

/// A product before its kernels.
struct Opened {
    problem: GemmProblem,
    shape: GemmShape,
    /// What the model says of packing, if it is asked.
    packing: Option<String>,
    reductions: Reductions,
}

impl Places {
    /// Returns A, the right factors, and C, as kernels are given them.
    fn matrices(&self, c: &Place) -> [Matrix; 3] {
        let b = self.b.matrix();
        let b = match &self.b2 {
            Some(b2) => b.aligned_with(&b2.matrix()),
            None => b,
        };
        [self.a.matrix(), b, c.matrix()]
    }

    /// Returns the bytes of memory that each of them takes.
    fn bytes(&self) -> impl Iterator<Item = usize> {
        let factors = [&self.a, &self.b].into_iter().chain(&self.b2);
        factors.map(GivenFactor::bytes)
    }
}

/// Numbers of rows that stand for all others: with any number, the vectors along M are those of one of these, its tiles are whole
/// if those of one of these are, and so on. One row has no stride, two are the most of the GEMV kernel, and groups of 65 and of
/// 1024 rows have other plans than those of fewer.
const SOME_NUMBERS: [i64; 13] = [1, 2, 3, 4, 8, 16, 32, 64, 65, 128, 256, 512, 1024];

/// The name of the second right factor.
pub(crate) const B2: &str = "B2";

/// The work of a call.
#[derive(Debug)]
struct Work {
    steps: Steps,
    explained: Explained,
    product: Arc<Call<BuiltProduct>>,
    /// Made for the first caller that asks for it: a run needs none.
    function: OnceLock<Function>,
    /// Whether its default plan sums parts of K through memory.
    needs_memory: bool,
    /// The memory through which parts of K are summed, if the call owns it.
    sums: Option<Buffer<u8>>,
    /// The words by which blocks meet that have parts of one tile.
    words: Option<Buffer<u32>>,
}

/// What a plan is chosen by.
#[derive(Debug)]
struct Explained {
    /// The product as the kernel is given it.
    problem: GemmProblem,
    operands: Operands,
    /// Whether the model of time compares the plans of such a product.
    is_modelled: bool,
}

impl Explained {
    fn new(problem: &GemmProblem, shape: &GemmShape) -> Explained {
        Explained {
            problem: *problem,
            operands: shape.operands,
            is_modelled: shape.batch.groups().is_none() && shape.batch.convolution().is_none(),
        }
    }

    /// Returns what the model says of a plan and of others.
    fn of(&self, plan: Option<&GemmPlan>, device: &Device) -> Option<String> {
        let plan = plan?;
        Some(if self.is_modelled {
            plan.explain_among(&self.problem, self.operands, device)
        } else {
            plan.to_string()
        })
    }
}

/// A step before a product.
#[derive(Debug)]
enum Before {
    /// A matrix is packed.
    Pack(CopyCall<'static>),
    /// A factor is written as its high and low parts.
    HighLow(HighLowCall),
    /// The matrix over the activations of a convolution is written out.
    Columns(ColumnsCall),
}

/// The copies before and after a product, and the memory that they need.
#[derive(Debug, Default)]
struct Steps {
    before: Vec<(&'static str, Before)>,
    after: Option<CopyCall<'static>>,
    /// Sums and maxima, behind all else.
    reductions: Vec<Arc<Call<()>>>,
    memory: Vec<Buffer<u8>>,
    /// The operands of a product that is 0, kept for as long as the call.
    zeros: Option<Buffer<u8>>,
    /// The addresses of the matrices of lists.
    table: Option<Buffer<u64>>,
}

impl Steps {
    /// Whether there is no step and no memory.
    fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.after.is_none()
            && self.reductions.is_empty()
            && self.memory.is_empty()
            && self.zeros.is_none()
            && self.table.is_none()
    }

    /// Returns an operand as the kernel is given it.
    fn operand<T: GemmElement>(
        &mut self,
        name: &'static str,
        view: &View<'_, T>,
        factor: GivenFactor,
        memory: &mut Workspace<'_>,
    ) -> Result<Matrix, Error> {
        let packed = match factor {
            GivenFactor::Plain(Place::Here(matrix)) => return Ok(matrix),
            GivenFactor::Plain(Place::Packed(packed)) => packed,
            GivenFactor::HighLow(parts) => {
                let address = self.take(parts.bytes(), memory)?;
                let (copy, call) = parts.fill(view, address)?;
                self.before
                    .extend(copy.map(|copy| (name, Before::Pack(copy))));
                self.before.push((name, Before::HighLow(call)));
                return Ok(parts.at(address));
            }
            GivenFactor::Columns(columns) => {
                let address = self.take(columns.bytes(), memory)?;
                let call = columns.fill(view, address)?;
                self.before.push((name, Before::Columns(call)));
                return Ok(columns.at(address));
            }
        };
        let address = self.take(packed.bytes(), memory)?;
        let fill = packed.fill(view, address)?;
        self.before.push((name, Before::Pack(fill)));
        Ok(packed.at(address))
    }

    /// Returns C as the kernel is given it. Packed memory is copied to C after the product and, if `is_read`, from C
    /// before.
    fn output<C: GemmElement>(
        &mut self,
        view: &View<'_, C>,
        place: Place,
        is_read: bool,
        memory: &mut Workspace<'_>,
    ) -> Result<Matrix, Error> {
        let packed = match place {
            Place::Here(matrix) => return Ok(matrix),
            Place::Packed(packed) => packed,
        };
        let address = self.take(packed.bytes(), memory)?;
        if is_read {
            let fill = packed.fill(view, address)?;
            self.before.push(("C", Before::Pack(fill)));
        }
        self.after = Some(packed.empty(view, address)?);
        Ok(packed.at(address))
    }

    /// Takes memory for a packed matrix, and returns its address.
    fn take(&mut self, bytes: usize, memory: &mut Workspace<'_>) -> Result<u64, Error> {
        let piece = memory.take(bytes)?;
        self.memory.extend(piece.memory);
        Ok(piece.address)
    }

    /// Returns two columns of `count` zeros, which lie in `zeros`.
    fn zeros(&mut self, count: i64, zeros: Buffer<u8>) -> [Matrix; 2] {
        let column = Matrix::column(zeros.address(), count);
        self.zeros = Some(zeros);
        [column; 2]
    }
}

impl<'a> GemmCall<'a> {
    /// A call without work.
    fn of_nothing(device: &Device) -> GemmCall<'a> {
        GemmCall {
            device: device.clone(),
            work: None,
            filled: Vec::new(),
            matrices: PhantomData,
        }
    }

    /// Returns the plan of the product; `None` if there is nothing to do.
    pub fn plan(&self) -> Option<&GemmPlan> {
        self.work.as_ref().map(|work| &work.product.about().plan)
    }

    /// Returns the kernel of the product with its report; `None` if there is nothing to do.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.work
            .as_ref()
            .map(|work| &*work.product.about().product)
    }

    /// Returns the kernel that adds the parts of K and stores C; `None` if the plan divides no tile.
    ///
    /// ```
    /// use colex_gpu::kernels::gemm::GemmPlan;
    /// use colex_gpu::{Device, Gemm};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let a = device.zeros::<bf16>(64 * 256)?;
    /// let mut c = device.poisoned::<f32>(64 * 64)?;
    /// let rows = a.view((64, 256))?;
    /// let call = Gemm::new(&rows, &rows, &c.view_mut((64, 64))?).prepare_with(|operands, arch| {
    ///     let plan = GemmPlan::candidates(operands, arch)[0];
    ///     Ok(GemmPlan { split: 2, undivided: 0, ..plan })
    /// })?;
    /// assert_eq!(call.built_sum().map(|built| built.kernel.name.as_str()), Some("gemm_sum"));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn built_sum(&self) -> Option<&TensorKernel> {
        self.work.as_ref()?.product.about().sum.as_deref()
    }

    /// Returns the kernel of the product on its device; `None` if there is nothing to do.
    pub fn function(&self) -> Option<&Function> {
        let work = self.work.as_ref()?;
        let mut kernels = work.product.kernels();
        let kernel = kernels.next().expect("a product is a launch");
        let function = || calls::function(&self.device, kernel);
        Some(work.function.get_or_init(function))
    }

    /// Returns what the call does and why: its steps, the cost of its plan by the terms of the model, and those of the plans that the
    /// model says are the fastest among the others. Times are in microseconds, by the [rates](Device::rates) of the device.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let (a, b) = (device.zeros::<bf16>(64 * 4096)?, device.zeros::<bf16>(256 * 4096)?);
    /// let mut c = device.poisoned::<bf16>(64 * 256)?;
    /// let (a, b) = (a.view((64, 4096))?, b.view((256, 4096))?);
    /// let said = Gemm::new(&a, &b, &c.view_mut((64, 256))?).prepare()?.explain();
    /// assert!(said.starts_with("Hopper bf16 to bf16, tile "));
    /// assert_eq!(said.lines().count(), 6); // the plan, and five others
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        let Some(work) = &self.work else {
            return self.to_string();
        };
        let of_plan = work.explained.of(self.plan(), &self.device);
        let lines = self.said_before().chain(of_plan).chain(self.said_behind());
        lines.collect::<Vec<String>>().join("\n")
    }

    /// Returns the names of the matrices that are packed before the product, `A`, `B`, `B2` or `C`, each with its copy.
    pub fn packed(&self) -> impl Iterator<Item = (&'static str, &CopyCall<'static>)> {
        self.before().filter_map(|(name, step)| match step {
            Before::Pack(copy) => Some((name, copy)),
            Before::HighLow(_) | Before::Columns(_) => None,
        })
    }

    /// Returns the names of the factors that are written as high and low parts before the product ([`Compute::Tf32x3`]), `A`,
    /// `B` or `B2`, each with its kernel.
    ///
    /// ```
    /// use colex_gpu::kernels::Compute;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
    /// let mut c = device.poisoned::<f32>(4)?;
    /// let rows = a.view((2, 2))?;
    /// let call = Gemm::new(&rows, &rows, &c.view_mut((2, 2))?).compute(Compute::Tf32x3).prepare()?;
    /// let names: Vec<_> = call.in_parts().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["A", "B"]);
    /// assert!(call.to_string().starts_with("A in high and low parts; B in high and low parts; Ampere tf32 to f32"));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn in_parts(&self) -> impl Iterator<Item = (&'static str, &TensorKernel)> {
        self.before().filter_map(|(name, step)| match step {
            Before::Pack(_) | Before::Columns(_) => None,
            Before::HighLow(parts) => Some((name, parts.built())),
        })
    }

    /// Returns the kernel that writes the matrix over the activations of a convolution before the product; `None` where a kernel
    /// loads its columns from the activations, and if the product is no convolution.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::gemm::Convolution;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, filters) = (device.upload(&[1f32; 48])?, device.upload(&[1f32; 27])?);
    /// let mut y = device.poisoned::<f32>(4)?;
    /// let (x, filters) = (x.view((1, 4, 4, 3))?, filters.view((1, 3, 3, 3))?);
    /// let call = Convolution::new(&x, &filters, &y.view_mut((1, 2, 2, 1))?).prepare()?;
    /// assert_eq!(call.written().map(|built| built.kernel.name.as_str()), Some("convolution_columns"));
    /// call.run(&device)?;
    /// assert_eq!(y.download()?, [27.0; 4]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn written(&self) -> Option<&TensorKernel> {
        self.before().find_map(|(_, step)| match step {
            Before::Columns(columns) => Some(columns.built()),
            Before::Pack(_) | Before::HighLow(_) => None,
        })
    }

    /// The steps before the product, in order, with the names of their matrices.
    fn before(&self) -> impl Iterator<Item = (&'static str, &Before)> {
        let steps = self.work.iter().flat_map(|work| &work.steps.before);
        steps.map(|(name, step)| (*name, step))
    }

    /// Returns the copy to C that follows the product, if C has strides that no kernel takes.
    pub fn unpacked(&self) -> Option<&CopyCall<'static>> {
        self.work.as_ref()?.steps.after.as_ref()
    }

    /// Runs the call on the simulator, and returns what each of its launches counted, in order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        let mut reports = Vec::new();
        same_device(device, &self.device)?;
        for filled in &self.filled {
            reports.extend(filled.profile(device)?);
        }
        let Some(work) = &self.work else {
            return Ok(reports);
        };
        for (_, step) in &work.steps.before {
            reports.extend(match step {
                Before::Pack(copy) => copy.profile(device)?,
                Before::HighLow(parts) => parts.profile(device)?,
                Before::Columns(columns) => columns.profile(device)?,
            });
        }
        reports.extend(work.product.profile(device)?);
        if let Some(copy) = &work.steps.after {
            reports.extend(copy.profile(device)?);
        }
        for reduction in &work.steps.reductions {
            reports.extend(reduction.profile(device)?);
        }
        Ok(reports)
    }

    /// Enqueues the call on a stream of its device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        let mut filled = self.filled.iter();
        filled.try_for_each(|filled| filled.run(device))?;
        let Some(work) = &self.work else {
            return Ok(());
        };
        for (_, step) in &work.steps.before {
            match step {
                Before::Pack(copy) => copy.run(device)?,
                Before::HighLow(parts) => parts.run(device)?,
                Before::Columns(columns) => columns.run(device)?,
            }
        }
        let ran = work.product.run(device);
        // A simulated kernel that fails leaves its counts, and the next run may succeed.
        match (&ran, &work.words) {
            (Err(_), Some(words)) if device.is_simulator() => words.fill_bytes(0)?,
            _ => (),
        }
        ran?;
        if let Some(copy) = &work.steps.after {
            copy.run(device)?;
        }
        let mut reductions = work.steps.reductions.iter();
        reductions.try_for_each(|reduction| reduction.run(device))
    }

    /// Returns the launches of the product itself, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let work = self.work.as_ref().map(|work| &work.product);
        work.map_or(Ok(Vec::new()), |work| work.bare(&self.device))
    }

    /// The launches, if they are all that the call is: it needs no memory and no steps beside them.
    fn alone(&self) -> Option<Arc<Call<BuiltProduct>>> {
        let work = self.work.as_ref().filter(|_| self.filled.is_empty())?;
        let is_alone = work.steps.is_empty() && !work.needs_memory;
        is_alone.then(|| work.product.clone())
    }

    /// Returns the memory to the device on whose stream the call ran last.
    fn give_back(self, device: &Device) {
        if let Some(work) = self.work.and_then(Arc::into_inner) {
            for piece in work.steps.memory.into_iter().chain(work.sums) {
                scratch::give_back(device, piece);
            }
            if let Some(words) = work.words {
                scratch::give_back_words(device, (WordKind::Counters, words));
            }
        }
    }
}

impl GemmCall<'_> {
    /// What the steps before the product do.
    fn said_before(&self) -> impl Iterator<Item = String> {
        self.before().map(|(name, step)| match step {
            Before::Pack(copy) => format!("pack {name}: {}", matrix::plan(copy)),
            Before::HighLow(_) => format!("{name} in high and low parts"),
            Before::Columns(_) => "write the matrix over the activations".to_string(),
        })
    }

    /// What the steps behind the product do.
    fn said_behind(&self) -> impl Iterator<Item = String> {
        let copy = self.unpacked();
        let unpack = copy.map(|copy| format!("unpack C: {}", matrix::plan(copy)));
        let reductions = self.work.as_ref().map(|work| work.steps.reductions.len());
        let reductions = match reductions {
            None | Some(0) => None,
            Some(1) => Some("a reduction".to_string()),
            Some(many) => Some(format!("{many} reductions")),
        };
        unpack.into_iter().chain(reductions)
    }
}

impl fmt::Display for GemmCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(plan) = self.plan() else {
            return match self.filled.len() {
                0 => f.write_str("nothing to do"),
                1 => f.write_str("a sum of no elements"),
                many => write!(f, "{many} sums of no elements"),
            };
        };
        let plan = [plan.to_string()];
        let steps = self.said_before().chain(plan).chain(self.said_behind());
        f.write_str(&steps.collect::<Vec<String>>().join("; "))
    }
}

/// The product of one column of zeros with another, in the place of one that is 0: the ordinary epilogue scales C.
fn of_zeros(problem: GemmProblem) -> GemmProblem {
    GemmProblem {
        k: 1,
        alpha: 1.0,
        ..problem
    }
}

/// The plan of a product, checked, for its extents.
fn plan_of(problem: &GemmProblem, shape: &GemmShape, device: &Device) -> Result<GemmPlan, Error> {
    let groups = shape.batch.groups();
    let operands = |way| match groups {
        Some(groups) => groups::narrowed(groups, way, shape.operands),
        None => shape.operands,
    };
    let convolution = shape.batch.convolution();
    let awaits = (shape.epilogue.as_ref()).is_some_and(|epilogue| epilogue.kernel.awaits);
    let plan = match (shape.wish, groups) {
        (Wish::Fastest | Wish::Whole | Wish::BatchInvariant, Some(groups)) => {
            groups::choose(groups, problem, shape.operands, device.arch())
        }
        (Wish::Fastest | Wish::Whole | Wish::BatchInvariant, None)
            if shape.batch.is_listed() || shape.batch.exceeds_maps() =>
        {
            lists::choose(shape.operands, device.arch())
        }
        (wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant), None)
            if let (true, Some(convolution)) = (awaits, convolution) =>
        {
            let machine = Machine::of(device.rates());
            let of = (shape.operands, device.arch());
            let wish = whole_unless_invariant(wish);
            of_whole_tiles(convolutions::choose::choose(
                convolution,
                wish,
                problem,
                of,
                machine,
            ))
        }
        (wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant), None)
            if shape.batch.chunks().is_some() || awaits =>
        {
            let at = (device.arch(), Machine::of(device.rates()));
            let taken = &taken(problem, &shape.batch);
            let form = shape.batch.chunks().map(|chunks| chunks.form);
            if wish == Wish::BatchInvariant {
                chunks::choose_invariant(taken, shape.operands, at, form)
            } else {
                chunks::choose(taken, shape.operands, at, form)
            }
        }
        (wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant), None)
            if let Some(convolution) = convolution =>
        {
            let machine = Machine::of(device.rates());
            let of = (shape.operands, device.arch());
            convolutions::choose::choose(convolution, wish, problem, of, machine)
        }
        (wish, _) => wished(wish, problem, operands, shape, device),
    };
    match shape.epilogue {
        Some(_) => plan.check_kernel(device.arch())?,
        None => plan.check(device.arch())?,
    }
    if let Some(groups) = groups {
        groups::check(groups, &plan, problem)?;
    }
    if shape.batch.is_listed() {
        lists::check(&plan)?;
    }
    shape.batch.check(&plan)?;
    if awaits {
        awaited::check(&plan)?;
    }
    if convolution.is_some() {
        convolutions::form::check(&plan)?;
    }
    let of_call = GemmProblem {
        // The tiles of groups were counted above.
        batch: if groups.is_some() { 1 } else { problem.batch },
        ..*problem
    };
    plan.check_call(&of_call, &operands((plan.method, plan.gather)))?;
    let plan = plan.narrowed(problem);
    if let Some(chunks) = shape.batch.chunks() {
        // Rows that end within a vector have narrower ones, which threads store.
        chunks::check(&plan, chunks.form)?;
    }
    Ok(GemmPlan {
        // The parts of groups end anywhere.
        whole: plan.whole && groups.is_none(),
        ..plan
    })
}

/// The wish of a convolution whose tiles wait for flags: its kernel divides no tile.
fn whole_unless_invariant(wish: Wish) -> Wish {
    match wish {
        Wish::BatchInvariant => wish,
        _ => Wish::Whole,
    }
}

/// A plan of a convolution without parts of tiles, whose kernel is the one that takes K whole.
fn of_whole_tiles(plan: GemmPlan) -> GemmPlan {
    GemmPlan {
        split: 1,
        division: Division::SplitK,
        undivided: 0,
        ..plan
    }
}

/// The problem of the products that the kernel takes, of those of a batch.
fn taken(problem: &GemmProblem, batch: &Batch) -> GemmProblem {
    let chunks = batch.chunks();
    GemmProblem {
        batch: chunks.map_or(problem.batch, |chunks| chunks.taken(problem.batch)),
        ..*problem
    }
}

/// Checks that a given plan sums each row in the order of the plan that a batch-invariant call takes by itself.
fn check_invariant(
    plan: &GemmPlan,
    problem: &GemmProblem,
    shape: &GemmShape,
    device: &Device,
) -> Result<(), Error> {
    // The numbers of the plan may be anything, and its tiles are counted below.
    plan.check_kernel(device.arch())?;
    let invariant = GemmShape {
        wish: Wish::BatchInvariant,
        ..shape.clone()
    };
    let wanted = plan_of(problem, &invariant, device)?;
    // Parts of K begin at whole steps, and the kernel of a convolution sums a step under all taps before the next one.
    let has_steps = wanted.cluster[2] > 1 || shape.batch.convolution().is_some();
    // A plan in parts that leaves all tiles whole has one.
    let parts = |plan: &GemmPlan| match plan.divided_tiles(problem) {
        0 => 1,
        _ => plan.split,
    };
    let order = |plan: &GemmPlan| {
        [
            ("method", plan.method.to_string()),
            ("number of parts of K", parts(plan).to_string()),
            (
                "number of a cluster's blocks along K",
                plan.cluster[2].to_string(),
            ),
            (
                "tile along K",
                if has_steps { plan.tile[2] } else { 0 }.to_string(),
            ),
        ]
    };
    for ((what, plan), (_, wanted)) in order(plan).into_iter().zip(order(&wanted)) {
        if plan != wanted {
            return Err(ErrorKind::PlanInvariant { what, plan, wanted }.into());
        }
    }
    Ok(())
}

/// The plan of a product without groups, whose operands a function of the method returns.
fn wished(
    wish: Wish,
    problem: &GemmProblem,
    operands: impl Fn((GemmMethod, bool)) -> Operands,
    shape: &GemmShape,
    device: &Device,
) -> GemmPlan {
    let machine = Machine::of(device.rates());
    match wish {
        Wish::Plan(plan) => plan,
        Wish::Method(method) => GemmPlan::new(method, operands((method, false))),
        Wish::Fastest => choose(problem, shape.operands, device.arch(), machine),
        Wish::Whole => choose_whole(problem, shape.operands, device.arch(), machine),
        Wish::BatchInvariant => choose_invariant(problem, shape.operands, device.arch(), machine),
    }
}

/// What all calls with a problem's numbers have in common, made for these addresses.
pub(super) fn prepare(
    problem: &GemmProblem,
    shape: &GemmShape,
    device: &Device,
    addresses: &[u64],
) -> Result<Shape<BuiltProduct>, Error> {
    let plan = plan_of(problem, shape, device)?;
    let given = shape.epilogue.as_deref();
    let (seen, order) = plan.seen(problem);
    let launched = &plan.launched();
    let (form, epilogue) = form(&plan, shape);
    let steps = order.map(|operand| shape.steps[operand]);
    let of_batch = (&shape.batch, form, &steps);
    let loaded = |role: Role| {
        let of_kernel = launched.of_kernel(&form, device.arch());
        loaded(&(of_kernel, form, epilogue.clone(), role), device)
    };
    let kernel = loaded(Role::Product)?;
    let in_order = order.map(|operand| addresses[operand]);
    let layouts = given.map(|given| given.layouts(plan.swap));
    // The addresses are those of A, B and C, of a second right factor, of the numbers of groups, and of the epilogue's tensors.
    let second = plan.operands.gated.then_some(3);
    let has_flags = form.chunks.is_some_and(|chunks| chunks.arrives);
    let has_numbers = form.groups.is_some() || form.is_listed || has_flags;
    let numbers = has_numbers.then(|| 3 + second.iter().len());
    let others = 3 + second.iter().len() + numbers.iter().len();
    let departed = others + form.owners().saturating_sub(1);
    let departs = form.chunks.is_some_and(|chunks| chunks.departs);
    let behind = departed + if departs { 2 } else { 0 };
    let more = |role: Role, built: &TensorKernel| {
        let Some((given, layouts)) = given.zip(layouts.as_ref()) else {
            return Ok(None);
        };
        let landing = epilogue.as_ref().filter(|_| role == Role::Product);
        let landing = landing.and_then(|epilogue| epilogue.landing(launched, &form));
        let landing = landing.map(|at| {
            let name = given.kernel.name_of_tensor(at);
            Ok::<_, Error>((at, built.tensor_map(name, &layouts[at])?))
        });
        let landing = landing.transpose()?;
        Ok::<_, Error>(Some(given.arguments(
            &addresses[behind..],
            layouts,
            landing,
        )))
    };
    let prepared = |kernel: &KernelOf, grid: Launch, given: Vec<Argument>, order: &[AddressOf]| {
        let tensors = (behind..addresses.len()).map(AddressOf::Operand);
        let order = order.iter().copied().chain(tensors);
        let loaded = kernel.loaded.clone();
        loaded.check_launch(&grid, &given, device.limits())?;
        let launch = PreparedLaunch::new(loaded, grid, given, addresses, order);
        Ok::<_, Error>(launch.in_order(!plan.early))
    };
    let factors = (in_order, second.map(|at| addresses[at]));
    let given = arguments(
        &seen,
        launched,
        of_batch,
        &kernel.built,
        (factors, numbers.map(|at| addresses[at])),
        &addresses[departed..behind],
        more(Role::Product, &kernel.built)?,
    )?;
    let of_taken = &taken(&seen, &shape.batch);
    let grid = launch(of_taken, launched, form.groups, &kernel.built, device);
    let [a, b, c] = order;
    let mut operands: Vec<usize> = [a, b].into_iter().chain(second).chain([c]).collect();
    // A kernel of rows, or for several widths, has a tensor map of C, and C itself.
    let has_rows = form.groups.is_some_and(Groups::has_rows);
    let has_both = launched.stages_c() && (has_rows || launched.columns != 0);
    operands.extend(has_both.then_some(c));
    operands.extend(others..departed);
    let behind_workspace = numbers.into_iter().chain(departed..behind);
    let mut order_of_all: Vec<AddressOf> = operands.into_iter().map(AddressOf::Operand).collect();
    order_of_all.extend(beside_operands(launched));
    order_of_all.extend(behind_workspace.map(AddressOf::Operand));
    let mut launches = vec![prepared(&kernel, grid, given, &order_of_all)?];
    let mut about = BuiltProduct {
        plan,
        product: kernel.built.clone(),
        sum: None,
    };
    if plan.has_sum_kernel() && plan.divided_tiles(problem) > 0 {
        let sum = loaded(Role::Sum)?;
        let blocks = split_sum::blocks(launched, plan.divided_tiles(problem)) as u32;
        let grid = Launch::new(blocks, WARPGROUP_THREADS);
        let grid = grid.dynamic_shared(sum.built.dynamic_shared());
        let given = arguments_of_sum(
            &seen,
            launched,
            of_batch,
            &sum.built,
            in_order[2],
            more(Role::Sum, &sum.built)?,
        )?;
        let order_of_sum = [AddressOf::Operand(order[2]), AddressOf::Workspace];
        launches.push(prepared(&sum, grid, given, &order_of_sum)?);
        about.sum = Some(sum.built.clone());
    }
    Ok(Shape::new(about, launches))
}

/// The batch and the epilogue as the kernel of a plan has them.
fn form(plan: &GemmPlan, shape: &GemmShape) -> (BatchForm, Option<KernelEpilogue>) {
    let form = shape.batch.form(plan, &shape.steps);
    let given = shape.epilogue.as_ref().map(|given| &given.kernel);
    if plan.swap {
        (form.turned(), given.map(KernelEpilogue::turned))
    } else {
        (form, given.cloned())
    }
}

/// A kernel on a device.
fn loaded(kernel: &GemmKernel, device: &Device) -> Result<Arc<KernelOf>, Error> {
    let gemms = device.extension::<PreparedGemms>();
    gemms.0.kernels.get_or_make(kernel, || {
        let built = built(kernel, device.arch())?;
        let loaded = device.load_kernel(&built.kernel)?;
        Ok(KernelOf { built, loaded })
    })
}

/// The kernels of the plans that a call can choose for a problem and that suit its number of rows.
fn kernels_of(
    problem: &GemmProblem,
    shape: &GemmShape,
    device: &Device,
) -> Result<Vec<GemmKernel>, Error> {
    let machine = Machine::of(device.rates());
    let (batch, operands) = (&shape.batch, shape.operands);
    let awaits = (shape.epilogue.as_ref()).is_some_and(|epilogue| epilogue.kernel.awaits);
    let plans: Vec<GemmPlan> = match shape.wish {
        wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant)
            if awaits && batch.convolution().is_some() =>
        {
            let wish = whole_unless_invariant(wish);
            let all = convolutions::choose::choosable(wish, (operands, device.arch()));
            all.map(|plan| of_whole_tiles(plan).narrowed(problem))
                .collect()
        }
        wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant)
            if (batch.chunks().is_some() || awaits)
                && batch.groups().is_none()
                && !batch.is_listed()
                && !batch.exceeds_maps() =>
        {
            let form = batch.chunks().map(|chunks| chunks.form);
            let of_all = &taken(problem, batch);
            let at = (device.arch(), machine);
            let is_batch_invariant = wish == Wish::BatchInvariant;
            let all = chunks::choosable(of_all, operands, at, form, is_batch_invariant);
            all.into_iter().map(|plan| plan.narrowed(problem)).collect()
        }
        wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant)
            if batch.convolution().is_some() && !batch.is_listed() && !batch.exceeds_maps() =>
        {
            let all = convolutions::choose::choosable(wish, (operands, device.arch()));
            all.map(|plan| plan.narrowed(problem)).collect()
        }
        wish @ (Wish::Fastest | Wish::Whole | Wish::BatchInvariant)
            if batch.groups().is_none() && !batch.is_listed() && !batch.exceeds_maps() =>
        {
            let all = choosable(wish, problem, operands, device.arch(), machine);
            let suits = |plan: &GemmPlan| plan.check_call(problem, &operands).is_ok();
            let narrowed = |plan: GemmPlan| plan.narrowed(problem);
            all.into_iter().filter(suits).map(narrowed).collect()
        }
        _ => vec![plan_of(problem, shape, device)?],
    };
    let kernels = plans.iter().flat_map(|plan| {
        let (form, epilogue) = form(plan, shape);
        let of_kernel = plan.launched().of_kernel(&form, device.arch());
        let key = move |role| (of_kernel, form, epilogue.clone(), role);
        let sum = plan.has_sum_kernel().then_some(Role::Sum);
        [Role::Product].into_iter().chain(sum).map(key)
    });
    Ok(kernels.collect())
}

/// The microseconds of a product with packed matrices and without.
fn packing_of(unmapped: &Unmapped, device: &Device) -> Packing {
    packing(unmapped, device.arch(), Machine::of(device.rates()))
}

/// What is known of a product before its plan. The problem gets the orders and leading dimensions of the matrices.
fn shape<T: GemmElement, C: GemmElement>(
    problem: &mut GemmProblem,
    matrices: &[Matrix; 3],
    batch: &Batch,
    wish: Wish,
    epilogue: Option<Arc<EpilogueArguments>>,
) -> GemmShape {
    problem.majors = matrices.map(|matrix| matrix.major);
    problem.leading = matrices.map(|matrix| Some(matrix.leading));
    let steps = matrices.map(|matrix| matrix.steps);
    let addresses = matrices.map(|matrix| matrix.address);
    let operands = operands::<T, C>(problem, addresses, &steps);
    let gated = epilogue
        .as_ref()
        .is_some_and(|epilogue| epilogue.kernel.epilogue.is_gated());
    let beta = match &epilogue {
        Some(epilogue) => epilogue.kernel.epilogue.reads_c(),
        None => operands.beta,
    };
    GemmShape {
        wish,
        operands: Operands {
            beta,
            gated,
            ..operands
        },
        sizes: [problem.m, problem.n, problem.k],
        leading: matrices.map(|matrix| matrix.leading),
        batch: batch.clone(),
        steps,
        factors: [problem.alpha, problem.beta].map(f64::to_bits),
        epilogue,
        alone: problem.alone,
        work: problem.epilogue,
    }
}

/// A factor as its high and low parts.
fn high_low<T: GemmElement>(
    side: Side,
    view: &View<'_, T>,
    of_batch: (&Batch, Apart),
) -> Result<GivenFactor, Error> {
    let parts = HighLow::new(side, view, of_batch)?;
    Ok(GivenFactor::HighLow(Box::new(parts)))
}

/// The type that the elements of A and B are multiplied in.
fn multiplied<T: GemmElement>(problem: &GemmProblem) -> Ty {
    match problem.compute {
        Some(Compute::Tf32 | Compute::Tf32x3) => Ty::Tf32,
        Some(Compute::F32 | Compute::F64 | Compute::S32) | None => T::TY,
    }
}

/// The facts about the matrices of a problem that decide about plans.
pub(crate) fn operands<T: GemmElement, C: GemmElement>(
    problem: &GemmProblem,
    addresses: [u64; 3],
    steps: &[Apart; 3],
) -> Operands {
    let bytes = [T::BYTES, T::BYTES, C::BYTES].map(|bytes| bytes as i64);
    let vectors = [0, 1, 2].map(|i| {
        let leading = alignment(problem.leading_of(Operand::ALL[i]), &steps[i]);
        vector(bytes[i], addresses[i], leading)
    });
    Operands {
        ab: multiplied::<T>(problem),
        c: C::TY,
        majors: problem.majors,
        vectors,
        beta: problem.beta != 0.0,
        gated: false,
    }
}

/// Checks that B and C are on the device of A.
fn one_device<const N: usize>(
    device: &Device,
    others: [(&'static str, &Device); N],
) -> Result<(), Error> {
    let mut others = others.into_iter();
    Ok(others.try_for_each(|(what, other)| device.check_same(what, other))?)
}

/// Checks that a product without an epilogue of its own has a C of such a type.
fn check_types<T: GemmElement, C: GemmElement>() -> Result<(), Error> {
    let (ab, can) = (T::TY, outputs(T::TY));
    if can.contains(&C::TY) {
        return Ok(());
    }
    let c = C::TY;
    Err(ErrorKind::Types { ab, c, can }.into())
}

/// Checks that products are computed in the type that a problem states.
fn check_compute<T: GemmElement>(problem: &GemmProblem) -> Result<(), Error> {
    let ab = T::TY;
    let can: &[Compute] = match T::COMPUTE {
        Compute::F32 if ab == Ty::F32 => &[Compute::F32, Compute::Tf32, Compute::Tf32x3],
        Compute::F32 | Compute::Tf32 | Compute::Tf32x3 => &[Compute::F32],
        Compute::F64 => &[Compute::F64],
        Compute::S32 => &[Compute::S32],
    };
    match problem.compute {
        Some(compute) if !can.contains(&compute) => {
            Err(ErrorKind::Compute { ab, compute, can }.into())
        }
        _ => Ok(()),
    }
}

/// Whether alpha and beta are numbers of the type that they scale in, unless they are infinite by themselves.
fn check_factors<T: GemmElement>(problem: &GemmProblem) -> Result<(), Error> {
    let ab = T::TY;
    let factors = [("alpha", problem.alpha), ("beta", problem.beta)];
    match factors.into_iter().find(|(_, x)| !holds_f32(*x)) {
        Some((what, value)) if scale_type(ab) == Type::F32 => Err(ErrorKind::Factor {
            what,
            value: format!("{value:e}"),
            ab,
        }
        .into()),
        _ => Ok(()),
    }
}

fn arguments(
    problem: &GemmProblem,
    plan: &GemmPlan,
    batch: OfBatch<'_>,
    built: &TensorKernel,
    (addresses, numbers): (([u64; 3], Option<u64>), Option<u64>),
    departed: &[u64],
    epilogue: Option<Vec<Arg<'_>>>,
) -> Result<Vec<Argument>, Error> {
    let layouts = Operand::ALL.map(|operand| layout(problem, plan, batch, operand));
    let family = plan.method.family();
    let of_batch = (plan, batch.0, batch.1);
    let mut given = family.matrices(problem, of_batch, built, &layouts, addresses)?;
    let of_numbers = match batch.1.groups {
        Some(groups) => Some(tiles::form(groups.numbers(problem.batch))),
        None if batch.1.is_listed => Some(lists::form(problem.batch)),
        None => numbers.map(|_| tiles::form(problem.batch)),
    };
    if let (Some(address), Some(layout)) = (numbers, &of_numbers) {
        given.push(Arg::checked(address, layout));
    }
    let of_departures = departures::layouts(problem.batch);
    given.extend(departures::arguments(departed, &of_departures));
    given.extend(epilogue.unwrap_or_else(|| factors(problem, plan).into()));
    Ok(built.arguments(&given)?)
}

/// The arguments of the kernel that adds the parts of K.
fn arguments_of_sum(
    problem: &GemmProblem,
    plan: &GemmPlan,
    batch: OfBatch<'_>,
    built: &TensorKernel,
    c: u64,
    epilogue: Option<Vec<Arg<'_>>>,
) -> Result<Vec<Argument>, Error> {
    let layout = layout(problem, plan, batch, Operand::C);
    let along = match plan.division {
        Division::SplitK | Division::SplitKFixup => None,
        Division::StreamK => Some(counted_along_k(problem, batch.0)),
    };
    let sizes = [problem.m, problem.n].into_iter().chain(along);
    let numbers = sizes.chain(batch.0.extents().iter().copied());
    let numbers = numbers.chain(numbers_of_parts(plan, problem, batch.0));
    let mut given = vec![Arg::checked(c, &layout)];
    given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as u32))));
    given.push(Arg::Value(NO_ADDRESS));
    given.extend(epilogue.unwrap_or_else(|| factors(problem, plan).into()));
    Ok(built.arguments(&given)?)
}

/// An operand of a problem under the layout that a plan's kernel was built for.
fn layout(
    problem: &GemmProblem,
    plan: &GemmPlan,
    (batch, form, steps): OfBatch<'_>,
    operand: Operand,
) -> Layout {
    let extents = problem.extents(operand).map(|(extent, _)| extent);
    let (leading, steps) = (problem.leading_of(operand), &steps[operand as usize]);
    form.bound(plan, operand, (extents, leading), (batch, steps))
}

/// A batch, its form in the kernel, and the strides of the matrices along its modes in the kernel's order.
type OfBatch<'b> = (&'b Batch, BatchForm, &'b [Apart; 3]);

/// Alpha and beta.
fn factors(problem: &GemmProblem, plan: &GemmPlan) -> [Arg<'static>; 2] {
    [problem.alpha, problem.beta].map(|x| match scale_type(plan.operands.ab) {
        Type::F32 => Arg::Value(Argument::F32(x as f32)),
        _ => Arg::Value(Argument::F64(x)),
    })
}

fn launch(
    problem: &GemmProblem,
    plan: &GemmPlan,
    groups: Option<Groups>,
    built: &TensorKernel,
    device: &Device,
) -> Launch {
    let [rows, columns] = plan.computed();
    let [tiles_m, tiles_n] =
        [(problem.m, rows), (problem.n, columns)].map(|(extent, tile)| (extent + tile - 1) / tile);
    let tiles = match groups {
        Some(groups) => [groups::most_tall(groups, plan, problem), tiles_n, 1],
        None => [tiles_m, tiles_n, problem.batch],
    };
    let threads = built.kernel.block.map_or(1, |block| block[0]);
    let launch = plan.method.family().launch(plan, tiles, threads, device);
    launch.dynamic_shared(built.dynamic_shared())
}

/// The kernels built so far, by plan and architecture. Building a kernel needs no device, so each kernel is built once
/// per process.
static BUILT: LazyLock<Memo<(GemmKernel, Arch), TensorKernel>> = LazyLock::new(|| Memo::new(256));

/// The kernel of a plan and an epilogue.
fn built(kernel: &GemmKernel, arch: Arch) -> Result<Arc<TensorKernel>, Error> {
    let (plan, batch, epilogue, role) = kernel;
    BUILT.get_or_make(&(kernel.clone(), arch), || match role {
        Role::Product => plan.unverified(*batch, epilogue.as_ref(), arch),
        Role::Sum => plan.unverified_sum(*batch, epilogue.as_ref(), arch),
    })
}

/// The refusal of matrices that are none of a list.
fn not_listed(why: &str) -> Error {
    let why = why.to_string();
    ErrorKind::Batch { why }.into()
}

/// The refusal of a view in groups that would have to be packed.
fn not_packed(name: &str, layout: Option<&Layout>) -> Error {
    let layout = layout.map_or(String::new(), |layout| format!(", {layout},"));
    let why = format!(
        "{name}{layout} has no contiguous mode of a matrix with rows that are apart: no kernel takes it, and matrices of groups are \
         not packed"
    );
    ErrorKind::Groups { why }.into()
}
