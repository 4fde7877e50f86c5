//! `AttentionProblem`: the description of softmax(scale Q K^T) V, which is checked before a kernel is chosen.

use core::fmt;
use std::f64::consts::LOG2_E;
use std::ops::{Range, RangeInclusive};

use colex_atom::Ty;
use colex_layout::{Int, IntTuple, Layout, Stride, Tuple};

use super::family::{HEADS, sizes};
use super::pages;
use crate::error::{AttentionError, Error, ErrorKind};
use crate::gemm::problem::{MOST, check_extent};

/// A tensor of an attention call. The modes of each are (batch, head, sequence, feature).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionTensor {
    /// The queries.
    Q,
    /// The keys.
    K,
    /// The values.
    V,
    /// The output.
    O,
}

impl AttentionTensor {
    /// All of them, in the order of the fields of [`AttentionProblem`].
    pub const ALL: [AttentionTensor; 4] = [
        AttentionTensor::Q,
        AttentionTensor::K,
        AttentionTensor::V,
        AttentionTensor::O,
    ];

    /// Returns the name of the tensor in formulas and errors.
    pub const fn name(self) -> &'static str {
        match self {
            AttentionTensor::Q => "Q",
            AttentionTensor::K => "K",
            AttentionTensor::V => "V",
            AttentionTensor::O => "O",
        }
    }
}

/// The keys that a query sees.
///
/// The last query is aligned with the last key: query `i` of `n` stands at key `p = i + keys - n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mask {
    /// All of them.
    Full,
    /// Those up to its own place: `j <= p`.
    Causal,
    /// Those around its own place: `p - left <= j <= p + right`.
    Window {
        /// The number of keys before the query's place.
        left: u32,
        /// The number of keys after it.
        right: u32,
    },
}

impl Mask {
    /// Returns the keys that query `i` sees. The range is empty if it sees none.
    ///
    /// ```
    /// use colex_gpu::attention::Mask;
    ///
    /// // Four queries at the end of six keys: query 0 stands at key 2.
    /// assert_eq!(Mask::Causal.keys(0, [4, 6]), 0..3);
    /// assert_eq!(Mask::Window { left: 1, right: 1 }.keys(3, [4, 6]), 4..6);
    /// // Six queries at the end of four keys: the first two see none.
    /// assert!(Mask::Causal.keys(1, [6, 4]).is_empty());
    /// ```
    pub fn keys(self, query: i64, [queries, keys]: [i64; 2]) -> Range<i64> {
        let place = i128::from(query) + i128::from(keys) - i128::from(queries);
        let (first, end) = match self {
            Mask::Full => (0, keys.into()),
            Mask::Causal => (0, place + 1),
            Mask::Window { left, right } => {
                (place - i128::from(left), place + i128::from(right) + 1)
            }
        };
        // Both are within 0 and the keys.
        let end = end.min(keys.into()).max(0);
        first.clamp(0, end) as i64..end as i64
    }
}

/// `full`, `causal`, `window -127..=0`
impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mask::Full => f.write_str("full"),
            Mask::Causal => f.write_str("causal"),
            Mask::Window { left, right } => write!(f, "window -{left}..={right}"),
        }
    }
}

/// Where the queries of the sequences lie, or their keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sequences {
    /// In a tensor (batch, head, sequence, feature): all have one length.
    #[default]
    Batch,
    /// One after the other in the rows of a tensor (row, head, feature). Offsets on the device say where each begins and ends.
    Packed {
        /// The rows of all sequences.
        rows: i64,
    },
    /// Of keys and values only: in the pages of a pool, a tensor (page, head, row of the page, feature). A table on the device
    /// (sequence, entry) names the pages of each sequence in the order of its keys, and a vector there has the numbers of keys.
    Paged {
        /// The pages of the pool.
        pages: i64,
        /// The rows of a page.
        rows: i64,
        /// The entries of a sequence in the table.
        entries: i64,
        /// The strides of the table along (sequence, entry), in elements.
        strides: [i64; 2],
    },
}

