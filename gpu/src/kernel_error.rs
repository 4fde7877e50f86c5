//! Why a library kernel is not launched.

use core::fmt;

use crate::method::{Compute, GemmMethod};

/// What is wrong with the operands of a library kernel, found before anything is launched.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelError {
    /// A layout whose values are not offsets.
    Strides {
        /// The layout.
        layout: String,
    },
    /// A destination with one element at several coordinates.
    Twice {
        /// The layout.
        layout: String,
    },
    /// A destination of which is not known whether it has one element at several coordinates.
    Undecided {
        /// What was asked, and at which bound the search for an answer ended.
        why: String,
    },
    /// Two layouts whose coordinates do not correspond.
    Shapes {
        /// The source's shape.
        source: String,
        /// The destination's.
        destination: String,
        /// Where they first differ, and how.
        why: String,
    },
    /// An output that shares bytes with an operand.
    Overlap {
        /// The name of the output.
        output: &'static str,
        /// Its first byte and the one past its last.
        written: (u64, u64),
        /// The name of the operand.
        operand: &'static str,
        /// Its bytes.
        read: (u64, u64),
    },
    /// An output that was lent to be read.
    ReadOnly {
        /// The name of the output.
        output: &'static str,
    },
    /// An address that is no place for its elements.
    Misaligned {
        /// Whose.
        what: &'static str,
        /// The address.
        address: u64,
        /// Bytes it would have to be a multiple of.
        need: u64,
    },
    /// A copy that a kernel does not do.
    Method {
        /// The kernel.
        method: String,
        /// The copy.
        nest: String,
        /// Why not.
        why: String,
    },
    /// An extent below 1, or beyond what a kernel counts with.
    Extent {
        /// Its name.
        what: &'static str,
        /// Its value.
        extent: i64,
        /// The largest allowed.
        most: i64,
    },
    /// A leading dimension shorter than what it leads over.
    LeadingDimension {
        /// Its name: `lda`.
        what: &'static str,
        /// Its value.
        found: i64,
        /// The extent it must reach.
        least: i64,
        /// What that extent is called: `K`.
        over: &'static str,
    },
    /// Matrices of types that no kernel multiplies.
    Types {
        /// The type of A and B.
        ab: colex_atom::Ty,
        /// That of C.
        c: colex_atom::Ty,
        /// Those that C may have.
        can: &'static [colex_atom::Ty],
    },
    /// Matrices that a kernel does not multiply.
    Product {
        /// The kernel.
        method: GemmMethod,
        /// The type of A and B.
        ab: colex_atom::Ty,
        /// Elements of A and of B that an access takes at once.
        vectors: [i64; 2],
        /// The architecture.
        arch: colex_atom::Arch,
        /// The types that it takes.
        types: &'static [colex_atom::Ty],
        /// The architecture that it needs.
        since: colex_atom::Arch,
    },
    /// Products that are not computed like that.
    Compute {
        /// The type of A and B.
        ab: colex_atom::Ty,
        /// What was asked for.
        compute: Compute,
        /// What is possible.
        can: &'static [Compute],
    },
    /// A factor that the numbers it scales cannot hold.
    Factor {
        /// `alpha` or `beta`.
        what: &'static str,
        /// Its value.
        value: String,
        /// The type of A and B.
        ab: colex_atom::Ty,
    },
    /// A number of a plan that its kernel does not take.
    Plan {
        /// The kernel.
        method: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        found: i64,
        /// The least that the kernel takes.
        least: i64,
        /// The greatest.
        most: i64,
        /// Of what it must be a multiple.
        step: i64,
    },
    /// An order of a plan that its kernel does not take.
    PlanOrder {
        /// The kernel.
        method: String,
        /// The order.
        order: colex_sched::Order,
    },
    /// A vector of a plan that no access has.
    PlanVector {
        /// `vector of A`.
        what: &'static str,
        /// Its elements.
        found: i64,
        /// Their type.
        ty: colex_atom::Ty,
        /// The most elements.
        most: i64,
    },
    /// Numbers of a plan that together ask for more than a kernel has.
    PlanLimit {
        /// The kernel.
        method: String,
        /// What there would be too much of.
        what: &'static str,
        /// How much the plan asks for.
        found: i64,
        /// The most there may be.
        most: i64,
    },
    /// A tile of which the threads of a block do not have equal shares.
    PlanShares {
        /// The kernel.
        method: String,
        /// Whose tile.
        operand: &'static str,
        /// Its extents.
        tile: [i64; 2],
        /// The threads.
        threads: i64,
    },
    /// A plan for other matrices than those of the call.
    PlanCall {
        /// What differs.
        what: &'static str,
        /// What the plan says.
        plan: String,
        /// What the call has.
        call: String,
    },
    /// A plan that says that its tiles divide a problem that they do not divide.
    PlanWhole {
        /// `M`, `N` or `K`.
        what: &'static str,
        /// The tile's extent.
        tile: i64,
        /// The problem's.
        extent: i64,
    },
    /// A matrix that its buffer does not hold.
    Short {
        /// Its name.
        what: &'static str,
        /// The elements it needs.
        need: i64,
        /// Those of the buffer.
        length: usize,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelError::Strides { layout } => write!(
                f,
                "{layout} has strides that are not integers: a kernel takes offsets in elements"
            ),
            KernelError::Twice { layout } => write!(
                f,
                "the destination {layout} has one element at several coordinates: which value stays would be a race"
            ),
            KernelError::Undecided { why } => write!(
                f,
                "{why}: a destination with one element at several coordinates would be a race"
            ),
            KernelError::Shapes {
                source,
                destination,
                why,
            } => write!(
                f,
                "a copy from the shape {source} into {destination}: {why}; give both one shape, or permute one of them"
            ),
            KernelError::Overlap {
                output,
                written,
                operand,
                read,
            } => write!(
                f,
                "{output} lies at {:#x}..{:#x} and {operand} at {:#x}..{:#x}: a kernel's output must not overlap what it reads",
                written.0, written.1, read.0, read.1
            ),
            KernelError::ReadOnly { output } => write!(
                f,
                "{output} was lent to be read, and the kernel writes it: lend it by `borrow_slice_mut`"
            ),
            KernelError::Misaligned {
                what,
                address,
                need,
            } => write!(
                f,
                "{what} begins at {address:#x}, which is not a multiple of {need} bytes"
            ),
            KernelError::Method { method, nest, why } => {
                write!(f, "the {method} kernel does not copy {nest}: {why}")
            }
            KernelError::Extent { what, extent, most } => {
                write!(f, "{what} is {extent}: it must be 1 to {most}")
            }
            KernelError::LeadingDimension {
                what,
                found,
                least,
                over,
            } => write!(
                f,
                "{what} is {found}: it must be at least {over}, which is {least}"
            ),
            KernelError::Types { ab, c, can } => write!(
                f,
                "no kernel multiplies {ab} into {c}: C must be {}",
                one_of(can)
            ),
            KernelError::Product {
                method,
                ab,
                vectors: [a, b],
                arch,
                types,
                since,
            } => {
                let whole = match method {
                    GemmMethod::Hopper => " in vectors of 16 bytes",
                    _ => "",
                };
                write!(
                    f,
                    "the {method} kernel does not multiply {ab}, {a} of A and {b} of B at once, on {arch}: it takes {}{whole}, and needs {since}",
                    one_of(types)
                )
            }
            KernelError::Compute { ab, compute, can } => write!(
                f,
                "products of {ab} are not computed in {compute}: they are in {}",
                one_of(can)
            ),
            KernelError::Factor { what, value, ab } => write!(
                f,
                "{what} is {value}, and f32 ends at {:e}: products of {ab} are scaled in f32",
                f32::MAX
            ),
            KernelError::Plan {
                method,
                what,
                found,
                least,
                most,
                step,
            } => {
                write!(
                    f,
                    "the plan's {what} is {found}: the {method} kernel takes "
                )?;
                match (least == most, step) {
                    (true, _) => write!(f, "{least} only"),
                    (false, 1) => write!(f, "{least} to {most}"),
                    (false, step) => write!(f, "{least} to {most}, in multiples of {step}"),
                }
            }
            KernelError::PlanOrder { method, order } => write!(
                f,
                "the plan's order is {order}: the {method} kernel takes grouped orders, for example grouped 8 along m"
            ),
            KernelError::PlanVector {
                what,
                found,
                ty,
                most,
            } => write!(
                f,
                "the plan's {what} is {found}: an access takes a power of two, 1 to {most} elements of {ty}"
            ),
            KernelError::PlanLimit {
                method,
                what,
                found,
                most,
            } => write!(
                f,
                "the plan asks for {found} {what}: the {method} kernel takes at most {most}, {} fewer",
                found - most
            ),
            KernelError::PlanShares {
                method,
                operand,
                tile: [rows, columns],
                threads,
            } => write!(
                f,
                "the {threads} threads of the plan's block have no equal shares of {operand}'s tile of {rows} x {columns} elements, which the {method} kernel needs"
            ),
            KernelError::PlanCall { what, plan, call } => write!(
                f,
                "the plan was made for another product: {what} {plan} in the plan and {call} in the call"
            ),
            KernelError::PlanWhole { what, tile, extent } => write!(
                f,
                "the plan says that its tiles divide the problem, and {tile} does not divide {what}, which is {extent}: leave `whole` false"
            ),
            KernelError::Short { what, need, length } => write!(
                f,
                "{what} needs {need} elements, and its buffer has {length}"
            ),
        }
    }
}

/// `a, b or c`
fn one_of<T: fmt::Display>(list: &[T]) -> String {
    let mut words: Vec<String> = list.iter().map(T::to_string).collect();
    let last = words.pop().unwrap_or_default();
    if words.is_empty() {
        last
    } else {
        format!("{} or {last}", words.join(", "))
    }
}

impl std::error::Error for KernelError {}

/// Whether what is written and what is read are apart.
pub(crate) fn disjoint(
    output: &'static str,
    written: (u64, u64),
    operand: &'static str,
    read: (u64, u64),
) -> Result<(), KernelError> {
    if written.1 <= read.0 || read.1 <= written.0 {
        return Ok(());
    }
    Err(KernelError::Overlap {
        output,
        written,
        operand,
        read,
    })
}
