//! What copies do to data, against descriptions that know nothing of layouts.

use colex_atom::{CopyAtom, CopyForm, Route, Space, copy, copy_atoms};

/// A shared memory of rows of eight 16-bit elements, one row per thread's address; every element is different.
fn rows() -> Vec<Vec<u16>> {
    (0..32)
        .map(|thread| (0..8).map(|column| 100 * thread + column).collect())
        .collect()
}

/// PTX ISA, `ldmatrix`: thread `8 i + r` gives the address of row `r` of matrix `i`; thread `t` gets elements
/// `2 (t % 4)` and the next of row `t / 4` of each matrix; with `.trans` of column `t / 4`.
fn ldmatrix(memory: &[Vec<u16>], matrices: usize, transposed: bool, thread: usize) -> Vec<u16> {
    let mut got = Vec::new();
    for matrix in 0..matrices {
        for element in 0..2 {
            let (row, column) = (thread / 4, 2 * (thread % 4) + element);
            let (row, column) = if transposed {
                (column, row)
            } else {
                (row, column)
            };
            got.push(memory[8 * matrix + row][column]);
        }
    }
    got
}

#[test]
fn ldmatrix_is_what_the_manual_says() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.name().contains("_LDSM_")) {
        let (matrices, transposed) = (atom.bits() as usize / 1024, atom.name().ends_with("_T"));
        for (thread, got) in atom.execute(16, &rows()).unwrap().into_iter().enumerate() {
            assert_eq!(
                got,
                Some(ldmatrix(&rows(), matrices, transposed, thread)),
                "{} thread {thread}",
                atom.name()
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 6 * 32);
    println!("law copy.ldmatrix: {cases} cases");
}

/// PTX ISA, `stmatrix`: what `ldmatrix` would read is what `stmatrix` wrote, and other rows are not touched.
#[test]
fn stmatrix_is_what_the_manual_says() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.name().contains("_STSM_")) {
        let (matrices, transposed) = (atom.bits() as usize / 1024, atom.name().ends_with("_T"));
        let held: Vec<Vec<u16>> = (0..32)
            .map(|thread| (0..2 * matrices as u16).map(|v| 100 * thread + v).collect())
            .collect();
        let memory = atom.execute(16, &held).unwrap();
        assert!(
            memory[8 * matrices..].iter().all(Option::is_none),
            "{}",
            atom.name()
        );
        let memory: Vec<Vec<u16>> = memory
            .into_iter()
            .take(8 * matrices)
            .map(Option::unwrap)
            .collect();
        for (thread, held) in held.iter().enumerate() {
            assert_eq!(
                &ldmatrix(&memory, matrices, transposed, thread),
                held,
                "{} thread {thread}",
                atom.name()
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 6 * 32);
    println!("law copy.stmatrix: {cases} cases");
}

/// PTX ISA, `movmatrix`: before, thread `t` holds two elements of row `t / 4`; after, two of column `t / 4`.
#[test]
fn movmatrix_is_what_the_manual_says() {
    let atom = copy("SM75_U32x1_MOVM_T").unwrap();
    let element = |row: usize, column: usize| 8 * row + column;
    let pair = |thread: usize| [2 * (thread % 4), 2 * (thread % 4) + 1];
    let before: Vec<Vec<usize>> = (0..32)
        .map(|t| pair(t).map(|column| element(t / 4, column)).to_vec())
        .collect();
    for (thread, after) in atom.execute(16, &before).unwrap().into_iter().enumerate() {
        assert_eq!(
            after,
            Some(pair(thread).map(|row| element(row, thread / 4)).to_vec()),
            "thread {thread}"
        );
    }
    println!("law copy.movmatrix: 32 cases");
}

/// Twice is nothing, and it is what `ldmatrix.trans` does after `stmatrix`.
#[test]
fn movmatrix_undoes_itself() {
    let [movm, stsm, ldsm] = [
        "SM75_U32x1_MOVM_T",
        "SM90_U32x1_STSM_N",
        "SM75_U16x2_LDSM_T",
    ]
    .map(|name| copy(name).unwrap());
    let before: Vec<Vec<u32>> = (0..32).map(|t| vec![2 * t, 2 * t + 1]).collect();
    let all = |after: Vec<Option<Vec<u32>>>| -> Vec<Vec<u32>> {
        after.into_iter().map(Option::unwrap).collect()
    };
    let once = all(movm.execute(16, &before).unwrap());
    assert_eq!(all(movm.execute(16, &once).unwrap()), before);
    let memory = stsm
        .execute(16, &before)
        .unwrap()
        .into_iter()
        .map(|row| row.unwrap_or(vec![0; 8]))
        .collect::<Vec<_>>();
    assert_eq!(all(ldsm.execute(16, &memory).unwrap()), once);
}

/// `copy_sm50.hpp`: of two threads whose indices differ in one bit, the lower gives its second register for the
/// upper's first.
#[test]
fn shuffles_are_what_the_threads_trade() {
    for (name, bit) in [
        ("SM50_Shuffle_U32_2x2Trans_XOR1", 1),
        ("SM50_Shuffle_U32_2x2Trans_XOR4", 4),
    ] {
        let held: Vec<Vec<usize>> = (0..32)
            .map(|thread| vec![10 * thread, 10 * thread + 1])
            .collect();
        for (thread, got) in copy(name)
            .unwrap()
            .execute(32, &held)
            .unwrap()
            .into_iter()
            .enumerate()
        {
            let partner = thread ^ bit;
            let expected = match thread & bit {
                0 => vec![held[thread][0], held[partner][0]],
                _ => vec![held[partner][1], held[thread][1]],
            };
            assert_eq!(got, Some(expected), "{name} thread {thread}");
        }
    }
    println!("law copy.shuffles: 64 cases");
}

/// The text of a shuffle, followed by hand for every thread.
#[test]
fn the_text_of_a_shuffle_is_its_layout() {
    for (name, bit) in [
        ("SM50_Shuffle_U32_2x2Trans_XOR1", 1),
        ("SM50_Shuffle_U32_2x2Trans_XOR4", 4),
    ] {
        let atom = copy(name).unwrap();
        let CopyForm::Shuffle(written) = atom.row().form else {
            panic!("{name} is no shuffle")
        };
        assert_eq!(written, bit as u32);
        let held: Vec<[usize; 2]> = (0..32)
            .map(|thread| [10 * thread, 10 * thread + 1])
            .collect();
        let given = |thread: usize| {
            if thread & bit != 0 {
                held[thread][0]
            } else {
                held[thread][1]
            }
        };
        let src: Vec<Vec<usize>> = held.iter().map(|pair| pair.to_vec()).collect();
        for (thread, got) in atom.execute(32, &src).unwrap().into_iter().enumerate() {
            let (upper, traded) = (thread & bit != 0, given(thread ^ bit));
            let kept = if upper {
                held[thread][1]
            } else {
                held[thread][0]
            };
            let [d0, d1] = if upper {
                [traded, kept]
            } else {
                [kept, traded]
            };
            assert_eq!(got, Some(vec![d0, d1]), "{name} thread {thread}");
        }
    }
}

/// Every other executable copy leaves each thread's bytes as they are.
#[test]
fn copies_of_one_thread_change_nothing() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.threads() == 1) {
        let bytes: Vec<u8> = (0..atom.bits_per_thread() / 8).map(|i| i as u8).collect();
        assert_eq!(
            atom.execute(8, std::slice::from_ref(&bytes)).unwrap(),
            [Some(bytes)],
            "{}",
            atom.name()
        );
        cases += 1;
    }
    assert!(cases > 140);
    println!("law copy.one_thread: {cases} cases");
}