/// `O = softmax(scale Q K^T) V` for each batch and head, over the keys that the [`Mask`] leaves.
///
/// Q is (batch, head, query, feature), K and V are (batch, key head, key, feature), O is (batch, head, query, feature of V).
/// The heads of Q are a multiple of those of K and V: `heads / key heads` neighbouring heads of Q read one head of K and
/// V. A query that sees no key has the output 0 and, as its log-sum-exp, -inf or the sink of its head.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::attention::{AttentionProblem, AttentionTensor, Mask};
///
/// // Two sequences of 100 queries and 300 keys, 8 heads in groups of 4, 64 features.
/// let problem = AttentionProblem::new(Ty::Bf16, 2, [8, 2], [100, 300], [64, 64]).mask(Mask::Causal);
/// assert_eq!(problem.to_string(), "attention bf16, batch 2, heads 8 on 2, 100 queries, 300 keys, features 64, causal, scale 0.125");
/// assert_eq!(problem.layout(AttentionTensor::K)?.to_string(), "(2,2,300,64):(38400,19200,64,1)");
///
/// let error = AttentionProblem::new(Ty::Bf16, 2, [8, 3], [100, 300], [64, 64]).check().unwrap_err();
/// assert_eq!(error.to_string(), "Q has 8 heads and K has 3: the heads of Q must be a multiple of those of K");
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionProblem {
    /// The type of Q, K, V and O.
    pub ty: Ty,
    /// The number of sequences.
    pub batch: i64,
    /// The heads of Q and O, and those of K and V.
    pub heads: [i64; 2],
    /// The lengths of the sequences: queries and keys. Of packed sequences, and of keys in pages, the largest.
    pub lengths: [i64; 2],
    /// Where the queries lie, and the keys and values.
    pub sequences: [Sequences; 2],
    /// The features of Q and K, and those of V and O.
    pub features: [i64; 2],
    /// The strides of Q, K, V and O along (batch, head, sequence, feature), in elements. Those of K and V in pages are along (page,
    /// head, row of the page, feature).
    pub strides: [[i64; 4]; 4],
    /// The keys that a query sees.
    pub mask: Mask,
    /// The factor of the scores. The default is `1 / sqrt(features of Q)`.
    pub scale: f32,
    /// If it is some `c`, a score `s` (scaled) becomes `c tanh(s / c)`. It is at most 1024.
    pub softcap: Option<f32>,
    /// Whether the log-sum-exp, the natural logarithm of each query's sum of exponentials, is an output too.
    pub log_sum_exp: bool,
    /// The strides of the log-sum-exp along (batch, head, query), in elements.
    pub sum_strides: [i64; 3],
    /// The stride of the sinks, one f32 for each head of Q, in elements. `None` if the heads have no sinks.
    ///
    /// A sink is a score without a value: it adds `exp(sink)` to the sum of exponentials of each query of its head.
    pub sinks: Option<i64>,
}

impl AttentionProblem {
    /// Builds the problem of compact row-major tensors without a mask, with the scale `1 / sqrt(features of Q)`.
    pub fn new(
        ty: Ty,
        batch: i64,
        heads: [i64; 2],
        lengths: [i64; 2],
        features: [i64; 2],
    ) -> AttentionProblem {
        let mut problem = AttentionProblem {
            ty,
            batch,
            heads,
            lengths,
            sequences: [Sequences::Batch; 2],
            features,
            strides: [[0; 4]; 4],
            mask: Mask::Full,
            scale: (1.0 / (features[0] as f64).sqrt()) as f32,
            softcap: None,
            log_sum_exp: false,
            sum_strides: [heads[0].saturating_mul(lengths[0]), lengths[0], 1],
            sinks: None,
        };
        for tensor in AttentionTensor::ALL {
            let [_, heads, length, features] = problem.extents(tensor);
            let of_head = length.saturating_mul(features);
            problem.strides[tensor as usize] =
                [heads.saturating_mul(of_head), of_head, features, 1];
        }
        problem
    }

    /// Returns the same problem with a mask.
    #[must_use]
    pub fn mask(self, mask: Mask) -> AttentionProblem {
        AttentionProblem { mask, ..self }
    }

