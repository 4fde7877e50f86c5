//! Instructions, and what the verifier knows: kernels from instructions, and what the verifier refuses.
//!
//! Run it with `cargo run -p colex-book --example kernel_instruction`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, copy, mma};
use colex_gpu::ir::{
    Access, Address, BinaryOp, Compare, CopyArgs, End, KernelBuilder, PtxText, RegType, ScaleD,
    Space, Special, Type,
};
use colex_gpu::{Device, Launch};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    twice()?;
    product()?;
    branches()?;
    unwritten();
    collective();
    in_flight()?;
    text()?;
    Ok(())
}

/// Builds a kernel that doubles numbers, and prints it as text.
fn twice() -> Result<(), Box<dyn Error>> {
    println!("\n== twice ==");
    // ANCHOR: twice
    let mut k = KernelBuilder::new("twice", Arch::Sm70);
    let data = k.pointer("data");
    let base = k.param(data);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let offset = k.mul_wide(Type::U32, thread, 4);
    let address = k.add(Type::S64, base, offset);
    let x = k.load(Access::new(Space::Global, Type::F32), address);
    let y = k.mul(Type::F32, x, 2.0);
    k.store(Access::new(Space::Global, Type::F32), address, y);
    let kernel = k.finish();

    print!("{kernel}");
    // ANCHOR_END: twice

    println!("\n== twice_as_ptx ==");
    // ANCHOR: twice_as_ptx
    print!("{}", kernel.ptx()?);
    // ANCHOR_END: twice_as_ptx
    Ok(())
}

/// Reads two operands by `ldmatrix` and multiplies them.
fn product() -> Result<(), Box<dyn Error>> {
    println!("\n== product ==");
    // ANCHOR: product
    let mut k = KernelBuilder::new("product", Arch::Sm80);
    k.block([32, 1, 1]);
    let tile = k.shared("tile", 1024, 128);
    let lane = k.mov(Type::U32, Special::LaneId);
    let own = k.address_of(tile);
    let own = k.mad(Type::U32, lane, 16, own);

    let ldmatrix = copy("SM75_U32x4_LDSM_N")?;
    let (a, b) = (k.regs(RegType::B32, 4), k.regs(RegType::B32, 4));
    for (registers, at) in [(&a, 0), (&b, 512)] {
        k.copy_atom(
            &ldmatrix,
            CopyArgs {
                dst: End::Regs(registers.clone()),
                src: End::Memory(Address::from(own).at(at)),
                ..CopyArgs::default()
            },
        );
    }
    let d: Vec<_> = (0..4).map(|_| k.mov(Type::F32, 0.0)).collect();
    k.mma_atom(&mma("SM80_16x8x16_F32F16F16F32_TN")?, &d, &a, &b[..2], &d);

    let ptx = k.finish().ptx()?;
    for line in ptx.lines().filter(|line| line.contains(".sync.")) {
        println!("{}", line.trim());
    }
    // ANCHOR_END: product
    Ok(())
}

/// Builds a loop that ends with a test.
fn branches() -> Result<(), Box<dyn Error>> {
    println!("\n== branches ==");
    // ANCHOR: branches
    let mut k = KernelBuilder::new("count", Arch::Sm70);
    let i = k.mov(Type::U32, 0);
    k.loop_(|k| {
        k.binary_to(BinaryOp::Add, Type::U32, i, i, 1);
        let done = k.setp(Compare::Ge, Type::U32, i, 10);
        k.break_if(done);
    });
    let ptx = k.finish().ptx()?;
    let lines = ptx.lines().skip_while(|line| !line.starts_with("$loop0"));
    for line in lines.take_while(|line| !line.contains("exit")) {
        println!("{line}");
    }
    // ANCHOR_END: branches
    Ok(())
}

