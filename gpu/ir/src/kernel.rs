//! A whole kernel.

use std::panic::Location;

use colex_atom::{Arch, Ty};
use colex_layout::ComposedLayout;

use super::claims::Claim;
use super::escaped::Escaped;
use super::operand::{Operand, Reg, Special};
use super::stmt::Stmt;
use super::ty::{RegType, Type};

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ParamType,
    /// The call of the builder that declared it.
    pub at: &'static Location<'static>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamType {
    /// A number.
    Scalar(Type),
    /// An address in device memory, aligned to this number of bytes.
    Pointer {
        /// Bytes.
        align: u32,
    },
    /// A tensor map by value: 128 bytes.
    TensorMap,
}

impl ParamType {
    /// Returns the bytes that the variable takes.
    pub fn bytes(self) -> u32 {
        match self {
            ParamType::Scalar(ty) => ty.bits() / 8,
            ParamType::Pointer { .. } => 8,
            ParamType::TensorMap => 128,
        }
    }

    /// Returns the alignment in bytes.
    pub fn align(self) -> u32 {
        match self {
            ParamType::TensorMap => 64,
            ParamType::Scalar(_) | ParamType::Pointer { .. } => self.bytes(),
        }
    }
}

/// A variable in the block's shared memory, of a size known when the kernel is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVar {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u32,
    /// Bytes it is aligned to, a power of two.
    pub align: u32,
    /// The call of the builder that declared it.
    pub at: &'static Location<'static>,
}

/// A part of dynamic shared memory that messages describe. It holds elements under a layout, or units one after the
/// other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRegion {
    /// The name that the author gave it.
    pub name: Option<String>,
    /// What it is: `f16 tensor (64,32):(32,1)`.
    pub what: String,
    /// Its first byte, counted from the beginning of dynamic shared memory.
    pub start: u32,
    /// Its size in bytes.
    pub bytes: u32,
    /// The unit that it consists of, such as `element` or `barrier`, and the size of a unit in bytes.
    pub unit: (&'static str, u32),
    /// The type of its elements.
    pub ty: Option<Ty>,
    /// The layout that gives the offset of each coordinate, in units.
    pub layout: Option<ComposedLayout>,
    /// The call of the builder that declared it.
    pub at: &'static Location<'static>,
}

impl SharedRegion {
    /// Returns the coordinate that the layout maps to an offset in units; `None` without a layout, and of an offset that no
    /// coordinate has.
    pub fn coordinate(&self, offset: u32) -> Option<String> {
        let layout = self.layout.as_ref()?;
        let index = layout
            .offsets()
            .ok()?
            .position(|at| at == i64::from(offset))?;
        Some(layout.shape().coord(index as i64).ok()?.to_string())
    }

    /// Returns the sentence part for the region itself: its name, what it is, and where it was declared.
    pub fn title(&self) -> String {
        let name = match &self.name {
            Some(name) => format!("`{}`, ", Escaped(name)),
            None => String::new(),
        };
        let (what, at) = (Escaped(&self.what), self.at);
        format!("{name}the shared {what} ({}:{})", at.file(), at.line())
    }

    /// Returns the name of the unit that holds the byte `byte` of the region: its coordinate where a layout has one, else
    /// its number.
    ///
    /// ```
    /// use colex_ir::SharedRegion;
    ///
    /// let mut tile = SharedRegion {
    ///     name: Some("tile".to_string()),
    ///     what: "f32 tensor (4,4):(4,1)".to_string(),
    ///     start: 128,
    ///     bytes: 64,
    ///     unit: ("element", 4),
    ///     ty: Some(colex_atom::Ty::F32),
    ///     layout: Some(colex_layout::layout!((4, 4) : (4, 1)).into()),
    ///     at: std::panic::Location::caller(),
    /// };
    /// assert!(tile.describe(24).starts_with("element (1,2) of `tile`, the shared f32 tensor (4,4):(4,1) ("));
    /// tile.name = None;
    /// assert!(tile.describe(25).starts_with("byte 1 of element (1,2) of the shared f32 tensor (4,4):(4,1) ("));
    /// ```
    pub fn describe(&self, byte: u32) -> String {
        let (unit, each) = (self.unit.0, self.unit.1.max(1));
        let within = match byte % each {
            0 => String::new(),
            inside => format!("byte {inside} of "),
        };
        let number = byte / each;
        let place = match (self.coordinate(number), &self.layout) {
            (Some(coordinate), _) => format!("{unit} {coordinate}"),
            (None, None) => format!("{unit} {number}"),
            (None, Some(_)) => format!("offset {number}, which no coordinate has,"),
        };
        format!("{within}{place} of {}", self.title())
    }
}

/// Registers that hold the elements of a fragment, under the name that the author gave it. Tables show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFragment {
    /// The name.
    pub name: String,
    /// The type of an element.
    pub ty: Ty,
    /// The register of each element, and the first of its bits there.
    pub elements: Vec<(Reg, u32)>,
    /// The coordinates in their tile, if they are known: those of each thread of the partition, and those of each element,
    /// which are added.
    pub places: Option<[Vec<Vec<i64>>; 2]>,
}

