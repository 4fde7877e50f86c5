//! Handles of another builder are refused by every method that takes one.

use colex_atom::{Arch, SmemSwizzle, Ty};
use colex_ir::{AtomicOp, BinaryOp};
use colex_sched::Order;
use colex_tensor::{
    AtThread, Barriers, Builder, Cond, Consumer, Expr, Fragment, GmmaOperand, Im2colPixels,
    Im2colTensor, Index, Mask, Pipeline, Producer, Relay, Rows, Stage, Tensor, TileGrid, TmaTensor,
    Var,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::{blocks, line_of, tiles};

/// Handles of every kind.
struct Scene {
    copy: TiledCopy,
    mma: TiledMma,
    gmma: TiledMma,
    rows: Rows,
    tid: Index,
    var: Var,
    cond: Cond,
    tensor: Tensor,
    shared: Tensor,
    part: Tensor,
    held: Fragment,
    sums: Fragment,
    a: Fragment,
    b: Fragment,
    wide: Fragment,
    map: TmaTensor,
    slab: Tensor,
    images: Im2colTensor,
    shared_images: Im2colTensor,
    pixels: Im2colPixels,
    column: Tensor,
    row: Tensor,
    operand: GmmaOperand,
    operand_a: GmmaOperand,
    bars: Barriers,
    full: Index,
    ring: Pipeline,
    producer: Producer,
    relay: Relay,
    consumer: Consumer,
    stage: Stage,
    grid: TileGrid,
    address: Fragment,
}

fn order() -> Order {
    "grouped 2 along m".parse().expect("an order")
}

fn scene(k: &mut Builder) -> Scene {
    let (copy, mma, gmma) = tiles();
    let tid = k.thread();
    let shared = k.shared_tensor(Ty::F32, "(8,64,2):(64,1,512)");
    let part = copy.at(&tid).partition_src(&shared.at(2, 0));
    let (own, stages) = (
        blocks(SmemSwizzle::B128, &[64, 64]),
        blocks(SmemSwizzle::B128, &[64, 64, 2]),
    );
    let slab = k.shared_tensor(Ty::Bf16, &own);
    let staged = k.shared_tensor(Ty::Bf16, stages);
    let bars = k.barriers(2);
    let ring = k.pipeline(2, 1, 1);
    let passed_on = k.pipeline(2, 32, 1);
    let passed_on = k.relayed(passed_on, 32);
    k.start_pipelines(&[&ring, &passed_on], false);
    let relay = k.relay(&passed_on);
    let (producer, consumer) = (k.tma_producer(&ring, 64), k.consumer(&ring, &tid));
    let stage = producer.acquire(k);
    producer.commit(k, &stage);
    let images = k.im2col_tensor("x", Ty::F32, &[3], "(32,8):(8,1)", 1);
    Scene {
        pixels: k.im2col_pixels(&images, &0.into(), &0.into()),
        images,
        shared_images: k.im2col_tensor("y", Ty::F32, &[3], "(32,8):(8,1)", 2),
        column: k.shared_tensor(Ty::F32, "(32,8):(8,1)"),
        rows: Rows::new(&mma, [64, 64]).expect("rows"),
        var: k.var(0, 0..4),
        cond: k.less(&tid, &7.into()),
        tensor: k.tensor("a", Ty::F32, "(64,64):(64,_1)"),
        held: k.fragment_like(&part),
        sums: k.accumulators(&mma, (64, 8)),
        a: k.fragment_of(&mma, Operand::A, (64, 16)),
        b: k.fragment_of(&mma, Operand::B, (8, 16)),
        wide: k.fragment_of(&gmma, Operand::C, (64, 64)),
        map: k.tma_tensor("m", Ty::Bf16, "(96,96):(96,_1)", [64, 64], own, 1),
        row: k.tensor("row", Ty::F32, "(4096):(_1)").local_tile(512, 0),
        operand: k.gmma_operand(&gmma, Operand::B, &staged, &0.into()),
        operand_a: k.gmma_operand(&gmma, Operand::A, &slab, &0.into()),
        full: bars.at(0),
        address: k.fragment(Ty::U64, "_1:_1"),
        grid: k
            .tile_grid(order(), [&tid + 1, 2.into()])
            .expect("a formula"),
        copy,
        mma,
        gmma,
        tid,
        shared,
        part,
        slab,
        bars,
        ring,
        producer,
        relay,
        consumer,
        stage,
    }
}

/// A call of a method with one handle of another builder, `t`, and others of its own, `s`.
type Case = (&'static str, fn(&mut Builder, &Scene, &Scene));

macro_rules! cases {
    ($($name:literal => |$k:ident, $s:ident, $t:ident| $call:expr;)*) => {
        vec![$(($name, |$k: &mut Builder, $s: &Scene, $t: &Scene| { let _ = (&$k, $s); let _ = $call; })),*]
    };
}

/// The word before the colon is the method; after it stands which of its handles is another builder's.
#[rustfmt::skip]
fn foreign() -> Vec<Case> {
    cases! {
        "value: index" => |k, s, t| k.value(&t.tid);
        "value: a part of it" => |k, s, t| k.value(&(&s.tid + &t.tid));
        "wide_value: index" => |k, s, t| k.wide_value(&t.tid);
        "operand: index" => |k, s, t| k.operand(&t.tid);
        "address: bytes" => |k, s, t| k.address(&t.tid, false);
        "less: a" => |k, s, t| k.less(&t.tid, &4.into());
        "less: b, known" => |k, s, t| k.less(&(-1).into(), &t.tid);
        "equal: a" => |k, s, t| k.equal(&t.tid, &4.into());
        "equal: b" => |k, s, t| k.equal(&500.into(), &t.tid);
        "var: first" => |k, s, t| k.var(&t.tid, 0..128);
        "get: var" => |k, s, t| k.get(&t.var);
        "set: var" => |k, s, t| k.set(&t.var, 1);
        "set: value" => |k, s, t| k.set(&s.var, &t.tid % 4);
        "variable: var" => |k, s, t| k.variable(&t.var);
        "touch: var" => |k, s, t| k.touch(&t.var);
        "if_: cond" => |k, s, t| k.if_(t.cond, |_| ());
        "if_else: cond" => |k, s, t| k.if_else(t.cond, |_| (), |_| ());
        "break_unless: cond" => |k, s, t| k.loop_(|k| { k.break_unless(t.cond) });
        "where_: cond" => |k, s, t| k.where_(t.cond, |_| ());
        "both: a" => |k, s, t| k.both(t.cond, s.cond);
        "both: b" => |k, s, t| k.both(s.cond, t.cond);
        "tensor_stated_at" => |k, s, t| k.tensor_stated_at(&t.address, Ty::F32, "4:1");
        "identity_tensor" => |k, s, t| k.identity_tensor((&t.tid + 1, 8));
        "tensor_moved_to: tensor" => |k, s, t| k.tensor_moved_to(&t.tensor, &s.address, 16);
        "tensor_moved_to: address" => |k, s, t| k.tensor_moved_to(&s.tensor, &t.address, 16);
        "within" => |k, s, t| k.within(&t.tid, 0..9);
        "same_extents" => |k, s, t| k.same_extents(&s.tensor, &t.tensor);
        "tile_grid" => |k, s, t| k.tile_grid(order(), [s.tid.clone(), &t.tid + 1]);
        "tile_at: grid" => |k, s, t| k.tile_at(&t.grid, &s.tid);
        "tile_at: place" => |k, s, t| k.tile_at(&s.grid, &t.tid);
        "for_: start" => |k, s, t| k.for_(&t.tid, 200, 1, |_, _| ());
        "for_: end" => |k, s, t| k.for_(0, &t.tid, 1, |_, _| ());
        "for_: step" => |k, s, t| k.for_(0, 9, &t.tid + 1, |_, _| ());
        "for_vector: first" => |k, s, t| k.for_vector(&t.tid, &200.into(), 4, |_, _| ());
        "for_vector: extent" => |k, s, t| k.for_vector(0, &t.tid, 4, |_, _| ());
        "scatter: values" => |k, s, t| k.scatter(&t.held, &s.shared.elements((0, 0, 0)));
        "scatter: to" => |k, s, t| k.scatter(0.0, &t.shared.elements((0, 0, 0)));
        "atomic: at" => |k, s, t| k.atomic(AtomicOp::Add, &t.shared.elements((0, 0, 0)), 1.0);
        "atomic: values" => |k, s, t| k.atomic(AtomicOp::Add, &s.shared.elements((0, 0, 0)), &t.held);
        "atomic_update: at" => |k, s, t| k.atomic_update(AtomicOp::Add, &t.shared.elements((0, 0, 0)), 1.0);
        "atomic_update: values" => |k, s, t| k.atomic_update(AtomicOp::Add, &s.shared.elements((0, 0, 0)), &t.held);
        "compare_and_swap: at" => |k, s, t| k.compare_and_swap(&t.shared.elements((0, 0, 0)), 1.0, 2.0);
        "compare_and_swap: expected" => |k, s, t| k.compare_and_swap(&s.shared.elements((0, 0, 0)), &t.held, 2.0);
        "compare_and_swap: new" => |k, s, t| k.compare_and_swap(&s.shared.elements((0, 0, 0)), 1.0, &t.held);
        "reduce_along: x" => |k, s, t| k.reduce_along(BinaryOp::Add, &t.held, &s.part, 0);
        "reduce_along: part" => |k, s, t| k.reduce_along(BinaryOp::Add, &s.held, &t.part, 0);
        "copy_producer: ring" => |k, s, t| k.copy_producer(&t.ring);
        "init_barriers: barriers" => |k, s, t| k.init_barriers(&t.bars, 1);
        "wait: barrier" => |k, s, t| k.wait(&t.full, &0.into());
        "wait: parity" => |k, s, t| k.wait(&s.full, &(&t.tid % 2));
        "arrive: barrier" => |k, s, t| k.arrive(&t.full);
        "arrive_at: barrier" => |k, s, t| k.arrive_at(&t.full, &0.into(), s.cond);
        "arrive_at: rank" => |k, s, t| k.arrive_at(&s.full, &t.tid, s.cond);
        "arrive_at: cond" => |k, s, t| k.arrive_at(&s.full, &0.into(), t.cond);
        "release_at: barrier" => |k, s, t| k.release_at(&t.full, &0.into(), s.cond);
        "release_at: rank" => |k, s, t| k.release_at(&s.full, &t.tid, s.cond);
        "release_at: cond" => |k, s, t| k.release_at(&s.full, &0.into(), t.cond);
        "arrive_expect: barrier" => |k, s, t| k.arrive_expect(&t.full, 64);
        "sync_named: id" => |k, s, t| k.sync_named(&(&t.tid % 4), 128);
        "arrive_named: id" => |k, s, t| k.arrive_named(&(&t.tid % 4), 128);
        "start_pipelines: rings" => |k, s, t| k.start_pipelines(&[&t.ring], false);
        "producer: ring" => |k, s, t| k.producer(&t.ring);
        "relayed: ring" => |k, s, t| k.relayed(t.ring.clone(), 32);
        "relay: ring" => |k, s, t| k.relay(&t.ring);
        "wait of a relay: self" => |k, s, t| t.relay.wait(k);
        "pass: self" => |k, s, t| t.relay.pass(k, &s.stage);
        "tma_producer_of: ring" => |k, s, t| k.tma_producer_of(&t.ring, &64.into());
        "tma_producer_of: bytes" => |k, s, t| k.tma_producer_of(&s.ring, &(&t.tid % 8 * 16 + 16));
        "tma_producer: ring" => |k, s, t| k.tma_producer(&t.ring, 64);
        "consumer: ring" => |k, s, t| k.consumer(&t.ring, &s.tid);
        "consumer: lane" => |k, s, t| k.consumer(&s.ring, &t.tid);
        "acquire: self" => |k, s, t| t.producer.acquire(k);
        "commit: self" => |k, s, t| t.producer.commit(k, &s.stage);
        "tail: self" => |k, s, t| t.producer.tail(k);
        "skip: self" => |k, s, t| t.producer.skip(k, &1.into());
        "skip: items" => |k, s, t| s.producer.skip(k, &t.tid);
        "wait of a consumer: self" => |k, s, t| t.consumer.wait(k);
        "held: self" => |k, s, t| t.consumer.held(k);
        "release: self" => |k, s, t| t.consumer.release(k, &s.stage);
        "release_behind: self" => |k, s, t| t.consumer.release_behind(k, &s.stage, &0.into());
        "release_rest: self" => |k, s, t| t.consumer.release_rest(k, &0.into());
        "fragment_like: part" => |k, s, t| k.fragment_like(&t.part);
        "fragment_unpacked: part" => |k, s, t| k.fragment_unpacked(&t.part);
        "copy: src" => |k, s, t| k.copy(&s.copy, &t.part, &s.held);
        "copy: dst" => |k, s, t| k.copy(&s.copy, &s.part, &t.held);
        "copy_in_bounds: src" => |k, s, t| k.copy_in_bounds(&s.copy, &t.part, &s.held);
        "copy_in_bounds: dst" => |k, s, t| k.copy_in_bounds(&s.copy, &s.held, &t.part);
        "copy_if: src" => |k, s, t| k.copy_if(&s.copy, &t.part, &s.held, |_, _| Cond::Known(true));
        "copy_if: dst" => |k, s, t| k.copy_if(&s.copy, &s.part, &t.held, |_, _| Cond::Known(true));
        "bulk_load: from" => |k, s, t| k.bulk_load(&t.row, &s.shared, &s.full);
        "bulk_load: to" => |k, s, t| k.bulk_load(&s.row, &t.shared, &s.full);
        "bulk_load: barrier" => |k, s, t| k.bulk_load(&s.row, &s.shared.slice((0, .., 0)), &t.full);
        "bulk_store: from" => |k, s, t| k.bulk_store(&t.shared, &s.row);
        "bulk_store: to" => |k, s, t| k.bulk_store(&s.shared, &t.row);
        "prefetch_map: tensor" => |k, s, t| k.prefetch_map(&t.map);
        "narrowed_map: tensor" => |k, s, t| k.narrowed_map(&t.map, 0, &8.into());
        "narrowed_map: extent" => |k, s, t| k.narrowed_map(&s.map, 0, &(&t.tid % 64 + 1));
        "tma_load: tensor" => |k, s, t| k.tma_load(&t.map, (0, 0), &s.slab, &s.full);
        "tma_load: at" => |k, s, t| k.tma_load(&s.map, (&t.tid, 0), &s.slab, &s.full);
        "tma_load: shared" => |k, s, t| k.tma_load(&s.map, (0, 0), &t.slab, &s.full);
        "tma_load: barrier" => |k, s, t| k.tma_load(&s.map, (0, 0), &s.slab, &t.full);
        "tma_load_hinted: tensor" => |k, s, t| { let p = k.emit(|k| k.mov(colex_ir::Type::B64, 0)); k.tma_load_hinted(&t.map, (0, 0), &s.slab, &s.full, p) };
        "tma_load_hinted: at" => |k, s, t| { let p = k.emit(|k| k.mov(colex_ir::Type::B64, 0)); k.tma_load_hinted(&s.map, (0, &t.tid), &s.slab, &s.full, p) };
        "tma_load_hinted: shared" => |k, s, t| { let p = k.emit(|k| k.mov(colex_ir::Type::B64, 0)); k.tma_load_hinted(&s.map, (0, 0), &t.slab, &s.full, p) };
        "tma_load_hinted: barrier" => |k, s, t| { let p = k.emit(|k| k.mov(colex_ir::Type::B64, 0)); k.tma_load_hinted(&s.map, (0, 0), &s.slab, &t.full, p) };
        "tma_load_multicast: tensor" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&t.map, (0, 0), &s.slab, &s.full, &0.into(), m) };
        "tma_load_multicast: at" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&s.map, (0, &t.tid), &s.slab, &s.full, &0.into(), m) };
        "tma_load_multicast: shared" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&s.map, (0, 0), &t.slab, &s.full, &0.into(), m) };
        "tma_load_multicast: barrier" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&s.map, (0, 0), &s.slab, &t.full, &0.into(), m) };
        "tma_load_multicast: rank" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&s.map, (0, 0), &s.slab, &s.full, &t.tid, m) };
        "im2col_pixels: tensor" => |k, s, t| k.im2col_pixels(&t.images, &0.into(), &0.into());
        "im2col_pixels: tile" => |k, s, t| k.im2col_pixels(&s.images, &t.tid, &0.into());
        "im2col_pixels: rank" => |k, s, t| k.im2col_pixels(&s.shared_images, &0.into(), &(&t.tid % 2));
        "im2col_load: tensor" => |k, s, t| k.im2col_load(&t.images, &s.pixels, &0.into(), 0, &s.column, &s.full);
        "im2col_load: pixels" => |k, s, t| k.im2col_load(&s.images, &t.pixels, &0.into(), 0, &s.column, &s.full);
        "im2col_load: channels" => |k, s, t| k.im2col_load(&s.images, &s.pixels, &t.tid, 0, &s.column, &s.full);
        "im2col_load: taps" => |k, s, t| k.im2col_load(&s.images, &s.pixels, &0.into(), &t.tid % 2, &s.column, &s.full);
        "im2col_load: shared" => |k, s, t| k.im2col_load(&s.images, &s.pixels, &0.into(), 0, &t.column, &s.full);
        "im2col_load: barrier" => |k, s, t| k.im2col_load(&s.images, &s.pixels, &0.into(), 0, &s.column, &t.full);
        "im2col_load_multicast: tensor" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&t.shared_images, &s.pixels, &0.into(), 0, &s.column, &s.full, (&0.into(), m)) };
        "im2col_load_multicast: pixels" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &t.pixels, &0.into(), 0, &s.column, &s.full, (&0.into(), m)) };
        "im2col_load_multicast: channels" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &s.pixels, &t.tid, 0, &s.column, &s.full, (&0.into(), m)) };
        "im2col_load_multicast: taps" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &s.pixels, &0.into(), &t.tid % 2, &s.column, &s.full, (&0.into(), m)) };
        "im2col_load_multicast: shared" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &s.pixels, &0.into(), 0, &t.column, &s.full, (&0.into(), m)) };
        "im2col_load_multicast: barrier" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &s.pixels, &0.into(), 0, &s.column, &t.full, (&0.into(), m)) };
        "im2col_load_multicast: rank" => |k, s, t| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.im2col_load_multicast(&s.shared_images, &s.pixels, &0.into(), 0, &s.column, &s.full, (&(&t.tid % 2), m)) };
        "tma_store: tensor" => |k, s, t| k.tma_store(&t.map, (0, 0), &s.slab);
        "tma_store: at" => |k, s, t| k.tma_store(&s.map, (&t.tid, 0), &s.slab);
        "tma_store: shared" => |k, s, t| k.tma_store(&s.map, (0, 0), &t.slab);
        "tma_reduce: tensor" => |k, s, t| k.tma_reduce(&t.map, colex_atom::Reduction::Add, (0, 0), &s.slab);
        "tma_reduce: at" => |k, s, t| k.tma_reduce(&s.map, colex_atom::Reduction::Add, (&t.tid, 0), &s.slab);
        "tma_reduce: shared" => |k, s, t| k.tma_reduce(&s.map, colex_atom::Reduction::Add, (0, 0), &t.slab);
        "map: expr" => |k, s, t| k.map(&t.held + 1.0);
        "assign: d" => |k, s, t| k.assign(&t.held, &s.held);
        "assign: expr" => |k, s, t| k.assign(&s.held, &t.held + &s.held);
        "assign: index" => |k, s, t| k.assign(&s.held, Expr::from(&t.tid).to(Ty::F32));
        "assign: condition" => |k, s, t| k.assign(&s.held, Mask::from(t.cond).select(&s.held, 0.0));
        "reduce: x" => |k, s, t| k.reduce(BinaryOp::Add, &t.held, 0);
        "reduce_all: x" => |k, s, t| k.reduce_all(BinaryOp::Add, &t.held);
        "reduce_warp: x" => |k, s, t| k.reduce_warp(BinaryOp::Add, &t.held);
        "reduce_block: x" => |k, s, t| k.reduce_block(BinaryOp::Add, &t.held);
        "reduce_cluster: x" => |k, s, t| k.reduce_cluster(BinaryOp::Add, &t.held, 1);
        "arg_reduce_block: x" => |k, s, t| k.arg_reduce_block(BinaryOp::Max, &t.held, &s.tid);
        "arg_reduce_block: numbers" => |k, s, t| k.arg_reduce_block(BinaryOp::Max, &s.held, &t.tid);
        "scan_block: x" => |k, s, t| k.scan_block(BinaryOp::Add, &t.held, false);
        "fill: d" => |k, s, t| k.fill(&t.held, 1.0);
        "clear: fragment" => |k, s, t| k.clear(&t.held);
        "mask: d" => |k, s, t| k.mask(&t.held, 0.0, |_, _| Cond::Known(false));
        "convert: from" => |k, s, t| k.convert(&t.held, Ty::F16);
        "convert to the same: from" => |k, s, t| k.convert(&t.held, Ty::F32);
        "reduce_rows: d" => |k, s, t| k.reduce_rows(BinaryOp::Add, &s.rows, &t.sums);
        "mma: d" => |k, s, t| k.mma(&s.mma, &t.sums, &s.a, &s.b, &s.sums);
        "mma: a" => |k, s, t| k.mma(&s.mma, &s.sums, &t.a, &s.b, &s.sums);
        "mma: b" => |k, s, t| k.mma(&s.mma, &s.sums, &s.a, &t.b, &s.sums);
        "mma: c" => |k, s, t| k.mma(&s.mma, &s.sums, &s.a, &s.b, &t.sums);
        "gmma_operand: shared" => |k, s, t| k.gmma_operand(&s.gmma, Operand::B, &t.slab, &0.into());
        "gmma_operand: thread" => |k, s, t| k.gmma_operand(&s.gmma, Operand::B, &s.slab, &t.tid);
        "wgmma_tile: d" => |k, s, t| k.wgmma_tile(&s.gmma, &t.wide, &s.operand_a, &s.operand.at(0), true);
        "wgmma_tile: a" => |k, s, t| k.wgmma_tile(&s.gmma, &s.wide, &t.operand_a, &s.operand.at(0), true);
        "wgmma_tile: b" => |k, s, t| k.wgmma_tile(&s.gmma, &s.wide, &s.operand_a, &t.operand.at(0), true);
        "wgmma_tile: accumulates" => |k, s, t| k.wgmma_tile(&s.gmma, &s.wide, &s.operand_a, &s.operand.at(0), t.cond);
        "wgmma_columns: d" => |k, s, t| k.wgmma_columns((&s.gmma, &s.gmma), &t.wide, &s.operand_a, &s.operand.at(0), true);
        "wgmma_columns: a" => |k, s, t| k.wgmma_columns((&s.gmma, &s.gmma), &s.wide, &t.operand_a, &s.operand.at(0), true);
        "wgmma_columns: b" => |k, s, t| k.wgmma_columns((&s.gmma, &s.gmma), &s.wide, &s.operand_a, &t.operand.at(0), true);
        "wgmma_columns: accumulates" => |k, s, t| k.wgmma_columns((&s.gmma, &s.gmma), &s.wide, &s.operand_a, &s.operand.at(0), t.cond);
        "GmmaOperand::at: stage" => |k, s, t| s.operand.at(&t.tid % 2);
        "local_tile: at" => |k, s, t| s.tensor.local_tile((8, 8), (&t.tid, 0));
        "Tensor::at: place" => |k, s, t| s.shared.at(2, &t.tid % 2);
        "slice: coord" => |k, s, t| s.shared.slice((.., .., &t.tid % 2));
        "offset_by: by" => |k, s, t| s.tensor.local_tile((8, 8), (0, 0)).offset_by((&t.tid, 0));
        "partition_src: thread" => |k, s, t| s.copy.at(&t.tid).partition_src(&s.shared.at(2, 0));
        "partition_dst: thread" => |k, s, t| s.copy.at(&t.tid).partition_dst(&s.shared.at(2, 0));
        "partition: thread" => |k, s, t| s.mma.at(&t.tid).partition(&s.slab, Operand::A);
    }
}

