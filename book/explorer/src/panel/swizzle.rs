//! Swizzles: the banks of a tile before and after, the lanes of an access by bank, conflicts, sectors, and the choice.

use std::collections::{BTreeMap, BTreeSet};

use colex_atom::{Access, Banks, SECTOR_BYTES, Touched, choose_swizzle};
use colex_draw::{Cell, ColorBy, Fill, Grid, LabelBy, Table, banks};
use colex_layout::{ComposedLayout, Layout, Swizzle};

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Cells, Link, Reply, svg};

/// The most elements of a tile.
const TILE: i64 = 1 << 12;
/// The most lanes of an access.
const LANES: i64 = 64;
/// The bytes of memory that an access reaches: the chooser tries every swizzle within them.
const REACH: i64 = 1 << 16;

/// What the fields say.
struct Asked {
    swizzle: Swizzle,
    tile: Layout,
    /// The bytes of an element.
    bytes: i64,
    lanes: Layout,
    /// The bytes that a lane moves.
    width: i64,
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let asked = asked(fields)?;
    let Asked { swizzle, tile, .. } = &asked;
    let swizzled = ComposedLayout::new(*swizzle, 0, tile).map_err(|error| error.to_string())?;
    let mut reply = Reply::of(fields, swizzled.to_string());
    reply.fact(
        "XORs bits",
        format!(
            "{} into {}",
            bits(swizzle.from_mask()),
            bits(swizzle.into_mask())
        ),
    );
    let pictures = tiles(&mut reply, &asked, &swizzled)?;
    accesses(&mut reply, &asked)?;
    reply.copy("Rust", Ok::<_, Sentence>(spell::rust(&swizzled)));
    reply.copy("CuTe C++", spell::composed(Language::Cpp, &swizzled));
    reply.copy("CuTe DSL", spell::composed(Language::Python, &swizzled));
    reply.copy_later("LaTeX", || Ok::<_, Sentence>(pictures.1.latex()));
    reply.copy_later("SVG", || {
        let width = 8 * asked.bytes;
        let picture = banks(&pictures.0, &pictures.1, width, LabelBy::Bank(width));
        Ok::<_, Sentence>(svg(picture))
    });
    Ok(reply)
}

/// A count with its noun.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The bits of a mask.
fn bits(mask: i64) -> String {
    let set = (0..63)
        .filter(|bit| mask >> bit & 1 == 1)
        .map(|bit| bit.to_string());
    let set: Vec<String> = set.collect();
    if set.is_empty() {
        "none".to_string()
    } else {
        set.join(", ")
    }
}

fn asked(fields: &Fields) -> Result<Asked, Sentence> {
    let number = |name: &str, low, high| read::number(name, fields.text(name), low, high);
    let (b, m, s) = (
        number("bits", 0, 5)?,
        number("base", 0, 8)?,
        number("shift", -6, 6)?,
    );
    let swizzle = Swizzle::new(b, m, s).map_err(|error| error.to_string())?;
    let tile = read::layout("layout", fields.text("layout"))?;
    if tile.size() > TILE {
        return Err(format!(
            "layout: it has {} elements, and the explorer draws {TILE} at most",
            tile.size()
        ));
    }
    let bytes = match fields.text("element") {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        other => return Err(format!("element: `{other}` is not 8, 16, 32 or 64 bits")),
    };
    let lanes = read::layout("lanes", fields.text("lanes"))?;
    if lanes.size() > LANES {
        return Err(format!(
            "lanes: there are {} of them, and an access has {LANES} at most",
            lanes.size()
        ));
    }
    let width = number("width", 1, 16)?;
    let reach = lanes.cosize().map_err(|error| format!("lanes: {error}"))?;
    if reach > REACH / bytes {
        return Err(format!(
            "lanes: they reach {reach} elements, and the explorer takes {REACH} bytes at most"
        ));
    }
    let vector = (1_i64 << m).saturating_mul(bytes);
    if !swizzle.is_identity() && vector < width {
        return Err(format!(
            "{swizzle} keeps {vector} bytes together, and a lane moves {width}: the base is too small"
        ));
    }
    Ok(Asked {
        swizzle,
        tile,
        bytes,
        lanes,
        width,
    })
}

/// The tile before and after the swizzle, coloured by bank.
fn tiles(
    reply: &mut Reply,
    asked: &Asked,
    swizzled: &ComposedLayout,
) -> Result<(Table, Table), Sentence> {
    let plain = Table::of(&asked.tile).map_err(|error| error.to_string())?;
    let after = Table::of(swizzled).map_err(|error| error.to_string())?;
    let width = 8 * asked.bytes;
    for (id, title, table) in [("before", "Before", &plain), ("after", "After", &after)] {
        let grid = table.grid(ColorBy::Bank(width), LabelBy::Bank(width));
        let say = |row, col| {
            let (from, to) = (plain.at(row, col), table.at(row, col));
            let bank = colex_draw::bank(to, width);
            match id {
                "before" => format!("({row},{col}): offset {to}, bank {bank}"),
                _ => format!("({row},{col}): offset {from} becomes {to}, bank {bank}"),
            }
        };
        let title = format!("{title}: the bank of each element");
        reply.grid(
            id,
            &title,
            Ok(Cells::new(&grid, say, |row, col| {
                Link::key(plain.at(row, col))
            })),
        );
    }
    Ok((plain, after))
}