/// In any width, the same bits go the same way.
#[test]
fn the_width_of_a_value_changes_nothing() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.threads() == 32) {
        let by_bit = atom.routes(1).unwrap();
        for bits in [2, 4, 8, 16, 32, 64, 128] {
            let Ok(routes) = atom.routes(bits) else {
                continue;
            };
            for (thread, (values, by_bit)) in routes.iter().zip(&by_bit).enumerate() {
                let Some(values) = values else {
                    assert_eq!(by_bit, &None, "{} thread {thread}", atom.name());
                    continue;
                };
                for (v, route) in values.iter().enumerate() {
                    let first = by_bit.as_ref().unwrap()[v * bits as usize];
                    assert_eq!(
                        first,
                        Route {
                            thread: route.thread,
                            value: route.value * bits as usize
                        },
                        "{} {bits} {thread}",
                        atom.name()
                    );
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 10_000);
    println!("law copy.any_width: {cases} cases");
}

#[test]
fn zero_fill_is_the_first_bytes_then_zeros() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.name().contains("ZFILL")) {
        let bytes = atom.bits_per_thread() / 8;
        let src: Vec<u8> = (1..=bytes as u8).collect();
        for read in 0..=bytes {
            let written = atom.zero_filled(&src, read).unwrap();
            for (i, byte) in written.into_iter().enumerate() {
                assert_eq!(byte, if i < read { src[i] } else { 0 });
                cases += 1;
            }
        }
    }
    println!("law copy.zero_fill: {cases} cases");
}

#[test]
fn wrong_data_is_refused_in_a_sentence() {
    let says =
        |result: Result<Vec<Option<Vec<u8>>>, colex_atom::Error>| result.unwrap_err().to_string();
    let ldsm = copy("SM75_U32x1_LDSM_N").unwrap();
    assert_eq!(
        says(ldsm.execute(8, &[])),
        "`SM75_U32x1_LDSM_N` takes 32 threads, not 0"
    );
    let short: Vec<Vec<u8>> = vec![vec![0; 16]; 31]
        .into_iter()
        .chain([vec![0; 15]])
        .collect();
    assert_eq!(
        says(ldsm.execute(8, &short)),
        "`SM75_U32x1_LDSM_N` takes 16 values in thread 31, not 15"
    );
    let shown = copy("SM100_TMEM_LOAD_32dp32b1x").unwrap();
    assert_eq!(
        says(shown.execute(8, &[])),
        "`SM100_TMEM_LOAD_32dp32b1x` is a row to look at: it has layouts and no opcode"
    );
    let plain = copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>").unwrap();
    assert_eq!(
        plain.zero_filled(&[0; 4], 2).unwrap_err().to_string(),
        "`SM80_CP_ASYNC_CACHEALWAYS<uint32_t>` writes 4 bytes and cannot read 2"
    );
}

/// The universal copies connect registers with every memory, and nothing else.
#[test]
fn universal_copies_have_one_end_in_registers() {
    let atom: CopyAtom = copy("UniversalCopy<uint64_t>").unwrap();
    let spaces = [
        Space::Register,
        Space::Shared,
        Space::Cluster,
        Space::Global,
        Space::L2,
        Space::Tensor,
    ];
    let opcodes: Vec<String> = spaces
        .into_iter()
        .flat_map(|from| spaces.map(|to| (from, to)))
        .filter_map(|(from, to)| atom.between(from, to).ok())
        .map(|atom| atom.op().unwrap().ptx.clone())
        .collect();
    assert_eq!(
        opcodes,
        [
            "mov.b32",
            "st.shared.v2.b32",
            "st.shared::cluster.v2.b32",
            "st.global.v2.b32",
            "ld.shared.v2.b32",
            "ld.shared::cluster.v2.b32",
            "ld.global.v2.b32",
        ]
    );
}
