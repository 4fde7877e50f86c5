//! Barriers, fences, and other instructions that wait for threads (PTX ISA 9.7.13 and 9.7.19).

use crate::modifiers::{BarrierOp, ClusterOrder, FenceKind, Scope, Space};
use crate::needs::Needs;
use crate::operand::{Address, Operand, Reg};
use crate::row::{Cohort, EXISTS, Formula, Ptx, Row};
use crate::ty::Type;
use colex_atom::Arch;

/// A barrier, a fence, or another instruction that waits for other threads.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "fields are PTX's: a the barrier's address, p a predicate, mask the lanes"
)]
pub enum Sync {
    /// `barrier.sync` and `barrier.arrive` of a block. `threads` is a multiple of 32; without it all threads take part.
    Barrier {
        op: BarrierOp,
        id: Operand,
        threads: Option<Operand>,
    },
    /// `bar.warp.sync`
    WarpSync { mask: Operand },
    /// `barrier.cluster.arrive`
    ClusterArrive { order: ClusterOrder },
    /// `barrier.cluster.wait`
    ClusterWait,
    /// A fence.
    Fence(FenceKind),
    /// `mbarrier.init`
    MbarrierInit { a: Address, count: Operand },
    /// `mbarrier.inval`
    MbarrierInval { a: Address },
    /// `mbarrier.arrive`, on the block's own barrier or one of the cluster.
    MbarrierArrive {
        space: Space,
        a: Address,
        count: Option<Operand>,
        expect: Option<Operand>,
        /// Which threads the release reaches: those of the block, or of the cluster.
        scope: Scope,
    },
    /// `mbarrier.expect_tx`
    MbarrierExpect {
        space: Space,
        a: Address,
        bytes: Operand,
    },
    /// `mbarrier.try_wait.parity`, once (`test_wait` where `test`).
    MbarrierTry {
        test: bool,
        p: Reg,
        a: Address,
        parity: Operand,
        scope: Scope,
    },
    /// Waits until the phase of that parity has completed: `try_wait` in a loop.
    MbarrierWait { a: Address, parity: Operand },
    /// `setmaxnreg`
    SetMaxReg { increase: bool, count: u32 },
    /// `griddepcontrol`
    GridDependency { wait: bool },
    /// `nanosleep`
    NanoSleep { nanoseconds: Operand },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

/// The effect of an instruction on the threads that execute it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncEffect {
    /// They meet other threads or wait for them; the number that a barrier waits for, where the instruction holds it.
    Waits {
        /// The number of threads.
        threads: Option<i64>,
    },
    /// The registers that each of them may use change.
    Registers {
        /// Whether they increase.
        increase: bool,
        /// How many there are then.
        count: u32,
    },
    /// They go on.
    None,
}

/// The sentence on the parity of a phase.
const PARITY: &str = "a parity is 0 or 1";

/// A barrier in shared memory, as the first architecture that has them knows it.
const MBARRIER: Needs = Needs::new(Arch::Sm80, 7, 1);

impl Sync {
    /// Returns the effect of the instruction on the threads that execute it.
    ///
    /// ```
    /// use colex_ir::{Sync, SyncEffect};
    ///
    /// assert_eq!(Sync::ClusterWait.effect(), SyncEffect::Waits { threads: None });
    /// assert_eq!(Sync::GridDependency { wait: false }.effect(), SyncEffect::None);
    /// ```
    pub fn effect(&self) -> SyncEffect {
        match self {
            Sync::Barrier {
                threads: Some(Operand::Int(threads)),
                ..
            } => SyncEffect::Waits {
                threads: Some(*threads),
            },
            Sync::Barrier { .. }
            | Sync::WarpSync { .. }
            | Sync::ClusterArrive { .. }
            | Sync::ClusterWait
            | Sync::MbarrierTry { .. }
            | Sync::MbarrierWait { .. } => SyncEffect::Waits { threads: None },
            Sync::SetMaxReg { increase, count } => SyncEffect::Registers {
                increase: *increase,
                count: *count,
            },
            Sync::Fence(_)
            | Sync::MbarrierInit { .. }
            | Sync::MbarrierInval { .. }
            | Sync::MbarrierArrive { .. }
            | Sync::MbarrierExpect { .. }
            | Sync::GridDependency { .. }
            | Sync::NanoSleep { .. } => SyncEffect::None,
        }
    }

