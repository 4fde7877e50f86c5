//! Tiled MMAs executed on the host, against a plain product of matrices.

use std::error::Error;

use approx::assert_abs_diff_eq;
use colex_atom::{Class, Form, MmaAtom, Rule, Ty, Value, mma_atoms};
use colex_layout::{Layout, Tiler};
use colex_tiled::{Tensor, TiledMma};
use ndarray::Array2;

type Outcome = Result<(), Box<dyn Error>>;

/// Every dense executable instruction; of `wgmma` the smallest N.
fn atoms() -> impl Iterator<Item = MmaAtom> {
    mma_atoms().filter(|atom| {
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        atom.is_executable() && !atom.rule().is_sparse() && (!asynchronous || atom.mnk()[1] == 8)
    })
}

/// Small numbers that every type holds exactly, from a linear congruence (Numerical Recipes' `ranqd1`).
fn numbers(shape: (usize, usize), ty: Ty, seed: &mut u32) -> Array2<f64> {
    let (low, count) = match ty.class() {
        Class::Integer { signed: false } => (0, 1 << ty.bits().min(2)),
        _ => (-2, 5),
    };
    Array2::from_shape_simple_fn(shape, || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(low + (*seed >> 16) as i32 % count)
    })
}

/// Real and imaginary part; the second is zero of a real type.
struct Matrix {
    re: Array2<f64>,
    im: Array2<f64>,
}

impl Matrix {
    fn new(shape: (usize, usize), ty: Ty, seed: &mut u32) -> Self {
        let re = numbers(shape, ty, seed);
        let im = match ty.class() {
            Class::Complex { parts: 2 } => numbers(shape, ty, seed),
            _ => Array2::zeros(shape),
        };
        Self { re, im }
    }

    /// The elements in memory under `layout`.
    fn tensor(&self, layout: &str, ty: Ty) -> Result<Tensor<Vec<Value>>, Box<dyn Error>> {
        let layout: Layout = layout.parse()?;
        let mut data = vec![Value::zero(ty); usize::try_from(layout.cosize()?)?];
        for ((i, j), re) in self.re.indexed_iter() {
            data[usize::try_from(layout.offset((i as i64, j as i64))?)?] = match ty.class() {
                Class::Float(_) => Value::Real(*re),
                Class::Integer { .. } => Value::Int(*re as i64),
                Class::Complex { .. } => Value::complex(*re, self.im[[i, j]]),
            };
        }
        Ok(Tensor::new(data, layout)?)
    }
}

/// What the rule says of whole matrices.
fn expected(rule: Rule, a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    let product = |x: &Array2<f64>, y: &Array2<f64>| x.dot(&y.t());
    let ones = Array2::ones(b.re.raw_dim());
    let re = match rule {
        Rule::XorPopc => {
            let either = product(&a.re, &ones) + product(&Array2::ones(a.re.raw_dim()), &b.re);
            either - 2.0 * product(&a.re, &b.re)
        }
        _ => product(&a.re, &b.re) - product(&a.im, &b.im),
    };
    let im = product(&a.re, &b.im) + product(&a.im, &b.re);
    Matrix {
        re: re + &c.re,
        im: im + &c.im,
    }
}

/// One atom over `atoms` and `tile`, on two tiles along each mode.
fn check(atom: &MmaAtom, atoms: &str, tile: &Tiler) -> Result<usize, Box<dyn Error>> {
    let mma = TiledMma::new(atom.clone(), &atoms.parse()?, tile)?;
    let [m, n, k] = mma.tile_shape().map(|extent| 2 * extent);
    let [rows, columns, depth] = [m, n, k].map(|extent| extent as usize);
    let traits = atom.traits();
    let mut seed = 1;
    let a = Matrix::new((rows, depth), traits.ty_a, &mut seed);
    let b = Matrix::new((columns, depth), traits.ty_b, &mut seed);
    let c = Matrix::new((rows, columns), traits.ty_c, &mut seed);
    // Sums of Gauss's product start at zero: their three parts are not the two of a number.
    let gauss = atom.rule() == Rule::GaussComplex;
    let c = if gauss { zero((rows, columns)) } else { c };
    let mut sums = c.tensor(&format!("({m},{n}):(1,{})", m + 3), traits.ty_c)?;
    mma.gemm(
        &a.tensor(&format!("({m},{k}):({k},1)"), traits.ty_a)?,
        &b.tensor(&format!("({n},{k}):(1,{n})"), traits.ty_b)?,
        &mut sums,
    )?;
    let expected = expected(atom.rule(), &a, &b, &c);
    for ((i, j), re) in expected.re.indexed_iter() {
        let value = *sums.get((i as i64, j as i64))?;
        let value = if gauss { value.from_gauss() } else { value };
        let [found, imaginary, _] = value.parts();
        assert_abs_diff_eq!(found, *re, epsilon = 1e-9);
        assert_abs_diff_eq!(imaginary, expected.im[[i, j]], epsilon = 1e-9);
    }
    Ok(expected.re.len())
}

