//! Factors of f32 as high and low parts: what tensor cores multiply in place of f32 (3xTF32).
//!
//! The high part of a number is the nearest tf32, the low part the tf32 nearest to the rest. Along K a row of the left factor
//! is `low, high, high` and a row of a right factor `high, low, high`, so that one product in tf32 over three times K adds
//! `low high + high low + high high`, the small terms first.

use std::sync::{Arc, LazyLock};

use colex_atom::{Arch, Ty};
use colex_device::{Device, Extension, Memo, View};
use colex_layout::{Int, Layout};
use colex_sim::Report;
use colex_tensor::{Arg, Builder, Error, Expr, TensorKernel};

use super::matrix::{ANYWHERE, Matrix, Packed};
use crate::calls::{Addresses, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape};
use crate::copy::call::CopyCall;
use crate::gemm::batch::{Apart, Batch};
use crate::gemm::plan::vector;
use crate::gemm::problem::{GemmElement, check_extent};
use crate::kernels::Major;
use colex_ir::launch::Launch;

/// The times that a row of a factor has each of its numbers.
pub(crate) const TIMES: i64 = 3;

/// Which factor of a product it is, by the order of the parts along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// `low, high, high`
    Left,
    /// `high, low, high`
    Right,
}

/// A factor that is written as high and low parts.
#[derive(Debug)]
pub(crate) struct HighLow {
    side: Side,
    /// The memory of the parts. A factor that no kernel reads where it is is packed into the first third of each row.
    packed: Packed,
    /// The factor, where its rows are contiguous along K and no batch has several.
    here: Option<Matrix>,
    /// The rows of all products.
    rows: i64,
    columns: i64,
}

impl HighLow {
    /// Returns the parts of a factor (M or N, K, L..).
    ///
    /// # Errors
    ///
    /// Returns an error if three times K is above 2^31 - 2^17, or if the size does not fit 63.
    pub(crate) fn new<T: GemmElement>(
        side: Side,
        view: &View<'_, T>,
        (batch, steps): (&Batch, Apart),
    ) -> Result<HighLow, crate::Error> {
        let layout = view.layout().expect("a factor has elements");
        let columns = layout.mode(1).map_or(1, |mode| mode.size());
        check_extent("three times K", columns.saturating_mul(TIMES))?;
        let packed = Packed::repeated(view, batch, steps, TIMES)?;
        let found = Matrix::of(view, Some(Major::Second), steps);
        let is_here = |matrix: &Matrix| {
            matrix.major == Major::Second && packed.at(0).steps == Apart::default()
        };
        Ok(HighLow {
            side,
            here: found.filter(is_here),
            rows: packed.rows(T::BYTES),
            columns,
            packed,
        })
    }

    /// Returns the bytes of the parts.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Returns the matrix of the parts at an address, with three times the columns.
    pub(crate) fn at(&self, address: u64) -> Matrix {
        self.packed.at(address)
    }

    /// Returns the work that writes the parts at an address: a copy where the factor is packed, and the kernel.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`](crate::copy()) and of the device.
    pub(crate) fn fill<T: GemmElement>(
        &self,
        view: &View<'_, T>,
        address: u64,
    ) -> Result<(Option<CopyCall<'static>>, HighLowCall), crate::Error> {
        let copy = match self.here {
            Some(_) => None,
            None => Some(self.packed.fill(view, address)?),
        };
        let (shape, addresses) = self.shape(address);
        let call = HighLowCall::new(view.device(), shape, addresses)?;
        Ok((copy, call))
    }

    /// The work of the kernel that writes the parts at an address, and the addresses of what it reads and writes.
    fn shape(&self, address: u64) -> (HighLowShape, [u64; 2]) {
        let leading = self.packed.at(address).leading;
        let (source, from) = match self.here {
            Some(matrix) => (matrix.address, matrix.leading),
            None => (address, leading),
        };
        let shape = HighLowShape {
            side: self.side,
            rows: self.rows,
            columns: self.columns,
            leading: [from, leading],
        };
        (shape, [source, address])
    }

    /// Whether the factor is packed before its parts are written.
    pub(crate) fn packs(&self) -> bool {
        self.here.is_none()
    }

    /// Loads the kernel that writes the parts.
    ///
    /// # Errors
    ///
    /// Returns the errors of the device.
    pub(crate) fn load<T: GemmElement>(&self, view: &View<'_, T>) -> Result<(), crate::Error> {
        let (shape, addresses) = self.shape(ANYWHERE);
        shape.prepare(view.device(), addresses)?;
        Ok(())
    }
}

/// The kernel that writes the parts of a factor, with its arguments.
#[derive(Debug)]
pub(crate) struct HighLowCall(Arc<Call<Arc<TensorKernel>>>);

impl HighLowCall {
    fn new(
        device: &Device,
        shape: HighLowShape,
        addresses: [u64; 2],
    ) -> Result<HighLowCall, crate::Error> {
        let calls = &device.extension::<PreparedParts>().0;
        let call = calls.call(shape, &addresses, device, |shape| {
            shape.prepare(device, addresses)
        })?;
        Ok(HighLowCall(call))
    }

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

/// The extents of a factor, and the leading dimensions of the factor and of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct HighLowShape {
    side: Side,
    rows: i64,
    columns: i64,
    leading: [i64; 2],
}

