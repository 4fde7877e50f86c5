//! The vectors of sums and maxima that a call gives its epilogue, checked.

use colex_atom::Ty;
use colex_device::Device;
use colex_ir::BinaryOp;
use colex_layout::{Layout, LeafMode, Stride};

use super::arguments::{Given, GivenTensor, Product, rust_type};
use super::expression::{C, Epilogue, EpilogueReduction};
use super::reduction::{MOST_KEPT, MOST_REDUCED, ReductionShape, Reductions};
use crate::error::{Error, ErrorKind, disjoint};

/// A call whose epilogue has vectors.
pub(crate) struct WithVectors<'a> {
    /// The epilogue of the product's kernel: it stores the elements of which the vectors are made.
    pub(crate) epilogue: Epilogue,
    /// What the product's kernel is given.
    pub(crate) given: Given<'a>,
    /// The reductions behind the product, and the addresses of their elements and vectors.
    pub(crate) reductions: Reductions,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Epilogue { why }.into())
}

/// The bytes of the elements that an epilogue stores for its vectors only, by name, in a product of `elements` elements.
pub(crate) fn stored_for_vectors(
    epilogue: &Epilogue,
    given: &Given<'_>,
    elements: i64,
) -> impl Iterator<Item = (String, Ty, usize)> {
    let own = epilogue.outputs().count();
    let (all, _) = epilogue.with_elements(|name| given.is_listed(name));
    let more: Vec<(String, Ty, usize)> = all
        .outputs()
        .skip(own)
        .map(|output| {
            let ty = output.formula.ty();
            let bytes = elements.saturating_mul(i64::from(ty.bits()) / 8);
            (output.name.clone(), ty, bytes as usize)
        })
        .collect();
    more.into_iter()
}

/// The modes `kept` and those behind the matrix as one, and the other mode of the matrix.
fn by_rows(layout: &Layout, kept: usize) -> Result<Layout, Error> {
    let mode = |at: usize| layout.mode(at).expect("the shapes were compared");
    let outer = [kept].into_iter().chain(2..layout.rank()).map(mode);
    let outer: Vec<Layout> = outer.collect();
    let of = |modes: &[Layout]| {
        let all = Layout::concat(modes).map_err(colex_tensor::Error::from)?;
        Ok::<_, Error>(all.coalesce(..))
    };
    let modes = [of(&outer)?, of(&[mode(1 - kept)])?];
    Ok(Layout::concat(&modes).map_err(colex_tensor::Error::from)?)
}

