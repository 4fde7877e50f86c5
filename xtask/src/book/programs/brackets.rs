//! The brackets of a program: a reader of its pieces sees the end of what a piece opens, and the beginning of what one closes.

use proc_macro2::{Group, TokenStream, TokenTree};

/// The lines of each opening bracket and of its partner, counted from 1, or why `text` is no Rust.
fn pairs(text: &str) -> Result<Vec<[usize; 2]>, String> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error: proc_macro2::LexError| error.to_string())?;
    let mut pairs = Vec::new();
    add(tokens, &mut pairs);
    Ok(pairs)
}

fn add(tokens: TokenStream, pairs: &mut Vec<[usize; 2]>) {
    for token in tokens {
        if let TokenTree::Group(group) = token {
            pairs.push(lines(&group));
            add(group.stream(), pairs);
        }
    }
}

fn lines(group: &Group) -> [usize; 2] {
    [group.span_open(), group.span_close()].map(|span| span.start().line)
}

/// What is wrong with the pieces of `text`, with its line; `is_shown` says of each line whether it is in a piece.
pub(super) fn torn(text: &str, is_shown: &[bool]) -> Vec<(usize, String)> {
    let pairs = match pairs(text) {
        Ok(pairs) => pairs,
        Err(what) => return vec![(1, format!("is no Rust: {what}"))],
    };
    let is_shown = |line: usize| is_shown.get(line - 1).copied().unwrap_or(false);
    let complaint = |[open, close]: [usize; 2]| match (is_shown(open), is_shown(close)) {
        (true, false) => Some((
            open,
            format!("a piece opens a bracket that closes in line {close}, which no piece shows"),
        )),
        (false, true) => Some((
            close,
            format!("a piece closes a bracket that opens in line {open}, which no piece shows"),
        )),
        _ => None,
    };
    let mut complaints: Vec<_> = pairs.into_iter().filter_map(complaint).collect();
    complaints.dedup();
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn f() {\n    g(\n        '{', \"(\"\n    );\n}\n";

    fn complaints(shown: [bool; 5]) -> Vec<(usize, String)> {
        torn(TEXT, &shown)
    }

    #[test]
    fn a_bracket_and_its_partner_are_both_in_pieces() {
        for shown in [
            [true; 5],
            [false; 5],
            [false, true, true, true, false],
            [true, false, false, false, true],
            [false, false, true, false, false],
        ] {
            assert_eq!(complaints(shown), [], "{shown:?}");
        }
        assert_eq!(
            complaints([true, true, true, true, false]),
            [(
                1,
                "a piece opens a bracket that closes in line 5, which no piece shows".to_string()
            )]
        );
        assert_eq!(
            complaints([false, false, true, true, false]),
            [(
                4,
                "a piece closes a bracket that opens in line 2, which no piece shows".to_string()
            )]
        );
        assert_eq!(torn("fn f() {", &[false])[0].0, 1);
    }
}
