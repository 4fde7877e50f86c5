//! Launches that run, and launches that are refused.

use std::collections::HashSet;
use std::time::Instant;

use anyhow::{Result, ensure};
use colex_gpu::ir::{Access, Kernel, KernelBuilder, Space, Special, Type};
use colex_gpu::{Argument, Device, DeviceError, Function, Launch, Origin};
use half::f16;

use super::{ADD, same};

/// A million sums and three, in blocks of 256.
pub(super) fn add(device: &Device) -> Result<String> {
    let count = (1 << 20) + 3;
    let started = Instant::now();
    let first = device.load_ptx(ADD, "add")?;
    let loaded = started.elapsed().as_secs_f64() * 1e3;
    let origin = match first.origin() {
        Some(Origin::Assembled { .. } | Origin::Whole { .. }) => "assembled",
        Some(Origin::Disk { .. } | Origin::Image { .. }) | None => "taken from the disk",
    };
    add_on(device, count)?;
    Ok(format!(
        "{count} sums of f32, exact; the first kernel {origin} in {loaded:.2} ms"
    ))
}

/// Computes `count` sums on a device, by the kernel as the driver assembles it.
pub(super) fn add_on(device: &Device, count: usize) -> Result<()> {
    add_by(&device.load_ptx(ADD, "add")?, device, count)
}

/// Computes `count` sums on a device, by an entry with the parameters of `add.ptx`.
pub(super) fn add_by(function: &Function, device: &Device, count: usize) -> Result<()> {
    let a: Vec<f32> = (0..count).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..count).map(|i| (i % 1000) as f32).collect();
    let (from, with) = (device.upload(&a)?, device.upload(&b)?);
    let to = device.poisoned::<f32>(count + 1)?;
    let arguments = [
        (&from).into(),
        (&with).into(),
        (&to).into(),
        (count as u32).into(),
    ];
    device.launch(
        function,
        Launch::new(count.div_ceil(256) as u32, 256),
        &arguments,
    )?;
    let sums = to.download()?;
    let wrong = (0..count).find(|&i| sums[i] != a[i] + b[i]);
    same("the first wrong sum", wrong, None)?;
    ensure!(
        sums[count].is_nan(),
        "the element after the last was written"
    );
    Ok(())
}

/// One argument of every kind, bit for bit.
pub(super) fn arguments(device: &Device) -> Result<String> {
    let out = device.zeros::<u64>(5)?;
    let function = device.load_ptx(include_str!("../ptx/arguments.ptx"), "arguments")?;
    let arguments: [Argument; 6] = [
        f16::from_f32(1.5).into(),
        (&out).into(),
        (-2.5f32).into(),
        (-7i32).into(),
        1e300f64.into(),
        i64::MIN.into(),
    ];
    device.launch(&function, Launch::new(1, 1), &arguments)?;
    let expected = vec![
        0x3e00,
        0xc020_0000,
        0xffff_fff9,
        1e300f64.to_bits(),
        1 << 63,
    ];
    same("what the kernel stored", out.download()?, expected)?;
    Ok("16, 32 and 64 bits, f32, f64 and a pointer arrived".to_string())
}

/// Launches that are refused before the driver is called.
fn refused_launches(device: &Device) -> Result<Vec<DeviceError>> {
    let function = device.load_ptx(ADD, "add")?;
    let buffer = device.zeros::<f32>(4)?;
    let right: Vec<Argument> = vec![
        (&buffer).into(),
        (&buffer).into(),
        (&buffer).into(),
        4u32.into(),
    ];
    let wrong: Vec<Argument> = vec![
        (&buffer).into(),
        (&buffer).into(),
        (&buffer).into(),
        4u64.into(),
    ];
    let most = device.limits().shared;
    let launches = [
        (Launch::new(1, 32), &right[..3]),
        (Launch::new(1, 32), &wrong),
        (Launch::new(1, 1025), &right),
        (Launch::new([1, 65536], 32), &right),
        (Launch::new(0, 32), &right),
        (Launch::new(3, 32).cluster(2), &right),
        (Launch::new(16, 32).cluster(16), &right),
        (Launch::new(1, 32).dynamic_shared(most + 1), &right),
    ];
    let mut refusals = Vec::new();
    for (launch, arguments) in launches {
        let error = super::refused("a launch", device.launch(&function, launch, arguments))?;
        ensure!(error.launch().is_some(), "{error}");
        refusals.push(error);
    }
    Ok(refusals)
}

