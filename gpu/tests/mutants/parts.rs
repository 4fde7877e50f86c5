//! Copies between parts: slices of fragments and of partitions, runs of values, gathered registers, composed tensors, and
//! steps of a product along K.

use std::collections::HashMap;

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Error, Fragment, Index, Tensor};
use colex_layout::Layout;
use colex_tiled::{Operand, TiledCopy, TiledMma};

use crate::copies::{builder, grid_of, layout, parameter, registers};
use crate::hook::{Hook, Kind, Random};
use crate::reference::{Given, memory, written};
use crate::{Family, Program, target, tensor};

pub(crate) fn families() -> Vec<Family> {
    vec![
        Family {
            name: "slices",
            build: slices,
        },
        Family {
            name: "slices in turns",
            build: turns,
        },
        Family {
            name: "values",
            build: values,
        },
        Family {
            name: "gathered",
            build: gathered,
        },
        Family {
            name: "steps",
            build: steps,
        },
    ]
}

/// The rows of a tile, and its columns for vectors of one element: a thread has four rows of four vectors.
const TILE: [i64; 2] = [16, 32];

/// Slices of a thread's part, and vectors in a slice.
const PARTS: i64 = 4;

/// What the copies of parts share.
struct Scene {
    k: colex_gpu::tensor::Builder,
    ty: Ty,
    vector: i64,
    load: TiledCopy,
    store: TiledCopy,
    /// `(CPY, CPY_M, CPY_N)`
    from: Tensor,
    to: Tensor,
    /// The extents of both tiles.
    tiles: [[i64; 2]; 2],
    given: Vec<Given>,
}

fn tiled(atom: &str, bits: u32, [threads, values]: [&str; 2]) -> Result<TiledCopy, Error> {
    Ok(TiledCopy::new(
        colex_atom::copy(atom)?,
        i64::from(bits),
        threads,
        values,
    )?)
}

impl Scene {
    fn new(h: &mut Hook, r: &mut Random, types: &[Ty]) -> Result<Scene, Error> {
        let ty = r.one(types);
        let vector = r.one(&[1, 2]);
        let tile = [TILE[0], TILE[1] * vector];
        let rows = r.range(5, 40);
        let columns = vector * r.range(1, 40);
        let mut k = builder(h, "parts", Arch::Sm80, 32);
        let src = parameter(h, &mut k, "src", ty, "(100,96):(96,_1)");
        let dst = parameter(h, &mut k, "dst", ty, "(100,96):(96,_1)");
        let atom = format!("UniversalCopy<uint{}_t>", i64::from(ty.bits()) * vector);
        let run = format!("(1,{vector}):(0,1)");
        let own = ["(4,8):(8,1)", &run];
        // As many values for each thread, and others.
        let others = ["(4,8):(1,4)", "(8,4):(4,1)", "(2,16):(16,1)"];
        let others: Vec<[&str; 2]> = others
            .into_iter()
            .map(|threads| [threads, &run[..]])
            .collect();
        let copy = |h: &mut Hook| {
            let form = h.pick("TiledCopy::new", Kind::Layout, own, &others);
            tiled(&atom, ty.bits(), form)
        };
        let (load, store) = (copy(h)?, copy(h)?);
        let thread = k.thread();
        let at = [k.block_index(0), k.block_index(1)];
        let tiles = [h.tile("local_tile", tile), h.tile("local_tile", tile)];
        let (from, to) = (src.local_tile(tiles[0], &at), dst.local_tile(tiles[1], &at));
        let (get, put) = (h.place("partition", &thread), h.place("partition", &thread));
        Ok(Scene {
            from: load.at(&get).partition_src(&from),
            to: store.at(&put).partition_dst(&to),
            k,
            ty,
            vector,
            load,
            store,
            tiles,
            given: vec![
                tensor(
                    ty,
                    &format!("({rows},{columns}):({},_1)", columns + vector),
                    1,
                ),
                target(ty, &format!("({rows},{columns}):({columns},_1)")),
            ],
        })
    }

    /// Elements of a slice.
    fn slice(&self) -> i64 {
        4 * self.vector
    }

