//! Mistakes in kernels made from tensors: sentences name the tensor and the element.

use colex_atom::{Arch, Ty, copy};
use colex_ir::launch::Launch;
use colex_ir::{Access, Address, Base, FenceKind, Space, Special, Type};
use colex_layout::ComposedLayout;
use colex_sim::{Fault, FaultKind, SimOptions};
use colex_tensor::{
    Arg, AtThread, Barriers, Builder, Error, Expr, RawMemory, Tensor, TensorKernel,
};
use colex_tiled::TiledCopy;

use super::faults::says;
use super::helpers::*;

fn run(built: &TensorKernel, threads: u32, seed: u64) -> Fault {
    let mut host = Host::default();
    let layout = "(32,32):(32,_1)".parse().expect("a layout");
    let (from, to) = (host.words(&[1; 1024]), host.empty(4096));
    let given = [from, to].map(|address| {
        let memory = RawMemory {
            address,
            bytes: 4096,
            ty: Ty::F32,
        };
        Arg::raw(memory, &layout)
    });
    let given = if built.kernel.params.is_empty() {
        &[][..]
    } else {
        &given[..]
    };
    host.arguments = built.arguments(given).expect("tensors that fit");
    let launch = Launch::new(1, threads).dynamic_shared(built.dynamic_shared());
    let options = SimOptions::default().seed(seed);
    let result = host.run_with(&built.kernel, launch, &options);
    result.expect_err("a mistake was planted")
}

/// A tile goes through shared memory; nothing orders its two halves.
fn through(padding: bool) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("through", Arch::Sm80, 256);
    let layout = "(1,1):(1,_1)";
    let (from, to) = (
        k.tensor("from", Ty::F32, layout),
        k.tensor("to", Ty::F32, layout),
    );
    let place = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &place);
    let to = to.local_tile((32, 32), &place);
    if padding {
        k.barriers(3);
    }
    let tile = "(32,32):(33,1)"
        .parse::<ComposedLayout>()
        .expect("a layout");
    let tile = k.shared_tensor(Ty::F32, tile);
    let word = copy("UniversalCopy<uint32_t>").expect("a row");
    let of =
        |threads: &str| TiledCopy::new(word.clone(), 32, threads, "(1,1):(1,1)").expect("a copy");
    let (by_row, by_column) = (of("(8,32):(32,1)"), of("(32,8):(1,32)"));
    let thread = k.thread();
    for (copy, src, dst) in [(by_row, &from, &tile), (by_column, &tile, &to)] {
        let (src, dst) = (
            copy.at(&thread).partition_src(src),
            copy.at(&thread).partition_dst(dst),
        );
        let regs = k.fragment_like(&src);
        k.copy(&copy, &src, &regs);
        k.copy(&copy, &regs, &dst);
    }
    k.finish()
}

#[test]
fn a_shared_tensor_has_a_name() {
    for (padding, seed) in [(false, 0), (true, 0), (true, 1), (false, 5)] {
        let built = through(padding).unwrap();
        let fault = run(&built, 256, seed);
        assert_eq!(fault.kind(), FaultKind::Race);
        assert!(
            fault.what().contains(
                " of the shared f32 tensor (32,32):(33,1) (gpu/sim/tests/sim/tensors.rs:"
            ),
            "{fault}"
        );
    }
    says(
        &run(&through(true).unwrap(), 256, 0),
        FaultKind::Race,
        "thread (1,0,0) of block (0,0,0), at `%f4 = ld.shared.f32 [%r18+128]` (here): element (1,0) of the shared f32 tensor (32,32):(33,1) (here) is written by `st.shared.f32 [%r14+128], %f0` of warp 1 (here), which nothing orders before this read: a barrier between them is missing",
    );
}

