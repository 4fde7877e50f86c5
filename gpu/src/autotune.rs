//! `Autotune`: plans that were measured, kept in a file that several processes use.

use core::any::{Any, TypeId};
use core::fmt;
use core::hash::Hash;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use colex_device::{Buffer, Device, Element, Repeats, SharedLines, TimedWork};

use crate::calls::Call;
use crate::error::{Error, ErrorKind};

/// Measured plans of products and of attention, kept in a file. Several threads and processes may use one file.
///
/// [`Gemm::autotune`](crate::gemm::Gemm::autotune) and [`Attention::autotune`](crate::attention::Attention::autotune) take the
/// plan that the file has for the problem and the device. If it has
/// none, the first call measures the plans that the model of time ranks first, on operands of its own that it rotates
/// over more bytes than the L2 cache has, and appends the fastest. A plan is known by its text: an entry whose
/// plan is no longer in the library's list counts as missing. Each line ends with a checksum of the rest: one that was cut or
/// changed, or has no checksum, counts as missing too. Entries of another version of the library or of another device are not
/// used.
///
/// Plain products are measured: one with an epilogue, a batch, groups or a convolution takes the plan of the model, and so does
/// the decision to pack a matrix. A measurement waits for the stream, and its operands need memory of the device beside the
/// caller's. If the device does not have it, or has no memory for the parts of any plan that is to be measured, the problem takes
/// the plan of the model from then on, and nothing is appended.
///
/// Of packed sequences, and of keys in pages, the host knows neither the offsets nor the lengths, and a measurement does not read
/// the caller's, which may change with each run. The entry of such a problem names what the host knows: the number of sequences,
/// their largest length, and the rows of all packed ones. It is measured with lengths of the library's own. Those of packed
/// sequences fall from the largest, as a power of their rank, to those that fill the rows; sequences of keys in pages all have
/// the most keys, in scattered pages of a pool that holds no others, of 1 GiB of keys at most.
///
/// Only a GPU has a time: on the simulator and inside a stream capture, a problem that the file does not have takes the
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
    /// For each type of problems, the plans by device and problem.
    plans: HashMap<TypeId, Box<dyn Any + Send>>,
    /// The last of the plans that could not be written, with the reasons.
    unsaved: Vec<String>,
}

/// The plans of one type of problems, by device and problem. `None` stands for the plan of the model, of a problem that there was no
/// memory to measure, or that has one plan to measure.
type PlansOf<P> = HashMap<(String, P), Option<<P as Tuned>::Plan>>;

/// A problem as the file knows it: its `Display` output, one line without tabs, is its name.
pub(crate) trait Tuned: Clone + Eq + Hash + fmt::Display + Send + 'static {
    /// A plan; its `Display` output is its name.
    type Plan: Copy + fmt::Display + Send;
}

/// The most sentences about plans that could not be written.
const UNSAVED: usize = 64;

/// The plans that are measured.
const CANDIDATES: usize = 8;

/// The bytes over which operands rotate: more than twice the L2 cache of an H200.
const ROTATED: usize = 128 << 20;

/// The most copies of the operands.
const COPIES: usize = 32;

