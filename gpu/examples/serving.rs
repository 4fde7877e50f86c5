//! Attention in two steps of a server that generates text: `cargo run --release -p colex-gpu --example serving [LENGTHS]`.
//!
//! The arguments are the lengths of the prompts, such as `2000 700 4096`. The first step computes all tokens of all prompts,
//! whose rows follow each other in one tensor. Then the keys and values go to the pages of a pool. The second step computes one
//! new token for each sequence, with its keys in pages.
//!
//! On the GPU if there is one, else on the simulator; rows of both steps are compared with a softmax in double precision.

use std::error::Error;

use colex_gpu::attention::{Attention, Mask};
use colex_gpu::{Device, Repeats};
use half::bf16;

/// Heads of queries, and heads of keys: groups of four heads share their keys and values.
const HEADS: usize = 8;
const HEADS_OF_KEYS: usize = 2;
/// Features of a query, a key and a value.
const WIDTH: usize = 128;
/// Keys of a page.
const PAGE: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::open();
    let prompts = prompts(&device)?;
    println!("prompts of {prompts:?} tokens, on {}", device.name());
    // Each sequence has the tokens of its prompt, and one more that the second step computes.
    let sequences: Vec<Sequence> = (prompts.iter().enumerate())
        .map(|(i, prompt)| Sequence::new(prompt + 1, i as u64 + 1))
        .collect();
    prefill(&device, &sequences)?;
    decode(&device, &sequences)?;
    if device.is_simulator() {
        println!("The simulator says what a kernel does, not how fast: that takes a GPU.");
    }
    Ok(())
}

/// The lengths of the prompts that the arguments name.
fn prompts(device: &Device) -> Result<Vec<usize>, Box<dyn Error>> {
    let given: Vec<usize> = std::env::args()
        .skip(1)
        .map(|n| n.parse())
        .collect::<Result<_, _>>()?;
    match (&given[..], device.is_simulator()) {
        ([], true) => Ok(vec![5, 40, 19]),
        ([], false) => Ok(vec![2000, 700, 4096]),
        (given, _) if given.iter().all(|n| (1..1 << 20).contains(n)) => Ok(given.to_vec()),
        _ => Err("each prompt has 1 to 1048575 tokens".into()),
    }
}

/// The queries, keys and values of a sequence on the host: (token, head, feature).
struct Sequence {
    tokens: usize,
    q: Vec<bf16>,
    k: Vec<bf16>,
    v: Vec<bf16>,
}

impl Sequence {
    fn new(tokens: usize, seed: u64) -> Sequence {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let mut numbers = |heads: usize| -> Vec<bf16> {
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bf16::from_f64((state >> 40) as f64 / f64::from(1 << 23) - 1.0)
            };
            (0..tokens * heads * WIDTH).map(|_| next()).collect()
        };
        let (q, k, v) = (
            numbers(HEADS),
            numbers(HEADS_OF_KEYS),
            numbers(HEADS_OF_KEYS),
        );
        Sequence { tokens, q, k, v }
    }

    /// The tokens of the prompt: all but the last.
    fn prompt(&self) -> usize {
        self.tokens - 1
    }

    /// The output of a head for a token that sees all tokens up to its own, in double precision.
    fn output(&self, token: usize, head: usize) -> Vec<f64> {
        let row = |of: &[bf16], at: usize| -> Vec<f64> {
            let row = &of[at * WIDTH..][..WIDTH];
            row.iter().map(|x| f64::from(*x)).collect()
        };
        let query = row(&self.q, token * HEADS + head);
        let of_keys = head / (HEADS / HEADS_OF_KEYS);
        let at = |key: usize| key * HEADS_OF_KEYS + of_keys;
        let score = |key: usize| -> f64 {
            let products = query.iter().zip(row(&self.k, at(key)));
            products.map(|(x, y)| x * y).sum::<f64>() / (WIDTH as f64).sqrt()
        };
        let scores: Vec<f64> = (0..=token).map(score).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
        let mut mean = vec![0.0; WIDTH];
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - top).exp() / sum;
            let value = row(&self.v, at(key));
            (mean.iter_mut().zip(value)).for_each(|(mean, x)| *mean += weight * x);
        }
        mean
    }
}

