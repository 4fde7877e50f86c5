//! The operands of an instruction that copies.

/// An operand of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// The destination: registers or an address.
    Dst,
    /// The source: registers or an address.
    Src,
    /// A tensor map and the coordinates of a box in it, innermost first.
    Tensor,
    /// The address of the mbarrier that counts the bytes.
    Barrier,
    /// `im2col` only: the offsets of a pixel in the filter window.
    Offsets,
    /// The blocks of the cluster that get the data, one bit each.
    Mask,
    /// The number of bytes moved, a constant of the atom.
    Bytes,
    /// The number of bytes moved, a register or a constant; by default the atom's own.
    Size,
    /// The number of bytes read; the rest of the destination becomes zero.
    SourceBytes,
    /// A 64-bit cache policy, if the opcode says `.L2::cache_hint`.
    Policy,
}
