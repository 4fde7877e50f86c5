//! Faults planted in the kernels of products over ranks, each with its correct twin: the same kernel and the same launch without
//! the fault, under the same schedules.

use colex_atom::Arch;
use colex_gpu::ir::launch::Argument;
use colex_gpu::ir::{Control, Memory, Op, Order, Stmt};
use colex_gpu::ranks::{RankBuffers, RankPlan};
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_sched::Overlap;

use super::{Change, bits, change, expected, small};

/// What is wrong. Lists of pointers are those of a kernel: those of this rank, of the next one, and so on.
#[derive(Clone, Copy, Debug)]
enum Plant {
    /// A change of an order or a barrier.
    Place(Change, i64),
    /// A wait for a flag is left out.
    NoWait(i64),
    /// A flag is not raised, or a counter does not count.
    NoRaise(i64),
    /// The next two ranks have each other's pointer in a list.
    Swapped(usize),
    /// The second next rank has the pointer of the next one.
    Twice(usize),
    /// The second round has the number of the first one, so that its flags are raised already.
    OldRound,
    /// Rank 1 has the number of rank 0.
    OneNumber,
    /// Rank 2 is not launched.
    Absent,
}

const SHARED: usize = 0;
const ARRIVED: usize = 1;
const SUMS: usize = 3;
const LANDED: usize = 4;

/// How a fault shows: by the simulator's fault, or in the results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shows {
    As(FaultKind),
    InResults,
}

/// Removes what comes as number `left` in a body and is of a kind.
pub(super) fn remove(body: &mut Vec<Stmt>, is_it: &dyn Fn(&Stmt) -> bool, left: &mut i64) {
    let mut removed = None;
    for (at, stmt) in body.iter_mut().enumerate() {
        if is_it(stmt) {
            *left -= 1;
            if *left == -1 {
                removed = Some(at);
            }
            continue;
        }
        match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                remove(then, is_it, left);
                remove(other, is_it, left);
            }
            Op::Control(Control::Loop { body }) => remove(body, is_it, left),
            _ => {}
        }
    }
    if let Some(at) = removed {
        body.remove(at);
    }
}

pub(super) fn waits(stmt: &Stmt) -> bool {
    let acquires = |stmt: &Stmt| {
        matches!(&stmt.op, Op::Memory(Memory::Load { access, .. })
            if matches!(access.order, Order::Acquire(_)))
    };
    matches!(&stmt.op, Op::Control(Control::Loop { body }) if body.iter().any(acquires))
}

fn raises(stmt: &Stmt) -> bool {
    let order = match &stmt.op {
        Op::Memory(Memory::Store { access, .. }) => &access.order,
        Op::Memory(Memory::Reduce { order, .. }) => order,
        _ => return false,
    };
    matches!(order, Order::Release(_))
}

/// What two rounds of a product come to, with a fault or without one.
fn ran(plan: &RankPlan, plant: Option<Plant>, seed: u64) -> Result<bool, Fault> {
    let count = plan.problem().ranks as usize;
    let mut kernel = plan.kernel(Arch::Sm90a).unwrap();
    let mut left = match plant {
        Some(Plant::Place(_, at) | Plant::NoWait(at) | Plant::NoRaise(at)) => at,
        _ => -1,
    };
    match plant {
        Some(Plant::Place(how, _)) => change(&mut kernel.body, how, &mut left),
        Some(Plant::NoWait(_)) => remove(&mut kernel.body, &waits, &mut left),
        Some(Plant::NoRaise(_)) => remove(&mut kernel.body, &raises, &mut left),
        _ => {}
    }
    assert!(left < 0, "{plant:?} has its place in the kernel");
    let mut ranks = Ranks::connected(count).unwrap();
    let buffers = RankBuffers::new(plan, &mut ranks).unwrap();
    let mut is_right = true;
    for round in 1..=2 {
        let [a, b, c] = expected(plan.problem(), i64::from(round));
        buffers.write(&mut ranks, &a, &b).unwrap();
        let list = |number: usize, step: usize| 5 + number * count + step;
        let arguments = |rank: usize| -> Option<Vec<Argument>> {
            let told = match plant {
                Some(Plant::OldRound) => 1,
                _ => round,
            };
            let mut all = buffers.arguments(rank, told).unwrap();
            match plant {
                Some(Plant::Absent) if rank == 2 => return None,
                Some(Plant::OneNumber) if rank == 1 => all[0] = Argument::U32(0),
                Some(Plant::Swapped(number)) => all.swap(list(number, 1), list(number, 2)),
                Some(Plant::Twice(number)) => all[list(number, 2)] = all[list(number, 1)].clone(),
                _ => {}
            }
            Some(all)
        };
        let arguments: Vec<_> = (0..count).map(arguments).collect();
        let options = SimOptions::default().seed(seed);
        ranks.simulate(&kernel, &plan.launch().unwrap(), &arguments, &options)?;
        let found = buffers.read(&ranks);
        is_right &= found.is_ok_and(|found| bits(&found) == bits(&c));
    }
    Ok(is_right)
}

