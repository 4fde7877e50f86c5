//! The descriptors: every bit, every element and every pixel as the crates say.

use colex_atom::{GmmaDescriptor, PixelBox, TensorMap, TmaElement};
use colex_layout::ComposedLayout;
use serde_json::{Value as Json, json};

fn asked(request: &Json) -> Json {
    let text = colex_explorer::answer(&request.to_string());
    serde_json::from_str(&text).expect("an answer is JSON")
}

fn refused(request: &Json) -> String {
    let answer = asked(request);
    answer["error"]
        .as_str()
        .unwrap_or_else(|| panic!("{request} is answered"))
        .to_string()
}

fn view<'a>(reply: &'a Json, id: &str) -> &'a Json {
    let views = reply["views"].as_array().expect("a reply has views");
    let found = views.iter().find(|view| view["id"] == id);
    found.unwrap_or_else(|| panic!("there is no view {id}"))
}

fn tile(atom: &str, operand: &str, tile: &str) -> Json {
    json!({"panel": "descriptor", "of": "tile", "atom": atom, "operand": operand, "tile": tile, "start": "1024"})
}

const TILES: [(&str, &str, &str); 5] = [
    (
        "SM90_64x64x16_F32F16F16_SS",
        "A",
        "Sw<3,3,3> o 0 o (64,16):(64,1)",
    ),
    (
        "SM90_64x64x16_F32F16F16_SS",
        "B",
        "Sw<2,3,3> o 0 o (64,16):(32,1)",
    ),
    (
        "SM90_64x64x16_F32F16F16_SS",
        "A",
        "Sw<1,3,3> o 0 o (64,16):(16,1)",
    ),
    ("SM90_64x64x16_F32F16F16_SS", "B", "(64,(8,2)):(8,(1,512))"),
    (
        "SM90_64x8x16_F32F16F16_SS",
        "B",
        "Sw<3,3,3> o 0 o (8,16):(64,1)",
    ),
];

/// The bits are those that the crate encodes, the fields have their values, and each element lies at its byte; it is
/// linked with the fields without which it lies elsewhere.
#[test]
fn law_a_descriptor_shows_its_tile() {
    let (mut bits_seen, mut elements) = (0, 0);
    for (atom, operand, text) in TILES {
        let layout: ComposedLayout = text.parse().expect("a layout");
        let row = colex_atom::mma(atom).expect("a row");
        let letter = operand.chars().next().expect("a letter");
        let descriptor = row.descriptor(letter, &layout).expect("canonical").at(1024);
        let bits = descriptor.encode().expect("it fits");
        let reply = asked(&tile(atom, operand, text))["reply"].take();
        assert_eq!(reply["title"], format!("{bits:#018x}"));
        let grid = view(&reply, "bits");
        for at in 0..64 {
            assert_eq!(grid["labels"][at], (bits >> (63 - at) & 1).to_string());
            bits_seen += 1;
        }
        let rows = view(&reply, "fields")["rows"]
            .as_array()
            .expect("rows")
            .clone();
        let whole = rows.iter().fold(0_u64, |whole, row| {
            let text = |at: usize| row[at].as_str().expect("a text");
            let first = text(1).split_once("..").expect("a range").0;
            let (first, value): (u32, u64) = (
                first.parse().expect("a bit"),
                text(2).parse().expect("a value"),
            );
            whole | value << first
        });
        assert_eq!(whole, bits, "the fields are the bits");
        let grid = view(&reply, "tile");
        let (mn, k) = (
            grid["rows"].as_i64().unwrap(),
            grid["cols"].as_i64().unwrap(),
        );
        let without_stride = GmmaDescriptor {
            stride: 0,
            ..descriptor
        };
        for index in 0..mn * k {
            let at = (index % mn * k + index / mn) as usize;
            let byte = layout.at(index).expect("an index") * 2 + 1024;
            assert_eq!(grid["labels"][at], byte.to_string(), "{text} at {index}");
            let says = grid["says"][at].as_str().expect("words");
            let other = without_stride
                .tile(colex_atom::Major::K, mn, k, 16)
                .expect("whole patterns");
            let moved = other.at(index).expect("an index") * 2 != byte;
            assert_eq!(says.contains("stride byte offset"), moved, "{says}");
            let kin: Vec<i64> = serde_json::from_value(grid["kin"][at].clone()).expect("a list");
            assert_eq!(kin.contains(&2), moved);
            elements += 1;
        }
    }
    println!("law a_descriptor_shows_its_tile: {elements} elements, {bits_seen} bits");
}

