//! The Volta GEMM: four forms of one instruction, and quad-pairs side by side.
//!
//! Run it with `cargo run -p colex-book --example kernel_volta`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmProblem, Major};
use colex_gpu::tensor::{self, AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    before()?;
    forms();
    own()?;
    own_report()?;
    after()?;
    refused()?;
    exercise_3()?;
    Ok(())
}

/// Counts what the SIMT kernel does.
fn before() -> Result<(), Box<dyn Error>> {
    println!("\n== before ==");
    // ANCHOR: before
    /// Instructions of warps, and passes over the banks of shared memory.
    fn count(method: GemmMethod) -> Result<(u64, u64), colex_gpu::Error> {
        let device = Device::simulator(Arch::Sm70);
        let problem = GemmProblem::new(256, 256, 256);
        let (a, b) = (
            device.zeros::<f16>(256 * 256)?,
            device.zeros::<f16>(256 * 256)?,
        );
        let mut c = device.poisoned::<f16>(256 * 256)?;
        let call = problem.on(&a, &b, &mut c)?.method(method).prepare()?;
        let report = call.profile(&device)?.remove(0);
        Ok((
            report.instructions,
            report.lines.iter().map(|line| line.passes).sum(),
        ))
    }

    for method in [GemmMethod::Simt, GemmMethod::Volta] {
        let (instructions, passes) = count(method)?;
        println!("{method:?}: {instructions} instructions, {passes} passes");
    }
    // ANCHOR_END: before
    Ok(())
}

/// Compares the four forms of the instruction.
fn forms() {
    // ANCHOR: forms
    let forms = ["TN", "NT", "NN", "TT"];
    let held = forms.map(|form| {
        let atom = colex_atom::mma(&format!("SM70_8x8x4_F32F16F16F32_{form}")).expect("a row");
        let traits = atom.traits();
        (traits.a.to_string(), traits.b.to_string())
    });
    let (by_k, by_m) = ("(_8,_4):(_1,_8)", "((_4,_2),_4):((_8,_4),_1)");
    let expected = [(by_k, by_k), (by_m, by_m), (by_m, by_k), (by_k, by_m)];
    assert_eq!(held, expected.map(|(a, b)| (a.to_string(), b.to_string())));
    // ANCHOR_END: forms
}

// ANCHOR: volta
/// C = A B^T of halves by quad-pairs, with rows of the slabs `row` halves apart.
fn volta(row: i64) -> Result<TensorKernel, tensor::Error> {
    let mut k = Builder::new("volta", Arch::Sm70, 256);
    let matrix: Layout = "(1024,1024):(1024,_1)".parse()?;
    let a = k.tensor("a", Ty::F16, &matrix);
    let b = k.tensor("b", Ty::F16, &matrix);
    let c = k.tensor("c", Ty::F32, &matrix);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let mma = colex_atom::mma("SM70_8x8x4_F32F16F16F32_TN")?;
    // ((quad-pairs, warps) along M, the same along N): quad-pairs 1 and 2 apart, warps 4 and 8.
    let mma = TiledMma::new(mma, "((2,2),(2,4),1):((1,4),(2,8),0)", (.., .., ..))?;
    assert_eq!((mma.threads(), mma.tile_shape()), (256, [32, 64, 4]));

    let rows = Layout::new((64, 32), (row, 1))?; // K is contiguous, as in global memory
    let sa = k.shared_tensor(Ty::F16, rows.clone());
    let sb = k.shared_tensor(Ty::F16, rows);
    let (eight, four) = ("UniversalCopy<uint128_t>", "UniversalCopy<uint64_t>");
    let eight = TiledCopy::new(colex_atom::copy(eight)?, 16, "(64,4):(4,1)", "(1,8):(0,1)")?;
    let read_a = TiledCopy::for_operand(colex_atom::copy(four)?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(colex_atom::copy(four)?, 16, &mma, Operand::B)?;
    // ANCHOR_END: volta
    // ANCHOR: volta_loop
    let into_sa = eight.at(&thread).partition_dst(&sa); // (CPY, CPY_M, CPY_K)
    let into_sb = eight.at(&thread).partition_dst(&sb); // (CPY, CPY_N, CPY_K)
    let from_sa = read_a.at(&thread).partition_src(&sa); // (CPY, CPY_M, CPY_K)
    let from_sb = read_b.at(&thread).partition_src(&sb); // (CPY, CPY_N, CPY_K)
    let ra = k.fragment_of(&mma, Operand::A, [64, 32]); // (MMA, MMA_M, MMA_K)
    let rb = k.fragment_of(&mma, Operand::B, [64, 32]); // (MMA, MMA_N, MMA_K)
    let sums = k.accumulators(&mma, [64, 64]); // (MMA, MMA_M, MMA_N)
    let steps = (a.extent(1) + 31) / 32;
    k.for_(0, &steps, 1, |k, step| {
        for (matrix, row, to) in [(&a, &m, &into_sa), (&b, &n, &into_sb)] {
            let slab = matrix.local_tile((64, 32), (row, step)); // (BLK_M, BLK_K)
            let from = eight.at(&thread).partition_src(&slab); // (CPY, CPY_M, CPY_K)
            let held = k.fragment_like(&from);
            k.copy_in_bounds(&eight, &from, &held);
            k.copy(&eight, &held, to);
        }
        k.sync();
        k.copy(&read_a, &from_sa, &ra.retile(&read_a));
        k.copy(&read_b, &from_sb, &rb.retile(&read_b));
        k.mma(&mma, &sums, &ra, &rb, &sums);
        k.sync();
    });
    let tile = c.local_tile((64, 64), (m, n)); // (BLK_M, BLK_N)
    let pair = colex_atom::copy("UniversalCopy<uint64_t>")?;
    let store = TiledCopy::for_operand(pair, 32, &mma, Operand::C)?;
    let to = store.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &sums.retile(&store), &to);
    k.finish()
}
// ANCHOR_END: volta_loop

