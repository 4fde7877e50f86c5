//! What a tiled copy does to memory, before any kernel exists.

use core::fmt;
use std::collections::BTreeSet;

use colex_atom::Space;
use colex_layout::{Access, Banks, IntTuple, Layout};

use crate::Error;
use crate::copy::{Side, TiledCopy, size};
use crate::copy_host::{bare, inside};

/// A thread and the coordinate it names.
pub type Place = (i64, IntTuple);

/// What a tiled copy does with two tensors; [`fmt::Display`] says it in sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyReport {
    /// How many threads take part.
    pub threads: i64,
    /// How many instructions each thread issues.
    pub instructions: usize,
    /// How many bits a thread gives an instruction, and how many it gets.
    pub bits: [i64; 2],
    /// Elements of the destination that nobody writes, and the first.
    pub missing: (usize, Option<IntTuple>),
    /// Elements of the destination that are written again, and the first with the second thread to write it.
    pub repeated: (usize, Option<Place>),
    /// Coordinates outside of the tensors, and the first.
    pub outside: (usize, Option<Place>),
    /// Threads that name nothing inside.
    pub idle: Vec<i64>,
    /// The most values that every thread could move at once, by contiguity and alignment of both tensors.
    pub widest: i64,
    /// The source's memory, where it is one.
    pub source: Option<Traffic>,
    /// The destination's memory, where it is one.
    pub destination: Option<Traffic>,
}

/// What the instructions of all warps do to one memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Shared memory: passes over the banks, the fewest possible, and the worst phase's words in one bank with the
    /// first thread of its warp.
    Shared {
        /// Passes that the phases take.
        passes: usize,
        /// One pass a phase.
        least: usize,
        /// The most words that meet in a bank.
        degree: usize,
        /// The first thread of the first warp with that many.
        thread: i64,
    },
    /// Global memory: sectors of 32 bytes that the requests touch, and the fewest that hold as many bytes.
    Global {
        /// Sectors touched, request by request.
        sectors: usize,
        /// Sectors that the bytes of each request would fill.
        least: usize,
    },
    /// The values that a thread moves at once are not contiguous or not aligned: the instruction cannot address them.
    Scattered(Box<Place>),
}

impl TiledCopy {
    /// What the copy does to tensors of these layouts: coverage, vectors, banks and sectors.
    ///
    /// ```
    /// use colex_tiled::{TiledCopy, Traffic};
    /// // A warp reads columns of a row-major tensor of 32 by 32 floats: a sector for every 4 bytes.
    /// let load = TiledCopy::new(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, &"(32,1):(1,0)".parse()?, &"(1,1):(0,0)".parse()?)?;
    /// let report = load.report(&"(32,32):(32,1)".parse()?, &"(32,32):(1,32)".parse()?)?;
    /// assert_eq!(report.source, Some(Traffic::Global { sectors: 1024, least: 128 }));
    /// assert!(report.to_string().contains("The source's requests touch 1024 sectors of 32 bytes, and 128 would do."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Assumption`] when the tensors differ in their extents; [`Error::Layout`], [`Error::Atom`].
    pub fn report(&self, src: &Layout, dst: &Layout) -> Result<CopyReport, Error> {
        let extents = self.same_extents(src, dst)?;
        let from = self.named(&extents, Side::Source)?;
        let to = self.named(&extents, Side::Destination)?;
        let layouts = self.atom().val_layouts(self.value_bits())?;
        let [given, got] = [&layouts.src, &layouts.dst].map(|l| size(l, 1) as usize);
        let coverage = Coverage::new(dst, &to);
        Ok(CopyReport {
            threads: self.threads(),
            instructions: to.first().map_or(0, |coords| coords.len() / got),
            bits: [given, got].map(|n| n as i64 * self.value_bits()),
            missing: coverage.missing(dst, &extents)?,
            repeated: coverage.repeated,
            outside: coverage.outside,
            idle: coverage.idle,
            widest: self.widest([(src, &from), (dst, &to)])?,
            source: self.traffic(self.atom().from(), src, &from, given)?,
            destination: self.traffic(self.atom().to(), dst, &to, got)?,
        })
    }

