//! Bulk copies and tensor copies: one thread issues them, and an asynchronous engine executes them.

use colex_atom::{
    Argument as Row, CopyAtom, Interleave, OperandKind, Reduction, Scalar, Space as At, TensorMap,
    TmaElement,
};

use crate::machine::exec::{Exec, Flow};
use crate::machine::place::{GENERIC_PARAMS, Run, Target};
use crate::machine::port::{Site, tick};
use crate::order::clock::Proxy;
use crate::report::fault::{Fault, FaultKind};
use crate::state::pending::{Piece, Transfer, Work};
use crate::state::warp::lanes;
use colex_ir::launch::Argument;
use colex_ir::{Address, CopyArgs, End, Operand, Space, Type};

/// The granularity of a bulk copy: its length and its addresses are multiples of it.
const UNIT: usize = 16;

/// The barriers that count the bytes: block, offset, bytes.
type Tells = Vec<(usize, usize, i64)>;

impl Exec<'_, '_, '_> {
    /// Issues bulk or tensor copies, one per lane.
    pub(crate) fn bulk(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        mask: u32,
    ) -> Result<Flow, Fault> {
        for lane in lanes(mask) {
            let transfer = match args.tensor {
                Some(_) => self.tensor_copy(atom, args, lane, mask)?,
                None => self.plain_bulk(atom, args, lane, mask)?,
            };
            let to_global = atom.to() == At::Global;
            let engine = self.g.engine(self.w.now(), &self.w.view);
            let site = Site::of(self.w, lane);
            self.g.tells(engine.0, transfer.tell.first().copied());
            let number = self.issue(site, engine, Proxy::Async, Work::Move(transfer));
            if to_global {
                self.w.bulk.flying.push(crate::state::warp::Flying {
                    number,
                    engine,
                    lanes: 1 << lane,
                    group: self.w.bulk.committed[lane],
                    has_read: false,
                    waited: 0,
                    told: 0,
                });
            }
        }
        tick(&mut self.w.view.seen, self.w.index);
        Ok(Flow::Yield)
    }

    /// The address of one end, in one lane.
    fn end(
        &self,
        atom: &CopyAtom,
        end: &End,
        which: Row,
        bytes: usize,
        lane: usize,
    ) -> Result<Target, Fault> {
        let End::Memory(address) = end else {
            return Err(self.fault_warp(FaultKind::Operand, "both ends of a bulk copy are memory"));
        };
        let kinds = atom.op().map(|op| op.operands.clone()).unwrap_or_default();
        let kind = kinds
            .iter()
            .find(|operand| operand.argument == which)
            .map(|o| o.kind);
        let (space, align) = match kind {
            Some(OperandKind::Address { space, align }) => (space, align as usize),
            _ => (At::Global, UNIT),
        };
        let space = match space {
            At::Shared => Space::Shared,
            At::Cluster => Space::Cluster,
            At::Register | At::Global | At::L2 | At::Tensor => Space::Global,
        };
        let addresses = self.address(address, 1 << lane)?;
        self.target(space, addresses[lane], bytes, align, lane)
    }

    /// The blocks that receive a copy whose destination is in one of them, and the barrier that each tells.
    fn receivers(
        &self,
        args: &CopyArgs,
        to: Target,
        bytes: usize,
        lane: usize,
    ) -> Result<(Vec<usize>, Tells), Fault> {
        let Target::Shared { block, .. } = to else {
            return Ok((Vec::new(), Vec::new()));
        };
        let blocks: Vec<usize> = match args.mask {
            None => vec![block],
            Some(mask) => {
                let mask = self.reg(mask, 1 << lane)?[lane];
                if mask == 0 || mask >> self.g.blocks.len() != 0 {
                    let what = format!(
                        "the mask of blocks {mask:#x} for a cluster of {}",
                        self.g.blocks.len()
                    );
                    return Err(self.fault(FaultKind::OutOfBounds, lane, what));
                }
                (0..64).filter(|rank| mask >> rank & 1 == 1).collect()
            }
        };
        let Some(barrier) = &args.barrier else {
            return Ok((blocks, Vec::new()));
        };
        let address = self.address(barrier, 1 << lane)?[lane];
        let (owner, at) = self.barrier_at(Space::Cluster, address, lane)?;
        let tell = blocks.iter().map(|rank| {
            let owner = if args.mask.is_some() { *rank } else { owner };
            (owner, at, bytes as i64)
        });
        Ok((blocks.clone(), tell.collect()))
    }

    fn plain_bulk(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        lane: usize,
        mask: u32,
    ) -> Result<Transfer, Fault> {
        let own = Operand::Int(atom.bits_per_thread() as i64 / 8);
        let bytes = self.value(args.size.unwrap_or(own), Type::U32, mask)?[lane] as usize;
        if !bytes.is_multiple_of(UNIT) {
            let what = format!("{bytes} bytes are not a multiple of {UNIT}");
            return Err(self.fault(FaultKind::Misaligned, lane, what));
        }
        let launch_has_clusters =
            self.m.launch.cluster_blocks() > 1 || self.m.program.kernel.cluster.is_some();
        if atom.from() == At::Shared && atom.to() == At::Cluster && !launch_has_clusters {
            let what = "a copy from shared memory to shared memory is one between the blocks of a cluster: in a launch without \
                        clusters, a device ends it in an illegal instruction";
            return Err(self.fault(FaultKind::Operand, lane, what));
        }
        let from = self.end(atom, &args.src, Row::Src, bytes, lane)?;
        let to = self.end(atom, &args.dst, Row::Dst, bytes, lane)?;
        let (blocks, tell) = self.receivers(args, to, bytes, lane)?;
        let targets: Vec<Target> = match to {
            Target::Shared { at, .. } => blocks
                .iter()
                .map(|block| Target::Shared { block: *block, at })
                .collect(),
            other @ (Target::Global(_) | Target::Param(_)) => vec![other],
        };
        let piece = |to: Target| Piece {
            from: Some(from),
            to,
            lane,
            read: bytes,
            bytes,
        };
        Ok(Transfer {
            pieces: targets.into_iter().map(piece).collect(),
            reduce: atom.reduction(),
            tell,
            two_steps: true,
            fetched: None,
            rounds: false,
            fill: 0,
        })
    }

    /// The tensor map that an address names, and where its tensor begins.
    fn map(&self, a: &Address, lane: usize) -> Result<(TensorMap, u64), Fault> {
        use Argument::{F32, F64, Pointer, TensorMap, U16, U32, U64};
        let address = self.address(a, 1 << lane)?[lane];
        let at = if address >= GENERIC_PARAMS {
            address - GENERIC_PARAMS
        } else {
            address
        };
        let params = self
            .m
            .program
            .params
            .iter()
            .zip(self.m.devices.arguments(self.g.rank));
        let found = params
            .filter(|(place, _)| **place == at)
            .find_map(|(_, argument)| match argument {
                TensorMap(map) => Some((map.map.clone(), map.address)),
                U16(_) | U32(_) | U64(_) | F32(_) | F64(_) | Pointer(_) => None,
            });
        found.ok_or_else(|| {
            self.fault(
                FaultKind::Operand,
                lane,
                "its address is not that of a tensor map among the parameters",
            )
        })
    }

    fn tensor_copy(
        &mut self,
        atom: &CopyAtom,
        args: &CopyArgs,
        lane: usize,
        mask: u32,
    ) -> Result<Transfer, Fault> {
        let Some((address, coordinates)) = &args.tensor else {
            return Err(self.fault_warp(FaultKind::Operand, "a tensor copy names a tensor map"));
        };
        let name = atom.op().map(|op| op.ptx.clone()).unwrap_or_default();
        let (map, base) = self.map(address, lane)?;
        let sound = map.check().and_then(|()| map.check_address(base));
        sound.map_err(|error| self.fault(FaultKind::Operand, lane, error.to_string()))?;
        let mut at = Vec::new();
        for coordinate in coordinates {
            let value = self.value(*coordinate, Type::S32, mask)?[lane];
            at.push(i64::from(value as u32 as i32));
        }
        let loads = atom.from() == At::Global;
        let mut offsets = Vec::new();
        for offset in &args.offsets {
            offsets.push(i64::from(self.reg(*offset, 1 << lane)?[lane] as u16));
        }
        let bytes = map.box_bytes() as usize;
        let (end, which) = if loads {
            (&args.dst, Row::Dst)
        } else {
            (&args.src, Row::Src)
        };
        let shared = self.end(atom, end, which, bytes, lane)?;
        let Target::Shared { block, at: start } = shared else {
            return Err(self.fault(FaultKind::Operand, lane, "a box lies in shared memory"));
        };
        let walk = Walk {
            map: &map,
            at: &at,
            offsets: &offsets,
            loads,
            im2col: name.contains(".im2col"),
            start,
        };
        let named = self.address(address, 1 << lane)?[lane];
        let known = walk
            .inside()
            .then_some((self.g.rank, self.w.pc, start, named));
        let boxes = match known.and_then(|key| self.m.boxes.get(&key)) {
            Some((from, runs)) => {
                let apart = walk.apart(from);
                let moved = |(global, to, length): &Run| {
                    (global.map(|x| x.wrapping_add(apart)), *to, *length)
                };
                runs.iter().map(moved).collect()
            }
            None => {
                let runs = walk.runs(base);
                let runs =
                    runs.map_err(|error| self.fault(FaultKind::Operand, lane, error.to_string()))?;
                if let Some(key) = known {
                    self.m.boxes.insert(key, (at.clone(), runs.clone()));
                }
                runs
            }
        };
        let size = self.g.blocks[block].shared.len();
        if let Some((_, to, length)) = boxes.iter().find(|(_, to, length)| to + length > size) {
            let what = self.m.beyond_shared(*to as i64, *length, size);
            return Err(self.fault(FaultKind::OutOfBounds, lane, what));
        }
        let (blocks, tell) = self.receivers(args, shared, bytes, lane)?;
        let piece = |global: Option<u64>, block: usize, at: usize, bytes: usize| {
            let (near, far) = (Target::Shared { block, at }, global.map(Target::Global));
            if loads {
                Some(Piece {
                    from: far,
                    to: near,
                    lane,
                    read: bytes,
                    bytes,
                })
            } else {
                far.map(|to| Piece {
                    from: Some(near),
                    to,
                    lane,
                    read: bytes,
                    bytes,
                })
            }
        };
        let sides = if loads { blocks } else { vec![block] };
        let pieces = sides.iter().flat_map(|block| {
            boxes
                .iter()
                .filter_map(move |(global, at, bytes)| piece(*global, *block, *at, *bytes))
        });
        Ok(Transfer {
            pieces: pieces.collect(),
            reduce: self.reduction(atom, map.element, lane)?,
            tell,
            two_steps: !loads,
            fetched: None,
            rounds: loads && map.element == TmaElement::Tf32,
            fill: map.fill.pattern(),
        })
    }

    /// The operation of a tensor reduction, in the map's type.
    fn reduction(
        &self,
        atom: &CopyAtom,
        element: TmaElement,
        lane: usize,
    ) -> Result<Option<(Reduction, Scalar)>, Fault> {
        let Some((reduction, scalar)) = atom.reduction() else {
            return Ok(None);
        };
        if scalar != Scalar::Mapped {
            return Ok(Some((reduction, scalar)));
        }
        match element.reduced(reduction) {
            Some(mapped) => Ok(Some((reduction, mapped))),
            None => {
                let what = "a tensor of this type does not have this reduction";
                Err(self.fault(FaultKind::Operand, lane, what))
            }
        }
    }
}

