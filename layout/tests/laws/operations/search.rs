//! The search after a refused composition: sound, complete over the right-hand modes, bounded, and its sentences.

use colex_layout::{CompositionError, Layout, SEARCH_BOUND, Search, Unbounded};

use crate::law::law;
use crate::small;

fn layout(text: &str) -> Layout {
    text.parse().expect("the test's own layouts parse")
}

fn truth(a: &Layout, b: &Layout) -> Vec<i64> {
    let values = (0..b.size()).map(|c| a.at(Unbounded(b.at(Unbounded(c))?)));
    values.collect::<Result<_, _>>().expect("small numbers")
}

fn sentence(a: &str, b: &str) -> String {
    layout(a).composition(&layout(b)).unwrap_err().to_string()
}

#[test]
fn search_finds_the_source_example() {
    let (a, b) = (layout("(4,4):(4,1)"), layout("(2,2):(1,5)"));
    let found = a.composition(&b).unwrap();
    assert_eq!(found.to_string(), "(2,2):(4,5)");
    assert_eq!(found.table().unwrap(), [0, 4, 5, 9]);
    assert!(a.cute_composition(&b).is_err());
}

#[test]
fn search_result_is_dynamic_where_it_depended_on_dynamic_leaves() {
    let compose = |a: &str, b: &str| layout(a).composition(&layout(b)).unwrap().to_string();
    assert_eq!(
        compose("(_4,_4):(_4,_1)", "(_2,_2):(_1,_5)"),
        "(_2,_2):(_4,_5)"
    );
    assert_eq!(
        compose("(_4,_4):(_4,_1)", "(_2,2):(_1,_5)"),
        "(_2,2):(_4,5)"
    );
    assert_eq!(compose("(_4,_4):(_4,1)", "(_2,_2):(_1,_5)"), "(2,2):(4,5)");
}

#[test]
fn search_sentences_of_d10_and_d11() {
    assert_eq!(
        sentence("(4,3):(1,10)", "4:3"),
        "(4,3):(1,10) o 4:3 is not a layout over the modes of 4:3: mode <0>, 4:3, takes 4 steps of 3 in extent 4 of \
         (4,3):(1,10) and carries, as neither of 3 and 4 divides the other and (4-1)*3 = 9 is not below 4 (2 steps \
         would fit); A(B(c)) is 3 at 1 and 12 at 2, which makes 15 at 3, but it is 21"
    );
    assert_eq!(
        sentence("(6,3):(1,10)", "(3,2):(2,3)"),
        "(6,3):(1,10) o (3,2):(2,3) is not a layout over the modes of (3,2):(2,3): modes <0> and <1> fit one by one, \
         but together they reach 4 + 3 = 7 in extent 6 of (6,3):(1,10) and carry (at most 5 would fit); A(B(c)) is 4 \
         at (2,0) and 3 at (0,1), which makes 7 at (2,1), but it is 11"
    );
    assert_eq!(
        sentence("(4,6,8):(2,3,5)", "6:3"),
        "(4,6,8):(2,3,5) o 6:3 is not a layout over the modes of 6:3: mode <0>, 6:3, takes 6 steps of 3 in extent 4 of \
         (4,6,8):(2,3,5) and carries, as neither of 3 and 4 divides the other and (6-1)*3 = 15 is not below 4 (2 steps \
         would fit); A(B(c)) is 6 at 1 and 7 at 2, which makes 13 at 3, but it is 8"
    );
}

#[test]
fn search_sentences_of_the_other_refusals() {
    assert_eq!(
        sentence("(4,1):(1,0)", "7:6"),
        "(4,1):(1,0) o 7:6 is not a layout over the modes of 7:6: mode <0>, 7:6, takes 7 steps of 6 in extent 4 of \
         (4,1):(1,0) and carries, as neither of 6 and 4 divides the other and (7-1)*6 = 36 is not below 4 (a stride \
         that 4 divides would fit); A(B(c)) is 2 at 1, which makes 4 at 2, but it is 0, and no mode can end there, as \
         2 does not divide 7"
    );
    assert_eq!(
        sentence("(4,3):(1,10)", "(2,6):(4,1)"),
        "(4,3):(1,10) o (2,6):(4,1) is not a layout over the modes of (2,6):(4,1): mode <1>, 6:1, takes 6 steps of 1 in \
         extent 4 of (4,3):(1,10) and carries, as 4 steps fill it and 4 does not divide 6 (a multiple of 4 steps would \
         fit); A(B(c)) is 1 at (0,1), which makes 4 at (0,4), but it is 10, and no mode can end there, as 4 does not \
         divide 6"
    );
    assert_eq!(
        sentence("(4,9):(1,10)", "(2,(3,3)):(1,(1,5))"),
        "(4,9):(1,10) o (2,(3,3)):(1,(1,5)) is not a layout over the modes of (2,(3,3)):(1,(1,5)): mode <1,1>, 3:5, \
         takes 3 steps of 5 in extent 4 of (4,9):(1,10) and carries, as neither of 5 and 4 divides the other and \
         (3-1)*5 = 10 is not below 4 (a stride that 4 divides would fit); A(B(c)) is 3 at (1,(2,0)) and 11 at \
         (0,(0,1)), which makes 14 at (1,(2,1)), but it is 20"
    );
    assert_eq!(
        sentence("(4,3):(1,10)", "(3,2):(4,-1)"),
        "(4,3):(1,10) o (3,2):(4,-1) is not a layout over the modes of (3,2):(4,-1): mode <0> goes up and mode <1> goes \
         down through several modes of (4,3):(1,10), so coordinates borrow between them (strides of one sign would \
         fit); A(B(c)) is 10 at (1,0) and -1 at (0,1), which makes 9 at (1,1), but it is 3"
    );
}

