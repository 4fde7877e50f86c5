//! What the addresses and coordinates of a copy must be.

use super::builder::Builder;
use super::copy::Piece;
use super::copy_run::{Ends, Run};
use super::error::ErrorKind;
use super::flow::Cond;
use super::index::Index;
use super::memory::{Dense, Tensor, View};
use colex_atom::Space;

impl Builder {
    /// Whether the vector at an index lies within the extents, and, where the instruction fills with zeros, how many
    /// elements of it do.
    pub(super) fn inside(
        &mut self,
        tensor: &Tensor,
        at: i64,
        vector: i64,
        fills: bool,
    ) -> Result<(Cond, Option<Index>), ErrorKind> {
        let View::Coords { of, .. } = &tensor.view else {
            return Ok((Cond::Known(true), None));
        };
        let first = tensor.coordinates_at(at)?;
        let last = tensor.coordinates_at(at + vector - 1)?;
        let mut cond = Cond::Known(true);
        let mut partial = None;
        for (mode, (x, y)) in first.iter().zip(&last).enumerate() {
            let extent = &of.extents[mode];
            let within =
                if x == y || extent.alignment() % vector == 0 && x.alignment() % vector == 0 {
                    self.less(x, extent)
                } else if fills {
                    partial = Some(extent - x);
                    Cond::Known(true)
                } else if let Some(leaf) = of
                    .dynamic_extent(mode)
                    .filter(|_| x.alignment() % vector == 0)
                {
                    self.launch.require(of.slot, Some(leaf), vector);
                    self.less(x, extent)
                } else {
                    self.less(y, extent)
                };
            cond = self.both(cond, within);
        }
        Ok((cond, partial))
    }

    /// What an instruction is given for one of its ends.
    pub(super) fn end(
        &mut self,
        run: &mut Run<'_>,
        side: usize,
        first: i64,
    ) -> Result<Ends, ErrorKind> {
        let (piece, count) = ([run.src, run.dst][side], run.counts[side]);
        match piece {
            Piece::Memory(tensor) => {
                let bytes = tensor.bytes_at(first)?;
                self.check_vector(tensor, first, count, &bytes)?;
                let global = tensor.space == Space::Global;
                let address = self.address(&bytes, global);
                run.addresses[side].push(bytes);
                Ok(Ends::Memory(address))
            }
            Piece::Registers(fragment) => {
                let wide =
                    count * i64::from(fragment.ty.bits()) >= i64::from(fragment.regs[0].ty.bits());
                Ok(Ends::Registers(if wide {
                    fragment.run(first, count)?
                } else {
                    Vec::new()
                }))
            }
        }
    }

    /// The values of a vector must be neighbours, the first on a multiple of their bytes.
    pub(super) fn check_vector(
        &mut self,
        tensor: &Tensor,
        first: i64,
        count: i64,
        start: &Index,
    ) -> Result<(), ErrorKind> {
        let bytes = i64::from(tensor.ty.bits()) / 8;
        for i in 1..count {
            let step = tensor.bytes_at(first + i)? - start;
            if step.as_constant() != Some(i * bytes) {
                let why = format!(
                    "an instruction moves {count} neighbours, and element {i} of {} lies {step} bytes after the first",
                    tensor.layout()
                );
                return Err(ErrorKind::operands("copy", why));
            }
        }
        let need = (count * bytes).min(16);
        if let View::Coords { of, .. } = &tensor.view {
            self.launch.require(of.slot, None, need);
            let coordinates = tensor.coordinates_at(first)?;
            for (mode, x) in coordinates.iter().enumerate() {
                self.check_mode(of, mode, x, need / bytes)?;
            }
            return Ok(());
        }
        if (start - &tensor.base).alignment() % need != 0 {
            let why = format!(
                "an instruction moves {need} bytes from a multiple of them, and {} starts at {start}",
                tensor.layout()
            );
            return Err(ErrorKind::operands("copy", why));
        }
        Ok(())
    }

    pub(super) fn check_mode(
        &mut self,
        of: &Dense,
        mode: usize,
        x: &Index,
        vector: i64,
    ) -> Result<(), ErrorKind> {
        let mut inner = 1;
        for (at, (extent, stride)) in of.modes[mode].iter().enumerate() {
            let alone = of.modes[mode].len() == 1;
            let digit = if alone {
                x.alignment()
            } else {
                (x / inner).alignment()
            };
            inner *= extent.as_constant().unwrap_or(1);
            if digit.saturating_mul(stride.alignment()) % vector == 0 {
                continue;
            }
            match of.dynamic_stride(mode, at) {
                Some(leaf) => self.launch.require(of.slot, Some(leaf), vector),
                None => {
                    let why = format!(
                        "an instruction moves {vector} elements from a multiple of them, and in mode {mode} of {} it starts \
                         at {x} times {stride}",
                        of.name
                    );
                    return Err(ErrorKind::operands("copy", why));
                }
            }
        }
        Ok(())
    }
}
