//! Why layouts: a transpose by index arithmetic and by three layouts, and the bank conflicts that the simulator counts.
//!
//! Run it with `cargo run -p colex-book --example why`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Access, Arch, Ty, choose_swizzle};
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Device, Load, View, ViewMut};
use colex_layout::{ComposedLayout, Layout, Swizzle};
use colex_tiled::TiledCopy;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    same_arithmetic()?;
    transposed()?;
    column_banks()?;
    padded()?;
    swizzled()?;
    chosen()?;
    other_layouts()?;
    exercise_1()?;
    exercise_2()?;
    exercise_3()?;
    Ok(())
}

/// Compares three expressions of the CUDA kernel with three layouts.
fn same_arithmetic() -> Result<(), Box<dyn Error>> {
    println!("\n== same_arithmetic ==");
    // ANCHOR: same_arithmetic
    let (m, n) = (64, 96);
    let from = Layout::new((m, n), (n, 1))?;
    let to = Layout::new((m, n), (1, m))?;
    let tile = Layout::new((32, 32), (32, 1))?;
    for row in 0..m {
        for column in 0..n {
            assert_eq!(from.at((row, column))?, row * n + column);
            assert_eq!(to.at((row, column))?, column * m + row);
        }
    }
    assert_eq!(tile.at((5, 3))?, 5 * 32 + 3);
    println!("from = {from}");
    println!("to   = {to}");
    println!("tile = {tile}");
    // ANCHOR_END: same_arithmetic
    Ok(())
}

// ANCHOR: kernel
/// Copies `from` to `to` through tiles of 32 by 32 in shared memory.
/// Each block of 256 threads copies one tile.
pub(crate) fn by_tiles(tile: &ComposedLayout) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("by_tiles", Arch::Sm80, 256);
    let any = Layout::new((1, 1), (1, 1))?;
    let from = k.tensor("from", Ty::F32, &any);
    let to = k.tensor("to", Ty::F32, &any);
    let tile = k.shared_tensor(Ty::F32, tile);

    let block = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &block); // (BLK_M, BLK_N)
    let to = to.local_tile((32, 32), &block); // (BLK_M, BLK_N)
    // ANCHOR_END: kernel

    // ANCHOR: threads
    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let one = Layout::new((1, 1), (0, 0))?; // one value per thread
    let by_rows = Layout::new((8, 32), (32, 1))?; // a warp takes 32 columns of a row
    let along_rows = TiledCopy::new(word.clone(), 32, &by_rows, &one)?; // values of 32 bits
    let by_columns = Layout::new((32, 8), (1, 32))?; // a warp takes 32 rows of a column
    let along_columns = TiledCopy::new(word, 32, &by_columns, &one)?;
    // ANCHOR_END: threads

    // ANCHOR: steps
    let mine = along_rows.at(&k.thread());
    let src = mine.partition_src(&from); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    let registers = k.fragment_like(&src); // one register for each value of src
    k.copy(&along_rows, &src, &registers); // global memory to registers
    k.copy(&along_rows, &registers, &dst); // registers to shared memory

    k.sync();

    let mine = along_columns.at(&k.thread());
    let src = mine.partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M, CPY_N)
    let registers = k.fragment_like(&src);
    k.copy(&along_columns, &src, &registers); // shared memory to registers
    k.copy(&along_columns, &registers, &dst); // registers to global memory
    Ok(k.finish()?)
}
// ANCHOR_END: steps

// ANCHOR: run
/// The passes that bank conflicts cost the kernel with this tile.
fn conflicts(tile: &ComposedLayout, to: &Layout) -> Result<u64, Box<dyn Error>> {
    passes_lost(&by_tiles(tile)?, to)
}

