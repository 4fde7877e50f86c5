//! `MmaAtom`: an operation and what it means.

use core::str::FromStr;
use std::sync::OnceLock;

use super::member::MmaMember;
use super::names;
use super::op::MmaOp;
use super::options::GmmaOptions;
use super::row::{Form, MmaRow, Rule};
use super::traits::MmaTraits;
use crate::Error;
use crate::error::ErrorKind;
use crate::machine::Arch;
use crate::number::Ty;

/// A matrix-multiply instruction: `D = A B + C` on one small tile, with everything known about it.
///
/// ```
/// use colex_atom::{Arch, mma};
///
/// let atom = mma("SM80_16x8x16_F32F16F16F32_TN")?;
/// assert_eq!(atom.mnk(), [16, 8, 16]);
/// assert_eq!(atom.threads(), 32);
/// assert_eq!(atom.since(), Arch::Sm80);
/// assert_eq!(atom.traits().a.to_string(), "((_4,_8),(_2,_2,_2)):((_32,_1),(_16,_8,_128))");
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[doc(alias = "MMA_Atom")]
#[derive(Clone, Debug)]
pub struct MmaAtom {
    pub(super) member: MmaMember,
    options: GmmaOptions,
    op: Option<MmaOp>,
    traits: MmaTraits,
    /// The coordinates of A, B and C by thread and value, made when first asked for.
    tables: [OnceLock<Vec<usize>>; 3],
}

impl MmaAtom {
    pub(super) fn new(member: MmaMember, options: GmmaOptions) -> Self {
        let traits = MmaTraits::new(&member);
        let values = [&traits.a, &traits.b, &traits.c].map(crate::tv::values);
        MmaAtom {
            member,
            options,
            op: MmaOp::new(&member, values),
            traits,
            tables: Default::default(),
        }
    }

    /// Returns the name: CuTe's, with the namespace `SM90::GMMA` folded into `SM90_`, and its options if they are not
    /// the defaults.
    pub fn name(&self) -> String {
        self.member.name() + &self.options.suffix(&self.member)
    }

    /// The error of an operand that is not what the instruction takes.
    pub(crate) fn wrong_operand(
        &self,
        operand: char,
        expected: impl ToString,
        found: impl ToString,
    ) -> Error {
        ErrorKind::Operand {
            name: self.name(),
            operand,
            expected: expected.to_string(),
            found: found.to_string(),
        }
        .into()
    }

    /// Returns the row of the table that the atom belongs to.
    pub fn row(&self) -> &'static MmaRow {
        self.member.row
    }

    /// Returns the operation: its PTX text and registers (CuTe's `MMA_Op`).
    ///
    /// # Errors
    ///
    /// Returns an error for a layout-only row.
    pub fn op(&self) -> Result<&MmaOp, Error> {
        self.op
            .as_ref()
            .ok_or_else(|| ErrorKind::NotExecutable { name: self.name() }.into())
    }

    /// Returns the traits: shape, types and thread-value layouts (CuTe's `MMA_Traits`).
    pub fn traits(&self) -> &MmaTraits {
        &self.traits
    }

    /// The coordinate of each value of each thread of an operand: entry `t + threads * v`.
    pub(crate) fn table(&self, operand: char) -> &[usize] {
        let (at, layout) = match operand {
            'A' => (0, &self.traits.a),
            'B' => (1, &self.traits.b),
            _ => (2, &self.traits.c),
        };
        self.tables[at].get_or_init(|| crate::tv::table(layout))
    }

    /// Returns the extents of M, N and K.
    pub fn mnk(&self) -> [i64; 3] {
        self.traits.mnk
    }

    /// Returns the types that the elements of A and B mean; [`MmaTraits`] has the types they are stored in, which are
    /// wider in some rows of Blackwell.
    pub fn elements(&self) -> (Ty, Ty) {
        self.member.ab
    }

    /// Returns how many threads take part: 1, 8 (a quad-pair), 32 (a warp) or 128 (a warpgroup).
    pub fn threads(&self) -> usize {
        crate::tv::threads(&self.traits.c)
    }

    /// Returns the first architecture that has it.
    pub fn since(&self) -> Arch {
        self.member.row.since
    }

    /// Returns what is computed.
    pub fn rule(&self) -> Rule {
        self.member.row.rule
    }

    /// Returns whether the accumulators saturate instead of wrapping (`.satfinite`).
    pub fn saturates(&self) -> bool {
        self.member.saturate
    }

    /// Returns whether the row has an opcode, a text and a result.
    pub fn is_executable(&self) -> bool {
        self.op.is_some()
    }

    /// Returns whether A is read from shared memory through a descriptor (`SS`).
    pub fn a_in_shared(&self) -> bool {
        matches!(self.member.row.form, Form::Async { .. }) && !self.member.a_in_registers
    }

    /// Returns whether B is read from shared memory through a descriptor (`SS` and `RS`).
    pub fn b_in_shared(&self) -> bool {
        matches!(self.member.row.form, Form::Async { .. })
    }

    /// Returns the majors, signs and metadata threads of a `wgmma`; the defaults for everything else.
    pub fn options(&self) -> GmmaOptions {
        self.options
    }

    /// Returns the same operation with other options.
    ///
    /// # Errors
    ///
    /// Returns an error if the instruction does not have them.
    pub fn with_options(mut self, options: GmmaOptions) -> Result<Self, Error> {
        options.check(&self.member)?;
        self.options = options;
        Ok(self)
    }
}

impl PartialEq for MmaAtom {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl FromStr for MmaAtom {
    type Err = Error;

    /// Reads a name in any of CuTe's spellings.
    fn from_str(name: &str) -> Result<Self, Error> {
        let (member, options) = names::parse(name)?;
        Ok(MmaAtom::new(member, options))
    }
}
