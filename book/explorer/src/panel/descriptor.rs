//! Descriptors: the bits that stand for a tile in shared memory, and the fields of an `im2col` tensor map, with the PTX
//! operands that they become.

use colex_atom::{GmmaDescriptor, Major, MmaAtom, PixelBox, TensorMap, TmaElement};
use colex_draw::{Cell, Fill, Grid, Picture};
use colex_layout::ComposedLayout;
use serde_json::{Value as Json, json};

use super::table::check_name;
use crate::fields::{Fields, Sentence};
use crate::read;
use crate::spell;
use crate::view::{Cells, Link, Reply, chips, svg, table};

/// The most elements of a tile, of an image or of a column that are drawn.
const DRAWN: i64 = 1 << 12;
/// The bits in one row of the drawing.
const ROW: i64 = 16;
/// The first key of an element, beside those of the 64 bits.
const ELEMENT: i64 = 64;

/// The fields of a matrix descriptor: name, first bit, width, and what a unit is.
const FIELDS: [(&str, i64, i64, &str); 5] = [
    ("start address", 0, 14, "16 bytes"),
    ("leading byte offset", 16, 14, "16 bytes"),
    ("stride byte offset", 32, 14, "16 bytes"),
    ("base offset", 49, 3, "rows of 128 bytes"),
    ("swizzle", 62, 2, "0 none, 1 128 B, 2 64 B, 3 32 B"),
];

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    match fields.text("of") {
        "tile" | "bits" => matrix(fields),
        "im2col" => im2col(fields),
        other => Err(format!("of: there is no descriptor of `{other}`")),
    }
}

/// The field that a bit belongs to.
fn field_of(bit: i64) -> Option<usize> {
    FIELDS
        .iter()
        .position(|(_, first, width, _)| (*first..first + width).contains(&bit))
}

/// The bits of a field in a descriptor.
fn value_of(bits: u64, field: usize) -> u64 {
    let (_, first, width, _) = FIELDS[field];
    bits >> first & ((1 << width) - 1)
}

/// An operand of a `wgmma` in shared memory.
struct SharedOperand {
    atom: MmaAtom,
    name: char,
    major: Major,
    /// The extents along M or N, and along K.
    extents: [i64; 2],
    /// The bits of an element.
    bits: u32,
}

fn operand(fields: &Fields) -> Result<SharedOperand, Sentence> {
    check_name(fields.text("atom"))?;
    let atom = colex_atom::mma(fields.text("atom")).map_err(|error| format!("atom: {error}"))?;
    let ([m, n, k], options) = (atom.mnk(), atom.options());
    let packing = atom.rule().packing() as i64;
    let (name, in_shared, extents, ty, major) = match fields.text("operand") {
        "A" => (
            'A',
            atom.a_in_shared(),
            [m, k / packing],
            atom.traits().ty_a,
            options.major_a,
        ),
        "B" => (
            'B',
            atom.b_in_shared(),
            [n, k],
            atom.traits().ty_b,
            options.major_b,
        ),
        other => {
            let shown: String = other.chars().take(24).collect();
            return Err(format!("operand: `{shown}` is not A or B"));
        }
    };
    if !in_shared {
        return Err(format!(
            "atom: {} takes {name} from registers, so it has no descriptor",
            atom.name()
        ));
    }
    Ok(SharedOperand {
        name,
        major,
        extents,
        bits: ty.bits(),
        atom,
    })
}

/// The 64 bits: of a typed number, or of a tile.
fn described(
    fields: &Fields,
    of: &SharedOperand,
) -> Result<(u64, Option<ComposedLayout>), Sentence> {
    if fields.text("of") == "bits" {
        let text = fields.text("bits");
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let bits = u64::from_str_radix(digits, 16).map_err(|_| {
            let shown: String = text.chars().take(24).collect();
            format!("bits: `{shown}` is not a hexadecimal number of 64 bits")
        })?;
        return Ok((bits, None));
    }
    let tile = read::composed("tile", fields.text("tile"))?;
    let start = match fields.text("start") {
        "" => 0,
        text => read::number("start", text, 0, (1 << 18) - 16)?,
    };
    let descriptor = of.atom.descriptor(of.name, &tile).map_err(sentence)?;
    let descriptor = descriptor.advanced(start);
    Ok((descriptor.encode().map_err(sentence)?, Some(tile)))
}

