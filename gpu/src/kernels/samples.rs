//! The kernels of the library, one of each kind, for the assembler to read.

use colex_atom::Arch;
use colex_layout::Layout;

use super::launches::built;
use super::{CopyMethod, CopyPlan, Walk};
use crate::error::Error;
use crate::ir::Kernel;

/// Copies by every method, in elements of 1 to 8 bytes, for the first and the last architecture that have them.
pub(crate) fn samples() -> Result<Vec<Kernel>, Error> {
    let crossed = ["(70,45,3):(45,1,3150)", "(70,45,3):(1,70,3150)"];
    let mapped = ["(256,512,3):(512,1,131072)", "(256,512,3):(1,256,131072)"];
    let cases = [
        (CopyMethod::Flat, ["1000:1", "1000:1"]),
        (
            CopyMethod::Strided,
            ["(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)"],
        ),
        (CopyMethod::Naive, crossed),
        (CopyMethod::Padded, crossed),
        (CopyMethod::Swizzled, crossed),
        (CopyMethod::Tma, mapped),
    ];
    let mut all = Vec::new();
    for (method, layouts) in cases {
        let [source, destination] = layouts.map(|text| text.parse::<Layout>().expect("a layout"));
        let walk = Walk::new(&source, &destination)?;
        for (bytes, arch) in [1, 2, 4, 8]
            .iter()
            .flat_map(|&b| [Arch::Sm70, Arch::Sm90a].map(|a| (b, a)))
        {
            // Not every method has every width and architecture.
            if let Ok(plan) = CopyPlan::new(&walk, bytes, [0, 0], arch, method) {
                all.push(built(&plan, &plan.ordered(), arch)?.kernel.clone());
            }
        }
    }
    Ok(all)
}
