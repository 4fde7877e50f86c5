//! Kernels: their source beside the PTX, stepped in the simulator to the end or to a fault.

use colex_atom::{Arch, Ty};
use colex_draw::{Cell, Fill, Grid};
use colex_ir::launch::{Argument, Launch};
use colex_ir::{Compare, Kernel, Reg, RegType};
use colex_layout::Layout;
use colex_sim::{Memory, Prepared, PrintTo, SimOptions, Stepper, Stop, Until};
use colex_tensor::{Arg, RawMemory};
use serde_json::{Value as Json, json};

use crate::fields::{Fields, Sentence};
use crate::kernels;
use crate::read;
use crate::view::{Cells, Link, Reply, table};

/// The most instructions of all warps, as they run anew for each step.
const INSTRUCTIONS: u64 = 60_000;
/// The most statements of the warp that is stepped.
const STATEMENTS: usize = 2000;
/// The most registers whose values are shown.
const REGISTERS: usize = 6;

fn sentence(error: impl ToString) -> Sentence {
    error.to_string()
}

/// A kernel, its launch, and the memory of its arguments.
struct Case {
    kernel: Kernel,
    launch: Launch,
    arguments: Vec<Argument>,
    memory: Memory,
}

pub(crate) fn reply(fields: &Fields) -> Result<Reply, Sentence> {
    let number = |name: &str, high| read::number(name, fields.text(name), 0, high);
    let (block, warp) = (number("block", 1023)?, number("warp", 31)?);
    let step = match fields.text("step") {
        "" => 0,
        text => read::number("step", text, 0, STATEMENTS as i64)? as usize,
    };
    let case = case(fields)?;
    let (kernel, launch) = (&case.kernel, &case.launch);
    let [blocks, threads] = [launch.blocks(), launch.threads()];
    let title = format!(
        "{} for {}, {blocks} by {threads} threads",
        kernel.name, kernel.target
    );
    let mut reply = Reply::of(fields, title);
    let ptx = kernel.ptx_with_lines().map_err(sentence)?;
    let options = SimOptions {
        print_to: PrintTo::Report,
        max_instructions: INSTRUCTIONS,
        cores: 1,
        ..SimOptions::default()
    };
    let prepared = Prepared::new(kernel, launch, &case.arguments);
    let at = ([block as u32, 0, 0], warp as u32);

    // Once to the end, for the verdict and the number of statements.
    let mut memory = case.memory.clone();
    let mut count = 0;
    let stepper = prepared.start(&mut memory, &options);
    let verdict = stepper.and_then(|mut stepper| {
        stepper.watch(at.0, at.1);
        while stepper.run(&Until::Statement)?.is_some() {
            count += 1;
            if count == STATEMENTS {
                break;
            }
        }
        stepper.finish()
    });
    // The step after the last statement is the end, or the fault.
    reply.last("step", count + 1);
    match &verdict {
        Ok(report) => {
            let (touched, least) = report.sectors();
            reply.fact("verdict", "no fault");
            reply.fact("instructions of all warps", report.instructions);
            reply.fact("passes lost to bank conflicts", report.bank_conflicts());
            reply.fact("sectors", format!("{touched}, and {least} would do"));
        }
        Err(fault) => {
            reply.refusal = Some(fault.to_string());
            reply.fact("verdict", format!("{:?}", fault.kind()));
        }
    }
    if count == 0 {
        reply.fact(
            "warp",
            format!("block {block} has no warp {warp} that runs a statement"),
        );
    }

    // Once more to the statement that is asked for.
    let mut memory = case.memory.clone();
    let stopped = prepared
        .start(&mut memory, &options)
        .and_then(|mut stepper| {
            stepper.watch(at.0, at.1);
            let (mut before, mut stop) = (None, None);
            for _ in 0..step.min(count) {
                before = stop.take();
                stop = stepper.run(&Until::Statement)?;
            }
            Ok((before, stop, stepper))
        });
    let line = match (&stopped, &verdict) {
        (_, Err(fault)) if step > count => fault.place().map(|place| place.at.line()),
        (Ok((_, Some(stop), _)), _) if step <= count => Some(stop.at.line()),
        _ => None,
    };
    reply.view(source(kernel, line));
    reply.view(assembled(&ptx, line));
    if let Ok((before, stop, stepper)) = stopped {
        let [before, stop] = if step > count {
            [stop, None]
        } else {
            [before, stop]
        };
        stop_facts(&mut reply, before.as_ref(), stop.as_ref());
        registers(&mut reply, kernel, &stepper, &[&before, &stop]);
        tile(&mut reply, &stepper);
    }
    let text = || kernel.ptx().map_err(sentence);
    reply.copy_later("PTX", text);
    reply.copy_later("Text", || Ok::<_, Sentence>(kernel.to_string()));
    Ok(reply)
}