impl<'a> WithVectors<'a> {
    /// Checks the vectors of a call. `layout_of_c` is None of a C without elements, and `take` returns the address of that many
    /// bytes for elements that are stored for a vector only.
    ///
    /// # Errors
    ///
    /// Returns an error if a vector is not given, is of another type or shape, overlaps another matrix, has no elements to be
    /// made of, or if there are more rows or columns than a reduction takes.
    pub(crate) fn new(
        given: &Given<'a>,
        epilogue: &Epilogue,
        product: &Product<'_>,
        layout_of_c: Option<&Layout>,
        mut take: impl FnMut(usize) -> Result<u64, Error>,
    ) -> Result<WithVectors<'a>, Error> {
        for EpilogueReduction { name, kind, .. } in epilogue.reductions() {
            if given.is_listed(name) {
                return refuse(format!(
                    "{name} has {kind}, and its rows are a list: the vectors are of rows in their order"
                ));
            }
        }
        let (stored, sources) = epilogue.with_elements(|name| given.is_listed(name));
        let own = epilogue.outputs().count();
        let [m, n] = product.extents;
        let products =
            (product.behind.iter()).fold(1_i64, |all, extent| extent.saturating_mul(all));
        let mut vectors = Vec::new();
        for one in epilogue.reductions() {
            vectors.push(vector(given, one, product)?);
        }
        check_apart(given, &vectors, product)?;
        let names = || epilogue.reductions().map(|one| &one.name[..]);
        let of_call = given;
        let mut given = given.without(|name| names().any(|own| own == name));
        if m == 0 || n == 0 || products == 0 {
            for (name, ty, _) in stored_for_vectors(epilogue, of_call, 0) {
                given.elements(&name, ty, (None, 0, 0), product.device);
            }
            let filled = epilogue.reductions().zip(&vectors).map(|(one, vector)| {
                let Some(layout) = vector.layout.as_ref() else {
                    return Ok(None);
                };
                let rows = layout.size();
                if rows > MOST_KEPT {
                    return too_many(one, rows, 0);
                }
                let (op, ty) = (one.kind.op(), one.formula.ty());
                let shape = ReductionShape::of_nothing(op, ty, column(layout)?);
                Ok(Some((shape, [vector.bytes.0; 2])))
            });
            let filled: Vec<Option<_>> = filled.collect::<Result<_, Error>>()?;
            return Ok(WithVectors {
                epilogue: stored,
                given,
                reductions: filled.into_iter().flatten().collect(),
            });
        }
        let elements = m.saturating_mul(n).saturating_mul(products);
        for (at, (name, ty, bytes)) in (own..).zip(stored_for_vectors(epilogue, of_call, elements))
        {
            let of = sources.iter().position(|source| *source == at);
            let of = of.and_then(|of| epilogue.reductions().nth(of));
            // What is reduced is contiguous.
            let steps = match of.map(|of| of.kind.kept()) {
                Some(1) => [1, m],
                _ => [n, 1],
            };
            let layout = compact([m, n], steps, product.behind)?;
            let address = take(bytes)?;
            given.elements(
                &name,
                ty,
                (Some(layout), address, bytes as u64),
                product.device,
            );
        }
        let mut reductions = Vec::new();
        for ((one, source), vector) in epilogue.reductions().zip(&sources).zip(&vectors) {
            let Some(layout) = vector.layout.as_ref() else {
                continue;
            };
            let (kept, extents) = (one.kind.kept(), [m, n]);
            let rows = extents[kept].saturating_mul(products);
            if rows > MOST_KEPT || extents[1 - kept] > MOST_REDUCED {
                return too_many(one, rows, extents[1 - kept]);
            }
            let (address, from) = match source {
                0 => (product.written.0, layout_of_c),
                at => {
                    let output = stored.outputs().nth(*at);
                    let named = output.and_then(|output| given.output(&output.name));
                    match named {
                        Some(named) => (named.bytes.0, named.layout.as_ref()),
                        // The product's kernel is refused for that.
                        None => continue,
                    }
                }
            };
            let Some(from) = from else { continue };
            // Its modes are those of C, or `bind` refuses it.
            if from.rank() != 2 + product.behind.len() {
                continue;
            }
            let shape = ReductionShape {
                op: one.kind.op(),
                ty: one.formula.ty(),
                layouts: [by_rows(from, kept)?, column(layout)?],
                of_nothing: false,
            };
            reductions.push((shape, [address, vector.bytes.0]));
        }
        Ok(WithVectors {
            epilogue: stored,
            given,
            reductions,
        })
    }
}

/// A vector as a matrix of one column.
fn column(vector: &Layout) -> Result<Layout, Error> {
    let unit = Layout::leaf(1, 0).map_err(colex_tensor::Error::from)?;
    let all = [vector.coalesce(..), unit];
    Ok(Layout::concat(&all).map_err(colex_tensor::Error::from)?)
}

fn too_many<T>(one: &EpilogueReduction, rows: i64, length: i64) -> Result<T, Error> {
    refuse(format!(
        "{} has {rows} {} of {length} elements: a reduction takes at most {MOST_KEPT} of {MOST_REDUCED}",
        one.name, one.kind
    ))
}

