//! Checks of the addresses and coordinates of a copy.

use std::collections::BTreeSet;

use super::Piece;
use super::run::Run;
use crate::build::Builder;
use crate::build::claims::Reach;
use crate::build::flow::Cond;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::{Dense, Share, Tensor, View};
use colex_atom::Space;
use colex_ir::End;
use colex_ir::claims::ClaimId;

/// The coordinates of the elements of a vector along one mode.
struct Span {
    mode: usize,
    low: Index,
    high: Index,
    /// Whether they are one more from element to element.
    is_run: bool,
}

impl Span {
    /// Along every mode: elements of one vector differ by constants.
    fn all(
        vector: i64,
        coordinates: impl Fn(i64) -> Result<Vec<Index>, ErrorKind>,
    ) -> Result<Vec<Span>, ErrorKind> {
        let first = coordinates(0)?;
        let mut steps = vec![vec![0]; first.len()];
        for i in 1..vector {
            for ((steps, x), first) in steps.iter_mut().zip(coordinates(i)?).zip(&first) {
                steps.push((x - first).as_constant().unwrap_or(0));
            }
        }
        let span = |(mode, (steps, x)): (usize, (Vec<i64>, Index))| {
            let least = steps.iter().copied().min().unwrap_or(0);
            let most = steps.iter().copied().max().unwrap_or(0);
            Span {
                mode,
                low: &x + least,
                high: x + most,
                is_run: steps.iter().copied().eq(0..vector),
            }
        };
        Ok(steps.into_iter().zip(first).enumerate().map(span).collect())
    }

    /// The number of coordinates that it spans.
    fn places(&self) -> i64 {
        (&self.high - &self.low).as_constant().map_or(1, |n| n + 1)
    }

    /// Whether every multiple of its places lies before it or behind it.
    fn is_aligned(&self) -> bool {
        self.low.alignment() % self.places() == 0
    }

    fn straddles(&self, of: &str, extent: &Index) -> ErrorKind {
        let n = self.places();
        let why = format!(
            "a vector of {n} elements begins at {} along mode {} of {of}, and may lie across an end of 0..{extent}: fewer \
             elements at a time, or an extent that {n} divides",
            self.low, self.mode
        );
        ErrorKind::operands("copy_in_bounds", why)
    }
}

impl Builder {
    /// Whether the vector at an index lies within the extents of the tensor and of its tile, and, where the instruction fills
    /// with zeros, how many elements of it do.
    pub(crate) fn inside(
        &mut self,
        tensor: &Tensor,
        at: i64,
        vector: i64,
        fills: bool,
        claim: &mut Option<ClaimId>,
    ) -> Result<(Cond, Option<Index>), ErrorKind> {
        let mut cond = Cond::Known(true);
        let mut partial = None;
        if let View::Coords { of, .. } = &tensor.view {
            for span in Span::all(vector, |i| tensor.coordinates_at(at + i))? {
                let extent = &of.extents[span.mode];
                let above = self.begins_inside(&span, of)?;
                let leaf = of.dynamic_extent(span.mode);
                let below = if self.ends_together(&span, extent) {
                    self.less(&span.low, extent)
                } else if fills && span.is_run {
                    partial = Some(extent - &span.low);
                    Cond::Known(true)
                } else if let Some(leaf) = leaf.filter(|_| span.is_aligned()) {
                    self.launch.require(of.slot, Some(leaf), span.places());
                    self.less(&span.low, extent)
                } else {
                    return Err(span.straddles(&of.name, extent));
                };
                let reach = Reach {
                    tensor: of.name.clone(),
                    mode: span.mode,
                    low: span.low,
                    high: span.high,
                    extent: extent.clone(),
                };
                // What a declared range has decided is asked nowhere else.
                if (above, below) == (Cond::Known(true), Cond::Known(true))
                    && partial.is_none()
                    && !self.is_certain(&reach)
                {
                    let claim = *claim.get_or_insert_with(|| self.open_claim());
                    self.claim_reach(claim, reach);
                }
                cond = self.both(cond, above);
                cond = self.both(cond, below);
            }
        }
        let tile = self.in_tile(tensor, at, vector)?;
        Ok((self.both(cond, tile), partial))
    }

    /// Whether all elements of a span are below an extent where the first is.
    fn ends_together(&self, span: &Span, extent: &Index) -> bool {
        let ((low, high), end) = ((span.low.range().0, span.high.range().1), extent.range());
        span.places() == 1
            || high < end.0
            || low >= end.1
            || span.is_aligned() && extent.alignment() % span.places() == 0
    }

