//! Tiled MMAs over any layout of atoms and any order of the tile: the product is right, or the tiling is refused.

use std::error::Error;

use crate::matrix::{Matrix, expected, zero};
use colex_atom::{Form, MmaAtom, Rule, Space, Value, mma_atoms};
use colex_layout::{Layout, Tiler};
use colex_tiled::{Edge, GemmOptions, Tensor, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

/// A small generator of its own: the same cases on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// What became of one tiling.
#[derive(Debug, PartialEq)]
enum Answer {
    Right,
    Refused(String),
}

/// The product of matrices of `tiles` whole tiles each way less `cut`, against a triple loop; every element of C has
/// one owner.
fn answer(mma: &TiledMma, tiles: [i64; 3], cut: [i64; 3], seed: u32) -> Result<Answer, String> {
    let atom = mma.atom();
    let tile = mma.tile_shape();
    let shape = [0, 1, 2].map(|i| (tile[i] * tiles[i] - cut[i]).max(1));
    let [m, n, k] = shape;
    let [rows, columns, depth] = shape.map(|extent| extent as usize);
    let traits = atom.traits();
    let mut seed = seed;
    let a = Matrix::new((rows, depth), traits.ty_a, &mut seed);
    let b = Matrix::new((columns, depth), traits.ty_b, &mut seed);
    let c = Matrix::new((rows, columns), traits.ty_c, &mut seed);
    let gauss = atom.rule() == Rule::GaussComplex;
    let c = if gauss { zero((rows, columns)) } else { c };
    let layouts = [
        format!("({m},{k}):({k},1)"),
        format!("({n},{k}):(1,{n})"),
        format!("({m},{n}):(1,{m})"),
    ];
    let tensor = |matrix: &Matrix, i: usize, ty| {
        let made: Result<Tensor<Vec<Value>>, _> = matrix.tensor(&layouts[i], ty);
        made.expect("a plain matrix")
    };
    let mut sums = tensor(&c, 2, traits.ty_c);
    let edge = if cut == [0; 3] {
        Edge::Refuse
    } else {
        Edge::Predicate
    };
    let options = GemmOptions {
        edge,
        ..GemmOptions::default()
    };
    let (a_tensor, b_tensor) = (tensor(&a, 0, traits.ty_a), tensor(&b, 1, traits.ty_b));
    if let Err(error) = mma.gemm_with(&a_tensor, &b_tensor, &mut sums, options) {
        return Ok(Answer::Refused(error.to_string()));
    }
    let expected = expected(atom.rule(), &a, &b, &c);
    let mut wrong = 0;
    for ((i, j), re) in expected.re.indexed_iter() {
        let value = *sums.get((i as i64, j as i64)).expect("inside");
        let value = if gauss { value.from_gauss() } else { value };
        let [found, imaginary, _] = value.parts();
        let same = |x: f64, y: f64| (x - y).abs() <= 1e-9;
        wrong += usize::from(!same(found, *re) || !same(imaginary, expected.im[[i, j]]));
    }
    if wrong > 0 {
        return Err(format!("{wrong} of {} elements are wrong", rows * columns));
    }
    let [a, b, c] = layouts.map(|layout| layout.parse::<Layout>().expect("a plain layout"));
    let space = |shared| if shared { Space::Shared } else { Space::Global };
    let of = |layout, shared| (layout, space(shared));
    let report = mma.report(
        of(&a, atom.a_in_shared()),
        of(&b, atom.b_in_shared()),
        of(&c, false),
    );
    let report = report.map_err(|error| format!("gemm is right, and the report says: {error}"))?;
    if report.missing.0 > 0 || report.repeated.0 > 0 {
        let (missing, repeated) = (report.missing, report.repeated);
        return Err(format!(
            "gemm is right, and the report has {missing:?} and {repeated:?}"
        ));
    }
    Ok(Answer::Right)
}

fn built(atom: &MmaAtom, atoms: &str, tile: &Tiler) -> Result<TiledMma, String> {
    let atoms: Layout = atoms.parse().expect("a layout");
    TiledMma::new(atom.clone(), &atoms, tile).map_err(|error| error.to_string())
}

/// The defect: quad-pairs at a stride within the gap of the quad-pair itself.
#[test]
fn quad_pairs_in_their_own_gaps_are_refused() -> Outcome {
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    for (atoms, threads) in [
        ("(1,3,1):(1,1,3)", "((4,2),1,3,1):((1,16),4,4,12)"),
        ("(1,1,3):(1,1,1)", "((4,2),1,1,3):((1,16),4,4,4)"),
    ] {
        assert_eq!(
            built(&atom, atoms, &Tiler::All).unwrap_err(),
            format!(
                "TiledMma::new: the stride 16 is not a multiple of 12, the end of the 3 at stride 4, of the threads \
                 {threads}: a thread finds its place by dividing its index by the strides"
            )
        );
    }
    // Two fit the gap, and four fill it.
    for atoms in ["(1,2,1):(1,1,2)", "(2,2,1):(1,2,4)", "(1,4,1):(1,1,4)"] {
        let mma = built(&atom, atoms, &Tiler::All)?;
        assert_eq!(
            answer(&mma, [1, 1, 2], [0; 3], 1)?,
            Answer::Right,
            "{atoms}"
        );
    }
    Ok(())
}

#[test]
fn warps_at_strides_that_do_not_nest_are_refused() -> Outcome {
    let atom = colex_atom::mma("SM80_16x8x8_F32F16F16F32_TN")?;
    assert_eq!(
        built(&atom, "(2,2,1):(2,3,0)", &Tiler::All).unwrap_err(),
        "TiledMma::new: the stride 96 is not a multiple of 128, the end of the 2 at stride 64, of the threads \
         (32,2,2,1):(1,64,96,0): a thread finds its place by dividing its index by the strides"
    );
    assert_eq!(
        built(&atom, "(4194304,1,1):(1,0,0)", &Tiler::All).unwrap_err(),
        "TiledMma::new: the threads (32,4194304,1,1):(1,32,0,0) go up to 134217727, and at most 1048576 are looked at"
    );
    // Warps left out are a gap that nests.
    let mma = built(&atom, "(2,2,1):(1,4,0)", &Tiler::All)?;
    assert_eq!(answer(&mma, [2, 1, 1], [0; 3], 1)?, Answer::Right);
    Ok(())
}

/// A defect that the law below found: the order has 0, 1, 3 and 4, and its repetitions would never reach 2 and 5.
#[test]
fn orders_that_leave_elements_out_are_refused() -> Outcome {
    let atom = colex_atom::mma("SM70_8x8x4_F16F16F16F16_NT")?;
    assert_eq!(
        built(&atom, "(1,2,1):(1,1,1)", &"(_,_,(2,2):(3,1))".parse()?).unwrap_err(),
        "TiledMma::new: the stride 3 is not a multiple of 2, the end of the 2 at stride 1, of the order (2,2):(3,1) of K: \
         its repetitions would leave elements out"
    );
    assert_eq!(
        built(&atom, "1:0", &"((8,2):(1,0),_,_)".parse()?).unwrap_err(),
        "TiledMma::new: places 0 and 8 of the order (8,2):(1,0) of M are one element, 0, which would be computed twice"
    );
    Ok(())
}

/// Extents 1 to 3 along each mode, with strides that pack, leave gaps, overlap, repeat and go backwards.
fn atom_layout(random: &mut Random) -> String {
    let shape = [0; 3].map(|_: i32| random.of(&[1, 1, 2, 2, 3]));
    let mut strides = [0; 3];
    match random.below(3) {
        // Packed, in some order.
        0 => {
            let mut order = [0, 1, 2];
            order.swap(random.below(3) as usize, random.below(3) as usize);
            let mut next = 1;
            for i in order {
                strides[i] = next;
                next *= shape[i];
            }
        }
        _ => strides = strides.map(|_: i64| random.of(&[0, 1, 1, 2, 2, 3, 4, 5, 6, 8, 12, -1])),
    }
    let [m, n, k] = shape;
    let [x, y, z] = strides;
    format!("({m},{n},{k}):({x},{y},{z})")
}

/// The order of one mode of the tile, over `covered` elements or twice as many.
fn order(covered: i64, random: &mut Random) -> String {
    let extent = covered * random.of(&[1, 1, 2]);
    let half = extent / 2;
    match random.below(12) {
        0..=2 => "_".to_string(),
        3 | 4 => extent.to_string(),
        // Permutations.
        5 if extent % 4 == 0 => {
            let quarter = extent / 4;
            format!("({quarter},2,2):(1,{half},{quarter})")
        }
        6 if extent % 2 == 0 => format!("(2,{half}):({half},1)"),
        7 if extent % 2 == 0 => format!("(2,{half}):(1,2)"),
        8 if extent % 2 == 0 => format!("({half},2):(2,1)"),
        // What is none, or one of a longer mode.
        _ => {
            let [a, b] = match extent % 2 {
                0 => [random.of(&[half, 2]), 0],
                _ => [extent, 0],
            };
            let b = if b == 0 { extent / a } else { b };
            let strides: [i64; 2] =
                [0; 2].map(|_: i64| random.of(&[0, 1, 1, 2, 3, 4, a, b, extent, -1, 1 - extent]));
            let caret = random.of(&["", "", "", "^"]);
            let strides =
                strides.map(|d| format!("{caret}{}", if caret == "^" { d.abs() } else { d }));
            format!("({a},{b}):({},{})", strides[0], strides[1])
        }
    }
}

/// Every executable dense instruction; of `wgmma` two values of N.
fn atoms() -> Vec<MmaAtom> {
    let small = |atom: &MmaAtom| match atom.row().form {
        Form::Async { .. } => atom.mnk()[1] == 8,
        _ => true,
    };
    let dense = |atom: &MmaAtom| atom.is_executable() && !atom.rule().is_sparse();
    mma_atoms()
        .filter(|atom| dense(atom) && small(atom))
        .collect()
}

/// Every instruction over random layouts of atoms and orders of the tile. `COLEX_MMA_LAYOUTS` says how many of each.
#[test]
fn gemm_is_right_or_refused_over_any_layout_of_atoms() -> Outcome {
    let rounds = std::env::var("COLEX_MMA_LAYOUTS").map_or(Ok(1), |n| n.parse::<u64>())?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut right, mut refused, mut unbuilt, mut failures) = (0, 0, 0, Vec::new());
    for atom in atoms() {
        let cost: i64 = atom.mnk().iter().product();
        // About as much work for each instruction.
        let cases = rounds * (4_000 / cost as u64).clamp(1, 40);
        for _ in 0..cases {
            let atoms = atom_layout(&mut random);
            let layout: Layout = atoms.parse()?;
            let mnk = atom.mnk();
            let mode = |i: usize| mnk[i] * layout.mode(i).map_or(1, |mode| mode.size());
            let plain = random.below(2) == 0;
            let orders = [0, 1, 2].map(|i| {
                if plain {
                    "_".to_string()
                } else {
                    order(mode(i), &mut random)
                }
            });
            let tile = format!("({},{},{})", orders[0], orders[1], orders[2]);
            let Ok(tile) = tile.parse::<Tiler>() else {
                unbuilt += 1;
                continue;
            };
            let Ok(mma) = built(&atom, &atoms, &tile) else {
                unbuilt += 1;
                continue;
            };
            let tiles = [0; 3].map(|_: i64| random.of(&[1, 1, 2]));
            let cut = match random.below(3) {
                0 => [0; 3].map(|_: i64| random.of(&[0, 1, 3])),
                _ => [0; 3],
            };
            match answer(&mma, tiles, cut, random.below(1 << 31) as u32) {
                Ok(Answer::Right) => right += 1,
                Ok(Answer::Refused(_)) => refused += 1,
                Err(why) => failures.push(format!(
                    "{} over {atoms} and {tile}, {tiles:?} tiles less {cut:?}: {why}",
                    atom.name()
                )),
            }
        }
    }
    println!(
        "{}",
        failures
            .iter()
            .take(40)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(
        failures.is_empty(),
        "{} of {} are wrong",
        failures.len(),
        right + refused
    );
    assert!(right > 200, "only {right} products");
    println!(
        "law tiled_mma.any_layout: {} cases: {right} right, {refused} refused by gemm, {unbuilt} not built",
        right + refused + unbuilt
    );
    Ok(())
}
