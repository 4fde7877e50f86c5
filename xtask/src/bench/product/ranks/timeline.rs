//! Timelines of products over ranks: what each rank did when in one run, as numbers and as drawings.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use colex_draw::Picture;
use colex_gpu::ranks::{RankPath, RankProblem, RankSends, RankSums};
use colex_sched::{ChunkSpan, ChunkWork, Overlap, OverlapPlan};
use serde_json::{Value, json};

use super::checked::{CheckedProduct, Numbers, ProductWay, check};
use super::{Host, NO_PRODUCT, RankBench, each, head};
use crate::verdict::{Checked, Ended};

/// The bench of a file with timelines.
pub(super) const BENCH: &str = "rank timeline";

/// How the times are taken, for the reader of them.
const PROTOCOL: &str = "one run behind three others, two of which are enqueued right before it; events around each copy, each product \
and each sum; nanoseconds since all ranks have come to the run; results compared with the host's";

/// What brings the terms of a product's sums to the owners, and what adds them there.
type SumWay = (Option<RankSends>, Option<RankSums>);

/// The products, and the ways of their sums.
fn products(ranks: i64) -> Vec<(RankProblem, SumWay)> {
    let of = |overlap, [m, n, k]: [i64; 3]| RankProblem {
        overlap,
        ranks,
        m,
        n,
        k,
    };
    let (large, small) = ([8192, 8192, 28672], [8192, 8192, 2048 * ranks]);
    let usual = (None, None);
    let by = |sends| (Some(sends), None);
    let in_epilogue = |sends| (Some(sends), Some(RankSums::Epilogue));
    let early = (1..ranks - 1).map(|early| {
        let way = (Some(RankSends::Engines), Some(RankSums::Early(early)));
        (of(Overlap::ProductScatter, small), way)
    });
    let mut all = vec![
        (of(Overlap::GatherProduct, [8192, 28672, 4096]), usual),
        (
            of(Overlap::GatherProduct, [8192, 2560 * ranks, 8192]),
            usual,
        ),
        (of(Overlap::ProductScatter, large), usual),
        (of(Overlap::ProductScatter, small), usual),
        (of(Overlap::ProductScatter, small), by(RankSends::Reduction)),
        (of(Overlap::ProductReduce, large), by(RankSends::Engines)),
        (of(Overlap::ProductReduce, large), usual),
        (of(Overlap::ProductScatter, small), by(RankSends::Kernel)),
        (
            of(Overlap::ProductScatter, small),
            in_epilogue(RankSends::Engines),
        ),
        (
            of(Overlap::ProductScatter, small),
            in_epilogue(RankSends::Kernel),
        ),
    ];
    all.extend(early);
    all
}

/// Records a run of one product.
fn case(host: &Host, problem: RankProblem, (sends, sums): SumWay) -> Result<Value> {
    let RankProblem { ranks, m, n, k, .. } = problem;
    let numbers = Numbers::new(ranks);
    let usual = ProductWay::of(RankPath::PeerMemory, None, false);
    let way = match sends {
        Some(sends) => usual.by(sends),
        None => usual,
    };
    let way = match sums {
        Some(sums) => way.added(sums),
        None => way,
    };
    let mut product = CheckedProduct::new(host, (problem, &numbers), &way)?;
    let name = way.name(product.pieces());
    let c = product.result(host)?;
    check(&name, (problem, &numbers), &c, 1.0 + 2.0 * ranks as f64)?;
    let spans = product.timeline()?;
    let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
    println!("{problem}, {name}: {:.1} us", end as f64 / 1e3);
    for span in &spans {
        let [start, end] = [span.start, span.end].map(|time| time as f64 / 1e3);
        let (does, chunk) = (span.work, span.chunk);
        println!(
            "  rank {}: {does:?} chunk {chunk} {start:>9.1} to {end:>9.1} us",
            span.rank
        );
    }
    let data: Vec<Value> = spans.iter().map(written).collect();
    Checked {
        data: json!({"spans": data}),
        ..Checked::new(
            format!("timeline of {problem}, {name}"),
            Ended::Passed,
            PROTOCOL,
        )
    }
    .add();
    Ok(json!({
        "overlap": problem.overlap.to_string(), "ranks": ranks, "m": m, "n": n, "k": k, "way": name,
        "explained": product.explain()?, "spans": data,
    }))
}

