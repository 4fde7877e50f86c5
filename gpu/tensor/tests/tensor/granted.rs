//! What an integer of a kernel takes for granted is claimed where it is used: that a divisor is at least 1, and that the number
//! of a tile fits 32 bits. A launch refuses what it can tell, and the kernel traps before the rest.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_ir::Type;
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_tensor::{Arg, Builder, Index, TensorKernel};

/// What a kernel does with a number.
type Body = fn(&mut Builder, Index);

fn simulator() -> Device {
    Device::simulator(Arch::Sm90a)
}

fn kernel(body: impl FnOnce(&mut Builder, Index)) -> TensorKernel {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let n = k.index_argument("n", 0..1 << 31);
    body(&mut k, n);
    k.finish().unwrap_or_else(|e| panic!("{e}"))
}

/// What a launch of a kernel with the number `n` says, up to the place in this file.
fn said(kernel: &TensorKernel, device: &Device, more: &[Arg<'_>], n: u32) -> Result<(), String> {
    let run = |ir| {
        let mut given = vec![Arg::Value(n.into())];
        given.extend_from_slice(more);
        let arguments = kernel.arguments(&given).map_err(|e| e.to_string())?;
        let function = device.load(ir).map_err(|e| e.to_string())?;
        let launch = Launch::new(1, 32).dynamic_shared(kernel.dynamic_shared());
        let launched = device.launch(&function, launch, &arguments);
        launched.map_err(|e| e.to_string())
    };
    let found = run(&kernel.kernel);
    // The claims refuse the launch, or name what traps; a device has the trap alone.
    let mut bare = kernel.kernel.clone();
    for claim in &mut bare.claims {
        claim.bounds.clear();
        claim.declared = None;
    }
    if found.as_ref().is_err_and(|e| e.starts_with("thread (")) {
        assert!(run(&bare).is_err(), "{found:?}");
    }
    found.map_err(|e| {
        let end = e.find(" (gpu/").or_else(|| e.find(": the kernel declares"));
        e[..end.unwrap_or(e.len())].to_string()
    })
}

fn has_trap(kernel: &TensorKernel) -> bool {
    kernel.kernel.ptx().expect("a kernel").contains("trap;")
}

/// The same number in a register of which no launch knows anything.
fn unknown(k: &mut Builder, n: &Index) -> Index {
    let reg = k.value(n);
    let copied = k.emit(|ir| ir.add(Type::U32, reg, 0));
    k.index_of(copied, 0..1 << 31)
}

const NOT_ONE: &str =
    "an integer is 0 in block (0,0,0), and the kernel declares here that it is 1 to 268435455";

#[test]
fn a_divisor_that_is_0_is_refused_by_the_launch() {
    let kernels: [(&str, Body); 5] = [
        ("a quotient", |k, n| {
            let block = k.block_index(0);
            k.value(&(block / (n / 8)));
        }),
        ("a remainder", |k, n| {
            let thread = k.thread();
            k.value(&(thread % (n / 8) * 3 + 1));
        }),
        ("one that a comparison folds", |k, n| {
            let thread = k.thread();
            let quotient = thread / (n / 8);
            assert_eq!(k.less(&quotient, &64.into()), true.into());
        }),
        ("one that is only declared of", |k, n| {
            let thread = k.thread();
            k.within(thread / (n / 8) + 7, 7..23);
        }),
        ("one that a branch has used before", |k, n| {
            let (thread, half) = (k.thread(), n / 8);
            let quotient = &thread / &half;
            let is_never = k.less(&half, &0.into());
            let is_last = k.less(&31.into(), &(&thread + &half));
            assert_eq!(is_never, false.into());
            k.if_(is_last, |k| {
                k.value(&quotient);
            });
            k.value(&quotient);
        }),
    ];
    for (name, body) in kernels {
        let kernel = kernel(body);
        assert_eq!(said(&kernel, &simulator(), &[], 16), Ok(()), "{name}");
        assert_eq!(
            said(&kernel, &simulator(), &[], 7),
            Err(NOT_ONE.into()),
            "{name}"
        );
        assert_eq!(
            said(&kernel, &simulator(), &[], 0),
            Err(NOT_ONE.into()),
            "{name}"
        );
        // What is declared of a thread's number is another matter.
        let is_free = !name.ends_with("before") && !name.ends_with("declared of");
        assert!(!is_free || !has_trap(&kernel), "{name} costs nothing");
    }
}

#[test]
fn a_divisor_that_no_launch_knows_traps() {
    let kernel = kernel(|k, n| {
        let (thread, n) = (k.thread(), unknown(k, &n));
        k.value(&(thread / (n / 8)));
    });
    assert!(has_trap(&kernel));
    assert_eq!(said(&kernel, &simulator(), &[], 8), Ok(()));
    let refused = said(&kernel, &simulator(), &[], 7).expect_err("7 / 8 is 0");
    assert!(
        refused.starts_with("thread (0,0,0) of block (0,0,0)"),
        "{refused}"
    );
}

/// A branch that lets no divisor of 0 through is enough, and what is never executed is not refused.
#[test]
fn a_divisor_is_looked_at_where_it_is_used() {
    let kernel = kernel(|k, n| {
        let (thread, n) = (k.thread(), unknown(k, &n));
        let is_some = k.less(&0.into(), &n);
        k.if_(is_some, |k| {
            k.value(&(thread / n));
        });
    });
    assert!(!has_trap(&kernel), "the branch says so");
    for n in [0, 1, 5] {
        assert_eq!(said(&kernel, &simulator(), &[], n), Ok(()));
    }
}

/// The number of a tile times its extent has to fit: 2^20 tiles of 4096 elements would begin at 0 again.
#[test]
fn the_number_of_a_tile_fits() {
    let layout: Layout = "(64,64):(64,_1)".parse().expect("a layout");
    let device = simulator();
    let from = device.upload(&[1f32; 4096]).expect("memory");
    let copied = |is_known: bool| {
        kernel(move |k, n| {
            let a = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
            let n = if is_known { n } else { unknown(k, &n) };
            let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
            let copy = colex_tiled::TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,1)");
            let (copy, thread) = (copy.expect("a copy"), k.thread());
            let part = colex_tensor::AtThread::at(&copy, &thread);
            let part = part.partition_src(&a.local_tile((4096, 8), (n, 0)));
            let held = k.fragment_like(&part);
            k.copy_in_bounds(&copy, &part, &held);
        })
    };
    let farthest = (colex_tensor::MAX_EXTENT + (1 << 16)) / 4096;
    for is_known in [true, false] {
        let kernel = copied(is_known);
        assert_eq!(has_trap(&kernel), !is_known);
        for (n, fits) in [
            (0, true),
            (1, true),
            (farthest, true),
            (farthest + 1, false),
            (1 << 20, false),
            ((1 << 31) - 1, false),
        ] {
            let found = said(&kernel, &device, &[Arg::tensor(&from, &layout)], n as u32);
            assert_eq!(found.is_ok(), fits, "tile {n}: {found:?}");
            if let (true, Err(found)) = (is_known, found) {
                let place = n * 4096;
                let sentence = format!(
                    "an integer is {place} in block (0,0,0), and the kernel declares here that it is 0 to 2147422207"
                );
                assert_eq!(found, sentence);
            }
        }
    }
}

