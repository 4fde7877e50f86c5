//! How processes come to a meeting: rank 0 listens, the others connect and say which rank they are.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::frame::{Frame, FrameKind};
use super::link::{self, End, Link};
use super::{Meeting, after, of_rank_0};
use crate::error::{Error, MeetingFailure, RankError};

/// The first bytes of a rank, and of the answer.
const MAGIC: [u8; 8] = *b"colexmt\0";

/// The version of the messages.
const VERSION: u32 = 1;

/// The bytes with which a rank comes: magic, version, number of ranks, rank.
const HELLO: usize = MAGIC.len() + 3 * 4;

/// The time between two looks at what has come.
const PAUSE: Duration = Duration::from_millis(2);

impl Meeting {
    /// Returns the meeting of rank 0, once all other ranks have [joined](Meeting::join) it. This call and every later one
    /// ends after at most `within`. Connections that are none of a rank are refused, and named in the error if a rank is
    /// missing in the end.
    ///
    /// ```
    /// use colex_gpu::ranks::Meeting;
    /// use std::net::TcpListener;
    /// use std::time::Duration;
    ///
    /// let within = Duration::from_secs(10);
    /// let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    /// let address = listener.local_addr().expect("a bound address");
    /// let other = std::thread::spawn(move || { // usually another process
    ///     Meeting::join(address, 1, 2, within)?.exchange(b"one")
    /// });
    /// let mut meeting = Meeting::listen(listener, 2, within)?;
    /// assert_eq!(meeting.exchange(b"nil")?, [b"nil", b"one"]);
    /// assert_eq!(other.join().expect("nothing panics")?, [b"nil", b"one"]);
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for 0 ranks and for more than [`MOST_RANKS`](Meeting::MOST_RANKS), if a rank does not come in
    /// time, if two come with one number, if one comes to a meeting of another number of ranks or with another version of
    /// the messages, and if the system does not listen.
    pub fn listen(listener: TcpListener, ranks: usize, within: Duration) -> Result<Meeting, Error> {
        Meeting::check(0, ranks)?;
        let refused = |error: std::io::Error| RankError::Listen {
            why: error.to_string(),
        };
        listener.set_nonblocking(true).map_err(refused)?;
        let mut arrivals = Arrivals::new(ranks);
        let own = of_rank_0(within);
        let until = after(own);
        let come = loop {
            let has_come = match listener.accept() {
                Ok((stream, _)) => {
                    arrivals.add(stream);
                    true
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                // A connection that ended before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => false,
                Err(error) if error.kind() == ErrorKind::Interrupted => false,
                Err(error) => return Err(refused(error).into()),
            };
            match arrivals.look() {
                Ok(true) => break Ok(()),
                Ok(false) if Instant::now() >= until => break Err(arrivals.late(own)),
                // More may have come, but not for ever.
                Ok(false) if has_come => {}
                Ok(false) => std::thread::sleep(PAUSE),
                Err(failure) => break Err(failure),
            }
        };
        let until = after(within / 8);
        if let Err(failure) = come {
            link::tell(&mut arrivals.all(), 0, failure, until);
            return Err(failure.into());
        }
        let mut meeting = Meeting::new(0, ranks, within, arrivals.all());
        meeting.welcome(until).inspect_err(|failure| {
            meeting.fail(*failure);
        })?;
        Ok(meeting)
    }

    /// Rank 0 tells all others that the meeting begins.
    fn welcome(&mut self, until: Instant) -> Result<(), MeetingFailure> {
        let frame = Frame::answer(0, &[MAGIC.to_vec()]);
        for (link, rank) in self.links.iter_mut().zip(1..) {
            let sent = link.send(&frame, rank, until)?;
            sent.ok_or(MeetingFailure::Gone { rank })?;
        }
        Ok(())
    }

    /// Returns the meeting of another rank than 0, once all ranks are there; rank 0 [listens](Meeting::listen) at the
    /// address, and may begin to do so later. This call and every later one ends after at most `within`.
    ///
    /// ```
    /// use colex_gpu::ranks::Meeting;
    /// use std::time::Duration;
    ///
    /// let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    /// let address = free.local_addr().expect("a bound address");
    /// drop(free); // no rank 0 listens there
    /// let error = Meeting::join(address, 1, 2, Duration::from_millis(50)).unwrap_err();
    /// assert!(error.to_string().starts_with("rank 0 of the meeting cannot be reached at 127.0.0.1:"));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for rank 0, for a rank beyond the last, if rank 0 cannot be reached in time, if it answers in
    /// another way than a meeting, and on every rank the error of [`listen`](Meeting::listen).
    pub fn join(
        address: SocketAddr,
        rank: usize,
        ranks: usize,
        within: Duration,
    ) -> Result<Meeting, Error> {
        Meeting::check(rank, ranks)?;
        if rank == 0 {
            let why = "rank 0 listens, and does not join".to_string();
            return Err(RankError::Listen { why }.into());
        }
        let until = after(within);
        let mut stream = reach(address, within, until)?;
        let late = MeetingFailure::Late {
            rank: 0,
            within,
            strangers: 0,
        };
        let numbers = [VERSION, ranks as u32, rank as u32].map(u32::to_le_bytes);
        let hello = [&MAGIC[..], numbers.as_flattened()].concat();
        link::write(&mut stream, &hello, until).map_err(|end| match end {
            End::Late { .. } => late,
            End::Gone { .. } => MeetingFailure::Gone { rank: 0 },
        })?;
        let mut link = Link::Tcp(stream);
        let received = link.receive(0, 8 + MAGIC.len().max(4 * 8), until);
        let answer = match received {
            Ok(answer) => answer.ok_or(late)?,
            Err(failure @ MeetingFailure::Gone { .. }) => return Err(failure.into()),
            Err(_) => return Err(RankError::NotRankZero { address }.into()),
        };
        let is_failure = answer.kind == FrameKind::Failure;
        match answer.answered(0, 1) {
            Ok(all) if all == [MAGIC] => Ok(Meeting::new(rank, ranks, within, vec![link])),
            Err(failure) if is_failure => Err(failure.into()),
            _ => Err(RankError::NotRankZero { address }.into()),
        }
    }
}

/// Connects to rank 0, which may not listen yet.
fn reach(address: SocketAddr, within: Duration, until: Instant) -> Result<TcpStream, RankError> {
    let mut why = "no attempt was made".to_string();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RankError::Unreachable {
                address,
                within,
                why,
            });
        }
        let reached = TcpStream::connect_timeout(&address, left);
        match reached.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            // Where the port is one that the system gives to connections, a connection may begin and end there.
            Ok(stream) if is_of_itself(&stream) => {
                why = "nothing listens there, and the connection came back to itself".to_string();
            }
            Ok(stream) => return Ok(stream),
            Err(error) => why = error.to_string(),
        }
        std::thread::sleep(PAUSE * 5);
    }
}

