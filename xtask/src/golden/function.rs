//! Layouts under a swizzle and layouts of XOR strides, as the functions they are.

use super::value::{Tree, Value};

/// A function from an index to an offset.
pub(crate) struct Function {
    swizzle: Swizzle,
    offset: i64,
    shape: Tree,
    strides: Vec<Stride>,
}

/// `Sw<B,M,S>`: XORs the `B` bits at `M + max(S,0)` into those that lie `S` below.
#[derive(Clone, Copy)]
struct Swizzle {
    bits: i64,
    base: i64,
    shift: i64,
}

/// What a step along a leaf does to the offset.
#[derive(Clone, Copy)]
enum Stride {
    Add(i64),
    Xor(i64),
}

/// The domain on which a swizzle by itself is compared: all offsets of this many bits.
const BARE_BITS: u32 = 16;

impl Function {
    /// The function of a layout, plain, swizzled or of XOR strides, or of a swizzle alone.
    pub(crate) fn of(value: &Value) -> Option<Function> {
        Function::parse(&value.to_string())
    }

    pub(crate) fn parse(text: &str) -> Option<Function> {
        let pieces: Vec<&str> = text.split(" o ").collect();
        let (swizzle, offset, layout) = match pieces[..] {
            [swizzle, offset, layout] => (Swizzle::parse(swizzle)?, offset.parse().ok()?, layout),
            [layout] if layout.contains(':') => (Swizzle::IDENTITY, 0, layout),
            [swizzle] => {
                let shape = Tree::Int(1 << BARE_BITS);
                let strides = vec![Stride::Add(1)];
                return Some(Function {
                    swizzle: Swizzle::parse(swizzle)?,
                    offset: 0,
                    shape,
                    strides,
                });
            }
            _ => return None,
        };
        let (shape, strides) = layout.split_once(':')?;
        let shape = Tree::parse(shape)?;
        let strides: Vec<Stride> = strides
            .split(['(', ')', ','])
            .filter(|s| !s.is_empty())
            .map(Stride::parse)
            .collect::<Option<_>>()?;
        (strides.len() == shape.leaves().len()).then_some(Function {
            swizzle,
            offset,
            shape,
            strides,
        })
    }

    pub(crate) fn shape(&self) -> &Tree {
        &self.shape
    }

    pub(crate) fn size(&self) -> i64 {
        self.shape.size()
    }

    /// The number of steps of each leaf that stay within one unit of `n`, before the swizzle.
    pub(crate) fn steps_within(&self, n: i64) -> Vec<i64> {
        let steps = |stride: &Stride| {
            let (Stride::Add(step) | Stride::Xor(step)) = stride;
            match step.abs() {
                0 => 1,
                size if size < n && n % size == 0 => n / size,
                _ => 1,
            }
        };
        self.strides.iter().map(steps).collect()
    }

    /// The offset of `index`; beyond the size the last leaf goes on.
    pub(crate) fn at(&self, mut index: i64) -> i64 {
        let extents = self.shape.leaves();
        let (mut sum, mut xor) = (0, 0);
        for (at, (extent, stride)) in extents.iter().zip(&self.strides).enumerate() {
            let is_last = at + 1 == extents.len();
            let digit = if is_last { index } else { index % extent };
            index /= extent;
            match stride {
                Stride::Add(step) => sum += digit * step,
                Stride::Xor(step) => xor ^= carryless(digit, *step),
            }
        }
        self.swizzle.apply(self.offset + (sum ^ xor))
    }
}

impl Swizzle {
    const IDENTITY: Swizzle = Swizzle {
        bits: 0,
        base: 0,
        shift: 0,
    };

    fn parse(text: &str) -> Option<Swizzle> {
        let numbers = text.strip_prefix("Sw<")?.strip_suffix('>')?;
        let numbers: Vec<i64> = numbers
            .split(',')
            .map(|n| n.parse().ok())
            .collect::<Option<_>>()?;
        let [bits, base, shift] = numbers[..] else {
            return None;
        };
        Some(Swizzle { bits, base, shift })
    }

    fn apply(self, offset: i64) -> i64 {
        let from = ((1 << self.bits) - 1) << (self.base + self.shift.max(0));
        let bits = offset & from;
        offset
            ^ if self.shift >= 0 {
                bits >> self.shift
            } else {
                bits << -self.shift
            }
    }
}

impl Stride {
    fn parse(text: &str) -> Option<Stride> {
        match text.strip_prefix('^') {
            Some(step) => step.parse().ok().map(Stride::Xor),
            None => text.trim_start_matches('_').parse().ok().map(Stride::Add),
        }
    }
}

/// The product of two numbers whose bits are added without carry.
fn carryless(digit: i64, step: i64) -> i64 {
    (0..62)
        .filter(|bit| digit >> bit & 1 == 1)
        .fold(0, |xor, bit| xor ^ step << bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Vec<i64> {
        let function = Function::parse(text).expect("the text is a function");
        (0..function.size())
            .map(|index| function.at(index))
            .collect()
    }

    #[test]
    fn a_swizzle_permutes_the_offsets() {
        assert_eq!(table("Sw<1,0,1> o 0 o 8:1"), [0, 1, 3, 2, 4, 5, 7, 6]);
        assert_eq!(
            table("Sw<1,2,2> o 29 o (4,2):(2,1)"),
            [25, 27, 33, 35, 26, 32, 34, 36]
        );
        assert_eq!(table("(4,2):(2,1)"), [0, 2, 4, 6, 1, 3, 5, 7]);
    }

    #[test]
    fn xor_strides_add_without_carry() {
        assert_eq!(table("(2,4):(^1,^3)"), [0, 1, 3, 2, 6, 7, 5, 4]);
        assert_eq!(
            table("Sw<1,0,1> o 0 o (2,4):(1,2)"),
            table("(2,2,2):(^1,^3,^4)")
        );
    }

    #[test]
    fn a_swizzle_alone_is_compared_on_many_offsets() {
        let at = |text: &str| Function::parse(text).expect("the text is a swizzle").at(6);
        assert_eq!(
            (at("Sw<1,0,1>"), at("Sw<0,1,0>"), at("Sw<0,0,0>")),
            (7, 6, 6)
        );
    }
}
