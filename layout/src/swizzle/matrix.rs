//! Matrices over F2: linear maps of bit-vectors, what others call linear layouts.

use alloc::vec::Vec;
use core::fmt;

use crate::Error;

/// A matrix over F2: input bit `k` maps to the bit-vector `columns[k]`, and the images of set bits XOR.
///
/// At most 63 output bits.
///
/// # Example
///
/// ```
/// use colex_layout::BinaryMatrix;
/// let m = BinaryMatrix::new(vec![0b01, 0b11])?;
/// assert_eq!((m.apply(0b10), m.apply(0b11)), (0b11, 0b10));
/// assert_eq!(m.rank(), 2);
/// assert_eq!(m.right_inverse().composition(&m)?, BinaryMatrix::identity(2));
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Source: linear layouts, arXiv:2505.23819; `Cecka 2026` on F2 strides.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BinaryMatrix {
    columns: Vec<i64>,
}

impl BinaryMatrix {
    /// Returns the matrix with these columns.
    ///
    /// # Errors
    ///
    /// Returns an error if a column is negative: bit 63 is the sign.
    pub fn new(columns: Vec<i64>) -> Result<Self, Error> {
        match columns.iter().find(|c| **c < 0) {
            Some(c) => Err(Error::operand(
                "BinaryMatrix",
                alloc::format!("{c}"),
                "a column has at most 63 bits",
            )),
            None if columns.len() > 63 => Err(Error::operand(
                "BinaryMatrix",
                alloc::format!("{} columns", columns.len()),
                "a matrix has at most 63 columns",
            )),
            None => Ok(Self { columns }),
        }
    }

    /// Returns the identity on `bits` bits.
    #[must_use]
    pub fn identity(bits: usize) -> Self {
        Self {
            columns: (0..bits.min(63)).map(|k| 1 << k).collect(),
        }
    }

    /// Returns the images of the input bits, from bit 0 on.
    #[must_use]
    pub fn columns(&self) -> &[i64] {
        &self.columns
    }

    /// Returns the number of output bits that some column reaches.
    #[must_use]
    pub fn height(&self) -> usize {
        let union = self.columns.iter().fold(0, |a, b| a | b);
        (64 - union.leading_zeros()) as usize
    }

    /// Returns the image of `x`; bits beyond the columns are ignored.
    #[must_use]
    pub fn apply(&self, x: i64) -> i64 {
        self.columns
            .iter()
            .enumerate()
            .filter(|(k, _)| x >> k & 1 == 1)
            .fold(0, |sum, (_, c)| sum ^ c)
    }

    /// Returns `self o inner`, the product of the matrices.
    ///
    /// # Errors
    ///
    /// Returns an error if `inner` reaches more bits than `self` has columns.
    pub fn composition(&self, inner: &Self) -> Result<Self, Error> {
        if inner.height() > self.columns.len() {
            return Err(Error::operand(
                "composition",
                alloc::format!("a matrix of {} columns", self.columns.len()),
                alloc::format!("the inner matrix reaches {} bits", inner.height()),
            ));
        }
        Ok(Self {
            columns: inner.columns.iter().map(|c| self.apply(*c)).collect(),
        })
    }

    /// Column operations to echelon form: each vector with the input that gives it. Zero vectors give the kernel.
    fn echelon(&self) -> (Vec<(i64, i64)>, Vec<i64>) {
        let (mut pivots, mut kernel): (Vec<(i64, i64)>, Vec<i64>) = (Vec::new(), Vec::new());
        for (k, &column) in self.columns.iter().enumerate() {
            let (mut image, mut input) = (column, 1_i64 << k);
            for &(pivot, source) in &pivots {
                // A pivot is identified by its highest bit.
                if image ^ pivot < image {
                    (image, input) = (image ^ pivot, input ^ source);
                }
            }
            if image == 0 {
                kernel.push(input);
                continue;
            }
            pivots.push((image, input));
            pivots.sort_unstable_by_key(|(image, _)| core::cmp::Reverse(*image));
        }
        (pivots, kernel)
    }

    /// Returns the dimension of the image.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.echelon().0.len()
    }

    /// Returns a basis of the inputs that map to 0: broadcasts.
    #[must_use]
    pub fn kernel(&self) -> Vec<i64> {
        self.echelon().1
    }

    /// Returns an input that maps to `image`, or `None` when there is none.
    #[must_use]
    pub fn solve(&self, image: i64) -> Option<i64> {
        let (pivots, _) = self.echelon();
        let (mut rest, mut input) = (image, 0);
        for (pivot, source) in pivots {
            if rest ^ pivot < rest {
                (rest, input) = (rest ^ pivot, input ^ source);
            }
        }
        (rest == 0).then_some(input)
    }

    /// Returns a matrix `r` with `self o r` the identity on its input bits: as many low output bits as are reached
    /// alone.
    #[must_use]
    pub fn right_inverse(&self) -> Self {
        let columns = (0..self.height()).map_while(|bit| self.solve(1 << bit));
        Self {
            columns: columns.collect(),
        }
    }

    /// Returns a matrix `l` with `self(l(self(x))) == self(x)`, and `l(self(x)) == x` where `self` is injective.
    #[must_use]
    pub fn left_inverse(&self) -> Self {
        let (mut pivots, _) = self.echelon();
        // Each pivot bit must appear in its own vector only, so that it alone says whether that vector takes part.
        for i in 0..pivots.len() {
            let (image, source) = pivots[i];
            let top = 1_i64 << (63 - image.leading_zeros());
            for (other, input) in pivots.iter_mut().filter(|(v, _)| *v != image) {
                if *other & top != 0 {
                    (*other, *input) = (*other ^ image, *input ^ source);
                }
            }
        }
        let source = |bit: usize| {
            let mut at = pivots
                .iter()
                .filter(|(v, _)| 63 - v.leading_zeros() as usize == bit);
            at.next().map_or(0, |(_, input)| *input)
        };
        Self {
            columns: (0..self.height()).map(source).collect(),
        }
    }

    /// Returns the inverse of a square matrix of full rank.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not square or not of full rank.
    pub fn inverse(&self) -> Result<Self, Error> {
        if self.rank() == self.columns.len() && self.height() == self.columns.len() {
            return Ok(self.right_inverse());
        }
        Err(Error::operand(
            "inverse",
            alloc::format!("a matrix of {} columns", self.columns.len()),
            alloc::format!(
                "it has rank {} and reaches {} bits",
                self.rank(),
                self.height()
            ),
        ))
    }
}

/// Rows from output bit 0 down, columns from input bit 0 on.
impl fmt::Display for BinaryMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bit in 0..self.height() {
            for (k, column) in self.columns.iter().enumerate() {
                write!(f, "{}{}", if k == 0 { "" } else { " " }, column >> bit & 1)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for BinaryMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.columns).finish()
    }
}