fn matrix(fields: &Fields) -> Result<Reply, Sentence> {
    let of = operand(fields)?;
    let (bits, tile) = described(fields, &of)?;
    let descriptor = GmmaDescriptor::decode(bits);
    let mut reply = Reply::of(fields, format!("{bits:#018x}"));
    let instruction = of.atom.op().map_err(sentence)?.ptx.clone();
    let major = match of.major {
        Major::K => "K",
        Major::MN => "MN",
    };
    reply.fact("operand", format!("{} of {}", of.name, of.atom.name()));
    reply.fact("major", major);
    reply.fact("swizzle", descriptor.swizzle.cute());
    let stray = descriptor.encode().map_or(0, |known| bits & !known);
    if stray != 0 {
        reply.fact("bits of no field", format!("{stray:#018x}"));
    }
    let [mn, k] = of.extents;
    let read = descriptor.tile(of.major, mn, k, of.bits);
    match &read {
        Ok(layout) => reply.fact("the hardware reads", layout),
        Err(error) => reply.refusal = Some(error.to_string()),
    }
    bit_grid(&mut reply, bits);
    field_table(&mut reply, bits);
    ptx(&mut reply, bits, &of, &instruction);
    immediates(&mut reply, &of);
    if let Ok(layout) = &read {
        elements(&mut reply, layout, &descriptor, &of)?;
    }
    let text = tile.as_ref().map_or_else(
        || format!("let descriptor = GmmaDescriptor::decode({bits:#018x});"),
        |tile| {
            format!(
                "let descriptor = colex_atom::mma(\"{}\")?.descriptor('{}', \"{tile}\")?.advanced({});",
                of.atom.name(),
                of.name,
                descriptor.start
            )
        },
    );
    reply.copy("Rust", Ok::<_, Sentence>(text));
    let cpp = match &tile {
        Some(tile) => spell::composed(spell::Language::Cpp, tile).map(|tile| {
            format!("auto desc = SM90::GMMA::make_gmma_desc<SM90::GMMA::Major::{major}>(make_tensor(make_smem_ptr(ptr), {tile}));")
        }),
        None => Err("only a tile makes a descriptor in CuTe C++; these are bits"),
    };
    reply.copy("CuTe C++", cpp);
    reply.copy("PTX operand", Ok::<_, Sentence>(format!("{bits:#018x}")));
    reply.copy_later("SVG", || {
        Ok::<_, Sentence>(svg(
            Picture::of(bit_cells(bits)).title(format!("{bits:#018x}, the highest bit first"))
        ))
    });
    Ok(reply)
}

/// The bit of a cell: the highest first.
fn bit_at(row: i64, col: i64) -> i64 {
    63 - (row * ROW + col)
}

/// The 64 bits, 16 in a row, coloured by field.
fn bit_cells(bits: u64) -> Grid {
    let cell = |row, col| {
        let bit = bit_at(row, col);
        let text = (bits >> bit & 1).to_string();
        match field_of(bit) {
            Some(field) => Cell::new([text]).filled(Fill::pastel(field as i64)),
            None => Cell::new([text]).filled(Fill::Void),
        }
    };
    Grid::from_fn(64 / ROW, ROW, cell).expect("64 cells can be drawn")
}

fn bit_grid(reply: &mut Reply, bits: u64) {
    let grid = bit_cells(bits);
    let say = |row, col| {
        let bit = bit_at(row, col);
        match field_of(bit) {
            Some(field) => {
                let (name, first, ..) = FIELDS[field];
                format!(
                    "bit {bit}: bit {} of the {name}, whose value is {}",
                    bit - first,
                    value_of(bits, field)
                )
            }
            None => format!("bit {bit}: of no field"),
        }
    };
    let link = |row, col| {
        let bit = bit_at(row, col);
        field_of(bit).map_or(Link::key(bit), |field| Link::of(bit, field as i64))
    };
    let names = (0..64 / ROW).map(|row| format!("{}..{}", bit_at(row, 0), bit_at(row, ROW - 1)));
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, link)
    };
    reply.grid("bits", "Bits, the highest first", Ok(cells));
}

fn field_table(reply: &mut Reply, bits: u64) {
    reply.view(table(
        "fields",
        "Fields",
        &["field", "bits", "value", "in units of"],
        FIELDS.len(),
        |field| {
            let (name, first, width, unit) = FIELDS[field];
            let cells = vec![
                name.to_string(),
                format!("{first}..{}", first + width - 1),
                value_of(bits, field).to_string(),
                unit.to_string(),
            ];
            let link = Link {
                keys: (first..first + width).collect(),
                kin: vec![field as i64],
            };
            (cells, link)
        },
    ));
}

