//! What registers and threads hold of a tile: what copies and arithmetic compare.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use colex_ir::Reg;
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use crate::build::Builder;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::Tensor;
use crate::tensor::places::{Cutter, Places};

/// The elements that one end of an operation names, one after the other: their numbers in a thread's part of a tile.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) places: Rc<Places>,
    /// The number of the thread in the partition, where one is known.
    pub(crate) thread: Option<Index>,
    pub(crate) elements: Vec<usize>,
}

/// The element of a tile that a part of a register holds.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) places: Rc<Places>,
    pub(crate) thread: Option<Index>,
    pub(crate) number: usize,
    /// Whether the registers were made for it: they never hold another one.
    pub(crate) is_declared: bool,
}

impl Element {
    /// Whether both are the same one in every thread.
    fn is(&self, other: &Element) -> bool {
        let (a, b) = (&self.places, &other.places);
        if Rc::ptr_eq(a, b) {
            return self.number == other.number && self.thread == other.thread;
        }
        // A product numbers the threads that a copy is told: which one it is, the copy knows.
        let threads = match (&self.thread, &other.thread) {
            (Some(x), Some(y)) => x == y,
            _ => true,
        };
        threads
            && a.tile == b.tile
            && a.elements[self.number] == b.elements[other.number]
            && a.threads == b.threads
    }
}

/// What a part of a register holds.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Is(Element),
    /// One element after one branch or turn of a loop, and another one after another.
    Either,
}

/// A part of a register.
pub(crate) type Part = (Reg, i64);

/// What registers hold, and the places of the tiles that were cut so far.
#[derive(Debug, Default)]
pub(crate) struct HeldByRegisters {
    pub(crate) elements: HashMap<Part, Content>,
    known: Vec<Rc<Places>>,
}

impl Held {
    /// All elements of a thread's part.
    fn whole(places: Rc<Places>, thread: Option<Index>) -> Held {
        Held {
            elements: (0..places.elements.len()).collect(),
            places,
            thread,
        }
    }

    /// The extents of the tile, where it has two.
    pub(crate) fn tile(&self) -> Option<[i64; 2]> {
        <[i64; 2]>::try_from(&self.places.tile[..]).ok()
    }

    fn at(&self, thread: usize, i: usize) -> Option<Vec<i64>> {
        let of_thread = self.places.threads.get(thread)?;
        let of_element = &self.places.elements[self.elements[i]];
        Some(
            of_thread
                .iter()
                .zip(of_element)
                .map(|(a, b)| a + b)
                .collect(),
        )
    }
}

/// What a loop does to registers that held elements before it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Parts that are filled in it.
    filled: HashSet<Part>,
    /// Parts that are read in it before they are filled.
    read: HashSet<Part>,
    /// Parts that hold another element afterwards than before.
    changed: HashSet<Part>,
}

impl HeldByRegisters {
    /// What the parts hold that either of two ways leaves: what both agree upon, and what only one knows.
    pub(crate) fn join(&mut self, other: HashMap<Part, Content>) {
        for (part, content) in other {
            let own = self.elements.entry(part).or_insert_with(|| content.clone());
            match (&*own, &content) {
                (Content::Is(a), Content::Is(b)) if a.is(b) => {}
                _ => *own = Content::Either,
            }
        }
    }
}

impl Builder {
    /// Notes that a part of a register is filled with an element; none is known of what it holds where there is none.
    pub(crate) fn fill_part(&mut self, part: Part, element: Option<Element>) {
        let known = self.held.elements.get(&part);
        let old = match element {
            _ if matches!(known, Some(Content::Is(own)) if own.is_declared) => None,
            Some(element) => {
                let content = Content::Is(element.clone());
                let old = self.held.elements.insert(part, content);
                old.filter(|old| !matches!(old, Content::Is(old) if old.is(&element)))
            }
            None => {
                self.held.elements.remove(&part);
                None
            }
        };
        for scope in self.scopes.iter_mut().filter(|s| s.repeats) {
            scope.turns.filled.insert(part);
            if old.is_some() {
                scope.turns.changed.insert(part);
            }
        }
    }

    /// Notes that what a part of a register holds is taken for granted.
    pub(crate) fn read_part(&mut self, part: Part) {
        for scope in self.scopes.iter_mut().filter(|s| s.repeats) {
            if !scope.turns.filled.contains(&part) {
                scope.turns.read.insert(part);
            }
        }
    }

    /// Refuses a loop that reads registers of which its second turn finds other elements than the first. After a loop it is
    /// not known which of its fillings was the last.
    pub(crate) fn end_turns(&mut self, turns: &Turns) -> Result<(), ErrorKind> {
        let mut changed: Vec<&Part> = turns.changed.iter().collect();
        changed.sort();
        if let Some((reg, _)) = changed.iter().find(|part| turns.read.contains(part)) {
            let why = format!(
                "the first turn reads elements of a tile from {reg} that were there before, and leaves those of another tile \
                 for the next turn: fill the fragment in each turn before it is read"
            );
            return Err(ErrorKind::operands("loop", why));
        }
        for part in changed {
            self.held.elements.insert(*part, Content::Either);
        }
        Ok(())
    }

