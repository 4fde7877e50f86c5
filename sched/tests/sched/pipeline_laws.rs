//! Pipelines: the builders' plans survive every interleaving, and planted mistakes are found and named.

use colex_sched::pipeline::{
    Actor, Barrier, Durations, Fault, Multistage, Ordering, Phase, Pipeline, Schedule, Slot, Step,
    WarpSpecialized, check, check_within, timeline,
};
use proptest::prelude::*;

fn barrier(p: &Pipeline, name: &str) -> usize {
    p.barriers
        .iter()
        .position(|b| b.name == name)
        .expect("the barrier exists")
}

fn actor<'a>(p: &'a mut Pipeline, name: &str) -> &'a mut Vec<Step> {
    &mut p
        .actors
        .iter_mut()
        .find(|a| a.name == name)
        .expect("the actor exists")
        .steps
}

#[track_caller]
fn fault(p: &Pipeline) -> String {
    check(p).expect_err("the plan is wrong").to_string()
}

#[test]
fn phases_add_up() {
    let mut cases = 0;
    for (stages, a, b) in
        (1..=9).flat_map(|s| (0..=40).flat_map(move |a| (0..=40).map(move |b| (s, a, b))))
    {
        for start in [Phase::consumer(stages), Phase::producer(stages)] {
            assert_eq!(start.advance(a).advance(b), start.advance(a + b));
            let far = start.advance(a);
            assert_eq!(
                (far.stage, far.parity ^ start.parity),
                (a % stages, (a / stages % 2) as u8)
            );
            cases += 1;
        }
    }
    println!("law pipeline.phases_add_up: {cases} cases");
}

/// Every small plan of every kind, through all its interleavings.
#[test]
fn the_builders_plans_have_no_fault() {
    let mut states = 0;
    for (stages, tiles, k_tiles) in
        (1..=3).flat_map(|s| (1..=3).flat_map(move |t| (1..=3).map(move |k| (s, t, k))))
    {
        for in_flight in (0..=1).filter(|f| *f < stages) {
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
            for plan in [cooperative, pingpong, named, single] {
                let report = check(&plan.build().unwrap())
                    .unwrap_or_else(|fault| panic!("{plan:?}: {fault}"));
                states += report.states;
            }
        }
    }
    println!("law pipeline.no_fault_in_any_interleaving: {states} states");
}

#[test]
fn multicast_plans_have_no_fault() {
    let mut states = 0;
    for (cluster, stages, items) in [
        ([2, 1], 1, 3),
        ([2, 1], 2, 4),
        ([1, 2], 2, 3),
        ([2, 2], 1, 1),
    ] {
        let plan = WarpSpecialized {
            cluster,
            consumers: 1,
            ..WarpSpecialized::cooperative(stages, 1, items)
        };
        let plan = WarpSpecialized {
            in_flight: 0,
            ..plan
        };
        states += check(&plan.build().unwrap())
            .unwrap_or_else(|fault| panic!("{plan:?}: {fault}"))
            .states;
    }
    println!("law pipeline.multicast_has_no_fault: {states} states");
}

/// Each block of a cluster has sections of its own: their consumers do not take turns with one another.
#[test]
fn pingpong_in_a_cluster_has_no_fault() {
    let plan = WarpSpecialized {
        cluster: [2, 1],
        in_flight: 0,
        ..WarpSpecialized::pingpong(1, 2, 1)
    };
    let report = check(&plan.build().unwrap()).unwrap_or_else(|fault| panic!("{plan:?}: {fault}"));
    println!(
        "law pipeline.pingpong_in_a_cluster_has_no_fault: {} states",
        report.states
    );
}

#[test]
fn multistage_plans_have_no_fault() {
    let mut states = 0;
    for (stages, k_tiles, warps) in
        (2..=4).flat_map(|s| (1..=6).flat_map(move |k| (1..=3).map(move |w| (s, k, w))))
    {
        let plan = Multistage {
            stages,
            k_tiles,
            warps,
        }
        .build()
        .unwrap();
        states += check(&plan)
            .unwrap_or_else(|fault| panic!("{}: {fault}", plan.name))
            .states;
    }
    println!("law pipeline.multistage_has_no_fault: {states} states");
}

