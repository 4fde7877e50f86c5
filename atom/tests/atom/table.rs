//! Loops over the whole MMA table.

use std::collections::{HashMap, HashSet};

use colex_atom::{Form, GmmaOptions, MmaAtom, RegClass, Rule, Ty, mma, mma_atoms, rows};
use colex_layout::Layout;

/// How often each coordinate of a tile is held, counted over threads and values.
fn copies(layout: &Layout, size: i64) -> Vec<usize> {
    let (threads, values) = (layout.mode(0).unwrap(), layout.mode(1).unwrap());
    let mut held = vec![0; size as usize];
    // Where no thread differs from the first, one stands for all.
    let (layout, weight) = if threads.table().unwrap().iter().all(|&at| at == 0) {
        (&values, threads.size() as usize)
    } else {
        (layout, 1)
    };
    for at in layout.table().unwrap() {
        held[at as usize] += weight;
    }
    held
}

/// Each operand covers its tile exactly once. Stated broadcasts: operands in shared memory are seen
/// by all threads of the warpgroup; the metadata of wide types by two pairs of threads; scale
/// factors by the threads that share a row.
#[test]
fn every_operand_covers_its_tile_exactly_once() {
    let mut cases = 0;
    for atom in mma_atoms() {
        let t = atom.traits();
        let [m, n, k] = atom.mnk();
        let shared = |yes| if yes { atom.threads() } else { 1 };
        let mut operands = vec![
            (&t.a, m * k, shared(atom.a_in_shared())),
            (&t.b, n * k, shared(atom.b_in_shared())),
            (&t.c, m * n, 1),
        ];
        if let Some(e) = &t.e {
            let copies = if atom.is_executable() && t.ty_a.bits() > 8 {
                2
            } else {
                1
            };
            operands.push((e, m * k, copies));
        }
        if let Some([a, b]) = &t.scales {
            operands.extend([(a, m * k, 2), (b, n * k, 4)]);
        }
        for (layout, size, times) in operands {
            let held = copies(layout, size);
            assert!(
                held.iter().all(|&held| held == times),
                "{}: {layout}",
                atom.name()
            );
            cases += 1;
        }
    }
    println!("law mma.covers_once: {cases} cases");
}

/// What an opcode says, read by the grammar of the PTX manual (9.7.14.5, 9.7.15.5), knowing nothing
/// of the columns.
#[derive(Debug, Default, PartialEq)]
struct Said {
    mnk: [i64; 3],
    types: Vec<String>,
    satfinite: bool,
    sparse: bool,
    popc: Option<String>,
    majors: Vec<String>,
}

fn read_opcode(ptx: &str) -> Said {
    let mut said = Said::default();
    let mut words = ptx.split('.').peekable();
    let head: Vec<&str> = words
        .by_ref()
        .take_while(|word| *word != "aligned")
        .collect();
    said.sparse = match head[..] {
        ["mma", "sync"] | ["wgmma", "mma_async", "sync"] => false,
        ["wgmma", "mma_async", "sp", "sync"] => true,
        _ => panic!("{ptx}"),
    };
    let shape = words.next().unwrap();
    let digits: Vec<i64> = shape
        .split(['m', 'n', 'k'])
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    said.mnk = digits.try_into().unwrap();
    if head[0] == "mma" {
        said.majors = words.by_ref().take(2).map(str::to_string).collect();
    }
    said.satfinite = words.next_if_eq(&"satfinite").is_some();
    let rest: Vec<String> = words.map(str::to_string).collect();
    let types = if head[0] == "mma" { 4 } else { 3 };
    said.types = rest[..types].to_vec();
    said.popc = match &rest[types..] {
        [] => None,
        [op, popc] if popc == "popc" => Some(op.clone()),
        _ => panic!("{ptx}"),
    };
    said
}

