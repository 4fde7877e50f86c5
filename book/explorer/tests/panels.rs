//! The answers of the panels against the crates' own results.

use colex_layout::{ComposedLayout, Layout};
use serde_json::{Value as Json, json};

fn asked(request: &Json) -> Json {
    let text = colex_explorer::answer(&request.to_string());
    serde_json::from_str(&text).expect("an answer is JSON")
}

fn reply(request: Json) -> Json {
    let mut answer = asked(&request);
    assert_eq!(answer["error"], Json::Null, "{request}");
    answer["reply"].take()
}

fn refused(request: Json) -> String {
    let answer = asked(&request);
    answer["error"]
        .as_str()
        .unwrap_or_else(|| panic!("{request} is answered"))
        .to_string()
}

fn layout(text: &str) -> Json {
    reply(json!({"panel": "layout", "layout": text}))
}

fn view<'a>(reply: &'a Json, id: &str) -> &'a Json {
    let views = reply["views"].as_array().expect("a reply has views");
    views
        .iter()
        .find(|view| view["id"] == id)
        .unwrap_or_else(|| panic!("there is no view {id}"))
}

fn fact<'a>(reply: &'a Json, name: &str) -> &'a str {
    let facts = reply["facts"].as_array().expect("a reply has facts");
    let fact = facts.iter().find(|fact| fact[0] == name);
    fact.and_then(|fact| fact[1].as_str())
        .unwrap_or_else(|| panic!("there is no fact {name}"))
}

fn copied<'a>(reply: &'a Json, name: &str) -> &'a Json {
    let copies = reply["copies"].as_array().expect("a reply has copies");
    copies
        .iter()
        .find(|copy| copy["name"] == name)
        .unwrap_or_else(|| panic!("nothing is copied as {name}"))
}

/// What links a cell: nothing, a number, or a list.
fn linked(lists: &Json, at: usize) -> Vec<i64> {
    match &lists[at] {
        Json::Array(list) => list.iter().filter_map(Json::as_i64).collect(),
        one => one.as_i64().into_iter().collect(),
    }
}

fn keys(view: &Json, at: usize) -> Vec<i64> {
    linked(&view["keys"], at)
}

/// What the button `name` copies of a layout.
fn reply_text(layout: &str, name: &str) -> String {
    let copied = reply(json!({"panel": "layout", "layout": layout, "copy": name}));
    copied["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{copied}"))
        .to_string()
}

/// Every label of the grid is the layout at its cell, and the memory holds the same indices.
#[test]
fn law_a_grid_shows_the_layout() {
    let texts = [
        "(4,8):(8,1)",
        "((2,2),(2,4)):((1,4),(2,8))",
        "(3,(2,5)):(0,(7,-1))",
        "8:2",
        "(2,3,4):(12,4,1)",
        "(2,2,2):(^1,^3,^4)",
        "Sw<2,0,3> o 5 o ((2,4),8):((1,16),2)",
        "(4,(2,2)):(2,(1,8))",
    ];
    let mut cells = 0;
    for text in texts {
        let value: ComposedLayout = text.parse().expect("a layout");
        let reply = layout(text);
        let grid = view(&reply, "grid");
        let (rows, cols) = (
            grid["rows"].as_i64().unwrap(),
            grid["cols"].as_i64().unwrap(),
        );
        assert_eq!(rows * cols, value.size(), "{text}");
        let memory = view(&reply, "memory");
        for index in 0..value.size() {
            let at = ((index % rows) * cols + index / rows) as usize;
            let offset = value.at(index).expect("an index of the layout");
            assert_eq!(grid["labels"][at], offset.to_string(), "{text}");
            assert_eq!(keys(grid, at), [index], "{text}");
            let holds = memory["says"].as_array().unwrap().iter().enumerate();
            let place = holds.filter(|(at, _)| keys(memory, *at).contains(&index));
            let says: Vec<&str> = place.map(|(_, says)| says.as_str().unwrap()).collect();
            assert_eq!(says.len(), 1, "{text}");
            assert!(
                says[0].starts_with(&format!("offset {offset}: ")),
                "{text}: {says:?}"
            );
            cells += 1;
        }
    }
    println!("law a_grid_shows_the_layout: {cells} cells");
}

