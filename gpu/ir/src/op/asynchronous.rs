//! Groups of asynchronous copies and products (PTX ISA 9.7.9.25 and 9.7.15).

use crate::needs::Needs;
use crate::operand::Address;
use crate::row::{Cohort, EXISTS, Row};

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
            let opcode = format!("{mnemonic}.sync.aligned{pending}");
            let mnemonic = format!("{mnemonic}{pending}");
            Row::together(Cohort::Warp, mnemonic, opcode, Needs::WARPGROUP, EXISTS)
        };
        let ampere = |mnemonic: String, opcode| Row::alone(mnemonic, opcode, Needs::AMPERE, EXISTS);
        let bulk = |mnemonic: String| {
            let opcode = format!("cp.async.{mnemonic}");
            Row::alone(mnemonic, opcode, Needs::HOPPER_ASYNC, EXISTS)
        };
        match self {
            Async::CpAsyncArrive { a, noinc } => {
                let noinc = if *noinc { ".noinc" } else { "" };
                let mnemonic = format!("cp.async.mbarrier.arrive{noinc}");
                let opcode = format!("{mnemonic}.shared.b64");
                ampere(mnemonic, opcode).at(*a)
            }
            Async::CpAsyncCommit => {
                let mnemonic = "cp.async.commit_group".to_string();
                ampere(mnemonic.clone(), mnemonic)
            }
            Async::CpAsyncWait { pending } => {
                let mnemonic = format!("cp.async.wait_group {pending}");
                ampere(mnemonic.clone(), mnemonic)
            }
            Async::BulkCommit => bulk("bulk.commit_group".to_string()),
            Async::BulkWait { pending, read } => {
                let read = if *read { ".read" } else { "" };
                bulk(format!("bulk.wait_group{read} {pending}"))
            }
            Async::WgmmaFence => wgmma("wgmma.fence", String::new()),
            Async::WgmmaCommit => wgmma("wgmma.commit_group", String::new()),
            Async::WgmmaWait { pending } => wgmma("wgmma.wait_group", format!(" {pending}")),
        }
    }
}
