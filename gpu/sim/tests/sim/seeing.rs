//! A trace of threads, and stepping one warp.

use colex_atom::{Arch, Ty};
use colex_ir::launch::Launch;
use colex_ir::{Compare, Kernel, Special, Type};
use colex_sim::{Memory, Prepared, SimOptions, Stepper, TraceOptions, Until, trace};
use colex_tensor::{Builder, Expr};

use super::helpers::*;

/// Each warp writes its half of a shared tile, and reads the other half after a barrier.
fn halves() -> (Kernel, u32, [u32; 3]) {
    let mut k = Builder::new("halves", Arch::Sm80, 64);
    let tile = k.shared_tensor(Ty::F32, "(2,32):(32,1)");
    k.name("tile", &tile);
    let ready = k.barriers(2);
    k.name("ready", &ready);
    let x = k.fragment(Ty::F32, "_1:_1");
    k.name("x", &x);
    let tid = k.thread();
    k.assign(&x, Expr::from(&tid).to(Ty::F32) * 2.0);
    let base = tile_base(&mut k);
    let at = k.address(&(&base + &tid * 4), false);
    let wrote = line!() + 1;
    k.emit(|ir| ir.store(shared(Type::F32), at, x.regs()[0]));
    let met = line!() + 1;
    k.sync();
    let other = (&tid + 32) % 64;
    let at = k.address(&(&base + other * 4), false);
    let read = line!() + 1;
    let y = k.emit(|ir| ir.load(shared(Type::F32), at));
    k.assign(&x, Expr::register(y, Ty::F32) + 1.0);
    let built = k.finish().expect("a kernel");
    let dynamic = built.dynamic_shared();
    (built.kernel, dynamic, [wrote, met, read])
}

/// The address of the tile, which is the first tensor in dynamic shared memory.
fn tile_base(k: &mut Builder) -> colex_tensor::Index {
    let base = k.emit(|ir| ir.address_of(colex_ir::Base::DynamicShared));
    k.index_of(base, 0..1 << 24)
}

#[test]
fn a_warp_is_stepped_to_a_line_and_its_tables_show_what_is_there() {
    let (kernel, dynamic, [wrote, met, read]) = halves();
    let launch = Launch::new(1, 64).dynamic_shared(dynamic);
    let prepared = Prepared::new(&kernel, &launch, &[]);
    let mut memory = Memory::default();
    let mut stepper = prepared
        .start(&mut memory, &SimOptions::default())
        .expect("a launch");
    stepper.watch([0, 0, 0], 1);
    let to = |stepper: &mut Stepper<'_, '_>, until: &Until| {
        let stop = stepper
            .run(until)
            .expect("no fault")
            .expect("a place to stop at");
        assert_eq!((stop.block, stop.warp, stop.active), ([0; 3], 1, u32::MAX));
        stop.at.line()
    };
    let line = |line| Until::Line("sim/seeing.rs".to_string(), line);
    assert_eq!(to(&mut stepper, &line(wrote)), wrote);
    let x = stepper.fragment("x").expect("a fragment").rows;
    assert_eq!([&x[0], &x[31]], [&["0", "[0]=64"], &["31", "[0]=126"]]);
    let row = |stepper: &Stepper<'_, '_>, row: usize| {
        stepper.shared("tile").expect("a tile").rows[row][..3].to_vec()
    };
    assert_eq!(row(&stepper, 2), ["1", "-", "-"]);
    assert_eq!(to(&mut stepper, &Until::NewLine), met);
    assert_eq!(row(&stepper, 2), ["1", "64", "66"]);
    assert_eq!(to(&mut stepper, &line(read)), read);
    assert_eq!(
        [row(&stepper, 0), row(&stepper, 1)],
        [["", "0", "1"], ["0", "0", "2"]]
    );
    assert_eq!(
        stepper.shared("ready").expect("barriers").rows[1],
        ["0", "-"]
    );
    assert_eq!(stepper.run(&Until::End).expect("no fault"), None);
    assert_eq!(stepper.run(&Until::Statement).expect("no fault"), None);
    assert!(stepper.finish().expect("no fault").instructions > 10);
}

#[test]
fn typed_commands_step_too() {
    let (kernel, dynamic, [_, met, _]) = halves();
    let launch = Launch::new(1, 64).dynamic_shared(dynamic);
    let prepared = Prepared::new(&kernel, &launch, &[]);
    let mut memory = Memory::default();
    let mut stepper = prepared
        .start(&mut memory, &SimOptions::default())
        .expect("a launch");
    let mut said = |command: &str| stepper.command(command).expect("no fault");
    assert_eq!(said("warp 1"), "");
    let barrier = said("barrier");
    assert!(
        barrier.starts_with("block (0,0,0) warp 1 at gpu/sim/tests/sim/seeing.rs:"),
        "{barrier}"
    );
    assert!(
        barrier.ends_with(&format!(":{met}: barrier.sync 0\n")),
        "{barrier}"
    );
    assert!(said("show x").starts_with("x, a fragment of f32\n0   [0]=64\n1   [0]=66\n"));
    assert_eq!(said("show zebra"), "nothing is called `zebra`\n");
    assert_eq!(
        said("to here"),
        "a place is a file and a line: `to kernel.rs:12`\n"
    );
    assert!(said("help").starts_with("step, line, barrier, end, to FILE:LINE"));
    assert_eq!(said("end"), "the launch has ended\n");
}

