//! Simulated global memory: separate allocations at 64-bit addresses, with a flag for each byte that was written.

use std::sync::Arc;

/// Where the first allocation lies: below it, and in the gaps between allocations, nothing can be read.
const FIRST: u64 = 0x7_0000_0000;

/// Allocations begin at multiples of this many bytes, as CUDA's do.
const ALIGNMENT: u64 = 256;

/// The distance between the end of an allocation and the next one's beginning, in bytes: 2^31 elements of 16 bytes
/// beyond the end of one lie in no other, so that an access there is a fault. No address is given twice, so a program
/// has room for [`END`] / `GAP`, about 134 million, allocations.
const GAP: u64 = 1 << 36;

/// Where shared memory and parameters begin among generic addresses: no allocation reaches it.
const END: u64 = super::target::GENERIC_SHARED;

/// Returns `length` zeros, if the host has room for them. The pages come when they are written.
fn zeroed<T: Copy + Default>(length: usize) -> Option<Vec<T>> {
    // `vec!` would end the process where this fails, and filling what was reserved would touch every page.
    let mut room = Vec::<T>::new();
    room.try_reserve_exact(length).ok()?;
    // Unused memory is otherwise optimised away, and with it the question whether there is any.
    std::hint::black_box(&mut room);
    drop(room);
    Some(vec![T::default(); length])
}

/// Allocations by address. Clones share each of them until one of them writes it.
///
/// ```
/// use colex_sim::Memory;
///
/// let mut memory = Memory::default();
/// let at = memory.allocate(8)?;
/// memory.write(at, &[1, 2, 3, 4])?;
/// assert_eq!(memory.read(at, 4)?, [1, 2, 3, 4]);
/// let fault = memory.read(at + 2, 4).unwrap_err();
/// assert!(fault.to_string().ends_with("never written"));
/// # Ok::<(), colex_sim::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    /// By their addresses, which ascend: each access looks for its own among few.
    allocations: Vec<(u64, Arc<Allocation>)>,
    next: u64,
}

/// Bytes, and which of them were written.
#[derive(Clone, Debug)]
struct Allocation {
    /// The rank whose memory it is.
    rank: u32,
    bytes: Vec<u8>,
    written: Vec<bool>,
}

colex_layout::opaque_error! {
    /// Why simulated memory was not allocated, freed, read or written.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Error(ErrorKind);
}

impl Error {
    /// Returns whether the bytes are not inside one allocation, or none begins at the address.
    pub fn is_out_of_bounds(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::OutOfBounds { .. } | ErrorKind::NotAllocated { .. }
        )
    }

    /// Returns whether a byte was read that was never written.
    pub fn is_unwritten(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unwritten { .. })
    }

    /// Returns whether a rank was named that the machine does not have, or a machine of too few or too many ranks.
    pub fn is_rank(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Ranks { .. } | ErrorKind::NoRank { .. }
        )
    }

    /// Returns whether the host has no memory, or the simulator no addresses, for an allocation.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::OutOfMemory { .. } | ErrorKind::OutOfAddresses { .. }
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("{bytes} bytes at {address:#x} are in no allocation: {}", below(*address, *nearest))]
    OutOfBounds {
        address: u64,
        bytes: u64,
        /// The allocation that begins at or before the first byte: its address and bytes.
        nearest: Option<(u64, u64)>,
    },
    #[error("byte {} of the allocation at {allocation:#x} is read but was never written", address - allocation)]
    Unwritten { address: u64, allocation: u64 },
    #[error(
        "{bytes} bytes of simulated memory take twice as many of the host's, and it does not give them"
    )]
    OutOfMemory { bytes: u64 },
    #[error(
        "no addresses are left for {bytes} bytes: allocations of the simulator lie 64 GiB apart below {END:#x}, and none of \
         their addresses is given twice"
    )]
    OutOfAddresses { bytes: u64 },
    #[error("a machine of {ranks} ranks: 1 to {most} are possible")]
    Ranks { ranks: usize, most: usize },
    #[error("rank {rank} of a machine of {ranks} ranks, numbered from 0")]
    NoRank { rank: usize, ranks: usize },
    #[error("no allocation begins at {address:#x}, so none can be freed there")]
    NotAllocated { address: u64 },
}

