//! The matrix over the activations written out, for kernels that take no im2col tensor map of them.

use std::sync::{Arc, LazyLock};

use colex_atom::{Arch, Ty};
use colex_device::{Device, Extension, Memo, View};
use colex_layout::{Int, Layout};
use colex_sim::Report;
use colex_tensor::{Arg, Builder, Error, Index, TensorKernel};

use super::problem::{ConvolutionProblem, MOST_DILATION, MOST_PIXELS, MOST_STRIDE, MOST_TAPS};
use super::refuse;
use crate::calls::{Addresses, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape};
use crate::copy::pieces::raw;
use crate::gemm::batch::Apart;
use crate::gemm::factors::matrix::{ANYWHERE, Matrix};
use crate::gemm::problem::GemmElement;
use crate::kernels::Major;
use colex_ir::launch::{Argument, Launch};

/// The matrix over the activations, whose rows are written out.
#[derive(Debug)]
pub(crate) struct Columns {
    shape: ColumnsShape,
}

/// What the kernel is launched for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ColumnsShape {
    problem: ConvolutionProblem,
    positions: [i64; 2],
    /// The strides of the activations along C, W, H and N.
    strides: [i64; 4],
    bytes: i64,
    /// The elements from one row to the next.
    leading: i64,
}

/// What the kernel is built from: the bytes of an element, the channels, the taps along W, the elements that a load and a store
/// take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ColumnsKernel {
    bytes: i64,
    channels: i64,
    taps: i64,
    load: i64,
    store: i64,
    arch: Arch,
}

/// Threads of a block.
const THREADS: i64 = 256;

/// The most blocks of one launch, and the most threads.
const BLOCKS: i64 = 1 << 23;
const MOST: i64 = (BLOCKS - 1) * THREADS;

/// The largest stride that the kernel takes.
const MOST_STEP: i64 = 1 << 40;

impl Columns {
    /// Returns the matrix over activations (N,H,W,C) of these strides.
    ///
    /// # Errors
    ///
    /// Returns an error if a stride is beyond what the kernel takes.
    pub(crate) fn new<T: GemmElement>(
        problem: &ConvolutionProblem,
        [n, h, w, c]: [i64; 4],
    ) -> Result<Columns, crate::Error> {
        let bytes = T::BYTES as i64;
        let columns = problem.product()?.k;
        let strides = [c, w, h, n];
        if let Some(stride) = strides.iter().find(|stride| **stride >= MOST_STEP) {
            return refuse(format!(
                "the activations have a stride of {stride}: it must be below {MOST_STEP}"
            ));
        }
        let vector = 16 / bytes;
        let shape = ColumnsShape {
            problem: *problem,
            positions: problem.positions()?,
            strides,
            bytes,
            leading: (columns + vector - 1) / vector * vector,
        };
        let of_image = shape.of_image();
        if of_image > MOST {
            return refuse(format!(
                "the matrix over the activations of one image has {of_image} vectors of 16 bytes: at most {MOST} are written"
            ));
        }
        Ok(Columns { shape })
    }

    /// Returns the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let elements = self.shape.rows().saturating_mul(self.shape.leading);
        (elements as usize).saturating_mul(self.shape.bytes as usize)
    }

    /// Returns the matrix at an address.
    pub(crate) fn at(&self, address: u64) -> Matrix {
        Matrix {
            address,
            major: Major::Second,
            leading: self.shape.leading,
            steps: Apart::default(),
        }
    }

    /// Returns the work that writes it to an address.
    ///
    /// # Errors
    ///
    /// Returns the errors of the device.
    pub(crate) fn fill<T: GemmElement>(
        &self,
        x: &View<'_, T>,
        address: u64,
    ) -> Result<ColumnsCall, crate::Error> {
        let (device, addresses) = (x.device(), [x.bytes().0, address]);
        let calls = &device.extension::<PreparedColumns>().0;
        let call = calls.call(self.shape.clone(), &addresses, device, |shape| {
            shape.prepare(device, addresses)
        })?;
        Ok(ColumnsCall(call))
    }

    /// Loads the kernels that write it from activations, of any number of images: the step from one image to the next, which one image
    /// alone does not have, may cut vectors.
    ///
    /// # Errors
    ///
    /// Returns the errors of the device.
    pub(crate) fn load<T: GemmElement>(&self, x: &View<'_, T>) -> Result<(), crate::Error> {
        let addresses = [x.bytes().0, ANYWHERE];
        for images in [1, 2] {
            let mut shape = self.shape.clone();
            shape.problem.images = images;
            shape.prepare(x.device(), addresses)?;
        }
        Ok(())
    }
}

/// The kernel that writes the matrix, with its arguments.
#[derive(Debug)]
pub(crate) struct ColumnsCall(Arc<Call<Arc<TensorKernel>>>);

impl ColumnsCall {
    /// Returns the kernel.
    pub(crate) fn built(&self) -> &TensorKernel {
        self.0.about()
    }