/// When the products and sends of a run ended, and when its sums began and ended: the earliest and the latest rank, in microseconds.
pub(super) fn summary(spans: &[ChunkSpan]) -> String {
    let of = |is: fn(&ChunkWork) -> bool, last: bool| {
        let mut ranks = std::collections::BTreeMap::new();
        for span in spans.iter().filter(|span| is(&span.work)) {
            let time = ranks.entry(span.rank).or_insert(span.start);
            *time = if last {
                span.end.max(*time)
            } else {
                span.start.min(*time)
            };
        }
        let us = |time: Option<&u64>| time.map(|time| *time as f64 / 1e3);
        match (us(ranks.values().min()), us(ranks.values().max())) {
            (Some(first), Some(last)) => format!("{first:.0} to {last:.0}"),
            _ => "none".to_string(),
        }
    };
    let products = |work: &ChunkWork| matches!(work, ChunkWork::Product | ChunkWork::Products);
    let sends = |work: &ChunkWork| matches!(work, ChunkWork::Send { .. });
    let adds = |work: &ChunkWork| matches!(work, ChunkWork::Add);
    format!(
        "products end at {}, sends at {}, sums begin at {} and end at {} us",
        of(products, true),
        of(sends, true),
        of(adds, false),
        of(adds, true)
    )
}

/// A span as a file has it.
fn written(span: &ChunkSpan) -> Value {
    let (work, to) = match span.work {
        ChunkWork::Send { to } => ("send", Some(to)),
        ChunkWork::Product => ("product", None),
        ChunkWork::Products => ("products", None),
        ChunkWork::Add => ("add", None),
    };
    json!({
        "rank": span.rank, "work": work, "to": to, "chunk": span.chunk, "start": span.start, "end": span.end,
    })
}

fn read(value: &Value) -> Result<ChunkSpan> {
    let number = |key: &str| {
        let number = value[key].as_i64().filter(|number| *number >= 0);
        number.with_context(|| format!("a span lacks `{key}`"))
    };
    let work = match value["work"].as_str() {
        Some("send") => ChunkWork::Send { to: number("to")? },
        Some("product") => ChunkWork::Product,
        Some("products") => ChunkWork::Products,
        Some("add") => ChunkWork::Add,
        _ => bail!("a span's `work` is none of send, product, products and add"),
    };
    Ok(ChunkSpan {
        rank: number("rank")?,
        work,
        chunk: number("chunk")?,
        start: number("start")? as u64,
        end: number("end")? as u64,
    })
}

/// The most cells of a row of a drawing.
const CELLS: u64 = 50;

/// The least of 1, 2, 5, 10, 20 and so on that divides a time into at most [`CELLS`] cells.
fn unit(time: u64) -> u64 {
    let steps = (0..18).flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)));
    let mut fit = steps.filter(|unit| time.div_ceil(*unit) <= CELLS);
    fit.next().unwrap_or(u64::MAX)
}

/// Returns the drawing of a case of a file: the one with a number, from 0.
pub(crate) fn picture(all: &Value, number: usize) -> Result<Picture> {
    ensure!(
        all["bench"] == BENCH,
        "the file is none of `bench ranks --timeline`"
    );
    let cases = all["cases"].as_array().context("cases are a list")?;
    let case = cases
        .get(number)
        .with_context(|| format!("case {number} of {}, numbered from 0", cases.len()))?;
    let named = case["overlap"].as_str().unwrap_or_default();
    let overlaps = [
        Overlap::GatherProduct,
        Overlap::ProductScatter,
        Overlap::ProductReduce,
    ];
    let overlap = overlaps.into_iter().find(|one| one.to_string() == named);
    let overlap = overlap.with_context(|| format!("`{named}` is no product over ranks"))?;
    let ranks = case["ranks"].as_i64().context("a case lacks `ranks`")?;
    let spans = case["spans"].as_array().context("spans are a list")?;
    let spans = spans.iter().map(read).collect::<Result<Vec<_>>>()?;
    let end = spans.iter().map(|span| span.end).max();
    let unit = unit(end.filter(|end| *end > 0).context("a case has no time")?);
    let caption = format!(
        "{overlap}, {} x {} x {}: a cell is {} us",
        case["m"],
        case["n"],
        case["k"],
        unit as f64 / 1e3
    );
    Ok(OverlapPlan::new(overlap, ranks)?.picture_of(&spans, unit, &caption)?)
}

