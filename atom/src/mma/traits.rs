//! `MmaTraits`: what it means.

use colex_layout::Layout;

use super::member::MmaMember;
use super::row::MmaRow;
use crate::number::Ty;

/// What an operation means: its shape, its types, and which thread holds which element (CuTe's `MMA_Traits`).
///
/// A thread-value layout maps `(thread, value)` to a coordinate of the operand's tile, column-major:
/// `m + M*k` for A, `n + N*k` for B, `m + M*n` for C and D. Mode 0 is the logical thread, mode 1 its values.
///
/// ```
/// let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
/// let traits = atom.traits();
/// assert_eq!(traits.thread.to_string(), "(_4,_2):(_1,_16)");
/// assert_eq!(traits.c.to_string(), "((_2,_2,_2),(_2,_2,_2)):((_1,_16,_4),(_8,_2,_32))");
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MmaTraits {
    /// The extents of M, N and K (`Shape_MNK`).
    #[doc(alias = "Shape_MNK")]
    pub mnk: [i64; 3],
    /// The type of A (`ValTypeA`).
    #[doc(alias = "ValTypeA")]
    pub ty_a: Ty,
    /// The type of B (`ValTypeB`).
    #[doc(alias = "ValTypeB")]
    pub ty_b: Ty,
    /// The type of C and D (`ValTypeC`, `ValTypeD`).
    #[doc(alias = "ValTypeC")]
    pub ty_c: Ty,
    /// `logical thread -> thread index` (`ThrID`): the quad-pairs of Volta are not the first threads of a warp.
    #[doc(alias = "ThrID")]
    pub thread: Layout,
    /// `(thread, value) -> m + M*k` (`ALayout`).
    #[doc(alias = "ALayout")]
    pub a: Layout,
    /// `(thread, value) -> n + N*k` (`BLayout`).
    #[doc(alias = "BLayout")]
    pub b: Layout,
    /// `(thread, value) -> m + M*n` (`CLayout`).
    #[doc(alias = "CLayout")]
    pub c: Layout,
    /// `(thread, value) -> m + M*k` of the sparsity metadata (`ELayout`), of an operation with a sparse A.
    #[doc(alias = "ELayout")]
    pub e: Option<Layout>,
    /// The same for the scale factors of A and B (`SFALayout`, `SFBLayout`), of a block-scaled operation.
    #[doc(alias = "SFALayout")]
    pub scales: Option<[Layout; 2]>,
}

impl MmaTraits {
    pub(super) fn new(member: &MmaMember) -> Self {
        let row: &MmaRow = member.row;
        let layout = |template: &str| -> Layout {
            let layout: Layout = member
                .fill(template)
                .parse()
                .expect("the layouts of the table are well-formed");
            layout.to_static()
        };
        let in_shared = matches!(row.form, super::Form::Async { .. }) && !member.a_in_registers;
        let [m, _, k] = member.mnk();
        let a = if in_shared {
            Layout::new((128, (m, k)), (0, (1, m)))
                .expect("the extents of the table are positive")
                .to_static()
        } else {
            layout(row.a_layout)
        };
        MmaTraits {
            mnk: member.mnk(),
            ty_a: row.stored.unwrap_or(member.ab.0),
            ty_b: row.stored.unwrap_or(member.ab.1),
            ty_c: row.c,
            thread: layout(row.thread),
            a,
            b: layout(row.b_layout),
            c: layout(row.c_layout),
            e: (!row.e_layout.is_empty()).then(|| layout(row.e_layout)),
            scales: row.scale_layouts.map(|scales| scales.map(layout)),
        }
    }
}
