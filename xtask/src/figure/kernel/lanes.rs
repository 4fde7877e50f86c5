//! `figure lanes`: what each lane has added after each step.
//!
//! The subject is `sum`, where a lane adds the number of the lane at a distance (a butterfly), or `scan`, where it adds the number of
//! the lane that far below it. Key: `lanes`, a power of two, 8 without it.
//!
//! A cell names the first and the last lane whose numbers are in the sum; a darker cell has more of them.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};

use super::{Body, Error, count};

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
    let lanes = count(body, "lanes", 8)?;
    if lanes & (lanes - 1) != 0 {
        return Err(Error::new(format!("{lanes} lanes are no power of two")));
    }
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
    let grid = Grid::from_fn(steps.len() as i64, lanes, cell)?
        .headers(Headers::Named(names.collect()), Headers::Numbers)
        .caption("steps down, lanes across");
    let what = if is_scan { "A scan" } else { "A sum" };
    Ok(Picture::of(grid).title(format!(
        "{what} over {lanes} lanes: the numbers that each lane has added after each step"
    )))
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
    let mut distance = 1;
    while distance < lanes {
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
        distance *= 2;
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::steps;
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
    fn mistakes_are_sentences() {
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
