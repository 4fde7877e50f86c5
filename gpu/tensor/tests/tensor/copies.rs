//! Laws of copies: any layouts of two to four modes, any sizes, every width of an element; built once, run at many sizes.

use colex_atom::{Arch, Ty};
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Arg, AtThread, Builder, Error, Index, RawMemory, TensorKernel};
use colex_tiled::TiledCopy;

use crate::index_laws::Random;

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("a literal")
}

/// A copy by tiles of 8 by 16: one block per tile, the modes after the second along z.
fn copy(ty: Ty, vector: i64, from: &Layout, to: &Layout) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("copy", Arch::Sm80, 64);
    let (src, dst) = (k.tensor("src", ty, from), k.tensor("dst", ty, to));
    let bits = i64::from(ty.bits());
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{}_t>", bits * vector))?;
    let (threads, values): (Layout, Layout) = match vector {
        1 => (parsed("(8,4):(4,1)"), parsed("(1,4):(0,1)")),
        n => (
            parsed(&format!("(8,{}):({},1)", 16 / n, 16 / n)),
            parsed(&format!("(1,{n}):(0,1)")),
        ),
    };
    let tiled = TiledCopy::new(atom, bits, &threads, &values)?;
    let mut at = vec![k.block_index(0), k.block_index(1)];
    let mut rest = k.block_index(2);
    for mode in 2..from.rank() {
        at.push(&rest % src.extent(mode));
        rest = rest / src.extent(mode);
    }
    let tid = k.thread();
    let active = k.less(&tid, &tiled.threads().into());
    k.if_(active, |k| {
        let tid = k.within(&tid, 0..tiled.threads());
        let tile = |t: &colex_tensor::Tensor, at: &[Index]| t.local_tile((8, 16), at);
        let from = tiled.at(&tid).partition_src(&tile(&src, &at));
        let to = tiled.at(&tid).partition_dst(&tile(&dst, &at));
        let regs = k.fragment_like(&from);
        k.copy_in_bounds(&tiled, &from, &regs);
        k.copy_in_bounds(&tiled, &regs, &to)
    });
    k.finish()
}

/// Copies numbers and looks at every byte of the destination, those that are no element too.
fn check(built: &TensorKernel, ty: Ty, from: &Layout, to: &Layout) -> usize {
    let bytes = i64::from(ty.bits() / 8);
    let size = |l: &Layout| (l.cosize().expect("no overflow") * bytes) as usize;
    let source: Vec<u8> = (0..size(from)).map(|i| (i * 37 + 11) as u8).collect();
    let mut memory = Memory::default();
    let (src, dst) = (
        memory.allocate(size(from) as u64).unwrap(),
        memory.allocate(size(to) as u64).unwrap(),
    );
    memory.write(src, &source).expect("allocated");
    memory.write(dst, &vec![0xee; size(to)]).expect("allocated");
    let arguments = {
        let raw = |address, layout| {
            let memory = RawMemory {
                address,
                bytes: size(layout) as u64,
                ty,
            };
            Arg::raw(memory, layout)
        };
        built.arguments(&[raw(src, from), raw(dst, to)])
    };
    let arguments = arguments.unwrap_or_else(|e| panic!("{e}"));
    let extent = |i: usize| from.mode(i).map_or(1, |m| m.size());
    let rest: i64 = (2..from.rank()).map(extent).product();
    let grid = [
        (extent(0) as u32).div_ceil(8),
        (extent(1) as u32).div_ceil(16),
        rest as u32,
    ];
    let launch = Launch::new(grid, 64);
    let run = simulate(
        &built.kernel,
        &launch,
        &arguments,
        &mut memory,
        &SimOptions::default(),
    );
    run.unwrap_or_else(|fault| panic!("{from} to {to}: {fault}\n{:?}", built.kernel.ptx()));
    let found = memory.read(dst, size(to) as u64).expect("allocated");
    let mut expected = vec![0xee; size(to)];
    for i in 0..from.size() {
        let (a, b) = (
            from.at(i).expect("inside") * bytes,
            to.at(i).expect("inside") * bytes,
        );
        let (a, b, n) = (a as usize, b as usize, bytes as usize);
        expected[b..b + n].copy_from_slice(&source[a..a + n]);
    }
    assert!(
        found == expected,
        "{from} to {to} of {bytes} bytes each\n{:?}",
        built.kernel.ptx()
    );
    from.size() as usize
}

/// Strides of a compact or padded layout, its modes in some order.
fn strides(random: &mut Random, shape: &[i64], first: usize, pad: i64) -> Vec<i64> {
    let mut order: Vec<usize> = (0..shape.len()).filter(|i| *i != first).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as i64 + 1) as usize);
    }
    order.insert(0, first);
    let mut stride = vec![0; shape.len()];
    let mut next = 1;
    for mode in order {
        stride[mode] = next;
        next *= shape[mode];
        next = (next + random.below(4)).next_multiple_of_(pad);
    }
    stride
}

trait NextMultiple {
    fn next_multiple_of_(self, n: i64) -> i64;
}

impl NextMultiple for i64 {
    fn next_multiple_of_(self, n: i64) -> i64 {
        (self + n - 1) / n * n
    }
}

fn layout(shape: &[i64], stride: &[i64], fast: &str) -> Layout {
    let shape: Vec<String> = shape.iter().map(i64::to_string).collect();
    let stride = stride.iter().map(|d| {
        if *d == 1 {
            fast.to_string()
        } else {
            d.to_string()
        }
    });
    let stride: Vec<String> = stride.collect();
    parsed(&format!("({}):({})", shape.join(","), stride.join(",")))
}

