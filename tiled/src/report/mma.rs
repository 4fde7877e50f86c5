//! What a tiled MMA does with its operands, before any kernel exists.

use colex_atom::{Space, Ty};
use colex_layout::{IntTuple, IntoLayout, Layout};

use crate::Error;
use crate::access::coverage::{Coverage, Place};
use crate::access::map::{AccessMap, Addresses};
use crate::access::traffic::{Requests, Traffic};
use crate::access::vector::{TooWide, widest};
use crate::mma::check::check_extents;
use crate::mma::{Operand, TiledMma};
use crate::tensor::extents::{check_walk, size};

/// What a tiled MMA does with three tensors; [`Display`](core::fmt::Display) says it in sentences.
#[derive(Clone, Debug, PartialEq)]
pub struct MmaReport {
    /// The atom.
    pub atom: String,
    /// The extents of the tile along M, N and K.
    pub tile: [i64; 3],
    /// The number of threads that take part.
    pub threads: i64,
    /// The number of instructions that each thread issues.
    pub instructions: usize,
    /// The multiply-adds that the tensors need, and those that the instructions do; a sparse A counts with its zeros.
    pub work: [i64; 2],
    /// The number of elements of C that no thread owns, and the first of them.
    pub missing: (usize, Option<IntTuple>),
    /// The number of elements of C with a second owner (copies of atoms along K aside), and the first of them with its
    /// second thread.
    pub repeated: (usize, Option<Place>),
    /// The number of atoms along K. Each has a C of its own, and the MMA does not add these up.
    pub sums: i64,
    /// Threads that own no element of C.
    pub idle: Vec<i64>,
    /// Lanes of the warps that are not threads of the MMA: each repeats the work of a thread.
    pub repeating: Vec<i64>,
    /// A, B and C.
    pub operands: [OperandReport; 3],
}

/// What the threads hold of one operand.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandReport {
    /// The operand.
    pub operand: Operand,
    /// The memory of its tensor.
    pub space: Space,
    /// The type of its elements.
    pub ty: Ty,
    /// Whether the instruction reads it from shared memory by a descriptor: no thread holds it.
    pub by_descriptor: bool,
    /// The fewest and the most threads that hold an element, or atoms that read it by descriptor.
    pub held: [usize; 2],
    /// The first element whose number of holders differs from that of the element before it.
    pub uneven: Option<IntTuple>,
    /// The number of coordinates outside of the tensor, and the first of them.
    pub outside: (usize, Option<Place>),
    /// The number of values that a thread gives one instruction.
    pub values: usize,
    /// The number of bits that a thread gives one instruction.
    pub bits: i64,
    /// The number of 32-bit registers for a thread's part of the whole tensor; for a sparse A with its metadata.
    pub registers: usize,
    /// The largest number of values that every thread could move at once between its registers and the tensor, if that
    /// is in memory.
    pub widest: Option<i64>,
    /// Why vectors of twice as many values are not legal, unless the reason is the limit of 16 bytes.
    pub narrow: Option<TooWide>,
    /// The traffic of moving them in such vectors.
    pub traffic: Option<Traffic>,
}

/// What every thread names of one operand.
struct OperandAccess {
    named: AccessMap,
    values: usize,
    rest: [usize; 2],
}

