//! Descriptors and canonical layouts of `wgmma`.

use colex_atom::{GmmaDescriptor, Major, SmemSwizzle, Ty, gmma_smem_atom, mma, mma_atoms};
use colex_layout::{ComposedLayout, IntTuple, Layout, LayoutLeft};

const MAJORS: [Major; 2] = [Major::K, Major::MN];

fn composed(text: &str) -> ComposedLayout {
    text.parse().unwrap()
}

/// What CuTe's `make_gmma_desc` gives for halves at address 0.
#[test]
fn descriptors_are_cutes() {
    let goldens = [
        (
            "Sw<3,4,3> o smem_ptr[16b](unset) o (64,16):(64,1)",
            Major::K,
            0x4000_0040_0001_0000,
        ),
        ("(64,(8,2)):(8,(1,512))", Major::K, 0x0000_0008_0040_0000),
        (
            "Sw<3,4,3> o smem_ptr[16b](unset) o ((64,2),(8,2)):((1,512),(64,1024))",
            Major::MN,
            0x4000_0080_0040_0000,
        ),
    ];
    for (text, major, bits) in goldens {
        let descriptor = GmmaDescriptor::of(composed(text), 16, major).unwrap();
        assert_eq!(descriptor.encode().unwrap(), bits, "{text}");
    }
}

#[test]
fn encoding_round_trips() {
    let mut cases = 0;
    for swizzle in SmemSwizzle::ALL {
        for i in 0..1 << 10 {
            let bytes = |shift: u32| (((i64::from(i) * 7919) >> shift) & 0x3fff) * 16;
            let descriptor = GmmaDescriptor {
                start: bytes(0),
                leading: bytes(3),
                stride: bytes(5),
                base_offset: (i % 8) as u8,
                swizzle,
            };
            assert_eq!(
                GmmaDescriptor::decode(descriptor.encode().unwrap()),
                descriptor
            );
            cases += 1;
        }
    }
    println!("law gmma.encode_decode: {cases} cases");
}

