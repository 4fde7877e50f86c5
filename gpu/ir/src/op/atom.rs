//! The matrix and copy instructions, which are rows of tables of their own (`colex_atom`).

use colex_atom::{CopyAtom, MmaAtom};

use crate::needs::Needs;
use crate::operand::{Address, Operand, Reg};
use crate::row::{Arg, Cohort, EXISTS, Formula, Ptx, Row};

/// Whether `wgmma` adds to what D holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleD {
    /// D = A·B.
    Zero,
    /// D = A·B + D.
    One,
    /// Adds where the predicate holds.
    Pred(Reg),
}

/// The source or the destination of a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Registers.
    Regs(Vec<Reg>),
    /// Memory.
    Memory(Address),
    /// The instruction has no such operand.
    None,
}

/// The operands of a copy instruction, as its row asks for them (`colex_atom::Argument`).
#[derive(Clone, Debug, PartialEq)]
pub struct CopyArgs {
    /// The destination.
    pub dst: End,
    /// The source.
    pub src: End,
    /// A tensor map, and the coordinates in it.
    pub tensor: Option<(Address, Vec<Operand>)>,
    /// The barrier that counts the bytes.
    pub barrier: Option<Address>,
    /// Offsets of an im2col copy.
    pub offsets: Vec<Reg>,
    /// The blocks of the cluster that receive it.
    pub mask: Option<Reg>,
    /// The number of bytes, if it is an operand of the instruction.
    pub size: Option<Operand>,
    /// The number of bytes that are read; the rest is filled with zeros.
    pub source_bytes: Option<Operand>,
    /// A cache policy.
    pub policy: Option<Reg>,
}

impl Default for CopyArgs {
    fn default() -> Self {
        CopyArgs {
            dst: End::None,
            src: End::None,
            tensor: None,
            barrier: None,
            offsets: Vec::new(),
            mask: None,
            size: None,
            source_bytes: None,
            policy: None,
        }
    }
}

/// A matrix or copy instruction by its row in the table of `colex_atom`.
#[cfg_attr(new_op = "outside", non_exhaustive)]
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are the row and its operands")]
pub enum Atom {
    /// One matrix instruction. Descriptors of operands in shared memory are one 64-bit register.
    Mma {
        atom: Box<MmaAtom>,
        d: Vec<Reg>,
        a: Vec<Reg>,
        b: Vec<Reg>,
        c: Vec<Reg>,
        e: Vec<Reg>,
        scale_d: ScaleD,
    },
    /// One copy instruction.
    Copy {
        atom: Box<CopyAtom>,
        args: Box<CopyArgs>,
    },
    /// A variant that no `match` knows: `cargo xtask verify` sees that the compiler names every place that has to.
    #[cfg(new_op = "inside")]
    New,
}

impl Atom {
    /// The row of the instruction, with operands whose classes the atom's own row says.
    pub(crate) fn row(&self) -> Row<'_> {
        match self {
            Atom::Mma {
                atom,
                d,
                a,
                b,
                c,
                e,
                scale_d,
            } => {
                let needs = Needs::of_atom(atom.op().map(|op| (op.since, op.version)).ok());
                let cohort = Cohort::of_threads(atom.threads());
                let mnemonic = format!("mma {}", atom.name());
                let row = Row::whole(cohort, mnemonic, Ptx::Atom(self), needs, EXISTS)
                    .formula(Formula::Lane)
                    .slot("D", Arg::Write(d), None)
                    .regs("A", a, None)
                    .regs("B", b, None)
                    .regs("C", c, None)
                    .regs("E", e, None);
                let row = if atom.b_in_shared() {
                    let a = a.iter().filter(|_| atom.a_in_shared());
                    let descriptors = a.chain(b).map(Operand::from).collect();
                    row.same(Cohort::Warpgroup, descriptors)
                } else {
                    row
                };
                let row = match scale_d {
                    ScaleD::Pred(p) => row.regs("predicate", std::slice::from_ref(p), None),
                    ScaleD::Zero | ScaleD::One => row,
                };
                if atom.b_in_shared() && *scale_d != ScaleD::Zero {
                    row.regs("D", d, None)
                } else {
                    row
                }
            }
            Atom::Copy { atom, args } => {
                let needs = Needs::of_atom(atom.op().map(|op| (op.since, op.version)).ok());
                let cohort = Cohort::of_threads(atom.threads());
                let mnemonic = format!("copy {}", atom.name());
                let row = args.slots(Row::whole(cohort, mnemonic, Ptx::Atom(self), needs, EXISTS));
                let named = row.addresses().map(Needs::of_generic);
                Row {
                    needs: named.fold(needs, Needs::max),
                    // A copy into registers gives each lane its own part.
                    formula: if atom.threads() > 1 {
                        Formula::Lane
                    } else {
                        Formula::Function
                    },
                    ..row
                }
            }
        }
    }
}

impl CopyArgs {
    fn slots<'a>(&'a self, row: Row<'a>) -> Row<'a> {
        let row = match &self.dst {
            End::Regs(regs) => row.slot("destination", Arg::Write(regs), None),
            End::Memory(address) => row.at(*address),
            End::None => row,
        };
        let row = match &self.src {
            End::Regs(regs) => row.regs("source", regs, None),
            End::Memory(address) => row.at(*address),
            End::None => row,
        };
        let row = match &self.tensor {
            Some((map, coordinates)) => {
                row.at(*map)
                    .slot("coordinate", Arg::Read(coordinates), None)
            }
            None => row,
        };
        let row = match self.barrier {
            Some(barrier) => row.at(barrier),
            None => row,
        };
        row.regs("offset", &self.offsets, None)
            .regs("mask", self.mask.as_slice(), None)
            .regs("cache policy", self.policy.as_slice(), None)
            .slot("bytes", Arg::Read(self.size.as_slice()), None)
            .slot("bytes", Arg::Read(self.source_bytes.as_slice()), None)
    }
}
