//! Elementwise kernels of the library against the host.

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{ElementwisePlan, Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::gemm::Epilogue;
use colex_gpu::kernels::GemmElement;
use colex_gpu::quantise::{Quantise, QuantisePlan, TensorScalePlan};
use colex_gpu::sim::{Schedule, SimOptions};
use colex_gpu::tensor::Expr;
use colex_gpu::{Buffer, Device, Element, Error, View, ViewMut, gather};
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};
use colex_proof::soak::{self, draws};
use colex_proof::sweep::Random;
use half::{bf16, f16};

fn simulator(arch: Arch, seed: u64) -> Device {
    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
    Device::simulator_with(arch, options)
}

/// Formulas of all types, shapes, strides, alignments, outputs in place, plans.
#[test]
fn law_maps_are_those_of_the_host() {
    let count = draws(40);
    let mut elements = 0;
    let archs = [Arch::Sm90a, Arch::Sm80, Arch::Sm70];
    for (i, arch) in archs.into_iter().enumerate() {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::elementwise::check(&device, 60 + i as u64, count);
        elements += found.unwrap_or_else(|why| panic!("{arch}: {why}"));
    }
    println!("law maps: {} cases, {elements} elements", 3 * count);
}

/// A function of one number.
type OfOne = fn(&Expr) -> Expr;

/// Compares functions of one number with the host, bit by bit, and returns how many results there are.
fn of_all_numbers<T: GemmElement>(patterns: &[u64]) -> usize {
    let bytes: Vec<u8> = patterns
        .iter()
        .flat_map(|bits| bits.to_le_bytes()[..T::BYTES].to_vec())
        .collect();
    let numbers = T::from_bytes(&bytes);
    let device = simulator(Arch::Sm90a, 3);
    let functions: [(&str, OfOne); 8] = [
        ("rcp", Expr::recip),
        ("rsqrt", Expr::rsqrt),
        ("sqrt", Expr::sqrt),
        ("ex2", Expr::exp2),
        ("lg2", Expr::log2),
        ("sin", Expr::sin),
        ("cos", Expr::cos),
        ("tanh", Expr::tanh),
    ];
    for (name, function) in functions {
        let expression = MapExpression::new(|m| {
            let y = function(&m.tensor("x", T::TY));
            m.output("y", y);
        });
        let expression = expression.expect("a map");
        let x = device.upload(&numbers).expect("memory");
        let mut y = device.poisoned::<T>(numbers.len()).expect("memory");
        {
            let from = x.view(numbers.len() as i64).expect("x");
            let to = y.view_mut(numbers.len() as i64).expect("y");
            let call = Map::new(&expression).input("x", &from).output("y", &to);
            call.run().expect("it runs");
        }
        let found = T::to_bytes(&y.download().expect("y"));
        for (at, found) in found.chunks(T::BYTES).enumerate() {
            let bits = patterns[at];
            let wanted = expression.evaluate(&[bits]).expect("a number")[0];
            let wanted = &wanted.to_le_bytes()[..T::BYTES];
            assert_eq!(found, wanted, "{name} of {bits:#x} of {}", T::NAME);
        }
    }
    functions.len() * patterns.len()
}

/// A function of one number has the same bits on the host and on the simulator: of all numbers of 16 bits, and of numbers of `f32` with every
/// exponent, whose results are infinite, NaN and zero where they would be subnormal.
#[test]
fn law_functions_of_one_number_are_those_of_the_host() {
    let halves: Vec<u64> = (0..1 << 16).collect();
    let mut single: Vec<u64> = Vec::new();
    for begin in 0..1_u64 << 9 {
        for fraction in [0, 1, 2, 0x35_4321, 0x40_0000, 0x7f_fffe, 0x7f_ffff] {
            single.push(begin << 23 | fraction);
        }
    }
    let cases = of_all_numbers::<bf16>(&halves)
        + of_all_numbers::<f16>(&halves)
        + of_all_numbers::<f32>(&single);
    println!("law functions of one number: {cases} cases");
}

/// Types, shapes, strides, and rows that a table does not have.
#[test]
fn law_gathers_are_those_of_the_host() {
    let count = draws(60);
    for (i, arch) in [Arch::Sm90a, Arch::Sm70].into_iter().enumerate() {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::elementwise::check_gathers(&device, 70, count);
        let elements = found.unwrap_or_else(|why| panic!("{arch}: {why}"));
        println!("law gathers: {count} cases, {elements} elements");
    }
}

/// Pairings, strides, positions, tables and bases, features that are not turned, in place.
#[test]
fn law_rotary_embeddings_are_those_of_the_host() {
    let count = draws(60);
    for (i, arch) in [Arch::Sm90a, Arch::Sm80].into_iter().enumerate() {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::elementwise::check_rotary(&device, 80, count);
        let elements = found.unwrap_or_else(|why| panic!("{arch}: {why}"));
        println!("law rotary: {count} cases, {elements} elements");
    }
}

/// Types, shapes, strides, rows, blocks and tensors, plans.
#[test]
fn law_quantised_numbers_are_those_of_the_host() {
    let count = draws(60);
    for (i, arch) in [Arch::Sm90a, Arch::Sm80].into_iter().enumerate() {
        let device = simulator(arch, i as u64);
        let found = colex_proof::kernels::elementwise::quantise::check(&device, 90, count);
        let elements = found.unwrap_or_else(|why| panic!("{arch}: {why}"));
        println!("law quantise: {count} cases, {elements} elements");
    }
}

fn expression(text: &str) -> MapExpression {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn sentence<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "nothing is refused".to_string(),
        Err(error) => error.to_string(),
    }
}

fn view<'a, T: Element>(buffer: &'a Buffer<T>, layout: &str) -> View<'a, T> {
    View::new(buffer, layout).expect("a view")
}

fn view_mut<'a, T: Element>(buffer: &'a mut Buffer<T>, layout: &str) -> ViewMut<'a, T> {
    ViewMut::new(buffer, layout).expect("a view")
}