/// A tensor map takes coordinates of 32 bits: a tile beyond them would be another one.
#[test]
fn a_tile_of_a_tensor_map_fits() {
    let layout: Layout = "(64,64):(64,_1)".parse().expect("a layout");
    let device = simulator();
    let from = device.upload(&[1f32; 4096]).expect("memory");
    let loaded = |is_known: bool| {
        kernel(move |k, n| {
            let slab = "(64,32):(32,1)";
            let a = k.tma_tensor("a", Ty::F32, "(64,64):(64,_1)", [64, 32], slab, 1);
            let n = if is_known { n } else { unknown(k, &n) };
            let (shared, landed, thread) =
                (k.shared_tensor(Ty::F32, slab), k.barriers(1), k.thread());
            let is_first = k.equal(&thread, &0.into());
            k.if_(is_first, |k| {
                k.init_barriers(&landed, 1);
                k.fence(colex_ir::FenceKind::MbarrierInit);
                k.arrive_expect(&landed.at(0), a.tile_bytes());
                k.tma_load(&a, (0, n), &shared, &landed.at(0));
            });
            k.sync();
            k.wait(&landed.at(0), &0.into());
        })
    };
    let farthest = (colex_tensor::MAX_EXTENT + (1 << 16)) / 32;
    for is_known in [true, false] {
        let kernel = loaded(is_known);
        assert_eq!(has_trap(&kernel), !is_known);
        for (n, fits) in [
            (0, true),
            (farthest, true),
            (farthest + 1, false),
            (1 << 27, false),
            ((1 << 31) - 1, false),
        ] {
            let map = kernel.tensor_map("a", &layout).expect("it fits");
            let map = device.tensor_map(&map, &from).expect("its memory");
            let found = said(&kernel, &device, &[Arg::Value(map.into())], n as u32);
            assert_eq!(found.is_ok(), fits, "tile {n}: {found:?}");
        }
    }
}

