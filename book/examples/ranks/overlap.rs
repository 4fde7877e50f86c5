//! Kernels that wait for each other on several devices, and products whose communication runs beside them.
//!
//! Run it with `cargo run -p colex-book --example ranks_overlap`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;
use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::gemm::ChunkOrder;
use colex_gpu::ir::*;
use colex_gpu::ranks::{RankDevices, RankOptions, RankPlan, RankProblem, RankProduct};
use colex_gpu::sim::{Fault, Ranks, SimOptions};
use colex_gpu::{Argument, Device, Gemm, Launch, View, ViewMut};
use colex_sched::{ChunkTimes, Overlap, OverlapPlan};
use half::bf16;

fn main() -> Result<(), Box<dyn Error>> {
    letters()?;
    mistakes()?;
    hang()?;
    order()?;
    product()?;
    arrivals()?;
    devices()?;
    reduce()?;
    exercise_2()?;
    exercise_3()
}

// ANCHOR: letter
const WORD: Access = Access {
    space: Space::Global,
    ty: Type::U32,
    cache: Cache::Default,
    order: Order::Weak,
    policy: None,
};

/// Each rank writes a word to the next one, raises a flag there, and waits for its own flag.
fn letter(raise: Order, look: Order) -> Kernel {
    let mut k = KernelBuilder::new("letter", Arch::Sm90a);
    let all = ["data", "flag", "next_data", "next_flag"].map(|name| k.pointer(name));
    let [data, flag, next_data, next_flag] = all.map(|pointer| k.param(pointer));
    k.store(WORD, next_data, 7);
    k.store(WORD.order(raise), next_flag, 1);
    k.loop_(|k| {
        let seen = k.load(WORD.order(look), flag);
        let is_there = k.setp(Compare::Ne, Type::U32, seen, 0);
        k.break_if(is_there);
    });
    let word = k.load(WORD, data);
    let more = k.add(Type::U32, word, 1);
    k.store(WORD, data, more);
    k.finish()
}
// ANCHOR_END: letter

// ANCHOR: run
/// Runs a kernel on three ranks, each with a word of data and a flag; a rank can be left out.
fn run(kernel: &Kernel, left_out: Option<usize>, seed: u64) -> Result<Vec<u32>, Fault> {
    let mut ranks = Ranks::connected(3).expect("a machine of three");
    let mut words = || {
        let at = [0, 1, 2].map(|rank| ranks.allocate(rank, 4).expect("the host has room"));
        at.iter()
            .for_each(|at| ranks.write(*at, &[0; 4]).expect("it is allocated"));
        at
    };
    let (data, flags) = (words(), words());
    let arguments = [0, 1, 2].map(|rank| {
        let next = (rank + 1) % 3;
        let all = [data[rank], flags[rank], data[next], flags[next]];
        (left_out != Some(rank)).then(|| all.map(Argument::Pointer).to_vec())
    });
    ranks.simulate(
        kernel,
        &Launch::new(1, 1),
        &arguments,
        &SimOptions::default().seed(seed),
    )?;
    let word = |at| ranks.read(at, 4).expect("it was written");
    Ok(data.map(|at| u32::from(word(at)[0])).to_vec())
}
// ANCHOR_END: run

fn letters() -> Result<(), Box<dyn Error>> {
    println!("\n== letters ==");
    // ANCHOR: letters
    let (release, acquire) = (Order::Release(Scope::Sys), Order::Acquire(Scope::Sys));
    let kernel = letter(release, acquire);
    for seed in 0..4 {
        println!("{:?}", run(&kernel, None, seed)?);
    }
    // ANCHOR_END: letters
    Ok(())
}

fn mistakes() -> Result<(), Box<dyn Error>> {
    println!("\n== mistakes ==");
    // ANCHOR: mistakes
    let (release, acquire) = (Order::Release(Scope::Sys), Order::Acquire(Scope::Sys));
    let wrong = [
        (Order::Relaxed(Scope::Sys), acquire),
        (release, Order::Relaxed(Scope::Sys)),
        (Order::Release(Scope::Gpu), acquire),
    ];
    for (raise, look) in wrong {
        let fault = run(&letter(raise, look), None, 0).unwrap_err();
        println!("{:?}: {}\n", fault.kind(), fault.what());
    }
    // ANCHOR_END: mistakes
    Ok(())
}

