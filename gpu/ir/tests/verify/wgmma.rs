//! Registers on their way to the asynchronous tensor cores and back.

use std::cell::Cell;

use colex_atom::{Arch, MmaAtom, mma};
use colex_ir::{KernelBuilder, Reg, RegType, ScaleD, Type};

use super::{accepted, kernel, sentences};

fn atom() -> MmaAtom {
    mma("SM90_64x8x16_F32F16F16_SS").expect("it is in the table")
}

struct Given {
    d: Vec<Reg>,
    a: Reg,
    b: Reg,
}

impl Given {
    fn new(k: &mut KernelBuilder) -> Given {
        Given {
            d: (0..4).map(|_| k.mov(Type::F32, 0.0)).collect(),
            a: k.mov(Type::U64, 0),
            b: k.mov(Type::U64, 0),
        }
    }

    fn multiply(&self, k: &mut KernelBuilder) {
        k.wgmma(&atom(), &self.d, &[self.a], self.b, ScaleD::One);
    }
}

#[track_caller]
fn said(begin: &str, end: &str, body: impl FnOnce(&mut KernelBuilder)) {
    let kernel = kernel(Arch::Sm90a, body);
    let [said] = &sentences(&kernel)[..] else {
        panic!("{:?} in {kernel}", sentences(&kernel))
    };
    assert!(said.starts_with(begin) && said.ends_with(end), "{said}");
}

#[test]
fn a_loop_as_it_should_be() {
    accepted(Arch::Sm90a, |k| {
        let given = Given::new(k);
        let n = k.scalar("n", Type::U32);
        let n = k.param(n);
        k.for_range(0, n, 1, |k, _| {
            k.wgmma_fence();
            given.multiply(k);
            given.multiply(k);
            k.wgmma_commit();
            k.wgmma_wait(1);
        });
        k.wgmma_wait(0);
        k.add(Type::F32, given.d[0], 1.0);
    });
}

#[test]
fn fences() {
    said(
        "`mma SM90_64x8x16_F32F16F16_SS` has no `wgmma.fence` before it: ",
        "registers must be handed over first",
        |k| {
            let given = Given::new(k);
            given.multiply(k);
            k.wgmma_commit();
            k.wgmma_wait(0);
        },
    );
    said(
        "`mma SM90_64x8x16_F32F16F16_SS` works on %f2, which was touched after the last `wgmma.fence`: ",
        "put a fence between them",
        |k| {
            let given = Given::new(k);
            k.wgmma_fence();
            k.mov_to(given.d[2], 1.0);
            given.multiply(k);
            k.wgmma_commit();
            k.wgmma_wait(0);
        },
    );
}

#[test]
fn registers_in_flight() {
    let begin = "`add.f32` touches %f1 while the wgmma of gpu/ir/tests/verify/wgmma.rs:";
    let end = " works on it: commit the wgmma and wait for its group first";
    said(begin, end, |k| {
        let given = Given::new(k);
        k.wgmma_fence();
        given.multiply(k);
        k.wgmma_commit();
        k.add(Type::F32, given.d[1], 1.0);
        k.wgmma_wait(0);
    });
    // Two groups are committed, and only the older one is waited for.
    said(begin, end, |k| {
        let given = Given::new(k);
        k.wgmma_fence();
        given.multiply(k);
        k.wgmma_commit();
        given.multiply(k);
        k.wgmma_commit();
        k.wgmma_wait(1);
        k.add(Type::F32, given.d[1], 1.0);
        k.wgmma_wait(0);
    });
    // The next turn of the loop reads what the last one left in flight.
    said(begin, end, |k| {
        let given = Given::new(k);
        k.loop_(|k| {
            let n = k.mov(Type::U32, colex_ir::Special::NCtaid(0));
            let p = k.setp(colex_ir::Compare::Eq, Type::U32, n, 1);
            k.break_if(p);
            k.add(Type::F32, given.d[1], 1.0);
            let p = k.setp(colex_ir::Compare::Eq, Type::U32, 0, 0);
            k.if_(p, |k| {
                k.wgmma_fence();
                given.multiply(k);
                k.wgmma_commit();
            });
        });
        k.wgmma_wait(0);
    });
}

#[test]
fn nothing_is_left_behind() {
    said(
        "`wgmma` is never waited for: ",
        "end with `wgmma.commit_group` and `wgmma.wait_group 0`",
        |k| {
            let given = Given::new(k);
            k.wgmma_fence();
            given.multiply(k);
            k.wgmma_commit();
        },
    );
}

#[test]
fn descriptors_are_the_same_in_a_warpgroup() {
    said(
        "`mma SM90_64x8x16_F32F16F16_SS` needs %rd1 to be the same in all threads of a warpgroup: ",
        "broadcast it with a shuffle of lane 0, or compute it from what they share",
        |k| {
            let given = Given::new(k);
            let tid = super::thread(k);
            let wide = k.cvt(Type::U64, Type::U32, tid);
            k.mov_to(given.b, wide);
            k.wgmma_fence();
            given.multiply(k);
            k.wgmma_commit();
            k.wgmma_wait(0);
        },
    );
}

#[test]
fn accumulators_need_no_value_where_the_first_product_replaces_them() {
    accepted(Arch::Sm90a, |k| {
        let (a, b) = (k.mov(Type::U64, 0), k.mov(Type::U64, 0));
        let d = k.regs(RegType::F32, 4);
        k.wgmma_fence();
        k.wgmma(&atom(), &d, &[a], b, ScaleD::Zero);
        k.wgmma_commit();
        k.wgmma_wait(0);
        k.add(Type::F32, d[0], 1.0);
    });
}

/// A forgotten wait is one finding, however many registers the next call touches.
#[test]
fn a_forgotten_wait_is_one_line() {
    let issued = Cell::new(0);
    let kernel = kernel(Arch::Sm90a, |k| {
        let wide = mma("SM90_64x256x16_F32F16F16_SS").expect("it is in the table");
        let d: Vec<Reg> = (0..128).map(|_| k.mov(Type::F32, 0.0)).collect();
        let (a, b) = (k.mov(Type::U64, 0), k.mov(Type::U64, 0));
        k.wgmma_fence();
        issued.set(line!() + 1);
        k.wgmma(&wide, &d, &[a], b, ScaleD::One);
        k.wgmma_commit();
        d.iter().for_each(|d| {
            k.add(Type::F32, *d, 1.0);
        });
        k.wgmma_wait(0);
    });
    assert_eq!(
        sentences(&kernel),
        [format!(
            "`add.f32` touches %f0 to %f127 (128 registers) while the wgmma of gpu/ir/tests/verify/wgmma.rs:{}:11 works on \
             them: commit the wgmma and wait for its group first",
            issued.get()
        )]
    );
}
