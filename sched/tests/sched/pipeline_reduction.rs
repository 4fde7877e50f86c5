//! The short walk of the pipeline checker gives the verdict of the full one, on working plans and on broken ones.

use colex_sched::pipeline::{
    Actor, Barrier, Fault, Multistage, Ordering, Pipeline, Schedule, Slot, Step, WarpSpecialized,
    check, check_exhaustively, check_within,
};
use cpu_time::ThreadTime;
use std::time::Duration;

/// A generator of numbers below a bound.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// The warp-specialized plans of up to `most` stages, tiles and k-tiles, in every schedule, of one block.
fn specialized(most: usize) -> Vec<Pipeline> {
    let mut plans = Vec::new();
    for (stages, tiles, k_tiles) in
        (1..=most).flat_map(|s| (1..=most).flat_map(move |t| (1..=most).map(move |k| (s, t, k))))
    {
        for in_flight in 0..stages.min(2) {
            let cooperative = WarpSpecialized {
                in_flight,
                ..WarpSpecialized::cooperative(stages, tiles, k_tiles)
            };
            let pingpong = WarpSpecialized {
                schedule: Schedule::Pingpong,
                ..cooperative
            };
            let named = WarpSpecialized {
                ordering: Ordering::Named,
                ..pingpong
            };
            let single = WarpSpecialized {
                consumers: 1,
                ..cooperative
            };
            plans.extend([cooperative, pingpong, named, single]);
        }
    }
    plans.iter().map(|plan| plan.build().unwrap()).collect()
}

fn clusters() -> Vec<Pipeline> {
    let plan = |cluster, consumers, stages, k_tiles, schedule| WarpSpecialized {
        cluster,
        consumers,
        in_flight: 0,
        schedule,
        ..WarpSpecialized::cooperative(stages, 1, k_tiles)
    };
    [
        plan([2, 1], 1, 1, 2, Schedule::Cooperative),
        plan([2, 1], 1, 2, 2, Schedule::Cooperative),
        plan([1, 2], 1, 1, 3, Schedule::Cooperative),
        plan([1, 2], 1, 2, 1, Schedule::Pingpong),
        plan([2, 1], 2, 1, 1, Schedule::Cooperative),
    ]
    .map(|plan| plan.build().unwrap())
    .to_vec()
}

fn multistages() -> Vec<Pipeline> {
    let mut plans = Vec::new();
    for (stages, k_tiles, warps) in
        (2..=3).flat_map(|s| (1..=4).flat_map(move |k| (1..=3).map(move |w| (s, k, w))))
    {
        let plan = Multistage {
            stages,
            k_tiles,
            warps,
        };
        plans.push(plan.build().unwrap());
    }
    plans
}

/// Steps of several kinds at barriers, slots and sections drawn at random: plans that no builder makes.
fn drawn(random: &mut Random) -> Pipeline {
    let (actors, barriers, slots) = (
        2 + random.below(2),
        1 + random.below(3),
        1 + random.below(2),
    );
    let blocks = 1 + random.below(2);
    let step = |random: &mut Random| match random.below(24) {
        0 | 1 | 13 => Step::Wait {
            barrier: random.below(barriers),
            parity: random.below(2) as u8,
        },
        2 | 3 | 14..=20 => Step::Arrive {
            barrier: random.below(barriers),
        },
        4 => Step::Expect {
            barrier: random.below(barriers),
            loads: random.below(3) as u16,
        },
        5 | 6 => Step::Load {
            item: random.below(3) as u16,
            to: vec![(
                random.below(slots),
                (random.below(3) > 0).then(|| random.below(barriers)),
            )],
        },
        7 => Step::Commit,
        8 => Step::WaitGroups {
            pending: random.below(2) as u16,
        },
        9 => Step::Multiply {
            item: random.below(3) as u16,
            slots: vec![random.below(slots)],
        },
        10 => Step::Retire {
            pending: random.below(2) as u16,
        },
        11 | 21 => Step::Sync {
            barrier: random.below(barriers),
        },
        _ => match random.below(4) {
            0 => Step::SyncArrive {
                barrier: random.below(barriers),
            },
            1 => Step::Enter { section: "s" },
            2 => Step::Leave { section: "s" },
            _ => Step::Epilogue { tile: 0 },
        },
    };
    let named = |i: usize, block: usize| (format!("{i}"), block);
    Pipeline {
        name: "drawn".into(),
        slots: (0..slots)
            .map(|i| named(i, i % blocks))
            .map(|(name, block)| Slot { name, block })
            .collect(),
        barriers: (0..barriers)
            .map(|i| Barrier {
                name: format!("b{i}"),
                block: i % blocks,
                arrivals: 1 + random.below(2) as u16,
            })
            .collect(),
        actors: (0..actors)
            .map(|i| Actor {
                name: format!("a{i}"),
                block: i % blocks,
                steps: (0..2 + random.below(5)).map(|_| step(random)).collect(),
            })
            .collect(),
    }
}

