//! Every form of every instruction, valid or not, in a kernel of its own.

use colex_atom::Arch;

use super::given::Given;
use colex_ir::ptx::Needs;
use colex_ir::{
    Access, Alu, Async, AtomicOp, BarrierOp, BinaryOp, Cache, ClusterOrder, Compare, Control,
    Exchange, FenceKind, Guard, Kernel, KernelBuilder, MatchMode, Memory, Op, Operand, Order,
    PrintedValue, PtxText, RegType, Rounding, Scope, ShuffleMode, Space, Special, Sync, TernaryOp,
    Type, UnaryOp, VoteMode,
};

/// One instruction in a kernel.
#[derive(Clone, Debug)]
pub struct FormCase {
    /// The word of the instruction.
    pub word: String,
    /// The architecture and version that the verifier requires for it.
    pub needs: Needs,
    /// The kernel, for the first architecture that has it.
    pub kernel: Kernel,
    /// Whether the verifier accepts it.
    pub right: bool,
}

/// Every type.
const TYPES: [Type; 22] = {
    use Type::*;
    [
        Pred, B8, U8, S8, B16, U16, S16, F16, Bf16, B32, U32, S32, F32, Tf32, F16x2, Bf16x2,
        E4m3x2, E5m2x2, B64, U64, S64, F64,
    ]
};

const FULL: Operand = Operand::Int(0xffff_ffff);

/// Returns every instruction in every type, with every word that it has, whether it exists or not.
///
/// ```
/// let cases = colex_proof::corpus::instructions();
/// let right = cases.iter().filter(|case| case.right).count();
/// assert!(right > 500 && right < cases.len());
/// ```
pub fn instructions() -> Vec<FormCase> {
    let mut ops: Vec<Make> = Vec::new();
    arithmetic(&mut ops);
    conversions(&mut ops);
    memory(&mut ops);
    atomics(&mut ops);
    warp(&mut ops);
    barriers(&mut ops);
    specials(&mut ops);
    let all = ops.iter().enumerate();
    all.map(|(i, make)| case(i, make)).collect()
}

/// Makes the instruction; its destination is a fresh register.
type Make = Box<dyn Fn(&mut KernelBuilder, &Given) -> Op>;

fn case(i: usize, make: &Make) -> FormCase {
    let kernel = kernel(i, make, Arch::Sm90a);
    let op = |kernel: &Kernel| kernel.body.last().map(|stmt| stmt.op.clone());
    let last = op(&kernel).unwrap_or(Control::Trap.into());
    let right = kernel.verify().is_ok();
    let needs = Needs::of(&last, Arch::Sm90a);
    let kernel = self::kernel(i, make, needs.arch);
    FormCase {
        word: last.mnemonic(),
        needs: Needs::of(&last, needs.arch),
        kernel,
        right,
    }
}

fn kernel(i: usize, make: &Make, target: Arch) -> Kernel {
    let mut k = KernelBuilder::new(&format!("case_{i}"), target);
    k.block([128, 1, 1]).min_blocks(1).dynamic_shared(128);
    let given = Given::new(&mut k);
    let op = make(&mut k, &given);
    k.push(op);
    k.finish()
}

/// Adds an instruction.
fn add<O: Into<Op>>(ops: &mut Vec<Make>, make: impl Fn(&mut KernelBuilder, &Given) -> O + 'static) {
    ops.push(Box::new(move |k, given| make(k, given).into()));
}

