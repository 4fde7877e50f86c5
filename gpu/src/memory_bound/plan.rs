//! What the plans of kernels that memory limits have in common: the checks of their numbers, and how they are spoken of.

use core::fmt;

use colex_atom::{Arch, Ty};

pub(crate) use crate::error::counted;
use crate::error::{Error, ErrorKind};

/// The bytes of the widest access of a thread.
pub(crate) const WIDEST: i64 = 16;

/// The lanes of a warp.
pub(crate) const WARP: i64 = 32;

/// The most threads of a block.
pub(crate) const MOST_THREADS: i64 = 1024;

/// The most blocks of a launch along its first axis.
pub(crate) const MOST_GRID: i64 = (1 << 31) - 1;

/// Whether an architecture has clusters.
pub(crate) fn has_clusters(arch: Arch) -> bool {
    arch >= Arch::Sm90
}

/// The check of a plan's numbers. Its errors name the kernel.
pub(crate) struct PlanCheck<'a> {
    pub(crate) kernel: &'a dyn fmt::Display,
    /// What the plan knows of its tensors.
    pub(crate) operands: &'a dyn fmt::Display,
}

impl PlanCheck<'_> {
    /// Checks a number that must be a power of two up to `most`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub(crate) fn power(&self, what: &'static str, found: i64, most: i64) -> Result<(), Error> {
        if (1..=most).contains(&found) && found & (found - 1) == 0 {
            return Ok(());
        }
        Err(ErrorKind::PlanPower {
            method: self.kernel.to_string(),
            what,
            found,
            most,
        }
        .into())
    }

    /// Checks a number that must be one of a list.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and the list.
    pub(crate) fn one_of(
        &self,
        what: &'static str,
        found: i64,
        can: Vec<i64>,
    ) -> Result<(), Error> {
        if can.contains(&found) {
            return Ok(());
        }
        let method = self.kernel.to_string();
        Err(ErrorKind::PlanOneOf {
            method,
            what,
            found,
            can,
        }
        .into())
    }

    /// Checks a number that must be a multiple of `step` from `least` to `most`.
    ///
    /// # Errors
    ///
    /// Returns an error that names the number, and what the kernel takes.
    pub(crate) fn number(&self, what: &'static str, found: i64, of: [i64; 3]) -> Result<(), Error> {
        let [least, most, step] = of;
        if (least..=most).contains(&found) && found % step == 0 {
            return Ok(());
        }
        Err(ErrorKind::Plan {
            method: self.kernel.to_string(),
            what,
            found,
            least,
            most,
            step,
        }
        .into())
    }

    /// Checks the elements of an access: a power of two of at most 16 bytes, and one where the elements lie apart.
    ///
    /// # Errors
    ///
    /// Returns an error that says what the kernel takes, or what accesses of several elements need.
    pub(crate) fn access(
        &self,
        (vector, ty): (i64, Ty),
        is_contiguous: bool,
        must: &'static str,
    ) -> Result<(), Error> {
        self.power("vector", vector, WIDEST * 8 / i64::from(ty.bits()))?;
        if vector > 1 && !is_contiguous {
            return self.refuse(must);
        }
        Ok(())
    }

    /// Checks the threads of a block: 32 to 1024 of them.
    ///
    /// # Errors
    ///
    /// Returns an error that says how many there may be.
    pub(crate) fn block(&self, threads: i64) -> Result<(), Error> {
        let of = [WARP, MOST_THREADS, WARP];
        self.number("number of threads of a block", threads, of)
    }

    /// Checks how much of something a launch has.
    ///
    /// # Errors
    ///
    /// Returns an error that says how much there may be.
    pub(crate) fn limit(&self, what: &'static str, found: i64, most: i64) -> Result<(), Error> {
        if found <= most {
            return Ok(());
        }
        let method = self.kernel.to_string();
        Err(ErrorKind::PlanLimit {
            method,
            what,
            found,
            most,
        }
        .into())
    }

    /// Returns the error of operands that no kernel has.
    ///
    /// # Errors
    ///
    /// Returns it always.
    pub(crate) fn refuse(&self, must: &'static str) -> Result<(), Error> {
        Err(refused_operands(self.operands, must))
    }
}

/// The error of operands that no kernel has.
pub(crate) fn refused_operands(operands: &dyn fmt::Display, must: &'static str) -> Error {
    let operands = operands.to_string();
    ErrorKind::PlanOperands { operands, must }.into()
}

/// Checks that a plan was made for the operands of a call.
///
/// # Errors
///
/// Returns an error that names both. `like` is what the plan knows, with the widths of the call: a plan may have narrower accesses.
pub(crate) fn check_operands<O: PartialEq + fmt::Display>(
    plan: &O,
    like: &O,
    call: &O,
) -> Result<(), Error> {
    if like == call {
        return Ok(());
    }
    let [plan, call] = [plan, call].map(ToString::to_string);
    Err(ErrorKind::PlanOther { plan, call }.into())
}

/// Checks that the accesses of a plan are no wider than those that the tensors of a call allow, by their addresses, strides and `by`.
///
/// # Errors
///
/// Returns an error that says how wide they may be.
pub(crate) fn check_width(
    (plan, needs_contiguous): (i64, bool),
    (call, is_contiguous): (i64, bool),
    by: &'static str,
) -> Result<(), Error> {
    if plan <= call && (is_contiguous || !needs_contiguous) {
        return Ok(());
    }
    Err(ErrorKind::PlanAccess { plan, call, by }.into())
}

/// The parts of a number; a plan that was not checked may divide by a number that is not positive.
pub(crate) fn div_up(n: i64, by: i64) -> i64 {
    (n.max(1) - 1) / by.max(1) + 1
}

/// The least power of two that is not below a number.
pub(crate) fn power_up(n: i64) -> i64 {
    (n.max(1) as u64).next_power_of_two().min(1 << 40) as i64
}

/// The product of numbers that were not checked.
pub(crate) fn product<const N: usize>(numbers: [i64; N]) -> i64 {
    numbers.into_iter().fold(1, i64::saturating_mul)
}

/// Half and twice a number.
pub(crate) fn steps(n: i64) -> [i64; 2] {
    [n / 2, n.saturating_mul(2)]
}