impl TiledMma {
    /// Returns what the MMA does with A of (M,K), B of (N,K) and C of (M,N), each with the memory it is in: coverage
    /// and owners of C, copies of A and B, registers, and what plain loads and stores of the threads' parts do to the
    /// memories. A sparse A is given with its zeros, and nothing is said of its memory. Memory is taken to start at a
    /// multiple of 128 bytes.
    ///
    /// ```
    /// use colex_atom::Space;
    /// use colex_tiled::TiledMma;
    /// let mma = TiledMma::new(colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")?, "(2,2,1):(1,2,0)", (.., .., ..))?;
    /// let (a, b, c) = (((32, 16), (16, 1)), ((16, 16), (16, 1)), ((32, 16), (16, 1)));
    /// let report = mma.report((a, Space::Shared), (b, Space::Register), (c, Space::Global))?;
    /// assert_eq!(report.operands[0].held, [2, 2]);
    /// assert_eq!(report.to_string(), "\
    /// 128 threads issue 1 instruction each, SM80_16x8x16_F32F16F16F32_TN over a tile of 32 by 16 by 16.
    /// Every element of C has one owner.
    /// A: each element is held by 2 threads; a thread gives an instruction 8 values of f16, 128 bits, and needs 4 registers for all.
    /// B: each element is held by 2 threads; a thread gives an instruction 4 values of f16, 64 bits, and needs 2 registers for all.
    /// C: each element is held by 1 thread; a thread gives an instruction 4 values of f32, 128 bits, and needs 4 registers for all.
    /// The widest legal vector of A is 2 values. Not 4: (8,0) of A, of thread 0, is at offset 128, not at 2.
    /// A's accesses take 32 passes, and 16 would do: 2 words meet in a bank, first for thread 0, from (0,0) on.
    /// The widest legal vector of C is 2 values. Not 4: (8,0) of C, of thread 0, is at offset 128, not at 2.
    /// C's requests touch 64 sectors of 32 bytes, and 64 would do.
    /// ");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the extents do not agree, an operand is where the atom does not take it from, or has more
    /// than 2^26 elements, of which each is looked at, or if the layout algebra has no result.
    pub fn report(
        &self,
        (a, in_a): (impl IntoLayout, Space),
        (b, in_b): (impl IntoLayout, Space),
        (c, in_c): (impl IntoLayout, Space),
    ) -> Result<MmaReport, Error> {
        let layouts = [a.into_layout()?, b.into_layout()?, c.into_layout()?];
        let [a, b, c] = &layouts;
        let operands = [(a, in_a), (b, in_b), (c, in_c)];
        check_extents("report", operands.map(|(tensor, _)| tensor), 1)?;
        operands
            .iter()
            .try_for_each(|(tensor, _)| check_walk("report", tensor))?;
        let [a, b, c] = operands;
        let extents = [size(c.0, 0), size(c.0, 1), size(b.0, 1)];
        let held = self.held(c.0, Operand::C)?;
        let owners = self.owners(c.0, &held);
        let steps = self.held(b.0, Operand::B)?.rest[1];
        let instructions = held.rest[0] * held.rest[1] * steps;
        let per_instruction: i64 = self.atom().mnk().iter().product();
        let atoms = self.threads() / size(self.thread_layout(), 0);
        Ok(MmaReport {
            atom: self.atom().name(),
            tile: self.tile_shape(),
            threads: self.threads(),
            instructions,
            work: [
                extents.iter().product(),
                instructions as i64 * per_instruction * atoms,
            ],
            missing: owners.missing(&c.0.shape().product_each()?)?,
            repeated: owners.repeated,
            sums: size(self.thread_layout(), 3),
            idle: owners.idle,
            repeating: self.repeating(),
            operands: [
                self.operand(a, Operand::A)?,
                self.operand(b, Operand::B)?,
                self.operand(c, Operand::C)?,
            ],
        })
    }

    /// The owners of C's elements: of atoms along K the first.
    fn owners(&self, c: &Layout, held: &OperandAccess) -> Coverage {
        let first = |thread: i64| {
            let thread = self.slice(thread).expect("a thread of the MMA");
            thread.vmnk()[3] == 0
        };
        let lanes = held.named.lanes().filter(|(thread, _)| first(*thread));
        Coverage::new(c, lanes)
    }

    fn repeating(&self) -> Vec<i64> {
        let lanes = (0..).map_while(|thread| self.slice(thread).ok());
        let others = lanes.filter(|lane| !lane.is_member());
        others.map(|lane| lane.thread()).collect()
    }

