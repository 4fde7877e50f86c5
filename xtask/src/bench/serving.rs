//! Attention as inference engines call it: keys and values in pages, and sequences of different lengths.

use std::path::Path;

use anyhow::{Result, ensure};
use colex_gpu::attention::{Attention, AttentionCall, Mask};
use colex_gpu::{Buffer, Device, View, ViewMut};
use colex_layout::Layout;
use half::bf16;

use super::attention::{largest_difference, normal};
use super::device::{BenchReport, Contender, PROTOCOL, take_turns};

/// A step of decoding: sequences, keys of each, heads of Q and of K, features.
struct DecodeStep {
    batch: i64,
    keys: i64,
    heads: [i64; 2],
    width: i64,
}

/// The step that is measured, and the rows of pages.
const STEP: DecodeStep = DecodeStep {
    batch: 64,
    keys: 8192,
    heads: [32, 8],
    width: 128,
};
const PAGES: [i64; 2] = [16, 64];

/// Measures one query of each sequence on keys in pages, beside the same keys without pages.
pub(super) fn paged(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("paged", "TB/s", device);
    println!(
        "{PROTOCOL}; bytes of Q, K, V and O; the pages of a sequence lie anywhere in the pool"
    );
    let DecodeStep {
        batch,
        keys,
        heads: [heads, of_keys],
        width,
    } = STEP;
    with_pages(device, &STEP, |calls| {
        let elements = 2 * batch * of_keys * keys * width + 2 * batch * heads * width;
        let title = format!(
            "{batch} sequences of {keys} keys, heads {heads} on {of_keys}, features {width}"
        );
        measure(
            device,
            (&title, calls),
            2.0 * elements as f64 / 1e6,
            &mut report,
        )
    })?;
    report.write(json)
}

