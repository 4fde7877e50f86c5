//! The text of one copy instruction.

use super::atom::CopyAtom;
use super::op::{CopyOp, OperandKind};
use super::row::{Argument, CopyForm};
use crate::Error;
use crate::error::CopyError;

/// The names that an instruction works on: what it does not have stays empty.
///
/// Addresses and scalars are registers or any text PTX takes in their place (`%r1+16`, a constant).
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOperands<'a> {
    /// The registers, or the one address, that the data goes to.
    pub dst: &'a [String],
    /// The registers, or the one address, that the data comes from.
    pub src: &'a [String],
    /// The address of the tensor map.
    pub tensor: &'a str,
    /// The coordinates of the box, innermost first.
    pub coordinates: &'a [String],
    /// The address of the mbarrier.
    pub barrier: &'a str,
    /// The offsets of an `im2col` pixel.
    pub offsets: &'a [String],
    /// The blocks that a multicast goes to.
    pub mask: &'a str,
    /// The bytes of a bulk copy; empty for the atom's own.
    pub size: &'a str,
    /// The bytes that a zero-filling copy reads.
    pub source_bytes: &'a str,
    /// A cache policy; empty for none.
    pub policy: &'a str,
}

impl CopyAtom {
    /// Returns the instruction as PTX text, in lines that end in `;`.
    ///
    /// A shuffle is several instructions and a few registers of its own, in braces.
    ///
    /// ```
    /// use colex_atom::{CopyOperands, copy};
    ///
    /// let [d, s, c] = [["%d0", "%d1"], ["%s0", ""], ["%x", "%y"]].map(|names| names.map(String::from));
    /// let text = copy("SM75_U32x2_LDSM_N")?.instruction(&CopyOperands { dst: &d, src: &s[..1], ..CopyOperands::default() })?;
    /// assert_eq!(text, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%d0, %d1}, [%s0];");
    ///
    /// let load = CopyOperands { dst: &d[..1], tensor: "%map", coordinates: &c, barrier: "%bar", policy: "%keep", ..CopyOperands::default() };
    /// assert_eq!(
    ///     copy("SM90_TMA_LOAD_2D")?.instruction(&load)?,
    ///     "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint \
    ///      [%d0], [%map, {%x, %y}], [%bar], %keep;"
    /// );
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for an atom that is a layout only, or if the number of names is not the operation's.
    pub fn instruction(&self, operands: &CopyOperands<'_>) -> Result<String, Error> {
        let op = self.op()?;
        self.check_counts(op, operands)?;
        Ok(match self.row().form {
            CopyForm::Shuffle(bit) => shuffle(bit, operands),
            CopyForm::Universal if op.ptx.starts_with("mov") => {
                let moves = operands
                    .dst
                    .iter()
                    .zip(operands.src)
                    .map(|(d, s)| format!("{} {d}, {s};", op.ptx));
                moves.collect::<Vec<_>>().join("\n")
            }
            _ => self.single(op, operands),
        })
    }

    fn single(&self, op: &CopyOp, operands: &CopyOperands<'_>) -> String {
        let hinted = op
            .ptx_hinted
            .as_ref()
            .filter(|_| !operands.policy.is_empty());
        let mut words: Vec<String> = op
            .operands
            .iter()
            .map(|operand| self.word(operand.argument, operand.kind, operands))
            .collect();
        if hinted.is_some() {
            words.push(operands.policy.to_string());
        }
        format!("{} {};", hinted.unwrap_or(&op.ptx), words.join(", "))
    }

