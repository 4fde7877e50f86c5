//! The two laws of random kernels.

use std::collections::BTreeMap;

use colex_sim::{Fault, SimOptions};

use super::super::helpers::Dice;
use super::{Cast, HELD, Play};

/// How many kernels.
const PLAYS: u64 = 150;

/// What is wrong with a run, if something is.
fn differs(play: &Play, kernel: &colex_ir::Kernel, cast: &Cast, seed: u64) -> Option<String> {
    let (mut host, [output, engines]) = play.host();
    let options = SimOptions::default().seed(seed);
    if let Err(fault) = host.run_with(kernel, play.world.launch(), &options) {
        return Some(fault.to_string());
    }
    let all = play.world.all() as usize;
    if host.read(engines, all) != cast.engines {
        return Some("the engines wrote something else".to_string());
    }
    let found = host.read(output, HELD * all);
    let wrong = (0..all).find(|t| found[HELD * t..][..HELD] != cast.held[*t]);
    wrong.map(|t| {
        format!(
            "thread {t} holds {:?}, not {:?}",
            &found[HELD * t..][..HELD],
            cast.held[t]
        )
    })
}

/// A kernel that is right has no fault, and gives what it must, in every order of events.
#[test]
fn random_kernels_that_are_right_run_in_every_order() {
    let mut cases = 0;
    for number in 0..PLAYS {
        let play = match number % 2 {
            0 => Play::random(number),
            _ => Play::random(number).fresh(),
        };
        let staged = play.stage(None);
        if let Err(problems) = staged.kernel.verify() {
            panic!("kernel {number} {play:?}: {problems}");
        }
        let cast = play.values();
        for seed in 0..8 {
            if let Some(why) = differs(&play, &staged.kernel, &cast, seed) {
                panic!("kernel {number}, order {seed}: {why}\n{play:#?}");
            }
            cases += 1;
        }
    }
    println!("law sim.random_kernels: {cases} cases");
}

fn run(play: &Play, kernel: &colex_ir::Kernel, seed: u64) -> Result<(), Fault> {
    let (mut host, _) = play.host();
    let options = SimOptions {
        max_steps: 20_000,
        ..SimOptions::default().seed(seed)
    };
    host.run_with(kernel, play.world.launch(), &options)
        .map(|_| ())
}

/// How a mistake of one kind was told, over all kernels and orders of events.
#[derive(Default)]
struct Tally {
    named: u64,
    misleading: u64,
    missed: u64,
    /// It is no mistake there, and nothing was said.
    harmless: u64,
}

/// A kernel with one mistake is told which, in every order of events: the headline is in the line of the mistake or of
/// what it leaves alone, both of two unordered accesses are named, and what is missing is asked for. Where leaving
/// something out is no mistake, nothing is said, and the kernel is as right as before.
#[test]
fn one_mistake_in_a_random_kernel_is_named() {
    let plays = std::env::var("COLEX_PLANTED").ok();
    let plays = plays.and_then(|text| text.parse().ok()).unwrap_or(PLAYS);
    let mut table: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    for number in 0..plays {
        let play = match number % 2 {
            0 => Play::random(number),
            _ => Play::random(number).fresh(),
        };
        let cast = play.values();
        let sites = play.stage(None).sites.len();
        let mut dice = Dice(number);
        for planted in 0..sites {
            // Both extremes, and one order by chance.
            for seed in [0, 1, 2 + dice.next() % 1000] {
                let staged = play.stage(Some(planted));
                let site = &staged.sites[planted];
                let tally = table.entry(site.name).or_default();
                let complaint = match (site.kinds.is_empty(), run(&play, &staged.kernel, seed)) {
                    (true, _) => differs(&play, &staged.kernel, &cast, seed)
                        .map(|why| (&mut tally.misleading, why)),
                    (false, Ok(())) => Some((&mut tally.missed, "nothing is said".to_string())),
                    (false, Err(fault)) => site
                        .complains(&fault)
                        .map(|why| (&mut tally.misleading, format!("{why}: {fault}"))),
                };
                match complaint {
                    Some((count, why)) => {
                        *count += 1;
                        wrong.push(format!(
                            "kernel {number} without {}, order {seed}: {why}",
                            site.name
                        ));
                    }
                    None if site.kinds.is_empty() => tally.harmless += 1,
                    None => tally.named += 1,
                }
            }
        }
    }
    println!(
        "{:<36} named misleading missed harmless",
        "left out or broken"
    );
    let mut cases = 0;
    for (name, tally) in &table {
        println!(
            "{name:<36} {:>5} {:>10} {:>6} {:>8}",
            tally.named, tally.misleading, tally.missed, tally.harmless
        );
        cases += tally.named + tally.misleading + tally.missed;
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    println!("law sim.planted_mistakes: {cases} cases");
}
