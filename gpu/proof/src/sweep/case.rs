//! A case of the sweep: one instruction, its data, and the judge of its result.

use colex_atom::{Side, TensorMap};

use colex_ir::Kernel;
use colex_ir::launch::Launch;

/// The value of every byte of the output before the kernel runs: NaN in every float format.
pub(super) const POISON: u8 = 0xff;

/// One instruction: a kernel, the data of each of its launches, and a judge.
///
/// The kernel's parameters are a pointer to the input, a pointer to the output and, where a launch has one, a tensor
/// map.
pub struct Case {
    /// The atom, and what of it varies: unique.
    pub name: String,
    /// The row of the table of counts.
    pub family: &'static str,
    /// The kernel that executes the instruction once in each block.
    pub kernel: Kernel,
    /// Its launches.
    pub shots: Vec<Shot>,
    /// Reads what came out.
    pub judge: Box<dyn Judge>,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Shot {
    /// Its shape.
    pub launch: Launch,
    /// The bytes of the input.
    pub input: Vec<u8>,
    /// What the output holds before.
    pub output: Vec<u8>,
    /// A tensor map, and the side of the copy whose tensor it is: the input is the source, the output the destination.
    pub map: Option<(TensorMap, Side)>,
}

/// Compares what the device wrote with the row's own arithmetic.
pub trait Judge: Send + Sync {
    /// Judges the output of launch `shot`.
    fn judge(&self, shot: usize, output: &[u8]) -> Agreement;
}

/// How far what came out is what the row says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Elements compared: all that the instruction writes.
    pub elements: u64,
    /// Those that are bit for bit what the row's arithmetic gives.
    pub exact: u64,
    /// Those that are bit for bit what the model of Hopper's sums gives.
    pub modelled: u64,
    /// Whether the row's arithmetic is what the hardware must give bit for bit.
    pub must_be_exact: bool,
    /// The first element that is neither equal nor, where that suffices, within the rounding.
    pub wrong: Option<String>,
    /// The first element that is within the rounding and not as the model gives.
    pub rounded: Option<String>,
    /// A fingerprint of all elements, any NaN counted as one.
    pub digest: u64,
}

impl Agreement {
    /// Returns the sum of both.
    pub fn and(self, other: Agreement) -> Agreement {
        Agreement {
            elements: self.elements + other.elements,
            exact: self.exact + other.exact,
            modelled: self.modelled + other.modelled,
            must_be_exact: self.must_be_exact || other.must_be_exact,
            wrong: self.wrong.or(other.wrong),
            rounded: self.rounded.or(other.rounded),
            digest: mixed(self.digest, other.digest),
        }
    }
}

/// The fingerprint of what came before and one word more.
pub(super) fn mixed(digest: u64, word: u64) -> u64 {
    let sum = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum ^ (sum >> 29)
}

/// Every byte is known: what the instruction writes, and that it leaves the rest.
pub(super) struct Bytes {
    /// The output of each launch.
    pub(super) expected: Vec<Vec<u8>>,
    /// What one element is, for messages and counts.
    pub(super) element: usize,
}

impl Judge for Bytes {
    fn judge(&self, shot: usize, output: &[u8]) -> Agreement {
        let expected = &self.expected[shot];
        let mut agreement = Agreement {
            must_be_exact: true,
            ..Agreement::default()
        };
        if expected.len() != output.len() {
            agreement.wrong = Some(format!(
                "launch {shot}: {} bytes expected, {} found",
                expected.len(),
                output.len()
            ));
            return agreement;
        }
        let pairs = expected
            .chunks(self.element)
            .zip(output.chunks(self.element));
        for (at, (expected, found)) in pairs.enumerate() {
            agreement.elements += 1;
            agreement.digest = found.iter().fold(agreement.digest, |digest, byte| {
                mixed(digest, u64::from(*byte))
            });
            if expected == found {
                agreement.exact += 1;
            } else if agreement.wrong.is_none() {
                agreement.wrong = Some(format!(
                    "launch {shot}, byte {}: expected {}, found {}",
                    at * self.element,
                    hex(expected),
                    hex(found)
                ));
            }
        }
        agreement.modelled = agreement.exact;
        agreement
    }
}

/// Bytes from the highest to the lowest, as a number is written.
fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A kernel's name: the atom's, with everything that PTX does not take as an underscore.
pub(super) fn entry(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("sweep_{}", name.chars().map(plain).collect::<String>())
}
