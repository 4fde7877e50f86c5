//! Smaller parts of the builder, each executed: places in rings, sums of fragments, copies by a condition, reductions by TMA.

use colex_atom::{Arch, Reduction, Ty};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_ir::{Access, FenceKind, Space, Type};
use colex_layout::{ComposedLayout, Layout};
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{
    Arg, AtThread, Builder, Elements, Error, Expr, Index, Outside, RawMemory, Tensor, TensorKernel,
};
use colex_tiled::TiledCopy;

use crate::refused;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

fn run(built: &TensorKernel, threads: u32, given: &[Arg<'_>], memory: &mut Memory) {
    let arguments = built.arguments(given).unwrap_or_else(|e| panic!("{e}"));
    let launch = Launch::new(1, threads).dynamic_shared(built.dynamic_shared());
    let done = simulate(
        &built.kernel,
        &launch,
        &arguments,
        memory,
        &SimOptions::default(),
    );
    done.unwrap_or_else(|fault| panic!("{fault}"));
}

fn upload(memory: &mut Memory, values: &[f32]) -> u64 {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let at = memory.allocate(bytes.len() as u64).unwrap();
    memory.write(at, &bytes).expect("allocated");
    at
}

fn download(memory: &Memory, at: u64, count: usize) -> Vec<f32> {
    let bytes = memory.read(at, count as u64 * 4).expect("allocated");
    bytes
        .chunks(4)
        .map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]))
        .collect()
}

/// Under another layout, swizzled or not, a tensor has the element that lies at the layout's offset.
#[test]
fn law_one_memory_has_several_layouts() {
    let layouts = ["(8,4):(4,_1)", "(8,4):(_1,8)", "(8,(2,2)):(_2,(_1,16))"];
    let copy = TiledCopy::new(
        colex_atom::copy("UniversalCopy<uint32_t>").expect("a row"),
        32,
        "(8,4):(1,8)",
        "(1,1):(0,0)",
    );
    let copy = copy.expect("a tiled copy");
    let mut cases = 0;
    for text in layouts {
        let layout: Layout = parsed(text);
        for swizzle in [
            None,
            Some(colex_layout::Swizzle::new(2, 0, 3).expect("a swizzle")),
        ] {
            let other = match swizzle {
                Some(swizzle) => ComposedLayout::new(swizzle, 0, layout.clone()).expect("a layout"),
                None => ComposedLayout::from(layout.clone()),
            };
            let mut k = Builder::new("k", Arch::Sm80, 32);
            let line = k.shared_tensor(Ty::F32, "(32,1):(1,32)");
            let thread = k.thread();
            let first = k.equal(&thread, &0.into());
            k.if_(first, |k| {
                for i in 0..32 {
                    k.scatter(i as f64, &line.elements((Index::from(i), Index::from(0))));
                }
            });
            k.sync();
            let mine = copy.at(&thread).partition_src(&line.with_layout(&other));
            let held = k.fragment_like(&mine);
            k.copy(&copy, &mine, &held);
            let found = colex_proof::examples::elements(k, &held).expect("it runs");
            for (i, found) in found.iter().enumerate() {
                let place = other.at(i as i64).expect("an index");
                assert_eq!(found[..], [place as f32], "{other} at {i}");
                cases += 1;
            }
        }
    }
    println!("law tensor.with_layout: {cases} cases");
}

