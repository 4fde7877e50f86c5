//! Maps as data: the formulas of the outputs over the inputs.

use core::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use colex_atom::{Class, Ty};
use colex_tensor::{Expr, Formula};

use crate::error::{ElementwiseError, Error};
use crate::gemm::epilogue::expression::name_refusal;

/// What a map computes for each coordinate: a formula for each output over elements of tensors, scalars of the launch and the
/// coordinate itself.
///
/// A formula is a [`colex_tensor::Expr`], as that of an [epilogue](crate::gemm::Epilogue) is: arithmetic, functions, comparisons
/// and conversions, with the type and the rounding of every step. The kernel and [`MapExpression::evaluate`] on the host compute
/// the same formula with the same roundings.
///
/// An expression compares, hashes and prints; its text parses to an equal expression, and is its serialised form.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::elementwise::MapExpression;
///
/// let swiglu = MapExpression::new(|m| {
///     let [gate, up] = ["gate", "up"].map(|name| m.tensor(name, Ty::Bf16).to(Ty::F32));
///     m.output("y", (gate.silu() * up).to(Ty::Bf16));
/// })?;
/// assert_eq!(swiglu, swiglu.to_string().parse()?);
///
/// let add: MapExpression = "(a: tensor f32, b: tensor f32, s: scalar f32) -> y { fma(b, s, a) }".parse()?;
/// let bits = |x: f32| u64::from(x.to_bits());
/// assert_eq!(add.evaluate(&[bits(1.0), bits(2.0), bits(3.0)])?, [bits(7.0)]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone)]
pub struct MapExpression(Arc<MapDefinition>);

#[derive(PartialEq, Eq, Hash)]
struct MapDefinition {
    inputs: Vec<MapInput>,
    outputs: Vec<MapOutput>,
    /// Of what is above, computed once: an expression is a part of the key of every call.
    hash: u64,
}

/// An input of a map's formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapInput {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub ty: Ty,
    /// What it is.
    pub kind: MapInputKind,
}

/// What an input of a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapInputKind {
    /// The element of a tensor that the call gives.
    Tensor,
    /// A number that the call gives.
    Scalar,
    /// The coordinate of the element along a mode, an `s32`.
    Coordinate(usize),
}

/// An output of a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapOutput {
    /// Its name.
    pub name: String,
    /// The formula of an element over the map's inputs.
    pub formula: Formula,
}

/// A map that is being described: [`MapExpression::new`] hands it to a function.
#[derive(Debug)]
pub struct MapExpressionBuilder {
    inputs: Vec<MapInput>,
    outputs: Vec<(String, Expr)>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ElementwiseError::Map { why }.into())
}

impl MapExpressionBuilder {
    fn input(&mut self, name: &str, ty: Ty, kind: MapInputKind) -> Expr {
        let same = |input: &MapInput| input.name == name && input.kind == kind;
        let known = self.inputs.iter().position(same);
        let number = known.unwrap_or(self.inputs.len());
        if known.is_none() {
            let name = name.to_string();
            self.inputs.push(MapInput { name, ty, kind });
        }
        Expr::input(number, ty)
    }

    /// Returns the element of a tensor of type `ty`, which the call gives by a layout of the outputs' shape.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::elementwise::MapExpression;
    /// let sum = MapExpression::new(|m| {
    ///     let sum = m.tensor("a", Ty::F32) + m.tensor("b", Ty::F32);
    ///     m.output("y", sum);
    /// })?;
    /// assert_eq!(sum.to_string(), "(a: tensor f32, b: tensor f32) -> y { add(a, b) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn tensor(&mut self, name: &str, ty: Ty) -> Expr {
        self.input(name, ty, MapInputKind::Tensor)
    }

    /// Returns a number of type `ty` that the call gives: `f32`, `f64` or `s32`.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::elementwise::MapExpression;
    /// let scaled = MapExpression::new(|m| {
    ///     let scaled = m.tensor("a", Ty::F32) * m.scalar("s", Ty::F32);
    ///     m.output("y", scaled);
    /// })?;
    /// assert_eq!(scaled.to_string(), "(a: tensor f32, s: scalar f32) -> y { mul(a, s) }");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn scalar(&mut self, name: &str, ty: Ty) -> Expr {
        self.input(name, ty, MapInputKind::Scalar)
    }

    /// Returns the coordinate of the element along a mode of the outputs' shape, an `s32`. Along a mode of several modes it is
    /// the colexicographic index.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::elementwise::MapExpression;
    /// let causal = MapExpression::new(|m| {
    ///     let [i, j] = [m.coordinate("i", 0), m.coordinate("j", 1)];
    ///     let x = m.tensor("x", Ty::F32);
    ///     m.output("y", j.le(i).select(x, f64::NEG_INFINITY));
    /// })?;
    /// assert!(causal.to_string().starts_with("(i: coordinate 0, j: coordinate 1, x: tensor f32) -> y {"));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn coordinate(&mut self, name: &str, mode: usize) -> Expr {
        self.input(name, Ty::S32, MapInputKind::Coordinate(mode))
    }

    /// Adds an output, which the call gives. Its elements have the type of the expression.
    ///
    /// ```
    /// # use colex_atom::Ty;
    /// # use colex_gpu::elementwise::MapExpression;
    /// let both = MapExpression::new(|m| {
    ///     let x = m.tensor("x", Ty::F32);
    ///     m.output("half", x.to(Ty::F16));
    ///     m.output("positive", x.relu());
    /// })?;
    /// assert_eq!(both.outputs().count(), 2);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn output(&mut self, name: &str, element: impl Into<Expr>) {
        self.outputs.push((name.to_string(), element.into()));
    }
}

