//! Kernels with the signature that their launches are checked against.

use std::collections::HashMap;

use colex_atom::Ty;
use colex_layout::{Int, Layout};

use crate::index::{Index, Node};
use crate::tensor::MAX_EXTENT;
pub use colex_ir::launch::ArgumentError;
use colex_ir::launch::{Argument, DeviceMemory};
use colex_ir::{Base, Kernel, ParamType, Reg, Type};

/// A built kernel, with its signature and its report.
#[derive(Clone, Debug)]
pub struct TensorKernel {
    /// The kernel.
    pub kernel: Kernel,
    /// The signature of its launch.
    pub signature: Signature,
    /// The report of its copies and matrix instructions.
    pub report: super::report::Report,
}

/// A parameter of a kernel as its launch sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelParameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// The kind of its argument.
    pub kind: ParameterKind,
    /// Whether the kernel writes the memory behind it.
    pub is_written: bool,
}

/// The kind of argument of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A tensor.
    Tensor,
    /// A tensor map, for a tensor that TMA copies.
    Map,
    /// A scalar.
    Value,
}

impl TensorKernel {
    /// Returns the parameters in the order in which the kernel declared them.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::{Builder, ParameterKind};
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "(512,_64):(_1,520)");
    /// k.index_argument("n", 0..100);
    /// let kernel = k.finish()?;
    /// let kinds: Vec<ParameterKind> = kernel.parameters().map(|parameter| parameter.kind).collect();
    /// assert_eq!(kinds, [ParameterKind::Tensor, ParameterKind::Value]);
    /// assert!(kernel.parameters().all(|parameter| !parameter.is_written));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parameters(&self) -> impl Iterator<Item = KernelParameter<'_>> {
        self.signature.slots.iter().map(|slot| match slot {
            Slot::Tensor(tensor) => KernelParameter {
                name: &tensor.name,
                kind: ParameterKind::Tensor,
                is_written: tensor.is_written,
            },
            Slot::Map(map) => KernelParameter {
                name: &map.name,
                kind: ParameterKind::Map,
                is_written: map.is_stored,
            },
            Slot::Im2col(map) => KernelParameter {
                name: &map.name,
                kind: ParameterKind::Map,
                is_written: false,
            },
            Slot::Value(value) => KernelParameter {
                name: &value.name,
                kind: ParameterKind::Value,
                is_written: false,
            },
        })
    }

    /// Returns the bytes of dynamic shared memory that a launch must give each block.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.shared_tensor(Ty::F32, "(32,32):(32,1)");
    /// assert_eq!(k.finish()?.dynamic_shared(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dynamic_shared(&self) -> u32 {
        self.signature.shared
    }

    /// Returns the report of every copy and matrix instruction, in the order of the kernel.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.thread();
    /// assert_eq!(k.finish()?.report().lines().len(), 0); // neither copies nor matrix instructions
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> &super::report::Report {
        &self.report
    }

    /// Returns the launch arguments for these tensors and scalars, in the order in which the kernel declared them.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::{Argument, Device};
    /// use colex_tensor::{Builder, Arg};
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "(512,_64):(_1,520)");
    /// let built = k.finish()?;
    /// let device = Device::simulator(Arch::Sm80);
    /// let a = device.zeros::<f32>(104 * 64)?;
    /// let today = "(100,_64):(_1,104)".parse()?;
    /// let arguments = built.arguments(&[Arg::tensor(&a, &today)])?;
    /// assert_eq!(arguments, [Argument::Pointer(a.address()), Argument::U32(100), Argument::U64(104)]);
    /// let refused = |given: Arg<'_>| built.arguments(&[given]).unwrap_err().to_string();
    /// let other = "(100,_32):(_1,104)".parse()?;
    /// assert_eq!(
    ///     refused(Arg::tensor(&a, &other)),
    ///     "tensor a: (100,_32):(_1,104) differs from (512,_64):(_1,520), which the kernel is built for, in a static leaf"
    /// );
    /// let wide = "(100,_64):(_1,112)".parse()?;
    /// assert_eq!(
    ///     refused(Arg::tensor(&a, &wide)),
    ///     "tensor a: (100,_64):(_1,112) of f32 has bytes 0 to 28623 from its origin, and the memory has 0 to 26623"
    /// );
    /// let halves = device.zeros::<half::f16>(104 * 64)?;
    /// assert_eq!(
    ///     refused(Arg::tensor(&halves, &today)),
    ///     "tensor a: elements of f16, and the kernel is built for f32"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error that names the argument if its elements are not of the kernel's type; if its layout differs from the one
    /// that the kernel was built for in more than the values of dynamic leaves, or reaches beyond the memory; if an address, an
    /// extent or a stride is not a multiple of what the copies require; if a scalar is of another type or outside of its range;
    /// or if a tensor map has other boxes than the kernel's. Returns an error if the number of arguments is wrong, or if buffers
    /// are of different devices.
    pub fn arguments(&self, given: &[Arg<'_>]) -> Result<Vec<Argument>, ArgumentError> {
        let slots = &self.signature.slots;
        if slots.len() != given.len() {
            let why = format!(
                "{} arguments for {} tensors and scalars",
                given.len(),
                slots.len()
            );
            return Err(ArgumentError::new(why));
        }
        one_device(given)?;
        let mut arguments = Vec::new();
        for (slot, given) in slots.iter().zip(given) {
            match (slot, given) {
                (Slot::Tensor(tensor), Arg::Tensor(memory)) => {
                    tensor.check(memory)?;
                    let layout = memory.layout;
                    let bytes = i64::from(tensor.ty.bits() / 8);
                    arguments.push(Argument::Pointer(memory.coordinate_0(bytes)));
                    // The kernel decides which leaves it takes: those that it was not built with.
                    let pairs = layout.leaves().iter().zip(tensor.layout.leaves());
                    let extents = pairs.clone().filter(|(_, own)| !own.extent.is_static());
                    arguments.extend(extents.map(|(n, _)| Argument::U32(n.extent.value() as u32)));
                    let strides = pairs.filter(|(_, own)| !own.stride.coefficient().is_static());
                    arguments.extend(
                        strides.map(|(d, _)| Argument::U64(d.stride.coefficient().value() as u64)),
                    );
                }
                (Slot::Value(value), Arg::Value(argument)) => {
                    value.check(argument)?;
                    arguments.push(argument.clone());
                }
                (Slot::Map(map), Arg::Value(Argument::TensorMap(bound))) => {
                    map.check(&bound.map)?;
                    arguments.push(Argument::TensorMap(bound.clone()));
                }
                (Slot::Im2col(map), Arg::Value(Argument::TensorMap(bound))) => {
                    map.check(&bound.map)?;
                    arguments.push(Argument::TensorMap(bound.clone()));
                }
                (Slot::Tensor(tensor), Arg::Value(_)) => {
                    let wanted = "a tensor, and a scalar is given";
                    return Err(ArgumentError::of_form(&tensor.name, wanted));
                }
                (Slot::Map(map), _) => {
                    let wanted = "a tensor map: bind one to its memory";
                    return Err(ArgumentError::of_form(&map.name, wanted));
                }
                (Slot::Im2col(map), _) => {
                    let wanted = "a tensor map: bind one to its memory";
                    return Err(ArgumentError::of_form(&map.name, wanted));
                }
                (Slot::Value(value), Arg::Tensor(_)) => {
                    let wanted = "a scalar, and a tensor is given";
                    return Err(ArgumentError::of_form(&value.name, wanted));
                }
            }
        }
        Ok(arguments)
    }
}

