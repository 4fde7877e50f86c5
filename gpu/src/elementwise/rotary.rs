//! Rotary embeddings: pairs of features turned by an angle of their position.

use core::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use colex_atom::{Arch, Ty};
use colex_device::{BareLaunch, Device, Memo, View, ViewMut};
use colex_layout::Layout;
use colex_sim::Report;
use colex_tensor::{Expr, Round};

use super::call::{Checked, ElementwiseCall, GivenView, check_memory};
use super::expression::{MapExpression, MapExpressionBuilder};
use super::gather::RowNumber;
use super::map::coordinate;
use super::operands::{Binding, ElementwiseProblem, ElementwiseWork, Kind, Operand};
use super::plan::ElementwisePlan;
use crate::calls::{Addresses, same_device};
use crate::error::{ElementwiseError, Error, ErrorKind};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::apart::apart;
use crate::memory_bound::modes::{has_elements, modes, of_modes, one_leaf, repeated, shown};
use crate::recent::{CallKind, GivenCall};

/// Which two features are a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// Neighbours: `2j` and `2j + 1`.
    Interleaved,
    /// One of each half: `j` and `j + d/2`.
    Halves,
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pairing::Interleaved => "interleaved",
            Pairing::Halves => "halves",
        })
    }
}

/// Where the angles come from.
#[derive(Clone, Debug)]
enum Angles {
    Base(f32),
    /// The cosines and the sines, (position, pair).
    Tables(Box<[GivenView; 2]>),
}

/// The positions of the sequence.
#[derive(Clone, Debug)]
enum Positions {
    From(i64),
    Given(Box<GivenView>, Ty),
}

/// A rotary embedding that is being described. The pair `j` of the features at position `p` is turned by an angle `a`:
/// `(u, v)` becomes `(u cos a - v sin a, v cos a + u sin a)`.
///
/// The views are (batch, head, sequence, feature), as those of [attention](crate::attention()), of f32, f16 or bf16, with any
/// strides; `y` may lie exactly where `x` does. The arithmetic is in f32: a product is rounded, the sum with the other product is
/// one fused operation, and the result is rounded to the type.
///
/// The angle of pair `j` is `p base^(-2j/d)`, computed in f32 with the base 10000; [`tables`](Rotary::tables) gives cosines and
/// sines instead. Of up to 1024 features and a base of 1 to 10^6, the relative error of an angle is below 2^-21: half of that is the one
/// of the approximate instruction for `2^x`. So the angle may be off by 5 10^-3 at position 10^4, and by 5 10^-2 at 10^5; tables may be
/// more exact. From 2^24 on, f32 does not tell
/// positions apart: an offset beyond is refused, and features at such a position that the device has become NaN.
///
/// ```
/// use colex_gpu::Device;
/// use colex_gpu::elementwise::{Pairing, Rotary};
///
/// let device = Device::open();
/// // Two positions of one head, with 4 features.
/// let x = device.upload(&[1f32, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])?;
/// let mut y = device.poisoned::<f32>(8)?;
/// let shape = (1, 1, 2, 4);
/// Rotary::new(Pairing::Interleaved, &x.view(shape)?, &y.view_mut(shape)?).run()?;
/// let y = y.download()?;
/// assert_eq!(y[..4], [1.0, 0.0, 1.0, 0.0]); // position 0
/// let is_near = |found: f32, angle: f32| (found - angle.cos()).abs() < 1e-5;
/// assert!(is_near(y[4], 1.0) && is_near(y[6], 0.01)); // 10000^0 and 10000^(-2/4)
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Rotary<'a> {
    pairing: Pairing,
    ty: Ty,
    x: GivenView,
    y: GivenView,
    features: Option<i64>,
    positions: Positions,
    angles: Angles,
    memory: PhantomData<&'a ()>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ElementwiseError::Rotary { why }.into())
}

/// The number of positions that f32 tells apart: 2^24 + 1 is 2^24 in f32.
const MOST_POSITION: i64 = 1 << 24;

/// The default of the base.
const BASE: f32 = 10000.0;

