//! Types and numbers of `cuda.h`, as far as the driver is called here.

use std::ffi::{c_char, c_uint, c_void};

/// `CUcontext`.
pub(in crate::cuda) type Context = *mut c_void;

/// `CUstream`. Null is the legacy default stream.
pub(in crate::cuda) type StreamHandle = *mut c_void;

/// `CUipcMemHandle`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(in crate::cuda) struct IpcMemHandle(pub(in crate::cuda) [u8; 64]);

/// `CUlaunchConfig`.
#[repr(C)]
pub(in crate::cuda) struct LaunchConfig {
    pub(in crate::cuda) grid: [c_uint; 3],
    pub(in crate::cuda) block: [c_uint; 3],
    pub(in crate::cuda) shared_bytes: c_uint,
    pub(in crate::cuda) stream: StreamHandle,
    pub(in crate::cuda) attributes: *mut LaunchAttribute,
    pub(in crate::cuda) attribute_count: c_uint,
}

/// `CUlaunchAttribute`. The value is a union of 64 bytes, whose alignment is that of a pointer.
#[repr(C, align(8))]
pub(in crate::cuda) struct LaunchAttribute {
    id: c_uint,
    _pad: [c_char; 4],
    value: [c_uint; 16],
}

impl LaunchAttribute {
    /// Returns the attribute that asks for clusters of that many blocks.
    pub(in crate::cuda) fn cluster(blocks: [u32; 3]) -> LaunchAttribute {
        let mut value = [0; 16];
        value[..3].copy_from_slice(&blocks);
        LaunchAttribute {
            id: 4,
            _pad: [0; 4],
            value,
        }
    }

    /// Returns the attribute by which all blocks of a launch run at once.
    pub(in crate::cuda) fn cooperative() -> LaunchAttribute {
        let mut value = [0; 16];
        value[0] = 1;
        LaunchAttribute {
            id: 2,
            _pad: [0; 4],
            value,
        }
    }

    /// Returns the attribute by which a launch may begin before the one before it has ended.
    pub(in crate::cuda) fn begins_early() -> LaunchAttribute {
        let mut value = [0; 16];
        value[0] = 1;
        LaunchAttribute {
            id: 6,
            _pad: [0; 4],
            value,
        }
    }
}

/// An enumeration of `cuda.h`: the names there, and the numbers.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident of $of:ident { $($variant:ident = $symbol:ident = $value:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub(in crate::cuda) enum $name {
            $($variant = $value),*
        }

        #[cfg(all(test, feature = "cudarc"))]
        impl $name {
            /// The pairs of our number and that of the bindings of `cudarc`.
            fn beside_bindings() -> Vec<(&'static str, u32, u32)> {
                vec![$((
                    stringify!($symbol),
                    $name::$variant as u32,
                    cudarc::driver::sys::$of::$symbol as u32,
                )),*]
            }
        }
    };
}

numbers! {
    /// Attributes of a device.
    DeviceAttribute of CUdevice_attribute {
        MaxThreadsPerBlock = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
        MaxBlockX = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
        MaxBlockY = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
        MaxBlockZ = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
        MaxGridX = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
        MaxGridY = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
        MaxGridZ = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
        Clock = CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
        Multiprocessors = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
        MemoryClock = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
        MemoryBus = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
        ResidentThreads = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
        CapabilityMajor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
        CapabilityMinor = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
        ResidentShared = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        MaxSharedOptIn = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        ClusterLaunch = CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
        WideStreamMemoryOperations = CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
    }
}

numbers! {
    /// Attributes of a function.
    FunctionAttribute of CUfunction_attribute {
        MaxThreadsPerBlock = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
        SharedBytes = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
        LocalBytes = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
        Registers = CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
        MaxDynamicSharedBytes = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    }
}

numbers! {
    /// Options of the driver's assembler and linker.
    JitOption of CUjit_option {
        InfoLog = CU_JIT_INFO_LOG_BUFFER = 3,
        InfoLogBytes = CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
        ErrorLog = CU_JIT_ERROR_LOG_BUFFER = 5,
        ErrorLogBytes = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
        Target = CU_JIT_TARGET = 9,
        Verbose = CU_JIT_LOG_VERBOSE = 12,
        LineInfo = CU_JIT_GENERATE_LINE_INFO = 13,
    }
}

numbers! {
    /// What the linker is given.
    JitInput of CUjitInputType {
        Ptx = CU_JIT_INPUT_PTX = 1,
    }
}

