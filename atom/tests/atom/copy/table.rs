//! Loops over the whole copy table.

use std::collections::HashMap;

use colex_atom::{
    Argument, CopyAtom, CopyForm, OperandKind, RegClass, Side, Space, copy, copy_atoms, copy_rows,
};
use colex_layout::Layout;

/// How often each bit of the tile is named, over threads and values.
fn copies(layout: &Layout, bits: usize) -> Vec<usize> {
    let (threads, values) = (layout.mode(0).unwrap(), layout.mode(1).unwrap());
    let mut held = vec![0; bits];
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

/// How often an end of a copy names each of its bits, by the text of the manuals and not by the layouts: once, but
/// for addresses that are not looked at and for what tensor memory shows every thread.
fn stated_copies(atom: &CopyAtom, side: Side) -> usize {
    let name = atom.name();
    let space = if side == Side::Source {
        atom.from()
    } else {
        atom.to()
    };
    match space {
        // 32 threads give the addresses of 8, 16 or 32 rows.
        Space::Shared if name.contains("_LDSM_") || name.contains("_STSM_") => {
            let registers = atom.bits() as usize / 1024;
            4 / registers
        }
        // A warp's access to tensor memory is one access of the warp.
        Space::Tensor if name.contains("TMEM") => 32,
        // Two blocks take part in one copy of the whole.
        Space::Tensor | Space::Shared if name.contains("_2cta") => 2 * spread(&name, side),
        Space::Tensor | Space::Shared if name.contains("_1cta") => spread(&name, side),
        _ => 1,
    }
}

/// What is written to several warps of datapaths is named once for each in the source.
fn spread(name: &str, side: Side) -> usize {
    match side {
        Side::Source if name.contains("_4x32dp") => 4,
        Side::Source if name.contains("_2x64dp") => 2,
        _ => 1,
    }
}

#[test]
fn every_end_covers_its_bits_exactly_as_often_as_stated() {
    let mut cases = 0;
    for atom in copy_atoms() {
        let traits = atom.traits();
        for (layout, side) in [
            (&traits.src, Side::Source),
            (&traits.dst, Side::Destination),
        ] {
            let stated = stated_copies(&atom, side);
            let all = layout.size() as usize;
            assert_eq!(all % stated, 0, "{}: {layout}", atom.name());
            // A tile of four rows has them 32 apart: bits between them belong to no thread.
            let held = copies(layout, layout.cosize().unwrap() as usize);
            let named = held.iter().filter(|held| **held > 0).count();
            assert_eq!(named * stated, all, "{}: {layout}", atom.name());
            if layout == traits.reference() {
                assert_eq!(named as i64, atom.bits(), "{}: {layout}", atom.name());
            }
            assert!(
                held.iter().all(|&held| held == 0 || held == stated),
                "{}: {layout}",
                atom.name()
            );
            let gaps = held.contains(&0);
            assert_eq!(
                gaps,
                atom.name().contains("_4dp256bit"),
                "{}: {layout}",
                atom.name()
            );
            cases += 1;
        }
    }
    assert!(cases > 700);
    println!("law copy.covers_once: {cases} cases");
}

#[test]
fn the_two_ends_hold_the_same_bits() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| !atom.name().contains("UTCCP")) {
        let traits = atom.traits();
        assert_eq!(traits.src.cosize(), traits.dst.cosize(), "{}", atom.name());
        assert_eq!(
            traits.thread.size(),
            traits.src.mode(0).unwrap().size(),
            "{}",
            atom.name()
        );
        assert_eq!(
            traits.thread.size(),
            traits.dst.mode(0).unwrap().size(),
            "{}",
            atom.name()
        );
        cases += 1;
    }
    println!("law copy.same_bits: {cases} cases");
}

/// The bits of each thread in registers are what its registers hold; 8-bit data travel in a 16-bit register.
#[test]
fn registers_fit() {
    let mut cases = 0;
    for atom in copy_atoms().filter(CopyAtom::is_executable).flat_map(ends) {
        for operand in &atom.op().unwrap().operands {
            let (side, layout) = match operand.argument {
                Argument::Src => (atom.from(), &atom.traits().src),
                Argument::Dst => (atom.to(), &atom.traits().dst),
                _ => continue,
            };
            let OperandKind::Registers(held) = operand.kind else {
                assert_ne!(side, Space::Register, "{}", atom.name());
                continue;
            };
            let bits = layout.mode(1).unwrap().size();
            assert_eq!(side, Space::Register, "{}", atom.name());
            match bits {
                8 | 16 => assert_eq!(
                    (held.count, held.class),
                    (1, RegClass::B16),
                    "{}",
                    atom.name()
                ),
                _ => assert_eq!(
                    held.count as i64 * i64::from(held.class.bits()),
                    bits,
                    "{}",
                    atom.name()
                ),
            }
            cases += 1;
        }
    }
    println!("law copy.registers_fit: {cases} cases");
}