#[test]
fn a_producer_that_does_not_wait_arrives_twice() {
    let mut p = WarpSpecialized::cooperative(2, 1, 4).build().unwrap();
    let empty = barrier(&p, "empty[0]");
    actor(&mut p, "producer")
        .retain(|s| !matches!(s, Step::Wait { barrier, .. } if *barrier == empty));
    assert_eq!(
        fault(&p),
        "producer, step 7: an arrival at full[0] beyond its count"
    );
}

#[test]
fn a_producer_with_the_consumers_parity_hangs() {
    let mut p = WarpSpecialized::cooperative(2, 1, 2).build().unwrap();
    for step in actor(&mut p, "producer") {
        if let Step::Wait { parity, .. } = step {
            *parity ^= 1;
        }
    }
    assert_eq!(
        fault(&p),
        "deadlock: producer waits for empty[0] (2 of 2 arrivals missing) at step 0; \
         consumer 0 waits for full[0] (1 of 1 arrivals missing) at step 0; \
         consumer 1 waits for full[0] (1 of 1 arrivals missing) at step 0"
    );
}

#[test]
fn a_consumer_that_does_not_wait_reads_an_unfilled_stage() {
    let mut p = WarpSpecialized::cooperative(2, 1, 2).build().unwrap();
    actor(&mut p, "consumer 1").remove(0);
    assert_eq!(
        fault(&p),
        "consumer 1, step 0: the multiply of 0 reads A of stage 0, which is empty"
    );
}

/// The consumer lets go of a stage while `wgmma` may still read it.
#[test]
fn a_release_before_the_multiply_has_ended_overwrites() {
    let mut p = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 4)
    }
    .build()
    .unwrap();
    let steps = actor(&mut p, "consumer 0");
    let release = steps
        .iter()
        .position(|s| matches!(s, Step::Arrive { .. }))
        .expect("it releases");
    assert!(matches!(steps[release - 1], Step::Retire { pending: 1 }));
    steps.swap(release - 1, release);
    assert_eq!(
        fault(&p),
        "producer, step 10: the load of 2 overwrites A of stage 0, where 0 is still to be read"
    );
}

#[test]
fn a_missing_release_hangs() {
    let mut p = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 4)
    }
    .build()
    .unwrap();
    let empty = barrier(&p, "empty[1]");
    actor(&mut p, "consumer 0").retain(|s| *s != Step::Arrive { barrier: empty });
    assert!(
        fault(&p).starts_with(
            "deadlock: producer waits for empty[1] (1 of 1 arrivals missing) at step 12"
        ),
        "{}",
        fault(&p)
    );
}

#[test]
fn an_empty_barrier_that_counts_one_consumer_of_two_overwrites() {
    let mut p = WarpSpecialized::cooperative(1, 1, 2).build();
    assert_eq!(
        p.as_ref().map_err(ToString::to_string).err().as_deref(),
        Some("the number of stages for the multiplies in flight is 1: it must be at least 2")
    );
    p = WarpSpecialized {
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 2)
    }
    .build();
    let mut p = p.unwrap();
    let empty = barrier(&p, "empty[0]");
    p.barriers[empty].arrivals = 1;
    assert_eq!(
        fault(&p),
        "producer, step 6: the load of 1 overwrites A of stage 0, where 0 is still to be read"
    );
}

#[test]
fn a_wrong_number_of_loads_hangs_or_comes_too_early() {
    let plan = WarpSpecialized::cooperative(2, 1, 2).build().unwrap();
    let with = |count: u16| {
        let mut p = plan.clone();
        for step in actor(&mut p, "producer") {
            if let Step::Expect { loads, .. } = step {
                *loads = count;
            }
        }
        fault(&p)
    };
    assert!(
        with(3).contains("full[0] (0 of 1 arrivals, 1 loads missing)"),
        "{}",
        with(3)
    );
    assert_eq!(
        with(1),
        "consumer 0, step 1: the multiply of 0 reads B of stage 0, which is empty"
    );
}

