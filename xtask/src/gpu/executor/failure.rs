//! Kernels that fail, and the state of the device afterwards.

use anyhow::{Result, ensure};
use colex_atom::Ty;
use colex_gpu::tensor::{Arg, AtThread, Builder};
use colex_gpu::{Argument, Buffer, Device, Function, Launch};
use colex_layout::Layout;
use colex_tiled::TiledCopy;

use super::{refused, same};

const TEXT: &str = include_str!("../ptx/trap.ptx");

/// The error of a kernel that traps, and of everything after it in the same process.
pub(super) fn trap() -> Result<String> {
    broken_by("stop", &[])
}

/// The same for an access outside of all allocations.
pub(super) fn stray() -> Result<String> {
    broken_by("stray", &[Argument::Pointer(0x10)])
}

/// The same for an element of an array of pointers that points nowhere.
pub(super) fn stray_pointer() -> Result<String> {
    let device = Device::gpu(0)?;
    let mut k = Builder::new("stray_pointer", device.arch(), 1);
    let pointers = k.tensor("pointers", Ty::U64, "_1:_1");
    let address = k.gather(&pointers.elements(0));
    let row = k.tensor_stated_at(&address, Ty::U32, "4:1");
    k.scatter(1, &row.elements(0));
    let function = device.load(&k.finish()?.kernel)?;
    let pointers = device.upload(&[0x10_u64])?;
    let arguments = [Argument::Pointer(pointers.address())];
    broken_on(device, pointers, function, &arguments)
}

/// A copy whose tile is the value of a variable, inside of its tensor and then beyond: no launch can tell, so the kernel traps
/// before the access, which lies in the same allocation.
pub(super) fn outside() -> Result<String> {
    let device = Device::gpu(0)?;
    let mut k = Builder::new("undecided", device.arch(), 32);
    let (from, to) = (
        k.tensor("from", Ty::F32, "(64,64):(64,_1)"),
        k.tensor("to", Ty::F32, "(64,64):(64,_1)"),
    );
    let n = k.index_argument("n", 0..1000);
    let (number, thread) = (k.var(n, 0..1000), k.thread());
    let at = [0.into(), k.get(&number)];
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,1)")?;
    let source = copy
        .at(&thread)
        .partition_src(&from.local_tile((4, 8), &at[..]));
    let target = copy
        .at(&thread)
        .partition_dst(&to.local_tile((4, 8), &at[..]));
    let held = k.fragment_like(&source);
    k.copy(&copy, &source, &held);
    k.copy(&copy, &held, &target);
    let built = k.finish()?;
    let numbers: Vec<f32> = (0..320).map(|i| i as f32).collect();
    let (a, b) = (device.upload(&numbers)?, device.upload(&[0f32; 320])?);
    let layout: Layout = "(8,40):(40,_1)".parse()?;
    let function = device.load(&built.kernel)?;
    let launched = |n: u32| -> Result<Vec<Argument>> {
        let number = Arg::Value(n.into());
        Ok(built.arguments(&[Arg::tensor(&a, &layout), Arg::tensor(&b, &layout), number])?)
    };
    device.launch(&function, Launch::new(1, 32), &launched(4)?)?;
    let found = b.download()?;
    let expected = |i: usize| {
        let is_copied = i / 40 < 4 && i % 40 >= 32;
        if is_copied { numbers[i] } else { 0.0 }
    };
    ensure!(
        (0..320).all(|i| found[i] == expected(i)),
        "tile 4: {found:?}"
    );
    device.launch(&function, Launch::new(1, 32), &launched(5)?)?;
    let error = refused("waiting for tile 5 of 5", device.synchronize())?;
    ensure!(error.is_trap(), "{error}");
    Ok(error.to_string())
}

fn broken_by(entry: &str, arguments: &[Argument]) -> Result<String> {
    let device = Device::gpu(0)?;
    let function = device.load_ptx(TEXT, entry)?;
    let buffer = device.upload(&[1, 2, 3])?;
    broken_on(device, buffer, function, arguments)
}

fn broken_on(
    device: Device,
    buffer: Buffer<u64>,
    function: Function,
    arguments: &[Argument],
) -> Result<String> {
    device.launch(&function, Launch::new(1, 1), arguments)?;
    let error = refused("waiting for it", device.synchronize())?;
    ensure!(error.is_context_lost(), "{error}");
    same(
        "a download",
        refused("a download", buffer.download())?,
        error.clone(),
    )?;
    same(
        "a launch",
        refused(
            "a launch",
            device.launch(&function, Launch::new(1, 1), arguments),
        )?,
        error.clone(),
    )?;
    same(
        "opening it again",
        refused("opening it", Device::gpu(0))?,
        error.clone(),
    )?;
    drop((device, buffer, function));
    same(
        "opening it afresh",
        refused("opening it", Device::gpu(0))?,
        error.clone(),
    )?;
    Ok(error.to_string())
}

/// A new process can use the device.
pub(super) fn afterwards() -> Result<String> {
    let device = Device::gpu(0)?;
    super::kernels::add_on(&device, 100_000)?;
    Ok("opened by another process, 100000 sums exact".to_string())
}
