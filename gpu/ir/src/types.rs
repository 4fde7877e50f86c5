//! The types that instructions exist for.

use super::ty::Type::{self, *};

pub(crate) const UNSIGNED: &[Type] = &[U16, U32, U64];
pub(crate) const SIGNED: &[Type] = &[S16, S32, S64];
pub(crate) const INTEGERS: &[Type] = &[U16, U32, U64, S16, S32, S64];
pub(crate) const INTEGERS_TO_32: &[Type] = &[U16, U32, S16, S32];
pub(crate) const INTEGERS_FROM_32: &[Type] = &[U32, U64, S32, S64];
pub(crate) const BITS: &[Type] = &[B16, B32, B64];
pub(crate) const BITS_FROM_32: &[Type] = &[B32, B64];
pub(crate) const WORDS: &[Type] = &[B32, U32, S32];
pub(crate) const SINGLES: &[Type] = &[F32, F64];
pub(crate) const HALVES: &[Type] = &[F16, F16x2, Bf16, Bf16x2];
pub(crate) const SCALAR_HALVES: &[Type] = &[F16, Bf16];

/// Says that a type is one of these; if not, which there are.
pub(crate) fn among(ty: Type, lists: &[&[Type]]) -> Result<(), String> {
    if lists.iter().any(|list| list.contains(&ty)) {
        return Ok(());
    }
    let names: Vec<&str> = lists
        .iter()
        .flat_map(|list| list.iter().map(|ty| ty.ptx()))
        .collect();
    Err(match names.split_last() {
        Some((last, [])) => format!("it is for {last} only"),
        Some((last, before)) => format!("it is for {} and {last}", before.join(", ")),
        None => "there is no such instruction".into(),
    })
}
