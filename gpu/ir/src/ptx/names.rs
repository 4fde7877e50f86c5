//! The text of operands.

use crate::{Address, Base, Guard, Kernel, Operand, ParamId, Reg, RegType, Type};

/// The lines of one instruction: those that fill scratch registers come first.
pub(super) struct Lines<'a> {
    pub(super) kernel: &'a Kernel,
    /// The lines that are finished.
    written: Written,
    /// The line that is being written.
    pub(super) line: String,
    scratch: [u32; 6],
}

/// Lines one after the other in one buffer.
#[derive(Default)]
pub(super) struct Written {
    text: String,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Written {
    pub(super) fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.ends.push(self.text.len());
    }

    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.text[*start..*end])
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

impl<'a> Lines<'a> {
    pub(super) fn new(kernel: &'a Kernel) -> Self {
        Lines {
            kernel,
            written: Written::default(),
            line: String::new(),
            scratch: [0; 6],
        }
    }

    /// Begins the lines of another instruction.
    pub(super) fn clear(&mut self) {
        self.written.clear();
        self.line.clear();
        self.scratch = [0; 6];
    }

    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    pub(super) fn push(&mut self, line: impl AsRef<str>) {
        self.written.push(line.as_ref());
    }

    /// Finishes the line that is being written.
    pub(super) fn finish(&mut self) {
        self.written.push(&self.line);
        self.line.clear();
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
        let before = std::mem::take(&mut self.line);
        self.add_operand(operand, ty);
        std::mem::replace(&mut self.line, before)
    }

    /// Adds an operand to the line.
    pub(super) fn add_operand(&mut self, operand: Operand, ty: Type) {
        match operand {
            Operand::Reg(reg) => add_register(&mut self.line, reg),
            Operand::Int(value) => add_integer(&mut self.line, value),
            Operand::Float(value) => match ty.constant(value) {
                Operand::Int(bits) => {
                    let class = ty.register();
                    let name = self.scratch(class);
                    self.push(format!("mov.{class} {name}, {bits:#x};"));
                    self.line.push_str(&name);
                }
                Operand::Reg(_) | Operand::Float(_) | Operand::Special(_) => {
                    add_float(&mut self.line, value, ty);
                }
            },
            Operand::Special(special) => {
                let class = special.register();
                let name = self.scratch(class);
                self.push(format!("mov.u{} {name}, {special};", class.bits()));
                self.line.push_str(&name);
            }
        }
    }

    /// An address without its brackets.
    pub(super) fn address(&self, address: Address) -> String {
        let mut text = String::new();
        add_address(&mut text, self.kernel, address);
        text
    }

    /// Adds an address in brackets to the line.
    pub(super) fn add_address(&mut self, address: Address) {
        self.line.push('[');
        add_address(&mut self.line, self.kernel, address);
        self.line.push(']');
    }

    pub(super) fn param_name(&self, id: ParamId) -> String {
        let mut text = String::new();
        let param = Base::Param(id);
        add_address(
            &mut text,
            self.kernel,
            Address {
                base: param,
                offset: 0,
            },
        );
        text
    }
}

fn add_address(text: &mut String, kernel: &Kernel, Address { base, offset }: Address) {
    let name = match base {
        Base::Reg(reg) => {
            add_register(text, reg);
            None
        }
        Base::Shared(id) => {
            let var = kernel.shared.get(id.index());
            Some(var.map_or("?", |var| var.name.as_str()))
        }
        Base::DynamicShared => Some(DYNAMIC),
        Base::Param(id) => {
            let param = kernel.params.get(id.index());
            Some(param.map_or("?", |param| param.name.as_str()))
        }
    };
    if let Some(name) = name {
        text.push_str(&kernel.name);
        text.push('_');
        text.push_str(name);
    }
    if offset != 0 {
        text.push('+');
        add_integer(text, offset);
    }
}

/// What dynamic shared memory is called after the kernel's name.
const DYNAMIC: &str = "dynamic_shared";

/// A parameter's or variable's name in the module.
pub(super) fn scoped(kernel: &Kernel, name: &str) -> String {
    format!("{}_{name}", kernel.name)
}

/// The name of dynamic shared memory.
pub(super) fn dynamic_name(kernel: &Kernel) -> String {
    scoped(kernel, DYNAMIC)
}

/// Adds `%p0` or `!%p0`.
pub(super) fn add_predicate(text: &mut String, guard: Guard) {
    if !guard.when {
        text.push('!');
    }
    add_register(text, guard.pred);
}

/// Adds names in braces, separated by commas, and a single one as it is.
pub(super) fn add_vector<T>(
    lines: &mut Lines<'_>,
    all: &[T],
    mut add: impl FnMut(&mut Lines<'_>, &T),
) {
    if let [one] = all {
        return add(lines, one);
    }
    lines.line.push('{');
    for (number, one) in all.iter().enumerate() {
        if number > 0 {
            lines.line.push_str(", ");
        }
        add(lines, one);
    }
    lines.line.push('}');
}

/// The names of registers.
pub(super) fn registers(regs: &[Reg]) -> Vec<String> {
    let name = |reg: &Reg| {
        let mut text = String::new();
        add_register(&mut text, *reg);
        text
    };
    regs.iter().map(name).collect()
}

/// Adds the name of a register.
pub(super) fn add_register(text: &mut String, reg: Reg) {
    text.push('%');
    text.push_str(reg.ty.prefix());
    add_number(text, reg.index.into());
}

fn add_integer(text: &mut String, value: i64) {
    if value < 0 {
        text.push('-');
    }
    add_number(text, value.unsigned_abs());
}

fn add_number(text: &mut String, number: u64) {
    let (mut digits, mut left) = ([0; 20], number);
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().map(|digit| char::from(*digit)));
}

/// Adds a constant of `f32` (`0f3F800000`) or `f64` (`0d3FF0000000000000`), bit for bit.
fn add_float(text: &mut String, value: f64, ty: Type) {
    let (mark, bits, digits) = if ty == Type::F64 {
        ("0d", value.to_bits(), 16)
    } else {
        ("0f", u64::from((value as f32).to_bits()), 8)
    };
    text.push_str(mark);
    let digit = |at: u32| char::from(b"0123456789ABCDEF"[(bits >> (4 * at) & 15) as usize]);
    text.extend((0..digits).rev().map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers have the text that the standard library gives them.
    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        let ends = [0, 1, 9, 10, 99, 100, 4095, 1 << 32, i64::MAX];
        for value in ends.iter().flat_map(|&n| [n, -n, !n]) {
            let mut text = String::new();
            add_integer(&mut text, value);
            assert_eq!(text, value.to_string());
        }
        for value in [
            0.0,
            -0.0,
            1.0,
            -1.5,
            1e-40,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ] {
            let (mut single, mut double) = (String::new(), String::new());
            add_float(&mut single, value, Type::F32);
            add_float(&mut double, value, Type::F64);
            assert_eq!(single, format!("0f{:08X}", (value as f32).to_bits()));
            assert_eq!(double, format!("0d{:016X}", value.to_bits()));
        }
    }
}
