//! Maps, gathers, rotary embeddings and quantisation on a device, against the host bit for bit.

pub mod quantise;

use colex_atom::{Arch, Ty};
use colex_gpu::elementwise::{
    ElementwisePlan, Gather, Map, MapExpression, Pairing, Rotary, RowNumber,
};
use colex_gpu::kernels::GemmElement;
use colex_gpu::tensor::TensorKernel;
use colex_gpu::{Buffer, Device, Element, Error, View, ViewMut};
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};
use colex_tensor::Expr;
use half::{bf16, f16};

use crate::kernels::fragments::{TYPES, alike, element, formula, is_there};
use crate::sweep::Random;

macro_rules! memory {
    ($($name:ident($ty:ty) = $($of:path)|*;)*) => {
        /// AnyBuffer with elements of a type.
        #[derive(Clone)]
        enum AnyBuffer {
            $($name(Buffer<$ty>),)*
        }

        impl AnyBuffer {
            /// AnyBuffer with these elements, given as bits, or memory all of whose bits are set.
            fn new(device: &Device, ty: Ty, length: usize, bits: Option<&[u64]>) -> Result<AnyBuffer, Error> {
                match ty {
                    $($(| $of)* => {
                        let buffer = match bits {
                            Some(bits) => device.upload(&of_bits::<$ty>(bits))?,
                            None => device.poisoned::<$ty>(length)?,
                        };
                        Ok(AnyBuffer::$name(buffer))
                    })*
                    _ => unreachable!("a type of 8 to 64 bits"),
                }
            }

            /// The bits of all elements.
            fn bits(&self) -> Result<Vec<u64>, Error> {
                Ok(match self {
                    $(AnyBuffer::$name(buffer) => to_bits(&buffer.download()?),)*
                })
            }

            /// The memory from an element on.
            fn from(&self, first: usize) -> Result<AnyBuffer, Error> {
                Ok(match self {
                    $(AnyBuffer::$name(buffer) => AnyBuffer::$name(buffer.slice(first..)?),)*
                })
            }

            fn input<'a>(&'a self, map: Map<'a>, name: &str, layout: &Layout) -> Result<Map<'a>, Error> {
                Ok(match self {
                    $(AnyBuffer::$name(buffer) => map.input(name, &View::new(buffer, layout)?),)*
                })
            }

            fn output<'a>(&'a mut self, map: Map<'a>, name: &str, layout: &Layout) -> Result<Map<'a>, Error> {
                Ok(match self {
                    $(AnyBuffer::$name(buffer) => map.output(name, &ViewMut::new(buffer, layout)?),)*
                })
            }
        }
    };
}

memory! {
    F64(f64) = Ty::F64;
    F32(f32) = Ty::F32 | Ty::Tf32;
    F16(f16) = Ty::F16;
    Bf16(bf16) = Ty::Bf16;
    S64(i64) = Ty::S64;
    U64(u64) = Ty::U64;
    S32(i32) = Ty::S32;
    U32(u32) = Ty::U32;
    S16(i16) = Ty::S16;
    U16(u16) = Ty::U16;
    S8(i8) = Ty::S8;
    U8(u8) = Ty::U8 | Ty::E4m3 | Ty::E5m2;
}

fn of_bits<T: Element>(bits: &[u64]) -> Vec<T> {
    let bytes = bits
        .iter()
        .flat_map(|x| x.to_le_bytes()[..T::BYTES].to_vec());
    T::from_bytes(&bytes.collect::<Vec<u8>>())
}

fn to_bits<T: Element>(elements: &[T]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    T::to_bytes(elements).chunks(T::BYTES).map(word).collect()
}

