//! Elements at places that are data: gathers, scatters, atomic operations, compare-and-swap, vectors with a rest, windows; and
//! expressions and dumps of what is there.

use colex_atom::{Arch, Class, FloatFormat, Rounding, Ty};
use colex_gpu::ir::{AtomicOp, Kernel};
use colex_gpu::sim::{self, PrintTo, SimOptions};
use colex_gpu::tensor::{Builder, Dump, Error, Expr, Index, Outside};

use crate::copies::{layout, parameter, shared};
use crate::hook::{Hook, Kind, Random};
use crate::reference::{Given, Memory, encode, memory};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    let all: [(
        &'static str,
        fn(&mut Hook, &mut Random) -> Result<Program, Error>,
    ); 8] = [
        ("gather", gather),
        ("rows", rows),
        ("atomic", atomic),
        ("compare and swap", swap),
        ("vectors and rest", run),
        ("windows", windows),
        ("expression", expression),
        ("dump", dump),
    ];
    all.map(|(name, build)| Family { name, build }).into()
}

const THREADS: i64 = 32;

/// A kernel whose blocks have as many threads as the hook says, and their number.
fn scene(h: &mut Hook, name: &str, arch: Arch) -> (Builder, i64) {
    let threads = h.count("Builder::new", THREADS);
    let block = u32::try_from(threads).unwrap_or(0);
    (Builder::new(name, arch, block), block.into())
}

/// One number for each thread of the grid; those of blocks off the first row are beyond every tensor.
fn number(k: &mut Builder, threads: i64) -> Index {
    let thread = k.thread();
    let [x, y, z] = [0, 1, 2].map(|axis| k.block_index(axis) % 512);
    (x + y * 512 + z * 512) * threads.clamp(1, 1024) + thread
}

fn blocks_of(given: &Given, each: i64) -> [u32; 3] {
    [((memory(given).extent(0) + each - 1) / each) as u32, 1, 1]
}

fn line(n: i64) -> String {
    format!("{n}:1")
}

/// The number at one coordinate, as an integer.
fn at(memory: &Memory, i: i64) -> i64 {
    memory.get(&[i]) as i64
}

fn result(all: &mut [Given], i: usize) -> &mut Memory {
    let Given::Tensor(memory) = &mut all[i] else {
        unreachable!("a tensor")
    };
    memory
}

/// The treatments of what lies outside that a GPU has too.
const OUTSIDE: [Outside; 3] = [Outside::Skip, Outside::Clamp, Outside::Trap];

/// The coordinate that an access takes, if there is one.
fn taken(outside: Outside, i: i64, extent: i64) -> Option<i64> {
    match outside {
        Outside::Clamp => Some(i.clamp(0, extent - 1)),
        _ => (0..extent).contains(&i).then_some(i),
    }
}

/// `out(i) = table(ids(i), c)` for every second `i` or all of them.
fn gather(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "gather", Arch::Sm80);
    let ty = r.one(&[Ty::F16, Ty::Bf16, Ty::F32, Ty::F64, Ty::S32]);
    let (n, rows, columns) = (r.range(20, 90), r.range(2, 9), r.range(2, 9));
    let ids = parameter(h, &mut k, "ids", Ty::S32, "100:1");
    let table = parameter(h, &mut k, "table", ty, "(100,96):(96,_1)");
    let out = parameter(h, &mut k, "out", ty, "100:1");
    let own = r.one(&OUTSIDE[..2]);
    let others: Vec<Outside> = OUTSIDE.into_iter().filter(|o| *o != own).collect();
    let outside = h.pick("outside", Kind::Operation, own, &others);
    let column = r.range(0, columns - 1);
    let i = number(&mut k, threads);
    let id = k.gather(&ids.elements(h.moved("gather", "ids", &i)));
    let place = h.moved("gather", "column", &column.into());
    let row = Expr::from(&id)
        + h.moved("gather", "row", &0.into())
            .as_constant()
            .unwrap_or(0);
    let parity = r.range(0, 1);
    let mask = h.pick("only", Kind::Operation, parity, &[1 - parity, 2]);
    let only = (Expr::from(&i) & mask).equals(0);
    let found = k.gather(&table.elements((row, place)).outside(outside).only(only));
    k.scatter(&found, &out.elements(h.moved("scatter", "out", &i)));
    let [from, row, moved, to] = ["ids", "row", "column", "out"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(Ty::S32, &line(n), r.range(1, 9)),
            tensor(ty, &format!("({rows},{columns}):({},_1)", columns + 1), 1),
            target(ty, &line(n + r.range(-3, 3))),
        ],
        cluster: 1,
        grid: |given| blocks_of(&given[2], THREADS),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [ids, table] = [0, 1].map(|i| memory(&given[i]).clone());
            let out = result(&mut all, 2);
            for i in 0..i64::from(blocks_of(&given[2], THREADS)[0]) * threads {
                let id = at(&ids, i + from) + row;
                let place = taken(outside, id, table.extent(0))
                    .zip(taken(outside, column + moved, table.extent(1)))
                    .filter(|_| i & mask == 0);
                out.set(&[i + to], place.map_or(0.0, |(m, n)| table.get(&[m, n])));
            }
            all
        }),
    })
}