    /// Returns the extents (batch, head, sequence, feature) of a tensor. One of packed sequences has a batch of 1 and all rows, one in
    /// pages the pages and the rows of each.
    pub fn extents(&self, tensor: AttentionTensor) -> [i64; 4] {
        let [heads, of_keys] = self.heads;
        let [inner, outer] = self.features;
        let [(batch, queries), (of_batch, keys)] = [0, 1].map(|side| match self.sequences[side] {
            Sequences::Batch => (self.batch, self.lengths[side]),
            Sequences::Packed { rows } => (1, rows),
            Sequences::Paged { pages, rows, .. } => (pages, rows),
        });
        match tensor {
            AttentionTensor::Q => [batch, heads, queries, inner],
            AttentionTensor::K => [of_batch, of_keys, keys, inner],
            AttentionTensor::V => [of_batch, of_keys, keys, outer],
            AttentionTensor::O => [batch, heads, queries, outer],
        }
    }

    /// Returns the layout of a tensor.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is below 0, is above 2^31 - 2^17, or is 0, since no layout has an extent of 0.
    pub fn layout(&self, tensor: AttentionTensor) -> Result<Layout, Error> {
        let extents = self.extents(tensor);
        for (extent, what) in extents.into_iter().zip(self.modes(tensor)) {
            check_extent(what, extent)?;
            if extent == 0 {
                return Err(ErrorKind::Empty { what }.into());
            }
        }
        let shape = IntTuple::flat(extents.map(i64::into));
        let stride = Tuple::flat(self.strides[tensor as usize].map(Stride::from));
        Ok(Layout::new(shape, stride)?)
    }

    /// The names of the modes of a tensor.
    fn modes(&self, tensor: AttentionTensor) -> [&'static str; 4] {
        let is_of_keys = matches!(tensor, AttentionTensor::K | AttentionTensor::V);
        match self.sequences[usize::from(is_of_keys)] {
            Sequences::Paged { .. } => PAGED_MODES,
            _ => MODES,
        }
    }

    /// Returns what multiplies a score in the exponent of 2, and, where scores are capped, what multiplies it before its
    /// hyperbolic tangent. Both are finite: the product of a score of 0 is 0.
    pub(crate) fn factors(&self) -> [f32; 2] {
        let scale = f64::from(self.scale);
        let (outer, inner) = match self.softcap.map(f64::from) {
            // A quotient beyond the numbers of f32 belongs to a cap below 3e-9: no score is larger, so that the quotient
            // changes no weight that f32 tells from 1.
            Some(cap) => (cap, (scale / cap).min(f32::MAX.into())),
            None => (scale, 1.0),
        };
        [(outer * LOG2_E) as f32, inner as f32]
    }