    /// Enqueues the kernel.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the launch fails.
    pub(crate) fn run(&self, device: &Device) -> Result<(), crate::Error> {
        self.0.run(device)
    }

    /// Runs the kernel on the simulator, and returns what it counted.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub(crate) fn profile(&self, device: &Device) -> Result<Vec<Report>, crate::Error> {
        self.0.profile(device)
    }
}

/// The cache of what a device has prepared.
#[derive(Debug)]
struct PreparedColumns(PreparedCalls<ColumnsShape, ColumnsKernel, Arc<TensorKernel>>);

impl Default for PreparedColumns {
    fn default() -> PreparedColumns {
        PreparedColumns(PreparedCalls::new())
    }
}

impl Extension for PreparedColumns {
    fn clear(&self) {
        self.0.clear();
    }
}

/// The kernels built so far.
static BUILT: LazyLock<Memo<ColumnsKernel, TensorKernel>> = LazyLock::new(|| Memo::new(64));

impl ColumnsShape {
    fn rows(&self) -> i64 {
        let [p, q] = self.positions;
        p * q * self.problem.images
    }

    /// The vectors of the rows of one image.
    fn of_image(&self) -> i64 {
        let [p, q] = self.positions;
        (p * q).saturating_mul(self.leading * self.bytes / 16)
    }

    /// The same matrix over fewer modes: where the taps along W are side by side, all channels of all of them are one run, which the
    /// edges of an image cut at whole pixels. Channels are then pixels of one channel.
    fn joined(&self) -> ColumnsShape {
        let [c, w, ..] = self.strides;
        let problem = &self.problem;
        let channels = problem.channels;
        let [before, behind] = problem.padding[1];
        let is_run = c == 1 && w == channels && problem.dilation[1] == 1;
        let fits = problem.stride[1].saturating_mul(channels) <= MOST_STRIDE
            && [problem.size[1], before, behind]
                .iter()
                .all(|pixels| pixels.saturating_mul(channels) <= MOST_PIXELS);
        if !is_run || !fits {
            return self.clone();
        }
        let mut joined = self.clone();
        let of = &mut joined.problem;
        of.channels = 1;
        of.size[1] *= channels;
        of.taps[1] *= channels;
        of.stride[1] *= channels;
        of.padding[1] = [before * channels, behind * channels];
        joined.strides[1] = 1;
        joined
    }

    /// The kernel for an address of the activations: whole vectors of channels where strides, channels and address allow.
    fn kernel(&self, from: u64, arch: Arch) -> ColumnsKernel {
        let [c, w, h, n] = self.strides;
        let channels = self.problem.channels;
        let store = 16 / self.bytes;
        let [rows, columns] = self.problem.size;
        // The stride of a mode of extent 1 moves nothing.
        let moves = [(columns, w), (rows, h), (self.problem.images, n)];
        let are_whole = moves
            .into_iter()
            .all(|(extent, stride)| extent == 1 || stride % store == 0);
        let is_vector = c == 1 && channels % store == 0 && are_whole && from.is_multiple_of(16);
        ColumnsKernel {
            bytes: self.bytes,
            channels,
            taps: self.problem.taps[1],
            load: if is_vector { store } else { 1 },
            store,
            arch,
        }
    }

    fn prepare(
        &self,
        device: &Device,
        [from, to]: [u64; 2],
    ) -> Result<Shape<Arc<TensorKernel>>, crate::Error> {
        if self.kernel(from, device.arch()).load == 1 && self.problem.channels > 1 {
            let joined = self.joined();
            if joined != *self {
                return joined.prepare(device, [from, to]);
            }
        }
        let key = self.kernel(from, device.arch());
        let kernels = &device.extension::<PreparedColumns>().0.kernels;
        let kernel = kernels.get_or_make(&key, || {
            let built = BUILT.get_or_make(&key, || build(key))?;
            let loaded = device.load_kernel(&built.kernel)?;
            Ok::<_, crate::Error>(KernelOf { built, loaded })
        })?;
        let [p, q] = self.positions;
        let chunks = self.leading / key.store;
        let at_once = (MOST / self.of_image()).max(1);
        let mut launches = Vec::new();
        for first in (0..self.problem.images).step_by(at_once as usize) {
            let images = (self.problem.images - first).min(at_once);
            let rows = p * q * images;
            let x = self.activations(key.load, images)?;
            let matrix = matrix(rows, self.leading)?;
            let behind = |elements: i64| (elements * self.bytes) as u64;
            let mut given = vec![
                Arg::checked(from + behind(first * self.strides[3]), &x),
                Arg::checked(to + behind(first * p * q * self.leading), &matrix),
            ];
            let [of_h, of_w] = [0, 1].map(|d| {
                let of = &self.problem;
                [of.stride[d], of.padding[d][0], of.dilation[d]]
            });
            let numbers = [q, p].into_iter().chain(of_w).chain(of_h);
            given.extend(numbers.map(|n| Arg::Value(Argument::U32(n as u32))));
            let given = kernel.built.arguments(&given)?;
            let blocks = (rows * chunks - 1) / THREADS + 1;
            let launch = Launch::new(blocks as u32, THREADS as u32);
            let addresses = Addresses::from([from, to].as_slice());
            let loaded = kernel.loaded.clone();
            launches.push(PreparedLaunch::new(
                loaded,
                launch,
                given,
                &addresses,
                [0, 1],
            ));
        }
        Ok(Shape::new(kernel.built.clone(), launches))
    }

