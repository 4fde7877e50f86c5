//! Attention on the host, in double precision.

use ndarray::{Array3, Array4};

use super::problem::{AttentionProblem, AttentionTensor, Sequences};
use crate::gemm::problem::GemmElement;

/// What [`attention`] returns.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionOutput {
    /// (batch, head, query, feature).
    pub output: Array4<f64>,
    /// The natural logarithm of each query's sum of exponentials (batch, head, query).
    pub log_sum_exp: Array3<f64>,
}

/// Returns softmax(scale Q K^T) V in doubles: for each query the mean of the values of the keys that it sees, with the
/// weights `exp(score)` over their sum.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::attention::{AttentionProblem, Mask, reference};
///
/// // Three queries, two keys and one feature: query 0 sees no key, query 1 key 0 and query 2 both.
/// let problem = AttentionProblem::new(Ty::F16, 1, [1, 1], [3, 2], [1, 1]).mask(Mask::Causal);
/// let found = reference::attention(&problem, &[0f32, 0.0, 1.0], &[0.0, 2f32.ln()], &[3.0, 6.0]);
/// let output: Vec<f64> = found.output.iter().map(|x| (x * 1e6).round() / 1e6).collect();
/// assert_eq!(output, [0.0, 3.0, 5.0]); // 5 = (1 * 3 + 2 * 6) / 3
/// assert_eq!(found.log_sum_exp[(0, 0, 0)], f64::NEG_INFINITY);
/// assert!((found.log_sum_exp[(0, 0, 2)] - 3f64.ln()).abs() < 1e-6);
/// ```
///
/// # Panics
///
/// Panics if the problem was not checked, if its sequences are packed or lie in pages, if its heads have sinks, or if there are too few
/// elements. A packed sequence, or one in pages, is a problem of its own here.
pub fn attention<T: GemmElement>(
    problem: &AttentionProblem,
    q: &[T],
    k: &[T],
    v: &[T],
) -> AttentionOutput {
    attention_with_sinks(problem, q, k, v, &[])
}

