//! Names: how CuTe spells a copy, and what was meant by one that is not there.

use super::atom::CopyAtom;
use super::member::{CopyMember, member, members};
use super::row::Sizes;
use crate::Error;
use crate::error::CopyError;
use crate::names::{nearest, shown, without_namespaces};
use crate::number::Ty;

/// Whole names, and what they stand for in CuTe.
const ALIASES: &[(&str, &str)] = &[
    (
        "AutoVectorizingCopy",
        "AutoVectorizingCopyWithAssumedAlignment<128>",
    ),
    (
        "AutoVectorizingCopyWithAssumedAlignment",
        "AutoVectorizingCopyWithAssumedAlignment<128>",
    ),
    (
        "AutoVectorizingCopyWithAssumedAlignment<>",
        "AutoVectorizingCopyWithAssumedAlignment<128>",
    ),
    ("DefaultCopy", "AutoVectorizingCopyWithAssumedAlignment<8>"),
];

/// Finds an atom by name.
pub(super) fn parse(text: &str) -> Result<CopyAtom, Error> {
    let name = without_namespaces(text);
    let name = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name.as_str(), |(_, full)| full);
    if let Some(found) = member(name) {
        return Ok(CopyAtom::new(found));
    }
    if let Some((stem, arguments)) = name.strip_suffix('>').and_then(|rest| rest.split_once('<'))
        && let Some(atom) = with_arguments(text, stem, arguments)?
    {
        return Ok(atom);
    }
    Err(unknown(text, name))
}

/// An operation with template arguments: types of one width, or a number of bits.
fn with_arguments(text: &str, stem: &str, arguments: &str) -> Result<Option<CopyAtom>, Error> {
    if let (Some(free), Ok(bits)) = (member(stem), arguments.parse()) {
        let free_size = matches!(free.row.sizes, Sizes::Multiple(_));
        return if free_size {
            CopyAtom::new(free).with_bits(bits).map(Some)
        } else {
            Ok(None)
        };
    }
    let typed: Vec<CopyMember> = members()
        .filter(|m| m.stem() == format!("{stem}<uint{}_t>", m.bits))
        .collect();
    let widths: Option<Vec<i64>> = arguments.split(',').map(type_bits).collect();
    match (typed.as_slice(), widths.as_deref()) {
        ([], _) | (_, None | Some([])) => Ok(None),
        (_, Some([bits, rest @ ..])) => {
            let found = typed
                .iter()
                .find(|m| m.bits == *bits && rest.iter().all(|other| other == bits));
            let name = shown(text);
            let refused = || match rest.iter().find(|other| *other != bits) {
                Some(other) => CopyError::Width {
                    name: name.clone(),
                    bits: *other,
                    legal: format!("{bits}, as it reads"),
                },
                None => CopyError::Width {
                    name: name.clone(),
                    bits: *bits,
                    legal: listed(&typed),
                },
            };
            Ok(Some(CopyAtom::new(*found.ok_or_else(refused)?)))
        }
    }
}

fn listed(members: &[CopyMember]) -> String {
    let mut widths: Vec<i64> = members.iter().map(|m| m.bits).collect();
    widths.sort_unstable();
    widths
        .iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The width of a C++ type.
fn type_bits(name: &str) -> Option<i64> {
    let unsigned = name.strip_prefix('u').unwrap_or(name);
    if let Some(bits) = unsigned
        .strip_prefix("int")
        .and_then(|rest| rest.strip_suffix("_t"))
    {
        return bits.parse().ok();
    }
    match name {
        "char" | "bool" => Some(8),
        "int" | "unsigned" | "unsignedint" => Some(32),
        _ => Ty::ALL
            .into_iter()
            .find(|ty| ty.cpp() == name)
            .map(|ty| i64::from(ty.bits())),
    }
}

/// The name with the types of CUDA and C++ in it as the unsigned integers of CuTe that are as wide.
fn with_widths(name: &str) -> String {
    let Some((stem, arguments)) = name.split_once('<') else {
        return name.to_string();
    };
    let ty = arguments.strip_suffix('>').unwrap_or(arguments);
    match type_bits(ty).or_else(|| vector_bits(ty)) {
        Some(bits) => format!("{stem}<uint{bits}_t>"),
        None => name.to_string(),
    }
}

/// The width of a vector or half-precision type of CUDA, or of a complex number.
fn vector_bits(name: &str) -> Option<i64> {
    if let Some(part) = name.strip_prefix("complex<") {
        return type_bits(part.strip_suffix('>')?).and_then(|bits| bits.checked_mul(2));
    }
    let name = name.trim_start_matches("__").trim_start_matches("nv_");
    let count = name.chars().next_back()?.to_digit(10);
    let (element, count) = match count {
        // `bfloat16` ends in a digit and is one number.
        Some(count @ 2..=4) if name != "bfloat16" => (&name[..name.len() - 1], i64::from(count)),
        _ => (name, 1),
    };
    let bits = match element.strip_prefix('u').unwrap_or(element) {
        "char" => 8,
        "short" | "half" | "bfloat16" => 16,
        "int" | "float" => 32,
        "long" | "longlong" | "double" => 64,
        _ => return None,
    };
    Some(bits * count)
}

/// The error for a name that is not in the table.
fn unknown(text: &str, name: &str) -> Error {
    let ranked = |m: &CopyMember| m.n != 0 && m.stem().replace(&format!("_{}D", m.n), "") == name;
    let members_of: Vec<String> = members().filter(ranked).map(|m| m.name()).collect();
    if !members_of.is_empty() {
        return CopyError::RankOpen {
            name: shown(text),
            members: members_of,
        }
        .into();
    }
    CopyError::Unknown {
        name: shown(text),
        nearest: nearest(
            &with_widths(name),
            members().map(|m| (m.name(), m.fill(m.row.ptx))),
        ),
    }
    .into()
}
