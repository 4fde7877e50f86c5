//! The rules that judge a case: the law first, then the text.

use super::case::Case;
use super::function::Function;
use super::value::{Map, Tree, Value};
use super::verdict::Verdict;

/// Whether a result satisfies an operation's law; if not, at which coordinate it breaks it.
pub(crate) type Law = fn(&Case, &Value) -> Result<(), String>;

/// The most coordinates of a layout that a law walks, or that are compared.
const MOST: i64 = 1 << 25;

/// Judges our answer, or our error, against CuTe's result. An operation without a law is judged by its text alone.
pub(crate) fn judge(case: &Case, ours: Result<Value, String>, law: Option<Law>) -> Verdict {
    if law.is_some()
        && let Some((text, size)) = too_large(case, ours.as_ref().ok())
    {
        return Verdict::Failed(format!(
            "too large to judge: {text} has {size} coordinates, and a law walks {MOST} at most"
        ));
    }
    match ours {
        _ if case.is_reject() => judge_reject(case, ours, law),
        Ok(ours) => judge_answer(case, &ours, law),
        Err(error) => match refuted(case, law) {
            Some(what) => Verdict::Refuted(format!("{what}; ours refuses: {error}")),
            None => Verdict::Failed(format!("ours refuses: {error}")),
        },
    }
}

/// The first layout of a case with more coordinates than a law walks, and their number: of our answer, of CuTe's, and of the arguments.
fn too_large(case: &Case, ours: Option<&Value>) -> Option<(String, i64)> {
    let results = ours.map(Value::to_string).into_iter();
    let results = results.chain([Value::of_json(&case.result).to_string()]);
    let results: Vec<_> = results.map(|text| (coordinates(&text), text)).collect();
    // An integer is a layout where a layout comes of it.
    let is_layout = results.iter().any(|(size, _)| size.is_some());
    let arguments = case.args.iter().enumerate().map(|(i, argument)| {
        let text = argument
            .as_str()
            .map_or_else(|| argument.to_string(), String::from);
        let size = coordinates(&text);
        let integer = || (i == 0 && is_layout).then(|| Tree::parse(&text)).flatten();
        (size.or_else(|| Some(integer()?.size())), text)
    });
    let arguments: Vec<_> = arguments.collect();
    let mut all = results.into_iter().chain(arguments);
    all.find_map(|(size, text)| Some((text, size.filter(|size| *size > MOST)?)))
}

/// The number of coordinates of a layout, under swizzles or not; `None` of another text.
fn coordinates(text: &str) -> Option<i64> {
    let layout = text.rsplit(" o ").next()?;
    let (shape, _) = layout.split_once(':')?;
    Some(Tree::parse(shape)?.size())
}

/// CuTe refuses: an error passes, and so does an answer that satisfies the law.
fn judge_reject(case: &Case, ours: Result<Value, String>, law: Option<Law>) -> Verdict {
    let answer = match ours {
        Err(error) => return Verdict::Error(error),
        Ok(answer) => answer,
    };
    match law.map(|law| law(case, &answer)) {
        None => Verdict::Failed(format!(
            "ours is {answer}, and there is no law to judge it by"
        )),
        Some(Err(what)) => {
            Verdict::Failed(format!("ours is {answer}, which breaks the law: {what}"))
        }
        Some(Ok(())) => Verdict::Answered(format!("ours is {answer}, which satisfies the law")),
    }
}

fn judge_answer(case: &Case, ours: &Value, law: Option<Law>) -> Verdict {
    if let Some(Err(what)) = law.map(|law| law(case, ours)) {
        return Verdict::Failed(format!("ours is {ours}, which breaks the law: {what}"));
    }
    let theirs = Value::of_json(&case.result);
    if *ours == theirs {
        return match case.post {
            Some(false) => {
                Verdict::Failed(format!("ours is {ours} too, which the file marks as wrong"))
            }
            _ => Verdict::Equal,
        };
    }
    if let Some(what) = refuted(case, law) {
        return Verdict::Refuted(format!("{what}; ours is {ours}"));
    }
    if case.op.ends_with("_dynamic") && extends(ours, &theirs) {
        return Verdict::SameFunction(format!(
            "ours is {ours}: CuTe stops at a run-time stride, ours goes on"
        ));
    }
    match difference(
        ours,
        &theirs,
        law.is_some() || case.op.ends_with("_dynamic"),
    ) {
        Ok(why) => Verdict::SameFunction(format!("ours is {ours}: {why}")),
        Err(what) => Verdict::Failed(format!("ours is {ours}: {what}")),
    }
}

