//! Functions of one lane, and the same of all lanes of a warp at once.

use super::bits::Lanes;

/// A function of one lane, and the loop over all lanes with the function inside of it: one call for 32 results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanewise<One, All> {
    pub(crate) one: One,
    pub(crate) all: All,
}

/// A function of one source.
pub(crate) type Unary = Lanewise<fn(u64) -> u64, fn(&Lanes) -> Lanes>;

/// A function of two sources.
pub(crate) type Binary = Lanewise<fn(u64, u64) -> u64, fn(&Lanes, &Lanes) -> Lanes>;

/// A function of three sources.
pub(crate) type Ternary = Lanewise<fn(u64, u64, u64) -> u64, fn(&Lanes, &Lanes, &Lanes) -> Lanes>;

/// A comparison; of all lanes, one bit each.
pub(crate) type Comparison = Lanewise<fn(u64, u64) -> bool, fn(&Lanes, &Lanes) -> u32>;

/// The number of lanes from which on the loop over all of them is the faster way.
pub(crate) const MANY: u32 = 5;

/// A [`Unary`], [`Binary`] or [`Ternary`] of a closure that captures nothing.
macro_rules! lanewise {
    (|$a:ident| $body:expr) => {
        $crate::lane::lanewise::Lanewise {
            one: |$a| $body,
            all: |x| {
                core::array::from_fn(|lane| {
                    let $a = x[lane];
                    $body
                })
            },
        }
    };
    (|$a:ident, $b:ident| $body:expr) => {
        $crate::lane::lanewise::Lanewise {
            one: |$a, $b| $body,
            all: |x, y| {
                core::array::from_fn(|lane| {
                    let ($a, $b) = (x[lane], y[lane]);
                    $body
                })
            },
        }
    };
    (|$a:ident, $b:ident, $c:ident| $body:expr) => {
        $crate::lane::lanewise::Lanewise {
            one: |$a, $b, $c| $body,
            all: |x, y, z| {
                core::array::from_fn(|lane| {
                    let ($a, $b, $c) = (x[lane], y[lane], z[lane]);
                    $body
                })
            },
        }
    };
}

/// A [`Comparison`] of a closure that captures nothing.
macro_rules! comparison {
    (|$a:ident, $b:ident| $body:expr) => {
        $crate::lane::lanewise::Lanewise {
            one: |$a, $b| $body,
            all: |x, y| {
                (0..32).fold(0, |holds, lane| {
                    let ($a, $b) = (x[lane], y[lane]);
                    holds | u32::from($body) << lane
                })
            },
        }
    };
}

pub(crate) use {comparison, lanewise};
