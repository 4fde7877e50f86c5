//! Tiled copies and tiled MMAs: every layout, every partition and where each thread starts.

use std::str::FromStr;

use colex_layout::{ComposedLayout, IntTuple, Layout, LayoutLeft, LeafMode, Tiler};
use colex_tiled::{Operand, Partition, Side, TiledCopy, TiledMma};
use serde_json::{Value as Json, json};

use super::value::{Map, Value};
use super::{Case, Op, Tried, Verdict};

pub(super) const FAMILIES: &[&[Op]] = &[ops! { own |case|
    "tiled_copy" => verdict(case, tiled_copy(case));
    "tiled_copy_partition" => verdict(case, tiled_copy_partition(case));
    "tiled_copy_partition_values" => verdict(case, tiled_copy_values(case));
    "tiled_copy_retile" => verdict(case, retile(case));
    "tiled_mma" => verdict(case, tiled_mma(case));
    "tiled_mma_partition" => verdict(case, tiled_mma_partition(case));
    "mma_fragment_C" => fragment_of_half(case);
    "make_tiled_copy_A" => verdict(case, for_operand(case, Operand::A));
    "make_tiled_copy_B" => verdict(case, for_operand(case, Operand::B));
    "make_tiled_copy_C" => verdict(case, for_operand(case, Operand::C));
    "make_tiled_copy_A_values" => verdict(case, operand_values(case, Operand::A));
    "make_tiled_copy_B_values" => verdict(case, operand_values(case, Operand::B));
    "make_tiled_copy_C_tv" => verdict(case, accumulator_tv(case));
    "make_tiled_copy_C_atom" => verdict(case, accumulator_atom(case));
    "make_tiled_copy_S_of_C_atom" => verdict(case, source_of_accumulator(case));
    "make_cotiled_copy" => verdict(case, cotiled(case));
}];

