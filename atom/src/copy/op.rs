//! `CopyOp`: the PTX instruction of a copy atom.

use super::member::CopyMember;
use super::row::{Argument, CopyForm};
use crate::machine::{Arch, PtxVersion, RegClass, Registers, Space};

/// The PTX instruction of a copy atom: the opcode and its operands (CuTe's `Copy_Operation`).
///
/// ```
/// let atom = colex_atom::copy("SM75_U16x8_LDSM_T")?;
/// let op = atom.op()?;
/// assert_eq!(op.ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16");
/// let operands: Vec<String> = op.operands.iter().map(|operand| operand.to_string()).collect();
/// assert_eq!(operands, ["Dst: 4 x b32", "Src: address in shared memory, aligned to 16 bytes"]);
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CopyOp {
    /// The opcode as the PTX manual spells it, without a cache policy.
    pub ptx: String,
    /// The opcode with a cache policy, if the instruction takes one.
    pub ptx_hinted: Option<String>,
    /// The first architecture that has it.
    pub since: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
    /// The operands in their order, without a cache policy.
    pub operands: Vec<CopyOperand>,
}

/// One operand of a [`CopyOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOperand {
    /// The argument.
    pub argument: Argument,
    /// What the operand is.
    pub kind: OperandKind,
}

/// What an operand of a [`CopyOp`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// Registers of the thread, lowest bits first.
    Registers(Registers),
    /// An address: 64 bits in global memory, 32 in shared memory.
    Address {
        /// The memory that it points to.
        space: Space,
        /// The alignment that the instruction needs, in bytes.
        align: u32,
    },
    /// A 64-bit generic address of a tensor map (128 bytes, aligned to 64), and this number of 32-bit coordinates.
    Tensor {
        /// The rank of the tensor.
        coordinates: usize,
    },
    /// A constant.
    Constant(i64),
}

impl CopyOp {
    /// The operation of a member between two ends, at which each thread moves `bits` bits.
    pub(super) fn new(member: &CopyMember, spaces: [Space; 2], bits: [i64; 2]) -> Option<Self> {
        let row = member.row;
        let operand = |argument| CopyOperand {
            argument,
            kind: kind(member, argument, spaces, bits),
        };
        let (ptx, arguments): (String, &[Argument]) = match row.form {
            CopyForm::LayoutOnly => return None,
            CopyForm::Universal => (
                universal(member.bits, spaces),
                &[Argument::Dst, Argument::Src],
            ),
            CopyForm::Shuffle(_) => (row.ptx.to_string(), &[Argument::Dst, Argument::Src]),
            CopyForm::Instruction(arguments) => (member.fill(row.ptx), arguments),
        };
        let ptx_hinted = row
            .ptx
            .contains('{')
            .then(|| member.fill_hinted(row.ptx, true));
        let cluster = spaces.contains(&Space::Cluster);
        let (arch, version) = (Arch::Sm90, Arch::Sm90.ptx_version());
        Some(CopyOp {
            ptx_hinted: ptx_hinted.filter(|hinted| *hinted != ptx),
            ptx,
            since: if cluster {
                row.since.max(arch)
            } else {
                row.since
            },
            version: if cluster {
                row.version.max(version)
            } else {
                row.version
            },
            operands: arguments.iter().copied().map(operand).collect(),
        })
    }

    /// Returns whether the instruction is asynchronous: the data arrives later, and an mbarrier or the wait for a group
    /// reports it. Nothing reports a prefetch.
    pub fn is_async(&self) -> bool {
        self.ptx.starts_with("cp.")
    }
}

/// `ld`, `st` or `mov` of `bits` bits.
fn universal(bits: i64, [from, to]: [Space; 2]) -> String {
    let register = universal_registers(bits);
    let vector = if register.count > 1 {
        format!(".v{}", register.count)
    } else {
        String::new()
    };
    let width = bits / register.count as i64;
    match (from, to) {
        (Space::Register, Space::Register) => format!("mov.{}", register.class.ptx()),
        (Space::Register, memory) => format!("st.{}{vector}.b{width}", memory.ptx()),
        (memory, _) => format!("ld.{}{vector}.b{width}", memory.ptx()),
    }
}

/// The registers that hold `bits` bits of one thread.
fn universal_registers(bits: i64) -> Registers {
    match bits {
        8 | 16 => Registers {
            count: 1,
            class: RegClass::B16,
        },
        _ => Registers {
            count: (bits / 32) as usize,
            class: RegClass::B32,
        },
    }
}

fn kind(
    member: &CopyMember,
    argument: Argument,
    spaces: [Space; 2],
    bits: [i64; 2],
) -> OperandKind {
    let scalar = |class| OperandKind::Registers(Registers { count: 1, class });
    match argument {
        Argument::Src => end(member, spaces[0], bits[0]),
        Argument::Dst => end(member, spaces[1], bits[1]),
        Argument::Tensor => OperandKind::Tensor {
            coordinates: member.n as usize,
        },
        Argument::Barrier => OperandKind::Address {
            space: Space::Shared,
            align: 8,
        },
        Argument::Offsets => OperandKind::Registers(Registers {
            count: member.n as usize - 2,
            class: RegClass::B16,
        }),
        Argument::Mask => scalar(RegClass::B16),
        Argument::Bytes => OperandKind::Constant(bits[0] / 8),
        Argument::Size | Argument::SourceBytes => scalar(RegClass::B32),
        Argument::Policy => scalar(RegClass::B64),
    }
}

/// One end of the copy.
fn end(member: &CopyMember, space: Space, bits: i64) -> OperandKind {
    match space {
        Space::Register => OperandKind::Registers(universal_registers(bits)),
        _ => OperandKind::Address {
            space,
            align: alignment(member.row.form, bits),
        },
    }
}

/// What divides an address: the bytes moved, a row of a matrix, or what TMA asks for (PTX ISA 9.7.9,
/// `cp.async.bulk`, `cp.async.bulk.tensor`).
fn alignment(form: CopyForm, bits: i64) -> u32 {
    let CopyForm::Instruction(arguments) = form else {
        return (bits / 8) as u32;
    };
    if arguments.contains(&Argument::Bytes) {
        return (bits / 8) as u32;
    }
    if arguments.contains(&Argument::Tensor) {
        128
    } else {
        16
    }
}

impl std::fmt::Display for CopyOperand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: ", self.argument)?;
        match self.kind {
            OperandKind::Registers(registers) => write!(f, "{registers}"),
            OperandKind::Address { space, align } => {
                write!(f, "address in {space}, aligned to {align} bytes")
            }
            OperandKind::Tensor { coordinates } => {
                write!(f, "tensor map and {coordinates} coordinates")
            }
            OperandKind::Constant(value) => write!(f, "the constant {value}"),
        }
    }
}
