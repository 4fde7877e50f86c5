//! The values that the files hold, read and evaluated without the library under test, so that they are a second witness.

use std::fmt;

use serde_json::Value as Json;

/// An integer or a tuple of trees: `4`, `(2,(3,4))`. `(2)` and `2` differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Int(i64),
    Tuple(Vec<Tree>),
}

/// A layout as the function it is: `SHAPE:STRIDE`, integer strides only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) shape: Tree,
    pub(crate) stride: Tree,
}

/// A tiler: `_`, a layout (an integer `n` is `n:1`), or a tuple of tilers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tiler {
    All,
    Map(Map),
    Modes(Vec<Tiler>),
}

/// A result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Tree(Tree),
    Map(Map),
    /// `(LAYOUT,OFFSET)`.
    Pair(Map, i64),
    List(Vec<Value>),
    /// Anything else, compared as text.
    Text(String),
}

impl Tree {
    /// Reads `text`, in which `_4` is 4.
    pub(crate) fn parse(text: &str) -> Option<Tree> {
        match inside(text) {
            Some("") => Some(Tree::Tuple(Vec::new())),
            Some(inner) => split(inner)
                .into_iter()
                .map(Tree::parse)
                .collect::<Option<_>>()
                .map(Tree::Tuple),
            None => text
                .trim()
                .trim_start_matches('_')
                .parse()
                .ok()
                .map(Tree::Int),
        }
    }

    /// The modes: an integer is its own only mode.
    pub(crate) fn modes(&self) -> &[Tree] {
        match self {
            Tree::Int(_) => std::slice::from_ref(self),
            Tree::Tuple(modes) => modes,
        }
    }

    /// The integers, from left to right.
    pub(crate) fn leaves(&self) -> Vec<i64> {
        match self {
            Tree::Int(value) => vec![*value],
            Tree::Tuple(modes) => modes.iter().flat_map(Tree::leaves).collect(),
        }
    }

    /// The product of the integers, or the number of 64 bits that is nearest.
    pub(crate) fn size(&self) -> i64 {
        let leaves = self.leaves().into_iter();
        leaves.fold(1, i64::saturating_mul)
    }

    /// Whether every coordinate of `self` is one of `finer` too: `4` and `(2,2)`, but not `(2,2)` and `4`.
    pub(crate) fn is_compatible(&self, finer: &Tree) -> bool {
        match (self, finer) {
            (Tree::Int(size), finer) => *size == finer.size(),
            (Tree::Tuple(_), Tree::Int(_)) => false,
            (Tree::Tuple(a), Tree::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_compatible(b))
            }
        }
    }
}

impl Map {
    /// Reads `SHAPE:STRIDE`; an integer `n` is `n:1`.
    pub(crate) fn parse(text: &str) -> Option<Map> {
        match text.split_once(':') {
            Some((shape, stride)) => {
                let map = Map {
                    shape: Tree::parse(shape)?,
                    stride: Tree::parse(stride)?,
                };
                (map.shape.leaves().len() == map.stride.leaves().len()).then_some(map)
            }
            None => Some(Map {
                shape: Tree::Int(text.trim().parse().ok()?),
                stride: Tree::Int(1),
            }),
        }
    }

    pub(crate) fn size(&self) -> i64 {
        self.shape.size()
    }

    /// Extents and strides of the leaves, fastest first.
    pub(crate) fn leaves(&self) -> Vec<(i64, i64)> {
        self.shape
            .leaves()
            .into_iter()
            .zip(self.stride.leaves())
            .collect()
    }

