//! Computes the product of a warpgroup (`wgmma`).

use std::sync::Arc;

use colex_atom::{FloatFormat, GmmaDescriptor, Major, Ty, Value};

use super::Machine;
use super::port::Accessor;
use crate::lane::known::ProcessMemo;
use crate::lane::plan::Words;
use crate::report::fault::{Fault, FaultKind};
use crate::state::block::{Group, SHARED_BASE};
use crate::state::pending::{Product, WarpOperands};
use crate::state::warp::{FULL, Warp};
use colex_ir::Reg;

impl Machine<'_, '_> {
    /// Completes a product.
    pub(crate) fn multiply(
        &mut self,
        g: &mut Group,
        warps: &mut [Warp],
        accessor: &Accessor<'_>,
        product: &Product,
    ) -> Result<(), Fault> {
        let plan = &product.plan;
        let parts: Vec<&WarpOperands> = product.parts.iter().flatten().collect();
        // Each warp's part may begin when that warp has issued it: only what all of them know is ordered before.
        let mut view = (*parts[0].view).clone();
        parts[1..].iter().for_each(|part| view.meet(&part.view));
        let accessor = Accessor {
            view: &view,
            ..*accessor
        };
        let [m, n, k] = plan.atom.mnk().map(|extent| extent as usize);
        let options = plan.atom.options();
        let packing = plan.atom.rule().packing();
        let wrong = |machine: &Self, g: &Group, error: colex_atom::Error| {
            machine.fault(g, &accessor.site, FaultKind::Operand, error.to_string())
        };
        let metadata: Vec<u32> = parts
            .iter()
            .flat_map(|p| p.metadata.iter().copied())
            .collect();
        let tile_a = Tile {
            rows: m,
            k: k / packing,
            ty: plan.a.ty,
            major: options.major_a,
        };
        let tile_b = Tile {
            rows: n,
            k,
            ty: plan.b.ty,
            major: options.major_b,
        };
        let in_shared = plan.atom.a_in_shared();
        let [da, db] = product.descriptors;
        let places_a = if in_shared {
            Some(self.tile(g, &accessor, da, tile_a)?)
        } else {
            None
        };
        let places_b = self.tile(g, &accessor, db, tile_b)?;
        let shared = &g.blocks[accessor.site.block].shared;
        let team = &mut warps[product.group..product.group + 4];
        let scale_d = parts[0].scale_d;
        let hopper = self.options.hopper_sums;
        let slot = |reg: &Reg| self.program.slot(*reg).unwrap_or(0);
        if plan.is_real(hopper) && packing == 1 {
            let a = match &places_a {
                Some(places) => places.reals(shared, plan.a.ty),
                None => {
                    let mut tile = plan.a.zeros();
                    for (w, part) in parts.iter().enumerate() {
                        for (i, row) in part.a.rows().enumerate() {
                            plan.a.put(&mut tile, i, 32 * w, row.iter().copied());
                        }
                    }
                    tile
                }
            };
            let b = places_b.reals(shared, plan.b.ty);
            let mut c = plan.c.zeros();
            if scale_d {
                for (i, slot) in product.d.iter().map(slot).enumerate() {
                    for (w, warp) in team.iter().enumerate() {
                        let words = warp.regs[slot].iter().map(|x| *x as u32);
                        plan.c.put(&mut c, i, 32 * w, words);
                    }
                }
            }
            let d = plan.atom.multiply_reals_on_hopper(&a, &b, c);
            let d = d.map_err(|error| wrong(self, g, error))?;
            for (i, slot) in product.d.iter().map(slot).enumerate() {
                for (w, warp) in team.iter_mut().enumerate() {
                    let mut values = [0; 32];
                    plan.c.take(&d, i, 32 * w, &plan.teams[0], &mut values);
                    warp.written[slot] = FULL;
                    warp.regs[slot] = values;
                }
            }
            return Ok(());
        }
        let words = {
            let held = || Words::beside(&core::array::from_fn::<_, 4, _>(|w| &parts[w].a));
            let mut a = match &places_a {
                Some(places) => places.values(shared, plan.a.ty),
                None => plan.a.gather(&held()),
            };
            if packing > 1 {
                a = plan
                    .atom
                    .unpack(&a, &metadata)
                    .map_err(|error| wrong(self, g, error))?;
            }
            let b = places_b.values(shared, plan.b.ty);
            let c = if scale_d {
                plan.c.gather(&self.accumulators(team, &product.d))
            } else {
                vec![Value::zero(plan.c.ty); m * n]
            };
            let d = plan.multiply(hopper, &a, &b, &c);
            plan.c.scatter(&d.map_err(|error| wrong(self, g, error))?)
        };
        for (i, reg) in product.d.iter().enumerate() {
            let slot = self.program.slot(*reg).unwrap_or(0);
            let row = words.row(i);
            for (w, warp) in team.iter_mut().enumerate() {
                let values = core::array::from_fn(|lane| u64::from(row[32 * w + lane]));
                warp.written[slot] = FULL;
                warp.regs[slot] = values;
            }
        }
        Ok(())
    }