    /// The kernel, where element `to` of each thread's part becomes `scale` times element `from` of the source's. A tile of other
    /// extents begins elsewhere, and ends elsewhere.
    fn program(self, moves: Vec<[i64; 2]>, scale: f64) -> Result<Program, Error> {
        let tiles = self.tiles;
        let (vector, grid): (i64, fn(&[Given]) -> [u32; 3]) = match self.vector {
            1 => (1, |given| grid_of(&given[1], TILE)),
            _ => (2, |given| grid_of(&given[1], [TILE[0], 2 * TILE[1]])),
        };
        Ok(Program {
            built: self.k.finish()?,
            arch: Arch::Sm80,
            given: self.given,
            cluster: 1,
            grid,
            expected: Box::new(move |given| {
                written(given, |source, target| {
                    let blocks = grid(given);
                    for m in 0..i64::from(blocks[0]) {
                        for n in 0..i64::from(blocks[1]) {
                            for t in 0..32 {
                                for [from, to] in &moves {
                                    let [from, to] =
                                        [(*from, tiles[0]), (*to, tiles[1])].map(|(i, tile)| {
                                            let at = place(vector, tile[0], t, i);
                                            let is_inside = at[0] < tile[0] && at[1] < tile[1];
                                            is_inside.then_some([
                                                m * tile[0] + at[0],
                                                n * tile[1] + at[1],
                                            ])
                                        });
                                    let number = from.map_or(0.0, |from| source.get(&from));
                                    if let Some(to) = to {
                                        target.set(&to, scale * number);
                                    }
                                }
                            }
                        }
                    }
                })
            }),
        })
    }
}

/// Where element `i` of thread `t` lies in a tile of that many rows.
fn place(vector: i64, rows: i64, t: i64, i: i64) -> [i64; 2] {
    let rows = (rows + 3) / 4;
    let (row, column) = (i / vector % rows, i / vector / rows);
    [t / 8 + 4 * row, (t % 8 + 8 * column) * vector + i % vector]
}

/// What slices of a fragment hold: the number of the source's element by the place of the register.
struct Registers {
    layout: Layout,
    slice: i64,
    held: HashMap<i64, i64>,
}

impl Registers {
    fn of(fragment: &Fragment, slice: i64) -> Registers {
        Registers {
            layout: fragment.layout().clone(),
            slice,
            held: HashMap::new(),
        }
    }

    /// The register of an element of a slice, along mode 1 or 2.
    fn place(&self, (mode, number): (usize, i64), i: i64) -> Option<i64> {
        let [v, m] = [self.layout.mode(0)?.size(), self.layout.mode(1)?.size()];
        let index = match mode {
            1 => i % v + v * (number + m * (i / v)),
            _ => i + v * m * number,
        };
        self.layout.at(index).ok()
    }

    fn load(&mut self, from: i64, into: (usize, i64)) {
        for i in 0..self.slice {
            if let Some(place) = self.place(into, i) {
                self.held.insert(place, from * self.slice + i);
            }
        }
    }

    /// The elements of a slice that is stored, from and to.
    fn store(&self, out: (usize, i64), to: i64) -> Vec<[i64; 2]> {
        let from = |i| self.held.get(&self.place(out, i)?).copied();
        let one = |i| [from(i).unwrap_or(0), to * self.slice + i];
        (0..self.slice).map(one).collect()
    }
}

const FROM: [&str; 4] = ["from 0", "from 1", "from 2", "from 3"];
const INTO: [&str; 4] = ["into 0", "into 1", "into 2", "into 3"];
const OUT: [&str; 4] = ["out 0", "out 1", "out 2", "out 3"];
const TO: [&str; 4] = ["to 0", "to 1", "to 2", "to 3"];

/// The slice of that number along a mode.
fn slice_of(h: &mut Hook, mode: usize, name: &'static str, number: i64) -> (usize, Index) {
    let mode = h.pick("slice", Kind::Layout, mode, &[3 - mode]);
    (mode, h.moved("slice", name, &number.into()))
}

fn cut(of: &Tensor, (mode, at): (usize, Index)) -> Tensor {
    match mode {
        1 => of.slice((.., at, ..)),
        _ => of.slice((.., .., at)),
    }
}

fn cut_fragment(of: &Fragment, (mode, at): (usize, Index)) -> Fragment {
    match mode {
        1 => of.slice((.., at, ..)),
        _ => of.slice((.., .., at)),
    }
}

