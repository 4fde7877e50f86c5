//! Where a nested mode of a layout has its inner borders.

use alloc::vec::Vec;

use smallvec::SmallVec;

use colex_layout::{IntoLayout, Layout};

use crate::Error;

/// The blocks, and blocks of blocks, into which the coordinates `0..size` of one mode fall.
///
/// The mode `(2,2,3)` has a border after every 2 coordinates and a stronger one after every 4.
///
/// # Example
///
/// ```
/// use colex_draw::Nesting;
/// let nesting = Nesting::of("(2,2,3):(1,2,4)")?;
/// assert_eq!((0..6).map(|at| nesting.level(at)).collect::<Vec<_>>(), [0, 0, 1, 0, 2, 0]);
/// # Ok::<(), colex_draw::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nesting {
    /// The sizes of the blocks, from the inside out; each divides the next.
    blocks: SmallVec<[i64; 4]>,
    /// The level at each coordinate, where some coordinates of the blocks are left out.
    levels: Vec<usize>,
}

impl Nesting {
    /// Returns the nesting of the leaves of `mode`, innermost first; extents of 1 make no border.
    ///
    /// # Errors
    ///
    /// Returns an error if `mode` is no layout.
    pub fn of(mode: impl IntoLayout) -> Result<Self, Error> {
        Ok(Self::of_layout(&mode.into_layout()?))
    }

    pub(crate) fn of_layout(mode: &Layout) -> Self {
        let extents = mode.leaves().iter().map(|leaf| leaf.extent.value());
        let mut blocks: SmallVec<[i64; 4]> = SmallVec::new();
        let mut size = 1;
        for extent in extents.filter(|extent| *extent > 1) {
            if size > 1 {
                blocks.push(size);
            }
            size *= extent;
        }
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// The levels at the coordinates, one by one.
    pub(crate) fn with_levels(levels: Vec<usize>) -> Self {
        Self {
            levels,
            ..Self::default()
        }
    }

    /// Returns blocks of `size` coordinates, without an inner structure.
    #[must_use]
    pub fn blocks(size: i64) -> Self {
        let blocks = if size > 1 {
            SmallVec::from_slice(&[size])
        } else {
            SmallVec::new()
        };
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Returns how many kinds of blocks end just before coordinate `at`; 0 inside a block and at the edge.
    #[must_use]
    pub fn level(&self, at: i64) -> usize {
        if at == 0 {
            return 0;
        }
        if let Some(level) = self.levels.get(at as usize) {
            return *level;
        }
        self.blocks.iter().filter(|size| at % **size == 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_one_and_flat_modes_have_no_borders() {
        for text in ["8:1", "(8):(1)", "(1,8,1):(0,1,0)", "1:0"] {
            let nesting = Nesting::of(text).expect("the text is a layout");
            assert!((0..8).all(|at| nesting.level(at) == 0), "{text}");
        }
    }

    #[test]
    fn blocks_of_one_are_no_blocks() {
        assert_eq!(Nesting::blocks(1), Nesting::default());
        assert_eq!(Nesting::blocks(4).level(8), 1);
    }
}
