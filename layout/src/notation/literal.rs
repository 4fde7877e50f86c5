//! The macros `layout!`, `int_tuple!` and `tiler!`: literals in CuTe's notation, checked when they are compiled.
//!
//! `parse.rs` alone makes values of texts. It allocates, so that it cannot run at compile time; the check here makes no
//! value and can. It walks shape and stride together, so that a difference in nesting shows at the first token that
//! differs. What the check accepts, the parser reads, and what it refuses, the parser refuses: law `literal_as_parsed`.

use core::str::FromStr;

use crate::tuple::MAX_DEPTH;
use crate::{Error, MAX_BASIS_DEPTH};

/// Returns early with the error, as `?` does where it is not yet available.
macro_rules! tri {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}

/// A literal [`Layout`](crate::Layout) in CuTe's notation; a wrong one does not compile.
///
/// `layout!((4, (_2, 3)) : (2, (_1, 8)))` is what the text `"(4,(_2,3)):(2,(_1,8))"` parses to, without an error to
/// handle: shape and stride must nest alike, extents must be positive, numbers and the size must fit 64 bits, and
/// strides must be of one kind. Basis strides (`1@0`) and XOR strides (`^72`) are written as in texts.
///
/// # Example
///
/// ```
/// use colex_layout::{Layout, layout};
/// let tile = layout!((4, (_2, 3)) : (2, (_1, 8)));
/// assert_eq!(tile.to_string(), "(4,(_2,3)):(2,(_1,8))");
/// assert_eq!(layout!(8:-1).at(2)?, -2);
/// assert_eq!(layout!((4, 8) : (1@0, 1@1)).to_string(), "(4,8):(1@0,1@1)");
/// assert_eq!(layout!((_8, _8) : (^1, ^72)).to_string(), "(_8,_8):(^1,^72)");
/// # Ok::<(), colex_layout::Error>(())
/// ```
///
/// Parentheses that do not match are refused by Rust itself. A missing stride, shape and stride of different nesting,
/// an extent of 0, strides of two kinds and a number beyond 64 bits do not compile either:
///
/// ```compile_fail
/// let layout = colex_layout::layout!((4, 2));
/// ```
///
/// ```compile_fail
/// let layout = colex_layout::layout!((4, (2, 3)) : (1, 4, 8));
/// ```
///
/// ```compile_fail
/// let layout = colex_layout::layout!((4, 0) : (1, 4));
/// ```
///
/// ```compile_fail
/// let layout = colex_layout::layout!((4, 2) : (1@0, 4));
/// ```
///
/// ```compile_fail
/// let layout = colex_layout::layout!(4 : 9223372036854775808);
/// ```
#[macro_export]
macro_rules! layout {
    ($($text:tt)+) => {{
        const _: () = $crate::literal::require_layout(stringify!($($text)+));
        $crate::literal::parsed::<$crate::Layout>(stringify!($($text)+))
    }};
}

/// A literal [`IntTuple`](crate::IntTuple): a shape, an integer stride or a coordinate; a wrong one does not compile.
///
/// # Example
///
/// ```
/// use colex_layout::int_tuple;
/// assert_eq!(int_tuple!((_3, (6, 2), 8)).to_string(), "(_3,(6,2),8)");
/// ```
///
/// ```compile_fail
/// let shape = colex_layout::int_tuple!((3, 6, ));
/// ```
#[macro_export]
macro_rules! int_tuple {
    ($($text:tt)+) => {{
        const _: () = $crate::literal::require_int_tuple(stringify!($($text)+));
        $crate::literal::parsed::<$crate::IntTuple>(stringify!($($text)+))
    }};
}

/// A literal [`Tiler`](crate::Tiler); a wrong one does not compile.
///
/// # Example
///
/// ```
/// use colex_layout::tiler;
/// assert_eq!(tiler!(<3:3, (2, 4) : (1, 8), _>).to_string(), "(3:3,(2,4):(1,8),_)");
/// assert_eq!(tiler!((_64, 32)).to_string(), "(_64,32)");
/// ```
///
/// ```compile_fail
/// let tiler = colex_layout::tiler!((3:3, (2, 4) : 1));
/// ```
///
/// ```compile_fail
/// let tiler = colex_layout::tiler!(<3:3, 4);
/// ```
#[macro_export]
macro_rules! tiler {
    ($($text:tt)+) => {{
        const _: () = $crate::literal::require_tiler(stringify!($($text)+));
        $crate::literal::parsed::<$crate::Tiler>(stringify!($($text)+))
    }};
}