/// `out(i, :) = table(ids(i), :)` in vectors along the second mode.
fn rows(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "rows", Arch::Sm80);
    let (ty, vector) = r.one(&[
        (Ty::F16, 8),
        (Ty::F16, 2),
        (Ty::F32, 4),
        (Ty::F64, 2),
        (Ty::S32, 2),
    ]);
    let (n, rows, parts) = (r.range(20, 90), r.range(2, 9), r.range(1, 3));
    let ids = parameter(h, &mut k, "ids", Ty::S32, "100:1");
    let table = parameter(h, &mut k, "table", ty, "(100,96):(96,_1)");
    let out = parameter(h, &mut k, "out", ty, "(100,96):(96,_1)");
    let i = number(&mut k, threads);
    let id = k.gather(&ids.elements(h.moved("gather", "ids", &i)));
    let part = r.range(0, parts - 1);
    let columns = ["column", "to"].map(|name| h.moved("vectors", name, &(part * vector).into()));
    let counts = [h.count("vectors", vector), h.count("vectors", vector)];
    let row = k.gather(&table.elements((&id, &columns[0])).vectors(1, counts[0]));
    k.scatter(&row, &out.elements((&i, &columns[1])).vectors(1, counts[1]));
    let [from, column, to] = ["ids", "column", "to"].map(|name| h.shift(name));
    let width = parts * vector;
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(Ty::S32, &line(n), r.range(1, 9)),
            tensor(ty, &format!("({rows},{width}):({},_1)", width + vector), 1),
            target(ty, &format!("({n},{width}):({width},_1)")),
        ],
        cluster: 1,
        grid: |given| blocks_of(&given[2], THREADS),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [ids, table] = [0, 1].map(|i| memory(&given[i]).clone());
            let out = result(&mut all, 2);
            for i in 0..i64::from(blocks_of(&given[2], THREADS)[0]) * threads {
                let id = at(&ids, i + from);
                for v in 0..counts[1] {
                    // One element stands for each of a vector.
                    let e = if counts[0] == 1 { 0 } else { v };
                    let x = table.get(&[id, part * vector + column + e]);
                    out.set(&[i, part * vector + to + v], x);
                }
            }
            all
        }),
    })
}

/// An operation on small integers.
fn applied(op: AtomicOp, a: f64, b: f64) -> f64 {
    let bits = |f: fn(i32, i32) -> i32| f64::from(f(a as i32, b as i32));
    match op {
        AtomicOp::Add => a + b,
        AtomicOp::Min => a.min(b),
        AtomicOp::Max => a.max(b),
        AtomicOp::And => bits(|a, b| a & b),
        AtomicOp::Or => bits(|a, b| a | b),
        AtomicOp::Xor => bits(|a, b| a ^ b),
        // No form has one of the others.
        _ => f64::NAN,
    }
}

