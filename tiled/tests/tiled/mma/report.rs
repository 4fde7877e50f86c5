//! Reports of tiled MMAs: what they say over every instruction, and numbers that can be counted by hand.

use std::error::Error;

use colex_atom::{Form, MmaAtom, Space, Value, mma_atoms};
use colex_layout::{IntTuple, Layout, Tiler};
use colex_tiled::{Edge, GemmOptions, MmaReport, Operand, Tensor, TiledMma, Traffic};

type Outcome = Result<(), Box<dyn Error>>;

/// Every executable instruction; of `wgmma` the smallest N.
fn atoms() -> impl Iterator<Item = MmaAtom> {
    mma_atoms().filter(|atom| {
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        atom.is_executable() && (!asynchronous || atom.mnk()[1] == 8)
    })
}

/// Row-major A, B and C, in registers or where the atom reads them.
fn report(mma: &TiledMma, [m, n, k]: [i64; 3]) -> Result<MmaReport, Box<dyn Error>> {
    let matrix = |rows: i64, columns: i64| Layout::row_major(IntTuple::from((rows, columns)));
    let place = |in_shared| {
        if in_shared {
            Space::Shared
        } else {
            Space::Register
        }
    };
    let (a, b, c) = (matrix(m, k)?, matrix(n, k)?, matrix(m, n)?);
    Ok(mma.report(
        (&a, place(mma.atom().a_in_shared())),
        (&b, place(mma.atom().b_in_shared())),
        (&c, Space::Register),
    )?)
}

/// On whole tiles every element of C has one owner, A is held once for every atom along N and B along M, and the
/// registers are those that the opcode takes.
#[test]
fn whole_tiles_have_one_owner_and_the_opcodes_registers() -> Outcome {
    let mut cases = 0;
    for atom in atoms() {
        let grids = [
            ("(1,1,1):(0,0,0)", [1, 1, 1]),
            ("(2,1,2):(1,0,2)", [2, 1, 2]),
            ("(1,2,1):(0,1,0)", [1, 2, 1]),
        ];
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        for (atoms, along) in grids {
            if asynchronous && along[0] == 1 {
                continue; // Of 128 threads a grid, one says enough.
            }
            let mma = TiledMma::new(atom.clone(), atoms, &Tiler::All)?;
            let [m, n, k] = mma.tile_shape();
            let report = report(&mma, [m, 2 * n, k])?;
            assert_eq!((report.missing.0, report.repeated.0), (0, 0), "{report}");
            assert_eq!(
                (report.idle.len(), report.instructions, report.sums),
                (0, 2, along[2] as i64),
                "{report}"
            );
            assert_eq!(report.work, [m * 2 * n * k; 2], "{report}");
            // A thread of Volta's atom holds a part of A that other lanes of the quad-pair do not.
            for (operand, copies) in report.operands.iter().zip([along[1], along[0], along[2]]) {
                assert_eq!(operand.held, [copies; 2], "{report}");
                assert_eq!((operand.outside.0, &operand.uneven), (0, &None), "{report}");
            }
            let op = atom.op()?;
            let words = |registers: colex_atom::Registers| {
                registers.count * (registers.class.bits() as usize).max(32) / 32
            };
            let [a, b, c] = &report.operands;
            let metadata = usize::from(op.e.is_some());
            let of_a = if a.by_descriptor { 0 } else { words(op.a) };
            assert_eq!(a.registers, of_a + metadata, "{report}");
            let of_b = if b.by_descriptor { 0 } else { 2 * words(op.b) };
            assert_eq!(b.registers, of_b, "{report}");
            assert_eq!(c.registers, 2 * words(op.c), "{report}");
            cases += 1;
        }
    }
    println!(
        "law mma_report.whole_tiles_have_one_owner_and_the_opcodes_registers: {cases} reports"
    );
    Ok(())
}

