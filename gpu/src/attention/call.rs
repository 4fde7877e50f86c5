//! Attention as calls: checked, planned, built once for each plan, launched.

use core::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock, OnceLock};

use colex_atom::Arch;
use colex_device::{BareLaunch, Device, DeviceSlice, Extension, Function, Memo, View, ViewMut};
use colex_layout::{Int, IntTuple, Layout, LeafMode};
use colex_sim::Report;
use colex_tensor::TensorKernel;

use super::ahead::{self, AttentionRange};
use super::launches::planned_launches;
use super::plan::{AttentionOperands, AttentionPlan};
use super::problem::{
    AttentionProblem, AttentionTensor, LOG_SUM_EXP, Mask, OutputTensor, Sequences,
};
use super::tune::tuned;
use crate::autotune::Autotune;
use crate::calls::{self, Call, KernelOf, PreparedCalls, PreparedLaunch, Shape, same_device};
use crate::error::{AttentionError, Error, ErrorKind, disjoint};
use crate::gemm::problem::GemmElement;
use crate::memory_bound::modes;
use crate::method::AttentionMethod;
use crate::scratch::{self, Piece, Workspace};
use smallvec::SmallVec;

/// Computes `O = softmax(Q K^T / sqrt(features)) V` for each batch and head, by the fastest kernel that head size, layouts,
/// addresses and device allow. [`Attention`] has masks, the scale, the soft-cap, the log-sum-exp, sinks, sequences of different
/// lengths and the choice of a kernel.
///
/// The elements are `bf16` or `f16`. Q, K and V have 64, 96, 128, 192 or 256 features, or Q and K have 192 and V 128.
///
/// The views are (batch, head, sequence, feature). Q and O have any multiple of the heads of K and V, the lengths of Q and K
/// may be any, 0 too, and so may the strides of batch, head and sequence: a tensor whose modes are (batch, sequence, head,
/// feature) in memory is given as a [permuted](View::permute) view. The stride of features is 1.
///
/// As for [`gemm`](crate::gemm()), the device caches what it prepares for a call.
///
/// A NaN of Q is one of its query's row, and a NaN of K one of all rows that see the key. A NaN or an infinity of V reaches its
/// feature of every query that sees the key, and of others whose block of keys holds it. A score of -inf is a key that is not
/// seen, and one of +inf a NaN; a query that sees no key has zeros. A row is NaN whose largest score, or sink, is beyond 2^27 in
/// size after scale and `log2(e)`: f32 does not hold the differences of such scores.
///
/// ```
/// use colex_gpu::{Device, attention};
/// use half::f16;
///
/// let device = Device::open();
/// // Two queries of two heads, three keys of one head, 64 features. All scores are equal: O is the mean of the values.
/// let q = device.upload(&[f16::ONE; 2 * 2 * 64])?;
/// let k = device.upload(&[f16::ONE; 3 * 64])?;
/// let values: Vec<f16> = (0..3 * 64).map(|i| f16::from_f32((i / 64) as f32)).collect();
/// let v = device.upload(&values)?;
/// let mut o = device.poisoned::<f16>(2 * 2 * 64)?;
/// attention(
///     &q.view((1, 2, 2, 64))?,
///     &k.view((1, 1, 3, 64))?,
///     &v.view((1, 1, 3, 64))?,
///     &o.view_mut((1, 2, 2, 64))?,
/// )?;
/// assert_eq!(o.download()?, [f16::ONE; 2 * 2 * 64]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the views are not the tensors of one problem, if they lie on several devices, if O overlaps another
/// tensor or has one element at several coordinates, or if no kernel takes the type or the number of features. Returns the
/// device's error if an allocation or a launch fails.
///
/// Tensors overlap if their ranges of bytes do, each from the first element to the last. O in the gaps between the rows of Q
/// overlaps Q in this sense, although they have no element in common.
pub fn attention<T: GemmElement>(
    q: &View<'_, T>,
    k: &View<'_, T>,
    v: &View<'_, T>,
    o: &ViewMut<'_, T>,
) -> Result<(), Error> {
    Attention::new(q, k, v, o).run()
}

