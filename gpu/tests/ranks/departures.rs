//! Chunks of C that a copy engine takes away while the kernel computes the next ones.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{ChunkOrder, Epilogue, GemmPlan};
use colex_gpu::ir::launch::{Argument, Launch, TensorMapArgument};
use colex_gpu::ir::{
    Access, Address, Async, Compare, Control, Kernel, KernelBuilder, Memory, Op, Order, RegType,
    Scope, Space, Special, Stmt, Type,
};
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_gpu::tensor::{Arg, TensorKernel};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::Layout;
use half::bf16;

use super::chunks::{Kind, SHAPE, Shape, layout, numbers, on_one_device, plan};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// The parts of a chunk are counted by relaxed atomics.
    RelaxedCount,
    /// The flag is stored without a release.
    RelaxedFlag,
    /// The flag is released for one device.
    FlagOfOneDevice,
    /// A part is counted when TMA has read the shared memory, before C is written.
    OnlyRead,
    /// The counts are not zeros before the launch.
    OldCount,
    /// The engine does not wait.
    Eager,
}

/// The kernel of a plan that tells what is stored, as a library call has it.
fn built(shape: Shape, kind: Kind) -> TensorKernel {
    let device = Device::simulator(Arch::Sm90a);
    let a = device
        .upload(&numbers(shape.m * shape.k * shape.chunks, 1))
        .unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * shape.chunks) as usize)
        .unwrap();
    let mut counts = device.zeros::<u32>(shape.chunks as usize).unwrap();
    let mut departed = device.zeros::<u32>(shape.chunks as usize + 1).unwrap();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let c = ViewMut::new(&mut c, shape.c()).unwrap();
    let product = Gemm::new(&a, &b, &c)
        .chunks(ChunkOrder::Ascending, 1)
        .departures(
            &counts.view_mut(shape.chunks).unwrap(),
            &departed.view_mut(shape.chunks + 1).unwrap(),
        );
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

/// Changes the instructions, and returns how many.
fn change(body: &mut [Stmt], wrong: Wrong) -> usize {
    let mut changed = 0;
    for stmt in body {
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
            Op::Async(Async::BulkWait { read, .. }) if wrong == Wrong::OnlyRead && !*read => {
                *read = true;
                changed += 1;
            }
            _ => {}
        }
    }
    changed
}

/// The same kernel with a part for a rank that copies: where the parameter `role` is 1, the first block waits for the flag of one chunk after
/// another and copies the chunk, as a stream and its copy engine do.
fn with_engine(kernel: &Kernel, (first, chunks): (i64, i64), waits: bool) -> Kernel {
    let threads = i64::from(kernel.block.expect("of a library kernel")[0]);
    let mut k = KernelBuilder::new("engine", Arch::Sm90a);
    for ty in RegType::ALL {
        k.regs(ty, kernel.count(ty) as usize);
    }
    for param in &kernel.params {
        k.scalar(&param.name, Type::U32);
    }
    let [role, words, round] = ["role", "words", "round"].map(|name| k.scalar(name, Type::U32));
    let [from, to, flags] = ["from", "to", "flags"].map(|name| k.scalar(name, Type::U64));
    let [role, words, round, from, to, flags] =
        [role, words, round, from, to, flags].map(|id| k.param(id));
    let word = Access::new(Space::Global, Type::U32);
    let copies = k.setp(Compare::Eq, Type::U32, role, 1);
    k.if_(copies, |k| {
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first_block = k.setp(Compare::Eq, Type::U32, block, 0);
        k.if_(first_block, |k| {
            for step in 0..chunks {
                let chunk = (first + step) % chunks;
                if waits {
                    let flag = k.add(Type::S64, flags, 4 * chunk);
                    k.loop_(|k| {
                        let now = k.load(word.order(Order::Acquire(Scope::Sys)), flag);
                        let is_there = k.setp(Compare::Ge, Type::U32, now, round);
                        k.break_if(is_there);
                    });
                }
                let start = k.mul(Type::U32, words, chunk);
                k.for_range(thread, words, threads, |k, i| {
                    let at = k.add(Type::U32, start, i);
                    let offset = k.mul_wide(Type::U32, at, 4);
                    let [from, to] = [from, to].map(|base| k.add(Type::S64, base, offset));
                    let x = k.load(word, from);
                    k.store(word, Address::from(to), x);
                });
            }
        });
    });
    let added = k.finish();
    let mut params = kernel.params.clone();
    params.extend_from_slice(&added.params[kernel.params.len()..]);
    let mut body = added.body;
    let Some(Stmt {
        op: Op::Control(Control::If { other, .. }),
        ..
    }) = body.last_mut()
    else {
        unreachable!("the last statement is the branch")
    };
    *other = kernel.body.clone();
    Kernel {
        params,
        body,
        registers: added.registers,
        ..kernel.clone()
    }
}

