//! Types, register classes, constants.

use colex_atom::Arch;
use colex_ir::{
    Alu, AtomicOp, BinaryOp, Control, Exchange, KernelBuilder, Operand, Reg, RegType, Space,
    Special, TernaryOp, Type, UnaryOp, VoteMode,
};

use super::{accepted, odd, refused, thread};

#[test]
fn forms() {
    refused(
        Arch::Sm80,
        "`rem.f32` does not exist: it is for u16, u32, u64, s16, s32 and s64",
        |k| {
            let x = k.mov(Type::F32, 1.0);
            k.rem(Type::F32, x, x);
        },
    );
    refused(
        Arch::Sm80,
        "`cvt.f16.f32` does not exist: a narrower float needs rn or rz",
        |k| {
            let a = k.mov(Type::F32, 1.0);
            let d = k.reg(RegType::B16);
            k.push(Alu::Cvt {
                to: Type::F16,
                from: Type::F32,
                rounding: None,
                saturate: false,
                d,
                a: a.into(),
            });
        },
    );
    refused(
        Arch::Sm80,
        "`atom.global.min.f32` does not exist: it is for u32, u64, s32 and s64",
        |k| {
            let x = k.mov(Type::F32, 1.0);
            let data = k.pointer("data");
            let address = k.param(data);
            k.atomic(AtomicOp::Min, Space::Global, Type::F32, address, x);
        },
    );
}

#[test]
fn classes() {
    refused(
        Arch::Sm80,
        "`add.s32` takes a register of class b32 as its source, and %f0 is of class f32",
        |k| {
            let x = k.mov(Type::F32, 1.0);
            k.add(Type::S32, x, 1);
        },
    );
    refused(
        Arch::Sm80,
        "`mul.f32` takes a register of class b32 or f32 as its destination, and %fd0 is of class f64",
        |k| {
            let x = k.mov(Type::F32, 1.0);
            let d = k.reg(RegType::F64);
            k.binary_to(BinaryOp::Mul, Type::F32, d, x, x);
        },
    );
    refused(
        Arch::Sm80,
        "`exit` takes a register of class pred as its guard, and %r0 is of class b32",
        |k| {
            let x = thread(k);
            k.when(x, |k| k.push(Control::Exit));
        },
    );
    refused(
        Arch::Sm80,
        "`pack` has 48 bits in parts and 64 in one: 2 or 4 parts of equal width make up the whole",
        |k| {
            let (half, word) = (k.mov(Type::U16, 1), k.mov(Type::U32, 1));
            k.pack(RegType::B64, &[half, word]);
        },
    );
}

#[test]
fn constants() {
    let constant = |sentence: &str, ty: Type, value: Operand| {
        refused(Arch::Sm80, sentence, |k: &mut KernelBuilder| {
            let x = k.mov(
                ty,
                if ty.is_float() {
                    1.0.into()
                } else {
                    Operand::Int(1)
                },
            );
            k.add(ty, x, value);
        });
    };
    constant(
        "`add.f32` cannot take the constant 1: write 1.0",
        Type::F32,
        1.into(),
    );
    constant(
        "`add.s32` cannot take the constant 1.5: s32 is no floating-point type",
        Type::S32,
        1.5.into(),
    );
    constant(
        "`add.u16` cannot take the constant 70000: u16 goes from -32768 to 65535",
        Type::U16,
        70000.into(),
    );
    constant(
        "`add.f16` cannot take the constant 100000.0: the largest f16 is 6.5504e4",
        Type::F16,
        1e5.into(),
    );
    refused(
        Arch::Sm80,
        "`mov` cannot take the constant 2: a predicate is 0 or 1",
        |k| {
            let p = k.reg(RegType::Pred);
            k.mov_to(p, 2);
        },
    );
    refused(
        Arch::Sm80,
        "`add.u32` cannot read %clock64, which has class b64: move it into a register first",
        |k| {
            k.add(Type::U32, Special::Clock64, 1);
        },
    );
}

/// What ptxas holds to less than the type of the operand.
#[test]
fn counts_of_bits_parities_and_masks() {
    refused(
        Arch::Sm80,
        "`bfe.u32` cannot take the constant 256: bits are counted from 0 to 255",
        |k| {
            let x = thread(k);
            k.ternary(TernaryOp::Bfe, Type::U32, x, 256, 4);
        },
    );
    let field = |start: i64, length: i64| {
        move |k: &mut KernelBuilder| {
            let (x, d) = (thread(k), k.reg(RegType::B32));
            let (a, b): (Operand, Operand) = (x.into(), x.into());
            let (ty, start, length) = (Type::B32, start.into(), length.into());
            k.push(Alu::Bfi {
                ty,
                d,
                a,
                b,
                start,
                length,
            });
        }
    };
    accepted(Arch::Sm80, field(255, 0));
    refused(
        Arch::Sm80,
        "`bfi.b32` cannot take the constant -1: bits are counted from 0 to 255",
        field(0, -1),
    );
    let waits = |parity: i64| {
        move |k: &mut KernelBuilder| {
            let barrier = k.shared("barrier", 8, 8);
            k.mbarrier_wait(barrier, parity);
        }
    };
    accepted(Arch::Sm90, waits(1));
    refused(
        Arch::Sm90,
        "`mbarrier.wait` cannot take the constant 2: a parity is 0 or 1",
        waits(2),
    );
    refused(
        Arch::Sm80,
        "`vote.ballot` takes a register of class b32 as its mask, and %f0 is of class f32",
        |k| {
            let (p, d) = (odd(k), k.reg(RegType::B32));
            let mask = k.mov(Type::F32, 1.0).into();
            let (mode, p) = (VoteMode::Ballot, p.into());
            k.push(Exchange::Vote { mode, d, p, mask });
        },
    );
    refused(
        Arch::Sm80,
        "`shf.r.wrap.b32` takes a register of class b32 as its source, and %f0 is of class f32",
        |k| {
            let (x, count) = (thread(k), k.mov(Type::F32, 1.0));
            k.ternary(TernaryOp::ShfR, Type::B32, x, x, count);
        },
    );
}

#[test]
fn registers_of_another_kernel() {
    refused(
        Arch::Sm80,
        "register %r4294967295 is not of this kernel, which has 1 of them: use what its own builder returned",
        |k| {
            let stray = Reg {
                index: u32::MAX,
                ty: RegType::B32,
            };
            k.unary(UnaryOp::Neg, Type::S32, stray);
        },
    );
}
