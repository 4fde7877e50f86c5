//! Pipelines: one walk, event by event, with the stages and the barriers in between, and the verdict on every interleaving.

use colex_sched::pipeline::{
    Content, Durations, Event, Fault, Multistage, Pipeline, Step, Walk, WarpSpecialized,
    check_within,
};

use crate::fields::{Fields, Sentence};
use crate::read;
use crate::view::{Cells, Link, Reply, svg, table};

/// The states after which the check gives up.
const STATES: usize = 4000;
/// The events before the last one that are listed.
const BEFORE: usize = 12;
/// The most events of a walk.
const EVENTS: usize = 1 << 12;

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let (name, pipeline) = built(fields)?;
    let durations = durations(fields)?;
    let events = events(&pipeline, durations)?;
    let step = match fields.text("step") {
        "" => 0,
        text => read::number("step", text, 0, EVENTS as i64)? as usize,
    };
    let step = step.min(events.list.len());
    let mut reply = Reply::of(fields, name);
    reply.last("step", events.list.len());
    reply.refusal = events.fault.as_ref().map(ToString::to_string);
    reply.fact("events", events.list.len());
    reply.fact("every interleaving", verdict(&pipeline));

    let mut walk = Walk::new(&pipeline, durations).map_err(|fault| fault.to_string())?;
    let (mut time, mut seen) = (Vec::new(), Vec::new());
    for event in walk.by_ref().take(step).map_while(Result::ok) {
        seen.push(event);
    }
    time.extend(events.list.iter().map(|(_, time)| *time));
    reply.fact("time", walk.time());
    reply.fact(
        "this event",
        match seen.last() {
            None => "none yet".to_string(),
            Some(event) => said(&pipeline, event),
        },
    );
    actors(&mut reply, &pipeline, &walk);
    stages(&mut reply, &pipeline, &walk);
    barriers(&mut reply, &pipeline, &walk);
    happened(&mut reply, &pipeline, &seen, &time);
    drawn(&mut reply, &pipeline, durations);
    reply.copy_later("SVG", || {
        pipeline
            .picture(&durations)
            .map(svg)
            .map_err(|error| error.to_string())
    });
    reply.copy_later("Steps", || Ok::<_, Sentence>(pipeline.to_string()));
    Ok(reply)
}

/// The pipeline that the fields say, with the mistake that is planted in it.
fn built(fields: &Fields) -> Result<(String, Pipeline), Sentence> {
    let number = |name: &str, low, high| {
        read::number(name, fields.text(name), low, high).map(|n| n as usize)
    };
    let (stages, tiles, k) = (
        number("stages", 1, 16)?,
        number("tiles", 1, 8)?,
        number("k", 1, 32)?,
    );
    let consumers = number("consumers", 1, 4)?;
    let plan = |plan: WarpSpecialized| {
        let plan = WarpSpecialized {
            consumers,
            // A ring of one stage holds no second multiply.
            in_flight: usize::from(stages > 1),
            ..plan
        };
        plan.build()
    };
    let pipeline = match fields.text("schedule") {
        "cooperative" => plan(WarpSpecialized::cooperative(stages, tiles, k)),
        "pingpong" => plan(WarpSpecialized::pingpong(stages, tiles, k)),
        "multistage" => Multistage {
            stages,
            k_tiles: k,
            warps: consumers,
        }
        .build(),
        other => return Err(format!("schedule: there is no `{other}`")),
    };
    let mut pipeline = pipeline.map_err(|error| error.to_string())?;
    let mistake = planted(&mut pipeline, fields.text("mistake"))?;
    Ok((format!("{}{mistake}", pipeline.name), pipeline))
}

