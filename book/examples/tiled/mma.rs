//! From one atom to a tile: a tiled MMA.
//!
//! Run it with `cargo run -p colex-book --example tiled_mma`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{Arch, Value};
use colex_gpu::tensor::Builder;
use colex_layout::{Layout, layout};
use colex_tiled::{Operand, Tensor, TiledCopy, TiledMma};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    one_atom()?;
    four_atoms()?;
    larger_tile()?;
    permutation()?;
    permuted_rows()?;
    ampere()?;
    ampere_columns()?;
    widths()?;
    printed()?;
    rungs()?;
    executed()?;
    refusals()?;
    atoms_along_k()?;
    Ok(())
}

/// Makes a tiled MMA of a single atom.
fn one_atom() -> Result<(), Box<dyn Error>> {
    // ANCHOR: one_atom
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let one = layout!((1,1,1):(0,0,0));
    let bare = TiledMma::new(atom.clone(), &one, ..)?;
    let tiled = TiledMma::new(atom, &one, (8, 8, 4))?;
    assert_eq!(bare.threads(), 8);
    for operand in [Operand::A, Operand::B, Operand::C] {
        assert_eq!(bare.tv(operand)?, tiled.tv(operand)?);
    }
    assert_eq!(
        bare.tv(Operand::C)?,
        layout!((((2,2),4,2),((2,2,2),(1,1))):(((1,16),0,4),((8,2,32),(0,0)))),
    );
    // ANCHOR_END: one_atom
    Ok(())
}

/// Makes a tiled MMA of four atoms.
fn four_atoms() -> Result<(), Box<dyn Error>> {
    println!("\n== four_atoms ==");
    // ANCHOR: four_atoms
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), ..)?;
    assert_eq!(mma.thread_layout(), &layout!(((4,2),2,2,1):((1,16),8,4,0)));
    println!("{:?}", mma.tile_shape());

    let tile = Layout::identity((16, 16))?;
    for (thread, head) in [(0, "(0,0)"), (4, "(0,8)"), (8, "(8,0)"), (12, "(8,8)")] {
        let part = mma.slice(thread)?.partition(&tile, Operand::C)?;
        assert_eq!(part.start.to_string(), head);
    }
    // Index bits: (0 and 1), 2, 3, 4. Bit 2 is the atom along N.
    assert_eq!(
        mma.tv(Operand::C)?,
        layout!((((2,2),2,2,2),((2,2,2),(1,1))):(((1,32),128,8,4),((16,2,64),(0,0)))),
    );
    assert_eq!(
        mma.tv(Operand::A)?,
        layout!(((4,2,2,2),(4,(1,1))):((16,0,8,4),(1,(0,0))))
    );
    // ANCHOR_END: four_atoms
    Ok(())
}

/// Repeats the atoms over a larger tile.
fn larger_tile() -> Result<(), Box<dyn Error>> {
    println!("\n== larger_tile ==");
    // ANCHOR: larger_tile
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), (32, 32, 4))?;
    assert_eq!(mma.threads(), 32);

    let thread_0 = |operand| -> Result<Vec<String>, Box<dyn Error>> {
        let tile = Layout::identity(mma.operand_tile(operand))?;
        let values = mma.slice(0)?.partition(&tile, operand)?.values()?;
        Ok(values.iter().map(|at| format!("{at:#}")).collect())
    };
    let c = thread_0(Operand::C)?;
    println!("{:?}", [&c[0], &c[8], &c[16], &c[24]]);
    println!("{:?}", thread_0(Operand::A)?);
    // ANCHOR_END: larger_tile
    Ok(())
}

/// Permutes the rows of the tile.
fn permutation() -> Result<(), Box<dyn Error>> {
    println!("\n== permutation ==");
    // ANCHOR: permutation
    let order = layout!((4,4,2):(1,8,4));
    println!("{:?}", order.table()?);
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), "((4,4,2):(1,8,4),32,4)")?;
    let a = |thread| -> Result<Vec<String>, Box<dyn Error>> {
        let tile = Layout::identity((32, 4))?;
        let values = mma.slice(thread)?.partition(&tile, Operand::A)?.values()?;
        Ok(values.iter().map(|at| format!("{at:#}")).collect())
    };
    println!("{:?}", a(0)?);
    println!("{:?}", [&a(16)?[0], &a(8)?[0], &a(24)?[0]]);

    assert_eq!(
        mma.tv(Operand::A)?,
        layout!(((4,2,2,2),(4,(2,1))):((32,0,16,8),(1,(4,0))))
    );
    assert_eq!(
        mma.tv(Operand::C)?,
        layout!((((2,2),2,2,2),((2,2,2),(2,2))):(((1,64),256,16,8),((32,2,128),(4,512)))),
    );
    // ANCHOR_END: permutation
    Ok(())
}