/// Stepping does not change what a kernel computes: every way of stopping gives the report of a run without.
#[test]
fn law_stepping_changes_nothing() {
    let (kernel, dynamic, lines) = halves();
    let launch = Launch::new(3, 64).dynamic_shared(dynamic);
    let mut cases = 0;
    for seed in 0..6 {
        let options = SimOptions::default().seed(seed);
        let whole = colex_sim::simulate(&kernel, &launch, &[], &mut Memory::default(), &options);
        let whole = whole.expect("a run");
        let untils = [Until::Statement, Until::NewLine, Until::Barrier, Until::End];
        for until in untils
            .into_iter()
            .chain(lines.map(|line| Until::Line(String::new(), line)))
        {
            for (block, warp) in [(0, 0), (1, 1), (2, 0)] {
                let prepared = Prepared::new(&kernel, &launch, &[]);
                let mut memory = Memory::default();
                let mut stepper = prepared.start(&mut memory, &options).expect("a launch");
                stepper.watch([block, 0, 0], warp);
                let mut stops = 0;
                while stepper.run(&until).expect("no fault").is_some() {
                    stops += 1;
                }
                assert_eq!(stepper.finish().expect("no fault"), whole);
                assert!(
                    stops < 60 && (stops > 0 || until == Until::End),
                    "{until:?}: {stops}"
                );
                cases += 1;
            }
        }
    }
    println!("law sim.stepping_changes_nothing: {cases} cases");
}

#[test]
fn a_fault_ends_the_steps() {
    let mut k = kernel("stray");
    let tile = k.shared("tile", 4, 4);
    k.load(shared(Type::U32), tile);
    let kernel = k.finish();
    let prepared = Prepared::new(&kernel, &Launch::new(1, 32), &[]);
    let mut memory = Memory::default();
    let mut stepper = prepared
        .start(&mut memory, &SimOptions::default())
        .expect("a launch");
    assert!(
        stepper
            .run(&Until::Statement)
            .expect("the first statement")
            .is_some()
    );
    let fault = stepper.run(&Until::End).expect_err("it was never written");
    assert_eq!(
        fault.what(),
        "byte 0 of `tile` is read but was never written"
    );
    assert_eq!(stepper.run(&Until::End).expect("it has ended"), None);
}

#[test]
fn a_trace_lists_values_and_places() {
    let mut k = kernel("traced");
    let data = k.pointer("data");
    let tile = k.shared("tile", 256, 4);
    let base = k.param(data);
    let tid = k.mov(Type::U32, Special::Tid(0));
    let low = k.setp(Compare::Lt, Type::U32, tid, 4);
    let at = k.address_of(tile);
    let at = k.mad(Type::U32, tid, 4, at);
    let first = line!() + 1;
    k.when(low, |k| k.store(shared(Type::U32), at, tid));
    k.load(global(Type::F32), base);
    let kernel = k.finish();
    let mut host = Host::default();
    host.floats(&[1.5]);
    let mut options = TraceOptions::of_thread([0, 0, 0], [3, 0, 0]);
    options.threads.push(([0, 0, 0], [40, 0, 0]));
    options.lines = Some(("sim/seeing.rs".to_string(), first..=first + 1));
    let mut run = |options: &TraceOptions| {
        let sim = SimOptions::default();
        let (ran, trace) = trace(
            &kernel,
            &Launch::new(1, 64),
            &host.arguments,
            &mut host.memory,
            &sim,
            options,
        );
        ran.expect("no fault");
        trace
    };
    let all = run(&options);
    let second = first + 1;
    assert_eq!(
        all.to_string(),
        format!(
            "seeing.rs:{first}  block (0,0,0) thread (3,0,0)  st.shared.u32 [%r2], %r0  %r0=3 %p0=1 [%r2]=byte 12 of `tile`\n\
             seeing.rs:{second}  block (0,0,0) thread (3,0,0)  %f0 = ld.global.f32 [%rd0]  [%rd0]=byte 0 of `data`  -> %f0=1.5\n\
             seeing.rs:{second}  block (0,0,0) thread (40,0,0)  %f0 = ld.global.f32 [%rd0]  [%rd0]=byte 0 of `data`  -> %f0=1.5\n"
        )
    );
    let window = run(&TraceOptions {
        skip: 1,
        first: 1,
        ..options
    });
    assert_eq!(window.steps, all.steps[1..2]);
    assert!(window.to_string().ends_with("2 more are not listed\n"));
}
