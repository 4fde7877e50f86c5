//! Quantisation as calls: checked, planned, built once for each plan, launched.

use core::fmt;
use std::sync::LazyLock;

use colex_atom::{Arch, Ty};
use colex_device::{
    BareLaunch, Device, Element, Extension, Function, Memo, View, ViewKey, ViewMut,
};
use colex_layout::{Layout, Stride, Tuple};
use colex_sim::Report;
use colex_tensor::{Arg, Expr, TensorKernel};

use super::kernel::scale_of;
use super::plan::{QuantiseAccess, QuantisePlan};
use super::problem::{QuantiseProblem, check_source, check_target};
use super::scale::TensorScalePlan;
use crate::calls::{Addresses, same_device};
use crate::elementwise::call::{Checked, GivenView, check_memory};
use crate::elementwise::{ElementwiseCall, Map, MapExpression};
use crate::error::{Error, QuantiseError};
use crate::gemm::epilogue::arguments::rust_type;
use crate::gemm::problem::GemmElement;
use crate::memory_bound::MemoryBoundCall;
use crate::memory_bound::apart::{Elements, apart};
use crate::memory_bound::call::{
    BuiltKernels, LaunchGrid, Made, NOTHING, Planned, Preparing, load_planned, load_plans,
};
use crate::memory_bound::modes::extents;
use crate::memory_bound::modes::{has_elements, modes, of_modes, one_leaf, repeated, shown};
use crate::memory_bound::plan::{div_up, product, steps};
use crate::memory_bound::traffic::{Traffic, first_access};
use crate::recent::{CallKind, GivenCall};
use crate::reduce::{Reduce, ReduceCall, ReduceFunction, ReducePlan, ReduceProblem};
use crate::scratch::Workspace;

/// Computes each row of `x`, the last mode, in 8 bits of the type `to`: `q = x / scale`, and the scale of a row is the largest size
/// in it over the largest number of the type. `q` has the shape of `x`, and `scales` that of its rows. [`Quantise`] has the scales
/// of blocks and of a tensor.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::{Device, quantise};
///
/// let device = Device::open();
/// let x = device.upload(&[1f32, -2.0, 0.25, 0.0])?;
/// let (mut q, mut scales) = (device.poisoned::<i8>(4)?, device.poisoned::<f32>(2)?);
/// quantise(Ty::S8, &x.view((2, 2))?, &q.view_mut((2, 2))?, &scales.view_mut(2)?)?;
/// assert_eq!(q.download()?, [64, -127, 127, 0]);
/// assert_eq!(scales.download()?, [2.0 / 127.0, 0.25 / 127.0]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`Quantise::run`].
pub fn quantise<T: GemmElement, Q: Element>(
    to: Ty,
    x: &View<'_, T>,
    q: &ViewMut<'_, Q>,
    scales: &ViewMut<'_, f32>,
) -> Result<(), Error> {
    Quantise::new(to, x, q).rows(scales).run()
}

/// What a computed scale takes.
#[derive(Clone, Debug)]
struct Computed<'a, T> {
    most: Reduce<'a, T>,
    maps: [Map<'a>; 2],
}

/// Which numbers share a scale.
#[derive(Clone, Debug)]
enum Scales<'a> {
    Tensor(f32),
    /// Of the whole tensor, as an output; by a plan of the caller, if there is one.
    Computed(View<'a, f32>, Option<TensorScalePlan>),
    /// The columns of a block, if a row has several; the scales.
    Rows(Option<i64>, Box<GivenView>),
}

/// A quantisation that is being described. Its arithmetic is that of [`reference::row`](super::reference::row), bit for bit: a
/// number is multiplied in f32 by the reciprocal of the scale, and the product is rounded to nearest even, and to the largest number
/// of the type beyond it.
///
/// A NaN counts for no scale, and becomes 0 in `s8` and a NaN in the 8-bit floats. The scale of a row with an infinity is infinite:
/// its finite numbers become 0. Dequantisation is a [map](crate::elementwise::Map) over `q` and the scales, which have the stride 0
/// along the columns that share one.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::Device;
/// use colex_gpu::quantise::Quantise;
///
/// let device = Device::open();
/// let x = device.upload(&[1f32, -3.0, 2.4, 1000.0])?;
/// let mut q = device.poisoned::<i8>(4)?;
/// Quantise::new(Ty::S8, &x.view(4)?, &q.view_mut(4)?).tensor(2.0).run()?;
/// assert_eq!(q.download()?, [0, -2, 1, 127]); // 0.5 and -1.5 are rounded to even
///
/// // Blocks of 3 columns; the last one is shorter.
/// let mut scales = device.poisoned::<f32>(2)?;
/// Quantise::new(Ty::S8, &x.view(4)?, &q.view_mut(4)?).blocks(3, &scales.view_mut(2)?).run()?;
/// assert_eq!(q.download()?, [42, -127, 102, 127]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Quantise<'a, T, Q> {
    to: Ty,
    x: View<'a, T>,
    q: View<'a, Q>,
    output: &'static str,
    scales: Scales<'a>,
}

/// Whether a tensor of this layout has every element of its memory once.
fn has_no_gaps(layout: &Layout) -> bool {
    let is_whole = layout.cosize().is_ok_and(|all| all == layout.size());
    is_whole && layout.is_injective().unwrap_or(false)
}

/// Returns the function that plans the largest size of a tensor. Parts in q are added by a second kernel: counters, by which the last block
/// would find itself, cannot lie in q, which is not 0, and a stream capture has no others.
fn of_parts(are_in_q: bool) -> impl Fn(&ReduceProblem) -> Result<ReducePlan, Error> {
    move |problem| {
        let plan = ReducePlan::fastest(problem)?;
        Ok(ReducePlan {
            last_adds: plan.last_adds && !are_in_q,
            ..plan
        })
    }
}

/// Checks that a tensor has a mode of columns.
fn check_rank(extents: &[i64]) -> Result<(), Error> {
    if extents.is_empty() {
        let x = shown(extents);
        return Err(QuantiseError::Rank { x }.into());
    }
    Ok(())
}

