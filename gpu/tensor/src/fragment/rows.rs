//! Rows of accumulators: the elements and lanes that hold parts of one row, and reductions over rows.

use std::collections::BTreeSet;
use std::panic::Location;
use std::rc::Rc;

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, LeafMode};
use colex_tiled::{Operand, TiledMma};

use super::Fragment;
use super::expr::Expr;
use super::reduce::check_op;
use crate::build::Builder;
use crate::error::{At, Error, ErrorKind};
use crate::tensor::partition::check_tile;
use colex_ir::{BinaryOp, ShuffleMode};

/// The rows of C in the accumulators of a tiled MMA, derived from its partition of C.
///
/// ```
/// use colex_tensor::Rows;
/// use colex_tiled::TiledMma;
///
/// let mma = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?;
/// let mma = TiledMma::new(mma, "(4,1,1):(1,0,0)", (64, 16, 16))?;
/// // 64 by 64 of C: a thread has 16 columns of two rows, and four neighbours have the other columns.
/// let rows = Rows::new(&mma, [64, 64])?;
/// assert_eq!(rows.layout().to_string(), "((_2,_2),_1,_8):((_0,_1),_0,_0)");
/// assert_eq!(rows.lanes(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    layout: Layout,
    held: Rc<RowsHeld>,
}

/// Which rows every thread has a part of, in ascending order, and which lanes have the other parts of them.
#[derive(Debug, PartialEq)]
pub(crate) struct RowsHeld {
    threads: Vec<Vec<i64>>,
    lanes: Vec<u32>,
}

/// Where, in a tile of these extents, every thread has every value of an operand: `first + extent * second`.
pub(crate) fn places(
    mma: &TiledMma,
    operand: Operand,
    tile: [i64; 2],
) -> Result<(IntTuple, Vec<Vec<i64>>), ErrorKind> {
    check_tile("rows", mma, tile)?;
    let tile = Layout::column_major(IntTuple::flat(tile.map(Int::Static)))?.to_static();
    let first = mma.slice(0)?.partition(&tile, operand)?.layout;
    let of_first = first.table()?;
    let of = |t| -> Result<Vec<i64>, ErrorKind> {
        let part = mma.slice(t)?.partition(&tile, operand)?;
        let start: i64 = part.start.leaves().iter().map(|n| n.value()).sum();
        // The threads mostly differ only in where they start.
        if part.layout == first {
            return Ok(of_first.iter().map(|value| start + value).collect());
        }
        let value = |i| Ok(start + part.layout.at(i)?);
        (0..part.layout.size()).map(value).collect()
    };
    let all = (0..mma.threads()).map(of).collect::<Result<_, _>>()?;
    Ok((first.shape(), all))
}

impl Rows {
    /// Builds the rows of a tile of C with the extents `(M, N)`.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// assert_eq!(Rows::new(&mma, (16, 8))?.count(), 2); // a thread has a part of two rows
    /// let wide = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,2,1):(0,1,0)", (16, 16, 16))?;
    /// let error = Rows::new(&wide, (16, 16)).unwrap_err();
    /// assert!(error.what().starts_with("rows: warps 0 and 1 have parts of row 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if several warps hold parts of one row, since shuffles do not cross warps, or if the tile has
    /// no such partition.
    #[track_caller]
    pub fn new(mma: &TiledMma, tile: impl Into<[i64; 2]>) -> Result<Rows, Error> {
        Rows::of(mma, tile.into()).at(Location::caller())
    }