/// Draws all cases of a file into a folder.
pub(super) fn draw_into(all: &Value, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    for number in 0..all["cases"].as_array().map_or(0, Vec::len) {
        let path = folder.join(format!("timeline-{number}.svg"));
        std::fs::write(&path, picture(all, number)?.svg() + "\n")
            .with_context(|| format!("{} cannot be written", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Records a run of each product over all GPUs.
pub(super) fn run(options: &RankBench, file: Option<&Path>, folder: Option<&Path>) -> Result<()> {
    let host = Host::open(None)?;
    let mut products = products(host.devices.len() as i64);
    products.retain(|(problem, _)| options.takes(problem));
    ensure!(!products.is_empty(), NO_PRODUCT);
    let mut all = head(BENCH, &host);
    all["protocol"] = PROTOCOL.into();
    let mut ways = products.iter().map(|(_, way)| *way);
    let problems = products.iter().map(|(problem, _)| *problem).collect();
    let all = each((all, file), problems, |problem| {
        let way = ways.next().context("each product has a way")?;
        case(&host, problem, way)
    })?;
    folder.map_or(Ok(()), |folder| draw_into(&all, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> Value {
        let span = |rank: i64, work: &str, to: Option<i64>, chunk: i64, [start, end]: [u64; 2]| json!({"rank": rank, "work": work, "to": to, "chunk": chunk, "start": start, "end": end});
        json!({
            "bench": BENCH, "cases": [
                {"overlap": "product and reduce-scatter", "ranks": 2, "m": 64, "n": 32, "k": 16, "spans": [
                    span(0, "product", None, 1, [0, 200_000]),
                    span(0, "product", None, 0, [200_000, 400_000]),
                    span(0, "send", Some(1), 1, [205_000, 305_000]),
                    span(0, "add", None, 0, [420_000, 460_000]),
                    span(1, "products", None, 0, [0, 400_000]),
                    span(1, "add", None, 1, [420_000, 460_000]),
                ]},
            ],
        })
    }

    #[test]
    fn a_cell_has_what_lasts_in_its_middle() {
        let svg = picture(&made_up(), 0).expect("a case").svg();
        assert!(
            svg.contains("product and reduce-scatter, 64 x 32 x 16: a cell is 10 us"),
            "{svg}"
        );
        let count = |text: &str| svg.matches(&format!(">{text}<")).count();
        // 400 us of a product as a whole, and two sums of 40 us.
        assert_eq!((count("x"), count("+")), (40, 8));
        let wrong = |change: &dyn Fn(&mut Value)| {
            let mut all = made_up();
            change(&mut all);
            picture(&all, 0).unwrap_err().to_string()
        };
        assert_eq!(
            picture(&made_up(), 1).unwrap_err().to_string(),
            "case 1 of 1, numbered from 0"
        );
        assert_eq!(
            wrong(&|all| all["bench"] = "ranks".into()),
            "the file is none of `bench ranks --timeline`"
        );
        assert_eq!(
            wrong(&|all| all["cases"][0]["spans"][0]["end"] = Value::Null),
            "a span lacks `end`"
        );
        assert_eq!(
            wrong(&|all| all["cases"][0]["spans"][0]["work"] = "wait".into()),
            "a span's `work` is none of send, product, products and add"
        );
        assert_eq!(
            wrong(&|all| all["cases"][0]["spans"] = json!([])),
            "a case has no time"
        );
        assert_eq!(
            wrong(&|all| all["cases"][0]["spans"][0]["rank"] = 2.into()),
            "rank 2 has chunk 1 from 0 to 200000: ranks and chunks are numbered from 0 to 1, and a span ends at its start or later"
        );
    }

    #[test]
    fn a_summary_has_the_first_and_the_last_rank() {
        let case = &made_up()["cases"][0]["spans"];
        let spans = case.as_array().expect("spans").iter().map(read);
        let spans: Vec<_> = spans.collect::<Result<_>>().expect("spans");
        assert_eq!(
            summary(&spans),
            "products end at 400 to 400, sends at 305 to 305, sums begin at 420 to 420 and end at 460 to 460 us"
        );
        assert_eq!(
            summary(&[]),
            "products end at none, sends at none, sums begin at none and end at none us"
        );
    }

    #[test]
    fn a_span_is_read_as_it_was_written() {
        let works = [
            ChunkWork::Send { to: 3 },
            ChunkWork::Product,
            ChunkWork::Products,
            ChunkWork::Add,
        ];
        for work in works {
            let span = ChunkSpan {
                rank: 1,
                work,
                chunk: 2,
                start: 7,
                end: 9,
            };
            assert_eq!(read(&written(&span)).expect("a span"), span);
        }
    }

    #[test]
    fn units_are_round() {
        assert_eq!([1, 50, 51, 101, 500_000].map(unit), [1, 1, 2, 5, 10_000]);
    }

    #[test]
    fn every_product_divides_over_2_4_and_8_devices() {
        for ranks in [2, 4, 8] {
            let all = products(ranks);
            assert!(all.iter().all(|(problem, _)| problem.layouts().is_ok()));
        }
    }
}
