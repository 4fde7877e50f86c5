//! What the elements of fragments are of their tiles.

use std::rc::Rc;

use colex_tiled::{Operand, TiledMma};

use crate::build::Builder;
use crate::build::held::{Content, Element, Filled, Held, HeldElements, Part};
use crate::error::ErrorKind;
use crate::fragment::Fragment;

/// What the registers of a fragment hold of a tile.
pub(crate) enum Known {
    /// Nothing that is known.
    Nothing,
    /// All of a thread's part, each element once.
    All(Held),
    /// That depends on which branch or turn of a loop came before.
    Either,
}

impl Known {
    /// What is held, if that is known. Where it depends, nothing can be compared with it.
    pub(crate) fn all(self, operation: &'static str) -> Result<Option<Held>, ErrorKind> {
        match self {
            Known::Nothing => Ok(None),
            Known::All(held) => Ok(Some(held)),
            Known::Either => Err(ErrorKind::operands(
                operation,
                "the registers hold elements of one tile after one branch or turn of a loop, and of another tile after \
                 another: fill the fragment again before it is read",
            )),
        }
    }
}

/// Elements of other registers, of which an operation gives a fragment some.
pub(crate) fn of_parts(elements: HeldElements, operation: u32) -> HeldElements {
    let one = |element: Element| {
        let filled = match element.filled {
            Filled::Declared => Filled::Part(operation),
            Filled::Whole(operation) | Filled::Part(operation) => Filled::Part(operation),
        };
        element.filled(filled)
    };
    let elements = elements.into_iter();
    elements.map(|element| element.map(one)).collect()
}

impl Builder {
    /// Refuses fragments of another builder.
    pub(crate) fn own_fragments(&self, fragments: &[&Fragment]) -> Result<(), ErrorKind> {
        let mut fragments = fragments.iter();
        fragments.try_for_each(|f| self.failure.own("a fragment", f.failure.owner()))
    }

    /// What registers hold of a tile.
    pub(crate) fn known_in_registers(&self, of: &Fragment) -> Result<Known, ErrorKind> {
        if !of.is_whole {
            return Ok(Known::Nothing);
        }
        let mut held: Option<Held> = None;
        let mut seen = Vec::new();
        for i in 0..of.layout.size() {
            let element = match self.held.elements.get(&of.element(i)?) {
                None => return Ok(Known::Nothing),
                Some(Content::Either) => return Ok(Known::Either),
                Some(Content::Is(element)) if element.filled.is_part() => {
                    return Ok(Known::Nothing);
                }
                Some(Content::Is(element)) => element,
            };
            let held = held.get_or_insert_with(|| {
                seen = vec![false; element.places.elements.len()];
                Held {
                    places: Rc::clone(&element.places),
                    thread: element.thread.clone(),
                    elements: Vec::new(),
                    is_whole: true,
                }
            });
            if !Rc::ptr_eq(&held.places, &element.places)
                || held.thread != element.thread
                || std::mem::replace(&mut seen[element.number], true)
            {
                return Ok(Known::Nothing);
            }
            held.elements.push(element.number);
        }
        let held = held.filter(|held| held.elements.len() == held.places.elements.len());
        Ok(held.map_or(Known::Nothing, Known::All))
    }

    /// The registers of the elements and, one by one, what they hold.
    pub(crate) fn held_elements(
        &self,
        of: &Fragment,
    ) -> Result<(Vec<Part>, HeldElements), ErrorKind> {
        let parts = (0..of.layout.size()).map(|i| of.element(i));
        let parts = parts.collect::<Result<Vec<Part>, ErrorKind>>()?;
        let elements = parts.iter().map(|part| self.held.element(*part)).collect();
        Ok((parts, elements))
    }

