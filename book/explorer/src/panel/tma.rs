//! TMA: a box over a tensor, what its load leaves in shared memory, and the tensor map that was derived.

use std::collections::BTreeMap;

use colex_atom::{Banks, TmaElement, TmaPlan, TmaTile};
use colex_draw::{Cell, Fill, Grid};
use colex_layout::{ComposedLayout, Layout, Tiler};

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell::{self, Language};
use crate::view::{Cells, Link, Reply, table};

/// The most elements of the tensor, or of the box, that are drawn.
const DRAWN: i64 = 1 << 12;
/// How far from the tensor a box may begin.
const FAR: i64 = 1 << 12;

/// The element types by the names of the page.
const ELEMENTS: [(&str, TmaElement); 7] = [
    ("u8", TmaElement::U8),
    ("f16", TmaElement::F16),
    ("bf16", TmaElement::Bf16),
    ("f32", TmaElement::F32),
    ("tf32", TmaElement::Tf32),
    ("s32", TmaElement::S32),
    ("f64", TmaElement::F64),
];

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

/// What the fields say.
struct BoxLoad {
    tensor: Layout,
    /// The extents of the tensor: rows and columns.
    extents: [i64; 2],
    tile: [i64; 2],
    at: [i64; 2],
    shared: ComposedLayout,
    element: TmaElement,
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let asked = asked(fields)?;
    let BoxLoad {
        tensor,
        tile: [rows, columns],
        at: [top, left],
        shared,
        element,
        ..
    } = &asked;
    let tiler: Tiler = read::typed("box", &format!("({rows},{columns})"))?;
    let plan = TmaPlan::new(TmaTile {
        global: tensor,
        tile: &tiler,
        shared,
        element: *element,
        multicast: 1,
    })
    .map_err(sentence)?;
    let title = format!("({rows},{columns}) of {tensor} at ({top},{left})");
    let mut reply = Reply::of(fields, title);
    facts(&mut reply, &plan);
    let instructions = plan.instructions().map_err(sentence)?;
    let loads = loads(&asked, &plan)?;
    let coordinates = plan.coordinates((*top, *left)).map_err(sentence)?;
    global(&mut reply, &asked, &loads);
    arrived(&mut reply, &asked, &loads);
    reply.view(table(
        "instructions",
        "Instructions: each moves one box of the map",
        &[
            "instruction",
            "offset in shared memory",
            "coordinates, innermost first",
        ],
        instructions.len(),
        |at| {
            let instruction = &instructions[at];
            // The plan counts them from where the box begins.
            let places = coordinates.iter().zip(&instruction.coordinates);
            let places: Vec<i64> = places.map(|(start, by)| start + by).collect();
            let cells = vec![
                at.to_string(),
                instruction.shared.to_string(),
                format!("{places:?}"),
            ];
            (cells, Link::default())
        },
    ));
    for view in super::descriptor::map_fields(plan.map(), &coordinates, &[]) {
        reply.view(view);
    }
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(format!(
            "let plan = TmaPlan::new(TmaTile {{ global: \"{tensor}\", tile: ({rows}, {columns}), shared: \"{shared}\", element: TmaElement::{element:?}, multicast: 1 }})?;"
        )),
    );
    let cpp = spell::plain(Language::Cpp, tensor).and_then(|tensor| {
        let shared = spell::composed(Language::Cpp, shared)?;
        Ok(format!(
            "make_tma_copy(SM90_TMA_LOAD{{}}, make_tensor(make_gmem_ptr(ptr), {tensor}), {shared})"
        ))
    });
    reply.copy("CuTe C++", cpp);
    reply.copy("PTX operand", operand(&plan));
    reply.copy_later("Tensor map", || Ok::<_, Sentence>(encoded(&plan)));
    Ok(reply)
}

fn facts(reply: &mut Reply, plan: &TmaPlan) {
    let map = plan.map();
    reply.fact("box", plan.box_layout());
    reply.fact("globalDim", format!("{:?}", map.dims));
    reply.fact("globalStrides, bytes", format!("{:?}", map.strides));
    reply.fact("boxDim", format!("{:?}", map.extents));
    reply.fact("swizzle", map.swizzle.cuda());
    reply.fact("type", map.element.cuda());
    reply.fact("bytes of the tile", plan.tile_bytes());
    let atom = plan.load().map(|atom| atom.name());
    reply.fact("loads with", atom.unwrap_or_else(sentence));
}

/// The brackets of a load's address: the map and the coordinates.
fn operand(plan: &TmaPlan) -> Result<String, Sentence> {
    let first = plan.instructions().map_err(sentence)?;
    let first = first.first().ok_or("the tile has no instruction")?;
    let coordinates: Vec<String> = (0..first.coordinates.len())
        .map(|at| format!("%c{at}"))
        .collect();
    Ok(format!("[%map, {{{}}}]", coordinates.join(", ")))
}

