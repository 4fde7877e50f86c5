//! Mistakes that once gave wrong numbers in silence, and one that was none: each is refused, right, or a fault.

use colex_atom::{Arch, SmemSwizzle, Ty};
use colex_gpu::Device;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{ScaleD, Type};
use colex_layout::{ComposedLayout, Layout};
use colex_tensor::{
    Arg, AtThread, Builder, Error, Index, RawMemory, Tensor, TensorKernel, TmaTensor,
};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use super::blocks;
use crate::refused;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

fn said<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.expect_err("it is refused");
    assert_eq!(error.at().file(), file!(), "the author's file is named");
    error.what()
}

/// A tiled copy of f32, `vector` of them an access.
fn tiled(threads: &str, vector: i64) -> TiledCopy {
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", 32 * vector));
    TiledCopy::new(atom.expect("a width"), 32, threads, ((1, vector), (0, 1)))
        .expect("a tiled copy")
}

fn mma(atom: &str, atoms: &str, tile: &str) -> TiledMma {
    let atom = colex_atom::mma(atom).expect("an atom");
    TiledMma::new(atom, atoms, tile).expect("a tiled MMA")
}

/// Runs a kernel of f32 tensors on one block: each is given as a layout and its elements; what the last one holds then.
fn run(built: &TensorKernel, threads: u32, tensors: &[(&Layout, Vec<f32>)]) -> Vec<f32> {
    let device = Device::simulator(Arch::Sm90a);
    let buffers: Vec<_> = tensors
        .iter()
        .map(|(_, data)| device.upload(data).expect("memory"))
        .collect();
    let given: Vec<Arg<'_>> = tensors
        .iter()
        .zip(&buffers)
        .map(|((layout, _), buffer)| Arg::tensor(buffer, layout))
        .collect();
    let arguments = built.arguments(&given).unwrap_or_else(|e| panic!("{e}"));
    let function = device.load(&built.kernel).unwrap_or_else(|e| panic!("{e}"));
    let launch = Launch::new(1, threads).dynamic_shared(built.dynamic_shared());
    device
        .launch(&function, launch, &arguments)
        .unwrap_or_else(|e| panic!("{e}"));
    let last = buffers.last().expect("a tensor");
    last.download().expect("it is there")
}

fn numbers(n: usize) -> Vec<f32> {
    (1..=n).map(|i| i as f32).collect()
}

/// Defect 1: 0 times any stride is a multiple of any vector.
#[test]
fn a_row_at_coordinate_0_takes_vectors() {
    let layout: Layout = parsed("(_4,1024):(_1024,_1)");
    let build = || -> Result<TensorKernel, Error> {
        let mut k = Builder::new("row", Arch::Sm80, 32);
        let (from, to) = (
            k.tensor("from", Ty::F32, &layout),
            k.tensor("to", Ty::F32, &layout),
        );
        let copy = tiled("(1,32):(0,1)", 4);
        let tid = k.thread();
        let tile = |t: &Tensor| t.local_tile((1, 128), (0, 0));
        let (from, to) = (
            copy.at(&tid).partition_src(&tile(&from)),
            copy.at(&tid).partition_dst(&tile(&to)),
        );
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&copy, &from, &held);
        k.copy_in_bounds(&copy, &held, &to);
        k.finish()
    };
    let built = build().unwrap_or_else(|e| panic!("{e}"));
    let found = run(
        &built,
        32,
        &[(&layout, numbers(4096)), (&layout, vec![0.0; 4096])],
    );
    assert_eq!(found[..128], numbers(128)[..]);
    assert!(found[128..].iter().all(|x| *x == 0.0));
}

/// Defect 2: the left neighbour of column 0 is outside, and not the end of the row before.
#[test]
fn a_coordinate_below_0_is_outside() {
    let layout: Layout = parsed("(_4,_32):(_32,_1)");
    let build = |rows: i64| -> Result<TensorKernel, Error> {
        let mut k = Builder::new("left", Arch::Sm80, 128);
        let (from, to) = (
            k.tensor("from", Ty::F32, &layout),
            k.tensor("to", Ty::F32, &layout),
        );
        let copy = tiled("(4,32):(32,1)", 1);
        let tid = k.thread();
        let at = [0.into(), 0.into()];
        let left = from.local_tile((4, 32), &at).offset_by((rows, -1));
        let from = copy.at(&tid).partition_src(&left);
        let to = copy.at(&tid).partition_dst(&to.local_tile((4, 32), &at));
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&copy, &from, &held);
        k.copy_in_bounds(&copy, &held, &to);
        k.finish()
    };
    for rows in [0, 1, -1] {
        let built = build(rows).unwrap_or_else(|e| panic!("{e}"));
        let found = run(
            &built,
            128,
            &[(&layout, numbers(128)), (&layout, vec![-7.5; 128])],
        );
        for (i, found) in (0..).zip(found) {
            let (row, column) = (i / 32 + rows, i % 32 - 1);
            let inside = (0..4).contains(&row) && column >= 0;
            let expected = if inside {
                (row * 32 + column + 1) as f32
            } else {
                0.0
            };
            assert_eq!(found, expected, "element {i}, {rows} rows below");
        }
    }
    // Nothing is asked where nothing can be below 0.
    let asks = |rows| {
        let built = build(rows).unwrap_or_else(|e| panic!("{e}"));
        built.kernel.ptx().expect("a text").matches("setp").count()
    };
    assert_eq!([asks(0), asks(-1), asks(1)], [1, 2, 2]);
}

