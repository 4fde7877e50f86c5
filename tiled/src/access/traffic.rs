//! What the accesses of threads do to a memory.

use colex_atom::{Access, Banks, SECTOR_BYTES, Space, Touched};

use crate::Error;
use crate::access::coverage::Place;
use crate::access::map::{AccessMap, Addresses, Coords, tuple};
use crate::access::vector::{off, placed};
use crate::tensor::extents::overflow;

/// What the instructions of all warps do to one memory.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Shared memory: passes over the banks, the fewest possible, and the worst phase's words in one bank with the
    /// first thread of its warp.
    Shared {
        /// Passes that the phases take.
        passes: usize,
        /// One pass per phase.
        least: usize,
        /// The most words that meet in a bank.
        degree: usize,
        /// The first thread of the first warp with that many.
        thread: i64,
        /// The first thread of the phase where they meet, and the coordinate it starts at; nothing without conflicts.
        first: Option<Box<Place>>,
    },
    /// Global memory: sectors of 32 bytes that the requests touch, and the fewest that hold as many bytes.
    Global {
        /// Sectors touched, request by request.
        sectors: usize,
        /// Sectors that the bytes of each request would fill.
        least: usize,
        /// The first thread of the first request that touches more, and the coordinate it starts at.
        first: Option<Box<Place>>,
    },
    /// The requests of TMA (`cp.async.bulk`, and boxes of tensor maps), each of one thread: how many, the bytes of each, into
    /// how many stretches of memory they fall and the shortest of them, and the sectors of 32 bytes of global memory, or
    /// the rows of 128 bytes of shared memory, that they touch, against the fewest that hold as many bytes.
    Bulk {
        /// How many requests there are.
        requests: usize,
        /// The bytes of each.
        bytes: i64,
        /// The stretches of consecutive bytes, of all requests together.
        stretches: usize,
        /// The bytes of the shortest.
        shortest: i64,
        /// The bytes of a sector, or of a row of the banks.
        unit: i64,
        /// The units touched, request by request.
        units: usize,
        /// The units that the bytes of each request would fill.
        least: usize,
        /// The thread of the first request that touches more, and the coordinate it starts at.
        first: Option<Box<Place>>,
    },
    /// The values that a thread moves at once are not contiguous or not aligned: the instruction cannot address them.
    Scattered(Box<Place>),
}

/// How the threads of all warps reach one memory.
pub(crate) struct Requests<'a> {
    /// The memory.
    pub(crate) space: Space,
    /// Where each coordinate is.
    pub(crate) places: &'a Addresses<'a>,
    /// The bits of a value.
    pub(crate) bits: i64,
    /// How many values a thread moves at once.
    pub(crate) chunk: usize,
    /// Of the lanes that pass one address, one is served: matrix copies.
    pub(crate) one_of_equal: bool,
    /// TMA moves them: in one piece, or as a box.
    pub(crate) engine: Option<Engine>,
}

/// What TMA takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// One stretch of memory.
    Bulk,
    /// A box of a tensor.
    Tma,
}

