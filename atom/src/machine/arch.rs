//! The architectures an instruction can ask for.

use core::fmt;

/// A GPU architecture, in the order of their appearance.
///
/// A trailing `a` is an architecture-specific target of PTX: its instructions run on that
/// generation only (PTX ISA 9.7.15 for `sm_90a`).
///
/// ```
/// use colex_atom::Arch;
///
/// assert!(Arch::Sm70 < Arch::Sm90a);
/// assert_eq!(Arch::Sm90a.to_string(), "sm_90a");
/// assert_eq!("sm_80".parse(), Ok(Arch::Sm80));
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Maxwell: what every row without a tensor core runs on.
    Sm50,
    /// Pascal, with the integer dot products.
    Sm61,
    /// Volta.
    Sm70,
    /// Turing.
    Sm75,
    /// Ampere.
    Sm80,
    /// Ada.
    Sm89,
    /// Hopper.
    Sm90,
    /// Hopper, with `wgmma` and `setmaxnreg`.
    Sm90a,
    /// Blackwell, data centre.
    Sm100a,
    /// Blackwell, workstation.
    Sm120a,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Arch; 10] = [
        Arch::Sm50,
        Arch::Sm61,
        Arch::Sm70,
        Arch::Sm75,
        Arch::Sm80,
        Arch::Sm89,
        Arch::Sm90,
        Arch::Sm90a,
        Arch::Sm100a,
        Arch::Sm120a,
    ];

    /// Returns the word after `.target` in PTX.
    pub fn target(self) -> &'static str {
        match self {
            Arch::Sm50 => "sm_50",
            Arch::Sm61 => "sm_61",
            Arch::Sm70 => "sm_70",
            Arch::Sm75 => "sm_75",
            Arch::Sm80 => "sm_80",
            Arch::Sm89 => "sm_89",
            Arch::Sm90 => "sm_90",
            Arch::Sm90a => "sm_90a",
            Arch::Sm100a => "sm_100a",
            Arch::Sm120a => "sm_120a",
        }
    }

    /// Returns whether instructions that need it run on no later architecture (`sm_90a`, `sm_100a`, `sm_120a`).
    pub fn is_specific(self) -> bool {
        matches!(self, Arch::Sm90a | Arch::Sm100a | Arch::Sm120a)
    }

    /// Returns whether an instruction that came with this architecture runs on `arch`.
    ///
    /// ```
    /// use colex_atom::Arch;
    ///
    /// assert!(Arch::Sm80.runs_on(Arch::Sm90));
    /// assert!(!Arch::Sm90a.runs_on(Arch::Sm100a), "`wgmma` was not kept");
    /// ```
    pub fn runs_on(self, arch: Arch) -> bool {
        if self.is_specific() {
            self == arch
        } else {
            self <= arch
        }
    }

    /// Returns the `.version` of PTX that first knew the target (PTX ISA, table of `.target`).
    pub fn ptx_version(self) -> PtxVersion {
        match self {
            Arch::Sm50 => PtxVersion(4, 0),
            Arch::Sm61 => PtxVersion(5, 0),
            Arch::Sm70 => PtxVersion(6, 0),
            Arch::Sm75 => PtxVersion(6, 3),
            Arch::Sm80 => PtxVersion(7, 0),
            Arch::Sm89 => PtxVersion(7, 8),
            Arch::Sm90 => PtxVersion(7, 8),
            Arch::Sm90a => PtxVersion(8, 0),
            Arch::Sm100a => PtxVersion(8, 6),
            Arch::Sm120a => PtxVersion(8, 7),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.target())
    }
}

/// A version of the PTX language, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxVersion(pub u8, pub u8);

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_parse_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.target().parse(), Ok(arch));
        }
    }

    #[test]
    fn an_unknown_target_says_which_exist() {
        let error = "sm_42".parse::<Arch>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no architecture is called `sm_42`; there are sm_50, sm_61, sm_70, sm_75, sm_80, sm_89, sm_90, sm_90a, sm_100a, sm_120a"
        );
    }
}
