//! Correct kernels of every family with one operand of one call changed: each is refused, faults, or is right.
//!
//! `COLEX_MUTANTS=100000 cargo test -p colex-gpu --test mutants -- --nocapture` runs as many cases as it says, and
//! `COLEX_MUTANTS_SEED` draws others. `COLEX_MUTANTS_ONLY="wgmma, pipeline"` runs the groups whose family, call and kind begin
//! so. Every core takes groups of its own. Every second changed kernel, or with `COLEX_MUTANTS_BARE=1` each, runs where the
//! simulator compares no access with its tensor: launches and traps have to find what leaves one.

#![allow(
    clippy::cloned_ref_to_slice_refs,
    clippy::type_complexity,
    clippy::manual_div_ceil,
    clippy::manual_is_multiple_of,
    reason = "operands are handed over one by one, and formulas stand as they are thought"
)]

mod copies;
mod grids;
mod hook;
mod hopper;
mod parts;
mod pipelines;
mod places;
mod products;
mod reductions;
mod reference;

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use colex_atom::{Arch, TensorMap, Ty};
use colex_gpu::sim::{PrintTo, SimOptions};
use colex_gpu::tensor::{Error, RawMemory, TensorKernel};
use colex_gpu::{Argument, Buffer, Device, Element, Launch, TensorMapArgument};

use hook::{Hook, Kind, Random, Site, changed};
use reference::{Given, Memory};

/// A kernel with what it is launched with and what it should do.
pub(crate) struct Program {
    pub(crate) built: TensorKernel,
    pub(crate) arch: Arch,
    pub(crate) given: Vec<Given>,
    pub(crate) cluster: u32,
    /// The grid for what is given.
    pub(crate) grid: fn(&[Given]) -> [u32; 3],
    /// What the tensors hold afterwards.
    pub(crate) expected: Box<dyn Fn(&[Given]) -> Vec<Given>>,
}

/// A family: one kernel for each of the numbers that its form is drawn with.
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) build: fn(&mut Hook, &mut Random) -> Result<Program, Error>,
}