fn stop_facts(reply: &mut Reply, before: Option<&Stop>, stop: Option<&Stop>) {
    let said = |stop: Option<&Stop>, none: &str| {
        stop.map_or(none.to_string(), |stop| stop.instruction.clone())
    };
    reply.fact("executed", said(before, "nothing yet"));
    let none = if before.is_none() {
        "the first statement"
    } else {
        "none"
    };
    reply.fact("next", said(stop, none));
    if let Some(stop) = stop {
        reply.fact("active lanes", format!("{:#010x}", stop.active));
    }
}

/// The register of a name such as `%r5`.
fn register_named(name: &str) -> Option<Reg> {
    RegType::ALL.into_iter().find_map(|ty| {
        let digits = name.strip_prefix('%')?.strip_prefix(ty.prefix())?;
        let index = digits.parse().ok()?;
        Some(Reg { index, ty })
    })
}

/// The registers of the statement that was executed and of the next one, by lane.
fn registers(
    reply: &mut Reply,
    kernel: &Kernel,
    stepper: &Stepper<'_, '_>,
    stops: &[&Option<Stop>],
) {
    let mut found: Vec<Reg> = Vec::new();
    for stop in stops.iter().copied().flatten() {
        let words = stop
            .instruction
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '%');
        for register in words.filter_map(register_named) {
            let is_one = register.index < kernel.count(register.ty);
            if is_one && !found.contains(&register) && found.len() < REGISTERS {
                found.push(register);
            }
        }
    }
    if found.is_empty() {
        return;
    }
    let values = stepper.registers(&found);
    let [header, lanes @ ..] = &values.rows[..] else {
        return;
    };
    let columns: Vec<&str> = header.iter().map(String::as_str).collect();
    reply.view(table(
        "registers",
        "Registers of the statement that was executed and of the next one, by lane",
        &columns,
        lanes.len(),
        |lane| (lanes[lane].clone(), Link::default()),
    ));
}

/// The name of the tensor in shared memory.
const TILE: &str = "tile";

/// The tensor in shared memory, element by element.
fn tile(reply: &mut Reply, stepper: &Stepper<'_, '_>) {
    let Some(table) = stepper.shared(TILE).filter(|table| table.rows.len() > 1) else {
        return;
    };
    // The first row and the first column are headers.
    let (rows, cols) = (table.rows.len() - 1, table.rows[0].len() - 1);
    let at = |row: i64, col: i64| table.rows[row as usize + 1].get(col as usize + 1);
    let value = |row, col| at(row, col).map_or("-", String::as_str);
    let cell = |row, col| match value(row, col) {
        "-" => Cell::default().filled(Fill::Void),
        written => Cell::new([written]).filled(Fill::Pastel(2)),
    };
    let grid = match Grid::from_fn(rows as i64, cols as i64, cell) {
        Ok(grid) => grid,
        Err(error) => return reply.grid("tile", &table.title, Err(error.to_string())),
    };
    let say = |row, col| match value(row, col) {
        "-" => format!("({row},{col}) was not written"),
        written => format!("({row},{col}) holds {written}"),
    };
    let cells = Cells::new(&grid, say, |_, _| Link::default());
    reply.grid(
        "tile",
        &format!("Shared memory: {}", table.title),
        Ok(cells),
    );
}

/// Lines of a text, each with the number of the source line that it belongs to, and those of the current line.
fn code(id: &str, title: &str, lines: &[(String, Option<u32>)], current: Option<u32>) -> Json {
    let keys = lines
        .iter()
        .map(|(_, line)| line.iter().collect::<Vec<_>>());
    let is_current = |line: &Option<u32>| line.is_some() && *line == current;
    let here = lines
        .iter()
        .enumerate()
        .filter(|(_, (_, line))| is_current(line));
    json!({
        "kind": "code", "id": id, "title": title,
        "lines": lines.iter().map(|(text, _)| text).collect::<Vec<_>>(),
        "keys": keys.collect::<Vec<_>>(),
        "current": here.map(|(at, _)| at).collect::<Vec<_>>(),
    })
}

