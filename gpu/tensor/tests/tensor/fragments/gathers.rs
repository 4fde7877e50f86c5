//! Gathers, scatters, atomic operations, windows and blocks of several dimensions on the simulator.

use colex_atom::{Arch, Ty};
use colex_gpu::{Device, Load};
use colex_ir::{AtomicOp, Order, Scope};
use colex_layout::C;
use colex_proof::examples::{elements, values};
use colex_proof::kernels::gathers;
use colex_tensor::{AtThread, Builder, Expr, Index, Outside, Tensor};
use colex_tiled::TiledCopy;

use crate::refused;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// `COLEX_GATHERS=5000` draws as many kernels of gathers and scatters.
#[test]
fn law_gathers_and_atomics_are_those_of_the_host() {
    let rounds = std::env::var("COLEX_GATHERS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    let mut count = 0;
    for arch in [Arch::Sm80, Arch::Sm90a] {
        let done = gathers::check_all(&Device::simulator(arch), rounds);
        count += done.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law gathers: {count} elements");
}

/// The verifier takes an atomic operation of every type that the documentation names, and every instruction has a line of
/// `colex_proof`.
#[test]
fn law_every_atomic_operation_has_an_instruction() -> Outcome {
    let mut count = 0;
    for arch in [Arch::Sm70, Arch::Sm90a] {
        for kernel in gathers::kernels(arch, 20)? {
            kernel.kernel.ptx()?;
            kernel.kernel.walk(&mut |stmt| {
                let file = stmt.at.file();
                assert!(
                    file.starts_with("gpu/proof/"),
                    "{:?} at {}",
                    stmt.op,
                    stmt.at
                );
            });
            count += 1;
        }
    }
    println!("law atomics: {count} kernels");
    Ok(())
}

/// Constants that groups of elements share are values of as many elements as the group has.
#[test]
fn groups_of_several_lengths_share_constants() -> Outcome {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let x = k.fragment(Ty::F16, "_4:_1");
    k.fill(&x, 1.0);
    let own = k.map(Expr::from(x.values(1, 3)).fma(2.0, 0.5).to(Ty::F32));
    assert_eq!(elements(k, &own)?[0], [2.5; 3]);
    Ok(())
}

fn bins(k: &mut Builder) -> Tensor {
    k.tensor("bins", Ty::S32, "100:_1")
}

/// What two threads do to one element, and what the simulator says of it.
#[test]
fn a_plain_access_races_with_an_atomic_one() -> Outcome {
    let run = |body: fn(&mut Builder, &Tensor)| -> Result<Vec<i32>, Box<dyn std::error::Error>> {
        let mut k = Builder::new("k", Arch::Sm80, 64);
        let bins = bins(&mut k);
        body(&mut k, &bins);
        let device = Device::simulator(Arch::Sm80);
        let mut given = device.zeros::<i32>(4)?;
        let loaded = k.finish()?.load(&device)?;
        loaded.launch([1], (given.view_mut(4)?,))?;
        Ok(given.download()?)
    };
    let both = run(|k, bins| {
        let thread = k.thread();
        k.atomic_update(AtomicOp::Add, &bins.elements(thread % 4), 1);
    })?;
    assert_eq!(both, [16; 4]);
    let race = run(|k, bins| {
        let thread = k.thread();
        let is_last = Expr::from(&thread).equals(63);
        k.atomic_update(AtomicOp::Add, &bins.elements(&thread % 4), 1);
        k.scatter(7, &bins.elements(3).only(is_last));
    });
    let said = race.expect_err("a race").to_string();
    assert!(said.contains("nothing orders the two"), "{said}");
    let race = run(|k, bins| {
        let thread = k.thread();
        k.scatter(&thread, &bins.elements(&thread % 4));
    });
    let said = race.expect_err("a race").to_string();
    assert!(said.contains("nothing orders the two"), "{said}");
    Ok(())
}

#[test]
fn an_index_outside_traps_or_is_named() -> Outcome {
    let run = |outside: Outside| -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let ids = k.tensor("ids", Ty::S32, "_32:_1");
        let table = k.tensor("table", Ty::F32, "(4,100):(100,_1)");
        let out = k.tensor("out", Ty::F32, "_32:_1");
        let thread = k.thread();
        let id = k.gather(&ids.elements(&thread));
        let x = k.gather(&table.elements((0, &id)).outside(outside));
        k.scatter(&x, &out.elements(&thread));
        let device = Device::simulator(Arch::Sm80);
        let ids: Vec<i32> = (0..32).map(|i| if i == 9 { 50 } else { i }).collect();
        let (ids, table) = (device.upload(&ids)?, device.upload(&[1.5_f32; 160])?);
        let mut out = device.poisoned::<f32>(32)?;
        let kernel = k.finish()?.load(&device)?;
        let flat = (C::<32>, C::<1>);
        let ids = colex_gpu::View::new(&ids, flat)?;
        let to = colex_gpu::ViewMut::new(&mut out, flat)?;
        kernel.launch([1], (ids, table.view((4, 40))?, to))?;
        Ok(out.download()?)
    };
    assert_eq!(run(Outside::Skip)?[8..11], [1.5, 0.0, 1.5]);
    assert_eq!(run(Outside::Clamp)?[9], 1.5);
    let said = run(Outside::Trap).expect_err("it traps").to_string();
    assert!(said.contains("the kernel traps"), "{said}");
    // The element is in the memory of the table, but in another row.
    let said = run(Outside::Stated).expect_err("it is refused").to_string();
    assert!(
        said.contains("coordinate 50 along mode 1 of tensor table, whose extent is 40"),
        "{said}"
    );
    Ok(())
}

#[test]
fn wrong_gathers_are_refused() {
    let warp = || Builder::new("k", Arch::Sm80, 32);
    let said = |call: fn(&mut Builder, Tensor)| refused(warp(), bins, call);
    assert_eq!(
        said(|k, bins| drop(k.gather(&bins.elements((0, 1))))),
        "gather: 2 coordinates of (100), which has 1 modes"
    );
    assert_eq!(
        said(|k, bins| {
            let x = k.fragment(Ty::F32, "_2:_1");
            k.fill(&x, 1.0);
            k.gather(&bins.elements(&x));
        }),
        "gather: a coordinate of f32: it is an integer, and `.to(Ty::S32)` converts"
    );
    assert_eq!(
        said(|k, bins| {
            let thread = k.thread();
            k.scatter(Expr::from(thread).to(Ty::F32), &bins.elements(0));
        }),
        "scatter: f32 into elements of s32: `.to(Ty::S32)` converts"
    );
    assert_eq!(
        said(|k, bins| k.atomic_update(AtomicOp::Exch, &bins.elements(0), 1)),
        "atomic_update: exch without its old value: `scatter` stores, and `atomic` returns it"
    );
    assert_eq!(
        said(|k, bins| drop(k.atomic(AtomicOp::Cas, &bins.elements(0), 1))),
        "atomic: cas has two values: `compare_and_swap` takes them"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.tensor("x", Ty::F32, "(100):(_1)");
            k.atomic_update(AtomicOp::Max, &x.elements(0), 1);
        }),
        "atomic_update: max of f32; there is one of s32, u32, s64 and u64, and a loop of `compare_and_swap` computes others"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.tensor("x", Ty::U8, "(100):(_1)");
            k.compare_and_swap(&x.elements(0), 0, 1);
        }),
        "compare_and_swap: elements of u8; one element of 16, 32 or 64 bits is compared at a time"
    );
    assert_eq!(
        said(|k, bins| {
            let thread = k.thread();
            k.scatter(0, &bins.elements(thread).vectors(0, 4));
        }),
        "scatter: vectors of 4 along mode 0 begin at r1, which is no multiple of 4"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.shared_tensor(Ty::F32, "(8,8):(1,8)");
            k.gather(&x.elements((0, 4)).vectors(1, 4));
        }),
        "gather: vectors of 4 along mode 1 of (_8,_8):(_1,_8), whose elements are no neighbours in whole vectors"
    );
    for width in [0, -4, 3, 1 << 30] {
        let call = |k: &mut Builder, _: Tensor| k.for_vector(0, &100.into(), width, |_, _| ());
        assert_eq!(
            refused(warp(), bins, call),
            format!("for_vector: vectors of {width}: 1, 2, 4, 8 or 16 elements")
        );
    }
    assert_eq!(
        said(|k, _| {
            let x = k.tensor("x", Ty::C64, "(100):(_1)");
            k.compare_and_swap(&x.elements(0), 0, 1);
        }),
        "fragment: elements of c64 have 128 bits, and a register has at most 64: a fragment of their real and imaginary parts has \
         them one by one"
    );
    assert_eq!(
        said(|k, bins| drop(k.gather(&bins.elements(0).vectors(1, 4)))),
        "gather: vectors of 4 along mode 1 of 1: 2, 4, 8 or 16 elements along a mode of the tensor"
    );
    assert_eq!(
        said(|k, bins| drop(k.gather(&bins.elements(0).vectors(0, 4).outside(Outside::Clamp)))),
        "gather: vectors are not clamped: clamp the coordinate"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.tensor("x", Ty::F32, "(_4,_8):(_0,_1)");
            k.scatter(1.0, &x.elements((0, 4)));
        }),
        "scatter: (_4,_8):(_0,_1) has one element at several coordinates: which value stays would be a race"
    );
    assert_eq!(
        said(|k, _| {
            let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a width");
            let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a copy");
            let tile = k.shared_tensor(Ty::F32, "(8,8):(8,1)");
            let mine = copy.at(&k.thread()).partition_src(&tile);
            k.gather(&mine.elements((0, 0, 0)));
        }),
        "gather: a thread's part of a tile, whose modes are those of a partition: take elements of the tile"
    );
    let unaligned = said(|k, _| {
        let x = k.shared_tensor(Ty::F32, "(32,8):(9,1)");
        let thread = k.thread();
        k.gather(&x.elements((thread, 0)).vectors(1, 4));
    });
    // Between the two the bytes from the base of shared memory.
    let ends = [
        "gather: vectors of 4 in (_32,_8):(_9,_1), which begin at ",
        ": its strides are multiples of 4",
    ];
    assert!(
        unaligned.starts_with(ends[0]) && unaligned.ends_with(ends[1]),
        "{unaligned}"
    );
    assert_eq!(
        said(|k, bins| drop(k.gather(&bins.elements(0).vectors(0, 16)))),
        "gather: vectors of 16 elements of s32 have 512 bits; those of 32, 64 and 128 bits fill registers"
    );
    for (op, wanted) in [
        (AtomicOp::Add, "s32, u32, s64, u64, f32, f64, f16 and bf16"),
        (AtomicOp::Exch, "s32, u32, s64, u64, f32 and f64"),
        (AtomicOp::Inc, "u32"),
        (AtomicOp::And, "s32, u32, s64 and u64"),
    ] {
        let name = op.ptx();
        assert_eq!(
            refused(warp(), bins, |k, _| {
                let x = k.tensor("x", Ty::U8, "(100):(_1)");
                k.atomic(op, &x.elements(0), 1);
            }),
            format!(
                "atomic: {name} of u8; there is one of {wanted}, and a loop of `compare_and_swap` computes others"
            )
        );
    }
    assert_eq!(
        said(|k, bins| {
            let address = k.gather(&bins.elements(0));
            k.tensor_stated_at(&address, Ty::F32, "8:1");
        }),
        "tensor_stated_at: an address of s32: it is one element of u64"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.fragment(Ty::U64, "_2:_1");
            k.assign(&x, 0);
            k.tensor_stated_at(&x, Ty::F32, "8:1");
        }),
        "tensor_stated_at: 2 elements, and one is an address"
    );
    assert_eq!(
        said(|k, _| {
            let x = k.fragment(Ty::U64, "_1:_1");
            k.assign(&x, 0);
            k.tensor_stated_at(&x, Ty::S4, "8:1");
        }),
        "tensor_stated_at: elements of s4 under _8:_1: whole bytes under strides from 0 on"
    );
    assert_eq!(
        said(|k, _| drop(k.shared_tensor(Ty::F32, "(8,8):(8,1)").windows((3, 9)))),
        "windows: windows of [3, 9] in (_8,_8):(_8,_1): an extent for each mode, from 1 to that of the mode"
    );
    assert_eq!(
        said(|k, _| drop(k.thread_index(3))),
        "thread_index: axis 3: a block has axes 0, 1 and 2"
    );
}

