//! The Volta GEMM: four forms of one instruction, and quad-pairs side by side.
//!
//! Run it with `cargo run -p colex-book --example kernel_volta`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{GemmProblem, Major};
use colex_tiled::TiledMma;
use half::f16;
use std::collections::BTreeMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    before()?;
    forms();
    tiled()?;
    after()?;
    refused()?;
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

/// Places quad-pairs and warps.
fn tiled() -> Result<(), Box<dyn Error>> {
    // ANCHOR: tiled
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_TN")?;
    // ((quad-pairs, warps) along M, the same along N): quad-pairs 1 and 2 apart, warps 4 and 8.
    let atoms = "((2,2),(2,4),1):((1,4),(2,8),0)";
    let mma = TiledMma::new(atom, atoms, (.., .., ..))?;
    assert_eq!((mma.threads(), mma.tile_shape()), (256, [32, 64, 4]));
    // ANCHOR_END: tiled
    Ok(())
}

/// Reads the report of the kernel.
fn after() -> Result<(), Box<dyn Error>> {
    println!("\n== after ==");
    // ANCHOR: after
    let halves = Operands {
        ab: Ty::F16,
        c: Ty::F16,
        majors: [Major::Second; 3],
        vectors: [8; 3],
        beta: false,
        gated: false,
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