/// The box of a tensor copy.
struct Walk<'a> {
    map: &'a TensorMap,
    at: &'a [i64],
    offsets: &'a [i64],
    loads: bool,
    im2col: bool,
    /// Where the box begins in the block's shared memory.
    start: usize,
}

impl Walk<'_> {
    /// Whether a box that begins elsewhere, also inside of the tensor, goes the same way.
    fn inside(&self) -> bool {
        let ends = self.at.iter().zip(&self.map.extents).zip(&self.map.dims);
        let mut ends = ends.map(|((at, extent), dim)| *at >= 0 && at + extent <= *dim);
        self.map.im2col.is_none()
            && !self.im2col
            && self.map.interleave == Interleave::None
            && self.at.len() == self.map.dims.len()
            && self.at[0] * self.map.element.bytes() % UNIT as i64 == 0
            && ends.all(|inside| inside)
    }

    /// The bytes from where another box begins to where this one does.
    fn apart(&self, other: &[i64]) -> u64 {
        let steps = self.at.iter().zip(other).map(|(to, from)| to - from);
        let strides = [self.map.element.bytes()]
            .into_iter()
            .chain(self.map.strides.iter().copied());
        steps
            .zip(strides)
            .map(|(step, stride)| step * stride)
            .sum::<i64>() as u64
    }

    /// The bytes that lie together, of a tensor that begins at `base`.
    fn runs(&self, base: u64) -> Result<Vec<Run>, colex_atom::Error> {
        let elements =
            self.map
                .check_mode(self.im2col)
                .and_then(|()| match (self.loads, self.im2col) {
                    (true, true) => self.map.loaded_at(self.at, self.offsets),
                    (true, false) => self.map.loaded(self.at),
                    (false, _) => self.map.stored(self.at),
                })?;
        let each = self.map.element.bytes() as usize;
        let window = i64::from(crate::state::block::SHARED_BASE);
        let swizzle = self.map.swizzle.on_bytes();
        let mut runs: Vec<Run> = Vec::new();
        for element in elements {
            let to = swizzle.apply(window + self.start as i64 + element.shared) - window;
            let (to, from) = (
                to as usize,
                element.global.map(|x| base.wrapping_add(x as u64)),
            );
            match runs.last_mut() {
                Some((last, place, length))
                    if *place + *length == to
                        && !to.is_multiple_of(UNIT)
                        && follows(*last, *length, from) =>
                {
                    *length += each;
                }
                _ => runs.push((from, to, each)),
            }
        }
        Ok(runs)
    }
}

/// Whether an element follows `length` bytes that begin at `last`, or both are outside.
fn follows(last: Option<u64>, length: usize, next: Option<u64>) -> bool {
    match (last, next) {
        (Some(last), Some(next)) => last.wrapping_add(length as u64) == next,
        (None, None) => true,
        _ => false,
    }
}
