//! Addresses, vectors, alignment and bounds.

use super::Findings;
use super::problem::Problem;
use crate::{
    Access, Address, Async, Base, Cache, Escaped, Kernel, Memory, Op, Order, ParamType, RegType,
    Scope, Space, Sync, Type,
};

/// Checks what an instruction accesses; copies by their rows are checked elsewhere.
pub(super) fn check(kernel: &Kernel, op: &Op, found: &mut Findings<'_>) {
    match op {
        Op::Memory(op) => memory(kernel, op, found),
        Op::Sync(op) => barrier(kernel, op, found),
        Op::Async(Async::CpAsyncArrive { a, .. }) => reach(kernel, Space::Shared, *a, 8, found),
        Op::Async(
            Async::CpAsyncCommit
            | Async::CpAsyncWait { .. }
            | Async::BulkCommit
            | Async::BulkWait { .. }
            | Async::WgmmaFence
            | Async::WgmmaCommit
            | Async::WgmmaWait { .. },
        ) => {}
        // These families name no address, or one whose row of an atom says what it takes.
        Op::Alu(_) | Op::Exchange(_) | Op::Control(_) | Op::Atom(_) => {}
    }
}

fn memory(kernel: &Kernel, op: &Memory, found: &mut Findings<'_>) {
    match op {
        Memory::Load { access, d, a } => {
            if vector(access.ty, d.len(), found) {
                let bytes = access.ty.bits() / 8 * d.len() as u32;
                reach(kernel, access.space, *a, bytes, found);
            }
            modifiers(access, true, found);
        }
        Memory::Store { access, a, s } => {
            if vector(access.ty, s.len(), found) {
                let bytes = access.ty.bits() / 8 * s.len() as u32;
                reach(kernel, access.space, *a, bytes, found);
            }
            modifiers(access, false, found);
        }
        Memory::Atomic {
            space,
            ty,
            order,
            a,
            ..
        } => {
            reach(kernel, *space, *a, ty.bits() / 8, found);
            if *space == Space::Param || *order == Order::Volatile {
                modifier(
                    found,
                    "it is relaxed, acquire, release or acq_rel, on global or shared memory",
                );
            }
        }
        Memory::Reduce {
            space,
            ty,
            order,
            a,
            s,
            ..
        } => {
            reach(kernel, *space, *a, ty.bits() / 8 * s.len() as u32, found);
            let ordered = match order {
                Order::Weak | Order::Relaxed(_) | Order::Release(_) => true,
                Order::Acquire(_) | Order::AcqRel(_) | Order::Volatile => false,
            };
            if *space == Space::Param || !ordered {
                modifier(
                    found,
                    "it is relaxed or release, on global or shared memory",
                );
            }
            if s.len() > 1 && *space != Space::Global {
                modifier(found, "vectors are reduced in global memory only");
            }
        }
        Memory::PrefetchTensorMap { a } => tensor_map(kernel, *a, found),
        Memory::AddressOf { d, a } => address_of(kernel, d.ty, *a, found),
        // They compute addresses and policies in registers, or the kernel does not know what they access.
        Memory::Mapa { .. }
        | Memory::Cvta { .. }
        | Memory::CreatePolicy { .. }
        | Memory::Print { .. }
        | Memory::Text { .. } => {}
    }
}

fn barrier(kernel: &Kernel, op: &Sync, found: &mut Findings<'_>) {
    match op {
        Sync::MbarrierInit { a, .. } | Sync::MbarrierInval { a } | Sync::MbarrierWait { a, .. } => {
            reach(kernel, Space::Shared, *a, 8, found);
        }
        Sync::MbarrierTry { a, scope, .. } => {
            reach(kernel, Space::Shared, *a, 8, found);
            if ![Scope::Cta, Scope::Cluster].contains(scope) {
                modifier(found, "it acquires in the block or the cluster");
            }
        }
        Sync::MbarrierArrive { scope, .. } if ![Scope::Cta, Scope::Cluster].contains(scope) => {
            modifier(found, "it releases in the block or the cluster");
        }
        Sync::MbarrierArrive { space, a, .. } | Sync::MbarrierExpect { space, a, .. } => {
            if [Space::Shared, Space::Cluster].contains(space) {
                reach(kernel, *space, *a, 8, found);
            } else {
                modifier(
                    found,
                    "a barrier lies in shared memory of the block or the cluster",
                );
            }
        }
        Sync::Barrier { .. }
        | Sync::WarpSync { .. }
        | Sync::ClusterArrive { .. }
        | Sync::ClusterWait
        | Sync::Fence(_)
        | Sync::SetMaxReg { .. }
        | Sync::GridDependency { .. }
        | Sync::NanoSleep { .. } => {}
    }
}