fn hang() -> Result<(), Box<dyn Error>> {
    println!("\n== hang ==");
    // ANCHOR: hang
    let kernel = letter(Order::Release(Scope::Sys), Order::Acquire(Scope::Sys));
    let fault = run(&kernel, Some(1), 0).unwrap_err();
    println!("{:?}: {}", fault.kind(), fault.what());
    for wait in fault.flag_waits() {
        println!(
            "rank {} waits for a flag that holds {}",
            wait.rank, wait.holds
        );
    }
    // ANCHOR_END: hang
    Ok(())
}

fn order() -> Result<(), Box<dyn Error>> {
    println!("\n== order ==");
    // ANCHOR: order
    let all = [
        Overlap::GatherProduct,
        Overlap::ProductScatter,
        Overlap::ProductReduce,
    ];
    for overlap in all {
        let plan = OverlapPlan::new(overlap, 4)?;
        println!(
            "{overlap}: rank 1 multiplies {:?}, and sends to {:?}",
            plan.chunks(1)?,
            plan.peers(1)?
        );
        let times = ChunkTimes {
            send: 2,
            product: 3,
            add: 1,
        };
        println!(
            "{} units of time, and {} one after the other",
            plan.time(&times)?,
            plan.time_apart(&times)?
        );
    }
    // ANCHOR_END: order
    Ok(())
}

fn product() -> Result<(), Box<dyn Error>> {
    println!("\n== product ==");
    // ANCHOR: product
    let problem = RankProblem {
        overlap: Overlap::ProductScatter,
        ranks: 2,
        m: 4,
        n: 2,
        k: 6,
    };
    let plan = RankPlan::new(problem)?;
    println!(
        "{:?}: {} blocks on each rank",
        plan.path(),
        plan.launch()?.blocks()
    );

    // Row i of A holds i in each column, and B holds ones.
    let [at_a, at_b, at_c] = problem.layouts()?;
    let a: Vec<f32> = (0..4 * 6).map(|i| (i % 4) as f32).collect();
    let (a, b) = (at_a.split(&a)?, at_b.split(&[1.0; 2 * 6])?);
    let (c, _) = plan.simulate(Arch::Sm90a, &a, &b, &SimOptions::default())?;
    println!("{c:?}, which is {:?}", at_c.join(&c, |x, y| x + y)?);

    let other = RankProblem { k: 8, ..problem };
    println!("{}", RankPlan::agreed(&[problem, other]).unwrap_err());
    // ANCHOR_END: product
    Ok(())
}

fn arrivals() -> Result<(), Box<dyn Error>> {
    println!("\n== arrivals ==");
    // ANCHOR: arrivals
    let device = Device::simulator(Arch::Sm90a);
    let a = device.zeros::<bf16>(2 * 8 * 16)?;
    let (b, mut c) = (
        device.zeros::<bf16>(8 * 16)?,
        device.zeros::<f32>(2 * 8 * 8)?,
    );
    let arrived = device.zeros::<u32>(2)?;
    // (M/R,K,R), (N,K,R) and (M/R,N,R)
    let a = View::new(&a, "(8,16,2):(16,1,128)")?;
    let b = View::new(&b, "(8,16,2):(16,1,0)")?;
    let c = ViewMut::new(&mut c, "(8,8,2):(8,1,64)")?;
    let product = Gemm::new(&a, &b, &c)
        .chunks(ChunkOrder::Descending, 1) // begins with chunk 1, as rank 1 does
        .arrivals(&arrived.view(2)?);
    let call = product.prepare()?;
    let ptx = call.built().ok_or("nothing to do")?.kernel.ptx()?;
    let opcodes = ptx.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|word| word.contains(".acquire.sys") || word.contains("proxy.async.global"))
    });
    println!("{}", opcodes.collect::<Vec<_>>().join("\n"));
    // ANCHOR_END: arrivals
    Ok(())
}

