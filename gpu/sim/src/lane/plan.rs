//! The tables of an MMA row: which bits of which thread hold which element.

use colex_atom::{FloatFormat, MmaAtom, Rounding, Ty, Value};

use super::bits::Lanes;

/// How a row of a matrix copy spreads values.
#[derive(Debug)]
pub(crate) struct Routes {
    /// Of each thread of the destination, where its values come from.
    pub(crate) of: Vec<Option<Vec<colex_atom::Route>>>,
    /// The threads that values come from, and those that get some.
    pub(crate) givers: u32,
    pub(crate) takers: u32,
}

impl Routes {
    pub(crate) fn new(of: Vec<Option<Vec<colex_atom::Route>>>) -> Self {
        let threads = of.iter().flatten().flatten().map(|route| route.thread);
        let takers = of.iter().enumerate().filter(|(_, routes)| routes.is_some());
        Routes {
            givers: threads.fold(0, |mask, thread| mask | 1 << thread),
            takers: takers.fold(0, |mask, (thread, _)| mask | 1 << thread),
            of,
        }
    }
}

/// One operand in registers.
#[derive(Debug)]
pub(crate) struct MmaOperand {
    pub(crate) ty: Ty,
    /// The number of values of a thread.
    pub(crate) values: usize,
    /// The place of value `v` of thread `t` in the tile, at `t + threads * v`.
    table: Vec<u32>,
    /// The format of a float of at most 32 bits.
    format: FloatFormat,
    /// The number of elements of the tile.
    size: usize,
}

/// An atom and its tables.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) atom: MmaAtom,
    pub(crate) a: MmaOperand,
    pub(crate) b: MmaOperand,
    pub(crate) c: MmaOperand,
    /// The number of threads that take part.
    pub(crate) threads: usize,
    /// The lanes of the threads: of each of the four quad-pairs of a warp, or of all threads; empty for one thread.
    pub(crate) teams: Vec<Vec<usize>>,
}

impl Plan {
    /// `None` for a row whose layouts cannot be listed.
    pub(crate) fn new(atom: &MmaAtom) -> Option<Self> {
        let traits = atom.traits();
        let packing = atom.rule().packing();
        let m = atom.mnk()[0] as usize;
        let lanes = offsets(&traits.thread)?;
        let starts: &[usize] = match atom.threads() {
            1 => &[],
            // Quad-pairs interleave: the next one begins four lanes on.
            8 => &[0, 4, 8, 12],
            _ => &[0],
        };
        let team = |start: &usize| lanes.iter().map(|lane| start + lane).collect();
        Some(Plan {
            a: MmaOperand::new(&traits.a, traits.ty_a, packing, m)?,
            b: MmaOperand::new(&traits.b, traits.ty_b, 1, m)?,
            c: MmaOperand::new(&traits.c, traits.ty_c, 1, m)?,
            threads: atom.threads(),
            teams: starts.iter().map(team).collect(),
            atom: atom.clone(),
        })
    }

    /// Whether numbers take the way without [`Value`]s, which has the same results.
    pub(crate) fn is_real(&self, hopper: bool) -> bool {
        hopper && self.atom.sums_floats()
    }

    /// `D = A B + C` on whole tiles.
    pub(crate) fn multiply(
        &self,
        hopper: bool,
        a: &[Value],
        b: &[Value],
        c: &[Value],
    ) -> Result<Vec<Value>, colex_atom::Error> {
        if hopper {
            self.atom.multiply_on_hopper(a, b, c)
        } else {
            self.atom.multiply(a, b, c)
        }
    }
}

impl MmaOperand {
    fn new(layout: &colex_layout::Layout, ty: Ty, packing: usize, m: usize) -> Option<Self> {
        let raw = offsets(layout)?;
        let threads = usize::try_from(layout.mode(0)?.size()).ok()?;
        let values = raw.len() / threads / packing;
        // Of a sparse A every second element along K is kept, side by side.
        let kept = |at: usize| match packing {
            1 => at,
            _ => at % m + m * (at / m / packing),
        };
        let entry = |i: usize| kept(raw[i % threads + threads * (i / threads * packing)]) as u32;
        let table: Vec<u32> = (0..threads * values).map(entry).collect();
        let size = table.iter().max().map_or(0, |last| *last as usize + 1);
        Some(MmaOperand {
            ty,
            values,
            table,
            format: FloatFormat::of(ty).unwrap_or(FloatFormat::F32),
            size,
        })
    }