/// Buffers of two devices cannot be arguments of one launch.
fn one_device(given: &[Arg<'_>]) -> Result<(), ArgumentError> {
    let devices = given.iter().filter_map(|given| match given {
        Arg::Tensor(memory) => memory.device,
        Arg::Value(_) => None,
    });
    let mut first: Option<&dyn DeviceMemory> = None;
    for device in devices {
        match first {
            None => first = Some(device),
            Some(first) if first.device_id() == device.device_id() => {}
            Some(first) => {
                let why = format!(
                    "a buffer of {} and one of {}: the arguments of a launch are of one device",
                    first.device_name(),
                    device.device_name()
                );
                return Err(ArgumentError::new(why));
            }
        }
    }
    Ok(())
}

/// A launch argument for a tensor or a scalar of the kernel.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// A tensor in memory: [`Arg::tensor`] of a buffer, [`Arg::raw`] of other memory.
    Tensor(TensorArg<'a>),
    /// A scalar or a tensor map.
    Value(Argument),
}

/// The argument of a tensor: memory under a layout.
#[derive(Clone, Debug)]
pub struct TensorArg<'a> {
    address: u64,
    bytes: u64,
    held: ElementType,
    layout: &'a Layout,
    /// The place of coordinate 0 in the memory, in elements.
    origin: i64,
    device: Option<&'a dyn DeviceMemory>,
}

