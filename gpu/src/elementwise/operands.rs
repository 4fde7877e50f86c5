//! What an elementwise kernel reads and writes: the problem with its numbers, and what a kernel knows of it.

use core::fmt;
use std::sync::Arc;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use super::expression::MapExpression;
use super::nest::Nest;
use crate::error::{ElementwiseError, Error};
use crate::memory_bound::plan::WIDEST;

/// What an operand is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Elements of a tensor.
    Tensor,
    /// Two neighbours for each coordinate; the layout is that of the first ones, in elements.
    Pairs,
    /// Elements of the rows whose numbers another operand has: the layout is that of a row, of stride 0 along the other modes.
    Rows {
        index: usize,
        rows: i64,
        stride: i64,
    },
    /// No memory: the layout maps a coordinate to a number.
    Coordinate,
}

/// An operand of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) is_output: bool,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
}

/// Where a formula's input comes from, or its output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binding {
    /// The scalar of a number.
    Scalar(usize),
    /// The operand of a number.
    Operand(usize),
    /// The first or the second one of an operand's pairs.
    Half(usize, i64),
}

/// What a call computes: all but the addresses of its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ElementwiseWork {
    /// The name of the call in sentences.
    pub(crate) what: &'static str,
    pub(crate) expression: MapExpression,
    pub(crate) inputs: Vec<Binding>,
    pub(crate) outputs: Vec<Binding>,
    /// The scalars as bits.
    pub(crate) scalars: Vec<(Ty, u64)>,
    /// The inputs, then the outputs. The address of each but the coordinates is an argument of the launch.
    pub(crate) operands: Vec<Operand>,
}

/// How a thread accesses the elements of an operand along the innermost loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// They are contiguous: an access takes at most this number of them.
    Vector(i64),
    /// They lie apart: an access takes one.
    Strided,
    /// They are one element.
    Once,
}

/// What a kernel knows of an operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseOperand {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) is_output: bool,
    pub(crate) kind: OperandForm,
    pub(crate) access: Access,
}

/// What a kernel knows of the kind of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OperandForm {
    Tensor,
    Pairs,
    Rows { index: usize },
    Coordinate,
}

impl ElementwiseOperand {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of the elements.
    pub fn ty(&self) -> Ty {
        self.ty
    }

    /// Returns how a thread accesses it.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The elements of an access of a thread that has `vector` coordinates.
    pub(crate) fn width(&self, vector: i64) -> i64 {
        let Access::Vector(most) = self.access else {
            return 1;
        };
        let own = if self.kind == OperandForm::Pairs {
            vector.saturating_mul(2)
        } else {
            vector
        };
        let width = most.min(own);
        // Two bytes have no place of their own in a register.
        if width.saturating_mul(self.ty.bits().into()) == 16 {
            1
        } else {
            width
        }
    }
}

/// What a kernel knows of its operands: all but their extents, strides and addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseOperands(pub(crate) Arc<KnownOperands>);

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct KnownOperands {
    pub(crate) what: &'static str,
    pub(crate) expression: MapExpression,
    pub(crate) inputs: Vec<Binding>,
    pub(crate) outputs: Vec<Binding>,
    pub(crate) operands: Vec<ElementwiseOperand>,
    pub(crate) rank: usize,
    /// The most coordinates that a thread has at once.
    pub(crate) vector: i64,
}

impl ElementwiseOperands {
    /// Returns the formulas.
    pub fn expression(&self) -> &MapExpression {
        &self.0.expression
    }

    /// Returns the tensors, in the order of a kernel's parameters behind the scalars.
    pub fn iter(&self) -> impl Iterator<Item = &ElementwiseOperand> {
        let all = self.0.operands.iter();
        all.filter(|operand| operand.kind != OperandForm::Coordinate)
    }

    /// Returns the number of loops.
    pub fn loops(&self) -> usize {
        self.0.rank
    }