/// Returns how many copies of operands of `bytes` bytes in all a measurement rotates over.
pub(crate) fn copies(bytes: usize) -> usize {
    (ROTATED / bytes.max(1) + 1).min(COPIES)
}

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

    /// Sets how many plans are measured for a problem, 8 by default. With 1 or 0, nothing is measured and nothing is appended: a
    /// problem that the file does not have takes the plan of the model.
    #[must_use]
    pub fn candidates(self, most: usize) -> Autotune {
        let most = most.max(1);
        // A problem that took the plan of the model may be measured now.
        self.known().plans.clear();
        Autotune { most, ..self }
    }

    /// Returns the number of problems that the file had when it was read last, and those found since.
    pub fn len(&self) -> usize {
        self.known().entries.len()
    }

    /// Returns whether no problem is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns why plans could not be appended to the file, one sentence for each of the last 64; such plans are kept in memory.
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
        let entries = text.lines().filter_map(entry);
        let entries = entries.map(|(problem, plan)| (problem.to_string(), plan.to_string()));
        known.entries.extend(entries);
    }

    /// Returns the plan of a problem: that of the file, or the one that `measure` finds among the first of `plans`, which are in
    /// the order of the model. `None` stands for the plan of the model, where nothing is known and nothing can be measured: `measure`
    /// returns it if none of the plans has the memory that it needs.
    ///
    /// # Errors
    ///
    /// Returns the errors of `measure`, but for that of a device without memory for it.
    pub(crate) fn plan<P: Tuned>(
        &self,
        problem: &P,
        device: &Device,
        plans: impl FnOnce() -> Vec<P::Plan>,
        measure: impl FnOnce(&[P::Plan]) -> Result<Option<P::Plan>, Error>,
    ) -> Result<Option<P::Plan>, Error> {
        let multiprocessors = device.limits().multiprocessors;
        let (name, arch) = (device.name(), device.arch());
        let tuned = (
            format!("{name}, {arch}, {multiprocessors} multiprocessors"),
            problem.clone(),
        );
        if let Some(plan) = self.known().plans_of::<P>().get(&tuned) {
            return Ok(*plan);
        }
        let plans = plans();
        if let Some(plan) = self.remembered(&tuned, &plans) {
            return Ok(Some(plan));
        }
        if plans.is_empty() || device.is_simulator() || device.is_capturing()? {
            return Ok(None);
        }
        let few = &plans[..plans.len().min(self.most)];
        if few.len() == 1 {
            self.known().plans_of::<P>().insert(tuned, None);
            return Ok(None);
        }
        let _alone = self
            .measuring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.read_again();
        if let Some(plan) = self.remembered(&tuned, &plans) {
            return Ok(Some(plan));
        }
        let plan = match measure(few) {
            Ok(plan) => plan,
            // The call itself may have all of its memory. Each later call would ask for that of a measurement again.
            Err(error) if error.device().is_some_and(|why| why.is_out_of_memory()) => None,
            Err(error) => return Err(error),
        };
        match plan {
            Some(plan) => self.remember(tuned, plan),
            None => drop(self.known().plans_of::<P>().insert(tuned, None)),
        }
        Ok(plan)
    }

    /// Returns the plan of an entry, if it is one of the plans of today.
    fn remembered<P: Tuned>(&self, tuned: &(String, P), plans: &[P::Plan]) -> Option<P::Plan> {
        let mut known = self.known();
        let text = known.entries.get(&text(tuned))?;
        let plan = plans
            .iter()
            .find(|plan| plan.to_string() == *text)
            .copied()?;
        known.plans_of::<P>().insert(tuned.clone(), Some(plan));
        Some(plan)
    }

    fn remember<P: Tuned>(&self, tuned: (String, P), plan: P::Plan) {
        let (problem, text) = (text(&tuned), plan.to_string());
        let written = self.file.append(&line(&problem, &text));
        let mut known = self.known();
        if let Err(why) = written {
            if known.unsaved.len() == UNSAVED {
                known.unsaved.remove(0);
            }
            known.unsaved.push(format!("{problem}: {why}"));
        }
        known.entries.insert(problem, text);
        known.plans_of::<P>().insert(tuned, Some(plan));
    }
}

impl Known {
    fn plans_of<P: Tuned>(&mut self) -> &mut PlansOf<P> {
        let plans = self.plans.entry(TypeId::of::<P>());
        let plans = plans.or_insert_with(|| Box::new(PlansOf::<P>::new()));
        let plans = plans.downcast_mut();
        plans.expect("invariant: the plans of a type lie under it")
    }
}

/// A line of the file: the text of a problem, that of its plan, and the checksum of both.
fn line(problem: &str, plan: &str) -> String {
    let entry = format!("{problem}\t{plan}");
    let sum = checksum(&entry);
    format!("{entry}\t{sum}")
}

/// The texts of the problem and the plan of a line, if it is whole. The text of another plan may begin as that of a plan does.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (entry, sum) = line.rsplit_once('\t')?;
    (sum == checksum(entry)).then(|| entry.split_once('\t'))?
}

/// A hash of 64 bits (FNV-1a), which two texts of one length that differ in one byte do not share.
fn checksum(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}")
}

/// The text of a problem on a device in the file.
fn text<P: Tuned>((device, problem): &(String, P)) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("colex {version}, {device}: {problem}").replace(['\t', '\n', '\r'], " ")
}

/// Returns the plan whose calls have the smallest median time; `None` if there are none. Each has a call for each copy of the
/// operands, in the same order.
///
/// # Errors
///
/// Returns the device's error if a launch fails.
pub(crate) fn fastest<Q: Copy, A>(
    device: &Device,
    copies: usize,
    runs: &[(Q, Vec<Arc<Call<A>>>)],
) -> Result<Option<Q>, Error> {
    device.synchronize()?;
    let works: Vec<_> = runs
        .iter()
        .map(|(_, calls)| move |device: &Device, i: usize| calls[i % calls.len()].run(device))
        .collect();
    let works: Vec<&TimedWork<'_, Error>> = works.iter().map(|work| work as _).collect();
    let repeats = Repeats {
        warmups: 1,
        samples: 9,
        batch: copies.max(4),
    };
    let timings = device.time_in_turns(repeats, &works)?;
    device.synchronize()?;
    let timed = runs.iter().zip(&timings);
    let fastest = timed.min_by(|x, y| x.1.median().total_cmp(&y.1.median()));
    Ok(fastest.map(|((plan, _), _)| *plan))
}

