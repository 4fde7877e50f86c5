//! The panels of what runs: schedules, pipelines, TMA boxes and kernels, against the crates' own results.

use colex_atom::{TmaElement, TmaPlan, TmaTile};
use colex_layout::ComposedLayout;
use colex_sched::pipeline::{Content, Durations, Walk, WarpSpecialized, check};
use colex_sched::{GemmCoord, Order, Tile};
use serde_json::{Value as Json, json};

fn asked(request: &Json) -> Json {
    let text = colex_explorer::answer(&request.to_string());
    serde_json::from_str(&text).expect("an answer is JSON")
}

fn reply(request: &Json) -> Json {
    let mut answer = asked(request);
    assert_eq!(answer["error"], Json::Null, "{request}");
    answer["reply"].take()
}

fn refused(request: &Json) -> String {
    let answer = asked(request);
    let sentence = answer["error"].as_str();
    sentence
        .unwrap_or_else(|| panic!("{request} is answered"))
        .to_string()
}

/// The request with other values of some fields.
fn with(request: &Json, fields: &[(&str, &str)]) -> Json {
    let mut request = request.clone();
    for (name, value) in fields {
        request[*name] = json!(value);
    }
    request
}

fn view<'a>(reply: &'a Json, id: &str) -> &'a Json {
    let views = reply["views"].as_array().expect("a reply has views");
    let found = views.iter().find(|view| view["id"] == id);
    found.unwrap_or_else(|| panic!("there is no view {id}"))
}

fn fact<'a>(reply: &'a Json, name: &str) -> &'a str {
    let facts = reply["facts"].as_array().expect("a reply has facts");
    let fact = facts.iter().find(|fact| fact[0] == name);
    fact.and_then(|fact| fact[1].as_str())
        .unwrap_or_else(|| panic!("there is no fact {name}"))
}

fn labels(view: &Json) -> Vec<&str> {
    let labels = view["labels"].as_array().expect("a small grid has labels");
    labels.iter().filter_map(Json::as_str).collect()
}

fn schedule() -> Json {
    json!({
        "panel": "schedule", "order": "GemmIdentity<2>", "tiles": "4x4", "cluster": "1x1", "workers": "4",
        "tile": "128x128x64", "bytes": "2", "k": "16", "cache": "1",
    })
}

/// Each tile shows its place in the order, and belongs to its wave.
#[test]
fn law_a_schedule_shows_the_raster() {
    let mut tiles = 0;
    for order in Order::candidates() {
        for (m, n, workers) in [(4, 4, 4), (5, 7, 6), (12, 3, 132), (1, 1, 1)] {
            let raster = order
                .raster(GemmCoord::new(m, n, 1), [1, 1])
                .expect("it has tiles");
            let fields = [
                ("order", order.to_string()),
                ("tiles", format!("{m}x{n}")),
                ("workers", workers.to_string()),
            ];
            let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let reply = reply(&with(&schedule(), &fields));
            let grid = view(&reply, "order");
            let expected = (0..m).flat_map(|m| (0..n).map(move |n| Tile::new(m, n, 0)));
            let expected: Vec<i64> = expected
                .map(|tile| raster.slot_of(tile).expect("a tile"))
                .collect();
            let texts: Vec<String> = expected.iter().map(i64::to_string).collect();
            assert_eq!(labels(grid), texts, "{order}");
            let kin: Vec<i64> = expected.iter().map(|slot| slot / workers).collect();
            assert_eq!(grid["kin"], json!(kin));
            let waves = (raster.slots().len() as i64 + workers - 1) / workers;
            assert_eq!(reply["last"]["wave"], waves);
            tiles += expected.len();
        }
    }
    println!("law a_schedule_shows_the_raster: {tiles} tiles");
}

