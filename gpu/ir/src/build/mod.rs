//! `KernelBuilder`: registers, arithmetic, control flow.

mod memory;
mod sync;

use std::panic::Location;

use colex_atom::Arch;

use crate::claims::{Claim, ClaimId};
use crate::kernel::{Kernel, NamedFragment, Param, ParamType, SharedRegion, SharedVar};
use crate::modifiers::{BinaryOp, Compare, TernaryOp, UnaryOp};
use crate::op::{Alu, Control, Op};
use crate::operand::{Operand, ParamId, Reg, SharedId};
use crate::stmt::{Guard, Stmt};
use crate::ty::{RegType, Type};

/// Builds a [`Kernel`], one call per instruction.
///
/// Methods that compute return a fresh register; those that end in `_to` write into an existing one. The builder checks
/// nothing: the verifier checks the finished kernel, and names the calls that built wrong instructions.
///
/// ```
/// use colex_atom::Arch;
/// use colex_ir::{Access, KernelBuilder, Space, Special, Type};
///
/// let mut k = KernelBuilder::new("twice", Arch::Sm70);
/// let data = k.pointer("data");
/// let thread = k.mov(Type::U32, Special::Tid(0));
/// let base = k.param(data);
/// let offset = k.mul_wide(Type::U32, thread, 4);
/// let address = k.add(Type::S64, base, offset);
/// let x = k.load(Access::new(Space::Global, Type::F32), address);
/// let y = k.add(Type::F32, x, x);
/// k.store(Access::new(Space::Global, Type::F32), address, y);
/// let kernel = k.finish();
/// assert_eq!(kernel.body.len(), 7);
/// ```
#[derive(Debug)]
pub struct KernelBuilder {
    kernel: Kernel,
    open: Vec<Vec<Stmt>>,
    guard: Option<Guard>,
    /// The claim of the next instruction.
    claim: Option<ClaimId>,
    /// The source location of new instructions, if it is not that of the call that adds them.
    site: Option<&'static Location<'static>>,
}

impl KernelBuilder {
    /// Starts a kernel named `name` for the architecture `target`.
    #[track_caller]
    pub fn new(name: &str, target: Arch) -> Self {
        let kernel = Kernel {
            name: name.to_string(),
            target,
            params: Vec::new(),
            shared: Vec::new(),
            dynamic_shared: None,
            shared_regions: Vec::new(),
            fragments: Vec::new(),
            block: None,
            cluster: None,
            min_blocks: None,
            max_registers: None,
            registers: [0; 6],
            claims: Vec::new(),
            body: Vec::new(),
            at: Location::caller(),
        };
        KernelBuilder {
            kernel,
            open: vec![Vec::new()],
            guard: None,
            claim: None,
            site: None,
        }
    }

    /// Returns a builder that continues a kernel: what is added follows its body.
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// k.mov(Type::U32, Special::LaneId);
    /// let mut k = KernelBuilder::resume(k.finish());
    /// assert_eq!(k.mov(Type::U32, 7).index, 1); // the next register
    /// assert_eq!(k.finish().body.len(), 2);
    /// ```
    pub fn resume(mut kernel: Kernel) -> Self {
        KernelBuilder {
            open: vec![std::mem::take(&mut kernel.body)],
            kernel,
            guard: None,
            claim: None,
            site: None,
        }
    }

