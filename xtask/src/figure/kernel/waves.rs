//! `figure waves`: which tiles of a product run in which wave.
//!
//! The subjects are tiles such as `128x256`: the first plan of the list of Hopper's kernel that has this tile of C and no division of
//! K. Keys:
//! - `product`, needed: M by N, such as `3072x3072`;
//! - `multiprocessors`: how many tiles run at once; 132 without it;
//! - `axis = time`: a row for each multiprocessor, and time to the right, in units that divide the width of all tiles. Without it, the
//!   drawing is C, with one cell per tile.
//!
//! A number is the place of a tile in the plan's order, and a colour is a wave.

use colex_atom::{Arch, Ty};
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_gpu::kernels::Major;
use colex_gpu::kernels::gemm::{GemmPlan, Operands};
use colex_sched::{GemmCoord, Raster, Tile};

use crate::figure::options::needed;
use crate::figure::{Body, Error};

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [m, n] = extents(needed(body, "product")?)?;
    let workers = match body.value("multiprocessors") {
        None => 132,
        Some(text) => text
            .parse()
            .ok()
            .filter(|count| (1..=512).contains(count))
            .ok_or_else(|| {
                Error::new(format!(
                    "`multiprocessors = {text}` is not a number from 1 to 512"
                ))
            })?,
    };
    let all = body.subjects()?.iter();
    let all = all.map(|text| Waves::new(text, [m, n], workers));
    let all = all.collect::<Result<Vec<Waves>, Error>>()?;
    let grids: Result<Vec<Grid>, Error> = match body.value("axis") {
        None => all.iter().map(Waves::of_c).collect(),
        Some("time") => {
            let unit = all.iter().map(|waves| waves.tile[1]).fold(0, gcd);
            all.iter().map(|waves| waves.over_time(unit)).collect()
        }
        Some(other) => return Err(Error::new(format!("`axis = {other}` is not `time`"))),
    };
    let most = all.iter().map(|waves| waves.sizes().len()).max();
    let legend =
        (0..most.unwrap_or(0) as i64).map(|wave| (Fill::pastel(wave), format!("wave {wave}")));
    let idle = body.value("axis").map(|_| (Fill::Void, "idle".to_string()));
    let mut picture = Picture::beside(grids?)
        .title(format!("The waves of the tiles of a product of {m} by {n}"))
        .legend(legend.chain(idle));
    for waves in &all {
        picture = picture.note(waves.sentence());
    }
    Ok(picture)
}

/// The tiles of a product in the order of a plan, `workers` at once.
struct Waves {
    tile: [i64; 2],
    tiles: [i64; 2],
    raster: Raster,
    workers: i64,
}