/// The type of the elements of memory.
#[derive(Clone, Copy, Debug)]
enum ElementType {
    /// Those of a buffer.
    Rust(&'static str),
    /// The type that the caller states.
    Type(Ty),
    /// The library has compared them, and their number, with the layout.
    Checked,
}

/// Memory that is not a buffer, as the caller describes it.
///
/// ```
/// use colex_atom::{Arch, Ty};
/// use colex_tensor::{Builder, Arg, RawMemory};
///
/// let mut k = Builder::new("k", Arch::Sm80, 32);
/// k.tensor("a", Ty::F32, "(512):(1)");
/// let built = k.finish()?;
/// let memory = RawMemory { address: 0x1000, bytes: 400, ty: Ty::F32 };
/// assert!(built.arguments(&[Arg::raw(memory, &"(100):(1)".parse()?)]).is_ok());
/// // Backwards from the last element.
/// let backwards = "(100):(-1)".parse()?;
/// assert_eq!(
///     built.arguments(&[Arg::raw(memory, &backwards)]).unwrap_err().to_string(),
///     "tensor a: (100):(-1) of f32 has bytes -396 to 3 from its origin, and the memory has 0 to 399"
/// );
/// assert!(built.arguments(&[Arg::raw(memory, &backwards).from_element(99)]).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMemory {
    /// The address of its first byte on the device.
    pub address: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// The type of its elements.
    pub ty: Ty,
}

impl<'a> Arg<'a> {
    /// Builds the argument of a tensor: the elements of a buffer under a layout, with coordinate 0 at the first
    /// element.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_gpu::Device;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "(100,_64):(64,_1)");
    /// let built = k.finish()?;
    /// let buffer = Device::simulator(Arch::Sm80).zeros::<f32>(6400)?;
    /// assert!(built.arguments(&[Arg::tensor(&buffer, &"(100,_64):(64,_1)".parse()?)]).is_ok());
    /// assert!(built.arguments(&[Arg::tensor(&buffer, &"(101,_64):(64,_1)".parse()?)]).is_err()); // too long
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor(buffer: &'a dyn DeviceMemory, layout: &'a Layout) -> Arg<'a> {
        Arg::Tensor(TensorArg {
            address: buffer.address(),
            bytes: buffer.byte_count(),
            held: ElementType::Rust(buffer.element_name()),
            layout,
            origin: 0,
            device: Some(buffer),
        })
    }

    /// Builds the argument of a tensor in memory that is not a buffer, with coordinate 0 at the first element. The
    /// description of the memory is trusted.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_ir::launch::Argument;
    /// # use colex_tensor::{Arg, Builder, RawMemory};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "100:1");
    /// let built = k.finish()?;
    /// let memory = RawMemory { address: 0x1000, bytes: 400, ty: Ty::F32 };
    /// let arguments = built.arguments(&[Arg::raw(memory, &"50:2".parse()?)])?;
    /// assert_eq!(arguments[..2], [Argument::Pointer(0x1000), Argument::U32(50)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raw(memory: RawMemory, layout: &'a Layout) -> Arg<'a> {
        Arg::Tensor(TensorArg {
            address: memory.address,
            bytes: memory.bytes,
            held: ElementType::Type(memory.ty),
            layout,
            origin: 0,
            device: None,
        })
    }

    /// Builds the argument of a tensor at an address whose elements and length the library has compared with the
    /// layout.
    #[doc(hidden)]
    pub fn checked(address: u64, layout: &'a Layout) -> Arg<'a> {
        Arg::Tensor(TensorArg {
            address,
            bytes: u64::MAX,
            held: ElementType::Checked,
            layout,
            origin: 0,
            device: None,
        })
    }

    /// Returns the same argument with coordinate 0 at element `origin` of the memory, for negative strides. A scalar is
    /// returned unchanged.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_ir::launch::Argument;
    /// # use colex_tensor::{Arg, Builder, RawMemory};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "100:1");
    /// let built = k.finish()?;
    /// let memory = RawMemory { address: 0x1000, bytes: 400, ty: Ty::F32 };
    /// let backwards = "100:-1".parse()?;
    /// let arguments = built.arguments(&[Arg::raw(memory, &backwards).from_element(99)])?;
    /// assert_eq!(arguments[0], Argument::Pointer(0x1000 + 4 * 99));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn from_element(self, origin: i64) -> Arg<'a> {
        match self {
            Arg::Tensor(tensor) => Arg::Tensor(TensorArg { origin, ..tensor }),
            Arg::Value(argument) => Arg::Value(argument),
        }
    }
}