/// Whether scales have the extents of the rows. The scale of a tensor of one mode may be one number.
fn has_extents(found: &[i64], wanted: &[i64]) -> bool {
    found == wanted || wanted.is_empty() && found == [1]
}

/// The shape of such extents.
fn as_shape(extents: &[i64]) -> String {
    match extents {
        [] => "1".to_string(),
        all => shown(all),
    }
}

/// The most columns of a block.
const MOST_BLOCK: i64 = 1 << 30;

/// The maps of a scale for a tensor, by type and target.
static MADE: LazyLock<Memo<(Ty, Ty), MapExpression>> = LazyLock::new(|| Memo::new(16));

fn of_tensor(from: Ty, to: Ty) -> Result<MapExpression, Error> {
    let made = MADE.get_or_make(&(from, to), || {
        MapExpression::new(|m| {
            let x = m.tensor("x", from).to(Ty::F32);
            let element = x * m.scalar("inverse", Ty::F32);
            m.output("q", element.saturating(to));
        })
    });
    Ok((*made?).clone())
}

/// The types, elements and last bits of the addresses of tensors of which a device has the kernels of a computed scale without memory.
#[derive(Debug)]
struct WithoutMemory(Memo<([Ty; 2], i64, [u8; 3]), ()>);

impl Default for WithoutMemory {
    fn default() -> WithoutMemory {
        WithoutMemory(Memo::new(256))
    }
}

impl Extension for WithoutMemory {
    fn clear(&self) {
        self.0.clear();
    }
}

/// The plan and the number of elements of recent calls of a computed scale, which take their memory anew each time. What was checked
/// depends on what the caller gives alone, but for the devices.
#[derive(Debug)]
struct RecentScales(Memo<(GivenCall, Option<TensorScalePlan>), (TensorScalePlan, i64)>);

impl Default for RecentScales {
    fn default() -> RecentScales {
        RecentScales(Memo::new(256))
    }
}

impl Extension for RecentScales {
    fn clear(&self) {
        self.0.clear();
    }
}

/// The maps of a computed scale, by type and target: from the largest size to the scale, and the numbers by it.
static COMPUTED: LazyLock<Memo<(Ty, Ty), [MapExpression; 2]>> = LazyLock::new(|| Memo::new(16));

fn of_computed(from: Ty, to: Ty) -> Result<[MapExpression; 2], Error> {
    let made = COMPUTED.get_or_make(&(from, to), || {
        let scale = MapExpression::new(|m| {
            let most = m.tensor("most", Ty::F32);
            m.output("scale", scale_of(most, to));
        })?;
        let numbers = MapExpression::new(|m| {
            let x = m.tensor("x", from).to(Ty::F32);
            let scale = m.tensor("scale", Ty::F32);
            // A tensor of zeros stays one.
            let inverse = scale.equals(0.0).select(0.0, Expr::from(1.0) / &scale);
            m.output("q", (x * inverse).saturating(to));
        })?;
        Ok::<_, Error>([scale, numbers])
    });
    Ok((*made?).clone())
}

