//! Drawings: tables of offsets as text, SVG and LaTeX.
//!
//! Run it with `cargo run -p colex-book --example layout_drawing`; each line `== .. ==` names a piece of the chapter.

use colex_draw::{
    ColorBy, Fill, LabelBy, Picture, Table, ThreadValues, Tiling, banks, print_latex, print_layout,
};
use std::error::Error;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    text()?;
    table()?;
    function()?;
    tiling()?;
    thread_values()?;
    three_operands()?;
    latex()?;
    files()?;
    refusals()?;
    Ok(())
}

/// Prints a layout as a table.
fn text() -> Result<(), Box<dyn Error>> {
    println!("\n== text ==");
    // ANCHOR: text
    print!("{}", print_layout("((2,2),3):((1,2),4)")?);
    // ANCHOR_END: text
    Ok(())
}

/// Asks a drawing for one of its cells.
fn table() -> Result<(), Box<dyn Error>> {
    println!("\n== table ==");
    // ANCHOR: table
    let table = Table::of("(4,8):(8,1)")?;
    let picture = table.picture(ColorBy::Cycle, LabelBy::Offset);

    let grid = picture.grids().next().expect("it has one grid");
    println!("{:?}", grid.cell(1, 3).lines.as_slice());
    assert_eq!(grid.cell(1, 3).fill, Fill::Pastel(3)); // 11 modulo 8

    let svg = picture.svg();
    assert!(svg.starts_with("<svg ") && svg.contains(">11</text>"));
    // ANCHOR_END: table
    Ok(())
}

/// Draws a function that is no layout.
fn function() -> Result<(), Box<dyn Error>> {
    // ANCHOR: function
    let xor = Table::from_fn("row ^ column", 8, 8, |row, col| row ^ col)?;
    let svg = xor.picture(ColorBy::Offset, LabelBy::Offset).svg();
    assert!(svg.contains(">offset 0 to 7</text>"));
    // ANCHOR_END: function
    Ok(())
}

/// Asks which columns belong to a tile.
fn tiling() -> Result<(), Box<dyn Error>> {
    println!("\n== tiling ==");
    // ANCHOR: tiling
    let tiling = Tiling::of("(4,8):(1,4)", "(2:2,(2,2):(1,4))")?;
    let mine: Vec<_> = (0..8)
        .filter(|col| tiling.tile(0, *col) == Some((0, 0)))
        .collect();
    println!("{mine:?}");
    // ANCHOR_END: tiling
    Ok(())
}

/// Asks which elements a thread holds.
fn thread_values() -> Result<(), Box<dyn Error>> {
    println!("\n== thread_values ==");
    // ANCHOR: thread_values
    let c = ThreadValues::of("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;
    let held: Vec<_> = (0..c.values()).map(|value| c.place(5, value)).collect();
    println!("{held:?}");
    println!("{:?}", c.owners(9, 2));
    // ANCHOR_END: thread_values
    Ok(())
}

/// Draws the three operands of a matrix instruction.
fn three_operands() -> Result<(), Box<dyn Error>> {
    // ANCHOR: three_operands
    let map = |text: &str, rows, cols| ThreadValues::of(text, rows, cols);
    let c = map("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))", 8, 8)?; // M x N
    let a = map("((4,2),4):((8,4),1)", 8, 4)?; // M x K
    let b = map("((4,2),4):((8,4),1)", 8, 4)?; // N x K, drawn transposed
    assert_eq!(ThreadValues::mma(&c, &a, &b)?.grids().count(), 3);
    // ANCHOR_END: three_operands
    Ok(())
}

/// Prints LaTeX.
fn latex() -> Result<(), Box<dyn Error>> {
    // ANCHOR: latex
    let page = print_latex("(2,2):(1,2)")?;
    assert!(page.contains("\\node[fill=black!60] at (1,1) {3};"));

    let page = ThreadValues::of("(4,2):(2,1)", 2, 4)?.latex();
    assert!(page.contains("at (1,3) {\\shortstack{T3 \\\\ V1}};"));
    // ANCHOR_END: latex
    Ok(())
}

/// Writes drawings of a layout to files.
fn files() -> Result<(), Box<dyn Error>> {
    println!("\n== files ==");
    // ANCHOR: files
    let layout = "((2,2),(2,4)):((1,4),(2,8))";
    let table = Table::of(layout)?;
    let picture = table.picture(ColorBy::Offset, LabelBy::Offset);
    let grid = table.grid(ColorBy::Cycle, LabelBy::Offset);
    let row = Picture::of(grid.focus(|row, _column| row == 1));

    let tiling = Tiling::of("(8,8):(8,1)", "(4,2)")?;
    let tile = tiling.picture_of((1, 2), LabelBy::Offset);
    let map = ThreadValues::of("((4,8),(2,2)):((32,1),(16,8))", 16, 8)?;

    let (plain, swizzled) = (
        Table::of("(8,32):(32,1)")?,
        Table::of("Sw<3,2,3> o 0 o (8,32):(32,1)")?,
    );
    let both = banks(&plain, &swizzled, 32, LabelBy::Bank(32)); // elements of 32 bits
    let folder = env::temp_dir(); // or any folder of yours
    for (name, text) in [
        ("layout.svg", picture.svg()),
        ("row.svg", row.svg()),
        ("tile.svg", tile.svg()),
        ("thread.svg", map.picture_of(5).svg()),
        ("banks.svg", both.svg()),
        ("layout.tex", print_latex(layout)?),
    ] {
        fs::write(folder.join(name), text)?;
        println!("{name}");
    }
    // ANCHOR_END: files
    Ok(())
}

/// Shows what cannot be drawn.
fn refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== refusals ==");
    // ANCHOR: refusals
    let error = Table::of("(512,512):(1,512)").unwrap_err();
    println!("{error}");
    let error = ThreadValues::of("(4,2):(1,4)", 2, 2).unwrap_err();
    println!("{error}");
    // ANCHOR_END: refusals
    Ok(())
}
