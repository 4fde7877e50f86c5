//! What is refused, word for word, and at which line.

use colex_atom::{Arch, Ty};
use colex_layout::{ComposedLayout, Layout};
use colex_tensor::{AtThread, Builder, Tensor};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use crate::refused;

fn layout(text: &str) -> Layout {
    text.parse().expect("a literal")
}

fn tiled(bits: i64) -> TiledCopy {
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>")).expect("a width");
    let values = layout(&format!("(1,{}):(0,1)", bits / 32));
    TiledCopy::new(atom, 32, "(8,4):(4,1)", &values).expect("a tiled copy")
}

fn kernel() -> Builder {
    Builder::new("k", Arch::Sm80, 64)
}

fn parameter(k: &mut Builder) -> Tensor {
    k.tensor("a", Ty::F32, "(100,100):(100,_1)")
}

#[test]
fn a_parameter_is_cut_into_tiles_first() {
    let copy = tiled(32);
    assert_eq!(
        refused(kernel(), parameter, |k, a| {
            let tid = k.thread() % 32;
            copy.at(&tid).partition_src(&a);
        }),
        "partition of (100,100):(_1@0,_1@1): a dynamic leaf has a value at launch only; cut a tile of static extents out of \
         it with `local_tile`, and go on with that"
    );
    assert_eq!(
        refused(kernel(), parameter, |_, a| {
            a.local_tile((32, 32), 0);
        }),
        "local_tile: 1 coordinates and a tile of 2 modes for a of 2 modes"
    );
}

#[test]
fn another_layout_is_of_the_same_memory() {
    let other = |text: &str| {
        refused(
            kernel(),
            |k| k.shared_tensor(Ty::F32, "(8,4):(4,1)"),
            |_, tile| drop(tile.with_layout(text)),
        )
    };
    assert_eq!(
        other("(8,5):(1,8)"),
        "with_layout: (8,5):(1,8) reaches to element 40, and the tensor has 32"
    );
    assert_eq!(
        other("(8,4):(-1,8)"),
        "with_layout: (8,4):(-1,8) has offsets below 0"
    );
    let whole =
        "with_layout: the tensor is not a whole one in shared memory: only that has another layout";
    assert_eq!(
        refused(kernel(), parameter, |_, a| drop(
            a.with_layout("(2,2):(2,1)")
        )),
        whole
    );
    assert_eq!(
        refused(
            kernel(),
            |k| k.shared_tensor(Ty::F32, "(8,4):(4,1)"),
            |k, tile| {
                let tid = k.thread() % 4;
                drop(tile.at(1, &tid).with_layout("8:1"));
            },
        ),
        whole
    );
    let swizzle = colex_layout::Swizzle::new(3, 4, 3).expect("a swizzle");
    let swizzled = ComposedLayout::new(swizzle, 0, layout("(32,32):(32,1)")).expect("a layout");
    assert_eq!(
        refused(
            kernel(),
            |k| k.shared_tensor(Ty::F32, "(32,32):(32,1)"),
            |_, tile| drop(tile.with_layout(&swizzled)),
        ),
        "with_layout: the swizzle of Sw<3,4,3> o 0 o (32,32):(32,1) repeats every 4096 bytes, and the tensor begins at a multiple \
         of 1024"
    );
}

#[test]
fn a_thread_beyond_the_last() {
    let copy = tiled(32);
    assert_eq!(
        refused(kernel(), parameter, |k, a| {
            let tile = a.local_tile((32, 32), (0, 0));
            copy.at(&k.thread()).partition_src(&tile);
        }),
        "partition: the thread index lies from 0 to 63, and there are 32 threads"
    );
}

