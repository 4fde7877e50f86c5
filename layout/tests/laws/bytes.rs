//! Bytes as choices, numbers, tuples and layouts: what the programs of the fuzz targets are read from.

use colex_layout::{Int, IntTuple, Layout, Stride, Swizzle, Tuple};

/// Bytes as choices and numbers; past the end everything is 0.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// Mostly small; now and then round, huge, or at the ends of the range.
    pub(crate) fn number(&mut self) -> i64 {
        let value = i64::from(self.byte());
        match self.byte() % 16 {
            0..=7 => value % 13,
            8 => -(value % 13),
            9 | 10 => 1 << (value % 63),
            11 => (1 << (value % 63)) - 1,
            12 => i64::MAX - value,
            13 => i64::MIN + value,
            _ => value,
        }
    }

    pub(crate) fn int(&mut self) -> Int {
        let value = self.number();
        if self.byte().is_multiple_of(2) {
            Int::Static(value)
        } else {
            Int::Dynamic(value)
        }
    }

    /// A tuple of a few numbers in random nesting.
    pub(crate) fn tuple(&mut self) -> IntTuple {
        let leaves: Vec<Int> = (0..1 + self.below(4)).map(|_| self.int()).collect();
        let mut tuple = IntTuple::flat(leaves);
        for _ in 0..self.below(3) {
            let (begin, end) = (self.below(4), self.below(5));
            tuple = tuple.group(begin..end).unwrap_or(tuple);
        }
        if self.byte().is_multiple_of(3) {
            tuple.unwrap()
        } else {
            tuple
        }
    }

    /// A layout, if the numbers make one.
    pub(crate) fn layout(&mut self) -> Option<Layout> {
        let shape = self.tuple();
        let strides: Vec<Stride> = shape.leaves().iter().map(|_| self.int().into()).collect();
        let strides = Tuple::flat(strides).unflatten(&shape).ok()?;
        Layout::new(shape, strides).ok()
    }

    /// A swizzle, if the numbers make one; half of the time they are small enough.
    pub(crate) fn swizzle(&mut self) -> Option<Swizzle> {
        let [bits, base, shift] = match self.byte() % 2 {
            0 => [4, 5, 6].map(|n| self.below(n) as i64),
            _ => [0, 0, 0].map(|_| self.number()),
        };
        Swizzle::new(bits, base, shift).ok()
    }
}
