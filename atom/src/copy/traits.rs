//! `CopyTraits`: what a copy means.

use colex_layout::Layout;

use super::member::CopyMember;
use super::row::Side;

/// What an operation means: which thread gives and which receives each bit (CuTe's `Copy_Traits`).
///
/// A thread-value layout maps `(thread, value)` to a bit of the tile that is copied; the source and the destination
/// number the bits alike, so that equal bits are the same data.
///
/// ```
/// let atom = colex_atom::copy("SM75_U32x4_LDSM_N")?;
/// let traits = atom.traits();
/// assert_eq!(traits.src.to_string(), "(_32,_128):(_128,_1)");
/// assert_eq!(traits.dst.to_string(), "(_32,(_32,_4)):(_32,(_1,_1024))");
/// assert_eq!(traits.reference(), &traits.dst);
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CopyTraits {
    /// `logical thread -> thread index` (`ThrID`).
    #[doc(alias = "ThrID")]
    pub thread: Layout,
    /// `(thread, value) -> bit` of the source (`SrcLayout`). For memory it is the thread that gives the address.
    #[doc(alias = "SrcLayout")]
    pub src: Layout,
    /// `(thread, value) -> bit` of the destination (`DstLayout`).
    #[doc(alias = "DstLayout")]
    pub dst: Layout,
    /// The side whose layout describes a tiled copy (`RefLayout`).
    #[doc(alias = "RefLayout")]
    pub reference: Side,
    /// `value -> address` in tensor memory (`ValID`), of the operations of Blackwell that go there.
    #[doc(alias = "ValID")]
    pub value: Option<Layout>,
}

impl CopyTraits {
    pub(super) fn new(member: &CopyMember) -> Self {
        let layout = |template: &str| -> Layout {
            let layout: Layout = member
                .fill(template)
                .parse()
                .expect("the layouts of the table are well-formed");
            layout.to_static()
        };
        let value = member.row.value[usize::from(member.packed)];
        CopyTraits {
            thread: layout(member.row.thread),
            src: layout(member.row.src),
            dst: layout(member.row.dst),
            reference: member.row.reference,
            value: (!value.is_empty()).then(|| layout(value)),
        }
    }

    /// Returns the layout that a tiled copy is described by: the source's or the destination's.
    pub fn reference(&self) -> &Layout {
        match self.reference {
            Side::Source => &self.src,
            Side::Destination => &self.dst,
        }
    }
}

/// The layouts of [`CopyTraits`] in values of some width instead of bits (CuTe's `ValLayoutSrc`, `ValLayoutDst`,
/// `ValLayoutRef`).
#[derive(Clone, Debug, PartialEq)]
pub struct ValLayouts {
    /// `(thread, value) -> value index` of the source.
    #[doc(alias = "ValLayoutSrc")]
    pub src: Layout,
    /// `(thread, value) -> value index` of the destination.
    #[doc(alias = "ValLayoutDst")]
    pub dst: Layout,
    /// The layout that describes a tiled copy: that of the source or of the destination.
    #[doc(alias = "ValLayoutRef")]
    pub reference: Layout,
}
