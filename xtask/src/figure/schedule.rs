//! Figures of schedules.
//!
//! `figure raster`: orders of tiles by name (`GemmIdentity<2>`, `grouped 8 along m`, `persistent along n, swizzle 4`,
//! `Hilbert`, `Morton`), side by side. Keys: `tiles = 4x4`, `workers = 8` (places of a wave), `cluster = 2x1`, and
//! `padded = 2x8`, which also draws the places beyond the tiles, hatched, of the orders that have such places;
//! `colours = round` names a colour in the legend (`wave` where the key is absent); `highlight = 3; 7` frames places.
//!
//! `figure stream-k`: the blocks that compute each tile. Keys: `tiles = 3x3`, `k = 32` (k-tiles), `sms = 4`;
//! `axis = iterations` draws every k-tile, by tile and by block.
//!
//! `figure ranks`: `gather`, `scatter` or `reduce`, a product across ranks over time. Keys: `ranks`, and the times `send`, `product` and
//! `add` of a chunk; `sends = receivers` writes into the cells of a send which rank receives.
//!
//! `figure rank-timeline`: what ranks were measured to do, drawn as `figure ranks` draws a plan. The subject is a file of `gpu/bench`, which
//! `cargo xtask bench ranks FILE --timeline` wrote. Keys: `case`, its number from 0.
//!
//! `figure rank-scaling`: how much faster more devices were measured to make the same product, as bars. The subject is a file of `gpu/bench`,
//! which `cargo xtask bench ranks FILE --ranks 1,2,4` wrote; `--plot FILE --svg FOLDER` makes the same drawing.
//!
//! `figure pipeline`: `cooperative`, `pingpong` or `multistage` over time. Keys: `stages`, `k` (k-tiles), and the durations `load`,
//! `multiply`, `epilogue`, and for the first two `tiles` and `consumers`; `rows`, names separated by `;`, first of the stages and then of
//! the consumers, draws a row for each of them, and without it the loads are in as few rows as they need. In `multistage`, the threads
//! that multiply also start the loads.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_sched::pipeline::{self, Durations, Multistage, Pipeline, Span, WarpSpecialized};
use colex_sched::{
    ChunkSpan, ChunkTimes, ChunkWork, Decomposition, GemmCoord, Order, Overlap, OverlapPlan,
    StreamKSm90, StreamKSm90Args, Tile,
};

use super::{Body, Error, bench};
use crate::bench::product::ranks::{scaling, timeline};

pub(super) fn raster(body: &Body) -> Result<Picture, Error> {
    let [m, n] = pair(body, "tiles", "4x4")?;
    let (cluster, workers) = (
        pair(body, "cluster", "1x1")?,
        number(body, "workers", m * n)?,
    );
    let names = body.subjects()?;
    let orders = names.iter().map(|name| name.parse::<Order>());
    let orders = orders.collect::<Result<Vec<_>, _>>()?;
    let framed = body.value("highlight").map(places).transpose()?;
    if let ([order], None, None) = (orders.as_slice(), body.value("padded"), &framed) {
        let raster = order.raster(GemmCoord::new(m, n, 1), cluster)?;
        return raster.picture(workers).map_err(Error::from);
    }
    let padded = pair(body, "padded", &format!("{m}x{n}"))?;
    let grids = orders.iter().zip(names).map(|(order, name)| {
        let tiles = GemmCoord::new(m, n, 1);
        let mut grid = with_padding(order, tiles, padded, cluster, workers)?;
        if let Some(framed) = &framed {
            let cells = grid.clone();
            grid = grid.focus(|row, col| framed.contains(&cells.cell(row, col).lines[0]));
        }
        Ok(grid.caption(name.trim_start_matches("persistent ")))
    });
    let grids = grids.collect::<Result<Vec<_>, Error>>()?;
    let places = if padded == [m, n] {
        m * n
    } else {
        padded[0] * padded[1]
    };
    let waves = (places + workers.max(1) - 1) / workers.max(1);
    let legend = (0..waves.min(8)).map(|wave| {
        let more = if wave + 8 < waves {
            format!(", {}", wave + 8)
        } else {
            String::new()
        };
        let more = more + if wave + 16 < waves { ", .." } else { "" };
        // Eight entries of two numbers are wide: only the first has the word.
        let word = if wave == 0 || waves <= 8 {
            format!("{} ", body.value("colours").unwrap_or("wave"))
        } else {
            String::new()
        };
        (Fill::pastel(wave), format!("{word}{wave}{more}"))
    });
    let beyond = (padded != [m, n]).then(|| (Fill::Void, "no tile".to_string()));
    let title = format!("orders of {m} by {n} tiles: {}", names.join("; "));
    Ok(Picture::beside(grids)
        .title(title)
        .legend(legend.chain(beyond)))
}

