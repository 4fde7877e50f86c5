//! `figure ratios` and `figure roofline`: what a sweep of products measured, shape by shape.
//!
//! The subject is a file of `gpu/bench`, which `cargo xtask bench gemm FILE --random N` or `--shapes FILE` wrote, a value on each
//! line: `sweep.jsonl`. `cargo xtask bench gemm --plot FILE --svg FOLDER` makes the same drawings.

use std::fs;

use super::{Body, Error};
use crate::bench::product::recorded::Recorded;
use crate::workspace;

pub(super) fn ratios(body: &Body) -> Result<String, Error> {
    Ok(read(body)?.ratios())
}

pub(super) fn roofline(body: &Body) -> Result<String, Error> {
    Ok(read(body)?.roofline())
}

fn read(body: &Body) -> Result<Recorded, Error> {
    let [file] = body.subjects()? else {
        return Err(Error::new(
            "the figure has one subject, a file of gpu/bench",
        ));
    };
    let root = workspace::root().map_err(|error| Error::new(error.to_string()))?;
    let text = fs::read_to_string(root.join("gpu/bench").join(file))
        .map_err(|error| Error::new(format!("gpu/bench/{file} cannot be read: {error}")))?;
    Recorded::parse(&text).map_err(|error| Error::new(format!("gpu/bench/{file}: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::figure::refused;

    #[test]
    fn a_file_of_another_bench_is_refused() {
        for kind in ["ratios", "roofline"] {
            assert_eq!(
                refused(kind, "gemm.json"),
                "gpu/bench/gemm.json: the first line is not JSON"
            );
            assert_eq!(
                refused(kind, "none.jsonl"),
                "gpu/bench/none.jsonl cannot be read: No such file or directory (os error 2)"
            );
            assert_eq!(
                refused(kind, "a.jsonl\nb.jsonl"),
                "the figure has one subject, a file of gpu/bench"
            );
        }
    }
}
