//! Strong scaling: the same whole product over more and more devices, as numbers and as a drawing.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use colex_gpu::ranks::{RankDevices, RankPath, RankProblem};
use colex_sched::Overlap;
use serde_json::{Value, json};

use super::checked::{CheckedProduct, Numbers, ProductWay, check};
use super::{Host, PROTOCOL, RankWay, alone, each, head};
use crate::bench::product::recorded::{put, svg};
use crate::verdict::{Checked, Ended};

/// The bench of a file with times over numbers of devices.
const BENCH: &str = "rank scaling";

/// The products, whose numbers of ranks are those of the caller.
fn products() -> Vec<RankProblem> {
    let of = |overlap, [m, n, k]: [i64; 3]| RankProblem {
        overlap,
        ranks: 1,
        m,
        n,
        k,
    };
    let gathers = [[8192, 57344, 8192], [8192, 28672, 4096]];
    let sums = [[8192, 8192, 28672], [8192, 4096, 14336]];
    let gathers = gathers.map(|sizes| of(Overlap::GatherProduct, sizes));
    let scatters = sums.map(|sizes| of(Overlap::ProductScatter, sizes));
    let reduces = sums.map(|sizes| of(Overlap::ProductReduce, sizes));
    gathers.into_iter().chain(scatters).chain(reduces).collect()
}

/// The times of a product on the first `count` devices, and its path. One device multiplies as it does without ranks.
fn point(host: &Host, whole: RankProblem) -> Result<(String, Vec<f64>)> {
    let count = host.devices.len() as i64;
    let problem = RankProblem {
        ranks: count,
        ..whole
    };
    let (path, mut ways) = if count == 1 {
        let alone = alone(host, [whole.m, whole.n, whole.k])?;
        alone.check(host)?;
        let way = RankWay::new("alone", move || alone.run(host));
        (RankPath::Local.to_string(), [way])
    } else {
        let numbers = Numbers::new(count);
        let mut product = CheckedProduct::new(host, (problem, &numbers), &ProductWay::usual())?;
        let c = product.result(host)?;
        let path = product.path().to_string();
        let roundings = match problem.overlap {
            Overlap::GatherProduct => 1.0,
            _ => 1.0 + 2.0 * count as f64,
        };
        check(&path, (problem, &numbers), &c, roundings)?;
        (path, [RankWay::new("ranks", move || product.run())])
    };
    let samples = host.measure(&mut ways)?;
    Ok((path, samples.into_iter().flatten().collect()))
}

/// Measures all products over the first devices, for each of the numbers.
pub(super) fn run(counts: &[usize], file: Option<&Path>, folder: Option<&Path>) -> Result<()> {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    counts.dedup();
    let most = RankDevices::MOST;
    ensure!(
        counts.iter().all(|count| (1..=most).contains(count)),
        "{counts:?} are the numbers of devices: they are 1 to {most}"
    );
    let hosts = counts.iter().map(|count| Host::open(Some(*count)));
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    let last = hosts.last().context("there is a number of devices")?;
    let all = (head(BENCH, last), file);
    let all = each(all, products(), |whole| {
        let mut points: Vec<Value> = Vec::new();
        println!("{}, {} x {} x {}", whole.overlap, whole.m, whole.n, whole.k);
        for host in &hosts {
            let (path, samples) = point(host, whole)?;
            let (ranks, time) = (host.devices.len(), samples[samples.len() / 2]);
            let least = points
                .first()
                .and_then(|point| point["microseconds"].as_f64());
            let gain = least.unwrap_or(time) / time;
            println!(
                "  {}: {time:>9.1} us, {gain:.2} times as fast, by {path}",
                counted(ranks as f64)
            );
            points.push(json!({
                "ranks": ranks, "path": path, "microseconds": time, "samples": samples,
            }));
        }
        Checked {
            data: json!({"points": points}),
            ..Checked::new(format!("scaling of {whole}"), Ended::Passed, PROTOCOL)
        }
        .add();
        Ok(json!({
            "overlap": whole.overlap.to_string(), "m": whole.m, "n": whole.n, "k": whole.k, "points": points,
        }))
    })?;
    folder.map_or(Ok(()), |folder| draw_into(&all, folder))
}