/// The blocks made by `tile_to_shape` to whole tiles, cut into the slices that one instruction reads: each slice has a
/// descriptor, and the layout that the descriptor stands for is the slice again, at every coordinate.
#[test]
fn a_descriptor_stands_for_its_layout() {
    let mut cases = 0;
    for ty in [Ty::F16, Ty::Tf32, Ty::S8] {
        let bits = i64::from(ty.bits());
        for (major, swizzle) in MAJORS
            .into_iter()
            .flat_map(|m| SmemSwizzle::ALL.map(|s| (m, s)))
        {
            let block = gmma_smem_atom(major, swizzle, ty.bits()).unwrap();
            for (mn, k) in [(64, 1024 / bits), (128, 2048 / bits), (256, 1024 / bits)] {
                if mn % block.inner().mode(0).unwrap().size() != 0 {
                    continue;
                }
                let shape: IntTuple = format!("({mn},{k})").parse().unwrap();
                let tile = block
                    .tile_to_shape(&shape, LayoutLeft)
                    .unwrap()
                    .position_independent()
                    .unwrap();
                for step in [256 / bits, 512 / bits] {
                    let slices: ComposedLayout =
                        tile.zipped_divide(format!("({mn},{step})")).unwrap();
                    for at in 0..k / step {
                        let slice = slice_at(&slices, at);
                        let descriptor = GmmaDescriptor::of(&slice, ty.bits(), major);
                        // Two rows of 32 bytes are two blocks; no field holds the distance between them.
                        if (major, swizzle, step * bits) == (Major::K, SmemSwizzle::B32, 512) {
                            assert!(
                                descriptor.is_err_and(|error| error.is_not_canonical()),
                                "{slice}"
                            );
                            continue;
                        }
                        let descriptor = descriptor.unwrap();
                        let again = descriptor.tile(major, mn, step, ty.bits()).unwrap();
                        assert_eq!(
                            again.table().unwrap(),
                            slice.table().unwrap(),
                            "{slice} as {again}"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law gmma.tile_of: {cases} cases");
}

/// Slice `at` of `((MN,K),(1,rest))`: the first mode, at the offset of the second.
fn slice_at(slices: &ComposedLayout, at: i64) -> ComposedLayout {
    let rest = slices.inner().mode(1).unwrap();
    let offset = slices.base_offset() + rest.at(at).unwrap();
    let tile: Layout = slices.inner().mode(0).unwrap();
    ComposedLayout::new(slices.swizzle(), offset, tile).unwrap()
}

/// Walking along K inside a swizzled row adds 32 bytes; beyond it, the distance of the next block.
#[test]
fn steps_along_k_are_the_layouts() {
    let tile = gmma_smem_atom(Major::K, SmemSwizzle::B128, 16).unwrap();
    let tile = tile
        .tile_to_shape((64, 128), LayoutLeft)
        .unwrap()
        .position_independent()
        .unwrap();
    let slices = tile.zipped_divide((64, 16)).unwrap();
    let starts: Vec<i64> = (0..8)
        .map(|at| {
            GmmaDescriptor::of(slice_at(&slices, at), 16, Major::K)
                .unwrap()
                .start
        })
        .collect();
    assert_eq!(starts, [0, 32, 64, 96, 8192, 8224, 8256, 8288]);
}

/// Every dense and sparse `wgmma` finds descriptors for the tiles its operands want, for every swizzle and major.
#[test]
fn every_wgmma_has_descriptors() {
    let mut cases = 0;
    for atom in mma_atoms().filter(|atom| atom.b_in_shared() && atom.mnk()[1] % 64 == 0) {
        for options in colex_atom::GmmaOptions::all()
            .filter(|o| !o.negate_a && !o.negate_b && o.metadata_threads == 0)
        {
            let Ok(atom) = atom.clone().with_options(options) else {
                continue;
            };
            let ([m, n, k], t) = (atom.mnk(), atom.traits());
            let packing = atom.rule().packing() as i64;
            let operands = [
                ('A', m, k / packing, t.ty_a, options.major_a),
                ('B', n, k, t.ty_b, options.major_b),
            ];
            for (operand, mn, k, ty, major) in operands {
                for swizzle in SmemSwizzle::ALL {
                    let block = gmma_smem_atom(major, swizzle, ty.bits()).unwrap();
                    let extent = block.inner().mode(1).unwrap().size().max(k);
                    let tile = block
                        .tile_to_shape(format!("({mn},{extent})"), LayoutLeft)
                        .unwrap();
                    let slices = tile
                        .position_independent()
                        .unwrap()
                        .zipped_divide(format!("({mn},{k})"))
                        .unwrap();
                    let slice = slice_at(&slices, 0);
                    let descriptor = atom.descriptor(operand, &slice);
                    let in_registers = operand == 'A' && !atom.a_in_shared();
                    let too_narrow = (major, swizzle, k * i64::from(ty.bits()))
                        == (Major::K, SmemSwizzle::B32, 512);
                    if in_registers || too_narrow {
                        assert!(descriptor.is_err())
                    } else {
                        assert_eq!(descriptor.unwrap().swizzle, swizzle)
                    }
                    cases += 1;
                }
            }
        }
    }
    println!("law gmma.descriptors: {cases} cases");
}

#[track_caller]
fn refused(text: &str, bits: u32, major: Major, sentence: &str) {
    let error = GmmaDescriptor::of(composed(text), bits, major).unwrap_err();
    assert_eq!(error.to_string(), sentence);
}

#[test]
fn what_is_not_canonical_says_why() {
    refused(
        "Sw<3,3,3> o 0 o (64,16):(128,1)",
        16,
        Major::K,
        "Sw<3,3,3> o 0 o (64,16):(128,1) is not a canonical K-major layout of wgmma: swizzled over 128 bytes, neighbouring rows lie 128 bytes apart, not 256",
    );
    refused(
        "Sw<2,2,3> o 0 o (64,16):(64,1)",
        16,
        Major::K,
        "Sw<2,2,3> o 0 o (64,16):(64,1) is not a canonical K-major layout of wgmma: its swizzle is not Sw<0..3,3,3>",
    );
    refused(
        "(64,16,2):(16,1,1024)",
        16,
        Major::K,
        "(64,16,2):(16,1,1024) is not a canonical K-major layout of wgmma: it has 3 modes, not two: MN and K",
    );
    refused(
        "Sw<3,3,3> o 0 o (64,64):(64,1)",
        16,
        Major::K,
        "Sw<3,3,3> o 0 o (64,64):(64,1) is not a canonical K-major layout of wgmma: a row is 32 bytes of K, or 64 beside a sparse A, not 128 bytes",
    );
    refused(
        "Sw<3,3,3> o 4 o (64,16):(64,1)",
        16,
        Major::K,
        "Sw<3,3,3> o 4 o (64,16):(64,1) is not a canonical K-major layout of wgmma: it starts at bit 64, not at a multiple of 16 bytes",
    );
    refused(
        "Sw<3,3,3> o 0 o (60,16):(64,1)",
        16,
        Major::K,
        "Sw<3,3,3> o 0 o (60,16):(64,1) is not a canonical K-major layout of wgmma: 60 rows are not a multiple of 8",
    );
    refused(
        "Sw<3,3,3> o 0 o (64,16):(1,64)",
        16,
        Major::K,
        "Sw<3,3,3> o 0 o (64,16):(1,64) is not a canonical K-major layout of wgmma: a row is 32 bytes of K, or 64 beside a sparse A, not 256 bytes",
    );
    refused(
        "(64,16):(16,1)",
        12,
        Major::K,
        "elements of 12 bits do not fill the 128 bits that wgmma reads at once",
    );
}

#[test]
fn a_tile_is_made_of_whole_patterns() {
    let descriptor = GmmaDescriptor::of("Sw<3,3,3> o 0 o (64,16):(64,1)", 16, Major::K).unwrap();
    let said = |major, mn, k| descriptor.tile(major, mn, k, 16).unwrap_err().to_string();
    assert_eq!(
        said(Major::K, 60, 16),
        "a tile of 60 x 16 elements is not made of whole patterns of 8 x 8"
    );
    assert_eq!(
        said(Major::MN, 96, 8),
        "a tile of 96 x 8 elements is not made of whole patterns of 64 x 8"
    );
    assert!(descriptor.tile(Major::K, 64, 0, 16).is_err());
}

#[test]
fn fields_that_do_not_fit_are_named() {
    let descriptor = GmmaDescriptor::default();
    assert_eq!(
        descriptor.at(8).encode().unwrap_err().to_string(),
        "a descriptor's start address is a multiple of 16 bytes below 262144, not 8"
    );
    assert_eq!(
        descriptor.at(1 << 18).encode().unwrap_err().to_string(),
        "a descriptor's start address is a multiple of 16 bytes below 262144, not 262144"
    );
    let off = GmmaDescriptor {
        base_offset: 8,
        ..descriptor
    };
    assert_eq!(
        off.encode().unwrap_err().to_string(),
        "a descriptor's base offset is 0 to 7, not 8"
    );
}

#[test]
fn the_operand_must_be_the_instructions() {
    let atom = mma("SM90_64x128x16_F32F16F16_RS").unwrap();
    assert_eq!(
        atom.descriptor('A', composed("Sw<3,3,3> o 0 o (64,16):(64,1)"))
            .unwrap_err()
            .to_string(),
        "operand A of `SM90_64x128x16_F32F16F16_RS` should be in registers, not a tile (64,16)"
    );
    assert_eq!(
        atom.descriptor('B', composed("Sw<3,3,3> o 0 o (64,16):(64,1)"))
            .unwrap_err()
            .to_string(),
        "operand B of `SM90_64x128x16_F32F16F16_RS` should be a tile (128,16) of shared memory, not a tile (64,16)"
    );
}
