//! What a layout means, in 128 bits and without the library: leaves, a swizzle's bits, and the outer function.

use colex_layout::{
    ComposedLayout, Int, IntTuple, Layout, LeafMode, Middle, Outer, Stride, Swizzle, Tuple,
};

use crate::small;

/// A layout as its leaves.
#[derive(Clone)]
pub(crate) struct Leaves {
    /// Extent and stride of each leaf.
    pub(crate) modes: Vec<(i128, i128)>,
    pub(crate) xor: bool,
}

/// The outer function of a composed layout.
enum Map {
    /// Bits, base and shift.
    Swizzle(i64, i64, i64),
    Layout(Leaves),
}

/// A layout or a composed layout as a function of its digits.
pub(crate) struct Function {
    map: Map,
    offset: i128,
    pub(crate) inner: Leaves,
}

impl Leaves {
    pub(crate) fn of(layout: &Layout) -> Self {
        let mode = |l: &LeafMode| {
            let d = l.stride.coefficient().value();
            (i128::from(l.extent.value()), i128::from(d))
        };
        Self {
            modes: layout.leaves().iter().map(mode).collect(),
            xor: layout
                .leaves()
                .iter()
                .any(|l| matches!(l.stride, Stride::Xor(_))),
        }
    }

    pub(crate) fn size(&self) -> i128 {
        self.modes.iter().map(|(s, _)| s).product()
    }

    /// The digits of an index; the last one goes on beyond the size, and negative ones mirror the positive ones.
    pub(crate) fn digits(&self, index: i128) -> Vec<i128> {
        let mut rest = index;
        let mut digits = Vec::new();
        for (i, (extent, _)) in self.modes.iter().enumerate() {
            let last = i + 1 == self.modes.len();
            digits.push(if last { rest } else { rest % extent });
            rest /= extent;
        }
        digits
    }

    /// The offset at these digits; an XOR layout has none below 0 or beyond 63 bits. Nothing beyond 128 bits.
    pub(crate) fn at_digits(&self, digits: &[i128]) -> Option<i128> {
        let mut sum = 0;
        for ((_, d), c) in self.modes.iter().zip(digits) {
            if !self.xor {
                sum = c.checked_mul(*d)?.checked_add(sum)?;
                continue;
            }
            if *d != 0 && (*c < 0 || *c >= 1 << 63) {
                return None;
            }
            let set = (0..100).filter(|k| c >> k & 1 == 1 && *d != 0);
            sum = set.fold(sum, |sum, k| sum ^ d << k);
        }
        Some(sum)
    }

    pub(crate) fn at(&self, index: i128) -> Option<i128> {
        self.at_digits(&self.digits(index))
    }

    pub(crate) fn table(&self) -> Vec<i128> {
        let within = |i| self.at(i).expect("digits are not negative within the size");
        (0..self.size()).map(within).collect()
    }
}

impl Map {
    fn at(&self, x: i128) -> Option<i128> {
        match self {
            Self::Swizzle(bits, base, shift) => {
                let (low, high) = (*base, base + shift.abs());
                let ends = if *shift >= 0 {
                    (high, low)
                } else {
                    (low, high)
                };
                let flip = |y, k: &i64| y ^ (x >> (ends.0 + k) & 1) << (ends.1 + k);
                Some((0..*bits).collect::<Vec<_>>().iter().fold(x, flip))
            }
            Self::Layout(outer) => outer.at(x),
        }
    }
}

impl Function {
    pub(crate) fn of(tile: &ComposedLayout) -> Self {
        assert!(matches!(tile.middle(), Middle::Offset(_)), "{tile}");
        Self {
            map: match tile.outer() {
                Outer::Swizzle(sw) => Map::Swizzle(sw.bits(), sw.base(), sw.shift()),
                Outer::Layout(l) => Map::Layout(Leaves::of(l)),
            },
            offset: i128::from(tile.base_offset()),
            inner: Leaves::of(tile.inner()),
        }
    }

    pub(crate) fn plain(layout: &Layout) -> Self {
        Self::plain_of(Leaves::of(layout))
    }

    pub(crate) fn plain_of(inner: Leaves) -> Self {
        Self {
            map: Map::Swizzle(0, 0, 0),
            offset: 0,
            inner,
        }
    }

    /// What the outer function makes of an inner offset.
    pub(crate) fn map(&self, inner: i128) -> Option<i128> {
        self.map.at(self.offset.checked_add(inner)?)
    }

    pub(crate) fn at_digits(&self, digits: &[i128]) -> Option<i128> {
        self.map(self.inner.at_digits(digits)?)
    }

    pub(crate) fn at(&self, index: i128) -> Option<i128> {
        self.map(self.inner.at(index)?)
    }

    pub(crate) fn size(&self) -> i128 {
        self.inner.size()
    }

