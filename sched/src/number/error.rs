//! The one error type: what was asked, where it fails, what would be right.

use std::fmt;

/// Why a schedule does not exist.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// An extent, count or width is below the least that makes sense.
    TooSmall {
        /// Whose extent, for example `extent m of the problem`.
        what: &'static str,
        /// The value given.
        value: i64,
        /// The least value allowed.
        least: i64,
    },
    /// A count that no device has, or that is beyond what is walked.
    TooLarge {
        /// What was counted, for example `the number of warps`.
        what: &'static str,
        /// The value given.
        value: usize,
        /// The greatest value allowed.
        most: usize,
    },
    /// More splits than there are k-tiles to hand out.
    Splits {
        /// The splits asked for.
        splits: i64,
        /// The k-tiles of one output tile.
        k_tiles: i64,
    },
    /// A grid dimension that no CUDA device launches.
    GridLimit {
        /// `x`, `y` or `z`.
        axis: char,
        /// The blocks needed.
        blocks: i64,
        /// The most a device takes on this axis.
        limit: i64,
    },
    /// A tile or block that lies outside the grid it was looked up in.
    Outside {
        /// `tile` or `block`.
        what: &'static str,
        /// The coordinate.
        coord: [i64; 3],
        /// The extents it must stay below.
        extent: [i64; 3],
    },
    /// A cluster that does not divide the grid.
    Cluster {
        /// The cluster, in blocks along m and n.
        cluster: [i64; 2],
        /// The grid, in blocks along m and n.
        grid: [i64; 2],
    },
    /// A cluster with more blocks than the device can hold at once.
    ClusterTooLarge {
        /// The cluster, in blocks along m and n.
        cluster: [i64; 2],
        /// The multiprocessors of the device.
        sms: i64,
    },
    /// Channel groups that do not divide the channels.
    Groups {
        /// `C` (input channels) or `K` (output channels).
        axis: char,
        /// The channels.
        channels: i64,
        /// The groups asked for.
        groups: i64,
    },
    /// A filter that does not fit into the padded input.
    Filter {
        /// `D`, `H` or `W`.
        axis: char,
        /// Positions that the dilated filter spans.
        span: i64,
        /// Positions of the padded input.
        padded: i64,
    },
    /// The swizzle maps convolutions and has no meaning for a plain GEMM, or the reverse.
    WrongProblem {
        /// The swizzle's name.
        swizzle: String,
        /// What it maps instead.
        maps: &'static str,
    },
    /// The grid does not divide, so the order of the tiles is no layout.
    NotALayout {
        /// The swizzle or scheduler.
        schedule: String,
        /// The extent that does not divide.
        extent: i64,
        /// What would have to divide it.
        divisor: i64,
    },
    /// Text that names no threadblock swizzle.
    Parse {
        /// The text.
        text: String,
    },
    /// A value that a function cannot work with, as one sentence.
    Invalid {
        /// The sentence.
        sentence: String,
    },
    /// A product of extents beyond 64-bit integers.
    Overflow {
        /// What was being counted.
        what: &'static str,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooSmall { what, value, least } => {
                write!(f, "{what} is {value}: it must be at least {least}")
            }
            Error::TooLarge { what, value, most } => {
                write!(f, "{what} is {value}: it can be at most {most}")
            }
            Error::Splits { splits, k_tiles } => write!(
                f,
                "{splits} splits of {k_tiles} k-tiles: every split needs a k-tile, so at most {k_tiles}"
            ),
            Error::GridLimit {
                axis,
                blocks,
                limit,
            } => write!(
                f,
                "the grid needs {blocks} blocks along {axis}, and a device takes at most {limit}"
            ),
            Error::Outside {
                what,
                coord: [x, y, z],
                extent: [a, b, c],
            } => {
                write!(f, "{what} ({x},{y},{z}) is outside ({a},{b},{c})")
            }
            Error::Cluster { cluster, grid } => fmt_cluster(f, *cluster, *grid),
            Error::ClusterTooLarge {
                cluster: [m, n],
                sms,
            } => write!(
                f,
                "a cluster of {m}x{n} blocks needs {} multiprocessors at once, and the device has {sms}",
                m.saturating_mul(*n)
            ),
            Error::Groups {
                axis,
                channels,
                groups,
            } => write!(
                f,
                "{groups} groups do not divide {axis} = {channels} channels"
            ),
            Error::Filter { axis, span, padded } => write!(
                f,
                "the filter spans {span} positions along {axis}, and the padded input has {padded}"
            ),
            Error::WrongProblem { swizzle, maps } => write!(f, "{swizzle} maps {maps}"),
            Error::NotALayout {
                schedule,
                extent,
                divisor,
            } => write!(
                f,
                "the order of {schedule} is not a layout: {divisor} does not divide {extent}"
            ),
            Error::Parse { text } => write!(
                f,
                "{text:?} names no threadblock swizzle: expected for example GemmIdentity<8> or GemmHorizontal"
            ),
            Error::Invalid { sentence } => f.write_str(sentence),
            Error::Overflow { what } => write!(f, "{what} is beyond 64-bit integers"),
        }
    }
}

fn fmt_cluster(f: &mut fmt::Formatter<'_>, [cm, cn]: [i64; 2], [m, n]: [i64; 2]) -> fmt::Result {
    let up = |x: i64, c: i64| (x / c + i64::from(x % c != 0)).saturating_mul(c);
    write!(
        f,
        "a cluster of {cm}x{cn} blocks does not divide a grid of {m}x{n}: {}x{} would",
        up(m, cm),
        up(n, cn)
    )
}

impl std::error::Error for Error {}

/// A value of at least `least`, or the error that says which value was not.
pub(crate) fn at_least(what: &'static str, value: i64, least: i64) -> Result<i64, Error> {
    if value < least {
        Err(Error::TooSmall { what, value, least })
    } else {
        Ok(value)
    }
}

/// A count of at least `least` and at most `most`, or the error that says which was not.
pub(crate) fn within(
    what: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), Error> {
    if value > most {
        return Err(Error::TooLarge { what, value, most });
    }
    at_least(what, value as i64, least as i64).map(|_| ())
}

/// A count that some device may have: 1 to 65536.
pub(crate) fn of_a_device(what: &'static str, value: i64) -> Result<i64, Error> {
    let most = 1 << 16;
    match at_least(what, value, 1)? {
        value if value > most => Err(Error::TooLarge {
            what,
            value: value as usize,
            most: most as usize,
        }),
        value => Ok(value),
    }
}

/// The quotient rounded up, for positive operands.
pub(crate) fn ceil_div(a: i64, b: i64) -> i64 {
    debug_assert!(a >= 0 && b > 0, "extents were checked on the way in");
    a / b + i64::from(a % b != 0)
}

/// The next multiple of `b` at or above `a`.
pub(crate) fn round_up(a: i64, b: i64) -> Result<i64, Error> {
    product("a rounded extent", &[ceil_div(a, b), b])
}

/// The product, or the error that says what was being counted.
pub(crate) fn product(what: &'static str, factors: &[i64]) -> Result<i64, Error> {
    factors
        .iter()
        .try_fold(1i64, |p, &x| p.checked_mul(x))
        .ok_or(Error::Overflow { what })
}
