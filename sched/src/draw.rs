//! Pictures of schedules: cell = tile, label = block, colour = wave.

use crate::number::error::{Error, at_least, ceil_div};
use crate::order::grouped::{GroupTile, Grouped};
use crate::order::raster::Raster;
use crate::pipeline::{Durations, Pipeline, Span, timeline};
use crate::problem::coord::{GemmCoord, Tile};
use crate::ranks::overlap::{ChunkSpan, ChunkTimes, ChunkWork, OverlapPlan};
use crate::split::segment::Segment;
use crate::split::stream_k::{StreamK, StreamKRole};
use crate::split::stream_k_sm90::StreamKSm90;
use colex_draw::{Cell, Fill, Grid, Headers, MAX_CELLS, Picture};
use std::collections::{BTreeMap, HashSet};

impl Raster {
    /// Returns a picture of the raster: the tiles of each batch, labelled with their place in the launch order,
    /// coloured by the wave of `workers` places that they fall in (the colours repeat after 8).
    ///
    /// # Errors
    ///
    /// Returns an error if there are no workers, or for more tiles than a picture holds.
    ///
    /// ```
    /// use colex_sched::{GemmCoord, Raster, ThreadblockSwizzle};
    /// let raster = Raster::of_swizzle(ThreadblockSwizzle::Identity { width: 2 }, GemmCoord::new(4, 4, 1))?;
    /// let svg = raster.picture(8)?.svg();
    /// assert!(svg.starts_with("<svg ") && svg.contains(">15<"));
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn picture(&self, workers: i64) -> Result<Picture, Error> {
        at_least("the number of workers", workers, 1)?;
        let extent = self.extent();
        drawable("tiles", extent.product()?)?;
        let cell = |l: i64, m: i64, n: i64| {
            let slot = self
                .slot_of(Tile::new(m, n, l))
                .expect("invariant: the grid is the extent");
            Cell::new([slot.to_string()]).filled(Fill::pastel(slot / workers))
        };
        let plane = |l: i64| {
            drawn(extent, |m, n| cell(l, m, n)).map(|grid| captioned(grid, extent, l, self.name()))
        };
        let grids = (0..extent.k).map(plane).collect::<Result<Vec<_>, _>>()?;
        let waves = ceil_div(self.slots().len() as i64, workers);
        let legend = (0..waves.min(8)).map(|wave| (Fill::pastel(wave), legend_of(wave, waves)));
        let title = format!(
            "{}: the place of each tile in the launch order",
            self.name()
        );
        Ok(Picture::beside(grids).title(title).legend(legend))
    }
}

/// Refuses more of something than a picture shows.
fn drawable(what: &str, count: i64) -> Result<(), Error> {
    if count <= MAX_CELLS {
        return Ok(());
    }
    let sentence = format!("a picture of {count} {what}: it can hold at most {MAX_CELLS}");
    Err(Error::invalid(sentence))
}

fn legend_of(wave: i64, waves: i64) -> String {
    let more = if wave + 8 < waves {
        format!(", {}, ...", wave + 8)
    } else {
        String::new()
    };
    format!("wave {wave}{more}")
}

fn captioned(grid: Grid, extent: GemmCoord, l: i64, name: &str) -> Grid {
    let caption = if extent.k == 1 {
        name.to_string()
    } else {
        format!("{name}, batch {l}")
    };
    grid.caption(caption).axes("m", "n")
}

fn drawn(extent: GemmCoord, cell: impl Fn(i64, i64) -> Cell) -> Result<Grid, Error> {
    grid(extent.m, extent.n, cell)
}

fn grid(rows: i64, columns: i64, cell: impl Fn(i64, i64) -> Cell) -> Result<Grid, Error> {
    Grid::from_fn(rows, columns, cell).map_err(Error::invalid)
}

/// The units that compute each tile, in the order of their k-tiles, as a picture: whole tiles in one colour, shared
/// ones in the colour of the unit that finishes them.
fn shares(
    extent: GemmCoord,
    name: String,
    units: &BTreeMap<Tile, Vec<(i64, i64)>>,
) -> Result<Picture, Error> {
    let cell = |l: i64, m: i64, n: i64| {
        let mut parts = units.get(&Tile::new(m, n, l)).cloned().unwrap_or_default();
        parts.sort_unstable();
        let fill = if parts.len() > 1 {
            Fill::pastel(parts.last().map_or(0, |(_, unit)| *unit))
        } else {
            Fill::Blank
        };
        Cell::new(parts.iter().map(|(_, unit)| unit.to_string())).filled(fill)
    };
    let plane =
        |l: i64| drawn(extent, |m, n| cell(l, m, n)).map(|grid| captioned(grid, extent, l, &name));
    let grids = (0..extent.k).map(plane).collect::<Result<Vec<_>, _>>()?;
    Ok(Picture::beside(grids)
        .title(format!("{name}: the blocks that compute each tile"))
        .note("one number: a whole tile"))
}

