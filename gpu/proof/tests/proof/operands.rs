//! What the kernel library accepts, what a copy comes to, and the sentences of what it refuses.

use colex_gpu::Device;
use colex_gpu::kernels::{GemmProblem, LoopNest, Major, Operand, View, ViewMut, reference};
use colex_layout::{IntTuple, Layout, Stride, Tuple};

fn layout(text: &str) -> Layout {
    text.parse().expect("a layout")
}

fn refused(source: &str, destination: &str) -> String {
    let refused = LoopNest::new(layout(source), layout(destination));
    refused.expect_err("it is refused").to_string()
}

/// A linear congruential generator: the tests have no use for a better one.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    /// A layout of these extents whose modes lie in a random order, some with gaps.
    fn layout(&mut self, extents: &[i64]) -> Layout {
        let mut order: Vec<usize> = (0..extents.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        let (mut strides, mut next) = (vec![0; extents.len()], 1);
        for mode in order {
            strides[mode] = next;
            next *= extents[mode] + i64::from(self.below(4) == 0);
        }
        let shape = IntTuple::flat(extents.iter().map(|&extent| extent.into()));
        Layout::new(shape, Tuple::flat(strides.into_iter().map(Stride::from))).expect("a layout")
    }

    /// The layout with a small stride in one of its modes: rows that overlap or repeat.
    fn overlapping(&mut self, layout: &Layout) -> Layout {
        let mut strides: Vec<Stride> = layout.leaves().iter().map(|leaf| leaf.stride).collect();
        let mode = self.below(strides.len() as u64) as usize;
        strides[mode] = Stride::from(self.below(4) as i64);
        Layout::new(layout.shape(), Tuple::flat(strides)).expect("a layout")
    }
}

/// The law of the walk: copying along it is copying coordinate by coordinate.
#[test]
fn a_walk_copies_what_the_layouts_copy() {
    let mut random = Random(7);
    let mut cases = 0;
    for _ in 0..4000 {
        let rank = 1 + random.below(5) as usize;
        let extents: Vec<i64> = (0..rank).map(|_| 1 + random.below(6) as i64).collect();
        let (from, to) = (random.layout(&extents), random.layout(&extents));
        let nest = LoopNest::new(&from, &to).expect("one shape");
        let source: Vec<i64> = (0..from.cosize().expect("small")).collect();
        let mut expected = vec![-1; to.cosize().expect("small") as usize];
        let mut found = expected.clone();
        reference::copy(&source, &from, &mut expected, &to).expect("small");
        reference::copy(&source, nest.source(), &mut found, nest.destination()).expect("small");
        assert_eq!(found, expected, "{from} -> {to}: {nest}");
        assert_eq!(nest.size(), from.size());
        assert!(nest.loops().len() <= rank);
        cases += 1;
    }
    println!("law a_walk_copies_what_the_layouts_copy: {cases} cases");
}

/// The law of the vector: every access of that vector is aligned and contiguous on both sides.
#[test]
fn an_aligned_vector_divides_both_sides() {
    let mut random = Random(11);
    let mut cases = 0;
    for _ in 0..2000 {
        let rank = 1 + random.below(3) as usize;
        let extents: Vec<i64> = (0..rank).map(|_| 1 << random.below(5)).collect();
        let (mut from, to) = (random.layout(&extents), random.layout(&extents));
        if random.below(3) == 0 {
            from = random.overlapping(&from);
        }
        let nest = LoopNest::new(&from, &to).expect("one shape");
        let vector = nest
            .aligned_vector(2, 16, [256, 256])
            .expect("it is computed");
        assert!(vector * 2 <= 16);
        let (from, to) = (
            nest.source().table().expect("small"),
            nest.destination().table().expect("small"),
        );
        for (from, to) in from.chunks(vector as usize).zip(to.chunks(vector as usize)) {
            for (i, (x, y)) in (0..).zip(from.iter().zip(to)) {
                assert_eq!((*x, *y), (from[0] + i, to[0] + i), "{nest} by {vector}");
            }
            assert_eq!(
                (from[0] % vector, to[0] % vector),
                (0, 0),
                "{nest} by {vector}"
            );
        }
        cases += 1;
    }
    println!("law an_aligned_vector_divides_both_sides: {cases} cases");
}