/// The lines of PTX that use the descriptor; they are linked with every bit of it.
fn ptx(reply: &mut Reply, bits: u64, of: &SharedOperand, instruction: &str) {
    let register = format!("%desc_{}", of.name.to_ascii_lowercase());
    let first = if of.atom.a_in_shared() {
        "%desc_a"
    } else {
        "{%a0, ..}"
    };
    let lines = [
        format!("mov.b64 {register}, {bits:#018x};"),
        format!("{instruction} {{%d0, ..}}, {first}, %desc_b, ..;"),
    ];
    let all: Vec<i64> = (0..64).collect();
    reply.view(json!({
        "kind": "code", "id": "ptx", "title": "PTX: the operand that the bits become",
        "lines": lines, "keys": [all.clone(), all], "current": Vec::<usize>::new(),
    }));
}

/// What the instruction itself says of its operands, as immediate operands: Hopper has no descriptor of an instruction.
fn immediates(reply: &mut Reply, of: &SharedOperand) {
    let options = of.atom.options();
    let transposed = |major| u8::from(major == Major::MN);
    let scale = |negates| if negates { -1 } else { 1 };
    let items = vec![
        format!("imm-scale-a = {}", scale(options.negate_a)),
        format!("imm-scale-b = {}", scale(options.negate_b)),
        format!("imm-trans-a = {}", transposed(options.major_a)),
        format!("imm-trans-b = {}", transposed(options.major_b)),
    ];
    let items = items.into_iter().map(|text| (text, Link::default()));
    reply.view(chips(
        "immediates",
        "Immediate operands of the instruction: a transposed operand is MN-major",
        items.collect(),
    ));
}

/// The tile that the descriptor names: the byte of each element, and the fields that move it there.
fn elements(
    reply: &mut Reply,
    layout: &ComposedLayout,
    descriptor: &GmmaDescriptor,
    of: &SharedOperand,
) -> Result<(), Sentence> {
    let [mn, k] = of.extents;
    let title = format!(
        "{}, {} down and k across: the byte that the hardware reads",
        of.name,
        if of.name == 'A' { "m" } else { "n" }
    );
    if mn * k > DRAWN {
        let why = format!(
            "it has {} elements, and the explorer draws {DRAWN} at most",
            mn * k
        );
        reply.grid("tile", &title, Err(why));
        return Ok(());
    }
    // Without a field, an element lies elsewhere if the field moves it.
    let without = [
        Some(GmmaDescriptor {
            start: 0,
            ..*descriptor
        }),
        Some(GmmaDescriptor {
            leading: 0,
            ..*descriptor
        }),
        Some(GmmaDescriptor {
            stride: 0,
            ..*descriptor
        }),
        None,
        None,
    ];
    let offsets = |layout: &ComposedLayout| layout.table().map_err(sentence);
    let here = offsets(layout)?;
    let mut moved: Vec<Vec<i64>> = vec![Vec::new(); here.len()];
    for (field, other) in without.iter().enumerate() {
        let Some(other) = other else { continue };
        let there = offsets(&other.tile(of.major, mn, k, of.bits).map_err(sentence)?)?;
        for (at, moved) in moved.iter_mut().enumerate() {
            if there[at] != here[at] {
                moved.push(field as i64);
            }
        }
    }
    let plain = descriptor.start * 8 / i64::from(of.bits);
    for (at, moved) in moved.iter_mut().enumerate() {
        let unswizzled = layout.inner().at(at as i64).map_err(sentence)? + plain;
        if unswizzled != here[at] {
            moved.push(FIELDS.len() as i64 - 1);
        }
    }
    let byte = |index: i64| here[index as usize] * i64::from(of.bits) / 8;
    let cell = |row, col| {
        let byte = byte(row + mn * col);
        Cell::new([byte.to_string()]).filled(Fill::pastel(byte / 16))
    };
    let grid = Grid::from_fn(mn, k, cell).map_err(sentence)?;
    let say = |row, col| {
        let index = row + mn * col;
        let names: Vec<&str> = moved[index as usize]
            .iter()
            .map(|field| FIELDS[*field as usize].0)
            .collect();
        let by = match &names[..] {
            [] => "no field moves it".to_string(),
            names => format!("moved by {}", names.join(", ")),
        };
        format!("({row},{col}) at byte {}: {by}", byte(index))
    };
    let link = |row, col| {
        let index = row + mn * col;
        Link {
            keys: vec![ELEMENT + index],
            kin: moved[index as usize].clone(),
        }
    };
    reply.grid("tile", &title, Ok(Cells::new(&grid, say, link)));
    Ok(())
}