/// Where lanes start, or the first lane whose values are no vector.
type Lanes<'a> = Result<Vec<Start<'a>>, (i64, &'a [i64])>;

impl Requests<'_> {
    /// The requests of every warp, instruction by instruction; nothing for registers.
    pub(crate) fn traffic(&self, named: &AccessMap) -> Result<Option<Traffic>, Error> {
        match (self.space, self.engine) {
            (Space::Shared | Space::Cluster | Space::Global, Some(engine)) => {
                self.bulk(named, engine).map(Some)
            }
            (Space::Shared | Space::Cluster | Space::Global, None) => self.warps(named).map(Some),
            _ => Ok(None),
        }
    }

    fn bytes(&self) -> i64 {
        self.chunk as i64 * self.bits / 8
    }

    /// The warps' requests: threads `32 w` to `32 w + 31` together.
    fn warps(&self, named: &AccessMap) -> Result<Traffic, Error> {
        let mut sums = Sums {
            shared: self.space != Space::Global,
            ..Sums::default()
        };
        let lanes: Vec<_> = named.lanes().collect();
        for lanes in lanes.chunk_by(|a, b| a.0 / 32 == b.0 / 32) {
            for i in 0..named.per_thread() / self.chunk {
                match self.starts(lanes, i * self.chunk)? {
                    Ok(starts) => sums.split(&starts, self.bytes())?,
                    Err((thread, coord)) => {
                        return Ok(Traffic::Scattered(Box::new((thread, tuple(coord)))));
                    }
                }
            }
        }
        Ok(sums.of())
    }

    /// Where the lanes start whose values from `first` on are all inside, or the first lane whose are no vector.
    fn starts<'b>(&self, lanes: &[(i64, Coords<'b>)], first: usize) -> Result<Lanes<'b>, Error> {
        let mut starts: Vec<Start<'_>> = Vec::new();
        for (thread, coords) in lanes {
            let Some(coords) = coords.part(first, self.chunk) else {
                continue;
            };
            let at = placed(self.places, coords);
            if at.len() < self.chunk {
                continue;
            }
            let (coord, offset) = at[0];
            if off(&at, self.chunk as i64).is_some() || self.bytes() == 0 {
                return Ok(Err((*thread, coord)));
            }
            if !self.one_of_equal || starts.iter().all(|start| start.coord != coord) {
                starts.push(Start {
                    byte: in_bits(offset, self.bits)? / 8,
                    thread: *thread,
                    coord,
                });
            }
        }
        Ok(Ok(starts))
    }

    /// TMA's requests: each instruction of a thread is one.
    fn bulk(&self, named: &AccessMap, engine: Engine) -> Result<Traffic, Error> {
        let global = self.space == Space::Global;
        let mut sums = BulkSums {
            unit: if global {
                SECTOR_BYTES
            } else {
                Banks::SHARED.row()
            },
            shortest: i64::MAX,
            ..BulkSums::default()
        };
        for (thread, coords) in named.lanes() {
            for coords in coords.chunks(self.chunk) {
                let at = placed(self.places, coords);
                let broken = at
                    .windows(2)
                    .any(|pair| pair[0].1.checked_add(1) != Some(pair[1].1));
                let first = coords.first().expect("a chunk has a coordinate");
                let place = || Box::new((thread, tuple(first)));
                if engine == Engine::Bulk && broken {
                    return Ok(Traffic::Scattered(place()));
                }
                let offsets = at.into_iter().map(|(_, offset)| offset).collect();
                if sums.add(offsets, self.bits)? && sums.first.is_none() {
                    sums.first = Some(place());
                }
            }
        }
        Ok(sums.of(self.bytes()))
    }
}

/// An offset in values as one in bits.
fn in_bits(offset: i64, bits: i64) -> Result<i64, Error> {
    Ok(offset
        .checked_mul(bits)
        .ok_or(overflow(offset, '*', bits))?)
}

/// What the requests of TMA add up to.
#[derive(Default)]
struct BulkSums {
    unit: i64,
    requests: usize,
    stretches: usize,
    shortest: i64,
    units: usize,
    least: usize,
    first: Option<Box<Place>>,
}

impl BulkSums {
    /// One request; whether it touches more than its bytes would fill.
    fn add(&mut self, mut offsets: Vec<i64>, bits: i64) -> Result<bool, Error> {
        offsets.sort_unstable();
        let bytes = |values: usize| values as i64 * bits / 8;
        for stretch in offsets.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            self.stretches += 1;
            self.shortest = self.shortest.min(bytes(stretch.len()));
        }
        let starts: Vec<i64> = offsets
            .iter()
            .map(|x| in_bits(*x, bits))
            .collect::<Result<_, _>>()?;
        let touched = Touched::of(starts, bits, 8 * self.unit);
        self.requests += 1;
        self.units += touched.blocks;
        self.least += touched.least;
        Ok(touched.blocks > touched.least)
    }

    fn of(self, bytes: i64) -> Traffic {
        Traffic::Bulk {
            requests: self.requests,
            bytes,
            stretches: self.stretches,
            // Where everything lies outside there is no stretch.
            shortest: if self.stretches == 0 {
                0
            } else {
                self.shortest
            },
            unit: self.unit,
            units: self.units,
            least: self.least,
            first: self.first,
        }
    }
}

