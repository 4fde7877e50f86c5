//! What has no value, no place or no room is refused when the kernel is finished, word for word, at the author's line.

use colex_atom::{Arch, Ty};
use colex_ir::{Reg, RegType, Special};
use colex_layout::ComposedLayout;
use colex_tensor::{AtThread, Builder, Fragment, Index, Tensor};
use colex_tiled::TiledCopy;

/// What `finish` says of a kernel that `body` writes.
#[track_caller]
fn said(body: impl FnOnce(&mut Builder)) -> String {
    let mut k = Builder::new("k", Arch::Sm90a, 128);
    body(&mut k);
    let error = k.finish().expect_err("it is refused");
    assert_eq!(error.at().file(), file!(), "the author's file is named");
    error.what()
}

#[track_caller]
fn value(index: impl FnOnce(Index) -> Index) -> String {
    said(|k| {
        let t = k.thread();
        let index = index(t);
        let _ = k.value(&index);
    })
}

#[test]
fn a_divisor_is_at_least_one() {
    let says = |low: i64, high: i64| {
        format!("the divisor lies from {low} to {high}, and a divisor is above 0")
    };
    assert_eq!(value(|t| t / 0), format!("r0 / 0: {}", says(0, 0)));
    assert_eq!(value(|t| t % -3), format!("r0 % -3: {}", says(-3, -3)));
    assert_eq!(
        value(|t| Index::from(7) / (t - 1)),
        format!("7 / (r0 - 1): {}", says(-1, 126))
    );
    assert_eq!(
        value(|t| t / 0 * 8 % 4 + 1),
        format!("r0 / 0: {}", says(0, 0))
    );
}

#[test]
fn numbers_of_64_bits() {
    assert_eq!(
        value(|t| t * i64::MAX * 2),
        "(r0 * 9223372036854775807) * 2 + 0: a factor or a constant of it does not fit 64 bits"
    );
    assert_eq!(
        value(|t| -(t + i64::MIN)),
        "(r0 - 9223372036854775808) * -1 + 0: a factor or a constant of it does not fit 64 bits"
    );
    assert_eq!(
        value(|t| t % 8 * (1i64 << 40) * (1i64 << 30)),
        "((r0 & 7) << 40) * 1073741824 + 0: a factor or a constant of it does not fit 64 bits"
    );
    assert_eq!(
        value(|t| t.xor(&(-1).into())),
        "r0 ^ -1: neither may be negative"
    );
}

#[test]
fn ranges_that_nothing_lies_in() {
    assert_eq!(
        said(|k| {
            let t = k.thread();
            let index = k.within(t, 500..600);
            let _ = k.value(&index);
        }),
        "r0 lies from 0 to 127, and never in 500..600"
    );
    assert_eq!(
        said(|k| {
            k.var(9, 0..4);
        }),
        "9 lies from 9 to 9, and never in 0..4"
    );
    assert_eq!(
        said(|k| {
            let v = k.var(1, 0..4);
            k.set(&v, 11);
        }),
        "11 lies from 11 to 11, and never in 0..4"
    );
    assert_eq!(
        said(|k| {
            k.var(4, 4..4);
        }),
        "var: no integer lies in 4..4"
    );
    let reg = Reg {
        index: 0,
        ty: RegType::B32,
    };
    assert_eq!(
        said(|k| {
            k.index_with(reg, 0..8, 3);
        }),
        "index_with: a multiple of 3, which is no power of two"
    );
    assert_eq!(
        said(|k| {
            k.cluster_rank(0);
        }),
        "special: no integer lies in 0..0"
    );
    assert_eq!(
        said(|k| {
            k.uniform(48);
        }),
        "uniform: 48 threads are no whole warps: a multiple of 32 shares a number"
    );
}

#[test]
fn loops_go_up_in_32_bits() {
    let looped = |end: i64, step: i64| said(|k| k.for_(0, end, step, |_, _| ()));
    assert_eq!(
        looped(8, 0),
        "for_: the step 0 lies from 0 to 0: a loop goes up"
    );
    assert_eq!(
        looped(8, -1),
        "for_: the step -1 lies from -1 to -1: a loop goes up"
    );
    assert_eq!(
        looped(1 << 40, 1),
        "1099511627776 lies from 1099511627776 to 1099511627776, and a register of 32 bits does not hold that"
    );
}

