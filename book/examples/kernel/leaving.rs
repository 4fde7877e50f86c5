//! A kernel for other programs: what a launcher needs to know, and kernels that other compilers made.
//!
//! Run it with `cargo run -p colex-book --example kernel_leaving`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::Type;
use colex_gpu::tensor::{Builder, Expr, TensorKernel};
use colex_gpu::{Argument, Device, Launch, ParameterType};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    parameters()?;
    json()?;
    header()?;
    map()?;
    simulated();
    incoming()?;
    not_a_cubin();
    Ok(())
}

// ANCHOR: scale
/// `to = alpha * from` for matrices of 32 columns: a row per block, an element per thread.
fn scale() -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("scale", Arch::Sm80, 32);
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(1024,_32):(32,_1)"));
    let alpha = k.scalar_argument("alpha", Type::F32);
    let (row, column) = (k.block_index(0), k.thread());
    let x = k.gather(&from.elements((&row, &column)));
    k.scatter(&x * Expr::from(alpha), &to.elements((&row, &column)));
    Ok(k.finish()?)
}
// ANCHOR_END: scale

/// Prints what a launch passes, in order.
fn parameters() -> Result<(), Box<dyn Error>> {
    println!("\n== parameters ==");
    // ANCHOR: parameters
    let exported = scale()?.export()?;
    println!("{}, CUDA {}", exported.target, exported.driver);
    println!("block {:?}", exported.block);
    for p in &exported.parameters {
        println!("{:>2}: {} {}", p.offset, p.ty, p.name);
    }
    // ANCHOR_END: parameters
    Ok(())
}

/// Prints two parameters as JSON.
fn json() -> Result<(), Box<dyn Error>> {
    println!("\n== json ==");
    // ANCHOR: json
    let exported = scale()?.export()?;
    for parameter in &exported.parameters[..2] {
        println!("{}", serde_json::to_string_pretty(parameter)?);
    }
    // ANCHOR_END: json
    Ok(())
}

/// Prints the structure of the arguments as C.
fn header() -> Result<(), Box<dyn Error>> {
    println!("\n== header ==");
    // ANCHOR: header
    let header = scale()?.export()?.c_header();
    let from_struct = header.lines().skip_while(|line| !line.contains("struct"));
    for line in from_struct.take_while(|line| !line.is_empty()) {
        println!("{line}");
    }
    // ANCHOR_END: header
    Ok(())
}

/// Prints some fields of the parameter of a tensor map as JSON.
fn map() -> Result<(), Box<dyn Error>> {
    println!("\n== map ==");
    // ANCHOR: map
    let mut k = Builder::new("k", Arch::Sm90, 128);
    let slab = "(64,32):(32,1)"; // 64 rows of 32 floats in shared memory
    k.tma_tensor("from", Ty::F32, "(1024,_32):(32,_1)", [64, 32], slab, 1);
    let exported = k.finish()?.export()?;
    let role = serde_json::to_value(&exported.parameters[0].role)?;
    for field in ["kind", "element", "dimensions", "extents", "swizzle"] {
        println!("{field}: {}", role[field]);
    }
    // ANCHOR_END: map
    Ok(())
}

// ANCHOR: text
/// A kernel of another compiler: `y[i] = 2 y[i]` of one block.
const TWICE: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 y)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<2>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd1, [y];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f2, %f1, %f1;
    st.global.f32 [%rd3], %f2;
    ret;
}
";
// ANCHOR_END: text

/// Shows what the simulator says of a text.
fn simulated() {
    println!("\n== simulated ==");
    // ANCHOR: simulated
    let device = Device::simulator(Arch::Sm90a);
    println!("{}", device.load_ptx(TWICE, "thrice").unwrap_err());
    println!("{}", device.load_ptx(TWICE, "twice").unwrap_err());
    // ANCHOR_END: simulated
}

/// Launches the text, where there is a GPU.
fn incoming() -> Result<(), Box<dyn Error>> {
    // ANCHOR: incoming
    if let Ok(device) = Device::gpu(0) {
        let twice = device.load_ptx(TWICE, "twice")?;
        let y = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
        device.launch(&twice, Launch::new(1, 4), &[(&y).into()])?;
        assert_eq!(y.download()?, [2.0, 4.0, 6.0, 8.0]);

        let wrong = [Argument::F32(2.0)];
        let refused = twice.check_launch(&Launch::new(1, 4), &wrong);
        assert!(refused.is_err());
    }
    // ANCHOR_END: incoming
    Ok(())
}

/// Shows what an image that is no cubin is told.
fn not_a_cubin() {
    println!("\n== not_a_cubin ==");
    // ANCHOR: not_a_cubin
    let image: &[u8] = b"\x7fELF, and little more";
    let device = Device::simulator(Arch::Sm90a);
    let error = device.load_cubin(image, "k", &[ParameterType::U64]);
    let error = error.unwrap_err();
    assert!(error.is_image_refused());
    println!("{error}");
    // ANCHOR_END: not_a_cubin
}
