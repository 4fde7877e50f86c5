//! An instruction in words, for reports.

use crate::ir::{Op, Stmt};

/// The opcode, as PTX spells it.
pub(super) fn instruction(stmt: &Stmt) -> String {
    match &stmt.op {
        Op::Load { access, d, .. } => {
            format!("ld.{}{}.{}", access.space.ptx(), vector(d.len()), access.ty)
        }
        Op::Store { access, s, .. } => {
            format!("st.{}{}.{}", access.space.ptx(), vector(s.len()), access.ty)
        }
        Op::Binary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
        Op::Unary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
        Op::Ternary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
        Op::Barrier { op, .. } => format!("barrier.{}", op.ptx()),
        Op::Shuffle { mode, .. } => format!("shfl.sync.{}.b32", mode.ptx()),
        Op::Mma { atom, .. } => atom.op().map_or(atom.name(), |op| op.ptx.clone()),
        Op::Copy { atom, .. } => atom.op().map_or(atom.name(), |op| op.ptx.clone()),
        Op::Fence(kind) => kind.ptx().to_string(),
        op => {
            let text = format!("{op:?}");
            let end = text.find([' ', '{', '(']).unwrap_or(text.len());
            text[..end].to_lowercase()
        }
    }
}

fn vector(count: usize) -> String {
    match count {
        1 => String::new(),
        count => format!(".v{count}"),
    }
}
