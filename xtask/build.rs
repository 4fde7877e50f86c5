//! Tells a binary that may run elsewhere the commit that it was built from. One with the tasks of the repository runs in
//! it, and asks git: otherwise each commit would build it again.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Outside of the repository there is no commit, even if the folder lies in another repository.
    let is_repository_task = std::env::var_os("CARGO_FEATURE_REPOSITORY").is_some();
    if is_repository_task || git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() {
        return;
    }
    // Cargo runs this again when the branch or its commit changes, and always while one of the files is missing.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    if let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) {
        println!("cargo::rustc-env=COLEX_BUILT_FROM={commit}");
    }
}

/// Returns what git says, if there is git and it does not fail.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
