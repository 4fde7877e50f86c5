//! How many random cases the laws of kernels draw.
//!
//! A default run draws as many as find the mistakes that the tests plant. `cargo xtask soak` draws several times as many, which finds
//! what is rare.

/// The environment variable with the factor.
pub const FACTOR: &str = "COLEX_SOAK";

/// Returns how many cases a law draws: `usual`, times the number in [`FACTOR`] if it holds one of at least 1.
///
/// ```
/// use colex_proof::soak::draws_with;
///
/// assert_eq!(draws_with(None, 20), 20);
/// assert_eq!(draws_with(Some("5"), 20), 100);
/// assert_eq!(draws_with(Some("many"), 20), 20);
/// ```
pub fn draws(usual: usize) -> usize {
    draws_with(std::env::var(FACTOR).ok().as_deref(), usual)
}

/// Returns whether a law takes the case `index` of an enumeration: each `step`-th one, and all if [`FACTOR`] holds a number above 1.
///
/// ```
/// use colex_proof::soak::takes_with;
///
/// assert_eq!((0..6).filter(|&i| takes_with(None, 3, i)).collect::<Vec<_>>(), [0, 3]);
/// assert!((0..6).all(|i| takes_with(Some("10"), 3, i)));
/// ```
pub fn takes(step: usize, index: usize) -> bool {
    takes_with(std::env::var(FACTOR).ok().as_deref(), step, index)
}

/// Returns whether laws take every case of their enumerations: [`FACTOR`] holds a number above 1.
pub fn takes_all() -> bool {
    draws(1) > 1
}

/// Returns a number made of what cases have in common, such as a type or an architecture: a law that adds it to the numbers that
/// [`takes`] is asked for takes other cases of each.
///
/// ```
/// use colex_proof::soak::share_of;
///
/// assert_eq!(["f32", "f16", "bf16"].map(|ty| share_of(ty) % 3), [2, 1, 0]);
/// ```
pub fn share_of(name: impl std::fmt::Display) -> usize {
    name.to_string().bytes().map(usize::from).sum()
}

/// Returns the same for the text of the variable.
pub fn takes_with(factor: Option<&str>, step: usize, index: usize) -> bool {
    draws_with(factor, 1) > 1 || index.is_multiple_of(step.max(1))
}

/// Returns the same for the text of the variable.
pub fn draws_with(factor: Option<&str>, usual: usize) -> usize {
    let factor = factor.and_then(|text| text.parse::<usize>().ok());
    usual.saturating_mul(factor.unwrap_or(1).max(1))
}
