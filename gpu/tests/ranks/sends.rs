//! Pieces that the kernels of ranks send to each other while they multiply.

use colex_atom::Arch;
use colex_gpu::gemm::{ChunkOrder, SentTo};
use colex_gpu::ir::launch::{Argument, Launch, TensorMapArgument};
use colex_gpu::ir::{Control, FenceKind, Memory, Op, Order, Scope, Stmt, Sync};
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_gpu::tensor::{Arg, TensorKernel};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::bf16;

use super::chunks::{KINDS, Kind, SHAPE, Shape, layout, numbers, on_one_device, plan};

/// Ranks, and the pieces of each.
#[derive(Clone, Copy, Debug)]
struct Of {
    ranks: i64,
    pieces: i64,
}

impl Of {
    /// The product, whose chunks are the pieces.
    fn shape(self) -> Shape {
        Shape {
            m: 72,
            chunks: self.ranks * self.pieces,
            ..SHAPE
        }
    }

    fn order(self) -> ChunkOrder {
        let pieces = self.pieces;
        ChunkOrder::OwnPiecesFirst { pieces }
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// Warps count by relaxed atomics.
    RelaxedCount,
    /// The flag is stored without a release.
    RelaxedFlag,
    /// The flag is released for one device.
    FlagOfOneDevice,
    /// The counts are not zeros before the launch.
    OldCount,
    /// A rank sends to the first peer twice, and to the second never.
    WrongPeer,
    /// The flags are those of an earlier piece.
    WrongFlag,
    /// A rank ends without a launch.
    Absent,
    /// TMA reads what another device has written without a fence between proxies.
    NoFence,
}

/// The kernel of a plan that sends, as a library call has it.
fn built(of: Of, kind: Kind) -> TensorKernel {
    let shape = of.shape();
    let device = Device::simulator(Arch::Sm90a);
    let each = shape.m * shape.k * of.pieces;
    let a = device.upload(&numbers(each * of.ranks, 1)).unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * shape.chunks) as usize)
        .unwrap();
    let flags = device.zeros::<u32>(shape.chunks as usize).unwrap();
    let mut counts = device.zeros::<u32>(of.pieces as usize).unwrap();
    let others = 1..of.ranks;
    let mut memory: Vec<_> = others
        .map(|_| {
            let pieces = device.zeros::<bf16>(each as usize).unwrap();
            (pieces, device.zeros::<u32>(of.pieces as usize).unwrap())
        })
        .collect();
    let peers = memory.iter_mut().map(|(pieces, arrived)| SentTo {
        pieces: pieces.view_mut(each).unwrap(),
        arrived: arrived.view_mut(of.pieces).unwrap(),
    });
    let peers: Vec<_> = peers.collect();
    let own = a.slice(..each as usize).unwrap();
    let own = own.view(each).unwrap();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let c = ViewMut::new(&mut c, shape.c()).unwrap();
    let product = Gemm::new(&a, &b, &c)
        .chunks(of.order(), 0)
        .arrivals(&flags.view(shape.chunks).unwrap())
        .sends(&own, &counts.view_mut(of.pieces).unwrap(), &peers);
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

/// Changes the instructions, and returns how many.
fn change(body: &mut Vec<Stmt>, wrong: Wrong) -> usize {
    let (mut changed, mut removed) = (0, Vec::new());
    for (at, stmt) in body.iter_mut().enumerate() {
        match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                changed += change(then, wrong) + change(other, wrong);
            }
            Op::Control(Control::Loop { body }) => changed += change(body, wrong),
            Op::Memory(Memory::Atomic { order, .. }) if wrong == Wrong::RelaxedCount => {
                *order = Order::Relaxed(Scope::Sys);
                changed += 1;
            }
            Op::Memory(Memory::Store { access, .. })
                if access.order == Order::Release(Scope::Sys) =>
            {
                access.order = match wrong {
                    Wrong::RelaxedFlag => Order::Relaxed(Scope::Sys),
                    Wrong::FlagOfOneDevice => Order::Release(Scope::Gpu),
                    _ => continue,
                };
                changed += 1;
            }
            Op::Sync(Sync::Fence(FenceKind::ProxyAsyncGlobal)) if wrong == Wrong::NoFence => {
                removed.push(at);
            }
            _ => {}
        }
    }
    changed += removed.len();
    for at in removed.into_iter().rev() {
        body.remove(at);
    }
    changed
}

