//! Launches a kernel that the build script has built: this program holds its PTX, and no builder of kernels is linked.
//!
//! With a folder as its argument it writes the descriptions there instead, for launchers in other languages.

use std::error::Error;
use std::{env, fs};

use colex_gpu::{Argument, Device, Launch};

/// The descriptions, by the name of their files.
const FILES: [(&str, &str); 4] = [
    ("scale.json", include_str!(concat!(env!("OUT_DIR"), "/scale.json"))),
    ("scale.h", include_str!(concat!(env!("OUT_DIR"), "/scale.h"))),
    ("scale_tma.json", include_str!(concat!(env!("OUT_DIR"), "/scale_tma.json"))),
    ("scale_tma.h", include_str!(concat!(env!("OUT_DIR"), "/scale_tma.h"))),
];

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(folder) = env::args().nth(1) {
        for (name, text) in FILES {
            fs::write(format!("{folder}/{name}"), text)?;
        }
        println!("{} files in {folder}", FILES.len());
        return Ok(());
    }
    let kernel: serde_json::Value = serde_json::from_str(FILES[0].1)?;
    let text = |key: &str| kernel[key].as_str().ok_or(format!("no text `{key}`"));
    let device = match Device::gpu(0) {
        Ok(device) => device,
        Err(why) => {
            println!("{} bytes of PTX are embedded, and not launched: {why}", text("ptx")?.len());
            return Ok(());
        }
    };
    let function = device.load_ptx(text("ptx")?, text("entry")?)?;
    let rows = 1000u32;
    let numbers: Vec<f32> = (0..rows * 32).map(|i| i as f32).collect();
    let (from, to) = (device.upload(&numbers)?, device.zeros::<f32>(numbers.len())?);
    // In the order of the description: address, extent of leaf 0, stride of leaf 0, of both tensors; then alpha.
    let tensor = |address| [Argument::Pointer(address), Argument::U32(rows), Argument::U64(32)];
    let mut arguments = [tensor(from.address()), tensor(to.address())].concat();
    arguments.push(Argument::F32(2.5));
    let launch = Launch::new(rows.div_ceil(64), 128);
    device.launch(&function, launch, &arguments)?;
    let right = to.download()?.iter().zip(&numbers).all(|(y, x)| *y == 2.5 * x);
    println!("{rows} rows scaled on {}: {}", device.name(), if right { "right" } else { "WRONG" });
    if right { Ok(()) } else { Err("the result is wrong".into()) }
}
