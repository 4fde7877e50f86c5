//! Whether two tensors share an element: by their bytes, and where these overlap, by their layouts.

use std::borrow::Cow;

use colex_device::{Element, View};
use colex_layout::Layout;

use crate::error::{Error, disjoint};

/// Where the elements of a tensor lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'a> {
    pub(crate) bytes: (u64, u64),
    /// None of a tensor without elements.
    pub(crate) layout: Option<&'a Layout>,
    /// The bytes of an element.
    pub(crate) size: i64,
}

impl<'a> Elements<'a> {
    pub(crate) fn of<T: Element>(view: &'a View<'_, T>) -> Elements<'a> {
        Elements {
            bytes: view.bytes(),
            layout: view.layout(),
            size: T::BYTES as i64,
        }
    }

    /// The extent and the bytes between two elements of each loop over them; `None` if a loop has no such number, or goes down.
    fn loops(&self) -> Option<Vec<(i128, i128)>> {
        let mut loops = Vec::new();
        for leaf in self.layout?.leaves() {
            let (extent, stride) = (leaf.extent.value(), leaf.stride.as_int()?.value());
            match (extent, stride) {
                (..=1, _) | (_, 0) => {}
                (_, ..0) => return None,
                _ => loops.push((extent.into(), i128::from(stride) * i128::from(self.size))),
            }
        }
        Some(loops)
    }
}

/// Checks that what is written and what is read share no element.
///
/// # Errors
///
/// Returns an error that names both and their bytes.
pub(crate) fn apart(
    (output, written): (impl Into<Cow<'static, str>>, Elements<'_>),
    (operand, read): (impl Into<Cow<'static, str>>, Elements<'_>),
) -> Result<(), Error> {
    match disjoint(output, written.bytes, operand, read.bytes) {
        Err(_) if lie_between(written, read) => Ok(()),
        found => found,
    }
}

/// Whether the elements of two tensors lie between each other, as the columns of one matrix do: all longer strides of both are multiples
/// of a period, and within a period the two take bytes of their own. Where this returns false, they may share an element or not.
fn lie_between(a: Elements<'_>, b: Elements<'_>) -> bool {
    let (Some(of_a), Some(of_b)) = (a.loops(), b.loops()) else {
        return false;
    };
    let all = || of_a.iter().chain(&of_b).map(|(_, stride)| *stride);
    all().any(|least| {
        let period = all().filter(|stride| *stride >= least).fold(0, gcd);
        // What the shorter strides span.
        let span = |loops: &[(i128, i128)], size: i64| {
            let short = loops.iter().filter(|(_, stride)| *stride < least);
            let last: i128 = short.map(|(extent, stride)| (extent - 1) * stride).sum();
            last + i128::from(size)
        };
        let first = (i128::from(b.bytes.0) - i128::from(a.bytes.0)).rem_euclid(period);
        span(&of_a, a.size) <= first && first + span(&of_b, b.size) <= period
    })
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn elements(layout: &Layout, first: u64, size: i64) -> Elements<'_> {
        let length = layout.cosize().expect("a size") * size;
        Elements {
            bytes: (first, first + length as u64),
            layout: Some(layout),
            size,
        }
    }

    fn bytes(of: Elements<'_>) -> HashSet<u64> {
        let layout = of.layout.expect("a layout");
        let element = |i| of.bytes.0 + (layout.at(i).expect("an element") * of.size) as u64;
        let each = (0..layout.size()).map(element);
        each.flat_map(|first| first..first + of.size as u64)
            .collect()
    }

    /// All pairs of small layouts of two modes with the strides 0 to 6, elements of one and of two bytes, and all first places up to 7:
    /// tensors that lie between each other share no byte. Columns of one matrix are found in every order.
    #[test]
    fn law_tensors_that_lie_between_each_other_share_no_byte() {
        let mut layouts = Vec::new();
        for (m, n) in [(1, 1), (2, 1), (2, 2), (3, 2), (2, 3)] {
            for s in 0..=6 {
                for t in 0..=6 {
                    layouts.push(Layout::new((m, n), (s, t)).expect("a layout"));
                }
            }
        }
        let (mut cases, mut found) = (0, 0);
        for (number, of_a) in layouts.iter().enumerate() {
            for of_b in layouts.iter().skip(number % 3).step_by(3) {
                for (first, sizes) in (0..8).flat_map(|at| [(at, [1, 1]), (at, [2, 1])]) {
                    let a = elements(of_a, 8, sizes[0]);
                    let b = elements(of_b, 8 + first, sizes[1]);
                    cases += 1;
                    if apart(("a", a), ("b", b)).is_ok() {
                        found += 1;
                        assert!(
                            bytes(a).is_disjoint(&bytes(b)),
                            "{of_a} and {of_b} from {first} on, {sizes:?}"
                        );
                    }
                }
            }
        }
        println!("law apart: {cases} cases, {found} apart");
        assert!(found > cases / 20 && found < cases, "{found} of {cases}");
        // Three columns of two of each row of six, four rows.
        let columns = Layout::new((4, 2), (6, 1)).expect("a layout");
        for (a, b) in [(0, 2), (2, 0), (0, 4), (4, 2)] {
            let [a, b] = [a, b].map(|first| elements(&columns, 256 + 4 * first, 4));
            assert!(disjoint("a", a.bytes, "b", b.bytes).is_err());
            assert!(apart(("a", a), ("b", b)).is_ok());
        }
        let [a, b] = [0, 1].map(|first| elements(&columns, 256 + 4 * first, 4));
        assert!(apart(("a", a), ("b", b)).is_err());
    }
}
