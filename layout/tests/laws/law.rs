//! Counting: a law says how many cases it was checked on, and that there were enough.

/// Runs `check`, which counts its cases; prints the count and fails when it is below `at_least`.
#[track_caller]
pub(crate) fn law(name: &str, noun: &str, at_least: u64, check: impl FnOnce(&mut u64)) {
    let mut cases = 0;
    check(&mut cases);
    println!("law {name}: {cases} {noun}");
    assert!(
        cases >= at_least,
        "law {name} was checked on {cases} {noun}, expected at least {at_least}"
    );
}