/// Slice by slice into registers, and out of them.
fn slices(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut s = Scene::new(h, r, &[Ty::F16, Ty::F32, Ty::F64, Ty::S32])?;
    let held = match r.below(2) {
        0 => registers(h, &mut s.k, s.ty, &s.from),
        _ => {
            let form = h.layout(
                "fragment",
                Kind::Layout,
                s.k.fragment_like(&s.from).layout(),
            );
            s.k.fragment(s.ty, form.to_static())
        }
    };
    let mut modes = [[2; 4]; 2];
    for j in 0..PARTS as usize {
        let from = cut(&s.from, slice_of(h, 2, FROM[j], j as i64));
        let into = slice_of(h, 2, INTO[j], j as i64);
        modes[0][j] = into.0;
        s.k.copy_in_bounds(&s.load, &from, &cut_fragment(&held, into));
    }
    for j in 0..PARTS as usize {
        let out = slice_of(h, 2, OUT[j], j as i64);
        modes[1][j] = out.0;
        let to = cut(&s.to, slice_of(h, 2, TO[j], j as i64));
        s.k.copy_in_bounds(&s.store, &cut_fragment(&held, out), &to);
    }
    let mut registers = Registers::of(&held, s.slice());
    for j in 0..4 {
        let [from, into] = [FROM, INTO].map(|names| j as i64 + h.shift(names[j]));
        registers.load(from, (modes[0][j], into));
    }
    let mut moves = Vec::new();
    for j in 0..4 {
        let [out, to] = [OUT, TO].map(|names| j as i64 + h.shift(names[j]));
        moves.extend(registers.store((modes[1][j], out), to));
    }
    s.program(moves, 1.0)
}

/// A slice in each turn of a loop, through registers for one or for two.
fn turns(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut s = Scene::new(h, r, &[Ty::F16, Ty::F32, Ty::S32])?;
    let (ty, vector, slots) = (s.ty, s.vector, r.range(1, 2));
    let one = format!("(_{vector},_4,_{slots}):(_1,_{vector},_{})", 4 * vector);
    let held = h.layout("fragment", Kind::Layout, &layout(&one));
    let held = s.k.fragment(ty, held.to_static());
    let (from, to, load, store) = (
        s.from.clone(),
        s.to.clone(),
        s.load.clone(),
        s.store.clone(),
    );
    s.k.for_(0, PARTS / slots, 1, |k, turn| {
        for j in 0..slots as usize {
            let number = turn * slots + j as i64;
            let from = from.at(2, h.moved("at", FROM[j], &number));
            let into = cut_fragment(&held, slice_of(h, 2, INTO[j], j as i64));
            k.copy_in_bounds(&load, &from, &into);
        }
        for j in 0..slots as usize {
            let number = turn * slots + j as i64;
            let out = cut_fragment(&held, slice_of(h, 2, OUT[j], j as i64));
            let to = to.at(2, h.moved("at", TO[j], &number));
            k.copy_in_bounds(&store, &out, &to);
        }
    });
    let mut registers = Registers::of(&held, s.slice());
    let mut moves = Vec::new();
    for turn in 0..PARTS / slots {
        for j in 0..slots as usize {
            let from = turn * slots + j as i64 + h.shift(FROM[j]);
            registers.load(from, (2, j as i64 + h.shift(INTO[j])));
        }
        for j in 0..slots as usize {
            let to = turn * slots + j as i64 + h.shift(TO[j]);
            moves.extend(registers.store((2, j as i64 + h.shift(OUT[j])), to));
        }
    }
    s.program(moves, 1.0)
}

/// Vectors of a tensor in the order of the values, part by part.
fn by_part(h: &mut Hook, of: &Tensor, slice: i64) -> Tensor {
    let parts = format!("(_{slice},_{PARTS}):(_1,_{slice})");
    of.compose(
        h.layout("compose", Kind::Layout, &layout(&parts))
            .to_static(),
    )
}