#[test]
fn refused_maps_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let (a, b) = (
        device.zeros::<f32>(12).expect("memory"),
        device.zeros::<i32>(12).expect("memory"),
    );
    let mut y = device.zeros::<f32>(24).expect("memory");
    let mut other = y.clone();
    let add = expression("(a: tensor f32, b: tensor f32, s: scalar f32) -> y { fma(a, s, b) }");
    let relu = expression("(a: tensor f32) -> y { max(a, 0) }");
    let a34 = view(&a, "(3,4):(4,1)");
    let mut found = Vec::new();
    {
        let y34 = view_mut(&mut y, "(3,4):(4,1)");
        let call = Map::new(&add).input("a", &a34).output("y", &y34);
        found.push(sentence(call.clone().scalar("s", 1.0).run()));
        found.push(sentence(call.clone().input("b", &a34).run()));
        found.push(sentence(call.clone().scalar("s", 1e300).run()));
        found.push(sentence(call.clone().input("z", &a34).run()));
        found.push(sentence(call.clone().scalar("z", 1.0).run()));
        let b34 = view(&b, "(3,4):(4,1)");
        found.push(sentence(
            call.clone().scalar("s", 1.0).input("b", &b34).run(),
        ));
        found.push(sentence(Map::new(&relu).input("a", &a34).run()));
        let empty = a.view((3, 0)).expect("a view");
        found.push(sentence(
            Map::new(&relu).input("a", &empty).output("y", &y34).run(),
        ));
        let call = Map::new(&relu).input("a", &a34).output("y", &y34);
        let planned = |change: &dyn Fn(&mut ElementwisePlan)| {
            sentence(call.prepare_with(|problem, arch| {
                let mut plan = ElementwisePlan::fastest(problem, arch)?;
                change(&mut plan);
                Ok(plan)
            }))
        };
        found.push(planned(&|plan| plan.vector = 3));
        found.push(planned(&|plan| plan.vector = 8));
        found.push(planned(&|plan| plan.threads = 2048));
        found.push(planned(&|plan| plan.accesses = 0));
        found.push(planned(&|plan| plan.accesses = i64::MAX));
        let columns = view_mut(&mut other, "(3,4):(1,3)");
        let turned = Map::new(&relu).input("a", &a34).output("y", &columns);
        let plan = turned.plan().expect("a plan").expect("elements");
        found.push(sentence(call.prepare_with(|_, _| Ok(plan))));
    }
    {
        // Elements that lie apart.
        let to = view_mut(&mut y, "6:2");
        let from = view(&a, "6:2");
        let call = Map::new(&relu).input("a", &from).output("y", &to);
        found.push(sentence(call.prepare_with(|problem, arch| {
            let plan = ElementwisePlan::fastest(problem, arch)?;
            Ok(ElementwisePlan { vector: 2, ..plan })
        })));
    }
    {
        let y43 = view_mut(&mut y, "(4,3):(3,1)");
        found.push(sentence(
            Map::new(&relu).input("a", &a34).output("y", &y43).run(),
        ));
    }
    {
        let twice = view_mut(&mut y, "(3,4):(0,1)");
        found.push(sentence(
            Map::new(&relu).input("a", &a34).output("y", &twice).run(),
        ));
    }
    {
        let (here, turned) = (view_mut(&mut y, "(4,4):(4,1)"), view(&other, "(4,4):(1,4)"));
        let in_place = sentence(Map::new(&relu).input("a", &turned).output("y", &here).run());
        found.push(in_place);
        let later = other.slice(1..17).expect("a part");
        let later = view(&later, "(4,4):(4,1)");
        let beside = sentence(Map::new(&relu).input("a", &later).output("y", &here).run());
        found.push(
            beside
                .split(" lies at ")
                .next()
                .unwrap_or_default()
                .to_string(),
        );
    }
    {
        let where_ = expression("(i: coordinate 2) -> y { i }");
        let mut ids = device.zeros::<i32>(12).expect("memory");
        let ids = view_mut(&mut ids, "(3,4):(4,1)");
        found.push(sentence(Map::new(&where_).output("y", &ids).run()));
    }
    {
        // Nine modes, none of which continues another one.
        let shape = ["2"; 9].join(",");
        let [x, y] = [0, 1].map(|turn| {
            let strides = (0..9).map(|i| (1_i64 << if turn == 0 { i } else { 8 - i }).to_string());
            strides.collect::<Vec<_>>().join(",")
        });
        let from = device.zeros::<f32>(512).expect("memory");
        let mut to = device.zeros::<f32>(512).expect("memory");
        let from = view(&from, &format!("({shape}):({x})"));
        let to = view_mut(&mut to, &format!("({shape}):({y})"));
        found.push(sentence(
            Map::new(&relu).input("a", &from).output("y", &to).run(),
        ));
    }
    {
        // Fifteen tensors, a coordinate and an output.
        let sum = MapExpression::new(|m| {
            let all = (0..15).map(|i| m.tensor(&format!("a{i}"), Ty::F32));
            let all = all.reduce(|sum, next| sum + next).expect("tensors");
            let row = m.coordinate("row", 0).to(Ty::F32);
            m.output("y", all + row);
        });
        let (sum, to) = (sum.expect("a map"), view_mut(&mut y, "12:1"));
        let from = view(&a, "12:1");
        let call = (0..15).fold(Map::new(&sum), |call, i| {
            call.input(&format!("a{i}"), &from)
        });
        found.push(sentence(call.output("y", &to).run()));
    }
    for text in [
        "(a: tensor f32) y { a }",
        "(a: tensor f33) -> y { a }",
        "(a: tensor f32) -> a { a }",
        "(a: scalar bf16) -> y { a }",
        "(a: tensor f32) -> t0 { a }",
        "(a: tensor f32) -> ",
    ] {
        found.push(sentence(text.parse::<MapExpression>()));
    }
    assert_eq!(
        found,
        [
            "map: it reads b, which the call does not give: `.input(\"b\", &view)` does",
            "map: it reads the scalar s, which the call does not give: `.scalar(\"s\", ..)` does",
            "map: it reads b, which the call does not give: `.input(\"b\", &view)` does",
            "map: it has no input z: its inputs are a and b",
            "map: it has no scalar z: its scalars are s",
            "map: b is of f32, and the call gives elements of i32: those of f32 are f32",
            "map: it writes y, which the call does not give: `.output(\"y\", &view)` does",
            "a has the shape (3,0), and y (3,4): one of them has no elements",
            "the plan's vector is 3 elements: extents, strides and types of the call allow a power of two up to 4",
            "the plan's vector is 8 elements: extents, strides and types of the call allow a power of two up to 4",
            "the plan's number of threads is 2048: the map kernel takes 32 to 1024, in multiples of 32",
            "the plan's number of accesses is 0: the map kernel takes 1 to 8",
            "the plan's number of accesses is 9223372036854775807: the map kernel takes 1 to 8",
            "the plan was made for another call: map (a: tensor f32) -> y { max(a, 0) } of a f32 by 4, y f32 strided in 2 loops in \
             the plan and map (a: tensor f32) -> y { max(a, 0) } of a f32 by 4, y f32 by 4 in 1 loop in the call",
            "the plan's vector is 2 elements: extents, strides and types of the call allow a power of two up to 1",
            "a has the shape (3,4), and y (4,3): mode 0 has 3 elements in one and 4 in the other",
            "the destination y (3,4):(0,1) has one element at several coordinates: which value stays would be a race",
            "y and a lie at the same address with the layouts (4,4):(4,1) and (4,4):(1,4): in place both have one layout and \
             elements of one size",
            "y",
            "map: i is the coordinate along mode 2, and the outputs have 2 modes",
            "the tensors make 9 loops: a kernel takes at most 8",
            "the tensors and coordinates make 17 operands: a kernel takes at most 16",
            "map: `(a: tensor f32) y { a }`: a map is written as `(a: tensor f32, s: scalar f32) -> y { mul(a, s) }`",
            "map: `a: tensor f33`: there is no type f33",
            "map: `a` names two inputs or outputs: each has its own name",
            "map: the scalar a is of bf16: a launch passes f32, f64 and s32, and `.to` converts",
            "map: `t0` has a meaning in every map: take another name",
            "map: it has no output: `m.output(\"y\", ..)` adds one",
        ]
    );
}

