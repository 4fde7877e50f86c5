//! The errors of devices.

use std::fmt;
use std::time::Duration;

use colex_atom::{Arch, PtxVersion, Release};
use colex_ir::Escaped;
use colex_ir::launch::ArgumentError;
use colex_ir::verify::Refused;
use colex_sim::Fault;

colex_layout::opaque_error! {
    /// Why an operation on a device failed.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_device::Device;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
    /// let error = device.load_ptx(text, "nothing").unwrap_err();
    /// assert!(error.is_unsupported());
    /// let error = device.zeros::<f32>(4)?.slice(2..9).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "elements 2..9 of a buffer of 4: the range must begin before it ends, and end by 4"
    /// );
    /// # Ok::<(), colex_device::Error>(())
    /// ```
    #[derive(Clone, PartialEq)]
    pub struct Error(ErrorKind);
    from colex_ir::Error, colex_layout::Error, Refused, colex_atom::Error, ArgumentError, colex_sim::Error, Fault;
}

impl Error {
    /// Returns whether there is no GPU to open: no driver, no device, no device with this ordinal, or a driver or device
    /// that is too old.
    pub fn is_no_gpu(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::NoDriver
                | ErrorKind::DriverTooOld { .. }
                | ErrorKind::NoDevice
                | ErrorKind::NoSuchDevice { .. }
                | ErrorKind::DeviceTooOld { .. }
        )
    }

    /// Returns whether a kernel broke the context: it trapped, or made an invalid access. The driver gives this process
    /// no other context afterwards, neither a new primary context nor another one (seen with driver 580 on an H200).
    /// Run untrusted kernels in a child process.
    pub fn is_context_lost(&self) -> bool {
        matches!(self.kind(), ErrorKind::ContextLost { .. })
    }

    /// Returns whether a kernel broke the context in the way that a trap does. A kernel of `colex-tensor` traps where an
    /// access without a predicate leaves its tensor, or an integer its declared range, and no launch could tell: the simulator
    /// names the access.
    pub fn is_trap(&self) -> bool {
        matches!(self.kind(), ErrorKind::ContextLost { cause, .. } if cause.is_trap())
    }

    /// Returns whether the memory of the device or of the host is full.
    pub fn is_out_of_memory(&self) -> bool {
        match self.kind() {
            ErrorKind::OutOfMemory { .. } | ErrorKind::HostMemory { .. } => true,
            ErrorKind::Memory(error) => error.is_out_of_memory(),
            _ => false,
        }
    }

    /// Returns whether the device does not support the operation: the simulator measures no times, and a GPU counts no
    /// sectors.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unsupported { .. })
    }

    /// Returns whether a buffer, a function or an event belongs to another device.
    pub fn is_other_device(&self) -> bool {
        match self.kind() {
            ErrorKind::OtherDevice { .. } | ErrorKind::OtherContext { .. } => true,
            #[cfg(feature = "cudarc")]
            ErrorKind::NotOfCudarc => true,
            _ => false,
        }
    }

    /// Returns whether a wait ended because its time was over.
    pub fn is_deadline(&self) -> bool {
        matches!(self.kind(), ErrorKind::Deadline { .. })
    }

    /// Returns whether there is no NCCL, or one that is too old.
    #[cfg(feature = "nccl")]
    pub fn is_no_nccl(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::NoNccl | ErrorKind::NcclTooOld { .. }
        )
    }

    /// Returns whether two devices have no peer access to each other.
    pub fn is_no_peer_access(&self) -> bool {
        matches!(self.kind(), ErrorKind::NoPeerAccess { .. })
    }

    /// Returns whether the function to be timed enqueued nothing on the device that it was called with.
    pub fn is_nothing_captured(&self) -> bool {
        matches!(self.kind(), ErrorKind::NothingCaptured)
    }

    /// Returns whether a capture of the stream forbids what was asked: an allocation, the load of a kernel, a wait, or a
    /// copy between host and device.
    pub fn is_capturing(&self) -> bool {
        matches!(self.kind(), ErrorKind::Capturing { .. })
    }

    /// Returns whether a tensor has no tensor map, or a kernel was built for other tensors.
    pub fn is_tensor_refused(&self) -> bool {
        matches!(self.kind(), ErrorKind::Tma(_) | ErrorKind::Argument(_))
    }

    /// Returns the error of the launch, if it was refused before it reached the device.
    pub fn launch(&self) -> Option<&colex_ir::Error> {
        match self.kind() {
            ErrorKind::Launch(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the findings of the verifier, if it refused the kernel.
    pub fn refused(&self) -> Option<&Refused> {
        match self.kind() {
            ErrorKind::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    /// Returns the fault that the simulator found in the kernel, if it is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self.kind() {
            ErrorKind::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns whether the driver is too old for the text: it does not know its version of PTX.
    pub fn is_driver_too_old_for_text(&self) -> bool {
        matches!(self.kind(), ErrorKind::PtxTooNew { .. })
    }

    /// Returns whether an image is no machine code of a GPU, or not of this one, or has other parameters.
    pub fn is_image_refused(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Image { .. }
                | ErrorKind::ImageRefused { .. }
                | ErrorKind::ImageSignature { .. }
        )
    }

    /// Returns the log of the driver's assembler, if it refused the text.
    pub fn assembler_log(&self) -> Option<&str> {
        match self.kind() {
            ErrorKind::Assembly { log, .. } => Some(log),
            _ => None,
        }
    }
}

/// What the driver says of a context that a kernel broke.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    pub(crate) code: u32,
    /// The name of the code and its description.
    pub(crate) text: String,
}

impl Cause {
    /// Whether a trap has this code: an illegal instruction, or a launch that failed for no reason that the driver names.
    fn is_trap(&self) -> bool {
        matches!(self.code, 715 | 719)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.is_trap() {
            f.write_str(
                ", as after a trap: kernels trap where an access without a predicate leaves its tensor, or an integer its \
                 declared range, and the simulator names which",
            )?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("no NVIDIA driver was found (libcuda.so or nvcuda.dll)")]
    NoDriver,
    #[error(
        "the driver implements CUDA {}{}; CUDA {} or newer is needed",
        release(*version), lacking(*missing), release(*needed)
    )]
    DriverTooOld {
        /// 12020 for CUDA 12.2; 0 if the driver does not report it.
        version: i32,
        needed: i32,
        missing: Option<&'static str>,
    },
    #[error("the driver sees no CUDA device")]
    NoDevice,
    #[error("there is no device {ordinal}: the driver sees {count}, counted from 0")]
    NoSuchDevice { ordinal: usize, count: usize },
    #[error(
        "{name} has compute capability {}.{}, and kernels are printed for 5.0 and newer",
        capability.0, capability.1
    )]
    DeviceTooOld {
        name: String,
        capability: (u32, u32),
    },
    #[error("{bytes} bytes were asked of the device, which has {free} free of {total}")]
    OutOfMemory {
        bytes: usize,
        free: usize,
        total: usize,
    },
    #[error("{bytes} bytes of the host's memory were asked for, and it has no room for them")]
    HostMemory { bytes: usize },
    #[error(
        "`{}` is built for {target}, which does not run on {device} ({arch}): build it for that",
        Escaped(kernel)
    )]
    Target {
        kernel: String,
        target: Arch,
        device: String,
        arch: Arch,
    },
    #[error("the driver's assembler for {device} refused the text: {log}")]
    Assembly { device: String, log: String },
    #[error(
        "the text is PTX {text}, which came with {brought}, and the driver implements CUDA {}",
        release(*driver)
    )]
    PtxTooNew {
        text: PtxVersion,
        brought: Release,
        driver: i32,
    },
    #[error("the image is no machine code of a GPU: {why}")]
    Image { why: String },
    #[error("{device} does not load the image: {log}")]
    ImageRefused { device: String, log: String },
    #[error(
        "the parameters of `{}` have {} bytes, and those of the signature given {}",
        Escaped(entry),
        bytes(found),
        bytes(given)
    )]
    ImageSignature {
        entry: String,
        found: Vec<u32>,
        given: Vec<u32>,
    },
    #[error("the module has no entry `{}`: it has {}", Escaped(entry), list(found))]
    NoEntry { entry: String, found: Vec<String> },
    #[error(
        "the parameter `{}` of `{}` is neither a number of 16 to 64 bits nor a tensor map of 128 bytes",
        Escaped(declaration),
        Escaped(entry)
    )]
    Parameter { entry: String, declaration: String },
    #[error(
        "a kernel broke the context on {device} ({cause}): nothing more runs there in this process, a new process can \
         open the device again"
    )]
    ContextLost { device: String, cause: Cause },
    #[error("nothing was captured: give the work to the device that the function is called with")]
    NothingCaptured,
    #[error(
        "{what} may break off the capture of the stream: do it before the capture begins, and prepare library calls \
         there (`Gemm::prepare`, `CopyCall::new`)"
    )]
    Capturing { what: &'static str },
    #[error("the {what} belongs to another context than the device's")]
    OtherContext { what: &'static str },
    #[error("the context is null: give the `CUcontext` that the program works in")]
    NullContext,
    #[cfg(feature = "cudarc")]
    #[error(
        "a slice of cudarc is borrowed by a device of cudarc's context and stream: make the device by `Device::from_cuda`"
    )]
    NotOfCudarc,
    #[error(
        "{address:#x} is not the address of an element: it must be a multiple of {need}, and not 0"
    )]
    RawAddress { address: u64, need: u64 },
    #[error("{length} elements from {address:#x} on end beyond the last address")]
    RawLength { address: u64, length: usize },
    #[error("{call} returned {name} ({code}): {text}")]
    Driver {
        call: &'static str,
        code: u32,
        name: String,
        text: String,
    },
    #[error(
        "elements {start}..{end} of a buffer of {length}: the range must begin before it ends, and end by {length}"
    )]
    Slice {
        start: usize,
        end: usize,
        length: usize,
    },
    #[error("{layout} reaches element {element}, and the buffer {}", elements(*length))]
    Outside {
        layout: String,
        element: i64,
        length: usize,
    },
    #[error("{layout} has strides that are not integers: a kernel takes offsets in elements")]
    Strides { layout: String },
    #[error("{shape} is not the shape of a view: {why}")]
    Shape { shape: String, why: String },
    #[error("the buffer begins at {address:#x}, which is not a multiple of {need} bytes")]
    Misaligned { address: u64, need: u64 },
    #[error(
        "{given:?} is not a permutation: it must name each of the {rank} modes, 0 to {}, once",
        *rank as i64 - 1
    )]
    Permutation { given: Vec<usize>, rank: usize },
    #[error("the slice was borrowed for reading, and a view to write it needs `borrow_slice_mut`")]
    ReadOnly,
    #[error("{what} has {expected} elements, and {found} were given")]
    Length {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    #[error(
        "the copy of {bytes} bytes from {from:#x} to {to:#x} would read what it writes: the slices share a part of their memory, and a GPU \
         copies in no fixed order; copy by a third buffer"
    )]
    CopyOverlap { to: u64, from: u64, bytes: usize },
    #[error(
        "a matrix of {rows} by {columns} elements with the leading dimension {leading} is none of cuBLASLt: columns begin at least a column \
         apart, and the last element has an address"
    )]
    LtMatrix {
        rows: u64,
        columns: u64,
        leading: i64,
    },
    #[error("{}", other_device(what, device, holder))]
    OtherDevice {
        what: &'static str,
        device: String,
        holder: String,
    },
    #[error(
        "{device} cannot access the memory of {peer}: the driver has no peer access between them"
    )]
    NoPeerAccess { device: String, peer: String },
    #[error(
        "the buffer's memory belongs to another device or process, and can be exported only there"
    )]
    NotOwn,
    #[error(
        "the exported buffer is one of this process: use the buffer itself, or `Buffer::as_peer_of`"
    )]
    OwnExport,
    #[error(
        "{found} bytes are not those of an exported buffer, which has {need} that `ExportedBuffer::to_bytes` gave"
    )]
    ExportedBytes { found: usize, need: usize },
    #[error(
        "the exported buffer has elements of type {}, and was opened for {opened}",
        Escaped(exported)
    )]
    ExportedElement {
        exported: String,
        opened: &'static str,
    },
    #[error("the exported buffer ends {bytes} bytes into an allocation of {found} bytes")]
    ExportedRange { bytes: u64, found: u64 },
    #[error("{what} on {device} was not done after {within:?}")]
    Deadline {
        what: &'static str,
        device: String,
        within: Duration,
    },
    #[cfg(feature = "nccl")]
    #[error("no NCCL was found (libnccl.so.2 or libnccl.so)")]
    NoNccl,
    #[cfg(feature = "nccl")]
    #[error("NCCL {}{}; NCCL {} or newer is needed", nccl_release(*version), lacking(*missing), nccl_release(*needed))]
    NcclTooOld {
        /// 22703 for NCCL 2.27.3; 0 if the library does not report it.
        version: i32,
        needed: i32,
        missing: Option<&'static str>,
    },
    #[cfg(feature = "nccl")]
    #[error("{call} returned {text} ({code}){}", detail(last))]
    Nccl {
        call: &'static str,
        code: u32,
        text: String,
        /// What the library says beyond the code; empty if nothing.
        last: String,
    },
    #[cfg(feature = "nccl")]
    #[error("{found} bytes are not the identifier of a communicator, which has {need}")]
    NcclId { found: usize, need: usize },
    #[cfg(feature = "nccl")]
    #[error("rank {rank} of a communicator of {ranks} ranks, numbered from 0")]
    NcclRank { rank: usize, ranks: usize },
    #[cfg(feature = "nccl")]
    #[error("the communicator has failed: {why}")]
    NcclFailed { why: String },
    #[error("flag {index} of {count}, numbered from 0")]
    NoFlag { index: usize, count: usize },
    #[error("round {round} of a flag: rounds count from 1 to {most}")]
    FlagRound { round: u32, most: u32 },
    #[error(
        "the flags were released after a failure, and every wait for them passes: make new ones"
    )]
    FlagsReleased,
    #[error(
        "flag {index} has {found}, and a wait for {round} would not end: the simulator runs every call to its end before the next"
    )]
    NeverSet {
        index: usize,
        found: u32,
        round: u32,
    },
    #[error(transparent)]
    Layout(#[from] colex_layout::Error),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Launch(#[from] colex_ir::Error),
    #[error(transparent)]
    Tma(#[from] colex_atom::Error),
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Memory(#[from] colex_sim::Error),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{device} does not {what}: {why}")]
    Unsupported {
        what: &'static str,
        device: String,
        why: &'static str,
    },
}

/// `12.2` for 12020.
fn release(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// `2.27.3` for 22703.
#[cfg(feature = "nccl")]
fn nccl_release(version: i32) -> String {
    let (major, rest) = (version / 10000, version % 10000);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// What a library says beyond a code.
#[cfg(feature = "nccl")]
fn detail(last: &str) -> String {
    match last.trim() {
        "" => String::new(),
        last => format!(": {}", Escaped(last)),
    }
}

fn lacking(missing: Option<&str>) -> String {
    missing.map_or_else(String::new, |symbol| format!(" and lacks {symbol}"))
}

fn elements(length: usize) -> String {
    match length {
        0 => "is empty".into(),
        1 => "has element 0 only".into(),
        length => format!("has elements 0 to {}", length - 1),
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => {
            let names: Vec<String> = names.iter().map(|name| Escaped(name).to_string()).collect();
            names.join(", ")
        }
    }
}

fn bytes(sizes: &[u32]) -> String {
    match sizes {
        [] => "none".into(),
        sizes => sizes
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn other_device(what: &str, device: &str, holder: &str) -> String {
    if device == holder {
        let device = device.strip_prefix("the ").unwrap_or(device);
        return format!(
            "{what} is on one {device} and is used with another: all that a call uses must be on one device"
        );
    }
    format!("{what} is on {holder}, not on {device}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_verbatim() {
        let too_old = |version, missing| ErrorKind::DriverTooOld {
            version,
            needed: 12000,
            missing,
        };
        for (error, sentence) in [
            (
                ErrorKind::NoDriver,
                "no NVIDIA driver was found (libcuda.so or nvcuda.dll)",
            ),
            (
                too_old(11040, None),
                "the driver implements CUDA 11.4; CUDA 12.0 or newer is needed",
            ),
            (
                too_old(12010, Some("cuLinkCreate_v2")),
                "the driver implements CUDA 12.1 and lacks cuLinkCreate_v2; CUDA 12.0 or newer is needed",
            ),
            (ErrorKind::NoDevice, "the driver sees no CUDA device"),
            (
                ErrorKind::NoSuchDevice {
                    ordinal: 2,
                    count: 1,
                },
                "there is no device 2: the driver sees 1, counted from 0",
            ),
            (
                ErrorKind::DeviceTooOld {
                    name: "Tesla K80".to_string(),
                    capability: (3, 7),
                },
                "Tesla K80 has compute capability 3.7, and kernels are printed for 5.0 and newer",
            ),
            (
                ErrorKind::OutOfMemory {
                    bytes: 200,
                    free: 100,
                    total: 150,
                },
                "200 bytes were asked of the device, which has 100 free of 150",
            ),
            (
                ErrorKind::HostMemory { bytes: 1 << 60 },
                "1152921504606846976 bytes of the host's memory were asked for, and it has no room for them",
            ),
            (
                ErrorKind::ContextLost {
                    device: "H200".to_string(),
                    cause: Cause {
                        code: 700,
                        text: "CUDA_ERROR_X, it broke".to_string(),
                    },
                },
                "a kernel broke the context on H200 (CUDA_ERROR_X, it broke): nothing more runs there in this process, a new process can open the device again",
            ),
            (
                ErrorKind::ContextLost {
                    device: "H200".to_string(),
                    cause: Cause {
                        code: 719,
                        text: "CUDA_ERROR_LAUNCH_FAILED, it failed".to_string(),
                    },
                },
                "a kernel broke the context on H200 (CUDA_ERROR_LAUNCH_FAILED, it failed, as after a trap: kernels trap where an access without a predicate leaves its tensor, or an integer its declared range, and the simulator names which): nothing more runs there in this process, a new process can open the device again",
            ),
            (
                ErrorKind::NothingCaptured,
                "nothing was captured: give the work to the device that the function is called with",
            ),
            (
                ErrorKind::Capturing {
                    what: "loading a kernel",
                },
                "loading a kernel may break off the capture of the stream: do it before the capture begins, and prepare library calls there (`Gemm::prepare`, `CopyCall::new`)",
            ),
            (
                ErrorKind::OtherContext { what: "slice" },
                "the slice belongs to another context than the device's",
            ),
        ] {
            assert_eq!(error.to_string(), sentence);
        }
    }
}