/// Our fields, by the names of the file.
type Fields = Tried<Vec<(&'static str, Json)>>;

/// Compares field by field; a refusal passes where CuTe refuses.
fn verdict(case: &Case, ours: Fields) -> Verdict {
    let broken = broken(|name| case.result[name].as_str());
    match ours {
        Ok(_) if case.is_reject() => {
            Verdict::Failed("CuTe refuses, and ours gives an answer".into())
        }
        Ok(ours) => compared(case, &ours, broken),
        Err(why) if case.is_reject() => Verdict::Error(why.0),
        Err(why) => match broken {
            Some(what) => Verdict::Refuted(format!("CuTe's {what}; ours refuses: {}", why.0)),
            None => Verdict::Failed(format!("ours refuses: {}", why.0)),
        },
    }
}

/// Every field of CuTe's. Where its result is broken, ours may differ, if it is not broken too.
fn compared(case: &Case, ours: &[(&'static str, Json)], theirs_broken: Option<String>) -> Verdict {
    let Some(theirs) = case.result.as_object() else {
        return Verdict::Failed("the result is not a record".into());
    };
    let find = |name: &str| ours.iter().find(|(field, _)| *field == name);
    let (mut regrouped, mut different) = (Vec::new(), Vec::new());
    for (name, theirs) in theirs {
        let Some((_, ours)) = find(name) else {
            return Verdict::Failed(format!("ours has no {name}"));
        };
        match compare(theirs, ours) {
            TiledComparison::Equal => {}
            TiledComparison::SameFunction => {
                regrouped.push(format!("{name} {ours}, CuTe's {theirs}"))
            }
            TiledComparison::Different => {
                different.push(format!("{name} is {ours}, CuTe's {theirs}"))
            }
        }
    }
    if different.is_empty() {
        return if regrouped.is_empty() {
            Verdict::Equal
        } else {
            Verdict::SameFunction(format!("ours is {}", regrouped.join("; ")))
        };
    }
    let different = format!("ours: {}", different.join("; "));
    let ours_broken = broken(|name| find(name).and_then(|(_, field)| field.as_str()));
    match (theirs_broken, ours_broken) {
        (Some(what), None) => Verdict::Refuted(format!("CuTe's {what}; {different}")),
        (Some(_), Some(what)) => Verdict::Failed(format!("our {what}; {different}")),
        (None, _) => Verdict::Failed(different),
    }
}

/// What is wrong with a result, ours or CuTe's: its fields by name.
fn broken<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    threads_that_coincide(&field)
        .or_else(|| threads_out_of_place(&field))
        .or_else(|| beyond_the_tile(&field))
}

/// A thread-value layout that names an index beyond the tile: of an operand, or of a copy.
fn beyond_the_tile<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let layouts = [
        ("layoutA_TV", "tile_shape", vec![0, 2]),
        ("layoutB_TV", "tile_shape", vec![1, 2]),
        ("layoutC_TV", "tile_shape", vec![0, 1]),
        ("TiledLayout_TV", "Tiler_MN", vec![0, 1]),
    ];
    layouts.into_iter().find_map(|(name, tile, modes)| {
        let tile = field(tile)?.parse::<IntTuple>().ok()?;
        let extents = modes
            .into_iter()
            .map(|i| tile.leaves().get(i).map(|n| n.value()));
        let size: i64 = extents.collect::<Option<Vec<i64>>>()?.into_iter().product();
        let table = Map::parse(field(name)?)?.table();
        let largest = table.into_iter().max()?;
        (largest >= size).then(|| format!("{name} reaches index {largest} of a tile of {size}"))
    })
}

/// A thread that does not find its place in a thread layout by dividing its index by the strides, as CuTe does: it is
/// given what another thread has, and no thread has what is its own.
fn threads_out_of_place<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let names = ["ThrLayoutVMNK", "thr_layout_vmnk"];
    let text = names.iter().find_map(|name| field(name))?;
    let layout: Layout = text.parse().ok()?;
    let digit = |thread: i64, leaf: &LeafMode| match leaf.stride.as_int()?.value() {
        0 => Some(0),
        d => Some(thread / d % leaf.extent.value()),
    };
    (0..layout.size()).find_map(|place| {
        let thread = layout.at(place).ok()?;
        let (mut found, mut before) = (0, 1);
        for leaf in layout.leaves() {
            found += before * digit(thread, leaf)?;
            before *= leaf.extent.value();
        }
        (found != place).then(|| {
            format!("{text} has thread {thread} at place {place}, and it is given {found}")
        })
    })
}

/// Two places of a thread layout that are one thread, which no tiled MMA may have.
fn threads_that_coincide<'a>(field: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let names = ["ThrLayoutVMNK", "thr_layout_vmnk"];
    let text = names.iter().find_map(|name| field(name))?;
    let threads = Map::parse(text)?.table();
    let second = (0..threads.len()).find(|&i| threads[..i].contains(&threads[i]))?;
    let first = threads.iter().position(|t| *t == threads[second])?;
    Some(format!(
        "{text} has one thread, {}, at the places {first} and {second}",
        threads[second]
    ))
}

enum TiledComparison {
    Equal,
    SameFunction,
    Different,
}

fn compare(theirs: &Json, ours: &Json) -> TiledComparison {
    if theirs == ours {
        return TiledComparison::Equal;
    }
    let map = |json: &Json| json.as_str().and_then(Map::parse);
    match (map(theirs), map(ours)) {
        (Some(a), Some(b)) if a.size() == b.size() && a.table() == b.table() => {
            TiledComparison::SameFunction
        }
        _ => TiledComparison::Different,
    }
}

/// Argument `i` read as CuTe writes it.
fn parsed<T: FromStr<Err: std::fmt::Display>>(case: &Case, i: usize) -> Tried<T> {
    case.text(i)?.parse().map_err(Into::into)
}

/// A text without the marks of static numbers.
fn text(value: impl ToString) -> Json {
    Value::of_text(&value.to_string())
        .to_string()
        .replace('_', "")
        .into()
}

fn tiler_text(tiler: &Tiler) -> Json {
    tiler.to_string().replace('_', "").into()
}

