//! A matrix product of Hopper's kind: a producer warp with TMA and multicast, two consumer warpgroups with `wgmma`, the
//! result through `stmatrix` and a TMA store. Every number in it comes from a layout.

use colex_atom::{Arch, Major, SmemSwizzle, Ty, gmma_smem_atom};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_ir::{FenceKind, Type};
use colex_layout::{ComposedLayout, IntTuple, Layout, LayoutLeft};
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Arg, AtThread, Builder, Index, TensorKernel};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::bf16;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

/// Extents as blocks of the swizzle of 128 bytes, K-major.
fn swizzled(shape: &[i64]) -> ComposedLayout {
    let atom = gmma_smem_atom(Major::K, SmemSwizzle::B128, 16).expect("16 bits divide 128");
    let shape = IntTuple::flat(shape.iter().map(|n| (*n).into()));
    let atom = atom.position_independent().expect("a swizzle of addresses");
    atom.tile_to_shape(&shape, LayoutLeft)
        .expect("the atom divides the tile")
}

pub(crate) const TILE: [i64; 3] = [128, 128, 64];
const STAGES: i64 = 4;

/// `D = A B^T`: A `(M,K)` and B `(N,K)` with K contiguous, D `(M,N)` with N contiguous, all bf16.
pub(crate) fn gemm() -> Result<TensorKernel, Box<dyn std::error::Error>> {
    let [bm, bn, bk] = TILE;
    let mut k = Builder::new("gemm", Arch::Sm90a, 384);
    k.cluster([2, 1, 1]).min_blocks(1);
    let plan = colex_sched::pipeline::WarpSpecialized {
        cluster: [2, 1],
        ..colex_sched::pipeline::WarpSpecialized::cooperative(STAGES as usize, 1, 8)
    };
    let ring = k.pipeline_of(&plan);

    let (sa, sb) = (
        k.shared_tensor(Ty::Bf16, swizzled(&[bm, bk, STAGES])),
        k.shared_tensor(Ty::Bf16, swizzled(&[bn, bk, STAGES])),
    );
    let sd = k.shared_tensor(Ty::Bf16, swizzled(&[bm, 64, 2]));
    let like = "(4096,4096):(4096,_1)";
    let a = k.tma_tensor("a", Ty::Bf16, like, [bm, bk], swizzled(&[bm, bk]), 1);
    let b = k.tma_tensor("b", Ty::Bf16, like, [bn, bk], swizzled(&[bn, bk]), 2);
    let d = k.tma_tensor("d", Ty::Bf16, like, [64, 64], swizzled(&[64, 64]), 1);
    let tiles_m = k.index_argument("tiles_m", 1..1 << 20);
    let tiles_n = k.index_argument("tiles_n", 1..1 << 20);
    let steps = k.index_argument("steps", 1..1 << 24);

    let (tid, group, warp) = (k.thread(), k.uniform(128), k.uniform(32));
    let rank = k.cluster_rank(2);
    k.start_pipelines(&[&ring], true);
    let first = k.block_index(0) / 2;
    let last = k.within(tiles_m / 2 * &tiles_n, 1..1 << 22);
    let stride = k.grid_extent(0) / 2;
    let place = |number: &Index| [number / &tiles_n * 2 + &rank, number % &tiles_n];
    let is_producer = k.equal(&group, &2.into());

    let mma = TiledMma::new(
        colex_atom::mma("SM90_64x128x16_F32BF16BF16_SS")?,
        "(2,1,1):(1,0,0)",
        "(_,_,_)",
    )?;
    let store = TiledCopy::for_accumulator_atom(colex_atom::copy("SM90_U32x4_STSM_N")?, 16, &mma)?;
    let producer = |k: &mut Builder| {
        k.set_max_registers(false, 24);
        let first_warp = k.equal(&warp, &8.into());
        k.if_(first_warp, |k| {
            let one = k.elected();
            k.if_(one, |k| {
                let producer = k.tma_producer(&ring, a.tile_bytes() + b.tile_bytes());
                let mask = k.emit(|k| k.mov(Type::B16, 3));
                k.for_(first.clone(), &last, stride.clone(), |k, number| {
                    let [m, n] = place(number);
                    k.for_(0, &steps, 1, |k, step| {
                        let stage = producer.acquire(k);
                        let full = stage.barrier();
                        k.tma_load(&a, (&m, step), &sa.at(2, &stage), &full);
                        let at = [n.clone(), step.clone()];
                        k.tma_load_multicast(&b, &at, &sb.at(2, &stage), &full, &rank, mask);
                        producer.commit(k, &stage);
                    })
                });
                producer.tail(k);
            })
        })
    };

    let consumer = |k: &mut Builder| {
        k.set_max_registers(true, 240);
        let group = k.within(&group, 0..2);
        let tid = k.within(&tid, 0..256);
        let leader = &group * 128;
        let (da, db) = (
            k.gmma_operand(&mma, Operand::A, &sa, &leader),
            k.gmma_operand(&mma, Operand::B, &sb, &leader),
        );
        let to_shared = store.at(&tid).partition_dst(&sd);
        let acc = k.fragment_of(&mma, Operand::C, [bm, bn]);
        let lane = &tid % 128;
        let consumer = k.consumer(&ring, &lane);
        let stores = k.equal(&lane, &0.into());
        let barrier = &group + 1;
        k.for_(first.clone(), &last, stride.clone(), |k, number| {
            let [m, n] = place(number);
            k.for_(0, &steps, 1, |k, step| {
                let stage = consumer.wait(k);
                let more = k.less(&0.into(), step);
                let scale = more;
                k.wgmma_fence();
                k.wgmma_tile(&mma, &acc, &da.at(&stage), &db.at(&stage), scale);
                k.wgmma_commit();
                k.wgmma_wait(1);
                // What the step before has read is free now.
                consumer.release_behind(k, &stage, step);
            });
            k.wgmma_wait(0);
            consumer.release_rest(k, &steps);

            let out = k.convert(&acc, Ty::Bf16);
            for half in 0..bn / 64 {
                k.where_(stores, |ir| ir.bulk_wait(1, true));
                k.sync_named(&barrier, 128);
                let to = to_shared.at(3, half % 2);
                k.copy(&store, &out.values(32 * half, 32), &to);
                k.fence(FenceKind::ProxyAsyncShared);
                k.sync_named(&barrier, 128);
                k.if_(stores, |k| {
                    let buffer = [group.clone(), 0.into(), (half % 2).into()];
                    let mine = sd.local_tile((64, 64), &buffer);
                    let at = [&m * 2 + &group, &n * (bn / 64) + half];
                    k.tma_store(&d, &at, &mine);
                    k.bulk_commit();
                });
            }
        });
        k.where_(stores, |ir| ir.bulk_wait(0, false));
    };
    k.if_else(is_producer, producer, consumer);
    Ok(k.finish()?)
}