/// A pingpong consumer must skip the other's k-tiles: in stage and in phase.
#[test]
fn pingpong_must_skip_the_other_consumers_k_tiles() {
    let plan = WarpSpecialized::pingpong(4, 4, 3);
    let mut p = plan.build().unwrap();
    let own = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(4, 2, 3)
    }
    .build()
    .unwrap();
    let unskipped: Vec<Step> = own.actors[1].steps.clone();
    *actor(&mut p, "consumer 1") = unskipped;
    let found = fault(&p);
    assert!(
        found.contains("consumer 1") || found.contains("overwrites"),
        "{found}"
    );
}

#[test]
fn pingpong_without_order_overlaps() {
    let mut p = WarpSpecialized::pingpong(2, 2, 1).build().unwrap();
    let turn = barrier(&p, "turn[1]");
    actor(&mut p, "consumer 1")
        .retain(|s| !matches!(s, Step::Wait { barrier, .. } if *barrier == turn));
    assert_eq!(
        fault(&p),
        "consumer 1, step 0: enters the main loop while consumer 0 is in it"
    );
}

#[test]
fn named_pingpong_needs_its_first_turn() {
    let plan = WarpSpecialized {
        ordering: Ordering::Named,
        ..WarpSpecialized::pingpong(2, 2, 1)
    };
    let mut p = plan.build().unwrap();
    actor(&mut p, "consumer 1").remove(0);
    assert!(
        fault(&p).contains("consumer 0 waits for turn[0] (1 of 2 arrivals missing) at step 0"),
        "{}",
        fault(&p)
    );
}

/// In a cluster a stage is free only when the consumers of every block that is written are done.
#[test]
fn multicast_must_hear_from_the_other_block() {
    let plan = WarpSpecialized {
        cluster: [2, 1],
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 2)
    };
    let mut p = plan.build().unwrap();
    for block in 0..2 {
        let (own, other) = (
            format!("empty[0] of block {block}"),
            barrier(&p, &format!("empty[0] of block {}", 1 - block)),
        );
        let own = barrier(&p, &own);
        p.barriers[own].arrivals = 1;
        actor(&mut p, &format!("consumer 0 of block {block}"))
            .retain(|s| *s != Step::Arrive { barrier: other });
    }
    assert!(fault(&p).contains("overwrites part"), "{}", fault(&p));
}

/// Without the producer's tail a block can exit while its peer still arrives at its barriers.
#[test]
fn a_block_that_exits_too_early_is_reached() {
    let plan = WarpSpecialized {
        cluster: [2, 1],
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 1)
    };
    let mut p = plan.build().unwrap();
    for block in 0..2 {
        actor(&mut p, &format!("producer of block {block}")).pop();
    }
    assert_eq!(
        fault(&p),
        "an arrival at empty[0] of block 0 reaches block 0, which has exited"
    );
}

#[test]
fn multistage_without_the_block_barrier_races() {
    let plan = Multistage {
        stages: 2,
        k_tiles: 3,
        warps: 2,
    }
    .build()
    .unwrap();
    let mut p = plan.clone();
    for name in ["warp 0", "warp 1"] {
        actor(&mut p, name).retain(|s| !matches!(s, Step::Sync { .. }));
    }
    assert_eq!(
        fault(&p),
        "warp 0, step 5: the multiply of 0 reads part 1 of stage 0, which is empty"
    );
    let mut p = plan;
    for step in actor(&mut p, "warp 0") {
        if let Step::WaitGroups { pending } = step {
            *pending += 1;
        }
    }
    assert!(
        fault(&p).contains("which is waiting for 0 to land"),
        "{}",
        fault(&p)
    );
}

