//! Expressions on fragments: formulas of every type on a device, against the host.

use colex_atom::{Arch, FloatFormat, Ty};
use colex_gpu::{Buffer, Device, Launch};
use colex_ir::{BinaryOp, UnaryOp};
use colex_layout::Layout;
use colex_tensor::{Arg, AtThread, Builder, Expr, Fragment, RawMemory, Round, TensorKernel};
use colex_tiled::TiledCopy;

use crate::sweep::Random;

/// The types of elements that are converted into each other.
pub const TYPES: [Ty; 15] = {
    use Ty::*;
    [
        F64, F32, Tf32, F16, Bf16, E4m3, E5m2, S64, U64, S32, U32, S16, U16, S8, U8,
    ]
};

fn low(ty: Ty, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - ty.bits()))
}

/// Returns the bits of a random element: a small number, an end of the range, or any.
pub fn element(r: &mut Random, ty: Ty) -> u64 {
    if let Some(of) = FloatFormat::of(ty) {
        let small = (r.below(41) as f64 - 20.0) / r.one(&[1.0, 2.0, 4.0, 3.0, 7.0]);
        let near = colex_atom::Rounding::Nearest;
        return match r.below(6) {
            0 => of.encode(
                r.one(&[
                    0.0,
                    -0.0,
                    1.0,
                    -1.0,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::NAN,
                ]),
                near,
            ),
            1 => of.encode(r.one(&[1.0, -1.0]) * of.max(), near),
            2 => low(ty, r.bits()),
            3 => of.encode(small * 300.0, near),
            _ => of.encode(small, near),
        };
    }
    low(
        ty,
        match r.below(4) {
            0 => r.one(&[
                0,
                1,
                u64::MAX,
                1 << (ty.bits() - 1),
                (1 << (ty.bits() - 1)) - 1,
            ]),
            1 => r.bits(),
            _ => (r.below(41) as i64 - 20) as u64,
        },
    )
}

/// Uploads elements of a type, given as bits.
pub(crate) fn upload(device: &Device, ty: Ty, elements: &[u64]) -> Result<Buffer<u8>, String> {
    let width = (ty.bits() / 8) as usize;
    let bytes = elements
        .iter()
        .flat_map(|x| x.to_le_bytes()[..width].to_vec());
    let bytes: Vec<u8> = bytes.collect();
    device.upload(&bytes).map_err(|e| e.to_string())
}

/// The bits of the elements in memory.
pub(crate) fn words(ty: Ty, bytes: &[u8]) -> Vec<u64> {
    let width = (ty.bits() / 8) as usize;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    bytes.chunks(width).map(word).collect()
}

/// Whether two elements have the same bits, or are both a NaN.
pub(crate) fn alike(ty: Ty, a: u64, b: u64) -> bool {
    let is_nan = |bits: u64| FloatFormat::of(ty).is_some_and(|of| of.decode(bits).is_nan());
    a == b || is_nan(a) && is_nan(b)
}

/// How the registers of a thread's elements lie: compact, one register each, or in another order.
#[derive(Clone, Copy, Debug)]
pub enum RegisterPlace {
    /// Compact, as many as fit in a register.
    Compact,
    /// Each in a register of its own.
    Apart,
    /// As a plain fragment under another layout.
    Plain,
}

/// The elements of 32 threads, `n` elements per thread in a run.
fn rows(n: i64) -> Result<Layout, colex_layout::Error> {
    Ok(Layout::new((32, n), (n, 1))?.to_static())
}

/// Builds a kernel of 32 threads that computes a formula over inputs of these types, `n` elements per thread.
///
/// # Errors
///
/// Returns the error of the kernel.
pub fn kernel(
    arch: Arch,
    types: &[Ty],
    n: i64,
    formula: &Expr,
    places: &[RegisterPlace],
) -> Result<TensorKernel, colex_tensor::Error> {
    let mut k = Builder::new("formula", arch, 32);
    let whole = rows(n)?;
    let tid = k.thread();
    let mut parts = Vec::new();
    let all = types.iter().copied().chain(formula.ty());
    for (i, ty) in all.enumerate() {
        let tensor = k.tensor(&format!("t{i}"), ty, &whole);
        let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", ty.bits()))?;
        let copy = TiledCopy::new(atom, ty.bits().into(), ((32, 1), (1, 32)), ((1, n), (n, 1)))?;
        let part = copy.at(&tid).partition_src(&tensor); // (CPY, CPY_M, CPY_N)
        let place = places[i % places.len()];
        let held = match place {
            RegisterPlace::Compact => k.fragment_like(&part),
            RegisterPlace::Apart => k.fragment_unpacked(&part),
            RegisterPlace::Plain => {
                let own = Layout::column_major(part.layout().shape())?;
                let plain = k.fragment(ty, Layout::new(n, 1)?.to_static());
                plain.with_layout(own.to_static())
            }
        };
        parts.push((copy, part, held));
    }
    let (out_copy, out, d) = parts.pop().expect("the result");
    for (copy, part, held) in &parts {
        k.copy(copy, part, held);
    }
    let inputs: Vec<&Fragment> = parts.iter().map(|(_, _, held)| held).collect();
    k.assign(&d, formula.over(inputs));
    k.copy(&out_copy, &d, &out);
    k.finish()
}

