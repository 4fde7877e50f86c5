//! Launches of kernels that are built from tensors: a grid and the views of their memory.

use colex_device::{Device, Element, Function, View, ViewMut};
use colex_ir::launch::{Argument, ArgumentError, DeviceMemory, Launch};
use colex_layout::Layout;
use colex_sim::Report;
use colex_tensor::{Arg, KernelParameter, ParameterKind, TensorKernel};

use crate::error::Error;

/// Loads a kernel that was built from tensors.
pub trait Load {
    /// Returns the kernel, compiled for a device.
    ///
    /// # Errors
    ///
    /// Returns an error if the verifier refuses the kernel, and the device's error if it does not load it.
    fn load(&self, device: &Device) -> Result<DeviceKernel, Error>;
}

impl Load for TensorKernel {
    fn load(&self, device: &Device) -> Result<DeviceKernel, Error> {
        Ok(DeviceKernel {
            function: device.load(&self.kernel)?,
            device: device.clone(),
            kernel: self.clone(),
        })
    }
}

/// A kernel loaded on a device. It knows its block, its cluster and its shared memory.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_gpu::tensor::{AtThread, Builder};
/// use colex_gpu::{Device, Load};
/// use colex_tiled::TiledCopy;
///
/// let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
/// let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
/// let mut k = Builder::new("copy", Arch::Sm80, 32);
/// let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(1,1):(1,_1)"));
/// let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
/// let src = copy.at(&thread).partition_src(&from.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
/// let dst = copy.at(&thread).partition_dst(&to.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
/// let held = k.fragment_like(&src);
/// k.copy_in_bounds(&copy, &src, &held);
/// k.copy_in_bounds(&copy, &held, &dst);
/// # fn layout(text: &str) -> colex_layout::Layout { text.parse().unwrap() }
///
/// let device = Device::simulator(Arch::Sm80);
/// let kernel = k.finish()?.load(&device)?;
/// let from = device.upload(&[1.5f32; 60])?;
/// let mut to = device.zeros::<f32>(60)?;
/// kernel.launch([6_usize.div_ceil(4), 10_usize.div_ceil(8)], (from.view((6, 10))?, to.view_mut((6, 10))?))?;
/// assert_eq!(to.download()?, [1.5; 60]);
///
/// // What the kernel writes is borrowed mutably, and a view knows its extents and its type.
/// let refused = kernel.launch([1], (from.view((6, 10))?, from.view((6, 10))?)).unwrap_err();
/// assert_eq!(refused.to_string(), "tensor to: the kernel writes it, and the view is read-only: take `view_mut`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceKernel {
    device: Device,
    function: Function,
    kernel: TensorKernel,
}

impl DeviceKernel {
    /// Returns the kernel with its signature and report.
    pub fn kernel(&self) -> &TensorKernel {
        &self.kernel
    }

