//! Hopper: tensor maps in and out, multicast, `wgmma` behind a ring of barriers.

use colex_atom::{Arch, Major, SmemSwizzle, Ty, gmma_smem_atom};
use colex_gpu::ir::{FenceKind, Type};
use colex_gpu::tensor::{AtThread, Builder, Error, Tensor, TmaTensor};
use colex_layout::{ComposedLayout, IntTuple, LayoutLeft};
use colex_tiled::{Operand, TiledCopy};

use crate::copies::{builder, layout, parameter, tiled};
use crate::hook::{Hook, Kind, Random};
use crate::pipelines;
use crate::products::{product, tiled_mma};
use crate::reference::{Given, Memory, memory, written};
use crate::{Family, Program, target};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "TMA in and out",
            build: tma,
        },
        Family {
            name: "multicast",
            build: multicast,
        },
        Family {
            name: "wgmma",
            build: wgmma,
        },
        Family {
            name: "stmatrix",
            build: stmatrix,
        },
    ]
}

fn map(name: &'static str, ty: Ty, layout: &str, seed: i64) -> Given {
    Given::Map(name, Memory::numbers(ty, layout, seed))
}

fn blocks(swizzle: SmemSwizzle, shape: &[i64]) -> ComposedLayout {
    let atom = gmma_smem_atom(Major::K, swizzle, 16).expect("16 bits divide 128");
    let shape = IntTuple::flat(shape.iter().map(|n| (*n).into()));
    let atom = atom.position_independent().expect("a swizzle of addresses");
    atom.tile_to_shape(&shape, LayoutLeft)
        .expect("the atom divides the tile")
}

/// A layout whose inner part and swizzle go through the hook.
fn composed(h: &mut Hook, call: &'static str, own: &ComposedLayout) -> ComposedLayout {
    let inner = h.layout(call, Kind::Layout, own.inner());
    let swizzle = h.swizzle(call, own.swizzle());
    ComposedLayout::new(swizzle, 0, inner).unwrap()
}

/// A map of tiles of 16-bit elements, everything through the hook.
fn mapped(
    h: &mut Hook,
    k: &mut Builder,
    name: &str,
    ty: Ty,
    tile: [i64; 2],
    shared: &ComposedLayout,
    blocks: i64,
) -> TmaTensor {
    let ty = h.ty("tma_tensor", ty);
    let like = h.layout("tma_tensor", Kind::Layout, &layout("(96,96):(96,_1)"));
    let tile = h.tile("tma_tensor", tile);
    let shared = composed(h, "tma_tensor", shared);
    let blocks = h.count("tma_tensor", blocks);
    k.tma_tensor(name, ty, &like, tile, &shared, blocks)
}

fn held(h: &mut Hook, k: &mut Builder, ty: Ty, own: &ComposedLayout) -> Tensor {
    let ty = h.ty("shared_tensor", ty);
    let own = composed(h, "shared_tensor", own);
    k.shared_tensor(ty, own)
}

