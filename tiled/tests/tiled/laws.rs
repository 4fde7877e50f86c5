//! What every tiled MMA must satisfy, over every instruction, with atoms repeated over threads and over the tile.

use std::collections::HashSet;
use std::error::Error;

use colex_atom::{Form, MmaAtom, mma_atoms};
use colex_layout::{ComposedLayout, IntTuple, Layout, Tiler};
use colex_tiled::{Operand, Partition, TiledMma};

type Outcome = Result<(), Box<dyn Error>>;

const OPERANDS: [Operand; 3] = [Operand::A, Operand::B, Operand::C];

/// Every executable instruction; of `wgmma`, whose N is a parameter, three N.
fn atoms() -> impl Iterator<Item = MmaAtom> {
    mma_atoms().filter(|atom| {
        let asynchronous = matches!(atom.row().form, Form::Async { .. });
        atom.is_executable() && (!asynchronous || [8, 24, 64].contains(&atom.mnk()[1]))
    })
}

/// Each `n`-th of `all`, from another one for every number, or all with `all` in the environment variable `COLEX_LAWS`.
fn in_turn<T>(number: usize, n: usize, all: Vec<T>) -> impl Iterator<Item = T> {
    let is_all = std::env::var("COLEX_LAWS").as_deref() == Ok("all");
    let step = if is_all { 1 } else { n };
    all.into_iter().skip(number % step).step_by(step)
}

/// The tilings of one atom: atoms along M, N and K; the tile that they cover, twice that, and a reordered one.
fn tilings(atom: &MmaAtom) -> Result<Vec<TiledMma>, Box<dyn Error>> {
    let mut grids = vec![[1, 1, 1], [2, 2, 1]];
    if atom.threads() != 8 {
        grids.push([1, 3, 2]); // A quad-pair leaves room for 4 atoms in a warp, and 3 do not divide them.
    }
    let mut tilings = Vec::new();
    for grid in grids {
        let atoms = Layout::column_major(IntTuple::from((grid[0], grid[1], grid[2])))?;
        for tile in tiles(atom, grid) {
            let tile: Tiler = tile.parse()?;
            tilings.push(TiledMma::new(atom.clone(), &atoms, &tile)?);
        }
    }
    Ok(tilings)
}

fn tiles(atom: &MmaAtom, grid: [i64; 3]) -> Vec<String> {
    let mnk = atom.mnk();
    let [m, n, k] = [0, 1, 2].map(|i| mnk[i] * grid[i]);
    let mut tiles = vec!["(_,_,_)".into(), format!("({},{n},{})", 2 * m, 2 * k)];
    if mnk[0] % 2 == 0 {
        // Each half atom of M is followed by the half that lies a tile's half further on.
        let (half, pairs) = (mnk[0] / 2, 2 * grid[0]);
        tiles.push(format!(
            "(({half},{pairs},2):(1,{},{half}),{},{k})",
            mnk[0],
            2 * n
        ));
    }
    tiles
}

/// How often each index below `size` occurs; an index beyond is a failure.
fn counts(indices: &[i64], size: i64) -> Vec<i64> {
    let mut counts = vec![0; usize::try_from(size).expect("sizes are positive")];
    for &index in indices {
        counts[usize::try_from(index).expect("indices are not negative")] += 1;
    }
    counts
}

fn size(layout: &Layout, mode: usize) -> i64 {
    layout.mode(mode).map_or(1, |m| m.size())
}

#[test]
fn each_element_of_c_has_one_owner() -> Outcome {
    let mut cases = 0;
    for atom in atoms() {
        for mma in tilings(&atom)? {
            // Two tiles along N: every element once among threads, values and tiles.
            let [m, n] = mma.operand_tile(Operand::C);
            let tensor = Layout::column_major(IntTuple::from((m, 2 * n)))?;
            let all = mma.fragments(&tensor, Operand::C)?.table()?;
            assert!(
                counts(&all, 2 * m * n).iter().all(|c| *c == 1),
                "{}\n{mma}",
                atom.name()
            );
            cases += all.len();
        }
    }
    println!("law tiled_mma.each_element_of_c_has_one_owner: {cases} elements");
    Ok(())
}

