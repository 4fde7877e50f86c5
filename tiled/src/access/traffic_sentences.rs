//! What accesses do to a memory, in a sentence.

use core::fmt;

use crate::access::coverage::Place;
use crate::access::traffic::Traffic;
use crate::access::words::{number, verb};

/// One line; `whose` is `The source's`, `A's` and so on.
pub(crate) fn sentence(f: &mut fmt::Formatter<'_>, whose: &str, traffic: &Traffic) -> fmt::Result {
    match traffic {
        Traffic::Shared {
            passes,
            least,
            degree,
            first,
            ..
        } => {
            let passes = match passes {
                1 => "1 pass".into(),
                n => format!("{n} passes"),
            };
            write!(f, "{whose} accesses take {passes}")?;
            banks(f, *least, *degree, first)
        }
        Traffic::Global {
            sectors,
            least,
            first,
        } => {
            write!(
                f,
                "{whose} requests touch {} of 32 bytes, and {least} would do.",
                number(*sectors, "sector")
            )?;
            wasteful(f, first)
        }
        Traffic::Bulk { .. } => bulk(f, whose, traffic),
        Traffic::Scattered(first) => writeln!(
            f,
            "{whose} values from {} on, of thread {}, are not contiguous and aligned: no instruction addresses them \
             at once.",
            first.1, first.0
        ),
    }
}

fn banks(
    f: &mut fmt::Formatter<'_>,
    least: usize,
    degree: usize,
    first: &Option<Box<Place>>,
) -> fmt::Result {
    match first {
        None => writeln!(f, " of {least}: no bank conflicts."),
        Some(place) => writeln!(
            f,
            ", and {least} would do: {degree} words meet in a bank, first for thread {}, from {} on.",
            place.0, place.1
        ),
    }
}

fn bulk(f: &mut fmt::Formatter<'_>, whose: &str, traffic: &Traffic) -> fmt::Result {
    let Traffic::Bulk {
        requests,
        bytes,
        stretches,
        shortest,
        unit,
        units,
        least,
        first,
    } = traffic
    else {
        return Ok(());
    };
    let units = number(*units, if *unit == 32 { "sector" } else { "row" });
    let stretches = match stretches {
        1 => "1 stretch".into(),
        n => format!("{n} stretches"),
    };
    write!(
        f,
        "{whose} {} of {bytes} bytes {} into {stretches}, the shortest of {shortest} bytes; they touch {units} of \
         {unit} bytes, and {least} would do.",
        number(*requests, "request"),
        verb(*requests, "fall"),
    )?;
    wasteful(f, first)
}

/// The first request that touches more sectors than its bytes fill.
fn wasteful(f: &mut fmt::Formatter<'_>, first: &Option<Box<Place>>) -> fmt::Result {
    match first {
        Some(place) => writeln!(
            f,
            " The first to touch more is thread {}, from {} on.",
            place.0, place.1
        ),
        None => writeln!(f),
    }
}
