//! `KernelBuilder`: memory.

use colex_atom::{CopyAtom, MmaAtom};

use super::KernelBuilder;
use crate::kernel::ParamType;
use crate::modifiers::{AtomicOp, Order, Space};
use crate::op::{Access, Atom, CopyArgs, Memory, ScaleD};
use crate::operand::{Address, Base, Operand, ParamId, Reg};
use crate::ty::{RegType, Type};

impl KernelBuilder {
    /// Returns the value of a scalar or pointer parameter, or the address of a tensor map.
    #[track_caller]
    pub fn param(&mut self, id: ParamId) -> Reg {
        let ty = match self.param_type(id) {
            Some(ParamType::Scalar(ty)) => ty,
            // The verifier speaks of a parameter that is not there.
            Some(ParamType::Pointer { .. }) | None => Type::U64,
            Some(ParamType::TensorMap) => {
                let d = self.reg(RegType::B64);
                self.push(Memory::AddressOf { d, a: id.into() });
                return d;
            }
        };
        self.load(Access::new(Space::Param, ty), id)
    }

    /// Returns the address as a register: 32 bits for shared memory, 64 for a tensor map, the class of the register it
    /// begins with.
    #[track_caller]
    pub fn address_of(&mut self, a: impl Into<Address>) -> Reg {
        let a = a.into();
        let d = self.reg(match a.base {
            Base::Reg(reg) => reg.ty,
            Base::Param(_) => RegType::B64,
            Base::Shared(_) | Base::DynamicShared => RegType::B32,
        });
        self.push(Memory::AddressOf { d, a });
        d
    }

    /// Loads one value.
    #[track_caller]
    pub fn load(&mut self, access: Access, a: impl Into<Address>) -> Reg {
        let d = self.reg(access.ty.register());
        self.load_to(access, &[d], a);
        d
    }

    /// Loads a vector of 1, 2 or 4 values.
    #[track_caller]
    pub fn load_vector(&mut self, access: Access, count: usize, a: impl Into<Address>) -> Vec<Reg> {
        let d = self.regs(access.ty.register(), count);
        self.load_to(access, &d, a);
        d
    }

    /// Loads into registers that exist.
    #[track_caller]
    pub fn load_to(&mut self, access: Access, d: &[Reg], a: impl Into<Address>) {
        self.push(Memory::Load {
            access,
            d: d.to_vec(),
            a: a.into(),
        });
    }

    /// Stores one value.
    #[track_caller]
    pub fn store(&mut self, access: Access, a: impl Into<Address>, s: impl Into<Operand>) {
        self.push(Memory::Store {
            access,
            a: a.into(),
            s: vec![s.into()],
        });
    }

    /// Stores a vector of 1, 2 or 4 registers.
    #[track_caller]
    pub fn store_vector(&mut self, access: Access, a: impl Into<Address>, s: &[Reg]) {
        self.push(Memory::Store {
            access,
            a: a.into(),
            s: s.iter().map(Operand::from).collect(),
        });
    }

    /// Adds an atomic operation that returns the old value.
    #[track_caller]
    pub fn atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        ty: Type,
        a: impl Into<Address>,
        s: impl Into<Operand>,
    ) -> Reg {
        let d = self.reg(ty.register());
        self.push(Memory::Atomic {
            op,
            space,
            ty,
            order: Order::Weak,
            d,
            a: a.into(),
            s: s.into(),
            t: None,
        });
        d
    }

    /// Adds an atomic operation without a result (`red`); several sources are a vector.
    #[track_caller]
    pub fn reduce(
        &mut self,
        op: AtomicOp,
        space: Space,
        ty: Type,
        a: impl Into<Address>,
        s: &[Reg],
    ) {
        self.push(Memory::Reduce {
            op,
            space,
            ty,
            order: Order::Weak,
            a: a.into(),
            s: s.iter().map(Operand::from).collect(),
        });
    }

    /// Returns the address of the same byte in block `rank` of the cluster (`mapa`).
    #[track_caller]
    pub fn mapa(&mut self, a: impl Into<Operand>, rank: impl Into<Operand>) -> Reg {
        let d = self.reg(RegType::B32);
        let (a, rank) = (a.into(), rank.into());
        self.push(Memory::Mapa { d, a, rank });
        d
    }

    /// Adds one copy instruction.
    #[track_caller]
    pub fn copy_atom(&mut self, atom: &CopyAtom, args: CopyArgs) {
        self.push(Atom::Copy {
            atom: Box::new(atom.clone()),
            args: Box::new(args),
        });
    }

    /// Adds one matrix instruction on registers: `d = a·b + c`.
    #[track_caller]
    pub fn mma_atom(&mut self, atom: &MmaAtom, d: &[Reg], a: &[Reg], b: &[Reg], c: &[Reg]) {
        self.push(Atom::Mma {
            atom: Box::new(atom.clone()),
            d: d.to_vec(),
            a: a.to_vec(),
            b: b.to_vec(),
            c: c.to_vec(),
            e: Vec::new(),
            scale_d: ScaleD::One,
        });
    }

    /// Adds one `wgmma`: `d = a·b` or `d += a·b`. `a` is one descriptor or registers, `b` a descriptor.
    #[track_caller]
    pub fn wgmma(&mut self, atom: &MmaAtom, d: &[Reg], a: &[Reg], b: Reg, scale_d: ScaleD) {
        self.push(Atom::Mma {
            atom: Box::new(atom.clone()),
            d: d.to_vec(),
            a: a.to_vec(),
            b: vec![b],
            c: Vec::new(),
            e: Vec::new(),
            scale_d,
        });
    }
}
