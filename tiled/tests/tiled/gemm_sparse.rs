//! Tiled MMAs with a sparse A, and with the sums of Hopper.

use std::error::Error;

use crate::matrix::{Matrix, expected};
use approx::assert_abs_diff_eq;
use colex_atom::{Form, MmaAtom, Rule, Ty, Value, mma_atoms};
use colex_layout::Tiler;
use colex_tiled::{Arithmetic, Edge, GemmOptions, Tensor, TiledMma};
use ndarray::Array2;

type Outcome = Result<(), Box<dyn Error>>;

/// Every sparse executable instruction with the smallest N.
fn sparse() -> impl Iterator<Item = MmaAtom> {
    mma_atoms().filter(|a| a.is_executable() && a.rule().is_sparse() && a.mnk()[1] == 8)
}

/// How many are kept of a group, and its size.
fn group(atom: &MmaAtom) -> (usize, usize) {
    match atom.rule() {
        Rule::Sparse1Of2 => (1, 2),
        _ => (2, 4),
    }
}

/// A thinned A through `compress` and the metadata registers, against the product with its zeros.
#[test]
fn gemm_of_a_sparse_a() -> Outcome {
    let (mut cases, mut seen) = (0, 0);
    for atom in sparse() {
        for (atoms, tiles, less) in [("(1,1,1):(0,0,0)", 2, 0), ("(1,2,2):(0,1,2)", 1, 1)] {
            let mma = TiledMma::new(atom.clone(), atoms, &Tiler::All)?;
            let (keep, group) = group(&atom);
            // Two tiles along K, or one less a row, a column and a group.
            let [m, n, k] = mma.tile_shape();
            let k = tiles * k;
            let [m, n, k] = [m - less, n - less, k - less * group as i64];
            let [rows, columns, depth] = [m, n, k].map(|extent| extent as usize);
            let traits = atom.traits();
            let mut seed = 7;
            let a = Matrix::new((rows, depth), traits.ty_a, &mut seed).thinned(keep, group);
            let b = Matrix::new((columns, depth), traits.ty_b, &mut seed);
            let c = Matrix::new((rows, columns), traits.ty_c, &mut seed);
            let mut sums = c.tensor(&format!("({m},{n}):({n},1)"), traits.ty_c)?;
            let dense = a.tensor(&format!("({m},{k}):({k},1)"), traits.ty_a)?;
            let (stored, positions) = mma.compress(&dense)?;
            let options = GemmOptions {
                edge: Edge::Predicate,
                ..GemmOptions::default()
            };
            let b_tensor = b.tensor(&format!("({n},{k}):(1,{n})"), traits.ty_b)?;
            let outside = mma.gemm_sparse(&stored, &positions, &b_tensor, &mut sums, options)?;
            assert_eq!(outside.c > 0, less > 0);
            let expected = expected(atom.rule(), &a, &b, &c);
            for ((i, j), re) in expected.re.indexed_iter() {
                let found = sums.get((i as i64, j as i64))?.real();
                assert_abs_diff_eq!(found, *re, epsilon = 1e-9);
                cases += 1;
            }
        }
        seen += 1;
    }
    assert!(seen > 30, "only {seen} atoms");
    println!("law tiled_mma.gemm_of_a_sparse_a: {cases} elements");
    Ok(())
}

/// What is kept of one atom's tile is what the atom keeps.
#[test]
fn compress_is_the_atoms_own() -> Outcome {
    let mut cases = 0;
    for atom in sparse() {
        let mma = TiledMma::new(atom.clone(), "1:0", &Tiler::All)?;
        let ([m, _, k], (keep, group)) = (atom.mnk(), group(&atom));
        let ty = atom.traits().ty_a;
        let mut seed = 3;
        let a = Matrix::new((m as usize, k as usize), ty, &mut seed).thinned(keep, group);
        let dense = a.tensor(&format!("({m},{k}):(1,{m})"), ty)?;
        let tile: Vec<Value> = dense.elements()?.into_iter().copied().collect();
        let (own, _) = atom.pack(&tile)?;
        let (stored, positions) = mma.compress(&dense)?;
        let stored: Vec<Value> = stored.elements()?.into_iter().copied().collect();
        assert_eq!(stored, own, "{}", atom.name());
        assert_eq!(positions.layout().size(), m * k / group as i64);
        cases += own.len();
    }
    println!("law tiled_mma.compress_is_the_atoms_own: {cases} elements");
    Ok(())
}

/// A size at which the type still has all small numbers, and products of two fall below the last place of 1.
fn scale(ty: Ty) -> f64 {
    match ty.bits() {
        8 => 2f64.powi(-6),
        _ => 2f64.powi(-13),
    }
}