/// A name of an input or output that is accepted is that of a kernel's parameters, and the text of an expression with it is that of an equal
/// expression. Others are refused, not the kernel.
#[test]
fn law_names_that_are_taken_are_those_of_a_kernel() {
    let device = Device::simulator(Arch::Sm80);
    let (x, other) = (device.zeros::<f32>(12), device.zeros::<f32>(12));
    let (x, other) = (x.expect("memory"), other.expect("memory"));
    let [x, other] = [&x, &other].map(|of| view(of, "(3,4):(4,1)"));
    let mut y = device.zeros::<f32>(12).expect("memory");
    let y = view_mut(&mut y, "(3,4):(4,1)");
    let names = "_ __ _a WARP_SZ warp_sz dynamic_shared elementwise inf nan NaN true false t t0 x7 x07 row_first row_step_0 row_stride \
                 row_stride_first row_stride_0 row_extent_0 row_low x_first x_step_1 x_extent x_stride in_first add fma cvt select \
                 max f32 b32 reg param ld tid ntid ctaid laneid clock pc PI p0 r1 rd2 f3 LBB0_1 acc C C_0 list_0 entry global shared";
    let (mut taken, mut refused, mut cases) = (Vec::new(), Vec::new(), 0);
    for name in names.split_whitespace() {
        let mut accepted = [0, 0];
        for (kind, text) in [
            (
                "scalar",
                "(row: coordinate 0, IT: scalar f32, x: tensor f32) -> y { fma(x, IT, cvt.rn.f32(row)) }",
            ),
            (
                "tensor",
                "(row: coordinate 1, IT: tensor f32, x: tensor f32) -> y { fma(x, IT, cvt.rn.f32(row)) }",
            ),
            (
                "coordinate",
                "(IT: coordinate 0, row: coordinate 1, x: tensor f32) -> y { fma(x, cvt.rn.f32(IT), cvt.rn.f32(row)) }",
            ),
            (
                "output",
                "(row: coordinate 0, in: scalar f32, x: tensor f32) -> IT { fma(x, in, add(cvt.rn.f32(row), NaN)) }",
            ),
        ] {
            let map: Result<MapExpression, Error> = text.replace("IT", name).parse();
            accepted[usize::from(map.is_err())] += 1;
            let Ok(map) = map else {
                continue;
            };
            assert_eq!(map.to_string().parse(), Ok(map.clone()), "{name}");
            let call = Map::new(&map).input("x", &x);
            let call = match kind {
                "scalar" => call.scalar(name, 1.0).output("y", &y),
                "tensor" => call.input(name, &other).output("y", &y),
                "coordinate" => call.output("y", &y),
                _ => call.scalar("in", 1.0).output(name, &y),
            };
            let run = call.run();
            run.unwrap_or_else(|error| panic!("{name} as a {kind}: {error}"));
            cases += 1;
        }
        // The names of an epilogue's inputs are parameters too.
        let epilogue = format!("(acc: f32, {name}: scalar f32) -> C {{ mul(acc, {name}) }}");
        if accepted[0] == 0 {
            assert!(epilogue.parse::<Epilogue>().is_err(), "{name}");
        }
        match accepted {
            [_, 0] => taken.push(name),
            [0, _] => refused.push(name),
            _ => panic!("{name}: {accepted:?}"),
        }
    }
    assert_eq!(
        refused.join(" "),
        "_ WARP_SZ dynamic_shared inf NaN true false t0 x7 x07 row_stride_first row_stride_0 row_extent_0"
    );
    println!("law maps.names: {cases} cases of {} names", taken.len());
}

/// The kernels of tensors that no memory holds are loaded ahead, where rows lie apart, too.
#[test]
fn plans_of_the_largest_maps_are_loaded() {
    let device = Device::simulator(Arch::Sm80);
    let add = expression("(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }");
    let (x, bias) = (device.zeros::<f32>(128), device.zeros::<f32>(64));
    let (x, bias) = (x.expect("memory"), bias.expect("memory"));
    let mut y = device.zeros::<f32>(128).expect("memory");
    let (from, row) = (view(&x, "(2,64):(64,1)"), view(&bias, "(2,64):(0,1)"));
    let to = view_mut(&mut y, "(2,64):(64,1)");
    let call = Map::new(&add).input("x", &from).input("bias", &row);
    let call = call.output("y", &to);
    let loaded = call.load_plans([[1_i64 << 30, 1 << 30]]);
    assert_eq!(loaded.expect("kernels"), 1);
}

#[test]
fn refused_gathers_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let table = device.zeros::<f32>(60).expect("memory");
    let index = device.zeros::<i32>(4).expect("memory");
    let mut out = device.zeros::<f32>(60).expect("memory");
    let (rows, four) = (view(&table, "(6,10):(10,1)"), view(&index, "4:1"));
    let mut found = Vec::new();
    found.push(sentence(gather(
        &rows,
        &four,
        &view_mut(&mut out, "(4,9):(9,1)"),
    )));
    let nested = view(&table, "((2,3),10):((30,10),1)");
    found.push(sentence(gather(
        &nested,
        &four,
        &view_mut(&mut out, "(4,10):(10,1)"),
    )));
    let none = table.view((0, 10)).expect("a view");
    found.push(sentence(gather(
        &none,
        &four,
        &view_mut(&mut out, "(4,10):(10,1)"),
    )));
    // Nothing is computed, and shapes fit all the same or not.
    let no_index = index.view(0).expect("a view");
    for (table, index, shape) in [
        (&none, &four, (7, 0)),
        (&none, &no_index, (0, 10)),
        (&none, &no_index, (0, 9)),
        (&rows, &no_index, (3, 0)),
        (&rows, &no_index, (0, 10)),
    ] {
        let out = out.view_mut(shape).expect("a view");
        found.push(sentence(gather(table, index, &out)));
    }
    let number = view(&table, "():()");
    found.push(sentence(gather(&number, &four, &view_mut(&mut out, "4:1"))));
    let mut same = table.clone();
    let overlap = sentence(gather(&rows, &four, &view_mut(&mut same, "(4,10):(10,1)")));
    found.push(
        overlap
            .split(" lies at ")
            .next()
            .unwrap_or_default()
            .to_string(),
    );
    found.push(sentence(gather(
        &rows,
        &four,
        &view_mut(&mut out, "(4,10):(0,1)"),
    )));
    assert_eq!(
        found,
        [
            "gather: out has the shape (4,9), and must have (4,10): that of index 4 and that of a row of the table (6,10)",
            "gather: the rows of the table ((2,3),10):((30,10),1) have several strides: its first mode must have one",
            "gather: the table has the shape (0,10), index 4 and out (4,10): one of them has no elements",
            "gather: out has the shape (7,0), and must have (4,10): that of index 4 and that of a row of the table (0,10)",
            "nothing is refused",
            "gather: out has the shape (0,9), and must have (0,10): that of index 0 and that of a row of the table (0,10)",
            "gather: out has the shape (3,0), and must have (0,10): that of index 0 and that of a row of the table (6,10)",
            "nothing is refused",
            "gather: the table has the shape (), which has no mode of rows: it must have at least one mode",
            "out",
            "the destination out (4,10):(0,1) has one element at several coordinates: which value stays would be a race",
        ]
    );
}

