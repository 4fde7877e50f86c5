//! Loads and stores.

use crate::lane::bits::word;
use crate::machine::exec::{Exec, low};
use crate::machine::place::Target;
use crate::machine::port::{Accessor, tick};
use crate::order::clock::Proxy;
use crate::order::release::{Ordering, Release, Scope};
use crate::report::fault::{Fault, FaultKind};
use crate::state::warp::lanes;
use colex_ir::{Access, Address, Cache, Operand, Order, Reg, Space};

/// The most bytes of one thread's access.
const WIDEST: usize = 16;

impl Exec<'_, '_, '_> {
    /// `ld`
    pub(crate) fn load(
        &mut self,
        access: &Access,
        d: &[Reg],
        a: &Address,
        mask: u32,
    ) -> Result<(), Fault> {
        let each = access.ty.bits() as usize / 8;
        let bytes = self.vector(each, d.len())?;
        let addresses = self.address(a, mask)?;
        self.count(access.space, &addresses, bytes, mask);
        let proxy = proxy_of(access);
        let mut values = [[0u64; 32]; 4];
        for lane in lanes(mask) {
            let target = self.target(access.space, addresses[lane], bytes, bytes, lane)?;
            let mut buffer = [0u8; WIDEST];
            self.begin_far(target);
            let accessor = Accessor::lane(self.w, lane, proxy);
            self.m.check_alive(self.g, &accessor, target)?;
            self.m
                .read(self.g, &accessor, target, &mut buffer[..bytes])?;
            if is_non_coherent(access.cache) {
                let accessor = Accessor::lane(self.w, lane, proxy);
                self.m.check_constant(self.g, &accessor, target, bytes)?;
            }
            // The clocks acquired here order the following accesses, not this read itself.
            if let Some(ordering) = Ordering::of(access.order) {
                self.receive(target, ordering, lane);
                self.looked(target, word(&buffer, bytes.min(8)));
            }
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
    pub(crate) fn store(
        &mut self,
        access: &Access,
        a: &Address,
        s: &[Operand],
        mask: u32,
    ) -> Result<(), Fault> {
        let each = access.ty.bits() as usize / 8;
        let bytes = self.vector(each, s.len())?;
        let addresses = self.address(a, mask)?;
        self.count(access.space, &addresses, bytes, mask);
        let proxy = proxy_of(access);
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
            self.begin_far(target);
            let accessor = Accessor::lane(self.w, lane, proxy);
            self.m.check_alive(self.g, &accessor, target)?;
            self.m.write(self.g, &accessor, target, &buffer[..bytes])?;
            if let Some(ordering) = Ordering::of(access.order) {
                self.pass_on(target, ordering, false);
            }
        }
        if access.order != Order::Weak {
            tick(&mut self.w.view.seen, self.w.index);
        }
        Ok(())
    }

    /// An access that reaches another block's shared memory is under way until a release of the cluster's scope.
    fn begin_far(&mut self, target: Target) {
        if let Target::Shared { block, .. } = target
            && block != self.w.block
        {
            let own = self.w.index;
            let now = self.w.view.seen.get(own);
            self.w.view.far.raise(own, now);
        }
    }

    /// The bytes of a vector of `count` values of `each` bytes.
    fn vector(&self, each: usize, count: usize) -> Result<usize, Fault> {
        match (each, count) {
            (1..=8, 1 | 2 | 4) if each * count <= WIDEST => Ok(each * count),
            _ => Err(self.fault_warp(
                FaultKind::Operand,
                format!("a vector of {count} values of {each} bytes: 1, 2 or 4 values of up to {WIDEST} bytes are possible"),
            )),
        }
    }

    /// The releases published at an address that ordered accesses use.
    fn released_at(&mut self, target: Target) -> Option<&mut Release> {
        match target {
            _ if !self.m.options.races => None,
            Target::Global(address) => Some(self.m.ordered.entry(address).or_default()),
            Target::Shared { block, at } => Some(self.g.ordered.entry((block, at)).or_default()),
            Target::Param(_) => None,
        }
    }

    /// An ordered read: it acquires the clocks published there, at once or at the next fence.
    pub(crate) fn receive(&mut self, target: Target, ordering: Ordering, lane: usize) {
        let home = self.w.home(self.g);
        let known = self
            .released_at(target)
            .filter(|release| !release.is_empty());
        let Some(release) = known.map(|release| release.clone()) else {
            return;
        };
        if let Target::Global(flag) = target {
            self.m
                .devices
                .note_missed(home.rank, flag, ordering, &release);
        }
        if ordering.acquires {
            release.acquire(ordering.scope, home, &mut self.w.view);
            let own = release.own(ordering.scope, home, self.w.index);
            self.w.learnt(1 << lane, own);
        } else {
            self.w.unacquired.merge(&release, ordering.scope);
            self.w.readers |= 1 << lane;
        }
    }

    /// The warp has seen a value at a place where ranks or blocks may meet.
    pub(crate) fn looked(&mut self, target: Target, value: u64) {
        if let Target::Global(address) = target {
            self.w.polls.saw(address, value, self.w.pc);
            self.m.devices.saw(self.g.rank, address);
        }
    }

    /// An ordered write: it publishes the warp's clock, or its clock at the last fence. If `adds` is set, it joins the
    /// clocks that are there.
    pub(crate) fn pass_on(&mut self, target: Target, ordering: Ordering, adds: bool) {
        let home = self.w.home(self.g);
        let mut new = Release::default();
        new.merge(&self.w.released, ordering.scope);
        if ordering.releases {
            new.add(ordering.scope, home, &self.w.view);
        }
        match self.released_at(target) {
            Some(release) if adds => release.merge(&new, Scope::System),
            Some(release) => *release = new,
            None => {}
        }
    }

    /// Counts bank conflicts and sectors.
    pub(crate) fn count(&mut self, space: Space, addresses: &[u64; 32], bytes: usize, mask: u32) {
        if !self.m.options.counts {
            return;
        }
        let count = &mut self.m.counts[self.w.pc];
        match space {
            Space::Shared | Space::Cluster => {
                let (passes, least) = crate::state::banks::passes(addresses, bytes, mask);
                count.passes += passes;
                count.least_passes += least;
            }
            Space::Global => {
                let (sectors, least) = crate::state::banks::sectors(addresses, bytes, mask);
                count.sectors += sectors;
                count.least_sectors += least;
            }
            Space::Param | Space::Generic => {}
        }
    }
}

/// Whether a load goes through a cache that does not see the writes of the kernel (PTX ISA 9.7.9, `ld.global.nc`).
fn is_non_coherent(cache: Cache) -> bool {
    matches!(
        cache,
        Cache::Nc | Cache::NcNoAllocate | Cache::NcNoAllocate256
    )
}

/// Ordered accesses do not race with each other.
fn proxy_of(access: &Access) -> Proxy {
    use Order::{AcqRel, Acquire, Relaxed, Release, Volatile, Weak};
    match access.order {
        Weak => Proxy::Generic,
        Relaxed(_) | Acquire(_) | Release(_) | AcqRel(_) | Volatile => Proxy::Atomic,
    }
}