impl<'a, T: GemmElement, Q: Element> Quantise<'a, T, Q> {
    /// Builds the call on `x` and `q`, which have one shape. The scale is 1 unless another is asked for. Elements of `s8` are `i8`,
    /// and those of `e4m3` and `e5m2` are `u8`.
    pub fn new(to: Ty, x: &View<'a, T>, q: &ViewMut<'a, Q>) -> Quantise<'a, T, Q> {
        Quantise {
            to,
            x: x.clone(),
            q: (**q).clone(),
            output: Q::NAME,
            scales: Scales::Tensor(1.0),
        }
    }

    /// Sets a scale by which all numbers are divided.
    pub fn tensor(self, scale: f32) -> Self {
        Quantise {
            scales: Scales::Tensor(scale),
            ..self
        }
    }

    /// Makes the scale of the whole tensor an output of one element: the largest size in `x` over the largest number of the type. If
    /// [`tensor_scale_by`](Quantise::tensor_scale_by) takes the tensors, the plan is one of a [`TensorScalePlan`]: from 32 MiB of `x` on, one
    /// launch of [`TensorScalePlan::at_once`], on architectures since `sm_80`; otherwise, up to 128 MiB, the two launches of
    /// [`TensorScalePlan::fastest`], with fewer blocks for a small tensor, which read `x` twice. A [reduction](ReduceFunction::AbsMax) and
    /// maps do the rest. The largest size does not depend on the order of the elements, so that the scale has the same bits on every run and
    /// by every way. If `x` has no element, no scale is stored.
    ///
    /// A plan needs memory for the largest sizes of the blocks. A prepared call owns it, and a call that is not takes it from the stream's.
    /// The blocks of one launch wait for each other in this memory, so two runs of one prepared call at once, on two streams, may never end.
    /// A stream capture has no memory: a call that is not prepared takes the reduction and the maps there, with the parts of the
    /// reduction in `q` until `q` is written. All multiprocessors work in both ways. Only if `q` has gaps, one block finds the
    /// largest size in a capture. The kernels of a capture are loaded by the first call outside of one, or by
    /// [`load_plans`](Quantise::load_plans).
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::Quantise;
    ///
    /// let device = Device::open();
    /// let x = device.upload(&[1f32, -2.0, 0.25, f32::NAN])?;
    /// let (mut q, mut scale) = (device.poisoned::<i8>(4)?, device.poisoned::<f32>(1)?);
    /// let (x, to) = (x.view((2, 2))?, q.view_mut((2, 2))?);
    /// Quantise::new(Ty::S8, &x, &to).tensor_scale(&scale.view_mut(1)?).run()?;
    /// assert_eq!(scale.download()?, [2.0 / 127.0]);
    /// assert_eq!(q.download()?, [64, -127, 16, 0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor_scale(self, scale: &ViewMut<'a, f32>) -> Self {
        Quantise {
            scales: Scales::Computed((**scale).clone(), None),
            ..self
        }
    }

    /// Makes the scale of the whole tensor an output, as [`tensor_scale`](Quantise::tensor_scale) does with the same bits, by a plan of the
    /// caller. `x` and `q` must have their elements in one order without gaps. If there is no memory for the largest
    /// sizes of the blocks, as inside a stream capture, the call takes the way that [`tensor_scale`](Quantise::tensor_scale) takes there.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::{Quantise, TensorScalePlan};
    ///
    /// let device = Device::open();
    /// let x = device.upload(&[1f32, -2.0, 0.25, f32::NAN])?;
    /// let (mut q, mut scale) = (device.poisoned::<i8>(4)?, device.poisoned::<f32>(1)?);
    /// let (x, to) = (x.view((2, 2))?, q.view_mut((2, 2))?);
    /// let plan = TensorScalePlan::fastest(Ty::F32, Ty::S8);
    /// Quantise::new(Ty::S8, &x, &to).tensor_scale_by(&scale.view_mut(1)?, plan).run()?;
    /// assert_eq!(scale.download()?, [2.0 / 127.0]);
    /// assert_eq!(q.download()?, [64, -127, 16, 0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor_scale_by(self, scale: &ViewMut<'a, f32>, plan: TensorScalePlan) -> Self {
        Quantise {
            scales: Scales::Computed((**scale).clone(), Some(plan)),
            ..self
        }
    }

    /// The plan for tensors with these layouts: the caller's, or the default one if it takes them.
    fn plan_of(
        &self,
        given: Option<TensorScalePlan>,
        layouts: [&Layout; 2],
    ) -> Option<TensorScalePlan> {
        let [x, _] = layouts;
        given.or_else(|| {
            let device = self.x.device();
            let on = (device.arch(), device.limits().multiprocessors);
            let plan = TensorScalePlan::default_of([T::TY, self.to], x.size(), on)?;
            let takes = self.elements(&plan, layouts).is_ok();
            takes.then_some(plan)
        })
    }

    /// The number of the elements of x and q with these layouts, where they lie here, of which a plan takes all.
    fn elements(&self, plan: &TensorScalePlan, layouts: [&Layout; 2]) -> Result<i64, Error> {
        let at = [self.x.bytes().0, self.q.bytes().0];
        plan.elements([T::TY, self.to], layouts, at)
    }

    /// The call by a plan, which `computed` has checked but for the plan. `None` if the plan needs memory and there is none.
    fn whole(
        &self,
        scale: &View<'a, f32>,
        (plan, [x, q]): (TensorScalePlan, [&Layout; 2]),
        memory: &Workspace<'_>,
    ) -> Result<Option<MemoryBoundCall<'a, TensorScalePlan>>, Error> {
        let device = self.x.device();
        plan.check(device.arch())?;
        plan.check_device(device.limits().multiprocessors)?;
        let key = (plan, self.elements(&plan, [x, q])?);
        self.whole_of(scale, key, memory)
    }

    /// The same by a plan that was checked, of a number of elements.
    fn whole_of(
        &self,
        scale: &View<'a, f32>,
        key: (TensorScalePlan, i64),
        memory: &Workspace<'_>,
    ) -> Result<Option<MemoryBoundCall<'a, TensorScalePlan>>, Error> {
        let (device, plan) = (self.x.device(), key.0);
        let addresses = [self.x.bytes().0, self.q.bytes().0, scale.bytes().0];
        if plan.blocks == 1 {
            return Ok(Some(MemoryBoundCall::of(device, key, &addresses)?));
        }
        let addresses = Addresses::from_slice(&addresses);
        MemoryBoundCall::in_memory(device, memory, (key, plan.shared()), addresses)
    }

    /// Prepares the launches of a computed scale.
    ///
    /// A plan needs memory while it writes q. If there is none, as in a stream capture, the largest size is found before:
    /// q, which has no gaps, is the memory of its parts.
    fn prepare_scale(
        &self,
        (scale, plan): (&View<'a, f32>, Option<TensorScalePlan>),
        memory: &Workspace<'_>,
    ) -> Result<QuantiseCall<'a>, Error> {
        let device = self.x.device();
        let nothing = QuantiseCall::of_nothing(device);
        let computed = self.computed(scale)?;
        let (Some(computed), Some(x), Some(q)) = (computed, self.x.layout(), self.q.layout())
        else {
            return Ok(nothing);
        };
        if let Some(plan) = self.plan_of(plan, [x, q]) {
            let whole = self.whole(scale, (plan, [x, q]), memory)?;
            if whole.is_some() {
                self.load_without_memory(&computed, plan, scale)?;
                return Ok(QuantiseCall { whole, ..nothing });
            }
        }
        let Computed { most, maps } = computed;
        let parts_in = self.parts_in(q);
        let memory = parts_in.as_ref().unwrap_or(memory);
        Ok(QuantiseCall {
            most: Some(most.call(memory, of_parts(parts_in.is_some()))?),
            scale: Some(maps[0].prepare()?),
            map: Some(maps[1].prepare()?),
            ..nothing
        })
    }

    /// q as the memory of the parts of the largest size, which are read before it is written; `None` if others may have its gaps.
    fn parts_in(&self, q: &Layout) -> Option<Workspace<'static>> {
        let (begin, end) = self.q.bytes();
        has_no_gaps(q).then_some(Workspace::Given([begin, end]))
    }

    /// Loads the kernels of the same call without memory, once for each number of elements: a stream capture of it loads none.
    fn load_without_memory(
        &self,
        Computed { most, maps }: &Computed<'a, T>,
        plan: TensorScalePlan,
        scale: &View<'a, f32>,
    ) -> Result<(), Error> {
        if plan.blocks == 1 {
            return Ok(());
        }
        let device = self.x.device();
        let low = [self.x.bytes().0, self.q.bytes().0, scale.bytes().0].map(|at| at as u8);
        let key = (
            [T::TY, self.to],
            self.x.layout().map_or(0, Layout::size),
            low,
        );
        let loaded = device.extension::<WithoutMemory>();
        loaded.0.get_or_make(&key, || {
            // The tensors that a plan takes have no gaps.
            load_plans(device, [most.problem()], of_parts(true))?;
            Checked::load_plans(device, maps.iter().map(Map::checked))?;
            Ok::<(), Error>(())
        })?;
        Ok(())
    }

    /// The steps of a computed scale: the largest size, the scale in its place, and the numbers. None if there is no element.
    fn computed(&self, scale: &View<'a, f32>) -> Result<Option<Computed<'a, T>>, Error> {
        let device = self.x.device();
        device.check_same("q", self.q.device())?;
        device.check_same("the scale", scale.device())?;
        let leaves = scale.shape().leaves();
        let is_one = leaves.iter().all(|extent| extent.value() == 1);
        if self.x.shape() != self.q.shape() || !is_one {
            let (name, found, wanted) = if is_one {
                ("q", self.q.shape(), self.x.shape().to_string())
            } else {
                ("the scale", scale.shape(), "1".to_string())
            };
            let (found, x) = (found.to_string(), self.x.shape().to_string());
            return Err(QuantiseError::Shape {
                name,
                found,
                wanted,
                x,
            }
            .into());
        }
        let (of_x, of_q) = (Elements::of(&self.x), Elements::of(&self.q));
        apart(("q", of_q), ("x", of_x))?;
        apart(("the scale", Elements::of(scale)), ("x", of_x))?;
        apart(("the scale", Elements::of(scale)), ("q", of_q))?;
        let Some(layout) = self.x.layout() else {
            return Ok(None);
        };
        let [of_scale, of_numbers] = of_computed(T::TY, self.to)?;
        // The reduction takes each leaf as a mode.
        let x = self.x.with_layout(layout.flatten())?;
        let modes: Vec<usize> = (0..layout.leaves().len()).collect();
        let one = scale.with_layout(Layout::leaf(1, 1).map_err(colex_tensor::Error::from)?)?;
        let still = if layout.is_leaf() {
            Layout::leaf(layout.size(), 0)
        } else {
            let still = layout.leaves().iter().map(|_| Stride::from(0));
            Layout::new(layout.flatten().shape(), Tuple::flat(still))
        };
        let still = still.map_err(colex_tensor::Error::from)?;
        let q = self.q.layout().expect("q has the shape of x").flatten();
        let numbers = Map::new(&of_numbers)
            .input("x", &x)
            .input("scale", &scale.with_layout(still)?)
            .with("q", &self.q.with_layout(q)?, true);
        let scale = Map::new(&of_scale)
            .input("most", &one)
            .with("scale", &one, true);
        Ok(Some(Computed {
            most: Reduce::of_views(ReduceFunction::AbsMax, &x, &modes, &one),
            maps: [scale, numbers],
        }))
    }

    /// Makes the scale of each row, the last mode, an output: it is computed from the row.
    pub fn rows(self, scales: &ViewMut<'a, f32>) -> Self {
        let given = GivenView::new("scales", scales, true);
        Quantise {
            scales: Scales::Rows(None, Box::new(given)),
            ..self
        }
    }

    /// Makes the scale of each block of `columns` columns of a row an output: it is computed from the block. `scales` have the shape of
    /// the rows, and a last mode of the blocks. The last block of a row may be shorter.
    pub fn blocks(self, columns: i64, scales: &ViewMut<'a, f32>) -> Self {
        let given = GivenView::new("scales", scales, true);
        Quantise {
            scales: Scales::Rows(Some(columns), Box::new(given)),
            ..self
        }
    }

    /// Checks what a call gives, and returns its parts: their problems and the addresses of x, q and the scales.
    fn parts(&self) -> Result<Vec<(QuantiseProblem, [u64; 3])>, Error> {
        let Scales::Rows(block, scales) = &self.scales else {
            return Ok(Vec::new());
        };
        let (x, q) = (
            GivenView::new("x", &self.x, false),
            GivenView::new("q", &self.q, true),
        );
        let device = self.x.device();
        device.check_same("q", &q.device)?;
        device.check_same("the scales", &scales.device)?;
        apart(("q", q.elements()), ("x", x.elements()))?;
        apart(("the scales", scales.elements()), ("x", x.elements()))?;
        check_memory(&[q.clone(), (**scales).clone()])?;
        self.parts_of([&x, &q, scales], (*block, &extents(scales.key.shape())))
    }

    /// The parts of a call on such tensors, whose memory was checked. The scales have these extents.
    fn parts_of(
        &self,
        [x, q, scales]: [&GivenView; 3],
        (block, found): (Option<i64>, &[i64]),
    ) -> Result<Vec<(QuantiseProblem, [u64; 3])>, Error> {
        let shape = |name: &'static str, found: &str, wanted: String| {
            Err(Error::from(QuantiseError::Shape {
                name,
                found: found.to_string(),
                wanted,
                x: x.shape(),
            }))
        };
        check_rank(&x.extents())?;
        if let Some(block) = block.filter(|block| !(1..=MOST_BLOCK).contains(block)) {
            let most = MOST_BLOCK;
            return Err(QuantiseError::Block { block, most }.into());
        }
        let (Some(of_x), Some(of_q)) = (x.layout(), q.layout()) else {
            if x.shape() != q.shape() {
                return shape("q", &q.shape(), x.shape());
            }
            let all = extents(self.x.shape());
            let (columns, rows) = all.split_last().expect("a shape has a mode");
            let blocks = block.map(|block| columns.saturating_add(block - 1) / block);
            let wanted: Vec<i64> = rows.iter().copied().chain(blocks).collect();
            if !has_extents(found, &wanted) {
                return shape("scales", &scales.shape(), as_shape(&wanted));
            }
            if block.is_none() && rows.iter().all(|rows| *rows > 0) {
                let x = x.shape();
                return Err(QuantiseError::Nothing { x }.into());
            }
            return Ok(Vec::new());
        };
        let (mut of_x, mut of_q) = (modes(of_x), modes(of_q));
        let sizes_of = |all: &[Layout]| all.iter().map(Layout::size).collect::<Vec<i64>>();
        if sizes_of(&of_x) != sizes_of(&of_q) {
            return shape("q", &q.shape(), x.shape());
        }
        let last = [of_x.pop(), of_q.pop()];
        let leaf = |name: &'static str, last: &Option<Layout>| {
            let last = last.as_ref().expect("a layout has a mode");
            one_leaf(last).ok_or_else(|| {
                let layout = last.to_string();
                Error::from(QuantiseError::Columns { name, layout })
            })
        };
        let ((columns, step), (_, to_step)) = (leaf("x", &last[0])?, leaf("q", &last[1])?);
        let steps = [step, to_step];
        let length = block.unwrap_or(columns).min(columns);
        let (whole, rest) = (columns / length, columns % length);
        let mut wanted = sizes_of(&of_x);
        if block.is_some() {
            wanted.push(whole + i64::from(rest > 0));
        }
        let of_scales = match scales.layout() {
            Some(layout) => modes(layout),
            None => Vec::new(),
        };
        if !has_extents(found, &wanted) {
            return shape("scales", &scales.shape(), as_shape(&wanted));
        }
        let is_one = wanted.is_empty();
        let mut of_scales = of_scales;
        let scale_step = match block {
            Some(_) => match of_scales.pop().as_ref().map(one_leaf) {
                Some(Some((_, step))) => step,
                _ => {
                    let (name, layout) = ("scales", scales.shape());
                    return Err(QuantiseError::Columns { name, layout }.into());
                }
            },
            None => 0,
        };
        let types = [T::TY, self.to];
        let part = |blocks: i64, first: i64, columns: i64| {
            let start = first * length;
            let rows = |all: &[Layout], step: i64| {
                let own = Layout::leaf(blocks, step).map_err(colex_tensor::Error::from)?;
                of_modes(&[all, &[own]].concat())
            };
            let all = [
                rows(&of_x, length * steps[0])?,
                rows(&of_q, length * steps[1])?,
                rows(if is_one { &[] } else { &of_scales }, scale_step)?,
            ];
            let at = [
                x.bytes.0 + (start * steps[0] * T::BYTES as i64) as u64,
                q.bytes.0 + (start * steps[1]) as u64,
                scales.bytes.0 + (first * scale_step * 4) as u64,
            ];
            let [x, q, scales] = &all;
            let problem = QuantiseProblem::of(types, [x, q, scales], columns, steps, at)?;
            Ok::<_, Error>((problem, at))
        };
        let mut parts = vec![part(whole, 0, length)?];
        if rest > 0 {
            parts.push(part(1, whole, rest)?);
        }
        Ok(parts)
    }

    fn check_types(&self) -> Result<(), Error> {
        check_source(T::TY)?;
        check_target(self.to)?;
        let (found, ty, wanted) = (self.output, self.to, rust_type(self.to));
        if found != wanted {
            return Err(QuantiseError::Element { found, ty, wanted }.into());
        }
        Ok(())
    }

    /// Enqueues the call on the stream of the device that holds `x`. It allocates nothing, so that a capture of the stream takes it
    /// once its kernels are loaded; only a [computed scale](Quantise::tensor_scale) takes memory of the stream, outside of a capture.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the types; if shapes or devices differ; if `f32` has no reciprocal of the scale; if there are rows
    /// with a scale and without columns; if the columns of a view have several strides; if there are more than 2^30 rows or columns, or more
    /// than 8 modes of rows that do not join; or if an output overlaps another view or has one element at several coordinates. Returns the
    /// device's error if the launch fails, also where the device lacks the conversion.
    pub fn run(&self) -> Result<(), Error> {
        let device = self.x.device();
        self.check_types()?;
        let of_views = |kind, others: &[&ViewKey], numbers: [u64; 2]| {
            let own = [self.x.key(), self.q.key()];
            let others = others.iter().map(|key| (*key).clone());
            GivenCall {
                kind,
                views: own.into_iter().chain(others).map(Some).collect(),
                types: [T::TY, self.to],
                numbers: numbers.into_iter().collect(),
            }
        };
        match &self.scales {
            Scales::Tensor(value) => {
                device.check_same("q", self.q.device())?;
                let given = of_views(CallKind::GivenScale, &[], [value.to_bits().into(), 0]);
                ElementwiseCall::run_recent(device, &given, || {
                    let needs_memory = false;
                    Ok((self.by(*value)?.prepare()?, needs_memory))
                })
            }
            Scales::Rows(block, scales) => {
                device.check_same("q", self.q.device())?;
                device.check_same("the scales", &scales.device)?;
                let columns = block.map_or([0, 0], |columns| [1, columns as u64]);
                let given = of_views(CallKind::Quantisation, &[&scales.key], columns);
                MemoryBoundCall::run_recent_calls(device, &given, || Ok(self.prepare()?.parts))
            }
            Scales::Computed(scale, plan) => {
                device.check_same("q", self.q.device())?;
                device.check_same("the scale", scale.device())?;
                let given = of_views(CallKind::ComputedScale, &[&scale.key()], [0; 2]);
                let (given, memory) = ((given, *plan), Workspace::Kept(device));
                let recent = device.extension::<RecentScales>();
                if let Some(known) = recent.0.get(&given)
                    && let Some(call) = self.whole_of(scale, *known, &memory)?
                {
                    return call.run_once(device);
                }
                // Every step is checked before the first one is launched.
                let call = self.prepare_scale((scale, *plan), &memory)?;
                let whole = call.whole.as_ref();
                let known = whole.and_then(|whole| Some((*whole.plan()?, *whole.problem()?)));
                call.run_once()?;
                if let Some(known) = known {
                    recent.0.get_or_make(&given, || Ok::<_, Error>(known))?;
                }
                Ok(())
            }
        }
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Quantise::run`].
    pub fn prepare(&self) -> Result<QuantiseCall<'a>, Error> {
        self.prepare_with(QuantisePlan::fastest)
    }

    /// Builds and loads every kernel that a call with `x` of these shapes takes by default, so that a new shape assembles none in the middle
    /// of a request. Returns the number of kernels; shapes that share one need it once.
    ///
    /// The other calls differ from this one in the extents alone: they have the types, addresses of the same alignment, the columns of a
    /// block, and the given scale or the plan of [`tensor_scale_by`](Quantise::tensor_scale_by). `x`, `q` and the scales have the layouts
    /// that [`Map::load_plans`](crate::elementwise::Map::load_plans) describes. A device keeps the last 256 kernels of quantisations.
    ///
    /// A kernel of rows is built for the number of modes that are left when the rows are coalesced
    /// ([`QuantiseOperands::modes`](crate::quantise::QuantiseOperands::modes)). A single row has the kernel of rows that lie one after the
    /// other.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::Quantise;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, mut q) = (device.zeros::<f32>(64)?, device.poisoned::<i8>(64)?);
    /// let mut scales = device.poisoned::<f32>(1)?;
    /// let (x, q) = (x.view((1, 64))?, q.view_mut((1, 64))?);
    /// let call = Quantise::new(Ty::S8, &x, &q).rows(&scales.view_mut(1)?);
    /// // One kernel for one row and for many, and one whose rows are shared by more threads.
    /// assert_eq!(call.load_plans([[1, 1000], [100, 1000], [7, 4096]])?, 2);
    /// assert_eq!(
    ///     call.load_plans([[8, 0]]).unwrap_err().to_string(),
    ///     "x has the shape (8,0): a row without columns has no largest size, and so no scale"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Quantise::run`], those of [`Map::load_plans`](crate::elementwise::Map::load_plans) that concern a shape, and
    /// the device's error if it does not take a kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        self.check_types()?;
        let device = self.x.device();
        let (scale, plan) = match &self.scales {
            Scales::Tensor(value) => return self.by(*value)?.load_plans(shapes),
            Scales::Rows(block, scales) => {
                self.parts()?;
                let found = extents(scales.key.shape());
                let mut problems = Vec::new();
                for shape in shapes {
                    problems.extend(self.parts_of_shape(shape.as_ref(), (scales, *block, &found))?);
                }
                let problems = problems.into_iter().map(|(problem, _)| Ok(Some(problem)));
                let fastest =
                    |problem: &QuantiseProblem| QuantisePlan::fastest(problem, device.arch());
                return load_plans(device, problems, fastest);
            }
            Scales::Computed(scale, plan) => (scale, *plan),
        };
        self.computed(scale)?;
        let [of_scale, of_numbers] = of_computed(T::TY, self.to)?;
        let most = Reduce::of_views(ReduceFunction::AbsMax, &self.x, &[], scale);
        let given = [
            GivenView::new("x", &self.x, false),
            GivenView::new("scale", scale, false),
            GivenView::new("q", &self.q, true),
        ];
        let one = [
            GivenView::new("most", scale, false),
            GivenView::new("scale", scale, true),
        ];
        let (mut two, mut all_sizes, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        for shape in shapes {
            let extents = shape.as_ref();
            if !has_elements(extents)? {
                continue;
            }
            let [x, scale, q] = &given;
            let (x, q) = (x.resized(extents)?, q.resized(extents)?);
            let layouts = [&x, &q].map(|given| given.layout().expect("resized"));
            if let Some(plan) = self.plan_of(plan, layouts) {
                plan.check_device(device.limits().multiprocessors)?;
                let elements = self.elements(&plan, layouts)?;
                if !two.iter().any(|(known, _)| *known == plan) {
                    two.push((plan, elements));
                }
                if plan.blocks == 1 {
                    continue;
                }
                // A stream capture has no memory for the plan.
            }
            let are_in_q = has_no_gaps(layouts[1]);
            all_sizes.push((most.problem_of_all(layouts[0])?, are_in_q));
            let all: Result<Vec<Layout>, Error> = modes(layouts[0]).iter().map(repeated).collect();
            let scale = scale.with_layout(of_modes(&all?)?, extents);
            let numbers = Map::new(&of_numbers).of_tensors(vec![x, scale, q])?;
            maps.extend([Map::new(&of_scale).of_tensors(one.to_vec())?, numbers]);
        }
        let all_sizes = all_sizes.into_iter().map(|(problem, are_in_q)| {
            let plan = of_parts(are_in_q)(&problem)?;
            Ok(Some((problem, plan)))
        });
        let mut kernels = load_planned(device, all_sizes)?;
        kernels += Checked::load_plans(device, maps.into_iter().map(Ok))?;
        for (plan, elements) in two {
            kernels += load_plans(device, [Ok(Some(elements))], |_| Ok(plan))?;
        }
        Ok(kernels)
    }

    /// The parts of a call with `x` of another shape.
    fn parts_of_shape(
        &self,
        extents: &[i64],
        (scales, block, found): (&GivenView, Option<i64>, &[i64]),
    ) -> Result<Vec<(QuantiseProblem, [u64; 3])>, Error> {
        check_rank(extents)?;
        let is_some = has_elements(extents)?;
        if !is_some {
            let rows = extents.split_last().map_or(extents, |(_, rows)| rows);
            if block.is_none() && rows.iter().all(|rows| *rows > 0) {
                let x = shown(extents);
                return Err(QuantiseError::Nothing { x }.into());
            }
            return Ok(Vec::new());
        }
        let x = GivenView::new("x", &self.x, false).resized(extents)?;
        let q = GivenView::new("q", &self.q, true).resized(extents)?;
        let (columns, rows) = extents.split_last().expect("a tensor has a mode");
        let blocks = block.map(|block| (columns - 1) / block + 1);
        let wanted: Vec<i64> = rows.iter().copied().chain(blocks).collect();
        if wanted.is_empty() {
            return self.parts_of([&x, &q, scales], (block, found));
        }
        let scales = scales.resized(&wanted)?;
        self.parts_of([&x, &q, &scales], (block, &wanted))
    }

    /// The map of a given scale, of types that were checked.
    fn by(&self, value: f32) -> Result<Map<'a>, Error> {
        if !(value > 0.0 && value.is_finite() && (1.0 / value).is_finite()) {
            return Err(QuantiseError::Scale { value }.into());
        }
        let map = Map::new(&of_tensor(T::TY, self.to)?).input("x", &self.x);
        let map = map.with("q", &self.q, true);
        Ok(map.scalar("inverse", (1.0 / value).into()))
    }

    /// Prepares the call with the plan that `plan` makes of the problem of each of its kernels. A scale of a tensor has no such
    /// plan: it is a map.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Quantise::run`], of the function and of [`QuantisePlan::build`], and an error if the plan was made
    /// for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl Fn(&QuantiseProblem, Arch) -> Result<QuantisePlan, Error>,
    ) -> Result<QuantiseCall<'a>, Error> {
        self.check_types()?;
        let device = self.x.device();
        let nothing = QuantiseCall::of_nothing(device);
        if let Scales::Computed(scale, plan) = &self.scales {
            return self.prepare_scale((scale, *plan), &Workspace::Own(device));
        }
        if let Scales::Tensor(value) = self.scales {
            let map = Some(self.by(value)?.prepare()?);
            return Ok(QuantiseCall { map, ..nothing });
        }
        let mut parts = Vec::new();
        for (problem, addresses) in self.parts()? {
            let plan = plan(&problem, device.arch())?;
            plan.check(device.arch())?;
            plan.check_problem(&problem)?;
            let key = QuantiseKey { plan, problem };
            parts.push(MemoryBoundCall::of(device, key, &addresses)?);
        }
        Ok(QuantiseCall { parts, ..nothing })
    }
}