/// How many numbers are drawn: a matrix repeats them.
const DRAWN: usize = 8191;

/// Returns what `number` makes of a few thousand numbers from -1 to 1, in an order that is the same on every run.
pub(crate) fn numbers<T>(number: impl Fn(f64) -> T) -> Vec<T> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..DRAWN)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            number((state >> 40) as f64 / f64::from(1 << 23) - 1.0)
        })
        .collect()
}

/// Returns a buffer of `count` elements that repeats `numbers`. The host has these alone: the device copies the rest, each time as many as
/// there are.
///
/// # Errors
///
/// Returns the device's error.
pub(crate) fn repeated<T: Element>(
    device: &Device,
    numbers: &[T],
    count: usize,
) -> Result<Buffer<T>, Error> {
    let buffer = device.uninitialised(count)?;
    let mut filled = numbers.len().min(count);
    buffer.slice(..filled)?.write(&numbers[..filled])?;
    while 0 < filled && filled < count {
        let more = filled.min(count - filled);
        let place = buffer.slice(filled..filled + more)?;
        place.copy_from(&buffer.slice(..more)?)?;
        filled += more;
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use colex_device::Arch;

    use super::*;

    /// A problem that has a number.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Numbered(usize);

    impl fmt::Display for Numbered {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "problem {}", self.0)
        }
    }

    impl Tuned for Numbered {
        type Plan = usize;
    }

    #[test]
    fn plans_without_a_file_are_kept_in_memory_and_the_last_are_told() {
        let name = format!("colex-plans-gone-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let measured = Autotune::open(&path).expect("a new file");
        std::fs::remove_file(&path).expect("it is there");
        for number in 0..100 {
            measured.remember(("a device".to_string(), Numbered(number)), number);
        }
        let unsaved = measured.unsaved();
        let version = env!("CARGO_PKG_VERSION");
        let said = |number: usize| {
            let path = path.display();
            format!("colex {version}, a device: problem {number}: there is no file {path}")
        };
        assert_eq!(unsaved, (36..100).map(said).collect::<Vec<_>>());
        assert_eq!(measured.len(), 100);
        assert!(!path.exists());
    }

    /// A line that was cut is none, as one with another byte is: the text of another plan may begin as that of a plan does, or differ
    /// from it in a digit.
    #[test]
    fn law_a_line_that_is_cut_or_changed_is_no_entry() {
        let problem =
            "colex 0.2.0, NVIDIA H200, sm_90a, 132 multiprocessors: 256x512x512, bf16 to bf16";
        let plan = "Hopper bf16 to bf16, tile 64x32x128, 8 stages, cluster 2x1x1, grouped 8 along n, A and B swapped";
        let whole = line(problem, plan);
        assert_eq!(entry(&whole), Some((problem, plan)));
        // Kept between versions of the library: files of one version are read by another build of it.
        assert_eq!(line("a", "b"), "a\tb\te5bacb19041229c7");
        let mut cases = 0;
        for length in 0..whole.len() {
            assert_eq!(entry(&whole[..length]), None, "{length}");
            cases += 1;
        }
        for at in 0..whole.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = whole.clone().into_bytes();
                if bytes[at] == byte {
                    continue;
                }
                bytes[at] = byte;
                let text = String::from_utf8_lossy(&bytes);
                // A new line, or a part of one.
                let found: Vec<_> = text.lines().filter_map(entry).collect();
                assert_eq!(found, [], "{text}");
                cases += 1;
            }
        }
        assert_eq!(entry(&format!("{problem}\t{plan}")), None, "no checksum");
        println!("law autotune.lines: {cases} cases");
    }

    #[test]
    fn law_a_repeated_matrix_has_the_numbers_in_turn() {
        let device = Device::simulator(Arch::Sm90a);
        let numbers = numbers(|number| number as f32);
        let counts = [0, 1, 8190, 8191, 8192, 16382, 16383, 50_000, 131_072];
        for count in counts {
            let found = repeated(&device, &numbers, count).and_then(|all| Ok(all.download()?));
            let found = found.expect("the simulator has room");
            let expected: Vec<f32> = numbers.iter().cycle().take(count).copied().collect();
            assert!(found == expected, "{count}");
        }
        println!("law autotune.repeated: {} cases", counts.len());
    }
}
