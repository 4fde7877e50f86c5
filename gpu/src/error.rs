//! The errors of library calls.

use core::fmt;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use colex_atom::{Arch, Ty};
use colex_device::Error as DeviceError;
use colex_ir::launch::ArgumentError;
use colex_ir::verify::Refused;
use colex_sim::{Fault, Schedule};

use crate::method::{AttentionMethod, Compute, GemmMethod};

colex_layout::opaque_error! {
    /// Why a call of the library has no result.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_gpu::{Device, Error};
    ///
    /// let device = Device::simulator(colex_atom::Arch::Sm80);
    /// let error = Error::from(device.zeros::<f32>(4)?.slice(2..9).unwrap_err());
    /// assert_eq!(
    ///     error.to_string(),
    ///     "elements 2..9 of a buffer of 4: the range must begin before it ends, and end by 4"
    /// );
    /// assert!(error.device().is_some_and(|error| !error.is_out_of_memory()));
    /// # Ok::<(), Error>(())
    /// ```
    #[derive(Clone, PartialEq)]
    pub struct Error(ErrorKind);
    from DeviceError, colex_tensor::Error;
}

/// The part of a plan that the kernel or the call refuses.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanRefusal {
    /// A number is out of its range.
    Number,
    /// The order of the tiles.
    Order,
    /// The width of an access.
    Vector,
    /// Numbers that together exceed a limit of the hardware.
    Limit,
    /// A tile that the threads of a block cannot share equally.
    Shares,
    /// The plan is for other operands than those of the call.
    Call,
    /// The plan states that its tiles divide the problem, and they do not.
    Whole,
    /// What the plan knows of its tensors: no kernel has such operands.
    Operands,
    /// The threads, registers or slots of the plan do not cover what the call needs of them.
    Cover,
    /// Parts that no kernel has together, or that the kernel of the plan's method does not have.
    Combination,
}

impl Error {
    /// Returns the rank that did not come to a [meeting](crate::ranks::Meeting), that is gone, or that did not end its part of a
    /// product in time, if that is the error.
    pub fn lost_rank(&self) -> Option<usize> {
        match self.kind() {
            ErrorKind::Ranks(RankError::Failure(why) | RankError::Over(why)) => match why {
                MeetingFailure::Late { rank, .. } | MeetingFailure::Gone { rank } => Some(*rank),
                _ => None,
            },
            ErrorKind::Ranks(RankError::Host(why)) => match why {
                HostError::Late { rank, .. }
                | HostError::Cut { rank, .. }
                | HostError::Absent { rank, .. }
                | HostError::NotCome { rank, .. }
                | HostError::Lost { rank, .. }
                | HostError::Unfinished { rank, .. } => Some(*rank),
                HostError::GaveUp { lost, .. } | HostError::Ended { lost, .. } => Some(*lost),
                _ => None,
            },
            _ => None,
        }
    }

    /// Why a product over devices is refused or has failed, if that is the error.
    pub(crate) fn of_host(&self) -> Option<&HostError> {
        match self.kind() {
            ErrorKind::Ranks(RankError::Host(why)) => Some(why),
            _ => None,
        }
    }

