//! Tile numbers that come from the grid, and extents that only the launch knows: what lies beyond a tensor is refused before
//! the launch where it certainly happens, and named by the simulator where a branch decides.

use colex_atom::{Arch, Ty};
use colex_gpu::Device;
use colex_ir::launch::Launch;
use colex_ir::{Compare, Control, Special, Type};
use colex_layout::Layout;
use colex_tensor::{Arg, AtThread, Builder, Index, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

/// A tile: 4 rows of 8 elements, one for each thread of a warp.
const TILE: [i64; 2] = [4, 8];

fn parsed(text: &str) -> Layout {
    text.parse().expect("a layout")
}

fn copy() -> TiledCopy {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,1)");
    copy.expect("a tiled copy")
}

/// Copies the tile at these numbers of `from` to that of `to`, without a question.
fn copy_tile(k: &mut Builder, [from, to]: [&Tensor; 2], at: &[Index]) {
    let (copy, thread) = (copy(), k.thread());
    let from = copy.at(&thread).partition_src(&from.local_tile(TILE, at));
    let to = copy.at(&thread).partition_dst(&to.local_tile(TILE, at));
    let held = k.fragment_like(&from);
    k.copy(&copy, &from, &held);
    k.copy(&copy, &held, &to);
}

/// A kernel of two matrices of f32 with these layouts.
fn kernel(layout: &str, body: impl FnOnce(&mut Builder, [&Tensor; 2])) -> TensorKernel {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let from = k.tensor("from", Ty::F32, layout);
    let to = k.tensor("to", Ty::F32, layout);
    body(&mut k, [&from, &to]);
    k.finish().unwrap_or_else(|e| panic!("{e}"))
}

/// Launches a kernel over matrices of (8,16) in rows of 16.
fn launched(kernel: &TensorKernel, grid: [u32; 3]) -> Result<(), String> {
    launched_with(kernel, grid, &[])
}

fn launched_with(kernel: &TensorKernel, grid: [u32; 3], more: &[Arg<'_>]) -> Result<(), String> {
    let device = Device::simulator(Arch::Sm90a);
    let matrices = [0, 1].map(|_| device.upload(&[1f32; 128]).expect("memory"));
    let layout = parsed("(8,16):(16,_1)");
    let mut given = matrices
        .each_ref()
        .map(|m| Arg::tensor(m, &layout))
        .to_vec();
    given.extend_from_slice(more);
    let arguments = kernel.arguments(&given).map_err(|e| e.to_string())?;
    let function = device.load(&kernel.kernel).map_err(|e| e.to_string())?;
    let launch = Launch::new(grid, 32).dynamic_shared(kernel.dynamic_shared());
    let result = device.launch(&function, launch, &arguments);
    result.map_err(|e| e.to_string())
}

/// Without the place in this file.
fn without_place(text: String) -> String {
    let start = text.find(" (gpu/").unwrap_or(text.len());
    let end = text.find("): ").map_or(start, |end| end + 1);
    format!("{}{}", &text[..start], &text[end..])
}

const DYNAMIC: &str = "(64,64):(64,_1)";

#[test]
fn a_grid_that_is_too_large_is_refused_before_the_launch() {
    let kernel = kernel(DYNAMIC, |k, tensors| {
        let at = [k.block_index(0), k.block_index(1)];
        copy_tile(k, tensors, &at);
    });
    assert_eq!(launched(&kernel, [2, 2, 1]), Ok(()));
    // The next row of the same buffer.
    assert_eq!(
        launched(&kernel, [2, 3, 1]).map_err(without_place),
        Err(
            "block (1,2,0) reaches coordinate 23 along mode 1 of tensor from, whose extent is 16: launch at most 2 blocks along \
             y, or leave out what lies beyond with `copy_in_bounds`"
                .to_string()
        )
    );
    assert_eq!(
        launched(&kernel, [5, 2, 1]).map_err(without_place),
        Err(
            "block (4,1,0) reaches coordinate 19 along mode 0 of tensor from, whose extent is 8: launch at most 2 blocks along \
             x, or leave out what lies beyond with `copy_in_bounds`"
                .to_string()
        )
    );
    let far = launched(&kernel, [1 << 30, 2, 1]).expect_err("it is refused without a walk");
    assert!(far.contains("launch at most 2 blocks along x"), "{far}");
}

#[test]
fn a_static_extent_is_compared_with_the_grid_too() {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let a = k.tensor("a", Ty::F32, "(_8,_16):(_16,_1)");
    let (copy, thread, n) = (copy(), k.thread(), k.block_index(0));
    let part = copy.at(&thread).partition_src(&a.local_tile(TILE, (1, n)));
    let held = k.fragment_like(&part);
    k.copy(&copy, &part, &held);
    let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[1f32; 128]).expect("memory");
    let layout = parsed("(_8,_16):(_16,_1)");
    let arguments = built
        .arguments(&[Arg::tensor(&a, &layout)])
        .expect("it fits");
    let function = device.load(&built.kernel).expect("a kernel");
    assert!(
        device
            .launch(&function, Launch::new(2, 32), &arguments)
            .is_ok()
    );
    let refused = device.launch(&function, Launch::new(3, 32), &arguments);
    let refused = refused.map_err(|e| without_place(e.to_string()));
    assert_eq!(
        refused,
        Err(
            "block (2,0,0) reaches coordinate 23 along mode 1 of tensor a, whose extent is 16: launch at most 2 blocks along x, \
             or leave out what lies beyond with `copy_in_bounds`"
                .to_string()
        )
    );
}