#[test]
fn values_of_a_vector_are_neighbours_and_aligned() {
    let copy = tiled(128);
    let from = |text: &str| {
        refused(
            kernel(),
            |k| k.shared_tensor(Ty::F32, text),
            |k, tile| {
                let tid = k.thread() % 32;
                let part = copy.at(&tid).partition_src(&tile);
                let regs = k.fragment_like(&part);
                k.copy(&copy, &part, &regs);
            },
        )
    };
    assert_eq!(
        from("(8,16):(1,8)"),
        "copy: an instruction moves 4 neighbours, and element 1 of ((_4,_1),_1,_1):((_8,_0),_0,_0) lies 32 bytes after \
         the first"
    );
    let sentence = from("(8,16):(17,1)");
    assert!(
        sentence.starts_with(
            "copy: an instruction moves 16 bytes from a multiple of them, and ((_4,_1),_1,_1)"
        ),
        "{sentence}"
    );
}

#[test]
fn ends_that_the_atom_does_not_connect() {
    let atom = colex_atom::copy("SM75_U32x4_LDSM_N").expect("an atom");
    let copy = TiledCopy::new(atom, 16, "(8,4):(4,1)", "(1,8):(0,1)").expect("a tiled copy");
    let registers = |k: &mut Builder| (parameter(k), k.fragment(Ty::F16, "_8:_1"));
    assert_eq!(
        refused(kernel(), registers, |k, (a, regs)| {
            let tid = k.thread() % 32;
            let part = copy.at(&tid).partition_src(&a.local_tile((8, 32), (0, 0)));
            k.copy(&copy, &part, &regs);
        }),
        "copy: SM75_U32x4_LDSM_N goes from shared memory to registers, and the copy from global memory to registers"
    );
    for inside in [false, true] {
        assert_eq!(
            refused(kernel(), registers, |k, (_, regs)| {
                let tid = k.thread() % 32;
                let shared: ComposedLayout =
                    "Sw<2,3,3> o 0 o (16,32):(32,1)".parse().expect("a literal");
                let shared = k.shared_tensor(Ty::F16, shared);
                let part = copy.at(&tid).partition_src(&shared);
                if inside {
                    k.copy_in_bounds(&copy, &part, &regs);
                } else {
                    k.copy(&copy, &part, &regs);
                }
            }),
            "copy: SM75_U32x4_LDSM_N takes 2 instructions from (((_2,_4),_1),_2,_1):(((_1,_8),_0),_256,_0) and 1 into _8:_1"
        );
    }
}

/// A register of four bytes is filled byte by byte or at once.
#[test]
fn two_bytes_have_no_place_of_their_own_in_a_register() {
    let atom = colex_atom::copy("UniversalCopy<uint16_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 8, "(8,4):(4,1)", "(1,2):(0,1)").expect("a tiled copy");
    let scene = |k: &mut Builder| {
        let bytes = k.tensor("bytes", Ty::S8, "(64,64):(64,_1)");
        let tile = bytes.local_tile((8, 16), (0, 0));
        let part = copy.at(&k.thread()).partition_src(&tile);
        let regs = k.fragment_like(&part);
        (part, regs)
    };
    let k = || Builder::new("k", Arch::Sm80, 32);
    let sentence = "copy: 2 elements of s8 do not fill a register: one goes at a time, or 4";
    let load = refused(k(), scene, |k, (part, regs)| k.copy(&copy, &part, &regs));
    let store = refused(k(), scene, |k, (part, regs)| k.copy(&copy, &regs, &part));
    assert_eq!([&load[..], &store[..]], [sentence; 2]);
}

/// A value read before a variable changes is not the variable's value afterwards.
#[test]
fn a_stale_value_is_refused_at_the_line_that_uses_it() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let stage = k.var(0, 0..4);
    let before = k.get(&stage);
    k.set(&stage, 1);
    let line = line!() + 1;
    let _ = k.value(&(before + 1));
    let error = k.finish().expect_err("it is refused");
    assert_eq!((error.at().file(), error.at().line()), (file!(), line));
    assert_eq!(
        error.what(),
        "the variable in %r0 is written between where its value is read and where it is used; read it again"
    );
}