    /// Returns the most coordinates that a thread has at once. Of several loops, of pairs and of rows of a table, their number divides the
    /// innermost extent. They have at most 16 bytes of a tensor that is contiguous along the innermost loop and has an element for each
    /// coordinate.
    ///
    /// ```
    /// use colex_gpu::Device;
    /// use colex_gpu::elementwise::{Map, MapExpression};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm90a);
    /// let (x, mut y) = (device.zeros::<f32>(2002)?, device.poisoned::<f32>(2002)?);
    /// let relu: MapExpression = "(x: tensor f32) -> y { max(x, 0) }".parse()?;
    /// let mut vector = |layout: &str| {
    ///     let (x, y) = (colex_gpu::View::new(&x, layout)?, colex_gpu::ViewMut::new(&mut y, layout)?);
    ///     let problem = Map::new(&relu).input("x", &x).output("y", &y).problem()?;
    ///     Ok::<_, colex_gpu::Error>(problem.expect("elements").operands().vector())
    /// };
    /// // One loop may end within a vector, and one of several does not.
    /// assert_eq!([vector("1001:1")?, vector("(2,999):(1001,1)")?, vector("(2,1000):(1001,1)")?], [4, 1, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn vector(&self) -> i64 {
        self.0.vector
    }

    pub(crate) fn is_flat(&self) -> bool {
        is_flat(self.0.rank, &self.0.operands)
    }
}

/// Whether the only loop may end within a vector.
fn is_flat(rank: usize, operands: &[ElementwiseOperand]) -> bool {
    let is_simple = |operand: &ElementwiseOperand| match operand.kind {
        OperandForm::Tensor | OperandForm::Coordinate => true,
        OperandForm::Pairs | OperandForm::Rows { .. } => false,
    };
    rank == 1 && operands.iter().all(is_simple)
}

/// An elementwise call's loops over its operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementwiseProblem {
    pub(crate) work: ElementwiseWork,
    pub(crate) nest: Nest,
    operands: ElementwiseOperands,
}

/// The least that memory moves, in bytes: a sector.
const SECTOR: i64 = 32;

/// The most operands and loops of a kernel.
const MOST_OPERANDS: usize = 16;
const MOST_LOOPS: usize = 8;

fn bytes(ty: Ty) -> i64 {
    i64::from(ty.bits()) / 8
}

impl ElementwiseProblem {
    /// The problem of a call whose operands begin at these addresses. Outputs have each element once.
    pub(crate) fn of(
        work: &ElementwiseWork,
        addresses: &[u64],
    ) -> Result<ElementwiseProblem, Error> {
        let count = work.operands.len();
        if count > MOST_OPERANDS {
            return Err(ElementwiseError::Many {
                of: "tensors and coordinates",
                what: "operands",
                found: count,
                most: MOST_OPERANDS,
            }
            .into());
        }
        // The first output says the order.
        let first = work.operands.iter().position(|operand| operand.is_output);
        let first = first.unwrap_or(0);
        let order: Vec<usize> = [first]
            .into_iter()
            .chain((0..count).filter(|i| *i != first))
            .collect();
        let named = |i: &usize| {
            let operand = &work.operands[*i];
            (&operand.name[..], &operand.layout)
        };
        let nest = Nest::new(&order.iter().map(named).collect::<Vec<_>>())?;
        let nest = nest.reordered(&order);
        if nest.loops().len() > MOST_LOOPS {
            return Err(ElementwiseError::Many {
                of: "tensors",
                what: "loops",
                found: nest.loops().len(),
                most: MOST_LOOPS,
            }
            .into());
        }
        let inner = innermost(work, &nest);
        let nest = nest.with_innermost(inner);
        let operands = known(work, &nest, addresses);
        Ok(ElementwiseProblem {
            work: work.clone(),
            nest,
            operands,
        })
    }

    /// Returns the loops, with the strides of all operands.
    pub fn nest(&self) -> &Nest {
        &self.nest
    }

    /// Returns what a kernel knows of the operands.
    pub fn operands(&self) -> &ElementwiseOperands {
        &self.operands
    }

    /// Returns the bytes that any kernel moves: each element that is read or written once, and of a table as many rows as there are
    /// indices, or all of them if that is less. Which rows the indices name is not known.
    pub fn compulsory_bytes(&self) -> i64 {
        let all = 0..self.work.operands.len();
        all.map(|i| compulsory(&self.work, &self.nest, i))
            .fold(0, i64::saturating_add)
    }

    /// Returns the bytes that the kernel moves: whole sectors of 32 bytes where the elements of an operand lie apart along the
    /// innermost loop.
    pub fn moved_bytes(&self) -> i64 {
        moved(&self.work, &self.nest, 0)
    }

