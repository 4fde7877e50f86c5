//! Address resolution: from generic and shared addresses to memory.

use super::exec::Exec;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::{SHARED_BASE, WINDOW_BITS};
pub(crate) use crate::state::target::{GENERIC_PARAMS, GENERIC_SHARED, Target};
use colex_ir::{Address, Base, RegType, Space, Type};

/// Bytes of a box that lie together: their address in global memory if they lie in the tensor, their place in shared memory,
/// how many they are.
pub(crate) type Run = (Option<u64>, usize, usize);

/// Where a box began that lies inside of its tensor, and its bytes.
pub(crate) type Inside = (Vec<i64>, Vec<Run>);

impl Exec<'_, '_, '_> {
    /// The address in each lane.
    pub(crate) fn address(&self, a: &Address, mask: u32) -> Result<[u64; 32], Fault> {
        let block = &self.g.blocks[self.w.block];
        let program = self.m.program;
        let offset = a.offset as u64;
        let base = match a.base {
            Base::Reg(reg) => {
                let narrow = reg.ty == RegType::B32;
                let values = self.reg(reg, mask)?;
                return Ok(values.map(|x| {
                    if narrow {
                        u64::from((x as u32).wrapping_add(offset as u32))
                    } else {
                        x.wrapping_add(offset)
                    }
                }));
            }
            Base::Shared(id) => match program.shared.get(id.index()) {
                Some(at) => u64::from(block.base()) + *at,
                None => {
                    return Err(
                        self.fault_warp(FaultKind::Operand, "the variable is not of this kernel")
                    );
                }
            },

            Base::DynamicShared => u64::from(block.base()) + u64::from(self.m.dynamic_at),
            Base::Param(id) => match program.params.get(id.index()) {
                Some(at) => *at,
                None => {
                    return Err(
                        self.fault_warp(FaultKind::Operand, "the parameter is not of this kernel")
                    );
                }
            },
        };
        Ok([base.wrapping_add(offset); 32])
    }

    /// Resolves an address of a space, for an access of `bytes` bytes aligned to `align`.
    pub(crate) fn target(
        &self,
        space: Space,
        address: u64,
        bytes: usize,
        align: usize,
        lane: usize,
    ) -> Result<Target, Fault> {
        if !address.is_multiple_of(align.max(1) as u64) {
            let name = self.address_name(space, address);
            let what = format!(
                "{name} is not a multiple of {align}, as this access of {bytes} bytes wants"
            );
            return Err(self.fault(FaultKind::Misaligned, lane, what));
        }
        match space {
            Space::Global => Ok(Target::Global(address)),
            Space::Shared | Space::Cluster => self.shared_target(space, address, bytes, lane),
            Space::Param => Ok(Target::Param(address as usize)),
            Space::Generic if address >= GENERIC_PARAMS => {
                Ok(Target::Param((address - GENERIC_PARAMS) as usize))
            }
            Space::Generic if address >= GENERIC_SHARED => {
                self.shared_target(Space::Cluster, address - GENERIC_SHARED, bytes, lane)
            }
            Space::Generic => Ok(Target::Global(address)),
        }
    }

    /// An address, and what lies there: ``the address 0x404, byte 4 of `tile`,``
    fn address_name(&self, space: Space, address: u64) -> String {
        let shared = |address: u64| {
            let inside = address as usize & ((1 << WINDOW_BITS) - 1);
            let at = inside.checked_sub(SHARED_BASE as usize);
            at.map_or("below shared memory".to_string(), |at| {
                self.m.shared_name(at)
            })
        };
        let name = match space {
            Space::Shared | Space::Cluster => shared(address),
            Space::Generic if (GENERIC_SHARED..GENERIC_PARAMS).contains(&address) => {
                shared(address - GENERIC_SHARED)
            }
            Space::Param => format!("byte {address} of the parameters"),
            Space::Generic if address >= GENERIC_PARAMS => {
                format!("byte {} of the parameters", address - GENERIC_PARAMS)
            }
            Space::Global | Space::Generic => match self.m.memory.beginning(address) {
                Some(_) => self.m.global_name(address),
                None => "in no allocation".to_string(),
            },
        };
        format!("the address {address:#x}, {name},")
    }

    /// A shared address: the window of a block, and the place in it.
    pub(crate) fn shared_target(
        &self,
        space: Space,
        address: u64,
        bytes: usize,
        lane: usize,
    ) -> Result<Target, Fault> {
        let rank = (address >> WINDOW_BITS) as usize;
        let own = self.w.block;
        let at = (address as usize & ((1 << WINDOW_BITS) - 1)).wrapping_sub(SHARED_BASE as usize);
        let Some(block) = self.g.blocks.get(rank) else {
            let what = format!(
                "the shared address {address:#x} is {} in block {rank} of the cluster, which has {}",
                self.m.shared_name(at),
                self.g.blocks.len()
            );
            return Err(self.fault(FaultKind::OutOfBounds, lane, what));
        };
        if space == Space::Shared && rank != own {
            let what = format!(
                "the shared address {address:#x} is {} in block {rank} of the cluster, and `.shared::cta` reaches \
                 block {own} only: use `.shared::cluster`",
                self.m.shared_name(at),
            );
            return Err(self.fault(FaultKind::OutOfBounds, lane, what));
        }
        if at
            .checked_add(bytes)
            .is_none_or(|end| end > block.shared.len())
        {
            let what = self.m.beyond_shared(at as i64, bytes, block.shared.len());
            return Err(self.fault(FaultKind::OutOfBounds, lane, what));
        }
        Ok(Target::Shared { block: rank, at })
    }

    /// `mov` of an address.
    pub(crate) fn address_of(
        &mut self,
        d: colex_ir::Reg,
        a: &Address,
        mask: u32,
    ) -> Result<(), Fault> {
        let mut values = self.address(a, mask)?;
        if d.ty.bits() == 64 {
            let base = match a.base {
                Base::Param(_) => GENERIC_PARAMS,
                Base::Shared(_) | Base::DynamicShared => GENERIC_SHARED,
                Base::Reg(_) => 0,
            };
            values = values.map(|x| x.wrapping_add(base));
        }
        self.set(d, mask, &values)
    }

    /// `mapa`: the same place in another block of the cluster.
    pub(crate) fn mapa(
        &mut self,
        d: colex_ir::Reg,
        a: colex_ir::Operand,
        rank: colex_ir::Operand,
        mask: u32,
    ) -> Result<(), Fault> {
        let [a, rank] = self.values([a, rank], Type::B32, mask)?;
        let blocks = self.g.blocks.len() as u64;
        if let Some(lane) = crate::state::warp::lanes(mask).find(|lane| rank[*lane] >= blocks) {
            let what = format!("block {} of a cluster of {blocks}", rank[lane]);
            return Err(self.fault(FaultKind::OutOfBounds, lane, what));
        }
        let place = (1u64 << WINDOW_BITS) - 1;
        let values = super::exec::map(|lane| a[lane] & place | rank[lane] << WINDOW_BITS, mask);
        self.set(d, mask, &values)
    }

    /// `cvta`
    pub(crate) fn cvta(
        &mut self,
        to_generic: bool,
        space: Space,
        d: colex_ir::Reg,
        a: colex_ir::Operand,
        mask: u32,
    ) -> Result<(), Fault> {
        let base = match space {
            Space::Shared | Space::Cluster => GENERIC_SHARED,
            Space::Param => GENERIC_PARAMS,
            Space::Global | Space::Generic => 0,
        };
        let values = self.value(a, Type::B64, mask)?;
        let values = values.map(|x| match (to_generic, x < base) {
            (true, true) => x + base,
            (false, false) => x - base,
            (true, false) | (false, true) => x,
        });
        self.set(d, mask, &values)
    }
}
