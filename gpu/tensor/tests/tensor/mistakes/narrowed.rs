//! Tiles that are narrower than their map was declared with: what is refused, word for word.

use colex_atom::{Arch, SmemSwizzle, Ty};
use colex_tensor::{Builder, TensorKernel};
use colex_tiled::{Operand, TiledMma};

use super::blocks;
use crate::refused;

const LIKE: &str = "(4096,4096):(4096,_1)";

fn hopper() -> Builder {
    Builder::new("k", Arch::Sm90a, 128)
}

fn mma(atom: &str) -> TiledMma {
    let atom = colex_atom::mma(atom).expect("an atom");
    TiledMma::new(atom, "(1,1,1):(0,0,0)", "(_,_,_)").expect("a tiled MMA")
}

/// A mode, an extent and a box that there are not.
#[test]
fn a_narrowed_map_has_limits() {
    let tile = blocks(SmemSwizzle::B128, &[64, 64]);
    let scene = |k: &mut Builder| k.tma_tensor("b", Ty::Bf16, LIKE, [64, 64], &tile, 1);
    assert_eq!(
        refused(hopper(), scene, |k, b| {
            k.narrowed_map(&b, 2, &16.into());
        }),
        "narrowed_map: b: mode 2 is no dimension of the map"
    );
    assert_eq!(
        refused(hopper(), scene, |k, b| {
            let rows = k.index_argument("rows", 0..9) * 8;
            k.narrowed_map(&b, 0, &rows);
        }),
        "narrowed_map: b: r0 * 8 elements along mode 0, of tiles of 64"
    );
    assert_eq!(
        refused(hopper(), scene, |k, b| {
            k.narrowed_map(&b, 0, &65.into());
        }),
        "narrowed_map: b: 65 elements along mode 0, of tiles of 64"
    );
    // 128 columns of 16 bits are two boxes of 64.
    let wide = blocks(SmemSwizzle::B128, &[64, 128]);
    let scene = |k: &mut Builder| k.tma_tensor("b", Ty::Bf16, LIKE, [64, 128], &wide, 1);
    assert_eq!(
        refused(hopper(), scene, |k, b| {
            k.narrowed_map(&b, 1, &64.into());
        }),
        "narrowed_map: b: a tile is several boxes along mode 1"
    );
    // The second of two blocks would begin behind 4 rows of 128 bytes, and the swizzle has a period of 8.
    let scene = |k: &mut Builder| {
        let map = k.tma_tensor("b", Ty::Bf16, LIKE, [64, 64], &tile, 2);
        (map, k.shared_tensor(Ty::Bf16, tile.clone()))
    };
    assert_eq!(
        refused(hopper(), scene, |k, (b, shared)| {
            k.cluster([2, 1, 1]);
            let rows = k.index_argument("rows", 1..9) * 8;
            let few = k.narrowed_map(&b, 0, &rows);
            let (landed, rank) = (k.barriers(1), k.cluster_rank(2));
            let mask = k.emit(|ir| ir.mov(colex_ir::Type::B16, 3));
            k.tma_load_multicast(&few, (0, 0), &shared, &landed.at(0), &rank, mask);
        }),
        "tma_load_multicast: b: the 2 blocks that share a tile of r1 * 8 elements may begin within a period of the swizzle"
    );
    let ring = |k: &mut Builder| k.pipeline(2, 1, 1);
    for (units, by, range) in [
        (0..9, 16, "0 to 128"),
        (1..70_000, 16, "16 to 1119984"),
        (1..2, 8, "8 to 8"),
    ] {
        let found = refused(hopper(), ring, |k, ring| {
            k.start_pipelines(&[&ring], false);
            let bytes = k.index_argument("units", units) * by;
            k.tma_producer_of(&ring, &bytes);
        });
        let ends = format!(
            " bytes, {range}: TMA brings multiples of 16, and a barrier counts at most 1048575"
        );
        assert!(
            found.starts_with("tma_producer_of: ") && found.ends_with(&ends),
            "{found}"
        );
    }
}

