//! The operands of matrix and copy instructions, as their rows have them.

use colex_atom::{Argument, CopyAtom, MmaAtom, OperandKind, Registers};

use super::problem::Problem;
use super::{Findings, memory};
use crate::{Atom, CopyArgs, End, Kernel, Op, Operand, Reg, RegType, ScaleD, Space};

/// Checks counts and classes.
pub(super) fn check(kernel: &Kernel, op: &Op, found: &mut Findings<'_>) {
    match op.atom() {
        Some(Atom::Mma {
            atom,
            d,
            a,
            b,
            c,
            e,
            scale_d,
        }) => {
            mma(atom, [d, a, b, c, e], found);
            scale(atom, *scale_d, found);
        }
        Some(Atom::Copy { atom, args }) => copy(kernel, atom, args, found),
        None => {}
    }
}

fn mma(atom: &MmaAtom, operands: [&Vec<Reg>; 5], found: &mut Findings<'_>) {
    let op = match atom.op() {
        Ok(op) => op,
        Err(error) => return found.add(Problem::Atom(error.to_string())),
    };
    let c = (!op.is_async()).then_some(op.c);
    let wanted = [Some(op.d), Some(op.a), Some(op.b), c, op.e];
    for ((name, regs), wanted) in "DABCE".chars().zip(operands).zip(wanted) {
        registers(&format!("operand {name}"), regs, wanted, found);
    }
}

/// Whether the registers are as many and of the class that the row has.
fn registers(what: &str, regs: &[Reg], wanted: Option<Registers>, found: &mut Findings<'_>) {
    let (count, class) = wanted.map_or((0, RegType::B32), |wanted| (wanted.count, wanted.class));
    if regs.len() != count {
        let wants = wanted.map_or("none".to_string(), |wanted| wanted.to_string());
        let text = format!(
            "`{}` has {} registers as {what}: it takes {wants}",
            found.mnemonic(),
            regs.len()
        );
        return found.add(Problem::Atom(text));
    }
    let holds = |reg: &&Reg| !matches(reg.ty, class);
    if let Some(reg) = regs.iter().find(holds) {
        let text = format!(
            "`{}` takes {}-bit registers of class {} as {what}, and {reg} is of class {}",
            found.mnemonic(),
            class.bits(),
            class.ptx(),
            reg.ty
        );
        found.add(Problem::Atom(text));
    }
}

/// PTX reads single precision from untyped registers too.
fn matches(class: RegType, wanted: RegType) -> bool {
    match wanted {
        RegType::F32 => matches!(class, RegType::F32 | RegType::B32),
        RegType::F64 => matches!(class, RegType::F64 | RegType::B64),
        RegType::Pred | RegType::B16 | RegType::B32 | RegType::B64 => class == wanted,
    }
}

fn scale(atom: &MmaAtom, scale_d: ScaleD, found: &mut Findings<'_>) {
    match scale_d {
        ScaleD::Pred(p) if p.ty != RegType::Pred => found.add(Problem::Class {
            mnemonic: found.mnemonic(),
            role: "scale of D",
            reg: p,
            takes: "a register of class pred".into(),
        }),
        ScaleD::Zero | ScaleD::Pred(_) if !atom.b_in_shared() => found.add(Problem::Modifier {
            mnemonic: found.mnemonic(),
            right: "only wgmma can leave out what D holds: give C registers of zeros",
        }),
        ScaleD::Zero | ScaleD::One | ScaleD::Pred(_) => {}
    }
}

fn copy(kernel: &Kernel, atom: &CopyAtom, args: &CopyArgs, found: &mut Findings<'_>) {
    let op = match atom.op() {
        Ok(op) => op,
        Err(error) => return found.add(Problem::Atom(error.to_string())),
    };
    let kind = |argument| {
        let operand = op
            .operands
            .iter()
            .find(|operand| operand.argument == argument);
        operand.map(|operand| operand.kind)
    };
    end(kernel, "destination", &args.dst, kind(Argument::Dst), found);
    end(kernel, "source", &args.src, kind(Argument::Src), found);
    let barrier = args.barrier.map_or(End::None, End::Memory);
    end(kernel, "barrier", &barrier, kind(Argument::Barrier), found);
    let offsets = listed(&args.offsets);
    end(kernel, "offsets", &offsets, kind(Argument::Offsets), found);
    let mask: Vec<Reg> = args.mask.into_iter().collect();
    end(kernel, "mask", &listed(&mask), kind(Argument::Mask), found);
    tensor(kernel, args, kind(Argument::Tensor), found);
    numbers(args, op.ptx_hinted.is_some(), kind, found);
}

