//! Lines that show the elements of a fragment.

use std::panic::Location;

use colex_atom::Ty;
use colex_ir::{Operand, PrintedValue, Reg, Special, Type};

use super::Fragment;
use super::contents::Known;
use super::elementwise::{form, poison};
use super::expr::lower::{Lanes, Lower, lane_type, leaves};
use super::expr::{Expr, ExprNode};
use crate::build::Builder;
use crate::build::flow::Cond;
use crate::build::held::Held;
use crate::build::lower::narrow_type;
use crate::build::name::sealed::Sealed;
use crate::build::name::{Nameable, NamedParts};
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::Tensor;
use crate::tensor::partition::AtThread;
use crate::tensor::partition_coords::Partitioner;

/// What [`Builder::dump`] shows, of which elements, and in which threads.
#[derive(Clone, Debug)]
pub struct Dump {
    expr: Expr,
    part: Option<Tensor>,
    thread: Option<i64>,
    block: Option<[i64; 3]>,
    conds: Vec<Cond>,
}

impl Dump {
    /// Returns a dump of every element of an expression, in every thread that reaches it.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_tensor::Dump;
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// k.dump("tid", Dump::of(&tid));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&kernel, &Launch::new(2, 32), &[], &mut Memory::default(), &options)?;
    /// assert_eq!(report.printed.len(), 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn of(expr: impl Into<Expr>) -> Dump {
        Dump {
            expr: expr.into(),
            part: None,
            thread: None,
            block: None,
            conds: Vec::new(),
        }
    }

    /// Returns the same dump with the coordinates that the elements of `part` have in their tensor in global memory. Without
    /// it, coordinates are those in the tile, where the builder knows the elements that the registers hold.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_tensor::Dump;
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let y = k.tensor("y", Ty::F32, "(_8,_8):(_8,_1)");
    /// let word = colex_atom::copy("UniversalCopy<uint32_t>")?;
    /// let copy = TiledCopy::new(word, 32, "(4,8):(8,1)", "(1,1):(0,0)")?;
    /// let thread = k.thread();
    /// let tile = y.local_tile((4, 8), (1, 0)); // (TILE_M, TILE_N)
    /// let mine = copy.at(&thread).partition_dst(&tile); // (CPY, CPY_M, CPY_N)
    /// let x = k.fragment_like(&mine);
    /// k.fill(&x, 1.5);
    /// k.dump("x", Dump::of(&x).at(&mine).thread(9).block([0, 0, 0]));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let mut memory = Memory::default();
    /// let y = memory.allocate(256)?;
    /// let report = simulate(&kernel, &Launch::new(2, 32), &[y.into()], &mut memory, &options)?;
    /// assert_eq!(report.printed[0].text, "block (0,0,0) thread (9,0,0) x (5,1)=1.5");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn at(self, part: &Tensor) -> Dump {
        let part = Some(part.clone());
        Dump { part, ..self }
    }

    /// Returns the same dump in the thread of that [number](Builder::thread) in its block alone.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_tensor::Dump;
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// k.dump("tid", Dump::of(&tid).thread(5).block([1, 0, 0]));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&kernel, &Launch::new(2, 32), &[], &mut Memory::default(), &options)?;
    /// assert_eq!(report.printed[0].text, "block (1,0,0) thread (5,0,0) tid [0]=5");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn thread(self, thread: i64) -> Dump {
        let thread = Some(thread);
        Dump { thread, ..self }
    }

    /// Returns the same dump in the block at those coordinates of the grid alone.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_tensor::Dump;
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// k.dump("tid", Dump::of(&tid).block([1, 0, 0]));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&kernel, &Launch::new(2, 32), &[], &mut Memory::default(), &options)?;
    /// assert_eq!(report.printed.len(), 32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn block(self, block: [i64; 3]) -> Dump {
        let block = Some(block);
        Dump { block, ..self }
    }

    /// Returns the same dump where a condition holds.
    ///
    /// ```
    /// # use colex_tensor::prelude::*;
    /// # use colex_tensor::Dump;
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let tid = k.thread();
    /// let few = k.less(&tid, &3.into());
    /// k.dump("tid", Dump::of(&tid).when(few));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&kernel, &Launch::new(2, 32), &[], &mut Memory::default(), &options)?;
    /// assert_eq!(report.printed.len(), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn when(mut self, cond: Cond) -> Dump {
        self.conds.push(cond);
        self
    }
}

macro_rules! dumps {
    ($($from:ty),*) => {$(
        impl From<$from> for Dump {
            #[track_caller]
            fn from(what: $from) -> Dump {
                Dump::of(what)
            }
        }
    )*};
}

dumps!(&Fragment, Fragment, &Expr, Expr, &Index, Index, Reg);

/// The most values of a line, and how many of them its place takes.
const VALUES: usize = 32;
const PLACE: usize = 6;

/// The most elements of a line.
const ELEMENTS: usize = 8;