    /// Returns the function that the device has loaded.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Runs the kernel over a grid of blocks. The arguments are views and numbers, in the order in which the kernel declared
    /// its parameters: a tuple of [`View`] for what it reads, [`ViewMut`] for what it writes, and numbers.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of arguments is wrong; if a view is of another device, element type or form of layout
    /// than the kernel was built for; if its address is not aligned for the kernel's vectors; if the kernel writes a
    /// read-only view; or if a view that is written shares elements with another one, which handles to one buffer make
    /// possible. A kernel that works in place declares one tensor. Returns the device's error if the launch fails.
    pub fn launch<'a>(
        &self,
        grid: impl IntoGrid,
        arguments: impl IntoArguments<'a>,
    ) -> Result<(), Error> {
        let arguments = self.arguments(&arguments.into_arguments())?;
        let launch = self.over(grid.into_grid()?);
        Ok(self.device.launch(&self.function, launch, &arguments)?)
    }

    /// Runs the kernel over a grid of blocks on the simulator, with arguments as [`DeviceKernel::launch`] takes them, and
    /// returns what it counted: instructions of warps, sectors of global memory, passes of shared memory lost to bank
    /// conflicts.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::tensor::{AtThread, Builder};
    /// use colex_gpu::{Device, Load};
    /// use colex_tiled::TiledCopy;
    ///
    /// // Each thread reads 4 bytes of a row of 32, and writes 4 bytes of a column.
    /// let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    /// let copy = TiledCopy::new(atom, 32, "(1,32):(32,1)", "(1,1):(0,0)")?;
    /// let mut k = Builder::new("turn", Arch::Sm80, 32);
    /// let from = k.tensor("from", Ty::F32, "(_1,_32):(_32,_1)");
    /// let to = k.tensor("to", Ty::F32, "(_1,_32):(_1,_8)");
    /// let mine = copy.at(&k.thread());
    /// let (src, dst) = (mine.partition_src(&from.local_tile((1, 32), (0, 0))), to.local_tile((1, 32), (0, 0)));
    /// let held = k.fragment_like(&src);
    /// k.copy(&copy, &src, &held);
    /// k.copy(&copy, &held, &mine.partition_dst(&dst));
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let from = device.upload(&[1.5f32; 32])?;
    /// let mut to = device.zeros::<f32>(256)?;
    /// let spread = colex_gpu::ViewMut::new(&mut to, ((1, 32), (1, 8)))?;
    /// let report = k.finish()?.load(&device)?.profile([1], (from.view((1, 32))?, spread))?;
    /// // 4 sectors are read; 32 are written, where 4 would hold what is written.
    /// assert_eq!(report.sectors(), (4 + 32, 4 + 4));
    /// assert_eq!(report.bank_conflicts(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DeviceKernel::launch`], and an error on a GPU, which does not count.
    pub fn profile<'a>(
        &self,
        grid: impl IntoGrid,
        arguments: impl IntoArguments<'a>,
    ) -> Result<Report, Error> {
        let arguments = self.arguments(&arguments.into_arguments())?;
        let launch = self.over(grid.into_grid()?);
        Ok(self.device.profile(&self.function, launch, &arguments)?)
    }

    /// A launch over a grid, with the kernel's block, cluster and shared memory.
    fn over(&self, grid: [u32; 3]) -> Launch {
        let block = self.kernel.kernel.block.unwrap_or([1; 3]);
        let launch = Launch::new(grid, block).dynamic_shared(self.kernel.dynamic_shared());
        match self.kernel.kernel.cluster {
            Some(cluster) => launch.cluster(cluster),
            None => launch,
        }
    }

    fn arguments(&self, given: &[LaunchArg<'_>]) -> Result<Vec<Argument>, Error> {
        let parameters: Vec<KernelParameter<'_>> = self.kernel.parameters().collect();
        if parameters.len() != given.len() {
            let why = format!(
                "{} arguments for {} tensors and numbers of {}",
                given.len(),
                parameters.len(),
                self.kernel.kernel.name
            );
            return Err(ArgumentError::new(why).into());
        }
        apart(&parameters, given)?;
        let pairs = parameters.iter().zip(given);
        let arguments = pairs.map(|(parameter, given)| self.argument(parameter, given));
        let arguments = arguments.collect::<Result<Vec<Arg<'_>>, Error>>()?;
        Ok(self.kernel.arguments(&arguments)?)
    }

    fn argument<'a>(
        &self,
        parameter: &KernelParameter<'_>,
        given: &'a LaunchArg<'_>,
    ) -> Result<Arg<'a>, Error> {
        let refuse = |why: &str| Err(ArgumentError::of_tensor(parameter.name, why).into());
        let view = match given {
            LaunchArg::Value(argument) => return Ok(Arg::Value(argument.clone())),
            LaunchArg::View(view) => view,
        };
        if parameter.is_written && !view.is_mut {
            return refuse("the kernel writes it, and the view is read-only: take `view_mut`");
        }
        if !view.device.is_same_device(&self.device) {
            return refuse(&format!(
                "the view is of {}, and the kernel is loaded on {}",
                view.memory.device_name(),
                self.device.name()
            ));
        }
        let Some(layout) = &view.layout else {
            return refuse("an extent of the view is 0: there is nothing to launch");
        };
        if parameter.kind != ParameterKind::Map {
            return Ok(Arg::tensor(&*view.memory, layout));
        }
        let map = self.kernel.tensor_map(parameter.name, layout)?;
        ArgumentError::of_map(map.element, view.memory.element_name())?;
        let bound = self.device.tensor_map_at(&map, view.memory.address())?;
        Ok(Arg::Value(bound.into()))
    }
}

/// Refuses a view that the kernel writes and that shares elements with another one. What it only reads may have several names, also by
/// a `ViewMut`.
fn apart(parameters: &[KernelParameter<'_>], given: &[LaunchArg<'_>]) -> Result<(), Error> {
    let views = || {
        let pairs = parameters.iter().zip(given).enumerate();
        pairs.filter_map(|(i, (parameter, given))| match given {
            LaunchArg::View(view) => Some((i, parameter, view)),
            LaunchArg::Value(_) => None,
        })
    };
    let is_written = |(_, parameter, view): &(_, &KernelParameter<'_>, &LaunchView<'_>)| {
        parameter.is_written && view.is_mut
    };
    for (i, parameter, written) in views().filter(is_written) {
        for (_, other, view) in views().filter(|(j, ..)| *j != i) {
            if written.may_meet(view) {
                let why = format!(
                    "it lies at {:#x}..{:#x} and tensor {} at {:#x}..{:#x}: what a kernel writes must not overlap what \
                     it reads or writes by another name",
                    written.bytes.0, written.bytes.1, other.name, view.bytes.0, view.bytes.1
                );
                return Err(ArgumentError::of_tensor(parameter.name, why).into());
            }
        }
    }
    Ok(())
}

