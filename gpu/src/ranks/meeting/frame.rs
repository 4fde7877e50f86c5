//! The messages of a meeting, as bytes.

use std::time::Duration;

use crate::error::MeetingFailure;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// The bytes of a rank in an exchange.
    Exchange = 1,
    /// The arrival of a rank at a barrier.
    Barrier = 2,
    /// The bytes of all ranks, from rank 0.
    Answer = 3,
    /// Why the meeting is over, from rank 0.
    Failure = 4,
}

impl FrameKind {
    fn of(byte: u8) -> Option<FrameKind> {
        let all = [
            FrameKind::Exchange,
            FrameKind::Barrier,
            FrameKind::Answer,
            FrameKind::Failure,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    /// The number of the call that it belongs to.
    pub(super) call: u32,
    pub(super) bytes: Vec<u8>,
}

/// The bytes before those of the message: kind, call, length.
pub(super) const HEAD: usize = 1 + 4 + 8;

impl Frame {
    /// Returns the head of the message.
    pub(super) fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[0] = self.kind as u8;
        head[1..5].copy_from_slice(&self.call.to_le_bytes());
        head[5..].copy_from_slice(&(self.bytes.len() as u64).to_le_bytes());
        head
    }

    /// Returns an empty message of a head and the length that the head says.
    pub(super) fn of_head(
        head: &[u8; HEAD],
        rank: usize,
        most: usize,
    ) -> Result<(Frame, usize), MeetingFailure> {
        let [kind, c0, c1, c2, c3, length @ ..] = *head;
        let kind = FrameKind::of(kind).ok_or(MeetingFailure::Foreign { rank })?;
        let length = u64::from_le_bytes(length);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most {
            return Err(MeetingFailure::Oversized {
                rank,
                bytes: length,
                most,
            });
        }
        let call = u32::from_le_bytes([c0, c1, c2, c3]);
        let bytes = Vec::new();
        Ok((Frame { kind, call, bytes }, length))
    }

    /// Returns the message of rank 0 with the bytes of all ranks.
    pub(super) fn answer(call: u32, all: &[Vec<u8>]) -> Frame {
        let one = |bytes: &Vec<u8>| {
            let length = (bytes.len() as u64).to_le_bytes();
            [&length[..], bytes].concat()
        };
        Frame {
            kind: FrameKind::Answer,
            call,
            bytes: all.iter().flat_map(one).collect(),
        }
    }

    /// Returns the message of rank 0 that says why the meeting is over.
    pub(super) fn failure(call: u32, failure: MeetingFailure) -> Frame {
        let numbers = numbers(failure);
        Frame {
            kind: FrameKind::Failure,
            call,
            bytes: numbers.iter().flat_map(|n| n.to_le_bytes()).collect(),
        }
    }

    /// Checks that another rank makes the call that rank 0 makes.
    pub(super) fn check(
        &self,
        kind: FrameKind,
        call: u32,
        rank: usize,
    ) -> Result<(), MeetingFailure> {
        match self.kind {
            FrameKind::Exchange | FrameKind::Barrier if self.call == call => {}
            _ => return Err(MeetingFailure::Foreign { rank }),
        }
        if self.kind != kind {
            let [given, first] = [self.kind, kind].map(|kind| kind as usize);
            return Err(MeetingFailure::Mixed { rank, given, first });
        }
        Ok(())
    }

    /// Returns the bytes of all ranks, or why the meeting is over, of a message of rank 0.
    pub(super) fn answered(self, call: u32, ranks: usize) -> Result<Vec<Vec<u8>>, MeetingFailure> {
        let foreign = MeetingFailure::Foreign { rank: 0 };
        match self.kind {
            FrameKind::Failure => Err(failure(&self.bytes).unwrap_or(foreign)),
            FrameKind::Answer if self.call == call => {
                let mut rest = &self.bytes[..];
                let mut next = || -> Option<Vec<u8>> {
                    let (length, after) = rest.split_first_chunk::<8>()?;
                    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                    let (bytes, after) = after.split_at_checked(length)?;
                    rest = after;
                    Some(bytes.to_vec())
                };
                let all: Option<Vec<_>> = (0..ranks).map(|_| next()).collect();
                all.filter(|_| rest.is_empty()).ok_or(foreign)
            }
            FrameKind::Exchange | FrameKind::Barrier | FrameKind::Answer => Err(foreign),
        }
    }
}

/// The numbers of a failure: its own, and up to three more.
fn numbers(failure: MeetingFailure) -> [u64; 4] {
    use MeetingFailure::*;
    let numbers = match failure {
        Late {
            rank,
            within,
            strangers,
        } => {
            let within = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
            return [0, rank as u64, within, strangers as u64];
        }
        Gone { rank } => [1, rank, 0, 0],
        Twice { rank } => [2, rank, 0, 0],
        Count { rank, given, ranks } => [3, rank, given, ranks],
        Version {
            rank,
            given,
            version,
        } => [4, rank, given, version],
        Mixed { rank, given, first } => [5, rank, given, first],
        Truncated { rank, found, need } => [6, rank, found, need],
        Oversized { rank, bytes, most } => [7, rank, bytes, most],
        Foreign { rank } => [8, rank, 0, 0],
    };
    numbers.map(|number| number as u64)
}

/// The failure of such numbers.
fn failure(bytes: &[u8]) -> Option<MeetingFailure> {
    use MeetingFailure::*;
    let (words, []) = bytes.as_chunks::<8>() else {
        return None;
    };
    let [which, rank, first, second] = words else {
        return None;
    };
    let number = |word: &[u8; 8]| usize::try_from(u64::from_le_bytes(*word)).ok();
    let (rank, a, b) = (number(rank)?, number(first)?, number(second)?);
    Some(match number(which)? {
        0 => Late {
            rank,
            within: Duration::from_nanos(u64::from_le_bytes(*first)),
            strangers: b,
        },
        1 => Gone { rank },
        2 => Twice { rank },
        3 => Count {
            rank,
            given: a,
            ranks: b,
        },
        4 => Version {
            rank,
            given: a,
            version: b,
        },
        5 => Mixed {
            rank,
            given: a,
            first: b,
        },
        6 => Truncated {
            rank,
            found: a,
            need: b,
        },
        7 => Oversized {
            rank,
            bytes: a,
            most: b,
        },
        8 => Foreign { rank },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_a_failure_is_the_same_after_its_way() {
        let within = Duration::from_millis(1500);
        let numbers = [[3, 0, 7], [0, 1 << 40, usize::MAX]];
        let mut cases = 0;
        for [rank, a, b] in numbers {
            use MeetingFailure::*;
            for one in [
                Late {
                    rank,
                    within,
                    strangers: b,
                },
                Gone { rank },
                Twice { rank },
                Count {
                    rank,
                    given: a,
                    ranks: b,
                },
                Version {
                    rank,
                    given: a,
                    version: b,
                },
                Mixed {
                    rank,
                    given: a,
                    first: b,
                },
                Truncated {
                    rank,
                    found: a,
                    need: b,
                },
                Oversized {
                    rank,
                    bytes: a,
                    most: b,
                },
                Foreign { rank },
            ] {
                let frame = Frame::failure(5, one);
                assert_eq!(frame.clone().answered(9, 2), Err(one));
                for length in 0..frame.bytes.len() {
                    assert_eq!(failure(&frame.bytes[..length]), None);
                }
                cases += 1;
            }
        }
        println!("law a_failure_is_the_same_after_its_way: {cases} cases");
    }

    #[test]
    fn law_an_answer_of_any_other_length_is_foreign() {
        let foreign = Err(MeetingFailure::Foreign { rank: 0 });
        let mut cases = 0;
        for lengths in [[0, 0, 0], [1, 0, 3], [5, 2, 8], [0, 9, 0]] {
            let all = lengths.map(|length| vec![length as u8; length]).to_vec();
            let frame = Frame::answer(3, &all);
            let with = |bytes: &[u8], call| {
                let kind = FrameKind::Answer;
                let bytes = bytes.to_vec();
                Frame { kind, call, bytes }.answered(3, 3)
            };
            assert_eq!(with(&frame.bytes, 3), Ok(all));
            assert_eq!(with(&frame.bytes, 4), foreign);
            let more = [&frame.bytes[..], &[0]].concat();
            assert_eq!(with(&more, 3), foreign);
            for length in 0..frame.bytes.len() {
                assert_eq!(with(&frame.bytes[..length], 3), foreign);
                cases += 1;
            }
        }
        println!("law an_answer_of_any_other_length_is_foreign: {cases} cases");
    }

    #[test]
    fn law_every_head_is_read_or_refused() {
        let mut cases = 0;
        for kind in 0..=u8::MAX {
            for length in [0, 1, 16, 17, u64::MAX] {
                let mut head = [0; HEAD];
                head[0] = kind;
                head[5..].copy_from_slice(&length.to_le_bytes());
                let read = Frame::of_head(&head, 2, 16);
                assert_eq!(read.is_ok(), (1..=4).contains(&kind) && length <= 16);
                if let Ok((mut frame, length)) = read {
                    frame.bytes = vec![0; length];
                    assert_eq!(frame.head(), head);
                }
                cases += 1;
            }
        }
        println!("law every_head_is_read_or_refused: {cases} cases");
    }
}
