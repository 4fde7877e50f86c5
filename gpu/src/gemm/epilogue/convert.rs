//! The types of accumulators, of factors and of results.

use colex_atom::Ty;

use colex_ir::Type;

/// The accumulator type of products of a type.
pub(crate) fn sum_type(ab: Ty) -> Ty {
    match ab {
        Ty::F64 => Ty::F64,
        Ty::S8 | Ty::S32 => Ty::S32,
        _ => Ty::F32,
    }
}

/// The type of a register of an accumulator.
pub(crate) fn sum_register(ab: Ty) -> Type {
    match sum_type(ab) {
        Ty::F64 => Type::F64,
        Ty::S32 => Type::S32,
        _ => Type::F32,
    }
}

/// The type of alpha and beta: binary32 for accumulators of binary32, else binary64, which holds every 32-bit integer.
pub(crate) fn scale_type(ab: Ty) -> Type {
    match sum_type(ab) {
        Ty::F32 => Type::F32,
        _ => Type::F64,
    }
}

/// The types that C may have.
pub(crate) fn outputs(ab: Ty) -> &'static [Ty] {
    match ab {
        Ty::F64 => &[Ty::F64],
        Ty::S8 | Ty::S32 => &[Ty::S32],
        _ => &[Ty::F32, Ty::F16, Ty::Bf16],
    }
}