    /// Returns the device's error, if it is one.
    pub fn device(&self) -> Option<&DeviceError> {
        match self.kind() {
            ErrorKind::Device(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the error of building the kernel, if it is one: its layouts have no such partition.
    pub fn build(&self) -> Option<&colex_tensor::Error> {
        match self.kind() {
            ErrorKind::Build(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the part of the plan that is refused, if the plan is the reason.
    pub fn plan(&self) -> Option<PlanRefusal> {
        Some(match self.kind() {
            ErrorKind::Plan { .. } | ErrorKind::PlanPower { .. } | ErrorKind::PlanOneOf { .. } => {
                PlanRefusal::Number
            }
            ErrorKind::PlanOrder { .. } => PlanRefusal::Order,
            ErrorKind::PlanVector { .. }
            | ErrorKind::PlanAccess { .. }
            | ErrorKind::Elementwise(ElementwiseError::Vector { .. })
            | ErrorKind::Rowwise(
                RowwiseError::Asynchronous { .. }
                | RowwiseError::Bulk { .. }
                | RowwiseError::Gaps { .. }
                | RowwiseError::Spans { .. }
                | RowwiseError::Beside,
            )
            | ErrorKind::Quantise(
                QuantiseError::Asynchronous { .. } | QuantiseError::Gaps { .. },
            )
            | ErrorKind::Reduce(ReduceError::Stored { .. } | ReduceError::Gaps { .. }) => {
                PlanRefusal::Vector
            }
            ErrorKind::PlanLimit { .. } => PlanRefusal::Limit,
            ErrorKind::PlanFlag { .. } => PlanRefusal::Combination,
            ErrorKind::PlanShares { .. } => PlanRefusal::Shares,
            ErrorKind::PlanCall { .. }
            | ErrorKind::PlanInvariant { .. }
            | ErrorKind::PlanOther { .. } => PlanRefusal::Call,
            ErrorKind::PlanOperands { .. } => PlanRefusal::Operands,
            ErrorKind::Rowwise(
                RowwiseError::Columns { .. }
                | RowwiseError::Beyond { .. }
                | RowwiseError::Full { .. }
                | RowwiseError::Elements { .. }
                | RowwiseError::OfTeams { .. },
            )
            | ErrorKind::Quantise(QuantiseError::Held { .. } | QuantiseError::Elements { .. })
            | ErrorKind::Reduce(ReduceError::Inner { .. } | ReduceError::Covers { .. }) => {
                PlanRefusal::Cover
            }
            ErrorKind::PlanWhole { .. } => PlanRefusal::Whole,
            ErrorKind::Attention(why) => return why.part(),
            _ => return None,
        })
    }

    /// Returns whether a product over ranks is refused: its extents, its parts, or ranks that ask for different products.
    pub fn is_ranks_refused(&self) -> bool {
        matches!(self.kind(), ErrorKind::Ranks(_))
    }

    /// Returns whether no kernel multiplies matrices of these types, or none with this method or accumulator type.
    pub fn is_unsupported_product(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Types { .. } | ErrorKind::Product { .. } | ErrorKind::Compute { .. }
        )
    }

    /// Returns whether no kernel computes what the call asks for, or not the one that the call names, or not on this device: its
    /// types, head sizes, method or architecture. Other shapes, strides or numbers of the plan would not help, so a program takes
    /// another way.
    ///
    /// A plan that is refused is [`plan`](Error::plan). What groups, convolutions and epilogues are not combined with is
    /// [`is_groups_refused`](Error::is_groups_refused), [`is_convolution_refused`](Error::is_convolution_refused) and
    /// [`is_epilogue_refused`](Error::is_epilogue_refused).
    ///
    /// ```
    /// use colex_gpu::{Device, attention};
    /// use half::f16;
    ///
    /// let device = Device::open();
    /// let x = device.upload(&[f16::ONE; 7 * 80])?;
    /// let mut o = device.poisoned::<f16>(7 * 80)?;
    /// // (batch, head, sequence, feature): 7 queries and 7 keys of 80 features, which no kernel has.
    /// let rows = x.view((1, 1, 7, 80))?;
    /// let error = attention(&rows, &rows, &rows, &o.view_mut((1, 1, 7, 80))?).unwrap_err();
    /// assert!(error.is_unsupported() && error.to_string().starts_with("no kernel takes the call: "));
    /// // Keys of 64 features are wrong by themselves.
    /// let keys = x.view((1, 1, 7, 64))?;
    /// let error = attention(&rows, &keys, &rows, &o.view_mut((1, 1, 7, 80))?).unwrap_err();
    /// assert!(!error.is_unsupported());
    /// # Ok::<(), colex_gpu::Error>(())
    /// ```
    pub fn is_unsupported(&self) -> bool {
        match self.kind() {
            ErrorKind::Types { .. }
            | ErrorKind::Product { .. }
            | ErrorKind::Compute { .. }
            | ErrorKind::Method { .. } => true,
            ErrorKind::Device(error) => error.is_unsupported(),
            ErrorKind::Attention(why) => why.is_unsupported(),
            ErrorKind::Rowwise(why) => matches!(why, RowwiseError::Type { .. }),
            ErrorKind::Quantise(why) => {
                matches!(why, QuantiseError::From { .. } | QuantiseError::To { .. })
            }
            ErrorKind::Reduce(why) => matches!(
                why,
                ReduceError::Type { .. }
                    | ReduceError::Integers { .. }
                    | ReduceError::Result { .. }
                    | ReduceError::Sizes { .. }
            ),
            ErrorKind::Ranks(RankError::Host(why)) => matches!(
                why,
                HostError::NoAccess { .. }
                    | HostError::NoAtomics { .. }
                    | HostError::NoWay { .. }
                    | HostError::NoCollectives { .. }
                    | HostError::NoFlags { .. }
            ),
            ErrorKind::Ranks(_)
            | ErrorKind::Elementwise(_)
            | ErrorKind::Build(_)
            | ErrorKind::Strides { .. }
            | ErrorKind::Twice { .. }
            | ErrorKind::Undecided { .. }
            | ErrorKind::Shapes { .. }
            | ErrorKind::Overlap { .. }
            | ErrorKind::InSchedule { .. }
            | ErrorKind::Schedules { .. }
            | ErrorKind::Output { .. }
            | ErrorKind::Apart { .. }
            | ErrorKind::Lengths { .. }
            | ErrorKind::NotAMatrix { .. }
            | ErrorKind::Extents { .. }
            | ErrorKind::Batch { .. }
            | ErrorKind::Groups { .. }
            | ErrorKind::Convolution { .. }
            | ErrorKind::Empty { .. }
            | ErrorKind::Extent { .. }
            | ErrorKind::Resized { .. }
            | ErrorKind::LeadingDimension { .. }
            | ErrorKind::Factor { .. }
            | ErrorKind::Plan { .. }
            | ErrorKind::PlanOrder { .. }
            | ErrorKind::PlanVector { .. }
            | ErrorKind::PlanLimit { .. }
            | ErrorKind::PlanFlag { .. }
            | ErrorKind::PlanShares { .. }
            | ErrorKind::PlanPower { .. }
            | ErrorKind::PlanOneOf { .. }
            | ErrorKind::PlanOperands { .. }
            | ErrorKind::PlanOther { .. }
            | ErrorKind::PlanAccess { .. }
            | ErrorKind::PlanCall { .. }
            | ErrorKind::PlanInvariant { .. }
            | ErrorKind::PlanWhole { .. }
            | ErrorKind::Captured
            | ErrorKind::Workspace { .. }
            | ErrorKind::WorkspaceAddress { .. }
            | ErrorKind::Epilogue { .. }
            | ErrorKind::Plans { .. }
            | ErrorKind::Short { .. } => false,
        }
    }

    /// Returns whether the coordinates of a copy's source and destination do not correspond.
    pub fn is_shape_mismatch(&self) -> bool {
        matches!(self.kind(), ErrorKind::Shapes { .. })
    }

    /// Returns whether a capture of the stream forbids the call: it was not prepared before, or it packs a matrix into
    /// memory that the graph would share with later calls.
    pub fn is_capturing(&self) -> bool {
        match self.kind() {
            ErrorKind::Captured => true,
            ErrorKind::Device(error) => error.is_capturing(),
            _ => false,
        }
    }

    /// Returns whether the caller's workspace is too short or does not begin where it must.
    pub fn is_workspace_refused(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Workspace { .. } | ErrorKind::WorkspaceAddress { .. }
        )
    }

    /// Returns whether an epilogue is none, or is given other inputs and outputs than it has.
    pub fn is_epilogue_refused(&self) -> bool {
        matches!(self.kind(), ErrorKind::Epilogue { .. })
    }

    /// Returns whether a product is not computed in groups, or is given other numbers than its groups have.
    pub fn is_groups_refused(&self) -> bool {
        matches!(self.kind(), ErrorKind::Groups { .. })
    }

    /// Returns whether views or a plan are none of a convolution.
    pub fn is_convolution_refused(&self) -> bool {
        matches!(self.kind(), ErrorKind::Convolution { .. })
    }

    /// Returns whether an output shares bytes with what the kernel reads or writes.
    ///
    /// Of products, attention and copies, the bytes of a tensor are all from its first element to its last. Tensors whose elements
    /// interleave share bytes in this sense, even where they have no element in common.
    pub fn is_overlap(&self) -> bool {
        matches!(self.kind(), ErrorKind::Overlap { .. })
    }
}

/// `sentence`, `kind` and `diagnostics`, as the device's error has them.
///
/// The kinds of a call's own errors are `build` (a kernel was not built: one diagnostic, with file and line), `plan` and
/// `call`.
#[cfg(feature = "serde")]
impl serde::Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        if let Some(error) = self.device() {
            return error.serialize(to);
        }
        let kind = match (self.build(), self.plan()) {
            (Some(_), _) => "build",
            (None, Some(_)) => "plan",
            (None, None) => "call",
        };
        let mut fields = to.serialize_struct("Error", 3)?;
        fields.serialize_field("sentence", &self.to_string())?;
        fields.serialize_field("kind", kind)?;
        fields.serialize_field("diagnostics", &self.build().into_iter().collect::<Vec<_>>())?;
        fields.end()
    }
}

macro_rules! of_device {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Error {
            fn from(error: $ty) -> Error {
                DeviceError::from(error).into()
            }
        }
    )*};
}

