//! Attention of one head, from tensors: `cargo run --release -p colex-gpu --example attention [queries keys] [causal]`.
//!
//! On the GPU if there is one, else on the simulator; the result is compared with a softmax in double precision. The scores
//! never leave the registers: a row's maximum and sum are kept up as blocks of keys go by, and the weights of a block are
//! the left factor of the next product where they lie.

use std::error::Error;
use std::f64::consts::LOG2_E;

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp;
use colex_gpu::tensor::{
    self, AtThread, Builder, Consumer, CopyAt, Expr, Fragment, Index, Places, Producer, Rows,
    Stage, Tensor, TensorKernel,
};
use colex_gpu::{Device, Load};
use colex_layout::ComposedLayout;
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;

/// Queries of a block, and keys of a step.
const TILE: i64 = 64;
/// Numbers of a query, a key, a value.
const WIDTH: i64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_causal = words.iter().any(|word| word == "causal");
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [queries, keys] = match sizes[..] {
        [] => [150, 200],
        [queries, keys] if queries > 0 && keys > 0 => [queries, keys],
        _ => return Err("either no size, or two above 0: queries and keys".into()),
    };
    let device = Device::open();
    println!("{queries} queries, {keys} keys, on {}", device.name());
    let built = attention(is_causal)?;
    println!("{}", built.report());
    let worst = check(&device, &built, [queries, keys], is_causal)?;
    println!("largest difference from a softmax in double precision: {worst:.1e}");
    // Weights and results are rounded to 11 bits: 2^-11 of numbers below 2, and as much again for the weights.
    if worst < 4e-3 {
        Ok(())
    } else {
        Err("that is more than rounding explains".into())
    }
}

/// Builds `softmax(Q K^T / sqrt(WIDTH)) V` for any number of queries and keys; if `is_causal`, no query sees keys after its
/// own.
///
/// Parameters: Q, K and O by rows, V transposed (its numbers are mode 0, as the right factor of the second product has them).
pub(crate) fn attention(is_causal: bool) -> Result<TensorKernel, tensor::Error> {
    // Four warps along M, 16 queries each: no row leaves its warp.
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(4,1,1):(1,0,0)", (64, 16, 16))?;
    let copies = Copies::new(&mma)?;
    let mut k = Builder::new("attention", Arch::Sm80, 128);
    let by_rows = "(1024,_64):(64,_1)";
    let [q, keys] = ["q", "k"].map(|name| k.tensor(name, Ty::F16, by_rows));
    let v = k.tensor("v", Ty::F16, "(_64,1024):(_1,64)");
    let o = k.tensor("o", Ty::F16, by_rows);
    let (tid, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..1 << 20);
    let through_q = Through::new(&mut k, &copies.rows, &copies.read_q, &tid);
    let through_k = Through::new(&mut k, &copies.rows, &copies.read_k, &tid);
    let through_v = Through::new(&mut k, &copies.columns, &copies.read_v, &tid);
    let held_q = k.fragment_of(&mma, Operand::A, (TILE, WIDTH)); // (MMA, MMA_M, MMA_K)
    let held_k = k.fragment_of(&mma, Operand::B, (TILE, WIDTH)); // (MMA, MMA_N, MMA_K)
    let held_v = k.fragment_of(&mma, Operand::B, (WIDTH, TILE)); // (MMA, MMA_N, MMA_K)
    let scores = k.fragment_of(&mma, Operand::C, (TILE, TILE)); // (MMA, MMA_M, MMA_N)
    let softmax = Softmax::new(&mut k, &mma)?;

    let (once, turns) = (k.cp_async_pipeline(1), k.cp_async_pipeline(1));
    landed(&mut k, &once, |k| {
        through_q.fetch(k, &q.local_tile((TILE, WIDTH), (&block, 0)));
    });
    through_q.read(&mut k, &held_q);
    let places = mma.at(&tid).places(Operand::C, (TILE, TILE));
    let visible = Visible::new(places, keys.extent(0), &block, is_causal);
    k.for_(0, visible.steps(), 1, |k, step| {
        let stage = landed(k, &turns, |k| {
            through_k.fetch(k, &keys.local_tile((TILE, WIDTH), (step, 0)));
            through_v.fetch(k, &v.local_tile((WIDTH, TILE), (0, step)));
        });
        k.clear(&scores);
        through_k.read(k, &held_k);
        k.mma(&mma, &scores, &held_q, &held_k, &scores);
        visible.hide(k, &scores, step);
        softmax.step(k, &scores);
        // Nothing moves: the accumulators of one product are the left factor of the next.
        let weights = k.convert(&scores, Ty::F16);
        let weights = weights.as_operand(&mma, &mma, Operand::A, (TILE, TILE));
        through_v.read(k, &held_v);
        k.mma(&mma, &softmax.out, &weights, &held_v, &softmax.out);
        turns.1.release(k, &stage);
        k.sync();
    });
    softmax.end(&mut k);
    let tile = o.local_tile((TILE, WIDTH), (block, 0));
    copies.put(&mut k, &softmax.out, &tile, &tid);
    k.finish()
}

