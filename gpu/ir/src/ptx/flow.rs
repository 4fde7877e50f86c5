//! Structured control flow as labels and branches.

use std::panic::Location;

use super::foreign::Printed;
use super::names::{Lines, add_predicate};
use crate::rows::{Known, Rows};
use crate::verify::{Diagnostic, Problem, Refused};
use crate::{Control, Escaped, Guard, Kernel, Op, Ptx, Stmt};

/// The body of an entry, being written.
pub(super) struct Flow<'a> {
    kernel: &'a Kernel,
    rows: &'a Rows<'a>,
    /// The lines so far.
    pub(super) text: String,
    labels: u32,
    /// The labels of the loops that are open: where they begin and where they end.
    loops: Vec<(String, String)>,
    /// The largest number of scratch registers of each class in use at once.
    pub(super) scratch: [u32; 6],
    /// What printed lines need of the module.
    pub(super) printed: Printed,
    /// The buffers of an instruction's lines, for the next one.
    lines: Option<Lines<'a>>,
    /// The source lines that are marked so far, if they are.
    pub(super) marks: Option<SourceMarks>,
}

/// The files of marked lines, and the last mark.
#[derive(Default)]
pub(super) struct SourceMarks {
    pub(super) files: Vec<&'static str>,
    last: Option<&'static Location<'static>>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(kernel: &'a Kernel, rows: &'a Rows<'a>, marks: Option<SourceMarks>) -> Self {
        Flow {
            kernel,
            rows,
            text: String::new(),
            labels: 0,
            loops: Vec::new(),
            scratch: [0; 6],
            printed: Printed::default(),
            lines: None,
            marks,
        }
    }

