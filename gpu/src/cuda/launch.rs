//! Launches, after all that can be checked was checked.

use std::ffi::{c_char, c_void};

use cudarc::driver::sys;

use super::gpu::Gpu;
use super::module::Loaded;
use crate::argument::Argument;
use crate::error::Error;
use crate::launch::Launch;

/// One argument where the driver reads it. Tensor maps must lie at multiples of 64 bytes, so all do.
#[repr(C, align(64))]
struct Slot([u64; 16]);

impl Slot {
    /// The argument's bytes in front, as a little-endian machine stores them.
    fn of(argument: &Argument) -> Result<Slot, Error> {
        let first = match argument {
            Argument::U16(bits) => u64::from(*bits),
            Argument::U32(bits) => u64::from(*bits),
            Argument::F32(value) => u64::from(value.to_bits()),
            Argument::U64(bits) | Argument::Pointer(bits) => *bits,
            Argument::F64(value) => value.to_bits(),
            Argument::TensorMap(map) => {
                return map.encoded.map(Slot).ok_or(Error::Unsupported {
                    what: "take this tensor map",
                    device: "a GPU".to_string(),
                    why: "it was made by the simulator; make it with `tensor_map` of the device that runs the kernel",
                });
            }
        };
        let mut words = [0; 16];
        words[0] = first.to_le();
        Ok(Slot(words))
    }
}

impl Gpu {
    /// Gives a launch to the stream. Whether the kernel then fails is known when something waits for it.
    ///
    /// The shape and the arguments must have been checked against the device's limits and the function's parameters.
    pub(crate) fn launch(
        &self,
        function: &Loaded,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<(), Error> {
        function.expect_dynamic(self, launch.dynamic_shared)?;
        let slots = arguments
            .iter()
            .map(Slot::of)
            .collect::<Result<Vec<Slot>, Error>>()?;
        let mut pointers: Vec<*mut c_void> = slots
            .iter()
            .map(|slot| std::ptr::from_ref(slot).cast_mut().cast())
            .collect();
        let mut attributes = cluster(launch);
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.dynamic_shared,
            hStream: self.stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        self.call("cuLaunchKernelEx", |api| {
            // SAFETY: as many arguments of the right sizes as the function has parameters, copied before it returns.
            // Where the kernel's own addresses lead is up to the kernel, as it is with any program that one starts.
            unsafe {
                (api.launch_kernel)(
                    &config,
                    function.handle,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        })
    }
}

/// The attribute that asks for clusters, if there are any.
fn cluster(launch: &Launch) -> Vec<sys::CUlaunchAttribute> {
    if launch.cluster == [1; 3] {
        return Vec::new();
    }
    let [x, y, z] = launch.cluster;
    vec![sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0 as c_char; 4],
        value: sys::CUlaunchAttributeValue {
            clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z },
        },
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_at_the_front_of_their_slot() {
        let first = |argument: Argument| Slot::of(&argument).unwrap().0[0];
        assert_eq!(first(Argument::from(-1i16)), 0xffff);
        assert_eq!(first(Argument::from(1f32)), 0x3f80_0000);
        assert_eq!(first(Argument::from(-1i64)), u64::MAX);
        assert_eq!(align_of::<Slot>(), 64);
    }

    #[test]
    fn only_clusters_of_several_blocks_are_asked_for() {
        let launch = Launch::new(8, 32);
        assert!(cluster(&launch).is_empty());
        assert_eq!(cluster(&launch.cluster([1, 2])).len(), 1);
    }
}
