//! Operands of the calls that do not move tiles: rows, named barriers, numbers, reductions.

use crate::refused;
use colex_atom::{Arch, Major, Reduction, SmemSwizzle, Ty, gmma_smem_atom};
use colex_gpu::Device;
use colex_ir::launch::Launch;
use colex_ir::{BinaryOp, Cache, RegType};
use colex_layout::{IntTuple, Layout, LayoutLeft};
use colex_tensor::{Arg, AtThread, Builder, Cond, Error, Expr, Hints, RawMemory, Rows};
use colex_tiled::{TiledCopy, TiledMma};

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.expect_err("it is refused");
    assert_eq!(error.at().file(), file!(), "the author's file is named");
    error.what()
}

fn mma(atoms: &str, tile: &str) -> TiledMma {
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN").expect("an atom");
    TiledMma::new(atom, atoms, tile).expect("a tiled MMA")
}

/// What `finish` says of a kernel with one call.
fn finished(call: impl FnOnce(&mut Builder)) -> String {
    refused(Builder::new("k", Arch::Sm90a, 128), |_| (), |k, ()| call(k))
}

/// Lanes bring together the parts of the rows that the numbers were made for, and nothing else.
#[test]
fn lanes_bring_together_the_rows_that_the_numbers_were_made_for() {
    // 16 rows of each warp, in turn or one after the other: as many numbers, by as many lanes.
    let mma_near = mma("(2,1,1):(1,0,0)", "(64,8,16)");
    let near = Rows::new(&mma_near, [64, 16]).expect("rows");
    let apart = mma("(2,1,1):(1,0,0)", "((16,2,2):(1,32,16),8,16)");
    let apart = Rows::new(&apart, [64, 16]).expect("rows");
    assert_eq!((near.count(), near.lanes()), (apart.count(), apart.lanes()));
    let begin = || Builder::new("k", Arch::Sm80, 64);
    let scene = |k: &mut Builder| {
        let top = k.row_values(&near, Ty::F32);
        let sums = k.accumulators(&mma_near, (64, 16));
        k.fill(&top, 0.0);
        let all = near.broadcast_rows(&top);
        for d in [&top, &all] {
            k.reduce_rows(BinaryOp::Max, &near, d);
        }
        (top, sums)
    };
    let mut k = begin();
    scene(&mut k);
    k.finish().expect("its rows");
    let other = "the numbers were made for other rows: a thread has them in the places of the rows that `row_values` was given";
    assert_eq!(
        refused(begin(), scene, |k, (top, _)| k.reduce_rows(
            BinaryOp::Max,
            &apart,
            &top
        )),
        format!("reduce_rows: {other}")
    );
    assert_eq!(
        refused(begin(), scene, |_, (top, _)| drop(
            apart.broadcast_rows(&top)
        )),
        format!("broadcast_rows: {other}")
    );
    assert_eq!(
        refused(begin(), scene, |k, (_, sums)| k.reduce_rows(
            BinaryOp::Max,
            &near,
            &sums
        )),
        "reduce_rows: 16 elements of ((_2,_2),_2,_2):((_1,_2),_4,_8), which are no numbers of rows: those of `row_values` are"
    );
    assert_eq!(
        refused(begin(), scene, |k, (top, _)| {
            k.reduce_rows(BinaryOp::Max, &near, &top.values(0, 1));
        }),
        "reduce_rows: 1 elements of _1:_0, which are no numbers of rows: those of `row_values` are"
    );
}