/// A pointer that is no allocation, or not aligned, is named.
#[test]
fn a_stated_address_is_an_allocation() -> Outcome {
    let run = |moved: fn(u64) -> u64, n: i64| -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let pointer = k.tensor("pointer", Ty::U64, "_1:_1");
        let out = k.tensor("out", Ty::F32, "_32:_1");
        let thread = k.thread();
        let address = k.gather(&pointer.elements(0));
        let row = k.tensor_stated_at(&address, Ty::F32, "64:1");
        let x = k.gather(&row.elements(&thread + n));
        k.scatter(&x, &out.elements(thread));
        let device = Device::simulator(Arch::Sm80);
        let row = device.upload(&[1.5_f32; 64])?;
        let pointer = device.upload(&[moved(row.address())])?;
        let mut out = device.poisoned::<f32>(32)?;
        let pointer = colex_gpu::View::new(&pointer, (C::<1>, C::<1>))?;
        let to = colex_gpu::ViewMut::new(&mut out, (C::<32>, C::<1>))?;
        k.finish()?.load(&device)?.launch([1], (pointer, to))?;
        Ok(out.download()?)
    };
    assert_eq!(run(|at| at, 0)?, [1.5; 32]);
    assert_eq!(run(|at| at, 40)?[23..25], [1.5, 0.0]); // the layout has 64 elements
    let said = run(|at| at + 8, 0)
        .expect_err("it is not aligned")
        .to_string();
    assert!(said.contains("and a multiple of 16"), "{said}");
    let said = run(|at| at + 160, 0).expect_err("it is beyond").to_string();
    println!("{said}");
    assert!(
        said.contains("allocation") || said.contains("buffer"),
        "{said}"
    );
    Ok(())
}