impl Waves {
    fn new(text: &str, [m, n]: [i64; 2], workers: i64) -> Result<Waves, Error> {
        let tile = extents(text)?;
        let (ab, c) = (Ty::Bf16, Ty::Bf16);
        let operands = Operands {
            ab,
            c,
            majors: [Major::Second; 3],
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let listed = GemmPlan::candidates(operands, Arch::Sm90a);
        let has = |plan: &&GemmPlan| {
            plan.tile[..2] == tile && plan.cluster[2] == 1 && plan.split == 1 && !plan.swap
        };
        let plan = listed.iter().find(has).ok_or_else(|| {
            Error::new(format!(
                "no plan of the list has a tile of {text} and all of K"
            ))
        })?;
        let tiles = [(m + tile[0] - 1) / tile[0], (n + tile[1] - 1) / tile[1]];
        let [cm, cn, _] = plan.cluster;
        let raster = plan
            .order
            .raster(GemmCoord::new(tiles[0], tiles[1], 1), [cm, cn])?;
        Ok(Waves {
            tile,
            tiles,
            raster,
            workers,
        })
    }

    fn heading(&self) -> String {
        let ([tm, tn], [m, n]) = (self.tile, self.tiles);
        format!("{m} x {n} tiles of {tm} x {tn}")
    }

    /// How many tiles each wave has.
    fn sizes(&self) -> Vec<usize> {
        let waves = self.raster.slots().chunks(self.workers as usize);
        waves.map(|wave| wave.iter().flatten().count()).collect()
    }

    fn sentence(&self) -> String {
        let sizes: Vec<String> = self.sizes().iter().map(usize::to_string).collect();
        let [tm, tn] = self.tile;
        format!(
            "{tm} x {tn}: {} tiles, in waves of {}",
            self.tiles[0] * self.tiles[1],
            sizes.join(" + ")
        )
    }

    fn of_c(&self) -> Result<Grid, Error> {
        let [m, n] = self.tiles;
        let mut slots = Vec::new();
        for at in 0..m * n {
            slots.push(self.raster.slot_of(Tile::new(at / n, at % n, 0))?);
        }
        let grid = Grid::from_fn(m, n, |row, column| {
            let slot = slots[(row * n + column) as usize];
            Cell::new([slot.to_string()]).filled(Fill::pastel(slot / self.workers))
        })?;
        Ok(grid.axes("m", "n").caption(self.heading()))
    }

    /// A tile takes as long as it is wide, in units of `unit` columns of C.
    fn over_time(&self, unit: i64) -> Result<Grid, Error> {
        let width = self.tile[1] / unit;
        let waves = self.sizes().len() as i64;
        let grid = Grid::from_fn(self.workers, waves * width, |worker, time| {
            let wave = time / width;
            let slot = wave * self.workers + worker;
            match self.raster.tile(slot) {
                None => Cell::default().filled(Fill::Void),
                Some(_) => Cell::new([slot.to_string()]).filled(Fill::pastel(wave)),
            }
        })?;
        Ok(grid
            .headers(Headers::Numbers, Headers::Numbers)
            .axes("multiprocessor", "time")
            .caption(self.heading()))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Two numbers such as `128x256`.
fn extents(text: &str) -> Result<[i64; 2], Error> {
    let read = text
        .split_once('x')
        .and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
    read.filter(|pair: &[i64; 2]| pair.iter().all(|x| (1..=65536).contains(x)))
        .ok_or_else(|| Error::new(format!("`{text}` is not two numbers as in 128x256")))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    const BOTH: &str = "128x256\n128x192\nproduct = 3072x3072";

    #[test]
    fn the_last_wave_has_what_is_left() {
        let html = draw("waves", BOTH).expect("the list has both tiles");
        for text in [
            "24 x 12 tiles of 128 x 256",
            "128 x 256: 288 tiles, in waves of 132 + 132 + 24",
            "128 x 192: 384 tiles, in waves of 132 + 132 + 120",
            ">wave 2<",
        ] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains(">wave 3<") && !html.contains(">idle<"));
    }

    #[test]
    fn a_wave_of_narrow_tiles_is_shorter() {
        let html = draw(
            "waves",
            &format!("{BOTH}\naxis = time\nelide = rows 1..23; rows 25..132"),
        );
        let html = html.expect("the list has both tiles");
        // Wave 1 of multiprocessor 0: four units of the wide tile and three of the narrow one.
        assert_eq!(html.matches(">132</text>").count(), 4 + 3);
        // Place 287 is the last of the wide tiles, and place 288 exists only among the narrow ones.
        assert_eq!(html.matches(">287</text>").count(), 4 + 3);
        assert_eq!(html.matches(">288</text>").count(), 3);
        assert!(html.contains(">idle<"));
        // The name of the rows is too long to lie beside them.
        assert!(html.contains("rotate(-90"));
        let of_c = draw("waves", BOTH).expect("the list has both tiles");
        assert!(!of_c.contains("rotate"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("waves", body);
        assert_eq!(error("128x256"), "the figure needs `product = ..`");
        assert_eq!(
            error("100x256\nproduct = 3072x3072"),
            "no plan of the list has a tile of 100x256 and all of K"
        );
        assert_eq!(
            error("wide\nproduct = 3072x3072"),
            "`wide` is not two numbers as in 128x256"
        );
        assert_eq!(
            error(&format!("{BOTH}\nmultiprocessors = 0")),
            "`multiprocessors = 0` is not a number from 1 to 512"
        );
        assert_eq!(
            error(&format!("{BOTH}\naxis = m")),
            "`axis = m` is not `time`"
        );
    }
}
