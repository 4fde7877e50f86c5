//! A kernel for other launchers: its PTX, with everything that a launch must give it.

mod header;

use colex_atom::{Interleave, L2Promotion, OobFill, Release, TmaElement, TmaSwizzle};
use colex_ir::verify::Refused;
use colex_ir::{Kernel, ParamType};
use colex_layout::Layout;

use crate::build::im2col_map::Im2colSlot;
use crate::build::launch::{Signature, Slot, TensorKernel, TensorSlot, ValueSlot};
use crate::build::tma_map::MapSlot;
use crate::tensor::MAX_EXTENT;

/// A kernel as another program launches it, in any language that can call the driver.
///
/// [`TensorKernel::export`] makes it, and [`c_header`](Exported::c_header) writes it as C. With the feature `serde` it
/// is also `Serialize`: each public field is a key of the same name.
///
/// The grid is the caller's, as at every launch. The driver takes the arguments as a list of pointers
/// (`kernelParams` of `cuLaunchKernel`), in the order of [`parameters`](Exported::parameters), or as one buffer
/// (`CU_LAUNCH_PARAM_BUFFER_POINTER`). In a buffer each parameter lies where `cuFuncGetParamInfo` says, which is not always
/// the `offset` of PTX: the assembler puts a tensor map at a multiple of 64 of the constant bank, whose parameters begin at
/// 0x210 for sm_90, so that all of them lie 48 bytes later. More than 48 KiB of dynamic shared memory must be asked for
/// first: `cuFuncSetAttribute` with `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Exported {
    /// The version of this description: 1.
    pub format: u32,
    /// The name of the entry, for `cuModuleGetFunction`.
    pub entry: String,
    /// The word after `.target`.
    pub target: &'static str,
    /// The `.version` of the text.
    pub ptx_version: String,
    /// The first CUDA whose driver reads the text, as `cuDriverGetVersion` says it; 0 if it is not known.
    pub driver: i32,
    /// The threads of a block, along x, y and z.
    pub block: [u32; 3],
    /// The blocks of a cluster; 1, 1, 1 for none. The text requires it: a plain launch has it.
    pub cluster: [u32; 3],
    /// The bytes of dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// The bytes of shared memory that the text declares itself.
    pub static_shared: u32,
    /// The bytes of all parameters, from the first to the end of the last.
    pub argument_bytes: u32,
    /// The parameters, in order.
    pub parameters: Vec<ExportedParameter>,
    /// The text.
    pub ptx: String,
}

/// A parameter of an exported kernel.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportedParameter {
    /// Its name, which is also that of the C field.
    pub name: String,
    /// Its type in PTX, such as `u32`; `u64` of a pointer and `b8[128]` of a tensor map.
    pub ty: String,
    /// Its size in bytes.
    pub bytes: u32,
    /// Its alignment among the parameters in bytes.
    pub align: u32,
    /// Its offset among the parameters in bytes, by the rules of PTX.
    pub offset: u32,
    /// What a launch passes for it.
    pub role: Role,
}

/// What a launch passes for a parameter.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(tag = "kind", rename_all = "snake_case")
)]
pub enum Role {
    /// The address of a tensor's coordinate 0 on the device.
    Pointer {
        /// The type of its elements.
        element: String,
        /// The layout that the kernel is built for, in elements. Numbers after `_` are constants of the kernel, and the
        /// others are examples: the extents and strides of a launch are parameters.
        layout: String,
        /// The number of bytes of which the address is a multiple.
        multiple_of: i64,
        /// Whether the kernel writes the tensor.
        written: bool,
    },
    /// An extent of a tensor, in elements.
    Extent {
        /// The parameter that is the tensor's pointer.
        tensor: String,
        /// The leaf of its layout, counted from 0.
        leaf: usize,
        /// The number of which it is a multiple.
        multiple_of: i64,
        /// Its smallest value.
        least: i64,
        /// Its largest value.
        most: i64,
    },
    /// A stride of a tensor, in elements.
    Stride {
        /// The parameter that is the tensor's pointer.
        tensor: String,
        /// The leaf of its layout, counted from 0.
        leaf: usize,
        /// The number of which it is a multiple.
        multiple_of: i64,
    },
    /// A number.
    Number {
        /// Its smallest value, if the kernel asks for one.
        least: Option<i64>,
        /// Its largest value, if the kernel asks for one.
        most: Option<i64>,
    },
    /// The 128 bytes that `cuTensorMapEncodeTiled` writes.
    TensorMap(Box<ExportedMap>),
    /// The 128 bytes that `cuTensorMapEncodeIm2col` writes. The positions, the stride, the padding before the first pixel and the
    /// dilation of the filter along each spatial dimension follow as numbers.
    Im2colMap(Box<ExportedIm2col>),
}