fn families() -> Vec<Family> {
    [
        copies::families(),
        products::families(),
        hopper::families(),
        grids::families(),
        parts::families(),
        places::families(),
        reductions::families(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How a mutant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Refused,
    AtLaunch,
    Fault,
    Right,
    /// Wrong numbers, or a panic.
    Wrong,
}

/// A buffer of some type of element.
struct Held {
    address: u64,
    map: Box<dyn Fn(&TensorMap) -> Result<TensorMapArgument, colex_gpu::Error>>,
    download: Box<dyn Fn() -> Vec<u8>>,
}

fn held<T: Element>(device: &Device, bytes: &[u8]) -> Held {
    let buffer: Buffer<T> = device.upload(&T::from_bytes(bytes)).expect("memory");
    let (address, other, device) = (buffer.address(), buffer.clone(), device.clone());
    Held {
        address,
        map: Box::new(move |map| Ok(device.tensor_map(map, &other)?)),
        download: Box::new(move || T::to_bytes(&buffer.download().expect("it is there"))),
    }
}

/// Bytes behind what a launch is told of: an access that reaches them finds an allocation.
const ROOM: usize = 1 << 14;

/// What they hold before and after: other bytes behind each argument.
fn filler(argument: usize) -> u8 {
    0x5b + argument as u8
}

fn held_as(device: &Device, argument: usize, given: &Given) -> Option<Held> {
    let (memory, room) = match given {
        Given::Tensor(memory) => (memory, ROOM),
        // A map is compared with all of the buffer.
        Given::Map(_, memory) => (memory, 0),
        Given::Number(_) => return None,
    };
    let mut bytes = memory.bytes.clone();
    let width = (memory.ty.bits() / 8) as usize;
    // A launch may be told of less than whole elements.
    bytes.truncate(bytes.len() / width * width);
    bytes.resize(bytes.len() + room, filler(argument));
    Some(match memory.ty {
        Ty::F64 => held::<f64>(device, &bytes),
        Ty::F32 => held::<f32>(device, &bytes),
        Ty::F16 => held::<half::f16>(device, &bytes),
        Ty::Bf16 => held::<half::bf16>(device, &bytes),
        _ => held::<i32>(device, &bytes),
    })
}

/// Runs a program: what it says, or how it ended. If `is_bare` is set, the simulator compares no access with its tensor: what a
/// GPU has is the launch's check and the traps of the kernel.
fn run(program: &Program, given: &[Given], grid: [u32; 3], is_bare: bool) -> (Outcome, String) {
    // The originals take less than a thousandth of it; a changed kernel that waits for ever ends soon.
    let options = SimOptions {
        max_instructions: 20_000_000,
        print_to: PrintTo::Report,
        ..SimOptions::default()
    };
    let device = Device::simulator_with(program.arch, options);
    let all = given.iter().enumerate();
    let buffers: Vec<Option<Held>> = all.map(|(i, given)| held_as(&device, i, given)).collect();
    let mut arguments = Vec::new();
    for (given, buffer) in given.iter().zip(&buffers) {
        let address = buffer.as_ref().map_or(0, |held| held.address);
        arguments.push(match given {
            Given::Tensor(memory) => {
                let raw = RawMemory {
                    address,
                    bytes: memory.bytes.len() as u64,
                    ty: memory.ty,
                };
                colex_gpu::tensor::Arg::raw(raw, &memory.layout).from_element(memory.origin)
            }
            Given::Map(name, memory) => {
                let map = match program.built.tensor_map(name, &memory.layout) {
                    Ok(map) => map,
                    Err(e) => return (Outcome::AtLaunch, e.to_string()),
                };
                let buffer = buffer.as_ref().expect("a tensor");
                match (buffer.map)(&map) {
                    Ok(map) => colex_gpu::tensor::Arg::Value(map.into()),
                    Err(e) => return (Outcome::AtLaunch, e.to_string()),
                }
            }
            Given::Number(n) => colex_gpu::tensor::Arg::Value(Argument::U32(*n)),
        });
    }
    let arguments = match program.built.arguments(&arguments) {
        Ok(arguments) => arguments,
        Err(e) => return (Outcome::AtLaunch, e.to_string()),
    };
    let function = match device.load(&program.built.kernel) {
        Ok(function) => function,
        Err(e) => return (Outcome::Refused, e.to_string()),
    };
    let threads = program.built.kernel.block.map_or(1, |block| block[0]);
    let mut launch = Launch::new(grid, threads).dynamic_shared(program.built.dynamic_shared());
    if program.cluster > 1 {
        launch = launch.cluster(program.cluster);
    }
    if let Err(e) = function.check_launch(&launch, &arguments) {
        return (Outcome::AtLaunch, e.to_string());
    }
    let mut kernel = program.built.kernel.clone();
    if is_bare {
        for claim in &mut kernel.claims {
            claim.bounds.clear();
            claim.declared = None;
        }
    }
    let function = match device.load(&kernel) {
        Ok(function) => function,
        Err(e) => return (Outcome::Refused, e.to_string()),
    };
    if let Err(e) = device.launch(&function, launch, &arguments) {
        let words = e.to_string();
        return if names_shared_memory(&words) {
            (Outcome::Fault, words)
        } else {
            (Outcome::Wrong, format!("no tensor is named: {words}"))
        };
    }
    for (i, (expected, buffer)) in (program.expected)(given).iter().zip(&buffers).enumerate() {
        let (Given::Tensor(expected) | Given::Map(_, expected), Some(buffer)) = (expected, buffer)
        else {
            continue;
        };
        let found = (buffer.download)();
        let width = (expected.ty.bits() / 8) as usize;
        let mut expected = expected.clone();
        expected.bytes.resize(found.len(), filler(i));
        if let Some(at) = (0..found.len()).find(|b| found[*b] != expected.bytes[*b]) {
            let of = |bytes: &[u8]| {
                let element = bytes.iter().skip(at / width * width);
                element.take(width).copied().collect::<Vec<u8>>()
            };
            let why = format!(
                "argument {i}: element {} is {:?}, not {:?}",
                at / width,
                of(&found),
                of(&expected.bytes)
            );
            return (Outcome::Wrong, why);
        }
    }
    (Outcome::Right, String::new())
}

/// Whether a fault tells bytes of shared memory by a tensor, or by what lies below them.
fn names_shared_memory(words: &str) -> bool {
    let below = [
        (" of dynamic shared memory", " bytes after the end of "),
        ("the block's shared memory", "; the nearest below is "),
    ];
    below.iter().all(|(bare, name)| {
        let mut after = words.split(bare).skip(1);
        after.all(|rest| rest.contains(name))
    })
}

/// Changes one of the arguments; the words for it.
fn change_argument(r: &mut Random, given: &mut [Given]) -> String {
    let i = r.below(given.len());
    let j = r.below(given.len());
    if let Given::Number(n) = &mut given[i] {
        let old = *n;
        *n = r.one(&[
            0,
            1,
            old + 1,
            old.wrapping_sub(1),
            old * 2,
            u32::MAX,
            1 << 30,
        ]);
        return format!("argument {i}: {old} -> {n}");
    }
    if r.below(8) == 0 && i != j {
        given.swap(i, j);
        return format!("arguments {i} and {j} in each other's places");
    }
    let is_map = matches!(given[i], Given::Map(..));
    let (Given::Tensor(memory) | Given::Map(_, memory)) = &mut given[i] else {
        unreachable!("numbers are done with")
    };
    match r.below(5) {
        0 => {
            let near: Vec<Ty> = [Ty::F64, Ty::F32, Ty::F16, Ty::Bf16, Ty::S32]
                .into_iter()
                .filter(|ty| *ty != memory.ty)
                .collect();
            let ty = r.one(&near);
            let words = format!("argument {i}: {} -> {ty}", memory.ty);
            memory.ty = ty;
            words
        }
        1 => {
            let n = memory.bytes.len();
            let width = (memory.ty.bits() / 8) as usize;
            let less = width * (1 + r.below((n / width).clamp(2, 40) - 1));
            memory.bytes.truncate(n - less.min(n));
            format!("argument {i}: {less} bytes fewer of {n}")
        }
        2 if !is_map => {
            memory.origin = r.range(-9, 9);
            format!("argument {i}: from element {}", memory.origin)
        }
        _ => {
            // The reference speaks of layouts that the host can follow.
            let new = changed(r, &memory.layout);
            let words = format!("argument {i}: {} -> {new}", memory.layout);
            memory.layout = new;
            words
        }
    }
}

/// A grid with more blocks than the kernel is for; the words for it.
fn enlarged(r: &mut Random, own: [u32; 3]) -> ([u32; 3], String) {
    let mut grid = own;
    for axis in [0, 1, 2] {
        if r.below(2) == 0 {
            grid[axis] = match r.below(3) {
                0 => own[axis] + 1,
                1 => own[axis] * r.one(&[2, 3]),
                _ => own[axis] + r.range(1, 5) as u32,
            };
        }
    }
    (grid, format!("grid {own:?} -> {grid:?}"))
}

/// The call whose arguments are changed.
const LAUNCH: Site = ("arguments", Kind::Argument);

/// The call whose grid is enlarged.
const GRID: Site = ("launch", Kind::Grid);

/// A change of one kernel of a family.
struct Draw<'a> {
    family: &'a Family,
    /// What the kernel is drawn with.
    form: u64,
    /// What of the kernel is changed.
    site: Site,
    /// The number of the operand; none for the launch.
    target: Option<usize>,
    /// Which of its values, where they are few.
    choice: Option<usize>,
    random: Random,
}

/// How a changed kernel ended, the words for it, and what tells it from other changed kernels.
struct Ended {
    outcome: Outcome,
    words: String,
    key: u64,
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// What the kernel is told by: its text and what it takes. None where it has no text.
fn identity(program: &Program) -> Result<(String, String), String> {
    let text = program.built.kernel.ptx().map_err(|e| e.to_string())?;
    Ok((text, format!("{:?}", program.built.signature)))
}

/// One mutant; none if it is the kernel that it was made from, or if the same change has made the same kernel before.
fn mutant(draw: &Draw<'_>, ran: &mut HashSet<u64>) -> Option<Ended> {
    let original = (draw.family.build)(&mut Hook::new(None, 0), &mut Random(draw.form));
    let original = original.unwrap_or_else(|e| panic!("{}: {e}", draw.family.name));
    let own = identity(&original).unwrap_or_else(|e| panic!("{}: {e}", draw.family.name));
    let mut r = draw.random.clone();
    let is_bare = number("COLEX_MUTANTS_BARE", u64::from(r.0 % 2 == 0)) == 1;
    let Some(target) = draw.target else {
        if draw.site == GRID {
            let grid = (original.grid)(&original.given);
            let (more, words) = enlarged(&mut r, grid);
            let is_new = more != grid && ran.insert(hash(&(&own, &words)));
            return is_new.then(|| {
                let (outcome, why) = run(&original, &original.given, more, is_bare);
                Ended {
                    outcome,
                    key: hash(&(&own, &words)),
                    words: format!("{words}: {why}"),
                }
            });
        }
        let mut given = original.given.clone();
        let words = change_argument(&mut r, &mut given);
        let same = format!("{given:?}") == format!("{:?}", original.given);
        let is_new = !same && ran.insert(hash(&(&own, &words)));
        return is_new.then(|| {
            let (outcome, why) = run(&original, &given, (original.grid)(&given), is_bare);
            Ended {
                outcome,
                key: hash(&(&own, &words)),
                words: format!("{words}: {why}"),
            }
        });
    };
    let mut hook = Hook::new(Some(target), r.next());
    hook.choice = draw.choice;
    let changed = (draw.family.build)(&mut hook, &mut Random(draw.form));
    let words = hook.change.clone();
    let refused = |why: String| Ended {
        outcome: Outcome::Refused,
        key: hash(&(&own, target, &words)),
        words: format!("{words}: {why}"),
    };
    let program = match changed {
        Ok(program) => program,
        Err(e) => {
            let is_new = ran.insert(hash(&(&own, target, &words)));
            return is_new.then(|| refused(e.to_string()));
        }
    };
    let text = match identity(&program) {
        Ok(text) if text == own => return None,
        Ok(text) => text,
        Err(e) => return Some(refused(e)),
    };
    if !ran.insert(hash(&(&text, &words))) {
        return None;
    }
    let grid = (program.grid)(&program.given);
    let (outcome, why) = run(&program, &program.given, grid, is_bare);
    Some(Ended {
        outcome,
        key: hash(&text),
        words: format!("{words}: {why}"),
    })
}

/// How many forms of a family are looked at for different kernels.
const FORMS: u64 = 40;

/// The forms of a family that are different kernels, and how many values their operands may have.
fn bases(family: &Family) -> Vec<(u64, Vec<Option<usize>>)> {
    let mut seen = HashSet::new();
    let mut bases = Vec::new();
    for form in 0..FORMS {
        let mut hook = Hook::new(None, 0);
        let built = (family.build)(&mut hook, &mut Random(form));
        let built = built.unwrap_or_else(|e| panic!("{}: {e}", family.name));
        if seen.insert(identity(&built)) {
            bases.push((form, hook.values));
        }
    }
    bases
}

/// The changes of one call of a family.
struct Group<'a> {
    family: &'a Family,
    site: Site,
    /// The numbers of the operands; none for the launch.
    at: Vec<usize>,
    /// All changes there are, where the operands have few values: a form, the operand, its value.
    few: Option<Vec<(u64, usize, usize)>>,
}

impl Group<'_> {
    fn size(&self) -> u64 {
        self.few.as_ref().map_or(u64::MAX, |few| few.len() as u64)
    }
}

