//! `figure flags`: what two ranks set, wait for and compare over the rounds of a product between processes.
//!
//! The subject is `reduce`, an all-reduce by copy engines, which has all three flags. Rank 1 is late in round 2, and does not come to
//! the last round. Keys, each a number from 1 to 64:
//! - `rounds`: how many rounds rank 0 runs;
//! - `late`: by how many units of time rank 1 is late;
//! - `patience`: how many units of time rank 0 waits before it gives up.
//!
//! The steps are those of a rank of `ProcessProduct`. The words are `Flags` of a simulated device: a step sets one of them, and a
//! wait compares what the device says.

use std::time::Duration;

use colex_atom::Arch;
use colex_draw::{Cell, Fill, Grid, Headers, Picture};
use colex_gpu::{Device, Flags};

use super::{Body, Error, count};

const RANKS: usize = 2;
/// The flags that one rank sets in the memory of the other.
const FLAGS: [&str; 3] = ["come", "done", "sums"];
const COME: usize = 0;
const DONE: usize = 1;
const SUMS: usize = 2;

/// What a stream of a rank does in a round. Each takes a unit of time.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    /// Work, and then a flag in the memory of the other rank.
    Set(&'static str, usize),
    /// Work alone.
    Work(&'static str),
    /// Goes on when a flag in the memory of this rank has the round.
    Wait(usize),
}

/// The steps of a round, in the order of the streams.
const ROUND: [Act; 7] = [
    Act::Set("come", COME),
    Act::Wait(COME),
    Act::Set("send", DONE),
    Act::Wait(DONE),
    Act::Work("add"),
    Act::Set("sums", SUMS),
    Act::Wait(SUMS),
];

/// What happens in a unit of time on one rank.
struct Moment {
    /// The step, in the round.
    step: Option<FlagStep>,
    /// The words in the memory of the rank, before it.
    words: Vec<u32>,
}

/// The text of a step, and how it is drawn.
struct FlagStep {
    /// The flag that a comparison reads.
    reads: Option<&'static str>,
    said: String,
    kind: Kind,
}

impl FlagStep {
    fn cell(&self) -> Cell {
        let lines = self.reads.into_iter().chain([self.said.as_str()]);
        let fill = match self.kind {
            Kind::In(round) => colour(round),
            Kind::Held => Fill::Void,
        };
        Cell::new(lines).filled(fill)
    }
}

/// How a step is drawn.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It belongs to a round and goes on.
    In(u32),
    /// It is a comparison that fails, or what follows from it.
    Held,
}

pub(in super::super) fn draw(body: &Body) -> Result<Picture, Error> {
    match body.subjects()? {
        [what] if what == "reduce" => {}
        _ => return Err(Error::new("flags have one subject, `reduce`")),
    }
    let number = |key, default| count(body, key, default).map(|number| number as u32);
    let plan = Plan {
        rounds: number("rounds", 3)?,
        late: number("late", 2)?,
        patience: number("patience", 3)?,
    };
    let ranks = plan.run()?;
    let grids = ranks.iter().enumerate().map(|(rank, moments)| {
        let other = RANKS - 1 - rank;
        let names = ["stream".to_string()]
            .into_iter()
            .chain(FLAGS.map(|flag| format!("{flag} of {other}")));
        let grid = Grid::from_fn(1 + FLAGS.len() as i64, moments.len() as i64, |row, time| {
            let moment = &moments[time as usize];
            match (row, &moment.step) {
                (0, None) => Cell::default(),
                (0, Some(step)) => step.cell(),
                _ => {
                    let word = moment.words[row as usize - 1];
                    Cell::new([word.to_string()]).filled(colour(word))
                }
            }
        })?;
        Ok(grid
            .headers(Headers::Named(names.collect()), Headers::Numbers)
            .regions(|row, _| row.min(1))
            .caption(format!(
                "rank {rank}, and the flags in its memory, which rank {other} sets"
            )))
    });
    let grids = grids.collect::<Result<Vec<Grid>, Error>>()?;
    let rounds = (1..=plan.rounds).map(|round| (colour(round), format!("round {round}")));
    Ok(Picture::above(grids)
        .title("The steps of two ranks over time, and the flags in the memory of each")
        .legend(rounds.chain([(Fill::Void, "held up".to_string())])))
}

/// A fresh flag has no round and no colour.
fn colour(round: u32) -> Fill {
    match round {
        0 => Fill::Blank,
        round => Fill::pastel(i64::from(round) - 1),
    }
}

struct Plan {
    rounds: u32,
    late: u32,
    patience: u32,
}