/// Bins in shared memory or in global memory, which begin as they were; each value goes into the bin of its id.
fn atomic(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    const ALL: [AtomicOp; 6] = [
        AtomicOp::Add,
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
    ];
    let (mut k, threads) = scene(h, "atomic", Arch::Sm80);
    let ty = r.one(&[Ty::S32, Ty::S32, Ty::F32, Ty::F64]);
    let op = match ty {
        Ty::S32 => r.one(&ALL),
        _ => AtomicOp::Add,
    };
    let (n, count) = (r.range(20, 90), r.range(2, 32));
    let (is_shared, keeps) = (r.below(2) == 0, r.below(2) == 0);
    let ids = parameter(h, &mut k, "ids", Ty::S32, "100:1");
    let values = parameter(h, &mut k, "values", ty, "100:1");
    let bins = parameter(h, &mut k, "bins", ty, "32:1");
    let local = shared(h, &mut k, ty, "Sw<0,4,3>", "32:1");
    let reach = local.layout().size();
    let others: Vec<AtomicOp> = ALL.into_iter().filter(|other| *other != op).collect();
    let op = h.pick("atomic", Kind::Operation, op, &others);
    let i = number(&mut k, threads);
    let thread = k.thread();
    let id = k.gather(&ids.elements(h.moved("gather", "ids", &i)));
    let value = k.gather(&values.elements(h.moved("gather", "values", &i)));
    let bin = Expr::from(&id)
        + h.moved("atomic", "bin", &0.into())
            .as_constant()
            .unwrap_or(0);
    let extent = h.moved("only", "extent", &ids.extent(0));
    let is_there = Expr::from(&i).lt(&extent);
    let used = if is_shared { &local } else { &bins };
    if is_shared {
        let first = k.gather(&bins.elements(&thread));
        k.scatter(&first, &local.elements(&thread));
        k.sync();
    }
    let at_bin = used.elements(&bin).only(is_there);
    if keeps {
        k.atomic(op, &at_bin, &value);
    } else {
        k.atomic_update(op, &at_bin, &value);
    }
    if is_shared {
        k.sync();
        let last = k.gather(&local.elements(&thread));
        k.scatter(&last, &bins.elements(&thread));
    }
    let [from, of, bin, extent] = ["ids", "values", "bin", "extent"].map(|name| h.shift(name));
    let first = r.range(1, 9);
    let given = vec![
        tensor(
            Ty::S32,
            &line(if is_shared { n.min(THREADS) } else { n }),
            first,
        ),
        tensor(ty, &line(n), r.range(1, 9)),
        tensor(ty, &line(count), r.range(1, 9)),
    ];
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given,
        cluster: 1,
        grid: |given| blocks_of(&given[0], THREADS),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [ids, values] = [0, 1].map(|i| memory(&given[i]).clone());
            let bins = result(&mut all, 2);
            let blocks = i64::from(blocks_of(&given[0], THREADS)[0]);
            for i in 0..(blocks * threads).min(ids.extent(0) + extent) {
                let bin = at(&ids, i + from) + bin;
                let x = applied(op, bins.get(&[bin]), values.get(&[i + of]));
                bins.set(&[bin], x);
            }
            // What the shared tensor has no place for comes back as 0.
            if is_shared {
                (reach..threads).for_each(|i| bins.set(&[i], 0.0));
            }
            all
        }),
    })
}

/// `table(i)` becomes `new` where it is `expected`; `out(i)` is what it was.
fn swap(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "swap", Arch::Sm80);
    let ty = r.one(&[Ty::S32, Ty::F16, Ty::F32, Ty::F64]);
    let n = r.range(20, 90);
    let table = parameter(h, &mut k, "table", ty, "100:1");
    let out = parameter(h, &mut k, "out", ty, "100:1");
    let [old, new] = [r.range(-5, 5), r.range(6, 9)].map(|x| h.count("compare_and_swap", x));
    let i = number(&mut k, threads);
    let place = h.moved("compare_and_swap", "at", &i);
    let before = k.compare_and_swap(&table.elements(place), Expr::from(old), Expr::from(new));
    k.scatter(&before, &out.elements(h.moved("scatter", "out", &i)));
    let [moved, to] = ["at", "out"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![tensor(ty, &line(n), r.range(1, 9)), target(ty, &line(n))],
        cluster: 1,
        grid: |given| blocks_of(&given[1], THREADS),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let table = memory(&given[0]).clone();
            for i in 0..i64::from(blocks_of(&given[1], THREADS)[0]) * threads {
                let found = table.get(&[i + moved]);
                result(&mut all, 1).set(&[i + to], found);
                if encode(ty, found) == encode(ty, old as f64) {
                    result(&mut all, 0).set(&[i + moved], new as f64);
                }
            }
            all
        }),
    })
}

