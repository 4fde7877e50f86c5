//! Layouts as linear maps of the bits of an index, and composition with XOR strides on the right.

use alloc::format;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::layout::coalesce::{Tail, coalesced};
use crate::swizzle::xor::{push_runs, vectors};
use crate::tuple::int::bit_length;
use crate::{Error, Layout, Stride};

impl Layout {
    /// The offsets at the indices 1, 2, 4, .. below `2^bits`, when the layout is linear over F2 there.
    pub(crate) fn index_bits(&self, bits: u32) -> Option<Vec<i64>> {
        let flat = coalesced(self.leaves(), Tail::Continue);
        let (_, before) = flat.split_last()?;
        if bits > 62 || before.iter().any(|l| l.size().count_ones() != 1) {
            return None;
        }
        let columns: Vec<i64> = (0..bits)
            .map(|k| self.at_unbounded(1 << k).ok())
            .collect::<Option<_>>()?;
        let mut mask = 0;
        let disjoint = columns.iter().all(|c| {
            let fresh = *c >= 0 && mask & c == 0;
            mask |= c;
            fresh
        });
        (disjoint || self.is_xor()).then_some(columns)
    }

    /// Composition with XOR strides on the right: `R(c) = self(inner(c))`, bit by bit.
    pub(crate) fn composition_xor(&self, inner: &Self) -> Result<Self, Error> {
        let mask = inner.xor_mask()?;
        let bits = bit_length(mask.saturating_add(1));
        let columns = self.index_bits(bits).ok_or_else(|| Error::operand("composition", format!("{self} o {inner}"), "XOR strides on the right need a left operand that is linear over F2: extents that are powers of \
                  two, and strides whose sums never carry"))?;
        let image = |v: i64| {
            let set = columns.iter().enumerate().filter(|(k, _)| v >> k & 1 == 1);
            set.fold(0, |sum, (_, c)| sum ^ c)
        };
        inner.map_bits(image)
    }

    /// The XOR layout in which `image` maps the bit-vector of every bit of every leaf's coordinate.
    pub(crate) fn map_bits(&self, image: impl Fn(i64) -> i64) -> Result<Self, Error> {
        let mapped = self.0.try_refine(|_, leaf, out| {
            let vectors = vectors(leaf, leaf.stride.coefficient().value())?;
            let images: SmallVec<[i64; 16]> = vectors.iter().map(|v| image(*v)).collect();
            push_runs(leaf.extent, &images, Stride::Xor, out)
        })?;
        Self::checked(mapped)
    }
}
