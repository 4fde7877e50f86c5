//! `CopyPlan`: which kernel a copy takes, and why.

use core::fmt;

use colex_atom::Arch;

use super::strided;
use super::tile;
use super::tma;
use super::tma::Squares;
use super::walk::{Step, Walk};
use crate::kernel_error::KernelError;
use colex_tensor::MAX_EXTENT;

/// How a copy is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMethod {
    /// One run of elements: a vector a thread, the last tile by element.
    Flat,
    /// One run of elements through shared memory, by the copy engine's bulk copies (sm_90).
    Bulk,
    /// Any layouts: a thread a vector, its coordinates by division.
    Strided,
    /// A tile of the two contiguous modes through registers: one side of it is not coalesced.
    Naive,
    /// Through shared memory whose rows have one element more than they need.
    Padded,
    /// Through shared memory whose rows are swizzled.
    Swizzled,
    /// Through swizzled shared memory, by tensor maps on both sides, and within it by matrices of 8x8 (16 bits) or
    /// micro-tiles of 4x4 (32 bits) (sm_90).
    Tma,
}

impl fmt::Display for CopyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyMethod::Flat => "flat",
            CopyMethod::Bulk => "bulk",
            CopyMethod::Strided => "strided",
            CopyMethod::Naive => "naive",
            CopyMethod::Padded => "padded",
            CopyMethod::Swizzled => "swizzled",
            CopyMethod::Tma => "tma",
        })
    }
}

/// A copy with the kernel that it takes.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::kernels::{CopyMethod, CopyPlan, Walk};
///
/// let row_major = "(4096,4096):(4096,1)".parse()?;
/// let transposed = "(4096,4096):(1,4096)".parse()?;
/// let walk = Walk::new(&row_major, &transposed)?;
/// let plan = CopyPlan::choose(&walk, 2, [0, 0], Arch::Sm90a)?;
/// assert_eq!(plan.to_string(), "(4096,4096):(4096,1) -> (4096,4096):(1,4096) of 2 bytes: tma");
/// assert_eq!(CopyPlan::choose(&walk, 2, [0, 0], Arch::Sm80)?.method(), CopyMethod::Swizzled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyPlan {
    walk: Walk,
    bytes: i64,
    vector: i64,
    method: CopyMethod,
    squares: Squares,
}

/// The bytes of the widest access of a thread.
const WIDEST: i64 = 16;

/// The blocks of a grid along y and z.
const GRID: i64 = 65_535;

/// What a tensor map's address and strides are multiples of, in bytes.
const MAP: i64 = 16;

impl CopyPlan {
    /// The plan with the fastest kernel that the layouts, the element's bytes, the addresses and the architecture allow.
    ///
    /// # Errors
    ///
    /// [`KernelError::Method`] for what no kernel copies, as the kernel that copies most says it: elements that are not of
    /// 1, 2, 4 or 8 bytes, addresses that are no multiples of them, and more elements than a launch counts.
    pub fn choose(
        walk: &Walk,
        bytes: i64,
        addresses: [u64; 2],
        arch: Arch,
    ) -> Result<CopyPlan, KernelError> {
        let by_speed = [CopyMethod::Flat, CopyMethod::Tma, CopyMethod::Swizzled];
        let mut plans = by_speed
            .into_iter()
            .map(|method| CopyPlan::new(walk, bytes, addresses, arch, method));
        let fastest = plans.find_map(Result::ok);
        fastest.map_or_else(
            || CopyPlan::new(walk, bytes, addresses, arch, CopyMethod::Strided),
            Ok,
        )
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
        arch: Arch,
        method: CopyMethod,
    ) -> Result<CopyPlan, KernelError> {
        let refused = |why| KernelError::Method {
            method: method.to_string(),
            walk: walk.to_string(),
            why,
        };
        check_elements(bytes, addresses).map_err(refused)?;
        let vector = match method {
            // First and last elements go one by one, so that only the addresses' distance narrows a vector.
            CopyMethod::Flat | CopyMethod::Bulk => widest(bytes, addresses),
            _ => walk.aligned_vector(bytes, WIDEST, addresses).unwrap_or(1),
        };
        // Two bytes have no place of their own in a register: one goes at a time, or four.
        let vector = if bytes * vector == 2 { 1 } else { vector };
        let plan = CopyPlan {
            walk: walk.clone(),
            bytes,
            vector,
            method,
            squares: tma::SQUARES,
        };
        plan.refusal(addresses, arch)
            .map_or(Ok(plan), |why| Err(refused(why)))
    }

