//! Threads, branches, loops and barriers.

use colex_ir::launch::Launch;
use colex_ir::{BinaryOp, Compare, KernelBuilder, Order, Reg, Scope, ShuffleMode, Special, Type};
use colex_sim::{FaultKind, Schedule, SimOptions};

use super::helpers::*;

#[test]
fn vectors_are_added_with_a_tail() {
    let mut k = kernel("add");
    let [a, b, c] = ["a", "b", "c"].map(|name| k.pointer(name));
    let n = k.scalar("n", Type::U32);
    let i = global_thread(&mut k);
    let n = k.param(n);
    let inside = k.setp(Compare::Lt, Type::U32, i, n);
    k.if_(inside, |k| {
        let [a, b, c] = [a, b, c].map(|buffer| element(k, buffer, i, 4));
        let (x, y) = (k.load(global(Type::F32), a), k.load(global(Type::F32), b));
        let sum = k.add(Type::F32, x, y);
        k.store(global(Type::F32), c, sum);
    });
    let kernel = k.finish();

    let mut host = Host::default();
    let n = 1000;
    let xs: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
    let ys: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
    host.floats(&xs);
    host.floats(&ys);
    let c = host.empty(n * 4);
    host.arguments.push((n as u32).into());
    let report = host.run(&kernel, Launch::new(8, 128)).unwrap();
    let expected: Vec<u32> = xs.iter().zip(&ys).map(|(x, y)| (x + y).to_bits()).collect();
    assert_eq!(host.read(c, n as usize), expected);
    assert_eq!(report.sectors(), (375, 375));
    assert_eq!(report.blocks, 8);
}

#[test]
fn a_block_is_summed_through_shared_memory() {
    let mut k = kernel("sum");
    let [a, total] = ["a", "total"].map(|name| k.pointer(name));
    let tile = k.shared("tile", 256 * 4, 16);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let from = element(&mut k, a, thread, 4);
    let x = k.load(global(Type::U32), from);
    let base = k.address_of(tile);
    let slot = k.mad(Type::U32, thread, 4, base);
    k.store(shared(Type::U32), slot, x);
    k.sync();
    let mut half = 128;
    while half > 0 {
        let p = k.setp(Compare::Lt, Type::U32, thread, half);
        k.if_(p, |k| {
            let x = k.load(shared(Type::U32), slot);
            let far = k.add(Type::U32, slot, i64::from(half) * 4);
            let y = k.load(shared(Type::U32), far);
            let sum = k.add(Type::U32, x, y);
            k.store(shared(Type::U32), slot, sum);
        });
        k.sync();
        half /= 2;
    }
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.when(first, |k| {
        let x = k.load(shared(Type::U32), tile);
        let out = k.param(total);
        k.store(global(Type::U32), out, x);
    });
    let kernel = k.finish();

    let words: Vec<u32> = (0..256).map(|i| i * i).collect();
    for seed in 0..8 {
        let mut host = Host::default();
        host.words(&words);
        let total = host.empty(4);
        let options = colex_sim::SimOptions::default().seed(seed);
        host.run_with(&kernel, Launch::new(1, 256), &options)
            .unwrap();
        assert_eq!(host.read(total, 1), [words.iter().sum::<u32>()]);
    }
}

#[test]
fn loops_end_for_each_lane_by_itself() {
    // Collatz: the lanes of a warp leave the loop in different rounds.
    let mut k = kernel("collatz");
    let out = k.pointer("out");
    let thread = k.mov(Type::U32, Special::Tid(0));
    let x = k.add(Type::U32, thread, 1);
    let steps = k.mov(Type::U32, 0);
    k.loop_(|k| {
        let one = k.setp(Compare::Eq, Type::U32, x, 1);
        k.break_if(one);
        k.binary_to(BinaryOp::Add, Type::U32, steps, steps, 1);
        let odd = k.and(Type::B32, x, 1);
        let odd = k.setp(Compare::Ne, Type::U32, odd, 0);
        k.if_else(
            odd,
            |k| {
                k.ternary_to(colex_ir::TernaryOp::Mad, Type::U32, x, x, 3, 1);
                let even = k.setp(Compare::Gt, Type::U32, x, 0);
                k.when(even, |k| k.push(colex_ir::Control::Continue));
            },
            |k| k.binary_to(BinaryOp::Shr, Type::U32, x, x, 1),
        );
    });
    let address = element(&mut k, out, thread, 4);
    k.store(global(Type::U32), address, steps);
    let kernel = k.finish();

    let mut host = Host::default();
    let at = host.empty(48 * 4);
    host.run(&kernel, Launch::new(1, 48)).unwrap();
    let steps = |mut x: u32| {
        let mut steps = 0;
        while x != 1 {
            x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
            steps += 1;
        }
        steps
    };
    let expected: Vec<u32> = (1..=48).map(steps).collect();
    assert_eq!(host.read(at, 48), expected);
}