    fn of(mma: &TiledMma, tile: [i64; 2]) -> Result<Rows, ErrorKind> {
        let (shape, places) = places(mma, Operand::C, tile)?;
        let row = |t: usize, i: usize| places[t][i] % tile[0];
        let own: Vec<i64> = (0..places[0].len()).map(|i| row(0, i)).collect();
        let distinct: Vec<i64> = own
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let slot = |i: i64| distinct.binary_search(&own[i as usize]).unwrap_or(0) as i64;
        // The first value of each value's row.
        let like = |i: usize| own.iter().position(|r| *r == own[i]).unwrap_or(i);
        let likes: Vec<usize> = (0..own.len()).map(like).collect();
        let irregular = |t: usize, i: usize| row(t, i) != row(t, likes[i]);
        let mut distances = BTreeSet::new();
        for t in 0..places.len() {
            for i in 0..own.len() {
                if irregular(t, i) {
                    let why =
                        format!("threads 0 and {t} have the rows of C in different registers");
                    return Err(ErrorKind::operands("rows", why));
                }
            }
            for other in (0..places.len()).filter(|u| *u != t && row(*u, 0) == row(t, 0)) {
                if other / 32 != t / 32 {
                    let why = format!(
                        "warps {} and {} have parts of row {}: atoms along M only give each warp whole rows",
                        t / 32,
                        other / 32,
                        row(t, 0)
                    );
                    return Err(ErrorKind::operands("rows", why));
                }
                distances.insert((t ^ other) as u32);
            }
        }
        let layout = Layout::infer_modes(&shape, slot)?.to_static();
        let of_thread = |t: usize| -> Vec<i64> {
            let rows: BTreeSet<i64> = (0..own.len()).map(|i| row(t, i)).collect();
            rows.into_iter().collect()
        };
        let held = RowsHeld {
            threads: (0..places.len()).map(of_thread).collect(),
            lanes: generators(&distances)?,
        };
        Ok(Rows {
            layout,
            held: Rc::new(held),
        })
    }

    /// Returns the layout that maps a thread's accumulators to its rows: stride 0 along columns, rows in ascending
    /// order.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let rows = Rows::new(&mma, [16, 8])?;
    /// // Elements 0 and 1 are of one row, elements 2 and 3 of another.
    /// assert_eq!(rows.layout().to_string(), "((_2,_2),_1,_1):((_0,_1),_0,_0)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of rows of which a thread holds a part.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// assert_eq!(Rows::new(&mma, [16, 8])?.count(), 2);
    /// assert_eq!(Rows::new(&mma, [32, 8])?.count(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self) -> i64 {
        let last = |l: &LeafMode| (l.extent.value() - 1) * l.stride.coefficient().value();
        1 + self.layout.leaves().iter().map(last).sum::<i64>()
    }

    /// Broadcasts one number per row over the accumulators: the element at each index is the number of its row.
    /// Accumulators with the same rows and other columns take the same numbers.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let rows = Rows::new(&mma, [16, 8])?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (c, scale) = (k.accumulators(&mma, (16, 8)), k.row_values(&rows, Ty::F32));
    /// k.fill(&scale, 2.0);
    /// k.assign(&c, &c + rows.broadcast_rows(&scale));
    /// assert_eq!(elements(k, &c)?[0], [2.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if `values` does not have one element per row, or was made for other rows.
    #[track_caller]
    pub fn broadcast_rows(&self, values: &Fragment) -> Fragment {
        values.attempt(Location::caller(), || self.broadcast(values))
    }

    fn broadcast(&self, values: &Fragment) -> Result<Fragment, ErrorKind> {
        let is_other = |held: &Rc<RowsHeld>| *held != self.held;
        if values.rows.as_ref().is_some_and(is_other) {
            return Err(ErrorKind::operands("broadcast_rows", OTHER));
        }
        if values.layout.size() == self.count() && values.layout == identity(self.count())? {
            return Ok(Fragment {
                rows: Some(Rc::clone(&self.held)),
                ..values.under(self.layout.clone())
            });
        }
        let why = format!(
            "{} for {} rows: numbers of `row_values` are",
            values.layout,
            self.count()
        );
        Err(ErrorKind::operands("broadcast_rows", why))
    }

    /// Returns the XOR masks of the lanes that hold the other parts of a row. A butterfly reduction applies them one
    /// after the other.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// // Four neighbouring lanes have the eight columns of a row.
    /// assert_eq!(Rows::new(&mma, [16, 8])?.lanes(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lanes(&self) -> &[u32] {
        &self.held.lanes
    }
}

