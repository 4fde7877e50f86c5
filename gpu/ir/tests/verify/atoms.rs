//! Operands of matrix and copy instructions.

use colex_atom::{Arch, copy, mma};
use colex_ir::{Atom, CopyArgs, End, RegType, ScaleD, Type};

use super::{accepted, refused};

#[test]
fn counts_and_classes_of_a_product() {
    let atom = mma("SM80_16x8x16_F32F16F16F32_TN").expect("it is in the table");
    refused(
        Arch::Sm80,
        "`mma SM80_16x8x16_F32F16F16F32_TN` has 2 registers as operand A: it takes 4 x b32",
        |k| {
            let (x, f) = (k.mov(Type::U32, 0), k.mov(Type::F32, 0.0));
            k.mma_atom(&atom, &[f; 4], &[x; 2], &[x; 2], &[f; 4]);
        },
    );
    refused(
        Arch::Sm80,
        "`mma SM80_16x8x16_F32F16F16F32_TN` takes 32-bit registers of class b32 as operand B, and %f0 is of class f32",
        |k| {
            let (x, f) = (k.mov(Type::U32, 0), k.mov(Type::F32, 0.0));
            k.mma_atom(&atom, &[f; 4], &[x; 4], &[f; 2], &[f; 4]);
        },
    );
    refused(
        Arch::Sm75,
        "`mma SM80_16x8x16_F32F16F16F32_TN` came with sm_80, and the kernel is for sm_75",
        |k| {
            let (x, f) = (k.mov(Type::U32, 0), k.mov(Type::F32, 0.0));
            k.mma_atom(&atom, &[f; 4], &[x; 4], &[x; 2], &[f; 4]);
        },
    );
}

/// Every row of both tables, without any operand: refused, and no panic in the printer either.
#[test]
fn instructions_without_operands() {
    let mut seen = 0;
    let mut check = |op: Atom| {
        let kernel = super::kernel(Arch::Sm90a, |k| k.push(op));
        assert!(kernel.verify().is_err(), "{kernel}");
        let _ = (kernel.ptx_unverified(), kernel.to_string());
        seen += 1;
    };
    for atom in colex_atom::mma_atoms() {
        check(Atom::Mma {
            atom: Box::new(atom),
            d: Vec::new(),
            a: Vec::new(),
            b: Vec::new(),
            c: Vec::new(),
            e: Vec::new(),
            scale_d: ScaleD::One,
        });
    }
    for atom in colex_atom::copy_atoms() {
        check(Atom::Copy {
            atom: Box::new(atom),
            args: Box::new(CopyArgs::default()),
        });
    }
    println!("law instructions_without_operands: {seen} rows");
}

#[test]
fn operands_of_a_copy() {
    let ldmatrix = copy("SM75_U32x4_LDSM_N").expect("it is in the table");
    refused(
        Arch::Sm75,
        "`copy SM75_U32x4_LDSM_N` takes as its source: an address in shared memory, aligned to 16 bytes",
        |k| {
            let dst = End::Regs(k.regs(RegType::B32, 4));
            k.copy_atom(
                &ldmatrix,
                CopyArgs {
                    dst,
                    ..CopyArgs::default()
                },
            );
        },
    );
    accepted(Arch::Sm75, |k| {
        let dst = End::Regs(k.regs(RegType::B32, 4));
        let src = End::Memory(k.shared("tile", 2048, 16).into());
        k.copy_atom(
            &ldmatrix,
            CopyArgs {
                dst,
                src,
                ..CopyArgs::default()
            },
        );
    });
    let load = copy("SM90_TMA_LOAD_2D").expect("it is in the table");
    refused(
        Arch::Sm90,
        "`copy SM90_TMA_LOAD_2D` has a tensor map with 1 coordinates: it takes a tensor map with 2 coordinates",
        |k| {
            let map = k.tensor_map("map");
            let (tile, bar) = (k.shared("tile", 1024, 128), k.shared("bar", 8, 8));
            k.copy_atom(
                &load,
                CopyArgs {
                    dst: End::Memory(tile.into()),
                    tensor: Some((map.into(), vec![0.into()])),
                    barrier: Some(bar.into()),
                    ..CopyArgs::default()
                },
            );
        },
    );
    refused(
        Arch::Sm80,
        "`copy SM80_CP_ASYNC_CACHEALWAYS<uint128_t>` takes no source bytes",
        |k| {
            let atom = copy("SM80_CP_ASYNC_CACHEALWAYS<uint128_t>").expect("it is in the table");
            let data = k.pointer("data");
            let global = k.param(data);
            let tile = k.shared("tile", 1024, 128);
            k.copy_atom(
                &atom,
                CopyArgs {
                    dst: End::Memory(tile.into()),
                    src: End::Memory(global.into()),
                    source_bytes: Some(8.into()),
                    ..CopyArgs::default()
                },
            );
        },
    );
}
