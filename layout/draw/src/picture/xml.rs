//! Numbers and texts as XML has them.

/// A length in tenths of a pixel, as a number of pixels.
pub(crate) struct Px(pub(crate) i64);

impl core::fmt::Display for Px {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{}", self.0 / 10),
            tenth => write!(f, "{}.{}", self.0 / 10, tenth.abs()),
        }
    }
}

/// A text in XML.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl core::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        use core::fmt::Write;
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            // XML 1.0 has no other control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t') => f.write_str("\u{fffd}"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn lengths_print_without_floating_point() {
        assert_eq!(
            [130, 105, 0].map(|n| Px(n).to_string()),
            ["13", "10.5", "0"]
        );
    }

    #[test]
    fn text_cannot_leave_its_element() {
        let text = "</text><script>&\"\u{0}";
        assert_eq!(
            Escaped(text).to_string(),
            "&lt;/text&gt;&lt;script&gt;&amp;&quot;\u{fffd}"
        );
    }
}