/// What the kernel becomes, instruction by instruction.
#[test]
fn its_text() {
    let built = gemm().unwrap_or_else(|e| panic!("{e}"));
    let text = built.kernel.ptx().unwrap_or_else(|e| panic!("{e}"));
    if let Ok(path) = std::env::var("COLEX_SHOW_PTX") {
        std::fs::write(path, &text).expect("a writable path");
    }
    insta::assert_snapshot!(text);
}

/// Every instruction is located in the author's code, also those that the library adds.
#[test]
fn every_instruction_names_a_line_of_its_author() {
    let kernel = gemm().unwrap_or_else(|e| panic!("{e}")).kernel;
    assert_eq!(kernel.at.file(), file!());
    kernel.walk(&mut |stmt| assert_eq!(stmt.at.file(), file!(), "{:?} at {}", stmt.op, stmt.at));
}

fn number(i: usize) -> bf16 {
    bf16::from_f32(((i * 7919 + 13) % 17) as f32 / 8.0 - 1.0)
}

fn bytes(values: &[bf16]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs it on the simulator: extents that tiles divide, and others whose edges TMA fills with zeros and leaves alone.
fn check(built: &TensorKernel, [m, n, k]: [usize; 3], blocks: u32) {
    let ld = k.next_multiple_of(8);
    let ldd = n.next_multiple_of(8);
    let a: Vec<bf16> = (0..m * ld).map(number).collect();
    let b: Vec<bf16> = (0..n * ld).map(|i| number(i * 3 + 5)).collect();
    let mut memory = Memory::default();
    let mut upload = |data: &[u8]| {
        let at = memory.allocate(data.len() as u64).unwrap();
        memory.write(at, data).expect("allocated");
        at
    };
    let (at_a, at_b) = (upload(&bytes(&a)), upload(&bytes(&b)));
    let at_d = upload(&bytes(&vec![bf16::from_f32(-7.5); m * ldd]));
    let map = |name: &str, rows: usize, columns: usize, ld: usize, address: u64| {
        let layout: Layout = parsed(&format!("({rows},{columns}):({ld},_1)"));
        let map = built
            .tensor_map(name, &layout)
            .unwrap_or_else(|e| panic!("{e}"));
        Argument::from(TensorMapArgument {
            map,
            address,
            encoded: None,
        })
    };
    let tiles = [m.div_ceil(256) * 2, n.div_ceil(128), k.div_ceil(64)];
    let mut given = vec![
        Arg::Value(map("a", m, k, ld, at_a)),
        Arg::Value(map("b", n, k, ld, at_b)),
        Arg::Value(map("d", m, n, ldd, at_d)),
    ];
    given.extend(tiles.map(|n| Arg::Value((n as u32).into())));
    let arguments = built.arguments(&given).unwrap_or_else(|e| panic!("{e}"));
    let launch = Launch::new(blocks, 384)
        .cluster(2)
        .dynamic_shared(built.dynamic_shared());
    let run = simulate(
        &built.kernel,
        &launch,
        &arguments,
        &mut memory,
        &SimOptions::default(),
    );
    run.unwrap_or_else(|fault| panic!("{m} x {n} x {k}: {fault}"));
    let d = memory.read(at_d, (m * ldd * 2) as u64).expect("allocated");
    let d: Vec<bf16> = d
        .chunks(2)
        .map(|x| bf16::from_le_bytes([x[0], x[1]]))
        .collect();
    for i in 0..m {
        for j in 0..ldd {
            let product = |l: usize| f32::from(a[i * ld + l]) * f32::from(b[j * ld + l]);
            let expected = if j < n {
                (0..k).map(product).sum()
            } else {
                -7.5
            };
            assert_eq!(
                d[i * ldd + j],
                bf16::from_f32(expected),
                "({i},{j}) of {m} x {n} x {k}"
            );
        }
    }
}

#[test]
fn built_once_it_is_right_at_many_sizes() {
    let built = gemm().unwrap_or_else(|e| panic!("{e}"));
    check(&built, [256, 128, 64], 2);
    check(&built, [300, 200, 328], 2);
}
