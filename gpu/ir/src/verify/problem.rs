//! The kinds of findings, each with its sentence.

use core::fmt;
use std::panic::Location;

use colex_atom::Arch;

use crate::{Cohort, Escaped, Operand, Reg, RegType, Type};

/// A problem of an instruction or a declaration.
///
/// It is data, not an error: a program that shows findings its own way matches it. [`Diagnostic`](super::Diagnostic) has
/// its sentence. Later versions may add problems.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// A name that PTX does not accept.
    Name {
        /// `kernel`, `parameter` or `shared variable`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name used twice.
    NameTwice {
        /// The name.
        name: String,
    },
    /// A parameter of a type that cannot be passed.
    ParameterType {
        /// Its name.
        name: String,
        /// Its type.
        ty: Type,
    },
    /// More parameters than fit.
    ParameterSpace {
        /// The bytes they take.
        bytes: u32,
    },
    /// An alignment that is not a power of two.
    Alignment {
        /// The parameter or variable.
        name: String,
        /// The alignment in bytes.
        align: u32,
    },
    /// A shared variable without bytes.
    EmptyShared {
        /// Its name.
        name: String,
    },
    /// More static shared memory than a kernel may declare.
    SharedSpace {
        /// The bytes declared.
        bytes: u64,
        /// Bytes of dynamic shared memory that the target has.
        dynamic: u32,
        /// The target.
        target: Arch,
    },
    /// A block that no multiprocessor takes.
    Block {
        /// Its extents.
        block: [u32; 3],
    },
    /// A cluster that no device takes.
    Cluster {
        /// Its extents.
        cluster: [u32; 3],
    },
    /// A number of registers or blocks that a multiprocessor cannot give.
    Limit {
        /// `min_blocks` or `max_registers`.
        what: &'static str,
        /// The number.
        found: u32,
        /// A form that is right.
        right: &'static str,
    },
    /// An instruction or a feature that the target does not have.
    Target {
        /// Its description.
        mnemonic: String,
        /// The first architecture that has it.
        needs: Arch,
        /// The architecture of the kernel.
        target: Arch,
    },
    /// An instruction that does not exist for a type.
    Form {
        /// The instruction.
        mnemonic: String,
        /// The forms that exist.
        takes: String,
    },
    /// A register of the wrong class.
    Class {
        /// The instruction.
        mnemonic: String,
        /// `destination`, `source`, ...
        role: &'static str,
        /// The register.
        reg: Reg,
        /// The operands that are accepted there.
        takes: String,
    },
    /// A constant that cannot be written there.
    Constant {
        /// The instruction.
        mnemonic: String,
        /// The constant.
        value: Operand,
        /// A form that is right.
        right: String,
    },
    /// A special register of an axis beyond z.
    Axis {
        /// The instruction.
        mnemonic: String,
        /// The register.
        special: Operand,
    },
    /// A special register of another width.
    SpecialWidth {
        /// The instruction.
        mnemonic: String,
        /// The register.
        special: Operand,
        /// Its class.
        is: RegType,
    },
    /// A register, a parameter or a variable of another kernel.
    Foreign {
        /// Its description.
        what: String,
        /// The number of them in this kernel.
        count: usize,
    },
    /// Parts whose widths do not add up to that of the whole.
    Parts {
        /// `pack` or `unpack`.
        mnemonic: String,
        /// Bits of the parts together.
        parts: u32,
        /// Bits of the whole.
        whole: u32,
    },
    /// A vector of a length or size that no access has.
    Vector {
        /// The instruction.
        mnemonic: String,
        /// Elements.
        count: usize,
        /// Bytes of all of them.
        bytes: u32,
    },
    /// An address that the instruction cannot take.
    Address {
        /// The instruction.
        mnemonic: String,
        /// The address.
        address: String,
        /// The operands that are accepted there.
        takes: &'static str,
    },
    /// An offset or a base that is not aligned for the access.
    Misaligned {
        /// The instruction.
        mnemonic: String,
        /// The address.
        address: String,
        /// The required alignment in bytes.
        align: u32,
    },
    /// An access beyond the end of a variable or a parameter.
    OutOfBounds {
        /// The instruction.
        mnemonic: String,
        /// The address.
        address: String,
        /// Bytes accessed.
        bytes: u32,
        /// The size in bytes.
        size: u32,
    },
    /// A cache hint or an order that the access does not have.
    Modifier {
        /// The instruction.
        mnemonic: String,
        /// A form that is right.
        right: &'static str,
    },
    /// The row of the instruction does not take these operands.
    Atom(String),
    /// Registers that may be read before they are written.
    Unwritten {
        /// The first instruction that reads one.
        mnemonic: String,
        /// The registers.
        regs: Vec<Reg>,
    },
    /// A collective instruction in divergent control flow.
    Divergent {
        /// The instruction.
        mnemonic: String,
        /// The threads that must execute it together.
        needs: Cohort,
        /// The branch, loop exit or thread exit that makes them diverge.
        parted: &'static Location<'static>,
    },
    /// An operand that must be the same in all threads of a collective instruction.
    Varying {
        /// The instruction.
        mnemonic: String,
        /// The register.
        reg: Reg,
        /// The threads among which it must be the same.
        needs: Cohort,
    },
    /// A block that does not consist of whole groups of threads.
    WholeGroups {
        /// The instruction.
        mnemonic: String,
        /// Threads of the block.
        threads: u32,
        /// Threads of a group.
        group: u32,
    },
    /// `wgmma` on registers that were accessed since the last `wgmma.fence`.
    WgmmaFence {
        /// The instruction.
        mnemonic: String,
        /// The register, if a fence came before.
        reg: Option<Reg>,
    },
    /// Registers of a `wgmma` in flight.
    WgmmaInFlight {
        /// The first instruction that accesses one.
        mnemonic: String,
        /// The registers.
        regs: Vec<Reg>,
        /// Where the `wgmma` was issued.
        issued: &'static Location<'static>,
    },
    /// A `wgmma` that is never waited for.
    WgmmaUnwaited {
        /// The instruction.
        mnemonic: String,
    },
    /// `setmaxnreg` with a number it does not take.
    SetMaxReg {
        /// The number.
        count: u32,
    },
    /// `setmaxnreg` that the assembler would ignore.
    SetMaxRegUnknown,
    /// `setmaxnreg.inc` to fewer registers than a thread has, or `setmaxnreg.dec` to more.
    SetMaxRegDirection {
        /// Whether it increases.
        increase: bool,
        /// The number.
        count: u32,
        /// The registers of a thread before it.
        held: u32,
        /// The registers of a thread at entry.
        entry: u32,
        /// The threads of the block.
        threads: u32,
    },
    /// More registers than the block begins with.
    RegisterPool {
        /// The registers that a thread of each warpgroup asks for or has.
        asked: Vec<u32>,
        /// The registers of a thread at entry.
        entry: u32,
    },
    /// A named barrier that waits for more threads than the block has.
    BarrierBlock {
        /// The number it waits for.
        threads: i64,
        /// The threads of the block.
        block: u32,
    },
    /// A jump outside of a loop.
    NoLoop {
        /// `break` or `continue`.
        mnemonic: String,
    },
    /// A named barrier that does not exist.
    BarrierId {
        /// Its number.
        id: i64,
    },
    /// A number of threads that no barrier takes.
    BarrierThreads {
        /// The number.
        threads: i64,
    },
    /// `barrier.arrive` without a number of threads.
    BarrierArrive,
    /// A number outside of the instruction's range.
    Range {
        /// The instruction.
        mnemonic: String,
        /// The number.
        found: i64,
        /// The numbers it takes.
        takes: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Name { what, name } => write!(
                f,
                "`{}` is no name for a {what}: take letters, digits and `_`, and no digit first",
                Escaped(name)
            ),
            Problem::NameTwice { name } => write!(
                f,
                "`{}` is the name of two parameters or shared variables: each needs its own",
                Escaped(name)
            ),
            Problem::ParameterType { name, ty } => {
                write!(
                    f,
                    "parameter `{}` cannot be a {ty}: pass a number of 8 to 64 bits",
                    Escaped(name)
                )
            }
            Problem::ParameterSpace { bytes } => {
                write!(
                    f,
                    "the parameters take {bytes} bytes: a kernel has room for 32764"
                )
            }
            Problem::Alignment { name, align } => {
                write!(
                    f,
                    "`{}` is aligned to {align} bytes: an alignment is a power of two",
                    Escaped(name)
                )
            }
            Problem::EmptyShared { name } => {
                write!(
                    f,
                    "shared variable `{}` has no bytes: it needs at least 1",
                    Escaped(name)
                )
            }
            Problem::SharedSpace {
                bytes,
                dynamic,
                target,
            } => write!(
                f,
                "shared variables take {bytes} bytes: a kernel may declare 49152, and {target} gives up to {dynamic} as dynamic shared memory"
            ),
            Problem::Block { block: [x, y, z] } => write!(
                f,
                "a block of {x} x {y} x {z} threads: it may have 1 to 1024, and at most 64 along z"
            ),
            Problem::Cluster { cluster: [x, y, z] } => {
                write!(f, "a cluster of {x} x {y} x {z} blocks: it may have 1 to 8")
            }
            Problem::Limit { what, found, right } => write!(f, "{what} is {found}: {right}"),
            Problem::Target {
                mnemonic,
                needs,
                target,
            } => {
                let only = if needs.is_specific() {
                    "needs"
                } else {
                    "came with"
                };
                write!(f, "`{mnemonic}` {only} {needs}, and the kernel is for {target}")
            }
            Problem::Form { mnemonic, takes } => write!(f, "`{mnemonic}` does not exist: {takes}"),
            Problem::Class {
                mnemonic,
                role,
                reg,
                takes,
            } => write!(
                f,
                "`{mnemonic}` takes {takes} as its {role}, and {reg} is of class {}",
                reg.ty
            ),
            Problem::Constant { mnemonic, value, right } => {
                write!(
                    f,
                    "`{mnemonic}` cannot take the constant {}: {right}",
                    constant(value)
                )
            }
            Problem::Axis { mnemonic, special } => write!(
                f,
                "`{mnemonic}` reads {}, and there are the axes 0 (x), 1 (y) and 2 (z)",
                constant(special)
            ),
            Problem::SpecialWidth { mnemonic, special, is } => write!(
                f,
                "`{mnemonic}` cannot read {}, which has class {is}: move it into a register first",
                constant(special)
            ),
            Problem::Foreign { what, count } => write!(
                f,
                "{what} is not of this kernel, which has {count} of them: use what its own builder returned"
            ),
            Problem::Parts { mnemonic, parts, whole } => write!(
                f,
                "`{mnemonic}` has {parts} bits in parts and {whole} in one: 2 or 4 parts of equal width make up the whole"
            ),
            Problem::Vector { mnemonic, count, bytes } => write!(
                f,
                "`{mnemonic}` has {count} elements of {bytes} bytes together: a vector has 1, 2 or 4, and at most 16 bytes"
            ),
            Problem::Address {
                mnemonic,
                address,
                takes,
            } => write!(
                f,
                "`{mnemonic}` cannot take the address {address}: it takes {takes}"
            ),
            Problem::Misaligned {
                mnemonic,
                address,
                align,
            } => write!(
                f,
                "`{mnemonic}` at {address} is misaligned: its address must be a multiple of {align}"
            ),
            Problem::OutOfBounds {
                mnemonic,
                address,
                bytes,
                size,
            } => write!(
                f,
                "`{mnemonic}` at {address} accesses {bytes} bytes there, beyond the {size} that there are"
            ),
            Problem::Modifier { mnemonic, right } => write!(f, "`{mnemonic}` does not exist: {right}"),
            Problem::Atom(why) => f.write_str(why),
            Problem::Unwritten { mnemonic, regs } => match regs.as_slice() {
                [reg] => write!(
                    f,
                    "`{mnemonic}` reads {reg}, which is not written on every way there: write it first"
                ),
                regs => write!(
                    f,
                    "`{mnemonic}` reads {}, which are not written on every way there: write them first",
                    Runs(regs)
                ),
            },
            Problem::Divergent {
                mnemonic,
                needs,
                parted,
            } => write!(
                f,
                "`{mnemonic}` must be executed by {needs} together, and {parted} parts them: branch on something that is the same for all of them"
            ),
            Problem::Varying { mnemonic, reg, needs } => write!(
                f,
                "`{mnemonic}` needs {reg} to be the same in {needs}: broadcast it with a shuffle of lane 0, or compute it from what they share"
            ),
            Problem::WholeGroups {
                mnemonic,
                threads,
                group,
            } => write!(
                f,
                "`{mnemonic}` is executed by {group} threads together, and the block has {threads}: make it a multiple of {group}"
            ),
            Problem::WgmmaFence { mnemonic, reg: None } => {
                write!(f, "`{mnemonic}` has no `wgmma.fence` before it: registers must be handed over first")
            }
            Problem::WgmmaFence {
                mnemonic,
                reg: Some(reg),
            } => write!(
                f,
                "`{mnemonic}` works on {reg}, which was touched after the last `wgmma.fence`: put a fence between them"
            ),
            Problem::WgmmaInFlight { mnemonic, regs, issued } => {
                let them = if regs.len() == 1 { "it" } else { "them" };
                write!(
                    f,
                    "`{mnemonic}` touches {} while the wgmma of {issued} works on {them}: commit the wgmma and wait for its group first",
                    Runs(regs)
                )
            }
            Problem::WgmmaUnwaited { mnemonic } => write!(
                f,
                "`{mnemonic}` is never waited for: end with `wgmma.commit_group` and `wgmma.wait_group 0`"
            ),
            Problem::SetMaxReg { count } => write!(
                f,
                "`setmaxnreg` of {count} registers: it takes 24 to 256 in steps of 8"
            ),
            Problem::SetMaxRegUnknown => f.write_str(
                "`setmaxnreg` would be ignored: give the kernel its block and min_blocks, or max_registers, so that the registers at its entry are known",
            ),
            Problem::SetMaxRegDirection {
                increase,
                count,
                held,
                entry,
                threads,
            } => {
                let (mnemonic, other, way) = if *increase { ("inc", "dec", "at least") } else { ("dec", "inc", "at most") };
                write!(
                    f,
                    "`setmaxnreg.{mnemonic}` to {count} registers, and a thread has {held} there (a block of {threads} threads begins with {entry}): it takes {way} {held}, or use `setmaxnreg.{other}`"
                )
            }
            Problem::RegisterPool { asked, entry } => {
                let terms: Vec<String> = asked.iter().map(u32::to_string).collect();
                let (sum, groups) = (asked.iter().sum::<u32>(), asked.len() as u32);
                let all = groups * entry;
                write!(
                    f,
                    "the warpgroups wait for registers for ever: by `setmaxnreg` they ask for {} = {sum} per thread, and the block begins with {groups} x {entry} = {all}, {} fewer",
                    terms.join(" + "),
                    sum - all
                )
            }
            Problem::BarrierBlock { threads, block } => write!(
                f,
                "a barrier of {threads} threads in a block of {block}: it would wait for ever for the other {}",
                threads - i64::from(*block)
            ),
            Problem::NoLoop { mnemonic } => write!(f, "`{mnemonic}` outside of a loop: there is nothing to leave"),
            Problem::BarrierId { id } => {
                write!(f, "barrier {id} does not exist: a block has the barriers 0 to 15")
            }
            Problem::BarrierThreads { threads } => write!(
                f,
                "a barrier of {threads} threads: it takes a multiple of 32, from 32 to 1024"
            ),
            Problem::BarrierArrive => f.write_str(
                "`barrier.arrive` does not wait, so it must say for how many threads the barrier is",
            ),
            Problem::Range { mnemonic, found, takes } => {
                write!(f, "`{mnemonic}` cannot have {found}: it takes {takes}")
            }
        }
    }
}

