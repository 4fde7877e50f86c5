//! Groups of products: what a mixture of experts multiplies, with numbers of rows that only the device knows.

pub(crate) mod call;
mod choose;
pub(crate) mod clear;
pub(crate) mod lists;
pub(crate) mod problem;
pub(crate) mod tiles;

use core::fmt;

use colex_tiled::Operand;

pub(crate) use choose::{check, choose, most_tall, narrowed};

/// How a product is divided into groups.
///
/// A, B and C are those of a [`GemmProblem`](crate::kernels::GemmProblem); G is the number of groups. The numbers of a kind lie on
/// the device, and the host does not read them. Regardless of their values, nothing outside of the matrices is read or
/// written.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Groups {
    /// The rows of A (M,K) and C (M,N) in groups that follow each other, each multiplied by its own right factor: B is (N,K,G). The
    /// numbers are G + 1 offsets: group `g` has the rows from `offsets[g]` to `offsets[g + 1]` (excluded), any number of them.
    ///
    /// Offsets beyond M count as M, and one below an offset before it counts as the largest before it: its group is empty. Rows
    /// before the first offset and behind the last are not written.
    Rows,
    /// As many matrices as groups, of whose rows the first are multiplied: A is (M,K,G), B (N,K,G) and C (M,N,G). The numbers are G
    /// counts: the rows of group `g` from `counts[g]` on are not written. Counts beyond M count as M.
    Masked,
    /// The sum over K in groups that follow each other, each of them a product: A is (M,K), B (N,K) and C (M,N,G), for example the
    /// gradients of the weights. The numbers are G + 1 offsets: the product of group `g` is over the part of K from `offsets[g]` to
    /// `offsets[g + 1]` (excluded). That of an empty part is 0.
    ///
    /// Offsets beyond K count as K, and a part that ends before it begins is empty.
    AlongK,
}

impl Groups {
    /// All kinds.
    pub const ALL: [Groups; 3] = [Groups::Rows, Groups::Masked, Groups::AlongK];

    /// Whether a matrix has a mode of groups behind its two.
    pub(crate) fn has_mode(self, operand: Operand) -> bool {
        match (self, operand) {
            (Groups::Rows, Operand::B) | (Groups::Masked, _) | (Groups::AlongK, Operand::C) => true,
            (Groups::Rows, Operand::A | Operand::C) | (Groups::AlongK, Operand::A | Operand::B) => {
                false
            }
        }
    }

    /// Whether a group has rows of A and C, and not a part of K.
    pub(crate) fn has_rows(self) -> bool {
        match self {
            Groups::Rows | Groups::Masked => true,
            Groups::AlongK => false,
        }
    }

    /// The parameter of a kernel with its numbers.
    pub(crate) fn numbers_name(self) -> &'static str {
        match self {
            Groups::Rows | Groups::AlongK => "offsets",
            Groups::Masked => "counts",
        }
    }

    /// How many numbers a number of groups has.
    pub(crate) fn numbers(self, groups: i64) -> i64 {
        match self {
            Groups::Rows | Groups::AlongK => groups.saturating_add(1),
            Groups::Masked => groups,
        }
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Groups::Rows => "groups of rows",
            Groups::Masked => "groups of masked rows",
            Groups::AlongK => "groups along K",
        })
    }
}