    fn threads(&self) -> usize {
        self.table.len() / self.values
    }

    /// The tile that threads hold.
    pub(crate) fn gather(&self, words: &Words) -> Vec<Value> {
        let bits = self.ty.bits() as usize;
        let threads = self.threads();
        let mut tile = vec![Value::zero(self.ty); self.size];
        for t in 0..threads {
            for v in 0..self.values {
                tile[self.table[t + threads * v] as usize] = element(self.ty, bits, words, t, v);
            }
        }
        tile
    }

    /// A tile of zeros, for [`put`](Self::put).
    pub(crate) fn zeros(&self) -> Vec<f32> {
        vec![0.0; self.size]
    }

    /// Puts the numbers of word `i` of the threads from `first` on into a tile, for a type whose elements are floats of at
    /// most 32 bits.
    pub(crate) fn put(
        &self,
        tile: &mut [f32],
        i: usize,
        first: usize,
        words: impl Iterator<Item = u32> + Clone,
    ) {
        for (places, shift) in self.places(i, first) {
            match self.format {
                FloatFormat::F32 => fill(tile, places, words.clone(), f32::from_bits),
                FloatFormat::BF16 => fill(tile, places, words.clone(), |word| {
                    f32::from_bits(word >> shift << 16)
                }),
                format => fill(tile, places, words.clone(), |word| {
                    real(format, word >> shift)
                }),
            }
        }
    }

    /// Adds the numbers of a tile to word `i`, which is zero, of the threads from `first` on, by the lane of each.
    pub(crate) fn take(
        &self,
        tile: &[f32],
        i: usize,
        first: usize,
        lanes: &[usize],
        words: &mut Lanes,
    ) {
        for (places, shift) in self.places(i, first) {
            for (place, lane) in places.iter().zip(lanes).take(32) {
                let encoded = pattern(self.format, tile[*place as usize]);
                words[*lane] |= u64::from(encoded) << shift;
            }
        }
    }

    /// The places of the values in word `i` of the threads from `first` on, and where in the word they are.
    fn places(&self, i: usize, first: usize) -> impl Iterator<Item = (&[u32], usize)> {
        let (bits, threads) = (self.ty.bits() as usize, self.threads());
        let each = (32 / bits).max(1);
        (i * each..((i + 1) * each).min(self.values)).map(move |v| {
            let places = &self.table[threads * v + first..threads * (v + 1)];
            (places, v * bits % 32)
        })
    }

    /// The words in which each thread holds its part of a tile.
    pub(crate) fn scatter(&self, tile: &[Value]) -> Words {
        let bits = self.ty.bits() as usize;
        let mut words = Words::new(self.threads(), (self.values * bits).div_ceil(32));
        for (v, places) in self.table.chunks_exact(words.threads).enumerate() {
            for (t, place) in places.iter().enumerate() {
                let encoded = tile[*place as usize].encode(self.ty);
                match bits {
                    0..32 => {
                        words.row_mut(v * bits / 32)[t] |= (encoded[0] as u32) << (v * bits % 32);
                    }
                    _ => {
                        for i in 0..bits / 32 {
                            let word = (encoded[i / 2] >> (32 * (i % 2))) as u32;
                            words.row_mut(v * bits / 32 + i)[t] = word;
                        }
                    }
                }
            }
        }
        words
    }
}

/// Words of 32 bits that threads hold in registers: the first of every thread, then the second of every thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    threads: usize,
    words: Vec<u32>,
}

impl Words {
    /// Zeros.
    pub(crate) fn new(threads: usize, each: usize) -> Self {
        Words {
            threads,
            words: vec![0; threads * each],
        }
    }

    /// Adds a word of each thread.
    pub(crate) fn push(&mut self, of: impl Fn(usize) -> u32) {
        self.words.extend((0..self.threads).map(of));
    }

    /// Word `i` of every thread, or none.
    pub(crate) fn row(&self, i: usize) -> &[u32] {
        let first = i * self.threads;
        self.words
            .get(first..first + self.threads)
            .unwrap_or_default()
    }

