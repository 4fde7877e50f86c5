//! Sectors and passes of a report, counted again from the partitions of the threads.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;

use colex_atom::{CopyAtom, Space};
use colex_layout::{ComposedLayout, IntTuple, Layout};
use colex_tiled::{CopyReport, Operand, TiledCopy, TiledMma, Traffic};

/// The lanes of a warp that take part, each with the byte at which it starts.
type Request = Vec<(i64, i64)>;

type Outcome = Result<(), Box<dyn Error>>;

fn universal(bits: i64, from: Space) -> Result<CopyAtom, Box<dyn Error>> {
    let atom = colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>"))?;
    Ok(atom.between(from, Space::Register)?)
}

/// The requests of every warp, instruction by instruction; nothing where the values of one are no vector.
fn requests(copy: &TiledCopy, src: &Layout) -> Result<Option<Vec<Request>>, Box<dyn Error>> {
    let shape = src.shape().product_each()?;
    let identity = Layout::identity(&shape)?;
    let vector = copy.atom_values();
    let mut requests: HashMap<(i64, i64), Request> = HashMap::new();
    for thread in 0..copy.threads() {
        let part = copy.slice(thread)?.partition_src(&identity)?;
        let coords = part.values()?;
        for (i, coords) in (0..).zip(coords.chunks(vector as usize)) {
            let offsets = coords.iter().map(|c| src.at(c));
            let Ok(offsets) = offsets.collect::<Result<Vec<i64>, _>>() else {
                continue;
            };
            let is_vector = (offsets[0]..).zip(&offsets).all(|(next, at)| next == *at);
            if !is_vector || offsets[0] % vector != 0 {
                return Ok(None);
            }
            let byte = offsets[0] * copy.value_bits() / 8;
            requests
                .entry((thread / 32, i))
                .or_default()
                .push((thread % 32, byte));
        }
    }
    Ok(Some(requests.into_values().collect()))
}

/// The different units of `unit` bytes that a request touches.
fn touched(request: &[(i64, i64)], bytes: i64, unit: i64) -> BTreeSet<i64> {
    let each = request.iter().flat_map(|(_, byte)| *byte..byte + bytes);
    each.map(|byte| byte.div_euclid(unit)).collect()
}

/// Passes, phases, and the most words in a bank: lanes of one phase are those whose number times their bytes lies in one
/// row of 128 bytes, of fewer than four bytes all.
fn passes(request: &[(i64, i64)], bytes: i64) -> (usize, usize, usize) {
    let mut phases: HashMap<i64, Request> = HashMap::new();
    for lane in request {
        phases
            .entry(lane.0 * bytes.max(4) / 128)
            .or_default()
            .push(*lane);
    }
    let degree = |lanes: &Request| {
        let mut banks = [0; 32];
        for word in touched(lanes, bytes, 4) {
            banks[word.rem_euclid(32) as usize] += 1;
        }
        banks.into_iter().max().unwrap_or(0)
    };
    let degrees: Vec<usize> = phases.values().map(degree).collect();
    (
        degrees.iter().sum(),
        degrees.len(),
        degrees.iter().copied().max().unwrap_or(0),
    )
}

fn tensors(rows: i64, columns: i64) -> Result<Vec<Layout>, Box<dyn Error>> {
    let texts = [
        format!("({rows},{columns}):(1,{rows})"),
        format!("({rows},{columns}):({columns},1)"),
        format!("({rows},{columns}):({},1)", columns + 8),
        format!("({rows},{columns}):({},1)", -2 * columns),
        format!("({rows},{columns}):(0,1)"),
    ];
    let mut tensors: Vec<Layout> = texts
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    if columns == 64 && rows % 8 == 0 {
        let swizzled: ComposedLayout = format!("Sw<3,3,3> o 0 o ({rows},64):(64,1)").parse()?;
        tensors.extend(swizzled.to_xor().map(|(layout, _)| layout));
    }
    Ok(tensors)
}

