//! Every call of the builder that takes an integer, with integers that it cannot mean.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use colex_atom::{Arch, Reduction, Taps, Ty};
use colex_gpu::Device;
use colex_ir::launch::{Launch, TensorMapArgument};
use colex_ir::{BinaryOp, FenceKind, Special, Type};
use colex_sched::pipeline::WarpSpecialized;
use colex_sched::{Order, RasterOrder};
use colex_tensor::{
    Arg, AtThread, Barriers, Builder, Cond, Expr, Fragment, Index, Producer, Rows, Tensor,
    TmaTensor,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

/// What no count, coordinate, width, rank or range is.
const NUMBERS: [i64; 8] = [
    i64::MIN,
    -1,
    0,
    77,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    i64::MAX,
];

/// A call with a number, a number that it is for, and the numbers of [`NUMBERS`] that it takes.
type Row = (&'static str, fn(&mut Builder, i64), i64, &'static [i64]);

fn mma() -> TiledMma {
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN").expect("an atom");
    TiledMma::new(atom, "(1,1,1):(0,0,0)", "(16,8,16)").expect("a tiled MMA")
}

fn tile(k: &mut Builder) -> Tensor {
    k.shared_tensor(Ty::F32, "(8,16):(16,1)")
}

fn index(n: i64) -> Index {
    Index::constant(n)
}

fn one(k: &mut Builder) -> Cond {
    let thread = k.thread();
    k.equal(&thread, &0.into())
}

/// A fragment of one f32 that only the kernel knows.
fn number(k: &mut Builder) -> Fragment {
    let thread = k.thread();
    k.map(Expr::from(thread).to(Ty::F32))
}

/// Two blocks of a cluster with a barrier.
fn pair(k: &mut Builder, arrivals: u32, call: impl FnOnce(&mut Builder, &Index)) {
    k.cluster([2, 1, 1]);
    let all = k.barriers(1);
    k.init_barriers(&all, arrivals);
    k.fence(FenceKind::MbarrierInit);
    k.cluster_sync();
    call(k, &all.at(0));
    k.cluster_sync();
}

/// A block with an mbarrier.
fn barrier(k: &mut Builder, arrivals: u32, call: impl FnOnce(&mut Builder, &Barriers)) {
    let all = k.barriers(2);
    k.init_barriers(&all, arrivals);
    k.fence(FenceKind::MbarrierInit);
    k.sync();
    call(k, &all);
}

fn mapped(k: &mut Builder) -> (TmaTensor, Tensor) {
    let slab = "(8,32):(32,1)";
    let map = k.tma_tensor("a", Ty::F32, "(256,256):(256,_1)", [8, 32], slab, 1);
    (map, k.shared_tensor(Ty::F32, slab))
}

/// The layout of a tile of 32 pixels and 8 channels.
const COLUMN: &str = "(32,8):(8,1)";

/// Loads a tile of activations: the tile `tile`, the channels `channels`, under the tap `tap` of three.
fn column(k: &mut Builder, tile: i64, channels: i64, tap: i64) {
    let x = k.im2col_tensor("x", Ty::F32, &[3], COLUMN, 1);
    let shared = k.shared_tensor(Ty::F32, COLUMN);
    barrier(k, 1, |k, all| {
        let first = one(k);
        k.if_(first, |k| {
            k.arrive_expect(&all.at(0), x.tile_bytes());
            let pixels = k.im2col_pixels(&x, &index(tile), &0.into());
            k.im2col_load(&x, &pixels, &index(channels), tap, &shared, &all.at(0));
        });
        k.wait(&all.at(0), &0.into());
    });
}

/// The second block brings its half of a column to both: the half of `rank`.
fn halves(k: &mut Builder, rank: [i64; 2]) {
    let x = k.im2col_tensor("x", Ty::F32, &[3], COLUMN, 2);
    let shared = k.shared_tensor(Ty::F32, COLUMN);
    let mask = k.emit(|ir| ir.mov(Type::U16, 3));
    let [of_pixels, of_load] = rank.map(index);
    pair(k, 1, |k, at| {
        let (first, rank, thread) = (one(k), k.cluster_rank(2), k.thread());
        k.if_(first, |k| k.arrive_expect(at, x.tile_bytes() / 2));
        let loads = k.equal(&(rank * 32 + thread), &32.into());
        k.if_(loads, |k| {
            let pixels = k.im2col_pixels(&x, &0.into(), &of_pixels);
            k.im2col_load_multicast(&x, &pixels, &0.into(), 0, &shared, at, (&of_load, mask));
        });
        k.wait(at, &0.into());
    });
}

/// A ring of two stages that the block's first warp fills.
fn ring(k: &mut Builder) -> Producer {
    let ring = k.pipeline(2, 32, 1);
    k.start_pipelines(&[&ring], false);
    k.producer(&ring)
}

/// A thread's part of a tile in global memory.
fn part(k: &mut Builder) -> Tensor {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(2,2):(2,1)").expect("a copy");
    let (tile, thread) = (global(k).local_tile((8, 16), (0, 0)), k.thread());
    copy.at(&thread).partition_dst(&tile)
}

fn start(k: &mut Builder, stages: i64, producers: u32, consumers: u32) {
    let ring = k.pipeline(stages, producers, consumers);
    k.start_pipelines(&[&ring], false);
}

/// A tensor in global memory.
fn global(k: &mut Builder) -> Tensor {
    k.tensor("b", Ty::F32, "(256,256):(256,_1)")
}

/// A consumer that releases stages behind its multiplies: `first` is the number of the first of eight steps, `steps` what it
/// says of their number.
fn consume(k: &mut Builder, first: i64, steps: i64) {
    *k = Builder::new("k", Arch::Sm90a, 384);
    let ring = k.pipeline_of(&WarpSpecialized::cooperative(4, 1, 8));
    k.start_pipelines(&[&ring], false);
    let (group, lane) = (k.uniform(128), k.thread() % 128);
    let produces = k.equal(&group, &2.into());
    k.if_else(
        produces,
        |k| {
            let one = k.equal(&lane, &0.into());
            k.if_(one, |k| {
                let producer = k.producer(&ring);
                k.for_(0, 8, 1, |k, _| {
                    let stage = producer.acquire(k);
                    producer.commit(k, &stage);
                });
            });
        },
        |k| {
            let consumer = k.consumer(&ring, &lane);
            k.for_(0, 8, 1, |k, step| {
                let stage = consumer.wait(k);
                consumer.release_behind(k, &stage, &(step + first));
            });
            consumer.release_rest(k, &index(steps));
        },
    );
}

/// Every call, by the name of the method.
fn rows() -> Vec<Row> {
    vec![
        (
            "accumulators",
            |k, n| drop(k.accumulators(&mma(), (n, 8))),
            16,
            &[77],
        ),
        (
            "accumulators",
            |k, n| drop(k.accumulators(&mma(), (16, n))),
            16,
            &[77],
        ),
        (
            "fragment_of",
            |k, n| drop(k.fragment_of(&mma(), Operand::A, (16, n))),
            16,
            &[77],
        ),
        (
            "identity_tensor",
            |k, n| drop(k.identity_tensor((n, 8))),
            16,
            &[77],
        ),
        (
            "tensor_moved_to",
            |k, n| {
                let thread = k.thread();
                let address = k.map(Expr::from(thread * 16).to(Ty::U64));
                let tensor = global(k);
                drop(k.tensor_moved_to(&tensor, &address, n));
            },
            16,
            &[],
        ),
        (
            "as_operand",
            |k, n| {
                let sums = k.accumulators(&mma(), (16, 16));
                let halves = k.convert(&sums, Ty::F16);
                drop(halves.as_operand(&mma(), &mma(), Operand::A, (16, n)));
            },
            16,
            &[],
        ),
        (
            "places",
            |k, n| {
                let thread = k.thread();
                let mma = mma();
                let places = mma.at(&thread).places(Operand::C, (16, n));
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((&places[0][0] % 8, 0)));
            },
            8,
            &[77],
        ),
        (
            "arrive_at",
            |k, n| {
                pair(k, 64, |k, at| k.arrive_at(at, &index(n), Cond::Known(true)));
            },
            1,
            &[0],
        ),
        (
            "release_at",
            |k, n| {
                pair(k, 64, |k, at| {
                    k.release_at(at, &index(n), Cond::Known(true))
                });
            },
            1,
            &[0],
        ),
        (
            "arrive_expect",
            |k, n| {
                barrier(k, 1, |k, all| {
                    let first = one(k);
                    k.if_(first, |k| k.arrive_expect(&all.at(0), n));
                });
            },
            0,
            &[0, 77],
        ),
        (
            "arrive_named",
            |k, n| {
                k.arrive_named(&index(n), 32);
            },
            1,
            &[0],
        ),
        (
            "arrive_named",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.arrive_named(&index(1), n);
                })
            },
            32,
            &[],
        ),
        ("sync_named", |k, n| k.sync_named(&index(n), 32), 1, &[0]),
        (
            "sync_named",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.sync_named(&index(1), n);
                })
            },
            32,
            &[],
        ),
        (
            "wait",
            |k, n| {
                barrier(k, 32, |k, all| {
                    k.arrive(&all.at(0));
                    k.wait(&all.at(0), &index(n));
                });
            },
            0,
            &[0],
        ),
        (
            "at",
            |k, n| barrier(k, 32, |k, all| k.arrive(&all.at(n))),
            1,
            &[0],
        ),
        (
            "at",
            |k, n| {
                let row = tile(k).at(0, n);
                let thread = k.thread();
                k.scatter(2.0, &row.elements(thread % 16));
            },
            7,
            &[0],
        ),
        ("barriers", |k, n| drop(k.barriers(n)), 3, &[77]),
        (
            "init_barriers",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    let all = k.barriers(1);
                    k.init_barriers(&all, n);
                })
            },
            32,
            &[77],
        ),
        (
            "block_index",
            |k, n| {
                of_type::<u8>(k, n, |k, n| {
                    k.block_index(n);
                })
            },
            2,
            &[0],
        ),
        (
            "thread_index",
            |k, n| {
                of_type::<u8>(k, n, |k, n| {
                    k.thread_index(n);
                })
            },
            2,
            &[0],
        ),
        (
            "grid_extent",
            |k, n| {
                of_type::<u8>(k, n, |k, n| {
                    k.grid_extent(n);
                })
            },
            2,
            &[0],
        ),
        (
            "cluster_rank",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.cluster([2, 1, 1]);
                    k.cluster_rank(n);
                })
            },
            2,
            &[],
        ),
        (
            "cluster",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.cluster([n, 1, 1]);
                })
            },
            2,
            &[],
        ),
        (
            "min_blocks",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.min_blocks(n);
                })
            },
            1,
            &[],
        ),
        (
            "max_registers",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.max_registers(n);
                })
            },
            64,
            &[77],
        ),
        (
            "set_max_registers",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    *k = Builder::new("k", Arch::Sm90a, 128);
                    k.min_blocks(1);
                    k.set_max_registers(false, n);
                })
            },
            40,
            &[],
        ),
        (
            "cp_async_wait",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.cp_async_commit();
                    k.cp_async_wait(n);
                })
            },
            1,
            &[0, 77, 1 << 31, (1 << 32) - 1],
        ),
        (
            "bulk_wait",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.bulk_commit();
                    k.bulk_wait(n, true);
                })
            },
            1,
            &[0, 77, 1 << 31, (1 << 32) - 1],
        ),
        (
            "wgmma_wait",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.wgmma_commit();
                    k.wgmma_wait(n);
                })
            },
            1,
            &[0, 77, 1 << 31, (1 << 32) - 1],
        ),
        (
            "uniform",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.uniform(n);
                })
            },
            32,
            &[1 << 31],
        ),
        (
            "index_of",
            |k, n| {
                let seven = k.emit(|ir| ir.mov(Type::U32, 7));
                let of = k.index_of(seven, 0..n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((of, 0)));
            },
            8,
            &[77],
        ),
        (
            "index_of",
            |k, n| {
                let seven = k.emit(|ir| ir.mov(Type::U32, 7));
                let of = k.index_of(seven, n..8);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((of, 0)));
            },
            7,
            &[-1, 0],
        ),
        (
            "index_with",
            |k, n| {
                let eight = k.emit(|ir| ir.mov(Type::U32, 4));
                let of = k.index_with(eight, 0..8, n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((of, 0)));
            },
            4,
            &[],
        ),
        (
            "special",
            |k, n| {
                let of = k.special(Special::LaneId, 0..n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((0, of)));
            },
            32,
            &[77],
        ),
        (
            "within",
            |k, n| {
                let thread = k.thread();
                let of = k.within(thread, 0..n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((0, of)));
            },
            32,
            &[77, 1 << 31, (1 << 32) - 1, 1 << 40, i64::MAX],
        ),
        (
            "within",
            |k, n| {
                let tile = tile(k);
                let of = k.within(n, 0..8);
                k.scatter(2.0, &tile.elements((of, 0)));
            },
            7,
            &[0],
        ),
        (
            "index_argument",
            |k, n| {
                let of = k.index_argument("n", 0..n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((of, 0)));
            },
            8,
            &[77],
        ),
        (
            "shared_bytes",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.shared_bytes(n, 16);
                })
            },
            100,
            &[0, 77],
        ),
        (
            "shared_bytes",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.shared_bytes(16, n);
                })
            },
            64,
            &[0],
        ),
        ("pipeline", |k, n| start(k, n, 32, 1), 2, &[77]),
        (
            "pipeline",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    start(k, 2, n, 1);
                })
            },
            32,
            &[77],
        ),
        (
            "pipeline",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    start(k, 2, 32, n);
                })
            },
            1,
            &[77],
        ),
        (
            "filled_by",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    let ring = k.pipeline(2, 1, 1).filled_by(n);
                    k.start_pipelines(&[&ring], false);
                })
            },
            32,
            &[77],
        ),
        (
            "relayed",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    let ring = k.pipeline(2, 32, 1);
                    let ring = k.relayed(ring, n);
                    k.start_pipelines(&[&ring], false);
                })
            },
            32,
            &[77],
        ),
        (
            "cp_async_pipeline",
            |k, n| drop(k.cp_async_pipeline(n)),
            2,
            &[77],
        ),
        (
            "tma_producer",
            |k, n| {
                let ring = k.pipeline(2, 1, 1);
                k.start_pipelines(&[&ring], false);
                let first = one(k);
                k.if_(first, |k| {
                    let producer = k.tma_producer(&ring, n);
                    let stage = producer.acquire(k);
                    producer.commit(k, &stage);
                });
            },
            1024,
            &[],
        ),
        (
            "tma_producer_of",
            |k, n| {
                let ring = k.pipeline(2, 1, 1);
                k.start_pipelines(&[&ring], false);
                let first = one(k);
                k.if_(first, |k| {
                    let producer = k.tma_producer_of(&ring, &index(n));
                    let stage = producer.acquire(k);
                    producer.commit(k, &stage);
                });
            },
            1024,
            &[],
        ),
        (
            "consumer",
            |k, n| {
                let ring = k.pipeline(2, 32, 1);
                k.start_pipelines(&[&ring], false);
                // One thread of the warp arrives: that whose number is 0.
                let lane = k.lane() + n;
                let (producer, consumer) = (k.producer(&ring), k.consumer(&ring, &lane));
                k.for_(0, 5, 1, |k, _| {
                    let stage = producer.acquire(k);
                    producer.commit(k, &stage);
                    let stage = consumer.wait(k);
                    consumer.release(k, &stage);
                });
            },
            0,
            &[0],
        ),
        ("skip", |k, n| ring(k).skip(k, &index(n)), 3, &[0, 77]),
        (
            "var",
            |k, n| {
                let var = k.var(n, 0..8);
                let now = k.get(&var);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((now, 0)));
            },
            7,
            &[0],
        ),
        (
            "var",
            |k, n| {
                let var = k.var(0, 0..n);
                let now = k.get(&var);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((now, 0)));
            },
            8,
            &[77],
        ),
        (
            "set",
            |k, n| {
                let var = k.var(0, 0..8);
                k.set(&var, n);
                let now = k.get(&var);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((now, 0)));
            },
            7,
            &[0],
        ),
        (
            "for_",
            |k, n| {
                let tile = tile(k);
                k.for_(0, n, 1, |k, i| k.scatter(2.0, &tile.elements((i, 0))));
            },
            8,
            &[-1, 0, 77],
        ),
        (
            "for_",
            |k, n| {
                let tile = tile(k);
                k.for_(n, 8, 1, |k, i| k.scatter(2.0, &tile.elements((i, 0))));
            },
            7,
            &[-1, 0, 77, 1 << 31],
        ),
        (
            "for_",
            |k, n| {
                let tile = tile(k);
                k.for_(0, 8, n, |k, i| k.scatter(2.0, &tile.elements((i, 0))));
            },
            3,
            &[77, 1 << 31, (1 << 32) - 1],
        ),
        (
            "for_vector",
            |k, n| {
                let x = tile(k);
                let thread = k.thread();
                k.for_vector(thread * n, &x.extent(1), n, |k, run| {
                    k.scatter(2.0, &run.of(&x, 0));
                });
            },
            4,
            &[],
        ),
        (
            "for_vector",
            |k, n| {
                let x = tile(k);
                k.for_vector(n, &x.extent(1), 4, |k, run| k.scatter(2.0, &run.of(&x, 0)));
            },
            12,
            &[-1, 0, 77, 1 << 31, (1 << 32) - 1, 1 << 40],
        ),
        (
            "reduce",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let x = number(k);
                    k.reduce(BinaryOp::Add, &x, n);
                })
            },
            0,
            &[0],
        ),
        (
            "reduce_along",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let part = part(k);
                    let x = k.fragment_like(&part);
                    k.fill(&x, 1.0);
                    k.reduce_along(BinaryOp::Add, &x, &part, n);
                })
            },
            1,
            &[0],
        ),
        (
            "reduce_cluster",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    k.cluster([2, 1, 1]);
                    let x = number(k);
                    k.reduce_cluster(BinaryOp::Add, &x, n);
                })
            },
            2,
            &[],
        ),
        (
            "values",
            |k, n| {
                let x = number(k);
                k.fill(&x.values(n, 1), 1.0);
            },
            0,
            &[0],
        ),
        (
            "values",
            |k, n| {
                let x = number(k);
                k.fill(&x.values(0, n), 1.0);
            },
            1,
            &[],
        ),
        (
            "gathered",
            |k, n| {
                let x = number(k);
                k.fill(&x.gathered(n, 1), 1.0);
            },
            0,
            &[0],
        ),
        (
            "gathered",
            |k, n| {
                let x = number(k);
                k.fill(&x.gathered(0, n), 1.0);
            },
            1,
            &[],
        ),
        (
            "vectors",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let tile = tile(k);
                    let thread = k.thread();
                    k.scatter(2.0, &tile.elements((thread % 8, 0)).vectors(n, 4));
                })
            },
            1,
            &[],
        ),
        (
            "vectors",
            |k, n| {
                let tile = tile(k);
                let thread = k.thread();
                k.scatter(2.0, &tile.elements((thread % 8, 0)).vectors(1, n));
            },
            4,
            &[],
        ),
        (
            "coordinate",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let part = part(k);
                    let x = k.map(Expr::coordinate(&part, n).to(Ty::F32));
                    drop(x);
                })
            },
            1,
            &[0],
        ),
        (
            "extent",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let extent = tile(k).extent(n);
                    k.var(extent, 0..100);
                })
            },
            1,
            &[0, 77, 1 << 31, (1 << 32) - 1, 1 << 40, i64::MAX],
        ),
        (
            "coordinates",
            |k, n| {
                let tile = global(k).local_tile((8, 16), (0, 0));
                let at = tile.coordinates(n);
                let to = k.tensor("c", Ty::F32, "(8,16,512):(8192,512,_1)");
                k.scatter(2.0, &to.elements((&at[0], &at[1], 0)));
            },
            9,
            &[0, 77],
        ),
        (
            "fixed_behind",
            |k, n| {
                let all = k.tensor("c", Ty::F32, "(8,16,512):(8192,512,_1)");
                k.scatter(2.0, &all.fixed_behind([n]).elements((0, 0)));
            },
            7,
            &[-1, 0, 77, 1 << 31, (1 << 32) - 1, 1 << 40],
        ),
        (
            "local_tile",
            |k, n| {
                let part = tile(k).local_tile((n, 4), (0, 0));
                k.scatter(2.0, &part.elements((0, 0)));
            },
            2,
            &[],
        ),
        (
            "local_tile",
            |k, n| {
                let part = tile(k).local_tile((2, 4), (n, 0));
                k.scatter(2.0, &part.elements((0, 0)));
            },
            3,
            &[0],
        ),
        (
            "narrow",
            |k, n| {
                let part = global(k).narrow(0, n, 8);
                k.scatter(2.0, &part.elements((0, 0)));
            },
            4,
            &[-1, 0, 77, 1 << 31, (1 << 32) - 1, 1 << 40],
        ),
        (
            "narrow",
            |k, n| {
                // The part ends with the tensor, which has 256 rows.
                let part = global(k).narrow(0, 0, n);
                k.scatter(2.0, &part.elements((256, 0)));
            },
            8,
            &[
                i64::MIN,
                -1,
                0,
                77,
                1 << 31,
                (1 << 32) - 1,
                1 << 40,
                i64::MAX,
            ],
        ),
        (
            "narrow",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let part = global(k).narrow(n, 0, 1);
                    k.scatter(2.0, &part.elements((0, 0)));
                })
            },
            1,
            &[0],
        ),
        (
            "offset_by",
            |k, n| {
                let part = global(k).local_tile((2, 4), (0, 0)).offset_by((n, 0));
                k.scatter(2.0, &part.elements((0, 0)));
            },
            3,
            &[-1, 0, 77, 1 << 31, (1 << 32) - 1, 1 << 40],
        ),
        (
            "elements",
            |k, n| {
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((n, 0)));
            },
            7,
            &[-1, 0, 77],
        ),
        (
            "tma_tensor",
            |k, n| {
                k.tma_tensor(
                    "a",
                    Ty::F32,
                    "(256,256):(256,_1)",
                    [8, 32],
                    "(8,32):(32,1)",
                    n,
                );
            },
            1,
            &[],
        ),
        (
            "tma_tensor",
            |k, n| {
                k.tma_tensor(
                    "a",
                    Ty::F32,
                    "(256,256):(256,_1)",
                    [n, 32],
                    "(8,32):(32,1)",
                    1,
                );
            },
            8,
            &[],
        ),
        (
            "narrowed_map",
            |k, n| {
                let (map, _) = mapped(k);
                k.narrowed_map(&map, 0, &index(n));
            },
            3,
            &[],
        ),
        (
            "narrowed_map",
            |k, n| {
                of_type::<usize>(k, n, |k, n| {
                    let (map, _) = mapped(k);
                    k.narrowed_map(&map, n, &index(3));
                })
            },
            1,
            &[0],
        ),
        (
            "tma_load",
            |k, n| {
                let (map, shared) = mapped(k);
                barrier(k, 1, |k, all| {
                    let first = one(k);
                    k.if_(first, |k| {
                        k.arrive_expect(&all.at(0), map.tile_bytes());
                        k.tma_load(&map, (n, 0), &shared, &all.at(0));
                    });
                    k.wait(&all.at(0), &0.into());
                });
            },
            1,
            &[-1, 0, 77],
        ),
        (
            "offset_by",
            |k, n| {
                let (map, shared) = mapped(k);
                barrier(k, 1, |k, all| {
                    let first = one(k);
                    k.if_(first, |k| {
                        k.arrive_expect(&all.at(0), map.tile_bytes());
                        k.tma_load(&map.offset_by((n, 0)), (0, 0), &shared, &all.at(0));
                    });
                    k.wait(&all.at(0), &0.into());
                });
            },
            3,
            &[0, 77],
        ),
        (
            "tma_load_multicast",
            |k, n| {
                let slab = "(8,32):(32,1)";
                let map = k.tma_tensor("a", Ty::F32, "(256,256):(256,_1)", [8, 32], slab, 2);
                let shared = k.shared_tensor(Ty::F32, slab);
                let mask = k.emit(|ir| ir.mov(Type::U16, 3));
                // The second block brings its half of the tile to both.
                pair(k, 1, |k, at| {
                    let (first, rank, thread) = (one(k), k.cluster_rank(2), k.thread());
                    k.if_(first, |k| k.arrive_expect(at, map.tile_bytes() / 2));
                    let loads = k.equal(&(rank * 32 + thread), &32.into());
                    k.if_(loads, |k| {
                        k.tma_load_multicast(&map, (0, 0), &shared, at, &index(n), mask);
                    });
                    k.wait(at, &0.into());
                });
            },
            1,
            &[0],
        ),
        (
            "im2col_tensor",
            |k, n| {
                k.im2col_tensor("x", Ty::F32, &[n], COLUMN, 1);
            },
            3,
            &[],
        ),
        (
            "im2col_tensor",
            |k, n| {
                k.im2col_tensor("x", Ty::F32, &[3], COLUMN, n);
            },
            1,
            &[],
        ),
        ("im2col_pixels", |k, n| column(k, n, 0, 0), 1, &[0, 77]),
        ("im2col_pixels", |k, n| halves(k, [n, 1]), 1, &[0]),
        ("im2col_load", |k, n| column(k, 0, n, 0), 0, &[0, 77]),
        ("im2col_load", |k, n| column(k, 0, 0, n), 2, &[0]),
        ("im2col_load_multicast", |k, n| halves(k, [1, n]), 1, &[0]),
        (
            "tma_load_hinted",
            |k, n| {
                let (map, shared) = mapped(k);
                let policy = k.emit(|ir| ir.mov(Type::U64, 0));
                barrier(k, 1, |k, all| {
                    let first = one(k);
                    k.if_(first, |k| {
                        k.arrive_expect(&all.at(0), map.tile_bytes());
                        k.tma_load_hinted(&map, (n, 0), &shared, &all.at(0), policy);
                    });
                    k.wait(&all.at(0), &0.into());
                });
            },
            1,
            &[-1, 0, 77],
        ),
        (
            "tma_store",
            |k, n| {
                let (map, shared) = mapped(k);
                let lane = k.lane();
                k.for_(0, 8, 1, |k, row| {
                    k.scatter(1.0, &shared.elements((row, &lane)))
                });
                k.fence(FenceKind::ProxyAsyncShared);
                k.sync();
                let first = one(k);
                k.if_(first, |k| {
                    k.tma_store(&map, (n, 0), &shared);
                    k.bulk_commit();
                    k.bulk_wait(0, false);
                });
            },
            1,
            &[0, 77],
        ),
        (
            "tma_reduce",
            |k, n| {
                let (map, shared) = mapped(k);
                let lane = k.lane();
                k.for_(0, 8, 1, |k, row| {
                    k.scatter(1.0, &shared.elements((row, &lane)))
                });
                k.fence(FenceKind::ProxyAsyncShared);
                k.sync();
                let first = one(k);
                k.if_(first, |k| {
                    k.tma_reduce(&map, Reduction::Add, (n, 0), &shared);
                    k.bulk_commit();
                    k.bulk_wait(0, false);
                });
            },
            1,
            &[0, 77],
        ),
        (
            "arrive",
            |k, n| barrier(k, 32, |k, all| k.arrive(&(all.at(0) + n))),
            8,
            &[0],
        ),
        (
            "bulk_load",
            |k, n| {
                let from = global(k).local_tile((1, 256), (0, 0));
                let to = k.shared_tensor(Ty::F32, "(1,256):(256,1)");
                barrier(k, 1, |k, all| {
                    let first = one(k);
                    k.if_(first, |k| {
                        k.arrive_expect(&all.at(0), 1024);
                        k.bulk_load(&from, &to, &(all.at(0) + n));
                    });
                    k.wait(&all.at(0), &0.into());
                });
            },
            0,
            &[0],
        ),
        ("release_behind", |k, n| consume(k, n, 8), 0, &[0]),
        // No step is left that a stage of the ring is not behind: fewer release less of it; more release all of it.
        ("release_rest", |k, n| consume(k, 0, n), 8, &NUMBERS),
        (
            "new",
            |k, n| {
                of_type::<u32>(k, n, |k, n| {
                    *k = Builder::new("k", Arch::Sm90a, n);
                })
            },
            32,
            &[77],
        ),
        (
            "new",
            |k, n| {
                let of = match Rows::new(&mma(), (16, n)) {
                    Ok(of) => of,
                    Err(_) => return refuse(k),
                };
                k.row_values(&of, Ty::F32);
            },
            8,
            &[77],
        ),
        (
            "tile_at",
            |k, n| {
                let order = Order::Grouped {
                    width: 8,
                    raster: RasterOrder::AlongN,
                };
                let Some(grid) = k.tile_grid(order, [4.into(), 4.into()]) else {
                    return refuse(k);
                };
                let [m, _] = k.tile_at(&grid, n);
                let tile = tile(k);
                k.scatter(2.0, &tile.elements((m, 0)));
            },
            3,
            &[0],
        ),
    ]
}

