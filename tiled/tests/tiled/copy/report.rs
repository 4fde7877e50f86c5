//! Reports of tiled copies whose numbers can be counted by hand.

use std::error::Error;

use colex_atom::Space;
use colex_layout::Layout;
use colex_tiled::{CopyReport, TiledCopy, Traffic};

type Outcome = Result<(), Box<dyn Error>>;

fn report(copy: &TiledCopy, src: &str, dst: &str) -> Result<CopyReport, Box<dyn Error>> {
    Ok(copy.report(src, dst)?)
}

fn copy(
    atom: &str,
    spaces: [Space; 2],
    bits: i64,
    threads: &str,
    values: &str,
) -> Result<TiledCopy, Box<dyn Error>> {
    let mut atom = colex_atom::copy(atom)?;
    if [atom.from(), atom.to()] != spaces {
        atom = atom.between(spaces[0], spaces[1])?;
    }
    let (threads, values): (Layout, Layout) = (threads.parse()?, values.parse()?);
    Ok(TiledCopy::new(atom, bits, &threads, &values)?)
}

#[test]
fn a_coalesced_load_touches_what_it_needs() -> Outcome {
    let load = copy(
        "UniversalCopy<uint128_t>",
        [Space::Global, Space::Register],
        32,
        "(32,4):(1,32)",
        "(4,1):(1,4)",
    )?;
    let report = report(&load, "(128,32):(1,128)", "(128,32):(1,128)")?;
    // 128 by 32 floats are 16384 bytes, 512 sectors.
    assert_eq!(
        report.source,
        Some(Traffic::Global {
            sectors: 512,
            least: 512,
            first: None
        })
    );
    assert_eq!(
        (report.bits, report.instructions, report.widest),
        ([128, 128], 8, 4)
    );
    assert_eq!(
        report.to_string(),
        "128 threads issue 8 instructions each; a thread gives 128 bits and gets 128.\n\
         A thread needs 32 registers for all.\n\
         Every element is written.\n\
         The widest legal vector is 4 values.\n\
         The source's requests touch 512 sectors of 32 bytes, and 512 would do.\n"
    );
    Ok(())
}

#[test]
fn rows_of_128_bytes_meet_in_the_banks() -> Outcome {
    let load = copy(
        "SM75_U32x4_LDSM_N",
        [Space::Shared, Space::Register],
        16,
        "32:1",
        "8:1",
    )?;
    // One row of 8 halves for each of 32 lanes, 128 bytes apart: 8 rows of a phase meet in 4 banks.
    let tensor = TiledCopy::for_operand(
        load.atom().clone(),
        16,
        &colex_tiled::TiledMma::new(
            colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
            "(1,1,1):(0,0,0)",
            &colex_layout::Tiler::All,
        )?,
        colex_tiled::Operand::A,
    )?;
    let padded = report(&tensor, "(16,16):(72,1)", "(16,16):(16,1)")?;
    assert_eq!(
        padded.source,
        Some(Traffic::Shared {
            passes: 4,
            least: 4,
            degree: 1,
            thread: 0,
            first: None
        })
    );
    let bare = report(&tensor, "(16,16):(64,1)", "(16,16):(16,1)")?;
    assert_eq!(
        bare.source,
        Some(Traffic::Shared {
            passes: 32,
            least: 4,
            degree: 8,
            thread: 0,
            first: Some(Box::new((0, (0, 0).into())))
        })
    );
    assert!(bare.to_string().ends_with(
        "The source's accesses take 32 passes, and 4 would do: 8 words meet in a bank, first for thread 0, from (0,0) on.\n"
    ));
    Ok(())
}

#[test]
fn a_tile_too_large_leaves_threads_idle() -> Outcome {
    let store = copy(
        "UniversalCopy<uint32_t>",
        [Space::Register, Space::Global],
        32,
        "(8,16):(1,8)",
        "(2,4):(1,2)",
    )?;
    let report = report(&store, "(24,16):(1,24)", "(24,16):(1,24)")?;
    // S65: 2048 coordinates of which 384 are inside; threads 32.. start at column 16.
    assert_eq!(report.outside.0, 1664);
    assert_eq!(report.idle, (32..128).collect::<Vec<_>>());
    let text = report.to_string();
    assert!(
        text.contains("1664 coordinates lie outside of the tensor, first (24,0) by thread 4.\n"),
        "{text}"
    );
    assert!(
        text.contains("96 threads are idle, thread 32 the first.\n"),
        "{text}"
    );
    Ok(())
}

