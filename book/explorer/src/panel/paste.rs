//! What CuTe prints, as the panel and the fields that show it.
//!
//! `print` of a `TiledMMA` or a `TiledCopy` names no instruction; the tables have one with the same layouts.

use std::collections::BTreeMap;

use colex_layout::{Layout, Tiler};
use colex_tiled::{TiledCopy, TiledMma};
use serde_json::{Value as Json, json};

use crate::fields::{Fields, Sentence};
use crate::read;

/// The most threads of an operation.
const THREADS: i64 = 1 << 10;

/// Returns the panel and its fields for a pasted text; what is no print of an operation is a layout.
pub(crate) fn read_text(fields: &Fields) -> Result<Json, Sentence> {
    let text = fields.text("text");
    let entries = entries(text);
    if text.contains("TiledMMA") {
        mma(&entries)
    } else if text.contains("TiledCopy") {
        copy(&entries)
    } else if text.contains("MMA_Atom") {
        mma_atom(&entries)
    } else if text.contains("Copy_Atom") {
        copy_atom(&entries)
    } else if let Some(swizzle) = swizzle(text) {
        Ok(json!({"panel": "swizzle", "fields": swizzle}))
    } else {
        Ok(json!({"panel": "layout", "fields": {"layout": text}}))
    }
}

/// A product by itself: the first row with what was printed.
fn mma_atom(pasted: &BTreeMap<String, String>) -> Result<Json, Sentence> {
    let shape = entry(pasted, "Shape_MNK")?;
    let found = colex_atom::mma_atoms().find(|atom| same(&atom.print(), pasted));
    let found = found.ok_or_else(|| {
        format!("no instruction of the tables has the shape {shape} and these layouts")
    })?;
    Ok(json!({"panel": "atom", "fields": {"name": found.name()}}))
}

/// A copy by itself.
fn copy_atom(pasted: &BTreeMap<String, String>) -> Result<Json, Sentence> {
    let bits = entry(pasted, "ValueType")?;
    let width = read::number("ValueType", bits.trim_end_matches('b'), 1, 1024)?;
    let found = colex_atom::copy_atoms().find(|atom| has_layouts(atom, width, pasted));
    let found = found.ok_or("no copy of the tables has these layouts")?;
    Ok(json!({"panel": "atom", "fields": {"name": found.name()}}))
}

/// The numbers of a swizzle that stands alone, as fields of its panel.
fn swizzle(text: &str) -> Option<Json> {
    let inside = text
        .strip_prefix("Sw<")
        .or_else(|| text.strip_prefix("S<"))?;
    let numbers: Vec<&str> = inside
        .strip_suffix('>')?
        .split(',')
        .map(str::trim)
        .collect();
    let [bits, base, shift] = numbers[..] else {
        return None;
    };
    Some(json!({"bits": bits, "base": base, "shift": shift}))
}

/// Whether a copy has the threads and the layouts that were printed of it.
fn has_layouts(atom: &colex_atom::CopyAtom, width: i64, pasted: &BTreeMap<String, String>) -> bool {
    let Ok(values) = atom.val_layouts(width) else {
        return false;
    };
    let bare = |text: &str| text.replace('_', "");
    let printed = [
        ("ThrID", atom.traits().thread.to_string()),
        ("ValLayoutSrc", values.src.to_string()),
        ("ValLayoutDst", values.dst.to_string()),
    ];
    printed.into_iter().all(|(name, text)| {
        let found = pasted.get(name);
        found.is_some_and(|found| bare(found) == bare(&text))
    })
}

/// The lines `name: value` without blanks.
fn entries(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    lines
        .map(|(name, value)| (bare(name), bare(value)))
        .collect()
}

fn entry<'a>(entries: &'a BTreeMap<String, String>, name: &str) -> Result<&'a str, Sentence> {
    let found = entries.get(name).map(String::as_str);
    found.ok_or_else(|| format!("the pasted text has no line `{name}`"))
}

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

fn mma(pasted: &BTreeMap<String, String>) -> Result<Json, Sentence> {
    let vmnk = read::layout("ThrLayoutVMNK", entry(pasted, "ThrLayoutVMNK")?)?;
    let thread = read::layout("ThrID", entry(pasted, "ThrID")?)?;
    if vmnk.rank() != 4 || vmnk.size() > THREADS {
        return Err(format!(
            "ThrLayoutVMNK: {vmnk} has not four modes and {THREADS} threads at most"
        ));
    }
    let atoms = atoms(&vmnk, &thread)?;
    let permutation = entry(pasted, "PermutationMNK")?;
    let tiler: Tiler = match permutation {
        "(_,_,_)" => Tiler::All,
        text => read::tiler("PermutationMNK", text)?,
    };
    let shape = entry(pasted, "Shape_MNK")?.replace('_', "");
    let fits = colex_atom::mma_atoms().filter(|atom| {
        let [m, n, k] = atom.traits().mnk;
        format!("({m},{n},{k})") == shape && same(&atom.print(), pasted)
    });
    // The first one that builds what was printed, as a sparse or a scaled form has layouts of its own.
    for atom in fits {
        let name = atom.name();
        let built = TiledMma::new(atom, &atoms, &tiler).map_err(sentence)?;
        if same(&built.to_string(), pasted) {
            let permutation = if tiler == Tiler::All { "" } else { permutation };
            return Ok(json!({"panel": "mma", "fields": {
                "atom": name, "atoms": atoms.to_string(), "permutation": permutation,
            }}));
        }
    }
    Err(format!(
        "no instruction of the tables has the shape {shape} and these layouts"
    ))
}

