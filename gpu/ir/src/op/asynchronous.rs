//! Groups of asynchronous copies and products (PTX ISA 9.7.9.25 and 9.7.15).

use crate::needs::Needs;
use crate::operand::Address;
use crate::row::{Cohort, Row};

/// Instructions that commit or wait for asynchronous copies and products. The copies and products themselves are atoms.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: a the barrier's address, pending the groups that may be left"
)]
pub enum Async {
    /// `cp.async.mbarrier.arrive.noinc`
    CpAsyncArrive { a: Address, noinc: bool },
    /// `cp.async.commit_group`
    CpAsyncCommit,
    /// `cp.async.wait_group`
    CpAsyncWait { pending: u32 },
    /// `cp.async.bulk.commit_group`
    BulkCommit,
    /// `cp.async.bulk.wait_group`, of the reads only where `read`.
    BulkWait { pending: u32, read: bool },
    /// `wgmma.fence`
    WgmmaFence,
    /// `wgmma.commit_group`
    WgmmaCommit,
    /// `wgmma.wait_group`
    WgmmaWait { pending: u32 },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

impl Async {
    /// The row of the instruction.
    pub(crate) fn row(&self) -> Row<'_> {
        let wgmma = |mnemonic: &str, pending: String| {
            Row::new(
                format!("{mnemonic}{pending}"),
                format!("{mnemonic}.sync.aligned{pending}"),
            )
            .needs(Needs::WARPGROUP)
            .cohort(Some(Cohort::Warp))
        };
        match self {
            Async::CpAsyncArrive { a, noinc } => {
                let noinc = if *noinc { ".noinc" } else { "" };
                let mnemonic = format!("cp.async.mbarrier.arrive{noinc}");
                let opcode = format!("{mnemonic}.shared.b64");
                Row::new(mnemonic, opcode).at(*a).needs(Needs::AMPERE)
            }
            Async::CpAsyncCommit => {
                Row::new("cp.async.commit_group", "cp.async.commit_group").needs(Needs::AMPERE)
            }
            Async::CpAsyncWait { pending } => {
                let mnemonic = format!("cp.async.wait_group {pending}");
                Row::new(mnemonic.clone(), mnemonic).needs(Needs::AMPERE)
            }
            Async::BulkCommit => Row::new("bulk.commit_group", "cp.async.bulk.commit_group")
                .needs(Needs::HOPPER_ASYNC),
            Async::BulkWait { pending, read } => {
                let read = if *read { ".read" } else { "" };
                let mnemonic = format!("bulk.wait_group{read} {pending}");
                let text = format!("cp.async.{mnemonic}");
                Row::new(mnemonic, text).needs(Needs::HOPPER_ASYNC)
            }
            Async::WgmmaFence => wgmma("wgmma.fence", String::new()),
            Async::WgmmaCommit => wgmma("wgmma.commit_group", String::new()),
            Async::WgmmaWait { pending } => wgmma("wgmma.wait_group", format!(" {pending}")),
        }
    }
}
