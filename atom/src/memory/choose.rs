//! Which swizzle makes accesses free of bank conflicts, and why.

use std::collections::BTreeSet;
use std::fmt;

use colex_layout::Swizzle;

use crate::error::{Bits, Effect, Error, ErrorKind, NoSwizzle};
use crate::{Access, Banks};

/// A swizzle of byte offsets that makes accesses free of bank conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The swizzle, of *byte* offsets; [`Choice::in_elements`] gives it for a layout of elements.
    pub swizzle: Swizzle,
    /// The effect of the swizzle on each access.
    pub effects: Vec<Effect>,
}

impl Choice {
    /// Returns the swizzle for a layout of elements of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` is not a power of two.
    pub fn in_elements(&self, bytes: i64) -> Result<Swizzle, colex_layout::Error> {
        self.swizzle.upcast(bytes)
    }
}

/// Returns the smallest swizzle that makes all `accesses` to one tile free of bank conflicts.
///
/// "Smallest" is the fewest bits B, then the least base M, then the least shift, upwards before downwards. Every
/// swizzle within the bits that the accesses use is considered whose base keeps each lane's bytes together; so an
/// error is a proof that none of this form does it.
///
/// # Errors
///
/// Returns an error if there is none, with [the best there is](Error::no_swizzle), and an error if there is no access.
///
/// # Example
///
/// ```
/// use colex_atom::{Access, choose_swizzle};
/// // A (64,64) tile of halves, rows of 128 bytes. It is filled 16 bytes per lane along rows, and read by ldmatrix:
/// // 8 rows of 16 bytes.
/// let fill = Access::new("fill rows", "(8,4):(8,64)", 2, 16)?;
/// let read = Access::new("ldmatrix", "(8,4):(64,8)", 2, 16)?;
/// let choice = choose_swizzle(&[fill, read])?;
/// assert_eq!(choice.swizzle.to_string(), "Sw<3,4,3>");
/// assert_eq!(choice.in_elements(2)?.to_string(), "Sw<3,3,3>");
/// println!("{choice}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn choose_swizzle(accesses: &[Access]) -> Result<Choice, Error> {
    choose_swizzle_for(accesses, Banks::SHARED)
}

/// Returns [`choose_swizzle`] for other banks than [`Banks::SHARED`].
///
/// # Errors
///
/// Returns the errors of [`choose_swizzle`].
pub fn choose_swizzle_for(accesses: &[Access], banks: Banks) -> Result<Choice, Error> {
    let Some(widest) = accesses.iter().map(Access::width).max() else {
        return Err(ErrorKind::NoAccess.into());
    };
    let used = accesses
        .iter()
        .flat_map(|a| a.offsets())
        .fold(0, |m, x| m | x)
        | (widest - 1);
    let base = i64::from(widest.trailing_zeros());
    let keeps = |sw: &Swizzle| sw.is_identity() || sw.base() >= base;
    let (mut tried, mut best) = (0, (usize::MAX, Swizzle::IDENTITY));
    let mut seen = BTreeSet::new();
    for swizzle in Swizzle::within(i64::from(64 - used.leading_zeros())).filter(keeps) {
        tried += 1;
        // A swizzle that moves words between banks as an earlier one does is no better.
        if !seen.insert(moves(swizzle, used, banks)) {
            continue;
        }
        let outcome = outcome(accesses, swizzle, banks);
        if outcome.is_free {
            return Ok(Choice {
                swizzle,
                effects: effects(accesses, swizzle, banks),
            });
        }
        if outcome.passes < best.0 {
            best = (outcome.passes, swizzle);
        }
    }
    let row = usize::try_from(banks.count()).unwrap_or(usize::MAX);
    let wide = |a: &&Access| a.conflicts(banks).phases.iter().any(|p| p.words > row);
    Err(NoSwizzle {
        tried,
        best: best.1,
        effects: effects(accesses, best.1, banks),
        too_wide: accesses.iter().find(wide).map(|a| a.name().into()),
    }
    .into())
}

fn swizzled(access: &Access, swizzle: Swizzle) -> Access {
    access.map(|x| swizzle.apply(x))
}

/// What decides how a swizzle changes the conflicts of accesses whose offsets set the bits `used`: its shift, and the
/// bits that it XORs into others.
///
/// A bit that no offset sets changes nothing. Nor does one that is XORed into a bit within a word; nor one that is
/// XORed into a bit above those of the banks, which renames words within their bank, unless it tells bytes of one word
/// apart.
fn moves(swizzle: Swizzle, used: i64, banks: Banks) -> (i64, i64) {
    let (word, row) = (banks.word(), banks.row());
    let matters = |bit: i64| {
        let from = 1_i64 << bit;
        let into = 1_i64 << (bit - swizzle.shift());
        into >= word && (into < row || from < word)
    };
    let from = swizzle.from_mask() & used;
    let bits = (0..63).filter(|bit| from >> bit & 1 == 1 && matters(*bit));
    match bits.fold(0, |mask, bit| mask | 1 << bit) {
        0 => (0, 0),
        mask => (swizzle.shift(), mask),
    }
}

/// What all accesses together come to.
struct Outcome {
    passes: usize,
    is_free: bool,
}

fn outcome(accesses: &[Access], swizzle: Swizzle, banks: Banks) -> Outcome {
    let mut outcome = Outcome {
        passes: 0,
        is_free: true,
    };
    for access in accesses {
        let conflicts = swizzled(access, swizzle).conflicts(banks);
        outcome.passes += conflicts.passes();
        outcome.is_free &= conflicts.is_free();
    }
    outcome
}

fn effects(accesses: &[Access], swizzle: Swizzle, banks: Banks) -> Vec<Effect> {
    let effect = |a: &Access| {
        let before = a.conflicts(banks);
        let worst = before.phases.iter().max_by_key(|p| p.degree);
        let lanes = worst.map_or(0..0, |p| p.lanes.clone());
        let first = a.offsets().get(lanes.start).copied().unwrap_or(0);
        Effect {
            name: a.name().into(),
            before: before.degree(),
            after: swizzled(a, swizzle).conflicts(banks).degree(),
            varying: a.offsets()[lanes].iter().fold(0, |m, x| m | (x ^ first)),
        }
    };
    accesses.iter().map(effect).collect()
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.swizzle.is_identity() {
            writeln!(f, "no swizzle is needed")?;
        } else {
            writeln!(
                f,
                "{} XORs bits {} of the byte offset into bits {}",
                self.swizzle,
                Bits(self.swizzle.from_mask()),
                Bits(self.swizzle.into_mask())
            )?;
        }
        self.effects.iter().try_for_each(|e| writeln!(f, "  {e}"))
    }
}