/// The digits after which the text of a float reads back as the same number.
fn digits(ty: Ty) -> u32 {
    match ty {
        Ty::F64 => 17,
        Ty::F32 => 9,
        _ => 5,
    }
}

impl Sealed for Fragment {}

impl Nameable for Fragment {
    fn named(&self, k: &mut Builder, name: &str) -> Result<(), String> {
        k.own_fragments(&[self]).map_err(|kind| kind.to_string())?;
        let parts = (0..self.layout.size()).map(|i| self.element(i));
        let parts = parts
            .collect::<Result<_, _>>()
            .map_err(|kind| kind.to_string())?;
        k.new_name(name)?;
        let (name, ty) = (name.to_string(), self.ty);
        k.fragments.push(NamedParts { name, ty, parts });
        Ok(())
    }
}

impl Builder {
    /// Shows the elements of a fragment, of an expression or of an index: each thread prints lines of up to 8 elements.
    ///
    /// ```text
    /// block (0,0,0) thread (5,0,0) x (0,5)=1.5 (1,5)=-2
    /// ```
    ///
    /// An element has its coordinates `(0,5)` where the builder knows them, else its number `[3]` in the layout. Floats have
    /// as many digits as read back to the same number (`%.9g` for `f32`); infinities are `inf`, NaNs `nan`, on a GPU also `-nan`. The text is the
    /// same on the simulator and on a GPU, where it comes through `vprintf`
    /// ([`KernelBuilder::print`](colex_ir::KernelBuilder::print)) when the host waits, the lines of different threads in any
    /// order: [`Dumps`](../colex_sim/struct.Dumps.html) sorts them into tables. A kernel without a dump is not changed by
    /// this; one with a dump has more registers and instructions, and ptxas may serialise `wgmma` around the call.
    ///
    /// ```
    /// # use colex_atom::{Arch, Ty};
    /// # use colex_ir::launch::Launch;
    /// # use colex_sim::{Memory, PrintTo, SimOptions, simulate};
    /// # use colex_tensor::{Builder, Dump};
    /// let mut k = Builder::new("k", Arch::Sm80, 32);
    /// let (x, tid) = (k.fragment(Ty::F16, "_2:_1"), k.thread());
    /// k.fill(&x, 0.1);
    /// k.dump("x", Dump::of(&x).thread(5));
    /// k.dump("twice", Dump::of(&tid * 2).thread(7));
    /// let kernel = k.finish()?.kernel;
    /// let options = SimOptions { print_to: PrintTo::Report, ..SimOptions::default() };
    /// let report = simulate(&kernel, &Launch::new(1, 32), &[], &mut Memory::default(), &options)?;
    /// let lines: Vec<&str> = report.printed.iter().map(|line| &line.text[..]).collect();
    /// assert_eq!(
    ///     lines,
    ///     ["block (0,0,0) thread (5,0,0) x [0]=0.099976 [1]=0.099976", "block (0,0,0) thread (7,0,0) twice [0]=14"]
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Builder::finish`] fails if the name is empty or has spaces; if the block does not have the thread; if an operation of the expression was refused; if
    /// elements are narrower than 8 bits or complex, or are 8-bit floats before `sm_89`; or if the partition of
    /// [`Dump::at`] has another number of elements.
    #[track_caller]
    pub fn dump(&mut self, name: &str, what: impl Into<Dump>) {
        let (what, at) = (what.into(), Location::caller());
        if let Some((kind, at)) = poison(&what.expr, at) {
            return self.failure.keep(kind, at);
        }
        let threads = i64::from(self.threads);
        if let Some(thread) = what.thread.filter(|t| !(0..threads).contains(t)) {
            let why = format!(
                "thread {thread}; the block has threads 0 to {}",
                threads - 1
            );
            return self.failure.keep(ErrorKind::operands("dump", why), at);
        }
        let cond = self.site(at, |k| k.reached(&what));
        if cond == Cond::Known(true) {
            return self.run(at, |k| k.dumped(name, &what));
        }
        self.if_(cond, |k| k.run(at, |k| k.dumped(name, &what)));
    }

    /// The condition of a dump.
    fn reached(&mut self, what: &Dump) -> Cond {
        let mut all = Cond::Known(true);
        let mut tests = what.conds.clone();
        if let Some(thread) = what.thread {
            let tid = self.thread();
            tests.push(self.equal(&tid, &thread.into()));
        }
        for (axis, number) in (0..).zip(what.block.iter().flatten()) {
            let block = self.block_index(axis);
            tests.push(self.equal(&block, &(*number).into()));
        }
        for test in tests {
            all = self.both(all, test);
        }
        all
    }

    fn dumped(&mut self, name: &str, what: &Dump) -> Result<(), ErrorKind> {
        let refuse = |why: String| Err(ErrorKind::operands("dump", why));
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return refuse(format!("the name {name:?}: one word names a dump"));
        }
        let Some(ty) = what.expr.ty() else {
            return refuse("constants alone have no type".to_string());
        };
        if ty.bits() < 8 || ty.bits() > 64 || matches!(ty, Ty::E3m2 | Ty::E2m3) {
            return refuse(format!(
                "elements of {ty}; numbers of 8 to 64 bits are shown"
            ));
        }
        let shown = if ty.is_integer() { ty } else { Ty::F64 };
        let expr = what.expr.to(shown);
        let all = leaves(&expr);
        let own: Vec<&Fragment> = super::expr::lower::fragments(&all);
        self.own_fragments(&own)?;
        let layout = form("dump", &all)?;
        let count = layout.size();
        let places = match &what.part {
            Some(part) if part.layout().size() != count => {
                return refuse(format!(
                    "{count} elements, and the part of a tensor has {}",
                    part.layout().size()
                ));
            }
            Some(part) => {
                self.own_tensors(&[part])?;
                let places = (0..count).map(|i| part.coordinates_at(i));
                Some(places.collect::<Result<Vec<_>, _>>()?)
            }
            None => self.known_places(&all, count)?,
        };
        let rank = places.as_ref().map_or(0, |places| places[0].len());
        let each = ((VALUES - PLACE) / (1 + rank)).min(ELEMENTS) as i64;
        // Pairs of packed elements stay together.
        let each = if each > 1 { each & !1 } else { each };
        for first in (0..count).step_by(each.max(1) as usize) {
            let group: Vec<usize> = (first..(first + each).min(count))
                .map(|i| i as usize)
                .collect();
            let mut lower = Lower::new(self, "dump");
            lower.bind(&expr, &layout)?;
            let Lanes::Each(values) = lower.eval(&expr, shown, &group, &[])? else {
                return refuse(format!("elements of {ty} in pairs"));
            };
            let mut line = self.place_of_line();
            let mut before = format!(") {name} ");
            for (i, a) in group.into_iter().zip(values) {
                match &places {
                    None => before += &format!("[{i}]="),
                    Some(places) => {
                        before.push('(');
                        for index in &places[i] {
                            line.push(self.printed(std::mem::take(&mut before), index)?);
                            before.push(',');
                        }
                        before.pop();
                        before += ")=";
                    }
                }
                line.push(PrintedValue {
                    before: std::mem::replace(&mut before, " ".to_string()),
                    ty: lane_type(shown),
                    digits: digits(ty),
                    a,
                });
            }
            self.ir.print(line, "");
        }
        Ok(())
    }

    /// `block (0,0,0) thread (5,0,0`
    fn place_of_line(&mut self) -> Vec<PrintedValue> {
        let of = |special: fn(u8) -> Special, word: &str| {
            let before = [word.to_string(), ",".to_string(), ",".to_string()];
            (0..).zip(before).map(move |(axis, before)| PrintedValue {
                before,
                ty: Type::U32,
                digits: 0,
                a: Operand::Special(special(axis)),
            })
        };
        let block = of(Special::Ctaid, "block (");
        block.chain(of(Special::Tid, ") thread (")).collect()
    }

    fn printed(&mut self, before: String, index: &Index) -> Result<PrintedValue, ErrorKind> {
        let Some(ty) = narrow_type(index.range()) else {
            let (index, range) = (index.to_string(), index.range());
            return Err(ErrorKind::Wide { index, range });
        };
        let a = self.operand(index);
        let digits = 0;
        Ok(PrintedValue {
            before,
            ty,
            digits,
            a,
        })
    }

    /// The coordinates in their tile of the elements that the first fragment of that size holds, if they are known.
    fn known_places(
        &mut self,
        all: &[Expr],
        count: i64,
    ) -> Result<Option<Vec<Vec<Index>>>, ErrorKind> {
        for leaf in all {
            let ExprNode::Fragment(fragment) = &leaf.0.node else {
                continue;
            };
            if fragment.layout.size() == count
                && let Known::All(held) = self.known_in_registers(fragment)?
            {
                return self.places_of(&held).map(Some);
            }
        }
        Ok(None)
    }

    /// The coordinates in the tile of what a thread holds: those of the same partition of a tensor of coordinates.
    fn places_of(&mut self, held: &Held) -> Result<Vec<Vec<Index>>, ErrorKind> {
        let tile = &held.places.tile;
        let thread = match &held.thread {
            Some(thread) => thread.clone(),
            None => self.thread() % held.places.threads.len() as i64,
        };
        let extents: Vec<Index> = tile.iter().map(|n| Index::constant(*n)).collect();
        let coordinates = Tensor::identity_of(&extents, &self.failure)?;
        let part = match &held.places.cutter {
            Partitioner::Copy(copy, side) => copy.at(&thread).partition(&coordinates, *side)?,
            Partitioner::Mma(mma, operand) => mma.at(&thread).part(&coordinates, *operand)?,
        };
        let numbers = held.elements.iter();
        numbers
            .map(|number| part.coordinates_at(*number as i64))
            .collect()
    }
}