    /// One operand, as it is written.
    fn word(&self, argument: Argument, kind: OperandKind, operands: &CopyOperands<'_>) -> String {
        let matrix = self.name().contains("_LDSM_") || self.name().contains("_STSM_");
        let list = |names: &[String]| match kind {
            OperandKind::Address { .. } => format!("[{}]", names[0]),
            _ if names.len() > 1 || matrix => format!("{{{}}}", names.join(", ")),
            _ => names[0].clone(),
        };
        match (argument, kind) {
            (Argument::Dst, _) => list(operands.dst),
            (Argument::Src, _) => list(operands.src),
            (Argument::Tensor, _) => format!(
                "[{}, {{{}}}]",
                operands.tensor,
                operands.coordinates.join(", ")
            ),
            (Argument::Barrier, _) => format!("[{}]", operands.barrier),
            (Argument::Offsets, _) => format!("{{{}}}", operands.offsets.join(", ")),
            (Argument::Mask, _) => operands.mask.to_string(),
            (_, OperandKind::Constant(value)) => value.to_string(),
            (Argument::SourceBytes, _) => operands.source_bytes.to_string(),
            (Argument::Policy, _) => operands.policy.to_string(),
            (Argument::Size | Argument::Bytes, _) if operands.size.is_empty() => {
                (self.bits_per_thread() / 8).to_string()
            }
            (Argument::Size | Argument::Bytes, _) => operands.size.to_string(),
        }
    }

    /// Every operand has as many names as it takes, and no name is left over.
    fn check_counts(&self, op: &CopyOp, operands: &CopyOperands<'_>) -> Result<(), Error> {
        let one = |text: &str| usize::from(!text.is_empty());
        let counts = [
            (Argument::Dst, operands.dst.len()),
            (Argument::Src, operands.src.len()),
            (
                Argument::Tensor,
                one(operands.tensor) + operands.coordinates.len(),
            ),
            (Argument::Barrier, one(operands.barrier)),
            (Argument::Offsets, operands.offsets.len()),
            (Argument::Mask, one(operands.mask)),
            (Argument::SourceBytes, one(operands.source_bytes)),
        ];
        for (argument, found) in counts {
            let expected = op
                .operands
                .iter()
                .find(|operand| operand.argument == argument)
                .map_or(0, |o| o.kind.names());
            if found != expected {
                return Err(CopyError::Operand {
                    name: self.name(),
                    argument,
                    expected,
                    found,
                }
                .into());
            }
        }
        let optional = [
            (
                Argument::Size,
                operands.size,
                op.operands
                    .iter()
                    .any(|operand| operand.argument == Argument::Size),
            ),
            (Argument::Policy, operands.policy, op.ptx_hinted.is_some()),
        ];
        match optional
            .into_iter()
            .find(|(_, text, has)| !text.is_empty() && !has)
        {
            Some((argument, ..)) => Err(CopyError::Operand {
                name: self.name(),
                argument,
                expected: 0,
                found: 1,
            }
            .into()),
            None => Ok(()),
        }
    }
}

impl OperandKind {
    /// How many names the operand takes in [`CopyOperands`].
    fn names(self) -> usize {
        match self {
            OperandKind::Registers(registers) => registers.count,
            OperandKind::Address { .. } => 1,
            OperandKind::Tensor { coordinates } => 1 + coordinates,
            OperandKind::Constant(_) => 0,
        }
    }
}

/// The thread whose bit is set gives its first register for its partner's second.
fn shuffle(bit: u32, operands: &CopyOperands<'_>) -> String {
    let ([d0, d1], [s0, s1]) = (
        [0, 1].map(|i| &operands.dst[i]),
        [0, 1].map(|i| &operands.src[i]),
    );
    format!(
        "{{\n.reg .pred %upper;\n.reg .b32 %mine, %traded, %kept;\n\
         mov.u32 %mine, %laneid;\nand.b32 %mine, %mine, {bit};\nsetp.ne.u32 %upper, %mine, 0;\n\
         selp.b32 %traded, {s0}, {s1}, %upper;\nselp.b32 %kept, {s1}, {s0}, %upper;\n\
         shfl.sync.bfly.b32 %traded, %traded, {bit}, 31, 0xffffffff;\n\
         selp.b32 {d0}, %traded, %kept, %upper;\nselp.b32 {d1}, %kept, %traded, %upper;\n}}"
    )
}
