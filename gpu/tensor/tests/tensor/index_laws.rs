//! Laws of integers that a thread computes: what is built, evaluated and executed agrees with arithmetic.

use colex_atom::Arch;
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Access, Reg, RegType, Space, Type};
use colex_layout::{ComposedLayout, IntTuple, Layout, Stride, Swizzle, Tuple};
use colex_sim::{Memory, SimOptions, simulate};
use colex_tensor::{Builder, Index, layout_at, swizzled};

/// The minimal standard generator: the same cases on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0 * 48271 % 0x7fff_ffff;
        (self.0 >> 7) as i64 % n
    }
}

/// A function of integers.
type OfNumber = fn(i64) -> i64;

const THREADS: i64 = 96;

fn thread() -> Index {
    below(THREADS)
}

/// An index from 0 to below an end.
fn below(end: i64) -> Index {
    let mut k = Builder::new("law", Arch::Sm80, 32);
    k.index_argument("index", 0..end)
}

/// An expression over the thread index, and the same as a function.
type Both = (Index, Box<dyn Fn(i64) -> i64>);

fn tree(random: &mut Random, leaf: &Index, depth: u32) -> Both {
    if depth == 0 || random.below(6) == 0 {
        return match random.below(3) {
            0 => {
                let c = random.below(70);
                (c.into(), Box::new(move |_| c))
            }
            _ => (leaf.clone(), Box::new(|t| t)),
        };
    }
    let (a, f) = tree(random, leaf, depth - 1);
    let c = 1 + random.below(40);
    let power = 1 << random.below(6);
    match random.below(10) {
        0 => (a * c, Box::new(move |t| f(t) * c)),
        1 => (a * power, Box::new(move |t| f(t) * power)),
        2 => (a / c, Box::new(move |t| f(t).div_euclid(c))),
        3 => (a / power, Box::new(move |t| f(t).div_euclid(power))),
        4 => (a % c, Box::new(move |t| f(t).rem_euclid(c))),
        5 => (a % power, Box::new(move |t| f(t).rem_euclid(power))),
        choice => {
            let (b, g) = tree(random, leaf, depth - 1);
            match choice {
                6 | 7 => (a + b, Box::new(move |t| f(t) + g(t))),
                8 => (a.min(&b), Box::new(move |t| f(t).min(g(t)))),
                _ if a.range().0 < 0 || b.range().0 < 0 => (a - b, Box::new(move |t| f(t) - g(t))),
                _ => match random.below(3) {
                    0 => (a.xor(&b), Box::new(move |t| f(t) ^ g(t))),
                    1 => (a - b, Box::new(move |t| f(t) - g(t))),
                    _ => (a * b, Box::new(move |t| f(t) * g(t))),
                },
            }
        }
    }
}

/// Of many random expressions, every value is the function's, and lies in the range.
#[test]
fn law_index_evaluates() {
    let mut random = Random(1);
    let mut cases = 0;
    for _ in 0..40_000 {
        let (index, f) = tree(&mut random, &thread(), 5);
        for t in (0..THREADS).step_by(7) {
            let value = index.eval(&|_| Some(t));
            assert_eq!(value, Some(f(t)), "{index} at {t}");
            let (low, high) = index.range();
            assert!(
                (low..=high).contains(&f(t)),
                "{index} at {t} is {} outside of {low}..={high}",
                f(t)
            );
            assert_eq!(f(t) % index.alignment(), 0, "{index} at {t}");
            cases += 1;
        }
    }
    println!("law index.evaluates: {cases} values");
}

fn layouts(random: &mut Random) -> Layout {
    let rank = 1 + random.below(4);
    let mut leaves = Vec::new();
    let powers = random.below(2) == 0;
    for _ in 0..rank {
        let extent = if powers {
            1 << random.below(4)
        } else {
            1 + random.below(6)
        };
        let stride = if powers {
            (random.below(3) > 0) as i64 * (1 << random.below(7))
        } else {
            random.below(50) - 10
        };
        leaves.push((extent, stride));
    }
    let shape = IntTuple::flat(leaves.iter().map(|l| l.0.into()));
    let stride = Tuple::flat(leaves.iter().map(|l| Stride::constant(l.1)));
    Layout::new(shape, stride).expect("extents of at least 1")
}