    /// `.loc`, where the call of the builder is another one than that of the line before.
    fn locate(&mut self, at: &'static Location<'static>) {
        let Some(marks) = &mut self.marks else {
            return;
        };
        if marks.last.replace(at) == Some(at) {
            return;
        }
        let known = marks.files.iter().position(|file| *file == at.file());
        let file = known.unwrap_or_else(|| {
            marks.files.push(at.file());
            marks.files.len() - 1
        });
        let line = format!(".loc {} {} {}", file + 1, at.line(), at.column());
        self.line(None, &line);
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<(), Refused> {
        let rows = self.rows;
        rows.block(body).try_for_each(|known| self.stmt(known))
    }

    fn stmt(&mut self, Known { stmt, row, .. }: Known<'_>) -> Result<(), Refused> {
        self.locate(stmt.at);
        match &row.ptx {
            Ptx::Print { values, end } => self.plain(stmt, |lines, flow| {
                lines.print(values, end, &mut flow.printed);
                Ok(())
            }),
            Ptx::Text { text, d, a } => self.plain(stmt, |lines, _| {
                lines.foreign(text, d, a);
                Ok(())
            }),
            Ptx::Control(op) => self.control(op, stmt.guard),
            Ptx::Atom(op) => self.plain(stmt, |lines, _| lines.atom(op)),
            Ptx::Line { opcode, last } => self.plain(stmt, |lines, _| {
                lines.line(opcode.as_str(), &row.slots, last.as_deref());
                Ok(())
            }),
            Ptx::Mov { d, a } => self.plain(stmt, |lines, _| {
                lines.mov(*d, *a);
                Ok(())
            }),
            Ptx::AddressOf { d, a } => self.plain(stmt, |lines, _| {
                lines.address_of(*d, *a);
                Ok(())
            }),
            Ptx::Wait { a, parity } => self.plain(stmt, |lines, flow| {
                lines.mbarrier_wait(*a, *parity, &flow.label("wait"));
                Ok(())
            }),
        }
    }

    fn control(&mut self, op: &Control, guard: Option<Guard>) -> Result<(), Refused> {
        match op {
            Control::If { p, then, other } => {
                return self.skipping(guard, |flow| flow.branch(*p, then, other));
            }
            Control::Loop { body } => return self.skipping(guard, |flow| flow.repeat(body)),
            Control::Break => self.jump(guard, |(_, end)| end),
            Control::Continue => self.jump(guard, |(begin, _)| begin),
            Control::Exit => self.line(guard, "exit;"),
            Control::Trap => self.line(guard, "trap;"),
            Control::Comment(text) => {
                text.lines()
                    .for_each(|line| self.line(None, &format!("// {}", Escaped(line))));
            }
        }
        Ok(())
    }

    /// One instruction: predicated if it is one line, else branched around.
    fn plain(
        &mut self,
        stmt: &Stmt,
        write: impl FnOnce(&mut Lines<'_>, &mut Self) -> Result<(), colex_atom::Error>,
    ) -> Result<(), Refused> {
        let kernel = self.kernel;
        let mut lines = (self.lines.take()).unwrap_or_else(|| Lines::new(kernel));
        lines.clear();
        write(&mut lines, self).map_err(|error| {
            Refused::new(
                self.kernel,
                vec![Diagnostic {
                    at: stmt.at,
                    problem: Problem::Atom(error.to_string()),
                }],
            )
        })?;
        let counts = lines.scratch_counts();
        for (most, used) in self.scratch.iter_mut().zip(counts) {
            *most = (*most).max(used);
        }
        let written = lines.written();
        if written.count() == 1 {
            written.lines().for_each(|line| self.line(stmt.guard, line));
        } else {
            self.skipping(stmt.guard, |flow| {
                written.lines().for_each(|line| flow.line(None, line));
                Ok(())
            })?;
        }
        self.lines = Some(lines);
        Ok(())
    }

    /// `inner` where the guard holds.
    fn skipping(
        &mut self,
        guard: Option<Guard>,
        inner: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let Some(guard) = guard else {
            return inner(self);
        };
        let end = self.label("skip");
        self.line(Some(guard.negated()), &format!("bra {end};"));
        inner(self)?;
        self.mark(&end);
        Ok(())
    }

    fn branch(&mut self, p: Guard, then: &[Stmt], other: &[Stmt]) -> Result<(), Refused> {
        let end = self.label("end");
        if other.is_empty() {
            self.line(Some(p.negated()), &format!("bra {end};"));
            self.block(then)?;
        } else {
            let otherwise = end.replace("end", "else");
            self.line(Some(p.negated()), &format!("bra {otherwise};"));
            self.block(then)?;
            if !then.last().is_some_and(leaves) {
                self.line(None, &format!("bra {end};"));
            }
            self.mark(&otherwise);
            self.block(other)?;
        }
        self.mark(&end);
        Ok(())
    }

    fn repeat(&mut self, body: &[Stmt]) -> Result<(), Refused> {
        let begin = self.label("loop");
        let end = begin.replace("loop", "done");
        self.mark(&begin);
        self.loops.push((begin.clone(), end.clone()));
        match body.split_last() {
            // A test at the end is one branch, not two.
            Some((last, before))
                if last.op == Op::Control(Control::Break) && last.guard.is_some() =>
            {
                self.block(before)?;
                self.line(last.guard.map(Guard::negated), &format!("bra {begin};"));
            }
            _ => {
                self.block(body)?;
                if !body.last().is_some_and(leaves) {
                    self.line(None, &format!("bra {begin};"));
                }
            }
        }
        self.loops.pop();
        self.mark(&end);
        Ok(())
    }

    /// Goes to one of the innermost loop's two labels.
    fn jump(&mut self, guard: Option<Guard>, to: impl FnOnce((String, String)) -> String) {
        if let Some(labels) = self.loops.last().cloned() {
            self.line(guard, &format!("bra {};", to(labels)));
        }
    }

    /// A label of its own: `$loop3`.
    fn label(&mut self, word: &str) -> String {
        self.labels += 1;
        format!("${word}{}", self.labels - 1)
    }

    fn mark(&mut self, label: &str) {
        self.text.push_str(label);
        self.text.push_str(":\n");
    }

    fn line(&mut self, guard: Option<Guard>, line: &str) {
        if line.ends_with(':') {
            return self.mark(line.trim_end_matches(':'));
        }
        self.text.push_str("    ");
        if let Some(guard) = guard {
            self.text.push('@');
            add_predicate(&mut self.text, guard);
            self.text.push(' ');
        }
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Whether nothing after it is executed.
fn leaves(stmt: &Stmt) -> bool {
    let goes = match stmt.op.control() {
        Some(Control::Break | Control::Continue | Control::Exit) => true,
        Some(Control::Trap | Control::If { .. } | Control::Loop { .. } | Control::Comment(_))
        | None => false,
    };
    goes && stmt.guard.is_none()
}
