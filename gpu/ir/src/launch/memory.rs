//! Device memory as the argument of a launch.

use core::fmt;

use colex_atom::TmaElement;

use crate::Escaped;

/// Elements in the memory of a device, as a buffer describes them to a launch.
pub trait DeviceMemory: fmt::Debug {
    /// Returns the address of the first element on the device.
    fn address(&self) -> u64;

    /// Returns the length in bytes.
    fn byte_count(&self) -> u64;

    /// Returns the name of the elements' type in Rust, such as `f16`.
    fn element_name(&self) -> &'static str;

    /// Returns the identity of the device: two memories have the same number if and only if they are on the same
    /// device.
    fn device_id(&self) -> usize;

    /// Returns the name of the device, for messages.
    fn device_name(&self) -> String;
}

colex_layout::opaque_error! {
    /// Why tensors and scalars cannot be passed to a kernel: which argument, what is wrong with it, and what would be
    /// right.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_ir::launch::ArgumentError;
    ///
    /// let error = ArgumentError::of_tensor("a", "elements of f16, and the kernel is built for f32");
    /// assert_eq!(error.to_string(), "tensor a: elements of f16, and the kernel is built for f32");
    /// assert_eq!(error.parameter(), Some("a"));
    /// assert_eq!(ArgumentError::new("1 arguments for 2 tensors and scalars").parameter(), None);
    /// ```
    #[derive(Clone, PartialEq)]
    pub struct ArgumentError(ArgumentErrorKind);
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ArgumentErrorKind {
    #[error("{}", Escaped(why))]
    Call { why: String },
    #[error("tensor {}: {}", Escaped(name), Escaped(why))]
    Tensor { name: String, why: String },
    #[error("argument {}: {}", Escaped(name), Escaped(why))]
    Scalar { name: String, why: String },
    #[error("argument {} is {wanted}", Escaped(name))]
    Form { name: String, wanted: &'static str },
}

impl ArgumentError {
    /// Returns the error of a launch whose arguments do not suit it as a whole: their number, or their devices.
    pub fn new(why: impl Into<String>) -> ArgumentError {
        ArgumentErrorKind::Call { why: why.into() }.into()
    }

    /// Returns the error of the tensor that is passed for the parameter `name`: `tensor NAME: WHY`.
    pub fn of_tensor(name: &str, why: impl Into<String>) -> ArgumentError {
        let (name, why) = (name.to_string(), why.into());
        ArgumentErrorKind::Tensor { name, why }.into()
    }

    /// Returns the error of the scalar that is passed for the parameter `name`: `argument NAME: WHY`.
    pub fn of_scalar(name: &str, why: impl Into<String>) -> ArgumentError {
        let (name, why) = (name.to_string(), why.into());
        ArgumentErrorKind::Scalar { name, why }.into()
    }

    /// Returns the error of an argument that is not of the form that the parameter `name` has: `argument NAME is WANTED`.
    pub fn of_form(name: &str, wanted: &'static str) -> ArgumentError {
        let name = name.to_string();
        ArgumentErrorKind::Form { name, wanted }.into()
    }

    /// Returns the name of the parameter whose argument is refused; `None` if the call as a whole is the reason.
    pub fn parameter(&self) -> Option<&str> {
        match self.kind() {
            ArgumentErrorKind::Call { .. } => None,
            ArgumentErrorKind::Tensor { name, .. }
            | ArgumentErrorKind::Scalar { name, .. }
            | ArgumentErrorKind::Form { name, .. } => Some(name),
        }
    }

    /// Checks that the elements of a buffer are those of a tensor map. Elements of `u8` are bytes of any type.
    ///
    /// # Errors
    ///
    /// Returns an error that names both types if they differ.
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
        Err(ArgumentError::new(why))
    }
}
