//! The library's copies against the reference, for the tests on the simulator and `xtask gpu kernels` on a GPU.

use core::fmt;

use colex_layout::{IntoLayout, Layout};

use colex_device::{Device, Element};
use colex_gpu::Error;
use colex_gpu::kernels::{CopyCall, CopyMethod, View, ViewMut, reference};

use crate::sweep::Random;

/// Why a kernel failed its check.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// It could not be run.
    Error(Error),
    /// An element is not what it must be.
    Wrong {
        /// Its place in the destination's buffer.
        at: usize,
        /// What is there.
        found: String,
        /// What must be there.
        expected: String,
        /// How many are wrong.
        count: usize,
    },
    /// Its kernel has conditional traps: no launch decides these claims.
    Traps(Vec<String>),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Error(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Wrong {
                at,
                found,
                expected,
                count,
            } => write!(
                f,
                "{count} elements are wrong, the first at {at}: {found} instead of {expected}"
            ),
            Failure::Traps(claims) => write!(f, "its kernel traps: {}", claims.join("; ")),
        }
    }
}

/// One copy to be checked.
#[derive(Clone, Debug)]
pub struct CopyCase {
    /// The source's layout.
    pub source: Layout,
    /// The destination's.
    pub destination: Layout,
    /// Elements by which both begin after an address that is a multiple of 256 bytes.
    pub shift: [usize; 2],
    /// The kernel; `None` for the one that the library takes.
    pub method: Option<CopyMethod>,
    /// The squares of a block's tile, for the kernel that has such: see [`CopyCall::with_squares`].
    pub squares: Option<[i64; 2]>,
}

impl CopyCase {
    /// Returns a copy between aligned buffers by the kernel that the library takes.
    ///
    /// # Panics
    ///
    /// If an argument is no layout.
    pub fn new(source: impl IntoLayout, destination: impl IntoLayout) -> CopyCase {
        CopyCase {
            source: source.into_layout().expect("a case has layouts"),
            destination: destination.into_layout().expect("a case has layouts"),
            shift: [0, 0],
            method: None,
            squares: None,
        }
    }

    /// Returns the same by that kernel.
    #[must_use]
    pub fn by(self, method: CopyMethod) -> CopyCase {
        CopyCase {
            method: Some(method),
            ..self
        }
    }

    /// Returns the same case with buffers that begin this number of elements later.
    #[must_use]
    pub fn shifted(self, source: usize, destination: usize) -> CopyCase {
        CopyCase {
            shift: [source, destination],
            ..self
        }
    }

    /// Runs the case on a device with elements of a type and compares every element of the destination's buffer,
    /// including those that no coordinate names and that must keep their poison. Returns the kernel that ran.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] if the copy fails or an element is wrong.
    pub fn run<T: Element>(&self, device: &Device) -> Result<CopyMethod, Failure> {
        Ok(self.attempt::<T>(device, true)??)
    }

    /// The same; the inner error is that of a copy that is refused before its launch. Without `launch` nothing is run.
    pub(super) fn attempt<T: Element>(
        &self,
        device: &Device,
        launch: bool,
    ) -> Result<Result<CopyMethod, Error>, Failure> {
        let lengths = [&self.source, &self.destination].map(Layout::cosize);
        let [from, to] =
            [lengths[0].clone(), lengths[1].clone()].map(|n| n.expect("a case is small") as usize);
        let elements = random::<T>(from + self.shift[0]);
        let source = device.upload(&elements)?;
        let destination = device.poisoned::<T>(to + self.shift[1] + TAIL)?;
        let mut expected = T::from_bytes(&vec![0xff; (to + TAIL) * T::BYTES]);
        let shifted = &elements[self.shift[0]..];
        reference::copy(shifted, &self.source, &mut expected, &self.destination)
            .expect("a case is small");
        let source = source.slice(self.shift[0]..)?;
        let mut written = destination.slice(self.shift[1]..)?;
        let views = (
            View::new(&source, self.source.clone())?,
            ViewMut::new(&mut written, self.destination.clone())?,
        );
        let call = match self.squares {
            None => CopyCall::new(&views.0, &views.1, self.method),
            Some(squares) => CopyCall::with_squares(&views.0, &views.1, squares),
        };
        let call = match call {
            Ok(call) => call,
            Err(refused) => return Ok(Err(refused)),
        };
        let method = call.plan().expect("a case has elements").method();
        let kernel = call.plan().map(|plan| plan.kernel(device.arch()));
        let trapped = kernel.map_or(Ok(Vec::new()), |built| {
            built.map(|k| super::trapped(&k.kernel))
        })?;
        if !trapped.is_empty() {
            return Err(Failure::Traps(trapped));
        }
        if launch {
            call.run(device)?;
            compare(&destination.slice(self.shift[1]..)?.download()?, &expected)?;
        }
        Ok(Ok(method))
    }
}