// ANCHOR: check
/// 128 by 128 by 64 on the simulator, compared with the host: instructions, and lost passes.
fn check(built: &TensorKernel) -> Result<[u64; 2], Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm70);
    let number = |i: usize| f16::from_f32((i * 7 % 11) as f32 / 4.0 - 1.0);
    let a: Vec<f16> = (0..128 * 64).map(number).collect();
    let b: Vec<f16> = (3..128 * 64 + 3).map(number).collect();
    let (on_a, on_b) = (device.upload(&a)?, device.upload(&b)?);
    let mut on_c = device.poisoned::<f32>(128 * 128)?;
    let (view_a, view_b) = (on_a.view((128, 64))?, on_b.view((128, 64))?);
    let views = (view_a, view_b, on_c.view_mut((128, 128))?);
    let report = built.load(&device)?.profile([2, 2], views)?;
    for (i, found) in on_c.download()?.into_iter().enumerate() {
        let product = |l| f32::from(a[i / 128 * 64 + l]) * f32::from(b[i % 128 * 64 + l]);
        assert_eq!(found, (0..64).map(product).sum::<f32>(), "element {i}");
    }
    Ok([report.instructions, report.bank_conflicts()])
}
// ANCHOR_END: check

/// Multiplies with the kernel of this chapter.
fn own() -> Result<(), Box<dyn Error>> {
    println!("\n== own ==");
    // ANCHOR: own
    let [instructions, lost] = check(&volta(40)?)?;
    println!("{instructions} instructions, {lost} passes lost");
    // ANCHOR_END: own
    Ok(())
}

/// Reads the report of the kernel of this chapter.
fn own_report() -> Result<(), Box<dyn Error>> {
    println!("\n== own_report ==");
    // ANCHOR: own_report
    for line in volta(40)?.report().to_string().lines() {
        println!("{}", line.split("): ").last().unwrap_or(line));
    }
    // ANCHOR_END: own_report
    Ok(())
}

/// Reads the report of the library's kernel.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    let halves = Operands {
        ab: Ty::F16,
        c: Ty::F16,
        majors: [Major::Second; 3], // A and B contiguous along K, C along N
        vectors: [8; 3],            // addresses and rows allow accesses of 8 halves
        beta: false,                // the old C is not read
        gated: false,               // one right factor
    };
    let built = GemmPlan::new(GemmMethod::Volta, halves).build(Arch::Sm70)?;
    let mut copies: BTreeMap<String, usize> = BTreeMap::new();
    for line in built.report().to_string().lines() {
        let what = line.split("): ").last().unwrap_or(line);
        *copies.entry(what.to_string()).or_default() += 1;
    }
    for (what, times) in copies {
        println!("{times} times: {what}");
    }
    // ANCHOR_END: after
    Ok(())
}

/// Shows a problem that the kernel refuses.
fn refused() -> Result<(), Box<dyn Error>> {
    println!("\n== refused ==");
    // ANCHOR: refused
    let device = Device::simulator(Arch::Sm70);
    let (a, mut c) = (device.zeros::<f32>(16)?, device.zeros::<f32>(16)?);
    let gemm = GemmProblem::new(4, 4, 4)
        .on(&a, &a, &mut c)?
        .method(GemmMethod::Volta);
    println!("{}", gemm.prepare().unwrap_err());
    // ANCHOR_END: refused
    Ok(())
}

/// Exercise 3: other distances between the rows of a slab.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    for row in [32, 40, 48, 56] {
        let [_, lost] = check(&volta(row)?)?;
        println!("rows of {row} halves: {lost} passes lost");
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
