//! Loads, stores, atomic operations and addresses (PTX ISA 9.7.9 and 9.7.13).

use crate::modifiers::{AtomicOp, Cache, Order, Scope, Space, dot};
use crate::needs::Needs;
use crate::op::foreign::{PrintedValue, PtxText, print_row, text_row};
use crate::operand::{Address, Operand, Reg};
use crate::row::{EXISTS, Formula, Ptx, Row, Word};
use crate::ty::{RegType, Type};
use crate::types::{
    BITS, BITS_FROM_32, HALVES, INTEGERS, INTEGERS_FROM_32, SCALAR_HALVES, SINGLES, among,
};
use colex_atom::Arch;

/// The qualifiers of a memory access: state space, element type, cache hint, memory order and cache policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// The state space.
    pub space: Space,
    /// The type of one element of the vector.
    pub ty: Type,
    /// The cache hint.
    pub cache: Cache,
    /// The memory order.
    pub order: Order,
    /// A 64-bit cache policy from `createpolicy`.
    pub policy: Option<Reg>,
}

impl Access {
    /// Returns a plain access.
    pub fn new(space: Space, ty: Type) -> Self {
        Access {
            space,
            ty,
            cache: Cache::Default,
            order: Order::Weak,
            policy: None,
        }
    }

    /// Returns the same with a cache hint.
    pub fn cache(self, cache: Cache) -> Self {
        Access { cache, ..self }
    }

    /// Returns the same, ordered.
    pub fn order(self, order: Order) -> Self {
        Access { order, ..self }
    }

    /// Returns the same under a cache policy.
    pub fn policy(self, policy: Reg) -> Self {
        Access {
            policy: Some(policy),
            ..self
        }
    }

    fn mnemonic(&self, mnemonic: &str, count: usize) -> Word {
        let number;
        let vector = match count {
            0 | 1 => "",
            2 | 4 => vector(count),
            _ => {
                number = format!(".v{count}");
                &number
            }
        };
        let ((order, scope), cache) = (self.order.parts(), self.cache.ptx());
        Word::of(&[
            mnemonic,
            order,
            scope,
            self.space.suffix(),
            dot(cache),
            cache,
            vector,
            ".",
            self.ty.ptx(),
        ])
    }

    /// The opcode, with everything before the operands.
    fn opcode(&self, mnemonic: &str, count: usize) -> Word {
        let cache = self.cache.ptx();
        // The cache hint goes before the size of a prefetch.
        let (hint, end) = match self.policy {
            None => ("", cache.len()),
            Some(_) => (
                ".L2::cache_hint",
                cache.find(".L2::").unwrap_or(cache.len()),
            ),
        };
        let ((order, scope), (before, after)) = (self.order.parts(), cache.split_at(end));
        Word::of(&[
            mnemonic,
            order,
            scope,
            self.space.dotted(),
            dot(cache),
            before,
            hint,
            after,
            vector(count),
            ".",
            self.ty.moved(),
        ])
    }

    /// The row of an access to a vector of `count` elements, without its operands.
    fn row(&self, word: &str, count: usize) -> Row<'_> {
        let policy = match self.policy {
            Some(_) => Needs::new(Arch::Sm80, 7, 4),
            None => Needs::BASE,
        };
        let needs = self.space.needs().max(self.order.needs());
        Row::alone(
            self.mnemonic(word, count),
            self.opcode(word, count),
            needs.max(self.cache.needs()).max(policy),
            EXISTS,
        )
    }
}