    /// Returns the kernel.
    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.open.pop().expect("closures close what they open");
        self.kernel
    }

    /// Returns the architecture that the kernel is built for.
    pub fn target(&self) -> Arch {
        self.kernel.target
    }

    /// Requires blocks of `threads` threads along x, y and z (`.reqntid`).
    pub fn block(&mut self, threads: [u32; 3]) -> &mut Self {
        self.kernel.block = Some(threads);
        self
    }

    /// Requires clusters of `blocks` blocks along x, y and z (`.reqnctapercluster`).
    pub fn cluster(&mut self, blocks: [u32; 3]) -> &mut Self {
        self.kernel.cluster = Some(blocks);
        self
    }

    /// Requires that a multiprocessor can hold `blocks` blocks at once (`.minnctapersm`).
    pub fn min_blocks(&mut self, blocks: u32) -> &mut Self {
        self.kernel.min_blocks = Some(blocks);
        self
    }

    /// Limits each thread to `registers` registers (`.maxnreg`).
    pub fn max_registers(&mut self, registers: u32) -> &mut Self {
        self.kernel.max_registers = Some(registers);
        self
    }

    /// Declares a parameter.
    #[track_caller]
    pub fn parameter(&mut self, name: &str, ty: ParamType) -> ParamId {
        self.kernel.params.push(Param {
            name: name.to_string(),
            ty,
            at: Location::caller(),
        });
        ParamId(self.kernel.params.len() as u32 - 1)
    }

    /// Declares a parameter that points into global memory, at 16 bytes of alignment.
    #[track_caller]
    pub fn pointer(&mut self, name: &str) -> ParamId {
        self.parameter(name, ParamType::Pointer { align: 16 })
    }

    /// Declares a parameter that is a number.
    #[track_caller]
    pub fn scalar(&mut self, name: &str, ty: Type) -> ParamId {
        self.parameter(name, ParamType::Scalar(ty))
    }

    /// Declares a parameter that is a tensor map.
    #[track_caller]
    pub fn tensor_map(&mut self, name: &str) -> ParamId {
        self.parameter(name, ParamType::TensorMap)
    }

    /// Returns the type of a parameter; `None` if it is not a parameter of this kernel.
    pub fn param_type(&self, id: ParamId) -> Option<ParamType> {
        self.kernel.params.get(id.index()).map(|param| param.ty)
    }

    /// Declares a variable of `bytes` bytes in shared memory.
    #[track_caller]
    pub fn shared(&mut self, name: &str, bytes: u32, align: u32) -> SharedId {
        self.kernel.shared.push(SharedVar {
            name: name.to_string(),
            bytes,
            align,
            at: Location::caller(),
        });
        SharedId(self.kernel.shared.len() as u32 - 1)
    }

    /// Declares that the kernel uses dynamic shared memory, aligned to `align` bytes.
    pub fn dynamic_shared(&mut self, align: u32) -> &mut Self {
        let align = self
            .kernel
            .dynamic_shared
            .map_or(align, |old| old.max(align));
        self.kernel.dynamic_shared = Some(align);
        self
    }

    /// Describes a part of dynamic shared memory, for messages. It replaces a part that begins at the same byte.
    pub fn shared_region(&mut self, region: SharedRegion) -> &mut Self {
        let regions = &mut self.kernel.shared_regions;
        match regions.binary_search_by_key(&region.start, |known| known.start) {
            Ok(at) => regions[at] = region,
            Err(at) => regions.insert(at, region),
        }
        self
    }

    /// Gives the registers of a fragment a name, which tables show.
    pub fn name_fragment(&mut self, fragment: NamedFragment) -> &mut Self {
        self.kernel.fragments.push(fragment);
        self
    }

    /// Returns the described part of dynamic shared memory that holds the byte `byte`, to give it a name.
    ///
    /// ```
    /// # use colex_ir::*;
    /// let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// let at = std::panic::Location::caller();
    /// let (what, unit) = ("64 bytes".to_string(), ("byte", 1));
    /// k.shared_region(SharedRegion { name: None, what, start: 0, bytes: 64, unit, ty: None, layout: None, at });
    /// k.region_at(63).expect("it ends there").name = Some("scratch".to_string());
    /// assert!(k.region_at(64).is_none());
    /// assert!(k.finish().shared_regions[0].title().starts_with("`scratch`, the shared 64 bytes"));
    /// ```
    pub fn region_at(&mut self, byte: u32) -> Option<&mut SharedRegion> {
        let regions = self.kernel.shared_regions.iter_mut();
        let before = regions.rev().find(|region| region.start <= byte)?;
        (byte - before.start < before.bytes).then_some(before)
    }

    /// Returns a fresh register.
    pub fn reg(&mut self, ty: RegType) -> Reg {
        let count = &mut self.kernel.registers[ty as usize];
        let index = *count;
        *count += 1;
        Reg { index, ty }
    }

    /// Returns several fresh registers.
    pub fn regs(&mut self, ty: RegType, count: usize) -> Vec<Reg> {
        (0..count).map(|_| self.reg(ty)).collect()
    }

    /// Adds an instruction.
    #[track_caller]
    pub fn push(&mut self, op: impl Into<Op>) {
        let stmt = Stmt {
            op: op.into(),
            guard: self.guard,
            claim: self.claim.take(),
            at: self.site.unwrap_or(Location::caller()),
        };
        self.open
            .last_mut()
            .expect("the body is open until finish")
            .push(stmt);
    }

    /// Returns the instructions of the innermost block that is open, in program order.
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// k.sync();
    /// assert_eq!(k.placed().len(), 1);
    /// assert!(k.placed()[0].op.sync().is_some());
    /// ```
    pub fn placed(&self) -> &[Stmt] {
        self.open.last().map_or(&[], Vec::as_slice)
    }

    /// Adds the instructions of `body` under a guard: only threads in which it holds execute them (predicated, not
    /// branched).
    ///
    /// ```
    /// # use colex_ir::*;
    /// # let mut k = KernelBuilder::new("k", colex_atom::Arch::Sm80);
    /// let p = k.setp(Compare::Eq, Type::U32, Special::LaneId, 0);
    /// k.when(p, |k| k.push(Control::Exit));
    /// assert_eq!(k.finish().body[1].guard, Some(p.into()));
    /// ```
    pub fn when<T>(&mut self, guard: impl Into<Guard>, body: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.guard.replace(guard.into());
        let result = body(self);
        self.guard = outer;
        result
    }

    /// Opens a body, to which the following instructions are added.
    pub fn open_scope(&mut self) {
        self.open.push(Vec::new());
    }

    /// Closes the innermost body.
    pub fn close_scope(&mut self) -> Vec<Stmt> {
        self.open
            .pop()
            .expect("a scope is closed by the call that opened it")
    }

    /// Sets the source location of the instructions that follow, and returns the previous one. With `None` each
    /// instruction gets the location of the call that adds it.
    pub fn set_location(
        &mut self,
        site: Option<&'static Location<'static>>,
    ) -> Option<&'static Location<'static>> {
        std::mem::replace(&mut self.site, site)
    }

    /// Runs `body`, and adds its instructions to the end of an outer body, unpredicated.
    pub fn hoisted<T>(&mut self, scope: usize, body: impl FnOnce(&mut Self) -> T) -> T {
        let inner = self.open.split_off(scope + 1);
        let guard = self.guard.take();
        let claim = self.claim.take();
        let result = body(self);
        self.guard = guard;
        self.claim = claim;
        self.open.extend(inner);
        result
    }

    /// Adds a claim that instructions can make.
    pub fn claim(&mut self, claim: Claim) -> ClaimId {
        self.kernel.claims.push(claim);
        ClaimId(self.kernel.claims.len() as u32 - 1)
    }

    /// Attaches this claim to the first instruction that `body` adds.
    pub fn claiming<T>(&mut self, claim: Option<ClaimId>, body: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.claim, claim);
        let result = body(self);
        self.claim = outer;
        result
    }

    fn scope(&mut self, body: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        self.open.push(Vec::new());
        let outer = self.guard.take();
        body(self);
        self.guard = outer;
        self.open.pop().expect("pushed above")
    }

    /// Adds a branch: the threads in which the guard holds execute `then`.
    #[track_caller]
    pub fn if_(&mut self, guard: impl Into<Guard>, then: impl FnOnce(&mut Self)) {
        let at = Location::caller();
        let then = self.scope(then);
        self.push_at(
            Control::If {
                p: guard.into(),
                then,
                other: Vec::new(),
            },
            at,
        );
    }

    /// Adds a branch with both sides.
    #[track_caller]
    pub fn if_else(
        &mut self,
        guard: impl Into<Guard>,
        then: impl FnOnce(&mut Self),
        other: impl FnOnce(&mut Self),
    ) {
        let at = Location::caller();
        let then = self.scope(then);
        let other = self.scope(other);
        self.push_at(
            Control::If {
                p: guard.into(),
                then,
                other,
            },
            at,
        );
    }

    /// Repeats `body` until it breaks.
    #[track_caller]
    pub fn loop_(&mut self, body: impl FnOnce(&mut Self)) {
        let at = Location::caller();
        let body = self.scope(body);
        self.push_at(Control::Loop { body }, at);
    }

    /// Leaves the innermost loop in the threads in which the guard holds.
    #[track_caller]
    pub fn break_if(&mut self, guard: impl Into<Guard>) {
        let at = Location::caller();
        let guard = guard.into();
        self.when(guard, |k| k.push_at(Control::Break, at));
    }

    /// Adds a loop: `body(i)` for `i` from `start` by `step` while `i < end`, 32 bits unsigned. No iteration if
    /// `start >= end`.
    ///
    /// A `Continue` in the body would skip the step and repeat the same iteration; use a branch instead.
    #[track_caller]
    pub fn for_range(
        &mut self,
        start: impl Into<Operand>,
        end: impl Into<Operand>,
        step: impl Into<Operand>,
        body: impl FnOnce(&mut Self, Reg),
    ) {
        let (end, step) = (end.into(), step.into());
        let at = self.site.unwrap_or(Location::caller());
        let i = self.mov(Type::U32, start);
        self.loop_(|k| {
            let outer = k.set_location(Some(at));
            let done = k.setp(Compare::Ge, Type::U32, i, end);
            k.break_if(done);
            k.set_location(outer);
            body(k, i);
            let outer = k.set_location(Some(at));
            k.binary_to(BinaryOp::Add, Type::U32, i, i, step);
            k.set_location(outer);
        });
    }

    /// Adds a comment to the listing.
    #[track_caller]
    pub fn comment(&mut self, text: impl Into<String>) {
        self.push(Control::Comment(text.into()));
    }

    fn push_at(&mut self, op: impl Into<Op>, at: &'static Location<'static>) {
        let guard = self.guard;
        let at = self.site.unwrap_or(at);
        self.open
            .last_mut()
            .expect("the body is open until finish")
            .push(Stmt {
                op: op.into(),
                guard,
                claim: None,
                at,
            });
    }

    /// Adds `mov`: returns a copy of `a` in a fresh register of the type's class. A number becomes its bits in this
    /// type.
    #[track_caller]
    pub fn mov(&mut self, ty: Type, a: impl Into<Operand>) -> Reg {
        let d = self.reg(ty.register());
        let a = match a.into() {
            Operand::Float(value) => ty.constant(value),
            a @ (Operand::Reg(_) | Operand::Int(_) | Operand::Special(_)) => a,
        };
        self.push(Alu::Mov { d, a });
        d
    }

    /// Adds `mov` into `d`.
    #[track_caller]
    pub fn mov_to(&mut self, d: Reg, a: impl Into<Operand>) {
        self.push(Alu::Mov { d, a: a.into() });
    }

    /// Adds an instruction with one source.
    #[track_caller]
    pub fn unary(&mut self, op: UnaryOp, ty: Type, a: impl Into<Operand>) -> Reg {
        let d = self.reg(op.result(ty).register());
        self.push(Alu::Unary {
            op,
            ty,
            d,
            a: a.into(),
        });
        d
    }

    /// Adds an instruction with two sources.
    #[track_caller]
    pub fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let d = self.reg(op.result(ty).register());
        self.binary_to(op, ty, d, a, b);
        d
    }

    /// Adds an instruction with two sources, into `d`.
    #[track_caller]
    pub fn binary_to(
        &mut self,
        op: BinaryOp,
        ty: Type,
        d: Reg,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) {
        let (a, b) = (a.into(), b.into());
        self.push(Alu::Binary { op, ty, d, a, b });
    }

    /// Adds an instruction with three sources.
    #[track_caller]
    pub fn ternary(
        &mut self,
        op: TernaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let d = self.reg(op.result(ty).register());
        self.ternary_to(op, ty, d, a, b, c);
        d
    }

    /// Adds an instruction with three sources, into `d`.
    #[track_caller]
    pub fn ternary_to(
        &mut self,
        op: TernaryOp,
        ty: Type,
        d: Reg,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) {
        let (a, b, c) = (a.into(), b.into(), c.into());
        self.push(Alu::Ternary { op, ty, d, a, b, c });
    }

    /// Adds a comparison.
    #[track_caller]
    pub fn setp(
        &mut self,
        cmp: Compare,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let p = self.reg(RegType::Pred);
        let (a, b) = (a.into(), b.into());
        self.push(Alu::Setp { cmp, ty, p, a, b });
        p
    }

    /// Adds `and`, `or` or `xor` of two predicates, each taken as it is or negated.
    #[track_caller]
    pub fn pred(&mut self, op: BinaryOp, a: impl Into<Guard>, b: impl Into<Guard>) -> Reg {
        let p = self.reg(RegType::Pred);
        let (a, b) = (a.into(), b.into());
        self.push(Alu::PredLogic { op, p, a, b });
        p
    }

    /// Adds `selp`: returns `a` where `p` holds, else `b`.
    #[track_caller]
    pub fn selp(&mut self, ty: Type, a: impl Into<Operand>, b: impl Into<Operand>, p: Reg) -> Reg {
        let d = self.reg(ty.register());
        let (a, b) = (a.into(), b.into());
        self.push(Alu::Selp { ty, d, a, b, p });
        d
    }

    /// Joins narrow registers into a wide one, lowest first.
    #[track_caller]
    pub fn pack(&mut self, ty: RegType, parts: &[Reg]) -> Reg {
        let d = self.reg(ty);
        self.push(Alu::Pack {
            d,
            parts: parts.to_vec(),
        });
        d
    }

    /// Splits a wide register into parts, lowest first.
    #[track_caller]
    pub fn unpack(&mut self, ty: RegType, a: Reg) -> Vec<Reg> {
        let count = (a.ty.bits() / ty.bits()) as usize;
        let parts = self.regs(ty, count);
        self.push(Alu::Unpack {
            parts: parts.clone(),
            a,
        });
        parts
    }
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl KernelBuilder {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&mut self, ty: Type, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
                self.binary(BinaryOp::$op, ty, a, b)
            })*
        }
    };
}

binary_methods! {
    /// `a + b`
    add = Add;
    /// `a - b`
    sub = Sub;
    /// `a * b`, the low half for integers
    mul = Mul;
    /// `a * b` in twice the width
    mul_wide = MulWide;
    /// `a / b`
    div = Div;
    /// `a % b`
    rem = Rem;
    /// the smaller
    min = Min;
    /// the larger
    max = Max;
    /// the smaller float, or NaN if one of the two is
    min_nan = MinNan;
    /// the larger float, or NaN if one of the two is
    max_nan = MaxNan;
    /// both bits
    and = And;
    /// either bit
    or = Or;
    /// one bit but not both
    xor = Xor;
    /// `a << b`
    shl = Shl;
    /// `a >> b`
    shr = Shr;
}

impl KernelBuilder {
    /// Adds `a * b + c`: `mad.lo` for integers, `fma.rn` for floats.
    #[track_caller]
    pub fn mad(
        &mut self,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let op = if ty.is_float() {
            TernaryOp::Fma
        } else {
            TernaryOp::Mad
        };
        self.ternary(op, ty, a, b, c)
    }
}
