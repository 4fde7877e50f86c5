//! Boxes of TMA, by an inverse and a composition; im2col as a layout.
//!
//! Run it with `cargo run -p colex-book --example atom_tma`; each line `== .. ==` names a piece of the chapter.

use colex_atom::{
    Im2colPlan, Im2colTile, Interleave, L2Promotion, OobFill, Taps, TensorMap, TmaElement, TmaPlan,
    TmaSwizzle, TmaTile,
};
use colex_layout::{ComposedLayout, Layout, Tiler};
use std::collections::HashMap;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    tma()?;
    tma_boxes()?;
    tma_strided()?;
    interleaved()?;
    im2col()?;
    im2col_refusals()?;
    tma_law()?;
    tma_refusals()?;
    Ok(())
}

/// Plans a TMA copy of a tile by rows.
fn tma() -> Result<(), Box<dyn Error>> {
    println!("\n== tma ==");
    // ANCHOR: tma
    let (global, tile): (Layout, Tiler) = ("(1024,256):(256,1)".parse()?, "(128,64)".parse()?);
    let inner: Layout = "(128,64):(64,1)".parse()?;

    let back = inner.right_inverse()?;
    println!("{back:#}");
    let places = Layout::identity(global.shape())?.composition(&tile)?;
    println!("{:#}", places.composition(&back)?);

    let plan = TmaPlan::new(TmaTile {
        global: &global,
        tile: &tile,
        shared: "Sw<3,3,3> o 0 o (128,64):(64,1)",
        element: TmaElement::F16,
        multicast: 1, // for one block
    })?;
    println!("{}", plan.box_layout());
    let map = plan.map();
    assert_eq!(
        (&map.dims[..], &map.strides[..], &map.extents[..]),
        (&[256, 1024][..], &[512][..], &[64, 128][..])
    );
    assert_eq!(map.swizzle, TmaSwizzle::B128);
    println!("{}", plan.load()?.name()); // 131072 bits: 128 * 64 * 16
    // ANCHOR_END: tma
    Ok(())
}

/// Plans a TMA copy that takes 16 boxes, and one of the same tile that takes two.
fn tma_boxes() -> Result<(), Box<dyn Error>> {
    println!("\n== tma_boxes ==");
    // ANCHOR: tma_boxes
    let plan_of = |shared: &str| {
        TmaPlan::new(TmaTile {
            global: "(1024,256):(1,1024)",
            tile: (128, 64),
            shared,
            element: TmaElement::F16,
            multicast: 1,
        })
    };
    let plan = plan_of("Sw<3,3,3> o 0 o ((64,2),(8,8)):((1,512),(64,1024))")?;
    println!("{}", plan.box_layout());
    let instructions = plan.instructions()?;
    assert_eq!(instructions.len(), 16);
    assert_eq!(
        (instructions[1].shared, instructions[1].coordinates.clone()),
        (512, vec![64, 0])
    );
    assert_eq!(
        (instructions[2].shared, instructions[2].coordinates.clone()),
        (1024, vec![0, 8])
    );

    let square = plan_of("Sw<3,3,3> o 0 o ((64,2),64):((1,4096),64)")?; // blocks of 64 by 64
    println!("{}", square.box_layout());
    assert_eq!(square.instructions()?.len(), 2);
    // ANCHOR_END: tma_boxes
    Ok(())
}

/// Plans a TMA copy of every fourth row.
fn tma_strided() -> Result<(), Box<dyn Error>> {
    println!("\n== tma_strided ==");
    // ANCHOR: tma_strided
    let plan = TmaPlan::new(TmaTile {
        global: "(200,256):(256,1)",
        tile: "(32:4,32)",
        shared: "(32,32):(32,1)",
        element: TmaElement::F32,
        multicast: 1,
    })?;
    println!("{}", plan.box_layout());
    assert_eq!(
        (&plan.map().extents[..], &plan.map().element_strides[..]),
        (&[32, 128][..], &[1, 4][..])
    );
    assert_eq!(
        (plan.instructions()?.len(), plan.map().box_bytes()),
        (1, 32 * 32 * 4)
    );
    // ANCHOR_END: tma_strided
    Ok(())
}

/// Describes a tensor of interleaved slices.
fn interleaved() -> Result<(), Box<dyn Error>> {
    // ANCHOR: interleaved
    // Two images of 20 by 12 pixels with 24 channels of 2 bytes: three slices of 8.
    let map = TensorMap {
        element: TmaElement::F16,
        dims: vec![20, 12, 3, 2],
        strides: vec![20 * 16, 12 * 20 * 16, 3 * 12 * 20 * 16],
        extents: vec![8, 2, 1, 1],
        element_strides: vec![1; 4],
        im2col: None,
        swizzle: TmaSwizzle::None,
        interleave: Interleave::B16,
        l2: L2Promotion::default(),
        fill: OobFill::default(),
    };
    assert_eq!(map.box_bytes(), 8 * 2 * 16);
    let first = |w, h, slice, n| {
        map.loaded(&[w, h, slice, n])
            .map(|elements| elements[0].global)
    };
    assert_eq!(first(5, 0, 0, 0)?, Some(5 * 16));
    assert_eq!(first(0, 0, 2, 1)?, Some((3 + 2) * 12 * 20 * 16));
    assert_eq!(first(0, 0, 3, 0)?, None); // There is no fourth slice: zeros.
    // ANCHOR_END: interleaved
    Ok(())
}