/// A load, a store, an atomic operation, an address of memory, a printed line, or a text of PTX that may do any of these.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: d the destination, a the address, s and t the sources"
)]
pub enum Memory {
    /// `mov` of an address into a 32-bit (shared memory) or 64-bit (parameter, generic) register.
    AddressOf { d: Reg, a: Address },
    /// `ld`, into a vector of 1, 2 or 4 registers.
    Load {
        access: Access,
        d: Vec<Reg>,
        a: Address,
    },
    /// `st`
    Store {
        access: Access,
        a: Address,
        s: Vec<Operand>,
    },
    /// `atom`: an atomic operation that returns the old value.
    Atomic {
        op: AtomicOp,
        space: Space,
        ty: Type,
        order: Order,
        d: Reg,
        a: Address,
        s: Operand,
        t: Option<Operand>,
    },
    /// `red`: an atomic operation that returns no value. Several sources form a vector.
    Reduce {
        op: AtomicOp,
        space: Space,
        ty: Type,
        order: Order,
        a: Address,
        s: Vec<Operand>,
    },
    /// `mapa`: the address of the same place in another block of the cluster.
    Mapa { d: Reg, a: Operand, rank: Operand },
    /// `cvta`: converts between a generic address and an address in a state space.
    Cvta {
        to_generic: bool,
        space: Space,
        d: Reg,
        a: Operand,
    },
    /// `prefetch.tensormap`
    PrefetchTensorMap { a: Address },
    /// `createpolicy.fractional`
    CreatePolicy {
        d: Reg,
        primary: &'static str,
        fraction: f32,
    },
    /// A call of `vprintf`: it prints a line when the host next waits for the device.
    Print {
        values: Vec<PrintedValue>,
        end: String,
    },
    /// PTX of the author's, with typed outputs and inputs.
    Text {
        text: PtxText,
        d: Vec<(Type, Reg)>,
        a: Vec<(Type, Operand)>,
    },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

impl Memory {
    /// The row of the instruction.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Memory::AddressOf { d, a } => {
                let ty = if d.ty == RegType::B64 {
                    Type::B64
                } else {
                    Type::U32
                };
                let text = Ptx::AddressOf { d: *d, a: *a };
                Row::alone("address", text, Needs::of_generic(*a), EXISTS)
                    .function()
                    .d(d, ty)
                    .at(*a)
            }
            Memory::Load { access, d, a } => access
                .row("ld", d.len())
                .formula(if access.order == Order::Weak {
                    Formula::Function
                } else {
                    Formula::Shared
                })
                .ds(d, access.ty)
                .at(*a)
                .regs("cache policy", access.policy.as_slice(), Some(Type::B64)),
            Memory::Store { access, a, s } => access
                .row("st", s.len())
                .at(*a)
                .ss(s, access.ty)
                .regs("cache policy", access.policy.as_slice(), Some(Type::B64)),
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
                let form = if t.is_some() == (*op == AtomicOp::Cas) {
                    among(*ty, op.types())
                } else {
                    Err("only `cas` takes a second value, and it needs one".into())
                };
                let (order_of, space_of) = (order.suffix(), space.suffix());
                let mnemonic = format!("atom{order_of}{space_of}.{}.{ty}", op.ptx());
                let opcode = op.opcode("atom", *space, *ty, *order, 1);
                let needs = space.needs().max(order.needs()).max(op.needs(*ty));
                Row::alone(mnemonic, opcode, needs, form)
                    .formula(Formula::Lane)
                    .d(d, *ty)
                    .at(*a)
                    .s(s, *ty)
                    .ss(t.as_slice(), *ty)
            }
            Memory::Reduce {
                op,
                space,
                ty,
                order,
                a,
                s,
            } => {
                let (vector, needs) = match s.len() {
                    1 => (String::new(), Needs::BASE),
                    0 => (".v0".to_string(), Needs::BASE),
                    n => (format!(".v{n}"), Needs::new(Arch::Sm90, 8, 1)),
                };
                let mnemonic = format!(
                    "red{}{}.{}{vector}.{ty}",
                    order.suffix(),
                    space.suffix(),
                    op.ptx()
                );
                let opcode = op.opcode("red", *space, *ty, *order, s.len());
                let needs = needs.max(space.needs()).max(order.needs());
                Row::alone(
                    mnemonic,
                    opcode,
                    needs.max(op.needs(*ty)),
                    reduce(*op, *ty, s.len()),
                )
                .at(*a)
                .ss(s, *ty)
            }
            Memory::Mapa { d, a, rank } => {
                Row::alone("mapa", "mapa.shared::cluster.u32", Needs::HOPPER, EXISTS)
                    .function()
                    .d(d, Type::U32)
                    .s(a, Type::U32)
                    .s(rank, Type::U32)
            }
            Memory::Cvta {
                to_generic,
                space,
                d,
                a,
            } => {
                let to = if *to_generic { "" } else { ".to" };
                let opcode = format!("cvta{to}{}.u64", space.dotted());
                let mnemonic = format!("cvta{to}{}", space.suffix());
                Row::alone(mnemonic, opcode, Needs::BASE, EXISTS)
                    .function()
                    .d(d, Type::U64)
                    .s(a, Type::U64)
            }
            Memory::PrefetchTensorMap { a } => {
                let needs = Needs::HOPPER_ASYNC.max(Needs::of_generic(*a));
                Row::alone("prefetch.tensormap", "prefetch.tensormap", needs, EXISTS).at_map(*a)
            }
            Memory::CreatePolicy {
                d,
                primary,
                fraction,
            } => Row::alone(
                format!("createpolicy.{primary}.{fraction}"),
                Ptx::Line {
                    opcode: format!("createpolicy.fractional.L2::{primary}.b64").into(),
                    last: Some(format!("0f{:08X}", fraction.to_bits())),
                },
                Needs::new(Arch::Sm80, 7, 4),
                policy(primary, *fraction),
            )
            .function()
            .d(d, Type::B64),
            Memory::Print { values, end } => print_row(values, end),
            Memory::Text { text, d, a } => text_row(text, d, a),
        }
    }
}

