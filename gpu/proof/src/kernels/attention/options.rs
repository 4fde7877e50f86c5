//! Every combination of the options of a call of attention: the numbers of the reference, or the documented error.

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionCall, AttentionMethod, AttentionPlan, AttentionProblem, Mask,
};
use colex_gpu::{Buffer, Device, Error, PlanRefusal, View, ViewMut};
use colex_layout::Layout;
use half::f16;

use super::{Expected, sinks};
use crate::kernels::sequences::{DrawnCall, PackedRows, compact};
use crate::soak::takes;
use crate::sweep::Random;

/// How many combinations ran, and how many were refused.
pub type RunAndRefused = [usize; 2];

/// The options of a call but those that say where its sequences lie.
#[derive(Clone, Copy, Debug)]
struct Scores {
    mask: Mask,
    softcap: Option<f32>,
    log_sum_exp: bool,
    has_sinks: bool,
}

impl Scores {
    /// All combinations.
    fn all() -> Vec<Scores> {
        let masks = [Mask::Full, Mask::Causal, Mask::Window { left: 6, right: 1 }];
        let of_mask = |mask| {
            (0..8_u8).map(move |bits| Scores {
                mask,
                softcap: (bits & 1 > 0).then_some(5.0),
                log_sum_exp: bits & 2 > 0,
                has_sinks: bits & 4 > 0,
            })
        };
        masks.into_iter().flat_map(of_mask).collect()
    }
}

/// Where the sequences of a call lie.
#[derive(Clone, Copy, Debug)]
struct Places {
    query_offsets: bool,
    key_offsets: bool,
    pages: bool,
}

impl Places {
    /// All combinations, with offsets and pages of keys too, which contradict each other.
    fn all() -> impl Iterator<Item = Places> {
        (0..8_u8).map(|bits| Places {
            query_offsets: bits & 1 > 0,
            key_offsets: bits & 2 > 0,
            pages: bits & 4 > 0,
        })
    }

    fn contradict(&self) -> bool {
        self.key_offsets && self.pages
    }
}

/// The heads of Q and those of K, and the features of both.
const HEADS: [i64; 2] = [2, 1];
const FEATURES: i64 = 64;

/// Two sequences: the queries of each, the keys, and the rows of a page.
const QUERIES: i64 = 5;
const KEYS: [i64; 2] = [20, 9];
const PAGE: i64 = 16;

/// The tensors of calls whose sequences lie in one way.
struct Tensors {
    places: Places,
    queries: PackedRows,
    /// The rows of K and V, and of a sequence of keys its number of rows.
    rows: i64,
    keys: [i64; 2],
    numbers: [Vec<f16>; 3],
    on: [Buffer<f16>; 3],
    o: Buffer<f16>,
    sums: Buffer<f32>,
    sinks: (Vec<f32>, Buffer<f32>),
    offsets: [Buffer<u32>; 2],
    table: Buffer<u32>,
    lengths: Buffer<u32>,
}

/// The first rows of packed keys, and the entries of the table.
const OFFSETS: [u32; 3] = [1, 21, 30];
const TABLE: [u32; 4] = [3, 0, 2, 7];

impl Tensors {
    fn new(device: &Device, r: &mut Random, places: Places) -> Result<Tensors, Error> {
        let queries = if places.query_offsets {
            PackedRows {
                offsets: vec![1, 4, 9],
                rows: 10,
                most: QUERIES,
            }
        } else {
            PackedRows {
                offsets: vec![0, 5, 10],
                rows: 10,
                most: QUERIES,
            }
        };
        let (rows, keys) = match (places.key_offsets, places.pages) {
            (false, false) => (2 * KEYS[0], [KEYS[0]; 2]),
            (true, _) => (33, KEYS),
            (false, true) => (4 * PAGE, KEYS),
        };
        let mut number = |_| f16::from_f64(f64::from(r.below(4001_i32) - 2000) / 1000.0);
        let of_q = queries.rows * HEADS[0];
        let numbers = [of_q, rows, rows].map(|rows| -> Vec<f16> {
            let elements = 0..rows * FEATURES;
            elements.map(&mut number).collect()
        });
        let mut of_heads = AttentionProblem::new(Ty::F16, 1, HEADS, [1, 1], [FEATURES; 2]);
        of_heads.sinks = Some(1);
        let sinks = sinks(r, &of_heads);
        let upload = |i: usize| device.upload(&numbers[i]);
        Ok(Tensors {
            places,
            rows,
            keys,
            on: [upload(0)?, upload(1)?, upload(2)?],
            o: device.poisoned(numbers[0].len())?,
            sums: device.poisoned(of_q as usize)?,
            sinks: (sinks.clone(), device.upload(&sinks)?),
            offsets: [device.upload(&queries.offsets)?, device.upload(&OFFSETS)?],
            table: device.upload(&TABLE)?,
            lengths: device.upload(&KEYS.map(|keys| keys as u32))?,
            queries,
            numbers,
        })
    }

