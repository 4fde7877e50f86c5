//! One atom: its layouts, which thread holds which element, and its instruction.

use colex_atom::{Arch, CopyAtom, Error, MmaAtom, Side};
use colex_draw::{ThreadValues, print_latex_copy};
use colex_layout::{Layout, Unbounded};

use super::table::Atom;
use crate::fields::{Fields, Sentence};
use crate::view::{Operand, Place, Reply, operands, svg};

/// The widths in bits in which a copy is shown, the first that it takes.
const WIDTHS: [i64; 9] = [16, 32, 8, 64, 128, 4, 6, 2, 1];
/// The bits of one row of a copy's picture: a row of the matrices that `ldmatrix` reads.
const ROW_BITS: i64 = 128;
/// The most pairs of threads and values of an operand in a drawing of its own.
const DRAWN: i64 = 1 << 14;
/// The most pairs of threads and values that are shown.
const PAIRS: i64 = 1 << 17;

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    match found(fields.text("kind"), fields.text("name"))? {
        Atom::Mma(atom) => Ok(product(fields, &atom)),
        Atom::Copy(atom) => Ok(copy(fields, &atom)),
    }
}

/// Reads the name of a product or of a copy; where the kind is not said, the name says it.
fn found(kind: &str, name: &str) -> Result<Atom, Sentence> {
    if name.is_empty() {
        return Err("name: choose an instruction of the list".to_string());
    }
    super::table::check_name(name)?;
    let is_product = match kind {
        "product" => true,
        "copy" => false,
        _ => looks_like_a_product(name),
    };
    let found = if is_product {
        colex_atom::mma(name).map(|atom| Atom::Mma(atom.into()))
    } else {
        colex_atom::copy(name).map(|atom| Atom::Copy(atom.into()))
    };
    found.map_err(|error| error.to_string())
}

/// Whether a name is one of a product: `MMA`, `FMA` or a dot product is in it, or three extents. Only one table is
/// searched, since the search for the nearest names is what takes time.
fn looks_like_a_product(name: &str) -> bool {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let extents = name.as_bytes().windows(3);
    let times = extents
        .filter(|at| digit(&at[0]) && at[1] == b'x' && digit(&at[2]))
        .count();
    let name = name.to_uppercase();
    ["MMA", "FMA", "_DP"].iter().any(|part| name.contains(part)) || times > 1
}

fn said(value: Result<impl ToString, Error>) -> String {
    value.map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn product(fields: &Fields, atom: &MmaAtom) -> Reply {
    let traits = atom.traits();
    let mut reply = Reply::of(fields, atom.name());
    let [m, n, k] = traits.mnk;
    reply.fact("M, N, K", format!("{m}, {n}, {k}"));
    reply.fact(
        "types of A, B, C",
        format!("{}, {}, {}", traits.ty_a, traits.ty_b, traits.ty_c),
    );
    instruction(
        &mut reply,
        said(atom.op().map(|op| op.ptx.clone())),
        atom.since(),
    );
    reply.fact("threads", atom.threads());
    for (name, layout) in [
        ("ThrID", &traits.thread),
        ("ALayout", &traits.a),
        ("BLayout", &traits.b),
        ("CLayout", &traits.c),
    ] {
        reply.fact(name, layout);
    }
    let lane = |thread| traits.thread.at(Unbounded(thread)).unwrap_or(thread);
    let map = |layout: &Layout, rows, cols| {
        if layout.size() > PAIRS {
            return Err(too_many(layout));
        }
        let map = ThreadValues::of(layout, rows, cols).map(|map| map.numbered(lane));
        map.map(Place::Threads).map_err(|error| error.to_string())
    };
    let in_shared = |is_shared: bool, layout: &Layout, rows, cols| {
        if is_shared {
            Ok(Place::Shared([rows, cols]))
        } else {
            map(layout, rows, cols)
        }
    };
    let maps = [
        Operand {
            name: "C",
            axes: ["m", "n"],
            place: map(&traits.c, m, n),
            lane: &lane,
        },
        Operand {
            name: "A",
            axes: ["m", "k"],
            place: in_shared(atom.a_in_shared(), &traits.a, m, k),
            lane: &lane,
        },
        Operand {
            name: "B",
            axes: ["n", "k"],
            place: in_shared(atom.b_in_shared(), &traits.b, n, k),
            lane: &lane,
        },
    ];
    operands(&mut reply, &maps);
    let name = atom.name();
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(format!("let atom = colex_atom::mma(\"{name}\")?;")),
    );
    reply.copy(
        "CuTe C++",
        Ok::<_, Sentence>(format!("MMA_Atom<{name}>{{}}")),
    );
    reply.copy("PTX", atom.op().map(|op| op.ptx.clone()));
    let pairs = [&traits.a, &traits.b, &traits.c].map(Layout::size);
    let large = pairs.into_iter().find(|pairs| *pairs > DRAWN);
    let small = || match large {
        Some(pairs) => Err(format!(
            "{pairs} pairs of threads and values have no legible drawing"
        )),
        None => Ok(()),
    };
    let latex = || atom.latex().map_err(|error| error.to_string());
    reply.copy_later("LaTeX", || small().and_then(|()| latex()));
    let picture = || atom.picture().map_err(|error| error.to_string());
    reply.copy_later("SVG", || small().and_then(|()| picture()).map(svg));
    reply
}