/// Where CuTe's result breaks the law, if it does.
fn refuted(case: &Case, law: Option<Law>) -> Option<String> {
    law?(case, &Value::of_json(&case.result))
        .err()
        .map(|what| format!("CuTe's result breaks the law: {what}"))
}

/// Whether `ours` is `theirs` as far as that goes, and goes further.
fn extends(ours: &Value, theirs: &Value) -> bool {
    let (Value::Map(ours), Value::Map(theirs)) = (ours, theirs) else {
        return false;
    };
    ours.size() > theirs.size()
        && theirs.size() <= MOST
        && agrees(theirs, |index| ours.at(index)).is_ok()
}

/// Why the texts of two equal functions differ, or where the functions do.
fn difference(ours: &Value, theirs: &Value, may_regroup: bool) -> Result<&'static str, String> {
    let (Some(f), Some(g)) = (Function::of(ours), Function::of(theirs)) else {
        return Err("the values differ".into());
    };
    if f.size() != g.size() {
        return Err(format!("the sizes differ, {} and {}", f.size(), g.size()));
    }
    if f.size() > MOST {
        return Err(format!(
            "the texts differ, and {} coordinates are too many to compare: the most are {MOST}",
            f.size()
        ));
    }
    if let Some(index) = (0..f.size()).find(|&index| f.at(index) != g.at(index)) {
        return Err(format!(
            "at {index} ours is {}, CuTe's {}",
            f.at(index),
            g.at(index)
        ));
    }
    let are_plain = matches!((ours, theirs), (Value::Map(_), Value::Map(_)));
    match (f.shape() == g.shape(), are_plain, may_regroup) {
        (true, true, _) => Ok("only strides of extent 1 differ"),
        (true, false, _) => Ok("the same function, written without the swizzle or under another"),
        (false, _, true) => Ok("the same function, its modes grouped differently"),
        (false, _, false) => Err(
            "the same function, but the shapes differ, and this operation is about shapes".into(),
        ),
    }
}