/// `[copy_op, value_bits, thr_layout, val_layout]` from argument 0 on.
fn copy_of(case: &Case) -> Tried<TiledCopy> {
    let atom = colex_atom::copy(&case.text(0)?)?;
    let (threads, values): (Layout, Layout) = (parsed(case, 2)?, parsed(case, 3)?);
    TiledCopy::new(atom, case.int(1)?, threads.to_static(), values.to_static()).map_err(Into::into)
}

fn copy_fields(copy: &TiledCopy) -> Fields {
    Ok(vec![
        ("Tiler_MN", tiler_text(copy.tiler())),
        ("TiledLayout_TV", text(copy.tv())),
        ("layoutS_TV", text(copy.tv_of(Side::Source)?)),
        ("layoutD_TV", text(copy.tv_of(Side::Destination)?)),
        ("num_thr", copy.threads().into()),
        ("atom_num_val", copy.atom_values().into()),
    ])
}

fn tiled_copy(case: &Case) -> Fields {
    copy_fields(&copy_of(case)?)
}

fn side(case: &Case, i: usize) -> Tried<Side> {
    match case.text(i)?.as_str() {
        "S" => Ok(Side::Source),
        "D" => Ok(Side::Destination),
        other => Err(format!("`{other}` is no side of a copy").into()),
    }
}

/// The partition of every thread on one side.
fn partitions(copy: &TiledCopy, tensor: &Layout, side: Side) -> Tried<Vec<Partition>> {
    let one = |t| {
        let thread = copy.slice(t)?;
        match side {
            Side::Source => thread.partition_src(tensor),
            Side::Destination => thread.partition_dst(tensor),
        }
        .map_err(Into::into)
    };
    (0..copy.threads()).map(one).collect()
}

/// Where each thread starts: offsets, or coordinates.
fn starts(partitions: &[Partition]) -> Json {
    partitions
        .iter()
        .map(|p| match p.start.as_leaf() {
            Some(n) => json!(n.value()),
            None => json!(p.start.to_string()),
        })
        .collect()
}

fn partition_fields(copy: &TiledCopy, tensor: &Layout, side: Side) -> Fields {
    let identity = Layout::identity(tensor.shape())?;
    let own = partitions(copy, tensor, side)?;
    let of_identity = partitions(copy, &identity, side)?;
    let first = own.first().ok_or("a copy has threads")?;
    Ok(vec![
        ("tidfrg", text(copy.partitions(tensor, side)?)),
        ("tidfrg_identity", text(copy.partitions(&identity, side)?)),
        ("partition", text(&first.layout)),
        ("offsets", starts(&own)),
        ("offsets_identity", starts(&of_identity)),
    ])
}

fn tiled_copy_partition(case: &Case) -> Fields {
    let tensor: Layout = parsed(case, 5)?;
    partition_fields(&copy_of(case)?, &tensor.to_static(), side(case, 4)?)
}

/// A shared-memory tile: a canonical block by name, or a swizzled layout, repeated to a shape.
fn shared_tile(case: &Case, i: usize, bits: i64) -> Tried<ComposedLayout> {
    let name = case.text(i)?;
    let shape: IntTuple = parsed(case, i + 1)?;
    let atom = if name.starts_with("Layout_") {
        super::gmma::smem_atom(&name, bits)?.position_independent()?
    } else {
        name.parse()?
    };
    atom.tile_to_shape(&shape, LayoutLeft).map_err(Into::into)
}

/// All offsets that the threads listed in the case touch, in order.
fn values(case: &Case, copy: &TiledCopy, tile: &ComposedLayout, side: Side) -> Fields {
    let inner = partitions(copy, tile.inner(), side)?;
    let wanted = case.result["values"]
        .as_object()
        .ok_or("the result has no record `values`")?;
    let mut found = serde_json::Map::new();
    for thread in wanted.keys() {
        let t: usize = thread.parse()?;
        let partition = inner.get(t).ok_or(format!("there is no thread {t}"))?;
        let offsets = partition.values()?;
        let swizzled = offsets.iter().map(|x| {
            let x = x.as_leaf().ok_or("an offset is an integer")?.value();
            let moved = ComposedLayout::new(tile.outer().clone(), x, Layout::unit())?;
            moved.at(0).map_err(Into::into)
        });
        found.insert(thread.clone(), swizzled.collect::<Tried<Vec<_>>>()?.into());
    }
    Ok(vec![("values", found.into())])
}