fn zero(shape: (usize, usize)) -> Matrix {
    Matrix {
        re: Array2::zeros(shape),
        im: Array2::zeros(shape),
    }
}

#[test]
fn gemm_is_the_product_of_matrices() -> Outcome {
    let (mut cases, mut seen) = (0, 0);
    for atom in atoms() {
        let cost = atom.mnk().iter().product::<i64>();
        cases += check(&atom, "(1,1,1):(0,0,0)", &Tiler::All)?;
        if cost <= 16 * 8 * 32 {
            cases += check(&atom, "(2,2,1):(2,1,0)", &Tiler::All)?;
        }
        seen += 1;
    }
    assert!(seen > 100, "only {seen} atoms");
    println!("law tiled_mma.gemm_is_the_product_of_matrices: {cases} elements");
    Ok(())
}

/// A permutation changes who computes what, and not what is computed.
#[test]
fn gemm_of_a_permuted_tile() -> Outcome {
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let mut cases = check(&atom, "(2,2,1):(2,1,0)", &"((4,4,2):(1,8,4),32,4)".parse()?)?;
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    cases += check(
        &atom,
        "(2,2,1):(1,2,0)",
        &"(32,(2,4,4):(1,8,2),16)".parse()?,
    )?;
    println!("law tiled_mma.gemm_of_a_permuted_tile: {cases} elements");
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let tensor =
        |text: &str| Tensor::new(vec![Value::Real(0.0); 4096], text.parse().unwrap()).unwrap();
    let refused = |atoms: &str, a: &str, b: &str, c: &str| {
        let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN").unwrap();
        let mma = TiledMma::new(atom, &atoms.parse().unwrap(), &Tiler::All).unwrap();
        let done = mma.gemm(&tensor(a), &tensor(b), &mut tensor(c));
        done.unwrap_err().to_string()
    };
    let one = "(1,1,1):(0,0,0)";
    assert_eq!(
        refused(one, "(16,16):(1,16)", "(8,32):(1,8)", "(16,8):(1,16)"),
        "gemm: A (16,16):(1,16), B (8,32):(1,8) and C (16,8):(1,16) are not of the extents (M,K), (N,K) and (M,N)"
    );
    assert_eq!(
        refused(one, "16:1", "(8,16):(1,8)", "(16,8):(1,16)"),
        "gemm: A 16:1, B (8,16):(1,8) and C (16,8):(1,16) are not all of rank 2"
    );
    assert_eq!(
        refused(one, "(20,16):(1,20)", "(8,16):(1,8)", "(20,8):(1,20)"),
        "thread 0 names (24,0), which is outside of (20,16):(1,20): the tile does not divide the tensor, and a \
         predicate must say what is inside"
    );
    assert_eq!(
        refused(
            "(1,1,2):(0,0,1)",
            "(16,32):(1,16)",
            "(8,32):(1,8)",
            "(16,8):(1,16)"
        ),
        "gemm: 2 atoms along K own a C each, whose sum is another step"
    );
    assert_eq!(
        refused(one, "(16,16):(1,16)", "(8,16):(1,8)", "(16,8):(1,0)"),
        "gemm: (16,8):(1,0) has one element at several coordinates, and which value stays there is a race"
    );
    let sparse = mma_atoms().find(|a| a.is_executable() && a.rule().is_sparse());
    let sparse = sparse.expect("wgmma has sparse forms");
    let [m, n, k] = sparse.mnk();
    let mma = TiledMma::new(sparse.clone(), &one.parse()?, &Tiler::All)?;
    let operand = |i, j| tensor(&format!("({i},{j}):(1,{i})"));
    assert_eq!(
        mma.gemm(&operand(m, k), &operand(n, k), &mut operand(m, n))
            .unwrap_err()
            .to_string(),
        format!("gemm: {} needs metadata for its sparse A", sparse.name())
    );
    Ok(())
}
