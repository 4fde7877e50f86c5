//! Tiled copies and tiled products: which thread holds what of the tile.

use colex_atom::CopyAtom;
use colex_draw::ThreadValues;
use colex_layout::{Layout, Tiler};
use colex_tiled::{Error, Operand as Factor, Side, TiledCopy, TiledMma};

use super::table::check_name;
use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Operand, Place, Reply, operands, svg};

/// The most threads of a tiled operation, as of the largest block.
const THREADS: i64 = 1 << 10;
/// The most elements of C in a drawing of its own.
const DRAWN: i64 = 1 << 12;
/// The most elements of a tile.
const TILE: i64 = 1 << 14;

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

/// Refuses a layout that is too large to be one of threads or values.
fn at_most(what: &str, layout: &Layout, most: i64) -> Result<(), Sentence> {
    if layout.size() <= most {
        return Ok(());
    }
    Err(format!(
        "{what}: {} are more than the {most} that the explorer takes",
        layout.size()
    ))
}

pub(crate) fn copy(fields: &Fields) -> Result<Reply, Sentence> {
    check_name(fields.text("atom"))?;
    let atom = colex_atom::copy(fields.text("atom")).map_err(|error| format!("atom: {error}"))?;
    let bits = read::number("element", fields.text("element"), 1, 1024)?;
    let (made, title, rust, cpp) = match fields.text("tv") {
        "" => by_threads(fields, &atom, bits)?,
        tv => by_tv(fields, &atom, bits, tv)?,
    };
    let copy = made.map_err(sentence)?;
    let name = copy.atom().name();
    let mut reply = Reply::of(fields, format!("{name} over {title}"));
    let said = |value: Result<String, Error>| value.unwrap_or_else(sentence);
    reply.fact("Tiler_MN", copy.tiler());
    reply.fact("TiledLayout_TV", copy.tv());
    reply.fact("threads", copy.threads());
    reply.fact(
        "source TV",
        said(copy.tv_of(Side::Source).map(|layout| layout.to_string())),
    );
    reply.fact(
        "destination TV",
        said(
            copy.tv_of(Side::Destination)
                .map(|layout| layout.to_string()),
        ),
    );
    let lane = |thread| thread;
    let maps: Vec<Result<Place, Sentence>> = match copy.maps() {
        Ok(maps) => maps
            .into_iter()
            .map(|map| Ok(Place::Threads(map)))
            .collect(),
        Err(error) => [error.to_string(), error.to_string()].map(Err).into(),
    };
    let mut maps = maps;
    if !fields.text("tensor").is_empty() {
        maps.push(walk(fields, &mut reply, &copy)?);
    }
    let sides = ["Source", "Destination", "Tensor"]
        .into_iter()
        .zip(maps)
        .map(|(name, place)| Operand {
            name,
            axes: ["m", "n"],
            place,
            lane: &lane,
        });
    let sides: Vec<Operand<'_>> = sides.collect();
    operands(&mut reply, &sides);
    reply.copy("Rust", Ok::<_, Sentence>(rust));
    reply.copy("CuTe C++", cpp);
    reply.copy("CuTe DSL", dsl_copy(fields));
    let ptx = copy.atom().op().map(|op| op.ptx.clone());
    reply.copy("PTX", ptx.map_err(sentence));
    reply.copy_later("What CuTe prints", || Ok::<_, Sentence>(copy.to_string()));
    reply.copy_later("LaTeX", || copy.latex());
    reply.copy_later("SVG", || copy.picture().map(svg));
    Ok(reply)
}

/// A tiled copy or its error, what it is over, and how Rust and C++ make it.
type Made = (
    Result<TiledCopy, Error>,
    String,
    String,
    Result<String, &'static str>,
);

