//! Copies and transposes as calls: checked, planned, built once for each kind, launched.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::Arc;

use super::loop_nest::{LoopNest, correspond_empty};
use super::plan::{CopyMethod, CopyPlan};
use super::prepared::{CopyHow, CopyShape, PreparedCopies};
use crate::calls::{self, Call, PreparedLaunch, Shape, same_device};
use crate::error::{Error, ErrorKind, disjoint};
use crate::memory_bound::call::NOTHING;
use crate::memory_bound::modes::{has_elements, resized};
use colex_device::{BareLaunch, Device, Element, Function, View, ViewMut};
use colex_layout::Layout;
use colex_sim::Report;

/// Copies the element at every coordinate of `source` to the coordinate of `destination` that
/// [corresponds](crate::kernels::LoopNest#which-coordinates-correspond): the same one where both have one shape. The
/// fastest kernel that layouts, addresses and device allow is taken.
///
/// If an extent is 0, nothing is copied. The device caches what it prepares for a call, as for [`gemm`](crate::gemm()):
/// a second copy with the same layouts and addresses is one launch.
///
/// ```
/// use colex_gpu::{Device, copy};
///
/// let device = Device::open();
/// let (from, mut to) = (device.upload(&[1u32, 2, 3, 4, 5, 6])?, device.poisoned::<u32>(6)?);
/// // Row-major to column-major.
/// copy(&from.view((2, 3))?, &to.view_t_mut((2, 3))?)?;
/// assert_eq!(to.download()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the layouts do not correspond, if the views overlap or lie on two devices, and the device's
/// error if the launch fails.
///
/// Views overlap if their ranges of bytes do, each from the first element to the last, also where their elements interleave.
pub fn copy<T: Element>(source: &View<'_, T>, destination: &ViewMut<'_, T>) -> Result<(), Error> {
    CopyCall::new(source, destination, None)?.run(source.device())
}

/// Copies `source` to `destination` with its modes in another order: mode `i` of the destination is mode `order[i]` of
/// the source.
///
/// ```
/// use colex_gpu::{Device, transpose};
///
/// let device = Device::open();
/// let (from, mut to) = (device.upload(&[1u16, 2, 3, 4, 5, 6])?, device.poisoned::<u16>(6)?);
/// transpose(&from.view((2, 3))?, &to.view_mut((3, 2))?, &[1, 0])?;
/// assert_eq!(to.download()?, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`copy`] and of [`View::permute`].
pub fn transpose<T: Element>(
    source: &View<'_, T>,
    destination: &ViewMut<'_, T>,
    order: &[usize],
) -> Result<(), Error> {
    copy(&source.permute(order)?, destination)
}

/// A prepared copy. It may be launched any number of times while the memory that it reads and writes exists.
#[derive(Clone, Debug)]
pub struct CopyCall<'a> {
    /// `None` if there is nothing to copy.
    call: Option<Arc<Call<CopyPlan>>>,
    device: Device,
    views: PhantomData<&'a ()>,
}

/// The most elements of a copy whose kernels are loaded ahead.
const MOST: i64 = (1 << 40) - 1;

