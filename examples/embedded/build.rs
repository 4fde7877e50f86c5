//! Builds two kernels and writes each as JSON and as a C header, which the program embeds.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use colex_atom::{Arch, Ty};
use colex_ir::{FenceKind, Type};
use colex_tensor::{AtThread, Builder, Fragment, TensorKernel};
use colex_tiled::TiledCopy;

/// Rows of a tile. It has 32 columns, 16 bytes of them per thread at once.
const ROWS: i64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    for kernel in [scale()?, scale_tma()?] {
        let exported = kernel.export()?;
        let file = |ending: &str| Path::new(&out).join(format!("{}.{ending}", exported.entry));
        fs::write(file("json"), serde_json::to_string_pretty(&exported)?)?;
        fs::write(file("h"), exported.c_header())?;
    }
    Ok(())
}

/// 128 threads on 16 rows of 32 columns, 4 elements per access.
fn copy() -> Result<TiledCopy, Box<dyn Error>> {
    let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    Ok(TiledCopy::new(atom, 32, "(16,8):(8,1)", "(1,4):(0,1)")?)
}

/// `to = alpha * from`, a tile of 64 rows per block, on every GPU since Ampere.
fn scale() -> Result<TensorKernel, Box<dyn Error>> {
    let copy = copy()?;
    let mut k = Builder::new("scale", Arch::Sm80, 128);
    let from = k.tensor("from", Ty::F32, "(1024,_32):(32,_1)");
    let to = k.tensor("to", Ty::F32, "(1024,_32):(32,_1)");
    let alpha = k.scalar_argument("alpha", Type::F32);
    let (thread, row) = (k.thread(), k.block_index(0));
    let mine = copy.at(&thread);
    let src = mine.partition_src(&from.local_tile((ROWS, 32), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to.local_tile((ROWS, 32), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&src);
    k.copy_in_bounds(&copy, &src, &held);
    let scaled: Fragment = k.map(&held * alpha);
    k.copy_in_bounds(&copy, &scaled, &dst);
    Ok(k.finish()?)
}

/// The same for Hopper: TMA brings the tile, and fills rows beyond the end with zeros.
fn scale_tma() -> Result<TensorKernel, Box<dyn Error>> {
    let copy = copy()?;
    let mut k = Builder::new("scale_tma", Arch::Sm90, 128);
    let slab = "(64,32):(32,1)";
    let from = k.tma_tensor("from", Ty::F32, "(1024,_32):(32,_1)", &[ROWS, 32], slab, 1);
    let to = k.tensor("to", Ty::F32, "(1024,_32):(32,_1)");
    let alpha = k.scalar_argument("alpha", Type::F32);
    let (thread, row) = (k.thread(), k.block_index(0));
    let (shared, landed) = (k.shared_tensor(Ty::F32, slab), k.barriers(1));
    let is_first = k.equal(&thread, &0.into());
    k.if_(is_first, |k| {
        k.init_barriers(&landed, 1);
        k.fence(FenceKind::MbarrierInit);
        k.arrive_expect(&landed.at(0), from.tile_bytes());
        k.tma_load(&from, (&row, 0), &shared, &landed.at(0));
    });
    k.sync();
    k.wait(&landed.at(0), &0.into());
    let mine = copy.at(&thread);
    let src = mine.partition_src(&shared); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to.local_tile((ROWS, 32), (&row, 0))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&src);
    k.copy(&copy, &src, &held);
    let scaled: Fragment = k.map(&held * alpha);
    k.copy_in_bounds(&copy, &scaled, &dst);
    Ok(k.finish()?)
}
