//! Tiled MMAs executed on the host, against a plain product of matrices.

use std::error::Error;

use crate::matrix::{Matrix, expected, zero};
use approx::assert_abs_diff_eq;
use colex_atom::{Form, MmaAtom, Rule, Value, mma_atoms};
use colex_layout::{Layout, Tiler};
use colex_tiled::{Edge, GemmOptions, OutOfBounds, Tensor, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

/// Every dense executable instruction; of `wgmma` the smallest N.
fn atoms() -> impl Iterator<Item = MmaAtom> {
    mma_atoms().filter(|atom| {
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        atom.is_executable() && !atom.rule().is_sparse() && (!asynchronous || atom.mnk()[1] == 8)
    })
}

/// One atom over `atoms` and `tile`, on two tiles along each mode.
fn check(atom: &MmaAtom, atoms: &str, tile: &Tiler) -> Result<usize, Box<dyn Error>> {
    let mma = TiledMma::new(atom.clone(), atoms, tile)?;
    let shape = mma.tile_shape().map(|extent| 2 * extent);
    assert_eq!(product(&mma, shape, Edge::Refuse)?, OutOfBounds::default());
    Ok((shape[0] * shape[1]) as usize)
}

/// The product of matrices of extents `shape`, against ndarray.
fn product(mma: &TiledMma, shape: [i64; 3], edge: Edge) -> Result<OutOfBounds, Box<dyn Error>> {
    let atom = mma.atom();
    let [m, n, k] = shape;
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
    let options = GemmOptions {
        edge,
        ..GemmOptions::default()
    };
    let outside = mma.gemm_with(
        &a.tensor(&format!("({m},{k}):({k},1)"), traits.ty_a)?,
        &b.tensor(&format!("({n},{k}):(1,{n})"), traits.ty_b)?,
        &mut sums,
        options,
    )?;
    let expected = expected(atom.rule(), &a, &b, &c);
    for ((i, j), re) in expected.re.indexed_iter() {
        let value = *sums.get((i as i64, j as i64))?;
        let value = if gauss { value.from_gauss() } else { value };
        let [found, imaginary, _] = value.parts();
        assert_abs_diff_eq!(found, *re, epsilon = 1e-9);
        assert_abs_diff_eq!(imaginary, expected.im[[i, j]], epsilon = 1e-9);
    }
    Ok(outside)
}

#[test]
fn gemm_is_the_product_of_matrices() -> Outcome {
    let (mut cases, mut seen) = (0, 0);
    for atom in atoms() {
        let cost = atom.mnk().iter().product::<i64>();
        cases += check(&atom, "(1,1,1):(0,0,0)", &Tiler::All)?;
        if cost <= 16 * 8 * 32 {
            cases += check(&atom, "(2,2,1):(2,1,0)", &Tiler::All)?;
            cases += check(&atom, "(1,1,2):(0,0,1)", &Tiler::All)?;
        }
        seen += 1;
    }
    assert!(seen > 100, "only {seen} atoms");
    println!("law tiled_mma.gemm_is_the_product_of_matrices: {cases} elements");
    Ok(())
}

/// Wider `wgmma` of both forms: the thread-value layouts of C and of A in registers grow with N.
#[test]
fn gemm_of_wider_wgmma() -> Outcome {
    let mut cases = 0;
    for n in [16, 24, 96] {
        for form in ["SS", "RS"] {
            let atom = colex_atom::mma(&format!("SM90_64x{n}x16_F32F16F16_{form}"))?;
            let mma = TiledMma::new(atom, "(1,1,1):(0,0,0)", &Tiler::All)?;
            product(&mma, [64, n, 32], Edge::Refuse)?;
            product(&mma, [63, n - 1, 17], Edge::Predicate)?;
            cases += 2 * 64 * n;
        }
    }
    println!("law tiled_mma.gemm_of_wider_wgmma: {cases} elements");
    Ok(())
}

/// A permutation changes which thread computes what, and not what is computed.
#[test]
fn gemm_of_a_permuted_tile() -> Outcome {
    let mut cases = 0;
    let small = |a: &MmaAtom| a.mnk()[0] % 2 == 0 && a.mnk().iter().product::<i64>() <= 16 * 8 * 8;
    for atom in atoms().filter(small) {
        // Each half atom of M is followed by the half that lies a tile's half further on.
        let [m, n, k] = atom.mnk();
        let order = format!("(({},2,2):(1,{m},{}),{},{k})", m / 2, m / 2, 2 * n);
        cases += check(&atom, "(1,1,1):(0,0,0)", &order.parse()?)?;
    }
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    cases += check(&atom, "(2,2,1):(2,1,0)", &"((4,4,2):(1,8,4),32,4)".parse()?)?;
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    cases += check(
        &atom,
        "(2,2,1):(1,2,0)",
        &"(32,(2,4,4):(1,8,2),16)".parse()?,
    )?;
    println!("law tiled_mma.gemm_of_a_permuted_tile: {cases} elements");
    Ok(())
}

/// A tile that does not divide the matrices: the product is the same, and what lay outside is what fills up the tiles,
/// once for every thread that names it.
#[test]
fn gemm_by_predicate() -> Outcome {
    let mut cases = 0;
    for atom in atoms().filter(|a| a.mnk().iter().product::<i64>() <= 16 * 8 * 16) {
        for (atoms, [along_m, along_n, along_k]) in [
            ("(1,1,1):(0,0,0)", [1, 1, 1]),
            ("(2,1,2):(1,0,2)", [2, 1, 2]),
        ] {
            let mma = TiledMma::new(atom.clone(), atoms, &Tiler::All)?;
            let [m, n, k] = mma.tile_shape();
            let up = |x: i64, to: i64| (x + to - 1) / to * to;
            for shape in [
                [m + 1, 2 * n, k],
                [2 * m - 1, n - n / 2, k + k / 2],
                [1, 1, 1],
            ] {
                let outside = product(&mma, shape, Edge::Predicate)?;
                let [rows, columns, depth] = shape;
                let filled = [up(rows, m), up(columns, n), up(depth, k)];
                // Each element of A is named by the atoms along N, of B by those along M, of C once.
                let missing =
                    |i: usize, j: usize| (filled[i] * filled[j] - shape[i] * shape[j]) as usize;
                // An atom of one thread or a warp names each element once; in shared memory it is counted once as well.
                assert_eq!(outside.a, missing(0, 2) * along_n, "{mma}");
                assert_eq!(outside.b, missing(1, 2) * along_m, "{mma}");
                assert_eq!(
                    outside.c,
                    missing(0, 1),
                    "{mma} with {along_k} atoms along K"
                );
                cases += (rows * columns) as usize;
            }
        }
    }
    // With the modes reordered, the edge goes through the middle of the tiles.
    for (name, order) in [
        (
            "SM80_16x8x8_F32F16F16F32_TN",
            "((8,2,2):(1,16,8),(2,4,2):(1,4,2),16)",
        ),
        ("SM70_8x8x4_F32F16F16F32_NT", "((4,4,2):(1,8,4),32,4)"),
    ] {
        let mma = TiledMma::new(colex_atom::mma(name)?, "(1,1,1):(0,0,0)", order)?;
        for shape in [[5, 3, 9], [31, 17, 16], [33, 1, 3]] {
            product(&mma, shape, Edge::Predicate)?;
            cases += (shape[0] * shape[1]) as usize;
        }
    }
    println!("law tiled_mma.gemm_by_predicate: {cases} elements");
    Ok(())
}

/// What two atoms along K add at the end saturates where the instruction does, and wraps where it wraps.
#[test]
fn sums_of_atoms_along_k_saturate_as_their_instruction() -> Outcome {
    let top = i64::from(i32::MAX);
    for (name, along_k, result) in [
        ("SM80_8x8x16_S32S8S8S32_TN_SATURATE", 1, top),
        ("SM80_8x8x16_S32S8S8S32_TN_SATURATE", 2, top),
        ("SM80_8x8x16_S32S8S8S32_TN", 1, top - 20 + 32 - (1 << 32)),
        ("SM80_8x8x16_S32S8S8S32_TN", 2, top - 20 + 32 - (1 << 32)),
    ] {
        let atoms = Layout::column_major((1, 1, along_k))?;
        let mma = TiledMma::new(colex_atom::mma(name)?, &atoms, &Tiler::All)?;
        // The first instruction stays below the top, and the second passes it.
        let ones = Tensor::new(vec![Value::Int(1); 8 * 32], "(8,32):(1,8)")?;
        let mut c = Tensor::new(vec![Value::Int(top - 20); 64], "(8,8):(1,8)")?;
        mma.gemm(&ones, &ones, &mut c)?;
        assert!(
            c.elements()?.iter().all(|x| **x == Value::Int(result)),
            "{name} with {along_k} atoms along K: {:?}",
            c.get(0)?
        );
    }
    Ok(())
}

/// An operand in shared memory is named once an atom, not once a thread.
#[test]
fn outside_of_shared_memory_is_counted_once() -> Outcome {
    let mma = TiledMma::new(
        colex_atom::mma("SM90_64x8x16_F32F16F16_SS")?,
        "1:0",
        &Tiler::All,
    )?;
    let ones = |layout: &str| -> Result<_, Box<dyn Error>> {
        let layout: Layout = layout.parse()?;
        Ok(Tensor::new(
            vec![Value::Real(1.0); layout.cosize()? as usize],
            layout,
        )?)
    };
    let (a, b, mut c) = (
        ones("(60,13):(1,60)")?,
        ones("(7,13):(1,7)")?,
        ones("(60,7):(1,60)")?,
    );
    let edges = GemmOptions {
        edge: Edge::Predicate,
        ..GemmOptions::default()
    };
    let outside = mma.gemm_with(&a, &b, &mut c, edges)?;
    assert_eq!(
        [outside.a, outside.b, outside.c],
        [64 * 16 - 60 * 13, 8 * 16 - 7 * 13, 64 * 8 - 60 * 7]
    );
    assert!(c.elements()?.iter().all(|x| **x == Value::Real(14.0)));
    Ok(())
}

/// At the ends of each range there is a product, and one further there is none; a real number is rounded.
#[test]
fn numbers_that_a_type_does_not_hold() -> Outcome {
    let told = |name: &str, value: Value| -> Result<Option<String>, Box<dyn Error>> {
        let atom = colex_atom::mma(name)?;
        let [m, n, k] = atom.mnk();
        let mma = TiledMma::new(atom, "1:0", &Tiler::All)?;
        let tensor = |rows, columns| {
            let layout = Layout::column_major((rows, columns))?;
            Tensor::new(vec![Value::Int(0); (rows * columns) as usize], layout)
        };
        let (mut a, b, mut c) = (tensor(m, k)?, tensor(n, k)?, tensor(m, n)?);
        a.set((1, 2), value)?;
        Ok(mma
            .gemm(&a, &b, &mut c)
            .err()
            .map(|error| error.to_string()))
    };
    for (name, ty, least, most) in [
        ("SM80_16x8x32_S32S8S8S32_TN", "s8", -128, 127),
        ("SM80_16x8x32_S32U8U8S32_TN", "u8", 0, 255),
        ("SM80_16x8x64_S32S4S4S32_TN", "s4", -8, 7),
    ] {
        for value in [least, most] {
            assert_eq!(told(name, Value::Int(value))?, None, "{name}");
        }
        for value in [least - 1, most + 1] {
            let sentence = format!("gemm: (1,2) of A is Int({value}), which is no {ty}");
            assert_eq!(told(name, Value::Int(value))?, Some(sentence));
        }
        assert_eq!(told(name, Value::Real(2.5))?, None);
        let nan = format!("gemm: (1,2) of A is Real(NaN), which is no {ty}");
        assert_eq!(told(name, Value::Real(f64::NAN))?, Some(nan));
    }
    let complex = Value::Complex([1.0, 2.0, 0.0]);
    assert_eq!(
        told("SM80_16x8x16_F32F16F16F32_TN", complex)?.as_deref(),
        Some("gemm: (1,2) of A is Complex([1.0, 2.0, 0.0]), which is no f16")
    );
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let tensor = |text: &str| Tensor::new(vec![Value::Real(0.0); 4096], text).unwrap();
    let refused = |atoms: &str, a: &str, b: &str, c: &str| {
        let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN").unwrap();
        let mma = TiledMma::new(atom, atoms, &Tiler::All).unwrap();
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
        refused(one, "(16,16):(1,16)", "(8,16):(1,8)", "(16,8):(1,0)"),
        "gemm: (16,8):(1,0) has one element at several coordinates, and which value stays there is a race"
    );
    let sparse = mma_atoms().find(|a| a.is_executable() && a.rule().is_sparse());
    let sparse = sparse.expect("wgmma has sparse forms");
    let [m, n, k] = sparse.mnk();
    let mma = TiledMma::new(sparse.clone(), one, &Tiler::All)?;
    let operand = |i, j| tensor(&format!("({i},{j}):(1,{i})"));
    assert_eq!(
        mma.gemm(&operand(m, k), &operand(n, k), &mut operand(m, n))
            .unwrap_err()
            .to_string(),
        format!("gemm: {} needs metadata for its sparse A", sparse.name())
    );
    Ok(())
}