impl MapExpression {
    /// Builds an expression.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_gpu::elementwise::MapExpression;
    ///
    /// let error = MapExpression::new(|m| {
    ///     let sum = m.tensor("a", Ty::F32) + m.tensor("b", Ty::Bf16);
    ///     m.output("y", sum);
    /// });
    /// let error = error.unwrap_err().to_string();
    /// assert!(error.ends_with("add of f32 and bf16: both have one type, and `.to(Ty::Bf16)` converts"));
    /// let error = MapExpression::new(|_| ()).unwrap_err().to_string();
    /// assert_eq!(error, "map: it has no output: `m.output(\"y\", ..)` adds one");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a formula was refused when it was made or consists of constants, if there is no output, if an element
    /// has less than 8 bits, if a scalar has another type than `f32`, `f64` and `s32`, or if a name is given twice or is none.
    pub fn new(build: impl FnOnce(&mut MapExpressionBuilder)) -> Result<MapExpression, Error> {
        let mut builder = MapExpressionBuilder {
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        build(&mut builder);
        let formula = |(name, expr): (String, Expr)| {
            let formula = expr.formula()?;
            Ok::<_, Error>(MapOutput { name, formula })
        };
        let outputs = builder.outputs.into_iter().map(formula);
        MapExpression::of(builder.inputs, outputs.collect::<Result<_, _>>()?)
    }

    /// Checks the terms of an expression.
    fn of(inputs: Vec<MapInput>, outputs: Vec<MapOutput>) -> Result<MapExpression, Error> {
        if outputs.is_empty() {
            return refuse("it has no output: `m.output(\"y\", ..)` adds one".into());
        }
        let mut names: Vec<&str> = Vec::new();
        let all = inputs.iter().map(|input| &input.name);
        for name in all.chain(outputs.iter().map(|output| &output.name)) {
            if let Some(why) = name_refusal(name, &[], "map") {
                return refuse(why);
            }
            if names.contains(&&name[..]) {
                return refuse(format!(
                    "`{name}` names two inputs or outputs: each has its own name"
                ));
            }
            names.push(name);
        }
        let is_element = |ty: Ty| ty.bits() >= 8 && !matches!(ty.class(), Class::Complex { .. });
        for MapInput { name, ty, kind } in &inputs {
            if *kind == MapInputKind::Scalar && ![Ty::F32, Ty::F64, Ty::S32].contains(ty) {
                return refuse(format!(
                    "the scalar {name} is of {ty}: a launch passes f32, f64 and s32, and `.to` converts"
                ));
            }
            if !is_element(*ty) {
                return refuse(format!(
                    "{name} has elements of {ty}: those of a map are floats and integers of 8 to 64 bits"
                ));
            }
        }
        for MapOutput { name, formula } in &outputs {
            // An input that was asked for with two types.
            for (number, ty) in formula.inputs() {
                let Some(own) = inputs.get(number) else {
                    return refuse(format!("{name} has input {number}, which is not the map's"));
                };
                if own.ty != ty {
                    let (input, own) = (&own.name, own.ty);
                    return refuse(format!("{input} is of {own}, and {name} takes it as {ty}"));
                }
            }
        }
        let mut hasher = std::hash::DefaultHasher::new();
        (&inputs, &outputs).hash(&mut hasher);
        Ok(MapExpression(Arc::new(MapDefinition {
            inputs,
            outputs,
            hash: hasher.finish(),
        })))
    }

    /// Returns the inputs in the order of their numbers.
    ///
    /// ```
    /// # use colex_gpu::elementwise::MapExpression;
    /// let map: MapExpression = "(a: tensor s8, b: tensor s8) -> y { max(a, b) }".parse()?;
    /// assert_eq!(map.inputs().nth(1).unwrap().name, "b");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn inputs(&self) -> impl Iterator<Item = &MapInput> {
        self.0.inputs.iter()
    }

