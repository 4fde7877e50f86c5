//! The row of an instruction: its description as data, which the rest of the crate reads instead of matching over
//! instructions.

use core::fmt;

use super::modifiers::{BinaryOp, Compare, ShuffleMode};
use super::needs::Needs;
use super::op::{Atom, Control, Op, PrintedValue, PtxText};
use super::operand::{Address, Operand, Reg};
use super::stmt::{Guard, Stmt};
use super::ty::Type;

/// The threads that must execute a collective instruction together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cohort {
    /// All lanes of a warp.
    Warp,
    /// All four warps of a warpgroup.
    Warpgroup,
    /// All threads of the block.
    Block,
}

impl Cohort {
    /// Returns the cohort of an instruction that takes `threads` threads; `None` for a single thread.
    pub(crate) fn of_threads(threads: usize) -> Option<Cohort> {
        match threads {
            0 | 1 => None,
            2..=32 => Some(Cohort::Warp),
            _ => Some(Cohort::Warpgroup),
        }
    }

    /// Returns the whole warp if the mask is the constant of all 32 lanes; otherwise `None`.
    pub(crate) fn of_mask(mask: Operand) -> Option<Cohort> {
        (mask == Operand::Int(0xffff_ffff)).then_some(Cohort::Warp)
    }
}

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cohort::Warp => "all threads of a warp",
            Cohort::Warpgroup => "all threads of a warpgroup",
            Cohort::Block => "all threads of the block",
        })
    }
}