of_device!(
    colex_layout::Error,
    colex_ir::Error,
    ArgumentError,
    Refused,
    colex_atom::Error,
    Fault,
    colex_sim::Error
);

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Build(#[from] colex_tensor::Error),
    #[error("{layout} has strides that are not integers: a kernel takes offsets in elements")]
    Strides { layout: String },
    #[error(
        "the destination {layout} has one element at several coordinates: which value stays would be a race"
    )]
    Twice { layout: String },
    #[error("{why}: a destination with one element at several coordinates would be a race")]
    Undecided { why: String },
    #[error(
        "a copy from the shape {from} into {to}: {why}; give both one shape, or permute one of them"
    )]
    Shapes {
        from: String,
        to: String,
        why: String,
    },
    #[error(
        "{output} lies at {:#x}..{:#x} and {operand} at {:#x}..{:#x}: a kernel's output must not overlap what it reads or writes, from the first element to the last",
        written.0, written.1, read.0, read.1
    )]
    Overlap {
        output: Cow<'static, str>,
        written: (u64, u64),
        operand: Cow<'static, str>,
        read: (u64, u64),
    },
    #[error("under the schedule {schedule:?}: {why}")]
    InSchedule { schedule: Schedule, why: String },
    #[error(
        "the results under the schedules Latest and {schedule:?} differ: a correct kernel has the same under every schedule"
    )]
    Schedules { schedule: Schedule },
    #[error(
        "element {index} of an output of {length} {}",
        if *is_inside { "was not written" } else { "was written, and lies outside of it" }
    )]
    Output {
        index: i64,
        length: usize,
        is_inside: bool,
    },
    #[error(
        "element {index} is {found} and should be {expected}: a difference of {allowed:.3e} is allowed"
    )]
    Apart {
        index: usize,
        found: f64,
        expected: f64,
        allowed: f64,
    },
    #[error("{found} elements, and {expected} are expected")]
    Lengths { found: usize, expected: usize },
    #[error("the {method} kernel does not copy {nest}: {why}")]
    Method {
        method: String,
        nest: String,
        why: String,
    },
    #[error(
        "{what} has the shape {shape}: a matrix has two modes, A (M,K), B (N,K) and C (M,N), and further ones are a batch"
    )]
    NotAMatrix { what: &'static str, shape: String },
    #[error(
        "{extent} is {} in {} and {} in {}: A is (M,K), B (N,K) and C (M,N)",
        found[0], matrices[0], found[1], matrices[1]
    )]
    Extents {
        extent: &'static str,
        matrices: [&'static str; 2],
        found: [i64; 2],
    },
    #[error("batch: {why}")]
    Batch { why: String },
    #[error("groups: {why}")]
    Groups { why: String },
    #[error("convolution: {why}")]
    Convolution { why: String },
    #[error("{what} is 0: the extents of a layout are at least 1")]
    Empty { what: &'static str },
    #[error("{what} is {extent}: it must be 0 to {most}")]
    Extent {
        what: &'static str,
        extent: i64,
        most: i64,
    },
    #[error("{name} has the layout {layout}, and cannot have another shape: {why}")]
    Resized {
        name: String,
        layout: String,
        why: String,
    },
    #[error("{what} is {found}: it must be at least {over}, which is {least}")]
    LeadingDimension {
        what: &'static str,
        found: i64,
        least: i64,
        over: &'static str,
    },
    #[error("no kernel multiplies {ab} into {c}: C must be {}", one_of(can))]
    Types { ab: Ty, c: Ty, can: &'static [Ty] },
    #[error(
        "the {method} kernel does not multiply {ab}, {} of A and {} of B at once, on {arch}: it takes {}{}, and needs \
         {since}",
        vectors[0], vectors[1], one_of(types), whole_vectors(*method)
    )]
    Product {
        method: GemmMethod,
        ab: Ty,
        /// Elements of A and of B that an access takes at once.
        vectors: [i64; 2],
        arch: Arch,
        types: &'static [Ty],
        since: Arch,
    },
    #[error(
        "products of {ab} are not computed in {compute}: they are in {}",
        one_of(can)
    )]
    Compute {
        ab: Ty,
        compute: Compute,
        can: &'static [Compute],
    },
    #[error(
        "{what} is {value}, and f32 holds {:e} to {:e} in size: products of {ab} are scaled in f32",
        f32::from_bits(1),
        f32::MAX
    )]
    Factor {
        what: &'static str,
        value: String,
        ab: Ty,
    },
    #[error("the plan's {what} is {found}: the {method} kernel takes {}", range(*least, *most, *step))]
    Plan {
        method: String,
        what: &'static str,
        found: i64,
        least: i64,
        most: i64,
        step: i64,
    },
    #[error(
        "the plan's order is {order}: the {method} kernel takes grouped orders, for example grouped 8 along m"
    )]
    PlanOrder {
        method: String,
        order: colex_sched::Order,
    },
    #[error(
        "the plan's {what} is {found}: an access takes a power of two, 1 to {most} elements of {ty}"
    )]
    PlanVector {
        what: &'static str,
        found: i64,
        ty: Ty,
        most: i64,
    },
    #[error(
        "the plan asks for {found} {what}: the {method} kernel takes at most {most}, {} fewer",
        found - most
    )]
    PlanLimit {
        method: String,
        what: &'static str,
        found: i64,
        most: i64,
    },
    #[error("{why}")]
    PlanFlag { why: String },
    #[error(
        "the {threads} threads of the plan's block have no equal shares of {operand}'s tile of {} x {} elements, which \
         the {method} kernel needs",
        tile[0], tile[1]
    )]
    PlanShares {
        method: String,
        operand: &'static str,
        tile: [i64; 2],
        threads: i64,
    },
    #[error("the plan's {what} is {found}: the {method} kernel takes a power of two, 1 to {most}")]
    PlanPower {
        method: String,
        what: &'static str,
        found: i64,
        most: i64,
    },
    #[error(
        "the plan's {what} is {found}: the {method} kernel takes {}",
        one_of(can)
    )]
    PlanOneOf {
        method: String,
        what: &'static str,
        found: i64,
        can: Vec<i64>,
    },
    #[error("the operands of the plan are `{operands}`: {must}")]
    PlanOperands {
        operands: String,
        must: &'static str,
    },
    #[error("the plan was made for another call: {plan} in the plan and {call} in the call")]
    PlanOther { plan: String, call: String },
    #[error(
        "the plan's accesses take {plan} elements: addresses, strides and {by} of the call allow {call}"
    )]
    PlanAccess {
        plan: i64,
        call: i64,
        by: &'static str,
    },
    #[error(
        "the plan was made for another product: {what} {plan} in the plan and {call} in the call"
    )]
    PlanCall {
        what: &'static str,
        plan: String,
        call: String,
    },
    #[error(
        "the product is batch-invariant, and the plan's {what} is {plan}: with {wanted} the bits of a row do not depend on the number of rows"
    )]
    PlanInvariant {
        what: &'static str,
        plan: String,
        wanted: String,
    },
    #[error(
        "the plan says that its tiles divide the problem, and {tile} does not divide {what}, which is {extent}: leave \
         `whole` false"
    )]
    PlanWhole {
        what: &'static str,
        tile: i64,
        extent: i64,
    },
    #[error(
        "the product needs memory of its own (packed matrices, parts of factors, columns of a convolution, elements to be \
         reduced, or a table of addresses), which a capture cannot allocate: prepare it before the capture with \
         `Gemm::prepare` or `Gemm::prepare_in`, and keep it as long as the graph"
    )]
    Captured,
    #[error(
        "the workspace has {found} bytes, and the {} needs {need}: `{}::workspace` returns that number",
        of[0], of[1]
    )]
    Workspace {
        /// What is computed, and the type that describes the call.
        of: [&'static str; 2],
        found: usize,
        need: usize,
    },
    #[error("the workspace begins at {address:#x}, which is not a multiple of {need} bytes")]
    WorkspaceAddress { address: u64, need: u64 },
    #[error(transparent)]
    Attention(#[from] AttentionError),
    #[error(transparent)]
    Rowwise(#[from] RowwiseError),
    #[error(transparent)]
    Elementwise(#[from] ElementwiseError),
    #[error(transparent)]
    Quantise(#[from] QuantiseError),
    #[error(transparent)]
    Ranks(#[from] RankError),
    #[error(transparent)]
    Reduce(#[from] ReduceError),
    #[error("epilogue: {why}")]
    Epilogue { why: String },
    #[error("the file of plans {path} cannot be used: {why}")]
    Plans { path: String, why: String },
    #[error("{what} needs {need} elements, and its buffer has {length}")]
    Short {
        what: &'static str,
        need: i64,
        length: usize,
    },
}

/// Why attention is not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum AttentionError {
    #[error("attention of {ty}: Q, K, V and O must be f16 or bf16")]
    Type { ty: Ty },
    #[error(
        "Q has {heads} heads and K has {of_keys}: the heads of Q must be a multiple of those of K"
    )]
    Heads { heads: i64, of_keys: i64 },
    #[error("{length} {what}: there must be 0 to {most}")]
    Length {
        what: &'static str,
        length: i64,
        most: i64,
    },
    #[error("the range of {what} is {first}..={last}: its numbers must ascend, from 0 to {most}")]
    Range {
        what: &'static str,
        first: i64,
        last: i64,
        most: i64,
    },
    #[error("the features of {what} have the stride {stride}: it must be 1")]
    Feature { what: &'static str, stride: i64 },
    #[error("the stride of {what} along {mode} is {stride}: it must be 0 to {most}")]
    Stride {
        what: &'static str,
        mode: &'static str,
        stride: i64,
        most: i64,
    },
    #[error("the queries lie in pages: only keys and values do")]
    PagedQueries,
    #[error(
        "pages of {rows} rows: kernels take pages of {least} to {most} rows, in multiples of {least}"
    )]
    Page { rows: i64, least: i64, most: i64 },
    #[error(
        "the table has {} of {rows} rows for each sequence, {} keys, and the largest number of keys (`most`) is {most}: it must be at \
         most {}, or the table must have {}",
        counted((*entries, "page")),
        entries.saturating_mul(*rows),
        entries.saturating_mul(*rows),
        counted((most / rows + i64::from(most % rows > 0), "page"))
    )]
    Room {
        entries: i64,
        /// The rows of a page, at least 1.
        rows: i64,
        most: i64,
    },
    #[error(
        "the pool has no pages, and the largest number of keys (`most`) is {most}: it must be 0, or the pool must have a page"
    )]
    Pool { most: i64 },
    #[error(
        "mode {mode} of {what} {layout} has no single stride: each mode of {must} must have one"
    )]
    NoStride {
        what: &'static str,
        mode: usize,
        layout: String,
        must: &'static str,
    },
    #[error(
        "{what} {layout} has one element at several coordinates{}: which value stays would be a race",
        still(modes)
    )]
    Twice {
        what: &'static str,
        layout: String,
        /// The modes with the stride 0.
        modes: Vec<usize>,
    },
    #[error("Q and K have 0 features: kernels take heads of {can} features")]
    NoFeatures { can: String },
    #[error(
        "the call has key offsets and pages of keys: the keys of a sequence lie in rows or in pages"
    )]
    OffsetsAndPages,
    #[error("{what} is {value}: it must be {least:?} to {most:?}")]
    Number {
        what: &'static str,
        value: f32,
        least: f32,
        most: f32,
    },
    #[error("{why}")]
    Plan { part: PlanRefusal, why: String },
    #[error("{why}")]
    Unbuilt { why: String },
    #[error("{why}")]
    Launch { why: String },
    #[error("{}: the {method} kernel takes heads of {can} features", heads_of(*features))]
    Features {
        method: AttentionMethod,
        features: [i64; 2],
        can: String,
    },
    #[error("the {method} kernel runs since {since}, and not on {arch}")]
    Arch {
        method: AttentionMethod,
        since: Arch,
        arch: Arch,
    },
    #[error("the plan was made for another call: {what} {plan} in the plan and {call} in the call")]
    PlanCall {
        what: &'static str,
        plan: String,
        call: String,
    },
    #[error(
        "the plan packs {packs} heads of Q: it must be a divisor of {group}, the heads of Q for each head of K"
    )]
    Packs { packs: i64, group: i64 },
    #[error("{what} has the shape {shape}: it must be {must}")]
    Shape {
        what: &'static str,
        shape: String,
        must: &'static str,
    },
    #[error(
        "{extent} is {} in {} and {} in {}",
        found[0], tensors[0], found[1], tensors[1]
    )]
    Extents {
        extent: &'static str,
        tensors: [&'static str; 2],
        found: [i64; 2],
    },
}