#[test]
fn addresses_narrow_a_vector() {
    let nest = LoopNest::new(layout("64:1"), layout("64:1")).expect("one shape");
    let width = |addresses| {
        nest.aligned_vector(4, 16, addresses)
            .expect("it is computed")
    };
    assert_eq!(
        [width([256, 512]), width([264, 512]), width([256, 516])],
        [4, 2, 1]
    );
}

#[test]
fn shapes_that_refine_each_other_meet() {
    let nest = LoopNest::new(layout("((2,3),4):((1,8),2)"), layout("24:1")).expect("a refinement");
    assert_eq!(nest.to_string(), "(2,3,4):(1,8,2) -> (2,3,4):(1,2,6)");
    let one = LoopNest::new(layout("(1,1):(5,7)"), layout("1:0")).expect("one element");
    assert_eq!(one.to_string(), "1:1 -> 1:1");
}

/// As many elements are not enough: coordinates must correspond.
#[test]
fn shapes_of_one_size_do_not_correspond() {
    assert_eq!(
        refused("(8,2):(1,8)", "(2,8):(8,1)"),
        "a copy from the shape (8,2) into (2,8): mode 0 has 8 elements in one and 2 in the other; give both one shape, or permute one of them"
    );
    assert_eq!(
        refused("(2,3,4):(1,2,6)", "(6,4):(1,6)"),
        "a copy from the shape (2,3,4) into (6,4): the whole has 3 modes in one and 2 in the other; give both one shape, or permute one of them"
    );
    assert_eq!(
        refused("(4,(2,3)):(1,(4,8))", "(4,(3,2)):(1,(4,12))"),
        "a copy from the shape (4,(2,3)) into (4,(3,2)): mode (1,0) has 2 elements in one and 3 in the other; give both one shape, or permute one of them"
    );
    let device = Device::open();
    let (from, mut to) = (
        device.upload(&[0u16; 16]).expect("memory"),
        device.poisoned::<u16>(16).expect("memory"),
    );
    let rows = || layout("(2,8):(8,1)");
    let (source, destination) = (
        View::new(&from, rows()).expect("it fits"),
        ViewMut::new(&mut to, rows()).expect("it fits"),
    );
    let refused = colex_gpu::transpose(&source, &destination, &[1, 0]).expect_err("it is refused");
    assert_eq!(
        refused.to_string(),
        "a copy from the shape (8,2) into (2,8): mode 0 has 8 elements in one and 2 in the other; give both one shape, or permute one of them"
    );
    assert_eq!(colex_gpu::transpose(&source, &destination, &[0, 1]), Ok(()));
}

/// A random shape: an integer, or a few shapes.
fn shape(random: &mut Random, depth: u64) -> IntTuple {
    match random.below(depth + 1) {
        0 => IntTuple::from(1 + random.below(4) as i64),
        _ => {
            let modes: Vec<_> = (0..1 + random.below(3))
                .map(|_| shape(random, depth - 1))
                .collect();
            IntTuple::concat(&modes)
        }
    }
}

/// The same shape with some modes joined into one integer each.
fn coarser(random: &mut Random, shape: &IntTuple) -> IntTuple {
    if shape.is_leaf() || random.below(3) == 0 {
        IntTuple::from(shape.product().expect("small").value())
    } else {
        let modes: Vec<_> = shape.modes().map(|mode| coarser(random, &mode)).collect();
        IntTuple::concat(&modes)
    }
}