/// Universal copies between every two ends they connect, other atoms as they are.
fn ends(atom: CopyAtom) -> Vec<CopyAtom> {
    let spaces = [Space::Register, Space::Shared, Space::Global];
    match atom.row().form {
        CopyForm::Universal => {
            let pairs = spaces
                .into_iter()
                .flat_map(|from| spaces.map(|to| (from, to)));
            pairs
                .filter_map(|(from, to)| atom.between(from, to).ok())
                .collect()
        }
        _ => vec![atom],
    }
}

/// What an opcode says, read by the grammar of the PTX manual (9.7.9), knowing nothing of the columns.
#[derive(Debug, PartialEq)]
struct Said {
    from: Space,
    to: Space,
    /// Matrices of 8x8 of 16 bits, or the rank of a tensor.
    number: Option<usize>,
    transposed: bool,
    multicast: bool,
    im2col: bool,
    barrier: bool,
    reduces: Option<String>,
}

/// `.dst.src` of the asynchronous copies; the one space of the others.
fn read_spaces(words: &[&str]) -> (Space, Space) {
    let spaces: Vec<Space> = words
        .iter()
        .filter_map(|word| match *word {
            "global" => Some(Space::Global),
            "shared" | "shared::cta" => Some(Space::Shared),
            "shared::cluster" => Some(Space::Cluster),
            "L2" => Some(Space::L2),
            _ => None,
        })
        .collect();
    match (words[0], spaces.as_slice()) {
        (_, [to, from]) => (*from, *to),
        ("ldmatrix" | "ld", [from]) => (*from, Space::Register),
        ("stmatrix" | "st", [to]) => (Space::Register, *to),
        ("movmatrix" | "shfl" | "mov", []) => (Space::Register, Space::Register),
        _ => panic!("{words:?}"),
    }
}

fn read_opcode(ptx: &str) -> Said {
    let words: Vec<&str> = ptx.split('.').collect();
    let has = |word: &str| words.contains(&word);
    let (from, to) = read_spaces(&words);
    let number = words.iter().find_map(|word| {
        let rank = word.strip_suffix('d').filter(|rest| rest.len() == 1);
        rank.or(word.strip_prefix('x')).and_then(|n| n.parse().ok())
    });
    let operations = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];
    let operation = words.iter().find(|word| operations.contains(*word));
    Said {
        from,
        to,
        number,
        transposed: has("trans"),
        multicast: has("multicast::cluster"),
        im2col: has("im2col") || has("im2col_no_offs"),
        barrier: has("mbarrier::complete_tx::bytes"),
        reduces: operation
            .filter(|_| words.get(1) == Some(&"reduce"))
            .map(|word| word.to_uppercase()),
    }
}

#[test]
fn the_opcode_agrees_with_the_columns() {
    let mut cases = 0;
    for atom in copy_atoms().filter(CopyAtom::is_executable).flat_map(ends) {
        let (name, op) = (atom.name(), atom.op().unwrap());
        let words: Vec<&str> = op.ptx.split('.').collect();
        let has = |argument| {
            op.operands
                .iter()
                .any(|operand| operand.argument == argument)
        };
        let matrix = name.contains("LDSM") || name.contains("STSM");
        let reduction = name
            .split_once("REDUCE_")
            .map(|(_, rest)| rest.split('_').next().unwrap().to_string());
        let expected = Said {
            from: atom.from(),
            to: atom.to(),
            number: if matrix {
                Some(atom.bits() as usize / 1024)
            } else {
                atom.tensor_rank()
            },
            transposed: name.ends_with("_T"),
            multicast: has(Argument::Mask),
            im2col: name.contains("IM2COL"),
            barrier: has(Argument::Barrier),
            reduces: reduction,
        };
        assert_eq!(read_opcode(&op.ptx), expected, "{name}: {}", op.ptx);
        assert_eq!(has(Argument::Offsets), words.contains(&"im2col"), "{name}");
        assert_eq!(
            atom.since() >= colex_atom::Arch::Sm90,
            op.ptx.contains("bulk") || op.ptx.contains("stmatrix"),
            "{name}"
        );
        if let Some(hinted) = &op.ptx_hinted {
            assert_eq!(hinted.replace(".L2::cache_hint", ""), op.ptx, "{name}");
        }
        cases += 1;
    }
    println!("law copy.opcode_agrees: {cases} cases");
}