/// Returns the value of a text that was checked when it was compiled.
#[must_use]
pub fn parsed<T: FromStr<Err = Error>>(text: &str) -> T {
    text.parse()
        .expect("what the check at compile time accepts, the parser reads")
}

/// Panics, when compiled, unless `text` is a layout.
pub const fn require_layout(text: &str) {
    if let Err(why) = check_layout(text) {
        panic!("{}", why);
    }
}

/// Panics, when compiled, unless `text` is a tuple of integers.
pub const fn require_int_tuple(text: &str) {
    if let Err(why) = check_int_tuple(text) {
        panic!("{}", why);
    }
}

/// Panics, when compiled, unless `text` is a tiler.
pub const fn require_tiler(text: &str) {
    if let Err(why) = check_tiler(text) {
        panic!("{}", why);
    }
}

/// Checks that `text` is a layout; an error says why not.
///
/// # Errors
///
/// The first thing that is wrong, as a sentence.
pub const fn check_layout(text: &str) -> Result<(), &'static str> {
    let mut scan = Scan::new(text);
    let mut shape = scan;
    tri!(scan.int_tuple());
    if !scan.eat(b':') {
        return Err("expected ':' and the stride after the shape");
    }
    tri!(scan.stride_of(&mut shape));
    scan.end()
}

/// Checks that `text` is a tuple of integers; an error says why not.
///
/// # Errors
///
/// The first thing that is wrong, as a sentence.
pub const fn check_int_tuple(text: &str) -> Result<(), &'static str> {
    let mut scan = Scan::new(text);
    tri!(scan.int_tuple());
    scan.end()
}

/// Checks that `text` is a tiler; an error says why not.
///
/// # Errors
///
/// The first thing that is wrong, as a sentence.
pub const fn check_tiler(text: &str) -> Result<(), &'static str> {
    let mut scan = Scan::new(text);
    tri!(scan.tiler(0));
    scan.end()
}

/// A position in a text, at compile time.
#[derive(Clone, Copy)]
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

/// What all strides of a layout must agree on; the integer 0 belongs to every kind.
#[derive(Clone, Copy)]
enum StrideKind {
    Zero,
    Int,
    Basis,
    Xor,
}

impl<'a> Scan<'a> {
    const fn new(text: &'a str) -> Self {
        let mut scan = Self {
            text: text.as_bytes(),
            at: 0,
        };
        scan.skip_space();
        scan
    }

    const fn peek(&self) -> Option<u8> {
        if self.at < self.text.len() {
            Some(self.text[self.at])
        } else {
            None
        }
    }

    const fn sees(&self, byte: u8) -> bool {
        self.at < self.text.len() && self.text[self.at] == byte
    }

