//! The participants of pipelines: what they print, and what is refused of them, word for word, at the line of the call.

use colex_atom::Arch;
use colex_sched::pipeline::{Multistage, Step, WarpSpecialized};
use colex_tensor::{Builder, Cond, Consumer, Index, Pipeline, Producer, Stage};

/// A ring of barriers, a ring of groups, and participants of both.
struct Scene {
    ring: Pipeline,
    lane: Index,
    producer: Producer,
    consumer: Consumer,
    fills: Producer,
    reads: Consumer,
    /// Holds in one half of the block.
    first: Cond,
}

fn begin() -> Builder {
    Builder::new("k", Arch::Sm90a, 256)
}

fn scene(k: &mut Builder) -> Scene {
    let ring = k.pipeline(3, 1, 2);
    let (lane, group) = (k.thread() % 128, k.uniform(128));
    k.start_pipelines(&[&ring], false);
    let (producer, consumer) = (k.tma_producer(&ring, 64), k.consumer(&ring, &lane));
    let (fills, reads) = k.cp_async_pipeline(3);
    let first = k.equal(&group, &0.into());
    Scene {
        ring,
        lane,
        producer,
        consumer,
        fills,
        reads,
        first,
    }
}

/// What `finish` says, and the line that it names, counted from the line that calls this.
#[track_caller]
fn refused(body: impl FnOnce(&mut Builder, &Scene)) -> (String, u32) {
    let here = std::panic::Location::caller().line();
    let mut k = begin();
    let s = scene(&mut k);
    body(&mut k, &s);
    let error = k.finish().map(|_| ()).expect_err("it is refused");
    assert!(error.at().file().ends_with("pipelines.rs"), "{error}");
    // Lines in sentences are counted from the same line.
    let mut what = error.what();
    for line in (here..here + 40).rev() {
        what = what.replace(&format!("line {line}"), &format!("line +{}", line - here));
    }
    (what, error.at().line() - here)
}

#[track_caller]
fn says(found: (String, u32), line: u32, sentence: &str) {
    assert_eq!(found, (sentence.to_string(), line));
}

#[test]
#[rustfmt::skip]
fn a_stage_is_acquired_and_committed_in_turn() {
    says(refused(|k, s| {
        s.producer.acquire(k);
        s.producer.acquire(k);
    }), 2, "acquire: the stage of the `acquire` in line +1 is not committed yet: `commit` it first");
    says(refused(|k, s| {
        let stage = s.producer.acquire(k);
        s.producer.commit(k, &stage);
        s.producer.commit(k, &stage);
    }), 3, "commit: the stage of the `acquire` in line +1 is committed already, in line +2");
    says(refused(|k, s| {
        s.producer.acquire(k);
    }), 1, "acquire: the kernel ends, and the stage is not committed: `commit` it");
    says(refused(|k, s| {
        k.for_(0, 4, 1, |k, _| {
            s.producer.acquire(k);
        });
    }), 2, "acquire: the loop or branch ends, and the stage is not committed: `commit` it in the body that has the `acquire`");
    says(refused(|k, s| {
        let stage = s.producer.acquire(k);
        k.for_(0, 4, 1, |k, _| {
            s.producer.commit(k, &stage);
        });
    }), 3, "commit: the stage of line +1 is not the one that the producer has here: a turn of a loop has another one, and \
            `held` names it");
    says(refused(|k, s| {
        let stage = s.producer.acquire(k);
        k.if_(s.first, |k| s.producer.commit(k, &stage));
    }), 2, "commit: the stage is of the `acquire` in line +1, outside of this loop or branch: leave a body with as many \
            stages as it began with");
    says(refused(|k, s| {
        s.producer.acquire(k);
        s.producer.tail(k);
    }), 2, "tail: the stage of the `acquire` in line +1 is not committed");
    says(refused(|k, s| {
        s.producer.tail(k);
        s.producer.acquire(k);
    }), 2, "acquire: the producer has ended with the `tail` in line +1");
    says(refused(|k, s| {
        s.producer.acquire(k);
        s.producer.skip(k, &3.into());
    }), 2, "skip: the stage of line +1 is still open");
}