/// What a relay makes of a stage is what the consumer reads, in rings that turn several times, in every schedule.
#[test]
fn law_a_relay_changes_stages_before_they_are_read() {
    const STEPS: i64 = 12;
    let layout: Layout = parsed("(32,12):(_1,32)");
    let mut cases = 0;
    for stages in 1..5 {
        let mut k = Builder::new("relay", Arch::Sm90a, 96);
        let out = k.tensor("out", Ty::S32, &layout);
        let tile = k.shared_tensor(Ty::S32, format!("(32,{stages}):(1,32)").as_str());
        let ring = k.pipeline(stages, 32, 1);
        let ring = k.relayed(ring, 32);
        k.start_pipelines(&[&ring], false);
        let (warp, lane) = (k.uniform(32), k.lane());
        let [first, second] = [0, 1].map(|n| k.equal(&warp, &n.into()));
        let produce = |k: &mut Builder| {
            let producer = k.producer(&ring);
            k.for_(0, STEPS, 1, |k, step| {
                let stage = producer.acquire(k);
                k.scatter(step * 32 + &lane, &tile.elements((&lane, &stage.index())));
                producer.commit(k, &stage);
            });
        };
        let change = |k: &mut Builder| {
            let relay = k.relay(&ring);
            k.for_(0, STEPS, 1, |k, _| {
                let stage = relay.wait(k);
                let other = Index::from(31) - &lane;
                let element = tile.elements((&other, &stage.index()));
                let held = k.gather(&element);
                k.scatter(&held * 2 + 1, &element);
                relay.pass(k, &stage);
            });
        };
        let consume = |k: &mut Builder| {
            let consumer = k.consumer(&ring, &lane);
            k.for_(0, STEPS, 1, |k, step| {
                let stage = consumer.wait(k);
                let held = k.gather(&tile.elements((&lane, &stage.index())));
                k.scatter(&held, &out.elements((&lane, step)));
                // All lanes have read the stage before one of them releases it.
                k.emit(|ir| ir.warp_sync());
                consumer.release(k, &stage);
            });
        };
        k.if_else(first, produce, |k| k.if_else(second, change, consume));
        let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
        for seed in 0..8 {
            let mut memory = Memory::default();
            let at = memory.allocate(32 * 12 * 4).unwrap();
            let arguments = built.arguments(&[Arg::checked(at, &layout)]).unwrap();
            let launch = Launch::new(1, 96).dynamic_shared(built.dynamic_shared());
            let options = SimOptions::default().seed(seed);
            let done = simulate(&built.kernel, &launch, &arguments, &mut memory, &options);
            done.unwrap_or_else(|fault| panic!("{stages} stages, seed {seed}: {fault}"));
            let found = memory.read(at, 32 * 12 * 4).expect("allocated");
            for (i, word) in found.chunks(4).enumerate() {
                let found = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                assert_eq!(found, 2 * i as i32 + 1, "{stages} stages, seed {seed}");
                cases += 1;
            }
        }
    }
    println!("law ring.relay: {cases} elements");
}

/// `n` steps at once lead where `n` single steps do, and both where the plan's own phase goes.
#[test]
fn law_places_in_a_ring() {
    let mut cases = 0;
    for stages in 1..6 {
        let mut k = Builder::new("ring", Arch::Sm90a, 32);
        let out = k.scalar_argument("out", Type::U64);
        let start = k.index_argument("start", 0..64);
        let more = k.index_argument("more", 0..64);
        // All threads arrive as producers, one as a consumer.
        let ring = k.pipeline(stages, 32, 1);
        k.start_pipelines(&[&ring], false);
        let lane = k.lane();
        let (fills, reads) = (k.producer(&ring), k.consumer(&ring, &lane));
        let many = k.producer(&ring);
        k.for_(0, &start + &more, 1, |k, _| {
            let stage = fills.acquire(k);
            fills.commit(k, &stage);
            let stage = reads.wait(k);
            reads.release(k, &stage);
        });
        many.skip(&mut k, &start);
        many.skip(&mut k, &more);
        let places = [&fills, &many].map(|side| side.state(&mut k));
        let places = [reads.state(&mut k), places[0].clone(), places[1].clone()];
        for (i, value) in (0..).zip(places.iter().flatten()) {
            let value = k.value(value);
            let place = k.index_of(out, 0..1 << 48) + 4 * i;
            let address = k.address(&place, true);
            k.emit(|k| k.store(Access::new(Space::Global, Type::U32), address, value));
        }
        let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
        for (start, more) in [(0, 0), (0, 1), (3, 4), (7, 13), (63, 62)] {
            let mut memory = Memory::default();
            let at = memory.allocate(24).unwrap();
            let given = [
                Argument::Pointer(at),
                Argument::U32(start),
                Argument::U32(more),
            ];
            run(&built, 32, &given.map(Arg::Value), &mut memory);
            let found = memory.read(at, 24).expect("allocated");
            let found: Vec<u8> = found.chunks(4).map(|word| word[0]).collect();
            let phase = colex_sched::pipeline::Phase::consumer(stages as usize);
            let phase = phase.advance((start + more) as usize);
            let (stage, parity) = (phase.stage as u8, phase.parity);
            assert_eq!(
                found,
                [stage, parity, stage, 1 - parity, stage, 1 - parity],
                "{start} and {more} of {stages}"
            );
            cases += 1;
        }
    }
    println!("law ring.places: {cases} places");
}