/// Calls with the number in the argument's type, or refuses the kernel where the type does not have it.
fn of_type<T: TryFrom<i64>>(k: &mut Builder, n: i64, call: impl FnOnce(&mut Builder, T)) {
    match T::try_from(n) {
        Ok(n) => call(k, n),
        Err(_) => refuse(k),
    }
}

/// Refuses the kernel: the number is none that the argument's type has.
fn refuse(k: &mut Builder) {
    k.shared_tensor(Ty::F32, "0:0");
}

/// What becomes of a kernel with one call: refused when it is built or launched, a fault of the simulator, or a run.
fn outcome(call: fn(&mut Builder, i64), n: i64) -> (&'static str, String) {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    call(&mut k, n);
    let built = match k.finish() {
        Ok(built) => built,
        Err(error) => return ("refused", error.what()),
    };
    if let Err(error) = built.kernel.verify() {
        return ("refused", error.to_string());
    }
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.upload(&vec![1f32; 256 * 256]).expect("memory");
    let layout = "(256,256):(256,_1)".parse().expect("a layout");
    let named = |name: &str| built.kernel.params.iter().any(|param| param.name == name);
    let mut given = Vec::new();
    if named("a") {
        let map = built.tensor_map("a", &layout).expect("a map");
        let argument = TensorMapArgument {
            map,
            address: memory.address(),
            encoded: None,
        };
        given.push(Arg::Value(argument.into()));
    }
    if named("x") {
        // Four images of 20 pixels with 8 channels.
        let of = built.im2col_arguments("x", "(8,20,4):(1,8,160)", &[Taps::new(3)]);
        let (map, numbers) = match of {
            Ok(of) => of,
            Err(error) => return ("refused", error.to_string()),
        };
        let argument = TensorMapArgument {
            map,
            address: memory.address(),
            encoded: None,
        };
        given.push(Arg::Value(argument.into()));
        given.extend(numbers.into_iter().map(|n| Arg::Value(n.into())));
    }
    if named("b") {
        given.push(Arg::tensor(&memory, &layout));
    }
    let cube = "(8,16,512):(8192,512,_1)".parse().expect("a layout");
    if named("c") {
        given.push(Arg::tensor(&memory, &cube));
    }
    if named("n") {
        given.push(Arg::Value(0_u32.into()));
    }
    let run = || -> Result<(), String> {
        let arguments = built.arguments(&given).map_err(|error| error.to_string())?;
        let function = device
            .load(&built.kernel)
            .map_err(|error| error.to_string())?;
        let threads = built.kernel.block.map_or(32, |[threads, ..]| threads);
        let mut launch = Launch::new(1, threads).dynamic_shared(built.dynamic_shared());
        if let Some([blocks, ..]) = built.kernel.cluster {
            launch = Launch::new(blocks, 32)
                .dynamic_shared(built.dynamic_shared())
                .cluster(blocks);
        }
        let ran = device.launch(&function, launch, &arguments);
        ran.and_then(|()| device.synchronize())
            .map_err(|error| error.to_string())
    };
    let written = || memory.download().expect("memory").contains(&2.0);
    match run() {
        // No element is the one of a coordinate that the tensor does not have.
        Ok(()) if !(0..256).contains(&n) && written() => ("wrong", String::new()),
        Ok(()) => ("right", String::new()),
        Err(why) => ("refused", why),
    }
}

