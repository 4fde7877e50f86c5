//! `figure lanes`: what each lane has added after each step.
//!
//! The subject is `sum`, where a lane adds the number of the lane at a distance (a butterfly), or `scan`, where it adds the number of
//! the lane that far below it. Keys:
//! - `lanes`, a power of two, 8 without it;
//! - `elements`, for a sum: the elements of a row whose sum an epilogue asks for. The drawing then has the 32 lanes of a warp, and begins
//!   with the elements of each lane. It is refused if its order has other bits than `EpilogueReduction::evaluate`.
//!
//! A cell of a step names the first and the last lane whose numbers are in the sum; a darker cell has more of them.

use colex_atom::Ty;
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_gpu::gemm::Epilogue;

use super::{Body, Error, count};

/// The lanes of a warp.
const WARP: i64 = 32;

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    let is_scan = match body.subjects()? {
        [what] if what == "scan" => true,
        [what] if what == "sum" => false,
        _ => {
            return Err(Error::new(
                "a figure of lanes has one subject, `sum` or `scan`",
            ));
        }
    };
    if body.value("elements").is_some() {
        if is_scan || body.value("lanes").is_some() {
            return Err(Error::new(
                "`elements` are those of a sum by a warp, without the key `lanes`",
            ));
        }
        return of_a_row(count_of_elements(body)?);
    }
    let lanes = count(body, "lanes", 8)?;
    if lanes & (lanes - 1) != 0 {
        return Err(Error::new(format!("{lanes} lanes are no power of two")));
    }
    let what = if is_scan { "A scan" } else { "A sum" };
    let grid = tree(lanes, is_scan)?.caption("steps down, lanes across");
    Ok(Picture::of(grid).title(format!(
        "{what} over {lanes} lanes: the numbers that each lane has added after each step"
    )))
}

/// The steps by which lanes combine their numbers.
fn tree(lanes: i64, is_scan: bool) -> Result<Grid, Error> {
    let steps = steps(lanes, is_scan)?;
    let names = (0..steps.len()).map(|step| match step {
        0 => "own".to_string(),
        step => format!("distance {}", 1 << (step - 1)),
    });
    let cell = |row: i64, lane: i64| {
        let Sum { first, last } = steps[row as usize][lane as usize];
        let text = if first == last {
            first.to_string()
        } else {
            format!("{first}–{last}")
        };
        Cell::new([text]).filled(Fill::scale(last - first, 0, 2 * lanes))
    };
    let grid = Grid::from_fn(steps.len() as i64, lanes, cell)?;
    Ok(grid.headers(Headers::Named(names.collect()), Headers::Numbers))
}

fn count_of_elements(body: &Body) -> Result<usize, Error> {
    let text = body.value("elements").unwrap_or_default();
    let read = text
        .parse()
        .ok()
        .filter(|count| (1..=8 * WARP as usize).contains(count));
    read.ok_or_else(|| {
        Error::new(format!(
            "`elements = {text}` is not a number from 1 to {}",
            8 * WARP
        ))
    })
}

/// The sum of a row of elements by a warp: the elements of each lane, and below them the steps of the lanes.
fn of_a_row(elements: usize) -> Result<Picture, Error> {
    let own = elements_of_lanes(elements);
    if !adds_like_the_library(elements, &own)? {
        return Err(Error::new(format!(
            "the sum of {elements} elements has another order in the library"
        )));
    }
    let turns = own.iter().map(Vec::len).max().unwrap_or(0);
    let names = (0..turns).map(|turn| match turn {
        0 => "first".to_string(),
        _ => "then".to_string(),
    });
    let cell = |turn: i64, lane: i64| match own[lane as usize].get(turn as usize) {
        Some(element) => Cell::new([element.to_string()]).filled(Fill::pastel(turn)),
        None => Cell::default().filled(Fill::Void),
    };
    let loads = Grid::from_fn(turns as i64, WARP, cell)?
        .headers(Headers::Named(names.collect()), Headers::Numbers)
        .caption("the elements that each lane adds");
    let tree = tree(WARP, false)?.caption("the lanes whose sums each lane has");
    Ok(Picture::above([loads, tree]).title(format!(
        "The sum of a row of {elements} elements by a warp: the elements of each lane, and the steps of the lanes"
    )))
}

/// The elements of each lane of a warp, in the order in which it adds them.
fn elements_of_lanes(elements: usize) -> Vec<Vec<usize>> {
    let lanes = 0..WARP as usize;
    lanes
        .map(|lane| (lane..elements).step_by(WARP as usize).collect())
        .collect()
}