fn tiled_copy_values(case: &Case) -> Fields {
    let copy = copy_of(case)?;
    let tile = shared_tile(case, 5, copy.value_bits())?;
    values(case, &copy, &tile, side(case, 4)?)
}

fn retile(case: &Case) -> Fields {
    let copy = copy_of(case)?;
    let tensor: Layout = parsed(case, 4)?;
    let thread = copy.slice(0)?;
    let part = thread.partition_dst(tensor.to_static())?;
    let fragment = part.layout.fragment_like()?;
    let retiled = copy.retile(&fragment)?;
    Ok(vec![("in", text(fragment)), ("retile", text(retiled))])
}

/// `[mma_op, AtomLayoutMNK, PermutationMNK?]` from argument `i` on.
fn mma_of(case: &Case, i: usize, permuted: bool) -> Tried<TiledMma> {
    let atom = colex_atom::mma(&case.text(i)?)?;
    let atoms: Layout = parsed(case, i + 1)?;
    let permutation = if permuted {
        parsed(case, i + 2)?
    } else {
        Tiler::Modes(Vec::new())
    };
    TiledMma::new(atom, atoms.to_static(), &permutation).map_err(Into::into)
}

fn tiled_mma(case: &Case) -> Fields {
    let mma = mma_of(case, 0, true)?;
    let tv = |operand| Tried::Ok(text(mma.tv(operand)?));
    let [m, n, k] = mma.tile_shape();
    let permutation = Tiler::Modes([0, 1, 2].map(|i| mma.permutation(i)).to_vec());
    Ok(vec![
        ("ThrLayoutVMNK", text(mma.thread_layout())),
        ("tile_shape", format!("({m},{n},{k})").into()),
        ("permutation_mnk", tiler_text(&permutation)),
        ("layoutA_TV", tv(Operand::A)?),
        ("layoutB_TV", tv(Operand::B)?),
        ("layoutC_TV", tv(Operand::C)?),
        ("size", mma.threads().into()),
    ])
}

fn operand(case: &Case, i: usize) -> Tried<Operand> {
    match case.text(i)?.as_str() {
        "A" => Ok(Operand::A),
        "B" => Ok(Operand::B),
        "C" => Ok(Operand::C),
        other => Err(format!("`{other}` is no operand").into()),
    }
}

fn tiled_mma_partition(case: &Case) -> Fields {
    let mma = mma_of(case, 0, true)?;
    let operand = operand(case, 3)?;
    let tensor: Layout = parsed::<Layout>(case, 4)?.to_static();
    let identity = Layout::identity(tensor.shape())?;
    let all = |tensor: &Layout| {
        let one = |t| {
            mma.slice(t)
                .and_then(|s| s.partition(tensor, operand))
                .map_err(Into::into)
        };
        (0..mma.threads()).map(one).collect::<Tried<Vec<_>>>()
    };
    let (own, of_identity) = (all(&tensor)?, all(&identity)?);
    let first = own.first().ok_or("an MMA has threads")?;
    let thread = mma.slice(0)?;
    let fragments = |t: &Layout| mma.fragments(t, operand).map(text);
    Ok(vec![
        ("thr_layout_vmnk", text(mma.thread_layout())),
        ("thrfrg", fragments(&tensor)?),
        ("thrfrg_identity", fragments(&identity)?),
        ("partition", text(&first.layout)),
        ("fragment", text(thread.fragment(&tensor, operand)?)),
        ("offsets", starts(&own)),
        ("offsets_identity", starts(&of_identity)),
    ])
}