#[test]
fn a_branch_on_the_block_lets_only_those_inside_through() {
    let guarded = |stated: i64| {
        kernel(DYNAMIC, |k, [from, to]| {
            let n = k.block_index(0);
            let inside = k.less(&(n.clone() * 8 + 7), &(from.extent(1) + stated));
            k.if_(inside, |k| copy_tile(k, [from, to], &[0.into(), n]));
        })
    };
    assert_eq!(launched(&guarded(0), [2, 1, 1]), Ok(()));
    assert_eq!(launched(&guarded(0), [100, 1, 1]), Ok(()));
    assert_eq!(launched(&guarded(-9), [100, 1, 1]), Ok(()));
    // The branch lets one too many through, and the last block is not among them: the simulator sees it.
    let fault = launched(&guarded(8), [100, 1, 1]).expect_err("block 2 lies beyond");
    assert!(
        fault.ends_with(
            "the access reaches coordinate 16 along mode 1 of tensor from, whose extent is 16: a branch or a smaller grid keeps \
             it inside, and `copy_in_bounds` leaves out what lies beyond"
        ),
        "{fault}"
    );
    assert!(
        fault.starts_with("thread (0,0,0) of block (2,0,0), at `trap`"),
        "{fault}"
    );
    // Of a grid whose last block is let through, the launch says it.
    let refused = launched(&guarded(8), [3, 1, 1]).map_err(without_place);
    assert!(
        refused
            .as_ref()
            .is_err_and(|e| e.contains("launch at most 2 blocks along x")),
        "{refused:?}"
    );
}

#[test]
fn loops_over_tiles_are_followed_to_their_last_turn() {
    let looped = |more: i64| {
        kernel(DYNAMIC, |k, [from, to]| {
            let m = k.block_index(0);
            let tiles = from.extent(1) / 8 + more;
            k.for_(0, tiles, 1, |k, n| {
                copy_tile(k, [from, to], &[m, n.clone()]);
            })
        })
    };
    assert_eq!(launched(&looped(0), [2, 1, 1]), Ok(()));
    // No turn at all.
    assert_eq!(launched(&looped(-2), [2, 1, 1]), Ok(()));
    assert_eq!(launched(&looped(-2), [9, 1, 1]), Ok(()));
    assert!(launched(&looped(0), [3, 1, 1]).is_err_and(|e| e.starts_with("block (2,0,0) reaches")));
    let far = launched(&looped(1), [2, 1, 1]).expect_err("a turn too many");
    assert_eq!(
        without_place(far),
        "block (1,0,0) reaches coordinate 23 along mode 1 of tensor from, whose extent is 16: leave out what lies beyond with \
         `copy_in_bounds`"
    );
}

