//! The connection of two ranks: channels between threads, or TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::frame::{Frame, HEAD};
use crate::error::MeetingFailure;

/// A connection to another rank. It ends when it is dropped.
#[derive(Debug)]
pub(super) enum Link {
    /// To a thread of this process.
    Thread {
        to: Sender<Frame>,
        from: Receiver<Frame>,
    },
    /// To a process.
    Tcp(TcpStream),
}

impl Link {
    /// Returns the two ends of a connection of threads.
    pub(super) fn pair() -> (Link, Link) {
        let ((to, other_from), (other_to, from)) = (mpsc::channel(), mpsc::channel());
        let other = Link::Thread {
            to: other_to,
            from: other_from,
        };
        (Link::Thread { to, from }, other)
    }

    /// Sends a message to `rank`; none once the time is over. The connection to a process is over after a part of it.
    pub(super) fn send(
        &mut self,
        frame: &Frame,
        rank: usize,
        until: Instant,
    ) -> Result<Option<()>, MeetingFailure> {
        match self {
            Link::Thread { to, .. } => match to.send(frame.clone()) {
                Ok(()) => Ok(Some(())),
                Err(_) => Err(MeetingFailure::Gone { rank }),
            },
            Link::Tcp(stream) => {
                let head = frame.head();
                let headed = write(stream, &head, until);
                let is_begun = headed.is_ok();
                let sent = headed.and_then(|()| write(stream, &frame.bytes, until));
                match sent {
                    Ok(()) => Ok(Some(())),
                    Err(End::Late { found }) => {
                        // After a part of a message, the rank would read the next message as the rest: nothing more is sent.
                        if is_begun || found > 0 {
                            let _ = stream.shutdown(Shutdown::Both);
                        }
                        Ok(None)
                    }
                    Err(End::Gone { .. }) => Err(MeetingFailure::Gone { rank }),
                }
            }
        }
    }

    /// Returns the next message of `rank`, of at most `most` bytes; none once the time is over.
    pub(super) fn receive(
        &mut self,
        rank: usize,
        most: usize,
        until: Instant,
    ) -> Result<Option<Frame>, MeetingFailure> {
        match self {
            Link::Thread { from, .. } => {
                match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(frame) => Ok(Some(frame)),
                    Err(RecvTimeoutError::Timeout) => Ok(None),
                    Err(RecvTimeoutError::Disconnected) => Err(MeetingFailure::Gone { rank }),
                }
            }
            Link::Tcp(stream) => {
                let mut head = [0; HEAD];
                match read(stream, &mut head, until) {
                    Ok(()) => {}
                    Err(End::Late { .. }) => return Ok(None),
                    Err(End::Gone { found: 0 }) => return Err(MeetingFailure::Gone { rank }),
                    Err(End::Gone { found }) => {
                        let need = HEAD;
                        return Err(MeetingFailure::Truncated { rank, found, need });
                    }
                }
                let (mut frame, need) = Frame::of_head(&head, rank, most)?;
                frame.bytes = vec![0; need];
                match read(stream, &mut frame.bytes, until) {
                    Ok(()) => Ok(Some(frame)),
                    Err(End::Late { .. }) => Ok(None),
                    Err(End::Gone { found }) => {
                        Err(MeetingFailure::Truncated { rank, found, need })
                    }
                }
            }
        }
    }
}

/// Tells ranks why the meeting is over, and waits until they have read it or the time is over.
pub(super) fn tell(links: &mut [Link], call: u32, failure: MeetingFailure, until: Instant) {
    let frame = Frame::failure(call, failure);
    for link in links.iter_mut() {
        // A rank that is gone needs no reason.
        let _ = link.send(&frame, 0, until);
        if let Link::Tcp(stream) = link {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
    // A connection that is closed before all is read may lose what was sent last.
    let mut rest = [0; 1 << 12];
    for link in links {
        if let Link::Tcp(stream) = link {
            while read(stream, &mut rest, until).is_ok() {}
        }
    }
}

/// Why bytes did not come or go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The time is over, after some bytes.
    Late { found: usize },
    /// The connection has ended, after some bytes.
    Gone { found: usize },
}

/// The time that is left after some bytes, at least a millisecond: a socket takes 0 for no limit.
fn left(until: Instant, found: usize) -> Result<Duration, End> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(End::Late { found });
    }
    Ok(left.max(Duration::from_millis(1)))
}

/// Fills the bytes from a socket.
pub(super) fn read(stream: &mut TcpStream, bytes: &mut [u8], until: Instant) -> Result<(), End> {
    let mut found = 0;
    while found < bytes.len() {
        let timed = stream.set_read_timeout(Some(left(until, found)?));
        match timed.and_then(|()| stream.read(&mut bytes[found..])) {
            Ok(0) => return Err(End::Gone { found }),
            Ok(count) => found += count,
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return Err(End::Gone { found }),
        }
    }
    Ok(())
}

/// Writes the bytes to a socket.
pub(super) fn write(stream: &mut TcpStream, bytes: &[u8], until: Instant) -> Result<(), End> {
    let mut found = 0;
    while found < bytes.len() {
        let timed = stream.set_write_timeout(Some(left(until, found)?));
        match timed.and_then(|()| stream.write(&bytes[found..])) {
            Ok(0) => return Err(End::Gone { found }),
            Ok(count) => found += count,
            Err(error) if is_pause(error.kind()) => {}
            Err(_) => return Err(End::Gone { found }),
        }
    }
    Ok(())
}

/// Whether a call ended because of its own time, or of a signal.
fn is_pause(kind: ErrorKind) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(kind, WouldBlock | TimedOut | Interrupted)
}
