//! TMA: tensors of every rank and swizzle, bulk copies, reductions, multicast, in any order of completion.

use colex_atom::{
    Argument as Row, CopyAtom, Interleave, L2Promotion, OobFill, Reduction, Space as At, TensorMap,
    TmaElement, TmaSwizzle, copy, copy_atoms,
};
use colex_ir::launch::{Argument, Launch, TensorMapArgument};
use colex_ir::{
    Address, Base, Compare, CopyArgs, End, FenceKind, Kernel, KernelBuilder, Operand, Reg, Space,
    Special, Type,
};
use colex_sim::{FaultKind, SimOptions};

use super::helpers::*;

/// The first thread of each block does this; a barrier of one arrival is ready, and visible to the cluster.
fn one_thread(
    k: &mut KernelBuilder,
    clusters: bool,
    issue: impl FnOnce(&mut KernelBuilder, Address),
) {
    let barrier = k.shared("barrier", 8, 8);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let first = k.setp(Compare::Eq, Type::U32, thread, 0);
    k.if_(first, |k| {
        k.mbarrier_init(barrier, 1);
        k.fence(FenceKind::MbarrierInit);
        k.fence(FenceKind::ProxyAsyncShared);
    });
    if clusters {
        k.cluster_sync()
    } else {
        k.sync()
    }
    k.if_(first, |k| issue(k, barrier.into()));
}

/// Copies dynamic shared memory to (or from) the thread's words of a buffer: 32 threads, `bytes` bytes.
fn words(k: &mut KernelBuilder, buffer: Reg, bytes: i64, out: bool) {
    let base = k.address_of(Base::DynamicShared);
    let thread = k.mov(Type::U32, Special::Tid(0));
    let at = k.mul(Type::U32, thread, 4);
    k.for_range(at, bytes, 128, |k, at| {
        let here = k.add(Type::U32, base, at);
        let wide = k.cvt(Type::U64, Type::U32, at);
        let there = k.add(Type::U64, buffer, wide);
        let (source, target) = if out {
            ((Space::Shared, here), (Space::Global, there))
        } else {
            ((Space::Global, there), (Space::Shared, here))
        };
        let x = k.load(colex_ir::Access::new(source.0, Type::B32), source.1);
        k.store(colex_ir::Access::new(target.0, Type::B32), target.1, x);
    });
}

/// A tensor of `rank` dimensions, of 32-bit elements, and a box that leaves it.
pub(super) fn tensor(rank: usize, swizzle: TmaSwizzle, element: TmaElement) -> TensorMap {
    let dims = [20, 5, 3, 2, 3][..rank].to_vec();
    let each = element.bytes();
    let mut strides = Vec::new();
    let mut stride = 32 * each;
    for extent in &dims[1..] {
        strides.push(stride);
        stride *= extent;
    }
    let inner = match swizzle {
        TmaSwizzle::B32 => 32 / each,
        TmaSwizzle::B64 => 64 / each,
        TmaSwizzle::B128 => 128 / each,
        _ => 16.min(128 / each),
    };
    TensorMap {
        element,
        strides,
        extents: [inner, 4, 2, 2, 2][..rank].to_vec(),
        element_strides: vec![1; rank],
        im2col: None,
        dims,
        swizzle,
        interleave: Interleave::None,
        l2: L2Promotion::None,
        fill: OobFill::Zero,
    }
}

/// The bytes of the tensor and where each element of the box lies, by nested loops: byte in global memory or nothing.
fn by_hand(map: &TensorMap, at: &[i64]) -> Vec<Option<i64>> {
    let mut places = vec![Some(0)];
    let strides: Vec<i64> = std::iter::once(map.element.bytes())
        .chain(map.strides.clone())
        .collect();
    for (d, (&first, &stride)) in at.iter().zip(&strides).enumerate() {
        let mut next = Vec::new();
        for i in 0..map.extents[d] {
            let x = first + i;
            let inside = (0..map.dims[d]).contains(&x);
            next.extend(
                places
                    .iter()
                    .map(|p| p.filter(|_| inside).map(|p| p + x * stride)),
            );
        }
        places = next;
    }
    places
}

/// `Sw<B,4,3>` on a byte, by hand.
fn swizzled(swizzle: TmaSwizzle, byte: i64) -> usize {
    let bits = match swizzle {
        TmaSwizzle::B32 => 1,
        TmaSwizzle::B64 => 3,
        TmaSwizzle::B128 => 7,
        _ => 0,
    };
    (byte ^ (byte >> 3 & bits << 4)) as usize
}