/// Each is refused with its own error, and the device stays usable.
pub(super) fn refused(device: &Device) -> Result<String> {
    let refusals = refused_launches(device)?;
    let reasons: HashSet<_> = refusals.iter().map(DeviceError::to_string).collect();
    ensure!(reasons.len() >= 7, "the reasons are too few: {refusals:?}");
    add_on(device, 1000)?;
    Ok(format!(
        "{} launches refused for {} reasons",
        refusals.len(),
        reasons.len()
    ))
}

/// All the dynamic shared memory that a block can have.
pub(super) fn reverse(device: &Device) -> Result<String> {
    let bytes = device.limits().shared;
    let count = bytes / 4;
    let out = device.poisoned::<u32>(count as usize)?;
    let function = device.load_ptx(include_str!("../ptx/reverse.ptx"), "reverse")?;
    let launch = Launch::new(1, 256).dynamic_shared(bytes);
    device.launch(&function, launch, &[(&out).into(), count.into()])?;
    let expected = (0..count).rev().map(|i| i.wrapping_mul(2_654_435_761));
    same("the reversed words", out.download()?, expected.collect())?;
    Ok(format!("{bytes} bytes written and read back"))
}

/// Clusters of 2, 4 and 8 blocks, each block writing into the next one's shared memory.
pub(super) fn clusters(device: &Device) -> Result<String> {
    let function = device.load_ptx(include_str!("../ptx/cluster.ptx"), "cluster")?;
    for blocks in [2u32, 4, 8] {
        let out = device.poisoned::<u32>(64)?;
        let launch = Launch::new(64, 32).cluster(blocks);
        device.launch(&function, launch, &[(&out).into()])?;
        let before = |block: u32| (block % blocks + blocks - 1) % blocks + 1;
        let expected = (0..64).map(before).collect();
        same("what the neighbours wrote", out.download()?, expected)?;
    }
    Ok(
        "64 blocks in clusters of 2, 4 and 8 wrote into their neighbours' shared memory"
            .to_string(),
    )
}

/// Eight threads of the host with one device.
pub(super) fn threads(device: &Device) -> Result<String> {
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let work = |i: usize| (0..20).try_for_each(|_| add_on(device, 1000 + i));
        let spawned: Vec<_> = (0..8).map(|i| scope.spawn(move || work(i))).collect();
        let joined = spawned
            .into_iter()
            .map(|thread| thread.join().expect("a check does not panic"));
        joined.collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    Ok("8 threads, 20 launches each".to_string())
}

/// A kernel built here: twice each of 32 numbers.
pub(super) fn of_the_ir(device: &Device) -> Result<String> {
    let function = device.load(&twice(device))?;
    let buffer = device.upload(&(0..32).map(|i| i as f32).collect::<Vec<f32>>())?;
    device.launch(&function, Launch::new(1, 32), &[(&buffer).into()])?;
    let expected = (0..32).map(|i| 2.0 * i as f32).collect();
    same("the doubled numbers", buffer.download()?, expected)?;
    Ok(format!(
        "`{}` built, printed, assembled, run",
        function.entry()
    ))
}

fn twice(device: &Device) -> Kernel {
    let mut k = KernelBuilder::new("twice", device.arch());
    let data = k.pointer("data");
    let base = k.param(data);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let offset = k.mul_wide(Type::U32, thread, 4);
    let address = k.add(Type::S64, base, offset);
    let x = k.load(Access::new(Space::Global, Type::F32), address);
    let y = k.mul(Type::F32, x, 2.0);
    k.store(Access::new(Space::Global, Type::F32), address, y);
    k.finish()
}
