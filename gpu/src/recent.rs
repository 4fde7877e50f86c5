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

#[cfg(test)]
mod tests {
    use colex_atom::Arch;
    use colex_device::{Device, View, ViewMut};

    use crate::reduce::{Reduce, ReduceFunction};
    use crate::rowwise::{RowFunction, Rowwise};
    use crate::{Error, Gemm};

    fn number(i: usize) -> f32 {
        (i * 7 % 19) as f32 / 4.0 - 2.0
    }

    /// Calls that differ in one thing that the caller gives, each of them twice, in turns: what `run` finds again computes what a prepared
    /// call computes.
    #[test]
    fn law_a_call_that_is_found_again_is_that_of_the_same_views_and_numbers() -> Result<(), Error> {
        let device = Device::simulator(Arch::Sm90a);
        let numbers: Vec<f32> = (0..64).map(number).collect();
        let inputs = [device.upload(&numbers)?, device.upload(&numbers[..32])?];
        let mut found = device.poisoned::<f32>(64)?;
        let mut wanted = device.poisoned::<f32>(64)?;
        let mut cases = 0;
        for _ in 0..2 {
            for shape in [(4, 8), (8, 4), (2, 16)] {
                for input in &inputs {
                    let x = input.view(shape)?;
                    for function in RowFunction::ALL {
                        for epsilon in [1e-5, 0.5] {
                            for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                                let y = y.view_mut(shape)?;
                                let call = Rowwise::new(function, &x, &y).epsilon(epsilon);
                                if is_prepared {
                                    call.prepare()?.run(&device)?;
                                } else {
                                    call.run()?;
                                }
                            }
                            let [a, b] = [&found, &wanted].map(|of| of.download());
                            assert_eq!(a?[..32], b?[..32], "{function}, {shape:?}, {epsilon}");
                            cases += 1;
                        }
                    }
                    for mode in [0, 1] {
                        for function in [ReduceFunction::Sum, ReduceFunction::Max] {
                            let results = [shape.1, shape.0][mode];
                            for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                                let y = y.view_mut(results)?;
                                let call = Reduce::new(function, &x, &[mode], &y);
                                if is_prepared {
                                    call.prepare()?.run(&device)?;
                                } else {
                                    call.run()?;
                                }
                            }
                            let [a, b] = [&found, &wanted].map(|of| of.download());
                            let count = results as usize;
                            assert_eq!(a?[..count], b?[..count], "{function} along {mode}");
                            cases += 1;
                        }
                    }
                    for alpha in [1.0, -2.0] {
                        let c = (shape.0, shape.0);
                        for (y, is_prepared) in [(&mut found, false), (&mut wanted, true)] {
                            let y = y.view_mut(c)?;
                            let call = Gemm::new(&x, &x, &y).alpha(alpha);
                            if is_prepared {
                                call.prepare()?.run(&device)?;
                            } else {
                                call.run()?;
                            }
                        }
                        let [a, b] = [&found, &wanted].map(|of| of.download());
                        let count = (shape.0 * shape.0) as usize;
                        assert_eq!(a?[..count], b?[..count], "{shape:?}, alpha {alpha}");
                        cases += 1;
                    }
                }
            }
        }
        println!("law calls.recent: {cases} cases");
        Ok(())
    }

    /// What is refused is refused again behind a call that ran: views of another device, of other shapes, and those that overlap.
    #[test]
    fn what_is_refused_is_refused_behind_a_call_that_ran() -> Result<(), Error> {
        let [device, other] = [(); 2].map(|()| Device::simulator(Arch::Sm80));
        let x = device.upload(&[1f32; 64])?;
        let (mut y, mut far) = (device.zeros::<f32>(64)?, other.zeros::<f32>(64)?);
        let raw = y.clone();
        let of_x = x.view((8, 8))?;
        let softmax = |y: &ViewMut<'_, f32>| Rowwise::new(RowFunction::Softmax, &of_x, y).run();
        softmax(&y.view_mut((8, 8))?)?;
        assert!(softmax(&far.view_mut((8, 8))?).is_err());
        assert!(softmax(&y.view_mut((4, 16))?).is_err());
        let inside = View::new(&raw, "(8,8):(8,1)")?;
        let written = y.view_mut((8, 8))?;
        assert!(
            Rowwise::new(RowFunction::Softmax, &inside, &written)
                .run()
                .is_err()
        );
        softmax(&written)?;
        let product = |c: &ViewMut<'_, f32>| Gemm::new(&of_x, &of_x, c).run();
        product(&written)?;
        assert!(product(&far.view_mut((8, 8))?).is_err());
        product(&written)
    }
}