#[test]
fn lanes_exchange_values() {
    let mut k = kernel("lanes");
    let out = k.pointer("out");
    let lane = k.mov(Type::U32, Special::LaneId);
    let x = k.mul(Type::U32, lane, 10);
    let modes = [
        (ShuffleMode::Bfly, 3),
        (ShuffleMode::Down, 5),
        (ShuffleMode::Up, 5),
        (ShuffleMode::Idx, 7),
    ];
    for (i, (mode, by)) in modes.into_iter().enumerate() {
        let y = k.shuffle(mode, x, by);
        let at = k.add(Type::U32, lane, 32 * i as i64);
        let address = element(&mut k, out, at, 4);
        k.store(global(Type::U32), address, y);
    }
    let kernel = k.finish();
    let mut host = Host::default();
    let at = host.empty(4 * 32 * 4);
    host.run(&kernel, Launch::new(1, 32)).unwrap();
    let found = host.read(at, 128);
    for lane in 0..32u32 {
        let l = lane as usize;
        assert_eq!(found[l], (lane ^ 3) * 10);
        assert_eq!(
            found[32 + l],
            if lane + 5 < 32 { lane + 5 } else { lane } * 10
        );
        assert_eq!(found[64 + l], if lane >= 5 { lane - 5 } else { lane } * 10);
        assert_eq!(found[96 + l], 70);
    }
}

/// A kernel whose blocks but the last wait for a flag that the last one sets, by an order of accesses.
fn waits_for_the_last(blocks: i64, orders: [Order; 2]) -> colex_ir::Kernel {
    let mut k = kernel("flag");
    let flag = k.pointer("flag");
    let address = k.param(flag);
    let block = k.mov(Type::U32, Special::Ctaid(0));
    let last = k.setp(Compare::Eq, Type::U32, block, blocks - 1);
    let [set, look] = orders;
    k.if_else(
        last,
        |k| k.store(global(Type::U32).order(set), address, 1),
        |k| {
            k.loop_(|k| {
                let x = k.load(global(Type::U32).order(look), address);
                let set = k.setp(Compare::Ne, Type::U32, x, 0);
                k.break_if(set);
            });
        },
    );
    k.finish()
}

/// All blocks of a cooperative launch run at once, in every schedule. In any other launch a block that waits for a later one is named:
/// the device may begin the later one only after the first has ended.
#[test]
fn law_blocks_that_wait_for_each_other_need_a_cooperative_launch() {
    let release = [Order::Release(Scope::Gpu), Order::Acquire(Scope::Gpu)];
    let mut cases = 0;
    for orders in [release, [Order::Volatile; 2]] {
        for blocks in [2, 4, 40] {
            let kernel = waits_for_the_last(blocks.into(), orders);
            // Many blocks show no more in each order than few, and take most of the time.
            for seed in 0..if blocks == 40 { 2 } else { 6 } {
                let run = |launch: Launch| {
                    let mut host = Host::default();
                    host.words(&[0]);
                    let options = SimOptions::default().schedule(Schedule::from_seed(seed));
                    host.run_with(&kernel, launch, &options).map(drop)
                };
                let launch = Launch::new(blocks, 32);
                run(launch.cooperative()).unwrap();
                let fault = run(launch).unwrap_err();
                assert_eq!(fault.kind(), FaultKind::Deadlock);
                let others = format!(
                    "1 of {blocks} blocks run, and a device may begin the {} others only after these have ended: blocks that wait for \
                     each other need a cooperative launch (`Launch::cooperative`)",
                    blocks - 1
                );
                let text = fault.to_string();
                assert!(text.contains(&others), "{text}");
                cases += 2;
            }
        }
    }
    println!("law a_wait_between_blocks_is_cooperative: {cases} cases");
}

/// A flag that no block sets: the wait ends with its name and value, also if all blocks run.
#[test]
fn a_flag_that_no_block_sets_is_named() {
    let mut k = kernel("flag");
    let flag = k.pointer("flag");
    let address = k.param(flag);
    k.loop_(|k| {
        let x = k.load(global(Type::U32).order(Order::Acquire(Scope::Gpu)), address);
        let set = k.setp(Compare::Eq, Type::U32, x, 7);
        k.break_if(set);
    });
    let kernel = k.finish();
    for launch in [Launch::new(1, 32), Launch::new(3, 32).cooperative()] {
        let mut host = Host::default();
        host.words(&[6]);
        let fault = host.run(&kernel, launch).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Deadlock);
        let text = fault.to_string();
        assert!(
            text.ends_with(
                "no block can continue: no block that runs sets byte 0 of `flag`, which holds 6, and a thread waits for it"
            ),
            "{text}"
        );
    }
}

/// A cooperative launch of more blocks than the device holds is refused.
#[test]
fn a_cooperative_launch_that_does_not_fit_is_refused() {
    let kernel = kernel("empty").finish();
    let launch = Launch::new(1000, 1024).cooperative();
    let fault = Host::default().run(&kernel, launch).unwrap_err();
    assert_eq!(fault.kind(), FaultKind::Launch);
    assert!(
        fault
            .to_string()
            .contains("a cooperative launch has 1000 blocks, and the device holds at most"),
        "{fault}"
    );
}

