//! Dumps: values and coordinates of fragments, names, and what is refused.

use colex_atom::{Arch, Ty};
use colex_ir::launch::Launch;
use colex_proof::kernels::dumps;
use colex_sim::{Dumps, Memory, PrintTo, SimOptions, simulate};
use colex_tensor::{AtThread, Builder, Dump, Expr};
use colex_tiled::{Operand, TiledCopy, TiledMma};

use crate::refused;

/// What a kernel without parameters prints on one block.
fn printed(k: Builder, launch: Launch) -> Dumps {
    let kernel = k.finish().expect("a kernel").kernel;
    assert_eq!(
        kernel.verify().map_err(|refused| refused.to_string()),
        Ok(())
    );
    let options = SimOptions {
        print_to: PrintTo::Report,
        ..SimOptions::default()
    };
    let report = simulate(&kernel, &launch, &[], &mut Memory::default(), &options);
    Dumps::of_printed(&report.expect("a run").printed)
}

/// The text of a dump reads back as the elements, for every type and architecture.
#[test]
fn law_dumps_read_back_as_the_elements() {
    let lines = [Arch::Sm70, Arch::Sm80, Arch::Sm90a].map(|arch| {
        let lines = dumps::expected(arch).unwrap_or_else(|why| panic!("{arch}: {why}"));
        lines.len()
    });
    println!(
        "law tensor.dumps_read_back: {} lines",
        lines.iter().sum::<usize>()
    );
}

/// Elements have the coordinates at which they lie in their tile, and of `Dump::at` in their tensor, for partitions by
/// copies and by products.
#[test]
fn law_dumps_show_coordinates() {
    let mut cases = 0;
    let word = colex_atom::copy("UniversalCopy<uint32_t>").expect("a row");
    let quad = colex_atom::copy("UniversalCopy<uint128_t>").expect("a row");
    let copies = [
        (word.clone(), "(8,4):(4,1)", "(1,1):(0,0)"),
        (word, "(4,8):(1,4)", "(2,1):(1,0)"),
        (quad, "(8,4):(4,1)", "(1,4):(0,1)"),
    ];
    let copies = copies
        .map(|(atom, threads, values)| TiledCopy::new(atom, 32, threads, values).expect("a copy"));
    let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN").expect("a row");
    let mma = TiledMma::new(mma, "(1,1,1):(0,0,0)", (16, 16, 16)).expect("a product");
    for case in 0..6 {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let (tid, block) = (k.thread(), k.block_index(0));
        let whole = k.tensor("whole", Ty::F32, "(64,_32):(32,_1)");
        let tile = whole.local_tile((16, 32), (&block, 0));
        let part = match copies.get(case) {
            Some(copy) => copy.at(&tid).partition_src(&tile),
            None => mma.at(&tid).partition(&tile, Operand::C),
        };
        let x = match case {
            5 => k.accumulators(&mma, (16, 32)),
            _ => k.fragment_like(&part),
        };
        let [m, n] = [0, 1].map(|mode| Expr::coordinate(&part, mode));
        k.assign(&x, (m * 100 + n).to(Ty::F32));
        k.dump("tile", &x);
        k.dump("tensor", Dump::of(&x).at(&part));
        let kernel = k.finish().expect("a kernel").kernel;
        let mut memory = Memory::default();
        let at = memory.allocate(64 * 32 * 4).expect("room");
        let arguments = [
            colex_ir::launch::Argument::Pointer(at),
            64u32.into(),
            32u64.into(),
        ];
        let arguments = &arguments[..kernel.params.len()];
        let options = SimOptions {
            print_to: PrintTo::Report,
            ..SimOptions::default()
        };
        let report = simulate(
            &kernel,
            &Launch::new(2, 32),
            arguments,
            &mut memory,
            &options,
        );
        let dumps = Dumps::of_printed(
            &report
                .unwrap_or_else(|fault| panic!("{case}: {fault}"))
                .printed,
        );
        let mut seen = std::collections::HashSet::new();
        for line in &dumps.lines {
            for (label, value) in &line.elements {
                let inside = label.trim_matches(['(', ')']);
                let (m, n) = inside
                    .split_once(',')
                    .unwrap_or_else(|| panic!("{case}: {label}"));
                let [m, n] = [m, n].map(|n| n.parse::<u32>().expect("a number"));
                let m = if line.name == "tile" {
                    m + 16 * line.block[0]
                } else {
                    m
                };
                assert_eq!(*value, (100 * m + n).to_string(), "{case}: {line:?}");
                seen.insert((line.name.clone(), m, n));
                cases += 1;
            }
        }
        assert_eq!(seen.len(), 2 * 2 * 16 * 32, "{case}");
    }
    println!("law tensor.dumps_show_coordinates: {cases} elements");
}