fn too_many(layout: &Layout) -> Sentence {
    format!(
        "{layout} has {} pairs of threads and values, and the explorer draws {PAIRS} at most",
        layout.size()
    )
}

fn instruction(reply: &mut Reply, ptx: String, since: Arch) {
    reply.fact("PTX", ptx);
    reply.fact("from", since);
}

fn copy(fields: &Fields, atom: &CopyAtom) -> Reply {
    let traits = atom.traits();
    let mut reply = Reply::of(fields, atom.name());
    reply.fact("copies", format!("{} to {}", atom.from(), atom.to()));
    instruction(
        &mut reply,
        said(atom.op().map(|op| op.ptx.clone())),
        atom.since(),
    );
    reply.fact("threads", atom.threads());
    reply.fact("bits of a thread", atom.bits_per_thread());
    reply.fact("ThrID", &traits.thread);
    reply.fact("SrcLayout, in bits", &traits.src);
    reply.fact("DstLayout, in bits", &traits.dst);
    let reference = match traits.reference {
        Side::Source => "SrcLayout",
        Side::Destination => "DstLayout",
    };
    reply.fact("RefLayout", reference);
    if let Some(defect) = atom.defect() {
        reply.fact("CuTe says", defect.cute_dst);
        reply.text("Where CuTe and the hardware differ", defect.why);
    }
    let lane = |thread| traits.thread.at(Unbounded(thread)).unwrap_or(thread);
    let widths = WIDTHS.iter().map(|bits| (*bits, atom.val_layouts(*bits)));
    let [source, destination] = match widths
        .into_iter()
        .find_map(|(bits, found)| Some((bits, found.ok()?)))
    {
        None => {
            let why = said(atom.val_layouts(1).map(|_| ""));
            [Err(why.clone()), Err(why)]
        }
        Some((bits, layouts)) => {
            reply.fact("drawn in values of", format!("{bits} bits"));
            let cols = tile_columns(bits, [&layouts.src, &layouts.dst]);
            let map = |layout: &Layout| side(layout, cols).map(|map| map.numbered(lane));
            [map(&layouts.src), map(&layouts.dst)]
        }
    };
    let pair = [source.clone(), destination.clone()];
    let sides = [("Source", source), ("Destination", destination)].map(|(name, map)| Operand {
        name,
        axes: ["row", "column"],
        place: map.map(Place::Threads),
        lane: &lane,
    });
    operands(&mut reply, &sides);
    let name = atom.name();
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(format!("let atom = colex_atom::copy(\"{name}\")?;")),
    );
    let cpp = if atom.row().in_cute {
        Ok(format!("Copy_Atom<{name}, T>{{}}"))
    } else {
        Err("CuTe has no operation of this name".to_string())
    };
    reply.copy("CuTe C++", cpp);
    reply.copy("PTX", atom.op().map(|op| op.ptx.clone()));
    let both = || {
        let [source, destination] = &pair;
        Ok::<_, Sentence>((
            source.as_ref().map_err(Clone::clone)?,
            destination.as_ref().map_err(Clone::clone)?,
        ))
    };
    reply.copy_later("LaTeX", || {
        let (source, destination) = both()?;
        print_latex_copy(source, destination).map_err(|error| error.to_string())
    });
    reply.copy_later("SVG", || {
        let (source, destination) = both()?;
        let picture = ThreadValues::copy(source, destination);
        picture.map(svg).map_err(|error| error.to_string())
    });
    reply
}

