//! What a built kernel wants at launch, from the tensors it was built with.

use std::collections::HashMap;
use std::fmt;

use colex_layout::Layout;

use super::index::{Index, Node};
use super::memory::MAX_EXTENT;
use crate::argument::Argument;
use crate::ir::{Base, Kernel, ParamType, Reg};

/// A kernel with what its launch takes.
#[derive(Clone, Debug)]
pub struct Built {
    /// The kernel.
    pub kernel: Kernel,
    /// Its arguments.
    pub signature: Signature,
    /// What its copies and matrix instructions do.
    pub report: super::report::Report,
}

impl Built {
    /// The bytes of dynamic shared memory that a launch must give each block.
    pub fn dynamic_shared(&self) -> u32 {
        self.signature.shared
    }

    /// The report of every copy and matrix instruction, in the order of the kernel.
    pub fn report(&self) -> &super::report::Report {
        &self.report
    }

    /// The launch arguments for these tensors and scalars, in the order in which the kernel declared them.
    ///
    /// ```
    /// use colex_atom::{Arch, Ty};
    /// use colex_gpu::Argument;
    /// use colex_gpu::tensor::{Builder, Given};
    ///
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// k.tensor("a", Ty::F32, &"(512,_64):(_1,520)".parse()?)?;
    /// let built = k.finish()?;
    /// let today = "(100,_64):(_1,104)".parse()?;
    /// let arguments = built.arguments(&[Given::Tensor(0x1000, &today)])?;
    /// assert_eq!(arguments, [Argument::Pointer(0x1000), Argument::U32(100), Argument::U64(104)]);
    /// let other = "(100,_32):(_1,104)".parse()?;
    /// assert_eq!(
    ///     built.arguments(&[Given::Tensor(0x1000, &other)]).unwrap_err().to_string(),
    ///     "tensor a: (100,_32):(_1,104) differs from (512,_64):(_1,520), which the kernel is built for, in a static leaf"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Mismatch`]: too many or too few, a layout that differs from the one the kernel was built for in more than the
    /// values of dynamic leaves, an address or a stride that is not a multiple of what the copies need.
    pub fn arguments(&self, given: &[Given<'_>]) -> Result<Vec<Argument>, Mismatch> {
        let slots = &self.signature.slots;
        if slots.len() != given.len() {
            let why = format!(
                "{} arguments for {} tensors and scalars",
                given.len(),
                slots.len()
            );
            return Err(Mismatch { why });
        }
        let mut arguments = Vec::new();
        for (slot, given) in slots.iter().zip(given) {
            match (slot, given) {
                (Slot::Tensor(tensor), Given::Tensor(address, layout)) => {
                    tensor.check(*address, layout)?;
                    arguments.push(Argument::Pointer(*address));
                    let shape = layout.shape().dynamic_values();
                    let all = layout.dynamic_values();
                    let extents = shape.iter().map(|n| Argument::U32(*n as u32));
                    arguments.extend(extents);
                    let strides = all[shape.len()..].iter();
                    arguments.extend(strides.map(|d| Argument::U64(*d as u64)));
                }
                (Slot::Value(_) | Slot::Map(_), Given::Value(argument)) => {
                    arguments.push(argument.clone());
                }
                (Slot::Tensor(tensor), _) => {
                    let why = format!(
                        "argument {} is a tensor, and a scalar is given",
                        tensor.name
                    );
                    return Err(Mismatch { why });
                }
                (Slot::Map(map), _) => {
                    let why = format!(
                        "argument {} is a tensor map: bind one to its memory",
                        map.name
                    );
                    return Err(Mismatch { why });
                }
                (Slot::Value(name), _) => {
                    let why = format!("argument {name} is a scalar, and a tensor is given");
                    return Err(Mismatch { why });
                }
            }
        }
        Ok(arguments)
    }
}

/// What is passed for a tensor or scalar of the kernel.
#[derive(Clone, Debug)]
pub enum Given<'a> {
    /// The address of the tensor's element at coordinate 0, and its layout today.
    Tensor(u64, &'a Layout),
    /// A scalar or a tensor map.
    Value(Argument),
}

/// Why tensors cannot be passed to a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub(super) why: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Mismatch {}

/// What a kernel takes.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    pub(super) slots: Vec<Slot>,
    pub(super) shared: u32,
    pub(super) bases: HashMap<Reg, Base>,
}

#[derive(Clone, Debug)]
pub(super) enum Slot {
    Tensor(Box<TensorSlot>),
    Value(String),
    Map(Box<super::tma_map::MapSlot>),
}

/// A tensor among the parameters.
#[derive(Clone, Debug)]
pub(super) struct TensorSlot {
    pub(super) name: String,
    /// The parameter that is its pointer.
    pub(super) param: crate::ir::ParamId,
    pub(super) layout: Layout,
    /// What must divide the address, in bytes.
    pub(super) align: i64,
    /// What must divide the dynamic leaves, in the order of [`Layout::dynamic_values`].
    pub(super) multiples: Vec<i64>,
}

impl TensorSlot {
    fn check(&self, address: u64, layout: &Layout) -> Result<(), Mismatch> {
        let refuse = |why: String| {
            Err(Mismatch {
                why: format!("tensor {}: {why}", self.name),
            })
        };
        let values = layout.dynamic_values();
        let same = self.layout.with_dynamic_values(&values);
        if same.map(|l| l.to_string()) != Ok(layout.to_string()) {
            return refuse(format!(
                "{layout} differs from {}, which the kernel is built for, in a static leaf",
                self.layout
            ));
        }
        if !address.is_multiple_of(self.align as u64) {
            return refuse(format!(
                "the address {address:#x} is not a multiple of {} bytes, which its vectors need",
                self.align
            ));
        }
        let extents = layout.shape().dynamic_values().len();
        for (i, (value, multiple)) in values.iter().zip(&self.multiples).enumerate() {
            let what = if i < extents { "extent" } else { "stride" };
            if value % multiple != 0 {
                return refuse(format!(
                    "the {what} {value} of {layout} is not a multiple of {multiple}, which its vectors need"
                ));
            }
            if what == "extent" && *value > MAX_EXTENT {
                return refuse(format!(
                    "the extent {value} of {layout} is above {MAX_EXTENT}"
                ));
            }
            if value.abs() >= 1 << 40 {
                return refuse(format!("the stride {value} of {layout} is not below 2^40"));
            }
        }
        Ok(())
    }
}

impl Signature {
    /// The kernel, its pointers declared with the alignment that its copies need.
    pub(super) fn aligned(&self, mut kernel: Kernel) -> Kernel {
        for slot in &self.slots {
            if let Slot::Tensor(tensor) = slot {
                let align = tensor.align as u32;
                kernel.params[tensor.param.0 as usize].ty = ParamType::Pointer { align };
            }
        }
        kernel
    }

    /// The symbol that a register holds the address of.
    pub(super) fn base_of(&self, index: &Index) -> Option<Base> {
        match &index.0.node {
            Node::Leaf(leaf) => self.bases.get(&leaf.reg).copied(),
            _ => None,
        }
    }

    /// Notes that a leaf of a tensor must be a multiple of something.
    pub(super) fn require(&mut self, tensor: usize, leaf: Option<usize>, multiple: i64) {
        if let Slot::Tensor(slot) = &mut self.slots[tensor] {
            let old = match leaf {
                None => &mut slot.align,
                Some(leaf) => &mut slot.multiples[leaf],
            };
            *old = (*old).max(multiple);
        }
    }
}