    /// Whether a span begins where its mode does or above.
    fn begins_inside(&mut self, span: &Span, of: &Dense) -> Result<Cond, ErrorKind> {
        let begin = &of.begins[span.mode];
        let above = &span.low - begin;
        if above.range().0 >= 0 {
            return Ok(Cond::Known(true));
        }
        if span.places() > 1 && above.alignment() % span.places() != 0 {
            return Err(span.straddles(&of.name, &of.extents[span.mode]));
        }
        Ok(self.less(&(begin - 1), &span.low))
    }

    /// Whether the vector at an index lies within the tiles that partitions reach beyond.
    pub(crate) fn in_tile(
        &mut self,
        tensor: &Tensor,
        at: i64,
        vector: i64,
    ) -> Result<Cond, ErrorKind> {
        let mut cond = Cond::Known(true);
        for end in &tensor.ends {
            for span in Span::all(vector, |i| end.coordinates_at(at + i))? {
                let extent = Index::constant(end.extents[span.mode]);
                if !self.ends_together(&span, &extent) {
                    return Err(span.straddles("the tile", &extent));
                }
                let below = self.less(&span.low, &extent);
                cond = self.both(cond, below);
            }
        }
        Ok(cond)
    }

    /// Refuses what a copy without a question need not find inside: what lies beyond an unevenly partitioned tile, and tiles
    /// beyond the end of a tensor. Of dynamic extents the launch is asked.
    pub(crate) fn check_whole(
        &mut self,
        tensor: &Tensor,
        at: i64,
        vector: i64,
    ) -> Result<(), ErrorKind> {
        for end in &tensor.ends {
            for span in Span::all(vector, |i| end.coordinates_at(at + i))? {
                if span.high.range().1 >= end.extents[span.mode] {
                    let why = format!(
                        "the partition of a tile of {} reaches to {}, and what lies beyond the tile is another element's: \
                         `copy_in_bounds` leaves it out",
                        tuple(&end.extents),
                        tuple(&end.reach)
                    );
                    return Err(ErrorKind::operands("copy", why));
                }
            }
        }
        let View::Coords {
            of,
            tile,
            stated_inside: false,
            ..
        } = &tensor.view
        else {
            return Ok(());
        };
        for span in Span::all(vector, |i| tensor.coordinates_at(at + i))? {
            let above = &span.low - &of.begins[span.mode];
            let (low, high) = (above.range().0, span.high.range().1);
            let extent = &of.extents[span.mode];
            if low >= 0 && high < extent.range().0 {
                continue;
            }
            let whole = (Index::constant(0), 1);
            let (begin, n) = tile.get(span.mode).unwrap_or(&whole);
            // Of the block's number only the launch knows how far it goes.
            let fixed = self.is_bounded(begin);
            let even = (begin % *n).as_constant() == Some(0);
            let leaf = of.dynamic_extent(span.mode);
            match leaf {
                _ if low < 0 => {}
                None if even && !fixed && (extent % *n).as_constant() == Some(0) => continue,
                Some(leaf) if fixed => {
                    self.launch.require_least(of.slot, leaf, high + 1);
                    continue;
                }
                Some(leaf) if even => {
                    self.launch.require_tiles(of.slot, leaf, *n);
                    continue;
                }
                _ => {}
            }
            let why = format!(
                "a tile of {n} along mode {} of {}, whose extent is {extent}, begins at {begin} and need not lie inside: \
                 `copy_in_bounds` asks, or `stated_inside` where a branch has asked",
                span.mode, of.name
            );
            return Err(ErrorKind::operands("copy", why));
        }
        Ok(())
    }

    /// Adds what a vector of a tensor in global memory reaches to a claim.
    pub(crate) fn claim_vector(
        &mut self,
        claim: ClaimId,
        tensor: &Tensor,
        at: i64,
        vector: i64,
    ) -> Result<(), ErrorKind> {
        let View::Coords { of, .. } = &tensor.view else {
            return Ok(());
        };
        for span in Span::all(vector, |i| tensor.coordinates_at(at + i))? {
            let extent = of.extents[span.mode].clone();
            self.claim_reach(
                claim,
                Reach {
                    tensor: of.name.clone(),
                    mode: span.mode,
                    low: span.low,
                    high: span.high,
                    extent,
                },
            );
        }
        Ok(())
    }

    /// Whether an integer takes the ends of its range in every launch: of constants, the thread's number and counters
    /// of loops with constant ends.
    pub(crate) fn is_bounded(&self, index: &Index) -> bool {
        let known = |reg| self.reports.values.is_bounded(reg).then_some(1);
        index.eval(&known).is_some()
    }

