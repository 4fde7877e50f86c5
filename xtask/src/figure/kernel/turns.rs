//! `figure turns`: two consumers of attention that issue their products in turns, over time.
//!
//! The subject is `attention`. Keys, each a number from 1 to 64:
//! - `blocks`: blocks of keys;
//! - `load`, `multiply` and `softmax`: how long a load, a product and a softmax take.
//!
//! Two rings of two stages hold keys and values. Both consumers read every block, each for its own queries. A turn has the
//! scores of a block and the output of the block before, and ends when both products have: there is one set of tensor cores.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_sched::pipeline::{self, Actor, Barrier, Durations, Pipeline, Slot, Span, Step};

use super::{Body, Error, count};

const CONSUMERS: usize = 2;
/// The slots: two stages of keys, then two of values.
const SLOTS: [&str; 4] = ["keys 0", "keys 1", "values 0", "values 1"];
/// The first of the barriers at which a consumer waits for its turn, behind those of full and of empty slots.
const TURNS: usize = 2 * SLOTS.len();

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    match body.subjects()? {
        [what] if what == "attention" => {}
        _ => return Err(Error::new("turns have one subject, `attention`")),
    }
    let blocks = count(body, "blocks", 3)? as u16;
    let time = |key, default| count(body, key, default).map(|time| time as u64);
    let durations = Durations {
        load: time("load", 3)?,
        multiply: time("multiply", 2)?,
        epilogue: time("softmax", 4)?,
    };
    let spans = pipeline::timeline(&attention(blocks), &durations)?;
    let row_of = |span: &Span| match span.what {
        "load" => slot(span.item),
        // The producer is the first actor.
        _ => SLOTS.len() + span.actor - 1,
    };
    let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
    let cell = |row: i64, time: i64| {
        let here = |span: &&Span| {
            row_of(span) as i64 == row && (span.start..span.end).contains(&(time as u64))
        };
        let Some(span) = spans.iter().find(here) else {
            return Cell::default();
        };
        match (span.what, span.item % 2) {
            ("epilogue", _) => Cell::new([format!("e{}", span.item)]).filled(Fill::Void),
            ("load", _) => number(span, ""),
            (_, 0) => number(span, "s"),
            _ => number(span, "o"),
        }
    };
    let consumers = (0..CONSUMERS).map(|consumer| format!("consumer {consumer}"));
    let names: Vec<String> = SLOTS
        .map(String::from)
        .into_iter()
        .chain(consumers)
        .collect();
    let title = format!("over time: {}", names.join(", "));
    let grid = Grid::from_fn(names.len() as i64, end as i64, cell)?
        .headers(Headers::Named(names), Headers::Numbers);
    Ok(Picture::of(grid).title(title))
}

/// The block of keys or values of a span behind a letter, in the colour of the block.
fn number(span: &Span, letter: &str) -> Cell {
    let block = i64::from(span.item / 2);
    Cell::new([format!("{letter}{block}")]).filled(Fill::pastel(block))
}

/// The slot of an item: item 2j is block j of the keys, 2j + 1 its values.
fn slot(item: u16) -> usize {
    usize::from(item % 2 * 2 + item / 2 % 2)
}

/// The parity of the round in which a slot holds an item.
fn parity(item: u16) -> u8 {
    (item / 4 % 2) as u8
}

/// A producer and two consumers over `blocks` blocks of keys.
fn attention(blocks: u16) -> Pipeline {
    let producer = (0..2 * blocks).flat_map(|item| {
        let (full, empty) = (slot(item), SLOTS.len() + slot(item));
        [
            Step::Wait {
                barrier: empty,
                parity: 1 - parity(item),
            },
            Step::Expect {
                barrier: full,
                loads: 1,
            },
            Step::Load {
                item,
                to: vec![(slot(item), Some(full))],
            },
        ]
    });
    let actor = |name: String, steps: Vec<Step>| Actor {
        name,
        block: 0,
        steps,
    };
    let mut actors = vec![actor("producer".into(), producer.collect())];
    let consumers = (0..CONSUMERS).map(|c| actor(format!("consumer {c}"), consumer(c, blocks)));
    actors.extend(consumers);
    let barrier = |name: String, arrivals: u16| Barrier {
        name,
        block: 0,
        arrivals,
    };
    let full = SLOTS.map(|name| barrier(format!("full of {name}"), 1));
    let empty = SLOTS.map(|name| barrier(format!("empty of {name}"), CONSUMERS as u16));
    let turns = (0..CONSUMERS).map(|c| barrier(format!("turn of consumer {c}"), 1));
    let slots = SLOTS.map(|name| Slot {
        name: name.into(),
        block: 0,
    });
    Pipeline {
        name: "attention in turns".into(),
        slots: slots.into(),
        barriers: full.into_iter().chain(empty).chain(turns).collect(),
        actors,
    }
}

/// The steps of a consumer: turn 0 has the scores of block 0, the last one the output of the last block.
fn consumer(number: usize, blocks: u16) -> Vec<Step> {
    let product = |item: u16| {
        let slot = slot(item);
        [
            Step::Wait {
                barrier: slot,
                parity: parity(item),
            },
            Step::Multiply {
                item,
                slots: vec![slot],
            },
            Step::Retire { pending: 0 },
            Step::Arrive {
                barrier: SLOTS.len() + slot,
            },
        ]
    };
    let mut steps = Vec::new();
    for turn in 0..=blocks {
        // Consumer 0 has the first turn: it waits for the phase before the first, which is complete.
        steps.push(Step::Wait {
            barrier: TURNS + number,
            parity: ((turn + 1 + number as u16) % 2) as u8,
        });
        if turn < blocks {
            steps.extend(product(2 * turn));
        }
        if turn > 0 {
            steps.extend(product(2 * turn - 1));
        }
        let is_last = turn == blocks && number + 1 == CONSUMERS;
        if !is_last {
            steps.push(Step::Arrive {
                barrier: TURNS + (number + 1) % CONSUMERS,
            });
        }
        if turn < blocks {
            steps.push(Step::Epilogue { tile: turn });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::attention;
    use crate::figure::{draw, refused};
    use colex_sched::pipeline;

    #[test]
    fn no_order_of_the_steps_has_a_fault() {
        for blocks in 1..6 {
            assert!(pipeline::check(&attention(blocks)).is_ok(), "{blocks}");
        }
    }

    #[test]
    fn both_consumers_read_every_block() {
        let html = draw("turns", "attention\nblocks = 3").expect("it is well formed");
        for text in ["s0", "o0", "s1", "o1", "s2", "o2"] {
            // Two products, each two columns wide.
            assert_eq!(
                html.matches(&format!(">{text}</text>")).count(),
                4,
                "{text}"
            );
        }
        assert_eq!(html.matches(">e1</text>").count(), 8);
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("turns", "pingpong"),
            "turns have one subject, `attention`"
        );
        assert_eq!(
            refused("turns", "attention\nblocks = 0"),
            "`blocks = 0` is not a number from 1 to 64"
        );
    }
}