/// The kernel for vectors of a number of elements.
type HighLowKernel = (Side, i64, Arch);

/// The cache of what a device has prepared.
#[derive(Debug)]
struct PreparedParts(PreparedCalls<HighLowShape, HighLowKernel, Arc<TensorKernel>>);

impl Default for PreparedParts {
    fn default() -> PreparedParts {
        PreparedParts(PreparedCalls::new())
    }
}

impl Extension for PreparedParts {
    fn clear(&self) {
        self.0.clear();
    }
}

/// Threads of a block.
const THREADS: i64 = 256;

/// The most vectors of one launch.
const MOST: i64 = (1 << 31) - 1;

/// The largest number of tf32, 2^128 - 2^117.
const LARGEST: f64 = 2047.0 / 1024.0 * (1u128 << 127) as f64;

/// The kernels built so far.
static BUILT: LazyLock<Memo<HighLowKernel, TensorKernel>> = LazyLock::new(|| Memo::new(32));

impl HighLowShape {
    fn prepare(
        &self,
        device: &Device,
        [from, to]: [u64; 2],
    ) -> Result<Shape<Arc<TensorKernel>>, crate::Error> {
        let [of_source, of_parts] = self.leading;
        let vector = [(from, of_source), (to, of_parts), (0, self.columns)]
            .map(|(address, leading)| vector(4, address, leading));
        let vector = vector.into_iter().fold(4, i64::min);
        let key = (self.side, vector, device.arch());
        let kernels = &device.extension::<PreparedParts>().0.kernels;
        let kernel = kernels.get_or_make(&key, || {
            let built = BUILT.get_or_make(&key, || build(key))?;
            let loaded = device.load_kernel(&built.kernel)?;
            Ok::<_, crate::Error>(KernelOf { built, loaded })
        })?;
        let of_row = self.columns / vector;
        let at_once = (MOST / of_row).max(1);
        let mut launches = Vec::new();
        for first in (0..self.rows).step_by(at_once as usize) {
            let rows = (self.rows - first).min(at_once);
            let [source, parts] = layouts([rows, self.columns], self.leading)?;
            let behind = |leading: i64| (first * leading * 4) as u64;
            let given = [
                Arg::checked(from + behind(of_source), &source),
                Arg::checked(to + behind(of_parts), &parts),
            ];
            let given = kernel.built.arguments(&given)?;
            let blocks = (rows * of_row - 1) / THREADS + 1;
            let launch = Launch::new(blocks as u32, THREADS as u32);
            let loaded = kernel.loaded.clone();
            let addresses = Addresses::from([from, to].as_slice());
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
}

/// The layouts of a factor (rows, K) and of its parts (3, rows, K).
fn layouts(
    [rows, columns]: [i64; 2],
    [of_source, of_parts]: [i64; 2],
) -> Result<[Layout; 2], Error> {
    let dynamic = Int::Dynamic;
    let (rows, columns, one) = (dynamic(rows), dynamic(columns), Int::Static(1));
    let source = Layout::new((rows, columns), (dynamic(of_source), one))?;
    let parts = Layout::new(
        (Int::Static(TIMES), rows, columns),
        (columns, dynamic(of_parts), one),
    )?;
    Ok([source, parts])
}

/// Builds the kernel that writes the parts: a vector of a row for each thread.
///
/// # Errors
///
/// Returns the error of the layout algebra if a layout has no such partition.
pub(crate) fn build((side, vector, arch): HighLowKernel) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("gemm_high_low", arch, THREADS as u32);
    let [source, parts] = layouts([4096; 2], [4096, 3 * 4096])?;
    let source = k.tensor("source", Ty::F32, &source);
    let parts = k.tensor("parts", Ty::F32, &parts);
    let (block, thread) = (k.block_index(0), k.thread());
    let block = k.within(block, 0..MOST / THREADS + 1);
    let number = block * THREADS + thread;
    let of_row = k.within(source.extent(1) / vector, 1..MOST + 1);
    let (row, column) = (&number / &of_row, &number % &of_row * vector);
    let from = source.elements((&row, &column)).vectors(1, vector);
    // Of threads behind the last row nothing is read or written.
    let x = k.gather(&from);
    let x = Expr::from(&x);
    // What is not finite is left to the low part: with 1 for the high one, the products of the other parts are finite, and the
    // sum is what f32 has.
    let nearest = x.to(Ty::Tf32).to(Ty::F32).clamp(-LARGEST, LARGEST);
    let sign = x.lt(0.0).select(-1.0, 1.0);
    let high = k.map(x.abs().lt(f64::INFINITY).select(nearest, sign));
    let low = k.map((x - &high).to(Ty::Tf32).to(Ty::F32));
    let order = match side {
        Side::Left => [&low, &high, &high],
        Side::Right => [&high, &low, &high],
    };
    for (part, values) in order.into_iter().enumerate() {
        let to = parts.elements((part as i64, &row, &column));
        k.scatter(values, &to.vectors(2, vector));
    }
    k.finish()
}
