//! What is quantised.

use core::fmt;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use crate::elementwise::{Nest, NestLoop};
use crate::error::{Error, ErrorKind, QuantiseError};
use crate::memory_bound::plan::WIDEST;

/// What a kernel knows of its tensors: all but their extents, strides and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantiseOperands {
    /// The type of the numbers.
    pub from: Ty,
    /// The type that they are quantised to.
    pub to: Ty,
    /// The modes of the rows after their coalescing.
    pub modes: usize,
    /// Whether the columns of both tensors have the stride 1.
    pub contiguous: bool,
    /// The elements that an access takes, at most.
    pub vector: i64,
}

/// Rows that are quantised, each with a scale: the extents, and the strides of the numbers, the quantised numbers and the scales.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuantiseProblem {
    pub(crate) from: Ty,
    pub(crate) to: Ty,
    /// The loops over the rows of x, q and the scales.
    rows: Nest,
    columns: i64,
    /// Of x and q.
    steps: [i64; 2],
    vector: i64,
    /// The widest vector with which both tensors begin, if their rows lie one after the other without gaps; otherwise 0.
    run: i64,
}

/// The most rows and the most columns.
pub(crate) const MOST: i64 = 1 << 30;

/// The most elements of a tensor whose rows are one mode with their elements.
pub(crate) const MOST_RUN: i64 = 1 << 30;

/// The most modes of the rows.
pub(crate) const MOST_MODES: usize = 8;

/// Checks that numbers of a type are quantised.
pub(crate) fn check_source(ty: Ty) -> Result<(), Error> {
    match ty {
        Ty::F32 | Ty::F16 | Ty::Bf16 => Ok(()),
        ty => Err(QuantiseError::From { ty }.into()),
    }
}

/// Checks that numbers are quantised to a type.
pub(crate) fn check_target(ty: Ty) -> Result<(), Error> {
    match ty {
        Ty::S8 | Ty::E4m3 | Ty::E5m2 => Ok(()),
        ty => Err(QuantiseError::To { ty }.into()),
    }
}

impl QuantiseProblem {
    /// The problem of rows of these layouts: x, q and the scales, which have one number for each row.
    pub(crate) fn of(
        [from, to]: [Ty; 2],
        rows: [&Layout; 3],
        columns: i64,
        steps: [i64; 2],
        addresses: [u64; 3],
    ) -> Result<QuantiseProblem, Error> {
        check_source(from)?;
        check_target(to)?;
        let [x, q, scales] = rows;
        let rows = Nest::new(&[("q", q), ("x", x), ("scales", scales)])?;
        let rows = rows.reordered(&[1, 0, 2]);
        let found = rows.loops().len();
        if found > MOST_MODES {
            let (what, extent, most) = ("the number of modes of the rows", found, MOST_MODES);
            let (extent, most) = (extent as i64, most as i64);
            return Err(ErrorKind::Extent { what, extent, most }.into());
        }
        for (what, extent) in [
            ("the number of rows", rows.size()),
            ("the number of columns", columns),
        ] {
            if extent > MOST {
                let most = MOST;
                return Err(ErrorKind::Extent { what, extent, most }.into());
            }
        }
        let steps = if columns == 1 { [1; 2] } else { steps };
        let bytes = i64::from(from.bits()) / 8;
        let begins = |n: &i64| {
            addresses[0].is_multiple_of((n * bytes) as u64)
                && addresses[1].is_multiple_of(*n as u64)
        };
        let fits = |n: &i64| {
            // A single row may have any stride.
            let strides = rows.loops().iter().filter(|step| step.extent > 1);
            let mut strides = strides.flat_map(|step| &step.strides[..2]);
            columns % n == 0 && strides.all(|stride| stride % n == 0) && begins(n)
        };
        let vectors = [8, 4].into_iter().filter(|n| n * bytes <= WIDEST);
        let vector = match steps {
            [1, 1] => vectors.clone().find(fits).unwrap_or(1),
            _ => 1,
        };
        let mut next = columns;
        let is_one_run = rows.loops().iter().all(|step| {
            let follows = step.extent == 1 || step.strides[..2] == [next; 2];
            next = next.saturating_mul(step.extent);
            follows
        });
        let run = if is_one_run && steps == [1, 1] && next <= MOST_RUN {
            vectors.chain([1]).find(begins).unwrap_or(0)
        } else {
            0
        };
        Ok(QuantiseProblem {
            from,
            to,
            rows,
            columns,
            steps,
            vector,
            run,
        })
    }