/// Tiles whose numbers are sums of the counters of nested loops, of two turns each.
fn nested(k: &mut Builder, tensors: [&Tensor; 2], ends: &[i64], sum: Index) {
    let Some((end, rest)) = ends.split_first() else {
        let sum = k.within(sum, 0..1 << 10);
        return copy_tile(k, tensors, &[0.into(), sum]);
    };
    // The tensor has two tiles; of extents that are constants the arguments are asked.
    let end = tensors[0].extent(1) / 8 + (end - 2);
    k.for_(0, end, 1, |k, i| nested(k, tensors, rest, &sum + i));
}

/// Loops of any depth are followed to their last iterations: two tiles are there, of as many as the counters come to.
#[test]
fn law_nested_loops_are_followed_to_their_last_turns() {
    let mut cases = 0;
    for depth in 1..=6 {
        for far in 0..=depth {
            // All loops but `far` of them have one turn.
            let ends: Vec<i64> = (0..depth).map(|i| if i < far { 2 } else { 1 }).collect();
            let kernel = kernel(DYNAMIC, |k, tensors| nested(k, tensors, &ends, 0.into()));
            let found = launched(&kernel, [1, 1, 1]);
            cases += 1;
            match far {
                0 | 1 => assert_eq!(found, Ok(()), "{ends:?}"),
                _ => {
                    let said = found.expect_err("a tile beyond the last");
                    let last = format!(
                        "reaches coordinate {} along mode 1 of tensor from",
                        8 * far + 7
                    );
                    assert!(
                        said.starts_with("block (0,0,0)") && said.contains(&last),
                        "{ends:?}: {said}"
                    );
                }
            }
        }
    }
    println!("law grids.nested_loops: {cases} cases");
}

#[test]
fn a_loop_that_is_left_early_is_not_refused() {
    let left = kernel(DYNAMIC, |k, [from, to]| {
        let end = k.index_argument("end", 0..1 << 20);
        k.for_(0, end, 1, |k, n| {
            let more = k.less(n, &(from.extent(1) / 8));
            k.break_unless(more);
            copy_tile(k, [from, to], &[0.into(), n.clone()]);
        })
    });
    let with = |n: u32| launched_with(&left, [1, 1, 1], &[Arg::Value(n.into())]);
    assert_eq!(with(100), Ok(()));
}

#[test]
fn tiles_that_blocks_share_by_turns_are_not_refused() {
    // As many turns as are left: the block's number is the first tile, the grid's extent the step.
    let persistent = kernel(DYNAMIC, |k, [from, to]| {
        let (first, step) = (k.block_index(0), k.grid_extent(0));
        let columns = from.extent(1) / 8;
        let tiles = k.within(from.extent(0) / 4 * columns.clone(), 0..1 << 20);
        k.for_(first, tiles, step, |k, tile| {
            let at = [
                tile.clone() / columns.clone(),
                tile.clone() % columns.clone(),
            ];
            copy_tile(k, [from, to], &at);
        })
    });
    for blocks in 1..9 {
        assert_eq!(
            launched(&persistent, [blocks, 1, 1]),
            Ok(()),
            "{blocks} blocks"
        );
    }
}

#[test]
fn a_tile_that_is_cut_to_the_last_is_not_refused() {
    let bounded = kernel(DYNAMIC, |k, [from, _]| {
        let last = k.within(from.extent(1) / 8 - 1, 0..1 << 28);
        let n = k.block_index(0).min(&last);
        let (copy, thread) = (copy(), k.thread());
        let tile = from.local_tile(TILE, &[0.into(), n]);
        let part = copy.at(&thread).partition_src(&tile);
        let held = k.fragment_like(&part);
        k.copy(&copy, &part, &held)
    });
    assert_eq!(launched(&bounded, [7, 1, 1]), Ok(()));
}

#[test]
fn what_an_argument_says_is_known_at_the_launch() {
    let numbered = kernel(DYNAMIC, |k, tensors| {
        let n = k.index_argument("n", 0..1000);
        copy_tile(k, tensors, &[0.into(), n]);
    });
    let with = |n: u32| launched_with(&numbered, [1, 1, 1], &[Arg::Value(n.into())]);
    assert_eq!(with(1), Ok(()));
    assert_eq!(
        with(2).map_err(without_place),
        Err(
            "block (0,0,0) reaches coordinate 23 along mode 1 of tensor from, whose extent is 16: leave out what lies beyond \
             with `copy_in_bounds`"
                .to_string()
        )
    );
    // A launch that passed does not speak for another argument.
    assert_eq!(with(0), Ok(()));
    assert!(with(3).is_err());
}