fn warp() -> Builder {
    Builder::new("k", Arch::Sm80, 32)
}

/// Defect 2, a tile's number that may be below 0: it is asked for, and without a question it is refused.
#[test]
fn a_tile_before_the_first_is_outside() {
    let copy = tiled("(1,32):(0,1)", 1);
    let scene = |k: &mut Builder| {
        let a = k.tensor("a", Ty::F32, "(_64,_32):(_32,_1)");
        let (tid, m) = (k.thread(), k.block_index(0));
        let tile = a.local_tile((8, 32), (m - 1, 0));
        let part = copy.at(&tid).partition_src(&tile);
        let held = k.fragment_like(&part);
        (part, held)
    };
    assert_eq!(
        refused(warp(), scene, |k, (part, held)| k.copy(&copy, &part, &held)),
        "copy: a tile of 8 along mode 0 of a, whose extent is 64, begins at (r1 - 1) * 8 and need not lie inside: \
         `copy_in_bounds` asks, or `stated_inside` where a branch has asked"
    );
    let mut k = warp();
    let (part, held) = scene(&mut k);
    k.copy_in_bounds(&copy, &part, &held);
    let text = k.finish().expect("a kernel").kernel.ptx().expect("a text");
    assert!(
        text.contains("setp.gt.s32") || text.contains("setp.ge.s32"),
        "{text}"
    );
}

/// A vector of which some elements are outside is neither copied as a whole nor left out as a whole.
#[test]
fn a_vector_across_an_end_is_refused() {
    let copy = tiled("(32,1):(1,0)", 4);
    assert_eq!(
        refused(
            warp(),
            |k| k.tensor("a", Ty::F32, "(_64,_6):(_8,_1)"),
            |k, a| {
                let tile = a.local_tile((32, 4), (0, 1));
                let part = copy.at(&k.thread()).partition_src(&tile);
                let held = k.fragment_like(&part);
                k.copy_in_bounds(&copy, &part, &held);
            }
        ),
        "copy_in_bounds: a vector of 4 elements begins at 4 along mode 1 of a, and may lie across an end of 0..6: fewer elements \
         at a time, or an extent that 4 divides"
    );
}

fn hopper() -> Builder {
    Builder::new("k", Arch::Sm90a, 128)
}

/// A map of 64 by 64 bf16 in swizzled boxes.
fn map(k: &mut Builder) -> TmaTensor {
    let like = "(4096,4096):(4096,_1)";
    let tile = blocks(SmemSwizzle::B128, &[64, 64]);
    k.tma_tensor("a", Ty::Bf16, like, [64, 64], &tile, 1)
}

/// Defect 3: the tensor in shared memory is what the map fills.
#[test]
fn a_tile_in_shared_memory_is_the_maps() {
    let load = |k: &mut Builder, ty, layout: ComposedLayout| {
        let (a, full) = (map(k), k.barriers(1).at(0));
        let shared = k.shared_tensor(ty, layout);
        k.tma_load(&a, (0, 0), &shared, &full);
    };
    let said = |ty, layout: ComposedLayout| refused(hopper(), |_| (), |k, ()| load(k, ty, layout));
    let mut k = hopper();
    load(&mut k, Ty::Bf16, blocks(SmemSwizzle::B128, &[64, 64]));
    k.finish().expect("the map's own tile");
    assert_eq!(
        said(Ty::Bf16, blocks(SmemSwizzle::B64, &[64, 64])),
        "tma_load: a: the tensor in shared memory is Sw<2,3,3> o 0 o ((_8,_8),(_32,_2)):((_32,_256),(_1,_2048)), and the \
         map's tile Sw<3,3,3> o 0 o ((_8,8),(_64,1)):((_64,_512),(_1,0))"
    );
    assert_eq!(
        said(Ty::Bf16, parsed("(64,64):(64,1)")),
        "tma_load: a: the tensor in shared memory is (_64,_64):(_64,_1), and the map's tile Sw<3,3,3> o 0 o \
         ((_8,8),(_64,1)):((_64,_512),(_1,0))"
    );
    assert_eq!(
        said(Ty::F16, blocks(SmemSwizzle::B128, &[64, 64])),
        "tma_load: a: the tensor in shared memory has elements of f16, and the map's are bf16"
    );
    for shape in [[64, 128], [128, 64]] {
        assert!(
            said(Ty::Bf16, blocks(SmemSwizzle::B128, &shape))
                .starts_with("tma_load: a: the tensor in shared memory is")
        );
    }
    let global = |k: &mut Builder| {
        let full = k.barriers(1).at(0);
        let tensor = k.tensor("g", Ty::Bf16, "(64,64):(64,_1)");
        (map(k), tensor, full)
    };
    assert_eq!(
        refused(hopper(), global, |k, (a, g, full)| k.tma_load(
            &a,
            (0, 0),
            &g,
            &full
        )),
        "tma_load: a: the tile's other end is in shared memory"
    );
    assert_eq!(
        refused(hopper(), global, |k, (a, g, _)| k.tma_store(
            &a,
            (-1, 0),
            &g
        )),
        "tma_store: a: the tile's other end is in shared memory"
    );
}

