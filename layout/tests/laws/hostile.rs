//! Sizes, strides and nestings at the ends of what a layout can be: every public operation answers within its bound.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use colex_atom::{Access, Banks, choose_swizzle, choose_swizzle_for};
use colex_draw::{ColorBy, LabelBy, Table, ThreadValues, Tiling};
use colex_layout::{
    Coord, Error, Explanation, Int, IntTuple, Layout, LayoutLeft, LayoutRight, Slot, Stride,
    Swizzle, TABLE_BOUND, Tiler, Tuple, Unbounded,
};

use colex_tiled::Vectorization;

use crate::law::law;
use crate::small;

/// What one call may take, in the optimised dev profile: a tenth of a second, but half a second for what is linear in
/// a text of 10^6 characters or a list of many elements, or reads the 2^16 coordinates of a search several times. The fastest of several tries counts.
const LIMIT: Duration = Duration::from_millis(100);
const LINEAR: Duration = Duration::from_millis(500);
/// A call whose thread has run for this long, in at most five tries, counts as one that hangs.
const HANGS: Duration = Duration::from_secs(8);
/// A call that has not returned after this long counts as one that hangs, even if its thread waits.
const WAITS: Duration = Duration::from_secs(120);

type Call = Box<dyn Fn() + Send>;

/// What is said of the widest vector of two layouts.
fn vectorization(a: &Layout, b: &Layout, bits: i64, alignment: i64) -> Result<String, String> {
    let found = Vectorization::new(a, b, bits, alignment);
    found
        .map(|v| v.to_string())
        .map_err(|error| error.to_string())
}