/// Plans an im2col copy, and follows two taps.
fn im2col() -> Result<(), Box<dyn Error>> {
    println!("\n== im2col ==");
    // ANCHOR: im2col
    let three = Taps {
        padding: [1, 1],
        ..Taps::new(3)
    };
    let plan = Im2colPlan::new(Im2colTile {
        activations: "(8,4,4,2):(1,8,32,128)", // channels, W, H, images
        taps: &[three, three],
        shared: "(16,8):(8,1)", // 16 positions and 8 channels, channels first
        element: TmaElement::F32,
        multicast: 1,
    })?;
    println!("{:#}", plan.matrix());
    let corners = plan.map().im2col.as_ref().unwrap();
    assert_eq!(
        (&corners.lower[..], &corners.upper[..]),
        (&[-1, -1][..], &[-1, -1][..])
    );
    println!("{}", plan.load()?.name());

    // Rows 0 to 15 of A under a tap: which pixel, or none.
    let seen = |tap: [i64; 2]| -> Result<Vec<Option<i64>>, Box<dyn Error>> {
        let start = plan.start(0, 0, &tap)?;
        assert_eq!(start.coordinates, [0, -1, -1, 0]);
        let column = plan.map().loaded_at(&start.coordinates, &start.offsets)?;
        Ok(column
            .iter()
            .step_by(8)
            .map(|x| x.global.map(|byte| byte / 32))
            .collect())
    };
    assert_eq!(seen([1, 1])?, (0..16).map(Some).collect::<Vec<_>>());
    // The first tap sees the pixel above and to the left.
    let (line, none) = (
        |first| [None, Some(first), Some(first + 1), Some(first + 2)],
        [None; 4],
    );
    assert_eq!(seen([0, 0])?, [none, line(0), line(4), line(8)].concat());
    // ANCHOR_END: im2col
    Ok(())
}

/// Shows what an im2col copy cannot do.
fn im2col_refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== im2col_refusals ==");
    // ANCHOR: im2col_refusals
    let refused = |taps: Taps, shared: &str| {
        let plan = Im2colPlan::new(Im2colTile {
            activations: "(32,8,2):(1,32,256)",
            taps: &[taps],
            shared,
            element: TmaElement::F32,
            multicast: 1,
        });
        plan.unwrap_err().to_string()
    };
    println!("{}", refused(Taps::new(9), "(16,32):(32,1)"));
    println!("{}", refused(Taps::new(3), "(16,32):(1,16)"));
    // ANCHOR_END: im2col_refusals
    Ok(())
}

/// Compares what TMA writes, byte by byte, with the layouts.
fn tma_law() -> Result<(), Box<dyn Error>> {
    // ANCHOR: tma_law
    let (global, tile): (Layout, Tiler) = ("(200,256):(256,1)".parse()?, "(64,32)".parse()?);
    let shared: ComposedLayout = "Sw<3,2,3> o 0 o (64,32):(32,1)".parse()?;
    let plan = TmaPlan::new(TmaTile {
        global: &global,
        tile: &tile,
        shared: &shared,
        element: TmaElement::F32,
        multicast: 1,
    })?;

    let mut memory = HashMap::new(); // byte of shared memory -> byte of the tensor
    for instruction in plan.instructions()? {
        for element in plan.map().loaded(&instruction.coordinates)? {
            let unswizzled = 4 * instruction.shared + element.shared;
            memory.insert(
                plan.map().swizzle.on_bytes().apply(unswizzled),
                element.global,
            );
        }
    }
    let offsets = global.composition(&tile)?;
    for i in 0..64 * 32 {
        assert_eq!(memory[&(4 * shared.at(i)?)], Some(4 * offsets.at(i)?));
    }
    // ANCHOR_END: tma_law
    Ok(())
}

/// Shows what TMA cannot do.
fn tma_refusals() -> Result<(), Box<dyn Error>> {
    println!("\n== tma_refusals ==");
    // ANCHOR: tma_refusals
    let refused = |global: &str, tile: &str, shared: &str| {
        let plan = TmaPlan::new(TmaTile {
            global,
            tile,
            shared,
            element: TmaElement::F32,
            multicast: 1,
        });
        plan.unwrap_err().to_string()
    };
    // Padding.
    println!(
        "{}",
        refused("(1024,256):(256,1)", "(64,32)", "(64,32):(40,1)")
    );
    // A transpose on the way.
    println!(
        "{}",
        refused("(1024,256):(256,1)", "(64,32)", "(64,32):(1,64)")
    );
    // Rows of 254 floats.
    println!(
        "{}",
        refused("(1024,254):(254,1)", "(64,32)", "(64,32):(32,1)")
    );
    // Rows wider than the swizzle.
    println!(
        "{}",
        refused(
            "(1024,256):(256,1)",
            "(64,64)",
            "Sw<3,2,3> o 0 o (64,64):(64,1)"
        )
    );
    // ANCHOR_END: tma_refusals
    Ok(())
}