/// The tiled copies, and how the tiles that they fill lie in shared memory.
struct Copies {
    rows: (TiledCopy, ComposedLayout),
    columns: (TiledCopy, ComposedLayout),
    read_q: TiledCopy,
    read_k: TiledCopy,
    read_v: TiledCopy,
    store: TiledCopy,
}

impl Copies {
    fn new(mma: &TiledMma) -> Result<Copies, tensor::Error> {
        let fetch = colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>")?;
        let rows = TiledCopy::new(fetch.clone(), 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
        let columns = TiledCopy::new(fetch, 16, "(8,16):(1,8)", "(8,1):(1,0)")?;
        let [straight, transposed] =
            ["SM75_U32x4_LDSM_N", "SM75_U16x8_LDSM_T"].map(colex_atom::copy);
        let (straight, transposed) = (straight?, transposed?);
        let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
        Ok(Copies {
            rows: (rows, "Sw<3,3,3> o 0 o (64,64):(64,1)".parse()?),
            columns: (columns, "Sw<3,3,3> o 0 o (64,64):(1,64)".parse()?),
            read_q: TiledCopy::for_operand(straight.clone(), 16, mma, Operand::A)?,
            read_k: TiledCopy::for_operand(straight, 16, mma, Operand::B)?,
            read_v: TiledCopy::for_operand(transposed, 16, mma, Operand::B)?,
            store: TiledCopy::for_operand(store, 16, mma, Operand::C)?,
        })
    }

    /// Writes accumulators, rounded, to a tile in global memory.
    fn put(&self, k: &mut Builder, sums: &Fragment, tile: &Tensor, tid: &Index) {
        let halves = k.convert(sums, Ty::F16).retile(&self.store); // (CPY, CPY_M, CPY_N)
        let into = self.store.at(tid).partition_dst(tile); // (CPY, CPY_M, CPY_N)
        k.copy_in_bounds(&self.store, &halves, &into);
    }
}

/// A tile in shared memory, with the copies that fill it and read it.
struct Through<'a> {
    fetch: CopyAt<'a>,
    fetch_copy: &'a TiledCopy,
    read: &'a TiledCopy,
    into: Tensor,
    from: Tensor,
}

impl<'a> Through<'a> {
    fn new(
        k: &mut Builder,
        (fetch, layout): &'a (TiledCopy, ComposedLayout),
        read: &'a TiledCopy,
        tid: &Index,
    ) -> Through<'a> {
        let shared = k.shared_tensor(Ty::F16, layout.clone());
        // Of K and V the rows are N: CPY_N in place of CPY_M.
        Through {
            fetch: fetch.at(tid),
            fetch_copy: fetch,
            read,
            into: fetch.at(tid).partition_dst(&shared), // (CPY, CPY_M, CPY_K)
            from: read.at(tid).partition_src(&shared),  // (CPY, CPY_M, CPY_K)
        }
    }

    /// Starts the copy of a tile in global memory.
    fn fetch(&self, k: &mut Builder, tile: &Tensor) {
        let from = self.fetch.partition_src(tile); // (CPY, CPY_M, CPY_K)
        k.copy_in_bounds(self.fetch_copy, &from, &self.into);
    }

    /// Reads what has landed.
    fn read(&self, k: &mut Builder, held: &Fragment) {
        k.copy(self.read, &self.from, &held.retile(self.read)); // (CPY, CPY_M, CPY_K)
    }
}

/// A stage of a ring, when the copies that `fetch` starts have landed, visible to all threads.
fn landed(
    k: &mut Builder,
    (producer, consumer): &(Producer, Consumer),
    fetch: impl FnOnce(&mut Builder),
) -> Stage {
    let stage = producer.acquire(k);
    fetch(k);
    producer.commit(k, &stage);
    consumer.wait(k)
}

/// Which keys the queries of a block see.
struct Visible {
    places: Places,
    /// How many keys there are.
    count: Index,
    block: Index,
    is_causal: bool,
}

impl Visible {
    fn new(places: Places, count: Index, block: &Index, is_causal: bool) -> Visible {
        Visible {
            places,
            count,
            block: block.clone(),
            is_causal,
        }
    }

    /// Returns how many tiles of keys the block sees.
    fn steps(&self) -> Index {
        let past = (&self.block + 1) * TILE;
        let seen = if self.is_causal {
            self.count.min(&past)
        } else {
            self.count.clone()
        };
        (seen + (TILE - 1)) / TILE
    }

    /// Scores of keys that are not there, or not yet, become minus infinity.
    fn hide(&self, k: &mut Builder, scores: &Fragment, step: &Index) {
        k.mask(scores, f64::NEG_INFINITY, |k, i| {
            let [m, n] = &self.places[i];
            let (query, key) = (&self.block * TILE + m, step * TILE + n);
            let is_there = k.less(&key, &self.count);
            if self.is_causal {
                let is_before = k.less(&key, &(query + 1));
                k.both(is_there, is_before)
            } else {
                is_there
            }
        });
    }
}

/// A softmax whose rows arrive in pieces: the maximum so far, and the sums under it.
struct Softmax {
    rows: Rows,
    rows_of_out: Rows,
    top: Fragment,
    sum: Fragment,
    out: Fragment,
}