/// Runs a kernel on the simulator of an Ampere GPU, and checks every element.
/// Returns the passes that bank conflicts cost.
fn passes_lost(kernel: &TensorKernel, to: &Layout) -> Result<u64, Box<dyn Error>> {
    let device = Device::simulator(Arch::Sm80);
    let data: Vec<f32> = (0..64 * 96).map(|i| i as f32).collect();
    let source = device.upload(&data)?;
    // A buffer as long as the layout needs, whose elements have no value yet.
    let mut result = device.poisoned::<f32>(to.cosize()? as usize)?;

    let kernel = kernel.load(&device)?;
    let views = (
        View::new(&source, ((64, 96), (96, 1)))?,
        ViewMut::new(&mut result, to)?,
    );
    let report = kernel.profile([2, 3], views)?; // a grid of 2 by 3 blocks

    let found = result.download()?;
    for row in 0..64 {
        for column in 0..96 {
            let expected = data[(96 * row + column) as usize];
            assert_eq!(found[to.at((row, column))? as usize], expected);
        }
    }
    Ok(report.bank_conflicts())
}
// ANCHOR_END: run

/// Transposes with a row-major tile.
fn transposed() -> Result<(), Box<dyn Error>> {
    println!("\n== transposed ==");
    // ANCHOR: transposed
    let to = Layout::new((64, 96), (1, 64))?;
    let tile = Layout::new((32, 32), (32, 1))?;
    let lost = conflicts(&tile.into(), &to)?;
    println!("{lost} passes lost to bank conflicts");
    // ANCHOR_END: transposed
    Ok(())
}

/// Lists the banks of the first words of column 3 under the three tiles.
fn column_banks() -> Result<(), Box<dyn Error>> {
    println!("\n== column_banks ==");
    // ANCHOR: column_banks
    let plain = Layout::new((32, 32), (32, 1))?;
    let padded = Layout::new((32, 32), (33, 1))?;
    let swizzled = ComposedLayout::new(Swizzle::new(5, 0, 5)?, 0, plain.clone())?;
    for tile in [plain.into(), padded.into(), swizzled] {
        let bank = |row: i64| Ok(tile.at((row, 3))? % 32);
        let banks: Result<Vec<i64>, colex_layout::Error> = (0..6).map(bank).collect();
        println!("{:?} .. {tile}", banks?);
    }
    // ANCHOR_END: column_banks
    Ok(())
}

/// Transposes with a padded tile.
fn padded() -> Result<(), Box<dyn Error>> {
    println!("\n== padded ==");
    // ANCHOR: padded
    let to = Layout::new((64, 96), (1, 64))?;
    let tile = Layout::new((32, 32), (33, 1))?;
    println!("{} words of shared memory", tile.cosize()?);
    println!("{} passes lost", conflicts(&tile.into(), &to)?);
    // ANCHOR_END: padded
    Ok(())
}

/// Transposes with a swizzled tile.
fn swizzled() -> Result<(), Box<dyn Error>> {
    println!("\n== swizzled ==");
    // ANCHOR: swizzled
    let to = Layout::new((64, 96), (1, 64))?;
    let rows = Layout::new((32, 32), (32, 1))?;
    let tile = ComposedLayout::new(Swizzle::new(5, 0, 5)?, 0, rows)?;
    for (row, column) in [(0, 3), (1, 3), (5, 3), (31, 31)] {
        assert_eq!(tile.at((row, column))?, 32 * row + (column ^ row));
    }
    println!("{tile}");
    println!("{} passes lost", conflicts(&tile, &to)?);
    // ANCHOR_END: swizzled
    Ok(())
}

/// Finds the swizzle from the two accesses.
fn chosen() -> Result<(), Box<dyn Error>> {
    println!("\n== chosen ==");
    // ANCHOR: chosen
    let write = Access::new("write a row", Layout::new(32, 1)?, 4, 4)?;
    let read = Access::new("read a column", Layout::new(32, 32)?, 4, 4)?;
    let choice = choose_swizzle(&[write, read])?;
    println!("{}", choice.in_elements(4)?); // of elements of 4 bytes, not of bytes
    // ANCHOR_END: chosen
    Ok(())
}