#[test]
fn shared_memory_ends() {
    assert_eq!(
        said(|k| {
            k.shared_bytes(200 << 10, 128);
            k.shared_bytes(64 << 10, 128);
        }),
        "shared memory: 65536 bytes after 204800 others, and a block of sm_90a has 232448"
    );
    assert_eq!(
        said(|k| {
            k.shared_bytes(64, 100);
        }),
        "shared_bytes: an alignment of 100 bytes; powers of two up to 65536 are"
    );
    assert_eq!(
        said(|k| {
            k.barriers(-1);
        }),
        "barriers: -1 barriers; there are from 1 to 536870911"
    );
    assert_eq!(
        said(|k| {
            let ring = k.barriers(2);
            k.arrive(&ring.at(2));
        }),
        "at: the barrier's place 2 lies from 2 to 2, and there are places 0 to 1 (`within` says what no rule finds)"
    );
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let (thread, ring) = (k.thread(), k.barriers(3));
    k.arrive(&ring.at(&thread));
    assert_eq!(
        k.finish().expect_err("three places").what(),
        "at: the barrier's place r0 lies from 0 to 31, and there are places 0 to 2 (`within` says what no rule finds)"
    );
    let shared = |ty: Ty, text: &str| {
        let composed: ComposedLayout = text.parse().expect("a literal");
        said(|k| {
            k.shared_tensor(ty, composed);
        })
    };
    assert_eq!(
        shared(Ty::F32, "(65536,65536):(65536,1)"),
        "shared_tensor: (65536,65536):(65536,1) of f32 takes 4 GiB and more"
    );
    assert_eq!(
        shared(Ty::U4, "(32,32):(32,1)"),
        "shared_tensor: u4 is no whole number of bytes; u8 holds several"
    );
    assert_eq!(
        shared(Ty::F32, "8:-1"),
        "shared_tensor: 8:-1 has offsets below 0"
    );
}

/// A swizzle into higher bits than it reads leaves the layout's own extent.
#[test]
fn a_swizzle_upwards_has_room() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let up: ComposedLayout = "Sw<1,0,-4> o 0 o 16:1".parse().expect("a literal");
    k.shared_tensor(Ty::F32, up);
    let built = k.finish().expect("a kernel");
    assert_eq!(built.dynamic_shared(), 32 * 4);
}

#[test]
fn places_that_a_tensor_does_not_have() {
    let scene = |k: &mut Builder| {
        let a = k.tensor("a", Ty::F32, "(8,8):(8,_1)");
        (a, k.shared_tensor(Ty::F32, "(8,8,3):(8,1,64)"))
    };
    let refused = |call: fn(Tensor, Tensor)| {
        said(|k| {
            let (a, ring) = scene(k);
            call(a, ring);
        })
    };
    assert_eq!(
        refused(|a, _| drop(a.local_tile((4, 4), (-3, 0)))),
        "local_tile: the tile's number along mode 0 of a is -3, and lies from 0 to 536854528"
    );
    assert_eq!(
        refused(|_, ring| drop(ring.at(2, 3))),
        "at: the place 3 of the mode _3:_64, whose places are 0 to 2"
    );
    assert_eq!(
        refused(|_, ring| drop(ring.slice((.., 0, 3)))),
        "slice: the place 3 of the mode _3:_64, whose places are 0 to 2"
    );
    assert_eq!(
        refused(|_, ring| drop(ring.local_tile((4, 4), (2, 0, 0)))),
        "local_tile: the place 2 of the mode _2:_32, whose places are 0 to 1"
    );
    assert_eq!(
        refused(|_, ring| drop(ring.offset_by((1, 0, 0)))),
        "offset_by: a tensor in shared memory has no coordinates: take a `local_tile` of it"
    );
    assert_eq!(
        refused(|a, _| drop(a.offset_by(1))),
        "offset_by: 1 numbers for a of 2 modes"
    );
    let mut k = Builder::new("k", Arch::Sm80, 128);
    let (a, ring) = scene(&mut k);
    assert_eq!(
        (a.extent(2).to_string(), ring.extent(3).to_string()),
        ("1".into(), "1".into())
    );
    k.finish().expect("nothing is refused");
}