/// Reads a register that is not written on every way.
fn unwritten() {
    println!("\n== unwritten ==");
    // ANCHOR: unwritten
    let mut k = KernelBuilder::new("k", Arch::Sm80);
    let x = k.reg(RegType::B32);
    let lane = k.mov(Type::U32, Special::LaneId);
    let p = k.setp(Compare::Eq, Type::U32, lane, 0);
    k.if_(p, |k| k.mov_to(x, 1));
    k.add(Type::U32, x, 1);

    let refused = k.finish().verify().unwrap_err();
    let found = &refused.diagnostics()[0];
    println!("line {}: {}", found.at.line(), found.problem);
    // ANCHOR_END: unwritten
}

/// Branches on the thread's index, and calls for a warpgroup.
fn collective() {
    println!("\n== collective ==");
    // ANCHOR: collective
    let branch_on = |shift: u32| {
        let mut k = KernelBuilder::new("k", Arch::Sm90a);
        k.block([256, 1, 1]).min_blocks(1); // `setmaxnreg` needs a known number of registers
        let thread = k.mov(Type::U32, Special::Tid(0));
        let group = k.shr(Type::U32, thread, shift);
        let p = k.setp(Compare::Eq, Type::U32, group, 0);
        k.if_(p, |k| k.set_max_registers(false, 40));
        k.finish().verify()
    };
    assert!(branch_on(7).is_ok());

    println!("{}", branch_on(5).unwrap_err());
    // ANCHOR_END: collective
}

/// Reads an accumulator while `wgmma` still writes it.
fn in_flight() -> Result<(), Box<dyn Error>> {
    println!("\n== in_flight ==");
    // ANCHOR: in_flight
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.block([128, 1, 1]);
    let d: Vec<_> = (0..4).map(|_| k.mov(Type::F32, 0.0)).collect();
    let (a, b) = (k.mov(Type::U64, 0), k.mov(Type::U64, 0));
    k.wgmma_fence();
    k.wgmma(&mma("SM90_64x8x16_F32F16F16_SS")?, &d, &[a], b, ScaleD::One);
    k.wgmma_commit();
    k.add(Type::F32, d[0], 1.0);
    k.wgmma_wait(0);

    println!("{}", k.finish().verify().unwrap_err());
    // ANCHOR_END: in_flight
    Ok(())
}

/// Builds a kernel with PTX text.
fn text() -> Result<(), Box<dyn Error>> {
    println!("\n== text ==");
    // ANCHOR: text
    // `brev` reverses the bits of a register; a shift leaves the five bits of the lane.
    let reversed = |text: PtxText| {
        let mut k = KernelBuilder::new("reversed", Arch::Sm80);
        let to = k.pointer("to");
        let (to, lane) = (k.param(to), k.mov(Type::U32, Special::LaneId));
        let bits = k.ptx(text, &[(Type::B32, lane.into())], &[Type::B32])[0];
        let place = k.shr(Type::U32, bits, 27);
        let offset = k.mul_wide(Type::U32, lane, 4);
        let at = k.add(Type::S64, to, offset);
        k.store(Access::new(Space::Global, Type::U32), at, place);
        k.finish()
    };
    let text = PtxText::new("brev.b32 %0, %1;");
    let kernel = reversed(text.clone());
    let of_text = kernel
        .ptx()?
        .lines()
        .find(|line| line.contains("brev"))
        .map(str::to_string);
    println!("{}", of_text.unwrap_or_default().trim());

    let device = Device::simulator(Arch::Sm80);
    let to = device.zeros::<u32>(32)?;
    let run = |kernel| device.launch(&device.load(kernel)?, Launch::new(1, 32), &[(&to).into()]);
    let fault = run(&kernel).unwrap_err().to_string();
    println!("{}", fault.rsplit(": ").next().unwrap_or_default());

    let known = text.on_host(|inputs| vec![u64::from((inputs[0] as u32).reverse_bits())]);
    run(&reversed(known))?;
    println!("{:?}", &to.download()?[..8]);
    // ANCHOR_END: text
    Ok(())
}
