//! Products of views drawn at random: any strides, any nesting, rows that overlap or repeat.

use crate::sweep::Random;
use colex_device::Device;
use colex_gpu::kernels::{Gemm, View, ViewMut};
use colex_layout::{IntTuple, IntoIntTuple, Layout};

/// A layout of two modes with these extents: in any order, with gaps, a mode of composite extent sometimes
/// split, and rows that overlap or repeat if the layout may be read only.
pub(super) fn matrix(random: &mut Random, extents: [i64; 2], is_read: bool) -> Layout {
    let mut leaves: Vec<(usize, i64)> = Vec::new();
    for (mode, extent) in extents.into_iter().enumerate() {
        let factor = [2, 3].into_iter().find(|f| extent % f == 0 && extent > *f);
        match factor {
            Some(factor) if random.below(3) == 0 => {
                leaves.extend([(mode, factor), (mode, extent / factor)]);
            }
            _ => leaves.push((mode, extent)),
        }
    }
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    let mut strides = vec![0; leaves.len()];
    let mut next = 1 + i64::from(random.below(3) == 0);
    for leaf in order {
        strides[leaf] = next;
        next = next * leaves[leaf].1 + [0, 0, 1, 5][random.below(4) as usize];
    }
    if is_read && random.below(5) == 0 {
        let leaf = random.below(strides.len() as u64) as usize;
        strides[leaf] = random.below(2) as i64;
    }
    let nested = |of: &dyn Fn(usize) -> i64| {
        [0, 1].map(|mode| {
            let of_mode = (0..leaves.len()).filter(|&leaf| leaves[leaf].0 == mode);
            match of_mode.map(of).collect::<Vec<_>>()[..] {
                [one] => IntTuple::from(one),
                ref several => several.into_int_tuple().expect("integers of 64 bits"),
            }
        })
    };
    let shape = nested(&|leaf| leaves[leaf].1);
    Layout::new(shape, nested(&|leaf| strides[leaf])).expect("small extents and strides")
}

/// The offset of an element: by index in each of the two modes.
pub(super) fn at(layout: &Layout, i: i64, j: i64) -> usize {
    let rows = layout.mode(0).expect("two modes").size();
    layout.at(i + rows * j).expect("an index") as usize
}

/// `alpha A B^T + beta C` of small integers, exact in f32.
#[allow(clippy::too_many_arguments, reason = "the operands of a product")]
fn expected(
    [m, n, k]: [i64; 3],
    [alpha, beta]: [f64; 2],
    (a, la): (&[f32], &Layout),
    (b, lb): (&[f32], &Layout),
    (c, lc): (&[f32], &Layout),
) -> Vec<f32> {
    let mut after = c.to_vec();
    for i in 0..m {
        for j in 0..n {
            let products = (0..k).map(|p| f64::from(a[at(la, i, p)] * b[at(lb, j, p)]));
            let old = match beta {
                0.0 => 0.0,
                beta => beta * f64::from(c[at(lc, i, j)]),
            };
            after[at(lc, i, j)] = (alpha * products.fold(0.0, |sum, x| sum + x) + old) as f32;
        }
    }
    after
}

fn numbers(random: &mut Random, layout: &Layout) -> Vec<f32> {
    let count = layout.cosize().expect("small");
    (0..count).map(|_| random.below(9) as f32 - 4.0).collect()
}

/// Returns whether two lists have the same bits.
pub fn same_bits(found: &[f32], expected: &[f32]) -> bool {
    let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(found) == bits(expected)
}

/// How often each matrix of the drawn products was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// A, B, and C where it was read.
    pub before: [usize; 3],
    /// C after the product.
    pub after: usize,
}

/// Runs products of f32 whose extents, layouts and factors are drawn from `seed`, and compares every element of C's memory
/// bit by bit with the sum over K.
///
/// # Errors
///
/// A sentence that names the layouts and the call of the first product that is refused or wrong.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<Packed, String> {
    let (mut random, mut packed) = (Random::of(seed, "views"), Packed::default());
    for _ in 0..rounds {
        let extents = [0; 3].map(|_| 1 + random.below(12) as i64);
        let [m, n, k] = extents;
        let [la, lb, lc] = [([m, k], true), ([n, k], true), ([m, n], false)]
            .map(|(extents, is_read)| matrix(&mut random, extents, is_read));
        let factors = [[1.0, 0.0], [2.0, -0.5], [0.5, 1.0]][random.below(3) as usize];
        let (a, b) = (numbers(&mut random, &la), numbers(&mut random, &lb));
        let c = numbers(&mut random, &lc);
        let said = |what: String| format!("{la}, {lb}, {lc}, {factors:?}: {what}");
        let found = || -> Result<(String, Packed, Vec<f32>), colex_gpu::Error> {
            let (da, db, dc) = (device.upload(&a)?, device.upload(&b)?, device.upload(&c)?);
            let mut written = dc.clone();
            let call = Gemm::new(
                &View::new(&da, &la)?,
                &View::new(&db, &lb)?,
                &ViewMut::new(&mut written, &lc)?,
            );
            let call = call.alpha(factors[0]).beta(factors[1]).prepare()?;
            let mut packed = Packed::default();
            for (name, _) in call.packed() {
                let operand = ["A", "B", "C"].iter().position(|known| *known == name);
                packed.before[operand.expect("a matrix")] += 1;
            }
            packed.after += usize::from(call.unpacked().is_some());
            call.run(device)?;
            Ok((call.to_string(), packed, dc.download()?))
        };
        let (call, more, found) = found().map_err(|error| said(error.to_string()))?;
        let right = expected(extents, factors, (&a, &la), (&b, &lb), (&c, &lc));
        if !same_bits(&found, &right) {
            return Err(said(format!("{call} is wrong")));
        }
        for (sum, more) in packed.before.iter_mut().zip(more.before) {
            *sum += more;
        }
        packed.after += more.after;
    }
    Ok(packed)
}
