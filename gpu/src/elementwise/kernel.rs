//! The kernel of a plan: loads of all operands, the formulas, the stores.
//!
//! A thread has some vectors along the innermost loop. Of one contiguous run, the tiles of a block are cut as those of a copy;
//! otherwise the number of a vector is divided into its coordinates.

use colex_atom::{Arch, CopyAtom, Ty};
use colex_layout::Layout;
use colex_tensor::{AtThread, Builder, Error, Expr, Fragment, Index, Tensor, TensorKernel};
use colex_tiled::TiledCopy;

use super::expression::MapInputKind;
use super::operands::{Access, Binding, ElementwiseOperand, KnownOperands, OperandForm, parameter};
use super::plan::ElementwisePlan;
use crate::copy::pieces::digits;
use crate::gemm::epilogue::terms::scalar_type;

/// A kernel that is being built.
struct Elementwise<'a> {
    plan: &'a ElementwisePlan,
    known: &'a KnownOperands,
    scalars: Vec<Expr>,
    /// In the order of the operands.
    parameters: Vec<Parameter>,
    thread: Index,
}

/// An operand's parameters.
enum Parameter {
    Tensor(Box<Tensor>),
    /// The first number, and the step of each loop.
    Numbers(Vec<Expr>),
}

/// The vectors of the threads of a block, or of one thread.
struct VectorPlace {
    /// The number of threads that share the tile, and the own number among them.
    threads: i64,
    own: Index,
    /// The elements that an access takes at most, and those that a thread has side by side.
    side_by_side: i64,
    /// The coordinates of the tile: in tiles along the innermost loop, in elements along the others.
    at: Vec<Index>,
    /// Whether the tile lies inside of all tensors.
    is_inside: bool,
}

/// Builds the kernel.
pub(crate) fn build(plan: &ElementwisePlan, arch: Arch) -> Result<TensorKernel, Error> {
    let known = &*plan.operands.0;
    let mut k = Builder::new("elementwise", arch, plan.threads as u32);
    let mut scalars = Vec::new();
    for input in known.expression.inputs() {
        if input.kind == MapInputKind::Scalar {
            let register = k.scalar_argument(&input.name, scalar_type(input.ty));
            scalars.push(Expr::register(register, input.ty));
        }
    }
    let mut parameters = Vec::new();
    for operand in &known.operands {
        parameters.push(declare(&mut k, operand, known.rank)?);
    }
    let thread = k.thread();
    let kernel = Elementwise {
        plan,
        known,
        scalars,
        parameters,
        thread,
    };
    if plan.operands.is_flat() {
        kernel.of_run(&mut k)?;
    } else {
        kernel.of_loops(&mut k)?;
    }
    k.finish()
}

fn declare(k: &mut Builder, operand: &ElementwiseOperand, rank: usize) -> Result<Parameter, Error> {
    let name = &operand.name;
    if operand.kind == OperandForm::Coordinate {
        let mut number = |what: String| {
            let register = k.scalar_argument(&what, scalar_type(Ty::S32));
            Expr::register(register, Ty::S32)
        };
        // No other input or output has such a name.
        let mut all = vec![number(format!("{name}_stride_first"))];
        all.extend((0..rank).map(|i| number(format!("{name}_stride_{i}"))));
        return Ok(Parameter::Numbers(all));
    }
    // Values for reports, whose product has 63 bits.
    let extent = |i: i64| if i < 2 { 256 } else { 16 };
    let leaves = (0..rank as i64).map(|i| (extent(i), 4096 << i));
    let last = matches!(operand.kind, OperandForm::Rows { .. }).then_some((1024, 4096));
    let layout = parameter(operand, leaves, last)?;
    Ok(Parameter::Tensor(Box::new(
        k.tensor(name, operand.ty, layout),
    )))
}

/// The copy of `bits` bits.
fn universal(bits: i64) -> CopyAtom {
    let name = format!("UniversalCopy<uint{bits}_t>");
    colex_atom::copy(&name).expect("8 to 128 bits are in the table")
}

