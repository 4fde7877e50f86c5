//! Lines that a kernel prints, and texts of PTX that the host computes.

use crate::lane::bits::lanes;
use crate::machine::exec::{Exec, low};
use crate::report::Printed;
use crate::report::fault::{Fault, FaultKind};
use crate::report::show::general;
use colex_ir::{Operand, PrintedValue, PtxText, Reg, Type};

impl Exec<'_, '_, '_> {
    /// `vprintf`
    pub(crate) fn print(
        &mut self,
        values: &[PrintedValue],
        end: &str,
        mask: u32,
    ) -> Result<(), Fault> {
        let operands = values
            .iter()
            .map(|value| self.value(value.a, value.ty, mask));
        let bits = operands.collect::<Result<Vec<_>, Fault>>()?;
        let Some(stmt) = self.m.program.stmts[self.w.pc] else {
            return Ok(());
        };
        for lane in lanes(mask) {
            let written = values.iter().zip(&bits);
            let written =
                written.map(|(value, bits)| value.before.clone() + &text(value, bits[lane]));
            let line = Printed {
                block: self.g.blocks[self.w.block].ctaid,
                thread: self.m.thread(self.w.first + lane as u32),
                at: stmt.at,
                text: written.collect::<String>() + end,
            };
            self.m.printed.push(line);
        }
        Ok(())
    }

    /// A text of PTX, as far as the host knows what it computes.
    pub(crate) fn foreign(
        &mut self,
        text: &PtxText,
        d: &[(Type, Reg)],
        a: &[(Type, Operand)],
        mask: u32,
    ) -> Result<(), Fault> {
        let inputs = a.iter().map(|(ty, a)| self.value(*a, *ty, mask));
        let inputs = inputs.collect::<Result<Vec<_>, Fault>>()?;
        let mut outputs = vec![[0; 32]; d.len()];
        for lane in lanes(mask) {
            let given: Vec<u64> = inputs.iter().map(|values| values[lane]).collect();
            let Some(computed) = text.simulate(&given) else {
                let what = "this kernel has PTX text; only a GPU runs it, unless `PtxText::on_host` says what it computes";
                return Err(self.fault_warp(FaultKind::Unsupported, what));
            };
            if computed.len() != d.len() {
                let what = format!(
                    "the function of `PtxText::on_host` returns {} values, and the text has {} outputs",
                    computed.len(),
                    d.len()
                );
                return Err(self.fault(FaultKind::Operand, lane, what));
            }
            for (output, value) in outputs.iter_mut().zip(computed) {
                output[lane] = value;
            }
        }
        for ((ty, d), mut values) in d.iter().zip(outputs) {
            values.iter_mut().for_each(|value| *value &= low(ty.bits()));
            self.set(*d, mask, &values)?;
        }
        Ok(())
    }
}

/// A printed value, as C's `printf` writes it.
fn text(value: &PrintedValue, bits: u64) -> String {
    match (value.ty, value.ty.bits()) {
        (Type::F64, _) => general(f64::from_bits(bits), value.digits),
        (ty, 64) if ty.is_signed() => (bits as i64).to_string(),
        (ty, _) if ty.is_signed() => (bits as i32).to_string(),
        (_, _) => bits.to_string(),
    }
}
