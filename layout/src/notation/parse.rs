//! Reading CuTe's notation: from a text to its value, or to the byte where it ends.

use core::str::FromStr;

use smallvec::SmallVec;

use crate::error::ErrorKind;
use crate::tuple::{MAX_DEPTH, Tuple, TupleBuilder};
use crate::{
    Basis, ComposedLayout, Coord, Error, Int, IntTuple, Layout, Middle, Outer, Slot, Stride,
    Swizzle, Tiler,
};

/// What stands in the place of a name.
const NO_NAMES: &str =
    "a number, as names have no value in a text (Rust tuples such as (m, n) take variables),";

/// A position in a text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        let mut cursor = Self { text, at: 0 };
        cursor.skip_space();
        cursor
    }

    #[inline]
    fn skip_space(&mut self) {
        // Every other byte is a character that is no space.
        if let Some(..=b' ' | 0x80..) = self.peek() {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start().len();
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes `token` (and the space after it) if it comes next.
    #[inline]
    fn eat(&mut self, token: &'static str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        if found {
            self.at += token.len();
            self.skip_space();
        }
        found
    }

    #[inline]
    fn expect(&mut self, token: &'static str, expected: &'static str) -> Result<(), Error> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(expected))
        }
    }

    fn error(&self, expected: &'static str) -> Error {
        ErrorKind::Parse {
            text: self.text.into(),
            at: self.at,
            expected,
        }
        .into()
    }

    fn end(&self) -> Result<(), Error> {
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(self.error("the end of the text"))
        }
    }

    fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// A decimal number with an optional minus sign.
    fn number(&mut self) -> Result<i64, Error> {
        let negative = self.peek() == Some(b'-');
        let first = self.at + usize::from(negative);
        let (mut at, mut value) = (first, Some(0_i64));
        while let Some(digit @ b'0'..=b'9') = self.text.as_bytes().get(at) {
            let digit = i64::from(digit - b'0');
            let signed = if negative { -digit } else { digit };
            value = value
                .and_then(|n| n.checked_mul(10))
                .and_then(|n| n.checked_add(signed));
            at += 1;
        }
        if at == first {
            return Err(self.error(match self.peek() {
                Some(b'a'..=b'z' | b'A'..=b'Z') => NO_NAMES,
                _ => "a number",
            }));
        }
        let value = value.ok_or_else(|| self.error("a number that fits 64 bits"))?;
        self.at = at;
        self.skip_space();
        Ok(value)
    }

    fn int(&mut self) -> Result<Int, Error> {
        let is_static = self.peek() == Some(b'_');
        self.at += usize::from(is_static);
        let value = self.number()?;
        Ok(if is_static {
            Int::Static(value)
        } else {
            Int::Dynamic(value)
        })
    }

    fn stride(&mut self) -> Result<Stride, Error> {
        if self.eat("^") {
            return Ok(Stride::Xor(self.int()?));
        }
        let start = self.at;
        let value = self.int()?;
        let mut path: SmallVec<[usize; 8]> = SmallVec::new();
        while self.eat("@") {
            path.push(usize::try_from(self.number()?).map_err(|_| self.error("a mode index"))?);
        }
        if path.is_empty() {
            return Ok(Stride::Int(value));
        }
        path.reverse();
        Basis::new(value, &path).map(Stride::Basis).map_err(|_| {
            self.rewind(start);
            self.error("a basis stride of at most 6 modes below 256")
        })
    }

    /// A single value or nested parentheses of values.
    fn tuple<T: Copy>(
        &mut self,
        mut leaf: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Tuple<T>, Error> {
        let mut b = TupleBuilder::new();
        let mut open: SmallVec<[(usize, usize); 16]> = SmallVec::new();
        loop {
            if open.len() == MAX_DEPTH && self.peek() == Some(b'(') {
                return Err(self.error("at most 64 nested parentheses"));
            }
            if self.eat("(") {
                open.push((b.open(), 0));
                if self.peek() != Some(b')') {
                    continue;
                }
            } else if let Some(expected) = self.no_leaf() {
                return Err(self.error(expected));
            } else {
                b.leaf(leaf(self)?);
                count(&mut open);
            }
            loop {
                let Some(&(at, rank)) = open.last() else {
                    return Ok(b.finish());
                };
                if self.eat(",") {
                    break;
                }
                self.expect(")", "',' or ')'")?;
                open.pop();
                b.close(at, rank);
                count(&mut open);
            }
        }
    }

    /// What should stand here instead, if no leaf of a tuple begins here.
    fn no_leaf(&self) -> Option<&'static str> {
        match self.peek() {
            Some(b'0'..=b'9' | b'-' | b'_' | b'^') => None,
            Some(b'[') => Some("a number or '(', as brackets do not group modes,"),
            Some(b'a'..=b'z' | b'A'..=b'Z') => Some(NO_NAMES),
            _ => Some("a number or '('"),
        }
    }

    fn int_tuple(&mut self) -> Result<IntTuple, Error> {
        self.tuple(Self::int)
    }

    fn layout(&mut self) -> Result<Layout, Error> {
        if self.text[self.at..].starts_with("Sw<") {
            return Err(
                self.error("a layout without a swizzle, as one with it is a ComposedLayout,")
            );
        }
        let shape = self.int_tuple()?;
        if self.peek() == Some(b',') {
            return Err(self.error("':' and the stride, as several modes need parentheses,"));
        }
        self.expect(":", "':' and the stride")?;
        self.layout_of(shape)
    }

    /// The rest of a layout after `shape:`.
    fn layout_of(&mut self, shape: IntTuple) -> Result<Layout, Error> {
        if self.peek().is_none() {
            return Err(self.error("a stride that nests as the shape does, as in (4,8):(8,1),"));
        }
        let stride = self.tuple(Self::stride)?;
        Layout::of_tuples(shape, stride)
    }

    fn swizzle(&mut self) -> Result<Swizzle, Error> {
        let start = self.at;
        self.expect("Sw<", "a swizzle, as in Sw<3,4,3>")?;
        let bits = self.number()?;
        self.expect(",", "','")?;
        let base = self.number()?;
        self.expect(",", "','")?;
        let shift = self.number()?;
        self.expect(">", "'>'")?;
        Swizzle::new(bits, base, shift).map_err(|_| {
            self.rewind(start);
            self.error("a swizzle with B >= 0, M >= 0 and |S| >= B")
        })
    }

    /// `A o offset o B`, where A is a swizzle or a layout; a plain layout is one too.
    fn composed(&mut self) -> Result<ComposedLayout, Error> {
        let outer = if self.text[self.at..].starts_with("Sw<") {
            Outer::Swizzle(self.swizzle()?)
        } else {
            Outer::Layout(self.layout()?)
        };
        if !self.eat("o") {
            return match outer {
                Outer::Layout(l) => Ok(l.into()),
                Outer::Swizzle(_) => Err(self.error("'o' and the offset")),
            };
        }
        let middle = self.middle()?;
        self.expect("o", "'o' and the inner layout")?;
        let inner = self.layout()?;
        Ok(ComposedLayout::with_middle(outer, middle, inner))
    }

    fn middle(&mut self) -> Result<Middle, Error> {
        if !self.eat("smem_ptr[") {
            if self.peek() == Some(b'(') {
                return Err(self.error("the offset, as in Sw<3,4,3> o 0 o 8:1,"));
            }
            self.eat("_");
            return self.number().map(Middle::Offset);
        }
        let bits = self.number()?;
        self.expect("b](unset)", "'b](unset)'")?;
        Ok(Middle::Pointer { bits })
    }

    /// `_`, an integer, a layout, or parentheses (also `<..>`) of tilers.
    fn tiler(&mut self) -> Result<Tiler, Error> {
        Ok(self.tiler_at(0)?.0)
    }

    /// A tiler inside of `depth` parentheses, and whether its text is that of a shape.
    fn tiler_at(&mut self, depth: usize) -> Result<(Tiler, bool), Error> {
        if let Some(open @ (b'(' | b'<')) = self.peek() {
            if depth == MAX_DEPTH {
                return Err(self.error("at most 64 nested parentheses"));
            }
            return self.tiler_group(open == b'(', depth);
        }
        if self.peek() == Some(b'_')
            && !self.text[self.at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-')
        {
            self.eat("_");
            return Ok((Tiler::All, false));
        }
        let shape = self.int()?;
        if self.eat(":") {
            let layout = self.layout_of(IntTuple::leaf(shape))?;
            Ok((Tiler::Layout(layout), false))
        } else {
            Ok((Tiler::Int(shape), true))
        }
    }

    /// Parentheses: the modes of a tiler, or a shape where `:` follows. Read once, in either case.
    fn tiler_group(&mut self, round: bool, depth: usize) -> Result<(Tiler, bool), Error> {
        let (open, close) = if round { ("(", ")") } else { ("<", ">") };
        self.eat(open);
        let mut modes = alloc::vec::Vec::new();
        let mut is_shape = round;
        while !self.eat(close) {
            if !modes.is_empty() {
                self.expect(",", "',' or the closing parenthesis")?;
            }
            let (mode, reads_as_shape) = self.tiler_at(depth + 1)?;
            is_shape &= reads_as_shape;
            modes.push(mode);
        }
        if !(is_shape && self.eat(":")) {
            return Ok((Tiler::Modes(modes), is_shape));
        }
        let mut shape = TupleBuilder::new();
        push_shape(&modes, &mut shape);
        let layout = self.layout_of(shape.finish())?;
        Ok((Tiler::Layout(layout), false))
    }
}