impl Problem {
    /// Whether it names a register or a variable of another kernel.
    pub(super) fn is_foreign(&self) -> bool {
        match self {
            Problem::Foreign { .. } => true,
            Problem::Name { .. }
            | Problem::NameTwice { .. }
            | Problem::ParameterType { .. }
            | Problem::ParameterSpace { .. }
            | Problem::Alignment { .. }
            | Problem::EmptyShared { .. }
            | Problem::SharedSpace { .. }
            | Problem::Block { .. }
            | Problem::Cluster { .. }
            | Problem::Limit { .. }
            | Problem::Target { .. }
            | Problem::Form { .. }
            | Problem::Class { .. }
            | Problem::Constant { .. }
            | Problem::Axis { .. }
            | Problem::SpecialWidth { .. }
            | Problem::Parts { .. }
            | Problem::Vector { .. }
            | Problem::Address { .. }
            | Problem::Misaligned { .. }
            | Problem::OutOfBounds { .. }
            | Problem::Modifier { .. }
            | Problem::Atom(_)
            | Problem::Unwritten { .. }
            | Problem::Divergent { .. }
            | Problem::Varying { .. }
            | Problem::WholeGroups { .. }
            | Problem::WgmmaFence { .. }
            | Problem::WgmmaInFlight { .. }
            | Problem::WgmmaUnwaited { .. }
            | Problem::SetMaxReg { .. }
            | Problem::SetMaxRegUnknown
            | Problem::SetMaxRegDirection { .. }
            | Problem::RegisterPool { .. }
            | Problem::BarrierBlock { .. }
            | Problem::NoLoop { .. }
            | Problem::BarrierId { .. }
            | Problem::BarrierThreads { .. }
            | Problem::BarrierArrive
            | Problem::Range { .. } => false,
        }
    }