/// The cache policies that PTX takes: on every asynchronous copy from or to global memory.
#[test]
fn cache_policies_are_where_global_memory_is() {
    for atom in copy_atoms().filter(CopyAtom::is_executable) {
        let op = atom.op().unwrap();
        let global = [atom.from(), atom.to()].contains(&Space::Global);
        assert_eq!(
            op.ptx_hinted.is_some(),
            op.is_async() && global,
            "{}",
            atom.name()
        );
    }
}

#[test]
fn names_round_trip() {
    let mut atoms = HashMap::new();
    for atom in copy_atoms() {
        let found = copy(&atom.name()).unwrap();
        assert_eq!(found, atom);
        assert_eq!(found.traits(), atom.traits());
        assert_eq!(found.op().ok(), atom.op().ok());
        assert!(
            atoms.insert(atom.name(), atom.clone()).is_none(),
            "{} is there twice",
            atom.name()
        );
    }
    println!("law copy.names_round_trip: {} cases", atoms.len());
}

/// The operations that CuTe defines, counted in its headers.
#[test]
fn the_table_has_every_operation_of_cute() {
    let count = |test: &dyn Fn(&CopyAtom) -> bool| {
        copy_atoms()
            .filter(|atom| atom.row().in_cute && test(atom))
            .count()
    };
    let named = |part: &'static str| count(&move |atom: &CopyAtom| atom.name().contains(part));
    let starts = |head: &'static str| {
        count(&move |atom: &CopyAtom| {
            atom.name().starts_with(head) && !atom.name().ends_with("PREFETCH")
        })
    };
    assert_eq!(named("SM75_U") - named("MOVM"), 6);
    assert_eq!(named("SM90_U"), 6);
    assert_eq!(named("MOVM"), 1);
    assert_eq!(named("SM50_Shuffle"), 2);
    assert_eq!(
        starts("SM90_TMA_LOAD_")
            - starts("SM90_TMA_LOAD_MULTICAST")
            - starts("SM90_TMA_LOAD_IM2COL"),
        5
    );
    assert_eq!(starts("SM90_TMA_LOAD_MULTICAST"), 5);
    assert_eq!(starts("SM90_TMA_LOAD_IM2COL"), 3 + 3);
    assert_eq!(named("PREFETCH"), 5 + 3 + 1);
    assert_eq!(starts("SM90_TMA_STORE_"), 5 + 3);
    assert_eq!(starts("SM90_TMA_REDUCE_ADD_"), 5);
    assert_eq!(starts("SM90_BULK_COPY_"), 3);
    assert_eq!(
        starts("SM100_TMEM_LOAD_") - starts("SM100_TMEM_LOAD_STAT"),
        74
    );
    assert_eq!(starts("SM100_TMEM_STORE_"), 74);
    assert_eq!(starts("SM100_TMA_2SM_LOAD"), 16);
    assert_eq!(starts("SM100_UTCCP"), 12);
    println!(
        "copy rows {}, atoms {}, executable {}",
        copy_rows().count(),
        copy_atoms().count(),
        copy_atoms().filter(CopyAtom::is_executable).count()
    );
}

/// The one place where CuTe's traits and the hardware differ.
#[test]
fn movmatrix_is_the_only_defect() {
    let defects: Vec<String> = copy_atoms()
        .filter(|atom| atom.defect().is_some())
        .map(|atom| atom.name())
        .collect();
    assert_eq!(defects, ["SM75_U32x1_MOVM_T"]);
    let atom = copy("SM75_U32x1_MOVM_T").unwrap();
    let defect = atom.defect().unwrap();
    assert_eq!(defect.cute_dst, "(32,32):(32,1)");
    assert_eq!(
        atom.traits().dst.to_string(),
        "((_4,_8),(_16,_2)):((_256,_16),(_1,_128))"
    );
}
