//! What an entry takes, against which a launch is checked.

use super::error::ErrorKind;
use super::{Argument, Error, Launch, ParameterType, check_alignments, check_arguments};
use crate::kernel::{Kernel, Param, ParamType};
use crate::operand::Special;
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
    /// Whether the entry tells its threads apart by `%tid.x` alone: a block has no threads along y or z then. Of a text this is not
    /// known, and `false`.
    pub is_flat: bool,
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
            is_flat: kernel.is_flat() && kernel.reads(|of| of == Special::Tid(0)),
        })
    }

    /// Checks the block and the cluster of a launch, and the number, types and alignments of its arguments.
    ///
    /// # Errors
    ///
    /// Returns the first error found.
    pub fn check(&self, launch: &Launch, arguments: &[Argument]) -> Result<(), Error> {
        launch.check_required(self.block, self.cluster)?;
        let [x, y, z] = launch.block;
        if self.is_flat && x > 0 && y.max(z) > 1 {
            let block = launch.block;
            return Err(ErrorKind::Flat { block }.into());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KernelBuilder;
    use colex_atom::Arch;

    /// A kernel takes a block with threads along y or z unless it reads the index along x, and neither an index nor an extent along y
    /// or z; one that states its block takes that block.
    #[test]
    fn law_blocks_along_y_and_z_are_for_kernels_that_read_them() {
        let beside = [
            Special::Tid(1),
            Special::Tid(2),
            Special::NTid(1),
            Special::NTid(2),
        ];
        let others = [
            Special::Tid(0),
            Special::NTid(0),
            Special::LaneId,
            Special::Ctaid(1),
        ];
        let all: Vec<Special> = beside.into_iter().chain(others).collect();
        let extents = [1, 2, 8];
        let mut cases = [0; 2];
        for subset in 0..1_u32 << all.len() {
            let read: Vec<Special> = (0..all.len())
                .filter(|i| subset >> i & 1 == 1)
                .map(|i| all[i])
                .collect();
            // Instructions inside a loop count too.
            let kernel = |block: Option<[u32; 3]>| {
                let mut k = KernelBuilder::new("k", Arch::Sm80);
                if let Some(block) = block {
                    k.block(block);
                }
                k.for_range(0, 2, 1, |k, _| {
                    for special in &read {
                        k.mov(Type::U32, *special);
                    }
                });
                k.finish()
            };
            let signature = EntrySignature::of(&kernel(None)).expect("no parameters");
            for (x, y, z) in extents
                .into_iter()
                .flat_map(|x| extents.map(|y| (x, y)))
                .flat_map(|(x, y)| extents.map(|z| (x, y, z)))
            {
                let launch = Launch::new(1, (x, y, z));
                let is_one_index = read.contains(&Special::Tid(0))
                    && !beside.iter().any(|special| read.contains(special));
                let is_refused = is_one_index && (y, z) != (1, 1);
                let found = signature.check(&launch, &[]);
                assert_eq!(found.is_err(), is_refused, "{read:?} with {launch:?}");
                cases[usize::from(is_refused)] += 1;
                if subset % 16 == 0 {
                    let stated = kernel(Some([x, y, z]));
                    let stated = EntrySignature::of(&stated).expect("no parameters");
                    assert_eq!(stated.check(&launch, &[]), Ok(()), "{read:?}");
                }
            }
        }
        assert!(cases.iter().all(|cases| *cases > 100), "{cases:?}");
    }

    #[test]
    fn a_block_of_two_dimensions_is_refused_verbatim() {
        let mut k = KernelBuilder::new("k", Arch::Sm80);
        k.mov(Type::U32, Special::Tid(0));
        let signature = EntrySignature::of(&k.finish()).expect("no parameters");
        let refused = |block: [u32; 3]| {
            let error = signature.check(&Launch::new(1, block), &[]).unwrap_err();
            assert!(!error.is_argument() && error.outside().is_none());
            error.to_string()
        };
        assert_eq!(
            refused([48, 2, 1]),
            "the block (48,2,1) has threads along y or z, and the kernel tells its threads apart by `%tid.x` alone: launch them \
             along x, or read `%tid.y` and `%tid.z` in the kernel too"
        );
        assert_eq!(
            refused([1, 1, 8]),
            "the block (1,1,8) has threads along y or z, and the kernel tells its threads apart by `%tid.x` alone: launch them \
             along x, or read `%tid.y` and `%tid.z` in the kernel too"
        );
    }
}
