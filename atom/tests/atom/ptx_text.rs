//! The text of instructions, one of each form.

use colex_atom::{GmmaOptions, Major, MmaAtom, MmaOperands, mma};

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("%{prefix}{i}")).collect()
}

/// The instruction on registers `%d0..`, `%a0..` and so on, C being D for `wgmma`.
fn text(atom: &MmaAtom) -> String {
    let op = atom.op().unwrap();
    let c = if op.is_async() { 0 } else { op.c.count };
    let e = op.e.map_or(0, |e| e.count);
    let [d, a, b, c, e] = [
        ("d", op.d.count),
        ("a", op.a.count),
        ("b", op.b.count),
        ("c", c),
        ("e", e),
    ]
    .map(|(name, count)| names(name, count));
    atom.instruction(&MmaOperands {
        d: &d,
        a: &a,
        b: &b,
        c: &c,
        e: &e,
        scale_d: "%p",
    })
    .unwrap()
}

#[track_caller]
fn prints(name: &str, expected: &str) {
    assert_eq!(text(&mma(name).unwrap()), expected);
}

#[test]
fn scalar_and_warp() {
    prints("SM61_DP4A", "dp4a.s32.s32 %d0, %a0, %b0, %c0;");
    prints("UniversalFMA<int32_t>", "mad.lo.s32 %d0, %a0, %b0, %c0;");
    prints(
        "SM80_8x8x32_S32S4U4S32_TN_SATURATE",
        "mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.u4.s32 {%d0, %d1}, {%a0}, {%b0}, {%c0, %c1};",
    );
}

/// Operands of `wgmma`: D, A, B, metadata and its threads, scale of D, signs of A and B, majors of A and B.
#[test]
fn warpgroup() {
    prints(
        "SM90_64x8x16_F32F16F16_SS<Major::K,Major::MN,ScaleIn::Neg,ScaleIn::One>",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %a0, %b0, %p, -1, 1, 0, 1;",
    );
    prints(
        "SM90_64x8x16_F32F16F16_RS",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, %b0, %p, 1, 1, 0;",
    );
    prints(
        "SM90_64x8x32_S32S8U8_SS_TN_SATURATE",
        "wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.u8 {%d0, %d1, %d2, %d3}, %a0, %b0, %p;",
    );
    let atom = mma("SPARSE::GMMA_64x8x32_F16F16F16_SS").unwrap();
    let options = GmmaOptions {
        metadata_threads: 1,
        major_a: Major::MN,
        ..GmmaOptions::default()
    };
    assert_eq!(
        text(&atom.with_options(options).unwrap()),
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {%d0, %d1}, %a0, %b0, %e0, 1, %p, 1, 1, 1, 0;"
    );
}

#[test]
fn complex() {
    let mma = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64";
    prints(
        "SM80_8x8x4_C64C64C64C64_TN",
        &format!(
            "{{\n.reg .f64 %minus<1>;\nneg.f64 %minus0, %a1;\n\
             {mma} {{%d0, %d2}}, {{%a0}}, {{%b0}}, {{%c0, %c2}};\n\
             {mma} {{%d1, %d3}}, {{%a1}}, {{%b0}}, {{%c1, %c3}};\n\
             {mma} {{%d0, %d2}}, {{%minus0}}, {{%b1}}, {{%d0, %d2}};\n\
             {mma} {{%d1, %d3}}, {{%a0}}, {{%b1}}, {{%d1, %d3}};\n}}"
        ),
    );
    prints(
        "SM80_8x8x4_GC64C64C64GC64_TN",
        &format!(
            "{{\n.reg .f64 %suma<1>, %sumb<1>;\nadd.f64 %suma0, %a0, %a1;\nadd.f64 %sumb0, %b0, %b1;\n\
             {mma} {{%d0, %d3}}, {{%a0}}, {{%b0}}, {{%c0, %c3}};\n\
             {mma} {{%d1, %d4}}, {{%a1}}, {{%b1}}, {{%c1, %c4}};\n\
             {mma} {{%d2, %d5}}, {{%suma0}}, {{%sumb0}}, {{%c2, %c5}};\n}}"
        ),
    );
}

#[test]
fn registers_are_counted() {
    let atom = mma("SM80_16x8x16_F32F16F16F32_TN").unwrap();
    let (four, two) = (names("r", 4), names("r", 2));
    let operands = MmaOperands {
        d: &four,
        a: &two,
        b: &two,
        c: &four,
        e: &[],
        scale_d: "1",
    };
    assert_eq!(
        atom.instruction(&operands).unwrap_err().to_string(),
        "operand A of `SM80_16x8x16_F32F16F16F32_TN` should be 4 registers, not 2 registers"
    );
}