#[test]
fn what_the_author_states_is_looked_at_too() {
    let stated = kernel(DYNAMIC, |k, [from, _]| {
        let n = k.block_index(0);
        let (copy, thread) = (copy(), k.thread());
        let tile = from.local_tile(TILE, &[0.into(), n]).stated_inside();
        let part = copy.at(&thread).partition_src(&tile);
        let held = k.fragment_like(&part);
        k.copy(&copy, &part, &held)
    });
    assert_eq!(launched(&stated, [2, 1, 1]), Ok(()));
    assert!(launched(&stated, [3, 1, 1]).is_err_and(|e| e.starts_with("block (2,0,0) reaches")));
}

/// What a condition of the author's lets through that it should not.
#[test]
fn a_condition_that_lets_too_much_through_is_a_fault() {
    let chosen = |columns: i64| {
        kernel(DYNAMIC, |k, [from, _]| {
            let n = k.block_index(0);
            let (copy, thread) = (copy(), k.thread());
            let tile = from.local_tile(TILE, &[0.into(), n]);
            let part = copy.at(&thread).partition_src(&tile);
            let held = k.fragment_like(&part);
            k.copy_if(&copy, &part, &held, |k, at| k.less(&at[1], &columns.into()))
        })
    };
    assert_eq!(launched(&chosen(16), [5, 1, 1]), Ok(()));
    let fault = launched(&chosen(17), [5, 1, 1]).expect_err("column 16");
    assert!(
        fault.contains("reaches coordinate 16 along mode 1 of tensor from"),
        "{fault}"
    );
}

/// A range that the author declares decides a comparison, which the copy then leaves out: the launch makes it instead.
#[test]
fn what_a_stated_range_decides_is_looked_at_too() {
    let kernel = kernel("(_8,_16):(_16,_1)", |k, [from, to]| {
        let at = [0, 1].map(|axis| {
            let block = k.block_index(axis);
            k.within(block, 0..2)
        });
        let (copy, thread) = (copy(), k.thread());
        let from = copy
            .at(&thread)
            .partition_src(&from.local_tile(TILE, &at[..]));
        let to = copy
            .at(&thread)
            .partition_dst(&to.local_tile(TILE, &at[..]));
        let held = k.fragment_like(&from);
        k.copy_in_bounds(&copy, &from, &held);
        k.copy_in_bounds(&copy, &held, &to);
    });
    assert_eq!(launched(&kernel, [2, 2, 1]), Ok(()));
    for grid in [[3, 1, 1], [1, 3, 1], [2, 4, 1]] {
        let said = launched(&kernel, grid).unwrap_err();
        let begins = "and the kernel declares here that it is 0 to 1 ";
        assert!(said.contains(begins), "{said}");
    }
}

/// Loads a tile of `from`, without a question.
fn load_tile(k: &mut Builder, from: &Tensor, at: &[Index]) {
    let (copy, thread) = (copy(), k.thread());
    let part = copy.at(&thread).partition_src(&from.local_tile(TILE, at));
    let held = k.fragment_like(&part);
    k.copy(&copy, &part, &held);
}

/// No instruction masks bits that a declared range leaves clear, so a block beyond the range is refused.
#[test]
fn a_coordinate_is_compared_as_its_instructions_compute_it() {
    let kernel = kernel("(_8,_16):(_16,_1)", |k, [from, _]| {
        let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
        let copy = TiledCopy::new(atom, 32, "(1,16):(16,1)", "(1,1):(0,1)").expect("a copy");
        let (thread, block) = (k.thread() % 16, k.block_index(0));
        let row = k.within(block, 0..16) / 2;
        let part = from.local_tile([1, 16], &[row, 0.into()]);
        let part = copy.at(&thread).partition_src(&part);
        let held = k.fragment_like(&part);
        k.copy(&copy, &part, &held);
    });
    assert_eq!(launched(&kernel, [16, 1, 1]), Ok(()));
    let said = launched(&kernel, [18, 1, 1]).expect_err("row 8 of 8");
    assert!(
        said.starts_with(
            "an integer is 17 in block (17,0,0), and the kernel declares here that it is 0 to 15 "
        ),
        "{said}"
    );
}