/// A number is shown as its fields, and what no field has is said.
#[test]
fn bits_are_decoded() {
    let request = json!({"panel": "descriptor", "of": "bits", "atom": "SM90_64x64x16_F32F16F16_SS", "operand": "A",
        "bits": "0x4000804000010000"});
    let reply = asked(&request)["reply"].take();
    let facts = reply["facts"].to_string();
    assert!(
        facts.contains(r#"["bits of no field","0x0000800000000000"]"#),
        "{facts}"
    );
    assert!(facts.contains(r#"["swizzle","SW128"]"#), "{facts}");
    let ptx = view(&reply, "ptx");
    assert_eq!(ptx["lines"][0], "mov.b64 %desc_a, 0x4000804000010000;");
    assert_eq!(
        ptx["lines"][1],
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%d0, ..}, %desc_a, %desc_b, ..;"
    );
}

/// The column walks over the images as the crate loads it.
#[test]
fn law_a_column_is_what_the_map_loads() {
    let pixels = PixelBox {
        lower: vec![-1, -1],
        upper: vec![-1, -1],
    };
    let map = TensorMap::im2col(
        TmaElement::F32,
        [vec![8, 4, 4, 2], vec![32, 128, 512]],
        [8, 16],
        pixels,
    );
    let mut walked = 0;
    for (start, offsets) in [
        ([0, 2, 1, 0], [0, 0]),
        ([0, -1, -1, 0], [2, 1]),
        ([0, 0, 0, 1], [1, 2]),
    ] {
        let loaded = map.loaded_at(&start, &offsets).expect("it may begin there");
        let request = json!({"panel": "descriptor", "of": "im2col", "image": "(8,4,4,2)", "lower": "(-1,-1)",
            "upper": "(-1,-1)", "column": "(8,16)", "at": format!("{start:?}").replace(['[', ']'], ""),
            "offsets": format!("({},{})", offsets[0], offsets[1])});
        let reply = asked(&request)["reply"].take();
        let grid = view(&reply, "column");
        for (at, element) in loaded.iter().enumerate() {
            let label = match element.global {
                None => "0".to_string(),
                Some(byte) => {
                    let pixel = byte / 32;
                    format!("{},{},{}", pixel % 4, pixel / 4 % 4, pixel / 16)
                }
            };
            assert_eq!(grid["labels"][at], label, "{start:?} {offsets:?} at {at}");
            walked += 1;
        }
        assert!(
            view(&reply, "fields")
                .to_string()
                .contains("pixelBoxLowerCorner[1]")
        );
    }
    println!("law a_column_is_what_the_map_loads: {walked} elements");
}

#[test]
fn what_has_no_descriptor_is_said() {
    let atom = "SM90_64x64x16_F32F16F16_SS";
    assert_eq!(
        refused(&tile(atom, "A", "(64,16):(16,1)")),
        "(64,16):(16,1) is not a canonical K-major layout of wgmma: without a swizzle, neighbouring rows lie 16 bytes apart, not 32"
    );
    assert_eq!(
        refused(&tile("SM90_64x64x16_F32F16F16_RS", "A", "(64,16):(16,1)")),
        "atom: SM90_64x64x16_F32F16F16_RS takes A from registers, so it has no descriptor"
    );
    assert_eq!(
        refused(&tile(atom, "C", "4:1")),
        "operand: `C` is not A or B"
    );
    let bits =
        json!({"panel": "descriptor", "of": "bits", "atom": atom, "operand": "A", "bits": "0xg"});
    assert_eq!(
        refused(&bits),
        "bits: `0xg` is not a hexadecimal number of 64 bits"
    );
    assert_eq!(
        refused(&json!({"panel": "descriptor", "of": "x"})),
        "of: there is no descriptor of `x`"
    );
    let image = |image: &str| json!({"panel": "descriptor", "of": "im2col", "image": image});
    assert_eq!(refused(&image("(8,4,4)")), "image: it has 3 numbers, not 4");
    assert_eq!(
        refused(&image("(64,64,2,1)")),
        "image: it has 8192 elements, and the explorer draws 4096 at most"
    );
}

/// Every panel offers what its value is in other languages; each text is there or says why not.
#[test]
fn every_panel_has_its_texts_to_copy() {
    let cases = [
        (
            json!({"panel": "layout", "layout": "(4,8):(8,1)"}),
            "Rust, CuTe C++, CuTe DSL, Text table, LaTeX, SVG",
        ),
        (
            json!({"panel": "algebra", "operation": "composition", "a": "(6,2):(8,2)", "b": "(4,3):(3,1)"}),
            "Rust, CuTe C++, CuTe C++ result, CuTe DSL result, LaTeX, SVG",
        ),
        (
            json!({"panel": "atom", "name": "SM80_16x8x16_F32F16F16F32_TN"}),
            "Rust, CuTe C++, PTX, LaTeX, SVG",
        ),
        (
            json!({"panel": "atom", "name": "SM75_U32x4_LDSM_N"}),
            "Rust, CuTe C++, PTX, LaTeX, SVG",
        ),
        (
            json!({"panel": "swizzle", "bits": "3", "base": "3", "shift": "3", "layout": "(8,64):(64,1)", "element": "16",
            "lanes": "(8,4):(64,8)", "width": "16"}),
            "Rust, CuTe C++, CuTe DSL, LaTeX, SVG",
        ),
        (
            json!({"panel": "copy", "atom": "UniversalCopy<uint128_t>", "element": "32", "threads": "(8,4):(1,8)",
            "values": "(4,1):(1,4)"}),
            "Rust, CuTe C++, CuTe DSL, PTX, What CuTe prints, LaTeX, SVG",
        ),
        (
            json!({"panel": "mma", "atom": "SM80_16x8x16_F32F16F16F32_TN", "atoms": "(2,2,1):(1,2,0)"}),
            "Rust, CuTe C++, CuTe DSL, PTX, What CuTe prints, LaTeX, SVG",
        ),
        (
            json!({"panel": "tma", "tensor": "(6,12):(12,1)", "element": "f32", "box": "(4,8)", "at": "(0,0)"}),
            "Rust, CuTe C++, PTX operand, Tensor map",
        ),
        (
            tile(TILES[0].0, TILES[0].1, TILES[0].2),
            "Rust, CuTe C++, PTX operand, SVG",
        ),
        (
            json!({"panel": "schedule", "order": "Hilbert", "tiles": "4x4", "cluster": "1x1", "workers": "4",
            "tile": "128x128x64", "bytes": "2", "k": "16", "cache": "1"}),
            "Rust, SVG",
        ),
        (
            json!({"panel": "pipeline", "schedule": "cooperative", "stages": "3", "tiles": "1", "k": "8", "consumers": "1",
            "load": "4", "multiply": "2", "epilogue": "2"}),
            "SVG, Steps",
        ),
        (
            json!({"panel": "kernel", "kernel": "axpy", "n": "27", "blocks": "4", "threads": "8", "block": "0", "warp": "0"}),
            "PTX, Text",
        ),
    ];
    for (request, offered) in cases {
        let reply = asked(&request)["reply"].take();
        let copies = reply["copies"]
            .as_array()
            .unwrap_or_else(|| panic!("{request}"));
        let names: Vec<&str> = copies
            .iter()
            .filter_map(|copy| copy["name"].as_str())
            .collect();
        assert_eq!(names.join(", "), offered, "{request}");
        for name in names {
            let mut request = request.clone();
            request["copy"] = json!(name);
            let copied = asked(&request)["reply"].take();
            assert!(
                copied["text"].as_str().is_some_and(|text| !text.is_empty()),
                "{request}: {copied}"
            );
        }
    }
}
