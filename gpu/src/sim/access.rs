//! Loads and stores.

use super::exec::{Exec, low};
use super::fault::{Fault, FaultKind};
use super::place::Target;
use super::warp::lanes;
use crate::ir::{Access, Address, Operand, Reg, Space};

/// The most bytes of one thread's access.
const WIDEST: usize = 32;

impl Exec<'_, '_, '_> {
    /// `ld`
    pub(super) fn load(
        &mut self,
        access: &Access,
        d: &[Reg],
        a: &Address,
        mask: u32,
    ) -> Result<(), Fault> {
        let each = access.ty.bits() as usize / 8;
        let bytes = each * d.len();
        let addresses = self.address(a, mask)?;
        self.count(access.space, &addresses, bytes, mask);
        let mut values = [[0u64; 32]; 4];
        for lane in lanes(mask) {
            let target = self.target(access.space, addresses[lane], bytes, bytes, lane)?;
            let mut buffer = [0u8; WIDEST];
            self.read(target, &mut buffer[..bytes.min(WIDEST)], lane)?;
            for (i, value) in values.iter_mut().enumerate().take(d.len()) {
                value[lane] = word(&buffer[i * each..], each);
            }
        }
        for (d, values) in d.iter().zip(&mut values) {
            if access.ty.is_signed() && access.ty.bits() < d.ty.bits() {
                let unused = 64 - access.ty.bits();
                let keep = low(d.ty.bits());
                *values = values.map(|x| ((x << unused) as i64 >> unused) as u64 & keep);
            }
            self.set(*d, mask, values)?;
        }
        Ok(())
    }

    /// `st`
    pub(super) fn store(
        &mut self,
        access: &Access,
        a: &Address,
        s: &[Operand],
        mask: u32,
    ) -> Result<(), Fault> {
        let each = access.ty.bits() as usize / 8;
        let bytes = each * s.len();
        let addresses = self.address(a, mask)?;
        self.count(access.space, &addresses, bytes, mask);
        let mut values = [[0u64; 32]; 4];
        for (value, s) in values.iter_mut().zip(s) {
            *value = self.value(*s, access.ty, mask)?;
        }
        for lane in lanes(mask) {
            let target = self.target(access.space, addresses[lane], bytes, bytes, lane)?;
            let mut buffer = [0u8; WIDEST];
            for (i, value) in values.iter().enumerate().take(s.len()) {
                buffer[i * each..(i + 1) * each]
                    .copy_from_slice(&value[lane].to_le_bytes()[..each]);
            }
            self.write(target, &buffer[..bytes.min(WIDEST)], lane)?;
        }
        Ok(())
    }

    /// Reads the bytes that a target names.
    pub(super) fn read(
        &mut self,
        target: Target,
        buffer: &mut [u8],
        lane: usize,
    ) -> Result<(), Fault> {
        let count = buffer.len();
        match target {
            Target::Global(address) => {
                match self.m.memory.get(address, count as u64) {
                    Ok((bytes, written)) => {
                        buffer.copy_from_slice(bytes);
                        if !self.m.options.uninitialised || written.iter().all(|w| *w) {
                            return Ok(());
                        }
                    }
                    Err(fault) => return Err(self.memory_fault(fault, lane)),
                }
                // The first byte that nobody wrote, in words.
                match self.m.memory.read(address, count as u64) {
                    Ok(_) => Ok(()),
                    Err(fault) => Err(self.memory_fault(fault, lane)),
                }
            }
            Target::Shared { block, at } => {
                let held = &self.g.blocks[block];
                buffer.copy_from_slice(&held.shared[at..at + count]);
                let unwritten = held.written[at..at + count].iter().position(|w| !w);
                match unwritten.filter(|_| self.m.options.uninitialised) {
                    None => Ok(()),
                    Some(i) => Err(self.unwritten_shared(at + i, lane)),
                }
            }
            Target::Param(at) => match self.m.params.get(at..at + count) {
                Some(bytes) => {
                    buffer.copy_from_slice(bytes);
                    Ok(())
                }
                None => {
                    let what = format!(
                        "{count} bytes at {at} of the parameters, which have {}",
                        self.m.params.len()
                    );
                    Err(self.fault(FaultKind::OutOfBounds, lane, what))
                }
            },
        }
    }

    /// Writes the bytes that a target names.
    pub(super) fn write(&mut self, target: Target, data: &[u8], lane: usize) -> Result<(), Fault> {
        match target {
            Target::Global(address) => match self.m.memory.get(address, data.len() as u64) {
                Ok((bytes, written)) => {
                    bytes.copy_from_slice(data);
                    written.fill(true);
                    Ok(())
                }
                Err(fault) => Err(self.memory_fault(fault, lane)),
            },
            Target::Shared { block, at } => {
                let held = &mut self.g.blocks[block];
                held.shared[at..at + data.len()].copy_from_slice(data);
                held.written[at..at + data.len()].fill(true);
                Ok(())
            }
            Target::Param(_) => {
                Err(self.fault(FaultKind::OutOfBounds, lane, "parameters cannot be written"))
            }
        }
    }

    /// The sentence for a byte of shared memory that nobody wrote.
    pub(super) fn unwritten_shared(&self, at: usize, lane: usize) -> Fault {
        let what = format!("{} is read but was never written", self.m.shared_name(at));
        self.fault(FaultKind::Uninitialised, lane, what)
    }

    /// Counts bank conflicts and sectors.
    pub(super) fn count(&mut self, space: Space, addresses: &[u64; 32], bytes: usize, mask: u32) {
        if !self.m.options.counts {
            return;
        }
        let count = &mut self.m.counts[self.w.pc];
        match space {
            Space::Shared | Space::Cluster => {
                let (passes, least) = super::banks::passes(addresses, bytes, mask);
                count.passes += passes;
                count.least_passes += least;
            }
            Space::Global => {
                let (sectors, least) = super::banks::sectors(addresses, bytes, mask);
                count.sectors += sectors;
                count.least_sectors += least;
            }
            Space::Param | Space::Generic => {}
        }
    }
}

/// The first `each` bytes as a number, lowest first.
pub(super) fn word(bytes: &[u8], each: usize) -> u64 {
    let mut word = [0; 8];
    let each = each.min(8);
    word[..each].copy_from_slice(&bytes[..each]);
    u64::from_le_bytes(word)
}
