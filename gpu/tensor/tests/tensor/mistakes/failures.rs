//! The one channel of errors: every call that fails is named by `finish` with its file and its line, and what it hands out
//! is inert.

use colex_atom::{Arch, Reduction, SmemSwizzle, Ty};
use colex_ir::{BinaryOp, ScaleD};
use colex_tensor::{
    AtThread, Builder, Cond, Fragment, GmmaOperand, Hints, Index, Rows, Tensor, TmaTensor,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::{blocks, line_of, tiles};

/// What calls are made on.
struct Scene {
    copy: TiledCopy,
    mma: TiledMma,
    gmma: TiledMma,
    rows: Rows,
    tid: Index,
    tensor: Tensor,
    shared: Tensor,
    part: Tensor,
    held: Fragment,
    sums: Fragment,
    map: TmaTensor,
    slab: Tensor,
    operand: GmmaOperand,
    full: Index,
}

fn scene(k: &mut Builder) -> Scene {
    let (copy, mma, gmma) = tiles();
    let tid = k.thread();
    let tensor = k.tensor("a", Ty::F32, "(64,64):(64,_1)");
    let shared = k.shared_tensor(Ty::F32, "(8,64,2):(64,1,512)");
    let part = copy.at(&tid).partition_src(&shared.at(2, 0));
    let held = k.fragment_like(&part);
    let own = blocks(SmemSwizzle::B128, &[64, 64]);
    let map = k.tma_tensor("m", Ty::Bf16, "(96,96):(96,_1)", [64, 64], &own, 1);
    let slab = k.shared_tensor(Ty::Bf16, own);
    Scene {
        rows: Rows::new(&mma, [64, 64]).expect("rows"),
        sums: k.accumulators(&mma, (64, 64)),
        operand: k.gmma_operand(&gmma, Operand::B, &slab, &0.into()),
        full: k.barriers(1).at(0),
        copy,
        mma,
        gmma,
        tid,
        tensor,
        shared,
        part,
        held,
        map,
        slab,
    }
}

/// A call that fails, and its name.
type Case = (&'static str, fn(&mut Builder, &Scene));

macro_rules! cases {
    ($($name:literal => |$k:ident, $s:ident| $call:expr;)*) => {
        vec![$(($name, |$k: &mut Builder, $s: &Scene| { let _ = $call; })),*]
    };
}

/// Calls of every method that can fail.
#[rustfmt::skip]
fn failing() -> Vec<Case> {
    cases! {
        "tensor" => |k, _s| k.tensor("x", Ty::U4, "8:1");
        "shared_tensor" => |k, _s| k.shared_tensor(Ty::U4, "8:1");
        "fragment" => |k, _s| k.fragment(Ty::F32, "_80000:_1");
        "fragment of a parameter" => |k, _s| k.fragment(Ty::F32, "8:1");
        "fragment_of" => |k, s| k.fragment_of(&s.mma, Operand::A, (0, 16));
        "tensor by a text" => |k, _s| k.tensor("x", Ty::F32, "(4,3):3");
        "shared_tensor by a text" => |k, _s| k.shared_tensor(Ty::F32, "(4,3):3");
        "fragment by a text" => |k, _s| k.fragment(Ty::F32, "(4,3):3");
        "tma_tensor by a text" => |k, _s| k.tma_tensor("y", Ty::F32, "(4,3):3", [4, 3], "(4,3):(3,1)", 1);
        "tma_tensor's tile by a text" => |k, _s| k.tma_tensor("y", Ty::F32, "(4,3):(4,1)", [4, 3], "(4,3):3", 1);
        "with_layout by a text" => |_k, s| s.held.with_layout("(4,3):3");
        "compose with a text" => |_k, s| s.part.compose("(4,3):3");
        "row_values" => |k, s| { k.row_values(&s.rows, Ty::F32); k.uniform(48) };
        "tma_tensor" => |k, s| k.tma_tensor("y", Ty::U4, s.tensor.layout(), [8], "8:1", 1);
        "var" => |k, _s| k.var(9, 0..4);
        "barriers" => |k, _s| k.barriers(-1);
        "shared_bytes" => |k, _s| k.shared_bytes(64, 100);
        "index_argument" => |k, _s| k.index_argument("n", 4..4);
        "pipeline_of" => |k, _s| k.pipeline_of(&colex_sched::pipeline::WarpSpecialized::cooperative(1, 1, 2));
        "acquire" => |k, _s| { let p = k.cp_async_pipeline(1).0; for _ in 0..2 { p.acquire(k); } };
        "wait" => |k, _s| k.cp_async_pipeline(2).1.wait(k);
        "for_" => |k, _s| k.for_(0, 8, 0, |_, _| ());
        "sync_named" => |k, _s| k.sync_named(&16.into(), 128);
        "arrive_named" => |k, _s| k.arrive_named(&1.into(), 31);
        "value" => |k, s| k.value(&(&s.tid * i64::MAX));
        "local_tile" => |_k, s| s.tensor.local_tile((8, 8), 0);
        "slice" => |_k, s| s.shared.slice((.., .., 2));
        "at" => |_k, s| s.shared.at(2, 2);
        "at beyond the last mode" => |_k, s| s.shared.at(5, 0);
        "offset_by" => |_k, s| s.shared.offset_by((1, 0, 0));
        "coordinates" => |_k, s| s.shared.coordinates(0);
        "compose" => |_k, s| s.part.compose("_9:_1");
        "as_type of a tensor" => |_k, s| s.shared.as_type(Ty::F16);
        "partition_src" => |_k, s| s.copy.at(&s.tid).partition_src(&s.tensor);
        "partition_dst" => |_k, s| s.copy.at(&(&s.tid + 1)).partition_dst(&s.shared);
        "partition" => |_k, s| s.mma.at(&s.tid).partition(&s.tensor, Operand::C);
        "as_type of a fragment" => |_k, s| s.held.as_type(Ty::F16);
        "as_type of another class" => |_k, s| s.held.as_type(Ty::S32);
        "slice of a fragment" => |_k, s| s.held.slice((.., .., &s.tid));
        "retile" => |_k, s| s.held.retile(&s.copy).values(0, 99);
        "values" => |_k, s| s.held.values(0, 99);
        "gathered" => |_k, s| s.held.gathered(0, 99);
        "as_operand" => |_k, s| s.sums.as_operand(&s.mma, &s.mma, Operand::C, (64, 64));
        "broadcast_rows" => |_k, s| s.rows.broadcast_rows(&s.sums);
        "convert" => |k, s| k.convert(&s.held, Ty::S4);
        "copy" => |k, s| k.copy(&s.copy, &s.part, &s.sums);
        "copy_in_bounds" => |k, s| k.copy_in_bounds(&s.copy, &s.part, &s.sums);
        "copy_if" => |k, s| k.copy_if(&s.copy, &s.part, &s.sums, |_, _| Cond::Known(true));
        "copy with hints" => |k, s| k.copy(Hints::default().on(&s.copy), &s.part, &s.sums);
        "mma" => |k, s| k.mma(&s.mma, &s.sums, &s.sums, &s.sums, &s.sums);
        "wgmma_tile" => |k, s| k.wgmma_tile(&s.mma, &s.sums, &s.sums, &s.operand, ScaleD::Zero);
        "wgmma_columns" => |k, s| k.wgmma_columns((&s.gmma, &s.mma), &s.sums, &s.sums, &s.operand, ScaleD::Zero);
        "gmma_operand" => |k, s| k.gmma_operand(&s.gmma, Operand::C, &s.slab, &0.into());
        "GmmaOperand::at" => |_k, s| s.operand.at(0);
        "narrowed_map" => |k, s| k.narrowed_map(&s.map, 2, &8.into());
        "tma_load" => |k, s| k.tma_load(&s.map, 0, &s.slab, &s.full);
        "tma_load_hinted" => |k, s| { let p = k.emit(|k| k.mov(colex_ir::Type::B64, 0)); k.tma_load_hinted(&s.map, 0, &s.slab, &s.full, p) };
        "tma_load_multicast" => |k, s| { let m = k.emit(|k| k.mov(colex_ir::Type::B16, 3)); k.tma_load_multicast(&s.map, (0, 0), &s.slab, &s.full, &0.into(), m) };
        "tma_store" => |k, s| k.tma_store(&s.map, (-1, 0), &s.slab);
        "tma_reduce" => |k, s| k.tma_reduce(&s.map, Reduction::Xor, (0, 0), &s.slab);
        "bulk_load" => |k, s| k.bulk_load(&s.shared, &s.shared, &s.full);
        "bulk_store" => |k, s| k.bulk_store(&s.shared, &s.shared);
        "map" => |k, s| k.map(&s.held + &s.sums);
        "assign" => |k, s| k.assign(&s.held, &s.sums);
        "fill" => |k, _s| { let f = k.fragment(Ty::S32, "_2:_1"); k.fill(&f, 0.5) };
        "mask" => |k, _s| { let f = k.fragment(Ty::S32, "_2:_1"); k.mask(&f, 0.5, |_, _| Cond::Known(false)) };
        "reduce_rows" => |k, s| k.reduce_rows(BinaryOp::Add, &s.rows, &s.held);
        "places" => |k, s| { let p = s.mma.at(&(&s.tid + 1)).places(Operand::C, (64, 64)); k.value(&p[0][0]) };
    }
}

fn begin() -> Builder {
    Builder::new("k", Arch::Sm90a, 128)
}

/// What is no layout is refused in the words of the layout algebra, by every method that takes one.
#[test]
fn a_text_that_is_no_layout_is_an_error_of_the_call() {
    let mut count = 0;
    for (name, call) in failing() {
        if !name.ends_with(" a text") {
            continue;
        }
        let mut k = begin();
        let s = scene(&mut k);
        call(&mut k, &s);
        let why = "the shape (4,3) and the stride 3 nest differently";
        assert_eq!(
            k.finish().map(|_| ()).expect_err(name).what(),
            why,
            "{name}"
        );
        count += 1;
    }
    assert_eq!(count, 7);
}

/// A failure is kept with the line of its call. No call after it panics, and none takes its place.
#[test]
fn law_finish_names_the_line_of_the_first_failure() {
    let mut k = begin();
    scene(&mut k);
    k.finish().expect("the scene is right");
    let (all, mut count) = (failing(), 0);
    for (name, call) in &all {
        let mut k = begin();
        let s = scene(&mut k);
        call(&mut k, &s);
        let first = k.finish().map(|_| ()).expect_err(name);
        assert!(
            first.at().file().ends_with("failures.rs"),
            "{name}: {first}"
        );
        assert_eq!(
            first.at().line(),
            line_of(include_str!("failures.rs"), name),
            "{name}: {first}"
        );
        // The same, and every other failing call and another scene after it, in a branch and a loop.
        let mut k = begin();
        let s = scene(&mut k);
        call(&mut k, &s);
        let tid = k.thread();
        let some = k.less(&tid, &1.into());
        k.if_(some, |k| {
            for (_, other) in &all {
                other(k, &s);
                count += 1;
            }
            k.for_(0, 4, 1, |k, _| {
                scene(k);
            });
        });
        assert_eq!(k.finish().map(|_| ()).expect_err(name), first, "{name}");
    }
    println!("law tensor.first_failure: {count} cases");
}
