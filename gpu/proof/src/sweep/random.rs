//! Random elements of every type, in kinds that stress different things.

use colex_atom::{Class, FloatFormat, Rounding, Ty, Value};

/// A stream of random bits (SplitMix64): the same seed, the same data, on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns the stream of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the stream of a seed and a name: every atom has its own.
    ///
    /// ```
    /// use colex_proof::sweep::Random;
    ///
    /// assert_eq!(Random::of(7, "a").bits(), Random::of(7, "a").bits());
    /// assert_ne!(Random::of(7, "a").bits(), Random::of(7, "b").bits());
    /// ```
    pub fn of(seed: u64, name: &str) -> Random {
        let mut random = Random(seed);
        for byte in name.bytes() {
            random.0 ^= u64::from(byte);
            random.0 = random.bits();
        }
        random
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns one of the numbers below `end`, which is at least 1.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, end: N) -> N {
        let end = end.try_into().ok().filter(|end| *end > 0);
        let drawn = self.bits() % end.expect("an end of at least 1");
        N::try_from(drawn).ok().expect("less than the end")
    }

    /// Returns true one time out of `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of several values.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = (0..count.div_ceil(8)).flat_map(|_| self.bits().to_le_bytes());
        words.take(count).collect()
    }

    /// Returns the numbers below `count` in random order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for i in (1..count).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// What a round of the sweep fills its operands with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Floats between 1/8 and 16 in magnitude, all bits of the fraction random; integers of all sizes.
    Moderate,
    /// Any finite number, every pattern equally likely.
    Finite,
    /// Subnormal numbers, the smallest normal ones, and zeros of both signs; integers close to 0.
    Tiny,
    /// Moderate numbers, and among each 24 an infinity, a NaN, a zero, or the largest; integers at the ends of their
    /// range.
    Special,
}

impl Kind {
    /// The rounds of the sweep, in their order.
    pub const ALL: [Kind; 4] = [Kind::Moderate, Kind::Finite, Kind::Tiny, Kind::Special];

    /// Returns a random element of a type.
    pub fn draw(self, ty: Ty, random: &mut Random) -> Value {
        match ty.class() {
            Class::Float(format) => Value::Real(self.float(format, random)),
            Class::Integer { .. } => self.integer(ty, random),
            Class::Complex { parts } => {
                let mut value = [0.0; 3];
                for part in value.iter_mut().take(parts) {
                    *part = self.float(FloatFormat::F64, random);
                }
                Value::Complex(value)
            }
        }
    }

    fn float(self, format: FloatFormat, random: &mut Random) -> f64 {
        match self {
            Kind::Moderate => moderate(format, random),
            Kind::Finite => finite(format, random),
            Kind::Tiny => tiny(format, random),
            Kind::Special if random.below(24) == 0 => special(format, random),
            Kind::Special => moderate(format, random),
        }
    }

    fn integer(self, ty: Ty, random: &mut Random) -> Value {
        let drawn = Value::decode(ty, &[random.bits()]);
        let lowest = Value::decode(ty, &[1 << (ty.bits() - 1)]);
        match self {
            Kind::Tiny => Value::decode(ty, &[(drawn.int() % 3) as u64]),
            Kind::Special => match random.below(4) {
                0 => lowest,
                1 => Value::decode(ty, &[lowest.int() as u64 ^ u64::MAX]),
                2 => Value::Int(0),
                _ => drawn,
            },
            _ => drawn,
        }
    }
}

fn field(format: FloatFormat) -> u32 {
    format.exponent_bits + format.fraction_bits + 1
}

/// Reads the low bits of a word as a number of the format.
fn read(format: FloatFormat, bits: u64) -> f64 {
    let mask = u64::MAX >> (64 - field(format));
    format.decode((bits & mask) << format.unused_bits)
}

fn moderate(format: FloatFormat, random: &mut Random) -> f64 {
    let fraction = (random.bits() >> 12) as f64 / (1u64 << 52) as f64;
    let magnitude = (1.0 + fraction) * 2f64.powi(random.below(7) - 3);
    let x = if random.below(2) == 0 {
        magnitude
    } else {
        -magnitude
    };
    format.round(x, Rounding::Zero)
}

fn finite(format: FloatFormat, random: &mut Random) -> f64 {
    let drawn = std::iter::repeat_with(|| read(format, random.bits()));
    let mut finite = drawn.filter(|x| x.is_finite());
    finite.next().expect("the stream does not end")
}

/// An exponent field of 0 or 1 and any fraction; one in four is a zero.
fn tiny(format: FloatFormat, random: &mut Random) -> f64 {
    let low = (1u64 << (format.fraction_bits + 1)) - 1;
    let fraction = if random.below(4) == 0 {
        0
    } else {
        random.bits() & low
    };
    let sign = random.below(2) << (field(format) - 1);
    read(format, sign | fraction)
}

fn special(format: FloatFormat, random: &mut Random) -> f64 {
    let choice = [f64::INFINITY, f64::NAN, 0.0, format.max()][random.below(4) as usize];
    let fits = |x: f64| format.decode(format.encode(x, Rounding::Nearest));
    fits(if random.below(2) == 0 {
        choice
    } else {
        -choice
    })
}
