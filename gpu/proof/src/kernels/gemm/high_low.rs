//! Products of f32 by three products in tf32, drawn at random: any strides, batches, factors, two right factors.

use core::fmt;

use crate::kernels::views;
use crate::sweep::Random;
use colex_atom::Ty;
use colex_device::Device;
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::{Compute, Gemm, View, ViewMut};
use colex_layout::Layout;

/// What the drawn products had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreeProducts {
    /// The elements that were compared.
    pub elements: usize,
    /// The largest error over the one that [`Compute::Tf32x3`] states.
    pub most: f64,
    /// The products of a factor that was packed before its parts were written.
    pub packed: usize,
    /// The products, and those that exceed the stated error in plain tf32.
    pub products: usize,
    /// See [`products`](Self::products).
    pub worse_in_tf32: usize,
}

impl fmt::Display for ThreeProducts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} products, {} elements, errors up to {:.3} of the stated one, which {} exceed in tf32",
            self.products, self.elements, self.most, self.worse_in_tf32
        )
    }
}

/// Returns the error that [`Compute::Tf32x3`] states, over `|A| |B|^T`.
pub fn stated_error(k: i64) -> f64 {
    0.5_f64.powi(20) + k as f64 * 0.5_f64.powi(21)
}

/// The layout of a batch of such matrices: behind each other, or all in one place.
fn batched(random: &mut Random, matrix: Layout, products: i64, is_read: bool) -> Layout {
    if products == 1 {
        return matrix;
    }
    let shared = is_read && random.below(4) == 0;
    let stride = if shared {
        0
    } else {
        matrix.cosize().expect("small")
    };
    let behind = Layout::leaf(products, stride).expect("small");
    let modes = [0, 1].map(|mode| matrix.mode(mode).expect("two modes"));
    Layout::concat([&modes[0], &modes[1], &behind]).expect("small")
}

fn numbers(random: &mut Random, layout: &Layout) -> Vec<f32> {
    let count = layout.cosize().expect("small");
    let mut number = || {
        let size = 1.0 + random.below(1 << 23) as f32 / (1 << 23) as f32;
        let sign = [1.0, -1.0][random.below(2) as usize];
        sign * size * 2_f32.powi(random.below(17) - 8)
    };
    (0..count).map(|_| number()).collect()
}

