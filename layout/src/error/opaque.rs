//! The shape that the error type of each crate has.

/// Declares the error type of a crate around its private enumeration of what can go wrong.
///
/// The type is one pointer wide, so that a `Result` stays small, and its `Debug` output is its sentence: that is what
/// `fn main() -> Result<(), Error>` prints. `from` lists the errors of other crates that the enumeration holds.
#[doc(hidden)]
#[macro_export]
macro_rules! opaque_error {
    ($(#[$attribute:meta])* pub struct $name:ident($kind:ty); $(from $($source:ty),+;)?) => {
        $(#[$attribute])*
        pub struct $name(Box<$kind>);

        impl $name {
            pub(crate) fn kind(&self) -> &$kind {
                &self.0
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }

        $crate::debug_as_display!($name);

        impl ::core::error::Error for $name {
            fn source(&self) -> Option<&(dyn ::core::error::Error + 'static)> {
                ::core::error::Error::source(&*self.0)
            }
        }

        impl From<$kind> for $name {
            fn from(kind: $kind) -> Self {
                Self(Box::new(kind))
            }
        }

        $($(
            impl From<$source> for $name {
                fn from(source: $source) -> Self {
                    <$kind>::from(source).into()
                }
            }
        )+)?
    };
}

/// Implements `Debug` of an error by its `Display`: what `unwrap` and `fn main() -> Result<(), E>` print is the sentence.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($name:ty) => {
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}
