//! The coordinates that threads name, digit by digit, and where tensors have them.
//!
//! A tensor of a few million elements is walked in a second: a coordinate is one integer per mode here, and a tuple only
//! in sentences and for predicates.

use colex_layout::{IntTuple, Layout, LeafMode, Stride};

use crate::Error;
use crate::error::ErrorKind;
use crate::tensor::Partition;
use crate::tensor::extents::{overflow, reach};

/// Some coordinates of `rank` digits each.
#[derive(Clone, Copy)]
pub(crate) struct Coords<'a> {
    rank: usize,
    digits: &'a [i64],
}

impl<'a> Coords<'a> {
    pub(crate) fn iter(self) -> core::slice::ChunksExact<'a, i64> {
        self.digits.chunks_exact(self.rank)
    }

    /// The coordinates `first..first + n`, where there are as many.
    pub(crate) fn part(self, first: usize, n: usize) -> Option<Self> {
        let digits = self
            .digits
            .get(first * self.rank..(first + n) * self.rank)?;
        Some(Self { digits, ..self })
    }

    /// Runs of `n` coordinates, the last one shorter where they do not divide.
    pub(crate) fn chunks(self, n: usize) -> impl Iterator<Item = Self> + use<'a> {
        let rank = self.rank;
        let digits = self.digits.chunks(n * rank);
        digits.map(move |digits| Self { rank, digits })
    }

    pub(crate) fn first(self) -> Option<&'a [i64]> {
        self.iter().next()
    }
}

/// A coordinate as a tuple; of one mode its number, which every tensor of one mode takes.
pub(crate) fn tuple(digits: &[i64]) -> IntTuple {
    match digits {
        [one] => (*one).into(),
        _ => IntTuple::flat(digits.iter().map(|digit| (*digit).into())),
    }
}

/// What some threads name of a tensor, each as many coordinates.
pub(crate) struct AccessMap {
    rank: usize,
    threads: Vec<i64>,
    digits: Vec<i64>,
}

impl AccessMap {
    pub(crate) fn new(rank: usize) -> Self {
        Self {
            rank: rank.max(1),
            threads: Vec::new(),
            digits: Vec::new(),
        }
    }

    /// Adds the values of a partition of an identity tensor, in the order of its index.
    pub(crate) fn push(&mut self, thread: i64, partition: &Partition) -> Result<(), Error> {
        self.threads.push(thread);
        let first = self.digits.len();
        let start = partition.start.leaves().iter().map(|digit| digit.value());
        self.digits.extend(start);
        for leaf in partition.layout.leaves() {
            self.repeat(first, leaf)?;
        }
        Ok(())
    }

    /// What was pushed from `first` on, again for every step of a mode.
    fn repeat(&mut self, first: usize, leaf: &LeafMode) -> Result<(), Error> {
        let mode = match leaf.stride {
            Stride::Basis(basis) => basis.path().next().unwrap_or(0),
            _ => 0,
        };
        let step = leaf.stride.coefficient().value();
        let end = self.digits.len();
        for k in 1..leaf.extent.value() {
            let by = step.checked_mul(k).ok_or(overflow(step, '*', k))?;
            for at in first..end {
                let digit = self.digits[at];
                let digit = if (at - first) % self.rank == mode {
                    digit.checked_add(by).ok_or(overflow(digit, '+', by))?
                } else {
                    digit
                };
                self.digits.push(digit);
            }
        }
        Ok(())
    }

    /// How many coordinates each thread names.
    pub(crate) fn per_thread(&self) -> usize {
        match self.threads.len() {
            0 => 0,
            threads => self.digits.len() / self.rank / threads,
        }
    }

    /// Each thread with its coordinates.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (i64, Coords<'_>)> {
        let (rank, each) = (self.rank, self.per_thread() * self.rank);
        let digits = self.digits.chunks(each.max(1));
        let coords = digits.map(move |digits| Coords { rank, digits });
        self.threads.iter().copied().zip(coords)
    }
}

/// Where a tensor has each coordinate, looked up mode by mode.
pub(crate) struct Addresses<'a> {
    pub(crate) tensor: &'a Layout,
    modes: Vec<Vec<i64>>,
    xors: bool,
}

impl<'a> Addresses<'a> {
    pub(crate) fn new(tensor: &'a Layout) -> Result<Self, Error> {
        // Says of the whole tensor what is wrong with its strides.
        tensor.at(0)?;
        reach(tensor)?;
        let modes = tensor.modes().map(|mode| mode.table());
        Ok(Self {
            tensor,
            modes: modes.collect::<Result<_, _>>()?,
            xors: tensor.is_xor(),
        })
    }

    /// The offset, or nothing outside.
    pub(crate) fn at(&self, digits: &[i64]) -> Option<i64> {
        if digits.len() != self.modes.len() {
            return None;
        }
        let pairs = digits.iter().zip(&self.modes);
        pairs.into_iter().try_fold(0, |offset, (digit, mode)| {
            let along = mode.get(usize::try_from(*digit).ok()?)?;
            Some(if self.xors {
                offset ^ along
            } else {
                offset + along
            })
        })
    }

    /// The offset, or a refusal of what lies outside.
    pub(crate) fn inside(&self, thread: i64, digits: &[i64]) -> Result<i64, Error> {
        self.at(digits).ok_or_else(|| {
            ErrorKind::Outside {
                thread,
                coord: tuple(digits).to_string(),
                tensor: self.tensor.to_string(),
            }
            .into()
        })
    }
}