#[test]
fn an_arrival_too_many_is_named() {
    let mut p = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 2)
    }
    .build()
    .unwrap();
    let full = barrier(&p, "full[1]");
    p.barriers[full].arrivals = 2;
    let steps = actor(&mut p, "producer");
    let second = steps
        .iter()
        .position(|s| matches!(s, Step::Expect { barrier, .. } if *barrier == full))
        .unwrap();
    steps.insert(second, Step::Arrive { barrier: full });
    assert!(check(&p).is_ok(), "two arrivals of two");
    actor(&mut p, "producer").insert(second, Step::Arrive { barrier: full });
    assert!(
        fault(&p).contains("beyond its count") || fault(&p).contains("which is empty"),
        "{}",
        fault(&p)
    );
}

#[test]
fn malformed_plans_and_too_many_states_are_refused() {
    let mut p = WarpSpecialized::cooperative(2, 1, 2).build().unwrap();
    assert_eq!(
        check_within(&p, 10),
        Err(Fault::TooManyStates { limit: 10 })
    );
    assert_eq!(
        check_within(&p, 10).unwrap_err().to_string(),
        "more than 10 states: check fewer tiles, k-tiles or stages"
    );
    p.barriers[0].arrivals = 0;
    assert_eq!(
        fault(&p),
        "full[0] completes after 0 arrivals: it must be 1 to 16384"
    );
    p.barriers[0].arrivals = 1;
    actor(&mut p, "producer").push(Step::Arrive { barrier: 99 });
    assert_eq!(
        fault(&p),
        "producer, step 10: arrive ? names what does not exist"
    );
    let none = WarpSpecialized::cooperative(0, 1, 1).build().unwrap_err();
    assert_eq!(
        none.to_string(),
        "the number of stages is 0: it must be at least 1"
    );
    let one = Multistage {
        stages: 1,
        k_tiles: 1,
        warps: 1,
    }
    .build()
    .unwrap_err();
    assert_eq!(
        one.to_string(),
        "the number of stages is 1: it must be at least 2"
    );
}

/// A plan prints its steps, so that a reader can walk it by hand.
#[test]
fn plans_print() {
    let p = WarpSpecialized {
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 1)
    }
    .build()
    .unwrap();
    let text = "cooperative, 1 stage, 1 consumer, cluster 1x1
producer:
    0 wait empty[0] parity 1
    1 arrive full[0] expecting 2 loads
    2 load 0 into A of stage 0
    3 load 0 into B of stage 0
    4 wait empty[0] parity 0
consumer 0:
    0 wait full[0] parity 0
    1 multiply 0 from A of stage 0, B of stage 0
    2 retire, 0 may be running
    3 arrive empty[0]
    4 retire, 0 may be running
    5 epilogue of tile 0
";
    assert_eq!(p.to_string(), text);
}

/// With a clock: two stages hide the loads, one does not; pingpong hides the epilogue, cooperative does not.
#[test]
fn a_clock_shows_what_overlaps() {
    let end = |plan: WarpSpecialized, epilogue: u64| {
        let durations = Durations {
            load: 4,
            multiply: 4,
            epilogue,
        };
        timeline(&plan.build().unwrap(), &durations)
            .unwrap()
            .iter()
            .map(|s| s.end)
            .max()
            .unwrap()
    };
    let one = |stages| WarpSpecialized {
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(stages, 1, 8)
    };
    assert_eq!(
        [end(one(1), 0), end(one(2), 0), end(one(3), 0)],
        [64, 36, 36]
    );
    let pingpong = WarpSpecialized {
        in_flight: 0,
        ..WarpSpecialized::pingpong(4, 4, 2)
    };
    assert_eq!(
        end(pingpong, 8) - end(pingpong, 0),
        8,
        "only the last epilogue shows"
    );
}