/// Parts of an integer that are put together again, as the coordinates of a partition are, are the integer.
#[test]
fn law_index_joins_its_parts() {
    let mut random = Random(5);
    let mut cases = 0;
    for _ in 0..20_000 {
        let (x, f) = tree(&mut random, &thread(), 2);
        let x = x + random.below(300);
        let constant = x.eval(&|_| Some(0)).unwrap_or(0) - f(0);
        let mut cut = || match random.below(3) {
            0 => 1 + random.below(12),
            _ => 1 << random.below(8),
        };
        let (p, q) = (cut(), cut());
        let scale = 1 << random.below(4);
        let parts = [&x % p, &x / p % q * p, &x / p / q * (p * q)];
        let mut order = [0, 1, 2];
        order.swap(0, random.below(3) as usize);
        let joined = order
            .iter()
            .fold(Index::constant(0), |sum, i| sum + &parts[*i] * scale);
        for t in (0..THREADS).step_by(5) {
            let found = joined.eval(&|_| Some(t));
            let expected = (f(t) + constant) * scale;
            assert_eq!(
                found,
                Some(expected),
                "{joined} of {x} by {p} and {q} at {t}"
            );
            cases += 1;
        }
    }
    println!("law index.joins: {cases} values");
}

/// `layout_at` is the layout, at all coordinates.
#[test]
fn law_index_layout_at() {
    let mut random = Random(2);
    let mut cases = 0;
    for _ in 0..4000 {
        let layout = layouts(&mut random);
        let at = layout_at(&layout, &below(layout.size()));
        for i in 0..layout.size() {
            assert_eq!(
                at.eval(&|_| Some(i)),
                layout.at(i).ok(),
                "{layout} at {i}: {at}"
            );
            cases += 1;
        }
    }
    println!("law index.layout_at: {cases} coordinates");
}

/// `swizzled` is the swizzle, also with a constant and a multiple of the period beside the thread's part.
#[test]
fn law_index_swizzled() {
    let mut random = Random(3);
    let mut cases = 0;
    for _ in 0..2000 {
        let (bits, base) = (random.below(4), random.below(4));
        let shift = (bits + random.below(3)) * if random.below(4) == 0 { -1 } else { 1 };
        let swizzle = Swizzle::new(bits, base, shift).expect("the shift is at least the bits");
        let layout = layouts(&mut random);
        let constant = random.below(256);
        let beyond = random.below(3) * 1024;
        if layout
            .leaves()
            .iter()
            .any(|l| l.stride.coefficient().value() < 0)
        {
            continue;
        }
        let x = layout_at(&layout, &below(layout.size())) + (constant + beyond);
        let composed = ComposedLayout::new(swizzle, constant + beyond, layout.clone()).unwrap();
        let at = swizzled(swizzle, &x);
        for i in 0..layout.size() {
            assert_eq!(
                at.eval(&|_| Some(i)),
                composed.at(i).ok(),
                "{composed} at {i}: {at}"
            );
            cases += 1;
        }
    }
    println!("law index.swizzled: {cases} coordinates");
}

/// A schedule's formula over registers is the formula: by its tree, and by its text over [`Index`] itself.
#[test]
fn law_index_formulas() {
    use colex_sched::{Arith, Expr, formula};
    fn both<T: Arith>(id: T) -> Vec<T> {
        let five = || T::from(5);
        let [a, b] = formula::identity(id.clone(), T::from(3), T::from(4));
        let [c, d] = formula::sm90_cluster(id.clone(), five(), T::from(2));
        let e = T::select_lt(
            id.clone(),
            T::from(9),
            id.clone() / five(),
            id.clone() % five(),
        );
        vec![a, b, c, d, e, T::min(id, T::from(17))]
    }
    let mut cases = 0;
    let trees = both(Expr::var("t"));
    let lowered = trees
        .iter()
        .map(|tree| Index::from_formula(tree, &|_| Some(thread())));
    let lowered: Vec<Index> = lowered
        .map(|index| index.expect("the variable is given"))
        .collect();
    let direct = both(thread());
    for t in 0..THREADS {
        for (i, expected) in both(t).into_iter().enumerate() {
            assert_eq!(
                lowered[i].eval(&|_| Some(t)),
                Some(expected),
                "{} at {t}",
                trees[i]
            );
            assert_eq!(
                direct[i].eval(&|_| Some(t)),
                Some(expected),
                "{} at {t}",
                trees[i]
            );
            cases += 2;
        }
    }
    println!("law index.formulas: {cases} values");
}