/// Rows of 6 floats: the second row of 24 bytes starts between two vectors of 16.
#[test]
fn the_first_thread_that_is_not_aligned_is_named() -> Outcome {
    let load = copy(
        "UniversalCopy<uint32_t>",
        [Space::Global, Space::Register],
        32,
        "(4,1):(1,0)",
        "(1,4):(0,1)",
    )?;
    let report = report(&load, "(4,4):(6,1)", "(4,4):(1,4)")?;
    assert_eq!(report.widest, 1);
    let alone = load.report("(4,4):(6,1)", "(4,4):(6,1)")?;
    assert_eq!(alone.widest, 2);
    assert_eq!(
        alone.narrow.map(|narrow| narrow.to_string()).as_deref(),
        Some("Not 4: (1,0) of the source, of thread 1, is at offset 6, not at a multiple of 4.")
    );
    Ok(())
}

/// Boxes of 64 by 64 halves of a matrix of 128 by 128: rows of 128 bytes in global memory, each box in one piece in
/// shared memory.
#[test]
fn boxes_of_the_copy_engine() -> Outcome {
    let atom = colex_atom::copy("SM90_TMA_LOAD_2D")?.with_bits(64 * 64 * 16)?;
    let load = TiledCopy::new(atom, 16, "(1,1):(0,0)", "(64,64):(64,1)")?;
    let shared = "((64,2),(64,2)):((64,4096),(1,8192))";
    let even = report(&load, "(128,128):(128,1)", shared)?;
    assert_eq!(
        even.to_string(),
        "1 thread issues 4 instructions each; a thread gives 65536 bits and gets 65536.\n\
         Every element is written.\n\
         The widest legal vector is 8 values.\n\
         The source's 4 requests of 8192 bytes fall into 256 stretches, the shortest of 128 bytes; they touch 1024 \
         sectors of 32 bytes, and 1024 would do.\n\
         The destination's 4 requests of 8192 bytes fall into 4 stretches, the shortest of 8192 bytes; they touch 256 \
         rows of 128 bytes, and 256 would do.\n"
    );
    // Rows of 260 bytes: 4 bytes later in its sector from row to row, 7 of 8 rows touch a fifth sector.
    let odd = report(&load, "(128,128):(130,1)", shared)?;
    let text = odd.to_string();
    let Some(Traffic::Bulk { units, least, .. }) = odd.source else {
        panic!("the copy engine makes requests of its own");
    };
    assert_eq!((units, least), (4 * (8 * 4 + 56 * 5), 1024));
    assert!(
        text.contains("they touch 1248 sectors of 32 bytes, and 1024 would do. The first to touch more is thread 0, from (0,0) on.\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_bulk_copy_takes_one_stretch() -> Outcome {
    let atom = colex_atom::copy("SM90_BULK_COPY_G2S")?.with_bits(256 * 16)?;
    let load = TiledCopy::new(atom, 16, "1:0", "256:1")?;
    let straight = report(&load, "1024:1", "1024:1")?;
    assert_eq!(
        straight.source,
        Some(Traffic::Bulk {
            requests: 4,
            bytes: 512,
            stretches: 4,
            shortest: 512,
            unit: 32,
            units: 64,
            least: 64,
            first: None
        })
    );
    let text = report(&load, "1024:2", "1024:1")?.to_string();
    assert!(
        text.contains("The source's values from 0 on, of thread 0, are not contiguous and aligned"),
        "{text}"
    );
    Ok(())
}

/// Blackwell's loads of 32 bytes per thread: a sector each.
#[test]
fn vectors_of_32_bytes() -> Outcome {
    let load = TiledCopy::new(
        colex_atom::copy("SM100_LOAD_256bit_CACHE_NOALLOCATION")?,
        32,
        "32:1",
        "8:1",
    )?;
    let report = report(&load, "512:1", "512:1")?;
    assert_eq!(
        report.source,
        Some(Traffic::Global {
            sectors: 64,
            least: 64,
            first: None
        })
    );
    Ok(())
}

#[test]
fn what_is_missing_and_what_is_written_again() -> Outcome {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>")?;
    // Eight threads over a tile of 8: all of them name the first four.
    let copy = TiledCopy::from_tv(
        atom,
        32,
        "((4,2),1):((1,0),0)".parse::<Layout>()?.to_static(),
        [8],
    )?;
    let report = report(&copy, "8:1", "8:1")?;
    assert_eq!((report.missing.0, report.repeated.0), (4, 4));
    let text = report.to_string();
    assert!(
        text.contains("4 elements are not written, 4 the first.\n"),
        "{text}"
    );
    assert!(
        text.contains("4 elements are written again, first 0 by thread 4.\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_vector_that_is_not_contiguous_is_no_vector() -> Outcome {
    let load = copy(
        "UniversalCopy<uint128_t>",
        [Space::Global, Space::Register],
        32,
        "(8,4):(1,8)",
        "(4,1):(1,4)",
    )?;
    let report = report(&load, "(32,4):(4,1)", "(32,4):(1,32)")?;
    assert_eq!(report.widest, 1);
    let text = report.to_string();
    assert!(
        text.contains(
            "The source's values from (0,0) on, of thread 0, are not contiguous and aligned"
        ),
        "{text}"
    );
    assert!(
        text.contains("The widest legal vector is 1 value.\nNot 2: (1,0) of the source, of thread 0, is at offset 4, not at 1.\n"),
        "{text}"
    );
    Ok(())
}

/// Of `stmatrix.x1` eight lanes pass addresses that count: the others repeat them, and write nothing.
#[test]
fn addresses_that_are_not_looked_at_write_nothing() -> Outcome {
    for (atom, values) in [
        ("SM90_U32x1_STSM_N", "2:1"),
        ("SM90_U32x2_STSM_N", "4:1"),
        ("SM90_U32x4_STSM_N", "8:1"),
    ] {
        let store = copy(atom, [Space::Register, Space::Shared], 16, "32:1", values)?;
        let n = store.tile_shape()?.product()?.value();
        let report = report(&store, &format!("{n}:1"), &format!("{n}:1"))?;
        assert_eq!(
            (report.missing.0, report.repeated.0, report.idle.len()),
            (0, 0, 0),
            "{report}"
        );
        assert_eq!(report.registers as i64, report.bits[0] / 32, "{report}");
    }
    Ok(())
}

/// A thread that has fewer values than a vector: the sentence says so.
#[test]
fn a_vector_has_values_enough() -> Outcome {
    let told = |values: &str, n: i64| -> Result<Option<String>, Box<dyn Error>> {
        let load = copy(
            "UniversalCopy<uint16_t>",
            [Space::Global, Space::Register],
            16,
            "4:1",
            values,
        )?;
        let report = report(&load, &format!("{n}:1"), &format!("{n}:1"))?;
        Ok(report.narrow.map(|narrow| narrow.to_string()))
    };
    assert_eq!(
        told("1:0", 4)?.as_deref(),
        Some("Not 2: from 0 of the source on, thread 0 has 1 value.")
    );
    assert_eq!(
        told("4:1", 16)?.as_deref(),
        Some("Not 8: from 0 of the source on, thread 0 has 4 values.")
    );
    Ok(())
}

/// Half a register is a register: one and three values of 16 bits take one and two.
#[test]
fn registers_are_whole() -> Outcome {
    for (values, registers) in [("1:0", 1), ("2:1", 1), ("3:1", 2)] {
        let load = copy(
            "UniversalCopy<uint16_t>",
            [Space::Global, Space::Register],
            16,
            "32:1",
            values,
        )?;
        let n = load.tile_shape()?.product()?.value();
        let report = report(&load, &format!("{n}:1"), &format!("{n}:1"))?;
        assert_eq!(report.registers, registers, "{report}");
    }
    Ok(())
}
