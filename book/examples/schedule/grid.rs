//! From a problem to a grid.
//!
//! Run it with `cargo run -p colex-book --example schedule_grid`; each line `== .. ==` names a piece of the chapter.

use colex_sched::{
    ConvAxis, ConvOperator, Dim3, Error, GemmCoord, Raster, ThreadblockSwizzle, Tile, conv2d,
    k_tiles, tiled_shape,
};

fn main() -> Result<(), Error> {
    of_a_problem()?;
    grid()?;
    identity()?;
    convolution()?;
    dilation()?;
    law();
    refusals();
    Ok(())
}

/// Computes the tiled shape of a problem.
fn of_a_problem() -> Result<(), Error> {
    // ANCHOR: of_a_problem
    let (problem, tile) = (GemmCoord::new(500, 384, 512), GemmCoord::new(128, 128, 32));
    assert_eq!(tiled_shape(problem, tile, 1)?, GemmCoord::new(4, 3, 1));
    assert_eq!(k_tiles(problem, tile)?, 16);

    // Two blocks share each tile's k: 8 k-tiles each.
    assert_eq!(tiled_shape(problem, tile, 2)?, GemmCoord::new(4, 3, 2));
    // ANCHOR_END: of_a_problem
    Ok(())
}

/// Computes the grids of three swizzles.
fn grid() -> Result<(), Error> {
    // ANCHOR: grid
    let tiles = GemmCoord::new(4, 3, 1);
    let grid = |name: &str| name.parse::<ThreadblockSwizzle>()?.grid_shape(tiles);
    assert_eq!(grid("GemmIdentity<1>")?, Dim3::new(4, 3, 1));
    assert_eq!(grid("GemmIdentity<2>")?, Dim3::new(8, 2, 1)); // 16 blocks for 12 tiles
    assert_eq!(grid("GemmHorizontal")?, Dim3::new(3, 4, 1)); // n first
    // ANCHOR_END: grid
    Ok(())
}

/// Checks the tile of every block of a small grid.
fn identity() -> Result<(), Error> {
    // ANCHOR: identity
    let (swizzle, tiles) = (
        ThreadblockSwizzle::Identity { width: 1 },
        GemmCoord::new(4, 4, 1),
    );
    assert_eq!(swizzle.grid_shape(tiles)?, Dim3::new(4, 4, 1));
    for slot in 0..16 {
        let block = Dim3::new(slot % 4, slot / 4, 0);
        let tile = GemmCoord::new(slot % 4, slot / 4, 0);
        assert_eq!(swizzle.tile_offset(tiles, block)?, Some(tile));
        assert_eq!(swizzle.block_of(tiles, tile)?, block);
    }
    // ANCHOR_END: identity
    Ok(())
}

/// Reads a convolution as a GEMM, for all three operators.
fn convolution() -> Result<(), Error> {
    println!("\n== convolution ==");
    // ANCHOR: convolution
    // 8 images of 56 x 56 x 64, 128 filters of 3 x 3 with padding 1: the output is 56 x 56 again.
    let side = ConvAxis::new(56, 3).pad(1);
    let conv = conv2d(8, 64, 128, side, side);
    println!("{:?}", conv.output()?);
    assert_eq!(
        conv.implicit_gemm(ConvOperator::Fprop)?,
        GemmCoord::new(8 * 56 * 56, 128, 9 * 64)
    );
    assert_eq!(
        conv.implicit_gemm(ConvOperator::Wgrad)?,
        GemmCoord::new(128, 9 * 64, 8 * 56 * 56)
    );

    // `get_tiled_shape` has an overload for convolutions: the same rounding, applied to that GEMM.
    let swizzle = ThreadblockSwizzle::Identity { width: 1 };
    let tiles =
        swizzle.conv_tiled_shape(ConvOperator::Fprop, &conv, GemmCoord::new(128, 128, 32), 1)?;
    assert_eq!(tiles, GemmCoord::new(196, 1, 1));
    // ANCHOR_END: convolution
    Ok(())
}

/// Computes the output of a dilated convolution.
fn dilation() -> Result<(), Error> {
    println!("\n== dilation ==");
    // ANCHOR: dilation
    let conv = conv2d(
        1,
        1,
        1,
        ConvAxis::new(5, 3).dilation(2),
        ConvAxis::new(1, 1),
    );
    println!("{:?}", conv.output()?);
    let (height, taps, dilation, stride) = (5, 3, 2, 1);
    assert_eq!((height - taps * dilation) / stride + 1, 0); // CUTLASS's formula
    // ANCHOR_END: dilation
    Ok(())
}

/// Shows tables that are no rasters.
fn law() {
    println!("\n== law ==");
    // ANCHOR: law
    let tile = |m, n| Some(Tile::new(m, n, 0));
    let twice = Raster::new(
        "wrong",
        GemmCoord::new(2, 1, 1),
        vec![tile(0, 0), tile(0, 0)],
    );
    println!("{}", twice.unwrap_err());
    let missing = Raster::new("wrong", GemmCoord::new(2, 1, 1), vec![tile(0, 0)]);
    println!("{}", missing.unwrap_err());
    // ANCHOR_END: law
}

/// Shows problems without a grid.
fn refusals() {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let tile = GemmCoord::new(128, 128, 32);
    let refused = |m, n, k, splits| {
        tiled_shape(GemmCoord::new(m, n, k), tile, splits)
            .unwrap_err()
            .to_string()
    };
    println!("{}", refused(0, 384, 512, 1));
    println!("{}", refused(500, 384, 64, 3));

    let wide = ThreadblockSwizzle::Identity { width: 1 }.grid_shape(GemmCoord::new(1, 70_000, 1));
    println!("{}", wide.unwrap_err());

    // CUTLASS takes the number of batches modulo 65536: 65536 batches would be a grid of nothing.
    let batches = ThreadblockSwizzle::Batched.tiled_shape(GemmCoord::new(64, 64, 64), tile, 65_536);
    println!("{}", batches.unwrap_err());
    // ANCHOR_END: refusals
}