/// A range that is stated of the thread's number lets no thread through that it leaves out.
#[test]
fn a_stated_range_of_threads_is_looked_at_too() {
    let of = |is_guarded: bool| {
        let kernel = kernel("(_8,_16):(_16,_1)", |k, [from, _]| {
            let thread = k.thread();
            let is_first = k.less(&thread, &2.into());
            let load = |k: &mut Builder| {
                let at = [0.into(), k.within(&thread, 0..2)];
                load_tile(k, from, &at);
            };
            if is_guarded {
                k.if_(is_first, load);
            } else {
                load(k);
            }
        });
        let has_trap = kernel.kernel.ptx().expect("a kernel").contains("trap;");
        (launched(&kernel, [1, 1, 1]).is_ok(), has_trap)
    };
    // Which threads it is of is known when the kernel is built.
    assert_eq!(of(true), (true, false));
    assert!(!of(false).0);
}

/// A kernel whose access no launch decides: what it does with a number, the grid, a number that keeps the access inside, and
/// one that does not, though no corner of the grid shows it. The matrices are of (8,40), so there are five tiles.
type Undecided = (
    &'static str,
    fn(&mut Builder, [&Tensor; 2], Index),
    u32,
    [u32; 2],
);

/// The same number in a register of which nothing is known.
fn copied(k: &mut Builder, n: &Index) -> colex_ir::Reg {
    let reg = k.value(n);
    k.emit(|ir| ir.add(Type::U32, reg, 0))
}

/// A predicate of which nothing is known.
fn raw(k: &mut Builder, n: &Index) -> colex_tensor::Cond {
    let reg = k.value(n);
    k.emit(|ir| ir.setp(Compare::Lt, Type::U32, reg, 100))
        .into()
}