#[test]
fn a_grid_has_heavy_lines_where_the_outer_number_of_a_nested_mode_changes() {
    let lines = |text: &str| {
        let reply = layout(text);
        let grid = view(&reply, "grid");
        [grid["rowLevels"].clone(), grid["colLevels"].clone()]
    };
    assert_eq!(
        lines("(4,(2,2)):(2,(1,8))"),
        [Json::Null, json!([0, 0, 1, 0])]
    );
    assert_eq!(
        lines("((2,2),(2,2,2)):((1,4),(2,8,16))"),
        [json!([0, 0, 1, 0]), json!([0, 0, 1, 0, 2, 0, 1, 0])]
    );
    assert_eq!(lines("(4,8):(8,1)"), [Json::Null, Json::Null]);
}

#[test]
fn a_layout_has_facts_and_texts_to_copy() {
    let reply = layout("(4,(2,2)):(2,(1,8))");
    assert_eq!(fact(&reply, "cosize"), "16");
    assert_eq!(fact(&reply, "injective"), "yes");
    assert_eq!(
        copied(&reply, "CuTe C++")["text"],
        "make_layout(make_shape(4, make_shape(2, 2)), make_stride(2, make_stride(1, 8)))"
    );
    assert_eq!(
        copied(&reply, "SVG"),
        &json!({"name": "SVG"}),
        "it is made when it is asked for"
    );
    let text = |name: &str| reply_text("(4,(2,2)):(2,(1,8))", name);
    assert!(text("SVG").starts_with("<svg "));
    assert_eq!(
        text("LaTeX"),
        colex_draw::print_latex("(4,(2,2)):(2,(1,8))").unwrap()
    );
    assert_eq!(
        text("Text table"),
        colex_draw::print_layout("(4,(2,2)):(2,(1,8))").unwrap()
    );
    let values = layout("(4,8):(1@0,1@1)");
    assert_eq!(view(&values, "grid")["labels"][9], "(1,1)");
    assert_eq!(fact(&values, "coshape"), "(4,8)");
}

#[test]
fn errors_are_the_parsers_own() {
    for text in [
        "(4,8):(8",
        "4",
        "",
        "(4,8):(8,1,1)",
        "[4]:1",
        "Sw<3,3> o 0 o 4:1",
        "(0):(1)",
    ] {
        let why = text
            .parse::<ComposedLayout>()
            .expect_err("no layout")
            .to_string();
        assert_eq!(
            refused(json!({"panel": "layout", "layout": text})),
            format!("layout: {why}")
        );
    }
    assert_eq!(refused(json!({"panel": "x"})), "there is no panel `x`");
    assert_eq!(
        refused(json!({"panel": "algebra", "operation": "add", "a": "4:1"})),
        "operation: there is no `add`"
    );
}

#[test]
fn an_operation_answers_as_the_crate_does() {
    let (a, b): (Layout, Layout) = (
        "(6,2):(8,2)".parse().unwrap(),
        "(4,3):(3,1)".parse().unwrap(),
    );
    let texts = (a.to_string(), b.to_string());
    let asked = |operation: &str, a: &str, b: &str| {
        reply(json!({"panel": "algebra", "operation": operation, "a": a, "b": b}))
    };
    let composed = asked("composition", &texts.0, &texts.1);
    assert_eq!(composed["title"], a.composition(&b).unwrap().to_string());
    let derivation = a.explain_composition(&b).to_string();
    assert_eq!(composed["texts"][0]["text"], derivation.trim_end());
    // The cell of the result, of B, and of A with index B(c) share a key.
    let (of_a, of_r) = (view(&composed, "A"), view(&composed, "R"));
    let c = 5;
    let index = b.at(c).unwrap();
    let at = (index % 6 * 2 + index / 6) as usize;
    assert!(keys(of_a, at).contains(&c));
    assert_eq!(keys(of_r, (c % 4 * 3 + c / 4) as usize), [c]);

    let one = |operation: &str, text: &str, b: &str| {
        asked(operation, text, b)["title"]
            .as_str()
            .unwrap()
            .to_string()
    };
    assert_eq!(one("coalesce", "(2,(1,6)):(1,(6,2))", ""), "12:1");
    assert_eq!(one("complement", "4:1", "24"), "6:4");
    assert_eq!(one("complement", "(2,2):(1,4)", ""), "2:2");
    let rows: Layout = "(4,8):(8,1)".parse().unwrap();
    assert_eq!(
        one("right_inverse", "(4,8):(8,1)", ""),
        rows.right_inverse().unwrap().to_string()
    );
    assert_eq!(
        one("left_inverse", "(4,8):(8,1)", ""),
        rows.left_inverse().unwrap().to_string()
    );
    let (nine, tiler) = ("(9,(4,8)):(59,(13,1))", "<3:3,(2,4):(1,8)>");
    let layout: Layout = nine.parse().unwrap();
    let cut: colex_layout::Tiler = tiler.parse().unwrap();
    for (name, result) in [
        ("logical_divide", layout.logical_divide(&cut)),
        ("zipped_divide", layout.zipped_divide(&cut)),
        ("tiled_divide", layout.tiled_divide(&cut)),
        ("flat_divide", layout.flat_divide(&cut)),
        ("logical_product", layout.logical_product(&cut)),
        ("zipped_product", layout.zipped_product(&cut)),
        ("tiled_product", layout.tiled_product(&cut)),
        ("flat_product", layout.flat_product(&cut)),
    ] {
        assert_eq!(
            one(name, nine, tiler),
            result.unwrap().to_string(),
            "{name}"
        );
    }
    let (two, grid): (Layout, Layout) = (
        "(2,5):(5,1)".parse().unwrap(),
        "(3,4):(1,3)".parse().unwrap(),
    );
    assert_eq!(
        one("blocked_product", "(2,5):(5,1)", "(3,4):(1,3)"),
        two.blocked_product(&grid).unwrap().to_string()
    );
    assert_eq!(
        one("raked_product", "(2,5):(5,1)", "(3,4):(1,3)"),
        two.raked_product(&grid).unwrap().to_string()
    );
}

