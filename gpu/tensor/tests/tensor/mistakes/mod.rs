//! What is refused, and how that is said.

mod defects;
mod failures;
mod im2col;
mod narrowed;
mod no_integer;
mod owners;
mod refusals;

use colex_atom::{Major, SmemSwizzle, gmma_smem_atom};
use colex_layout::{ComposedLayout, IntTuple, LayoutLeft};
use colex_tiled::{TiledCopy, TiledMma};

/// A tiled copy of words, and tiled MMAs of Ampere and of Hopper.
fn tiles() -> (TiledCopy, TiledMma, TiledMma) {
    let word = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(word, 32, "(4,32):(32,1)", "(1,1):(0,0)").expect("a copy");
    let tiled = |atom: &str, atoms: &str| {
        let atom = colex_atom::mma(atom).expect("an atom");
        TiledMma::new(atom, atoms, "(_,_,_)").expect("a tiled MMA")
    };
    let mma = tiled("SM80_16x8x16_F32F16F16F32_TN", "(4,1,1):(1,0,0)");
    let gmma = tiled("SM90_64x64x16_F32BF16BF16_SS", "(1,1,1):(0,0,0)");
    (copy, mma, gmma)
}

/// Extents as blocks of a swizzle, K-major.
fn blocks(swizzle: SmemSwizzle, shape: &[i64]) -> ComposedLayout {
    let atom = gmma_smem_atom(Major::K, swizzle, 16).expect("16 bits divide 128");
    let shape = IntTuple::flat(shape.iter().map(|n| (*n).into()));
    let atom = atom.position_independent().expect("a swizzle of addresses");
    atom.tile_to_shape(&shape, LayoutLeft)
        .expect("the atom divides the tile")
}

/// The line of the case with that name in the text of a file.
fn line_of(text: &str, name: &str) -> u32 {
    let begins = format!("\"{name}\" =>");
    let mut lines = (1..).zip(text.lines());
    let case = lines.find(|(_, line)| line.trim_start().starts_with(&begins));
    case.expect("a case has a line").0
}
