//! `Nest`: an elementwise kernel over any number of tensors as nested loops.

use core::fmt;

use colex_layout::{Int, Layout, Stride, Tuple};

use crate::copy::loop_nest::{correspond, integers};
use crate::error::{ElementwiseError, Error};

/// One loop: its extent, and its stride in each tensor, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NestLoop {
    /// The number of iterations.
    pub extent: i64,
    /// The stride in each tensor.
    pub strides: Vec<i64>,
}

/// The fewest nested loops over the coordinates of several tensors: their joint coalescing, the first one innermost.
///
/// The shapes of the tensors correspond as those of a [copy](crate::kernels::LoopNest#which-coordinates-correspond) do.
///
/// ```
/// use colex_gpu::elementwise::Nest;
/// use colex_layout::Layout;
///
/// let [x, bias]: [Layout; 2] = ["(8,(3,2)):(6,(1,3))".parse()?, "(8,6):(0,1)".parse()?];
/// let nest = Nest::new(&[("y", &x), ("x", &x), ("bias", &bias)])?;
/// assert_eq!(nest.to_string(), "6 by (1,1,1), 8 by (6,6,0)");
/// let nest = Nest::new(&[("y", &x), ("x", &x)])?;
/// assert_eq!(nest.to_string(), "48 by (1,1)");
///
/// let other: Layout = "(6,8):(8,1)".parse()?;
/// assert_eq!(
///     Nest::new(&[("y", &x), ("x", &other)]).unwrap_err().to_string(),
///     "x has the shape (6,8), and y (8,(3,2)): mode 0 has 6 elements in one and 8 in the other"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nest {
    loops: Vec<NestLoop>,
}

/// The largest stride.
const MOST_STRIDE: i64 = (1 << 40) - 1;

/// The innermost loop is cut at multiples of this number of elements.
const UNIT: i64 = 64;

impl Nest {
    /// Returns the loops over tensors with names, ordered by the strides of the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the coordinates do not correspond, if a stride is no integer, or if one is 2^40 or more in size.
    pub fn new(tensors: &[(&str, &Layout)]) -> Result<Nest, Error> {
        let Some(((first, shape), others)) = tensors.split_first() else {
            return Ok(Nest { loops: Vec::new() });
        };
        for (name, layout) in tensors {
            integers(layout)?;
            // The stride of one element moves nothing.
            let long = layout
                .leaves()
                .iter()
                .filter(|leaf| leaf.extent.value() > 1);
            let mut strides = long.map(|leaf| leaf.stride.coefficient().value());
            let far = strides.find(|stride| stride.unsigned_abs() > MOST_STRIDE.unsigned_abs());
            if let Some(stride) = far {
                let (name, most) = (name.to_string(), MOST_STRIDE);
                return Err(ElementwiseError::Stride { name, stride, most }.into());
            }
        }
        let refused = |(name, layout): &(&str, &Layout), why: String| ElementwiseError::Shape {
            name: name.to_string(),
            found: layout.shape().to_string(),
            other: first.to_string(),
            shape: shape.shape().to_string(),
            why,
        };
        for other in others {
            correspond(&other.1.shape(), &shape.shape(), &mut Vec::new())
                .map_err(|why| refused(other, why))?;
        }
        let leaves = shape.leaves().iter();
        let mut extents: Vec<i64> = leaves.map(|leaf| leaf.extent.value()).collect();
        let none = "their extents have no common refinement";
        for tensor in tensors {
            let leaves = over(tensor.1, &extents).ok_or_else(|| refused(tensor, none.into()))?;
            extents = leaves.iter().map(|(extent, _)| *extent).collect();
        }
        let mut loops: Vec<NestLoop> = extents
            .iter()
            .map(|extent| NestLoop {
                extent: *extent,
                strides: Vec::new(),
            })
            .collect();
        for tensor in tensors {
            let leaves = over(tensor.1, &extents)
                .filter(|leaves| leaves.iter().map(|(extent, _)| extent).eq(&extents))
                .ok_or_else(|| refused(tensor, none.into()))?;
            for (step, (_, stride)) in loops.iter_mut().zip(leaves) {
                step.strides.push(stride);
            }
        }
        Ok(Nest {
            loops: joined(loops, tensors.len()),
        })
    }

    /// Returns the loops, innermost first. If there is only one element, there is one loop of extent 1.
    pub fn loops(&self) -> &[NestLoop] {
        &self.loops
    }

    /// Returns the number of coordinates.
    pub fn size(&self) -> i64 {
        let extents = self.loops.iter().map(|step| step.extent);
        extents.fold(1, i64::saturating_mul)
    }