fn over_rows() -> Result<TiledCopy, Error> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    Ok(TiledCopy::new(atom, 32, "(32,1):(1,0)", "(1,4):(0,1)")?)
}

/// `y = alpha x + beta y`, of the elements above the diagonal only.
#[test]
fn sums_of_fragments_where_a_condition_holds() {
    let build = || -> Result<TensorKernel, Error> {
        let mut k = Builder::new("axpby", Arch::Sm80, 32);
        let whole = "(_32,_4):(_4,_1)";
        let (x, y) = (k.tensor("x", Ty::F32, whole), k.tensor("y", Ty::F32, whole));
        let copy = over_rows()?;
        let tid = k.thread();
        let (x, y) = (
            copy.at(&tid).partition_src(&x),
            copy.at(&tid).partition_src(&y),
        );
        let (rx, ry) = (k.fragment_like(&x), k.fragment_like(&y));
        k.copy(&copy, &x, &rx);
        k.copy(&copy, &y, &ry);
        k.assign(&ry, (2.0 * &rx).fma(1.0, 3.0 * &ry));
        k.copy_if(&copy, &ry, &y, |k, at: &[Index]| k.less(&at[0], &at[1]));
        k.finish()
    };
    let built = build().unwrap_or_else(|e| panic!("{e}"));
    let numbers = |scale: f32| (0..128).map(|i| i as f32 * scale).collect::<Vec<f32>>();
    let (x, y) = (numbers(0.5), numbers(-1.0));
    let mut memory = Memory::default();
    let (at_x, at_y) = (upload(&mut memory, &x), upload(&mut memory, &y));
    let whole: Layout = parsed("(_32,_4):(_4,_1)");
    let given = [at_x, at_y].map(|address| {
        let memory = RawMemory {
            address,
            bytes: 128 * 4,
            ty: Ty::F32,
        };
        Arg::raw(memory, &whole)
    });
    run(&built, 32, &given, &mut memory);
    for (i, found) in download(&memory, at_y, 128).into_iter().enumerate() {
        let expected = if i / 4 < i % 4 {
            2.0 * x[i] + 3.0 * y[i]
        } else {
            y[i]
        };
        assert_eq!(found, expected, "element {i}");
    }
}

