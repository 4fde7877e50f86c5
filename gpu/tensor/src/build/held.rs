//! What registers and threads hold of a tile: what copies and arithmetic compare.
//!
//! All of a thread's part of a tile is compared place by place ([`Builder::check_same_places`]). A part of it has no place of its
//! own where a number of the kernel decides which part it is, and registers may be used for one part after another. So of
//! parts a copy compares the distances ([`Builder::check_same_distances`]): what one operation has put into registers, a copy
//! moves by one shift, the same for all elements and threads, so that rows stay rows and neighbours neighbours.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use colex_ir::Reg;
use colex_layout::Layout;
use colex_tiled::{Operand, Side, TiledCopy, TiledMma};

use crate::build::Builder;
use crate::error::ErrorKind;
use crate::index::Index;
use crate::tensor::partition_coords::{PartitionCoords, Partitioner};
use crate::tensor::{Kept, Tensor};

/// The elements that one end of an operation names, one after the other: their numbers in a thread's part of a tile.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) places: Rc<PartitionCoords>,
    /// The number of the thread in the partition, where one is known.
    pub(crate) thread: Option<Index>,
    pub(crate) elements: Vec<usize>,
    /// Whether they are all of the thread's part; else their numbers may all be less than they are by one constant.
    pub(crate) is_whole: bool,
}

/// How registers were filled with elements: by which operation, where it was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// They were made for them, and never hold other ones.
    Declared,
    /// With all of a thread's part.
    Whole(u32),
    /// With some of it.
    Part(u32),
}

impl Filled {
    pub(crate) fn is_part(self) -> bool {
        matches!(self, Filled::Part(_))
    }

    fn operation(self) -> Option<u32> {
        match self {
            Filled::Declared => None,
            Filled::Whole(operation) | Filled::Part(operation) => Some(operation),
        }
    }
}

/// The element of a tile that a part of a register holds.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) places: Rc<PartitionCoords>,
    pub(crate) thread: Option<Index>,
    pub(crate) number: usize,
    pub(crate) filled: Filled,
}

/// The elements at the indices of one end of an operation, where they are known.
pub(crate) type HeldElements = Vec<Option<Element>>;

impl Element {
    pub(crate) fn is_declared(&self) -> bool {
        self.filled == Filled::Declared
    }

    /// The same in registers that were filled so.
    pub(crate) fn filled(self, filled: Filled) -> Element {
        Element { filled, ..self }
    }

    /// Where it is in its tile, but for the thread's part.
    fn at(&self) -> &[i64] {
        &self.places.elements[self.number]
    }

    /// Whether the distance to the other one is known.
    fn is_beside(&self, other: &Element) -> bool {
        Rc::ptr_eq(&self.places, &other.places)
            && self.filled.operation() == other.filled.operation()
            && self.thread == other.thread
    }

    /// Whether both are the same one in every thread.
    fn is(&self, other: &Element) -> bool {
        if self.filled.is_part() != other.filled.is_part() {
            return false;
        }
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
    known: Vec<Rc<PartitionCoords>>,
    /// How many operations have filled registers.
    operations: u32,
}

impl Held {
    /// All elements of a thread's part.
    fn whole(places: Rc<PartitionCoords>, thread: Option<Index>) -> Held {
        Held {
            elements: (0..places.elements.len()).collect(),
            places,
            thread,
            is_whole: true,
        }
    }

    /// The elements one by one, as the operation of that number fills registers with them.
    pub(crate) fn each(&self, operation: u32) -> HeldElements {
        let filled = if self.is_whole {
            Filled::Whole(operation)
        } else {
            Filled::Part(operation)
        };
        let element = |number: &usize| {
            Some(Element {
                places: Rc::clone(&self.places),
                thread: self.thread.clone(),
                number: *number,
                filled,
            })
        };
        self.elements.iter().map(element).collect()
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
    /// The same where one of them is of a part of a tile.
    moved: HashSet<Part>,
    /// What copies in it have compared with registers that were filled before.
    compared: Vec<(Vec<Part>, HeldElements)>,
}

/// The ends of a copy.
const ENDS: [&str; 2] = ["the source", "the destination"];

impl HeldByRegisters {
    /// What the parts hold that either of two ways leaves: what both agree upon, and what only one knows.
    pub(crate) fn join(&mut self, other: HashMap<Part, Content>) {
        for (part, content) in other {
            let own = self.elements.entry(part).or_insert_with(|| content.clone());
            match (&*own, &content) {
                (Content::Is(a), Content::Is(b)) if a.is(b) => {}
                (Content::Is(a), Content::Is(b)) if a.filled.is_part() || b.filled.is_part() => {
                    self.elements.remove(&part);
                }
                _ => *own = Content::Either,
            }
        }
    }