/// Runs the product on one rank and an engine on another, and returns the bits that the engine has copied.
fn taken(
    shape: Shape,
    kind: Kind,
    wrong: Wrong,
    (rounds, seed): (u32, u64),
) -> Result<Vec<u32>, Fault> {
    let mut built = built(shape, kind);
    let changed = change(&mut built.kernel.body, wrong);
    let is_in_kernel = !matches!(wrong, Wrong::Nothing | Wrong::OldCount | Wrong::Eager);
    assert_eq!(changed > 0, is_in_kernel, "{wrong:?}");
    let kernel = with_engine(&built.kernel, (1, shape.chunks), wrong != Wrong::Eager);
    let mut ranks = Ranks::connected(2).unwrap();
    ranks.host_joins(true);
    let [of_a, of_b] = [shape.m * shape.k * shape.chunks, shape.n * shape.k];
    let of_c = shape.m * shape.n * shape.chunks * 4;
    let mut on = |rank: usize, bytes: i64| {
        ranks
            .allocate(rank, (bytes as u64).next_multiple_of(256))
            .unwrap()
    };
    let (at_a, at_b, at_c, to) = (on(0, 2 * of_a), on(0, 2 * of_b), on(0, of_c), on(1, of_c));
    let (counts, departed) = (on(0, 4 * shape.chunks), on(0, 4 * (shape.chunks + 1)));
    let bytes = |count: i64, seed: i64| -> Vec<u8> {
        numbers(count, seed)
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect()
    };
    ranks.write(at_b, &bytes(of_b, 2)).unwrap();
    let mut zeros = vec![0; 4 * shape.chunks as usize];
    zeros[0] = u8::from(wrong == Wrong::OldCount);
    ranks.write(counts, &zeros).unwrap();
    ranks
        .write(departed, &vec![0; 4 * shape.chunks as usize + 4])
        .unwrap();
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let launch = Launch::new(2 * cluster, built.kernel.block.unwrap()[0])
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    for round in 1..=rounds {
        ranks
            .write(at_a, &bytes(of_a, 1 + i64::from(rounds - round)))
            .unwrap();
        ranks
            .write(departed + 4 * shape.chunks as u64, &round.to_le_bytes())
            .unwrap();
        let map = |name: &str, layout: Layout, address| {
            let map = built.tensor_map(name, layout).unwrap();
            let encoded = None;
            Arg::Value(Argument::from(TensorMapArgument {
                map,
                address,
                encoded,
            }))
        };
        let one_b = layout(&format!("({},{k},1):({k},1,16)", shape.n, k = shape.k));
        let of_counts = layout(&format!("{}:1", shape.chunks));
        let of_flags = layout(&format!("{}:1", shape.chunks + 1));
        let mut given = vec![
            map("A", shape.a(), at_a),
            map("B", one_b, at_b),
            map("C", shape.c(), at_c),
        ];
        let sizes = [shape.m, shape.n, shape.k, shape.chunks, 1];
        given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
        given.push(Arg::checked(counts, &of_counts));
        given.push(Arg::checked(departed, &of_flags));
        given.extend([1.0, 0.0].map(|x| Arg::Value(Argument::F32(x))));
        let given = built.arguments(&given).unwrap();
        let arguments = [0, 1].map(|role| {
            let mut all = given.clone();
            let words = (shape.m * shape.n) as u32;
            all.extend([role, words, round].map(Argument::U32));
            all.extend([at_c, to, departed].map(Argument::U64));
            Some(all)
        });
        ranks.simulate(
            &kernel,
            &launch,
            &arguments,
            &SimOptions::default().seed(seed),
        )?;
        let left = ranks.read(counts, 4 * shape.chunks as u64).unwrap();
        assert!(
            left.iter().all(|byte| *byte == 0),
            "the counts are zeros again"
        );
    }
    let bytes = ranks.read(to, of_c as u64).unwrap();
    Ok(bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word))
        .collect())
}