#[test]
fn dumps_are_where_their_conditions_hold() {
    let mut k = Builder::new("k", Arch::Sm80, 64);
    let tid = k.thread();
    let odd = k.equal(&(&tid % 2), &1.into());
    k.dump("all", &tid);
    k.dump("one", Dump::of(&tid).thread(40).block([1, 0, 0]));
    k.dump("odd", Dump::of(&tid * 3).when(odd).block([0, 0, 0]));
    let none = k.less(&tid, &0.into());
    k.dump("none", Dump::of(&tid).when(none));
    let dumps = printed(k, Launch::new(2, 64));
    let count = |name: &str| dumps.lines.iter().filter(|line| line.name == name).count();
    assert_eq!(["all", "one", "odd", "none"].map(count), [128, 1, 32, 0]);
    let last = dumps.lines.last().expect("a line");
    assert_eq!(
        (last.block, last.thread, last.value("[0]")),
        ([1, 0, 0], [40, 0, 0], Some(40.0))
    );
}

/// A dump adds nothing to a kernel but itself: the instructions before and after are the same.
#[test]
fn a_kernel_without_its_dump_is_the_same() {
    let text = |dumped: bool| {
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let x = k.fragment(Ty::F32, "_4:_1");
        k.fill(&x, 1.0);
        if dumped {
            k.dump("x", Dump::of(&x).thread(3));
        }
        let y = k.map(&x + 1.0);
        drop(y);
        k.finish().expect("a kernel").kernel.ptx().expect("a text")
    };
    let (without, with) = (text(false), text(true));
    assert!(with.contains("vprintf") && !without.contains("vprintf"));
    assert!(!without.contains(".local"), "{without}");
    let added = |text: &str| {
        text.lines()
            .filter(|line| line.contains("add.rn.f32"))
            .count()
    };
    assert_eq!(added(&with), added(&without));
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let start = || Builder::new("k", Arch::Sm80, 32);
    let one = |k: &mut Builder| k.fragment(Ty::E4m3, "_4:_1");
    let sentences = [
        refused(start(), one, |k, x| k.dump("x", &x)),
        refused(start(), one, |k, x| k.dump("two words", x.as_type(Ty::U8))),
        refused(start(), |_| (), |k, ()| k.dump("x", Expr::from(1.0))),
        refused(
            start(),
            |k| k.thread(),
            |k, x| k.dump("x", Dump::of(&x).thread(32)),
        ),
        refused(
            start(),
            |k| k.fragment(Ty::S4, "_8:_1"),
            |k, x| k.dump("x", &x),
        ),
        refused(
            start(),
            |k| k.shared_tensor(Ty::F32, "(32,2):(2,1)"),
            |k, tile| {
                let word = colex_atom::copy("UniversalCopy<uint32_t>").expect("a row");
                let copy = TiledCopy::new(word, 32, "(32,1):(1,0)", "(1,1):(0,0)").expect("a copy");
                let part = copy.at(&k.thread()).partition_src(&tile);
                let one = k.fragment(Ty::F32, "_1:_1");
                k.fill(&one, 1.0);
                k.dump("x", Dump::of(&one).at(&part));
            },
        ),
        refused(
            start(),
            |k| k.tensor("a", Ty::F16, "8:1"),
            |k, a| k.name("tile", &a),
        ),
        refused(
            start(),
            |k| {
                [
                    k.shared_tensor(Ty::F16, "8:1"),
                    k.shared_tensor(Ty::F16, "8:1"),
                ]
            },
            |k, [a, b]| [a, b].iter().for_each(|tile| k.name("tile", tile)),
        ),
    ];
    assert_eq!(
        sentences,
        [
            "dump: e4m3 is converted since sm_89, and the kernel is for sm_80",
            "dump: the name \"two words\": one word names a dump",
            "dump: constants alone have no type",
            "dump: thread 32; the block has threads 0 to 31",
            "dump: elements of s4; numbers of 8 to 64 bits are shown",
            "dump: 1 elements, and the part of a tensor has 2",
            "name: a tensor in global memory has the name of its parameter",
            "name: `tile` is the name of something else",
        ]
    );
}

/// A thread is chosen by its number in the block, also of one that has several dimensions.
#[test]
fn a_thread_of_two_dimensions_is_shown() {
    let begin = || Builder::new("k", Arch::Sm80, (16, 4));
    let mut k = begin();
    let number = k.thread();
    k.dump("number", Dump::of(&number).thread(40));
    let kernel = k.finish().expect("a kernel").kernel;
    let options = SimOptions {
        print_to: PrintTo::Report,
        ..SimOptions::default()
    };
    let launch = Launch::new(1, [16, 4, 1]);
    let report = simulate(&kernel, &launch, &[], &mut Memory::default(), &options).expect("a run");
    let lines: Vec<&str> = report.printed.iter().map(|line| &line.text[..]).collect();
    assert_eq!(lines, ["block (0,0,0) thread (8,2,0) number [0]=40"]);
    assert_eq!(
        refused(begin(), Builder::thread, |k, number| k
            .dump("n", Dump::of(&number).thread(64))),
        "dump: thread 64; the block has threads 0 to 63"
    );
}