/// Draws what a file has.
pub(super) fn draw_into(all: &Value, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let path = folder.join("scaling.svg");
    std::fs::write(&path, drawing(all)? + "\n")
        .with_context(|| format!("{} cannot be written", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Where bars begin, the length of the longest, and the height of a row.
const BARS: f64 = 96.0;
const LONGEST: f64 = 560.0;
const ROW: f64 = 18.0;

/// A number of devices in words.
fn counted(devices: f64) -> String {
    let plural = if devices == 1.0 { "" } else { "s" };
    format!("{devices} device{plural}")
}

/// For each product a bar for each number of devices, as long as the speed over that of the least number; a line marks the number of
/// times as many devices.
pub(crate) fn drawing(all: &Value) -> Result<String> {
    ensure!(
        all["bench"] == BENCH,
        "the file is none of `bench ranks --ranks`"
    );
    let cases = all["cases"].as_array().context("cases are a list")?;
    ensure!(!cases.is_empty(), "no product was measured");
    let (mut inner, mut words, mut top) = (String::new(), Vec::new(), 8.0);
    for case in cases {
        let points = case["points"].as_array().context("a product has points")?;
        let number = |point: &Value, key: &str| {
            let positive = point[key].as_f64().filter(|number| *number > 0.0);
            positive.with_context(|| format!("a point lacks `{key}`"))
        };
        let each = |point: &Value| Ok([number(point, "ranks")?, number(point, "microseconds")?]);
        let each = points.iter().map(each).collect::<Result<Vec<_>>>()?;
        let [[least, time], ..] = each[..] else {
            anyhow::bail!("a product has no point");
        };
        let most = each
            .iter()
            .map(|[ranks, _]| ranks / least)
            .fold(1.0, f64::max);
        let mut said = format!(
            "{}, {} x {} x {}",
            case["overlap"].as_str().unwrap_or("?"),
            case["m"],
            case["n"],
            case["k"]
        );
        put(
            &mut inner,
            format_args!(
                "<text class=\"cx-text\" x=\"4\" y=\"{:.1}\">{said}</text>",
                top + 12.0
            ),
        );
        top += ROW;
        for [ranks, microseconds] in each {
            let (gain, ideal) = (time / microseconds, ranks / least);
            let [long, mark] = [gain, ideal].map(|times| times / most * LONGEST);
            put(
                &mut inner,
                format_args!(
                    "<text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                     <rect class=\"cx-bar\" x=\"{BARS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"12\"/>\
                     <path class=\"cx-roof\" d=\"M{:.1} {:.1}v14\"/>\
                     <text class=\"cx-text\" x=\"{:.1}\" y=\"{:.1}\">{gain:.2}</text>",
                    BARS - 6.0,
                    top + 11.0,
                    counted(ranks),
                    top + 1.0,
                    long.min(LONGEST),
                    BARS + mark,
                    top,
                    BARS + long.min(LONGEST).max(mark) + 6.0,
                    top + 11.0
                ),
            );
            let _ = write!(said, ", {} {gain:.2}", counted(ranks));
            top += ROW;
        }
        words.push(said);
        top += 8.0;
    }
    let device = all["devices"][0].as_str().unwrap_or("?");
    let [driver, date] = ["driver", "date"].map(|key| all[key].as_str().unwrap_or("?"));
    let source = format!(
        "speed over that of the fewest devices; a line marks the ratio of devices; {device}, {driver}, {date}"
    );
    let title = "Strong scaling: the same product over more devices";
    Ok(svg(title, &words.join(". "), &inner, &source, top))
}

/// The devices of a host are not needed to divide the products.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_product_divides_over_1_2_4_and_8_devices() {
        for whole in products() {
            for ranks in [1, 2, 4, 8] {
                let problem = RankProblem { ranks, ..whole };
                assert!(problem.layouts().is_ok(), "{problem}");
            }
        }
    }

    #[test]
    fn bars_are_as_long_as_the_speed() {
        let point = |ranks: i64, time: f64| json!({"ranks": ranks, "microseconds": time});
        let all = json!({
            "bench": BENCH, "devices": ["A GPU"], "driver": "13.0", "date": "2026-11-26", "cases": [{
                "overlap": "all-gather and product", "m": 8, "n": 8, "k": 8,
                "points": [point(1, 100.0), point(2, 50.0), point(4, 50.0)],
            }],
        });
        let svg = drawing(&all).expect("a case");
        let widths = svg
            .split("width=\"")
            .skip(2)
            .map(|rest| rest.split('"').next());
        let widths: Vec<_> = widths.flatten().collect();
        assert_eq!(widths, ["140.0", "280.0", "280.0"], "{svg}");
        assert!(
            svg.contains("1 device 1.00, 2 devices 2.00, 4 devices 2.00"),
            "{svg}"
        );
        for wrong in [
            json!({}),
            json!({"bench": "ranks", "cases": all["cases"]}),
            json!({"bench": BENCH, "cases": []}),
            json!({"bench": BENCH, "cases": [{"points": []}]}),
        ] {
            assert!(drawing(&wrong).is_err(), "{wrong}");
        }
        let zero = json!({"bench": BENCH, "cases": [{"points": [point(1, 0.0)]}]});
        assert_eq!(
            drawing(&zero).unwrap_err().to_string(),
            "a point lacks `microseconds`"
        );
    }
}