/// All at once into registers, and by runs of values out of them.
fn values(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut s = Scene::new(h, r, &[Ty::F16, Ty::F32, Ty::F64, Ty::S32])?;
    let held = registers(h, &mut s.k, s.ty, &s.from);
    s.k.copy_in_bounds(&s.load, &s.from, &held);
    let slice = s.slice();
    let to = by_part(h, &s.to, slice);
    let mut all = Vec::new();
    for j in 0..PARTS as usize {
        let first = h.moved("values", OUT[j], &(slice * j as i64).into());
        let first = first.as_constant().unwrap_or(0);
        let count = h.count("values", slice);
        let number = h.moved("at", TO[j], &(j as i64).into());
        s.k.copy_in_bounds(&s.store, &held.values(first, count), &to.at(1, &number));
        let to = number.as_constant().unwrap_or(0) * slice;
        all.extend((0..slice).map(|i| [first + i, to + i]));
    }
    s.program(all, 1.0)
}

/// Twice each number, by gathered registers.
fn gathered(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let mut s = Scene::new(h, r, &[Ty::F32, Ty::F64, Ty::S32])?;
    let held = registers(h, &mut s.k, s.ty, &s.from);
    s.k.copy_in_bounds(&s.load, &s.from, &held);
    let slice = s.slice();
    let to = by_part(h, &s.to, slice);
    let form = h.layout("with_layout", Kind::Layout, held.layout());
    let is_own = form == *held.layout();
    let held = if is_own {
        held
    } else {
        held.with_layout(form.to_static())
    };
    // The registers lie in the order of the elements.
    let register = |i| if is_own { i } else { form.at(i).unwrap_or(0) };
    let mut all = Vec::new();
    for j in 0..PARTS as usize {
        let first = h.moved("gathered", OUT[j], &(slice * j as i64).into());
        let first = first.as_constant().unwrap_or(0);
        let part = held.gathered(first, h.count("gathered", slice));
        let sum = s.k.fragment(s.ty, part.layout());
        s.k.assign(&sum, &part + &part);
        let number = h.moved("at", TO[j], &(j as i64).into());
        s.k.copy_in_bounds(&s.store, &sum, &to.at(1, &number));
        let to = number.as_constant().unwrap_or(0) * slice;
        all.extend((0..slice).map(|i| [register(first + i), to + i]));
    }
    s.program(all, 2.0)
}

const STEPS: [i64; 3] = [32, 32, 32];

