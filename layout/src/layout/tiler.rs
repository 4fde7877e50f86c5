//! What a layout can be divided by, multiplied with or composed with, mode by mode.

use alloc::vec::Vec;
use core::fmt;

use crate::tuple::View;
use crate::tuple::walk::check_depth;
use crate::{Error, Int, Layout, TilerRef};

/// A layout, an integer, `_`, or a tuple of those: the right-hand operand of composition, divide and product.
///
/// A tuple applies mode by mode; in CuTe's notation `<3:3, (2,4):(1,8)>`, here `(3:3,(2,4):(1,8))` (both are read).
///
/// # Example
///
/// ```
/// use colex_layout::Tiler;
/// let tiler: Tiler = "<3:3, (2,4):(1,8), _>".parse()?;
/// assert_eq!(tiler.to_string(), "(3:3,(2,4):(1,8),_)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: `cute/layout.hpp` ("Tiler"); `Cecka 2026`.
#[derive(Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a layout stays inline, without a heap allocation"
)]
pub enum Tiler {
    /// The whole mode, `_`.
    All,
    /// The integer `n`: the layout `n:1`.
    Int(Int),
    /// A layout.
    Layout(Layout),
    /// One tiler per mode.
    Modes(Vec<Tiler>),
}

impl Tiler {
    /// Returns the number of modes: 1 unless it is a tuple.
    #[must_use]
    pub fn rank(&self) -> usize {
        match self {
            Self::Modes(modes) => modes.len(),
            _ => 1,
        }
    }
}

impl From<Layout> for Tiler {
    fn from(layout: Layout) -> Self {
        Self::Layout(layout)
    }
}

impl From<&Layout> for Tiler {
    fn from(layout: &Layout) -> Self {
        Self::Layout(layout.clone())
    }
}

impl From<i64> for Tiler {
    fn from(n: i64) -> Self {
        Self::Int(n.into())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Tiler {
    fn from(modes: [T; N]) -> Self {
        Self::Modes(modes.into_iter().map(Into::into).collect())
    }
}

/// A shape is the tiler of its extents, unless it nests deeper than 64 parentheses.
impl TryFrom<&crate::IntTuple> for Tiler {
    type Error = Error;

    fn try_from(shape: &crate::IntTuple) -> Result<Self, Error> {
        fn of(shape: View<'_, Int>) -> Tiler {
            match shape.as_leaf() {
                Some(n) => Tiler::Int(n),
                None => Tiler::Modes(shape.modes().map(of).collect()),
            }
        }
        check_depth("tiler", shape)?;
        Ok(of(shape.view()))
    }
}

impl fmt::Display for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_ref().fmt(f)
    }
}

impl fmt::Display for TilerRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("_"),
            Self::Int(n) => n.fmt(f),
            Self::Layout(l) => l.fmt(f),
            Self::Modes(modes) => {
                f.write_str("(")?;
                for (i, mode) in modes.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "," })?;
                    mode.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Debug for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