/// The layout of matrices with these strides, one behind the other.
fn compact([m, n]: [i64; 2], [down, across]: [i64; 2], behind: &[i64]) -> Result<Layout, Error> {
    let leaf = |extent: i64, stride: i64| {
        let leaf = Layout::leaf(extent, stride);
        leaf.map_err(colex_tensor::Error::from)
    };
    let mut modes = vec![leaf(m, down)?, leaf(n, across)?];
    let mut next = m.saturating_mul(n);
    for extent in behind {
        modes.push(leaf(*extent, next)?);
        next = next.saturating_mul(*extent);
    }
    Ok(Layout::concat(&modes).map_err(colex_tensor::Error::from)?)
}

/// The vector of a reduction.
fn vector<'g>(
    given: &'g Given<'_>,
    one: &EpilogueReduction,
    product: &Product<'_>,
) -> Result<&'g GivenTensor, Error> {
    let EpilogueReduction {
        name,
        kind,
        formula,
    } = one;
    let (ty, device): (Ty, &Device) = (formula.ty(), product.device);
    let Some(found) = given.output(name) else {
        return refuse(format!(
            "it has {kind} in {name}, which the call does not give: `.output(\"{name}\", &view)` does"
        ));
    };
    device.check_same("a vector of the epilogue", &found.device)?;
    if found.element != rust_type(ty) {
        return refuse(format!(
            "{name} is of {ty}, and the call gives elements of {}: those of {ty} are {}",
            found.element,
            rust_type(ty)
        ));
    }
    let extents = product.extents;
    let (rows, length) = (extents[kind.kept()], extents[1 - kind.kept()]);
    let wanted = [rows].into_iter().chain(product.behind.iter().copied());
    let wanted: Vec<i64> = wanted.collect();
    let Some(layout) = &found.layout else {
        if wanted.contains(&0) {
            return Ok(found);
        }
        return shape(name, kind, found, &wanted);
    };
    let modes: Vec<i64> = if layout.is_leaf() {
        vec![layout.size()]
    } else {
        layout.modes().map(|mode| mode.size()).collect()
    };
    if modes != wanted {
        return shape(name, kind, found, &wanted);
    }
    if length == 0 && kind.op() == BinaryOp::Max {
        return refuse(format!(
            "{name} has {kind} of 0 elements each: none of them is the largest"
        ));
    }
    let single = |leaf: &LeafMode| matches!(leaf.stride, Stride::Int(_));
    if !layout.leaves().iter().all(single) {
        let layout = layout.to_string();
        return Err(ErrorKind::Strides { layout }.into());
    }
    if !layout.is_injective().map_err(colex_tensor::Error::from)? {
        let layout = layout.to_string();
        return Err(ErrorKind::Twice { layout }.into());
    }
    Ok(found)
}

fn shape<T>(
    name: &str,
    kind: &impl std::fmt::Display,
    found: &GivenTensor,
    wanted: &[i64],
) -> Result<T, Error> {
    let wanted: Vec<String> = wanted.iter().map(i64::to_string).collect();
    refuse(format!(
        "{name} has the shape {}, and the {kind} of the product the shape ({})",
        found.shape,
        wanted.join(",")
    ))
}

/// Refuses vectors that overlap another one, or what the product reads or writes.
fn check_apart(
    given: &Given<'_>,
    vectors: &[&GivenTensor],
    product: &Product<'_>,
) -> Result<(), Error> {
    let mut others: Vec<(String, (u64, u64))> = vec![(C.to_string(), product.written)];
    let read = product.read.iter();
    let read = read.copied().chain(given.awaited());
    others.extend(read.map(|(name, bytes)| (name.to_string(), bytes)));
    others.extend_from_slice(product.beside_c);
    let is_vector = |name: &str| vectors.iter().any(|vector| vector.name == name);
    let tensors = given.tensors().filter(|(name, _)| !is_vector(name));
    others.extend(tensors.map(|(name, bytes)| (name.to_string(), bytes)));
    for vector in vectors {
        for (other, bytes) in &others {
            disjoint(vector.name.clone(), vector.bytes, other.clone(), *bytes)?;
        }
        others.push((vector.name.clone(), vector.bytes));
    }
    Ok(())
}
