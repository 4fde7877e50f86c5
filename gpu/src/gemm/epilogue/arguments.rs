//! What a call gives its epilogue, checked before a kernel is built.

use std::marker::PhantomData;
use std::sync::Arc;

use colex_atom::{TensorMap, Ty};
use colex_device::{Device, Element, View};
use colex_ir::launch::Argument;
use colex_layout::{Layout, Stride};
use colex_tensor::Arg;

use super::awaited::GivenFlags;
use super::expression::{C, Epilogue, EpilogueInputKind};
use super::terms::{Form, KernelEpilogue, turned};
use crate::calls::unencoded;
use crate::error::{Error, ErrorKind, counted, disjoint};
use crate::gemm::batch::Batch;
use crate::gemm::call::B2;
use crate::gemm::groups::call::{GroupNumber, contiguous};
use crate::gemm::groups::tiles;
use crate::gemm::problem::{MOST_EXTENT, holds_f32};

/// The tensors and numbers of a call by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given<'a> {
    scalars: Vec<(String, f64)>,
    tensors: Vec<GivenTensor>,
    /// The flags for which the epilogue waits before it reads them.
    awaited: Option<GivenFlags>,
    memory: PhantomData<&'a ()>,
}

impl Given<'_> {
    /// Whether nothing is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.scalars.is_empty() && self.tensors.is_empty() && self.awaited.is_none()
    }
}

#[derive(Clone, Debug)]
pub(super) struct GivenTensor {
    pub(super) name: String,
    pub(super) element: &'static str,
    element_bytes: i64,
    /// None of a view without elements.
    pub(super) layout: Option<Layout>,
    pub(super) shape: String,
    pub(super) bytes: (u64, u64),
    pub(super) device: Device,
    is_output: bool,
    rows: Option<GivenRows>,
}

/// The rows of a tensor that those of the product are, one after the other.
#[derive(Clone, Debug)]
struct GivenRows {
    /// Their number, if they are contiguous.
    count: Option<i64>,
    layout: String,
    bytes: (u64, u64),
    device: Device,
}

/// What a prepared call is made from, apart from addresses: the kernel's epilogue, the tensors' layouts, the scalars as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EpilogueArguments {
    pub(crate) kernel: KernelEpilogue,
    layouts: Vec<Layout>,
    scalars: Vec<(Ty, u64)>,
}

/// What a call gives, and the addresses of its tensors.
pub(crate) type Bound = (Arc<EpilogueArguments>, Vec<u64>);

/// The product of a call, as its epilogue must suit it.
pub(crate) struct Product<'p> {
    /// The types of the accumulators and of C.
    pub(crate) sums: Ty,
    pub(crate) c: Ty,
    pub(crate) extents: [i64; 2],
    /// The extents of the views' modes behind the matrices, and the batch that they make.
    pub(crate) behind: &'p [i64],
    pub(crate) batch: &'p Batch,
    /// Alpha and beta.
    pub(crate) factors: [f64; 2],
    pub(crate) device: &'p Device,
    /// The bytes of A, B and, if there are some, of B2 and the numbers of groups.
    pub(crate) read: &'p [(&'static str, (u64, u64))],
    /// The bytes of C, and of what the kernel writes beside it and beside the outputs of the epilogue.
    pub(crate) written: (u64, u64),
    pub(crate) beside_c: &'p [(String, (u64, u64))],
}

/// The flags for which an epilogue waits, in words.
const FLAGS: &str = "the flags of the epilogue";

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Epilogue { why }.into())
}

/// The bits of the scalar of a name in its type, or why the call does not have it.
pub(crate) fn number(
    scalars: &[(impl AsRef<str>, f64)],
    (name, ty): (&str, Ty),
) -> Result<u64, String> {
    let Some((_, value)) = (scalars.iter()).find(|(known, _)| known.as_ref() == name) else {
        return Err(format!(
            "it reads the scalar {name}, which the call does not give: `.scalar(\"{name}\", ..)` does"
        ));
    };
    match ty {
        Ty::F64 => Ok(value.to_bits()),
        Ty::S32 if *value == f64::from(*value as i32) => Ok(u64::from(*value as i32 as u32)),
        Ty::F32 if holds_f32(*value) => Ok((*value as f32).to_bits().into()),
        _ => Err(format!(
            "the scalar {name} is of {ty}, which does not hold {value:e}"
        )),
    }
}