impl AttentionError {
    /// The error of a part of a plan.
    pub(crate) fn plan(part: PlanRefusal, why: impl Into<String>) -> AttentionError {
        let why = why.into();
        AttentionError::Plan { part, why }
    }

    /// The part of the plan that is refused, if the plan is the reason.
    fn part(&self) -> Option<PlanRefusal> {
        Some(match self {
            AttentionError::Plan { part, .. } => *part,
            AttentionError::PlanCall { .. } => PlanRefusal::Call,
            AttentionError::Packs { .. } => PlanRefusal::Number,
            AttentionError::Type { .. }
            | AttentionError::Heads { .. }
            | AttentionError::Length { .. }
            | AttentionError::Range { .. }
            | AttentionError::Feature { .. }
            | AttentionError::Stride { .. }
            | AttentionError::PagedQueries
            | AttentionError::Page { .. }
            | AttentionError::Room { .. }
            | AttentionError::Pool { .. }
            | AttentionError::NoStride { .. }
            | AttentionError::Twice { .. }
            | AttentionError::NoFeatures { .. }
            | AttentionError::OffsetsAndPages
            | AttentionError::Number { .. }
            | AttentionError::Unbuilt { .. }
            | AttentionError::Launch { .. }
            | AttentionError::Features { .. }
            | AttentionError::Arch { .. }
            | AttentionError::Shape { .. }
            | AttentionError::Extents { .. } => return None,
        })
    }

