//! Names, parameters, shared memory, blocks and clusters.

use std::collections::HashSet;

use colex_atom::Arch;

use super::diagnostic::Diagnostic;
use super::problem::Problem;
use crate::launch::Limits;
use crate::{BarrierOp, Kernel, Op, Operand, ParamType, Sync, Type};

/// The most bytes of shared variables that a kernel may declare (PTX ISA 5.1.7).
const MOST_STATIC: u64 = 48 << 10;

/// The most bytes of parameters (PTX ISA 5.1.6.1, from PTX 8.1).
const MOST_PARAMETERS: u64 = 32764;

/// The findings about declarations.
pub(super) fn check(kernel: &Kernel) -> Vec<Diagnostic> {
    let mut all = Vec::new();
    let mut add = |at, problem| all.push(Diagnostic { at, problem });
    for problem in whole(kernel) {
        add(kernel.at, problem);
    }
    let mut names = HashSet::new();
    for param in &kernel.params {
        if let Some(problem) = name("parameter", &param.name, &mut names) {
            add(param.at, problem)
        }
        let name = param.name.clone();
        match param.ty {
            ParamType::Scalar(ty @ (Type::Pred | Type::B128)) => {
                add(param.at, Problem::ParameterType { name, ty });
            }
            ParamType::Pointer { align } if !align.is_power_of_two() => {
                add(param.at, Problem::Alignment { name, align });
            }
            ParamType::Scalar(_) | ParamType::Pointer { .. } | ParamType::TensorMap => {}
        }
    }
    for var in &kernel.shared {
        if let Some(problem) = name("shared variable", &var.name, &mut names) {
            add(var.at, problem)
        }
        let (name, align) = (var.name.clone(), var.align);
        if !align.is_power_of_two() {
            add(
                var.at,
                Problem::Alignment {
                    name: name.clone(),
                    align,
                },
            );
        }
        if var.bytes == 0 {
            add(var.at, Problem::EmptyShared { name });
        }
    }
    all
}

fn whole(kernel: &Kernel) -> Vec<Problem> {
    let mut all = Vec::new();
    all.extend(name("kernel", &kernel.name, &mut HashSet::new()));
    if kernel.target < Arch::Sm70 {
        all.push(Problem::Target {
            mnemonic: "a kernel".into(),
            needs: Arch::Sm70,
            target: kernel.target,
        });
    }
    let (_, bytes) = kernel.parameter_places();
    if bytes > MOST_PARAMETERS {
        all.push(Problem::ParameterSpace { bytes });
    }
    all.extend(shared_space(kernel));
    if let Some(align) = kernel
        .dynamic_shared
        .filter(|align| !align.is_power_of_two())
    {
        let name = "dynamic".into();
        all.push(Problem::Alignment { name, align });
    }
    all.extend(extents(kernel));
    all.extend(limits(kernel));
    all
}

fn shared_space(kernel: &Kernel) -> Option<Problem> {
    let (_, bytes) = kernel.shared_places();
    (bytes > MOST_STATIC).then(|| Problem::SharedSpace {
        bytes,
        dynamic: Limits::of(kernel.target).shared,
        target: kernel.target,
    })
}

fn extents(kernel: &Kernel) -> Vec<Problem> {
    let mut all = Vec::new();
    let product = |[x, y, z]: [u32; 3]| u64::from(x) * u64::from(y) * u64::from(z);
    if let Some(block) = kernel.block
        && (!(1..=1024).contains(&product(block)) || block[2] > 64)
    {
        all.push(Problem::Block { block });
    }
    if let Some(cluster) = kernel.cluster {
        if !(1..=8).contains(&product(cluster)) {
            all.push(Problem::Cluster { cluster });
        }
        if kernel.target < Arch::Sm90 {
            all.push(Problem::Target {
                mnemonic: "cluster".into(),
                needs: Arch::Sm90,
                target: kernel.target,
            });
        }
    }
    all
}