    /// Returns the layouts of the tensors in the modes of the kernels: (sequence, feature, head, batch) for Q, K and O, (feature,
    /// sequence, head, batch) for V, and (sequence, head, batch) for the log-sum-exp if it is an output; (head) for the sinks if
    /// there are any.
    ///
    /// After them the offsets of packed queries and of packed keys, or the table of pages (sequence, entry) and the numbers of keys.
    ///
    /// A kernel that packs `packs` > 1 neighbouring heads of Q has (head of the pack, sequence) in place of the sequence of Q, O
    /// and the log-sum-exp, and packs in place of their heads.
    pub(crate) fn kernel_layouts(&self, packs: i64) -> Result<Vec<Layout>, colex_layout::Error> {
        // Without keys K and V have no element, and no layout: that of one key stands for them, which nothing reads.
        let (dynamic, extent) = (Int::Dynamic, |n: i64| Int::Dynamic(n.max(1)));
        let of_pack = |stride: i64| dynamic(stride.saturating_mul(packs));
        let mut layouts = Vec::new();
        for tensor in AttentionTensor::ALL {
            let [batch, heads, length, features] = self.extents(tensor);
            let features = (
                Int::Static(features.max(1)),
                Int::Static(self.strides[tensor as usize][3]),
            );
            let [of_batch, of_head, of_row, _] = self.strides[tensor as usize].map(dynamic);
            let [batch, heads, row] = [batch, heads, length].map(extent);
            layouts.push(match tensor {
                AttentionTensor::V => Layout::new(
                    (features.0, row, heads, batch),
                    (features.1, of_row, of_head, of_batch),
                ),
                AttentionTensor::Q | AttentionTensor::O if packs > 1 => Layout::new(
                    (
                        (Int::Static(packs), row),
                        features.0,
                        extent(heads.value() / packs),
                        batch,
                    ),
                    (
                        (of_head, of_row),
                        features.1,
                        of_pack(of_head.value()),
                        of_batch,
                    ),
                ),
                _ => Layout::new(
                    (row, features.0, heads, batch),
                    (of_row, features.1, of_head, of_batch),
                ),
            }?);
        }
        if self.log_sum_exp {
            let [of_batch, of_head, of_row] = self.sum_strides.map(dynamic);
            let [batch, heads, row, _] = self.extents(AttentionTensor::O);
            let (batch, row) = (extent(batch), extent(row));
            layouts.push(if packs > 1 {
                Layout::new(
                    ((Int::Static(packs), row), extent(heads / packs), batch),
                    ((of_head, of_row), of_pack(of_head.value()), of_batch),
                )
            } else {
                Layout::new((row, extent(heads), batch), (of_row, of_head, of_batch))
            }?);
        }
        if let Some(stride) = self.sinks {
            layouts.push(Layout::new(extent(self.heads[0]), dynamic(stride))?);
        }
        for sequences in self.sequences {
            match sequences {
                Sequences::Batch => {}
                Sequences::Packed { .. } => {
                    let offsets = dynamic(self.batch.saturating_add(1).max(1));
                    layouts.push(Layout::new(offsets, Int::Static(1))?);
                }
                Sequences::Paged {
                    entries, strides, ..
                } => {
                    let shape = (extent(self.batch), extent(entries));
                    layouts.push(Layout::new(shape, strides.map(dynamic))?);
                    layouts.push(Layout::new(extent(self.batch), Int::Static(1))?);
                }
            }
        }
        Ok(layouts)
    }

    /// Returns the layout of an output that has an element, in the modes of its view.
    fn output(&self, output: OutputTensor) -> Result<Layout, Error> {
        let extents = self.extents(AttentionTensor::O);
        let strides = match output {
            OutputTensor::O => self.strides[AttentionTensor::O as usize],
            OutputTensor::LogSumExp => {
                let [of_batch, of_head, of_query] = self.sum_strides;
                [of_batch, of_head, of_query, 1]
            }
        };
        let mut order = match self.sequences[0] {
            Sequences::Packed { .. } => vec![2, 1, 3],
            Sequences::Batch | Sequences::Paged { .. } => vec![0, 1, 2, 3],
        };
        if output == OutputTensor::LogSumExp {
            order.pop();
        }
        let shape = IntTuple::flat(order.iter().map(|mode| extents[*mode].into()));
        let strides = Tuple::flat(order.iter().map(|mode| Stride::from(strides[*mode])));
        Ok(Layout::new(shape, strides)?)
    }

    /// Returns whether no output has an element.
    pub fn is_nothing(&self) -> bool {
        let is_empty = self.batch == 0 || self.lengths[0] == 0;
        is_empty || self.extents(AttentionTensor::O).contains(&0)
    }

    /// Checks all that does not depend on a kernel: the type, the extents, the strides, the grouping of the heads, and the
    /// numbers of the mask and of the scores.
    ///
    /// # Errors
    ///
    /// Returns an error that names the tensor, the number found and what it must be.
    pub fn check(&self) -> Result<(), Error> {
        self.check_given(|_| None)
    }