    /// Whether no kernel computes what the call asks for, or not the one that it names.
    fn is_unsupported(&self) -> bool {
        match self {
            AttentionError::Type { .. }
            | AttentionError::PagedQueries
            | AttentionError::Unbuilt { .. }
            | AttentionError::NoFeatures { .. }
            | AttentionError::Features { .. }
            | AttentionError::Arch { .. } => true,
            AttentionError::Page { .. }
            | AttentionError::Room { .. }
            | AttentionError::Pool { .. }
            | AttentionError::NoStride { .. }
            | AttentionError::Twice { .. }
            | AttentionError::Heads { .. }
            | AttentionError::Length { .. }
            | AttentionError::Range { .. }
            | AttentionError::Feature { .. }
            | AttentionError::Stride { .. }
            | AttentionError::OffsetsAndPages
            | AttentionError::Number { .. }
            | AttentionError::Plan { .. }
            | AttentionError::Launch { .. }
            | AttentionError::PlanCall { .. }
            | AttentionError::Packs { .. }
            | AttentionError::Shape { .. }
            | AttentionError::Extents { .. } => false,
        }
    }
}

/// What is said of the modes of an output that stay at one element.
fn still(modes: &[usize]) -> String {
    match modes {
        [] => String::new(),
        [mode] => format!(", since its mode {mode} has the stride 0"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!(
                ", since its modes {} and {last} have the stride 0",
                first.join(", ")
            )
        }
    }
}

impl From<AttentionError> for Error {
    fn from(why: AttentionError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// Why a function of rows is not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum RowwiseError {
    #[error("functions of rows of {ty}: the tensors must be f32, f16 or bf16")]
    Type { ty: Ty },
    #[error("the {function} has no {what}: norms have one")]
    Tensor {
        function: String,
        what: &'static str,
    },
    #[error("{what} has the shape {found}, and x {x}: both must be equal")]
    Shape {
        what: &'static str,
        found: String,
        x: String,
    },
    #[error("{what} has the shape {found}: it must be {columns}, the columns of x {x}")]
    OfColumns {
        what: &'static str,
        found: String,
        columns: i64,
        x: String,
    },
    #[error("the columns of {layout} have several strides: they must have one")]
    ColumnStrides { layout: String },
    #[error(
        "{layout} has a mode with several strides, whose parts another tensor does not have: give the parts as modes"
    )]
    Modes { layout: String },
    #[error(
        "mode {mode} is named, and the tensors have {}: modes are counted from 0",
        modes(*rank)
    )]
    Mode { mode: usize, rank: usize },
    #[error("x has the shape {x}, which has no mode of columns: it must have at least one mode")]
    Rank { x: String },
    #[error("a stride of {what} is {stride}: it must be at most {most} in size")]
    Stride {
        what: &'static str,
        stride: i64,
        most: i64,
    },
    #[error("epsilon is {value}: it must be a number that is at least 0")]
    Epsilon { value: f32 },
    #[error(
        "the plan holds rows of up to {all} columns, and the call has {columns}: more threads or accesses hold them, or rows in \
         passes"
    )]
    Columns { all: i64, columns: i64 },
    #[error(
        "the plan's last tile begins {beyond} columns behind the row: it may begin {most} behind it"
    )]
    Beyond { beyond: i64, most: i64 },
    #[error(
        "the plan's registers and shared memory hold rows that reach into the last chunk, of more than {full} columns, and the call has \
         {columns}: a plan of fewer chunks takes it"
    )]
    Full { full: i64, columns: i64 },
    #[error(
        "the plan's accesses go to shared memory by asynchronous copies: these take 4, 8 or 16 bytes, and architectures since \
         sm_80 have them (this one is {arch})"
    )]
    Asynchronous { arch: Arch },
    #[error(
        "the plan's groups take rows in turn that bulk copies bring: accesses take 16 bytes, and architectures since sm_90 have \
         these copies (this one is {arch})"
    )]
    Bulk { arch: Arch },
    #[error(
        "the plan's blocks are in teams, which count up to {most} rows, and the call has {rows}: a plan of clusters or in passes has \
         no such limit"
    )]
    OfTeams { rows: i64, most: i64 },
    #[error(
        "the plan's rows are shifted: the tensors of rows must begin at a multiple of the plan's accesses, each row where the one \
         before it ends, and have at most {most} elements"
    )]
    Gaps { most: i64 },
    #[error(
        "the plan's rows are staged in shared memory: the tensors of rows must begin at a multiple of the plan's accesses, each row where \
         the one before it ends, and have at most {most} elements"
    )]
    Spans { most: i64 },
    #[error(
        "the plan's rows lie beside each other: a mode of the rows must have the stride 1 in every tensor with rows, and columns another \
         one"
    )]
    Beside,
    #[error(
        "the plan's threads take staged rows of more than {full} columns, and the call has {columns}: fewer accesses take it"
    )]
    Elements { full: i64, columns: i64 },
}

impl From<RowwiseError> for Error {
    fn from(why: RowwiseError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// Why an elementwise call is not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ElementwiseError {
    #[error("map: {why}")]
    Map { why: String },
    #[error("{name} has the shape {found}, and {other} {shape}: {why}")]
    Shape {
        name: String,
        found: String,
        other: String,
        shape: String,
        why: String,
    },
    #[error("the {of} make {found} {what}: a kernel takes at most {most}")]
    Many {
        of: &'static str,
        what: &'static str,
        found: usize,
        most: usize,
    },
    #[error("a stride of {name} is {stride}: it must be at most {most} in size")]
    Stride {
        name: String,
        stride: i64,
        most: i64,
    },
    #[error(
        "{output} and {input} lie at the same address with the layouts {written} and {read}: in place both have one layout and \
         elements of one size"
    )]
    InPlace {
        output: String,
        input: String,
        written: String,
        read: String,
    },
    #[error(
        "the plan's vector is {plan} elements: extents, strides and types of the call allow a power of two up to {call}"
    )]
    Vector { plan: i64, call: i64 },
    #[error("gather: {why}")]
    Gather { why: String },
    #[error("rotary embedding: {why}")]
    Rotary { why: String },
}

