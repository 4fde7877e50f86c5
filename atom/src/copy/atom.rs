//! `CopyAtom`: an operation and what it means.

use core::str::FromStr;

use super::member::CopyMember;
use super::names;
use super::op::CopyOp;
use super::reduction::{Reduction, Scalar};
use super::row::{Argument, CopyForm, CopyRow, Defect, Side, Sizes};
use super::traits::{CopyTraits, ValLayouts};
use crate::error::{CopyError, ErrorKind};
use crate::machine::{Arch, Space};
use crate::{Error, tv};

/// The most bytes that one phase of an mbarrier counts (PTX ISA 9.7.13.15, the range of the tx-count).
pub const MAX_TRANSACTION_BYTES: i64 = (1 << 20) - 1;

/// A copy instruction with everything known about it.
///
/// ```
/// use colex_atom::{Space, copy};
///
/// let atom = copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>")?;
/// assert_eq!(atom.op()?.ptx, "cp.async.cg.shared.global.L2::128B");
/// assert_eq!((atom.from(), atom.to()), (Space::Global, Space::Shared));
/// assert_eq!(atom.bits_per_thread(), 128);
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[doc(alias = "Copy_Atom")]
#[derive(Clone, Debug)]
pub struct CopyAtom {
    pub(super) member: CopyMember,
    spaces: [Space; 2],
    op: Option<CopyOp>,
    traits: CopyTraits,
}

impl CopyAtom {
    pub(super) fn new(member: CopyMember) -> Self {
        CopyAtom::between_spaces(member, [member.row.from, member.row.to])
    }

    fn between_spaces(member: CopyMember, spaces: [Space; 2]) -> Self {
        let traits = CopyTraits::new(&member);
        let bits = [&traits.src, &traits.dst].map(|layout| tv::values(layout) as i64);
        CopyAtom {
            member,
            spaces,
            op: CopyOp::new(&member, spaces, bits),
            traits,
        }
    }

    /// Returns the name: CuTe's where it has one, and `<bits>` where any multiple would do and it is not the smallest.
    pub fn name(&self) -> String {
        self.member.name()
    }

