//! The words of an instruction that do not go together.

use colex_atom::{Arch, mma};
use colex_ir::{
    Alu, Atom, AtomicOp, BinaryOp, Exchange, KernelBuilder, MatchMode, Memory, Op, Operand, Order,
    Reg, RegType, Rounding, ScaleD, Scope, Space, Sync, Type, VoteMode,
};

use super::{odd, refused};

/// Memory in both spaces, and a number.
struct Given {
    global: Reg,
    shared: colex_ir::SharedId,
    x: Reg,
}

fn given(k: &mut KernelBuilder) -> Given {
    let data = k.pointer("data");
    Given {
        global: k.param(data),
        shared: k.shared("s", 64, 16),
        x: k.mov(Type::U32, 1),
    }
}

#[track_caller]
fn wrong<O: Into<Op>>(sentence: &str, make: impl FnOnce(&mut KernelBuilder, &Given) -> O) {
    refused(Arch::Sm90a, sentence, |k| {
        let given = given(k);
        let op = make(k, &given);
        k.push(op);
    });
}

#[test]
fn atomic_operations() {
    let atomic = |op, order, t: Option<Operand>| {
        move |k: &mut KernelBuilder, g: &Given| Memory::Atomic {
            op,
            space: Space::Global,
            ty: Type::U32,
            order,
            d: k.reg(RegType::B32),
            a: g.global.into(),
            s: g.x.into(),
            t,
        }
    };
    let cas = "only `cas` takes a second value, and it needs one";
    wrong(
        &format!("`atom.global.cas.u32` does not exist: {cas}"),
        atomic(AtomicOp::Cas, Order::Weak, None),
    );
    wrong(
        &format!("`atom.global.add.u32` does not exist: {cas}"),
        atomic(AtomicOp::Add, Order::Weak, Some(1.into())),
    );
    wrong(
        "`atom.volatile.global.add.u32` does not exist: it is relaxed, acquire, release or acq_rel, on global or shared memory",
        atomic(AtomicOp::Add, Order::Volatile, None),
    );
    let reduce = |op, space, order, count| {
        move |_: &mut KernelBuilder, g: &Given| Memory::Reduce {
            op,
            space,
            ty: if count == 1 { Type::U32 } else { Type::F32 },
            order,
            a: if space == Space::Global {
                g.global.into()
            } else {
                g.shared.into()
            },
            s: vec![g.x.into(); count],
        }
    };
    wrong(
        "`red.global.exch.u32` does not exist: `red` forgets the old value, so it has no exch and no cas",
        reduce(AtomicOp::Exch, Space::Global, Order::Weak, 1),
    );
    wrong(
        "`red.acquire.gpu.global.add.u32` does not exist: it is relaxed or release, on global or shared memory",
        reduce(AtomicOp::Add, Space::Global, Order::Acquire(Scope::Gpu), 1),
    );
    wrong(
        "`red.global.add.v8.f32` does not exist: vectors add 2 or 4 of f32, and add, min or max 2 or 4 of f16x2 and bf16x2, or 2, 4 or 8 of f16 and bf16",
        reduce(AtomicOp::Add, Space::Global, Order::Weak, 8),
    );
    wrong(
        "`red.shared.add.v4.f32` does not exist: vectors are reduced in global memory only",
        reduce(AtomicOp::Add, Space::Shared, Order::Weak, 4),
    );
}

#[test]
fn conversions() {
    let convert = |to: Type, from: Type, rounding, saturate, sentence: &str| {
        refused(Arch::Sm90a, sentence, |k| {
            let a = k.mov(
                from,
                if from.is_float() {
                    1.0.into()
                } else {
                    Operand::Int(1)
                },
            );
            let d = k.reg(to.register());
            k.push(Alu::Cvt {
                to,
                from,
                rounding,
                saturate,
                d,
                a: a.into(),
            });
        });
    };
    use Type::{B32, Bf16, E4m3x2, F16, F16x2, F32, F64, S8, S32, Tf32, U8};
    let (rn, rzi) = (Some(Rounding::Rn), Some(Rounding::Rzi));
    convert(
        E4m3x2,
        F16x2,
        None,
        false,
        "`cvt.e4m3x2.f16x2` does not exist: it rounds to nearest (rn)",
    );
    convert(
        Tf32,
        F32,
        None,
        false,
        "`cvt.tf32.f32` does not exist: it rounds by rna, rn or rz",
    );
    convert(
        S32,
        S8,
        None,
        true,
        "`cvt.sat.s32.s8` does not exist: between integers nothing is rounded, and only what may not fit saturates",
    );
    convert(
        U8,
        Bf16,
        rzi,
        false,
        "`cvt.rzi.u8.bf16` does not exist: bf16 and integers of 8 bits become each other by way of a wider type",
    );
    convert(
        S32,
        F32,
        rn,
        false,
        "`cvt.rn.s32.f32` does not exist: a float becomes an integer by rni, rzi, rmi or rpi",
    );
    convert(
        F32,
        S32,
        None,
        false,
        "`cvt.f32.s32` does not exist: an integer becomes a float by rn or rz",
    );
    convert(
        F64,
        F32,
        rn,
        false,
        "`cvt.rn.f64.f32` does not exist: a wider float holds it exactly: no rounding",
    );
    convert(
        F32,
        F32,
        rn,
        false,
        "`cvt.rn.f32.f32` does not exist: a float is rounded to an integer by rni, rzi, rmi or rpi",
    );
    convert(
        B32,
        F16,
        None,
        false,
        "`cvt.b32.f16` does not exist: conversions are between integers of 8 to 64 bits, f16, bf16, f32 and f64, from f32 to tf32, and between f16x2 and e4m3x2 or e5m2x2",
    );
    refused(
        Arch::Sm90a,
        "`cvt.f16x2.f16` does not exist: two f32 become f16x2, bf16x2, e4m3x2 or e5m2x2",
        |k| {
            let x = k.mov(F16, 1.0);
            let d = k.reg(RegType::B32);
            let (hi, lo) = (x.into(), x.into());
            k.push(Alu::CvtPack {
                to: F16x2,
                from: F16,
                relu: false,
                d,
                hi,
                lo,
            });
        },
    );
}