/// The same where the write comes later in the text, but earlier in the next round of a loop.
#[test]
fn a_value_from_before_a_loop_that_changes_it() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let stage = k.var(0, 0..4);
    let before = k.get(&stage);
    k.for_(0, 8, 1, |k, _| {
        let _ = k.value(&(&before + 1));
        k.set(&stage, 2);
    });
    assert!(
        k.finish().is_err(),
        "the second round would use the first value"
    );
}

#[test]
fn a_number_too_large_for_its_register() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let block = k.block_index(0);
    let _ = k.value(&(block * 4096));
    let error = k.finish().expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        format!(
            "{}:{}:15: r0 * 4096 lies from 0 to 8796093014016, and a register of 32 bits does not hold that",
            file!(),
            error.at().line()
        )
    );
}

/// Rows whose stride is no multiple of a vector: of a static stride it is known here, no launch is asked.
#[test]
fn vectors_of_rows_at_odd_strides() {
    let copy = tiled(128);
    assert_eq!(
        refused(
            Builder::new("k", Arch::Sm80, 32),
            |k| k.tensor("a", Ty::F32, "(100,100):(_65,_1)"),
            |k, a| {
                let tid = k.thread();
                let part = copy.at(&tid).partition_src(&a.local_tile((8, 16), (0, 0)));
                let regs = k.fragment_like(&part);
                k.copy_in_bounds(&copy, &part, &regs);
            }
        ),
        "copy: an instruction moves 4 elements from a multiple of them, and in mode 0 of a it starts at r2 >> 2 times 65"
    );
}

/// A vector that is inside whole is loaded, for every extent beyond it.
#[test]
fn a_vector_before_the_last_is_inside() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let a = k.tensor("a", Ty::F32, "(_64,_6):(_8,_1)");
    let atom = colex_atom::copy("UniversalCopy<uint128_t>").expect("a width");
    let copy = TiledCopy::new(atom, 32, "(32,1):(1,0)", "(1,4):(0,1)").expect("a tiled copy");
    let tid = k.thread();
    let tile = a.local_tile((32, 4), (0, 0));
    let part = copy.at(&tid).partition_src(&tile);
    let regs = k.fragment_like(&part);
    k.copy_in_bounds(&copy, &part, &regs);
    let text = k.finish().expect("a kernel").kernel.ptx().expect("a text");
    assert_eq!(text.matches("ld.global.v4.f32").count(), 1);
    assert!(!text.contains("setp"), "nothing is asked");
}

#[test]
fn a_ring_of_a_schedule_that_cannot_be() {
    let schedule = colex_sched::pipeline::WarpSpecialized::cooperative(1, 1, 2);
    assert_eq!(
        refused(
            Builder::new("k", Arch::Sm90a, 384),
            |_| (),
            |k, ()| {
                k.pipeline_of(&schedule);
            }
        ),
        "the number of stages for the multiplies in flight is 1: it must be at least 2"
    );
}

/// What `wgmma` reads from shared memory has no registers.
#[test]
fn an_operand_in_shared_memory_has_no_fragment() {
    for operand in [Operand::A, Operand::B] {
        let mut k = Builder::new("k", Arch::Sm90a, 128);
        let atom = colex_atom::mma("SM90_64x64x16_F32F16F16_SS").expect("an atom");
        let mma = TiledMma::new(atom, "(1,1,1):(0,0,0)", "(_,_,_)").expect("a tiled MMA");
        k.fragment_of(&mma, operand, (64, 64));
        let why = format!(
            "fragment_of: SM90_64x64x16_F32F16F16_SS reads {operand:?} from shared memory, and no register \
             holds it: `gmma_operand` makes its descriptors"
        );
        let found = k.finish().map(|_| ()).expect_err("it is refused").what();
        assert_eq!(found, why);
    }
}
