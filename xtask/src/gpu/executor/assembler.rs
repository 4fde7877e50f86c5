//! The log of the driver's assembler, and machine code that another assembler made.

use anyhow::{Result, bail, ensure};
use colex_atom::{Arch, Ty};
use colex_gpu::attention::{AttentionOperands, AttentionPlan, AttentionProblem, Mask};
use colex_gpu::kernels::Major;
use colex_gpu::kernels::gemm::{GemmMethod, GemmPlan, Operands};
use colex_gpu::tensor::TensorKernel;
use colex_gpu::{Argument, Device, Launch, Load, Origin, ParameterType};

use super::{ADD, refused, same};

/// Registers, local memory, and the shape that a kernel insists on.
pub(super) fn resources(device: &Device) -> Result<String> {
    let add = device.load_ptx(ADD, "add")?;
    let Some(counted) = add.resources().copied() else {
        bail!("the assembler reported no counts");
    };
    ensure!((4..=32).contains(&counted.registers), "{counted:?}");
    same("local memory of `add`", counted.local_bytes, 0)?;
    let local = device.load_ptx(include_str!("../ptx/local.ptx"), "local")?;
    let bytes = local
        .resources()
        .map_or(0, |resources| resources.local_bytes);
    ensure!(
        bytes >= 256,
        "{bytes} bytes of local memory for an array of 256"
    );
    let out = device.zeros::<u32>(32)?;
    let arguments = [(&out).into(), 5u32.into()];
    let error = refused(
        "a block of 64",
        device.launch(&local, Launch::new(1, 64), &arguments),
    )?;
    device.launch(&local, Launch::new(1, 32), &arguments)?;
    device.synchronize()?;
    Ok(format!(
        "add: {} registers, no spills; local: {bytes} bytes per thread; {error}",
        counted.registers
    ))
}

/// The log of a text that does not assemble, and that the device stays usable.
pub(super) fn errors(device: &Device) -> Result<String> {
    let text = include_str!("../ptx/broken.ptx");
    let error = refused("a broken text", device.load_ptx(text, "broken"))?;
    let Some(log) = error.assembler_log() else {
        bail!("the error is {error}");
    };
    ensure!(
        log.contains("undeclared"),
        "the log does not name the register: {log}"
    );
    let newer = ADD.replace(".version 7.0", ".version 99.0");
    let newer = refused(
        "a version that does not exist",
        device.load_ptx(&newer, "add"),
    )?;
    ensure!(newer.assembler_log().is_some(), "{newer}");
    refused(
        "a NUL character",
        device.load_ptx(&format!("{ADD}\0"), "add"),
    )?;
    super::kernels::add_on(device, 100)?;
    Ok(format!(
        "{} | {}",
        log.replace('\n', " / "),
        newer.to_string().replace('\n', " / ")
    ))
}

/// A remark on a kernel that is assembled all the same.
pub(super) fn remarks(device: &Device) -> Result<String> {
    let text = include_str!("../ptx/serialized.ptx");
    let function = device.load_ptx(text, "serialized")?;
    let Some(remark) = function.log().lines().find(|line| line.contains("(C75")) else {
        bail!("no remark (C75..) in: {}", function.log());
    };
    Ok(remark.to_string())
}

/// The kernels of Hopper as the driver assembles them for a device: their warpgroups exchange registers by `setmaxnreg`, which
/// the driver's linker ignores. No remark, no spill.
pub(super) fn registers(device: &Device) -> Result<String> {
    let arch = device.arch();
    if arch != Arch::Sm90a {
        return Ok("no sm_90a".to_string());
    }
    let mut count = 0;
    let mut load = |name: String, built: TensorKernel| {
        let kernel = built.load(device)?;
        let function = kernel.function();
        if let Some(remark) = function.log().lines().find(|line| line.contains("(C7")) {
            bail!("{name}: {remark}");
        }
        let bytes = function.resources().map(|resources| resources.local_bytes);
        same(&format!("local memory of {name}"), bytes, Some(0))?;
        let is_whole = matches!(function.origin(), Some(Origin::Whole { .. }));
        count += usize::from(is_whole);
        Ok(())
    };
    let operands = Operands {
        ab: Ty::Bf16,
        c: Ty::Bf16,
        majors: [Major::Second; 3],
        vectors: [8; 3],
        beta: false,
        gated: false,
    };
    let plain = GemmPlan::candidates(operands, arch);
    let mut more = GemmPlan::candidates_with_epilogue(operands, arch);
    // All widths have the kernel of the widest.
    let of_one = GemmPlan::candidates_of_one(operands, arch).into_iter();
    let of_one = of_one.chain(GemmPlan::candidates_of_one_with_epilogue(operands, arch));
    more.extend(of_one.filter(|plan| plan.columns == plan.tile[1]));
    more.retain(|plan| !plain.contains(plan));
    for plan in plain.into_iter().chain(more) {
        if plan.method == GemmMethod::Hopper {
            load(plan.to_string(), plan.build(arch)?)?;
        }
    }
    for width in [64, 96, 128, 192, 256] {
        for mask in [Mask::Full, Mask::Causal] {
            let problem = AttentionProblem::new(Ty::Bf16, 1, [8; 2], [4096; 2], [width; 2]);
            let problem = problem.mask(mask);
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let plan = AttentionPlan::fastest(&problem, operands, arch, 132)?;
            load(format!("{plan}, {mask}"), plan.build(arch)?)?;
        }
    }
    ensure!(count > 10, "{count} kernels have `setmaxnreg`");
    Ok(format!(
        "{count} kernels with setmaxnreg, no remark and no spill"
    ))
}

/// The sums of a cubin that `ptxas -arch sm_90` made of `add.ptx`. A device that it is not for refuses it.
pub(super) fn machine_code(device: &Device) -> Result<String> {
    use ParameterType::{U32, U64};
    let image = include_bytes!("../../../../gpu/device/tests/add.cubin");
    let load = |image: &[u8], parameters: &[_]| device.load_cubin(image, "add", parameters);
    let own = load(image, &[U64, U64, U64, U32]);
    if !matches!(device.arch(), Arch::Sm90 | Arch::Sm90a) {
        return Ok(refused("a cubin for sm_90", own)?.to_string());
    }
    let own = own?;
    super::kernels::add_by(&own, device, 1003)?;
    let short = refused("an image cut short", load(&image[..3000], &[]))?;
    let types = refused("three parameters", load(image, &[U64, U64, U32]))?;
    let out = device.zeros::<f32>(1)?;
    let one: [Argument; 1] = [(&out).into()];
    let launch = refused("one argument", device.launch(&own, Launch::new(1, 1), &one))?;
    Ok(format!("1003 sums, exact; {short}; {types}; {launch}"))
}
