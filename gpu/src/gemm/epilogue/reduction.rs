//! Sums and maxima of rows and columns: a kernel behind the product.
//!
//! It reads the elements that the product stored, a warp for each row or column. The order in which a warp adds depends on nothing
//! but their number, so that a vector has the same bits for every plan of the product, and the host adds in that order too
//! ([`EpilogueReduction::evaluate`](super::expression::EpilogueReduction::evaluate)).

use std::sync::Arc;

use colex_atom::{Arch, Ty};
use colex_device::{Device, Extension};
use colex_ir::BinaryOp;
use colex_ir::launch::Launch;
use colex_layout::{C, Layout};
use colex_tensor::{Arg, Builder, Expr, Outside, TensorKernel};

use super::expression::{LANES, nothing};
use super::terms::Form;
use crate::calls::{Call, KernelOf, PreparedCalls, PreparedLaunch, Shape};
use crate::error::Error;

/// The threads of a block.
const THREADS: i64 = 128;

/// The elements that a thread loads before it reduces them.
const IN_FLIGHT: i64 = 4;

/// The most rows or columns of all products of a batch.
pub(crate) const MOST_KEPT: i64 = 1 << 26;

/// The most elements of a row or column.
pub(crate) const MOST_REDUCED: i64 = 1 << 26;

/// The cache of the reductions of a device.
#[derive(Debug)]
pub(crate) struct PreparedReductions(PreparedCalls<ReductionShape, ReductionKernel, ()>);

impl Default for PreparedReductions {
    fn default() -> PreparedReductions {
        PreparedReductions(PreparedCalls::new())
    }
}

impl Extension for PreparedReductions {
    fn clear(&self) {
        self.0.clear();
    }
}

/// The operation, the type, and the layouts: (kept, reduced) of the elements, and (kept, 1) of the vector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReductionShape {
    pub(crate) op: BinaryOp,
    pub(crate) ty: Ty,
    pub(crate) layouts: [Layout; 2],
    /// Whether each number of the vector is made of no elements. The first layout is the vector's then, and nothing is read.
    pub(crate) of_nothing: bool,
}

impl ReductionShape {
    /// That of a vector whose numbers are made of no elements.
    pub(crate) fn of_nothing(op: BinaryOp, ty: Ty, vector: Layout) -> ReductionShape {
        ReductionShape {
            op,
            ty,
            layouts: [vector.clone(), vector],
            of_nothing: true,
        }
    }
}

/// Reductions, each with the addresses of its elements and its vector.
pub(crate) type Reductions = Vec<(ReductionShape, [u64; 2])>;

/// The operation, the type, the forms of the layouts, and whether there are no elements.
type ReductionKernel = (BinaryOp, Ty, [Layout; 2], bool);

/// Prepares the reduction of elements at an address into a vector at another.
///
/// # Errors
///
/// Returns the error of the kernel, and the device's if it does not load or launch it.
pub(crate) fn reduction(
    device: &Device,
    shape: ReductionShape,
    addresses: [u64; 2],
) -> Result<Arc<Call<()>>, Error> {
    let calls = &device.extension::<PreparedReductions>().0;
    calls.call(shape, &addresses, device, |shape| {
        // Nothing is known of addresses: each element is an access.
        let forms = shape.layouts.each_ref();
        let forms = forms.map(|layout| Form::of(layout, 1, 1).layout);
        let key = (shape.op, shape.ty, forms, shape.of_nothing);
        let kernel = calls.kernels.get_or_make(&key, || {
            let built = Arc::new(build(&key, device.arch())?);
            let loaded = device.load_kernel(&built.kernel)?;
            Ok::<_, Error>(KernelOf { built, loaded })
        })?;
        let layouts = shape.layouts.iter().zip(addresses);
        let given: Vec<Arg<'_>> = layouts
            .map(|(layout, address)| Arg::checked(address, layout))
            .collect();
        let given = kernel.built.arguments(&given)?;
        let [kept, _] = extents(&shape.layouts[0]);
        let warps = THREADS / LANES as i64;
        let grid = Launch::new(((kept + warps - 1) / warps) as u32, THREADS as u32);
        let loaded = kernel.loaded.clone();
        loaded.check_launch(&grid, &given, device.limits())?;
        let launch = PreparedLaunch::new(loaded, grid, given, &addresses, 0..2);
        Ok(Shape::new((), vec![launch]))
    })
}

/// The extents of the modes that are kept and reduced.
fn extents(elements: &Layout) -> [i64; 2] {
    [0, 1].map(|at| elements.mode(at).map_or(1, |mode| mode.size()))
}

/// Builds the kernel. Its parameters are the elements and the vector.
pub(crate) fn build(
    (op, ty, [elements, vector], of_nothing): &ReductionKernel,
    arch: Arch,
) -> Result<TensorKernel, colex_tensor::Error> {
    let (op, ty, lanes) = (*op, *ty, LANES as i64);
    let mut k = Builder::new("gemm_reduce", arch, THREADS as u32);
    let elements = k.tensor("elements", ty, elements);
    let vector = k.tensor("vector", ty, vector);
    let length = k.within(elements.extent(1), 1..MOST_REDUCED + 1);
    let warps = THREADS / lanes;
    let block = k.block_index(0);
    let block = k.within(block, 0..MOST_KEPT / warps);
    let thread = k.thread();
    let (row, lane) = (block * warps + &thread / lanes, &thread % lanes);
    let total = k.fragment(ty, (C::<1>, C::<0>));
    let begin = if op == BinaryOp::Max && !of_nothing {
        // A lane that has no element takes the last one, which changes no maximum.
        let own = elements.elements((&row, &lane)).outside(Outside::Clamp);
        let own = k.gather(&own);
        k.assign(&total, &own);
        lanes
    } else {
        k.assign(&total, nothing(ty));
        0
    };
    if !of_nothing {
        k.for_(begin, &length, lanes * IN_FLIGHT, |k, first| {
            let at = |i: i64| first + &lane + i * lanes;
            let loaded: Vec<_> = (0..IN_FLIGHT)
                .map(|i| k.gather(&elements.elements((&row, at(i)))))
                .collect();
            for (i, element) in (0..).zip(&loaded) {
                let next = Expr::binary(op, &total, element);
                let is_there = Expr::from(at(i)).lt(&length);
                k.assign(&total, is_there.select(next, &total));
            }
        });
    }
    let total = k.reduce_warp(op, &total);
    let is_first = Expr::from(&lane).equals(0);
    k.scatter(&total, &vector.elements((&row, 0)).only(is_first));
    k.finish()
}