/// A tile added to what the tensor holds, by TMA.
#[test]
fn a_reduction_by_tma() {
    let rows: ComposedLayout = parsed("Sw<3,2,3> o 0 o (32,32):(32,1)");
    let like: Layout = parsed("(64,64):(64,_1)");
    let build = || -> Result<TensorKernel, Error> {
        let mut k = Builder::new("reduce", Arch::Sm90a, 32);
        let map = k.tma_tensor("y", Ty::F32, &like, [32, 32], &rows, 1);
        let shared = k.shared_tensor(Ty::F32, rows.clone());
        let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
        let copy = TiledCopy::new(atom, 32, "(1,32):(0,1)", "(32,1):(1,0)")?;
        let tid = k.thread();
        let part = copy.at(&tid).partition_dst(&shared);
        let ones = k.fragment_like(&part);
        k.fill(&ones, 1.0);
        k.copy(&copy, &ones, &part);
        k.fence(FenceKind::ProxyAsyncShared);
        k.sync();
        let one = k.elected();
        k.if_(one, |k| {
            k.tma_reduce(&map, Reduction::Add, (1, 0), &shared);
            k.bulk_commit();
            k.bulk_wait(0, false);
        });
        k.finish()
    };
    let built = build().unwrap_or_else(|e| panic!("{e}"));
    let (m, n) = (50, 20);
    let today: Layout = parsed(&format!("({m},{n}):({n},_1)"));
    let mut memory = Memory::default();
    let y: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let address = upload(&mut memory, &y);
    let map = built
        .tensor_map("y", &today)
        .unwrap_or_else(|e| panic!("{e}"));
    let map = TensorMapArgument {
        map,
        address,
        encoded: None,
    };
    run(&built, 32, &[Arg::Value(map.into())], &mut memory);
    for (i, found) in download(&memory, address, m * n).into_iter().enumerate() {
        let expected = y[i] + if i / n >= 32 { 1.0 } else { 0.0 };
        assert_eq!(found, expected, "element {i}");
    }
    let other: Layout = parsed("(50,20):(_1,52)");
    let refused = built
        .tensor_map("y", &other)
        .expect_err("another order")
        .to_string();
    assert_eq!(
        refused,
        "tensor y: shared memory runs along 1@1 first, and that has stride 52 in the tensor, not 1: the majorness of shared \
         memory does not match the tensor's"
    );
    let unknown = built
        .tensor_map("z", &other)
        .expect_err("no such map")
        .to_string();
    assert_eq!(unknown, "the kernel reduce has no tensor map called z");
}