/// The type of Rust whose buffers hold elements of a type.
pub(crate) fn rust_type(ty: Ty) -> String {
    match ty {
        Ty::Tf32 => "f32".to_string(),
        Ty::E4m3 | Ty::E5m2 => "u8".to_string(),
        ty => ty.to_string().replacen('s', "i", 1),
    }
}

/// `a, b and c`, or `none`.
pub(super) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match &names[..] {
        [] => "none".to_string(),
        [one] => one.to_string(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

impl GivenTensor {
    /// Whether its elements change along M and along N.
    fn varies_along_both(&self) -> bool {
        let Some(layout) = self.layout.as_ref().filter(|layout| !layout.is_leaf()) else {
            return false;
        };
        let changes = |mode: Layout| {
            let leaves = mode.leaves();
            let mut leaves = leaves.iter();
            leaves.any(|leaf| leaf.extent.value() > 1 && leaf.stride.coefficient().value() != 0)
        };
        layout.modes().take(2).all(changes)
    }
}

impl<'a> Given<'a> {
    pub(crate) fn scalar(&mut self, name: &str, value: f64) {
        self.scalars.retain(|(known, _)| known != name);
        self.scalars.push((name.to_string(), value));
    }

    pub(crate) fn tensor<X: Element>(&mut self, name: &str, view: &View<'a, X>, is_output: bool) {
        let is_other = |given: &GivenTensor| given.name != name || given.is_output != is_output;
        self.tensors.retain(is_other);
        self.tensors.push(GivenTensor {
            name: name.to_string(),
            element: X::NAME,
            element_bytes: X::BYTES as i64,
            layout: view.layout().cloned(),
            shape: view.shape().to_string(),
            bytes: view.bytes(),
            device: view.device().clone(),
            is_output,
            rows: None,
        });
    }

    /// Gives the flags that say whether the tensors are there.
    pub(crate) fn awaits(&mut self, flags: &View<'a, u32>) {
        self.awaited = Some(GivenFlags::new(flags));
    }

    /// Gives the tensor that was given last the numbers of its rows.
    pub(crate) fn rows<X: GroupNumber>(&mut self, rows: &View<'a, X>) {
        if let Some(tensor) = self.tensors.last_mut() {
            tensor.rows = Some(GivenRows {
                count: contiguous(rows),
                layout: rows
                    .layout()
                    .map_or_else(|| rows.shape().to_string(), Layout::to_string),
                bytes: rows.bytes(),
                device: rows.device().clone(),
            });
        }
    }

    /// Whether the output of a name has the numbers of its rows.
    pub(super) fn is_listed(&self, name: &str) -> bool {
        self.output(name).is_some_and(|given| given.rows.is_some())
    }

    /// Gives elements of memory that the call owns as an output: their layout, address and length in bytes.
    pub(super) fn elements(
        &mut self,
        name: &str,
        ty: Ty,
        (layout, address, bytes): (Option<Layout>, u64, u64),
        device: &Device,
    ) {
        let element = match ty {
            Ty::F64 => "f64",
            Ty::S32 => "i32",
            _ => "f32",
        };
        self.tensors.push(GivenTensor {
            name: name.to_string(),
            element,
            element_bytes: i64::from(ty.bits()) / 8,
            layout,
            shape: String::new(),
            bytes: (address, address + bytes),
            device: device.clone(),
            is_output: true,
            rows: None,
        });
    }

    /// The output of a name.
    pub(super) fn output(&self, name: &str) -> Option<&GivenTensor> {
        let is_it = |given: &&GivenTensor| given.is_output && given.name == name;
        self.tensors.iter().find(is_it)
    }

    /// The same without outputs of some names.
    pub(super) fn without(&self, is_one: impl Fn(&str) -> bool) -> Given<'a> {
        let mut all = self.clone();
        all.tensors
            .retain(|given| !given.is_output || !is_one(&given.name));
        all
    }

    /// The tensors with their bytes.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, (u64, u64))> {
        self.tensors
            .iter()
            .map(|given| (&given.name[..], given.bytes))
    }

    /// The bytes of elements, for each of C, that are read from tensors which vary along both of its modes.
    pub(crate) fn bytes_along_both(&self) -> u32 {
        let read = self.tensors.iter().filter(|given| !given.is_output);
        let both = read.filter(|given| given.varies_along_both());
        let bytes = both.map(|given| given.element_bytes as u32);
        bytes.fold(0, u32::saturating_add)
    }

    /// The memory of the tensors, and of the lists of their rows.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let tensors = self.tensors.iter().flat_map(|given| {
            let rows = (given.rows.as_ref())
                .map(|rows| (format!("the rows of {}", given.name), rows.bytes));
            std::iter::once((given.name.clone(), given.bytes)).chain(rows)
        });
        let flags = self.awaited.iter();
        tensors.chain(flags.map(|flags| (FLAGS.to_string(), flags.bytes)))
    }

    /// Returns the name of a tensor that has other elements for each product of a batch of one mode.
    pub(crate) fn differs_behind(&self) -> Option<&str> {
        let differs = |layout: &Layout| {
            let behind = layout.modes().nth(2);
            behind.is_some_and(|mode| {
                let several = mode.leaves().iter();
                let mut several = several.filter(|leaf| leaf.extent.value() > 1);
                several
                    .any(|leaf| !matches!(leaf.stride, Stride::Int(stride) if stride.value() == 0))
            })
        };
        let mut tensors = self.tensors.iter();
        let found = tensors.find(|given| given.layout.as_ref().is_some_and(differs));
        found.map(|given| &given.name[..])
    }

    /// The flags for which the epilogue waits.
    pub(super) fn awaited(&self) -> Option<(&'static str, (u64, u64))> {
        self.awaited.as_ref().map(|flags| (FLAGS, flags.bytes))
    }

    /// Refuses a name that the epilogue does not have.
    fn check_names(&self, epilogue: &Epilogue) -> Result<(), Error> {
        let of = |kind| epilogue.inputs().filter(move |input| input.kind == kind);
        let tensors: Vec<&str> = of(EpilogueInputKind::Tensor).map(|i| &i.name[..]).collect();
        let scalars: Vec<&str> = of(EpilogueInputKind::Scalar).map(|i| &i.name[..]).collect();
        let outputs: Vec<&str> = epilogue.outputs().skip(1).map(|o| &o.name[..]).collect();
        let given = self
            .scalars
            .iter()
            .map(|(name, _)| ("scalar", name, &scalars));
        let given = given.chain(self.tensors.iter().map(|tensor| {
            if tensor.is_output {
                ("output", &tensor.name, &outputs)
            } else {
                ("tensor", &tensor.name, &tensors)
            }
        }));
        for (what, name, known) in given {
            if !known.contains(&&name[..]) {
                let there = list(known.iter().copied());
                return refuse(format!("it has no {what} {name}: its {what}s are {there}"));
            }
        }
        Ok(())
    }

    /// The number of a scalar in its type.
    fn number(&self, name: &str, ty: Ty) -> Result<u64, Error> {
        number(&self.scalars, (name, ty)).or_else(refuse)
    }

    /// The matrix of a name, with coalesced modes.
    fn matrix(
        &self,
        (name, ty, is_output): (&str, Ty, bool),
        product: &Product<'_>,
    ) -> Result<Option<(&GivenTensor, Layout)>, Error> {
        let Product {
            extents: [m, n],
            behind,
            device,
            ..
        } = *product;
        let mut all = self.tensors.iter();
        let Some(given) = all.find(|given| given.name == name && given.is_output == is_output)
        else {
            let (verb, call) = if is_output {
                ("writes the output", "output")
            } else {
                ("reads the tensor", "tensor")
            };
            return refuse(format!(
                "it {verb} {name}, which the call does not give: `.{call}(\"{name}\", &view)` does"
            ));
        };
        device.check_same("a tensor of the epilogue", &given.device)?;
        if given.element != rust_type(ty) {
            return refuse(format!(
                "{name} is of {ty}, and the call gives elements of {}: those of {ty} are {}",
                given.element,
                rust_type(ty)
            ));
        }
        let shape = || {
            let shape = &given.shape;
            let behind: String = behind.iter().map(|extent| format!(",{extent}")).collect();
            refuse(format!(
                "{name} has the shape {shape}, and the product ({m},{n}{behind}): a tensor of the epilogue has a layout of that shape, \
                 of stride 0 where its elements do not change"
            ))
        };
        let Some(layout) = &given.layout else {
            let is_empty = m == 0 || n == 0 || behind.contains(&0);
            return match &given.rows {
                _ if is_empty => Ok(None),
                Some(_) => refuse(format!(
                    "{name} has the shape {}: a tensor whose rows are a list has at least one, and as many columns as the product, \
                     {n}",
                    given.shape
                )),
                None => shape(),
            };
        };
        let mut wanted: Vec<i64> = [m, n].into_iter().chain(behind.iter().copied()).collect();
        if let Some(rows) = &given.rows {
            device.check_same("a list of rows", &rows.device)?;
            if rows.count != Some(m) {
                let found = &rows.layout;
                return refuse(format!(
                    "the rows of {name} are {found}, and the product has {m}: a list has one number for each, without gaps"
                ));
            }
            if !behind.is_empty() {
                return refuse(format!(
                    "the rows of {name} are a list, and C has {} behind its matrix: a list is of the rows of one matrix",
                    counted((behind.len() as i64, "mode"))
                ));
            }
            let is_matrix = !layout.is_leaf() && layout.rank() == 2;
            if !is_matrix || layout.modes().nth(1).map(|mode| mode.size()) != Some(n) {
                let shape = &given.shape;
                return refuse(format!(
                    "{name} has the shape {shape}, and the product {n} columns: a tensor whose rows are a list has as many columns, \
                     and any number of rows"
                ));
            }
            wanted = layout.modes().map(|mode| mode.size()).collect::<Vec<i64>>();
        }
        if layout.is_leaf() || !layout.modes().map(|mode| mode.size()).eq(wanted) {
            return shape();
        }
        let single = |leaf: &Stride| matches!(leaf, Stride::Int(_));
        if !layout.leaves().iter().all(|leaf| single(&leaf.stride)) {
            let layout = layout.to_string();
            return Err(ErrorKind::Strides { layout }.into());
        }
        if is_output && !layout.is_injective().map_err(colex_tensor::Error::from)? {
            let layout = layout.to_string();
            return Err(ErrorKind::Twice { layout }.into());
        }
        Ok(Some((given, product.batch.grouped(layout)?)))
    }

    /// Checks what a call gives its epilogue, and returns it with the addresses.
    pub(crate) fn bind(
        &self,
        epilogue: Option<&Epilogue>,
        product: &Product<'_>,
    ) -> Result<Option<Bound>, Error> {
        let Product {
            sums,
            c,
            factors,
            read,
            written,
            beside_c,
            device,
            ..
        } = *product;
        let Some(epilogue) = epilogue else {
            if self.awaited.is_some() {
                return refuse(
                    "the call waits for flags, and has no epilogue, before whose tensors a kernel waits"
                        .to_string(),
                );
            }
            if self.scalars.is_empty() && self.tensors.is_empty() {
                return Ok(None);
            }
            let scalars = self.scalars.iter().map(|(name, _)| &name[..]);
            let names = list(scalars.chain(self.tensors.iter().map(|given| &given.name[..])));
            return refuse(format!(
                "the call gives {names}, and has no epilogue: `.epilogue(&epilogue)` sets it"
            ));
        };
        match (
            epilogue.is_gated(),
            read.iter().any(|(name, _)| *name == B2),
        ) {
            (true, false) => {
                return refuse(
                    "it has two accumulators, and the product one right factor: `.b2(&view)` gives the second"
                        .to_string(),
                );
            }
            (false, true) => {
                return refuse(
                    "the product has two right factors, and it one accumulator: `e.second_accumulator()` is the other"
                        .to_string(),
                );
            }
            (true, true) | (false, false) => {}
        }
        if factors != [1.0, 0.0] {
            let [alpha, beta] = factors;
            return refuse(format!(
                "alpha is {alpha} and beta {beta}, which are of products without an epilogue: give it scalars in their place"
            ));
        }
        let mut inputs = epilogue.inputs();
        let own = inputs.next().map_or(sums, |input| input.ty);
        if own != sums {
            return refuse(format!(
                "its accumulators are {own}, and those of the product {sums}"
            ));
        }
        let mut outputs = epilogue.outputs();
        let own = outputs.next().map_or(c, |output| output.formula.ty());
        if own != c {
            return refuse(format!("its C is of {own}, and that of the call of {c}"));
        }
        self.check_names(epilogue)?;
        let (mut scalars, mut matrices) = (Vec::new(), Vec::new());
        for input in inputs {
            match input.kind {
                EpilogueInputKind::Scalar => {
                    scalars.push((input.ty, self.number(&input.name, input.ty)?));
                }
                EpilogueInputKind::Tensor => matrices.push((&input.name[..], input.ty, false)),
                EpilogueInputKind::Accumulator
                | EpilogueInputKind::SecondAccumulator
                | EpilogueInputKind::C
                | EpilogueInputKind::Row
                | EpilogueInputKind::Column
                | EpilogueInputKind::Closure => {}
            }
        }
        matrices.extend(outputs.map(|output| (&output.name[..], output.formula.ty(), true)));
        let (mut layouts, mut forms, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let mut outputs: Vec<(String, (u64, u64))> = vec![(C.to_string(), written)];
        outputs.extend_from_slice(beside_c);
        let read = read.iter().map(|(name, bytes)| (name.to_string(), *bytes));
        let mut all: Vec<(String, (u64, u64))> = read.collect();
        let mut lists = Vec::new();
        for (name, ty, is_output) in matrices {
            let Some((given, layout)) = self.matrix((name, ty, is_output), product)? else {
                continue;
            };
            let address = given.bytes.0;
            let largest = layout.leaves().iter().map(|leaf| leaf.extent.value()).max();
            if largest.is_some_and(|extent| extent > MOST_EXTENT) {
                return refuse(format!("{name} has an extent above {MOST_EXTENT}"));
            }
            let form = Form::of(&layout, address, given.element_bytes);
            forms.push(match &given.rows {
                Some(rows) => {
                    lists.push((list_layout(product.extents)?, rows.bytes.0));
                    all.push((format!("the rows of {name}"), rows.bytes));
                    form.by_list()
                }
                None => form,
            });
            layouts.push(layout);
            addresses.push(address);
            let named = (name.to_string(), given.bytes);
            if is_output {
                outputs.push(named);
            } else {
                all.push(named);
            }
        }
        let awaited = self.awaited.as_ref();
        let words = awaited.map(|flags| Ok::<_, Error>((flags.checked(device)?, flags.bytes)));
        let words = words.transpose()?;
        all.extend(words.map(|(_, bytes)| (FLAGS.to_string(), bytes)));
        for (i, (output, bytes)) in outputs.iter().enumerate() {
            for (other, others) in all.iter().chain(&outputs[..i]) {
                disjoint(output.clone(), *bytes, other.clone(), *others)?;
            }
        }
        for (layout, address) in lists {
            layouts.push(layout);
            addresses.push(address);
        }
        if let Some((count, bytes)) = words {
            layouts.push(tiles::form(count));
            addresses.push(bytes.0);
        }
        let epilogue = epilogue.clone();
        let kernel = KernelEpilogue {
            epilogue,
            forms,
            awaits: words.is_some(),
            is_own: true,
        };
        let arguments = EpilogueArguments {
            kernel,
            layouts,
            scalars,
        };
        Ok(Some((Arc::new(arguments), addresses)))
    }
}