/// The tile of a place, as kernels compute it, is that of the order's table: both axes, strips that divide and that do not.
#[test]
fn law_index_orders() {
    use colex_sched::{GemmCoord, Order, RasterOrder, formula::MOST_PLACES};
    let mut cases = 0;
    let mut k = Builder::new("law", Arch::Sm80, 32);
    let place = k.index_argument("place", 0..MOST_PLACES);
    let tiles = ["m", "n"].map(|name| k.index_argument(name, 1..MOST_PLACES));
    let regs = [&place, &tiles[0], &tiles[1]].map(|index| k.value(index));
    for raster in [RasterOrder::AlongM, RasterOrder::AlongN] {
        for width in [1, 2, 3, 8, 65536] {
            let order = Order::Grouped { width, raster };
            let grid = k.tile_grid(order, tiles.clone()).expect("a formula");
            let tile = k.tile_at(&grid, &place);
            for (m, n) in [(1, 1), (1, 9), (9, 1), (3, 5), (7, 8), (8, 17)] {
                let table = order
                    .raster(GemmCoord::new(m, n, 1), [1, 1])
                    .expect("small");
                for (i, expected) in table.slots().iter().enumerate() {
                    let value = |reg: Reg| {
                        let at = regs.iter().position(|known| *known == reg)?;
                        Some([i as i64, m, n][at])
                    };
                    let found = [tile[0].eval(&value), tile[1].eval(&value)];
                    let expected = expected.map(|t| [Some(t.m), Some(t.n)]);
                    assert_eq!(Some(found), expected, "{order}: place {i} of {m}x{n}");
                    assert_eq!(order.tile(i as i64, [m, n]).map(|t| t.map(Some)), expected);
                    cases += 1;
                }
            }
        }
    }
    println!("law index.orders: {cases} places");
}

/// What the instructions compute is what the expression evaluates to: in 32 and in 64 bits, in and out of a loop.
#[test]
fn law_index_lowers() {
    let mut random = Random(4);
    let mut cases = 0;
    for round in 0..60 {
        let mut k = Builder::new("law", Arch::Sm80, THREADS as u32);
        let out = k.scalar_argument("out", Type::U64);
        let tid = k.thread();
        let mut functions = Vec::new();
        let mut slot = 0;
        let mut store = |k: &mut Builder, index: &Index| {
            let fits =
                index.range().0 >= i64::from(i32::MIN) && index.range().1 <= i64::from(u32::MAX);
            let value = if random_bool(slot) || !fits {
                k.wide_value(index)
            } else {
                let value = k.value(index);
                assert_eq!(value.ty, RegType::B32, "{index}");
                value
            };
            let ty = if value.ty == RegType::B64 {
                Type::U64
            } else {
                Type::U32
            };
            let base = k.index_of(out, 0..1 << 48);
            let place = base + k.thread() * 8 + slot * 8 * THREADS;
            let address = k.address(&place, true);
            k.emit(|k| k.store(Access::new(Space::Global, ty), address, value));
            slot += 1;
            ty
        };
        for _ in 0..12 {
            let (index, f) = tree(&mut random, &tid, 4);
            if index.range().0 < -(1 << 40) || index.range().1 > 1 << 40 {
                continue;
            }
            let ty = store(&mut k, &index);
            functions.push((f, ty));
        }
        // What needs 64 bits on the way, and 32 at the end.
        let wide = &tid * (1_i64 << 31) + 77;
        let narrow: [(Index, OfNumber); 6] = [
            (&wide / 80, |x| x / 80),
            (&wide % 80, |x| x % 80),
            (&wide / 4096, |x| x / 4096),
            (&wide % 64 + &tid, |x| x % 64 + (x >> 31)),
            (tid.min(&(&tid * (1_i64 << 32))), |x| x >> 31),
            ((&tid * (1_i64 << 32)).min(&tid) + 1, |x| (x >> 31) + 1),
        ];
        for (index, of) in narrow {
            let ty = store(&mut k, &index);
            functions.push((Box::new(move |t: i64| of(t * (1 << 31) + 77)), ty));
        }
        // Numbers of which one needs a sign, and the other all 32 bits.
        let many = k.emit(|ir| ir.mov(Type::U32, 3_000_000_000_i64));
        let many = k.index_of(many, 1..1 << 32);
        let mixed: [(Index, OfNumber); 4] = [
            ((&tid - 5).min(&many), |t| t - 5),
            (many.min(&(&tid - 5)), |t| t - 5),
            ((&tid - 5) / &many, |t| if t < 5 { -1 } else { 0 }),
            ((&tid - 5) % &many, |t| (t - 5).rem_euclid(3_000_000_000)),
        ];
        for (index, of) in mixed {
            let ty = store(&mut k, &index);
            functions.push((Box::new(of), ty));
        }
        let mut ty = Type::U32;
        k.for_(round % 3, 7, 3, |k, i| {
            let two = (&tid + i * 5) / 3 + i;
            ty = store(k, &two);
        });
        let last = (7 - 1 - round % 3) / 3 * 3 + round % 3;
        functions.push((Box::new(move |t| (t + last * 5) / 3 + last), ty));
        let built = k.finish().expect("expressions lower");
        let mut memory = Memory::default();
        let count = functions.len() as u64 * 8 * THREADS as u64;
        let at = memory.allocate(count).unwrap();
        memory
            .write(at, &vec![0xaa; count as usize])
            .expect("allocated");
        let launch = Launch::new(1, THREADS as u32);
        simulate(
            &built.kernel,
            &launch,
            &[Argument::Pointer(at)],
            &mut memory,
            &SimOptions::default(),
        )
        .unwrap_or_else(|fault| panic!("{fault}"));
        for (slot, (f, ty)) in functions.iter().enumerate() {
            for t in 0..THREADS {
                let at = at + (slot as u64 * THREADS as u64 + t as u64) * 8;
                let bytes = memory
                    .read(at, u64::from(ty.bits() / 8))
                    .expect("allocated");
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(&bytes);
                let expected = if *ty == Type::U32 {
                    f(t) & 0xffff_ffff
                } else {
                    f(t)
                };
                assert_eq!(
                    i64::from_le_bytes(word),
                    expected,
                    "expression {slot} of round {round} at {t}"
                );
                cases += 1;
            }
        }
    }
    println!("law index.lowers: {cases} values");
}

