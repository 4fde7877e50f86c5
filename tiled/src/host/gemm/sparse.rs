//! A tiled MMA whose A is stored without its zeros.

use core::ops::{Deref, DerefMut};

use colex_atom::Value;
use colex_layout::Layout;

use crate::Error;
use crate::error::ErrorKind;
use crate::host::gemm::check::refuse;
use crate::host::gemm::fragments::Factors;
use crate::host::gemm::options::{GemmOptions, OutOfBounds};
use crate::host::gemm::part::matrix;
use crate::host::gemm::positions::FIRST;
use crate::mma::TiledMma;
use crate::mma::check::check_extents;
use crate::tensor::Tensor;
use crate::tensor::extents::size;

/// The kept elements of a sparse A, `(M,K/2)`, and their positions, `(M,K/group)`.
pub type Compressed = (Tensor<Vec<Value>>, Tensor<Vec<u8>>);

impl TiledMma {
    /// Returns the same as [`TiledMma::gemm_with`], for an atom with a sparse A: `a` of (M,K/2) has the elements that
    /// are kept, and `positions` of (M,K/4) where they were, four bits for each group of four along K (of `tf32`
    /// (M,K/2), for each group of two). [`TiledMma::compress`] makes both.
    ///
    /// Every thread of the atom gets its register of metadata by the atom's own thread-value layout
    /// ([`colex_atom::MmaTraits::e`]).
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_tiled::{GemmOptions, Tensor, TiledMma};
    /// let atom = colex_atom::mma("SPARSE::GMMA_64x8x64_S32S8S8_SS_TN")?;
    /// let mma = TiledMma::new(atom, "1:0", (.., .., ..))?;
    /// // Of each four along K the second and the fourth.
    /// let data: Vec<Value> = (0..64 * 64).map(|i| Value::Int(i / 64 % 2)).collect();
    /// let dense = Tensor::new(data, "(64,64):(1,64)")?;
    /// let (a, positions) = mma.compress(&dense)?;
    /// assert_eq!((format!("{:#}", a.layout()), *positions.get((0, 0))?), ("(64,32):(1,64)".into(), 0b1101));
    /// let b = Tensor::new(vec![Value::Int(3); 8 * 64], "(8,64):(1,8)")?;
    /// let mut c = Tensor::new(vec![Value::Int(0); 64 * 8], "(64,8):(1,64)")?;
    /// mma.gemm_sparse(&a, &positions, &b, &mut c, GemmOptions::default())?;
    /// assert!(c.elements()?.iter().all(|x| **x == Value::Int(96)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TiledMma::gemm_with`], and an error for an atom whose A is dense, for a permutation of K
    /// that takes the elements of a group apart, and an error for positions that name none.
    ///
    /// Source: PTX ISA 9.7.15.6 (`wgmma.mma_async.sp`).
    pub fn gemm_sparse<A, E, B, C>(
        &self,
        a: &Tensor<A>,
        positions: &Tensor<E>,
        b: &Tensor<B>,
        c: &mut Tensor<C>,
        options: GemmOptions,
    ) -> Result<OutOfBounds, Error>
    where
        A: Deref<Target = [Value]>,
        E: Deref<Target = [u8]>,
        B: Deref<Target = [Value]>,
        C: DerefMut<Target = [Value]>,
    {
        let (group, packing) = (self.group()?, self.atom().rule().packing() as i64);
        check_extents("gemm", [a.layout(), b.layout(), c.layout()], packing)?;
        let [m, k] = [size(a.layout(), 0), size(b.layout(), 1)];
        let e = positions.layout();
        if e.rank() != 2 || size(e, 0) != m || size(e, 1) * group != k {
            return refuse(format!(
                "the positions {e} are not of the extents ({m},{k}/{group}) that A {} has",
                a.layout()
            ));
        }
        let factors = Factors {
            a,
            whole_a: Layout::column_major(matrix(m, k))?,
            positions: Some(positions.view()),
            b,
        };
        self.product(&factors, c, options)
    }

    /// Returns an A of (M,K) without its zeros, for [`TiledMma::gemm_sparse`]: column-major.
    ///
    /// ```
    /// use colex_atom::Value;
    /// use colex_layout::Layout;
    /// use colex_tiled::{Tensor, TiledMma};
    ///
    /// let atom = colex_atom::mma("SPARSE::GMMA_64x8x32_F16F16F16_SS")?;
    /// let mma = TiledMma::new(atom, "(1,1,1):(0,0,0)", (.., .., ..))?;
    /// let a: Layout = "(64,32):(1,64)".parse()?;
    /// let compressed = mma.compress(&Tensor::new(vec![Value::Real(0.0); 64 * 32], a)?)?;
    /// assert_eq!(compressed.0.layout().size(), 64 * 16);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom whose A is dense, for a K that is not of whole groups, or if a group has more
    /// elements than are kept.
    pub fn compress<A>(&self, a: &Tensor<A>) -> Result<Compressed, Error>
    where
        A: Deref<Target = [Value]>,
    {
        let group = self.group()?;
        let [m, k] = [0, 1].map(|i| size(a.layout(), i));
        if a.layout().rank() != 2 || k % group != 0 {
            return refuse(format!(
                "A {} is not of the extents (M,K) with K a multiple of {group}",
                a.layout()
            ));
        }
        let (mut stored, mut positions) = (Vec::new(), Vec::new());
        for (first, row) in (0..k / group).flat_map(|g| (0..m).map(move |row| (g * group, row))) {
            let element = |i| Ok(*a.get((row, first + i))?);
            let elements: Vec<Value> = (0..group).map(element).collect::<Result<_, Error>>()?;
            let chosen = self.choose(&elements, row, first)?;
            positions.push(nibble(&chosen));
            stored.push(
                chosen
                    .into_iter()
                    .map(|at| elements[at])
                    .collect::<Vec<_>>(),
            );
        }
        // Groups of one column follow each other; within them, the elements kept in one place.
        let kept = stored[0].len();
        let columns = stored.chunks(m as usize);
        let stored = columns
            .flat_map(|rows| (0..kept).flat_map(move |i| rows.iter().map(move |row| row[i])));
        let column_major = |columns| Layout::column_major(matrix(m, columns));
        Ok((
            Tensor::new(stored.collect(), column_major(k / group * kept as i64)?)?,
            Tensor::new(positions, column_major(k / group)?)?,
        ))
    }

    /// The places of a group that are kept: those that are not zero, filled up with the first that are.
    fn choose(&self, elements: &[Value], row: i64, first: i64) -> Result<Vec<usize>, Error> {
        let zero = |at: &usize| elements[*at] == Value::zero(self.atom().traits().ty_a);
        let keep = elements.len() / self.atom().rule().packing();
        let (zeros, mut chosen): (Vec<_>, Vec<_>) = (0..elements.len()).partition(zero);
        if chosen.len() > keep {
            return Err(ErrorKind::TooDense {
                atom: self.atom().name(),
                m: row as usize,
                k: first as usize,
                group: elements.len(),
                keep,
            }
            .into());
        }
        chosen.extend(&zeros[..keep - chosen.len()]);
        chosen.sort_unstable();
        Ok(chosen)
    }
}

/// Four bits for the places that are kept.
fn nibble(chosen: &[usize]) -> u8 {
    match *chosen {
        [0] => FIRST,
        [_] => 0b1110,
        [first, second] => (first | second << 2) as u8,
        _ => unreachable!("one of two or two of four are kept"),
    }
}