/// The function that builds the kernel, with the numbers of its lines.
fn source(kernel: &Kernel, current: Option<u32>) -> Json {
    let signature = format!("fn {}(", kernel.name);
    let all: Vec<&str> = kernels::SOURCE.lines().collect();
    let start = all
        .iter()
        .position(|line| line.contains(&signature))
        .unwrap_or(0);
    let length = all[start..]
        .iter()
        .position(|line| *line == "}")
        .unwrap_or(0)
        + 1;
    let lines = (start..start + length).map(|at| (all[at].to_string(), Some(at as u32 + 1)));
    let lines: Vec<(String, Option<u32>)> = lines.collect();
    code("source", "Source", &lines, current)
}

/// The PTX without its `.file` and `.loc`, which say the source line of what follows.
fn assembled(ptx: &str, current: Option<u32>) -> Json {
    let mut lines = Vec::new();
    let mut line = None;
    let mut files = false;
    for text in ptx.lines() {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [".loc", _, number, ..] => line = number.parse().ok(),
            [".file", ..] => files = true,
            // The empty line after the files.
            [] if files => files = false,
            _ => {
                let is_instruction = text.ends_with(';') && line.is_some();
                lines.push((text.to_string(), line.filter(|_| is_instruction)));
            }
        }
    }
    code("ptx", "PTX", &lines, current)
}

fn case(fields: &Fields) -> Result<Case, Sentence> {
    let is_planted = match fields.text("mistake") {
        "" | "none" => false,
        "planted" => true,
        other => return Err(format!("mistake: there is no `{other}`")),
    };
    let floats = |memory: &mut Memory, count: i64| -> Result<u64, Sentence> {
        let at = memory.allocate(count as u64 * 4).map_err(sentence)?;
        let bytes: Vec<u8> = (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect();
        memory.write(at, &bytes).map_err(sentence)?;
        Ok(at)
    };
    let number = |name: &str, low, high| read::number(name, fields.text(name), low, high);
    let mut memory = Memory::default();
    Ok(match fields.text("kernel") {
        "axpy" => {
            let (blocks, threads) = (number("blocks", 1, 64)?, number("threads", 1, 1024)?);
            let n = number("n", 1, 4096)?;
            let (x, y) = (floats(&mut memory, n)?, floats(&mut memory, n)?);
            let bound = if is_planted { Compare::Le } else { Compare::Lt };
            Case {
                kernel: kernels::axpy(Arch::Sm80, bound),
                launch: Launch::new(blocks as u32, threads as u32),
                arguments: vec![
                    Argument::Pointer(x),
                    Argument::Pointer(y),
                    Argument::F32(2.0),
                    Argument::U32(n as u32),
                ],
                memory,
            }
        }
        "exchange" => Case {
            kernel: kernels::exchange(Arch::Sm80, !is_planted),
            launch: Launch::new(1, number("threads", 1, 64)? as u32),
            arguments: Vec::new(),
            memory,
        },
        "bulk" => {
            let data = floats(&mut memory, 32)?;
            Case {
                kernel: kernels::bulk(Arch::Sm90a, !is_planted).map_err(sentence)?,
                launch: Launch::new(1, 32),
                arguments: vec![Argument::Pointer(data)],
                memory,
            }
        }
        "transpose" => {
            let shared = read::composed("shared", fields.text("shared"))?;
            let built = kernels::transpose(&shared.to_string(), !is_planted).map_err(sentence)?;
            let bytes = 32 * 32 * 4;
            let from = floats(&mut memory, 32 * 32)?;
            let to = memory.allocate(bytes).map_err(sentence)?;
            let (by_row, by_column): (Layout, Layout) = (
                read::layout("from", "(32,32):(32,_1)")?,
                read::layout("to", "(32,32):(_1,32)")?,
            );
            let raw = |address| RawMemory {
                address,
                bytes,
                ty: Ty::F32,
            };
            let arguments = built
                .arguments(&[Arg::raw(raw(from), &by_row), Arg::raw(raw(to), &by_column)])
                .map_err(sentence)?;
            let mut kernel = built.kernel.clone();
            if let Some(region) = kernel.shared_regions.first_mut() {
                region.name = Some(TILE.to_string());
            }
            Case {
                launch: Launch::new(1, 256).dynamic_shared(built.dynamic_shared()),
                kernel,
                arguments,
                memory,
            }
        }
        other => return Err(format!("kernel: there is no `{other}`")),
    })
}