#[test]
fn refused_rotary_embeddings_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<f32>(2 * 5 * 8).expect("memory");
    let tables = device.zeros::<f32>(64).expect("memory");
    let numbers = device.zeros::<i32>(64).expect("memory");
    let mut y = device.zeros::<f32>(2 * 5 * 8).expect("memory");
    let doubles = device.zeros::<f64>(80).expect("memory");
    let mut to = device.zeros::<f64>(80).expect("memory");
    let shape = "(1,2,5,8):(80,40,8,1)";
    let mut found = vec![sentence(
        Rotary::new(
            Pairing::Halves,
            &view(&doubles, shape),
            &view_mut(&mut to, shape),
        )
        .run(),
    )];
    let memory = x.clone();
    let x = view(&x, shape);
    {
        let other = view_mut(&mut y, "(2,5,8):(40,8,1)");
        found.push(sentence(Rotary::new(Pairing::Halves, &x, &other).run()));
    }
    // Nothing is computed, and shapes fit all the same or not.
    for (from, to) in [
        ("(1,1,0,7)", "(1,1,0,7)"),
        ("(1,0)", "(1,0)"),
        ("(1,1,0,8)", "(1,1,2,0)"),
        ("(1,1,0,8)", "(1,1,0,8)"),
        ("(1,1,5,0)", "(1,1,5,0)"),
        ("()", "()"),
    ] {
        let from = View::row_major(&memory, from).expect("a view");
        let to = ViewMut::row_major(&mut y, to).expect("a view");
        found.push(sentence(Rotary::new(Pairing::Halves, &from, &to).run()));
    }
    let y = view_mut(&mut y, shape);
    let call = Rotary::new(Pairing::Halves, &x, &y);
    found.push(sentence(call.clone().features(3).run()));
    found.push(sentence(call.clone().features(10).run()));
    for base in [0.0, 0.5, f32::NAN, f32::INFINITY] {
        found.push(sentence(call.clone().base(base).run()));
    }
    found.push(sentence(call.clone().base(1.0).run()));
    found.push(sentence(call.clone().offset(-1).run()));
    found.push(sentence(call.clone().offset(i64::MAX).run()));
    found.push(sentence(call.clone().offset((1 << 24) - 4).run()));
    let (cos, short) = (view(&tables, "(8,4):(4,1)"), view(&tables, "(8,3):(3,1)"));
    found.push(sentence(call.clone().tables(&cos, &short).run()));
    found.push(sentence(call.clone().tables(&cos, &cos).offset(4).run()));
    let line = view(&tables, "8:1");
    found.push(sentence(call.clone().tables(&line, &cos).run()));
    let nested = view(&tables, "((2,4),4):((4,8),1)");
    found.push(sentence(call.clone().tables(&nested, &cos).run()));
    let apart = view(&tables, "((2,4),4):((4,9),1)");
    found.push(sentence(call.clone().tables(&apart, &cos).run()));
    found.push(sentence(
        call.clone().positions(&view(&numbers, "6:1")).run(),
    ));
    assert_eq!(
        found,
        [
            "rotary embedding: x is of f64: it must be f32, f16 or bf16",
            "rotary embedding: x has the shape (1,2,5,8) and y (2,5,8): both must be (batch, head, sequence, feature)",
            "rotary embedding: 7 features are turned: it must be an even number from 2 to 7, the features of x",
            "rotary embedding: x has the shape (1,0) and y (1,0): both must be (batch, head, sequence, feature)",
            "rotary embedding: x has the shape (1,1,0,8) and y (1,1,2,0): both must be (batch, head, sequence, feature)",
            "nothing is refused",
            "nothing is refused",
            "rotary embedding: x has the shape () and y (): both must be (batch, head, sequence, feature)",
            "rotary embedding: 3 features are turned: it must be an even number from 2 to 8, the features of x",
            "rotary embedding: 10 features are turned: it must be an even number from 2 to 8, the features of x",
            "rotary embedding: the base is 0: it must be a number from 1 on",
            "rotary embedding: the base is 0.5: it must be a number from 1 on",
            "rotary embedding: the base is NaN: it must be a number from 1 on",
            "rotary embedding: the base is inf: it must be a number from 1 on",
            "nothing is refused",
            "rotary embedding: the positions are 5 from -1 on: with a base they must lie from 0 to 16777216, and tables may have others",
            "rotary embedding: the positions are 5 from 9223372036854775807 on: with a base they must lie from 0 to 16777216, and \
             tables may have others",
            "rotary embedding: the positions are 5 from 16777212 on: with a base they must lie from 0 to 16777216, and tables may \
             have others",
            "rotary embedding: sin has 3 pairs, and 8 features are turned: it must have 4",
            "rotary embedding: the positions are 5 from 4 on, and cos has 8 of them",
            "rotary embedding: cos has the shape 8: it must be (position, pair)",
            "nothing is refused",
            "rotary embedding: cos ((2,4),4):((4,9),1) has a mode with several strides: each must have one",
            "rotary embedding: positions have the shape 6: it must be 5 or (1,5), the sequence of x",
        ]
    );
}

#[test]
fn refused_quantisations_say_what_would_be_right() {
    let device = Device::simulator(Arch::Sm90a);
    let x = device.zeros::<f32>(600).expect("memory");
    let mut q = device.zeros::<i8>(600).expect("memory");
    let mut scales = device.zeros::<f32>(600).expect("memory");
    let doubles = device.zeros::<f64>(600).expect("memory");
    let mut others = q.clone();
    let mut more_scales = scales.clone();
    let of_x = view(&x, "(2,300):(300,1)");
    let mut found = Vec::new();
    {
        let q = view_mut(&mut others, "(2,200):(200,1)");
        let scales = view_mut(&mut scales, "2:1");
        found.push(sentence(
            Quantise::new(Ty::S8, &of_x, &q).rows(&scales).run(),
        ));
    }
    let q = view_mut(&mut q, "(2,300):(300,1)");
    let call = Quantise::new(Ty::S8, &of_x, &q);
    let from = view(&doubles, "(2,300):(300,1)");
    found.push(sentence(Quantise::new(Ty::S8, &from, &q).run()));
    found.push(sentence(Quantise::new(Ty::S16, &of_x, &q).run()));
    found.push(sentence(Quantise::new(Ty::E4m3, &of_x, &q).run()));
    for scale in [0.0, f32::NAN, 1e-40, f32::INFINITY] {
        found.push(sentence(call.clone().tensor(scale).run()));
    }
    // The least scale that the sentence names, and the largest one.
    for scale in [2.94e-39, f32::MAX] {
        call.clone().tensor(scale).run().expect("it runs");
    }
    let mut more = scales.clone();
    let scales = view_mut(&mut scales, "3:1");
    found.push(sentence(call.clone().rows(&scales).run()));
    found.push(sentence(call.clone().blocks(128, &scales).run()));
    found.push(sentence(call.clone().blocks(0, &scales).run()));
    let two = view_mut(&mut more, "2:1");
    let nested = view(&x, "(2,(3,100)):(300,(1,3))");
    let fine = Quantise::new(Ty::S8, &nested, &q).rows(&two);
    found.push(sentence(fine.prepare()));
    let apart = view(&x, "(2,(3,50)):(300,(1,6))");
    let mut third = others.clone();
    let of_q = view_mut(&mut third, "(2,150):(150,1)");
    found.push(sentence(
        Quantise::new(Ty::S8, &apart, &of_q).rows(&two).run(),
    ));
    let call = call.rows(&two);
    let planned = |change: &dyn Fn(&mut QuantisePlan)| {
        sentence(call.prepare_with(|problem, arch| {
            let mut plan = QuantisePlan::fastest(problem, arch)?;
            change(&mut plan);
            Ok(plan)
        }))
    };
    let none = x.view((4, 0)).expect("a view");
    let (mut fourth, mut fifth) = (others.clone(), others.clone());
    let sixth = more_scales.clone();
    let of_none = fourth.view_mut((4, 0)).expect("a view");
    let quantised = Quantise::new(Ty::S8, &none, &of_none);
    let mut five = more_scales.clone();
    let four = view_mut(&mut more_scales, "4:1");
    let five = view_mut(&mut five, "5:1");
    found.push(sentence(quantised.clone().rows(&four).run()));
    found.push(sentence(quantised.clone().rows(&five).run()));
    found.push(sentence(quantised.blocks(128, &four).run()));
    {
        let (number, none) = (view(&x, "():()"), x.view(0).expect("a view"));
        let of_number = view_mut(&mut fifth, "():()");
        let quantised = Quantise::new(Ty::S8, &number, &of_number);
        found.push(sentence(quantised.clone().rows(&four).run()));
        found.push(sentence(quantised.blocks(128, &four).prepare()));
        let mut no_scales = sixth.clone();
        let (to, no_scales) = (fifth.view_mut(0), no_scales.view_mut(0));
        let (to, no_scales) = (to.expect("a view"), no_scales.expect("a view"));
        let quantised = Quantise::new(Ty::S8, &none, &to).blocks(8, &no_scales);
        found.push(sentence(quantised.load_plans([[0_i64; 0]])));
    }
    found.push(planned(&|plan| plan.vector = 3));
    found.push(planned(&|plan| plan.vector = 2));
    found.push(planned(&|plan| plan.vector = 8));
    found.push(planned(&|plan| plan.rows = 64));
    found.push(planned(&|plan| plan.accesses = 99));
    found.push(planned(&|plan| (plan.threads, plan.rows) = (8, 1)));
    found.push(planned(&|plan| plan.threads = 32));
    found.push(planned(&|plan| plan.operands.to = Ty::E4m3));
    found.push(planned(&|plan| plan.operands.modes = usize::MAX));
    assert_eq!(
        found,
        [
            "q has the shape (2,200): it must be (2,300), for x (2,300)",
            "quantisation of f64: x must be f32, f16 or bf16",
            "quantisation to s16: it must be s8, e4m3 or e5m2",
            "q has elements of i8: those of e4m3 are u8",
            "the scale is 0.0: it must be finite and at least 2.94e-39, so that f32 has its reciprocal",
            "the scale is NaN: it must be finite and at least 2.94e-39, so that f32 has its reciprocal",
            "the scale is 1e-40: it must be finite and at least 2.94e-39, so that f32 has its reciprocal",
            "the scale is inf: it must be finite and at least 2.94e-39, so that f32 has its reciprocal",
            "scales has the shape 3: it must be 2, for x (2,300)",
            "scales has the shape 3: it must be (2,3), for x (2,300)",
            "blocks of 0 columns: there must be 1 to 1073741824",
            "nothing is refused",
            "the columns of x (3,50):(1,6) have several strides: they must have one",
            "x has the shape (4,0): a row without columns has no largest size, and so no scale",
            "scales has the shape 5: it must be 4, for x (4,0)",
            "scales has the shape 4: it must be (4,0), for x (4,0)",
            "x has the shape (), which has no mode of columns: it must have at least one mode",
            "x has the shape (), which has no mode of columns: it must have at least one mode",
            "x has the shape (), which has no mode of columns: it must have at least one mode",
            "the plan's vector is 3: the quantisation kernel takes 1 or 4",
            "the plan's vector is 2: the quantisation kernel takes 1 or 4",
            "the plan's vector is 8: the quantisation kernel takes 1 or 4",
            "the plan's number of rows of a block is 64: the quantisation kernel takes a power of two, 1 to 16",
            "the plan's number of accesses is 99: the quantisation kernel takes 1 to 8",
            "the plan's number of threads of a block is 8: the quantisation kernel takes 32 to 1024, in multiples of 32",
            "the plan holds rows of up to 256 columns, and the call has 300",
            "the plan was made for another call: f32 to e4m3, rows of 1 mode, vectors up to 4 in the plan and f32 to s8, rows of 1 \
             mode, vectors up to 4 in the call",
            "the plan's number of modes of the rows is 9223372036854775807: the quantisation kernel takes 1 to 8",
        ]
    );
}

