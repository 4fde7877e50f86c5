//! Products in chunks by the Hopper kernel: on one device in every order, and on several whose chunks come while it runs.

use colex_atom::{Arch, Ty};
use colex_gpu::gemm::{ChunkOrder, Epilogue, GemmMethod, GemmPlan, Operands};
use colex_gpu::ir::launch::{Argument, Launch, TensorMapArgument};
use colex_gpu::ir::{
    Access, Address, Compare, Control, FenceKind, Kernel, KernelBuilder, Memory, Op, Order, Reg,
    RegType, Scope, Space, Special, Stmt, Sync, Type,
};
use colex_gpu::kernels::Compute;
use colex_gpu::sim::{Fault, FaultKind, Ranks, SimOptions};
use colex_gpu::tensor::{Arg, TensorKernel};
use colex_gpu::{Device, Gemm, View, ViewMut};
use colex_layout::{IntoLayout, Layout};
use colex_sched::pipeline::Schedule;
use half::bf16;

/// The extents of a product in chunks: rows of a chunk, columns, K.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) chunks: i64,
}

pub(super) const SHAPE: Shape = Shape {
    m: 80,
    n: 40,
    k: 80,
    chunks: 3,
};

/// A kind of plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Cooperative,
    Pingpong,
    Cluster,
    Gather,
}

const KINDS: [Kind; 4] = [
    Kind::Cooperative,
    Kind::Pingpong,
    Kind::Cluster,
    Kind::Gather,
];

pub(super) fn plan(kind: Kind, operands: Operands) -> GemmPlan {
    let usual = GemmPlan {
        tile: [64, 32, 64],
        stages: 2,
        warps: [1, 1],
        cluster: [1; 3],
        ..GemmPlan::new(GemmMethod::Hopper, operands)
    };
    match kind {
        Kind::Cooperative => usual,
        Kind::Pingpong => GemmPlan {
            schedule: Schedule::Pingpong,
            ..usual
        },
        Kind::Cluster => GemmPlan {
            cluster: [2, 1, 1],
            ..usual
        },
        Kind::Gather => GemmPlan {
            gather: true,
            ..usual
        },
    }
}

/// Numbers that look random, with rounding in their products.
pub(super) fn numbers(count: i64, seed: i64) -> Vec<bf16> {
    let number = |i: i64| ((i * i * 31 + i * 17 + seed * 101 + 7) % 1009) as f32 / 337.0 - 1.5;
    (0..count).map(|i| bf16::from_f32(number(i))).collect()
}

impl Shape {
    pub(super) fn a(&self) -> Layout {
        let (m, k) = (self.m, self.k);
        layout(&format!("({m},{k},{}):({k},1,{})", self.chunks, m * k))
    }

    pub(super) fn b(&self) -> Layout {
        layout(&format!(
            "({},{k},{}):({k},1,0)",
            self.n,
            self.chunks,
            k = self.k
        ))
    }

    pub(super) fn c(&self) -> Layout {
        let (m, n) = (self.m, self.n);
        layout(&format!("({m},{n},{}):({n},1,{})", self.chunks, m * n))
    }

    pub(super) fn owned(&self) -> Layout {
        layout(&format!("({},{n}):({n},1)", self.m, n = self.n))
    }
}

pub(super) fn layout(text: &str) -> Layout {
    text.into_layout().unwrap()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// The bits of C of all chunks, of a product on one device that `act` completes.
pub(super) fn on_one_device(
    shape: Shape,
    kind: Kind,
    act: impl for<'a> FnOnce(Gemm<'a, bf16, f32>, &'a Device) -> Gemm<'a, bf16, f32>,
) -> Vec<u32> {
    let a = numbers(shape.m * shape.k * shape.chunks, 1);
    let b = numbers(shape.n * shape.k, 2);
    of_numbers(shape, kind, (&a, &b), act)
}

/// The same, of these numbers of A and B.
fn of_numbers(
    shape: Shape,
    kind: Kind,
    (a, b): (&[bf16], &[bf16]),
    act: impl for<'a> FnOnce(Gemm<'a, bf16, f32>, &'a Device) -> Gemm<'a, bf16, f32>,
) -> Vec<u32> {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(a).unwrap();
    let b = device.upload(b).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * shape.chunks) as usize)
        .unwrap();
    {
        let a = View::new(&a, shape.a()).unwrap();
        let b = View::new(&b, shape.b()).unwrap();
        let c = ViewMut::new(&mut c, shape.c()).unwrap();
        let product = act(Gemm::new(&a, &b, &c), &device);
        let call = product
            .prepare_with(|operands, _| Ok(plan(kind, operands)))
            .unwrap();
        call.run(&device).unwrap();
    }
    bits(&c.download().unwrap())
}