/// Returns what [`attention`] does, for heads of Q that have a sink each: the sum of exponentials of a query has the additional
/// term `exp(sink)`, to which no value belongs.
///
/// ```
/// use colex_atom::Ty;
/// use colex_gpu::attention::{AttentionProblem, reference};
///
/// // Two heads of one query and one key: each score is 0, and each value 6.
/// let problem = AttentionProblem { sinks: Some(1), ..AttentionProblem::new(Ty::F16, 1, [2, 1], [1, 1], [1, 1]) };
/// let sinks = [0.0, 2f32.ln()];
/// let found = reference::attention_with_sinks(&problem, &[0f32, 0.0], &[1.0], &[6.0], &sinks);
/// let output: Vec<f64> = found.output.iter().map(|x| (x * 1e6).round() / 1e6).collect();
/// assert_eq!(output, [3.0, 2.0]); // 6 / (1 + 1) and 6 / (1 + 2)
/// assert!((found.log_sum_exp[(0, 1, 0)] - 3f64.ln()).abs() < 1e-6);
/// ```
///
/// # Panics
///
/// Panics if the problem was not checked, if its sequences are packed or lie in pages, or if there are too few elements.
pub fn attention_with_sinks<T: GemmElement>(
    problem: &AttentionProblem,
    q: &[T],
    k: &[T],
    v: &[T],
    sinks: &[f32],
) -> AttentionOutput {
    let is_batch = problem.sequences == [Sequences::Batch; 2];
    assert!(
        is_batch,
        "the sequences are packed or lie in pages: each is a problem of its own"
    );
    let [batch, heads, queries, outer] = problem.extents(AttentionTensor::O).map(|n| n as usize);
    let group = problem.heads[0] / problem.heads[1].max(1);
    // The vector of features at (batch, head, place) of a tensor, behind what a list holds.
    let add_row = |list: &mut Vec<f64>, tensor: AttentionTensor, elements: &[T], at: [i64; 3]| {
        let strides = problem.strides[tensor as usize];
        let first: i64 = at.iter().zip(strides).map(|(i, stride)| i * stride).sum();
        let [.., features] = problem.extents(tensor);
        let offsets = (0..features).map(|i| (first + i * strides[3]) as usize);
        list.extend(offsets.map(|at| elements[at].to_f64()));
    };
    let mut output = Array4::zeros((batch, heads, queries, outer));
    let mut log_sum_exp = Array3::from_elem((batch, heads, queries), f64::NEG_INFINITY);
    let [.., inner] = problem.extents(AttentionTensor::Q).map(|n| n as usize);
    let mut rows = output
        .as_slice_mut()
        .into_iter()
        .flat_map(|all| all.chunks_exact_mut(outer.max(1)));
    let (mut of_query, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut held = None;
    for ((batch, head, query), sum_of_row) in log_sum_exp.indexed_iter_mut() {
        let [b, h, i] = [batch, head, query].map(|x| x as i64);
        let result = rows.next().unwrap_or_default();
        // Neighbouring queries and heads have the same keys.
        if held.replace((b, h / group)) != Some((b, h / group)) {
            keys.clear();
            values.clear();
            for j in 0..problem.lengths[1] {
                add_row(&mut keys, AttentionTensor::K, k, [b, h / group, j]);
                add_row(&mut values, AttentionTensor::V, v, [b, h / group, j]);
            }
        }
        of_query.clear();
        add_row(&mut of_query, AttentionTensor::Q, q, [b, h, i]);
        let visible = problem.mask.keys(i, problem.lengths);
        let score = |j: i64| {
            let key = &keys[j as usize * inner..][..inner];
            let product: f64 = of_query.iter().zip(key).map(|(x, y)| x * y).sum();
            let scaled = product * f64::from(problem.scale);
            match problem.softcap.map(f64::from) {
                Some(cap) => cap * (scaled / cap).tanh(),
                None => scaled,
            }
        };
        let scores: Vec<f64> = visible.clone().map(score).collect();
        let sink = problem.sinks.map_or(f64::NEG_INFINITY, |stride| {
            f64::from(sinks[(h * stride) as usize])
        });
        let top = scores.iter().copied().fold(sink, f64::max);
        if top == f64::NEG_INFINITY && !scores.iter().any(|x| x.is_nan()) {
            continue;
        }
        let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
        let sum: f64 = weights.iter().sum::<f64>() + (sink - top).exp();
        *sum_of_row = top + sum.ln();
        for (j, weight) in visible.zip(weights) {
            let value = &values[j as usize * outer..][..outer];
            let share = weight / sum;
            for (total, x) in result.iter_mut().zip(value) {
                *total += share * x;
            }
        }
    }
    AttentionOutput {
        output,
        log_sum_exp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_atom::Ty;

    /// The reference of a problem of two queries and 16 keys of one feature, whose sequences lie elsewhere.
    fn of(sequences: [Sequences; 2]) -> AttentionOutput {
        let problem = AttentionProblem {
            sequences,
            ..AttentionProblem::new(Ty::F16, 1, [1, 1], [2, 16], [1, 1])
        };
        attention(&problem, &[0f32; 2], &[0.0; 16], &[1.0; 16])
    }

    #[test]
    #[should_panic(expected = "the sequences are packed or lie in pages")]
    fn packed_queries_are_no_problem_of_the_reference() {
        of([Sequences::Packed { rows: 2 }, Sequences::Batch]);
    }

    #[test]
    #[should_panic(expected = "the sequences are packed or lie in pages")]
    fn keys_in_pages_are_no_problem_of_the_reference() {
        let paged = Sequences::Paged {
            pages: 1,
            rows: 16,
            entries: 1,
            strides: [1, 1],
        };
        of([Sequences::Batch, paged]);
    }
}