/// A map for the launch has no more rows than the tile, in equal parts of the blocks that share it.
#[test]
fn a_narrowed_map_is_given_for_the_kernel() {
    let built = |blocks_of_b: i64, narrows: bool| -> TensorKernel {
        let tile = blocks(SmemSwizzle::B128, &[64, 64]);
        let mut k = hopper();
        let b = k.tma_tensor("b", Ty::Bf16, LIKE, [64, 64], &tile, blocks_of_b);
        if narrows {
            let rows = k.index_argument("rows", 1..5) * 16;
            k.narrowed_map(&b, 0, &rows);
        }
        k.finish().expect("a kernel")
    };
    let layout = "(100,80):(80,_1)";
    let said = |kernel: &TensorKernel, name: &str, extent: i64| {
        let refused = kernel.narrowed_tensor_map(name, layout, extent);
        refused.expect_err("it is refused").to_string()
    };
    let of_two = built(2, true);
    let map = of_two.narrowed_tensor_map("b", layout, 48).expect("a map");
    assert_eq!(map.extents, [64, 24]);
    assert_eq!(
        said(&of_two, "b", 0),
        "tensor b: tiles of 0 elements: 1 to 64, in equal parts of 2 blocks"
    );
    assert_eq!(
        said(&of_two, "b", 80),
        "tensor b: tiles of 80 elements: 1 to 64, in equal parts of 2 blocks"
    );
    assert_eq!(
        said(&of_two, "b", 47),
        "tensor b: tiles of 47 elements: 1 to 64, in equal parts of 2 blocks"
    );
    assert_eq!(
        said(&of_two, "c", 48),
        "the kernel k has no tensor map called c"
    );
    assert_eq!(
        said(&built(1, false), "b", 48),
        "tensor b: the kernel narrows no mode of its tiles"
    );
}

/// The columns of an MMA are the first of another that is the same but for them.
#[test]
fn the_first_columns_are_those_of_the_same_mma() {
    let wide = mma("SM90_64x128x16_F32BF16BF16_SS");
    let scene = |k: &mut Builder| {
        let leader = k.uniform(128) * 128;
        let tile = |k: &mut Builder, rows| {
            k.shared_tensor(Ty::Bf16, blocks(SmemSwizzle::B128, &[rows, 64]))
        };
        let (sa, sb, twice) = (tile(k, 64), tile(k, 128), tile(k, 256));
        let a = k.gmma_operand(&wide, Operand::A, &sa, &leader);
        let [b, twice] = [sb, twice].map(|b| k.gmma_operand(&wide, Operand::B, &b, &leader));
        let d = [128, 256].map(|n| k.fragment_of(&wide, Operand::C, (64, n)));
        (a, [b, twice], d)
    };
    let said = |narrow: &str| {
        let narrow = mma(narrow);
        refused(hopper(), scene, |k, (a, [b, _], [d, _])| {
            k.wgmma_columns((&wide, &narrow), &d, &a, &b, false);
        })
    };
    assert_eq!(
        said("SM90_64x192x16_F32BF16BF16_SS"),
        "wgmma_columns: SM90_64x192x16_F32BF16BF16_SS of 128 threads computes no first columns of SM90_64x128x16_F32BF16BF16_SS of 128 threads: it must be the same but for fewer columns"
    );
    assert_eq!(
        said("SM90_64x64x16_F32F16F16_SS"),
        "wgmma_columns: SM90_64x64x16_F32F16F16_SS of 128 threads computes no first columns of SM90_64x128x16_F32BF16BF16_SS of 128 threads: it must be the same but for fewer columns"
    );
    let narrow = mma("SM90_64x48x16_F32BF16BF16_SS");
    assert_eq!(
        refused(hopper(), scene, |k, (a, [_, b], [_, d])| {
            k.wgmma_columns((&wide, &narrow), &d, &a, &b, false);
        }),
        "wgmma_columns: a tile has 2 atoms of SM90_64x128x16_F32BF16BF16_SS along N: the first columns are those of one"
    );
}