/// In by a map, out by another, through one tile of shared memory.
fn tma(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let (swizzle, width) = r.one(&[
        (SmemSwizzle::B128, 64),
        (SmemSwizzle::B64, 32),
        (SmemSwizzle::B32, 16),
    ]);
    let tile = [16, width];
    let (rows, columns) = (r.range(3, 40), 8 * r.range(1, 12));
    let own = blocks(swizzle, &tile);
    let mut k = builder(h, "tma", Arch::Sm90a, 32);
    let from = mapped(h, &mut k, "from", ty, tile, &own, 1);
    let to = mapped(h, &mut k, "to", ty, tile, &own, 1);
    let here = held(h, &mut k, ty, &own);
    let other = k.shared_tensor(ty, blocks(SmemSwizzle::B32, &[16, 16]));
    let full = k.barriers(1);
    let tid = k.thread();
    let at = [k.block_index(0), k.block_index(1)];
    let first = k.equal(&tid, &0.into());
    k.if_(first, |k| {
        k.init_barriers(&full, h.count("init_barriers", 1).clamp(0, 1 << 20) as u32);
        k.fence(FenceKind::MbarrierInit);
        let told = full.at(h.beyond("Barriers::at", &0.into()));
        k.arrive_expect(&told, h.count("arrive_expect", from.tile_bytes()));
        let place = [
            h.moved("tma_load", "from m", &at[0]),
            h.moved("tma_load", "from n", &at[1]),
        ];
        let told = full.at(h.beyond("Barriers::at", &0.into()));
        k.tma_load(
            &h.pick(
                "tma_load",
                Kind::Argument,
                from.clone(),
                std::slice::from_ref(&to),
            ),
            &place,
            &h.pick(
                "tma_load",
                Kind::Space,
                here.clone(),
                std::slice::from_ref(&other),
            ),
            &told,
        );
        k.wait(&full.at(0), &h.place("wait", &0.into()));
        let place = [
            h.moved("tma_store", "to m", &at[0]),
            h.moved("tma_store", "to n", &at[1]),
        ];
        k.tma_store(
            &h.pick(
                "tma_store",
                Kind::Argument,
                to.clone(),
                std::slice::from_ref(&from),
            ),
            &place,
            &h.pick(
                "tma_store",
                Kind::Space,
                here.clone(),
                std::slice::from_ref(&other),
            ),
        );
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    let shift = ["from m", "from n", "to m", "to n"].map(|name| h.shift(name));
    let stride = (columns + 7) / 8 * 8;
    let to_layout = format!("({rows},{columns}):({stride},_1)");
    // A map given in another's place is a copy in another direction.
    let crossed =
        h.change.starts_with("other") && h.target.is_some_and(|t| h.sites[t].1 == Kind::Argument);
    let calls: Vec<&str> = h.target.map(|t| h.sites[t].0).into_iter().collect();
    let load_of_to = crossed && calls == ["tma_load"];
    let store_to_from = crossed && calls == ["tma_store"];
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![
            map("from", ty, &format!("({rows},{columns}):({stride},_1)"), 1),
            Given::Map("to", Memory::poison(ty, &to_layout)),
        ],
        cluster: 1,
        grid: match width {
            64 => |given| blocks_of(given, 64),
            32 => |given| blocks_of(given, 32),
            _ => |given| blocks_of(given, 16),
        },
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let source = memory(&given[usize::from(load_of_to)]).clone();
            let grid = blocks_of(given, width);
            let Given::Map(_, to) = &mut all[usize::from(!store_to_from)] else {
                unreachable!("a map")
            };
            for m in 0..i64::from(grid[0]) * 16 {
                for n in 0..i64::from(grid[1]) * width {
                    let x = source.get(&[m + shift[0] * 16, n + shift[1] * width]);
                    to.set(&[m + shift[2] * 16, n + shift[3] * width], x);
                }
            }
            all
        }),
    })
}

fn blocks_of(given: &[Given], width: i64) -> [u32; 3] {
    let to = memory(&given[1]);
    let blocks = |extent: i64, tile: i64| ((extent + tile - 1) / tile) as u32;
    [blocks(to.extent(0), 16), blocks(to.extent(1), width), 1]
}

/// Two blocks of a cluster load a tile together and write it out, each its own half of the rows.
fn multicast(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let tile = [16, 64];
    let (rows, columns) = (r.range(3, 40), 8 * r.range(1, 8));
    let own = blocks(SmemSwizzle::B128, &tile);
    let mut k = builder(h, "multicast", Arch::Sm90a, 32);
    let blocks_asked = h.count("cluster", 2).clamp(0, 1 << 20) as u32;
    k.cluster([blocks_asked, 1, 1]);
    let from = mapped(h, &mut k, "from", ty, tile, &own, 2);
    let to = parameter(h, &mut k, "to", ty, "(100,96):(96,_1)");
    let here = held(h, &mut k, ty, &own);
    let full = k.barriers(1);
    let tid = k.thread();
    let rank = k.cluster_rank(h.count("cluster_rank", 2).clamp(1, 1 << 20) as u32);
    let block = k.block_index(0);
    let m = k.within(block, 0..1 << 20) / 2;
    let first = k.equal(&tid, &0.into());
    k.if_(first, |k| {
        k.init_barriers(&full, h.count("init_barriers", 1).clamp(0, 1 << 20) as u32);
        k.fence(FenceKind::MbarrierInit);
    });
    k.cluster_sync();
    k.if_(first, |k| {
        let mask = h.count("mask", 3) & 0xffff;
        let mask = k.emit(|k| k.mov(Type::B16, mask));
        k.arrive_expect(&full.at(0), h.count("arrive_expect", from.tile_bytes()));
        let place = [
            h.moved("tma_load_multicast", "m", &m),
            h.moved("tma_load_multicast", "n", &0.into()),
        ];
        let mine = h.place("tma_load_multicast", &rank);
        k.tma_load_multicast(&from, &place, &here, &full.at(0), &mine, mask);
    });
    k.wait(&full.at(0), &h.place("wait", &0.into()));
    let copy = tiled(
        h,
        "UniversalCopy<uint128_t>",
        16,
        "(4,8):(8,1)",
        "(1,8):(0,1)",
    )?;
    let tid = h.place("partition", &tid);
    let half = here.local_tile(
        h.tile("local_tile", [8, 64]),
        &[h.beyond("local_tile", &rank), 0.into()],
    );
    let out = to.local_tile(h.tile("local_tile", [8, 64]), &[&m * 2 + &rank, 0.into()]);
    let part = copy.at(&tid).partition_src(&half);
    let regs = k.fragment_like(&part);
    k.copy(&copy, &part, &regs);
    k.copy_in_bounds(&copy, &regs, &copy.at(&tid).partition_dst(&out));
    k.cluster_sync();
    let shift = [h.shift("m"), h.shift("n")];
    let stride = (columns + 7) / 8 * 8;
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![
            map("from", ty, &format!("({rows},{columns}):({stride},_1)"), 1),
            target(ty, &format!("({rows},{columns}):({},_1)", stride + 8)),
        ],
        cluster: 2,
        grid: |given| {
            [
                memory(&given[1]).extent(0).div_euclid(16) as u32 * 2 + 2,
                1,
                1,
            ]
        },
        expected: Box::new(move |given| {
            written(given, |from, to| {
                for m in 0..to.extent(0) {
                    for n in 0..to.extent(1).min(64) {
                        to.set(&[m, n], from.get(&[m + shift[0] * 16, n + shift[1] * 64]));
                    }
                }
            })
        }),
    })
}