/// A prepared call is captured and allocates nothing: a repeated call gives the same results, and other threads may make it.
#[test]
fn a_prepared_map_runs_again_and_on_other_threads() {
    let device = Device::simulator(Arch::Sm90a);
    let twice = expression("(x: tensor f32) -> y { add(x, x) }");
    let mut x = device.upload(&[1.0f32; 1000]).expect("memory");
    {
        let here = view_mut(&mut x, "1000:1");
        let call = Map::new(&twice).input("x", &here).output("y", &here);
        let call = call.prepare().expect("a call");
        for _ in 0..3 {
            call.run(&device).expect("a run");
        }
        std::thread::scope(|scope| {
            let run = scope.spawn(|| call.run(&device));
            run.join().expect("a thread").expect("a run");
        });
    }
    assert_eq!(x.download().expect("elements"), [16.0f32; 1000]);
}

/// Maps of five to eight modes that no layout joins, of random extents: the indices that the kernel divides have as many digits.
#[test]
fn law_maps_of_many_modes_are_those_of_the_host() {
    let mut r = Random::of(5, "maps of many modes");
    let scale: MapExpression = "(x: tensor f32) -> y { mul(x, 2) }".parse().expect("a map");
    let (mut cases, mut elements, mut most) = (0, 0, 0);
    for arch in [Arch::Sm90a, Arch::Sm70] {
        let device = simulator(arch, 7);
        for rank in 5..=8 {
            for _ in 0..4 {
                let extents: Vec<i64> = (0..rank).map(|_| r.one(&[2, 2, 3])).collect();
                // A gap behind every mode, so that none continues another.
                let apart = |r: &mut Random| {
                    let (mut next, mut strides) = (1, vec![0; rank]);
                    for mode in r.permutation(rank) {
                        strides[mode] = next;
                        next = next * extents[mode] + 1;
                    }
                    let shape = IntTuple::flat(extents.iter().map(|n| Int::Dynamic(*n)));
                    let strides = Tuple::flat(strides.into_iter().map(Stride::from));
                    Layout::new(shape, strides).expect("a layout")
                };
                let [of_x, of_y] = [apart(&mut r), apart(&mut r)];
                let length = |layout: &Layout| layout.cosize().expect("a size") as usize;
                let x: Vec<f32> = (0..length(&of_x)).map(|i| i as f32).collect();
                let memory = device.upload(&x).expect("memory");
                let mut y = device.poisoned::<f32>(length(&of_y)).expect("memory");
                let loops = {
                    let x = View::new(&memory, &of_x).expect("a view");
                    let y = ViewMut::new(&mut y, &of_y).expect("a view");
                    let call = Map::new(&scale).input("x", &x).output("y", &y);
                    let problem = call.problem().expect("a problem").expect("elements");
                    let run = call.run();
                    run.unwrap_or_else(|error| panic!("{of_x} to {of_y} on {arch}: {error}"));
                    problem.nest().loops().len()
                };
                let found = y.download().expect("numbers");
                for i in 0..of_x.size() {
                    let [from, to] = [&of_x, &of_y].map(|of| of.at(i).expect("an element"));
                    let want = 2.0 * x[from as usize];
                    assert_eq!(found[to as usize], want, "{of_x} to {of_y} on {arch}: {i}");
                }
                (cases, elements) = (cases + 1, elements + of_x.size());
                most = most.max(loops);
            }
        }
    }
    println!("law maps.modes: {cases} cases, {elements} elements, up to {most} loops");
    assert_eq!(most, 8);
}

