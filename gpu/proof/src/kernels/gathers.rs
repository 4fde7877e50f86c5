//! Gathers, scatters and atomic operations on a device, against the host.

use colex_atom::{Arch, FloatFormat, Rounding, Ty};
use colex_gpu::Device;
use colex_ir::AtomicOp;
use colex_ir::launch::{Extents, Launch};
use colex_layout::{C, Layout};
use colex_tensor::{
    Arg, AtThread, Builder, Elements, Error, Expr, Fragment, Index, Outside, RawMemory, Tensor,
    TensorKernel,
};
use colex_tiled::TiledCopy;

use super::fragments::{TYPES, element, is_there, upload, words};
use crate::sweep::Random;

/// A tensor in memory, and its elements as bits.
#[derive(Clone, Debug)]
struct Prepared {
    ty: Ty,
    layout: Layout,
    elements: Vec<u64>,
}

impl Prepared {
    fn new(ty: Ty, layout: &Layout, mut element: impl FnMut(usize) -> u64) -> Result<Self, String> {
        let count = layout.cosize().map_err(|e| e.to_string())? as usize;
        Ok(Prepared {
            ty,
            layout: layout.clone(),
            elements: (0..count).map(&mut element).collect(),
        })
    }
}

/// Runs a kernel on that many blocks, and returns the elements of its tensors afterwards.
fn run(
    device: &Device,
    built: &TensorKernel,
    given: &[Prepared],
    blocks: u32,
) -> Result<Vec<Vec<u64>>, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let buffers = given.iter().map(|g| upload(device, g.ty, &g.elements));
    let buffers = buffers.collect::<Result<Vec<_>, String>>()?;
    let arguments = given.iter().zip(&buffers).map(|(g, buffer)| {
        let bytes = g.elements.len() as u64 * u64::from(g.ty.bits() / 8);
        let address = buffer.address();
        Arg::raw(
            RawMemory {
                address,
                bytes,
                ty: g.ty,
            },
            &g.layout,
        )
    });
    let arguments = built
        .arguments(&arguments.collect::<Vec<_>>())
        .map_err(|e| text(&e))?;
    let block = built.kernel.block.unwrap_or([1; 3]);
    let launch = Launch::new(blocks, block).dynamic_shared(built.dynamic_shared());
    let function = device.load(&built.kernel).map_err(|e| text(&e))?;
    device
        .launch(&function, launch, &arguments)
        .map_err(|e| text(&e))?;
    let found = given.iter().zip(&buffers).map(|(g, buffer)| {
        let bytes = buffer.download().map_err(|e| text(&e))?;
        Ok(words(g.ty, &bytes))
    });
    found.collect()
}

/// The blocks of 64 threads that kernels are built for.
fn block(r: &mut Random) -> Extents {
    match r.below(4) {
        0 => (16, 4).into(),
        1 => (4, 2, 8).into(),
        2 => (1, 64).into(),
        _ => 64.into(),
    }
}

const THREADS: i64 = 64;

/// `0, 1, ..` in each thread.
fn numbers(k: &mut Builder, n: i64) -> Fragment {
    let all = k.fragment(
        Ty::S32,
        Layout::column_major(n).expect("a mode").to_static(),
    );
    for i in 0..n {
        k.assign(&all.values(i, 1), i);
    }
    all
}

/// A layout of those extents with random strides, compact or padded, static or dynamic.
fn strided(r: &mut Random, extents: &[i64], pad: i64) -> Result<Layout, String> {
    let rows = r.below(2) == 0;
    let mut strides = vec![1; extents.len()];
    let mut order: Vec<usize> = (0..extents.len()).collect();
    if rows {
        order.reverse();
    }
    let mut next = 1;
    for mode in order {
        strides[mode] = next;
        next = (next * extents[mode] + pad - 1) / pad * pad;
    }
    let layout = Layout::new(extents, &strides[..]).map_err(|e| e.to_string())?;
    let fits = r.below(2) == 0;
    Ok(if fits { layout.to_static() } else { layout })
}