/// `[mma_op]`: CuTe refuses to make a fragment whose first mode is not what a thread holds. Ours is made of a tile, never
/// of such a mode, so it answers, and its first mode has to be what a thread holds: for half a tile of C too.
fn fragment_of_half(case: &Case) -> Verdict {
    let made = || -> Tried<_> {
        let atom = colex_atom::mma(&case.text(0)?)?;
        let [m, n, _] = atom.traits().mnk;
        let held = atom.traits().c.mode(1).map_or(0, |values| values.size());
        let mma = TiledMma::new(atom, Layout::unit(), Tiler::Modes(Vec::new()))?;
        let half = Layout::column_major([m / 2, n])?;
        let thread = mma.slice(0)?;
        let fragment = thread.fragment(&half, Operand::C)?;
        Ok((held, fragment))
    };
    match made() {
        Ok((held, made)) if made.mode(0).is_some_and(|first| first.size() == held) => {
            Verdict::Answered(format!(
                "ours is {made}, whose first mode holds {held} values"
            ))
        }
        Ok((held, made)) => {
            Verdict::Failed(format!("ours is {made}, and a thread holds {held} values"))
        }
        Err(why) => Verdict::Failed(why.0),
    }
}

/// `[copy_op, bits, mma_op, AtomLayout, Perm, tensor]`.
fn for_operand(case: &Case, operand: Operand) -> Fields {
    let copy = operand_copy(case, operand)?;
    let mma = mma_of(case, 2, true)?;
    let tensor: Layout = parsed::<Layout>(case, 5)?.to_static();
    let side = match operand {
        Operand::C => Side::Destination,
        Operand::A | Operand::B => Side::Source,
    };
    let mut fields = copy_fields(&copy)?;
    fields.extend(partition_fields(&copy, &tensor, side)?);
    let thread = mma.slice(0)?;
    let fragment = thread.fragment(&tensor, operand)?;
    fields.push(("retile", text(copy.retile(&fragment)?)));
    fields.push(("in", text(fragment)));
    Ok(fields)
}

fn operand_copy(case: &Case, operand: Operand) -> Tried<TiledCopy> {
    let atom = colex_atom::copy(&case.text(0)?)?;
    let mma = mma_of(case, 2, true)?;
    TiledCopy::for_operand(atom, case.int(1)?, &mma, operand).map_err(Into::into)
}

/// `[copy_op, bits, mma_op, AtomLayout, Perm, smem_atom, shape]`.
fn operand_values(case: &Case, operand: Operand) -> Fields {
    let copy = operand_copy(case, operand)?;
    let tile = shared_tile(case, 5, copy.value_bits())?;
    values(case, &copy, &tile, Side::Source)
}

/// `[copy_op, bits, mma_op, AtomLayout]`: the parts of an accumulator's copy.
fn accumulator(case: &Case) -> Tried<(colex_atom::CopyAtom, i64, TiledMma)> {
    let atom = colex_atom::copy(&case.text(0)?)?;
    Ok((atom, case.int(1)?, mma_of(case, 2, false)?))
}

fn accumulator_tv(case: &Case) -> Fields {
    let (atom, bits, mma) = accumulator(case)?;
    copy_fields(&TiledCopy::for_operand(atom, bits, &mma, Operand::C)?)
}

fn accumulator_atom(case: &Case) -> Fields {
    let (atom, bits, mma) = accumulator(case)?;
    copy_fields(&TiledCopy::for_accumulator_atom(atom, bits, &mma)?)
}

/// The source side of the accumulator's copy by `SM90_U32x2_STSM_N` in halves.
fn source_of_accumulator(case: &Case) -> Fields {
    let (atom, bits, mma) = accumulator(case)?;
    let stsm = colex_atom::copy("SM90_U32x2_STSM_N")?;
    let whole = TiledCopy::for_accumulator_atom(stsm, 16, &mma)?;
    copy_fields(&TiledCopy::for_side(atom, bits, &whole, Side::Source)?)
}

fn cotiled(case: &Case) -> Fields {
    let atom = colex_atom::copy(&case.text(0)?)?;
    let (tv, data): (Layout, Layout) = (parsed(case, 2)?, parsed(case, 3)?);
    copy_fields(&TiledCopy::cotiled(
        atom,
        case.int(1)?,
        tv.to_static(),
        data.to_static(),
    )?)
}
