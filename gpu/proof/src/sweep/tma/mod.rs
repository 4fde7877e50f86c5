//! Tensor copies: boxes of tensors of one to five dimensions and columns of pixels, every swizzle and element type,
//! inside and across the edges.

mod form;
mod im2col;

use colex_atom::{
    Arch, Argument, BoxElement, CopyAtom, Error, Interleave, L2Promotion, OobFill, Reduction, Side,
    Space, TensorMap, TmaElement, TmaSwizzle,
};

use super::bulk::combine;
use super::case::{Bytes, Case, POISON, Shot, entry};
use super::copy::policy;
use super::engine::{Before, Engine, THREADS, from_shared, memory};
use super::frame::Frame;
use super::random::Random;
use colex_ir::launch::Launch;
use colex_ir::{Access, Address, CopyArgs, Kernel, KernelBuilder, Operand, Type};
pub(super) use form::variants;
pub use form::{TmaForm, TmaVariant};

/// The swizzles of Hopper.
pub(super) const SWIZZLES: [TmaSwizzle; 4] = [
    TmaSwizzle::None,
    TmaSwizzle::B32,
    TmaSwizzle::B64,
    TmaSwizzle::B128,
];

const ELEMENTS: [TmaElement; 11] = {
    use TmaElement::*;
    [U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, Tf32]
};

/// Blocks that a multicast may reach.
const BLOCKS: u32 = 2;
/// Where the coordinates, the mask and the offsets lie in the input, after the tensor or the box.
const HEADER: u32 = 32;
/// Where the mask lies in the header.
const MASK: u32 = 20;
/// Where the offsets of a filter lie in the header.
const OFFSETS: u32 = 24;

/// What one launch of a case moves: a box, or a column.
pub(super) struct Place {
    pub(super) map: TensorMap,
    pub(super) coordinates: Vec<i64>,
    /// Of a filter's tap, for `im2col`.
    pub(super) offsets: Vec<i64>,
}

impl Place {
    fn loaded(&self) -> Result<Vec<BoxElement>, colex_atom::Error> {
        match self.map.im2col {
            None => self.map.loaded(&self.coordinates),
            Some(_) => self.map.loaded_at(&self.coordinates, &self.offsets),
        }
    }
}

/// Returns the case of a tensor copy in one form: a launch for each element type, or for the one named, and for each
/// place of the box.
///
/// # Errors
///
/// Returns an error if the row is not executable, or if the copy has no tensor.
pub fn tma_case(atom: &CopyAtom, form: &TmaForm, seed: u64) -> Result<Case, Error> {
    let rank = atom.tensor_rank().unwrap_or(1);
    let row = form.row_bytes();
    let extents = match (is_im2col(atom), form.variant) {
        (true, _) => im2col::extents(row),
        (false, TmaVariant::Interleaved(_)) => interleaved_extents(rank, row),
        (false, _) => extents(rank, row),
    };
    let bytes = extents.iter().product::<i64>();
    let atom = atom.with_bits(8 * bytes)?;
    let stem = atom.name();
    let stem = stem.split('<').next().unwrap_or(&stem);
    let name = format!("{stem}{form}");
    let mut random = Random::of(seed, &name);
    let boxes = places(&atom, &extents, form);
    let tensor = boxes
        .iter()
        .map(|b| b.map.tensor_bytes() + b.map.store_tail())
        .max();
    let tensor = (tensor.unwrap_or(0) as u32).next_multiple_of(16);
    let plan = TmaPlan {
        bytes: bytes as u32,
        tensor,
        input: tensor.max(bytes as u32) + HEADER,
        cluster: if is_multicast(&atom) { BLOCKS } else { 1 },
    };
    let shots: Vec<Shot> = boxes
        .iter()
        .map(|b| shot(&atom, b, &plan, &mut random))
        .collect();
    let pairs = boxes.iter().zip(&shots);
    let expected = pairs
        .map(|(b, shot)| expected(&atom, b, shot, &plan))
        .collect::<Result<_, _>>()?;
    Ok(Case {
        family: family(&atom),
        kernel: kernel(&atom, &name, &plan, form.hinted)?,
        shots,
        judge: Box::new(Bytes {
            expected,
            element: 1,
        }),
        name,
    })
}

