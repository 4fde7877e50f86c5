//! Requests drawn at random from every panel and every text that the page offers, with numbers of 2^10 to 2^62 in them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

/// The page's scripts: every quoted text of them is one that a reader can choose.
const PANELS: &str = include_str!("../../theme/explorer/panels.js");
/// How long an answer may take, without the optimization of the module for the browser and on a machine that runs other
/// tests; the browser holds the module to a tenth.
const SOON: Duration = Duration::from_secs(1);
/// An answer that takes longer never comes: the process ends, and says what was asked.
const NEVER: Duration = Duration::from_secs(20);
const TRIES: usize = 5;

/// Names the request that is not answered, since a thread that hangs cannot.
struct Watch {
    asked: Arc<Mutex<(Instant, String)>>,
    count: Arc<AtomicU64>,
}

impl Watch {
    fn start() -> Self {
        let asked = Arc::new(Mutex::new((Instant::now(), String::new())));
        let count = Arc::new(AtomicU64::new(0));
        let (seen, of) = (Arc::clone(&asked), Arc::clone(&count));
        thread::spawn(move || {
            // It ends with the test's value, of which it holds one part.
            while Arc::strong_count(&of) > 1 {
                thread::sleep(Duration::from_millis(100));
                let (since, request) = seen.lock().expect("no holder panics").clone();
                if !request.is_empty() && since.elapsed() > NEVER {
                    eprintln!("no answer within {NEVER:?} to {request}");
                    std::process::abort();
                }
            }
        });
        Self { asked, count }
    }

