//! Walks over tuples without recursion: a tuple that a program builds nests as deep as the program likes.

use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::Error;
use crate::error::ErrorKind;
use crate::tuple::{MAX_DEPTH, Tuple, View};

/// Walks two tuples side by side, from left to right.
///
/// `visit` sees the parts that stand at one place, each as a view that begins there and may go on behind the part; it
/// answers whether the walk goes on inside, which both must be tuples for, along the modes that both have.
pub(crate) fn side_by_side<'a, 'b, T: Copy, U: Copy, E>(
    mut a: View<'a, T>,
    mut b: View<'b, U>,
    mut visit: impl FnMut(View<'a, T>, View<'b, U>) -> Result<bool, E>,
) -> Result<(), E> {
    // The pairs of modes to come of each open tuple, and the modes that only one of the two has.
    let mut open: SmallVec<[(usize, [usize; 2]); 16]> = SmallVec::new();
    loop {
        if visit(a, b)? {
            let (m, n) = (a.rank(), b.rank());
            let both = m.min(n);
            open.push((both, [m - both, n - both]));
            (a, b) = (a.inside(), b.inside());
        } else {
            (a, b) = (a.split_first().1, b.split_first().1);
            count_down(open.last_mut());
        }
        while let Some((0, [more_of_a, more_of_b])) = open.last().copied() {
            (0..more_of_a).for_each(|_| a = a.split_first().1);
            (0..more_of_b).for_each(|_| b = b.split_first().1);
            open.pop();
            count_down(open.last_mut());
        }
        if open.is_empty() {
            return Ok(());
        }
    }
}

/// One part less to come in the innermost open tuple.
fn count_down<X>(innermost: Option<&mut (usize, X)>) {
    if let Some((left, _)) = innermost {
        *left -= 1;
    }
}

/// The lexicographic order; `None` where a value meets a tuple.
pub(crate) fn compare<T: Copy + Ord>(mut a: View<'_, T>, mut b: View<'_, T>) -> Option<Ordering> {
    // The pairs of modes to come of each open tuple, and the order of the ranks, which decides after them.
    let mut open: SmallVec<[(usize, Ordering); 16]> = SmallVec::new();
    loop {
        match (a.as_leaf(), b.as_leaf()) {
            (Some(x), Some(y)) if x != y => return Some(x.cmp(&y)),
            (Some(_), Some(_)) => {
                (a, b) = (a.split_first().1, b.split_first().1);
                count_down(open.last_mut());
            }
            (None, None) => {
                let (m, n) = (a.rank(), b.rank());
                open.push((m.min(n), m.cmp(&n)));
                (a, b) = (a.inside(), b.inside());
            }
            _ => return None,
        }
        while let Some((0, ranks)) = open.last().copied() {
            if ranks != Ordering::Equal {
                return Some(ranks);
            }
            open.pop();
            count_down(open.last_mut());
        }
        if open.is_empty() {
            return Some(Ordering::Equal);
        }
    }
}

impl<T: Copy> View<'_, T> {
    /// The tuple with the modes of all its tuples from the last to the first.
    pub(crate) fn mirrored(self) -> Tuple<T> {
        // Behind its modes instead of before them, each node stands where it is in the mirrored tuple, read from the end.
        let mut mirrored = Tuple {
            nodes: SmallVec::new(),
            leaves: SmallVec::from_slice(self.leaves),
        };
        let mut open: SmallVec<[(usize, u32); 16]> = SmallVec::new();
        for &node in self.nodes {
            if node > 1 {
                open.push((node as usize - 1, node));
                continue;
            }
            mirrored.nodes.push(node);
            count_down(open.last_mut());
            while let Some((0, node)) = open.last().copied() {
                mirrored.nodes.push(node);
                open.pop();
                count_down(open.last_mut());
            }
        }
        mirrored.nodes.reverse();
        mirrored.leaves.reverse();
        mirrored
    }
}

/// Refuses a tuple that nests too deep for a walk that recurses into its parentheses.
pub(crate) fn check_depth<T: Copy>(what: &'static str, tuple: &Tuple<T>) -> Result<(), Error> {
    // Each level of parentheses is a node, so that all ordinary layouts are decided by a count.
    if tuple.nodes() > MAX_DEPTH && tuple.depth() > MAX_DEPTH {
        Err(ErrorKind::Deep {
            what,
            depth: tuple.depth(),
            bound: MAX_DEPTH,
        }
        .into())
    } else {
        Ok(())
    }
}