impl Softmax {
    /// Nothing has arrived.
    fn new(k: &mut Builder, mma: &TiledMma) -> Result<Softmax, tensor::Error> {
        let rows = Rows::new(mma, [TILE, TILE])?;
        let (top, sum) = (k.row_values(&rows, Ty::F32), k.row_values(&rows, Ty::F32));
        k.fill(&top, f64::NEG_INFINITY);
        k.fill(&sum, 0.0);
        Ok(Softmax {
            rows,
            rows_of_out: Rows::new(mma, [TILE, WIDTH])?,
            top,
            sum,
            out: k.accumulators(mma, (TILE, WIDTH)), // (MMA, MMA_M, MMA_N)
        })
    }

    /// Scores become weights under the new maximum, `2^(scale (score - new))`, and what there is so far is brought under it.
    fn step(&self, k: &mut Builder, scores: &Fragment) {
        let scale = LOG2_E / (WIDTH as f64).sqrt();
        let (new, shrink) = (
            k.row_values(&self.rows, Ty::F32),
            k.row_values(&self.rows, Ty::F32),
        );
        let (all_new, all_sum) = (
            self.rows.broadcast_rows(&new),
            self.rows.broadcast_rows(&self.sum),
        );
        k.assign(&new, &self.top);
        k.assign(&all_new, Expr::from(&all_new).max(scores));
        k.reduce_rows(BinaryOp::Max, &self.rows, &new);

        k.assign(&shrink, ((&self.top - &new) * scale).exp2());
        k.assign(&self.top, &new);
        k.assign(&self.sum, &self.sum * &shrink);
        let shrink = self.rows_of_out.broadcast_rows(&shrink);
        k.assign(&self.out, &self.out * &shrink);

        k.assign(&new, &new * -scale);
        k.assign(scores, Expr::from(scores).fma(scale, &all_new).exp2());
        k.assign(&all_sum, &all_sum + scores);
    }

    /// The lanes of a row bring their sums together, and divide.
    fn end(&self, k: &mut Builder) {
        k.reduce_rows(BinaryOp::Add, &self.rows, &self.sum);
        k.assign(&self.sum, Expr::from(&self.sum).recip());
        let sum = self.rows_of_out.broadcast_rows(&self.sum);
        k.assign(&self.out, &self.out * &sum);
    }
}

/// Runs it, and answers with the largest difference from a softmax in double precision.
pub(crate) fn check(
    device: &Device,
    built: &TensorKernel,
    [queries, keys]: [usize; 2],
    is_causal: bool,
) -> Result<f64, Box<dyn Error>> {
    let number = |i: usize| f16::from_f32((i * 7919 % 127) as f32 / 32.0 - 2.0);
    let width = WIDTH as usize;
    let numbers = |from: usize, n: usize| (from..from + n * width).map(number).collect();
    let (q, k, v): (Vec<f16>, Vec<f16>, Vec<f16>) =
        (numbers(0, queries), numbers(5, keys), numbers(11, keys));
    let (on_q, on_k, on_v) = (device.upload(&q)?, device.upload(&k)?, device.upload(&v)?);
    let mut on_o = device.poisoned::<f16>(queries * width)?;
    let attention = built.load(device)?;
    let by_rows = |n: usize| (n as i64, WIDTH);
    attention.launch(
        [queries.div_ceil(TILE as usize)],
        (
            on_q.view(by_rows(queries))?,
            on_k.view(by_rows(keys))?,
            on_v.view_t((WIDTH, keys as i64))?,
            on_o.view_mut(by_rows(queries))?,
        ),
    )?;
    let mut worst = 0.0f64;
    for (i, found) in on_o.download()?.chunks(width).enumerate() {
        let seen = if is_causal { keys.min(i + 1) } else { keys };
        let right = softmax_row(&q[i * width..][..width], &k, &v, seen);
        for (found, right) in found.iter().zip(right) {
            let difference = (f64::from(*found) - right).abs();
            // A number that is none is infinitely wrong.
            worst = worst.max(if difference.is_nan() {
                f64::INFINITY
            } else {
                difference
            });
        }
    }
    Ok(worst)
}

/// What one query sees of the first keys, in double precision.
fn softmax_row(query: &[f16], keys: &[f16], values: &[f16], seen: usize) -> Vec<f64> {
    let row = |all: &[f16], j: usize| -> Vec<f64> {
        all[j * query.len()..][..query.len()]
            .iter()
            .map(|x| f64::from(*x))
            .collect()
    };
    let score = |j: usize| -> f64 {
        let products = query
            .iter()
            .zip(row(keys, j))
            .map(|(a, b)| f64::from(*a) * b);
        products.sum::<f64>() / (query.len() as f64).sqrt()
    };
    let scores: Vec<f64> = (0..seen).map(score).collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
    let mut mean = vec![0.0; query.len()];
    for (j, score) in scores.iter().enumerate() {
        let weight = (score - top).exp() / sum;
        mean.iter_mut()
            .zip(row(values, j))
            .for_each(|(m, v)| *m += weight * v);
    }
    mean
}
