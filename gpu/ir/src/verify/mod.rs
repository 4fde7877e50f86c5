//! The verifier: it finds what the assembler or the hardware would refuse.
//!
//! Every finding names the call of the builder that made the instruction, and says what is wrong with it and what would
//! be right. A kernel that passes assembles without an error, keeps the rules of collective and asynchronous
//! instructions, and reads no register that was not written.

mod atoms;
mod collective;
mod declare;
mod definite_assignment;
mod diagnostic;
mod interval;
mod memory;
mod operands;
mod problem;
mod regset;
mod resources;

mod uniform;
mod wgmma;

pub use diagnostic::{Diagnostic, Refused};
pub use problem::Problem;
pub use resources::{BESIDE_WGMMA, LEAST, STEP, at_entry, registers_at_entry};

pub use crate::Cohort;
use crate::rows::{Known, Rows};
use crate::{Control, Kernel, Op, Row, Stmt};
use problem::Join;

impl Kernel {
    /// Checks the kernel.
    ///
    /// ```
    /// use colex_ir::{KernelBuilder, Special, Type};
    ///
    /// let mut k = KernelBuilder::new("wrong", colex_atom::Arch::Sm80);
    /// let lane = k.mov(Type::U32, Special::LaneId);
    /// let line = line!() + 1;
    /// k.add(Type::F32, lane, 1);
    /// let refused = k.finish().verify().unwrap_err();
    /// assert_eq!(refused.diagnostics()[0].at.line(), line);
    /// assert_eq!(
    ///     refused.diagnostics()[0].problem.to_string(),
    ///     "`add.f32` cannot take the constant 1: write 1.0"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`Refused`] with all findings: those about declarations first, then those about instructions in
    /// program order.
    pub fn verify(&self) -> Result<(), Refused> {
        self.verify_rows(&Rows::of(self))
    }

    /// Checks the kernel, whose rows are known.
    pub(crate) fn verify_rows(&self, rows: &Rows<'_>) -> Result<(), Refused> {
        let mut all = declare::check(self);
        block(self, rows, &self.body, 0, &mut all);
        // Registers of another kernel have no place in this one's control flow.
        let is_foreign = |found: &mut Diagnostic| matches!(found.problem.join(), Join::Foreign);
        if !all.iter_mut().any(is_foreign) {
            all.extend(definite_assignment::check(&self.body, rows));
            all.extend(collective::check(self, rows));
            all.extend(wgmma::check(&self.body, rows));
            all.extend(resources::check(self, rows));
        }
        if all.is_empty() {
            Ok(())
        } else {
            Err(Refused::new(self, all))
        }
    }
}

/// Where findings about one instruction go.
struct Findings<'a> {
    stmt: &'a Stmt,
    all: &'a mut Vec<Diagnostic>,
}

impl Findings<'_> {
    fn mnemonic(&self) -> String {
        self.stmt.op.mnemonic()
    }

    fn add(&mut self, problem: Problem) {
        let at = self.stmt.at;
        self.all.push(Diagnostic { at, problem });
    }

    fn range(&mut self, found: i64, takes: &'static str) {
        let mnemonic = self.mnemonic();
        self.add(Problem::Range {
            mnemonic,
            found,
            takes,
        });
    }
}

fn block(kernel: &Kernel, rows: &Rows<'_>, body: &[Stmt], loops: u32, all: &mut Vec<Diagnostic>) {
    use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
    for known in rows.block(body) {
        let stmt = known.stmt;
        let mut found = Findings { stmt, all };
        instruction(kernel, known, loops, &mut found);
        let inside = match stmt.op.control() {
            Some(Loop { .. }) => loops + 1,
            Some(If { .. } | Break | Continue | Exit | Trap | Comment(_)) | None => loops,
        };
        for inner in stmt.op.blocks() {
            block(kernel, rows, inner, inside, all);
        }
    }
}

/// Whether it goes to an end of the loop around it.
fn leaves_loop(op: &Op) -> bool {
    use Control::{Break, Comment, Continue, Exit, If, Loop, Trap};
    match op.control() {
        Some(Break | Continue) => true,
        Some(If { .. } | Loop { .. } | Exit | Trap | Comment(_)) | None => false,
    }
}

fn instruction(kernel: &Kernel, known: Known<'_>, loops: u32, found: &mut Findings<'_>) {
    let Known { stmt, row, .. } = known;
    let op = &stmt.op;
    for reg in known.reads.iter().chain(known.defs) {
        operands::known(kernel, *reg, found);
    }
    if let Some(guard) = stmt.guard {
        operands::guard(guard, found);
    }
    if let Err(takes) = &row.form {
        let (mnemonic, takes) = (row.mnemonic.to_string(), takes.clone());
        return found.add(Problem::Form { mnemonic, takes });
    }
    target(kernel, row, found);
    operands::check(row, found);
    memory::check(kernel, op, found);
    atoms::check(kernel, op, found);
    declare::numbers(kernel, op, found);
    whole_groups(kernel, row, found);
    if leaves_loop(op) && loops == 0 {
        let mnemonic = op.mnemonic();
        found.add(Problem::NoLoop { mnemonic });
    }
}

fn target(kernel: &Kernel, row: &Row<'_>, found: &mut Findings<'_>) {
    let needs = row.needs_for(kernel.target).arch;
    if !needs.runs_on(kernel.target) {
        found.add(Problem::Target {
            mnemonic: row.mnemonic.to_string(),
            needs,
            target: kernel.target,
        });
    }
}

/// Warps and warpgroups are whole if the block's size is a multiple of theirs.
fn whole_groups(kernel: &Kernel, row: &Row<'_>, found: &mut Findings<'_>) {
    let (Some(block), true) = (kernel.block, row.whole) else {
        return;
    };
    let threads = block.iter().fold(1u32, |all, &n| all.saturating_mul(n));
    let group = match row.cohort {
        Some(Cohort::Warp) => 32,
        Some(Cohort::Warpgroup | Cohort::Block) => 128,
        None => return,
    };
    if threads % group != 0 {
        found.add(Problem::WholeGroups {
            mnemonic: row.mnemonic.to_string(),
            threads,
            group,
        });
    }
}
