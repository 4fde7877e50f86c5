//! MMA atoms: every field of CuTe's traits against our rows.

use colex_atom::{Form, MmaAtom, Ty};
use colex_layout::Layout;
use serde_json::Value as Json;

use super::{Case, Op, Verdict};

pub(super) const FAMILIES: &[&[Op]] = &[&[
    Op::own("mma_atom", traits),
    Op::own("mma_atom_table", table),
    Op::own("tsv_mma", printed),
]];

/// `mma_atom [name]`: the fields of the traits.
fn traits(case: &Case) -> Verdict {
    let atom = match named(case) {
        Ok(atom) => atom,
        Err(verdict) => return verdict,
    };
    let Some(fields) = case.result.as_object() else {
        return Verdict::Failed("the result is not a record".into());
    };
    let ours = fields_of(&atom);
    let mut verdicts = Vec::new();
    for (name, theirs) in fields {
        let Some((_, ours)) = ours.iter().find(|(field, _)| field == name) else {
            return Verdict::Failed(format!("our row has no {name}"));
        };
        if !agrees(&atom, name, theirs, ours) {
            verdicts.push(differing(&atom, name, theirs, ours));
        }
    }
    worst(verdicts)
}

/// Of the verdicts on the fields that differ, a failure before a refutation: one mistake of CuTe's hides none of ours.
fn worst(verdicts: Vec<Verdict>) -> Verdict {
    let is_failure = |verdict: &Verdict| matches!(verdict, Verdict::Failed(_));
    let failed = verdicts.iter().find(|verdict| is_failure(verdict)).cloned();
    let first = || verdicts.into_iter().next();
    failed.or_else(first).unwrap_or(Verdict::Equal)
}

/// What our row says, by the names of the file.
fn fields_of(atom: &MmaAtom) -> Vec<(&'static str, Json)> {
    let t = atom.traits();
    let text = |layout: &Layout| Json::from(layout.to_string().replace('_', ""));
    let [m, n, k] = t.mnk;
    let (a, _) = atom.elements();
    let packing = atom.rule().packing();
    let a_cpp = match packing {
        1 => t.ty_a.cpp().to_string(),
        packing => format!("sparse_elem<{packing}, {}>", a.cpp()),
    };
    let a_bits = if packing == 1 {
        t.ty_a.bits()
    } else {
        a.bits() / packing as u32
    };
    let bits = [a_bits, t.ty_b.bits(), t.ty_c.bits(), t.ty_c.bits()];
    let mut fields = vec![
        ("Shape_MNK", format!("({m},{n},{k})").into()),
        ("ThrID", text(&t.thread)),
        ("ALayout", text(&t.a)),
        ("BLayout", text(&t.b)),
        ("CLayout", text(&t.c)),
        ("ValTypeA", a_cpp.into()),
        ("ValTypeB", t.ty_b.cpp().into()),
        ("ValTypeC", t.ty_c.cpp().into()),
        ("ValTypeD", t.ty_c.cpp().into()),
        (
            "FrgTypeA",
            fragment(atom, atom.a_in_shared(), packing, t.ty_a).into(),
        ),
        (
            "FrgTypeB",
            fragment(atom, atom.b_in_shared(), 1, t.ty_b).into(),
        ),
        ("bits", bits.to_vec().into()),
    ];
    if let Some(e) = &t.e {
        let width = 8 * e.mode(1).map_or(0, |values| values.size()) / 32;
        let width = if atom.row().form == Form::LayoutOnly {
            8
        } else {
            width
        };
        fields.push(("ELayout", text(e)));
        fields.push(("ValTypeE", format!("sparse_elem<{width}, uint8_t>").into()));
    }
    if let Some([a, b]) = &t.scales {
        fields.extend([("SFALayout", text(a)), ("SFBLayout", text(b))]);
    }
    // Where the accumulators of tcgen05 lie in tensor memory is no thread-value layout.
    fields.push(("FrgTypeC", "UMMA::tmem_frg".into()));
    fields
}

/// What a fragment is: a descriptor, or elements in registers.
fn fragment(atom: &MmaAtom, in_shared: bool, packing: usize, ty: Ty) -> String {
    let is_umma = atom.name().starts_with("SM100_MMA");
    match (in_shared, is_umma) {
        (true, _) => "SM90::GMMA::smem_desc<SM90::GMMA::Major::K>".to_string(),
        (_, true) => "UMMA::smem_desc<UMMA::Major::K>".to_string(),
        _ => format!("sparse_elem<{packing}, {}>", ty.cpp()),
    }
}

fn agrees(atom: &MmaAtom, name: &str, theirs: &Json, ours: &Json) -> bool {
    match (name, theirs.as_str(), ours.as_str()) {
        // A class inside the operation.
        ("ValTypeC" | "ValTypeD", Some(theirs), Some(ours)) if atom.traits().ty_c == Ty::Gc64 => {
            theirs.ends_with(&format!("::{ours}"))
        }
        ("FrgTypeC", Some(theirs), Some(ours)) => theirs.starts_with(ours),
        _ => theirs == ours,
    }
}

