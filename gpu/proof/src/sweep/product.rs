//! The judge of a matrix instruction: D gathered by the layout of C, element by element.

use colex_atom::{Error, Exactness, Fragment, MmaAtom, Ty, Value};

use super::case::{Agreement, Judge, mixed};
use super::random::Kind;
use super::tiles::{Tiles, block_threads, lane};

/// The judge of a matrix instruction.
pub(super) struct Product {
    pub(super) atom: MmaAtom,
    /// What each block computed.
    pub(super) rounds: Vec<(Kind, Vec<Tiles>)>,
}

impl Judge for Product {
    fn judge(&self, _: usize, output: &[u8]) -> Agreement {
        let bytes = output.len() / self.rounds.len();
        let mut agreement = Agreement {
            must_be_exact: self.atom.exactness() == Exactness::Bits,
            ..Agreement::default()
        };
        for ((kind, tiles), block) in self.rounds.iter().zip(output.chunks_exact(bytes)) {
            for (instance, tiles) in tiles.iter().enumerate() {
                let seen = self.one(*kind, tiles, &self.gather(block, instance));
                let seen = seen.unwrap_or_else(|error| Agreement {
                    wrong: Some(error.to_string()),
                    ..Agreement::default()
                });
                agreement = agreement.and(seen);
            }
        }
        agreement
    }
}

impl Product {
    /// D of one instruction, by the layout of C.
    fn gather(&self, block: &[u8], instance: usize) -> Vec<Value> {
        let atom = &self.atom;
        let each = block.len() / block_threads(atom) as usize;
        let values = atom.traits().c.mode(1).map_or(1, |mode| mode.size()) as usize;
        let fragment = |t: usize| {
            let held = &block[lane(atom, instance, t) * each..][..each];
            let word = |w: &[u8]| u32::from_le_bytes(w.try_into().expect("a chunk has 4 bytes"));
            let words: Vec<u32> = held.chunks_exact(4).map(word).collect();
            Fragment::from_words(atom.traits().ty_c, values, &words)
        };
        let fragments: Vec<Fragment> = (0..atom.threads()).map(fragment).collect();
        atom.gather('C', &fragments)
            .expect("one fragment for each thread, of C's type and size")
    }

    /// Compares one tile, element by element.
    fn one(&self, kind: Kind, tiles: &Tiles, found: &[Value]) -> Result<Agreement, Error> {
        let (atom, ty) = (&self.atom, self.atom.traits().ty_c);
        let exact = atom.multiply(&tiles.a, &tiles.b, &tiles.c)?;
        let modelled = atom.multiply_on_hopper(&tiles.a, &tiles.b, &tiles.c)?;
        let magnitudes = atom.magnitudes(&tiles.a, &tiles.b, &tiles.c)?;
        let mut seen = Agreement::default();
        for (i, &found) in found.iter().enumerate() {
            let [is_exact, is_modelled] = [exact[i], modelled[i]].map(|x| same(x, found));
            seen.elements += 1;
            seen.exact += u64::from(is_exact);
            seen.modelled += u64::from(is_modelled);
            seen.digest = words(found, ty).into_iter().fold(seen.digest, mixed);
            if is_modelled || is_exact && seen.rounded.is_some() {
                continue;
            }
            let [m, n] = [i % atom.mnk()[0] as usize, i / atom.mnk()[0] as usize];
            let words = format!(
                "{kind:?} data, D({m},{n}): expected {} ({} by the model), found {found}",
                exact[i], modelled[i]
            );
            let fits = is_exact || self.rounds_to(exact[i], found, magnitudes[i]);
            let first = if fits {
                &mut seen.rounded
            } else {
                &mut seen.wrong
            };
            first.get_or_insert(words);
        }
        Ok(seen)
    }

    /// Whether a float sum may come out as `found`. An infinite term leaves nothing to round.
    fn rounds_to(&self, exact: Value, found: Value, magnitude: f64) -> bool {
        let exactness = self.atom.exactness();
        let is_sum = exactness != Exactness::Bits && magnitude.is_finite();
        is_sum && exactness.allows(exact, found, magnitude, self.atom.traits().ty_c)
    }
}

/// The bits of an element, any NaN as one.
fn words(found: Value, ty: Ty) -> [u64; 3] {
    let one_nan = |x: f64| if x.is_nan() { f64::NAN } else { x };
    match found {
        Value::Complex(parts) => Value::Complex(parts.map(one_nan)).encode(ty),
        other => other.encode(ty),
    }
}

/// Bit for bit, and any NaN for any other.
fn same(x: Value, y: Value) -> bool {
    Exactness::Bits.allows(x, y, 0.0, Ty::F64)
}