impl TensorArg<'_> {
    /// The address of coordinate 0, for elements of that number of bytes.
    fn coordinate_0(&self, bytes: i64) -> u64 {
        self.address
            .wrapping_add_signed(self.origin.wrapping_mul(bytes))
    }
}

/// The parameters of a kernel, and what a launch must give for them.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub(crate) slots: Vec<Slot>,
    pub(crate) shared: u32,
    pub(crate) bases: HashMap<Reg, Base>,
}

#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Tensor(Box<TensorSlot>),
    Value(ValueSlot),
    Map(Box<super::tma_map::MapSlot>),
    Im2col(Box<super::im2col_map::Im2colSlot>),
}

/// A tensor among the parameters.
#[derive(Clone, Debug)]
pub(crate) struct TensorSlot {
    pub(crate) name: String,
    /// The parameter that is its pointer.
    pub(crate) param: colex_ir::ParamId,
    pub(crate) ty: Ty,
    pub(crate) layout: Layout,
    /// The alignment of the address in bytes.
    pub(crate) align: i64,
    /// Whether the kernel writes it.
    pub(crate) is_written: bool,
    /// The requirements on the dynamic leaves, in the order of [`Layout::dynamic_values`].
    pub(crate) asked: Vec<Asked>,
}

/// The requirements of a kernel on a dynamic leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The number that must divide it for the kernel's vectors.
    vector: i64,
    /// The number that must divide it for the tiles of unpredicated copies.
    tile: i64,
    /// Its smallest value, for tiles at constant coordinates.
    least: i64,
}

impl Asked {
    /// The number that divides the leaf, and its smallest value.
    pub(crate) fn in_short(&self) -> (i64, i64) {
        (common(self.vector, self.tile), self.least)
    }
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            vector: 1,
            tile: 1,
            least: i64::MIN,
        }
    }
}

/// A scalar among the parameters.
#[derive(Clone, Debug)]
pub(crate) struct ValueSlot {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// The range of an integer, both ends included.
    pub(crate) range: Option<(i64, i64)>,
}

impl ValueSlot {
    fn check(&self, argument: &Argument) -> Result<(), ArgumentError> {
        let refuse = |why: String| Err(ArgumentError::of_scalar(&self.name, why));
        let fits = match argument {
            Argument::U16(_) => self.ty.bits() == 16,
            Argument::U32(_) => self.ty.bits() == 32 && !self.ty.is_float(),
            Argument::F32(_) => self.ty == Type::F32 || self.ty == Type::B32,
            Argument::U64(_) | Argument::Pointer(_) => self.ty.bits() == 64 && !self.ty.is_float(),
            Argument::F64(_) => self.ty == Type::F64 || self.ty == Type::B64,
            Argument::TensorMap(_) => false,
        };
        if !fits {
            return refuse(format!(
                "{}, and the kernel takes {}",
                argument.what(),
                self.ty
            ));
        }
        match (self.range, argument) {
            (Some((low, high)), Argument::U32(value)) => {
                let value = if low < 0 {
                    i64::from(*value as i32)
                } else {
                    i64::from(*value)
                };
                if (low..=high).contains(&value) {
                    Ok(())
                } else {
                    refuse(format!("{value}, and the kernel takes {low} to {high}"))
                }
            }
            _ => Ok(()),
        }
    }
}