    fn operand(&self, at: (&Layout, Space), operand: Operand) -> Result<OperandReport, Error> {
        let (tensor, space) = at;
        let by_descriptor = self.in_shared(operand);
        self.check_space(operand, space, by_descriptor)?;
        let held = self.held(tensor, operand)?;
        let coverage = Coverage::new(tensor, held.named.lanes());
        let (times, uneven) = coverage.times(&tensor.shape().product_each()?)?;
        let traits = self.atom().traits();
        let ty = [traits.ty_a, traits.ty_b, traits.ty_c][operand as usize];
        let sparse = operand == Operand::A && self.atom().rule().is_sparse();
        let values = match (by_descriptor, sparse) {
            (true, _) => 0,
            (false, true) => held.values / self.atom().rule().packing(),
            (false, false) => held.values,
        };
        let bits = values as i64 * i64::from(ty.bits());
        let instruction = (bits as usize).div_ceil(32) + usize::from(sparse);
        let mut report = OperandReport {
            operand,
            space,
            ty,
            by_descriptor,
            held: times,
            uneven,
            outside: coverage.outside,
            values,
            bits,
            registers: instruction * held.rest[0] * held.rest[1],
            widest: None,
            narrow: None,
            traffic: None,
        };
        if space != Space::Register && !by_descriptor && !sparse {
            report.add_memory(tensor, &held.named)?;
        }
        Ok(report)
    }

    /// What every thread names; of an operand that the instruction reads by descriptor what every atom reads, by its
    /// first thread.
    fn held(&self, tensor: &Layout, operand: Operand) -> Result<OperandAccess, Error> {
        let extents = tensor.shape().product_each()?;
        let identity = Layout::identity(extents)?;
        let all = self.fragments(&identity, operand)?;
        check_walk("report", &all)?;
        let mut held = OperandAccess {
            named: AccessMap::new(identity.rank()),
            values: 0,
            rest: [0, 0],
        };
        for thread in (0..).map_while(|thread| self.slice(thread).ok()) {
            let speaks = thread.vmnk()[0] == 0 || !self.in_shared(operand);
            if !thread.is_member() || !speaks {
                continue;
            }
            let partition = thread.part_of(&identity, &all, operand)?;
            let count = |i| usize::try_from(size(&partition.layout, i)).expect("sizes are counted");
            (held.values, held.rest) = (count(0), [count(1), count(2)]);
            held.named.push(thread.thread(), &partition)?;
        }
        Ok(held)
    }

    fn check_space(
        &self,
        operand: Operand,
        space: Space,
        by_descriptor: bool,
    ) -> Result<(), Error> {
        let (atom, name) = (self.atom().name(), operand.name());
        match (space, by_descriptor) {
            (Space::Shared | Space::Cluster, true) => Ok(()),
            (_, true) => refuse_report(format!(
                "{atom} reads {name} from shared memory, not from {space:?}"
            )),
            (Space::Register | Space::Shared | Space::Cluster | Space::Global, false) => Ok(()),
            (_, false) => refuse_report(format!(
                "the threads of {atom} hold {name} in registers and reach shared and global memory, not {space:?}"
            )),
        }
    }
}

fn refuse_report<T>(why: String) -> Result<T, Error> {
    Err(Error::assumption("report", why))
}

impl OperandReport {
    /// What moving the threads' parts in the widest vectors does to the memory.
    fn add_memory(&mut self, tensor: &Layout, named: &AccessMap) -> Result<(), Error> {
        let bits = i64::from(self.ty.bits());
        let places = Addresses::new(tensor)?;
        let (widest, narrow) = widest(&[(self.operand.name(), &places, named)], bits);
        let requests = Requests {
            space: self.space,
            places: &places,
            bits,
            chunk: usize::try_from(widest).expect("a vector has a value"),
            one_of_equal: false,
            engine: None,
        };
        self.traffic = requests.traffic(named)?;
        (self.widest, self.narrow) = (Some(widest), narrow);
        Ok(())
    }
}