    /// Mode `i` as a layout.
    pub(crate) fn mode(&self, i: usize) -> Option<Map> {
        Some(Map {
            shape: self.shape.modes().get(i)?.clone(),
            stride: self.stride.modes().get(i)?.clone(),
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape.modes().len()
    }

    /// The offset of coordinate `index`; beyond the size the last mode goes on, as CuTe has it.
    pub(crate) fn at(&self, index: i64) -> i64 {
        at(&self.leaves(), index)
    }

    /// The offsets of all coordinates in order.
    pub(crate) fn table(&self) -> Vec<i64> {
        let leaves = self.leaves();
        (0..self.size()).map(|index| at(&leaves, index)).collect()
    }

    /// One past the largest offset, strides taken without their signs.
    pub(crate) fn cosize(&self) -> i64 {
        1 + self
            .leaves()
            .iter()
            .map(|(extent, stride)| (extent - 1) * stride.abs())
            .sum::<i64>()
    }
}

/// The offset of `index` in a flat layout.
pub(crate) fn at(leaves: &[(i64, i64)], mut index: i64) -> i64 {
    let Some(((_, last), faster)) = leaves.split_last() else {
        return 0;
    };
    let mut offset = 0;
    for (extent, stride) in faster {
        offset += index % extent * stride;
        index /= extent;
    }
    offset + index * last
}

impl Tiler {
    pub(crate) fn parse(text: &str) -> Option<Tiler> {
        let text = text.trim();
        if text == "_" {
            return Some(Tiler::All);
        }
        match inside(text) {
            Some(inner) => split(inner)
                .into_iter()
                .map(Tiler::parse)
                .collect::<Option<_>>()
                .map(Tiler::Modes),
            None => Map::parse(text).map(Tiler::Map),
        }
    }
}

impl Value {
    /// The value of a result in a file.
    pub(crate) fn of_json(json: &Json) -> Value {
        match json {
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => Value::of_text(&number.to_string()),
            Json::String(text) => Value::of_text(text),
            Json::Array(list) => Value::List(list.iter().map(Value::of_json).collect()),
            other => Value::Text(other.to_string()),
        }
    }

    /// The value of a printed result.
    pub(crate) fn of_text(text: &str) -> Value {
        if let Some(tree) = Tree::parse(text) {
            return Value::Tree(tree);
        }
        if let Some((layout, offset)) = inside(text).and_then(|inner| split_last(inner))
            && let (Some(map), Ok(offset)) = (Map::parse(layout), offset.parse())
            && layout.contains(':')
        {
            return Value::Pair(map, offset);
        }
        Map::parse(text).map_or_else(|| Value::Text(text.replace('_', "")), Value::Map)
    }

    /// A list of integers.
    pub(crate) fn table(values: impl IntoIterator<Item = i64>) -> Value {
        Value::List(
            values
                .into_iter()
                .map(|value| Value::Tree(Tree::Int(value)))
                .collect(),
        )
    }
}

/// What stands between a pair of parentheses that encloses all of `text`.
pub(crate) fn inside(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return None;
        }
    }
    (depth == 0).then_some(inner)
}

/// `text` cut at the commas that stand in no parentheses.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            pieces.push(&text[start..at]);
            start = at + 1;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// `text` cut at its last such comma.
fn split_last(text: &str) -> Option<(&str, &str)> {
    let last = *split(text).last()?;
    let first = text.strip_suffix(last)?.strip_suffix(',')?;
    Some((first, last))
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Int(value) => write!(f, "{value}"),
            Tree::Tuple(modes) => {
                let modes: Vec<String> = modes.iter().map(Tree::to_string).collect();
                write!(f, "({})", modes.join(","))
            }
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape, self.stride)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Tree(tree) => write!(f, "{tree}"),
            Value::Map(map) => write!(f, "{map}"),
            Value::Pair(map, offset) => write!(f, "({map},{offset})"),
            Value::List(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                write!(f, "[{}]", values.join(","))
            }
            Value::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Map {
        Map::parse(text).expect("the text is a layout")
    }

    #[test]
    fn text_round_trips_without_underscores() {
        for text in [
            "4",
            "(2)",
            "(2,(3,4))",
            "4:1",
            "((2,2),(2,4)):((1,4),(2,-8))",
            "((4,2):(1,4),7)",
            "(2:1,0)",
        ] {
            assert_eq!(Value::of_text(text).to_string(), text);
        }
        assert_eq!(
            Value::of_text("(_2,4):(_1,2)"),
            Value::of_text("(2,4):(1,2)")
        );
        assert_ne!(Value::of_text("(2)"), Value::of_text("2"));
    }

    #[test]
    fn what_is_not_an_integer_layout_stays_text() {
        assert_eq!(Value::of_text("(4):(1@0)"), Value::Text("(4):(1@0)".into()));
        assert!(matches!(
            Value::of_text("Sw<1,5,2> o 0 o 4:1"),
            Value::Text(_)
        ));
    }

    #[test]
    fn a_layout_is_evaluated_beyond_its_size() {
        assert_eq!(map("(4,2):(2,1)").table(), [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(map("(4,2):(2,1)").at(9), 4);
        assert_eq!(map("(1,(2,4)):(0,(-1,512))").at(-3), -511);
    }

    #[test]
    fn tilers_tell_layouts_from_tuples() {
        let tiler = Tiler::parse("(3:4,(2,4):(1,8),_,5)").expect("the text is a tiler");
        let layout = |text| Tiler::Map(map(text));
        assert_eq!(
            tiler,
            Tiler::Modes(vec![
                layout("3:4"),
                layout("(2,4):(1,8)"),
                Tiler::All,
                layout("5:1")
            ])
        );
    }

    #[test]
    fn compatibility_refines() {
        let is = |a: &str, b: &str| {
            Tree::parse(a)
                .zip(Tree::parse(b))
                .is_some_and(|(a, b)| a.is_compatible(&b))
        };
        assert!(is("24", "(4,6)") && is("(4,6)", "((2,2),6)") && is("24", "(24)"));
        assert!(!is("(4,6)", "24") && !is("((2,2),6)", "(4,6)") && !is("(24)", "24"));
    }
}