/// The layout of a list of rows, as a matrix of the product's shape. That of a product without elements is not launched.
fn list_layout([m, n]: [i64; 2]) -> Result<Layout, Error> {
    Ok(Layout::new((m.max(1), n.max(1)), (1, 0)).map_err(colex_tensor::Error::from)?)
}

impl EpilogueArguments {
    /// The arguments of a launch, in the order in which [`KernelEpilogue::declare`] declares their parameters. `layouts` are those of
    /// [`EpilogueArguments::layouts`], and `landing` is the number of the tensor that TMA brings, if one is, with its map.
    pub(crate) fn arguments<'l>(
        &self,
        addresses: &[u64],
        layouts: &'l [Layout],
        landing: Option<(usize, TensorMap)>,
    ) -> Vec<Arg<'l>> {
        let scalar = |(ty, bits): &(Ty, u64)| {
            Arg::Value(match ty {
                Ty::F64 => Argument::F64(f64::from_bits(*bits)),
                Ty::S32 => Argument::U32(*bits as u32),
                _ => Argument::F32(f32::from_bits(*bits as u32)),
            })
        };
        let tensors = addresses.iter().zip(layouts).enumerate();
        let tensors = tensors.map(|(at, (address, layout))| match &landing {
            Some((landed, map)) if at == *landed => Arg::Value(unencoded(map.clone(), *address)),
            _ => Arg::checked(*address, layout),
        });
        self.scalars.iter().map(scalar).chain(tensors).collect()
    }

    /// The layouts of the tensors as the kernel sees them: transposed if A and B are swapped.
    pub(crate) fn layouts(&self, swap: bool) -> Vec<Layout> {
        if swap {
            self.layouts.iter().map(turned).collect()
        } else {
            self.layouts.clone()
        }
    }
}