/// The arguments of `cuTensorMapEncodeTiled`, as text.
fn encoded(plan: &TmaPlan) -> String {
    let map = plan.map();
    format!(
        "cuTensorMapEncodeTiled(&map, {}, {}, address, {:?}, {:?}, {:?}, {:?}, .., {}, ..)",
        map.element.cuda(),
        map.rank(),
        map.dims,
        map.encoded_strides(),
        map.extents,
        map.element_strides,
        map.swizzle.cuda()
    )
}

fn asked(fields: &Fields) -> Result<BoxLoad, Sentence> {
    let tensor = read::layout("tensor", fields.text("tensor"))?;
    let [rows, columns] = tensor.leaves() else {
        return Err(format!("tensor: {tensor} is not a matrix of two modes"));
    };
    let extents = [rows.extent.value(), columns.extent.value()];
    let tile = pair("box", fields.text("box"), 1, 256)?;
    let at = pair("at", fields.text("at"), -FAR, FAR)?;
    for (what, [rows, columns]) in [("tensor", extents), ("box", tile)] {
        if rows.saturating_mul(columns) > DRAWN {
            return Err(format!(
                "{what}: it has {} elements, and the explorer draws {DRAWN} at most",
                rows.saturating_mul(columns)
            ));
        }
    }
    let element = fields.text("element");
    let element = ELEMENTS.iter().find(|(name, _)| *name == element);
    let (_, element) = element.ok_or_else(|| {
        let shown: String = fields.text("element").chars().take(24).collect();
        format!("element: there is no `{shown}`")
    })?;
    let shared = match fields.text("shared") {
        "" => {
            let [rows, columns] = tile;
            let by_rows = Layout::new((rows, columns), (columns, 1)).map_err(sentence)?;
            ComposedLayout::from(by_rows)
        }
        text => read::composed("shared", text)?,
    };
    Ok(BoxLoad {
        tensor,
        extents,
        tile,
        at,
        shared,
        element: *element,
    })
}

/// Reads two numbers as in `(4,8)`.
fn pair(what: &str, text: &str, low: i64, high: i64) -> Result<[i64; 2], Sentence> {
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let parts = inner.and_then(|inner| inner.split_once(','));
    let Some((first, second)) = parts else {
        let shown: String = text.chars().take(24).collect();
        return Err(format!("{what}: `{shown}` is not a pair such as (4,8)"));
    };
    Ok([
        read::number(what, first.trim(), low, high)?,
        read::number(what, second.trim(), low, high)?,
    ])
}

/// What one element of the tile is: its coordinate, whether the tensor has it, and its byte in shared memory.
struct Arrived {
    row: i64,
    column: i64,
    is_inside: bool,
    byte: i64,
    instruction: usize,
}

/// The elements that the instructions bring, each in its place.
fn loads(asked: &BoxLoad, plan: &TmaPlan) -> Result<Vec<Arrived>, Sentence> {
    let (map, bytes) = (plan.map(), asked.element.bytes());
    let [top, left] = asked.at;
    // The coordinates of the tile's origin in the map; those of the tile's boxes are relative to it.
    let origin = plan.coordinates((top, left)).map_err(sentence)?;
    let places = places(asked)?;
    let mut arrived = Vec::new();
    for (at, instruction) in plan.instructions().map_err(sentence)?.iter().enumerate() {
        let begin = origin.iter().zip(&instruction.coordinates);
        let begin: Vec<i64> = begin.map(|(origin, step)| origin + step).collect();
        for element in map.loaded(&begin).map_err(sentence)? {
            let offset = instruction.shared + element.shared / bytes;
            let Some(&(row, column)) = places.get(&offset) else {
                return Err(format!("the box has no element for the offset {offset}"));
            };
            let byte = instruction.shared * bytes + element.shared;
            arrived.push(Arrived {
                row: top + row,
                column: left + column,
                is_inside: element.global.is_some(),
                byte: map.swizzle.on_bytes().apply(byte),
                instruction: at,
            });
        }
    }
    Ok(arrived)
}

/// The coordinate in the tile of each offset of the shared layout before its swizzle.
fn places(asked: &BoxLoad) -> Result<BTreeMap<i64, (i64, i64)>, Sentence> {
    let [rows, columns] = asked.tile;
    let inner = asked.shared.inner();
    let mut places = BTreeMap::new();
    for column in 0..columns {
        for row in 0..rows {
            let offset = inner.at((row, column)).map_err(sentence)?;
            places.insert(offset, (row, column));
        }
    }
    Ok(places)
}

/// A key of an element of the tile.
fn key(asked: &BoxLoad, row: i64, column: i64) -> i64 {
    let [rows, columns] = asked.tile;
    let [top, left] = asked.at;
    let (row, column) = (row - top, column - left);
    if (0..rows).contains(&row) && (0..columns).contains(&column) {
        row * columns + column
    } else {
        -1
    }
}

