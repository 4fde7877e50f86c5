//! What the algebra panel says of CuTe C++, beside what CuTe C++ itself answered: the results that come with the
//! repository, in `xtask/golden`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::{Value as Json, json};

/// The operations of the files that the panel has, and its name for each.
const OPS: [(&str, &str); 38] = [
    ("composition", "composition"),
    ("composition_tiler", "composition"),
    ("composition_identity", "composition"),
    ("complement", "complement"),
    ("complement1", "complement"),
    ("coalesce", "coalesce"),
    ("right_inverse", "right_inverse"),
    ("left_inverse", "left_inverse"),
    ("logical_divide", "logical_divide"),
    ("zipped_divide", "zipped_divide"),
    ("tiled_divide", "tiled_divide"),
    ("flat_divide", "flat_divide"),
    ("logical_divide_identity", "logical_divide"),
    ("zipped_divide_identity", "zipped_divide"),
    ("tiled_divide_identity", "tiled_divide"),
    ("flat_divide_identity", "flat_divide"),
    ("logical_product", "logical_product"),
    ("zipped_product", "zipped_product"),
    ("tiled_product", "tiled_product"),
    ("flat_product", "flat_product"),
    ("blocked_product", "blocked_product"),
    ("raked_product", "raked_product"),
    ("tile_to_shape", "tile_to_shape"),
    ("nullspace", "nullspace"),
    ("max_common_layout", "max_common_layout"),
    ("max_common_vector", "max_common_vector"),
    ("domain_distribute", "domain_distribute"),
    ("upcast", "upcast"),
    ("downcast", "downcast"),
    ("recast_layout", "recast"),
    ("max_alignment", "max_alignment"),
    ("filter", "filter"),
    ("make_layout_like", "layout_like"),
    ("make_fragment_like", "fragment_like"),
    ("slice", "slice"),
    ("dice", "dice"),
    ("composition_basis", "composition"),
    ("ceil_div", "tiles"),
];

/// The cases of a file.
fn cases(name: &str) -> Vec<Json> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/golden");
    let file = File::open(folder.join(name)).expect("the files come with the repository");
    let lines = BufReader::new(MultiGzDecoder::new(file)).lines();
    lines
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("a case"))
        .collect()
}

/// An argument as the panel reads it.
fn text(argument: &Json) -> String {
    argument
        .as_str()
        .map_or_else(|| argument.to_string(), str::to_string)
}

/// A case as a request, if the panel has its operation.
fn request(case: &Json) -> Option<Json> {
    let op = case["op"].as_str()?;
    let (_, operation) = OPS.iter().find(|(name, _)| *name == op)?;
    let args: Vec<String> = case["args"].as_array()?.iter().map(text).collect();
    // The panel's operands are layouts without a swizzle.
    if args.iter().any(|arg| arg.contains("Sw<")) {
        return None;
    }
    let (a, b) = match (op, &args[..]) {
        ("recast_layout", [old, new, a]) => (a.clone(), format!("({old},{new})")),
        ("slice" | "dice", [place, a]) => (a.clone(), place.clone()),
        // A shape becomes a layout of it.
        ("ceil_div" | "domain_distribute", [shape, b]) => {
            let zeros: String = zeros(shape);
            (format!("{shape}:{zeros}"), b.clone())
        }
        // An order of its own has no field here.
        ("tile_to_shape", [_, _, _]) => return None,
        ("composition_tiler" | "composition_identity", [a, b]) => {
            let b = match b.parse::<colex_layout::Layout>() {
                Ok(_) => b.clone(),
                // Brackets say that it is a tuple of tilers and no layout.
                Err(_) if !b.starts_with('(') => b.clone(),
                Err(_) => format!("<{}>", &b[1..b.len() - 1]),
            };
            (a.clone(), b)
        }
        (_, [a]) => (a.clone(), String::new()),
        (_, [a, b]) => (a.clone(), b.clone()),
        _ => return None,
    };
    Some(json!({"panel": "algebra", "operation": operation, "a": a, "b": b}))
}

/// A stride of zeros that nests as the shape does.
fn zeros(shape: &str) -> String {
    let mut zeros = String::new();
    let mut in_number = false;
    for c in shape.chars() {
        match (c.is_ascii_digit(), in_number) {
            (true, false) => zeros.push('0'),
            (false, _) => zeros.push(c),
            (true, true) => {}
        }
        in_number = c.is_ascii_digit();
    }
    zeros
}

/// Everything that CuTe answered or refused is what the panel says, or the panel says that it does not know.
#[test]
fn law_the_panel_says_what_cute_answers() {
    let (mut complaints, mut known, mut unknown) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for file in ["layout_algebra.jsonl.gz", "reject.jsonl.gz"] {
        for case in cases(file) {
            let Some(request) = request(&case) else {
                continue;
            };
            let answer = colex_explorer::answer(&request.to_string());
            let answer: Json = serde_json::from_str(&answer).expect("an answer is JSON");
            let op = case["op"].as_str().expect("a name").to_string();
            let fact = |name: &str| {
                let facts = answer["reply"]["facts"].as_array()?;
                facts.iter().find(|fact| fact[0] == name)?[1].as_str()
            };
            let (says, refuses) = (fact("CuTe C++ answers"), fact("CuTe C++ refuses"));
            let case_text = format!("{op}{} is {}", case["args"], case["result"]);
            match (says, refuses) {
                (None, None) => {
                    let error = answer["error"].as_str();
                    complaints.push(format!("{case_text}: {request} is not read: {error:?}"));
                }
                (Some(says), _) if says.starts_with("not known") => {
                    *unknown.entry(op).or_insert(0) += 1;
                }
                (Some(says), _) => {
                    if says != text(&case["result"]) {
                        complaints.push(format!("{case_text}, and the panel says {says}"));
                    }
                    *known.entry(op).or_insert(0) += 1;
                }
                (_, Some(why)) => {
                    // The two names of the condition of composition; others are CuTe's words.
                    let error = case["cxx_error"].as_str().unwrap_or_default();
                    if case["result"] != "REJECT" || !agrees(why, error) {
                        complaints.push(format!(
                            "{case_text} {error}, and the panel: it refuses, {why}"
                        ));
                    }
                    *known.entry(op).or_insert(0) += 1;
                }
            }
        }
    }
    let count: usize = known.values().sum();
    let left: usize = unknown.values().sum();
    assert!(
        complaints.is_empty(),
        "{} of {count}; not known: {unknown:?}\n{}",
        complaints.len(),
        complaints
            .iter()
            .take(60)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    assert!(
        count > 8000 && left < 100,
        "{count} known, {left} not: {unknown:?}"
    );
    println!("law the_panel_says_what_cute_answers: {count} cases");
}

/// Whether the panel names the assertion that the compiler named first.
fn agrees(why: &str, error: &str) -> bool {
    // Some assertions have no text.
    error == "static assertion failed"
        || error.contains(why)
        || why.starts_with("incomplete type") && error.starts_with("incomplete type")
}