#[test]
fn law_chunks_that_leave_while_the_kernel_runs_have_the_bits_of_the_batch() {
    let mut cases = 0;
    for kind in [Kind::Cooperative, Kind::Pingpong, Kind::Cluster] {
        for (m, n, chunks) in [(80, 40, 3), (64, 32, 2), (8, 8, 4)] {
            let shape = Shape {
                m,
                n,
                chunks,
                ..SHAPE
            };
            let expected = on_one_device(shape, kind, |product, _| product);
            for seed in 0..3 {
                let found = taken(shape, kind, Wrong::Nothing, (2, seed));
                let found =
                    found.unwrap_or_else(|fault| panic!("{kind:?} {shape:?} {seed}: {fault}"));
                assert_eq!(found, expected, "{kind:?} {shape:?} {seed}");
                cases += 1;
            }
        }
    }
    println!("law ranks.departures: {cases} cases");
}

#[test]
fn a_mistake_of_a_departure_is_named() {
    let shape = Shape { chunks: 2, ..SHAPE };
    let named = |wrong: Wrong, kind: FaultKind, says: &str| {
        for seed in 0..3 {
            let Err(fault) = taken(shape, Kind::Cooperative, wrong, (1, seed)) else {
                panic!("{wrong:?} {seed}: nothing is found");
            };
            assert_eq!(fault.kind(), kind, "{wrong:?} {seed}: {fault}");
            assert!(fault.what().contains(says), "{wrong:?} {seed}: {fault}");
        }
    };
    named(Wrong::RelaxedCount, FaultKind::Race, "rank");
    named(Wrong::RelaxedFlag, FaultKind::Race, "releas");
    named(Wrong::FlagOfOneDevice, FaultKind::Race, "`.sys`");
    named(Wrong::OnlyRead, FaultKind::Race, "rank");
    named(Wrong::OldCount, FaultKind::Race, "rank");
    named(Wrong::Eager, FaultKind::Race, "rank");
}

