//! Tensors as the host sees them, for what a kernel should have done.

use colex_atom::Ty;
use colex_layout::Layout;
use half::{bf16, f16};

/// What a launch is given.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Tensor(Memory),
    /// A map by name, over memory under a layout.
    Map(&'static str, Memory),
    Number(u32),
}

/// Bytes under a layout.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) ty: Ty,
    pub(crate) layout: Layout,
    pub(crate) origin: i64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn encode(ty: Ty, x: f64) -> Vec<u8> {
    match ty {
        Ty::F64 => x.to_le_bytes().to_vec(),
        Ty::F32 | Ty::Tf32 => (x as f32).to_le_bytes().to_vec(),
        Ty::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
        Ty::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
        Ty::S32 => (x as i32).to_le_bytes().to_vec(),
        other => panic!("no family has elements of {other}"),
    }
}

fn decode(ty: Ty, bytes: &[u8]) -> f64 {
    match ty {
        Ty::F64 => f64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        Ty::F32 | Ty::Tf32 => f32::from_le_bytes(bytes.try_into().expect("4 bytes")).into(),
        Ty::F16 => f16::from_le_bytes(bytes.try_into().expect("2 bytes")).into(),
        Ty::Bf16 => bf16::from_le_bytes(bytes.try_into().expect("2 bytes")).into(),
        Ty::S32 => i32::from_le_bytes(bytes.try_into().expect("4 bytes")).into(),
        other => panic!("no family has elements of {other}"),
    }
}

impl Memory {
    /// Small integers that every type holds, as many as the layout reaches.
    pub(crate) fn numbers(ty: Ty, layout: &str, seed: i64) -> Memory {
        let layout: Layout = layout.parse().expect("a layout");
        let n = layout.cosize().expect("a size");
        let number = |i: i64| ((i * 7 + seed * 5 + i / 13) % 11 - 5) as f64;
        Memory {
            ty,
            layout,
            origin: 0,
            bytes: (0..n).flat_map(|i| encode(ty, number(i))).collect(),
        }
    }

    /// What was there before: no number of the others.
    pub(crate) fn poison(ty: Ty, layout: &str) -> Memory {
        let mut memory = Memory::numbers(ty, layout, 0);
        let n = memory.bytes.len() / memory.width();
        memory.bytes = (0..n).flat_map(|_| encode(ty, -77.0)).collect();
        memory
    }

    fn width(&self) -> usize {
        (self.ty.bits() / 8) as usize
    }

    pub(crate) fn extent(&self, mode: usize) -> i64 {
        self.layout.mode(mode).map_or(1, |m| m.size())
    }

    fn place(&self, at: &[i64]) -> Option<usize> {
        let mut offset = self.origin;
        for (mode, x) in at.iter().enumerate() {
            if !(0..self.extent(mode)).contains(x) {
                return None;
            }
            let mode = self.layout.mode(mode)?;
            offset += mode.at(*x).ok()?;
        }
        let place = usize::try_from(offset).ok()? * self.width();
        (place + self.width() <= self.bytes.len()).then_some(place)
    }

    /// The element, 0 outside.
    pub(crate) fn get(&self, at: &[i64]) -> f64 {
        self.place(at)
            .map_or(0.0, |p| decode(self.ty, &self.bytes[p..p + self.width()]))
    }

    /// Sets an element; nothing outside.
    pub(crate) fn set(&mut self, at: &[i64], x: f64) {
        if let Some(p) = self.place(at) {
            let (ty, width) = (self.ty, self.width());
            self.bytes[p..p + width].copy_from_slice(&encode(ty, x));
        }
    }
}

/// The arguments after `write` has written the second, a tensor or a map, from the first.
pub(crate) fn written(given: &[Given], write: impl FnOnce(&Memory, &mut Memory)) -> Vec<Given> {
    let mut all = given.to_vec();
    let [from, Given::Tensor(to) | Given::Map(_, to), ..] = &mut all[..] else {
        unreachable!("two tensors")
    };
    write(memory(from), to);
    all
}

pub(crate) fn memory(given: &Given) -> &Memory {
    match given {
        Given::Tensor(memory) | Given::Map(_, memory) => memory,
        Given::Number(_) => panic!("a number is no tensor"),
    }
}