#[test]
fn the_waves_of_the_chapter() {
    let one = reply(&with(&schedule(), &[("order", "GemmIdentity<1>")]));
    let two = reply(&schedule());
    // Four rows of A and a column of B; two of each.
    assert_eq!(
        view(&one, "waves")["rows"][0],
        json!(["0", "4", "4", "1", "1.25 MiB"])
    );
    assert_eq!(
        view(&two, "waves")["rows"][0],
        json!(["0", "4", "2", "2", "1.00 MiB"])
    );
    let begun = reply(&with(&schedule(), &[("wave", "1")]));
    let order = view(&begun, "order");
    let fills = order["fills"].as_array().expect("fills");
    let is_blank = |fill: &Json| order["classes"][fill.as_u64().unwrap_or(0) as usize] == "b0";
    assert_eq!(fills.iter().filter(|fill| !is_blank(fill)).count(), 4);
    assert_eq!(
        refused(&with(&schedule(), &[("tiles", "4")])),
        "tiles: 1 numbers, and 2 are wanted, as in 4x4"
    );
    assert_eq!(
        refused(&with(&schedule(), &[("tile", "4x4")])),
        "tile: 2 numbers, and 3 are wanted, as in 128x128x64"
    );
    assert_eq!(
        refused(&with(&schedule(), &[("tiles", "4x65")])),
        "tiles: `65` is not a number from 1 to 64"
    );
}

fn pipeline() -> Json {
    json!({
        "panel": "pipeline", "schedule": "cooperative", "stages": "3", "tiles": "1", "k": "8", "consumers": "1",
        "load": "4", "multiply": "2", "epilogue": "2", "mistake": "none",
    })
}

/// After each number of events the tables show what the walk says.
#[test]
fn law_a_pipeline_is_the_walk() {
    let plan = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(3, 1, 8)
    };
    let built = plan.build().expect("it is well formed");
    let durations = Durations {
        load: 4,
        multiply: 2,
        epilogue: 2,
    };
    let mut walk = Walk::new(&built, durations).expect("it is well formed");
    let mut events = 0;
    loop {
        let reply = reply(&with(&pipeline(), &[("step", &events.to_string())]));
        assert_eq!(fact(&reply, "time"), walk.time().to_string());
        let barriers = view(&reply, "barriers")["rows"].as_array().expect("rows");
        for (at, row) in barriers.iter().enumerate() {
            let now = walk.barrier(at);
            assert_eq!(row[1], now.parity.to_string());
            let arrivals = format!("{} of {}", now.pending, built.barriers[at].arrivals);
            assert_eq!(row[2], arrivals);
            assert_eq!(row[3], now.loads.to_string());
        }
        let slots = view(&reply, "stages")["rows"].as_array().expect("rows");
        for (at, row) in slots.iter().enumerate() {
            let (holds, reads) = match walk.slot(at) {
                Content::Nothing => ("nothing".to_string(), String::new()),
                Content::Loading(item) => (format!("{item} under way"), String::new()),
                Content::Full(item, reads) => (item.to_string(), reads.to_string()),
            };
            assert_eq!((&row[1], &row[2]), (&json!(holds), &json!(reads)));
        }
        let actors = view(&reply, "actors")["rows"].as_array().expect("rows");
        for (at, row) in actors.iter().enumerate() {
            assert_eq!(row[3], walk.waits_for(at).unwrap_or_default());
        }
        if walk.next().is_none() {
            assert_eq!(reply["last"]["step"], events);
            break;
        }
        events += 1;
    }
    println!("law a_pipeline_is_the_walk: {events} events");
}

