//! `CopyPlan`: the kernel of a copy, and the reasons for it.

use core::fmt;

use crate::error::{Error, ErrorKind};
use colex_atom::Arch;

use super::loop_nest::{Loop, LoopNest};
use super::tma::{self, Squares};
use colex_tensor::MAX_EXTENT;

/// The kernel family of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyMethod {
    /// One contiguous run: one vector per thread, the last tile element by element.
    Flat,
    /// One contiguous run through shared memory by bulk copies (sm_90).
    Bulk,
    /// Any layouts: one vector per thread, whose coordinates are computed by division.
    Strided,
    /// Tiles of the two contiguous modes through registers. The accesses of one side are not coalesced.
    Naive,
    /// Through shared memory with rows padded by one element.
    Padded,
    /// Through swizzled shared memory.
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

/// A copy with its kernel.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::kernels::{CopyMethod, CopyPlan, LoopNest};
///
/// let row_major = ((4096, 4096), (4096, 1));
/// let transposed = ((4096, 4096), (1, 4096));
/// let nest = LoopNest::new(row_major, transposed)?;
/// let plan = CopyPlan::choose(&nest, 2, [0, 0], Arch::Sm90a)?;
/// assert_eq!(plan.to_string(), "(4096,4096):(4096,1) -> (4096,4096):(1,4096) of 2 bytes: tma");
/// assert_eq!(CopyPlan::choose(&nest, 2, [0, 0], Arch::Sm80)?.method(), CopyMethod::Swizzled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyPlan {
    nest: LoopNest,
    bytes: i64,
    vector: i64,
    method: CopyMethod,
    squares: Squares,
}

/// The bytes of the widest access of a thread.
const WIDEST: i64 = 16;

/// The blocks of a grid along y and z.
const GRID: i64 = 65_535;

impl CopyPlan {
    /// Returns the plan with the fastest kernel that the layouts, the element's bytes, the addresses and the
    /// architecture allow.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel takes the copy: if elements are not of 1, 2, 4 or 8 bytes, if an address is not a
    /// multiple of their size, or if there are more elements than a launch counts. The error is that of the most
    /// general kernel.
    pub fn choose(
        nest: &LoopNest,
        bytes: i64,
        addresses: [u64; 2],
        arch: Arch,
    ) -> Result<CopyPlan, Error> {
        let by_speed = [CopyMethod::Flat, CopyMethod::Tma, CopyMethod::Swizzled];
        let mut plans = by_speed
            .into_iter()
            .map(|method| CopyPlan::new(nest, bytes, addresses, arch, method));
        let fastest = plans.find_map(Result::ok);
        fastest.map_or_else(
            || CopyPlan::new(nest, bytes, addresses, arch, CopyMethod::Strided),
            Ok,
        )
    }

    /// Returns the plan with the kernel of `method`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not take the copy.
    pub fn new(
        nest: &LoopNest,
        bytes: i64,
        addresses: [u64; 2],
        arch: Arch,
        method: CopyMethod,
    ) -> Result<CopyPlan, Error> {
        let refused = |why| {
            ErrorKind::Method {
                method: method.to_string(),
                nest: nest.to_string(),
                why,
            }
            .into()
        };
        check_elements(bytes, addresses).map_err(refused)?;
        let vector = match method {
            // First and last elements go one by one, so that only the addresses' distance narrows a vector.
            CopyMethod::Flat | CopyMethod::Bulk => widest(bytes, addresses),
            CopyMethod::Strided
            | CopyMethod::Naive
            | CopyMethod::Padded
            | CopyMethod::Swizzled
            | CopyMethod::Tma => nest.aligned_vector(bytes, WIDEST, addresses).unwrap_or(1),
        };
        // Two bytes have no place of their own in a register: one goes at a time, or four.
        let vector = if bytes * vector == 2 { 1 } else { vector };
        let plan = CopyPlan {
            nest: nest.clone(),
            bytes,
            vector,
            method,
            squares: tma::SQUARES,
        };
        let why = method.family().refusal(&plan, addresses, arch);
        why.map_or(Ok(plan), |why| Err(refused(why)))
    }

    /// The blocks of a tiled kernel: along the destination's fastest mode, along the source's, and around both.
    pub(crate) fn grid(&self) -> [i64; 3] {
        let loops = self.ordered();
        let [first, second] = self.method.family().tile(self).unwrap_or([1, 1]);
        let along = |step: &Loop, tile: i64| (step.extent - 1) / tile + 1;
        let around = loops[2..].iter().map(|step| step.extent).product();
        [along(&loops[1], second), along(&loops[0], first), around]
    }