/// A block has 16 named barriers, at which whole warps of it arrive.
#[test]
fn named_barriers_are_those_of_a_block() {
    let number = |low: i64, high: i64| {
        move |k: &mut Builder| {
            let tid = k.thread();
            k.sync_named(&(tid % (high - low) + low), 128);
        }
    };
    assert_eq!(
        finished(number(1, 17)),
        "sync_named: the barrier's number (r0 & 15) + 1 lies from 1 to 16, and a block has numbers 0 to 15 (`within` says what \
         no rule finds)"
    );
    assert_eq!(
        finished(number(-1, 3)),
        "sync_named: the barrier's number (r0 & 3) - 1 lies from -1 to 2, and a block has numbers 0 to 15 (`within` says what \
         no rule finds)"
    );
    for threads in [0, 31, 160] {
        assert_eq!(
            finished(|k| k.arrive_named(&1.into(), threads)),
            format!("arrive_named: {threads} threads of a block of 128: whole warps of it arrive")
        );
    }
    let mut k = Builder::new("k", Arch::Sm90a, 128);
    for threads in [32, 128] {
        k.sync_named(&15.into(), threads);
    }
    k.finish().expect("both are");
}

/// Integers are filled with integers, and floats with what is near.
#[test]
fn a_fragment_is_filled_with_numbers_of_its_type() {
    let fill = |ty, value| {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let f = k.fragment(ty, "_2:_1");
        k.fill(&f, value);
        k.finish().map(|_| ())
    };
    for (value, why) in [
        (0.5, "0.5"),
        (2147483648.0, "2147483648"),
        (f64::NAN, "NaN"),
    ] {
        assert_eq!(said(fill(Ty::S32, value)), format!("fill: {why} is no s32"));
    }
    for value in [0.0, -1.0, -2147483648.0, 2147483647.0] {
        fill(Ty::S32, value).expect("an integer of 32 bits");
    }
    for value in [0.1, f64::NAN, f64::INFINITY, 1e300] {
        fill(Ty::F32, value).expect("near");
    }
    assert_eq!(
        finished(|k| {
            let f = k.fragment(Ty::S32, "_2:_1");
            k.mask(&f, 1.5, |_, _| Cond::Known(false));
        }),
        "mask: 1.5 is no s32"
    );
}

/// A reduction that the elements of a map do not have ends a kernel in an illegal instruction.
#[test]
fn a_map_is_reduced_as_its_elements_can_be() {
    let atom = gmma_smem_atom(Major::K, SmemSwizzle::B32, 16).expect("16 bits");
    let atom = atom.position_independent().expect("a swizzle of addresses");
    let shape = IntTuple::flat([16i64, 16].map(Into::into));
    let own = atom.tile_to_shape(&shape, LayoutLeft).expect("it divides");
    let reduce = |k: &mut Builder, reduction| {
        let like = "(96,96):(96,_1)";
        let map = k.tma_tensor("to", Ty::Bf16, like, [16, 16], &own, 1);
        let here = k.shared_tensor(Ty::Bf16, own.clone());
        k.tma_reduce(&map, reduction, (0, 0), &here);
    };
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    reduce(&mut k, Reduction::Add);
    k.finish().expect("sums");
    assert_eq!(
        finished(|k| reduce(k, Reduction::Xor)),
        "tma_reduce: to: Xor of elements of Bf16, for which there is no reduction"
    );
}

