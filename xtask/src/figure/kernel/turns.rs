//! `figure turns`: two consumers of attention that issue their products in turns, over time.
//!
//! The subject is `attention`. Keys, each a number from 1 to 64:
//! - `blocks`: blocks of keys;
//! - `load`, `multiply` and `softmax`: how long a load, a product and a softmax take.
//!
//! Two rings of two stages hold keys and values. Both consumers read every block, each for its own queries. A turn has the
//! scores of a block and the output of the block before, and ends when both products have: there is one set of tensor cores. The
//! softmax of a block begins when its scores are there, beside the output.

use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_sched::pipeline::{self, Actor, Barrier, Durations, Pipeline, Slot, Span, Step};

use super::{Body, Error, count};

const CONSUMERS: usize = 2;
/// The slots: two stages of keys, then two of values.
const SLOTS: [&str; 4] = ["keys 0", "keys 1", "values 0", "values 1"];
/// The rows below the slots, each an actor: the tensor cores for a consumer, and its threads.
const ROWS: [&str; 2 * CONSUMERS] = ["0: products", "0: softmax", "1: products", "1: softmax"];
/// The barriers behind those of full and of empty slots, one of each kind for each consumer: its turn, its scores are there, its
/// output is there, its weights are there.
const TURNS: usize = 2 * SLOTS.len();
const SCORES: usize = TURNS + CONSUMERS;
const OUTPUTS: usize = SCORES + CONSUMERS;
const WEIGHTS: usize = OUTPUTS + CONSUMERS;

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
    let names: Vec<String> = SLOTS.iter().chain(&ROWS).map(ToString::to_string).collect();
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
    for (consumer, names) in ROWS.chunks(2).enumerate() {
        actors.push(actor(names[0].into(), products(consumer, blocks)));
        actors.push(actor(names[1].into(), softmax(consumer, blocks)));
    }
    let barrier = |name: String, arrivals: u16| Barrier {
        name,
        block: 0,
        arrivals,
    };
    let full = SLOTS.map(|name| barrier(format!("full of {name}"), 1));
    let empty = SLOTS.map(|name| barrier(format!("empty of {name}"), CONSUMERS as u16));
    let of_consumers = ["turn", "scores", "output", "weights"].map(|what| {
        (0..CONSUMERS).map(move |consumer| barrier(format!("{what} of consumer {consumer}"), 1))
    });
    let slots = SLOTS.map(|name| Slot {
        name: name.into(),
        block: 0,
    });
    Pipeline {
        name: "attention in turns".into(),
        slots: slots.into(),
        barriers: full
            .into_iter()
            .chain(empty)
            .chain(of_consumers.into_iter().flatten())
            .collect(),
        actors,
    }
}

/// What the tensor cores do for a consumer: turn 0 has the scores of block 0, the last one the output of the last block.
fn products(consumer: usize, blocks: u16) -> Vec<Step> {
    let product = |item: u16, done: usize| {
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
                barrier: done + consumer,
            },
        ]
    };
    let mut steps = Vec::new();
    for turn in 0..=blocks {
        if turn > 0 {
            steps.push(phase(WEIGHTS + consumer, turn - 1));
        }
        // Consumer 0 has the first turn: it waits for the phase before the first, which is complete.
        steps.push(Step::Wait {
            barrier: TURNS + consumer,
            parity: ((turn + 1 + consumer as u16) % 2) as u8,
        });
        if turn < blocks {
            steps.extend(product(2 * turn, SCORES));
        }
        if turn > 0 {
            steps.extend(product(2 * turn - 1, OUTPUTS));
        }
        let is_last = turn == blocks && consumer + 1 == CONSUMERS;
        if !is_last {
            steps.push(Step::Arrive {
                barrier: TURNS + (consumer + 1) % CONSUMERS,
            });
        }
    }
    steps
}

/// What the threads of a consumer do: they release keys when their scores are there, and values behind the next softmax.
fn softmax(consumer: usize, blocks: u16) -> Vec<Step> {
    let release = |item: u16| Step::Arrive {
        barrier: SLOTS.len() + slot(item),
    };
    let mut steps = Vec::new();
    for block in 0..blocks {
        steps.extend([
            phase(SCORES + consumer, block),
            release(2 * block),
            Step::Epilogue { tile: block },
        ]);
        if block > 0 {
            steps.extend([phase(OUTPUTS + consumer, block - 1), release(2 * block - 1)]);
        }
        steps.push(Step::Arrive {
            barrier: WEIGHTS + consumer,
        });
    }
    steps.extend([
        phase(OUTPUTS + consumer, blocks - 1),
        release(2 * blocks - 1),
    ]);
    steps
}

/// Waits for a phase of a barrier by its parity.
fn phase(barrier: usize, number: u16) -> Step {
    Step::Wait {
        barrier,
        parity: (number % 2) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::attention;
    use crate::figure::{draw, refused};
    use colex_sched::pipeline::{self, Durations, Span};

    #[test]
    fn no_order_of_the_steps_has_a_fault() {
        for blocks in 1..5 {
            assert!(pipeline::check(&attention(blocks)).is_ok(), "{blocks}");
        }
    }

    #[test]
    fn a_softmax_runs_beside_the_output_of_the_block_before() {
        let durations = Durations {
            load: 3,
            multiply: 2,
            epilogue: 4,
        };
        let spans = pipeline::timeline(&attention(3), &durations).expect("no fault");
        let find = |actor: usize, what: &str, item: u16| -> &Span {
            let is_it = |span: &&Span| (span.actor, span.what, span.item) == (actor, what, item);
            spans.iter().find(is_it).expect("it is there")
        };
        for consumer in 0..2 {
            // Item 1 is the values of block 0.
            let output = find(1 + 2 * consumer, "multiply", 1);
            let softmax = find(2 + 2 * consumer, "epilogue", 1);
            assert!(output.start < softmax.end && softmax.start < output.end);
        }
        // There is one set of tensor cores.
        let products = || spans.iter().filter(|span| span.what == "multiply");
        for one in products() {
            let beside = products().filter(|other| one.start < other.end && other.start < one.end);
            assert_eq!(beside.count(), 1, "{one:?}");
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
