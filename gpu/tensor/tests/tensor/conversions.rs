//! Fragments in other element types, against the host's conversions.

use colex_atom::{Arch, Ty};
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Arg, AtThread, Builder, Error, RawMemory, TensorKernel};
use colex_tiled::TiledCopy;
use half::{bf16, f16};

const LENGTH: usize = 96;

fn layout(text: &str) -> Layout {
    text.parse().expect("a literal")
}

/// Each of 32 threads converts three elements.
fn convert(from: Ty, to: Ty) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("convert", Arch::Sm80, 32);
    let whole = layout("(_32,_3):(_1,_32)");
    let (src, dst) = (k.tensor("src", from, &whole), k.tensor("dst", to, &whole));
    let tid = k.thread();
    let over = |ty: Ty| -> Result<TiledCopy, Error> {
        let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", ty.bits()))?;
        Ok(TiledCopy::new(
            atom,
            ty.bits().into(),
            "(32,1):(1,32)",
            "(1,3):(3,1)",
        )?)
    };
    let (load, store) = (over(from)?, over(to)?);
    let part = load.at(&tid).partition_src(&src);
    let held = k.fragment_like(&part);
    k.copy(&load, &part, &held);
    let other = k.convert(&held, to);
    let part = store.at(&tid).partition_dst(&dst);
    k.copy(&store, &other, &part);
    k.finish()
}

/// A number as the bytes of a type, and the number that the type holds then.
fn encode(ty: Ty, x: f64) -> (Vec<u8>, f64) {
    let narrow = x as f32;
    match ty {
        Ty::F64 => (x.to_le_bytes().to_vec(), x),
        Ty::F32 => (narrow.to_le_bytes().to_vec(), narrow.into()),
        Ty::F16 => (
            f16::from_f32(narrow).to_le_bytes().to_vec(),
            f16::from_f32(narrow).into(),
        ),
        Ty::Bf16 => (
            bf16::from_f32(narrow).to_le_bytes().to_vec(),
            bf16::from_f32(narrow).into(),
        ),
        _ => ((x as i32).to_le_bytes().to_vec(), f64::from(x as i32)),
    }
}

#[test]
fn law_conversions() {
    let mut cases = 0;
    let all = [Ty::F64, Ty::F32, Ty::F16, Ty::Bf16, Ty::S32];
    for (from, to) in all.iter().flat_map(|from| all.map(|to| (*from, to))) {
        let built = convert(from, to).unwrap_or_else(|e| panic!("{e}"));
        let numbers = (0..LENGTH).map(|i| (i as f64 - 40.0) * 1.0717 * f64::from(1 << (i % 7)));
        let source: Vec<(Vec<u8>, f64)> = numbers.map(|x| encode(from, x)).collect();
        let mut memory = Memory::default();
        let bytes: Vec<u8> = source.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let src = memory.allocate(bytes.len() as u64).unwrap();
        memory.write(src, &bytes).expect("allocated");
        let width = (to.bits() / 8) as usize;
        let dst = memory.allocate((LENGTH * width) as u64).unwrap();
        let whole = layout("(_32,_3):(_1,_32)");
        let given = [(src, from), (dst, to)].map(|(address, ty)| {
            let memory = RawMemory {
                address,
                bytes: LENGTH as u64 * u64::from(ty.bits() / 8),
                ty,
            };
            Arg::raw(memory, &whole)
        });
        let arguments = built.arguments(&given);
        let arguments = arguments.unwrap_or_else(|e| panic!("{e}"));
        let launch = Launch::new(1, 32);
        simulate(
            &built.kernel,
            &launch,
            &arguments,
            &mut memory,
            &SimOptions::default(),
        )
        .unwrap_or_else(|fault| panic!("{from} to {to}: {fault}"));
        let found = memory
            .read(dst, (LENGTH * width) as u64)
            .expect("allocated");
        for (i, (bytes, (_, x))) in found.chunks(width).zip(&source).enumerate() {
            assert_eq!(bytes, encode(to, *x).0, "element {i}, {x}: {from} to {to}");
            cases += 1;
        }
    }
    println!("law conversions: {cases} numbers");
}