    /// The same of registers that an operation reads, which refuses those of which it depends.
    pub(crate) fn held_in_registers(
        &mut self,
        operation: &'static str,
        of: &Fragment,
    ) -> Result<Option<Held>, ErrorKind> {
        let held = self.known_in_registers(of)?.all(operation)?;
        if held.is_some() {
            self.read(of)?;
        }
        Ok(held)
    }

    /// Notes that what registers hold is taken for granted.
    pub(crate) fn read(&mut self, of: &Fragment) -> Result<(), ErrorKind> {
        (0..of.layout.size()).try_for_each(|i| {
            self.read_part(of.element(i)?);
            Ok(())
        })
    }

    /// Whether no register of a fragment was made for an element of a tile: what fills it decides what it holds.
    pub(crate) fn is_plain(&self, of: &Fragment) -> Result<bool, ErrorKind> {
        Ok(of.is_whole && !self.is_declared(of)?)
    }

    /// Whether a register of a fragment was made for an element of a tile.
    pub(crate) fn is_declared(&self, of: &Fragment) -> Result<bool, ErrorKind> {
        let (_, elements) = self.held_elements(of)?;
        Ok(elements.iter().flatten().any(Element::is_declared))
    }

    /// Refuses fragments whose elements at one index are not those at one place of a tile. The first is written: it holds
    /// afterwards what the others do.
    pub(crate) fn check_each(
        &mut self,
        operation: &'static str,
        fragments: &[&Fragment],
    ) -> Result<(), ErrorKind> {
        let [d, sources @ ..] = fragments else {
            return Ok(());
        };
        let is_read = sources
            .iter()
            .any(|source| source.regs.iter().any(|reg| d.regs.contains(reg)));
        let is_filled = !is_read && self.is_plain(d)?;
        let compared = if is_filled { sources } else { fragments };
        let mut known: Option<Held> = None;
        let mut depends = false;
        for fragment in compared {
            match (self.known_in_registers(fragment)?, &known) {
                (Known::All(_), Some(known)) => {
                    let held = self.held_in_registers(operation, fragment)?;
                    let names = ["one fragment", "another"];
                    if let Some(held) = held {
                        self.check_same_places(operation, [known, &held], names)?;
                    }
                }
                (Known::All(_), None) => known = self.held_in_registers(operation, fragment)?,
                (Known::Either, _) => depends = true,
                (Known::Nothing, _) => {}
            }
        }
        if depends && known.is_some() {
            Known::Either.all(operation)?;
        }
        match known {
            Some(held) if d.is_whole && d.layout.is_injective()? => self.hold(d, &held),
            _ => self.carry(d, sources),
        }
    }

    /// What is computed from elements of parts that lie alike is that part of the result. Arithmetic refuses nothing of it:
    /// what is computed of others is nothing that is known.
    fn carry(&mut self, d: &Fragment, sources: &[&Fragment]) -> Result<(), ErrorKind> {
        let mut all: Option<HeldElements> = None;
        for source in sources
            .iter()
            .filter(|_| d.layout.is_injective() == Ok(true))
        {
            let (_, elements) = self.held_elements(source)?;
            let Some(known) = &mut all else {
                all = elements.iter().any(Option::is_some).then_some(elements);
                continue;
            };
            let names = ["one fragment", "another"];
            if self
                .check_same_distances("", [known, &elements], names)
                .is_err()
            {
                return self.forget(d);
            }
            for (known, element) in known.iter_mut().zip(elements) {
                *known = known.take().or(element);
            }
        }
        let operation = self.operation();
        self.fill_parts(d, of_parts(all.unwrap_or_default(), operation))
    }

