//! Looking inside a kernel: a dump, a trace and stepping find why its numbers are wrong.
//!
//! Run it with `cargo run -p colex-book --example kernel_inside`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::BinaryOp::Add;
use colex_gpu::ir::launch::Argument;
use colex_gpu::sim::{
    Dumps, Memory, Prepared, PrintTo, SimOptions, Stepper, TraceOptions, Traced, simulate, trace,
};
use colex_gpu::tensor::{AtThread, Builder, Dump, Index, TensorKernel};
use colex_gpu::{Device, Launch, Load};
use colex_tiled::TiledCopy;
use std::error::Error;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    wrong()?;
    dumped()?;
    table()?;
    traced()?;
    stepped()?;
    right()?;
    Ok(())
}

// ANCHOR: kernel
/// Subtracts from each element of a 4x8 matrix the mean of its row: one thread per element.
fn centred(which_row: fn(&Index) -> Index, dump: bool) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("centred", Arch::Sm80, 32);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, Ty::F32, "(_4,_8):(_8,_1)"));
    let tile = k.shared_tensor(Ty::F32, "(4,8):(8,1)"); // line 32: the tile of the trace
    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let each = TiledCopy::new(word.clone(), 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    let whole_row = TiledCopy::new(word, 32, "(1,1):(0,0)", "(1,8):(0,1)")?; // one thread
    let tid = k.thread();
    let mine = each.at(&tid);
    let from = mine.partition_src(&x.local_tile((4, 8), (0, 0))); // (CPY, CPY_M, CPY_N)
    let own = k.fragment_like(&from);
    k.copy(&each, &from, &own);
    k.copy(&each, &own, &mine.partition_dst(&tile)); // (CPY, CPY_M, CPY_N)
    k.sync(); // line 42: the barrier, where the stepper stops first
    let row = tile.local_tile((1, 8), (which_row(&tid), 0)); // (TILE_M, TILE_N)
    // Every thread of the block plays thread 0 of `whole_row`: each reads a row for itself.
    let row_part = whole_row.at(&0.into()).partition_src(&row); // (CPY, CPY_M, CPY_N)
    let numbers = k.fragment_like(&row_part);
    k.copy(&whole_row, &row_part, &numbers);
    let sum = k.reduce_all(Add, &numbers); // line 48: the first after the loads
    if dump {
        let is_first = k.less(&tid, &10.into());
        k.dump("sum", Dump::of(&sum).at(&from).when(is_first));
    }
    k.assign(&own, &own - &sum / 8.0);
    let to = mine.partition_dst(&y.local_tile((4, 8), (0, 0))); // (CPY, CPY_M, CPY_N)
    k.copy(&each, &own, &to);
    k.name("tile", &tile);
    k.name("numbers", &numbers);
    Ok(k.finish()?)
}
// ANCHOR_END: kernel

// ANCHOR: rows
/// The row that a thread sums, as it was written first.
fn wrong_row(tid: &Index) -> Index {
    tid % 4
}

/// The row that a thread should sum.
fn right_row(tid: &Index) -> Index {
    tid / 8
}
// ANCHOR_END: rows

/// Row `m` of the matrix holds `10 m`, `10 m + 1`, ..
fn matrix() -> Vec<f32> {
    (0..32).map(|i| (i / 8 * 10 + i % 8) as f32).collect()
}

// ANCHOR: wrong
/// Runs the kernel on the simulator and shows two rows of the result.
fn run(kernel: &TensorKernel) -> Result<(), Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm80);
    let (x, mut y) = (device.upload(&matrix())?, device.poisoned::<f32>(32)?);
    kernel
        .load(&device)?
        .launch([1], (x.view((4, 8))?, y.view_mut((4, 8))?))?;
    let found = y.download()?;
    println!("{:?}\n{:?}", &found[..8], &found[8..16]);
    Ok(())
}
// ANCHOR_END: wrong

fn wrong() -> Result<(), Box<dyn Error>> {
    println!("\n== wrong ==");
    // ANCHOR: wrong
    run(&centred(wrong_row, false)?)?;
    // ANCHOR_END: wrong
    Ok(())
}

