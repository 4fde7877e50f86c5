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

/// Returns the same for the text of the variable.
pub fn draws_with(factor: Option<&str>, usual: usize) -> usize {
    let factor = factor.and_then(|text| text.parse::<usize>().ok());
    usual.saturating_mul(factor.unwrap_or(1).max(1))
}
