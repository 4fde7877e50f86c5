//! Feature `serde`: every value that has a text is serialised as that text, in all formats.
//!
//! Text is the one form that people read and that keeps `4` apart from `(4)` and `_4` from `4`.
//! A number is read as the dynamic integer, so that `4` need not be quoted in JSON.

use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{ComposedLayout, Error, Int, IntTuple, Layout, Stride, Swizzle, Tiler, Tuple};

/// A value with a text.
trait Text: FromStr<Err = Error> + fmt::Display {
    /// What the text is, after "expected".
    const EXPECTED: &'static str;

    /// The value that a plain number stands for.
    fn from_number(_: i64) -> Option<Self> {
        None
    }
}

/// Reads a value from its text, or from a number.
struct FromText<T>(PhantomData<T>);

impl<T: Text> FromText<T> {
    fn number<E: de::Error>(self, n: i64) -> Result<T, E> {
        T::from_number(n).ok_or_else(|| E::invalid_type(de::Unexpected::Signed(n), &self))
    }
}

impl<T: Text> Visitor<'_> for FromText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<T, E> {
        self.number(n)
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<T, E> {
        match i64::try_from(n) {
            Ok(n) => self.number(n),
            Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(n), &self)),
        }
    }
}

/// Both directions for one type.
macro_rules! as_text {
    ($($type:ty, $expected:literal $(, $number:expr)?;)*) => {$(
        impl Text for $type {
            const EXPECTED: &'static str = $expected;

            $(fn from_number(n: i64) -> Option<Self> {
                Some($number(n))
            })?
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let visitor = FromText(PhantomData);
                if deserializer.is_human_readable() {
                    deserializer.deserialize_any(visitor)
                } else {
                    deserializer.deserialize_str(visitor)
                }
            }
        }
    )*};
}

as_text! {
    Int, "an integer such as \"_4\"", Int::Dynamic;
    IntTuple, "a tuple of integers such as \"(2,(3,4))\"", IntTuple::from;
    Stride, "a stride such as \"4\", \"1@0\" or \"^72\"", Stride::from;
    Tuple<Stride>, "a tuple of strides such as \"(1,(2,8))\"", stride_leaf;
    Layout, "a layout such as \"(4,2):(1,4)\"";
    Tiler, "a tiler such as \"(3:3,(2,4):(1,8),_)\"", Tiler::from;
    Swizzle, "a swizzle such as \"Sw<3,4,3>\"";
    ComposedLayout, "a composed layout such as \"Sw<3,4,3> o 0 o (8,64):(64,1)\"";
}

fn stride_leaf(n: i64) -> Tuple<Stride> {
    Tuple::leaf(n.into())
}