/// An attention call that is being described: `O = softmax(scale Q K^T) V`.
///
/// ```
/// use colex_gpu::attention::{Attention, Mask};
/// use colex_gpu::Device;
/// use half::bf16;
///
/// let device = Device::open();
/// let q = device.upload(&[bf16::ONE; 3 * 64])?;
/// let values: Vec<bf16> = (0..2 * 64).map(|i| bf16::from_f32((i / 64) as f32)).collect();
/// let (k, v) = (device.upload(&[bf16::ONE; 2 * 64])?, device.upload(&values)?);
/// let (mut o, mut sums) = (device.poisoned::<bf16>(3 * 64)?, device.poisoned::<f32>(3)?);
/// // Three queries at the end of two keys: the first sees none, the second key 0, the third both.
/// let (keys, values) = (k.view((1, 1, 2, 64))?, v.view((1, 1, 2, 64))?);
/// Attention::new(&q.view((1, 1, 3, 64))?, &keys, &values, &o.view_mut((1, 1, 3, 64))?)
///     .mask(Mask::Causal)
///     .log_sum_exp(&sums.view_mut((1, 1, 3))?)
///     .run()?;
/// let first: Vec<f32> = o.download()?.iter().step_by(64).map(|x| x.to_f32()).collect();
/// assert_eq!(first, [0.0, 0.0, 0.5]);
/// let sums = sums.download()?;
/// assert_eq!(sums[0], f32::NEG_INFINITY);
/// assert!((sums[1] - 8.0).abs() < 1e-5); // 64 / sqrt(64)
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Attention<'a, T> {
    /// Q, K, V and O, the last of which is written.
    tensors: [View<'a, T>; 4],
    mask: Mask,
    scale: Option<f32>,
    softcap: Option<f32>,
    log_sum_exp: Option<View<'a, f32>>,
    sinks: Option<View<'a, f32>>,
    /// The offsets of packed queries and of packed keys, and the most rows of a sequence.
    offsets: [Option<(SequenceNumbers<'a>, i64)>; 2],
    pages: Option<Pages<'a>>,
    method: Option<AttentionMethod>,
    measured: Option<&'a Autotune>,
}

impl<'a, T: GemmElement> Attention<'a, T> {
    /// Builds the call on Q, K, V and O without a mask, with the scale `1 / sqrt(features of Q)`.
    pub fn new(
        q: &View<'a, T>,
        k: &View<'a, T>,
        v: &View<'a, T>,
        o: &ViewMut<'a, T>,
    ) -> Attention<'a, T> {
        Attention {
            tensors: [q.clone(), k.clone(), v.clone(), (**o).clone()],
            mask: Mask::Full,
            scale: None,
            softcap: None,
            log_sum_exp: None,
            sinks: None,
            offsets: [None, None],
            pages: None,
            method: None,
            measured: None,
        }
    }

    /// Sets the keys that a query sees.
    pub fn mask(self, mask: Mask) -> Self {
        Attention { mask, ..self }
    }

    /// Sets the factor of the scores.
    pub fn scale(self, scale: f32) -> Self {
        let scale = Some(scale);
        Attention { scale, ..self }
    }

    /// Sets a cap of the scores: `s`, which includes the scale, becomes `cap tanh(s / cap)`, within `cap` times 2^-21. The cap is at most
    /// 1024, so that a score is within 2^-11. A call with a larger cap is refused, since it would take small scores for 0.
    ///
    /// ```
    /// use colex_gpu::attention::Attention;
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// // One query and one key of 64 features: the score is 64 / sqrt(64), and its logarithm of a sum is the score.
    /// let x = device.upload(&[f16::ONE; 64])?;
    /// let (mut o, mut sums) = (device.poisoned::<f16>(64)?, device.poisoned::<f32>(1)?);
    /// let row = x.view((1, 1, 1, 64))?;
    /// let output = o.view_mut((1, 1, 1, 64))?;
    /// let call = Attention::new(&row, &row, &row, &output);
    /// call.clone().log_sum_exp(&sums.view_mut((1, 1, 1))?).softcap(4.0).run()?;
    /// assert!((sums.download()?[0] - 4.0 * 2.0_f32.tanh()).abs() < 1e-5);
    ///
    /// let refused = call.softcap(1e6).run().unwrap_err();
    /// assert_eq!(refused.to_string(), "softcap is 1000000: it must be 1e-30 to 1024.0");
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn softcap(self, cap: f32) -> Self {
        let softcap = Some(cap);
        Attention { softcap, ..self }
    }

    /// Makes the natural logarithm of each query's sum of exponentials an output, (batch, head, query). It is -inf for a
    /// query that sees no key.
    pub fn log_sum_exp(self, to: &ViewMut<'a, f32>) -> Self {
        let log_sum_exp = Some((**to).clone());
        Attention {
            log_sum_exp,
            ..self
        }
    }

    /// Gives each head of Q a sink: a score that every query of the head has besides those of its keys, and to which no value
    /// belongs. The sum of exponentials of a query has the additional term `exp(sink)`, and so has its log-sum-exp.
    ///
    /// `sinks` has one mode, the heads of Q. A sink is neither scaled nor capped. That of -inf is none. A query that sees no key
    /// has zeros, and its log-sum-exp is the sink.
    ///
    /// ```
    /// use colex_gpu::attention::Attention;
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// // One query and one key of two heads: the scores are 0 and the values 6.
    /// let q = device.upload(&[f16::ZERO; 2 * 64])?;
    /// let k = device.upload(&[f16::ZERO; 64])?;
    /// let v = device.upload(&[f16::from_f32(6.0); 64])?;
    /// let sinks = device.upload(&[0.0, f32::NEG_INFINITY])?;
    /// let mut o = device.poisoned::<f16>(2 * 64)?;
    /// let (queries, keys) = (q.view((1, 2, 1, 64))?, k.view((1, 1, 1, 64))?);
    /// Attention::new(&queries, &keys, &v.view((1, 1, 1, 64))?, &o.view_mut((1, 2, 1, 64))?)
    ///     .sinks(&sinks.view(2)?)
    ///     .run()?;
    /// let first: Vec<f32> = o.download()?.iter().step_by(64).map(|x| x.to_f32()).collect();
    /// assert_eq!(first, [3.0, 6.0]); // 6 / (exp(0) + exp(0)), and 6
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn sinks(self, sinks: &View<'a, f32>) -> Self {
        let sinks = Some(sinks.clone());
        Attention { sinks, ..self }
    }

    /// Takes the queries of sequences of any lengths from the rows of one tensor: Q and O are (row, head, feature),
    /// and the log-sum-exp is (row, head). Sequence `i` has the rows from `offsets[i]` to `offsets[i + 1]` (excluded). `offsets` is
    /// contiguous and has one more element than there are sequences.
    ///
    /// The host does not read the offsets: `most` is the largest number of queries of a sequence, for which the grid is made. Of a
    /// longer sequence the first `most` queries are computed, as if it had no others. An offset beyond the last row is one at its
    /// end, and a sequence that ends before it begins is empty: regardless of the offsets, nothing outside of the tensors is read
    /// or written. Rows of no sequence are not written. Sequences that overlap write a row twice, in any order.
    ///
    /// The offsets are of `u32` or of `i32`, as engines in other languages keep them. One below 0 counts as one beyond the last row.
    ///
    /// ```
    /// use colex_gpu::attention::{Attention, Mask};
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// // Two sequences, of one and of two tokens, of one head of 64 features. All scores are equal.
    /// let q = device.upload(&[f16::ONE; 3 * 64])?;
    /// let values: Vec<f16> = (0..3 * 64).map(|i| f16::from_f32((i / 64) as f32)).collect();
    /// let v = device.upload(&values)?;
    /// let offsets = device.upload(&[0u32, 1, 3])?;
    /// let offsets = offsets.view(3)?;
    /// let mut o = device.poisoned::<f16>(3 * 64)?;
    /// let (rows, values) = (q.view((3, 1, 64))?, v.view((3, 1, 64))?);
    /// Attention::new(&rows, &rows, &values, &o.view_mut((3, 1, 64))?)
    ///     .query_offsets(&offsets, 2)
    ///     .key_offsets(&offsets, 2)
    ///     .mask(Mask::Causal)
    ///     .run()?;
    /// let first: Vec<f32> = o.download()?.iter().step_by(64).map(|x| x.to_f32()).collect();
    /// assert_eq!(first, [0.0, 1.0, 1.5]); // row 0; row 1; the mean of rows 1 and 2
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn query_offsets<N: SequenceNumber>(mut self, offsets: &View<'a, N>, most: i64) -> Self {
        self.offsets[0] = Some((N::given(offsets), most));
        self
    }

    /// Takes the keys and values of sequences of any lengths from the rows of one tensor: K and V are (row, head of
    /// keys, feature). The offsets are as those of [`query_offsets`](Attention::query_offsets), and `most` is the largest number of keys
    /// of a sequence: of a longer one the first `most` keys are seen.
    ///
    /// ```
    /// use colex_gpu::attention::Attention;
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// // One query of each of two sequences, which have one key and two.
    /// let x = device.upload(&[f16::ONE; 3 * 64])?;
    /// let values: Vec<f16> = (0..3 * 64).map(|i| f16::from_f32((i / 64) as f32)).collect();
    /// let v = device.upload(&values)?;
    /// let offsets = device.upload(&[0i32, 1, 3])?;
    /// let mut o = device.poisoned::<f16>(2 * 64)?;
    /// let (queries, keys) = (x.view((2, 1, 1, 64))?, x.view((3, 1, 64))?);
    /// Attention::new(&queries, &keys, &v.view((3, 1, 64))?, &o.view_mut((2, 1, 1, 64))?)
    ///     .key_offsets(&offsets.view(3)?, 2)
    ///     .run()?;
    /// let first: Vec<f32> = o.download()?.iter().step_by(64).map(|x| x.to_f32()).collect();
    /// assert_eq!(first, [0.0, 1.5]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn key_offsets<N: SequenceNumber>(mut self, offsets: &View<'a, N>, most: i64) -> Self {
        self.offsets[1] = Some((N::given(offsets), most));
        self
    }

    /// Takes the keys and values of the sequences from the pages of a pool: K and V are (page, head of keys, row of the page,
    /// feature), in any strides. `table` is (sequence, entry): entry `i` of a sequence is the page of its keys from `i * rows` on,
    /// where `rows` is the number of rows of a page, a multiple of 16. `lengths` is contiguous and has the number of keys of each
    /// sequence, and `most` is the largest of them. The table must have room for `most` keys: entries times `rows` is at least `most`.
    /// With a pool without pages, `most` is 0.
    ///
    /// A length on the device above `most` counts as `most`: the sequence has its first `most` keys, without an error, and a mask
    /// aligns the last query with the last of these.
    ///
    /// The host reads neither the table nor the lengths. Regardless of both, nothing outside of the pool is read: a page number
    /// that the pool does not have, negative ones among them, stands for a page of zeros. Entries beyond the last key of a
    /// sequence may be anything, and so may the rows of its last page beyond that key. Several sequences may have a page.
    ///
    /// The table and the lengths are each of `i32` or of `u32`. A length below 0 counts as one above `most`: the sequence has `most` keys.
    ///
    /// ```
    /// use colex_gpu::attention::Attention;
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// // A pool of three pages of 16 rows. The values of a page are its number.
    /// let k = device.upload(&[f16::ONE; 3 * 16 * 64])?;
    /// let values: Vec<f16> = (0..3 * 16 * 64).map(|i| f16::from_f32((i / (16 * 64)) as f32)).collect();
    /// let v = device.upload(&values)?;
    /// // Sequence 0 has 32 keys in pages 2 and 1, and sequence 1 one key in page 0.
    /// let (table, lengths) = (device.upload(&[2, 1, 0, -1])?, device.upload(&[32, 1])?);
    /// let q = device.upload(&[f16::ONE; 2 * 64])?;
    /// let mut o = device.poisoned::<f16>(2 * 64)?;
    /// let (queries, pool) = (q.view((2, 1, 1, 64))?, (3, 1, 16, 64));
    /// Attention::new(&queries, &k.view(pool)?, &v.view(pool)?, &o.view_mut((2, 1, 1, 64))?)
    ///     .pages(&table.view((2, 2))?, &lengths.view(2)?, 32)
    ///     .run()?;
    /// let first: Vec<f32> = o.download()?.iter().step_by(64).map(|x| x.to_f32()).collect();
    /// assert_eq!(first, [1.5, 0.0]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn pages<P: SequenceNumber, L: SequenceNumber>(
        mut self,
        table: &View<'a, P>,
        lengths: &View<'a, L>,
        most: i64,
    ) -> Self {
        let (table, lengths) = (P::given(table), L::given(lengths));
        self.pages = Some(Pages {
            table,
            lengths,
            most,
        });
        self
    }

    /// Sets the generation of the kernel. The default is the fastest that takes the problem.
    pub fn method(self, method: AttentionMethod) -> Self {
        let method = Some(method);
        Attention { method, ..self }
    }

    /// Takes the plan that was measured as the fastest for this problem on this device, and measures it if it is new. A call with a
    /// method takes the plan of this one.
    ///
    /// The lengths of packed sequences and of keys in pages are on the device: such a problem is known by the number of its sequences,
    /// the largest lengths and the rows, and measured with lengths of the library's own.
    ///
    /// [`Autotune`] says what is measured and kept. The scale and the number of the soft-cap do not count: problems that differ in
    /// nothing else have one plan.
    ///
    /// ```
    /// use colex_gpu::attention::{Attention, Autotune};
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let file = std::env::temp_dir().join(format!("colex-attention-{}", std::process::id()));
    /// let measured = Autotune::open(&file)?;
    /// let device = Device::open();
    /// let x = device.upload(&[f16::ONE; 3 * 64])?;
    /// let mut o = device.poisoned::<f16>(3 * 64)?;
    /// let rows = x.view((1, 1, 3, 64))?;
    /// Attention::new(&rows, &rows, &rows, &o.view_mut((1, 1, 3, 64))?).autotune(&measured).run()?;
    /// assert_eq!(o.download()?, [f16::ONE; 3 * 64]);
    /// # std::fs::remove_file(file).unwrap();
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn autotune(self, measured: &'a Autotune) -> Self {
        let measured = Some(measured);
        Attention { measured, ..self }
    }

    /// Returns the problem of the views.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`] that concern the views.
    pub fn problem(&self) -> Result<AttentionProblem, Error> {
        let problem = self.described()?;
        self.check(&problem)?;
        Ok(problem)
    }

    /// Checks the problem of the views, and says the layout of an output as its view has it.
    fn check(&self, problem: &AttentionProblem) -> Result<(), Error> {
        problem.check_given(|output| {
            let layout = match output {
                OutputTensor::O => self.tensors[AttentionTensor::O as usize].layout(),
                OutputTensor::LogSumExp => self.log_sum_exp.as_ref()?.layout(),
            };
            layout.map(Layout::to_string)
        })
    }

    /// The modes that tensor `i` must have.
    fn must(&self, i: usize) -> &'static str {
        match (&self.offsets[side(i)], &self.pages) {
            (Some(_), _) => "(row, head, feature)",
            (None, Some(_)) if side(i) == 1 => "(page, head, row of the page, feature)",
            (None, _) => "(batch, head, sequence, feature)",
        }
    }

    /// The problem of the views, of which nothing is checked but that their extents agree.
    fn described(&self) -> Result<AttentionProblem, Error> {
        if self.offsets[1].is_some() && self.pages.is_some() {
            return Err(ErrorKind::from(AttentionError::OffsetsAndPages).into());
        }
        let mut of = [[0; 4]; 4];
        for (i, ((view, name), of)) in self.tensors.iter().zip(NAMES).zip(&mut of).enumerate() {
            let must = self.must(i);
            *of = match &self.offsets[side(i)] {
                None => extents(name, view.shape(), must)?,
                Some(_) => {
                    let [row, head, feature] = extents(name, view.shape(), must)?;
                    [1, head, row, feature]
                }
            };
        }
        let mut sequences = [Sequences::Batch; 2];
        let mut batches = [of[0][0], of[1][0]];
        let mut lengths = [of[0][2], of[1][2]];
        for (i, offsets) in self.offsets.iter().enumerate() {
            let Some((offsets, most)) = offsets else {
                continue;
            };
            batches[i] = contiguous(OFFSETS[i], offsets, "(sequences + 1), contiguous")? - 1;
            let rows = lengths[i];
            sequences[i] = Sequences::Packed { rows };
            lengths[i] = (*most).min(rows);
        }
        let mut holders = [0, 1].map(|i| match self.offsets[i] {
            Some(_) => OFFSETS[i],
            None => NAMES[i],
        });
        if let Some(pages) = &self.pages {
            let [pages_of_pool, _, rows, _] = of[1];
            let must = "(sequence, entry)";
            let [count, entries] = extents(TABLE, pages.table.shape(), must)?;
            let layout = pages.table.layout();
            (holders[1], batches[1]) = (TABLE, count);
            sequences[1] = Sequences::Paged {
                pages: pages_of_pool,
                rows,
                entries,
                strides: layout.map_or(Ok([0; 2]), |of| strides(TABLE, of, 1, must))?,
            };
            lengths[1] = pages.most;
            if count > 0 {
                let found = contiguous(LENGTHS, &pages.lengths, "(sequences), contiguous")?;
                same("the batch", [TABLE, LENGTHS], [count, found])?;
            }
        }
        let [q, k, v, o] = of;
        let pairs = [
            (self.pages_of_keys(), 1, 2, 0),
            ("the batch", 0, 3, 0),
            ("the number of heads", 1, 2, 1),
            ("the number of heads", 0, 3, 1),
            (self.rows_of_keys(), 1, 2, 2),
            (self.rows_of_queries(), 0, 3, 2),
            ("the number of features", 0, 1, 3),
            ("the number of features", 2, 3, 3),
        ];
        same("the batch", holders, batches)?;
        for (extent, first, second, mode) in pairs {
            same(
                extent,
                [NAMES[first], NAMES[second]],
                [of[first][mode], of[second][mode]],
            )?;
        }
        let mut problem = AttentionProblem {
            mask: self.mask,
            softcap: self.softcap,
            sequences,
            ..AttentionProblem::new(T::TY, batches[0], [q[1], k[1]], lengths, [q[3], v[3]])
        };
        debug_assert_eq!(o, problem.extents(AttentionTensor::O));
        if let Some(scale) = self.scale {
            problem.scale = scale;
        }
        for (i, view) in self.tensors.iter().enumerate() {
            let (name, must) = (NAMES[i], self.must(i));
            match (view.layout(), &self.offsets[side(i)]) {
                (None, _) => {}
                (Some(layout), None) => {
                    problem.strides[i] = strides(name, layout, of[i][3], must)?;
                }
                (Some(layout), Some(_)) => {
                    let [row, head, feature] = strides(name, layout, of[i][3], must)?;
                    problem.strides[i] = [0, head, row, feature];
                }
            }
        }
        if let Some(view) = &self.log_sum_exp {
            let (shape, layout) = (view.shape(), view.layout());
            let (found, strides) = if self.offsets[0].is_some() {
                let must = "(row, head)";
                let [row, head] = extents(LOG_SUM_EXP, shape, must)?;
                let of = layout.map_or(Ok([0; 2]), |of| strides(LOG_SUM_EXP, of, 1, must));
                let [of_row, of_head] = of?;
                ([1, head, row], [0, of_head, of_row])
            } else {
                let must = "(batch, head, query)";
                let found = extents(LOG_SUM_EXP, shape, must)?;
                let of = layout.map_or(Ok([0; 3]), |of| strides(LOG_SUM_EXP, of, 1, must));
                (found, of?)
            };
            let modes = ["the batch", "the number of heads", self.rows_of_queries()];
            for (i, extent) in modes.into_iter().enumerate() {
                same(extent, ["Q", LOG_SUM_EXP], [q[i], found[i]])?;
            }
            problem.log_sum_exp = true;
            problem.sum_strides = strides;
        }
        if let Some(view) = &self.sinks {
            let must = "(head)";
            let [heads] = extents(SINKS, view.shape(), must)?;
            same("the number of heads", ["Q", SINKS], [q[1], heads])?;
            let [stride] = (view.layout()).map_or(Ok([0]), |of| strides(SINKS, of, 1, must))?;
            problem.sinks = Some(stride);
        }
        Ok(problem)
    }

    /// Returns the plan of the call.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`] that concern the views.
    pub fn plan(&self) -> Result<AttentionPlan, Error> {
        let problem = self.problem()?;
        let operands = AttentionOperands::of(&problem, self.addresses());
        planned(self.wish(), &problem, operands, self.device())
    }

    /// Returns why a call takes its plan, without preparing it: the cost of the plan by the terms of the model, and those of the
    /// plans that the model says are the fastest among the others, for the lengths, strides and addresses of these views. Times are
    /// in microseconds, of an H200 with as many multiprocessors as the device. A method without a plan for the call has a line that says why.
    ///
    /// The lengths of packed sequences and of keys in pages are on the device: the model counts each as the longest. A plan below
    /// the first may have a smaller time, since Ampere's kernel is taken in place of Hopper's only where the model says at most 0.9 of
    /// the time. [`AttentionCall::explain`] says the same of a prepared call, whose plan [`autotune`](Attention::autotune) may have
    /// measured.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::attention::Attention;
    /// use half::f16;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.zeros::<f16>(4096 * 64)?;
    /// let mut o = device.poisoned::<f16>(8 * 64)?;
    /// // One query of each of 8 heads, and 2048 keys of 2 heads.
    /// let (queries, keys) = (x.view((1, 8, 1, 64))?, x.view((1, 2, 2048, 64))?);
    /// let said = Attention::new(&queries, &keys, &keys, &o.view_mut((1, 8, 1, 64))?).explain()?;
    /// let lines: Vec<_> = said.lines().collect();
    /// assert!(lines[0].starts_with("Ampere f16, features 64, tile 16x64, 1 consumers, 2 stages, packs of 4 heads, 32 parts of the keys"));
    /// assert!(lines[0].contains(" us: launch "));
    /// assert!(lines[1].starts_with("  Ampere f16, ")); // a plan that is slower by the model
    /// assert_eq!(lines.last(), Some(&"  no plan of Hopper: the Hopper kernel runs on sm_90a, and not on sm_80"));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`] that concern the views, and those of the plan.
    pub fn explain(&self) -> Result<String, Error> {
        let problem = self.problem()?;
        if problem.is_nothing() {
            return Ok(NOTHING.to_string());
        }
        let (device, operands) = (
            self.device(),
            AttentionOperands::of(&problem, self.addresses()),
        );
        let plan = planned(self.wish(), &problem, operands, device)?;
        plan.check(device.arch())?;
        plan.check_problem(&problem)?;
        Ok(explained(&plan, &problem, operands, device))
    }

    /// Builds and loads every kernel that a call with a number of sequences, queries and keys of this range takes by default, also inside
    /// a stream capture, so that a request with new lengths assembles none. Returns the number of kernels.
    ///
    /// The other calls differ from this one in these numbers alone: they have the same types, features, heads, kind of mask and
    /// rows of a page, and packed sequences, a soft-cap, a log-sum-exp and sinks if this one has them. Their addresses and strides
    /// are multiples of as many bytes. A call with a [`method`](Attention::method) loads the kernels of this method. A plan that
    /// [`autotune`](Attention::autotune) finds may have another kernel, which the first call with it loads.
    ///
    /// A server that computes prompts and then one token after the other has a call for each, with a range of its own. The calls
    /// of [`Device::load_kernel`] assemble one after the other, some tenths of a second each, and the cache on the disk keeps
    /// what they assembled. A device keeps the last 256 kernels of attention.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::attention::{Attention, AttentionRange};
    /// use half::f16;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.zeros::<f16>(8 * 64)?;
    /// let mut o = device.poisoned::<f16>(8 * 64)?;
    /// let (queries, keys) = (x.view((1, 8, 1, 64))?, x.view((1, 2, 1, 64))?);
    /// let output = o.view_mut((1, 8, 1, 64))?;
    /// let step = Attention::new(&queries, &keys, &keys, &output);
    /// // Steps of decoding, of up to 256 sequences: a kernel for all keys, one for parts of them, and two that add parts.
    /// let range = AttentionRange { sequences: 1..=256, queries: 1..=1, keys: 1..=131_072 };
    /// assert_eq!(step.load_plans(&range)?, 4);
    ///
    /// let empty = AttentionRange { keys: 5..=3, ..range };
    /// let refused = step.load_plans(&empty).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "the range of the number of keys is 5..=3: its numbers must ascend, from 0 to 268435456"
    /// );
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`] that concern the views, an error if a range is empty or has a number that no call has, an
    /// error if no kernel takes such calls, and the device's error if it does not take a kernel.
    pub fn load_plans(&self, range: &AttentionRange) -> Result<usize, Error> {
        let problem = self.problem()?;
        let device = self.device();
        self.check_memory()?;
        let operands = AttentionOperands::of(&problem, self.addresses());
        let kernels = ahead::kernels(
            (&problem, operands),
            self.method,
            (device.arch(), device.limits().multiprocessors),
            range,
        )?;
        let prepared = device.extension::<PreparedAttention>();
        let mut different = Vec::new();
        for (plan, role) in kernels {
            let kernel = prepared.loaded(&plan, role, device)?;
            if !(different.iter()).any(|known| Arc::ptr_eq(known, &kernel.loaded)) {
                different.push(kernel.loaded.clone());
            }
        }
        Ok(different.len())
    }

    /// Enqueues the call on the stream of the device that holds Q. Memory for the parts of the keys, and for the order of packed
    /// sequences ([`AttentionPlan::workspace`]), is the stream's, allocated by its first call that needs as much. Inside a stream
    /// capture, or if the device has no such memory left, the keys are not divided, and the sequences keep their order.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`].
    pub fn run(&self) -> Result<(), Error> {
        let device = self.device();
        let call = self.call(&Workspace::Kept(device), None)?;
        call.run(device)?;
        if let Some(memory) = call.parts.and_then(|parts| parts.memory) {
            scratch::give_back(device, memory);
        }
        Ok(())
    }

    /// Prepares the call, to be launched any number of times, also inside a stream capture: builds and loads its kernels, and
    /// allocates the memory of the parts of the keys ([`AttentionPlan::workspace`]), which the call owns. It must then live as
    /// long as the graph.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`].
    pub fn prepare(&self) -> Result<AttentionCall<'a>, Error> {
        let memory = Workspace::Own(self.device());
        self.call(&memory, None)
    }

    /// Returns the bytes of memory with which [`prepare_in`](Attention::prepare_in) takes the plan that
    /// [`prepare`](Attention::prepare) takes: those of the parts of the keys and of the order of packed sequences, 0
    /// where the plan has neither. A plan that [`autotune`](Attention::autotune) finds may need more.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::attention::Attention;
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let keys = device.upload(&vec![f16::ONE; 1024 * 64])?;
    /// let mut o = device.poisoned::<f16>(64)?;
    /// let (query, keys) = (keys.view((1, 1, 1, 64))?, keys.view((1, 1, 1024, 64))?);
    /// let output = o.view_mut((1, 1, 1, 64))?;
    /// let call = Attention::new(&query, &keys, &keys, &output);
    /// let mut memory = device.uninitialised::<u8>(call.workspace()?)?;
    /// let prepared = call.prepare_in(&mut memory)?;
    /// assert!(prepared.plan().splits > 1);
    /// prepared.run(&device)?;
    /// assert_eq!(o.download()?, [f16::ONE; 64]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`] that concern the views.
    pub fn workspace(&self) -> Result<usize, Error> {
        let problem = self.problem()?;
        if problem.is_nothing() {
            return Ok(0);
        }
        Ok(self.plan()?.workspace(&problem) as usize)
    }

    /// Prepares the call as [`prepare`](Attention::prepare) does, with the memory of the caller for the parts of the keys:
    /// [`workspace`](Attention::workspace) bytes at a multiple of 256. With fewer bytes the keys are not divided. Calls that one
    /// thread gives to one stream may share the memory, since they run in that order. Launches that another thread gives to the
    /// stream may come between those of one call. A graph that captured the call uses it whenever it runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`], and an error if the workspace is on another device, may not be written, or overlaps a
    /// tensor.
    pub fn prepare_in(
        &self,
        workspace: &'a mut impl DeviceSlice<u8>,
    ) -> Result<AttentionCall<'a>, Error> {
        let count = workspace.count() as i64;
        let given = ViewMut::row_major(workspace, count)?;
        self.device().check_same(WORKSPACE, given.device())?;
        let tensors = self.tensors.iter().zip(NAMES);
        let tensors = tensors.map(|(view, name)| (name, view.bytes()));
        let sums = self.log_sum_exp.iter();
        let sums = sums.map(|view| (LOG_SUM_EXP, view.bytes()));
        let numbers = self.numbers().map(|(name, _, bytes)| (name, bytes));
        for (name, bytes) in tensors.chain(sums).chain(numbers) {
            disjoint(WORKSPACE, given.bytes(), name, bytes)?;
        }
        let memory = Workspace::given(given.bytes(), 0, ["attention", "Attention"])?;
        self.call(&memory, None)
    }

    /// Prepares the call with the plan that `plan` makes from what is known of the tensors.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::attention::{Attention, AttentionMethod, AttentionPlan};
    /// use colex_gpu::Device;
    /// use half::f16;
    ///
    /// let device = Device::simulator(Arch::Sm80);
    /// let x = device.upload(&[f16::ONE; 3 * 64])?;
    /// let mut o = device.poisoned::<f16>(3 * 64)?;
    /// let rows = x.view((1, 1, 3, 64))?;
    /// let call = Attention::new(&rows, &rows, &rows, &o.view_mut((1, 1, 3, 64))?).prepare_with(|operands, _| {
    ///     let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
    ///     Ok(AttentionPlan { tile: [64, 32], stages: 3, ..plan })
    /// })?;
    /// assert_eq!(call.to_string(), "Ampere f16, features 64, tile 64x32, 4 consumers, 3 stages");
    /// call.run(&device)?;
    /// assert_eq!(o.download()?, [f16::ONE; 3 * 64]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`attention`], of the function and of [`AttentionPlan::build`], and an error if the plan was made
    /// for other tensors.
    pub fn prepare_with(
        &self,
        plan: impl FnOnce(AttentionOperands, Arch) -> Result<AttentionPlan, Error>,
    ) -> Result<AttentionCall<'a>, Error> {
        let memory = Workspace::Own(self.device());
        self.call(&memory, Some(Box::new(plan)))
    }

    /// What the rows of Q and of K count.
    fn rows_of_queries(&self) -> &'static str {
        match self.offsets[0] {
            Some(_) => "the number of rows",
            None => "the number of queries",
        }
    }

    fn rows_of_keys(&self) -> &'static str {
        match (&self.offsets[1], &self.pages) {
            (None, None) => "the number of keys",
            (Some(_), _) => "the number of rows",
            (None, Some(_)) => "the number of rows of a page",
        }
    }

    /// What the first mode of K counts.
    fn pages_of_keys(&self) -> &'static str {
        match self.pages {
            Some(_) => "the number of pages",
            None => "the batch",
        }
    }

    /// What a call reads besides Q, K and V, in the order of the kernel's parameters: its names, devices and bytes.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, &Device, (u64, u64))> {
        let sinks = self.sinks.iter();
        let sinks = sinks.map(|view| (SINKS, view.device(), view.bytes()));
        let offsets = OFFSETS.into_iter().zip(&self.offsets);
        let offsets = offsets.filter_map(|(name, of)| {
            let (view, _) = of.as_ref()?;
            Some((name, view.device(), view.bytes()))
        });
        let pages = self.pages.iter().flat_map(|Pages { table, lengths, .. }| {
            [
                (TABLE, table.device(), table.bytes()),
                (LENGTHS, lengths.device(), lengths.bytes()),
            ]
        });
        sinks.chain(offsets).chain(pages)
    }

    fn wish(&self) -> AttentionWish {
        self.method
            .map_or(AttentionWish::Fastest, AttentionWish::Method)
    }

    fn device(&self) -> &Device {
        self.tensors[0].device()
    }

    fn addresses(&self) -> [u64; 4] {
        self.tensors.each_ref().map(|view| view.bytes().0)
    }

    /// Checks that the memory of the call is on one device, and that no output overlaps what the call reads.
    fn check_memory(&self) -> Result<(), Error> {
        let device = self.device();
        for (view, name) in self.tensors.iter().zip(NAMES) {
            device.check_same(name, view.device())?;
        }
        let [q, k, v, o] = self.tensors.each_ref().map(View::bytes);
        let read = [("Q", q), ("K", k), ("V", v)];
        for (name, bytes) in read {
            disjoint("O", o, name, bytes)?;
        }
        if let Some(view) = &self.log_sum_exp {
            device.check_same(LOG_SUM_EXP, view.device())?;
            for (name, bytes) in read.into_iter().chain([("O", o)]) {
                disjoint(LOG_SUM_EXP, view.bytes(), name, bytes)?;
            }
        }
        for (name, of, bytes) in self.numbers() {
            device.check_same(name, of)?;
            disjoint("O", o, name, bytes)?;
            if let Some(sums) = &self.log_sum_exp {
                disjoint(LOG_SUM_EXP, sums.bytes(), name, bytes)?;
            }
        }
        Ok(())
    }

    /// The call with the plan that `plan` makes, or with that of its own wish.
    fn call(
        &self,
        memory: &Workspace<'_>,
        plan: Option<PlanOf<'_>>,
    ) -> Result<AttentionCall<'a>, Error> {
        let device = self.device();
        let mut addresses = AllAddresses::from_slice(&self.addresses());
        addresses.extend(self.log_sum_exp.as_ref().map(|view| view.bytes().0));
        addresses.extend(self.numbers().map(|(_, _, bytes)| bytes.0));
        let problem = self.described()?;
        let mut place = PlacedProblem { problem, addresses };
        let kept = device.extension::<PreparedAttention>();
        let is_usual = plan.is_none() && self.method.is_none() && self.measured.is_none();
        let known = is_usual.then(|| kept.known.get(&place)).flatten();
        // A known call is one whose problem was checked, and whose plan was checked for the problem at these addresses. The memory
        // behind the addresses may be another device's.
        if known.is_none() {
            self.check(&problem)?;
        }
        self.check_memory()?;
        let known = match known {
            Some(known) => known,
            None if is_usual => kept
                .known
                .get_or_make(&place, || self.checked(&place, plan))?,
            None => Arc::new(self.checked(&place, plan)?),
        };
        let (mut plan, mut work) = (known.plan, known.whole.clone());
        let mut parts = None;
        if work.is_some() && plan != whole(plan) {
            parts = memory.take_rest(plan.workspace(&problem) as usize)?;
            match &parts {
                Some(parts) => {
                    place.addresses.push(parts.address);
                    work = Some(prepared(plan, problem, device, &place.addresses)?);
                }
                None => plan = whole(plan),
            }
        }
        Ok(AttentionCall {
            device: device.clone(),
            plan,
            explained: (problem, self.addresses()),
            work,
            parts,
            function: OnceLock::new(),
            tensors: PhantomData,
        })
    }

    /// The plan of a problem that was checked, checked for it, and the launches that need no workspace.
    fn checked(&self, of: &PlacedProblem, plan: Option<PlanOf<'_>>) -> Result<KnownCall, Error> {
        let (device, problem) = (self.device(), &of.problem);
        let operands = AttentionOperands::of(problem, self.addresses());
        let mut wish = match plan {
            Some(plan) => AttentionWish::Plan(plan(operands, device.arch())?),
            None => self.wish(),
        };
        if let (Some(measured), AttentionWish::Fastest) = (self.measured, wish) {
            let tuned = tuned::<T>(measured, problem, operands, device, self.addresses())?;
            wish = tuned.map_or(wish, AttentionWish::Plan);
        }
        let plan = planned(wish, problem, operands, device)?;
        plan.check(device.arch())?;
        plan.check_call(&operands)?;
        plan.check_problem(problem)?;
        // A capture of the same call takes the plan without a workspace, which must be loaded by then.
        let whole = if problem.is_nothing() {
            None
        } else {
            Some(prepared(whole(plan), *problem, device, &of.addresses)?)
        };
        Ok(KnownCall { plan, whole })
    }
}