/// What an instruction cannot take of registers and constants is refused with the kernel at the latest.
#[test]
fn the_verifier_knows_the_operands_of_registers() {
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom"),
        32,
        parsed::<Layout>("(4,8):(8,1)"),
        parsed::<Layout>("(1,1):(0,0)"),
    );
    let copy = copy.expect("a tiled copy");
    let filled = |k: &mut Builder, ty: Ty| {
        let f = k.fragment(ty, "_2:_1");
        k.fill(&f, 1.0);
        f
    };
    let register = |k: &mut Builder, class: RegType| {
        k.emit(|k| {
            let reg = k.reg(class);
            k.mov_to(reg, 1.0);
            reg
        })
    };
    type Call<'a> = &'a dyn Fn(&mut Builder);
    let calls: [(&str, Call<'_>); 6] = [
        ("ex2 of f64", &|k| {
            let f = filled(k, Ty::F64);
            k.assign(&f, Expr::from(&f).exp2());
        }),
        ("a fraction in s32", &|k| {
            let f = filled(k, Ty::S32);
            k.assign(&f, &f + 1.5);
        }),
        ("a register of another class", &|k| {
            let (f, other) = (filled(k, Ty::F32), register(k, RegType::F64));
            k.assign(&f, &f + other);
        }),
        ("a float as an integer", &|k| {
            let reg = register(k, RegType::F32);
            let (i, tid) = (k.index_of(reg, 0..4), k.thread());
            let less = k.less(&i, &tid);
            k.if_(less, Builder::sync);
        }),
        ("a policy of 32 bits", &|k| {
            let a = k.tensor("a", Ty::F32, "(_4,_8):(_8,_1)");
            let part = copy
                .at(&k.thread())
                .partition_src(&a.local_tile((4, 8), (0, 0)));
            let f = k.fragment_like(&part);
            let policy = Some(k.emit(|k| k.mov(colex_ir::Type::B32, 0)));
            let cache = Cache::Default;
            k.copy(Hints { cache, policy }.on(&copy), &part, &f);
        }),
        ("a factor of another class", &|k| {
            let (f, alpha) = (filled(k, Ty::F32), register(k, RegType::F64));
            k.assign(&f, alpha * &f);
        }),
    ];
    for (what, call) in calls {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        call(&mut k);
        let is_refused = k.finish().map_or(true, |built| built.kernel.ptx().is_err());
        assert!(is_refused, "{what} is taken");
    }
}