/// The disagreements of the book's appendix, as the panel tells them.
#[test]
fn what_cute_answers_otherwise_is_said() {
    let says = |operation: &str, a: &str, b: &str| {
        let reply = reply(json!({"panel": "algebra", "operation": operation, "a": a, "b": b}));
        let facts = reply["facts"].as_array().expect("facts").clone();
        let cute = facts.iter().filter_map(|fact| {
            let name = fact[0].as_str()?;
            let is_cutes = name.starts_with("CuTe C++") || name == "which is wrong";
            is_cutes.then(|| format!("{name}: {}", fact[1].as_str().unwrap_or_default()))
        });
        cute.collect::<Vec<_>>().join("; ")
    };
    assert_eq!(
        says("composition", "(4,3):(1,10)", "4:3"),
        "CuTe C++ answers: (2,2):(3,10); \
         which is wrong: at index 2, where 4:3 is 6, the answer is 10, but (4,3):(1,10) at 6 is 12"
    );
    assert_eq!(
        says("composition", "(4,3):(1,10)", "6:1"),
        "CuTe C++ refuses: Shape Divisibility Condition"
    );
    assert_eq!(
        says("composition", "(4,6):(1,4)", "<2>"),
        "CuTe C++ answers: (2):(1)"
    );
    assert_eq!(
        says("complement", "(2,2):(2,3)", "8"),
        "CuTe C++ refuses: Non-injective Layout detected in complement."
    );
    assert_eq!(
        says("left_inverse", "(8,4,2):(13,2,1)", ""),
        "CuTe C++ refuses: Left inverse divisibility condition"
    );
    assert_eq!(
        says("left_inverse", "((8,2),(16,4)):((256,8),(1,32))", ""),
        "CuTe C++ answers: (8,4,8,8):(16,8,256,1); which is wrong: A(136) is 16, but A(R(16)) is 1"
    );
    assert_eq!(
        says("logical_divide", "(4,2):(10,1)", "(1,3):(0,1)"),
        "CuTe C++ answers: ((1,3),(2,2)):((0,10),(30,1)); \
         which is wrong: at index 4, where ((1,3),4):((0,1),3) is 4, the answer is 40, but (4,2):(10,1) at 4 is 1"
    );
    assert_eq!(
        says("downcast", "(1,12):(1,1)", "2"),
        "CuTe C++ answers: (2,24):(1,1); which is wrong: the result above obeys the law of the operation"
    );
    assert_eq!(says("recast", "4:1", "(6,16)"), "CuTe C++ answers: 3:1");
    assert_eq!(
        says("upcast", "(3,2):(2,3)", "6"),
        "CuTe C++ answers: (1,1):(1,1)"
    );
    assert_eq!(
        says("tile_to_shape", "(4,4):(1,4)", "(8,6)"),
        "CuTe C++ refuses: tile_to_shape: block shape does not divide the target shape."
    );
    assert_eq!(
        says("coalesce", "(2,2):(^1,^3)", ""),
        "CuTe C++ answers: not known: CuTe has no XOR strides"
    );
    assert_eq!(says("sum", "4:1", "4:2"), "");
}