#[test]
fn fragments_have_registers() {
    assert_eq!(
        said(|k| drop(k.fragment(Ty::F32, "_80000:_1"))),
        "fragment: _80000:_1 of f32 takes 80000 registers; a thread has 255, and a fragment 1024 at most"
    );
    assert_eq!(
        said(|k| {
            let eight = k.fragment(Ty::F32, "_8:_1");
            eight.with_layout("_16:_1").gathered(0, 16);
        }),
        "registers: element 8 of _16:_1 has offset 8, and there are 8 registers of 1"
    );
    assert_eq!(
        said(|k| {
            let (eight, stage) = (k.fragment(Ty::F32, "(_2,_4):(_1,_2)"), k.thread());
            eight.slice((.., &stage));
        }),
        "slice: the place r0 is known when the kernel runs, and registers have no addresses: take a constant"
    );
    assert_eq!(
        said(|k| drop(k.fragment(Ty::F32, "_4:_1").as_type(Ty::S32))),
        "as_type: f32 and s32 live in registers of different classes"
    );
    assert_eq!(
        said(|k| drop(k.fragment(Ty::F32, "(_2,_2):(_2,_1)").values(0, 2))),
        "values: values 0 and 1 further of (_2,_2):(_2,_1) are not 1 apart"
    );
    let pairs = |take: fn(Fragment) -> Fragment| {
        said(move |k| {
            let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
            let copy = TiledCopy::new(atom, 16, "(64,2):(2,1)", "(1,2):(0,1)");
            let copy = copy.expect("a tiled copy");
            let tile = k.shared_tensor(Ty::F16, "(64,4):(4,1)");
            let mine = copy.at(&k.thread()).partition_src(&tile); // (CPY, CPY_M, CPY_N)
            let four = k.fragment(Ty::F16, "_4:_1");
            k.copy(&copy, &mine, &take(four));
        })
    };
    assert_eq!(
        pairs(|four| four.values(1, 2)),
        "registers: element 0 of _2:_1 is part 1 of %r2, and the instruction takes 2 neighbours in order"
    );
    assert_eq!(
        pairs(|four| four.with_layout("_2:_3")),
        "registers: elements 0 and 1 of _2:_3 lie in two registers"
    );
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(8,16):(16,1)", "(1,1):(0,0)");
    let copy = copy.expect("a tiled copy");
    assert_eq!(
        said(|k| {
            let eight = k.fragment(Ty::F32, "_8:_1");
            let halves = k.fragment(Ty::F16, "_8:_1");
            k.copy(&copy, &eight, &halves);
        }),
        "copy: elements of 32 bits into elements of 16, by a tiled copy of 32: all three are the same (`convert` makes other \
         elements)"
    );
}

/// `clear` and `assign` touch what the layout names, and nothing beside it.
#[test]
fn a_slice_is_not_the_whole() {
    let mut k = Builder::new("k", Arch::Sm80, 128);
    let all = k.fragment(Ty::F32, "_8:_1");
    let two = all.values(2, 2);
    k.clear(&two);
    k.assign(&two, 2.0 * &two);
    let body = k.finish().expect("a kernel").kernel.to_string();
    let written = |reg: &str| {
        body.matches(&format!("{reg} ")).count() + body.matches(&format!("{reg},")).count()
    };
    for i in [0, 1, 4, 5, 6, 7] {
        assert_eq!(written(&format!("%f{i}")), 0, "{body}");
    }
    assert!(written("%f2") > 0 && written("%f3") > 0, "{body}");
}

/// Specials have three axes, also in the verifier.
#[test]
fn there_are_three_axes() {
    let mut k = Builder::new("k", Arch::Sm90a, 128);
    let _ = k.special(Special::Ctaid(5), 0..10);
    let kernel = k.finish().expect("a kernel").kernel;
    let said = kernel.verify().expect_err("it is refused").to_string();
    let sentence = "`mov` reads %ctaid.5, and there are the axes 0 (x), 1 (y) and 2 (z)";
    assert!(said.contains(sentence), "{said}");
}

/// The coordinates of a whole tensor are refused at once, and after a failure nothing is walked: a part that was not cut may be a
/// whole tensor.
#[test]
fn coordinates_are_those_of_a_part() {
    let of = |k: &mut Builder| {
        let whole = k.tensor("whole", Ty::F32, "(1048576,1048576):(1048576,1)");
        let held = k.fragment(Ty::S32, "_1:_0");
        k.assign(&held, colex_tensor::Expr::coordinate(&whole, 1));
    };
    let found = said(of);
    let wanted = "a tensor of 1099511627776 elements, of which a thread holds 32768 at most: partition it first";
    assert!(found.ends_with(wanted), "{found}");
    let first = said(|k| {
        k.fragment(Ty::F32, "no layout");
        of(k);
    });
    assert!(!first.contains("1099511627776"), "{first}");
}