/// Scales of whole tensors with the bits of a row of all elements: types, strides, NaN, infinities and zeros.
#[test]
fn law_scales_of_tensors_are_those_of_the_host() {
    fn one<T: GemmElement>(device: &Device, r: &mut Random, to: Ty) -> usize {
        let extents: Vec<i64> = (0..1 + r.below(3_usize))
            .map(|_| 1 + r.below(20_i64))
            .collect();
        let [of_x, of_q] = [(); 2].map(|()| {
            let (mut next, mut strides) = (1, vec![0; extents.len()]);
            for mode in r.permutation(extents.len()) {
                strides[mode] = next;
                next = next * extents[mode] + r.one(&[0, 0, 1, 8]);
            }
            let shape = IntTuple::flat(extents.iter().map(|n| Int::Dynamic(*n)));
            let strides = Tuple::flat(strides.into_iter().map(Stride::from));
            Layout::new(shape, strides).expect("a layout")
        });
        let kind = r.below(5_u64);
        let magnitude = r.one(&[1.0, 1.0, 1e-40]);
        let number = |r: &mut Random| match kind {
            0 => 0.0,
            1 if r.one_in(9) => f64::NAN,
            2 if r.one_in(50) => f64::NEG_INFINITY,
            _ => f64::from(r.below(4001_i32) - 2000) / 250.0 * magnitude,
        };
        let length = |layout: &Layout| layout.cosize().expect("a size") as usize;
        let x: Vec<T> = (0..length(&of_x)).map(|_| T::from_f64(number(r))).collect();
        let memory = device.upload(&x).expect("memory");
        let mut scale = device.poisoned::<f32>(1).expect("memory");
        let found: Vec<u8> = if to == Ty::S8 {
            let mut q = device.poisoned::<i8>(length(&of_q)).expect("memory");
            scaled(device, r, to, (&memory, &of_x), (&mut q, &of_q), &mut scale);
            let found = q.download().expect("numbers");
            found.iter().map(|x| *x as u8).collect()
        } else {
            let mut q = device.poisoned::<u8>(length(&of_q)).expect("memory");
            scaled(device, r, to, (&memory, &of_x), (&mut q, &of_q), &mut scale);
            q.download().expect("numbers")
        };
        let at = |layout: &Layout, i: i64| layout.at(i).expect("an element") as usize;
        let numbers: Vec<f32> = (0..of_x.size())
            .map(|i| x[at(&of_x, i)].to_f64() as f32)
            .collect();
        let (want, own) = colex_gpu::quantise::reference::row(to, &numbers).expect("a row");
        let scale = scale.download().expect("a scale")[0];
        assert_eq!(scale.to_bits(), want.to_bits(), "{of_x} {} to {to}", T::TY);
        for (i, want) in (0..of_x.size()).zip(own) {
            let found = found[at(&of_q, i)];
            let is_same = found == want || want & 0x7f == 0x7f && found & 0x7f == 0x7f;
            assert!(
                is_same,
                "{of_x} {} to {to}, {i}: {found:#x} and {want:#x}",
                T::TY
            );
        }
        numbers.len()
    }
    fn scaled<T: GemmElement, Q: Element>(
        device: &Device,
        r: &mut Random,
        to: Ty,
        (x, of_x): (&Buffer<T>, &Layout),
        (q, of_q): (&mut Buffer<Q>, &Layout),
        scale: &mut Buffer<f32>,
    ) {
        let x = View::new(x, of_x).expect("a view");
        let q = ViewMut::new(q, of_q).expect("a view");
        let scale = scale.view_mut(1).expect("a view");
        let call = Quantise::new(to, &x, &q).tensor_scale(&scale);
        if r.one_in(2) {
            return call.run().expect("a run");
        }
        let prepared = call.prepare().expect("a call");
        for _ in 0..2 {
            prepared.run(device).expect("a run");
        }
    }
    let mut r = Random::of(6, "scales of tensors");
    let (mut cases, mut elements) = (0, 0);
    for arch in [Arch::Sm90a, Arch::Sm80] {
        let device = simulator(arch, 8);
        for _ in 0..24 {
            let to = match arch {
                Arch::Sm90a => r.one(&[Ty::S8, Ty::E4m3]),
                _ => Ty::S8,
            };
            let run = r.one(&[one::<f32>, one::<f16>, one::<bf16>]);
            elements += run(&device, &mut r, to);
            cases += 1;
        }
    }
    println!("law quantise.tensor: {cases} cases, {elements} elements");
    let device = simulator(Arch::Sm80, 9);
    let x = device.zeros::<f32>(12).expect("memory");
    let mut q = device.zeros::<i8>(12).expect("memory");
    let mut scale = device.zeros::<f32>(2).expect("memory");
    let (x, q) = (x.view(12).expect("a view"), q.view_mut(12).expect("a view"));
    let of_two = scale.view_mut(2).expect("a view");
    let refused = Quantise::new(Ty::S8, &x, &q).tensor_scale(&of_two).run();
    assert_eq!(
        refused.expect_err("it is refused").to_string(),
        "the scale has the shape 2: it must be 1, for x 12"
    );
}

/// Quantises drawn numbers by a drawn plan, and compares every bit: lengths, types, orders of the modes, and the numbers that count for no
/// scale. A call that is prepared runs again.
fn scaled_by_plan<T: GemmElement>(
    device: &Device,
    r: &mut Random,
    to: Ty,
    plan: fn(&mut Random, [Ty; 2]) -> TensorScalePlan,
) -> usize {
    let vector = 16 / T::BYTES as i64;
    let (rows, columns) = (1 + r.below(5_i64), vector * (1 + r.below(60_i64)));
    let kind = r.below(5_u64);
    let magnitude = r.one(&[1.0, 1.0, 1e-40]);
    let number = |r: &mut Random| match kind {
        0 => 0.0,
        1 if r.one_in(9) => f64::NAN,
        2 if r.one_in(50) => f64::NEG_INFINITY,
        _ => f64::from(r.below(4001_i32) - 2000) / 250.0 * magnitude,
    };
    let x: Vec<T> = (0..rows * columns)
        .map(|_| T::from_f64(number(r)))
        .collect();
    let plan = plan(r, [T::TY, to]);
    let layout = match r.below(3_u64) {
        0 => format!("({rows},{columns}):({columns},1)"),
        1 => format!("({columns},{rows}):(1,{columns})"),
        _ => format!("{}:1", rows * columns),
    };
    let memory = device.upload(&x).expect("memory");
    let mut scale = device.poisoned::<f32>(1).expect("memory");
    fn quantised<T: GemmElement, Q: Element>(
        device: &Device,
        r: &mut Random,
        (to, plan): (Ty, TensorScalePlan),
        (x, layout): (&Buffer<T>, &str),
        scale: &mut Buffer<f32>,
    ) -> Vec<Q> {
        let mut q = device.poisoned::<Q>(x.len()).expect("memory");
        {
            let (x, to_q) = (view(x, layout), view_mut(&mut q, layout));
            let scale = scale.view_mut(1).expect("a view");
            let call = Quantise::new(to, &x, &to_q).tensor_scale_by(&scale, plan);
            if r.one_in(2) {
                call.run().unwrap_or_else(|why| panic!("{plan}: {why}"));
            } else {
                let call = call.prepare().expect("a call");
                assert_eq!(call.to_string(), plan.to_string());
                let _ = call.explain();
                (0..2).for_each(|_| call.run(device).expect("a run"));
            }
        }
        q.download().expect("numbers")
    }
    let (of_plan, of_x) = ((to, plan), (&memory, &layout[..]));
    let found: Vec<u8> = match to {
        Ty::S8 => quantised::<T, i8>(device, r, of_plan, of_x, &mut scale)
            .into_iter()
            .map(|x| x as u8)
            .collect(),
        _ => quantised::<T, u8>(device, r, of_plan, of_x, &mut scale),
    };
    let numbers: Vec<f32> = x.iter().map(|x| x.to_f64() as f32).collect();
    let (want, own) = colex_gpu::quantise::reference::row(to, &numbers).expect("a row");
    let scale = scale.download().expect("a scale")[0];
    assert_eq!(scale.to_bits(), want.to_bits(), "{layout}, {plan}");
    for (i, (found, want)) in found.into_iter().zip(own).enumerate() {
        let is_same = found == want || want & 0x7f == 0x7f && found & 0x7f == 0x7f;
        assert!(is_same, "{layout}, {plan}, {i}: {found:#x} and {want:#x}");
    }
    numbers.len()
}

