//! The canonical shared-memory blocks of `wgmma`, and the tiles made of them.

use colex_atom::{Major, SmemSwizzle, gmma_smem_atom};
use colex_layout::{ComposedLayout, IntTuple, LayoutLeft};

use super::{Case, Op, Tried, Verdict};

pub(super) const FAMILIES: &[&[Op]] = &[&[
    Op::own("gmma_smem_atom", |case| compared(case, block(case))),
    Op::own("gmma_smem_tile", |case| compared(case, tile(case))),
]];

/// `gmma_smem_atom [name, bits]`.
fn block(case: &Case) -> Tried<ComposedLayout> {
    smem_atom(&case.text(0)?, case.int(1)?)
}

/// The block of a name such as `Layout_K_SW128_Atom`.
pub(super) fn smem_atom(name: &str, bits: i64) -> Tried<ComposedLayout> {
    let kind = name
        .strip_prefix("Layout_")
        .and_then(|rest| rest.strip_suffix("_Atom"));
    let (major, kind) = kind
        .and_then(|kind| kind.split_once('_'))
        .ok_or("an unknown block")?;
    let major = if major == "K" { Major::K } else { Major::MN };
    let swizzle = SmemSwizzle::ALL
        .into_iter()
        .find(|swizzle| swizzle.cute() == kind);
    let bits = u32::try_from(bits)?;
    gmma_smem_atom(major, swizzle.ok_or("an unknown swizzle")?, bits).map_err(Into::into)
}

/// `gmma_smem_tile [name, bits, shape]`: the block through `tile_to_shape`.
fn tile(case: &Case) -> Tried<ComposedLayout> {
    let shape: IntTuple = case.text(2)?.parse()?;
    block(case)?
        .tile_to_shape(&shape, LayoutLeft)
        .map_err(Into::into)
}

/// CuTe keeps the swizzle of no bits in the text, `Sw<0,4,3>`.
fn compared(case: &Case, ours: Tried<ComposedLayout>) -> Verdict {
    let theirs = case.result.as_str().unwrap_or_default();
    match ours.map(|ours| {
        ours.to_string()
            .replace('_', "")
            .replace("smemptr", "smem_ptr")
    }) {
        Ok(ours) if ours == theirs => Verdict::Equal,
        Ok(ours) => Verdict::Failed(format!("ours is {ours}")),
        Err(why) => Verdict::Failed(why.0),
    }
}