const GMMA: [i64; 3] = [64, 16, 64];

/// A ring of two stages between a warp that loads and a warpgroup that multiplies.
fn wgmma(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let [bm, bn, bk] = GMMA;
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let (m, n, kk) = (r.range(3, 64), r.range(3, 16), 8 * r.range(1, 20));
    let stages = 2;
    let mut k = builder(h, "wgmma", Arch::Sm90a, 256);
    let ring = k.pipeline(
        h.count("pipeline", stages),
        h.count("pipeline", 1).clamp(0, 1 << 20) as u32,
        h.count("pipeline", 1).clamp(0, 1 << 20) as u32,
    );
    let own = |mn| blocks(SmemSwizzle::B128, &[mn, bk]);
    let all = |mn| blocks(SmemSwizzle::B128, &[mn, bk, stages]);
    let sa = held(h, &mut k, ty, &all(bm));
    let sb = held(h, &mut k, ty, &all(bn));
    let a = mapped(h, &mut k, "a", ty, [bm, bk], &own(bm), 1);
    let b = mapped(h, &mut k, "b", ty, [bn, bk], &own(bn), 1);
    let c = parameter(h, &mut k, "c", Ty::F32, "(100,96):(96,_1)");
    let steps = k.index_argument("steps", 1..1 << 20);
    let names = ["SM90_64x16x16_F32F16F16_SS", "SM90_64x16x16_F32BF16BF16_SS"];
    let (own, other) = if ty == Ty::F16 {
        (names[0], names[1])
    } else {
        (names[1], names[0])
    };
    let others = [
        other,
        "SM90_64x16x16_F16F16F16_SS",
        "SM90_64x8x16_F32F16F16_SS",
        "SM90_64x32x16_F32BF16BF16_SS",
    ];
    let mma = tiled_mma(h, own, &others, "(1,1,1):(0,0,0)", "(_,_,_)")?;
    let twin = tiled_mma(
        &mut Hook::new(None, 0),
        other,
        &others,
        "(1,1,1):(0,0,0)",
        "(_,_,_)",
    )?;
    let (tid, group, warp) = (k.thread(), k.uniform(128), k.uniform(32));
    let twin_ring = k.pipeline(stages, 1, 1);
    match h.pick("start_pipelines", Kind::Protocol, 0, &[1]) {
        0 => k.start_pipelines(&[&ring, &twin_ring], false),
        _ => k.start_pipelines(&[&twin_ring], false),
    }
    let bytes = h.count("tma_producer", a.tile_bytes() + b.tile_bytes());
    let producer = k.tma_producer(&ring, bytes);
    let consumes = k.equal(&group, &0.into());
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let h = std::cell::RefCell::new(h);
    k.if_else(
        consumes,
        |k| {
            let h = &mut *h.borrow_mut();
            let thread = k.within(&tid, 0..128);
            let (of_a, of_b) = (
                h.pick(
                    "gmma_operand",
                    Kind::Type,
                    Operand::A,
                    &[Operand::B, Operand::C],
                ),
                h.pick(
                    "gmma_operand",
                    Kind::Type,
                    Operand::B,
                    &[Operand::A, Operand::C],
                ),
            );
            let leader = k.within(&group * 128, 0..1);
            let leader = h.place("gmma_operand", &leader);
            let da = k.gmma_operand(
                &mma,
                of_a,
                &h.pick(
                    "gmma_operand",
                    Kind::Space,
                    sa.clone(),
                    &[c.clone(), sb.clone()],
                ),
                &leader,
            );
            let db = k.gmma_operand(
                &mma,
                of_b,
                &h.pick(
                    "gmma_operand",
                    Kind::Space,
                    sb.clone(),
                    &[c.clone(), sa.clone()],
                ),
                &leader,
            );
            let sums = k.fragment_of(&mma, Operand::C, h.tile("fragment_of", [bm, bn]));
            let wrong = k.fragment(Ty::S32, sums.layout());
            let consumer = k.consumer(&ring, &h.place("consumer", &thread));
            let other = k.consumer(&twin_ring, &thread);
            if !pipelines::is_in_role(h) {
                let stage = producer.acquire(k);
                producer.commit(k, &stage);
            }
            k.for_(0, &steps, 1, |k, step| {
                let held = pipelines::wait(h, k, &consumer, &other);
                let stage = held.index();
                let scale = k.less(&0.into(), step);
                k.wgmma_fence();
                let (at_a, at_b) = (
                    h.beyond("GmmaOperand::at", &stage),
                    h.beyond("GmmaOperand::at", &stage),
                );
                let (da, db) = (da.at(&at_a), db.at(&at_b));
                k.wgmma_tile(
                    &h.pick(
                        "wgmma_tile",
                        Kind::Type,
                        mma.clone(),
                        std::slice::from_ref(&twin),
                    ),
                    &h.pick(
                        "wgmma_tile",
                        Kind::Type,
                        sums.clone(),
                        std::slice::from_ref(&wrong),
                    ),
                    &h.pick(
                        "wgmma_tile",
                        Kind::Layout,
                        da.clone(),
                        std::slice::from_ref(&db),
                    ),
                    &h.pick(
                        "wgmma_tile",
                        Kind::Layout,
                        db.clone(),
                        std::slice::from_ref(&da),
                    ),
                    scale,
                );
                k.wgmma_commit();
                k.wgmma_wait(h.count("wgmma_wait", 0).clamp(0, 1 << 31) as u32);
                pipelines::release(h, k, &consumer, &other, &held);
            });
            let tile = c.local_tile(h.tile("local_tile", [bm, bn]), &[0.into(), 0.into()]);
            let to = store
                .at(&h.place("partition", &thread))
                .partition_dst(&tile);
            k.copy_in_bounds(&store, &sums.retile(&store), &to);
        },
        |k| {
            let h = &mut *h.borrow_mut();
            let loads = k.equal(&warp, &4.into());
            k.if_(loads, |k| {
                let one = k.elected();
                k.if_(one, |k| {
                    let other = k.tma_producer(&twin_ring, a.tile_bytes() + b.tile_bytes());
                    k.for_(0, &steps, 1, |k, step| {
                        let held = pipelines::acquire(h, k, &producer, &other);
                        let (stage, full) = (held.index(), held.barrier());
                        let to_a = sa.at(2, h.beyond("at", &stage));
                        let to_b = sb.at(2, h.beyond("at", &stage));
                        let at_a = [
                            h.moved("tma_load", "a m", &0.into()),
                            h.moved("tma_load", "a k", step),
                        ];
                        let at_b = [
                            h.moved("tma_load", "b n", &0.into()),
                            h.moved("tma_load", "b k", step),
                        ];
                        k.tma_load(
                            &h.pick(
                                "tma_load",
                                Kind::Argument,
                                a.clone(),
                                std::slice::from_ref(&b),
                            ),
                            &at_a,
                            &to_a,
                            &full,
                        );
                        k.tma_load(
                            &h.pick(
                                "tma_load",
                                Kind::Argument,
                                b.clone(),
                                std::slice::from_ref(&a),
                            ),
                            &at_b,
                            &to_b,
                            &full,
                        );
                        pipelines::commit(h, k, &producer, &other, &held);
                    });
                    pipelines::tail(h, k, &producer);
                });
            });
        },
    );
    let h = h.into_inner();
    let shifts = h.shifts.clone();
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![
            map("a", ty, &format!("({m},{kk}):({kk},_1)"), 1),
            map("b", ty, &format!("({n},{kk}):({kk},_1)"), 2),
            target(Ty::F32, &format!("({m},{n}):({},_1)", n + 2)),
            Given::Number(((kk + 63) / 64) as u32),
        ],
        cluster: 1,
        grid: |_| [1, 1, 1],
        expected: Box::new(move |given| {
            let shift = |name: &str| shifts.get(name).copied().unwrap_or(0);
            let Given::Number(steps) = given[3] else {
                unreachable!("a number")
            };
            let mut whole = given.to_vec();
            // As many steps as were asked for, of rows of A as long.
            let kept = i64::from(steps) * 64;
            if let Given::Map(_, a) = &mut whole[0] {
                let columns = a.extent(1);
                let short = a.clone();
                if kept < columns {
                    for i in 0..a.extent(0) {
                        for j in kept..columns {
                            a.set(&[i, j], 0.0);
                        }
                    }
                }
                let _ = short;
            }
            let mut all = product(&whole, GMMA, shift, |sums, j| sums[j as usize]);
            all[0] = given[0].clone();
            // One tile is written.
            if let (Given::Tensor(c), Given::Tensor(before)) = (&mut all[2], &given[2]) {
                for i in 0..c.extent(0) {
                    for j in 0..c.extent(1) {
                        if i >= 64 || j >= 16 {
                            c.set(&[i, j], before.get(&[i, j]));
                        }
                    }
                }
            }
            all
        }),
    })
}