/// One kernel that gathers and scatters.
#[derive(Clone, Debug)]
struct GatherCase {
    block: Extents,
    /// The types of the elements and of the indices.
    ty: Ty,
    index: Ty,
    /// The elements of a thread.
    n: i64,
    table: Layout,
    /// The tile that coordinates are in, and its number along each mode.
    tile: Option<(Vec<i64>, Vec<i64>)>,
    outside: Outside,
    /// Whether only the elements with an even number are accessed.
    even: bool,
    /// Whether the table goes through shared memory.
    shared: bool,
    /// Elements at a time along the last mode, from this coordinate on.
    vector: Option<(i64, i64)>,
}

impl GatherCase {
    fn draw(r: &mut Random) -> Result<Self, String> {
        let ty = r.one(&TYPES);
        let integers = {
            use Ty::*;
            [S64, U64, S32, U32, S16, U16, S8, U8]
        };
        let rank = 1 + r.below(3);
        let is_vector = rank == 2 && ty.bits() >= 16 && r.below(3) == 0;
        let mut extents: Vec<i64> = (0..rank).map(|_| 1 + r.below(12) as i64).collect();
        let (table, vector) = if is_vector {
            let count = if ty.bits() == 64 { 2 } else { r.one(&[2, 4]) };
            let chunks = 1 + r.below(4) as i64;
            extents[1] = count * chunks;
            let pitch = extents[1] + count * r.below(2) as i64;
            let layout = Layout::new((extents[0], extents[1]), (pitch, C::<1>));
            let first = count * r.below(chunks as usize) as i64;
            (layout.map_err(|e| e.to_string())?, Some((count, first)))
        } else {
            let pad = r.one(&[1, 1, 8]);
            (strided(r, &extents, pad)?, None)
        };
        let tile = (!is_vector && r.below(3) == 0).then(|| {
            let sizes: Vec<i64> = extents
                .iter()
                .map(|n| 1 + r.below(*n as usize + 2) as i64)
                .collect();
            let at = extents.iter().zip(&sizes);
            let at = at.map(|(n, size)| r.below((n / size) as usize + 1) as i64);
            (sizes.clone(), at.collect())
        });
        let outside = if is_vector {
            Outside::Skip
        } else {
            r.one(&[Outside::Skip, Outside::Skip, Outside::Clamp])
        };
        Ok(GatherCase {
            block: block(r),
            ty,
            index: r.one(&integers),
            n: r.one(&[1, 2, 3, 4]),
            shared: tile.is_none() && table.is_static() && r.below(2) == 0,
            table,
            tile,
            outside,
            even: r.below(3) == 0,
            vector,
        })
    }

    fn rank(&self) -> usize {
        self.table.rank()
    }

    /// How many coordinates are data.
    fn loaded(&self) -> usize {
        self.rank() - usize::from(self.vector.is_some())
    }

    fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let mut k = Builder::new("gather", arch, self.block);
        let n = self.n;
        let each = Layout::new((THREADS, n), (n, 1))?.to_static();
        let thread = k.thread();
        let own = numbers(&mut k, n);
        let ids: Vec<Tensor> = (0..self.loaded())
            .map(|m| k.tensor(&format!("ids{m}"), self.index, &each))
            .collect();
        let table = k.tensor("table", self.ty, &self.table);
        let count = self.vector.map_or(1, |(count, _)| count);
        let wide = Layout::new((THREADS, n * count), (n * count, 1))?.to_static();
        let out = k.tensor("out", self.ty, &wide);
        let permuted = k.tensor("permuted", Ty::S32, &each);
        let to = k.tensor("to", self.ty, Layout::new(THREADS * n + 7, 1)?);
        let mut at: Vec<Expr> = Vec::new();
        for ids in &ids {
            at.push(k.gather(&ids.elements((&thread, &own))).into());
        }
        if let Some((_, first)) = self.vector {
            at.push(Index::constant(first).into());
        }
        let source = match &self.tile {
            Some((sizes, numbers)) => {
                let numbers: Vec<Index> = numbers.iter().map(|n| Index::constant(*n)).collect();
                table.local_tile(&sizes[..], numbers)
            }
            None if self.shared => self.through_shared(&mut k, &table),
            None => table,
        };
        let elements = source.elements(at).outside(self.outside);
        let elements = match self.vector {
            Some((count, _)) => elements.vectors(1, count),
            None => elements,
        };
        let elements = self.kept(elements, &own);
        let found = k.gather(&elements);
        // Each value by an index of its own, and all of them by data.
        if self.vector.is_some() {
            let many = numbers(&mut k, n * count);
            k.scatter(&found, &out.elements((&thread, &many)));
        } else {
            k.scatter(&found, &out.elements((&thread, &own)));
            let place = k.gather(&permuted.elements((&thread, &own)));
            let to = self.kept(to.elements(&place), &own);
            k.scatter(&found, &to);
        }
        k.finish()
    }

    fn kept(&self, elements: Elements, own: &Fragment) -> Elements {
        if self.even {
            elements.only((Expr::from(own) & 1).equals(0))
        } else {
            elements
        }
    }

    /// The same elements in shared memory.
    fn through_shared(&self, k: &mut Builder, table: &Tensor) -> Tensor {
        let shared = k.shared_tensor(self.ty, &self.table);
        let size = self.table.size();
        for first in (0..size).step_by(THREADS as usize) {
            let mut rest = k.thread() + first;
            let mut at: Vec<Expr> = Vec::new();
            for (m, mode) in self.table.modes().enumerate() {
                let last = m + 1 == self.rank();
                let digit = if last {
                    rest.clone()
                } else {
                    &rest % mode.size()
                };
                rest = rest / mode.size();
                at.push(digit.into());
            }
            let held = k.gather(&table.elements(at.clone()));
            k.scatter(&held, &shared.elements(at));
        }
        k.sync();
        shared
    }

    /// Where an access of these coordinates goes, on the host.
    fn place(&self, at: &[i64]) -> Option<i64> {
        let mut offset = 0;
        for (m, x) in at.iter().enumerate() {
            let mode = self.table.mode(m)?;
            let (size, first) = match &self.tile {
                Some((sizes, numbers)) => (sizes[m], sizes[m] * numbers[m]),
                None => (mode.size(), 0),
            };
            let x = match self.outside {
                Outside::Clamp => (*x).clamp(0, size - 1),
                _ => *x,
            };
            if !(0..size).contains(&x) || first + x >= mode.size() {
                return None;
            }
            offset += (first + x) * mode.leaves()[0].stride.coefficient().value();
        }
        Some(offset)
    }

    fn check(&self, device: &Device, r: &mut Random) -> Result<usize, String> {
        let text = |e: &dyn std::fmt::Display| format!("{e}: {self:?}");
        let built = self.build(device.arch()).map_err(|e| text(&e))?;
        let n = self.n;
        let count = self.vector.map_or(1, |(count, _)| count);
        let layout = |n: i64| {
            let layout = Layout::new((THREADS, n), (n, 1)).map_err(|e| text(&e))?;
            Ok::<_, String>(layout.to_static())
        };
        let mask = u64::MAX >> (64 - self.index.bits());
        let mut given = Vec::new();
        for m in 0..self.loaded() {
            let extent = self.table.mode(m).map_or(1, |mode| mode.size());
            let reach = extent as usize + 6;
            given.push(Prepared::new(self.index, &layout(n)?, |_| {
                match r.below(12) {
                    0 => r.bits() & mask,
                    _ => (r.below(reach) as i64 - 3) as u64 & mask,
                }
            })?);
        }
        given.push(Prepared::new(self.ty, &self.table, |_| {
            element(r, self.ty)
        })?);
        given.push(Prepared::new(self.ty, &layout(n * count)?, |_| 1)?);
        let total = (THREADS * n) as usize;
        let mut places: Vec<i64> = (0..total as i64 + 7).collect();
        for i in (1..places.len()).rev() {
            places.swap(i, r.below(i + 1));
        }
        for place in places.iter_mut().take(total) {
            if r.below(5) == 0 {
                *place = r.one(&[
                    -1,
                    i64::from(i32::MIN),
                    total as i64 + 7,
                    i64::from(i32::MAX),
                ]);
            }
        }
        given.push(Prepared::new(Ty::S32, &layout(n)?, |i| {
            places[i] as u64 & 0xffff_ffff
        })?);
        let to = Layout::new(THREADS * n + 7, 1).map_err(|e| text(&e))?;
        given.push(Prepared::new(self.ty, &to, |_| 2)?);
        let found = run(device, &built, &given, 1).map_err(|e| text(&e))?;
        let loaded = self.loaded();
        let table = &given[loaded].elements;
        let mut scattered = vec![2; total + 7];
        for i in 0..total {
            let of = |ids: &Prepared| signed(self.index, ids.elements[i]);
            let mut at: Vec<i64> = given[..loaded].iter().map(of).collect();
            at.extend(self.vector.map(|(_, first)| first));
            let is_kept = !self.even || (i as i64 % n) % 2 == 0;
            let place = self.place(&at).filter(|_| is_kept);
            for v in 0..count as usize {
                let expected = place.map_or(0, |place| table[place as usize + v]);
                let own = found[loaded + 1][i * count as usize + v];
                if own != expected {
                    return Err(text(&format!(
                        "element {i} at {at:?} is {own:#x}, and {expected:#x} on the host"
                    )));
                }
                if let Some(cell) = usize::try_from(places[i])
                    .ok()
                    .and_then(|place| scattered.get_mut(place))
                    .filter(|_| is_kept && self.vector.is_none())
                {
                    *cell = expected;
                }
            }
        }
        if found[loaded + 3] != scattered {
            return Err(text(&"the scattered elements differ"));
        }
        Ok(2 * total)
    }
}