/// Runs the product on every rank, and returns the bits of C of every rank.
fn on_ranks(
    of: Of,
    kind: Kind,
    wrong: Wrong,
    (rounds, seed): (u32, u64),
) -> Result<Vec<Vec<u32>>, Fault> {
    let (shape, count) = (of.shape(), of.ranks as usize);
    let mut built = built(of, kind);
    let changed = change(&mut built.kernel.body, wrong);
    let is_in_kernel = !matches!(
        wrong,
        Wrong::Nothing | Wrong::OldCount | Wrong::WrongPeer | Wrong::WrongFlag | Wrong::Absent
    );
    assert_eq!(changed > 0, is_in_kernel, "{wrong:?}");
    let mut ranks = Ranks::connected(count).unwrap();
    // The events at which every stream waits for all others before a launch.
    ranks.host_joins(true);
    let own = (shape.m * shape.k * of.pieces * 2) as u64;
    let [bytes_b, bytes_c] = [shape.n * shape.k * 2, shape.m * shape.n * shape.chunks * 4];
    let mut on = |bytes: u64| -> Vec<u64> {
        let each = 0..count;
        each.map(|rank| ranks.allocate(rank, bytes.next_multiple_of(256)).unwrap())
            .collect()
    };
    let (at_a, at_b, at_c) = (
        on(own * of.ranks as u64),
        on(bytes_b as u64),
        on(bytes_c as u64),
    );
    let (flags, counts) = (on(4 * shape.chunks as u64), on(4 * of.pieces as u64));
    let bytes =
        |numbers: &[bf16]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for rank in 0..count {
        ranks
            .write(flags[rank], &vec![0; 4 * shape.chunks as usize])
            .unwrap();
        let first = u8::from(wrong == Wrong::OldCount);
        let mut zeros = vec![0; 4 * of.pieces as usize];
        zeros[0] = first;
        ranks.write(counts[rank], &zeros).unwrap();
        ranks
            .write(at_b[rank], &bytes(&numbers(shape.n * shape.k, 2)))
            .unwrap();
    }
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let launch = Launch::new(2 * cluster, built.kernel.block.unwrap()[0])
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    for round in 1..=rounds {
        let all = numbers(
            shape.m * shape.k * shape.chunks,
            1 + i64::from(rounds - round),
        );
        for rank in 0..count {
            let each = (own / 2) as usize;
            ranks
                .write(
                    at_a[rank] + own * rank as u64,
                    &bytes(&all[rank * each..][..each]),
                )
                .unwrap();
            for piece in 0..of.pieces as usize {
                let flag = rank * of.pieces as usize + piece;
                ranks
                    .write(flags[rank] + 4 * flag as u64, &round.to_le_bytes())
                    .unwrap();
            }
        }
        let words = layout(&format!("{}:1", own / 4));
        let each = layout(&format!("{}:1", of.pieces));
        let (of_a, of_flags) = (shape.a(), layout(&format!("{}:1", shape.chunks)));
        let one_b = layout(&format!("({},{k},1):({k},1,16)", shape.n, k = shape.k));
        let arguments = |rank: usize| {
            if wrong == Wrong::Absent && rank == 1 {
                return None;
            }
            let map = |name: &str, layout: Layout, address| {
                let map = built.tensor_map(name, layout).unwrap();
                let encoded = None;
                Arg::Value(Argument::from(TensorMapArgument {
                    map,
                    address,
                    encoded,
                }))
            };
            let mut given = vec![
                map("A", of_a.clone(), at_a[rank]),
                map("B", one_b.clone(), at_b[rank]),
                map("C", shape.c(), at_c[rank]),
            ];
            let first = rank as i64 * of.pieces;
            let sizes = [shape.m, shape.n, shape.k, shape.chunks, first];
            given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
            given.push(Arg::checked(flags[rank], &of_flags));
            given.push(Arg::checked(at_a[rank] + own * rank as u64, &words));
            given.push(Arg::checked(counts[rank], &each));
            for away in 1..count {
                let away = if wrong == Wrong::WrongPeer { 1 } else { away };
                let peer = (rank + away) % count;
                let by = if wrong == Wrong::WrongFlag { 0 } else { first };
                given.push(Arg::checked(at_a[peer] + own * rank as u64, &words));
                given.push(Arg::checked(flags[peer] + 4 * by as u64, &each));
            }
            given.extend([1.0, 0.0].map(|x| Arg::Value(Argument::F32(x))));
            Some(built.arguments(&given).unwrap())
        };
        let arguments: Vec<_> = (0..count).map(arguments).collect();
        ranks.simulate(
            &built.kernel,
            &launch,
            &arguments,
            &SimOptions::default().seed(seed),
        )?;
        for rank in 0..count {
            let left = ranks.read(counts[rank], 4 * of.pieces as u64).unwrap();
            assert!(
                left.iter().all(|byte| *byte == 0),
                "the counts are zeros again"
            );
        }
    }
    let read = |at: &u64| {
        let bytes = ranks.read(*at, bytes_c as u64).unwrap();
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect()
    };
    Ok(at_c.iter().map(read).collect())
}

