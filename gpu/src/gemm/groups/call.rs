//! What a call gives the groups of its product, checked before a kernel is built.

use std::marker::PhantomData;

use colex_device::{Device, Element, View};
use colex_layout::IntTuple;
use colex_tiled::Operand;

use super::Groups;
use super::problem::GroupProblem;
use crate::error::{Error, ErrorKind};
use crate::gemm::call::Gemm;
use crate::gemm::problem::{GemmElement, check_extent};

mod sealed {
    pub trait SealedNumber {}
    impl SealedNumber for u32 {}
    impl SealedNumber for i32 {}
}

/// A number of a group or of a list of rows: an offset, a count of rows, or a row. One of `i32` below 0 counts as one beyond the last
/// row.
pub trait GroupNumber: Element + sealed::SealedNumber {}

impl GroupNumber for u32 {}
impl GroupNumber for i32 {}

/// The numbers of a call's groups.
#[derive(Clone, Debug)]
pub(crate) struct GivenGroups<'a> {
    pub(crate) kind: Groups,
    numbers: i64,
    /// What is wrong with the view, if something is.
    refused: Option<String>,
    pub(crate) bytes: (u64, u64),
    pub(crate) device: Device,
    memory: PhantomData<&'a ()>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Groups { why }.into())
}

/// The number of elements of a view, if they are contiguous.
pub(crate) fn contiguous<X: Element>(view: &View<'_, X>) -> Option<i64> {
    let Some(layout) = view.layout() else {
        return Some(0);
    };
    match layout.coalesce(..).leaves() {
        [one] => {
            let is_contiguous =
                one.extent.value() == 1 || one.stride.as_int().map(|n| n.value()) == Some(1);
            is_contiguous.then(|| one.extent.value())
        }
        _ => None,
    }
}

