//! Outputs of 8 bits with a scale: what a thread stores is the nearest number of the format.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{Epilogue, GemmMethod};
use colex_gpu::{Device, Gemm};
use half::f16;

/// The finite numbers of a format of 8 bits with a sign, by their codes.
fn finite(ty: Ty) -> Vec<(u8, f64)> {
    let (mantissa_bits, bias, most) = match ty {
        Ty::E4m3 => (3, 7, 0x7e),
        _ => (2, 15, 0x7b),
    };
    let number = |code: u8| {
        let low = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
        let exponent = i32::from(code >> mantissa_bits);
        match exponent {
            0 => low * 2f64.powi(1 - bias),
            _ => (1.0 + low) * 2f64.powi(exponent - bias),
        }
    };
    let positive = (0..=most).map(|code| (code, number(code)));
    positive
        .flat_map(|(code, number)| [(code, number), (code | 0x80, -number)])
        .collect()
}

/// The code of the nearest finite number, of two as near the even one.
fn nearest(all: &[(u8, f64)], x: f64) -> u8 {
    let same_sign = all
        .iter()
        .filter(|(code, _)| (code >> 7 == 1) == x.is_sign_negative());
    let key = |(code, number): &&(u8, f64)| ((number - x).abs(), code & 1);
    let all = same_sign.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
    all.expect("a number").0
}

/// Products with an output of e4m3 and one of e5m2, by every kernel of architectures that have the conversion: the largest finite number
/// stands for all that are larger, and scales make subnormal numbers of some sums.
#[test]
fn law_outputs_of_8_bits_are_the_nearest_numbers() {
    let quantised = Epilogue::new(Ty::F32, |e| {
        let x = e.accumulator() * e.scalar("scale", Ty::F32);
        e.output("e4m3", x.saturating(Ty::E4m3));
        e.output("e5m2", x.saturating(Ty::E5m2));
        x
    });
    let quantised = quantised.expect("an epilogue");
    let (n, k) = (48_i64, 16_i64);
    let number = |i: i64| f16::from_f64(((i * 7 + i / 5) % 31) as f64 - 15.0);
    let numbers = |count: i64| -> Vec<f16> { (0..count).map(number).collect() };
    let codes = [Ty::E4m3, Ty::E5m2].map(finite);
    let (mut elements, mut most, mut least) = (0, 0, 0);
    for (arch, method, m) in [
        (Arch::Sm89, GemmMethod::Ampere, 40_i64),
        (Arch::Sm90a, GemmMethod::Simt, 40),
        (Arch::Sm90a, GemmMethod::Hopper, 40),
        (Arch::Sm90a, GemmMethod::Gemv, 1),
    ] {
        let device = Device::simulator(arch);
        let (in_a, in_b) = (numbers(m * k), numbers(n * k));
        let (a, b) = (
            device.upload(&in_a).expect("A"),
            device.upload(&in_b).expect("B"),
        );
        for scale in [1.0 / 65536.0, 0.3, 200.0_f32] {
            let count = (m * n) as usize;
            let mut c = device.poisoned::<f32>(count).expect("C");
            let mut outputs = [0, 1].map(|_| device.upload(&vec![0x55_u8; count]).expect("bytes"));
            let [e4m3, e5m2] = &mut outputs;
            Gemm::new(
                &a.view((m, k)).expect("A"),
                &b.view((n, k)).expect("B"),
                &c.view_mut((m, n)).expect("C"),
            )
            .epilogue(&quantised)
            .scalar("scale", f64::from(scale))
            .output("e4m3", &e4m3.view_mut((m, n)).expect("a view"))
            .output("e5m2", &e5m2.view_mut((m, n)).expect("a view"))
            .method(method)
            .run()
            .unwrap_or_else(|why| panic!("{method} on {arch}: {why}"));
            let found = outputs.map(|buffer| buffer.download().expect("bytes"));
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let term = |l: i64| {
                    in_a[(i * k + l) as usize].to_f32() * in_b[(j * k + l) as usize].to_f32()
                };
                let x = f64::from((0..k).map(term).fold(0.0, |sum, x| sum + x) * scale);
                for (all, found) in codes.iter().zip(&found) {
                    let (code, wanted) = (found[(i * n + j) as usize], nearest(all, x));
                    assert_eq!(code, wanted, "({i},{j}), {x} by {method} on {arch}");
                    elements += 1;
                }
                most += usize::from(found[0][(i * n + j) as usize] & 0x7f == 0x7e);
                least += usize::from((1..8).contains(&(found[0][(i * n + j) as usize] & 0x7f)));
            }
        }
    }
    assert!(
        most > 100 && least > 100,
        "{most} largest, {least} subnormal"
    );
    println!("law epilogue.outputs of 8 bits: {elements} elements");
}

/// Ampere has no conversion to 8 bits of a float.
#[test]
fn outputs_of_8_bits_are_refused_before_their_architecture() {
    let quantised = Epilogue::new(Ty::F32, |e| {
        e.output("e4m3", e.accumulator().saturating(Ty::E4m3));
        e.accumulator()
    });
    let quantised = quantised.expect("an epilogue");
    let device = Device::simulator(Arch::Sm80);
    let a = device.zeros::<f16>(64).expect("A");
    let (mut c, mut bytes) = (
        device.zeros::<f32>(64).expect("C"),
        device.zeros::<u8>(64).expect("bytes"),
    );
    let view = a.view((8, 8)).expect("a view");
    let why = Gemm::new(&view, &view, &c.view_mut((8, 8)).expect("C"))
        .epilogue(&quantised)
        .output("e4m3", &bytes.view_mut((8, 8)).expect("a view"))
        .run()
        .expect_err("it is refused");
    let wanted = "e4m3 is converted since sm_89, and the kernel is for sm_80";
    assert!(why.to_string().ends_with(wanted), "{why}");
}