#[test]
fn a_barrier_of_an_array_has_a_name() {
    let mut k = Builder::new("ring", Arch::Sm90a, 32);
    k.barriers(2);
    let bars = k.barriers(3);
    k.wait(&bars.at(1), &0.into());
    let built = k.finish().unwrap();
    says(
        &run(&built, 32, 0),
        FaultKind::Barrier,
        "thread (0,0,0) of block (0,0,0), at `mbarrier.wait [dynamic+24], 0` (here): barrier 1 of the shared array of 3 barriers (here) is no barrier: `mbarrier.init` is missing",
    );
}

/// What the author named is named so: a tile with the coordinate of its element, barriers with their number.
#[test]
fn names_of_the_author_are_in_the_sentence() {
    let mut k = Builder::new("named", Arch::Sm90a, 32);
    let (tile, rows) = (
        k.shared_tensor(Ty::F16, "(4,8):(10,1)"),
        k.shared_tensor(Ty::F32, "(8,4):(4,1)"),
    );
    k.name("tile", &tile);
    let bars = k.barriers(3);
    k.name("ready", &bars);
    let ring = k.pipeline(2, 1, 1);
    k.name("ring", &ring);
    k.shared_bytes(24, 16);
    let kernel = k.finish().expect("a kernel").kernel;
    let says = |byte: u32| {
        let regions = kernel.shared_regions.iter();
        let region = regions
            .rev()
            .find(|region| region.start <= byte)
            .expect("one");
        let text = region.describe(byte - region.start);
        text.split(" (gpu/").next().unwrap_or_default().to_string()
    };
    let starts: Vec<u32> = kernel
        .shared_regions
        .iter()
        .map(|region| region.start)
        .collect();
    assert_eq!(
        [
            (0, 0),
            (0, 63),
            (0, 19),
            (1, 20),
            (2, 16),
            (3, 8),
            (4, 0),
            (5, 5)
        ]
        .map(|(i, byte)| says(starts[i] + byte)),
        [
            "element (0,0) of `tile`, the shared f16 tensor (4,8):(10,1)",
            "byte 1 of element (3,1) of `tile`, the shared f16 tensor (4,8):(10,1)",
            "byte 1 of offset 9, which no coordinate has, of `tile`, the shared f16 tensor (4,8):(10,1)",
            "element (1,1) of the shared f32 tensor (8,4):(4,1)",
            "barrier 2 of `ready`, the shared array of 3 barriers",
            "barrier 1 of `ring.full`, the shared array of 2 full barriers",
            "barrier 0 of `ring.empty`, the shared array of 2 empty barriers",
            "byte 5 of the shared 24 bytes",
        ]
    );
    drop(rows);
}

/// What is done with a tile of 32 words, the first half of which is written, and with two barriers, by 64 threads.
type Scene = fn(&mut Builder, &Tensor, &Tensor, &Barriers);