/// Where an address lies beside the allocation before it.
fn below(address: u64, nearest: Option<(u64, u64)>) -> String {
    match nearest {
        Some((start, length)) => format!(
            "the nearest below has {length} bytes, and the access begins {} bytes after its start",
            address - start
        ),
        None => "the first begins above".into(),
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            allocations: Vec::new(),
            next: FIRST,
        }
    }
}

impl Memory {
    /// Allocates uninitialised bytes. The address is a multiple of 256, and no address is allocated twice. The host
    /// needs two bytes of memory for each of them, from its first write on.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has no memory for them, or if there are no addresses left.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        self.allocate_on(0, bytes)
    }

    /// The same in the memory of a rank.
    pub(crate) fn allocate_on(&mut self, rank: u32, bytes: u64) -> Result<u64, Error> {
        let full = || ErrorKind::OutOfMemory { bytes };
        let length = usize::try_from(bytes).map_err(|_| full())?;
        let fresh = Allocation {
            rank,
            bytes: zeroed(length).ok_or_else(full)?,
            written: zeroed(length).ok_or_else(full)?,
        };
        let address = self.next;
        let end = address
            .checked_add(bytes)
            .and_then(|end| end.checked_add(GAP));
        let next = end.and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        let next = next.filter(|next| *next <= END);
        let next = next.ok_or(ErrorKind::OutOfAddresses { bytes })?;
        self.allocations.push((address, Arc::new(fresh)));
        self.next = next;
        Ok(address)
    }

    /// Frees an allocation.
    ///
    /// # Errors
    ///
    /// Returns an error if no allocation begins at the address.
    pub fn free(&mut self, address: u64) -> Result<(), Error> {
        match self.place(address) {
            Some(place) => {
                self.allocations.remove(place);
                Ok(())
            }
            None => Err(ErrorKind::NotAllocated { address }.into()),
        }
    }

    /// Reads `bytes` bytes from an address on.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not inside one allocation, or if one of them was never written; it names the
    /// first one.
    pub fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        let (place, at) = self.find(address, bytes)?;
        let (allocation, held) = &self.allocations[place];
        match held.written[at.clone()].iter().position(|written| !written) {
            Some(first) => Err(ErrorKind::Unwritten {
                address: address + first as u64,
                allocation: *allocation,
            }
            .into()),
            None => Ok(held.bytes[at].to_vec()),
        }
    }

    /// Writes bytes at an address. They are initialised afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error, and writes nothing, if the bytes are not inside one allocation.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let (held, written) = self.get_mut(address, bytes.len() as u64)?;
        held.copy_from_slice(bytes);
        written.fill(true);
        Ok(())
    }

    /// The rank whose memory holds these bytes.
    pub(crate) fn rank_of(&self, address: u64, bytes: u64) -> Option<u32> {
        let (place, _) = self.find(address, bytes).ok()?;
        Some(self.allocations[place].1.rank)
    }

    /// Where the allocation that holds an address begins.
    pub(crate) fn beginning(&self, address: u64) -> Option<u64> {
        let (place, _) = self.find(address, 1).ok()?;
        Some(self.allocations[place].0)
    }

    /// Whether the allocation that begins there holds an address.
    pub(crate) fn holds(&self, allocation: u64, address: u64) -> bool {
        self.place(allocation).is_some_and(|place| {
            let length = self.allocations[place].1.bytes.len();
            address.wrapping_sub(allocation) < length.max(1) as u64
        })
    }

    /// The bytes of all allocations.
    pub(crate) fn bytes(&self) -> u64 {
        let each = self.allocations.iter();
        each.map(|(_, held)| held.bytes.len() as u64).sum()
    }

    /// Takes over bytes that were written in another memory with the same allocations.
    pub(crate) fn take_over(&mut self, other: &Memory, address: u64, bytes: usize) {
        if let (Ok((own, written)), Ok((new, _))) = (
            self.get_mut(address, bytes as u64),
            other.get(address, bytes as u64),
        ) {
            own.copy_from_slice(new);
            written.fill(true);
        }
    }

    /// Whether the bytes are inside one allocation.
    pub(crate) fn has(&self, address: u64, bytes: u64) -> bool {
        self.find(address, bytes).is_ok()
    }

    /// The bytes from an address on, and which of them were written.
    pub(crate) fn get(&self, address: u64, bytes: u64) -> Result<(&[u8], &[bool]), ErrorKind> {
        let (place, at) = self.find(address, bytes)?;
        let (_, held) = &self.allocations[place];
        Ok((&held.bytes[at.clone()], &held.written[at]))
    }

    /// The same, to be written.
    pub(crate) fn get_mut(
        &mut self,
        address: u64,
        bytes: u64,
    ) -> Result<(&mut [u8], &mut [bool]), ErrorKind> {
        let (place, at) = self.find(address, bytes)?;
        let held = Arc::make_mut(&mut self.allocations[place].1);
        Ok((&mut held.bytes[at.clone()], &mut held.written[at]))
    }

    /// The number of the allocation that begins at an address.
    fn place(&self, address: u64) -> Option<usize> {
        let place = |(start, _): &(u64, Arc<Allocation>)| *start;
        self.allocations.binary_search_by_key(&address, place).ok()
    }

    /// The number of the allocation that holds these bytes, and where in it they are.
    #[inline]
    fn find(
        &self,
        address: u64,
        bytes: u64,
    ) -> Result<(usize, core::ops::Range<usize>), ErrorKind> {
        let after = self.allocations.partition_point(|(at, _)| *at <= address);
        let nearest = after.checked_sub(1).map(|place| {
            let (start, held) = &self.allocations[place];
            (*start, held.bytes.len() as u64)
        });
        match nearest {
            Some((start, length)) if bytes <= length && address - start <= length - bytes => {
                let offset = (address - start) as usize;
                Ok((after - 1, offset..offset + bytes as usize))
            }
            _ => Err(ErrorKind::OutOfBounds {
                address,
                bytes,
                nearest,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_apart_aligned_and_never_reused() {
        let mut memory = Memory::default();
        let first = memory.allocate(1000).unwrap();
        let second = memory.allocate(0).unwrap();
        memory.free(second).unwrap();
        let third = memory.allocate(16).unwrap();
        assert!([first, second, third].iter().all(|at| at % 256 == 0));
        assert!(first + 1000 < second && second < third);
    }

    #[test]
    fn no_coordinate_beyond_the_end_of_an_allocation_is_in_another() {
        let mut memory = Memory::default();
        let first = memory.allocate(1000).unwrap();
        let second = memory.allocate(1000).unwrap();
        assert!(second - first > (1 << 31) * 16);
        // However many there are, and whether or not earlier ones are freed.
        let mut last = second;
        for i in 0..20_000 {
            let next = memory.allocate(16).unwrap();
            assert!(next - last > (1 << 31) * 16, "{next:#x} after {last:#x}");
            if i % 2 == 0 {
                memory.free(next).unwrap();
            }
            last = next;
        }
        // Where addresses end, it says so.
        memory.next = END - GAP - 256;
        memory.allocate(256).unwrap();
        let error = memory.allocate(8).unwrap_err();
        assert!(error.is_out_of_memory());
        assert_eq!(
            error.to_string(),
            "no addresses are left for 8 bytes: allocations of the simulator lie 64 GiB apart below 0x7fe0000000000000, and none \
             of their addresses is given twice"
        );
    }

    #[test]
    fn every_fault_verbatim() {
        let mut memory = Memory::default();
        let said = |fault: Error| fault.to_string();
        assert_eq!(
            said(memory.write(16, &[0; 4]).unwrap_err()),
            "4 bytes at 0x10 are in no allocation: the first begins above"
        );
        let at = memory.allocate(10).unwrap();
        memory.write(at, &[7; 5]).unwrap();
        assert_eq!(
            said(memory.read(at + 8, 4).unwrap_err()),
            "4 bytes at 0x700000008 are in no allocation: the nearest below has 10 bytes, and the access begins 8 bytes after its start"
        );
        assert_eq!(
            said(memory.read(at, 6).unwrap_err()),
            "byte 5 of the allocation at 0x700000000 is read but was never written"
        );
        assert_eq!(
            said(memory.free(at + 1).unwrap_err()),
            "no allocation begins at 0x700000001, so none can be freed there"
        );
        assert!(memory.read(u64::MAX, u64::MAX).is_err(), "no overflow");
    }
}
