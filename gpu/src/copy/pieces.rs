//! Helpers of the copy kernels: element types, tiled copies, coordinates of a block.

use colex_atom::{CopyAtom, Space, Ty};
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};
use colex_tiled::TiledCopy;

use super::loop_nest::Loop;
use super::plan::CopyPlan;
use colex_tensor::{AtThread, Builder, Error, Index, Tensor};

/// The alignment of the address and the strides of a tensor map, in bytes.
pub(crate) const MAP: i64 = 16;

/// The unsigned type with which elements of `bytes` bytes are copied.
pub(crate) fn raw(bytes: i64) -> Ty {
    match bytes {
        1 => Ty::U8,
        2 => Ty::U16,
        4 => Ty::S32,
        _ => Ty::F64,
    }
}

/// The universal copy atom of `bits` bits.
pub(crate) fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

/// Threads of a block, each with a vector of `vector` elements, one after the other.
pub(crate) fn row_of_vectors(threads: i64, bytes: i64, vector: i64) -> Result<TiledCopy, Error> {
    let line = |n: i64| Layout::column_major(n);
    let atom = universal(8 * bytes * vector);
    Ok(TiledCopy::new(
        atom,
        8 * bytes,
        &line(threads)?,
        &line(vector)?,
    )?)
}

/// The layout of a tensor of which the launch says all but which mode runs fastest: extents and strides of the nest's
/// loops, that stride of 1 static.
pub(crate) fn dynamic(
    loops: &[Loop],
    stride: impl Fn(&Loop) -> i64,
    fastest: Option<usize>,
) -> Layout {
    let shape = IntTuple::flat(loops.iter().map(|step| Int::Dynamic(step.extent)));
    let strides = loops.iter().enumerate().map(|(i, step)| match fastest {
        Some(fastest) if fastest == i => Stride::Int(Int::Static(1)),
        _ => Stride::Int(Int::Dynamic(stride(step))),
    });
    let layout = Layout::new(shape, Tuple::flat(strides));
    layout.expect("extents of a nest are positive")
}

/// The layouts of a copy whose first loop runs fastest in the source and whose second in the destination.
pub(crate) fn crossed(loops: &[Loop]) -> [Layout; 2] {
    [
        dynamic(loops, |step| step.source, Some(0)),
        dynamic(loops, |step| step.destination, Some(1)),
    ]
}

/// Returns why a copy has no tiles of two modes.
pub(crate) fn not_crossed(plan: &CopyPlan) -> Option<String> {
    let why = "the source and the destination run fastest along one mode, or along none";
    plan.crossed().is_none().then(|| why.into())
}

/// The digits of a number by these extents, the last one unbounded.
pub(crate) fn digits(number: &Index, extents: &[Index]) -> Vec<Index> {
    let (mut rest, mut digits) = (number.clone(), Vec::new());
    for (i, extent) in extents.iter().enumerate() {
        if i + 1 == extents.len() {
            digits.push(rest.clone());
        } else {
            digits.push(&rest % extent);
            rest = rest / extent;
        }
    }
    digits
}

/// What a thread has of `from` goes to the same coordinates of `to` through its registers; `inside`, only where they
/// are within the tensor in global memory, else the caller has made sure of it.
pub(crate) fn through_registers(
    k: &mut Builder,
    copy: &TiledCopy,
    thread: &Index,
    [from, to]: [&Tensor; 2],
    inside: bool,
) {
    let part = copy.at(thread);
    let known = |tensor: &Tensor| {
        if inside {
            tensor.clone()
        } else {
            tensor.stated_inside()
        }
    };
    // Both (CPY, CPY_M, CPY_N, ..): after the values of an instruction one mode for each mode of the tile.
    let (source, destination) = (
        part.partition_src(&known(from)),
        part.partition_dst(&known(to)),
    );
    // Single bytes take one register each.
    let held = if copy.atom_values() * copy.value_bits() > 8 {
        k.fragment_like(&source)
    } else {
        k.fragment_unpacked(&source)
    };
    let bounded = |tensor: &Tensor| inside && tensor.space() == Space::Global;
    if bounded(from) {
        k.copy_in_bounds(copy, &source, &held);
    } else {
        k.copy(copy, &source, &held);
    }
    if bounded(to) {
        k.copy_in_bounds(copy, &held, &destination);
    } else {
        k.copy(copy, &held, &destination);
    }
}
