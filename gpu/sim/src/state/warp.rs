//! A warp: 32 threads in lockstep, their registers, and which of them are active.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use super::polls::Polls;
use super::program::Step;
use super::wait::Wait;
pub(crate) use crate::lane::bits::{FULL, Lanes, lanes};
use crate::order::clock::View;
use crate::order::lockstep::Lockstep;
use crate::order::release::{Home, Release};

/// A branch or loop that the warp is in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Frame {
    If {
        /// The lanes that meet at the end.
        all: u32,
        /// Those that take the other side, as long as it is still to come.
        other: u32,
        /// The steps of `Else` and `EndIf`.
        other_at: usize,
        end: usize,
    },
    Loop {
        /// The lanes that meet after the loop.
        all: u32,
        /// Those that have not left it.
        live: u32,
        /// Those that had left the round of the loop around.
        outer_gone: u32,
        end: usize,
    },
}

/// A product that the warp has issued.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub(crate) number: u64,
    /// The engine that does it, and that engine's clock.
    pub(crate) engine: (usize, u32),
    /// The registers it writes, and those of A that it reads.
    pub(crate) slots: Vec<usize>,
    pub(crate) sources: Vec<usize>,
    /// Its extents: M, N and K.
    pub(crate) shape: [i64; 3],
    /// The number of `wgmma.fence`, plus one, at its issue.
    pub(crate) fences: u32,
    /// The step that issued it.
    pub(crate) pc: usize,
}

/// The products of a warp.
#[derive(Debug, Default)]
pub(crate) struct Products {
    /// Those that no group holds yet.
    pub(crate) open: Vec<InFlight>,
    /// The groups that have not been waited for, oldest first.
    pub(crate) groups: VecDeque<Vec<InFlight>>,
    /// How many there were.
    pub(crate) issued: u64,
}

/// A copy that some lanes have issued.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) number: u64,
    pub(crate) engine: (usize, u32),
    pub(crate) lanes: u32,
    /// Which of the lanes' groups it belongs to.
    pub(crate) group: u32,
    /// Whether a wait for its read is over; a later one says nothing new of it.
    pub(crate) has_read: bool,
    /// The lanes that have waited for it, and those that have let a barrier tell of it.
    pub(crate) waited: u32,
    pub(crate) told: u32,
}

impl Flying {
    /// The lanes whose part nothing tells of.
    pub(crate) fn missing(&self) -> u32 {
        self.lanes & !self.waited & !self.told
    }
}

/// Copies in groups, each thread's its own.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The number of groups that each lane has committed.
    pub(crate) committed: [u32; 32],
    pub(crate) flying: Vec<Flying>,
}

impl Groups {
    /// The copies that must be complete, or with `read` have read, for at most `pending` groups of each lane of `mask` to be under
    /// way. Each lane waits for its own part alone.
    pub(crate) fn due(&mut self, mask: u32, pending: u32, read: bool) -> Vec<u64> {
        let mut numbers = Vec::new();
        for copy in self
            .flying
            .iter_mut()
            .filter(|copy| !(read && copy.has_read))
        {
            let due = lanes(mask & copy.lanes & !copy.waited)
                .filter(|lane| copy.group.saturating_add(pending) < self.committed[*lane])
                .fold(0, |due, lane| due | 1 << lane);
            if due != 0 {
                numbers.push(copy.number);
                copy.waited |= if read { 0 } else { due };
            }
        }
        numbers
    }
}

/// Registers, a value in each lane.
///
/// In halves, since the allocator hands out zeros of such arrays without a loop over them.
#[derive(Debug)]
pub(crate) struct Registers(Vec<[[u64; 16]; 2]>);

impl Registers {
    fn new(count: usize) -> Self {
        Registers(vec![[[0; 16]; 2]; count])
    }
}

impl Index<usize> for Registers {
    type Output = Lanes;

    #[inline]
    fn index(&self, slot: usize) -> &Lanes {
        let lanes = self.0[slot].as_flattened();
        lanes.try_into().expect("two halves are 32 lanes")
    }
}

impl IndexMut<usize> for Registers {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Lanes {
        let lanes = self.0[slot].as_flattened_mut();
        lanes.try_into().expect("two halves are 32 lanes")
    }
}