    /// Returns the number of coordinates along the loops that move a tensor: its distinct elements, unless they overlap.
    pub fn distinct(&self, tensor: usize) -> i64 {
        let loops = self.loops.iter().filter(|step| step.strides[tensor] != 0);
        loops.fold(1, |all, step| all.saturating_mul(step.extent))
    }

    /// The offsets in a tensor at which the first vectors of `vector` coordinates begin, at most `most` of them.
    pub(crate) fn first_vectors(&self, tensor: usize, vector: i64, most: i64) -> Vec<i64> {
        let vector = vector.max(1);
        let offset = |number: i64| {
            let (mut rest, mut at) = (number, 0_i64);
            for (place, step) in self.loops().iter().enumerate() {
                let (unit, extent) = match place {
                    0 => (vector, (step.extent.max(1) - 1) / vector + 1),
                    _ => (1, step.extent.max(1)),
                };
                let own = (rest % extent).checked_mul(unit)?;
                at = at.checked_add(own.checked_mul(step.strides[tensor])?)?;
                rest /= extent;
            }
            (rest == 0).then_some(at)
        };
        (0..most).filter_map(offset).collect()
    }

    /// The same loops, whose tensor `i` is tensor `order[i]` of the result.
    pub(crate) fn reordered(mut self, order: &[usize]) -> Nest {
        for step in &mut self.loops {
            let mut strides = vec![0; order.len()];
            for (stride, to) in step.strides.iter().zip(order) {
                strides[*to] = *stride;
            }
            step.strides = strides;
        }
        self
    }

    /// The same loops with another one innermost.
    pub(crate) fn with_innermost(mut self, place: usize) -> Nest {
        let inner = self.loops.remove(place);
        self.loops.insert(0, inner);
        self
    }

    /// The loops as parts of at most `most` steps of `step` coordinates along the innermost loop, with the coordinate of the
    /// first element of each part in every tensor.
    ///
    /// Numbers that were not checked make few parts: a step that is not positive counts as 1, and one that is longer than the innermost loop
    /// cuts nothing.
    pub(crate) fn parts(&self, step: i64, most: i64) -> Vec<(Nest, Vec<i64>)> {
        let (step, most) = (step.max(1), most.max(1));
        let tensors = self.loops[0].strides.len();
        let mut open = vec![(self.clone(), vec![0; tensors])];
        let mut done = Vec::new();
        while let Some((nest, at)) = open.pop() {
            let steps = |i: usize, extent: i64| if i == 0 { extent / step + 1 } else { extent };
            let counts = nest.loops.iter().enumerate();
            let counts = counts.map(|(i, level)| steps(i, level.extent));
            let fits = counts.fold(1, i64::saturating_mul) <= most || step > nest.loops[0].extent;
            // Whole vectors, aligned as they were.
            let unit = |i: usize| if i == 0 { UNIT } else { 1 };
            let mut cuts = (0..nest.loops.len()).rev();
            let long = cuts.find(|i| nest.loops[*i].extent > unit(*i));
            let Some(cut) = long.filter(|_| !fits) else {
                done.push((nest, at));
                continue;
            };
            let extent = nest.loops[cut].extent;
            let low = (extent / 2 - 1) / unit(cut) * unit(cut) + unit(cut);
            let (mut first, mut second) = (nest.clone(), nest);
            first.loops[cut].extent = low;
            second.loops[cut].extent = extent - low;
            let strides = &second.loops[cut].strides;
            let beyond = at.iter().zip(strides).map(|(at, stride)| at + low * stride);
            let beyond = beyond.collect();
            open.push((second, beyond));
            open.push((first, at));
        }
        done
    }
}

/// The leaves of a layout over a flat shape: extents and strides.
fn over(layout: &Layout, extents: &[i64]) -> Option<Vec<(i64, i64)>> {
    let shape = Tuple::flat(extents.iter().map(|extent| Int::Dynamic(*extent)));
    let index = Layout::column_major(shape).ok()?;
    let flat = layout.composition(&index).ok()?.flatten();
    let leaf = |leaf: &colex_layout::LeafMode| match leaf.stride {
        Stride::Int(stride) => Some((leaf.extent.value(), stride.value())),
        _ => None,
    };
    flat.leaves().iter().map(leaf).collect()
}