#[test]
fn a_refusal_has_its_coordinate_and_cutes_answer() {
    let (a, b): (Layout, Layout) = ("(4,6,8):(2,3,5)".parse().unwrap(), "6:3".parse().unwrap());
    let why = a.composition(&b).expect_err("it is refused").to_string();
    let reply = reply(
        json!({"panel": "algebra", "operation": "composition", "a": "(4,6,8):(2,3,5)", "b": "6:3"}),
    );
    assert_eq!(reply["refusal"], why);
    assert!(why.contains("A(B(c)) is "), "{why}");
    let cute = a
        .cute_composition(&b)
        .map_or_else(|error| error.to_string(), |layout| layout.to_string());
    assert_eq!(fact(&reply, "CuTe C++ answers"), cute);
    let copied = asked(
        &json!({"panel": "algebra", "operation": "composition", "a": "(4,6,8):(2,3,5)", "b": "6:3",
        "copy": "SVG"}),
    );
    assert_eq!(
        copied["reply"],
        json!({"name": "SVG", "why": "there is no result"})
    );
    assert_eq!(view(&reply, "A")["rows"], 4);
}

#[test]
fn an_atom_shows_lanes_values_and_elements() {
    let atom = reply(json!({"panel": "atom", "name": "SM80_16x8x16_F32F16F16F32_TN"}));
    let maps = colex_atom::mma("SM80_16x8x16_F32F16F16F32_TN")
        .unwrap()
        .maps()
        .unwrap();
    for (name, map) in ["C", "A", "B"].into_iter().zip(&maps) {
        let grid = view(&atom, name);
        for row in 0..map.rows() {
            for col in 0..map.cols() {
                let (thread, value) = map.owners(row, col)[0];
                let at = (row * map.cols() + col) as usize;
                assert_eq!(grid["labels"][at], format!("T{thread}\nV{value}"));
                assert_eq!(linked(&grid["kin"], at), [thread]);
            }
        }
    }
    assert_eq!(
        view(&atom, "threads")["labels"].as_array().map(Vec::len),
        Some(32)
    );
    assert_eq!(
        view(&atom, "registers")["labels"].as_array().map(Vec::len),
        Some(4 + 8 + 4)
    );
    let volta = reply(json!({"panel": "atom", "name": "SM70_8x8x4_F32F16F16F32_NT"}));
    assert_eq!(
        view(&volta, "threads")["labels"][4],
        "T16",
        "a quad-pair is lanes 0 to 3 and 16 to 19"
    );
    let matrices = reply(json!({"panel": "atom", "name": "SM75_U32x4_LDSM_N"}));
    assert_eq!(fact(&matrices, "drawn in values of"), "16 bits");
    assert_eq!(view(&matrices, "Source")["labels"][8], "T1\nV0");
    let name = "SM90_64x256x16_F32F16F16_SS";
    let wgmma = reply(json!({"panel": "atom", "name": name}));
    assert_eq!(
        reply(json!({"panel": "atom", "name": name, "say": "B 0"}))["says"],
        "B, n = 0, k = 0: in shared memory"
    );
    assert_eq!(
        view(&wgmma, "C")["labels"],
        Json::Null,
        "16384 cells have no room for labels"
    );
}

#[test]
fn the_tables_are_listed_and_searched() {
    let rows = reply(json!({"panel": "atoms", "query": ""}));
    let listed = rows["atoms"].as_array().expect("a list");
    let members: u64 = listed
        .iter()
        .map(|row| row["members"].as_u64().unwrap())
        .sum();
    let all = colex_atom::mma_atoms().count() + colex_atom::copy_atoms().count();
    assert_eq!(members, all as u64, "every atom is of a row that is listed");
    let found = reply(json!({"panel": "atoms", "query": "ldmatrix x4"}));
    let names: Vec<&str> = found["atoms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|atom| atom["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "SM75_U32x4_LDSM_N",
            "SM75_U16x4_LDSM_T",
            "SM75_U16x8_LDSM_T"
        ]
    );
    assert!(
        refused(json!({"panel": "atom", "name": "SM80_16x8x16_F32F16F16F3"}))
            .contains("the nearest are SM80_16x8x16")
    );
}