    /// The layout of an operand over the loops of a part of the nest, as a launch gives it.
    pub(crate) fn layout(&self, nest: &Nest, operand: usize) -> Result<Layout, Error> {
        let form = &self.operands.0.operands[operand];
        let steps = nest.loops().iter();
        let leaves = steps.map(|step| (step.extent, step.strides[operand]));
        let last = match self.work.operands[operand].kind {
            Kind::Rows { rows, stride, .. } => Some((rows, stride)),
            _ => None,
        };
        let layout = parameter(form, leaves, last);
        Ok(layout.map_err(colex_tensor::Error::from)?)
    }
}

/// The layout of a parameter: extents and strides are the launch's, but for the innermost loop's stride of 1 or 0.
pub(crate) fn parameter(
    operand: &ElementwiseOperand,
    leaves: impl Iterator<Item = (i64, i64)>,
    last: Option<(i64, i64)>,
) -> Result<Layout, colex_layout::Error> {
    let (mut shape, mut strides) = (Vec::new(), Vec::new());
    let open = |(extent, stride): (i64, i64)| (Int::Dynamic(extent), Int::Dynamic(stride));
    for (i, (extent, stride)) in leaves.enumerate() {
        let (extent, stride) = match operand.access {
            _ if i > 0 => open((extent, stride)),
            Access::Vector(_) if operand.kind == OperandForm::Pairs => {
                (Int::Dynamic(2 * extent), Int::Static(1))
            }
            Access::Vector(_) => (Int::Dynamic(extent), Int::Static(1)),
            Access::Strided => open((extent, stride)),
            Access::Once => (Int::Static(1), Int::Static(0)),
        };
        shape.push(extent);
        strides.push(stride);
    }
    if let Some((rows, stride)) = last.map(open) {
        shape.push(rows);
        strides.push(stride);
    }
    match (&shape[..], &strides[..]) {
        ([extent], [stride]) => Layout::leaf(*extent, *stride),
        _ => Layout::new(
            IntTuple::flat(shape),
            Tuple::flat(strides.into_iter().map(Stride::Int)),
        ),
    }
}

fn compulsory(work: &ElementwiseWork, nest: &Nest, i: usize) -> i64 {
    let operand = &work.operands[i];
    let count = match operand.kind {
        Kind::Tensor => nest.distinct(i),
        Kind::Pairs => nest.distinct(i).saturating_mul(2),
        Kind::Rows { rows, index, .. } => {
            // A row once where more indices than rows name them.
            let of_row = nest.distinct(i);
            let named = nest.distinct(index);
            of_row.saturating_mul(named.min(rows))
        }
        Kind::Coordinate => 0,
    };
    count.saturating_mul(bytes(operand.ty))
}

/// The bytes of all sectors that are moved if a loop is the innermost one.
fn moved(work: &ElementwiseWork, nest: &Nest, inner: usize) -> i64 {
    let of = |(i, operand): (usize, &Operand)| {
        let own = compulsory(work, nest, i);
        let stride = nest.loops()[inner].strides[i].abs();
        let near = match operand.kind {
            Kind::Pairs => 2,
            _ => 1,
        };
        if stride <= near {
            return own;
        }
        let apart = stride.saturating_mul(bytes(operand.ty)).min(SECTOR);
        (own / (near * bytes(operand.ty))).saturating_mul(apart)
    };
    let all = work.operands.iter().enumerate();
    all.map(of).fold(0, i64::saturating_add)
}

/// The loop with the least traffic if it is the innermost one, and the first of several.
fn innermost(work: &ElementwiseWork, nest: &Nest) -> usize {
    let pairs = work.operands.iter().position(|o| o.kind == Kind::Pairs);
    let of_pairs = pairs.and_then(|pairs| {
        let mut loops = nest.loops().iter();
        loops.position(|step| step.strides[pairs] == 2)
    });
    if let Some(inner) = of_pairs {
        return inner;
    }
    let all = 0..nest.loops().len();
    all.min_by_key(|inner| moved(work, nest, *inner))
        .unwrap_or(0)
}

