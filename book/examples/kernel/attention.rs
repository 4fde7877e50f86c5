//! Attention: two products with a softmax between them, in registers.
//!
//! Run it with `cargo run -p colex-book --example kernel_attention`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp::{Add, Max};
use colex_gpu::tensor::{AtThread, Builder, Expr, Rows, TensorKernel};
use colex_gpu::{Device, Load, View, ViewMut};
use colex_layout::{C, Layout};
use colex_tiled::{Operand, TiledCopy, TiledMma};
use half::f16;
use std::error::Error;
use std::f64::consts::LOG2_E;

fn main() -> Result<(), Box<dyn Error>> {
    online();
    products()?;
    rows()?;
    bytes()?;
    kernel()?;
    mask()?;
    refusals()?;
    Ok(())
}

/// The softmax of four queries over four keys, two keys at a time, in powers of 2.
fn online() {
    println!("\n== online ==");
    // ANCHOR: online
    let scores = [[1, 0, 3, 1], [2, 2, 0, 1], [0, 1, 1, 4], [1, 0, 3, 1]];
    let values = [1.0, 2.0, 3.0, 4.0];
    for (query, scores) in scores.iter().enumerate() {
        let (mut top, mut sum, mut out) = (f64::NEG_INFINITY, 0.0, 0.0);
        for keys in [0..2, 2..4] {
            if keys.start > query {
                continue; // the mask hides the whole block
            }
            let score = |key: usize| {
                if key <= query {
                    f64::from(scores[key])
                } else {
                    f64::NEG_INFINITY
                }
            };
            let new = keys.clone().map(score).fold(top, f64::max);
            let shrink = (top - new).exp2();
            let weight = |key: usize| (score(key) - new).exp2();
            sum = sum * shrink + keys.clone().map(weight).sum::<f64>();
            out = out * shrink + keys.map(|key| weight(key) * values[key]).sum::<f64>();
            top = new;
            println!("query {query}: maximum {top}, sum {sum}, output {out}");
        }
        println!("query {query}: {:.4}", out / sum);
    }
    // ANCHOR_END: online
}

/// Reads the accumulators of the first product as an operand of the second.
fn products() -> Result<(), Box<dyn Error>> {
    println!("\n== products ==");
    // ANCHOR: products
    // 64 queries and 32 keys. Queries and keys have 64 features, values have 128.
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let of_scores = TiledMma::new(atom.clone(), "(4,1,1):(1,0,0)", (64, 32, 16))?; // S = Q K^T
    let of_output = TiledMma::new(atom, "(4,1,1):(1,0,0)", (64, 128, 16))?; // O = P V

    let mut k = Builder::new("k", Arch::Sm80, 128);
    let scores = k.accumulators(&of_scores, [64, 32]);
    let as_c = scores.layout(); // (MMA, MMA_M, MMA_N) -> register
    println!("S as C: {as_c}");

    // Two tiles of C beside each other are one tile of A.
    let (in_tile, along_m) = (as_c.get(&[0])?, as_c.get(&[1])?);
    let tiles = as_c.get(&[2])?.logical_divide(C::<2>)?; // (2, MMA_N / 2)
    let in_tile = in_tile.append(tiles.get(&[0])?)?;
    let as_a = Layout::concat([&in_tile, &along_m, &tiles.get(&[1])?])?;
    println!("P as A: {as_a}"); // (MMA, MMA_M, MMA_K) -> register

    // Value i of A is the element that lies in register as_a(i), in every thread.
    let tile = Layout::identity((64, 32))?;
    let of_c = of_scores.fragments(&tile, Operand::C)?; // (thread, value) -> (query, key)
    let of_a = of_output.fragments(&tile, Operand::A)?;
    for thread in 0..128 {
        for value in 0..16 {
            let register = as_a.at(value)?;
            let (wanted, held) = ((thread, value), (thread, register));
            assert_eq!(of_a.coord_at(wanted)?, of_c.coord_at(held)?);
        }
    }

    // In a kernel, as_operand finds the same layout.
    let weights = k.convert(&scores, Ty::F16);
    let weights = weights.as_operand(&of_scores, &of_output, Operand::A, [64, 32]);
    assert_eq!(weights.layout(), &as_a);
    // ANCHOR_END: products
    Ok(())
}

/// Reads off which registers and lanes share a row.
fn rows() -> Result<(), Box<dyn Error>> {
    println!("\n== rows ==");
    // ANCHOR: rows
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(4,1,1):(1,0,0)", (64, 16, 16))?;
    let rows = Rows::new(&mma, [64, 64])?;
    println!("{}", rows.layout());
    assert_eq!((rows.count(), rows.lanes()), (2, &[1, 2][..]));
    // ANCHOR_END: rows
    Ok(())
}