/// One operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arg<'a> {
    /// Registers that it writes; several are a vector.
    Write(&'a [Reg]),
    /// A register that it writes beside the operand before: `d|p`.
    Beside(&'a [Reg]),
    /// A source operand, or a vector of them.
    Read(&'a [Operand]),
    /// Registers that it reads; several are a vector.
    ReadReg(&'a [Reg]),
    /// A predicate that it reads, as it is or negated.
    Guard(Guard),
    /// The lanes that take part.
    Lanes(&'a Operand),
    /// A source operand without a place in the text.
    Implied(&'a [Operand]),
    /// An address in memory.
    Address(Address),
    /// The address of a tensor map.
    TensorMap(Address),
    /// A kind that no `match` knows, as `New` of a family.
    #[cfg(new_op = "inside")]
    New,
}

/// An operand, its role and its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slot<'a> {
    /// The name of the operand in messages.
    pub(crate) role: &'static str,
    /// The operand.
    pub(crate) arg: Arg<'a>,
    /// The type it is read or written in; `None` where the row of an atom or the number of parts decides.
    pub(crate) ty: Option<Type>,
    /// The largest constant, where that is less than the type holds, and the sentence that says so.
    pub(crate) most: Option<(i64, &'static str)>,
}

/// The form of an instruction in PTX.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ptx<'a> {
    /// The opcode, then the operands in order, then a number.
    Line { opcode: Word, last: Option<String> },
    /// `mov`, whose opcode follows from its source.
    Mov { d: Reg, a: Operand },
    /// An address in a register, generic where the register has 64 bits.
    AddressOf { d: Reg, a: Address },
    /// A loop that waits for a phase of a barrier.
    Wait { a: Address, parity: Operand },
    /// The text of an atom's own row.
    Atom(&'a Atom),
    /// Labels and branches.
    Control(&'a Control),
    /// A call of `vprintf`.
    Print {
        values: &'a [PrintedValue],
        end: &'a str,
    },
    /// A text of the author's.
    Text {
        text: &'a PtxText,
        d: &'a [(Type, Reg)],
        a: &'a [(Type, Operand)],
    },
    /// A kind that no `match` knows, as `New` of a family.
    #[cfg(new_op = "inside")]
    New,
}

/// A word of static parts, such as an opcode: a short one takes no allocation.
#[derive(Clone, PartialEq)]
pub(crate) enum Word {
    /// ASCII letters, as many as the number says.
    Short([u8; Word::SHORT], u8),
    Long(String),
}

impl Word {
    const SHORT: usize = 38;

    /// Puts a word together.
    pub(crate) fn of(parts: &[&str]) -> Word {
        let (mut letters, mut end) = ([0; Word::SHORT], 0);
        for part in parts {
            let next = end + part.len();
            match letters.get_mut(end..next) {
                Some(place) if part.is_ascii() => place.copy_from_slice(part.as_bytes()),
                Some(_) | None => return Word::Long(parts.concat()),
            }
            end = next;
        }
        Word::Short(letters, end as u8)
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Word::Short(letters, count) => {
                std::str::from_utf8(&letters[..usize::from(*count)]).expect("letters are ASCII")
            }
            Word::Long(text) => text,
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::of(&[text])
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::Long(text)
    }
}

impl From<Word> for Ptx<'_> {
    fn from(opcode: Word) -> Self {
        Ptx::Line { opcode, last: None }
    }
}

impl From<String> for Ptx<'_> {
    fn from(opcode: String) -> Self {
        Word::from(opcode).into()
    }
}

impl From<&str> for Ptx<'_> {
    fn from(opcode: &str) -> Self {
        Word::from(opcode).into()
    }
}

/// The facts about the value that an instruction writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Formula<'a> {
    /// It is a function of what is read: the same in threads that read the same.
    Function,
    /// It may differ between any two lanes.
    Lane,
    /// It is what memory holds, which other threads may write meanwhile.
    Shared,
    /// It is the operand, an integer.
    Copy(&'a Operand),
    /// It is that function of two operands.
    Binary(BinaryOp, Type, &'a Operand, &'a Operand),
    /// It is whether two operands compare so.
    Compare(Compare, Type, &'a Operand, &'a Operand),
    /// It is that function of two predicates.
    Logic(BinaryOp, Guard, Guard),
    /// It is the first operand where the predicate holds, else the second.
    Select(Reg, &'a Operand, &'a Operand),
    /// It is bits of the operand from that one on.
    Field(&'a Operand, i64),
    /// It is the operand of another lane.
    Shuffle {
        mode: ShuffleMode,
        a: &'a Operand,
        lane: &'a Operand,
        mask: Operand,
        /// Whether a second register says if there is such a lane.
        tested: bool,
    },
    /// It is the same in all lanes of the mask (the second operand), and a function of the first operand of theirs. Of lanes with
    /// one value it is the same however many they are, if the last says so.
    Warp(Operand, Operand, bool),
    /// A kind that no `match` knows, as `New` of a family.
    #[cfg(new_op = "inside")]
    New,
}

/// The form of an instruction that exists with every value of its fields.
pub(crate) const EXISTS: Result<(), String> = Ok(());

/// The row of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row<'a> {
    /// Its mnemonic in listings and messages: its opcode and types.
    pub(crate) mnemonic: Word,
    /// Its text in PTX.
    pub(crate) ptx: Ptx<'a>,
    /// The facts about the value that it writes.
    pub(crate) formula: Formula<'a>,
    /// Its operands, in the order of PTX.
    pub(crate) slots: Vec<Slot<'a>>,
    /// The bits of its parts and of the whole, and whether the parts make up the whole.
    pub(crate) pieces: Option<(u32, u32, bool)>,
    /// Whether it exists for its types and modifiers (PTX ISA 9.7); if not, the forms that exist.
    pub(crate) form: Result<(), String>,
    /// The requirements of its opcode and types.
    pub(crate) needs: Needs,
    /// Its requirements on targets before `needs`, if it has another form for those.
    pub(crate) older: Option<Needs>,
    /// The threads that must execute it together, if it is collective.
    pub(crate) cohort: Option<Cohort>,
    /// Whether it takes whole groups of such threads, so that the block must consist of them.
    pub(crate) whole: bool,
    /// The operands that must be the same in all threads of a group, and the group.
    pub(crate) same: Option<(Cohort, Vec<Operand>)>,
}

impl<'a> Row<'a> {
    /// A row without operands, of an instruction that each thread executes for itself: its word in listings, its text
    /// in PTX, what it needs, and whether it exists for its types and modifiers. Its value may differ between lanes: one
    /// that is a function of what is read has to say so.
    pub(crate) fn alone(
        mnemonic: impl Into<Word>,
        ptx: impl Into<Ptx<'a>>,
        needs: Needs,
        form: Result<(), String>,
    ) -> Self {
        Row {
            mnemonic: mnemonic.into(),
            ptx: ptx.into(),
            formula: Formula::Lane,
            slots: Vec::new(),
            pieces: None,
            form,
            needs,
            older: None,
            cohort: None,
            whole: false,
            same: None,
        }
    }

    /// The same of an instruction that the threads of a cohort execute together. Lanes that do not exist take no part,
    /// and barriers count the threads that there are.
    pub(crate) fn together(
        cohort: impl Into<Option<Cohort>>,
        mnemonic: impl Into<Word>,
        ptx: impl Into<Ptx<'a>>,
        needs: Needs,
        form: Result<(), String>,
    ) -> Self {
        Row {
            cohort: cohort.into(),
            ..Row::alone(mnemonic, ptx, needs, form)
        }
    }

    /// The same of an instruction that takes all threads of its cohort: none may be missing in the block.
    pub(crate) fn whole(
        cohort: impl Into<Option<Cohort>>,
        mnemonic: impl Into<Word>,
        ptx: impl Into<Ptx<'a>>,
        needs: Needs,
        form: Result<(), String>,
    ) -> Self {
        Row {
            whole: true,
            ..Row::together(cohort, mnemonic, ptx, needs, form)
        }
    }

    /// Adds an operand.
    pub(crate) fn slot(mut self, role: &'static str, arg: Arg<'a>, ty: Option<Type>) -> Self {
        self.slots.push(Slot {
            role,
            arg,
            ty,
            most: None,
        });
        self
    }

    /// Adds a register that it writes.
    pub(crate) fn d(self, d: &'a Reg, ty: Type) -> Self {
        self.ds(std::slice::from_ref(d), ty)
    }

    /// Adds a vector of registers that it writes.
    pub(crate) fn ds(self, d: &'a [Reg], ty: Type) -> Self {
        self.slot("destination", Arg::Write(d), Some(ty))
    }

    /// Adds an operand that it reads.
    pub(crate) fn s(self, a: &'a Operand, ty: Type) -> Self {
        self.source("source", a, ty)
    }

    /// Adds an operand that it reads, of another role than a source.
    pub(crate) fn source(self, role: &'static str, a: &'a Operand, ty: Type) -> Self {
        self.slot(role, Arg::Read(std::slice::from_ref(a)), Some(ty))
    }

    /// Adds a vector of operands that it reads; none for an empty one.
    pub(crate) fn ss(self, a: &'a [Operand], ty: Type) -> Self {
        if a.is_empty() {
            return self;
        }
        self.slot("source", Arg::Read(a), Some(ty))
    }

    /// Adds operands that it reads without a place in the text; none for an empty slice.
    pub(crate) fn implied(self, a: &'a [Operand], ty: Type) -> Self {
        if a.is_empty() {
            return self;
        }
        self.slot("source", Arg::Implied(a), Some(ty))
    }

    /// Adds registers that it reads in a role of their own; none for an empty slice.
    pub(crate) fn regs(self, role: &'static str, a: &'a [Reg], ty: Option<Type>) -> Self {
        if a.is_empty() {
            return self;
        }
        self.slot(role, Arg::ReadReg(a), ty)
    }

    /// Adds the mask of the lanes that take part.
    pub(crate) fn lanes(self, mask: &'a Operand) -> Self {
        self.slot("mask", Arg::Lanes(mask), Some(Type::U32))
    }

    /// Adds a predicate that it reads.
    pub(crate) fn guard(self, role: &'static str, guard: Guard) -> Self {
        self.slot(role, Arg::Guard(guard), Some(Type::Pred))
    }

    /// Adds an address.
    pub(crate) fn at(self, address: Address) -> Self {
        self.slot("address", Arg::Address(address), None)
    }

    /// Adds the address of a tensor map.
    pub(crate) fn at_map(self, address: Address) -> Self {
        self.slot("tensor map", Arg::TensorMap(address), None)
    }

    /// Says what is known of its value.
    pub(crate) fn formula(self, formula: Formula<'a>) -> Self {
        Row { formula, ..self }
    }

    /// Says that its value is a function of what is read.
    pub(crate) fn function(self) -> Self {
        self.formula(Formula::Function)
    }

    /// Bounds the constants of the last operand.
    pub(crate) fn most(mut self, last: i64, right: &'static str) -> Self {
        if let Some(slot) = self.slots.last_mut() {
            slot.most = Some((last, right));
        }
        self
    }

    /// Says which operands must be the same in all threads of a group.
    pub(crate) fn same(self, group: Cohort, operands: Vec<Operand>) -> Self {
        Row {
            same: Some((group, operands)),
            ..self
        }
    }

    /// What it defines and uses.
    pub(crate) fn uses(&self) -> Uses {
        let writes = self.slots.iter().flat_map(|slot| slot.arg.writes());
        Uses {
            defs: writes.copied().collect(),
            uses: self.sources().collect(),
            addresses: self.addresses().collect(),
        }
    }

    /// The operands that it reads, of which those that are a vector follow each other.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Operand> + '_ {
        self.slots.iter().flat_map(|slot| slot.arg.sources())
    }

    /// The addresses that it names.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        use Arg::{Address, Beside, Guard, Implied, Lanes, Read, ReadReg, TensorMap, Write};
        self.slots.iter().filter_map(|slot| match slot.arg {
            Address(address) | TensorMap(address) => Some(address),
            Write(_) | Beside(_) | Read(_) | ReadReg(_) | Guard(_) | Lanes(_) | Implied(_) => None,
        })
    }
}

impl<'a> Arg<'a> {
    /// The registers that are written.
    pub(crate) fn writes(self) -> &'a [Reg] {
        use Arg::{Address, Beside, Guard, Implied, Lanes, Read, ReadReg, TensorMap, Write};
        match self {
            Write(regs) | Beside(regs) => regs,
            Read(_) | ReadReg(_) | Guard(_) | Lanes(_) | Implied(_) | Address(_) | TensorMap(_) => {
                &[]
            }
        }
    }

    /// The operands that are read.
    pub(crate) fn sources(self) -> impl Iterator<Item = Operand> + 'a {
        let (operands, regs, guard) = self.read();
        let regs = regs.iter().map(Operand::from);
        let guard = guard.map(|guard| Operand::Reg(guard.pred));
        operands.iter().copied().chain(regs).chain(guard)
    }

    /// Visits the operands that are read.
    pub(crate) fn each_source(self, mut visit: impl FnMut(Operand)) {
        let (operands, regs, guard) = self.read();
        operands.iter().for_each(|operand| visit(*operand));
        regs.iter().for_each(|reg| visit(Operand::Reg(*reg)));
        if let Some(guard) = guard {
            visit(Operand::Reg(guard.pred));
        }
    }

    /// The operands, the registers and the predicate that are read; at most one of the three is there.
    fn read(self) -> (&'a [Operand], &'a [Reg], Option<Guard>) {
        match self {
            Arg::Read(operands) | Arg::Implied(operands) => (operands, &[], None),
            Arg::Lanes(mask) => (std::slice::from_ref(mask), &[], None),
            Arg::ReadReg(regs) => (&[], regs, None),
            Arg::Guard(guard) => (&[], &[], Some(guard)),
            Arg::Write(_) | Arg::Beside(_) | Arg::Address(_) | Arg::TensorMap(_) => {
                (&[], &[], None)
            }
        }
    }
}

