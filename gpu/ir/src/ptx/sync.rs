//! Barriers, fences, shuffles, and what belongs to a warp.

use colex_atom::Arch;

use super::memory::space_word;
use super::names::{Lines, predicate};
use crate::{
    Address, Async, BarrierOp, BinaryOp, ClusterOrder, Exchange, Operand, RegType, Scope, Sync,
    Type, VoteMode,
};

impl Lines<'_> {
    /// Writes an exchange between lanes.
    pub(super) fn exchange(&mut self, op: &Exchange) {
        match op {
            Exchange::Shuffle {
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
            Exchange::Vote { mode, d, p, mask } => {
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
            Exchange::Redux { op, ty, d, a, mask } => {
                let a = self.operand(*a, *ty);
                let mask = self.mask(*mask);
                let bitwise = [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor].contains(op);
                let ty = if bitwise { Type::B32 } else { *ty };
                self.push(format!("redux.sync.{}.{ty} {d}, {a}, {mask};", op.ptx()));
            }
            Exchange::Elect { p, mask } => {
                let mask = self.mask(*mask);
                self.push(format!("elect.sync _|{p}, {mask};"));
            }
            Exchange::ActiveMask { d } => self.push(format!("activemask.b32 {d};")),
        }
    }

    /// A set of lanes.
    fn mask(&mut self, mask: Operand) -> String {
        match mask {
            Operand::Int(mask) if (0..=0xffff_ffff).contains(&mask) => format!("{mask:#010x}"),
            Operand::Int(_) | Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => {
                self.operand(mask, Type::B32)
            }
        }
    }

    /// Writes a synchronizing instruction; the label is for one that waits in a loop.
    pub(super) fn sync(&mut self, op: &Sync, label: &mut dyn FnMut() -> String) {
        match op {
            Sync::Barrier { op, id, threads } => {
                let id = self.operand(*id, Type::U32);
                let threads = threads.map(|n| self.operand(n, Type::U32));
                let threads = threads.map_or(String::new(), |n| format!(", {n}"));
                let word = match op {
                    BarrierOp::Sync => "sync",
                    BarrierOp::Arrive => "arrive",
                };
                self.push(format!("bar.{word} {id}{threads};"));
            }
            Sync::WarpSync { mask } => {
                let mask = self.mask(*mask);
                self.push(format!("bar.warp.sync {mask};"));
            }
            Sync::ClusterArrive { order } => {
                let order = match order {
                    ClusterOrder::Release => "",
                    ClusterOrder::Relaxed => ".relaxed",
                };
                self.push(format!("barrier.cluster.arrive{order}.aligned;"));
            }
            Sync::ClusterWait => self.push("barrier.cluster.wait.aligned;".to_string()),
            Sync::Fence(kind) => self.push(format!("{};", kind.ptx())),
            Sync::MbarrierInit { a, count } => {
                let count = self.operand(*count, Type::U32);
                let a = self.address(*a);
                self.push(format!("mbarrier.init.shared.b64 [{a}], {count};"));
            }
            Sync::MbarrierInval { a } => {
                let a = self.address(*a);
                self.push(format!("mbarrier.inval.shared.b64 [{a}];"));
            }
            Sync::MbarrierArrive {
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
            Sync::MbarrierExpect { space, a, bytes } => {
                let bytes = self.operand(*bytes, Type::U32);
                let (space, a) = (space_word(*space), self.address(*a));
                self.push(format!(
                    "mbarrier.expect_tx.relaxed.cta{space}.b64 [{a}], {bytes};"
                ));
            }
            Sync::MbarrierTry {
                test,
                p,
                a,
                parity,
                scope,
            } => {
                let word = if *test { "test_wait" } else { "try_wait" };
                let scope = if *scope == Scope::Cta {
                    String::new()
                } else {
                    format!(".acquire.{}", scope.ptx())
                };
                let parity = self.operand(*parity, Type::U32);
                let a = self.address(*a);
                self.push(format!(
                    "mbarrier.{word}.parity{scope}.shared.b64 {p}, [{a}], {parity};"
                ));
            }
            Sync::MbarrierWait { a, parity } => self.mbarrier_wait(*a, *parity, &label()),
            Sync::SetMaxReg { increase, count } => {
                let word = if *increase { "inc" } else { "dec" };
                self.push(format!("setmaxnreg.{word}.sync.aligned.u32 {count};"));
            }
            Sync::GridDependency { wait } => self.push(if *wait {
                "griddepcontrol.wait;".to_string()
            } else {
                "griddepcontrol.launch_dependents;".to_string()
            }),
            Sync::NanoSleep { nanoseconds } => {
                let nanoseconds = self.operand(*nanoseconds, Type::U32);
                self.push(format!("nanosleep.u32 {nanoseconds};"));
            }
        }
    }

    /// `mbarrier.try_wait` in a loop; before Hopper, `test_wait`.
    fn mbarrier_wait(&mut self, a: Address, parity: Operand, label: &str) {
        let word = if self.kernel.target < Arch::Sm90 {
            "test_wait"
        } else {
            "try_wait"
        };
        let parity = self.operand(parity, Type::U32);
        let (a, p) = (self.address(a), self.scratch(RegType::Pred));
        self.push(format!("{label}:"));
        self.push(format!(
            "mbarrier.{word}.parity.shared.b64 {p}, [{a}], {parity};"
        ));
        self.push(format!("@!{p} bra {label};"));
    }

    /// Writes an instruction on groups of copies or products.
    pub(super) fn groups(&mut self, op: &Async) {
        let line = match op {
            Async::CpAsyncArrive { a, noinc } => {
                let noinc = if *noinc { ".noinc" } else { "" };
                let a = self.address(*a);
                format!("cp.async.mbarrier.arrive{noinc}.shared.b64 [{a}];")
            }
            Async::CpAsyncCommit => "cp.async.commit_group;".to_string(),
            Async::CpAsyncWait { pending } => format!("cp.async.wait_group {pending};"),
            Async::BulkCommit => "cp.async.bulk.commit_group;".to_string(),
            Async::BulkWait { pending, read } => {
                let read = if *read { ".read" } else { "" };
                format!("cp.async.bulk.wait_group{read} {pending};")
            }
            Async::WgmmaFence => "wgmma.fence.sync.aligned;".to_string(),
            Async::WgmmaCommit => "wgmma.commit_group.sync.aligned;".to_string(),
            Async::WgmmaWait { pending } => format!("wgmma.wait_group.sync.aligned {pending};"),
        };
        self.push(line);
    }
}