/// Without the last wait the epilogue reads accumulators that a multiply still writes.
#[test]
fn an_epilogue_before_the_last_wait_is_found() {
    let mut p = WarpSpecialized::cooperative(3, 1, 4).build().unwrap();
    let steps = actor(&mut p, "consumer 1");
    let last = steps
        .iter()
        .rposition(|s| matches!(s, Step::Retire { pending: 0 }));
    steps.remove(last.expect("it waits for all"));
    assert_eq!(
        fault(&p),
        "consumer 1, step 16: the epilogue of tile 0 reads the accumulators while the multiply of 3 still runs"
    );
}

/// An actor without an epilogue must still not leave a multiply behind.
#[test]
fn an_actor_that_ends_while_a_multiply_runs_is_found() {
    let mut p = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(3, 1, 2)
    }
    .build()
    .unwrap();
    let steps = actor(&mut p, "consumer 0");
    steps.retain(|s| !matches!(s, Step::Retire { pending: 0 } | Step::Epilogue { .. }));
    let last = steps.len() - 1;
    assert_eq!(
        fault(&p),
        format!("consumer 0, step {last}: ends while the multiply of 1 still runs")
    );
}

/// Every wait for multiplies, dropped or made weaker, in every plan with items enough to show it.
#[test]
fn every_wait_for_multiplies_counts() {
    let mut plans = vec![];
    for (stages, tiles, k_tiles, in_flight) in [
        (1, 2, 3, 0),
        (2, 1, 6, 1),
        (2, 2, 3, 1),
        (3, 1, 8, 1),
        (3, 2, 4, 2),
    ] {
        for (schedule, ordering, consumers, cluster) in [
            (Schedule::Cooperative, Ordering::Mbarrier, 1, [1, 1]),
            (Schedule::Cooperative, Ordering::Mbarrier, 2, [1, 1]),
            (Schedule::Cooperative, Ordering::Mbarrier, 1, [2, 1]),
            (Schedule::Pingpong, Ordering::Mbarrier, 2, [1, 1]),
            (Schedule::Pingpong, Ordering::Named, 2, [1, 1]),
        ] {
            let plan = WarpSpecialized {
                stages,
                tiles,
                k_tiles,
                consumers,
                schedule,
                ordering,
                in_flight,
                cluster,
            };
            plans.push((plan.build().unwrap(), stages));
        }
    }
    for (stages, k_tiles, warps) in [(2, 3, 2), (3, 5, 2), (4, 6, 1)] {
        let plan = Multistage {
            stages,
            k_tiles,
            warps,
        };
        plans.push((plan.build().unwrap(), stages));
    }
    let (mut cases, mut harmless) = (0, 0);
    for (plan, stages) in &plans {
        assert!(check(plan).is_ok(), "{plan}");
        let steps = plan.actors.iter().flat_map(|a| &a.steps);
        let items = steps.filter_map(|s| match s {
            Step::Multiply { item, .. } => Some(usize::from(*item)),
            _ => None,
        });
        let last = items.max().expect("it multiplies");
        for (a, actor) in plan.actors.iter().enumerate() {
            for (i, step) in actor.steps.iter().enumerate() {
                let Step::Retire { pending } = *step else {
                    continue;
                };
                // The multiply that this wait is for, unless an earlier wait was: the last but `pending` before it.
                let begun = |end: usize| -> Vec<usize> {
                    let before = actor.steps[..end].iter();
                    let items = before.filter_map(|s| match s {
                        Step::Multiply { item, .. } => Some(usize::from(*item)),
                        _ => None,
                    });
                    items.collect()
                };
                let ended =
                    |end: usize, pending: u16| begun(end).len().saturating_sub(pending.into());
                let earlier = actor.steps[..i]
                    .iter()
                    .enumerate()
                    .filter_map(|(j, s)| match s {
                        Step::Retire { pending } => Some(ended(j, *pending)),
                        _ => None,
                    });
                let ends = earlier.max().unwrap_or(0)..ended(i, pending);
                let mut dropped = plan.clone();
                dropped.actors[a].steps.remove(i);
                let mut weaker = plan.clone();
                weaker.actors[a].steps[i] = Step::Retire {
                    pending: pending + 1,
                };
                for broken in [dropped, weaker] {
                    let found = check_within(&broken, 4_000);
                    // In the main loop the wait matters only where the stage is loaded again.
                    let items = begun(i);
                    let is_reloaded = ends.clone().any(|n| items[n] + stages <= last);
                    let next = actor.steps[i + 1..].iter().find(|s| {
                        matches!(
                            s,
                            Step::Multiply { .. } | Step::Epilogue { .. } | Step::Retire { .. }
                        )
                    });
                    let before_epilogue =
                        !ends.is_empty() && matches!(next, Some(Step::Epilogue { .. }));
                    if is_reloaded || before_epilogue {
                        assert!(found.is_err(), "{} of {}: {plan}", i, actor.name);
                    } else {
                        harmless += 1;
                    }
                    cases += 1;
                }
            }
        }
    }
    println!(
        "law pipeline.every_wait_for_multiplies_counts: {cases} cases, {harmless} with nothing to harm"
    );
    assert!(harmless * 2 < cases);
}