    fn places(&mut self, cutter: &Cutter, tile: &[i64]) -> Result<Rc<Places>, ErrorKind> {
        let same = |places: &&Rc<Places>| places.tile == tile && places.cutter == *cutter;
        if let Some(known) = self.held.known.iter().find(same) {
            return Ok(Rc::clone(known));
        }
        let places = Rc::new(cutter.places(tile)?);
        self.held.known.push(Rc::clone(&places));
        Ok(places)
    }

    /// What a thread's part of a tensor in memory is of its tile, where all of the part is here.
    pub(crate) fn held_in_memory(&mut self, tensor: &Tensor) -> Result<Option<Held>, ErrorKind> {
        let Some(share) = &tensor.share else {
            return Ok(None);
        };
        let Some(tile) = &share.tile else {
            return Ok(None);
        };
        let places = self.places(&share.of, tile)?;
        let is_all = places.elements.len() as i64 == tensor.layout().size();
        Ok(is_all.then(|| Held::whole(places, Some(share.thread.clone()))))
    }

    /// What a copy's other side has of the tile that one side of it cuts.
    pub(crate) fn other_side(
        &mut self,
        held: Option<Held>,
        copy: &TiledCopy,
        side: Side,
    ) -> Result<Option<Held>, ErrorKind> {
        let Some(held) = held.filter(|held| matches!(held.places.cutter, Cutter::Copy(..))) else {
            return Ok(None);
        };
        let places = self.places(
            &Cutter::Copy(Rc::new(copy.clone()), side),
            &held.places.tile,
        )?;
        Ok(Some(Held::whole(places, held.thread)))
    }

    /// What the registers of an operand of a product hold of a tile, as the product numbers it.
    pub(crate) fn held_by_operand(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        tile: [i64; 2],
    ) -> Result<Held, ErrorKind> {
        let places = self.places(&Cutter::Mma(Rc::new(mma.clone()), operand), &tile)?;
        Ok(Held::whole(places, None))
    }

    /// Refuses elements that are not at the same coordinates of tiles of the same extents.
    pub(crate) fn check_same_places(
        &self,
        operation: &'static str,
        [a, b]: [&Held; 2],
        names: [&str; 2],
    ) -> Result<(), ErrorKind> {
        if a.places.tile != b.places.tile {
            let why = format!(
                "{} is a part of a tile of {:?}, and {} of one of {:?}: both tiles have the same extents",
                names[0], a.places.tile, names[1], b.places.tile
            );
            return Err(ErrorKind::operands(operation, why));
        }
        let alike = Rc::ptr_eq(&a.places, &b.places) && a.elements == b.elements;
        let threads = match (&a.thread, &b.thread) {
            (Some(x), Some(y)) if x != y => Some([x, y]),
            _ => None,
        };
        if a.elements.len() != b.elements.len() || alike && threads.is_none() {
            return Ok(());
        }
        let differ = |threads: [usize; 2], i| match (a.at(threads[0], i), b.at(threads[1], i)) {
            (Some(x), Some(y)) if x != y => Some((x, y)),
            _ => None,
        };
        // A place is the thread's plus the element's: all elements of one thread and one element of all threads decide.
        let mut count = a.elements.len();
        let mut check = |thread: i64, threads: [usize; 2]| -> Result<(), ErrorKind> {
            let mut elements = 0..std::mem::replace(&mut count, 1);
            let Some((i, (x, y))) = elements.find_map(|i| Some((i, differ(threads, i)?))) else {
                return Ok(());
            };
            let why = format!(
                "element {i} of {} is the one at {x:?} of the tile of {:?} in thread {thread}, and that of {} the one at \
                 {y:?}: partition both by the same threads and values, and `retile` a fragment for another copy",
                names[0], a.places.tile, names[1]
            );
            Err(ErrorKind::operands(operation, why))
        };
        let Some(threads) = threads else {
            let numbers = a.places.threads.len().min(b.places.threads.len());
            return (0..numbers).try_for_each(|n| check(n as i64, [n; 2]));
        };
        for thread in 0..i64::from(self.threads) {
            let of = |reg| self.reports.values.of_thread(reg, thread);
            let numbers = threads.map(|x| x.eval(&of).and_then(|n| usize::try_from(n).ok()));
            // A number that only the kernel knows may be the same.
            let [Some(x), Some(y)] = numbers else {
                return Ok(());
            };
            check(thread, [x, y])?;
        }
        Ok(())
    }
}