/// The fields of a tensor map, each linked with the dimension that it is about, and the PTX operands of that dimension.
pub(crate) fn map_fields(map: &TensorMap, coordinates: &[i64], offsets: &[i64]) -> [Json; 2] {
    let mut rows: Vec<(String, String, Option<i64>)> = vec![
        ("tensorDataType".into(), map.element.cuda().into(), None),
        ("tensorRank".into(), map.rank().to_string(), None),
        ("swizzle".into(), map.swizzle.cuda().into(), None),
    ];
    let strides = map.encoded_strides();
    for at in 0..map.rank() {
        let dimension = Some(at as i64);
        let mut row = |name: &str, value: i64| {
            rows.push((format!("{name}[{at}]"), value.to_string(), dimension));
        };
        row("globalDim", map.dims[at]);
        row("elementStrides", map.element_strides[at]);
        if map.im2col.is_none() {
            row("boxDim", map.extents[at]);
        }
        if let Some(stride) = at.checked_sub(1).and_then(|at| strides.get(at)) {
            rows.push((
                format!("globalStrides[{}]", at - 1),
                stride.to_string(),
                dimension,
            ));
        }
    }
    if let Some(pixels) = &map.im2col {
        for (at, (lower, upper)) in pixels.lower.iter().zip(&pixels.upper).enumerate() {
            let dimension = Some(at as i64 + 1);
            rows.push((
                format!("pixelBoxLowerCorner[{at}]"),
                lower.to_string(),
                dimension,
            ));
            rows.push((
                format!("pixelBoxUpperCorner[{at}]"),
                upper.to_string(),
                dimension,
            ));
        }
        rows.push((
            "channelsPerPixel".into(),
            map.extents[0].to_string(),
            Some(0),
        ));
        rows.push(("pixelsPerColumn".into(), map.extents[1].to_string(), None));
    }
    let kin = |dimension: Option<i64>| Link {
        keys: Vec::new(),
        kin: dimension.into_iter().collect(),
    };
    let fields = table(
        "fields",
        "Fields of the tensor map",
        &["field", "value", "PTX operand of its dimension"],
        rows.len(),
        |at| {
            let (name, value, dimension) = &rows[at];
            let operand = dimension.map_or("%map".to_string(), |at| format!("%c{at}"));
            (vec![name.clone(), value.clone(), operand], kin(*dimension))
        },
    );
    let mut items = vec![("[%map,".to_string(), Link::default())];
    let of = |at: usize, n: &i64| (format!("%c{at} = {n}"), kin(Some(at as i64)));
    items.extend(coordinates.iter().enumerate().map(|(at, n)| of(at, n)));
    let of = |at: usize, n: &i64| (format!("%o{at} = {n}"), kin(Some(at as i64 + 1)));
    items.extend(offsets.iter().enumerate().map(|(at, n)| of(at, n)));
    let operands = chips(
        "operands",
        "PTX operands of the load: coordinates, innermost first, and the offsets of an im2col load",
        items,
    );
    [fields, operands]
}

/// Reads numbers as in `(8,4,4,2)`.
fn numbers(
    what: &str,
    text: &str,
    count: usize,
    low: i64,
    high: i64,
) -> Result<Vec<i64>, Sentence> {
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or(text);
    let found: Vec<i64> = inner
        .split(',')
        .map(|part| read::number(what, part.trim(), low, high))
        .collect::<Result<_, _>>()?;
    if found.len() == count {
        return Ok(found);
    }
    Err(format!(
        "{what}: it has {} numbers, not {count}",
        found.len()
    ))
}

