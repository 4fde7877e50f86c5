//! The kinds of findings, each with its sentence.

use core::fmt;
use std::panic::Location;

use colex_atom::Arch;

use super::resources::BESIDE_WGMMA;
use crate::{Cohort, Escaped, Operand, Reg, RegType, Type};

/// A problem of an instruction or a declaration.
///
/// It is data as well as an error: a program that shows findings its own way matches it.
/// [`Diagnostic`](super::Diagnostic) adds the call of the builder to its sentence. Later versions may add problems.
#[non_exhaustive]
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A name that PTX does not accept.
    #[error(
        "`{}` is no name for a {what}: take letters, digits and `_`, and no digit first",
        Escaped(.name)
    )]
    Name {
        /// `kernel`, `parameter` or `shared variable`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name used twice.
    #[error(
        "`{}` is the name of two parameters or shared variables: each needs its own",
        Escaped(.name)
    )]
    NameTwice {
        /// The name.
        name: String,
    },
    /// A parameter of a type that cannot be passed.
    #[error("parameter `{}` cannot be a {ty}: pass a number of 8 to 64 bits", Escaped(.name))]
    ParameterType {
        /// Its name.
        name: String,
        /// Its type.
        ty: Type,
    },
    /// More parameters than fit.
    #[error("the parameters take {bytes} bytes: a kernel has room for 32764")]
    ParameterSpace {
        /// The bytes they take.
        bytes: u64,
    },
    /// An alignment that is not a power of two.
    #[error("`{}` is aligned to {align} bytes: an alignment is a power of two", Escaped(.name))]
    Alignment {
        /// The parameter or variable.
        name: String,
        /// The alignment in bytes.
        align: u32,
    },
    /// A shared variable without bytes.
    #[error("shared variable `{}` has no bytes: it needs at least 1", Escaped(.name))]
    EmptyShared {
        /// Its name.
        name: String,
    },
    /// More static shared memory than a kernel may declare.
    #[error(
        "shared variables take {bytes} bytes: a kernel may declare 49152, and {target} gives up to {dynamic} as dynamic shared memory"
    )]
    SharedSpace {
        /// The bytes declared.
        bytes: u64,
        /// Bytes of dynamic shared memory that the target has.
        dynamic: u32,
        /// The target.
        target: Arch,
    },
    /// A block that no multiprocessor takes.
    #[error(
        "a block of {} threads: it may have 1 to 1024, and at most 64 along z",
        extents(.block)
    )]
    Block {
        /// Its extents.
        block: [u32; 3],
    },
    /// A cluster that no device takes.
    #[error("a cluster of {} blocks: it may have 1 to 8", extents(.cluster))]
    Cluster {
        /// Its extents.
        cluster: [u32; 3],
    },
    /// A number of registers or blocks that a multiprocessor cannot give.
    #[error("{what} is {found}: {right}")]
    Limit {
        /// `min_blocks` or `max_registers`.
        what: &'static str,
        /// The number.
        found: u32,
        /// A form that is right.
        right: &'static str,
    },
    /// An instruction or a feature that the target does not have.
    #[error(
        "`{mnemonic}` {} {needs}, and the kernel is for {target}",
        if .needs.is_specific() { "needs" } else { "came with" }
    )]
    Target {
        /// Its description.
        mnemonic: String,
        /// The first architecture that has it.
        needs: Arch,
        /// The architecture of the kernel.
        target: Arch,
    },
    /// An instruction that does not exist for a type.
    #[error("`{mnemonic}` does not exist: {takes}")]
    Form {
        /// The instruction.
        mnemonic: String,
        /// The forms that exist.
        takes: String,
    },
    /// A register of the wrong class.
    #[error("`{mnemonic}` takes {takes} as its {role}, and {reg} is of class {}", .reg.ty)]
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
    #[error("`{mnemonic}` cannot take the constant {}: {right}", constant(.value))]
    Constant {
        /// The instruction.
        mnemonic: String,
        /// The constant.
        value: Operand,
        /// A form that is right.
        right: String,
    },
    /// A special register of an axis beyond z.
    #[error(
        "`{mnemonic}` reads {}, and there are the axes 0 (x), 1 (y) and 2 (z)",
        constant(.special)
    )]
    Axis {
        /// The instruction.
        mnemonic: String,
        /// The register.
        special: Operand,
    },
    /// A special register of another width.
    #[error(
        "`{mnemonic}` cannot read {}, which has class {is}: move it into a register first",
        constant(.special)
    )]
    SpecialWidth {
        /// The instruction.
        mnemonic: String,
        /// The register.
        special: Operand,
        /// Its class.
        is: RegType,
    },
    /// A register, a parameter or a variable of another kernel.
    #[error(
        "{what} is not of this kernel, which has {count} of them: use what its own builder returned"
    )]
    Foreign {
        /// Its description.
        what: String,
        /// The number of them in this kernel.
        count: usize,
    },
    /// Parts whose widths do not add up to that of the whole.
    #[error(
        "`{mnemonic}` has {parts} bits in parts and {whole} in one: 2 or 4 parts of equal width make up the whole"
    )]
    Parts {
        /// `pack` or `unpack`.
        mnemonic: String,
        /// Bits of the parts together.
        parts: u32,
        /// Bits of the whole.
        whole: u32,
    },
    /// A vector of a length or size that no access has.
    #[error(
        "`{mnemonic}` has {count} elements of {bytes} bytes together: a vector has 1, 2 or 4, and at most 16 bytes"
    )]
    Vector {
        /// The instruction.
        mnemonic: String,
        /// Elements.
        count: usize,
        /// Bytes of all of them.
        bytes: u32,
    },
    /// An address that the instruction cannot take.
    #[error("`{mnemonic}` cannot take the address {address}: it takes {takes}")]
    Address {
        /// The instruction.
        mnemonic: String,
        /// The address.
        address: String,
        /// The operands that are accepted there.
        takes: &'static str,
    },
    /// An offset or a base that is not aligned for the access.
    #[error("`{mnemonic}` at {address} is misaligned: its address must be a multiple of {align}")]
    Misaligned {
        /// The instruction.
        mnemonic: String,
        /// The address.
        address: String,
        /// The required alignment in bytes.
        align: u32,
    },
    /// An access beyond the end of a variable or a parameter.
    #[error(
        "`{mnemonic}` at {address} accesses {bytes} bytes there, beyond the {size} that there are"
    )]
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
    #[error("`{mnemonic}` does not exist: {right}")]
    Modifier {
        /// The instruction.
        mnemonic: String,
        /// A form that is right.
        right: &'static str,
    },
    /// The row of the instruction does not take these operands.
    #[error("{0}")]
    Atom(String),
    /// Registers that may be read before they are written.
    #[error("`{mnemonic}` reads {}", unwritten(.regs))]
    Unwritten {
        /// The first instruction that reads one.
        mnemonic: String,
        /// The registers.
        regs: Vec<Reg>,
    },
    /// A collective instruction in divergent control flow.
    #[error(
        "`{mnemonic}` must be executed by {needs} together, and {parted} parts them: branch on something that is the same for all of them"
    )]
    Divergent {
        /// The instruction.
        mnemonic: String,
        /// The threads that must execute it together.
        needs: Cohort,
        /// The branch, loop exit or thread exit that makes them diverge.
        parted: &'static Location<'static>,
    },
    /// An operand that must be the same in all threads of a collective instruction.
    #[error(
        "`{mnemonic}` needs {reg} to be the same in {needs}: broadcast it with a shuffle of lane 0, or compute it from what they share"
    )]
    Varying {
        /// The instruction.
        mnemonic: String,
        /// The register.
        reg: Reg,
        /// The threads among which it must be the same.
        needs: Cohort,
    },
    /// A block that does not consist of whole groups of threads.
    #[error(
        "`{mnemonic}` is executed by {group} threads together, and the block has {threads}: make it a multiple of {group}"
    )]
    WholeGroups {
        /// The instruction.
        mnemonic: String,
        /// Threads of the block.
        threads: u32,
        /// Threads of a group.
        group: u32,
    },
    /// `wgmma` on registers that were accessed since the last `wgmma.fence`.
    #[error("`{mnemonic}` {}", unfenced(*.reg))]
    WgmmaFence {
        /// The instruction.
        mnemonic: String,
        /// The register, if a fence came before.
        reg: Option<Reg>,
    },
    /// Registers of a `wgmma` in flight.
    #[error(
        "`{mnemonic}` touches {} while the wgmma of {issued} works on {}: commit the wgmma and wait for its group first",
        Runs(.regs), if .regs.len() == 1 { "it" } else { "them" }
    )]
    WgmmaInFlight {
        /// The first instruction that accesses one.
        mnemonic: String,
        /// The registers.
        regs: Vec<Reg>,
        /// Where the `wgmma` was issued.
        issued: &'static Location<'static>,
    },
    /// A `wgmma` that is never waited for.
    #[error(
        "`{mnemonic}` is never waited for: end with `wgmma.commit_group` and `wgmma.wait_group 0`"
    )]
    WgmmaUnwaited {
        /// The instruction.
        mnemonic: String,
    },
    /// `setmaxnreg` with a number it does not take.
    #[error("`setmaxnreg` of {count} registers: it takes 24 to 256 in steps of 8")]
    SetMaxReg {
        /// The number.
        count: u32,
    },
    /// `setmaxnreg` that the assembler would ignore.
    #[error(
        "`setmaxnreg` would be ignored: give the kernel its block and min_blocks, or max_registers, so that the registers at its entry are known"
    )]
    SetMaxRegUnknown,
    /// `setmaxnreg.inc` to fewer registers than a thread has, or `setmaxnreg.dec` to more.
    #[error(
        "`setmaxnreg.{}` to {count} registers, and a thread has {held} there (a block of {threads} threads begins with {entry}): it takes {} {held}, or use `setmaxnreg.{}`",
        way(*.increase), if *.increase { "at least" } else { "at most" }, way(!.increase)
    )]
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
    #[error("the warpgroups wait for registers for ever: {}", pool(.asked, *.entry))]
    RegisterPool {
        /// The registers that a thread of each warpgroup asks for or has.
        asked: Vec<u32>,
        /// The registers of a thread at entry.
        entry: u32,
    },
    /// A `wgmma` for whose registers a thread begins with too few.
    #[error(
        "a `wgmma` of {own} registers takes at least {} at entry, and a thread begins with {entry}: the assembler counts no register that `setmaxnreg` gives later",
        .own + BESIDE_WGMMA
    )]
    WgmmaRegisters {
        /// The registers of D, and of A where it is in registers.
        own: u32,
        /// The registers of a thread at entry.
        entry: u32,
    },
    /// A named barrier that waits for more threads than the block has.
    #[error(
        "a barrier of {threads} threads in a block of {block}: it would wait for ever for the other {}",
        .threads - i64::from(*.block)
    )]
    BarrierBlock {
        /// The number it waits for.
        threads: i64,
        /// The threads of the block.
        block: u32,
    },
    /// A jump outside of a loop.
    #[error("`{mnemonic}` outside of a loop: there is nothing to leave")]
    NoLoop {
        /// `break` or `continue`.
        mnemonic: String,
    },
    /// A named barrier that does not exist.
    #[error("barrier {id} does not exist: a block has the barriers 0 to 15")]
    BarrierId {
        /// Its number.
        id: i64,
    },
    /// A number of threads that no barrier takes.
    #[error("a barrier of {threads} threads: it takes a multiple of 32, from 32 to 1024")]
    BarrierThreads {
        /// The number.
        threads: i64,
    },
    /// `barrier.arrive` without a number of threads.
    #[error("`barrier.arrive` does not wait, so it must say for how many threads the barrier is")]
    BarrierArrive,
    /// A number outside of the instruction's range.
    #[error("`{mnemonic}` cannot have {found}: it takes {takes}")]
    Range {
        /// The instruction.
        mnemonic: String,
        /// The number.
        found: i64,
        /// The numbers it takes.
        takes: &'static str,
    },
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How findings of one call are joined.
pub(super) enum Join<'a> {
    /// A register or a variable of another kernel, beside which no other analysis makes sense.
    Foreign,
    /// Findings of one kind about registers are one mistake: of the `wgmma` in flight, if there is one.
    Registers(Option<&'static Location<'static>>, &'a mut Vec<Reg>),
    /// It stands for itself.
    Alone,
}