/// Plants a mistake; returns what it is, after the name of the pipeline.
fn planted(pipeline: &mut Pipeline, mistake: &str) -> Result<&'static str, Sentence> {
    let Pipeline {
        barriers, actors, ..
    } = pipeline;
    let steps = |of: &str| {
        let is_of = of == "producer";
        move |name: &str| name.starts_with("producer") == is_of
    };
    Ok(match mistake {
        "" | "none" => "",
        "arrivals" => {
            let empty = barriers
                .iter_mut()
                .filter(|barrier| barrier.name.starts_with("empty"));
            let changed = empty.map(|barrier| barrier.arrivals += 1).count();
            planted_in(changed, mistake)?;
            "; each empty barrier waits for one arrival too many"
        }
        "parity" => {
            let is_consumer = steps("consumer");
            let mut changed = 0;
            for actor in actors.iter_mut().filter(|actor| is_consumer(&actor.name)) {
                for step in &mut actor.steps {
                    if let Step::Wait { barrier, parity } = step
                        && barriers[*barrier].name.starts_with("full")
                    {
                        *parity ^= 1;
                        changed += 1;
                    }
                }
            }
            planted_in(changed, mistake)?;
            "; the consumers wait for the other parity"
        }
        "wait" => {
            let mut changed = 0;
            for actor in &mut *actors {
                let is_producer = steps("producer")(&actor.name);
                let before = actor.steps.len();
                actor.steps.retain(|step| match step {
                    Step::Wait { .. } => !is_producer,
                    Step::WaitGroups { .. } => false,
                    _ => true,
                });
                changed += before - actor.steps.len();
            }
            planted_in(changed, mistake)?;
            "; no actor waits for a free stage or for the data"
        }
        other => return Err(format!("mistake: there is no `{other}`")),
    })
}

/// Refuses a mistake that nothing of the pipeline can have.
fn planted_in(changed: usize, mistake: &str) -> Result<(), Sentence> {
    if changed > 0 {
        return Ok(());
    }
    Err(format!(
        "mistake: this pipeline has nothing that `{mistake}` would change"
    ))
}

fn durations(fields: &Fields) -> Result<Durations, Sentence> {
    let time = |name: &str| read::number(name, fields.text(name), 1, 64).map(|n| n.unsigned_abs());
    Ok(Durations {
        load: time("load")?,
        multiply: time("multiply")?,
        epilogue: time("epilogue")?,
    })
}

/// The events of a walk with their times, and the fault that ends it.
struct Events {
    list: Vec<(Event, u64)>,
    fault: Option<Fault>,
}

fn events(pipeline: &Pipeline, durations: Durations) -> Result<Events, Sentence> {
    let mut walk = Walk::new(pipeline, durations).map_err(|fault| fault.to_string())?;
    let mut list = Vec::new();
    while let Some(event) = walk.next() {
        match event {
            Ok(event) => list.push((event, walk.time())),
            Err(fault) => {
                return Ok(Events {
                    list,
                    fault: Some(fault),
                });
            }
        }
        if list.len() > EVENTS {
            return Err(format!(
                "the walk has more than the {EVENTS} events that the explorer plays"
            ));
        }
    }
    Ok(Events { list, fault: None })
}

fn verdict(pipeline: &Pipeline) -> String {
    match check_within(pipeline, STATES) {
        Ok(report) => format!(
            "no fault in {} states and {} transitions",
            report.states, report.transitions
        ),
        Err(fault) => fault.to_string(),
    }
}

fn said(pipeline: &Pipeline, event: &Event) -> String {
    match *event {
        Event::Step { actor, step } => {
            let actor = &pipeline.actors[actor];
            format!("{}: {}", actor.name, pipeline.describe(&actor.steps[step]))
        }
        Event::Landing { item, slot } => {
            format!("{item} lands in {}", pipeline.slots[slot].name)
        }
    }
}

/// The item that a step works on.
fn item_of(step: &Step) -> Option<u16> {
    match step {
        Step::Load { item, .. } | Step::Multiply { item, .. } => Some(*item),
        _ => None,
    }
}

/// The barrier that a step is about.
fn barrier_of(step: &Step) -> Option<usize> {
    match step {
        Step::Wait { barrier, .. }
        | Step::Arrive { barrier }
        | Step::Expect { barrier, .. }
        | Step::Sync { barrier }
        | Step::SyncArrive { barrier } => Some(*barrier),
        _ => None,
    }
}

/// The key of a barrier, beside those of items.
fn barrier_key(barrier: usize) -> i64 {
    -1 - barrier as i64
}

