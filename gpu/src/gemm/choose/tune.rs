//! `Autotune`: plans that were measured, kept in a file that several processes use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use colex_device::{Buffer, Device, Repeats, SharedLines, TimedWork};

use super::ranked;
use crate::calls::Call;
use crate::error::{Error, ErrorKind};
use crate::gemm::call::prepare;
use crate::gemm::plan::{GemmPlan, Operands};
use crate::gemm::prepared::{GemmShape, PreparedGemms, Wish};
use crate::gemm::problem::GemmElement;
use crate::gemm::sm90::WORKSPACE;
use crate::kernels::{Compute, GemmProblem};
use crate::scratch::{Workspace, aligned};
use colex_tensor::TensorKernel;

/// Measured plans of products, kept in a file. Several threads and processes may use one file.
///
/// [`Gemm::autotune`](crate::gemm::Gemm::autotune) takes the plan that the file has for the product and the device. If it has
/// none, the first call measures the plans that the model of time ranks first, on operands of its own that it rotates
/// over more bytes than the second-level cache has, and appends the fastest. A plan is known by its text: an entry whose
/// plan is no longer in the library's list, or that is damaged, counts as missing. Entries of another version of the
/// library or of another device are not used.
///
/// Plain products are measured: one with an epilogue, a batch, groups or a convolution takes the plan of the model, and so does
/// the decision to pack a matrix. A measurement waits for the stream, and its operands need memory of the device beside the
/// caller's.
///
/// Only a GPU has a time: on the simulator and inside a stream capture, a product that the file does not have takes the
/// plan of the model, and nothing is appended.
///
/// ```
/// use colex_gpu::gemm::Autotune;
/// use colex_gpu::{Device, Gemm};
///
/// let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
/// let measured = Autotune::open(&file)?;
/// let device = Device::open();
/// let a = device.upload(&[1f32, 2.0, 3.0, 4.0])?;
/// let mut c = device.poisoned::<f32>(4)?;
/// let rows = a.view((2, 2))?;
/// Gemm::new(&rows, &rows, &c.view_mut((2, 2))?).autotune(&measured).run()?;
/// assert_eq!(c.download()?, [5.0, 11.0, 11.0, 25.0]);
/// # std::fs::remove_file(file).unwrap();
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct Autotune {
    file: SharedLines,
    most: usize,
    known: Mutex<Known>,
    /// Held while plans are measured: two measurements at once would disturb each other.
    measuring: Mutex<()>,
}

/// What the file had when it was read last, and what was found since.
#[derive(Debug, Default)]
struct Known {
    /// The text of a plan by the text of its problem.
    entries: HashMap<String, String>,
    /// The bytes of the file when it was read.
    read: usize,
    plans: HashMap<Tuned, GemmPlan>,
    /// The plans that could not be written, with the last reason.
    unsaved: Vec<String>,
}

/// A product on a device, as the file knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tuned {
    device: String,
    operands: Operands,
    sizes: [i64; 3],
}

/// The plans that are measured.
const CANDIDATES: usize = 8;

/// The bytes over which operands rotate: more than twice the second-level cache of an H200.
const ROTATED: usize = 128 << 20;

/// The most copies of the operands.
const COPIES: usize = 32;

impl Autotune {
    /// Opens a file of plans, or creates it for this user only.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or written, if it is not a regular file of this user or of root that no
    /// other user may write, or if it is longer than [`SharedLines::LIMIT`].
    pub fn open(path: impl AsRef<Path>) -> Result<Autotune, Error> {
        let path: PathBuf = path.as_ref().into();
        let refused = |why: std::io::Error| {
            let (path, why) = (path.display().to_string(), why.to_string());
            Error::from(ErrorKind::Plans { path, why })
        };
        let file = SharedLines::open(&path).map_err(refused)?;
        let measured = Autotune {
            file,
            most: CANDIDATES,
            known: Mutex::default(),
            measuring: Mutex::new(()),
        };
        measured.read_again();
        Ok(measured)
    }