    /// The most values, a power of two up to 16 bytes, that lie contiguous and aligned for every thread on both sides.
    fn widest(&self, sides: [(&Layout, &Vec<Vec<IntTuple>>); 2]) -> Result<i64, Error> {
        let mut width = (128 / self.value_bits()).max(1);
        for (tensor, named) in sides {
            for coords in named {
                let offsets = offsets(tensor, coords)?;
                while width > 1 && !aligned(&offsets, width) {
                    width /= 2;
                }
            }
        }
        Ok(width)
    }

    /// The requests of every warp, instruction by instruction.
    fn traffic(
        &self,
        space: Space,
        tensor: &Layout,
        named: &[Vec<IntTuple>],
        chunk: usize,
    ) -> Result<Option<Traffic>, Error> {
        let bytes = chunk as i64 * self.value_bits() / 8;
        if !matches!(space, Space::Shared | Space::Global) || !(1..=16).contains(&bytes) {
            return Ok(None);
        }
        let mut sums = Sums::default();
        for (warp, lanes) in named.chunks(32).enumerate() {
            for i in 0..lanes[0].len() / chunk {
                let mut starts = Vec::new();
                for (lane, coords) in lanes.iter().enumerate() {
                    let coords = &coords[i * chunk..(i + 1) * chunk];
                    let at = offsets(tensor, coords)?;
                    if at.len() < chunk {
                        continue;
                    }
                    if !aligned(&at, chunk as i64) {
                        let thread = (warp * 32 + lane) as i64;
                        return Ok(Some(Traffic::Scattered(Box::new((
                            thread,
                            coords[0].clone(),
                        )))));
                    }
                    let start = at[0] * self.value_bits() / 8;
                    // Of the lanes that pass one address to a matrix copy, one is served.
                    if self.atom_threads() == 1 || !starts.contains(&start) {
                        starts.push(start);
                    }
                }
                sums.add(starts, bytes, 32 * warp as i64)?;
            }
        }
        Ok(Some(sums.of(space)))
    }
}

/// What the requests of all warps add up to.
#[derive(Default)]
struct Sums {
    passes: usize,
    phases: usize,
    degree: usize,
    thread: i64,
    sectors: usize,
    least: usize,
}

impl Sums {
    /// One request of a warp: where each lane starts, and the bytes that each moves.
    fn add(&mut self, starts: Vec<i64>, bytes: i64, thread: i64) -> Result<(), Error> {
        let touched: BTreeSet<i64> = starts.iter().flat_map(|s| *s..s + bytes).collect();
        let rows: BTreeSet<i64> = touched.iter().map(|byte| byte / 32).collect();
        self.sectors += rows.len();
        self.least += touched.len().div_ceil(32);
        let conflicts = Access::from_bytes("copy", starts, bytes)?.conflicts(Banks::SHARED);
        self.passes += conflicts.passes();
        self.phases += conflicts.phases.len();
        if conflicts.degree() > self.degree {
            (self.degree, self.thread) = (conflicts.degree(), thread);
        }
        Ok(())
    }

    fn of(self, space: Space) -> Traffic {
        match space {
            Space::Shared => Traffic::Shared {
                passes: self.passes,
                least: self.phases,
                degree: self.degree,
                thread: self.thread,
            },
            _ => Traffic::Global {
                sectors: self.sectors,
                least: self.least,
            },
        }
    }
}

/// Who writes what of the destination.
struct Coverage {
    writers: BTreeSet<Vec<i64>>,
    repeated: (usize, Option<Place>),
    outside: (usize, Option<Place>),
    idle: Vec<i64>,
}

impl Coverage {
    fn new(tensor: &Layout, named: &[Vec<IntTuple>]) -> Self {
        let mut coverage = Self {
            writers: BTreeSet::new(),
            repeated: (0, None),
            outside: (0, None),
            idle: Vec::new(),
        };
        for (thread, coords) in (0..).zip(named) {
            let mut active = false;
            for coord in coords {
                if inside(thread, coord, tensor).is_err() {
                    note(&mut coverage.outside, || (thread, coord.clone()));
                    continue;
                }
                active = true;
                if !coverage.writers.insert(key(coord)) {
                    note(&mut coverage.repeated, || (thread, coord.clone()));
                }
            }
            if !active {
                coverage.idle.push(thread);
            }
        }
        coverage
    }

