//! The families of plans that calls of attention choose, each in a small problem that turns every ring of stages twice.
//!
//! A plan is described by its traits: its kernel, types and switches, and what it knows of the tensors. Problems are drawn over
//! the whole surface, the plans that calls choose for them are read, and of these as many are taken as have every pair of
//! traits that any of them has. A plan runs with the switches that were chosen and with smaller numbers: few keys of a step, two
//! parts of the keys, packs of two heads. Calls choose rings of two stages and one, two or four consumers: plans with other
//! numbers, which a caller may choose, are added (`RINGS`), and plans with fields that calls leave alone (`FIELDS`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use colex_atom::{Arch, Ty};
use colex_device::DeviceSlice;
use colex_gpu::attention::{
    AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, AttentionTensor, Mask,
    Sequences,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::sim::{EventKind, Report, Schedule, SimOptions};
use colex_gpu::{Buffer, Device, Limits};
use half::{bf16, f16};

use super::{Expected, Found, WIDTHS};
use crate::sweep::Random;

/// A plan that a call chooses, with small numbers, and its problem.
#[derive(Clone, Debug)]
pub struct Family {
    /// The plan.
    pub plan: AttentionPlan,
    /// The small problem.
    pub problem: AttentionProblem,
    /// The architecture that it was chosen on.
    pub arch: Arch,
    /// The queries and the keys of each sequence.
    lengths: Vec<[i64; 2]>,
    /// What the plan is, in words.
    traits: Vec<String>,
}

/// Rings that no call chooses, but a caller may: the kernel, the stages of keys and values, the consumers, and the tiles of
/// queries that the producer loads ahead (Hopper).
const RINGS: [(AttentionMethod, i64, i64, i64); 9] = [
    (AttentionMethod::Hopper, 1, 1, 1),
    (AttentionMethod::Hopper, 3, 1, 2),
    (AttentionMethod::Hopper, 1, 2, 1),
    (AttentionMethod::Hopper, 3, 2, 1),
    (AttentionMethod::Hopper, 2, 3, 1),
    (AttentionMethod::Hopper, 3, 3, 2),
    (AttentionMethod::Ampere, 3, 1, 1),
    (AttentionMethod::Ampere, 3, 2, 1),
    (AttentionMethod::Ampere, 4, 4, 1),
];

/// What a family has that its usual plan has not.
type OtherFields = fn(&mut AttentionPlan);

/// Fields that no call chooses, but a caller may: what they are, the kernel, and the change of a chosen plan.
const FIELDS: [(&str, AttentionMethod, OtherFields); 5] = [
    ("clusters of two", AttentionMethod::Hopper, |plan| {
        (plan.cluster, plan.pairs) = (2, false);
    }),
    (
        "clusters of four, three stages and strips of two heads",
        AttentionMethod::Hopper,
        |plan| {
            (plan.cluster, plan.stages, plan.strip) = (4, 3, 2);
            (plan.ahead, plan.pairs, plan.overlap) = (1, false, false);
            (plan.tile[0], plan.consumers, plan.turns) = (64, 1, false);
        },
    ),
    (
        "strips of two heads and numbers of registers",
        AttentionMethod::Hopper,
        |plan| {
            (plan.strip, plan.registers) = (2, Some([88, 248]));
            (plan.tile[0], plan.consumers, plan.turns) = (64, 1, false);
        },
    ),
    (
        "steps asked for before the wait and one block of a multiprocessor",
        AttentionMethod::Ampere,
        |plan| {
            (plan.early, plan.prefetch, plan.beside) = (true, Some(2), 1);
        },
    ),
    (
        "parts whose sum lets the next launch begin",
        AttentionMethod::Ampere,
        |plan| {
            (plan.early, plan.splits, plan.next_early) = (true, 2, true);
            (plan.prefetch, plan.beside) = (Some(0), 2);
        },
    ),
];

/// What was drawn, and what of it runs.
#[derive(Debug)]
pub struct Cover {
    /// The plans that run: those that calls choose, then those with other rings, and then those with other fields.
    pub families: Vec<Family>,
    /// The number of different lists of traits that the drawn plans have.
    pub kinds: usize,
    /// The number of pairs of traits of chosen plans, all of which the plans have that run.
    pub pairs: usize,
    /// All traits.
    pub traits: BTreeSet<String>,
}

/// Draws problems, and returns the plans that together have every pair of traits that a plan of a call has for one of them. Adds
/// a plan for each ring that calls do not choose, and for each field that they leave alone.
///
/// # Errors
///
/// Returns the first problem for which a call has no plan, or the first ring or field that no plan takes, in words.
pub fn cover(seed: u64, problems: usize) -> Result<Cover, String> {
    let mut r = Random::of(seed, "families");
    // Each trait has a number: the first is 0.
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut kinds: Vec<(Vec<usize>, ChosenPlan)> = Vec::new();
    let mut known: HashSet<Vec<usize>> = HashSet::new();
    for _ in 0..problems {
        let drawn = ChosenPlan::draw(&mut r)?;
        let of_plan = drawn.traits().into_iter().map(|name| {
            let next = numbers.len();
            *numbers.entry(name).or_insert(next)
        });
        let of_plan: Vec<usize> = of_plan.collect();
        if known.insert(of_plan.clone()) {
            kinds.push((of_plan, drawn));
        }
    }
    // The traits of different kernels have no pair.
    let count = numbers.len();
    let pairs = |(of_plan, drawn): &(Vec<usize>, ChosenPlan)| -> Vec<usize> {
        let is_hopper = drawn.plan.method == AttentionMethod::Hopper;
        let of_kernel = usize::from(is_hopper) * count * count;
        let each = of_plan.iter().enumerate().flat_map(|(i, a)| {
            let later = of_plan[i + 1..].iter();
            later.map(move |b| of_kernel + a * count + b)
        });
        each.collect()
    };
    let of_kinds: Vec<Vec<usize>> = kinds.iter().map(pairs).collect();
    let mut open = vec![false; 2 * count * count];
    of_kinds
        .iter()
        .flatten()
        .for_each(|pair| open[*pair] = true);
    let pairs = open.iter().filter(|is_open| **is_open).count();
    let mut families = Vec::new();
    while open.contains(&true) {
        let gain = |i: &usize| of_kinds[*i].iter().filter(|pair| open[**pair]).count();
        let best = (0..kinds.len()).max_by_key(gain);
        let best = best.expect("a pair is one of a plan");
        of_kinds[best].iter().for_each(|pair| open[*pair] = false);
        families.push(kinds[best].1.small()?);
    }
    for (i, ring) in RINGS.into_iter().enumerate() {
        // Each ring has a plan with other switches than the one before it.
        let from = i * kinds.len() / RINGS.len();
        let all = kinds[from..].iter().chain(&kinds[..from]);
        let family = all.filter_map(|(_, drawn)| drawn.with_ring(ring)).next();
        families.push(family.ok_or_else(|| format!("no plan takes the ring {ring:?}"))?);
    }
    for (what, method, change) in FIELDS {
        let mut all = kinds.iter().map(|(_, drawn)| drawn);
        let family = all.find_map(|drawn| drawn.with_fields(method, change));
        families.push(family.ok_or_else(|| format!("no plan takes {what}"))?);
    }
    Ok(Cover {
        families,
        kinds: kinds.len(),
        pairs,
        traits: numbers.into_keys().collect(),
    })
}

/// A drawn problem, and the plan that a call chooses for it.
#[derive(Clone, Debug)]
struct ChosenPlan {
    plan: AttentionPlan,
    problem: AttentionProblem,
    arch: Arch,
    /// The elements between rows of features.
    pad: i64,
}

impl ChosenPlan {
    fn draw(r: &mut Random) -> Result<ChosenPlan, String> {
        let (arch, multiprocessors) = r.one(&[(Arch::Sm80, 108), (Arch::Sm90a, 132)]);
        let of_keys = r.one(&[1, 2, 8]);
        let heads = [of_keys * r.one(&[1, 1, 4, 8]), of_keys];
        let queries = r.one(&[1, 1, 2, 5, 40, 100, 700, 4096]);
        let keys = r.one(&[30, 60, 200, 1000, 4096, 16384]);
        let mut problem = AttentionProblem::new(
            r.one(&[Ty::F16, Ty::Bf16]),
            r.one(&[1, 2, 7, 64]),
            heads,
            [queries, keys],
            r.one(&WIDTHS),
        );
        problem.mask = match r.below(3_u64) {
            0 => Mask::Full,
            1 => Mask::Causal,
            _ => Mask::Window {
                left: 1 << r.below(12_u32),
                right: r.below(90_u32),
            },
        };
        problem.softcap = r.one_in(4).then_some(30.0);
        problem.log_sum_exp = r.one_in(2);
        problem.sinks = r.one_in(4).then_some(1);
        if r.one_in(3) {
            let rows = problem.batch * queries;
            problem.sequences[0] = Sequences::Packed { rows };
        }
        let rows = r.one(&[16, 32, 48, 64]);
        let entries = (keys + rows - 1) / rows;
        problem.sequences[1] = match r.below(3_u64) {
            0 => Sequences::Batch,
            1 => Sequences::Packed {
                rows: problem.batch * keys,
            },
            _ => Sequences::Paged {
                pages: problem.batch * entries,
                rows,
                entries,
                strides: [entries, 1],
            },
        };
        let pad = r.one(&[0, 0, 0, 0, 0, 0, 4, 2, 1]);
        set_strides(&mut problem, pad);
        let operands = AttentionOperands::of(&problem, [0; 4]);
        let plan = AttentionPlan::fastest(&problem, operands, arch, multiprocessors);
        Ok(ChosenPlan {
            plan: plan.map_err(|error| format!("{problem} on {arch}: {error}"))?,
            problem,
            arch,
            pad,
        })
    }

    fn traits(&self) -> Vec<String> {
        traits(&self.plan, &self.problem, self.arch)
    }

    /// The same switches with another ring, in a small problem with queries that see no key; `None` if the plan takes no such ring.
    fn with_ring(
        &self,
        (method, stages, consumers, ahead): (AttentionMethod, i64, i64, i64),
    ) -> Option<Family> {
        let rows = if method == AttentionMethod::Hopper {
            64
        } else {
            16
        };
        let is_bounded = self.problem.mask != Mask::Full;
        if !is_bounded {
            return None;
        }
        self.with_fields(method, |plan| {
            *plan = AttentionPlan {
                tile: [rows * consumers, plan.tile[1]],
                stages,
                consumers,
                turns: plan.turns && consumers > 1,
                ahead,
                ..*plan
            };
        })
    }

    /// The plan with a change, in a small problem; `None` if the plan is of another kernel, or takes no such change.
    fn with_fields(
        &self,
        method: AttentionMethod,
        change: impl FnOnce(&mut AttentionPlan),
    ) -> Option<Family> {
        let mut changed = self.clone();
        change(&mut changed.plan);
        // A ring turns in the same way for large heads, which the simulator takes longer for.
        let is_narrow = self.problem.features[0] == 64;
        if self.plan.method == method && is_narrow && changed.plan.check(self.arch).is_ok() {
            changed.small().ok()
        } else {
            None
        }
    }

    /// The same switches in a problem that the simulator computes in a fraction of a second.
    fn small(&self) -> Result<Family, String> {
        let (mut plan, mut problem) = (self.plan, self.problem);
        plan.packs = plan.packs.min(2);
        plan.splits = plan.splits.min(2);
        // Blocks of many rows see a block of keys whole only if it has some keys more.
        let least = if plan.method == AttentionMethod::Hopper && plan.consumers > 1 {
            32
        } else {
            16
        };
        let fits = |keys: &i64| {
            let tile = [plan.tile[0], *keys];
            AttentionPlan { tile, ..plan }.check(self.arch).is_ok()
        };
        let keys = (least..=plan.tile[1]).step_by(16).find(fits);
        plan.tile[1] = keys.ok_or_else(|| format!("{plan} takes no smaller steps"))?;
        let step = plan.tile[1];
        let along = plan.tile[0] / plan.packs;
        // Two turns of the ring in each part, and a block that is not full.
        let turns = 2 * plan.stages * plan.splits * step;
        let mut most = turns + step / 2 + 3;
        // The place at which a tile sees blocks of every kind.
        let (mut place, mut past) = (step, 5);
        if let Mask::Window { left, right } = &mut problem.mask {
            // All rows of a tile see some block whole, and there are keys before those that any of them sees.
            let keys = (turns + 2).max(along + 2 * step);
            (*left, *right) = (keys as u32, 7);
            most = most.max(keys + 9 + step);
            (place, past) = (keys, 12);
        }
        let of_sequences = problem.sequences.map(|of| of != Sequences::Batch);
        let is_full = problem.mask == Mask::Full;
        let lengths: Vec<[i64; 2]> = match of_sequences {
            // Each block of a cluster has a tile of queries of its own.
            [false, false] if is_full => vec![[along * (plan.cluster - 1) + 7, most]; 2],
            [false, false] => {
                // The first queries see no key, and some tile of queries begins at the place or behind it.
                let first = (place + past + along) / along * along;
                let keys = most.max(first + along.min(16) - past);
                vec![[keys + past, keys]]
            }
            [false, true] => [most, 2, 0].map(|keys| [7, keys]).to_vec(),
            [true, false] if is_full => [9, 0, 3].map(|queries| [queries, most]).to_vec(),
            [true, false] => [9, 0, most + past].map(|queries| [queries, most]).to_vec(),
            [true, true] => vec![[9, most], [0, 9], [7, 2], [3, 0]],
        };
        let longest = [0, 1].map(|side| lengths.iter().map(|of| of[side]).max().unwrap_or(0));
        let sums = [0, 1].map(|side| lengths.iter().map(|of| of[side]).sum::<i64>());
        problem.lengths = longest;
        problem.batch = lengths.len() as i64;
        // Each block has several tiles of queries.
        problem.heads = match plan.packs {
            1 => [2, 1],
            packs => [packs, 1],
        };
        if let Sequences::Packed { rows } = &mut problem.sequences[0] {
            *rows = FIRST + sums[0] + 2;
        }
        match &mut problem.sequences[1] {
            Sequences::Batch => {}
            Sequences::Packed { rows } => *rows = FIRST + sums[1] + 2,
            Sequences::Paged {
                pages,
                rows,
                entries,
                strides,
            } => {
                *entries = (longest[1] + *rows - 1) / *rows;
                *pages = problem.batch * *entries + 1;
                *strides = [*entries, 1];
            }
        }
        set_strides(&mut problem, self.pad);
        let family = Family {
            plan,
            problem,
            arch: self.arch,
            lengths,
            traits: traits(&plan, &problem, self.arch),
        };
        if family.traits == self.traits()
            && AttentionOperands::of(&problem, [0; 4]) == plan.operands
        {
            return Ok(family);
        }
        Err(format!(
            "{} is another family than {}",
            family.plan, self.plan
        ))
    }
}

/// The row of a tensor at which the first packed sequence begins.
const FIRST: i64 = 3;

/// Puts the heads of a row beside each other, with a pad after each.
fn set_strides(problem: &mut AttentionProblem, pad: i64) {
    for tensor in AttentionTensor::ALL {
        let [_, heads, length, features] = problem.extents(tensor);
        let row = features + pad;
        problem.strides[tensor as usize] = [length * heads * row, row, heads * row, 1];
    }
    let [_, heads, length, _] = problem.extents(AttentionTensor::O);
    problem.sum_strides = [length * heads, 1, heads];
}

/// What a plan is, in words.
fn traits(plan: &AttentionPlan, problem: &AttentionProblem, arch: Arch) -> Vec<String> {
    let AttentionOperands {
        ty,
        features: [inner, outer],
        bounded,
        softcap,
        log_sum_exp,
        sinks,
        vectors,
        ..
    } = plan.operands;
    let places = |of: Sequences| match of {
        Sequences::Batch => "of one length",
        Sequences::Packed { .. } => "packed",
        Sequences::Paged { .. } => "in pages",
    };
    let [queries, keys] = problem.sequences.map(places);
    let parts = match (plan.splits, plan.by_lanes) {
        (1, _) => "whole keys",
        (_, false) => "parts in order",
        (_, true) => "parts by lanes",
    };
    let mask = match bounded {
        [false, false] => "full",
        [false, true] => "causal",
        [true, _] => "window",
    };
    let is = |what: &str, is_there: bool| {
        if is_there {
            what.to_string()
        } else {
            format!("not {what}")
        }
    };
    vec![
        arch.to_string(),
        plan.method.to_string(),
        ty.to_string(),
        format!("features {inner}/{outer}"),
        format!("mask {mask}"),
        format!("queries {queries}"),
        format!("keys {keys}"),
        parts.to_string(),
        format!("vectors of {}", vectors[0]),
        format!("{} ahead", plan.ahead),
        is("capped", softcap),
        is("log-sum-exp", log_sum_exp),
        is("sinks", sinks),
        is("packs", plan.packs > 1),
        is("sorted", plan.sorted),
        is("early", plan.early),
        is("several consumers", plan.consumers > 1),
        is("turns", plan.turns),
        is("pairs", plan.pairs),
        is("overlap", plan.overlap),
    ]
}

/// The numbers of a call on the host.
struct FamilyNumbers<T> {
    tensors: [Vec<T>; 3],
    sinks: Vec<f32>,
    offsets: [Vec<u32>; 2],
    table: Vec<u32>,
    lengths: Vec<u32>,
}

impl Family {
    /// Returns what the rings need of this case, or what it lacks: two turns in a part of the keys of some tile, steps that are
    /// whole, masked steps, and a row without a key where the problem can have one.
    ///
    /// # Errors
    ///
    /// Returns what the case lacks.
    pub fn check_turns(&self) -> Result<(), String> {
        let AttentionPlan {
            tile: [rows, step],
            stages,
            splits,
            packs,
            ..
        } = self.plan;
        let (mut turns, mut whole, mut masked, mut empty, mut tiles) =
            (false, false, false, false, 0);
        for [queries, keys] in &self.lengths {
            let seen = |row: i64| self.problem.mask.keys(row / packs, [*queries, *keys]);
            let end = queries * packs;
            for first in (0..end).step_by(rows as usize) {
                // The kernels take the rows behind the last query for some.
                let of_tile: Vec<_> = (first..first + rows).map(seen).collect();
                let count = (end - first).min(rows) as usize;
                empty |= of_tile[..count].iter().any(std::ops::Range::is_empty);
                let (mut steps, mut all_see) = (0, 0);
                for at in (0..*keys).step_by(step as usize) {
                    let after = at + step;
                    let is_seen = |of: &std::ops::Range<i64>| {
                        !of.is_empty() && of.start < after && at < of.end
                    };
                    steps += i64::from(of_tile[..count].iter().any(is_seen));
                    let is_whole = |of: &std::ops::Range<i64>| of.start <= at && after <= of.end;
                    all_see += i64::from(of_tile.iter().all(is_whole));
                }
                whole |= all_see > 0;
                masked |= all_see < steps;
                turns |= (steps + splits - 1) / splits >= 2 * stages;
                tiles += self.problem.heads[0] / packs;
            }
        }
        let can_be_empty =
            self.problem.mask != Mask::Full || self.lengths.iter().any(|of| of[1] == 0);
        let lacks = [
            (turns, "two turns of the ring of keys"),
            (
                tiles >= 2 * self.plan.ahead * self.plan.cluster,
                "two turns of the ring of queries",
            ),
            (whole, "a step that all queries see whole"),
            (masked, "a step of which a query sees a part"),
            (empty || !can_be_empty, "a query without a key"),
        ];
        match lacks.iter().find(|(is_there, _)| !is_there) {
            Some((_, what)) => Err(format!("{self}: it has not {what}")),
            None => Ok(()),
        }
    }

    /// Runs the case on the simulator, and returns the bits of the outputs. With `checks` every element is compared with the softmax
    /// in doubles, and the bytes of the rings must have been filled twice at least.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in words.
    pub fn run(&self, schedule: Schedule, checks: bool) -> Result<Vec<u64>, String> {
        let found = match self.problem.ty {
            Ty::F16 => self.run_of::<f16>(schedule, checks),
            _ => self.run_of::<bf16>(schedule, checks),
        };
        found.map_err(|why| format!("{self}, {schedule:?}: {why}"))
    }

    fn run_of<T: GemmElement>(&self, schedule: Schedule, checks: bool) -> Result<Vec<u64>, String> {
        let text = |e: &dyn std::fmt::Display| e.to_string();
        let options = SimOptions {
            events: checks,
            ..SimOptions::default().schedule(schedule)
        };
        let device = Device::simulator_with(self.arch, options);
        let numbers = self.numbers::<T>();
        let problem = &self.problem;
        let [batch, heads, rows, _] = problem.extents(AttentionTensor::O);
        let count = self.elements(AttentionTensor::O);
        let mut on_device = Vec::new();
        for of in &numbers.tensors {
            on_device.push(device.upload(of).map_err(|e| text(&e))?);
        }
        let o = device.poisoned::<T>(count).map_err(|e| text(&e))?;
        let sums = device.poisoned::<f32>((batch * heads * rows) as usize);
        let sums = sums.map_err(|e| text(&e))?;
        let upload = |of: &[u32]| device.upload(of).map_err(|e| text(&e));
        let sinks = device.upload(&numbers.sinks).map_err(|e| text(&e))?;
        let mut vectors: Vec<Buffer<u32>> = Vec::new();
        for (of, offsets) in problem.sequences.iter().zip(&numbers.offsets) {
            match of {
                Sequences::Batch => {}
                Sequences::Packed { .. } => vectors.push(upload(offsets)?),
                Sequences::Paged { .. } => {
                    vectors.extend([upload(&numbers.table)?, upload(&numbers.lengths)?]);
                }
            }
        }
        let bytes = self.plan.workspace(problem) as usize;
        let workspace = device
            .uninitialised::<u8>(bytes.max(1))
            .map_err(|e| text(&e))?;
        let mut addresses: Vec<u64> = on_device.iter().map(DeviceSlice::address).collect();
        addresses.push(o.address());
        addresses.extend(problem.log_sum_exp.then(|| sums.address()));
        addresses.extend(problem.sinks.map(|_| sinks.address()));
        addresses.extend(vectors.iter().map(DeviceSlice::address));
        addresses.extend((bytes > 0).then(|| workspace.address()));
        let launches = self.plan.launches(problem, &device, &addresses);
        for one in launches.map_err(|e| text(&e))? {
            let kernel = &one.kernel.kernel;
            let mut launch = one.launch;
            if kernel.name == "attention_sm90" {
                // One block, or one cluster, computes all tiles.
                launch.grid[0] = self.plan.cluster as u32;
            }
            let loaded = device.load(kernel).map_err(|e| text(&e))?;
            let report = device.profile(&loaded, launch, &one.arguments);
            let report = report.map_err(|e| format!("{}: {e}", kernel.name))?;
            if checks && kernel.name.starts_with("attention_sm") {
                self.check_record(&report)?;
            }
        }
        let found = o.download().map_err(|e| text(&e))?;
        let sums = sums.download().map_err(|e| text(&e))?;
        if checks {
            self.compare(&numbers, &found, &sums)?;
        }
        let bits = found.iter().map(|x| x.to_f64().to_bits());
        let of_sums = sums.iter().map(|x| u64::from(x.to_bits()));
        Ok(bits.chain(of_sums).collect())
    }

    /// Checks that a block filled each byte of its rings twice at least. The Ampere kernel loads its queries once.
    fn check_record(&self, report: &Report) -> Result<(), String> {
        let is_hopper = self.plan.method == AttentionMethod::Hopper;
        let mut fills: HashMap<(u32, usize), Vec<u8>> = HashMap::new();
        let room = Limits::of(self.arch).shared as usize;
        for event in &report.events {
            let to = match &event.kind {
                EventKind::Copy { to, .. } => to,
                EventKind::Write { to } if !is_hopper => to,
                _ => continue,
            };
            for bytes in to {
                let block = (event.cluster, bytes.block);
                let of_block = fills.entry(block).or_insert_with(|| vec![0; room]);
                for times in &mut of_block[bytes.start..bytes.end] {
                    *times = times.saturating_add(1);
                }
            }
        }
        let ([inner, outer], [rows, step]) = (self.plan.operands.features, self.plan.tile);
        let of_queries = if is_hopper {
            rows * inner * self.plan.ahead
        } else {
            0
        };
        let need = 2 * (of_queries + step * (inner + outer) * self.plan.stages);
        let twice = |of_block: &Vec<u8>| of_block.iter().filter(|times| **times >= 2).count();
        let most = fills.values().map(twice).max().unwrap_or(0);
        if most as i64 >= need {
            return Ok(());
        }
        Err(format!(
            "a block fills {most} bytes of shared memory twice or more: its rings have {need}"
        ))
    }

    /// The elements of a tensor, with those between its rows.
    fn elements(&self, tensor: AttentionTensor) -> usize {
        let [batch, ..] = self.problem.extents(tensor);
        (batch * self.problem.strides[tensor as usize][0]) as usize
    }

    /// The element at which the features of a row of a head begin.
    fn place(&self, tensor: AttentionTensor, [sequence, head, row]: [i64; 3]) -> usize {
        let side = usize::from(matches!(tensor, AttentionTensor::K | AttentionTensor::V));
        let [of_batch, of_head, of_row, _] = self.problem.strides[tensor as usize];
        let [batch, row] = match self.problem.sequences[side] {
            Sequences::Batch => [sequence, row],
            Sequences::Packed { .. } => [0, self.first(side, sequence) + row],
            Sequences::Paged { rows, entries, .. } => [
                i64::from(self.page(sequence * entries + row / rows)),
                row % rows,
            ],
        };
        (batch * of_batch + head * of_head + row * of_row) as usize
    }

    /// The first row of a packed sequence.
    fn first(&self, side: usize, sequence: i64) -> i64 {
        let before = &self.lengths[..sequence as usize];
        FIRST + before.iter().map(|of| of[side]).sum::<i64>()
    }

    /// The page of an entry of the table: the pages lie in the opposite order.
    fn page(&self, entry: i64) -> u32 {
        match self.problem.sequences[1] {
            Sequences::Paged { pages, .. } => (pages - 1 - entry) as u32,
            _ => 0,
        }
    }

    /// Drawn numbers in the rows of sequences, and NaN elsewhere.
    fn numbers<T: GemmElement>(&self) -> FamilyNumbers<T> {
        let problem = &self.problem;
        let mut r = Random::new(self.traits.len() as u64);
        let mut tensors = AttentionTensor::ALL.map(|tensor| {
            let count = self.elements(tensor);
            vec![T::from_f64(f64::NAN); count]
        });
        for tensor in [AttentionTensor::Q, AttentionTensor::K, AttentionTensor::V] {
            let side = usize::from(tensor != AttentionTensor::Q);
            let [_, heads, _, features] = problem.extents(tensor);
            for (sequence, head) in (0..problem.batch).flat_map(|i| (0..heads).map(move |h| (i, h)))
            {
                for row in 0..self.lengths[sequence as usize][side] {
                    let first = self.place(tensor, [sequence, head, row]);
                    for x in &mut tensors[tensor as usize][first..first + features as usize] {
                        *x = T::from_f64(f64::from(r.below(4001_i32) - 2000) / 1000.0);
                    }
                }
            }
        }
        let [q, k, v, _] = tensors;
        let sinks = (0..problem.heads[0]).map(|head| [0.5, f32::NEG_INFINITY][head as usize % 2]);
        let end = problem.batch;
        let entries = match problem.sequences[1] {
            Sequences::Paged { entries, .. } => end * entries,
            _ => 0,
        };
        FamilyNumbers {
            tensors: [q, k, v],
            sinks: sinks.collect(),
            offsets: [0, 1].map(|side| (0..=end).map(|i| self.first(side, i) as u32).collect()),
            table: (0..entries).map(|entry| self.page(entry)).collect(),
            lengths: self.lengths.iter().map(|of| of[1] as u32).collect(),
        }
    }

    /// Compares the rows of each sequence, and checks that nothing else was written.
    fn compare<T: GemmElement>(
        &self,
        numbers: &FamilyNumbers<T>,
        found: &[T],
        sums: &[f32],
    ) -> Result<(), String> {
        let mut beyond = found.to_vec();
        let nan = T::from_f64(f64::NAN);
        let problem = &self.problem;
        let [heads, of_keys] = problem.heads;
        let [of_batch, _, of_row] = problem.sum_strides;
        for (sequence, lengths) in (0..).zip(&self.lengths) {
            let mut one =
                AttentionProblem::new(problem.ty, 1, problem.heads, *lengths, problem.features);
            one = AttentionProblem {
                mask: problem.mask,
                scale: problem.scale,
                softcap: problem.softcap,
                log_sum_exp: problem.log_sum_exp,
                sinks: problem.sinks,
                ..one
            };
            if one.is_nothing() {
                continue;
            }
            let rows = |tensor: AttentionTensor, all: &[T], heads: i64, length: i64| -> Vec<T> {
                let [.., features] = one.extents(tensor);
                let places = (0..heads).flat_map(|h| (0..length).map(move |i| [sequence, h, i]));
                let places = places.map(|at| self.place(tensor, at));
                places
                    .flat_map(|at| all[at..at + features as usize].to_vec())
                    .collect()
            };
            let ([queries, keys], [q, k, v]) = (*lengths, &numbers.tensors);
            let parts = [
                rows(AttentionTensor::Q, q, heads, queries),
                rows(AttentionTensor::K, k, of_keys, keys),
                rows(AttentionTensor::V, v, of_keys, keys),
            ];
            let of_sequence = rows(AttentionTensor::O, found, heads, queries);
            let (batch, first) = match problem.sequences[0] {
                Sequences::Packed { .. } => (0, self.first(0, sequence)),
                _ => (sequence, 0),
            };
            let sums: Vec<f32> = (0..heads)
                .flat_map(|h| {
                    (0..queries).map(move |i| batch * of_batch + h + (first + i) * of_row)
                })
                .map(|at| sums[at as usize])
                .collect();
            let found = Found {
                all: &of_sequence,
                first: 0,
            };
            let parts = parts.each_ref().map(|part| &part[..]);
            let expected = Expected::of(&one, parts, &numbers.sinks);
            expected
                .compare(&one, found, &sums)
                .map_err(|why| format!("sequence {sequence}: {why}"))?;
            let outer = problem.features[1] as usize;
            for (head, row) in (0..heads).flat_map(|h| (0..queries).map(move |i| (h, i))) {
                let at = self.place(AttentionTensor::O, [sequence, head, row]);
                beyond[at..at + outer].fill(nan);
            }
        }
        match beyond.iter().position(|x| !x.to_f64().is_nan()) {
            Some(at) => Err(format!(
                "element {at} of O is in no row of a sequence, and was written"
            )),
            None => Ok(()),
        }
    }
}

/// `Ampere f16, features 64, ..: attention f16, batch 1, .. on sm_80`
impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} on {}", self.plan, self.problem, self.arch)
    }
}