    /// Sets how many plans are measured for a product, 8 by default; at least 1, which takes the plan of the model.
    #[must_use]
    pub fn candidates(self, most: usize) -> Autotune {
        let most = most.max(1);
        Autotune { most, ..self }
    }

    /// Returns the number of products that the file had when it was read last, and those found since.
    pub fn len(&self) -> usize {
        self.known().entries.len()
    }

    /// Returns whether no product is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns why plans could not be appended to the file, one sentence for each; such plans are kept in memory.
    pub fn unsaved(&self) -> Vec<String> {
        self.known().unsaved.clone()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file if it has grown. A file that cannot be read now leaves what is known.
    fn read_again(&self) {
        let Ok(text) = self.file.read() else {
            return;
        };
        let mut known = self.known();
        if text.len() == known.read {
            return;
        }
        known.read = text.len();
        let entries = text.lines().filter_map(|line| line.split_once('\t'));
        let entries = entries.map(|(problem, plan)| (problem.to_string(), plan.to_string()));
        known.entries.extend(entries);
    }

    /// Returns the plan for a product that would take the fastest one.
    ///
    /// # Errors
    ///
    /// Returns the device's error if the operands of a measurement cannot be allocated, and the errors of the kernels.
    pub(in crate::gemm) fn plan<T: GemmElement>(
        &self,
        problem: &GemmProblem,
        shape: &GemmShape,
        device: &Device,
        bytes: [usize; 3],
        addresses: &[u64],
    ) -> Result<Wish, Error> {
        let limits = device.limits();
        let tuned = Tuned {
            device: format!(
                "{}, {}, {} multiprocessors",
                device.name(),
                device.arch(),
                limits.multiprocessors
            ),
            operands: shape.operands,
            sizes: shape.sizes,
        };
        if let Some(plan) = self.known().plans.get(&tuned) {
            return Ok(Wish::Plan(*plan));
        }
        let multiprocessors = i64::from(limits.multiprocessors);
        let plans = ranked(problem, shape.operands, device.arch(), multiprocessors);
        let plans: Vec<GemmPlan> = plans.into_iter().map(|(_, plan)| plan).collect();
        if let Some(plan) = self.remembered(&tuned, &plans) {
            return Ok(Wish::Plan(plan));
        }
        if device.is_simulator() || device.is_capturing()? {
            return Ok(Wish::Fastest);
        }
        let _alone = self
            .measuring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.read_again();
        if let Some(plan) = self.remembered(&tuned, &plans) {
            return Ok(Wish::Plan(plan));
        }
        let few = &plans[..plans.len().min(self.most)];
        let trial = Trial {
            problem,
            shape,
            device,
        };
        let plan = trial.fastest::<T>(few, bytes, addresses)?;
        self.remember(tuned, plan);
        Ok(Wish::Plan(plan))
    }

    /// Returns the plan of an entry, if it is one of the plans of today.
    fn remembered(&self, tuned: &Tuned, plans: &[GemmPlan]) -> Option<GemmPlan> {
        let mut known = self.known();
        let text = known.entries.get(&tuned.text())?;
        let plan = plans
            .iter()
            .find(|plan| plan.to_string() == *text)
            .copied()?;
        known.plans.insert(tuned.clone(), plan);
        Some(plan)
    }

    fn remember(&self, tuned: Tuned, plan: GemmPlan) {
        let (problem, text) = (tuned.text(), plan.to_string());
        let written = self.file.append(&format!("{problem}\t{text}"));
        let mut known = self.known();
        if let Err(why) = written {
            known.unsaved.push(format!("{problem}: {why}"));
        }
        known.entries.insert(problem, text);
        known.plans.insert(tuned, plan);
    }
}

impl Tuned {
    /// The text of the problem in the file.
    fn text(&self) -> String {
        let [m, n, k] = self.sizes;
        let Operands {
            ab,
            c,
            majors,
            vectors,
            beta,
            gated,
        } = self.operands;
        format!(
            "colex {}, {}: {m}x{n}x{k}, {ab} to {c}, {majors:?}, vectors {vectors:?}{}{}",
            env!("CARGO_PKG_VERSION"),
            self.device,
            if beta { ", C read" } else { "" },
            if gated { ", two right factors" } else { "" },
        )
        .replace(['\t', '\n', '\r'], " ")
    }
}

/// A product whose plans are measured.
struct Trial<'a> {
    problem: &'a GemmProblem,
    shape: &'a GemmShape,
    device: &'a Device,
}

