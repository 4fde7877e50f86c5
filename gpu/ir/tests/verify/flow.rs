//! Registers written before they are read; numbers; loops.

use colex_atom::Arch;
use colex_ir::{BarrierOp, Control, RegType, Sync, Type};

use super::{accepted, odd, refused, thread};

#[test]
fn registers_are_written_first() {
    refused(
        Arch::Sm80,
        "`add.u32` reads %r0, which is not written on every path to it: write it first",
        |k| {
            let x = k.reg(RegType::B32);
            k.add(Type::U32, x, 1);
        },
    );
    refused(
        Arch::Sm80,
        "`add.u32` reads %r0, which is not written on every path to it: write it first",
        |k| {
            let x = k.reg(RegType::B32);
            let p = odd(k);
            k.if_(p, |k| k.mov_to(x, 1));
            k.add(Type::U32, x, 1);
        },
    );
    refused(
        Arch::Sm80,
        "`add.u32` reads %r0, which is not written on every path to it: write it first",
        |k| {
            let x = k.reg(RegType::B32);
            k.loop_(|k| {
                let p = odd(k);
                k.break_if(p);
                k.mov_to(x, 1);
            });
            k.add(Type::U32, x, 1);
        },
    );
}

#[test]
fn every_way_may_write() {
    accepted(Arch::Sm80, |k| {
        let x = k.reg(RegType::B32);
        let p = odd(k);
        k.if_else(p, |k| k.mov_to(x, 1), |k| k.mov_to(x, 2));
        k.add(Type::U32, x, 1);
    });
    accepted(Arch::Sm80, |k| {
        let x = k.reg(RegType::B32);
        k.loop_(|k| {
            k.mov_to(x, 1);
            let p = odd(k);
            k.break_if(p);
        });
        k.add(Type::U32, x, 1);
    });
}

#[test]
fn those_that_wrote_may_read() {
    accepted(Arch::Sm80, |k| {
        let (x, p) = (k.reg(RegType::B32), odd(k));
        k.when(p, |k| k.mov_to(x, 1));
        k.when(p, |k| k.add(Type::U32, x, 1));
        k.if_(p, |k| {
            k.add(Type::U32, x, 1);
        });
    });
    let refused_again =
        "`add.u32` reads %r0, which is not written on every path to it: write it first";
    refused(Arch::Sm80, refused_again, |k| {
        let (x, p) = (k.reg(RegType::B32), odd(k));
        k.when(p, |k| k.mov_to(x, 1));
        let q = odd(k);
        k.mov_to(p, q);
        k.when(p, |k| k.add(Type::U32, x, 1));
    });
}

#[test]
fn loops() {
    refused(
        Arch::Sm80,
        "`break` outside of a loop: there is nothing to leave",
        |k| k.push(Control::Break),
    );
    refused(
        Arch::Sm80,
        "`continue` outside of a loop: there is nothing to leave",
        |k| {
            k.push(Control::Continue);
        },
    );
}

#[test]
fn numbers() {
    refused(
        Arch::Sm80,
        "barrier 16 does not exist: a block has the barriers 0 to 15",
        |k| {
            k.named_sync(16, 64);
        },
    );
    refused(
        Arch::Sm80,
        "a barrier of 48 threads: it takes a multiple of 32, from 32 to 1024",
        |k| k.named_sync(1, 48),
    );
    refused(
        Arch::Sm80,
        "`barrier.arrive` does not wait, so it must say for how many threads the barrier is",
        |k| {
            k.push(Sync::Barrier {
                op: BarrierOp::Arrive,
                id: 1.into(),
                threads: None,
            });
        },
    );
    refused(
        Arch::Sm90a,
        "`setmaxnreg` of 100 registers: it takes 24 to 256 in steps of 8",
        |k| k.set_max_registers(true, 100),
    );
    refused(
        Arch::Sm90,
        "`mbarrier.init` cannot have 0: it takes 1 to 1048575 arrivals",
        |k| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_init(bar, 0);
        },
    );
    refused(
        Arch::Sm90,
        "`mbarrier.arrive.expect_tx.shared` cannot have 1048576: it takes 0 to 1048575 bytes",
        |k| {
            let bar = k.shared("bar", 8, 8);
            k.mbarrier_arrive_expect(bar, 1 << 20);
        },
    );
    let mut k = colex_ir::KernelBuilder::new("k", Arch::Sm90a);
    k.set_max_registers(false, 24);
    assert_eq!(
        super::sentences(&k.finish()),
        [
            "`setmaxnreg` would be ignored: give the kernel its block and min_blocks, or max_registers, so that the registers at its entry are known"
        ]
    );
    accepted(Arch::Sm80, |k| {
        thread(k);
    });
}