#[test]
#[rustfmt::skip]
fn a_stage_is_released_once_and_after_it_was_waited_for() {
    says(refused(|k, s| {
        let stage = s.producer.acquire(k);
        s.consumer.release(k, &stage);
    }), 2, "release: the stage of line +1 is the producer's: a consumer has it by `wait`");
    says(refused(|k, s| {
        let stage = s.consumer.wait(k);
        s.producer.commit(k, &stage);
    }), 2, "commit: the stage of line +1 is the consumer's: a producer has it by `acquire`");
    says(refused(|k, s| {
        let stage = s.consumer.wait(k);
        s.consumer.release(k, &stage);
        s.consumer.release(k, &stage);
    }), 3, "release: the stage of the `wait` in line +1 is released already, in line +2");
    says(refused(|k, s| {
        s.consumer.wait(k);
        s.consumer.wait(k);
    }), 2, "wait: the stage of the `wait` in line +1 is not released yet: `release` it first");
    says(refused(|k, s| {
        s.consumer.held(k);
    }), 1, "held: the consumer has no stage: `wait` for one");
    says(refused(|k, s| {
        k.if_(s.first, |k| {
            s.consumer.wait(k);
        });
    }), 2, "wait: the loop or branch ends, and the stage is not released: `release` it in the body that has the `wait`");
    says(refused(|k, s| {
        let stage = s.consumer.wait(k);
        s.consumer.release_behind(k, &stage, &0.into());
    }), 2, "release_behind: the schedule leaves no multiply in flight: `release` the stage");
    says(refused(|k, s| {
        s.consumer.release_rest(k, &1.into());
    }), 1, "release_rest: no stage is left behind: `release_behind` leaves some");
}

#[test]
#[rustfmt::skip]
fn a_stage_is_its_participants_own() {
    says(refused(|k, s| {
        let ring = k.pipeline(3, 1, 2);
        let other = k.pipeline(3, 1, 2);
        k.start_pipelines(&[&ring, &other], false);
        let [consumer, wrong] = [&ring, &other].map(|ring| k.consumer(ring, &s.lane));
        let stage = consumer.wait(k);
        wrong.release(k, &stage);
    }), 6, "release: the stage of line +5 is of the pipeline in line +1, and this consumer is of the one in line +2");
    says(refused(|k, s| {
        let twin = k.consumer(&s.ring, &s.lane);
        let stage = twin.wait(k);
        s.consumer.release(k, &stage);
    }), 3, "release: the stage of line +2 is another consumer's");
    says(refused(|k, s| {
        let stage = s.consumer.wait(k);
        s.consumer.release(k, &stage);
        k.arrive(&Index::from(&stage));
    }), 3, "stage: the stage of the `wait` in line +1 is used after it was released in line +2: it belongs to the other side \
            by then");
    says(refused(|k, s| {
        let stage = s.producer.acquire(k);
        s.producer.commit(k, &stage);
        k.arrive(&stage.barrier());
    }), 3, "stage: the stage of the `acquire` in line +1 is used after it was committed in line +2: it belongs to the other \
            side by then");
    says(refused(|k, s| {
        let stage = s.consumer.wait(k);
        let number = stage.index();
        k.value(&(&number * 4));
        s.consumer.release(k, &stage);
        k.value(&(&number * 4));
    }), 5, "stage: the stage was committed or released before it is used here: it belongs to the other side by then");
    says(refused(|k, s| {
        let stage = s.fills.acquire(k);
        k.arrive(&stage.barrier());
    }), 2, "barrier: a stage of `cp.async` groups has none: `commit` closes the group of its copies");
    says(refused(|k, s| {
        let mut other = begin();
        let theirs = scene(&mut other);
        s.producer.skip(k, &1.into());
        theirs.producer.acquire(k);
    }), 4, "a participant is of another builder: a builder takes what it has made itself");
    says(refused(|k, _| {
        let mut other = begin();
        let theirs = scene(&mut other);
        k.tma_producer(&theirs.ring, 64);
    }), 3, "a pipeline is of another builder: a builder takes what it has made itself");
}