impl StreamK {
    /// Returns a picture of batch 0: in each tile the blocks of the grid that compute it, in the order of their
    /// k-tiles.
    ///
    /// # Errors
    ///
    /// Returns an error for more tiles than a picture holds.
    pub fn picture(&self) -> Result<Picture, Error> {
        drawable("tiles", self.tiles().product()?)?;
        drawable("blocks", self.grid()?.x)?;
        let mut units = BTreeMap::<Tile, Vec<(i64, i64)>>::new();
        for x in (0..self.grid()?.x).filter(|x| !matches!(self.role(*x), StreamKRole::Idle)) {
            for segment in self.work(x) {
                units
                    .entry(segment.tile)
                    .or_default()
                    .push((segment.k.start, x));
            }
        }
        shares(
            GemmCoord {
                k: 1,
                ..self.tiles()
            },
            "stream-K".to_string(),
            &units,
        )
    }
}

impl StreamKSm90 {
    /// Returns a picture: in each tile the units that compute it, in the order of their k-tiles.
    ///
    /// # Errors
    ///
    /// Returns an error for more tiles than a picture holds.
    pub fn picture(&self) -> Result<Picture, Error> {
        drawable("tiles", self.raster().slots())?;
        drawable("units", self.units())?;
        let mut units = BTreeMap::<Tile, Vec<(i64, i64)>>::new();
        for unit in 0..self.units() {
            for segment in self.work(unit) {
                units
                    .entry(segment.tile)
                    .or_default()
                    .push((segment.k.start, unit));
            }
        }
        let [m, n] = self.raster().blocks();
        let name = if self.splits() > 1 {
            "split-K"
        } else {
            "stream-K"
        };
        shares(
            GemmCoord::new(m, n, self.raster().tiles().k),
            name.to_string(),
            &units,
        )
    }
}

impl StreamKSm90 {
    /// Returns a picture of every k-tile, coloured by the unit that computes it.
    ///
    /// The upper grid has one row per tile and one column per k-tile, and its labels are units. The lower grid has one row
    /// per unit and one column per step, and its labels are tiles, numbered as the rows of the upper grid.
    ///
    /// # Errors
    ///
    /// Returns an error for more tiles, units or k-tiles than a picture holds.
    ///
    /// ```
    /// use colex_sched::{GemmCoord, StreamKSm90, StreamKSm90Args};
    /// // Five tiles of 32 k-tiles on four multiprocessors: 40 k-tiles per unit.
    /// let schedule = StreamKSm90::new(GemmCoord::new(5, 1, 1), 32, StreamKSm90Args::new(4))?;
    /// let picture = schedule.iterations_picture()?;
    /// let grids: Vec<_> = picture.grids().collect();
    /// assert_eq!([grids[0].rows(), grids[0].cols()], [5, 32]);
    /// assert_eq!([grids[1].rows(), grids[1].cols()], [4, 40]);
    /// assert_eq!(grids[0].cell(1, 8).lines.as_slice(), ["1"]); // the unit that finishes tile 1
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn iterations_picture(&self) -> Result<Picture, Error> {
        let slots = self.raster().slots();
        drawable("units", self.units())?;
        drawable("k-tiles", slots.saturating_mul(self.k_tiles()))?;
        let work: Vec<Vec<Segment>> = (0..self.units()).map(|unit| self.work(unit)).collect();
        let mut units = BTreeMap::<Tile, BTreeMap<i64, i64>>::new();
        for (unit, segment) in work
            .iter()
            .enumerate()
            .flat_map(|(unit, segments)| segments.iter().map(move |segment| (unit, segment)))
        {
            let of_tile = units.entry(segment.tile).or_default();
            of_tile.extend(segment.k.clone().map(|k| (k, unit as i64)));
        }
        let tiles: Vec<Tile> = units.keys().copied().collect();
        let units: Vec<BTreeMap<i64, i64>> = units.into_values().collect();
        let cell = |what: Option<i64>, unit: i64| match what {
            Some(label) => Cell::new([label.to_string()]).filled(Fill::pastel(unit)),
            None => Cell::default(),
        };
        let unit_of = |tile: i64, k: i64| units[tile as usize].get(&k).copied();
        let names = |what: &str, count: usize| {
            Headers::Named((0..count).map(|at| format!("{what} {at}")).collect())
        };
        let by_tile = grid(tiles.len() as i64, self.k_tiles(), |tile, k| {
            cell(unit_of(tile, k), unit_of(tile, k).unwrap_or(0))
        })?
        .regions(|tile, k| unit_of(tile, k).unwrap_or(-1))
        .caption("by tile: the block that computes each k-tile")
        .headers(names("tile", tiles.len()), Headers::Numbers);

        let number = |tile: &Tile| tiles.binary_search(tile).map_or(0, |at| at as i64);
        let steps: Vec<Vec<i64>> = work
            .iter()
            .map(|segments| {
                let labels = segments
                    .iter()
                    .flat_map(|segment| segment.k.clone().map(|_| number(&segment.tile)));
                labels.collect()
            })
            .collect();
        let longest = steps.iter().map(Vec::len).max().unwrap_or(0) as i64;
        let tile_of = |unit: i64, step: i64| steps[unit as usize].get(step as usize).copied();
        let by_unit = grid(self.units(), longest, |unit, step| {
            cell(tile_of(unit, step), unit)
        })?
        .regions(|unit, step| tile_of(unit, step).unwrap_or(-1))
        .caption("by block, over time: the tile of each k-tile")
        .headers(names("block", steps.len()), Headers::Numbers);
        Ok(Picture::above([by_tile, by_unit])
            .title("stream-K: the block that computes each k-tile of each tile, and the order of its k-tiles"))
    }
}