/// A field differs: CuTe's two known mistakes, or ours.
fn differing(atom: &MmaAtom, field: &str, theirs: &Json, ours: &Json) -> Verdict {
    let name = atom.name();
    if name.starts_with("SM80_16x8x128_S32U1U1S32_TN_") && field == "ALayout" {
        return Verdict::Refuted(format!(
            "shape and stride differ in profile; we have {ours}"
        ));
    }
    if name == "SM61_DP2A" && (field == "ValTypeB" || field == "bits") {
        return Verdict::Refuted(format!(
            "dp2a multiplies 16-bit by 8-bit numbers and needs .lo or .hi (PTX ISA 9.7.1); {field}: ours is {ours}"
        ));
    }
    Verdict::Failed(format!("{field}: ours is {ours}, CuTe's {theirs}"))
}

/// The atom of the case, or the verdict that there is none.
fn named(case: &Case) -> Result<MmaAtom, Verdict> {
    let name = case.text(0).map_err(Verdict::Failed)?;
    colex_atom::mma(&name).map_err(|error| {
        if error.is_illegal_n() && name.starts_with("SM100_MMA_F16BF16_2x1SM") {
            return Verdict::Refuted(format!(
                "CuTe's traits are written for it, but the operation itself asserts N % 16 == 0; {error}"
            ));
        }
        Verdict::Failed(error.to_string())
    })
}

/// `mma_atom_table [name]`: each operand as `[thread][value] -> [row, column]`.
fn table(case: &Case) -> Verdict {
    let atom = match named(case) {
        Ok(atom) => atom,
        Err(verdict) => return verdict,
    };
    let t = atom.traits();
    let [m, n, _] = t.mnk;
    for (operand, layout, rows) in [("A", &t.a, m), ("B", &t.b, n), ("C", &t.c, m)] {
        if let Err(why) = same_table(&case.result[operand], layout, rows) {
            return Verdict::Failed(format!("{operand}: {why}"));
        }
    }
    let threads: Option<Vec<i64>> = case.result["thr"]
        .as_array()
        .map(|ids| ids.iter().filter_map(Json::as_i64).collect());
    match (threads, t.thread.table()) {
        (Some(theirs), Ok(ours)) if theirs == ours => Verdict::Equal,
        (theirs, ours) => Verdict::Failed(format!("thr: ours is {ours:?}, CuTe's {theirs:?}")),
    }
}

fn same_table(theirs: &Json, layout: &Layout, rows: i64) -> Result<(), String> {
    let sizes: Vec<i64> = layout.modes().map(|mode| mode.size()).collect();
    let [threads, values] = sizes[..] else {
        return Err(format!("{layout} has not two modes"));
    };
    let offsets = layout.table().map_err(|error| error.to_string())?;
    let every = theirs.get("all_threads");
    let rows_of = |json: &Json| json.as_array().map_or(0, Vec::len) as i64;
    if every.is_none() && rows_of(theirs) != threads {
        return Err(format!(
            "ours has {threads} threads, CuTe's {}",
            rows_of(theirs)
        ));
    }
    for thread in 0..threads {
        let theirs = every.unwrap_or(&theirs[thread as usize]);
        if rows_of(theirs) != values {
            return Err(format!(
                "thread {thread}: ours has {values} values, CuTe's {}",
                rows_of(theirs)
            ));
        }
        for value in 0..values {
            let at = offsets[(thread + threads * value) as usize];
            let (ours, theirs) = (
                Json::from(vec![at % rows, at / rows]),
                &theirs[value as usize],
            );
            if *theirs != ours {
                return Err(format!(
                    "thread {thread}, value {value}: ours is {ours}, CuTe's {theirs}"
                ));
            }
        }
    }
    Ok(())
}

/// A row of `atoms.tsv`: shape, thread, A, B, C as CuTe prints them, and the bits of D, A, B, C.
fn printed(case: &Case) -> Verdict {
    let atom = match named(case) {
        Ok(atom) => atom,
        Err(verdict) => return verdict,
    };
    let t = atom.traits();
    let [m, n, k] = t.mnk;
    let bits = [t.ty_c, t.ty_a, t.ty_b, t.ty_c]
        .map(|ty| ty.bits().to_string())
        .join(",");
    let columns = [
        ("Shape_MNK", format!("(_{m},_{n},_{k})")),
        ("ThrID", t.thread.to_string()),
        ("ALayout", t.a.to_string()),
        ("BLayout", t.b.to_string()),
        ("CLayout", t.c.to_string()),
        ("bits", bits),
    ];
    let mut verdicts = Vec::new();
    for (i, (name, ours)) in columns.into_iter().enumerate() {
        let (theirs, ours) = (&case.result[i], Json::from(ours));
        if *theirs != ours {
            verdicts.push(differing(&atom, name, theirs, &ours));
        }
    }
    worst(verdicts)
}
