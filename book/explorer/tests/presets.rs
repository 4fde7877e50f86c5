//! Every preset of the twelve tabs of the CuTe Layout Visualizer (version of 2026-05-15, `ccfd304`), one by one: the page
//! offers it, and its panel shows it without a refusal.
//!
//! The visualizer writes a tiler of several modes on several lines, and the target of a complement as a layout.

use colex_layout::{Layout, Tiler};
use serde_json::{Value as Json, json};

/// What the page offers.
const PANELS: &str = include_str!("../../theme/explorer/panels.js");

fn shown(tab: &str, request: &Json) -> Json {
    let answer = colex_explorer::answer(&request.to_string());
    let mut answer: Json = serde_json::from_str(&answer).expect("an answer is JSON");
    assert_eq!(answer["error"], Json::Null, "{tab}: {request}");
    let reply = answer["reply"].take();
    assert_eq!(reply["refusal"], Json::Null, "{tab}: {request}");
    for view in reply["views"].as_array().expect("a reply has views") {
        assert_ne!(
            view["kind"], "missing",
            "{tab}: {request} draws no {}",
            view["id"]
        );
    }
    for (name, text) in request.as_object().expect("fields") {
        let text = text.as_str().expect("a text");
        let is_offered = name == "panel" || PANELS.contains(&format!("\"{text}\""));
        // The tabs of products and divides share their presets.
        assert!(
            name == "operation" || text.is_empty() || is_offered,
            "{tab}: `{text}` is not on the page"
        );
    }
    reply
}

const DIVIDES: [(&str, &str); 6] = [
    ("12:1", "3:4"),
    ("(4,4):(1,4)", "(2,2):(1,4)"),
    ("(8,8):(1,8)", "<4:2,4:2>"),
    ("(12,32):(32,1)", "<3:4,8:4>"),
    ("(6,12):(12,1)", "<3:2,4:3>"),
    ("(8,16):(1,8)", "<(2,2):(1,4),(4,2):(1,8)>"),
];

const BLOCKS: [(&str, &str); 6] = [
    ("(2,2):(1,2)", "(3,3):(1,3)"),
    ("(2,3):(1,2)", "(3,2):(1,3)"),
    ("(3,2):(2,1)", "(2,3):(3,1)"),
    ("(2,2):(1,2)", "(4,2):(1,4)"),
    ("4:1", "(2,3):(1,2)"),
    ("(2,2):(2,1)", "(2,2):(1,2)"),
];

#[test]
fn the_tab_of_layouts() {
    for layout in [
        "(10,10):(1,10)",
        "(10,10):(10,1)",
        "(8,8):(1,8)",
        "(8,8):(8,1)",
        "(8,8):(2,16)",
        "((2,2),(2,2)):((1,4),(2,8))",
        "((4,2),(4,2)):((1,8),(2,32))",
        "(4,32):(32,1)",
    ] {
        let reply = shown("layout", &json!({"panel": "layout", "layout": layout}));
        assert_eq!(reply["title"], layout);
    }
}

#[test]
fn the_tab_of_thread_value_layouts() {
    for (threads, values) in [
        ("(2,3):(3,1)", "(2,2):(2,1)"),
        ("(4,4):(1,4)", "(2,2):(1,2)"),
        ("(4,8):(8,1)", "(2,2):(2,1)"),
        ("(8,4):(1,8)", "(2,2):(1,2)"),
        ("(16,2):(1,16)", "(2,2):(1,2)"),
    ] {
        shown(
            "tv",
            &json!({"panel": "copy", "atom": "UniversalCopy<uint32_t>", "element": "32", "threads": threads,
                "values": values, "tv": "", "tiler": "", "tensor": ""}),
        );
    }
}

#[test]
fn the_tab_of_swizzles() {
    for (layout, bits, base, shift, lanes) in [
        ("(8,8):(8,1)", "3", "0", "3", "(8,4):(8,1)"),
        ("(16,16):(16,1)", "3", "0", "3", "32:16"),
        ("(8,32):(32,1)", "3", "3", "3", "(8,4):(32,8)"),
        ("(16,16):(1,16)", "2", "2", "2", "32:1"),
        ("(8,8):(8,1)", "0", "0", "0", "(8,4):(8,1)"),
    ] {
        let reply = shown(
            "swizzle",
            &json!({"panel": "swizzle", "bits": bits, "base": base, "shift": shift, "layout": layout, "element": "16",
                "lanes": lanes, "width": "2"}),
        );
        // The identity is left out.
        let swizzled = match bits {
            "0" => layout.to_string(),
            _ => format!("Sw<{bits},{base},{shift}> o 0 o {layout}"),
        };
        assert_eq!(reply["title"], swizzled);
    }
}