/// A pair that is turned, as elements of the type.
fn turned(
    m: &mut MapExpressionBuilder,
    ty: Ty,
    angle: impl FnOnce(&mut MapExpressionBuilder) -> [Expr; 2],
) {
    let [u, v] = ["first", "second"].map(|name| m.tensor(name, ty).to(Ty::F32));
    let [cos, sin] = angle(m);
    m.output("low", u.fma(&cos, -(&v * &sin)).to(ty));
    m.output("high", v.fma(&cos, &u * &sin).to(ty));
}

/// The cosine and the sine of an angle, whose multiples of 2 pi are taken off in two steps: the first one is exact.
fn circle(angle: &Expr) -> [Expr; 2] {
    let turns = (angle * (1.0 / core::f64::consts::TAU)).rounded(Ty::S32, Round::Nearest);
    let turns = turns.to(Ty::F32);
    let most = 6.28125;
    let rest = turns.fma(-most, angle);
    let rest = turns.fma(-(core::f64::consts::TAU - most), rest);
    [rest.cos(), rest.sin()]
}

/// `2^(pair step)`, where the step is the sum of a part whose products with the pairs are exact in `f32` and a rest, whose product with ln 2 is
/// given: `2^x (1 + r ln 2)` is `2^(x + r)` for a small `r`. A step of 24 bits alone would leave an error of 2^-20 for an exponent of 13.
fn power(pair: &Expr, [step, rest]: [&Expr; 2]) -> Expr {
    let power = (pair * step).exp2();
    (pair * rest).fma(&power, &power)
}

/// The step of the exponents of the pairs of some features, as [`power`] takes it: a part with as many bits as a product with a number of a
/// pair leaves room for, and the rest by ln 2. Of more than 512 pairs the product is rounded, since a part with fewer bits would leave a rest
/// whose square counts.
fn step_of(base: f32, features: i64) -> [f32; 2] {
    let step = -2.0 * f64::from(base).log2() / features as f64;
    let bits_of_pair = 64 - (features / 2 - 1).leading_zeros();
    let first = f32::from_bits((step as f32).to_bits() & (u32::MAX << bits_of_pair.min(9)));
    let rest = (step - f64::from(first)) * core::f64::consts::LN_2;
    [first, rest as f32]
}

/// A prepared rotary embedding: one launch that turns pairs, and one that copies the features beyond them if there are any and
/// the call is not in place.
#[derive(Clone, Debug)]
pub struct RotaryCall<'a> {
    device: Device,
    calls: Vec<ElementwiseCall<'a>>,
}

impl<'a> RotaryCall<'a> {
    /// Returns the calls of its kernels: the first one turns the pairs.
    pub fn calls(&self) -> &[ElementwiseCall<'a>] {
        &self.calls
    }

    /// Returns the launches, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let mut all = Vec::new();
        for call in &self.calls {
            all.extend(call.bare_launches()?);
        }
        Ok(all)
    }

    /// Says in sentences how the plan of each kernel divides its coordinates, as `explain` of its [`calls`](RotaryCall::calls) does.
    pub fn explain(&self) -> String {
        let calls: Vec<String> = self.calls.iter().map(ElementwiseCall::explain).collect();
        calls.join("\n")
    }

    /// Enqueues the call on a stream of its device. It allocates nothing, so that a capture of the stream takes it.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        self.calls.iter().try_for_each(|call| call.run(device))
    }

    /// Runs the call on the simulator, and returns the counts of each launch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        let all = self.calls.iter().map(|call| call.profile(device));
        Ok(all.collect::<Result<Vec<_>, Error>>()?.concat())
    }
}

