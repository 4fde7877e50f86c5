//! Traps before accesses whose claims no launch decides.

use std::collections::HashMap;

use super::Demand;
use crate::index::walk::Walked;
use crate::index::{Index, Node};
use colex_ir::claims::ClaimId;
use colex_ir::{BinaryOp, Compare, Control, Kernel, KernelBuilder, Operand, Reg, Stmt, Type};

/// Inserts, before the instruction of each of these claims, instructions that trap in the threads in which one of its
/// demands is not met.
pub(crate) fn inserted(mut kernel: Kernel, mut demands: HashMap<ClaimId, Vec<Demand>>) -> Kernel {
    if demands.is_empty() {
        return kernel;
    }
    let body = std::mem::take(&mut kernel.body);
    let mut ir = KernelBuilder::resume(kernel);
    let body = block(&mut ir, body, &mut demands);
    let mut kernel = ir.finish();
    kernel.body = body;
    kernel
}

fn block(
    ir: &mut KernelBuilder,
    body: Vec<Stmt>,
    demands: &mut HashMap<ClaimId, Vec<Demand>>,
) -> Vec<Stmt> {
    let mut all = Vec::with_capacity(body.len());
    for mut stmt in body {
        if let Some(demands) = stmt.claim.and_then(|claim| demands.remove(&claim)) {
            ir.open_scope();
            ir.set_location(Some(stmt.at));
            trap(ir, &demands, &stmt);
            all.extend(ir.close_scope());
        }
        if let colex_ir::Op::Control(control) = &mut stmt.op {
            match control {
                Control::If { then, other, .. } => {
                    for side in [then, other] {
                        *side = block(ir, std::mem::take(side), demands);
                    }
                }
                Control::Loop { body } => *body = block(ir, std::mem::take(body), demands),
                _ => {}
            }
        }
        all.push(stmt);
    }
    all
}

/// The nodes up to which a part is computed again.
const COMPUTED: u32 = 32;

/// The threads that would execute the instruction trap if one of the demands is not met. The trap makes the same claim, so
/// the simulator names what is outside.
fn trap(ir: &mut KernelBuilder, demands: &[Demand], before: &Stmt) {
    let mut broken: Option<Reg> = None;
    let found = &mut Walked::above(COMPUTED);
    for demand in demands {
        let p = match demand {
            Demand::Less(a, b) => compared(ir, Compare::Ge, [a, b], found),
            Demand::AtLeast(a, b) => compared(ir, Compare::Lt, [a, b], found),
            Demand::Multiple(a, of) => {
                let a = wide(ir, a, found);
                let rest = ir.and(Type::B64, a, of - 1);
                ir.setp(Compare::Ne, Type::S64, rest, 0)
            }
        };
        broken = Some(match broken {
            None => p,
            Some(other) => ir.pred(BinaryOp::Or, other, p),
        });
    }
    let Some(broken) = broken else { return };
    let broken = match before.guard {
        None => broken,
        Some(guard) => ir.pred(BinaryOp::And, guard, broken),
    };
    ir.claiming(before.claim, |k| {
        k.when(broken, |k| k.push(Control::Trap));
    });
}

fn compared(
    ir: &mut KernelBuilder,
    order: Compare,
    [a, b]: [&Index; 2],
    found: &mut Walked<Reg>,
) -> Reg {
    let (a, b) = (wide(ir, a, found), operand(ir, b, found));
    ir.setp(order, Type::S64, a, b)
}

fn operand(ir: &mut KernelBuilder, index: &Index, found: &mut Walked<Reg>) -> Operand {
    match index.as_constant() {
        Some(constant) => constant.into(),
        None => wide(ir, index, found).into(),
    }
}

/// The value in 64 bits, computed here from the registers that it reads: what they hold at the access counts.
fn wide(ir: &mut KernelBuilder, index: &Index, found: &mut Walked<Reg>) -> Reg {
    found.of(index, |found| computed(ir, index, found))
}

fn computed(ir: &mut KernelBuilder, index: &Index, found: &mut Walked<Reg>) -> Reg {
    match &index.0.node {
        Node::Leaf(leaf) => match leaf.reg.ty.bits() {
            64 => leaf.reg,
            _ if index.range().0 < 0 => ir.cvt(Type::S64, Type::S32, leaf.reg),
            _ => ir.cvt(Type::U64, Type::U32, leaf.reg),
        },
        Node::Sum(terms, constant) => {
            let mut sum: Option<Reg> = None;
            for (x, c) in terms {
                let x = wide(ir, x, found);
                sum = Some(match (sum, *c) {
                    (None, 1) => x,
                    (None, c) => ir.mul(Type::S64, x, c),
                    (Some(sum), 1) => ir.add(Type::S64, sum, x),
                    (Some(sum), c) => ir.mad(Type::S64, x, c, sum),
                });
            }
            match (sum, *constant) {
                (None, c) => ir.mov(Type::S64, c),
                (Some(sum), 0) => sum,
                (Some(sum), c) => ir.add(Type::S64, sum, c),
            }
        }
        Node::BitField(x, mask, shift) => {
            let (value, mask) = (wide(ir, x, found), x.kept(*mask, *shift));
            let kept = ir.and(Type::B64, value, mask as i64);
            match i64::from(*shift) {
                0 => kept,
                by if by > 0 => ir.shl(Type::B64, kept, by),
                by => ir.shr(Type::U64, kept, -by),
            }
        }
        Node::Product(a, b) => {
            let (a, b) = (wide(ir, a, found), wide(ir, b, found));
            ir.mul(Type::S64, a, b)
        }
        Node::Quotient(a, b) => quotient(ir, [a, b], found).0,
        Node::Remainder(a, b) => {
            let (quotient, a, b) = quotient(ir, [a, b], found);
            let whole = ir.mul(Type::S64, quotient, b);
            ir.sub(Type::S64, a, whole)
        }
        Node::Xor(a, b) => {
            let (a, b) = (wide(ir, a, found), operand(ir, b, found));
            ir.xor(Type::B64, a, b)
        }
        Node::Min(a, b) => {
            let (a, b) = (wide(ir, a, found), operand(ir, b, found));
            ir.min(Type::S64, a, b)
        }
        Node::Select(parts) => {
            let [a, b, then, other] = parts.as_ref();
            let p = compared(ir, Compare::Lt, [a, b], found);
            let (then, other) = (operand(ir, then, found), operand(ir, other, found));
            ir.selp(Type::B64, then, other, p)
        }
        Node::Opaque(x) => wide(ir, x, found),
        // A kernel that uses what is no integer is refused.
        Node::Poison(_) => ir.mov(Type::S64, 0),
    }
}

/// The quotient, rounded down, with both operands.
fn quotient(
    ir: &mut KernelBuilder,
    [a, b]: [&Index; 2],
    found: &mut Walked<Reg>,
) -> (Reg, Reg, Operand) {
    let (value, by) = (wide(ir, a, found), operand(ir, b, found));
    let truncated = ir.div(Type::S64, value, by);
    if a.range().0 >= 0 {
        return (truncated, value, by);
    }
    let product = ir.mul(Type::S64, truncated, by);
    let above = ir.setp(Compare::Gt, Type::S64, product, value);
    let less = ir.sub(Type::S64, truncated, 1);
    (ir.selp(Type::B64, less, truncated, above), value, by)
}