    fn accumulators(&self, team: &[Warp], d: &[Reg]) -> Words {
        let mut words = Words::new(32 * team.len(), 0);
        for slot in d.iter().filter_map(|reg| self.program.slot(*reg)) {
            words.push(|t| team[t / 32].regs[slot][t % 32] as u32);
        }
        words
    }

    /// A tile of shared memory, as its descriptor makes the tensor cores read it.
    fn tile(
        &mut self,
        g: &mut Group,
        accessor: &Accessor<'_>,
        descriptor: u64,
        tile: Tile,
    ) -> Result<Arc<Places>, Fault> {
        let bits = tile.ty.bits() as usize;
        let key = (descriptor, tile.rows, tile.k, bits, tile.major == Major::K);
        let places = match self.tiles.get(&key) {
            Some(places) => places.clone(),
            None => {
                let places = PLACES.get(key, || {
                    places(descriptor, &tile)
                        .map_err(|why| self.fault(g, &accessor.site, FaultKind::Operand, why))
                })?;
                self.tiles.insert(key, places.clone());
                places
            }
        };
        let block = accessor.site.block;
        let size = g.blocks[block].shared.len();
        let mut unread = Vec::new();
        for (start, bytes) in &places.runs {
            let at = *start as i64 - i64::from(SHARED_BASE);
            if at < 0 || at as usize + bytes > size {
                let what = self.beyond_shared(at, *bytes, size);
                return Err(self.fault(g, &accessor.site, FaultKind::OutOfBounds, what));
            }
            unread.resize(*bytes, 0);
            let target = super::place::Target::Shared {
                block,
                at: at as usize,
            };
            self.read(g, accessor, target, &mut unread)?;
        }
        Ok(places)
    }
}

/// Where tiles lie, by descriptor, extents, width and major.
static PLACES: ProcessMemo<(u64, usize, usize, usize, bool), Places> = ProcessMemo::new();

/// An operand in shared memory.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    k: usize,
    ty: Ty,
    major: Major,
}

/// Where the elements of a tile lie.
#[derive(Debug)]
pub(crate) struct Places {
    /// The address of each element in the block's window, in the order of the tile.
    elements: Vec<usize>,
    /// The bytes they fill: beginnings and lengths.
    runs: Vec<(usize, usize)>,
}

impl Places {
    /// The elements.
    fn values(&self, shared: &[u8], ty: Ty) -> Vec<Value> {
        let value = |word: u64| Value::decode(ty, &[word]);
        self.words(shared, ty).map(value).collect()
    }

    /// The elements of a float type of at most 32 bits.
    fn reals(&self, shared: &[u8], ty: Ty) -> Vec<f32> {
        let format = FloatFormat::of(ty).unwrap_or(FloatFormat::F32);
        let first = SHARED_BASE as usize;
        let word = |at: &usize| u16::from_le_bytes([shared[at - first], shared[at - first + 1]]);
        // Without a question per element of which format it is.
        match format {
            FloatFormat::BF16 => {
                let value = |at: &usize| f32::from_bits(u32::from(word(at)) << 16);
                self.elements.iter().map(value).collect()
            }
            FloatFormat::F16 => {
                let value = |at: &usize| crate::lane::plan::real(format, word(at).into());
                self.elements.iter().map(value).collect()
            }
            _ => {
                let value = |word: u64| crate::lane::plan::real(format, word as u32);
                self.words(shared, ty).map(value).collect()
            }
        }
    }

    fn words<'a>(&'a self, shared: &'a [u8], ty: Ty) -> impl Iterator<Item = u64> + 'a {
        let each = ty.bits() as usize / 8;
        self.elements.iter().map(move |at| {
            let at = at - SHARED_BASE as usize;
            crate::lane::bits::word(&shared[at..at + each], each)
        })
    }
}

fn places(descriptor: u64, tile: &Tile) -> Result<Places, String> {
    let bits = tile.ty.bits();
    let layout = GmmaDescriptor::decode(descriptor)
        .tile(tile.major, tile.rows as i64, tile.k as i64, bits)
        .map_err(|error| error.to_string())?;
    let table = crate::lane::plan::offsets(layout.inner()).ok_or("the tile has no such layout")?;
    let each = bits as usize / 8;
    let (swizzle, start) = (layout.swizzle(), layout.base_offset());
    let place = |x: &usize| swizzle.apply(start + *x as i64) as usize * each;
    let elements: Vec<usize> = table.iter().map(place).collect();
    let mut sorted = elements.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in sorted {
        match runs.last_mut() {
            Some((start, bytes)) if *start + *bytes == at => *bytes += each,
            _ => runs.push((at, each)),
        }
    }
    Ok(Places { elements, runs })
}