/// Without loops of one iteration, sorted, and loops that continue each other in all tensors made one.
fn joined(mut loops: Vec<NestLoop>, tensors: usize) -> Vec<NestLoop> {
    loops.retain(|step| step.extent > 1);
    loops.sort_by(|a, b| a.strides.cmp(&b.strides));
    let mut out: Vec<NestLoop> = Vec::new();
    for step in loops {
        let follows = |last: &NestLoop| {
            let mut pairs = last.strides.iter().zip(&step.strides);
            pairs.all(|(inner, outer)| inner.checked_mul(last.extent) == Some(*outer))
        };
        match out.last_mut() {
            Some(last) if follows(last) => last.extent *= step.extent,
            _ => out.push(step),
        }
    }
    if out.is_empty() {
        out.push(NestLoop {
            extent: 1,
            strides: vec![1; tensors],
        });
    }
    out
}

/// `6 by (1,1,0), 8 by (6,6,1)`: each extent with the strides of all tensors.
impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.loops.iter().enumerate() {
            let strides: Vec<String> = step.strides.iter().map(i64::to_string).collect();
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{} by ({})", step.extent, strides.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts have every coordinate once, begin where their strides say, and are small enough.
    #[test]
    fn law_parts_of_a_nest_cover_it() {
        let shapes = [
            ("1000:1", "1000:2"),
            ("(130,3):(1,200)", "(130,3):(0,1)"),
            ("(3,7,300):(2100,300,1)", "(3,7,300):(1,3,0)"),
            ("(5,6,7):(42,7,1)", "(5,6,7):(1,5,30)"),
        ];
        for (y, x) in shapes {
            let [y, x]: [Layout; 2] = [y, x].map(|text| text.parse().expect("a layout"));
            let nest = Nest::new(&[("y", &y), ("x", &x)]).expect("a nest");
            for (step, most) in [(1, 70), (4, 20), (4, 1 << 40)] {
                let mut found = Vec::new();
                for (part, at) in nest.parts(step, most) {
                    let extents = part.loops().iter().map(|level| level.extent);
                    let extents: Vec<i64> = extents.collect();
                    for i in 0..part.size() {
                        let mut rest = i;
                        let mut places = at.clone();
                        for (extent, level) in extents.iter().zip(part.loops()) {
                            for (place, stride) in places.iter_mut().zip(&level.strides) {
                                *place += rest % extent * stride;
                            }
                            rest /= extent;
                        }
                        found.push((places[0], places[1]));
                    }
                    let vectors = extents[0] / step + 1;
                    let all = extents[1..].iter().fold(vectors, |all, n| all * n);
                    assert!(all <= most || extents[0] <= UNIT, "{part}");
                }
                let offsets = |layout: &Layout| layout.offsets().expect("offsets");
                let mut wanted: Vec<(i64, i64)> = offsets(&y).zip(offsets(&x)).collect();
                found.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(found, wanted, "{nest} in parts of {most}");
            }
        }
    }

    /// Numbers that no check has seen make a few parts, which have every coordinate.
    #[test]
    fn law_parts_by_any_numbers_are_few() {
        let shapes = ["2147483648:1", "(65536,32768):(40000,1)", "(3,7):(7,1)"];
        let steps = [
            i64::MIN,
            -1,
            0,
            1,
            16,
            1 << 20,
            (1 << 31) - 1,
            1 << 31,
            1 << 40,
            i64::MAX,
        ];
        for shape in shapes {
            let layout: Layout = shape.parse().expect("a layout");
            let nest = Nest::new(&[("y", &layout)]).expect("a nest");
            for step in steps {
                for most in [(1 << 31) / step.max(1), 1 << 20, 0] {
                    if most == 0 && step <= 1 << 20 {
                        continue;
                    }
                    let parts = nest.parts(step, most);
                    assert!(parts.len() < 1 << 13, "{shape} by {step}: {}", parts.len());
                    let all: i64 = parts.iter().map(|(part, _)| part.size()).sum();
                    assert_eq!(all, layout.size(), "{shape} by {step}");
                }
            }
        }
    }

    #[test]
    fn strides_of_any_size_are_taken_or_refused() {
        let found = [i64::MIN, -(1 << 40), 1 << 40, i64::MAX].map(|stride| {
            let layout = Layout::leaf(2, stride).expect("a layout");
            let refused = Nest::new(&[("x", &layout)]).expect_err("it is refused");
            refused.to_string()
        });
        assert_eq!(
            found,
            [
                "a stride of x is -9223372036854775808: it must be at most 1099511627775 in size",
                "a stride of x is -1099511627776: it must be at most 1099511627775 in size",
                "a stride of x is 1099511627776: it must be at most 1099511627775 in size",
                "a stride of x is 9223372036854775807: it must be at most 1099511627775 in size",
            ]
        );
        let layout = Layout::leaf(2, MOST_STRIDE).expect("a layout");
        assert!(Nest::new(&[("x", &layout)]).is_ok());
    }
}