#[test]
fn law_copies_of_any_layout() {
    let mut random = Random::new(5);
    let mut cases = 0;
    for ty in [Ty::U8, Ty::F16, Ty::F32, Ty::F64] {
        for rank in 2..5 {
            let fast = [random.below(rank), random.below(rank)].map(|i| i as usize);
            let make = |random: &mut Random| {
                let shape: Vec<i64> = (0..rank)
                    .map(|i| 1 + random.below(if i < 2 { 30 } else { 4 }))
                    .collect();
                let [a, b] = fast.map(|fast| strides(random, &shape, fast, 1));
                (layout(&shape, &a, "1"), layout(&shape, &b, "1"))
            };
            let (from, to) = make(&mut random);
            let built = copy(ty, 1, &from, &to).unwrap_or_else(|e| panic!("{e}"));
            for _ in 0..8 {
                let (from, to) = make(&mut random);
                cases += check(&built, ty, &from, &to);
            }
        }
    }
    println!("law copies.any_layout: {cases} elements");
}

/// Vectors along the contiguous mode: the extents along it and the strides are multiples, and asked for at launch.
#[test]
fn law_copies_by_vectors() {
    let mut random = Random::new(6);
    let mut cases = 0;
    for (ty, vector) in [
        (Ty::U8, 4),
        (Ty::U8, 16),
        (Ty::F16, 2),
        (Ty::F16, 8),
        (Ty::F32, 4),
        (Ty::F64, 2),
    ] {
        let make = |random: &mut Random| {
            let shape = [
                1 + random.below(30),
                vector * (1 + random.below(4)),
                1 + random.below(3),
            ];
            let [a, b] = [0, 1].map(|_| strides(random, &shape, 1, vector));
            (layout(&shape, &a, "_1"), layout(&shape, &b, "_1"))
        };
        let (from, to) = make(&mut random);
        let built = copy(ty, vector, &from, &to).unwrap_or_else(|e| panic!("{e}"));
        for _ in 0..6 {
            let (from, to) = make(&mut random);
            cases += check(&built, ty, &from, &to);
        }
        let odd: Layout = parsed(&format!(
            "(8,{},1):({},_1,{})",
            vector * 2 + 1,
            vector * 4,
            vector * 64
        ));
        let refused = {
            let memory = RawMemory {
                address: 0,
                bytes: 1 << 20,
                ty,
            };
            built.arguments(&[Arg::raw(memory, &odd), Arg::raw(memory, &odd)])
        };
        let sentence = format!(
            "tensor src: the extent {} of {odd} is not a multiple of {vector}, which its vectors need",
            vector * 2 + 1
        );
        assert_eq!(refused.expect_err("an odd extent").to_string(), sentence);
    }
    println!("law copies.by_vectors: {cases} elements");
}

/// Modes of several leaves: their coordinates are taken apart in the kernel.
#[test]
fn law_copies_of_nested_modes() {
    let mut cases = 0;
    let built = copy(
        Ty::F32,
        1,
        &parsed("((_4,3),(2,5)):((1,40),(20,4))"),
        &parsed("((_4,3),(2,5)):((30,10),(5,1))"),
    );
    let built = built.unwrap_or_else(|e| panic!("{e}"));
    for (m, n, o) in [(3, 2, 5), (1, 1, 1), (5, 3, 4), (2, 7, 3)] {
        let from = parsed(&format!(
            "((_4,{m}),({n},{o})):((1,{}),({},4))",
            4 * n * o,
            4 * o
        ));
        let to = parsed(&format!(
            "((_4,{m}),({n},{o})):(({},{}),({o},1))",
            m * n * o,
            n * o
        ));
        cases += check(&built, Ty::F32, &from, &to);
    }
    println!("law copies.nested_modes: {cases} elements");
}

/// Registers that hold several elements are copied element by element, and a part of a fragment onto another part of it as it was.
#[test]
fn law_registers_are_copied_element_by_element() {
    let mut cases = 0;
    for (ty, bits) in [(Ty::U8, 8), (Ty::F16, 16), (Ty::F32, 32)] {
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("a row");
        let atom = match bits {
            8 => colex_atom::copy("UniversalCopy<uint8_t>").expect("a row"),
            16 => colex_atom::copy("UniversalCopy<uint16_t>").expect("a row"),
            _ => atom,
        };
        let copy = TiledCopy::new(atom, bits, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
        let numbered = |k: &mut Builder| {
            let all = k.fragment(ty, "_8:_1");
            k.clear(&all);
            (0..8).for_each(|i| k.fill(&all.values(i, 1), f64::from(i as i32 + 1)));
            all
        };
        for (from, to, count) in [(0, 1, 7), (1, 0, 7), (0, 4, 4), (2, 3, 3)] {
            let mut k = Builder::new("k", Arch::Sm90a, 32);
            let all = numbered(&mut k);
            k.copy(&copy, &all.values(from, count), &all.values(to, count));
            let found = colex_proof::examples::elements(k, &all).expect("a kernel");
            let mut right: Vec<f32> = (1..9).map(|i| i as f32).collect();
            right.copy_within(from as usize..(from + count) as usize, to as usize);
            assert_eq!(
                found[0], right,
                "{ty}: {count} elements from {from} to {to}"
            );
            cases += 1;
        }
        let mut k = Builder::new("k", Arch::Sm90a, 32);
        let (all, other) = (numbered(&mut k), k.fragment(ty, "_8:_1"));
        k.clear(&other);
        k.copy(&copy, &all, &other);
        let found = colex_proof::examples::elements(k, &other).expect("a kernel");
        assert_eq!(found[0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "{ty}");
        cases += 1;
    }
    println!("law copies of registers: {cases} cases");
}
