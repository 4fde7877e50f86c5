//! The text of operands.

use crate::{Address, Base, Guard, Kernel, Operand, ParamId, Reg, RegType, SharedId, Type};

/// The lines of one instruction: those that fill scratch registers come first.
pub(super) struct Lines<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) lines: Vec<String>,
    scratch: [u32; 6],
}

impl<'a> Lines<'a> {
    pub(super) fn new(kernel: &'a Kernel) -> Self {
        Lines {
            kernel,
            lines: Vec::new(),
            scratch: [0; 6],
        }
    }

    pub(super) fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// A register of the printer's own, free again after this instruction.
    pub(super) fn scratch(&mut self, ty: RegType) -> String {
        let count = &mut self.scratch[ty as usize];
        *count += 1;
        format!("%x{}{}", ty.prefix(), *count - 1)
    }

    /// The number of scratch registers of each class that the instruction takes.
    pub(super) fn scratch_counts(&self) -> [u32; 6] {
        self.scratch
    }

    /// An operand of an instruction of that type. What PTX allows in `mov` alone goes through a scratch register.
    pub(super) fn operand(&mut self, operand: Operand, ty: Type) -> String {
        match operand {
            Operand::Reg(reg) => reg.to_string(),
            Operand::Int(value) => value.to_string(),
            Operand::Float(value) => match ty.constant(value) {
                Operand::Int(bits) => {
                    let class = ty.register();
                    let name = self.scratch(class);
                    self.push(format!("mov.{class} {name}, {bits:#x};"));
                    name
                }
                Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => float(value, ty),
            },
            Operand::Special(special) => {
                let class = special.register();
                let name = self.scratch(class);
                self.push(format!("mov.u{} {name}, {special};", class.bits()));
                name
            }
        }
    }

    /// An address without its brackets.
    pub(super) fn address(&self, address: Address) -> String {
        let base = match address.base {
            Base::Reg(reg) => reg.to_string(),
            Base::Shared(id) => self.shared_name(id),
            Base::DynamicShared => dynamic_name(self.kernel),
            Base::Param(id) => self.param_name(id),
        };
        match address.offset {
            0 => base,
            offset => format!("{base}+{offset}"),
        }
    }

    pub(super) fn shared_name(&self, id: SharedId) -> String {
        let var = self.kernel.shared.get(id.index());
        scoped(self.kernel, var.map_or("?", |var| var.name.as_str()))
    }

    pub(super) fn param_name(&self, id: ParamId) -> String {
        let param = self.kernel.params.get(id.index());
        scoped(self.kernel, param.map_or("?", |param| param.name.as_str()))
    }
}

/// A parameter's or variable's name in the module.
pub(super) fn scoped(kernel: &Kernel, name: &str) -> String {
    format!("{}_{name}", kernel.name)
}

/// The name of dynamic shared memory.
pub(super) fn dynamic_name(kernel: &Kernel) -> String {
    scoped(kernel, "dynamic_shared")
}

/// `%p0` or `!%p0`.
pub(super) fn predicate(guard: Guard) -> String {
    format!("{}{}", if guard.when { "" } else { "!" }, guard.pred)
}

/// `{%r0, %r1}`, and a single name without braces.
pub(super) fn vector(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

/// The names of registers.
pub(super) fn registers(regs: &[Reg]) -> Vec<String> {
    regs.iter().map(Reg::to_string).collect()
}

/// A constant of `f32` (`0f3F800000`) or `f64` (`0d3FF0000000000000`), bit for bit.
pub(super) fn float(value: f64, ty: Type) -> String {
    if ty == Type::F64 {
        format!("0d{:016X}", value.to_bits())
    } else {
        format!("0f{:08X}", (value as f32).to_bits())
    }
}
