//! The shadow memory of global memory: the last accesses of each byte.
//!
//! As `shadow.rs`, but for all clusters of a launch: an access is identified by the index of its cluster and its epoch
//! there. Clusters are ordered with each other only by the clocks that ordered accesses publish. Of unordered reads of a
//! byte, the first [`MEMBERS`] are kept, and of unordered atomic writes the first [`ATOMICS`].

use super::clock::{Clock, Epoch, Proxy};
use super::hash::Map;
use super::history::Histories;
use super::lockstep::SEVERAL;
use super::release::Scope;
use super::shadow::{Access, AccessKind, MOST_OF_AGENT, REMEMBERED, Race};
use super::strength::{Strengths, Weakness};
use std::sync::Arc;

/// Bytes of a page of histories.
pub(crate) const PAGE: u64 = 1 << 12;

/// The number of reads of a byte that are remembered.
const MEMBERS: usize = 16;

/// The number of atomic writes of a byte that are remembered: a sum has as many as blocks add to it.
const ATOMICS: usize = 256;

/// The lanes of a warp, and what stands for several.
const LANES: u32 = SEVERAL as u32 + 1;

/// Set in the number of a set of reads.
const SET: u32 = 1 << 31;

/// The most accesses of warps' instructions that have numbers without that bit.
const MOST_MARKS: usize = (SET / LANES) as usize - 1;

/// The last plain write to a byte, the atomic writes and the reads since: numbers of marks, or of a set; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GlobalCell {
    write: u32,
    atomics: u32,
    reads: u32,
}

/// Bytes in one page that were accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) writes: bool,
    /// Whether they were read since.
    pub(crate) reads: bool,
}

/// An access, and the number of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) cluster: u32,
    pub(crate) epoch: Epoch,
}

impl Mark {
    /// Whether the access that is looked at is ordered after this one.
    fn before(&self, cluster: u32, access: &Access<'_>) -> bool {
        if self.cluster == cluster {
            access.knows(self.epoch)
        } else {
            self.within(access.view.of(self.cluster).map(|(seen, _)| seen))
        }
    }

    /// The clock of its cluster that proxy fences have made visible.
    fn fenced<'v>(&self, cluster: u32, access: &'v Access<'_>) -> Option<&'v Clock> {
        if self.cluster == cluster {
            Some(&access.view.fenced_global)
        } else {
            access.view.of(self.cluster).map(|(_, fenced)| fenced)
        }
    }

    fn within(&self, clock: Option<&Clock>) -> bool {
        clock.is_some_and(|clock| self.epoch.before(clock))
    }
}

/// The histories of global memory.
#[derive(Debug, Default)]
pub(crate) struct Global {
    /// Where each page's histories are kept, and the page that was looked at last.
    pages: Map<u64, usize>,
    cells: Vec<Histories<GlobalCell>>,
    last_page: Option<(u64, usize)>,
    marks: Vec<Mark>,
    numbers: Map<Mark, u32>,
    last_mark: Option<(Mark, u32)>,
    sets: Vec<Vec<u32>>,
    /// A cache of the sets that adding a read to a set gave.
    grown: Map<(u32, u32), u32>,
    /// The warps of a block.
    warps_per_block: usize,
    /// On several devices: the clusters of each, and whether the ordered access of a step has the scope of the system.
    devices: Option<(u32, Vec<bool>)>,
    /// Which accesses are atomic with each other.
    strengths: Arc<Strengths>,
    /// Whether the reductions of copies of several devices are atomic with each other.
    reductions_meet: bool,
    /// The most marks, and the most sets.
    most: (usize, usize),
}

impl Global {
    /// Builds the histories of a launch whose blocks have `warps_per_block` warps.
    pub(crate) fn new(warps_per_block: usize) -> Self {
        Global {
            warps_per_block,
            most: (MOST_MARKS, SET as usize / 2),
            ..Global::default()
        }
    }

    /// The same of a program whose steps are these.
    pub(crate) fn with_strengths(self, strengths: Arc<Strengths>) -> Self {
        Global { strengths, ..self }
    }

    /// The same on several devices of `clusters` clusters each; of each step, whether its access has the scope of the system.
    pub(crate) fn on_devices(
        self,
        clusters: u32,
        is_system: Vec<bool>,
        reductions_meet: bool,
    ) -> Self {
        Global {
            devices: Some((clusters, is_system)),
            reductions_meet,
            ..self
        }
    }

    /// Whether there is no number for the marks and sets of another access.
    pub(crate) fn is_full(&self) -> bool {
        self.marks.len() >= self.most.0 || self.sets.len() >= self.most.1
    }