/// An integer of a type.
pub(crate) fn signed(ty: Ty, bits: u64) -> i64 {
    let is_signed = matches!(ty, Ty::S64 | Ty::S32 | Ty::S16 | Ty::S8);
    let above = 64 - ty.bits();
    if is_signed {
        (bits << above) as i64 >> above
    } else {
        i64::try_from(bits).unwrap_or(i64::MAX)
    }
}

/// One kernel of atomic operations.
#[derive(Clone, Debug)]
struct AtomicCase {
    block: Extents,
    op: AtomicOp,
    ty: Ty,
    n: i64,
    bins: i64,
    shared: bool,
    /// Whether the old values are used.
    keeps: bool,
    /// Whether 16-bit floats go two by two.
    pairs: bool,
}

/// Returns every atomic operation of every type that PTX has it for.
pub fn atomics(arch: Arch) -> Vec<(AtomicOp, Ty)> {
    let integers = [Ty::S32, Ty::U32, Ty::S64, Ty::U64];
    let all = |op: AtomicOp, types: &[Ty]| types.iter().map(|ty| (op, *ty)).collect::<Vec<_>>();
    let mut list = all(AtomicOp::Add, &integers);
    list.extend(all(AtomicOp::Add, &[Ty::F32, Ty::F64, Ty::F16]));
    if arch >= Arch::Sm90 {
        list.push((AtomicOp::Add, Ty::Bf16));
    }
    for op in [
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
        AtomicOp::Exch,
    ] {
        list.extend(all(op, &integers));
    }
    list.extend(all(AtomicOp::Exch, &[Ty::F32, Ty::F64]));
    list.extend([AtomicOp::Inc, AtomicOp::Dec].map(|op| (op, Ty::U32)));
    list
}