/// What makes a plan from what is known of the tensors.
type PlanOf<'p> = Box<dyn FnOnce(AttentionOperands, Arch) -> Result<AttentionPlan, Error> + 'p>;

/// The plan without what needs a workspace.
pub(super) fn whole(plan: AttentionPlan) -> AttentionPlan {
    AttentionPlan {
        splits: 1,
        by_lanes: false,
        next_early: false,
        sorted: false,
        ..plan
    }
}

const NAMES: [&str; 4] = ["Q", "K", "V", "O"];
const SINKS: &str = "the vector of sinks";
const WORKSPACE: &str = "the workspace";
const TABLE: &str = "the table of pages";
const LENGTHS: &str = "the vector of numbers of keys";
const OFFSETS: [&str; 2] = ["the vector of query offsets", "the vector of key offsets"];

mod sealed {
    use super::{SequenceNumbers, View};
    use colex_device::Element;

    pub trait SealedSequenceNumber: Element {
        /// Returns the view as one of any type of numbers.
        fn given<'a>(view: &View<'a, Self>) -> SequenceNumbers<'a>;
    }

    impl SealedSequenceNumber for u32 {
        fn given<'a>(view: &View<'a, u32>) -> SequenceNumbers<'a> {
            SequenceNumbers::Unsigned(view.clone())
        }
    }

    impl SealedSequenceNumber for i32 {
        fn given<'a>(view: &View<'a, i32>) -> SequenceNumbers<'a> {
            SequenceNumbers::Signed(view.clone())
        }
    }
}

