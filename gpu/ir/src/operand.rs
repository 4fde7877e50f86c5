//! The operands of instructions: registers, constants, special registers, addresses.

use std::fmt;

use super::ty::RegType;

/// A virtual register. It may be written more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg {
    /// Its number among the registers of its class.
    pub index: u32,
    /// Its class.
    pub ty: RegType,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}{}", self.ty.prefix(), self.index)
    }
}

/// A special register (PTX ISA 10). All have 32 bits except the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Special {
    /// The index of the thread in its block along x, y or z (`%tid`).
    Tid(u8),
    /// The extent of the block (`%ntid`).
    NTid(u8),
    /// The index of the block in the grid (`%ctaid`).
    Ctaid(u8),
    /// The extent of the grid in blocks (`%nctaid`).
    NCtaid(u8),
    /// The lane of the thread in its warp, 0..32 (`%laneid`).
    LaneId,
    /// The rank of the block in its cluster (`%cluster_ctarank`).
    ClusterCtaRank,
    /// The number of blocks of the cluster (`%cluster_nctarank`).
    ClusterNCtaRank,
    /// The index of the block in its cluster (`%cluster_ctaid`).
    ClusterCtaid(u8),
    /// The extent of the cluster in blocks (`%cluster_nctaid`).
    ClusterNCtaid(u8),
    /// The index of the cluster in the grid of clusters (`%clusterid`).
    ClusterId(u8),
    /// The extent of the grid in clusters (`%nclusterid`).
    NClusterId(u8),
    /// A counter of clock ticks, 64 bits.
    Clock64,
    /// Nanoseconds, 64 bits.
    GlobalTimer,
    /// The number of the multiprocessor (`%smid`).
    SmId,
    /// Bytes of dynamic shared memory.
    DynamicSharedSize,
}

impl Special {
    /// Returns the axis of a register that has one: 0, 1 or 2 for x, y or z.
    pub fn axis(self) -> Option<u8> {
        use Special::{
            Clock64, ClusterCtaRank, ClusterCtaid, ClusterId, ClusterNCtaRank, ClusterNCtaid,
            Ctaid, DynamicSharedSize, GlobalTimer, LaneId, NClusterId, NCtaid, NTid, SmId, Tid,
        };
        match self {
            Tid(axis) | NTid(axis) | Ctaid(axis) | NCtaid(axis) | ClusterCtaid(axis)
            | ClusterNCtaid(axis) | ClusterId(axis) | NClusterId(axis) => Some(axis),
            LaneId | ClusterCtaRank | ClusterNCtaRank | Clock64 | GlobalTimer | SmId
            | DynamicSharedSize => None,
        }
    }

    /// Returns the class of register that it is moved into.
    pub fn register(self) -> RegType {
        use Special::{
            Clock64, ClusterCtaRank, ClusterCtaid, ClusterId, ClusterNCtaRank, ClusterNCtaid,
            Ctaid, DynamicSharedSize, GlobalTimer, LaneId, NClusterId, NCtaid, NTid, SmId, Tid,
        };
        match self {
            Clock64 | GlobalTimer => RegType::B64,
            Tid(_) | NTid(_) | Ctaid(_) | NCtaid(_) | LaneId | ClusterCtaRank | ClusterNCtaRank
            | ClusterCtaid(_) | ClusterNCtaid(_) | ClusterId(_) | NClusterId(_) | SmId
            | DynamicSharedSize => RegType::B32,
        }
    }
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, axis) = match *self {
            Special::Tid(axis) => ("tid", Some(axis)),
            Special::NTid(axis) => ("ntid", Some(axis)),
            Special::Ctaid(axis) => ("ctaid", Some(axis)),
            Special::NCtaid(axis) => ("nctaid", Some(axis)),
            Special::LaneId => ("laneid", None),
            Special::ClusterCtaRank => ("cluster_ctarank", None),
            Special::ClusterNCtaRank => ("cluster_nctarank", None),
            Special::ClusterCtaid(axis) => ("cluster_ctaid", Some(axis)),
            Special::ClusterNCtaid(axis) => ("cluster_nctaid", Some(axis)),
            Special::ClusterId(axis) => ("clusterid", Some(axis)),
            Special::NClusterId(axis) => ("nclusterid", Some(axis)),
            Special::Clock64 => ("clock64", None),
            Special::GlobalTimer => ("globaltimer", None),
            Special::SmId => ("smid", None),
            Special::DynamicSharedSize => ("dynamic_smem_size", None),
        };
        match axis {
            None => write!(f, "%{name}"),
            Some(axis) => match ["x", "y", "z"].get(usize::from(axis)) {
                Some(letter) => write!(f, "%{name}.{letter}"),
                None => write!(f, "%{name}.{axis}"),
            },
        }
    }
}