/// One element at a time, in every order of the registers; the other half of a register stays what it was.
#[test]
fn halves_of_registers_are_loaded_in_any_order() {
    let whole: Layout = parsed("(_4,_32):(_32,_1)");
    let atom = colex_atom::copy("UniversalCopy<uint16_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 16, "(1,32):(0,1)", "(4,1):(1,0)");
    let copy = copy.expect("a tiled copy");
    for form in 0..3 {
        let build = || -> Result<colex_tensor::TensorKernel, Error> {
            let mut k = Builder::new("k", Arch::Sm80, 32);
            let (from, to) = (
                k.tensor("from", Ty::F16, &whole),
                k.tensor("to", Ty::F16, &whole),
            );
            let (tid, at) = (k.thread(), [0.into(), 0.into()]);
            let mine = copy.at(&tid);
            let source = mine.partition_src(&from.local_tile((4, 32), &at));
            let target = mine.partition_dst(&to.local_tile((4, 32), &at));
            let order = [
                "(_4,_1):(_1,_0)",
                "((_2,_2),_1):((_2,_1),_0)",
                "(_4,_1):(_1,_0)",
            ][form];
            let held = k.fragment(Ty::F16, order);
            k.copy(&copy, &source, &held);
            if form == 2 {
                // The second element of each pair again, from the row of the first.
                let one = TiledCopy::new(
                    colex_atom::copy("UniversalCopy<uint16_t>").expect("an atom"),
                    16,
                    parsed::<Layout>("(1,32):(0,1)"),
                    parsed::<Layout>("(1,1):(0,0)"),
                )?;
                let row = from.local_tile((1, 32), &at);
                let row = one.at(&tid).partition_src(&row);
                for i in [1, 3] {
                    k.copy(&one, &row, &held.values(i, 1));
                }
            }
            k.copy(&copy, &held, &target);
            k.finish()
        };
        let built = build().unwrap_or_else(|e| panic!("{e}"));
        let device = Device::simulator(Arch::Sm80);
        let numbers: Vec<half::f16> = (0..128).map(|i| half::f16::from_f32(i as f32)).collect();
        let from = device.upload(&numbers).expect("memory");
        let to = device.zeros::<half::f16>(128).expect("memory");
        let given = [Arg::tensor(&from, &whole), Arg::tensor(&to, &whole)];
        let arguments = built.arguments(&given).unwrap_or_else(|e| panic!("{e}"));
        let function = device.load(&built.kernel).unwrap_or_else(|e| panic!("{e}"));
        device
            .launch(&function, Launch::new(1, 32), &arguments)
            .unwrap_or_else(|e| panic!("{e}"));
        let expected = |i: usize| match (form, i / 32) {
            (2, 1 | 3) => numbers[i % 32],
            _ => numbers[i],
        };
        let found = to.download().expect("it is there");
        for (i, x) in found.into_iter().enumerate() {
            assert_eq!(x, expected(i), "form {form}, element {i}");
        }
    }
}

/// A fragment of one half has a register.
#[test]
fn a_fragment_of_half_a_register_has_one() {
    let atom = colex_atom::mma("UniversalFMA<half_t>");
    let volta = colex_atom::mma("SM70_8x8x4_F16F16F16F16_TN").expect("an atom");
    for atom in atom.into_iter().chain([volta]) {
        let mma = TiledMma::new(atom, "(1,1,1):(0,0,0)", "(_,_,_)");
        let mma = mma.expect("a tiled MMA");
        let mut k = Builder::new("k", Arch::Sm70, 32);
        for operand in [
            colex_tiled::Operand::A,
            colex_tiled::Operand::B,
            colex_tiled::Operand::C,
        ] {
            for tile in [[1, 1], [1, 8], [8, 1], [3, 1]] {
                let f = k.fragment_of(&mma, operand, tile);
                let named = f.layout().cosize().expect("a size");
                assert!(
                    f.regs().len() as i64 * f.packed() >= named,
                    "{operand:?} {tile:?}"
                );
            }
        }
    }
}

/// Tiles whose numbers a loop or a warp bounds lie inside of the tensor, or are refused: the next row begins behind a row.
#[test]
fn tiles_with_bounded_numbers_lie_inside() {
    let build = |layout: &str, count: i64| -> Result<colex_tensor::TensorKernel, Error> {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let from = k.tensor("from", Ty::F32, layout);
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
        let copy = TiledCopy::new(
            atom,
            32,
            parsed::<Layout>("(4,8):(8,1)"),
            parsed::<Layout>("(1,1):(0,0)"),
        )?;
        let tid = k.thread();
        k.for_(0, count, 1, |k, step| {
            let tile = from.local_tile((4, 8), (0, step));
            let part = copy.at(&tid).partition_src(&tile);
            let held = k.fragment_like(&part);
            k.copy(&copy, &part, &held);
        });
        k.finish()
    };
    build("(_4,_24):(_24,_1)", 3).expect("three tiles");
    let why = said(build("(_4,_24):(_24,_1)", 4));
    assert!(
        why.starts_with("copy: a tile of 8 along mode 1 of from, whose extent is 24, begins at ")
            && why.ends_with(
                " and need not lie inside: `copy_in_bounds` asks, or `stated_inside` where a branch has asked"
            ),
        "{why}"
    );
    let built = build("(4,24):(24,_1)", 4).unwrap_or_else(|e| panic!("{e}"));
    let given = |layout: &str| {
        let memory = RawMemory {
            address: 0,
            bytes: 1 << 20,
            ty: Ty::F32,
        };
        let result = built.arguments(&[Arg::raw(memory, &parsed(layout))]);
        result.map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(given("(4,32):(32,_1)"), Ok(()));
    assert_eq!(
        given("(4,24):(24,_1)"),
        Err("tensor from: the extent 24 of (4,24):(24,_1) is below 32, where the tiles of its copies end (`copy_in_bounds` asks)"
            .to_string())
    );
}

/// More barriers than a block has room for are one error, however many there are.
#[test]
fn barriers_beyond_shared_memory_cost_nothing() {
    let why = finished(|k| {
        let ring = k.pipeline((1 << 29) - 1, 1, 1);
        k.start_pipelines(&[&ring], false);
    });
    assert_eq!(
        why,
        "shared memory: 4294967288 bytes after 0 others, and a block of sm_90a has 232448"
    );
}