/// Each planted mistake leads to a fault, which every interleaving has as well.
#[test]
fn mistakes_end_in_their_faults() {
    let faults = [
        ("arrivals", "deadlock: producer waits for empty[0]"),
        (
            "parity",
            "the multiply of 0 reads A of stage 0, which is waiting for 0 to land",
        ),
        ("wait", "an arrival at full[0] beyond its count"),
    ];
    for (mistake, start) in faults {
        let reply = reply(&with(&pipeline(), &[("mistake", mistake)]));
        let refusal = reply["refusal"].as_str().expect("a fault");
        assert!(refusal.contains(start), "{mistake}: {refusal}");
        assert!(!fact(&reply, "every interleaving").starts_with("no fault"));
    }
    let right = reply(&pipeline());
    assert_eq!(right["refusal"], Json::Null);
    let plan = WarpSpecialized {
        consumers: 1,
        ..WarpSpecialized::cooperative(3, 1, 8)
    };
    let report = check(&plan.build().expect("it is well formed")).expect("no fault");
    assert_eq!(
        fact(&right, "every interleaving"),
        format!(
            "no fault in {} states and {} transitions",
            report.states, report.transitions
        )
    );
    assert_eq!(
        refused(&with(&pipeline(), &[("schedule", "serial")])),
        "schedule: there is no `serial`"
    );
    assert_eq!(
        refused(&with(
            &pipeline(),
            &[("schedule", "multistage"), ("mistake", "parity")]
        )),
        "mistake: this pipeline has nothing that `parity` would change"
    );
}

fn tma() -> Json {
    json!({
        "panel": "tma", "tensor": "(6,12):(12,1)", "element": "f32", "box": "(4,8)", "at": "(4,8)", "shared": "",
    })
}

/// Shared memory holds what the tensor map of the plan loads, each element at the byte that its swizzle says.
#[test]
fn law_a_box_is_what_the_map_loads() {
    let boxes = [
        ("(6,12):(12,1)", [4, 8], [4, 8], "(4,8):(8,1)"),
        ("(6,12):(12,1)", [4, 8], [0, 0], "(4,8):(8,1)"),
        ("(6,12):(12,1)", [4, 8], [-1, -4], "(4,8):(8,1)"),
        (
            "(16,64):(64,1)",
            [8, 32],
            [8, 0],
            "Sw<3,2,3> o 0 o (8,32):(32,1)",
        ),
        ("(16,16):(1,16)", [8, 4], [4, 12], "(8,4):(1,8)"),
    ];
    let mut elements = 0;
    for (tensor, [rows, columns], [top, left], shared) in boxes {
        let layout: ComposedLayout = shared.parse().expect("a layout");
        let plan = TmaPlan::new(TmaTile {
            global: tensor,
            tile: (rows, columns),
            shared: &layout,
            element: TmaElement::F32,
            multicast: 1,
        })
        .expect("TMA moves it");
        let fields = [
            ("tensor", tensor.to_string()),
            ("box", format!("({rows},{columns})")),
            ("at", format!("({top},{left})")),
            ("shared", shared.to_string()),
        ];
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let reply = reply(&with(&tma(), &fields));
        let grid = view(&reply, "shared");
        let shown = labels(grid);
        let origin = plan.coordinates((top, left)).expect("it is a coordinate");
        let tensor: colex_layout::Layout = tensor.parse().expect("a layout");
        for instruction in plan.instructions().expect("few") {
            let begin: Vec<i64> = origin
                .iter()
                .zip(&instruction.coordinates)
                .map(|(a, b)| a + b)
                .collect();
            for element in plan.map().loaded(&begin).expect("it is loaded") {
                let byte = plan
                    .map()
                    .swizzle
                    .on_bytes()
                    .apply(4 * instruction.shared + element.shared);
                let label = shown[(byte / 4) as usize];
                match element.global {
                    None => assert_eq!(label, "0"),
                    Some(global) => {
                        let (row, column) = label.split_once(',').expect("a coordinate");
                        let at = (
                            row.parse::<i64>().expect("a row"),
                            column.parse::<i64>().expect("a column"),
                        );
                        assert_eq!(4 * tensor.at(at).expect("it is inside"), global);
                    }
                }
                elements += 1;
            }
        }
    }
    println!("law a_box_is_what_the_map_loads: {elements} elements");
}

