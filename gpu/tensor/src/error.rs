//! What can be wrong with a kernel written with tensors.

use std::fmt;
use std::panic::Location;

use colex_ir::Reg;

/// Why a kernel was not built: what is wrong, and the call that asked for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The call of the kernel's author.
    pub at: &'static Location<'static>,
}

/// What is wrong.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorKind {
    /// A partition has no result.
    Tiled(colex_tiled::Error),
    /// The algebra has no result.
    Layout(colex_layout::Error),
    /// The atom has no such form.
    Atom(colex_atom::Error),
    /// The schedule cannot be.
    Schedule(colex_sched::Error),
    /// A dynamic leaf where only static ones are right.
    Dynamic {
        /// The operation.
        operation: &'static str,
        /// The layout.
        layout: String,
    },
    /// Operands of which one does not fit the others.
    Operands {
        /// The operation.
        operation: &'static str,
        /// What does not fit, with the numbers, and what would.
        why: String,
    },
    /// A variable was written between the moment its value was read and the moment it is used.
    Stale {
        /// Its register.
        reg: Reg,
    },
    /// An expression that has no value for any values of the registers.
    NoInteger {
        /// What is wrong in it, and what would be right.
        why: String,
    },
    /// A value that a register of 32 bits does not hold.
    Wide {
        /// The expression.
        index: String,
        /// Its smallest and largest value.
        range: (i64, i64),
    },
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
        Error {
            kind: self,
            at: Location::caller(),
        }
    }
}

/// Says where a result failed.
pub(crate) trait At<T> {
    fn at(self, at: &'static Location<'static>) -> Result<T, Error>;
}

impl<T, E: Into<ErrorKind>> At<T> for Result<T, E> {
    fn at(self, at: &'static Location<'static>) -> Result<T, Error> {
        self.map_err(|kind| Error {
            kind: kind.into(),
            at,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Tiled(e) => e.fmt(f),
            ErrorKind::Layout(e) => e.fmt(f),
            ErrorKind::Atom(e) => e.fmt(f),
            ErrorKind::Schedule(e) => e.fmt(f),
            ErrorKind::Dynamic { operation, layout } => write!(
                f,
                "{operation} of {layout}: a dynamic leaf has a value at launch only; cut a tile of static extents out of \
                 it with `local_tile`, and go on with that"
            ),
            ErrorKind::Operands { operation, why } => write!(f, "{operation}: {why}"),
            ErrorKind::Stale { reg } => write!(
                f,
                "the variable in {reg} is written between where its value is read and where it is used; read it again"
            ),
            ErrorKind::NoInteger { why } => f.write_str(why),
            ErrorKind::Wide {
                index,
                range: (low, high),
            } => write!(
                f,
                "{index} lies from {low} to {high}, and a register of 32 bits does not hold that"
            ),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Tiled(e) => Some(e),
            ErrorKind::Layout(e) => Some(e),
            ErrorKind::Atom(e) => Some(e),
            ErrorKind::Schedule(e) => Some(e),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($ty:ty => $variant:ident;)*) => {$(
        impl From<$ty> for ErrorKind {
            fn from(e: $ty) -> Self {
                ErrorKind::$variant(e)
            }
        }

        impl From<$ty> for Error {
            #[track_caller]
            fn from(e: $ty) -> Self {
                ErrorKind::$variant(e).here()
            }
        }
    )*};
}
from! {
    colex_tiled::Error => Tiled;
    colex_layout::Error => Layout;
    colex_atom::Error => Atom;
    colex_sched::Error => Schedule;
}
