//! The calls of a pipeline's participants, of which a mutant leaves one out, makes it twice, too early, or of another ring.

use colex_gpu::tensor::{Builder, Consumer, Producer, Stage};

use super::hook::{Hook, Kind};

/// A number of what is done instead, 0 for nothing else.
fn choice(h: &mut Hook, call: &'static str, others: &[usize]) -> usize {
    h.pick(call, Kind::Protocol, 0, others)
}

pub(crate) fn acquire(h: &mut Hook, k: &mut Builder, own: &Producer, other: &Producer) -> Stage {
    let how = choice(h, "acquire", &[1, 2, 3, 4]);
    match how {
        1 => drop(own.acquire(k)),
        2 => return other.acquire(k),
        3 => own.skip(k, &1.into()),
        _ => {}
    }
    let stage = own.acquire(k);
    if how == 4 {
        own.commit(k, &stage);
    }
    stage
}

pub(crate) fn commit(
    h: &mut Hook,
    k: &mut Builder,
    own: &Producer,
    other: &Producer,
    stage: &Stage,
) {
    match choice(h, "commit", &[1, 2, 3, 4, 5]) {
        1 => {}
        2 => {
            own.commit(k, stage);
            own.commit(k, stage);
        }
        3 => other.commit(k, stage),
        4 => {
            own.commit(k, stage);
            own.skip(k, &1.into());
        }
        5 => {
            own.commit(k, stage);
            own.tail(k);
        }
        _ => own.commit(k, stage),
    }
}

pub(crate) fn wait(h: &mut Hook, k: &mut Builder, own: &Consumer, other: &Consumer) -> Stage {
    let how = choice(h, "wait", &[1, 2, 3, 4]);
    match how {
        1 => drop(own.wait(k)),
        2 => return other.wait(k),
        3 => own.skip(k, &1.into()),
        _ => {}
    }
    let stage = own.wait(k);
    if how == 4 {
        own.release(k, &stage);
    }
    stage
}

pub(crate) fn release(
    h: &mut Hook,
    k: &mut Builder,
    own: &Consumer,
    other: &Consumer,
    stage: &Stage,
) {
    match choice(h, "release", &[1, 2, 3, 4, 5]) {
        1 => {}
        2 => {
            own.release(k, stage);
            own.release(k, stage);
        }
        3 => other.release(k, stage),
        4 => own.release_behind(k, stage, &0.into()),
        5 => {
            own.release(k, stage);
            own.release_rest(k, &1.into());
        }
        _ => own.release(k, stage),
    }
}

/// Whether a producer is used where consumers work.
pub(crate) fn is_in_role(h: &mut Hook) -> bool {
    choice(h, "role", &[1]) == 0
}

/// The end of a producer: there, left out, or twice.
pub(crate) fn tail(h: &mut Hook, k: &mut Builder, own: &Producer) {
    for _ in 0..[1, 0, 2][choice(h, "tail", &[1, 2])] {
        own.tail(k);
    }
}
