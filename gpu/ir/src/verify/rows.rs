//! The rows of a kernel's instructions: each is made once, and read by all walks over the kernel.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::row::Uses;
use crate::{Guard, Kernel, Op, Reg, Row, Stmt};

/// A hasher of registers and addresses, a multiplication for each number: no caller chooses them to collide, and the walks
/// look them up all the time.
#[derive(Debug, Default)]
pub(super) struct NumberHasher(u64);

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

/// A map by registers or addresses.
pub(super) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A set of registers.
pub(super) type Regs = HashSet<Reg, BuildHasherDefault<NumberHasher>>;

/// The rows by the addresses of their instructions, which stay where they are while the kernel is borrowed.
#[derive(Debug)]
pub(super) struct Rows<'k>(NumberMap<*const Op, Known<'k>>);

/// What is known of an instruction.
#[derive(Debug)]
pub(super) struct Known<'k> {
    pub(super) row: Row<'k>,
    pub(super) uses: Uses,
}

impl<'k> Rows<'k> {
    pub(super) fn of(kernel: &'k Kernel) -> Rows<'k> {
        let mut rows = Rows(NumberMap::default());
        rows.add(&kernel.body);
        rows
    }

    fn add(&mut self, body: &'k [Stmt]) {
        for stmt in body {
            let row = stmt.op.row();
            let uses = row.uses();
            self.0.insert(&raw const stmt.op, Known { row, uses });
            stmt.op
                .blocks()
                .into_iter()
                .for_each(|inner| self.add(inner));
        }
    }

    /// Returns what is known of an instruction of the kernel.
    pub(super) fn get(&self, op: &Op) -> &Known<'k> {
        let known = self.0.get(&(&raw const *op));
        known.expect("every instruction of the kernel has its row")
    }

    /// Returns the registers that an instruction of the kernel writes.
    pub(super) fn defs(&self, op: &Op) -> &[Reg] {
        &self.get(op).uses.defs
    }

    /// Returns the registers that a statement of the kernel reads, the guard's first.
    pub(super) fn reads(&self, stmt: &Stmt) -> impl Iterator<Item = Reg> + '_ {
        let guard = stmt.guard.map(|Guard { pred, .. }| pred);
        guard.into_iter().chain(self.get(&stmt.op).uses.reads())
    }
}