fn refused(a: &str, b: &str) -> CompositionError {
    let error = layout(a).composition(&layout(b)).unwrap_err();
    error.composition().expect("a composition").clone()
}

/// A layout that exists, `(131072,100000):(2097152,2097153)`, over modes that the rule refuses and that are too many
/// to read: the sentence does not say that there is none.
#[test]
fn search_says_where_it_gave_up() {
    let refused = refused(
        "(2097152,2097152):(2097152,1)",
        "(131072,100000):(1,2097153)",
    );
    let size = 131_072 * 100_000;
    assert_eq!(
        refused.search,
        Search::GaveUp {
            bound: SEARCH_BOUND,
            size
        }
    );
    assert_eq!(
        refused.to_string(),
        "(2097152,2097152):(2097152,1) o (131072,100000):(1,2097153): the search for a layout gave up after 65536 of \
         the 13107200000 coordinates of the modes that clash, which is its bound; the rule of composition refuses, as \
         mode <1>, 100000:2097153, takes 100000 steps of 2097153 in extent 2097152 of (2097152,2097152):(2097152,1) \
         and carries, as neither of 2097153 and 2097152 divides the other and (100000-1)*2097153 = 209713202847 is not \
         below 2097152 (a stride that 2097152 divides would fit)"
    );
}

/// Beyond the bound the last coordinates are looked at too, so that a carry there is proved.
#[test]
fn search_proves_a_carry_beyond_its_bound() {
    assert!(
        refused("(131072,2):(1,1000000)", "(65536,3):(1,131071)")
            .to_string()
            .ends_with(
                "; A(B(c)) is 65535 at (65535,0) and 1131070 at (0,2), which makes 1196605 at (65535,2), but it is \
                 2065533"
            )
    );
}

#[test]
fn what_was_not_searched_is_not_said_to_be_no_layout() {
    let unchecked = layout("(4,3):(1,10)").cute_composition("7:6");
    assert_eq!(
        unchecked.unwrap_err().to_string(),
        "(4,3):(1,10) o 7:6 is refused by CuTe's rule of composition: mode <0>, 7:6, takes 7 steps of 6 in extent 4 of \
         (4,3):(1,10) and carries, as neither of 6 and 4 divides the other and (7-1)*6 = 36 is not below 4 (a stride \
         that 4 divides would fit)"
    );
    assert_eq!(
        sentence("(4,4):(^4,^1)", "(2,2):(1,5)"),
        "(4,4):(^4,^1) o (2,2):(1,5): the search for a layout failed: the search for a composition of (4,4):(^4,^1) \
         needs integer strides on the left; the rule of composition refuses, as mode <1>, 2:5, takes 2 steps of 5 in \
         extent 4 of (4,4):(^4,^1) and carries, as neither of 5 and 4 divides the other and (2-1)*5 = 5 is not below 4 \
         (a stride that 4 divides would fit)"
    );
}

fn all(extents: &[i64], strides: &[i64]) -> Vec<Layout> {
    let modes = (1..=2).flat_map(|rank| small::modes(rank, extents, strides));
    modes.map(|m| small::layout(&m)).collect()
}

/// Law `search_complete`: a composition is right, or refused with a contradiction in the values of `A(B(c))`.
#[test]
fn search_complete() {
    let lhs = all(&[2, 3, 4, 6], &[0, 1, 2, 10]);
    let rhs = all(&[1, 2, 4, 6], &[-1, 0, 1, 2, 3, 5]);
    let found = std::cell::Cell::new(0);
    law("search_complete", "pairs", 160_000, |count| {
        for (a, b) in lhs.iter().flat_map(|a| rhs.iter().map(move |b| (a, b))) {
            let expected = truth(a, b);
            match a.composition(b) {
                Ok(r) => {
                    assert_eq!(r.table().unwrap(), expected, "{a} o {b} = {r}");
                    assert_eq!(
                        r.shape().product_like(&b.shape()),
                        Ok(b.shape()),
                        "{a} o {b} = {r}"
                    );
                    found.set(found.get() + u64::from(a.cute_composition(b).is_err()));
                }
                Err(error) => {
                    let e = error
                        .composition()
                        .unwrap_or_else(|| panic!("{a} o {b}: {error}"));
                    assert!(matches!(e.search, Search::Contradicted(_)), "{e}");
                    let again = Layout::infer_modes(b.shape(), |i| expected[i as usize]);
                    assert!(again.is_err(), "{a} o {b} is {}", again.unwrap());
                }
            }
            *count += 1;
        }
    });
    law("search_finds", "pairs that CuTe refuses", 100, |count| {
        *count = found.get()
    });
}