fn dumped() -> Result<(), Box<dyn Error>> {
    println!("\n== dumped ==");
    // ANCHOR: dumped
    run(&centred(wrong_row, true)?)?;
    // ANCHOR_END: dumped
    Ok(())
}

fn table() -> Result<(), Box<dyn Error>> {
    println!("\n== table ==");
    // ANCHOR: table
    let built = centred(wrong_row, true)?;
    let launch = Launch::new(1, 32).dynamic_shared(built.dynamic_shared());
    let (mut memory, arguments) = memory()?;
    let options = SimOptions {
        print_to: PrintTo::Report, // keeps the lines instead of printing them
        ..SimOptions::default()
    };
    let report = simulate(&built.kernel, &launch, &arguments, &mut memory, &options)?;
    let dumps = Dumps::of_printed(&report.printed);
    let wrong = dumps.lines.iter().filter(|line| line.thread[0] < 8);
    let wrong = wrong.filter(|line| line.elements[0].1 != "28");
    println!(
        "{} of 8 threads of row 0 have another sum than 28",
        wrong.count()
    );
    print!("{dumps}");
    // ANCHOR_END: table
    Ok(())
}

// ANCHOR: memory
/// Memory with the matrix and room for the result, and their addresses.
fn memory() -> Result<(Memory, [Argument; 2]), Box<dyn Error>> {
    let mut memory = Memory::default();
    let (x, y) = (memory.allocate(128)?, memory.allocate(128)?);
    let bytes: Vec<u8> = matrix().iter().flat_map(|x| x.to_le_bytes()).collect();
    memory.write(x, &bytes)?;
    Ok((memory, [x, y].map(Argument::Pointer)))
}
// ANCHOR_END: memory

fn traced() -> Result<(), Box<dyn Error>> {
    println!("\n== traced ==");
    // ANCHOR: traced
    let built = centred(wrong_row, false)?;
    let launch = Launch::new(1, 32).dynamic_shared(built.dynamic_shared());
    let (mut memory, arguments) = memory()?;
    let one = TraceOptions::of_thread([0, 0, 0], [1, 0, 0]);
    let options = SimOptions::default();
    let (ran, trace) = trace(
        &built.kernel,
        &launch,
        &arguments,
        &mut memory,
        &options,
        &one,
    );
    ran?;
    let is_shared = |step: &&Traced| step.instruction.contains(".shared");
    for step in trace.steps.iter().filter(is_shared).take(2) {
        println!("{}", step.instruction);
        for (register, value) in &step.reads {
            println!("    {register}: {value}");
        }
    }
    // ANCHOR_END: traced
    Ok(())
}

fn stepped() -> Result<(), Box<dyn Error>> {
    println!("\n== stepped ==");
    // ANCHOR: stepped
    let built = centred(wrong_row, false)?;
    let launch = Launch::new(1, 32).dynamic_shared(built.dynamic_shared());
    let (mut memory, arguments) = memory()?;
    let prepared = Prepared::new(&built.kernel, &launch, &arguments);
    let mut stepper = prepared.start(&mut memory, &SimOptions::default())?;
    let commands = "barrier\nshow tile\nto inside.rs:48\n".as_bytes(); // see the kernel's lines
    session(&mut stepper, commands, std::io::stdout())?;
    let numbers = stepper
        .fragment("numbers")
        .expect("the kernel has named it");
    for lane in [0, 1, 8] {
        println!("{}", numbers.rows[lane].join(" "));
    }
    // ANCHOR_END: stepped
    Ok(())
}

// ANCHOR: session
/// Executes commands line by line, and writes what they show.
fn session(
    stepper: &mut Stepper<'_, '_>,
    commands: impl BufRead,
    mut to: impl Write,
) -> Result<(), Box<dyn Error>> {
    for command in commands.lines() {
        write!(to, "{}", stepper.command(&command?)?)?;
    }
    Ok(())
}
// ANCHOR_END: session

fn right() -> Result<(), Box<dyn Error>> {
    println!("\n== right ==");
    // ANCHOR: right
    run(&centred(right_row, false)?)?;
    // ANCHOR_END: right
    Ok(())
}