    /// Returns the answer, which comes soon.
    fn answer(&self, request: &Json) -> Json {
        let text = request.to_string();
        let shown: String = text.chars().take(600).collect();
        let timed = || {
            let start = Instant::now();
            *self.asked.lock().expect("no holder panics") = (start, shown.clone());
            let answer = colex_explorer::answer(&text);
            *self.asked.lock().expect("no holder panics") = (start, String::new());
            (start.elapsed(), answer)
        };
        let (mut took, answer) = timed();
        for _ in 1..TRIES {
            if took > SOON {
                took = took.min(timed().0);
            }
        }
        assert!(took < SOON, "{took:?} for {shown}");
        self.count.fetch_add(1, Ordering::Relaxed);
        let answer: Json = serde_json::from_str(&answer).expect("an answer is JSON");
        assert!(
            answer["error"].is_string() != answer["reply"].is_object(),
            "{shown}: {answer}"
        );
        answer
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A generator of numbers (Marsaglia's xorshift): the same requests in each run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn text<'a>(&mut self, texts: &'a [String]) -> &'a str {
        &texts[self.below(texts.len())]
    }

    /// Returns a number that is large, or near to a large one, or at an edge.
    fn number(&mut self) -> String {
        let power = 1_i64 << (10 + self.below(53));
        match self.below(8) {
            0 => (power - 1).to_string(),
            1 => (power + 1).to_string(),
            2 => (-power).to_string(),
            3 => (3 * (power / 4)).to_string(),
            4 => ["0", "1", "-1", "9223372036854775807", "9223372036854775808"][self.below(5)]
                .to_string(),
            _ => power.to_string(),
        }
    }

    /// Returns the text with one or two of its numbers replaced, or the text as often as a field can hold it, or deep.
    fn changed(&mut self, text: &str) -> String {
        match self.below(16) {
            0 => text.to_string(),
            1 => text.repeat(1 + self.below(8)),
            2 => format!("({text},{text})"),
            3 => format!("{}{text}{}", "(".repeat(30), ")".repeat(30)),
            4 => self.number(),
            _ => {
                let mut text = text.to_string();
                for _ in 0..1 + self.below(3) {
                    text = self.replaced(&text);
                }
                text
            }
        }
    }

    /// Returns the text with one of its numbers replaced.
    fn replaced(&mut self, text: &str) -> String {
        let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
        let starts: Vec<usize> = (0..text.len())
            .filter(|at| digit(*at) && (*at == 0 || !digit(*at - 1)))
            .collect();
        if starts.is_empty() {
            return text.to_string();
        }
        let start = starts[self.below(starts.len())];
        let end = (start..).find(|at| !digit(*at)).expect("a text ends");
        format!("{}{}{}", &text[..start], self.number(), &text[end..])
    }
}

/// Every text between quotes in the page's list of panels.
fn offered() -> Vec<String> {
    let mut texts: Vec<String> = PANELS
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .map(str::to_string)
        .collect();
    texts.sort();
    texts.dedup();
    texts
}

/// A request for each panel, with every field that it has.
fn panels() -> Vec<Json> {
    let of = |panel: &str, fields: Json| {
        let mut request = Map::from_iter([("panel".to_string(), json!(panel))]);
        request.extend(fields.as_object().expect("fields").clone());
        Json::Object(request)
    };
    vec![
        of(
            "layout",
            json!({"layout": "(4,8):(8,1)", "color": "bank32"}),
        ),
        of(
            "algebra",
            json!({"operation": "composition", "a": "(6,2):(8,2)", "b": "(4,3):(3,1)"}),
        ),
        of("atoms", json!({"query": "ldmatrix"})),
        of(
            "atom",
            json!({"name": "SM80_16x8x16_F32F16F16F32_TN", "kind": ""}),
        ),
        of(
            "swizzle",
            json!({"bits": "3", "base": "3", "shift": "3", "layout": "(8,64):(64,1)", "element": "16",
            "lanes": "(8,4):(64,8)", "width": "16"}),
        ),
        of(
            "copy",
            json!({"atom": "UniversalCopy<uint32_t>", "element": "32", "threads": "(8,4):(1,8)",
            "values": "(4,1):(1,4)", "tv": "", "tiler": "", "tensor": "(32,32):(32,1)"}),
        ),
        of(
            "copy",
            json!({"atom": "UniversalCopy<uint32_t>", "element": "32", "threads": "", "values": "",
            "tv": "((8,4),4):((4,32),1)", "tiler": "<32:1,8:1>", "tensor": "(64,32):(32,1)"}),
        ),
        of(
            "mma",
            json!({"atom": "SM80_16x8x16_F32F16F16F32_TN", "atoms": "(2,2,1):(1,2,0)",
            "permutation": "(_,(2,8):(8,1),_)"}),
        ),
        of(
            "mma",
            json!({"atom": "SM90_64x64x16_F32F16F16_SS", "atoms": "(2,1,1):(1,0,0)", "permutation": ""}),
        ),
        of(
            "tma",
            json!({"tensor": "(16,16):(16,1)", "element": "f16", "box": "(8,8)", "at": "(4,4)",
            "shared": "Sw<1,3,3> o 0 o (8,8):(8,1)"}),
        ),
        of(
            "descriptor",
            json!({"of": "tile", "atom": "SM90_64x64x16_F32F16F16_SS", "operand": "A",
                "tile": "Sw<3,3,3> o 0 o (64,16):(64,1)", "start": "1024"}),
        ),
        of(
            "descriptor",
            json!({"of": "im2col", "image": "(8,4,4,2)", "lower": "(-1,-1)", "upper": "(-1,-1)", "column": "(8,16)",
                "at": "(0,2,1,0)", "offsets": "(0,0)"}),
        ),
        of(
            "schedule",
            json!({"order": "GemmIdentity<2>", "tiles": "16x12", "cluster": "2x1", "workers": "132",
            "tile": "128x128x64", "bytes": "2", "k": "16", "cache": "50", "wave": "1"}),
        ),
        of(
            "pipeline",
            json!({"schedule": "pingpong", "stages": "3", "tiles": "2", "k": "8", "consumers": "2",
            "load": "4", "multiply": "2", "epilogue": "2", "mistake": "none", "step": "20"}),
        ),
        of(
            "kernel",
            json!({"kernel": "transpose", "n": "27", "blocks": "4", "threads": "8", "shared": "(32,32):(33,1)",
            "mistake": "none", "block": "0", "warp": "0", "step": "9"}),
        ),
        of(
            "kernel",
            json!({"kernel": "axpy", "n": "27", "blocks": "4", "threads": "8", "shared": "",
            "mistake": "none", "block": "0", "warp": "0", "step": "9"}),
        ),
    ]
}

/// The operations of the panel for algebra, as the page lists them.
fn operations() -> Vec<String> {
    let list = PANELS
        .split_once("explorer.OPERATIONS = {")
        .expect("it is there")
        .1;
    let list = list.split_once("};").expect("it ends").0;
    list.split(',')
        .filter_map(|entry| Some(entry.split_once(':')?.0.trim().to_string()))
        .collect()
}

/// What CuTe prints of operations and layouts, to paste.
fn prints(watch: &Watch) -> Vec<String> {
    let requests = panels();
    let of_operations = requests
        .iter()
        .filter(|request| ["copy", "mma"].contains(&request["panel"].as_str().expect("a panel")));
    let mut prints: Vec<String> = of_operations
        .map(|request| {
            let mut request = request.clone();
            request["copy"] = json!("What CuTe prints");
            request["permutation"] = json!("");
            let answer = watch.answer(&request);
            answer["reply"]["text"]
                .as_str()
                .unwrap_or_else(|| panic!("{answer}"))
                .to_string()
        })
        .collect();
    prints.push(
        "Sw<3,4,3> o smem_ptr[16b](0x7f3a00000400) o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))"
            .to_string(),
    );
    prints
}

/// Every field of every panel with texts of all panels and huge numbers: each gets an answer soon.
#[test]
fn law_drawn_requests_are_answered_soon() {
    let (watch, mut draw) = (Watch::start(), Draw(0x2545_f491_4f6c_dd1d));
    let (texts, panels, operations) = (offered(), panels(), operations());
    let copies = [
        "SVG",
        "LaTeX",
        "Text table",
        "What CuTe prints",
        "Tensor map",
        "Steps",
        "PTX",
    ];
    assert!(
        texts.len() > 200 && operations.len() > 14,
        "{} {}",
        texts.len(),
        operations.len()
    );
    for _ in 0..rounds(2500) {
        let mut request = panels[draw.below(panels.len())].clone();
        let fields: Vec<String> = request
            .as_object()
            .expect("fields")
            .keys()
            .filter(|name| *name != "panel")
            .cloned()
            .collect();
        if request["panel"] == "algebra" {
            request["operation"] = json!(draw.text(&operations));
        }
        for _ in 0..1 + draw.below(2) {
            let field = draw.text(&fields);
            // A text of its own more often than one of another field.
            let own = request[field].as_str().expect("a text").to_string();
            let text = if draw.below(3) > 0 && !own.is_empty() {
                own
            } else {
                draw.text(&texts).to_string()
            };
            if field != "operation" {
                request[field] = json!(draw.changed(&text));
            }
        }
        match draw.below(4) {
            0 => request["copy"] = json!(copies[draw.below(copies.len())]),
            1 => request["say"] = json!(format!("C {}", draw.number())),
            _ => {}
        }
        watch.answer(&request);
    }
    println!(
        "law drawn_requests_are_answered_soon: {} requests",
        watch.count()
    );
}

/// What CuTe prints with huge numbers in it: a panel or a sentence, and what the panel then shows comes soon too.
#[test]
fn law_drawn_pastes_are_answered_soon() {
    let (watch, mut draw) = (Watch::start(), Draw(0x9e37_79b9_7f4a_7c15));
    let prints = prints(&watch);
    let mut opened = 0;
    for round in 0..rounds(1500) {
        let mut text = draw.text(&prints).to_string();
        if round >= prints.len() {
            for _ in 0..1 + draw.below(3) {
                text = draw.replaced(&text);
            }
        }
        let answer = watch.answer(&json!({"panel": "paste", "text": text}));
        if let Some(fields) = answer["reply"]["fields"].as_object() {
            let mut request = Json::Object(fields.clone());
            request["panel"] = answer["reply"]["panel"].clone();
            watch.answer(&request);
            opened += 1;
        }
    }
    assert!(opened > 20, "{opened} pastes open a panel");
    println!(
        "law drawn_pastes_are_answered_soon: {} requests, {opened} panels opened",
        watch.count()
    );
}

/// How many requests a law draws: more where the variable says so.
fn rounds(count: usize) -> usize {
    std::env::var("COLEX_DRAWN")
        .ok()
        .and_then(|n| n.parse().ok())
        .map_or(count, |more: usize| more * count)
}