/// The public methods of the builder that take a handle, as their sources say.
fn methods() -> Vec<String> {
    const HANDLES: [&str; 18] = [
        "Index",
        "IntoIndices",
        "Var",
        "Cond",
        "Barriers",
        "Pipeline",
        "Tensor",
        "TmaTensor",
        "Im2colTensor",
        "Im2colPixels",
        "Fragment",
        "Expr",
        "GmmaOperand",
        "GmmaSource",
        "Piece",
        "Producer",
        "Consumer",
        "Stage",
    ];
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("sources") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).expect("text");
            for (begin, block) in text.match_indices("\nimpl Builder {\n") {
                let body = &text[begin + block.len()..];
                let body = &body[..body.find("\n}\n").unwrap_or(body.len())];
                for (at, word) in body.match_indices("    pub fn ") {
                    let signature = &body[at + word.len()..];
                    let signature = &signature[..signature.find(" {\n").unwrap_or(signature.len())];
                    let name: String = signature
                        .chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect();
                    let taken = signature.split("->").next().unwrap_or(signature);
                    let mut words = taken.split(|c: char| !c.is_alphanumeric() && c != '_');
                    if words.any(|word| HANDLES.contains(&word)) {
                        found.push(name);
                    }
                }
            }
        }
    }
    found
}