fn random_bool(slot: i64) -> bool {
    slot % 3 == 2
}

/// A choice is one of the two, and lies in its range.
#[test]
fn law_index_selects() {
    let mut random = Random(7);
    let mut cases = 0;
    for _ in 0..4000 {
        let [(a, f), (b, g), (x, p), (y, q)] = [0; 4].map(|_| tree(&mut random, &thread(), 2));
        let chosen = Index::select_less(&a, &b, &x, &y);
        let (low, high) = chosen.range();
        for t in 0..THREADS {
            let right = if f(t) < g(t) { p(t) } else { q(t) };
            assert_eq!(chosen.eval(&|_| Some(t)), Some(right), "{chosen} at {t}");
            assert!(
                (low..=high).contains(&right),
                "{chosen} at {t} is {right}, not {low}..={high}"
            );
            assert_eq!(right % chosen.alignment(), 0, "{chosen} at {t}");
            cases += 1;
        }
    }
    println!("law index.selects: {cases} values");
}

/// Every call by which an author says what the kernel cannot know.
#[derive(Clone, Copy, Debug)]
enum Declares {
    First,
    Set,
    Touch,
    IndexOf,
    IndexWith,
    Special,
    Within,
}

/// An integer whose value in thread `t` is `first + step t`, declared to lie in a range and to be a multiple.
fn declared(
    k: &mut Builder,
    by: Declares,
    [first, step]: [i64; 2],
    range: std::ops::Range<i64>,
    multiple: i64,
) -> Index {
    let value = k.thread() * step + first;
    match by {
        Declares::First => {
            let var = k.var(value, range);
            k.get(&var)
        }
        Declares::Set => {
            let var = k.var(range.start, range);
            k.set(&var, value);
            k.get(&var)
        }
        Declares::Touch => {
            let var = k.var(range.start, range);
            let (value, register) = (k.value(&value), k.variable(&var));
            k.emit(|ir| ir.mov_to(register, value));
            k.touch(&var);
            k.get(&var)
        }
        Declares::IndexOf | Declares::IndexWith => {
            let value = k.value(&value);
            k.index_with(value, range, multiple)
        }
        Declares::Special => k.special(colex_ir::Special::LaneId, range),
        Declares::Within => {
            let value = k.value(&value);
            let wider = k.index_of(value, -40..400);
            k.within(wider, range)
        }
    }
}