/// Sums into shared memory by `stmatrix`, out by a map.
fn stmatrix(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let ty = Ty::F16;
    let (rows, columns) = (r.range(3, 40), 8 * r.range(1, 8));
    let own = blocks(SmemSwizzle::B64, &[16, 32]);
    let mut k = builder(h, "stmatrix", Arch::Sm90a, 32);
    let from = parameter(h, &mut k, "from", ty, "(100,96):(96,_1)");
    let to = mapped(h, &mut k, "to", ty, [16, 32], &own, 1);
    let here = held(h, &mut k, ty, &own);
    let names = ["SM80_16x8x16_F16F16F16F16_TN"];
    let mma = tiled_mma(
        h,
        names[0],
        &[
            "SM80_16x8x16_F32F16F16F32_TN",
            "SM80_16x8x8_F16F16F16F16_TN",
        ],
        "(1,1,1):(0,0,0)",
        "(16,16,16)",
    )?;
    let load = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let load = TiledCopy::for_operand(load, 16, &mma, Operand::C)?;
    let atom = h.pick(
        "for_operand",
        Kind::Type,
        "SM90_U32x4_STSM_N",
        &[
            "SM90_U16x8_STSM_T",
            "SM90_U32x2_STSM_N",
            "UniversalCopy<uint32_t>",
        ],
    );
    let put = TiledCopy::for_operand(colex_atom::copy(atom)?, 16, &mma, Operand::C)?;
    let tid = k.thread();
    let (get, set) = (h.place("partition", &tid), h.place("partition", &tid));
    let at = [k.block_index(0), k.block_index(1)];
    let tile = from.local_tile(h.tile("local_tile", [16, 32]), &at);
    let part = load.at(&get).partition_src(&tile);
    let sums = k.fragment_of(&mma, Operand::C, h.tile("fragment_of", [16, 32]));
    k.copy_in_bounds(&load, &part, &sums.retile(&load));
    let into = put.at(&set).partition_dst(&h.pick(
        "partition",
        Kind::Space,
        here.clone(),
        std::slice::from_ref(&tile),
    ));
    k.copy(&put, &sums.retile(&put), &into);
    k.fence(FenceKind::ProxyAsyncShared);
    k.sync();
    let first = k.equal(&tid, &0.into());
    k.if_(first, |k| {
        let place = [
            h.moved("tma_store", "m", &at[0]),
            h.moved("tma_store", "n", &at[1]),
        ];
        k.tma_store(
            &to,
            &place,
            &h.pick(
                "tma_store",
                Kind::Space,
                here.clone(),
                std::slice::from_ref(&tile),
            ),
        );
        k.bulk_commit();
        k.bulk_wait(0, true);
    });
    let shift = [h.shift("m"), h.shift("n")];
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm90a,
        given: vec![
            Given::Tensor(Memory::numbers(
                ty,
                &format!("({rows},{columns}):({columns},_1)"),
                1,
            )),
            Given::Map(
                "to",
                Memory::poison(ty, &format!("({rows},{columns}):({columns},_1)")),
            ),
        ],
        cluster: 1,
        grid: |given| blocks_of(given, 32),
        expected: Box::new(move |given| {
            let grid = blocks_of(given, 32);
            written(given, |from, to| {
                for m in 0..i64::from(grid[0]) * 16 {
                    for n in 0..i64::from(grid[1]) * 32 {
                        to.set(&[m + shift[0] * 16, n + shift[1] * 32], from.get(&[m, n]));
                    }
                }
            })
        }),
    })
}