/// Arrives at the barrier of the block with a rank, in a cluster of `blocks`.
fn arriving(blocks: u32, rank: impl FnOnce(&mut Builder, Index) -> Index) -> Builder {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let n = k.index_argument("n", 0..1 << 31);
    if blocks > 1 {
        k.cluster([blocks, 1, 1]);
    }
    let (ready, thread) = (k.barriers(1), k.thread());
    let is_first = k.equal(&thread, &0.into());
    k.if_(is_first, |k| {
        k.init_barriers(&ready, 32);
        k.fence(colex_ir::FenceKind::MbarrierInit);
    });
    if blocks > 1 {
        k.cluster_sync();
    } else {
        k.sync();
    }
    let rank = rank(&mut k, n);
    let arrives = k.less(&thread, &i64::from(blocks).into());
    k.arrive_at(&ready.at(0), &rank, arrives);
    if blocks > 1 {
        k.cluster_sync();
    }
    k
}

#[test]
fn a_rank_is_one_of_the_clusters() {
    let refused = |blocks, rank: i64| {
        let k = arriving(blocks, |_, _| rank.into());
        k.finish().expect_err("it is refused").what()
    };
    let sentence = |rank: i64, last: i64| {
        format!(
            "arrive_at: the rank {rank} lies from {rank} to {rank}, and the cluster that is declared before this call has ranks \
             0 to {last}"
        )
    };
    for (blocks, rank) in [
        (1, 1),
        (2, 2),
        (2, -1),
        (8, 8),
        (2, 1 << 40),
        (2, i64::MIN / 2),
    ] {
        assert_eq!(refused(blocks, rank), sentence(rank, i64::from(blocks) - 1));
    }
    let mut k = arriving(2, |_, _| 0.into());
    let ready = k.barriers(1);
    k.release_at(&ready.at(0), &2.into(), true.into());
    let said = k.finish().expect_err("it is refused").what();
    assert_eq!(said, sentence(2, 1).replace("arrive_at", "release_at"));
    let mut k = arriving(1, |_, _| 0.into());
    k.cluster([2, 1, 1]);
    assert_eq!(
        k.finish().expect_err("declared too late").what(),
        "finish: ranks are counted for clusters of 1 blocks, and clusters of 2 are declared"
    );
    // Of a number of 0 to 31, those that arrive are the cluster's.
    let kernel = arriving(2, |k, _| k.thread()).finish().expect("a kernel");
    assert!(!has_trap(&kernel));
    let one = |is_known: bool| {
        let k = arriving(2, |k, n| if is_known { n } else { unknown(k, &n) });
        k.finish().expect("a kernel")
    };
    for is_known in [true, false] {
        let kernel = one(is_known);
        let device = simulator();
        let launch = |n: u32| {
            let arguments = kernel.arguments(&[Arg::Value(n.into())]).expect("a number");
            let function = device.load(&kernel.kernel).expect("a kernel");
            let launch = Launch::new(2, 32).cluster([2, 1, 1]);
            let launch = launch.dynamic_shared(kernel.dynamic_shared());
            let launched = device.launch(&function, launch, &arguments);
            launched.map_err(|e| e.to_string())
        };
        assert_eq!(has_trap(&kernel), !is_known);
        assert_eq!([0, 1].map(launch), [Ok(()), Ok(())]);
        for n in [2, 1 << 16, (1 << 31) - 1] {
            let said = launch(n).expect_err("no such block");
            assert!(said.contains("declares here that it is 0 to 1"), "{said}");
        }
    }
}