/// Which elements correspond, by their colexicographic indices: the definition, recursively; none if it does not say.
fn pairs(a: &IntTuple, b: &IntTuple) -> Option<Vec<(i64, i64)>> {
    let size = |x: &IntTuple| x.product().expect("small").value();
    if size(a) != size(b) {
        return None;
    }
    let unwrapped = |x: &IntTuple| match (x.is_leaf(), x.rank()) {
        (false, 1) => x.mode(0),
        _ => None,
    };
    if let Some(a) = unwrapped(a) {
        return pairs(&a, b);
    }
    if let Some(b) = unwrapped(b) {
        return pairs(a, &b);
    }
    if a.is_leaf() || b.is_leaf() {
        return Some((0..size(a)).map(|i| (i, i)).collect());
    }
    if a.rank() != b.rank() {
        return None;
    }
    let (mut all, mut weight) = (vec![(0, 0)], 1);
    for (x, y) in a.modes().zip(b.modes()) {
        let inner = pairs(&x, &y)?;
        all = inner
            .iter()
            .flat_map(|(i, j)| {
                all.iter()
                    .map(move |(m, n)| (m + i * weight, n + j * weight))
            })
            .collect();
        weight *= size(&x);
    }
    Some(all)
}

/// A copy moves exactly the elements that correspond, and is refused where none do.
#[test]
fn a_copy_moves_what_corresponds() {
    let mut random = Random(29);
    let (mut moved, mut refused) = (0, 0);
    for _ in 0..6000 {
        let one = shape(&mut random, 3);
        let other = match random.below(3) {
            0 => shape(&mut random, 3),
            1 => coarser(&mut random, &one),
            _ => {
                let mut modes: Vec<_> = one.modes().collect();
                let by = random.below(modes.len() as u64) as usize;
                modes.rotate_left(by);
                if one.is_leaf() {
                    one.clone()
                } else {
                    IntTuple::concat(&modes)
                }
            }
        };
        let compact = |shape: &IntTuple, rows: bool| {
            let layout = if rows {
                Layout::row_major(shape.clone())
            } else {
                Layout::column_major(shape.clone())
            };
            layout.expect("small")
        };
        let (from, to) = (
            compact(&one, random.below(2) == 0),
            compact(&other, random.below(2) == 0),
        );
        match (LoopNest::new(&from, &to), pairs(&one, &other)) {
            (Ok(nest), Some(pairs)) => {
                let source: Vec<i64> = (0..from.size()).collect();
                let mut found = vec![-1; source.len()];
                let mut expected = found.clone();
                for (i, j) in pairs {
                    let (i, j) = (from.at(i).expect("inside"), to.at(j).expect("inside"));
                    expected[j as usize] = source[i as usize];
                }
                reference::copy(&source, nest.source(), &mut found, nest.destination())
                    .expect("small");
                assert_eq!(found, expected, "{from} -> {to}: {nest}");
                moved += 1;
            }
            (Err(error), None) if error.is_shape_mismatch() => refused += 1,
            (nest, pairs) => panic!("{from} -> {to}: {nest:?} and {pairs:?}"),
        }
    }
    assert!(moved > 1500 && refused > 1500, "{moved} {refused}");
    println!(
        "law a_copy_moves_what_corresponds: {} cases",
        moved + refused
    );
}

#[test]
fn the_sentences_of_what_is_refused() {
    assert_eq!(
        refused("(6,4):(1,7)", "(8,3):(1,9)"),
        "a copy from the shape (6,4) into (8,3): mode 0 has 6 elements in one and 8 in the other; give both one shape, or permute one of them"
    );
    assert_eq!(
        refused("(2,2):(1,2)", "(2,2):(1,1)"),
        "the destination (2,2):(1,1) has one element at several coordinates: which value stays would be a race"
    );
    assert_eq!(
        refused("(2,2):(^1,^2)", "(2,2):(1,2)"),
        "(2,2):(^1,^2) has strides that are not integers: a kernel takes offsets in elements"
    );
}