/// Places of an order, separated by `;`.
fn places(text: &str) -> Result<Vec<String>, Error> {
    let places = text.split(';').map(str::trim);
    let place = |text: &str| match text.parse::<u16>() {
        Ok(_) => Ok(text.to_string()),
        Err(_) => Err(Error::new(format!("`highlight`: `{text}` is no place"))),
    };
    places.map(place).collect()
}

/// The tiles of an order, and beside them the places of the padded grid that have no tile, if the order has any.
fn with_padding(
    order: &Order,
    tiles: GemmCoord,
    padded: [i64; 2],
    cluster: [i64; 2],
    workers: i64,
) -> Result<Grid, Error> {
    if workers == 0 {
        return Err(Error::new("`workers = 0`: a wave has at least one place"));
    }
    let raster = order.raster(tiles, cluster)?;
    let [rows, columns] = if raster.idle() == 0 {
        [tiles.m, tiles.n]
    } else {
        padded
    };
    let whole = order.raster(GemmCoord::new(rows, columns, 1), cluster)?;
    let slots = (0..rows * columns).map(|at| {
        let tile = Tile::new(at % rows, at / rows, 0);
        Ok((whole.slot_of(tile)?, raster.slot_of(tile).ok()))
    });
    let slots = slots.collect::<Result<Vec<_>, colex_sched::Error>>()?;
    if let Some((padded, own)) = slots
        .iter()
        .find_map(|(padded, own)| own.filter(|own| own != padded).map(|own| (padded, own)))
    {
        return Err(Error::new(format!(
            "`padded = {rows}x{columns}` has a tile at place {padded} that the order has at place {own}"
        )));
    }
    let cell = |m: i64, n: i64| {
        let (slot, own) = slots[(m + n * rows) as usize];
        let fill = own.map_or(Fill::Void, |slot| Fill::pastel(slot / workers));
        Cell::new([slot.to_string()]).filled(fill)
    };
    let grid = Grid::from_fn(rows, columns, cell).map_err(|error| Error::new(error.to_string()))?;
    Ok(grid.axes("m", "n"))
}

pub(super) fn stream_k(body: &Body) -> Result<Picture, Error> {
    let ([m, n], k) = (pair(body, "tiles", "3x3")?, number(body, "k", 32)?);
    let args = StreamKSm90Args {
        decomposition: Decomposition::StreamK,
        ..StreamKSm90Args::new(number(body, "sms", 4)?)
    };
    let schedule = StreamKSm90::new(GemmCoord::new(m, n, 1), k, args)?;
    match body.value("axis") {
        None => schedule.picture().map_err(Error::from),
        Some("iterations") => schedule.iterations_picture().map_err(Error::from),
        Some(other) => Err(Error::new(format!("`axis = {other}` is not `iterations`"))),
    }
}

pub(super) fn pipeline(body: &Body) -> Result<Picture, Error> {
    let subjects = body.subjects()?;
    let [name] = subjects else {
        return Err(Error::new("a pipeline's figure has one subject"));
    };
    let stages = number(body, "stages", 4)? as usize;
    // The first actor that multiplies: a producer stands before the consumers.
    let (pipeline, first) = match name.as_str() {
        "multistage" => {
            let k_tiles = number(body, "k", 4)? as usize;
            let warps = 1;
            let plan = Multistage {
                stages,
                k_tiles,
                warps,
            };
            (plan.build()?, 0)
        }
        name => (specialized(body, name, stages)?, 1),
    };
    let time = |key, default| number(body, key, default).map(|x| x as u64);
    let durations = Durations {
        load: time("load", 4)?,
        multiply: time("multiply", 2)?,
        epilogue: time("epilogue", 2)?,
    };
    let Some(names) = body.value("rows") else {
        return pipeline.picture(&durations).map_err(Error::from);
    };
    let names: Vec<String> = names.split(';').map(|name| name.trim().into()).collect();
    let spans = pipeline::timeline(&pipeline, &durations)?;
    by_stage(&spans, stages, first, names)
}

