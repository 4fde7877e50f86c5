//! The error type of the crate: what was asked, where it fails, what would be right.

colex_layout::opaque_error! {
    /// Why a schedule does not exist.
    ///
    /// Its sentence is its `Display` and `Debug` output.
    ///
    /// ```
    /// use colex_sched::{GemmCoord, Raster, Tile};
    ///
    /// let raster = Raster::hilbert(4, 4)?;
    /// let error = raster.slot_of(Tile { m: 4, n: 0, l: 0 }).unwrap_err();
    /// assert!(error.is_outside());
    /// assert_eq!(error.to_string(), "tile (4,0,0) is outside (4,4,1)");
    /// # Ok::<(), colex_sched::Error>(())
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct Error(ErrorKind);
}
impl Error {
    /// The error that a sentence says.
    pub(crate) fn invalid(sentence: impl ToString) -> Error {
        ErrorKind::Invalid {
            sentence: sentence.to_string(),
        }
        .into()
    }

    /// The error of a tile or a block outside of its grid.
    pub(crate) fn outside(what: &'static str, coord: [i64; 3], extent: [i64; 3]) -> Error {
        ErrorKind::Outside {
            what,
            coord,
            extent,
        }
        .into()
    }

    /// Returns whether a tile or block lies outside the grid that it was looked up in.
    pub fn is_outside(&self) -> bool {
        matches!(self.kind(), ErrorKind::Outside { .. })
    }

    /// Returns whether ranks do not hold a tensor as stated: an element held by none, twice, or with different values.
    pub fn is_inconsistent(&self) -> bool {
        matches!(self.kind(), ErrorKind::Inconsistent { .. })
    }

    /// Returns whether a collective or a product does not take the placements of its tensors.
    pub fn is_placement(&self) -> bool {
        matches!(self.kind(), ErrorKind::Placements { .. })
    }

    /// Returns whether a count, or a number on the way to it, does not fit 64 bits.
    pub fn is_overflow(&self) -> bool {
        matches!(self.kind(), ErrorKind::Overflow { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ErrorKind {
    #[error("{what} is {value}: it must be at least {least}")]
    TooSmall {
        what: &'static str,
        value: i64,
        least: i64,
    },
    #[error("{what} is {value}: it can be at most {most}")]
    TooLarge {
        what: &'static str,
        value: usize,
        most: usize,
    },
    #[error(
        "{splits} splits of {k_tiles} k-tiles: every split needs a k-tile, so at most {k_tiles}"
    )]
    Splits { splits: i64, k_tiles: i64 },
    #[error("the grid needs {blocks} blocks along {axis}, and a device takes at most {limit}")]
    GridLimit { axis: char, blocks: i64, limit: i64 },
    #[error("{what} {} is outside {}", tuple(coord), tuple(extent))]
    Outside {
        what: &'static str,
        coord: [i64; 3],
        extent: [i64; 3],
    },
    #[error(
        "a cluster of {}x{} blocks does not divide a grid of {}x{}: {}x{} would",
        cluster[0], cluster[1], grid[0], grid[1], filled(grid[0], cluster[0]), filled(grid[1], cluster[1])
    )]
    Cluster { cluster: [i64; 2], grid: [i64; 2] },
    #[error(
        "a cluster of {}x{} blocks needs {} multiprocessors at once, and the device has {sms}",
        cluster[0], cluster[1], cluster[0].saturating_mul(cluster[1])
    )]
    ClusterTooLarge { cluster: [i64; 2], sms: i64 },
    #[error("{groups} groups do not divide {axis} = {channels} channels")]
    Groups {
        axis: char,
        channels: i64,
        groups: i64,
    },
    #[error("the filter spans {span} positions along {axis}, and the padded input has {padded}")]
    Filter { axis: char, span: i64, padded: i64 },
    #[error("{swizzle} maps {maps}")]
    WrongProblem { swizzle: String, maps: &'static str },
    #[error("the order of {schedule} is not a layout: {divisor} does not divide {extent}")]
    NotALayout {
        schedule: String,
        extent: i64,
        divisor: i64,
    },
    #[error(
        "{text:?} names no threadblock swizzle: expected for example GemmIdentity<8> or GemmHorizontal"
    )]
    Parse { text: String },
    #[error("mode {mode} of a tensor of {modes} modes, numbered from 0")]
    NoMode { mode: usize, modes: usize },
    #[error(
        "mode {mode} of extent {extent} over {ranks} ranks: the extent must be a multiple, and {} is the next one",
        filled(*extent, *ranks)
    )]
    Uneven {
        mode: usize,
        extent: i64,
        ranks: i64,
    },
    #[error("{given} {what}, and it takes {wanted}")]
    Count {
        what: &'static str,
        given: usize,
        wanted: i64,
    },
    #[error("{sentence}")]
    Inconsistent { sentence: String },
    #[error("{sentence}")]
    Placements { sentence: String },
    #[error("{sentence}")]
    Invalid { sentence: String },
    #[error("{what} is beyond 64-bit integers")]
    Overflow { what: &'static str },
}

/// The next multiple of a cluster's extent at or above the grid's.
fn filled(grid: i64, cluster: i64) -> i64 {
    (grid / cluster + i64::from(grid % cluster != 0)).saturating_mul(cluster)
}

/// `(4,0,0)`.
fn tuple([x, y, z]: &[i64; 3]) -> String {
    format!("({x},{y},{z})")
}

/// A value of at least `least`, or the error that says which value was not.
pub(crate) fn at_least(what: &'static str, value: i64, least: i64) -> Result<i64, Error> {
    if value < least {
        Err(ErrorKind::TooSmall { what, value, least }.into())
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
        return Err(ErrorKind::TooLarge { what, value, most }.into());
    }
    at_least(what, value as i64, least as i64).map(|_| ())
}

/// A count that some device may have: 1 to 65536.
pub(crate) fn of_a_device(what: &'static str, value: i64) -> Result<i64, Error> {
    let most = 1 << 16;
    match at_least(what, value, 1)? {
        value if value > most => Err(ErrorKind::TooLarge {
            what,
            value: value as usize,
            most: most as usize,
        }
        .into()),
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
        .ok_or_else(|| ErrorKind::Overflow { what }.into())
}