/// Runs a formula on random elements, `n` per thread, and compares every result with the host; returns how many they are.
/// On a GPU, a formula with approximate instructions is compared within `tolerance`, relatively.
///
/// # Errors
///
/// Returns the first difference, or why there is no result, in words.
pub fn check(
    device: &Device,
    types: &[Ty],
    (formula, tolerance): (&Expr, f64),
    (n, places): (i64, &[RegisterPlace]),
    r: &mut Random,
) -> Result<usize, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let built = kernel(device.arch(), types, n, formula, places).map_err(|e| text(&e))?;
    let count = 32 * n as usize;
    let ty = formula.ty().ok_or("a formula of constants")?;
    let inputs: Vec<Vec<u64>> = types
        .iter()
        .map(|ty| (0..count).map(|_| element(r, *ty)).collect())
        .collect();
    let width = |ty: Ty| (ty.bits() / 8) as usize;
    let all = types
        .iter()
        .zip(&inputs)
        .map(|(ty, x)| upload(device, *ty, x));
    let mut buffers = all.collect::<Result<Vec<_>, String>>()?;
    buffers.push(upload(device, ty, &vec![0; count])?);
    let whole = rows(n).map_err(|e| text(&e))?;
    let own = types.iter().copied().chain([ty]);
    let given = own.zip(&buffers).map(|(ty, buffer)| {
        let (address, bytes) = (buffer.address(), (count * width(ty)) as u64);
        Arg::raw(RawMemory { address, bytes, ty }, &whole)
    });
    let arguments = built
        .arguments(&given.collect::<Vec<_>>())
        .map_err(|e| text(&e))?;
    let function = device.load(&built.kernel).map_err(|e| text(&e))?;
    device
        .launch(&function, Launch::new(1, 32), &arguments)
        .map_err(|e| text(&e))?;
    let found = buffers[types.len()].download().map_err(|e| text(&e))?;
    for (i, found) in words(ty, &found).into_iter().enumerate() {
        let given: Vec<u64> = inputs.iter().map(|x| x[i]).collect();
        let expected = formula.evaluate(&given).map_err(|e| text(&e))?;
        let is_right = alike(ty, found, expected)
            || is_near(
                ty,
                [found, expected],
                if device.is_simulator() {
                    0.0
                } else {
                    tolerance
                },
            );
        if !is_right {
            return Err(format!(
                "element {i} of {given:x?} is {found:#x}, and {expected:#x} on the host ({ty})"
            ));
        }
    }
    Ok(count)
}

/// Whether two floats differ by less than a tolerance; numbers that `.ftz` flushes count as 0.
pub(crate) fn is_near(ty: Ty, bits: [u64; 2], tolerance: f64) -> bool {
    let Some(of) = FloatFormat::of(ty).filter(|_| tolerance > 0.0) else {
        return false;
    };
    let [a, b] = bits.map(|bits| of.decode(bits));
    let step = of.ulp(a).max(of.ulp(b)).max(2f64.powi(-126));
    (a - b).abs() <= tolerance * a.abs().max(b.abs()) + step
}

/// Builds a random formula of type `ty` over inputs of these types; without `approximate`, of exact instructions only.
pub fn formula(r: &mut Random, types: &[Ty], (ty, approximate): (Ty, bool), depth: usize) -> Expr {
    let has_arithmetic = !matches!(ty, Ty::Tf32 | Ty::E4m3 | Ty::E5m2);
    if depth == 0 || !has_arithmetic || r.below(8) == 0 {
        let own: Vec<usize> = (0..types.len()).filter(|i| types[*i] == ty).collect();
        return match own[..] {
            [] => {
                let i = r.below(types.len());
                let x = Expr::input(i, types[i]);
                if r.below(3) == 0 {
                    x.saturating(ty)
                } else {
                    x.to(ty)
                }
            }
            _ => {
                let i = own[r.below(own.len())];
                Expr::input(i, ty)
            }
        };
    }
    let a = formula(r, types, (ty, approximate), depth - 1);
    if r.below(6) == 0 {
        let other = r.one(&[
            Ty::F32,
            Ty::F16,
            Ty::S32,
            Ty::U8,
            Ty::S16,
            Ty::F64,
            Ty::Bf16,
        ]);
        return formula(r, types, (other, approximate), depth - 1).to(ty);
    }
    let b = match r.below(4) {
        0 => Expr::from(r.one(&[0_i32, 1, 2, 5])),
        1 => a.clone(),
        _ => formula(r, types, (ty, approximate), depth - 1),
    };
    if ty.is_integer() {
        return match r.below(13) {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a.min(b),
            4 => a.max(b),
            5 => a & b,
            6 => a | b,
            7 => a ^ b,
            8 => a / ((b & 7) + 1),
            9 => a % ((b & 7) + 1),
            10 => Expr::binary(
                r.one(&[BinaryOp::Shl, BinaryOp::Shr]),
                a,
                r.below(ty.bits() as usize) as i32,
            ),
            11 => r
                .one(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not])
                .pipe(|op| Expr::unary(op, a)),
            _ => a.le(&b).select(a.fma(3, &b), b),
        };
    }
    // The approximate ones are the last.
    match r.below(if approximate { 16 } else { 12 }) {
        0 => a + b,
        1 => a - b,
        2 => a * b,
        3 => a / b,
        4 => a.min(b),
        5 => a.max(b),
        6 => a.fma(b, 0.5),
        7 => b.fma(&a, a.clone()),
        8 => -a,
        9 => a.abs().sqrt(),
        10 => a.relu(),
        11 => (a.lt(&b) | !a.gt(0.25)).select(a, b),
        12 | 13 => a.recip(),
        14 if ty != Ty::F64 => r
            .one(&[UnaryOp::Ex2, UnaryOp::Tanh, UnaryOp::Cos])
            .pipe(|op| Expr::unary(op, a)),
        _ => a.abs().rsqrt(),
    }
}