/// Why numbers of rows are refused.
const OTHER: &str = "the numbers were made for other rows: a thread has them in the places of the rows that `row_values` was given";

/// As many numbers, one after the other.
fn identity(count: i64) -> Result<Layout, colex_layout::Error> {
    Ok(Layout::column_major(count)?.to_static())
}

/// The least distances of which all are sums without carry.
pub(super) fn generators(distances: &BTreeSet<u32>) -> Result<Vec<u32>, ErrorKind> {
    let (mut lanes, mut reached) = (Vec::new(), BTreeSet::from([0]));
    for distance in distances {
        if !reached.contains(distance) {
            lanes.push(*distance);
            reached = reached.iter().flat_map(|x| [*x, x ^ distance]).collect();
        }
    }
    if reached.len() == distances.len() + 1 {
        return Ok(lanes);
    }
    let why = format!("the lanes of a row lie {distances:?} apart by XOR, which is no group");
    Err(ErrorKind::operands("rows", why))
}

impl Builder {
    /// Allocates an uninitialised fragment with one element for each row of which the thread holds a part.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let rows = Rows::new(&mma, [16, 8])?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// assert_eq!(k.row_values(&rows, Ty::F32).layout().to_string(), "_2:_1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails as for [`Builder::fragment`].
    #[track_caller]
    pub fn row_values(&mut self, rows: &Rows, ty: Ty) -> Fragment {
        let inert = |k: &mut Self| k.inert_fragment(ty);
        self.attempt(Location::caller(), inert, |k| {
            let layout = identity(rows.count())?;
            Ok(Fragment {
                rows: Some(Rc::clone(&rows.held)),
                ..k.new_fragment(ty, &layout)?
            })
        })
    }

    /// Reduces each row across lanes by `op` with butterfly shuffles: afterwards all lanes that share a row hold the
    /// same result. All lanes of the warp must execute it. `d` is a fragment of [`Builder::row_values`], or its
    /// [broadcast](Rows::broadcast_rows).
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_proof::examples::elements;
    /// # let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(1,1,1):(0,0,0)", (16, 8, 16))?;
    /// let rows = Rows::new(&mma, [16, 8])?;
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (c, sums) = (k.accumulators(&mma, (16, 8)), k.row_values(&rows, Ty::F32));
    /// k.fill(&c, 1.0);
    /// k.clear(&sums);
    /// let sums_by_element = rows.broadcast_rows(&sums);
    /// k.assign(&sums_by_element, &sums_by_element + &c); // the thread's 2 columns
    /// k.reduce_rows(BinaryOp::Add, &rows, &sums); // those of the 4 lanes of a row
    /// assert_eq!(elements(k, &sums)?[0], [8.0, 8.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the elements have no such operation, or if the fragment was not made for these rows.
    #[track_caller]
    pub fn reduce_rows(&mut self, op: BinaryOp, rows: &Rows, d: &Fragment) {
        self.run(Location::caller(), |k| k.run_reduce_rows(op, rows, d));
    }

    fn run_reduce_rows(
        &mut self,
        op: BinaryOp,
        rows: &Rows,
        d: &Fragment,
    ) -> Result<(), ErrorKind> {
        self.own_fragments(&[d])?;
        check_op("reduce_rows", op, d.ty)?;
        match &d.rows {
            Some(held) if *held == rows.held => {}
            Some(_) => return Err(ErrorKind::operands("reduce_rows", OTHER)),
            None => {
                let why = format!(
                    "{} elements of {}, which are no numbers of rows: those of `row_values` are",
                    d.layout.size(),
                    d.layout
                );
                return Err(ErrorKind::operands("reduce_rows", why));
            }
        }
        let all = d.under(identity(rows.count())?);
        for lane in &rows.held.lanes {
            let other = self.shuffled(&all, ShuffleMode::Bfly, i64::from(*lane))?;
            self.assigned("reduce_rows", &all, &Expr::binary(op, &all, &other))?;
        }
        Ok(())
    }
}