fn limits(kernel: &Kernel) -> Vec<Problem> {
    let mut all = Vec::new();
    let mut limit = |what, found, right| all.push(Problem::Limit { what, found, right });
    if let Some(n) = kernel.max_registers.filter(|n| !(16..=255).contains(n)) {
        limit("max_registers", n, "a thread has 16 to 255");
    }
    match (kernel.min_blocks, kernel.block) {
        (Some(n), None) => limit(
            "min_blocks",
            n,
            "it says nothing without the block's extents",
        ),
        (Some(n), Some(block)) => {
            let threads = block
                .iter()
                .map(|&extent| u64::from(extent))
                .product::<u64>();
            if n == 0 || n > 32 || u64::from(n) * threads > 2048 {
                limit(
                    "min_blocks",
                    n,
                    "a multiprocessor holds 1 to 32 blocks and 2048 threads",
                );
            }
        }
        _ => {}
    }
    if let (Some(n), Some(_)) = (kernel.min_blocks, kernel.max_registers) {
        limit(
            "min_blocks",
            n,
            "max_registers is given too, and the assembler heeds one of them",
        );
    }
    all
}

fn name(what: &'static str, name: &str, names: &mut HashSet<String>) -> Option<Problem> {
    let mut letters = name.chars();
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let right =
        letters.next().is_some_and(first) && letters.all(|c| first(c) || c.is_ascii_digit());
    // `_` discards a result, `WARP_SZ` is a constant of PTX, and `dynamic_shared` is the printer's.
    if !right || ["_", "WARP_SZ", "dynamic_shared"].contains(&name) {
        let name = name.to_string();
        return Some(Problem::Name { what, name });
    }
    let fresh = names.insert(name.to_string());
    (!fresh).then(|| Problem::NameTwice {
        name: name.to_string(),
    })
}

/// Whether `setmaxnreg` would be heeded: the assembler must know the registers at entry.
pub(super) fn knows_registers(kernel: &Kernel) -> bool {
    kernel.max_registers.is_some() || (kernel.block.is_some() && kernel.min_blocks.is_some())
}

/// The ranges of immediate numbers.
pub(super) fn numbers(kernel: &Kernel, op: &Op, found: &mut super::Findings<'_>) {
    use Op::{Alu, Async, Atom, Control, Exchange, Memory, Sync};
    match op {
        Sync(op) => sync_numbers(kernel, op, found),
        // Their numbers are operands of a type, or of an atom's row; any group may be waited for.
        Alu(_) | Memory(_) | Exchange(_) | Async(_) | Control(_) | Atom(_) => {}
    }
}

fn sync_numbers(kernel: &Kernel, op: &Sync, found: &mut super::Findings<'_>) {
    let outside = |operand: &Operand, numbers: std::ops::Range<i64>| match operand {
        Operand::Int(n) if !numbers.contains(n) => Some(*n),
        Operand::Int(_) | Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => None,
    };
    match op {
        Sync::SetMaxReg { count, .. } => {
            if !(24..=256).contains(count) || count % 8 != 0 {
                found.add(Problem::SetMaxReg { count: *count });
            }
            if !knows_registers(kernel) {
                found.add(Problem::SetMaxRegUnknown);
            }
        }
        Sync::Barrier { op, id, threads } => {
            if let Some(id) = outside(id, 0..16) {
                found.add(Problem::BarrierId { id });
            }
            match *threads {
                Some(Operand::Int(n)) if !(32..=1024).contains(&n) || n % 32 != 0 => {
                    found.add(Problem::BarrierThreads { threads: n });
                }
                None if *op == BarrierOp::Arrive => found.add(Problem::BarrierArrive),
                Some(_) | None => {}
            }
        }
        Sync::MbarrierInit { count, .. } => {
            if let Some(n) = outside(count, 1..1 << 20) {
                found.range(n, "1 to 1048575 arrivals");
            }
        }
        Sync::MbarrierArrive { count, expect, .. } => {
            if let Some(n) = expect.and_then(|bytes| outside(&bytes, 0..1 << 20)) {
                found.range(n, "0 to 1048575 bytes");
            } else if count.is_some() && expect.is_some() {
                found.add(Problem::Modifier {
                    mnemonic: found.mnemonic(),
                    right: "with expected bytes it counts one arrival",
                });
            }
        }
        Sync::MbarrierExpect { bytes, .. } => {
            if let Some(n) = outside(bytes, 0..1 << 20) {
                found.range(n, "0 to 1048575 bytes");
            }
        }
        Sync::WarpSync { .. }
        | Sync::ClusterArrive { .. }
        | Sync::ClusterWait
        | Sync::Fence(_)
        | Sync::MbarrierInval { .. }
        | Sync::MbarrierTry { .. }
        | Sync::MbarrierWait { .. }
        | Sync::GridDependency { .. }
        | Sync::NanoSleep { .. } => {}
    }
}