/// The calls of a plan, with the memory through which they sum parts of K.
type Runs = (
    Vec<Arc<Call<(GemmPlan, Arc<TensorKernel>)>>>,
    Option<Buffer<u8>>,
);

impl Trial<'_> {
    /// Returns the plan with the smallest median time.
    fn fastest<T: GemmElement>(
        &self,
        plans: &[GemmPlan],
        bytes: [usize; 3],
        addresses: &[u64],
    ) -> Result<GemmPlan, Error> {
        let [first, _, ..] = plans else {
            return Ok(plans[0]);
        };
        // Each copy keeps the alignment of the caller's matrices.
        let pieces = [0, 1, 2].map(|i| aligned(bytes[i]).saturating_add(256));
        let all = pieces
            .iter()
            .fold(0, |sum: usize, piece| sum.saturating_add(*piece));
        let copies = (ROTATED / all.max(1) + 1).min(COPIES);
        let numbers = numbers::<T>(pieces[0].max(pieces[1]) / T::BYTES);
        let mut memory = Vec::new();
        let mut places = Vec::new();
        for _ in 0..copies {
            let a = self.device.upload(&numbers[..pieces[0] / T::BYTES])?;
            let b = self.device.upload(&numbers[..pieces[1] / T::BYTES])?;
            let c = self.device.zeros::<u8>(pieces[2])?;
            let begin = [a.address(), b.address(), c.address()];
            places.push([0, 1, 2].map(|i| begin[i] + addresses[i] % 256));
            memory.push((a, b, c));
        }
        let mut runs = Vec::new();
        for plan in plans {
            let wish = Wish::Plan(*plan);
            let shape = GemmShape {
                wish,
                ..self.shape.clone()
            };
            // A plan for whose parts of K there is no memory is not measured.
            if let Some(of_plan) = self.runs(&shape, &places)? {
                runs.push((*plan, of_plan));
            }
        }
        self.device.synchronize()?;
        let works: Vec<_> = runs
            .iter()
            .map(|(_, (calls, _))| {
                move |device: &Device, i: usize| calls[i % calls.len()].run(device)
            })
            .collect();
        let works: Vec<&TimedWork<'_, Error>> = works.iter().map(|work| work as _).collect();
        let repeats = Repeats {
            warmups: 1,
            samples: 9,
            batch: copies.max(4),
        };
        let timings = self.device.time_in_turns(repeats, &works)?;
        self.device.synchronize()?;
        drop(memory);
        let timed = runs.iter().zip(&timings);
        let fastest = timed.min_by(|x, y| x.1.median().total_cmp(&y.1.median()));
        Ok(fastest.map_or(*first, |((plan, _), _)| *plan))
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
            .map_or(0, |call| call.about().0.workspace(self.problem));
        if bytes == 0 {
            return Ok(Some((calls, None)));
        }
        // The launches of one stream follow each other, so that all may sum in one memory.
        let sums = Workspace::Own(self.device).take_spare(bytes as usize)?;
        let Some(sums) = sums else { return Ok(None) };
        for call in &mut calls {
            *call = Arc::new(call.with_workspace(&WORKSPACE, sums.address()));
        }
        Ok(Some((calls, Some(sums))))
    }
}

/// Numbers between -1 and 1, or integers between -100 and 100, in an order that is the same on every run.
fn numbers<T: GemmElement>(count: usize) -> Vec<T> {
    let most = if T::COMPUTE == Compute::S32 {
        100.0
    } else {
        1.0
    };
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // A few thousand are drawn: a matrix repeats them.
    let drawn: Vec<T> = (0..count.min(8191))
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            T::from_f64(((state >> 40) as f64 / f64::from(1 << 23) - 1.0) * most)
        })
        .collect();
    drawn.iter().cycle().take(count).copied().collect()
}