/// A layout of these extents: modes in any order, with gaps, and of an input with strides of 0.
pub(crate) fn layout(r: &mut Random, extents: &[i64], is_output: bool) -> Layout {
    let mut strides = vec![0; extents.len()];
    let pad = r.one(&[0, 0, 0, 8, 4, 1]);
    let mut order: Vec<usize> = match r.below(3_u64) {
        0 => r.permutation(extents.len()),
        _ => (0..extents.len()).rev().collect(),
    };
    if r.one_in(8) {
        order.reverse();
    }
    let mut next = if r.one_in(8) { 2 } else { 1 };
    for mode in order {
        strides[mode] = next;
        next = next * extents[mode] + pad;
        if !is_output && r.one_in(5) {
            strides[mode] = 0;
            next = (next - pad) / extents[mode].max(1);
        }
    }
    let shape = IntTuple::flat(extents.iter().map(|n| Int::Dynamic(*n)));
    let strides = Tuple::flat(strides.into_iter().map(Stride::from));
    Layout::new(shape, strides).expect("extents above 0")
}

/// Computes drawn maps on a device, and compares every element bit for bit: types, formulas, shapes of one to four modes, strides,
/// alignments, outputs in place, plans. Elements outside of the outputs stay. Returns the number of elements.
///
/// # Errors
///
/// Returns the first map whose result is wrong, in words.
pub fn check(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "maps");
    let mut count = 0;
    for round in 0..rounds {
        let found = map(device, &mut r);
        count += found.map_err(|why| format!("round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// Extents of some modes.
pub(crate) fn extents(r: &mut Random, most: usize) -> Vec<i64> {
    let rank = 1 + r.below(most as u64) as usize;
    let most = [3000_i64, 60, 16, 8][rank - 1];
    let one = |r: &mut Random| match r.below(3_u64) {
        0 => 1 + r.below(most),
        1 => 8 * (1 + r.below((most / 8).max(1))),
        _ => r.one(&[1, 2, 16, 33]),
    };
    (0..rank).map(|_| one(r)).collect()
}

/// A plan of any numbers.
pub(crate) fn drawn(r: &mut Random, plan: ElementwisePlan) -> ElementwisePlan {
    let vector = (plan.vector >> r.below(3_u32)).max(1);
    ElementwisePlan {
        vector,
        accesses: r.one(&[1, 1, 2, 3, 4]),
        threads: 32 * (1 + r.below(8_i64)),
        ..plan
    }
}

/// Checks that a launch decides every claim of a kernel.
fn untrapped(built: Option<&TensorKernel>) -> Result<(), String> {
    let trapped = built.map(|built| crate::kernels::trapped(&built.kernel));
    match trapped.unwrap_or_default().first() {
        None => Ok(()),
        Some(claim) => Err(claim.clone()),
    }
}

fn map(device: &Device, r: &mut Random) -> Result<usize, String> {
    let arch = device.arch();
    // Before sm_80 not every operation of a bf16 is there.
    let is_computed = |ty: &Ty| is_there(arch, *ty) && (arch >= Arch::Sm80 || *ty != Ty::Bf16);
    let kinds: Vec<Ty> = TYPES.into_iter().filter(is_computed).collect();
    let extents = extents(r, 4);
    let inputs: Vec<Ty> = (0..1 + r.below(3_usize)).map(|_| r.one(&kinds)).collect();
    let outputs: Vec<Ty> = (0..1 + r.below(2_usize)).map(|_| r.one(&kinds)).collect();
    let (has_scalar, has_coordinate) = (r.one_in(3), r.one_in(3));
    let mode = r.below(extents.len());
    let mut all = inputs.clone();
    all.extend(has_scalar.then_some(Ty::F32));
    all.extend(has_coordinate.then_some(Ty::S32));
    let expression = MapExpression::new(|m| {
        for (i, ty) in inputs.iter().enumerate() {
            m.tensor(&format!("in{i}"), *ty);
        }
        if has_scalar {
            m.scalar("s", Ty::F32);
        }
        if has_coordinate {
            m.coordinate("c", mode);
        }
        for (i, ty) in outputs.iter().enumerate() {
            // A formula of constants is none.
            let element = loop {
                let element = formula(r, &all, (*ty, false), 3);
                let is_one = element.formula().is_ok_and(|formula| {
                    let is_there = arch >= Arch::Sm80 || !formula.to_string().contains("bf16");
                    formula.inputs().next().is_some() && is_there
                });
                if is_one && element.ty() == Some(*ty) {
                    break element;
                }
            };
            m.output(&format!("out{i}"), element);
        }
    });
    let expression = expression.map_err(|e| e.to_string())?;
    let parsed = expression.to_string().parse::<MapExpression>();
    if parsed.map_err(|e| e.to_string())? != expression {
        return Err(format!("{expression} does not parse to itself"));
    }
    let what = format!("{expression} of {extents:?}");
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let mut sources = Vec::new();
    for ty in &inputs {
        let layout = layout(r, &extents, false);
        let first = r.one(&[0, 0, 0, 8, 4, 1]);
        let length = first + layout.cosize().map_err(|e| text(&e))? as usize;
        let bits: Vec<u64> = (0..length).map(|_| element(r, *ty)).collect();
        let memory = AnyBuffer::new(device, *ty, length, Some(&bits)).map_err(|e| text(&e))?;
        sources.push((memory, layout, first, bits));
    }
    let mut targets = Vec::new();
    let mut taken = Vec::new();
    for ty in &outputs {
        // In place of an input of as many bits.
        let can = |at: &usize| {
            let is_free = !taken.contains(at) && inputs[*at].bits() == ty.bits();
            is_free && sources[*at].1.is_injective().unwrap_or(false)
        };
        let place = (0..inputs.len()).find(can).filter(|_| r.one_in(2));
        let is_same = |at: usize| {
            let plain = |ty: Ty| match ty {
                Ty::Tf32 => Ty::F32,
                Ty::E4m3 | Ty::E5m2 => Ty::U8,
                ty => ty,
            };
            plain(inputs[at]) == plain(*ty)
        };
        if let Some(at) = place.filter(|at| is_same(*at)) {
            taken.push(at);
            let (memory, layout, first, before) = sources[at].clone();
            targets.push((memory, layout, first, before));
            continue;
        }
        let layout = layout(r, &extents, true);
        let first = r.one(&[0, 0, 0, 8, 4, 1]);
        let length = first + layout.cosize().map_err(|e| text(&e))? as usize;
        let memory = AnyBuffer::new(device, *ty, length, None).map_err(|e| text(&e))?;
        let before = vec![u64::MAX >> (64 - ty.bits()); length];
        targets.push((memory, layout, first, before));
    }
    let scalar = 1.5_f64;
    let size: i64 = extents.iter().product();
    // What the outputs should be, before an input is overwritten.
    let mut wanted: Vec<Vec<u64>> = vec![Vec::new(); outputs.len()];
    for i in 0..size {
        let mut elements = Vec::new();
        for (_, layout, first, bits) in &sources {
            let at = layout.at(i).map_err(|e| text(&e))?;
            elements.push(bits[first + at as usize]);
        }
        elements.extend(has_scalar.then_some(u64::from((scalar as f32).to_bits())));
        let before: i64 = extents[..mode].iter().product();
        elements.extend(has_coordinate.then_some((i / before % extents[mode]) as u64));
        let found = expression.evaluate(&elements).map_err(|e| text(&e))?;
        for (all, one) in wanted.iter_mut().zip(found) {
            all.push(one);
        }
    }
    let plan = {
        let mut read = Vec::new();
        for (memory, _, first, _) in &sources {
            read.push(memory.from(*first).map_err(|e| text(&e))?);
        }
        let mut written = Vec::new();
        for (memory, _, first, _) in &targets {
            written.push(memory.from(*first).map_err(|e| text(&e))?);
        }
        let mut call = Map::new(&expression);
        for (i, (memory, (_, layout, ..))) in read.iter().zip(&sources).enumerate() {
            call = memory
                .input(call, &format!("in{i}"), layout)
                .map_err(|e| text(&e))?;
        }
        for (i, (memory, (_, layout, ..))) in written.iter_mut().zip(&targets).enumerate() {
            call = memory
                .output(call, &format!("out{i}"), layout)
                .map_err(|e| text(&e))?;
        }
        if has_scalar {
            call = call.scalar("s", scalar);
        }
        let usual = call.plan().map_err(|e| text(&e))?.ok_or("elements")?;
        let own = (0..20).map(|_| drawn(r, usual.clone()));
        let own = own.into_iter().find(|plan| plan.check(arch).is_ok());
        let prepared = match own.filter(|_| r.one_in(2)) {
            Some(plan) => call.prepare_with(|_, _| Ok(plan)),
            None => call.prepare(),
        };
        let prepared = prepared.map_err(|e| text(&e))?;
        let plan = format!("{prepared}, {}", usual.operands);
        untrapped(prepared.built()).map_err(|e| text(&e))?;
        prepared
            .run(device)
            .map_err(|e| format!("{what}, {plan}: {e}"))?;
        device
            .synchronize()
            .map_err(|e| format!("{what}, {plan}: {e}"))?;
        plan
    };
    for ((ty, (memory, layout, first, before)), wanted) in outputs.iter().zip(&targets).zip(&wanted)
    {
        let found = memory.bits().map_err(|e| text(&e))?;
        let mut expected = before.clone();
        for (i, bits) in wanted.iter().enumerate() {
            let at = layout.at(i as i64).map_err(|e| text(&e))?;
            expected[first + at as usize] = *bits;
        }
        let pairs = found.iter().zip(&expected).enumerate();
        let mut pairs = pairs.filter(|(_, (a, b))| !alike(*ty, **a, **b));
        if let Some((i, (found, expected))) = pairs.next() {
            return Err(format!(
                "{what}, {plan}: element {i} of {ty} is {found:#x} and should be {expected:#x}"
            ));
        }
    }
    Ok(size as usize * outputs.len())
}

/// Gathers drawn rows on a device, and compares every element: types, shapes, strides, rows that the table does not have. Returns
/// the number of elements.
///
/// # Errors
///
/// Returns the first gather whose result is wrong, in words.
pub fn check_gathers(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "gathers");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[
            gathered::<f32, i32>,
            gathered::<bf16, i64>,
            gathered::<u8, u32>,
            gathered::<f64, i32>,
        ]);
        let found = run(device, &mut r);
        count += found.map_err(|why| format!("gather, round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A number of a row, as a type that an index has.
trait Number: RowNumber {
    fn of(number: i64) -> Self;
}

impl Number for i32 {
    fn of(number: i64) -> i32 {
        number as i32
    }
}

impl Number for u32 {
    fn of(number: i64) -> u32 {
        number as u32
    }
}

impl Number for i64 {
    fn of(number: i64) -> i64 {
        number
    }
}

fn gathered<T: Element, I: Number>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let named: Vec<i64> = (0..1 + r.below(2_usize))
        .map(|_| 1 + r.below(12_i64))
        .collect();
    let row: Vec<i64> = (0..r.below(3_usize))
        .map(|_| r.one(&[1, 4, 8, 16, 33, 64]))
        .collect();
    let rows = 1 + r.below(20_i64);
    let of_table: Vec<i64> = [rows].into_iter().chain(row.iter().copied()).collect();
    let of_out: Vec<i64> = named.iter().chain(&row).copied().collect();
    let what = format!("{} of {of_table:?} by {} of {named:?}", T::NAME, I::NAME);
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let layouts = [
        layout(r, &of_table, false),
        layout(r, &named, false),
        layout(r, &of_out, true),
    ];
    let firsts = [(); 3].map(|()| r.one(&[0, 0, 0, 8, 4, 1]));
    let mut lengths = Vec::new();
    for (layout, first) in layouts.iter().zip(firsts) {
        lengths.push(first + layout.cosize().map_err(|e| text(&e))? as usize);
    }
    let table = T::from_bytes(&r.bytes(lengths[0] * T::BYTES));
    let numbers: Vec<i64> = (0..lengths[1])
        .map(|_| match r.below(8_u64) {
            0 => r.one(&[-1, rows, rows + 5, i64::from(i32::MIN), i64::from(i32::MAX)]),
            _ => r.below(rows),
        })
        .collect();
    let index: Vec<I> = numbers.iter().map(|number| I::of(*number)).collect();
    let (on_table, on_index) = (
        device.upload(&table).map_err(|e| text(&e))?,
        device.upload(&index).map_err(|e| text(&e))?,
    );
    let out = device.poisoned::<T>(lengths[2]).map_err(|e| text(&e))?;
    let plan = (|| -> Result<String, Box<dyn std::error::Error>> {
        let (from, by) = (on_table.slice(firsts[0]..)?, on_index.slice(firsts[1]..)?);
        let mut to = out.slice(firsts[2]..)?;
        let call = Gather::new(
            &View::new(&from, &layouts[0])?,
            &View::new(&by, &layouts[1])?,
            &ViewMut::new(&mut to, &layouts[2])?,
        );
        let usual = call.plan()?.ok_or("elements")?;
        let own = (0..20).map(|_| drawn(r, usual.clone()));
        let own = own
            .into_iter()
            .find(|plan| plan.check(device.arch()).is_ok());
        let call = match own.filter(|_| r.one_in(2)) {
            Some(plan) => call.prepare_with(|_, _| Ok(plan))?,
            None => call.prepare()?,
        };
        untrapped(call.built())?;
        call.run(device)?;
        device.synchronize()?;
        Ok(format!("{call}, {}", usual.operands))
    })();
    let plan = plan.map_err(|e| text(&e))?;
    let found = out.download().map_err(|e| text(&e))?;
    let mut expected = T::from_bytes(&vec![0xff; lengths[2] * T::BYTES]);
    let size: i64 = of_out.iter().product();
    let named: i64 = named.iter().product();
    for i in 0..size {
        let (at, within) = (i % named, i / named);
        let number = layouts[1].at(at).map_err(|e| text(&e))?;
        // As an index without a sign, a negative number names no row either.
        let number = numbers[firsts[1] + number as usize];
        let element = if (0..rows).contains(&number) {
            let from = layouts[0]
                .at(number + rows * within)
                .map_err(|e| text(&e))?;
            table[firsts[0] + from as usize]
        } else {
            T::ZERO
        };
        let to = layouts[2].at(i).map_err(|e| text(&e))?;
        expected[firsts[2] + to as usize] = element;
    }
    let same = |(a, b): (&T, &T)| T::to_bytes(&[*a]) == T::to_bytes(&[*b]);
    match found.iter().zip(&expected).position(|pair| !same(pair)) {
        Some(at) => Err(format!("{what}, {plan}: element {at} is wrong")),
        None => Ok(size as usize),
    }
}

/// Computes drawn rotary embeddings on a device, and compares every element: types, pairings, strides, positions, tables and bases, features that
/// are not turned, in place. With tables the results are those of the host bit for bit. Returns the number of elements.
///
/// # Errors
///
/// Returns the first rotary embedding whose result is wrong, in words.
pub fn check_rotary(device: &Device, seed: u64, rounds: usize) -> Result<usize, String> {
    let mut r = Random::of(seed, "rotary");
    let mut count = 0;
    for round in 0..rounds {
        let run = r.one(&[turned::<f32>, turned::<bf16>, turned::<f16>]);
        let found = run(device, &mut r);
        count += found.map_err(|why| format!("rotary, round {round} of {seed}: {why}"))?;
    }
    Ok(count)
}

/// A number of f32 as one of the type, rounded once.
fn rounded<T: GemmElement>(x: f32) -> Result<T, Error> {
    let rounded = Expr::input(0, Ty::F32).to(T::TY);
    let bits = rounded.evaluate(&[x.to_bits().into()])?;
    Ok(of_bits(&[bits])[0])
}

fn turned<T: GemmElement>(device: &Device, r: &mut Random) -> Result<usize, String> {
    let features = r.one(&[2, 8, 16, 18, 64]);
    let shape = [
        1 + r.below(3_i64),
        1 + r.below(4_i64),
        1 + r.below(9_i64),
        features,
    ];
    let turned = 2 * (1 + r.below(features as u64 / 2) as i64);
    let turned = if r.one_in(2) { features } else { turned };
    let pairs = turned / 2;
    let pairing = r.one(&[Pairing::Interleaved, Pairing::Halves]);
    let rows = 32_i64;
    let (has_positions, has_tables, in_place) = (r.one_in(2), r.one_in(2), r.one_in(3));
    // Angles of a base are those of f32 at the positions of long texts too.
    let far = if has_tables {
        0
    } else {
        r.one(&[0, 0, 8000, 131_000, 1_000_000])
    };
    let offset = far + r.below(10_i64);
    let base = r.one(&[1.0_f32, 500.0, 10_000.0, 1e6]);
    let what = format!(
        "{pairing} of {} {shape:?}, {turned} turned, positions {has_positions}, tables {has_tables}, in place {in_place}",
        T::NAME
    );
    let text = |e: &dyn std::fmt::Display| format!("{what}: {e}");
    let of_x = layout(r, &shape, true);
    let of_y = if in_place {
        of_x.clone()
    } else {
        layout(r, &shape, true)
    };
    let first = r.one(&[0, 0, 8, 4, 1]);
    let length =
        |layout: &Layout| Ok::<_, String>(first + layout.cosize().map_err(|e| text(&e))? as usize);
    let number = |r: &mut Random| f64::from(r.below(4001_i32) - 2000) / 500.0;
    let x: Vec<T> = (0..length(&of_x)?)
        .map(|_| T::from_f64(number(r)))
        .collect();
    let of_tables = [(); 2].map(|()| layout(r, &[rows, pairs], true));
    let mut tables = Vec::new();
    for layout in &of_tables {
        let count = layout.cosize().map_err(|e| text(&e))?;
        tables.push(
            (0..count)
                .map(|_| number(r) as f32 / 4.0)
                .collect::<Vec<f32>>(),
        );
    }
    let by_batch = r.one_in(2);
    let of_positions = if by_batch {
        layout(r, &[shape[0], shape[2]], false)
    } else {
        layout(r, &[shape[2]], false)
    };
    let count = of_positions.cosize().map_err(|e| text(&e))?;
    let positions: Vec<i32> = (0..count)
        .map(|_| {
            if r.one_in(9) && has_tables {
                -1
            } else {
                (far + r.below(rows)) as i32
            }
        })
        .collect();
    let upload = |all: &[T]| device.upload(all).map_err(|e| text(&e));
    let on_x = upload(&x)?;
    let on_y = if in_place {
        on_x.clone()
    } else {
        device.poisoned::<T>(length(&of_y)?).map_err(|e| text(&e))?
    };
    let plan = (|| -> Result<String, Box<dyn std::error::Error>> {
        let from = on_x.slice(first..)?;
        let mut to = on_y.slice(first..)?;
        let cos = device.upload(&tables[0])?;
        let sin = device.upload(&tables[1])?;
        let on_positions = device.upload(&positions)?;
        let mut call = Rotary::new(
            pairing,
            &View::new(&from, &of_x)?,
            &ViewMut::new(&mut to, &of_y)?,
        )
        .features(turned);
        if has_tables {
            let views = [
                View::new(&cos, &of_tables[0])?,
                View::new(&sin, &of_tables[1])?,
            ];
            call = call.tables(&views[0], &views[1]);
        } else {
            call = call.base(base);
        }
        call = if has_positions {
            call.positions(&View::new(&on_positions, &of_positions)?)
        } else {
            call.offset(offset)
        };
        let own = [r.one_in(2), r.one_in(2)];
        let prepared = call.prepare_with(|problem, arch| {
            let plan = ElementwisePlan::fastest(problem, arch)?;
            Ok(ElementwisePlan {
                accesses: if own[0] { 2 } else { plan.accesses },
                vector: if own[1] { 1 } else { plan.vector },
                ..plan
            })
        })?;
        for call in prepared.calls() {
            untrapped(call.built())?;
        }
        prepared.run(device)?;
        device.synchronize()?;
        let plans: Vec<String> = prepared
            .calls()
            .iter()
            .map(|call| call.to_string())
            .collect();
        Ok(plans.join("; "))
    })();
    let plan = plan.map_err(|e| text(&e))?;
    let found = on_y.download().map_err(|e| text(&e))?;
    let mut expected = if in_place {
        x.clone()
    } else {
        T::from_bytes(&vec![0xff; found.len() * T::BYTES])
    };
    let mut allowed = vec![0.0; found.len()];
    let [batches, heads, sequence, _] = shape;
    for i in 0..batches * heads * sequence {
        let (b, h, s) = (i % batches, i / batches % heads, i / batches / heads);
        let position = if has_positions {
            let at = if by_batch { b + batches * s } else { s };
            let at = of_positions.at(at).map_err(|e| text(&e))?;
            i64::from(positions[at as usize])
        } else {
            offset + s
        };
        let place = |layout: &Layout, feature: i64| -> Result<usize, String> {
            let at = layout.at(b + batches * (h + heads * (s + sequence * feature)));
            Ok(first + at.map_err(|e| text(&e))? as usize)
        };
        for feature in turned..features {
            expected[place(&of_y, feature)?] = x[place(&of_x, feature)?];
        }
        for j in 0..pairs {
            let [low, high] = match pairing {
                Pairing::Interleaved => [2 * j, 2 * j + 1],
                Pairing::Halves => [j, j + pairs],
            };
            let [u, v] = [x[place(&of_x, low)?], x[place(&of_x, high)?]].map(|x| x.to_f64() as f32);
            let (mut own, mut off) = ([0.0_f32; 2], 0.0);
            if !has_tables {
                let frequency = f64::from(base).powf(-2.0 * j as f64 / turned as f64);
                let angle = position as f64 * frequency;
                own = [angle.cos() as f32, angle.sin() as f32];
                // The instructions for a sine and a cosine are off by 2^-20.5 at most, and the angle by 2^-21 of itself.
                off = 2f64.powi(-20) + angle.abs() * 2f64.powi(-21);
            } else if (0..rows).contains(&position) {
                for ((one, layout), table) in own.iter_mut().zip(&of_tables).zip(&tables) {
                    let at = layout.at(position + rows * j).map_err(|e| text(&e))?;
                    *one = table[at as usize];
                }
            }
            let [cos, sin] = own;
            let results = [u.mul_add(cos, -(v * sin)), v.mul_add(cos, u * sin)];
            for (feature, y) in [low, high].into_iter().zip(results) {
                let at = place(&of_y, feature)?;
                expected[at] = rounded(y).map_err(|e| text(&e))?;
                if !has_tables {
                    let step = [2f64.powi(-23), 2f64.powi(-7)][usize::from(T::BYTES == 2)];
                    allowed[at] = f64::from(u.abs() + v.abs()) * (off + step);
                }
            }
        }
    }
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let is_same = T::to_bytes(&[*found]) == T::to_bytes(&[*expected]);
        let apart = (found.to_f64() - expected.to_f64()).abs();
        let is_near = apart <= allowed[at];
        if !is_same && !is_near {
            return Err(format!(
                "{what}, {plan}: element {at} is {} and should be {}",
                found.to_f64(),
                expected.to_f64()
            ));
        }
    }
    Ok((batches * heads * sequence * features) as usize)
}
