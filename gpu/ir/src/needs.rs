//! The architecture and the version of PTX that an instruction needs.

use colex_atom::{Arch, PtxVersion};

use super::op::Op;
use super::operand::{Address, Base, Operand, Special};
use super::row::Row;

/// The architecture and the version of PTX that an instruction requires. The oldest target here is `sm_70`, with PTX
/// 6.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The first architecture that has it.
    pub arch: Arch,
    /// The first version of PTX that has it.
    pub version: PtxVersion,
}

impl Needs {
    /// The baseline.
    pub const BASE: Needs = Needs::new(Arch::Sm70, 6, 0);
    /// Features of `sm_80`.
    pub(crate) const AMPERE: Needs = Needs::new(Arch::Sm80, 7, 0);
    /// Features of `sm_90`.
    pub(crate) const HOPPER: Needs = Needs::new(Arch::Sm90, 7, 8);
    /// Features of `sm_90`, one version of PTX later.
    pub(crate) const HOPPER_ASYNC: Needs = Needs::new(Arch::Sm90, 8, 0);
    /// Features of `sm_90a` alone.
    pub(crate) const WARPGROUP: Needs = Needs::new(Arch::Sm90a, 8, 0);

    pub(crate) const fn new(arch: Arch, major: u8, minor: u8) -> Self {
        Needs {
            arch,
            version: PtxVersion(major, minor),
        }
    }

    pub(crate) fn max(self, other: Needs) -> Needs {
        Needs {
            arch: self.arch.max(other.arch),
            version: self.version.max(other.version),
        }
    }

    /// The requirements of the row of an atom.
    pub(crate) fn of_atom(op: Option<(Arch, PtxVersion)>) -> Needs {
        op.map_or(Needs::BASE, |(arch, version)| {
            Needs::BASE.max(Needs { arch, version })
        })
    }

    /// The requirements of an instruction that names the address of a parameter.
    pub(crate) fn of_generic(address: Address) -> Needs {
        match address.base {
            Base::Param(_) => Needs::new(Arch::Sm70, 7, 7),
            Base::Reg(_) | Base::Shared(_) | Base::DynamicShared => Needs::BASE,
        }
    }

    /// Returns what an instruction needs; some are written differently for older targets.
    ///
    /// ```
    /// use colex_atom::{Arch, PtxVersion};
    /// use colex_ir::{Async, ptx::Needs};
    ///
    /// let needs = Needs::of(&Async::WgmmaFence.into(), Arch::Sm90a);
    /// assert_eq!((needs.arch, needs.version), (Arch::Sm90a, PtxVersion(8, 0)));
    /// ```
    pub fn of(op: &Op, target: Arch) -> Needs {
        op.row().needs_for(target)
    }
}

impl Row<'_> {
    /// What the instruction needs, written for a target.
    pub(crate) fn needs_for(&self, target: Arch) -> Needs {
        let mut needs = match self.older {
            Some(older) if target < self.needs.arch => older,
            Some(_) | None => self.needs,
        };
        for slot in &self.slots {
            slot.arg.each_source(|operand| match operand {
                Operand::Special(special) => needs = needs.max(special_needs(special)),
                Operand::Reg(_) | Operand::Int(_) | Operand::Float(_) => {}
            });
        }
        needs
    }
}

fn special_needs(special: Special) -> Needs {
    use Special::{
        Clock64, ClusterCtaRank, ClusterCtaid, ClusterId, ClusterNCtaRank, ClusterNCtaid, Ctaid,
        DynamicSharedSize, GlobalTimer, LaneId, NClusterId, NCtaid, NTid, SmId, Tid,
    };
    match special {
        ClusterCtaRank | ClusterNCtaRank | ClusterCtaid(_) | ClusterNCtaid(_) | ClusterId(_)
        | NClusterId(_) => Needs::HOPPER,
        Tid(_) | NTid(_) | Ctaid(_) | NCtaid(_) | LaneId | Clock64 | GlobalTimer | SmId
        | DynamicSharedSize => Needs::BASE,
    }
}