/// Defect 3: a store before the tensor is an illegal instruction, a load gives zeros.
#[test]
fn nothing_is_stored_before_a_tensor() {
    let scene = |k: &mut Builder| {
        let (a, full) = (map(k), k.barriers(1).at(0));
        let shared = k.shared_tensor(Ty::Bf16, blocks(SmemSwizzle::B128, &[64, 64]));
        let m = k.block_index(0) - 1;
        k.tma_load(&a, (&m, 0), &shared, &full);
        (a, shared, m)
    };
    let mut k = hopper();
    scene(&mut k);
    k.finish().expect("zeros");
    assert_eq!(
        refused(hopper(), scene, |k, (a, shared, m)| k.tma_store(
            &a,
            (m, 0),
            &shared
        )),
        "tma_store: a: the coordinate r1 - 1 may be -1, and nothing is stored before a tensor"
    );
}

/// Found by a reader of the rules of TMA: a box that begins between two units of 16 bytes of a row ends the kernel on a GPU, and only the
/// simulator said so, at run time. The other modes may begin anywhere.
#[test]
fn a_box_begins_at_a_multiple_of_16_bytes() {
    let scene = |k: &mut Builder| {
        let (a, full) = (map(k), k.barriers(1).at(0));
        let shared = k.shared_tensor(Ty::Bf16, blocks(SmemSwizzle::B128, &[64, 64]));
        let n = k.index_argument("n", 0..4096);
        (a, shared, full, n)
    };
    let mut k = hopper();
    let (a, shared, full, n) = scene(&mut k);
    k.tma_load(&a.offset_by((&n, 0)), (1, 1), &shared, &full);
    k.tma_load(
        &a.offset_by((0, n.min(&500.into()) * 8)),
        (1, 1),
        &shared,
        &full,
    );
    k.finish()
        .expect("rows begin anywhere, and columns at multiples of 8");
    for by in [1, 2, 4] {
        let said = refused(hopper(), scene, |k, (a, shared, full, n)| {
            let columns = n.min(&500.into()) * by;
            k.tma_load(&a.offset_by((0, columns)), (1, 1), &shared, &full);
        });
        assert!(
            said.starts_with("tma_load: a: a box begins at element ")
                && said.ends_with(
                    " of the map's first dimension, which need not be a multiple of 8 elements, 16 bytes: a GPU ends the kernel at any other"
                ),
            "{said}"
        );
    }
    assert_eq!(
        refused(hopper(), scene, |k, (a, shared, _, _)| k.tma_store(
            &a.offset_by((0, 12)),
            (1, 0),
            &shared
        )),
        "tma_store: a: a box begins at element 12 of the map's first dimension, which need not be a multiple of 8 elements, 16 bytes: a \
         GPU ends the kernel at any other"
    );
}

/// Found by the mutants: of a tile that several blocks share, a store would write one block's slice.
#[test]
fn a_shared_tile_is_not_stored() {
    let tile = blocks(SmemSwizzle::B128, &[64, 64]);
    let scene = |k: &mut Builder| {
        let like = "(4096,4096):(4096,_1)";
        let map = k.tma_tensor("a", Ty::Bf16, like, [64, 64], &tile, 2);
        (map, k.shared_tensor(Ty::Bf16, tile.clone()))
    };
    assert_eq!(
        refused(hopper(), scene, |k, (a, shared)| k.tma_store(
            &a,
            (0, 0),
            &shared
        )),
        "tma_store: a is shared by 2 blocks, each of which loads a part of its tiles: a map that is stored to is of one block"
    );
    let third = refused(hopper(), scene, |k, (a, shared)| {
        k.cluster([4, 1, 1]);
        let (landed, rank) = (k.barriers(1), k.cluster_rank(4));
        let mask = k.emit(|ir| ir.mov(Type::B16, 0b1111));
        k.tma_load_multicast(&a, (0, 0), &shared, &landed.at(0), &rank, mask);
    });
    assert!(
        third.ends_with("lies from 0 to 3, and the blocks that share a tile have ranks 0 to 1")
            && third.starts_with("tma_load_multicast: a: the rank "),
        "{third}"
    );
}

