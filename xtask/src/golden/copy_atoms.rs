//! Copy atoms: CuTe's traits against our rows, in bits and in values.

use colex_atom::{CopyAtom, Side};
use colex_layout::Layout;
use serde_json::Value as Json;

use super::{Case, Op, Verdict};

pub(super) const FAMILIES: &[&[Op]] = &[&[
    Op::own("copy_atom", traits),
    Op::own("copy_atom_val", values),
    Op::own("tsv_copy", printed),
    Op::own("tsv_copyv", printed),
]];

/// A field of CuTe's traits: its name, and our text of it or why there is none.
type Field = (&'static str, Result<String, String>);

/// `copy_atom [name]`: the layouts in bits.
fn traits(case: &Case) -> Verdict {
    with_atom(case, |atom| {
        let t = atom.traits();
        let fields = [
            ("ThrID", Ok(plain(&t.thread))),
            ("SrcLayout", Ok(plain(&t.src))),
            ("DstLayout", Ok(plain(&t.dst))),
            ("RefLayout", Ok(plain(t.reference()))),
        ];
        compared(case, atom, &fields, |name| &case.result[name])
    })
}

/// `copy_atom_val [name, bits]`: the same in values of that width.
fn values(case: &Case) -> Verdict {
    with_atom(case, |atom| {
        let bits = match case.int(1) {
            Ok(bits) => bits,
            Err(why) => return Verdict::Failed(why),
        };
        let recast = |layout: &Layout| {
            layout
                .recast(1, bits)
                .map(|l| plain(&l))
                .map_err(|error| error.to_string())
        };
        let t = atom.traits();
        if let Some(why) = parts_of_values(case, atom, bits) {
            return Verdict::Refuted(why);
        }
        let fields: [Field; 4] = match atom.val_layouts(bits) {
            Ok(v) => [
                ("ThrID", Ok(plain(&t.thread))),
                ("ValLayoutSrc", Ok(plain(&v.src))),
                ("ValLayoutDst", Ok(plain(&v.dst))),
                ("ValLayoutRef", Ok(plain(&v.reference))),
            ],
            Err(error) => [
                ("ThrID", Ok(plain(&t.thread))),
                ("ValLayoutSrc", recast(&t.src)),
                ("ValLayoutDst", Err(error.to_string())),
                ("ValLayoutRef", recast(t.reference())),
            ],
        };
        compared(case, atom, &fields, |name| &case.result[name])
    })
}

/// Why CuTe's layouts of values break their law where ours are refused: a thread would move more or fewer bits than the
/// instruction does.
fn parts_of_values(case: &Case, atom: &CopyAtom, bits: i64) -> Option<String> {
    atom.val_layouts(bits).err()?;
    let theirs: Layout = case.result["ValLayoutSrc"].as_str()?.parse().ok()?;
    let [values, held] = [&theirs, &atom.traits().src].map(|l| l.mode(1).map_or(1, |m| m.size()));
    let moved = values.checked_mul(bits)?;
    (moved != held).then(|| {
        format!("{theirs:#} moves {values} values of {bits} bits, and a thread of the instruction {held} bits")
    })
}

/// A row of `atoms.tsv`: thread, the address of a value in tensor memory (`COPYV` only), source, destination, and
/// which of the two is the reference.
fn printed(case: &Case) -> Verdict {
    with_atom(case, |atom| {
        let t = atom.traits();
        let reference = if t.reference == Side::Source {
            "Ref=Src"
        } else {
            "Ref=Dst"
        };
        let mut fields = vec![("ThrID", Ok(t.thread.to_string()))];
        if case.op == "tsv_copyv" {
            let value = t
                .value
                .as_ref()
                .ok_or_else(|| "our row has no ValID".to_string());
            fields.push(("ValID", value.map(Layout::to_string)));
        }
        fields.extend([
            ("SrcLayout", Ok(t.src.to_string())),
            ("DstLayout", Ok(t.dst.to_string())),
            ("RefLayout", Ok(reference.to_string())),
        ]);
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        let column = |name: &str| {
            names
                .iter()
                .position(|other| *other == name)
                .map_or(&Json::Null, |i| &case.result[i])
        };
        compared(case, atom, &fields, column)
    })
}

/// Runs a comparison on the atom of the case.
fn with_atom(case: &Case, compare: impl Fn(&CopyAtom) -> Verdict) -> Verdict {
    match case
        .text(0)
        .and_then(|name| colex_atom::copy(&name).map_err(|error| error.to_string()))
    {
        Ok(atom) => compare(&atom),
        Err(why) => Verdict::Failed(why),
    }
}

/// Every field, and no other, says what CuTe's does; where our row knows of CuTe's defect, that field is refuted.
fn compared<'a>(
    case: &'a Case,
    atom: &CopyAtom,
    fields: &[Field],
    theirs: impl Fn(&str) -> &'a Json,
) -> Verdict {
    let count = case
        .result
        .as_object()
        .map(|o| o.len())
        .or(case.result.as_array().map(Vec::len));
    if count != Some(fields.len()) {
        return Verdict::Failed(format!(
            "CuTe has {count:?} fields, our row {}",
            fields.len()
        ));
    }
    let mut refuted = Vec::new();
    for (name, ours) in fields {
        let theirs = theirs(name);
        if ours.as_ref().is_ok_and(|ours| theirs == ours) {
            continue;
        }
        match atom.defect() {
            Some(_) if name.contains("Dst") => refuted.push(format!("{name} is {ours:?}")),
            _ => return Verdict::Failed(format!("{name}: ours is {ours:?}, CuTe's {theirs}")),
        }
    }
    match (refuted.is_empty(), atom.defect()) {
        (false, Some(defect)) => {
            Verdict::Refuted(format!("{}; ours: {}", defect.why, refuted.join("; ")))
        }
        (true, Some(_)) => {
            Verdict::Failed("the defect that our row states is not in CuTe's layouts".into())
        }
        (_, None) => Verdict::Equal,
    }
}

/// A layout as the files write it.
fn plain(layout: &Layout) -> String {
    format!("{layout:#}")
}