    /// Checks what [`check`](AttentionProblem::check) does, for outputs whose layouts were given in other words: the error of an output
    /// has the layout that `given` returns.
    pub(crate) fn check_given(
        &self,
        given: impl Fn(OutputTensor) -> Option<String>,
    ) -> Result<(), Error> {
        let refused = |why: AttentionError| Err(ErrorKind::Attention(why).into());
        if !TYPES.contains(&self.ty) {
            return refused(AttentionError::Type { ty: self.ty });
        }
        for tensor in AttentionTensor::ALL {
            let what = tensor.name();
            let modes = self.modes(tensor);
            for ((extent, mode), stride) in self
                .extents(tensor)
                .into_iter()
                .zip(modes)
                .zip(self.strides[tensor as usize])
            {
                check_extent(mode, extent)?;
                if mode == MODES[3] && stride != 1 && extent > 1 {
                    return refused(AttentionError::Feature { what, stride });
                }
                check_stride((what, mode), extent, stride)?;
            }
        }
        let [batch, heads, queries, _] = self.extents(AttentionTensor::O);
        let sums = [batch, heads, queries].into_iter().zip(self.sum_strides);
        let sums = sums.zip(MODES).filter(|_| self.log_sum_exp);
        let sums = sums.map(|((extent, stride), mode)| (LOG_SUM_EXP, mode, extent, stride));
        let sinks = self.sinks.iter();
        let sinks = sinks.map(|stride| ("the sinks", MODES[1], self.heads[0], *stride));
        for (what, mode, extent, stride) in sums.chain(sinks) {
            check_stride((what, mode), extent, stride)?;
        }
        if let Sequences::Paged { .. } = self.sequences[0] {
            return refused(AttentionError::PagedQueries);
        }
        if let Sequences::Paged {
            rows,
            entries,
            strides,
            ..
        } = self.sequences[1]
        {
            let extents = [("the batch", self.batch), ("entries of the table", entries)];
            for ((mode, extent), stride) in extents.into_iter().zip(strides) {
                check_extent(mode, extent)?;
                check_stride(("the table of pages", mode), extent, stride)?;
            }
            let (least, most) = (pages::STEP, pages::MOST_ROWS);
            if !(least..=most).contains(&rows) || rows % least != 0 {
                return refused(AttentionError::Page { rows, least, most });
            }
        }
        let rows = self.sequences.map(|of| match of {
            Sequences::Batch => 0,
            Sequences::Packed { rows } | Sequences::Paged { rows, .. } => rows,
        });
        let lengths = self.lengths.into_iter().chain(rows);
        let names = ["queries", "keys", "rows of queries", "rows of keys"];
        check_extent("the batch", self.batch)?;
        for (what, length) in names.into_iter().zip(lengths) {
            let most = MOST_LENGTH;
            if !(0..=most).contains(&length) {
                return refused(AttentionError::Length { what, length, most });
            }
        }
        if let Sequences::Paged {
            pages,
            rows,
            entries,
            ..
        } = self.sequences[1]
        {
            let most = self.lengths[1];
            if most > entries.saturating_mul(rows) {
                return refused(AttentionError::Room {
                    entries,
                    rows,
                    most,
                });
            }
            if pages == 0 && most > 0 {
                return refused(AttentionError::Pool { most });
            }
        }
        let [heads, of_keys] = self.heads;
        if of_keys == 0 && heads > 0 || of_keys > 0 && heads % of_keys != 0 {
            return refused(AttentionError::Heads { heads, of_keys });
        }
        if self.features[0] == 0 {
            let can = sizes(&HEADS);
            return refused(AttentionError::NoFeatures { can });
        }
        for output in [OutputTensor::O, OutputTensor::LogSumExp] {
            if self.is_nothing() || (output == OutputTensor::LogSumExp && !self.log_sum_exp) {
                continue;
            }
            let layout = self.output(output)?;
            if !layout.is_injective()? {
                return refused(AttentionError::Twice {
                    what: output.name(),
                    modes: still(&layout),
                    layout: given(output).unwrap_or_else(|| layout.to_string()),
                });
            }
        }
        let numbers = [
            ("scale", Some(self.scale), FACTORS),
            ("softcap", self.softcap, CAPS),
        ];
        for (what, value, range) in numbers {
            if let Some(value) = value
                && !range.contains(&value)
            {
                return refused(AttentionError::Number {
                    what,
                    value,
                    least: *range.start(),
                    most: *range.end(),
                });
            }
        }
        Ok(())
    }
}