    /// The activations, (C,W,H,N), for loads of this many channels.
    fn activations(&self, load: i64, images: i64) -> Result<Layout, Error> {
        let [c, w, h, n] = self.strides;
        let [rows, columns] = self.problem.size;
        let d = Int::Dynamic;
        // The stride of a mode of extent 1 moves nothing, and a vector's is a multiple of any vector.
        let step = |extent: i64, stride: i64| d(if extent == 1 { 0 } else { stride });
        let channel = if load > 1 { Int::Static(1) } else { d(c) };
        Ok(Layout::new(
            (
                Int::Static(self.problem.channels),
                d(columns),
                d(rows),
                d(images),
            ),
            (channel, step(columns, w), step(rows, h), step(images, n)),
        )?)
    }
}

/// Rows of a matrix.
fn matrix(rows: i64, leading: i64) -> Result<Layout, Error> {
    let dynamic = Int::Dynamic;
    Ok(Layout::new(
        (dynamic(rows), dynamic(leading)),
        (dynamic(leading), Int::Static(1)),
    )?)
}

/// Builds the kernel: a vector of a row for each thread. Pixels in the padding have coordinates outside of the activations, and are 0.
///
/// # Errors
///
/// Returns the error of the layout algebra if a layout has no such partition.
fn build(key: ColumnsKernel) -> Result<TensorKernel, Error> {
    let ColumnsKernel {
        bytes,
        channels,
        taps,
        load,
        store,
        arch,
    } = key;
    let mut k = Builder::new("convolution_columns", arch, THREADS as u32);
    let (dynamic, ty): (_, Ty) = (Int::Dynamic, raw(bytes));
    let channel = if load > 1 { Int::Static(1) } else { dynamic(1) };
    let like = Layout::new(
        (
            Int::Static(channels),
            dynamic(256),
            dynamic(256),
            dynamic(64),
        ),
        (channel, dynamic(4096), dynamic(1 << 20), dynamic(1 << 28)),
    )?;
    let x = k.tensor("activations", ty, &like);
    let rows = k.tensor("matrix", ty, &matrix(4096, 4096)?);
    let [q, p] = ["q", "p"].map(|name| k.index_argument(name, 1..MOST_PIXELS + 1));
    let along = ["w", "h"].map(|name| {
        let mut number = |what: &str, range: core::ops::Range<i64>| {
            k.index_argument(&format!("{what}_{name}"), range)
        };
        let stride = number("stride", 1..MOST_STRIDE + 1);
        let padding = number("padding", 0..MOST_PIXELS + 1);
        [stride, padding, number("dilation", 1..MOST_DILATION + 1)]
    });
    let (block, thread) = (k.block_index(0), k.thread());
    let block = k.within(block, 0..BLOCKS);
    let number = block * THREADS + thread;
    let chunks = k.within(rows.extent(1) / store, 1..MOST + 1);
    let (row, chunk) = (&number / &chunks, &number % &chunks);
    let (of_row, rest) = (&row % &q, &row / &q);
    let (of_column, image) = (&rest % &p, &rest / &p);
    let start = |position: &Index, [stride, padding, _]: &[Index; 3]| position * stride - padding;
    let [w, h] = [start(&of_row, &along[0]), start(&of_column, &along[1])];
    // What lies at a column of the matrix, whose channel and tap are these.
    let at = |channel: Index, tap: &Index| {
        let (of_w, of_h) = (tap % taps, (tap / taps).min(&(MOST_TAPS - 1).into()));
        let moved = |start: &Index, tap: &Index, along: &[Index; 3]| start + tap * &along[2];
        let w = moved(&w, &of_w, &along[0]);
        let h = moved(&h, &of_h, &along[1]);
        x.elements((channel, w, h, &image))
    };
    let to = rows.elements((&row, &chunk * store)).vectors(1, store);
    if load > 1 {
        let of_tap = channels / load;
        let from = at(&chunk % of_tap * load, &(&chunk / of_tap)).vectors(0, load);
        let vector = k.gather(&from);
        k.scatter(&vector, &to);
    } else {
        let vector = k.fragment(ty, Layout::leaf(Int::Static(store), Int::Static(1))?);
        k.fill(&vector, 0.0);
        for i in 0..store {
            let column = &chunk * store + i;
            let element = k.gather(&at(&column % channels, &(&column / channels)));
            k.assign(&vector.values(i, 1), &element);
        }
        k.scatter(&vector, &to);
    }
    k.finish()
}
