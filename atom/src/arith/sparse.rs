//! A without its zeros: what is kept, and the metadata that says where it was.
//!
//! PTX ISA 9.7.15.6: of each four elements along K two are kept, their positions in two bits each; of each two
//! `tf32` one is kept, its position written as `0b0100` (the first) or `0b1110` (the second).

use crate::Error;
use crate::error::ErrorKind;
use crate::mma::{MmaAtom, Rule};
use crate::number::Value;

/// The metadata of a kept `tf32`: the first of two, or the second.
const OF_TWO: [u64; 2] = [0b0100, 0b1110];

impl MmaAtom {
    /// Puts the zeros back: the tile `a[m + M*k]` that the kept elements `stored[m + M*(k/2)]` and the metadata,
    /// one 32-bit register per thread, stand for.
    ///
    /// # Errors
    ///
    /// Returns an error for tiles of the wrong size, for a dense operation, or for metadata that names no positions.
    pub fn unpack(&self, stored: &[Value], metadata: &[u32]) -> Result<Vec<Value>, Error> {
        let rows = self.metadata_rows(metadata)?;
        let [m, _, k] = self.mnk().map(|extent| extent as usize);
        self.check_size('A', stored.len(), m * k / 2)?;
        let mut tile = vec![Value::zero(self.traits().ty_a); m * k];
        for (row, &bits) in rows.iter().enumerate() {
            for kept in 0..k / 2 {
                let at = self.position(row, kept, bits)?;
                tile[row + m * at] = stored[row + m * kept];
            }
        }
        Ok(tile)
    }

    /// Takes the zeros out: the inverse of [`unpack`](Self::unpack). Where a group has fewer elements than are kept,
    /// zeros are kept too.
    ///
    /// ```
    /// use colex_atom::{Value, mma};
    ///
    /// let atom = mma("SPARSE::GMMA_64x8x64_S32S8S8_SS_TN")?;
    /// let mut a = vec![Value::Int(0); 64 * 64];
    /// a[0] = Value::Int(7);
    /// a[64 * 3] = Value::Int(9);
    /// let (stored, metadata) = atom.pack(&a)?;
    /// assert_eq!((stored[0], stored[64]), (Value::Int(7), Value::Int(9)));
    /// assert_eq!(atom.unpack(&stored, &metadata)?, a);
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a group has more elements than can be kept, or for a tile of the wrong size or a dense
    /// operation.
    pub fn pack(&self, a: &[Value]) -> Result<(Vec<Value>, Vec<u32>), Error> {
        let layout = self.metadata_layout()?;
        let [m, _, k] = self.mnk().map(|extent| extent as usize);
        self.check_size('A', a.len(), m * k)?;
        let (group, keep) = self.group();
        let mut stored = vec![Value::zero(self.traits().ty_a); m * k / 2];
        let mut rows = vec![0u64; m];
        for (row, bits) in rows.iter_mut().enumerate() {
            for first in (0..k).step_by(group) {
                let elements: Vec<Value> = (0..group).map(|i| a[row + m * (first + i)]).collect();
                let kept = self
                    .choose(&elements, keep)
                    .ok_or_else(|| self.too_dense(row, first))?;
                *bits |= nibble(&kept) << (first / group * 4);
                for (i, &at) in kept.iter().enumerate() {
                    stored[row + m * (first / group * keep + i)] = elements[at];
                }
            }
        }
        let values = crate::tv::values(layout);
        let threads = crate::tv::threads(layout);
        let width = 32 / values;
        let mut words = vec![0u32; threads];
        for (i, at) in crate::tv::table(layout).into_iter().enumerate() {
            let bits = rows[at % m] >> (at / m * width) & ((1 << width) - 1);
            words[i % threads] |= (bits as u32) << (i / threads * width);
        }
        Ok((stored, words))
    }

    /// Each row's metadata: the bits of element `k` of the unpacked A at `k * width`.
    fn metadata_rows(&self, metadata: &[u32]) -> Result<Vec<u64>, Error> {
        let layout = self.metadata_layout()?;
        let threads = crate::tv::threads(layout);
        if metadata.len() != threads {
            let [expected, found] =
                [threads, metadata.len()].map(|n| format!("{n} registers of metadata"));
            return Err(self.wrong_operand('E', expected, found));
        }
        let m = self.mnk()[0] as usize;
        let width = 32 / crate::tv::values(layout);
        let mut rows = vec![0u64; m];
        for (i, at) in crate::tv::table(layout).into_iter().enumerate() {
            if !self.holds_metadata(i % threads) {
                continue;
            }
            let bits = metadata[i % threads] >> (i / threads * width) & ((1 << width) - 1);
            rows[at % m] |= u64::from(bits) << (at / m * width);
        }
        Ok(rows)
    }

    fn metadata_layout(&self) -> Result<&colex_layout::Layout, Error> {
        self.op()?;
        self.traits()
            .e
            .as_ref()
            .ok_or_else(|| self.wrong_operand('E', "absent", "metadata of a sparse A"))
    }

    /// Whether the instruction reads a thread's metadata: two of each four threads hold the same where two suffice.
    fn holds_metadata(&self, thread: usize) -> bool {
        let all = self.traits().ty_a.bits() == 8;
        all || thread / 2 % 2 == usize::from(self.options().metadata_threads)
    }

    /// The size of a group along K, and how many of it are kept.
    fn group(&self) -> (usize, usize) {
        if self.rule() == Rule::Sparse1Of2 {
            (2, 1)
        } else {
            (4, 2)
        }
    }

    /// Where along K the kept element was.
    fn position(&self, row: usize, kept: usize, row_bits: u64) -> Result<usize, Error> {
        let (group, keep) = self.group();
        let first = kept / keep * group;
        let bits = row_bits >> (first / group * 4) & 0xf;
        let position = match keep {
            1 => OF_TWO.iter().position(|&pattern| pattern == bits),
            _ if bits & 3 >= bits >> 2 => None,
            _ => Some((bits >> (kept % keep * 2) & 3) as usize),
        };
        let bad = || ErrorKind::Metadata {
            name: self.name(),
            m: row,
            k: first,
            bits,
            positions: keep,
        };
        position
            .map(|position| first + position)
            .ok_or_else(|| bad().into())
    }

    /// The positions to keep: those of the non-zero elements, filled up with the first free ones, in order.
    fn choose(&self, elements: &[Value], keep: usize) -> Option<Vec<usize>> {
        let zero = |at: usize| elements[at] == Value::zero(self.traits().ty_a);
        let mut kept: Vec<usize> = (0..elements.len()).filter(|&at| !zero(at)).collect();
        let free = (0..elements.len()).filter(|&at| zero(at));
        kept.extend(
            free.take(keep.saturating_sub(kept.len()))
                .collect::<Vec<_>>(),
        );
        kept.sort();
        (kept.len() == keep).then_some(kept)
    }

    fn too_dense(&self, m: usize, k: usize) -> Error {
        let (group, keep) = self.group();
        ErrorKind::TooDense {
            name: self.name(),
            m,
            k,
            group,
            keep,
        }
        .into()
    }
}

/// Four bits of metadata for the kept positions.
fn nibble(kept: &[usize]) -> u64 {
    match *kept {
        [at] => OF_TWO[at],
        [first, second] => (first | second << 2) as u64,
        _ => unreachable!("one of two or two of four are kept"),
    }
}
