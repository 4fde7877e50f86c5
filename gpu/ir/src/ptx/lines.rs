//! The text of an instruction, by its row.

use colex_atom::Arch;

use super::names::{Lines, add_predicate, add_register, add_vector};
use crate::{Address, Arg, Base, Operand, ParamType, Reg, RegType, Slot, Type};

impl Lines<'_> {
    /// Writes an instruction of one line: its opcode, its operands in order, and a number after them.
    pub(super) fn line(&mut self, opcode: &str, slots: &[Slot<'_>], last: Option<&str>) {
        self.line.push_str(opcode);
        let mut before = " ";
        for slot in slots {
            match slot.arg {
                Arg::Implied(_) => continue,
                Arg::Beside(regs) => {
                    if before == " " {
                        self.line.push_str(" _");
                    }
                    for reg in regs {
                        self.line.push('|');
                        add_register(&mut self.line, *reg);
                    }
                    before = ", ";
                    continue;
                }
                Arg::Write(_)
                | Arg::Read(_)
                | Arg::ReadReg(_)
                | Arg::Guard(_)
                | Arg::Lanes(_)
                | Arg::Address(_)
                | Arg::TensorMap(_) => self.line.push_str(before),
            }
            before = ", ";
            self.argument(slot);
        }
        if let Some(last) = last {
            self.line.push_str(before);
            self.line.push_str(last);
        }
        self.line.push(';');
        self.finish();
    }

    /// Adds an operand with a place of its own.
    fn argument(&mut self, slot: &Slot<'_>) {
        match slot.arg {
            Arg::Write(regs) | Arg::ReadReg(regs) => {
                add_vector(self, regs, |lines, reg| add_register(&mut lines.line, *reg));
            }
            Arg::Read(operands) => {
                let ty = slot.ty.unwrap_or(Type::B32);
                add_vector(self, operands, |lines, operand| {
                    lines.add_operand(*operand, ty);
                });
            }
            Arg::Guard(guard) => add_predicate(&mut self.line, guard),
            Arg::Lanes(mask) => {
                let mask = self.mask(*mask);
                self.line.push_str(&mask);
            }
            Arg::Address(a) => self.add_address(a),
            Arg::TensorMap(a) => {
                let map = self.tensor_map(a);
                self.line.push('[');
                self.line.push_str(&map);
                self.line.push(']');
            }
            Arg::Implied(_) | Arg::Beside(_) => {}
        }
    }

    /// `mov`, whose opcode follows from its source.
    pub(super) fn mov(&mut self, d: Reg, a: Operand) {
        let line = match a {
            Operand::Special(special) => {
                format!("mov.u{} {d}, {special};", special.register().bits())
            }
            Operand::Reg(a) if a.ty == d.ty => format!("mov.{} {d}, {a};", d.ty),
            Operand::Float(_) => {
                let ty = if d.ty == RegType::F64 {
                    Type::F64
                } else {
                    Type::F32
                };
                format!("mov.{} {d}, {};", d.ty, self.operand(a, ty))
            }
            Operand::Reg(_) | Operand::Int(_) => {
                let modifier = if d.ty == RegType::Pred {
                    "pred".to_string()
                } else {
                    format!("b{}", d.ty.bits())
                };
                format!("mov.{modifier} {d}, {};", self.operand(a, Type::B32))
            }
        };
        self.push(line);
    }

    /// A 32-bit register gets an address in its space, a 64-bit register a generic one.
    pub(super) fn address_of(&mut self, d: Reg, a: Address) {
        let text = self.address(a);
        match a.base {
            Base::Reg(base) => {
                self.push(format!("add.s{} {d}, {base}, {};", d.ty.bits(), a.offset));
            }
            Base::Param(id) => {
                let map = self.kernel.params.get(id.index());
                self.push(format!("mov.b64 {d}, {text};"));
                if map.is_some_and(|param| param.ty == ParamType::TensorMap) {
                    self.push(format!("cvta.param.u64 {d}, {d};"));
                }
            }
            Base::Shared(_) | Base::DynamicShared if d.ty.bits() == 64 => {
                self.push(format!("mov.b64 {d}, {text};"));
                self.push(format!("cvta.shared.u64 {d}, {d};"));
            }
            Base::Shared(_) | Base::DynamicShared => self.push(format!("mov.b32 {d}, {text};")),
        }
    }

    /// A set of lanes.
    fn mask(&mut self, mask: Operand) -> String {
        match mask {
            Operand::Int(mask) if (0..=0xffff_ffff).contains(&mask) => format!("{mask:#010x}"),
            Operand::Int(_) | Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => {
                self.operand(mask, Type::B32)
            }
        }
    }

    /// `mbarrier.try_wait` in a loop; before Hopper, `test_wait`.
    pub(super) fn mbarrier_wait(&mut self, a: Address, parity: Operand, label: &str) {
        let modifier = if self.kernel.target < Arch::Sm90 {
            "test_wait"
        } else {
            "try_wait"
        };
        let parity = self.operand(parity, Type::U32);
        let (a, p) = (self.address(a), self.scratch(RegType::Pred));
        self.push(format!("{label}:"));
        self.push(format!(
            "mbarrier.{modifier}.parity.shared.b64 {p}, [{a}], {parity};"
        ));
        self.push(format!("@!{p} bra {label};"));
    }
}