impl From<ElementwiseError> for Error {
    fn from(why: ElementwiseError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// Why a product over ranks is not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum RankError {
    #[error("{name}: {why}")]
    Operand {
        name: &'static str,
        why: colex_sched::Error,
    },
    #[error("{name} has {modes} modes: the operands of a product over ranks are matrices")]
    NoMatrix { name: &'static str, modes: usize },
    #[error("{name} is over {given} ranks, and A over {ranks}")]
    OtherRanks {
        name: &'static str,
        given: i64,
        ranks: i64,
    },
    #[error("{name} has {given} {of}, and {other} has {wanted}")]
    Extent {
        name: &'static str,
        given: i64,
        of: &'static str,
        other: &'static str,
        wanted: i64,
    },
    #[error(
        "{name} has the layout {layout}, which is no placement: a product over ranks takes a matrix that is sharded along one mode, or \
         replicated"
    )]
    NoPlacement { name: &'static str, layout: String },
    #[error(
        "A {a}, B {b}, C {c}: a product over ranks takes A and B sharded along mode 0 for C sharded along mode 1, or A and B sharded \
         along mode 1 for C sharded along mode 0 or replicated"
    )]
    NoProduct { a: String, b: String, c: String },
    #[error("{name} of {problem} is too large: a rank counts up to 2^31 - 1")]
    Large { name: &'static str, problem: String },
    #[error(
        "rank {rank} asks for {problem}, and rank 0 for {first}: all ranks compute one product"
    )]
    Disagree {
        rank: usize,
        problem: String,
        first: String,
    },
    #[error("{given} {name} for {ranks} ranks: there must be one for each")]
    Parts {
        name: &'static str,
        given: usize,
        ranks: i64,
    },
    #[error("the part of {name} of rank {rank} has {given} elements: it must have {wanted}")]
    Part {
        name: &'static str,
        rank: usize,
        given: usize,
        wanted: i64,
    },
    #[error("a machine of {ranks} ranks, and the plan is for {plan}")]
    Machine { ranks: usize, plan: i64 },
    #[error("rank {rank} of {ranks} ranks, numbered from 0")]
    NoRank { rank: usize, ranks: usize },
    #[error("round {round}: rounds count from 1 to {most}")]
    Round { round: u32, most: i64 },
    #[error("a meeting of {ranks} ranks: it has 1 to {most}")]
    Meeting { ranks: usize, most: usize },
    #[error("{bytes} bytes for the other ranks of a meeting: a rank gives at most {most}")]
    Bytes { bytes: usize, most: usize },
    #[error("rank 0 of the meeting cannot be reached at {address} within {within:?}: {why}")]
    Unreachable {
        address: SocketAddr,
        within: Duration,
        why: String,
    },
    #[error("rank 0 cannot listen: {why}")]
    Listen { why: String },
    #[error("{address} is no rank 0 of a meeting: it answers in another way")]
    NotRankZero { address: SocketAddr },
    #[error(transparent)]
    Failure(#[from] MeetingFailure),
    #[error("the meeting has failed before: {0}")]
    Over(MeetingFailure),
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Why a product over devices is refused, or has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum HostError {
    #[error("{given} devices: a product takes 1 to {most}, one for each rank")]
    Devices { given: usize, most: usize },
    #[error(
        "rank {rank}, {name}, is {found}, and rank 0 is {first}: the kernels of all ranks are those of one architecture"
    )]
    Archs {
        rank: usize,
        name: String,
        found: String,
        first: String,
    },
    #[error(
        "rank {from}, {device}, has no access to the memory of rank {to}, {peer}: without it no copy goes from one to the other"
    )]
    NoAccess {
        from: usize,
        to: usize,
        device: String,
        peer: String,
    },
    #[error(
        "rank {from}, {device}, does no atomic operations in the memory of rank {to}, {peer}: kernels that add to its sums need them, and \
         slots do not"
    )]
    NoAtomics {
        from: usize,
        to: usize,
        device: String,
        peer: String,
    },
    #[error(
        "rank {from}, {device}, has no access to the memory of rank {to}, {peer}, and there are no collectives of NCCL: {why}"
    )]
    NoWay {
        from: usize,
        to: usize,
        device: String,
        peer: String,
        why: String,
    },
    #[error("{reason}, and there are no collectives of NCCL: {why}")]
    NoCollectives { reason: String, why: String },
    #[error(
        "rank {rank} is on another host than rank 0: none has access to the memory of the other"
    )]
    OtherHost { rank: usize },
    #[error("rank {rank} has no access to the memory of the others: {why}")]
    Closed { rank: usize, why: String },
    #[error("the path {path} is not taken here: some ranks are simulated, and some are GPUs")]
    Mixed { path: String },
    #[error("{problem}, and there are {given} devices: each rank has one")]
    Ranks { problem: String, given: usize },
    #[error("{found} gathers no A: {wanted} does")]
    NoGather { found: String, wanted: String },
    #[error(
        "{pieces} pieces of a chunk of {rows} rows: the number must divide the rows, and be at most {most}"
    )]
    Pieces { pieces: i64, rows: i64, most: i64 },
    #[error(
        "{early} early slots of the {others} of other ranks: at least one is early, and at least one is not"
    )]
    Early { early: i64, others: i64 },
    #[error("the path {path} is not taken here: {why}")]
    Path { path: String, why: &'static str },
    #[error(
        "N is {n}, and on the path {path} a kernel stores rows of whole vectors of 16 bytes: N must be a multiple of {multiple} elements \
         of {ty}, and {next} is the next one; the paths {others} take any N"
    )]
    Columns {
        n: i64,
        ty: Ty,
        multiple: i64,
        next: i64,
        path: String,
        others: String,
    },
    #[error("no kernel takes the product on the path {path}: {why}")]
    NoKernel { path: String, why: String },
    #[error("{overlap} has no terms: `{option}` is an option of a sum over ranks")]
    NoTerms {
        overlap: String,
        option: &'static str,
    },
    #[error(
        "rank {rank} has not ended within {within:?}: its flags are released, and what was computed is of no use"
    )]
    Late { rank: usize, within: Duration },
    #[error(
        "rank {rank} has not ended within {within:?}: the communicators are aborted, and what was computed is of no use"
    )]
    Cut { rank: usize, within: Duration },
    #[error("the collectives have failed before: {why}")]
    Failed { why: String },
    #[error("the product has failed before: its flags are released, and a new one has new flags")]
    Over,
    #[error(
        "rank {rank}, {name}: its driver's streams set no flags, by which ranks of different processes tell each other how far they are"
    )]
    NoFlags { rank: usize, name: String },
    #[error(
        "rank {rank} {does}, and rank 0 {first}: all ranks make the same calls in the same order"
    )]
    Steps {
        rank: usize,
        does: &'static str,
        first: &'static str,
    },
    #[error("rank {rank} has no part of the product: {why}")]
    Refused { rank: usize, why: String },
    #[error("rank {rank} is a simulator of another process, which shares no memory")]
    Elsewhere { rank: usize },
    #[error(
        "rank {rank} did not come to round {round} within {within:?}{}: the flags of this rank are released, and what it computed is of no use",
        or_order(*products)
    )]
    Absent {
        rank: usize,
        round: u32,
        within: Duration,
        /// The products of this rank.
        products: usize,
    },
    #[error(
        "rank {rank} came to round {round} and did not end its part within {within:?}{}: the flags of this rank are released, and what it computed is of no use",
        or_order(*products)
    )]
    Unfinished {
        rank: usize,
        round: u32,
        within: Duration,
        /// The products of this rank.
        products: usize,
    },
    #[error(
        "rank {rank} did not come to a collective within {within:?}: the communicator of this rank is aborted, and what it computed is of \
         no use"
    )]
    NotCome { rank: usize, within: Duration },
    #[error(
        "{gone}, and {why}: the communicator of this rank is aborted, and what it computed is of no use"
    )]
    Lost {
        rank: usize,
        /// What the meeting knows of the rank.
        gone: String,
        why: String,
    },
    #[error("rank {rank} has given up, {}: what was computed since the last wait is of no use", because(*rank, *lost))]
    GaveUp { rank: usize, lost: usize },
    #[error("the products of this rank have failed before, {}: their flags are released", because(*rank, *lost))]
    Ended { rank: usize, lost: usize },
    #[error("rank {rank} ran {} where this rank ran {}: all ranks run their rounds in one order", round_of(*there), round_of(*here))]
    Order {
        rank: usize,
        /// The round of that rank, and the number of its product.
        there: [u32; 2],
        /// Those of this rank.
        here: [u32; 2],
    },
    #[error("rank {rank} leaves the others with a product: drop all products before")]
    Alive { rank: usize },
}