    /// Refuses operands of a product whose registers hold other elements of their tiles than it multiplies, and tiles of
    /// extents that differ.
    pub(crate) fn check_operands(
        &mut self,
        operation: &'static str,
        mma: &TiledMma,
        operands: &[(Operand, &Fragment)],
    ) -> Result<(), ErrorKind> {
        let mut extents: [Option<(i64, String)>; 3] = [None, None, None];
        for (operand, fragment) in operands {
            let Some(held) = self.held_in_registers(operation, fragment)? else {
                continue;
            };
            let Some(tile) = held.tile() else {
                continue;
            };
            let name = format!("the fragment for {operand:?}");
            let wanted = self.held_by_operand(mma, *operand, tile)?;
            if held.elements.len() != wanted.elements.len() {
                let why = format!(
                    "{name} has {} elements of a tile of {tile:?}, and {} of {} threads takes {}",
                    held.elements.len(),
                    mma.atom().name(),
                    mma.threads(),
                    wanted.elements.len()
                );
                return Err(ErrorKind::operands(operation, why));
            }
            let names = [&name[..], "what the product takes of it"];
            self.check_same_places(operation, [&held, &wanted], names)?;
            for (mode, extent) in operand.modes().into_iter().zip(tile) {
                match &extents[mode] {
                    Some((other, of)) if *other != extent => {
                        let along = ["M", "N", "K"][mode];
                        let why = format!(
                            "{name} is of a tile of {extent} along {along}, and {of} of {other}: both are the same"
                        );
                        return Err(ErrorKind::operands(operation, why));
                    }
                    Some(_) => {}
                    None => extents[mode] = Some((extent, name.clone())),
                }
            }
        }
        Ok(())
    }

    /// Notes what the elements of a fragment are from now on.
    pub(crate) fn hold(&mut self, fragment: &Fragment, held: &Held) -> Result<(), ErrorKind> {
        let operation = self.operation();
        self.fill_parts(fragment, held.each(operation))
    }

    /// The same of registers that are made for these elements.
    pub(crate) fn declare(&mut self, fragment: &Fragment, held: &Held) -> Result<(), ErrorKind> {
        let each = held.each(0).into_iter();
        let made_for = |element: Option<Element>| Some(element?.filled(Filled::Declared));
        self.fill_parts(fragment, each.map(made_for).collect())
    }

    /// The same element by element.
    pub(crate) fn fill_parts(
        &mut self,
        fragment: &Fragment,
        elements: HeldElements,
    ) -> Result<(), ErrorKind> {
        let mut elements = elements.into_iter();
        for i in 0..fragment.layout.size() {
            self.fill_part(fragment.element(i)?, elements.next().flatten());
        }
        Ok(())
    }

    /// Notes that nothing is known any more of what a fragment holds, unless it was made for it.
    pub(crate) fn forget(&mut self, fragment: &Fragment) -> Result<(), ErrorKind> {
        self.fill_parts(fragment, Vec::new())
    }

    /// The same of parts of tiles only.
    pub(crate) fn forget_parts(&mut self, fragment: &Fragment) -> Result<(), ErrorKind> {
        let (parts, elements) = self.held_elements(fragment)?;
        for (part, element) in parts.into_iter().zip(elements) {
            if element.is_some_and(|element| element.filled.is_part()) {
                self.fill_part(part, None);
            }
        }
        Ok(())
    }

    /// Notes that a fragment has the elements of another one, offset by offset.
    pub(crate) fn hold_same(&mut self, fragment: &Fragment, from: &Fragment) {
        let packed = [from, fragment].map(Fragment::packed);
        let operation = self.operation();
        for offset in 0..from.regs.len() as i64 * packed[0] {
            let part = |f: &Fragment, packed: i64| {
                let reg = f.regs.get((offset / packed) as usize)?;
                Some((*reg, offset % packed))
            };
            let ends = (part(from, packed[0]), part(fragment, packed[1]));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            match self.held.elements.get(&from).cloned() {
                Some(Content::Is(element)) => {
                    self.read_part(from);
                    let filled = match element.filled {
                        Filled::Declared => Filled::Whole(operation),
                        filled => filled,
                    };
                    self.fill_part(to, Some(element.filled(filled)));
                }
                Some(Content::Either) => {
                    self.held.elements.insert(to, Content::Either);
                }
                None => {}
            }
        }
    }
}
