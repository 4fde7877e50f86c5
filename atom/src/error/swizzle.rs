//! Why no swizzle makes accesses free of bank conflicts.

use std::fmt;

use colex_layout::Swizzle;

/// What a swizzle does for one access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The name of the access.
    pub name: String,
    /// The degree of its bank conflicts without a swizzle.
    pub before: usize,
    /// The degree of its bank conflicts with the swizzle.
    pub after: usize,
    /// The bits of the byte offset in which the lanes of its worst phase differ, as a mask.
    pub varying: i64,
}

/// Why no swizzle of the form `Sw<B,M,S>` makes all accesses free of conflicts.
#[derive(Clone, PartialEq, Eq)]
pub struct NoSwizzle {
    /// The number of swizzles that were tried: all within the bits of the accesses that keep the bytes of every lane
    /// together.
    pub tried: usize,
    /// The swizzle that takes the fewest passes.
    pub best: Swizzle,
    /// The effect of the swizzle on each access.
    pub effects: Vec<Effect>,
    /// An access with a phase of more words than one pass can move: no permutation of offsets frees it of conflicts.
    pub too_wide: Option<String>,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} -> {} words in a bank (its lanes differ in bits {} of the byte offset)",
            self.name,
            self.before,
            self.after,
            Bits(self.varying)
        )
    }
}

impl fmt::Display for NoSwizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "none of the {} swizzles within the tile makes every access free of bank conflicts",
            self.tried
        )?;
        if let Some(name) = &self.too_wide {
            write!(f, "; {name} moves more words in a phase than one pass can")?;
        }
        write!(f, "; the best, {}, leaves ", self.best)?;
        let left = self.effects.iter().filter(|e| e.after > 1);
        for (i, e) in left.enumerate() {
            write!(
                f,
                "{}{} words of {} in a bank",
                if i == 0 { "" } else { ", " },
                e.after,
                e.name
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for NoSwizzle {}

colex_layout::debug_as_display!(NoSwizzle);

/// The bits of a mask as `7..9` or `2, 7..9`.
pub(crate) struct Bits(pub(crate) i64);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut first) = (self.0, true);
        while rest > 0 {
            let from = rest.trailing_zeros();
            let len = (rest >> from).trailing_ones();
            f.write_str(if first { "" } else { ", " })?;
            match len {
                1 => write!(f, "{from}")?,
                _ => write!(f, "{from}..{}", from + len - 1)?,
            }
            (rest, first) = (rest >> (from + len) << (from + len), false);
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}