/// Each element of A is held once for every atom along N, and again as often as one atom repeats it over its threads
/// (all 128 of a `wgmma` that reads shared memory, none of an `mma.sync`); of B likewise along M; and each thread of an
/// MMA with atoms along K owns a C of its own.
#[test]
fn operands_replicate_along_the_mode_they_lack() -> Outcome {
    let mut cases = 0;
    for (number, atom) in atoms().enumerate() {
        let traits = atom.traits();
        for mma in in_turn(number, 3, tilings(&atom)?) {
            for (operand, own, lacking) in [
                (Operand::A, &traits.a, 2),
                (Operand::B, &traits.b, 1),
                (Operand::C, &traits.c, 3),
            ] {
                let [i, j] = operand.modes();
                let once = own.size() / (atom.mnk()[i] * atom.mnk()[j]);
                if once > 1 && mma.tile_shape() != atom.mnk() {
                    continue; // Shared memory: every thread names the whole tile, once is enough.
                }
                let tv = mma.tv(operand)?;
                let (threads, values) = (size(&tv, 0), size(&tv, 1));
                let (table, mut held) = (tv.table()?, Vec::new());
                for thread in
                    (0..threads).filter(|t| mma.slice(*t).expect("a thread of the MMA").is_member())
                {
                    let of_thread = (0..values).map(|v| table[(thread + threads * v) as usize]);
                    held.extend(of_thread);
                }
                let [rows, columns] = mma.operand_tile(operand);
                let expected = once * size(mma.thread_layout(), lacking);
                let counts = counts(&held, rows * columns);
                assert!(
                    counts.iter().all(|c| *c == expected),
                    "{operand:?} of {}, {expected} times\n{mma}{tv}",
                    atom.name()
                );
                cases += held.len();
            }
        }
    }
    println!("law tiled_mma.operands_replicate_along_the_mode_they_lack: {cases} elements");
    Ok(())
}

/// Every form of C on its way is a form of the same tensor: each element once, and the last one is the partition.
#[test]
fn the_steps_of_a_partition_end_in_it() -> Outcome {
    let mut cases = 0;
    for atom in atoms().filter(|a| a.mnk()[1] <= 24) {
        for mma in tilings(&atom)? {
            for operand in OPERANDS {
                let [rows, columns] = mma.operand_tile(operand);
                let tensor = Layout::column_major(IntTuple::from((rows, 2 * columns)))?;
                let steps = mma.fragment_steps(&tensor, operand)?;
                assert_eq!(steps.by_thread, mma.fragments(&tensor, operand)?);
                if operand != Operand::C {
                    continue; // An operand in shared memory is named by every thread.
                }
                for form in [
                    &steps.permuted,
                    &steps.by_atom,
                    &steps.by_value,
                    &steps.by_thread,
                ] {
                    let once = counts(&form.table()?, tensor.size());
                    assert!(once.iter().all(|c| *c == 1), "{steps}");
                    cases += once.len();
                }
            }
        }
    }
    println!("law tiled_mma.the_steps_of_a_partition_end_in_it: {cases} elements");
    Ok(())
}

/// The shape of a part is every thread's, and the accumulators are the fragment of C.
#[test]
fn the_shape_of_a_part_is_every_threads() -> Outcome {
    let mut cases = 0;
    for atom in atoms().filter(|a| a.mnk()[1] <= 24) {
        for mma in tilings(&atom)? {
            for operand in OPERANDS {
                let [rows, columns] = mma.operand_tile(operand);
                let shape = IntTuple::from((2 * rows, columns));
                let tensor = Layout::row_major(shape.clone())?;
                let of_any = mma.partition_shape(shape.clone(), operand)?;
                for thread in some_threads(&mma) {
                    let thread = mma.slice(thread)?;
                    assert_eq!(thread.partition(&tensor, operand)?.layout.shape(), of_any);
                    if operand == Operand::C {
                        let fragment = thread.fragment(&tensor, operand)?;
                        assert_eq!(fragment, mma.accumulator(shape.clone())?);
                    }
                    cases += 1;
                }
            }
        }
    }
    println!("law tiled_mma.the_shape_of_a_part_is_every_threads: {cases} parts");
    Ok(())
}

/// The first, a middle and the last thread.
fn some_threads(mma: &TiledMma) -> Vec<i64> {
    let last = mma.thread_layout().cosize().expect("threads are numbers") - 1;
    let mut threads = vec![0, last / 2, last];
    threads.dedup();
    threads
}

/// The elements a partition names, of a tensor of coordinates, as `[row, column]`.
fn coordinates(partition: &Partition) -> Vec<[i64; 2]> {
    let values = partition.values().expect("a partition has its values");
    let leaves = values.iter().map(|v| {
        let leaves = v.leaves();
        [leaves[0].value(), leaves[1].value()]
    });
    leaves.collect()
}

