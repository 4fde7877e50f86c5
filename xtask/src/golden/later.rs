//! Operations of rooms that are not furnished yet: counted, and never taken for passed.

use super::case::Case;

/// The room that will run `case`, if there is one.
pub(super) fn room(case: &Case) -> Option<&'static str> {
    match case
        .args
        .iter()
        .any(|arg| arg.as_str().is_some_and(|text| text.contains("Sw<")))
    {
        true => Some("layout: swizzles"),
        false => room_of(&case.op),
    }
}

/// The room of an operation, whatever its arguments. A threadblock swizzle is no swizzle of addresses.
fn room_of(op: &str) -> Option<&'static str> {
    if op.starts_with("threadblock_") {
        return None;
    }
    const SWIZZLES: &[&str] = &["swizzle", "composition_layout_swizzle"];
    const COORDINATES: &[&str] = &[
        "_basis",
        "_identity",
        "identity_table",
        "make_basis_like",
        "make_identity_layout",
    ];
    const TILED: &[&str] = &[
        "tiled_copy",
        "tiled_mma",
        "mma_fragment",
        "make_cotiled_copy",
    ];
    const ATOMS: &[&str] = &["copy_atom", "tsv_copy"];
    const DRAWING: &[&str] = &["print"];
    const PENDING: &[&str] = &["crd2crd"];
    let rooms = [
        (SWIZZLES, "layout: swizzles"),
        (COORDINATES, "layout: coordinate strides"),
        (DRAWING, "layout: drawing"),
        (TILED, "tiled"),
        (ATOMS, "atom"),
        (PENDING, "layout: coordinates out of range"),
    ];
    let is_in = |words: &[&str]| words.iter().any(|word| op.contains(word));
    rooms
        .into_iter()
        .find(|(words, _)| is_in(words))
        .map(|(_, room)| room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_room_is_known_by_its_words() {
        assert_eq!(room_of("tiled_divide_swizzled"), Some("layout: swizzles"));
        assert_eq!(
            room_of("tiled_divide_identity"),
            Some("layout: coordinate strides")
        );
        assert_eq!(room_of("make_tiled_copy_A"), Some("tiled"));
        assert_eq!(room_of("threadblock_swizzle"), None);
        assert_eq!(room_of("tiled_divide"), None);
        assert_eq!(room_of("composition"), None);
    }
}
