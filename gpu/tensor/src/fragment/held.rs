//! What the elements of fragments are of their tiles.

use std::rc::Rc;

use colex_tiled::{Operand, TiledMma};

use crate::build::Builder;
use crate::build::held::{Element, Held};
use crate::error::ErrorKind;
use crate::fragment::Fragment;

impl Builder {
    /// What registers hold of a tile, where they hold all of a thread's part, each element once.
    pub(crate) fn held_in_registers(&self, of: &Fragment) -> Result<Option<Held>, ErrorKind> {
        if !of.is_whole {
            return Ok(None);
        }
        let mut held: Option<Held> = None;
        let mut seen = Vec::new();
        for i in 0..of.layout.size() {
            let Some(element) = self.held.elements.get(&of.element(i)?) else {
                return Ok(None);
            };
            let held = held.get_or_insert_with(|| {
                seen = vec![false; element.places.elements.len()];
                Held {
                    places: Rc::clone(&element.places),
                    thread: element.thread.clone(),
                    elements: Vec::new(),
                }
            });
            if !Rc::ptr_eq(&held.places, &element.places)
                || held.thread != element.thread
                || std::mem::replace(&mut seen[element.number], true)
            {
                return Ok(None);
            }
            held.elements.push(element.number);
        }
        Ok(held.filter(|held| held.elements.len() == held.places.elements.len()))
    }

    /// Refuses fragments whose elements at one index are not those at one place of a tile. The first is written: it holds
    /// afterwards what the others do.
    pub(crate) fn check_each(
        &mut self,
        operation: &'static str,
        fragments: &[&Fragment],
    ) -> Result<(), ErrorKind> {
        let mut known: Option<Held> = None;
        for fragment in fragments {
            match (self.held_in_registers(fragment)?, &known) {
                (Some(held), Some(known)) => {
                    let names = ["one fragment", "another"];
                    self.check_same_places(operation, [known, &held], names)?;
                }
                (Some(held), None) => known = Some(held),
                (None, _) => {}
            }
        }
        match (known, fragments) {
            (Some(held), [d, ..]) if d.is_whole && d.layout.is_injective()? => self.hold(d, &held),
            _ => Ok(()),
        }
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
            let Some(held) = self.held_in_registers(fragment)? else {
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
        for (i, number) in (0..fragment.layout.size()).zip(&held.elements) {
            let element = Element {
                places: Rc::clone(&held.places),
                thread: held.thread.clone(),
                number: *number,
            };
            self.held.elements.insert(fragment.element(i)?, element);
        }
        Ok(())
    }

    /// Notes that a fragment has the elements of another one, offset by offset.
    pub(crate) fn hold_same(&mut self, fragment: &Fragment, from: &Fragment) {
        let packed = [from, fragment].map(Fragment::packed);
        for offset in 0..from.regs.len() as i64 * packed[0] {
            let part = |f: &Fragment, packed: i64| {
                let reg = f.regs.get((offset / packed) as usize)?;
                Some((*reg, offset % packed))
            };
            let ends = (part(from, packed[0]), part(fragment, packed[1]));
            if let (Some(from), Some(to)) = ends
                && let Some(element) = self.held.elements.get(&from).cloned()
            {
                self.held.elements.insert(to, element);
            }
        }
    }
}