/// A prepared quantisation: one launch for the rows, or for whole blocks, and one for the shorter last blocks if there are any. It
/// may be launched any number of times while its tensors exist. Concurrent runs on several streams are a data race, since each of
/// them writes the outputs.
///
/// Its `Display` output is its plan.
#[derive(Clone, Debug)]
pub struct QuantiseCall<'a> {
    device: Device,
    /// The largest size and the scale, of a scale that is computed for a tensor.
    most: Option<ReduceCall<'a>>,
    scale: Option<ElementwiseCall<'a>>,
    /// The map of a scale for a tensor.
    map: Option<ElementwiseCall<'a>>,
    /// The launches of a computed scale by a plan.
    whole: Option<MemoryBoundCall<'a, TensorScalePlan>>,
    parts: Vec<MemoryBoundCall<'a, QuantisePlan>>,
}

impl<'a> QuantiseCall<'a> {
    /// The call that does nothing.
    fn of_nothing(device: &Device) -> QuantiseCall<'a> {
        QuantiseCall {
            device: device.clone(),
            most: None,
            scale: None,
            map: None,
            whole: None,
            parts: Vec::new(),
        }
    }

    /// Runs a call of a computed scale once, and returns its memory to the stream's.
    fn run_once(self) -> Result<(), Error> {
        let device = &self.device;
        if let Some(most) = self.most {
            most.run_once(device)?;
        }
        for map in self.scale.iter().chain(&self.map) {
            map.run(device)?;
        }
        self.whole.map_or(Ok(()), |whole| whole.run_once(device))
    }

    /// Returns the launches, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let mut all = Vec::new();
        if let Some(most) = &self.most {
            all.extend(most.bare_launches()?);
        }
        for map in self.scale.iter().chain(&self.map) {
            all.extend(map.bare_launches()?);
        }
        if let Some(whole) = &self.whole {
            all.extend(whole.bare_launches()?);
        }
        for part in &self.parts {
            all.extend(part.bare_launches()?);
        }
        Ok(all)
    }

    /// Returns the plan of the rows or the whole blocks; `None` if there are none.
    pub fn plan(&self) -> Option<&QuantisePlan> {
        self.parts.first()?.plan()
    }

    /// Returns the problem of the rows or the whole blocks; `None` if there are none.
    pub fn problem(&self) -> Option<&QuantiseProblem> {
        self.parts.first()?.problem()
    }

    /// Returns the kernel of the rows or the whole blocks with its report; `None` if there are none.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.parts.first()?.built()
    }

    /// Returns the map of a scale for a tensor, if that is what the call asked for.
    pub fn map(&self) -> Option<&ElementwiseCall<'_>> {
        self.map.as_ref()
    }

    /// Says in sentences how the plan of each step divides its problem, as [`MemoryBoundCall::explain`] does.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Device;
    /// use colex_gpu::quantise::Quantise;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (x, mut q) = (device.zeros::<f32>(4000)?, device.zeros::<i8>(4000)?);
    /// let (x, q) = (x.view((4, 1000))?, q.view_mut((4, 1000))?);
    /// let call = Quantise::new(Ty::S8, &x, &q).tensor(2.0).prepare()?;
    /// assert_eq!(call.explain(), call.map().expect("a map").explain());
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        let most = self.most.iter().map(ReduceCall::explain);
        let maps = self.scale.iter().chain(&self.map);
        let steps = most.chain(maps.map(ElementwiseCall::explain));
        let steps = steps.chain(self.whole.iter().map(MemoryBoundCall::explain));
        let steps = steps.chain(self.parts.iter().map(MemoryBoundCall::explain));
        match steps.collect::<Vec<_>>() {
            none if none.is_empty() => NOTHING.to_string(),
            steps => steps.join("\n"),
        }
    }

    /// Returns the kernel of each launch of rows, or of a computed scale by a plan, on its device.
    pub fn functions(&self) -> impl Iterator<Item = Function> {
        let whole = self.whole.iter().flat_map(MemoryBoundCall::functions);
        whole.chain(self.parts.iter().flat_map(MemoryBoundCall::functions))
    }

    /// Runs the call on the simulator, and returns the counts of each launch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        let mut all = Vec::new();
        if let Some(most) = &self.most {
            all.extend(most.profile(device)?);
        }
        for map in self.scale.iter().chain(&self.map) {
            all.extend(map.profile(device)?);
        }
        if let Some(whole) = &self.whole {
            all.extend(whole.profile(device)?);
        }
        for part in &self.parts {
            all.extend(part.profile(device)?);
        }
        Ok(all)
    }

    /// Enqueues the call on a stream of its device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        if let Some(most) = &self.most {
            most.run(device)?;
        }
        for map in self.scale.iter().chain(&self.map) {
            map.run(device)?;
        }
        if let Some(whole) = &self.whole {
            whole.run(device)?;
        }
        self.parts.iter().try_for_each(|part| part.run(device))
    }
}