#[test]
fn law_chunks_in_every_order_have_the_bits_of_the_batch() {
    let mut cases = 0;
    for kind in KINDS {
        for (m, n, chunks) in [(80, 40, 2), (64, 32, 3), (8, 8, 5), (130, 72, 2)] {
            let shape = Shape {
                m,
                n,
                chunks,
                ..SHAPE
            };
            let expected = on_one_device(shape, kind, |product, _| product);
            for order in [ChunkOrder::Ascending, ChunkOrder::Descending] {
                for first in 0..chunks {
                    let found =
                        on_one_device(shape, kind, |product, _| product.chunks(order, first));
                    assert_eq!(found, expected, "{shape:?} {kind:?} {order:?} from {first}");
                    cases += 1;
                }
            }
        }
    }
    println!("law ranks.chunks: {cases} cases");
}

#[test]
fn law_a_chunk_goes_to_its_owner() {
    let mut cases = 0;
    for kind in KINDS {
        let all: &[i64] = if kind == Kind::Cooperative {
            &[1, 2, 16]
        } else {
            &[2, 3]
        };
        for chunks in all.iter().copied() {
            let shape = Shape {
                m: 72,
                chunks,
                ..SHAPE
            };
            let expected = on_one_device(shape, kind, |product, _| product);
            for first in [0, chunks - 1] {
                let device = Device::simulator(Arch::Sm90a);
                let a = device
                    .upload(&numbers(shape.m * shape.k * chunks, 1))
                    .unwrap();
                let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
                let each = (shape.m * shape.n) as usize;
                let all = 0..chunks;
                let mut c: Vec<_> = all.map(|_| device.poisoned::<f32>(each).unwrap()).collect();
                let a = View::new(&a, shape.a()).unwrap();
                let b = View::new(&b, shape.b()).unwrap();
                let owners: Vec<_> = c
                    .iter_mut()
                    .map(|c| ViewMut::new(c, shape.owned()).unwrap())
                    .collect();
                let product = Gemm::to_owners(&a, &b, &owners).unwrap();
                let product = product.chunks(ChunkOrder::Ascending, first);
                let call = product
                    .prepare_with(|operands, _| Ok(plan(kind, operands)))
                    .unwrap();
                call.run(&device).unwrap();
                drop((call, owners));
                let found: Vec<f32> = c.iter().flat_map(|c| c.download().unwrap()).collect();
                assert_eq!(bits(&found), expected, "{shape:?} {kind:?} from {first}");
                cases += 1;
            }
        }
    }
    println!("law ranks.owners: {cases} cases");
}

#[test]
fn an_epilogue_follows_its_chunk() {
    let doubled = Epilogue::new(Ty::F32, |e| e.accumulator() * e.tensor("scale", Ty::F32)).unwrap();
    for kind in KINDS {
        let found = |chunked: bool| {
            on_one_device(SHAPE, kind, |product, device| {
                let scale: Vec<f32> = (0..SHAPE.chunks).map(|i| i as f32 + 0.5).collect();
                let scale = Box::leak(Box::new(device.upload(&scale).unwrap()));
                let scale = View::new(scale, "(80,40,3):(0,0,1)").unwrap();
                let product = product.epilogue(&doubled).tensor("scale", &scale);
                if chunked {
                    product.chunks(ChunkOrder::Descending, 1)
                } else {
                    product
                }
            })
        };
        assert_eq!(found(true), found(false), "{kind:?}");
    }
}

/// The kernel of a plan with flags, as a library call has it.
fn built(shape: Shape, kind: Kind) -> TensorKernel {
    let device = Device::simulator(Arch::Sm90a);
    let a = device
        .upload(&numbers(shape.m * shape.k * shape.chunks, 1))
        .unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * shape.chunks) as usize)
        .unwrap();
    let flags = device.zeros::<u32>(shape.chunks as usize).unwrap();
    let flags = flags.view(shape.chunks).unwrap();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let c = ViewMut::new(&mut c, shape.c()).unwrap();
    let product = Gemm::new(&a, &b, &c)
        .chunks(ChunkOrder::Descending, 0)
        .arrivals(&flags);
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

fn word(ty: Type) -> Access {
    Access::new(Space::Global, ty)
}

/// How a copy engine tells that a chunk is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tells {
    After(Order),
    Before,
}

