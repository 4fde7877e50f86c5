//! Rust values as composed layouts, and what composes with swizzles and composed layouts.

use alloc::boxed::Box;
use alloc::string::String;

use crate::layout::into::{Compose, IntoLayout, IntoTiler};
use crate::{ComposedLayout, Error, IntoIntTuple, IntoStride, Layout, Swizzle};

/// A value that reads as a composed layout: every [`IntoLayout`] is one, and so are texts such as
/// `"Sw<3,4,3> o 0 o (8,64):(64,1)"`.
///
/// # Example
///
/// ```
/// use colex_layout::{IntoComposedLayout, Layout};
/// let plain = Layout::new((8, 64), (64, 1))?;
/// assert_eq!(plain.into_composed_layout()?.to_string(), "(8,64):(64,1)");
/// let swizzled = "Sw<3,3,3> o 0 o (8,64):(64,1)".into_composed_layout()?;
/// assert_eq!(swizzled.at((1, 0))?, 72);
/// # Ok::<(), colex_layout::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a composed layout",
    label = "not a composed layout",
    note = "a composed layout is a `ComposedLayout`, a `Layout`, a pair `(shape, stride)` of nested Rust tuples, or a text \
            in CuTe's notation"
)]
pub trait IntoComposedLayout: Sized {
    /// Returns the composed layout.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Layout::new`], and an error for a text that is no composed layout.
    fn into_composed_layout(self) -> Result<ComposedLayout, Error>;
}

impl Compose<Layout> for Swizzle {
    type Output = ComposedLayout;

    fn compose(self, outer: &Layout) -> Result<ComposedLayout, Error> {
        outer.composition_swizzle(self)
    }
}

impl Compose<Layout> for ComposedLayout {
    type Output = Self;

    fn compose(self, outer: &Layout) -> Result<Self, Error> {
        outer.composition_composed(&self)
    }
}

impl Compose<Layout> for &ComposedLayout {
    type Output = ComposedLayout;

    fn compose(self, outer: &Layout) -> Result<ComposedLayout, Error> {
        outer.composition_composed(self)
    }
}

impl<V: IntoTiler> Compose<ComposedLayout> for V {
    type Output = ComposedLayout;

    fn compose(self, outer: &ComposedLayout) -> Result<ComposedLayout, Error> {
        Ok(outer.over(outer.inner().composition(self)?))
    }
}

impl Compose<Swizzle> for Swizzle {
    type Output = Self;

    fn compose(self, outer: &Self) -> Result<Self, Error> {
        outer.composition_swizzle(self)
    }
}

impl<V: IntoLayout> Compose<Swizzle> for V {
    type Output = ComposedLayout;

    fn compose(self, outer: &Swizzle) -> Result<ComposedLayout, Error> {
        ComposedLayout::new(*outer, 0, self)
    }
}

impl IntoLayout for ComposedLayout {
    fn into_layout(self) -> Result<Layout, Error> {
        self.to_layout()
    }
}

impl IntoLayout for &ComposedLayout {
    fn into_layout(self) -> Result<Layout, Error> {
        self.to_layout()
    }
}

impl IntoComposedLayout for ComposedLayout {
    fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
        Ok(self)
    }
}

impl IntoComposedLayout for &ComposedLayout {
    fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
        Ok(self.clone())
    }
}

impl IntoComposedLayout for Layout {
    fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
        Ok(self.into())
    }
}

impl IntoComposedLayout for &Layout {
    fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
        Ok(self.into())
    }
}

impl<S: IntoIntTuple, D: IntoStride> IntoComposedLayout for (S, D) {
    fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
        Ok(self.into_layout()?.into())
    }
}

/// Texts that deref to `&str`.
macro_rules! texts {
    ($($text:ty)*) => {$(
        impl IntoComposedLayout for $text {
            fn into_composed_layout(self) -> Result<ComposedLayout, Error> {
                self.parse()
            }
        }
    )*};
}

texts! { &str &&str String &String Box<str> }