#[test]
fn every_refusal_of_departures_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let shape = SHAPE;
    let a = device.upload(&numbers(shape.m * shape.k * 3, 1)).unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * 3) as usize)
        .unwrap();
    let (mut counts, mut departed) = (
        device.zeros::<u32>(8).unwrap(),
        device.zeros::<u32>(8).unwrap(),
    );
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let c = ViewMut::new(&mut c, shape.c()).unwrap();
    let product = || Gemm::new(&a, &b, &c).chunks(ChunkOrder::Ascending, 0);
    let said = |product: Gemm<'_, bf16, f32>| product.run().unwrap_err().to_string();
    let words = |counts: &ViewMut<'_, u32>, departed: &ViewMut<'_, u32>| {
        said(product().departures(counts, departed))
    };
    assert_eq!(
        words(&counts.view_mut(2).unwrap(), &departed.view_mut(4).unwrap()),
        "batch: chunks: the counts are 2: 3 chunks have 3, a count and a flag for each, and the round behind the flags"
    );
    assert_eq!(
        words(&counts.view_mut(3).unwrap(), &departed.view_mut(3).unwrap()),
        "batch: chunks: the flags of departures are 3: 3 chunks have 4, a count and a flag for each, and the round behind the flags"
    );
    assert_eq!(
        words(
            &ViewMut::new(&mut counts, "3:2").unwrap(),
            &departed.view_mut(4).unwrap()
        ),
        "batch: chunks: the counts are not contiguous: 3 chunks have 3, a count and a flag for each, and the round behind the flags"
    );
    let right = product().departures(&counts.view_mut(3).unwrap(), &departed.view_mut(4).unwrap());
    let parts = right.prepare_with(|operands, _| {
        Ok(GemmPlan {
            cluster: [1, 1, 2],
            ..plan(Kind::Cooperative, operands)
        })
    });
    assert_eq!(
        parts.unwrap_err().to_string(),
        "batch: chunks: the kernel tells when chunks of C are in memory, and 2 blocks of a cluster divide K: one block has a tile"
    );
    let other = Device::simulator(Arch::Sm90a);
    let mut elsewhere = other.zeros::<u32>(4).unwrap();
    let sentence = words(
        &counts.view_mut(3).unwrap(),
        &elsewhere.view_mut(4).unwrap(),
    );
    assert!(
        sentence.starts_with("the flags of departures "),
        "{sentence}"
    );
    let mut elsewhere = other.zeros::<u32>(3).unwrap();
    let sentence = words(
        &elsewhere.view_mut(3).unwrap(),
        &departed.view_mut(4).unwrap(),
    );
    assert!(sentence.starts_with("the counts "), "{sentence}");

    // Rows of 30 elements end within a vector of 16 bytes, which the distance of two rows does not show.
    let narrow = device.upload(&numbers(30 * 80, 2)).unwrap();
    let narrow = View::new(&narrow, "(30,80,3):(80,1,0)").unwrap();
    let mut padded = device.poisoned::<f32>(3 * 80 * 32).unwrap();
    let to = ViewMut::new(&mut padded, "(80,30,3):(32,1,2560)").unwrap();
    let of_30 = Gemm::new(&a, &narrow, &to).chunks(ChunkOrder::Ascending, 0);
    let of_30 = of_30.departures(&counts.view_mut(3).unwrap(), &departed.view_mut(4).unwrap());
    assert_eq!(
        said(of_30),
        "batch: chunks: the kernel tells when chunks of C are in memory, and the plan's threads store them: rows of whole vectors of 16 \
         bytes are stored by TMA, which says when"
    );

    // The words are in no other place of the call: a kernel would wait for what it writes behind its loads.
    let counts = counts.view_mut(3).unwrap();
    let departed = departed.view_mut(4).unwrap();
    let overlaps = |sentence: String, names: [&str; 2]| {
        let [output, operand] = names;
        assert!(
            sentence.starts_with(&format!("{output} lies at "))
                && sentence.contains(&format!(" and {operand} at ")),
            "{sentence}"
        );
    };
    let tells = || product().departures(&counts, &departed);
    let found = said(tells().arrivals(&counts));
    overlaps(found, ["the counts", "the flags"]);
    let sum = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("term", Ty::F32)).unwrap();
    let term = device.upload(&[1f32]).unwrap();
    let term = View::new(&term, "(80,40,3):(0,0,0)").unwrap();
    let waits = tells()
        .epilogue(&sum)
        .tensor("term", &term)
        .awaits(&departed);
    overlaps(
        said(waits),
        ["the flags of departures", "the flags of the epilogue"],
    );
}

/// The flag of a single chunk is set like those of several: a stream may wait for it.
#[test]
fn the_one_chunk_departs() {
    let device = Device::simulator(Arch::Sm90a);
    let (a, b) = ([bf16::ONE; 8 * 16], [bf16::from_f32(2.0); 8 * 16]);
    let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut c = device.poisoned::<f32>(64).unwrap();
    let mut counts = device.zeros::<u32>(1).unwrap();
    let mut departed = device.upload(&[0u32, 5]).unwrap();
    {
        let [a, b] = [&a, &b].map(|of| View::new(of, "(8,16,1):(16,1,128)").unwrap());
        let c = ViewMut::new(&mut c, "(8,8,1):(8,1,64)").unwrap();
        let product = Gemm::new(&a, &b, &c).chunks(ChunkOrder::Ascending, 0);
        let (counts, departed) = (counts.view_mut(1).unwrap(), departed.view_mut(2).unwrap());
        product.departures(&counts, &departed).run().unwrap();
    }
    assert_eq!(c.download().unwrap(), [32.0; 64]);
    assert_eq!(departed.download().unwrap(), [5, 5]);
    assert_eq!(counts.download().unwrap(), [0]);
}
