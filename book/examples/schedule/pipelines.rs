//! Pipelines and their checker: plans, their checks, and five mistakes.
//!
//! Run it with `cargo run -p colex-book --example schedule_pipelines`; each line `== .. ==` names a piece of the chapter.

use colex_sched::pipeline::{
    Multistage, Ordering, Phase, Step, WarpSpecialized, check, check_exhaustively,
};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    by_hand()?;
    checked()?;
    phases();
    cluster()?;
    multistage()?;
    full()?;
    ends()?;
    Ok(())
}

/// Prints a plan of one stage, step by step.
fn by_hand() -> Result<(), Box<dyn Error>> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let plan = WarpSpecialized {
        consumers: 1,
        in_flight: 0, // no multiply may run when a stage is released
        ..WarpSpecialized::cooperative(1, 1, 1)  // stages, tiles, k-tiles per tile
    };
    print!("{}", plan.build()?);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Checks three plans over all interleavings.
fn checked() -> Result<(), Box<dyn Error>> {
    // ANCHOR: checked
    let cooperative = WarpSpecialized::cooperative(3, 2, 3); // stages, tiles, k-tiles per tile
    let pingpong = WarpSpecialized::pingpong(3, 2, 3);
    let named = WarpSpecialized {
        ordering: Ordering::Named,
        ..pingpong
    };
    for plan in [cooperative, pingpong, named] {
        let pipeline = plan.build()?;
        let (short, full) = (check(&pipeline)?, check_exhaustively(&pipeline, 1_000_000)?);
        assert!(short.states < 250 && full.states > 1000);
    }
    // ANCHOR_END: checked
    Ok(())
}

/// Skips the k-tiles of the other consumer.
fn phases() {
    // ANCHOR: phases
    let second = Phase::consumer(4).advance(3); // tile 0 has 3 k-tiles
    assert_eq!((second.stage, second.parity), (3, 0));
    let next = second.advance(3).advance(3); // its own tile, then the other's
    assert_eq!((next.stage, next.parity), (1, 0));
    // ANCHOR_END: phases
}

/// Checks a plan for a cluster.
fn cluster() -> Result<(), Box<dyn Error>> {
    // ANCHOR: cluster
    let plan = WarpSpecialized {
        cluster: [2, 1],
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(2, 1, 3)
    };
    assert!(check(&plan.build()?).is_ok());
    // ANCHOR_END: cluster
    Ok(())
}

/// Checks Ampere's pipeline, and prints the first steps of a warp.
fn multistage() -> Result<(), Box<dyn Error>> {
    println!("\n== multistage ==");
    // ANCHOR: multistage
    let plan = Multistage {
        stages: 3,
        k_tiles: 5,
        warps: 2,
    };
    let pipeline = plan.build()?;
    assert!(check(&pipeline).is_ok());
    let warp = &pipeline.actors[0];
    println!("{}:", warp.name);
    for (i, step) in warp.steps.iter().enumerate().take(16) {
        println!("  {i:>3} {}", pipeline.describe(step));
    }
    // ANCHOR_END: multistage
    Ok(())
}

// ANCHOR: fault
/// Changes the steps of the actors whose names begin with `name`.
/// Returns the fault that the checker finds.
fn fault(
    plan: WarpSpecialized,
    name: &str,
    change: impl Fn(&mut Vec<Step>),
) -> Result<String, Box<dyn Error>> {
    let mut pipeline = plan.build()?;
    let actors = pipeline.actors.iter_mut();
    for actor in actors.filter(|actor| actor.name.starts_with(name)) {
        change(&mut actor.steps);
    }
    let fault = check(&pipeline).expect_err("a mistake was planted");
    Ok(fault.to_string())
}
// ANCHOR_END: fault

/// Returns a plan of one tile with one consumer.
fn one(stages: usize, k_tiles: usize) -> WarpSpecialized {
    WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(stages, 1, k_tiles)
    }
}

/// Plants two mistakes at the barrier `full`.
fn full() -> Result<(), Box<dyn Error>> {
    println!("\n== full ==");
    // ANCHOR: full
    let wrong_parity = fault(one(2, 2), "producer", |steps| {
        for step in steps {
            if let Step::Wait { parity, .. } = step {
                *parity ^= 1;
            }
        }
    });
    println!("{}", wrong_parity?);

    let one_load = fault(one(2, 2), "producer", |steps| {
        for step in steps {
            if let Step::Expect { loads, .. } = step {
                *loads = 1;
            }
        }
    });
    println!("{}", one_load?);
    // ANCHOR_END: full
    Ok(())
}

/// Plants three mistakes at the end of a multiply, of a tile and of a block.
fn ends() -> Result<(), Box<dyn Error>> {
    println!("\n== ends ==");
    // ANCHOR: ends
    let early_release = fault(one(2, 4), "consumer", |steps| {
        let release = steps.iter().position(|s| matches!(s, Step::Arrive { .. }));
        let release = release.expect("it releases");
        steps.swap(release - 1, release); // the release comes before the `retire`
    });
    println!("{}", early_release?);

    let last_multiply = fault(one(2, 4), "consumer", |steps| {
        let waits = |s: &Step| *s == Step::Retire { pending: 0 };
        let last = steps.iter().rposition(waits).expect("it waits");
        steps[last] = Step::Retire { pending: 1 };
    });
    println!("{}", last_multiply?);

    let cluster = WarpSpecialized {
        cluster: [2, 1],
        in_flight: 0,
        ..one(1, 1)
    };
    let early_exit = fault(cluster, "producer", |steps| {
        steps.pop(); // the wait at the end
    });
    println!("{}", early_exit?);
    // ANCHOR_END: ends
    Ok(())
}