/// Sizes in bytes.
struct TmaPlan {
    /// Of the box.
    bytes: u32,
    /// Of the tensor in global memory.
    tensor: u32,
    input: u32,
    cluster: u32,
}

fn family(atom: &CopyAtom) -> &'static str {
    match (atom.to(), from_shared(atom)) {
        (Space::L2, _) => "prefetches",
        _ if is_im2col(atom) && is_multicast(atom) => "im2col loads, multicast",
        (_, false) if is_im2col(atom) => "im2col loads",
        _ if is_im2col(atom) && reduction(atom).is_some() => "im2col reductions",
        _ if is_im2col(atom) => "im2col stores",
        _ if is_multicast(atom) => "tensor loads, multicast",
        (_, false) => "tensor loads",
        _ if reduction(atom).is_some() => "tensor reductions",
        _ => "tensor stores",
    }
}

pub(super) fn is_multicast(atom: &CopyAtom) -> bool {
    atom.name().contains("MULTICAST")
}

pub(super) fn is_im2col(atom: &CopyAtom) -> bool {
    atom.name().contains("IM2COL")
}

pub(super) fn reduction(atom: &CopyAtom) -> Option<Reduction> {
    atom.reduction().map(|(reduction, _)| reduction)
}

/// The box: its first dimension in bytes, the others in elements.
fn extents(rank: usize, row: i64) -> Vec<i64> {
    let outer = [8, 3, 2, 2];
    let mut extents = vec![row];
    extents.extend(&outer[..rank - 1]);
    extents
}

/// The box of interleaved channels: its first dimension in bytes, the others in pixels, slices and images. One slice.
fn interleaved_extents(rank: usize, row: i64) -> Vec<i64> {
    let pixels = [3, 2];
    let mut extents = vec![row];
    extents.extend(&pixels[..rank - 3]);
    extents.extend([1, 2]);
    extents
}

/// What all launches move, for each element type.
fn places(atom: &CopyAtom, extents: &[i64], form: &TmaForm) -> Vec<Place> {
    let types = ELEMENTS.into_iter().filter(|element| form.has(*element));
    let rank = atom.tensor_rank().unwrap_or(1);
    let of_type = |element| {
        if is_im2col(atom) {
            im2col::places(element, rank, extents[0], form.swizzle, !from_shared(atom))
        } else {
            boxes(atom, element, extents, form)
        }
    };
    let places = types.flat_map(of_type);
    let vary = |place: Place| Place {
        map: if is_im2col(atom) {
            form.vary(place.map)
        } else {
            place.map
        },
        ..place
    };
    places.map(vary).collect()
}

/// The boxes of one element type: two inside the tensor, one across its end, and for loads one before its beginning.
fn boxes(atom: &CopyAtom, element: TmaElement, extents: &[i64], form: &TmaForm) -> Vec<Place> {
    let map = form.vary(map(element, extents, form.swizzle));
    let unit = match form.variant {
        TmaVariant::Interleaved(_) => 1,
        TmaVariant::Plain | TmaVariant::Nan | TmaVariant::Strided => 16 / element.bytes(),
    };
    let place = |first: i64, others: i64| {
        let mut at = vec![others; extents.len()];
        at[0] = first * unit;
        if let TmaVariant::Interleaved(_) = form.variant {
            // A slice before the first has no elements at all, and would hide the other edges.
            let slices = at.len() - 2;
            at[slices] = at[slices].max(0);
        }
        at
    };
    let last = (map.extents[0] / unit - 1).max(1);
    let mut places = vec![place(0, 0), place(1, 1), place(last + 1, 2)];
    if !from_shared(atom) {
        places.push(place(-1, -1));
    }
    let place = |coordinates| Place {
        map: map.clone(),
        coordinates,
        offsets: Vec::new(),
    };
    places.into_iter().map(place).collect()
}

