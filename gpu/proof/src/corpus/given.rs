//! Something to work on.

use colex_ir::{KernelBuilder, Operand, Reg, RegType, SharedId, Special, Type};

/// Values of every class, and memory of every space.
pub(super) struct Given {
    pub(super) pred: Reg,
    pub(super) values: [Reg; 5],
    pub(super) global: Reg,
    pub(super) shared: SharedId,
}

impl Given {
    pub(super) fn new(k: &mut KernelBuilder) -> Given {
        let data = k.pointer("data");
        let shared = k.shared("bytes", 1024, 128);
        let global = k.param(data);
        let lane = k.mov(Type::U32, Special::LaneId);
        let pred = k.setp(colex_ir::Compare::Lt, Type::U32, lane, 7);
        let values = [
            k.mov(Type::U16, 3),
            k.mov(Type::U32, 5),
            k.mov(Type::U64, 7),
            k.mov(Type::F32, 1.5),
            k.mov(Type::F64, 2.5),
        ];
        Given {
            pred,
            values,
            global,
            shared,
        }
    }

    /// A register that holds a value of a class.
    pub(super) fn reg(&self, class: RegType) -> Reg {
        match class {
            RegType::Pred => self.pred,
            RegType::B16 => self.values[0],
            RegType::B32 => self.values[1],
            RegType::B64 => self.values[2],
            RegType::F32 => self.values[3],
            RegType::F64 => self.values[4],
        }
    }

    /// A value of a type.
    pub(super) fn of(&self, ty: Type) -> Operand {
        self.reg(ty.register()).into()
    }
}
