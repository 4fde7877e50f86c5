//! Happens-before between the lanes of a warp: lanes are unordered except where they reconverge.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::clock::Epoch;
use crate::lane::bits::lanes;

/// A lane that stands for several.
pub(crate) const SEVERAL: usize = 32;

/// The kind of a wait for an operation. An engine has the odd clock of an operation for its read, the even one behind it for its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    Read,
    Write,
}

impl Awaited {
    fn of(clock: u32) -> Self {
        if clock % 2 == 1 {
            Awaited::Read
        } else {
            Awaited::Write
        }
    }
}

/// By engine and kind of wait: the engine's clock, the warp's clock at the wait, and the lanes that have not waited for their part.
type Waits = BTreeMap<(usize, Awaited), (u32, u32, u32)>;

/// Of each lane the steps that a proxy fence of other lanes has not reached: those after a clock, up to another.
type StepsOfLanes = [(u32, u32); 32];

/// For each pair of lanes, the warp's clock up to which the steps of the one happen before the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lockstep {
    /// Up to this clock, every lane is ordered after all others.
    floor: u32,
    /// Where lanes met that are not all: what each knows of each other beyond the floor.
    pairs: Option<Rc<[[u32; 32]; 32]>>,
    /// The copies that single lanes have waited for: by engine and kind of wait its clock, and the warp's clock at the wait.
    waits: Option<Rc<Waits>>,
    /// What proxy fences of single lanes leave, in shared and in global memory.
    gaps: [Option<Rc<StepsOfLanes>>; 2],
}

impl Lockstep {
    /// Orders all lanes after everything up to `clock`, which may be long past: they know of each other's later steps what they knew.
    fn raise(&mut self, clock: u32) {
        if clock <= self.floor {
            return;
        }
        self.floor = clock;
        if let Some(pairs) = &self.pairs
            && pairs.as_flattened().iter().all(|known| *known <= clock)
        {
            self.pairs = None;
        }
        if let Some(waits) = &mut self.waits {
            let is_over = |(_, at, missing): &(u32, u32, u32)| *at <= clock && *missing == 0;
            if waits.values().any(is_over) {
                Rc::make_mut(waits).retain(|_, wait| !is_over(wait));
            }
            if waits.is_empty() {
                self.waits = None;
            }
        }
    }

    /// At this time lanes have waited for copies of their own: the others do not know that until they meet.
    pub(crate) fn waited(&mut self, (engine, clock): (usize, u32), now: u32, missing: u32) {
        let wait = (engine, Awaited::of(clock));
        Rc::make_mut(self.waits.get_or_insert_default()).insert(wait, (clock, now, missing));
    }

    /// A barrier tells of the copies of these lanes: they need not wait for them.
    pub(crate) fn told(&mut self, mask: u32) {
        if let Some(waits) = &mut self.waits {
            let waits = Rc::make_mut(waits).values_mut();
            waits.for_each(|(_, _, missing)| *missing &= !mask);
        }
    }

    /// Whether an access is the part that a lane has in a copy, and other lanes have waited for theirs alone.
    pub(crate) fn lacks(&self, access: Epoch) -> bool {
        let Some(waits) = &self.waits else {
            return false;
        };
        let wait = waits.get(&(access.agent(), Awaited::Write));
        wait.is_some_and(|(clock, _, missing)| {
            access.lane() < SEVERAL
                && waits_for(*clock, access.clock())
                && missing >> access.lane() & 1 == 1
        })
    }

    /// The lanes of `mask` execute a proxy fence at `now`, after another one at `before`. It does not reach the steps of other lanes
    /// that these do not follow.
    pub(crate) fn fence(
        &mut self,
        is_global: bool,
        (mask, alive): (u32, u32),
        before: u32,
        now: u32,
    ) {
        let place = usize::from(is_global);
        if alive & !mask == 0 {
            self.gaps[place] = None;
            return;
        }
        let mut gaps = self.gaps[place].as_deref().copied().unwrap_or_default();
        for (lane, gap) in gaps.iter_mut().enumerate() {
            if mask >> lane & 1 == 1 {
                *gap = (0, 0);
                continue;
            }
            let known = lanes(mask).map(|own| self.known(own, lane)).max();
            let from = known.unwrap_or(0).max(before);
            *gap = (from, now);
        }
        self.gaps[place] = Some(Rc::new(gaps));
    }

    /// Whether a step of this warp is one that the last proxy fence, at `fenced`, does not reach.
    pub(crate) fn is_beside_fence(&self, is_global: bool, step: Epoch, fenced: u32) -> bool {
        self.gaps[usize::from(is_global)]
            .as_ref()
            .and_then(|gaps| gaps.get(step.lane()))
            .is_some_and(|(from, to)| *to == fenced && (*from + 1..=*to).contains(&step.clock()))
    }

    /// Whether a lane of this warp has met the one that did something, or waited for it, since.
    pub(crate) fn met(&self, lane: usize, warp: usize, other: Epoch) -> bool {
        let since = if other.agent() == warp {
            Some(other.clock())
        } else {
            self.waited_since(other)
        };
        since.is_none_or(|since| since <= self.known(lane, other.lane()))
    }

    /// The warp's clock at the first wait of lanes for an access of an engine: a wait for its operation's write is one for its read too.
    fn waited_since(&self, access: Epoch) -> Option<u32> {
        let waits = self.waits.as_ref()?;
        let wait = |kind| waits.get(&(access.agent(), kind));
        let both = [wait(Awaited::Read), wait(Awaited::Write)];
        let known = both.into_iter().flatten();
        known
            .filter(|(clock, ..)| waits_for(*clock, access.clock()))
            .map(|(_, at, _)| *at)
            .min()
    }