/// A tensor a little larger than the box, its rows an odd number of elements, more bytes apart than they are long.
fn map(element: TmaElement, extents: &[i64], swizzle: TmaSwizzle) -> TensorMap {
    let inner = extents[0] / element.bytes();
    let mut dims = vec![2 * inner - 1];
    dims.extend(extents[1..].iter().map(|extent| extent + 1));
    let mut in_elements = extents.to_vec();
    in_elements[0] = inner;
    TensorMap {
        element,
        element_strides: vec![1; dims.len()],
        strides: rows(&dims, extents[0]),
        dims,
        extents: in_elements,
        im2col: None,
        swizzle,
        interleave: Interleave::default(),
        l2: L2Promotion::default(),
        fill: OobFill::default(),
    }
}

/// The strides of a tensor whose rows are 16 bytes longer than two rows of its box.
pub(super) fn rows(dims: &[i64], row: i64) -> Vec<i64> {
    let mut stride = 2 * row + 16;
    let each = dims[1..].iter().map(|extent| {
        let this = stride;
        stride *= extent;
        this
    });
    each.collect()
}

/// The element types that a copy is swept with one by one: those a reduction has; none for what only moves.
/// With `refused`, those that the hardware refuses instead, to hear it say so.
pub(super) fn types(atom: &CopyAtom, refused: bool) -> Vec<Option<TmaElement>> {
    let Some(op) = reduction(atom) else {
        return if refused { Vec::new() } else { vec![None] };
    };
    let bitwise = matches!(op, Reduction::And | Reduction::Or | Reduction::Xor);
    if refused {
        bitwise
            .then_some(Some(TmaElement::S64))
            .into_iter()
            .collect()
    } else {
        let legal = ELEMENTS
            .into_iter()
            .filter(|element| element.reduced(op).is_some());
        legal.map(Some).collect()
    }
}

fn shot(atom: &CopyAtom, of: &Place, plan: &TmaPlan, random: &mut Random) -> Shot {
    let mut input = random.bytes((plan.input * plan.cluster) as usize);
    let header = (plan.input - HEADER) as usize;
    for (d, coordinate) in of.coordinates.iter().enumerate() {
        input[header + 4 * d..][..4].copy_from_slice(&(*coordinate as i32).to_le_bytes());
    }
    for (d, offset) in of.offsets.iter().enumerate() {
        input[header + OFFSETS as usize + 2 * d..][..2]
            .copy_from_slice(&(*offset as u16).to_le_bytes());
    }
    let mask = 1 + random.below((1 << BLOCKS) - 1) as u32;
    for block in 0..plan.cluster as usize {
        let at = block * plan.input as usize + header + MASK as usize;
        input[at..][..4].copy_from_slice(&mask.to_le_bytes());
    }
    let stores = atom.to() == Space::Global;
    let output = match (stores, reduction(atom)) {
        (true, Some(_)) => random.bytes(plan.tensor as usize),
        (true, None) => vec![POISON; plan.tensor as usize],
        _ => vec![POISON; (plan.bytes * plan.cluster) as usize],
    };
    let launch = Launch::new(plan.cluster, THREADS);
    Shot {
        launch: if plan.cluster > 1 {
            launch.cluster(plan.cluster)
        } else {
            launch
        },
        input,
        output,
        map: Some((
            of.map.clone(),
            if stores {
                Side::Destination
            } else {
                Side::Source
            },
        )),
    }
}