/// What the report says lies outside is what `gemm_with` leaves out.
#[test]
fn what_lies_outside_is_what_gemm_predicates() -> Outcome {
    let mut cases = 0;
    let small =
        |a: &MmaAtom| !a.rule().is_sparse() && a.mnk().iter().product::<i64>() <= 16 * 8 * 16;
    for atom in atoms().filter(small) {
        let mma = TiledMma::new(atom.clone(), "(2,1,1):(1,0,0)", &Tiler::All)?;
        let [m, n, k] = mma.tile_shape();
        let shape = [m + 1, n - n / 2, k + 1];
        let report = report(&mma, shape)?;
        let traits = atom.traits();
        let zeros = |rows: i64, columns: i64, ty| {
            let layout = Layout::row_major(IntTuple::from((rows, columns)))?;
            Ok::<_, Box<dyn Error>>(Tensor::new(
                vec![Value::zero(ty); (rows * columns) as usize],
                layout,
            )?)
        };
        let [m, n, k] = shape;
        let mut c = zeros(m, n, traits.ty_c)?;
        let edges = GemmOptions {
            edge: Edge::Predicate,
            ..GemmOptions::default()
        };
        let outside = mma.gemm_with(
            &zeros(m, k, traits.ty_a)?,
            &zeros(n, k, traits.ty_b)?,
            &mut c,
            edges,
        )?;
        let counted = report.operands.each_ref().map(|operand| operand.outside.0);
        assert_eq!(counted, [outside.a, outside.b, outside.c], "{report}");
        cases += 1;
    }
    println!("law mma_report.what_lies_outside_is_what_gemm_predicates: {cases} reports");
    Ok(())
}

fn ampere(atoms: &str, tile: &str) -> Result<TiledMma, Box<dyn Error>> {
    let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
    Ok(TiledMma::new(atom, atoms, tile)?)
}

#[test]
fn a_tile_too_large_says_who_is_idle() -> Outcome {
    let mma = ampere("(2,1,1):(1,0,0)", "(_,_,_)")?;
    let report = mma.report(
        (((12, 16), (16, 1)), Space::Register),
        (((8, 16), (16, 1)), Space::Register),
        (((12, 8), (8, 1)), Space::Register),
    )?;
    assert_eq!(report.idle, (32..64).collect::<Vec<_>>());
    assert_eq!(
        report.to_string(),
        "64 threads issue 1 instruction each, SM80_16x8x16_F32F16F16F32_TN over a tile of 32 by 8 by 16.\n\
         Every element of C has one owner.\n\
         32 threads own nothing of C, thread 32 the first.\n\
         Of 4096 multiply-adds 1536 count.\n\
         A: each element is held by 1 thread; a thread gives an instruction 8 values of f16, 128 bits, and needs 4 \
         registers for all.\n\
         320 coordinates of A lie outside of the tensor, first (12,0) by thread 16.\n\
         B: each element is held by 2 threads; a thread gives an instruction 4 values of f16, 64 bits, and needs 2 \
         registers for all.\n\
         C: each element is held by 1 thread; a thread gives an instruction 4 values of f32, 128 bits, and needs 4 \
         registers for all.\n\
         160 coordinates of C lie outside of the tensor, first (12,0) by thread 16.\n"
    );
    Ok(())
}

/// Permutations that are none: one takes four columns twice, and the divide would make up for the others; one has gaps
/// that nothing fills. Orders with gaps that their repetitions fill leave nothing out.
#[test]
fn a_permutation_that_is_none_is_refused() -> Outcome {
    let refused = |permutation: &str| -> Result<String, Box<dyn Error>> {
        let atom = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
        let mma = TiledMma::new(atom, "(1,1,1):(0,0,0)", permutation);
        Ok(mma.unwrap_err().to_string())
    };
    assert_eq!(
        refused("(16,(4,2):(1,0),16)")?,
        "TiledMma::new: places 0 and 4 of the order (4,2):(1,0) of N are one element, 0, which would be computed twice"
    );
    assert_eq!(
        refused("(16,(4,2):(3,1),16)")?,
        "TiledMma::new: the stride 3 is not a multiple of 2, the end of the 2 at stride 1, of the order (4,2):(3,1) of N: \
         its repetitions would leave elements out"
    );
    let filled = report(
        &ampere("(1,1,1):(0,0,0)", "(16,(4,2):(1,8),16)")?,
        [16, 16, 16],
    )?;
    assert_eq!((filled.missing.0, filled.repeated.0), (0, 0));
    assert_eq!(filled.operands[2].held, [1, 1]);
    Ok(())
}