/// Whether every line `name: value` of a print is in the pasted text.
fn same(print: &str, pasted: &BTreeMap<String, String>) -> bool {
    let bare = |text: &str| text.replace('_', "");
    entries(print)
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .all(|(name, value)| {
            pasted
                .get(name)
                .is_some_and(|found| bare(found) == bare(value))
        })
}

/// The layout of the atoms: `ThrLayoutVMNK` is the atom's threads, and copies of them by the complement over these.
fn atoms(vmnk: &Layout, thread: &Layout) -> Result<Layout, Sentence> {
    // The places of the copies are listed, so neither layout may reach beyond the threads of a block.
    let mut reach = 0;
    for (what, threads) in [("ThrID", thread), ("ThrLayoutVMNK", vmnk)] {
        reach = threads.cosize().map_err(sentence)?;
        if reach > THREADS {
            return Err(format!(
                "{what}: {threads} reaches {reach} threads, and a block has {THREADS} at most"
            ));
        }
    }
    let copies = thread.complement(reach).map_err(sentence)?;
    let places: Vec<i64> = (0..copies.size())
        .map(|at| copies.at(at))
        .collect::<Result<_, _>>()
        .map_err(sentence)?;
    let mut modes = Vec::new();
    for mode in vmnk.modes().skip(1) {
        let mut leaves = Vec::new();
        for leaf in mode.leaves() {
            let stride = leaf.stride.as_int().map_or(-1, |stride| stride.value());
            let place = match leaf.extent.value() {
                1 => Some(0),
                _ => places.iter().position(|place| *place == stride),
            };
            let place = place.ok_or_else(|| {
                format!("ThrLayoutVMNK: the stride {stride} is no copy of the threads {thread}")
            })?;
            leaves.push(Layout::new(leaf.extent.value(), place as i64).map_err(sentence)?);
        }
        modes.push(match &leaves[..] {
            [one] => one.clone(),
            several => Layout::concat(several).map_err(sentence)?,
        });
    }
    Layout::concat(&modes).map_err(sentence)
}