/// The shape with the text of a tiler of these modes.
fn push_shape(modes: &[Tiler], out: &mut TupleBuilder<Int>) {
    let open = out.open();
    for mode in modes {
        match mode {
            Tiler::Int(n) => out.leaf(*n),
            Tiler::Modes(modes) => push_shape(modes, out),
            Tiler::All | Tiler::Layout(_) => unreachable!("neither reads as a shape"),
        }
    }
    out.close(open, modes.len());
}

/// One more mode in the innermost open tuple.
fn count(open: &mut SmallVec<[(usize, usize); 16]>) {
    if let Some((_, rank)) = open.last_mut() {
        *rank += 1;
    }
}

/// Reads the whole of `text` with `read`; `expected` says what is missing from an empty one.
fn whole<T>(
    text: &str,
    expected: &'static str,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut cursor = Cursor::new(text);
    if cursor.peek().is_none() {
        return Err(cursor.error(expected));
    }
    let value = read(&mut cursor)?;
    cursor.end()?;
    Ok(value)
}

impl FromStr for Int {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "an integer, as in 4 or _4,", |c| c.int())
    }
}

impl FromStr for IntTuple {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a tuple, as in (4,(2,3)),", |c| c.int_tuple())
    }
}

impl FromStr for Stride {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a stride, as in 8, 1@0 or ^3,", |c| c.stride())
    }
}

impl FromStr for Tuple<Stride> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "strides, as in (8,1),", |c| c.tuple(Cursor::stride))
    }
}

impl FromStr for Layout {
    type Err = Error;

    /// Reads `shape:stride`; the position in an error is a byte of `text`.
    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a layout, as in (4,8):(8,1),", |c| c.layout())
    }
}

impl FromStr for Swizzle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a swizzle, as in Sw<3,4,3>,", |c| c.swizzle())
    }
}

impl FromStr for ComposedLayout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(
            text,
            "a composed layout, as in Sw<3,4,3> o 0 o (8,64):(64,1),",
            |c| c.composed(),
        )
    }
}

impl FromStr for Tiler {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a tiler, as in (4,8) or <4:1,8:1>,", |c| c.tiler())
    }
}

impl FromStr for Coord {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        whole(text, "a coordinate, as in (_,3),", |c| {
            c.tuple(|c| {
                if c.eat("_") {
                    Ok(Slot::All)
                } else {
                    c.number().map(Slot::At)
                }
            })
        })
    }
}
