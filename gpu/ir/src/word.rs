//! The word of an instruction.

use super::op::{Access, Op};
use super::words::{ClusterOrder, Order, Space};

fn order(order: Order) -> String {
    match order {
        Order::Weak => String::new(),
        Order::Relaxed(scope) => format!(".relaxed.{}", scope.ptx()),
        Order::Acquire(scope) => format!(".acquire.{}", scope.ptx()),
        Order::Release(scope) => format!(".release.{}", scope.ptx()),
        Order::AcqRel(scope) => format!(".acq_rel.{}", scope.ptx()),
        Order::Volatile => ".volatile".to_string(),
    }
}

fn dotted(word: &str) -> String {
    if word.is_empty() {
        String::new()
    } else {
        format!(".{word}")
    }
}

fn space(space: Space) -> String {
    match space {
        Space::Shared => ".shared".to_string(),
        Space::Cluster => ".cluster".to_string(),
        space => dotted(space.ptx()),
    }
}

fn access(word: &str, access: &Access, count: usize) -> String {
    let vector = if count > 1 {
        format!(".v{count}")
    } else {
        String::new()
    };
    format!(
        "{word}{}{}{}{vector}.{}",
        order(access.order),
        space(access.space),
        dotted(access.cache.ptx()),
        access.ty
    )
}

impl Op {
    /// The word of the instruction: what it does and on which types, as PTX would say it.
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// # let x = k.mov(Type::U32, 1);
    /// k.mul_wide(Type::U32, x, 4);
    /// k.sync();
    /// let words: Vec<String> = k.finish().body.iter().map(|stmt| stmt.op.word()).collect();
    /// assert_eq!(words, ["mov", "mul.wide.u32", "barrier.sync"]);
    /// ```
    pub fn word(&self) -> String {
        match self {
            Op::Mov { .. } => "mov".into(),
            Op::AddressOf { .. } => "address".into(),
            Op::Pack { .. } => "pack".into(),
            Op::Unpack { .. } => "unpack".into(),
            Op::Unary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
            Op::Binary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
            Op::Ternary { op, ty, .. } => format!("{}.{ty}", op.ptx()),
            Op::Lop3 { table, .. } => format!("lop3.{table:#04x}"),
            Op::Bfi { ty, .. } => format!("bfi.{ty}"),
            Op::Setp { cmp, ty, .. } => format!("setp.{}.{ty}", cmp.ptx()),
            Op::PredLogic { op, .. } => format!("{}.pred", op.ptx()),
            Op::Selp { ty, .. } => format!("selp.{ty}"),
            Op::Cvt {
                to,
                from,
                rounding,
                saturate,
                ..
            } => {
                let rounding = rounding.map_or("", |rounding| rounding.ptx());
                let saturate = if *saturate { ".sat" } else { "" };
                format!("cvt{}{saturate}.{to}.{from}", dotted(rounding))
            }
            Op::CvtPack { to, from, relu, .. } => {
                format!("cvt{}.{to}.{from}", if *relu { ".relu" } else { "" })
            }
            Op::Mma { atom, .. } => format!("mma {}", atom.name()),
            Op::Copy { atom, .. } => format!("copy {}", atom.name()),
            _ => self.memory_word(),
        }
    }

    fn memory_word(&self) -> String {
        match self {
            Op::Load { access: a, d, .. } => access("ld", a, d.len()),
            Op::Store { access: a, s, .. } => access("st", a, s.len()),
            Op::Atomic {
                op,
                space: s,
                ty,
                order: o,
                ..
            } => format!("atom{}{}.{}.{ty}", order(*o), space(*s), op.ptx()),
            Op::Reduce {
                op,
                space: s,
                ty,
                order: o,
                s: sources,
                ..
            } => {
                let vector = match sources.len() {
                    1 => String::new(),
                    n => format!(".v{n}"),
                };
                format!("red{}{}.{}{vector}.{ty}", order(*o), space(*s), op.ptx())
            }
            Op::Mapa { .. } => "mapa".into(),
            Op::Cvta {
                to_generic,
                space: s,
                ..
            } => format!("cvta{}{}", if *to_generic { "" } else { ".to" }, space(*s)),
            Op::PrefetchTensorMap { .. } => "prefetch.tensormap".into(),
            Op::CreatePolicy {
                primary, fraction, ..
            } => format!("createpolicy.{primary}.{fraction}"),
            Op::Shuffle { mode, .. } => format!("shfl.{}", mode.ptx()),
            Op::Vote { mode, .. } => format!("vote.{}", mode.ptx()),
            Op::Redux { op, ty, .. } => format!("redux.{}.{ty}", op.ptx()),
            Op::Elect { .. } => "elect".into(),
            Op::ActiveMask { .. } => "activemask".into(),
            _ => self.sync_word(),
        }
    }

    fn sync_word(&self) -> String {
        let read = |word: &str, read: &bool| format!("{word}{}", if *read { ".read" } else { "" });
        match self {
            Op::Barrier { op, .. } => format!("barrier.{}", op.ptx()),
            Op::WarpSync { .. } => "barrier.warp".into(),
            Op::ClusterArrive {
                order: ClusterOrder::Release,
            } => "barrier.cluster.arrive".into(),
            Op::ClusterArrive { .. } => "barrier.cluster.arrive.relaxed".into(),
            Op::ClusterWait => "barrier.cluster.wait".into(),
            Op::Fence(kind) => kind.ptx().into(),
            Op::MbarrierInit { .. } => "mbarrier.init".into(),
            Op::MbarrierInval { .. } => "mbarrier.inval".into(),
            Op::MbarrierArrive {
                space: s, expect, ..
            } => {
                let expect = if expect.is_some() { ".expect_tx" } else { "" };
                format!("mbarrier.arrive{expect}{}", space(*s))
            }
            Op::MbarrierExpect { space: s, .. } => format!("mbarrier.expect_tx{}", space(*s)),
            Op::MbarrierTry { test: true, .. } => "mbarrier.test_wait".into(),
            Op::MbarrierTry { .. } => "mbarrier.try_wait".into(),
            Op::MbarrierWait { .. } => "mbarrier.wait".into(),
            Op::CpAsyncArrive { noinc: true, .. } => "cp.async.mbarrier.arrive.noinc".into(),
            Op::CpAsyncArrive { .. } => "cp.async.mbarrier.arrive".into(),
            Op::CpAsyncCommit => "cp.async.commit_group".into(),
            Op::CpAsyncWait { pending } => format!("cp.async.wait_group {pending}"),
            Op::BulkCommit => "bulk.commit_group".into(),
            Op::BulkWait {
                pending,
                read: source,
            } => format!("{} {pending}", read("bulk.wait_group", source)),
            Op::WgmmaFence => "wgmma.fence".into(),
            Op::WgmmaCommit => "wgmma.commit_group".into(),
            Op::WgmmaWait { pending } => format!("wgmma.wait_group {pending}"),
            Op::SetMaxReg { increase, count } => {
                format!(
                    "setmaxnreg.{} {count}",
                    if *increase { "inc" } else { "dec" }
                )
            }
            Op::GridDependency { wait: true } => "griddepcontrol.wait".into(),
            Op::GridDependency { .. } => "griddepcontrol.launch_dependents".into(),
            Op::NanoSleep { .. } => "nanosleep".into(),
            Op::Trap => "trap".into(),
            Op::If { .. } => "if".into(),
            Op::Loop { .. } => "loop".into(),
            Op::Break => "break".into(),
            Op::Continue => "continue".into(),
            Op::Exit => "exit".into(),
            Op::Comment(_) => "//".into(),
            _ => "?".into(),
        }
    }
}
