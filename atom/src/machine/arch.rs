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
    /// Ampere without its large shared memory: workstations and embedded systems.
    Sm86,
    /// Ada.
    Sm89,
    /// Hopper.
    Sm90,
    /// Hopper, with `wgmma` and `setmaxnreg`.
    Sm90a,
    /// Blackwell, data centre, and what came after it.
    Sm100,
    /// Blackwell, data centre, with its tensor memory.
    Sm100a,
    /// Blackwell, workstation, and what came after it.
    Sm120,
    /// Blackwell, workstation, with its own matrix instructions.
    Sm120a,
}

impl Arch {
    /// Every architecture, oldest first.
    pub const ALL: [Arch; 13] = {
        use Arch::*;
        [
            Sm50, Sm61, Sm70, Sm75, Sm80, Sm86, Sm89, Sm90, Sm90a, Sm100, Sm100a, Sm120, Sm120a,
        ]
    };

    /// Returns the word after `.target` in PTX.
    pub fn target(self) -> &'static str {
        match self {
            Arch::Sm50 => "sm_50",
            Arch::Sm61 => "sm_61",
            Arch::Sm70 => "sm_70",
            Arch::Sm75 => "sm_75",
            Arch::Sm80 => "sm_80",
            Arch::Sm86 => "sm_86",
            Arch::Sm89 => "sm_89",
            Arch::Sm90 => "sm_90",
            Arch::Sm90a => "sm_90a",
            Arch::Sm100 => "sm_100",
            Arch::Sm100a => "sm_100a",
            Arch::Sm120 => "sm_120",
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

    /// Returns the newest architecture whose code runs on a device of a compute capability; `None` below 5.0.
    ///
    /// A device of a generation that the tables do not know takes the newest one without an `a`.
    ///
    /// ```
    /// use colex_atom::Arch;
    ///
    /// assert_eq!(Arch::of_capability(9, 0), Some(Arch::Sm90a));
    /// assert_eq!(Arch::of_capability(12, 1), Some(Arch::Sm120)); // `sm_120a` runs on 12.0 only
    /// assert_eq!(Arch::of_capability(3, 7), None);
    /// ```
    pub fn of_capability(major: u32, minor: u32) -> Option<Arch> {
        Some(match (major, minor) {
            (0..5, _) => return None,
            (5, _) | (6, 0) => Arch::Sm50,
            (6, _) => Arch::Sm61,
            (7, 0..5) => Arch::Sm70,
            (7, _) => Arch::Sm75,
            // 8.7 has the shared memory of 8.0.
            (8, 0..6 | 7) => Arch::Sm80,
            (8, 6 | 8) => Arch::Sm86,
            (8, _) => Arch::Sm89,
            (9, 0) => Arch::Sm90a,
            (9, _) => Arch::Sm90,
            (10, 0) => Arch::Sm100a,
            (10..12, _) => Arch::Sm100,
            (12, 0) => Arch::Sm120a,
            (12.., _) => Arch::Sm120,
        })
    }

    /// Returns the `.version` of PTX that first knew the target (PTX ISA, table of `.target`).
    pub fn ptx_version(self) -> PtxVersion {
        match self {
            Arch::Sm50 => PtxVersion(4, 0),
            Arch::Sm61 => PtxVersion(5, 0),
            Arch::Sm70 => PtxVersion(6, 0),
            Arch::Sm75 => PtxVersion(6, 3),
            Arch::Sm80 => PtxVersion(7, 0),
            Arch::Sm86 => PtxVersion(7, 1),
            Arch::Sm89 => PtxVersion(7, 8),
            Arch::Sm90 => PtxVersion(7, 8),
            Arch::Sm90a => PtxVersion(8, 0),
            Arch::Sm100 | Arch::Sm100a => PtxVersion(8, 6),
            Arch::Sm120 | Arch::Sm120a => PtxVersion(8, 7),
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

/// The first CUDA release whose driver reads a version of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    /// CUDA, `major.minor`.
    pub cuda: (u8, u8),
    /// The branch of the driver on Linux: 525 for r525.
    pub driver: u16,
}

impl Release {
    /// Returns the number that `cuDriverGetVersion` gives: 12080 for CUDA 12.8.
    pub fn number(self) -> i32 {
        i32::from(self.cuda.0) * 1000 + i32::from(self.cuda.1) * 10
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CUDA {}.{}, driver r{}",
            self.cuda.0, self.cuda.1, self.driver
        )
    }
}

/// The versions of PTX from 6.0 on, with the releases that brought them (PTX ISA 9.3, "PTX Release History"). Two drivers
/// are those of the toolkit's release notes ("CUDA Toolkit and Corresponding Driver Versions"), 410.48 and 450.36, where
/// PTX ISA says r400 and r445.
#[rustfmt::skip] // A table to read.
const RELEASES: [(PtxVersion, (u8, u8), u16); 28] = [
    (PtxVersion(6, 0), (9, 0), 384),   (PtxVersion(6, 1), (9, 1), 387),   (PtxVersion(6, 2), (9, 2), 396),
    (PtxVersion(6, 3), (10, 0), 410),  (PtxVersion(6, 4), (10, 1), 418),  (PtxVersion(6, 5), (10, 2), 440),
    (PtxVersion(7, 0), (11, 0), 450),  (PtxVersion(7, 1), (11, 1), 455),  (PtxVersion(7, 2), (11, 2), 460),
    (PtxVersion(7, 3), (11, 3), 465),  (PtxVersion(7, 4), (11, 4), 470),  (PtxVersion(7, 5), (11, 5), 495),
    (PtxVersion(7, 6), (11, 6), 510),  (PtxVersion(7, 7), (11, 7), 515),  (PtxVersion(7, 8), (11, 8), 520),
    (PtxVersion(8, 0), (12, 0), 525),  (PtxVersion(8, 1), (12, 1), 530),  (PtxVersion(8, 2), (12, 2), 535),
    (PtxVersion(8, 3), (12, 3), 545),  (PtxVersion(8, 4), (12, 4), 550),  (PtxVersion(8, 5), (12, 5), 555),
    (PtxVersion(8, 6), (12, 7), 565),  (PtxVersion(8, 7), (12, 8), 570),  (PtxVersion(8, 8), (12, 9), 575),
    (PtxVersion(9, 0), (13, 0), 580),  (PtxVersion(9, 1), (13, 1), 590),  (PtxVersion(9, 2), (13, 2), 595),
    (PtxVersion(9, 3), (13, 3), 610),
];

impl PtxVersion {
    /// Returns the release that brought this version; `None` below 6.0 and beyond 9.3. The source is the table "PTX Release
    /// History" of PTX ISA 9.3; for 6.3 and 7.0 the driver is that of the toolkit's release notes.
    ///
    /// ```
    /// use colex_atom::PtxVersion;
    ///
    /// let release = PtxVersion(8, 0).release().unwrap();
    /// assert_eq!(release.to_string(), "CUDA 12.0, driver r525");
    /// assert_eq!(release.number(), 12000);
    /// ```
    pub fn release(self) -> Option<Release> {
        let row = RELEASES.iter().find(|(version, ..)| *version == self);
        row.map(|&(_, cuda, driver)| Release { cuda, driver })
    }
}

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
            "no architecture is called `sm_42`; there are sm_50, sm_61, sm_70, sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120, sm_120a"
        );
    }
}