fn im2col(fields: &Fields) -> Result<Reply, Sentence> {
    let list = |name: &str, count, low, high| numbers(name, fields.text(name), count, low, high);
    let image = list("image", 4, 1, 256)?;
    let size = image.iter().product::<i64>();
    if size > DRAWN {
        return Err(format!(
            "image: it has {size} elements, and the explorer draws {DRAWN} at most"
        ));
    }
    let column = list("column", 2, 1, 256)?;
    let [channels, count] = [column[0], column[1]];
    if channels * count > DRAWN {
        return Err(format!(
            "column: it has {} elements, and the explorer draws {DRAWN} at most",
            channels * count
        ));
    }
    let pixels = PixelBox {
        lower: list("lower", 2, -128, 127)?,
        upper: list("upper", 2, -128, 127)?,
    };
    let start = list("at", 4, -256, 256)?;
    let offsets = list("offsets", 2, 0, 255)?;
    let element = TmaElement::F32;
    let bytes = element.bytes();
    let strides = vec![
        bytes * image[0],
        bytes * image[0] * image[1],
        bytes * image[0] * image[1] * image[2],
    ];
    let map = TensorMap::im2col(element, [image.clone(), strides], [channels, count], pixels);
    let loaded = map.loaded_at(&start, &offsets).map_err(sentence)?;
    let mut reply = Reply::of(
        fields,
        format!("{count} pixels of {channels} channels from {start:?}"),
    );
    let outside = loaded
        .iter()
        .filter(|element| element.global.is_none())
        .count();
    reply.fact("elements", loaded.len());
    reply.fact("outside, filled with zeros", outside);
    for view in map_fields(&map, &start, &offsets) {
        reply.view(view);
    }
    // The pixel of the image that each pixel of the column is.
    let pixel = |at: i64| {
        let element = loaded.get((at * channels) as usize);
        let first = element.and_then(|element| element.global);
        first.map(|byte| byte / bytes / image[0])
    };
    column_grid(&mut reply, &image, [channels, count], &pixel);
    image_grid(&mut reply, &image, count, &pixel);
    let operand = "[%map, {%c0, %c1, %c2, %c3}], [%barrier], {%o0, %o1}";
    reply.copy("PTX operand", Ok::<_, Sentence>(operand.to_string()));
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(format!(
            "let map = TensorMap::im2col(TmaElement::F32, [vec!{:?}, vec!{:?}], [{channels}, {count}], PixelBox {{ lower: vec!{:?}, upper: vec!{:?} }});",
            map.dims,
            map.strides,
            map.im2col.as_ref().map_or(&[][..], |pixels| &pixels.lower),
            map.im2col.as_ref().map_or(&[][..], |pixels| &pixels.upper)
        )),
    );
    Ok(reply)
}

/// The place of a pixel: along W, along H, and its image.
fn place(image: &[i64], pixel: i64) -> [i64; 3] {
    [
        pixel % image[1],
        pixel / image[1] % image[2],
        pixel / image[1] / image[2],
    ]
}

/// A row for each pixel of the column, with its channels.
fn column_grid(
    reply: &mut Reply,
    image: &[i64],
    [channels, count]: [i64; 2],
    pixel: &dyn Fn(i64) -> Option<i64>,
) {
    const TITLE: &str = "Shared memory: a row per pixel of the column, its channels across";
    let cell = |row, _| match pixel(row) {
        Some(pixel) => {
            let [w, h, n] = place(image, pixel);
            Cell::new([format!("{w},{h},{n}")]).filled(Fill::pastel(pixel))
        }
        None => Cell::new(["0"]).filled(Fill::Void),
    };
    let grid = match Grid::from_fn(count, channels, cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid("column", TITLE, Err(error.to_string())),
    };
    let say = |row, col| match pixel(row) {
        Some(pixel) => {
            let [w, h, n] = place(image, pixel);
            format!("pixel {row} of the column, channel {col}: w = {w}, h = {h} of image {n}")
        }
        None => format!("pixel {row} of the column, channel {col}: outside, a zero"),
    };
    let link = |row, _| pixel(row).map_or(Link::default(), Link::key);
    reply.grid("column", TITLE, Ok(Cells::new(&grid, say, link)));
}

/// The images below each other: the number of each pixel in the column.
fn image_grid(reply: &mut Reply, image: &[i64], count: i64, pixel: &dyn Fn(i64) -> Option<i64>) {
    const TITLE: &str = "The images, h down and w across: which pixel of the column each is";
    let mut order = vec![None; (image[1] * image[2] * image[3]) as usize];
    for at in 0..count {
        if let Some(place) = pixel(at).and_then(|pixel| order.get_mut(pixel as usize)) {
            *place = Some(at);
        }
    }
    let index = |row: i64, col: i64| row * image[1] + col;
    let cell = |row, col| match order[index(row, col) as usize] {
        Some(at) => Cell::new([at.to_string()]).filled(Fill::pastel(index(row, col))),
        None => Cell::default(),
    };
    let grid = match Grid::from_fn(image[2] * image[3], image[1], cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid("image", TITLE, Err(error.to_string())),
    };
    let say = |row, col| {
        let [w, h, n] = place(image, index(row, col));
        match order[index(row, col) as usize] {
            Some(at) => format!("w = {w}, h = {h} of image {n}: pixel {at} of the column"),
            None => format!("w = {w}, h = {h} of image {n}: not in the column"),
        }
    };
    let names =
        (0..image[2] * image[3]).map(|row| format!("{}: {}", row / image[2], row % image[2]));
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(&grid, say, |row, col| Link::key(index(row, col)))
    };
    reply.grid("image", TITLE, Ok(cells));
}