/// 32 threads.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Its number among the warps of the cluster.
    pub(crate) index: usize,
    /// Its block's rank in the cluster.
    pub(crate) block: usize,
    /// The number of its first thread in the block.
    pub(crate) first: u32,
    /// The lanes that have a thread.
    pub(crate) exists: u32,
    /// The lanes that execute.
    pub(crate) active: u32,
    /// The lanes whose thread has ended, and the step of the last `exit`.
    pub(crate) exited: u32,
    pub(crate) left_at: Option<usize>,
    /// The lanes that have left this round of the innermost loop.
    gone: u32,
    frames: Vec<Frame>,
    /// The step to execute.
    pub(crate) pc: usize,
    /// The number of instructions that it has executed.
    pub(crate) steps: u64,
    /// That number at the end of the last round of a loop.
    pub(crate) steps_at_round: u64,
    /// The reason for which it waits.
    pub(crate) wait: Option<Wait>,
    /// Whether it has reached bytes that it has to read and that are not written yet.
    pub(crate) frozen: bool,
    /// Registers that are no predicates, and the lanes in which each was written.
    pub(crate) regs: Registers,
    pub(crate) written: Vec<u32>,
    /// Predicates, one bit per lane, and the lanes in which each was written.
    pub(crate) preds: Vec<u32>,
    pub(crate) preds_written: Vec<u32>,
    /// Its vector clock, and the order between its lanes.
    pub(crate) view: View,
    pub(crate) lockstep: Lockstep,
    /// The barrier it has looked at in vain (block, place, parity), if it has done nothing for others since.
    pub(crate) idle: Option<(usize, usize, u64)>,
    /// The flags that it looks at, in a launch on several devices.
    pub(crate) polls: Polls,
    /// The number of products in flight that hold each register.
    pub(crate) busy: Vec<u32>,
    /// The number of those that only read it.
    pub(crate) async_reads: Vec<u32>,
    /// Its clocks at its last fences, and the clocks that it has read without acquiring them.
    pub(crate) released: Release,
    pub(crate) unacquired: Release,
    /// The lanes that have read the latter.
    pub(crate) readers: u32,
    /// The number of `wgmma.fence`, plus one, when each register was last written.
    pub(crate) touched: Vec<u32>,
    /// The number of `wgmma.fence`, plus one.
    pub(crate) fences: u32,
    pub(crate) products: Products,
    /// `cp.async`, and bulk copies to global memory.
    pub(crate) copies: Groups,
    pub(crate) bulk: Groups,
    /// The phase of the cluster's barrier at which it has arrived and not waited.
    pub(crate) cluster_phase: Option<u64>,
    /// 32-bit registers of a thread.
    pub(crate) registers: i64,
}

impl Warp {
    /// A warp at its beginning: its number and its block's rank, its first thread and the block's threads, how many
    /// registers and predicates there are, and what it knows.
    pub(crate) fn new(
        [index, block]: [usize; 2],
        [first, threads]: [u32; 2],
        [registers, preds]: [usize; 2],
        view: View,
    ) -> Self {
        let exists = match threads - first {
            32.. => FULL,
            some => (1 << some) - 1,
        };
        Warp {
            index,
            block,
            first,
            exists,
            active: exists,
            exited: 0,
            left_at: None,
            gone: 0,
            frames: Vec::new(),
            pc: 0,
            steps: 0,
            steps_at_round: 0,
            wait: None,
            frozen: false,
            regs: Registers::new(registers),
            written: vec![0; registers],
            preds: vec![0; preds],
            preds_written: vec![0; preds],
            view,
            lockstep: Lockstep::default(),
            idle: None,
            polls: Polls::default(),
            busy: vec![0; registers],
            async_reads: vec![0; registers],
            released: Release::default(),
            unacquired: Release::default(),
            readers: 0,
            touched: vec![0; registers],
            fences: 1,
            products: Products::default(),
            copies: Groups::default(),
            bulk: Groups::default(),
            cluster_phase: None,
            registers: 0,
        }
    }

    /// Its number and its clock.
    pub(crate) fn now(&self) -> (usize, u32) {
        (self.index, self.view.seen.get(self.index))
    }

    /// Where it is: the number of a cluster is not its own to know.
    pub(crate) fn home(&self, g: &super::block::Group) -> Home {
        Home {
            rank: g.rank,
            cluster: g.number,
            block: self.block,
        }
    }

    /// Some lanes acquire the clocks of a barrier or an address, which include what their own warp has released there.
    pub(crate) fn learn(&mut self, mask: u32, known: &View) {
        self.view.join(known);
        self.learnt(mask, known.seen.get(self.index));
    }

    /// The same by a wait of the scope of the block, for arrivals of other blocks: it does not acquire what their warps have written.
    pub(crate) fn learn_in_block(&mut self, mask: u32, known: &View, g: &super::block::Group) {
        let each = g.warps_per_block();
        let own = self.block * each..(self.block + 1) * each;
        let mut view = known.clone();
        view.unacquired.open(g.warps, |warp| {
            let is_own = own.contains(&warp);
            (0, if is_own { 0 } else { known.seen.get(warp) })
        });
        self.learn(mask, &view);
    }

