//! Several pieces of bytes as one message.

/// Returns the pieces as one message, each behind its length.
pub(super) fn joined(fields: &[&[u8]]) -> Vec<u8> {
    let one = |field: &&[u8]| [&(field.len() as u64).to_le_bytes()[..], field].concat();
    fields.iter().flat_map(one).collect()
}

/// Returns the pieces of a message.
pub(super) fn split_all(mut message: &[u8]) -> Option<Vec<&[u8]>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let (length, rest) = message.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (field, rest) = rest.split_at_checked(length)?;
        fields.push(field);
        message = rest;
    }
    Some(fields)
}

/// Returns the `N` pieces of a message, if it has as many and no more.
pub(super) fn split<const N: usize>(message: &[u8]) -> Option<[&[u8]; N]> {
    split_all(message)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_a_message_has_its_pieces_and_no_part_of_it_is_one() {
        let mut cases = 0;
        for lengths in [[0, 0, 0], [1, 0, 9], [8, 3, 0], [0, 20, 7]] {
            let fields = lengths.map(|length| vec![length as u8; length]);
            let message = joined(&[&fields[0], &fields[1], &fields[2]]);
            let found = split::<3>(&message).expect("three pieces");
            assert_eq!(found.map(<[u8]>::to_vec), fields);
            assert_eq!(split::<2>(&message), None);
            assert_eq!(split::<4>(&message), None);
            for length in 0..message.len() {
                assert_eq!(split::<3>(&message[..length]), None);
                cases += 1;
            }
        }
        println!("law a_message_has_its_pieces_and_no_part_of_it_is_one: {cases} cases");
    }
}