/// `z(i) = x(i) + y(i)` in vectors, and the rest one by one.
fn run(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "run", Arch::Sm80);
    let (ty, width) = r.one(&[
        (Ty::F16, 8),
        (Ty::F16, 4),
        (Ty::F16, 2),
        (Ty::Bf16, 8),
        (Ty::Bf16, 4),
        (Ty::F32, 4),
        (Ty::F32, 2),
        (Ty::F64, 2),
        (Ty::S32, 4),
        (Ty::S32, 2),
    ]);
    let n = width * THREADS * r.range(0, 1) + r.range(1, width * THREADS - 1);
    let [x, y, z] = ["x", "y", "z"].map(|name| parameter(h, &mut k, name, ty, "100:_1"));
    let i = number(&mut k, threads);
    let first = h.moved("for_vector", "first", &(i * width));
    let extent = h.moved("for_vector", "extent", &z.extent(0));
    let own = width;
    let width = h.count("for_vector", own);
    k.for_vector(first, &extent, width, |k, run| {
        let [x, y] = [&x, &y].map(|tensor| k.gather(&run.of(tensor, ())));
        k.scatter(&x + &y, &run.of(&z, ()));
    });
    let [first, extent] = ["first", "extent"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &line_of_ones(n), 1),
            tensor(ty, &line_of_ones(n), 2),
            target(ty, &line_of_ones(n)),
        ],
        cluster: 1,
        grid: match own {
            8 => |given| blocks_of(&given[2], 8 * THREADS),
            4 => |given| blocks_of(&given[2], 4 * THREADS),
            _ => |given| blocks_of(&given[2], 2 * THREADS),
        },
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [x, y] = [0, 1].map(|i| memory(&given[i]).clone());
            let blocks = i64::from(blocks_of(&given[2], own * THREADS)[0]);
            let z = result(&mut all, 2);
            let end = z.extent(0) + extent;
            for thread in 0..blocks * threads {
                for i in (0..width).map(|e| thread * own + first + e) {
                    if i < end {
                        z.set(&[i], x.get(&[i]) + y.get(&[i]));
                    }
                }
            }
            all
        }),
    })
}

fn line_of_ones(n: i64) -> String {
    format!("{n}:_1")
}

const TILE: [i64; 2] = [6, 8];

/// The sum of a window at each place of a tile in shared memory.
fn windows(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "windows", Arch::Sm80);
    let ty = r.one(&[Ty::F16, Ty::F32, Ty::F64, Ty::S32]);
    let own = r.one(&[[3, 3], [2, 3], [1, 4], [3, 1]]);
    let [m, n] = [r.range(2, TILE[0]), r.range(2, TILE[1])];
    let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
    let dst = parameter(h, &mut k, "dst", ty, "(100,96):(96,_1)");
    let pitch = TILE[1] + r.range(0, 2);
    let tile = shared(
        h,
        &mut k,
        ty,
        "Sw<0,4,3>",
        &format!("({},{}):({pitch},1)", TILE[0], TILE[1]),
    );
    let held = [0, 1].map(|mode| tile.layout().mode(mode).map_or(1, |mode| mode.size()));
    let [i, thread] = [number(&mut k, threads), k.thread()];
    let is_first = Expr::from(&i).lt(threads.clamp(1, 1024));
    for j in 0..2 {
        let e = &thread + j * threads.clamp(1, 1024);
        let at = (&e / TILE[1], &e % TILE[1]);
        let x = k.gather(&src.elements(at.clone()));
        k.scatter(&x, &tile.elements(at));
    }
    k.sync();
    let window = h.tile("windows", own);
    let all = tile.windows((window[0], window[1]));
    let by = ["row", "column"].map(|name| h.moved("windows", name, &0.into()));
    for j in 0..2 {
        let e = &thread + j * threads.clamp(1, 1024);
        let [row, column] = [&e / TILE[1] + &by[0], &e % TILE[1] + &by[1]];
        let sum = k.fragment(ty, "_1:_1");
        k.clear(&sum);
        for a in 0..own[0] {
            for b in 0..own[1] {
                let x = k.gather(&all.elements((&row, &column, a, b)));
                k.assign(&sum, &sum + &x);
            }
        }
        let to = (&e / TILE[1], &e % TILE[1]);
        k.scatter(&sum, &dst.elements(to).only(is_first.clone()));
    }
    let by = ["row", "column"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({m},{n}):({},_1)", n + 1), 1),
            target(ty, &format!("({m},{n}):({n},_1)")),
        ],
        cluster: 1,
        grid: |_| [1, 1, 1],
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let src = memory(&given[0]).clone();
            let inside =
                |at: [i64; 2], of: [i64; 2]| at.iter().zip(of).all(|(x, n)| (0..n).contains(x));
            let places = [0, 1].map(|i| held[i] - window[i] + 1);
            let dst = result(&mut all, 1);
            for e in 0..2 * threads {
                let to = [e / TILE[1], e % TILE[1]];
                let at = [0, 1].map(|i| to[i] + by[i]);
                let mut sum = 0.0;
                for (a, b) in (0..own[0]).flat_map(|a| (0..own[1]).map(move |b| (a, b))) {
                    let from = [at[0] + a, at[1] + b];
                    // The tile holds what it has places for, and what was stored there.
                    let is_stored = inside(from, held)
                        && (from[0] * TILE[1] + from[1]) < 2 * threads
                        && from[1] < TILE[1];
                    if inside(at, places) && inside([a, b], window) && is_stored {
                        sum += src.get(&from);
                    }
                }
                dst.set(&to, sum);
            }
            all
        }),
    })
}