#[test]
fn what_tma_cannot_do_is_said() {
    assert_eq!(
        refused(&with(&tma(), &[("tensor", "72:1")])),
        "tensor: 72:1 is not a matrix of two modes"
    );
    assert_eq!(
        refused(&with(&tma(), &[("box", "4")])),
        "box: `4` is not a pair such as (4,8)"
    );
    assert_eq!(
        refused(&with(&tma(), &[("element", "f8")])),
        "element: there is no `f8`"
    );
    assert_eq!(
        refused(&with(&tma(), &[("tensor", "(128,128):(128,1)")])),
        "tensor: it has 16384 elements, and the explorer draws 4096 at most"
    );
}

fn kernel(name: &str) -> Json {
    json!({
        "panel": "kernel", "kernel": name, "n": "27", "blocks": "4", "threads": "8", "shared": "(32,32):(32,1)",
        "mistake": "none", "block": "0", "warp": "0",
    })
}

/// Each kernel runs to its end, and with its mistake to the fault that the chapters show.
#[test]
fn kernels_end_or_fault() {
    let faults = [
        ("axpy", "8", "OutOfBounds"),
        ("exchange", "64", "Race"),
        ("bulk", "32", "MissingFence"),
        ("transpose", "256", "Race"),
    ];
    for (name, threads, kind) in faults {
        let right = reply(&with(&kernel(name), &[("threads", threads)]));
        assert_eq!(fact(&right, "verdict"), "no fault", "{name}");
        let wrong = with(
            &kernel(name),
            &[("threads", threads), ("mistake", "planted")],
        );
        let wrong = reply(&wrong);
        assert_eq!(fact(&wrong, "verdict"), kind, "{name}");
        assert!(wrong["refusal"].is_string());
    }
    let conflicts = |shared: &str| {
        let reply = reply(&with(&kernel("transpose"), &[("shared", shared)]));
        fact(&reply, "passes lost to bank conflicts").to_string()
    };
    // 32 lanes in one bank: 31 passes too many for each of the 32 columns.
    assert_eq!(conflicts("(32,32):(32,1)"), "992");
    assert_eq!(conflicts("(32,32):(33,1)"), "0");
    assert_eq!(conflicts("Sw<5,0,5> o 0 o (32,32):(32,1)"), "0");
}

/// Each step goes to the next statement: what is executed then is what came next before.
#[test]
fn law_a_step_is_a_statement() {
    let mut statements = 0;
    for name in ["axpy", "exchange", "bulk", "transpose"] {
        let request = with(
            &kernel(name),
            &[("threads", if name == "axpy" { "8" } else { "32" })],
        );
        let last = reply(&request)["last"]["step"].as_u64().expect("steps");
        let mut next = "nothing yet".to_string();
        for step in 1..=last {
            let reply = reply(&with(&request, &[("step", &step.to_string())]));
            assert_eq!(fact(&reply, "executed"), next, "{name}, step {step}");
            next = fact(&reply, "next").to_string();
            let marked = |id: &str| view(&reply, id)["current"].as_array().map_or(0, Vec::len);
            if step < last {
                assert_eq!(marked("source"), 1, "{name}, step {step}: {next}");
                assert!(marked("ptx") > 0, "{name}, step {step}: {next}");
            }
            statements += 1;
        }
        assert_eq!(next, "none", "{name}");
    }
    println!("law a_step_is_a_statement: {statements} statements");
}

#[test]
fn the_ptx_is_that_of_the_kernel() {
    let reply = reply(&kernel("axpy"));
    let lines = view(&reply, "ptx")["lines"].as_array().expect("lines");
    let shown: Vec<&str> = lines.iter().filter_map(Json::as_str).collect();
    let copied = asked(&with(&kernel("axpy"), &[("copy", "PTX")]));
    let text = copied["reply"]["text"].as_str().expect("PTX");
    assert_eq!(shown, text.lines().collect::<Vec<_>>());
    assert_eq!(refused(&kernel("gemm")), "kernel: there is no `gemm`");
}
