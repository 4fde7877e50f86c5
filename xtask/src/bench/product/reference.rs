//! What a product must be: cuBLASLt's result, and elements that the host computes where ours differs from it.
//!
//! cuBLASLt may add parts of K in the type of C: of 38 x 64 x 12680 in bf16, its result was wrong by 2.4e-2, and ours by 3.9e-3.

use std::fmt;

use colex_gpu::kernels::{GemmElement, GemmProblem, Major, Operand};

use super::sweep::{Random, difference};

/// The largest error of a right result: the norm of what it is off over the norm of what is expected.
pub(super) const TOLERANCE: f64 = 1e-2;

/// The elements that the host computes: those that differ the most, and as many that are drawn.
const ELEMENTS: usize = 64;

/// The numbers of A and B, as the host wrote them.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a, T> {
    pub(super) problem: &'a GemmProblem,
    /// The numbers that fill the memory of A and B, again and again.
    pub(super) block: &'a [T],
    /// Where B begins in that memory. A begins at 0.
    pub(super) b: usize,
    /// The numbers that C repeats before the product, if it is read.
    pub(super) before: Option<&'a [f64]>,
}

/// Elements of C with their numbers in memory.
pub(super) struct Sampled<'a, C> {
    pub(super) places: &'a [usize],
    pub(super) values: &'a [C],
}

/// How far a result is off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Errors {
    /// From cuBLASLt's.
    of_library: f64,
    /// From the host's elements, and cuBLASLt's result from them.
    of_host: [f64; 2],
}

impl Errors {
    /// Whether the result is right: the host decides.
    pub(super) fn are_small(&self) -> bool {
        self.of_host[0] <= TOLERANCE
    }

    /// Whether cuBLASLt's result is wrong.
    pub(super) fn is_library_wrong(&self) -> bool {
        let [_, library] = self.of_host;
        library.is_nan() || library > TOLERANCE
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ours, library] = self.of_host;
        write!(
            f,
            "{:.1e} off from cuBLASLt's first result; of elements that the host computes {ours:.1e}, and that result {library:.1e}",
            self.of_library
        )
    }
}

impl<T: GemmElement> Factors<'_, T> {
    /// An element of C in double precision, and the square of the size that it has by chance: the sum of the squares of its products.
    fn exact(&self, place: usize) -> (f64, f64) {
        let GemmProblem {
            m, n, k, majors, ..
        } = *self.problem;
        let [m, n, k] = [m, n, k].map(|extent| extent as usize);
        let (i, j) = match majors[Operand::C as usize] {
            Major::First => (place % m, place / m),
            Major::Second => (place / n, place % n),
        };
        let at = |operand: Operand, row: usize, rows: usize, p: usize| {
            let within = match majors[operand as usize] {
                Major::First => row + p * rows,
                Major::Second => row * k + p,
            };
            let begin = if operand == Operand::B { self.b } else { 0 };
            self.block[(begin + within) % self.block.len()].to_f64()
        };
        let before = self.before.map_or(0.0, |all| all[place % all.len()]);
        let read = self.problem.beta * before;
        (0..k).fold((read, read * read), |(sum, squares), p| {
            let product = at(Operand::A, i, m, p) * at(Operand::B, j, n, p);
            (sum + product, squares + product * product)
        })
    }

    /// Compares a result with cuBLASLt's, and both with the host: at the elements in which they differ the most, and at drawn ones.
    pub(super) fn compare<C: GemmElement>(&self, found: &Sampled<'_, C>, library: &[C]) -> Errors {
        let values = found.values;
        let apart = |i: &usize| {
            let apart = (values[*i].to_f64() - library[*i].to_f64()).abs();
            if apart.is_nan() { f64::INFINITY } else { apart }
        };
        let mut numbers: Vec<usize> = (0..values.len()).collect();
        let most = ELEMENTS.min(numbers.len());
        if most < numbers.len() {
            numbers.select_nth_unstable_by(most, |x, y| apart(y).total_cmp(&apart(x)));
        }
        numbers.truncate(most);
        let mut random = Random::new(values.len() as u64, 3);
        numbers.extend((0..ELEMENTS).map(|_| random.below(values.len() as u64) as usize));
        let (mut off, mut norm) = ([0.0; 2], 0.0);
        for i in numbers {
            let (exact, squares) = self.exact(found.places[i]);
            for (off, value) in off.iter_mut().zip([values[i], library[i]]) {
                *off += (value.to_f64() - exact).powi(2);
            }
            norm += (exact * exact).max(squares);
        }
        Errors {
            of_library: difference(values, library),
            of_host: off.map(|off| (off / norm.max(f64::MIN_POSITIVE)).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every order of the matrices: a right result is right regardless of what the library says, and one wrong element is found although it is
    /// one of thousands, where the library has it right.
    #[test]
    fn law_the_host_decides_where_results_differ() {
        let block: Vec<f32> = (0..997).map(|i| (i * 37 % 64) as f32 - 31.5).collect();
        let before: Vec<f64> = (0..613).map(|i| f64::from(i * 29 % 64) - 31.5).collect();
        let mut cases = 0;
        for bits in 0..8 {
            for [m, n, k] in [[1, 1, 1], [7, 5, 9], [64, 50, 33], [3, 1000, 2]] {
                let mut problem = GemmProblem::new(m, n, k).beta(0.5);
                problem.majors = [0, 1, 2].map(|i| match (bits >> i) & 1 {
                    0 => Major::Second,
                    _ => Major::First,
                });
                let b = (m * k + 100) as usize;
                let factors = Factors {
                    problem: &problem,
                    block: &block,
                    b,
                    before: Some(&before),
                };
                let places: Vec<usize> = (0..(m * n) as usize).collect();
                // By rows and columns, as the issue of a product says it.
                let number =
                    |major: Major, [row, column]: [i64; 2], [rows, columns]: [i64; 2]| match major {
                        Major::First => row + column * rows,
                        Major::Second => row * columns + column,
                    }
                        as usize;
                let [of_a, of_b, of_c] = problem.majors;
                let mut right = vec![0.0; places.len()];
                for i in 0..m {
                    for j in 0..n {
                        let terms = (0..k).map(|p| {
                            let x = block[number(of_a, [i, p], [m, k]) % block.len()];
                            let y = block[(b + number(of_b, [j, p], [n, k])) % block.len()];
                            x * y
                        });
                        let place = number(of_c, [i, j], [m, n]);
                        let read = 0.5 * before[place % before.len()] as f32;
                        right[place] = read + terms.sum::<f32>();
                    }
                }
                let of = |found: &[f32], library: &[f32]| {
                    let (places, values) = (&places[..], found);
                    factors.compare(&Sampled { places, values }, library)
                };
                let errors = of(&right, &right);
                assert!(errors.are_small() && !errors.is_library_wrong(), "{errors}");
                for at in [0, right.len() / 2, right.len() - 1] {
                    for value in [f32::NAN, right[at] + 40_000.0] {
                        let mut wrong = right.clone();
                        wrong[at] = value;
                        let errors = of(&wrong, &right);
                        assert!(
                            !errors.are_small() && !errors.is_library_wrong(),
                            "{errors}"
                        );
                        let errors = of(&right, &wrong);
                        assert!(errors.are_small() && errors.is_library_wrong(), "{errors}");
                        let errors = of(&wrong, &wrong);
                        // Where both are wrong in the same way, drawn elements alone could tell.
                        assert!(right.len() > 64 || !errors.are_small(), "{errors}");
                        cases += 3;
                    }
                }
            }
        }
        println!("law reference.the_host_decides: {cases} cases");
    }
}
