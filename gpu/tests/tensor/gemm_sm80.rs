//! A matrix product of Ampere's kind: `cp.async` into swizzled stages, `ldmatrix`, `mma.sync`, a predicated store.
//! Built once, right at many sizes.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, Built, Error, Fragment};
use colex_layout::ComposedLayout;
use colex_tiled::{Operand, TiledCopy, TiledMma};

const TILE: [i64; 3] = [64, 64, 32];
const STAGES: i64 = 3;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

fn tiled_mma() -> Result<TiledMma, Error> {
    Ok(TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        &parsed("(2,2,1):(1,2,0)"),
        &parsed("(32,32,16)"),
    )?)
}

/// `C = A B^T`, A `(M,K)` and B `(N,K)` with K contiguous, C `(M,N)` with N contiguous.
fn gemm() -> Result<Built, Error> {
    let [bm, bn, bk] = TILE;
    let mut k = Builder::new("gemm", Arch::Sm80, 128);
    let a = k.tensor("a", Ty::F16, &parsed("(4096,4096):(4096,_1)"))?;
    let b = k.tensor("b", Ty::F16, &parsed("(4096,4096):(4096,_1)"))?;
    let c = k.tensor("c", Ty::F32, &parsed("(4096,4096):(4096,_1)"))?;
    let (tid, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let steps = (a.extent(1) + (bk - 1)) / bk;

    let shared: ComposedLayout = parsed("Sw<2,3,3> o 0 o (64,32,3):(32,1,2048)");
    let (sa, sb) = (
        k.shared_tensor(Ty::F16, shared.clone())?,
        k.shared_tensor(Ty::F16, shared)?,
    );

    let fetch = TiledCopy::new(
        colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?,
        16,
        &parsed("(32,4):(4,1)"),
        &parsed("(1,8):(0,1)"),
    )?;
    let mma = tiled_mma()?;
    let matrix = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_a = TiledCopy::for_operand(matrix()?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(matrix()?, 16, &mma, Operand::B)?;

    let fetcher = fetch.at(&tid);
    let (to_a, to_b) = (fetcher.partition_dst(&sa)?, fetcher.partition_dst(&sb)?);
    let from_a = read_a.at(&tid).partition_src(&sa)?;
    let from_b = read_b.at(&tid).partition_src(&sb)?;
    let ra = k.fragment_of(&mma, Operand::A, [bm, bk])?;
    let rb = k.fragment_of(&mma, Operand::B, [bn, bk])?;
    let (into_a, into_b) = (ra.retile(&read_a)?, rb.retile(&read_b)?);
    let acc = k.accumulators(&mma, [bm, bn])?;

    let load = |k: &mut Builder, step: &colex_gpu::tensor::Index| -> Result<(), Error> {
        let stage = step % STAGES;
        let ga = a.local_tile(&[bm, bk], &[m.clone(), step.clone()])?;
        let gb = b.local_tile(&[bn, bk], &[n.clone(), step.clone()])?;
        k.copy_inside(
            &fetch,
            &fetcher.partition_src(&ga)?,
            &to_a.at(3, stage.clone())?,
        )?;
        k.copy_inside(&fetch, &fetcher.partition_src(&gb)?, &to_b.at(3, stage)?)?;
        k.cp_async_commit();
        Ok(())
    };
    for stage in 0..STAGES - 1 {
        load(&mut k, &stage.into())?;
    }
    k.for_(0, &steps, 1, |k, step| {
        k.cp_async_wait(STAGES as u32 - 2);
        k.sync();
        load(k, &(step + (STAGES - 1)))?;
        let stage = step % STAGES;
        let (sa, sb) = (from_a.at(3, &stage)?, from_b.at(3, &stage)?);
        k.copy(&read_a, &sa, &into_a)?;
        k.copy(&read_b, &sb, &into_b)?;
        k.mma(&mma, &acc, &ra, &rb, &acc)
    })?;

    let store = TiledCopy::for_operand(
        colex_atom::copy("UniversalCopy<uint32_t>")?,
        32,
        &mma,
        Operand::C,
    )?;
    let gc = c.local_tile(&[bm, bn], &[m, n])?;
    let to_c = store.at(&tid).partition_dst(&gc)?;
    let out: Fragment = acc.retile(&store)?;
    k.copy_inside(&store, &out, &to_c)?;
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