/// Whether `map` has this value at every coordinate; if not, the first where it has another.
pub(crate) fn agrees(map: &Map, value: impl Fn(i64) -> i64) -> Result<(), String> {
    for (index, offset) in map.table().into_iter().enumerate() {
        let index = i64::try_from(index).expect("a table is shorter than i64::MAX");
        if offset != value(index) {
            return Err(format!("at {index} it is {offset}, not {}", value(index)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(op: &str, result: &str) -> Case {
        Case {
            op: op.into(),
            args: Vec::new(),
            result: result.into(),
            post: None,
            place: "a:1".into(),
        }
    }

    /// A law for the tests: the result has to be the identity on its domain.
    fn identity(_: &Case, value: &Value) -> Result<(), String> {
        let Value::Map(map) = value else {
            return Err("it is not a layout".into());
        };
        agrees(map, |index| index)
    }

    fn verdict(theirs: &str, ours: &str) -> Verdict {
        judge(
            &case("op", theirs),
            Ok(Value::of_text(ours)),
            Some(identity),
        )
    }

    #[test]
    fn the_same_text_is_equal_whatever_is_static() {
        assert_eq!(verdict("(_4,2):(_1,4)", "(4,2):(1,4)"), Verdict::Equal);
    }

    #[test]
    fn another_text_may_be_the_same_function() {
        let regrouped = "ours is 8:1: the same function, its modes grouped differently";
        assert_eq!(
            verdict("(4,2):(1,4)", "8:1"),
            Verdict::SameFunction(regrouped.into())
        );
        let strides = "ours is (4,1):(1,0): only strides of extent 1 differ";
        assert_eq!(
            verdict("(4,1):(1,4)", "(4,1):(1,0)"),
            Verdict::SameFunction(strides.into())
        );
    }

    #[test]
    fn without_a_law_another_shape_fails() {
        let verdict = judge(
            &case("group", "(4,2):(1,4)"),
            Ok(Value::of_text("8:1")),
            None,
        );
        assert!(matches!(verdict, Verdict::Failed(_)), "{verdict:?}");
    }

    #[test]
    fn a_result_that_breaks_the_law_is_refuted_at_a_coordinate() {
        let what = "CuTe's result breaks the law: at 1 it is 2, not 1; ours is 4:1";
        assert_eq!(verdict("4:2", "4:1"), Verdict::Refuted(what.into()));
        let refused = judge(&case("op", "4:2"), Err("no".into()), Some(identity));
        let what = "CuTe's result breaks the law: at 1 it is 2, not 1; ours refuses: no";
        assert_eq!(refused, Verdict::Refuted(what.into()));
    }

    #[test]
    fn a_result_that_the_file_marks_as_wrong_is_not_equalled() {
        let marked = Case {
            post: Some(false),
            ..case("op", "4:2")
        };
        let verdict = judge(&marked, Ok(Value::of_text("4:2")), None);
        assert_eq!(
            verdict,
            Verdict::Failed("ours is 4:2 too, which the file marks as wrong".into())
        );
    }

    #[test]
    fn ours_may_go_on_where_cute_stops_at_a_run_time_stride() {
        let ours = || Ok(Value::of_text("(4,2):(2,1)"));
        assert!(matches!(
            judge(&case("op_dynamic", "_4:_2"), ours(), None),
            Verdict::SameFunction(_)
        ));
        assert!(matches!(
            judge(&case("op", "4:2"), ours(), None),
            Verdict::Failed(_)
        ));
    }

    #[test]
    fn our_own_breach_of_the_law_fails_even_if_the_texts_agree() {
        assert!(matches!(verdict("4:2", "4:2"), Verdict::Failed(_)));
    }

    #[test]
    fn layouts_that_are_too_large_to_walk_are_not_judged() {
        let failed = |what: &str| Verdict::Failed(what.into());
        let complement = Case {
            args: vec!["(9,(1,2)):(1,(34,17))".into(), i64::MAX.into()],
            ..case("complement", "1:0")
        };
        let law = crate::golden::law::of(&complement);
        assert!(law.is_some());
        let ours = || Ok(Value::of_text("271275648142787139:34"));
        assert_eq!(
            judge(&complement, ours(), law),
            failed(
                "too large to judge: 271275648142787139:34 has 271275648142787139 coordinates, and a law walks 33554432 at most"
            )
        );
        // The product of the extents ends at the last number of 64 bits.
        let refused = judge(
            &case("op", "(4294967296,4294967296):(1,1)"),
            Err("no".into()),
            Some(identity),
        );
        assert_eq!(
            refused,
            failed(
                "too large to judge: (4294967296,4294967296):(1,1) has 9223372036854775807 coordinates, and a law walks 33554432 at most"
            )
        );
        let inverse = Case {
            args: vec![i64::MAX.into()],
            ..case("left_inverse", "1:1")
        };
        assert_eq!(
            judge(&inverse, Err("no".into()), crate::golden::law::of(&inverse)),
            failed(
                "too large to judge: 9223372036854775807 has 9223372036854775807 coordinates, and a law walks 33554432 at most"
            )
        );
        let under_a_swizzle = Case {
            args: vec!["Sw<1,2,3> o 0 o 67108864:1".into()],
            ..case("left_inverse", "1:1")
        };
        assert_eq!(
            judge(&under_a_swizzle, Err("no".into()), Some(identity)),
            failed(
                "too large to judge: Sw<1,2,3> o 0 o 67108864:1 has 67108864 coordinates, and a law walks 33554432 at most"
            )
        );
        // Without a law, equal texts need no walk, and others are not compared.
        assert_eq!(
            judge(
                &case("op", "67108864:1"),
                Ok(Value::of_text("67108864:1")),
                None
            ),
            Verdict::Equal
        );
        assert_eq!(
            judge(
                &case("op", "67108864:1"),
                Ok(Value::of_text("(2,33554432):(1,2)")),
                None
            ),
            failed(
                "ours is (2,33554432):(1,2): the texts differ, and 67108864 coordinates are too many to compare: the most are 33554432"
            )
        );
    }

    #[test]
    fn an_error_fails_where_cute_is_right_and_passes_where_it_refuses() {
        assert!(matches!(
            judge(&case("op", "4:1"), Err("no".into()), Some(identity)),
            Verdict::Failed(_)
        ));
        assert_eq!(
            judge(&case("op", "REJECT"), Err("no".into()), None),
            Verdict::Error("no".into())
        );
    }

    #[test]
    fn an_answer_where_cute_refuses_needs_a_law() {
        let answer = || Ok(Value::of_text("4:1"));
        assert!(matches!(
            judge(&case("op", "REJECT"), answer(), None),
            Verdict::Failed(_)
        ));
        assert!(matches!(
            judge(&case("op", "REJECT"), answer(), Some(identity)),
            Verdict::Answered(_)
        ));
        let wrong = judge(
            &case("op", "REJECT"),
            Ok(Value::of_text("4:2")),
            Some(identity),
        );
        assert!(matches!(wrong, Verdict::Failed(_)));
    }
}
