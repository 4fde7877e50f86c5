//! Maps: the call on views.

use std::marker::PhantomData;
use std::sync::Arc;

use colex_atom::{Arch, Ty};
use colex_device::{Device, Element, View, ViewKey, ViewMut};
use colex_layout::Layout;
use smallvec::SmallVec;

use super::call::{Checked, ElementwiseCall, GivenView, check_memory};
use super::expression::{MapExpression, MapInput, MapInputKind, MapOutput};
use super::operands::{Binding, ElementwiseProblem, ElementwiseWork, Kind, Operand};
use super::plan::ElementwisePlan;
use crate::copy::loop_nest::correspond_empty;
use crate::error::{ElementwiseError, Error};
use crate::gemm::epilogue::arguments::{number, rust_type};
use crate::memory_bound::modes::has_elements;

/// A map that is being described: an expression, and the views that it reads and writes.
///
/// All views have one shape, up to the nesting of its modes, with any strides: an input that is the same along a mode has the
/// stride 0 there. A map has up to 16 tensors and coordinates together, and 8 loops: any number of modes, of which those that follow one
/// another in all tensors are one loop, and more are an error. An output may lie exactly where an input does, and be written in place; it may overlap nothing else. The
/// device caches what it prepares for a call, as for [`gemm`](crate::gemm()).
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::elementwise::{Map, MapExpression};
/// use colex_gpu::{Device, View};
///
/// let relu = MapExpression::new(|m| {
///     let x = m.tensor("x", Ty::F32) * m.scalar("scale", Ty::F32) + m.tensor("bias", Ty::F32);
///     m.output("y", x.relu());
/// })?;
/// let device = Device::open();
/// let (x, bias) = (device.upload(&[1f32, 2.0, 3.0, 4.0])?, device.upload(&[-3f32, 10.0])?);
/// let mut y = device.poisoned::<f32>(4)?;
/// Map::new(&relu)
///     .input("x", &x.view((2, 2))?)
///     .input("bias", &View::new(&bias, "(2,2):(0,1)")?) // one number for each column
///     .scalar("scale", 2.0)
///     .output("y", &y.view_mut((2, 2))?)
///     .run()?;
/// assert_eq!(y.download()?, [0.0, 14.0, 3.0, 18.0]);
///
/// // In place.
/// let twice: MapExpression = "(x: tensor f32) -> y { add(x, x) }".parse()?;
/// let here = y.view_mut(4)?;
/// Map::new(&twice).input("x", &here).output("y", &here).run()?;
/// drop(here);
/// assert_eq!(y.download()?, [0.0, 28.0, 6.0, 36.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Map<'a> {
    expression: MapExpression,
    scalars: Vec<(Arc<str>, f64)>,
    tensors: Vec<GivenView>,
    memory: PhantomData<&'a ()>,
}

/// What tells the tensors of maps apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MapTensorKey {
    name: Arc<str>,
    element: &'static str,
    key: ViewKey,
    is_output: bool,
}

/// What tells maps apart. An expression is compared by its hash and its place in memory, before its formulas are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GivenMap {
    expression: MapExpression,
    /// As bits.
    scalars: SmallVec<[(Arc<str>, u64); 2]>,
    tensors: SmallVec<[MapTensorKey; 4]>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ElementwiseError::Map { why }.into())
}