/// Why the registers of 8-bit floats do not fit.
fn bytes() -> Result<(), Box<dyn Error>> {
    println!("\n== bytes ==");
    // ANCHOR: bytes
    let tiled = |atom: &str, k: i64| -> Result<TiledMma, Box<dyn Error>> {
        let atom = colex_atom::mma(atom)?;
        Ok(TiledMma::new(atom, "(1,1,1):(0,0,0)", (16, 8, k))?)
    };
    let half = tiled("SM80_16x8x16_F32F16F16F32_TN", 16)?;
    let byte = tiled("SM89_16x8x32_F32E4M3E4M3F32_TN", 32)?;
    // The columns of row 0 that thread 0 holds of a tile of 16 by 32. A bar is between columns
    // that are not neighbours.
    for (what, mma, operand) in [
        ("accumulators", &byte, Operand::C),
        ("A of f16", &half, Operand::A),
        ("A of e4m3", &byte, Operand::A),
    ] {
        let elements = mma.fragments(&Layout::identity((16, 32))?, operand)?;
        let (mut text, mut next) = (String::new(), 0);
        for value in 0..16 {
            let at = elements.coord_at((0, value))?;
            let [row, column] = [at.get(&[0])?, at.get(&[1])?].map(|of| of.to_string());
            if row == "0" {
                let column: i64 = column.parse()?;
                text += if column == next { " " } else { " | " };
                text += &column.to_string();
                next = column + 1;
            }
        }
        println!("{what}:{text}");
    }

    let mut k = Builder::new("k", Arch::Sm89, 32);
    let sums = k.accumulators(&byte, [16, 32]);
    let weights = k.convert(&sums, Ty::E4m3);
    weights.as_operand(&byte, &byte, Operand::A, (16, 32));
    println!("{}", k.finish().unwrap_err().what());
    // ANCHOR_END: bytes
    Ok(())
}

/// Prints which scores of a lane a causal mask hides.
fn mask() -> Result<(), Box<dyn Error>> {
    println!("\n== mask ==");
    // ANCHOR: mask
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(1,1,1):(0,0,0)", (16, 16, 16))?;
    // In this tile, each element is its own coordinate: (query, key).
    let coordinates = mma.fragments(&Layout::identity((16, 16))?, Operand::C)?;
    println!("{coordinates:#}");
    for value in 0..8 {
        let at = coordinates.coord_at((5, value))?;
        let [query, key] = [at.get(&[0])?, at.get(&[1])?];
        let is_seen = key.product()?.value() <= query.product()?.value();
        println!("{at} {}", if is_seen { "seen" } else { "hidden" });
    }
    // ANCHOR_END: mask
    Ok(())
}

