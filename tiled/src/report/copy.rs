//! What a tiled copy does to memory, before any kernel exists.

use core::fmt;

use colex_atom::Space;
use colex_layout::{IntTuple, IntoLayout};

use crate::Error;
use crate::access::coverage::{Coverage, Place};
use crate::access::map::Addresses;
use crate::access::traffic::{Requests, Traffic};
use crate::access::traffic_sentences::sentence;
use crate::access::vector::{TooWide, widest};
use crate::access::words::{are, number, verb};
use crate::copy::{Side, TiledCopy};
use crate::tensor::extents::{check_walk, size};

/// What a tiled copy does with two tensors; [`fmt::Display`] says it in sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyReport {
    /// The number of threads that take part.
    pub threads: i64,
    /// The number of instructions that each thread issues.
    pub instructions: usize,
    /// The bits that a thread gives one instruction, and the bits that it gets.
    pub bits: [i64; 2],
    /// The number of 32-bit registers for everything that a thread moves; 0 for a copy between two memories.
    pub registers: usize,
    /// Elements of the destination that no thread writes, and the first.
    pub missing: (usize, Option<IntTuple>),
    /// Elements of the destination that are written again, and the first with the second thread to write it.
    pub repeated: (usize, Option<Place>),
    /// Coordinates outside of the tensors, and the first.
    pub outside: (usize, Option<Place>),
    /// Threads that name no coordinate inside of the tensors.
    pub idle: Vec<i64>,
    /// The largest number of values that every thread could move at once, by contiguity and alignment of both tensors.
    pub widest: i64,
    /// Why not twice as many, unless the reason is the limit of 16 bytes.
    pub narrow: Option<TooWide>,
    /// The traffic of the source, if it is in memory.
    pub source: Option<Traffic>,
    /// The traffic of the destination, if it is in memory.
    pub destination: Option<Traffic>,
}

impl TiledCopy {
    /// Returns what the copy does to tensors of these layouts: coverage, vectors, banks and sectors. Memory is taken to
    /// start at a multiple of 128 bytes. A vector that is not all inside is counted as outside, and makes no request: a
    /// predicate holds it back, and the other lanes of its phase stay where they are. So tensors that the tile does not
    /// divide, or that are smaller than it, are reported exactly.
    ///
    /// ```
    /// use colex_tiled::{TiledCopy, Traffic};
    /// // A warp reads columns of a row-major tensor of 32 by 32 floats: a sector for every 4 bytes.
    /// let load = TiledCopy::new(colex_atom::copy("UniversalCopy<uint32_t>")?, 32, "(32,1):(1,0)", "(1,1):(0,0)")?;
    /// let report = load.report("(32,32):(32,1)", "(32,32):(1,32)")?;
    /// assert_eq!(report.source, Some(Traffic::Global { sectors: 1024, least: 128, first: Some(Box::new((0, (0, 0).into()))) }));
    /// assert!(report.to_string().contains("The source's requests touch 1024 sectors of 32 bytes, and 128 would do."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tensors differ in their extents, or have more than 2^26 elements, of which each is
    /// looked at, or if the layout algebra has no result or the atom refuses.
    pub fn report(&self, src: impl IntoLayout, dst: impl IntoLayout) -> Result<CopyReport, Error> {
        let src = &src.into_layout()?;
        let dst = &dst.into_layout()?;
        let extents = self.same_extents(src, dst)?;
        check_walk("report", src)?;
        check_walk("report", dst)?;
        let from = self.named(&extents, Side::Source)?;
        let to = self.named(&extents, Side::Destination)?;
        let [read, write] = [Addresses::new(src)?, Addresses::new(dst)?];
        let layouts = self.atom().val_layouts(self.value_bits())?;
        let [given, got] = [&layouts.src, &layouts.dst].map(|l| size(l, 1) as usize);
        let looked_at = self.looked_at()?;
        let written = to
            .lanes()
            .filter(|(thread, _)| looked_at[*thread as usize % looked_at.len()]);
        let coverage = Coverage::new(dst, written);
        let sides = [
            ("the source", &read, &from),
            ("the destination", &write, &to),
        ];
        let (widest, narrow) = widest(&sides, self.value_bits());
        let instructions = to.per_thread() / got;
        let bits = [given, got].map(|n| n as i64 * self.value_bits());
        let ends = [self.atom().from(), self.atom().to()].into_iter().zip(bits);
        let held = ends.filter(|(space, _)| *space == Space::Register);
        let held = held.map(|(_, bits)| bits as usize * instructions);
        Ok(CopyReport {
            threads: self.threads(),
            instructions,
            bits,
            registers: held.max().unwrap_or(0).div_ceil(32),
            missing: coverage.missing(&extents)?,
            repeated: coverage.repeated,
            outside: coverage.outside,
            idle: coverage.idle,
            widest,
            narrow,
            source: self
                .requests(self.atom().from(), &read, given)
                .traffic(&from)?,
            destination: self.requests(self.atom().to(), &write, got).traffic(&to)?,
        })
    }