    /// Why a grid of tiles is too large.
    pub(crate) fn grid_refusal(&self) -> Option<String> {
        let [_, y, z] = self.grid();
        let most = y.max(z);
        (most > GRID)
            .then(|| {
                format!("the grid would have {most} blocks along y or z, and {GRID} is the most")
            })
            .or_else(|| self.extent_refusal())
    }

    /// Why an extent is too large.
    pub(crate) fn extent_refusal(&self) -> Option<String> {
        let extents = self.nest.loops().iter().map(|step| step.extent);
        let extent = extents.max().filter(|extent| *extent > MAX_EXTENT)?;
        Some(format!("the extent {extent} is above {MAX_EXTENT}"))
    }

    /// Returns the same plan with a block's tile of `squares` squares of 128 bytes along the source's fastest mode and
    /// along the destination's, for the kernel by tensor maps.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::kernels::{CopyMethod, CopyPlan, LoopNest};
    ///
    /// let nest = LoopNest::new("(256,256):(256,1)", "(256,256):(1,256)")?;
    /// let plan = CopyPlan::new(&nest, 2, [0, 0], Arch::Sm90a, CopyMethod::Tma)?;
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
    /// Returns an error if the kernel does not take the numbers of squares, if no block has as much shared memory, if elements have
    /// 4 bytes and the number along the destination is not a power of two, if the plan has another kernel, or if the grid becomes too
    /// large.
    pub fn with_squares(self, squares: [i64; 2]) -> Result<CopyPlan, Error> {
        let plan = CopyPlan {
            squares: Squares(squares),
            ..self
        };
        let refused = |why| {
            ErrorKind::Method {
                method: plan.method.to_string(),
                nest: plan.nest.to_string(),
                why,
            }
            .into()
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

    /// Says in sentences which kernel copies, and how many bytes it moves.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::kernels::{CopyPlan, LoopNest};
    ///
    /// let rows = LoopNest::new(((64, 100), (0, 1)), ((64, 100), (100, 1)))?;
    /// assert_eq!(
    ///     CopyPlan::choose(&rows, 4, [0, 0], Arch::Sm80)?.explain(),
    ///     "(100,64):(1,0) -> (100,64):(1,100) of 4 bytes: strided, 16 bytes per access
    /// 26000 bytes must be moved: 100 elements are read, and 6400 are written."
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> String {
        let size = |steps: &dyn Fn(&Loop) -> bool| {
            let extents = self.nest.loops().iter().filter(|step| steps(step));
            extents.fold(1, |all: i64, step| all.saturating_mul(step.extent))
        };
        // A loop that the source does not move along reads one element again.
        let (read, written) = (size(&|step| step.source != 0), size(&|_| true));
        let bytes = read.saturating_add(written).saturating_mul(self.bytes);
        format!(
            "{self}\n{bytes} bytes must be moved: {read} elements are read, and {written} are written."
        )
    }

    /// Returns the loops.
    pub fn nest(&self) -> &LoopNest {
        &self.nest
    }

    /// Returns the bytes of an element.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Returns the kernel.
    pub fn method(&self) -> CopyMethod {
        self.method
    }

    /// Returns the number of elements of the widest access that both sides allow.
    pub fn vector(&self) -> i64 {
        self.vector
    }

    /// The loops in the order of the kernel's modes: those that run fastest in the source and in the destination
    /// first, where they are two.
    pub(crate) fn ordered(&self) -> Vec<Loop> {
        let mut loops = self.nest.loops().to_vec();
        let tiled = self.method.family().tile(self).is_some();
        if let (true, Some((source, destination))) = (tiled, self.crossed()) {
            let first = [loops[source], loops[destination]];
            let mut at = 0..;
            loops.retain(|_| at.next().is_some_and(|i| i != source && i != destination));
            loops.splice(0..0, first);
        }
        loops
    }

    /// Returns the places among the loops of the mode that runs fastest in the source and of the one that does in the
    /// destination, where they are two.
    pub fn crossed(&self) -> Option<(usize, usize)> {
        let loops = self.nest.loops();
        let source = loops.iter().position(|step| step.source == 1)?;
        let destination = loops.iter().position(|step| step.destination == 1)?;
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
        write!(f, "{} of {} bytes: {}", self.nest, self.bytes, self.method)?;
        match self.method {
            CopyMethod::Flat | CopyMethod::Strided => {
                write!(f, ", {} bytes per access", self.vector * self.bytes)
            }
            CopyMethod::Bulk
            | CopyMethod::Naive
            | CopyMethod::Padded
            | CopyMethod::Swizzled
            | CopyMethod::Tma => Ok(()),
        }
    }
}