fn coordinates(at: &[i64]) -> Vec<Operand> {
    at.iter().map(|x| Operand::Int(*x)).collect()
}

pub(super) fn argument(map: &TensorMap, address: u64) -> Argument {
    Argument::TensorMap(Box::new(TensorMapArgument {
        map: map.clone(),
        address,
        encoded: None,
    }))
}

fn load_kernel(atom: &CopyAtom, at: &[i64], bytes: i64) -> Kernel {
    load_kernel_at(atom, at, &[], bytes)
}

/// A load from these coordinates, and these offsets of a filter, to the beginning of shared memory, and out.
pub(super) fn load_kernel_at(atom: &CopyAtom, at: &[i64], offsets: &[i64], bytes: i64) -> Kernel {
    let mut k = kernel("load");
    let map = k.tensor_map("map");
    let out = k.pointer("out");
    k.dynamic_shared(1024);
    let out = k.param(out);
    let map = k.param(map);
    let mut barrier = None;
    one_thread(&mut k, false, |k, at_barrier| {
        k.mbarrier_arrive_expect(at_barrier, bytes);
        let here = k.address_of(Base::DynamicShared);
        let offsets = offsets.iter().map(|offset| k.mov(Type::U16, *offset));
        let offsets = offsets.collect();
        k.copy_atom(
            atom,
            CopyArgs {
                dst: End::Memory(here.into()),
                tensor: Some((map.into(), coordinates(at))),
                barrier: Some(at_barrier),
                offsets,
                ..CopyArgs::default()
            },
        );
        barrier = Some(at_barrier);
    });
    k.mbarrier_wait(barrier.unwrap(), 0);
    words(&mut k, out, bytes, true);
    k.finish()
}

pub(super) fn data(bytes: usize) -> Vec<u8> {
    (0..bytes / 4)
        .flat_map(|i| (i as u32 % 1000 + 1).to_le_bytes())
        .collect()
}

#[test]
fn boxes_of_every_rank_and_swizzle_arrive() {
    let swizzles = [
        TmaSwizzle::None,
        TmaSwizzle::B32,
        TmaSwizzle::B64,
        TmaSwizzle::B128,
    ];
    let mut cases = 0;
    for rank in 1..=5 {
        for swizzle in swizzles {
            for first in [-8, 0, 8, 16] {
                let map = tensor(rank, swizzle, TmaElement::U32);
                map.check().unwrap();
                let at = &[first, 3, 2, 1, -1][..rank];
                let atom = copy(&format!("SM90_TMA_LOAD_{rank}D")).unwrap();
                let (bytes, size) = (map.box_bytes(), map.tensor_bytes() as usize);
                let mut host = Host::default();
                let input = data(size.next_multiple_of(4));
                let address = host.bytes(&input);
                host.arguments = vec![argument(&map, address)];
                let out = host.empty(bytes as u64);
                let launch = Launch::new(1, 32).dynamic_shared(bytes as u32);
                let kernel = load_kernel(&atom, at, bytes);
                let options = SimOptions::default().seed(cases);
                host.run_with(&kernel, launch, &options).unwrap();
                let mut expected = vec![0; bytes as usize];
                for (i, place) in by_hand(&map, at).into_iter().enumerate() {
                    if let Some(place) = place {
                        let to = swizzled(swizzle, 4 * i as i64);
                        expected[to..to + 4]
                            .copy_from_slice(&input[place as usize..place as usize + 4]);
                    }
                }
                let found = host.memory.read(out, bytes as u64).unwrap();
                assert_eq!(found, expected, "rank {rank}, {swizzle:?}, from {at:?}");
                cases += 1;
            }
        }
    }
    println!("law sim.tma_load: {cases} cases");
}