fn groups(family: &Family) -> Vec<Group<'_>> {
    let bases = bases(family);
    let few = |at: &[usize]| -> Option<Vec<(u64, usize, usize)>> {
        let mut all = Vec::new();
        for (form, values) in &bases {
            for site in at {
                let count = values.get(*site).copied().flatten()?;
                all.extend((0..count).map(|value| (*form, *site, value)));
            }
        }
        (!at.is_empty()).then_some(all)
    };
    let calls = calls(family).into_iter();
    calls
        .map(|(site, at)| Group {
            family,
            site,
            few: few(&at),
            at,
        })
        .collect()
}

/// How many changes of each group make that number in all, where some groups have fewer.
fn share(groups: &[Group<'_>], cases: u64) -> u64 {
    let total = |each: u64| groups.iter().map(|g| g.size().min(each)).sum::<u64>();
    let mut each = cases.div_ceil(groups.len() as u64);
    while total(each) < cases {
        each += 1;
    }
    each
}

/// The calls of a family with the numbers of their operands.
fn calls(family: &Family) -> BTreeMap<Site, Vec<usize>> {
    let mut hook = Hook::new(None, 0);
    let built = (family.build)(&mut hook, &mut Random(1));
    built.unwrap_or_else(|e| panic!("{}: {e}", family.name));
    let mut calls: BTreeMap<Site, Vec<usize>> = BTreeMap::new();
    for (i, site) in hook.sites.iter().enumerate() {
        calls.entry(*site).or_default().push(i);
    }
    calls.insert(LAUNCH, Vec::new());
    calls.insert(GRID, Vec::new());
    calls
}

/// Every form of every family is right as it is.
#[test]
fn the_kernels_are_right() {
    let (mut cases, mut wrong) = (0, Vec::new());
    for family in families() {
        for form in 0..12 {
            cases += 1;
            let mut hook = Hook::new(None, 0);
            match (family.build)(&mut hook, &mut Random(form)) {
                Err(e) => wrong.push(format!("{}, form {form}: {e}", family.name)),
                Ok(program) => {
                    match run(
                        &program,
                        &program.given,
                        (program.grid)(&program.given),
                        form % 2 == 0,
                    ) {
                        (Outcome::Right, _) => {}
                        (_, why) => wrong.push(format!("{}, form {form}: {why}", family.name)),
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("law mutants.originals: {cases} cases");
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(otherwise)
}

/// How many different changed kernels of each group a large run must have.
const DISTINCT: u64 = 100;

/// What came of the changes of one group.
struct Row {
    words: String,
    /// How many different changed kernels ended in each way.
    counts: [u64; 5],
    wrong: Vec<String>,
    /// What is short of the kernels that a group must have.
    rare: Option<String>,
}

/// Runs changes of a group until `each` of them are different kernels. A kernel that was drawn before does not count.
fn row(group: &Group<'_>, seed: u64, each: u64) -> Row {
    let (family, (call, kind)) = (group.family, group.site);
    let name = format!("{}, {call}, {kind}", family.name);
    let mut counts = [0u64; 5];
    let (mut seen, mut ran) = (HashSet::new(), HashSet::new());
    let mut wrong = Vec::new();
    for draw in draws(group, seed, each) {
        if seen.len() as u64 == each {
            break;
        }
        let result = catch_unwind(AssertUnwindSafe(|| mutant(&draw, &mut ran)));
        let ended = match result {
            Ok(None) => continue,
            Ok(Some(ended)) => ended,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
                let words = format!("panic: {}", text.unwrap_or_default());
                Ended {
                    outcome: Outcome::Wrong,
                    key: hash(&words),
                    words,
                }
            }
        };
        if seen.insert(ended.key) {
            counts[ended.outcome as usize] += 1;
        }
        if ended.outcome == Outcome::Wrong {
            wrong.push(format!(
                "{name}, form {:#x}, operand {:?}, value {:?}, random {:#x}: {}",
                draw.form, draw.target, draw.choice, draw.random.0, ended.words
            ));
        }
    }
    let distinct = seen.len() as u64;
    let is_exhaustive = group.size() <= each;
    let all = if is_exhaustive { "all " } else { "" };
    let enough = if is_exhaustive { 1 } else { each.min(DISTINCT) };
    Row {
        words: format!(
            "{:<16}{call:<22}{kind:<12}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}",
            family.name,
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            counts[4],
            format!("{all}{distinct}"),
        ),
        counts,
        wrong,
        rare: (distinct < enough).then(|| format!("{name}: {distinct} of {enough}")),
    }
}

/// Nothing that is changed is wrong in silence, and every group has its number of different changed kernels.
#[test]
fn law_mutants() {
    let families = families();
    let only = std::env::var("COLEX_MUTANTS_ONLY").unwrap_or_default();
    let all: Vec<Group<'_>> = families.iter().flat_map(groups).collect();
    let each = share(&all, number("COLEX_MUTANTS", 2000));
    let seed = number("COLEX_MUTANTS_SEED", 1);
    let is_asked = |group: &&Group<'_>| {
        let (call, kind) = group.site;
        format!("{}, {call}, {kind}", group.family.name).starts_with(&only)
    };
    let asked: Vec<&Group<'_>> = all.iter().filter(is_asked).collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    println!(
        "{:<16}{:<22}{:<12}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}{:>9}",
        "family",
        "call",
        "kind",
        "refused",
        "launch",
        "fault",
        "right",
        "WRONG",
        "distinct",
        "seconds"
    );
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(group) = asked.get(i) else { return };
                    let started = Instant::now();
                    let row = row(group, seed, each);
                    println!("{}{:>9.1}", row.words, started.elapsed().as_secs_f64());
                    rows.lock().expect("no row panics").insert(i, row);
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no row panics");
    let (mut run, mut wrong, mut rare) = (0, Vec::new(), Vec::new());
    for row in rows.into_values() {
        run += row.counts.iter().sum::<u64>();
        wrong.extend(row.wrong);
        rare.extend(row.rare);
    }
    println!("law mutants: {run} cases");
    assert!(
        wrong.is_empty(),
        "{} wrong of {run}:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(200)].join("\n")
    );
    assert!(
        rare.is_empty(),
        "too few different changed kernels, and not all that there are:\n{}",
        rare.join("\n")
    );
}

/// The changes of a group, in an order that the seed decides: all of a few, else more than will be counted.
fn draws<'a>(
    group: &'a Group<'a>,
    seed: u64,
    each: u64,
) -> Box<dyn Iterator<Item = Draw<'a>> + 'a> {
    let key = format!("{seed} {} {:?}", group.family.name, group.site);
    let first = key.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut r = Random(first);
    let Some(few) = &group.few else {
        let most = (20 * each.min(DISTINCT)).max(2 * each);
        return Box::new((0..most).map(move |_| Draw {
            family: group.family,
            form: r.next(),
            site: group.site,
            target: (!group.at.is_empty()).then(|| r.one(&group.at)),
            choice: None,
            random: Random(r.next()),
        }));
    };
    let mut few = few.clone();
    for i in (1..few.len()).rev() {
        few.swap(i, r.below(i + 1));
    }
    Box::new(few.into_iter().map(move |(form, target, value)| Draw {
        family: group.family,
        form,
        site: group.site,
        target: Some(target),
        choice: Some(value),
        random: Random(r.next()),
    }))
}

/// A tensor among what is given.
pub(crate) fn tensor(ty: Ty, layout: &str, seed: i64) -> Given {
    Given::Tensor(Memory::numbers(ty, layout, seed))
}

/// A tensor that a kernel writes.
pub(crate) fn target(ty: Ty, layout: &str) -> Given {
    Given::Tensor(Memory::poison(ty, layout))
}