impl Plan {
    /// What each rank does in each unit of time, until rank 0 has given up.
    fn run(&self) -> Result<Vec<Vec<Moment>>, Error> {
        let device = Device::simulator(Arch::Sm90a);
        let within = Duration::from_secs(10);
        let memory: Vec<Flags> = (0..RANKS)
            .map(|_| Flags::new(&device, FLAGS.len()))
            .collect::<Result<_, _>>()?;
        let mut ranks: Vec<Rank> = (0..RANKS).map(|_| Rank::default()).collect();
        let mut moments: Vec<Vec<Moment>> = (0..RANKS).map(|_| Vec::new()).collect();
        while !ranks[0].gave_up {
            let mut sets = Vec::new();
            for (rank, state) in ranks.iter_mut().enumerate() {
                let words = memory[rank].values(within)?;
                let step = self.step(rank, state, &words, &mut sets);
                moments[rank].push(Moment { step, words });
            }
            // What a step sets is there when the step has ended.
            for (owner, flag, round) in sets {
                memory[owner].set(&device, flag, round)?;
            }
            device.synchronize()?;
        }
        Ok(moments)
    }

    /// What a rank does in the next unit of time.
    fn step(
        &self,
        rank: usize,
        state: &mut Rank,
        words: &[u32],
        sets: &mut Vec<(usize, usize, u32)>,
    ) -> Option<FlagStep> {
        let round = state.ended + 1;
        if rank == 1 && state.at == 0 {
            if round == self.rounds {
                return None;
            }
            if round == 2 && state.held < self.late {
                state.held += 1;
                return None;
            }
        }
        let held = |reads, said| {
            let kind = Kind::Held;
            Some(FlagStep { reads, said, kind })
        };
        let (reads, said) = match ROUND[state.at] {
            Act::Wait(flag) if words[flag] < round && state.held == self.patience => {
                state.gave_up = true;
                return held(None, "stop".into());
            }
            Act::Wait(flag) if words[flag] < round => {
                state.held += 1;
                return held(Some(FLAGS[flag]), format!("{}<{round}", words[flag]));
            }
            Act::Wait(flag) => (Some(FLAGS[flag]), format!("{}\u{2265}{round}", words[flag])),
            Act::Work(name) => (None, name.into()),
            Act::Set(name, flag) => {
                sets.push((RANKS - 1 - rank, flag, round));
                (None, name.into())
            }
        };
        state.held = 0;
        state.at += 1;
        if state.at == ROUND.len() {
            (state.at, state.ended) = (0, round);
        }
        let kind = Kind::In(round);
        Some(FlagStep { reads, said, kind })
    }
}

/// How far a rank is.
#[derive(Default)]
struct Rank {
    /// The rounds that it has ended.
    ended: u32,
    /// Its step in the round.
    at: usize,
    /// For how long it has been in this step without going on.
    held: u32,
    gave_up: bool,
}

#[cfg(test)]
mod tests {
    use super::{FLAGS, FlagStep, Kind, Plan};
    use crate::figure::{draw, refused};

    const PLAN: Plan = Plan {
        rounds: 3,
        late: 2,
        patience: 4,
    };

    #[test]
    fn no_flag_is_ever_reset_or_ahead_of_its_round() {
        for moments in PLAN.run().expect("the simulator has flags") {
            for pair in moments.windows(2) {
                let grows = pair[0].words.iter().zip(&pair[1].words);
                assert!(grows.clone().all(|(before, after)| before <= after));
            }
            // A rank sends and brings only after it has come.
            for moment in &moments {
                let [come, done, sums] = moment.words[..] else {
                    panic!("three flags");
                };
                assert!(come >= done && done >= sums);
            }
        }
    }

    #[test]
    fn a_wait_goes_on_when_the_flag_has_the_round_and_no_earlier() {
        for moments in PLAN.run().expect("the simulator has flags") {
            for moment in &moments {
                let Some(FlagStep { reads, said, kind }) = &moment.step else {
                    continue;
                };
                let read = reads.map(|flag| {
                    let at = FLAGS.iter().position(|name| *name == flag);
                    moment.words[at.expect("a flag")].to_string()
                });
                let parts = |sign| {
                    let (word, round) = said.split_once(sign)?;
                    assert_eq!(read.as_deref(), Some(word), "the flag that it names");
                    Some((word, round))
                };
                if let Some((word, round)) = parts('\u{2265}') {
                    assert!(word >= round && *kind != Kind::Held, "{said}");
                }
                if let Some((word, round)) = parts('<') {
                    assert!(word < round && *kind == Kind::Held, "{said}");
                }
            }
        }
    }

    #[test]
    fn rank_0_waits_for_a_late_rank_and_gives_up_one_that_never_comes() {
        let html = draw("flags", "reduce\nrounds = 3\nlate = 2\npatience = 4");
        let html = html.expect("it is well formed");
        let count = |text: &str| html.matches(&format!(">{text}</text>")).count();
        assert_eq!(count("1&lt;2"), 2, "{html}");
        assert_eq!(count("2&lt;3"), 4, "{html}");
        assert_eq!(count("stop"), 1);
        // Both ranks come to two rounds and rank 0 to the third, and each comparison of the flag names it.
        assert_eq!(count("come"), (2 + 2 + 1) + (2 + 2 + 2 + 4));
        assert_eq!(count("2\u{2265}2"), 2 * 3);
    }

    #[test]
    fn mistakes_are_sentences() {
        assert_eq!(
            refused("flags", "gather"),
            "flags have one subject, `reduce`"
        );
        assert_eq!(
            refused("flags", "reduce\nlate = 0"),
            "`late = 0` is not a number from 1 to 64"
        );
    }
}
