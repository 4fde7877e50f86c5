//! What can be wrong: one opaque error, whose private kinds are a family's each.

mod copy;
mod gmma;
mod im2col;
mod swizzle;
mod tma;

use crate::machine::Arch;
pub(crate) use copy::CopyError;
pub(crate) use gmma::GmmaError;
pub(crate) use im2col::Im2colError;
pub(crate) use swizzle::Bits;
pub use swizzle::{Effect, NoSwizzle};
pub(crate) use tma::TmaError;

colex_layout::opaque_error! {
    /// Why an atom was not found, built or executed, or has no tensor map, descriptor or swizzle.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// let error = colex_atom::copy("SM75_U32x3_LDSM_N").unwrap_err();
    /// assert!(error.is_unknown_name());
    /// assert_eq!(error.nearest(), ["SM75_U32x1_LDSM_N", "SM75_U32x2_LDSM_N", "SM75_U32x4_LDSM_N"]);
    /// ```
    #[derive(Clone, PartialEq)]
    pub struct Error(ErrorKind);
    from CopyError, TmaError, Im2colError, GmmaError, NoSwizzle, colex_layout::Error, colex_draw::Error;
}

impl Error {
    /// Returns whether no operation or architecture has the name.
    pub fn is_unknown_name(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::UnknownArch { .. }
                | ErrorKind::UnknownMma { .. }
                | ErrorKind::IllegalN { .. }
                | ErrorKind::Copy(CopyError::Unknown { .. } | CopyError::RankOpen { .. })
        )
    }

    /// Returns the names that are most like one that no operation has, best first.
    pub fn nearest(&self) -> &[String] {
        match self.kind() {
            ErrorKind::UnknownMma { nearest, .. }
            | ErrorKind::Copy(CopyError::Unknown { nearest, .. }) => nearest,
            ErrorKind::Copy(CopyError::RankOpen { members, .. }) => members,
            _ => &[],
        }
    }

    /// Returns whether the name of a matrix product is that of an operation but for an extent of N that it does not have.
    pub fn is_illegal_n(&self) -> bool {
        matches!(self.kind(), ErrorKind::IllegalN { .. })
    }

    /// Returns whether the atom is a row to look at, with layouts and without an instruction.
    pub fn is_not_executable(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotExecutable { .. })
    }

    /// Returns whether a tile in shared memory is not in a layout that `wgmma` reads.
    pub fn is_not_canonical(&self) -> bool {
        matches!(self.kind(), ErrorKind::Gmma(GmmaError::NotCanonical { .. }))
    }

    /// Returns the best swizzle and what it leaves, if none makes all accesses free of bank conflicts.
    pub fn no_swizzle(&self) -> Option<&NoSwizzle> {
        match self.kind() {
            ErrorKind::NoSwizzle(best) => Some(best),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("no architecture is called `{text}`; there are {}", Arch::ALL.map(Arch::target).join(", "))]
    UnknownArch { text: String },
    #[error("no MMA operation is called `{name}`; the nearest are {}",
                    nearest.join(", "))]
    UnknownMma { name: String, nearest: Vec<String> },
    #[error("`{name}` does not exist: N can be {}", extents(legal))]
    IllegalN { name: String, legal: &'static [i64] },
    #[error("`{name}` has no template argument `{word}` there")]
    UnknownOption { name: String, word: String },
    #[error("`{name}` refuses the options: {why}")]
    OptionRefused { name: String, why: &'static str },
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Tma(#[from] TmaError),
    #[error(transparent)]
    Im2col(#[from] Im2colError),
    #[error(transparent)]
    Gmma(#[from] GmmaError),
    #[error(transparent)]
    NoSwizzle(#[from] NoSwizzle),
    #[error("{operation} of {of}: {why}")]
    Access {
        operation: &'static str,
        of: String,
        why: String,
    },
    #[error("Access of {of} has {count} elements, and its bound is {most}")]
    TooManyLanes { of: String, count: i64, most: i64 },
    #[error("choose_swizzle of no access: there is nothing to choose for")]
    NoAccess,
    #[error(transparent)]
    Layout(#[from] colex_layout::Error),
    #[error(transparent)]
    Draw(#[from] colex_draw::Error),
    #[error("`{name}` is a row to look at: it has layouts and no opcode")]
    NotExecutable { name: String },
    #[error("operand {operand} of `{name}` should be {expected}, not {found}")]
    Operand {
        name: String,
        operand: char,
        expected: String,
        found: String,
    },
    #[error("the metadata of `{name}` in row {m} at k = {k} is {bits:#06b}: {}", if *positions == 1 { "one of two is 0b0100 or 0b1110" } else { "two of four are two positions in ascending order, the lower in the low bits" })]
    Metadata {
        name: String,
        m: usize,
        k: usize,
        bits: u64,
        positions: usize,
    },
    #[error("`{name}` keeps {keep} of {group} elements; row {m} has more at k = {k}")]
    TooDense {
        name: String,
        m: usize,
        k: usize,
        group: usize,
        keep: usize,
    },
}

/// The extents of N that there are: multiples of the first, or a list.
fn extents(legal: &[i64]) -> String {
    let step = legal[0];
    match (
        legal.last(),
        legal.iter().zip(1..).all(|(n, i)| *n == i * step),
    ) {
        (Some(last), true) if legal.len() > 3 => {
            format!("a multiple of {step} from {step} to {last}")
        }
        _ => legal
            .iter()
            .map(i64::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