/// One small change of a plan; `false` where the change drawn does not apply.
fn mutate(p: &mut Pipeline, random: &mut Random) -> bool {
    let (barriers, slots) = (p.barriers.len(), p.slots.len());
    if random.below(8) == 0 {
        let barrier = &mut p.barriers[random.below(barriers)];
        barrier.arrivals = match random.below(2) {
            0 => barrier.arrivals + 1,
            _ => barrier.arrivals.saturating_sub(1).max(1),
        };
        return true;
    }
    let actor = random.below(p.actors.len());
    let steps = &mut p.actors[actor].steps;
    if steps.is_empty() {
        return false;
    }
    let at = random.below(steps.len());
    match random.below(5) {
        0 => {
            steps.remove(at);
        }
        1 => {
            let again = steps[at].clone();
            steps.insert(at, again);
        }
        2 if at + 1 < steps.len() => steps.swap(at, at + 1),
        _ => match &mut steps[at] {
            Step::Wait { barrier, parity } => match random.below(2) {
                0 => *parity ^= 1,
                _ => *barrier = random.below(barriers),
            },
            Step::Arrive { barrier } | Step::Sync { barrier } | Step::SyncArrive { barrier } => {
                *barrier = random.below(barriers);
            }
            Step::Expect { loads, .. } => *loads = random.below(4) as u16,
            Step::Load { item, to } => match (random.below(3), to.last_mut()) {
                (0, Some(last)) => last.0 = random.below(slots),
                (1, Some(last)) => last.1 = Some(random.below(barriers)),
                _ => *item ^= 1,
            },
            Step::WaitGroups { pending } | Step::Retire { pending } => *pending += 1,
            Step::Multiply { item, .. } => *item ^= 1,
            Step::Commit | Step::Epilogue { .. } | Step::Enter { .. } | Step::Leave { .. } => {
                return false;
            }
        },
    }
    true
}

/// The verdicts of both walks on one plan.
#[derive(Default)]
struct Count {
    plans: usize,
    faulty: usize,
    skipped: usize,
    full: usize,
    short: usize,
    longest: Duration,
}

impl Count {
    fn compare(&mut self, p: &Pipeline, limit: usize) {
        let full = check_exhaustively(p, limit);
        if matches!(full, Err(Fault::TooManyStates { .. })) {
            self.skipped += 1;
            return;
        }
        let start = ThreadTime::now();
        let short = check_within(p, limit);
        self.longest = self.longest.max(start.elapsed());
        match (&full, &short) {
            (Ok(full), Ok(short)) => {
                self.full += full.states;
                self.short += short.states;
            }
            (Err(full), Err(short)) => assert_eq!(full, short, "{p}"),
            _ => panic!("the full walk says {full:?}, the short one {short:?}, of\n{p}"),
        }
        self.plans += 1;
        self.faulty += usize::from(full.is_err());
    }

    fn print(&self, law: &str) {
        let Count {
            plans,
            faulty,
            skipped,
            full,
            short,
            longest,
        } = self;
        println!(
            "law {law}: {plans} cases, {faulty} of them faulty, {skipped} too large; \
             {full} states in full, {short} in short; the longest took {longest:?}"
        );
    }
}

/// How many changed plans a law draws: more with `COLEX_PIPELINE_MUTANTS`.
fn many(usual: usize) -> usize {
    let asked = std::env::var("COLEX_PIPELINE_MUTANTS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn the_short_walk_agrees_on_the_builders_plans() {
    let mut count = Count::default();
    for p in [specialized(3), clusters(), multistages()].concat() {
        count.compare(&p, 200_000);
    }
    assert_eq!(count.faulty, 0);
    assert!(count.short * 4 < count.full, "the walk is no shorter");
    count.print("pipeline.the_short_walk_agrees_on_the_builders_plans");
}

#[test]
fn the_short_walk_agrees_on_changed_plans() {
    let plans = [specialized(2), clusters(), multistages()].concat();
    let (mut count, mut random) = (Count::default(), Random(1));
    while count.plans + count.skipped < many(2_000) {
        let mut p = plans[random.below(plans.len())].clone();
        let changes = 1 + random.below(3);
        if (0..changes).filter(|_| mutate(&mut p, &mut random)).count() > 0 {
            count.compare(&p, 10_000);
        }
    }
    assert!(count.faulty * 2 > count.plans && count.faulty < count.plans);
    count.print("pipeline.the_short_walk_agrees_on_changed_plans");
}

#[test]
fn the_short_walk_agrees_on_drawn_plans() {
    let (mut count, mut random) = (Count::default(), Random(2));
    while count.plans + count.skipped < many(10_000) {
        count.compare(&drawn(&mut random), 20_000);
    }
    assert!(count.faulty * 100 < count.plans * 99);
    count.print("pipeline.the_short_walk_agrees_on_drawn_plans");
}

/// Before, 22 seconds and no answer after 4 million states.
#[test]
fn a_cooperative_cluster_is_answered_soon() {
    let plan = WarpSpecialized {
        cluster: [2, 1],
        ..WarpSpecialized::cooperative(3, 1, 6)
    };
    let start = ThreadTime::now();
    let report = check(&plan.build().unwrap()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
    println!("{report:?}, {:?}", start.elapsed());
}