/// The definitions and uses of one instruction: registers, constants and addresses. Its guard and the blocks inside it
/// are not among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uses {
    /// The registers that the instruction writes.
    pub defs: Vec<Reg>,
    /// The operands that the instruction reads: registers, predicates, constants and special registers.
    pub uses: Vec<Operand>,
    /// The addresses that the instruction accesses or takes.
    pub addresses: Vec<Address>,
}

impl Uses {
    /// Returns every register that the instruction reads: those among its operands, then the bases of its addresses.
    pub fn reads(&self) -> impl Iterator<Item = Reg> + '_ {
        let sources = self.uses.iter().filter_map(|operand| operand.reg());
        let bases = self.addresses.iter().filter_map(|a| a.base.reg());
        sources.chain(bases)
    }
}

/// An operand of an instruction, and the type in which the instruction reads or writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperandUse {
    /// The operand.
    pub operand: Operand,
    /// Its type; `None` where the row of an atom decides.
    pub ty: Option<Type>,
    /// Whether the instruction writes it.
    pub is_written: bool,
}

impl Stmt {
    /// Returns every register that the statement reads, the guard's first.
    pub fn reads(&self) -> Vec<Reg> {
        let guard = self.guard.map(|guard| guard.pred);
        guard.into_iter().chain(self.op.uses().reads()).collect()
    }
}