    /// Returns the outputs.
    ///
    /// ```
    /// # use colex_gpu::elementwise::MapExpression;
    /// let map: MapExpression = "(a: tensor s8) -> y { a } z { neg(a) }".parse()?;
    /// assert_eq!(map.outputs().nth(1).unwrap().name, "z");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn outputs(&self) -> impl Iterator<Item = &MapOutput> {
        self.0.outputs.iter()
    }

    /// Returns one element of each output on the host, with the roundings of the kernel. The inputs are the bits of elements, in
    /// the order of [`MapExpression::inputs`].
    ///
    /// ```
    /// # use colex_gpu::elementwise::MapExpression;
    /// let map: MapExpression = "(a: tensor s8) -> y { neg(a) }".parse()?;
    /// assert_eq!(map.evaluate(&[5])?, [0xfb]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer numbers than inputs.
    pub fn evaluate(&self, inputs: &[u64]) -> Result<Vec<u64>, Error> {
        let value = |output: &MapOutput| Ok(output.formula.evaluate(inputs)?);
        self.outputs().map(value).collect()
    }
}

impl PartialEq for MapExpression {
    fn eq(&self, other: &MapExpression) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for MapExpression {}

impl Hash for MapExpression {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl fmt::Display for MapExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let input = |MapInput { name, ty, kind }: &MapInput| match kind {
            MapInputKind::Tensor => format!("{name}: tensor {ty}"),
            MapInputKind::Scalar => format!("{name}: scalar {ty}"),
            MapInputKind::Coordinate(mode) => format!("{name}: coordinate {mode}"),
        };
        let inputs: Vec<String> = self.inputs().map(input).collect();
        write!(f, "({}) ->", inputs.join(", "))?;
        let names: Vec<&str> = self.inputs().map(|input| &input.name[..]).collect();
        for MapOutput { name, formula } in self.outputs() {
            write!(f, " {name} {{ {} }}", formula.named(&names))?;
        }
        Ok(())
    }
}

impl fmt::Debug for MapExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MapExpression {
    type Err = Error;

    fn from_str(text: &str) -> Result<MapExpression, Error> {
        let form = "a map is written as `(a: tensor f32, s: scalar f32) -> y { mul(a, s) }`";
        let wrong = |part: &str| refuse(format!("`{}`: {form}", part.trim()));
        let Some((inputs, outputs)) = text.split_once("->") else {
            return wrong(text);
        };
        let list = inputs.trim();
        let Some(list) = list
            .strip_prefix('(')
            .and_then(|list| list.strip_suffix(')'))
        else {
            return wrong(inputs);
        };
        let mut all = Vec::new();
        for input in list.split(',').filter(|_| !list.trim().is_empty()) {
            let Some((name, kind)) = input.split_once(':') else {
                return wrong(input);
            };
            let words: Vec<&str> = kind.split_whitespace().collect();
            let (kind, ty) = match words[..] {
                ["tensor", ty] => (MapInputKind::Tensor, ty),
                ["scalar", ty] => (MapInputKind::Scalar, ty),
                ["coordinate", mode] => match mode.parse() {
                    Ok(mode) => (MapInputKind::Coordinate(mode), "s32"),
                    Err(_) => return wrong(input),
                },
                _ => return wrong(input),
            };
            let Some(ty) = Ty::ALL.into_iter().find(|own| own.to_string() == ty) else {
                return refuse(format!("`{}`: there is no type {ty}", input.trim()));
            };
            let name = name.trim().to_string();
            all.push(MapInput { name, ty, kind });
        }
        let known: Vec<(&str, Ty)> = all
            .iter()
            .map(|input| (&input.name[..], input.ty))
            .collect();
        let mut formulas = Vec::new();
        let mut rest = outputs.trim();
        while !rest.is_empty() {
            let found = rest.split_once('{').and_then(|(name, rest)| {
                let (formula, rest) = rest.split_once('}')?;
                Some((name.trim(), formula, rest.trim()))
            });
            let Some((name, formula, after)) = found else {
                return wrong(rest);
            };
            let formula = Formula::parse(formula, &known)?;
            let name = name.to_string();
            formulas.push(MapOutput { name, formula });
            rest = after;
        }
        MapExpression::of(all, formulas)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for MapExpression {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MapExpression {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'_, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