/// Permutes rows, and partitions a tensor.
fn permuted_rows() -> Result<(), Box<dyn Error>> {
    println!("\n== permuted_rows ==");
    // ANCHOR: permuted_rows
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), "((4,4,2):(1,8,4),_,_)")?;
    println!(
        "{:?}",
        [1, 2].map(|mode| format!("{:#}", mma.permutation(mode)))
    );
    println!("{:?}", mma.tile_shape());

    let steps = mma.fragment_steps(&layout!((32,4):(1,32)), Operand::A)?;
    println!("{:#}", steps.permuted);
    println!("{:#}", steps.by_atom);
    // ANCHOR_END: permuted_rows
    Ok(())
}

/// Makes a tiled MMA of four warps.
fn ampere() -> Result<(), Box<dyn Error>> {
    println!("\n== ampere ==");
    // ANCHOR: ampere
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, &layout!((2,2,1):(1,2,0)), ..)?;
    println!("{:?}, {} threads", mma.tile_shape(), mma.threads());
    println!("{:#}", mma.thread_layout());
    println!("{:#}", mma.tv(Operand::C)?);
    println!("{:#}", mma.tv(Operand::A)?);
    for thread in [32, 64] {
        let tile = Layout::identity(mma.operand_tile(Operand::C))?;
        let part = mma.slice(thread)?.partition(&tile, Operand::C)?; // (MMA, MMA_M, MMA_N)
        println!("thread {thread} begins at {}", part.start);
    }
    // ANCHOR_END: ampere
    Ok(())
}

/// Permutes the columns of a tile of four warps.
fn ampere_columns() -> Result<(), Box<dyn Error>> {
    println!("\n== ampere_columns ==");
    // ANCHOR: ampere_columns
    let row_0 = |tile: &str, thread| -> Result<Vec<i64>, Box<dyn Error>> {
        let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
        let mma = TiledMma::new(atom, &layout!((2,2,1):(1,2,0)), tile)?;
        let c = Layout::identity(mma.operand_tile(Operand::C))?;
        let values = mma.slice(thread)?.partition(&c, Operand::C)?.values()?;
        let in_row_0 = values.iter().filter(|at| at.leaves()[0].value() == 0);
        Ok(in_row_0.map(|at| at.leaves()[1].value()).collect())
    };
    for tile in ["(_,32,_)", "(_,(2,4,2,2):(1,4,16,2),_)"] {
        let columns = [row_0(tile, 0)?, row_0(tile, 1)?, row_0(tile, 64)?];
        println!("{columns:?}");
    }
    // ANCHOR_END: ampere_columns
    Ok(())
}

/// Measures what the permutation is worth.
fn widths() -> Result<(), Box<dyn Error>> {
    println!("\n== widths ==");
    // ANCHOR: widths
    let a = layout!((32,4):(1,32)); // halves, by columns
    let report = |tile: &str, copy: &str| -> Result<String, Box<dyn Error>> {
        let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
        let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), tile)?;
        let copy = TiledCopy::for_operand(colex_atom::copy(copy)?, 16, &mma, Operand::A)?;
        Ok(copy.report(&a, &a)?.to_string())
    };
    let before = report("(32,32,4)", "UniversalCopy<uint64_t>")?;
    println!("8 bytes, without the permutation:\n{before}");
    let wider = report("(32,32,4)", "UniversalCopy<uint128_t>")?;
    println!("16 bytes, without the permutation:\n{wider}");

    let after = report("((4,4,2):(1,8,4),32,4)", "UniversalCopy<uint128_t>")?;
    println!("16 bytes, with the permutation:\n{after}");
    // ANCHOR_END: widths
    Ok(())
}

/// Prints a tiled MMA as CuTe does.
fn printed() -> Result<(), Box<dyn Error>> {
    println!("\n== printed ==");
    // ANCHOR: printed
    let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    let tile = "((_4,_4,_2):(_1,_8,_4),_32,_4)";
    let mma = TiledMma::new(atom, &layout!((_2,_2):(_2,_1)), tile)?;
    println!("{mma}");
    assert!(mma.latex()?.starts_with(
        "% LayoutC: ArithTuple(_0,_0) o (((_2,_2),_2,_2,_2),((_2,_2,_2),(_2,_2))):\
     (((_1@0,_2@1),_8@1,_16@0,_8@0),((_1@1,_2@0,_4@1),(_4@0,_16@1)))\n"
    ));
    assert!(mma.picture_of(0)?.svg().contains(">T31</text>"));
    // ANCHOR_END: printed
    Ok(())
}