/// Returns small copies of every kind: even and odd lengths, shifts, gaps, batches, each by every kernel that does it.
/// `bytes` is the width of an element, on which it depends what a kernel does.
pub fn copy_cases(bytes: i64) -> Vec<CopyCase> {
    let mut cases = Vec::new();
    for length in [1, 2, 7, 255, 256, 1024, 4096, 5003] {
        cases.push(CopyCase::new((length, 1), (length, 1)));
    }
    for [source, destination] in [[1, 0], [0, 1], [2, 2], [3, 1], [4, 8], [5, 5]] {
        cases.push(CopyCase::new("3001:1", "3001:1").shifted(source, destination));
    }
    for length in [16 << 10, (40 << 10) + 7] {
        let run = (length / bytes, 1);
        cases.push(CopyCase::new(run, run));
        cases.push(CopyCase::new(run, run).shifted(1, 1));
    }
    for (source, destination) in STRIDED {
        cases.push(CopyCase::new(source, destination));
        cases.push(CopyCase::new(source, destination).by(CopyMethod::Strided));
    }
    for method in [CopyMethod::Naive, CopyMethod::Padded, CopyMethod::Swizzled] {
        cases.extend(
            CROSSED.map(|(source, destination)| CopyCase::new(source, destination).by(method)),
        );
    }
    cases.extend(CROSSED.map(|(source, destination)| CopyCase::new(source, destination)));
    if bytes == 2 || bytes == 4 {
        cases.extend(MAPPED.map(|(source, destination)| CopyCase::new(source, destination)));
    }
    cases
}

/// Returns the copies of [`copy_cases`] of one run that bulk copies do.
pub fn bulk_cases(bytes: i64) -> Vec<CopyCase> {
    let runs = [16 << 10, (40 << 10) + 7].map(|length| (length / bytes, 1));
    let cases = runs.into_iter().flat_map(|run| {
        let case = CopyCase::new(run, run).by(CopyMethod::Bulk);
        [case.clone(), case.shifted(1, 1)]
    });
    cases.collect()
}

/// No run on both sides, or a short one.
const STRIDED: [(&str, &str); 6] = [
    ("(6,5,4):(1,7,40)", "(6,5,4):(1,6,30)"),
    ("(64,5,4):(1,64,512)", "(64,5,4):(1,72,1024)"),
    ("(16,3):(0,1)", "(16,3):(1,16)"),
    ("(7,3):(2,20)", "(7,3):(3,25)"),
    (
        "((2,3),(5,7)):((1,40),(8,400))",
        "((2,3),(5,7)):((105,35),(7,1))",
    ),
    (
        "(2,3,4,5,6,7):(1,2,6,24,120,720)",
        "(2,3,4,5,6,7):(2520,840,210,42,7,1)",
    ),
];

/// One mode runs fastest in the source, another in the destination.
const CROSSED: [(&str, &str); 8] = [
    ("(66,130):(136,1)", "(66,130):(1,72)"),
    ("(32,32):(32,1)", "(32,32):(1,32)"),
    ("(64,96):(96,1)", "(64,96):(1,64)"),
    ("(33,31):(31,1)", "(33,31):(1,33)"),
    ("(70,45):(45,1)", "(70,45):(1,70)"),
    ("(40,36):(37,1)", "(40,36):(1,41)"),
    (
        "(33,34,2,3):(34,1,1122,2244)",
        "(33,34,2,3):(1,33,3366,1122)",
    ),
    (
        "(5,6,7,3,4):(1,5,30,210,630)",
        "(5,6,7,3,4):(504,84,12,4,1)",
    ),
];

/// The same with strides of whole 16 bytes, as tensor maps want them. Sources with a stride of 0 come before and after others of as many
/// modes, whose kernel they have.
const MAPPED: [(&str, &str); 8] = [
    ("(128,128):(128,1)", "(128,128):(1,128)"),
    ("(264,136):(144,1)", "(264,136):(1,280)"),
    ("(40,24):(24,1)", "(40,24):(1,40)"),
    ("(64,96,3):(96,1,0)", "(64,96,3):(1,64,6144)"),
    ("(64,96,3):(96,1,6144)", "(64,96,3):(1,64,6144)"),
    (
        "(72,40,3,2):(40,1,5760,2880)",
        "(72,40,3,2):(1,72,2880,8640)",
    ),
    ("(72,40,3,2):(40,1,0,2880)", "(72,40,3,2):(1,72,2880,8640)"),
    (
        "(16,24,2,3,8):(1,16,384,768,2304)",
        "(16,24,2,3,8):(1152,48,24,8,1)",
    ),
];

/// Elements behind the destination that must stay as they are.
const TAIL: usize = 64;

impl fmt::Display for CopyCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.source, self.destination)?;
        match self.shift {
            [0, 0] => Ok(()),
            [source, destination] => write!(f, ", {source} and {destination} elements later"),
        }
    }
}

/// Elements of random bits. Compared bit by bit, so that NaNs are as good as others.
fn random<T: Element>(count: usize) -> Vec<T> {
    T::from_bytes(&Random::new(0).bytes(count * T::BYTES))
}

/// Whether two lists of elements have the same bits.
pub(super) fn compare<T: Element>(found: &[T], expected: &[T]) -> Result<(), Failure> {
    let bits = |x: T| T::to_bytes(&[x]);
    let pairs = found.iter().zip(expected).enumerate();
    let wrong: Vec<_> = pairs.filter(|(_, (x, y))| bits(**x) != bits(**y)).collect();
    match wrong.first() {
        None => Ok(()),
        Some((at, (found, expected))) => Err(Failure::Wrong {
            at: *at,
            found: format!("{found:?}"),
            expected: format!("{expected:?}"),
            count: wrong.len(),
        }),
    }
}