    /// Orders the lanes of `mask` after everything up to `clock`, which may be long past.
    pub(crate) fn some(&mut self, mask: u32, alive: u32, clock: u32) {
        if mask == alive {
            return self.raise(clock);
        }
        if clock <= self.floor || mask == 0 {
            return;
        }
        let pairs = Rc::make_mut(self.pairs.get_or_insert_default());
        lanes(mask).for_each(|lane| {
            pairs[lane]
                .iter_mut()
                .for_each(|known| *known = clock.max(*known))
        });
    }

    /// Synchronises the lanes of `mask` with each other: each is ordered after what any of them was.
    pub(crate) fn meet(&mut self, mask: u32, alive: u32, clock: u32) {
        if mask == alive {
            return self.raise(clock);
        }
        let pairs = Rc::make_mut(self.pairs.get_or_insert_default());
        let mut cohort = [0; 32];
        for lane in lanes(mask) {
            for (all, known) in cohort.iter_mut().zip(pairs[lane]) {
                *all = known.max(*all);
            }
        }
        lanes(mask).for_each(|lane| cohort[lane] = clock);
        lanes(mask).for_each(|lane| pairs[lane] = cohort);
    }

    /// Returns the clock up to which the steps of lane `of` happen before `lane`.
    pub(crate) fn known(&self, lane: usize, of: usize) -> u32 {
        let beyond = match &self.pairs {
            None => 0,
            Some(pairs) if of < 32 => pairs[lane][of],
            // The several lanes are not recorded one by one: no lane is blamed that may be ordered.
            Some(pairs) => (0..32)
                .filter(|other| *other != lane)
                .map(|other| pairs[lane][other])
                .max()
                .unwrap_or(0),
        };
        beyond.max(self.floor)
    }
}

/// Whether a wait for an engine up to `waited` is a wait for its access at `clock`.
///
/// A wait for the read of an operation says nothing of the write of the operation before, which the engine may have done for other lanes.
fn waits_for(waited: u32, clock: u32) -> bool {
    clock <= waited && clock.div_ceil(2) == waited.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::super::clock::Proxy;
    use super::*;

    const ALL: u32 = u32::MAX;

    #[test]
    fn lanes_that_meet_know_each_other_and_what_each_knew() {
        let mut lanes = Lockstep::default();
        lanes.meet(0b0011, ALL, 5);
        assert_eq!(
            (lanes.known(0, 1), lanes.known(1, 0), lanes.known(0, 2)),
            (5, 5, 0)
        );
        lanes.meet(0b0110, ALL, 7);
        assert_eq!(
            (lanes.known(2, 1), lanes.known(2, 0), lanes.known(0, 2)),
            (7, 5, 0)
        );
        lanes.some(0b1000, ALL, 6);
        assert_eq!((lanes.known(3, 0), lanes.known(0, 3)), (6, 0));
        lanes.meet(ALL, ALL, 9);
        assert_eq!((lanes.known(0, 31), lanes.known(4, SEVERAL)), (9, 9));
        lanes.meet(0b0011, ALL, 12);
        assert_eq!((lanes.known(0, SEVERAL), lanes.known(4, SEVERAL)), (12, 9));
    }

    /// A barrier may tell of an early arrival: what lanes know of later steps stays, and so do waits that others do not know of.
    #[test]
    fn an_order_up_to_a_past_clock_keeps_what_is_later() {
        let (engine, warp) = (40, 0);
        let access = Epoch::new(engine, 1, 7, 0, Proxy::Async);
        let mut lanes = Lockstep::default();
        lanes.some(1 << 5, ALL, 9);
        lanes.waited((engine, 1), 20, 0);
        for (clock, known, met) in [
            (5, 9, false),
            (12, 12, false),
            (20, 20, true),
            (3, 20, true),
        ] {
            lanes.some(ALL, ALL, clock);
            assert_eq!(
                (lanes.known(5, 3), lanes.met(5, warp, access)),
                (known, met)
            );
        }
    }

    /// A wait for a copy's write leaves the wait for its read before it, which other lanes may know of.
    #[test]
    fn a_wait_for_a_write_leaves_the_wait_for_the_read() {
        let (engine, warp) = (40, 0);
        let [read, write] = [1, 2].map(|clock| Epoch::new(engine, clock, 7, 0, Proxy::Async));
        let mut lanes = Lockstep::default();
        lanes.waited((engine, 1), 5, 0);
        lanes.waited((engine, 2), 8, 0);
        for (clock, met) in [(4, [false; 2]), (5, [true, false]), (8, [true; 2])] {
            lanes.some(1 << 3, ALL, clock);
            assert_eq!([read, write].map(|access| lanes.met(3, warp, access)), met);
        }
    }

    /// A wait of one lane for a copy, or for its read alone, hides that copy from the other lanes until they meet, and no copy that the
    /// same engine has done before or does later.
    #[test]
    fn law_a_wait_of_a_lane_is_for_one_copy() {
        let (engine, warp, now) = (40, 0, 9);
        let mut cases = 0;
        for waited in 1..=8u32 {
            for clock in 1..=8u32 {
                let mut lanes = Lockstep::default();
                lanes.waited((engine, waited), now, 0);
                let access = Epoch::new(engine, clock, 7, 0, Proxy::Async);
                let copy = |clock: u32| clock.div_ceil(2);
                let is_hidden = copy(clock) == copy(waited) && clock <= waited;
                assert_eq!(lanes.met(1, warp, access), !is_hidden, "{waited} {clock}");
                lanes.meet(ALL, ALL, now);
                assert!(lanes.met(1, warp, access), "{waited} {clock}");
                cases += 2;
            }
        }
        println!("law lockstep.waits: {cases} cases");
    }
}