// ANCHOR: arguments
/// softmax(Q K^T / 8) V, rows of 64 numbers. If `causal`, query i sees only the keys up to i:
/// the first query has the position of the first key.
pub(crate) fn attention(causal: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("attention", Arch::Sm80, 128);
    let by_rows = "(1024,_64):(64,_1)";
    let q = k.tensor("q", Ty::F16, by_rows);
    let keys = k.tensor("k", Ty::F16, by_rows);
    // As the right factor of P V has it: a column is a key.
    let v = k.tensor("v", Ty::F16, "(_64,1024):(_1,64)");
    let o = k.tensor("o", Ty::F16, by_rows);
    let (tid, block) = (k.thread(), k.block_index(0));
    let block = k.within(block, 0..1 << 20); // the launch checks this range

    let rows = "Sw<3,3,3> o 0 o (64,64):(64,1)";
    let shared_q = k.shared_tensor(Ty::F16, rows);
    let shared_k = k.shared_tensor(Ty::F16, rows);
    let shared_v = k.shared_tensor(Ty::F16, "Sw<3,3,3> o 0 o (64,64):(1,64)");
    // ANCHOR_END: arguments

    // ANCHOR: operations
    // Four warps along M: no row leaves its warp.
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(mma, "(4,1,1):(1,0,0)", (64, 16, 16))?;
    let fetch = || colex_atom::copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>");
    let fetch_rows = TiledCopy::new(fetch()?, 16, "(16,8):(8,1)", "(1,8):(0,1)")?;
    let fetch_v = TiledCopy::new(fetch()?, 16, "(8,16):(1,8)", "(8,1):(1,0)")?;
    let straight = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_q = TiledCopy::for_operand(straight()?, 16, &mma, Operand::A)?;
    let read_k = TiledCopy::for_operand(straight()?, 16, &mma, Operand::B)?;
    let transposed = colex_atom::copy("SM75_U16x8_LDSM_T")?;
    let read_v = TiledCopy::for_operand(transposed, 16, &mma, Operand::B)?;
    // ANCHOR_END: operations

    // ANCHOR: partitions
    let (mine, mine_v) = (fetch_rows.at(&tid), fetch_v.at(&tid));
    let into_q = mine.partition_dst(&shared_q); // (CPY, CPY_M, CPY_D)
    let into_k = mine.partition_dst(&shared_k); // (CPY, CPY_N, CPY_D)
    let into_v = mine_v.partition_dst(&shared_v); // (CPY, CPY_D, CPY_N)
    let from_q = read_q.at(&tid).partition_src(&shared_q); // (CPY, CPY_M, CPY_K)
    let from_k = read_k.at(&tid).partition_src(&shared_k); // (CPY, CPY_N, CPY_K)
    let from_v = read_v.at(&tid).partition_src(&shared_v); // (CPY, CPY_N, CPY_K)
    let held_q = k.fragment_of(&mma, Operand::A, [64, 64]); // (MMA, MMA_M, MMA_K)
    let held_k = k.fragment_of(&mma, Operand::B, [64, 64]); // (MMA, MMA_N, MMA_K)
    let held_v = k.fragment_of(&mma, Operand::B, [64, 64]); // (MMA, MMA_N, MMA_K)
    let scores = k.fragment_of(&mma, Operand::C, [64, 64]); // (MMA, MMA_M, MMA_N)
    let out = k.accumulators(&mma, [64, 64]); // (MMA, MMA_M, MMA_N)

    // For each row: the maximum so far, the next one, the sum, and the factor for the old sums.
    let rows = Rows::new(&mma, [64, 64])?;
    let (top, new) = (k.row_values(&rows, Ty::F32), k.row_values(&rows, Ty::F32));
    let (sum, shrink) = (k.row_values(&rows, Ty::F32), k.row_values(&rows, Ty::F32));
    k.fill(&top, f64::NEG_INFINITY);
    k.fill(&sum, 0.0);
    let scale = LOG2_E / 8.0;
    // ANCHOR_END: partitions

    // ANCHOR: queries
    let tile = q.local_tile((64, 64), (&block, 0)); // (BLK_M, BLK_D)
    let (fill, filled) = k.cp_async_pipeline(1);
    let stage = fill.acquire(&mut k);
    k.copy_in_bounds(&fetch_rows, &mine.partition_src(&tile), &into_q); // (CPY, CPY_M, CPY_D)
    fill.commit(&mut k, &stage);
    filled.wait(&mut k);
    k.copy(&read_q, &from_q, &held_q.retile(&read_q));
    // ANCHOR_END: queries

    // ANCHOR: scores
    let count = keys.extent(0);
    // No query of the block sees a key at or after `seen`: the loop ends there.
    let seen = if causal {
        count.min(&((&block + 1) * 64))
    } else {
        count.clone()
    };
    let places = mma.at(&tid).places(Operand::C, [64, 64]);
    let (fill, filled) = k.cp_async_pipeline(1); // one stage: K and V of a step
    k.for_(0, (&seen + 63) / 64, 1, |k, step| {
        let stage = fill.acquire(k);
        let tile = keys.local_tile((64, 64), (step, 0)); // (BLK_N, BLK_D)
        k.copy_in_bounds(&fetch_rows, &mine.partition_src(&tile), &into_k); // (CPY, CPY_N, CPY_D)
        let tile = v.local_tile((64, 64), (0, step)); // (BLK_D, BLK_N)
        k.copy_in_bounds(&fetch_v, &mine_v.partition_src(&tile), &into_v); // (CPY, CPY_D, CPY_N)
        fill.commit(k, &stage);
        let stage = filled.wait(k);

        k.clear(&scores);
        k.copy(&read_k, &from_k, &held_k.retile(&read_k));
        k.mma(&mma, &scores, &held_q, &held_k, &scores);
        // Score i stays where the condition holds, and becomes minus infinity elsewhere.
        k.mask(&scores, f64::NEG_INFINITY, |k, i| {
            let [m, n] = &places[i];
            let (query, key) = (&block * 64 + m, step * 64 + n);
            let is_there = k.less(&key, &count);
            if causal {
                let is_not_later = k.less(&key, &(query + 1));
                k.both(is_there, is_not_later)
            } else {
                is_there
            }
        });
        // ANCHOR_END: scores

        // ANCHOR: softmax
        k.assign(&new, &top);
        let of_row = rows.broadcast_rows(&new);
        k.assign(&of_row, Expr::from(&of_row).max(&scores));
        k.reduce_rows(Max, &rows, &new);
        k.assign(&shrink, ((&top - &new) * scale).exp2());
        k.assign(&top, &new);
        k.assign(&sum, &sum * &shrink);
        k.assign(&out, &out * rows.broadcast_rows(&shrink));

        // The maximum times -scale, so that one fma makes each exponent.
        let offset = k.map(&new * -scale);
        k.assign(
            &scores,
            Expr::from(&scores)
                .fma(scale, rows.broadcast_rows(&offset))
                .exp2(),
        );
        let of_row = rows.broadcast_rows(&sum);
        k.assign(&of_row, &of_row + &scores);

        let weights = k.convert(&scores, Ty::F16);
        let weights = weights.as_operand(&mma, &mma, Operand::A, [64, 64]);
        k.copy(&read_v, &from_v, &held_v.retile(&read_v));
        k.mma(&mma, &out, &weights, &held_v, &out);
        filled.release(k, &stage);
        k.sync(); // the next step overwrites the only stage
    });
    // ANCHOR_END: softmax

    // ANCHOR: epilogue
    // A lane has summed its own columns only; once, at the end, the four come together.
    k.reduce_rows(Add, &rows, &sum);
    k.assign(&sum, Expr::from(&sum).recip());
    k.assign(&out, &out * rows.broadcast_rows(&sum));
    let halves = k.convert(&out, Ty::F16);
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 16, &mma, Operand::C)?;
    let tile = o.local_tile((64, 64), (block, 0)); // (BLK_M, BLK_D)
    let into_o = store.at(&tid).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    k.copy_in_bounds(&store, &halves.retile(&store), &into_o);
    Ok(k.finish()?)
}
// ANCHOR_END: epilogue

