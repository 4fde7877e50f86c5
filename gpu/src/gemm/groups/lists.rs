//! Products by lists of matrices, "arrays of pointers": a kernel reads the addresses of a product's matrices from a table.
//!
//! A tensor map describes one matrix, so Hopper's kernel would need a map for each product in memory that its copies of maps are
//! fenced against. The kernels whose threads load do not: they add offsets to any address.

use std::marker::PhantomData;

use colex_atom::{Arch, Ty};
use colex_device::{Device, View, ViewMut};
use colex_layout::{Int, Layout};
use colex_tensor::{Builder, Index, Tensor};
use colex_tiled::Operand;

use super::tiles::MOST_GROUPS;
use crate::error::{Error, ErrorKind, disjoint};
use crate::gemm::call::Gemm;
use crate::gemm::factors::matrix::Matrix;
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::problem::GemmElement;
use crate::method::GemmMethod;

/// The addresses of a product's matrices: those of A, B and C.
const ROW: i64 = 3;

/// The lists of a call.
#[derive(Clone, Debug)]
pub(crate) struct GivenLists<'a> {
    addresses: Vec<[u64; 3]>,
    /// Those of every matrix, with its number in its list.
    bytes: Vec<(Operand, usize, (u64, u64))>,
    memory: PhantomData<&'a ()>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Batch { why }.into())
}

/// The layout of a table for a number of products.
pub(crate) fn form(count: i64) -> Layout {
    let modes = [(Int::Dynamic(count), ROW), (Int::Static(ROW), 1)];
    let modes = modes.map(|(extent, stride)| Layout::leaf(extent, Int::Static(stride)));
    let modes = modes.map(|mode| mode.expect("one leaf"));
    Layout::concat(&modes).expect("positive extents make a layout")
}

/// Declares the table of addresses.
pub(crate) fn declare(k: &mut Builder) -> Tensor {
    k.tensor("addresses", Ty::U64, form(16))
}

/// A matrix at its address for a product.
pub(crate) fn at(
    k: &mut Builder,
    (table, product): (&Tensor, &Index),
    (operand, matrix): (Operand, &Tensor),
    vector: i64,
) -> Tensor {
    let address = k.gather(&table.elements((product, operand as i64)));
    let bytes = vector * i64::from(matrix.ty().bits()) / 8;
    k.tensor_moved_to(matrix, &address, bytes)
}

/// The plan of a product by lists, or of a batch with more modes than tensor maps have: the usual one of the fastest kernel whose
/// threads load.
pub(crate) fn choose(operands: Operands, arch: Arch) -> GemmPlan {
    let mut methods = GemmMethod::BY_SPEED.into_iter();
    let suits = |method: &GemmMethod| {
        let plan = GemmPlan::new(*method, operands);
        check(&plan).is_ok() && method.fits(&operands, arch) && plan.check_kernel(arch).is_ok()
    };
    GemmPlan::new(methods.find(suits).unwrap_or(GemmMethod::Simt), operands)
}

/// Whether a plan's kernel takes lists.
///
/// # Errors
///
/// Returns an error that says why not.
pub(crate) fn check(plan: &GemmPlan) -> Result<(), Error> {
    match plan.method {
        GemmMethod::Simt | GemmMethod::Volta | GemmMethod::Ampere => Ok(()),
        GemmMethod::Hopper => refuse(
            "the Hopper kernel loads by tensor maps, and each matrix of a list would need one: the Ampere kernel takes lists"
                .to_string(),
        ),
        GemmMethod::Gemv => refuse(
            "the GEMV kernel takes one address of each matrix: the kernels of all rows take lists".to_string(),
        ),
    }
}

impl GivenLists<'_> {
    /// The number of products.
    pub(crate) fn count(&self) -> i64 {
        self.addresses.len() as i64
    }

    /// Returns the bytes of every matrix, with its number in its list.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (Operand, usize, (u64, u64))> {
        self.bytes.iter().copied()
    }

    /// Returns the matrices with addresses of the alignment that all matrices of each operand have.
    pub(crate) fn aligned(&self, mut matrices: [Matrix; 3]) -> [Matrix; 3] {
        for row in &self.addresses {
            for (matrix, address) in matrices.iter_mut().zip(row) {
                matrix.address |= address;
            }
        }
        matrices
    }

    /// The table as the device holds it. A and B of a product that is 0 are `zeros`.
    pub(crate) fn table(&self, zeros: Option<[u64; 2]>) -> Vec<u64> {
        let row = |[a, b, c]: &[u64; 3]| match zeros {
            Some([a, b]) => [a, b, *c],
            None => [*a, *b, *c],
        };
        self.addresses.iter().flat_map(row).collect()
    }
}