/// A part of the rows, by a tiled copy and by elements: what lies before it or at its end and beyond is neither read nor written,
/// also where the end lies beyond the tensor or before the first row.
#[test]
fn law_a_narrowed_parameter_is_its_rows() {
    const ROWS: i64 = 11;
    let copy = colex_atom::copy("UniversalCopy<uint32_t>").expect("a row");
    let copy = TiledCopy::new(copy, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
    let mut k = Builder::new("narrow", Arch::Sm80, 32);
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(11,_8):(8,_1)"));
    let sums = k.tensor("sums", Ty::F32, "11:_1");
    let ids = k.tensor("ids", Ty::S32, "_32:_1");
    let found = k.tensor("found", Ty::F32, "(_32,_4):(_4,_1)");
    let [first, end] = ["first", "end"].map(|name| k.index_argument(name, 0..20));
    let [from, to] = [from, to].map(|tensor| tensor.narrow(0, &first, &end));
    let thread = k.thread();
    let block = k.block_index(0);
    for tile in -2..4 {
        // Which tile comes before the first, only the kernel knows.
        let number = if tile < 0 { &block + tile } else { tile.into() };
        let at = (&number, 0);
        let [from, to] = [&from, &to].map(|tensor| tensor.local_tile((4, 8), at));
        let (from, to) = (
            copy.at(&thread).partition_src(&from),
            copy.at(&thread).partition_dst(&to),
        );
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&copy, &from, &held);
        k.copy_in_bounds(&copy, &held, &to);
    }
    let rows = sums.narrow(0, &first, &end);
    let row = k.gather(&from.elements((&thread, 3)));
    k.scatter(&row, &rows.elements(&thread));
    // Coordinates of data and of the thread, from before the part to behind it, and a part that is moved before its first row.
    let id = k.gather(&ids.elements(&thread));
    let before = from.offset_by((-3, 0));
    let ways = [
        from.elements((&id, 3)),
        from.elements((&id, 3)).outside(Outside::Clamp),
        from.elements((&thread - 7, 3)).outside(Outside::Clamp),
        before.elements((&thread - 4, 3)),
    ];
    for (way, elements) in (0..).zip(ways) {
        let row = k.gather(&elements);
        k.scatter(&row, &found.elements((&thread, way)));
    }
    let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
    let layouts: [Layout; 4] =
        ["(11,_8):(8,_1)", "11:_1", "_32:_1", "(_32,_4):(_4,_1)"].map(parsed);
    let values: Vec<f32> = (0..8 * ROWS).map(|i| i as f32).collect();
    let mut cases = 0;
    for (first, end) in (0..14_u32).flat_map(|first| (0..14_u32).map(move |end| (first, end))) {
        let mut memory = Memory::default();
        let source = upload(&mut memory, &values);
        let (target, sums) = (
            upload(&mut memory, &[-1.0; 88]),
            upload(&mut memory, &[-1.0; 11]),
        );
        let numbers: Vec<f32> = (0..32).map(|t| f32::from_bits((t - 7) as u32)).collect();
        let (ids, found) = (
            upload(&mut memory, &numbers),
            upload(&mut memory, &[-1.0; 128]),
        );
        let given = [
            Arg::checked(source, &layouts[0]),
            Arg::checked(target, &layouts[0]),
            Arg::checked(sums, &layouts[1]),
            Arg::checked(ids, &layouts[2]),
            Arg::checked(found, &layouts[3]),
            Arg::Value(first.into()),
            Arg::Value(end.into()),
        ];
        run(&built, 32, &given, &mut memory);
        let is_own = |row: usize| (first as usize..end as usize).contains(&row);
        for (i, found) in download(&memory, target, 88).into_iter().enumerate() {
            let right = if is_own(i / 8) { values[i] } else { -1.0 };
            assert_eq!(found, right, "{first}..{end}: {i}");
        }
        for (row, found) in download(&memory, sums, 11).into_iter().enumerate() {
            let right = if is_own(row) {
                values[8 * row + 3]
            } else {
                -1.0
            };
            assert_eq!(found, right, "{first}..{end}: row {row}");
        }
        let count = i64::from(end).min(ROWS) - i64::from(first);
        let at = |row: i64| values[(8 * (i64::from(first) + row) + 3) as usize];
        let inside = |row: i64| {
            if (0..count).contains(&row) {
                at(row)
            } else {
                0.0
            }
        };
        let nearest = |row: i64| {
            if count > 0 {
                at(row.clamp(0, count - 1))
            } else {
                0.0
            }
        };
        for (i, found) in (0..).zip(download(&memory, found, 128)) {
            let (thread, way): (i64, i64) = (i / 4, i % 4);
            let right = match way {
                0 | 3 => inside(thread - 7),
                _ => nearest(thread - 7),
            };
            assert_eq!(found, right, "{first}..{end}: thread {thread} of way {way}");
        }
        cases += 1;
    }
    println!("law narrow: {cases} cases");
}