/// Quantises by many drawn plans, several on each of some devices, whose calls meet through the same words. Returns the cases and elements.
fn scaled_by_plans(
    (seed, name): (u64, &str),
    [devices, each]: [u64; 2],
    plan: fn(&mut Random, [Ty; 2]) -> TensorScalePlan,
) -> [usize; 2] {
    let mut r = Random::of(seed, name);
    let (mut cases, mut elements) = (0, 0);
    for arch in [Arch::Sm90a, Arch::Sm80] {
        for schedule in 0..devices {
            let device = simulator(arch, 8 + schedule);
            for _ in 0..each {
                let to = match arch {
                    Arch::Sm90a => r.one(&[Ty::S8, Ty::E4m3, Ty::E5m2]),
                    _ => Ty::S8,
                };
                let run = r.one(&[
                    scaled_by_plan::<f32>,
                    scaled_by_plan::<f16>,
                    scaled_by_plan::<bf16>,
                ]);
                elements += run(&device, &mut r, to, plan);
                cases += 1;
            }
        }
    }
    [cases, elements]
}

/// The plans of two launches give the same bits: lengths, types, orders of the modes, plans, one block, and the numbers that count for no
/// scale. A call that is prepared runs again, and a plan that does not fit is refused.
#[test]
fn law_scales_of_tensors_by_two_launches_are_those_of_the_host() {
    let plan = |r: &mut Random, [from, to]: [Ty; 2]| TensorScalePlan {
        threads: r.one(&[32, 64, 256]),
        accesses: 1 + r.below(4_i64),
        blocks: r.one(&[1, 2, 3, 7, 40, 70]),
        reversed: r.one_in(2),
        ..TensorScalePlan::fastest(from, to)
    };
    let of = (22, "scales of tensors by two launches");
    let [cases, elements] = scaled_by_plans(of, [1, 30], plan);
    println!("law quantise.launches: {cases} cases, {elements} elements");
}

/// The plans of one launch whose blocks run at once give the same bits as those of two: few blocks and more blocks than the tensor has
/// accesses, accesses in registers, in shared memory and read again, ends within an access, and under several schedules. Plans of other
/// numbers of blocks meet through the same words one after the other, which must be 0 each time.
#[test]
fn law_scales_of_tensors_by_blocks_at_once_are_those_of_the_host() {
    let plan = |r: &mut Random, [from, to]: [Ty; 2]| {
        let [held, kept] = [r.below(4_i64), r.below(7_i64)];
        TensorScalePlan {
            threads: r.one(&[32, 32, 64, 96]),
            accesses: 1 + r.below(4_i64),
            blocks: r.one(&[1, 2, 2, 3, 5, 7, 34]),
            reversed: r.one_in(2),
            held,
            kept: kept.max(i64::from(held == 0)),
            cached: r.one(&[0, 1, 2, 5]),
            again_first: r.one_in(2),
            ..TensorScalePlan::fastest(from, to)
        }
    };
    let of = (23, "scales of tensors by blocks at once");
    let [cases, elements] = scaled_by_plans(of, [6, 20], plan);
    println!("law quantise.at_once: {cases} cases, {elements} elements");
}

/// Every number of accesses of a block, from one element of the first one to more than the chip keeps, by plans with registers alone,
/// shared memory alone and both; and a smaller size behind a larger one, in the same words.
#[test]
fn law_blocks_at_once_take_every_length() {
    let device = simulator(Arch::Sm90a, 17);
    let mut cases = 0;
    for (held, kept) in [(1, 0), (0, 1), (2, 5)] {
        for blocks in [2, 3] {
            let plan = TensorScalePlan {
                threads: 32,
                accesses: 2,
                blocks,
                held,
                kept,
                cached: 2,
                ..TensorScalePlan::fastest(Ty::F32, Ty::S8)
            };
            // An access of a block has 128 elements.
            let accesses = (held + kept) * blocks + 2 * blocks * 2 + 1;
            for access in 0..accesses {
                for more in [4, 60, 128] {
                    let count = (128 * access + more) as usize;
                    // The largest size of every second length is in the last element.
                    let top = if access % 2 == 0 { 1000.0 } else { 1.0 };
                    let mut numbers: Vec<f32> =
                        (0..count).map(|i| (i % 97) as f32 / 97.0).collect();
                    numbers[count - 1] = -top;
                    let x = device.upload(&numbers).expect("memory");
                    let mut q = device.poisoned::<i8>(count).expect("memory");
                    let mut scale = device.poisoned::<f32>(1).expect("memory");
                    {
                        let x = x.view(count as i64).expect("a view");
                        let q = q.view_mut(count as i64).expect("a view");
                        let scale = scale.view_mut(1).expect("a view");
                        let call = Quantise::new(Ty::S8, &x, &q).tensor_scale_by(&scale, plan);
                        call.run().expect("a run");
                    }
                    let (want, own) =
                        colex_gpu::quantise::reference::row(Ty::S8, &numbers).expect("a row");
                    let scale = scale.download().expect("a scale");
                    assert_eq!(scale, [want], "{plan}, {count}");
                    let found = q.download().expect("numbers");
                    let found: Vec<u8> = found.iter().map(|q| *q as u8).collect();
                    assert_eq!(found, own, "{plan}, {count}");
                    cases += 1;
                }
            }
        }
    }
    println!("law quantise.lengths: {cases} cases");
}

/// A computed scale takes two launches by default where they take the tensors, and the reduction and the maps elsewhere, with the same
/// bits.
#[test]
fn a_computed_scale_takes_two_launches_where_tensors_have_no_gaps() {
    let device = simulator(Arch::Sm80, 9);
    let numbers: Vec<f32> = (0..9000).map(|i| (i * 37 % 4001) as f32 - 2000.0).collect();
    let x = device.upload(&numbers).expect("memory");
    let mut results = Vec::new();
    for (layout, launches) in [
        ("(10,900):(900,1)", 2),
        ("(900,10):(10,1)", 2),
        // The elements of q have another order.
        ("(10,900):(1,10)", 3),
    ] {
        let mut q = device.poisoned::<i8>(9000).expect("memory");
        let mut scale = device.poisoned::<f32>(1).expect("memory");
        {
            let of_x = if launches == 2 {
                layout
            } else {
                "(10,900):(900,1)"
            };
            let (x, q) = (view(&x, of_x), view_mut(&mut q, layout));
            let scale = scale.view_mut(1).expect("a view");
            let call = Quantise::new(Ty::S8, &x, &q).tensor_scale(&scale);
            let call = call.prepare().expect("a call");
            let found = call.profile(&device).expect("a profile").len();
            assert!(
                if launches == 2 {
                    found == 2
                } else {
                    found >= 3
                },
                "{layout}: {found} launches"
            );
            assert_eq!(call.map().is_some(), launches > 2);
            let is_of_two = call
                .to_string()
                .starts_with("scale of a tensor, f32 to s8, vectors of 4, 2 blocks");
            assert_eq!(is_of_two, launches == 2, "{call}");
        }
        let mut q = q.download().expect("numbers");
        if launches > 2 {
            q = (0..9000).map(|i| q[i % 900 * 10 + i / 900]).collect();
        }
        results.push((scale.download().expect("a scale"), q));
    }
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}

