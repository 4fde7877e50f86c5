//! A family of attention kernels: its default plan and limits, the kernels it builds and their launches.

use colex_atom::Arch;
use colex_device::Device;
use colex_ir::launch::Launch;
use colex_layout::Layout;
use colex_tensor::{Arg, Builder, Expr, Fragment, Index, Tensor, TensorKernel};

use super::cost::Pace;
use super::plan::AttentionPlan;
use super::problem::{AttentionProblem, MOST_LENGTH};
use super::{sm80, sm90};
use crate::error::{Error, one_of};
use crate::method::AttentionMethod;

/// The largest exponent of 2 that a row's maximum may have. Weights are `2^(a s - b)` with one rounding of `b`, which is 8 at
/// most up to here; beyond, all weights of a row may become 0 or infinite together, and the row is NaN.
const MOST_EXPONENT: f64 = 134_217_728.0;

/// The sizes of heads that the kernels take: the features of Q and K, and those of V and O.
pub(super) const HEADS: [[i64; 2]; 6] = [
    [64, 64],
    [96, 96],
    [128, 128],
    [192, 128],
    [192, 192],
    [256, 256],
];

/// `64, 192 with 128 of V or 256`
pub(super) fn sizes(features: &[[i64; 2]]) -> String {
    let each = features.iter().map(|[inner, outer]| {
        if inner == outer {
            inner.to_string()
        } else {
            format!("{inner} with {outer} of V")
        }
    });
    one_of(&each.collect::<Vec<_>>())
}

/// Marks the rows whose largest score, as an exponent of 2, is too large: their sum becomes NaN. A row without a maximum keeps its
/// sum: 0 if it has seen no key, and NaN if each of its scores is NaN, of which a maximum knows nothing.
pub(crate) fn checked_sum(top: &Expr, sum: &Expr) -> Expr {
    let is_empty = top.equals(f64::NEG_INFINITY);
    let is_beyond = top.abs().gt(MOST_EXPONENT);
    is_empty.select(sum, is_beyond.select(f64::NAN, sum))
}

/// Adds a sink to each row: `2^sink` to the sum, which is brought under the new maximum. Returns what the output must be
/// multiplied by for the new maximum.
pub(crate) fn add_sink(k: &mut Builder, [top, sum]: [&Fragment; 2], sink: &Fragment) -> Fragment {
    let new = k.map(Expr::from(top).max(sink));
    // Of a row without a key and with a sink of -inf nothing is subtracted.
    let is_empty = Expr::from(&new).equals(f64::NEG_INFINITY);
    let under = k.map(is_empty.select(0.0, &new));
    let shrink = k.map((Expr::from(top) - &under).exp2());
    let own = (Expr::from(sink) - &under).exp2();
    k.assign(sum, Expr::from(sum).fma(&shrink, own));
    k.assign(top, &new);
    shrink
}

/// The first row of a sequence and the end of its rows, by its two offsets: no more than `rows`, and `most` in all. Offsets that
/// descend are those of an empty sequence.
pub(crate) fn rows_of(
    k: &mut Builder,
    offsets: &Tensor,
    sequence: &Index,
    rows: &Index,
    most: &Index,
) -> [Index; 2] {
    let rows = k.within(rows, 0..MOST_LENGTH + 1);
    let [first, end] = [0, 1].map(|i| {
        let offset = k.gather(&offsets.elements(sequence + i));
        k.index_of(offset.regs()[0], 0..1 << 32).min(&rows)
    });
    let length = above_0(&(end - &first)).min(most);
    [first.clone(), first + length]
}

/// The larger of an index and 0.
pub(crate) fn above_0(index: &Index) -> Index {
    -((-index.clone()).min(&0.into()))
}

/// A family of kernels. Everything that depends on the family is in the file that implements it.
pub(crate) trait AttentionFamily {
    /// Returns its default plan for the operands of a plan.
    fn default_of(&self, plan: AttentionPlan) -> AttentionPlan;

    /// Returns a plan with the numbers that depend on the extents of a problem and on the multiprocessors of a device.
    fn suited_to(&self, plan: AttentionPlan, _: &AttentionProblem, _: i64) -> AttentionPlan {
        plan
    }

    /// Returns how the kernel of a plan spends its time on a device of this number of multiprocessors.
    fn pace(&self, plan: &AttentionPlan, multiprocessors: i64) -> Pace;

    /// Checks that the kernel takes the operands and the numbers of a plan on an architecture.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    fn check(&self, plan: &AttentionPlan, arch: Arch) -> Result<(), Error>;

    /// Checks that the kernel takes the extents of a problem that was checked.
    ///
    /// # Errors
    ///
    /// Returns an error that names the extent, and what the kernel takes.
    fn check_problem(&self, _: &AttentionProblem) -> Result<(), Error> {
        Ok(())
    }

    /// Builds the kernel of a plan that was checked.
    ///
    /// # Errors
    ///
    /// Returns the error of the layout algebra if a layout has no such partition.
    fn build(&self, plan: &AttentionPlan, arch: Arch) -> Result<TensorKernel, Error>;

    /// Returns the launch arguments for tensors with these layouts and addresses: Q, K, V and O, the log-sum-exp if it is an
    /// output, the sinks if there are any, and the offsets, in the modes of [`AttentionProblem::kernel_layouts`].
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel was not built for a layout.
    fn arguments<'a>(
        &self,
        of: (&AttentionPlan, &AttentionProblem),
        built: &TensorKernel,
        layouts: &'a [Layout],
        addresses: &[u64],
    ) -> Result<Vec<Arg<'a>>, Error>;

    /// Returns the grid of a launch.
    fn launch(&self, problem: &AttentionProblem, plan: &AttentionPlan, device: &Device) -> Launch;
}

impl AttentionMethod {
    /// All methods. If several take a problem, the fastest comes first.
    pub(crate) const BY_SPEED: [AttentionMethod; 2] =
        [AttentionMethod::Hopper, AttentionMethod::Ampere];

    /// Returns the family of the method.
    pub(crate) fn family(self) -> &'static dyn AttentionFamily {
        match self {
            AttentionMethod::Ampere => &sm80::AmpereAttention,
            AttentionMethod::Hopper => &sm90::HopperAttention,
        }
    }
}