const UNDECIDED: &[Undecided] = &[
    (
        "a variable",
        |k, t, n| {
            let number = k.var(n, 0..1000);
            let now = k.get(&number);
            copy_tile(k, t, &[0.into(), now]);
        },
        1,
        [4, 5],
    ),
    (
        "a register",
        |k, t, n| {
            let reg = copied(k, &n);
            let now = k.index_of(reg, 0..1000);
            copy_tile(k, t, &[0.into(), now]);
        },
        1,
        [4, 5],
    ),
    (
        "a declared register",
        |k, t, n| {
            let reg = copied(k, &n);
            let now = k.index_of(reg, 0..5);
            copy_tile(k, t, &[0.into(), now]);
        },
        1,
        [4, 5],
    ),
    (
        "a predicate of the author's",
        |k, t, n| {
            let p = raw(k, &n);
            k.if_(p, |k| copy_tile(k, t, &[0.into(), n]));
        },
        1,
        [4, 5],
    ),
    (
        "a copy under such a predicate",
        |k, [from, _], n| {
            let (copy, thread, p) = (copy(), k.thread(), raw(k, &n));
            let part = from.local_tile(TILE, &[0.into(), n]);
            let part = copy.at(&thread).partition_src(&part);
            let held = k.fragment_like(&part);
            k.copy_if(&copy, &part, &held, |_, _| p);
        },
        1,
        [4, 5],
    ),
    (
        "a branch on the block",
        |k, t, n| {
            let block = k.block_index(0);
            let inside = k.less(&block, &n);
            k.if_(inside, |k| copy_tile(k, t, &[0.into(), block]));
        },
        8,
        [5, 6],
    ),
    (
        "a loop that is left early",
        |k, t, n| {
            k.for_(0, &n + 95, 1, |k, i| {
                let more = k.less(i, &n);
                k.break_unless(more);
                copy_tile(k, t, &[0.into(), i.clone()]);
            });
        },
        1,
        [5, 6],
    ),
    (
        "a loop without a counter",
        |k, t, n| {
            let number = k.var(0, 0..1000);
            k.loop_(|k| {
                let now = k.get(&number);
                let more = k.less(&now, &n);
                k.break_unless(more);
                copy_tile(k, t, &[0.into(), now.clone()]);
                k.set(&number, now + 1);
            });
        },
        1,
        [5, 6],
    ),
    (
        "turns that begin at the block",
        |k, t, n| {
            let (first, step) = (k.block_index(0), k.grid_extent(0));
            k.for_(first, n, step, |k, i| {
                copy_tile(k, t, &[0.into(), i.clone()])
            });
        },
        7,
        [5, 6],
    ),
    (
        "an order that turns back",
        |k, t, n| {
            let block = k.block_index(0);
            let at = k.within(block, 0..8) * n % 8;
            copy_tile(k, t, &[0.into(), at]);
        },
        3,
        [4, 5],
    ),
    (
        "one of two numbers",
        |k, t, n| {
            let block = k.block_index(0);
            let at = Index::select_less(&block, &n, &block, &0.into());
            copy_tile(k, t, &[0.into(), at]);
        },
        8,
        [5, 6],
    ),
    (
        "after an exit",
        |k, t, n| {
            let p = raw(k, &(&n + 100));
            k.where_(p, |ir| ir.push(Control::Exit));
            copy_tile(k, t, &[0.into(), n]);
        },
        1,
        [4, 5],
    ),
    (
        "loops that grow and shrink",
        |k, t, n| {
            k.for_(0, 2, 1, |k, i| {
                k.for_(0, 2, 1, |k, j| {
                    let at = i * &n + (Index::from(1) - j) * &n;
                    let at = k.within(at, 0..2000);
                    k.for_(0, 2, 1, |k, _| {
                        k.for_(0, 2, 1, |k, _| {
                            k.for_(0, 2, 1, |k, _| copy_tile(k, t, &[0.into(), at.clone()]));
                        });
                    });
                });
            });
        },
        1,
        [2, 3],
    ),
    (
        "a number of the thread",
        |k, t, n| {
            let at = (k.thread() + n) % 64 / 63 * 5;
            copy_tile(k, t, &[0.into(), at]);
        },
        1,
        [0, 40],
    ),
    (
        "an elected lane",
        |k, t, n| {
            let one = k.elected();
            k.if_(one, |k| copy_tile(k, t, &[0.into(), n]));
        },
        1,
        [4, 5],
    ),
    (
        "the rank in a cluster",
        |k, t, n| {
            k.emit(|ir| {
                ir.cluster([2, 1, 1]);
            });
            let (rank, block) = (k.cluster_rank(2), k.block_index(0));
            let at = k.within(n + rank * 2 - block, 0..2000);
            copy_tile(k, t, &[0.into(), at]);
        },
        4,
        [3, 4],
    ),
];

/// Where no launch decides whether an access lies inside, the simulator names one that does not, and a GPU, which has only the
/// kernel's own instructions, traps before it.
#[test]
fn law_undecided_accesses_trap() {
    let mut cases = 0;
    let device = Device::simulator(Arch::Sm90a);
    let layout = parsed("(8,40):(40,_1)");
    for (name, body, blocks, numbers) in UNDECIDED {
        let kernel = kernel(DYNAMIC, |k, tensors| {
            let n = k.index_argument("n", 0..1000);
            body(k, tensors, n);
        });
        let mut bare = kernel.kernel.clone();
        for claim in &mut bare.claims {
            claim.bounds.clear();
            claim.declared = None;
        }
        for (i, n) in numbers.iter().enumerate() {
            for (is_bare, kernel_ir) in [(false, &kernel.kernel), (true, &bare)] {
                let matrices = [0, 1].map(|_| device.upload(&[1f32; 320]).expect("memory"));
                let [from, to] = matrices.each_ref().map(|m| Arg::tensor(m, &layout));
                let arguments = kernel.arguments(&[from, to, Arg::Value((*n).into())]);
                let arguments = arguments.unwrap_or_else(|e| panic!("{name}: {e}"));
                let function = device
                    .load(kernel_ir)
                    .unwrap_or_else(|e| panic!("{name}: {e}"));
                let mut launch = Launch::new(*blocks, 32);
                if let Some([blocks, ..]) = kernel.kernel.cluster {
                    launch = launch.cluster(blocks);
                }
                let found = device.launch(&function, launch, &arguments);
                let found = found.map_err(|e| e.to_string());
                cases += 1;
                match (i, is_bare) {
                    (0, _) => assert_eq!(found, Ok(()), "{name}, {n}"),
                    (_, false) => {
                        let said = found.expect_err(name);
                        let is_named = said.contains("reaches coordinate ")
                            || said.contains("the kernel declares here that it is 0 to 4: ");
                        assert!(said.starts_with("thread (") && is_named, "{name}: {said}");
                    }
                    (_, true) => {
                        let said = found.expect_err(name);
                        assert!(said.ends_with("the kernel traps"), "{name}: {said}");
                    }
                }
            }
        }
    }
    println!("law grids.undecided_accesses: {cases} cases");
}