    /// The first word of every thread, then the second, and so on.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks_exact(self.threads.max(1))
    }

    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [u32] {
        &mut self.words[i * self.threads..(i + 1) * self.threads]
    }

    /// Word `i` of a thread, or 0.
    pub(crate) fn at(&self, thread: usize, i: usize) -> u32 {
        self.row(i).get(thread).copied().unwrap_or(0)
    }

    /// The words of some threads.
    pub(crate) fn of(&self, threads: &[usize]) -> Words {
        let mut some = Words::new(threads.len(), 0);
        for row in self.words.chunks_exact(self.threads) {
            some.push(|t| row[threads[t]]);
        }
        some
    }

    /// Sets the words of some of `threads` threads.
    pub(crate) fn set(&mut self, threads: usize, some: &[usize], words: &Words) {
        self.threads = threads;
        let each = words.words.len() / words.threads;
        self.words.resize(threads * each, 0);
        for i in 0..each {
            let row = self.row_mut(i);
            for (t, word) in some.iter().zip(words.row(i)) {
                row[*t] = *word;
            }
        }
    }

    /// The words of threads side by side, those of each part after the part's before it.
    pub(crate) fn beside(parts: &[&Words]) -> Words {
        let each = parts[0].threads;
        let mut all = Words::new(each * parts.len(), 0);
        for i in 0..parts[0].words.len() / each {
            all.push(|t| parts[t / each].row(i)[t % each]);
        }
        all
    }
}

/// Puts a number of each word into its place.
fn fill(
    tile: &mut [f32],
    places: &[u32],
    words: impl Iterator<Item = u32>,
    number: impl Fn(u32) -> f32,
) {
    for (place, word) in places.iter().zip(words) {
        tile[*place as usize] = number(word);
    }
}

/// The factor between a binary16 and the binary32 of the same bits: their exponents are 112 apart, those of subnormal
/// numbers too.
const OF_HALF: f32 = (1u128 << 112) as f32;

/// The number that the low bits of a word stand for in a format of at most 32 bits.
pub(crate) fn real(format: FloatFormat, word: u32) -> f32 {
    match format {
        FloatFormat::F32 => f32::from_bits(word),
        FloatFormat::TF32 => f32::from_bits(word & 0xffff_e000),
        FloatFormat::BF16 => f32::from_bits(word << 16),
        FloatFormat::F16 => {
            let bits = (word & 0x7fff) << 13 | (word & 0x8000) << 16;
            if word & 0x7c00 == 0x7c00 {
                f32::from_bits(bits | 0x7f80_0000)
            } else {
                f32::from_bits(bits) * OF_HALF
            }
        }
        _ => {
            let bits = format.exponent_bits + format.fraction_bits + 1;
            format.decode(u64::from(word) & ((1 << bits) - 1)) as f32
        }
    }
}

/// The bits of a number that the format has. The canonical NaN of the tensor cores has all bits but the sign.
fn pattern(format: FloatFormat, x: f32) -> u32 {
    match format {
        FloatFormat::F32 if !x.is_nan() => x.to_bits(),
        FloatFormat::F16 if x.is_finite() => {
            (x.abs() / OF_HALF).to_bits() >> 13 | x.to_bits() >> 16 & 0x8000
        }
        _ => format.encode(f64::from(x), Rounding::Nearest) as u32,
    }
}

/// Value `v` of thread `t`, whose values lie side by side in words.
fn element(ty: Ty, bits: usize, words: &Words, t: usize, v: usize) -> Value {
    if bits <= 32 {
        let word = words.at(t, v * bits / 32) >> (v * bits % 32);
        return Value::decode(ty, &[u64::from(word)]);
    }
    let word = |i: usize| words.at(t, v * bits / 32 + i);
    let pair = |i: usize| u64::from(word(2 * i)) | u64::from(word(2 * i + 1)) << 32;
    let words = [pair(0), pair(1), pair(2)];
    Value::decode(ty, &words[..bits / 64])
}

/// The values of a layout of integer strides in colexicographic order.
pub(crate) fn offsets(layout: &colex_layout::Layout) -> Option<Vec<usize>> {
    let mut table = vec![0i64];
    for leaf in layout.leaves() {
        let (extent, stride) = (leaf.extent.value(), leaf.stride.as_int()?.value());
        let steps = (0..extent).flat_map(|i| table.iter().map(move |x| x + i * stride));
        table = steps.collect();
    }
    table.into_iter().map(|x| usize::try_from(x).ok()).collect()
}