// ANCHOR: check
/// Runs the kernel and compares every element with the host.
fn check(causal: bool, [queries, keys]: [usize; 2]) -> Result<(), Box<dyn Error>> {
    let number = |i: usize| f16::from_f32((i * 7919 % 127) as f32 / 32.0 - 2.0);
    let numbers = |at: usize, n: usize| (at..at + 64 * n).map(number).collect::<Vec<f16>>();
    let (q, k, v) = (numbers(0, queries), numbers(5, keys), numbers(11, keys));
    let device = Device::open();
    let (on_q, on_k, on_v) = (device.upload(&q)?, device.upload(&k)?, device.upload(&v)?);
    let mut on_o = device.poisoned::<f16>(queries * 64)?;
    let rows = |n: usize| ((n, C::<64>), (64, C::<1>));
    let view_q = View::new(&on_q, rows(queries))?;
    let view_k = View::new(&on_k, rows(keys))?;
    let view_v = View::new(&on_v, ((C::<64>, keys), (C::<1>, 64)))?;
    let view_o = ViewMut::new(&mut on_o, rows(queries))?;
    let grid = [queries.div_ceil(64)];
    attention(causal)?
        .load(&device)?
        .launch(grid, (view_q, view_k, view_v, view_o))?;
    for (i, found) in on_o.download()?.into_iter().enumerate() {
        let (query, column) = (i / 64 * 64, i % 64);
        let score = |j: usize| -> f64 {
            (0..64)
                .map(|l| f64::from(q[query + l]) * f64::from(k[64 * j + l]))
                .sum::<f64>()
                / 8.0
        };
        let seen = if causal { keys.min(i / 64 + 1) } else { keys };
        let weights: Vec<f64> = (0..seen).map(|j| score(j).exp()).collect();
        let mean: f64 = (0..seen)
            .map(|j| weights[j] * f64::from(v[64 * j + column]))
            .sum();
        let right = mean / weights.iter().sum::<f64>();
        assert!(
            (f64::from(found) - right).abs() < 2e-3,
            "element {i}: {found}, not {right}"
        );
    }
    Ok(())
}
// ANCHOR_END: check

/// Builds the kernel and compares it with the host.
fn kernel() -> Result<(), Box<dyn Error>> {
    println!("\n== kernel ==");
    // ANCHOR: kernel
    for causal in [false, true] {
        check(causal, [64, 64])?;
        check(causal, [70, 100])?;
        check(causal, [130, 130])?;
    }

    let text = attention(false)?.kernel.ptx()?;
    println!("{} powers", text.matches("ex2.approx").count());
    println!("{} shuffles", text.matches("shfl.sync.bfly").count());
    // ANCHOR_END: kernel
    Ok(())
}

/// Shows layouts whose registers do not fit.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let half = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let one = TiledMma::new(half.clone(), "(1,1,1):(0,0,0)", (16, 8, 16))?;
    let bytes = colex_atom::mma("SM80_16x8x32_S32S8S8S32_TN")?;
    let bytes = TiledMma::new(bytes, "(1,1,1):(0,0,0)", (16, 8, 32))?;
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let sums = k.accumulators(&one, [16, 32]);
    sums.as_operand(&one, &bytes, Operand::A, (16, 32));
    println!("{}", k.finish().unwrap_err().what());
    let across = TiledMma::new(half, "(2,2,1):(1,2,0)", (32, 32, 16))?;
    println!("{}", Rows::new(&across, [64, 64]).unwrap_err().what());
    // ANCHOR_END: refusals
    Ok(())
}
