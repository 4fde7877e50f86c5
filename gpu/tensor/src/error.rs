//! The errors of kernels written with tensors.

use std::panic::Location;

use colex_ir::{Escaped, Reg};

colex_layout::opaque_error! {
    /// Why a kernel was not built: what is wrong, and the call of the builder that caused it.
    ///
    /// Its sentence, which begins with the file and the line of the call, is its `Display` and `Debug` output.
    #[derive(Clone, PartialEq)]
    pub struct Error(Found);
}

impl Error {
    /// Returns an error with the sentence `operation: why`, for functions of the caller that build parts of kernels.
    ///
    /// ```
    /// let (line, error) = (line!(), colex_tensor::Error::new("my_copy", "5 rows are not a multiple of 4"));
    /// assert_eq!(error.what(), "my_copy: 5 rows are not a multiple of 4");
    /// assert_eq!(error.at().line(), line);
    /// ```
    #[track_caller]
    pub fn new(operation: &'static str, why: impl Into<String>) -> Error {
        ErrorKind::operands(operation, why).here()
    }

    pub(crate) fn at_call(kind: ErrorKind, at: &'static Location<'static>) -> Error {
        Found { kind, at }.into()
    }

    /// Returns the location of the call that failed.
    ///
    /// ```
    /// let line = line!() + 1;
    /// let error = colex_tensor::Error::new("my_copy", "5 rows");
    /// assert_eq!(error.at().line(), line);
    /// ```
    pub fn at(&self) -> &'static Location<'static> {
        self.kind().at
    }

    /// Returns the sentence without the location.
    ///
    /// ```
    /// let error = colex_tensor::Error::new("my_copy", "5 rows");
    /// assert_eq!(error.what(), "my_copy: 5 rows");
    /// ```
    pub fn what(&self) -> String {
        self.kind().kind.to_string()
    }
}

/// `sentence`, `file`, `line` and `column`.
#[cfg(feature = "serde")]
impl serde::Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = to.serialize_struct("Error", 4)?;
        fields.serialize_field("sentence", &self.what())?;
        fields.serialize_field("file", self.at().file())?;
        fields.serialize_field("line", &self.at().line())?;
        fields.serialize_field("column", &self.at().column())?;
        fields.end()
    }
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {kind}")]
pub(crate) struct Found {
    pub(crate) kind: ErrorKind,
    pub(crate) at: &'static Location<'static>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error(transparent)]
    Tiled(#[from] colex_tiled::Error),
    #[error(transparent)]
    Layout(#[from] colex_layout::Error),
    #[error(transparent)]
    Atom(#[from] colex_atom::Error),
    #[error(transparent)]
    Schedule(#[from] colex_sched::Error),
    #[error(
        "{operation} of {layout}: a dynamic leaf has a value at launch only; cut a tile of static extents out of it with \
         `local_tile`, and go on with that"
    )]
    Dynamic {
        operation: &'static str,
        layout: String,
    },
    #[error("{operation}: {}", Escaped(why))]
    Operands {
        operation: &'static str,
        why: String,
    },
    #[error(
        "the variable in {reg} is written between where its value is read and where it is used; read it again"
    )]
    Stale { reg: Reg },
    #[error("{what} is of another builder: a builder takes what it has made itself")]
    Foreign { what: &'static str },
    #[error("{why}")]
    NoInteger { why: String },
    #[error("{index} lies from {} to {}, and a register of 32 bits does not hold that", range.0, range.1)]
    Wide { index: String, range: (i64, i64) },
}

impl ErrorKind {
    pub(crate) fn operands(operation: &'static str, why: impl Into<String>) -> Self {
        ErrorKind::Operands {
            operation,
            why: why.into(),
        }
    }

    #[track_caller]
    pub(crate) fn here(self) -> Error {
        Found {
            kind: self,
            at: Location::caller(),
        }
        .into()
    }
}

/// Says where a result failed.
pub(crate) trait At<T> {
    fn at(self, at: &'static Location<'static>) -> Result<T, Error>;
}

impl<T, E: Into<ErrorKind>> At<T> for Result<T, E> {
    fn at(self, at: &'static Location<'static>) -> Result<T, Error> {
        self.map_err(|kind| Error::at_call(kind.into(), at))
    }
}

macro_rules! from {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Error {
            #[track_caller]
            fn from(error: $ty) -> Self {
                ErrorKind::from(error).here()
            }
        }
    )*};
}

from!(
    colex_tiled::Error,
    colex_layout::Error,
    colex_atom::Error,
    colex_sched::Error
);
