//! Launches. The arguments have been checked before.

use std::ffi::c_void;

use smallvec::SmallVec;

use super::gpu::Gpu;
use super::module::Loaded;
use super::sys::{LaunchAttribute, LaunchConfig};
use crate::error::{Error, ErrorKind};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};

/// A tensor map where the driver reads it: at a multiple of 64 bytes.
#[repr(C, align(64))]
struct AlignedTensorMap([u64; 16]);

impl AlignedTensorMap {
    fn of(map: &TensorMapArgument) -> Result<AlignedTensorMap, Error> {
        map.encoded.map(AlignedTensorMap).ok_or_else(|| ErrorKind::Unsupported {
            what: "take this tensor map",
            device: "a GPU".to_string(),
            why: "it was made by the simulator; make it with `tensor_map` of the device that runs the kernel",
        }.into())
    }
}

/// The tensor maps of a launch; a few take no memory of the heap.
type Maps = SmallVec<[AlignedTensorMap; 4]>;

/// The addresses of a launch's arguments, likewise.
type Addresses = SmallVec<[*mut c_void; 32]>;

/// The tensor maps among some arguments.
fn maps(arguments: &[Argument]) -> Result<Maps, Error> {
    let maps = arguments.iter().filter_map(|argument| match argument {
        Argument::TensorMap(map) => Some(AlignedTensorMap::of(map)),
        _ => None,
    });
    maps.collect()
}

/// Where the driver finds each argument: a number where it stands, a tensor map among the maps of these arguments. The
/// driver reads as many bytes as the parameter has, and writes none.
fn addresses(arguments: &[Argument], maps: &[AlignedTensorMap]) -> Addresses {
    fn at<T>(value: &T) -> *mut c_void {
        std::ptr::from_ref(value).cast_mut().cast()
    }
    let mut maps = maps.iter();
    let address = |argument: &Argument| match argument {
        Argument::U16(bits) => at(bits),
        Argument::U32(bits) => at(bits),
        Argument::F32(value) => at(value),
        Argument::U64(bits) | Argument::Pointer(bits) => at(bits),
        Argument::F64(value) => at(value),
        Argument::TensorMap(_) => at(maps.next().expect("each map has its slot")),
    };
    arguments.iter().map(address).collect()
}

/// A launch whose arguments stand where the driver reads them, for a bench: a run is one call of the driver, without a check.
pub(crate) struct BareGpuLaunch {
    gpu: Gpu,
    held: HeldGpuLaunch,
}

/// A checked launch whose arguments stand where the driver reads them. It owns all that its addresses point to.
pub(crate) struct HeldGpuLaunch {
    config: LaunchConfig,
    addresses: Addresses,
    _held: (Vec<LaunchAttribute>, Vec<Argument>, Vec<AlignedTensorMap>),
}

// SAFETY: the pointers lead into memory that the value owns on the heap. Nothing writes it after it was made.
unsafe impl Send for HeldGpuLaunch {}
// SAFETY: as above.
unsafe impl Sync for HeldGpuLaunch {}

impl std::fmt::Debug for HeldGpuLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeldGpuLaunch")
    }
}

/// The attributes of a launch: a cluster or all blocks at once, and an early begin.
type Attributes = SmallVec<[LaunchAttribute; 2]>;

impl std::fmt::Debug for BareGpuLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BareGpuLaunch").field(&self.gpu).finish()
    }
}

impl BareGpuLaunch {
    /// Enqueues the launch of the function that it was made for, on a thread where the context is current.
    pub(crate) fn run(&self, function: &Loaded) -> Result<(), Error> {
        let api = self.gpu.api();
        // SAFETY: as of `Gpu::launch`; what the configuration and the addresses point to is held beside them, on the heap. The
        // driver reads the addresses and what stands there, and writes neither. Where another context is current, it
        // returns an error.
        let code = unsafe {
            (api.launch_kernel)(
                &self.held.config,
                function.handle,
                self.held.addresses.as_ptr().cast_mut(),
                std::ptr::null_mut(),
            )
        };
        match code {
            0 => Ok(()),
            code => Err(self.gpu.failed("cuLaunchKernelEx", code)),
        }
    }
}

/// The first version of CUDA whose streams capture a launch that may begin early.
const EARLY_IN_CAPTURES: i32 = 12030;

