//! The operands of `wgmma` in shared memory: every canonical layout, filled, staged and described.

use colex_atom::{Major, MmaAtom, SmemSwizzle, Ty, Value};
use colex_layout::{ComposedLayout, Layout, Swizzle};

use colex_ir::{Access, Address, BinaryOp, KernelBuilder, Reg, Space, Type};

/// What a tile of shared memory begins at a multiple of: the longest pattern of a swizzle.
const ALIGN: u32 = 1024;

/// How A (unless it is in registers) and B lie in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Image {
    a: Option<Tile>,
    b: Tile,
    /// Those of A and B, relative to the image; 0 for registers.
    pub(super) descriptors: [u64; 2],
}

/// One operand: where each element lies, in bytes from the image's beginning, by `mn + MN*k`.
#[derive(Clone, Debug)]
struct Tile {
    ty: Ty,
    offsets: Vec<u32>,
    end: u32,
}

impl Image {
    /// One for each pair of canonical layouts that the instruction takes, the swizzles of A and B rotated against each
    /// other.
    pub(super) fn all(atom: &MmaAtom) -> Vec<Image> {
        let options = atom.options();
        let ([m, n, k], t) = (atom.mnk(), atom.traits());
        let kept = k / atom.rule().packing() as i64;
        let of_a = if atom.a_in_shared() {
            canonical(atom, 'A', options.major_a, [m, kept], t.ty_a)
        } else {
            Vec::new()
        };
        let of_b = canonical(atom, 'B', options.major_b, [n, k], t.ty_b);
        let count = of_a.len().max(of_b.len());
        let images = (0..count).map(|i| {
            let a = (!of_a.is_empty()).then(|| &of_a[i % of_a.len()]);
            Image::of(a, &of_b[(i + i / of_b.len() + 1) % of_b.len()])
        });
        images.collect()
    }

    fn of(a: Option<&(u64, Tile)>, b: &(u64, Tile)) -> Image {
        let start = a.map_or(0, |(_, tile)| tile.end.next_multiple_of(ALIGN));
        let moved = Tile {
            offsets: b.1.offsets.iter().map(|at| at + start).collect(),
            end: b.1.end + start,
            ..b.1
        };
        Image {
            a: a.map(|(_, tile)| tile.clone()),
            b: moved,
            descriptors: [a.map_or(0, |(bits, _)| *bits), b.0 + u64::from(start >> 4)],
        }
    }

    /// Its bytes, a multiple of 16.
    pub(super) fn bytes(&self) -> u32 {
        self.b.end.next_multiple_of(16)
    }

    /// Writes the tiles into the image.
    pub(super) fn put(&self, a: &[Value], b: &[Value], image: &mut [u8]) {
        let operands = self.a.iter().map(|tile| (tile, a)).chain([(&self.b, b)]);
        for (tile, values) in operands {
            let bytes = tile.ty.bits() as usize / 8;
            for (at, value) in tile.offsets.iter().zip(values) {
                let word = value.encode(tile.ty)[0].to_le_bytes();
                image[*at as usize..][..bytes].copy_from_slice(&word[..bytes]);
            }
        }
    }
}

/// Every canonical layout of an operand that has a descriptor, with it.
fn canonical(
    atom: &MmaAtom,
    operand: char,
    major: Major,
    [mn, k]: [i64; 2],
    ty: Ty,
) -> Vec<(u64, Tile)> {
    let layouts = SmemSwizzle::ALL.into_iter().filter_map(|swizzle| {
        let tile = layout(swizzle, major, [mn, k], i64::from(ty.bits()))?;
        let descriptor = atom.descriptor(operand, &tile).ok()?;
        let bytes = ty.bits() / 8;
        let offsets = tile.offsets().ok()?.map(|at| at as u32 * bytes);
        let offsets: Vec<u32> = offsets.collect();
        let end = offsets.iter().max()? + bytes;
        Some((descriptor.encode().ok()?, Tile { ty, offsets, end }))
    });
    layouts.collect()
}

/// A tile `(MN, K)` made of whole patterns of the swizzle, as few as hold it (PTX ISA 9.7.15.5.1).
fn layout(
    swizzle: SmemSwizzle,
    major: Major,
    [mn, k]: [i64; 2],
    bits: i64,
) -> Option<ComposedLayout> {
    let (t, row) = (128 / bits, swizzle.span() * 8 / bits);
    let inner = match (major, swizzle) {
        (Major::K, SmemSwizzle::None) => Layout::new((mn, (t, k / t)), (t, (1, mn * t))),
        (Major::K, _) if k <= row => Layout::new((mn, k), (row, 1)),
        (Major::MN, SmemSwizzle::None) => {
            Layout::new(((t, mn / t), (8, k / 8)), ((1, k * t), (t, 8 * t)))
        }
        (Major::MN, _) if mn % row == 0 => Layout::new(
            ((row, mn / row), (8, k / 8)),
            ((1, k * row), (row, 8 * row)),
        ),
        _ => return None,
    };
    let inner = inner.ok()?;
    let bytes = swizzle.swizzle();
    let base = i64::from(t.trailing_zeros());
    let elements = Swizzle::new(bytes.bits(), base, bytes.shift()).ok()?;
    ComposedLayout::new(elements, 0, inner.to_static()).ok()
}

/// The two descriptors, moved to where the image lies.
pub(super) fn descriptors(k: &mut KernelBuilder, image: Reg, at: [Address; 2]) -> [Reg; 2] {
    let units = k.shr(Type::U32, image, 4);
    let units = k.cvt(Type::U64, Type::U32, units);
    at.map(|at| {
        let relative = k.load(Access::new(Space::Global, Type::B64), at);
        k.binary(BinaryOp::Add, Type::U64, relative, units)
    })
}