#[test]
fn a_report_counts_what_the_partitions_name() -> Outcome {
    let (mut cases, mut conflicts, mut scatters) = (0, 0, 0);
    let threads = ["(8,4):(4,1)", "(4,8):(1,4)", "(16,4):(4,1)"];
    let extents = [(20, 24), (7, 13), (16, 64)];
    for (bits, value) in [(128, 16), (64, 16), (32, 32), (8, 8)] {
        for (threads, along) in threads.into_iter().flat_map(|t| [(t, 0), (t, 1)]) {
            let n = bits / value;
            let values = if along == 0 {
                format!("({n},1):(1,0)")
            } else {
                format!("(1,{n}):(0,1)")
            };
            for (rows, columns) in extents {
                for tensor in tensors(rows, columns)? {
                    for space in [Space::Global, Space::Shared] {
                        let copy =
                            TiledCopy::new(universal(bits, space)?, value, threads, &values)?;
                        let report =
                            copy.report(&tensor, &Layout::column_major((rows, columns))?)?;
                        let Some(requests) = requests(&copy, &tensor)? else {
                            let scattered = matches!(report.source, Some(Traffic::Scattered(_)));
                            assert!(scattered, "{tensor}\n{copy}\n{report}");
                            scatters += 1;
                            continue;
                        };
                        let bytes = bits / 8;
                        match report.source {
                            Some(Traffic::Global { sectors, least, .. }) => {
                                let count = |unit| {
                                    requests.iter().map(move |r| touched(r, bytes, unit).len())
                                };
                                assert_eq!(sectors, count(32).sum(), "{tensor}\n{copy}");
                                assert_eq!(
                                    least,
                                    count(1).map(|n| n.div_ceil(32)).sum(),
                                    "{tensor}\n{copy}"
                                );
                            }
                            Some(Traffic::Shared {
                                passes: found,
                                least,
                                degree,
                                ..
                            }) => {
                                let counted: Vec<_> =
                                    requests.iter().map(|r| passes(r, bytes)).collect();
                                assert_eq!(
                                    found,
                                    counted.iter().map(|c| c.0).sum(),
                                    "{tensor}\n{copy}"
                                );
                                assert_eq!(
                                    least,
                                    counted.iter().map(|c| c.1).sum(),
                                    "{tensor}\n{copy}"
                                );
                                assert_eq!(
                                    degree,
                                    counted.iter().map(|c| c.2).max().unwrap_or(0),
                                    "{tensor}\n{copy}"
                                );
                                conflicts += usize::from(degree > 1);
                            }
                            other => panic!("{other:?} is no traffic of {space:?}"),
                        }
                        cases += requests.len();
                    }
                }
            }
        }
    }
    assert!(scatters > 50, "only {scatters} reports of no vector");
    assert!(conflicts > 50, "only {conflicts} reports with conflicts");
    println!("law copy_report.a_report_counts_what_the_partitions_name: {cases} requests");
    Ok(())
}

fn report(threads: &str, src: &str) -> Result<CopyReport, Box<dyn Error>> {
    let copy = TiledCopy::new(universal(128, Space::Shared)?, 32, threads, "(4,1):(1,0)")?;
    let src: Layout = src.parse()?;
    Ok(copy.report(&src, &Layout::column_major(src.shape())?)?)
}

/// Of each group of four lanes two are outside: eight lanes that follow each other are a phase all the same.
#[test]
fn idle_lanes_are_lanes_of_their_phase() -> Outcome {
    let half = report("(4,8):(1,4)", "(8,8):(1,32)")?;
    assert_eq!(
        half.source,
        Some(Traffic::Shared {
            passes: 8,
            least: 4,
            degree: 2,
            thread: 0,
            first: Some(Box::new((0, (0, 0).into())))
        }),
        "{half}"
    );
    Ok(())
}

/// A tensor whose columns go backwards is read like one whose columns go forwards.
#[test]
fn offsets_below_0() -> Outcome {
    let forwards = report("(8,4):(1,8)", "(32,8):(1,32)")?;
    let backwards = report("(8,4):(1,8)", "(32,8):(1,-32)")?;
    assert_eq!(forwards.source, backwards.source);
    assert_eq!(backwards.widest, 4);
    Ok(())
}