    /// Returns the row of the table that the atom belongs to.
    pub fn row(&self) -> &'static CopyRow {
        self.member.row
    }

    /// Returns the operation: its PTX text and registers (CuTe's `Copy_Op`).
    ///
    /// # Errors
    ///
    /// Returns an error for a layout-only row.
    pub fn op(&self) -> Result<&CopyOp, Error> {
        self.op
            .as_ref()
            .ok_or_else(|| ErrorKind::NotExecutable { name: self.name() }.into())
    }

    /// Returns the traits: thread-value layouts of source and destination (CuTe's `Copy_Traits`).
    pub fn traits(&self) -> &CopyTraits {
        &self.traits
    }

    /// Returns the thread-value layouts in values of `bits` bits instead of bits.
    ///
    /// ```
    /// let atom = colex_atom::copy("SM75_U32x2_LDSM_N")?;
    /// let halves = atom.val_layouts(16)?;
    /// assert_eq!(format!("{:#}", halves.src), "((16,2),8):((8,0),1)");
    /// assert_eq!(format!("{:#}", halves.dst), "(32,(2,2)):(2,(1,64))");
    /// let error = colex_atom::copy("SM75_U16x2_LDSM_T")?.val_layouts(32).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "`SM75_U16x2_LDSM_T` cannot be read in values of 32 bits: ((_4,_8),(_16,_2)):((_256,_16),(_1,_128)): \
    ///      a value would lie in several threads"
    /// );
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// What a thread gives and what it gets must be whole values: a copy moves no part of one, and no bit twice. The
    /// width of a TMA or bulk copy counts as [`with_bits`](Self::with_bits) set it, so a wider value takes a wider
    /// copy. `AutoVectorizingCopyWithAssumedAlignment` and `SM90_BULK_COPY_AUTO` choose their width when the tensors
    /// are known ([`Sizes::Nominal`]); they hold one value of any width.
    ///
    /// ```
    /// let error = colex_atom::copy("SM80_CP_ASYNC_CACHEALWAYS<uint32_t>")?.val_layouts(64).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "`SM80_CP_ASYNC_CACHEALWAYS<uint32_t>` cannot be read in values of 64 bits: (_1,_32):(_0,_1): \
    ///      a thread moves 32 bits, which are not whole values"
    /// );
    /// let load = colex_atom::copy("SM90_TMA_LOAD_1D")?;
    /// assert!(load.val_layouts(256).is_err());
    /// assert_eq!(load.with_bits(1024)?.val_layouts(256)?.src.to_string(), "(_1,_4):(_0,_1)");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if what a thread gives or gets is not a number of whole values, if the bits of a value are not
    /// next to each other, or if they lie in several threads.
    pub fn val_layouts(&self, bits: i64) -> Result<ValLayouts, Error> {
        let src = self.recast(&self.traits.src, bits)?;
        let dst = self.recast(&self.traits.dst, bits)?;
        let reference = match self.traits.reference {
            Side::Source => src.clone(),
            Side::Destination => dst.clone(),
        };
        Ok(ValLayouts {
            src,
            dst,
            reference,
        })
    }

    fn recast(
        &self,
        layout: &colex_layout::Layout,
        bits: i64,
    ) -> Result<colex_layout::Layout, Error> {
        let refused = |why: String| CopyError::Values {
            name: self.name(),
            bits,
            layout: layout.to_string(),
            why,
        };
        let held = tv::values(layout) as i64;
        let nominal = self.member.row.sizes == Sizes::Nominal;
        if bits >= 1 && held % bits != 0 && !nominal {
            let hint = match self.member.row.sizes {
                Sizes::Multiple(_) => "; `with_bits` sets how many it moves",
                _ => "",
            };
            return Err(refused(format!(
                "a thread moves {held} bits, which are not whole values{hint}"
            ))
            .into());
        }
        let values = layout
            .recast(1, bits)
            .map_err(|error| refused(error.to_string()))?;
        if tv::threads(&values) != tv::threads(layout) {
            return Err(refused("a value would lie in several threads".to_string()).into());
        }
        if (tv::values(&values) as i64).checked_mul(bits) != Some(held) && !nominal {
            return Err(
                refused("the bits of a value would not be next to each other".to_string()).into(),
            );
        }
        Ok(values)
    }

    /// Returns how many threads take part.
    pub fn threads(&self) -> usize {
        tv::threads(&self.traits.src)
    }

    /// Returns how many bits each thread gets by one instruction: in its registers where it has them, else from its
    /// address.
    pub fn bits_per_thread(&self) -> usize {
        tv::values(if self.from() == Space::Register {
            &self.traits.src
        } else {
            &self.traits.dst
        })
    }

    /// Returns how many bits the whole instruction moves, each counted once however many threads name it.
    pub fn bits(&self) -> i64 {
        self.traits.reference().filter(..).size()
    }

    /// Returns the first architecture that has it; of a universal copy, between its ends.
    pub fn since(&self) -> Arch {
        self.op
            .as_ref()
            .map_or(self.member.row.since, |op| op.since)
    }

    /// Returns where the data comes from.
    pub fn from(&self) -> Space {
        self.spaces[0]
    }

    /// Returns where the data goes.
    pub fn to(&self) -> Space {
        self.spaces[1]
    }

    /// Returns whether the row has an opcode, a text and a result.
    pub fn is_executable(&self) -> bool {
        self.op.is_some()
    }

    /// Returns where CuTe's traits say something else than the hardware does.
    pub fn defect(&self) -> Option<Defect> {
        self.member.row.defect
    }

    /// Returns what a reducing copy does with the value that is there, and in which type.
    ///
    /// ```
    /// use colex_atom::{Reduction, Scalar, copy};
    ///
    /// let atom = copy("SM90_BULK_REDUCE_ADD_F32_S2G")?;
    /// assert_eq!(atom.reduction(), Some((Reduction::Add, Scalar::F32)));
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn reduction(&self) -> Option<(Reduction, Scalar)> {
        self.member.reduction
    }

    /// Returns the rank of the tensor that a TMA operation works on.
    pub fn tensor_rank(&self) -> Option<usize> {
        let CopyForm::Instruction(arguments) = self.member.row.form else {
            return None;
        };
        arguments
            .contains(&Argument::Tensor)
            .then_some(self.member.n as usize)
    }

    /// Returns the same copy between every two ends that it connects: one, unless it is universal.
    ///
    /// ```
    /// assert_eq!(colex_atom::copy("SM75_U32x4_LDSM_N")?.all_ends().len(), 1);
    /// assert!(colex_atom::copy("UniversalCopy<uint128_t>")?.all_ends().len() > 4);
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    pub fn all_ends(&self) -> Vec<Self> {
        let spaces = [
            Space::Register,
            Space::Shared,
            Space::Cluster,
            Space::Global,
        ];
        let pairs = spaces
            .into_iter()
            .flat_map(|from| spaces.map(|to| (from, to)));
        match self.row().form {
            CopyForm::Universal => pairs
                .filter_map(|(from, to)| self.between(from, to).ok())
                .collect(),
            _ => vec![self.clone()],
        }
    }

    /// Returns the same universal copy between other ends.
    ///
    /// ```
    /// use colex_atom::{Space, copy};
    ///
    /// let load = copy("UniversalCopy<uint128_t>")?;
    /// assert_eq!(load.op()?.ptx, "ld.global.v4.b32");
    /// assert_eq!(load.between(Space::Register, Space::Shared)?.op()?.ptx, "st.shared.v4.b32");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the operation does not go there.
    pub fn between(&self, from: Space, to: Space) -> Result<Self, Error> {
        if [from, to] == self.spaces {
            return Ok(self.clone());
        }
        let refused = |hint| CopyError::Spaces {
            name: self.name(),
            from,
            to,
            hint,
        };
        let plain = |space| {
            matches!(
                space,
                Space::Register | Space::Shared | Space::Cluster | Space::Global
            )
        };
        if self.member.row.form != CopyForm::Universal {
            return Err(refused("its ends are fixed").into());
        }
        if !plain(from) || !plain(to) {
            return Err(refused("`ld` and `st` reach registers, shared and global memory").into());
        }
        if from != Space::Register && to != Space::Register {
            return Err(refused("it takes two instructions, a load and a store").into());
        }
        Ok(CopyAtom::between_spaces(self.member, [from, to]))
    }

    /// Returns the same operation on `bits` bits per thread, where the row leaves that open: TMA and bulk copies.
    ///
    /// ```
    /// let box_64x64 = colex_atom::copy("SM90_TMA_LOAD_2D")?.with_bits(64 * 64 * 16)?;
    /// assert_eq!(box_64x64.name(), "SM90_TMA_LOAD_2D<65536>");
    /// assert_eq!(box_64x64.traits().src.to_string(), "(_1,_65536):(_0,_1)");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a width that it does not have.
    pub fn with_bits(&self, bits: i64) -> Result<Self, Error> {
        let legal = match self.member.row.sizes {
            Sizes::Multiple(step)
                if bits > 0 && bits % step == 0 && bits / 8 <= MAX_TRANSACTION_BYTES =>
            {
                return Ok(CopyAtom::between_spaces(
                    CopyMember {
                        bits,
                        ..self.member
                    },
                    self.spaces,
                ));
            }
            Sizes::Multiple(step) => {
                format!("multiples of {step} up to {MAX_TRANSACTION_BYTES} bytes")
            }
            _ if bits == self.bits_per_thread() as i64 => return Ok(self.clone()),
            _ => format!("{}", self.bits_per_thread()),
        };
        Err(CopyError::Width {
            name: self.name(),
            bits,
            legal,
        }
        .into())
    }
}

impl PartialEq for CopyAtom {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.spaces == other.spaces
    }
}

impl FromStr for CopyAtom {
    type Err = Error;

    /// Reads a name in any of CuTe's spellings.
    fn from_str(name: &str) -> Result<Self, Error> {
        names::parse(name)
    }
}
