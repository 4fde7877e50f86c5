//! Machine code that a caller brings: its entries with their parameters, read from the file before the driver sees it.
//!
//! The driver believes what the file says of its own length, so that every table and section must lie within it. A cubin
//! is an ELF file for machine 190; each entry `NAME` has a section `.text.NAME`, and one `.nv.info.NAME` with the sizes of
//! its parameters (the attribute `EIATTR_KPARAM_INFO` of `cuobjdump -elf`).

use std::collections::BTreeMap;

/// The parameters of each entry: their sizes in bytes, in order.
pub(crate) type Entries = BTreeMap<String, Vec<u32>>;

/// The machine of NVIDIA's GPUs (`EM_CUDA`).
const MACHINE: u64 = 190;

/// A section without bytes in the file (`SHT_NOBITS`), and NVIDIA's own kind of it for shared memory.
const WITHOUT_BYTES: [u64; 2] = [8, 0x7000_0015];

/// The attribute of one parameter: its number and its size.
const PARAMETER: u8 = 0x17;

/// Reads the entries of a cubin.
///
/// # Errors
///
/// Returns what is wrong with the file.
pub(crate) fn entries(image: &[u8]) -> Result<Entries, String> {
    let sections = sections(image)?;
    let mut entries = Entries::new();
    for (name, _) in &sections {
        if let Some(entry) = name.strip_prefix(".text.") {
            entries.entry(entry.to_string()).or_default();
        }
    }
    for (name, bytes) in sections {
        let parameters = name
            .strip_prefix(".nv.info.")
            .and_then(|entry| entries.get_mut(entry));
        if let Some(parameters) = parameters {
            *parameters =
                sizes(bytes).ok_or_else(|| format!("the section {name} ends too early"))?;
        }
    }
    Ok(entries)
}

/// The sections by name, with their bytes.
fn sections(image: &[u8]) -> Result<Vec<(String, &[u8])>, String> {
    match image {
        [0x50, 0xed, 0x55, 0xba, ..] => {
            return Err(
                "it is a fat binary: give one of its cubins (`cuobjdump -xelf all`)".into(),
            );
        }
        [0x7f, b'E', b'L', b'F', 2, 1, ..] => {}
        _ => return Err("it does not begin as an ELF file of 64 bits".into()),
    }
    let short = || format!("it has {} bytes, fewer than it says", image.len());
    let at = |offset: u64, bytes| number(image, offset, bytes).ok_or_else(short);
    let machine = at(18, 2)?;
    if machine != MACHINE {
        return Err(format!(
            "it is for machine {machine}, and GPUs are {MACHINE}"
        ));
    }
    // The tables of segments and of sections: where they begin, the size of an entry, and their number.
    let (segments, segment, segment_count) = (at(32, 8)?, at(54, 2)?, at(56, 2)?);
    let (table, size, count) = (at(40, 8)?, at(58, 2)?, at(60, 2)?);
    for i in 0..segment_count {
        let base = segments.checked_add(i * segment).ok_or_else(short)?;
        part(
            image,
            at(base.saturating_add(8), 8)?,
            at(base.saturating_add(32), 8)?,
        )
        .ok_or_else(short)?;
    }
    let mut found = Vec::new();
    for i in 0..count {
        let base = table.checked_add(i * size).ok_or_else(short)?;
        let field = |offset: u64, bytes| at(base.saturating_add(offset), bytes);
        let has_bytes = !WITHOUT_BYTES.contains(&field(4, 4)?);
        let length = if has_bytes { field(32, 8)? } else { 0 };
        found.push((
            field(0, 4)?,
            part(image, field(24, 8)?, length).ok_or_else(short)?,
        ));
    }
    let names = found.get(at(62, 2)? as usize).map(|(_, bytes)| *bytes);
    let names = names.ok_or("it has no names of sections")?;
    let named = |(offset, bytes): (u64, _)| {
        let name = names.get(usize::try_from(offset).ok()?..)?;
        let end = name.iter().position(|&byte| byte == 0)?;
        Some((String::from_utf8_lossy(&name[..end]).into_owned(), bytes))
    };
    let named: Option<Vec<_>> = found.into_iter().map(named).collect();
    named.ok_or_else(|| "a section has no name".into())
}

/// The sizes of the parameters in a section `.nv.info.NAME`; `None` if it ends within an attribute.
fn sizes(mut bytes: &[u8]) -> Option<Vec<u32>> {
    let mut sizes = BTreeMap::new();
    while !bytes.is_empty() {
        let (format, attribute) = (bytes[0], *bytes.get(1)?);
        let length = if format == 4 {
            number(bytes, 2, 2)? as usize
        } else {
            0
        };
        let value = bytes.get(4..4 + length)?;
        if format == 4 && attribute == PARAMETER {
            sizes.insert(number(value, 4, 2)?, (number(value, 8, 4)? >> 18) as u32);
        }
        bytes = &bytes[4 + length..];
    }
    Some(sizes.into_values().collect())
}

/// A number of that many bytes, the lowest first.
fn number(image: &[u8], offset: u64, bytes: u64) -> Option<u64> {
    let bytes = part(image, offset, bytes)?.iter().rev();
    Some(bytes.fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn part(image: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    image.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `add.ptx` beside it, by ptxas 12.9 for sm_90.
    const ADD: &[u8] = include_bytes!("../tests/add.cubin");

    #[test]
    fn entries_have_their_parameters() {
        let expected = Entries::from([("add".to_string(), vec![8, 8, 8, 4])]);
        assert_eq!(entries(ADD), Ok(expected));
    }

    #[test]
    fn refusals_verbatim() {
        let said = |image: &[u8]| entries(image).unwrap_err();
        assert_eq!(said(b""), "it does not begin as an ELF file of 64 bits");
        assert_eq!(
            said(&[0x50, 0xed, 0x55, 0xba, 1, 0]),
            "it is a fat binary: give one of its cubins (`cuobjdump -xelf all`)"
        );
        let mut host = ADD.to_vec();
        host[18] = 62;
        assert_eq!(said(&host), "it is for machine 62, and GPUs are 190");
        assert_eq!(said(&ADD[..3000]), "it has 3000 bytes, fewer than it says");
    }

    /// No prefix of an image passes, and no changed byte is worse than an answer or a refusal.
    #[test]
    fn law_damaged_images() {
        let last = ADD.len();
        for end in 0..last {
            assert!(entries(&ADD[..end]).is_err(), "{end} bytes of {last}");
        }
        for at in 0..last {
            for byte in [0, 0xff, ADD[at] ^ 1, ADD[at] ^ 0x80] {
                let mut image = ADD.to_vec();
                image[at] = byte;
                drop(entries(&image));
            }
        }
        println!("law damaged_images: {} cases", 5 * last);
    }
}