/// The arguments of `cuTensorMapEncodeTiled` for a tensor map of an exported kernel.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportedMap {
    /// The layout of the tensor that the kernel is built for, in elements.
    pub layout: String,
    /// Whether the kernel writes the tensor: the bytes of its innermost dimension are then a multiple of 16.
    pub written: bool,
    /// `tensorDataType`.
    pub element: DriverNumber,
    /// The bytes of an element.
    pub element_bytes: i64,
    /// `globalDim` and `globalStrides`: each dimension, innermost first.
    pub dimensions: Vec<ExportedDimension>,
    /// `boxDim`.
    pub extents: Vec<i64>,
    /// `elementStrides`.
    pub element_strides: Vec<i64>,
    /// `interleave`.
    pub interleave: DriverNumber,
    /// `swizzle`.
    pub swizzle: DriverNumber,
    /// `l2Promotion`.
    pub l2: DriverNumber,
    /// `oobFill`.
    pub fill: DriverNumber,
}

/// The arguments of `cuTensorMapEncodeIm2col` for activations of an exported kernel, which do not depend on the launch.
///
/// The dimensions are channels, W (H, D) and images, and `globalDim` and `globalStrides` are those of the activations.
/// Along each spatial dimension `pixelBoxLowerCorner` is minus the padding before the first pixel, `pixelBoxUpperCorner` the padding
/// behind the last one minus the dilation times one less than the number of taps, and `elementStrides` the stride of the filter.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportedIm2col {
    /// The numbers of taps of the filter along W, H, D.
    pub taps: Vec<i64>,
    /// `tensorDataType`.
    pub element: DriverNumber,
    /// The bytes of an element.
    pub element_bytes: i64,
    /// `channelsPerPixel`.
    pub channels: i64,
    /// `pixelsPerColumn`.
    pub pixels: i64,
    /// `interleave`.
    pub interleave: DriverNumber,
    /// `swizzle`.
    pub swizzle: DriverNumber,
    /// `l2Promotion`.
    pub l2: DriverNumber,
    /// `oobFill`.
    pub fill: DriverNumber,
}

/// A dimension of a tensor map.
///
/// With a `leaf`, its extent is that of this leaf of the tensor's layout, and its stride in bytes is the leaf's stride
/// times the bytes of an element; a dimension of extent 1 takes no step, and any multiple of 16 bytes does. Without one
/// the dimension joins several modes: the tensor must have the layout that the kernel is built for. The innermost
/// dimension is contiguous, and `globalStrides` leaves it out. Strides are multiples of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportedDimension {
    /// The leaf of the tensor's layout, counted from 0.
    pub leaf: Option<usize>,
    /// The extent in the layout that the kernel is built for.
    pub extent: i64,
    /// The stride in bytes in that layout.
    pub stride_bytes: i64,
}

/// A number of `cuda.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DriverNumber {
    /// Its name there.
    pub name: &'static str,
    /// The number.
    pub code: u32,
}

impl TensorKernel {
    /// Returns the kernel for a launcher of another program: the PTX, and what a launch must give it.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_tensor::{Builder, Role};
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, "(512,_64):(_1,520)");
    /// k.index_argument("n", 0..100);
    /// let exported = k.finish()?.export()?;
    /// let offsets = exported.parameters.iter().map(|p| (&p.name[..], p.offset, p.bytes));
    /// assert_eq!(
    ///     offsets.collect::<Vec<_>>(),
    ///     [("a", 0, 8), ("a_extent_0", 8, 4), ("a_stride_1", 16, 8), ("n", 24, 4)]
    /// );
    /// assert_eq!(exported.parameters[3].role, Role::Number { least: Some(0), most: Some(99) });
    /// assert_eq!((exported.block, exported.target, exported.driver), ([32, 1, 1], "sm_80", 11000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the findings of the verifier if it refuses the kernel.
    pub fn export(&self) -> Result<Exported, Refused> {
        let kernel = &self.kernel;
        let ptx = kernel.ptx()?;
        let (parameters, argument_bytes) = parameters(kernel, &self.signature);
        let version = kernel.ptx_version();
        Ok(Exported {
            format: 1,
            entry: kernel.name.clone(),
            target: kernel.target.target(),
            ptx_version: version.to_string(),
            driver: version.release().map_or(0, Release::number),
            block: kernel.block.unwrap_or([1; 3]),
            cluster: kernel.cluster.unwrap_or([1; 3]),
            dynamic_shared: self.signature.shared,
            static_shared: kernel.static_shared(),
            argument_bytes,
            parameters,
            ptx,
        })
    }
}