/// A producer and its consumers, under one of their two schedules.
fn specialized(body: &Body, name: &str, stages: usize) -> Result<Pipeline, Error> {
    let count = |key, default| number(body, key, default).map(|x| x as usize);
    let (tiles, k) = (count("tiles", 2)?, count("k", 4)?);
    let plan = match name {
        "cooperative" => WarpSpecialized::cooperative(stages, tiles, k),
        "pingpong" => WarpSpecialized::pingpong(stages, tiles, k),
        other => {
            return Err(Error::new(format!(
                "`{other}` is none of cooperative, pingpong and multistage"
            )));
        }
    };
    let plan = WarpSpecialized {
        consumers: count("consumers", 2)?,
        in_flight: 0,
        ..plan
    };
    plan.build().map_err(Error::from)
}

/// The spans of a pipeline in a row for each stage and one for each consumer, under their names; `first` is the first consumer.
fn by_stage(
    spans: &[Span],
    stages: usize,
    first: usize,
    names: Vec<String>,
) -> Result<Picture, Error> {
    let row_of = |span: &Span| match span.what {
        "load" => span.item as usize % stages,
        _ => stages + span.actor - first,
    };
    let rows = spans.iter().map(row_of).max().unwrap_or(0) + 1;
    if names.len() != rows {
        return Err(Error::new(format!(
            "`rows` has {} names, and there are {stages} stages and {} consumers",
            names.len(),
            rows - stages
        )));
    }
    let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
    let cell = |row: i64, time: i64| {
        let here = |span: &&Span| {
            row_of(span) as i64 == row && (span.start..span.end).contains(&(time as u64))
        };
        match spans.iter().find(here) {
            None => Cell::default(),
            Some(span) if span.what == "epilogue" => Cell::new(["E"]).filled(Fill::Void),
            Some(span) => Cell::new([span.item.to_string()]).filled(Fill::pastel(span.item.into())),
        }
    };
    let grid = Grid::from_fn(rows as i64, end as i64, cell)?;
    let title = format!("over time: {}", names.join(", "));
    let grid = grid.headers(Headers::Named(names), Headers::Numbers);
    Ok(Picture::of(grid).title(title))
}

pub(super) fn ranks(body: &Body) -> Result<Picture, Error> {
    let subjects = body.subjects()?;
    let overlap = match subjects {
        [name] if name == "gather" => Overlap::GatherProduct,
        [name] if name == "scatter" => Overlap::ProductScatter,
        [name] if name == "reduce" => Overlap::ProductReduce,
        _ => {
            let sentence = "a figure of ranks has one subject, `gather`, `scatter` or `reduce`";
            return Err(Error::new(sentence));
        }
    };
    let plan = OverlapPlan::new(overlap, number(body, "ranks", 4)?)?;
    let time = |key, default| number(body, key, default).map(|x| x as u64);
    let times = ChunkTimes {
        send: time("send", 2)?,
        product: time("product", 3)?,
        add: time("add", 1)?,
    };
    match body.value("sends") {
        None => plan.picture(&times).map_err(Error::from),
        Some("receivers") => to_receivers(&plan, &times),
        Some(other) => Err(Error::new(format!("`sends = {other}` is not `receivers`"))),
    }
}