/// Computes all prompts in one call. Their tokens are the rows of one tensor, without padding.
fn prefill(device: &Device, sequences: &[Sequence]) -> Result<(), Box<dyn Error>> {
    // Sequence i has the rows offsets[i] to offsets[i + 1]. Offsets may be i32, as here, or u32.
    let mut offsets = vec![0i32];
    for sequence in sequences {
        offsets.push(offsets[offsets.len() - 1] + i32::try_from(sequence.prompt())?);
    }
    let rows = offsets[sequences.len()] as usize;
    let longest = sequences.iter().map(Sequence::prompt).max().unwrap_or(0) as i64;

    let packed = |of: fn(&Sequence) -> &[bf16], heads: usize| -> Vec<bf16> {
        let prompts = sequences.iter();
        prompts
            .flat_map(|s| &of(s)[..s.prompt() * heads * WIDTH])
            .copied()
            .collect()
    };
    let q = device.upload(&packed(|s| &s.q, HEADS))?;
    let k = device.upload(&packed(|s| &s.k, HEADS_OF_KEYS))?;
    let v = device.upload(&packed(|s| &s.v, HEADS_OF_KEYS))?;
    let offsets_on_device = device.upload(&offsets)?;
    let mut o = device.poisoned::<bf16>(rows * HEADS * WIDTH)?;

    let of_queries = (rows, HEADS, WIDTH);
    let of_keys = (rows, HEADS_OF_KEYS, WIDTH);
    let offsets_of_both = offsets_on_device.view(offsets.len())?;
    let call = Attention::new(
        &q.view(of_queries)?,
        &k.view(of_keys)?,
        &v.view(of_keys)?,
        &o.view_mut(of_queries)?,
    )
    .query_offsets(&offsets_of_both, longest)
    .key_offsets(&offsets_of_both, longest)
    .mask(Mask::Causal)
    .prepare()?;
    println!("\nPrefill: {call}");
    call.run(device)?;
    if !device.is_simulator() {
        let time = device.time(Repeats::default(), |device| call.run(device))?;
        // Two products of two operations for each score; a token sees half of its prompt on average.
        let squares: f64 = sequences.iter().map(|s| (s.prompt() as f64).powi(2)).sum();
        let operations = 4.0 * squares / 2.0 * (HEADS * WIDTH) as f64;
        println!("{time}: {:.0} TFLOP/s", operations / time.median() / 1e6);
    }

    let found = o.download()?;
    let mut worst = 0.0f64;
    for (sequence, first) in sequences.iter().zip(&offsets) {
        let last = sequence.prompt() - 1;
        for (token, head) in [0, last / 2, last]
            .into_iter()
            .zip([0, HEADS / 2, HEADS - 1])
        {
            let row = (*first as usize + token) * HEADS + head;
            worst = worst.max(distance(&found, row, &sequence.output(token, head)));
        }
    }
    within_rounding(worst)
}