#[test]
fn the_sentences_of_views() {
    let device = Device::open();
    let buffer = device.zeros::<f32>(16).expect("memory");
    let said = |text: &str| {
        View::new(&buffer, layout(text))
            .expect_err("it is refused")
            .to_string()
    };
    assert_eq!(
        said("4:-1"),
        "4:-1 reaches element -3, and the buffer has elements 0 to 15"
    );
    assert_eq!(
        said("(4,5):(1,4)"),
        "(4,5):(1,4) reaches element 19, and the buffer has elements 0 to 15"
    );
    // A buffer without elements has no last one.
    let few = [0, 1].map(|length| device.zeros::<f32>(length).expect("memory"));
    let said_of = |buffer| {
        View::new(buffer, layout("2:1"))
            .expect_err("it is refused")
            .to_string()
    };
    assert_eq!(
        said_of(&few[0]),
        "2:1 reaches element 1, and the buffer is empty"
    );
    assert_eq!(
        said_of(&few[1]),
        "2:1 reaches element 1, and the buffer has element 0 only"
    );
    let said = View::new(&few[0], layout("1:0"))
        .expect_err("it is refused")
        .to_string();
    assert_eq!(said, "1:0 reaches element 0, and the buffer is empty");
    let view = View::new(&buffer, layout("(4,4):(1,4)")).expect("it fits");
    assert_eq!(
        view.permute(&[0, 0])
            .expect_err("it is refused")
            .to_string(),
        "[0, 0] is not a permutation: it must name each of the 2 modes, 0 to 1, once"
    );
    assert_eq!(view.bytes(), (buffer.address(), buffer.address() + 64));
}

#[test]
fn the_sentences_of_gemm_problems() {
    let device = Device::open();
    let said = |problem: GemmProblem| problem.check().expect_err("it is refused").to_string();
    assert_eq!(
        said(GemmProblem::new(-1, 8, 8)),
        "M is -1: it must be 0 to 2147352576"
    );
    let short = GemmProblem::new(8, 8, 8)
        .major(Operand::B, Major::First)
        .leading(Operand::B, 7);
    assert_eq!(said(short), "ldb is 7: it must be at least N, which is 8");
    // The last number of each field that is taken, and the first that is not.
    type Of = fn(i64) -> GemmProblem;
    let fields: [(&str, i64, Of); 7] = [
        ("M", 2_147_352_576, |n| GemmProblem::new(n, 8, 8)),
        ("N", 2_147_352_576, |n| GemmProblem::new(8, n, 8)),
        ("K", 2_147_352_576, |n| GemmProblem::new(8, 8, n)),
        ("the number of products", 2_147_352_576, |n| {
            GemmProblem::new(8, 8, 8).batch(n)
        }),
        ("lda", i32::MAX.into(), |n| {
            GemmProblem::new(8, 8, 8).leading(Operand::A, n)
        }),
        ("ldb", i32::MAX.into(), |n| {
            GemmProblem::new(8, 8, 8).leading(Operand::B, n)
        }),
        ("ldc", i32::MAX.into(), |n| {
            GemmProblem::new(8, 8, 8).leading(Operand::C, n)
        }),
    ];
    for (what, most, of) in fields {
        assert_eq!(of(most).check(), Ok(()), "{what}");
        assert_eq!(
            said(of(most + 1)),
            format!("{what} is {}: it must be 0 to {most}", most + 1)
        );
    }
    // A view with the greatest leading dimension is taken as it is.
    let row = device.zeros::<f32>(8).expect("memory");
    let mut c = device.poisoned::<f32>(8).expect("memory");
    let wide = GemmProblem::new(1, 8, 8).leading(Operand::A, i32::MAX.into());
    let eight = device.zeros::<f32>(64).expect("memory");
    let call = wide
        .on(&row, &eight, &mut c)
        .and_then(|gemm| gemm.prepare());
    assert_eq!(call.expect("it is taken").packed().count(), 0);

    assert_eq!(
        GemmProblem::new(0, 8, 8)
            .layout(Operand::A)
            .expect_err("no layout")
            .to_string(),
        "M is 0: the extents of a layout are at least 1"
    );
    let all = device.zeros::<f32>(8 * 8 * 3).expect("memory");
    let part = |i: usize| all.slice(64 * i..64 * (i + 1)).expect("a part");
    let problem = GemmProblem::new(8, 8, 8);
    let run = |a, b, c| {
        problem
            .on(&part(a), &part(b), &mut part(c))
            .and_then(|gemm| gemm.run())
    };
    assert_eq!(run(0, 1, 2), Ok(()));
    assert_eq!(run(0, 0, 2), Ok(()));
    let overlap = run(0, 1, 1).expect_err("they overlap").to_string();
    assert!(overlap.starts_with("C lies at 0x"), "{overlap}");
    assert!(
        overlap.ends_with(": a kernel's output must not overlap what it reads or writes, from the first element to the last")
            && overlap.contains(" and B at 0x"),
        "{overlap}"
    );
    let larger = problem.leading(Operand::A, 9);
    assert_eq!(
        larger
            .on(&part(0), &part(1), &mut part(2))
            .expect_err("too short")
            .to_string(),
        "A needs 71 elements, and its buffer has 64"
    );
}