/// A number of a sequence: an offset of its rows, its number of keys, or one of its pages. The kernels read the bits of a `u32`. So an
/// `i32` below 0 counts as a number above all that a call can have.
pub trait SequenceNumber: sealed::SealedSequenceNumber {}

impl SequenceNumber for u32 {}
impl SequenceNumber for i32 {}

/// Numbers of sequences, in either type.
#[derive(Clone, Debug)]
pub enum SequenceNumbers<'a> {
    Unsigned(View<'a, u32>),
    Signed(View<'a, i32>),
}

impl SequenceNumbers<'_> {
    fn shape(&self) -> &IntTuple {
        match self {
            SequenceNumbers::Unsigned(view) => view.shape(),
            SequenceNumbers::Signed(view) => view.shape(),
        }
    }

    fn layout(&self) -> Option<&Layout> {
        match self {
            SequenceNumbers::Unsigned(view) => view.layout(),
            SequenceNumbers::Signed(view) => view.layout(),
        }
    }

    fn device(&self) -> &Device {
        match self {
            SequenceNumbers::Unsigned(view) => view.device(),
            SequenceNumbers::Signed(view) => view.device(),
        }
    }

    fn bytes(&self) -> (u64, u64) {
        match self {
            SequenceNumbers::Unsigned(view) => view.bytes(),
            SequenceNumbers::Signed(view) => view.bytes(),
        }
    }
}

/// Where the keys of the sequences lie in a pool.
#[derive(Clone, Debug)]
struct Pages<'a> {
    table: SequenceNumbers<'a>,
    lengths: SequenceNumbers<'a>,
    /// The largest number of keys.
    most: i64,
}

/// Whether tensor `i` is of queries (0) or of keys (1).
fn side(i: usize) -> usize {
    usize::from(matches!(NAMES[i], "K" | "V"))
}

/// Returns the number of elements of a view of one mode that is contiguous.
///
/// # Errors
///
/// Returns an error if it has other modes or another stride, or no element.
fn contiguous(
    what: &'static str,
    view: &SequenceNumbers<'_>,
    must: &'static str,
) -> Result<i64, Error> {
    let refused = || {
        let shape = match view.layout() {
            Some(layout) => layout.to_string(),
            None => view.shape().to_string(),
        };
        Error::from(ErrorKind::from(AttentionError::Shape { what, shape, must }))
    };
    let layout = view.layout().ok_or_else(refused)?;
    let [count] = extents(what, view.shape(), must)?;
    match strides(what, layout, 1, must) {
        Ok([1]) => Ok(count),
        _ => Err(refused()),
    }
}

/// How the plan of a call is found.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call")]
enum AttentionWish {
    Plan(AttentionPlan),
    Method(AttentionMethod),
    Fastest,
}

fn planned(
    wish: AttentionWish,
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
) -> Result<AttentionPlan, Error> {
    let multiprocessors = device.limits().multiprocessors;
    match wish {
        AttentionWish::Plan(plan) => Ok(plan),
        AttentionWish::Method(method) => {
            let plan = AttentionPlan::new(method, operands).suited_to(problem, multiprocessors);
            Ok(plan.beginning(problem, (device.arch(), multiprocessors)))
        }
        AttentionWish::Fastest => {
            let (arch, key) = (device.arch(), PlanKey::new(problem, operands, device));
            let fastest = || AttentionPlan::fastest(problem, operands, arch, multiprocessors);
            Ok(*CHOSEN.get_or_make(&key, fastest)?)
        }
    }
}

/// What the choice of a plan depends on. Two floats are the same if their bits are, so that a NaN is found again.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlanKey {
    /// The problem without its floats.
    problem: AttentionProblem,
    /// The bits of the scale, and of the soft-cap.
    floats: (u32, Option<u32>),
    operands: AttentionOperands,
    arch: Arch,
    multiprocessors: u32,
}

impl PlanKey {
    fn new(problem: &AttentionProblem, operands: AttentionOperands, device: &Device) -> PlanKey {
        PlanKey {
            problem: AttentionProblem {
                scale: 0.0,
                softcap: None,
                ..*problem
            },
            floats: (problem.scale.to_bits(), problem.softcap.map(f32::to_bits)),
            operands,
            arch: device.arch(),
            multiprocessors: device.limits().multiprocessors,
        }
    }
}

impl Eq for PlanKey {}

impl Hash for PlanKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let problem = &self.problem;
        let extents = (problem.batch, problem.heads, problem.lengths);
        (extents, problem.strides, self.floats, self.operands).hash(state);
    }
}

/// The plans that the model has chosen. A choice takes microseconds, and a launch 3.
static CHOSEN: LazyLock<Memo<PlanKey, AttentionPlan>> = LazyLock::new(|| Memo::new(512));

/// Returns the extents of a view of `N` modes.
fn extents<const N: usize>(
    what: &'static str,
    shape: &IntTuple,
    must: &'static str,
) -> Result<[i64; N], Error> {
    if let Ok(extents) = <&[Int; N]>::try_from(shape.leaves())
        && shape.depth() <= 1
    {
        // Each mode is a number: no mode is copied.
        return Ok(extents.map(|extent| extent.value()));
    }
    let extents = modes::extents(shape);
    extents.try_into().map_err(|_| {
        let shape = shape.to_string();
        ErrorKind::from(AttentionError::Shape { what, shape, must }).into()
    })
}

fn same(extent: &'static str, tensors: [&'static str; 2], found: [i64; 2]) -> Result<(), Error> {
    if found[0] == found[1] {
        return Ok(());
    }
    Err(ErrorKind::from(AttentionError::Extents {
        extent,
        tensors,
        found,
    })
    .into())
}

/// Returns the stride of each mode of a layout whose modes coalesce into one leaf each. That of an extent of 1 contributes
/// nothing to an offset: it is `alone`.
///
/// # Errors
///
/// Returns an error if the modes have no such strides.
fn strides<const N: usize>(
    what: &'static str,
    layout: &Layout,
    alone: i64,
    must: &'static str,
) -> Result<[i64; N], Error> {
    let refused = |mode: usize| AttentionError::NoStride {
        what,
        mode,
        layout: layout.to_string(),
        must,
    };
    let mut all = [alone; N];
    let set = |mode: usize, leaf: &LeafMode, stride: &mut i64| {
        if leaf.extent.value() > 1 {
            let of_leaf = leaf.stride.as_int();
            *stride = of_leaf.ok_or_else(|| refused(mode))?.value();
        }
        Ok::<(), Error>(())
    };
    if layout.leaves().len() == N && layout.depth() <= 1 {
        // Each mode is a leaf: no mode is copied.
        for (mode, (leaf, stride)) in layout.leaves().iter().zip(&mut all).enumerate() {
            set(mode, leaf, stride)?;
        }
        return Ok(all);
    }
    for (mode, (of_mode, stride)) in layout.modes().zip(&mut all).enumerate() {
        let of_mode = of_mode.coalesce(..);
        let [leaf] = of_mode.leaves() else {
            return Err(refused(mode).into());
        };
        set(mode, leaf, stride)?;
    }
    Ok(all)
}