/// Mistakes of every kind that has an address in shared memory or a barrier there.
const SCENES: [(FaultKind, u32, Scene); 15] = {
    use FaultKind::*;
    [
        (OutOfBounds, 1, |k, _, _, _| read(k, 1 << 16)),
        (OutOfBounds, 2, |k, _, _, _| {
            k.emit(|ir| {
                let base = ir.address_of(Base::DynamicShared);
                let other = ir.mov(Type::U32, Special::ClusterCtaRank);
                let other = ir.xor(Type::B32, other, 1);
                let far = ir.mapa(base, other);
                ir.load(shared(Type::U32), far);
            });
        }),
        (Misaligned, 1, |k, _, _, _| read(k, 2)),
        (Uninitialised, 1, |k, _, _, _| read(k, 100)),
        (Race, 1, |k, _, _, _| {
            let thread = k.thread();
            let warp = k.map(Expr::from(thread / 32));
            let at = Address::from(Base::DynamicShared).at(8);
            k.emit(|ir| ir.store(shared(Type::U32), at, warp.regs()[0]));
        }),
        (MissingFence, 1, |k, data, tile, _| {
            by_one(k, |k| {
                k.bulk_store(tile, data);
                k.bulk_commit();
                k.bulk_wait(0, false);
            });
        }),
        (MissingFence, 1, |k, data, tile, ready| {
            by_one(k, |k| {
                k.fence(FenceKind::ProxyAsyncShared);
                k.init_barriers(ready, 1);
                k.arrive_expect(&ready.at(1), 64);
                k.bulk_load(data, tile, &ready.at(1));
            });
            k.sync();
            k.wait(&ready.at(1), &0.into());
        }),
        (Barrier, 1, |k, _, _, ready| k.wait(&ready.at(1), &0.into())),
        (Barrier, 1, |k, _, _, ready| k.init_barriers(ready, 0)),
        (Barrier, 1, |k, _, _, ready| {
            by_one(k, |k| {
                k.init_barriers(ready, 1);
                k.arrive_expect(&ready.at(1), 16);
                k.arrive(&ready.at(1));
            });
        }),
        (Barrier, 1, |k, _, _, ready| {
            by_one(k, |k| {
                k.init_barriers(ready, 1);
                k.arrive_expect(&ready.at(0), 1 << 20);
            });
        }),
        (EarlyExit, 1, |k, data, tile, _| {
            by_one(k, |k| {
                k.fence(FenceKind::ProxyAsyncShared);
                k.bulk_store(tile, data);
                k.bulk_commit();
            });
        }),
        (EarlyExit, 2, |k, _, _, ready| {
            by_one(k, |k| {
                k.init_barriers(ready, 2);
                k.fence(FenceKind::MbarrierInit);
            });
            k.cluster_sync();
            let thread = k.thread();
            let one = k.equal(&thread, &0.into());
            k.arrive_at(&ready.at(1), &0.into(), one);
        }),
        (Deadlock, 1, |k, _, _, ready| {
            by_one(k, |k| k.init_barriers(ready, 1));
            k.sync();
            k.wait(&ready.at(1), &0.into());
        }),
        (Uninitialised, 2, |k, _, _, _| {
            let at = Address::from(Base::DynamicShared).at(100);
            k.cluster_sync();
            k.emit(|ir| {
                let base = ir.address_of(at);
                let far = ir.mapa(base, 1);
                ir.load(Access::new(Space::Cluster, Type::U32), far);
            });
            k.cluster_sync();
        }),
    ]
};

fn read(k: &mut Builder, byte: i64) {
    let at = Address::from(Base::DynamicShared).at(byte);
    k.emit(|ir| ir.load(shared(Type::U32), at));
}

fn by_one(k: &mut Builder, body: impl FnOnce(&mut Builder)) {
    let thread = k.thread();
    let one = k.equal(&thread, &0.into());
    k.if_(one, body);
}

/// A fault at an address in shared memory, or at a barrier there, has the name that the author gave it, in every order of
/// events.
#[test]
fn law_faults_in_shared_memory_have_the_names_of_the_author() {
    let mut cases = 0;
    for (number, (kind, blocks, scene)) in SCENES.into_iter().enumerate() {
        let mut k = Builder::new("named", Arch::Sm90a, 64);
        if blocks > 1 {
            k.cluster([blocks, 1, 1]);
        }
        let data = k.tensor("data", Ty::F32, "_16:_1");
        let tile = k.shared_tensor(Ty::F32, "_32:_1");
        k.name("tile", &tile);
        let ready = k.barriers(2);
        k.name("ready", &ready);
        let half = tile.local_tile(16, 0);
        by_one(&mut k, |k| {
            (0..16).for_each(|i| k.scatter(1.0, &half.elements(i)))
        });
        k.sync();
        scene(&mut k, &data, &half, &ready);
        let built = k.finish().unwrap_or_else(|why| panic!("{number}: {why}"));
        let launch = Launch::new(blocks, 64).dynamic_shared(built.dynamic_shared());
        let launch = if blocks > 1 {
            launch.cluster(blocks)
        } else {
            launch
        };
        for seed in 0..8 {
            let mut host = Host::default();
            let address = host.words(&[1; 16]);
            let memory = RawMemory {
                address,
                bytes: 64,
                ty: Ty::F32,
            };
            let layout = "_16:_1".parse().expect("a layout");
            host.arguments = built
                .arguments(&[Arg::raw(memory, &layout)])
                .expect("a tensor");
            let options = SimOptions::default().seed(seed);
            let fault = host.run_with(&built.kernel, launch, &options);
            let Err(fault) = fault else {
                panic!("{number}: a mistake was planted")
            };
            assert_eq!(fault.kind(), kind, "{number}: {fault}");
            let is_named = ["`tile`", "`ready`"]
                .iter()
                .any(|name| fault.what().contains(name));
            assert!(is_named, "{number}: {fault}");
            cases += 1;
        }
    }
    println!("law sim.names_of_the_author: {cases} cases");
}