impl<'a> Rotary<'a> {
    /// Builds the call on `x` and `y`, (batch, head, sequence, feature). All features are turned, and the positions count from 0.
    pub fn new<T: GemmElement>(
        pairing: Pairing,
        x: &View<'a, T>,
        y: &ViewMut<'a, T>,
    ) -> Rotary<'a> {
        Rotary {
            pairing,
            ty: T::TY,
            x: GivenView::new("x", x, false),
            y: GivenView::new("y", y, true),
            features: None,
            positions: Positions::From(0),
            angles: Angles::Base(BASE),
            memory: PhantomData,
        }
    }

    /// Sets the number of features that are turned, the first ones. The others are copied.
    pub fn features(self, features: i64) -> Self {
        Rotary {
            features: Some(features),
            ..self
        }
    }

    /// Counts the positions of the sequence from `first` on.
    pub fn offset(self, first: i64) -> Self {
        Rotary {
            positions: Positions::From(first),
            ..self
        }
    }

    /// Gives the positions, one for each element of the sequence, (sequence) or (batch, sequence). At a position that the tables
    /// do not have, cosine and sine are 0.
    pub fn positions<I: RowNumber>(self, positions: &View<'a, I>) -> Self {
        let given = GivenView::new("positions", positions, false);
        Rotary {
            positions: Positions::Given(Box::new(given), I::TY),
            ..self
        }
    }

    /// Sets the base of the angles, a number from 1 on.
    pub fn base(self, base: f32) -> Self {
        Rotary {
            angles: Angles::Base(base),
            ..self
        }
    }

    /// Gives the cosines and the sines, (position, pair), with any strides.
    pub fn tables(self, cos: &View<'a, f32>, sin: &View<'a, f32>) -> Self {
        let tables = [
            GivenView::new("cos", cos, false),
            GivenView::new("sin", sin, false),
        ];
        Rotary {
            angles: Angles::Tables(Box::new(tables)),
            ..self
        }
    }

    /// Checks the call: what turns the pairs, and what copies the other features.
    fn checked(&self) -> Result<Vec<Checked>, Error> {
        let Rotary { x, y, ty, .. } = self;
        if ![Ty::F32, Ty::F16, Ty::Bf16].contains(ty) {
            return refuse(format!("x is of {ty}: it must be f32, f16 or bf16"));
        }
        let device = &y.device;
        let tables: &[GivenView] = match &self.angles {
            Angles::Tables(tables) => &tables[..],
            Angles::Base(_) => &[],
        };
        let positions = match &self.positions {
            Positions::Given(given, _) => Some(&**given),
            Positions::From(_) => None,
        };
        let read: Vec<&GivenView> = tables.iter().chain(positions).collect();
        for given in read.iter().copied().chain([x]) {
            device.check_same("a tensor of the rotary embedding", &given.device)?;
        }
        for given in &read {
            apart(
                (y.name.to_string(), y.elements()),
                (given.name.to_string(), given.elements()),
            )?;
        }
        check_memory(&[x.clone(), y.clone()])?;
        self.work()
    }

    /// What is computed, of tensors whose memory was checked.
    fn work(&self) -> Result<Vec<Checked>, Error> {
        let Rotary { x, y, ty, .. } = self;
        let device = &y.device;
        let positions = match &self.positions {
            Positions::Given(given, _) => Some(&**given),
            Positions::From(_) => None,
        };
        let of_x = x.extents();
        if of_x.len() != 4 || of_x != y.extents() {
            return refuse(format!(
                "x has the shape {} and y {}: both must be (batch, head, sequence, feature)",
                x.shape(),
                y.shape()
            ));
        }
        let [all, sequence] = [of_x[3], of_x[2]];
        let features = self.features.unwrap_or(all);
        // Of no features, all are turned.
        let is_none = all == 0 && features == 0;
        if !is_none && (features < 2 || features % 2 != 0 || features > all) {
            return refuse(format!(
                "{features} features are turned: it must be an even number from 2 to {all}, the features of x"
            ));
        }
        let (Some(of_x), Some(of_y)) = (x.layout(), y.layout()) else {
            return Ok(Vec::new());
        };
        let (of_x, of_y) = (modes(of_x), modes(of_y));
        let leaf = |given: &GivenView, mode: &Layout| match one_leaf(mode) {
            Some((_, stride)) => Ok(stride),
            None => refuse(format!(
                "the features of {} have several strides: they must have one",
                given.name
            )),
        };
        let steps = [leaf(x, &of_x[3])?, leaf(y, &of_y[3])?];
        let mut work = Turn {
            call: self,
            pairs: features / 2,
            shape: &of_x,
            operands: Vec::new(),
            addresses: Addresses::new(),
            inputs: Vec::new(),
            scalars: Vec::new(),
        };
        let is_near = self.pairing == Pairing::Interleaved && work.pairs > 1;
        work.pair((x, &of_x, steps[0]), is_near && steps == [1, 1])?;
        let expression = match &self.angles {
            Angles::Tables(tables) => work.by_tables(&**tables, positions, sequence)?,
            Angles::Base(base) => work.by_base(*base, positions, sequence, features)?,
        };
        let inputs = std::mem::take(&mut work.inputs);
        work.pair((y, &of_y, steps[1]), is_near && steps == [1, 1])?;
        let outputs = std::mem::replace(&mut work.inputs, inputs);
        let of_pairs = ElementwiseWork {
            what: "rotary embedding",
            expression,
            inputs: work.inputs,
            outputs,
            scalars: work.scalars,
            operands: work.operands,
        };
        let mut calls = vec![Checked {
            work: Some((of_pairs, work.addresses)),
            device: device.clone(),
        }];
        if features < all && x.bytes.0 != y.bytes.0 {
            let rest = rest([x, y], [&of_x, &of_y], steps, (features, *ty))?;
            calls.push(Checked {
                work: Some(rest),
                device: device.clone(),
            });
        }
        Ok(calls)
    }

    /// Returns the problem of the pairs; `None` if the views have no element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rotary::run`] that concern the views.
    pub fn problem(&self) -> Result<Option<ElementwiseProblem>, Error> {
        let calls = self.checked()?;
        calls.first().map_or(Ok(None), Checked::problem)
    }

    /// Returns the plan of the kernel that turns the pairs; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rotary::run`] that concern the views.
    pub fn plan(&self) -> Result<Option<ElementwisePlan>, Error> {
        let calls = self.checked()?;
        calls.first().map_or(Ok(None), Checked::plan)
    }

    /// Enqueues the call on the stream of the device that holds `y`. It allocates nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if types, shapes or devices differ; if the number of turned features is odd, or above that of `x`; if a
    /// table has too few positions for an offset; if the base is below 1 or infinite; or if `y` has one element at several coordinates, or
    /// overlaps another view than an `x` that lies exactly there. Returns the device's error if the launch fails.
    pub fn run(&self) -> Result<(), Error> {
        let Rotary { x, y, ty, .. } = self;
        let (device, mut types) = (&y.device, [*ty; 2]);
        let features = self.features.map_or([0, 0], |features| [1, features]);
        let mut numbers = [self.pairing as i64, features[0], features[1], 0, 0];
        let mut views = [Some(x), Some(y), None, None, None];
        match &self.positions {
            Positions::From(first) => numbers[3] = *first,
            Positions::Given(given, ty) => {
                types[1] = *ty;
                views[2] = Some(&**given);
            }
        }
        match &self.angles {
            Angles::Base(base) => numbers[4] = base.to_bits().into(),
            Angles::Tables(tables) => {
                let [cos, sin] = &**tables;
                (views[3], views[4]) = (Some(cos), Some(sin));
            }
        }
        for given in views.into_iter().flatten() {
            device.check_same("a tensor of the rotary embedding", &given.device)?;
        }
        let given = GivenCall {
            kind: CallKind::Rotary,
            views: views
                .iter()
                .map(|given| given.map(|given| given.key.clone()))
                .collect(),
            types,
            numbers: numbers.iter().map(|n| *n as u64).collect(),
        };
        ElementwiseCall::run_recent_calls(device, &given, || Ok(self.prepare()?.calls))
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rotary::run`].
    pub fn prepare(&self) -> Result<RotaryCall<'a>, Error> {
        let calls = self.checked()?.into_iter().map(Checked::prepare);
        Ok(RotaryCall {
            device: self.y.device.clone(),
            calls: calls.collect::<Result<_, Error>>()?,
        })
    }

    /// Builds and loads every kernel that a call with `x` of these shapes takes by default, (batch, head, sequence, feature), so that a new
    /// shape assembles none in the middle of a request. Returns the number of kernels; shapes that share one need it once.
    ///
    /// The other calls have the tables of this one. They differ from it in the extents of `x`, `y` and the positions alone, as those of
    /// [`Map::load_plans`](super::Map::load_plans) do.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::elementwise::{Pairing, Rotary};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, mut y) = (device.zeros::<bf16>(8 * 64)?, device.poisoned::<bf16>(8 * 64)?);
    /// let shape = (1, 8, 1, 64);
    /// let call = Rotary::new(Pairing::Halves, &x.view(shape)?, &y.view_mut(shape)?);
    /// assert_eq!(call.load_plans([[1, 8, 1, 64], [1, 8, 100, 64], [1, 8, 1000, 64]])?, 2);
    /// assert_eq!(
    ///     call.load_plans([[1, 8, 1, 63]]).unwrap_err().to_string(),
    ///     "rotary embedding: 63 features are turned: it must be an even number from 2 to 63, the features of x"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rotary::run`] that concern the views, those of [`Map::load_plans`](super::Map::load_plans) that concern a
    /// shape, and the device's error if it does not take a kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        self.checked()?;
        let mut calls = Vec::new();
        for shape in shapes {
            calls.extend(self.of_shape(shape.as_ref())?);
        }
        Checked::load_plans(&self.y.device, calls.into_iter().map(Ok))
    }

    /// The calls with `x` of another shape.
    fn of_shape(&self, extents: &[i64]) -> Result<Vec<Checked>, Error> {
        let [batch, _, sequence, _] = extents[..] else {
            let shape = shown(extents);
            return refuse(format!(
                "the shape {shape} is given: it must be (batch, head, sequence, feature)"
            ));
        };
        if !has_elements(extents)? {
            return Ok(Vec::new());
        }
        let positions = match &self.positions {
            Positions::Given(given, ty) => {
                let has_batch = given.layout().is_some_and(|own| modes(own).len() == 2);
                let extents = [batch, sequence];
                let extents = if has_batch {
                    &extents[..]
                } else {
                    &extents[1..]
                };
                Positions::Given(Box::new(given.resized(extents)?), *ty)
            }
            Positions::From(first) => Positions::From(*first),
        };
        let other = Rotary {
            x: self.x.resized(extents)?,
            y: self.y.resized(extents)?,
            positions,
            ..self.clone()
        };
        other.work()
    }

    /// Prepares the call with the plan that `plan` makes of the problem of each kernel.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rotary::run`], of the function and of [`ElementwisePlan::build`], and an error if a plan was made
    /// for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl Fn(&ElementwiseProblem, Arch) -> Result<ElementwisePlan, Error>,
    ) -> Result<RotaryCall<'a>, Error> {
        let calls = self.checked()?.into_iter();
        let calls = calls.map(|call| call.prepare_with(&plan));
        Ok(RotaryCall {
            device: self.y.device.clone(),
            calls: calls.collect::<Result<_, Error>>()?,
        })
    }
}