impl Elementwise<'_> {
    /// The tensor of an operand.
    fn tensor(&self, operand: usize) -> Option<&Tensor> {
        match &self.parameters[operand] {
            Parameter::Tensor(tensor) => Some(tensor),
            Parameter::Numbers(_) => None,
        }
    }

    /// The extents of the loops, by the tensor of the first output.
    fn extents(&self) -> Vec<Index> {
        let outputs = self.known.operands.iter().enumerate();
        let mut outputs = outputs.filter(|(_, operand)| operand.is_output);
        let (number, operand) = outputs.next().expect("a map has an output");
        let tensor = self.tensor(number).expect("an output has memory");
        let mut extents: Vec<Index> = (0..self.known.rank).map(|i| tensor.extent(i)).collect();
        if operand.kind == OperandForm::Pairs {
            extents[0] = &extents[0] / 2;
        }
        extents
    }

    /// One contiguous run: the tiles of a block, and the last block's elements one by one.
    fn of_run(&self, k: &mut Builder) -> Result<(), Error> {
        let ElementwisePlan {
            vector,
            accesses,
            threads,
            ..
        } = *self.plan;
        let tensors = (0..self.parameters.len()).filter(|i| {
            let is_long = self.known.operands[*i].access != Access::Once;
            is_long && self.tensor(*i).is_some()
        });
        let tensors: Vec<&Tensor> = tensors.filter_map(|i| self.tensor(i)).collect();
        // The branch below asks one of them.
        for pair in tensors.windows(2) {
            k.same_extents(pair[0], pair[1]);
        }
        let block = k.block_index(0);
        let block = k.within(block, 0..self.plan.most_blocks());
        let extent = self.extents()[0].clone();
        let tile = self.plan.tile();
        let places = |side_by_side: i64, is_inside: bool| -> Vec<VectorPlace> {
            let of = |i: i64| VectorPlace {
                threads,
                own: self.thread.clone(),
                side_by_side,
                at: vec![&block * accesses + i],
                is_inside,
            };
            (0..accesses).map(of).collect()
        };
        let whole = k.less(&(&block * tile + (tile - 1)), &extent);
        let failed = std::cell::Cell::new(None);
        let keep = |result: Result<(), Error>| {
            if let Err(error) = result {
                failed.set(Some(error));
            }
        };
        k.if_else(
            whole,
            |k| keep(self.compute(k, &places(vector, true))),
            |k| {
                for place in places(1, false) {
                    keep(self.compute(k, &[place]));
                }
            },
        );
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Any loops: the vectors of a thread by their numbers.
    fn of_loops(&self, k: &mut Builder) -> Result<(), Error> {
        let ElementwisePlan {
            vector,
            accesses,
            threads,
            ..
        } = *self.plan;
        let block = k.block_index(0);
        let most = self.plan.most_blocks();
        let block = k.within(block, 0..most);
        let mut extents = self.extents();
        if vector > 1 {
            extents[0] = k.within(&extents[0] / vector, 1..most * self.plan.tile() + 1);
        }
        let place = |i: i64| {
            let number = &block * (threads * accesses) + (&self.thread + i * threads);
            VectorPlace {
                threads: 1,
                own: 0.into(),
                side_by_side: vector,
                at: digits(&number, &extents),
                is_inside: false,
            }
        };
        let places: Vec<VectorPlace> = (0..accesses).map(place).collect();
        self.compute(k, &places)
    }

    /// How an operand's elements at a place are copied: of the tile, the thread's part of it.
    fn part(
        &self,
        operand: &ElementwiseOperand,
        tensor: &Tensor,
        place: &VectorPlace,
    ) -> Result<(TiledCopy, Tensor), Error> {
        let bits = i64::from(operand.ty.bits());
        let halves = if operand.kind == OperandForm::Pairs {
            2
        } else {
            1
        };
        let values = place.side_by_side * halves;
        let width = operand.width(place.side_by_side);
        let line = |n: i64| Layout::column_major(n);
        let copy = TiledCopy::new(
            universal(bits * width),
            bits,
            &line(place.threads)?,
            &line(values)?,
        )?;
        let mut tile = vec![1; place.at.len()];
        tile[0] = place.threads * self.plan.vector * halves;
        let tile = tensor.local_tile(&tile, &place.at);
        let tile = if place.is_inside {
            tile.stated_inside()
        } else {
            tile
        };
        let part = copy.at(&place.own).partition_src(&tile); // (CPY, CPY_M, ..)
        Ok((copy, part))
    }

    /// Registers for a thread's part.
    fn fragment(k: &mut Builder, copy: &TiledCopy, part: &Tensor) -> Fragment {
        if copy.atom_values() == 1 {
            k.fragment_unpacked(part)
        } else {
            k.fragment_like(part)
        }
    }

    /// The elements of an operand at a place.
    fn load(&self, k: &mut Builder, number: usize, place: &VectorPlace) -> Result<Fragment, Error> {
        let operand = &self.known.operands[number];
        let tensor = match &self.parameters[number] {
            Parameter::Tensor(tensor) => tensor,
            Parameter::Numbers(numbers) => return Ok(self.numbers(k, numbers, place)),
        };
        if operand.access == Access::Once {
            let mut at: Vec<Expr> = vec![0.into()];
            at.extend(place.at[1..].iter().map(Expr::from));
            return Ok(k.gather(&tensor.elements(at)));
        }
        let (copy, part) = self.part(operand, tensor, place)?;
        let held = Self::fragment(k, &copy, &part);
        if place.is_inside {
            k.copy(&copy, &part, &held);
        } else {
            k.copy_in_bounds(&copy, &part, &held);
        }
        Ok(held)
    }

    /// The coordinate along the innermost loop of the thread's element `i`.
    fn innermost(&self, place: &VectorPlace, i: i64) -> Index {
        let tile = place.threads * self.plan.vector;
        let (side, threads) = (place.side_by_side, place.threads);
        let within = &place.own * side + (i % side + i / side * (threads * side));
        &place.at[0] * tile + within
    }

    /// What a coordinate operand is at a place.
    fn numbers(&self, k: &mut Builder, numbers: &[Expr], place: &VectorPlace) -> Fragment {
        let (first, steps) = numbers.split_first().expect("a first number");
        let mut outer = first.clone();
        for (at, step) in place.at.iter().zip(steps).skip(1) {
            outer = Expr::from(at) * step + outer;
        }
        let outer = k.map(outer);
        let d = k.fragment(Ty::S32, line(self.plan.vector));
        for i in 0..self.plan.vector {
            let at = Expr::from(self.innermost(place, i));
            k.assign(&d.values(i, 1), at * &steps[0] + &outer);
        }
        d
    }

    /// The elements of the rows whose numbers are given. A row that the table does not have is 0.
    fn rows(
        &self,
        k: &mut Builder,
        operand: &ElementwiseOperand,
        table: &Tensor,
        place: &VectorPlace,
        index: &Fragment,
    ) -> Fragment {
        let vector = self.plan.vector;
        let (count, width) = match operand.access {
            Access::Once => (index.layout().size(), index.layout().size()),
            Access::Vector(_) if index.layout().size() == 1 => (vector, operand.width(vector)),
            Access::Vector(_) | Access::Strided => (vector, 1),
        };
        let coordinates = |first: Index, index: Expr| {
            let mut at: Vec<Expr> = vec![first.into()];
            at.extend(place.at[1..].iter().map(Expr::from));
            at.push(index);
            at
        };
        if operand.access == Access::Once {
            return k.gather(&table.elements(coordinates(0.into(), index.into())));
        }
        if width == count && width > 1 {
            let at = coordinates(self.innermost(place, 0), index.into());
            return k.gather(&table.elements(at).vectors(0, width));
        }
        let d = k.fragment(operand.ty, line(count));
        k.clear(&d);
        for first in (0..count).step_by(width as usize) {
            let own = if index.layout().size() == 1 {
                index.clone()
            } else {
                index.values(first, 1)
            };
            let at = coordinates(self.innermost(place, first), own.into());
            let elements = table.elements(at);
            let some = if width > 1 {
                k.gather(&elements.vectors(0, width))
            } else {
                k.gather(&elements)
            };
            k.assign(&d.values(first, width), &some);
        }
        d
    }

    /// One half of pairs in registers.
    fn half(pairs: &Fragment, which: i64) -> Result<Fragment, Error> {
        let count = pairs.layout().size() / 2;
        let by_half = Layout::new((2, count), (1, 2))?;
        let layout = pairs.layout().composition(&by_half)?.to_static();
        Ok(pairs.with_layout(layout).slice((which, ..)))
    }

    /// Loads, computes and stores the vectors at some places. All loads come first.
    fn compute(&self, k: &mut Builder, places: &[VectorPlace]) -> Result<(), Error> {
        let mut held: Vec<Vec<Option<Fragment>>> = Vec::new();
        for place in places {
            let mut own: Vec<Option<Fragment>> = vec![None; self.known.operands.len()];
            for (number, operand) in self.known.operands.iter().enumerate() {
                let is_rows = matches!(operand.kind, OperandForm::Rows { .. });
                if !operand.is_output && !is_rows {
                    own[number] = Some(self.load(k, number, place)?);
                }
            }
            held.push(own);
        }
        for (place, own) in places.iter().zip(&mut held) {
            for (number, operand) in self.known.operands.iter().enumerate() {
                if let OperandForm::Rows { index } = operand.kind {
                    let index = own[index].as_ref().expect("an index was loaded");
                    let table = self.tensor(number).expect("a table has memory");
                    own[number] = Some(self.rows(k, operand, table, place, index));
                }
            }
        }
        for (place, own) in places.iter().zip(&held) {
            self.finish(k, place, own)?;
        }
        Ok(())
    }

    /// The formulas over what a thread has loaded for a place, and their stores.
    fn finish(
        &self,
        k: &mut Builder,
        place: &VectorPlace,
        held: &[Option<Fragment>],
    ) -> Result<(), Error> {
        let of = |number: usize| held[number].as_ref().expect("an input was loaded");
        let input = |binding: &Binding| {
            Ok::<_, Error>(match binding {
                Binding::Scalar(number) => self.scalars[*number].clone(),
                Binding::Operand(number) => Expr::from(of(*number)),
                Binding::Half(number, which) => Expr::from(Self::half(of(*number), *which)?),
            })
        };
        let inputs = self.known.inputs.iter().map(input);
        let inputs = inputs.collect::<Result<Vec<Expr>, Error>>()?;
        let mut parts: Vec<Option<(TiledCopy, Tensor, Fragment)>> = Vec::new();
        let mut apart: Vec<Option<Fragment>> = vec![None; self.known.operands.len()];
        for (number, operand) in self.known.operands.iter().enumerate() {
            let tensor = self.tensor(number).filter(|_| operand.is_output);
            parts.push(match tensor {
                Some(tensor) => {
                    let (copy, part) = self.part(operand, tensor, place)?;
                    let fragment = Self::fragment(k, &copy, &part);
                    Some((copy, part, fragment))
                }
                None => None,
            });
        }
        let outputs = self.known.expression.outputs().zip(&self.known.outputs);
        for (output, binding) in outputs {
            let element = output.formula.expr().over(&inputs);
            match binding {
                Binding::Operand(number) => {
                    if let Some((.., to)) = &parts[*number] {
                        k.assign(to, element);
                    }
                }
                Binding::Half(number, which) => {
                    // One register for each element, so that no half of a register is kept.
                    let ty = self.known.operands[*number].ty;
                    if apart[*number].is_none() {
                        let per = (32 / i64::from(ty.bits())).max(1);
                        let pairs = Layout::leaf(2 * self.plan.vector, per)?.to_static();
                        let pairs = k.fragment(ty, pairs);
                        k.clear(&pairs);
                        apart[*number] = Some(pairs);
                    }
                    if let Some(pairs) = &apart[*number] {
                        k.assign(&Self::half(pairs, *which)?, element);
                    }
                }
                Binding::Scalar(_) => {}
            }
        }
        for (part, pairs) in parts.iter().zip(&apart) {
            if let (Some((.., to)), Some(pairs)) = (part, pairs) {
                k.assign(to, pairs);
            }
        }
        for (copy, part, fragment) in parts.iter().flatten() {
            if place.is_inside {
                k.copy(copy, fragment, part);
            } else {
                k.copy_in_bounds(copy, fragment, part);
            }
        }
        Ok(())
    }
}

/// A line of registers.
fn line(count: i64) -> Layout {
    let line = Layout::column_major(count);
    line.expect("a vector has elements").to_static()
}