fn arithmetic(ops: &mut Vec<Make>) {
    for ty in TYPES {
        for &op in UnaryOp::ALL {
            add(ops, move |k, g| {
                let (d, a) = (k.reg(op.result(ty).register()), g.of(ty));
                Alu::Unary { op, ty, d, a }
            });
        }
        for &op in BinaryOp::ALL {
            add(ops, move |k, g| {
                let d = k.reg(op.result(ty).register());
                let (a, b) = (g.of(ty), g.of(op.second(ty)));
                Alu::Binary { op, ty, d, a, b }
            });
        }
        for &op in TernaryOp::ALL {
            add(ops, move |k, g| {
                let d = k.reg(op.result(ty).register());
                let [a, b, c] = op.operands(ty).map(|ty| g.of(ty));
                Alu::Ternary { op, ty, d, a, b, c }
            });
        }
        comparisons(ops, ty);
    }
    for &op in BinaryOp::ALL {
        add(ops, move |k, g| {
            let (p, a) = (k.reg(RegType::Pred), Guard::from(g.pred));
            let b = a.negated();
            Alu::PredLogic { op, p, a, b }
        });
    }
    for signed in [false, true]
        .map(|a| [false, true].map(|b| [a, b]))
        .concat()
    {
        add(ops, move |k, g| {
            let (d, [a, b, c]) = (k.reg(RegType::B32), [g.of(Type::U32); 3]);
            Alu::Dp4a { signed, d, a, b, c }
        });
    }
    add(ops, |k, g| {
        let (d, [a, b, c]) = (k.reg(RegType::B32), [g.of(Type::B32); 3]);
        let table = 0xca;
        Alu::Lop3 { d, a, b, c, table }
    });
}

fn comparisons(ops: &mut Vec<Make>, ty: Type) {
    for &cmp in Compare::ALL {
        add(ops, move |k, g| {
            let (p, a, b) = (k.reg(RegType::Pred), g.of(ty), g.of(ty));
            Alu::Setp { cmp, ty, p, a, b }
        });
    }
    add(ops, move |k, g| {
        let (d, a, b, p) = (k.reg(ty.register()), g.of(ty), g.of(ty), g.pred);
        Alu::Selp { ty, d, a, b, p }
    });
    add(ops, move |k, g| {
        let (d, a, b) = (k.reg(ty.register()), g.of(ty), g.of(ty));
        let (start, length) = (g.of(Type::U32), g.of(Type::U32));
        Alu::Bfi {
            ty,
            d,
            a,
            b,
            start,
            length,
        }
    });
}

fn conversions(ops: &mut Vec<Make>) {
    let roundings = || Rounding::ALL.iter().copied().map(Some).chain([None]);
    for (to, from) in TYPES.iter().flat_map(|&to| TYPES.map(|from| (to, from))) {
        for rounding in roundings() {
            for saturate in [false, true] {
                add(ops, move |k, g| {
                    let (d, a) = (k.reg(to.register()), g.of(from));
                    Alu::Cvt {
                        to,
                        from,
                        rounding,
                        saturate,
                        d,
                        a,
                    }
                });
            }
        }
    }
    for (to, from) in TYPES
        .iter()
        .flat_map(|&to| [Type::F32, Type::F16].map(|from| (to, from)))
    {
        for relu in [false, true] {
            add(ops, move |k, g| {
                let (d, hi, lo) = (k.reg(to.register()), g.of(from), g.of(from));
                Alu::CvtPack {
                    to,
                    from,
                    relu,
                    d,
                    hi,
                    lo,
                }
            });
        }
    }
}

fn orders() -> Vec<Order> {
    let scopes = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];
    let of = [
        Order::Relaxed,
        Order::Acquire,
        Order::Release,
        Order::AcqRel,
    ];
    let scoped = of.iter().flat_map(|order| scopes.map(order));
    scoped.chain([Order::Weak, Order::Volatile]).collect()
}