impl LaunchView<'_> {
    /// Whether the two may share an element: their ranges meet, and no stride of both keeps them apart, as it does the
    /// left and the right half of the columns of a matrix.
    fn may_meet(&self, other: &LaunchView<'_>) -> bool {
        let [(a, a_end), (b, b_end)] = [self.bytes, other.bytes];
        let is_none = a == a_end || b == b_end;
        if is_none || !self.device.is_same_device(&other.device) || a_end <= b || b_end <= a {
            return false;
        }
        let (ours, theirs) = (self.strides(), other.strides());
        let apart = |stride: u64| {
            let [ours, theirs] = [&ours, &theirs].map(|strides| {
                let within = strides.iter().filter(|(_, step)| step % stride != 0);
                within.map(|(steps, step)| steps * step).sum::<u64>()
            });
            // Both lie on a circle as long as the stride.
            let between = (b % stride + stride - a % stride) % stride;
            between >= ours + self.element && (stride - between) % stride >= theirs + other.element
        };
        !ours
            .iter()
            .any(|(_, stride)| theirs.iter().any(|(_, other)| other == stride) && apart(*stride))
    }

    /// How many steps of how many bytes lead through the view.
    fn strides(&self) -> Vec<(u64, u64)> {
        let leaves = self.layout.iter().flat_map(Layout::leaves);
        // A mode of extent 1 has no step, and any stride.
        let steps = leaves.filter(|leaf| leaf.extent.value() > 1).map(|leaf| {
            let stride = leaf.stride.as_int().map_or(0, |stride| stride.value());
            (leaf.extent.value() as u64 - 1, stride as u64 * self.element)
        });
        steps.filter(|(_, stride)| *stride > 0).collect()
    }
}

/// One argument of a launch.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call")]
pub enum LaunchArg<'a> {
    /// Memory under a layout.
    View(LaunchView<'a>),
    /// A number.
    Value(Argument),
}

/// Memory under a layout, as a launch takes it.
#[derive(Debug)]
pub struct LaunchView<'a> {
    memory: Box<dyn DeviceMemory + 'a>,
    device: Device,
    /// `None` if an extent is 0.
    layout: Option<Layout>,
    /// The addresses that it spans, and the bytes of an element.
    bytes: (u64, u64),
    element: u64,
    is_mut: bool,
}

impl<'a, T: Element> From<View<'a, T>> for LaunchArg<'a> {
    fn from(view: View<'a, T>) -> Self {
        LaunchArg::View(LaunchView {
            layout: view.layout().cloned(),
            device: view.device().clone(),
            bytes: view.bytes(),
            element: T::BYTES as u64,
            memory: Box::new(view),
            is_mut: false,
        })
    }
}

impl<'a, T: Element> From<&View<'a, T>> for LaunchArg<'a> {
    fn from(view: &View<'a, T>) -> Self {
        view.clone().into()
    }
}

impl<'a, T: Element> From<ViewMut<'a, T>> for LaunchArg<'a> {
    fn from(view: ViewMut<'a, T>) -> Self {
        let read: View<'a, T> = View::clone(&view);
        LaunchArg::View(LaunchView {
            layout: read.layout().cloned(),
            device: read.device().clone(),
            bytes: read.bytes(),
            element: T::BYTES as u64,
            memory: Box::new(read),
            is_mut: true,
        })
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for LaunchArg<'_> {
            fn from(value: $ty) -> Self {
                LaunchArg::Value(value.into())
            }
        }
    )*};
}
numbers!(u32, u64, f32, f64, Argument);

/// The arguments of a launch: a tuple of views and numbers.
pub trait IntoArguments<'a> {
    /// Returns them in order.
    fn into_arguments(self) -> Vec<LaunchArg<'a>>;
}

impl<'a> IntoArguments<'a> for Vec<LaunchArg<'a>> {
    fn into_arguments(self) -> Vec<LaunchArg<'a>> {
        self
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        impl<'a, $($name: Into<LaunchArg<'a>>),*> IntoArguments<'a> for ($($name,)*) {
            #[allow(non_snake_case, reason = "the fields have the names of their types")]
            fn into_arguments(self) -> Vec<LaunchArg<'a>> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

/// The blocks of a launch along x, y and z: an array of one, two or three numbers.
pub trait IntoGrid {
    /// Returns the extents.
    ///
    /// # Errors
    ///
    /// Returns an error if 32 bits do not hold a number of blocks.
    fn into_grid(self) -> Result<[u32; 3], Error>;
}

macro_rules! grids {
    ($($ty:ty),*) => {$(
        impl<const N: usize> IntoGrid for [$ty; N] {
            fn into_grid(self) -> Result<[u32; 3], Error> {
                const { assert!(N >= 1 && N <= 3, "a grid has one, two or three extents") };
                let mut grid = [1; 3];
                for (extent, blocks) in grid.iter_mut().zip(self) {
                    *extent = u32::try_from(blocks).map_err(|_| {
                        let why = format!("a grid of {blocks} blocks along an axis: 32 bits hold an extent");
                        ArgumentError::new(why)
                    })?;
                }
                Ok(grid)
            }
        }
    )*};
}
grids!(u32, usize, i64, i32);