/// Rows of every type at the addresses of an array.
#[test]
fn law_rows_at_the_addresses_of_an_array() -> Outcome {
    let mut count = 0;
    for arch in [Arch::Sm70, Arch::Sm90a] {
        count += gathers::pointers(&Device::simulator(arch))?;
    }
    println!("law pointers: {count} elements");
    Ok(())
}

/// Windows of every type, from memory and from shared memory.
#[test]
fn law_windows_are_those_of_the_host() -> Outcome {
    let count = gathers::windows(&Device::simulator(Arch::Sm90a))?;
    println!("law windows: {count} elements");
    Ok(())
}

/// Runs of any length, from the first element to the last, in every type and width.
#[test]
fn law_vectors_and_their_rest() -> Outcome {
    let count = gathers::vectors(&Device::simulator(Arch::Sm80))?;
    println!("law vectors: {count} elements");
    Ok(())
}

/// A run ends at the extent that is given, and does not begin below 0.
#[test]
fn a_run_ends_where_it_is_told() -> Outcome {
    let run =
        |first: fn(Index) -> Index, extent: i64| -> Result<Vec<i32>, Box<dyn std::error::Error>> {
            let mut k = Builder::new("k", Arch::Sm80, 4);
            let x = k.tensor("x", Ty::S32, "_16:_1");
            let first = first(k.thread() * 4);
            k.for_vector(first, &extent.into(), 4, |k, run| {
                k.scatter(1, &run.of(&x, ()))
            });
            let device = Device::simulator(Arch::Sm80);
            let mut x = device.zeros::<i32>(16)?;
            let to = colex_gpu::ViewMut::new(&mut x, (C::<16>, C::<1>))?;
            k.finish()?.load(&device)?.launch([1], (to,))?;
            Ok(x.download()?)
        };
    let ones = |n: usize| [vec![1; n], vec![0; 16 - n]].concat();
    assert_eq!(run(|i| i, 16)?, ones(16));
    assert_eq!(run(|i| i, 9)?, ones(9));
    assert_eq!(run(|i| i - 4, 16)?, ones(12));
    assert_eq!(run(|i| i - 8, 7)?, ones(7));
    Ok(())
}