/// The map that turns pairs, as its operands are collected.
struct Turn<'c, 'a> {
    call: &'c Rotary<'a>,
    pairs: i64,
    /// The modes of x.
    shape: &'c [Layout],
    operands: Vec<Operand>,
    addresses: Addresses,
    inputs: Vec<Binding>,
    scalars: Vec<(Ty, u64)>,
}

impl Turn<'_, '_> {
    /// A layout of the modes of the shape before the features, and of a stride along the pairs.
    fn over(&self, before: &[Layout], step: i64) -> Result<Layout, Error> {
        let last = Layout::leaf(self.pairs, step).map_err(colex_tensor::Error::from)?;
        of_modes(&[before, &[last]].concat())
    }

    fn operand(&mut self, name: &str, ty: Ty, (kind, layout): (Kind, Layout), is_output: bool) {
        self.operands.push(Operand {
            name: name.to_string(),
            ty,
            is_output,
            kind,
            layout,
        });
    }

    /// The pairs of x or y: neighbours in one operand, others in two.
    fn pair(
        &mut self,
        (given, all, step): (&GivenView, &[Layout], i64),
        is_near: bool,
    ) -> Result<(), Error> {
        let (ty, at, pairs) = (self.call.ty, self.operands.len(), self.pairs);
        let [apart, between] = match self.call.pairing {
            Pairing::Interleaved => [2 * step, step],
            Pairing::Halves => [step, pairs * step],
        };
        let layout = self.over(&all[..3], apart)?;
        if is_near {
            self.operand(&given.name, ty, (Kind::Pairs, layout), given.is_output);
            self.addresses.push(given.bytes.0);
            self.inputs
                .extend([Binding::Half(at, 0), Binding::Half(at, 1)]);
            return Ok(());
        }
        for (i, half) in ["low", "high"].into_iter().enumerate() {
            let name = format!("{}_{half}", given.name);
            self.operand(&name, ty, (Kind::Tensor, layout.clone()), given.is_output);
            let bytes = between * given.element_bytes * i as i64;
            self.addresses.push(given.bytes.0 + bytes as u64);
            self.inputs.push(Binding::Operand(at + i));
        }
        Ok(())
    }

