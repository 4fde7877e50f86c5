//! Operations of rooms that are not furnished yet: counted, and never taken for passed.

/// The room that will run `op`, if there is one.
pub(super) fn room(op: &str) -> Option<&'static str> {
    const SWIZZLES: &[&str] = &["get_swizzle_portion", "get_nonswizzle_portion"];
    const COORDINATES: &[&str] = &[
        "_basis",
        "_identity",
        "identity_table",
        "make_basis_like",
        "make_identity_layout",
    ];
    const PENDING: &[&str] = &["crd2crd"];
    let rooms = [
        (SWIZZLES, "layout: swizzles"),
        (COORDINATES, "layout: coordinate strides"),
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
        assert_eq!(room("get_swizzle_portion"), Some("layout: swizzles"));
        assert_eq!(
            room("tiled_divide_identity"),
            Some("layout: coordinate strides")
        );
        assert_eq!(room("make_tiled_copy_A"), None);
        assert_eq!(room("threadblock_swizzle"), None);
        assert_eq!(room("tiled_divide"), None);
        assert_eq!(room("composition"), None);
    }
}