/// A formula of two inputs, whose operations, constants and types the hook changes.
fn formula(h: &mut Hook, r: &mut Random, ty: Ty) -> Expr {
    type Op = fn(&Expr, &Expr) -> Expr;
    const OPS: [Op; 6] = [
        |a, b| a + b,
        |a, b| a - b,
        |a, b| a * b,
        |a, b| a.min(b),
        |a, b| a.max(b),
        |a, b| a.lt(b).select(a, b),
    ];
    let op = |h: &mut Hook, r: &mut Random| {
        let own = r.below(OPS.len());
        let others: Vec<usize> = (0..OPS.len()).filter(|i| *i != own).collect();
        OPS[h.pick("operator", Kind::Operation, own, &others)]
    };
    let [x, y] = [0, 1].map(|i| Expr::input(i, ty));
    let (first, second) = (op(h, r), op(h, r));
    let constant = Expr::from(h.count("constant", r.range(1, 9)));
    let via = h.ty("to", r.one(&[Ty::F32, Ty::F64, Ty::S32]));
    let inner = first(&x, &y).to(via);
    let other = h.ty("to", via);
    second(&inner, &(y.to(other) * constant)).to(ty)
}

/// `z(i) = f(x(i), y(i))`, a few elements for each thread.
fn expression(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "expression", Arch::Sm90);
    let ty = r.one(&[Ty::F16, Ty::Bf16, Ty::F32, Ty::F64, Ty::S32]);
    let each = r.one(&[1, 2, 4]);
    let n = r.range(20, 120);
    let [x, y, z] = ["x", "y", "z"].map(|name| parameter(h, &mut k, name, ty, "100:1"));
    let formula = formula(h, r, ty);
    let of = h.pick("over", Kind::Operation, [0, 1], &[[1, 0], [0, 0], [1, 1]]);
    let i = number(&mut k, threads) * each;
    let form = h.layout("fragment", Kind::Layout, &layout(&format!("_{each}:_1")));
    let steps = k.fragment(Ty::S32, layout(&format!("_{each}:_1")));
    for e in 0..each {
        k.assign(&steps.values(e, 1), e);
    }
    let place = |name: &'static str, h: &mut Hook, call: &'static str| {
        Expr::from(h.moved(call, name, &i)) + &steps
    };
    let [x, y] = [(&x, "x"), (&y, "y")].map(|(tensor, name)| {
        let at = place(name, h, "gather");
        k.gather(&tensor.elements(at))
    });
    let inputs = of.map(|i| [&x, &y][i]);
    let held = k.fragment(ty, form.to_static());
    k.assign(&held, formula.over(inputs));
    k.scatter(&held, &z.elements(place("z", h, "scatter")));
    let [from_x, from_y, to] = ["x", "y", "z"].map(|name| h.shift(name));
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90,
        given: vec![
            tensor(ty, &line(n), 1),
            tensor(ty, &line(n), 2),
            target(ty, &line(n)),
        ],
        cluster: 1,
        grid: |given| blocks_of(&given[2], THREADS),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [x, y] = [0, 1].map(|i| memory(&given[i]).clone());
            let blocks = i64::from(blocks_of(&given[2], THREADS)[0]);
            let z = result(&mut all, 2);
            for i in 0..blocks * threads * each {
                let own = [x.get(&[i + from_x]), y.get(&[i + from_y])];
                let bits = of.map(|i| bits_of(ty, own[i]));
                let bits = formula.evaluate(&bits).expect("two inputs");
                z.set(&[i + to], number_of(ty, bits));
            }
            all
        }),
    })
}