    /// The positions that the device has, over the shape.
    fn positions(&mut self, given: &GivenView, ty: Ty) -> Result<(), Error> {
        let [batch, sequence] = [self.shape[0].size(), self.shape[2].size()];
        let own = given.layout().map(modes).unwrap_or_default();
        let found: Vec<i64> = own.iter().map(Layout::size).collect();
        let [first, second] = [repeated(&self.shape[0])?, repeated(&self.shape[1])?];
        let before = match &own[..] {
            [all] if found == [sequence] => [first, second, all.clone()],
            [rows, all] if found == [batch, sequence] => [rows.clone(), second, all.clone()],
            _ => {
                return refuse(format!(
                    "positions have the shape {}: it must be {sequence} or ({batch},{sequence}), the sequence of x",
                    given.shape()
                ));
            }
        };
        let layout = self.over(&before, 0)?;
        self.operand(&given.name, ty, (Kind::Tensor, layout), false);
        self.addresses.push(given.bytes.0);
        Ok(())
    }

    /// Cosines and sines from tables.
    fn by_tables(
        &mut self,
        tables: &[GivenView],
        positions: Option<&GivenView>,
        sequence: i64,
    ) -> Result<MapExpression, Error> {
        let index = self.operands.len();
        if let (Some(given), Positions::Given(_, ty)) = (positions, &self.call.positions) {
            self.positions(given, *ty)?;
        }
        for table in tables {
            let name = &table.name;
            let Some(layout) = table.layout() else {
                return refuse(format!(
                    "{name} has the shape {}, and no elements",
                    table.shape()
                ));
            };
            let all = modes(layout);
            let [rows, columns] = &all[..] else {
                return refuse(format!(
                    "{name} has the shape {}: it must be (position, pair)",
                    table.shape()
                ));
            };
            let leaves = (one_leaf(rows), one_leaf(columns));
            let (Some((rows, stride)), Some((columns, step))) = leaves else {
                return refuse(format!(
                    "{name} {layout} has a mode with several strides: each must have one"
                ));
            };
            if columns != self.pairs {
                return refuse(format!(
                    "{name} has {columns} pairs, and {} features are turned: it must have {}",
                    2 * self.pairs,
                    self.pairs
                ));
            }
            let most = colex_tensor::MAX_EXTENT;
            if rows > most {
                let (what, extent) = ("the number of positions of a table", rows);
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
            let far = |x: i64| x.checked_mul(stride);
            let mut before = Vec::new();
            for mode in &self.shape[..3] {
                before.push(repeated(mode)?);
            }
            let (kind, at) = match self.call.positions {
                Positions::Given(..) => (
                    Kind::Rows {
                        index,
                        rows,
                        stride,
                    },
                    0,
                ),
                Positions::From(first) => {
                    let end = first.checked_add(sequence);
                    if first < 0 || end.is_none_or(|end| end > rows) {
                        return refuse(format!(
                            "the positions are {sequence} from {first} on, and {name} has {rows} of them"
                        ));
                    }
                    let along = Layout::leaf(sequence, stride);
                    before[2] = along.map_err(colex_tensor::Error::from)?;
                    (Kind::Tensor, far(first).unwrap_or(0))
                }
            };
            let layout = self.over(&before, step)?;
            self.inputs.push(Binding::Operand(self.operands.len()));
            self.operand(name, Ty::F32, (kind, layout), false);
            self.addresses.push(table.bytes.0 + 4 * at as u64);
        }
        let ty = self.call.ty;
        expression((ty, None), || {
            MapExpression::new(|m| {
                turned(m, ty, |m| {
                    ["cos", "sin"].map(|name| m.tensor(name, Ty::F32))
                });
            })
        })
    }

    /// Cosines and sines of the angles of a base.
    fn by_base(
        &mut self,
        base: f32,
        positions: Option<&GivenView>,
        sequence: i64,
        features: i64,
    ) -> Result<MapExpression, Error> {
        // A smaller base would turn a pair faster than its position counts, by angles that f32 does not tell apart.
        if !(base >= 1.0 && base.is_finite()) {
            return refuse(format!("the base is {base}: it must be a number from 1 on"));
        }
        let at = self.operands.len();
        match (positions, &self.call.positions) {
            (Some(given), Positions::Given(_, ty)) => {
                self.positions(given, *ty)?;
                self.inputs.push(Binding::Operand(at));
            }
            (_, Positions::From(first)) => {
                let last = first.checked_add(sequence).unwrap_or(i64::MAX);
                if *first < 0 || last > MOST_POSITION {
                    return refuse(format!(
                        "the positions are {sequence} from {first} on: with a base they must lie from 0 to {MOST_POSITION}, and \
                         tables may have others"
                    ));
                }
                let shape = self.coordinates()?;
                let layout = coordinate(&shape, "position", 2)?;
                self.operand("position", Ty::S32, (Kind::Coordinate, layout), false);
                self.inputs.push(Binding::Operand(at));
                self.inputs.push(Binding::Scalar(self.scalars.len()));
                self.scalars.push((Ty::S32, *first as u64));
            }
            (None, Positions::Given(..)) => unreachable!("the positions are those of the call"),
        }
        let shape = self.coordinates()?;
        let layout = coordinate(&shape, "pair", 3)?;
        self.inputs.push(Binding::Operand(self.operands.len()));
        self.operand("pair", Ty::S32, (Kind::Coordinate, layout), false);
        for part in step_of(base, features) {
            self.inputs.push(Binding::Scalar(self.scalars.len()));
            self.scalars.push((Ty::F32, u64::from(part.to_bits())));
        }
        let ty = self.call.ty;
        let number = match &self.call.positions {
            Positions::Given(_, ty) => Some(*ty),
            Positions::From(_) => None,
        };
        expression((ty, Some(number)), || {
            MapExpression::new(|m| {
                turned(m, ty, |m| {
                    let position = match number {
                        Some(number) => m.tensor("positions", number),
                        None => m.coordinate("position", 2) + m.scalar("offset", Ty::S32),
                    };
                    let pair = m.coordinate("pair", 3).to(Ty::F32);
                    let step = m.scalar("step", Ty::F32);
                    let frequency = power(&pair, [&step, &m.scalar("rest", Ty::F32)]);
                    let position = position.to(Ty::F32);
                    let angle = &position * frequency;
                    circle(&match number {
                        // Cosine and sine of an infinite angle are NaN.
                        Some(_) => {
                            let is_far = position.abs().gt((MOST_POSITION - 1) as f64);
                            is_far.select(f64::INFINITY, angle)
                        }
                        None => angle,
                    })
                });
            })
        })
    }

    /// A layout of the shape of the pairs.
    fn coordinates(&self) -> Result<Layout, Error> {
        let before: Result<Vec<Layout>, Error> = self.shape[..3].iter().map(repeated).collect();
        self.over(&before?, 0)
    }
}

/// The type of the elements and, of angles of a base, that of the positions if the device has them.
type Formulas = (Ty, Option<Option<Ty>>);

/// The expressions made so far: a repeated call makes none.
static MADE: LazyLock<Memo<Formulas, MapExpression>> = LazyLock::new(|| Memo::new(64));

fn expression(
    of: Formulas,
    make: impl FnOnce() -> Result<MapExpression, Error>,
) -> Result<MapExpression, Error> {
    Ok((*MADE.get_or_make(&of, make)?).clone())
}

/// The copy of the features that are not turned.
fn rest(
    given: [&GivenView; 2],
    all: [&[Layout]; 2],
    steps: [i64; 2],
    (features, ty): (i64, Ty),
) -> Result<(ElementwiseWork, Addresses), Error> {
    let copy: MapExpression = format!("(x: tensor {ty}) -> y {{ x }}").parse()?;
    let (mut operands, mut addresses) = (Vec::new(), Addresses::new());
    for ((given, all), step) in given.into_iter().zip(all).zip(steps) {
        let count = all[3].size() - features;
        let last = Layout::leaf(count, step).map_err(colex_tensor::Error::from)?;
        operands.push(Operand {
            name: given.name.to_string(),
            ty,
            is_output: given.is_output,
            kind: Kind::Tensor,
            layout: of_modes(&[&all[..3], &[last]].concat())?,
        });
        addresses.push(given.bytes.0 + (features * step * given.element_bytes) as u64);
    }
    let work = ElementwiseWork {
        what: "copy of features",
        expression: copy,
        inputs: vec![Binding::Operand(0)],
        outputs: vec![Binding::Operand(1)],
        scalars: Vec::new(),
        operands,
    };
    Ok((work, addresses))
}