/// With the sums of Hopper, `gemm` is the atom's own product of tiles, step by step along K; and for some atom and
/// numbers it is not what rounding once gives.
#[test]
fn gemm_with_the_sums_of_hopper() -> Outcome {
    let (mut cases, mut different) = (0, 0);
    let dense = mma_atoms().filter(|atom| {
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        let complex = matches!(atom.rule(), Rule::PlanarComplex | Rule::GaussComplex);
        atom.is_executable()
            && !atom.rule().is_sparse()
            && !complex
            && (!asynchronous || atom.mnk()[1] == 8)
    });
    for atom in dense {
        let mma = TiledMma::new(atom.clone(), "(1,1,1):(0,0,0)", &Tiler::All)?;
        let ([m, n, k], traits) = (atom.mnk(), atom.traits());
        let [rows, columns, depth] = [m, n, 2 * k].map(|extent| extent as usize);
        let mut seed = 11;
        let mut a = Matrix::new((rows, depth), traits.ty_a, &mut seed);
        let mut b = Matrix::new((columns, depth), traits.ty_b, &mut seed);
        // Small against C, so that something is cut off.
        if !traits.ty_a.is_integer() {
            a.re.mapv_inplace(|x| 3.0 * x * scale(traits.ty_a));
            b.re.mapv_inplace(|x| x * scale(traits.ty_b));
        }
        let c = Matrix {
            re: Array2::from_elem((rows, columns), 1.0),
            im: Array2::zeros((rows, columns)),
        };
        let a = a.tensor(&format!("({m},{}):({},1)", 2 * k, 2 * k), traits.ty_a)?;
        let b = b.tensor(&format!("({n},{}):(1,{n})", 2 * k), traits.ty_b)?;
        let mut once = c.tensor(&format!("({m},{n}):(1,{m})"), traits.ty_c)?;
        let mut hopper = once.clone();
        let options = GemmOptions {
            arithmetic: Arithmetic::Hopper,
            ..GemmOptions::default()
        };
        mma.gemm_with(&a, &b, &mut hopper, options)?;
        mma.gemm(&a, &b, &mut once)?;
        let step = |tensor: &Tensor<Vec<Value>>, rows: i64, step: i64| -> Vec<Value> {
            let tile = (0..rows * k)
                .map(|i| *tensor.get((i % rows, step * k + i / rows)).expect("inside"));
            // As the registers hold them.
            tile.collect()
        };
        let ones: Vec<Value> = (0..m * n)
            .map(|_| {
                if traits.ty_c.is_integer() {
                    Value::Int(1)
                } else {
                    Value::Real(1.0)
                }
            })
            .collect();
        let first = atom.multiply_on_hopper(&step(&a, m, 0), &step(&b, n, 0), &ones)?;
        let both = atom.multiply_on_hopper(&step(&a, m, 1), &step(&b, n, 1), &first)?;
        let found: Vec<Value> = hopper.elements()?.into_iter().copied().collect();
        assert_eq!(found, both, "{}", atom.name());
        different += usize::from(once != hopper);
        cases += found.len();
    }
    assert!(different > 0, "the two kinds of sums never differ");
    println!(
        "law tiled_mma.gemm_with_the_sums_of_hopper: {cases} elements, {different} atoms differ"
    );
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let atom = colex_atom::mma("SPARSE::GMMA_64x8x64_S32S8S8_SS_TN")?;
    let one = "(1,1,1):(0,0,0)";
    let mma = TiledMma::new(atom.clone(), one, &Tiler::All)?;
    let values = |text: &str| Tensor::new(vec![Value::Int(1); 8192], text).unwrap();
    let nibbles = |text: &str, nibble| Tensor::new(vec![nibble; 8192], text).unwrap();
    let refused = |mma: &TiledMma, a: &str, e: &str, nibble: u8, b: &str| {
        let (a, e, b) = (values(a), nibbles(e, nibble), values(b));
        let mut c = values("(64,8):(1,64)");
        let error = mma
            .gemm_sparse(&a, &e, &b, &mut c, GemmOptions::default())
            .unwrap_err();
        assert_eq!(c, values("(64,8):(1,64)"), "C is as it was");
        error.to_string()
    };
    let (a, e, b) = ("(64,32):(1,64)", "(64,16):(1,64)", "(8,64):(1,8)");
    assert_eq!(
        refused(&mma, "(64,64):(1,64)", e, 4, b),
        "gemm: A (64,64):(1,64), B (8,64):(1,8) and C (64,8):(1,64) are not of the extents (M,K/2), (N,K) and (M,N)"
    );
    assert_eq!(
        refused(&mma, a, "(64,8):(1,64)", 4, b),
        "gemm: the positions (64,8):(1,64) are not of the extents (64,64/4) that A (64,32):(1,64) has"
    );
    assert_eq!(
        refused(&mma, a, e, 5, b),
        "the metadata of `SPARSE::GMMA_64x8x64_S32S8S8_SS_TN` in row 0 at k = 0 is 0b0101: two of four are two positions \
         in ascending order, the lower in the low bits"
    );
    let apart = TiledMma::new(atom, one, "(64,8,(2,32):(32,1))")?;
    assert_eq!(
        refused(&apart, a, e, 4, b),
        "gemm: SPARSE::GMMA_64x8x64_S32S8S8_SS_TN keeps some of 4 neighbours along K, and the permutation of K puts elements 0 and \
         1 of an instruction at 0 and 32"
    );
    assert_eq!(
        mma.compress(&values("(64,63):(1,64)"))
            .unwrap_err()
            .to_string(),
        "gemm: A (64,63):(1,64) is not of the extents (M,K) with K a multiple of 4"
    );
    assert_eq!(
        mma.compress(&values("(64,64):(1,64)"))
            .unwrap_err()
            .to_string(),
        "`SPARSE::GMMA_64x8x64_S32S8S8_SS_TN` keeps 2 of 4 elements; row 0 has more at k = 0"
    );
    let dense = TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        one,
        &Tiler::All,
    )?;
    assert_eq!(
        dense
            .compress(&values("(64,64):(1,64)"))
            .unwrap_err()
            .to_string(),
        "gemm: SM80_16x8x16_F32F16F16F32_TN has no sparse A"
    );
    Ok(())
}