    /// The same with room for fewer marks.
    #[cfg(test)]
    pub(crate) fn with_room(self, marks: usize) -> Self {
        let most = (marks, self.most.1);
        Global { most, ..self }
    }

    /// The number of accesses of warps' instructions that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.marks.len()
    }

    /// Whether two accesses are atomic with each other: both ordered ones, or both of copies that reduce, since these have the
    /// order `.relaxed.gpu` (PTX ISA, `cp.reduce.async.bulk`). A copy and an ordered access are of two proxies.
    fn are_atomic(&self, mark: Mark, cluster: u32, access: &Access<'_>) -> bool {
        let both_reduce =
            self.strengths.reduces(mark.epoch) && self.strengths.reduces(access.epoch);
        if both_reduce && self.reductions_meet {
            return true;
        }
        let near = self.least_scope([mark.epoch, access.epoch], [mark.cluster, cluster]);
        let weakness = || self.strengths.weakness([mark.epoch, access.epoch], near);
        let are_strong = both_reduce || access.shares(mark.epoch) && weakness().is_none();
        are_strong && !self.is_apart(mark, cluster, access)
    }

    /// The least scope that has the warps of two accesses, of one device.
    fn least_scope(&self, [a, b]: [Epoch; 2], [cluster, other]: [u32; 2]) -> Scope {
        let block = |epoch: Epoch| epoch.agent() / self.warps_per_block.max(1);
        if cluster != other {
            Scope::Device
        } else if block(a) != block(b) {
            Scope::Cluster
        } else {
            Scope::Block
        }
    }

    /// Why two accesses of one device are not atomic with each other, although both are ordered.
    pub(crate) fn weakness(&self, both: [Epoch; 2], clusters: [u32; 2]) -> Option<Weakness> {
        let are_ordered = both
            .iter()
            .all(|epoch| epoch.proxy() == Some(Proxy::Atomic));
        let near = self.least_scope(both, clusters);
        self.strengths.weakness(both, near).filter(|_| are_ordered)
    }

    /// Whether two ordered accesses are of different devices and one of them has a narrower scope than the system's: then
    /// they race as plain ones do (PTX ISA, memory consistency model, morally strong operations).
    fn is_apart(&self, mark: Mark, cluster: u32, access: &Access<'_>) -> bool {
        let Some((clusters, is_system)) = &self.devices else {
            return false;
        };
        let clusters = (*clusters).max(1);
        let is_system = |epoch: Epoch| is_system.get(epoch.pc()).is_some_and(|is| *is);
        mark.cluster / clusters != cluster / clusters
            && !(is_system(mark.epoch) && is_system(access.epoch))
    }

    /// The bytes that something has accessed.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Touched> {
        self.pages.iter().flat_map(|(number, page)| {
            let known = self.cells[*page].known();
            known.map(move |(at, bytes, cell)| Touched {
                address: number * PAGE + at as u64,
                bytes,
                writes: cell.write != 0 || cell.atomics != 0,
                reads: cell.reads != 0,
            })
        })
    }

    /// The number of an access: of lane `l` of an instruction of a warp, [`LANES`] times the instruction's plus `l`.
    fn number(&mut self, mark: Mark) -> u32 {
        let lane = mark.epoch.lane() as u32;
        let mark = Mark {
            epoch: mark.epoch.of_lane(0),
            ..mark
        };
        if let Some((last, number)) = self.last_mark
            && last == mark
        {
            return number * LANES + lane;
        }
        let next = self.marks.len() as u32 + 1;
        let number = *self.numbers.entry(mark).or_insert(next);
        if number == next {
            self.marks.push(mark);
        }
        self.last_mark = Some((mark, number));
        number * LANES + lane
    }

    fn mark(&self, number: u32) -> Mark {
        let mark = self.marks[(number / LANES) as usize - 1];
        Mark {
            epoch: mark.epoch.of_lane((number % LANES) as usize),
            ..mark
        }
    }

    fn members(&self, reads: u32) -> &[u32] {
        &self.sets[(reads & !SET) as usize]
    }

    /// Compares an access to some bytes with those before it, and remembers it: a store of another block that has stored
    /// the same there, if there is one. The first byte that clashes, how, and the cluster of the other.
    pub(crate) fn check_access(
        &mut self,
        cluster: u32,
        address: u64,
        count: usize,
        access: &Access<'_>,
    ) -> Result<Option<Mark>, (usize, Race, u32)> {
        let mark = Mark {
            cluster,
            epoch: access.epoch,
        };
        let own = self.number(mark);
        let mut equal = None;
        let mut at = 0;
        while at < count {
            let (number, first) = ((address + at as u64) / PAGE, (address + at as u64) % PAGE);
            let here = (count - at).min((PAGE - first) as usize);
            let page = self.page(number);
            let mut cells = std::mem::take(&mut self.cells[page]);
            let result = self.visit((&mut cells, first as usize, here), cluster, own, access);
            self.cells[page] = cells;
            let found = result.map_err(|(i, race, other)| (at + i, race, other))?;
            equal = equal.or(found);
            at += here;
        }
        Ok(equal)
    }

    /// The first of some bytes that something has written, and what.
    pub(crate) fn written(&mut self, address: u64, count: usize) -> Option<(usize, Mark)> {
        let mut at = 0;
        while at < count {
            let (number, first) = ((address + at as u64) / PAGE, (address + at as u64) % PAGE);
            let here = (count - at).min((PAGE - first) as usize);
            let page = self.page(number);
            let look = |cell: GlobalCell| match (cell.write, cell.atomics) {
                (0, 0) => Ok(cell),
                (0, writes) | (writes, _) => Err(writes),
            };
            if let Err((i, writes)) = self.cells[page].visit(first as usize, here, look) {
                let one = if writes & SET == 0 {
                    writes
                } else {
                    *self.members(writes).first()?
                };
                return Some((at + i, self.mark(one)));
            }
            at += here;
        }
        None
    }

    fn page(&mut self, number: u64) -> usize {
        if let Some((last, page)) = self.last_page
            && last == number
        {
            return page;
        }
        let page = *self.pages.entry(number).or_insert_with(|| {
            self.cells.push(Histories::new(PAGE as usize));
            self.cells.len() - 1
        });
        self.last_page = Some((number, page));
        page
    }

    fn visit(
        &mut self,
        (cells, at, count): (&mut Histories<GlobalCell>, usize, usize),
        cluster: u32,
        own: u32,
        access: &Access<'_>,
    ) -> Result<Option<Mark>, (usize, Race, u32)> {
        let mut equal = None;
        let change = |old: GlobalCell| {
            let mut compared = old;
            if access.kind == AccessKind::Rewrite
                && old.write != 0
                && let Some(other) = self.stores_the_same(old.write, cluster, access)
            {
                equal = equal.or(Some(other));
                compared.write = 0;
            }
            self.compare(compared, cluster, access)?;
            let is_atomic = access.is_atomic() || self.strengths.reduces(access.epoch);
            Ok(match (access.writes(), is_atomic) {
                (false, _) => GlobalCell {
                    reads: self.with(old.reads, own, cluster, access),
                    ..old
                },
                (true, true) => GlobalCell {
                    atomics: self.with(old.atomics, own, cluster, access),
                    ..old
                },
                (true, false) => GlobalCell {
                    // A later read must be ordered after all stores of the same value.
                    write: if compared.write == old.write {
                        own
                    } else {
                        self.with(old.write, own, cluster, access)
                    },
                    ..GlobalCell::default()
                },
            })
        };
        match cells.visit(at, count, change) {
            Ok(()) => Ok(equal),
            Err((i, (race, other))) => Err((i, race, other)),
        }
    }

    /// The store of another block that nothing orders before this one, if all such are plain stores of the same
    /// instruction: this one stores what is there already.
    fn stores_the_same(&self, writes: u32, cluster: u32, access: &Access<'_>) -> Option<Mark> {
        let block = |agent: usize| agent / self.warps_per_block.max(1);
        let one = [writes];
        let all = match writes & SET {
            0 => &one[..],
            _ => self.members(writes),
        };
        // The lanes of one warp store at once.
        let at_once = |mark: &Mark| mark.cluster == cluster && access.repeats(mark.epoch);
        let mut unordered = all
            .iter()
            .map(|number| self.mark(*number))
            .filter(|mark| !mark.before(cluster, access) && !at_once(mark));
        let first = unordered.clone().next()?;
        let same = |mark: Mark| {
            let elsewhere =
                mark.cluster != cluster || block(mark.epoch.agent()) != block(access.epoch.agent());
            let plain = [mark.epoch, access.epoch]
                .iter()
                .all(|epoch| epoch.proxy() == Some(Proxy::Generic));
            elsewhere && plain && mark.epoch.pc() == access.epoch.pc()
        };
        unordered.all(same).then_some(first)
    }

    fn compare(
        &self,
        cell: GlobalCell,
        cluster: u32,
        access: &Access<'_>,
    ) -> Result<(), (Race, u32)> {
        let after = |mark: Mark| {
            let here = mark.cluster == cluster;
            let none = Clock::default();
            let known = mark.before(cluster, access) && !(here && access.is_apart(mark.epoch));
            let fenced = mark.fenced(cluster, access).unwrap_or(&none);
            if here || known {
                access.after(mark.epoch, known, fenced)
            } else {
                Err(Race::Unordered {
                    other: mark.epoch,
                    other_writes: true,
                })
            }
        };
        if cell.write != 0 {
            self.each(cell.write, after)?;
        }
        // On one device, ordered accesses are atomic with all others that are no copies.
        let is_clear = access.is_atomic() && self.devices.is_none() && self.strengths.is_plain();
        if cell.atomics != 0 && !is_clear {
            self.each(cell.atomics, |mark| {
                if self.are_atomic(mark, cluster, access) {
                    Ok(())
                } else {
                    after(mark)
                }
            })?;
        }
        if !access.writes() || cell.reads == 0 {
            return Ok(());
        }
        let clear = |mark: Mark| {
            if self.are_atomic(mark, cluster, access) || mark.before(cluster, access) {
                Ok(())
            } else {
                Err(Race::Unordered {
                    other: mark.epoch,
                    other_writes: false,
                })
            }
        };
        self.each(cell.reads, clear)
    }

    /// Looks at each access of a set.
    fn each(
        &self,
        accesses: u32,
        look: impl Fn(Mark) -> Result<(), Race>,
    ) -> Result<(), (Race, u32)> {
        let one = |number: u32| {
            let mark = self.mark(number);
            look(mark).map_err(|race| (race, mark.cluster))
        };
        match accesses & SET {
            0 => one(accesses),
            _ => self
                .members(accesses)
                .iter()
                .try_for_each(|number| one(*number)),
        }
    }

    /// The reads with one more where the latest is one of the same step: if it is the only one, or stands for several lanes already.
    fn with_neighbour(
        &mut self,
        reads: u32,
        own: u32,
        cluster: u32,
        access: &Access<'_>,
    ) -> Option<u32> {
        let is_set = reads & SET != 0;
        let latest = if is_set {
            *self.members(reads).last()?
        } else {
            reads
        };
        let (new, read) = (self.mark(own), self.mark(latest));
        if read.cluster != cluster || !read.epoch.at_once(new.epoch) {
            return None;
        }
        let epoch = new.epoch.beside(read.epoch);
        let joined = self.number(Mark { epoch, ..new });
        if !is_set {
            return Some(joined);
        }
        let (_, others) = self.members(reads).split_last()?;
        let mut same_agent = 0;
        let mut stays = |number: &u32| self.stays(*number, cluster, access, &mut same_agent);
        (joined == latest && others.iter().rev().all(&mut stays)).then_some(reads)
    }

    /// Whether a read stays beside a new one, as in shared memory; the latest are looked at first.
    fn stays(
        &self,
        number: u32,
        cluster: u32,
        access: &Access<'_>,
        same_agent: &mut usize,
    ) -> bool {
        let read = self.mark(number);
        if read.cluster == cluster && read.epoch.agent() == access.epoch.agent() {
            if read.epoch.at_once(access.epoch) {
                return false;
            }
            *same_agent += 1;
            if *same_agent > MOST_OF_AGENT {
                return false;
            }
        }
        !read.before(cluster, access)
    }

    /// The reads with one more; those that the new one knows of are left out.
    fn with(&mut self, reads: u32, own: u32, cluster: u32, access: &Access<'_>) -> u32 {
        if reads == 0 || reads == own {
            return own;
        }
        if reads & SET == 0 && self.mark(reads).before(cluster, access) {
            return own;
        }
        if let Some(same) = self.with_neighbour(reads, own, cluster, access) {
            return same;
        }
        // A set of writes has room for more.
        let key = (reads, if access.writes() { own | SET } else { own });
        if let Some(grown) = self.grown.get(&key) {
            return *grown;
        }
        let mut members = match reads & SET {
            0 => vec![reads],
            _ => self.members(reads).to_vec(),
        };
        let mut new = self.mark(own);
        for number in &members {
            let read = self.mark(*number);
            if read.cluster == cluster && read.epoch.at_once(new.epoch) {
                new.epoch = new.epoch.beside(read.epoch);
            }
        }
        let mut same_agent = 0;
        members.reverse();
        members.retain(|number| self.stays(*number, cluster, access, &mut same_agent));
        members.reverse();
        let most = if access.writes() { ATOMICS } else { MEMBERS };
        if members.len() < most {
            members.push(self.number(new));
        }
        let grown = match &members[..] {
            [one] => *one,
            _ => {
                self.sets.push(members);
                (self.sets.len() as u32 - 1) | SET
            }
        };
        if self.grown.len() == REMEMBERED {
            self.grown.clear();
        }
        self.grown.insert(key, grown);
        grown
    }
}
