//! Calls that were made before. A call on the same views with the same numbers finds its launches here, before anything is checked again.

use core::fmt::Debug;
use core::hash::Hash;
use std::sync::Arc;

use colex_atom::Ty;
use colex_device::{Device, Extension, Memo, ViewKey};
use smallvec::SmallVec;

use crate::calls::Call;
use crate::error::Error;

/// The last calls of one type of plans that a device keeps.
const RECENT: usize = 256;

/// What a call computes. Kinds with one type of plans share the recent calls of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallKind {
    Product,
    Convolution,
    Rows,
    Reduction,
    CumulativeSum,
    Selection,
    Gather,
    Rotary,
    /// By the scales of rows or blocks.
    Quantisation,
    GivenScale,
    ComputedScale,
}

/// What a caller gives: the views in a fixed order, the types of their elements, and the other numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GivenCall {
    pub(crate) kind: CallKind,
    pub(crate) views: SmallVec<[Option<ViewKey>; 6]>,
    pub(crate) types: [Ty; 2],
    pub(crate) numbers: SmallVec<[u64; 8]>,
}

/// All that a caller gives, by which a call is found. It holds no device: the device holds it.
pub(crate) trait CallKey: Clone + Debug + Eq + Hash + Send + Sync + 'static {}

impl<K: Clone + Debug + Eq + Hash + Send + Sync + 'static> CallKey for K {}

/// The launches of a call in their order; those that are not kept are none.
pub(crate) type Launches<A> = SmallVec<[Arc<Call<A>>; 2]>;

/// The recent calls of a device, of one kind. What was checked when such a call was prepared depends on what the caller gives alone, but for
/// the devices of the views. A call that needs memory is none of these: it takes the memory anew each time, or has another plan in a capture.
#[derive(Debug)]
pub(crate) struct RecentCalls<K, A>(Memo<K, Launches<A>>);

impl<K: CallKey, A> Default for RecentCalls<K, A> {
    fn default() -> RecentCalls<K, A> {
        RecentCalls(Memo::new(RECENT))
    }
}

impl<K: CallKey, A: Debug + Send + Sync + 'static> Extension for RecentCalls<K, A> {
    fn clear(&self) {
        self.0.clear();
    }
}

/// Runs a call on a device: a recent one, or the one that `make` prepares and runs. Its launches are kept if `make` returns any.
///
/// # Errors
///
/// Returns the errors of `make`, and the device's error if a launch fails.
pub(crate) fn run<K: CallKey, A: Debug + Send + Sync + 'static>(
    device: &Device,
    given: &K,
    make: impl FnOnce() -> Result<Launches<A>, Error>,
) -> Result<(), Error> {
    let recent = device.extension::<RecentCalls<K, A>>();
    if let Some(calls) = recent.0.get(given) {
        return calls.iter().try_for_each(|call| call.run(device));
    }
    let made = make()?;
    if !made.is_empty() {
        recent.0.get_or_make(given, || Ok::<_, Error>(made))?;
    }
    Ok(())
}