/// Where a declaration holds, what follows from it is right, and elsewhere the simulator names it.
#[test]
fn law_declared_ranges_are_checked() {
    let mut random = Random::new(11);
    let (mut cases, mut broken) = (0, 0);
    for i in 0..900 {
        let by = [
            Declares::First,
            Declares::Set,
            Declares::Touch,
            Declares::IndexOf,
            Declares::IndexWith,
            Declares::Special,
            Declares::Within,
        ][i % 7];
        let [first, step] = match by {
            Declares::Special => [0, 1],
            Declares::Within => [random.below(60) - 20, random.below(4)],
            _ => [random.below(60), random.below(4)],
        };
        let multiple = match by {
            Declares::IndexWith => 1 << random.below(4),
            _ => 1,
        };
        let low = random.below(30);
        let range = low..low + 1 + random.below(150);
        let by_definition = |t: i64| first + step * t;
        let holds = |t: i64| range.contains(&by_definition(t)) && by_definition(t) % multiple == 0;
        let mut k = Builder::new("k", Arch::Sm80, 32);
        let x = declared(&mut k, by, [first, step], range.clone(), multiple);
        let divisor = 1 + random.below(20);
        let found = colex_proof::examples::values(k, &(&x % divisor + &x / divisor * 1000));
        cases += 1;
        match found {
            Ok(found) => {
                let right = |(t, found): (i64, &i32)| {
                    let x = by_definition(t);
                    i64::from(*found) == x % divisor + x / divisor * 1000
                };
                assert!(
                    (0..32).all(holds),
                    "{by:?} {first} {step} {range:?} {multiple}"
                );
                assert!(
                    (0..).zip(&found).all(right),
                    "{by:?} {first} {step} {range:?}"
                );
            }
            Err(said) => {
                let said = said.to_string();
                assert!(
                    !(0..32).all(holds),
                    "{by:?} {first} {step} {range:?} {multiple}: {said}"
                );
                assert!(
                    said.contains("the kernel declares here that it is")
                        || said.contains("never in"),
                    "{said}"
                );
                broken += 1;
            }
        }
    }
    assert!(broken > cases / 4 && broken < cases, "{broken} of {cases}");
    println!("law declared_ranges: {cases} cases");
}

/// The lower end of a declaration about a register with a sign is tested on a GPU too.
#[test]
fn a_number_below_a_declared_range_traps() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let minus = k.thread() - 3;
    let minus = k.value(&minus);
    let minus = k.index_of(minus, -8..64);
    k.within(minus, 0..64);
    let text = k
        .finish()
        .expect("a kernel")
        .kernel
        .ptx()
        .expect("it is accepted");
    let is_lower = |line: &&str| line.contains("setp.lt.s64") && line.ends_with(", 0;");
    assert_eq!(text.lines().filter(is_lower).count(), 1, "{text}");
    assert!(text.contains("trap;"), "{text}");
}

#[test]
fn a_declaration_that_does_not_hold_is_named() {
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let (turns, lane) = (k.var(0, 0..3), k.lane());
    k.set(&turns, lane);
    let now = k.get(&turns);
    let said = colex_proof::examples::values(k, &now)
        .unwrap_err()
        .to_string();
    // The thread decides it, so the launch does.
    let (value, rest) = said.split_once(" (gpu/").expect("a value and a place");
    assert_eq!(
        value,
        "an integer is 31 in block (0,0,0), and the kernel declares here that it is 0 to 2"
    );
    let (place, what) = rest.split_once("): ").expect("a place and a sentence");
    assert!(place.contains("index_laws.rs:"), "{place}");
    assert_eq!(what, "what follows from the declaration would be wrong");
    let mut k = Builder::new("k", Arch::Sm80, 32);
    let six = k.emit(|ir| ir.mov(Type::U32, 6));
    let index = k.index_with(six, 0..64, 4);
    let said = colex_proof::examples::values(k, &index)
        .unwrap_err()
        .to_string();
    assert!(said.contains("is 0 to 63 and a multiple of 4: "), "{said}");
}