#[test]
fn the_thread_value_layout_is_the_partition_of_the_tile() -> Outcome {
    let mut cases = 0;
    for atom in atoms().filter(|a| a.mnk()[1] <= 24) {
        for mma in tilings(&atom)? {
            for operand in OPERANDS {
                let tv = mma.tv(operand)?;
                let (threads, values) = (size(&tv, 0), size(&tv, 1));
                if values > 256 {
                    continue; // Operands in shared memory, whose partition is the whole tile.
                }
                let [rows, columns] = mma.operand_tile(operand);
                let tile = Layout::identity(IntTuple::from((rows, columns)))?;
                for thread in some_threads(&mma) {
                    let partition = mma.slice(thread)?.partition(&tile, operand)?;
                    let named = coordinates(&partition)
                        .into_iter()
                        .map(|[i, j]| i + rows * j);
                    let listed: Result<Vec<i64>, _> =
                        (0..values).map(|v| tv.at(thread + threads * v)).collect();
                    assert_eq!(
                        named.collect::<Vec<_>>(),
                        listed?,
                        "thread {thread}, {operand:?} of {}\n{mma}",
                        atom.name()
                    );
                    cases += values;
                }
            }
        }
    }
    println!(
        "law tiled_mma.the_thread_value_layout_is_the_partition_of_the_tile: {cases} elements"
    );
    Ok(())
}

/// Threads that differ only along the mode an operand lacks name the same elements.
#[test]
fn threads_along_the_lacking_mode_share() -> Outcome {
    let mut cases = 0;
    for atom in atoms().filter(|a| a.mnk()[1] <= 24) {
        for mma in tilings(&atom)? {
            for (operand, lacking) in [(Operand::A, 2), (Operand::B, 1), (Operand::C, 3)] {
                let [rows, columns] = mma.operand_tile(operand);
                let tile = Layout::identity(IntTuple::from((rows, columns)))?;
                for thread in some_threads(&mma) {
                    let one = mma.slice(thread)?;
                    let mut place = one.vmnk();
                    place[lacking] = (place[lacking] + 1) % size(mma.thread_layout(), lacking);
                    let other = mma.slice(mma.thread_layout().at(place)?)?;
                    assert_eq!(
                        one.partition(&tile, operand)?,
                        other.partition(&tile, operand)?
                    );
                    cases += 1;
                }
            }
        }
    }
    println!("law tiled_mma.threads_along_the_lacking_mode_share: {cases} pairs");
    Ok(())
}

/// A tensor that the tile does not divide: every coordinate inside is named once, and what is named outside are
/// exactly the coordinates that fill up the last tiles.
#[test]
fn a_tile_that_does_not_divide_names_the_outside() -> Outcome {
    let mut cases = 0;
    for (number, atom) in atoms().filter(|a| a.mnk()[1] <= 24).enumerate() {
        let mma = TiledMma::new(atom.clone(), "(2,1,1):(1,0,0)", &Tiler::All)?;
        let [m, n] = mma.operand_tile(Operand::C);
        let extents = vec![(m + 1, n), (2 * m - 1, n + n / 2 + 1), (m - 1, 1)];
        for (rows, columns) in in_turn(number, 3, extents) {
            let tensor = Layout::identity(IntTuple::from((rows, columns)))?;
            let mut seen = HashSet::new();
            let mut outside = 0;
            let last = mma.thread_layout().cosize()?;
            for thread in (0..last).map(|t| mma.slice(t)) {
                let thread = thread?;
                if !thread.is_member() {
                    continue;
                }
                for [i, j] in coordinates(&thread.partition(&tensor, Operand::C)?) {
                    assert!(seen.insert([i, j]), "({i},{j}) twice in {}", atom.name());
                    outside += i64::from(i >= rows || j >= columns);
                }
            }
            let up = |x: i64, to: i64| (x + to - 1) / to * to;
            assert_eq!(outside, up(rows, m) * up(columns, n) - rows * columns);
            assert_eq!(seen.len() as i64, up(rows, m) * up(columns, n));
            cases += seen.len();
        }
    }
    println!("law tiled_mma.a_tile_that_does_not_divide_names_the_outside: {cases} coordinates");
    Ok(())
}

/// Registers are compact under every swizzle of their tensor, and in the order of the tensor without one.
#[test]
fn a_swizzle_leaves_the_registers_as_they_were() -> Outcome {
    let mut cases = 0;
    let mma = TiledMma::new(
        colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?,
        "(2,2,1):(1,2,0)",
        (32, 32, 16),
    )?;
    for inner in ["(64,64):(64,1)", "(64,64):(1,64)", "(128,32):(32,1)"] {
        for swizzle in ["Sw<3,3,3>", "Sw<2,3,3>", "Sw<1,3,3>"] {
            let swizzled: ComposedLayout = format!("{swizzle} o 0 o {inner}").parse()?;
            let (swizzled, _) = swizzled.to_xor()?;
            for operand in OPERANDS {
                let plain = mma.slice(9)?.fragment(inner, operand)?;
                let registers = mma.slice(9)?.fragment(&swizzled, operand)?;
                assert!(registers.is_bijective(), "{registers}");
                assert_eq!(registers.table()?, plain.table()?, "{swizzled}");
                cases += registers.size();
            }
        }
    }
    println!("law tiled_mma.a_swizzle_leaves_the_registers_as_they_were: {cases} registers");
    Ok(())
}