/// Computes the next token of each sequence in one call. The keys and values of a sequence lie in pages of a pool.
fn decode(device: &Device, sequences: &[Sequence]) -> Result<(), Box<dyn Error>> {
    let pages_of = |sequence: &Sequence| sequence.tokens.div_ceil(PAGE);
    let entries = sequences.iter().map(pages_of).max().unwrap_or(0);
    let pages: usize = sequences.iter().map(pages_of).sum();
    // The table names the pages of each sequence. After some time a server has them in any order: here from the last to the
    // first. No sequence reads the entries behind its last page.
    let mut table = vec![-1i32; sequences.len() * entries];
    // The pool is (page, row of the page, head, feature). Here the host fills it; a server has a kernel that writes the key and
    // the value of each new token to their place.
    let size = pages * PAGE * HEADS_OF_KEYS * WIDTH;
    let (mut keys, mut values) = (vec![bf16::ZERO; size], vec![bf16::ZERO; size]);
    let mut free = pages;
    for (i, sequence) in sequences.iter().enumerate() {
        for entry in 0..pages_of(sequence) {
            free -= 1;
            table[i * entries + entry] = i32::try_from(free)?;
            let rows = HEADS_OF_KEYS * WIDTH;
            let first = entry * PAGE * rows;
            let count = (sequence.k.len() - first).min(PAGE * rows);
            let into = free * PAGE * rows..free * PAGE * rows + count;
            keys[into.clone()].copy_from_slice(&sequence.k[first..first + count]);
            values[into].copy_from_slice(&sequence.v[first..first + count]);
        }
    }
    let lengths: Vec<i32> = (sequences.iter())
        .map(|sequence| i32::try_from(sequence.tokens))
        .collect::<Result<_, _>>()?;
    let longest = sequences.iter().map(|s| s.tokens).max().unwrap_or(0) as i64;
    let newest = |s: &Sequence| s.q[s.prompt() * HEADS * WIDTH..].to_vec();
    let queries: Vec<bf16> = sequences.iter().flat_map(newest).collect();

    let (k, v) = (device.upload(&keys)?, device.upload(&values)?);
    let (table, lengths) = (device.upload(&table)?, device.upload(&lengths)?);
    let q = device.upload(&queries)?;
    let mut o = device.poisoned::<bf16>(queries.len())?;

    // The call takes (page, head, row of the page, feature) in any strides: the pool needs no copy.
    let pool = (pages, PAGE, HEADS_OF_KEYS, WIDTH);
    let order = [0, 2, 1, 3];
    let one_each = (sequences.len(), HEADS, 1, WIDTH);
    // The only query of a sequence is its last token. It sees all keys, so the call needs no mask.
    let call = Attention::new(
        &q.view(one_each)?,
        &k.view(pool)?.permute(&order)?,
        &v.view(pool)?.permute(&order)?,
        &o.view_mut(one_each)?,
    )
    .pages(
        &table.view((sequences.len(), entries))?,
        &lengths.view(sequences.len())?,
        longest,
    )
    .prepare()?;
    println!("\nDecode: {call}");
    call.run(device)?;
    if !device.is_simulator() {
        let time = device.time(Repeats::default(), |device| call.run(device))?;
        let tokens: usize = sequences.iter().map(|s| s.tokens).sum();
        let bytes = (2 * tokens * HEADS_OF_KEYS * WIDTH * size_of::<bf16>()) as f64;
        println!(
            "{time}: {:.2} TB/s of keys and values",
            bytes / time.median() / 1e6
        );
    }

    let found = o.download()?;
    let mut worst = 0.0f64;
    for (i, sequence) in sequences.iter().enumerate() {
        for head in 0..HEADS {
            let right = sequence.output(sequence.prompt(), head);
            worst = worst.max(distance(&found, i * HEADS + head, &right));
        }
    }
    within_rounding(worst)
}

/// The largest difference between a row of the output and the right one.
fn distance(found: &[bf16], row: usize, right: &[f64]) -> f64 {
    let row = &found[row * WIDTH..][..WIDTH];
    let differences = row
        .iter()
        .zip(right)
        .map(|(x, y)| (f64::from(*x) - y).abs());
    // A NaN is infinitely wrong.
    let size = |x: f64| if x.is_nan() { f64::INFINITY } else { x };
    differences.map(size).fold(0.0, f64::max)
}

/// Prints the largest difference, and refuses one that rounding does not explain.
fn within_rounding(worst: f64) -> Result<(), Box<dyn Error>> {
    println!("largest difference from a softmax in double precision: {worst:.1e}");
    // Values are below 1. The kernel rounds each weight and each output to bf16: 2^-9 of it, twice.
    if worst < 1.0 / 256.0 {
        Ok(())
    } else {
        Err("that is more than rounding explains".into())
    }
}
