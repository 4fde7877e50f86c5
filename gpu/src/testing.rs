//! Tools for tests of kernels: several schedules, outputs that show what was not written, sizes that no tile divides,
//! comparisons with a tolerance by type.
//!
//! ```
//! use colex_atom::Arch;
//! use colex_gpu::testing::{self, Output};
//! use colex_gpu::Gemm;
//!
//! for m in testing::sizes(16) {
//!     let found = testing::in_every_schedule(Arch::Sm80, 3, |device| {
//!         let a = device.upload(&vec![0.5f32; m * 8])?;
//!         let b = device.upload(&[2.0f32; 3 * 8])?;
//!         let mut c = Output::<f32>::new(device, m * 3)?;
//!         Gemm::new(&a.view((m, 8))?, &b.view((3, 8))?, &c.buffer().view_mut((m, 3))?).run()?;
//!         c.elements()
//!     })?;
//!     testing::close(&found, &vec![8.0; m * 3], 8)?;
//! }
//! # Ok::<(), colex_gpu::Error>(())
//! ```

use colex_atom::{Arch, Ty};
use colex_device::{Buffer, Device, Element};
use colex_sim::{Schedule, SimOptions};

use crate::error::{Error, ErrorKind};
use crate::gemm::problem::GemmElement;

/// Runs a test on a simulated device of each schedule from [`Schedule::from_seed`] of 0 up to `schedules`, and returns its
/// result, which is the same under every schedule if the kernels are right.
///
/// # Errors
///
/// Returns the test's first error with its schedule, and an error if two schedules have other results.
pub fn in_every_schedule<T: PartialEq>(
    arch: Arch,
    schedules: u64,
    mut test: impl FnMut(&Device) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut on = |seed: u64| {
        let schedule = Schedule::from_seed(seed);
        let options = SimOptions::default().schedule(schedule);
        let result = test(&Device::simulator_with(arch, options));
        result.map_err(|error| {
            let why = error.to_string();
            Error::from(ErrorKind::InSchedule { schedule, why })
        })
    };
    let first = on(0)?;
    for seed in 1..schedules {
        if on(seed)? != first {
            let schedule = Schedule::from_seed(seed);
            return Err(ErrorKind::Schedules { schedule }.into());
        }
    }
    Ok(first)
}

/// Returns extents around the multiples of a tile's extent: 1, one less, the extent, one more, and several tiles.
///
/// ```
/// assert_eq!(colex_gpu::testing::sizes(16), [1, 15, 16, 17, 32, 47, 57]);
/// assert_eq!(colex_gpu::testing::sizes(1), [1, 2, 3]);
/// ```
pub fn sizes(tile: usize) -> Vec<usize> {
    let tile = tile.max(1);
    let whole = [tile - 1, tile, tile + 1, 2 * tile, 3 * tile - 1];
    let mut sizes = vec![1, 3 * tile + tile / 2 + tile.min(2) - 1];
    sizes.extend(whole.into_iter().filter(|size| *size > 0));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The bytes before and behind an output, which no kernel may write.
const GUARD: usize = 4096;

/// Memory for a kernel's output. All bits of it are set before (NaN in every float format), and so are those of 4096 bytes on
/// both sides of it.
#[derive(Debug)]
pub struct Output<T> {
    all: Buffer<T>,
    inner: Buffer<T>,
}

impl<T: Element> Output<T> {
    /// Allocates an output of `length` elements.
    ///
    /// # Errors
    ///
    /// Returns the device's error if there is no memory.
    pub fn new(device: &Device, length: usize) -> Result<Output<T>, Error> {
        let guard = GUARD / T::BYTES;
        let all = device.poisoned::<T>(length + 2 * guard)?;
        let inner = all.slice(guard..guard + length)?;
        Ok(Output { all, inner })
    }

    /// Returns the output without what lies on its sides.
    pub fn buffer(&mut self) -> &mut Buffer<T> {
        &mut self.inner
    }

    /// Returns the elements that kernels have written.
    ///
    /// # Errors
    ///
    /// Returns an error that names an element that was not written, or one beyond the ends that was. An element whose bits are
    /// all set counts as not written. Returns the device's error if a kernel has failed.
    pub fn elements(&self) -> Result<Vec<T>, Error> {
        let (all, guard) = (self.all.download()?, GUARD / T::BYTES);
        let is_poison = |element: &T| {
            let bytes = T::to_bytes(std::slice::from_ref(element));
            bytes.iter().all(|byte| *byte == 0xff)
        };
        let length = all.len() - 2 * guard;
        for (at, element) in all.iter().enumerate() {
            let is_inside = (guard..guard + length).contains(&at);
            if is_poison(element) == is_inside {
                let index = at as i64 - guard as i64;
                return Err(ErrorKind::Output {
                    index,
                    length,
                    is_inside,
                }
                .into());
            }
        }
        Ok(all[guard..guard + length].to_vec())
    }
}

/// The error of one rounding to a type, and of one sum in the type that products of it are summed in.
fn roundings(ty: Ty) -> [f64; 2] {
    let bits = |n: i32| 2f64.powi(-n);
    match ty {
        Ty::F64 => [bits(53), bits(53)],
        Ty::F32 => [bits(24), bits(24)],
        Ty::F16 => [bits(11), bits(24)],
        Ty::Bf16 => [bits(8), bits(24)],
        _ => [0.0, 0.0],
    }
}

/// Checks results against what they should be, computed in `f64`, where each is a sum of `terms` numbers.
///
/// An element may differ by two roundings to its type and one rounding of its sum for each term, relative to the larger one of
/// itself and the root of the mean square of all. Integers are equal, a NaN is a NaN, and an infinity is that infinity.
///
/// ```
/// use colex_gpu::testing::close;
///
/// close(&[1.0f32, 2.000_000_2], &[1.0, 2.0], 1)?;
/// let error = close(&[1.0f32, 2.1], &[1.0, 2.0], 1).unwrap_err();
/// assert!(error.to_string().starts_with("element 1 is 2.0999999046325684 and should be 2: "));
/// # Ok::<(), colex_gpu::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error that names the element that differs most, or both lengths if they are not equal.
pub fn close<T: GemmElement>(found: &[T], expected: &[f64], terms: usize) -> Result<(), Error> {
    if found.len() != expected.len() {
        let [found, expected] = [found.len(), expected.len()];
        return Err(ErrorKind::Lengths { found, expected }.into());
    }
    let finite = || expected.iter().filter(|x| x.is_finite());
    let squares = finite().map(|x| x * x).sum::<f64>();
    let scale = (squares / finite().count().max(1) as f64).sqrt();
    let [rounding, sum] = roundings(T::TY);
    let mut worst: Option<(f64, ErrorKind)> = None;
    for (index, (found, &expected)) in found.iter().zip(expected).enumerate() {
        let found = found.to_f64();
        if found == expected || found.is_nan() && expected.is_nan() {
            continue;
        }
        let allowed = (2.0 * rounding + terms as f64 * sum) * expected.abs().max(scale);
        let apart = (found - expected).abs();
        // A NaN, or an infinity on one side, is farther than any number.
        let excess = if apart.is_finite() && expected.is_finite() {
            apart / allowed
        } else {
            f64::INFINITY
        };
        if excess > 1.0 && worst.as_ref().is_none_or(|(most, _)| excess > *most) {
            let kind = ErrorKind::Apart {
                index,
                found,
                expected,
                allowed,
            };
            worst = Some((excess, kind));
        }
    }
    worst.map_or(Ok(()), |(_, kind)| Err(kind.into()))
}