/// One actor of one block, one slot and one barrier.
fn one_actor(arrivals: u16, steps: Vec<Step>) -> Pipeline {
    let (name, block) = (String::from, 0);
    Pipeline {
        name: name("one actor"),
        slots: vec![Slot {
            name: name("slot"),
            block,
        }],
        barriers: vec![Barrier {
            name: name("barrier"),
            block,
            arrivals,
        }],
        actors: vec![Actor {
            name: name("actor"),
            block,
            steps,
        }],
    }
}

/// A state counts the reads of an item in 16 bits, with two values more: 65534 stopped the program, and 65536 were none.
#[test]
fn more_reads_than_a_slot_counts_are_refused() {
    let plan = |reads: usize| {
        one_actor(
            1,
            vec![
                Step::Load {
                    item: 3,
                    to: vec![(0, None)],
                },
                Step::Commit,
                Step::WaitGroups { pending: 0 },
                Step::Multiply {
                    item: 3,
                    slots: vec![0; reads],
                },
                Step::Retire { pending: 0 },
            ],
        )
    };
    assert!(check(&plan(65_533)).is_ok());
    for reads in [65_534, 65_536, 1 << 17] {
        assert_eq!(
            fault(&plan(reads)),
            format!("{reads} reads of item 3 from slot: it can be at most 65533")
        );
    }
}

#[test]
fn a_parity_is_0_or_1() {
    let wait = |parity| one_actor(1, vec![Step::Wait { barrier: 0, parity }]);
    assert!(check(&wait(1)).is_ok());
    for parity in [2, 3, 255] {
        assert_eq!(
            fault(&wait(parity)),
            format!("actor, step 0: wait barrier parity {parity}, and a parity is 0 or 1")
        );
    }
}

/// A barrier counted loads in 16 bits with a sign: 40,000 expected were -25,536, and twice 30,000 stopped the program.
#[test]
fn more_loads_than_a_barrier_counts_are_refused() {
    let expect = |loads| Step::Expect { barrier: 0, loads };
    assert_eq!(
        fault(&one_actor(1, vec![expect(40_000)])),
        "barrier is told to expect 40000 loads in all: it can be at most 16384"
    );
    assert_eq!(
        fault(&one_actor(3, vec![expect(30_000), expect(30_000)])),
        "barrier is told to expect 60000 loads in all: it can be at most 16384"
    );
}

#[test]
fn a_wait_that_lets_all_groups_fly_is_no_overflow() {
    let to = vec![(0, None)];
    let steps = vec![
        Step::Commit,
        Step::Load { item: 0, to },
        Step::Commit,
        Step::WaitGroups { pending: u16::MAX },
        Step::WaitGroups { pending: 0 },
    ];
    assert!(check(&one_actor(1, steps)).is_ok());
}

