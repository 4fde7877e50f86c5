//! `KernelBuilder`: memory.

use colex_atom::{CopyAtom, MmaAtom};

use super::KernelBuilder;
use crate::kernel::ParamType;
use crate::modifiers::{AtomicOp, Order, Space};
use crate::op::{Access, Atom, CopyArgs, Memory, PrintedValue, PtxText, ScaleD};
use crate::operand::{Address, Base, Operand, ParamId, Reg};
use crate::ty::{RegType, Type};

impl KernelBuilder {
    /// Prints a line: texts and values, then a text at the end. Each thread that executes it prints a line of its own.
    ///
    /// The simulator prints to the sink that its options name. On a GPU it is a call of `vprintf`: the driver keeps lines in
    /// a buffer (1 MiB unless the host sets `CU_LIMIT_PRINTF_FIFO_SIZE`), prints them when the host waits for the
    /// context, and overwrites the oldest if there are more. The lines of different threads come in any order.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::Launch;
    /// use colex_ir::{KernelBuilder, PrintedValue, Special, Type};
    /// use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    ///
    /// let mut k = KernelBuilder::new("k", Arch::Sm80);
    /// let value = |before: &str, ty, a| PrintedValue { before: before.to_string(), ty, digits: 9, a };
    /// let lane = k.mov(Type::U32, Special::LaneId);
    /// k.print(vec![value("lane ", Type::U32, lane.into()), value(": ", Type::F64, 0.1.into())], "!");
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&k.finish(), &Launch::new(1, 2), &[], &mut Memory::default(), &options)?;
    /// let lines: Vec<&str> = report.printed.iter().map(|line| &line.text[..]).collect();
    /// assert_eq!(lines, ["lane 0: 0.1!", "lane 1: 0.1!"]);
    /// # Ok::<(), colex_sim::Fault>(())
    /// ```
    #[track_caller]
    pub fn print(&mut self, values: Vec<PrintedValue>, end: impl Into<String>) {
        let end = end.into();
        self.push(Memory::Print { values, end });
    }

    /// Adds a text of PTX with typed inputs, and returns its outputs in fresh registers: see [`PtxText`].
    ///
    /// The verifier checks the operands, not what the text does: no analysis of uniformity, memory or barriers sees into it.
    /// Only a GPU runs it, unless [`PtxText::on_host`] gives the simulator a function.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_ir::launch::Launch;
    /// use colex_ir::{KernelBuilder, PtxText, Special, Type};
    /// use colex_sim::{Memory, SimOptions, simulate};
    ///
    /// let mut k = KernelBuilder::new("k", Arch::Sm80);
    /// let lane = k.mov(Type::U32, Special::LaneId);
    /// k.ptx(PtxText::new("brev.b32 %0, %1;"), &[(Type::B32, lane.into())], &[Type::B32]);
    /// let kernel = k.finish();
    /// assert!(kernel.ptx().unwrap().contains("brev.b32 %r1, %r0;"));
    /// let fault = simulate(&kernel, &Launch::new(1, 1), &[], &mut Memory::default(), &SimOptions::default()).unwrap_err();
    /// assert_eq!(
    ///     fault.what(),
    ///     "this kernel has PTX text; only a GPU runs it, unless `PtxText::on_host` says what it computes"
    /// );
    /// ```
    #[track_caller]
    pub fn ptx(&mut self, text: PtxText, inputs: &[(Type, Operand)], outputs: &[Type]) -> Vec<Reg> {
        let d: Vec<(Type, Reg)> = outputs
            .iter()
            .map(|ty| (*ty, self.reg(ty.register())))
            .collect();
        let regs = d.iter().map(|(_, reg)| *reg).collect();
        let a = inputs.to_vec();
        self.push(Memory::Text { text, d, a });
        regs
    }

    /// Returns the value of a scalar or pointer parameter, or the address of a tensor map.
    #[track_caller]
    pub fn param(&mut self, id: ParamId) -> Reg {
        let ty = match self.param_type(id) {
            Some(ParamType::Scalar(ty)) => ty,
            // The verifier speaks of a parameter that is not there.
            Some(ParamType::Pointer { .. }) | None => Type::U64,
            Some(ParamType::TensorMap) => {
                let d = self.reg(RegType::B64);
                self.push(Memory::AddressOf { d, a: id.into() });
                return d;
            }
        };
        self.load(Access::new(Space::Param, ty), id)
    }

    /// Returns the address as a register: 32 bits for shared memory, 64 for a tensor map, the class of the register it
    /// begins with.
    #[track_caller]
    pub fn address_of(&mut self, a: impl Into<Address>) -> Reg {
        let a = a.into();
        let d = self.reg(match a.base {
            Base::Reg(reg) => reg.ty,
            Base::Param(_) => RegType::B64,
            Base::Shared(_) | Base::DynamicShared => RegType::B32,
        });
        self.push(Memory::AddressOf { d, a });
        d
    }

    /// Loads one value.
    #[track_caller]
    pub fn load(&mut self, access: Access, a: impl Into<Address>) -> Reg {
        let d = self.reg(access.ty.register());
        self.load_to(access, &[d], a);
        d
    }

    /// Loads a vector of 1, 2 or 4 values.
    #[track_caller]
    pub fn load_vector(&mut self, access: Access, count: usize, a: impl Into<Address>) -> Vec<Reg> {
        let d = self.regs(access.ty.register(), count);
        self.load_to(access, &d, a);
        d
    }

    /// Loads into registers that exist.
    #[track_caller]
    pub fn load_to(&mut self, access: Access, d: &[Reg], a: impl Into<Address>) {
        self.push(Memory::Load {
            access,
            d: d.to_vec(),
            a: a.into(),
        });
    }

    /// Stores one value.
    #[track_caller]
    pub fn store(&mut self, access: Access, a: impl Into<Address>, s: impl Into<Operand>) {
        self.push(Memory::Store {
            access,
            a: a.into(),
            s: vec![s.into()],
        });
    }

    /// Stores a vector of 1, 2 or 4 registers.
    #[track_caller]
    pub fn store_vector(&mut self, access: Access, a: impl Into<Address>, s: &[Reg]) {
        self.push(Memory::Store {
            access,
            a: a.into(),
            s: s.iter().map(Operand::from).collect(),
        });
    }

    /// Adds an atomic operation that returns the old value.
    #[track_caller]
    pub fn atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        ty: Type,
        a: impl Into<Address>,
        s: impl Into<Operand>,
    ) -> Reg {
        let d = self.reg(ty.register());
        self.push(Memory::Atomic {
            op,
            space,
            ty,
            order: Order::Weak,
            d,
            a: a.into(),
            s: s.into(),
            t: None,
        });
        d
    }

    /// Adds an atomic operation without a result (`red`); several sources are a vector.
    #[track_caller]
    pub fn reduce(
        &mut self,
        op: AtomicOp,
        space: Space,
        ty: Type,
        a: impl Into<Address>,
        s: &[Reg],
    ) {
        self.push(Memory::Reduce {
            op,
            space,
            ty,
            order: Order::Weak,
            a: a.into(),
            s: s.iter().map(Operand::from).collect(),
        });
    }

    /// Returns the address of the same byte in block `rank` of the cluster (`mapa`).
    #[track_caller]
    pub fn mapa(&mut self, a: impl Into<Operand>, rank: impl Into<Operand>) -> Reg {
        let d = self.reg(RegType::B32);
        let (a, rank) = (a.into(), rank.into());
        self.push(Memory::Mapa { d, a, rank });
        d
    }

    /// Adds one copy instruction.
    #[track_caller]
    pub fn copy_atom(&mut self, atom: &CopyAtom, args: CopyArgs) {
        self.push(Atom::Copy {
            atom: Box::new(atom.clone()),
            args: Box::new(args),
        });
    }

    /// Adds one matrix instruction on registers: `d = a·b + c`.
    #[track_caller]
    pub fn mma_atom(&mut self, atom: &MmaAtom, d: &[Reg], a: &[Reg], b: &[Reg], c: &[Reg]) {
        self.push(Atom::Mma {
            atom: Box::new(atom.clone()),
            d: d.to_vec(),
            a: a.to_vec(),
            b: b.to_vec(),
            c: c.to_vec(),
            e: Vec::new(),
            scale_d: ScaleD::One,
        });
    }

    /// Adds one `wgmma`: `d = a·b` or `d += a·b`. `a` is one descriptor or registers, `b` a descriptor.
    #[track_caller]
    pub fn wgmma(&mut self, atom: &MmaAtom, d: &[Reg], a: &[Reg], b: Reg, scale_d: ScaleD) {
        self.push(Atom::Mma {
            atom: Box::new(atom.clone()),
            d: d.to_vec(),
            a: a.to_vec(),
            b: vec![b],
            c: Vec::new(),
            e: Vec::new(),
            scale_d,
        });
    }
}