/// A product whose operands come from shared memory step by step along K, and whose sums leave by rows of atoms.
fn steps(h: &mut Hook, r: &mut Random) -> Result<Program, Error> {
    let [bm, bn, bk] = STEPS;
    let ty = r.one(&[Ty::F16, Ty::Bf16]);
    let (m, n, kk) = (r.range(20, 60), r.range(20, 60), r.range(20, 32));
    let mut k = builder(h, "steps", Arch::Sm80, 32);
    let a = parameter(h, &mut k, "a", ty, "(100,96):(96,_1)");
    let b = parameter(h, &mut k, "b", ty, "(100,96):(96,_1)");
    let c = parameter(h, &mut k, "c", Ty::F32, "(100,96):(96,_1)");
    let rows = format!("({bm},{bk}):({bk},1)");
    let (sa, sb) = (
        k.shared_tensor(ty, layout(&rows)),
        k.shared_tensor(ty, layout(&rows)),
    );
    let load = "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint128_t>";
    let load = tiled(load, 16, ["(8,4):(4,1)", "(1,8):(0,1)"])?;
    let atom = match ty {
        Ty::F16 => "SM80_16x8x16_F32F16F16F32_TN",
        _ => "SM80_16x8x16_F32BF16BF16F32_TN",
    };
    let mma = TiledMma::new(colex_atom::mma(atom)?, "(1,1,1):(0,0,0)", "(16,16,16)")?;
    let matrices = || colex_atom::copy("SM75_U32x4_LDSM_N");
    let read_a = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::A)?;
    let read_b = TiledCopy::for_operand(matrices()?, 16, &mma, Operand::B)?;
    let tid = k.thread();
    let at = [k.block_index(0), k.block_index(1)];
    for (of, to, number) in [(&a, &sa, &at[0]), (&b, &sb, &at[1])] {
        let tile = of.local_tile([bm, bk], &[number.clone(), 0.into()]);
        let (from, to) = (
            load.at(&tid).partition_src(&tile),
            load.at(&tid).partition_dst(to),
        );
        k.copy_in_bounds(&load, &from, &to);
    }
    k.cp_async_commit();
    k.cp_async_wait(0);
    k.sync();
    let (get_a, get_b) = (h.place("partition", &tid), h.place("partition", &tid));
    let from_a = read_a.at(&get_a).partition_src(&sa);
    let from_b = read_b.at(&get_b).partition_src(&sb);
    let ra = k.fragment_of(&mma, Operand::A, h.tile("fragment_of", [bm, bk]));
    let rb = k.fragment_of(&mma, Operand::B, h.tile("fragment_of", [bn, bk]));
    let (into_a, into_b) = (ra.retile(&read_a), rb.retile(&read_b));
    let sums = k.accumulators(&mma, [bm, bn]);
    let (mut slots, mut products) = ([[None; 2]; 2], Vec::new());
    for step in 0..2usize {
        let number = step as i64;
        let fetched = [
            (&read_a, &from_a, &into_a, [FROM[step], INTO[step]]),
            (&read_b, &from_b, &into_b, [FROM[step + 2], INTO[step + 2]]),
        ];
        for (side, (read, from, into, names)) in fetched.into_iter().enumerate() {
            let source = slice_of(h, 2, names[0], number);
            let target = slice_of(h, 2, names[1], number);
            let other = if side == 0 { &from_b } else { &from_a };
            let from = h.pick("copy", Kind::Space, from, &[other]);
            k.copy(
                read,
                &cut(from, source.clone()),
                &cut_fragment(into, target.clone()),
            );
            let [source, target] = [source, target].map(|(_, at)| at.as_constant().unwrap_or(0));
            if let Some(slot) = slots[side].get_mut(target as usize) {
                *slot = Some(source);
            }
        }
        let own = [OUT[step], OUT[step + 2]]
            .map(|name| h.moved("slice of an operand", name, &number.into()));
        let parts = [(&ra, &own[0]), (&rb, &own[1])].map(|(of, at)| of.slice((.., .., at)));
        k.mma(&mma, &sums, &parts[0], &parts[1], &sums);
        let number = |side: usize| {
            let slot = own[side]
                .as_constant()
                .and_then(|at| slots[side].get(at as usize).copied());
            slot.flatten().unwrap_or(0)
        };
        products.push([number(0), number(1)]);
    }
    let store = colex_atom::copy("UniversalCopy<uint32_t>")?;
    let store = TiledCopy::for_operand(store, 32, &mma, Operand::C)?;
    let to = c.local_tile([bm, bn], &at);
    let to = store.at(&h.place("partition", &tid)).partition_dst(&to);
    let sums = sums.retile(&store);
    let mut ends = Vec::new();
    for row in 0..2usize {
        let out = slice_of(h, 1, TO[row], row as i64);
        let into = slice_of(h, 1, TO[row + 2], row as i64);
        ends.push([&out, &into].map(|(_, at)| at.as_constant().unwrap_or(0)));
        k.copy_in_bounds(&store, &cut_fragment(&sums, out), &cut(&to, into));
    }
    Ok(Program {
        built: k.finish()?,
        arch: Arch::Sm80,
        given: vec![
            tensor(ty, &format!("({m},{kk}):(32,_1)"), 1),
            tensor(ty, &format!("({n},{kk}):(40,_1)"), 2),
            target(Ty::F32, &format!("({m},{n}):({},_1)", n + 2)),
        ],
        cluster: 1,
        grid: |given| grid_of(&given[2], [STEPS[0], STEPS[1]]),
        expected: Box::new(move |given| {
            let mut all = given.to_vec();
            let [a, b] = [0, 1].map(|i| memory(&given[i]).clone());
            let Given::Tensor(c) = &mut all[2] else {
                unreachable!("a tensor")
            };
            let sum = |i: i64, j: i64| {
                let along = products
                    .iter()
                    .flat_map(|[x, y]| (0..16).map(move |k| [16 * x + k, 16 * y + k]));
                along.fold(0.0, |sum, [x, y]| sum + a.get(&[i, x]) * b.get(&[j, y]))
            };
            for [from, to] in &ends {
                for i in 0..c.extent(0) + bm {
                    for j in 0..c.extent(1) {
                        // Rows of the first atom and of the second in turn.
                        if i / 16 % 2 == *to {
                            c.set(&[i, j], sum(i + 16 * (from - to), j));
                        }
                    }
                }
            }
            all
        }),
    })
}