impl Gpu {
    /// Enqueues a launch on the stream. A failure of the kernel is reported by the call that waits for it.
    ///
    /// The shape and the arguments must have been checked against the device's limits and the function's parameters. With
    /// `begins_early`, which takes a kernel whose threads wait first, blocks may begin before the launch before it has ended. A cooperative
    /// launch begins in order: its blocks need the whole device.
    pub(crate) fn launch(
        &self,
        function: &Loaded,
        (launch, begins_early): (&Launch, bool),
        arguments: &[Argument],
    ) -> Result<(), Error> {
        let maps = maps(arguments)?;
        let mut addresses = addresses(arguments, &maps);
        let mut attributes = self.attributes(launch, begins_early);
        let config = self.config(launch, &mut attributes);
        self.call("cuLaunchKernelEx", |api| {
            // SAFETY: as many arguments of the right sizes as the function has parameters, copied before it returns; as
            // many attributes as are counted. Where the kernel's own addresses lead is up to the kernel, as it is with any
            // program that one starts.
            unsafe {
                (api.launch_kernel)(
                    &config,
                    function.handle,
                    addresses.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        })
    }

    /// Returns a launch whose arguments stand where the driver reads them. They must have been checked, as for [`launch`](Gpu::launch).
    pub(crate) fn held_launch(
        &self,
        (launch, begins_early): (&Launch, bool),
        arguments: &[Argument],
    ) -> Result<HeldGpuLaunch, Error> {
        let arguments = arguments.to_vec();
        let maps = maps(&arguments)?.into_vec();
        let mut attributes = self.attributes(launch, begins_early).into_vec();
        Ok(HeldGpuLaunch {
            config: self.config(launch, &mut attributes),
            addresses: addresses(&arguments, &maps),
            _held: (attributes, arguments, maps),
        })
    }

    /// Enqueues a held launch of a function on the stream.
    pub(crate) fn launch_held(&self, function: &Loaded, held: &HeldGpuLaunch) -> Result<(), Error> {
        // Another handle of the device may have another stream than the one that the launch was made with.
        let config = LaunchConfig {
            stream: self.stream.handle(),
            ..held.config
        };
        self.call("cuLaunchKernelEx", |api| {
            // SAFETY: as of `launch`; what the configuration and the addresses point to is held beside them, on the heap. The driver
            // reads the addresses and what stands there, and writes neither.
            unsafe {
                (api.launch_kernel)(
                    &config,
                    function.handle,
                    held.addresses.as_ptr().cast_mut(),
                    std::ptr::null_mut(),
                )
            }
        })
    }

    fn attributes(&self, launch: &Launch, begins_early: bool) -> Attributes {
        let mut attributes = Attributes::new();
        if launch.cluster != [1; 3] {
            attributes.push(LaunchAttribute::cluster(launch.cluster));
        }
        if launch.cooperative {
            attributes.push(LaunchAttribute::cooperative());
        } else if begins_early && self.driver_version() >= EARLY_IN_CAPTURES {
            attributes.push(LaunchAttribute::begins_early());
        }
        attributes
    }

    /// What the driver reads of a launch; it points to the attributes.
    fn config(&self, launch: &Launch, attributes: &mut [LaunchAttribute]) -> LaunchConfig {
        LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.dynamic_shared,
            stream: self.stream.handle(),
            attributes: attributes.as_mut_ptr(),
            attribute_count: attributes.len() as u32,
        }
    }

    /// Returns a checked launch that only calls the driver, and makes the context current on this thread.
    pub(crate) fn bare_launch(
        &self,
        (launch, begins_early): (&Launch, bool),
        arguments: &[Argument],
    ) -> Result<BareGpuLaunch, Error> {
        self.bind()?;
        Ok(BareGpuLaunch {
            gpu: self.clone(),
            held: self.held_launch((launch, begins_early), arguments)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use colex_atom::{Interleave, L2Promotion, OobFill, TensorMap, TmaElement, TmaSwizzle};

    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            element: TmaElement::F32,
            dims: vec![64],
            strides: Vec::new(),
            extents: vec![16],
            element_strides: vec![1],
            im2col: None,
            swizzle: TmaSwizzle::None,
            interleave: Interleave::None,
            l2: L2Promotion::None,
            fill: OobFill::Zero,
        }
    }

    /// The bytes that the driver reads of an argument.
    fn bytes<const N: usize>(argument: Argument) -> [u8; N] {
        let arguments = [argument];
        let maps = maps(&arguments).unwrap();
        let address = addresses(&arguments, &maps)[0].cast::<[u8; N]>();
        // SAFETY: the argument lives, and has at least `N` bytes.
        unsafe { *address }
    }

    #[test]
    fn an_argument_is_read_where_it_stands() {
        assert_eq!(bytes(Argument::from(-2i16)), (-2i16).to_ne_bytes());
        assert_eq!(bytes(Argument::from(7u32)), 7u32.to_ne_bytes());
        assert_eq!(bytes(Argument::from(1f32)), 1f32.to_ne_bytes());
        assert_eq!(bytes(Argument::from(-1f64)), (-1f64).to_ne_bytes());
        assert_eq!(bytes(Argument::from(-3i64)), (-3i64).to_ne_bytes());
        assert_eq!(bytes(Argument::Pointer(512)), 512u64.to_ne_bytes());
    }

    /// As many arguments and maps as have no place on the stack, too.
    #[test]
    fn tensor_maps_stand_at_multiples_of_64_bytes_in_their_order() {
        for count in [1, 4, 5, 100] {
            let argument = |i: u64| {
                let map = TensorMapArgument {
                    map: map(),
                    address: 0,
                    encoded: Some([i; 16]),
                };
                [Argument::from(map), Argument::U64(i)]
            };
            let arguments: Vec<Argument> = (0..count).flat_map(argument).collect();
            let maps = maps(&arguments).unwrap();
            let addresses = addresses(&arguments, &maps);
            for (i, pair) in addresses.chunks(2).enumerate() {
                assert!(pair[0].cast::<AlignedTensorMap>().is_aligned());
                // SAFETY: the maps and the arguments live.
                let found = unsafe {
                    (
                        (*pair[0].cast::<AlignedTensorMap>()).0,
                        *pair[1].cast::<u64>(),
                    )
                };
                assert_eq!(found, ([i as u64; 16], i as u64));
            }
        }
    }
}