/// Checks that all matrices of a list have the device, the shape and the layout of the first.
fn check_list<X: colex_device::Element>(
    device: &Device,
    operand: Operand,
    views: &[&View<'_, X>],
) -> Result<(), Error> {
    let text = |view: &View<'_, X>| match view.layout() {
        Some(layout) => layout.to_string(),
        None => view.shape().to_string(),
    };
    let values = |view: &View<'_, X>| view.layout().map(Layout::to_static);
    let [first, others @ ..] = views else {
        return Ok(());
    };
    device.check_same("a matrix of a list", first.device())?;
    for (at, view) in others.iter().enumerate() {
        device.check_same("a matrix of a list", view.device())?;
        if view.shape() != first.shape() || values(view) != values(first) {
            return refuse(format!(
                "matrix {} of the list {} is {}, and the first {}: all matrices of a list have one layout",
                at + 1,
                operand.name(),
                text(view),
                text(first)
            ));
        }
    }
    Ok(())
}

/// Checks that no matrix of C overlaps another one.
fn check_apart(all: Vec<(Operand, usize, (u64, u64))>) -> Result<(), Error> {
    let mut all: Vec<_> = all
        .into_iter()
        .filter(|(_, _, (begin, end))| begin < end)
        .collect();
    all.sort_by_key(|(operand, at, bytes)| (*bytes, *operand as usize, *at));
    let name = |(operand, at, _): &(Operand, usize, (u64, u64))| format!("{} {at}", operand.name());
    // What reaches farthest of all matrices so far, and of those of C.
    let (mut farthest, mut of_c): (Option<usize>, Option<usize>) = (None, None);
    for i in 0..all.len() {
        let is_c = all[i].0 == Operand::C;
        let before = if is_c { farthest } else { of_c };
        if let Some(before) = before {
            let (c, other) = if is_c { (i, before) } else { (before, i) };
            disjoint(name(&all[c]), all[c].2, name(&all[other]), all[other].2)?;
        }
        let reaches = |known: Option<usize>| known.is_none_or(|known| all[known].2.1 < all[i].2.1);
        if reaches(farthest) {
            farthest = Some(i);
        }
        if is_c && reaches(of_c) {
            of_c = Some(i);
        }
    }
    Ok(())
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Builds the products of matrices at unrelated addresses in one launch: `C[i] = A[i] B[i]^T` of three lists of one length. The
    /// matrices of a list have one layout; one matrix may be in A or B several times.
    ///
    /// The call writes a table of the addresses to the device, which it owns, and the kernel reads the addresses of a product there.
    /// [`prepare`](Gemm::prepare) writes it once for any number of runs, also in a captured graph;
    /// [`run`](Gemm::run) writes it for one, and waits until the kernel has ended before it frees the table. Hopper's kernel needs a
    /// tensor map for each matrix and takes no lists: on `sm_90a` Ampere's kernel computes them. If the matrices lie at equal
    /// distances, a [batch](Gemm) of one view each is faster.
    ///
    /// Factors and [epilogues](Gemm::epilogue) are as for other products; the tensors of an epilogue have the shape (M,N), and all
    /// products read the same. An epilogue of lists has no outputs beside C.
    ///
    /// ```
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let upload = |x: f32| device.upload(&[x; 8 * 8]);
    /// let (a, b) = ([upload(1.0)?, upload(2.0)?, upload(3.0)?], upload(0.5)?);
    /// let mut c: Vec<_> = (0..3).map(|_| device.poisoned::<f32>(64)).collect::<Result<_, _>>()?;
    /// let views: Vec<_> = a.iter().map(|a| a.view((8, 8))).collect::<Result<_, _>>()?;
    /// let outputs: Vec<_> = c.iter_mut().map(|c| c.view_mut((8, 8))).collect::<Result<_, _>>()?;
    /// let b = b.view((8, 8))?;
    /// Gemm::lists(&views, &[b.clone(), b.clone(), b], &outputs)?.run()?;
    /// drop(outputs);
    /// assert_eq!(c[2].download()?, [12.0; 64]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the lists have no matrices or different numbers of them, if a matrix has another layout than the first of
    /// its list or lies on another device, or if a matrix of C overlaps another matrix. A call returns the errors of
    /// [`gemm`](crate::gemm::gemm), and one if a matrix has strides that no kernel takes: lists are not packed.
    pub fn lists(
        a: &[View<'a, T>],
        b: &[View<'a, T>],
        c: &[ViewMut<'a, C>],
    ) -> Result<Gemm<'a, T, C>, Error> {
        let [of_a, of_b, of_c] = [a.len(), b.len(), c.len()];
        let (Some(first_a), Some(first_b), Some(first_c)) = (a.first(), b.first(), c.first())
        else {
            return refuse(format!(
                "the lists have {of_a} matrices of A, {of_b} of B and {of_c} of C: there is at least one product"
            ));
        };
        if of_a != of_c || of_b != of_c {
            return refuse(format!(
                "the lists have {of_a} matrices of A, {of_b} of B and {of_c} of C: each product has one of each"
            ));
        }
        if of_c as i64 > MOST_GROUPS {
            let (what, most) = ("the number of products", MOST_GROUPS);
            let extent = of_c as i64;
            return Err(ErrorKind::Extent { what, extent, most }.into());
        }
        let device = first_a.device();
        check_list(device, Operand::A, &a.iter().collect::<Vec<_>>())?;
        check_list(device, Operand::B, &b.iter().collect::<Vec<_>>())?;
        let outputs: Vec<&View<'a, C>> = c.iter().map(|c| &**c).collect();
        check_list(device, Operand::C, &outputs)?;
        let bytes = [
            a.iter().map(View::bytes).collect::<Vec<_>>(),
            b.iter().map(View::bytes).collect(),
            outputs.iter().map(|c| c.bytes()).collect(),
        ];
        let all = Operand::ALL.into_iter().zip(&bytes);
        let all = all.flat_map(|(operand, of)| {
            let of = of.iter().enumerate();
            of.map(move |(at, bytes)| (operand, at, *bytes))
        });
        let all_bytes: Vec<(Operand, usize, (u64, u64))> = all.collect();
        check_apart(all_bytes.clone())?;
        let row = |i: usize| [0, 1, 2].map(|operand: usize| bytes[operand][i].0);
        let lists = GivenLists {
            addresses: (0..of_c).map(row).collect(),
            bytes: all_bytes,
            memory: PhantomData,
        };
        let mut gemm = Gemm::new(first_a, first_b, first_c);
        gemm.lists = Some(lists);
        Ok(gemm)
    }

    /// Checks that a product by lists asks for nothing that only other products have.
    pub(in crate::gemm) fn check_lists(&self) -> Result<(), Error> {
        let Some(lists) = &self.lists else {
            return Ok(());
        };
        if self.has_second() || self.groups.is_some() {
            return refuse("a product by lists has one right factor, and no groups".to_string());
        }
        if self.is_three_products() {
            return refuse(
                "3xTF32 divides each matrix into high and low parts, and lists are not packed: `Compute::Tf32` takes lists"
                    .to_string(),
            );
        }
        for (name, bytes) in self.given_memory() {
            for (operand, at, of_c) in lists
                .memory()
                .filter(|(operand, ..)| *operand == Operand::C)
            {
                disjoint(
                    format!("{} {at}", operand.name()),
                    of_c,
                    name.clone(),
                    bytes,
                )?;
            }
        }
        let mut epilogue = self.own_epilogue().into_iter();
        let more = |epilogue: &crate::gemm::Epilogue| {
            epilogue.outputs().count() > 1 || epilogue.reductions().next().is_some()
        };
        if lists.count() > 1 && epilogue.any(more) {
            return refuse(
                "the epilogue of a product by lists has outputs beside C, which all products would write: C alone has a list"
                    .to_string(),
            );
        }
        Ok(())
    }
}