/// The steps of the largest claim of a kernel, and those of all.
fn claimed_steps(kernel: &TensorKernel) -> [usize; 2] {
    let (mut most, mut all) = (0, 0);
    for claim in &kernel.kernel.claims {
        claim.visit(&mut |expression| {
            most = most.max(expression.steps());
            all += expression.steps();
        });
    }
    [most, all]
}

/// A coordinate that is divided level by level, each of which uses the one above several times, costs the same for every further level:
/// in the claims of the accesses, which the simulator evaluates, and in the text of the kernel.
#[test]
fn law_every_level_of_a_coordinate_costs_the_same() {
    let order: colex_sched::Order = "grouped 2 along m".parse().expect("an order");
    let of_levels = |levels: usize| {
        kernel(DYNAMIC, |k, tensors| {
            let mut arguments = (0..=levels).map(|i| format!("l{i}"));
            let mut size = k.index_argument(&arguments.next().expect("one"), 1..9);
            let mut grids = Vec::new();
            for name in arguments {
                let extent = k.index_argument(&name, 1..9);
                let grid = k
                    .tile_grid(order, [size, extent])
                    .expect("it has a formula");
                size = grid.size();
                grids.push(grid);
            }
            let mut place = k.block_index(0);
            for grid in grids.iter().rev() {
                [place, _] = k.tile_at(grid, place);
            }
            copy_tile(k, tensors, &[0.into(), place]);
        })
    };
    let kernels: Vec<TensorKernel> = (0..=12).map(of_levels).collect();
    let sizes = kernels.iter().map(|kernel| {
        let [most, all] = claimed_steps(kernel);
        [most, all, kernel.kernel.ptx().expect("a text").len()]
    });
    let sizes: Vec<[usize; 3]> = sizes.collect();
    println!("steps of the largest claim and of all, bytes of PTX: {sizes:?}");
    let grows = |which: usize, level: usize| sizes[level][which] - sizes[level - 1][which];
    for level in 3..sizes.len() {
        // The steps of a claim by the same number, and those of all by a number that grows by the same.
        assert!(grows(0, level) <= 12, "level {level}: {sizes:?}");
        let more = grows(1, level) - grows(1, level - 1);
        assert!(more <= 20, "level {level}: {sizes:?}");
        assert!(grows(2, level) <= 12_000, "level {level}: {sizes:?}");
    }
    for (levels, kernel) in kernels.iter().enumerate() {
        // Two tiles along the innermost level, and one along each of the others.
        let mut extents = vec![Arg::Value(1u32.into()); levels + 1];
        extents[0] = Arg::Value(2u32.into());
        let launched = |blocks| launched_with(kernel, [blocks, 1, 1], &extents);
        assert_eq!(launched(2), Ok(()), "{levels} levels");
        assert!(launched(3).is_err(), "{levels} levels");
    }
}

