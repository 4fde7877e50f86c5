//! Text of the caller in a sentence.

use core::fmt;

/// A name or a text of the caller, as error sentences print it: control characters are escaped, so that a line feed does
/// not break the sentence and an escape sequence does not reach the terminal.
///
/// ```
/// use colex_ir::Escaped;
///
/// assert_eq!(Escaped("tile_a").to_string(), "tile_a");
/// assert_eq!(Escaped("a\n\u{1b}[31mb").to_string(), "a\\n\\u{1b}[31mb");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        self.0.chars().try_for_each(|c| {
            if c.is_control() {
                write!(f, "{}", c.escape_default())
            } else {
                f.write_char(c)
            }
        })
    }
}