fn copy(pasted: &BTreeMap<String, String>) -> Result<Json, Sentence> {
    let (tv, tiler) = (entry(pasted, "TiledLayout_TV")?, entry(pasted, "Tiler_MN")?);
    let bits = entry(pasted, "ValueType")?;
    let width = read::number("ValueType", bits.trim_end_matches('b'), 1, 1024)?;
    let layout = read::layout("TiledLayout_TV", tv)?;
    let cut = read::tiler("Tiler_MN", tiler)?;
    if layout.size() > THREADS * 64 {
        return Err(format!(
            "TiledLayout_TV: {} pairs of threads and values are more than the explorer takes",
            layout.size()
        ));
    }
    let fits = colex_atom::copy_atoms().filter(|atom| has_layouts(atom, width, pasted));
    for atom in fits {
        let name = atom.name();
        let built = TiledCopy::from_tv(atom, width, &layout, &cut).map_err(sentence)?;
        if same(&built.to_string(), pasted) {
            return Ok(json!({"panel": "copy", "fields": {
                "atom": name, "element": width.to_string(), "threads": "", "values": "",
                "tv": tv, "tiler": tiler, "tensor": "",
            }}));
        }
    }
    Err("no copy of the tables has these layouts".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pasted(text: &str) -> Result<Json, Sentence> {
        let request = json!({"panel": "paste", "text": text}).to_string();
        read_text(&Fields::read(&request).expect("it is short"))
    }

    /// What is printed comes back as a request that prints the same.
    #[test]
    fn law_what_is_printed_is_read() {
        let mut prints = 0;
        for name in [
            "SM80_16x8x16_F32F16F16F32_TN",
            "SM70_8x8x4_F32F16F16F32_NT",
            "SM90_64x64x16_F32F16F16_SS",
            "UniversalFMA<float>",
        ] {
            for (atoms, tile) in [
                ("(1,1,1):(0,0,0)", ".."),
                ("(2,2,1):(1,2,0)", ".."),
                ("(2,2,1):(2,1,0)", "(_,_,_)"),
            ] {
                let atom = colex_atom::mma(name).expect("a row");
                let tiler: Tiler = if tile == ".." {
                    Tiler::All
                } else {
                    tile.parse().expect("a tiler")
                };
                let atoms: Layout = atoms.parse().expect("a layout");
                let mma = TiledMma::new(atom, &atoms, &tiler).expect("it fits");
                let read = pasted(&mma.to_string()).unwrap_or_else(|why| panic!("{mma}: {why}"));
                let fields = &read["fields"];
                let text = |name: &str| fields[name].as_str().expect("a field").to_string();
                let again: Layout = text("atoms").parse().expect("a layout");
                let atom = colex_atom::mma(&text("atom")).expect("a row");
                let again = TiledMma::new(atom, &again, Tiler::All).expect("it fits");
                assert_eq!(
                    again.to_string().replace('_', ""),
                    mma.to_string().replace('_', "")
                );
                prints += 1;
            }
        }
        for (name, bits, threads, values) in [
            ("UniversalCopy<uint128_t>", 16, "(8,4):(1,8)", "(8,1):(1,8)"),
            ("UniversalCopy<uint32_t>", 32, "(8,16):(1,8)", "(2,4):(1,2)"),
            ("SM75_U32x4_LDSM_N", 16, "(16,2):(1,16)", "(1,8):(0,1)"),
        ] {
            let atom = colex_atom::copy(name).expect("a row");
            let copy = TiledCopy::new(atom, bits, threads, values).expect("it fits");
            let read = pasted(&copy.to_string()).unwrap_or_else(|why| panic!("{copy}: {why}"));
            let fields = &read["fields"];
            let text = |name: &str| fields[name].as_str().expect("a field");
            let atom = colex_atom::copy(text("atom")).expect("a row");
            let tv: Layout = text("tv").parse().expect("a layout");
            let tiler: Tiler = text("tiler").parse().expect("a tiler");
            let again = TiledCopy::from_tv(atom, bits, &tv, &tiler).expect("it fits");
            assert_eq!(again.to_string(), copy.to_string());
            prints += 1;
        }
        println!("law what_is_printed_is_read: {prints} prints");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert_eq!(
            pasted("(4,8):(8,1)"),
            Ok(json!({"panel": "layout", "fields": {"layout": "(4,8):(8,1)"}}))
        );
        let product = colex_atom::mma("SM70_8x8x4_F32F16F16F32_NT").expect("a row");
        let read = pasted(&product.print()).expect("it is a row");
        assert_eq!(
            (&read["panel"], &read["fields"]["name"]),
            (&json!("atom"), &json!(product.name()))
        );
        let copy = "Copy_Atom\n  ThrID:        _32:_1\n  ValLayoutSrc: (_32,_8):(_8,_1)\n  ValLayoutDst: (_32,(_2,_4)):(_2,(_1,_64))\n  ValLayoutRef: (_32,(_2,_4)):(_2,(_1,_64))\n  ValueType:    16b\n";
        let read = pasted(copy).expect("it is a row");
        assert_eq!(read["fields"]["name"], "SM75_U32x4_LDSM_N");
        assert_eq!(
            pasted("Sw<3,4,-3>"),
            Ok(json!({"panel": "swizzle", "fields": {"bits": "3", "base": "4", "shift": "-3"}}))
        );
        assert_eq!(
            pasted("MMA_Atom\n  Shape_MNK: (_3,_3,_3)\n"),
            Err(
                "no instruction of the tables has the shape (_3,_3,_3) and these layouts"
                    .to_string()
            )
        );
        assert_eq!(
            pasted("TiledMMA\n  ThrID: _32:_1\n"),
            Err("the pasted text has no line `ThrLayoutVMNK`".to_string())
        );
        assert_eq!(
            pasted(
                "TiledMMA\nThrLayoutVMNK: (_7,_1,_1,_1):(_1,_0,_0,_0)\nPermutationMNK: (_,_,_)\nThrID: _7:_1\nShape_MNK: (_3,_3,_3)\n"
            ),
            Err("no instruction of the tables has the shape (3,3,3) and these layouts".to_string())
        );
        let threads = |vmnk: &str, thread: &str| {
            pasted(&format!(
                "TiledMMA\nThrLayoutVMNK: {vmnk}\nThrID: {thread}\n"
            ))
        };
        assert_eq!(
            threads("(_32,_2,_1,_1):(34359738368,_32,_0,_0)", "_32:_1"),
            Err("ThrLayoutVMNK: (_32,_2,_1,_1):(34359738368,_32,_0,_0) reaches 1065151889441 threads, and a block has 1024 at most".to_string())
        );
        assert_eq!(
            threads("(_32,_2,_1,_1):(_1,_32,_0,_0)", "_32:34359738368"),
            Err("ThrID: _32:34359738368 reaches 1065151889409 threads, and a block has 1024 at most".to_string())
        );
        assert_eq!(
            pasted("TiledCopy\n  Tiler_MN: (_4,_8)\n"),
            Err("the pasted text has no line `TiledLayout_TV`".to_string())
        );
    }
}