fn devices() -> Result<(), Box<dyn Error>> {
    println!("\n== devices ==");
    // ANCHOR: devices
    let device = Device::simulator(Arch::Sm90a);
    let ranks = RankDevices::new(&[device.clone(), device])?;
    let problem = RankProblem {
        overlap: Overlap::GatherProduct,
        ranks: 2,
        m: 16,
        n: 16,
        k: 16,
    };
    let options = RankOptions::default();
    let mut product = RankProduct::<bf16, f32>::new(&ranks, problem, &options)?;
    for rank in 0..2 {
        let part = [bf16::from_f32(rank as f32 + 1.0); 8 * 16];
        product.a(rank)?.write(&part)?;
        product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
    }
    product.run()?;
    product.wait(Duration::from_secs(10))?;
    let c = product.c(1)?.download()?;
    println!("by {}: {} .. {}", product.path(), c[0], c[16 * 8 - 1]);
    // ANCHOR_END: devices
    Ok(())
}

fn reduce() -> Result<(), Box<dyn Error>> {
    println!("\n== reduce ==");
    // ANCHOR: reduce
    let device = Device::simulator(Arch::Sm90a);
    let ranks = RankDevices::new(&[device.clone(), device])?;
    let problem = RankProblem {
        overlap: Overlap::ProductReduce,
        ranks: 2,
        m: 32,
        n: 8,
        k: 32,
    };
    let options = RankOptions {
        pieces: Some(2),
        ..RankOptions::default()
    };
    let mut product = RankProduct::<bf16, bf16, f32>::new(&ranks, problem, &options)?;
    for rank in 0..2 {
        let part = [bf16::from_f32(rank as f32 + 1.0); 32 * 16];
        product.a(rank)?.write(&part)?;
        product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
    }
    product.run()?;
    product.wait(Duration::from_secs(10))?;
    let c = [product.c(0)?.download()?, product.c(1)?.download()?];
    println!(
        "{} elements on each rank, {} everywhere",
        c[0].len(),
        c[0][0]
    );
    println!("the same on both: {}", c[0] == c[1]);
    // ANCHOR_END: reduce
    Ok(())
}

/// Exercise 2: an acquire whose scope is one device.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let kernel = letter(Order::Release(Scope::Sys), Order::Acquire(Scope::Gpu));
    let fault = run(&kernel, None, 0).unwrap_err();
    println!("{:?}: {}", fault.kind(), fault.what());
    // ANCHOR_END: exercise_2
    Ok(())
}

// ANCHOR: exercise_3
/// As `run`, but the kernel is launched twice on the same ranks.
fn twice(kernel: &Kernel, seed: u64) -> Result<Vec<u32>, Fault> {
    let mut ranks = Ranks::connected(3).expect("a machine of three");
    let mut words = || {
        let at = [0, 1, 2].map(|rank| ranks.allocate(rank, 4).expect("the host has room"));
        at.iter()
            .for_each(|at| ranks.write(*at, &[0; 4]).expect("it is allocated"));
        at
    };
    let (data, flags) = (words(), words());
    let arguments = [0, 1, 2].map(|rank| {
        let next = (rank + 1) % 3;
        let all = [data[rank], flags[rank], data[next], flags[next]];
        Some(all.map(Argument::Pointer).to_vec())
    });
    let options = SimOptions::default().seed(seed);
    for _round in 0..2 {
        ranks.simulate(kernel, &Launch::new(1, 1), &arguments, &options)?;
    }
    let word = |at| ranks.read(at, 4).expect("it was written");
    Ok(data.map(|at| u32::from(word(at)[0])).to_vec())
}
// ANCHOR_END: exercise_3

/// Exercise 3: a flag of the first round that is used again in the second.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    let kernel = letter(Order::Release(Scope::Sys), Order::Acquire(Scope::Sys));
    for seed in 0..8 {
        match twice(&kernel, seed) {
            Ok(words) => println!("seed {seed}: {words:?}"),
            Err(fault) if [0, 6].contains(&seed) => {
                println!("seed {seed}: {:?}: {}", fault.kind(), fault.what());
            }
            Err(fault) => println!("seed {seed}: {:?}", fault.kind()),
        }
    }
    // ANCHOR_END: exercise_3
    Ok(())
}