/// The same kernel with a part for ranks that copy: where the parameter `role` is 1, the first block copies chunk after chunk and
/// sets a flag behind each, as a copy engine and its stream do.
pub(super) fn with_engine(kernel: &Kernel, chunks: i64, tells: Tells) -> Kernel {
    let threads = i64::from(kernel.block.expect("of a library kernel")[0]);
    let mut k = KernelBuilder::new("engine", Arch::Sm90a);
    for ty in RegType::ALL {
        k.regs(ty, kernel.count(ty) as usize);
    }
    for param in &kernel.params {
        k.scalar(&param.name, Type::U32);
    }
    let [role, words, round] = ["role", "words", "round"].map(|name| k.scalar(name, Type::U32));
    // As numbers: a flag lies at a multiple of 4 bytes.
    let mut addresses = |name: &str| -> Vec<_> {
        (1..chunks)
            .map(|i| k.scalar(&format!("{name}_{i}"), Type::U64))
            .collect()
    };
    let [from, to, flags] = ["from", "to", "flag"].map(&mut addresses);
    let [role, words, round] = [role, words, round].map(|id| k.param(id));
    let [from, to, flags] = [from, to, flags]
        .map(|list| -> Vec<Reg> { list.into_iter().map(|id| k.param(id)).collect() });
    let copies = k.setp(Compare::Eq, Type::U32, role, 1);
    k.if_(copies, |k| {
        let block = k.mov(Type::U32, Special::Ctaid(0));
        let thread = k.mov(Type::U32, Special::Tid(0));
        let first_block = k.setp(Compare::Eq, Type::U32, block, 0);
        let first = k.setp(Compare::Eq, Type::U32, thread, 0);
        k.if_(first_block, |k| {
            for ((from, to), flag) in from.iter().zip(&to).zip(&flags) {
                let tell = |k: &mut KernelBuilder, order: Order| {
                    k.if_(first, |k| {
                        k.store(word(Type::U32).order(order), *flag, round)
                    });
                };
                if tells == Tells::Before {
                    tell(k, Order::Release(Scope::Sys));
                }
                k.for_range(thread, words, threads, |k, i| {
                    let offset = k.mul_wide(Type::U32, i, 4);
                    let [from, to] = [*from, *to].map(|base| k.add(Type::S64, base, offset));
                    let x = k.load(word(Type::U32), from);
                    k.store(word(Type::U32), Address::from(to), x);
                });
                k.sync();
                if let Tells::After(order) = tells {
                    tell(k, order);
                }
            }
        });
    });
    let added = k.finish();
    let mut params = kernel.params.clone();
    params.extend_from_slice(&added.params[kernel.params.len()..]);
    let mut body = added.body;
    let Some(Stmt {
        op: Op::Control(Control::If { then, other, .. }),
        ..
    }) = body.last_mut()
    else {
        unreachable!("the last statement is the branch")
    };
    // All threads of a block take one side.
    assert!(!then.is_empty() && other.is_empty());
    *other = kernel.body.clone();
    Kernel {
        params,
        body,
        registers: added.registers,
        ..kernel.clone()
    }
}

/// What is changed in the kernel that multiplies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Nothing,
    /// The flag is read by a relaxed load.
    Relaxed,
    /// The flag is acquired at the scope of one device.
    OneDevice,
    /// The kernel does not wait.
    NoWait,
    /// Nothing orders TMA after the acquire.
    NoFence,
}

pub(super) fn change(body: &mut Vec<Stmt>, how: Change, changed: &mut usize) {
    let mut removed = Vec::new();
    for (at, stmt) in body.iter_mut().enumerate() {
        match &mut stmt.op {
            Op::Control(Control::If { then, other, .. }) => {
                change(then, how, changed);
                change(other, how, changed);
            }
            Op::Control(Control::Loop { body }) => {
                let waits = |stmt: &Stmt| {
                    matches!(&stmt.op, Op::Memory(Memory::Load { access, .. })
                        if access.order == Order::Acquire(Scope::Sys))
                };
                if how == Change::NoWait && body.iter().any(waits) {
                    removed.push(at);
                } else {
                    change(body, how, changed);
                }
            }
            Op::Memory(Memory::Load { access, .. })
                if access.order == Order::Acquire(Scope::Sys) =>
            {
                access.order = match how {
                    Change::Relaxed => Order::Relaxed(Scope::Sys),
                    Change::OneDevice => Order::Acquire(Scope::Gpu),
                    Change::Nothing | Change::NoWait | Change::NoFence => continue,
                };
                *changed += 1;
            }
            Op::Sync(Sync::Fence(FenceKind::ProxyAsyncGlobal)) if how == Change::NoFence => {
                removed.push(at);
            }
            _ => {}
        }
    }
    *changed += removed.len();
    for at in removed.into_iter().rev() {
        body.remove(at);
    }
}