trait Pipe: Sized {
    fn pipe<T>(self, f: impl FnOnce(Self) -> T) -> T {
        f(self)
    }
}

impl<T> Pipe for T {}

/// The functions of a float, one by one, and the relative error of each on a GPU.
pub(crate) fn functions(x: &Expr) -> Vec<(Expr, f64)> {
    let fine = 2f64.powi(-16);
    let all = [
        x.recip(),
        x.rsqrt(),
        x.exp2(),
        x.abs().log2(),
        x.exp(),
        x.sigmoid(),
        x.silu(),
        x.gelu(),
        x.gelu_tanh(),
    ];
    let all = all.into_iter().map(|f| (f, fine));
    all.chain([(x.tanh_approx(), 2f64.powi(-10))]).collect()
}

/// Returns the ways in which an element is converted to another type: as it is, saturating, and by each rounding that exists.
pub fn conversions(from: Ty, to: Ty) -> Vec<Expr> {
    let x = Expr::input(0, from);
    let mut all = vec![x.to(to), x.saturating(to)];
    if !from.is_integer() && to.is_integer() {
        all.extend([Round::Nearest, Round::Down, Round::Up].map(|round| x.rounded(to, round)));
    } else if !from.is_integer() && matches!(to, Ty::F32 | Ty::F16 | Ty::Bf16) {
        all.push(x.rounded(to, Round::Zero));
    }
    all
}

/// Runs formulas of every type on a device: every pair of types, converted in every way, random formulas of exact instructions,
/// and each function of small numbers. Returns the number of elements that were compared.
///
/// # Errors
///
/// Returns the first difference of each conversion, or of a formula, in words.
pub fn check_all(device: &Device, rounds: usize) -> Result<usize, String> {
    let mut r = Random::new(29);
    let kinds: Vec<Ty> = TYPES
        .into_iter()
        .filter(|ty| is_there(device.arch(), *ty))
        .collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for (from, to) in kinds
        .iter()
        .flat_map(|from| kinds.iter().map(move |to| (*from, *to)))
    {
        for (way, formula) in conversions(from, to).into_iter().enumerate() {
            let done = check(
                device,
                &[from],
                (&formula, 0.0),
                (4, &[RegisterPlace::Compact]),
                &mut r,
            );
            match done {
                Ok(done) => count += done,
                Err(why) => wrong.push(format!("{from} to {to}, way {way}: {why}")),
            }
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    for round in 0..rounds {
        let types: Vec<Ty> = (0..1 + r.below(3)).map(|_| r.one(&kinds)).collect();
        let (ty, depth) = (r.one(&kinds), 1 + r.below(3));
        let formula = formula(&mut r, &types, (ty, false), depth);
        let n = r.one(&[1, 2, 4]);
        let done = check(
            device,
            &types,
            (&formula, 0.0),
            (n, &[RegisterPlace::Compact]),
            &mut r,
        );
        count += done.map_err(|why| format!("formula {round}: {why}"))?;
    }
    for ty in [Ty::F32, Ty::F16, Ty::Bf16] {
        // Of bytes, numbers between -8 and 8.
        let x = Expr::input(0, Ty::S8).to(Ty::F32) * 0.0625;
        for (i, (formula, tolerance)) in functions(&x.to(ty)).iter().enumerate() {
            let done = check(
                device,
                &[Ty::S8],
                (formula, *tolerance),
                (4, &[RegisterPlace::Compact]),
                &mut r,
            );
            count += done.map_err(|why| format!("function {i} of {ty}: {why}"))?;
        }
    }
    Ok(count)
}

/// Returns whether an architecture converts a type.
pub fn is_there(arch: Arch, ty: Ty) -> bool {
    match ty {
        Ty::E4m3 | Ty::E5m2 => arch >= Arch::Sm89,
        Ty::Tf32 => arch >= Arch::Sm80,
        _ => true,
    }
}