    /// All values, if every one is defined.
    pub(crate) fn table(&self) -> Option<Vec<i128>> {
        (0..self.size()).map(|i| self.at(i)).collect()
    }
}

/// In ascending order.
pub(crate) fn sorted(mut values: Vec<i128>) -> Vec<i128> {
    values.sort_unstable();
    values
}

/// In ascending order, each once.
pub(crate) fn set(values: Vec<i128>) -> Vec<i128> {
    let mut values = sorted(values);
    values.dedup();
    values
}

/// The layout of these modes with XOR strides in a nesting.
fn xor(modes: &[(i64, i64)], nesting: &IntTuple) -> Layout {
    let shape = IntTuple::flat(modes.iter().map(|(s, _)| Int::from(*s)));
    let strides = Tuple::flat(modes.iter().map(|(_, d)| match d {
        0 => Stride::constant(0),
        _ => Stride::Xor(Int::from(*d)),
    }));
    let shape = shape.unflatten(nesting).expect("as many leaves");
    Layout::new(shape, strides.unflatten(nesting).expect("as many leaves"))
        .expect("positive extents and strides of one kind")
}

/// XOR layouts of rank 1 to 3 in all nestings: bits that overlap, gaps, stride 0, negative strides, odd extents.
pub(crate) fn xors() -> impl Iterator<Item = Layout> {
    let one = small::modes(1, &[1, 2, 3, 4, 8], &[0, 1, 2, 3, 4, 5, 8, 72, -1, -4]);
    let two = small::modes(2, &[1, 2, 3, 4, 8], &[0, 1, 2, 3, 4, 6, 8, 9, -2]);
    let three = small::modes(3, &[2, 4], &[0, 1, 2, 4, 5, 8, 16]);
    let nestings: Vec<Vec<IntTuple>> = (1..=3).map(small::nestings).collect();
    let all = one.into_iter().chain(two).chain(three).enumerate();
    all.map(move |(i, modes)| {
        let choices = &nestings[modes.len() - 1];
        xor(&modes, &choices[i % choices.len()])
    })
}

/// Layouts to stand inside: some that fill a tile, some that overlap, carry, or have negative or XOR strides.
pub(crate) fn inners() -> Vec<Layout> {
    let texts = [
        "8:1",
        "4:1",
        "16:1",
        "4:2",
        "8:8",
        "(8,8):(8,1)",
        "(4,8):(1,4)",
        "(4,(2,4)):(2,(1,8))",
        "(8,4):(0,8)",
        "(4,2):(1,3)",
        "(4,4):(1,3)",
        "((2,2),4):((4,1),8)",
        "(2,3):(8,16)",
        "(6,2):(1,8)",
        "4:-1",
        "(4,2):(-8,1)",
        "1:5",
    ];
    let texts = texts.iter().map(|t| t.parse().expect("a layout"));
    texts
        .chain(small::layouts().step_by(1201))
        .chain(xors().step_by(83))
        .collect()
}

/// Swizzles of both signs of the shift over every inner layout, and layouts as outer functions, at several offsets.
pub(crate) fn tiles() -> impl Iterator<Item = ComposedLayout> {
    let inners = inners();
    let swizzle =
        |(b, m, s): &(i64, i64, i64)| Outer::from(Swizzle::new(*b, *m, *s).expect("B <= |S|"));
    let swizzles = [
        (0, 4, 3),
        (1, 0, 1),
        (1, 0, -1),
        (2, 0, 3),
        (2, 0, -2),
        (3, 0, 3),
        (3, 0, -3),
        (1, 2, 1),
        (2, 1, -3),
        (1, 3, -1),
        (3, 3, 3),
        (2, 2, -4),
    ];
    let layouts = [
        "1:0",
        "8:2",
        "2:6",
        "16:1",
        "8:-1",
        "(4,2):(2,1)",
        "(2,4):(1,8)",
        "(4,2):(1,3)",
        "(4,1):(1,100)",
        "(1,8):(7,4)",
        "(3,2):(1,12)",
        "(4,4):(^1,^6)",
        "(2,8):(^4,^8)",
    ];
    let layouts = layouts.map(|t| Outer::from(t.parse::<Layout>().expect("a layout")));
    let outers: Vec<Outer> = swizzles.iter().map(swizzle).chain(layouts).collect();
    let tile = move |(outer, offset): (Outer, i64)| {
        let tiles = inners
            .iter()
            .map(|inner| ComposedLayout::new(outer.clone(), offset, inner.clone()).unwrap());
        tiles.collect::<Vec<_>>()
    };
    let at = |outer: Outer| [0, 8, 16, 5, 99, -4].map(|offset| (outer.clone(), offset));
    outers.into_iter().flat_map(at).flat_map(tile)
}
