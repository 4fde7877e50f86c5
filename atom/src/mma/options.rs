//! What `wgmma` leaves open beside its name: majors, signs, and which threads hold the metadata.

use super::member::MmaMember;
use super::row::{Form, Rule};
use crate::Error;
use crate::error::ErrorKind;
pub use crate::machine::Major;

/// The template arguments of a `wgmma` operation in CuTe. By default A and B are K-major and keep their signs.
///
/// ```
/// use colex_atom::{GmmaOptions, Major};
///
/// let atom = colex_atom::mma("SM90_64x128x16_F32F16F16_SS")?;
/// let transposed = atom.with_options(GmmaOptions { major_b: Major::MN, ..GmmaOptions::default() })?;
/// assert_eq!(transposed.name(), "SM90_64x128x16_F32F16F16_SS<Major::K,Major::MN>");
/// # Ok::<(), colex_atom::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GmmaOptions {
    /// How A lies in shared memory (`tnspA`).
    #[doc(alias = "tnspA")]
    pub major_a: Major,
    /// How B lies in shared memory (`tnspB`).
    #[doc(alias = "tnspB")]
    pub major_b: Major,
    /// Whether A is negated (`ScaleIn::Neg`).
    #[doc(alias = "ScaleIn")]
    pub negate_a: bool,
    /// Whether B is negated (`ScaleIn::Neg`).
    pub negate_b: bool,
    /// Which pair of each four threads holds the sparsity metadata, 0 or 1, where two suffice (`SparseSel`).
    #[doc(alias = "SparseSel")]
    pub metadata_threads: u8,
}

impl GmmaOptions {
    /// Reads CuTe's template arguments: as many as were written, in CuTe's order.
    pub(super) fn parse(arguments: &str, member: &MmaMember) -> Result<Self, Error> {
        let mut words = arguments.split(',').map(last_part).peekable();
        let mut options = GmmaOptions::default();
        let Form::Async {
            transposable,
            negatable,
        } = member.row.form
        else {
            return Err(options.refused(member, "it takes no options"));
        };
        let bad = |word: &str| ErrorKind::UnknownOption {
            name: member.name(),
            word: word.to_string(),
        };
        let majors = [&mut options.major_a, &mut options.major_b];
        if transposable {
            for major in majors {
                *major = match words.next() {
                    Some("K") => Major::K,
                    Some("MN") => Major::MN,
                    Some(word) => return Err(bad(word).into()),
                    None => break,
                };
            }
        }
        if negatable {
            for negate in [&mut options.negate_a, &mut options.negate_b] {
                *negate = match words.next() {
                    Some("One") => false,
                    Some("Neg") => true,
                    Some(word) => return Err(bad(word).into()),
                    None => break,
                };
            }
        }
        options.metadata_threads = match words.next() {
            None | Some("Zero") => 0,
            Some("One") => 1,
            Some(word) => return Err(bad(word).into()),
        };
        if let Some(word) = words.next() {
            return Err(bad(word).into());
        }
        options.check(member)?;
        Ok(options)
    }

    /// Returns every combination, whether an instruction has it or not.
    pub fn all() -> impl Iterator<Item = GmmaOptions> {
        (0..32u8).map(|bits| {
            let bit = |i: u8| bits >> i & 1 == 1;
            let major = |i| if bit(i) { Major::MN } else { Major::K };
            GmmaOptions {
                major_a: major(0),
                major_b: major(1),
                negate_a: bit(2),
                negate_b: bit(3),
                metadata_threads: bits >> 4,
            }
        })
    }

    /// Refuses what the instruction cannot do.
    pub(super) fn check(&self, member: &MmaMember) -> Result<(), Error> {
        if *self == GmmaOptions::default() {
            return Ok(());
        }
        let Form::Async {
            transposable,
            negatable,
        } = member.row.form
        else {
            return Err(self.refused(member, "it takes no options"));
        };
        if member.a_in_registers && self.major_a == Major::MN {
            return Err(self.refused(member, "A in registers must be K-major"));
        }
        if !transposable && (self.major_a, self.major_b) != (Major::K, Major::K) {
            return Err(self.refused(member, "only 16-bit operands can be MN-major"));
        }
        if !negatable && (self.negate_a || self.negate_b) {
            return Err(self.refused(member, "integer operands cannot be negated"));
        }
        match (self.metadata_threads, member.row.rule, member.ab.0.bits()) {
            (0, ..) | (1, Rule::Sparse1Of2, _) | (1, Rule::Sparse2Of4, 16) => Ok(()),
            (1, Rule::Sparse2Of4, _) => {
                Err(self.refused(member, "all four threads hold its metadata"))
            }
            (1, ..) => Err(self.refused(member, "it has no sparsity metadata")),
            _ => Err(self.refused(member, "metadata_threads is 0 or 1")),
        }
    }

    fn refused(&self, member: &MmaMember, why: &'static str) -> Error {
        ErrorKind::OptionRefused {
            name: member.name(),
            why,
        }
        .into()
    }

    /// CuTe's template arguments, `<..>`, as few as say it; nothing for the defaults.
    pub(super) fn suffix(&self, member: &MmaMember) -> String {
        if *self == GmmaOptions::default() {
            return String::new();
        }
        let Form::Async {
            transposable,
            negatable,
        } = member.row.form
        else {
            return String::new();
        };
        let major = |major| {
            if major == Major::K {
                "Major::K"
            } else {
                "Major::MN"
            }
        };
        let sign = |negate| {
            if negate {
                "ScaleIn::Neg"
            } else {
                "ScaleIn::One"
            }
        };
        let mut words = Vec::new();
        if transposable {
            words.extend([major(self.major_a), major(self.major_b)]);
        }
        if negatable && (self.negate_a || self.negate_b || self.metadata_threads != 0) {
            words.extend([sign(self.negate_a), sign(self.negate_b)]);
        }
        if self.metadata_threads != 0 {
            words.push("SparseSel::One");
        }
        format!("<{}>", words.join(","))
    }
}

/// `GMMA::Major::MN` is `MN`.
fn last_part(word: &str) -> &str {
    word.rsplit("::").next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::GmmaOptions;

    #[test]
    fn all_options_are_each_combination_once() {
        let all: std::collections::HashSet<GmmaOptions> = GmmaOptions::all().collect();
        assert_eq!(all.len(), 32);
        assert!(all.iter().all(|options| options.metadata_threads < 2));
    }
}