    /// Orders some lanes after the steps of all lanes up to a clock.
    pub(crate) fn learnt(&mut self, mask: u32, own: u32) {
        let alive = self.alive();
        self.lockstep.some(mask & alive, alive, own);
    }

    /// The lanes whose threads have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.exists & !self.exited
    }

    /// Writes a register in some lanes.
    pub(crate) fn write(&mut self, slot: usize, mask: u32, values: &Lanes) {
        self.written[slot] |= mask;
        self.touched[slot] = self.fences;
        match mask {
            FULL => self.regs[slot] = *values,
            mask => lanes(mask).for_each(|lane| self.regs[slot][lane] = values[lane]),
        }
    }

    /// Writes a predicate in some lanes.
    pub(crate) fn write_pred(&mut self, index: usize, mask: u32, values: u32) {
        self.preds[index] = self.preds[index] & !mask | values & mask;
        self.preds_written[index] |= mask;
    }

    /// Takes a branch: `holds` are the active lanes in which its guard holds.
    pub(crate) fn enter_if(&mut self, holds: u32, other_at: usize, end: usize) {
        let other = self.active & !holds;
        self.frames.push(Frame::If {
            all: self.active,
            other,
            other_at,
            end,
        });
        self.active &= holds;
        self.pc = match self.active {
            0 => other_at,
            _ => self.pc + 1,
        };
    }

    /// Goes to the other side.
    pub(crate) fn enter_else(&mut self, end: usize) {
        if let Some(Frame::If { other, .. }) = self.frames.last_mut() {
            self.active = *other & !self.gone & !self.exited;
            *other = 0;
        }
        self.pc = match self.active {
            0 => end,
            _ => self.pc + 1,
        };
    }

    /// The step of the innermost `Else` whose side has instructions and lanes, and is still to come.
    pub(crate) fn other_side(&self) -> Option<usize> {
        self.frames.iter().rev().find_map(|frame| match frame {
            Frame::If {
                other,
                other_at,
                end,
                ..
            } if other & !self.exited != 0 && other_at + 1 < *end => Some(*other_at),
            Frame::If { .. } | Frame::Loop { .. } => None,
        })
    }

    /// Both sides meet.
    pub(crate) fn leave_if(&mut self) {
        if let Some(Frame::If { all, .. }) = self.frames.pop() {
            self.active = all & !self.gone & !self.exited;
        }
        self.pc += 1;
        self.skip();
    }

    /// Enters a loop.
    pub(crate) fn enter_loop(&mut self, end: usize) {
        self.frames.push(Frame::Loop {
            all: self.active,
            live: self.active,
            outer_gone: self.gone,
            end,
        });
        self.gone = 0;
        self.pc += 1;
    }

    /// The end of a round: those that have not left begin again.
    pub(crate) fn end_round(&mut self, start: usize) {
        let Some(Frame::Loop {
            all,
            live,
            outer_gone,
            ..
        }) = self.frames.last().copied()
        else {
            return;
        };
        self.gone = 0;
        self.active = live & !self.exited;
        match self.active {
            0 => {
                self.frames.pop();
                self.gone = outer_gone;
                self.active = all & !self.exited;
                self.pc += 1;
                self.skip();
            }
            _ => self.pc = start + 1,
        }
    }

    /// Some lanes leave the innermost loop (or with `again` only this round).
    pub(crate) fn leave_round(&mut self, mask: u32, again: bool) {
        let innermost = self.frames.iter_mut().rev().find_map(|frame| match frame {
            Frame::Loop { live, .. } => Some(live),
            Frame::If { .. } => None,
        });
        if let Some(live) = innermost.filter(|_| !again) {
            *live &= !mask;
        }
        self.gone |= mask;
        self.active &= !mask;
        self.pc += 1;
        self.skip();
    }

    /// Some threads end.
    pub(crate) fn exit(&mut self, mask: u32, steps: &[Step<'_>]) {
        self.exited |= mask;
        self.active &= !mask;
        self.left_at = Some(self.pc);
        self.pc = match self.alive() {
            0 => steps.len() - 1,
            _ => self.pc + 1,
        };
        self.skip();
    }

    /// Without active lanes, goes on where there may be some again.
    fn skip(&mut self) {
        if self.active != 0 || self.alive() == 0 {
            return;
        }
        match self.frames.last() {
            Some(Frame::If {
                other, other_at, ..
            }) if *other != 0 => self.pc = *other_at,
            Some(Frame::If { end, .. } | Frame::Loop { end, .. }) => self.pc = *end,
            None => {}
        }
    }
}
