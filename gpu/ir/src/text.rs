//! A kernel as text to read.

use std::fmt::{self, Write as _};

use super::escaped::Escaped;
use super::kernel::{Kernel, ParamType};
use super::op::{Atom, Control, End, Op, ScaleD};
use super::operand::{Address, Base, Operand, Reg};
use super::row::Arg;
use super::stmt::{Guard, Stmt};

/// Blocks are indented by four columns; parameters and shared variables have their names.
///
/// ```
/// use colex_ir::{Access, Compare, KernelBuilder, Space, Special, Type};
///
/// let mut k = KernelBuilder::new("first", colex_atom::Arch::Sm80);
/// let out = k.pointer("out");
/// let base = k.param(out);
/// let lane = k.mov(Type::U32, Special::LaneId);
/// let is_first = k.setp(Compare::Eq, Type::U32, lane, 0);
/// k.if_(is_first, |k| k.store(Access::new(Space::Global, Type::U32), base, lane));
/// assert_eq!(k.finish().to_string(), "\
/// kernel first for sm_80
///     param out: pointer, align 16
/// {
///     %rd0 = ld.param.u64 [out]
///     %r0 = mov %laneid
///     %p0 = setp.eq.u32 %r0, 0
///     if %p0 {
///         st.global.u32 [%rd0], %r0
///     }
/// }
/// ");
/// ```
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {} for {}", Escaped(&self.name), self.target)?;
        for param in &self.params {
            write!(f, "    param {}: ", Escaped(&param.name))?;
            match param.ty {
                ParamType::Scalar(ty) => writeln!(f, "{ty}")?,
                ParamType::Pointer { align } => writeln!(f, "pointer, align {align}")?,
                ParamType::TensorMap => writeln!(f, "tensor map")?,
            }
        }
        for var in &self.shared {
            let (name, bytes, align) = (Escaped(&var.name), var.bytes, var.align);
            writeln!(f, "    shared {name}: {bytes} bytes, align {align}")?;
        }
        if let Some(align) = self.dynamic_shared {
            writeln!(f, "    dynamic shared, align {align}")?;
        }
        self.limits(f)?;
        writeln!(f, "{{")?;
        block(f, self, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

impl Kernel {
    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents = [("block", self.block), ("cluster", self.cluster)];
        for (what, extents) in extents {
            if let Some([x, y, z]) = extents {
                writeln!(f, "    {what} {x} x {y} x {z}")?;
            }
        }
        if let Some(blocks) = self.min_blocks {
            writeln!(f, "    at least {blocks} blocks on a multiprocessor")?;
        }
        if let Some(registers) = self.max_registers {
            writeln!(f, "    at most {registers} registers per thread")?;
        }
        Ok(())
    }
}

fn block(f: &mut fmt::Formatter<'_>, kernel: &Kernel, body: &[Stmt], depth: usize) -> fmt::Result {
    let indent = "    ".repeat(depth);
    for stmt in body {
        match stmt.op.control() {
            Some(Control::If { p, then, other }) => {
                writeln!(f, "{indent}{}if {} {{", guarded(stmt.guard), guard(*p))?;
                block(f, kernel, then, depth + 1)?;
                if !other.is_empty() {
                    writeln!(f, "{indent}}} else {{")?;
                    block(f, kernel, other, depth + 1)?;
                }
                writeln!(f, "{indent}}}")?;
            }
            Some(Control::Loop { body }) => {
                writeln!(f, "{indent}{}loop {{", guarded(stmt.guard))?;
                block(f, kernel, body, depth + 1)?;
                writeln!(f, "{indent}}}")?;
            }
            Some(Control::Comment(text)) => {
                for line in text.lines() {
                    writeln!(f, "{indent}// {}", Escaped(line))?;
                }
            }
            Some(Control::Break | Control::Continue | Control::Exit | Control::Trap) | None => {
                let text = instruction(kernel, &stmt.op);
                writeln!(f, "{indent}{}{text}", guarded(stmt.guard))?;
            }
        }
    }
    Ok(())
}

fn guarded(guarded_by: Option<Guard>) -> String {
    guarded_by.map_or(String::new(), |predicate| format!("@{} ", guard(predicate)))
}

fn guard(guard: Guard) -> String {
    format!("{}{}", if guard.when { "" } else { "!" }, guard.pred)
}