/// Runs the product on every rank, whose chunks of A engines bring in that time, and returns the bits of C of every rank.
fn on_ranks(
    shape: Shape,
    (kind, how, tells): (Kind, Change, Tells),
    rounds: u32,
    seed: u64,
) -> Result<Vec<Vec<u32>>, Fault> {
    let count = shape.chunks as usize;
    let mut built = built(shape, kind);
    let mut changed = 0;
    change(&mut built.kernel.body, how, &mut changed);
    assert_eq!(changed > 0, how != Change::Nothing);
    let kernel = with_engine(&built.kernel, shape.chunks, tells);
    // One engine for each rank, as if it were a device.
    let mut ranks = Ranks::connected(2 * count).unwrap();
    ranks.host_joins(true);
    let chunk = (shape.m * shape.k * 2) as u64;
    let [bytes_b, bytes_c] = [shape.n * shape.k * 2, shape.m * shape.n * shape.chunks * 4];
    let mut on =
        |rank: usize, bytes: u64| ranks.allocate(rank, bytes.next_multiple_of(256)).unwrap();
    let each = 0..count;
    let at_a: Vec<u64> = each
        .clone()
        .map(|rank| on(rank, chunk * count as u64))
        .collect();
    let at_b: Vec<u64> = each.clone().map(|rank| on(rank, bytes_b as u64)).collect();
    let at_c: Vec<u64> = each.clone().map(|rank| on(rank, bytes_c as u64)).collect();
    let flags: Vec<u64> = each
        .clone()
        .map(|rank| on(rank, 4 * count as u64))
        .collect();
    let bytes =
        |numbers: &[bf16]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for rank in each.clone() {
        ranks.write(flags[rank], &vec![0; 4 * count]).unwrap();
        ranks
            .write(at_b[rank], &bytes(&numbers(shape.n * shape.k, 2)))
            .unwrap();
    }
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let threads = built.kernel.block.unwrap()[0];
    let launch = Launch::new(2 * cluster, threads)
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    for round in 1..=rounds {
        // Other numbers in every round but the last.
        let all = numbers(
            shape.m * shape.k * shape.chunks,
            1 + i64::from(rounds - round),
        );
        for rank in each.clone() {
            let own = &all[rank * (chunk / 2) as usize..][..(chunk / 2) as usize];
            ranks
                .write(at_a[rank] + chunk * rank as u64, &bytes(own))
                .unwrap();
            ranks
                .write(flags[rank] + 4 * rank as u64, &round.to_le_bytes())
                .unwrap();
        }
        let arguments = |place: usize| {
            let rank = place % count;
            let map = |name: &str, layout: Layout, address| {
                let map = built.tensor_map(name, layout).unwrap();
                let encoded = None;
                let bound = TensorMapArgument {
                    map,
                    address,
                    encoded,
                };
                Argument::from(bound)
            };
            let one_b = layout(&format!("({},{k},1):({k},1,16)", shape.n, k = shape.k));
            let (of_a, of_b, of_flags) =
                (shape.a(), shape.b(), layout(&format!("{}:1", shape.chunks)));
            let mut given = if kind == Kind::Gather {
                vec![
                    Arg::checked(at_a[rank], &of_a),
                    Arg::checked(at_b[rank], &of_b),
                ]
            } else {
                vec![
                    Arg::Value(map("A", shape.a(), at_a[rank])),
                    Arg::Value(map("B", one_b, at_b[rank])),
                ]
            };
            given.push(Arg::Value(map("C", shape.c(), at_c[rank])));
            let sizes = [shape.m, shape.n, shape.k, shape.chunks, rank as i64];
            given.extend(sizes.map(|n| Arg::Value(Argument::U32(n as u32))));
            given.push(Arg::checked(flags[rank], &of_flags));
            given.extend([1.0, 0.0].map(|x| Arg::Value(Argument::F32(x))));
            let mut all = built.arguments(&given).unwrap();
            let role = u32::from(place >= count);
            all.extend([role, (chunk / 4) as u32, round].map(Argument::U32));
            // The chunks of the ranks before this one, nearest first.
            let peers: Vec<usize> = (1..count).map(|i| (rank + count - i) % count).collect();
            let at = |peer: &usize, of: usize| Argument::U64(at_a[of] + chunk * *peer as u64);
            all.extend(peers.iter().map(|peer| at(peer, *peer)));
            all.extend(peers.iter().map(|peer| at(peer, rank)));
            all.extend(
                peers
                    .iter()
                    .map(|peer| Argument::U64(flags[rank] + 4 * *peer as u64)),
            );
            Some(all)
        };
        let arguments: Vec<_> = (0..2 * count).map(arguments).collect();
        let options = SimOptions::default().seed(seed);
        ranks.simulate(&kernel, &launch, &arguments, &options)?;
    }
    let read = |at: &u64| {
        let bytes = ranks.read(*at, bytes_c as u64).unwrap();
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    };
    Ok(at_c.iter().map(read).collect())
}

pub(super) const RELEASED: Tells = Tells::After(Order::Release(Scope::Sys));

#[test]
fn law_chunks_that_come_while_the_kernel_runs_give_the_bits_of_the_batch() {
    let mut cases = 0;
    for kind in KINDS {
        for chunks in [2, 3] {
            let shape = Shape { chunks, ..SHAPE };
            let expected = on_one_device(shape, kind, |product, _| product);
            for seed in 0..4 {
                let found = on_ranks(shape, (kind, Change::Nothing, RELEASED), 2, seed);
                let found = found.unwrap_or_else(|fault| panic!("{kind:?} {seed}: {fault}"));
                assert!(found.iter().all(|c| *c == expected), "{kind:?} {seed}");
                cases += 1;
            }
        }
    }
    println!("law ranks.arrivals: {cases} cases");
}