    /// The row of K and V that has a key.
    fn row(&self, sequence: usize, key: i64) -> i64 {
        match (self.places.key_offsets, self.places.pages) {
            (false, false) => sequence as i64 * KEYS[0] + key,
            (true, _) => i64::from(OFFSETS[sequence]) + key,
            (false, true) => {
                let entry = 2 * sequence as i64 + key / PAGE;
                i64::from(TABLE[entry as usize]) * PAGE + key % PAGE
            }
        }
    }

    /// Describes the call, and gives it to `body`.
    fn with_call<R>(
        &self,
        scores: &Scores,
        body: impl FnOnce(Attention<'_, f16>) -> R,
    ) -> Result<R, Error> {
        let Places {
            query_offsets,
            key_offsets,
            pages,
        } = self.places;
        let ([heads, _], features) = (HEADS, FEATURES);
        let row = heads * features;
        let of_q = if query_offsets {
            Layout::new([self.queries.rows, heads, features], [row, features, 1])?
        } else {
            let strides = [QUERIES * row, features, row, 1];
            Layout::new([2, heads, QUERIES, features], strides)?
        };
        let of_keys = match (key_offsets, pages) {
            (true, _) => Layout::new([self.rows, 1, features], [features, features, 1])?,
            (false, is_paged) => {
                let length = if is_paged { PAGE } else { KEYS[0] };
                let strides = [length * features, features, features, 1];
                Layout::new([self.rows / length, 1, length, features], strides)?
            }
        };
        let of_sums = if query_offsets {
            Layout::new([self.queries.rows, heads], [heads, 1])?
        } else {
            Layout::new([2, heads, QUERIES], [QUERIES * heads, 1, heads])?
        };
        let (mut o, mut sums) = (self.o.clone(), self.sums.clone());
        let q = View::new(&self.on[0], &of_q)?;
        let (k, v) = (
            View::new(&self.on[1], &of_keys)?,
            View::new(&self.on[2], &of_keys)?,
        );
        let o = ViewMut::new(&mut o, &of_q)?;
        let sums = ViewMut::new(&mut sums, &of_sums)?;
        let [of_queries, of_rows] = self.offsets.each_ref().map(|of| of.view(3));
        let (of_queries, of_rows) = (of_queries?, of_rows?);
        let (table, lengths) = (self.table.view((2, 2))?, self.lengths.view(2)?);
        let sinks = self.sinks.1.view(heads)?;
        let mut call = Attention::new(&q, &k, &v, &o).mask(scores.mask);
        if query_offsets {
            call = call.query_offsets(&of_queries, QUERIES);
        }
        if key_offsets {
            call = call.key_offsets(&of_rows, KEYS[0]);
        }
        if pages {
            call = call.pages(&table, &lengths, KEYS[0]);
        }
        if let Some(cap) = scores.softcap {
            call = call.softcap(cap);
        }
        if scores.log_sum_exp {
            call = call.log_sum_exp(&sums);
        }
        if scores.has_sinks {
            call = call.sinks(&sinks);
        }
        Ok(body(call))
    }

    /// What the reference says of the call.
    fn expected(&self, scores: &Scores) -> DrawnCall<'_, f16> {
        let sinks: &[f32] = if scores.has_sinks { &self.sinks.0 } else { &[] };
        let of_sequence = |i: usize| {
            let rows = self.queries.sequence(i);
            let lengths = [rows[1], self.keys[i]];
            let mut problem = AttentionProblem::new(Ty::F16, 1, HEADS, lengths, [FEATURES; 2]);
            problem = AttentionProblem {
                mask: scores.mask,
                softcap: scores.softcap,
                log_sum_exp: scores.log_sum_exp,
                sinks: scores.has_sinks.then_some(1),
                ..problem
            };
            let of_keys = |all: &[f16]| -> Vec<f16> {
                let rows = (0..self.keys[i]).map(|key| self.row(i, key) * FEATURES);
                let rows = rows.map(|at| at as usize..(at + FEATURES) as usize);
                rows.flat_map(|row| all[row].to_vec()).collect()
            };
            let [q, k, v] = &self.numbers;
            let parts = [rows_of(q, rows), of_keys(k), of_keys(v)];
            let parts = parts.each_ref().map(|part| &part[..]);
            (i, problem, Expected::of(&problem, parts, sinks))
        };
        DrawnCall {
            what: format!("{:?}, {scores:?}", self.places),
            queries: &self.queries,
            heads: [HEADS[0], HEADS[0] / HEADS[1]],
            written: (&self.o, &self.sums),
            expected: (0..2).map(of_sequence).collect(),
        }
    }
}

