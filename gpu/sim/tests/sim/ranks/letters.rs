//! The patterns of communication that the planted mistakes vary: each is correct unless `wrong` is set.

use colex_ir::{FenceKind, Order, Type};

use super::{ACQUIRE, RELAXED, RELEASE, Stage};

/// How a flag is set and looked at.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub(super) raise: Order,
    pub(super) look: Order,
    pub(super) before: Option<FenceKind>,
    pub(super) after: Option<FenceKind>,
}

pub(super) const SOUND: Letter = Letter {
    raise: RELEASE,
    look: ACQUIRE,
    before: None,
    after: None,
};

/// By fences around relaxed accesses.
pub(super) const FENCED: Letter = Letter {
    raise: RELAXED,
    look: RELAXED,
    before: Some(FenceKind::AcqRelSys),
    after: Some(FenceKind::AcqRelSys),
};

/// Rank 0 writes a word of rank 1 and raises a flag there; rank 1 waits for it and reads the word.
pub(super) fn letter(s: &mut Stage, how: Letter) {
    s.on(0, |s| {
        s.write(s.right, 0, 7);
        how.before.into_iter().for_each(|fence| s.k.fence(fence));
        s.raise(s.right_flags, 0, how.raise, 1);
    });
    s.on(1, |s| {
        s.wait(0, how.look, 1);
        how.after.into_iter().for_each(|fence| s.k.fence(fence));
        s.read(s.data, 0);
    });
}

pub(super) fn flag_first(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        if wrong {
            s.raise(s.right_flags, 0, RELEASE, 1);
            s.write(s.right, 0, 7);
        } else {
            s.write(s.right, 0, 7);
            s.raise(s.right_flags, 0, RELEASE, 1);
        }
    });
    s.on(1, |s| {
        s.wait(0, ACQUIRE, 1);
        s.read(s.data, 0);
    });
}

/// The flag goes to the rank two places on.
pub(super) fn wrong_peer_of_the_flag(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        s.write(s.right, 0, 7);
        let to = if wrong { s.far_flags } else { s.right_flags };
        s.raise(to, 0, RELEASE, 1);
    });
    s.on(1, |s| {
        s.wait(0, ACQUIRE, 1);
        s.read(s.data, 0);
        s.raise(s.right_flags, 1, RELEASE, 1);
    });
    s.on(2, |s| s.wait(1, ACQUIRE, 1));
}

/// The data go to the rank two places on.
pub(super) fn wrong_peer_of_the_data(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        let to = if wrong { s.far } else { s.right };
        s.write(to, 0, 7);
        s.raise(s.right_flags, 0, RELEASE, 1);
        s.raise(s.far_flags, 0, RELEASE, 1);
    });
    s.on(1, |s| {
        s.wait(0, ACQUIRE, 1);
        s.read(s.data, 0);
    });
    s.on(2, |s| s.wait(0, ACQUIRE, 1));
}

/// Two rounds: the second waits for the value of the first.
pub(super) fn flag_without_reset(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        for round in 1..=2 {
            s.write(s.right, round, round);
            s.raise(s.right_flags, 0, RELEASE, if wrong { 1 } else { round });
        }
        s.raise(s.right_flags, 1, RELEASE, 1);
    });
    s.on(1, |s| {
        for round in 1..=2 {
            s.wait(0, ACQUIRE, if wrong { 1 } else { round });
            s.read(s.data, round);
        }
        s.wait(1, ACQUIRE, 1);
    });
}

/// One slot for two letters: the second waits until the first is read.
pub(super) fn slot_in_use(s: &mut Stage, wrong: bool, ack: Order) {
    s.on(0, |s| {
        s.write(s.right, 0, 1);
        s.raise(s.right_flags, 0, RELEASE, 1);
        if !wrong {
            s.wait(1, ACQUIRE, 1);
        }
        s.write(s.right, 0, 2);
        s.raise(s.right_flags, 2, RELEASE, 1);
    });
    s.on(1, |s| {
        s.wait(0, ACQUIRE, 1);
        s.read(s.data, 0);
        s.raise(s.left_flags, 1, ack, 1);
        s.wait(2, ACQUIRE, 1);
    });
    // The acknowledgement that nothing waits for comes before the end of rank 0.
    if wrong {
        s.on(0, |s| s.wait(1, ACQUIRE, 1));
    }
}