numbers! {
    /// The elements of a tensor map.
    MapElement of CUtensorMapDataType {
        U8 = CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
        U16 = CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
        U32 = CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
        S32 = CU_TENSOR_MAP_DATA_TYPE_INT32 = 3,
        U64 = CU_TENSOR_MAP_DATA_TYPE_UINT64 = 4,
        S64 = CU_TENSOR_MAP_DATA_TYPE_INT64 = 5,
        F16 = CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
        F32 = CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
        F64 = CU_TENSOR_MAP_DATA_TYPE_FLOAT64 = 8,
        Bf16 = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
        Tf32 = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 = 11,
    }
}

numbers! {
    /// The interleaving of a tensor map.
    MapInterleave of CUtensorMapInterleave {
        None = CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
        B16 = CU_TENSOR_MAP_INTERLEAVE_16B = 1,
        B32 = CU_TENSOR_MAP_INTERLEAVE_32B = 2,
    }
}

numbers! {
    /// The swizzle of a tensor map.
    MapSwizzle of CUtensorMapSwizzle {
        None = CU_TENSOR_MAP_SWIZZLE_NONE = 0,
        B32 = CU_TENSOR_MAP_SWIZZLE_32B = 1,
        B64 = CU_TENSOR_MAP_SWIZZLE_64B = 2,
        B128 = CU_TENSOR_MAP_SWIZZLE_128B = 3,
        B128Atom32 = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B = 4,
        B128Atom64 = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B = 6,
    }
}

numbers! {
    /// How far a load through a tensor map fills the L2 cache.
    MapPromotion of CUtensorMapL2promotion {
        None = CU_TENSOR_MAP_L2_PROMOTION_NONE = 0,
        B64 = CU_TENSOR_MAP_L2_PROMOTION_L2_64B = 1,
        B128 = CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2,
        B256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
    }
}

numbers! {
    /// What a load through a tensor map gives outside of the tensor.
    MapFill of CUtensorMapFloatOOBfill {
        Zero = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0,
        Nan = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA = 1,
    }
}

#[cfg(all(test, feature = "cudarc"))]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use cudarc::driver::sys;

    use super::*;

    /// The numbers of `cuda.h` are those of the bindings, where bindings with these names are compiled.
    #[test]
    fn numbers_are_those_of_the_bindings() {
        let pairs = [
            DeviceAttribute::beside_bindings(),
            FunctionAttribute::beside_bindings(),
            JitOption::beside_bindings(),
            JitInput::beside_bindings(),
            MapElement::beside_bindings(),
            MapInterleave::beside_bindings(),
            MapSwizzle::beside_bindings(),
            MapPromotion::beside_bindings(),
            MapFill::beside_bindings(),
        ]
        .concat();
        for (name, ours, theirs) in &pairs {
            assert_eq!(ours, theirs, "{name}");
        }
        println!(
            "law numbers_are_those_of_the_bindings: {} cases",
            pairs.len()
        );
    }

    #[test]
    fn structures_have_the_bindings_layout() {
        assert_eq!(size_of::<LaunchConfig>(), size_of::<sys::CUlaunchConfig>());
        assert_eq!(
            [
                offset_of!(LaunchConfig, grid),
                offset_of!(LaunchConfig, block),
                offset_of!(LaunchConfig, shared_bytes),
                offset_of!(LaunchConfig, stream),
                offset_of!(LaunchConfig, attributes),
                offset_of!(LaunchConfig, attribute_count),
            ],
            [
                offset_of!(sys::CUlaunchConfig, gridDimX),
                offset_of!(sys::CUlaunchConfig, blockDimX),
                offset_of!(sys::CUlaunchConfig, sharedMemBytes),
                offset_of!(sys::CUlaunchConfig, hStream),
                offset_of!(sys::CUlaunchConfig, attrs),
                offset_of!(sys::CUlaunchConfig, numAttrs),
            ]
        );
        assert_eq!(
            (size_of::<LaunchAttribute>(), align_of::<LaunchAttribute>()),
            (
                size_of::<sys::CUlaunchAttribute>(),
                align_of::<sys::CUlaunchAttribute>()
            )
        );
        assert_eq!(
            offset_of!(LaunchAttribute, value),
            offset_of!(sys::CUlaunchAttribute, value)
        );
        assert_eq!(size_of::<IpcMemHandle>(), size_of::<sys::CUipcMemHandle>());
        use sys::CUlaunchAttributeID as Id;
        let id = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as u32;
        assert_eq!(LaunchAttribute::cluster([1; 3]).id, id);
        let id = Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as u32;
        assert_eq!(LaunchAttribute::cooperative().id, id);
        let id = Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION as u32;
        assert_eq!(LaunchAttribute::begins_early().id, id);
    }
}