impl NamedFragment {
    /// Returns the label of an element in a thread: its coordinates `(0,5)`, or its number `[3]`.
    ///
    /// ```
    /// use colex_atom::Ty;
    /// use colex_ir::NamedFragment;
    ///
    /// let places = Some([vec![vec![0, 0], vec![0, 4]], vec![vec![0, 0], vec![8, 1]]]);
    /// let mut x = NamedFragment { name: "x".to_string(), ty: Ty::F32, elements: Vec::new(), places };
    /// assert_eq!(x.label(1, 1), "(8,5)");
    /// x.places = None;
    /// assert_eq!(x.label(1, 1), "[1]");
    /// ```
    pub fn label(&self, thread: usize, element: usize) -> String {
        let known = self.places.as_ref().and_then(|[threads, elements]| {
            let thread = threads.get(thread % threads.len().max(1))?;
            let sums = thread
                .iter()
                .zip(elements.get(element)?)
                .map(|(a, b)| (a + b).to_string());
            Some(format!("({})", sums.collect::<Vec<_>>().join(",")))
        });
        known.unwrap_or_else(|| format!("[{element}]"))
    }
}

/// A kernel: parameters, shared memory, registers and a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// The entry's name.
    pub name: String,
    /// The architecture that it is built for.
    pub target: Arch,
    /// Parameters, in the order of launch arguments.
    pub params: Vec<Param>,
    /// Variables in shared memory.
    pub shared: Vec<SharedVar>,
    /// Alignment in bytes of dynamic shared memory, if the kernel uses any.
    pub dynamic_shared: Option<u32>,
    /// The parts of dynamic shared memory that messages describe, by their first bytes.
    pub shared_regions: Vec<SharedRegion>,
    /// The fragments that have names.
    pub fragments: Vec<NamedFragment>,
    /// The required block, in threads (`.reqntid`).
    pub block: Option<[u32; 3]>,
    /// The required cluster, in blocks (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// The number of blocks that a multiprocessor must be able to hold (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// The largest number of registers of a thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// The number of registers of each class, in the order of [`RegType::ALL`].
    pub registers: [u32; 6],
    /// The claims of accesses about the coordinates that they reach, by [`crate::claims::ClaimId`]. They do not appear
    /// in PTX: a launch is checked against them, and the simulator checks every access.
    pub claims: Vec<Claim>,
    /// The instructions.
    pub body: Vec<Stmt>,
    /// The call that started it.
    pub at: &'static Location<'static>,
}

/// Lays out variables of these bytes and alignments one after the other.
fn places(variables: impl Iterator<Item = (u32, u32)>) -> (Vec<u64>, u64) {
    let mut end = 0;
    let place = |(bytes, align): (u32, u32)| {
        let start = u64::next_multiple_of(end, align.max(1).into());
        end = start + u64::from(bytes);
        start
    };
    let starts = variables.map(place).collect();
    (starts, end)
}

impl Kernel {
    /// Returns how many registers of a class the kernel names.
    #[inline]
    pub fn count(&self, ty: RegType) -> u32 {
        self.registers[ty as usize]
    }

    /// Returns the bytes of the variables in shared memory, in order and aligned.
    pub fn static_shared(&self) -> u32 {
        u32::try_from(self.shared_places().1).unwrap_or(u32::MAX)
    }

    /// Returns the byte at which each variable in shared memory begins, and the byte after the last one.
    pub fn shared_places(&self) -> (Vec<u64>, u64) {
        places(self.shared.iter().map(|var| (var.bytes, var.align)))
    }

    /// Returns the byte at which each parameter begins, and the byte after the last one.
    pub fn parameter_places(&self) -> (Vec<u64>, u64) {
        places((self.params.iter()).map(|param| (param.ty.bytes(), param.ty.align())))
    }

    /// Returns whether the kernel is for blocks along x alone: it states no block, and reads neither the thread's index nor the
    /// block's extent along y or z.
    pub(crate) fn is_flat(&self) -> bool {
        let is_beside = |special| matches!(special, Special::Tid(1 | 2) | Special::NTid(1 | 2));
        self.block.is_none() && !self.reads(is_beside)
    }

    /// Returns whether an instruction reads a special register of a kind.
    pub(crate) fn reads(&self, is_of_kind: impl Fn(Special) -> bool) -> bool {
        let mut found = false;
        self.walk(&mut |stmt| {
            let sources = stmt.op.uses().uses;
            found |= sources.iter().any(|operand| match operand {
                Operand::Special(special) => is_of_kind(*special),
                Operand::Reg(_) | Operand::Int(_) | Operand::Float(_) => false,
            });
        });
        found
    }

    /// Visits every instruction, outermost first, in program order.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Stmt)) {
        fn block<'a>(body: &'a [Stmt], visit: &mut dyn FnMut(&'a Stmt)) {
            for stmt in body {
                visit(stmt);
                stmt.op
                    .blocks()
                    .into_iter()
                    .for_each(|inner| block(inner, visit));
            }
        }
        block(&self.body, visit);
    }
}
