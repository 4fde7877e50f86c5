//! The loop of Hopper's attention as a pipeline, and the same from a recorded run of the library's kernels.
//!
//! Run it with `cargo run -p colex-book --example kernel_attention_loop`; each line `== .. ==` names a piece of the chapter.

use colex_atom::Arch;
use colex_gpu::Device;
use colex_gpu::attention::{Attention, AttentionMethod, AttentionPlan};
use colex_gpu::sim::SimOptions;
use colex_proof::recorded::recorded;
use colex_sched::pipeline::{Actor, Barrier, Pipeline, Slot, Step, check};
use half::f16;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    walk()?;
    recorded_walk()?;
    recorded_groups()
}

// ANCHOR: pipeline
/// Barrier and slot of a tile: two stages of keys, then two of values. Item 2j is block j of
/// the keys, 2j + 1 its values.
fn stage(item: u16) -> usize {
    usize::from(item % 2 * 2 + item / 2 % 2)
}

/// The parity of the round in which a stage holds an item.
fn parity(item: u16) -> u8 {
    (item / 4 % 2) as u8
}

/// A producer and one consumer over `blocks` blocks of keys.
fn attention_pipeline(blocks: u16, releases_early: bool) -> Pipeline {
    let mut producer = Vec::new();
    for item in 0..2 * blocks {
        let (full, empty) = (stage(item), 4 + stage(item));
        let load = Step::Load {
            item,
            to: vec![(stage(item), Some(full))],
        };
        let wait = Step::Wait {
            barrier: empty,
            parity: 1 - parity(item),
        };
        let barrier = full;
        producer.extend([wait, Step::Expect { barrier, loads: 1 }, load]);
    }
    // ANCHOR_END: pipeline

    // ANCHOR: consumer
    let multiply = |item: u16| {
        let (barrier, slots) = (stage(item), vec![stage(item)]);
        let parity = parity(item);
        [
            Step::Wait { barrier, parity },
            Step::Multiply { item, slots },
        ]
    };
    let release = |item: u16| Step::Arrive {
        barrier: 4 + stage(item),
    };
    let mut consumer = multiply(0).to_vec(); // the scores of block 0
    consumer.extend([Step::Retire { pending: 0 }, release(0)]);
    for block in 1..blocks {
        let (keys, values) = (2 * block, 2 * block - 1);
        consumer.extend(multiply(keys)); // the scores of this block
        consumer.extend(multiply(values)); // the output of the block before
        if releases_early {
            consumer.push(release(values));
        }
        consumer.extend([Step::Retire { pending: 1 }, release(keys)]);
        // Here the consumer computes this softmax, while the tensor cores multiply the values.
        consumer.push(Step::Retire { pending: 0 });
        if !releases_early {
            consumer.push(release(values));
        }
    }
    let last = 2 * blocks - 1;
    consumer.extend(multiply(last));
    consumer.extend([Step::Retire { pending: 0 }, release(last)]);
    consumer.push(Step::Epilogue { tile: 0 });
    // ANCHOR_END: consumer

    // ANCHOR: parts_of_pipeline
    let names = ["keys 0", "keys 1", "values 0", "values 1"];
    let slot = |name: &str| Slot {
        name: name.to_string(),
        block: 0,
    };
    let barrier = |kind: &str, name: &str| Barrier {
        name: format!("{kind} of {name}"),
        block: 0,
        arrivals: 1,
    };
    let actor = |name: &str, steps: Vec<Step>| Actor {
        name: name.to_string(),
        block: 0,
        steps,
    };
    let full = names.iter().map(|name| barrier("full", name));
    let empty = names.iter().map(|name| barrier("empty", name));
    Pipeline {
        name: "attention".to_string(),
        slots: names.iter().map(|name| slot(name)).collect(),
        barriers: full.chain(empty).collect(),
        actors: vec![actor("producer", producer), actor("consumer", consumer)],
    }
}
// ANCHOR_END: parts_of_pipeline

/// Checks the loop over the keys as a pipeline.
fn walk() -> Result<(), Box<dyn Error>> {
    println!("\n== walk ==");
    // ANCHOR: walk
    for step in &attention_pipeline(3, false).actors[1].steps[4..12] {
        println!("{}", attention_pipeline(3, false).describe(step));
    }
    let report = check(&attention_pipeline(8, false))?;
    println!("8 blocks: {} states, no fault", report.states);
    let fault = check(&attention_pipeline(8, true)).unwrap_err();
    println!("{fault}");
    // ANCHOR_END: walk
    Ok(())
}