/// Nothing that a launch decides costs an instruction.
#[test]
fn what_a_launch_decides_does_not_trap() {
    let has_trap = |body: fn(&mut Builder, [&Tensor; 2])| {
        let text = kernel(DYNAMIC, body).kernel.ptx();
        text.expect("a kernel").contains("trap;")
    };
    assert!(!has_trap(|k, t| {
        let at = [k.block_index(0), k.block_index(1)];
        copy_tile(k, t, &at);
    }));
    assert!(!has_trap(|k, t| {
        let (m, tiles) = (k.block_index(0), t[0].extent(1) / 8);
        k.for_(0, tiles, 1, |k, n| copy_tile(k, t, &[m, n.clone()]));
    }));
    // The branch says what the load takes for granted.
    assert!(!has_trap(|k, t| {
        let n = k.block_index(0);
        let inside = k.less(&(n.clone() * 8 + 7), &t[0].extent(1));
        let both = k.less(&3.into(), &t[0].extent(0));
        let inside = k.both(inside, both);
        k.if_(inside, |k| load_tile(k, t[0], &[0.into(), n]));
    }));
    // The number of a multiprocessor is known to no launch.
    assert!(has_trap(|k, t| {
        let n = k.special(Special::SmId, 0..1000);
        copy_tile(k, t, &[0.into(), n]);
    }));
}

/// A claim is made of what the registers hold at the access: a variable that has another value by then is refused.
#[test]
fn a_coordinate_from_before_its_variable_was_written_is_refused() {
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let from = k.tensor("from", Ty::F32, DYNAMIC);
    let to = k.tensor("to", Ty::F32, DYNAMIC);
    let number = k.var(0, 0..5);
    let before = k.get(&number);
    k.for_(0, 2, 1, |k, i| {
        copy_tile(k, [&from, &to], &[0.into(), before.clone()]);
        k.set(&number, i);
    });
    let said = k.finish().expect_err("the second turn has another number");
    assert!(
        said.to_string().contains(
            "is written between where its value is read and where it is used; read it again"
        ),
        "{said}"
    );
}

/// What is computed of a declared range folds, and the range is checked all the same: `i / 8` of 0 to 7 is the constant 0.
#[test]
fn a_range_that_folds_is_checked() {
    let device = Device::simulator(Arch::Sm90a);
    let mut k = Builder::new("k", Arch::Sm90a, 32);
    let i = k.index_argument("i", 0..100);
    let sum = k.var(0, 0..100);
    k.for_(0, &i, 1, |k, _| k.set(&sum, 9));
    let late = k.get(&sum);
    let folded = [k.within(&i, 0..10) / 10, k.within(late, 0..9) / 9];
    assert_eq!(folded.map(|x| x.as_constant()), [Some(0); 2]);
    let kernel = k.finish().expect("a kernel");
    let function = device.load(&kernel.kernel).expect("it loads");
    let run = |i: u32| {
        let arguments = kernel.arguments(&[Arg::Value(i.into())]);
        let arguments = arguments.expect("a number");
        let run = device.launch(&function, Launch::new(1, 32), &arguments);
        run.map_err(|e| e.to_string())
    };
    assert_eq!(run(0), Ok(()));
    // A variable is known to no launch.
    let said = run(1).expect_err("9 is not below 9");
    assert!(
        said.contains("the kernel declares here that it is 0 to 8"),
        "{said}"
    );
    let said = run(10).expect_err("10 is not below 10");
    assert!(
        said.starts_with(
            "an integer is 10 in block (0,0,0), and the kernel declares here that it is 0 to 9 "
        ),
        "{said}"
    );
    assert!(kernel.kernel.ptx().expect("text").contains("trap;"));
}

/// An order of tiles that turns back, over a grid whose size a launch knows: no access traps, and a place beyond the grid is
/// refused.
#[test]
fn tiles_of_an_order_lie_in_the_tensor() {
    let order: colex_sched::Order = "grouped 2 along n".parse().expect("an order");
    let kernel = kernel(DYNAMIC, |k, [from, to]| {
        let tiles = [from.extent(0) / 4, from.extent(1) / 8];
        k.same_extents(from, to);
        let grid = k.tile_grid(order, tiles).expect("a formula");
        let block = k.block_index(0);
        let at = k.tile_at(&grid, block);
        copy_tile(k, [from, to], &at);
    });
    assert!(!kernel.kernel.ptx().expect("text").contains("trap;"));
    assert_eq!(launched(&kernel, [4, 1, 1]), Ok(()));
    let said = launched(&kernel, [5, 1, 1]).expect_err("the fifth of 4 tiles");
    assert!(
        said.starts_with("an integer is -1 in block (4,0,0), "),
        "{said}"
    );
}