    /// Returns the widest vector with which both tensors begin, if their rows lie one after the other without gaps, of few enough elements,
    /// so that a kernel may take them as one mode; otherwise 0.
    pub(crate) fn run(&self) -> i64 {
        self.run
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> i64 {
        self.rows.size()
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> i64 {
        self.columns
    }

    /// Returns the bytes that any kernel moves: each number and each quantised number once, and the scales.
    pub fn compulsory_bytes(&self) -> i64 {
        // A number that is repeated along a mode is read once.
        let columns = if self.steps[0] == 0 { 1 } else { self.columns };
        let numbers = self.rows.distinct(0).saturating_mul(columns);
        let read = numbers.saturating_mul(i64::from(self.from.bits()) / 8);
        let of_row = self.columns.saturating_add(4);
        read.saturating_add(self.rows().saturating_mul(of_row))
    }

    /// Returns what a kernel knows of the tensors.
    pub fn operands(&self) -> QuantiseOperands {
        QuantiseOperands {
            from: self.from,
            to: self.to,
            modes: self.rows.loops().len(),
            contiguous: self.steps == [1, 1],
            vector: self.vector,
        }
    }

    /// A problem with these operands, whose numbers serve the reports.
    pub(crate) fn layouts_like(
        operands: &QuantiseOperands,
    ) -> Result<[Layout; 3], colex_layout::Error> {
        let rows: Vec<(i64, i64)> = (0..operands.modes as i64)
            .map(|i| (64, 4096 << i))
            .collect();
        let step = if operands.contiguous { 1 } else { 2 };
        let of = |columns: i64| layout(&rows, (columns, step), operands.contiguous);
        Ok([of(4096)?, of(4096)?, layout(&rows, (1, 1), true)?])
    }

    /// The layouts of x, q and the scales whose rows lie one after the other: those of x and q are one mode.
    pub(crate) fn run_layouts(&self) -> Result<[Layout; 3], colex_layout::Error> {
        let [_, _, scales] = self.layouts()?;
        let all = line(self.rows().saturating_mul(self.columns))?;
        Ok([all.clone(), all, scales])
    }

    /// The layouts of x, q and the scales: (rows, columns).
    pub(crate) fn layouts(&self) -> Result<[Layout; 3], colex_layout::Error> {
        let rows = |i: usize| -> Vec<(i64, i64)> {
            let loops = self.rows.loops().iter();
            // Vectors divide the stride of a single row too, which moves nothing.
            let stride = |step: &NestLoop| match step.extent {
                1 => self.columns,
                _ => step.strides[i],
            };
            loops.map(|step| (step.extent, stride(step))).collect()
        };
        let contiguous = self.steps == [1, 1];
        let of = |i: usize| layout(&rows(i), (self.columns, self.steps[i]), contiguous);
        Ok([of(0)?, of(1)?, layout(&rows(2), (1, 1), true)?])
    }
}

/// The layout of elements that follow each other.
pub(super) fn line(elements: i64) -> Result<Layout, colex_layout::Error> {
    Layout::concat(&[Layout::leaf(Int::Dynamic(elements), Int::Static(1))?])
}

/// The layout of (rows, columns), the rows of several modes if there are several.
fn layout(
    rows: &[(i64, i64)],
    (columns, step): (i64, i64),
    contiguous: bool,
) -> Result<Layout, colex_layout::Error> {
    let shape = IntTuple::flat(rows.iter().map(|(extent, _)| Int::Dynamic(*extent)));
    let strides = rows
        .iter()
        .map(|(_, stride)| Stride::Int(Int::Dynamic(*stride)));
    let rows = Layout::new(shape, Tuple::flat(strides))?;
    let step = if contiguous {
        Int::Static(1)
    } else {
        Int::Dynamic(step)
    };
    Layout::concat(&[rows, Layout::leaf(Int::Dynamic(columns), step)?])
}

/// `bf16 to e4m3, rows of 1 mode`
impl fmt::Display for QuantiseOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.modes == 1 { "" } else { "s" };
        let QuantiseOperands {
            from,
            to,
            modes,
            vector,
            ..
        } = self;
        write!(
            f,
            "{from} to {to}, rows of {modes} mode{s}, vectors up to {vector}"
        )
    }
}

/// `quantisation of bf16 to e4m3, 100 rows of 1000`
impl fmt::Display for QuantiseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, columns) = (self.rows(), self.columns);
        let QuantiseProblem { from, to, .. } = self;
        write!(
            f,
            "quantisation of {from} to {to}, {rows} rows of {columns}"
        )
    }
}