/// What a kernel knows of operands at addresses.
fn known(work: &ElementwiseWork, nest: &Nest, addresses: &[u64]) -> ElementwiseOperands {
    let (inner, outer) = nest.loops().split_first().expect("a nest has a loop");
    let mut addresses = addresses.iter();
    let mut operands = Vec::new();
    // The bytes of the elements that are moved at each coordinate.
    let mut widest = None;
    for (i, operand) in work.operands.iter().enumerate() {
        let own = bytes(operand.ty);
        let mut steps: Vec<i64> = outer.iter().map(|step| step.strides[i]).collect();
        let (kind, near) = match operand.kind {
            Kind::Tensor => (OperandForm::Tensor, 1),
            Kind::Pairs => (OperandForm::Pairs, 2),
            Kind::Rows { index, stride, .. } => {
                steps.push(stride);
                (OperandForm::Rows { index }, 1)
            }
            Kind::Coordinate => (OperandForm::Coordinate, 1),
        };
        let at = if kind == OperandForm::Coordinate {
            0
        } else {
            *addresses.next().expect("an operand has an address")
        };
        let fits =
            |n: &i64| at.is_multiple_of((n * own) as u64) && steps.iter().all(|step| step % n == 0);
        let access = match inner.strides[i] {
            stride if stride == near => {
                let mut widths = [16, 8, 4, 2].into_iter().filter(|n| n * own <= WIDEST);
                Access::Vector(widths.find(fits).unwrap_or(1))
            }
            0 => Access::Once,
            _ => Access::Strided,
        };
        let is_whole = matches!(kind, OperandForm::Tensor | OperandForm::Pairs)
            && nest.distinct(i) == nest.size()
            && matches!(access, Access::Vector(_));
        if is_whole {
            widest = widest.max(Some(near * own));
        }
        operands.push(ElementwiseOperand {
            name: operand.name.clone(),
            ty: operand.ty,
            is_output: operand.is_output,
            kind,
            access,
        });
    }
    let mut all = KnownOperands {
        what: work.what,
        expression: work.expression.clone(),
        inputs: work.inputs.clone(),
        outputs: work.outputs.clone(),
        operands,
        rank: nest.loops().len(),
        vector: 1,
    };
    let most = widest.map_or(1, |widest| (WIDEST / widest).max(1));
    let is_flat = is_flat(all.rank, &all.operands);
    let mut vectors = [16, 8, 4, 2].into_iter().filter(|n| *n <= most);
    let fits = |n: &i64| is_flat || inner.extent % n == 0;
    all.vector = vectors.find(fits).unwrap_or(1);
    ElementwiseOperands(Arc::new(all))
}

/// `map (x: tensor f32) -> y { max(x, 0) } of x f32 by 4, y f32 by 4 in 1 loop`
impl fmt::Display for ElementwiseOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KnownOperands {
            what,
            expression,
            operands,
            rank,
            ..
        } = &*self.0;
        write!(f, "{what} {expression} of")?;
        for (i, operand) in operands.iter().enumerate() {
            let comma = if i == 0 { " " } else { ", " };
            write!(f, "{comma}{operand}")?;
        }
        let s = if *rank == 1 { "" } else { "s" };
        write!(f, " in {rank} loop{s}")
    }
}

/// `x f32 by 4`
impl fmt::Display for ElementwiseOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.ty)?;
        match self.access {
            Access::Vector(most) => write!(f, " by {most}"),
            Access::Strided => f.write_str(" strided"),
            Access::Once => f.write_str(" once"),
        }
    }
}

/// `map (x: tensor f32) -> y { max(x, 0) }: 48 by (1,1)`
impl fmt::Display for ElementwiseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementwiseWork {
            what, expression, ..
        } = &self.work;
        write!(f, "{what} {expression}: {}", self.nest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts that the comments above the operands and the problem show.
    #[test]
    fn operands_and_problems_of_maps_are_written_as_their_comments_say() {
        let layout = Layout::leaf(48, 1).expect("a layout");
        let operand = |name: &str, is_output: bool| Operand {
            name: name.to_string(),
            ty: Ty::F32,
            is_output,
            kind: Kind::Tensor,
            layout: layout.clone(),
        };
        let expression = "(x: tensor f32) -> y { max(x, 0) }".parse();
        let work = ElementwiseWork {
            what: "map",
            expression: expression.expect("a map"),
            inputs: vec![Binding::Operand(0)],
            outputs: vec![Binding::Operand(1)],
            scalars: Vec::new(),
            operands: vec![operand("x", false), operand("y", true)],
        };
        let problem = ElementwiseProblem::of(&work, &[0, 256]).expect("a problem");
        assert_eq!(
            problem.to_string(),
            "map (x: tensor f32) -> y { max(x, 0) }: 48 by (1,1)"
        );
        let operands = problem.operands();
        assert_eq!(
            operands.to_string(),
            "map (x: tensor f32) -> y { max(x, 0) } of x f32 by 4, y f32 by 4 in 1 loop"
        );
        let first = operands.iter().next().expect("a tensor");
        assert_eq!(first.to_string(), "x f32 by 4");
    }
}