#[test]
fn a_swizzle_frees_ldmatrix_of_conflicts() {
    let asked = |bits: &str| {
        json!({"panel": "swizzle", "bits": bits, "base": "3", "shift": "3", "layout": "(8,64):(64,1)",
            "element": "16", "lanes": "(8,4):(64,8)", "width": "16"})
    };
    let swizzled = reply(asked("3"));
    assert_eq!(swizzled["title"], "Sw<3,3,3> o 0 o (8,64):(64,1)");
    assert_eq!(
        fact(&swizzled, "conflicts before"),
        "32 passes for 4 phases, 8 words in a bank at most"
    );
    assert_eq!(
        fact(&swizzled, "conflicts after"),
        "4 passes for 4 phases, 1 word in a bank at most, free of conflicts"
    );
    assert!(
        swizzled["texts"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Sw<3,4,3> XORs bits 7..9")
    );
    assert_eq!(fact(&reply(asked("0")), "XORs bits"), "none into none");
    let card = view(&swizzled, "lanes-after");
    assert_eq!(
        (card["rows"].as_i64(), card["cols"].as_i64()),
        (Some(32), Some(32))
    );
    assert_eq!(
        refused(
            json!({"panel": "swizzle", "bits": "3", "base": "0", "shift": "3", "layout": "(8,64):(64,1)",
            "element": "16", "lanes": "(8,4):(64,8)", "width": "16"})
        ),
        "Sw<3,0,3> keeps 2 bytes together, and a lane moves 16: the base is too small"
    );
}

#[test]
fn tiled_operations_show_their_maps() {
    let copy = reply(
        json!({"panel": "copy", "atom": "UniversalCopy<uint128_t>", "element": "32",
        "threads": "(8,4):(1,8)", "values": "(4,1):(1,4)"}),
    );
    assert_eq!(fact(&copy, "Tiler_MN"), "(32,4)");
    assert_eq!(view(&copy, "Source")["labels"][0], "T0\nV0");
    let mma = reply(
        json!({"panel": "mma", "atom": "SM80_16x8x16_F32F16F16F32_TN", "atoms": "(2,2,1):(1,2,0)",
        "permutation": "(32,32,16)"}),
    );
    assert_eq!(fact(&mma, "tile"), "32 by 32 by 16");
    assert_eq!(
        view(&mma, "threads")["labels"].as_array().map(Vec::len),
        Some(128)
    );
    assert_eq!(
        refused(
            json!({"panel": "copy", "atom": "UniversalCopy<uint128_t>", "element": "32", "threads": "4:2", "values": "4:1"})
        ),
        colex_tiled::TiledCopy::new(
            colex_atom::copy("UniversalCopy<uint128_t>").unwrap(),
            32,
            "4:2",
            "4:1"
        )
        .unwrap_err()
        .to_string()
    );
}

/// The words of a large grid come cell by cell, and are those that a small grid has at once.
#[test]
fn law_a_cell_of_a_large_grid_says_what_it_is() {
    let large = layout("(64,64):(64,1)");
    assert_eq!(view(&large, "grid")["says"], Json::Null);
    let says = |text: &str, cell: usize| {
        let say = format!("grid {cell}");
        let said = reply(json!({"panel": "layout", "layout": text, "say": say}));
        said["says"].as_str().unwrap().to_string()
    };
    assert_eq!(says("(64,64):(64,1)", 65), "offset 65 at (1,1), index 65");
    assert_eq!(says("(64,64):(64,1)", 4096), "");
    let small = layout("(4,8):(8,1)");
    for cell in 0..32 {
        let at_once = &view(&small, "grid")["says"][cell];
        assert_eq!(*at_once, says("(4,8):(8,1)", cell));
    }
    println!("law a_cell_of_a_large_grid_says_what_it_is: 32 cells");
}

/// The examples of the library's documentation, through the panel.
#[test]
fn the_other_operations_answer_as_the_crate_does() {
    let cases = [
        ("nullspace", "(4,3,2):(1,0,4)", "", "3:4"),
        ("max_common_layout", "(8,4):(1,8)", "(8,4):(1,16)", "8:1"),
        ("max_common_vector", "(8,4):(1,8)", "(8,4):(1,16)", "8"),
        ("sum", "(4,8):(1,0)", "(4,8):(0,4)", "(4,8):(1,4)"),
        (
            "greatest_common_domain",
            "(4,6):(6,1)",
            "(8,3):(1,100)",
            "(4,2,3)",
        ),
        (
            "tile_to_shape",
            "(2,4):(4,1)",
            "(4,8)",
            "((2,2),(4,2)):((4,8),(1,16))",
        ),
        (
            "tiles",
            "(1000,512,64):(1,1000,512000)",
            "<128,256>",
            "(8,2,64)",
        ),
        ("upcast_exact", "(4,8):(8,1)", "4", "(4,2):(2,1)"),
        ("recast_exact", "32:1", "(1,32)", "1:1"),
        ("max_alignment", "(4,(2)):(1,(4))", "", "8"),
        ("filter", "(4,3,2):(1,0,4)", "", "8:1"),
        ("fragment_like", "(2,3,4):(12,4,1)", "", "(2,3,4):(1,8,2)"),
        (
            "slice",
            "((3,2),((2,3),2)):((4,1),((2,15),100))",
            "((_,1),_)",
            "(3,((2,3),2)):(4,((2,15),100))",
        ),
    ];
    for (operation, a, b, result) in cases {
        let reply = reply(json!({"panel": "algebra", "operation": operation, "a": a, "b": b}));
        let bare = |text: &str| text.replace('_', "");
        assert_eq!(
            bare(reply["title"].as_str().unwrap()),
            result,
            "{operation}"
        );
        let derivation = reply["texts"][0]["text"].as_str().unwrap();
        assert!(
            bare(derivation).ends_with(&format!("= {result}")),
            "{operation}: {derivation}"
        );
    }
}

#[test]
fn a_divide_and_a_product_say_what_cute_answers() {
    let asked = |operation: &str, a: &str, b: &str| {
        reply(json!({"panel": "algebra", "operation": operation, "a": a, "b": b}))
    };
    let divided = asked("logical_divide", "(4,2,3):(2,1,8)", "4:2");
    assert_eq!(fact(&divided, "in CuTe C++"), "logical_divide(A, B)");
    let bare = |text: &str| text.replace('_', "");
    // The example of CuTe's documentation.
    assert_eq!(
        bare(fact(&divided, "CuTe C++ answers")),
        "((2,2),(2,3)):((4,1),(2,8))"
    );
    let zipped = asked(
        "zipped_divide",
        "(9,(4,8)):(59,(13,1))",
        "<3:3,(2,4):(1,8)>",
    );
    assert_eq!(
        bare(fact(&zipped, "CuTe C++ answers")),
        "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    );
    assert_eq!(
        copied(&zipped, "CuTe C++")["text"],
        "auto A = make_layout(make_shape(9, make_shape(4, 8)), make_stride(59, make_stride(13, 1)));\n\
         auto B = make_tile(make_layout(3, 3), make_layout(make_shape(2, 4), make_stride(1, 8)));\n\
         auto R = zipped_divide(A, B);"
    );
    let product = asked("logical_product", "(2,2):(4,1)", "6:1");
    assert_eq!(
        bare(fact(&product, "CuTe C++ answers")),
        "((2,2),(2,3)):((4,1),(2,8))"
    );
    let none = asked("sum", "4:1", "4:2");
    assert_eq!(fact(&none, "in CuTe C++"), "no such operation");
    assert_eq!(
        copied(&none, "CuTe C++")["why"],
        "CuTe C++ has no such operation"
    );
    assert_eq!(
        copied(&asked("nullspace", "4:0", ""), "CuTe C++")["text"],
        "auto A = make_layout(4, 0);\nauto R = nullspace(A);"
    );
}

#[test]
fn an_operation_refuses_what_is_no_operand() {
    let why = |operation: &str, b: &str| {
        refused(json!({"panel": "algebra", "operation": operation, "a": "4:1", "b": b}))
    };
    assert_eq!(
        why("recast", "16"),
        "B: `16` is not a pair of bits such as (16,32)"
    );
    assert_eq!(
        why("upcast", "x"),
        "B: `x` is not a number from 0 to 9223372036854775807"
    );
}

#[test]
fn atoms_stay_within_a_block() {
    let atoms = |atoms: &str| json!({"panel": "mma", "atom": "SM80_16x8x16_F32F16F16F32_TN", "atoms": atoms, "permutation": ""});
    assert_eq!(
        refused(atoms("(2,2,1):(1024,2,0)")),
        "atoms: (2,2,1):(1024,2,0) reaches 32864 threads, and a block has 1024 at most"
    );
    reply(atoms("(4,8,1):(8,1,0)"));
}