/// A prepared attention call. It may be launched any number of times while its tensors exist. Concurrent runs on several
/// streams are a data race, since each of them writes O.
///
/// Its `Display` output is its plan.
#[derive(Clone, Debug)]
pub struct AttentionCall<'a> {
    device: Device,
    plan: AttentionPlan,
    /// The problem that the plan was chosen for, and the addresses of Q, K, V and O.
    explained: (AttentionProblem, [u64; 4]),
    /// `None` if there is nothing to do.
    work: Option<Arc<Call<Arc<TensorKernel>>>>,
    /// The memory of the parts of the keys.
    parts: Option<Piece>,
    /// Made for the first caller that asks for it: a run needs none.
    function: OnceLock<Function>,
    tensors: PhantomData<&'a ()>,
}

impl AttentionCall<'_> {
    /// Returns the plan.
    pub fn plan(&self) -> &AttentionPlan {
        &self.plan
    }

    /// Returns why the call has its plan, as [`Attention::explain`] does: the cost of the plan by the terms of the model, and
    /// those of other plans. Times are in microseconds, of an H200 with as many multiprocessors as the device.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::Device;
    /// use colex_gpu::attention::{Attention, AttentionMethod, AttentionPlan};
    /// use half::f16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let x = device.zeros::<f16>(300 * 64)?;
    /// let mut o = device.poisoned::<f16>(300 * 64)?;
    /// let rows = x.view((1, 1, 300, 64))?;
    /// let output = o.view_mut((1, 1, 300, 64))?;
    /// let call = Attention::new(&rows, &rows, &rows, &output);
    /// assert_eq!(call.prepare()?.explain(), call.explain()?);
    /// // A plan of the caller stands above those that the call would take.
    /// let own = call.prepare_with(|operands, _| Ok(AttentionPlan::new(AttentionMethod::Ampere, operands)))?;
    /// assert!(own.explain().starts_with("Ampere f16, features 64, tile 64x64, "));
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn explain(&self) -> String {
        if self.work.is_none() {
            return self.to_string();
        }
        let (problem, addresses) = &self.explained;
        let operands = AttentionOperands::of(problem, *addresses);
        explained(&self.plan, problem, operands, &self.device)
    }

    /// Returns the kernel of the products with its report; `None` if there is nothing to do.
    pub fn built(&self) -> Option<&TensorKernel> {
        self.work.as_ref().map(|work| &**work.about())
    }

    /// Returns the kernel of the products on its device; `None` if there is nothing to do.
    pub fn function(&self) -> Option<&Function> {
        let mut kernels = self.work.as_ref()?.kernels();
        // The kernel that sorts sequences comes first.
        let kernel = kernels.nth(usize::from(self.plan.sorted));
        let kernel = kernel.expect("attention is a launch");
        let function = || calls::function(&self.device, kernel);
        Some(self.function.get_or_init(function))
    }

    /// Returns the launches, for a bench: each is one call of the driver.
    ///
    /// # Errors
    ///
    /// Returns the device's error if it has no driver.
    #[doc(hidden)]
    pub fn bare_launches(&self) -> Result<Vec<BareLaunch>, Error> {
        let work = self.work.as_ref();
        work.map_or(Ok(Vec::new()), |work| work.bare(&self.device))
    }

    /// Runs the call on the simulator, and returns what each of its launches counted; no report if there is nothing to do.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::profile`].
    pub fn profile(&self, device: &Device) -> Result<Vec<Report>, Error> {
        same_device(device, &self.device)?;
        self.work
            .as_ref()
            .map_or(Ok(Vec::new()), |work| work.profile(device))
    }

    /// Enqueues the call on a stream of its device.
    ///
    /// # Errors
    ///
    /// Returns the device's error if a launch fails.
    pub fn run(&self, device: &Device) -> Result<(), Error> {
        same_device(device, &self.device)?;
        self.work.as_ref().map_or(Ok(()), |work| work.run(device))
    }
}

impl fmt::Display for AttentionCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Some(_) => self.plan.fmt(f),
            None => f.write_str(NOTHING),
        }
    }
}

/// What a call without queries says of itself.
const NOTHING: &str = "nothing to do";

/// The most plans beside the one of a call that are explained.
const EXPLAINED: usize = 5;

/// Returns what the model says of a plan, of the other plans for the problem, and why a method has none.
fn explained(
    plan: &AttentionPlan,
    problem: &AttentionProblem,
    operands: AttentionOperands,
    device: &Device,
) -> String {
    let (arch, multiprocessors) = (device.arch(), device.limits().multiprocessors);
    let line = |plan: &AttentionPlan| format!("{plan}: {}", plan.cost(problem, multiprocessors));
    let all = AttentionPlan::alternatives(problem, operands, arch, multiprocessors);
    let others = all.iter().filter(|other| *other != plan).take(EXPLAINED);
    let mut lines = vec![line(plan)];
    lines.extend(others.map(|other| format!("  {}", line(other))));
    for method in AttentionMethod::BY_SPEED {
        let usual = AttentionPlan::new(method, operands).suited_to(problem, multiprocessors);
        let checked = usual.check(arch);
        if let Err(why) = checked.and_then(|()| usual.check_problem(problem)) {
            lines.push(format!("  no plan of {method}: {why}"));
        }
    }
    lines.join("\n")
}

/// Returns the launches of a plan for a problem at these addresses, as the device keeps them: those of the tensors, the
/// log-sum-exp, the numbers and, of a plan that needs one, the workspace.
pub(super) fn prepared(
    plan: AttentionPlan,
    problem: AttentionProblem,
    device: &Device,
    addresses: &[u64],
) -> Result<Arc<Call<Arc<TensorKernel>>>, Error> {
    let prepared = device.extension::<PreparedAttention>();
    let key = Key { plan, problem };
    (prepared.calls).call(key, addresses, device, |key| {
        prepare(key, device, addresses)
    })
}

/// The caches of prepared calls of a device: of problems and plans, and of the calls that have the plan of the model.
#[derive(Debug)]
struct PreparedAttention {
    calls: PreparedCalls<Key, (AttentionPlan, AttentionRole), Arc<TensorKernel>>,
    known: Memo<PlacedProblem, KnownCall>,
}

impl Default for PreparedAttention {
    fn default() -> PreparedAttention {
        PreparedAttention {
            calls: PreparedCalls::new(),
            known: Memo::new(1024),
        }
    }
}

impl PreparedAttention {
    /// Returns a kernel of a plan on its device, which loads it once.
    fn loaded(
        &self,
        plan: &AttentionPlan,
        role: AttentionRole,
        device: &Device,
    ) -> Result<Arc<KernelOf>, Error> {
        let plan = plan.built();
        self.calls.kernels.get_or_make(&(plan, role), || {
            let built = built(&plan, role, device.arch())?;
            let loaded = device.load_kernel(&built.kernel)?;
            Ok(KernelOf { built, loaded })
        })
    }
}

impl Extension for PreparedAttention {
    fn clear(&self) {
        self.known.clear();
        self.calls.clear();
    }
}

/// The addresses of all that a call has.
type AllAddresses = SmallVec<[u64; 10]>;

/// A problem whose memory begins at these addresses.
#[derive(Clone, Debug, PartialEq)]
struct PlacedProblem {
    problem: AttentionProblem,
    addresses: AllAddresses,
}

/// The factors of a problem that is kept are numbers above 0: each is equal to itself. One with a NaN is not found.
impl Eq for PlacedProblem {}

impl Hash for PlacedProblem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let AttentionProblem {
            batch,
            heads,
            lengths,
            mask,
            ..
        } = self.problem;
        (batch, heads, lengths, mask).hash(state);
        self.addresses.hash(state);
    }
}

/// What is known of a call that was checked: its plan, and its launches without a workspace. `None` if there is nothing to do.
#[derive(Debug)]
struct KnownCall {
    plan: AttentionPlan,
    whole: Option<Arc<Call<Arc<TensorKernel>>>>,
}

/// What a kernel of a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum AttentionRole {
    /// It attends to all keys, or to a part of them.
    Attention,
    /// It adds the parts.
    Combination,
    /// It sorts packed sequences.
    Schedule,
}

/// A plan, and a problem that was checked.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    plan: AttentionPlan,
    problem: AttentionProblem,
}

/// The factors of a checked problem are numbers above 0: each is equal to itself.
impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let AttentionProblem {
            ty: _,
            batch,
            heads,
            lengths,
            sequences,
            features: _,
            strides,
            mask,
            scale,
            softcap,
            log_sum_exp: _,
            sum_strides,
            sinks,
        } = self.problem;
        self.plan.hash(state);
        (
            batch,
            heads,
            lengths,
            sequences,
            strides,
            mask,
            sum_strides,
            sinks,
        )
            .hash(state);
        (scale.to_bits(), softcap.map(f32::to_bits)).hash(state);
    }
}

/// What all calls with a problem's numbers have in common, made for these addresses.
fn prepare(
    key: &Key,
    device: &Device,
    addresses: &[u64],
) -> Result<Shape<Arc<TensorKernel>>, Error> {
    let Key { plan, problem } = key;
    let prepared = device.extension::<PreparedAttention>();
    let kernel_of = |role: AttentionRole| prepared.loaded(plan, role, device);
    let of_role = |role| Ok(kernel_of(role)?.built.clone());
    let about = of_role(AttentionRole::Attention)?;
    let mut launches = Vec::new();
    for planned in planned_launches((plan, problem), device, addresses, of_role)? {
        let loaded = kernel_of(planned.role)?.loaded.clone();
        loaded.check_launch(&planned.launch, &planned.arguments, device.limits())?;
        launches.push(PreparedLaunch::new(
            loaded,
            planned.launch,
            planned.arguments,
            addresses,
            planned.order,
        ));
    }
    Ok(Shape::new(about, launches))
}

/// Returns a kernel of a plan for an architecture. It is built once per process.
pub(super) fn built(
    plan: &AttentionPlan,
    role: AttentionRole,
    arch: Arch,
) -> Result<Arc<TensorKernel>, Error> {
    let plan = plan.built();
    BUILT.get_or_make(&(plan, role, arch), || match role {
        AttentionRole::Attention => plan.unverified(arch),
        AttentionRole::Combination => plan.unverified_combination(arch),
        AttentionRole::Schedule => plan.unverified_schedule(arch),
    })
}

