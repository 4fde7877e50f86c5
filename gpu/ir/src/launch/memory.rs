//! Memory of a device, as the arguments of a launch see it.

use core::fmt;

use colex_atom::TmaElement;

/// Elements in the memory of a device: what a buffer says of itself when it is passed to a kernel.
pub trait DeviceMemory: fmt::Debug {
    /// Returns the address of the first element on the device.
    fn address(&self) -> u64;

    /// Returns the length in bytes.
    fn byte_count(&self) -> u64;

    /// Returns the name of the elements' type in Rust, such as `f16`.
    fn element_name(&self) -> &'static str;

    /// Returns a number that two memories share if and only if they are of the same device.
    fn device_id(&self) -> usize;

    /// Returns the name of the device, for messages.
    fn device_name(&self) -> String;
}

/// Why tensors and scalars cannot be passed to a kernel.
#[derive(Clone, PartialEq)]
pub struct ArgumentError {
    /// The sentence: which argument, what is wrong with it, and what would be right.
    pub why: String,
}

impl ArgumentError {
    /// Refuses a buffer whose elements are not those of a map; bytes may be anything's.
    ///
    /// # Errors
    ///
    /// The [`ArgumentError`] that names both types.
    pub fn of_map(element: TmaElement, held: &'static str) -> Result<(), ArgumentError> {
        let names: &[&str] = match element {
            TmaElement::U8 => &["i8"],
            TmaElement::U16 => &["u16", "i16"],
            TmaElement::U32 | TmaElement::S32 => &["u32", "i32"],
            TmaElement::U64 | TmaElement::S64 => &["u64", "i64"],
            TmaElement::F16 => &["f16"],
            TmaElement::F32 | TmaElement::Tf32 => &["f32"],
            TmaElement::F64 => &["f64"],
            TmaElement::Bf16 => &["bf16"],
        };
        if held == "u8" || names.contains(&held) {
            return Ok(());
        }
        let why = format!("elements of {held}, and the map is of {element:?}");
        Err(ArgumentError { why })
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for ArgumentError {}

colex_layout::debug_as_display!(ArgumentError);