fn modifier(found: &mut Findings<'_>, right: &'static str) {
    let mnemonic = found.mnemonic();
    found.add(Problem::Modifier { mnemonic, right });
}

fn vector(ty: Type, count: usize, found: &mut Findings<'_>) -> bool {
    let bytes = ty.bits() / 8 * count as u32;
    let right = matches!(count, 1 | 2 | 4) && bytes <= 16 && ty.bits() >= 8 && ty != Type::B128;
    if !right {
        found.add(Problem::Vector {
            mnemonic: found.mnemonic(),
            count,
            bytes,
        });
    }
    right
}

/// The address is one of that space, and a constant part of it is aligned and within its variable.
pub(super) fn reach(
    kernel: &Kernel,
    space: Space,
    address: Address,
    bytes: u32,
    found: &mut Findings<'_>,
) {
    let class = |class| matches!(address.base, Base::Reg(reg) if reg.ty == class);
    let own = matches!(address.base, Base::Shared(_) | Base::DynamicShared);
    let (right, takes) = match space {
        Space::Global | Space::Generic => (class(RegType::B64), "a register of class b64"),
        Space::Shared | Space::Cluster => (
            class(RegType::B32) || own,
            "a register of class b32 or a shared variable",
        ),
        Space::Param => (
            matches!(address.base, Base::Param(_)),
            "a parameter of the kernel",
        ),
    };
    if right {
        within(kernel, address, bytes, found);
    } else {
        found.add(Problem::Address {
            mnemonic: found.mnemonic(),
            address: name(kernel, address),
            takes,
        });
    }
}

/// Checks what is known about an address at build time: it must fit an access of `bytes` bytes.
pub(super) fn within(kernel: &Kernel, address: Address, bytes: u32, found: &mut Findings<'_>) {
    let Some((align, size)) = extent(kernel, address.base, found) else {
        return;
    };
    if i32::try_from(address.offset).is_err() {
        return found.range(address.offset, "offsets of 32 bits with their sign");
    }
    let misaligned = address.offset % i64::from(bytes.max(1)) != 0;
    if bytes.is_power_of_two() && (misaligned || align.is_some_and(|align| align < bytes)) {
        found.add(Problem::Misaligned {
            mnemonic: found.mnemonic(),
            address: name(kernel, address),
            align: bytes,
        });
    }
    let beyond = |size: u32| {
        address.offset < 0 || address.offset.saturating_add(i64::from(bytes)) > i64::from(size)
    };
    if let Some(size) = size.filter(|size| beyond(*size)) {
        found.add(Problem::OutOfBounds {
            mnemonic: found.mnemonic(),
            address: name(kernel, address),
            bytes,
            size,
        });
    }
}

/// Alignment and bytes of what an address begins with, as far as they are known.
fn extent(
    kernel: &Kernel,
    base: Base,
    found: &mut Findings<'_>,
) -> Option<(Option<u32>, Option<u32>)> {
    match base {
        Base::Reg(_) => Some((None, None)),
        Base::DynamicShared => match kernel.dynamic_shared {
            Some(align) => Some((
                Some(align),
                Some(crate::launch::Limits::of(kernel.target).shared),
            )),
            None => {
                found.add(Problem::Foreign {
                    what: "dynamic shared memory".into(),
                    count: 0,
                });
                None
            }
        },
        Base::Shared(id) => match kernel.shared.get(id.index()) {
            Some(var) => Some((Some(var.align), Some(var.bytes))),
            None => {
                found.add(Problem::Foreign {
                    what: format!("shared variable {}", id.index()),
                    count: kernel.shared.len(),
                });
                None
            }
        },
        Base::Param(id) => match kernel.params.get(id.index()) {
            Some(param) => Some((Some(param.ty.align()), Some(param.ty.bytes()))),
            None => {
                found.add(Problem::Foreign {
                    what: format!("parameter {}", id.index()),
                    count: kernel.params.len(),
                });
                None
            }
        },
    }
}

