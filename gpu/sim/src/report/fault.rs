//! `Fault`: an error that the simulator found in a kernel or its launch.

use core::fmt;
use std::panic::Location;

use super::Printed;

/// The kind of a [`Fault`].
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The kernel was not built for the launch.
    Launch,
    /// An access outside of the allocations, of the block's shared memory, or of the parameters.
    OutOfBounds,
    /// An address that is not a multiple of the access width.
    Misaligned,
    /// A read of memory or of a register that was never written.
    Uninitialised,
    /// A data race: two unordered accesses to one byte of memory, one of them a write.
    Race,
    /// Accesses through the generic and the asynchronous proxy without a proxy fence between them.
    MissingFence,
    /// Registers of a `wgmma` accessed before its `wgmma.wait_group`, or passed to it without `wgmma.fence`.
    InFlight,
    /// Deadlock: every warp waits, and no operation in flight can wake one.
    Deadlock,
    /// A block that ends while other blocks or asynchronous copies still use its shared memory.
    EarlyExit,
    /// A collective instruction that some of its threads do not execute.
    Divergence,
    /// An uninitialised barrier, or one that is used in a wrong way.
    Barrier,
    /// An operand that the instruction does not take.
    Operand,
    /// `trap`.
    Trap,
    /// More instructions than the options allow.
    Limit,
    /// An instruction that the simulator does not execute.
    Unsupported,
}

/// Where a fault was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The rank, in a launch on several devices ([`Ranks`](crate::Ranks)).
    pub rank: Option<u32>,
    /// The coordinates of the block in the grid.
    pub block: [u32; 3],
    /// The coordinates of the thread in its block; for a whole warp, those of its first thread.
    pub thread: [u32; 3],
    /// Whether the place is a whole warp.
    pub warp: bool,
    /// The instruction.
    pub instruction: String,
    /// The call of the builder that made it.
    pub at: &'static Location<'static>,
}

/// A flag that a rank waits for and that no rank sets any more.
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagWait {
    /// The rank that waits.
    pub rank: usize,
    /// The address of the flag.
    pub flag: u64,
    /// The rank whose memory holds the flag.
    pub owner: Option<usize>,
    /// The value of the flag.
    pub holds: u64,
}

/// An error of a kernel or its launch: what happened, in which thread, at which instruction, and which call of the
/// builder made the instruction.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::{Access, KernelBuilder, Space, Type};
/// use colex_sim::{FaultKind, Memory, SimOptions, simulate};
/// use colex_ir::launch::{Argument, Launch};
///
/// let mut k = KernelBuilder::new("stray", Arch::Sm80);
/// let data = k.pointer("data");
/// let address = k.param(data);
/// k.store(Access::new(Space::Global, Type::U32), address, 7);
/// let kernel = k.finish();
///
/// let mut memory = Memory::default();
/// let fault = simulate(&kernel, &Launch::new(1, 1), &[Argument::Pointer(64)], &mut memory, &SimOptions::default())
///     .unwrap_err();
/// assert_eq!(fault.kind(), FaultKind::OutOfBounds);
/// assert_eq!(fault.what(), "4 bytes at 0x40 are in no allocation, and the first begins above");
/// ```
#[derive(Clone, PartialEq)]
pub struct Fault(Box<Found>);

#[derive(Clone, Debug, PartialEq)]
struct Found {
    kind: FaultKind,
    what: String,
    place: Option<Place>,
    printed: Vec<Printed>,
    waiting: Vec<FlagWait>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, what: impl Into<String>) -> Fault {
        Fault(Box::new(Found {
            kind,
            what: what.into(),
            place: None,
            printed: Vec::new(),
            waiting: Vec::new(),
        }))
    }

    /// The same fault with another sentence.
    pub(crate) fn saying(&self, change: impl FnOnce(&str) -> String) -> Fault {
        let mut new = self.clone();
        new.0.what = change(&self.0.what);
        new
    }

    pub(crate) fn at(mut self, place: Place) -> Fault {
        self.0.place.get_or_insert(place);
        self
    }

    /// The same fault, of a launch that printed these lines before.
    pub(crate) fn after(mut self, printed: Vec<Printed>) -> Fault {
        self.0.printed = printed;
        self
    }

    /// The same fault, of ranks that wait for flags.
    pub(crate) fn waiting(mut self, waits: Vec<FlagWait>) -> Fault {
        self.0.waiting = waits;
        self
    }

    /// Returns the flags that ranks wait for, of a [`Deadlock`](FaultKind::Deadlock) of a launch on several devices: by
    /// rank and thread, in order.
    pub fn flag_waits(&self) -> &[FlagWait] {
        &self.0.waiting
    }

    /// Returns the rank of its place, in a launch on several devices.
    pub fn rank(&self) -> Option<usize> {
        self.place()
            .and_then(|place| place.rank)
            .map(|rank| rank as usize)
    }

    /// Returns the lines that the kernel printed before.
    pub fn printed(&self) -> &[Printed] {
        &self.0.printed
    }

    /// Returns its kind.
    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    /// Returns the sentence without the place.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// Returns where it happened; `None` if nothing was executed.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }
}

/// `(2,1,1)`.
fn tuple([x, y, z]: [u32; 3]) -> String {
    format!("({x},{y},{z})")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} of block {}{}, at `{}` ({}:{})",
            if self.warp {
                "the warp of thread"
            } else {
                "thread"
            },
            tuple(self.thread),
            tuple(self.block),
            self.rank
                .map_or(String::new(), |rank| format!(" of rank {rank}")),
            self.instruction,
            self.at.file(),
            self.at.line()
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.place {
            Some(place) => write!(f, "{place}: {}", self.0.what),
            None => f.write_str(&self.0.what),
        }
    }
}

impl std::error::Error for Fault {}

colex_layout::debug_as_display!(Fault);