impl TensorSlot {
    fn check(&self, given: &TensorArg<'_>) -> Result<(), ArgumentError> {
        let bytes = i64::from(self.ty.bits() / 8);
        let (layout, address) = (given.layout, given.coordinate_0(bytes));
        let refuse = |why: String| Err(ArgumentError::of_tensor(&self.name, why));
        let found = match given.held {
            ElementType::Rust(name) if !rust_types(self.ty).contains(&name) => name.to_string(),
            ElementType::Type(ty) if ty != self.ty => ty.to_string(),
            _ => String::new(),
        };
        if !found.is_empty() {
            return refuse(format!(
                "elements of {found}, and the kernel is built for {}",
                self.ty
            ));
        }
        if !is_same_kind(layout, &self.layout) {
            return refuse(format!(
                "{layout} differs from {}, which the kernel is built for, in a static leaf",
                self.layout
            ));
        }
        if !address.is_multiple_of(self.align as u64) {
            return refuse(format!(
                "the address {address:#x} is not a multiple of {} bytes, which its vectors need",
                self.align
            ));
        }
        let pairs = layout.leaves().iter().zip(self.layout.leaves());
        let extents = pairs
            .clone()
            .map(|(leaf, own)| ("extent", leaf.extent, own.extent));
        let strides = pairs.map(|(leaf, own)| {
            let [leaf, own] = [leaf, own].map(|leaf| leaf.stride.coefficient());
            ("stride", leaf, own)
        });
        let dynamic = extents
            .chain(strides)
            .filter(|(_, _, own)| !own.is_static());
        for ((what, value, _), asked) in dynamic.zip(&self.asked) {
            let value = value.value();
            if value % asked.vector != 0 {
                return refuse(format!(
                    "the {what} {value} of {layout} is not a multiple of {}, which its vectors need",
                    asked.vector
                ));
            }
            if value % asked.tile != 0 {
                return refuse(format!(
                    "the {what} {value} of {layout} is not a multiple of {}, which the tiles of its copies need \
                     (`copy_in_bounds` needs none)",
                    asked.tile
                ));
            }
            if value < asked.least {
                return refuse(format!(
                    "the {what} {value} of {layout} is below {}, where the tiles of its copies end (`copy_in_bounds` asks)",
                    asked.least
                ));
            }
            if what == "extent" && value > MAX_EXTENT {
                return refuse(format!(
                    "the extent {value} of {layout} is above {MAX_EXTENT}"
                ));
            }
            if value.unsigned_abs() >= 1 << 40 {
                return refuse(format!("the stride {value} of {layout} is not below 2^40"));
            }
        }
        if let ElementType::Checked = given.held {
            return Ok(());
        }
        if self.is_written {
            check_written(layout).or_else(refuse)?;
        }
        let bytes = i128::from(bytes);
        let (low, high) = reach(layout);
        let (first, last) = (low * bytes, (high + 1) * bytes - 1);
        let origin = i128::from(given.origin) * bytes;
        if first + origin < 0 || last + origin >= i128::from(given.bytes) {
            let (start, end) = (-origin, i128::from(given.bytes) - 1 - origin);
            return refuse(format!(
                "{layout} of {} has bytes {first} to {last} from its origin, and the memory has {start} to {end}",
                self.ty
            ));
        }
        Ok(())
    }
}