/// Loads and stores: every type in every width, then every cache hint and order.
fn memory(ops: &mut Vec<Make>) {
    let spaces = [Space::Global, Space::Shared, Space::Cluster, Space::Generic];
    for (ty, count) in TYPES.iter().flat_map(|&ty| [1, 2, 4].map(|n| (ty, n))) {
        access(ops, Access::new(Space::Global, ty), count);
    }
    for (space, &cache) in spaces
        .iter()
        .flat_map(|space| Cache::ALL.iter().map(move |c| (space, c)))
    {
        access(ops, Access::new(*space, Type::B32).cache(cache), 4);
    }
    for (space, order) in spaces
        .iter()
        .flat_map(|space| orders().into_iter().map(move |o| (space, o)))
    {
        access(ops, Access::new(*space, Type::B32).order(order), 1);
    }
    for &cache in Cache::ALL {
        add(ops, move |k, g| {
            let access = Access::new(Space::Global, Type::B32)
                .cache(cache)
                .policy(g.values[2]);
            let (d, a) = (k.regs(RegType::B32, 2), g.global.into());
            Memory::Load { access, d, a }
        });
    }
    for primary in [
        "evict_last",
        "evict_normal",
        "evict_first",
        "evict_unchanged",
        "never",
    ] {
        add(ops, move |k, _| Memory::CreatePolicy {
            d: k.reg(RegType::B64),
            primary,
            fraction: 0.5,
        });
    }
    for (space, to_generic) in spaces[..2]
        .iter()
        .flat_map(|&s| [true, false].map(|to| (s, to)))
    {
        add(ops, move |k, g| Memory::Cvta {
            to_generic,
            space,
            d: k.reg(RegType::B64),
            a: g.global.into(),
        });
    }
    for ty in TYPES {
        let values = move |g: &Given| {
            [7.0, 0.5].map(|x| PrintedValue {
                before: "100% \"of\" ".to_string(),
                ty,
                digits: 9,
                a: if x == 7.0 {
                    g.of(ty)
                } else if ty.is_float() {
                    x.into()
                } else {
                    7.into()
                },
            })
        };
        add(ops, move |_, g| Memory::Print {
            values: values(g).to_vec(),
            end: "\\ %d".to_string(),
        });
        add(ops, move |k, g| Memory::Text {
            text: PtxText::new({
                let word = match ty {
                    Type::Pred => "pred".to_string(),
                    _ => format!("b{}", ty.bits().max(16)),
                };
                format!("{{ .reg .{word} t; mov.{word} t, %1; mov.{word} %0, t; }}")
            }),
            d: vec![(ty, k.reg(ty.register()))],
            a: vec![(ty, g.of(ty))],
        });
    }
    add(ops, |k, g| Memory::Mapa {
        d: k.reg(RegType::B32),
        a: g.of(Type::U32),
        rank: 1.into(),
    });
}

fn access(ops: &mut Vec<Make>, access: Access, count: usize) {
    let address = move |g: &Given| match access.space {
        Space::Global | Space::Generic => g.global.into(),
        _ => g.shared.into(),
    };
    add(ops, move |k, g| {
        let (d, a) = (k.regs(access.ty.register(), count), address(g));
        Memory::Load { access, d, a }
    });
    add(ops, move |_, g| {
        let (s, a) = (vec![g.of(access.ty); count], address(g));
        Memory::Store { access, a, s }
    });
}

fn atomics(ops: &mut Vec<Make>) {
    for (&op, ty) in AtomicOp::ALL.iter().flat_map(|op| TYPES.map(|ty| (op, ty))) {
        atomic(ops, op, Space::Global, ty, Order::Weak);
        for count in [1, 2, 4, 8] {
            reduce(ops, op, Space::Global, ty, Order::Weak, count);
        }
    }
    for space in [Space::Shared, Space::Cluster, Space::Generic, Space::Param] {
        atomic(ops, AtomicOp::Add, space, Type::U32, Order::Weak);
        reduce(ops, AtomicOp::Add, space, Type::U32, Order::Weak, 1);
    }
    for order in orders() {
        atomic(ops, AtomicOp::Add, Space::Global, Type::U32, order);
        reduce(ops, AtomicOp::Add, Space::Global, Type::U32, order, 1);
    }
}

fn atomic(ops: &mut Vec<Make>, op: AtomicOp, space: Space, ty: Type, order: Order) {
    add(ops, move |k, g| Memory::Atomic {
        op,
        space,
        ty,
        order,
        d: k.reg(ty.register()),
        a: place(g, space),
        s: g.of(ty),
        t: (op == AtomicOp::Cas).then(|| g.of(ty)),
    });
}

