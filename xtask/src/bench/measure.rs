//! The protocol: calls in batches long enough for the clock, many batches, the median of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::verdict::{Checked, Ended};

/// How the numbers are taken, for the reader of them.
pub(super) const PROTOCOL: &str = "median of 201 batches of at least 1 ms each, after 100 ms of warming up; \
in brackets the 10th and the 90th percentile; one thread, release build";

const BATCHES: usize = 201;
const BATCH: Duration = Duration::from_millis(1);
const WARM_UP: Duration = Duration::from_millis(100);

/// Measures one call and prints its row.
pub(super) fn call<T>(name: &str, call: impl FnMut() -> T) {
    items(name, 1, call);
}

/// Measures a call that handles `items` of something; its row says how many that is a second.
pub(super) fn items<T>(name: &str, items: u64, mut call: impl FnMut() -> T) {
    let calls = calibrated(&mut call);
    let mut samples: Vec<f64> = (0..BATCHES)
        .map(|_| nanoseconds(calls, &mut call))
        .collect();
    samples.sort_by(f64::total_cmp);
    let at = |percent: usize| samples[percent * (BATCHES - 1) / 100];
    let median = at(50);
    print!(
        "  {name:<58} {median:>10.1} ns  [{:.1}, {:.1}]",
        at(10),
        at(90)
    );
    if items > 1 {
        print!("  {:.0} M items/s", items as f64 / median * 1e3);
    }
    println!();
    Checked {
        data: json!({"ns": median, "tenth": at(10), "ninetieth": at(90), "items": items}),
        ..Checked::new(name, Ended::Passed, PROTOCOL)
    }
    .add();
}

/// How many calls make a batch.
fn calibrated<T>(call: &mut impl FnMut() -> T) -> u32 {
    let started = Instant::now();
    let mut calls = 1;
    loop {
        let took = nanoseconds(calls, call) * f64::from(calls);
        if took >= BATCH.as_nanos() as f64 && started.elapsed() >= WARM_UP {
            return calls;
        }
        if took < BATCH.as_nanos() as f64 {
            calls = calls.saturating_mul(2);
        }
    }
}

/// Nanoseconds a call, over a batch.
fn nanoseconds<T>(calls: u32, call: &mut impl FnMut() -> T) -> f64 {
    let started = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    started.elapsed().as_nanos() as f64 / f64::from(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_call_measures_longer() {
        let sleep = |ms| nanoseconds(2, &mut || std::thread::sleep(Duration::from_millis(ms)));
        assert!(sleep(20) > sleep(2));
    }
}
