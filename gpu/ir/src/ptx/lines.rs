//! The text of an instruction, by its row.

use colex_atom::Arch;

use super::names::{Lines, predicate, registers, vector};
use crate::{Address, Arg, Base, Operand, ParamType, Reg, RegType, Slot, Type};

impl Lines<'_> {
    /// Writes an instruction of one line: its opcode, its operands in order, and a number after them.
    pub(super) fn line(&mut self, opcode: &str, slots: &[Slot<'_>], last: Option<String>) {
        let mut names: Vec<String> = Vec::new();
        for slot in slots {
            match slot.arg {
                Arg::Write(regs) | Arg::ReadReg(regs) => names.push(vector(&registers(regs))),
                Arg::Beside(regs) => {
                    let before = names.pop().unwrap_or_else(|| "_".to_string());
                    let beside = regs.iter().map(|reg| format!("|{reg}"));
                    names.push(before + &beside.collect::<String>());
                }
                Arg::Read(operands) => {
                    let ty = slot.ty.unwrap_or(Type::B32);
                    let all = operands.iter().map(|operand| self.operand(*operand, ty));
                    let all: Vec<String> = all.collect();
                    names.push(vector(&all));
                }
                Arg::Guard(guard) => names.push(predicate(guard)),
                Arg::Lanes(mask) => {
                    let mask = self.mask(*mask);
                    names.push(mask);
                }
                Arg::Address(a) => names.push(format!("[{}]", self.address(a))),
                Arg::TensorMap(a) => {
                    let map = self.tensor_map(a);
                    names.push(format!("[{map}]"));
                }
                Arg::Implied(_) => {}
            }
        }
        names.extend(last);
        let space = if names.is_empty() { "" } else { " " };
        self.push(format!("{opcode}{space}{};", names.join(", ")));
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
