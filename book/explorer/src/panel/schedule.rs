//! Schedules: the order of the tiles, its waves, what they read through L2, and the shares of stream-K.

use colex_draw::{Fill, Grid, Picture};
use colex_sched::{
    Decomposition, GemmCoord, Order, Quantization, Raster, StreamKSm90, StreamKSm90Args, Tile,
    TileBytes, l2_traffic_coarse, wave_costs,
};

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::view::{Cells, Link, Reply, svg, table};

/// The most tiles along one side.
const SIDE: i64 = 64;
/// The steps along k in which the cache is modelled, at least.
const SLICES: i64 = 4;

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

/// What the fields say.
struct TileOrder {
    order: Order,
    tiles: [i64; 2],
    cluster: [i64; 2],
    workers: i64,
    k_tiles: i64,
    bytes: TileBytes,
    /// The bytes of the L2 cache.
    cache: i64,
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let asked = asked(fields)?;
    let [m, n] = asked.tiles;
    let raster = asked
        .order
        .raster(GemmCoord::new(m, n, 1), asked.cluster)
        .map_err(sentence)?;
    let picture = raster.picture(asked.workers).map_err(sentence)?;
    let mut reply = Reply::of(fields, format!("{} over {m} by {n} tiles", asked.order));
    let waves = wave_costs(&raster, asked.workers, &asked.bytes).map_err(sentence)?;
    let wave = match fields.text("wave") {
        "" => 0,
        text => read::number("wave", text, 0, 1 << 20)? as usize,
    };
    let wave = wave.min(waves.len());
    reply.last("wave", waves.len());
    let quantization = Quantization::of_raster(&raster, asked.workers).map_err(sentence)?;
    reply.fact("places", raster.slots().len());
    reply.fact("places without a tile", raster.idle());
    reply.fact("waves", waves.len());
    reply.fact("tiles of the busiest worker", quantization.rounds);
    reply.fact(
        "efficiency",
        format!("{:.1} %", 100.0 * quantization.efficiency()),
    );
    let traffic = l2_traffic_coarse(&raster, asked.workers, &asked.bytes, asked.cache, SLICES)
        .map_err(sentence)?;
    reply.fact("requested of L2", mebibytes(traffic.requested));
    reply.fact("fetched from memory", mebibytes(traffic.fetched));
    reply.fact("L2 hits", format!("{:.1} %", 100.0 * traffic.hit_rate()));

    order(&mut reply, &raster, &picture, asked.workers, wave);
    reply.view(table(
        "waves",
        "Waves: the panels of A and B that each touches",
        &["wave", "tiles", "rows of A", "columns of B", "A and B"],
        waves.len(),
        |at| {
            let cost = &waves[at];
            let cells = vec![
                at.to_string(),
                cost.tiles.to_string(),
                cost.rows.to_string(),
                cost.columns.to_string(),
                mebibytes(cost.bytes()),
            ];
            let kin = vec![at as i64];
            (cells, Link { keys: vec![], kin })
        },
    ));
    shares(&mut reply, &asked);
    reply.copy(
        "Rust",
        Ok::<_, Sentence>(format!(
            "let raster = \"{}\".parse::<Order>()?.raster(GemmCoord::new({m}, {n}, 1), {:?})?;",
            asked.order, asked.cluster
        )),
    );
    reply.copy_later("SVG", || Ok::<_, Sentence>(svg(picture)));
    Ok(reply)
}