/// Found by the mutants: a store writes whole units of 16 bytes, also behind the end of a row.
#[test]
fn rows_that_are_stored_are_whole_units() {
    let mut k = hopper();
    let a = map(&mut k);
    let tile = blocks(SmemSwizzle::B128, &[64, 64]);
    let shared = k.shared_tensor(Ty::Bf16, tile);
    k.tma_store(&a, (0, 0), &shared);
    let built = k.finish().expect("a kernel");
    assert!(built.tensor_map("a", "(100,96):(104,_1)").is_ok());
    assert_eq!(
        built
            .tensor_map("a", "(100,99):(104,_1)")
            .expect_err("half a unit")
            .to_string(),
        "tensor a: rows of (100,99):(104,_1) have 198 bytes, and a store writes whole units of 16: what lies behind a row would \
         be overwritten"
    );
}

/// Found by the mutants: what is written has one element for each coordinate.
#[test]
fn a_destination_has_a_place_for_every_element() {
    let copy = tiled("(4,8):(8,1)", 1);
    let scene = |k: &mut Builder| {
        let tile = k.shared_tensor(Ty::F32, "(8,8):(7,1)");
        let part = copy.at(&k.thread()).partition_dst(&tile);
        let held = k.fragment_like(&part);
        let twice = k.fragment(Ty::F32, "((_1,_2)):((_0,_0))");
        (part, held, twice)
    };
    assert!(
        refused(warp(), scene, |k, (part, held, _)| k
            .copy(&copy, &held, &part))
        .ends_with("has one element at several coordinates: which value stays would be a race")
    );
    assert!(
        refused(warp(), scene, |k, (part, _, twice)| k
            .copy(&copy, &part, &twice))
        .contains("has one element at several coordinates")
    );
    assert_eq!(
        refused(warp(), scene, |k, (_, held, twice)| {
            k.assign(&twice, &held + &held);
        }),
        "assign: ((_1,_2)):((_0,_0)) has one register for several elements, and none of them is read: only the last would stay"
    );
    let mut k = warp();
    let (_, held, _) = scene(&mut k);
    let to = k.tensor("to", Ty::F32, "(64,64):(64,1)");
    let tile = to.local_tile((8, 8), (k.block_index(0), 0));
    let part = copy.at(&k.thread()).partition_dst(&tile);
    k.copy_in_bounds(&copy, &held, &part);
    let built = k.finish().expect("a kernel");
    let memory = RawMemory {
        address: 0,
        bytes: 1 << 20,
        ty: Ty::F32,
    };
    assert_eq!(
        built
            .arguments(&[Arg::raw(memory, &parsed("(64,64):(32,1)"))])
            .expect_err("it overlaps")
            .to_string(),
        "tensor to: (64,64):(32,1) has one element at several coordinates, and the kernel writes it: which value stays would be \
         a race"
    );
}

/// Found by the mutants: parts of tiles of other extents, or of another tiled copy.
#[test]
fn both_ends_are_parts_of_one_tile_by_one_copy() {
    let (rows, columns) = (tiled("(4,8):(8,1)", 1), tiled("(8,4):(4,1)", 1));
    let scene = |k: &mut Builder| {
        let mut of = |shape: &str| k.shared_tensor(Ty::F32, shape);
        let (wide, tall) = (of("(8,16):(16,1)"), of("(16,8):(8,1)"));
        let part = rows.at(&k.thread()).partition_src(&wide);
        let held = k.fragment_like(&part);
        k.copy(&rows, &part, &held);
        (wide, tall, part, held)
    };
    assert_eq!(
        refused(warp(), scene, |k, (_, tall, _, held)| {
            let to = rows.at(&k.thread()).partition_dst(&tall);
            k.copy(&rows, &held, &to);
        }),
        "copy: the source is a part of a tile of [8, 16], and the destination of one of [16, 8]: both tiles have the same extents"
    );
    assert!(
        refused(warp(), scene, |k, (_, _, part, held)| k
            .copy(&columns, &part, &held))
        .starts_with("copy: the partition is of threads and values")
    );
    assert_eq!(
        refused(warp(), scene, |_, (wide, ..)| {
            wide.compose("(_8,_17):(_1,_8)");
        }),
        "compose: (_8,_17):(_1,_8) has indices beyond those of (_8,_16):(_16,_1), which are 0 to 127"
    );
}

/// The class of defect 1: a vector of a static layout is taken where all of its addresses are multiples, and refused only
/// where one is not.
#[test]
fn law_vectors_are_aligned() {
    let mut random = crate::index_laws::Random::new(11);
    let (mut cases, mut taken) = (0, 0);
    let copy = tiled("(1,4):(0,1)", 4);
    for _ in 0..6000 {
        let mut one = |most: i64| 1 + random.below(most);
        let (a, b) = (one(6), one(6));
        let (d, e) = (one(9) * [1, 2, 4][one(3) as usize - 1] - 5, one(40) - 20);
        let rows: Layout = match one(2) {
            1 => parsed(&format!("_{a}:_{d}")),
            _ => parsed(&format!("(_{a},_{b}):(_{d},_{e})")),
        };
        let at = match one(3) {
            1 => None,
            _ => Some(one(rows.size()) - 1),
        };
        let text = format!("({},_64):({},_1)", rows.shape(), rows.stride());
        let mut k = Builder::new("k", Arch::Sm80, 4);
        let tensor = k.tensor("a", Ty::F32, &text);
        let (tid, m) = (k.thread(), k.block_index(0));
        let m = k.within(m, 0..rows.size());
        let place = at.map_or(m, Index::from);
        let tile = tensor.local_tile((1, 16), (place, 2));
        let part = copy.at(&tid).partition_src(&tile);
        let held = k.fragment_like(&part);
        k.copy_in_bounds(&copy, &part, &held);
        let is_taken = k.finish().is_ok();
        let places = at.map_or(0..rows.size(), |at| at..at + 1);
        let is_aligned = places.clone().all(|i| rows.at(i).expect("a row") % 4 == 0);
        assert!(
            !is_taken || is_aligned,
            "{text} at {at:?}: a vector is not aligned"
        );
        if at.is_some() {
            assert_eq!(is_taken, is_aligned, "{text} at {at:?}");
        }
        cases += 1;
        taken += u32::from(is_taken);
    }
    assert!(taken > 500, "{taken} are taken");
    println!("law copies.vectors_are_aligned: {cases} cases");
}