    /// Why the kernel does not do such a copy.
    fn refusal(&self, addresses: [u64; 2], arch: Arch) -> Option<String> {
        let flat = self.walk.steps().len() == 1 && self.vector_run() == self.walk.size();
        match self.method {
            CopyMethod::Flat | CopyMethod::Bulk if !flat => {
                Some("the elements are not one run on both sides".into())
            }
            CopyMethod::Bulk if !Arch::Sm90.runs_on(arch) => {
                Some(format!("{arch} has no bulk copies"))
            }
            CopyMethod::Bulk if self.vector * self.bytes < MAP => Some(format!(
                "bulk copies go from and to multiples of {MAP} bytes, and the addresses do not meet there"
            )),
            CopyMethod::Flat | CopyMethod::Bulk => None,
            CopyMethod::Strided => self.count_refusal(),
            _ if self.crossed().is_none() => Some(
                "the source and the destination run fastest along one mode, or along none".into(),
            ),
            CopyMethod::Tma => self
                .tma_refusal(addresses, arch)
                .or_else(|| self.grid_refusal()),
            _ => self.grid_refusal(),
        }
    }

    /// The blocks of a tiled kernel: along the destination's fastest mode, along the source's, and around both.
    pub(crate) fn grid(&self) -> [i64; 3] {
        let steps = self.ordered();
        let [first, second] = self.tile();
        let along = |step: &Step, tile: i64| (step.extent - 1) / tile + 1;
        let around = steps[2..].iter().map(|step| step.extent).product();
        [along(&steps[1], second), along(&steps[0], first), around]
    }

    /// The tile of a block of a tiled kernel, along the source's fastest mode and the destination's.
    fn tile(&self) -> [i64; 2] {
        match self.method {
            CopyMethod::Tma => self.squares.tile(self.bytes),
            _ => [tile::TILE; 2],
        }
    }

    fn grid_refusal(&self) -> Option<String> {
        let [_, y, z] = self.grid();
        let most = y.max(z);
        (most > GRID)
            .then(|| {
                format!("the grid would have {most} blocks along y or z, and {GRID} is the most")
            })
            .or_else(|| self.extent_refusal())
    }

    /// A thread has the number of its vector in 32 bits.
    fn count_refusal(&self) -> Option<String> {
        let vectors = self.walk.size() / self.vector;
        (vectors > strided::MOST)
            .then(|| {
                let most = strided::MOST;
                format!("{vectors} vectors, and a launch of it counts {most} at most")
            })
            .or_else(|| self.extent_refusal())
    }

    fn extent_refusal(&self) -> Option<String> {
        let extents = self.walk.steps().iter().map(|step| step.extent);
        let extent = extents.max().filter(|extent| *extent > MAX_EXTENT)?;
        Some(format!("the extent {extent} is above {MAX_EXTENT}"))
    }

