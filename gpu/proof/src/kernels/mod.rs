//! The cases of the library: copies, products, plans drawn over all of their fields, epilogues, attention, functions
//! of rows, expressions, reductions and gathers of fragments.

pub mod attention;
pub mod copies;
pub mod dumps;
pub mod elementwise;
pub mod epilogues;
pub mod fragments;
pub mod gathers;
pub mod gemm;
pub mod maps;
pub mod plans;
pub mod reduce;
pub mod reductions;
pub mod rowwise;
mod samples;
pub mod sequences;
pub mod top_k;
pub mod views;

use colex_ir::{Control, Kernel, Op};

pub(crate) use samples::samples;
pub use samples::{copy_samples, drawn_samples, listed_plans, pingpong_plans, product_samples};

/// Returns the claims of a kernel that a launch does not decide, for which the kernel has conditional traps: those of the
/// library's own kernels have none.
pub fn trapped(kernel: &Kernel) -> Vec<String> {
    let mut found = Vec::new();
    kernel.walk(&mut |stmt| {
        if let (Op::Control(Control::Trap), Some(id)) = (&stmt.op, stmt.claim) {
            let claim = &kernel.claims[id.0 as usize];
            let at = claim.at;
            found.push(format!(
                "{}: {}:{}: {:?} {:?}",
                kernel.name,
                at.file(),
                at.line(),
                claim.declared,
                claim.bounds
            ));
        }
    });
    found
}