impl fmt::Display for QuantiseCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.plan(), &self.map, &self.whole) {
            (Some(plan), ..) => plan.fmt(f),
            (None, Some(map), _) => map.fmt(f),
            (None, None, Some(whole)) => whole.fmt(f),
            (None, None, None) => f.write_str(NOTHING),
        }
    }
}

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuantiseKey {
    plan: QuantisePlan,
    problem: QuantiseProblem,
}

static BUILT: BuiltKernels<QuantisePlan> = LazyLock::new(|| Memo::new(256));

impl Planned for QuantisePlan {
    type Problem = QuantiseProblem;
    type Stage = ();
    type Key = QuantiseKey;

    fn sentences(&self, problem: &QuantiseProblem) -> String {
        self.explain(problem)
    }

    fn counted(&self, problem: &QuantiseProblem) -> Traffic {
        let size = i64::from(self.operands.from.bits()) / 8;
        // Accesses beyond a row ask for nothing.
        let share = div_up(problem.columns(), product([self.threads, self.blocks]));
        let own = match self.access {
            QuantiseAccess::Staged => share,
            QuantiseAccess::Rows | QuantiseAccess::Shifted => {
                product([self.vector, self.accesses]).min(share)
            }
        };
        let layouts = problem.layouts().ok();
        let place = |lane: i64| {
            let (threads, columns) = (self.threads.max(1), problem.columns().max(1));
            let of_span = lane.saturating_mul(self.vector);
            match self.access {
                QuantiseAccess::Staged => [of_span / columns, of_span % columns],
                QuantiseAccess::Rows | QuantiseAccess::Shifted => {
                    [lane / threads, (lane % threads).saturating_mul(self.vector)]
                }
            }
        };
        let traffic = Traffic {
            compulsory: problem.compulsory_bytes(),
            moved: self.bytes(problem),
            sectors: 1,
            least_sectors: 1,
            under_way: product([own, size]),
            threads: self.threads_of_block(),
            blocks: self.grid(problem),
            launches: 1,
        };
        let x = layouts.as_ref().map(|[x, _, _]| x);
        traffic.touching(first_access(x, place), size, self.vector)
    }