/// Defect 3: what the barrier is told of is what arrives.
#[test]
fn a_barrier_is_told_of_the_bytes_that_arrive() {
    let build = |bytes: i64| {
        let mut k = hopper();
        let a = map(&mut k);
        let full = k.barriers(1).at(0);
        let tile = blocks(SmemSwizzle::B128, &[64, 64]);
        let shared = k.shared_tensor(Ty::Bf16, tile);
        k.arrive_expect(&full, bytes);
        k.tma_load(&a, (0, 0), &shared, &full);
        k.finish()
    };
    assert!(build(8192).is_ok());
    assert_eq!(
        said(build(4096)),
        "arrive_expect: the barrier is told of 4096 bytes, and the loads of the same body bring 8192"
    );
}

/// Defect 4: fragments are of the atom's types.
#[test]
fn a_product_takes_elements_of_its_own_type() {
    let halves = mma(
        "SM80_16x8x16_F32F16F16F32_TN",
        "(1,1,1):(0,0,0)",
        "(16,8,16)",
    );
    let other = mma(
        "SM80_16x8x16_F32BF16BF16F32_TN",
        "(1,1,1):(0,0,0)",
        "(16,8,16)",
    );
    let narrow = mma(
        "SM80_16x8x16_F16F16F16F16_TN",
        "(1,1,1):(0,0,0)",
        "(16,8,16)",
    );
    let scene = |k: &mut Builder| {
        let a = k.fragment_of(&halves, Operand::A, (16, 16));
        let b = k.fragment_of(&halves, Operand::B, (8, 16));
        let c = k.fragment_of(&halves, Operand::C, (16, 8));
        let wrong = k.fragment_of(&other, Operand::A, (16, 16));
        k.mma(&halves, &c, &a, &b, &c);
        k.mma(&halves, &c, &wrong.as_type(Ty::F16), &b, &c);
        (a, b, c, wrong)
    };
    let mut k = warp();
    scene(&mut k);
    k.finish().expect("both are of its types");
    assert_eq!(
        refused(warp(), scene, |k, (_, b, c, wrong)| k
            .mma(&halves, &c, &wrong, &b, &c)),
        "mma: A has elements of bf16, and SM80_16x8x16_F32F16F16F32_TN takes f16 (`convert` makes other elements, `as_type` \
         reads the same bits as others)"
    );
    assert!(
        refused(warp(), scene, |k, (a, b, ..)| {
            let sums = k.fragment_of(&narrow, Operand::C, (16, 8));
            k.mma(&halves, &sums, &a, &b, &sums);
        })
        .starts_with("mma: C has elements of f16")
    );
    assert_eq!(
        refused(warp(), scene, |_, (_, _, c, _)| drop(c.as_type(Ty::F16))),
        "as_type: 32 bits of f32 are not 16 bits of f16"
    );
}

/// A and B of one shape lie otherwise over the threads: each is taken in its own place. The changed kernels found it.
#[test]
fn a_product_takes_each_operand_in_its_place() {
    let square = mma("UniversalFMA<float>", "(4,4,1):(1,4,0)", "(4,4,1)");
    let begin = || Builder::new("k", Arch::Sm70, 16);
    let scene = |k: &mut Builder| {
        let (a, b) = (
            k.fragment_of(&square, Operand::A, (8, 4)),
            k.fragment_of(&square, Operand::B, (8, 4)),
        );
        let c = k.fragment_of(&square, Operand::C, (8, 8));
        k.mma(&square, &c, &a, &b, &c);
        (a, b, c)
    };
    let mut k = begin();
    scene(&mut k);
    k.finish().expect("each in its place");
    assert_eq!(
        refused(begin(), scene, |k, (a, b, c)| k
            .mma(&square, &c, &b, &a, &c)),
        "mma: the fragment for A was made for B"
    );
    assert_eq!(
        refused(begin(), scene, |k, (a, _, c)| k
            .mma(&square, &c, &a, &a, &c)),
        "mma: the fragment for B was made for A"
    );
}