/// The types of Rust whose buffers hold elements of a type.
fn rust_types(ty: Ty) -> &'static [&'static str] {
    match ty {
        Ty::F64 | Ty::C64 | Ty::Gc64 => &["f64"],
        Ty::F32 | Ty::Tf32 => &["f32"],
        Ty::F16 => &["f16"],
        Ty::Bf16 => &["bf16"],
        Ty::S64 | Ty::U64 => &["i64", "u64"],
        Ty::S32 | Ty::U32 => &["i32", "u32"],
        Ty::S16 => &["i16"],
        Ty::U16 => &["u16"],
        Ty::S8 => &["i8"],
        Ty::U8 | Ty::E4m3 | Ty::E5m2 => &["u8"],
        // Of fewer bits than a byte: no tensor in memory is.
        _ => &[],
    }
}

/// Whether a layout has the form of the one that a kernel was built with, and the values of its static leaves.
fn is_same_kind(a: &Layout, b: &Layout) -> bool {
    let alike = |a: Int, b: Int| !b.is_static() || a.value() == b.value();
    let pairs = || a.leaves().iter().zip(b.leaves());
    a.leaves().len() == b.leaves().len()
        && pairs().all(|(a, b)| {
            alike(a.extent, b.extent)
                // A mode of extent 1 takes no step, so its stride does not matter: a compact layout gives it the stride 0.
                && (a.extent.value() == 1 || alike(a.stride.coefficient(), b.stride.coefficient()))
                && std::mem::discriminant(&a.stride) == std::mem::discriminant(&b.stride)
        })
        && a.is_congruent(b)
}

/// Refuses a layout that a kernel writes through, with one element at several coordinates.
pub(crate) fn check_written(layout: &Layout) -> Result<(), String> {
    match layout.is_injective() {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "{layout} has one element at several coordinates, and the kernel writes it: which value stays would be a race"
        )),
        Err(e) => Err(e.to_string()),
    }
}

/// The least and the largest offset of a layout.
fn reach(layout: &Layout) -> (i128, i128) {
    layout.leaves().iter().fold((0, 0), |(low, high), leaf| {
        let last =
            i128::from(leaf.extent.value() - 1) * i128::from(leaf.stride.coefficient().value());
        (low + last.min(0), high + last.max(0))
    })
}

impl Signature {
    /// The kernel, its pointers declared with the alignment that its copies need.
    pub(crate) fn aligned(&self, mut kernel: Kernel) -> Kernel {
        for slot in &self.slots {
            if let Slot::Tensor(tensor) = slot {
                let align = tensor.align as u32;
                kernel.params[tensor.param.0 as usize].ty = ParamType::Pointer { align };
            }
        }
        kernel
    }

    /// The symbol that a register holds the address of.
    pub(crate) fn base_of(&self, index: &Index) -> Option<Base> {
        match &index.0.node {
            Node::Leaf(leaf) => self.bases.get(&leaf.reg).copied(),
            _ => None,
        }
    }

    /// Notes that a leaf of a tensor, or its address, must be a multiple of something for its vectors.
    pub(crate) fn require(&mut self, tensor: usize, leaf: Option<usize>, multiple: i64) {
        if let Slot::Tensor(slot) = &mut self.slots[tensor] {
            let old = match leaf {
                None => &mut slot.align,
                Some(leaf) => &mut slot.asked[leaf].vector,
            };
            *old = common(*old, multiple);
        }
    }

    /// Notes that the kernel writes a tensor.
    pub(crate) fn write(&mut self, tensor: usize) {
        if let Slot::Tensor(slot) = &mut self.slots[tensor] {
            slot.is_written = true;
        }
    }

    /// Notes that tiles of that number of elements must divide an extent.
    pub(crate) fn require_tiles(&mut self, tensor: usize, leaf: usize, tile: i64) {
        if let Slot::Tensor(slot) = &mut self.slots[tensor] {
            slot.asked[leaf].tile = common(slot.asked[leaf].tile, tile);
        }
    }

    /// Notes how large an extent must be.
    pub(crate) fn require_least(&mut self, tensor: usize, leaf: usize, least: i64) {
        if let Slot::Tensor(slot) = &mut self.slots[tensor] {
            slot.asked[leaf].least = slot.asked[leaf].least.max(least);
        }
    }
}

/// The least common multiple of two numbers above 0; what does not fit 64 bits divides nothing that a launch has.
fn common(a: i64, b: i64) -> i64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}
