//! Calls that were made before. A call on the same views with the same numbers finds its launches here, before anything is checked again.

use core::fmt::Debug;
use std::sync::Arc;

use colex_atom::Ty;
use colex_device::{Device, Extension, Memo, ViewKey};
use smallvec::SmallVec;

use crate::calls::Call;
use crate::error::Error;

/// The calls of one kind that a device keeps.
const RECENT: usize = 256;

/// What a caller gives: the views in a fixed order, the types of their elements, and the other numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GivenCall {
    pub(crate) views: SmallVec<[Option<ViewKey>; 6]>,
    pub(crate) types: [Ty; 2],
    pub(crate) numbers: SmallVec<[u64; 6]>,
}

/// The recent calls of a device, of one kind. What was checked when such a call was prepared depends on what the caller gives alone, but for
/// the devices of the views. A call that needs memory is none of these: it takes the memory anew each time, or has another plan in a capture.
#[derive(Debug)]
pub(crate) struct RecentCalls<A>(Memo<GivenCall, Arc<Call<A>>>);

impl<A> Default for RecentCalls<A> {
    fn default() -> RecentCalls<A> {
        RecentCalls(Memo::new(RECENT))
    }
}

impl<A: Debug + Send + Sync + 'static> Extension for RecentCalls<A> {
    fn clear(&self) {
        self.0.clear();
    }
}

/// Runs a call on a device: a recent one, or the one that `make` prepares and runs. That one is kept if `make` returns it.
///
/// # Errors
///
/// Returns the errors of `make`, and the device's error if a launch fails.
pub(crate) fn run<A: Debug + Send + Sync + 'static>(
    device: &Device,
    given: &GivenCall,
    make: impl FnOnce() -> Result<Option<Arc<Call<A>>>, Error>,
) -> Result<(), Error> {
    let recent = device.extension::<RecentCalls<A>>();
    if let Some(call) = recent.0.get(given) {
        return call.run(device);
    }
    if let Some(made) = make()? {
        recent.0.get_or_make(given, || Ok::<_, Error>(made))?;
    }
    Ok(())
}