#[test]
fn a_multiply_may_read_a_slot_twice() {
    let steps = vec![
        Step::Expect {
            barrier: 0,
            loads: 1,
        },
        Step::Load {
            item: 0,
            to: vec![(0, Some(0))],
        },
        Step::Wait {
            barrier: 0,
            parity: 0,
        },
        Step::Multiply {
            item: 0,
            slots: vec![0, 0],
        },
        Step::Retire { pending: 0 },
    ];
    assert!(check(&one_actor(1, steps)).is_ok());
}

#[test]
fn a_part_of_a_block_without_actors_is_named() {
    let mut p = one_actor(1, vec![Step::Arrive { barrier: 0 }]);
    p.barriers[0].block = 7;
    assert_eq!(fault(&p), "barrier belongs to block 7, which has no actor");
}

#[test]
fn a_plan_too_large_is_refused_before_it_is_built() {
    let sentence = |plan: WarpSpecialized| plan.build().unwrap_err().to_string();
    let plan = WarpSpecialized {
        cluster: [4, 4],
        consumers: 32,
        ..WarpSpecialized::cooperative(4, 1, 1000)
    };
    assert_eq!(
        sentence(plan),
        "a pipeline of 5281088 steps is more than the 16384 that are walked"
    );
    let refused = Multistage {
        stages: 3,
        k_tiles: 4_000,
        warps: 32,
    };
    assert_eq!(
        refused.build().unwrap_err().to_string(),
        "a pipeline of 768096 steps is more than the 16384 that are walked"
    );
    let mut p = WarpSpecialized::cooperative(2, 1, 2).build().unwrap();
    let name = "a".to_string();
    p.slots = vec![Slot { name, block: 0 }; 200_000];
    assert_eq!(fault(&p), "the plan has more than 32768 slots");
}

#[test]
fn a_clock_that_passes_64_bits_is_refused() {
    let plan = WarpSpecialized::cooperative(2, 1, 4).build().unwrap();
    let durations = Durations {
        load: u64::MAX,
        multiply: 1,
        epilogue: 1,
    };
    assert_eq!(
        timeline(&plan, &durations).unwrap_err().to_string(),
        "the clock passes 64 bits: shorten the durations"
    );
}

/// Where the walk is too long it ends soon, and says after how many states.
#[test]
fn a_walk_that_is_too_long_says_so_soon() {
    // 24 actors that all race for one barrier: no order stands for the others.
    let actor = |i: usize| Actor {
        name: format!("actor {i}"),
        block: 0,
        steps: vec![Step::Sync { barrier: 0 }; 3],
    };
    let p = Pipeline {
        name: "a race".into(),
        slots: vec![],
        barriers: vec![Barrier {
            name: "barrier".into(),
            block: 0,
            arrivals: 5,
        }],
        actors: (0..24).map(actor).collect(),
    };
    let start = cpu_time::ThreadTime::now();
    assert_eq!(
        fault(&p),
        "more than 50000 states: check fewer tiles, k-tiles or stages"
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
    println!("gave up after {:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Removing an arrival or a load of a working plan is never harmless.
    #[test]
    fn every_wait_and_arrival_counts(pick in 0usize..1000, pingpong in proptest::bool::ANY) {
        let plan = if pingpong { WarpSpecialized::pingpong(2, 2, 2) } else { WarpSpecialized::cooperative(2, 1, 4) };
        let p = plan.build().unwrap();
        let matters = |s: &Step| matches!(s, Step::Arrive { .. } | Step::Expect { .. } | Step::Load { .. });
        let all: Vec<(usize, usize)> = p.actors.iter().enumerate()
            .flat_map(|(a, actor)| actor.steps.iter().enumerate().filter(|(_, s)| matters(s)).map(move |(i, _)| (a, i)))
            .collect();
        let (a, i) = all[pick % all.len()];
        let mut broken = p.clone();
        let removed = broken.actors[a].steps.remove(i);
        // The last turn given away has no taker.
        let turn = matches!(removed, Step::Arrive { barrier } if p.barriers[barrier].name.contains("turn"));
        prop_assert!(turn || check(&broken).is_err(), "{} without {}", p.name, p.describe(&removed));
    }
}
