//! The architecture and the version of PTX that an instruction needs.

use colex_atom::{Arch, PtxVersion};

use crate::{
    AtomicOp, Base, BinaryOp, Cache, FenceKind, Op, Operand, Order, Scope, Space, Special,
    TernaryOp, Type, UnaryOp,
};
use crate::{ClusterOrder, Rounding};

/// What an instruction needs to be assembled. The oldest target here is `sm_70`, with PTX 6.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The first architecture that has it.
    pub arch: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
}

impl Needs {
    /// What everything here has.
    pub const BASE: Needs = Needs::new(Arch::Sm70, 6, 0);

    const fn new(arch: Arch, major: u8, minor: u8) -> Self {
        Needs {
            arch,
            version: PtxVersion(major, minor),
        }
    }

    fn max(self, other: Needs) -> Needs {
        Needs {
            arch: self.arch.max(other.arch),
            version: self.version.max(other.version),
        }
    }

    /// What an instruction needs; some are written differently for older targets.
    ///
    /// ```
    /// use colex_atom::{Arch, PtxVersion};
    /// use colex_ir::{Op, ptx::Needs};
    ///
    /// let needs = Needs::of(&Op::WgmmaFence, Arch::Sm90a);
    /// assert_eq!((needs.arch, needs.version), (Arch::Sm90a, PtxVersion(8, 0)));
    /// ```
    pub fn of(op: &Op, target: Arch) -> Needs {
        let parts = op.parts();
        let specials = parts.sources.iter().filter_map(|operand| match operand {
            Operand::Special(special) => Some(special_needs(*special)),
            _ => None,
        });
        let own = specials.fold(instruction(op, target), Needs::max);
        let map = parts
            .addresses
            .iter()
            .any(|address| matches!(address.base, Base::Param(_)));
        match op {
            Op::AddressOf { .. } | Op::PrefetchTensorMap { .. } | Op::Copy { .. } if map => {
                own.max(Needs::new(Arch::Sm70, 7, 7))
            }
            _ => own,
        }
    }
}

const AMPERE: Needs = Needs::new(Arch::Sm80, 7, 0);
const HOPPER: Needs = Needs::new(Arch::Sm90, 7, 8);
const HOPPER_ASYNC: Needs = Needs::new(Arch::Sm90, 8, 0);
const WARPGROUP: Needs = Needs::new(Arch::Sm90a, 8, 0);

fn instruction(op: &Op, target: Arch) -> Needs {
    match op {
        Op::Mma { atom, .. } => row(atom.op().map(|op| (op.since, op.version)).ok()),
        Op::Copy { atom, .. } => row(atom.op().map(|op| (op.since, op.version)).ok()),
        Op::Redux { .. }
        | Op::MbarrierInit { .. }
        | Op::MbarrierInval { .. }
        | Op::CpAsyncArrive { .. }
        | Op::CpAsyncCommit
        | Op::CpAsyncWait { .. } => AMPERE,
        Op::MbarrierTry {
            test: true,
            scope: Scope::Cta,
            ..
        } => Needs::new(Arch::Sm80, 7, 1),
        Op::MbarrierWait { .. } if target < Arch::Sm90 => Needs::new(Arch::Sm80, 7, 1),
        Op::MbarrierTry {
            scope: Scope::Cta, ..
        }
        | Op::MbarrierWait { .. }
        | Op::Mapa { .. }
        | Op::ClusterWait
        | Op::ClusterArrive {
            order: ClusterOrder::Release,
        }
        | Op::GridDependency { .. } => HOPPER,
        Op::MbarrierTry { .. }
        | Op::MbarrierExpect { .. }
        | Op::ClusterArrive { .. }
        | Op::Elect { .. }
        | Op::PrefetchTensorMap { .. }
        | Op::BulkCommit
        | Op::BulkWait { .. } => HOPPER_ASYNC,
        Op::MbarrierArrive {
            space,
            count,
            expect,
            ..
        } => match (space, count, expect) {
            (Space::Cluster, ..) | (.., Some(_)) => HOPPER_ASYNC,
            (_, Some(_), _) => HOPPER,
            _ => Needs::new(Arch::Sm80, 7, 1),
        },
        Op::WgmmaFence | Op::WgmmaCommit | Op::WgmmaWait { .. } | Op::SetMaxReg { .. } => WARPGROUP,
        Op::Fence(kind) => fence(*kind),
        Op::ActiveMask { .. } => Needs::new(Arch::Sm70, 6, 2),
        Op::NanoSleep { .. } => Needs::new(Arch::Sm70, 6, 2),
        Op::CreatePolicy { .. } => Needs::new(Arch::Sm80, 7, 4),
        _ => typed(op),
    }
}

fn row(op: Option<(Arch, PtxVersion)>) -> Needs {
    op.map_or(Needs::BASE, |(arch, version)| {
        Needs::BASE.max(Needs { arch, version })
    })
}

