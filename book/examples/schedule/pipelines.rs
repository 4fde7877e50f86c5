//! Pipelines as walks: plans, their checks, and five mistakes.
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
    parity()?;
    early_release()?;
    one_load()?;
    early_exit()?;
    last_multiply()?;
    Ok(())
}

/// Prints a plan of one stage, step by step.
fn by_hand() -> Result<(), Box<dyn Error>> {
    println!("\n== by_hand ==");
    // ANCHOR: by_hand
    let plan = WarpSpecialized {
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 1)
    };
    print!("{}", plan.build()?);
    // ANCHOR_END: by_hand
    Ok(())
}

/// Checks three plans over all interleavings.
fn checked() -> Result<(), Box<dyn Error>> {
    // ANCHOR: checked
    let cooperative = WarpSpecialized::cooperative(3, 2, 3);
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

/// Checks Ampere's pipeline.
fn multistage() -> Result<(), Box<dyn Error>> {
    // ANCHOR: multistage
    let plan = Multistage {
        stages: 3,
        k_tiles: 5,
        warps: 2,
    };
    assert!(check(&plan.build()?).is_ok());
    // ANCHOR_END: multistage
    Ok(())
}

/// Shows a producer that starts with the wrong parity.
fn parity() -> Result<(), Box<dyn Error>> {
    println!("\n== parity ==");
    // ANCHOR: parity
    let mut plan = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 2)
    }
    .build()?;
    for step in &mut plan.actors[0].steps {
        if let Step::Wait { parity, .. } = step {
            *parity ^= 1;
        }
    }
    println!("{}", check(&plan).unwrap_err());
    // ANCHOR_END: parity
    Ok(())
}

/// Shows a consumer that releases a stage too early.
fn early_release() -> Result<(), Box<dyn Error>> {
    println!("\n== early_release ==");
    // ANCHOR: early_release
    let mut plan = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 4)
    }
    .build()?;
    let steps = &mut plan.actors[1].steps;
    let release = steps
        .iter()
        .position(|s| matches!(s, Step::Arrive { .. }))
        .expect("it releases");
    steps.swap(release - 1, release);
    println!("{}", check(&plan).unwrap_err());
    // ANCHOR_END: early_release
    Ok(())
}

/// Shows a barrier that expects one load of two.
fn one_load() -> Result<(), Box<dyn Error>> {
    println!("\n== one_load ==");
    // ANCHOR: one_load
    let mut plan = WarpSpecialized::cooperative(2, 1, 2).build()?;
    for step in &mut plan.actors[0].steps {
        if let Step::Expect { loads, .. } = step {
            *loads = 1;
        }
    }
    let fault = check(&plan).unwrap_err().to_string();
    println!("{fault}");
    // ANCHOR_END: one_load
    Ok(())
}

/// Shows a producer that leaves too early.
fn early_exit() -> Result<(), Box<dyn Error>> {
    println!("\n== early_exit ==");
    // ANCHOR: early_exit
    let plan = WarpSpecialized {
        cluster: [2, 1],
        consumers: 1,
        in_flight: 0,
        ..WarpSpecialized::cooperative(1, 1, 1)
    };
    let mut plan = plan.build()?;
    for actor in plan
        .actors
        .iter_mut()
        .filter(|a| a.name.starts_with("producer"))
    {
        actor.steps.pop();
    }
    let fault = check(&plan).unwrap_err().to_string();
    println!("{fault}");
    // ANCHOR_END: early_exit
    Ok(())
}

/// Shows an epilogue that does not wait.
fn last_multiply() -> Result<(), Box<dyn Error>> {
    println!("\n== last_multiply ==");
    // ANCHOR: last_multiply
    let mut plan = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(2, 1, 4)
    }
    .build()?;
    let steps = &mut plan.actors[1].steps;
    let last = steps
        .iter()
        .rposition(|s| *s == Step::Retire { pending: 0 })
        .expect("it waits");
    steps[last] = Step::Retire { pending: 1 };
    println!("{}", check(&plan).unwrap_err());
    // ANCHOR_END: last_multiply
    Ok(())
}