    /// What a part of a register holds, if that is one element.
    pub(crate) fn element(&self, part: Part) -> Option<Element> {
        match self.elements.get(&part) {
            Some(Content::Is(element)) => Some(element.clone()),
            Some(Content::Either) | None => None,
        }
    }
}

impl Builder {
    /// Notes that a part of a register is filled with an element; none is known of what it holds where there is none.
    pub(crate) fn fill_part(&mut self, part: Part, element: Option<Element>) {
        let known = self.held.elements.get(&part);
        let old = match element {
            _ if matches!(known, Some(Content::Is(own)) if own.is_declared()) => None,
            Some(element) => {
                let content = Content::Is(element.clone());
                let old = self.held.elements.insert(part, content);
                old.filter(|old| !matches!(old, Content::Is(old) if old.is(&element)))
                    .map(|old| {
                        element.filled.is_part()
                            || matches!(old, Content::Is(old) if old.filled.is_part())
                    })
            }
            None => {
                self.held.elements.remove(&part);
                None
            }
        };
        for scope in self.scopes.iter_mut().filter(|s| s.repeats) {
            let turns = &mut scope.turns;
            turns.filled.insert(part);
            match old {
                Some(true) => turns.moved.insert(part),
                Some(false) => turns.changed.insert(part),
                None => false,
            };
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

    /// The same of registers that were compared with what a copy's other end has.
    fn read_parts(&mut self, parts: &[Part], other: &HeldElements) {
        for scope in self.scopes.iter_mut().filter(|s| s.repeats) {
            if parts.iter().any(|part| !scope.turns.filled.contains(part)) {
                let compared = (parts.to_vec(), other.clone());
                scope.turns.compared.push(compared);
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
        for (parts, other) in &turns.compared {
            if parts.iter().any(|part| turns.filled.contains(part)) {
                let parts = parts.iter().map(|part| self.held.element(*part));
                self.check_same_distances("loop", [&parts.collect(), other], ENDS)?;
            }
        }
        for part in changed {
            self.held.elements.insert(*part, Content::Either);
        }
        for part in &turns.moved {
            self.held.elements.remove(part);
        }
        Ok(())
    }

    /// The number of the next operation that fills registers.
    pub(crate) fn operation(&mut self) -> u32 {
        self.held.operations += 1;
        self.held.operations
    }

    fn places(
        &mut self,
        cutter: &Partitioner,
        tile: &[i64],
    ) -> Result<Rc<PartitionCoords>, ErrorKind> {
        let same = |places: &&Rc<PartitionCoords>| places.tile == tile && places.cutter == *cutter;
        if let Some(known) = self.held.known.iter().find(same) {
            return Ok(Rc::clone(known));
        }
        let places = Rc::new(cutter.places(tile)?);
        self.held.known.push(Rc::clone(&places));
        Ok(places)
    }

    /// What a thread's part of a tensor in memory is of its tile, where that is known.
    pub(crate) fn held_in_memory(&mut self, tensor: &Tensor) -> Result<Option<Held>, ErrorKind> {
        let Some(share) = &tensor.share else {
            return Ok(None);
        };
        let size = tensor.layout().size();
        let kept = match &share.kept {
            Kept::Unknown => return Ok(None),
            Kept::All => None,
            Kept::Some(numbers) => Some(numbers),
        };
        let places = self.places(&share.of, &share.tile)?;
        let (count, thread) = (places.elements.len(), Some(share.thread.clone()));
        let Some(numbers) = kept else {
            return Ok((count as i64 == size).then(|| Held::whole(places, thread)));
        };
        let number = |i| {
            let number = usize::try_from(numbers.at(i).ok()?).ok()?;
            (number < count).then_some(number)
        };
        let elements: Option<Vec<usize>> = (0..size).map(number).collect();
        Ok(elements.map(|elements| Held {
            places,
            thread,
            elements,
            is_whole: false,
        }))
    }

    /// What a copy's other side has of the tile that one side of it cuts: for all values of an instruction on one side, all
    /// that it has on the other.
    pub(crate) fn other_side(
        &mut self,
        held: Option<Held>,
        copy: &TiledCopy,
        side: Side,
    ) -> Result<Option<Held>, ErrorKind> {
        let Some(held) = held.filter(|held| matches!(held.places.cutter, Partitioner::Copy(..)))
        else {
            return Ok(None);
        };
        let places = self.places(
            &Partitioner::Copy(Rc::new(copy.clone()), side),
            &held.places.tile,
        )?;
        if held.is_whole {
            return Ok(Some(Held::whole(places, held.thread)));
        }
        let values = copy.atom().val_layouts(copy.value_bits())?;
        let count = |layout: &Layout| layout.mode(1).map_or(1, |m| m.size()) as usize;
        let [own, other] = match side {
            Side::Source => [count(&values.dst), count(&values.src)],
            Side::Destination => [count(&values.src), count(&values.dst)],
        };
        let mut elements = Vec::new();
        for of_one in held.elements.chunks(own) {
            let first = of_one[0];
            if first % own != 0 || !of_one.iter().copied().eq(first..first + own) {
                return Ok(None);
            }
            let first = first / own * other;
            elements.extend(first..first + other);
        }
        let is_within = elements.iter().all(|n| *n < places.elements.len());
        Ok(is_within.then_some(Held {
            places,
            elements,
            ..held
        }))
    }

    /// What the registers of an operand of a product hold of a tile, as the product numbers it.
    pub(crate) fn held_by_operand(
        &mut self,
        mma: &TiledMma,
        operand: Operand,
        tile: [i64; 2],
    ) -> Result<Held, ErrorKind> {
        let places = self.places(&Partitioner::Mma(Rc::new(mma.clone()), operand), &tile)?;
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
        let is_same_thread = a.thread == b.thread || a.thread.is_none() || b.thread.is_none();
        if a.elements.len() != b.elements.len() || alike && is_same_thread {
            return Ok(());
        }
        let pairs = self.thread_pairs([(&a.places, &a.thread), (&b.places, &b.thread)]);
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
        pairs
            .into_iter()
            .try_for_each(|(thread, numbers)| check(thread, numbers))
    }

    /// The numbers that threads have in both of two partitions, thread by thread, up to the first that only the kernel knows.
    fn thread_pairs(&self, of: [(&PartitionCoords, &Option<Index>); 2]) -> Vec<(i64, [usize; 2])> {
        let numbers = of.map(|(places, _)| places.threads.len());
        let same = |n: usize| (n as i64, [n; 2]);
        let threads = match of.map(|(_, thread)| thread.as_ref()) {
            [Some(x), Some(y)] if x != y => [x, y],
            _ => return (0..numbers[0].min(numbers[1])).map(same).collect(),
        };
        let number = |thread: i64| {
            let of = |reg| self.reports.values.of_thread(reg, thread);
            let [x, y] = threads.map(|x| x.eval(&of).and_then(|n| usize::try_from(n).ok()));
            Some((thread, [x?, y?]))
        };
        (0..i64::from(self.threads)).map_while(number).collect()
    }

    /// Refuses elements at other distances from each other than those at the same indices of the other end, within what one
    /// operation has put there, and threads whose parts lie at other distances.
    pub(crate) fn check_same_distances(
        &self,
        operation: &'static str,
        [a, b]: [&HeldElements; 2],
        names: [&str; 2],
    ) -> Result<(), ErrorKind> {
        let mut groups: Vec<(usize, &Element, &Element)> = Vec::new();
        if a.len() != b.len() {
            return Ok(());
        }
        for (i, both) in a.iter().zip(b).enumerate() {
            let (Some(x), Some(y)) = both else {
                continue;
            };
            if x.at().len() != y.at().len() {
                continue;
            }
            let known = |(_, p, q): &&(usize, &Element, &Element)| x.is_beside(p) && y.is_beside(q);
            let Some((first, p, q)) = groups.iter().find(known) else {
                self.check_thread_distances(operation, [x, y], names)?;
                groups.push((i, x, y));
                continue;
            };
            let [dx, dy] = [[x, p], [y, q]].map(|[x, p]| difference(x.at(), p.at()));
            if dx != dy {
                let why = format!(
                    "element {i} of {} lies at {dx:?} from element {first} in its tile, and that of {} at {dy:?}: a copy moves all \
                     elements by one shift (`slice`, `values`, `gathered` and `compose` take the same ones of both ends in the \
                     same order)",
                    names[0], names[1]
                );
                return Err(ErrorKind::operands(operation, why));
            }
        }
        Ok(())
    }

    fn check_thread_distances(
        &self,
        operation: &'static str,
        [x, y]: [&Element; 2],
        names: [&str; 2],
    ) -> Result<(), ErrorKind> {
        let (a, b) = (&x.places, &y.places);
        if x.thread == y.thread && (Rc::ptr_eq(a, b) || a.threads == b.threads) {
            return Ok(());
        }
        let pairs = self.thread_pairs([(a, &x.thread), (b, &y.thread)]);
        let places = pairs
            .into_iter()
            .filter_map(|(thread, [i, j])| Some((thread, a.threads.get(i)?, b.threads.get(j)?)));
        let mut places = places.peekable();
        let Some((zero, p, q)) = places.peek().copied() else {
            return Ok(());
        };
        for (thread, x, y) in places {
            let [dx, dy] = [difference(x, p), difference(y, q)];
            if dx != dy {
                let why = format!(
                    "what thread {thread} has of {} lies at {dx:?} from what thread {zero} has in the tile, and of {} at {dy:?}: \
                     partition both by the same threads and values, and `retile` a fragment for another copy",
                    names[0], names[1]
                );
                return Err(ErrorKind::operands(operation, why));
            }
        }
        Ok(())
    }

    /// Refuses ends of a copy some of whose elements lie at other distances at the other end.
    pub(crate) fn check_copied(
        &mut self,
        (source, registers): (&HeldElements, &[Part]),
        target: &HeldElements,
    ) -> Result<(), ErrorKind> {
        self.check_same_distances("copy", [source, target], ENDS)?;
        self.read_parts(registers, target);
        Ok(())
    }
}

/// From one place to another.
fn difference(to: &[i64], from: &[i64]) -> Vec<i64> {
    to.iter().zip(from).map(|(to, from)| to - from).collect()
}