/// Every element of every tile is described by the coordinate that the layout maps to it.
#[test]
fn law_elements_have_their_coordinates() {
    let layouts = [
        "(4,8):(8,1)",
        "(4,8):(1,4)",
        "(4,8):(9,1)",
        "16:1",
        "((2,4),(2,2)):((1,8),(2,4))",
        "Sw<2,0,3> o 0 o (8,8):(8,1)",
        "Sw<3,3,3> o 0 o (8,64):(64,1)",
        "Sw<1,1,2> o 0 o (4,8):(1,4)",
        "(3,5,2):(10,2,1)",
    ];
    let mut cases = 0;
    for text in layouts {
        let layout: ComposedLayout = text.parse().expect("a layout");
        let mut k = Builder::new("k", Arch::Sm80, 32);
        k.shared_tensor(Ty::F32, layout.clone());
        let kernel = k.finish().expect("a kernel").kernel;
        let region = &kernel.shared_regions[0];
        for index in 0..layout.size() {
            let coordinate = layout.shape().coord(index).expect("a coordinate");
            let offset = layout.at(&coordinate).expect("an offset") as u32;
            let said = region.describe(4 * offset);
            assert!(
                said.starts_with(&format!("element {coordinate} of ")),
                "{text}: {said}"
            );
            cases += 1;
        }
    }
    println!("law sim.elements_have_their_coordinates: {cases} cases");
}

/// An access beyond the end of a tile names the tile before it; one beyond the end of shared memory too.
#[test]
fn bytes_beyond_a_tile_name_it() {
    for (byte, kind, sentence) in [
        (
            136,
            FaultKind::Uninitialised,
            "thread (0,0,0) of block (0,0,0), at `%r1 = ld.shared.u32 [dynamic+136]` (here): byte 136 of dynamic shared memory, 8 bytes after the end of `tile`, the shared f32 tensor (8,4):(4,1) (here) is read but was never written",
        ),
        (
            2048,
            FaultKind::OutOfBounds,
            "thread (0,0,0) of block (0,0,0), at `%r1 = ld.shared.u32 [dynamic+2048]` (here): 4 bytes at byte 2048 of the block's shared memory, which has 1088 bytes; the nearest below is `last`, the shared f32 tensor 16:1 (here), 64 bytes at byte 1024",
        ),
        (
            130,
            FaultKind::Misaligned,
            "thread (0,0,0) of block (0,0,0), at `%r1 = ld.shared.u32 [dynamic+130]` (here): the address 0x482, byte 130 of dynamic shared memory, 2 bytes after the end of `tile`, the shared f32 tensor (8,4):(4,1) (here), is not a multiple of 4, as this access of 4 bytes wants",
        ),
    ] {
        let mut k = Builder::new("beyond", Arch::Sm90a, 32);
        let tile = k.shared_tensor(Ty::F32, "(8,4):(4,1)");
        k.name("tile", &tile);
        k.shared_bytes(0, 1024);
        let last = k.shared_tensor(Ty::F32, "16:1");
        k.name("last", &last);
        k.emit(|ir| {
            ir.load(
                shared(colex_ir::Type::U32),
                colex_ir::Address::from(colex_ir::Base::DynamicShared).at(byte),
            )
        });
        let built = k.finish().expect("a kernel");
        says(&run(&built, 32, 0), kind, sentence);
    }
}