/// Returns the modifier of a vector of `count` elements.
fn vector(count: usize) -> &'static str {
    match count {
        0 | 1 => "",
        2 => ".v2",
        4 => ".v4",
        _ => ".v8",
    }
}

fn policy(primary: &str, fraction: f32) -> Result<(), String> {
    let known = [
        "evict_last",
        "evict_normal",
        "evict_first",
        "evict_unchanged",
    ];
    if known.contains(&primary) && fraction > 0.0 && fraction <= 1.0 {
        Ok(())
    } else {
        Err("a policy is evict_last, evict_normal, evict_first or evict_unchanged for a fraction above 0 and up to 1".into())
    }
}

fn reduce(op: AtomicOp, ty: Type, count: usize) -> Result<(), String> {
    let paired = [Type::F16x2, Type::Bf16x2].contains(&ty);
    let least = [AtomicOp::Min, AtomicOp::Max].contains(&op);
    match (op, count) {
        (AtomicOp::Exch | AtomicOp::Cas, _) => {
            Err("`red` forgets the old value, so it has no exch and no cas".into())
        }
        (_, 1) => among(ty, op.types()),
        (AtomicOp::Add, 2 | 4) if ty == Type::F32 => Ok(()),
        (AtomicOp::Add, 2 | 4) if paired => Ok(()),
        (_, 2 | 4) if paired && least => Ok(()),
        (AtomicOp::Add, 2 | 4 | 8) if SCALAR_HALVES.contains(&ty) => Ok(()),
        (_, 2 | 4 | 8) if SCALAR_HALVES.contains(&ty) && least => Ok(()),
        _ => Err("vectors add 2 or 4 of f32, and add, min or max 2 or 4 of f16x2 and bf16x2, or 2, 4 or 8 of f16 and bf16".into()),
    }
}

impl AtomicOp {
    fn opcode(self, mnemonic: &str, space: Space, ty: Type, order: Order, count: usize) -> String {
        let (order, space, vector) = (order.suffix(), space.dotted(), vector(count));
        let flush = if ty.is_f16() || ty.is_bf16() {
            ".noftz"
        } else {
            ""
        };
        let ty = match self {
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch | AtomicOp::Cas => {
                format!("b{}", ty.bits())
            }
            AtomicOp::Add | AtomicOp::Min | AtomicOp::Max | AtomicOp::Inc | AtomicOp::Dec => {
                ty.to_string()
            }
        };
        format!(
            "{mnemonic}{order}{space}.{}{flush}{vector}.{ty}",
            self.ptx()
        )
    }