    /// The key by which findings of one call about registers are joined to one mistake: the location of the `wgmma` in
    /// flight, if there is one.
    pub(super) fn mistake(&self) -> Option<Option<&'static Location<'static>>> {
        match self {
            Problem::Unwritten { .. } => Some(None),
            Problem::WgmmaInFlight { issued, .. } => Some(Some(issued)),
            Problem::Name { .. }
            | Problem::NameTwice { .. }
            | Problem::ParameterType { .. }
            | Problem::ParameterSpace { .. }
            | Problem::Alignment { .. }
            | Problem::EmptyShared { .. }
            | Problem::SharedSpace { .. }
            | Problem::Block { .. }
            | Problem::Cluster { .. }
            | Problem::Limit { .. }
            | Problem::Target { .. }
            | Problem::Form { .. }
            | Problem::Class { .. }
            | Problem::Constant { .. }
            | Problem::Axis { .. }
            | Problem::SpecialWidth { .. }
            | Problem::Foreign { .. }
            | Problem::Parts { .. }
            | Problem::Vector { .. }
            | Problem::Address { .. }
            | Problem::Misaligned { .. }
            | Problem::OutOfBounds { .. }
            | Problem::Modifier { .. }
            | Problem::Atom(_)
            | Problem::Divergent { .. }
            | Problem::Varying { .. }
            | Problem::WholeGroups { .. }
            | Problem::WgmmaFence { .. }
            | Problem::WgmmaUnwaited { .. }
            | Problem::SetMaxReg { .. }
            | Problem::SetMaxRegUnknown
            | Problem::SetMaxRegDirection { .. }
            | Problem::RegisterPool { .. }
            | Problem::BarrierBlock { .. }
            | Problem::NoLoop { .. }
            | Problem::BarrierId { .. }
            | Problem::BarrierThreads { .. }
            | Problem::BarrierArrive
            | Problem::Range { .. } => None,
        }
    }