/// The address of a tensor map: a parameter that is one, or a register.
pub(super) fn tensor_map(kernel: &Kernel, address: Address, found: &mut Findings<'_>) {
    let right = match address.base {
        Base::Reg(reg) => reg.ty == RegType::B64 && address.offset == 0,
        Base::Param(id) => {
            let param = kernel.params.get(id.index());
            param.is_some_and(|param| param.ty == ParamType::TensorMap) && address.offset == 0
        }
        Base::Shared(_) | Base::DynamicShared => false,
    };
    if !right {
        found.add(Problem::Address {
            mnemonic: found.mnemonic(),
            address: name(kernel, address),
            takes: "a parameter that is a tensor map, or a register of class b64 with the address of one",
        });
    }
}

fn address_of(kernel: &Kernel, d: RegType, address: Address, found: &mut Findings<'_>) {
    let right = match address.base {
        Base::Reg(reg) => reg.ty == d && matches!(d, RegType::B32 | RegType::B64),
        Base::Param(_) => d == RegType::B64,
        Base::Shared(_) | Base::DynamicShared => matches!(d, RegType::B32 | RegType::B64),
    };
    if right {
        extent(kernel, address.base, found);
    } else {
        found.add(Problem::Address {
            mnemonic: found.mnemonic(),
            address: name(kernel, address),
            takes: "into b32 that of shared memory, into b64 that of a parameter, and a register into its own class",
        });
    }
}

/// Cache hints and orders that exist.
fn modifiers(access: &Access, load: bool, found: &mut Findings<'_>) {
    let Access {
        space,
        cache,
        order,
        policy,
        ..
    } = *access;
    let ordered = match order {
        Order::Weak | Order::Relaxed(_) | Order::Volatile => true,
        Order::Acquire(_) => load,
        Order::Release(_) => !load,
        Order::AcqRel(_) => false,
    };
    let cached = match cache {
        Cache::Default | Cache::Cg | Cache::Cs | Cache::NoAllocate => true,
        Cache::Ca | Cache::Lu | Cache::Cv => load,
        Cache::Nc | Cache::NcNoAllocate | Cache::NcNoAllocate256 => load && space == Space::Global,
        Cache::Wb | Cache::Wt => !load,
    };
    let global = matches!(space, Space::Global | Space::Generic);
    let hinted = cache != Cache::Default || policy.is_some();
    match () {
        _ if space == Space::Param && (!load || hinted || order != Order::Weak) => {
            modifier(found, "parameters are read, and nothing else");
        }
        _ if !ordered => modifier(
            found,
            "a load is relaxed, acquire or volatile, a store relaxed, release or volatile",
        ),
        _ if !cached => modifier(
            found,
            "ca, lu and cv are for loads, nc for loads from global memory, wb and wt for stores",
        ),
        _ if hinted && !global => modifier(found, "only global memory is cached"),
        _ if hinted && order != Order::Weak => {
            modifier(found, "an ordered access takes no cache hint");
        }
        _ => {}
    }
}

/// An address by the names of the kernel.
pub(super) fn name(kernel: &Kernel, address: Address) -> String {
    let base = match address.base {
        Base::Reg(reg) => reg.to_string(),
        Base::DynamicShared => "dynamic".to_string(),
        Base::Shared(id) => kernel.shared.get(id.index()).map_or_else(
            || format!("shared {}", id.index()),
            |var| Escaped(&var.name).to_string(),
        ),
        Base::Param(id) => kernel.params.get(id.index()).map_or_else(
            || format!("parameter {}", id.index()),
            |p| Escaped(&p.name).to_string(),
        ),
    };
    match address.offset {
        0 => format!("[{base}]"),
        offset => format!("[{base}{offset:+}]"),
    }
}