impl AtomicCase {
    fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let mut k = Builder::new("atomics", arch, self.block);
        let (n, count) = (self.n, self.count());
        let each = Layout::new((THREADS, n), (n, 1))?.to_static();
        let wide = Layout::new((THREADS, n * count), (n * count, 1))?.to_static();
        let thread = k.thread();
        let (own, many) = (numbers(&mut k, n), numbers(&mut k, n * count));
        let ids = k.tensor("ids", Ty::S32, &each);
        let values = k.tensor("values", self.ty, &wide);
        let table = Layout::new((self.bins, count), (count, 1))?;
        let global = k.tensor("bins", self.ty, table.to_static());
        let out = k.tensor("out", self.ty, &wide);
        let id = k.gather(&ids.elements((&thread, &own)));
        let x = k.gather(&values.elements((&thread, &many)));
        let bins = if self.shared {
            let bins = k.shared_tensor(self.ty, table.to_static());
            for v in 0..count {
                let first = k.gather(&global.elements((&thread, v)));
                k.scatter(&first, &bins.elements((&thread, v)));
            }
            k.sync();
            bins
        } else {
            global.clone()
        };
        let at = bins.elements((&id, 0)).vectors(1, count);
        if self.keeps {
            let old = if self.op == AtomicOp::Cas {
                k.compare_and_swap(&at, 0, &x)
            } else {
                k.atomic(self.op, &at, &x)
            };
            k.scatter(&old, &out.elements((&thread, &many)));
        } else {
            k.atomic_update(self.op, &at, &x);
        }
        if self.shared {
            k.sync();
            for v in 0..count {
                let last = k.gather(&bins.elements((&thread, v)));
                k.scatter(&last, &global.elements((&thread, v)));
            }
        }
        k.finish()
    }

    fn count(&self) -> i64 {
        if self.pairs { 2 } else { 1 }
    }

    fn check(&self, device: &Device, r: &mut Random) -> Result<usize, String> {
        let text = |e: &dyn std::fmt::Display| format!("{e}: {self:?}");
        let built = self.build(device.arch()).map_err(|e| text(&e))?;
        let (n, count) = (self.n, self.count());
        let layout = |n: i64, m: i64| {
            let layout = Layout::new((n, m), (m, 1)).map_err(|e| text(&e))?;
            Ok::<_, String>(layout.to_static())
        };
        let ids = Prepared::new(Ty::S32, &layout(THREADS, n)?, |_| {
            (r.below(self.bins as usize + 4) as i64 - 2) as u64 & 0xffff_ffff
        })?;
        // Sums of these are exact in every float type, in every order.
        let mut number = |_| {
            let x = 1 + r.below(3) as i64;
            match FloatFormat::of(self.ty) {
                Some(of) => of.encode(x as f64, Rounding::Nearest),
                None if matches!(self.op, AtomicOp::Add | AtomicOp::Cas) => x as u64,
                None => element(r, self.ty),
            }
        };
        let values = Prepared::new(self.ty, &layout(THREADS, n * count)?, &mut number)?;
        let is_free = self.op == AtomicOp::Cas;
        let bins = Prepared::new(self.ty, &layout(self.bins, count)?, |i| {
            if is_free { 0 } else { number(i) }
        })?;
        let out = Prepared::new(self.ty, &layout(THREADS, n * count)?, |_| 0)?;
        let given = [ids, values, bins, out];
        let found = run(device, &built, &given, 1).map_err(|e| text(&e))?;
        for bin in 0..self.bins as usize {
            for v in 0..count as usize {
                let place = bin * count as usize + v;
                let members = (0..(THREADS * n) as usize)
                    .filter(|i| signed(Ty::S32, given[0].elements[*i]) == bin as i64)
                    .map(|i| i * count as usize + v);
                let members: Vec<usize> = members.collect();
                let of = |all: &[u64]| members.iter().map(|i| all[*i]).collect::<Vec<u64>>();
                let (first, last) = (given[2].elements[place], found[2][place]);
                let (values, old) = (of(&given[1].elements), of(&found[3]));
                self.judge((first, last), &values, &old)
                    .map_err(|e| text(&format!("bin {bin}: {e}")))?;
            }
        }
        Ok((THREADS * n * count) as usize)
    }

    /// Compares one element with the operations on it, in any order.
    fn judge(&self, (first, last): (u64, u64), values: &[u64], old: &[u64]) -> Result<(), String> {
        let differs = |what: &str| {
            Err(format!(
                "{what}: {first:#x}, then {values:x?}, is {last:#x}, and was {old:x?}"
            ))
        };
        let sorted = |mut all: Vec<u64>| {
            all.sort_unstable();
            all
        };
        let mask = u64::MAX >> (64 - self.ty.bits());
        let (op, ty) = (self.op, self.ty);
        match op {
            // Every value but the last is some other operation's old one.
            AtomicOp::Exch if self.keeps => {
                let all = sorted([values, &[first]].concat());
                if all != sorted([old, &[last]].concat()) {
                    return differs("exch");
                }
                return Ok(());
            }
            AtomicOp::Cas => {
                let winners = values.iter().zip(old).filter(|(_, old)| **old == 0);
                let winners: Vec<u64> = winners.map(|(value, _)| *value).collect();
                let expected = if values.is_empty() {
                    vec![]
                } else {
                    vec![last]
                };
                let losers = old.iter().filter(|old| **old != 0);
                if winners != expected || losers.clone().any(|old| *old != last) {
                    return differs("cas");
                }
                return Ok(());
            }
            // The order decides.
            AtomicOp::Inc | AtomicOp::Dec | AtomicOp::Exch => return Ok(()),
            _ => {}
        }
        let apply = |a: u64, b: u64| -> u64 {
            let (x, y) = (signed(ty, a), signed(ty, b));
            let less = match ty {
                Ty::U64 => a < b,
                _ => x < y,
            };
            match (op, FloatFormat::of(ty)) {
                (AtomicOp::Add, Some(of)) => {
                    of.encode(of.decode(a) + of.decode(b), Rounding::Nearest)
                }
                (AtomicOp::Add, None) => a.wrapping_add(b) & mask,
                (AtomicOp::Min, _) => {
                    if less {
                        a
                    } else {
                        b
                    }
                }
                (AtomicOp::Max, _) => {
                    if less {
                        b
                    } else {
                        a
                    }
                }
                (AtomicOp::And, _) => a & b,
                (AtomicOp::Or, _) => a | b,
                _ => a ^ b,
            }
        };
        if values.iter().fold(first, |all, x| apply(all, *x)) != last {
            return differs(op.ptx());
        }
        if !self.keeps {
            return Ok(());
        }
        // Of sums of positive numbers each old value says how far the operations had come.
        if op == AtomicOp::Add {
            let number = |x: u64| FloatFormat::of(ty).map_or(x as f64, |of| of.decode(x));
            let mut turns: Vec<(f64, u64)> = old
                .iter()
                .map(|x| number(*x))
                .zip(values.to_vec())
                .collect();
            turns.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut now = first;
            for (old, value) in turns {
                if number(now) != old {
                    return differs("old values");
                }
                now = apply(now, value);
            }
        }
        Ok(())
    }
}