/// A source operand. Floating-point constants are equal if their bits are, since the instruction holds the bits: `0.0`
/// is not `-0.0`, and a NaN equals itself.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// An integer, written into the instruction.
    Int(i64),
    /// A floating-point number, written into the instruction bit for bit in the instruction's type.
    Float(f64),
    /// A special register.
    Special(Special),
}

impl Operand {
    /// Returns the register, if it is one.
    pub fn reg(self) -> Option<Reg> {
        match self {
            Operand::Reg(reg) => Some(reg),
            Operand::Int(_) | Operand::Float(_) | Operand::Special(_) => None,
        }
    }
}

impl PartialEq for Operand {
    fn eq(&self, other: &Operand) -> bool {
        match (self, other) {
            (Operand::Reg(a), Operand::Reg(b)) => a == b,
            (Operand::Int(a), Operand::Int(b)) => a == b,
            (Operand::Float(a), Operand::Float(b)) => a.to_bits() == b.to_bits(),
            (Operand::Special(a), Operand::Special(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Operand {}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Operand::Reg(reg)
    }
}

impl From<&Reg> for Operand {
    fn from(reg: &Reg) -> Self {
        Operand::Reg(*reg)
    }
}

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Operand {
            fn from(value: $int) -> Self {
                Operand::Int(i64::from(value))
            }
        }
    )*};
}
from_int!(i64, i32, u32, u16, u8);

impl From<f64> for Operand {
    fn from(value: f64) -> Self {
        Operand::Float(value)
    }
}

impl From<f32> for Operand {
    fn from(value: f32) -> Self {
        Operand::Float(f64::from(value))
    }
}

impl From<Special> for Operand {
    fn from(special: Special) -> Self {
        Operand::Special(special)
    }
}

/// The number of a parameter, in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParamId(pub u32);

impl ParamId {
    /// Returns the place of the parameter in the kernel's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a variable in shared memory, in the order of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedId(pub u32);

impl SharedId {
    /// Returns the place of the variable in the kernel's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A register: 64 bits for global memory, 32 for shared.
    Reg(Reg),
    /// A variable in shared memory.
    Shared(SharedId),
    /// The first byte of dynamic shared memory.
    DynamicShared,
    /// A kernel parameter.
    Param(ParamId),
}

impl Base {
    /// Returns the register, if it is one.
    pub fn reg(self) -> Option<Reg> {
        match self {
            Base::Reg(reg) => Some(reg),
            Base::Shared(_) | Base::DynamicShared | Base::Param(_) => None,
        }
    }
}

/// An address: a base, and an immediate offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base.
    pub base: Base,
    /// The offset in bytes, which may be negative.
    pub offset: i64,
}

impl Address {
    /// Returns the address `bytes` further on.
    pub fn at(self, bytes: i64) -> Self {
        Address {
            // An offset that is too large for 64 bits is too large for the verifier as well.
            offset: self.offset.saturating_add(bytes),
            ..self
        }
    }
}

impl From<Reg> for Address {
    fn from(reg: Reg) -> Self {
        Base::Reg(reg).into()
    }
}

impl From<SharedId> for Address {
    fn from(id: SharedId) -> Self {
        Base::Shared(id).into()
    }
}

impl From<ParamId> for Address {
    fn from(id: ParamId) -> Self {
        Base::Param(id).into()
    }
}

impl From<Base> for Address {
    fn from(base: Base) -> Self {
        Address { base, offset: 0 }
    }
}