/// The parameters with their places, and the bytes that they take.
fn parameters(kernel: &Kernel, signature: &Signature) -> (Vec<ExportedParameter>, u32) {
    let roles = signature.slots.iter().flat_map(|slot| match slot {
        Slot::Tensor(tensor) => roles(tensor),
        Slot::Value(value) => vec![number(value)],
        Slot::Map(map) => vec![Role::TensorMap(Box::new(exported(map)))],
        Slot::Im2col(map) => vec![Role::Im2colMap(Box::new(exported_im2col(map)))],
    });
    let (offsets, end) = kernel.parameter_places();
    let place = |((param, offset), role): ((&colex_ir::Param, u64), Role)| {
        let ty = match param.ty {
            ParamType::Scalar(ty) => ty.to_string(),
            ParamType::Pointer { .. } => "u64".to_string(),
            ParamType::TensorMap => "b8[128]".to_string(),
        };
        let name = param.name.clone();
        ExportedParameter {
            name,
            ty,
            bytes: param.ty.bytes(),
            align: param.ty.align(),
            offset: offset as u32,
            role,
        }
    };
    let places = kernel.params.iter().zip(offsets).zip(roles);
    (places.map(place).collect(), end as u32)
}

/// A pointer, then the dynamic extents and the dynamic strides, as [`crate::Builder::tensor`] declares them.
fn roles(slot: &TensorSlot) -> Vec<Role> {
    let leaves = || slot.layout.leaves().iter().enumerate();
    let mut asked = slot.asked.iter();
    let mut roles = vec![Role::Pointer {
        element: slot.ty.to_string(),
        layout: slot.layout.to_string(),
        multiple_of: slot.align,
        written: slot.is_written,
    }];
    let tensor = || slot.name.clone();
    for (leaf, _) in leaves().filter(|(_, leaf)| !leaf.extent.is_static()) {
        let (multiple_of, least) = asked.next().map_or((1, 1), |asked| asked.in_short());
        let (least, most) = (least.max(1), MAX_EXTENT);
        roles.push(Role::Extent {
            tensor: tensor(),
            leaf,
            multiple_of,
            least,
            most,
        });
    }
    for (leaf, _) in leaves().filter(|(_, leaf)| !leaf.stride.coefficient().is_static()) {
        let (multiple_of, _) = asked.next().map_or((1, 1), |asked| asked.in_short());
        roles.push(Role::Stride {
            tensor: tensor(),
            leaf,
            multiple_of,
        });
    }
    roles
}

fn number(slot: &ValueSlot) -> Role {
    let (least, most) = slot.range.unzip();
    Role::Number { least, most }
}

fn exported(slot: &MapSlot) -> ExportedMap {
    let map = slot.plan.map();
    let bytes = map.element.bytes();
    let strides = std::iter::once(bytes).chain(map.strides.iter().copied());
    let sizes = map.dims.iter().copied().zip(strides);
    let dimension = |(modes, (extent, stride_bytes)): (Vec<colex_layout::Basis>, (i64, i64))| {
        let leaf = match &modes[..] {
            [mode] => leaf(&slot.layout, &mode.path().collect::<Vec<_>>()),
            _ => None,
        };
        ExportedDimension {
            leaf,
            extent,
            stride_bytes,
        }
    };
    ExportedMap {
        layout: slot.layout.to_string(),
        written: slot.is_stored,
        element: element(map.element),
        element_bytes: bytes,
        dimensions: slot
            .plan
            .modes()
            .into_iter()
            .zip(sizes)
            .map(dimension)
            .collect(),
        extents: map.extents.clone(),
        element_strides: map.element_strides.clone(),
        interleave: interleave(map.interleave),
        swizzle: swizzle(map.swizzle),
        l2: promotion(map.l2),
        fill: fill(map.fill),
    }
}