impl Grouped {
    /// Returns a picture: the tiles of each group side by side, labelled with their place, coloured by the wave of
    /// `workers` places.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no workers, or if every group is empty or a picture holds too few tiles.
    pub fn picture(&self, workers: i64) -> Result<Picture, Error> {
        at_least("the number of workers", workers, 1)?;
        drawable("places", self.slots())?;
        let mut grids = Vec::new();
        for group in 0..self.starts().len() as i64 - 1 {
            let Some(schedule) = self.group(group) else {
                continue;
            };
            let cell = |m: i64, n: i64| {
                let tile = GroupTile { group, m, n };
                let slot = self
                    .slot_of(tile)
                    .expect("invariant: the grid is the group's tiles");
                Cell::new([slot.to_string()]).filled(Fill::pastel(slot / workers))
            };
            grids.push(
                drawn(schedule.tiles(), cell)?
                    .caption(format!("group {group}"))
                    .axes("m", "n"),
            );
        }
        if grids.is_empty() {
            let sentence = "every group is empty: there is nothing to draw".to_string();
            return Err(Error::invalid(sentence));
        }
        Ok(Picture::beside(grids)
            .title("grouped problems: the place of each tile in the launch order"))
    }
}

impl Pipeline {
    /// Returns a picture of one walk with a clock: one row per actor, one column per unit of time, coloured by item.
    ///
    /// A producer's loads are drawn in rows of their own, one for each item in flight at once: loads of one item that
    /// begin together are one.
    ///
    /// # Errors
    ///
    /// Returns an error for a walk that meets a fault, which it names, or for a walk that is too long to draw.
    pub fn picture(&self, durations: &Durations) -> Result<Picture, Error> {
        let wrong = |sentence: String| Error::invalid(sentence);
        let spans = timeline(self, durations).map_err(|fault| wrong(fault.to_string()))?;
        let rows = rows_of(&spans);
        let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        drawable("cells", end.saturating_mul(rows.len() as i64))?;
        let cell = |row: i64, time: i64| {
            let row = &rows[row as usize].spans;
            let begun = row.partition_point(|i| spans[*i].start as i64 <= time);
            let last = begun.checked_sub(1).map(|last| &spans[row[last]]);
            match last.filter(|span| time < span.end as i64) {
                None => Cell::default(),
                Some(span) if span.what == "epilogue" => Cell::new(["E"]).filled(Fill::Void),
                Some(span) => {
                    Cell::new([span.item.to_string()]).filled(Fill::pastel(span.item.into()))
                }
            }
        };
        let names = rows
            .iter()
            .map(|row| self.actors[row.actor].name.clone())
            .collect();
        let grid = grid(rows.len() as i64, end, cell)?
            .caption(self.name.clone())
            .headers(Headers::Named(names), Headers::Numbers);
        Ok(Picture::of(grid).title(format!(
            "{}: which actor works on which item, over time",
            self.name
        )))
    }
}

impl OverlapPlan {
    /// Returns a picture of the timeline: for each rank a row of what it sends and one of what it computes, labelled and
    /// coloured by chunk; a sum is labelled with a plus sign.
    ///
    /// # Errors
    ///
    /// Returns an error if a time does not fit in 64 bits, or for more cells than a picture holds.
    ///
    /// ```
    /// use colex_sched::{ChunkTimes, Overlap, OverlapPlan};
    /// let plan = OverlapPlan::new(Overlap::ProductScatter, 2)?;
    /// let svg = plan.picture(&ChunkTimes { send: 1, product: 2, add: 1 })?.svg();
    /// assert!(svg.contains("rank 1 sends") && svg.contains(">+<"));
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    pub fn picture(&self, times: &ChunkTimes) -> Result<Picture, Error> {
        self.drawn(&self.timeline(times)?, 1, &self.overlap().to_string())
    }