/// Whether both ends of a connection are this one: two that connect to each other at once are connected, without a listener.
fn is_of_itself(stream: &TcpStream) -> bool {
    let ends = (stream.local_addr().ok(), stream.peer_addr().ok());
    ends.0.is_some() && ends.0 == ends.1
}

/// The connections to rank 0 before the meeting.
struct Arrivals {
    /// Of each rank but 0.
    ranks: Vec<Option<Link>>,
    /// Those that have not said their rank, with what they have said.
    coming: Vec<(TcpStream, Vec<u8>)>,
    strangers: usize,
}

/// What a connection has said so far.
enum Said {
    /// All of it: version, ranks, rank.
    Hello([usize; 3]),
    /// A part.
    Part,
    /// It is none of a rank.
    Other,
}

impl Arrivals {
    fn new(ranks: usize) -> Arrivals {
        Arrivals {
            ranks: (1..ranks).map(|_| None).collect(),
            coming: Vec::new(),
            strangers: 0,
        }
    }

    /// Adds a connection, which is read without waiting.
    fn add(&mut self, stream: TcpStream) {
        let ready = stream.set_nonblocking(true);
        match ready.and_then(|()| stream.set_nodelay(true)) {
            Ok(()) => self.coming.push((stream, Vec::new())),
            Err(_) => self.strangers += 1,
        }
    }

