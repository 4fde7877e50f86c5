//! Copy instructions: the dispatch of the rows.

use colex_atom::{Argument, CopyAtom, CopyForm, OperandKind, Space as From};

use crate::machine::exec::{Exec, Flow};
use crate::report::fault::{Fault, FaultKind};
use colex_ir::{Access, CopyArgs, End, Operand, RegType, Space, Type};

impl Exec<'_, '_, '_> {
    /// One copy.
    pub(crate) fn copy(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        mask: u32,
    ) -> Result<Flow, Fault> {
        use Argument::{
            Barrier, Bytes, Dst, Mask, Offsets, Policy, Size, SourceBytes, Src, Tensor,
        };
        let op = atom.op();
        let op = op.map_err(|error| self.fault_warp(FaultKind::Operand, error.to_string()))?;
        let bytes = atom.bits_per_thread() / 8;
        for operand in &op.operands {
            let end = match operand.argument {
                Dst => &args.dst,
                Src => &args.src,
                Tensor | Barrier | Offsets | Mask | Bytes | Size | SourceBytes | Policy => continue,
            };
            if let (OperandKind::Registers(wanted), End::Regs(found)) = (operand.kind, end)
                && wanted.count != found.len()
            {
                let what = format!(
                    "operand {:?} has {} registers, and the row wants {}",
                    operand.argument,
                    found.len(),
                    wanted.count
                );
                return Err(self.fault_warp(FaultKind::Operand, what));
            }
        }
        match atom.row().form {
            CopyForm::Universal => self.universal(atom, args, mask)?,
            CopyForm::Shuffle(bit) => self.trade(bit as usize, args, mask)?,
            _ if op.ptx.starts_with("ldmatrix") => self.load_matrix(atom, args, mask)?,
            _ if op.ptx.starts_with("stmatrix") => self.store_matrix(atom, args, mask)?,
            _ if op.ptx.starts_with("movmatrix") => self.move_matrix(atom, args, mask)?,
            _ if op.ptx.contains(".prefetch") => {}
            _ if op.ptx.contains(".bulk") => return self.bulk(atom, args, mask),
            _ if op.ptx.starts_with("cp.async") => return self.cp_async(args, bytes, mask),
            CopyForm::Instruction(_) | CopyForm::LayoutOnly => {
                return Err(self.unsupported(format_args!("`{}`", op.ptx)));
            }
        }
        Ok(Flow::Next)
    }

    /// `ld`, `st` or `mov`.
    fn universal(&mut self, atom: &CopyAtom, args: &CopyArgs, mask: u32) -> Result<(), Fault> {
        let access = |space: From, count: usize| {
            let space = match space {
                From::Shared => Space::Shared,
                From::Cluster => Space::Cluster,
                From::Register | From::Global | From::L2 | From::Tensor => Space::Global,
            };
            let ty = match atom.bits_per_thread() / count.max(1) {
                8 => Type::B8,
                16 => Type::B16,
                32 => Type::B32,
                _ => Type::B64,
            };
            Access::new(space, ty)
        };
        match (&args.dst, &args.src) {
            (End::Regs(d), End::Regs(s)) => {
                for (d, s) in d.iter().zip(s) {
                    let values = *self.reg(*s, mask)?;
                    self.set(*d, mask, &values)?;
                }
                Ok(())
            }
            (End::Regs(d), End::Memory(a)) => self.load(&access(atom.from(), d.len()), d, a, mask),
            (End::Memory(a), End::Regs(s)) => {
                let sources: Vec<Operand> = s.iter().map(Operand::from).collect();
                self.store(&access(atom.to(), s.len()), a, &sources, mask)
            }
            _ => Err(self.fault_warp(FaultKind::Operand, "one end of `ld` and `st` is registers")),
        }
    }

    /// Each lane whose bit is set gives its first register for its partner's second.
    fn trade(&mut self, bit: usize, args: &CopyArgs, mask: u32) -> Result<(), Fault> {
        self.collective(mask)?;
        let (End::Regs(d), End::Regs(s)) = (&args.dst, &args.src) else {
            return Err(self.fault_warp(FaultKind::Operand, "both ends are registers"));
        };
        let ([d0, d1], [s0, s1]) = (&d[..], &s[..]) else {
            return Err(self.fault_warp(FaultKind::Operand, "two registers at each end"));
        };
        let (x, y) = (*self.reg(*s0, mask)?, *self.reg(*s1, mask)?);
        // The upper lane trades its first register for the lower lane's second.
        let upper = |lane: usize| lane & bit != 0;
        let first = core::array::from_fn(|lane| if upper(lane) { y[lane ^ bit] } else { x[lane] });
        let second = core::array::from_fn(|lane| if upper(lane) { y[lane] } else { x[lane ^ bit] });
        self.set(*d0, mask, &first)?;
        self.set(*d1, mask, &second)
    }

    /// The kind of registers that hold 32 bits.
    pub(crate) fn words_only(&self, regs: &[colex_ir::Reg]) -> Result<(), Fault> {
        match regs.iter().find(|reg| reg.ty != RegType::B32) {
            None => Ok(()),
            Some(reg) => Err(self.fault_warp(
                FaultKind::Operand,
                format!("register {reg} is not one of 32 untyped bits"),
            )),
        }
    }
}