    /// Of the atom's threads, whose addresses the instruction looks at: of a narrow `stmatrix` not all.
    fn looked_at(&self) -> Result<Vec<bool>, Error> {
        if self.atom().is_executable() {
            let routes = self.atom().routes(self.value_bits())?;
            Ok(routes.iter().map(Option::is_some).collect())
        } else {
            Ok(vec![true])
        }
    }

    /// How the given side's instructions reach their memory.
    fn requests<'a>(&self, space: Space, places: &'a Addresses<'a>, chunk: usize) -> Requests<'a> {
        Requests {
            space,
            places,
            bits: self.value_bits(),
            chunk,
            one_of_equal: self.atom_threads() > 1,
            engine: self.engine(),
        }
    }
}

impl fmt::Display for CopyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [given, got] = self.bits;
        writeln!(
            f,
            "{} {} {} each; a thread gives {given} bits and gets {got}.",
            number(self.threads as usize, "thread"),
            verb(self.threads as usize, "issue"),
            number(self.instructions, "instruction")
        )?;
        if self.registers > 0 {
            let registers = number(self.registers, "register");
            writeln!(f, "A thread needs {registers} for all.")?;
        }
        match &self.missing {
            (0, _) => writeln!(f, "Every element is written.")?,
            (n, first) => {
                let (n, are) = (number(*n, "element"), are(*n));
                writeln!(f, "{n} {are} not written, {} the first.", or_none(first))?;
            }
        }
        if let (n, Some((thread, coord))) = &self.repeated {
            let (n, are) = (number(*n, "element"), are(*n));
            writeln!(
                f,
                "{n} {are} written again, first {coord} by thread {thread}."
            )?;
        }
        if let (n, Some((thread, coord))) = &self.outside {
            let (n, lie) = (number(*n, "coordinate"), verb(*n, "lie"));
            writeln!(
                f,
                "{n} {lie} outside of the tensor, first {coord} by thread {thread}."
            )?;
        }
        if let Some(first) = self.idle.first() {
            let n = self.idle.len();
            let (n, are) = (number(n, "thread"), are(n));
            writeln!(f, "{n} {are} idle, thread {first} the first.")?;
        }
        let widest = number(self.widest as usize, "value");
        writeln!(f, "The widest legal vector is {widest}.")?;
        if let Some(narrow) = &self.narrow {
            writeln!(f, "{narrow}")?;
        }
        for (side, traffic) in [("source", &self.source), ("destination", &self.destination)] {
            if let Some(traffic) = traffic {
                sentence(f, &format!("The {side}'s"), traffic)?;
            }
        }
        Ok(())
    }
}

fn or_none(coord: &Option<IntTuple>) -> String {
    coord.as_ref().map_or("none".into(), ToString::to_string)
}
