//! Feature `serde`: values travel as their text, and a bad text is refused with its position.

use colex_layout::{ComposedLayout, Int, IntTuple, Layout, Stride, Swizzle, Tiler, Tuple};
use serde_json::{from_str, to_string};

/// The JSON of each text, read and written again.
#[track_caller]
fn travels<T>(texts: &[&str])
where
    T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Display,
{
    for text in texts {
        let json = to_string(text).expect("a text is JSON");
        let value: T = from_str(&json).expect("the text of a value");
        assert_eq!(value.to_string(), *text);
        assert_eq!(to_string(&value).expect("a value has a text"), json);
    }
}

#[test]
fn values_travel_as_their_text() {
    travels::<Int>(&["4", "_4", "-1", "_-1"]);
    travels::<IntTuple>(&["4", "(4)", "(_2,(3,4))", "()", "(-1,_0)"]);
    travels::<Stride>(&["4", "_-4", "1@0", "_5@0@1", "^72", "^_72"]);
    travels::<Tuple<Stride>>(&["4", "(1@0,(1@1,2@1))"]);
    travels::<Layout>(&[
        "4:1",
        "(4):(1)",
        "((_2,2),4):((_1,-4),0)",
        "(4,8):(1@0,1@1)",
        "(8,8):(^1,^72)",
    ]);
    travels::<Tiler>(&["_", "_4", "(3:3,(2,4):(1,8),_)", "((2,_),4)", "()"]);
    travels::<Swizzle>(&["Sw<3,4,3>", "Sw<2,0,-3>"]);
    travels::<ComposedLayout>(&["Sw<3,4,3> o 0 o (8,64):(64,1)"]);
}

#[test]
fn numbers_are_dynamic_integers() {
    assert_eq!(from_str::<Int>("4").unwrap().to_string(), "4");
    assert_eq!(from_str::<IntTuple>("-4").unwrap().to_string(), "-4");
    assert_eq!(from_str::<Stride>("8").unwrap().to_string(), "8");
    assert_eq!(from_str::<Tiler>("8").unwrap().to_string(), "8");
}

#[test]
fn bad_texts_say_where() {
    let sentence = |json: &str| from_str::<Layout>(json).unwrap_err().to_string();
    assert_eq!(
        sentence("\"(4,2:(1,4)\""),
        "expected ',' or ')' at byte 4 of \"(4,2:(1,4)\" at line 1 column 12"
    );
    assert_eq!(
        sentence("\"(4,0):(1,4)\""),
        "extent 0 in the shape (4,0): extents are at least 1 at line 1 column 13"
    );
    assert_eq!(
        sentence("4"),
        "invalid type: integer `4`, expected a layout such as \"(4,2):(1,4)\" at line 1 column 1"
    );
    assert_eq!(
        from_str::<Int>("9223372036854775808")
            .unwrap_err()
            .to_string(),
        "invalid value: integer `9223372036854775808`, expected an integer such as \"_4\" at line 1 column 19"
    );
}