/// Defect 4: an MMA, or a partition, of threads that the block does not have.
#[test]
fn threads_that_the_block_does_not_have() {
    let wide = mma(
        "SM80_16x8x16_F32F16F16F32_TN",
        "(4,2,1):(1,4,0)",
        "(64,16,16)",
    );
    let begin = || Builder::new("k", Arch::Sm80, 128);
    assert_eq!(
        refused(
            begin(),
            |_| (),
            |k, ()| {
                let a = k.fragment_of(&wide, Operand::A, (64, 16));
                let b = k.fragment_of(&wide, Operand::B, (16, 16));
                let c = k.fragment_of(&wide, Operand::C, (64, 16));
                k.mma(&wide, &c, &a, &b, &c);
            }
        ),
        "mma: SM80_16x8x16_F32F16F16F32_TN of 256 threads, the last of them number 255, in a block of 128"
    );
    let copied = |copy: &TiledCopy, k: &mut Builder, thread: &Index| {
        let tile = k.shared_tensor(Ty::F32, "(8,32):(32,1)");
        let part = copy.at(thread).partition_src(&tile);
        let held = k.fragment_like(&part);
        k.copy(copy, &part, &held);
    };
    let (all, few) = (tiled("(8,32):(32,1)", 1), tiled("(4,32):(32,1)", 1));
    assert_eq!(
        refused(begin(), Builder::thread, |k, tid| copied(&all, k, &tid)),
        "partition: the partition is of 256 threads, and at the thread index r0 no thread of the block of 128 is number 128"
    );
    let mut k = begin();
    let tid = k.thread();
    copied(&few, &mut k, &tid);
    k.finish().expect("all of them");
    assert_eq!(
        refused(begin(), |_| (), |k, ()| copied(&few, k, &0.into())),
        "partition: the partition is of 128 threads, and at the thread index 0 no thread of the block of 128 is number 1"
    );
    assert!(
        refused(begin(), Builder::thread, |k, tid| copied(
            &few,
            k,
            &(&tid / 2 * 2)
        ))
        .ends_with("no thread of the block of 128 is number 1")
    );
}

/// Defect 4, of `wgmma`: types, operands, warpgroups.
#[test]
fn descriptors_are_those_of_the_product() {
    let ss = |atom: &str, atoms| mma(atom, atoms, "(_,_,_)");
    let bf16 = ss("SM90_64x64x16_F32BF16BF16_SS", "(1,1,1):(0,0,0)");
    let f16 = ss("SM90_64x64x16_F32F16F16_SS", "(1,1,1):(0,0,0)");
    let two = ss("SM90_64x64x16_F32BF16BF16_SS", "(2,1,1):(1,0,0)");
    let tile = |k: &mut Builder, m| {
        let layout = blocks(SmemSwizzle::B128, &[m, 64]);
        k.shared_tensor(Ty::Bf16, layout)
    };
    let scene = |k: &mut Builder| {
        let leader = k.uniform(128) * 128;
        let shared = tile(k, 64);
        let a = k.gmma_operand(&bf16, Operand::A, &shared, &leader);
        let b = k.gmma_operand(&bf16, Operand::B, &shared, &leader);
        let d = k.fragment_of(&bf16, Operand::C, (64, 64));
        (leader, shared, a, b, d)
    };
    assert_eq!(
        refused(hopper(), scene, |k, (leader, shared, ..)| {
            k.gmma_operand(&f16, Operand::A, &shared, &leader);
        }),
        "gmma_operand: A has elements of bf16, and SM90_64x64x16_F32F16F16_SS takes f16 (`convert` makes other elements, `as_type` reads the same bits as others)"
    );
    assert_eq!(
        refused(hopper(), scene, |k, (leader, ..)| {
            let taller = tile(k, 128);
            k.gmma_operand(&two, Operand::A, &taller, &leader);
        }),
        "gmma_operand: SM90_64x64x16_F32BF16BF16_SS of 256 threads, the last of them number 255, in a block \
         of 128"
    );
    assert_eq!(
        refused(hopper(), scene, |k, (_, _, a, b, d)| {
            k.wgmma_tile(&bf16, &d, &b, &a, ScaleD::Zero);
        }),
        "wgmma_tile: the descriptors given as B of SM90_64x64x16_F32BF16BF16_SS are of A of \
         SM90_64x64x16_F32BF16BF16_SS, of 128 threads"
    );
    assert!(
        refused(hopper(), scene, |k, (_, _, a, b, d)| {
            k.wgmma_tile(&f16, &d, &a, &b, ScaleD::Zero);
        })
        .starts_with("wgmma_tile: the descriptors given as B of SM90_64x64x16_F32F16F16_SS")
    );
    assert!(
        refused(hopper(), scene, |k, (_, _, a, b, d)| {
            let wrong = k.convert(&d, Ty::Bf16);
            k.wgmma_tile(&bf16, &wrong, &a, &b, ScaleD::Zero);
        })
        .contains("C has elements of bf16")
    );
}