fn expected(atom: &CopyAtom, of: &Place, shot: &Shot, plan: &TmaPlan) -> Result<Vec<u8>, Error> {
    let size = of.map.element.bytes() as usize;
    let place = |byte: i64| of.map.swizzle.on_bytes().apply(byte) as usize;
    let mut out = shot.output.clone();
    if atom.to() == Space::Global {
        for element in of.map.stored(&of.coordinates)? {
            let Some(global) = element.global else {
                continue;
            };
            let new = &shot.input[place(element.shared)..][..size];
            let old = &mut out[global as usize..][..size];
            match reduction(atom).and_then(|op| Some((op, of.map.element.reduced(op)?))) {
                Some((op, ty)) => combine(op, ty, old, new),
                None => old.copy_from_slice(new),
            }
        }
        return Ok(out);
    }
    if atom.to() == Space::L2 {
        return Ok(shot.input[..out.len()].to_vec());
    }
    let at = (plan.input - HEADER + MASK) as usize;
    let mask = if is_multicast(atom) {
        shot.input[at]
    } else {
        1
    };
    let blocks = out.chunks_exact_mut(plan.bytes as usize).enumerate();
    for (_, block) in blocks.filter(|(block, _)| mask >> block & 1 == 1) {
        for element in of.loaded()? {
            let to = &mut block[place(element.shared)..][..size];
            match element.global {
                Some(global) => {
                    let mut bytes = [0; 8];
                    bytes[..size].copy_from_slice(&shot.input[global as usize..][..size]);
                    let bits = of.map.element.loaded_bits(u64::from_le_bytes(bytes));
                    to.copy_from_slice(&bits.to_le_bytes()[..size]);
                }
                None => to.copy_from_slice(&of.map.fill.pattern().to_le_bytes().repeat(4)[..size]),
            }
        }
    }
    Ok(out)
}

fn kernel(atom: &CopyAtom, name: &str, plan: &TmaPlan, hinted: bool) -> Result<Kernel, Error> {
    atom.op()?;
    let mut k = KernelBuilder::new(&entry(name), Arch::Sm90a);
    let frame = Frame::open(&mut k, THREADS, plan.input, plan.bytes);
    let map = k.tensor_map("map");
    let before = Before {
        source: 0,
        target: None,
    };
    let engine = Engine::open(&mut k, &frame, plan.bytes, &before, plan.cluster);
    let header = Address::from(frame.input).at(i64::from(plan.input - HEADER));
    let rank = atom.tensor_rank().unwrap_or(1) as i64;
    let coordinates: Vec<Operand> = (0..rank)
        .map(|d| {
            k.load(
                Access::new(colex_ir::Space::Global, Type::S32),
                header.at(4 * d),
            )
            .into()
        })
        .collect();
    let has_offsets = atom.op()?.operands.iter();
    let has_offsets = has_offsets
        .filter(|operand| operand.argument == Argument::Offsets)
        .count()
        > 0;
    let offsets = (0..if has_offsets { rank - 2 } else { 0 }).map(|d| {
        let at = header.at(i64::from(OFFSETS) + 2 * d);
        k.load(Access::new(colex_ir::Space::Global, Type::B16), at)
    });
    let offsets = offsets.collect();
    let args = CopyArgs {
        tensor: Some((map.into(), coordinates)),
        offsets,
        policy: hinted.then(|| policy(&mut k)),
        ..CopyArgs::default()
    };
    match (atom.to(), is_multicast(atom)) {
        (Space::L2, _) => {
            k.when(engine.first, |k| k.copy_atom(atom, args));
            engine.target.fill(&mut k, &frame, 0);
            k.sync();
        }
        (Space::Global, _) => {
            let src = memory(engine.source.at);
            engine.store(&mut k, |k| k.copy_atom(atom, CopyArgs { src, ..args }));
            return Ok(k.finish());
        }
        (_, multicast) => {
            let args = CopyArgs {
                dst: memory(engine.target.at),
                barrier: Some(engine.barrier.into()),
                ..args
            };
            if multicast {
                engine.multicast(&mut k, header.at(i64::from(MASK)), plan.bytes, |k, mask| {
                    let mask = Some(mask);
                    k.copy_atom(atom, CopyArgs { mask, ..args });
                })
            } else {
                engine.load(&mut k, plan.bytes, |k| k.copy_atom(atom, args))
            }
        }
    }
    engine.target.empty(&mut k, &frame);
    Ok(k.finish())
}