/// Runs products of f32 whose extents, layouts and factors are drawn from `seed` on each of the devices, and compares every
/// element with the sum over K in `f64`.
///
/// # Errors
///
/// A sentence that names the layouts and the call of the first product that is refused, less exact than stated, or of other
/// bits on another device of the list.
pub fn check(devices: &[Device], seed: u64, rounds: usize) -> Result<ThreeProducts, String> {
    let (mut random, mut all) = (Random::of(seed, "three products"), ThreeProducts::default());
    let both = Epilogue::new(Ty::F32, |e| e.accumulator() - e.second_accumulator());
    let both = both.map_err(|error| error.to_string())?;
    for round in 0..rounds {
        let [m, n] = [0; 2].map(|_| 1 + random.below(40) as i64);
        let most = [8, 100][random.below(2) as usize];
        let k = 1 + random.below(most) as i64;
        let products = 1 + i64::from(random.below(4) == 0);
        let layouts = [([m, k], true), ([n, k], true), ([m, n], false)];
        let mut drawn = |(extents, is_read): ([i64; 2], bool)| {
            // What TMA and vectors take, or any strides.
            let layout = if random.below(2) == 0 {
                Layout::row_major((extents[0], extents[1])).expect("small")
            } else {
                views::matrix(&mut random, extents, is_read)
            };
            batched(&mut random, layout, products, is_read)
        };
        let [la, lb, lc] = layouts.map(&mut drawn);
        let gated = random.below(4) == 0;
        let [alpha, beta] = if gated {
            [1.0, 0.0]
        } else {
            [[1.0, 0.0], [2.0, -0.5]][random.below(2) as usize]
        };
        let [a, b, b2, c] = [&la, &lb, &lb, &lc].map(|layout| numbers(&mut random, layout));
        let said = |what: String| format!("{la}, {lb}, {lc}, alpha {alpha}, beta {beta}: {what}");
        let run = |device: &Device, compute| -> Result<_, colex_gpu::Error> {
            let [da, db, db2, dc] = [&a, &b, &b2, &c].map(|x| device.upload(x));
            let (da, db, db2, dc) = (da?, db?, db2?, dc?);
            let mut written = dc.clone();
            let second = View::new(&db2, &lb)?;
            let mut call = Gemm::new(
                &View::new(&da, &la)?,
                &View::new(&db, &lb)?,
                &ViewMut::new(&mut written, &lc)?,
            )
            .compute(compute);
            call = if gated {
                call.b2(&second).epilogue(&both)
            } else {
                call.alpha(alpha).beta(beta)
            };
            let call = call.prepare()?;
            let packed = call.packed().any(|(name, _)| name != "C");
            // A second run finds the parts of the first, and writes them again.
            call.run(device)?;
            dc.copy_from(&device.upload(&c)?)?;
            call.run(device)?;
            Ok((call.to_string(), packed, dc.download()?))
        };
        // How far the worst element is off, over what is stated.
        let error = |found: &[f32]| {
            let mut most = 0.0_f64;
            for (l, i, j) in indices([products, m, n]) {
                let place = |layout: &Layout, i, j| {
                    let apart = layout
                        .mode(2)
                        .map_or(0, |mode| mode.at(l).expect("an index"));
                    let modes = [0, 1].map(|mode| layout.mode(mode).expect("two modes"));
                    let matrix = Layout::concat(&modes).expect("two modes");
                    apart as usize + views::at(&matrix, i, j)
                };
                let (mut sum, mut size) = (0.0, 0.0);
                for p in 0..k {
                    let x = f64::from(a[place(&la, i, p)]);
                    let at = place(&lb, j, p);
                    let terms = [f64::from(b[at]), -f64::from(b2[at])];
                    for y in &terms[..1 + usize::from(gated)] {
                        sum += x * y;
                        size += (x * y).abs();
                    }
                }
                let at = place(&lc, i, j);
                let old = if beta == 0.0 {
                    0.0
                } else {
                    beta * f64::from(c[at])
                };
                let right = alpha * sum + old;
                // The epilogue rounds once or twice.
                let stated = alpha.abs() * size * stated_error(k);
                let stated = stated + (alpha.abs() * size + old.abs()) * 0.5_f64.powi(22);
                let off = (f64::from(found[at]) - right).abs() / stated;
                most = if off.is_nan() {
                    f64::INFINITY
                } else {
                    most.max(off)
                };
            }
            most
        };
        let mut first: Option<Vec<f32>> = None;
        for device in devices {
            let found = run(device, Compute::Tf32x3).map_err(|error| said(error.to_string()))?;
            let (call, packed, found) = found;
            let off = error(&found);
            if off > 1.0 {
                return Err(said(format!("{call} is off by {off:.2} of what is stated")));
            }
            let known = first.get_or_insert_with(|| found.clone());
            if !views::same_bits(known, &found) {
                return Err(said(format!("{call} has other bits on another device")));
            }
            all.most = all.most.max(off);
            all.elements += (products * m * n) as usize;
            all.packed += usize::from(packed);
        }
        let plain = run(&devices[round % devices.len()], Compute::Tf32);
        let (_, _, plain) = plain.map_err(|error| said(error.to_string()))?;
        all.products += 1;
        all.worse_in_tf32 += usize::from(error(&plain) > 1.0);
    }
    Ok(all)
}

fn indices([products, m, n]: [i64; 3]) -> impl Iterator<Item = (i64, i64, i64)> {
    let of_product = move |l| (0..m).flat_map(move |i| (0..n).map(move |j| (l, i, j)));
    (0..products).flat_map(of_product)
}