/// The rows of a range of Q or O, as (head, row, feature).
fn rows_of(all: &[f16], rows: [i64; 2]) -> Vec<f16> {
    let count = all.len() as i64 / (HEADS[0] * FEATURES);
    let strides = [HEADS[0] * FEATURES, FEATURES, 1];
    let layout = Layout::new([count, HEADS[0], FEATURES], strides);
    compact(all, &layout.expect("a layout of a few rows"), rows)
}

/// Computes every combination of packed queries, packed keys, keys in pages, masks, a soft-cap, the log-sum-exp, sinks and methods, by
/// `run` and by `prepare`, and compares every element. A combination is refused only if it has offsets and pages of keys, which
/// contradict each other, or if the device has no kernel of the method. Takes each `step`-th combination where a law is not asked for
/// more than usual ([`takes`]).
///
/// # Errors
///
/// Returns the first combination whose result or error is another, in words.
pub fn check_options(device: &Device, step: usize) -> Result<RunAndRefused, String> {
    let mut r = Random::of(53, "options");
    let mut counts = [0; 2];
    let mut number = 0;
    let methods = [
        None,
        Some(AttentionMethod::Ampere),
        Some(AttentionMethod::Hopper),
    ];
    for places in Places::all() {
        let tensors = Tensors::new(device, &mut r, places).map_err(|e| e.to_string())?;
        for (scores, method) in
            (Scores::all().iter()).flat_map(|scores| methods.map(|method| (scores, method)))
        {
            number += 1;
            if !takes(step, number) {
                continue;
            }
            let expected = tensors.expected(scores);
            let what = format!("{}, {method:?}", expected.what);
            let found = tensors.with_call(scores, |call| {
                let call = match method {
                    Some(method) => call.method(method),
                    None => call,
                };
                let refused = refused_call(&places, method, device.arch());
                one(device, &expected, &call, refused)
            });
            let runs = found.map_err(|e| format!("{what}: {e}"))?;
            counts[usize::from(!runs.map_err(|why| format!("{what}: {why}"))?)] += 1;
        }
    }
    Ok(counts)
}

/// The sentence with which a call is refused, and whether no kernel computes it; `None` if it is computed.
fn refused_call(
    places: &Places,
    method: Option<AttentionMethod>,
    arch: Arch,
) -> Option<(String, bool)> {
    let hopper = format!("the Hopper kernel runs on sm_90a, and not on {arch}");
    let ampere = format!("the Ampere kernel runs since sm_80, and not on {arch}");
    let (is_ampere, is_hopper) = (arch >= Arch::Sm80, arch == Arch::Sm90a);
    if places.contradict() {
        let why = "the call has key offsets and pages of keys: the keys of a sequence lie in rows or in pages";
        return Some((why.to_string(), false));
    }
    let why = if method == Some(AttentionMethod::Hopper) {
        (!is_hopper).then_some(hopper)
    } else if method == Some(AttentionMethod::Ampere) {
        (!is_ampere).then_some(ampere)
    } else {
        let neither = format!("no kernel takes the call: {hopper}; {ampere}");
        (!is_ampere).then_some(neither)
    };
    why.map(|why| (why, true))
}