/// What the simulator says of a kernel with these arguments.
fn outcome(built: &TensorKernel, given: &[Arg<'_>], memory: &mut Memory) -> Result<(), String> {
    let arguments = built.arguments(given).map_err(|e| e.to_string())?;
    let launch = Launch::new(1, 32).dynamic_shared(built.dynamic_shared());
    let options = SimOptions::default();
    simulate(&built.kernel, &launch, &arguments, memory, &options)
        .map(|_| ())
        .map_err(|fault| fault.to_string())
}

/// The ways of a scatter at coordinates of which some are fixed or moved, and the coordinates in the parameter of a thread's
/// element for the number that the launch gives.
type Way = (
    fn(&Tensor, &Index, &Index) -> Elements,
    fn(i64, i64) -> [i64; 3],
);

/// Coordinates that are fixed or moved are tested as those that a thread gives, against the extents of the launch.
#[test]
fn law_fixed_and_moved_coordinates_are_tested() {
    let ways: [Way; 5] = [
        (
            |a, n, t| a.fixed_behind([n]).elements((t / 3, t % 3)),
            |n, t| [t / 3, t % 3, n],
        ),
        (
            |a, n, t| a.fixed_behind([&(t % 3), n]).elements(t / 3),
            |n, t| [t / 3, t % 3, n],
        ),
        (
            |a, n, t| a.offset_by((n, 0, 0)).elements((t / 3, t % 3, 1)),
            |n, t| [n + t / 3, t % 3, 1],
        ),
        (
            |a, n, t| a.at(1, n).elements((t / 3, t % 3)),
            |n, t| [t / 3, n, t % 3],
        ),
        (
            |a, n, t| a.slice((n, .., t % 3)).elements(t / 3),
            |n, t| [n, t / 3, t % 3],
        ),
    ];
    let outsides = [
        Outside::Skip,
        Outside::Clamp,
        Outside::Trap,
        Outside::Stated,
    ];
    let mut cases = 0;
    for (way, (elements, place)) in ways.into_iter().enumerate() {
        for outside in outsides {
            let mut k = Builder::new("k", Arch::Sm80, 32);
            let a = k.tensor("a", Ty::F32, "(2,2,2):(4,2,_1)");
            let n = k.index_argument("n", 0..9);
            let thread = k.thread();
            k.scatter(
                2.0,
                &elements(&a, &n, &thread)
                    .outside(outside)
                    .only(Expr::from(&thread).lt(9)),
            );
            let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
            // Other extents than those that the kernel is built with, and room behind the tensor.
            for extents in [[3, 3, 3], [1, 2, 3], [4, 3, 1], [3, 4, 5], [2, 2, 2]] {
                let [rows, columns, depth] = extents;
                let text = format!(
                    "({rows},{columns},{depth}):({},{depth},_1)",
                    columns * depth
                );
                let layout: Layout = parsed(&text);
                for n in 0..6_i64 {
                    let mut memory = Memory::default();
                    let count = (rows * columns * depth) as usize;
                    let target = upload(&mut memory, &vec![0.0; count]);
                    let given = [Arg::checked(target, &layout), Arg::Value((n as u32).into())];
                    let inside = |[i, j, k]: [i64; 3]| {
                        (0..rows).contains(&i)
                            && (0..columns).contains(&j)
                            && (0..depth).contains(&k)
                    };
                    let mut right = vec![0.0; count];
                    let mut all = true;
                    for t in 0..9 {
                        let mut at = place(n, t);
                        all &= inside(at);
                        if outside == Outside::Clamp {
                            // Coordinates that a thread gives are clamped, and those that were fixed are not.
                            let given = [way != 4, !matches!(way, 1 | 3), matches!(way, 2 | 3)];
                            let moved = [if way == 2 { n } else { 0 }, 0, 0];
                            for (mode, x) in at.iter_mut().enumerate() {
                                if given[mode] {
                                    *x = (*x - moved[mode]).min(extents[mode] - 1) + moved[mode];
                                }
                            }
                        }
                        if inside(at) {
                            right[((at[0] * columns + at[1]) * depth + at[2]) as usize] = 2.0;
                        }
                    }
                    // Two threads that are clamped to one element race.
                    let done = outcome(&built, &given, &mut memory);
                    let name = format!("way {way} of {outside:?} in {text} at {n}");
                    match outside {
                        Outside::Trap | Outside::Stated => {
                            assert_eq!(done.is_ok(), all, "{name}: {done:?}")
                        }
                        Outside::Skip => assert_eq!(done, Ok(()), "{name}"),
                        Outside::Clamp => {
                            if let Err(said) = &done {
                                assert!(
                                    said.contains("nothing orders the two") && !all,
                                    "{name}: {said}"
                                );
                            }
                        }
                    }
                    if done.is_ok() {
                        assert_eq!(download(&memory, target, count), right, "{name}");
                    }
                    cases += 1;
                }
            }
        }
    }
    println!("law fixed_and_moved_coordinates: {cases} cases");
}

/// The modes of a part are cut along the modes of the parameter that they run along.
#[test]
fn tiles_of_parts_run_along_their_own_modes() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let a = k.tensor("a", Ty::F32, "(5,100,200):(20000,200,_1)");
    let [b, m, n] = ["b", "m", "n"].map(|name| k.index_argument(name, 0..5));
    let part = a.at(0, &b);
    assert_eq!(
        [0, 1].map(|mode| part.extent(mode)),
        [1, 2].map(|mode| a.extent(mode))
    );
    assert_eq!(part.extent(2).as_constant(), Some(1));
    let tile = part.local_tile((8, 16), (&m, &n));
    assert_eq!(tile.coordinates(9), [b.clone(), &m * 8 + 1, &n * 16 + 1]);
    let narrowed = part.narrow(1, &m, &n).local_tile((8, 16), (&m, 0));
    assert_eq!(narrowed.coordinates(9), [b.clone(), &m * 8 + 1, &m + 1]);
    // A transposed view of static extents.
    let square = k.tensor("square", Ty::F32, "(_64,_64):(_64,_1)");
    let turned = square.compose("(64,64):(64,1)");
    assert_eq!(
        turned.local_tile((32, 32), (1, 0)).coordinates(1),
        [0.into(), 33.into()]
    );
    let upper = square.compose("(32,64):(1,64)");
    assert_eq!(upper.extent(0).as_constant(), Some(64));
    k.finish().expect("a kernel");
}