    /// The same plan with a block's tile of so many squares of 128 bytes along the source's fastest mode and along the
    /// destination's, for the kernel by tensor maps.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::kernels::{CopyMethod, CopyPlan, Walk};
    ///
    /// let walk = Walk::new(&"(256,256):(256,1)".parse()?, &"(256,256):(1,256)".parse()?)?;
    /// let plan = CopyPlan::new(&walk, 2, [0, 0], Arch::Sm90a, CopyMethod::Tma)?;
    /// assert!(plan.clone().with_squares([1, 2]).is_ok());
    /// assert_eq!(
    ///     plan.with_squares([1, 5]).unwrap_err().to_string(),
    ///     "the plan's number of squares along the destination is 5: the tma kernel takes 1 to 4"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`KernelError::Plan`] for numbers of squares that the kernel does not take; [`KernelError::PlanShares`] for those of 4
    /// bytes that are no power of two along the destination; [`KernelError::Method`] for another kernel, and for a grid that
    /// gets too large.
    pub fn with_squares(self, squares: [i64; 2]) -> Result<CopyPlan, KernelError> {
        let plan = CopyPlan {
            squares: Squares(squares),
            ..self
        };
        let refused = |why| KernelError::Method {
            method: plan.method.to_string(),
            walk: plan.walk.to_string(),
            why,
        };
        if plan.method != CopyMethod::Tma {
            return Err(refused("its tile is not made of squares".into()));
        }
        plan.squares.check(plan.bytes)?;
        match plan.grid_refusal() {
            None => Ok(plan),
            Some(why) => Err(refused(why)),
        }
    }

    pub(crate) fn squares(&self) -> Squares {
        self.squares
    }

    fn tma_refusal(&self, addresses: [u64; 2], arch: Arch) -> Option<String> {
        if !Arch::Sm90.runs_on(arch) {
            return Some(format!("{arch} has no tensor maps"));
        }
        if ![2, 4].contains(&self.bytes) {
            return Some(format!(
                "elements of {} bytes; 2 and 4 are done",
                self.bytes
            ));
        }
        if self.walk.steps().len() > 5 {
            return Some("a tensor map has at most 5 dimensions".into());
        }
        if let Some(why) = self.partial_unit() {
            return Some(why);
        }
        let strides = |step: &Step| [step.source, step.destination];
        let strides = self.walk.steps().iter().flat_map(strides);
        let uneven = strides
            .filter(|&stride| stride != 1)
            .find(|stride| stride * self.bytes % MAP != 0);
        if let Some(stride) = uneven {
            return Some(format!(
                "the stride {stride} is not a multiple of {MAP} bytes"
            ));
        }
        (!self.is_aligned(addresses))
            .then(|| format!("tensor maps need addresses at multiples of {MAP} bytes"))
    }

    /// A store by tensor map ends at a multiple of 16 bytes of the innermost dimension, not at its last element: seen on
    /// an H200, where it wrote zeros into the gap behind a row of 66 elements of 2 bytes.
    fn partial_unit(&self) -> Option<String> {
        let (_, destination) = self.crossed()?;
        let extent = self.walk.steps()[destination].extent;
        (extent * self.bytes % MAP != 0)
            .then(|| format!("a row of {extent} elements is no multiple of {MAP} bytes, and stores would go beyond it"))
    }

    fn is_aligned(&self, addresses: [u64; 2]) -> bool {
        addresses.iter().all(|at| at.is_multiple_of(MAP as u64))
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
    pub(crate) fn ordered(&self) -> Vec<Step> {
        let mut steps = self.walk.steps().to_vec();
        let tiled = !matches!(
            self.method,
            CopyMethod::Flat | CopyMethod::Bulk | CopyMethod::Strided
        );
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

/// Whether there are elements of that number of bytes, and they lie where such elements can.
fn check_elements(bytes: i64, addresses: [u64; 2]) -> Result<(), String> {
    if ![1, 2, 4, 8].contains(&bytes) {
        return Err(format!(
            "elements of {bytes} bytes; 1, 2, 4 and 8 are copied"
        ));
    }
    match addresses
        .into_iter()
        .find(|at| !at.is_multiple_of(bytes as u64))
    {
        None => Ok(()),
        Some(at) => Err(format!(
            "the address {at:#x} is not a multiple of {bytes} bytes"
        )),
    }
}

/// The widest vector, in elements, of which both sides reach a multiple at the same element.
fn widest(bytes: i64, addresses: [u64; 2]) -> i64 {
    let apart = addresses[0].abs_diff(addresses[1]);
    let vectors = (0..).map(|log| (WIDEST / bytes) >> log);
    let mut vectors = vectors.take_while(|vector| *vector > 1);
    let widest = vectors.find(|vector| apart.is_multiple_of((vector * bytes) as u64));
    widest.unwrap_or(1)
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