/// The order and the scope are those of the instruction.
#[test]
fn orders_reach_the_instruction() -> Outcome {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let bins = bins(&mut k);
    let shared = k.shared_tensor(Ty::F16, "(32,2):(2,1)");
    let thread = k.thread();
    let own = bins.elements(&thread).ordered(Order::AcqRel(Scope::Gpu));
    let old = k.compare_and_swap(&own, 0, 1);
    k.scatter(&old, &bins.elements(&thread + 32));
    k.atomic_update(
        AtomicOp::Add,
        &shared.elements((&thread, 0)).vectors(1, 2),
        1.0,
    );
    let ptx = k.finish()?.kernel.ptx()?;
    assert!(ptx.contains("atom.acq_rel.gpu.global.cas.b32"), "{ptx}");
    assert!(ptx.contains("red.shared.add.noftz.f16x2"), "{ptx}");
    Ok(())
}

/// Collectives, launches and reductions in blocks of two and three dimensions number their threads alike.
#[test]
fn law_blocks_of_several_dimensions() -> Outcome {
    let mut count = 0;
    for (block, [x, y]) in [
        ((64, 1, 1), [64, 1]),
        ((16, 4, 1), [16, 4]),
        ((4, 8, 2), [4, 8]),
        ((1, 1, 64), [1, 1]),
        ((3, 7, 5), [3, 7]),
    ] {
        let scene = || Builder::new("k", Arch::Sm80, block);
        let threads = (block.0 * block.1 * block.2) as i32;
        let mut k = scene();
        let number = k.thread();
        assert_eq!(values(k, &number)?, (0..threads).collect::<Vec<_>>());
        for axis in 0..3 {
            let mut k = scene();
            let index = k.thread_index(axis);
            let expected = |t: i32| [t % x, t / x % y, t / x / y][usize::from(axis)];
            let found = values(k, &index)?;
            assert_eq!(found, (0..threads).map(expected).collect::<Vec<_>>());
        }
        count += 4 * threads;
        if threads % 32 != 0 {
            continue;
        }
        let mut k = scene();
        let thread = k.thread();
        let own = k.map(Expr::from(thread).to(Ty::F32));
        let sum = k.reduce_block(colex_ir::BinaryOp::Add, &own);
        let expected = (threads * (threads - 1) / 2) as f32;
        assert_eq!(elements(k, &sum)?, vec![vec![expected]; threads as usize]);
        let mut k = scene();
        let warp = k.uniform(32);
        assert_eq!(
            values(k, &warp)?,
            (0..threads).map(|t| t / 32).collect::<Vec<_>>()
        );
        count += 2 * threads;
    }
    println!("law blocks: {count} threads");
    Ok(())
}