/// Row-major `A B^T` by hand, and the same with every combination of majors.
#[test]
fn the_reference_product() {
    let by_major = |major: Major, rows: [[f64; 3]; 2]| -> Vec<f64> {
        match major {
            Major::Second => rows.concat(),
            Major::First => (0..3).flat_map(|j| rows.map(|row| row[j])).collect(),
        }
    };
    let (a, b) = ([[1., 2., 3.], [4., 5., 6.]], [[1., 0., 1.], [0., 2., 0.]]);
    for majors in [Major::First, Major::Second]
        .map(|a| [(a, Major::First), (a, Major::Second)])
        .concat()
    {
        let problem = GemmProblem::new(2, 2, 3)
            .major(Operand::A, majors.0)
            .major(Operand::B, majors.1);
        let (a, b) = (by_major(majors.0, a), by_major(majors.1, b));
        let c = reference::gemm(&problem.alpha(2.0).beta(1.0), &a, &b, &[100., 0., 0., 1.]);
        assert_eq!(c, ndarray::array![[108., 8.], [20., 21.]]);
        assert_eq!(reference::relative_error(&c, &c), 0.0);
    }
}

/// A copy of nothing does nothing, and both sides must say so.
#[test]
fn a_copy_without_elements_does_nothing() {
    let device = Device::open();
    let from = device.zeros::<f32>(12).expect("memory");
    let mut to = device.poisoned::<f32>(12).expect("memory");
    let mut cases = 0;
    for shape in [(0, 3), (3, 0), (0, 0)] {
        let source = from.view(shape).expect("it fits");
        assert!(source.is_empty() && source.layout().is_none());
        assert_eq!(source.bytes().0, source.bytes().1);
        let destination = to.view_t_mut(shape).expect("it fits");
        assert_eq!(colex_gpu::copy(&source, &destination), Ok(()));
        cases += 1;
    }
    assert!(to.download().expect("memory").iter().all(|x| x.is_nan()));
    let differ = colex_gpu::copy(
        &from.view((0, 3)).expect("it fits"),
        &to.view_mut((3, 4)).expect("it fits"),
    );
    assert_eq!(
        differ.expect_err("it is refused").to_string(),
        "a copy from the shape (0,3) into (3,4): one of them has no elements; give both one shape, or permute one of them"
    );
    assert_eq!(
        from.view((0, -1)).expect_err("it is refused").to_string(),
        "(0,-1) is not the shape of a view: extent -1 is negative"
    );
    assert_eq!(
        from.view((3, -1)).expect_err("it is refused").to_string(),
        "(3,-1) is not the shape of a view: extent -1 in the shape (3,-1): extents are at least 1"
    );
    println!("law a_copy_without_elements_does_nothing: {cases} cases");
}