fn mebibytes(bytes: i64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

fn asked(fields: &Fields) -> Result<TileOrder, Sentence> {
    let number = |name: &str, low, high| read::number(name, fields.text(name), low, high);
    let order: Order = fields.text("order").parse().map_err(sentence)?;
    let tiles = product("tiles", fields.text("tiles"), SIDE)?;
    let cluster = product("cluster", fields.text("cluster"), 16)?;
    let tile = product("tile", fields.text("tile"), 1024)?;
    let [tile_m, tile_n, tile_k] = tile;
    let k_tiles = number("k", 1, 256)?;
    let bytes = number("bytes", 1, 8)?;
    let mut bytes =
        TileBytes::new(GemmCoord::new(tile_m, tile_n, tile_k), bytes, k_tiles).map_err(sentence)?;
    bytes.cluster_blocks = cluster[0] * cluster[1];
    Ok(TileOrder {
        order,
        tiles,
        cluster,
        workers: number("workers", 1, 1024)?,
        k_tiles,
        bytes,
        cache: number("cache", 0, 1024)? << 20,
    })
}

/// Reads numbers as in `4x4`.
fn product<const N: usize>(what: &str, text: &str, most: i64) -> Result<[i64; N], Sentence> {
    let parts: Result<Vec<i64>, Sentence> = text
        .split('x')
        .map(|part| read::number(what, part.trim(), 1, most))
        .collect();
    let parts = parts?;
    parts.try_into().map_err(|parts: Vec<i64>| {
        let example = ["4x4", "128x128x64"][usize::from(N == 3)];
        format!(
            "{what}: {} numbers, and {N} are wanted, as in {example}",
            parts.len()
        )
    })
}

/// The tiles with their places; a tile belongs to its wave. With a wave chosen, the tiles of the others are faint.
fn order(reply: &mut Reply, raster: &Raster, picture: &Picture, workers: i64, wave: usize) {
    let Some(grid) = picture.grids().next() else {
        return;
    };
    let slot = |m: i64, n: i64| raster.slot_of(Tile::new(m, n, 0)).unwrap_or(-1);
    // The waves up to the chosen one are coloured; all of them where none is chosen.
    let end = if wave == 0 {
        i64::MAX
    } else {
        wave as i64 * workers
    };
    let cell = |m: i64, n: i64| match grid.cell(m, n) {
        begun if slot(m, n) < end => begun.clone(),
        later => later.clone().filled(Fill::Blank),
    };
    let shown = match Grid::from_fn(grid.rows(), grid.cols(), cell) {
        Ok(shown) => shown,
        Err(error) => return reply.grid("order", "Order", Err(error.to_string())),
    };
    let say = |m: i64, n: i64| {
        let slot = slot(m, n);
        format!(
            "tile ({m},{n}): place {slot}, wave {}, block {} of it",
            slot / workers,
            slot % workers
        )
    };
    let link = |m: i64, n: i64| Link::of(slot(m, n), slot(m, n) / workers);
    reply.grid(
        "order",
        "The place of each tile, m down and n across; a colour is a wave",
        Ok(Cells::new(&shown, say, link)),
    );
}

/// Stream-K on as many multiprocessors as there are workers.
fn shares(reply: &mut Reply, asked: &TileOrder) {
    let [m, n] = asked.tiles;
    let args = StreamKSm90Args {
        cluster: asked.cluster,
        decomposition: Decomposition::StreamK,
        ..StreamKSm90Args::new(asked.workers)
    };
    let picture = StreamKSm90::new(GemmCoord::new(m, n, 1), asked.k_tiles, args)
        .and_then(|schedule| schedule.iterations_picture());
    let titles = [
        (
            "by-tile",
            "Stream-K, by tile: the block that computes each k-tile",
        ),
        (
            "by-block",
            "Stream-K, by block over time: the tile of each k-tile",
        ),
    ];
    let picture = match picture {
        Ok(picture) => picture,
        Err(error) => {
            let [(id, title), _] = titles;
            return reply.grid(id, title, Err(error.to_string()));
        }
    };
    for ((id, title), grid) in titles.into_iter().zip(picture.grids()) {
        let label = |row, col| grid.cell(row, col).lines.join(" ");
        let say = |row, col| match (id, label(row, col)) {
            (_, text) if text.is_empty() => format!("{}: nothing", grid.row_header(row)),
            ("by-tile", text) => format!("{}, k-tile {col}: block {text}", grid.row_header(row)),
            (_, text) => format!("{}, step {col}: tile {text}", grid.row_header(row)),
        };
        // A block is a row here and a label there.
        let block = |row: i64, col| match id {
            "by-tile" => label(row, col).parse().ok(),
            _ => (!label(row, col).is_empty()).then_some(row),
        };
        let link = |row, col| Link {
            keys: Vec::new(),
            kin: block(row, col)
                .map(|block: i64| -1 - block)
                .into_iter()
                .collect(),
        };
        let names = (0..grid.rows()).map(|row| grid.row_header(row));
        let cells = Cells {
            row_names: Some(names.collect()),
            ..Cells::new(grid, say, link)
        };
        reply.grid(id, title, Ok(cells));
    }
}