#[test]
#[rustfmt::skip]
fn a_participant_belongs_to_one_warp_role() {
    says(refused(|k, s| {
        k.if_else(s.first, |k| {
            let stage = s.producer.acquire(k);
            s.producer.commit(k, &stage);
        }, |k| {
            s.producer.acquire(k);
        });
    }), 5, "acquire: the producer works in line +2 for other threads: a participant belongs to one warp role");
    says(refused(|k, s| {
        let group = k.uniform(128);
        let [zero, one] = [0, 1].map(|n| k.equal(&group, &n.into()));
        k.if_(zero, |k| {
            let stage = s.consumer.wait(k);
            s.consumer.release(k, &stage);
        });
        k.if_(one, |k| {
            s.consumer.wait(k);
        });
    }), 8, "wait: the consumer works in line +4 for other threads: a participant belongs to one warp role");
    says(refused(|k, s| {
        let mut made = None;
        k.if_(s.first, |k| made = Some(k.tma_producer(&s.ring, 64)));
        if let Some(producer) = made {
            producer.acquire(k);
        }
    }), 4, "acquire: the producer is made in line +2, in a loop or branch that has ended: make it where all of its calls see \
            it");
    says(refused(|k, _| {
        let ring = k.pipeline(2, 1, 1);
        let producer = k.producer(&ring);
        producer.acquire(k);
    }), 3, "acquire: the barriers of the pipeline in line +1 are not initialised: `start_pipelines` comes first");
}

#[test]
#[rustfmt::skip]
fn the_stages_of_groups_are_counted() {
    says(refused(|k, s| {
        s.reads.wait(k);
    }), 1, "wait: no stage is on its way: `commit` one first");
    says(refused(|k, s| {
        for _ in 0..4 {
            let stage = s.fills.acquire(k);
            s.fills.commit(k, &stage);
        }
    }), 2, "acquire: none of the 3 stages is free: 3 are on their way, 0 waited for, and 0 released since the threads met in \
            a `wait` or a `sync`");
    says(refused(|k, s| {
        let stage = s.fills.acquire(k);
        s.fills.commit(k, &stage);
    }), 2, "commit: the kernel ends, and copies into the ring may be on their way: end with the producer's `tail`, which \
            waits for them");
    says(refused(|k, s| {
        k.for_(0, 4, 1, |k, _| {
            let stage = s.fills.acquire(k);
            s.fills.commit(k, &stage);
        });
    }), 3, "pipeline: the loop or branch begins with 0 stages on their way and 0 waited for, and ends with 1 and 0: commit, \
            wait for and release as many in each body");
    says(refused(|k, s| {
        for _ in 0..2 {
            fetch(k, s);
        }
        k.for_(0, 4, 1, |k, _| {
            let stage = s.fills.acquire(k);
            s.fills.commit(k, &stage);
            let stage = s.reads.wait(k);
            s.reads.release(k, &stage);
        });
    }), 5, "acquire: the stage may still be read: a turn of the loop before has released it, and since then the threads have \
            not met in a `wait` or a `sync`");
    says(refused(|k, _| {
        k.cp_async_pipeline(0);
    }), 1, "cp_async_pipeline: 0 stages: a ring has 1 to 65536");
    says(refused(|k, s| {
        s.fills.skip(k, &1.into());
    }), 1, "skip: a ring of `cp.async` groups has all of its stages filled and read in turn");
}

fn fetch(k: &mut Builder, s: &Scene) {
    let stage = s.fills.acquire(k);
    s.fills.commit(k, &stage);
}

#[test]
#[rustfmt::skip]
fn what_is_left_in_flight_is_released_after_the_last_step() {
    let clustered = |k: &mut Builder| {
        let schedule = WarpSpecialized { cluster: [2, 1], ..WarpSpecialized::cooperative(3, 1, 8) };
        k.cluster([2, 1, 1]);
        let ring = k.pipeline_of(&schedule);
        k.start_pipelines(&[&ring], true);
        ring
    };
    says(refused(|k, s| {
        let ring = clustered(k);
        let consumer = k.consumer(&ring, &s.lane);
        let stage = consumer.wait(k);
        consumer.release_behind(k, &stage, &0.into());
    }), 4, "release_behind: the stages of the last steps are still held: `release_rest` after the loop releases them");
    says(refused(|k, s| {
        let ring = clustered(k);
        let consumer = k.consumer(&ring, &s.lane);
        let stage = consumer.wait(k);
        consumer.release_behind(k, &stage, &0.into());
        let stage = consumer.wait(k);
        consumer.release(k, &stage);
    }), 6, "release: stages of the steps before are still held, since the `release_behind` in line +4: `release_rest` first");
    says(refused(|k, _| {
        let ring = clustered(k);
        let producer = k.tma_producer(&ring, 64);
        let stage = producer.acquire(k);
        producer.commit(k, &stage);
    }), 2, "producer: the blocks of a cluster arrive at each other's barriers: end with the producer's `tail`, which waits \
            for them");
}