/// Returns the text of one instruction: what it writes, its mnemonic, what it reads.
pub fn instruction(kernel: &Kernel, op: &Op) -> String {
    let names = Names(kernel);
    match op.atom() {
        Some(Atom::Mma {
            d,
            a,
            b,
            c,
            e,
            scale_d,
            ..
        }) => {
            let [d, a, b, c] = [d, a, b, c].map(|regs| list(regs));
            let plus = match (c.is_empty(), scale_d) {
                (false, _) => format!(" + {c}"),
                (true, ScaleD::Zero) => String::new(),
                (true, ScaleD::One) => format!(" + {d}"),
                (true, ScaleD::Pred(p)) => format!(" + {d} if {p}"),
            };
            let sparse = if e.is_empty() {
                String::new()
            } else {
                format!(", metadata {}", list(e))
            };
            format!("{d} = {} {a} * {b}{plus}{sparse}", op.mnemonic())
        }
        Some(Atom::Copy { args, .. }) => names.copy(op, args),
        None => names.plain(op),
    }
}

struct Names<'a>(&'a Kernel);

impl Names<'_> {
    fn plain(&self, op: &Op) -> String {
        let row = op.row();
        let mut text = String::new();
        let writes = row.slots.iter().flat_map(|slot| slot.arg.writes());
        let writes: Vec<String> = writes.map(Reg::to_string).collect();
        if !writes.is_empty() {
            write!(text, "{} = ", writes.join(", ")).expect("writing to a string");
        }
        text += row.mnemonic.as_str();
        let addresses = row.addresses().map(|a| self.address(a));
        let sources = row.slots.iter().flat_map(|slot| sources(slot.arg));
        let words: Vec<String> = addresses.chain(sources).collect();
        if !words.is_empty() {
            text += &format!(" {}", words.join(", "));
        }
        text
    }

    fn address(&self, address: Address) -> String {
        let base = match address.base {
            Base::Reg(reg) => reg.to_string(),
            Base::Shared(id) => (self.0.shared.get(id.index()))
                .map_or_else(|| "?".to_string(), |var| Escaped(&var.name).to_string()),
            Base::DynamicShared => "dynamic".to_string(),
            Base::Param(id) => (self.0.params.get(id.index()))
                .map_or_else(|| "?".to_string(), |param| Escaped(&param.name).to_string()),
        };
        match address.offset {
            0 => format!("[{base}]"),
            offset => format!("[{base}{offset:+}]"),
        }
    }

    fn end(&self, end: &End) -> Option<String> {
        match end {
            End::Regs(regs) => Some(list(regs)),
            End::Memory(address) => Some(self.address(*address)),
            End::None => None,
        }
    }

    fn copy(&self, op: &Op, args: &super::op::CopyArgs) -> String {
        let map = args.tensor.as_ref().map(|(map, coordinates)| {
            let coordinates: Vec<String> = coordinates.iter().map(operand).collect();
            format!("{} at ({})", self.address(*map), coordinates.join(", "))
        });
        let (dst, src) = (self.end(&args.dst), self.end(&args.src));
        let ends: Vec<String> = match (dst, src, map) {
            (None, src, Some(map)) => [Some(map), src].into_iter().flatten().collect(),
            (dst, src, map) => [dst, src, map].into_iter().flatten().collect(),
        };
        let mut text = format!("{} {}", op.mnemonic(), ends.join(" <- "));
        let extras = [
            ("barrier", args.barrier.map(|a| self.address(a))),
            (
                "offsets",
                (!args.offsets.is_empty()).then(|| list(&args.offsets)),
            ),
            ("blocks", args.mask.map(|reg| reg.to_string())),
            ("bytes", args.size.as_ref().map(operand)),
            ("read", args.source_bytes.as_ref().map(operand)),
            ("policy", args.policy.map(|reg| reg.to_string())),
        ];
        for (what, value) in extras {
            if let Some(value) = value {
                text += &format!(", {what} {value}");
            }
        }
        text
    }
}

fn sources(arg: Arg<'_>) -> Vec<String> {
    use Arg::{Address, Beside, Guard, Implied, Lanes, Read, ReadReg, TensorMap, Write};
    match arg {
        Guard(of) => vec![guard(of)],
        Write(_) | Beside(_) | Read(_) | ReadReg(_) | Lanes(_) | Implied(_) | Address(_)
        | TensorMap(_) => arg.sources().map(|of| operand(&of)).collect(),
    }
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Reg(reg) => reg.to_string(),
        Operand::Int(value) => value.to_string(),
        Operand::Float(value) => format!("{value:?}"),
        Operand::Special(special) => special.to_string(),
    }
}

/// `{%f0..%f3}` where their numbers follow each other, else every name.
fn list(regs: &[Reg]) -> String {
    let follow = regs
        .windows(2)
        .all(|pair| pair[0].ty == pair[1].ty && pair[0].index.wrapping_add(1) == pair[1].index);
    match regs {
        [] => String::new(),
        [one] => one.to_string(),
        [first, .., last] if follow => format!("{{{first}..{last}}}"),
        _ => {
            let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
            format!("{{{}}}", names.join(", "))
        }
    }
}