/// 8 of the 32 lanes are the threads of one quad-pair.
#[test]
fn lanes_that_repeat_are_named() -> Outcome {
    let mma = TiledMma::new(
        colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?,
        "1:0",
        &Tiler::All,
    )?;
    let report = report(&mma, [8, 8, 4])?;
    assert_eq!((report.threads, report.repeating.len()), (8, 24));
    let text = report.to_string();
    assert!(
        text.contains("24 threads are none of the MMA and repeat others, thread 4 the first.\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn descriptors_and_sums_along_k() -> Outcome {
    let mma = TiledMma::new(
        colex_atom::mma("SM90_64x8x16_F32F16F16_SS")?,
        "(2,1,1):(1,0,0)",
        &Tiler::All,
    )?;
    let report = report(&mma, [128, 8, 64])?;
    assert_eq!(
        report.operands.each_ref().map(|o| o.held),
        [[1, 1], [2, 2], [1, 1]]
    );
    let text = report.to_string();
    assert!(
        text.contains("A: each element is read by 1 atom from shared memory by descriptor.\n"),
        "{text}"
    );
    assert!(
        text.contains("B: each element is read by 2 atoms from shared memory by descriptor.\n"),
        "{text}"
    );
    let mma = ampere("(1,1,2):(0,0,1)", "(_,_,_)")?;
    let text = self::report(&mma, [16, 8, 32])?.to_string();
    assert!(
        text.contains("2 atoms along K have a C each: their sum is another step.\n"),
        "{text}"
    );
    Ok(())
}

/// C of 16 by 8 floats, rows of 32 bytes: 8 lanes times 8 bytes fill two sectors in each of two requests; by columns
/// four lanes of a row are in four columns.
#[test]
fn stores_of_c_by_sectors() -> Outcome {
    let mma = ampere("(1,1,1):(0,0,0)", "(_,_,_)")?;
    let (a, b) = (((16, 16), (16, 1)), ((8, 16), (16, 1)));
    let store = |c: &str| -> Result<(Option<i64>, Option<Traffic>), Box<dyn Error>> {
        let report = mma.report(
            (a, Space::Register),
            (b, Space::Register),
            (c, Space::Global),
        )?;
        let [.., c] = report.operands;
        assert_eq!(c.operand, Operand::C);
        Ok((c.widest, c.traffic))
    };
    let rows = store("(16,8):(8,1)")?;
    assert_eq!(
        rows,
        (
            Some(2),
            Some(Traffic::Global {
                sectors: 16,
                least: 16,
                first: None
            })
        )
    );
    let columns = store("(16,8):(1,16)")?;
    assert_eq!(
        columns,
        (
            Some(1),
            Some(Traffic::Global {
                sectors: 16,
                least: 16,
                first: None
            })
        )
    );
    // A column of every second row: half of each sector.
    let spread = store("(16,8):(2,32)")?;
    assert_eq!(
        spread,
        (
            Some(1),
            Some(Traffic::Global {
                sectors: 32,
                least: 16,
                first: Some(Box::new((0, (0, 0).into())))
            })
        )
    );
    Ok(())
}

#[test]
fn errors_are_sentences() -> Outcome {
    let mma = ampere("(1,1,1):(0,0,0)", "(_,_,_)")?;
    let (b, c) = ("(8,16):(16,1)", "(16,8):(8,1)");
    let refused = |mma: &TiledMma, a: &str, space| {
        let report = mma.report((a, space), (b, Space::Shared), (c, Space::Register));
        report.unwrap_err().to_string()
    };
    assert_eq!(
        refused(&mma, "(16,8):(8,1)", Space::Register),
        "report: A (16,8):(8,1), B (8,16):(16,1) and C (16,8):(8,1) are not of the extents (M,K), (N,K) and (M,N)"
    );
    assert_eq!(
        refused(&mma, "(16,16):(16,1)", Space::Tensor),
        "report: the threads of SM80_16x8x16_F32F16F16F32_TN hold A in registers and reach shared and global memory, not Tensor"
    );
    let atom = colex_atom::mma("SM90_64x8x16_F32F16F16_SS")?;
    let mma = TiledMma::new(atom.clone(), "1:0", &Tiler::All)?;
    let report = mma.report(
        ("(64,16):(16,1)", Space::Global),
        (b, Space::Shared),
        ("(64,8):(8,1)", Space::Register),
    );
    assert_eq!(
        report.unwrap_err().to_string(),
        format!(
            "report: {} reads A from shared memory, not from Global",
            atom.name()
        )
    );
    Ok(())
}