/// The timeline of a plan; a cell of a send names the rank that receives.
fn to_receivers(plan: &OverlapPlan, times: &ChunkTimes) -> Result<Picture, Error> {
    let spans = plan.timeline(times)?;
    let end = plan.time(times)? as i64;
    let cell = |row: i64, time: i64| {
        let here = |span: &&ChunkSpan| {
            let sends = matches!(span.work, ChunkWork::Send { .. });
            span.rank == row / 2
                && sends == (row % 2 == 0)
                && (span.start..span.end).contains(&(time as u64))
        };
        match spans.iter().find(here) {
            None => Cell::default(),
            Some(span) => match span.work {
                ChunkWork::Send { to } => {
                    Cell::new([format!("\u{2192}{to}")]).filled(Fill::pastel(span.chunk))
                }
                ChunkWork::Product => {
                    Cell::new([span.chunk.to_string()]).filled(Fill::pastel(span.chunk))
                }
                ChunkWork::Add => Cell::new(["+"]).filled(Fill::Void),
                ChunkWork::Products => Cell::new(["x"]).filled(Fill::Void),
            },
        }
    };
    let names = (0..2 * plan.ranks()).map(|row| {
        let does = if row % 2 == 0 { "sends" } else { "computes" };
        format!("rank {} {does}", row / 2)
    });
    let title = format!(
        "{}: to which rank each rank sends, and which chunk it computes, over time",
        plan.overlap()
    );
    let grid = Grid::from_fn(2 * plan.ranks(), end, cell)?
        .caption(plan.overlap().to_string())
        .headers(Headers::Named(names.collect()), Headers::Numbers);
    let chunks = (0..plan.ranks()).map(|chunk| (Fill::pastel(chunk), format!("chunk {chunk}")));
    Ok(Picture::of(grid).title(title).legend(chunks))
}

pub(super) fn rank_timeline(body: &Body) -> Result<Picture, Error> {
    let [file] = body.subjects()? else {
        return Err(Error::new(
            "the figure has one subject, a file of gpu/bench",
        ));
    };
    let case = number(body, "case", 0)? as usize;
    let wrong = |why: anyhow::Error| Error::new(format!("gpu/bench/{file}: {why}"));
    let all = bench::read(file)?;
    timeline::picture(&all, case).map_err(wrong)
}

pub(super) fn rank_scaling(body: &Body) -> Result<String, Error> {
    let [file] = body.subjects()? else {
        return Err(Error::new(
            "the figure has one subject, a file of gpu/bench",
        ));
    };
    let wrong = |why: anyhow::Error| Error::new(format!("gpu/bench/{file}: {why}"));
    scaling::drawing(&bench::read(file)?).map_err(wrong)
}

fn number(body: &Body, key: &str, default: i64) -> Result<i64, Error> {
    let Some(text) = body.value(key) else {
        return Ok(default);
    };
    match text.parse() {
        Ok(number) if (0..=4096).contains(&number) => Ok(number),
        _ => Err(Error::new(format!(
            "`{key} = {text}` is not a number up to 4096"
        ))),
    }
}

fn pair(body: &Body, key: &str, default: &str) -> Result<[i64; 2], Error> {
    let text = body.value(key).unwrap_or(default);
    let read = text
        .split_once('x')
        .and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
    read.filter(|pair: &[i64; 2]| pair.iter().all(|x| (1..=4096).contains(x)))
        .ok_or_else(|| Error::new(format!("`{key} = {text}` is not two numbers as in 4x4")))
}

#[cfg(test)]
mod tests {
    use crate::figure::draw;

    #[test]
    fn rasters_share_a_figure() {
        let html = draw(
            "raster",
            "GemmIdentity<1>\nGemmIdentity<2>\ntiles = 4x4\nworkers = 4",
        )
        .expect("well formed");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert!(html.contains("GemmIdentity&lt;2&gt;"), "{html}");
    }

    #[test]
    fn padded_places_are_hatched() {
        let html = draw(
            "raster",
            "GemmIdentity<8>\ntiles = 2x6\nworkers = 8\npadded = 2x8",
        )
        .expect("well formed");
        assert!(html.contains(">no tile<"), "{html}");
        for place in [6, 7, 14, 15] {
            assert!(html.contains(&format!(">{place}<")), "{place}");
        }
        // Three columns have a strip of four, and eight columns a strip of eight.
        let error = draw("raster", "GemmIdentity<8>\ntiles = 2x3\npadded = 2x8");
        assert_eq!(
            error.expect_err("the strips have other widths").to_string(),
            "`padded = 2x8` has a tile at place 8 that the order has at place 4"
        );
    }