/// The columns of a copy's picture: a row of 128 bits, where whole rows make the tile.
fn tile_columns(bits: i64, layouts: [&Layout; 2]) -> i64 {
    let elements = layouts
        .map(|layout| layout.cosize().unwrap_or(1))
        .into_iter()
        .max()
        .unwrap_or(1);
    let row = (ROW_BITS / bits).max(1);
    if elements % row == 0 {
        row
    } else {
        elements.clamp(1, 1 << 10)
    }
}

/// The map of one side: values row by row.
fn side(layout: &Layout, cols: i64) -> Result<ThreadValues, Sentence> {
    if layout.size() > PAIRS {
        return Err(too_many(layout));
    }
    let elements = layout.cosize().map_err(|error| error.to_string())?;
    let rows = (elements + cols - 1) / cols;
    let threads = layout.mode(0).map_or(1, |mode| mode.size());
    let values = layout.size() / threads;
    let table = layout.table().map_err(|error| error.to_string())?;
    let place = |thread: i64, value: i64| {
        let at = table[(thread + threads * value) as usize];
        (at / cols, at % cols)
    };
    ThreadValues::from_fn(layout.to_string(), [rows, cols], [threads, values], place)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::table::atoms;
    use super::*;

    /// Every name is found; of each row, the first atom and the last are opened whole.
    #[test]
    fn law_every_row_opens() {
        let nothing = Fields::default();
        let atoms: Vec<Atom> = atoms().collect();
        let (mut opened, mut drawn, mut slowest) = (0, 0, (0.0, String::new()));
        for (at, atom) in atoms.iter().enumerate() {
            let name = atom.name();
            let found = found(atom.kind(), &name).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(found.name(), name);
            assert_eq!(
                looks_like_a_product(&name),
                atom.kind() == "product",
                "{name}"
            );
            let is_edge =
                |beside: Option<&Atom>| beside.is_none_or(|beside| beside.row() != atom.row());
            if !is_edge(at.checked_sub(1).map(|at| &atoms[at])) && !is_edge(atoms.get(at + 1)) {
                continue;
            }
            let watch = Instant::now();
            let reply = match found {
                Atom::Mma(atom) => product(&nothing, &atom),
                Atom::Copy(atom) => copy(&nothing, &atom),
            };
            let json = reply.json();
            let seconds = watch.elapsed().as_secs_f64();
            let views = json["views"].as_array().expect("a reply has views");
            let missing = views.iter().filter(|view| view["kind"] == "missing");
            let whys: Vec<&str> = missing.filter_map(|view| view["why"].as_str()).collect();
            println!("{name}: {whys:?}");
            opened += 1;
            drawn += usize::from(whys.is_empty());
            if seconds > slowest.0 {
                slowest = (seconds, name);
            }
        }
        println!(
            "law every_row_opens: {opened} of {} atoms, {drawn} of them drawn, the slowest {slowest:?}",
            atoms.len()
        );
        assert!(drawn * 10 > opened * 8, "{drawn} of {opened}");
    }
}