fn listed(regs: &[Reg]) -> End {
    match regs {
        [] => End::None,
        regs => End::Regs(regs.to_vec()),
    }
}

fn end(
    kernel: &Kernel,
    what: &'static str,
    end: &End,
    kind: Option<OperandKind>,
    found: &mut Findings<'_>,
) {
    match (kind, end) {
        (None, End::None) => {}
        (Some(OperandKind::Registers(wanted)), End::Regs(regs)) => {
            registers(what, regs, Some(wanted), found);
        }
        (Some(OperandKind::Address { space, align }), End::Memory(address)) => {
            let space = match space {
                colex_atom::Space::Shared => Space::Shared,
                colex_atom::Space::Cluster => Space::Cluster,
                colex_atom::Space::Register
                | colex_atom::Space::Global
                | colex_atom::Space::L2
                | colex_atom::Space::Tensor => Space::Global,
            };
            memory::reach(kernel, space, *address, align, found);
        }
        (kind, _) => {
            let wants = kind.map_or("none".to_string(), described);
            let text = format!("`{}` takes as its {what}: {wants}", found.mnemonic());
            found.add(Problem::Atom(text));
        }
    }
}

fn described(kind: OperandKind) -> String {
    match kind {
        OperandKind::Registers(registers) => registers.to_string(),
        OperandKind::Address { space, align } => {
            format!("an address in {space}, aligned to {align} bytes")
        }
        OperandKind::Tensor { coordinates } => {
            format!("a tensor map and {coordinates} coordinates")
        }
        OperandKind::Constant(value) => format!("the constant {value}"),
    }
}

fn tensor(kernel: &Kernel, args: &CopyArgs, kind: Option<OperandKind>, found: &mut Findings<'_>) {
    let rank = match kind {
        Some(OperandKind::Tensor { coordinates }) => Some(coordinates),
        _ => None,
    };
    let given = args
        .tensor
        .as_ref()
        .map(|(_, coordinates)| coordinates.len());
    if rank != given {
        let say = |n: Option<usize>| {
            n.map_or("no tensor map".into(), |n| {
                format!("a tensor map with {n} coordinates")
            })
        };
        let text = format!(
            "`{}` has {}: it takes {}",
            found.mnemonic(),
            say(given),
            say(rank)
        );
        return found.add(Problem::Atom(text));
    }
    if let Some((map, coordinates)) = &args.tensor {
        memory::tensor_map(kernel, *map, found);
        coordinates
            .iter()
            .for_each(|operand| number(operand, found));
    }
}

/// What may stand in place of a number, and a policy.
fn numbers(
    args: &CopyArgs,
    hinted: bool,
    kind: impl Fn(Argument) -> Option<OperandKind>,
    found: &mut Findings<'_>,
) {
    let given = [
        (
            "size",
            args.size.is_some(),
            kind(Argument::Size).is_some(),
            false,
        ),
        (
            "source bytes",
            args.source_bytes.is_some(),
            kind(Argument::SourceBytes).is_some(),
            true,
        ),
        ("cache policy", args.policy.is_some(), hinted, false),
    ];
    for (what, given, has, must) in given {
        if (given && !has) || (must && has && !given) {
            let takes = if has { "takes a" } else { "takes no" };
            found.add(Problem::Atom(format!(
                "`{}` {takes} {what}",
                found.mnemonic()
            )));
        }
    }
    [&args.size, &args.source_bytes]
        .into_iter()
        .flatten()
        .for_each(|operand| number(operand, found));
    if let Some(reg) = args.policy.filter(|reg| reg.ty != RegType::B64) {
        found.add(Problem::Class {
            mnemonic: found.mnemonic(),
            role: "cache policy",
            reg,
            takes: "a register of class b64".into(),
        });
    }
}

fn number(operand: &Operand, found: &mut Findings<'_>) {
    match *operand {
        Operand::Reg(reg) if reg.ty != RegType::B32 => found.add(Problem::Class {
            mnemonic: found.mnemonic(),
            role: "number",
            reg,
            takes: "a register of class b32".into(),
        }),
        Operand::Float(_) => found.add(Problem::Constant {
            mnemonic: found.mnemonic(),
            value: *operand,
            right: "it takes whole numbers".into(),
        }),
        Operand::Int(n) if i32::try_from(n).is_err() => found.range(n, "32-bit numbers"),
        Operand::Reg(_) | Operand::Int(_) | Operand::Special(_) => {}
    }
}