/// Where one lane of a request starts.
#[derive(Clone, Copy)]
struct Start<'a> {
    byte: i64,
    thread: i64,
    coord: &'a [i64],
}

impl Start<'_> {
    fn place(&self) -> Box<Place> {
        Box::new((self.thread, tuple(self.coord)))
    }
}

/// What the requests of all warps add up to.
#[derive(Default)]
struct Sums {
    shared: bool,
    passes: usize,
    phases: usize,
    degree: usize,
    met: Option<Box<Place>>,
    sectors: usize,
    least: usize,
    wasted: Option<Box<Place>>,
}

impl Sums {
    /// A value of three words goes word by word.
    fn split(&mut self, starts: &[Start<'_>], bytes: i64) -> Result<(), Error> {
        if bytes & (bytes - 1) == 0 {
            return self.add(starts, bytes);
        }
        let part = bytes & -bytes;
        for i in 0..bytes / part {
            let byte = |start: &Start<'_>| start.byte + i * part;
            let parts: Vec<_> = starts
                .iter()
                .map(|s| Start {
                    byte: byte(s),
                    ..*s
                })
                .collect();
            self.add(&parts, part)?;
        }
        Ok(())
    }

    /// One request of a warp: where each lane starts, and the bytes that each moves.
    fn add(&mut self, starts: &[Start<'_>], bytes: i64) -> Result<(), Error> {
        if !self.shared {
            self.request(starts, bytes);
            return Ok(());
        }
        // The lanes of a phase follow each other in the warp, whether or not all of them take part.
        let lanes = Banks::SHARED.lanes(bytes) as i64;
        for phase in starts.chunk_by(|a, b| a.thread % 32 / lanes == b.thread % 32 / lanes) {
            self.phase(phase, bytes)?;
        }
        Ok(())
    }

    fn request(&mut self, starts: &[Start<'_>], bytes: i64) {
        let touched = Touched::of(starts.iter().map(|start| start.byte), bytes, SECTOR_BYTES);
        if touched.blocks > touched.least && self.wasted.is_none() {
            self.wasted = Some(starts[0].place());
        }
        self.sectors += touched.blocks;
        self.least += touched.least;
    }

    fn phase(&mut self, starts: &[Start<'_>], bytes: i64) -> Result<(), Error> {
        // Offsets below 0 are as far below a multiple of 128 bytes.
        let row = Banks::SHARED.row();
        let least = starts.iter().map(|start| start.byte).min().unwrap_or(0);
        let base = least.div_euclid(row) * row;
        let offset = |start: &Start<'_>| {
            let byte = start.byte;
            byte.checked_sub(base).ok_or(overflow(byte, '-', base))
        };
        let offsets = starts.iter().map(offset).collect::<Result<_, _>>()?;
        let degree = Access::from_bytes("copy", offsets, bytes)?
            .conflicts(Banks::SHARED)
            .passes();
        self.passes += degree;
        self.phases += 1;
        if degree > self.degree.max(1) {
            self.met = Some(starts[0].place());
        }
        self.degree = self.degree.max(degree);
        Ok(())
    }

    fn of(self) -> Traffic {
        if self.shared {
            Traffic::Shared {
                passes: self.passes,
                least: self.phases,
                degree: self.degree,
                thread: self.met.as_ref().map_or(0, |place| place.0 / 32 * 32),
                first: self.met,
            }
        } else {
            Traffic::Global {
                sectors: self.sectors,
                least: self.least,
                first: self.wasted,
            }
        }
    }
}
