//! The worked examples of the source documents on MMA atoms, S36 to S50, with their errata.

use colex_atom::{MmaAtom, mma};

/// Where value `v` of logical thread `t` of C lies: `(m, n)`.
fn c_at(atom: &MmaAtom, t: i64, v: i64) -> (i64, i64) {
    let layout = &atom.traits().c;
    let at = layout.at(t + atom.threads() as i64 * v).unwrap();
    (at % atom.mnk()[0], at / atom.mnk()[0])
}

/// The same for A, `(m, k)`.
fn a_at(atom: &MmaAtom, t: i64, v: i64) -> (i64, i64) {
    let layout = &atom.traits().a;
    let at = layout.at(t + atom.threads() as i64 * v).unwrap();
    (at % atom.mnk()[0], at / atom.mnk()[0])
}

/// S36, corrected: B of `wgmma` is in shared memory; A may be in registers; C and D always are.
#[test]
fn s36_operands_of_wgmma() {
    let ss = mma("SM90_64x128x16_F32F16F16_SS").unwrap();
    let rs = mma("SM90_64x128x16_F32F16F16_RS").unwrap();
    assert!(ss.a_in_shared() && ss.b_in_shared() && !rs.a_in_shared() && rs.b_in_shared());
    assert_eq!(ss.op().unwrap().d.to_string(), "64 x f32");
}

/// S37: the letters after the types are T for row, N for column, of A (M x K) and B (K x N).
#[test]
fn s37_letters_are_row_and_col() {
    for (letters, words) in [
        ("TN", "row.col"),
        ("NT", "col.row"),
        ("NN", "col.col"),
        ("TT", "row.row"),
    ] {
        let atom = mma(&format!("SM70_8x8x4_F16F16F16F16_{letters}")).unwrap();
        assert_eq!(
            atom.op().unwrap().ptx,
            format!("mma.sync.aligned.m8n8k4.{words}.f16.f16.f16.f16")
        );
    }
}

/// S38: D4 A2 B2 C4.
#[test]
fn s38_registers_of_volta() {
    let atom = mma("SM70_8x8x4_F16F16F16F16_TN").unwrap();
    let op = atom.op().unwrap();
    assert_eq!(
        [op.d, op.a, op.b, op.c].map(|r| r.to_string()),
        ["4 x b32", "2 x b32", "2 x b32", "4 x b32"]
    );
}

/// S39, corrected: NT has the column layout for both operands; the row layout is TN's.
#[test]
fn s39_nt_is_the_column_layout() {
    let (nt, tn) = (
        mma("SM70_8x8x4_F32F16F16F32_NT").unwrap(),
        mma("SM70_8x8x4_F32F16F16F32_TN").unwrap(),
    );
    for layout in [&nt.traits().a, &nt.traits().b] {
        assert_eq!(layout.to_string(), "((_4,_2),_4):((_8,_4),_1)");
    }
    for layout in [&tn.traits().a, &tn.traits().b] {
        assert_eq!(layout.to_string(), "(_8,_4):(_1,_8)");
    }
}

/// S40 and S41, corrected: `ThrID` is a layout, whose size is the number of threads; the threads are 0..3 and 16..19.
#[test]
fn s41_the_quad_pair() {
    let atom = mma("SM70_8x8x4_F32F16F16F32_TN").unwrap();
    assert_eq!(atom.traits().thread.to_string(), "(_4,_2):(_1,_16)");
    assert_eq!(
        atom.traits().thread.table().unwrap(),
        [0, 1, 2, 3, 16, 17, 18, 19]
    );
    assert_eq!(atom.threads(), 8);
}

/// S42, corrected: the second step of threads is (0,0) to (0,2), not (0,1).
#[test]
fn s42_voltas_f32_accumulator() {
    let atom = mma("SM70_8x8x4_F32F16F16F32_TN").unwrap();
    assert_eq!(
        atom.traits().c.to_string(),
        "((_2,_2,_2),(_2,_2,_2)):((_1,_16,_4),(_8,_2,_32))"
    );
    assert_eq!(
        [1, 2, 4].map(|t| c_at(&atom, t, 0)),
        [(1, 0), (0, 2), (4, 0)]
    );
    assert_eq!(
        [1, 2, 4].map(|v| c_at(&atom, 0, v)),
        [(0, 1), (2, 0), (0, 4)]
    );
    let first: Vec<_> = (0..8).map(|v| c_at(&atom, 0, v)).collect();
    assert_eq!(
        first,
        [
            (0, 0),
            (0, 1),
            (2, 0),
            (2, 1),
            (0, 4),
            (0, 5),
            (2, 4),
            (2, 5)
        ]
    );
}