#[test]
#[rustfmt::skip]
fn a_relay_passes_stages_on() {
    says(refused(|k, s| {
        k.relayed(s.ring.clone(), 96);
    }), 1, "relayed: the barriers are initialised: give the ring its relay before `start_pipelines`");
    says(refused(|k, _| {
        let ring = k.pipeline(3, 1, 2);
        k.relayed(ring, 0);
    }), 2, "relayed: a relay of 0 threads passes nothing on");
    says(refused(|k, _| {
        let ring = k.pipeline(3, 1, 2);
        let ring = k.relayed(ring, 96);
        k.relayed(ring, 32);
    }), 3, "relayed: the ring has a relay");
    says(refused(|k, s| {
        k.relay(&s.ring);
    }), 1, "relay: the ring has no relay: `Builder::relayed` gives it one");
    let relayed = |k: &mut Builder| {
        let ring = k.pipeline(3, 1, 2);
        let ring = k.relayed(ring, 256);
        k.start_pipelines(&[&ring], false);
        ring
    };
    says(refused(|k, s| {
        let ring = k.pipeline(3, 1, 2);
        let ring = k.relayed(ring, 256);
        k.start_pipelines(&[&ring], false);
        let consumer = k.consumer(&ring, &s.lane);
        let stage = consumer.wait(k);
        consumer.release(k, &stage);
    }), 2, "relayed: consumers wait for stages that no relay passes on: `Builder::relay` makes the side that does");
    says(refused(|k, _| {
        let ring = relayed(k);
        let relay = k.relay(&ring);
        relay.wait(k);
    }), 3, "wait: the kernel ends, and the stage is not passed on: `pass` it");
    says(refused(|k, _| {
        let ring = relayed(k);
        let relay = k.relay(&ring);
        let stage = relay.wait(k);
        relay.pass(k, &stage);
        relay.pass(k, &stage);
    }), 5, "pass: the stage of the `wait` in line +3 is passed on already, in line +4");
    says(refused(|k, s| {
        let ring = relayed(k);
        let (relay, consumer) = (k.relay(&ring), k.consumer(&ring, &s.lane));
        let stage = relay.wait(k);
        consumer.release(k, &stage);
    }), 4, "release: the stage of line +3 is the relay's: a consumer has it by `wait`");
}

/// The groups that may stay on their way in a kernel are those of the schedule, regardless of the number of stages.
#[test]
fn law_groups_are_waited_for_as_the_schedule_says() {
    let mut cases = 0;
    for stages in 2..=8 {
        for steps in 1..=6 {
            let plan = Multistage {
                stages,
                k_tiles: steps,
                warps: 1,
            };
            let plan = plan.build().expect("a schedule");
            let mut k = Builder::new("k", Arch::Sm80, 32);
            let (producer, consumer) = k.cp_async_pipeline(stages as i64);
            let fill = |k: &mut Builder| {
                let stage = producer.acquire(k);
                producer.commit(k, &stage);
            };
            for _ in 0..stages - 1 {
                fill(&mut k);
            }
            // Unrolled, so that the kernel has the steps of the schedule.
            let mut found: Vec<i64> = Vec::new();
            for _ in 0..steps {
                let stage: Stage = consumer.wait(&mut k);
                found.extend(stage.index().as_constant());
                fill(&mut k);
                consumer.release(&mut k, &stage);
            }
            producer.tail(&mut k);
            let text = k.finish().map(|built| built.kernel.ptx());
            let text = text.expect("it is right").expect("it is printed");
            let groups = |line: &str| {
                line.trim()
                    .strip_prefix("cp.async.wait_group ")?
                    .parse()
                    .ok()
            };
            let kernel: Vec<Option<u16>> = text
                .lines()
                .filter_map(|line| match groups(line.trim_end_matches(';')) {
                    Some(n) => Some(Some(n)),
                    None => line.contains("cp.async.commit_group").then_some(None),
                })
                .collect();
            let mut schedule: Vec<Option<u16>> = Vec::new();
            for step in &plan.actors[0].steps {
                match step {
                    Step::WaitGroups { pending } => schedule.push(Some(*pending)),
                    Step::Commit => schedule.push(None),
                    _ => {}
                }
            }
            // The tail.
            schedule.push(Some(0));
            assert_eq!(kernel, schedule, "{stages} stages, {steps} steps");
            let stage = |i: usize| (i % stages) as i64;
            assert_eq!(found, (0..steps).map(stage).collect::<Vec<i64>>());
            cases += 1;
        }
    }
    println!("law pipelines.groups: {cases} cases");
}
