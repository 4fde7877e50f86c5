//! A matrix product of Ampere's kind: `cp.async` into swizzled stages, `ldmatrix`, `mma.sync`, a predicated store.
//! TensorKernel once, right at many sizes.

use colex_atom::{Arch, Ty};
use colex_ir::launch::Launch;
use colex_layout::{ComposedLayout, Layout};
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Arg, AtThread, Builder, Error, Fragment, RawMemory, TensorKernel};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;

const TILE: [i64; 3] = [64, 64, 32];
const STAGES: i64 = 3;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

fn tiled_mma() -> Result<TiledMma, Error> {
    Ok(TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        "(2,2,1):(1,2,0)",
        "(32,32,16)",
    )?)
}

/// `C = A B^T`, A `(M,K)` and B `(N,K)` with K contiguous, C `(M,N)` with N contiguous.
fn gemm() -> Result<TensorKernel, Error> {
    let [bm, bn, bk] = TILE;
    let mut k = Builder::new("gemm", Arch::Sm80, 128);
    let a = k.tensor("a", Ty::F16, "(4096,4096):(4096,_1)");
    let b = k.tensor("b", Ty::F16, "(4096,4096):(4096,_1)");
    let c = k.tensor("c", Ty::F32, "(4096,4096):(4096,_1)");
    let (tid, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let steps = (a.extent(1) + (bk - 1)) / bk;

    let shared: ComposedLayout = parsed("Sw<2,3,3> o 0 o (64,32,3):(32,1,2048)");
    let (sa, sb) = (
        k.shared_tensor(Ty::F16, shared.clone()),
        k.shared_tensor(Ty::F16, shared),
    );

    let fetch = TiledCopy::new(
        colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?,
        16,
        "(32,4):(4,1)",
        "(1,8):(0,1)",
    )?;
    let mma = tiled_mma()?;
    let matrix = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_a = TiledCopy::for_operand(matrix()?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(matrix()?, 16, &mma, Operand::B)?;

    let fetcher = fetch.at(&tid);
    let (to_a, to_b) = (fetcher.partition_dst(&sa), fetcher.partition_dst(&sb));
    let from_a = read_a.at(&tid).partition_src(&sa);
    let from_b = read_b.at(&tid).partition_src(&sb);
    let ra = k.fragment_of(&mma, Operand::A, [bm, bk]);
    let rb = k.fragment_of(&mma, Operand::B, [bn, bk]);
    let (into_a, into_b) = (ra.retile(&read_a), rb.retile(&read_b));
    let acc = k.accumulators(&mma, [bm, bn]);

    let (producer, consumer) = k.cp_async_pipeline(STAGES);
    let load = |k: &mut Builder, step: &colex_tensor::Index| {
        let stage = producer.acquire(k);
        let ga = a.local_tile((bm, bk), (&m, step));
        let gb = b.local_tile((bn, bk), (&n, step));
        k.copy_in_bounds(&fetch, &fetcher.partition_src(&ga), &to_a.at(3, &stage));
        k.copy_in_bounds(&fetch, &fetcher.partition_src(&gb), &to_b.at(3, &stage));
        producer.commit(k, &stage);
    };
    for stage in 0..STAGES - 1 {
        load(&mut k, &stage.into());
    }
    k.for_(0, &steps, 1, |k, step| {
        let stage = consumer.wait(k);
        load(k, &(step + (STAGES - 1)));
        let (sa, sb) = (from_a.at(3, &stage), from_b.at(3, &stage));
        k.copy(&read_a, &sa, &into_a);
        k.copy(&read_b, &sb, &into_b);
        k.mma(&mma, &acc, &ra, &rb, &acc);
        consumer.release(k, &stage);
    });

    // The last groups are empty tiles, but they are in flight still.
    producer.tail(&mut k);
    let store = TiledCopy::for_operand(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        &mma,
        Operand::C,
    )?;
    let gc = c.local_tile((bm, bn), (m, n));
    let to_c = store.at(&tid).partition_dst(&gc);
    let out: Fragment = acc.retile(&store);
    k.copy_in_bounds(&store, &out, &to_c);
    k.finish()
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

/// What its copies do to banks and sectors, from the very addresses.
#[test]
fn its_report() {
    let built = gemm().unwrap_or_else(|e| panic!("{e}"));
    insta::assert_snapshot!(built.report());
}

/// A built kernel may be kept in a static and used from any thread.
#[test]
fn a_built_kernel_is_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&gemm().unwrap_or_else(|e| panic!("{e}")));
}

/// Every instruction is located in the author's code, also those that the library adds.
#[test]
fn every_instruction_names_a_line_of_its_author() {
    let kernel = gemm().unwrap_or_else(|e| panic!("{e}")).kernel;
    assert_eq!(kernel.at.file(), file!());
    kernel.walk(&mut |stmt| assert_eq!(stmt.at.file(), file!(), "{:?} at {}", stmt.op, stmt.at));
}

fn number(i: usize) -> f16 {
    f16::from_f32(((i * 7919 + 13) % 17) as f32 / 8.0 - 1.0)
}

fn bytes<T>(values: &[T], of: impl Fn(&T) -> Vec<u8>) -> Vec<u8> {
    values.iter().flat_map(of).collect()
}

/// Leading dimensions above the extents, so that what lies between rows is seen if touched.
fn check(built: &TensorKernel, [m, n, k]: [usize; 3]) {
    let ld = k.next_multiple_of(8) + 8;
    let ldc = n + 3;
    let a: Vec<f16> = (0..m * ld).map(number).collect();
    let b: Vec<f16> = (0..n * ld).map(|i| number(i * 3 + 5)).collect();
    let mut memory = Memory::default();
    let mut upload = |data: &[u8]| {
        let at = memory.allocate(data.len() as u64).unwrap();
        memory.write(at, data).expect("allocated");
        at
    };
    let (at_a, at_b) = (
        upload(&bytes(&a, |x| x.to_le_bytes().to_vec())),
        upload(&bytes(&b, |x| x.to_le_bytes().to_vec())),
    );
    let at_c = upload(&bytes(&vec![-7.5f32; m * ldc], |x| {
        x.to_le_bytes().to_vec()
    }));
    let layouts: [Layout; 3] = [
        parsed(&format!("({m},{k}):({ld},_1)")),
        parsed(&format!("({n},{k}):({ld},_1)")),
        parsed(&format!("({m},{n}):({ldc},_1)")),
    ];
    let memories = [
        (at_a, m * ld * 2, Ty::F16),
        (at_b, n * ld * 2, Ty::F16),
        (at_c, m * ldc * 4, Ty::F32),
    ];
    let raw = |(address, bytes, ty)| RawMemory {
        address,
        bytes: bytes as u64,
        ty,
    };
    let given = memories.into_iter().map(raw).zip(&layouts);
    let given: Vec<Arg<'_>> = given
        .map(|(memory, layout)| Arg::raw(memory, layout))
        .collect();
    let arguments = built.arguments(&given).expect("the layouts fit");
    let grid = [m.div_ceil(64) as u32, n.div_ceil(64) as u32, 1];
    let launch = Launch::new(grid, 128).dynamic_shared(built.dynamic_shared());
    let options = SimOptions {
        events: true,
        ..SimOptions::default()
    };
    let run = simulate(&built.kernel, &launch, &arguments, &mut memory, &options);
    let run = run.unwrap_or_else(|fault| panic!("{m} x {n} x {k}: {fault}"));
    let checked = colex_proof::recorded::recorded(&run.events, 0).and_then(|run| run.check());
    checked.unwrap_or_else(|fault| panic!("{m} x {n} x {k}: {fault}"));
    let c = memory.read(at_c, (m * ldc * 4) as u64).expect("allocated");
    let c: Vec<f32> = c
        .chunks(4)
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect();
    for i in 0..m {
        for j in 0..ldc {
            let product = |l: usize| f32::from(a[i * ld + l]) * f32::from(b[j * ld + l]);
            let expected = if j < n {
                (0..k).map(product).sum()
            } else {
                -7.5
            };
            assert_eq!(c[i * ldc + j], expected, "({i},{j}) of {m} x {n} x {k}");
        }
    }
}

#[test]
fn built_once_it_is_right_at_many_sizes() {
    let built = gemm().unwrap_or_else(|e| panic!("{e}"));
    for size in [
        [64, 64, 32],
        [64, 64, 96],
        [100, 36, 40],
        [1, 1, 1],
        [130, 70, 77],
    ] {
        check(&built, size);
    }
}