impl<'a> GivenGroups<'a> {
    fn new<X: GroupNumber>(kind: Groups, view: &View<'a, X>) -> GivenGroups<'a> {
        let numbers = contiguous(view);
        let text = match view.layout() {
            Some(layout) => layout.to_string(),
            None => view.shape().to_string(),
        };
        GivenGroups {
            kind,
            numbers: numbers.unwrap_or(0),
            refused: numbers.is_none().then_some(text),
            bytes: view.bytes(),
            device: view.device().clone(),
            memory: PhantomData,
        }
    }

    /// What the numbers are called in sentences.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Groups::Rows | Groups::AlongK => "the vector of offsets",
            Groups::Masked => "the vector of counts",
        }
    }

    /// The number of groups.
    ///
    /// # Errors
    ///
    /// Returns an error if the numbers are not contiguous, or those of no number of groups.
    pub(crate) fn count(&self) -> Result<i64, Error> {
        let name = self.name();
        if let Some(layout) = &self.refused {
            return refuse(format!("{name} is {layout}: it must be contiguous"));
        }
        let groups = match self.kind {
            Groups::Masked => self.numbers,
            Groups::Rows | Groups::AlongK if self.numbers == 0 => {
                return refuse(format!("{name} is empty: G groups have G + 1 offsets"));
            }
            Groups::Rows | Groups::AlongK => self.numbers - 1,
        };
        check_extent("the number of groups", groups)?;
        Ok(groups)
    }

    /// Checks the modes behind the matrices, and returns those of C.
    ///
    /// # Errors
    ///
    /// Returns an error if a matrix has others than its groups.
    pub(crate) fn behind(&self, found: [Vec<i64>; 3]) -> Result<Vec<i64>, Error> {
        let groups = self.count()?;
        let wanted = |operand| {
            let has_mode = self.kind.has_mode(operand);
            has_mode.then_some(groups).into_iter().collect::<Vec<i64>>()
        };
        for (operand, found) in Operand::ALL.into_iter().zip(found) {
            if found == wanted(operand) {
                continue;
            }
            let found = match &found[..] {
                [] => "no mode".to_string(),
                [one] => one.to_string(),
                all => IntTuple::flat(all.iter().map(|n| (*n).into())).to_string(),
            };
            let form = match self.kind {
                Groups::Rows => "A is (M,K), B (N,K,G) and C (M,N)",
                Groups::Masked => "A is (M,K,G), B (N,K,G) and C (M,N,G)",
                Groups::AlongK => "A is (M,K), B (N,K) and C (M,N,G)",
            };
            return refuse(format!(
                "{} has {found} behind its matrix, and there are {groups} groups by {}: {form} for {}",
                operand.name(),
                self.name(),
                self.kind
            ));
        }
        Ok(wanted(Operand::C))
    }
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Computes the product in groups, as a mixture of experts has them. `numbers` are their offsets or counts, which lie on the
    /// device and which the host does not read: [`Groups`] says what they and the matrices are. They must not change while the
    /// kernel runs.
    ///
    /// Blocks find their tiles from the numbers. By the Hopper kernel they are persistent, and walk over the tiles of group after
    /// group. One tensor map describes a matrix of all groups: maps for each group would have to be written by the device, since
    /// only it knows where they begin. The tile at the end of a group therefore loads rows of the group behind it, which it does not
    /// store.
    ///
    /// ```
    /// use colex_gpu::gemm::Groups;
    /// use colex_gpu::{Device, Gemm, View};
    ///
    /// let device = Device::open();
    /// // Three rows of two numbers, and three experts with one column each: 10 and 10, 100 and 0, 0 and 1000.
    /// let a = device.upload(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let b = device.upload(&[10f32, 10.0, 100.0, 0.0, 0.0, 1000.0])?;
    /// let offsets = device.upload(&[0u32, 1, 1, 3])?; // row 0; none; rows 1 and 2
    /// let mut c = device.poisoned::<f32>(3)?;
    /// let experts = View::new(&b, "(1,2,3):(2,1,2)")?; // (N,K,G)
    /// Gemm::new(&a.view((3, 2))?, &experts, &c.view_mut((3, 1))?)
    ///     .groups(Groups::Rows, &offsets.view(4)?)
    ///     .run()?;
    /// assert_eq!(c.download()?, [30.0, 4000.0, 6000.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A call returns an error if the numbers are not contiguous or those of another number of groups, if a matrix has other modes or
    /// strides that no kernel takes, for reductions of an epilogue in groups of rows, some of which may belong to no group, and for
    /// [`Compute::Tf32x3`](crate::kernels::Compute::Tf32x3).
    pub fn groups<X: GroupNumber>(mut self, groups: Groups, numbers: &View<'a, X>) -> Self {
        self.groups = Some(GivenGroups::new(groups, numbers));
        self
    }

    /// Returns the problem of a product in groups, with the numbers that its plan is chosen for; `None` if it has no groups.
    ///
    /// ```
    /// use colex_gpu::gemm::Groups;
    /// use colex_gpu::{Device, Gemm};
    ///
    /// let device = Device::open();
    /// let (a, counts) = (device.upload(&[1f32; 24])?, device.upload(&[3i32, 0])?);
    /// let mut c = device.upload(&[0f32; 18])?;
    /// let matrices = a.view((3, 4, 2))?;
    /// let product = Gemm::new(&matrices, &matrices, &c.view_mut((3, 3, 2))?);
    /// let product = product.groups(Groups::Masked, &counts.view(2)?);
    /// let problem = product.group_problem()?.expect("it has groups");
    /// assert_eq!(problem.to_string(), "2 groups of masked rows, 3x3x4");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`gemm`](crate::gemm()) that concern the views.
    pub fn group_problem(&self) -> Result<Option<GroupProblem>, Error> {
        let Some(given) = &self.groups else {
            return Ok(None);
        };
        let [m, n, k] = self.extents()?.0;
        Ok(Some(GroupProblem {
            kind: given.kind,
            groups: given.count()?,
            m,
            n,
            k,
        }))
    }
}