/// A round of a product.
fn round_of([round, product]: [u32; 2]) -> String {
    format!("round {round} of product {product}")
}

/// What else may hold up a rank that has several products by memory.
fn or_order(products: usize) -> String {
    match products {
        0 | 1 => String::new(),
        products => format!(
            ", or the ranks do not run the rounds of their {products} products in one order"
        ),
    }
}

/// Why a rank has given up.
fn because(rank: usize, lost: usize) -> String {
    if rank == lost {
        "because of a failure of its own".to_string()
    } else {
        format!("because rank {lost} was late or gone")
    }
}

impl From<HostError> for Error {
    fn from(why: HostError) -> Error {
        RankError::from(why).into()
    }
}

/// Why a meeting of ranks failed: in numbers, so that rank 0 can tell the other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MeetingFailure {
    #[error("rank {rank} did not come within {within:?}{}", refused(*strangers))]
    Late {
        rank: usize,
        within: Duration,
        /// Connections that were none of a rank.
        strangers: usize,
    },
    #[error("rank {rank} is gone: its connection has ended")]
    Gone { rank: usize },
    #[error("two ranks came with the number {rank}")]
    Twice { rank: usize },
    #[error("rank {rank} came to a meeting of {given} ranks, and that of rank 0 has {ranks}")]
    Count {
        rank: usize,
        given: usize,
        ranks: usize,
    },
    #[error(
        "rank {rank} speaks version {given} of the meeting's messages, and rank 0 version {version}"
    )]
    Version {
        rank: usize,
        given: usize,
        version: usize,
    },
    #[error("rank {rank} {}, and rank 0 {}: all ranks make the same calls in the same order", meets(*given), meets(*first))]
    Mixed {
        rank: usize,
        given: usize,
        first: usize,
    },
    #[error("a message of rank {rank} ended after {found} of {need} bytes")]
    Truncated {
        rank: usize,
        found: usize,
        need: usize,
    },
    #[error("a message of rank {rank} has {bytes} bytes: at most {most} are read")]
    Oversized {
        rank: usize,
        bytes: usize,
        most: usize,
    },
    #[error("rank {rank} sent what is no message of a meeting")]
    Foreign { rank: usize },
}

fn refused(strangers: usize) -> String {
    match strangers {
        0 => String::new(),
        1 => "; a connection that was none of a rank was refused".to_string(),
        count => format!("; {count} connections that were none of a rank were refused"),
    }
}

/// What a rank does, by the number of the kind of its message.
fn meets(kind: usize) -> &'static str {
    match kind {
        1 => "exchanges",
        2 => "waits at a barrier",
        _ => "makes another call",
    }
}

impl From<MeetingFailure> for Error {
    fn from(why: MeetingFailure) -> Error {
        RankError::from(why).into()
    }
}

impl From<RankError> for Error {
    fn from(why: RankError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// Why a quantisation is not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum QuantiseError {
    #[error("quantisation of {ty}: x must be f32, f16 or bf16")]
    From { ty: Ty },
    #[error("quantisation to {ty}: it must be s8, e4m3 or e5m2")]
    To { ty: Ty },
    #[error("q has elements of {found}: those of {ty} are {wanted}")]
    Element {
        found: &'static str,
        ty: Ty,
        wanted: String,
    },
    #[error("{name} has the shape {found}: it must be {wanted}, for x {x}")]
    Shape {
        name: &'static str,
        found: String,
        wanted: String,
        x: String,
    },
    #[error("x has the shape {x}, which has no mode of columns: it must have at least one mode")]
    Rank { x: String },
    #[error("the columns of {name} {layout} have several strides: they must have one")]
    Columns { name: &'static str, layout: String },
    #[error("blocks of {block} columns: there must be 1 to {most}")]
    Block { block: i64, most: i64 },
    #[error(
        "the scale is {value:?}: it must be finite and at least 2.94e-39, so that f32 has its reciprocal"
    )]
    Scale { value: f32 },
    #[error("x has the shape {x}: a row without columns has no largest size, and so no scale")]
    Nothing { x: String },
    #[error("the plan holds rows of up to {all} columns, and the call has {columns}")]
    Held { all: i64, columns: i64 },
    #[error(
        "the plan's rows are {how}: x and q must begin at a multiple of the plan's accesses, each row where the one before it ends, and \
         have at most {most} elements"
    )]
    Gaps { how: &'static str, most: i64 },
    #[error(
        "the plan's threads take staged rows of more than {full} columns, and the call has {columns}: fewer accesses take it"
    )]
    Elements { full: i64, columns: i64 },
    #[error(
        "the plan's blocks run at once and read the tensor by asynchronous copies, which architectures since sm_80 have (this one is \
         {arch})"
    )]
    Asynchronous { arch: Arch },
}