    #[test]
    fn schedules_are_drawn() {
        assert!(draw("stream-k", "tiles = 5x1").is_ok());
        assert!(draw("stream-k", "tiles = 5x1\naxis = iterations").is_ok());
        assert!(draw("pipeline", "pingpong\ntiles = 4\nk = 2").is_ok());
        let rows = "rows = s0; s1; s2; s3; c0; c1";
        let html = draw("pipeline", &format!("pingpong\ntiles = 4\nk = 2\n{rows}"));
        let html = html.expect("a row for each stage and consumer");
        assert!(html.contains(">s3<") && html.contains(">c1<"), "{html}");
        let rows = "load = 3\nrows = s0; s1; s2; products";
        let html = draw(
            "pipeline",
            &format!("multistage\nstages = 3\nk = 6\n{rows}"),
        );
        let html = html.expect("a row for each stage and one for the products");
        // Slab 2 is a load of three columns and products of two: nothing is loaded beyond the six slabs.
        assert_eq!(html.matches(">2</text>").count(), 1 + 3 + 2);
        assert_eq!(html.matches(">6</text>").count(), 1);
        let html = draw("raster", "GemmIdentity<1>\ntiles = 4x3\nhighlight = 3; 11");
        let html = html.expect("places are framed");
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 2);
        assert!(draw("ranks", "gather").is_ok());
        let html = draw("ranks", "gather\nsends = receivers").expect("well formed");
        assert!(html.contains(">\u{2192}3<"), "{html}");
        assert!(draw("ranks", "scatter\nranks = 8\nsend = 1").is_ok());
        let html = draw("rank-scaling", "rank-scaling.json").expect("the recorded file");
        assert_eq!(html.matches("<svg ").count(), 1);
        assert!(html.contains(">1 device<"), "{html}");
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |kind: &str, body: &str| {
            draw(kind, body)
                .expect_err("the figure is wrong")
                .to_string()
        };
        assert_eq!(
            error("raster", "Hilbert\ntiles = 4"),
            "`tiles = 4` is not two numbers as in 4x4"
        );
        assert_eq!(
            error("raster", "Hilbert\nworkers = x"),
            "`workers = x` is not a number up to 4096"
        );
        assert_eq!(
            error("stream-k", "axis = time"),
            "`axis = time` is not `iterations`"
        );
        assert!(error("raster", "nonsense").starts_with("\"nonsense\" names no order"));
        assert_eq!(
            error("pipeline", "serial"),
            "`serial` is none of cooperative, pingpong and multistage"
        );
        assert_eq!(
            error("pipeline", "cooperative\nrows = a; b"),
            "`rows` has 2 names, and there are 4 stages and 2 consumers"
        );
        assert_eq!(
            error("raster", "Hilbert\nhighlight = first"),
            "`highlight`: `first` is no place"
        );
        assert_eq!(
            error("ranks", "gather\nsends = all"),
            "`sends = all` is not `receivers`"
        );
        assert_eq!(
            error("ranks", "both"),
            "a figure of ranks has one subject, `gather`, `scatter` or `reduce`"
        );
        assert_eq!(
            error("rank-timeline", "copy.json"),
            "gpu/bench/copy.json: the file is none of `bench ranks --timeline`"
        );
        assert_eq!(
            error("rank-timeline", "copy.json\nranks.json\ncase = 1"),
            "the figure has one subject, a file of gpu/bench"
        );
        assert_eq!(
            error("rank-scaling", "rank-timeline.json"),
            "gpu/bench/rank-timeline.json: the file is none of `bench ranks --ranks`"
        );
        assert_eq!(
            error("rank-scaling", "copy.json\nranks.json"),
            "the figure has one subject, a file of gpu/bench"
        );
        assert_eq!(
            error("ranks", "gather\nranks = 65"),
            "the number of ranks is 65: it can be at most 64"
        );
    }
}