#[test]
fn a_missing_acquire_fence_or_release_is_named() {
    let two = Shape { chunks: 2, ..SHAPE };
    let named = |kind: Kind, how: Change, tells: Tells, says: &str| {
        for seed in 0..3 {
            let fault = on_ranks(two, (kind, how, tells), 1, seed).unwrap_err();
            let kind_of_fault = match how {
                Change::NoFence => FaultKind::MissingFence,
                _ => FaultKind::Race,
            };
            assert_eq!(
                fault.kind(),
                kind_of_fault,
                "{kind:?} {how:?} {seed}: {fault}"
            );
            assert!(
                fault.what().contains(says),
                "{kind:?} {how:?} {seed}: {fault}"
            );
        }
    };
    for kind in [Kind::Cooperative, Kind::Gather] {
        named(kind, Change::Relaxed, RELEASED, "acquir");
        named(kind, Change::OneDevice, RELEASED, "`.sys`");
        named(kind, Change::NoWait, RELEASED, "rank");
        let one_device = Tells::After(Order::Release(Scope::Gpu));
        named(kind, Change::Nothing, one_device, "`.sys`");
        named(kind, Change::Nothing, Tells::Before, "rank");
    }
    named(
        Kind::Cooperative,
        Change::NoFence,
        RELEASED,
        "fence.proxy.async",
    );
}

/// The kernel of a product whose chunks have owners.
fn built_for_owners(shape: Shape, kind: Kind) -> TensorKernel {
    let device = Device::simulator(Arch::Sm90a);
    let a = device
        .upload(&numbers(shape.m * shape.k * shape.chunks, 1))
        .unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let each = (shape.m * shape.n) as usize;
    let mut c: Vec<_> = (0..shape.chunks)
        .map(|_| device.poisoned::<f32>(each).unwrap())
        .collect();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let owners = c
        .iter_mut()
        .map(|c| ViewMut::new(c, shape.owned()).unwrap());
    let owners: Vec<_> = owners.collect();
    let product = Gemm::to_owners(&a, &b, &owners).unwrap();
    let product = product.chunks(ChunkOrder::Ascending, 0);
    let call = product
        .prepare_with(|operands, _| Ok(plan(kind, operands)))
        .unwrap();
    call.built().unwrap().clone()
}

/// Runs the product on every rank, each of which stores the term of a chunk into its slot at the owner, and returns the bits of the
/// slots of every owner.
fn scattered(
    shape: Shape,
    kind: Kind,
    mut ranks: Ranks,
    seed: u64,
) -> Result<Vec<Vec<u32>>, Fault> {
    let count = shape.chunks as usize;
    let built = built_for_owners(shape, kind);
    let (all_a, bytes_b) = (shape.m * shape.k * shape.chunks, shape.n * shape.k * 2);
    let slot = (shape.m * shape.n * 4) as u64;
    let mut on = |rank: usize, bytes: u64| ranks.allocate(rank, bytes).unwrap();
    let each = 0..count;
    let at_a: Vec<u64> = each
        .clone()
        .map(|rank| on(rank, all_a as u64 * 2))
        .collect();
    let at_b: Vec<u64> = each.clone().map(|rank| on(rank, bytes_b as u64)).collect();
    let slots: Vec<u64> = each
        .clone()
        .map(|rank| on(rank, slot * count as u64))
        .collect();
    let bytes =
        |numbers: &[bf16]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for rank in each.clone() {
        let seed = 10 * rank as i64;
        ranks
            .write(at_a[rank], &bytes(&numbers(all_a, seed + 1)))
            .unwrap();
        let b = bytes(&numbers(shape.n * shape.k, seed + 2));
        ranks.write(at_b[rank], &b).unwrap();
    }
    let map = |name: &str, layout: Layout, address| {
        let map = built.tensor_map(name, layout).unwrap();
        let encoded = None;
        Argument::from(TensorMapArgument {
            map,
            address,
            encoded,
        })
    };
    let arguments = |rank: usize| {
        let one_b = layout(&format!("({},{k},1):({k},1,16)", shape.n, k = shape.k));
        let mut given = vec![map("A", shape.a(), at_a[rank]), map("B", one_b, at_b[rank])];
        for (owner, slots) in slots.iter().enumerate() {
            let name = if owner == 0 {
                "C".to_string()
            } else {
                format!("C_{owner}")
            };
            given.push(map(&name, shape.owned(), slots + slot * rank as u64));
        }
        let first = (rank + 1) % count;
        let sizes = [shape.m, shape.n, shape.k, shape.chunks, first as i64];
        given.extend(sizes.map(|n| Argument::U32(n as u32)));
        given.extend([1.0, 0.0].map(Argument::F32));
        let given: Vec<Arg<'_>> = given.into_iter().map(Arg::Value).collect();
        Some(built.arguments(&given).unwrap())
    };
    let cluster = built.kernel.cluster.map_or(1, |cluster| cluster[0]);
    let launch = Launch::new(2 * cluster, built.kernel.block.unwrap()[0])
        .cluster(cluster)
        .dynamic_shared(built.dynamic_shared());
    let arguments: Vec<_> = each.map(arguments).collect();
    let options = SimOptions::default().seed(seed);
    ranks.simulate(&built.kernel, &launch, &arguments, &options)?;
    let read = |at: &u64| {
        let bytes = ranks.read(*at, slot * count as u64).unwrap();
        let words = bytes.as_chunks::<4>().0.iter();
        words.map(|word| u32::from_le_bytes(*word)).collect()
    };
    Ok(slots.iter().map(read).collect())
}

