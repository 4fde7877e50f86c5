//! Loads, stores, atomic operations and addresses.

use super::compute::moved;
use super::names::{Lines, registers, vector};
use crate::{Access, AtomicOp, Memory, Operand, Order, Space, Type};

impl Lines<'_> {
    /// Writes a memory instruction.
    pub(super) fn memory(&mut self, op: &Memory) {
        match op {
            Memory::AddressOf { d, a } => self.address_of(*d, *a),
            Memory::Load { access, d, a } => {
                let (opcode, policy) = opcode("ld", access, d.len());
                let (d, a) = (vector(&registers(d)), self.address(*a));
                self.push(format!("{opcode} {d}, [{a}]{policy};"));
            }
            Memory::Store { access, a, s } => {
                let (opcode, policy) = opcode("st", access, s.len());
                let s = self.sources(s, access.ty);
                self.push(format!("{opcode} [{}], {s}{policy};", self.address(*a)));
            }
            Memory::Atomic {
                op,
                space,
                ty,
                order,
                d,
                a,
                s,
                t,
            } => {
                let opcode = atomic("atom", *op, *space, *ty, *order, "");
                let mut sources = self.operand(*s, *ty);
                if let Some(t) = t {
                    sources += &format!(", {}", self.operand(*t, *ty));
                }
                self.push(format!("{opcode} {d}, [{}], {sources};", self.address(*a)));
            }
            Memory::Reduce {
                op,
                space,
                ty,
                order,
                a,
                s,
            } => {
                let opcode = atomic("red", *op, *space, *ty, *order, vector_word(s.len()));
                let s = self.sources(s, *ty);
                self.push(format!("{opcode} [{}], {s};", self.address(*a)));
            }
            Memory::Mapa { d, a, rank } => {
                let [a, rank] = [a, rank].map(|operand| self.operand(*operand, Type::U32));
                self.push(format!("mapa.shared::cluster.u32 {d}, {a}, {rank};"));
            }
            Memory::Cvta {
                to_generic,
                space,
                d,
                a,
            } => {
                let to = if *to_generic { "" } else { ".to" };
                let a = self.operand(*a, Type::U64);
                self.push(format!("cvta{to}{}.u64 {d}, {a};", space_word(*space)));
            }
            Memory::PrefetchTensorMap { a } => {
                let map = self.tensor_map(*a);
                self.push(format!("prefetch.tensormap [{map}];"));
            }
            Memory::CreatePolicy {
                d,
                primary,
                fraction,
            } => {
                let fraction = super::names::float(f64::from(*fraction), Type::F32);
                self.push(format!(
                    "createpolicy.fractional.L2::{primary}.b64 {d}, {fraction};"
                ));
            }
        }
    }

    fn sources(&mut self, sources: &[Operand], ty: Type) -> String {
        let names: Vec<String> = sources
            .iter()
            .map(|operand| self.operand(*operand, ty))
            .collect();
        vector(&names)
    }
}

/// `ld` or `st` with everything before its operands, and what comes after them.
fn opcode(word: &str, access: &Access, count: usize) -> (String, String) {
    let order = access.order.word();
    let space = space_word(access.space);
    let cache = match access.cache.ptx() {
        "" => String::new(),
        cache => format!(".{cache}"),
    };
    let (cache, policy) = match access.policy {
        None => (cache, String::new()),
        Some(policy) => (hinted(&cache), format!(", {policy}")),
    };
    let opcode = format!(
        "{word}{order}{space}{cache}{}.{}",
        vector_word(count),
        moved(access.ty)
    );
    (opcode, policy)
}

/// The cache hint goes before the size of a prefetch.
fn hinted(cache: &str) -> String {
    let size = cache.find(".L2::").unwrap_or(cache.len());
    let (before, after) = cache.split_at(size);
    format!("{before}.L2::cache_hint{after}")
}

fn vector_word(count: usize) -> &'static str {
    match count {
        0 | 1 => "",
        2 => ".v2",
        4 => ".v4",
        _ => ".v8",
    }
}

/// The word of a space; the block's own shared memory is what `.shared` means, in every version of PTX.
pub(super) fn space_word(space: Space) -> String {
    match space {
        Space::Shared => ".shared".to_string(),
        Space::Generic => String::new(),
        Space::Global | Space::Cluster | Space::Param => format!(".{}", space.ptx()),
    }
}

fn atomic(word: &str, op: AtomicOp, space: Space, ty: Type, order: Order, vector: &str) -> String {
    let (order, space) = (order.word(), space_word(space));
    let narrow = ty.is_f16() || ty.is_bf16();
    let flush = if narrow { ".noftz" } else { "" };
    let ty = match op {
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch | AtomicOp::Cas => {
            format!("b{}", ty.bits())
        }
        AtomicOp::Add | AtomicOp::Min | AtomicOp::Max | AtomicOp::Inc | AtomicOp::Dec => {
            ty.to_string()
        }
    };
    format!("{word}{order}{space}.{}{flush}{vector}.{ty}", op.ptx())
}