/// Gives the same kernel other matrices.
fn other_layouts() -> Result<(), Box<dyn Error>> {
    println!("\n== other_layouts ==");
    // ANCHOR: other_layouts
    let rows = Layout::new((32, 32), (32, 1))?;
    let tile = ComposedLayout::new(Swizzle::new(5, 0, 5)?, 0, rows)?;
    let matrices = [
        Layout::new((64, 96), (1, 64))?,  // the transpose
        Layout::new((64, 96), (1, 80))?,  // columns that are 80 elements apart
        Layout::new((64, 96), (96, 1))?,  // a copy
        Layout::new((64, 96), (192, 2))?, // every second element
    ];
    for to in &matrices {
        println!("{to}: {} passes lost", conflicts(&tile, to)?);
    }
    // ANCHOR_END: other_layouts
    Ok(())
}

/// Counts the conflicts of padding by two words.
fn exercise_1() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_1 ==");
    // ANCHOR: exercise_1
    let to = Layout::new((64, 96), (1, 64))?;
    for row in [34, 36, 48, 35] {
        let tile = Layout::new((32, 32), (row, 1))?;
        println!(
            "rows of {row} words: {} passes lost",
            conflicts(&tile.into(), &to)?
        );
    }
    // ANCHOR_END: exercise_1
    Ok(())
}

/// Counts the conflicts of a column-major tile.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    let to = Layout::new((64, 96), (1, 64))?;
    let tile = Layout::new((32, 32), (1, 32))?;
    println!("{} passes lost", conflicts(&tile.into(), &to)?);
    // ANCHOR_END: exercise_2
    Ok(())
}

// ANCHOR: exercise_3
/// As `by_tiles`, but each thread reads 16 bytes of a row at once.
fn by_vectors(tile: &ComposedLayout) -> Result<TensorKernel, Box<dyn Error>> {
    let mut k = Builder::new("by_vectors", Arch::Sm80, 256);
    let any = Layout::new((1, 1), (1, 1))?;
    let from = k.tensor("from", Ty::F32, "(1,1):(1,_1)"); // changed: a static stride
    let to = k.tensor("to", Ty::F32, &any);
    let tile = k.shared_tensor(Ty::F32, tile);
    let block = [k.block_index(0), k.block_index(1)];
    let from = from.local_tile((32, 32), &block); // (BLK_M, BLK_N)
    let to = to.local_tile((32, 32), &block); // (BLK_M, BLK_N)

    let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let one = Layout::new((1, 1), (0, 0))?; // one value per thread
    let four_words = colex_atom::copy("UniversalCopy<uint128_t>")?; // changed
    let four = Layout::new((1, 4), (0, 1))?; // changed: four values of a row per thread
    let by_rows = Layout::new((32, 8), (8, 1))?; // changed: eight threads per row
    let along_rows = TiledCopy::new(four_words, 32, &by_rows, &four)?; // changed
    let by_columns = Layout::new((32, 8), (1, 32))?; // a warp takes 32 rows of a column
    let along_columns = TiledCopy::new(word, 32, &by_columns, &one)?;

    let mine = along_rows.at(&k.thread());
    let src = mine.partition_src(&from); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    let registers = k.fragment_like(&src);
    k.copy(&along_rows, &src, &registers);
    k.copy(&along_rows, &registers, &dst);
    k.sync();
    let mine = along_columns.at(&k.thread());
    let src = mine.partition_src(&tile); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to); // (CPY, CPY_M, CPY_N)
    let registers = k.fragment_like(&src);
    k.copy(&along_columns, &src, &registers);
    k.copy(&along_columns, &registers, &dst);
    Ok(k.finish()?)
}
// ANCHOR_END: exercise_3

/// Counts the conflicts of a kernel that reads 16 bytes at once.
fn exercise_3() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_3 ==");
    // ANCHOR: exercise_3
    let to = Layout::new((64, 96), (1, 64))?;
    let rows = Layout::new((32, 32), (32, 1))?;
    let tile = ComposedLayout::new(Swizzle::new(3, 2, 3)?, 0, rows)?;
    println!("{} passes lost", passes_lost(&by_vectors(&tile)?, &to)?);
    // ANCHOR_END: exercise_3
    Ok(())
}