    /// Refuses a destination with one element at several coordinates. Of dynamic strides the launch is asked.
    pub(crate) fn check_target(&mut self, target: &Piece<'_>) -> Result<(), ErrorKind> {
        let refuse = |layout: &dyn std::fmt::Display| {
            let why = format!(
                "the destination {layout} has one element at several coordinates: which value stays would be a race"
            );
            Err(ErrorKind::operands("copy", why))
        };
        let tensor = match target {
            Piece::Registers(fragment) if !fragment.layout.is_injective()? => {
                return refuse(&fragment.layout);
            }
            Piece::Registers(_) => return Ok(()),
            Piece::Memory(tensor) => tensor,
        };
        if let View::Coords { of, .. } = &tensor.view {
            self.launch.write(of.slot);
        }
        match (&tensor.view, &tensor.share) {
            (View::Coords { of, .. }, _)
                if of.layout.is_static() && !of.layout.is_injective()? =>
            {
                return refuse(&of.layout);
            }
            (View::Offsets { layout, .. } | View::Coords { layout, .. }, Some(share))
                if !share.is_injective =>
            {
                return refuse(layout);
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses a part of a partition some of whose threads no thread of the block is: their elements would not be copied.
    pub(crate) fn check_share(&self, share: &Share) -> Result<(), ErrorKind> {
        let mut missing: BTreeSet<i64> = share.threads.iter().copied().collect();
        for thread in 0..i64::from(self.threads) {
            let of = |reg| self.reports.values.of_thread(reg, thread);
            match share.thread.eval(&of) {
                Some(thread) => missing.remove(&thread),
                // A number that only the kernel knows may be any.
                None => return Ok(()),
            };
        }
        let Some(first) = missing.first() else {
            return Ok(());
        };
        let why = format!(
            "the partition is of {} threads, and at the thread index {} no thread of the block of {} is number {first}",
            share.threads.len(),
            share.thread,
            self.threads
        );
        Err(ErrorKind::operands("partition", why))
    }

    /// The operand of an instruction for one of its ends.
    pub(crate) fn end(
        &mut self,
        run: &mut Run<'_>,
        side: usize,
        first: i64,
    ) -> Result<End, ErrorKind> {
        let (piece, count) = ([run.src, run.dst][side], run.counts[side]);
        match piece {
            Piece::Memory(tensor) => {
                let bytes = tensor.bytes_at(first)?;
                self.check_vector(tensor, first, count, &bytes)?;
                let global = tensor.space == Space::Global;
                let address = self.address(&bytes, global);
                run.addresses[side].push(bytes);
                Ok(End::Memory(address))
            }
            Piece::Registers(fragment) => {
                let wide =
                    count * i64::from(fragment.ty.bits()) >= i64::from(fragment.regs[0].ty.bits());
                Ok(End::Regs(if wide {
                    fragment.run(first, count)?
                } else {
                    Vec::new()
                }))
            }
        }
    }

    /// The values of a vector must be neighbours, the first on a multiple of their bytes.
    pub(crate) fn check_vector(
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
            let vector = (need / bytes).max(1);
            self.check_start("copy", of, &tensor.coordinates_at(first)?, vector)?;
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

    /// Asks that a vector begins at a multiple of its elements.
    pub(crate) fn check_start(
        &mut self,
        operation: &'static str,
        of: &Dense,
        coordinates: &[Index],
        vector: i64,
    ) -> Result<(), ErrorKind> {
        let (mut fixed, mut odd) = (Index::constant(0), None);
        for (mode, x) in coordinates.iter().enumerate() {
            for (place, stride) in self.check_mode(of, mode, x, vector) {
                let part = &place * &stride;
                if part.alignment() % vector != 0 {
                    odd.get_or_insert((mode, x, stride));
                }
                fixed = fixed + part;
            }
        }
        // Of static strides the sum counts.
        if let Some((mode, x, stride)) = odd
            && fixed.alignment() % vector != 0
        {
            let why = format!(
                "an instruction moves {vector} elements from a multiple of them, and in mode {mode} of {} it starts at {x} \
                 times {stride}",
                of.name
            );
            return Err(ErrorKind::operands(operation, why));
        }
        Ok(())
    }

    /// Asks the launch for dynamic strides that vectors need to be multiples; the digits of a coordinate along static strides.
    fn check_mode(
        &mut self,
        of: &Dense,
        mode: usize,
        x: &Index,
        vector: i64,
    ) -> Vec<(Index, Index)> {
        let mut rest = x.clone();
        let mut fixed = Vec::new();
        let last = of.modes[mode].len() - 1;
        for (at, (extent, stride)) in of.modes[mode].iter().enumerate() {
            let digit = if at == last {
                rest.clone()
            } else {
                &rest % extent
            };
            rest = rest / extent;
            match of.dynamic_stride(mode, at) {
                Some(leaf) if (&digit * stride).alignment() % vector != 0 => {
                    self.launch.require(of.slot, Some(leaf), vector);
                }
                Some(_) => {}
                None => fixed.push((digit, stride.clone())),
            }
        }
        fixed
    }
}

/// `(a,b,..)`
fn tuple(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("({})", numbers.join(","))
}