/// The copy of threads and values.
fn by_threads(fields: &Fields, atom: &CopyAtom, bits: i64) -> Result<Made, Sentence> {
    let threads = read::layout("threads", fields.text("threads"))?;
    let values = read::layout("values", fields.text("values"))?;
    at_most("threads", &threads, THREADS)?;
    at_most("values", &values, THREADS)?;
    if threads.size() * values.size() > TILE {
        return Err(format!(
            "a tile of {} elements is larger than the {TILE} that the explorer draws",
            threads.size() * values.size()
        ));
    }
    let name = atom.name();
    let title = format!("{threads} threads and {values} values");
    let rust = format!(
        "let copy = TiledCopy::new(colex_atom::copy(\"{name}\")?, {bits}, \"{threads}\", \"{values}\")?;"
    );
    let cpp = spell::plain(Language::Cpp, &threads).and_then(|threads| {
        let values = spell::plain(Language::Cpp, &values)?;
        Ok(format!(
            "make_tiled_copy(Copy_Atom<{name}, T>{{}}, {threads}, {values})"
        ))
    });
    let copy = TiledCopy::new(atom.clone(), bits, &threads, &values);
    Ok((copy, title, rust, cpp))
}

/// The call of the CuTe DSL that makes the copy; the operation of the atom has a class there, which the reader chooses.
fn dsl_copy(fields: &Fields) -> Result<String, Sentence> {
    let spelt = |name: &str| {
        let layout = read::layout(name, fields.text(name))?;
        spell::plain(Language::Python, &layout).map_err(sentence)
    };
    if fields.text("tv").is_empty() {
        let (threads, values) = (spelt("threads")?, spelt("values")?);
        return Ok(format!(
            "cute.make_tiled_copy_tv(copy_atom, {threads}, {values})"
        ));
    }
    let tiler = fields.text("tiler");
    Ok(format!(
        "cute.make_tiled_copy(copy_atom, {}, tiler)  # tiler: {tiler}",
        spelt("tv")?
    ))
}

/// The copy of a thread-value layout, as CuTe prints it.
fn by_tv(fields: &Fields, atom: &CopyAtom, bits: i64, tv: &str) -> Result<Made, Sentence> {
    let tv = read::layout("tv", tv)?;
    let tiler = read::tiler("tiler", fields.text("tiler"))?;
    at_most("tv", &tv, TILE)?;
    let name = atom.name();
    let title = format!("{tv} of {tiler}");
    let rust = format!(
        "let copy = TiledCopy::from_tv(colex_atom::copy(\"{name}\")?, {bits}, \"{tv}\", tiler!({tiler}))?;"
    );
    let cpp = Err("the thread-value layout and the tiler are arguments of `make_tiled_copy_impl`");
    let copy = TiledCopy::from_tv(atom.clone(), bits, &tv, &tiler);
    Ok((copy, title, rust, cpp))
}

/// The walk from a tensor to its partition, form by form, and the map of all tiles that cover the tensor.
fn walk(
    fields: &Fields,
    reply: &mut Reply,
    copy: &TiledCopy,
) -> Result<Result<Place, Sentence>, Sentence> {
    let tensor = read::layout("tensor", fields.text("tensor"))?;
    at_most("tensor", &tensor, TILE)?;
    let steps = copy
        .partition_steps(&tensor, Side::Source)
        .map_err(sentence)?;
    reply.text(
        "The walk from the tensor to its partition",
        steps.to_string().trim_end(),
    );
    let extents: Vec<i64> = tensor.modes().map(|mode| mode.size()).collect();
    let Ok(extents) = <[i64; 2]>::try_from(extents) else {
        return Ok(Err(format!("{tensor} has not two modes")));
    };
    let map = copy.map_over(extents, Side::Source).map_err(sentence);
    Ok(map.map(Place::Threads))
}