#[test]
fn the_opcode_agrees_with_the_columns() {
    let mut cases = 0;
    for atom in mma_atoms().filter(|atom| atom.is_executable() && atom.row().form != Form::Scalar) {
        let t = atom.traits();
        let asynchronous = atom.b_in_shared();
        let mut types = vec![t.ty_c.ptx(), t.ty_a.ptx(), t.ty_b.ptx()];
        if !asynchronous {
            types.push(t.ty_c.ptx());
        }
        let popc = match atom.rule() {
            Rule::XorPopc => Some("xor".to_string()),
            Rule::AndPopc => Some("and".to_string()),
            _ => None,
        };
        let columns = Said {
            mnk: atom.mnk(),
            types: types.into_iter().map(str::to_string).collect(),
            satfinite: atom.saturates(),
            sparse: atom.rule().is_sparse(),
            popc,
            majors: if asynchronous {
                vec![]
            } else {
                majors_of_layouts(&atom)
            },
        };
        assert_eq!(
            read_opcode(&atom.op().unwrap().ptx),
            columns,
            "{}",
            atom.name()
        );
        cases += 1;
    }
    println!("law mma.opcode_agrees: {cases} cases");
}

/// `.row` or `.col` of A and B, from their layouts: on Volta a thread's values run along K for a
/// K-major operand. From Turing on only `.row.col` exists.
fn majors_of_layouts(atom: &MmaAtom) -> Vec<String> {
    let t = atom.traits();
    if atom.threads() != 8 {
        return vec!["row".to_string(), "col".to_string()];
    }
    let along_k = |layout: &Layout, extent: i64| layout.at(8).unwrap() == extent;
    let a = if along_k(&t.a, t.mnk[0]) {
        "row"
    } else {
        "col"
    };
    let b = if along_k(&t.b, t.mnk[1]) {
        "col"
    } else {
        "row"
    };
    vec![a.to_string(), b.to_string()]
}

/// The name says shape and types, too: `SM80_16x8x16_F32F16F16F32_TN`.
#[test]
fn the_name_agrees_with_the_columns() {
    let mut cases = 0;
    for atom in mma_atoms().filter(|atom| atom.is_executable() && atom.row().form != Form::Scalar) {
        let t = atom.traits();
        let [m, n, k] = atom.mnk();
        let (d, a, b) = (t.ty_c.cute(), t.ty_a.cute(), t.ty_b.cute());
        let c = if atom.b_in_shared() { "" } else { d };
        let core = format!("_{m}x{n}x{k}_{d}{a}{b}{c}_");
        assert!(atom.name().contains(&core), "{} has no {core}", atom.name());
        assert_eq!(atom.name().contains("SATURATE"), atom.saturates());
        assert_eq!(atom.name().contains("SPARSE"), atom.rule().is_sparse());
        cases += 1;
    }
    println!("law mma.name_agrees: {cases} cases");
}

#[test]
fn registers_hold_the_values() {
    let mut cases = 0;
    for atom in mma_atoms().filter(MmaAtom::is_executable) {
        let (op, t) = (atom.op().unwrap(), atom.traits());
        let values = |layout: &Layout| layout.mode(1).unwrap().size() as u32;
        let packing = atom.rule().packing() as u32;
        let c_bits = values(&t.c) * t.ty_c.bits();
        let mut operands = vec![(op.c, c_bits), (op.d, c_bits)];
        if atom.a_in_shared() {
            assert_eq!((op.a.count, op.a.class), (1, RegClass::B64))
        } else {
            operands.push((op.a, values(&t.a) / packing * t.ty_a.bits()))
        }
        if atom.b_in_shared() {
            assert_eq!((op.b.count, op.b.class), (1, RegClass::B64))
        } else {
            operands.push((op.b, values(&t.b) * t.ty_b.bits()))
        }
        for (registers, bits) in operands {
            // The two 8-bit numbers of `dp2a` leave half of their register empty.
            let want = if atom.name() == "SM61_DP2A" { 32 } else { bits };
            assert_eq!(
                registers.count as u32 * registers.class.bits(),
                want,
                "{}",
                atom.name()
            );
            cases += 1;
        }
    }
    println!("law mma.registers_fit: {cases} cases");
}