    fn types(self) -> &'static [&'static [Type]] {
        match self {
            AtomicOp::Add => &[&[Type::U32, Type::S32, Type::U64], HALVES, SINGLES],
            AtomicOp::Min | AtomicOp::Max => &[INTEGERS_FROM_32],
            AtomicOp::Inc | AtomicOp::Dec => &[&[Type::U32]],
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exch => {
                &[BITS_FROM_32, INTEGERS_FROM_32]
            }
            AtomicOp::Cas => &[BITS, INTEGERS],
        }
    }

    fn needs(self, ty: Type) -> Needs {
        match (self, ty) {
            (AtomicOp::Add, Type::Bf16 | Type::Bf16x2) => Needs::HOPPER,
            (
                AtomicOp::Min | AtomicOp::Max,
                Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2,
            ) => Needs::new(Arch::Sm90, 8, 1),
            (AtomicOp::Add, Type::F16) => Needs::new(Arch::Sm70, 6, 3),
            (AtomicOp::Add, Type::F16x2) => Needs::new(Arch::Sm70, 6, 2),
            (AtomicOp::Cas, _) if ty.bits() == 16 => Needs::new(Arch::Sm70, 6, 3),
            _ => Needs::BASE,
        }
    }
}

impl Space {
    /// Returns its modifier in an opcode, with its dot; the block's own shared memory is what `.shared` means, in every
    /// version of PTX.
    pub(super) fn dotted(self) -> &'static str {
        match self {
            Space::Shared => ".shared",
            Space::Cluster => ".shared::cluster",
            Space::Global => ".global",
            Space::Param => ".param",
            Space::Generic => "",
        }
    }

    /// Returns its modifier in listings, with its dot.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Space::Cluster => ".cluster",
            Space::Global | Space::Shared | Space::Param | Space::Generic => self.dotted(),
        }
    }

    fn needs(self) -> Needs {
        match self {
            Space::Cluster => Needs::HOPPER,
            Space::Global | Space::Shared | Space::Param | Space::Generic => Needs::BASE,
        }
    }
}

impl Order {
    /// Returns its modifiers in an opcode, each with its dot.
    pub(crate) fn suffix(self) -> String {
        let (order, scope) = self.parts();
        format!("{order}{scope}")
    }

    /// The same in two parts.
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Order::Weak => ("", ""),
            Order::Relaxed(scope) => (".relaxed.", scope.ptx()),
            Order::Acquire(scope) => (".acquire.", scope.ptx()),
            Order::Release(scope) => (".release.", scope.ptx()),
            Order::AcqRel(scope) => (".acq_rel.", scope.ptx()),
            Order::Volatile => (".volatile", ""),
        }
    }

    fn needs(self) -> Needs {
        use Order::{AcqRel, Acquire, Relaxed, Release, Volatile, Weak};
        match self {
            Relaxed(Scope::Cluster)
            | Acquire(Scope::Cluster)
            | Release(Scope::Cluster)
            | AcqRel(Scope::Cluster) => Needs::HOPPER,
            Weak | Relaxed(_) | Acquire(_) | Release(_) | AcqRel(_) | Volatile => Needs::BASE,
        }
    }
}

impl Cache {
    fn needs(self) -> Needs {
        use Cache::{
            Ca, Cg, Cs, Cv, Default, Lu, Nc, NcNoAllocate, NcNoAllocate256, NoAllocate, Wb, Wt,
        };
        match self {
            NcNoAllocate | NoAllocate => Needs::new(Arch::Sm70, 7, 4),
            NcNoAllocate256 => Needs::new(Arch::Sm80, 7, 4),
            Default | Ca | Cg | Cs | Lu | Cv | Wb | Wt | Nc => Needs::BASE,
        }
    }
}