/// Runs gathers, scatters and atomic operations of every type on a device, with random shapes, tiles, blocks, indices and
/// treatments of what lies outside, and compares with the host. Returns the number of elements that were compared.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn check_all(device: &Device, rounds: usize) -> Result<usize, String> {
    let mut r = Random::new(43);
    let mut count = 0;
    for round in 0..rounds {
        let case = GatherCase::draw(&mut r)?;
        let done = case.check(device, &mut r);
        count += done.map_err(|why| format!("gather {round}: {why}"))?;
    }
    let mut all = atomics(device.arch());
    all.extend([Ty::S32, Ty::U64, Ty::S64, Ty::U16].map(|ty| (AtomicOp::Cas, ty)));
    for (i, (op, ty)) in all.into_iter().enumerate() {
        let half = matches!(ty, Ty::F16 | Ty::Bf16);
        for pairs in [false, true] {
            let case = AtomicCase {
                block: block(&mut r),
                op,
                ty,
                n: r.one(&[1, 2, 3]),
                bins: 1 + r.below(20) as i64,
                shared: r.below(2) == 0,
                keeps: (i + usize::from(pairs)) % 2 == 0
                    || matches!(op, AtomicOp::Exch | AtomicOp::Cas),
                pairs: pairs && half,
            };
            count += case.check(device, &mut r)?;
        }
    }
    Ok(count)
}

/// Copies runs of every length by vectors with a rest, in several types and widths, and compares with what was copied. Returns
/// the number of elements.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn vectors(device: &Device) -> Result<usize, String> {
    let mut r = Random::new(47);
    let mut count = 0;
    for (ty, width) in [
        (Ty::U8, 16),
        (Ty::U8, 4),
        (Ty::F16, 8),
        (Ty::S32, 4),
        (Ty::F64, 2),
    ] {
        let built = vector_kernel(device.arch(), ty, width).map_err(|e| e.to_string())?;
        for n in [1, 2, 3, 7, 31, 32, 33, 100, 127, 129_i64] {
            let layout = Layout::new(n, C::<1>).map_err(|e| e.to_string())?;
            let mut element = || Prepared::new(ty, &layout, |_| element(&mut r, ty));
            let given = [element()?, element()?];
            let found = run(
                device,
                &built,
                &given,
                (n as u64).div_ceil(32 * width as u64) as u32,
            )?;
            if found[1] != given[0].elements {
                return Err(format!("{n} of {ty} in vectors of {width}: {found:x?}"));
            }
            count += n as usize;
        }
    }
    Ok(count)
}