#[test]
fn names_are_unique_and_round_trip() {
    let mut seen = HashSet::new();
    for atom in mma_atoms() {
        let name = atom.name();
        assert_eq!(mma(&name).unwrap(), atom, "{name}");
        assert!(seen.insert(name.clone()), "{name} twice");
    }
    println!("law mma.name_round_trip: {} cases", seen.len());
}

/// CuTe's own spellings of `wgmma`, with and without namespace.
#[test]
fn cute_spellings_are_understood() {
    let mut cases = 0;
    for atom in mma_atoms().filter(MmaAtom::b_in_shared) {
        let name = atom.name();
        let spellings = match name.strip_prefix("SPARSE::") {
            Some(rest) => ["SM90::GMMA::SPARSE::", "cute::SM90::GMMA::SPARSE::"]
                .map(|x| format!("{x}{rest}"))
                .to_vec(),
            None => {
                let rest = name.strip_prefix("SM90_").unwrap();
                ["SM90::GMMA::MMA_", "GMMA::MMA_", "MMA_"]
                    .map(|x| format!("{x}{rest}"))
                    .to_vec()
            }
        };
        for spelling in spellings {
            assert_eq!(mma(&spelling).unwrap(), atom, "{spelling}");
            cases += 1;
        }
    }
    println!("law mma.cute_spelling: {cases} cases");
}

#[test]
fn options_round_trip_or_are_refused() {
    let (mut taken, mut refused) = (0, 0);
    for atom in mma_atoms().filter(|atom| !atom.b_in_shared() || atom.mnk()[1] == 64) {
        for options in GmmaOptions::all() {
            match atom.clone().with_options(options) {
                Ok(with) => {
                    assert_eq!(
                        mma(&with.name()).unwrap().options(),
                        options,
                        "{}",
                        with.name()
                    );
                    taken += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        taken > 500 && refused > 1000,
        "{taken} taken, {refused} refused"
    );
    println!("law mma.options_round_trip: {} cases", taken + refused);
}

/// What CuTe has, counted in its headers.
#[test]
fn the_table_is_complete() {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for atom in mma_atoms() {
        let name = atom.name();
        let sparse = if name.contains("SPARSE") {
            " sparse"
        } else {
            ""
        };
        let family = if atom.b_in_shared() {
            format!("wgmma{sparse}")
        } else {
            name.split(['_', '<']).next().unwrap().to_string() + sparse
        };
        *counts.entry(family).or_default() += 1;
    }
    let want = [
        ("UniversalFMA", 4),
        ("SM61", 2),
        ("SM70", 8),
        ("SM75", 3),
        ("SM80", 65),
        ("SM89", 8),
        ("SM90", 6),
        ("wgmma", 1056),
        ("wgmma sparse", 1056),
        ("SM120 sparse", 77),
        // CuTe counts the two vector sizes of one scale type as one operation.
        ("SM120", 77 + 1),
    ];
    for (family, count) in want {
        assert_eq!(counts[family], count, "{family}");
    }
    println!("counts: {counts:?}; {} rows", rows().count());
    println!("law mma.complete: {} cases", counts.values().sum::<usize>());
}

/// Executable rows use types the host can compute with; layout-only rows have no opcode to print.
#[test]
fn executable_means_an_opcode() {
    for row in rows() {
        assert_eq!(
            row.ptx.is_empty(),
            row.form == Form::LayoutOnly,
            "{}",
            row.name
        );
    }
    let error = mma("SM120_16x8x32_TN<e4m3,e4m3,f32>")
        .unwrap()
        .op()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "`SM120_16x8x32_TN<e4m3,e4m3,f32>` is a row to look at: it has layouts and no opcode"
    );
    assert_eq!(
        mma("SM120_16x8x32_TN<e2m1,e4m3,f32>")
            .unwrap()
            .traits()
            .ty_a,
        Ty::U8
    );
}