/// A million elements are looked at, and more than 2^26 refused.
#[test]
fn tensors_of_the_size_of_a_problem() -> Outcome {
    let atom = universal(128, Space::Global)?;
    let copy = TiledCopy::new(atom, 16, "(32,8):(8,1)", "(1,8):(0,1)")?;
    let large: Layout = "(1024,1024):(1024,1)".parse()?;
    let report = copy.report(&large, &large)?;
    let sectors = 1024 * 1024 * 2 / 32;
    assert_eq!(
        report.source,
        Some(Traffic::Global {
            sectors,
            least: sectors,
            first: None
        })
    );
    let larger: Layout = "(65536,65536):(65536,1)".parse()?;
    assert_eq!(
        copy.report(&larger, &larger).unwrap_err().to_string(),
        "report: (65536,65536):(65536,1) has 4294967296 elements, and each of at most 67108864 is looked at: take a part \
         of whole tiles, the others are alike"
    );
    Ok(())
}

/// Of a narrow `ldmatrix` the lanes that repeat an address are not served again: one phase a matrix.
#[test]
fn addresses_that_are_repeated_make_no_phase() -> Outcome {
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    let mma = TiledMma::new(atom, "1:0", ..)?;
    let operand =
        |atom, operand| TiledCopy::for_operand(colex_atom::copy(atom)?, 16, &mma, operand);
    let one = TiledCopy::new(
        colex_atom::copy("SM75_U32x1_LDSM_N")?,
        16,
        "(8,4):(4,1)",
        "(1,2):(0,1)",
    )?;
    for (load, tile, matrices) in [
        (one, "(8,8):(24,1)", 1),
        (
            operand("SM75_U32x2_LDSM_N", Operand::B)?,
            "(8,16):(24,1)",
            2,
        ),
        (
            operand("SM75_U32x4_LDSM_N", Operand::A)?,
            "(16,16):(24,1)",
            4,
        ),
    ] {
        let tile: Layout = tile.parse()?;
        assert_eq!(
            load.report(&tile, &tile)?.source,
            Some(Traffic::Shared {
                passes: matrices,
                least: matrices,
                degree: 1,
                thread: 0,
                first: None
            }),
            "{load}"
        );
    }
    Ok(())
}

/// A complex number of three parts is stored eight bytes after eight: each part is a request of its own.
#[test]
fn values_of_24_bytes_go_part_by_part() -> Outcome {
    let mma = TiledMma::new(colex_atom::mma("SM80_8x8x4_GC64C64C64GC64_TN")?, "1:0", ..)?;
    let c: Layout = "(8,8):(1,10)".parse()?;
    let a: Layout = "(8,4):(1,8)".parse()?;
    let report = mma.report(
        (&a, Space::Register),
        (&a, Space::Register),
        (&c, Space::Global),
    )?;
    let parts: Vec<_> = (0..32)
        .map(|thread| mma.slice(thread)?.partition(&c, Operand::C)?.values())
        .collect::<Result<_, _>>()?;
    let (mut sectors, mut firsts, mut least) = (0, 0, 0);
    for (value, part) in (0..2).flat_map(|value| (0..3).map(move |part| (value, part))) {
        let byte = |values: &Vec<IntTuple>| 24 * values[value].leaves()[0].value() + 8 * part;
        let request: Request = (0..).zip(parts.iter().map(byte)).collect();
        let touches = touched(&request, 8, 32).len();
        sectors += touches;
        firsts += if part == 0 { touches } else { 0 };
        least += touched(&request, 8, 1).len().div_ceil(32);
    }
    assert_ne!(sectors, 3 * firsts, "the parts are alike");
    let Some(Traffic::Global {
        sectors: found,
        least: fewest,
        ..
    }) = report.operands[2].traffic
    else {
        panic!("{report}");
    };
    assert_eq!((found, fewest), (sectors, least), "{report}");
    Ok(())
}