    fn neighbours(&self, problem: &QuantiseProblem) -> Vec<QuantisePlan> {
        let plan = *self;
        if plan.access == QuantiseAccess::Staged {
            let threads = steps(plan.threads).map(|threads| QuantisePlan {
                threads,
                rows: plan.threads_of_block() / threads.max(1),
                accesses: div_up(problem.columns(), threads.max(1)),
                ..plan
            });
            let rows = steps(plan.rows).map(|rows| QuantisePlan { rows, ..plan });
            return threads.into_iter().chain(rows).collect();
        }
        let accesses = steps(plan.accesses).map(|accesses| QuantisePlan { accesses, ..plan });
        let threads = steps(plan.threads).map(|threads| QuantisePlan { threads, ..plan });
        let blocks = steps(plan.blocks).map(|blocks| QuantisePlan { blocks, ..plan });
        let kept = [plan.kept.saturating_sub(1), plan.kept.saturating_add(1)];
        let kept = kept.map(|kept| QuantisePlan { kept, ..plan });
        let held = !plan.held;
        let all = accesses
            .into_iter()
            .chain(threads)
            .chain(blocks)
            .chain(kept);
        all.chain([QuantisePlan { held, ..plan }]).collect()
    }

    fn check_for(&self, arch: Arch, problem: &QuantiseProblem) -> Result<(), Error> {
        self.check(arch)?;
        self.check_problem(problem)
    }