/// Every fault: where, what, how it shows, and whether it does so under every schedule.
fn faults() -> Vec<(&'static str, Overlap, Plant, Shows, bool)> {
    use Change::{NoBarrier, OneDevice, Relaxed};
    use FaultKind::{Deadlock, EarlyExit, Race};
    use Overlap::{GatherProduct as Gather, ProductReduce as Reduce, ProductScatter as Scatter};
    use Plant::*;
    use Shows::{As, InResults};
    vec![
        (
            "a flag without release",
            Gather,
            Place(Relaxed, 2),
            As(Race),
            true,
        ),
        (
            "a wait without acquire",
            Gather,
            Place(Relaxed, 3),
            As(Race),
            true,
        ),
        (
            "a release within a device",
            Gather,
            Place(OneDevice, 2),
            As(Race),
            true,
        ),
        (
            "an acquire within a device",
            Gather,
            Place(OneDevice, 3),
            As(Race),
            true,
        ),
        (
            "a flag before all threads have copied",
            Gather,
            Place(NoBarrier, 1),
            As(Race),
            true,
        ),
        (
            "threads that do not wait with the first one",
            Gather,
            Place(NoBarrier, 2),
            As(Race),
            true,
        ),
        (
            "a chunk that is not awaited",
            Gather,
            NoWait(1),
            As(Race),
            true,
        ),
        (
            "a flag that is not raised",
            Gather,
            NoRaise(1),
            As(Deadlock),
            true,
        ),
        (
            "a chunk at the wrong peer",
            Gather,
            Swapped(SHARED),
            As(Race),
            true,
        ),
        (
            "a flag at the wrong peer",
            Gather,
            Swapped(ARRIVED),
            As(Race),
            true,
        ),
        (
            "a peer that gets the flag of another one",
            Gather,
            Twice(ARRIVED),
            As(Race),
            true,
        ),
        (
            "a flag reused without reset",
            Gather,
            OldRound,
            As(Race),
            false,
        ),
        (
            "a rank that exits before it begins",
            Gather,
            Absent,
            As(Deadlock),
            true,
        ),
        (
            "a counter without release",
            Scatter,
            Place(Relaxed, 3),
            As(Race),
            true,
        ),
        (
            "a sum without acquire of one rank",
            Scatter,
            Place(Relaxed, 5),
            As(Race),
            true,
        ),
        (
            "a counter within a device",
            Scatter,
            Place(OneDevice, 3),
            As(Race),
            true,
        ),
        (
            "a count before all threads have stored",
            Scatter,
            Place(NoBarrier, 1),
            As(Race),
            true,
        ),
        (
            "a sum before the others wait",
            Scatter,
            Place(NoBarrier, 2),
            As(Race),
            true,
        ),
        (
            "terms of a rank that are not awaited",
            Scatter,
            NoWait(2),
            As(Race),
            true,
        ),
        (
            "terms that are not counted",
            Scatter,
            NoRaise(2),
            As(Deadlock),
            true,
        ),
        (
            "terms at the wrong owner",
            Scatter,
            Swapped(SHARED),
            As(Race),
            true,
        ),
        (
            "two ranks with one number",
            Scatter,
            OneNumber,
            As(Race),
            true,
        ),
        (
            "a counter reused without reset",
            Scatter,
            OldRound,
            As(Race),
            false,
        ),
        ("a rank without terms", Scatter, Absent, As(Deadlock), true),
        (
            "sums that are counted without release",
            Reduce,
            Place(Relaxed, 7),
            As(EarlyExit),
            true,
        ),
        (
            "sums that are awaited without acquire",
            Reduce,
            Place(Relaxed, 9),
            As(EarlyExit),
            true,
        ),
        (
            "a kernel that ends before the sums of others",
            Reduce,
            NoWait(4),
            As(EarlyExit),
            true,
        ),
        (
            "a count before all threads have stored sums",
            Reduce,
            Place(NoBarrier, 3),
            As(EarlyExit),
            true,
        ),
        (
            "sums that are not counted",
            Reduce,
            NoRaise(3),
            As(Deadlock),
            true,
        ),
        (
            "sums twice at one peer",
            Reduce,
            Twice(SUMS),
            InResults,
            true,
        ),
        (
            "a count twice at one peer",
            Reduce,
            Twice(LANDED),
            As(Deadlock),
            true,
        ),
        (
            "a counter of sums reused without reset",
            Reduce,
            OldRound,
            As(Race),
            false,
        ),
    ]
}

#[test]
fn law_planted_faults_are_found_and_their_twins_are_right() {
    let mut report = Vec::new();
    let all = faults();
    for (name, overlap, plant, shows, always) in &all {
        let plan = small(*overlap);
        let outcomes: Vec<_> = (0..6).map(|seed| ran(&plan, Some(*plant), seed)).collect();
        let is_shown = |outcome: &Result<bool, Fault>| match (outcome, shows) {
            (Err(fault), Shows::As(kind)) => fault.kind() == *kind,
            (Ok(is_right), Shows::InResults) => !is_right,
            _ => false,
        };
        let shown = outcomes.iter().filter(|outcome| is_shown(outcome)).count();
        let found = |outcome: &Result<bool, Fault>| !matches!(outcome, Ok(true));
        let times = outcomes.iter().filter(|outcome| found(outcome)).count();
        let all_shown = if *always {
            shown == outcomes.len()
        } else {
            shown > 0
        };
        if !all_shown {
            let said = outcomes.iter().map(|outcome| match outcome {
                Ok(is_right) => format!("right: {is_right}"),
                Err(fault) => format!("{:?}", fault.kind()),
            });
            report.push(format!(
                "{name}, {overlap}: {times} found, {:?}",
                said.collect::<Vec<_>>()
            ));
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
    for overlap in [
        Overlap::GatherProduct,
        Overlap::ProductScatter,
        Overlap::ProductReduce,
    ] {
        for seed in 0..6 {
            let twin = ran(&small(overlap), None, seed);
            assert!(matches!(twin, Ok(true)), "{overlap} under {seed}");
        }
    }
    println!("law ranks.planted: {} faults", all.len());
}