/// Runs a call in each way, and returns whether it ran; or why it did not do what is documented.
fn one(
    device: &Device,
    expected: &DrawnCall<'_, f16>,
    call: &Attention<'_, f16>,
    refused: Option<(String, bool)>,
) -> Result<bool, String> {
    let Some((sentence, is_unsupported)) = refused else {
        let prepared = call.prepare().map_err(|e| e.to_string())?;
        expected.check(&prepared.to_string(), || prepared.run(device), rows_of)?;
        expected.check("run", || call.run(), rows_of)?;
        return Ok(true);
    };
    let errors = [
        ("run", call.run().err()),
        ("prepare", call.prepare().err()),
        (
            "plan",
            call.plan().and_then(|plan| plan.check(device.arch())).err(),
        ),
        ("explain", call.explain().err()),
    ];
    for (name, error) in errors {
        let error = error.ok_or_else(|| format!("{name} does not say: {sentence}"))?;
        if error.to_string() != sentence || error.is_unsupported() != is_unsupported {
            return Err(format!("{name} says: {error}; and should: {sentence}"));
        }
    }
    Ok(false)
}

/// Whose a field of a plan is: of the method alone, which has the other one say that it does not.
#[derive(Clone, Copy, Debug)]
enum FieldOf {
    Both,
    /// With the words of Hopper's refusal.
    Ampere(&'static str),
    /// With the words of Ampere's refusal.
    Hopper(&'static str),
}

type Change = fn(&mut AttentionPlan);

/// The fields of a plan that not every method or call takes.
const CHANGES: [(FieldOf, Change); 17] = [
    (FieldOf::Both, |plan| plan.early = true),
    (FieldOf::Ampere("packs no heads"), |plan| plan.packs = 2),
    (FieldOf::Ampere("does not divide the keys"), |plan| {
        plan.splits = 2;
    }),
    (FieldOf::Ampere("does not divide the keys"), |plan| {
        (plan.splits, plan.by_lanes) = (3, true);
    }),
    (FieldOf::Ampere("does not divide the keys"), |plan| {
        (plan.early, plan.splits, plan.next_early) = (true, 2, true);
    }),
    (
        FieldOf::Ampere("asks for no keys before it waits"),
        |plan| {
            (plan.early, plan.prefetch) = (true, Some(1));
        },
    ),
    (
        FieldOf::Ampere("bounds no blocks beside each other"),
        |plan| {
            plan.beside = 1;
        },
    ),
    (FieldOf::Ampere("packs no heads"), |plan| {
        (plan.packs, plan.splits, plan.beside) = (2, 2, 1);
    }),
    (FieldOf::Hopper("computes no strips of heads"), |plan| {
        plan.strip = 2;
    }),
    (FieldOf::Hopper("loads no tiles of queries ahead"), |plan| {
        plan.ahead = 2;
    }),
    (FieldOf::Hopper("has no clusters"), |plan| plan.cluster = 2),
    (FieldOf::Hopper("pairs no tiles"), |plan| plan.pairs = true),
    (FieldOf::Hopper("gives its consumers no turns"), |plan| {
        plan.turns = true;
    }),
    (FieldOf::Hopper("sorts no sequences"), |plan| {
        plan.sorted = true;
    }),
    (FieldOf::Hopper("overlaps no products"), |plan| {
        plan.overlap = plan.method == AttentionMethod::Ampere;
    }),
    (FieldOf::Hopper("has no persistent blocks"), |plan| {
        plan.persistent = plan.method == AttentionMethod::Ampere;
    }),
    (
        FieldOf::Hopper("gives its warps no numbers of registers"),
        |plan| {
            (plan.tile, plan.consumers) = ([128, 32], 2);
            plan.registers = Some([24, 208]);
        },
    ),
];

/// Prepares every combination of places, masks and methods with each field of a plan that not all of them take, and compares every
/// element of those that run. A field is refused only if it is the other method's, or if the call contradicts it, with a sentence
/// that says which method or call has it.
///
/// # Errors
///
/// Returns the first combination whose result or error is another, in words.
pub fn check_plan_options(device: &Device) -> Result<RunAndRefused, String> {
    let mut r = Random::of(54, "options");
    let (mut counts, mut number) = ([0; 2], 0);
    for places in Places::all().filter(|places| !places.contradict()) {
        let tensors = Tensors::new(device, &mut r, places).map_err(|e| e.to_string())?;
        for i in 0..3 {
            for method in [AttentionMethod::Ampere, AttentionMethod::Hopper] {
                if method == AttentionMethod::Hopper && device.arch() != Arch::Sm90a {
                    continue;
                }
                for (field, change) in CHANGES {
                    // The other options of the scores take turns.
                    let scores = &Scores::all()[8 * i + number % 8];
                    number += 1;
                    if device.is_simulator() && !takes(5, number + i) {
                        continue;
                    }
                    let expected = tensors.expected(scores);
                    let (mut what, mut refused) = (String::new(), None);
                    let found = tensors.with_call(scores, |call| {
                        let prepared = call.prepare_with(|operands, arch| {
                            let mut plan = AttentionPlan::new(method, operands);
                            change(&mut plan);
                            what = format!("{}, {plan}, {field:?}", expected.what);
                            refused = refused_plan((&plan, field), (&places, scores.mask), arch);
                            Ok(plan)
                        });
                        planned(device, &expected, prepared, refused.as_ref())
                    });
                    let runs = found.map_err(|e| format!("{what}: {e}"))?;
                    counts[usize::from(!runs.map_err(|why| format!("{what}: {why}"))?)] += 1;
                }
            }
        }
    }
    Ok(counts)
}

/// The sentence with which a plan is refused, and its part; `None` if it is taken.
fn refused_plan(
    (plan, field): (&AttentionPlan, FieldOf),
    (places, mask): (&Places, Mask),
    arch: Arch,
) -> Option<(String, PlanRefusal)> {
    let method = plan.method;
    let is_ampere = method == AttentionMethod::Ampere;
    if plan.early && arch < Arch::Sm90 {
        let why = format!(
            "the plan's kernels begin early: kernels do so from sm_90 on, and not on {arch}"
        );
        return Some((why, PlanRefusal::Combination));
    }
    let combination = |why: String| Some((why, PlanRefusal::Combination));
    match field {
        FieldOf::Hopper(words) if is_ampere => {
            return combination(format!("the Ampere kernel {words}: the Hopper kernel does"));
        }
        FieldOf::Ampere(words) if !is_ampere => {
            return combination(format!("the Hopper kernel {words}: the Ampere kernel does"));
        }
        FieldOf::Both | FieldOf::Ampere(_) | FieldOf::Hopper(_) => {}
    }
    let is_packed = places.query_offsets || places.key_offsets;
    if plan.prefetch.is_some() && (is_packed || places.pages) {
        return combination(
            "the plan asks the L2 cache for keys before it waits: where those of packed sequences and of pages lie is known after \
             the wait"
                .to_string(),
        );
    }
    if plan.sorted && !places.query_offsets {
        return combination(
            "the plan sorts sequences: only those of packed queries have lengths of their own"
                .to_string(),
        );
    }
    if plan.turns && plan.consumers == 1 {
        return combination("the plan's consumers take turns: it has one consumer".to_string());
    }
    if plan.pairs && mask != Mask::Causal {
        return combination(
            "the plan computes tiles of queries in pairs: only under a causal mask one sees many keys and the other few"
                .to_string(),
        );
    }
    let own_keys = [
        (mask != Mask::Full, "a mask"),
        (is_packed, "packed sequences"),
        (places.pages, "pages"),
    ];
    let own_keys = own_keys.iter().find(|(is_there, _)| *is_there);
    match own_keys {
        Some((_, what)) if plan.cluster > 1 => combination(format!(
            "the plan has clusters of 2 blocks: with {what} each block of the Hopper kernel loads its own keys"
        )),
        _ => None,
    }
}

/// Runs a call that was prepared, and returns whether it ran; or why it did not do what is documented.
fn planned(
    device: &Device,
    expected: &DrawnCall<'_, f16>,
    prepared: Result<AttentionCall<'_>, Error>,
    refused: Option<&(String, PlanRefusal)>,
) -> Result<bool, String> {
    match (prepared, refused) {
        (Ok(prepared), None) => {
            expected.check(&prepared.to_string(), || prepared.run(device), rows_of)?;
            Ok(true)
        }
        (Err(error), Some((sentence, part))) => {
            let is_right = error.to_string() == *sentence
                && error.plan() == Some(*part)
                && !error.is_unsupported();
            if is_right {
                Ok(false)
            } else {
                Err(format!("it says: {error}; and should: {sentence}"))
            }
        }
        (Ok(_), Some((sentence, _))) => Err(format!("it is taken, and should say: {sentence}")),
        (Err(error), None) => Err(format!("it is refused: {error}")),
    }
}