/// What the panel shows of an operation is what the crate returns.
fn operation(tab: &str, name: &str, a: &str, b: &str) {
    let reply = shown(
        tab,
        &json!({"panel": "algebra", "operation": name, "a": a, "b": b}),
    );
    let layout: Layout = a.parse().expect("a layout");
    let tiler: Tiler = match name {
        "complement" => Tiler::All,
        _ => b.parse().expect("a tiler"),
    };
    let other: Layout = b
        .parse()
        .unwrap_or_else(|_| "1:0".parse().expect("a layout"));
    let result = match name {
        "composition" => layout.composition(&tiler),
        "complement" => layout.complement(b.parse::<i64>().expect("a number")),
        "logical_divide" => layout.logical_divide(&tiler),
        "zipped_divide" => layout.zipped_divide(&tiler),
        "logical_product" => layout.logical_product(&tiler),
        "zipped_product" => layout.zipped_product(&tiler),
        "blocked_product" => layout.blocked_product(&other),
        "raked_product" => layout.raked_product(&other),
        _ => panic!("no preset has {name}"),
    };
    assert_eq!(reply["title"], result.expect("a layout").to_string());
}

#[test]
fn the_tab_of_compositions() {
    for (a, b) in [
        ("(4,4):(4,1)", "(2,2):(1,2)"),
        ("(8,8):(1,8)", "(4,4):(1,4)"),
        ("(8,8):(1,8)", "(2,4):(2,8)"),
        ("(4,8):(8,1)", "(2,4):(1,2)"),
        ("(4,4):(1,4)", "(4,4):(1,0)"),
        ("(12,(4,8)):(59,(13,1))", "<3:4,8:2>"),
        ("(12,(4,8)):(59,(13,1))", "<3,8>"),
        ("(4,8):(8,1)", "<2,4>"),
    ] {
        operation("composition", "composition", a, b);
    }
}

#[test]
fn the_tab_of_complements() {
    for (a, size) in [
        ("(2,2):(1,2)", "16"),
        ("4:2", "8"),
        ("3:4", "12"),
        ("(2,2):(4,1)", "16"),
    ] {
        operation("complement", "complement", a, size);
    }
}

#[test]
fn the_tab_of_divides() {
    for (a, b) in DIVIDES {
        operation("divide", "logical_divide", a, b);
    }
}

#[test]
fn the_tab_of_zipped_divides() {
    for (a, b) in DIVIDES {
        operation("zipped", "zipped_divide", a, b);
    }
}

#[test]
fn the_tab_of_products() {
    for (a, b) in [
        ("5:1", "4:1"),
        ("(5,3):(1,5)", "2:1"),
        ("(5,3):(1,5)", "(2,2):(1,2)"),
        ("(4,3):(3,1)", "<2:1,3:1>"),
        ("(3,5):(1,3)", "<2:1,2:1>"),
        ("(4,5):(5,1)", "<2:1,2:1>"),
        ("(5,4):(1,5)", "<3:1,2:1>"),
    ] {
        operation("product", "logical_product", a, b);
    }
}

#[test]
fn the_tab_of_zipped_products() {
    for (a, b) in [
        ("5:1", "4:1"),
        ("(5,3):(1,5)", "2:1"),
        ("(5,3):(1,5)", "(2,2):(1,2)"),
        ("(4,3):(3,1)", "(2,3):(1,2)"),
        ("(3,5):(1,3)", "(2,2):(1,2)"),
    ] {
        operation("zipped_product", "zipped_product", a, b);
    }
}

#[test]
fn the_tab_of_blocked_products() {
    for (a, b) in BLOCKS {
        operation("blocked_product", "blocked_product", a, b);
    }
}

#[test]
fn the_tab_of_raked_products() {
    for (a, b) in BLOCKS {
        operation("raked_product", "raked_product", a, b);
    }
}

#[test]
fn the_tab_of_universal_copies() {
    for (atom, element, threads, values, tensor) in [
        (
            "UniversalCopy<uint32_t>",
            "16",
            "(4,8):(8,1)",
            "(2,2):(2,1)",
            "(16,64):(64,1)",
        ),
        (
            "UniversalCopy<uint128_t>",
            "16",
            "(4,8):(8,1)",
            "(2,8):(8,1)",
            "(16,64):(64,1)",
        ),
        (
            "UniversalCopy<uint32_t>",
            "32",
            "(2,2):(2,1)",
            "(2,2):(2,1)",
            "(8,8):(8,1)",
        ),
        (
            "UniversalCopy<uint64_t>",
            "32",
            "(2,4):(4,1)",
            "(2,2):(2,1)",
            "(8,16):(16,1)",
        ),
    ] {
        shown(
            "copy_universal_op",
            &json!({"panel": "copy", "atom": atom, "element": element, "threads": threads, "values": values, "tv": "",
                "tiler": "", "tensor": tensor}),
        );
    }
}
