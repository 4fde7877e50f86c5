//! What can go wrong between a kernel and its result.

use core::fmt;

use colex_atom::{Arch, TmaError};

use colex_ir::launch::{ArgumentError, LaunchError};
use colex_ir::verify::Refused;
use colex_sim::MemoryFault;

/// Why something could not be done on a device.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// There is no driver: its library is not on this machine.
    NoDriver,
    /// The driver is older than what is used here.
    DriverTooOld {
        /// The version of CUDA it implements, 12020 for 12.2; 0 if it does not say.
        version: i32,
        /// The least version that will do.
        needed: i32,
        /// A function that it does not have.
        missing: Option<&'static str>,
    },
    /// The driver sees no device.
    NoDevice,
    /// There are fewer devices.
    NoSuchDevice {
        /// The one asked for, from 0.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The device is older than what kernels are printed for.
    DeviceTooOld {
        /// Its name.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
    /// The device's memory is full.
    OutOfMemory {
        /// The bytes asked for.
        bytes: usize,
        /// Those free.
        free: usize,
        /// Those it has.
        total: usize,
    },
    /// The host has no room for what a buffer holds.
    HostMemory {
        /// The bytes asked for.
        bytes: usize,
    },
    /// A kernel was built for an architecture whose code the device does not run.
    Target {
        /// The kernel's name.
        kernel: String,
        /// What it was built for.
        target: Arch,
        /// The device.
        device: String,
        /// The device's architecture.
        arch: Arch,
    },
    /// The driver's assembler refused a text.
    Assembly {
        /// The device it was for.
        device: String,
        /// What the assembler said.
        log: String,
    },
    /// The module has no such entry.
    NoEntry {
        /// The name asked for.
        entry: String,
        /// Those it has.
        found: Vec<String>,
    },
    /// A parameter that no argument can be.
    Parameter {
        /// The entry.
        entry: String,
        /// The parameter as declared.
        declaration: String,
    },
    /// A kernel broke the context: it trapped, or accessed what it should not. The driver gives this process no other,
    /// be it the primary one anew or one of its own (seen with driver 580 on an H200): what has to go on in spite of a
    /// broken kernel runs it in a process of its own.
    ContextLost {
        /// The device.
        device: String,
        /// The driver's name for what happened, and its sentence.
        cause: String,
    },
    /// Work was to be captured, and none was given to the device passed in.
    NothingCaptured,
    /// A stream or a slice of another context.
    OtherContext {
        /// `stream` or `slice`.
        what: &'static str,
    },
    /// Any other answer of the driver.
    Driver {
        /// The function called.
        call: &'static str,
        /// What it returned.
        code: u32,
        /// The name of that code.
        name: String,
        /// The driver's sentence for it.
        text: String,
    },
    /// A part of a buffer that is not there.
    Slice {
        /// The first element asked for.
        start: usize,
        /// One past the last.
        end: usize,
        /// The elements of the buffer.
        length: usize,
    },
    /// A layout that leaves its memory.
    Outside {
        /// The layout.
        layout: String,
        /// The element it reaches.
        element: i64,
        /// The elements of the memory.
        length: usize,
    },
    /// A layout whose values are not offsets.
    Strides {
        /// The layout.
        layout: String,
    },
    /// A shape that has no compact layout.
    Shape {
        /// The shape.
        shape: String,
        /// Why not.
        why: String,
    },
    /// Memory that does not begin at a multiple of its elements' size.
    Misaligned {
        /// Its address.
        address: u64,
        /// The bytes of an element.
        need: u64,
    },
    /// A list that is not a permutation of the modes.
    Permutation {
        /// The list.
        given: Vec<usize>,
        /// The modes.
        rank: usize,
    },
    /// A view to write a slice that was lent to be read.
    ReadOnly,
    /// As many elements were needed, and others were given.
    Length {
        /// What was to be filled.
        what: &'static str,
        /// Its elements.
        expected: usize,
        /// Those given.
        found: usize,
    },
    /// Two buffers of different devices, or a buffer with another device.
    OtherDevice {
        /// `the buffer` or `the function`.
        what: &'static str,
        /// The device asked.
        device: String,
        /// The one that holds the buffer.
        holder: String,
    },
    /// A kernel that cannot be right.
    Refused(Refused),
    /// A launch that the device or the kernel does not take.
    Launch(LaunchError),
    /// A tensor that has no tensor map.
    Tma(TmaError),
    /// Tensors that a kernel was not built for.
    Mismatch(ArgumentError),
    /// The simulator's memory was not used as it should be.
    Memory(MemoryFault),
    /// The simulator found a mistake of the kernel.
    Fault(Box<colex_sim::Fault>),
    /// Something that this device does not do.
    Unsupported {
        /// What was asked.
        what: &'static str,
        /// The device.
        device: String,
        /// Why not, or what to do instead.
        why: &'static str,
    },
}

impl From<LaunchError> for Error {
    fn from(error: LaunchError) -> Error {
        Error::Launch(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::Refused(refused)
    }
}

impl From<TmaError> for Error {
    fn from(error: TmaError) -> Error {
        Error::Tma(error)
    }
}

impl From<ArgumentError> for Error {
    fn from(mismatch: ArgumentError) -> Error {
        Error::Mismatch(mismatch)
    }
}

impl From<colex_sim::Fault> for Error {
    fn from(fault: colex_sim::Fault) -> Error {
        Error::Fault(Box::new(fault))
    }
}

impl From<MemoryFault> for Error {
    fn from(fault: MemoryFault) -> Error {
        Error::Memory(fault)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver
            | Error::DriverTooOld { .. }
            | Error::NoDevice
            | Error::NoSuchDevice { .. }
            | Error::DeviceTooOld { .. } => self.no_gpu(f),
            Error::OutOfMemory { bytes, free, total } => write!(
                f,
                "{bytes} bytes were asked of the device, which has {free} free of {total}"
            ),
            Error::HostMemory { bytes } => write!(
                f,
                "{bytes} bytes of the host's memory were asked for, and it has no room for them"
            ),
            Error::Target {
                kernel,
                target,
                device,
                arch,
            } => write!(
                f,
                "`{kernel}` is built for {target}, which does not run on {device} ({arch}): build it for that"
            ),
            Error::Assembly { device, log } => {
                write!(f, "the driver's assembler for {device} refused the text: {log}")
            }
            Error::NoEntry { entry, found } => match found.as_slice() {
                [] => write!(f, "the module has no entry `{entry}`: it has none"),
                names => write!(
                    f,
                    "the module has no entry `{entry}`: it has {}",
                    names.join(", ")
                ),
            },
            Error::Parameter { entry, declaration } => write!(
                f,
                "the parameter `{declaration}` of `{entry}` is neither a number of 16 to 64 bits nor a tensor map of 128 bytes"
            ),
            Error::ContextLost { device, cause } => write!(
                f,
                "a kernel broke the context on {device} ({cause}): nothing more runs there in this process, a new process can open the device again"
            ),
            Error::NothingCaptured => f.write_str(
                "nothing was captured: give the work to the device that the function is called with",
            ),
            Error::OtherContext { what } => {
                write!(f, "the {what} belongs to another context than the device's")
            }
            Error::Driver {
                call,
                code,
                name,
                text,
            } => write!(f, "{call} returned {name} ({code}): {text}"),
            Error::Slice { start, end, length } => write!(
                f,
                "elements {start}..{end} of a buffer of {length}: the range must begin before it ends, and end by {length}"
            ),
            Error::Outside {
                layout,
                element,
                length,
            } => {
                write!(f, "{layout} reaches element {element}, and the buffer ")?;
                match length {
                    0 => f.write_str("is empty"),
                    1 => f.write_str("has element 0 only"),
                    length => write!(f, "has elements 0 to {}", length - 1),
                }
            }
            Error::Strides { layout } => write!(
                f,
                "{layout} has strides that are not integers: a kernel takes offsets in elements"
            ),
            Error::Shape { shape, why } => write!(f, "{shape} is not the shape of a view: {why}"),
            Error::Misaligned { address, need } => write!(
                f,
                "the buffer begins at {address:#x}, which is not a multiple of {need} bytes"
            ),
            Error::Permutation { given, rank } => write!(
                f,
                "{given:?} is not a permutation: it must name each of the {rank} modes, 0 to {}, once",
                *rank as i64 - 1
            ),
            Error::ReadOnly => f.write_str(
                "the slice was lent to be read, and a view to write it needs `borrow_slice_mut`",
            ),
            Error::Length {
                what,
                expected,
                found,
            } => write!(f, "{what} has {expected} elements, and {found} were given"),
            Error::Refused(refused) => refused.fmt(f),
            Error::OtherDevice {
                what,
                device,
                holder,
            } if device == holder => write!(
                f,
                "{what} is on another device of that name than the {} it is used with",
                device.strip_prefix("the ").unwrap_or(device)
            ),
            Error::OtherDevice {
                what,
                device,
                holder,
            } => write!(f, "{what} is on {holder}, not on {device}"),
            Error::Launch(error) => error.fmt(f),
            Error::Tma(error) => error.fmt(f),
            Error::Mismatch(mismatch) => mismatch.fmt(f),
            Error::Memory(fault) => fault.fmt(f),
            Error::Fault(fault) => fault.fmt(f),
            Error::Unsupported { what, device, why } => {
                write!(f, "{device} does not {what}: {why}")
            }
        }
    }
}

impl Error {
    /// Why there is no GPU.
    fn no_gpu(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::DriverTooOld {
                version,
                needed,
                missing,
            } => {
                let missing = missing.map(|symbol| format!(" and lacks {symbol}"));
                write!(
                    f,
                    "the driver implements CUDA {}{}; CUDA {} or newer is needed",
                    release(*version),
                    missing.unwrap_or_default(),
                    release(*needed)
                )
            }
            Error::NoDevice => f.write_str("the driver sees no CUDA device"),
            Error::NoSuchDevice { ordinal, count } => {
                write!(
                    f,
                    "there is no device {ordinal}: the driver sees {count}, counted from 0"
                )
            }
            Error::DeviceTooOld {
                name,
                capability: (major, minor),
            } => write!(
                f,
                "{name} has compute capability {major}.{minor}, and kernels are printed for 5.0 and newer"
            ),
            _ => f.write_str("no NVIDIA driver was found (libcuda.so or nvcuda.dll)"),
        }
    }
}