    const fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c) = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `byte`, and the space after it, if it comes next.
    const fn eat(&mut self, byte: u8) -> bool {
        let found = self.sees(byte);
        if found {
            self.at += 1;
            self.skip_space();
        }
        found
    }

    const fn end(&self) -> Result<(), &'static str> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err("expected the end of the text"),
        }
    }

    /// A decimal number; negative numbers reach one further, so it is counted downwards.
    const fn number(&mut self) -> Result<i64, &'static str> {
        let negative = self.sees(b'-');
        if negative {
            self.at += 1;
        }
        let start = self.at;
        let mut value = 0_i64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let Some(tens) = value.checked_mul(10) else {
                return Err("a number does not fit 64 bits");
            };
            let Some(next) = tens.checked_sub((digit - b'0') as i64) else {
                return Err("a number does not fit 64 bits");
            };
            value = next;
            self.at += 1;
        }
        if self.at == start {
            return Err("expected a number");
        }
        self.skip_space();
        if negative {
            return Ok(value);
        }
        match value.checked_neg() {
            Some(value) => Ok(value),
            None => Err("a number does not fit 64 bits"),
        }
    }

    /// `4` or `_4`.
    const fn int(&mut self) -> Result<i64, &'static str> {
        if self.sees(b'_') {
            self.at += 1;
        }
        self.number()
    }

    /// `4`, `_4`, `1@0@1` or `^72`.
    const fn stride(&mut self) -> Result<StrideKind, &'static str> {
        if self.eat(b'^') {
            return match self.int() {
                Ok(_) => Ok(StrideKind::Xor),
                Err(why) => Err(why),
            };
        }
        let value = tri!(self.int());
        let mut depth = 0;
        while self.eat(b'@') {
            let mode = tri!(self.number());
            depth += 1;
            if mode < 0 || mode > 255 || depth > MAX_BASIS_DEPTH {
                return Err("a basis stride names at most 6 modes, each from 0 to 255");
            }
        }
        Ok(if depth > 0 {
            StrideKind::Basis
        } else if value == 0 {
            StrideKind::Zero
        } else {
            StrideKind::Int
        })
    }

    /// An integer, or nested parentheses of integers.
    const fn int_tuple(&mut self) -> Result<(), &'static str> {
        let mut depth = 0;
        loop {
            if self.eat(b'(') {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err("parentheses nest at most 64 deep");
                }
                if !self.sees(b')') {
                    continue;
                }
            } else {
                tri!(self.int());
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                if self.eat(b',') {
                    break;
                }
                if !self.eat(b')') {
                    return Err("expected ',' or ')'");
                }
                depth -= 1;
            }
        }
    }

    /// A stride that nests as `shape` does, which has been read before and is walked again beside it.
    const fn stride_of(&mut self, shape: &mut Self) -> Result<(), &'static str> {
        let (mut depth, mut size, mut kind) = (0, 1_i64, StrideKind::Zero);
        loop {
            let opens = shape.eat(b'(');
            if self.eat(b'(') != opens {
                return Err("shape and stride nest differently");
            }
            if opens {
                depth += 1;
                if shape.sees(b')') != self.sees(b')') {
                    return Err("shape and stride nest differently");
                }
                if !shape.sees(b')') {
                    continue;
                }
            } else {
                size = tri!(times(size, tri!(shape.int())));
                kind = tri!(agree(kind, tri!(self.stride())));
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                if shape.eat(b',') {
                    if !self.eat(b',') {
                        return Err("shape and stride nest differently, or the stride lacks a ','");
                    }
                    break;
                }
                if !(shape.eat(b')') && self.eat(b')')) {
                    return Err("shape and stride nest differently, or the stride lacks a ')'");
                }
                depth -= 1;
            }
        }
    }

    /// `_`, an integer, a layout, or parentheses (also `<..>`) of tilers.
    const fn tiler(&mut self, depth: usize) -> Result<(), &'static str> {
        let mut shape = *self;
        let mut ahead = *self;
        if ahead.int_tuple().is_ok() && ahead.eat(b':') {
            *self = ahead;
            return self.stride_of(&mut shape);
        }
        let close = if self.sees(b'<') { b'>' } else { b')' };
        if self.eat(b'(') || self.eat(b'<') {
            if depth == MAX_DEPTH {
                return Err("parentheses nest at most 64 deep");
            }
            return self.tilers(close, depth);
        }
        let mut after = *self;
        if after.eat(b'_') && !matches!(self.text_after(), Some(b'0'..=b'9' | b'-')) {
            *self = after;
            return Ok(());
        }
        match self.int() {
            Ok(_) => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// The byte after the next one.
    const fn text_after(&self) -> Option<u8> {
        let next = Self {
            text: self.text,
            at: self.at + 1,
        };
        next.peek()
    }

    /// The modes of a tiler up to its closing parenthesis.
    const fn tilers(&mut self, close: u8, depth: usize) -> Result<(), &'static str> {
        let mut first = true;
        while !self.eat(close) {
            if !first && !self.eat(b',') {
                return Err("expected ',' or the closing parenthesis");
            }
            tri!(self.tiler(depth + 1));
            first = false;
        }
        Ok(())
    }
}

/// The size with one more extent.
const fn times(size: i64, extent: i64) -> Result<i64, &'static str> {
    if extent < 1 {
        return Err("extents are at least 1");
    }
    match size.checked_mul(extent) {
        Some(size) => Ok(size),
        None => Err("the size does not fit 64 bits"),
    }
}

/// The kind of all strides with one more.
const fn agree(kind: StrideKind, next: StrideKind) -> Result<StrideKind, &'static str> {
    match (kind, next) {
        (StrideKind::Zero, other) | (other, StrideKind::Zero) => Ok(other),
        (StrideKind::Int, StrideKind::Int)
        | (StrideKind::Basis, StrideKind::Basis)
        | (StrideKind::Xor, StrideKind::Xor) => Ok(kind),
        _ => Err("strides must be of one kind: integers, basis vectors or XOR bits"),
    }
}