/// Checks the recorded run of the library's kernel.
fn recorded_walk() -> Result<(), Box<dyn Error>> {
    println!("\n== recorded ==");
    // ANCHOR: recorded
    let options = SimOptions {
        events: true,
        ..SimOptions::default()
    };
    let device = Device::simulator_with(Arch::Sm90a, options);
    // One head, 64 queries and 160 keys: in blocks of 32, each ring begins its third round.
    let x = device.upload(&[f16::ONE; 160 * 64])?;
    let mut o = device.poisoned::<f16>(64 * 64)?;
    let (queries, keys) = (x.view((1, 1, 64, 64))?, x.view((1, 1, 160, 64))?);
    let output = o.view_mut((1, 1, 64, 64))?;
    let call = Attention::new(&queries, &keys, &keys, &output).prepare_with(|operands, _| {
        let plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
        Ok(AttentionPlan {
            tile: [64, 32],
            consumers: 1,
            turns: false,
            ..plan
        })
    })?;
    println!("{call}");
    let events = call.profile(&device)?.remove(0).events;
    let run = recorded(&events, 0)?;
    println!("{}", run.check()?);
    // ANCHOR_END: recorded

    println!("\n== named ==");
    // ANCHOR: named
    // A name for each place in shared memory and for each barrier, in the order of their addresses.
    let mut pipeline = run.pipeline;
    let mut names = Vec::new();
    for ring in ["queries", "keys", "values"] {
        for kind in ["full", "empty"] {
            names.extend([0, 1].map(|stage| format!("{kind} of {ring} {stage}")));
        }
    }
    assert_eq!(names.len(), run.mbarriers);
    for (barrier, name) in pipeline.barriers.iter_mut().zip(names) {
        barrier.name = name;
    }
    // A slot has 4096 bytes. The run loads one tile of queries, of 8192 bytes: two slots. The place
    // for a second tile is no slot.
    let names = [
        "queries 0",
        "queries 0",
        "keys 0",
        "keys 1",
        "values 0",
        "values 1",
    ];
    for (slot, name) in pipeline.slots.iter_mut().zip(names) {
        slot.name = name.to_string();
    }
    let is_consumer = |actor: &Actor| actor.name == "warp 0 of block 0";
    let consumer = pipeline.actors.iter().position(is_consumer).unwrap();
    for step in &pipeline.actors[consumer].steps[14..22] {
        println!("{}", pipeline.describe(step));
    }
    // ANCHOR_END: named

    println!("\n== planted ==");
    // ANCHOR: planted
    // The last two of these steps in the other order: the release comes before the wait.
    pipeline.actors[consumer].steps.swap(20, 21);
    println!("{}", check(&pipeline).unwrap_err());
    // ANCHOR_END: planted
    Ok(())
}

/// Checks the recorded run of the library's Ampere kernel, whose stages are groups of asynchronous copies.
fn recorded_groups() -> Result<(), Box<dyn Error>> {
    println!("\n== recorded_groups ==");
    // ANCHOR: recorded_groups
    let options = SimOptions {
        events: true,
        ..SimOptions::default()
    };
    let device = Device::simulator_with(Arch::Sm80, options);
    let x = device.upload(&[f16::ONE; 160 * 64])?;
    let mut o = device.poisoned::<f16>(64 * 64)?;
    let (queries, keys) = (x.view((1, 1, 64, 64))?, x.view((1, 1, 160, 64))?);
    let output = o.view_mut((1, 1, 64, 64))?;
    let call = Attention::new(&queries, &keys, &keys, &output).prepare_with(|operands, _| {
        let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
        Ok(AttentionPlan {
            tile: [64, 32],
            ..plan
        })
    })?;
    println!("{call}");
    let events = call.profile(&device)?.remove(0).events;
    let mut pipeline = recorded(&events, 0)?.pipeline;
    println!("{} states", check(&pipeline)?.states);

    // The first warp of four begins the loads of a pass before it waits for the others.
    let warp = pipeline
        .actors
        .iter()
        .position(|a| a.name == "warp 0 of block 0");
    // The barrier moves behind the commit of these loads.
    let steps = &mut pipeline.actors[warp.unwrap()].steps;
    let is_begin = |two: &[Step]| matches!(two, [Step::Sync { .. }, Step::Load { .. }]);
    let sync = steps.windows(2).rposition(is_begin).unwrap();
    let commit = steps[sync..].iter().position(|step| *step == Step::Commit);
    steps[sync..=sync + commit.unwrap()].rotate_left(1);
    println!("{}", check(&pipeline).unwrap_err());
    // ANCHOR_END: recorded_groups
    Ok(())
}