    /// The row of the instruction.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Sync::Barrier { op, id, threads } => {
                let cohort = match threads {
                    None => Cohort::Block,
                    Some(_) => Cohort::Warp,
                };
                let [mnemonic, opcode] =
                    ["barrier", "bar"].map(|word| format!("{word}.{}", op.ptx()));
                let numbers = [*id].into_iter().chain(*threads).collect();
                Row::together(cohort, mnemonic, opcode, Needs::BASE, EXISTS)
                    .s(id, Type::U32)
                    .ss(threads.as_slice(), Type::U32)
                    .same(Cohort::Warp, numbers)
            }
            Sync::WarpSync { mask } => {
                let cohort = Cohort::of_mask(*mask);
                Row::together(cohort, "barrier.warp", "bar.warp.sync", Needs::BASE, EXISTS)
                    .lanes(mask)
            }
            Sync::ClusterArrive { order } => {
                let (relaxed, needs) = match order {
                    ClusterOrder::Release => ("", Needs::HOPPER),
                    ClusterOrder::Relaxed => (".relaxed", Needs::HOPPER_ASYNC),
                };
                let mnemonic = format!("barrier.cluster.arrive{relaxed}");
                let opcode = format!("{mnemonic}.aligned");
                Row::together(Cohort::Block, mnemonic, opcode, needs, EXISTS)
            }
            Sync::ClusterWait => {
                let mnemonic = "barrier.cluster.wait";
                let opcode = "barrier.cluster.wait.aligned";
                Row::together(Cohort::Block, mnemonic, opcode, Needs::HOPPER, EXISTS)
            }
            Sync::Fence(kind) => {
                let needs = match kind {
                    FenceKind::AcqRelCta | FenceKind::AcqRelGpu | FenceKind::AcqRelSys => {
                        Needs::BASE
                    }
                    FenceKind::AcqRelCluster => Needs::HOPPER,
                    FenceKind::ProxyAsyncShared
                    | FenceKind::ProxyAsyncGlobal
                    | FenceKind::ProxyAsync
                    | FenceKind::MbarrierInit => Needs::HOPPER_ASYNC,
                };
                Row::alone(kind.ptx(), kind.ptx(), needs, EXISTS)
            }
            Sync::MbarrierInit { a, count } => Row::alone(
                "mbarrier.init",
                "mbarrier.init.shared.b64",
                Needs::AMPERE,
                EXISTS,
            )
            .at(*a)
            .s(count, Type::U32),
            Sync::MbarrierInval { a } => Row::alone(
                "mbarrier.inval",
                "mbarrier.inval.shared.b64",
                Needs::AMPERE,
                EXISTS,
            )
            .at(*a),
            Sync::MbarrierArrive {
                space,
                a,
                count,
                expect,
                scope,
            } => {
                let modifier = if expect.is_some() { ".expect_tx" } else { "" };
                let release = match scope {
                    Scope::Cta => "",
                    Scope::Cluster | Scope::Gpu | Scope::Sys => ".release.cluster",
                };
                let needs = match (space, count, expect) {
                    _ if *scope != Scope::Cta => Needs::HOPPER_ASYNC,
                    (Space::Cluster, ..) | (.., Some(_)) => Needs::HOPPER_ASYNC,
                    (_, Some(_), _) => Needs::HOPPER,
                    _ => MBARRIER,
                };
                let row = Row::alone(
                    format!("mbarrier.arrive{modifier}{}", space.suffix()),
                    format!(
                        "mbarrier.arrive{modifier}{release}{}.b64 _,",
                        space.dotted()
                    ),
                    needs,
                    EXISTS,
                )
                .at(*a);
                let row = match expect {
                    None => row.ss(count.as_slice(), Type::U32),
                    // With expected bytes it counts one arrival.
                    Some(_) => row.implied(count.as_slice(), Type::U32),
                };
                row.ss(expect.as_slice(), Type::U32)
            }
            Sync::MbarrierExpect { space, a, bytes } => Row::alone(
                format!("mbarrier.expect_tx{}", space.suffix()),
                format!("mbarrier.expect_tx.relaxed.cta{}.b64", space.dotted()),
                Needs::HOPPER_ASYNC,
                EXISTS,
            )
            .at(*a)
            .s(bytes, Type::U32),
            Sync::MbarrierTry {
                test,
                p,
                a,
                parity,
                scope,
            } => {
                let (mnemonic, in_block) = if *test {
                    ("mbarrier.test_wait", MBARRIER)
                } else {
                    ("mbarrier.try_wait", Needs::HOPPER)
                };
                let (acquire, needs) = match scope {
                    Scope::Cta => (String::new(), in_block),
                    Scope::Cluster | Scope::Gpu | Scope::Sys => {
                        (format!(".acquire.{}", scope.ptx()), Needs::HOPPER_ASYNC)
                    }
                };
                let opcode = format!("{mnemonic}.parity{acquire}.shared.b64");
                Row::alone(mnemonic, opcode, needs, EXISTS)
                    .formula(Formula::Lane)
                    .d(p, Type::Pred)
                    .at(*a)
                    .s(parity, Type::U32)
                    .most(1, PARITY)
            }
            Sync::MbarrierWait { a, parity } => {
                let text = Ptx::Wait {
                    a: *a,
                    parity: *parity,
                };
                Row {
                    older: Some(MBARRIER),
                    ..Row::alone("mbarrier.wait", text, Needs::HOPPER, EXISTS)
                }
                .at(*a)
                .s(parity, Type::U32)
                .most(1, PARITY)
            }
            Sync::SetMaxReg { increase, count } => {
                let modifier = if *increase { "inc" } else { "dec" };
                Row::whole(
                    Cohort::Warpgroup,
                    format!("setmaxnreg.{modifier} {count}"),
                    format!("setmaxnreg.{modifier}.sync.aligned.u32 {count}"),
                    Needs::WARPGROUP,
                    EXISTS,
                )
            }
            Sync::GridDependency { wait } => {
                let mnemonic = if *wait {
                    "griddepcontrol.wait"
                } else {
                    "griddepcontrol.launch_dependents"
                };
                Row::alone(mnemonic, mnemonic, Needs::HOPPER, EXISTS)
            }
            Sync::NanoSleep { nanoseconds } => {
                let needs = Needs::new(Arch::Sm70, 6, 2);
                Row::alone("nanosleep", "nanosleep.u32", needs, EXISTS).s(nanoseconds, Type::U32)
            }
        }
    }
}