/// Elements of another type are converted, or said to be the same bits.
#[test]
fn a_copy_is_of_one_type() {
    let copy = tiled("(1,32):(0,1)", 1);
    let scene = |k: &mut Builder| {
        let tile = k.shared_tensor(Ty::F32, "(1,32):(32,1)");
        let part = copy.at(&k.thread()).partition_src(&tile);
        let held = k.fragment(Ty::S32, "_1:_0");
        k.copy(&copy, &part.as_type(Ty::S32), &held);
        (part, held)
    };
    assert_eq!(
        refused(warp(), scene, |k, (part, held)| k.copy(&copy, &part, &held)),
        "copy: elements of f32 into elements of s32: both are the same (`convert` makes other elements, `as_type` reads the \
         same bits as others)"
    );
}

/// Defect 5: what an uneven partition has beyond its tile is another element's.
#[test]
fn a_partition_beyond_its_tile_is_not_copied() {
    let tile: Layout = parsed("(_34,_66):(_66,_1)");
    let copy = tiled("(4,32):(32,1)", 1);
    let build = |inside: bool| -> Result<TensorKernel, Error> {
        let mut k = Builder::new("uneven", Arch::Sm80, 128);
        let (from, to) = (
            k.tensor("from", Ty::F32, &tile),
            k.tensor("to", Ty::F32, &tile),
        );
        let shared = k.shared_tensor(Ty::F32, tile.clone());
        let tid = k.thread();
        let mine = copy.at(&tid);
        let at = [0.into(), 0.into()];
        let source = mine.partition_src(&from.local_tile((34, 66), &at));
        let held = k.fragment_like(&source);
        k.copy_in_bounds(&copy, &source, &held);
        let there = mine.partition_dst(&shared);
        if inside {
            k.copy_in_bounds(&copy, &held, &there)
        } else {
            k.copy(&copy, &held, &there)
        }
        k.sync();
        let back = k.fragment_like(&there);
        k.copy_in_bounds(&copy, &mine.partition_src(&shared), &back);
        let target = mine.partition_dst(&to.local_tile((34, 66), &at));
        k.copy_if(&copy, &back, &target, |_, _| {
            colex_tensor::Cond::Known(true)
        });
        k.finish()
    };
    assert_eq!(
        said(build(false)),
        "copy: the partition of a tile of (34,66) reaches to (36,96), and what lies beyond the tile is another element's: \
         `copy_in_bounds` leaves it out"
    );
    let built = build(true).unwrap_or_else(|e| panic!("{e}"));
    let data = numbers(34 * 66);
    let found = run(
        &built,
        128,
        &[(&tile, data.clone()), (&tile, vec![0.0; 34 * 66])],
    );
    assert_eq!(found, data);
}

/// Defect 5, in global memory: what lies beyond a tile of an uneven partition is the next tile's.
#[test]
fn a_partition_does_not_reach_into_the_next_tile() {
    let whole: Layout = parsed("(_8,_40):(_40,_1)");
    let copy = tiled("(4,8):(8,1)", 1);
    let scene = |k: &mut Builder| {
        let to = k.tensor("to", Ty::F32, &whole);
        let tile = to.local_tile((8, 20), (0, 0));
        let part = copy.at(&k.thread()).partition_dst(&tile);
        let held = k.fragment_like(&part);
        k.fill(&held, 1.0);
        (part, held)
    };
    assert!(
        refused(warp(), scene, |k, (part, held)| k.copy(&copy, &held, &part))
            .starts_with("copy: the partition of a tile of (8,20) reaches to (8,24)")
    );
    let mut k = warp();
    let (part, held) = scene(&mut k);
    k.copy_in_bounds(&copy, &held, &part);
    let built = k.finish().expect("a kernel");
    let found = run(&built, 32, &[(&whole, vec![0.0; 320])]);
    for (i, x) in found.into_iter().enumerate() {
        assert_eq!(x, if i % 40 < 20 { 1.0 } else { 0.0 }, "element {i}");
    }
}

