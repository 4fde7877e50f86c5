//! The matrix and copy instructions, by the text of their rows.

use colex_atom::{CopyAtom, CopyOperands, MmaOperands};

use super::names::{Lines, registers};
use crate::{Address, Atom, Base, CopyArgs, End, Operand, ParamId, RegType, ScaleD, Type};

impl Lines<'_> {
    /// Writes the instruction of an atom.
    pub(super) fn atom(&mut self, op: &Atom) -> Result<(), colex_atom::Error> {
        let text = match op {
            Atom::Mma {
                atom,
                d,
                a,
                b,
                c,
                e,
                scale_d,
            } => {
                let [d, a, b, c, e] = [d, a, b, c, e].map(|regs| registers(regs));
                let scale_d = match scale_d {
                    ScaleD::Zero => "0".to_string(),
                    ScaleD::One => "1".to_string(),
                    ScaleD::Pred(p) => p.to_string(),
                };
                atom.instruction(&MmaOperands {
                    d: &d,
                    a: &a,
                    b: &b,
                    c: &c,
                    e: &e,
                    scale_d: &scale_d,
                })?
            }
            Atom::Copy { atom, args } => {
                let mut names = self.copy_names(args);
                if args.policy.is_some() && is_cp_async(atom) {
                    names.dst = names.dst.iter().map(|at| self.opaque(at)).collect();
                }
                atom.instruction(&names.borrowed())?
            }
        };
        text.lines().for_each(|line| self.push(line));
        Ok(())
    }

    fn copy_names(&mut self, args: &CopyArgs) -> CopyNames {
        let mut text = |operand: Option<Operand>, ty| {
            operand.map_or(String::new(), |operand| self.operand(operand, ty))
        };
        let size = text(args.size, Type::U32);
        let source_bytes = text(args.source_bytes, Type::U32);
        let (tensor, coordinates) = match &args.tensor {
            None => (String::new(), Vec::new()),
            Some((map, coordinates)) => {
                let coordinates = coordinates
                    .iter()
                    .map(|operand| self.operand(*operand, Type::S32))
                    .collect();
                (self.tensor_map(*map), coordinates)
            }
        };
        let register = |reg: Option<crate::Reg>| reg.map_or(String::new(), |reg| reg.to_string());
        CopyNames {
            dst: self.end(&args.dst),
            src: self.end(&args.src),
            tensor,
            coordinates,
            barrier: args.barrier.map_or(String::new(), |a| self.address(a)),
            offsets: registers(&args.offsets),
            mask: register(args.mask),
            size,
            source_bytes,
            policy: register(args.policy),
        }
    }

    fn end(&self, end: &End) -> Vec<String> {
        match end {
            End::Regs(regs) => registers(regs),
            End::Memory(address) => vec![self.address(*address)],
            End::None => Vec::new(),
        }
    }

    /// A shared address in a register of which ptxas cannot tell what it is the sum of.
    ///
    /// It would fold a sum with a constant address into a `cp.async` with a cache policy as `[R7+UR0], desc[UR1]`, and a
    /// constant address as `[UR4], desc[UR5]`, with a descriptor in an odd register: an illegal instruction on an H200
    /// (ptxas 12.9 and 13.0). A mask of one bit has at most 31 zeros in front, so the shift gives 0, which ptxas
    /// does not see.
    fn opaque(&mut self, address: &str) -> String {
        let [sum, zero] = [(); 2].map(|()| self.scratch(RegType::B32));
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        self.push(format!("mov.u32 {sum}, {base};"));
        if offset != "0" {
            self.push(format!("add.u32 {sum}, {sum}, {offset};"));
        }
        self.push(format!("mov.u32 {zero}, %lanemask_eq;"));
        self.push(format!("clz.b32 {zero}, {zero};"));
        self.push(format!("shr.u32 {zero}, {zero}, 5;"));
        self.push(format!("or.b32 {sum}, {sum}, {zero};"));
        sum
    }

    /// The generic address of a tensor map: that of a parameter is made in a scratch register.
    pub(super) fn tensor_map(&mut self, address: Address) -> String {
        match address.base {
            Base::Param(id) => self.tensor_map_parameter(id),
            Base::Reg(_) | Base::Shared(_) | Base::DynamicShared => self.address(address),
        }
    }

    fn tensor_map_parameter(&mut self, id: ParamId) -> String {
        let register = self.scratch(RegType::B64);
        let name = self.param_name(id);
        self.push(format!("mov.b64 {register}, {name};"));
        self.push(format!("cvta.param.u64 {register}, {register};"));
        register
    }
}

/// Whether each thread copies a few bytes to shared memory.
fn is_cp_async(atom: &CopyAtom) -> bool {
    let opcode = atom.op().map_or("", |op| op.ptx.as_str());
    opcode.starts_with("cp.async.c")
}

/// The names of a copy's operands.
struct CopyNames {
    dst: Vec<String>,
    src: Vec<String>,
    tensor: String,
    coordinates: Vec<String>,
    barrier: String,
    offsets: Vec<String>,
    mask: String,
    size: String,
    source_bytes: String,
    policy: String,
}

impl CopyNames {
    fn borrowed(&self) -> CopyOperands<'_> {
        CopyOperands {
            dst: &self.dst,
            src: &self.src,
            tensor: &self.tensor,
            coordinates: &self.coordinates,
            barrier: &self.barrier,
            offsets: &self.offsets,
            mask: &self.mask,
            size: &self.size,
            source_bytes: &self.source_bytes,
            policy: &self.policy,
        }
    }
}