    fn kernel(&self, arch: Arch, (): ()) -> Result<TensorKernel, Error> {
        self.unverified(arch)
    }

    fn stages(&self, problem: &QuantiseProblem) -> Result<Vec<(Self, ())>, Error> {
        self.check_problem(problem)?;
        Ok(vec![(*self, ())])
    }

    fn kernels() -> &'static BuiltKernels<QuantisePlan> {
        &BUILT
    }

    fn prepare(key: &QuantiseKey, on: &Preparing<'_, Self>) -> Result<Made<Self>, Error> {
        let QuantiseKey { plan, problem } = key;
        let kernel = on.kernel(plan, ())?;
        let is_run = plan.access != QuantiseAccess::Rows;
        let layouts = if is_run {
            problem.run_layouts()
        } else {
            problem.layouts()
        };
        let layouts = layouts.map_err(colex_tensor::Error::from)?;
        let tensors = on.addresses.iter().zip(&layouts);
        let mut given: Vec<Arg<'_>> = tensors
            .map(|(at, layout)| Arg::checked(*at, layout))
            .collect();
        if is_run {
            given.push(Arg::Value((problem.columns() as u32).into()));
        }
        let grid = LaunchGrid {
            blocks: [plan.grid(problem), 1, 1],
            threads: plan.threads_of_block(),
            cluster: plan.blocks,
            at_once: false,
        };
        let launch = on.launch(&kernel, &given, 0..3, grid)?;
        Ok(Made {
            plan: *plan,
            problem: problem.clone(),
            launches: vec![launch],
        })
    }
}
