//! The measured plans of products.

use core::fmt;
use std::sync::Arc;

use colex_device::{Buffer, Device};

use super::{Machine, ranked, row_begins};
use crate::autotune::{self, Autotune, Tuned};
use crate::calls::Call;
use crate::error::Error;
use crate::gemm::call::prepare;
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::prepared::{BuiltProduct, GemmShape, PreparedGemms, Wish};
use crate::gemm::problem::GemmElement;
use crate::kernels::{Compute, GemmProblem};
use crate::scratch::{WordKind, Workspace, aligned};

/// A product, as the file of plans knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TunedGemm {
    operands: Operands,
    sizes: [i64; 3],
    /// The place of each matrix in [`BEGINS`]: rows that begin elsewhere take other times.
    begins: [usize; 3],
}

/// Where the rows of a matrix begin.
const BEGINS: [&str; 3] = ["lines", "sectors", "elements"];

impl TunedGemm {
    fn of(shape: &GemmShape) -> TunedGemm {
        let operands = shape.operands;
        let types = [operands.ab, operands.ab, operands.c];
        TunedGemm {
            operands,
            sizes: shape.sizes,
            begins: [0, 1, 2].map(|i| row_begins(shape.leading[i], types[i])),
        }
    }
}

impl Tuned for TunedGemm {
    type Plan = GemmPlan;
}

/// The name of the product in the file.
impl fmt::Display for TunedGemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.sizes;
        let Operands {
            ab,
            c,
            majors,
            vectors,
            beta,
            gated,
        } = self.operands;
        write!(
            f,
            "{m}x{n}x{k}, {ab} to {c}, {majors:?}, vectors {vectors:?}, rows at {}{}{}",
            self.begins.map(|place| BEGINS[place]).join(", "),
            if beta { ", C read" } else { "" },
            if gated { ", two right factors" } else { "" },
        )
    }
}

/// Returns the plan for a product that would take the fastest one.
///
/// # Errors
///
/// Returns the errors of the kernels and of the device, but for that of one without memory for a measurement.
pub(in crate::gemm) fn tuned<T: GemmElement>(
    measured: &Autotune,
    problem: &GemmProblem,
    shape: &GemmShape,
    device: &Device,
    (bytes, addresses): ([usize; 3], &[u64]),
) -> Result<Wish, Error> {
    let tuned = TunedGemm::of(shape);
    let plans = || {
        let machine = Machine::of(device.rates());
        let plans = ranked(problem, shape.operands, device.arch(), machine);
        plans.into_iter().map(|(_, plan)| plan).collect()
    };
    let trial = Trial {
        problem,
        shape,
        device,
    };
    let plan = measured.plan(&tuned, device, plans, |few| {
        trial.fastest::<T>(few, bytes, addresses)
    })?;
    Ok(plan.map_or(Wish::Fastest, Wish::Plan))
}

/// A product whose plans are measured.
struct Trial<'a> {
    problem: &'a GemmProblem,
    shape: &'a GemmShape,
    device: &'a Device,
}

/// The calls of a plan, with the memory through which they sum parts of K, and the words by which their blocks meet.
type Runs = (
    Vec<Arc<Call<BuiltProduct>>>,
    Option<(Buffer<u8>, Option<Buffer<u32>>)>,
);

impl Trial<'_> {
    /// Returns the plan with the smallest median time; `None` if there is no memory for the parts of K of any.
    fn fastest<T: GemmElement>(
        &self,
        plans: &[GemmPlan],
        bytes: [usize; 3],
        addresses: &[u64],
    ) -> Result<Option<GemmPlan>, Error> {
        // Each copy keeps the alignment of the caller's matrices.
        let pieces = [0, 1, 2].map(|i| aligned(bytes[i]).saturating_add(256));
        let all = pieces
            .iter()
            .fold(0, |sum: usize, piece| sum.saturating_add(*piece));
        let copies = autotune::copies(all);
        let numbers = numbers::<T>();
        let mut memory = Vec::new();
        let mut places = Vec::new();
        for _ in 0..copies {
            let filled = |bytes: usize| autotune::repeated(self.device, &numbers, bytes / T::BYTES);
            let a = filled(pieces[0])?;
            let b = filled(pieces[1])?;
            let c = self.device.zeros::<u8>(pieces[2])?;
            let begin = [a.address(), b.address(), c.address()];
            places.push([0, 1, 2].map(|i| begin[i] + addresses[i] % 256));
            memory.push((a, b, c));
        }
        let (mut runs, mut sums) = (Vec::new(), Vec::new());
        for plan in plans {
            let wish = Wish::Plan(*plan);
            let shape = GemmShape {
                wish,
                ..self.shape.clone()
            };
            // A plan for whose parts of K there is no memory is not measured.
            if let Some((calls, of_parts)) = self.runs(&shape, &places)? {
                runs.push((*plan, calls));
                sums.extend(of_parts);
            }
        }
        let fastest = autotune::fastest(self.device, copies, &runs)?;
        drop((memory, sums));
        Ok(fastest)
    }

    /// Returns the launches of a plan at each of the places; `None` if there is no memory for its parts of K.
    fn runs(&self, shape: &GemmShape, places: &[[u64; 3]]) -> Result<Option<Runs>, Error> {
        let gemms = self.device.extension::<PreparedGemms>();
        let calls = places.iter().map(|place| {
            gemms.0.call(shape.clone(), place, self.device, |shape| {
                prepare(self.problem, shape, self.device, place)
            })
        });
        let mut calls = calls.collect::<Result<Vec<_>, Error>>()?;
        let bytes = calls
            .first()
            .map_or(0, |call| call.about().plan.workspace(self.problem));
        if bytes == 0 {
            return Ok(Some((calls, None)));
        }
        // The launches of one stream follow each other, so that all may sum in one memory.
        let own = Workspace::Own(self.device);
        let Some(sums) = own.take_spare(bytes as usize)? else {
            return Ok(None);
        };
        let count = calls
            .first()
            .map_or(0, |call| call.about().plan.words(self.problem));
        let words = match count {
            0 => None,
            count => match own.take_words(self.device, (WordKind::Counters, count as usize))? {
                None => return Ok(None),
                taken => taken,
            },
        };
        for call in &mut calls {
            let words = words.as_ref().map(|words| words.address());
            *call = Arc::new(call.with_workspace(sums.address(), words));
        }
        Ok(Some((calls, Some((sums, words)))))
    }
}

/// Numbers between -1 and 1, or integers between -100 and 100, in an order that is the same on every run.
fn numbers<T: GemmElement>() -> Vec<T> {
    let most = if T::COMPUTE == Compute::S32 {
        100.0
    } else {
        1.0
    };
    autotune::numbers(|number| T::from_f64(number * most))
}