/// `attention bf16, batch 2, heads 8 on 2, 100 queries, 300 keys, features 64, causal, scale 0.125`
impl fmt::Display for AttentionProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AttentionProblem {
            ty,
            batch,
            heads: [heads, of_keys],
            lengths: [queries, keys],
            features: [inner, outer],
            mask,
            scale,
            ..
        } = self;
        write!(f, "attention {ty}, batch {batch}, heads {heads}")?;
        if heads != of_keys {
            write!(f, " on {of_keys}")?;
        }
        let sides = [(queries, "queries"), (keys, "keys")];
        for ((length, what), of) in sides.into_iter().zip(self.sequences) {
            match of {
                Sequences::Batch => write!(f, ", {length} {what}")?,
                Sequences::Packed { rows } => {
                    write!(f, ", up to {length} {what} in {rows} rows")?;
                }
                Sequences::Paged { pages, rows, .. } => {
                    write!(f, ", up to {length} {what} in {pages} pages of {rows}")?;
                }
            }
        }
        write!(f, ", features {inner}")?;
        if inner != outer {
            write!(f, " and {outer}")?;
        }
        write!(f, ", {mask}, scale {scale}")?;
        if let Some(cap) = self.softcap {
            write!(f, ", softcap {cap}")?;
        }
        if self.log_sum_exp {
            f.write_str(", log-sum-exp")?;
        }
        if self.sinks.is_some() {
            f.write_str(", sinks")?;
        }
        Ok(())
    }
}

/// An output of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputTensor {
    O,
    LogSumExp,
}

impl OutputTensor {
    fn name(self) -> &'static str {
        match self {
            OutputTensor::O => AttentionTensor::O.name(),
            OutputTensor::LogSumExp => LOG_SUM_EXP,
        }
    }
}

/// The modes of a layout that have several coordinates, and the stride 0 along some of them.
fn still(layout: &Layout) -> Vec<usize> {
    let modes = layout.modes().enumerate();
    let stays = |mode: &Layout| {
        let leaves = mode.leaves().iter();
        leaves
            .filter(|leaf| leaf.extent.value() > 1)
            .any(|leaf| leaf.stride.as_int().is_some_and(|of| of.value() == 0))
    };
    let modes = modes.filter(|(_, mode)| stays(mode));
    modes.map(|(i, _)| i).collect()
}

/// The log-sum-exp in errors.
pub(crate) const LOG_SUM_EXP: &str = "the log-sum-exp";

/// The names of the modes of a tensor.
pub(crate) const MODES: [&str; 4] = ["batch", "heads", "sequence length", "features"];

/// The same of K and V in pages.
const PAGED_MODES: [&str; 4] = ["pages", "heads", "rows of a page", "features"];

/// The largest number of queries, of keys, and of each side of a window: their sums fit 32 bits.
pub(crate) const MOST_LENGTH: i64 = 1 << 28;

/// The factors of scores: their products with `log2(e)` are normal numbers of f32.
const FACTORS: RangeInclusive<f32> = 1e-30..=1e30;

/// The caps of scores. A capped score is `cap tanh(x)`, and the kernels' hyperbolic tangent is within 2^-21: below this bound, a score is
/// within 2^-11. A larger cap would flatten small scores, down to 0.
const CAPS: RangeInclusive<f32> = 1e-30..=1024.0;

/// The types that attention is computed in.
pub(crate) const TYPES: [Ty; 2] = [Ty::F16, Ty::Bf16];