    /// Returns a picture of what ranks were measured to do when, drawn as that of the timeline. A cell is `unit` of the time of the
    /// spans, and has the span that lasts in its middle. A product that was measured as a whole is labelled with an x. The caption
    /// should say how long a cell is.
    ///
    /// ```
    /// use colex_sched::{ChunkSpan, ChunkWork, Overlap, OverlapPlan};
    /// let plan = OverlapPlan::new(Overlap::GatherProduct, 2)?;
    /// let send = ChunkSpan { rank: 1, work: ChunkWork::Send { to: 0 }, chunk: 1, start: 100, end: 490 };
    /// let product = ChunkSpan { work: ChunkWork::Products, start: 0, end: 700, ..send };
    /// let picture = plan.picture_of(&[send, product], 100, "a cell is 100 ns")?;
    /// assert_eq!(picture.svg().matches(">x<").count(), 7);
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for a unit of 0, for a span of a rank or a chunk that the plan does not have or that ends before it begins,
    /// or for more cells than a picture holds.
    pub fn picture_of(
        &self,
        spans: &[ChunkSpan],
        unit: u64,
        caption: &str,
    ) -> Result<Picture, Error> {
        if unit == 0 {
            let sentence = "a cell is 0 units of time long: it has to be at least 1".to_string();
            return Err(Error::invalid(sentence));
        }
        let ranks = self.ranks();
        for ChunkSpan {
            rank,
            chunk,
            start,
            end,
            ..
        } in spans
        {
            let known = 0..ranks;
            if !known.contains(rank) || !known.contains(chunk) || start > end {
                return Err(Error::invalid(format!(
                    "rank {rank} has chunk {chunk} from {start} to {end}: ranks and chunks are numbered from 0 to {}, and a span \
                     ends at its start or later",
                    ranks - 1
                )));
            }
        }
        self.drawn(spans, unit, caption)
    }

    /// Spans in cells of a unit.
    fn drawn(&self, spans: &[ChunkSpan], unit: u64, caption: &str) -> Result<Picture, Error> {
        let last = spans.iter().map(|span| span.end).max().unwrap_or(0);
        let end = i64::try_from(last.div_ceil(unit)).unwrap_or(i64::MAX);
        let rows = 2 * self.ranks();
        drawable("cells", end.saturating_mul(rows))?;
        let cell = |row: i64, time: i64| {
            let here = |sends: bool| (row % 2 == 0) == sends;
            // Twice the middle of the cell.
            let middle = (2 * time as u128 + 1) * u128::from(unit);
            let span = spans.iter().find(|span| {
                let sends = matches!(span.work, ChunkWork::Send { .. });
                let [start, end] = [span.start, span.end].map(|time| 2 * u128::from(time));
                span.rank == row / 2 && here(sends) && start <= middle && middle < end
            });
            let Some(span) = span else {
                return Cell::default();
            };
            match span.work {
                ChunkWork::Add => Cell::new(["+"]).filled(Fill::Void),
                ChunkWork::Products => Cell::new(["x"]),
                ChunkWork::Send { .. } | ChunkWork::Product => {
                    Cell::new([span.chunk.to_string()]).filled(Fill::pastel(span.chunk))
                }
            }
        };
        let names = (0..rows).map(|row| {
            let does = if row % 2 == 0 { "sends" } else { "computes" };
            format!("rank {} {does}", row / 2)
        });
        let title = format!(
            "{}: which chunk each rank sends and computes, over time",
            self.overlap()
        );
        let grid = grid(rows, end, cell)?
            .caption(caption)
            .headers(Headers::Named(names.collect()), Headers::Numbers);
        Ok(Picture::of(grid).title(title))
    }
}

/// A row of a pipeline's picture: spans of one actor that do not overlap, all loads or none.
struct Row {
    actor: usize,
    is_load: bool,
    spans: Vec<usize>,
}

/// The spans in as few rows as they need, actor by actor, loads before multiplies. Spans come in the order of their
/// starts.
fn rows_of(spans: &[Span]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut seen = HashSet::new();
    for (i, span) in spans.iter().enumerate() {
        let (actor, is_load) = (span.actor, span.what == "load");
        let is_known = !seen.insert((actor, span.what, span.item, span.start, span.end));
        if span.end == span.start || is_known {
            continue;
        }
        let free = |row: &&mut Row| {
            let ended = row.spans.last().is_none_or(|j| spans[*j].end <= span.start);
            row.actor == actor && row.is_load == is_load && ended
        };
        match rows.iter_mut().find(free) {
            Some(row) => row.spans.push(i),
            None => rows.push(Row {
                actor,
                is_load,
                spans: vec![i],
            }),
        }
    }
    rows.sort_by_key(|row| (row.actor, !row.is_load, row.spans[0]));
    rows
}