fn reduce(ops: &mut Vec<Make>, op: AtomicOp, space: Space, ty: Type, order: Order, count: usize) {
    add(ops, move |_, g| Memory::Reduce {
        op,
        space,
        ty,
        order,
        a: place(g, space),
        s: vec![g.of(ty); count],
    });
}

fn place(g: &Given, space: Space) -> colex_ir::Address {
    match space {
        Space::Global | Space::Generic => g.global.into(),
        _ => g.shared.into(),
    }
}

fn warp(ops: &mut Vec<Make>) {
    for (&mode, ty) in ShuffleMode::ALL
        .iter()
        .flat_map(|mode| RegType::ALL.map(|ty| (mode, ty)))
    {
        add(ops, move |k, g| Exchange::Shuffle {
            mode,
            d: k.reg(ty),
            p: Some(k.reg(RegType::Pred)),
            a: g.reg(ty).into(),
            lane: 1.into(),
            clamp: 31.into(),
            mask: FULL,
        });
    }
    for &mode in VoteMode::ALL {
        add(ops, move |k, g| Exchange::Vote {
            mode,
            d: k.reg(if mode == VoteMode::Ballot {
                RegType::B32
            } else {
                RegType::Pred
            }),
            p: Guard::from(g.pred).negated(),
            mask: FULL,
        });
    }
    for (&op, ty) in BinaryOp::ALL.iter().flat_map(|op| TYPES.map(|ty| (op, ty))) {
        add(ops, move |k, g| Exchange::Redux {
            op,
            ty,
            d: k.reg(ty.register()),
            a: g.of(ty),
            mask: FULL,
        });
    }
    for (&mode, ty) in MatchMode::ALL
        .iter()
        .flat_map(|mode| TYPES.map(|ty| (mode, ty)))
    {
        for tested in [false, true] {
            add(ops, move |k, g| Exchange::Match {
                mode,
                ty,
                d: k.reg(RegType::B32),
                p: tested.then(|| k.reg(RegType::Pred)),
                a: g.of(ty),
                mask: FULL,
            });
        }
    }
    add(ops, |k, _| Exchange::Elect {
        p: k.reg(RegType::Pred),
        mask: FULL,
    });
    add(ops, |k, _| Exchange::ActiveMask {
        d: k.reg(RegType::B32),
    });
    add(ops, |_, _| Sync::WarpSync { mask: FULL });
}

fn barriers(ops: &mut Vec<Make>) {
    for op in [BarrierOp::Sync, BarrierOp::Arrive] {
        for threads in [None, Some(64.into())] {
            add(ops, move |_, _| Sync::Barrier {
                op,
                id: 1.into(),
                threads,
            });
        }
    }
    for &kind in FenceKind::ALL {
        add(ops, move |_, _| Sync::Fence(kind));
    }
    for &order in ClusterOrder::ALL {
        add(ops, move |_, _| Sync::ClusterArrive { order });
    }
    let plain: [Op; 16] = [
        Sync::ClusterWait.into(),
        Async::CpAsyncCommit.into(),
        Async::CpAsyncWait { pending: 2 }.into(),
        Async::BulkCommit.into(),
        Async::BulkWait {
            pending: 1,
            read: true,
        }
        .into(),
        Async::BulkWait {
            pending: 0,
            read: false,
        }
        .into(),
        Async::WgmmaFence.into(),
        Async::WgmmaCommit.into(),
        Async::WgmmaWait { pending: 1 }.into(),
        Sync::SetMaxReg {
            increase: true,
            count: 240,
        }
        .into(),
        Sync::SetMaxReg {
            increase: false,
            count: 24,
        }
        .into(),
        Sync::GridDependency { wait: true }.into(),
        Sync::GridDependency { wait: false }.into(),
        Sync::NanoSleep {
            nanoseconds: 100.into(),
        }
        .into(),
        Control::Trap.into(),
        Control::Exit.into(),
    ];
    for op in plain {
        add(ops, move |_, _| op.clone());
    }
    mbarriers(ops);
}