/// The calls that hang, panic or take too long, with what is wrong about them.
fn failures(calls: Vec<(String, Call)>, limit: Duration, hangs: Duration) -> Vec<String> {
    let mut failures = Vec::new();
    let calls = Arc::new(Mutex::new(VecDeque::from(calls)));
    while !calls.lock().expect("no thread holds it").is_empty() {
        // A call that hangs keeps its thread; another one takes those that are left.
        let (sender, receiver) = mpsc::channel();
        let left = Arc::clone(&calls);
        thread::spawn(move || {
            let clock = Clock::of_this_thread();
            loop {
                let next = left.lock().expect("no call holds it").pop_front();
                let Some((name, call)) = next else { return };
                let starts = Report::Starts(name.clone(), clock.clone());
                if sender.send(starts).is_err() {
                    return;
                }
                let ends = Report::Ends(name, timed(&call, limit, &clock));
                if sender.send(ends).is_err() {
                    return;
                }
            }
        });
        let mut running = Running::default();
        loop {
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(Report::Starts(name, clock)) => running = Running::new(name, clock),
                Ok(Report::Ends(_, Ok(()))) => {}
                Ok(Report::Ends(name, Err(why))) => failures.push(format!("{name} {why}")),
                Err(mpsc::RecvTimeoutError::Timeout) if !running.hangs(hangs) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    failures.push(format!("{} hangs", running.name));
                    break;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    failures
}

/// What a thread tells of its calls.
enum Report {
    Starts(String, Clock),
    Ends(String, Result<(), String>),
}

/// A call under way, and what the clocks showed when it started.
struct Running {
    name: String,
    clock: Clock,
    busy: Option<Duration>,
    start: Instant,
}

impl Running {
    fn new(name: String, clock: Clock) -> Running {
        Running {
            name,
            busy: clock.busy(),
            clock,
            start: Instant::now(),
        }
    }

    /// Whether the call has run for longer than any call may. Other processes take time too, so
    /// the time of day counts only after much longer, or where the system has no clock of a thread.
    fn hangs(&self, limit: Duration) -> bool {
        let waited = self.start.elapsed();
        let own = self.busy.and_then(|from| Some(self.clock.busy()? - from));
        waited > WAITS || own.unwrap_or(waited) > limit
    }
}

impl Default for Running {
    fn default() -> Running {
        Running::new(String::new(), Clock(None))
    }
}

/// Where the system tells how long a thread has run.
#[derive(Clone)]
struct Clock(Option<PathBuf>);

impl Clock {
    fn of_this_thread() -> Clock {
        let folder = std::fs::canonicalize("/proc/thread-self").ok();
        Clock(folder.map(|folder| folder.join("schedstat")))
    }

    fn busy(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(self.0.as_ref()?).ok()?;
        let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

fn timed(call: &Call, limit: Duration, clock: &Clock) -> Result<(), String> {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let (start, busy) = (Instant::now(), clock.busy());
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            return Err("panics".into());
        }
        let took = start.elapsed();
        if took <= limit {
            return Ok(());
        }
        // The time of day counts other processes too.
        let own = busy.and_then(|from| Some(clock.busy()? - from));
        fastest = fastest.min(own.unwrap_or(took));
        if fastest <= limit {
            return Ok(());
        }
    }
    Err(format!("takes {fastest:?}"))
}

#[track_caller]
fn check(name: &str, limit: Duration, calls: Vec<(String, Call)>) {
    law(name, "calls", calls.len() as u64, |count| {
        *count = calls.len() as u64;
        let failures = failures(calls, limit, HANGS);
        assert!(
            failures.is_empty(),
            "{} calls:\n{}",
            failures.len(),
            failures.join("\n")
        );
    });
}

fn call(name: impl Into<String>, f: impl Fn() + Send + 'static) -> (String, Call) {
    (name.into(), Box::new(f))
}

fn layout(text: &str) -> Layout {
    text.parse().expect("the test's own layouts parse")
}

/// `count` modes of `extent`, with the stride that `stride` gives to each.
fn many(count: u32, extent: i64, stride: impl Fn(u32) -> i64) -> Layout {
    small::layout(&(0..count).map(|i| (extent, stride(i))).collect::<Vec<_>>()).flatten()
}

fn xor(modes: &[(i64, i64)]) -> Layout {
    let shape = IntTuple::flat(modes.iter().map(|(s, _)| Int::from(*s)));
    let stride = Tuple::flat(modes.iter().map(|(_, d)| Stride::Xor(Int::from(*d))));
    Layout::new(shape, stride).expect("positive extents")
}

/// `layout` inside `depth` parentheses of one mode each.
fn wrapped(layout: &Layout, depth: usize) -> Layout {
    (0..depth).fold(layout.clone(), |l, _| {
        Layout::concat([&l]).expect("one mode more or less")
    })
}

/// `(2,(2,(2,..)))` with `depth` parentheses, extents of 1 from some depth on.
fn staircase(depth: usize) -> Layout {
    let mut all = Layout::leaf(2, 1).expect("an extent");
    for i in 0..depth {
        let step = Layout::leaf(if i < 40 { 2 } else { 1 }, 1_i64 << (i % 40)).expect("an extent");
        all = Layout::concat([&step, &all]).expect("2^41 fits");
    }
    all
}

fn nearly_equal(count: u32, extent: i64, base: i64) -> Layout {
    many(count, extent, |i| 1_000_000_000 + base.pow(i))
}

fn not_coprime() -> Layout {
    layout("(3000000000,2000000000):(2,4)")
}

fn five_of_2000() -> Layout {
    small::layout(&[
        (2000, 4_000_000_000_000_037),
        (2000, 4_000_000_070_000_041),
        (2000, 3_999_999_913_000_213),
        (2000, 4_000_120_000_000_007),
        (2000, 4_000_003_999_000_031),
    ])
}

fn equal<T: PartialEq + std::fmt::Debug>(got: T, expected: T) {
    assert_eq!(got, expected);
}

/// A call that computes without end is named, and the calls behind it still run. A call that waits for other
/// processes is not.
#[test]
fn a_call_that_hangs_is_named() {
    let (second, tenth) = (Duration::from_secs(1), Duration::from_millis(100));
    let calls = vec![
        call("a call that waits", move || thread::sleep(3 * second / 2)),
        call("a call without end", || {
            loop {
                std::hint::spin_loop();
            }
        }),
        call("a call that panics", || panic!("as it is meant to")),
        call("a call that returns", || {}),
    ];
    assert_eq!(
        failures(calls, 2 * second, 5 * tenth),
        ["a call without end hangs", "a call that panics panics"]
    );
}

/// The calls that hung or ran out of memory when they were found.
#[test]
fn known_hangs_and_aborts_are_bounded() {
    let hostile = || {
        [
            nearly_equal(12, 4, 4),
            nearly_equal(24, 2, 2),
            five_of_2000(),
        ]
    };
    let mut calls = vec![
        call("is_injective of 12 modes of extent 4", || {
            equal(nearly_equal(12, 4, 4).is_injective(), Ok(true));
        }),
        call("is_injective of 24 modes of extent 2", || {
            equal(nearly_equal(24, 2, 2).is_injective(), Ok(true));
        }),
        call("is_injective of 5 modes of extent 2000", || {
            let error = five_of_2000().is_injective().unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with(" is undecided after 262144 steps, which is its bound")
            );
        }),
        call("is_injective((1073741823,3):(^3,^5))", || {
            equal(layout("(1073741823,3):(^3,^5)").is_injective(), Ok(false));
        }),
        call("coord_of an odd offset", || {
            let error = not_coprime().coord_of(5_000_000_001).unwrap_err();
            equal(
                error.to_string().as_str(),
                "coord_of of (3000000000,2000000000):(2,4): no coordinate has the offset 5000000001",
            );
        }),
        call("coord_of among modes of like strides", || {
            let all = nearly_equal(24, 2, 2);
            assert!(all.coord_of(12_000_000_000).is_err());
        }),
        call("coalesce by 200000 modes", || {
            let ones = many(200_000, 1, |_| 1);
            let profile = IntTuple::flat((0..200_000).map(|_| Int::from(1)));
            equal(ones.coalesce(&profile).map(|l| l.rank()), Ok(200_000));
        }),
        call("table of 2^40 offsets", || {
            let all = layout("1099511627776:1");
            let error = all.table().unwrap_err();
            equal(
                error.to_string().as_str(),
                "table of 1099511627776:1 has 1099511627776 elements, and its bound is 67108864",
            );
        }),
        call("an access of 2^40 lanes", || {
            assert!(Access::new("a", layout("1099511627776:1"), 4, 4).is_err());
        }),
        call("an access of 65537 lanes", || {
            let error = Access::new("a", layout("65537:1"), 4, 4).unwrap_err();
            equal(
                error.to_string().as_str(),
                "Access of a has 65537 elements, and its bound is 65536",
            );
        }),
        call("infer_with of every index", || {
            let error = Layout::infer_with(i64::MAX, |i| i).unwrap_err();
            equal(
                error.to_string().as_str(),
                "infer of 9223372036854775807 has 9223372036854775807 elements, and its bound is 1073741824",
            );
        }),
        call("composition of coordinates in 20000 directions", || {
            let row = IntTuple::flat((0..200).map(|_| 1.into()));
            let all = Layout::identity(IntTuple::concat([&row; 100])).unwrap();
            equal(all.composition(&all), Ok(all.clone()));
        }),
        call("choose_swizzle with lanes 2^56 apart", || {
            let lanes = layout("(8,4):(72057594037927936,16)");
            let access = Access::new("far", &lanes, 1, 16).unwrap();
            assert!(choose_swizzle(&[access]).is_ok());
        }),
        call("choose_swizzle where none helps", || {
            let lanes = layout("(4,2,4):(72057594037927936,1152921504606846976,128)");
            let access = Access::new("far", &lanes, 1, 4).unwrap();
            let row = Access::new("row", layout("32:4"), 1, 4).unwrap();
            let same = Access::from_bytes("same", (0..32).map(|i| i << 40 | 4).collect(), 4);
            let _ = choose_swizzle(&[access, row, same.unwrap()]);
        }),
    ];
    for (i, l) in hostile().into_iter().enumerate() {
        let (a, b, c) = (l.clone(), l.clone(), l.clone());
        let target = i64::MAX;
        calls.push(call(format!("complement of {i}"), move || {
            assert!(a.complement(target).is_err());
        }));
        calls.push(call(format!("divide by {i}"), move || {
            let by = Tiler::from(&b);
            assert!(layout("1152921504606846976:1").logical_divide(&by).is_err());
        }));
        calls.push(call(format!("product of {i}"), move || {
            assert!(c.logical_product(2).is_err());
        }));
    }
    check("known_hangs_and_aborts_are_bounded", LIMIT, calls);
}

/// An error is worded without the expensive question.
#[test]
fn complement_says_what_it_knows() {
    let error = five_of_2000().complement(1).unwrap_err().to_string();
    assert!(
        error.ends_with("so its modes overlap or interleave"),
        "{error}"
    );
}

#[test]
fn long_and_deep_texts_are_read_in_bounded_time() {
    let deep = "(".repeat(100_000);
    let wide = |n: usize| format!("({})", vec!["1"; n].join(","));
    let nested = |inner: &str, depth| format!("{}{inner}{}", "(".repeat(depth), ")".repeat(depth));
    let mut texts = vec![
        deep.clone(),
        "<".repeat(100_000),
        format!("{}1{}", deep, ")".repeat(100_000)),
        format!("{0}1{1}:{0}1{1}", deep, ")".repeat(100_000)),
        "1".repeat(1_000_000),
        "_".repeat(1_000_000),
        "1@".repeat(500_000),
        format!("4:1{}", "@0".repeat(500_000)),
        " ".repeat(1_000_000),
        format!("{}4:1", " ".repeat(1_000_000)),
        wide(500_000),
        format!("{0}:{0}", wide(200_000)),
        nested(&wide(150_000), 60),
        nested(&format!("{},_", wide(150_000)), 60),
        "(1,".repeat(60) + &wide(150_000),
        "-".repeat(1_000_000),
        "(),".repeat(300_000),
        "Sw<".repeat(300_000),
        "Sw<1,1,1> o ".repeat(80_000),
        "4:1 o 0 o ".repeat(80_000),
        "é".repeat(400_000),
    ];
    texts.extend(texts.clone().into_iter().map(|t| format!("({t}")));
    let mut calls = Vec::new();
    for (i, text) in texts.into_iter().enumerate() {
        let name = |of: &str| format!("{of} of text {i}");
        let read = [text.clone(), text.clone(), text.clone(), text.clone()];
        let [a, b, c, d] = read;
        calls.push(call(name("IntTuple"), move || told(a.parse::<IntTuple>())));
        calls.push(call(name("Layout"), move || told(b.parse::<Layout>())));
        calls.push(call(name("Tiler"), move || told(c.parse::<Tiler>())));
        calls.push(call(name("ComposedLayout"), move || {
            told(d.parse::<colex_layout::ComposedLayout>())
        }));
        calls.push(call(name("Coord"), move || told(text.parse::<Coord>())));
    }
    check("long_and_deep_texts", LINEAR, calls);
}

/// Drawings of as many cells as there may be, and swizzles of more bits than there are.
#[test]
fn large_drawings_and_wide_swizzles_are_linear() {
    let table =
        |text: &str| Arc::new(Table::of(layout(text)).expect("as many cells as there may be"));
    let mut calls = Vec::new();
    for text in ["(256,256):(256,1)", "(65536,1):(1,0)", "(1,65536):(0,1)"] {
        let drawn = table(text);
        for color in [ColorBy::Offset, ColorBy::Index, ColorBy::Cycle] {
            let drawn = Arc::clone(&drawn);
            calls.push(call(format!("grid of {text} by {color:?}"), move || {
                assert!(drawn.grid(color, LabelBy::Nothing).rows() > 0);
            }));
        }
        let grid = drawn.grid(ColorBy::Offset, LabelBy::Nothing);
        let (rows, columns) = (grid.rows(), grid.cols());
        calls.push(call(format!("rows left out of {text}"), move || {
            let without = match rows {
                1 => grid.clone().without_columns(1..columns / 2),
                _ => grid.clone().without_rows(1..rows / 2),
            };
            assert!(without.is_ok());
        }));
    }
    for width in [62, 63, 64, 1_000_000, i64::MAX] {
        calls.push(call(format!("swizzles within {width} bits"), move || {
            assert_eq!(Swizzle::within(width).count(), 40_673);
        }));
    }
    check("large_drawings_and_wide_swizzles", LINEAR, calls);
}

/// An error about a long text is short.
fn told<T>(result: Result<T, Error>) {
    if let Err(e) = result {
        assert!(e.to_string().len() < 400);
    }
}

#[test]
fn depth_errors_name_the_bound() {
    let deep = "(".repeat(100_000);
    for error in [
        deep.parse::<IntTuple>().unwrap_err(),
        deep.parse::<Tiler>().unwrap_err(),
        deep.parse::<Layout>().unwrap_err(),
    ] {
        assert_eq!(
            error.to_string(),
            format!(
                "expected at most 64 nested parentheses at byte 64 of 100000, near {:?}",
                "(".repeat(60)
            )
        );
    }
}

fn pool() -> Vec<Layout> {
    let max = i64::MAX;
    let half = 1_i64 << 31;
    let mut pool = vec![
        small::layout(&[(max, 1)]),
        small::layout(&[(max, max)]),
        small::layout(&[(max, -1)]),
        small::layout(&[(max, 0)]),
        small::layout(&[(2, i64::MIN)]),
        small::layout(&[(3, max), (5, i64::MIN)]),
        small::layout(&[(half, half), (half, 1)]),
        small::layout(&[(half, 1), (half, 1)]),
        small::layout(&[(half, -1), (half, half)]),
        small::layout(&[(1 << 30, 7), (3, 11), (5, 13)]),
        small::layout(&[(1_000_003, 999_983), (999_979, 1_000_033), (7, 1)]),
        many(62, 2, |i| 1 << i),
        many(62, 2, |i| 1 << (61 - i)),
        many(62, 2, |i| (1 << 40) + (i64::from(i) * 7919) % 4093),
        many(39, 3, |i| 3_i64.pow(i % 20) - 5),
        many(2_000, 1, |i| i.into()),
        many(20_000, 1, |_| 1),
        nearly_equal(12, 4, 4),
        five_of_2000(),
        xor(&[(1_073_741_823, 3), (3, 5)]),
        xor(&[(1 << 30, 1 << 32), (1 << 30, 1)]),
        xor(&[(max, max)]),
        xor(&(0..60).map(|i| (2, 3 << (60 - i))).collect::<Vec<_>>()),
        staircase(60),
        staircase(62),
        wrapped(&layout("(4,(2,3)):(2,(1,8))"), 60),
        layout("(4,8):(8,1)"),
        layout("1:0"),
        layout("(2,2):(1,5)"),
    ];
    let identity = |shape: IntTuple| Layout::identity(shape).expect("a shape that is not deep");
    pool.push(identity((half, half - 1).into()));
    pool.push(identity(IntTuple::flat((0..200).map(|_| 1.into()))));
    let row = IntTuple::flat((0..100).map(|_| 1.into()));
    pool.push(identity(IntTuple::concat(&vec![row; 100])));
    pool
}

type Unary = (&'static str, fn(&Layout));
type Binary = (&'static str, fn(&Layout, &Layout));

/// Forgets a result; an error must have a text.
fn ends<T>(result: Result<T, impl std::fmt::Display>) {
    if let Err(e) = result {
        assert!(!e.to_string().is_empty());
    }
}

const NUMBERS: [i64; 7] = [i64::MIN, -1, 0, 1, 3, 1 << 40, i64::MAX];

fn unary() -> Vec<Unary> {
    vec![
        ("text", |a| {
            let text = a.to_string();
            if a.depth() <= 64 {
                assert_eq!(text.parse().as_ref(), Ok(a));
            }
        }),
        ("coalesce", |a| drop(a.coalesce(..))),
        ("coalesce_modes", |a| {
            ends(a.coalesce(a.shape()));
            ends(a.coalesce(a.shape().repeat_like(1)));
        }),
        ("filter", |a| {
            drop(a.filter(..));
            ends(a.filter(a.shape()));
        }),
        ("flatten", |a| {
            let flat = a.flatten();
            ends(flat.unflatten(&a.shape()));
            drop((a.unwrap(), a.depth(), a.to_static(), a.is_static()));
        }),
        ("complement", |a| {
            NUMBERS.iter().for_each(|n| ends(a.complement(*n)));
            ends(a.complement(a.shape()));
            ends(a.complement_in_cosize());
        }),
        ("inverses", |a| {
            ends(a.right_inverse());
            ends(a.left_inverse());
            ends(a.nullspace());
        }),
        ("cosize", |a| {
            ends(a.cosize());
            ends(a.coshape());
            ends(a.coprofile());
        }),
        ("is_injective", |a| ends(a.is_injective())),
        ("is_surjective", |a| {
            std::hint::black_box((a.is_surjective(), a.is_bijective(), a.is_contiguous()));
        }),
        ("coord_of", |a| {
            for n in NUMBERS {
                ends(a.coord_of(n));
                ends(a.index_of(n));
                ends(a.flat_coord_of(n));
            }
        }),
        ("at", |a| {
            for n in NUMBERS {
                ends(a.at(n));
                ends(a.at(Unbounded(n)));
                ends(a.coord_at(n));
                ends(a.at(n));
                ends(a.at(Unbounded(n)));
                ends(a.coord_at(n));
            }
            ends(a.at(a.size() - 1));
            ends(a.coord_at(a.size() - 1));
        }),
        ("table", |a| {
            if a.size() < 1 << 20 || a.size() > TABLE_BOUND {
                ends(a.table());
            }
        }),
        ("offsets", |a| {
            if let Ok(mut offsets) = a.offsets() {
                let _ = (offsets.size_hint(), offsets.next(), offsets.nth(1000));
            }
        }),
        ("coords", |a| {
            if let Ok(mut coords) = a.shape().coords() {
                let _ = (coords.next(), coords.next());
            }
        }),
        ("coord", |a| {
            let shape = a.shape();
            for n in NUMBERS {
                ends(shape.coord(n));
                ends(shape.coord(Unbounded(n)));
                ends(shape.flat_coord(n));
                ends(shape.index(n));
                ends(shape.index(Unbounded(n)));
                ends(shape.coord_in(n, &shape));
                ends(shape.coord_in(Unbounded(n), &shape));
                ends(shape.domain_distribute(n));
                ends(shape.coord_by_stride(n, &shape));
            }
            if let Ok(last) = shape.coord(a.size() - 1) {
                assert_eq!(shape.index(&last), Ok(a.size() - 1));
                assert_eq!(shape.coord_in(&last, &shape), Ok(last.clone()));
                ends(a.at(&last));
            }
        }),
        ("shape", |a| {
            let shape = a.shape();
            ends(shape.product());
            ends(shape.product_each());
            ends(shape.sum());
            ends(shape.coalesce());
            ends(shape.basis_like());
            drop((shape.max(), shape.min(), shape.gcd(), shape.wrap()));
        }),
        ("compact", |a| {
            let shape = a.shape();
            ends(Layout::column_major(&shape));
            ends(Layout::row_major(&shape));
            ends(Layout::ordered(&shape, &shape));
            ends(Layout::identity(&shape));
            ends(a.layout_like());
            ends(a.fragment_like());
        }),
        ("surgery", |a| {
            let rank = a.rank();
            let all: Vec<usize> = (0..rank).rev().collect();
            ends(a.select(&all));
            ends(a.take(0..rank));
            ends(a.group(0..rank));
            ends(a.append(a));
            ends(a.prepend(a));
            ends(a.replace(0, a));
            ends(a.zip());
            ends(a.zip_with(a));
            ends(a.get(&[0, 0, 0, 0]));
            ends(a.get(&[usize::MAX]));
            ends(a.take(1..usize::MAX));
            ends(a.group(usize::MAX - 1..usize::MAX));
            ends(a.append_to_rank(rank + 3, Layout::unit()));
            ends(a.prepend_to_rank(rank + 3, Layout::unit()));
        }),
        ("slice", |a| {
            let all = Coord::flat((0..a.rank()).map(|_| Slot::All));
            let at = Coord::flat((0..a.rank()).map(|_| Slot::At(0)));
            for coord in [all, at, a.shape().repeat_like(0).into()] {
                ends(a.slice(&coord));
                ends(a.dice(&coord));
                ends(a.slice_and_offset(&coord));
            }
            NUMBERS.iter().for_each(|n| ends(a.domain_offset(*n)));
        }),
        ("recast", |a| {
            for n in NUMBERS {
                ends(a.upcast(n));
                ends(a.downcast(n));
                ends(a.recast(n, 3));
                ends(a.recast(16, n));
            }
        }),
        ("xor", |a| {
            ends(a.to_xor());
            ends(a.to_matrix());
            ends(a.to_swizzled());
        }),
        ("dynamic", |a| {
            let values = a.dynamic_values();
            ends(a.with_dynamic_values(&values));
        }),
        ("explain", |a| {
            for e in [
                a.explain_coalesce(),
                a.explain_complement(i64::MAX),
                a.explain_right_inverse(),
                a.explain_left_inverse(),
            ] {
                assert!(!e.to_string().is_empty());
            }
        }),
        ("draw", |a| {
            ends(Table::of(a));
            ends(colex_draw::print_layout(a));
            ends(colex_draw::print_tensor(a, |x| x));
            ends(colex_draw::Grid::of_coordinates(a));
            for (rows, cols) in [(i64::MAX, 2), (0, 1), (1 << 32, 1 << 32), (-1, -1), (8, 8)] {
                ends(ThreadValues::of(a, rows, cols));
                ends(Table::from_fn("f", rows, cols, |r, c| r ^ c));
                ends(colex_draw::Grid::from_fn(rows, cols, |_, _| {
                    colex_draw::Cell::default()
                }));
            }
        }),
        ("access", |a| {
            for (element, width) in [(1, 1), (i64::MAX, 4), (0, 16), (-4, 4)] {
                if let Ok(access) = Access::new("a", a, element, width) {
                    ends(choose_swizzle(std::slice::from_ref(&access)));
                    let banks = Banks::new(1, 1).expect("one bank");
                    ends(choose_swizzle_for(&[access], banks));
                }
            }
        }),
        ("vectorization", |a| {
            for (bits, alignment) in [
                (1, 1 << 62),
                (16, 128),
                (1 << 62, 1 << 62),
                (i64::MIN, 8),
                (8, 0),
                (i64::MAX, i64::MAX),
            ] {
                ends(vectorization(a, a, bits, alignment));
                if let Ok(compact) = Layout::column_major(a.shape()) {
                    ends(vectorization(a, &compact, bits, alignment));
                    ends(vectorization(&compact, a, bits, alignment));
                }
            }
        }),
        ("infer", |a| {
            let value = |i: i64| a.at(Unbounded(i % 1000)).unwrap_or(i64::MAX);
            if a.size() <= 1 << 12 {
                ends(Layout::infer_modes(a.shape(), value));
            } else {
                ends(Layout::infer_modes(a.shape(), |i| {
                    if i < 999 { 0 } else { i64::MAX - i }
                }));
            }
        }),
    ]
}

fn binary() -> Vec<Binary> {
    vec![
        ("composition", |a, b| ends(a.composition(b))),
        ("vectorization", |a, b| ends(vectorization(a, b, 8, 128))),
        ("cute_composition", |a, b| {
            ends(a.cute_composition(b));
        }),
        ("composition mode by mode", |a, b| {
            ends(a.composition((b, ..)));
        }),
        ("with_shape", |a, b| ends(a.with_shape(b.shape()))),
        ("blocked_product", |a, b| ends(a.blocked_product(b))),
        ("raked_product", |a, b| ends(a.raked_product(b))),
        ("tile_to_shape", |a, b| {
            ends(a.tile_to_shape(b.shape(), LayoutLeft));
            ends(a.tile_to_shape(b.shape(), b.shape()));
            ends(a.tile_to_shape(b.shape(), LayoutRight));
        }),
        ("domain", |a, b| {
            ends(a.greatest_common_domain(b));
            ends(a.sum(b));
            std::hint::black_box(a.is_same_function(b));
        }),
        ("relations", |a, b| {
            let (x, y) = (a.shape(), b.shape());
            ends(x.lex_cmp(&y));
            ends(x.colex_cmp(&y));
            ends(x.elem_less(&y));
            std::hint::black_box((
                x.is_compatible(&y),
                x.is_weakly_congruent(&y),
                x.is_congruent(&y),
                x.partial_cmp(&y),
            ));
        }),
        ("shapes", |a, b| {
            let (x, y) = (a.shape(), b.shape());
            ends(x.ceil_div(&y));
            ends(x.shape_div(&y));
            ends(x.round_up(&y));
            ends(x.elem_scale(&y));
            ends(x.product_like(&y));
            ends(x.filter_zeros(&y));
            ends(x.inner_product(&y));
            ends(x.coord_in(&y, &x));
            ends(x.index(Unbounded(&y)));
            ends(x.coord(Unbounded(&y)));
            ends(a.at(Unbounded(&y)));
            ends(a.inner_product(&y));
            ends(x.coord_by_stride(17, &y));
        }),
        ("complement", |a, b| ends(a.complement(b.shape()))),
        ("explain_composition", |a, b| {
            explained(a, b, || a.explain_composition(b));
        }),
        ("explain_logical_divide", |a, b| {
            explained(a, b, || a.explain_logical_divide(Tiler::from(b)));
        }),
        ("explain_logical_product", |a, b| {
            explained(a, b, || a.explain_logical_product(Tiler::from(b)));
        }),
    ]
}

/// A derivation has a line for each mode of the one and leaf of the other; the longest have a test of their own.
fn explained(a: &Layout, b: &Layout, explanation: impl Fn() -> Explanation) {
    if a.coalesce(..).leaves().len() * b.leaves().len() <= 4_000 {
        assert!(!explanation().to_string().is_empty());
    }
}

type ByTiler = (&'static str, fn(&Layout, &Tiler));

fn by_tiler() -> Vec<ByTiler> {
    vec![
        ("composition_tiler", |a, t| ends(a.composition(t))),
        ("logical_divide", |a, t| ends(a.logical_divide(t))),
        ("zipped_divide", |a, t| ends(a.zipped_divide(t))),
        ("tiled_divide", |a, t| ends(a.tiled_divide(t))),
        ("flat_divide", |a, t| ends(a.flat_divide(t))),
        ("logical_divide_exact", |a, t| {
            ends(a.logical_divide_exact(t));
        }),
        ("is_divided_by", |a, t| ends(a.is_divided_by(t))),
        ("tile_unzip", |a, t| ends(a.tile_unzip(t))),
        ("tiles", |a, t| ends(a.shape().tiles(t))),
        ("evenly_divides", |a, t| ends(a.shape().evenly_divides(t))),
        ("logical_product", |a, t| ends(a.logical_product(t))),
        ("zipped_product", |a, t| ends(a.zipped_product(t))),
        ("tiled_product", |a, t| ends(a.tiled_product(t))),
        ("flat_product", |a, t| ends(a.flat_product(t))),
        ("tiling", |a, t| ends(Tiling::of(a, t))),
    ]
}

/// Law `every_operation_is_bounded`, of one layout.
#[test]
fn every_operation_of_one_hostile_layout_is_bounded() {
    let mut calls = Vec::new();
    for layout in pool() {
        for (name, f) in unary() {
            let a = layout.clone();
            calls.push(call(format!("{name} of {layout:.80}"), move || f(&a)));
        }
    }
    check("every_operation_is_bounded", LIMIT, calls);
}

/// The start of a layout's text.
fn start(layout: &Layout) -> String {
    layout.to_string().chars().take(60).collect()
}

/// A layout of the pool, its start as text, and what it is as a tiler.
struct Hostile {
    layout: Layout,
    text: String,
    tilers: [(&'static str, Tiler); 3],
}

impl Hostile {
    fn new(layout: Layout) -> Arc<Self> {
        let modes = layout.modes().map(Tiler::Layout).collect();
        Arc::new(Self {
            text: start(&layout),
            tilers: [
                ("", Tiler::from(&layout)),
                (
                    "the shape of ",
                    Tiler::try_from(&layout.shape()).expect("as deep as a layout"),
                ),
                ("the modes of ", Tiler::Modes(modes)),
            ],
            layout,
        })
    }
}

/// Law `every_operation_is_bounded`, of two layouts.
#[test]
fn every_operation_of_two_hostile_layouts_is_bounded() {
    let pool: Vec<Arc<Hostile>> = pool().into_iter().map(Hostile::new).collect();
    let mut calls = Vec::new();
    for (a, b) in pool.iter().flat_map(|a| pool.iter().map(move |b| (a, b))) {
        for (name, f) in binary() {
            let name = format!("{name} of {} and {}", a.text, b.text);
            let (a, b) = (Arc::clone(a), Arc::clone(b));
            calls.push(call(name, move || f(&a.layout, &b.layout)));
        }
        for (name, f) in by_tiler() {
            for i in 0..b.tilers.len() {
                let name = format!("{name} of {} by {}{}", a.text, b.tilers[i].0, b.text);
                let (a, b) = (Arc::clone(a), Arc::clone(b));
                calls.push(call(name, move || f(&a.layout, &b.tilers[i].1)));
            }
        }
    }
    // A pair has 60 calls, so that a step of 13 comes to each of them with every thirteenth pair in turn.
    let calls = calls.into_iter().step_by(small::every(13)).collect();
    check("every_operation_of_two_is_bounded", LINEAR, calls);
}

type Derivation = fn(&Layout, &Layout, &Tiler) -> Explanation;

fn derivations() -> [(&'static str, Derivation); 6] {
    [
        ("explain_composition", |a, b, _| a.explain_composition(b)),
        ("explain_logical_divide", |a, _, t| {
            a.explain_logical_divide(t)
        }),
        ("explain_logical_product", |a, _, t| {
            a.explain_logical_product(t)
        }),
        ("explain_coalesce", |_, b, _| b.explain_coalesce()),
        ("explain_complement", |_, b, _| b.explain_complement(64)),
        ("explain_right_inverse", |_, b, _| b.explain_right_inverse()),
    ]
}

/// A derivation takes time in proportion to its lines.
#[test]
fn long_derivations_are_linear() {
    let mut calls = Vec::new();
    for (a, b) in [
        (layout("(4,8):(8,1)"), many(20_000, 1, |_| 1)),
        (layout("(4,4):(4,1)"), clashing(20_000)),
        (many(10, 2, |i| 1 << (9 - i)), many(2_000, 1, |_| 1)),
    ] {
        for (name, derive) in derivations() {
            let name = format!("{name} of {} and {}", start(&a), start(&b));
            let (a, b) = (a.clone(), b.clone());
            let tiler = Tiler::from(&b);
            calls.push(call(name, move || {
                assert!(!derive(&a, &b, &tiler).to_string().is_empty());
            }));
        }
    }
    check("long_derivations_are_linear", LINEAR, calls);
}

/// `(2,2):(1,5)` before modes of one step: `(4,4):(4,1)` with it is found by the search.
fn clashing(ones: usize) -> Layout {
    let modes = [(2, 1), (2, 5)].into_iter().chain(vec![(1, 3); ones]);
    small::layout(&modes.collect::<Vec<_>>()).flatten()
}

/// A layout with a number of modes: the families of law `time_grows_with_the_modes`.
type Family = (&'static str, fn(usize) -> Layout);

fn families() -> [Family; 3] {
    fn identity(shape: IntTuple) -> Layout {
        Layout::identity(shape).expect("a shape that is not deep")
    }
    [
        ("modes of one step", |n| many(n as u32, 1, |_| 1)),
        ("two modes that clash", clashing),
        ("rows of an identity", |n| {
            let row = IntTuple::flat((0..100).map(|_| 1.into()));
            identity(IntTuple::concat(&vec![row; n / 100]))
        }),
    ]
}

/// Every operation on one, two or three layouts takes time in proportion to the modes of the one that is long: four
/// times as many modes take less than ten times as long, where a quadratic loop takes sixteen times.
#[test]
fn time_grows_with_the_modes() {
    const MODES: usize = 5_000;
    let fixed = [layout("(4,8):(8,1)"), layout("(4,4):(4,1)")];
    let mut slow = Vec::new();
    let mut count = 0;
    let mut grows = |name: String, call: &dyn Fn(&Layout), short: &Layout, long: &Layout| {
        count += 1;
        // The clock of a thread counts in steps of some milliseconds, so a short call is repeated.
        let clock = Clock::of_this_thread();
        let seconds = |layout: &Layout, calls: u32| {
            let (start, busy) = (Instant::now(), clock.busy());
            (0..calls).for_each(|_| call(layout));
            let own = busy.and_then(|from| Some(clock.busy()? - from));
            own.unwrap_or(start.elapsed()).as_secs_f64() / f64::from(calls)
        };
        // What takes less is too short to tell, and a loop over all pairs of modes takes more.
        let is_short = |seconds: f64| seconds < 0.05;
        let grows = |_| {
            let long = seconds(long, 1);
            !is_short(long) && long > 10.0 * seconds(short, 16)
        };
        if (0..3).all(grows) {
            slow.push(name);
        }
    };
    for (family, make) in families() {
        let (short, long) = (make(MODES), make(4 * MODES));
        for (name, f) in unary() {
            grows(format!("{name} of {family}"), &f, &short, &long);
        }
        for b in &fixed {
            let by = Tiler::from(b);
            for (name, f) in binary() {
                grows(
                    format!("{name} of {family} and {b}"),
                    &|a| f(a, b),
                    &short,
                    &long,
                );
                grows(
                    format!("{name} of {b} and {family}"),
                    &|a| f(b, a),
                    &short,
                    &long,
                );
            }
            for (name, f) in by_tiler() {
                grows(
                    format!("{name} of {family} by {b}"),
                    &|a| f(a, &by),
                    &short,
                    &long,
                );
                grows(
                    format!("{name} of {b} by {family}"),
                    &|a| f(b, &Tiler::from(a)),
                    &short,
                    &long,
                );
            }
            for (name, f) in derivations() {
                let call = |a: &Layout| drop(f(b, a, &Tiler::from(a)).to_string());
                grows(format!("{name} of {b} and {family}"), &call, &short, &long);
            }
        }
    }
    law("time_grows_with_the_modes", "calls", count, |cases| {
        *cases = count;
        assert!(
            slow.is_empty(),
            "{} calls:\n{}",
            slow.len(),
            slow.join("\n")
        );
    });
}