fn exported_im2col(slot: &Im2colSlot) -> ExportedIm2col {
    let map = slot.plan.map();
    ExportedIm2col {
        taps: slot.taps.clone(),
        element: element(map.element),
        element_bytes: map.element.bytes(),
        channels: map.extents[0],
        pixels: map.extents[1],
        interleave: interleave(map.interleave),
        swizzle: swizzle(map.swizzle),
        l2: promotion(map.l2),
        fill: fill(map.fill),
    }
}

/// The number of the leaf at a path, counted over the whole layout.
fn leaf(layout: &Layout, path: &[usize]) -> Option<usize> {
    let Some((&first, rest)) = path.split_first() else {
        return (layout.leaves().len() == 1).then_some(0);
    };
    let before: usize = layout
        .modes()
        .take(first)
        .map(|mode| mode.leaves().len())
        .sum();
    let inner = leaf(&layout.modes().nth(first)?, rest)?;
    Some(before + inner)
}

const fn named(name: &'static str, code: u32) -> DriverNumber {
    DriverNumber { name, code }
}

fn element(element: TmaElement) -> DriverNumber {
    match element {
        TmaElement::U8 => named("CU_TENSOR_MAP_DATA_TYPE_UINT8", 0),
        TmaElement::U16 => named("CU_TENSOR_MAP_DATA_TYPE_UINT16", 1),
        TmaElement::U32 => named("CU_TENSOR_MAP_DATA_TYPE_UINT32", 2),
        TmaElement::S32 => named("CU_TENSOR_MAP_DATA_TYPE_INT32", 3),
        TmaElement::U64 => named("CU_TENSOR_MAP_DATA_TYPE_UINT64", 4),
        TmaElement::S64 => named("CU_TENSOR_MAP_DATA_TYPE_INT64", 5),
        TmaElement::F16 => named("CU_TENSOR_MAP_DATA_TYPE_FLOAT16", 6),
        TmaElement::F32 => named("CU_TENSOR_MAP_DATA_TYPE_FLOAT32", 7),
        TmaElement::F64 => named("CU_TENSOR_MAP_DATA_TYPE_FLOAT64", 8),
        TmaElement::Bf16 => named("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 9),
        TmaElement::Tf32 => named("CU_TENSOR_MAP_DATA_TYPE_TFLOAT32", 11),
    }
}

fn interleave(interleave: Interleave) -> DriverNumber {
    match interleave {
        Interleave::None => named("CU_TENSOR_MAP_INTERLEAVE_NONE", 0),
        Interleave::B16 => named("CU_TENSOR_MAP_INTERLEAVE_16B", 1),
        Interleave::B32 => named("CU_TENSOR_MAP_INTERLEAVE_32B", 2),
    }
}

fn swizzle(swizzle: TmaSwizzle) -> DriverNumber {
    match swizzle {
        TmaSwizzle::None => named("CU_TENSOR_MAP_SWIZZLE_NONE", 0),
        TmaSwizzle::B32 => named("CU_TENSOR_MAP_SWIZZLE_32B", 1),
        TmaSwizzle::B64 => named("CU_TENSOR_MAP_SWIZZLE_64B", 2),
        TmaSwizzle::B128 => named("CU_TENSOR_MAP_SWIZZLE_128B", 3),
        TmaSwizzle::B128Atom32 => named("CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B", 4),
        TmaSwizzle::B128Atom64 => named("CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B", 6),
    }
}

fn promotion(promotion: L2Promotion) -> DriverNumber {
    match promotion {
        L2Promotion::None => named("CU_TENSOR_MAP_L2_PROMOTION_NONE", 0),
        L2Promotion::B64 => named("CU_TENSOR_MAP_L2_PROMOTION_L2_64B", 1),
        L2Promotion::B128 => named("CU_TENSOR_MAP_L2_PROMOTION_L2_128B", 2),
        L2Promotion::B256 => named("CU_TENSOR_MAP_L2_PROMOTION_L2_256B", 3),
    }
}

fn fill(fill: OobFill) -> DriverNumber {
    match fill {
        OobFill::Zero => named("CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE", 0),
        OobFill::NanRequestZeroFma => named("CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA", 1),
    }
}