/// Blocks that wait for those before them need no such launch: those have begun.
#[test]
fn a_block_may_wait_for_an_earlier_one() {
    let mut k = kernel("chain");
    let flag = k.pointer("flag");
    let address = k.param(flag);
    let block = k.mov(Type::U32, Special::Ctaid(0));
    k.loop_(|k| {
        let x = k.load(global(Type::U32).order(Order::Acquire(Scope::Gpu)), address);
        let is_turn = k.setp(Compare::Eq, Type::U32, x, block);
        k.break_if(is_turn);
    });
    let next = k.add(Type::U32, block, 1);
    k.store(
        global(Type::U32).order(Order::Release(Scope::Gpu)),
        address,
        next,
    );
    let kernel = k.finish();
    for seed in 0..4 {
        let mut host = Host::default();
        host.words(&[0]);
        let options = SimOptions::default().schedule(Schedule::from_seed(seed));
        host.run_with(&kernel, Launch::new(6, 1), &options).unwrap();
    }
}

/// Every endless loop ends with the bound on steps, also one that executes no instruction.
#[test]
fn law_an_endless_loop_reaches_the_bound_on_steps() {
    let kernels: [fn(&mut KernelBuilder, Reg); 5] = [
        |k, _| k.loop_(|_| {}),
        |k, never| k.loop_(|k| k.break_if(never)),
        |k, never| k.loop_(|k| k.if_(never, |k| k.sync())),
        |k, never| k.loop_(|k| k.loop_(|k| k.break_if(never))),
        |k, _| {
            k.loop_(|k| {
                k.mov(Type::U32, 1);
            });
        },
    ];
    for (number, build) in kernels.into_iter().enumerate() {
        let mut k = kernel("endless");
        let one = k.mov(Type::U32, 1);
        let never = k.setp(Compare::Eq, Type::U32, one, 2);
        build(&mut k, never);
        let options = SimOptions {
            max_steps: 1000,
            ..SimOptions::default()
        };
        let fault = Host::default().run_with(&k.finish(), Launch::new(1, 32), &options);
        let fault = fault.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Limit, "{number}: {fault}");
        assert_eq!(
            fault.what(),
            "the warp has executed 1000 instructions, as many as `SimOptions::max_steps` allows: does it wait for something that never happens? If not, raise that bound"
        );
    }
    // Rounds of a loop that ends count only if they have no instruction: these are within the bound.
    let mut k = kernel("ends");
    k.for_range(0, 200, 1, |k, _| {
        k.mov(Type::U32, 1);
    });
    let options = SimOptions {
        max_steps: 1000,
        ..SimOptions::default()
    };
    Host::default()
        .run_with(&k.finish(), Launch::new(1, 32), &options)
        .unwrap();
}

/// `%smid` is below the number of multiprocessors of the architecture, and each of them is used.
#[test]
fn law_multiprocessors_are_those_of_the_architecture() {
    use colex_atom::Arch;
    use colex_ir::launch::Limits;
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let slots = Limits::of(arch).multiprocessors;
        let mut k = KernelBuilder::new("slots", arch);
        let counts = k.pointer("counts");
        let slot = k.mov(Type::U32, Special::SmId);
        let one = k.mov(Type::U32, 1);
        let at = element(&mut k, counts, slot, 4);
        k.reduce(
            colex_ir::AtomicOp::Add,
            colex_ir::Space::Global,
            Type::U32,
            at,
            &[one],
        );
        let mut host = Host::default();
        let counts = host.words(&vec![0; slots as usize]);
        host.run(&k.finish(), Launch::new(2 * slots, 1)).unwrap();
        assert_eq!(host.read(counts, slots as usize), vec![2; slots as usize]);
    }
}

/// The gap in front of aligned dynamic shared memory counts as the rest of it.
#[test]
fn law_dynamic_shared_memory_ends_within_the_block() {
    let most = colex_ir::launch::Limits::of(colex_atom::Arch::Sm90a).shared;
    let run = |bytes: u32| {
        let mut k = kernel("holds");
        let word = k.shared("word", 16, 16);
        k.dynamic_shared(1024);
        k.store(shared(Type::U32), word, 1);
        let launch = Launch::new(1, 1).dynamic_shared(bytes);
        Host::default().run(&k.finish(), launch)
    };
    run(most - 1024).unwrap();
    for bytes in [most - 1023, most - 16] {
        let fault = run(bytes).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Launch);
        let sentence = format!(
            "dynamic shared memory of {bytes} bytes begins at byte 1024 of the block's, by its alignment, and ends at byte {}: a block has at most {most} bytes",
            bytes + 1024
        );
        assert_eq!(fault.what(), sentence);
    }
}