#[test]
fn law_no_call_takes_an_integer_on_trust() {
    let mut wrong = Vec::new();
    let [mut cases, mut refused] = [0; 2];
    for (name, call, usual, right) in rows() {
        for n in NUMBERS.into_iter().chain([usual]) {
            cases += 1;
            let found = catch_unwind(AssertUnwindSafe(|| outcome(call, n)));
            let (found, why) = found.unwrap_or(("a panic", String::new()));
            refused += u32::from(found == "refused");
            let expected = if n == usual || right.contains(&n) {
                "right"
            } else {
                "refused"
            };
            if found != expected {
                wrong.push(format!("{name}({n}): {found} {why}"));
            }
        }
    }
    println!("law integers: {cases} cases, {refused} refused");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Methods with an integer that no kernel has, or whose law is elsewhere.
const ELSEWHERE: [(&str, &str); 18] = [
    (
        "address",
        "of any number of bytes; the verifier and the simulator check what uses it",
    ),
    (
        "checked",
        "the address is trusted: the description of the memory says so",
    ),
    ("block", "of a dump: which block prints"),
    ("constant", "any number"),
    ("equal", "any two numbers"),
    (
        "from_element",
        "checked with the memory by `TensorKernel::arguments`",
    ),
    (
        "gmma_operand",
        "the thread is compared with those of the atom, as by `partition`",
    ),
    ("input", "of a formula, evaluated on the host"),
    ("less", "any two numbers"),
    ("min", "any two numbers"),
    ("of", "the coordinates of `elements`"),
    (
        "narrowed_tensor_map",
        "of the host, compared with the kernel's tiles: `a_narrowed_map_has_limits`",
    ),
    (
        "operand",
        "any number of 32 bits; the lowering refuses others",
    ),
    ("select_less", "any two numbers"),
    ("thread", "of a dump: which thread prints"),
    (
        "value",
        "any number of 32 bits; the lowering refuses others",
    ),
    ("wide_value", "any number"),
    ("xor", "any two numbers"),
];

/// The public methods of the sources below a folder with an argument that is an integer or a coordinate.
fn methods_with_integers(folder: &Path, found: &mut BTreeSet<String>) {
    let integers = [
        ": i64",
        ": u64",
        ": u32",
        ": u8",
        ": usize",
        "Range<i64>",
        "[i64; ",
        "[u32; ",
        "&Index",
        "Into<Index>",
        "IntoIndices",
        "IntoCoordinates",
    ];
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            methods_with_integers(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        for method in text.split("\n    pub fn ").skip(1) {
            let end = method.find('{').unwrap_or(method.len());
            let head = method[..end].split("->").next().unwrap_or_default();
            if integers.iter().any(|integer| head.contains(integer)) {
                let name = head.split(['(', '<']).next().unwrap_or_default();
                found.insert(name.to_string());
            }
        }
    }
}

#[test]
fn every_call_with_an_integer_is_in_the_law() {
    let mut found = BTreeSet::new();
    methods_with_integers(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    let mut named: BTreeSet<String> = rows().iter().map(|row| row.0.to_string()).collect();
    named.extend(ELSEWHERE.iter().map(|(name, _)| name.to_string()));
    let missing: Vec<_> = found.difference(&named).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
    let unknown: Vec<_> = named.difference(&found).collect();
    assert!(unknown.is_empty(), "no method for {unknown:?}");
}