impl From<QuantiseError> for Error {
    fn from(why: QuantiseError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// Why a reduction is not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ReduceError {
    #[error("the {function} of {ty}: the elements must be f32, f16, bf16 or s32")]
    Type { function: String, ty: Ty },
    #[error("the {function} of {ty}: it is no integer, so convert the elements to f32 first")]
    Integers { function: String, ty: Ty },
    #[error(
        "the {function} of {ty} in {result}: the results must be {}",
        one_of(can)
    )]
    Result {
        function: String,
        ty: Ty,
        result: Ty,
        can: Vec<Ty>,
    },
    #[error(
        "mode {mode} is named, and x {x} has {}: modes are counted from 0",
        modes(*rank)
    )]
    Mode { mode: usize, x: String, rank: usize },
    #[error("mode {mode} is named twice: name it once")]
    Again { mode: usize },
    #[error("the {function} is along one mode, and {found} are named")]
    OneMode { function: String, found: usize },
    #[error("the {function} has no values beside its results: an arg-max or arg-min has them")]
    Values { function: String },
    #[error(
        "{what} has the shape {found}, and x {x} without the modes {modes:?} is {must}: both must be equal, or have modes of \
         extent 1 where x is reduced"
    )]
    Shape {
        what: &'static str,
        found: String,
        x: String,
        modes: Vec<usize>,
        must: String,
    },
    #[error("y has the shape {found}, and x {x}: both must be equal")]
    Same { found: String, x: String },
    #[error(
        "the {function} of no elements: x has the shape {x}, and an extent that is reduced is 0"
    )]
    Nothing { function: String, x: String },
    #[error("{layout} has several strides along mode {mode}: this mode must have one")]
    Along { layout: String, mode: usize },
    #[error(
        "{layout} has a mode with several strides, whose parts another tensor does not have: give the parts as modes"
    )]
    Modes { layout: String },
    #[error("a stride is {stride}: it must be at most {most} in size")]
    Stride { stride: i64, most: i64 },
    #[error("{found} modes of one kind that are not one mode in all tensors: there may be {most}")]
    Rank { found: usize, most: usize },
    #[error(
        "the plan stores {plan} results at once: addresses, strides and extents of the call allow {call}"
    )]
    Stored { plan: i64, call: i64 },
    #[error(
        "the plan's threads along the inner mode have {all} elements side by side, and it has {extent}: more threads cover it, or \
         turns along it"
    )]
    Inner { all: i64, extent: i64 },
    #[error(
        "the plan's rows are shifted: x must begin at a multiple of the plan's accesses, each row where the one before it ends, and \
         have at most {most} elements"
    )]
    Gaps { most: i64 },
    #[error(
        "the abs-max of {ty}: the type does not hold the size of its least number, so convert the elements to f32 first"
    )]
    Sizes { ty: Ty },
    #[error("the {k} {which} of {extent} elements: there must be {}", selected([*k, *most]))]
    Selected {
        which: &'static str,
        k: i64,
        extent: i64,
        most: i64,
    },
    #[error("{what} has the shape {found}, and x {x}: both must be equal but for mode {mode}")]
    ButForOne {
        what: &'static str,
        found: String,
        x: String,
        mode: usize,
    },
    #[error("the indices have the shape {indices}, and the values {values}: both must be equal")]
    Indices { indices: String, values: String },
    #[error("the plan has {found} {what}: the call needs {least}")]
    Covers {
        what: &'static str,
        found: i64,
        least: i64,
    },
}

impl From<ReduceError> for Error {
    fn from(why: ReduceError) -> Error {
        ErrorKind::from(why).into()
    }
}

/// `heads of 64 features`, `heads of 192 features of Q and K and 128 of V`
pub(crate) fn heads_of([inner, outer]: [i64; 2]) -> String {
    if inner == outer {
        format!("heads of {inner} features")
    } else {
        format!("heads of {inner} features of Q and K and {outer} of V")
    }
}

/// What is said of a plan whose kernels begin early on an architecture that has no early begins.
pub(crate) fn begins_late(arch: Arch) -> String {
    format!("the plan's kernels begin early: kernels do so from sm_90 on, and not on {arch}")
}

/// The error of what a plan asks for, where its kernel has no such thing.
pub(crate) fn flag(why: String) -> Error {
    ErrorKind::PlanFlag { why }.into()
}

/// `at most 5`, `at least 1`, `0`
fn selected([k, most]: [i64; 2]) -> String {
    match most {
        0 => "0".to_string(),
        _ if k > most => format!("at most {most}"),
        _ => "at least 1".to_string(),
    }
}

/// `1 mode`, `2 modes`
fn modes(rank: usize) -> String {
    counted((i64::try_from(rank).unwrap_or(i64::MAX), "mode"))
}

/// `a, b or c`
pub(crate) fn one_of<T: fmt::Display>(list: &[T]) -> String {
    let mut words: Vec<String> = list.iter().map(T::to_string).collect();
    let last = words.pop().unwrap_or_default();
    if words.is_empty() {
        last
    } else {
        format!("{} or {last}", words.join(", "))
    }
}

fn whole_vectors(method: GemmMethod) -> &'static str {
    match method {
        GemmMethod::Hopper => " in vectors of 16 bytes",
        _ => "",
    }
}

fn range(least: i64, most: i64, step: i64) -> String {
    match (least == most, step) {
        (true, _) => format!("{least} only"),
        (false, 1) => format!("{least} to {most}"),
        (false, step) => format!("{least} to {most}, in multiples of {step}"),
    }
}

/// Checks that the bytes that a kernel writes and those that it reads are disjoint. No bytes overlap nothing, wherever they are.
pub(crate) fn disjoint(
    output: impl Into<Cow<'static, str>>,
    written: (u64, u64),
    operand: impl Into<Cow<'static, str>>,
    read: (u64, u64),
) -> Result<(), Error> {
    let is_none = written.0 == written.1 || read.0 == read.1;
    if is_none || written.1 <= read.0 || read.1 <= written.0 {
        return Ok(());
    }
    Err(ErrorKind::Overlap {
        output: output.into(),
        written,
        operand: operand.into(),
        read,
    }
    .into())
}

/// `1 row`, `2 rows`, `2 accesses`
pub(crate) fn counted((n, what): (i64, &str)) -> String {
    let ending = match what {
        _ if n == 1 => "",
        "access" | "pass" => "es",
        _ => "s",
    };
    format!("{n} {what}{ending}")
}