/// Counts the instructions of one step, from the fragments of a thread and in a kernel.
fn rungs() -> Result<(), Box<dyn Error>> {
    println!("\n== rungs ==");
    // ANCHOR: rungs
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, &layout!((2,2,1):(1,2,0)), ..)?;
    let mine = mma.slice(0)?;
    let held = |m, n, operand| mine.fragment(&Layout::column_major((m, n))?, operand);
    let a = held(64, 32, Operand::A)?; // (MMA, MMA_M, MMA_K)
    let b = held(48, 32, Operand::B)?; // (MMA, MMA_N, MMA_K)
    let c = held(64, 48, Operand::C)?; // (MMA, MMA_M, MMA_N)
    println!("{}  {}  {}", a.shape(), b.shape(), c.shape());

    let mut k = Builder::new("step", Arch::Sm80, 128);
    let a = k.fragment_of(&mma, Operand::A, [64, 32]); // (MMA, MMA_M, MMA_K)
    let b = k.fragment_of(&mma, Operand::B, [48, 32]); // (MMA, MMA_N, MMA_K)
    let c = k.accumulators(&mma, [64, 48]); // (MMA, MMA_M, MMA_N)
    k.clear(&a);
    k.clear(&b);
    k.mma(&mma, &c, &a, &b, &c);
    let text = k.finish()?.kernel.ptx()?;
    println!("{} instructions", text.matches("mma.sync").count());
    // ANCHOR_END: rungs
    Ok(())
}

/// Multiplies, thread by thread, and compares with the product.
fn executed() -> Result<(), Box<dyn Error>> {
    // ANCHOR: executed
    let real = |x: i64| Value::Real(x as f64);
    let a: Vec<Value> = (0..64 * 8).map(|i| real(i % 7 - 3)).collect();
    let b: Vec<Value> = (0..32 * 8).map(|i| real(i % 5 - 2)).collect();
    let mut truth = Vec::new(); // by columns
    for (m, n) in (0..32).flat_map(|n| (0..64).map(move |m| (m, n))) {
        let product = |k: i64| ((m + 64 * k) % 7 - 3) * ((n + 32 * k) % 5 - 2);
        truth.push(real((0..8).map(product).sum()));
    }
    for tile in ["_", "(32,32,4)", "((4,4,2):(1,8,4),32,4)"] {
        let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
        let mma = TiledMma::new(atom, &layout!((2,2):(2,1)), tile)?;
        let a = Tensor::new(&a[..], layout!((64,8):(1,64)))?;
        let b = Tensor::new(&b[..], layout!((32,8):(1,32)))?;
        let mut c = Tensor::new(vec![real(0); 64 * 32], layout!((64,32):(1,64)))?;
        mma.gemm(&a, &b, &mut c)?;
        assert_eq!(c.elements()?, truth.iter().collect::<Vec<_>>());
    }
    // ANCHOR_END: executed
    Ok(())
}

/// Shows tiles that the atoms do not divide.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let new = |atoms, tile: &str| {
        let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT").expect("it is in the table");
        TiledMma::new(atom, &atoms, tile)
    };
    println!("{}", new(layout!((2,2):(2,1)), "(24,32,4)").unwrap_err());
    // Rows 8 to 15 are not among the values of (4,4,2):(1,16,4).
    let gaps = new(layout!((2,2):(2,1)), "((4,4,2):(1,16,4),32,4)")?;
    let refused = gaps.tv(Operand::A).unwrap_err().to_string();
    assert!(refused.ends_with("the order of a mode is not a permutation of it"));
    // ANCHOR_END: refusals
    Ok(())
}

/// Puts atoms along K, where CuTe's layout of C goes wrong (D6).
fn atoms_along_k() -> Result<(), Box<dyn Error>> {
    println!("\n== atoms_along_k ==");
    // ANCHOR: atoms_along_k
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, &layout!((2,2,2):(1,2,4)), ..)?;
    println!("{:?}", mma.tile_shape());
    let ours = mma.tv(Operand::C)?;
    assert_eq!(
        ours,
        layout!(((4,8,2,2,2),((2,2),(1,1))):((64,1,16,256,0),((32,8),(0,0))))
    );
    assert_eq!(ours.cosize()?, 32 * 16);

    let cute: Layout = "((4,8,2,4),((2,2),(1,1))):((64,1,16,256),((32,8),(0,0)))".parse()?;
    assert_eq!(cute.cosize()? - 1, 1023); // of a tile of 512
    // ANCHOR_END: atoms_along_k
    Ok(())
}