/// The tensor with the box, and what of the box lies outside.
fn global(reply: &mut Reply, asked: &BoxLoad, loads: &[Arrived]) {
    const TITLE: &str = "The tensor and the box: what lies outside arrives as zeros";
    let ([rows, columns], [high, wide], [top, left]) = (asked.extents, asked.tile, asked.at);
    let (first_row, first_column) = (top.min(0), left.min(0));
    let down = rows.max(top.saturating_add(high)) - first_row;
    let across = columns.max(left.saturating_add(wide)) - first_column;
    if down.saturating_mul(across) > 2 * DRAWN {
        let why = "the box lies too far from the tensor to be drawn beside it".to_string();
        return reply.grid("global", TITLE, Err(why));
    }
    let loaded: BTreeMap<i64, &Arrived> = loads
        .iter()
        .map(|load| (key(asked, load.row, load.column), load))
        .collect();
    let at = |row: i64, column: i64| (row + first_row, column + first_column);
    let is_inside =
        |row: i64, column: i64| (0..rows).contains(&row) && (0..columns).contains(&column);
    let cell = |row: i64, column: i64| {
        let (row, column) = at(row, column);
        match loaded.get(&key(asked, row, column)) {
            Some(load) if load.is_inside => {
                Cell::new([format!("{row},{column}")]).filled(Fill::pastel(load.instruction as i64))
            }
            Some(_) => Cell::new(["0"]).filled(Fill::Void),
            None if is_inside(row, column) => Cell::default().filled(Fill::Scale(2)),
            None => Cell::default(),
        }
    };
    let grid = match Grid::from_fn(down, across, cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid("global", TITLE, Err(error.to_string())),
    };
    let say = |row, column| {
        let (row, column) = at(row, column);
        match (loaded.get(&key(asked, row, column)), is_inside(row, column)) {
            (Some(load), true) => format!(
                "({row},{column}) by instruction {} to byte {} of shared memory",
                load.instruction, load.byte
            ),
            (Some(load), false) => {
                format!("({row},{column}) is outside: a zero at byte {}", load.byte)
            }
            (None, true) => format!("({row},{column}) is not in the box"),
            (None, false) => format!("({row},{column}) is not in the tensor"),
        }
    };
    let link = |row, column| {
        let (row, column) = at(row, column);
        match key(asked, row, column) {
            -1 => Link::default(),
            key => Link::key(key),
        }
    };
    let names = (0..down).map(|row| (row + first_row).to_string());
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, link)
    };
    reply.grid("global", TITLE, Ok(cells));
}

/// Shared memory after the load, 128 bytes per row: which element lies where.
fn arrived(reply: &mut Reply, asked: &BoxLoad, loads: &[Arrived]) {
    const TITLE: &str = "Shared memory in rows of 128 bytes: the element at each place";
    let bytes = asked.element.bytes();
    let banks = Banks::SHARED;
    let columns = (banks.count() * banks.word() / bytes).min(asked.tile[0] * asked.tile[1]);
    let end = loads
        .iter()
        .map(|load| load.byte / bytes)
        .max()
        .unwrap_or(0)
        + 1;
    if end > DRAWN {
        let why = format!("its last element lies at {end}, and the explorer draws {DRAWN} at most");
        return reply.grid("shared", TITLE, Err(why));
    }
    let rows = (end + columns - 1) / columns;
    let placed: BTreeMap<i64, &Arrived> =
        loads.iter().map(|load| (load.byte / bytes, load)).collect();
    let here = |row: i64, column: i64| placed.get(&(row * columns + column));
    let cell = |row, column| match here(row, column) {
        None => Cell::default(),
        Some(load) if load.is_inside => Cell::new([format!("{},{}", load.row, load.column)])
            .filled(Fill::pastel(load.instruction as i64)),
        Some(_) => Cell::new(["0"]).filled(Fill::Void),
    };
    let grid = match Grid::from_fn(rows, columns, cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid("shared", TITLE, Err(error.to_string())),
    };
    let say = |row: i64, column: i64| {
        let byte = (row * columns + column) * bytes;
        let bank = byte / banks.word() % banks.count();
        match here(row, column) {
            None => format!("byte {byte}, bank {bank}: not written"),
            Some(load) => format!(
                "byte {byte}, bank {bank}: {}({},{})",
                if load.is_inside { "" } else { "a zero for " },
                load.row,
                load.column
            ),
        }
    };
    let link = |row, column| match here(row, column) {
        None => Link::default(),
        Some(load) => Link::key(key(asked, load.row, load.column)),
    };
    let names = (0..rows).map(|row| (row * columns * bytes).to_string());
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, link)
    };
    reply.grid("shared", TITLE, Ok(cells));
}
