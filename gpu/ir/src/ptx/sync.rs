//! Barriers, fences, shuffles, and what belongs to a warp.

use colex_atom::Arch;

use super::memory::space_word;
use super::names::{Lines, predicate};
use crate::{BarrierOp, ClusterOrder, Op, Operand, RegType, Scope, Type, VoteMode};

impl Lines<'_> {
    /// Writes a synchronizing instruction; false if it is of another kind.
    pub(super) fn sync(&mut self, op: &Op) -> bool {
        let fixed = match op {
            Op::ClusterArrive {
                order: ClusterOrder::Release,
            } => "barrier.cluster.arrive.aligned;",
            Op::ClusterArrive {
                order: ClusterOrder::Relaxed,
            } => "barrier.cluster.arrive.relaxed.aligned;",
            Op::ClusterWait => "barrier.cluster.wait.aligned;",
            Op::CpAsyncCommit => "cp.async.commit_group;",
            Op::BulkCommit => "cp.async.bulk.commit_group;",
            Op::WgmmaFence => "wgmma.fence.sync.aligned;",
            Op::WgmmaCommit => "wgmma.commit_group.sync.aligned;",
            Op::GridDependency { wait: true } => "griddepcontrol.wait;",
            Op::GridDependency { wait: false } => "griddepcontrol.launch_dependents;",
            Op::Trap => "trap;",
            _ => return self.warp(op) || self.mbarrier(op) || self.counted(op),
        };
        self.push(fixed.to_string());
        true
    }

    /// What lanes of a warp do together.
    fn warp(&mut self, op: &Op) -> bool {
        match op {
            Op::Shuffle {
                mode,
                d,
                p,
                a,
                lane,
                clamp,
                mask,
            } => {
                let a = self.operand(*a, d.ty.untyped());
                let [lane, clamp] = [lane, clamp].map(|operand| self.operand(*operand, Type::B32));
                let mask = self.mask(*mask);
                let p = p.map_or(String::new(), |p| format!("|{p}"));
                self.push(format!(
                    "shfl.sync.{}.b32 {d}{p}, {a}, {lane}, {clamp}, {mask};",
                    mode.ptx()
                ));
            }
            Op::Vote { mode, d, p, mask } => {
                let mask = self.mask(*mask);
                let ty = if *mode == VoteMode::Ballot {
                    "b32"
                } else {
                    "pred"
                };
                self.push(format!(
                    "vote.sync.{}.{ty} {d}, {}, {mask};",
                    mode.ptx(),
                    predicate(*p)
                ));
            }
            Op::Redux { op, ty, d, a, mask } => {
                let a = self.operand(*a, *ty);
                let mask = self.mask(*mask);
                let ty = match op {
                    crate::BinaryOp::And | crate::BinaryOp::Or | crate::BinaryOp::Xor => {
                        "b32".to_string()
                    }
                    _ => ty.to_string(),
                };
                self.push(format!("redux.sync.{}.{ty} {d}, {a}, {mask};", op.ptx()));
            }
            Op::Elect { p, mask } => {
                let mask = self.mask(*mask);
                self.push(format!("elect.sync _|{p}, {mask};"));
            }
            Op::ActiveMask { d } => self.push(format!("activemask.b32 {d};")),
            Op::WarpSync { mask } => {
                let mask = self.mask(*mask);
                self.push(format!("bar.warp.sync {mask};"));
            }
            _ => return false,
        }
        true
    }

    /// A set of lanes.
    fn mask(&mut self, mask: Operand) -> String {
        match mask {
            Operand::Int(mask) if (0..=0xffff_ffff).contains(&mask) => format!("{mask:#010x}"),
            _ => self.operand(mask, Type::B32),
        }
    }

    fn mbarrier(&mut self, op: &Op) -> bool {
        match op {
            Op::MbarrierInit { a, count } => {
                let count = self.operand(*count, Type::U32);
                let a = self.address(*a);
                self.push(format!("mbarrier.init.shared.b64 [{a}], {count};"));
            }
            Op::MbarrierInval { a } => {
                let a = self.address(*a);
                self.push(format!("mbarrier.inval.shared.b64 [{a}];"));
            }
            Op::MbarrierArrive {
                space,
                a,
                count,
                expect,
            } => {
                let word = if expect.is_some() { ".expect_tx" } else { "" };
                let number = expect.or(*count).map(|n| self.operand(n, Type::U32));
                let number = number.map_or(String::new(), |n| format!(", {n}"));
                let (space, a) = (space_word(*space), self.address(*a));
                self.push(format!(
                    "mbarrier.arrive{word}{space}.b64 _, [{a}]{number};"
                ));
            }
            Op::MbarrierExpect { space, a, bytes } => {
                let bytes = self.operand(*bytes, Type::U32);
                let (space, a) = (space_word(*space), self.address(*a));
                self.push(format!(
                    "mbarrier.expect_tx.relaxed.cta{space}.b64 [{a}], {bytes};"
                ));
            }
            Op::MbarrierTry {
                test,
                p,
                a,
                parity,
                scope,
            } => {
                let word = if *test { "test_wait" } else { "try_wait" };
                let scope = match scope {
                    Scope::Cta => String::new(),
                    scope => format!(".acquire.{}", scope.ptx()),
                };
                let parity = self.operand(*parity, Type::U32);
                let a = self.address(*a);
                self.push(format!(
                    "mbarrier.{word}.parity{scope}.shared.b64 {p}, [{a}], {parity};"
                ));
            }
            _ => return false,
        }
        true
    }

    /// `mbarrier.try_wait` in a loop; before Hopper, `test_wait`.
    pub(super) fn mbarrier_wait(&mut self, op: &Op, label: &str) -> bool {
        let Op::MbarrierWait { a, parity } = op else {
            return false;
        };
        let word = if self.kernel.target < Arch::Sm90 {
            "test_wait"
        } else {
            "try_wait"
        };
        let parity = self.operand(*parity, Type::U32);
        let (a, p) = (self.address(*a), self.scratch(RegType::Pred));
        self.push(format!("{label}:"));
        self.push(format!(
            "mbarrier.{word}.parity.shared.b64 {p}, [{a}], {parity};"
        ));
        self.push(format!("@!{p} bra {label};"));
        true
    }

    /// What has a number in it.
    fn counted(&mut self, op: &Op) -> bool {
        let line = match op {
            Op::Barrier { op, id, threads } => {
                let id = self.operand(*id, Type::U32);
                let threads = threads.map(|n| self.operand(n, Type::U32));
                let threads = threads.map_or(String::new(), |n| format!(", {n}"));
                let word = match op {
                    BarrierOp::Sync => "sync",
                    BarrierOp::Arrive => "arrive",
                };
                format!("bar.{word} {id}{threads};")
            }
            Op::Fence(kind) => format!("{};", kind.ptx()),
            Op::CpAsyncArrive { a, noinc } => {
                let noinc = if *noinc { ".noinc" } else { "" };
                let a = self.address(*a);
                format!("cp.async.mbarrier.arrive{noinc}.shared.b64 [{a}];")
            }
            Op::CpAsyncWait { pending } => format!("cp.async.wait_group {pending};"),
            Op::BulkWait { pending, read } => {
                let read = if *read { ".read" } else { "" };
                format!("cp.async.bulk.wait_group{read} {pending};")
            }
            Op::WgmmaWait { pending } => format!("wgmma.wait_group.sync.aligned {pending};"),
            Op::SetMaxReg { increase, count } => {
                let word = if *increase { "inc" } else { "dec" };
                format!("setmaxnreg.{word}.sync.aligned.u32 {count};")
            }
            Op::NanoSleep { nanoseconds } => {
                format!("nanosleep.u32 {};", self.operand(*nanoseconds, Type::U32))
            }
            _ => return false,
        };
        self.push(line);
        true
    }
}