impl<'a> CopyCall<'a> {
    /// Prepares the copy of every coordinate of one view to the other, with the fastest kernel or the method that is
    /// given.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`], and an error if the kernel of the given method does not take the copy.
    pub fn new<T: Element>(
        source: &View<'a, T>,
        destination: &ViewMut<'a, T>,
        method: Option<CopyMethod>,
    ) -> Result<CopyCall<'a>, Error> {
        let how = method.map_or(CopyHow::Fastest, CopyHow::Method);
        CopyCall::how(source, destination, how)
    }

    fn how<T: Element>(
        source: &View<'a, T>,
        destination: &ViewMut<'a, T>,
        how: CopyHow,
    ) -> Result<CopyCall<'a>, Error> {
        let device = source.device();
        device.check_same("the destination", destination.device())?;
        let (Some(from), Some(to)) = (source.layout(), destination.layout()) else {
            return CopyCall::of_nothing(source, destination);
        };
        disjoint(
            "the destination",
            destination.bytes(),
            "the source",
            source.bytes(),
        )?;
        let addresses = [source.bytes().0, destination.bytes().0];
        CopyCall::planned(device, [from, to], addresses, T::BYTES, how)
    }

    /// The copy between two layouts at these addresses, which do not overlap, of elements of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`].
    pub(crate) fn between(
        device: &Device,
        layouts: [&Layout; 2],
        addresses: [u64; 2],
        bytes: usize,
    ) -> Result<CopyCall<'a>, Error> {
        CopyCall::planned(device, layouts, addresses, bytes, CopyHow::Fastest)
    }

    /// Loads the kernels of copies between two layouts at these addresses, of elements of `bytes` bytes. Returns how many there are.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`]. No kernel is loaded if a copy has no plan.
    pub(crate) fn load(
        device: &Device,
        copies: impl IntoIterator<Item = Result<Option<[Layout; 2]>, Error>>,
        addresses: [u64; 2],
        bytes: usize,
    ) -> Result<usize, Error> {
        let mut plans = HashSet::new();
        for layouts in copies {
            let Some(layouts) = layouts? else {
                continue;
            };
            let (bytes, how) = (bytes as i64, CopyHow::Fastest);
            let shape = CopyShape {
                layouts,
                bytes,
                how,
            };
            plans.insert(shape.plan(device, addresses)?);
        }
        let mut kernels = HashSet::new();
        for plan in &plans {
            let launches = plan.method().family().launches(plan, device, addresses)?;
            kernels.extend(launches.iter().map(PreparedLaunch::kernel));
        }
        Ok(kernels.len())
    }

    /// Builds and loads every kernel that a copy of tensors of these shapes takes by default, so that a new shape assembles none in the
    /// middle of a request. A shape has an extent for each mode of the source. Returns the number of kernels; shapes that share one need
    /// it once.
    ///
    /// The other copies differ from that of the two views in the extents alone. They have elements of the same size, and addresses that
    /// are as far from a multiple of 16. The views have the layouts that [`Map::load_plans`](crate::elementwise::Map::load_plans) describes. A
    /// device keeps the last 256 kernels of copies.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::kernels::CopyCall;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (from, mut to) = (device.zeros::<f32>(64)?, device.poisoned::<f32>(64)?);
    /// // A transpose: the source is row-major, and the destination column-major.
    /// let (from, to) = (from.view((8, 8))?, to.view_t_mut((8, 8))?);
    /// assert_eq!(CopyCall::load_plans(&from, &to, [[64, 64], [1000, 1000], [1, 1000]])?, 2);
    /// assert_eq!(
    ///     CopyCall::load_plans(&from, &to, [[64]]).unwrap_err().to_string(),
    ///     "the source has the layout (8,8):(8,_1), and cannot have another shape: the shape 64 has another rank"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`copy`]; an error if an extent is negative, if a shape has 2^40 elements or more, if a shape has another number of modes than a view, if a mode of
    /// a view has several strides, or if a gap has no room for a shape; and the device's error if it does not take a kernel. No kernel is
    /// loaded if a shape is refused.
    pub fn load_plans<T: Element>(
        source: &View<'a, T>,
        destination: &ViewMut<'a, T>,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        let device = source.device();
        device.check_same("the destination", destination.device())?;
        if source.is_empty() || destination.is_empty() {
            CopyCall::of_nothing(source, destination)?;
        }
        let copies = shapes.into_iter().map(|shape| {
            let extents = shape.as_ref();
            if !has_elements(extents)? {
                return Ok(None);
            }
            // A launch copies 2^30 elements or so: no memory has more than some hundred times as many.
            let extent = extents.iter().copied().fold(1, i64::saturating_mul);
            if extent > MOST {
                let (what, most) = ("the number of elements", MOST);
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
            let from = resized("the source", source.layout(), extents)?;
            let to = resized("the destination", destination.layout(), extents)?;
            Ok(Some([from, to]))
        });
        let addresses = [source.bytes().0, destination.bytes().0];
        CopyCall::load(device, copies, addresses, T::BYTES)
    }

    fn planned(
        device: &Device,
        layouts: [&Layout; 2],
        addresses: [u64; 2],
        bytes: usize,
        how: CopyHow,
    ) -> Result<CopyCall<'a>, Error> {
        let shape = CopyShape {
            layouts: layouts.map(Clone::clone),
            bytes: bytes as i64,
            how,
        };
        let copies = &device.extension::<PreparedCopies>().0;
        let call = copies.call(shape, &addresses, device, |shape| {
            let plan = shape.plan(device, addresses)?;
            let launches = plan.method().family().launches(&plan, device, addresses)?;
            Ok(Shape::new(plan, launches))
        })?;
        Ok(CopyCall {
            call: Some(call),
            device: device.clone(),
            views: PhantomData,
        })
    }

    /// The copy between views of which one is empty: the other must be so too, and their shapes must correspond.
    fn of_nothing<T: Element>(
        source: &View<'a, T>,
        destination: &ViewMut<'a, T>,
    ) -> Result<CopyCall<'a>, Error> {
        let shapes = [source.shape(), destination.shape()];
        correspond_empty(shapes[0], shapes[1]).map_err(|why| {
            let [from, to] = shapes.map(ToString::to_string);
            ErrorKind::Shapes { from, to, why }
        })?;
        Ok(CopyCall {
            call: None,
            device: source.device().clone(),
            views: PhantomData,
        })
    }

    /// Returns the same copy with another tile: see [`CopyPlan::with_squares`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`CopyCall::new`] and of [`CopyPlan::with_squares`].
    pub fn with_squares<T: Element>(
        source: &View<'a, T>,
        destination: &ViewMut<'a, T>,
        squares: [i64; 2],
    ) -> Result<CopyCall<'a>, Error> {
        CopyCall::how(source, destination, CopyHow::Squares(squares))
    }

    /// Returns the launches, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let work = self.call.as_ref();
        work.map_or(Ok(Vec::new()), |work| work.bare(&self.device))
    }

    /// Returns the plan; `None` if there is nothing to copy.
    pub fn plan(&self) -> Option<&CopyPlan> {
        self.call.as_deref().map(Call::about)
    }

    /// Says in sentences which kernel copies, and how many bytes it moves ([`CopyPlan::explain`]).
    pub fn explain(&self) -> String {
        self.plan()
            .map_or_else(|| NOTHING.to_string(), CopyPlan::explain)
    }

    /// Returns the kernels on their device, in the order of their launches.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        let kernels = self.call.iter().flat_map(|call| call.kernels());
        kernels.map(|kernel| calls::function(&self.device, kernel))
    }

    /// Runs the copy on the simulator, and returns the counts of each launch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        let call = self.call.as_ref();
        call.map_or(Ok(Vec::new()), |call| call.profile(device))
    }

    /// Enqueues the copy on a stream of its device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        self.call.as_ref().map_or(Ok(()), |call| call.run(device))
    }
}

impl CopyShape {
    /// The plan of the copy between tensors that begin at these addresses of a device.
    fn plan(&self, device: &Device, addresses: [u64; 2]) -> Result<CopyPlan, Error> {
        let [source, destination] = &self.layouts;
        let nest = LoopNest::new(source, destination)?;
        let by = |method| CopyPlan::new(&nest, self.bytes, addresses, device.arch(), method);
        Ok(match self.how {
            CopyHow::Fastest => CopyPlan::choose(&nest, self.bytes, addresses, device.arch())?,
            CopyHow::Method(method) => by(method)?,
            CopyHow::Squares(squares) => by(CopyMethod::Tma)?.with_squares(squares)?,
        })
    }
}
