//! In which widths a copy can be read, against an enumeration of its bits.

use std::collections::BTreeSet;

use colex_atom::{CopyAtom, copy, copy_atoms};
use colex_layout::{Layout, LeafMode};

/// A thread-value layout, taken apart once: extents and strides of both modes.
struct Bits([Vec<(i64, i64)>; 2]);

impl Bits {
    fn new(layout: &Layout) -> Self {
        let leaf = |leaf: &LeafMode| (leaf.extent.value(), leaf.stride.as_int().unwrap().value());
        Bits([0, 1].map(|i| layout.mode(i).unwrap().leaves().iter().map(leaf).collect()))
    }

    /// What the mode at an index adds, digit by digit.
    fn along(&self, mode: usize, index: i64) -> i64 {
        let mut rest = index;
        let mut offset = 0;
        for (extent, stride) in &self.0[mode] {
            offset += rest % extent * stride;
            rest /= extent;
        }
        offset
    }

    fn size(&self, mode: usize) -> i64 {
        self.0[mode].iter().map(|leaf| leaf.0).product()
    }

    /// The bits of a thread that are looked at: all, but of the longest, whose pattern repeats.
    fn looked_at(&self) -> Vec<i64> {
        let bits = self.size(1).min(2048);
        (0..bits).map(|value| self.along(1, value)).collect()
    }

    /// Whether each thread has whole values of this width: its bits come in runs of the width that lie next to each
    /// other, from a multiple of the width on.
    fn has_whole_values(&self, width: i64) -> bool {
        if self.size(1) % width != 0 {
            return false;
        }
        let bits = self.looked_at();
        let runs = || bits.chunks_exact(width.min(bits.len() as i64) as usize);
        let is_run = |run: &[i64]| (run[0]..).zip(run).all(|(next, bit)| next == *bit);
        let aligned = |start: i64| runs().all(|run| (start + run[0]) % width == 0);
        runs().all(is_run) && (0..self.size(0)).all(|thread| aligned(self.along(0, thread)))
    }
}

/// Whether the width is chosen when the tensors are known.
fn is_nominal(atom: &CopyAtom) -> bool {
    let name = atom.name();
    name.starts_with("AutoVectorizing") || name == "SM90_BULK_COPY_AUTO"
}

/// The bits of each value of a thread.
fn values(bits: &Bits, thread: i64, width: i64) -> Vec<Vec<i64>> {
    let start = bits.along(0, thread);
    let held: Vec<i64> = (0..bits.size(1))
        .map(|v| start + bits.along(1, v))
        .collect();
    held.chunks(width as usize).map(<[i64]>::to_vec).collect()
}

/// What the instruction does to the bits that its threads give it: each thread gets those that its layout names, and
/// together they get all.
fn moves_every_bit(atom: &CopyAtom, [src, dst]: &[Bits; 2], width: i64) {
    let threads = || 0..src.size(0);
    let given: Vec<_> = threads().map(|thread| values(src, thread, width)).collect();
    let got = atom.execute(width, &given).unwrap();
    let mut arrived = BTreeSet::new();
    for (thread, got) in threads().zip(got) {
        if let Some(got) = got {
            assert_eq!(got, values(dst, thread, width), "{} {thread}", atom.name());
            arrived.extend(got.into_iter().flatten());
        }
    }
    let all = threads().flat_map(|thread| values(dst, thread, width).into_iter().flatten());
    assert_eq!(arrived, all.collect(), "{}", atom.name());
}

/// Every atom in every width: accepted if and only if both sides have whole values, and then each value is the bits that
/// the enumeration says, and the instruction moves every one of them.
#[test]
fn a_width_is_accepted_if_every_thread_has_whole_values() {
    let widths = || (1..=128).chain([192, 256, 384, 512, 1024, 2048, 1 << 40, i64::MAX]);
    let [mut atoms, mut cases, mut accepted, mut executed] = [0; 4];
    for atom in copy_atoms() {
        atoms += 1;
        let (name, t) = (atom.name(), atom.traits());
        let sides = [&t.src, &t.dst].map(Bits::new);
        for width in widths() {
            cases += 1;
            let right = sides.iter().all(|side| side.has_whole_values(width));
            let found = atom.val_layouts(width);
            assert_eq!(
                found.is_ok(),
                right || is_nominal(&atom),
                "{name} in values of {width} bits: {found:?}"
            );
            let Ok(found) = found else { continue };
            accepted += 1;
            let found = [&found.src, &found.dst].map(Bits::new);
            if is_nominal(&atom) {
                assert_eq!(found.map(|side| [side.size(0), side.size(1)]), [[1, 1]; 2]);
                continue;
            }
            for (bits, values) in sides.iter().zip(&found) {
                assert_eq!(values.size(0), bits.size(0), "{name}");
                assert_eq!(values.size(1) * width, bits.size(1), "{name}");
                for thread in 0..bits.size(0) {
                    let start = [values, bits].map(|side| side.along(0, thread));
                    assert_eq!(start[0] * width, start[1], "{name} {width}");
                }
                let firsts = bits.looked_at();
                for (value, first) in (0..).zip(firsts.iter().step_by(width as usize)) {
                    assert_eq!(values.along(1, value) * width, *first, "{name} {width}");
                }
            }
            if atom.is_executable() {
                moves_every_bit(&atom, &sides, width);
                executed += 1;
            }
        }
    }
    assert!(atoms >= 370, "{atoms}");
    println!("law copy.widths: {cases} cases, {accepted} accepted, {executed} executed");
}

#[test]
fn values_that_are_not_whole_are_refused_in_these_words() {
    let sentence = |name: &str, bits| {
        copy(name)
            .unwrap()
            .val_layouts(bits)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        sentence("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>", 64),
        "`SM80_CP_ASYNC_CACHEALWAYS<uint32_t>` cannot be read in values of 64 bits: (_1,_32):(_0,_1): \
         a thread moves 32 bits, which are not whole values"
    );
    assert_eq!(
        sentence("UniversalCopy<uint64_t>", 24),
        "`UniversalCopy<uint64_t>` cannot be read in values of 24 bits: (_1,_64):(_0,_1): \
         a thread moves 64 bits, which are not whole values"
    );
    assert_eq!(
        sentence("SM90_TMA_LOAD_2D", 256),
        "`SM90_TMA_LOAD_2D` cannot be read in values of 256 bits: (_1,_128):(_0,_1): \
         a thread moves 128 bits, which are not whole values; `with_bits` sets how many it moves"
    );
    assert_eq!(
        sentence("SM75_U16x8_LDSM_T", 32),
        "`SM75_U16x8_LDSM_T` cannot be read in values of 32 bits: \
         ((_4,_8),(_16,_2,_4)):((_256,_16),(_1,_128,_1024)): a value would lie in several threads"
    );
}
