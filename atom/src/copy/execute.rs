//! What a copy does to data, read out of its layouts.

use std::collections::HashMap;

use super::atom::CopyAtom;
use super::row::{Argument, CopyForm};
use crate::error::CopyError;
use crate::{Error, tv};

/// Where one value of the destination comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The logical thread that gives it: by register, or by the address it passes.
    pub thread: usize,
    /// Which of that thread's values it is.
    pub value: usize,
}

impl CopyAtom {
    /// Returns, for each thread of the destination, where each of its values comes from, in values of `bits` bits;
    /// `None` for a thread whose address the instruction does not look at.
    ///
    /// ```
    /// use colex_atom::{Route, copy};
    ///
    /// // `ldmatrix`: thread 5 holds elements 2 and 3 of row 1, whose address thread 1 gave.
    /// let routes = copy("SM75_U32x1_LDSM_N")?.routes(16)?;
    /// assert_eq!(routes[5], Some(vec![Route { thread: 1, value: 2 }, Route { thread: 1, value: 3 }]));
    /// // `stmatrix.x1`: the address of thread 8 is not looked at.
    /// assert_eq!(copy("SM90_U32x1_STSM_N")?.routes(16)?[8], None);
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a layout-only row, or for a width that does not fit.
    pub fn routes(&self, bits: i64) -> Result<Vec<Option<Vec<Route>>>, Error> {
        self.op()?;
        let layouts = self.val_layouts(bits)?;
        let threads = self.threads();
        // Of threads that give the same address, the first is the one that counts.
        let mut giver = HashMap::new();
        for (i, bit) in tv::table(&layouts.src).into_iter().enumerate() {
            giver.entry(bit).or_insert(Route {
                thread: i % threads,
                value: i / threads,
            });
        }
        let mut owner = HashMap::new();
        let mut routes: Vec<Option<Vec<Route>>> = vec![Some(Vec::new()); threads];
        for (i, bit) in tv::table(&layouts.dst).into_iter().enumerate() {
            let thread = i % threads;
            if *owner.entry(bit).or_insert(thread) != thread {
                routes[thread] = None;
            } else if let Some(values) = &mut routes[thread] {
                values.push(giver[&bit]);
            }
        }
        Ok(routes)
    }

    /// Returns what the instruction does: from the values of each logical thread (in its registers, or at the address
    /// it passes) to those of each thread of the destination, in values of `bits` bits.
    ///
    /// `None` stands for a thread whose address is not looked at: nothing is written there.
    ///
    /// ```
    /// let transpose = colex_atom::copy("SM75_U32x1_MOVM_T")?;
    /// let element = |row: usize, column: usize| 8 * row + column;
    /// let rows: Vec<Vec<usize>> = (0..32).map(|t| vec![element(t / 4, 2 * (t % 4)), element(t / 4, 2 * (t % 4) + 1)]).collect();
    /// let columns = transpose.execute(16, &rows)?;
    /// assert_eq!(columns[6], Some(vec![element(4, 1), element(5, 1)]));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`routes`](Self::routes), and an error for the wrong number of threads or values.
    pub fn execute<T: Clone>(
        &self,
        bits: i64,
        src: &[Vec<T>],
    ) -> Result<Vec<Option<Vec<T>>>, Error> {
        let routes = self.routes(bits)?;
        let values = tv::values(&self.val_layouts(bits)?.src);
        self.check_data("threads", self.threads(), src.len())?;
        for (thread, given) in src.iter().enumerate() {
            self.check_data(&format!("values in thread {thread}"), values, given.len())?;
        }
        let fetch = |route: &Route| src[route.thread][route.value].clone();
        Ok(routes
            .iter()
            .map(|values| {
                values
                    .as_ref()
                    .map(|values| values.iter().map(fetch).collect())
            })
            .collect())
    }

    /// Returns what a zero-filling `cp.async` writes: the first `source_bytes` of what it reads, then zeros (PTX ISA
    /// 9.7.9, `cp.async`, `src-size`).
    ///
    /// ```
    /// let copy = colex_atom::copy("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>")?;
    /// assert_eq!(copy.zero_filled(&[1, 2, 3, 4], 3)?, [1, 2, 3, 0]);
    /// assert_eq!(copy.zero_filled(&[1, 2, 3, 4], 0)?, [0, 0, 0, 0]);
    /// let error = copy.zero_filled(&[1, 2, 3, 4], 5).unwrap_err();
    /// assert_eq!(error.to_string(), "`SM80_CP_ASYNC_CACHEALWAYS_ZFILL<uint32_t>` writes 4 bytes and cannot read 5");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that is a layout only, for an operation that does not fill, if more is read than
    /// the instruction writes, or if `src` is not what the instruction moves.
    pub fn zero_filled(&self, src: &[u8], source_bytes: usize) -> Result<Vec<u8>, Error> {
        self.op()?;
        let bytes = self.bits_per_thread() / 8;
        self.check_data("bytes", bytes, src.len())?;
        let fills = matches!(self.row().form, CopyForm::Instruction(list) if list.contains(&Argument::SourceBytes));
        if source_bytes > bytes || (!fills && source_bytes != bytes) {
            return Err(CopyError::SourceBytes {
                name: self.name(),
                bytes,
                read: source_bytes,
            }
            .into());
        }
        let mut written = src.to_vec();
        written[source_bytes..].fill(0);
        Ok(written)
    }

    fn check_data(&self, what: &str, expected: usize, found: usize) -> Result<(), Error> {
        if expected == found {
            return Ok(());
        }
        Err(CopyError::Data {
            name: self.name(),
            what: what.to_string(),
            expected,
            found,
        }
        .into())
    }
}
