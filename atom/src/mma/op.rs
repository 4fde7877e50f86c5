//! `MmaOp`: what to write.

use super::member::MmaMember;
use super::row::{Form, Rule};
use crate::machine::{Arch, PtxVersion, RegClass, Registers};
use crate::number::Ty;

/// The kind of register that elements of a type travel in.
fn class_of(ty: Ty, form: Form) -> RegClass {
    match ty {
        Ty::F64 | Ty::C64 | Ty::Gc64 => RegClass::F64,
        Ty::F32 => RegClass::F32,
        Ty::F16 if form == Form::Scalar => RegClass::B16,
        _ => RegClass::B32,
    }
}

/// The registers that hold `values` elements of a type.
fn holding(values: usize, ty: Ty, form: Form) -> Registers {
    let class = class_of(ty, form);
    let bits = values * ty.bits() as usize;
    Registers {
        count: bits.div_ceil(class.bits() as usize),
        class,
    }
}

/// What to write: the opcode and the registers of each operand (CuTe's `MMA_Operation`).
///
/// ```
/// let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
/// let op = atom.op()?;
/// assert_eq!(op.ptx, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
/// assert_eq!(op.d.to_string(), "4 x f32");
/// assert_eq!(op.a.to_string(), "4 x b32");
/// assert_eq!(op.b.to_string(), "2 x b32");
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MmaOp {
    /// The opcode as the PTX manual spells it.
    pub ptx: String,
    /// The syntax of its operands.
    pub form: Form,
    /// The first architecture that has it.
    pub since: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
    /// The registers of D. `wgmma` has C in the same ones.
    pub d: Registers,
    /// The registers of A, or its descriptor.
    pub a: Registers,
    /// The registers of B, or its descriptor.
    pub b: Registers,
    /// The registers of C.
    pub c: Registers,
    /// The register of the sparsity metadata.
    pub e: Option<Registers>,
}

impl MmaOp {
    /// The operation of a member whose threads hold `values` elements of A, B and C.
    pub(super) fn new(member: &MmaMember, values: [usize; 3]) -> Option<Self> {
        let row = member.row;
        let in_async = match row.form {
            Form::LayoutOnly => return None,
            Form::Async { .. } => true,
            Form::Scalar | Form::Sync => false,
        };
        let descriptor = Registers {
            count: 1,
            class: RegClass::B64,
        };
        let a = if in_async && !member.a_in_registers {
            descriptor
        } else {
            holding(values[0] / row.rule.packing(), member.ab.0, row.form)
        };
        let b = if in_async {
            descriptor
        } else {
            holding(values[1], member.ab.1, row.form)
        };
        let c = holding(values[2], row.c, row.form);
        let e = row.rule.is_sparse().then_some(Registers {
            count: 1,
            class: RegClass::B32,
        });
        let ptx = member.fill(row.ptx);
        Some(MmaOp {
            ptx,
            form: row.form,
            since: row.since,
            version: row.version,
            d: c,
            a,
            b,
            c,
            e,
        })
    }

    /// Returns whether A and B are read from shared memory through descriptors, asynchronously.
    pub fn is_async(&self) -> bool {
        matches!(self.form, Form::Async { .. })
    }
}

impl Rule {
    /// Returns how many elements of the unpacked A one stored element stands for.
    pub fn packing(self) -> usize {
        if self.is_sparse() { 2 } else { 1 }
    }

    /// Returns whether A is stored without its zeros.
    pub fn is_sparse(self) -> bool {
        matches!(self, Rule::Sparse2Of4 | Rule::Sparse1Of2)
    }
}