fn bits_of(ty: Ty, x: f64) -> u64 {
    match FloatFormat::of(ty) {
        Some(of) => of.encode(x, Rounding::Nearest),
        None => x as i64 as u64 & (u64::MAX >> (64 - ty.bits())),
    }
}

fn number_of(ty: Ty, bits: u64) -> f64 {
    let above = 64 - ty.bits();
    match ty.class() {
        Class::Integer { signed: true } => ((bits << above) as i64 >> above) as f64,
        Class::Integer { signed: false } => bits as f64,
        _ => FloatFormat::of(ty).map_or(0.0, |of| of.decode(bits)),
    }
}

/// A number and a thread's own are shown, as numbers of a type, in some of the threads.
fn dump(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let (mut k, threads) = scene(h, "dump", Arch::Sm90);
    let each = r.one(&[1, 2, 4]);
    let n = k.index_argument("n", 0..1 << 20);
    let thread = k.thread();
    let registers = h.layout("fragment", Kind::Layout, &layout(&format!("_{each}:_1")));
    let held = k.fragment(Ty::S32, registers.to_static());
    k.assign(&held, Expr::from(&thread) + Expr::from(&n));
    let ty = h.ty("dump", Ty::S32);
    let shown = Expr::from(&held).to(ty);
    let name = h.pick("dump", Kind::Operation, "x", &["", "a b", "y", "x\n", "é"]);
    let mut what = Dump::of(&shown);
    let number = h.count("dump thread", r.range(0, THREADS - 1));
    let at = h.tile("dump block", [r.range(1, 2), 0, 0]);
    let end = h.count("dump when", r.range(1, THREADS));
    // Each of the three in turn, and two of them together.
    let form = r.below(4);
    let own = (form == 0).then_some(number);
    let block = (form == 1 || form == 3).then_some(at);
    let less = (form >= 2).then_some(end);
    if let Some(number) = own {
        what = what.thread(number);
    }
    if let Some(at) = block {
        what = what.block(at);
    }
    if let Some(end) = less {
        let some = k.less(&thread, &end.into());
        what = what.when(some);
    }
    k.dump(name, what);
    let count = registers.size();
    let built = k.finish()?;
    let kernel = built.kernel.clone();
    Ok(Program {
        built,
        arch: Arch::Sm90,
        given: vec![Given::Number(r.range(0, 9) as u32)],
        cluster: 1,
        grid: |_| [3, 1, 1],
        expected: Box::new(move |given| {
            let Given::Number(n) = given[0] else {
                unreachable!("a number")
            };
            let mut lines = Vec::new();
            for x in 0..3 {
                for t in 0..threads {
                    if own.is_some_and(|own| own != t)
                        || block.is_some_and(|at| at != [x, 0, 0])
                        || less.is_some_and(|end| t >= end)
                    {
                        continue;
                    }
                    let input = Expr::input(0, Ty::S32).to(ty);
                    let bits = input.evaluate(&[(t + i64::from(n)) as u64]);
                    let value = bits.map(|bits| number_of(ty, bits)).unwrap_or(f64::NAN);
                    let elements: Vec<String> =
                        (0..count).map(|i| format!("[{i}]={value}")).collect();
                    for part in elements.chunks(8) {
                        let all = part.join(" ");
                        lines.push(format!("block ({x},0,0) thread ({t},0,0) {name} {all}"));
                    }
                }
            }
            let found = printed(&kernel, threads as u32, n);
            lines.sort();
            assert_eq!(found, lines, "of {kernel:?}");
            given.to_vec()
        }),
    })
}

/// The lines that a kernel prints, sorted.
fn printed(kernel: &Kernel, threads: u32, n: u32) -> Vec<String> {
    let options = SimOptions {
        print_to: PrintTo::Report,
        ..SimOptions::default()
    };
    let launch = colex_gpu::Launch::new(3, threads);
    let report = sim::simulate(
        kernel,
        &launch,
        &[n.into()],
        &mut sim::Memory::default(),
        &options,
    );
    let mut lines: Vec<String> = match report {
        Ok(report) => report.printed.into_iter().map(|line| line.text).collect(),
        Err(fault) => vec![fault.to_string()],
    };
    lines.sort();
    lines
}