/// The lanes by bank before and after, conflicts and sectors, and what the chooser says.
fn accesses(reply: &mut Reply, asked: &Asked) -> Result<(), Sentence> {
    let Asked {
        swizzle,
        bytes,
        width,
        ..
    } = asked;
    let plain = Access::new("the access", &asked.lanes, *bytes, *width)
        .map_err(|error| format!("lanes: {error}"))?;
    let moved = plain.map(|byte| swizzle.apply(byte / bytes) * bytes + byte % bytes);
    for (id, title, access) in [
        ("lanes-before", "before", &plain),
        ("lanes-after", "after", &moved),
    ] {
        let conflicts = access.conflicts(Banks::SHARED);
        let verdict = if conflicts.is_free() {
            ", free of conflicts"
        } else {
            ""
        };
        reply.fact(
            &format!("conflicts {title}"),
            format!(
                "{} for {}, {} in a bank at most{verdict}",
                counted(conflicts.passes(), "pass", "passes"),
                counted(conflicts.phases.len(), "phase", "phases"),
                counted(conflicts.degree(), "word", "words")
            ),
        );
        card(
            reply,
            id,
            &format!("Lanes by bank, {title}: the row of each word"),
            access,
            &plain,
            *bytes,
        );
    }
    let sectors = Touched::of(moved.offsets().iter().copied(), *width, SECTOR_BYTES);
    reply.fact(
        "as global memory",
        format!(
            "{} sectors of {SECTOR_BYTES} bytes, {} at least",
            sectors.blocks, sectors.least
        ),
    );
    let choice = choose_swizzle(&[plain]);
    reply.text(
        "The smallest swizzle of byte offsets that frees the access of conflicts",
        match choice {
            Ok(choice) => match choice.in_elements(*bytes) {
                Ok(elements) => format!("{}in elements: {elements}", choice),
                Err(error) => format!("{choice}in elements: {error}"),
            },
            Err(error) => error.to_string(),
        },
    );
    Ok(())
}

/// A row per lane and a column per bank: the words that the lane moves, red where the phase has several in the bank.
fn card(reply: &mut Reply, id: &str, title: &str, access: &Access, plain: &Access, bytes: i64) {
    let (banks, width) = (Banks::SHARED, access.width());
    let words = |lane: usize| {
        let start = access.offsets()[lane];
        start / banks.word()..=(start + width - 1) / banks.word()
    };
    let mut phase_of = vec![0; access.offsets().len()];
    let mut in_bank: BTreeMap<(usize, i64), BTreeSet<i64>> = BTreeMap::new();
    for (phase, lanes) in access.phases(banks).enumerate() {
        for lane in lanes {
            phase_of[lane] = phase;
            for word in words(lane) {
                in_bank
                    .entry((phase, word % banks.count()))
                    .or_default()
                    .insert(word);
            }
        }
    }
    let word_in =
        |lane: i64, bank: i64| words(lane as usize).find(|word| word % banks.count() == bank);
    let degree = |lane: i64, bank: i64| {
        in_bank
            .get(&(phase_of[lane as usize], bank))
            .map_or(0, BTreeSet::len)
    };
    let cell = |lane, bank| match word_in(lane, bank) {
        None => Cell::default(),
        Some(word) => {
            let fill = if degree(lane, bank) > 1 {
                Fill::Pastel(1)
            } else {
                Fill::Pastel(2)
            };
            Cell::new([(word / banks.count()).to_string()]).filled(fill)
        }
    };
    let lanes = access.offsets().len() as i64;
    let grid = match Grid::from_fn(lanes, banks.count(), cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid(id, title, Err(error.to_string())),
    };
    let say = |lane: i64, bank: i64| {
        let phase = phase_of[lane as usize];
        match (word_in(lane, bank), degree(lane, bank)) {
            (None, _) => format!("lane {lane} of phase {phase} moves no word of bank {bank}"),
            (Some(word), 1) => {
                format!("lane {lane} of phase {phase}: word {word}, alone in bank {bank}")
            }
            (Some(word), n) => {
                format!("lane {lane} of phase {phase}: word {word}, one of {n} in bank {bank}")
            }
        }
    };
    let link = |lane: i64, _| {
        let start = plain.offsets()[lane as usize];
        Link::keys(
            (start..start + width)
                .map(|byte| byte / bytes)
                .collect::<BTreeSet<_>>(),
        )
    };
    let names = phase_of
        .iter()
        .enumerate()
        .map(|(lane, phase)| format!("{phase}: {lane}"));
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, link)
    };
    reply.grid(id, title, Ok(cells));
}
