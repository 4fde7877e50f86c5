//! What an entry takes, against which a launch is checked.

use super::{Argument, Error, Launch, ParameterType, check_alignments, check_arguments};
use crate::kernel::{Kernel, Param, ParamType};
use crate::ty::Type;

/// The parameters of an entry, and the shape of its launches: of a kernel, or as a text of PTX declares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySignature {
    /// The types of its parameters.
    pub parameters: Vec<ParameterType>,
    /// The alignment of the address in each parameter, in bytes; 1 if the parameter is not a pointer.
    pub alignments: Vec<u64>,
    /// The required block (`.reqntid`).
    pub block: Option<[u32; 3]>,
    /// The required cluster (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
}

impl EntrySignature {
    /// Returns the signature of a kernel.
    ///
    /// ```
    /// use colex_ir::KernelBuilder;
    /// use colex_ir::launch::{EntrySignature, Launch};
    ///
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// k.pointer("data");
    /// let kernel = k.finish();
    /// let signature = EntrySignature::of(&kernel).expect("an address is an argument");
    /// let error = signature.check(&Launch::new(1, 32), &[2f32.into()]).unwrap_err();
    /// assert_eq!(error.to_string(), "argument 0 is an f32, and the parameter is .u64");
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first parameter that has no [`ParameterType`].
    pub fn of(kernel: &Kernel) -> Result<EntrySignature, &Param> {
        let parameter = |param| number_type(param).ok_or(param);
        let alignment = |param: &Param| match param.ty {
            ParamType::Pointer { align } => u64::from(align).max(1),
            ParamType::Scalar(_) | ParamType::TensorMap => 1,
        };
        Ok(EntrySignature {
            alignments: kernel.params.iter().map(alignment).collect(),
            parameters: (kernel.params.iter())
                .map(parameter)
                .collect::<Result<_, _>>()?,
            block: kernel.block,
            cluster: kernel.cluster,
        })
    }

    /// Checks the block and the cluster of a launch, and the number, types and alignments of its arguments.
    ///
    /// # Errors
    ///
    /// Returns the first error found.
    pub fn check(&self, launch: &Launch, arguments: &[Argument]) -> Result<(), Error> {
        launch.check_required(self.block, self.cluster)?;
        check_arguments(&self.parameters, arguments)?;
        check_alignments(&self.alignments, arguments)
    }
}

/// The type of a kernel's parameter. Integers and floats are told apart where a register of 32 or 64 bits is.
fn number_type(param: &Param) -> Option<ParameterType> {
    Some(match param.ty {
        ParamType::TensorMap => ParameterType::TensorMap,
        ParamType::Pointer { .. } => ParameterType::U64,
        ParamType::Scalar(scalar) => match scalar {
            Type::F32 => ParameterType::F32,
            Type::F64 => ParameterType::F64,
            Type::U32 | Type::S32 => ParameterType::U32,
            Type::U64 | Type::S64 => ParameterType::U64,
            Type::B16
            | Type::U16
            | Type::S16
            | Type::F16
            | Type::Bf16
            | Type::E4m3x2
            | Type::E5m2x2 => ParameterType::B16,
            Type::B32 | Type::Tf32 | Type::F16x2 | Type::Bf16x2 => ParameterType::B32,
            Type::B64 => ParameterType::B64,
            Type::Pred | Type::B8 | Type::U8 | Type::S8 | Type::B128 => return None,
        },
    })
}