/// Builds a copy of a run in vectors, with its rest.
fn vector_kernel(arch: Arch, ty: Ty, width: i64) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("vectors", arch, 32);
    let [x, y] = ["x", "y"].map(|name| k.tensor(name, ty, "100:_1"));
    let (thread, block) = (k.thread(), k.block_index(0));
    let first = (k.within(block, 0..1 << 16) * 32 + thread) * width;
    k.for_vector(first, &x.extent(0), width, |k, run| {
        let held = k.gather(&run.of(&x, ()));
        k.scatter(&held, &run.of(&y, ()));
    });
    k.finish()
}

/// A tile of 64 threads, in memory or in shared memory, and the extents of its windows.
#[derive(Clone, Copy, Debug)]
struct WindowCase {
    ty: Ty,
    /// How many windows a thread has along each mode.
    own: [i64; 2],
    window: [i64; 2],
    shared: bool,
}

impl WindowCase {
    fn tile(&self) -> [i64; 2] {
        [0, 1].map(|mode| 8 * self.own[mode] + self.window[mode] - 1)
    }

    /// The elements of a thread's windows.
    fn count(&self) -> i64 {
        self.own.iter().chain(&self.window).product()
    }

    fn layouts(&self) -> Result<[Layout; 2], Error> {
        let ([m, n], count) = (self.tile(), self.count());
        Ok([
            Layout::new((m, n), (n, 1))?.to_static(),
            Layout::new((THREADS, count), (count, 1))?.to_static(),
        ])
    }

    /// Builds a kernel that stores the elements of every window.
    fn build(&self, arch: Arch) -> Result<TensorKernel, Error> {
        let mut k = Builder::new("windows", arch, THREADS as u32);
        let [tile, each] = self.layouts()?;
        let (x, y) = (k.tensor("x", self.ty, &tile), k.tensor("y", self.ty, &each));
        let thread = k.thread();
        let source = if self.shared {
            let shared = k.shared_tensor(self.ty, &tile);
            for first in (0..tile.size()).step_by(THREADS as usize) {
                let at = &thread + first;
                let at = [&at / self.tile()[1], at % self.tile()[1]];
                let held = k.gather(&x.elements((&at[0], &at[1])));
                k.scatter(&held, &shared.elements((&at[0], &at[1])));
            }
            k.sync();
            shared
        } else {
            x
        };
        let bits = self.ty.bits();
        let atom = colex_atom::copy(&format!("UniversalCopy<uint{bits}_t>"))?;
        let copy = TiledCopy::new(atom, bits.into(), "(8,8):(8,1)", "(1,1):(0,0)")?;
        let windows = source.windows((self.window[0], self.window[1]));
        let mine = copy.at(&thread).partition_src(&windows); // (CPY, CPY_M, CPY_N, M, N)
        let held = k.fragment_like(&mine);
        k.copy_in_bounds(&copy, &mine, &held);
        let all = numbers(&mut k, self.count());
        let flat = held.with_layout(Layout::new(self.count(), 1)?.to_static());
        k.scatter(&flat, &y.elements((&thread, &all)));
        k.finish()
    }

    fn check(&self, device: &Device, r: &mut Random) -> Result<usize, String> {
        let text = |e: &dyn std::fmt::Display| format!("{e}: {self:?}");
        let built = self.build(device.arch()).map_err(|e| text(&e))?;
        let [tile, each] = self.layouts().map_err(|e| text(&e))?;
        let given = [
            Prepared::new(self.ty, &tile, |_| element(r, self.ty))?,
            Prepared::new(self.ty, &each, |_| 0)?,
        ];
        let found = run(device, &built, &given, 1).map_err(|e| text(&e))?;
        let ([i, j], [a, _]) = (self.own, self.window);
        for (place, found) in (0..).zip(&found[1]) {
            let (thread, e) = (place / self.count(), place % self.count());
            let row = thread / 8 + 8 * (e % i) + e / (i * j) % a;
            let column = thread % 8 + 8 * (e / i % j) + e / (i * j * a);
            let expected = given[0].elements[(row * self.tile()[1] + column) as usize];
            if *found != expected {
                return Err(text(&format!(
                    "element {e} of thread {thread} is {found:#x}, and {expected:#x} on the host"
                )));
            }
        }
        Ok(found[1].len())
    }
}