/// Whether the order of the drawing has the bits of [`colex_gpu::gemm::EpilogueReduction::evaluate`], for rows whose sums are rounded.
fn adds_like_the_library(elements: usize, own: &[Vec<usize>]) -> Result<bool, Error> {
    let epilogue = Epilogue::new(Ty::F32, |e| {
        e.row_sums("sums", e.accumulator());
        e.accumulator()
    })?;
    let sums = epilogue.reductions().next();
    let sums = sums.ok_or_else(|| Error::new("the epilogue has no sums"))?;
    for seed in 0..8 * (WARP as u64 + 1) {
        // Numbers of 24 bits at four magnitudes, so that another order rounds in other places; in most rows one lane has all that are not zero, so
        // that no other lane rounds away what its order changes.
        let only = (seed % (WARP as u64 + 1)) as usize;
        let number = |i: usize| {
            let hash = (i as u64 + 1 + 997 * seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let sign = if hash >> 40 & 1 == 0 { 1.0 } else { -1.0 };
            let number = sign * (hash & 0xff_ffff) as f32 * ((hash >> 24 & 3) as f32).exp2();
            let is_there = only == WARP as usize || i % WARP as usize == only;
            if is_there { number } else { 0.0 }
        };
        let row: Vec<f32> = (0..elements).map(number).collect();
        let of_lane = |own: &Vec<usize>| own.iter().fold(-0.0, |sum, i| sum + row[*i]);
        let mut lanes: Vec<f32> = own.iter().map(of_lane).collect();
        for distance in distances(WARP) {
            let partner = |lane: usize| lanes[lane ^ distance as usize];
            lanes = (0..lanes.len())
                .map(|lane| lanes[lane] + partner(lane))
                .collect();
        }
        let bits: Vec<u64> = row.iter().map(|x| x.to_bits().into()).collect();
        if sums.evaluate(&bits)? != u64::from(lanes[0].to_bits()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The distances of the steps.
fn distances(lanes: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(1), |distance| Some(2 * distance))
        .take_while(move |distance| *distance < lanes)
}

/// The numbers of the lanes from the first to the last, added.
#[derive(Clone, Copy)]
struct Sum {
    first: i64,
    last: i64,
}

impl Sum {
    /// The sum of both, if no number is in both and no number between them is missing.
    fn add(self, other: Sum) -> Result<Sum, Error> {
        if self.last + 1 != other.first {
            return Err(Error::new("two sums do not follow each other"));
        }
        let (first, last) = (self.first, other.last);
        Ok(Sum { first, last })
    }
}

/// What each lane has after each step.
fn steps(lanes: i64, is_scan: bool) -> Result<Vec<Vec<Sum>>, Error> {
    let own = (0..lanes).map(|lane| Sum {
        first: lane,
        last: lane,
    });
    let mut steps = vec![own.collect::<Vec<Sum>>()];
    for distance in distances(lanes) {
        let before = &steps[steps.len() - 1];
        let after = (0..lanes).map(|lane| {
            let own = before[lane as usize];
            let other = if is_scan {
                lane - distance
            } else {
                lane ^ distance
            };
            match before.get(usize::try_from(other).unwrap_or(usize::MAX)) {
                None => Ok(own),
                Some(below) if other < lane => below.add(own),
                Some(above) => own.add(*above),
            }
        });
        let after = after.collect::<Result<_, _>>()?;
        steps.push(after);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::{WARP, adds_like_the_library, elements_of_lanes, steps};
    use crate::figure::{draw, refused};

    #[test]
    fn sums_reach_every_lane_and_scans_what_is_below() {
        for lanes in [1, 2, 4, 8, 16, 32] {
            let last = |is_scan| {
                let steps = steps(lanes, is_scan).expect("neighbours are added");
                steps[steps.len() - 1].clone()
            };
            for (lane, sum) in last(false).iter().enumerate() {
                assert_eq!((sum.first, sum.last), (0, lanes - 1), "lane {lane}");
            }
            for (lane, sum) in last(true).iter().enumerate() {
                assert_eq!((sum.first, sum.last), (0, lane as i64));
            }
        }
    }

    #[test]
    fn both_are_drawn() {
        let scan = draw("lanes", "scan").expect("it is well formed");
        assert!(scan.contains(">0–7</text>") && scan.contains(">distance 4</text>"));
        let sum = draw("lanes", "sum\nlanes = 4").expect("it is well formed");
        assert_eq!(sum.matches(">0–3</text>").count(), 4);
    }

    #[test]
    fn a_row_is_added_as_the_library_adds_it() {
        for elements in [1, 31, 32, 33, 72, 256] {
            let mut own = elements_of_lanes(elements);
            let is_same = |own: &[Vec<usize>]| {
                adds_like_the_library(elements, own).expect("the library adds")
            };
            assert!(is_same(&own), "{elements}");
            if elements > 64 {
                // Another order has other bits.
                own[3].reverse();
                assert!(!is_same(&own), "{elements}");
                let part = elements.div_ceil(WARP as usize);
                let parts = (0..WARP as usize)
                    .map(|lane| (part * lane..elements.min(part * (lane + 1))).collect());
                assert!(!is_same(&parts.collect::<Vec<_>>()), "{elements}");
            }
        }
        let html = draw("lanes", "sum\nelements = 72\nelide = columns 4..30").expect("it is");
        for text in [">67</text>", ">63</text>", ">0–31</text>"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains(">68</text>"));
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("lanes", "scan\nelements = 72"),
            "`elements` are those of a sum by a warp, without the key `lanes`"
        );
        assert_eq!(
            refused("lanes", "sum\nelements = 0"),
            "`elements = 0` is not a number from 1 to 256"
        );
        assert_eq!(
            refused("lanes", "max"),
            "a figure of lanes has one subject, `sum` or `scan`"
        );
        assert_eq!(
            refused("lanes", "sum\nlanes = 6"),
            "6 lanes are no power of two"
        );
        assert_eq!(
            refused("lanes", "sum\nlanes = 65"),
            "`lanes = 65` is not a number from 1 to 64"
        );
    }
}