/// Checks the stride of a mode of a tensor; that of a mode of one element counts for nothing.
fn check_stride(
    (what, mode): (&'static str, &'static str),
    extent: i64,
    stride: i64,
) -> Result<(), Error> {
    if extent <= 1 || (0..=MOST).contains(&stride) {
        return Ok(());
    }
    let most = MOST;
    let why = AttentionError::Stride {
        what,
        mode,
        stride,
        most,
    };
    Err(ErrorKind::Attention(why).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> AttentionProblem {
        AttentionProblem::new(Ty::F16, 2, [4, 2], [3, 5], [64, 64])
    }

    #[test]
    fn refused_problems_say_what_would_be_right() {
        assert_eq!(problem().check(), Ok(()));
        let refused = |change: &dyn Fn(&mut AttentionProblem)| {
            let mut problem = problem();
            change(&mut problem);
            problem.check().unwrap_err().to_string()
        };
        let sentences = [
            refused(&|p| p.ty = Ty::F32),
            refused(&|p| p.heads = [4, 0]),
            refused(&|p| p.lengths[1] = -1),
            refused(&|p| p.lengths[0] = MOST_LENGTH + 1),
            refused(&|p| p.strides[1][3] = 2),
            refused(&|p| p.strides[2][0] = -640),
            refused(&|p| p.strides[3][1] = 0),
            refused(&|p| p.scale = 0.0),
            refused(&|p| p.softcap = Some(f32::INFINITY)),
            refused(&|p| p.softcap = Some(1025.0)),
            refused(&|p| p.softcap = Some(-30.0)),
            refused(&|p| p.sinks = Some(-1)),
            refused(&|p| (p.log_sum_exp, p.sum_strides) = (true, [12, 3, -1])),
            refused(&|p| (p.log_sum_exp, p.sum_strides) = (true, [MOST + 1, 3, 1])),
            refused(&|p| (p.features[0], p.scale) = (0, f32::INFINITY)),
            refused(&|p| p.features[0] = 0),
            refused(&|p| p.strides[3][0] = 64),
            refused(&|p| (p.log_sum_exp, p.sum_strides) = (true, [12, 0, 0])),
            refused(&|p| {
                p.sequences[0] = Sequences::Packed { rows: 3 };
                p.strides[3] = [0, 64, 0, 1];
            }),
        ];
        assert_eq!(
            sentences,
            [
                "attention of f32: Q, K, V and O must be f16 or bf16",
                "Q has 4 heads and K has 0: the heads of Q must be a multiple of those of K",
                "sequence length is -1: it must be 0 to 2147352576",
                "268435457 queries: there must be 0 to 268435456",
                "the features of K have the stride 2: it must be 1",
                "the stride of V along batch is -640: it must be 0 to 2147483647",
                "O (2,4,3,64):(768,0,64,1) has one element at several coordinates, since its mode 1 has the stride 0: which value \
                 stays would be a race",
                "scale is 0: it must be 1e-30 to 1e30",
                "softcap is inf: it must be 1e-30 to 1024.0",
                "softcap is 1025: it must be 1e-30 to 1024.0",
                "softcap is -30: it must be 1e-30 to 1024.0",
                "the stride of the sinks along heads is -1: it must be 0 to 2147483647",
                "the stride of the log-sum-exp along sequence length is -1: it must be 0 to 2147483647",
                "the stride of the log-sum-exp along batch is 2147483648: it must be 0 to 2147483647",
                "Q and K have 0 features: kernels take heads of 64, 96, 128, 192 with 128 of V, 192 or 256 features",
                "Q and K have 0 features: kernels take heads of 64, 96, 128, 192 with 128 of V, 192 or 256 features",
                "O (2,4,3,64):(64,192,64,1) has one element at several coordinates: which value stays would be a race",
                "the log-sum-exp (2,4,3):(12,0,0) has one element at several coordinates, since its modes 1 and 2 have the stride 0: \
                 which value stays would be a race",
                "O (3,4,64):(0,64,1) has one element at several coordinates, since its mode 0 has the stride 0: which value stays \
                 would be a race",
            ]
        );
    }

    #[test]
    fn refused_pages_say_what_would_be_right() {
        let of = |pages, entries, most, strides| {
            let mut problem = problem();
            problem.lengths[1] = most;
            let rows = 16;
            problem.sequences[1] = Sequences::Paged {
                pages,
                rows,
                entries,
                strides,
            };
            problem
        };
        let whole = of(7, 3, 48, [3, 1]);
        assert_eq!(whole.check(), Ok(()));
        assert_eq!(whole.extents(AttentionTensor::K), [7, 2, 16, 64]);
        assert_eq!(
            whole.to_string(),
            "attention f16, batch 2, heads 4 on 2, 3 queries, up to 48 keys in 7 pages of 16, features 64, full, scale 0.125"
        );
        let mut of_queries = whole;
        of_queries.sequences.swap(0, 1);
        let mut wide = whole;
        wide.strides[1][0] = -1;
        let of_rows = |rows| {
            let mut problem = whole;
            let (pages, entries, strides) = (7, 3, [3, 1]);
            problem.sequences[1] = Sequences::Paged {
                pages,
                rows,
                entries,
                strides,
            };
            problem
        };
        let refused = [
            of(7, 3, 49, [3, 1]),
            of(7, 0, 20, [3, 1]),
            of(0, 3, 1, [3, 1]),
            of(-1, 3, 1, [3, 1]),
            of(7, -3, 1, [3, 1]),
            of(7, i64::MAX, 1, [3, 1]),
            of(7, 3, 48, [-3, 1]),
            of_queries,
            wide,
            of_rows(12),
            of_rows(0),
            of_rows(1 << 17),
        ];
        assert_eq!(
            refused.map(|problem| problem.check().unwrap_err().to_string()),
            [
                "the table has 3 pages of 16 rows for each sequence, 48 keys, and the largest number of keys (`most`) is 49: it \
                 must be at most 48, or the table must have 4 pages",
                "the table has 0 pages of 16 rows for each sequence, 0 keys, and the largest number of keys (`most`) is 20: it \
                 must be at most 0, or the table must have 2 pages",
                "the pool has no pages, and the largest number of keys (`most`) is 1: it must be 0, or the pool must have a page",
                "pages is -1: it must be 0 to 2147352576",
                "entries of the table is -3: it must be 0 to 2147352576",
                "entries of the table is 9223372036854775807: it must be 0 to 2147352576",
                "the stride of the table of pages along the batch is -3: it must be 0 to 2147483647",
                "the queries lie in pages: only keys and values do",
                "the stride of K along pages is -1: it must be 0 to 2147483647",
                "pages of 12 rows: kernels take pages of 16 to 65536 rows, in multiples of 16",
                "pages of 0 rows: kernels take pages of 16 to 65536 rows, in multiples of 16",
                "pages of 131072 rows: kernels take pages of 16 to 65536 rows, in multiples of 16",
            ]
        );
    }

    #[test]
    fn empty_problems_are_checked_too() {
        let empty = AttentionProblem::new(Ty::F16, 0, [4, 2], [3, 5], [64, 64]);
        assert_eq!((empty.check(), empty.is_nothing()), (Ok(()), true));
        let no_keys = AttentionProblem::new(Ty::F16, 1, [4, 2], [3, 0], [64, 64]);
        assert_eq!((no_keys.check(), no_keys.is_nothing()), (Ok(()), false));
    }

    /// The ranges against the definition, key by key.
    #[test]
    fn a_mask_is_the_keys_of_its_definition() {
        let windows = (0..4).flat_map(|l| (0..4).map(move |r| (l, r)));
        let windows = windows.map(|(left, right)| Mask::Window { left, right });
        let masks: Vec<Mask> = windows.chain([Mask::Full, Mask::Causal]).collect();
        let mut n = 0;
        for lengths @ [queries, keys] in (0..6).flat_map(|q| (0..6).map(move |k| [q, k])) {
            for (query, mask) in (0..queries).flat_map(|i| masks.iter().map(move |m| (i, *m))) {
                let place = query + keys - queries;
                for key in -3..keys + 3 {
                    let sees = match mask {
                        Mask::Full => true,
                        Mask::Causal => key <= place,
                        Mask::Window { left, right } => {
                            place - i64::from(left) <= key && key <= place + i64::from(right)
                        }
                    };
                    let is_key = (0..keys).contains(&key);
                    let found = mask.keys(query, lengths).contains(&key);
                    assert_eq!(found, sees && is_key, "{mask} {query} {lengths:?} {key}");
                    n += 1;
                }
            }
        }
        println!("law a mask is the keys of its definition: {n} cases");
    }
}
