//! The rows of a kernel's instructions: each is made once, and read by all walks over the kernel and by its text.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::{Guard, Kernel, Operand, Reg, Row, Stmt};

/// A hasher of registers and addresses, a multiplication for each number: no caller chooses them to collide, and the walks
/// look them up all the time.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        // The product's high bits depend on all bits of the number, and a table takes the low ones.
        self.0.rotate_left(26)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map by registers, by their numbers or by addresses.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The rows of the instructions, block by block.
#[derive(Debug)]
pub(crate) struct Rows<'k> {
    all: Vec<KnownRow<'k>>,
    /// What the instructions write and read, one after the other.
    regs: Vec<Reg>,
    /// The first row of each block that is not empty, by the address of its first statement, which stays where it is
    /// while the kernel is borrowed.
    blocks: NumberMap<*const Stmt, usize>,
    numbers: RegNumbers,
    /// How many registers have a number.
    count: usize,
}

/// A row, and where the registers that the instruction writes and then those that it reads begin and end.
#[derive(Debug)]
struct KnownRow<'k> {
    row: Row<'k>,
    regs: [usize; 3],
}

/// A statement of the kernel, and what is known of its instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'r> {
    pub(crate) stmt: &'r Stmt,
    pub(crate) row: &'r Row<'r>,
    /// The registers that the instruction writes.
    pub(crate) defs: &'r [Reg],
    /// The registers that the statement reads, the guard's first.
    pub(crate) reads: &'r [Reg],
}

/// The numbers of the registers, from 0.
#[derive(Debug)]
enum RegNumbers {
    /// Class by class: the number of the first one of each.
    Dense([usize; 6]),
    /// In the order of their first appearance: of most that the kernel declares, it uses none.
    Sparse(NumberMap<Reg, usize>),
}

impl<'k> Rows<'k> {
    pub(crate) fn of(kernel: &'k Kernel) -> Rows<'k> {
        let mut rows = Rows {
            all: Vec::new(),
            regs: Vec::new(),
            blocks: NumberMap::default(),
            numbers: RegNumbers::Dense([0; 6]),
            count: 0,
        };
        rows.add(&kernel.body);
        rows.number(kernel);
        rows
    }

    fn add(&mut self, body: &'k [Stmt]) {
        if let Some(first) = body.first() {
            self.blocks.insert(&raw const *first, self.all.len());
        }
        self.all.reserve(body.len());
        for stmt in body {
            let row = stmt.op.row();
            let start = self.regs.len();
            for slot in &row.slots {
                self.regs.extend(slot.arg.writes());
            }
            let middle = self.regs.len();
            self.regs.extend(stmt.guard.map(|Guard { pred, .. }| pred));
            for slot in &row.slots {
                slot.arg.each_source(|operand| {
                    if let Operand::Reg(reg) = operand {
                        self.regs.push(reg);
                    }
                });
            }
            let bases = row.addresses().filter_map(|address| address.base.reg());
            self.regs.extend(bases);
            let regs = [start, middle, self.regs.len()];
            self.all.push(KnownRow { row, regs });
        }
        for stmt in body {
            for inner in stmt.op.blocks() {
                self.add(inner);
            }
        }
    }

    /// Numbers the registers: no set or table of them is much larger than the kernel.
    fn number(&mut self, kernel: &Kernel) {
        let mut count = 0usize;
        let first = kernel.registers.map(|registers| {
            let first = count;
            count = count.saturating_add(registers as usize);
            first
        });
        self.numbers = if count <= 1024 + 4 * self.regs.len() {
            RegNumbers::Dense(first)
        } else {
            let mut known = NumberMap::default();
            for reg in &self.regs {
                let next = known.len();
                known.entry(*reg).or_insert(next);
            }
            count = known.len();
            RegNumbers::Sparse(known)
        };
        self.count = count;
    }

    /// Returns how many registers have a number.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of a register that an instruction names. That of a register of another kernel says nothing.
    pub(crate) fn number_of(&self, reg: Reg) -> usize {
        match &self.numbers {
            RegNumbers::Dense(first) => first[reg.ty as usize] + reg.index as usize,
            RegNumbers::Sparse(known) => known.get(&reg).copied().unwrap_or(usize::MAX),
        }
    }

    /// Returns the statements of a block of the kernel, or of the beginning of one, in order.
    pub(crate) fn block<'r>(&'r self, body: &'r [Stmt]) -> impl Iterator<Item = Known<'r>> + 'r {
        let first = body.first().map_or(0, |first| {
            let known = self.blocks.get(&(&raw const *first));
            *known.expect("every block of the kernel has its rows")
        });
        body.iter().zip(&self.all[first..]).map(|(stmt, known)| {
            let [start, middle, end] = known.regs;
            Known {
                stmt,
                row: &known.row,
                defs: &self.regs[start..middle],
                reads: &self.regs[middle..end],
            }
        })
    }

    /// Returns the rows of all instructions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Row<'k>> {
        self.all.iter().map(|known| &known.row)
    }
}