impl Op {
    /// Returns what the instruction defines and uses.
    ///
    /// ```
    /// use colex_ir::{KernelBuilder, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// let x = k.mov(Type::U32, Special::LaneId);
    /// let y = k.add(Type::U32, x, 1);
    /// let uses = k.finish().body[1].op.uses();
    /// assert_eq!((uses.defs, uses.uses), (vec![y], vec![x.into(), 1.into()]));
    /// ```
    pub fn uses(&self) -> Uses {
        self.row().uses()
    }

    /// Returns the operands of the instruction with their types, in the order of PTX.
    ///
    /// ```
    /// use colex_ir::{KernelBuilder, OperandUse, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// let x = k.mov(Type::U32, Special::LaneId);
    /// let y = k.add(Type::S32, x, 1);
    /// let use_of = |operand, is_written| OperandUse { operand, ty: Some(Type::S32), is_written };
    /// assert_eq!(
    ///     k.finish().body[1].op.operands(),
    ///     [use_of(y.into(), true), use_of(x.into(), false), use_of(1.into(), false)]
    /// );
    /// ```
    pub fn operands(&self) -> Vec<OperandUse> {
        let row = self.row();
        let uses = row.slots.iter().flat_map(|slot| {
            let of = |is_written| {
                move |operand| OperandUse {
                    operand,
                    ty: slot.ty,
                    is_written,
                }
            };
            let writes = slot.arg.writes().iter().map(Operand::from).map(of(true));
            writes.chain(slot.arg.sources().map(of(false)))
        });
        uses.collect()
    }

    /// Returns the mnemonic of the instruction: its opcode and types, as in PTX.
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// # let x = k.mov(Type::U32, 1);
    /// k.mul_wide(Type::U32, x, 4);
    /// k.sync();
    /// let mnemonics: Vec<String> = k.finish().body.iter().map(|stmt| stmt.op.mnemonic()).collect();
    /// assert_eq!(mnemonics, ["mov", "mul.wide.u32", "barrier.sync"]);
    /// ```
    pub fn mnemonic(&self) -> String {
        self.row().mnemonic.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_its_parts() {
        let long = "x".repeat(Word::SHORT);
        for parts in [
            &[][..],
            &["add", ".", "f32"],
            &[&long],
            &[&long, "y"],
            &["y", &long],
            &["µ", "s"],
        ] {
            let word = Word::of(parts);
            assert_eq!(word.as_str(), parts.concat());
            let is_short = parts.concat().len() <= Word::SHORT && parts.concat().is_ascii();
            assert_eq!(matches!(word, Word::Short(..)), is_short, "{word:?}");
        }
    }
}