/// The kernels built so far, by plan and architecture. Building a kernel needs no device, so each kernel is built once per
/// process.
static BUILT: LazyLock<Memo<(AttentionPlan, AttentionRole, Arch), TensorKernel>> =
    LazyLock::new(|| Memo::new(256));

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Ty;
    use half::f16;

    /// The sentence with which a call is refused: Q, K, V and O of these shapes.
    fn refused(
        shapes: [&[i64]; 4],
        change: impl FnOnce(Attention<'_, f16>) -> Attention<'_, f16>,
    ) -> String {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(1 << 16).expect("memory");
        let mut o = device.zeros::<f16>(1 << 16).expect("memory");
        let view = |shape: &[i64]| memory.view(shape).expect("a view");
        let [q, k, v] = [0, 1, 2].map(|i| view(shapes[i]));
        let o = o.view_mut(shapes[3]).expect("a view");
        let call = change(Attention::new(&q, &k, &v, &o)).prepare();
        call.expect_err("it is refused").to_string()
    }

    /// A kept plan is found by a problem with the same bits, and by no other.
    #[test]
    fn plans_are_kept_by_every_number_of_a_problem() {
        let device = Device::simulator(Arch::Sm90a);
        let problem = AttentionProblem::new(Ty::Bf16, 2, [4, 2], [5, 7], [64, 64]);
        let key = |problem: &AttentionProblem| {
            PlanKey::new(problem, AttentionOperands::of(problem, [0; 4]), &device)
        };
        let nan = AttentionProblem {
            scale: f32::NAN,
            ..problem
        };
        for problem in [problem, nan] {
            assert_eq!(key(&problem), key(&problem));
        }
        let others = [
            nan,
            AttentionProblem {
                scale: f32::from_bits(problem.scale.to_bits() + 1),
                ..problem
            },
            AttentionProblem {
                softcap: Some(30.0),
                ..problem
            },
            AttentionProblem {
                mask: Mask::Causal,
                ..problem
            },
            AttentionProblem {
                lengths: [5, 8],
                ..problem
            },
            AttentionProblem {
                log_sum_exp: true,
                ..problem
            },
        ];
        for other in &others {
            assert_ne!(key(other), key(&problem));
        }
    }

    /// A call that is known skips nothing that depends on its memory: its devices, its overlaps and the alignment of its addresses.
    #[test]
    fn law_a_known_call_checks_its_memory() {
        let [here, there] = [0, 1].map(|_| Device::simulator(Arch::Sm80));
        let [near, far] = [&here, &there].map(|device| {
            let ones = vec![f16::ONE; 1 << 12];
            device.upload(&ones).expect("memory")
        });
        let mut out = here.poisoned::<f16>(1 << 10).expect("memory");
        let sinks = there.zeros::<f32>(2).expect("memory");
        let shape = [1, 2, 3, 64];
        let at = |from: usize| near.slice(from..from + 384).expect("a slice");
        let (first, second) = (at(0), at(1));
        let (q, shifted) = (
            first.view(shape).expect("a view"),
            second.view(shape).expect("a view"),
        );
        let elsewhere = far.slice(0..384).expect("a slice");
        let elsewhere = elsewhere.view(shape).expect("a view");
        // The views differ in nothing but their device.
        assert_eq!(q.bytes(), elsewhere.bytes());
        let mut cases = 0;
        for round in 0..3 {
            let o = out.view_mut(shape).expect("a view");
            let call = Attention::new(&q, &q, &q, &o);
            call.run().expect("it runs");
            let kept = here.extension::<PreparedAttention>();
            let addresses = AllAddresses::from_slice(&call.addresses());
            let problem = call.problem().expect("a problem");
            let known = kept.known.get(&PlacedProblem { problem, addresses });
            assert_eq!(known.map(|known| known.plan), call.plan().ok(), "{round}");
            let refused = |call: Attention<'_, f16>| call.run().expect_err("refused").to_string();
            let foreign = refused(Attention::new(&q, &elsewhere, &q, &o));
            assert!(foreign.starts_with("K "), "{foreign}");
            let sinks = sinks.view(2).expect("a view");
            let foreign = refused(Attention::new(&q, &q, &q, &o).sinks(&sinks));
            assert!(foreign.starts_with(SINKS), "{foreign}");
            let nan = refused(Attention::new(&q, &q, &q, &o).scale(f32::NAN));
            assert!(nan.starts_with("scale is NaN"), "{nan}");
            let misaligned = Attention::new(&shifted, &q, &q, &o)
                .prepare()
                .expect("a call");
            assert_eq!(misaligned.plan().operands.vectors, [1, 8, 8, 8]);
            let mut near = near.clone();
            let written = near.view_mut(shape).expect("a view");
            let overlap = Attention::new(&q, &q, &q, &written).run();
            assert!(overlap.expect_err("refused").is_overlap());
            cases += 5;
        }
        assert_eq!(out.download().expect("numbers")[..384], [f16::ONE; 384]);
        println!("law attention.known: {cases} cases");
    }

    /// Capped scores are those of the reference within 1e-3, for all caps that are taken, and larger caps are refused. The log-sum-exp
    /// of one key is its score.
    #[test]
    fn law_capped_scores_are_near_the_reference_for_every_cap() {
        let (mut cases, mut worst) = (0, 0.0_f64);
        // Scores of both signs and of sizes from 2^-10 to 2^11.
        let sizes = (0..44).map(|i| (f64::from(i) / 2.0 - 10.5).exp2());
        let scores = sizes.flat_map(|size| [size, -size]);
        let scores: Vec<f16> = scores.map(f16::from_f64).collect();
        let queries = scores.len();
        let mut rows = vec![f16::ZERO; queries * 64];
        for (row, score) in rows.chunks_mut(64).zip(&scores) {
            row[5] = *score;
        }
        for arch in [Arch::Sm80, Arch::Sm90a] {
            let device = Device::simulator(arch);
            let q = device.upload(&rows).expect("memory");
            let k = device.upload(&[f16::ONE; 64]).expect("memory");
            let mut o = device.zeros::<f16>(queries * 64).expect("memory");
            let mut run = |cap: f32| {
                let mut sums = device.poisoned::<f32>(queries).expect("memory");
                let q = q.view((1, 1, queries as i64, 64)).expect("a view");
                let k = k.view((1, 1, 1, 64)).expect("a view");
                let o = o.view_mut((1, 1, queries as i64, 64)).expect("a view");
                let to = sums.view_mut((1, 1, queries as i64)).expect("a view");
                let call = Attention::new(&q, &k, &k, &o).scale(1.0);
                call.softcap(cap).log_sum_exp(&to).run()?;
                Ok::<_, Error>(sums.download().expect("numbers"))
            };
            for cap in [0.5, 1.0, 5.0, 20.0, 50.0, 300.0, 1000.0, 1024.0] {
                let found = run(cap).expect("a cap that is taken");
                for (found, score) in found.iter().zip(&scores) {
                    let cap = f64::from(cap);
                    let right = cap * (score.to_f64() / cap).tanh();
                    let apart = (f64::from(*found) - right).abs();
                    let allowed = 1e-3 + right.abs() * 1e-6;
                    assert!(apart <= allowed, "{arch}, {cap}, {score}: {found}, {right}");
                    worst = worst.max(apart);
                    cases += 1;
                }
            }
            for cap in [1024.0_f32.next_up(), 2048.0, 1e6, 1e9, 1e30, f32::INFINITY] {
                let refused = run(cap).expect_err("a cap that is refused").to_string();
                let right = format!("softcap is {cap}: it must be 1e-30 to 1024.0");
                assert_eq!(refused, right);
                cases += 1;
            }
        }
        println!("law attention.caps: {cases} cases, worst {worst:.1e}");
    }

    /// Equal keys have equal weights, for the least and the largest scales and caps: a score of 0 stays 0.
    #[test]
    fn law_equal_keys_have_equal_weights_for_every_scale_and_cap() {
        let mut cases = 0;
        let scales = [1e-30, 1.0, 1e10, 1e30];
        let caps = [1e-30, 1e-10, 1.0, 1024.0];
        for arch in [Arch::Sm80, Arch::Sm90a] {
            let device = Device::simulator(arch);
            let ones = device.upload(&[f16::ONE; 3 * 64]).expect("memory");
            let values: Vec<f16> = (0..3 * 64)
                .map(|i| f16::from_f32((i / 64) as f32))
                .collect();
            let v = device.upload(&values).expect("memory");
            for query in [f16::ZERO, f16::NEG_ONE, f16::ONE] {
                let q = device.upload(&[query; 64]).expect("memory");
                for (scale, cap) in scales.into_iter().flat_map(|s| caps.map(|cap| (s, cap))) {
                    let mut o = device.poisoned::<f16>(64).expect("memory");
                    {
                        let q = q.view((1, 1, 1, 64)).expect("a view");
                        let k = ones.view((1, 1, 3, 64)).expect("a view");
                        let v = v.view((1, 1, 3, 64)).expect("a view");
                        let o = o.view_mut((1, 1, 1, 64)).expect("a view");
                        let call = Attention::new(&q, &k, &v, &o).scale(scale).softcap(cap);
                        call.run().expect("a scale and a cap that are taken");
                    }
                    let found = o.download().expect("numbers");
                    assert_eq!(found, [f16::ONE; 64], "{arch}, {query}, {scale}, {cap}");
                    cases += 1;
                }
            }
        }
        println!("law attention.extreme_factors: {cases} cases");
    }

    /// Numbers of `i32` give the outputs of the `u32` with the same bits. Offsets below 0 give those of offsets beyond the last row,
    /// lengths below 0 those of lengths above the most, and pages below 0 those of pages that the pool does not have.
    #[test]
    fn law_numbers_of_either_type_have_the_same_outputs() {
        let mut state = 7u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        let number = |i: i32| f16::from_f32((i * 37 % 101) as f32 / 50.0 - 1.0);
        let mut cases = 0;
        for arch in [Arch::Sm80, Arch::Sm90a] {
            let device = Device::simulator(arch);
            let numbers: Vec<f16> = (0..6 * 16 * 2 * 64).map(number).collect();
            let x = device.upload(&numbers).expect("memory");
            // Packed queries and keys of four sequences in nine rows, two heads of queries and one of keys.
            let packed = |offsets: &dyn Fn(Attention<'_, f16>) -> Result<(), Error>| {
                let mut o = device.upload(&[f16::NEG_ONE; 9 * 2 * 64]).expect("memory");
                let (q, k) = (x.view((9, 2, 64)), x.view((9, 1, 64)));
                let (q, k) = (q.expect("a view"), k.expect("a view"));
                let written = o.view_mut((9, 2, 64)).expect("a view");
                offsets(Attention::new(&q, &k, &k, &written).mask(Mask::Causal)).expect("it runs");
                o.download().expect("memory")
            };
            let paged = |pages: &dyn Fn(Attention<'_, f16>) -> Result<(), Error>| {
                let mut o = device.poisoned::<f16>(3 * 2 * 64).expect("memory");
                let (q, k) = (x.view((3, 2, 1, 64)), x.view((6, 1, 16, 64)));
                let (q, k) = (q.expect("a view"), k.expect("a view"));
                let written = o.view_mut((3, 2, 1, 64)).expect("a view");
                pages(Attention::new(&q, &k, &k, &written)).expect("it runs");
                o.download().expect("memory")
            };
            for case in 0..8 {
                let mut wild = |usual: u32| match draw(4) {
                    0 if case > 1 => -1 - draw(9) as i32,
                    _ => draw(usual) as i32,
                };
                let mut offsets = [0; 5].map(|_| wild(10));
                // Sequences that overlap would write a row twice.
                offsets.sort_by_key(|offset| *offset as u32);
                let table = [0; 6].map(|_| wild(6));
                let lengths = [0; 3].map(|_| wild(33));
                let bits = |all: &[i32]| -> Vec<u32> { all.iter().map(|n| *n as u32).collect() };
                let beyond = |all: &[i32]| -> Vec<i32> {
                    let one = |n: &i32| if *n < 0 { i32::MAX } else { *n };
                    all.iter().map(one).collect()
                };
                let signed = device.upload(&offsets).expect("memory");
                let unsigned = device.upload(&bits(&offsets)).expect("memory");
                let large = device.upload(&beyond(&offsets)).expect("memory");
                let signed = signed.view(5).expect("a view");
                let unsigned = unsigned.view(5).expect("a view");
                let large = large.view(5).expect("a view");
                let found = [
                    packed(&|call| call.query_offsets(&signed, 6).key_offsets(&signed, 7).run()),
                    packed(&|call| {
                        let call = call.query_offsets(&unsigned, 6);
                        call.key_offsets(&unsigned, 7).run()
                    }),
                    packed(&|call| {
                        call.query_offsets(&signed, 6)
                            .key_offsets(&unsigned, 7)
                            .run()
                    }),
                    packed(&|call| call.query_offsets(&large, 6).key_offsets(&large, 7).run()),
                ];
                for (i, other) in found.iter().enumerate() {
                    assert_eq!(other, &found[0], "{arch}, {offsets:?}, {i}");
                }
                let [of_table, of_lengths] = [&table[..], &lengths].map(|all| {
                    let signed = device.upload(all).expect("memory");
                    let unsigned = device.upload(&bits(all)).expect("memory");
                    let large = device.upload(&beyond(all)).expect("memory");
                    (signed, unsigned, large)
                });
                let (table_i, table_u, table_m) = (
                    of_table.0.view((3, 2)).expect("a view"),
                    of_table.1.view((3, 2)).expect("a view"),
                    of_table.2.view((3, 2)).expect("a view"),
                );
                let (lengths_i, lengths_u, lengths_m) = (
                    of_lengths.0.view(3).expect("a view"),
                    of_lengths.1.view(3).expect("a view"),
                    of_lengths.2.view(3).expect("a view"),
                );
                let found = [
                    paged(&|call| call.pages(&table_i, &lengths_i, 32).run()),
                    paged(&|call| call.pages(&table_u, &lengths_u, 32).run()),
                    paged(&|call| call.pages(&table_i, &lengths_u, 32).run()),
                    paged(&|call| call.pages(&table_u, &lengths_i, 32).run()),
                    paged(&|call| call.pages(&table_m, &lengths_m, 32).run()),
                ];
                for (i, other) in found.iter().enumerate() {
                    assert_eq!(other, &found[0], "{arch}, {table:?}, {lengths:?}, {i}");
                }
                cases += found.len() + 4;
            }
        }
        println!("law attention.numbers: {cases} cases");
    }

    #[test]
    fn refused_calls_say_what_would_be_right() {
        let [q, k] = [[2, 4, 5, 64], [2, 2, 7, 64]];
        let sentences = [
            refused([&q[1..], &k, &k, &q], |call| call),
            refused([&q, &[1, 2, 7, 64], &k, &q], |call| call),
            refused([&q, &[2, 3, 7, 64], &[2, 3, 7, 64], &q], |call| call),
            refused([&q, &k, &[2, 2, 6, 64], &q], |call| call),
            refused([&q, &k, &k, &k], |call| call),
            refused([&q, &[2, 2, 7, 32], &k, &q], |call| call),
            refused([&[1, 1, 5, 80]; 4].map(|shape| &shape[..]), |call| call),
            refused([&q, &k, &k, &q], |call| call.scale(-1.0)),
        ];
        assert_eq!(
            sentences,
            [
                "Q has the shape (4,5,64): it must be (batch, head, sequence, feature)",
                "the batch is 2 in Q and 1 in K",
                "Q has 4 heads and K has 3: the heads of Q must be a multiple of those of K",
                "the number of keys is 7 in K and 6 in V",
                "the number of heads is 4 in Q and 2 in O",
                "the number of features is 64 in Q and 32 in K",
                "no kernel takes the call: the Hopper kernel runs on sm_90a, and not on sm_80; heads of 80 features: the Ampere \
                 kernel takes heads of 64, 96, 128, 192 with 128 of V, 192 or 256 features",
                "scale is -1: it must be 1e-30 to 1e30",
            ]
        );
    }

    #[test]
    fn refused_packed_calls_say_what_would_be_right() {
        let device = Device::simulator(Arch::Sm90a);
        let numbers = device.upload(&[0u32, 3, 5, 5, 5, 5]).expect("memory");
        let all = numbers.view(6).expect("a view");
        let three = numbers.view(3).expect("a view");
        let spread = View::new(&numbers, "3:2").expect("a view");
        let none = numbers.view(0).expect("a view");
        let [q, k] = [[5, 4, 64], [5, 2, 64]];
        let packed: [&[i64]; 4] = [&q, &k, &k, &q];
        let refused = |shapes: [&[i64]; 4], offsets: [&View<'_, u32>; 2]| {
            let memory = device.zeros::<f16>(1 << 16).expect("memory");
            let mut o = device.zeros::<f16>(1 << 16).expect("memory");
            let [q, k, v] = [0, 1, 2].map(|i| memory.view(shapes[i]).expect("a view"));
            let o = o.view_mut(shapes[3]).expect("a view");
            let call = Attention::new(&q, &k, &v, &o)
                .query_offsets(offsets[0], 3)
                .key_offsets(offsets[1], 3);
            let error = match call.prepare() {
                Err(error) => error,
                Ok(_) => {
                    let of_plan = |change: fn(&mut AttentionPlan)| {
                        let call = call.prepare_with(|operands, _| {
                            let method = AttentionMethod::Ampere;
                            let mut plan = AttentionPlan::new(method, operands);
                            change(&mut plan);
                            Ok(plan)
                        });
                        call.expect_err("it is refused").to_string()
                    };
                    return of_plan(|plan| plan.operands.packed[0] = false);
                }
            };
            error.to_string()
        };
        let sentences = [
            refused([&[1, 4, 5, 64], &k, &k, &q], [&three; 2]),
            refused(packed, [&three, &all]),
            refused(packed, [&spread, &three]),
            refused(packed, [&none, &three]),
            refused([&q, &k, &[4, 2, 64], &q], [&three; 2]),
            refused([&q, &k, &k, &[4, 4, 64]], [&three; 2]),
            refused(packed, [&three; 2]),
        ];
        assert_eq!(
            sentences,
            [
                "Q has the shape (1,4,5,64): it must be (row, head, feature)",
                "the batch is 2 in the vector of query offsets and 5 in the vector of key offsets",
                "the vector of query offsets has the shape 3:2: it must be (sequences + 1), contiguous",
                "the vector of query offsets has the shape 0: it must be (sequences + 1), contiguous",
                "the number of rows is 5 in K and 4 in V",
                "the number of rows is 5 in Q and 4 in O",
                "the plan was made for another call: the sequences of queries are of one length in the plan and packed in the call",
            ]
        );

        // Numbers of `i32` are checked as those of `u32` are.
        let signed = device.upload(&[0i32, 3, 5, 5, 5]).expect("memory");
        let spread = View::new(&signed, "3:2").expect("a view");
        let memory = device.zeros::<f16>(1 << 16).expect("memory");
        let mut o = device.zeros::<f16>(1 << 16).expect("memory");
        let [q, k] = [q, k].map(|shape| memory.view(shape).expect("a view"));
        let o = o.view_mut((5, 4, 64)).expect("a view");
        let call = Attention::new(&q, &k, &k, &o).query_offsets(&three, 3);
        let error = call.key_offsets(&spread, 3).prepare();
        assert_eq!(
            error.expect_err("it is refused").to_string(),
            "the vector of key offsets has the shape 3:2: it must be (sequences + 1), contiguous"
        );
    }

    /// The memory of the caller gives the plan and the bits of memory that the call owns. Too little gives a plan that divides
    /// nothing.
    #[test]
    fn a_call_takes_the_parts_of_its_keys_from_the_workspace() {
        let device = Device::simulator(Arch::Sm80);
        let number = |i: i32| f16::from_f32((i * 37 % 101) as f32 / 50.0 - 1.0);
        let numbers: Vec<f16> = (0..1500 * 64).map(number).collect();
        let memory = device.upload(&numbers).expect("memory");
        let query = memory.view((1, 4, 1, 64)).expect("a view");
        let keys = memory.view((1, 1, 1500, 64)).expect("a view");
        let mut output = device.poisoned::<f16>(4 * 64).expect("memory");
        let mut found = Vec::new();
        let need = {
            let o = output.view_mut((1, 4, 1, 64)).expect("a view");
            let call = Attention::new(&query, &keys, &keys, &o);
            call.workspace().expect("a plan")
        };
        // 24 parts of 4 rows: 64 numbers and two more, in pieces of 256 bytes.
        assert_eq!(need, 24 * 4 * 64 * 4 + 2 * 512);
        for (bytes, parts) in [
            (None, 24),
            (Some(need), 24),
            (Some(need - 1), 1),
            (Some(0), 1),
        ] {
            let o = output.view_mut((1, 4, 1, 64)).expect("a view");
            let call = Attention::new(&query, &keys, &keys, &o);
            let mut workspace = device
                .uninitialised::<u8>(bytes.unwrap_or(0))
                .expect("memory");
            let prepared = match bytes {
                None => call.prepare(),
                Some(_) => call.prepare_in(&mut workspace),
            };
            let prepared = prepared.expect("a call");
            assert_eq!(prepared.plan().splits, parts);
            prepared.run(&device).expect("it runs");
            drop(prepared);
            found.push(output.download().expect("all is written"));
        }
        assert_eq!(found[0], found[1]);
        assert_eq!(found[2], found[3]);

        let o = output.view_mut((1, 4, 1, 64)).expect("a view");
        let call = Attention::new(&query, &keys, &keys, &o);
        let mut foreign = Device::simulator(Arch::Sm80)
            .zeros::<u8>(need)
            .expect("memory");
        let error = call
            .prepare_in(&mut foreign)
            .expect_err("it lies elsewhere");
        assert!(error.to_string().contains("the workspace"), "{error}");
    }

    #[test]
    fn refused_sinks_say_what_would_be_right() {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(1 << 10).expect("memory");
        let mut output = device.zeros::<f16>(1 << 10).expect("memory");
        let sinks = device.zeros::<f32>(6).expect("memory");
        let x = memory.view((1, 4, 1, 64)).expect("a view");
        let o = output.view_mut((1, 4, 1, 64)).expect("a view");
        let refused = |view: &View<'_, f32>| {
            let call = Attention::new(&x, &x, &x, &o).sinks(view).prepare();
            call.expect_err("it is refused").to_string()
        };
        let six = sinks.view(6).expect("a view");
        let square = sinks.view((2, 2)).expect("a view");
        assert_eq!(
            [refused(&six), refused(&square)],
            [
                "the number of heads is 4 in Q and 6 in the vector of sinks",
                "the vector of sinks has the shape (2,2): it must be (head)",
            ]
        );
    }

    #[test]
    fn refused_calls_on_pages_say_what_would_be_right() {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(1 << 16).expect("memory");
        let output = device.zeros::<f16>(1 << 12).expect("memory");
        let entries = device.upload(&[0i32; 64]).expect("memory");
        let numbers = device.upload(&[5u32; 8]).expect("memory");
        let queries = [2, 4, 1, 64];
        let refused = |pools: [[i64; 4]; 2], table: &[i64], lengths: i64, both: bool| {
            let mut o = output.clone();
            let o = o.view_mut(queries).expect("a view");
            let [q, k, v] =
                [queries, pools[0], pools[1]].map(|of| memory.view(of).expect("a view"));
            let table = entries.view(table).expect("a view");
            let lengths = numbers.view(lengths).expect("a view");
            let mut call = Attention::new(&q, &k, &v, &o).pages(&table, &lengths, 32);
            if both {
                call = call.key_offsets(&lengths, 3);
            }
            call.prepare().expect_err("it is refused").to_string()
        };
        let pool = [3, 2, 16, 64];
        let sentences = [
            refused([pool, [4, 2, 16, 64]], &[2, 2], 2, false),
            refused([pool, [3, 2, 32, 64]], &[2, 2], 2, false),
            refused([pool; 2], &[2, 2, 2], 2, false),
            refused([pool; 2], &[3, 2], 3, false),
            refused([pool; 2], &[2, 2], 3, false),
            refused([pool; 2], &[2, 2], 2, true),
            refused([[3, 2, 24, 64]; 2], &[2, 2], 2, false),
        ];
        assert_eq!(
            sentences,
            [
                "the number of pages is 3 in K and 4 in V",
                "the number of rows of a page is 16 in K and 32 in V",
                "the table of pages has the shape (2,2,2): it must be (sequence, entry)",
                "the batch is 2 in Q and 3 in the table of pages",
                "the batch is 2 in the table of pages and 3 in the vector of numbers of keys",
                "the call has key offsets and pages of keys: the keys of a sequence lie in rows or in pages",
                "pages of 24 rows: kernels take pages of 16 to 65536 rows, in multiples of 16",
            ]
        );
    }

    /// The host knows how many keys a table has room for, and refuses a larger number: of no sequence a key is left out silently.
    /// Every smaller number is taken.
    #[test]
    fn law_the_most_keys_of_a_call_have_room_in_its_table() {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(1 << 16).expect("memory");
        let output = device.zeros::<f16>(1 << 12).expect("memory");
        let entries = device.upload(&[0i32; 64]).expect("memory");
        let numbers = device.upload(&[64u32; 8]).expect("memory");
        let q = memory.view((1, 1, 1, 64)).expect("a view");
        let prepared = |[pages, rows]: [i64; 2], entry: i64, most| {
            let mut o = output.clone();
            let o = o.view_mut((1, 1, 1, 64)).expect("a view");
            let k = memory.view((pages, 1, rows, 64)).expect("a view");
            let table = entries.view((1, entry)).expect("a view");
            let lengths = numbers.view(1).expect("a view");
            let call = Attention::new(&q, &k, &k, &o).pages(&table, &lengths, most);
            call.prepare().map(|_| ()).map_err(|error| {
                assert!(!error.is_unsupported() && error.plan().is_none(), "{error}");
                error.to_string()
            })
        };
        let mut cases = 0;
        for (pages, rows, entry) in (0..3)
            .flat_map(|pages| [16, 32].map(|rows| (pages, rows)))
            .flat_map(|(pages, rows)| (0..4).map(move |entry| (pages, rows, entry)))
        {
            let room = if pages > 0 { rows * entry } else { 0 };
            for most in [
                0,
                1,
                room - 1,
                room,
                room + 1,
                64,
                1 << 28,
                1 << 40,
                i64::MAX,
                -1,
            ] {
                let found = prepared([pages, rows], entry, most);
                let fits = (0..=room).contains(&most);
                assert_eq!(
                    found.is_ok(),
                    fits,
                    "{pages} {rows} {entry} {most}: {found:?}"
                );
                cases += 1;
            }
        }
        println!("law attention.room: {cases} cases");
        let refused = [
            prepared([3, 16], 2, 64),
            prepared([3, 16], 1, 17),
            prepared([3, 16], 0, 20),
            prepared([0, 16], 2, 20),
            prepared([3, 12], 2, 20),
            prepared([3, 16], 2, -1),
            prepared([3, 16], 2, i64::MAX),
        ];
        assert_eq!(
            refused.map(|refused| refused.expect_err("it is refused")),
            [
                "the table has 2 pages of 16 rows for each sequence, 32 keys, and the largest number of keys (`most`) is 64: it \
                 must be at most 32, or the table must have 4 pages",
                "the table has 1 page of 16 rows for each sequence, 16 keys, and the largest number of keys (`most`) is 17: it \
                 must be at most 16, or the table must have 2 pages",
                "the table has 0 pages of 16 rows for each sequence, 0 keys, and the largest number of keys (`most`) is 20: it \
                 must be at most 0, or the table must have 2 pages",
                "the pool has no pages, and the largest number of keys (`most`) is 20: it must be 0, or the pool must have a page",
                "pages of 12 rows: kernels take pages of 16 to 65536 rows, in multiples of 16",
                "-1 keys: there must be 0 to 268435456",
                "9223372036854775807 keys: there must be 0 to 268435456",
            ]
        );
    }

    /// Each mode of each tensor of a call must have one stride, and each element of an output one coordinate: the error names the
    /// tensor, the layout that was given, and the mode.
    #[test]
    fn refused_layouts_say_what_would_be_right() {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(1 << 14).expect("memory");
        let output = device.zeros::<f16>(1 << 14).expect("memory");
        let floats = device.zeros::<f32>(1 << 10).expect("memory");
        let numbers = device.upload(&[0i32; 64]).expect("memory");
        let compact = "(2,1,7,64):(448,448,64,1)";
        // Q, K, V, O, the log-sum-exp, the sinks, and the table of pages.
        let usual = [
            compact,
            compact,
            compact,
            compact,
            "(2,1,7):(7,7,1)",
            "1:1",
            "(2,1):(1,1)",
        ];
        let refused = |changes: &[(usize, &'static str)], pages: bool| {
            let mut of = usual;
            for (i, layout) in changes {
                of[*i] = layout;
            }
            let (mut o, mut sums) = (output.clone(), floats.clone());
            let [q, k, v] = [0, 1, 2].map(|i| View::new(&memory, of[i]).expect("a view"));
            let o = ViewMut::new(&mut o, of[3]).expect("a view");
            let sums = ViewMut::new(&mut sums, of[4]).expect("a view");
            let sinks = floats.clone();
            let sinks = View::new(&sinks, of[5]).expect("a view");
            let table = View::new(&numbers, of[6]).expect("a view");
            let lengths = numbers.view(2).expect("a view");
            let mut call = Attention::new(&q, &k, &v, &o)
                .log_sum_exp(&sums)
                .sinks(&sinks);
            if pages {
                call = call.pages(&table, &lengths, 16);
            }
            let error = call.prepare().expect_err("it is refused");
            assert!(!error.is_unsupported() && error.plan().is_none(), "{error}");
            error.to_string()
        };
        let pool = "(2,1,16,64):(1024,1024,64,1)";
        let wide = "(2,1,7,(8,8)):(448,448,64,(1,16))";
        let sentences = [
            refused(&[(0, wide)], false),
            refused(&[(3, wide)], false),
            // Modes that coalesce into one leaf have one stride.
            refused(
                &[(1, "((2,1),1,(7,1),64):((448,0),448,(64,0),1)"), (2, wide)],
                false,
            ),
            refused(
                &[
                    (4, "(2,1,(7,1)):(7,7,(1,0))"),
                    (0, "((1,2),1,7,64):((0,448),448,64,1)"),
                    (1, wide),
                ],
                false,
            ),
            refused(
                &[
                    (4, "(2,1,7):(7,7,1)"),
                    (3, "(2,1,7,(4,16)):(448,448,64,(1,8))"),
                ],
                false,
            ),
            refused(&[(1, pool), (2, pool), (6, "(2,(2,2)):(0,(1,4))")], true),
            refused(&[(3, "(2,1,7,64):(448,448,0,1)")], false),
            refused(&[(3, "((2,1),1,7,64):((0,448),448,64,1)")], false),
            refused(&[(4, "(2,1,7):(0,7,0)")], false),
            refused(&[(4, "(2,1,7):(1,7,1)")], false),
        ];
        assert_eq!(
            sentences,
            [
                "mode 3 of Q (2,1,7,(8,8)):(448,448,64,(1,16)) has no single stride: each mode of (batch, head, sequence, feature) \
                 must have one",
                "mode 3 of O (2,1,7,(8,8)):(448,448,64,(1,16)) has no single stride: each mode of (batch, head, sequence, feature) \
                 must have one",
                "mode 3 of V (2,1,7,(8,8)):(448,448,64,(1,16)) has no single stride: each mode of (batch, head, sequence, feature) \
                 must have one",
                "mode 3 of K (2,1,7,(8,8)):(448,448,64,(1,16)) has no single stride: each mode of (batch, head, sequence, feature) \
                 must have one",
                "mode 3 of O (2,1,7,(4,16)):(448,448,64,(1,8)) has no single stride: each mode of (batch, head, sequence, feature) \
                 must have one",
                "mode 1 of the table of pages (2,(2,2)):(0,(1,4)) has no single stride: each mode of (sequence, entry) must have \
                 one",
                "O (2,1,7,64):(448,448,0,1) has one element at several coordinates, since its mode 2 has the stride 0: which value \
                 stays would be a race",
                "O ((2,1),1,7,64):((0,448),448,64,1) has one element at several coordinates, since its mode 0 has the stride 0: \
                 which value stays would be a race",
                "the log-sum-exp (2,1,7):(0,7,0) has one element at several coordinates, since its modes 0 and 2 have the stride \
                 0: which value stays would be a race",
                "the log-sum-exp (2,1,7):(1,7,1) has one element at several coordinates: which value stays would be a race",
            ]
        );
    }

    /// What a call uses is on one device, and so is the device that it is run on.
    #[test]
    fn a_call_on_another_device_says_which() {
        let device = Device::simulator(Arch::Sm80);
        let other = Device::simulator(Arch::Sm80);
        let [x, foreign] = [&device, &other].map(|on| on.zeros::<f16>(64).expect("memory"));
        let mut output = device.zeros::<f16>(64).expect("memory");
        let [x, foreign] = [&x, &foreign].map(|of| of.view((1, 1, 1, 64)).expect("a view"));
        let o = output.view_mut((1, 1, 1, 64)).expect("a view");
        let mixed = attention(&x, &foreign, &x, &o);
        let prepared = Attention::new(&x, &x, &x, &o).prepare().expect("a call");
        let newer = Device::simulator(Arch::Sm90a);
        let refused = [mixed, prepared.run(&other), prepared.run(&newer)];
        assert_eq!(
            refused.map(|refused| refused.expect_err("it is refused").to_string()),
            [
                "K is on one simulator of sm_80 and is used with another: all that a call uses must be on one device",
                "the prepared call is on one simulator of sm_80 and is used with another: all that a call uses must be on one \
                 device",
                "the prepared call is on the simulator of sm_80, not on the simulator of sm_90a",
            ]
        );
    }

    /// No feature is a head size that no kernel has, and not a mistake of the scale.
    #[test]
    fn heads_without_features_are_refused_as_head_sizes() {
        let device = Device::simulator(Arch::Sm80);
        let memory = device.zeros::<f16>(64).expect("memory");
        let mut output = device.zeros::<f16>(64).expect("memory");
        let x = memory.view((1, 1, 7, 0)).expect("a view");
        let o = output.view_mut((1, 1, 7, 0)).expect("a view");
        let error = attention(&x, &x, &x, &o).expect_err("it is refused");
        assert!(error.is_unsupported());
        assert_eq!(
            error.to_string(),
            "Q and K have 0 features: kernels take heads of 64, 96, 128, 192 with 128 of V, 192 or 256 features"
        );
    }

    #[test]
    fn an_output_overlaps_nothing_and_a_plan_is_for_its_call() {
        let device = Device::simulator(Arch::Sm80);
        let mut memory = device.zeros::<f16>(1 << 10).expect("memory");
        let other = memory.clone();
        let x = other.view((1, 1, 2, 64)).expect("a view");
        let o = memory.view_mut((1, 1, 2, 64)).expect("a view");
        let error = attention(&x, &x, &x, &o).expect_err("they overlap");
        assert!(error.is_overlap(), "{error}");
        let apart = device.zeros::<f16>(128).expect("memory");
        let x = apart.view((1, 1, 2, 64)).expect("a view");
        let refused = |change: &dyn Fn(&mut AttentionPlan)| {
            let call = Attention::new(&x, &x, &x, &o);
            let call = call.prepare_with(|operands, _| {
                let mut plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
                change(&mut plan);
                Ok(plan)
            });
            call.expect_err("it is refused").to_string()
        };
        let sentences = [
            refused(&|plan| plan.operands.bounded = [false, true]),
            refused(&|plan| plan.operands.features = [128, 128]),
            refused(&|plan| plan.operands.log_sum_exp = true),
            refused(&|plan| plan.operands.sinks = true),
            refused(&|plan| plan.consumers = 3),
            refused(&|plan| plan.tile[1] = 256),
            refused(&|plan| (plan.tile[1], plan.stages) = (128, 8)),
            refused(&|plan| plan.operands.vectors[3] = 16),
            refused(&|plan| plan.packs = 0),
            refused(&|plan| plan.packs = 2),
            refused(&|plan| plan.splits = 129),
            refused(&|plan| plan.by_lanes = true),
        ];
        assert_eq!(
            sentences,
            [
                "the plan was made for another call: the mask is causal in the plan and full in the call",
                "the plan was made for another call: there are heads of 128 features in the plan and heads of 64 features in the \
                 call",
                "the plan was made for another call: the log-sum-exp is an output in the plan and no output in the call",
                "the plan was made for another call: the heads have sinks in the plan and no sinks in the call",
                "the plan's tile of queries is 64: the Ampere attention kernel takes 48 to 240, in multiples of 48",
                "the plan asks for 224 registers for a thread's sums and weights: the Ampere attention kernel takes at most 208, \
                 16 fewer",
                "the plan asks for 270336 bytes of shared memory for Q, K and V: the Ampere attention kernel takes at most 166912, \
                 103424 fewer",
                "the plan's vector of O is 16: an access takes a power of two, 1 to 8 elements of f16",
                "the plan's number of packed heads is 0: the Ampere attention kernel takes 1 to 256",
                "the plan packs 2 heads of Q: it must be a divisor of 1, the heads of Q for each head of K",
                "the plan's number of parts of the keys is 129: the Ampere attention kernel takes 1 to 128",
                "the plan's lanes share the parts of a row: it has one part of the keys",
            ]
        );
    }
}