fn link_of(step: &Step) -> Link {
    let item = item_of(step).map(i64::from);
    let barrier = barrier_of(step).map(barrier_key);
    Link::keys(item.into_iter().chain(barrier))
}

fn actors(reply: &mut Reply, pipeline: &Pipeline, walk: &Walk<'_>) {
    reply.view(table(
        "actors",
        "Actors: the next step of each",
        &["actor", "step", "next", "waits for"],
        pipeline.actors.len(),
        |at| {
            let actor = &pipeline.actors[at];
            let next = actor.steps.get(walk.step(at));
            let cells = vec![
                actor.name.clone(),
                format!("{} of {}", walk.step(at), actor.steps.len()),
                next.map_or("done".to_string(), |step| pipeline.describe(step)),
                walk.waits_for(at).unwrap_or_default(),
            ];
            (cells, next.map(link_of).unwrap_or_default())
        },
    ));
}

fn stages(reply: &mut Reply, pipeline: &Pipeline, walk: &Walk<'_>) {
    reply.view(table(
        "stages",
        "Shared memory",
        &["slot", "holds", "reads to come"],
        pipeline.slots.len(),
        |slot| {
            let (holds, reads, link) = match walk.slot(slot) {
                Content::Nothing => ("nothing".to_string(), String::new(), Link::default()),
                Content::Loading(item) => (
                    format!("{item} under way"),
                    String::new(),
                    Link::key(item.into()),
                ),
                Content::Full(item, reads) => {
                    (item.to_string(), reads.to_string(), Link::key(item.into()))
                }
            };
            (vec![pipeline.slots[slot].name.clone(), holds, reads], link)
        },
    ));
}

fn barriers(reply: &mut Reply, pipeline: &Pipeline, walk: &Walk<'_>) {
    reply.view(table(
        "barriers",
        "Barriers: the phase that is not complete",
        &["barrier", "parity", "arrivals missing", "loads missing"],
        pipeline.barriers.len(),
        |at| {
            let (barrier, now) = (&pipeline.barriers[at], walk.barrier(at));
            let cells = vec![
                barrier.name.clone(),
                now.parity.to_string(),
                format!("{} of {}", now.pending, barrier.arrivals),
                now.loads.to_string(),
            ];
            (cells, Link::key(barrier_key(at)))
        },
    ));
}

fn happened(reply: &mut Reply, pipeline: &Pipeline, seen: &[Event], times: &[u64]) {
    let first = seen.len().saturating_sub(BEFORE);
    reply.view(table(
        "events",
        "The last events",
        &["event", "time", "what"],
        seen.len() - first,
        |row| {
            // The last one stands first.
            let at = seen.len() - 1 - row;
            let event = &seen[at];
            let link = match *event {
                Event::Step { actor, step } => link_of(&pipeline.actors[actor].steps[step]),
                Event::Landing { item, .. } => Link::key(item.into()),
            };
            let cells = vec![
                (at + 1).to_string(),
                times[at].to_string(),
                said(pipeline, event),
            ];
            (cells, link)
        },
    ));
}

/// The actors over time.
fn drawn(reply: &mut Reply, pipeline: &Pipeline, durations: Durations) {
    const TITLE: &str = "Over time: the item that each actor works on";
    let picture = match pipeline.picture(&durations) {
        Ok(picture) => picture,
        Err(error) => return reply.grid("timeline", TITLE, Err(error.to_string())),
    };
    let Some(grid) = picture.grids().next() else {
        return;
    };
    let label = |row, col| grid.cell(row, col).lines.join(" ");
    let say = |row, time| match label(row, time).as_str() {
        "" => format!("{} at time {time}: idle", grid.row_header(row)),
        "E" => format!("{} at time {time}: an epilogue", grid.row_header(row)),
        item => format!("{} at time {time}: item {item}", grid.row_header(row)),
    };
    let link = |row, col| label(row, col).parse().map_or(Link::default(), Link::key);
    let names = (0..grid.rows()).map(|row| grid.row_header(row));
    let cells = Cells {
        row_names: Some(names.collect()),
        ..Cells::new(grid, say, link)
    };
    reply.grid("timeline", TITLE, Ok(cells));
}