/// Without a question, dynamic extents are asked of the launch.
#[test]
fn tiles_without_a_question_divide_their_tensor() {
    let build = |stated: bool| -> Result<TensorKernel, Error> {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let from = k.tensor("from", Ty::F32, "(64,96):(96,_1)");
        let (tid, m) = (k.thread(), k.block_index(0));
        let copy = tiled("(4,8):(8,1)", 1);
        let tile = from.local_tile((12, 8), (m, 2));
        let tile = if stated { tile.stated_inside() } else { tile };
        let part = copy.at(&tid).partition_src(&tile);
        let held = k.fragment_like(&part);
        k.copy(&copy, &part, &held);
        k.finish()
    };
    let built = build(false).unwrap_or_else(|e| panic!("{e}"));
    let given = |built: &TensorKernel, layout: &str| {
        let memory = RawMemory {
            address: 0,
            bytes: 1 << 20,
            ty: Ty::F32,
        };
        let result = built.arguments(&[Arg::raw(memory, &parsed(layout))]);
        result.map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(given(&built, "(36,24):(24,_1)"), Ok(()));
    assert_eq!(
        given(&built, "(40,24):(24,_1)"),
        Err("tensor from: the extent 40 of (40,24):(24,_1) is not a multiple of 12, which the tiles of its copies need \
             (`copy_in_bounds` needs none)"
            .to_string())
    );
    assert_eq!(
        given(&built, "(36,23):(23,_1)"),
        Err("tensor from: the extent 23 of (36,23):(23,_1) is below 24, where the tiles of its copies end (`copy_in_bounds` \
             asks)"
            .to_string())
    );
    let stated = build(true).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(given(&stated, "(40,23):(23,_1)"), Ok(()));
}

/// Defect 6: arguments know their type, their length and their device.
#[test]
fn arguments_are_what_the_kernel_was_built_for() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    k.tensor("a", Ty::F16, "(8,8):(8,_1)");
    k.tensor("b", Ty::F32, "(8,8):(8,1)");
    k.index_argument("n", 1..100);
    k.scalar_argument("alpha", colex_ir::Type::F32);
    let built = k.finish().expect("a kernel");
    let device = Device::simulator(Arch::Sm80);
    let a = device.zeros::<half::f16>(64).expect("memory");
    let b = device.zeros::<f32>(64).expect("memory");
    let (rows, square): (Layout, Layout) = (parsed("(8,8):(8,_1)"), parsed("(8,8):(8,1)"));
    let backwards: Layout = parsed("(8,8):(-8,-1)");
    let n = || Arg::Value(Argument::U32(7));
    let alpha = || Arg::Value(Argument::F32(1.0));
    let check = |given: [Arg<'_>; 4]| match built.arguments(&given) {
        Ok(_) => "ok".to_string(),
        Err(e) => e.to_string(),
    };
    let (ga, gb) = (Arg::tensor(&a, &rows), Arg::tensor(&b, &square));
    let (ga, gb) = (|| ga.clone(), || gb.clone());
    assert_eq!(check([ga(), gb(), n(), alpha()]), "ok");
    assert_eq!(
        check([Arg::tensor(&b, &rows), gb(), n(), alpha()]),
        "tensor a: elements of f32, and the kernel is built for f16"
    );
    let half = b.slice(0..32).expect("a part");
    assert_eq!(
        check([ga(), Arg::tensor(&half, &square), n(), alpha()]),
        "tensor b: (8,8):(8,1) of f32 has bytes 0 to 255 from its origin, and the memory has 0 to 127"
    );
    assert_eq!(
        check([ga(), Arg::tensor(&b, &backwards), n(), alpha()]),
        "tensor b: (8,8):(-8,-1) of f32 has bytes -252 to 3 from its origin, and the memory has 0 to 255"
    );
    assert_eq!(
        check([
            ga(),
            Arg::tensor(&b, &backwards).from_element(63),
            n(),
            alpha()
        ]),
        "ok"
    );
    let other = Device::simulator(Arch::Sm80);
    let there = other.zeros::<f32>(64).expect("memory");
    assert_eq!(
        check([ga(), Arg::tensor(&there, &square), n(), alpha()]),
        "a buffer of the simulator of sm_80 and one of the simulator of sm_80: the arguments of a launch are of one device"
    );
    assert_eq!(
        check([ga(), gb(), Arg::Value(Argument::U32(100)), alpha()]),
        "argument n: 100, and the kernel takes 1 to 99"
    );
    assert_eq!(
        check([ga(), gb(), n(), Arg::Value(Argument::F64(1.0))]),
        "argument alpha: an f64, and the kernel takes f32"
    );
}

/// Blocks and clusters are those that threads and ranks were counted for.
#[test]
fn a_block_is_declared_once() {
    let mut k = Builder::new("k", Arch::Sm90a, 128);
    k.emit(|k| {
        k.block([256, 1, 1]);
    });
    assert_eq!(
        said(k.finish()),
        "finish: the block is declared as [256, 1, 1], and the kernel was begun for 128 threads along x"
    );
    let mut k = Builder::new("k", Arch::Sm90a, 128);
    k.cluster([4, 1, 1]);
    k.cluster_rank(2);
    assert_eq!(
        said(k.finish()),
        "finish: ranks are counted for clusters of 2 blocks, and clusters of 4 are declared"
    );
}

/// A place that a mode of shared memory need not have.
#[test]
fn a_stage_that_is_not_there() {
    let scene = |k: &mut Builder| {
        let stages = k.shared_tensor(Ty::F32, "(8,3):(1,8)");
        let step = k.block_index(0);
        stages.at(1, &step % 3);
        (stages, step)
    };
    let mut k = warp();
    scene(&mut k);
    k.finish().expect("it is there");
    assert_eq!(
        refused(warp(), scene, |_, (stages, step)| drop(
            stages.at(1, &step % 4)
        )),
        "at: the place r1 & 3 of the mode _3:_8 lies from 0 to 3, and there are places 0 to 2 (`within` says what no rule \
         finds)"
    );
    assert!(
        refused(warp(), scene, |_, (stages, step)| drop(
            stages.at(1, &step % 3 - 1)
        ))
        .contains("lies from -1 to 1")
    );
}