fn typed(op: &Op) -> Needs {
    match op {
        Op::Unary { op, ty, .. } => unary(*op, *ty),
        Op::Binary { op, ty, .. } => binary(*op, *ty),
        Op::Ternary { op, ty, .. } => ternary(*op, *ty),
        Op::Setp { ty: Type::Bf16, .. } => HOPPER,
        Op::Cvt {
            to, from, rounding, ..
        } => cvt(*to, *from, *rounding),
        Op::CvtPack { to, .. } => match to {
            Type::E4m3x2 | Type::E5m2x2 => FP8,
            _ => AMPERE,
        },
        Op::Load { access, .. } | Op::Store { access, .. } => space(access.space)
            .max(order(access.order))
            .max(cache(access.cache))
            .max(if access.policy.is_some() {
                Needs::new(Arch::Sm80, 7, 4)
            } else {
                Needs::BASE
            }),
        Op::Atomic {
            op,
            space: s,
            ty,
            order: o,
            ..
        } => space(*s).max(order(*o)).max(atomic(*op, *ty)),
        Op::Reduce {
            op,
            space: space_,
            ty,
            order: o,
            s,
            ..
        } => {
            let vector = if s.len() > 1 {
                Needs::new(Arch::Sm90, 8, 1)
            } else {
                Needs::BASE
            };
            vector
                .max(space(*space_))
                .max(order(*o))
                .max(atomic(*op, *ty))
        }
        _ => Needs::BASE,
    }
}

/// Conversions from and to 8-bit floats, on Ada and later.
const FP8: Needs = Needs::new(Arch::Sm89, 8, 1);

fn unary(op: UnaryOp, ty: Type) -> Needs {
    let half = matches!(ty, Type::F16 | Type::F16x2);
    let brain = matches!(ty, Type::Bf16 | Type::Bf16x2);
    match op {
        UnaryOp::Tanh if brain => HOPPER,
        UnaryOp::Ex2 if brain => HOPPER,
        UnaryOp::Tanh | UnaryOp::Ex2 if half => Needs::new(Arch::Sm75, 7, 0),
        UnaryOp::Tanh => Needs::new(Arch::Sm75, 7, 0),
        UnaryOp::Neg | UnaryOp::Abs if brain => AMPERE,
        UnaryOp::Neg if half => Needs::BASE,
        UnaryOp::Abs if half => Needs::new(Arch::Sm70, 6, 5),
        _ => Needs::BASE,
    }
}

fn binary(op: BinaryOp, ty: Type) -> Needs {
    let half = matches!(ty, Type::F16 | Type::F16x2);
    let brain = matches!(ty, Type::Bf16 | Type::Bf16x2);
    match op {
        BinaryOp::Min | BinaryOp::Max if half || brain => AMPERE,
        _ if brain => HOPPER,
        _ => Needs::BASE,
    }
}

fn ternary(op: TernaryOp, ty: Type) -> Needs {
    match (op, ty) {
        (TernaryOp::Fma, Type::Bf16 | Type::Bf16x2) => AMPERE,
        _ => Needs::BASE,
    }
}

fn cvt(to: Type, from: Type, rounding: Option<Rounding>) -> Needs {
    let fp8 = |ty| matches!(ty, Type::E4m3x2 | Type::E5m2x2);
    match (to, from) {
        _ if fp8(to) || fp8(from) => FP8,
        (Type::Tf32, _) if rounding == Some(Rounding::Rna) => AMPERE,
        (Type::Tf32, _) => HOPPER,
        (Type::Bf16, Type::F32) => AMPERE,
        (Type::F32, Type::Bf16) => Needs::new(Arch::Sm80, 7, 1),
        (Type::Bf16, _) | (_, Type::Bf16) => HOPPER,
        _ => Needs::BASE,
    }
}

fn space(space: Space) -> Needs {
    if space == Space::Cluster {
        HOPPER
    } else {
        Needs::BASE
    }
}

fn order(order: Order) -> Needs {
    match order {
        Order::Relaxed(Scope::Cluster)
        | Order::Acquire(Scope::Cluster)
        | Order::Release(Scope::Cluster)
        | Order::AcqRel(Scope::Cluster) => HOPPER,
        _ => Needs::BASE,
    }
}

fn cache(cache: Cache) -> Needs {
    match cache {
        Cache::NcNoAllocate | Cache::NoAllocate => Needs::new(Arch::Sm70, 7, 4),
        Cache::NcNoAllocate256 => Needs::new(Arch::Sm80, 7, 4),
        _ => Needs::BASE,
    }
}

fn atomic(op: AtomicOp, ty: Type) -> Needs {
    match (op, ty) {
        (AtomicOp::Add, Type::Bf16 | Type::Bf16x2) => HOPPER,
        (AtomicOp::Min | AtomicOp::Max, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => {
            Needs::new(Arch::Sm90, 8, 1)
        }
        (AtomicOp::Add, Type::F16) => Needs::new(Arch::Sm70, 6, 3),
        (AtomicOp::Add, Type::F16x2) => Needs::new(Arch::Sm70, 6, 2),
        (AtomicOp::Cas, _) if ty.bits() == 16 => Needs::new(Arch::Sm70, 6, 3),
        _ => Needs::BASE,
    }
}

fn fence(kind: FenceKind) -> Needs {
    match kind {
        FenceKind::AcqRelCta | FenceKind::AcqRelGpu | FenceKind::AcqRelSys => Needs::BASE,
        FenceKind::AcqRelCluster => HOPPER,
        _ => HOPPER_ASYNC,
    }
}

fn special_needs(special: Special) -> Needs {
    match special {
        Special::ClusterCtaRank
        | Special::ClusterNCtaRank
        | Special::ClusterCtaid(_)
        | Special::ClusterNCtaid(_)
        | Special::ClusterId(_)
        | Special::NClusterId(_) => HOPPER,
        _ => Needs::BASE,
    }
}
