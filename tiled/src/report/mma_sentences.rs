//! The report of a tiled MMA in sentences.

use core::fmt;

use crate::access::traffic_sentences::sentence;
use crate::access::words::{are, number, verb};
use crate::report::mma::{MmaReport, OperandReport};

impl fmt::Display for MmaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        writeln!(
            f,
            "{} {} {} each, {} over a tile of {m} by {n} by {k}.",
            number(self.threads as usize, "thread"),
            verb(self.threads as usize, "issue"),
            number(self.instructions, "instruction"),
            self.atom
        )?;
        self.coverage(f)?;
        for operand in &self.operands {
            operand.held(f)?;
        }
        for operand in &self.operands {
            operand.memory(f)?;
        }
        Ok(())
    }
}

impl MmaReport {
    /// The sentence on the owners of C, and on redundant work.
    fn coverage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.missing, &self.repeated) {
            ((0, _), (0, _)) => writeln!(f, "Every element of C has one owner.")?,
            (missing, repeated) => {
                if let Some(first) = &missing.1 {
                    let have = if missing.0 == 1 { "has" } else { "have" };
                    let n = number(missing.0, "element");
                    writeln!(f, "{n} of C {have} no owner, {first} the first.")?;
                }
                if let Some((thread, coord)) = &repeated.1 {
                    let (n, are) = (number(repeated.0, "element"), are(repeated.0));
                    writeln!(
                        f,
                        "{n} of C {are} owned again, first {coord} by thread {thread}."
                    )?;
                }
            }
        }
        self.threads(f)?;
        let [needed, done] = self.work;
        if needed == done {
            Ok(())
        } else {
            writeln!(f, "Of {done} multiply-adds {needed} count.")
        }
    }

    /// Which threads own elements of C, hold none, or hold those of another thread.
    fn threads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sums > 1 {
            writeln!(
                f,
                "{} atoms along K have a C each: their sum is another step.",
                self.sums
            )?;
        }
        if let Some(first) = self.idle.first() {
            let (n, own) = (
                number(self.idle.len(), "thread"),
                verb(self.idle.len(), "own"),
            );
            writeln!(f, "{n} {own} nothing of C, thread {first} the first.")?;
        }
        if let Some(first) = self.repeating.first() {
            let others = match self.repeating.len() {
                1 => "1 thread is none of the MMA and repeats another".into(),
                n => format!("{n} threads are none of the MMA and repeat others"),
            };
            writeln!(f, "{others}, thread {first} the first.")?;
        }
        Ok(())
    }
}

impl OperandReport {
    /// Copies, registers, and what lies outside.
    fn held(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.operand.name();
        let (is_held, holder) = if self.by_descriptor {
            ("read", "atom")
        } else {
            ("held", "thread")
        };
        match (self.held, &self.uneven) {
            ([least, most], Some(first)) => write!(
                f,
                "{name}: an element is {is_held} by {least} to {most} {holder}s, {first} the first by another number of them"
            )?,
            ([_, most], None) => {
                write!(
                    f,
                    "{name}: each element is {is_held} by {}",
                    number(most, holder)
                )?;
            }
        }
        if self.by_descriptor {
            write!(f, " from shared memory by descriptor")?
        } else {
            write!(
                f,
                "; a thread gives an instruction {} of {}, {} bits, and needs {} for all",
                number(self.values, "value"),
                self.ty,
                self.bits,
                number(self.registers, "register")
            )?
        }
        writeln!(f, ".")?;
        if let Some((thread, coord)) = &self.outside.1 {
            let lie = verb(self.outside.0, "lie");
            let n = number(self.outside.0, "coordinate");
            writeln!(
                f,
                "{n} of {name} {lie} outside of the tensor, first {coord} by thread {thread}."
            )?;
        }
        Ok(())
    }

    /// Vectors, banks and sectors.
    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.operand.name();
        if let Some(widest) = self.widest {
            write!(
                f,
                "The widest legal vector of {name} is {}.",
                number(widest as usize, "value")
            )?;
            match &self.narrow {
                Some(narrow) => writeln!(f, " {narrow}")?,
                None => writeln!(f)?,
            }
        }
        match &self.traffic {
            Some(traffic) => sentence(f, &format!("{name}'s"), traffic),
            None => Ok(()),
        }
    }
}