#[test]
fn law_pieces_that_kernels_send_give_the_bits_of_the_batch() {
    let mut cases = 0;
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Gather) {
        for (ranks, pieces) in [(2, 1), (2, 3), (3, 2), (4, 1)] {
            let of = Of { ranks, pieces };
            let expected = on_one_device(of.shape(), kind, |product, _| product);
            for seed in 0..3 {
                let found = on_ranks(of, kind, Wrong::Nothing, (2, seed));
                let found = found.unwrap_or_else(|fault| panic!("{kind:?} {of:?} {seed}: {fault}"));
                assert!(
                    found.iter().all(|c| *c == expected),
                    "{kind:?} {of:?} {seed}"
                );
                cases += 1;
            }
        }
    }
    println!("law ranks.sends: {cases} cases");
}

#[test]
fn a_mistake_of_a_sender_is_named() {
    let of = Of {
        ranks: 3,
        pieces: 2,
    };
    let named = |wrong: Wrong, kind: FaultKind, says: &str| {
        for seed in 0..3 {
            let Err(fault) = on_ranks(of, Kind::Cooperative, wrong, (1, seed)) else {
                panic!("{wrong:?} {seed}: nothing is found");
            };
            assert_eq!(fault.kind(), kind, "{wrong:?} {seed}: {fault}");
            assert!(fault.what().contains(says), "{wrong:?} {seed}: {fault}");
        }
    };
    named(Wrong::RelaxedCount, FaultKind::Race, "rank");
    named(Wrong::RelaxedFlag, FaultKind::Race, "releas");
    named(Wrong::FlagOfOneDevice, FaultKind::Race, "`.sys`");
    named(Wrong::NoFence, FaultKind::MissingFence, "fence.proxy.async");
    // The flag is set when one warp has not stored its part.
    named(Wrong::OldCount, FaultKind::Race, "rank");
    named(
        Wrong::WrongPeer,
        FaultKind::Deadlock,
        "`arrived` of rank 0, which holds 0",
    );
    named(Wrong::WrongFlag, FaultKind::Race, "rank");
    named(
        Wrong::Absent,
        FaultKind::Deadlock,
        "rank 1 was not launched",
    );
}