    /// The coordinates of the tensor that nobody writes.
    fn missing(
        &self,
        tensor: &Layout,
        extents: &IntTuple,
    ) -> Result<(usize, Option<IntTuple>), Error> {
        let mut found = (0, None);
        for index in 0..tensor.size() {
            let coord = bare(extents.coord(index)?);
            if !self.writers.contains(&key(&coord)) {
                found.0 += 1;
                found.1.get_or_insert(coord);
            }
        }
        Ok(found)
    }
}

/// Counts one more, and keeps the first.
fn note(count: &mut (usize, Option<Place>), place: impl FnOnce() -> Place) {
    count.0 += 1;
    count.1.get_or_insert_with(place);
}

fn key(coord: &IntTuple) -> Vec<i64> {
    coord.leaves().iter().map(|n| n.value()).collect()
}

/// The offsets of the coordinates that lie inside.
fn offsets(tensor: &Layout, coords: &[IntTuple]) -> Result<Vec<i64>, Error> {
    let inside = coords.iter().filter(|c| inside(0, c, tensor).is_ok());
    Ok(inside.map(|c| tensor.offset(c)).collect::<Result<_, _>>()?)
}

/// Whether every `width` offsets in a row are contiguous, from a multiple of `width` on.
fn aligned(offsets: &[i64], width: i64) -> bool {
    offsets.chunks(width as usize).all(|run| {
        run.len() as i64 == width
            && run[0] % width == 0
            && (run[0]..)
                .zip(run)
                .all(|(expected, offset)| expected == *offset)
    })
}

impl fmt::Display for CopyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [given, got] = self.bits;
        writeln!(
            f,
            "{} threads issue {} instructions each; a thread gives {given} bits and gets {got}.",
            self.threads, self.instructions
        )?;
        match &self.missing {
            (0, _) => writeln!(f, "Every element is written.")?,
            (n, first) => writeln!(
                f,
                "{n} elements are not written, {} the first.",
                or_none(first)
            )?,
        }
        for (what, (count, first)) in [
            ("elements are written again", &self.repeated),
            ("coordinates lie outside of the tensor", &self.outside),
        ] {
            if let Some((thread, coord)) = first {
                writeln!(f, "{count} {what}, first {coord} by thread {thread}.")?;
            }
        }
        if let Some(first) = self.idle.first() {
            writeln!(
                f,
                "{} threads are idle, thread {first} the first.",
                self.idle.len()
            )?;
        }
        writeln!(f, "The widest legal vector is {} values.", self.widest)?;
        for (side, traffic) in [("source", &self.source), ("destination", &self.destination)] {
            if let Some(traffic) = traffic {
                sentence(f, side, traffic)?;
            }
        }
        Ok(())
    }
}

fn or_none(coord: &Option<IntTuple>) -> String {
    coord.as_ref().map_or("none".into(), ToString::to_string)
}

fn sentence(f: &mut fmt::Formatter<'_>, side: &str, traffic: &Traffic) -> fmt::Result {
    match traffic {
        Traffic::Shared {
            passes,
            least,
            degree: 0 | 1,
            ..
        } => writeln!(
            f,
            "The {side}'s accesses take {passes} passes of {least}: no bank conflicts."
        ),
        Traffic::Shared {
            passes,
            least,
            degree,
            thread,
        } => writeln!(
            f,
            "The {side}'s accesses take {passes} passes, and {least} would do: {degree} words meet in a bank, first in \
             the warp of thread {thread}."
        ),
        Traffic::Global { sectors, least } => writeln!(
            f,
            "The {side}'s requests touch {sectors} sectors of 32 bytes, and {least} would do."
        ),
        Traffic::Scattered(first) => writeln!(
            f,
            "The {side}'s values from {} on, of thread {}, are not contiguous and aligned: no instruction addresses them \
             at once.",
            first.1, first.0
        ),
    }
}