#[test]
fn refused_plans_of_a_tensors_scale_say_what_would_be_right() {
    let device = simulator(Arch::Sm80, 9);
    let x = device.zeros::<f32>(64).expect("memory");
    let mut q = device.zeros::<i8>(64).expect("memory");
    let mut scale = device.zeros::<f32>(1).expect("memory");
    let fastest = TensorScalePlan::fastest(Ty::F32, Ty::S8);
    let mut by = |of_x: &str, of_q: &str, plan: TensorScalePlan| {
        let (x, q) = (view(&x, of_x), view_mut(&mut q, of_q));
        let scale = scale.view_mut(1).expect("a view");
        sentence(
            Quantise::new(Ty::S8, &x, &q)
                .tensor_scale_by(&scale, plan)
                .run(),
        )
    };
    let rows = "(4,8):(8,1)";
    let of = |change: &dyn Fn(&mut TensorScalePlan)| {
        let mut plan = fastest;
        change(&mut plan);
        plan
    };
    let gaps = "the operands of the plan are `f32 to s8`: x and q must have their elements in one order without gaps, whole accesses of \
                them and at most 1073741824, and begin at multiples of an access";
    let found = [
        by(rows, rows, of(&|plan| plan.threads = 48)),
        by(rows, rows, of(&|plan| plan.accesses = 9)),
        by(rows, rows, of(&|plan| plan.blocks = i64::MAX)),
        by(rows, rows, of(&|plan| plan.from = Ty::S32)),
        by(rows, rows, of(&|plan| plan.from = Ty::Bf16)),
        by("(4,8):(12,1)", rows, fastest),
        by(rows, "(4,8):(1,4)", fastest),
        by("(3,7):(7,1)", "(3,7):(7,1)", fastest),
        by("(4,8):(0,1)", rows, fastest),
        by(rows, rows, fastest),
        by("(1,32):(77,1)", "(1,32):(5,1)", fastest),
        by(rows, rows, of(&|plan| plan.cached = 1)),
        by(rows, rows, of(&|plan| plan.again_first = true)),
        by(rows, rows, of(&|plan| (plan.held, plan.blocks) = (25, 2))),
        by(rows, rows, of(&|plan| (plan.kept, plan.blocks) = (21, 2))),
        by(rows, rows, of(&|plan| (plan.held, plan.blocks) = (1, 257))),
        by(rows, rows, of(&|plan| (plan.held, plan.blocks) = (1, 109))),
        by(rows, rows, of(&|plan| (plan.held, plan.cached) = (1, -1))),
        by(rows, rows, of(&|plan| (plan.kept, plan.blocks) = (1, 2))),
    ];
    assert_eq!(
        found,
        [
            "the plan's number of threads of a block is 48: the quantisation kernel takes 32 to 1024, in multiples of 32",
            "the plan's number of accesses is 9: the quantisation kernel takes 1 to 8",
            "the plan's number of blocks is 9223372036854775807: the quantisation kernel takes 1 to 4096",
            "quantisation of s32: x must be f32, f16 or bf16",
            "the operands of the plan are `bf16 to s8`: x and q must have these types",
            gaps,
            gaps,
            gaps,
            gaps,
            "nothing is refused",
            "nothing is refused",
            "the plan's number of accesses in the cache, by two launches, is 1: the quantisation kernel takes 0 only",
            "the operands of the plan are `f32 to s8`: two launches have no elements on the chip before which others are read again: \
             `again_first` is false",
            "the plan's number of accesses in registers is 25: the quantisation kernel takes 0 to 24",
            "the plan's number of accesses in shared memory is 21: the quantisation kernel takes 0 to 20",
            "the plan's number of blocks at once is 257: the quantisation kernel takes 1 to 256",
            "the plan asks for 109 blocks at once on the device: the quantisation kernel takes at most 108, 1 fewer",
            "the plan's number of accesses in the cache is -1: the quantisation kernel takes 0 to 1073741824",
            "nothing is refused",
        ]
    );
}

/// A tensor whose shape is one number, and no tuple, has a scale too.
#[test]
fn the_scale_of_a_line_is_that_of_its_row() {
    let device = simulator(Arch::Sm80, 9);
    let numbers: Vec<f32> = (0..12).map(|i| (i * 5 % 12) as f32 - 4.0).collect();
    let x = device.upload(&numbers).expect("memory");
    let mut q = device.poisoned::<i8>(12).expect("memory");
    let mut scale = device.poisoned::<f32>(1).expect("memory");
    {
        let (x, q) = (x.view(12).expect("a view"), q.view_mut(12).expect("a view"));
        let scale = scale.view_mut(1).expect("a view");
        let call = Quantise::new(Ty::S8, &x, &q).tensor_scale(&scale);
        call.run().expect("it runs");
    }
    let (want, own) = colex_gpu::quantise::reference::row(Ty::S8, &numbers).expect("a row");
    assert_eq!(scale.download().expect("a scale"), [want]);
    let found = q.download().expect("numbers");
    assert_eq!(found.iter().map(|q| *q as u8).collect::<Vec<u8>>(), own);
}

/// Positions that f32 does not have leave no number behind: their angles would be arbitrary. Others of the same call are right.
#[test]
fn positions_beyond_those_of_f32_are_nan() {
    let device = simulator(Arch::Sm80, 2);
    let x = device.upload(&[1.0f32; 6 * 2]).expect("memory");
    let positions = device.upload(&[0i64, 1, (1 << 24) - 1, (1 << 24) + 1, 1 << 40, i64::MIN]);
    let positions = positions.expect("memory");
    let mut y = device.poisoned::<f32>(6 * 2).expect("memory");
    {
        let shape = "(1,1,6,2):(12,12,2,1)";
        let (x, y) = (view(&x, shape), view_mut(&mut y, shape));
        let call = Rotary::new(Pairing::Interleaved, &x, &y);
        call.positions(&view(&positions, "6:1"))
            .run()
            .expect("it runs");
    }
    let y = y.download().expect("elements");
    for (position, pair) in [(0.0f64, &y[0..2]), (1.0, &y[2..4])] {
        let (sin, cos) = position.sin_cos();
        assert!((f64::from(pair[0]) - (cos - sin)).abs() < 1e-5);
        assert!((f64::from(pair[1]) - (cos + sin)).abs() < 1e-5);
    }
    assert!(y[4..6].iter().all(|y| y.is_finite()), "{y:?}");
    assert!(y[6..].iter().all(|y| y.is_nan()), "{y:?}");
}

/// A plan counts a row of a table for each index, up to all rows: it does not know which rows they name.
#[test]
fn a_gather_counts_no_row_of_a_table_twice() {
    let device = simulator(Arch::Sm80, 2);
    let (table, index) = (device.zeros::<f32>(4 * 64), device.zeros::<i32>(1000));
    let (table, index) = (table.expect("memory"), index.expect("memory"));
    let mut out = device.zeros::<f32>(1000 * 64).expect("memory");
    let mut of = |rows: i64, count: i64| {
        let table = table.view((rows, 64)).expect("a view");
        let index = index.view(count).expect("a view");
        let out = out.view_mut((count, 64)).expect("a view");
        let problem = Gather::new(&table, &index, &out).problem();
        let bytes = problem.expect("a problem").expect("elements");
        bytes.compulsory_bytes() - 4 * count - 4 * 64 * count
    };
    assert_eq!(of(2, 1000), 2 * 256);
    assert_eq!(of(4, 3), 3 * 256);
    assert_eq!(of(4, 4), 4 * 256);
}

/// A run with a factor draws as many times the cases: the law says so itself.
#[test]
fn a_factor_of_draws_reaches_the_laws() {
    let cases = |factor: &str| -> Option<u64> {
        let program = std::env::current_exe().expect("a program that runs");
        let law = ["elementwise::law_gathers_are_those_of_the_host", "--exact"];
        let run = std::process::Command::new(program)
            .args(law)
            .arg("--show-output")
            .env(soak::FACTOR, factor)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("law gathers: "));
        line?.split_once(' ')?.0.parse().ok()
    };
    assert_eq!([cases("1"), cases("2")], [Some(60), Some(120)]);
}