/// `a, b and c`, or `none`.
fn list(names: &[&str]) -> String {
    match names {
        [] => "none".to_string(),
        [one] => one.to_string(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

impl<'a> Map<'a> {
    /// Builds the call of an expression, without tensors.
    pub fn new(expression: &MapExpression) -> Map<'a> {
        Map {
            expression: expression.clone(),
            scalars: Vec::new(),
            tensors: Vec::new(),
            memory: PhantomData,
        }
    }

    pub(crate) fn with<T: Element>(
        mut self,
        name: &str,
        view: &View<'a, T>,
        is_output: bool,
    ) -> Self {
        self.tensors
            .retain(|given| *given.name != *name || given.is_output != is_output);
        self.tensors.push(GivenView::new(name, view, is_output));
        self
    }

    /// Gives the tensor of a name that is read.
    pub fn input<T: Element>(self, name: &str, view: &View<'a, T>) -> Self {
        self.with(name, view, false)
    }

    /// Gives the tensor of a name that is written.
    pub fn output<T: Element>(self, name: &str, view: &ViewMut<'a, T>) -> Self {
        self.with(name, view, true)
    }

    /// Gives the scalar of a name.
    pub fn scalar(mut self, name: &str, value: f64) -> Self {
        self.scalars.retain(|(known, _)| **known != *name);
        self.scalars.push((name.into(), value));
        self
    }

    /// Refuses a name that the expression does not have.
    fn check_names(&self) -> Result<(), Error> {
        let of = |is_one: fn(MapInputKind) -> bool| -> Vec<&str> {
            let inputs = self.expression.inputs().filter(|i| is_one(i.kind));
            inputs.map(|input| &input.name[..]).collect()
        };
        let tensors = of(|kind| kind == MapInputKind::Tensor);
        let scalars = of(|kind| kind == MapInputKind::Scalar);
        let outputs: Vec<&str> = self.expression.outputs().map(|o| &o.name[..]).collect();
        let given = self.tensors.iter().map(|given| {
            if given.is_output {
                ("output", &given.name, &outputs)
            } else {
                ("input", &given.name, &tensors)
            }
        });
        let numbers = self.scalars.iter();
        let numbers = numbers.map(|(name, _)| ("scalar", name, &scalars));
        for (what, name, known) in given.chain(numbers) {
            if !known.contains(&&name[..]) {
                let there = list(known);
                return refuse(format!("it has no {what} {name}: its {what}s are {there}"));
            }
        }
        Ok(())
    }

    /// The number of a scalar in its type.
    fn number(&self, MapInput { name, ty, .. }: &MapInput) -> Result<u64, Error> {
        number(&self.scalars, (name, *ty)).or_else(refuse)
    }

    /// The tensor of a name.
    fn tensor(&self, name: &str, ty: Ty, is_output: bool) -> Result<&GivenView, Error> {
        let mut all = self.tensors.iter();
        let Some(given) = all.find(|given| *given.name == *name && given.is_output == is_output)
        else {
            let (verb, call) = if is_output {
                ("writes", "output")
            } else {
                ("reads", "input")
            };
            return refuse(format!(
                "it {verb} {name}, which the call does not give: `.{call}(\"{name}\", &view)` does"
            ));
        };
        if given.element != rust_type(ty) {
            return refuse(format!(
                "{name} is of {ty}, and the call gives elements of {}: those of {ty} are {}",
                given.element,
                rust_type(ty)
            ));
        }
        Ok(given)
    }

    /// Checks the call.
    pub(crate) fn checked(&self) -> Result<Checked, Error> {
        self.checked_by(check_memory)
    }

    /// Checks the call, and by `memory` where its tensors lie.
    fn checked_by(
        &self,
        memory: impl FnOnce(&[GivenView]) -> Result<(), Error>,
    ) -> Result<Checked, Error> {
        self.check_names()?;
        let (mut scalars, mut inputs, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        let (mut given, mut coordinates): (Vec<GivenView>, _) = (Vec::new(), Vec::new());
        for input in self.expression.inputs() {
            match input.kind {
                MapInputKind::Scalar => {
                    inputs.push(Binding::Scalar(scalars.len()));
                    scalars.push((input.ty, self.number(input)?));
                }
                MapInputKind::Tensor => {
                    inputs.push(Binding::Operand(operands.len()));
                    let tensor = self.tensor(&input.name, input.ty, false)?;
                    given.push(tensor.clone());
                    operands.push((input.name.clone(), input.ty, None));
                }
                MapInputKind::Coordinate(mode) => {
                    inputs.push(Binding::Operand(operands.len()));
                    coordinates.push((operands.len(), mode));
                    operands.push((input.name.clone(), input.ty, Some(mode)));
                }
            }
        }
        let mut outputs = Vec::new();
        for MapOutput { name, formula } in self.expression.outputs() {
            outputs.push(Binding::Operand(operands.len()));
            given.push(self.tensor(name, formula.ty(), true)?.clone());
            operands.push((name.clone(), formula.ty(), None));
        }
        let first = given.iter().find(|given| given.is_output);
        let first = first.expect("an expression has an output").clone();
        for given in &given {
            first
                .device
                .check_same("a tensor of the map", &given.device)?;
        }
        memory(&given)?;
        let nothing = Checked {
            work: None,
            device: first.device.clone(),
        };
        let Some(shape) = first.layout() else {
            for other in &given {
                correspond_empty(other.key.shape(), first.key.shape())
                    .map_err(|why| differ(other, &first, why))?;
            }
            return Ok(nothing);
        };
        let addresses = given.iter().map(|given| given.bytes.0).collect();
        let mut given = given.iter();
        let mut all = Vec::new();
        for (name, ty, mode) in operands {
            let (layout, kind, is_output) = match mode {
                Some(mode) => (coordinate(shape, &name, mode)?, Kind::Coordinate, false),
                None => {
                    let one = given.next().expect("a tensor was found for each operand");
                    let layout = one.layout().ok_or_else(|| {
                        differ(one, &first, "one of them has no elements".to_string())
                    })?;
                    (layout.clone(), Kind::Tensor, one.is_output)
                }
            };
            all.push(Operand {
                name,
                ty,
                is_output,
                kind,
                layout,
            });
        }
        let work = ElementwiseWork {
            what: "map",
            expression: self.expression.clone(),
            inputs,
            outputs,
            scalars,
            operands: all,
        };
        Ok(Checked {
            work: Some((work, addresses)),
            ..nothing
        })
    }

    /// Returns the problem of the views; `None` if they have no element.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Map::run`] that concern the views.
    pub fn problem(&self) -> Result<Option<ElementwiseProblem>, Error> {
        self.checked()?.problem()
    }

    /// Returns the plan of the call; `None` if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Map::run`] that concern the views.
    pub fn plan(&self) -> Result<Option<ElementwisePlan>, Error> {
        self.checked()?.plan()
    }

    /// Enqueues the call on the stream of the device that holds the outputs. It allocates nothing, so that a capture of the
    /// stream takes it once its kernel is loaded.
    ///
    /// # Errors
    ///
    /// Returns an error if a tensor or a scalar of the expression is not given or is of another type; if a name is none of the
    /// expression's; if shapes or devices differ; if an output has one element at several coordinates, or overlaps another
    /// tensor that does not lie exactly there; or if the tensors make more loops than a kernel takes. Returns the device's error
    /// if the launch fails.
    pub fn run(&self) -> Result<(), Error> {
        let first = self.expression.outputs().next();
        let device = first.and_then(|first| {
            let mut outputs = self.tensors.iter().filter(|given| given.is_output);
            let given = outputs.find(|given| *given.name == *first.name)?;
            Some(&given.device)
        });
        let is_on = |device: &Device| {
            let mut all = self.tensors.iter();
            all.all(|given| device.is_same_device(&given.device))
        };
        let Some(device) = device.filter(|device| is_on(device)) else {
            let checked = self.checked()?;
            let device = checked.device.clone();
            return checked.prepare()?.run(&device);
        };
        ElementwiseCall::run_recent(device, &self.given(), || {
            let needs_memory = false;
            Ok((self.prepare()?, needs_memory))
        })
    }

    /// What the caller gives, by which a map is found that ran before.
    fn given(&self) -> GivenMap {
        let scalars = self.scalars.iter();
        let tensors = self.tensors.iter().map(|given| MapTensorKey {
            name: given.name.clone(),
            element: given.element,
            key: given.key.clone(),
            is_output: given.is_output,
        });
        GivenMap {
            expression: self.expression.clone(),
            scalars: scalars
                .map(|(name, value)| (name.clone(), value.to_bits()))
                .collect(),
            tensors: tensors.collect(),
        }
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Map::run`].
    pub fn prepare(&self) -> Result<ElementwiseCall<'a>, Error> {
        self.checked()?.prepare()
    }

    /// Builds and loads every kernel that a call with tensors of these shapes takes by default, so that a new shape assembles none in the
    /// middle of a request. A shape has an extent for each mode. Returns the number of kernels; shapes that share one need it once.
    ///
    /// The other calls differ from this one in the extents alone: they have the same expression, and addresses of the same alignment. Each
    /// tensor has its modes in the order in memory that they have here. A mode that follows the one inside of it without a gap does so
    /// there too; a mode with a gap keeps its stride, and so does one of several elements with the stride 0. The place in memory of a mode of
    /// one element is that of a row-major tensor if its stride says no other: if it is 0, lies among the elements of another mode, or has a
    /// gap without room for the shape. A device keeps the last 256 kernels of elementwise calls.
    ///
    /// ```
    /// use colex_gpu::elementwise::{Map, MapExpression};
    /// use colex_gpu::{Device, View};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let (x, bias) = (device.zeros::<f32>(128)?, device.zeros::<f32>(64)?);
    /// let mut y = device.poisoned::<f32>(128)?;
    /// let add: MapExpression = "(x: tensor f32, bias: tensor f32) -> y { add(x, bias) }".parse()?;
    /// let call = Map::new(&add).input("x", &x.view((2, 64))?).output("y", &y.view_mut((2, 64))?);
    /// let call = call.input("bias", &View::new(&bias, "(2,64):(0,1)")?); // one number for each column
    /// // Vectors of 4 and single elements; 100 rows have two loops, and one row has one.
    /// assert_eq!(call.load_plans([[1, 64], [1, 1000], [100, 1000], [100, 999]])?, 3);
    /// assert_eq!(
    ///     call.load_plans([[64]]).unwrap_err().to_string(),
    ///     "x has the layout (2,64):(64,_1), and cannot have another shape: the shape 64 has another rank"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Map::run`] that concern the views; an error if an extent is negative, if a shape has another number of
    /// modes than a tensor, if a mode of a tensor has several strides, or if a gap has no room for a shape; and the device's error if it
    /// does not take a kernel. No kernel is loaded if a shape is refused.
    pub fn load_plans(
        &self,
        shapes: impl IntoIterator<Item = impl AsRef<[i64]>>,
    ) -> Result<usize, Error> {
        let device = self.checked()?.device;
        let calls = shapes
            .into_iter()
            .map(|shape| self.of_shape(shape.as_ref()));
        Checked::load_plans(&device, calls)
    }

    /// The call with tensors of another shape.
    fn of_shape(&self, extents: &[i64]) -> Result<Checked, Error> {
        if !has_elements(extents)? {
            let own = self.checked()?;
            return Ok(Checked { work: None, ..own });
        }
        let tensors = self.tensors.iter().map(|given| given.resized(extents));
        let tensors = tensors.collect::<Result<_, Error>>()?;
        self.of_tensors(tensors)
    }

    /// The call with other tensors, which have no memory of their own.
    pub(crate) fn of_tensors(&self, tensors: Vec<GivenView>) -> Result<Checked, Error> {
        let other = Map {
            tensors,
            ..self.clone()
        };
        other.checked_by(|_| Ok(()))
    }

    /// Prepares the call with the plan that `plan` makes of its problem.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::elementwise::{ElementwisePlan, Map, MapExpression};
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let (x, mut y) = (device.upload(&[1.0f32; 100])?, device.poisoned::<f32>(100)?);
    /// let negative: MapExpression = "(x: tensor f32) -> y { neg(x) }".parse()?;
    /// let call = Map::new(&negative).input("x", &x.view(100)?).output("y", &y.view_mut(100)?);
    /// let call = call.prepare_with(|problem, arch| {
    ///     let plan = ElementwisePlan::fastest(problem, arch)?;
    ///     Ok(ElementwisePlan { threads: 64, accesses: 2, ..plan })
    /// })?;
    /// assert_eq!(call.to_string(), "map, vectors of 4, 64 threads, 2 accesses");
    /// call.run(&device)?;
    /// assert_eq!(y.download()?, [-1.0; 100]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Map::run`], of the function and of [`ElementwisePlan::build`], and an error if the plan was made
    /// for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(&ElementwiseProblem, Arch) -> Result<ElementwisePlan, Error>,
    ) -> Result<ElementwiseCall<'a>, Error> {
        self.checked()?.prepare_with(plan)
    }

    /// Returns the device that holds the first output, if one is given.
    pub fn device(&self) -> Option<&Device> {
        let mut outputs = self.tensors.iter().filter(|given| given.is_output);
        outputs.next().map(|given| &given.device)
    }
}

/// The error of a tensor whose shape does not correspond to that of another one, where one of both has no element.
fn differ(one: &GivenView, other: &GivenView, why: String) -> Error {
    ElementwiseError::Shape {
        name: one.name.to_string(),
        found: one.shape(),
        other: other.name.to_string(),
        shape: other.shape(),
        why,
    }
    .into()
}

/// The layout that maps a coordinate of a shape to its part along a mode.
pub(crate) fn coordinate(shape: &Layout, name: &str, mode: usize) -> Result<Layout, Error> {
    let sizes: Vec<i64> = if shape.is_leaf() {
        vec![shape.size()]
    } else {
        shape.modes().map(|mode| mode.size()).collect()
    };
    if mode >= sizes.len() {
        return refuse(format!(
            "{name} is the coordinate along mode {mode}, and the outputs have {} modes",
            sizes.len()
        ));
    }
    if sizes[mode] > i64::from(i32::MAX) {
        return refuse(format!(
            "{name} is the coordinate along mode {mode} of {} elements: 32 bits hold it up to {}",
            sizes[mode],
            i32::MAX
        ));
    }
    let leaf = |(i, size): (usize, &i64)| Layout::leaf(*size, i64::from(i == mode));
    let leaves = sizes.iter().enumerate().map(leaf);
    let leaves = leaves.collect::<Result<Vec<Layout>, _>>();
    let leaves = leaves.map_err(colex_tensor::Error::from)?;
    match &leaves[..] {
        [one] if shape.is_leaf() => Ok(one.clone()),
        all => Ok(Layout::concat(all).map_err(colex_tensor::Error::from)?),
    }
}