/// `12.2` for 12020.
fn release(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_verbatim() {
        let too_old = |version, missing| Error::DriverTooOld {
            version,
            needed: 12000,
            missing,
        };
        for (error, sentence) in [
            (
                Error::NoDriver,
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
            (Error::NoDevice, "the driver sees no CUDA device"),
            (
                Error::NoSuchDevice {
                    ordinal: 2,
                    count: 1,
                },
                "there is no device 2: the driver sees 1, counted from 0",
            ),
            (
                Error::DeviceTooOld {
                    name: "Tesla K80".to_string(),
                    capability: (3, 7),
                },
                "Tesla K80 has compute capability 3.7, and kernels are printed for 5.0 and newer",
            ),
            (
                Error::OutOfMemory {
                    bytes: 200,
                    free: 100,
                    total: 150,
                },
                "200 bytes were asked of the device, which has 100 free of 150",
            ),
            (
                Error::HostMemory { bytes: 1 << 60 },
                "1152921504606846976 bytes of the host's memory were asked for, and it has no room for them",
            ),
            (
                Error::ContextLost {
                    device: "H200".to_string(),
                    cause: "CUDA_ERROR_X, it broke".to_string(),
                },
                "a kernel broke the context on H200 (CUDA_ERROR_X, it broke): nothing more runs there in this process, a new process can open the device again",
            ),
            (
                Error::NothingCaptured,
                "nothing was captured: give the work to the device that the function is called with",
            ),
            (
                Error::OtherContext { what: "slice" },
                "the slice belongs to another context than the device's",
            ),
        ] {
            assert_eq!(error.to_string(), sentence);
        }
    }
}