fn mbarriers(ops: &mut Vec<Make>) {
    add(ops, |_, g| Sync::MbarrierInit {
        a: g.shared.into(),
        count: 4.into(),
    });
    add(ops, |_, g| Sync::MbarrierInval { a: g.shared.into() });
    for space in [Space::Shared, Space::Cluster, Space::Global] {
        for (count, expect) in [
            (None, None),
            (Some(2), None),
            (None, Some(512)),
            (Some(2), Some(512)),
        ] {
            for &scope in Scope::ALL {
                add(ops, move |_, g| Sync::MbarrierArrive {
                    space,
                    a: place(g, space),
                    count: count.map(Operand::Int),
                    expect: expect.map(Operand::Int),
                    scope,
                });
            }
        }
        add(ops, move |_, g| Sync::MbarrierExpect {
            space,
            a: place(g, space),
            bytes: 512.into(),
        });
    }
    for (test, scope) in [true, false]
        .iter()
        .flat_map(|&test| Scope::ALL.iter().map(move |&s| (test, s)))
    {
        add(ops, move |k, g| Sync::MbarrierTry {
            test,
            p: k.reg(RegType::Pred),
            a: g.shared.into(),
            parity: 0.into(),
            scope,
        });
    }
    add(ops, |_, g| Sync::MbarrierWait {
        a: g.shared.into(),
        parity: 1.into(),
    });
    for noinc in [true, false] {
        add(ops, move |_, g| Async::CpAsyncArrive {
            a: g.shared.into(),
            noinc,
        });
    }
}

/// Special registers and constants, moved and used in place.
fn specials(ops: &mut Vec<Make>) {
    let axes = [Special::Tid, Special::NTid, Special::Ctaid, Special::NCtaid];
    let clusters = [
        Special::ClusterCtaid,
        Special::ClusterNCtaid,
        Special::ClusterId,
        Special::NClusterId,
    ];
    let axes = axes
        .into_iter()
        .chain(clusters)
        .flat_map(|of| [of(0), of(1), of(2)]);
    let others = [
        Special::LaneId,
        Special::ClusterCtaRank,
        Special::ClusterNCtaRank,
        Special::Clock64,
        Special::GlobalTimer,
        Special::SmId,
        Special::DynamicSharedSize,
    ];
    for special in axes.chain(others) {
        add(ops, move |k, _| Alu::Mov {
            d: k.reg(special.register()),
            a: special.into(),
        });
        add(ops, move |k, g| {
            let ty = Type::untyped(special.register());
            let (d, a, b) = (k.reg(special.register()), special.into(), g.of(ty));
            let op = BinaryOp::Xor;
            Alu::Binary { op, ty, d, a, b }
        });
    }
    for ty in [
        Type::F16,
        Type::Bf16,
        Type::F16x2,
        Type::Bf16x2,
        Type::F32,
        Type::F64,
    ] {
        add(ops, move |k, g| Alu::Ternary {
            op: TernaryOp::Fma,
            ty,
            d: k.reg(ty.register()),
            a: 1.5.into(),
            b: g.of(ty),
            c: (-0.0).into(),
        });
    }
    for class in RegType::ALL {
        add(ops, move |k, _| Alu::Mov {
            d: k.reg(class),
            a: 1.into(),
        });
        add(ops, move |k, g| Alu::Mov {
            d: k.reg(class),
            a: g.reg(class).into(),
        });
    }
    packs(ops);
}

fn packs(ops: &mut Vec<Make>) {
    for (whole, part) in RegType::ALL
        .into_iter()
        .flat_map(|whole| RegType::ALL.map(|part| (whole, part)))
    {
        for count in [2, 4] {
            add(ops, move |k, g| Alu::Pack {
                d: k.reg(whole),
                parts: vec![g.reg(part); count],
            });
            add(ops, move |k, g| Alu::Unpack {
                parts: k.regs(part, count),
                a: g.reg(whole),
            });
        }
    }
}