/// Shared memory from `data`, a fence, and a store or reduction of a box.
pub(super) fn store_kernel(atom: &CopyAtom, at: &[i64], bytes: i64) -> Kernel {
    let mut k = kernel("store");
    let map = k.tensor_map("map");
    let data = k.pointer("data");
    k.dynamic_shared(1024);
    let data = k.param(data);
    let map = k.param(map);
    words(&mut k, data, bytes, false);
    k.fence(FenceKind::ProxyAsyncShared);
    one_thread(&mut k, false, |k, _| {
        let here = k.address_of(Base::DynamicShared);
        k.copy_atom(
            atom,
            CopyArgs {
                src: End::Memory(here.into()),
                tensor: Some((map.into(), coordinates(at))),
                ..CopyArgs::default()
            },
        );
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    k.finish()
}

#[test]
fn boxes_are_stored_and_reduced() {
    let mut cases = 0;
    for rank in 1..=5 {
        let atoms = copy_atoms().filter(|atom| {
            let name = atom.op().map(|op| op.ptx.clone()).unwrap_or_default();
            atom.tensor_rank() == Some(rank) && name.contains(".tile") && atom.to() == At::Global
        });
        for atom in atoms {
            for swizzle in [TmaSwizzle::None, TmaSwizzle::B128] {
                let map = tensor(rank, swizzle, TmaElement::U32);
                let at = &[8, 3, 2, 1, 1][..rank];
                let (bytes, size) = (map.box_bytes(), map.tensor_bytes() as usize);
                let mut host = Host::default();
                let before = data(size.next_multiple_of(4));
                let address = host.bytes(&before);
                host.arguments = vec![argument(&map, address)];
                let boxed: Vec<u8> = data(bytes as usize)
                    .into_iter()
                    .map(|x| x.wrapping_mul(3))
                    .collect();
                host.bytes(&boxed);
                let launch = Launch::new(1, 32).dynamic_shared(bytes as u32);
                host.run(&store_kernel(&atom, at, bytes), launch).unwrap();
                let mut expected = before.clone();
                for (i, place) in by_hand(&map, at).into_iter().enumerate() {
                    let Some(place) = place.map(|p| p as usize) else {
                        continue;
                    };
                    let from = swizzled(swizzle, 4 * i as i64);
                    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
                    let new = word(&boxed[from..from + 4]);
                    let old = word(&before[place..place + 4]);
                    let value = reduced(&atom, old, new);
                    expected[place..place + 4].copy_from_slice(&value.to_le_bytes());
                }
                let found = host.memory.read(address, before.len() as u64).unwrap();
                assert_eq!(found, expected, "{} {swizzle:?}", atom.name());
                cases += 1;
            }
        }
    }
    println!("law sim.tma_store: {cases} cases");
    assert!(cases >= 80);
}

/// A store writes whole units of 16 bytes, as an H200 does: what lies behind the end of a row changes with it, what lies
/// behind the unit does not; and where the tensor is the end of its allocation, that is named.
#[test]
fn a_store_goes_on_to_the_end_of_16_bytes() {
    let atom = copy("SM90_TMA_STORE_2D").unwrap();
    let mut cases = 0;
    for (element, each) in [
        (TmaElement::U8, 1),
        (TmaElement::F16, 2),
        (TmaElement::F32, 4),
    ] {
        for columns in 32 / each..=48 / each {
            let map = TensorMap {
                dims: vec![columns, 3],
                strides: vec![80],
                extents: vec![64 / each, 4],
                ..tensor(2, TmaSwizzle::None, element)
            };
            let before = vec![0xcc; 240];
            let boxed: Vec<u8> = (0..=255).collect();
            let mut host = Host::default();
            let address = host.bytes(&before);
            host.arguments = vec![argument(&map, address)];
            host.bytes(&boxed);
            let launch = Launch::new(1, 32).dynamic_shared(256);
            host.run(&store_kernel(&atom, &[0, 0], 256), launch)
                .unwrap();
            let mut expected = before;
            let end = ((columns * each) as usize).next_multiple_of(16);
            for row in 0..3 {
                expected[80 * row..][..end].copy_from_slice(&boxed[64 * row..][..end]);
            }
            assert_eq!(host.memory.read(address, 240).unwrap(), expected);
            cases += 1;
        }
    }
    println!("law sim.tma_store_units: {cases} cases");
}

#[test]
fn a_store_beyond_the_end_of_a_row_is_a_store_beyond_the_buffer() {
    let map = TensorMap {
        dims: vec![30],
        strides: vec![],
        extents: vec![32],
        element_strides: vec![1],
        ..tensor(1, TmaSwizzle::None, TmaElement::F32)
    };
    let mut host = Host::default();
    let address = host.bytes(&[1; 120]);
    host.arguments = vec![argument(&map, address)];
    host.bytes(&data(128));
    let atom = copy("SM90_TMA_STORE_1D").unwrap();
    let launch = Launch::new(1, 32).dynamic_shared(128);
    let fault = host
        .run(&store_kernel(&atom, &[0], 128), launch)
        .unwrap_err();
    assert_eq!(fault.kind(), FaultKind::OutOfBounds);
    assert_eq!(
        fault.what(),
        "16 bytes at byte 112 of `map`, which has 120 bytes"
    );
}

/// A tensor of `Tf32` is rounded on its way to shared memory, to the nearest and to even between two; infinities stay, and
/// every NaN becomes one. On the way back everything stays.
#[test]
fn a_load_of_tf32_rounds_and_a_store_does_not() {
    let words = [
        (0x3f80_0fff, 0x3f80_0000),
        (0x3f80_1000, 0x3f80_0000),
        (0x3f80_1001, 0x3f80_2000),
        (0x3f80_3000, 0x3f80_4000),
        (0xbf80_3000, 0xbf80_4000),
        (0x3fff_ffff, 0x4000_0000),
        (0x7f7f_ffff, 0x7f80_0000),
        (0x0000_1000, 0x0000_0000),
        (0x0000_1001, 0x0000_2000),
        (0x7f80_0000, 0x7f80_0000),
        (0xff80_0001, 0x7fff_e000),
        (0x7fff_ffff, 0x7fff_e000),
    ];
    let map = TensorMap {
        dims: vec![12],
        strides: vec![],
        extents: vec![12],
        element_strides: vec![1],
        ..tensor(1, TmaSwizzle::None, TmaElement::Tf32)
    };
    let mut host = Host::default();
    let input = host.words(&words.map(|(from, _)| from));
    host.arguments = vec![argument(&map, input)];
    let out = host.empty(48);
    let load = load_kernel(&copy("SM90_TMA_LOAD_1D").unwrap(), &[0], 48);
    let launch = Launch::new(1, 32).dynamic_shared(48);
    host.run(&load, launch).unwrap();
    assert_eq!(host.read(out, 12), words.map(|(_, to)| to));

    let mut host = Host::default();
    let out = host.words(&[0; 12]);
    host.arguments = vec![argument(&map, out)];
    host.words(&words.map(|(from, _)| from));
    let store = store_kernel(&copy("SM90_TMA_STORE_1D").unwrap(), &[0], 48);
    host.run(&store, launch).unwrap();
    assert_eq!(host.read(out, 12), words.map(|(from, _)| from));
}

/// What 32 unsigned bits become.
fn reduced(atom: &CopyAtom, old: u32, new: u32) -> u32 {
    match atom.reduction().map(|(reduction, _)| reduction) {
        None => new,
        Some(Reduction::Add) => old.wrapping_add(new),
        Some(Reduction::Min) => old.min(new),
        Some(Reduction::Max) => old.max(new),
        Some(Reduction::Inc) => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        Some(Reduction::Dec) => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        Some(Reduction::And) => old & new,
        Some(Reduction::Or) => old | new,
        Some(Reduction::Xor) => old ^ new,
    }
}

#[test]
fn a_box_goes_to_every_block_of_the_mask() {
    // Each block of a cluster of four loads a quarter for all: shared memory is the same in each.
    let atom = copy("SM90_TMA_LOAD_MULTICAST_2D").unwrap();
    let mut k = kernel("multicast");
    let map = k.tensor_map("map");
    let out = k.pointer("out");
    k.dynamic_shared(1024);
    let out = k.param(out);
    let map = k.param(map);
    let rank = k.mov(Type::U32, Special::ClusterCtaRank);
    let quarter = 4 * 64;
    let mut barrier = None;
    one_thread(&mut k, true, |k, at_barrier| {
        barrier = Some(at_barrier);
        k.mbarrier_arrive_expect(at_barrier, 4 * quarter);
        let here = k.address_of(Base::DynamicShared);
        let here = k.mad(Type::U32, rank, quarter, here);
        let row = k.mul(Type::U32, rank, 4);
        let all = k.mov(Type::U16, 0b1111);
        k.copy_atom(
            &atom,
            CopyArgs {
                dst: End::Memory(here.into()),
                tensor: Some((map.into(), vec![0.into(), row.into()])),
                barrier: Some(at_barrier),
                mask: Some(all),
                ..CopyArgs::default()
            },
        );
    });
    k.mbarrier_wait(barrier.unwrap(), 0);
    let bytes = 4 * quarter;
    let wide = k.mul_wide(Type::U32, rank, bytes);
    let out = k.add(Type::U64, out, wide);
    words(&mut k, out, bytes, true);
    k.cluster_sync();
    let kernel = k.finish();

    let map = TensorMap {
        dims: vec![16, 16],
        strides: vec![64],
        extents: vec![16, 4],
        ..tensor(2, TmaSwizzle::None, TmaElement::U32)
    };
    let mut results = Vec::new();
    for seed in 0..12 {
        let mut host = Host::default();
        let input = data(16 * 64);
        let address = host.bytes(&input);
        host.arguments = vec![argument(&map, address)];
        let out = host.empty(4 * bytes as u64);
        let launch = Launch::new(4, 32).cluster(4).dynamic_shared(bytes as u32);
        host.run_with(&kernel, launch, &SimOptions::default().seed(seed))
            .unwrap();
        results.push(host.memory.read(out, 4 * bytes as u64).unwrap());
        assert_eq!(
            results[0],
            [input.clone(), input.clone(), input.clone(), input].concat()
        );
    }
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn bulk_copies_and_reductions_move_plain_bytes() {
    let mut cases = 0;
    for atom in copy_atoms().filter(|atom| atom.is_executable() && atom.tensor_rank().is_none()) {
        let name = atom.op().unwrap().ptx.clone();
        if !name.contains(".bulk") || name.contains("prefetch") {
            continue;
        }
        let has = |row| {
            atom.op()
                .unwrap()
                .operands
                .iter()
                .any(|o| o.argument == row)
        };
        let bytes = 256;
        let mut k = kernel("bulk");
        let [input, output] = ["input", "output"].map(|name| k.pointer(name));
        k.dynamic_shared(1024);
        let (input, output) = (k.param(input), k.param(output));
        let from_global = atom.from() == At::Global;
        let to_global = atom.to() == At::Global;
        // The first half of shared memory is the source, the second the destination.
        if !from_global {
            words(&mut k, input, bytes, false);
        }
        if !to_global && atom.reduction().is_some() {
            let base = k.address_of(Base::DynamicShared);
            let thread = k.mov(Type::U32, Special::Tid(0));
            let at = k.mad(Type::U32, thread, 8, base);
            for i in 0..2 {
                let seven = k.mov(Type::U32, 7);
                k.store(
                    shared(Type::U32),
                    Address::from(at).at(bytes + 4 * i),
                    seven,
                );
            }
        }
        k.fence(FenceKind::ProxyAsyncShared);
        let mut barrier = None;
        one_thread(&mut k, true, |k, at_barrier| {
            let base = k.address_of(Base::DynamicShared);
            let [source, target] = [0, bytes].map(|at| Address::from(base).at(at));
            if has(Row::Barrier) {
                k.mbarrier_arrive_expect(at_barrier, bytes);
                barrier = Some(at_barrier);
            }
            let all = has(Row::Mask).then(|| k.mov(Type::U16, 1));
            k.copy_atom(
                &atom,
                CopyArgs {
                    dst: End::Memory(if to_global { output.into() } else { target }),
                    src: End::Memory(if from_global { input.into() } else { source }),
                    barrier: barrier.filter(|_| has(Row::Barrier)),
                    mask: all,
                    size: Some(bytes.into()),
                    ..CopyArgs::default()
                },
            );
            if to_global {
                k.bulk_commit();
                k.bulk_wait(0, false);
            }
        });
        if let Some(barrier) = barrier {
            k.mbarrier_wait(barrier, 0);
            let base = k.address_of(Base::DynamicShared);
            let thread = k.mov(Type::U32, Special::Tid(0));
            for i in 0..2 {
                let at = k.mad(Type::U32, thread, 8, base);
                let x = k.load(shared(Type::U32), Address::from(at).at(bytes + 4 * i));
                let to = k.mul_wide(Type::U32, thread, 8);
                let to = k.add(Type::U64, output, to);
                k.store(global(Type::U32), Address::from(to).at(4 * i), x);
            }
        }
        let kernel = k.finish();
        let mut host = Host::default();
        let given = data(bytes as usize);
        host.bytes(&given);
        let before: Vec<u8> = (0..64).flat_map(|_| 7u32.to_le_bytes()).collect();
        let out = host.bytes(&before);
        // A copy from shared memory to shared memory wants a cluster, whose two blocks do the same.
        let blocks = if from_global || to_global { 1 } else { 2 };
        let launch = Launch::new(blocks, 32).cluster(blocks);
        let launch = launch.dynamic_shared(2 * bytes as u32);
        let result = host.run_with(&kernel, launch, &SimOptions::default().seed(cases));
        result.unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let expected: Vec<u8> = match atom.reduction() {
            None => given,
            Some((reduction, scalar)) => {
                let each = scalar.bits() as usize / 8;
                let pairs = before.chunks(each).zip(given.chunks(each));
                let word =
                    |bytes: &[u8]| bytes.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
                pairs
                    .flat_map(|(a, b)| {
                        reduction.combine(scalar, word(a), word(b)).to_le_bytes()[..each].to_vec()
                    })
                    .collect()
            }
        };
        assert_eq!(
            host.memory.read(out, bytes as u64).unwrap(),
            expected,
            "{name}"
        );
        cases += 1;
    }
    println!("law sim.bulk: {cases} cases");
    assert!(cases >= 40);
}