impl Problem {
    /// Returns how it is joined with others of the same call.
    pub(super) fn join(&mut self) -> Join<'_> {
        match self {
            Problem::Foreign { .. } => Join::Foreign,
            Problem::Unwritten { regs, .. } => Join::Registers(None, regs),
            Problem::WgmmaInFlight { regs, issued, .. } => Join::Registers(Some(issued), regs),
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
            | Problem::Divergent { .. }
            | Problem::Varying { .. }
            | Problem::WholeGroups { .. }
            | Problem::WgmmaFence { .. }
            | Problem::WgmmaUnwaited { .. }
            | Problem::SetMaxReg { .. }
            | Problem::SetMaxRegUnknown
            | Problem::SetMaxRegDirection { .. }
            | Problem::RegisterPool { .. }
            | Problem::WgmmaRegisters { .. }
            | Problem::BarrierBlock { .. }
            | Problem::NoLoop { .. }
            | Problem::BarrierId { .. }
            | Problem::BarrierThreads { .. }
            | Problem::BarrierArrive
            | Problem::Range { .. } => Join::Alone,
        }
    }
}

fn extents([x, y, z]: &[u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

fn unwritten(regs: &[Reg]) -> String {
    let (are, them) = match regs {
        [_] => ("is", "it"),
        _ => ("are", "them"),
    };
    format!(
        "{}, which {are} not written on every path to it: write {them} first",
        Runs(regs)
    )
}

fn unfenced(reg: Option<Reg>) -> String {
    match reg {
        None => "has no `wgmma.fence` before it: registers must be handed over first".into(),
        Some(reg) => format!(
            "works on {reg}, which was touched after the last `wgmma.fence`: put a fence between them"
        ),
    }
}

fn way(increase: bool) -> &'static str {
    if increase { "inc" } else { "dec" }
}

fn pool(asked: &[u32], entry: u32) -> String {
    let terms: Vec<String> = asked.iter().map(u32::to_string).collect();
    let (sum, groups) = (asked.iter().sum::<u32>(), asked.len() as u32);
    let all = groups * entry;
    format!(
        "by `setmaxnreg` they ask for {} = {sum} per thread, and the block begins with {groups} x {entry} = {all}, {} fewer",
        terms.join(" + "),
        sum - all
    )
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
