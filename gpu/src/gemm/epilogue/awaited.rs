//! Flags for which the epilogue of a kernel waits before it reads its tensors.

use colex_atom::Ty;
use colex_device::{Device, View};
use colex_ir::{Access, Compare, FenceKind, Order, Scope, Space, Type};
use colex_tensor::{Builder, Tensor};

use crate::error::{Error, ErrorKind};
use crate::gemm::groups::call::contiguous;
use crate::gemm::groups::tiles;
use crate::gemm::plan::GemmPlan;
use crate::gemm::problem::MOST_EXTENT;
use crate::method::GemmMethod;

/// The flags of a call, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct GivenFlags {
    pub(super) bytes: (u64, u64),
    device: Device,
    /// Their number with the round behind them, if they are contiguous.
    count: Option<i64>,
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(ErrorKind::Epilogue { why }.into())
}

impl GivenFlags {
    pub(super) fn new(flags: &View<'_, u32>) -> GivenFlags {
        GivenFlags {
            bytes: flags.bytes(),
            device: flags.device().clone(),
            count: contiguous(flags),
        }
    }

    /// Returns the number of words.
    ///
    /// # Errors
    ///
    /// Returns an error unless they lie without gaps on the device of the product, a flag and the round at least.
    pub(super) fn checked(&self, device: &Device) -> Result<i64, Error> {
        device.check_same("the flags of the epilogue", &self.device)?;
        match self.count {
            Some(count) if (2..=MOST_EXTENT).contains(&count) => Ok(count),
            Some(count) => refuse(format!(
                "the flags for which it waits have {count} words: there is at least one flag, and the round behind the flags"
            )),
            None => refuse("the flags for which it waits are not contiguous".to_string()),
        }
    }
}

/// Refuses a plan whose kernel does not wait.
pub(crate) fn check(plan: &GemmPlan) -> Result<(), Error> {
    let why = if plan.method != GemmMethod::Hopper {
        format!(
            "{} kernel does not wait: the Hopper kernel does",
            plan.method
        )
    } else if plan.split > 1 {
        format!(
            "plan divides K among {} clusters, whose parts {}",
            plan.split,
            plan.adder()
        )
    } else if plan.early {
        "plan begins early: blocks that wait would keep multiprocessors from the kernels before"
            .to_string()
    } else {
        return Ok(());
    };
    refuse(format!("it waits for flags, and the {why}"))
}

/// The flags of a kernel: its parameter.
#[derive(Clone)]
pub(crate) struct AwaitedFlags {
    words: Tensor,
}

fn word() -> Access {
    Access::new(Space::Global, Type::U32)
}

impl AwaitedFlags {
    /// Declares the flags.
    pub(super) fn declare(k: &mut Builder) -> AwaitedFlags {
        AwaitedFlags {
            words: k.tensor("awaited", Ty::U32, tiles::form(16)),
        }
    }

    /// Waits in one thread until every flag has at least the number of the round. What the thread loads after this, by itself or by
    /// TMA, comes after what was written before the flags.
    pub(super) fn wait(&self, k: &mut Builder) {
        let last = self.words.extent(0) - 1;
        let last = k.within(last, 1..MOST_EXTENT);
        // The round was written on the stream of the launch: the kernel begins after it.
        let round = k.addresses(&self.words.elements(&last)).regs()[0];
        let round = k.emit(|ir| ir.load(word(), round));
        k.for_(0, &last, 1, |k, number| {
            let flag = k.addresses(&self.words.elements(number)).regs()[0];
            // Copy engines and other devices write the tensors and then the flags, so the scope is that of the system.
            k.emit(|ir| {
                ir.loop_(|ir| {
                    let now = ir.load(word().order(Order::Acquire(Scope::Sys)), flag);
                    let is_there = ir.setp(Compare::Ge, Type::U32, now, round);
                    ir.break_if(is_there);
                });
            });
        });
        // The acquire orders what this thread reads itself; TMA reads by another proxy.
        k.fence(FenceKind::ProxyAsyncGlobal);
    }
}