/// A loop's counter is a number of 32 bits, the one behind the last too.
#[test]
fn counters_have_32_bits() {
    let looped = |start: i64, end: i64, step: i64| said(|k| k.for_(start, end, step, |_, _| ()));
    assert_eq!(
        looped(0, (1 << 32) - 1, 1 << 20),
        "for_: the counter reaches 4294967296 behind the end 4294967295, and is a number of 32 bits up to 4294967295"
    );
    assert_eq!(
        looped(-2, i64::from(i32::MAX), 2),
        "for_: the counter reaches 2147483648 behind the end 2147483647, and is a number of 32 bits up to 2147483647"
    );
    // Where only the launch knows the ends, it refuses them.
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let [end, step] = ["end", "step"].map(|name| k.index_argument(name, 1..1 << 32));
    let turns = k.var(0, 0..100);
    k.for_(0, &end, &step, |k, _| {
        let now = k.get(&turns);
        k.set(&turns, now + 1);
    });
    k.finish()
        .expect("a kernel")
        .kernel
        .ptx()
        .expect("it is accepted");
    let mut k = Builder::new("k", Arch::Sm80, 32);
    k.for_(-2, i64::from(i32::MAX), 1 << 30, |_, _| ());
    assert!(k.finish().is_err());
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let turns = k.var(0, 0..100);
    k.for_(-1, i64::from(i32::MAX) - (1 << 30) + 1, 1 << 30, |k, _| {
        let now = k.get(&turns);
        k.set(&turns, now + 1);
    });
    let now = k.get(&turns);
    assert_eq!(
        colex_proof::examples::values(k, &now).expect("a kernel")[0],
        2
    );
}

/// A register of 32 bits with a range that needs 64 is read as it is.
#[test]
fn a_narrow_register_of_a_wide_range() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let number = k.emit(|ir| ir.mov(colex_ir::Type::U32, 4_000_000_000_i64));
    let number = k.index_of(number, 0..1 << 40);
    let found = k.wide_value(&number);
    let found = k.index_of(found, 0..1 << 40) / 1_000_000;
    let found = k.within(found, 0..1 << 20);
    assert_eq!(
        colex_proof::examples::values(k, &found).expect("a kernel")[0],
        4000
    );
}

/// An integer that leaves the body in which it was read is the same number where it still is one.
#[test]
fn integers_leave_their_bodies() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let (v, lane) = (k.var(3, 0..4), k.lane());
    let is_low = k.less(&lane, &5.into());
    let mut kept = None;
    k.if_(is_low, |k| kept = Some(k.get(&v)));
    let kept = kept.expect("the body ran") * 2 + &lane;
    assert_eq!(
        colex_proof::examples::values(k, &kept).expect("a kernel")[..2],
        [6, 7]
    );
    assert_eq!(
        said(|k| {
            let mut kept = None;
            k.for_(0, 4, 1, |_, i| kept = Some(i.clone()));
            let _ = k.value(&(kept.expect("the body ran") + 1));
        }),
        "the variable in %r0 is written between where its value is read and where it is used; read it again"
    );
}

/// Of numbers that may be negative there is no exclusive or, in a swizzle neither.
#[test]
fn no_exclusive_or_of_negative_numbers() {
    assert_eq!(
        value(|t| (&t - 5).xor(&t)),
        "r0 - 5 ^ r0: neither may be negative"
    );
    assert_eq!(
        value(|t| t.xor(&(&t - 5))),
        "r0 ^ r0 - 5: neither may be negative"
    );
    let swizzle = colex_layout::Swizzle::new(2, 0, 3).expect("a swizzle");
    let said = value(|t| colex_tensor::swizzled(swizzle, &-t));
    assert!(said.ends_with(": neither may be negative"), "{said}");
}

/// One register that is read as a number with a sign and as one without is two numbers.
#[test]
fn a_sign_makes_another_number() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let reg = k.emit(|ir| ir.mov(colex_ir::Type::U32, 5));
    let (signed, unsigned) = (k.index_of(reg, -8..8), k.index_of(reg, 0..1 << 32));
    assert!(signed != unsigned);
    assert_eq!((&signed - &unsigned).as_constant(), None);
    assert_eq!((&signed - k.index_of(reg, -6..6)).as_constant(), Some(0));
}

/// No register holds an element of more than 64 bits.
#[test]
fn complex_elements_of_128_bits() {
    assert_eq!(
        said(|k| {
            k.fragment(Ty::C64, "_4:_1");
        }),
        "fragment: elements of c64 have 128 bits, and a register has at most 64: a fragment of their real and imaginary parts \
         has them one by one"
    );
}