    /// The registers of such a finding.
    pub(super) fn regs_mut(&mut self) -> Option<&mut Vec<Reg>> {
        match self {
            Problem::Unwritten { regs, .. } | Problem::WgmmaInFlight { regs, .. } => Some(regs),
            Problem::Name { .. }
            | Problem::NameTwice { .. }
            | Problem::ParameterType { .. }
            | Problem::ParameterSpace { .. }
            | Problem::Alignment { .. }
            | Problem::EmptyShared { .. }
            | Problem::SharedSpace { .. }
            | Problem::Block { .. }
            | Problem::Cluster { .. }
            | Problem::Limit { .. }
            | Problem::Target { .. }
            | Problem::Form { .. }
            | Problem::Class { .. }
            | Problem::Constant { .. }
            | Problem::Axis { .. }
            | Problem::SpecialWidth { .. }
            | Problem::Foreign { .. }
            | Problem::Parts { .. }
            | Problem::Vector { .. }
            | Problem::Address { .. }
            | Problem::Misaligned { .. }
            | Problem::OutOfBounds { .. }
            | Problem::Modifier { .. }
            | Problem::Atom(_)
            | Problem::Divergent { .. }
            | Problem::Varying { .. }
            | Problem::WholeGroups { .. }
            | Problem::WgmmaFence { .. }
            | Problem::WgmmaUnwaited { .. }
            | Problem::SetMaxReg { .. }
            | Problem::SetMaxRegUnknown
            | Problem::SetMaxRegDirection { .. }
            | Problem::RegisterPool { .. }
            | Problem::BarrierBlock { .. }
            | Problem::NoLoop { .. }
            | Problem::BarrierId { .. }
            | Problem::BarrierThreads { .. }
            | Problem::BarrierArrive
            | Problem::Range { .. } => None,
        }
    }
}

/// Registers in words: neighbours as a range, and how many there are where they are more than two.
struct Runs<'a>(&'a [Reg]);

impl fmt::Display for Runs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let follows = |a: &Reg, b: &Reg| a.ty == b.ty && a.index.checked_add(1) == Some(b.index);
        let runs: Vec<&[Reg]> = self.0.chunk_by(follows).collect();
        for (i, run) in runs.iter().take(SHOWN).enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first} to {last}")?,
                [one] => write!(f, "{comma}{one}")?,
                [] => {}
            }
        }
        match (self.0.len(), runs.len() > SHOWN) {
            (count, true) => write!(f, " and others, {count} registers in all"),
            (count @ 3.., false) => write!(f, " ({count} registers)"),
            _ => Ok(()),
        }
    }
}

fn constant(operand: &Operand) -> String {
    match operand {
        Operand::Reg(reg) => reg.to_string(),
        Operand::Int(value) => value.to_string(),
        Operand::Float(value) => format!("{value:?}"),
        Operand::Special(special) => special.to_string(),
    }
}
