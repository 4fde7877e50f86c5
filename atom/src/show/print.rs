//! Atoms in the words of CuTe's `print`.

use crate::{CopyAtom, Error, MmaAtom};

impl MmaAtom {
    /// Returns what CuTe's `print` says of an `MMA_Atom`: threads, shape and thread-value layouts, a line each.
    ///
    /// ```
    /// let atom = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT")?;
    /// assert_eq!(atom.print(), "MMA_Atom
    ///   ThrID:      (_4,_2):(_1,_16)
    ///   Shape_MNK:  (_8,_8,_4)
    ///   LayoutA_TV: ((_4,_2),_4):((_8,_4),_1)
    ///   LayoutB_TV: ((_4,_2),_4):((_8,_4),_1)
    ///   LayoutC_TV: ((_2,_2,_2),(_2,_2,_2)):((_1,_16,_4),(_8,_2,_32))
    /// ");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// Source: `print` in `cute/atom/mma_atom.hpp`.
    pub fn print(&self) -> String {
        let traits = self.traits();
        let [m, n, k] = traits.mnk;
        let (thread, a, b, c) = (&traits.thread, &traits.a, &traits.b, &traits.c);
        format!(
            "MMA_Atom\n  ThrID:      {thread}\n  Shape_MNK:  (_{m},_{n},_{k})\n  LayoutA_TV: {a}\n  \
             LayoutB_TV: {b}\n  LayoutC_TV: {c}\n"
        )
    }
}

impl CopyAtom {
    /// Returns what CuTe's `print` says of a `Copy_Atom` of values of `bits` bits.
    ///
    /// ```
    /// let atom = colex_atom::copy("UniversalCopy<uint128_t>")?;
    /// assert_eq!(atom.print(32)?, "Copy_Atom
    ///   ThrID:        _1:_0
    ///   ValLayoutSrc: (_1,_4):(_0,_1)
    ///   ValLayoutDst: (_1,_4):(_0,_1)
    ///   ValLayoutRef: (_1,_4):(_0,_1)
    ///   ValueType:    32b
    /// ");
    /// # Ok::<(), colex_atom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the errors of [`CopyAtom::val_layouts`].
    ///
    /// Source: `print` in `cute/atom/copy_atom.hpp`.
    pub fn print(&self, bits: i64) -> Result<String, Error> {
        let values = self.val_layouts(bits)?;
        let (thread, src, dst) = (&self.traits().thread, &values.src, &values.dst);
        let reference = &values.reference;
        Ok(format!(
            "Copy_Atom\n  ThrID:        {thread}\n  ValLayoutSrc: {src}\n  ValLayoutDst: {dst}\n  \
             ValLayoutRef: {reference}\n  ValueType:    {bits}b\n"
        ))
    }
}