/// S43: the F16 accumulator is one row per thread.
#[test]
fn s43_voltas_f16_accumulator() {
    let atom = mma("SM70_8x8x4_F16F16F16F16_TN").unwrap();
    assert_eq!(atom.traits().c.to_string(), "(_8,_8):(_1,_8)");
    assert!((0..8).all(|t| (0..8).all(|v| c_at(&atom, t, v) == (t, v))));
}

/// S44 and S45, corrected: along M the thread changes, (T0,V0) to (T1,V0); along K the value, (T0,V0) to (T0,V1).
#[test]
fn s44_tn_operands() {
    let atom = mma("SM70_8x8x4_F32F16F16F32_TN").unwrap();
    assert_eq!((a_at(&atom, 1, 0), a_at(&atom, 0, 1)), ((1, 0), (0, 1)));
    assert_eq!(atom.traits().a, atom.traits().b);
}

/// S46, corrected: (T0,V0) to (T4,V0), which is thread 16, is (4,0), stride 4.
#[test]
fn s46_nt_operands() {
    let atom = mma("SM70_8x8x4_F32F16F16F32_NT").unwrap();
    assert_eq!(
        [a_at(&atom, 4, 0), a_at(&atom, 1, 0), a_at(&atom, 0, 1)],
        [(4, 0), (0, 1), (1, 0)]
    );
    assert_eq!(atom.traits().thread.at(4), Ok(16));
}

/// S47, corrected: no operation has the name that the manual prints.
#[test]
fn s47_the_name_of_a_hopper_atom() {
    assert!(mma("SM90_64x128x16_F16F16F16F16_TN").is_err());
    assert_eq!(
        mma("SM90::GMMA::MMA_64x128x16_F16F16F16_SS").unwrap().mnk(),
        [64, 128, 16]
    );
}

/// S48: the accumulator of a warpgroup, built up.
#[test]
fn s48_the_warpgroups_accumulator() {
    let c = |n: i64| {
        mma(&format!("SM90_64x{n}x16_F16F16F16_SS"))
            .unwrap()
            .traits()
            .c
            .to_string()
    };
    assert_eq!(
        c(8),
        "((_4,_8,_4),(_2,_2,_1)):((_128,_1,_16),(_64,_8,_512))"
    );
    assert_eq!(
        c(128),
        "((_4,_8,_4),(_2,_2,_16)):((_128,_1,_16),(_64,_8,_512))"
    );
}

/// S49, corrected: N is any multiple of 8 up to 256; of the integers, 8, 16, 24 and the multiples of 16 from 32.
#[test]
fn s49_which_n_exist() {
    let exists = |name: String| mma(&name).is_ok();
    let of = |types: &str| -> Vec<i64> {
        (1..=300)
            .filter(|n| exists(format!("SM90_64x{n}x{types}")))
            .collect()
    };
    assert_eq!(
        of("16_F32F16F16_SS"),
        (1..=32).map(|i| 8 * i).collect::<Vec<_>>()
    );
    let integers: Vec<i64> = [8, 16, 24]
        .into_iter()
        .chain((2..=16).map(|i| 16 * i))
        .collect();
    assert_eq!(of("32_S32S8S8_SS_TN"), integers);
}

/// S50, corrected: the quoted layout of A is that of registers; in shared memory every thread sees the whole tile.
#[test]
fn s50_a_in_registers_and_in_shared_memory() {
    let a = |form: &str| {
        mma(&format!("SM90_64x128x16_F16F16F16_{form}"))
            .unwrap()
            .traits()
            .a
            .to_string()
    };
    assert_eq!(
        a("RS"),
        "((_4,_8,_4),(_2,_2,_2)):((_128,_1,_16),(_64,_8,_512))"
    );
    assert_eq!(a("SS"), "(_128,(_64,_16)):(_0,(_1,_64))");
    let b = mma("SM90_64x128x16_F16F16F16_SS")
        .unwrap()
        .traits()
        .b
        .to_string();
    assert_eq!(b, "(_128,(_128,_16)):(_0,(_1,_128))");
}