/// Loads windows of every type, of drawn extents, from memory and from shared memory, and compares with the host. Returns the
/// number of elements.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn windows(device: &Device) -> Result<usize, String> {
    let mut r = Random::new(79);
    let mut count = 0;
    let own = device.arch();
    for ty in TYPES.into_iter().filter(|ty| is_there(own, *ty)) {
        for shared in [false, true] {
            let case = WindowCase {
                ty,
                own: [0; 2].map(|_| r.one(&[1, 1, 2])),
                window: [0; 2].map(|_| r.one(&[1, 2, 3, 5])),
                shared,
            };
            count += case.check(device, &mut r)?;
        }
    }
    Ok(count)
}

/// Copies rows whose addresses are elements of arrays, each to another row, and compares with what was copied. Returns the
/// number of elements.
///
/// # Errors
///
/// Returns the first difference in words.
pub fn pointers(device: &Device) -> Result<usize, String> {
    const ROWS: usize = 3;
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut r = Random::new(53);
    let mut count = 0;
    let own = device.arch();
    for ty in TYPES.into_iter().filter(|ty| is_there(own, *ty)) {
        let n = 1 + r.below(2 * THREADS as usize);
        let built = pointer_kernel(own, ty, ROWS as i64, n as i64).map_err(|e| text(&e))?;
        let mut rows = Vec::new();
        for _ in 0..2 * ROWS {
            let elements: Vec<u64> = (0..n).map(|_| element(&mut r, ty)).collect();
            rows.push((upload(device, ty, &elements)?, elements));
        }
        let layout = Layout::new(ROWS as i64, 1).map_err(|e| text(&e))?;
        let array = |side: usize| {
            let address = |i: usize| rows[side * ROWS + i].0.address();
            Prepared::new(Ty::U64, &layout.to_static(), address)
        };
        run(device, &built, &[array(0)?, array(1)?], 1)?;
        for (i, (_, expected)) in rows.iter().take(ROWS).enumerate() {
            let to = &rows[2 * ROWS - 1 - i].0;
            let found = words(ty, &to.download().map_err(|e| text(&e))?);
            if found != *expected {
                return Err(format!(
                    "row {i} of {n} {ty}: {found:x?}, not {expected:x?}"
                ));
            }
            count += n;
        }
    }
    Ok(count)
}

/// Builds a copy of rows at the addresses of one array to those of another one, the last first.
fn pointer_kernel(arch: Arch, ty: Ty, rows: i64, n: i64) -> Result<TensorKernel, Error> {
    let mut k = Builder::new("pointers", arch, THREADS as u32);
    let array = Layout::new(rows, 1)?.to_static();
    let [from, to] = ["from", "to"].map(|name| k.tensor(name, Ty::U64, &array));
    let thread = k.thread();
    for row in 0..rows {
        let [from, to] = [(&from, row), (&to, rows - 1 - row)].map(|(array, row)| {
            let address = k.gather(&array.elements(row));
            k.tensor_stated_at(&address, ty, Layout::new(n, 1).expect("a mode"))
        });
        for first in (0..n).step_by(THREADS as usize) {
            let at = &thread + first;
            let held = k.gather(&from.elements(&at));
            k.scatter(&held, &to.elements(&at));
        }
    }
    k.finish()
}

/// Returns kernels of random cases, for the assembler.
///
/// # Errors
///
/// Returns why one is not built, in words.
pub fn kernels(arch: Arch, count: usize) -> Result<Vec<TensorKernel>, String> {
    let mut r = Random::new(71);
    let mut all = Vec::new();
    for _ in 0..count {
        let built = GatherCase::draw(&mut r)?.build(arch);
        all.push(built.map_err(|e| e.to_string())?);
    }
    for (op, ty) in atomics(arch) {
        for keeps in [true, false] {
            if keeps || op != AtomicOp::Exch {
                let case = AtomicCase {
                    block: block(&mut r),
                    op,
                    ty,
                    n: 2,
                    bins: 7,
                    shared: r.below(2) == 0,
                    keeps,
                    pairs: matches!(ty, Ty::F16 | Ty::Bf16) && keeps,
                };
                all.push(case.build(arch).map_err(|e| e.to_string())?);
            }
        }
    }
    let more = [
        vector_kernel(arch, Ty::U8, 16),
        vector_kernel(arch, Ty::F16, 8),
        pointer_kernel(arch, Ty::F32, 2, 100),
    ];
    for built in more {
        all.push(built.map_err(|e| e.to_string())?);
    }
    Ok(all)
}