    /// Reads what has come, and returns whether all ranks are there.
    fn look(&mut self) -> Result<bool, MeetingFailure> {
        let mut waiting = Vec::new();
        for (mut stream, mut said) in std::mem::take(&mut self.coming) {
            match hear(&mut stream, &mut said) {
                Said::Part => waiting.push((stream, said)),
                Said::Other => self.strangers += 1,
                Said::Hello(numbers) => self.seat(stream, numbers)?,
            }
        }
        self.coming = waiting;
        Ok(self.ranks.iter().all(Option::is_some))
    }

    /// Takes the connection of a rank.
    fn seat(
        &mut self,
        stream: TcpStream,
        [version, given, rank]: [usize; 3],
    ) -> Result<(), MeetingFailure> {
        let ranks = self.ranks.len() + 1;
        let own = VERSION as usize;
        let refusal = if version != own {
            Some(MeetingFailure::Version {
                rank,
                given: version,
                version: own,
            })
        } else if given != ranks {
            Some(MeetingFailure::Count { rank, given, ranks })
        } else if rank == 0 || rank >= ranks || self.ranks[rank - 1].is_some() {
            Some(MeetingFailure::Twice { rank })
        } else {
            None
        };
        // From here on reads wait.
        let link = stream.set_nonblocking(false).map(|()| Link::Tcp(stream));
        match (refusal, link) {
            (None, Ok(link)) => {
                self.ranks[rank - 1] = Some(link);
                Ok(())
            }
            (None, Err(_)) => Err(MeetingFailure::Gone { rank }),
            (Some(failure), link) => {
                // It is told with the others why the meeting is over.
                self.ranks.push(link.ok());
                Err(failure)
            }
        }
    }

    /// The connections of ranks.
    fn all(&mut self) -> Vec<Link> {
        self.ranks.drain(..).flatten().collect()
    }

    /// The failure that names the first rank that is missing.
    fn late(&self, within: Duration) -> MeetingFailure {
        let missing = self.ranks.iter().position(Option::is_none);
        MeetingFailure::Late {
            rank: missing.unwrap_or(0) + 1,
            within,
            strangers: self.strangers + self.coming.len(),
        }
    }
}

/// Reads what a connection has said, as far as it has come.
fn hear(stream: &mut TcpStream, said: &mut Vec<u8>) -> Said {
    let mut bytes = [0; HELLO];
    let ended = match stream.read(&mut bytes[said.len()..]) {
        Ok(0) => true,
        Ok(count) => {
            let begun = said.len();
            said.extend(&bytes[begun..begun + count]);
            false
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) if error.kind() == ErrorKind::Interrupted => false,
        Err(_) => true,
    };
    let known = said.len().min(MAGIC.len());
    if ended || said[..known] != MAGIC[..known] {
        return Said::Other;
    }
    match said[known..].as_chunks::<4>() {
        ([version, ranks, rank], []) => {
            Said::Hello([version, ranks, rank].map(|number| u32::from_le_bytes(*number) as usize))
        }
        _ => Said::Part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port of those that the system gives to connections, at which nothing listens: a connection from the same port comes about, and is
    /// told from one with a listener.
    #[test]
    fn a_connection_to_itself_is_none_of_rank_0() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        assert!(!is_of_itself(&stream));
        let port = stream.local_addr().unwrap();
        drop((listener, stream));
        // The system takes one port after the other, so that it comes to this one.
        let itself = (0..200_000).find_map(|_| {
            let reached = TcpStream::connect(port).ok()?;
            is_of_itself(&reached).then_some(reached)
        });
        let itself = itself.expect("a connection from the port to which it leads");
        assert_eq!(itself.local_addr().unwrap(), itself.peer_addr().unwrap());
    }
}