#[test]
fn predicates_and_selections() {
    refused(
        Arch::Sm80,
        "`add.pred` does not exist: predicates have `and`, `or` and `xor`",
        |k| {
            let p = odd(k);
            k.pred(BinaryOp::Add, p, p);
        },
    );
    refused(
        Arch::Sm80,
        "`selp.u8` does not exist: it is for types of 16, 32 and 64 bits",
        |k| {
            let (p, x) = (odd(k), k.mov(Type::U8, 1));
            k.selp(Type::U8, x, x, p);
        },
    );
    refused(
        Arch::Sm80,
        "`redux.shl.u32` does not exist: `redux` has add, min, max, and, or and xor",
        |k| {
            let (d, x) = (k.reg(RegType::B32), k.mov(Type::U32, 1));
            k.push(Exchange::Redux {
                op: BinaryOp::Shl,
                ty: Type::U32,
                d,
                a: x.into(),
                mask: 0xffff_ffffu32.into(),
            });
        },
    );
    refused(
        Arch::Sm70,
        "`match.any.u32` does not exist: it is for b32 and b64",
        |k| {
            let x = k.mov(Type::U32, 1);
            k.match_any(Type::U32, x);
        },
    );
    refused(
        Arch::Sm70,
        "`match.any.b32` does not exist: only `match.all` says in a predicate whether all lanes agree",
        |k| {
            let (d, p, x) = (
                k.reg(RegType::B32),
                k.reg(RegType::Pred),
                k.mov(Type::U32, 1),
            );
            k.push(Exchange::Match {
                mode: MatchMode::Any,
                ty: Type::B32,
                d,
                p: Some(p),
                a: x.into(),
                mask: 0xffff_ffffu32.into(),
            });
        },
    );
    refused(
        Arch::Sm70,
        "`match.all.b64` takes a register of class b64 or f64 as its source, and %r0 is of class b32",
        |k| {
            let x = k.mov(Type::U32, 1);
            k.match_all(Type::B64, x);
        },
    );
    refused(
        Arch::Sm70,
        "`dp4a.u32.s32` takes a register of class b32 as its source, and %f0 is of class f32",
        |k| {
            let (x, y) = (k.mov(Type::F32, 1.0), k.mov(Type::U32, 1));
            k.dp4a([false, true], x, y, 0);
        },
    );
    refused(
        Arch::Sm80,
        "`vote.all` takes a register of class pred as its destination, and %r2 is of class b32",
        |k| {
            let p = odd(k);
            let d = k.reg(RegType::B32);
            k.push(Exchange::Vote {
                mode: VoteMode::All,
                d,
                p: p.into(),
                mask: 0xffff_ffffu32.into(),
            });
        },
    );
}

#[test]
fn policies() {
    wrong(
        "`createpolicy.evict_never.0.5` does not exist: a policy is evict_last, evict_normal, evict_first or evict_unchanged for a fraction above 0 and up to 1",
        |k, _| Memory::CreatePolicy {
            d: k.reg(RegType::B64),
            primary: "evict_never",
            fraction: 0.5,
        },
    );
}

#[test]
fn barriers() {
    wrong(
        "`mbarrier.arrive.global` does not exist: a barrier lies in shared memory of the block or the cluster",
        |_, g| Sync::MbarrierArrive {
            space: Space::Global,
            a: g.global.into(),
            count: None,
            expect: None,
            scope: Scope::Cta,
        },
    );
    wrong(
        "`mbarrier.arrive.expect_tx.shared` does not exist: with expected bytes it counts one arrival",
        |_, g| Sync::MbarrierArrive {
            space: Space::Shared,
            a: g.shared.into(),
            count: Some(2.into()),
            expect: Some(64.into()),
            scope: Scope::Cta,
        },
    );
    wrong(
        "`mbarrier.arrive.cluster` does not exist: it releases in the block or the cluster",
        |_, g| Sync::MbarrierArrive {
            space: Space::Cluster,
            a: g.shared.into(),
            count: None,
            expect: None,
            scope: Scope::Gpu,
        },
    );
    wrong(
        "`mbarrier.try_wait` does not exist: it acquires in the block or the cluster",
        |k, g| Sync::MbarrierTry {
            test: false,
            p: k.reg(RegType::Pred),
            a: g.shared.into(),
            parity: 0.into(),
            scope: Scope::Gpu,
        },
    );
}

#[test]
fn products() {
    let atom = mma("SM80_16x8x16_F32F16F16F32_TN").expect("it is in the table");
    wrong(
        "`mma SM80_16x8x16_F32F16F16F32_TN` does not exist: only wgmma can leave out what D holds: give C registers of zeros",
        |k, g| {
            let f = k.mov(Type::F32, 0.0);
            Atom::Mma {
                atom: Box::new(atom),
                d: vec![f; 4],
                a: vec![g.x; 4],
                b: vec![g.x; 2],
                c: vec![f; 4],
                e: Vec::new(),
                scale_d: ScaleD::Zero,
            }
        },
    );
}