/// Rank 1 does not wait for what rank 0 writes into its memory.
pub(super) fn early_exit(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        s.write(s.right, 0, 7);
        s.raise(s.right_flags, 0, RELEASE, 1);
    });
    s.on(1, |s| {
        s.write(s.data, 1, 5);
        if !wrong {
            s.wait(0, ACQUIRE, 1);
        }
    });
}

/// Rank 0 reads from the memory of rank 1, which ends too early.
pub(super) fn early_exit_of_a_source(s: &mut Stage, wrong: bool) {
    s.on(1, |s| {
        s.write(s.data, 0, 7);
        s.raise(s.right_flags, 0, RELEASE, 1);
        if !wrong {
            s.wait(1, ACQUIRE, 1);
        }
    });
    s.on(0, |s| {
        s.wait(0, ACQUIRE, 1);
        s.read(s.right, 0);
        if !wrong {
            s.raise(s.right_flags, 1, RELEASE, 1);
        }
    });
}

/// Four chunks with a flag each.
pub(super) fn chunk_order(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        for chunk in 0..4 {
            s.write(s.right, chunk, chunk);
            s.raise(s.right_flags, chunk, RELEASE, 1);
        }
    });
    s.on(1, |s| {
        for chunk in 0..4 {
            s.wait(chunk, ACQUIRE, 1);
            s.read(s.data, if wrong { (chunk + 1) % 4 } else { chunk });
        }
    });
}

/// All threads write, one raises the flag.
pub(super) fn no_barrier_before_the_flag(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        let to = s.own(s.right);
        s.k.store(super::global(Type::U32), to, 7);
    });
    if !wrong {
        s.k.sync();
    }
    s.on(0, |s| s.alone(|s| s.raise(s.right_flags, 0, RELEASE, 1)));
    s.on(1, |s| s.alone(|s| s.wait(0, ACQUIRE, 1)));
    s.k.sync();
    s.on(1, |s| {
        let from = s.own(s.data);
        s.k.load(super::global(Type::U32), from);
    });
}

/// One thread waits for the flag, all read.
pub(super) fn no_barrier_after_the_flag(s: &mut Stage, wrong: bool) {
    s.on(0, |s| {
        let to = s.own(s.right);
        s.k.store(super::global(Type::U32), to, 7);
    });
    s.k.sync();
    s.on(0, |s| s.alone(|s| s.raise(s.right_flags, 0, RELEASE, 1)));
    s.on(1, |s| s.alone(|s| s.wait(0, ACQUIRE, 1)));
    if !wrong {
        s.k.sync();
    }
    s.on(1, |s| {
        let from = s.own(s.data);
        s.k.load(super::global(Type::U32), from);
    });
}

/// All ranks write a word of rank 0 and count themselves there.
pub(super) fn counted(s: &mut Stage, order: Order, least: i64) {
    s.on(1, |s| {
        s.write(s.far, 1, 7);
        s.count(s.far_flags, order);
    });
    s.on(2, |s| {
        s.write(s.right, 2, 7);
        s.count(s.right_flags, order);
    });
    s.on(0, |s| {
        s.wait(0, ACQUIRE, least);
        s.read(s.data, 1);
        s.read(s.data, 2);
        s.wait(0, ACQUIRE, 2);
    });
}

/// Two ranks write into slots of rank 0.
pub(super) fn one_slot(s: &mut Stage, wrong: bool) {
    s.on(1, |s| {
        s.write(s.far, 1, 7);
        s.raise(s.far_flags, 1, RELEASE, 1);
    });
    s.on(2, |s| {
        s.write(s.right, if wrong { 1 } else { 2 }, 8);
        s.raise(s.right_flags, 2, RELEASE, 1);
    });
    s.on(0, |s| {
        s.wait(1, ACQUIRE, 1);
        s.wait(2, ACQUIRE, 1);
    });
}

/// Each rank waits for the one before it, and only then tells the next one.
pub(super) fn ring(s: &mut Stage, wrong: bool) {
    if wrong {
        s.wait(0, ACQUIRE, 1);
        s.raise(s.right_flags, 0, RELEASE, 1);
    } else {
        s.raise(s.right_flags, 0, RELEASE, 1);
        s.wait(0, ACQUIRE, 1);
    }
}
