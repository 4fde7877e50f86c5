//! `CopyPlan`: which kernel a copy takes, and why.

use core::fmt;

use super::error::KernelError;
use super::walk::{Step, Walk};

/// How a copy is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMethod {
    /// One run of elements: a vector a thread, the last tile by element.
    Flat,
    /// Any layouts: a thread a vector, its coordinates by division.
    Strided,
    /// A tile of the two contiguous modes through registers: one side of it is not coalesced.
    Naive,
    /// Through shared memory whose rows have one element more than they need.
    Padded,
    /// Through shared memory whose rows are swizzled.
    Swizzled,
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyMethod::Flat => "flat",
            CopyMethod::Strided => "strided",
            CopyMethod::Naive => "naive",
            CopyMethod::Padded => "padded",
            CopyMethod::Swizzled => "swizzled",
        })
    }
}

/// A copy with the kernel that it takes.
///
/// ```
/// use colex_gpu::kernels::{CopyPlan, Walk};
///
/// let row_major = "(4096,4096):(4096,1)".parse()?;
/// let transposed = "(4096,4096):(1,4096)".parse()?;
/// let walk = Walk::new(&row_major, &transposed)?;
/// let plan = CopyPlan::choose(&walk, 2, [0, 0]);
/// assert_eq!(plan.to_string(), "(4096,4096):(4096,1) -> (4096,4096):(1,4096) of 2 bytes: swizzled");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyPlan {
    walk: Walk,
    bytes: i64,
    vector: i64,
    method: CopyMethod,
}

/// The bytes of the widest access of a thread.
const WIDEST: i64 = 16;

impl CopyPlan {
    /// The plan with the fastest kernel that the layouts, the element's bytes and the addresses allow.
    pub fn choose(walk: &Walk, bytes: i64, addresses: [u64; 2]) -> CopyPlan {
        let by_speed = [CopyMethod::Flat, CopyMethod::Swizzled, CopyMethod::Strided];
        let plans = by_speed
            .into_iter()
            .map(|method| CopyPlan::new(walk, bytes, addresses, method));
        plans
            .flatten()
            .next()
            .expect("the strided kernel takes every copy")
    }

    /// The plan with that kernel.
    ///
    /// # Errors
    ///
    /// [`KernelError::Method`] if the kernel does not do such a copy.
    pub fn new(
        walk: &Walk,
        bytes: i64,
        addresses: [u64; 2],
        method: CopyMethod,
    ) -> Result<CopyPlan, KernelError> {
        let vector = match method {
            // The last tile goes by element, so that only the addresses narrow a vector.
            CopyMethod::Flat => widest(bytes, addresses),
            _ => walk.aligned_vector(bytes, WIDEST, addresses).unwrap_or(1),
        };
        let plan = CopyPlan {
            walk: walk.clone(),
            bytes,
            vector,
            method,
        };
        match plan.refusal() {
            None => Ok(plan),
            Some(why) => Err(KernelError::Method {
                method: method.to_string(),
                walk: walk.to_string(),
                why,
            }),
        }
    }

    /// Why the kernel does not do such a copy.
    fn refusal(&self) -> Option<String> {
        let flat = self.walk.steps().len() == 1 && self.vector_run() == self.walk.size();
        match self.method {
            CopyMethod::Flat if !flat => Some("the elements are not one run on both sides".into()),
            CopyMethod::Flat | CopyMethod::Strided => None,
            _ if self.crossed().is_none() => Some(
                "the source and the destination run fastest along one mode, or along none".into(),
            ),
            _ => None,
        }
    }

    fn vector_run(&self) -> i64 {
        match self.walk.steps()[0] {
            Step {
                extent,
                source: 1,
                destination: 1,
            } => extent,
            _ => 1,
        }
    }

    /// The loops.
    pub fn walk(&self) -> &Walk {
        &self.walk
    }

    /// The bytes of an element.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// The kernel.
    pub fn method(&self) -> CopyMethod {
        self.method
    }

    /// Elements of the widest access that both sides allow.
    pub fn vector(&self) -> i64 {
        self.vector
    }

    /// The loops in the order of the kernel's modes: those that run fastest in the source and in the destination
    /// first, where they are two.
    pub(super) fn ordered(&self) -> Vec<Step> {
        let mut steps = self.walk.steps().to_vec();
        let tiled = !matches!(self.method, CopyMethod::Flat | CopyMethod::Strided);
        if let (true, Some((source, destination))) = (tiled, self.crossed()) {
            let first = [steps[source], steps[destination]];
            let mut at = 0..;
            steps.retain(|_| at.next().is_some_and(|i| i != source && i != destination));
            steps.splice(0..0, first);
        }
        steps
    }

    /// The places among the loops of the mode that runs fastest in the source and of the one that does in the
    /// destination, where they are two.
    pub fn crossed(&self) -> Option<(usize, usize)> {
        let steps = self.walk.steps();
        let source = steps.iter().position(|step| step.source == 1)?;
        let destination = steps.iter().position(|step| step.destination == 1)?;
        (source != destination).then_some((source, destination))
    }
}

/// The widest vector, in elements, that both addresses are multiples of.
fn widest(bytes: i64, addresses: [u64; 2]) -> i64 {
    let fits = |vector: &i64| {
        let mut both = addresses.iter();
        both.all(|at| at.is_multiple_of((vector * bytes) as u64))
    };
    let vectors = (0..).map(|log| (WIDEST / bytes) >> log);
    let mut vectors = vectors.take_while(|vector| *vector > 1);
    vectors.find(fits).unwrap_or(1)
}

/// `source -> destination of 2 bytes: tma`.
impl fmt::Display for CopyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes: {}", self.walk, self.bytes, self.method)?;
        match self.method {
            CopyMethod::Flat | CopyMethod::Strided => {
                write!(f, ", {} bytes an access", self.vector * self.bytes)
            }
            _ => Ok(()),
        }
    }
}
