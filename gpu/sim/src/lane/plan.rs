//! The tables of an MMA row: which bits of which thread hold which element.

use colex_atom::{FloatFormat, MmaAtom, Rounding, Ty, Value};

/// Of each thread of the destination, where its values come from.
pub(crate) type Routes = Vec<Option<Vec<colex_atom::Route>>>;

/// One operand in registers.
#[derive(Debug)]
pub(crate) struct MmaOperand {
    pub(crate) ty: Ty,
    /// The number of values of a thread.
    pub(crate) values: usize,
    /// The place of value `v` of thread `t` in the tile, at `t + threads * v`.
    table: Vec<usize>,
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
    /// Logical thread to lane.
    pub(crate) lanes: Vec<usize>,
}

impl Plan {
    /// `None` for a row whose layouts cannot be listed.
    pub(crate) fn new(atom: &MmaAtom) -> Option<Self> {
        let traits = atom.traits();
        let packing = atom.rule().packing();
        let m = atom.mnk()[0] as usize;
        Some(Plan {
            a: MmaOperand::new(&traits.a, traits.ty_a, packing, m)?,
            b: MmaOperand::new(&traits.b, traits.ty_b, 1, m)?,
            c: MmaOperand::new(&traits.c, traits.ty_c, 1, m)?,
            threads: atom.threads(),
            lanes: offsets(&traits.thread)?,
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
        let entry = |i: usize| kept(raw[i % threads + threads * (i / threads * packing)]);
        let table: Vec<usize> = (0..threads * values).map(entry).collect();
        let size = table.iter().max().map_or(0, |last| last + 1);
        Some(MmaOperand {
            ty,
            values,
            table,
            size,
        })
    }

    /// The tile that threads hold, given the 32-bit words of each.
    pub(crate) fn gather(&self, words: &[Vec<u32>]) -> Vec<Value> {
        let bits = self.ty.bits() as usize;
        let mut tile = vec![Value::zero(self.ty); self.size];
        for (t, words) in words.iter().enumerate() {
            for v in 0..self.values {
                tile[self.table[t + self.table.len() / self.values * v]] =
                    element(self.ty, bits, words, v);
            }
        }
        tile
    }

    /// The same as numbers, for a type whose elements are floats of at most 32 bits.
    pub(crate) fn gather_reals(&self, words: &[Vec<u32>]) -> Vec<f64> {
        let bits = self.ty.bits() as usize;
        let format = FloatFormat::of(self.ty).unwrap_or(FloatFormat::F32);
        let threads = self.table.len() / self.values;
        let mut tile = vec![0.0; self.size];
        for (t, words) in words.iter().enumerate() {
            for v in 0..self.values {
                let word = words[v * bits / 32] >> (v * bits % 32);
                tile[self.table[t + threads * v]] = real(format, word);
            }
        }
        tile
    }

    /// The words in which each thread holds its part of a tile of numbers.
    pub(crate) fn scatter_reals(&self, tile: &[f64]) -> Vec<Vec<u32>> {
        let bits = self.ty.bits() as usize;
        let format = FloatFormat::of(self.ty).unwrap_or(FloatFormat::F32);
        let threads = self.table.len() / self.values;
        let mut words = vec![vec![0u32; (self.values * bits).div_ceil(32)]; threads];
        for (t, words) in words.iter_mut().enumerate() {
            for v in 0..self.values {
                let x = tile[self.table[t + threads * v]];
                // The canonical NaN of the tensor cores has all bits but the sign.
                let encoded = if format == FloatFormat::F32 && !x.is_nan() {
                    (x as f32).to_bits()
                } else {
                    format.encode(x, Rounding::Nearest) as u32
                };
                words[v * bits / 32] |= encoded << (v * bits % 32);
            }
        }
        words
    }

    /// The words in which each thread holds its part of a tile.
    pub(crate) fn scatter(&self, tile: &[Value]) -> Vec<Vec<u32>> {
        let bits = self.ty.bits() as usize;
        let threads = self.table.len() / self.values;
        let mut words = vec![vec![0u32; (self.values * bits).div_ceil(32)]; threads];
        for (t, words) in words.iter_mut().enumerate() {
            for v in 0..self.values {
                let encoded = tile[self.table[t + threads * v]].encode(self.ty);
                match bits {
                    0..32 => words[v * bits / 32] |= (encoded[0] as u32) << (v * bits % 32),
                    _ => {
                        for i in 0..bits / 32 {
                            words[v * bits / 32 + i] = (encoded[i / 2] >> (32 * (i % 2))) as u32;
                        }
                    }
                }
            }
        }
        words
    }
}

/// The number that the low bits of a word stand for in a format of at most 32 bits.
pub(crate) fn real(format: FloatFormat, word: u32) -> f64 {
    match format {
        FloatFormat::F32 => f64::from(f32::from_bits(word)),
        FloatFormat::TF32 => f64::from(f32::from_bits(word & 0xffff_e000)),
        FloatFormat::BF16 => f64::from(f32::from_bits(word << 16)),
        FloatFormat::F16 => half::f16::from_bits(word as u16).to_f64(),
        _ => format.decode(
            u64::from(word) & ((1 << (format.exponent_bits + format.fraction_bits + 1)) - 1),
        ),
    }
}

/// Value `v` of the values that lie side by side in words.
fn element(ty: Ty, bits: usize, words: &[u32], v: usize) -> Value {
    if bits <= 32 {
        let word = words[v * bits / 32] >> (v * bits % 32);
        return Value::decode(ty, &[u64::from(word)]);
    }
    let word = |i: usize| words.get(v * bits / 32 + i).copied().unwrap_or(0);
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