pub(crate) fn mma(fields: &Fields) -> Result<Reply, Sentence> {
    check_name(fields.text("atom"))?;
    let atom = colex_atom::mma(fields.text("atom")).map_err(|error| format!("atom: {error}"))?;
    let atoms = read::layout("atoms", fields.text("atoms"))?;
    at_most("atoms", &atoms, THREADS)?;
    // Threads are drawn by their numbers, so these may not reach beyond a block either.
    let reach = atoms.cosize().map_err(|error| format!("atoms: {error}"))?;
    let reach = reach.saturating_mul(atom.traits().thread.size());
    if reach > THREADS {
        return Err(format!(
            "atoms: {atoms} reaches {reach} threads, and a block has {THREADS} at most"
        ));
    }
    let permutation = match fields.text("permutation") {
        "" => Tiler::All,
        text => read::tiler("permutation", text)?,
    };
    let in_shared = [false, atom.a_in_shared(), atom.b_in_shared()];
    let mma = TiledMma::new(atom, &atoms, &permutation).map_err(sentence)?;
    let name = mma.atom().name();
    let mut reply = Reply::of(fields, format!("{name} over {atoms} atoms"));
    let [m, n, k] = mma.tile_shape();
    reply.fact("tile", format!("{m} by {n} by {k}"));
    reply.fact("threads", mma.threads());
    if m.max(n).max(k) > TILE || m * n > TILE || m * k > TILE || n * k > TILE {
        return Err(format!(
            "a tile of {m} by {n} by {k} is larger than the {TILE} elements that the explorer draws"
        ));
    }
    let lane = |thread| thread;
    let names = [
        (Factor::C, "C", ["m", "n"]),
        (Factor::A, "A", ["m", "k"]),
        (Factor::B, "B", ["n", "k"]),
    ];
    let sides: Vec<Operand<'_>> = names
        .into_iter()
        .zip(in_shared)
        .map(|((operand, name, axes), shared)| {
            let [rows, cols] = mma.operand_tile(operand);
            let map = || {
                let map = ThreadValues::of(mma.tv(operand).map_err(sentence)?, rows, cols);
                map.map(Place::Threads).map_err(sentence)
            };
            let place = if shared {
                Ok(Place::Shared([rows, cols]))
            } else {
                map()
            };
            Operand {
                name,
                axes,
                place,
                lane: &lane,
            }
        })
        .collect();
    operands(&mut reply, &sides);
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(match &permutation {
            Tiler::All => format!("let mma = TiledMma::new(colex_atom::mma(\"{name}\")?, \"{atoms}\", ..)?;"),
            tiler => format!(
                "let mma = TiledMma::new(colex_atom::mma(\"{name}\")?, \"{atoms}\", tiler!({tiler}))?;"
            ),
        }),
    );
    let cpp = spell::plain(Language::Cpp, &atoms);
    let cpp = match permutation {
        Tiler::All => cpp.map(|atoms| format!("make_tiled_mma(MMA_Atom<{name}>{{}}, {atoms})")),
        _ => {
            Err("the permutation has no text in C++ here; the tile of one atom times the atoms has")
        }
    };
    reply.copy("CuTe C++", cpp);
    let dsl = spell::plain(Language::Python, &atoms);
    reply.copy(
        "CuTe DSL",
        dsl.map(|atoms| format!("cute.make_tiled_mma(op, {atoms})")),
    );
    let ptx = mma.atom().op().map(|op| op.ptx.clone());
    reply.copy("PTX", ptx.map_err(sentence));
    reply.copy_later("What CuTe prints", || Ok::<_, Sentence>(mma.to_string()));
    let small = || {
        if in_shared.contains(&true) || m * n > DRAWN {
            Err(format!(
                "a tile of {m} by {n} by {k} has no legible drawing"
            ))
        } else {
            Ok(())
        }
    };
    reply.copy_later("LaTeX", || {
        small().and_then(|()| mma.latex().map_err(sentence))
    });
    reply.copy_later("SVG", || {
        small().and_then(|()| mma.picture().map(svg).map_err(sentence))
    });
    Ok(reply)
}