/// Measures calls in turn; `work` is what one run does in the report's unit times a microsecond.
fn measure(
    device: &Device,
    (title, calls): (&str, &[(String, AttentionCall<'_>)]),
    work: f64,
    report: &mut BenchReport,
) -> Result<()> {
    let contenders: Vec<Contender<'_>> = (calls.iter())
        .map(|(name, call)| Contender::new(name, |device| call.run(device)))
        .collect();
    let times = take_turns(device, &contenders, 9, 4)?;
    let names: Vec<String> = contenders.iter().map(|c| c.name.clone()).collect();
    report.group(title, &names, &times, work);
    Ok(())
}

/// The layouts of keys as (sequence, head, key, feature) or (page, head, row, feature): token by token, all heads of each.
fn by_tokens(count: i64, rows: i64, step: &DecodeStep) -> Result<Layout> {
    let [_, heads] = step.heads;
    let row = heads * step.width;
    Ok(Layout::new(
        [count, heads, rows, step.width],
        [rows * row, step.width, row, 1],
    )?)
}

/// The same, head by head.
fn by_heads(count: i64, rows: i64, step: &DecodeStep) -> Result<Layout> {
    let [_, heads] = step.heads;
    let head = rows * step.width;
    Ok(Layout::new(
        [count, heads, rows, step.width],
        [heads * head, head, step.width, 1],
    )?)
}

/// A permutation of the numbers below `count`.
fn shuffled(count: i64) -> Vec<i32> {
    let mut all: Vec<i32> = (0..count as i32).collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for i in (1..all.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.swap(i, (state % (i as u64 + 1)) as usize);
    }
    all
}

/// Gives the calls of a step to `body`, without pages and with pages in a drawn order. Before that, the output with the pages in
/// order is compared with that without pages.
fn with_pages(
    device: &Device,
    step: &DecodeStep,
    body: impl FnOnce(&[(String, AttentionCall<'_>)]) -> Result<()>,
) -> Result<()> {
    let DecodeStep {
        batch,
        keys,
        heads: [heads, of_keys],
        width,
    } = *step;
    let all = (batch * of_keys * keys * width) as usize;
    let (k, v) = (normal(device, all, 1)?, normal(device, all, 2)?);
    let q = normal(device, (batch * heads * width) as usize, 3)?;
    let queries = q.view((batch, heads, 1, width))?;
    let lengths = device.upload(&vec![keys as u32; batch as usize])?;
    let lengths = lengths.view(batch)?;
    let tables: Vec<Buffer<i32>> = (PAGES.iter())
        .map(|rows| {
            let pages: Vec<i32> = (0..(batch * keys / rows) as i32).collect();
            device.upload(&pages)
        })
        .collect::<Result<_, _>>()?;
    // Two layouts without pages, and two with pages of each number of rows.
    let mut layouts = vec![
        (
            "head by head".to_string(),
            None,
            by_heads(batch, keys, step)?,
        ),
        (
            "token by token".to_string(),
            None,
            by_tokens(batch, keys, step)?,
        ),
    ];
    for (i, rows) in PAGES.into_iter().enumerate() {
        let pages = batch * keys / rows;
        let of_page = by_tokens(pages, rows, step)?;
        layouts.push((format!("pages of {rows}, token by token"), Some(i), of_page));
        let of_page = by_heads(pages, rows, step)?;
        layouts.push((format!("pages of {rows}, head by head"), Some(i), of_page));
    }
    let outputs = layouts.iter().map(|_| device.poisoned::<bf16>(q.len()));
    let mut outputs: Vec<Buffer<bf16>> = outputs.collect::<Result<_, _>>()?;
    let handles = outputs.clone();
    let mut calls: Vec<(String, AttentionCall<'_>)> = Vec::new();
    for ((name, pages, layout), o) in layouts.iter().zip(&mut outputs) {
        let (k, v) = (View::new(&k, layout)?, View::new(&v, layout)?);
        let o = o.view_mut((batch, heads, 1, width))?;
        let mut call = Attention::new(&queries, &k, &v, &o);
        let table;
        if let Some(i) = pages {
            table = tables[*i].view((batch, keys / PAGES[*i]))?;
            call = call.pages(&table, &lengths, keys);
        }
        let call = call.prepare()?;
        calls.push((format!("{name}: {call}"), call));
    }
    for (_, call) in &calls {
        call.run(device)?;
    }
    let found: Vec<Vec<bf16>> = (handles.iter())
        .map(Buffer::download)
        .collect::<Result<_, _>>()?;
    // Pages in order, token by token, are the keys without pages.
    for ((name, ..), of_call) in layouts.iter().zip(&found).skip(1) {
        let apart = largest_difference(&found[1], of_call);
        ensure!(
            apart < 1e-2 || name.contains("head by head"),
            "{name} is {apart} from the same keys without pages: at most 0.01 is rounding"
        );
    }
    for (table, rows) in tables.iter().zip(PAGES) {
        table.write(&shuffled(batch * keys / rows))?;
    }
    body(&calls)
}

/// The heads and features of sequences of different lengths, and the rows of all.
struct Lengths {
    heads: i64,
    width: i64,
    longest: i64,
    rows: i64,
}

const LENGTHS: Lengths = Lengths {
    heads: 16,
    width: 128,
    longest: 8192,
    rows: 32768,
};

impl Lengths {
    /// Lengths by Zipf's law: the longest over 1, 2, 3 and so on, in a drawn order, until all rows are taken.
    fn zipf(&self) -> Vec<i64> {
        let mut lengths = Vec::new();
        let mut left = self.rows;
        for rank in 1.. {
            let length = (self.longest / rank).max(1).min(left);
            lengths.push(length);
            left -= length;
            if left == 0 {
                break;
            }
        }
        let order = shuffled(lengths.len() as i64);
        order.into_iter().map(|i| lengths[i as usize]).collect()
    }

    /// As many rows in sequences of one length, a power of two: at least that over which a row of the drawn sequences sees keys in
    /// the mean.
    fn equal(&self) -> Vec<i64> {
        let squares: i64 = self.zipf().iter().map(|n| n * n).sum();
        let length = (squares / self.rows.max(1)).max(1) as u64;
        let length = (length.next_power_of_two() as i64).min(self.rows);
        vec![length; (self.rows / length) as usize]
    }
}

/// Measures sequences of different lengths in the rows of one tensor, and as many rows in sequences of one length.
pub(super) fn varlen(device: &Device, json: Option<&Path>) -> Result<()> {
    let mut report = BenchReport::new("varlen", "TFLOP/s", device);
    println!("{PROTOCOL}; causal work counts half");
    for mask in [Mask::Full, Mask::Causal] {
        for lengths in [LENGTHS.equal(), LENGTHS.zipf()] {
            let [shortest, longest] = [lengths.iter().min(), lengths.iter().max()];
            let [shortest, longest] = [shortest, longest].map(|n| n.copied().unwrap_or(0));
            let Lengths {
                heads, width, rows, ..
            } = LENGTHS;
            let title = format!(
                "{} sequences of {shortest} to {longest} tokens, {rows} in all, {heads} heads, features {width}, {mask}",
                lengths.len()
            );
            let pairs: i64 = lengths.iter().map(|n| n * n).sum();
            let half = if mask == Mask::Causal { 0.5 } else { 1.0 };
            let work = 4.0 * half * (pairs * heads * width) as f64 / 1e6;
            with_lengths(device, (&LENGTHS, &lengths), mask, |calls| {
                measure(device, (&title, calls), work, &mut report)
            })?;
        }
    }
    report.write(json)
}

/// Gives the call on packed sequences to `body` and, if they have one length, that on a batch, whose output is the same.
fn with_lengths(
    device: &Device,
    (of, lengths): (&Lengths, &[i64]),
    mask: Mask,
    body: impl FnOnce(&[(String, AttentionCall<'_>)]) -> Result<()>,
) -> Result<()> {
    let (heads, width, rows) = (of.heads, of.width, of.rows);
    let count = (rows * heads * width) as usize;
    let [q, k, v] = [1, 2, 3].map(|seed| normal(device, count, seed));
    let (q, k, v) = (q?, k?, v?);
    let mut offsets = vec![0u32];
    for length in lengths {
        offsets.push(offsets[offsets.len() - 1] + *length as u32);
    }
    let offsets = device.upload(&offsets)?;
    let offsets = offsets.view(lengths.len() as i64 + 1)?;
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let shortest = lengths.iter().copied().min().unwrap_or(0);
    let mut outputs = [
        device.poisoned::<bf16>(count)?,
        device.poisoned::<bf16>(count)?,
    ];
    let handles = outputs.clone();
    let [packed, whole] = &mut outputs;
    let shape = [rows, heads, width];
    let packed = Attention::new(
        &q.view(shape)?,
        &k.view(shape)?,
        &v.view(shape)?,
        &packed.view_mut(shape)?,
    )
    .mask(mask)
    .query_offsets(&offsets, longest)
    .key_offsets(&offsets, longest)
    .prepare()?;
    let mut calls = vec![(format!("packed: {packed}"), packed)];
    if shortest == longest {
        let row = heads * width;
        let layout = Layout::new(
            [lengths.len() as i64, heads, longest, width],
            [longest * row, width, row, 1],
        )?;
        let [q, k, v] = [&q, &k, &v].map(|buffer| View::new(buffer, &layout));
        let call = Attention::new(&q?, &k?, &v?, &ViewMut::new(whole, &layout)?)
            .mask(mask)
            .prepare()?;
        calls.push((format!("of one length: {call}"), call));
    }
    for (_, call) in &calls {
        call.run(device)?;
    }
    if calls.len() == 2 {
        let [packed, whole] = [handles[0].download()?, handles[1].download()?];
        let apart = largest_difference(&whole, &packed);
        ensure!(
            apart < 1e-2,
            "packed sequences are {apart} from the same in a batch: at most 0.01 is rounding"
        );
    }
    body(&calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Arch;

    #[test]
    fn drawn_lengths_take_all_rows() {
        let (zipf, equal) = (LENGTHS.zipf(), LENGTHS.equal());
        assert_eq!(zipf.iter().sum::<i64>(), LENGTHS.rows);
        assert_eq!(equal.iter().sum::<i64>(), LENGTHS.rows);
        assert_eq!(zipf.iter().max(), Some(&LENGTHS.longest));
        let mut pages = shuffled(1000);
        assert_ne!(pages, (0..1000).collect::<Vec<i32>>());
        pages.sort_unstable();
        assert_eq!(pages, (0..1000).collect::<Vec<i32>>());
    }

    #[test]
    fn layouts_of_pages_in_order_are_those_of_their_keys() {
        let step = DecodeStep {
            batch: 2,
            keys: 64,
            heads: [4, 2],
            width: 64,
        };
        let whole = by_tokens(2, 64, &step).expect("a layout");
        for rows in PAGES {
            let paged = by_tokens(2 * 64 / rows, rows, &step).expect("a layout");
            for (sequence, key) in (0..2).flat_map(|i| (0..64).map(move |j| (i, j))) {
                let page = (sequence * 64 + key) / rows;
                assert_eq!(
                    paged.at((page, 1, key % rows, 3)),
                    whole.at((sequence, 1, key, 3))
                );
            }
        }
    }

    #[test]
    fn calls_that_are_measured_run_and_agree() {
        let device = Device::simulator(Arch::Sm90a);
        let of = Lengths {
            heads: 1,
            width: 64,
            longest: 48,
            rows: 96,
        };
        let mut counts = Vec::new();
        for lengths in [vec![32, 32, 32], vec![48, 24, 16, 8]] {
            let found = with_lengths(&device, (&of, &lengths), Mask::Causal, |calls| {
                counts.push(calls.len());
                Ok(())
            });
            found.expect("they run and agree");
        }
        let step = DecodeStep {
            batch: 2,
            keys: 128,
            heads: [4, 2],
            width: 64,
        };
        let found = with_pages(&device, &step, |calls| {
            counts.push(calls.len());
            calls
                .iter()
                .try_for_each(|(_, call)| Ok(call.run(&device)?))
        });
        found.expect("they run and agree");
        assert_eq!(counts, [2, 1, 6]);
    }
}