/// What has no mode of the parameter to itself, or ends before the parameter does, is refused.
#[test]
fn tiles_of_parts_lie_in_them() {
    let said = |call: fn(&mut Builder, Tensor)| {
        let begin = |k: &mut Builder| k.tensor("a", Ty::F32, "(_128,_128):(_128,_1)");
        refused(Builder::new("k", Arch::Sm80, 32), begin, call)
    };
    assert_eq!(
        said(|_, a| drop(
            a.local_tile((8, 8), (0, 0))
                .windows((3, 3))
                .local_tile((2, 2, 3, 3), (0, 0, 0, 0))
        )),
        "local_tile: mode 0 of (_6,_6,_3,_3):(_1@0,_1@1,_1@0,_1@1) does not run along one mode of the parameter, which no \
         other mode runs along: cut the parameter before its modes are arranged anew"
    );
    assert_eq!(
        said(|_, a| drop(
            a.compose("((32,2),64):((1,64),128)")
                .local_tile((32, 32), (0, 0))
        )),
        "local_tile: mode 0 of ((_32,_2),_64):((_1@0,_64@0),_1@1) does not run along one mode of the parameter, which no \
         other mode runs along: cut the parameter before its modes are arranged anew"
    );
    assert_eq!(
        said(|_, a| drop(a.local_tile((64, 64), (0, 0)).local_tile((48, 32), (0, 0)))),
        "local_tile: a tile of 48 along mode 0 of the part (_64,_64):(_1@0,_1@1) of a, which 48 does not divide: a part has \
         whole tiles"
    );
    assert_eq!(
        said(|_, a| drop(a.local_tile((64, 64), (0, 0)).local_tile((32, 32), (1, 2)))),
        "local_tile: the place 2 of the mode _2:_32, whose places are 0 to 1"
    );
    assert_eq!(
        said(|k, a| {
            let thread = k.thread();
            a.local_tile((64, 64), (0, 0))
                .local_tile((32, 32), (thread, 1));
        }),
        "local_tile: the place r0 of the mode _2:_32 lies from 0 to 31, and there are places 0 to 1 (`within` says what no rule \
         finds)"
    );
    assert_eq!(
        said(|_, a| drop(a.compose("(32,64):(1,128)").narrow(0, 1, 2))),
        "narrow: mode 0 of (_32,_64):(_1@0,_1@1): a whole parameter has a coordinate for each mode"
    );
}