/// The methods whose handles cannot be another builder's in any way that matters, and why.
const OTHERS: [(&str, &str); 1] = [("not", "the condition is refused where it is used")];

#[test]
fn law_handles_of_another_builder_are_refused_at_the_call() {
    let cases = foreign();
    let begin = || Builder::new("k", Arch::Sm90a, 128);
    let mut wrong = Vec::new();
    for (name, call) in &cases {
        let (mut ours, mut theirs) = (begin(), begin());
        let s = scene(&mut ours);
        // One more parameter there: no register has the same number in both.
        theirs.index_argument("n", 0..9);
        let t = scene(&mut theirs);
        call(&mut ours, &s, &t);
        let why = "of another builder: a builder takes what it has made itself";
        match ours.finish() {
            Err(e)
                if e.what().ends_with(why)
                    && e.at().line() == line_of(include_str!("owners.rs"), name) => {}
            Err(e) => wrong.push(format!("{name}: {e}")),
            Ok(_) => wrong.push(format!("{name}: built")),
        }
        // The same handles are right in their own builder.
        let mut own = begin();
        let s = scene(&mut own);
        call(&mut own, &s, &s);
        if let Err(error) = own.finish() {
            assert!(!error.what().contains("another builder"), "{name}: {error}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let methods = methods();
    assert!(methods.len() > 40, "{methods:?}");
    for method in &methods {
        let is_listed = cases
            .iter()
            .any(|(name, _)| name.split(':').next() == Some(method))
            || OTHERS.iter().any(|(other, _)| other == method);
        assert!(is_listed, "no case for {method}");
    }
    println!(
        "law tensor.owners: {} cases, {} methods",
        cases.len(),
        methods.len()
    );
}