#[test]
fn law_each_term_is_in_the_slot_of_its_rank_at_the_owner() {
    let mut cases = 0;
    for kind in [Kind::Cooperative, Kind::Pingpong, Kind::Cluster] {
        for chunks in [2, 3] {
            let shape = Shape { chunks, ..SHAPE };
            let all_a = shape.m * shape.k * chunks;
            // What each rank computes, all chunks.
            let terms: Vec<Vec<u32>> = (0..chunks)
                .map(|rank| {
                    let seed = 10 * rank;
                    let (a, b) = (
                        numbers(all_a, seed + 1),
                        numbers(shape.n * shape.k, seed + 2),
                    );
                    of_numbers(shape, kind, (&a, &b), |product, _| product)
                })
                .collect();
            let slot = (shape.m * shape.n) as usize;
            for seed in 0..3 {
                let mut ranks = Ranks::connected(chunks as usize).unwrap();
                // The host's event between the product and the sum.
                ranks.host_joins(true);
                let found = scattered(shape, kind, ranks, seed).unwrap();
                for (owner, slots) in found.iter().enumerate() {
                    for (rank, term) in terms.iter().enumerate() {
                        assert_eq!(
                            slots[rank * slot..][..slot],
                            term[owner * slot..][..slot],
                            "{kind:?}: the term of rank {rank} at {owner}"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law ranks.slots: {cases} cases");
}

#[test]
fn a_missing_event_or_access_of_a_scatter_is_named() {
    let shape = Shape { chunks: 2, ..SHAPE };
    for seed in 0..3 {
        // Nothing says that the owner's next kernel comes after the stores of the others.
        let ranks = Ranks::connected(2).unwrap();
        let fault = scattered(shape, Kind::Cooperative, ranks, seed).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::EarlyExit, "{fault}");
        let mut ranks = Ranks::new(2).unwrap();
        ranks.host_joins(true);
        let fault = scattered(shape, Kind::Cooperative, ranks, seed).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::OutOfBounds, "{fault}");
        assert!(
            fault.what().contains("`Ranks::enable_peer_access("),
            "{fault}"
        );
    }
}

#[test]
fn every_refusal_of_chunks_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let shape = SHAPE;
    let a = device.upload(&numbers(shape.m * shape.k * 3, 1)).unwrap();
    let b = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let mut c = device
        .poisoned::<f32>((shape.m * shape.n * 3) as usize)
        .unwrap();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b, shape.b()).unwrap();
    let c = ViewMut::new(&mut c, shape.c()).unwrap();
    let product = || Gemm::new(&a, &b, &c).chunks(ChunkOrder::Ascending, 0);
    let said = |product: Gemm<'_, bf16, f32>| product.run().unwrap_err().to_string();
    assert_eq!(
        said(product().chunks(ChunkOrder::Descending, -1)),
        "batch: chunks: chunk -1 comes first, and there are 3, numbered from 0"
    );
    assert_eq!(
        said(product().method(GemmMethod::Ampere)),
        "batch: chunks: the Ampere kernel has one block for each tile, and takes chunks in the order of their numbers: the Hopper \
         kernel takes them in any order"
    );
    let split = product().prepare_with(|operands, _| {
        Ok(GemmPlan {
            split: 2,
            ..plan(Kind::Cooperative, operands)
        })
    });
    assert_eq!(
        split.unwrap_err().to_string(),
        "batch: chunks: the plan divides K among 2 clusters, whose parts another kernel adds: chunks have whole sums"
    );
    let early = product().prepare_with(|operands, _| {
        Ok(GemmPlan {
            early: true,
            ..plan(Kind::Cooperative, operands)
        })
    });
    assert_eq!(
        early.unwrap_err().to_string(),
        "batch: chunks: the plan begins early: blocks that wait would keep multiprocessors from the kernels that bring the chunks"
    );
    let flags = device.zeros::<u32>(8).unwrap();
    assert_eq!(
        said(product().arrivals(&flags.view(4).unwrap())),
        "batch: chunks: 4 flags for 3 chunks: each chunk has one"
    );
    let apart = View::new(&flags, "3:2").unwrap();
    assert_eq!(
        said(product().arrivals(&apart)),
        "batch: chunks: the flags are not contiguous"
    );
    let other = Device::simulator(Arch::Sm90a);
    let elsewhere = other.zeros::<u32>(3).unwrap();
    let sentence = said(product().arrivals(&elsewhere.view(3).unwrap()));
    assert!(sentence.starts_with("the flags "), "{sentence}");

    // Matrices without a mode behind them.
    let a1 = a.with_layout("(80,80):(80,1)").unwrap();
    let b1 = b.with_layout("(40,80):(80,1)").unwrap();
    let mut d = device.poisoned::<f32>(80 * 40).unwrap();
    let d = ViewMut::new(&mut d, shape.owned()).unwrap();
    assert_eq!(
        said(Gemm::new(&a1, &b1, &d).chunks(ChunkOrder::Ascending, 0)),
        "batch: chunks: the matrices have 0 modes behind them: the chunks are those of one"
    );
    let floats = device.upload(&[1f32; 2 * 8 * 8]).unwrap();
    let mut out = device.poisoned::<f32>(2 * 64).unwrap();
    let x = View::new(&floats, "(8,8,2):(8,1,64)").unwrap();
    let out = ViewMut::new(&mut out, "(8,8,2):(8,1,64)").unwrap();
    let exact = Gemm::new(&x, &x, &out)
        .compute(Compute::Tf32x3)
        .chunks(ChunkOrder::Ascending, 0);
    assert_eq!(
        exact.run().unwrap_err().to_string(),
        "batch: chunks: none are computed in 3xTF32: tf32 is"
    );
    let plain = Gemm::new(&x, &x, &out)
        .chunks(ChunkOrder::Ascending, 0)
        .run();
    assert!(plain.unwrap_err().to_string().contains("f32"));
}

#[test]
fn every_refusal_of_owners_verbatim() {
    let device = Device::simulator(Arch::Sm90a);
    let shape = Shape { chunks: 2, ..SHAPE };
    let a = device.upload(&numbers(shape.m * shape.k * 2, 1)).unwrap();
    let b_memory = device.upload(&numbers(shape.n * shape.k, 2)).unwrap();
    let a = View::new(&a, shape.a()).unwrap();
    let b = View::new(&b_memory, shape.b()).unwrap();
    let each = (shape.m * shape.n) as usize;
    let mut memory: Vec<_> = (0..3)
        .map(|_| device.poisoned::<f32>(each + 4).unwrap())
        .collect();
    let [x, y, z] = &mut memory[..] else {
        unreachable!()
    };
    let refused = |c: &[ViewMut<'_, f32>]| {
        let product = Gemm::to_owners(&a, &b, c);
        product
            .and_then(|product| product.run())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&[]),
        "batch: chunks: C has no owners: there is one for each chunk"
    );
    let (own, other) = (shape.owned(), layout("(80,40):(1,80)"));
    {
        let c = [
            ViewMut::new(x, own.clone()).unwrap(),
            ViewMut::new(y, other).unwrap(),
        ];
        assert_eq!(
            refused(&c),
            "batch: chunks: C of chunk 1 is (80,40):(1,80), and that of chunk 0 (80,40):(40,1): all have one layout"
        );
    }
    let [x, y, z] = [x, y, z].map(|memory| ViewMut::new(memory, own.clone()).unwrap());
    let three = [x, y, z];
    assert_eq!(
        refused(&three),
        "batch: the modes behind those of the matrix are 2 in A and 3 in C: all three have the same, of stride 0 where one matrix \
         serves all products"
    );
    let read = Gemm::to_owners(&a, &b, &three[..2])
        .unwrap()
        .beta(1.0)
        .run();
    assert_eq!(
        read.unwrap_err().to_string(),
        "batch: chunks: C has an owner for each chunk, and is read: its factor must be 0"
    );
    drop(three);
    let odd = layout("(80,40):(41,1)");
    let mut wide: Vec<_> = (0..2)
        .map(|_| device.poisoned::<f32>(80 * 41).unwrap())
        .collect();
    let c: Vec<_> = wide
        .iter_mut()
        .map(|c| ViewMut::new(c, odd.clone()).unwrap())
        .collect();
    assert_eq!(
        refused(&c),
        "batch: chunks: C has an owner for each chunk, and the plan's threads store it: rows of whole vectors of 16 bytes are \
         stored by TMA"
    );
    drop(c);
    // Rows of 30 elements end within a vector of 16 bytes, which the distance of two rows does not show.
    let narrow = View::new(&b_memory, "(30,80,2):(80,1,0)").unwrap();
    let c: Vec<_> = wide
        .iter_mut()
        .map(|c| ViewMut::new(c, "(80,30):(40,1)").unwrap())
        .collect();
    let of_30 = Gemm::to_owners(&a, &narrow, &c).unwrap().run();
    assert_eq!(
        of_30.unwrap_err().to_string(),
        "batch: chunks: C has an owner for each chunk, and the plan's threads store it: rows of whole vectors of 16 bytes are \
         stored by TMA"
    );
    drop(c);
    let c: Vec<_> = wide
        .iter_mut()
        .map(|c| ViewMut::new(c, own.clone()).unwrap())
        .collect();
    let scaled = Epilogue::new(Ty::F32, |e| e.accumulator() * e.tensor("scale", Ty::F32)).unwrap();
    let scales = device.upload(&[0.5f32, 1.5]).unwrap();
    let scaled_by = |layout: &str| {
        let scale = View::new(&scales, layout).unwrap();
        let product = Gemm::to_owners(&a, &b, &c).unwrap();
        product.epilogue(&scaled).tensor("scale", &scale).run()
    };
    assert_eq!(
        scaled_by("(80,40,2):(0,0,1)").unwrap_err().to_string(),
        "batch: chunks: C has an owner for each chunk, and scale has other elements for each: the kernel reads those of chunk 0, and \
         takes a tensor whose stride along the chunks is 0"
    );
    scaled_by("(80,40,2):(0,0,0)").unwrap();
    drop(c);
    // A tensor of the epilogue in the memory of the second owner.
    let shared = device.poisoned::<f32>(each).unwrap();
    let mut of_second = shared.slice(..).unwrap();
    let c = [
        ViewMut::new(&mut wide[0], own.clone()).unwrap(),
        ViewMut::new(&mut of_second, own.clone()).unwrap(),
    ];
    let scale = View::new(&shared, "(80,40,2):(0,0,0)").unwrap();
    let product = Gemm::to_owners(&a, &b, &c).unwrap();
    let sentence = product.epilogue(&scaled).tensor("scale", &scale).run();
    let sentence = sentence.unwrap_err().to_string();
    assert!(
        sentence.starts_with("C of chunk 1 lies at ") && sentence.contains(" and scale at "),
        "{sentence}"
    );
    drop(c);
    let overlapping = device.poisoned::<f32>(each).unwrap();
    let mut halves = [
        overlapping.slice(..).unwrap(),
        overlapping.slice(..).unwrap(),
    ];
    let c: Vec<_> = halves
        .iter_mut()
        .map(|c| ViewMut::new(c, own.clone()).unwrap())
        .collect();
    let sentence = refused(&c);
    assert!(sentence.starts_with("C of chunk 0 lies at "), "{sentence}");
    assert!(
        sentence.ends_with(": a kernel's output must not overlap what it reads or writes, from the first element to the last")
            && sentence.contains(" and C of chunk 1 at "),
        "{sentence}"
    );
}

#[test]
fn law_the_last_chunk_is_left_out_and_the_others_have_the_bits_of_the_batch() {
    let mut cases = 0;
    for kind in KINDS {
        for (m, n, chunks) in [(80, 40, 2), (64, 32, 3), (8, 8, 5)] {
            let shape = Shape {
                m,
                n,
                chunks,
                ..SHAPE
            };
            let each = (m * n) as usize;
            let whole = on_one_device(shape, kind, |product, _| product);
            for order in [ChunkOrder::Ascending, ChunkOrder::Descending] {
                for first in 0..chunks {
                    let last = order.chunk(first, chunks - 1, chunks) as usize;
                    let found = on_one_device(shape, kind, |product, _| {
                        product.chunks(order, first).but_last()
                    });
                    for (chunk, found) in found.chunks(each).enumerate() {
                        let of_whole = &whole[chunk * each..][..each];
                        let is_poison = found.iter().all(|bits| f32::from_bits(*bits).is_nan());
                        let is_right = if chunk == last {
                            is_poison
                        } else {
                            found == of_whole
                        };
                        assert!(
                            is_right,
                            "{shape:?} {kind:?} {order:?} from {first}: {chunk}"
                        );
                        cases += 1;
                    }
                }
            }
        }
    }
    println!("law ranks.but_last: {cases} cases");
}

#[test]
fn the_one_chunk_is_not_left_out() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[bf16::ONE; 8 * 16]).unwrap();
    let mut c = device.poisoned::<f32>(64).unwrap();
    let a = View::new(&a, "(8,16,1):(16,1,128)").unwrap();
    let c = [ViewMut::new(&mut c, "(8,8):(8,1)").unwrap()];
    let product = Gemm::to_owners(&a, &a, &c).unwrap();
    let product = product.chunks(ChunkOrder::Ascending, 0).but_last();
    assert_eq!(
        product.run().unwrap_err().to_string(),
        "batch: chunks: the last chunk is left out, and there is one: nothing is left to multiply"
    );
}

#[test]
fn a_reduction_has_the_rows_of_all_chunks() {
    let device = Device::simulator(Arch::Sm90a);
    let a = device.upload(&[bf16::ONE; 2 * 8 * 16]).unwrap();
    let a = View::new(&a, "(8,16,2):(16,1,128)").unwrap();
    let mut c = device.poisoned::<f32>(128).unwrap();
    let c = ViewMut::new(&mut c, "(8,8,2):(8,1,64)").unwrap();
    let mut sums = device.poisoned::<f32>(16).unwrap();
    let sums = ViewMut::new(&mut sums, "(8,2):(1,8)").unwrap();
    let squares = Epilogue::new(Ty::F32, |e| {
        e.row_sums("squares", e.accumulator() * e.accumulator());
        e.accumulator()
    });
    let squares = squares.unwrap();
    let product = Gemm::new(&a, &a, &c).chunks(ChunkOrder::Ascending, 0);
    let product = product.epilogue(&squares).output("squares", &sums);
    product.run().unwrap();
    assert_eq!(
        product.but_last().run().unwrap_err().to_string(),
        "batch: chunks: the last chunk is left out, and the epilogue reduces rows or columns of all: an output holds what is reduced"
    );
}
