//! A library with the driver's names that does nothing but answer, as the variable `FAKE_CUDA` says.
//!
//! It counts its calls. Where the variable `FAKE_CUDA_CALLS` names a file, `cuStreamSynchronize` writes there how often
//! each function was called since the last time, a name and a number per line, and counts from 0 again. Where
//! `FAKE_CUDA_TOTALS` names one, it writes there how often each was called at all.
//!
//! It models stream capture as strictly as the driver's documentation allows it to be: what allocates, frees, waits, loads or
//! unloads code, or sets attributes, is refused while a capture in global mode is going on in any thread, or one of the
//! calling thread in thread-local mode, and breaks the capture off. A thread in relaxed mode may do all of it, but for a wait for
//! a context of which a stream is captured. An H200's driver is less strict: it loads code during a capture of the calling thread in
//! thread-local mode. A launch needs a function of the context that is
//! current and that its stream belongs to. The linker refuses a text with `setmaxnreg`: a real one ignores the instruction,
//! and the kernel runs at a third of its speed.
//!
//! In a scene `peers:COUNT`, `weak:COUNT` or `apart:COUNT` there are several devices, with access to each other's memory, with access
//! by links that carry no atomic operations, or without access, and small memory is remembered: streams run their copies and flags in order, as far as no flag and no event
//! holds them up. In a scene `late:COUNT:DEVICE` there is access, and the copies from the memory of that device run last: one each time that
//! the host asks whether work is done, while all other work runs at once. There a word for which a stream waits and which no stream
//! has been told to write is written by a kernel, and is there at once. A copy in
//! memory to which the current context has no access is refused, as a real one would be. Memory that is freed while another
//! process has it open, and memory that is closed without being open, end the process: what a real driver does then is
//! undefined.
//!
//! Parameters that the driver's own header has as pointers to write through are references here: the caller always
//! passes them.
#![allow(non_snake_case)]

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

type Code = u32;
type Handle = usize;

/// What the variable says, read once.
fn said() -> &'static str {
    static SAID: OnceLock<String> = OnceLock::new();
    SAID.get_or_init(|| std::env::var("FAKE_CUDA").unwrap_or_default())
}

/// Whether the variable names this scene.
fn scene(name: &str) -> bool {
    said() == name
}

/// The number after the scene's name and a colon.
fn number(name: &str) -> Option<Code> {
    said().strip_prefix(name)?.strip_prefix(':')?.parse().ok()
}

/// The number of devices of a scene `late:COUNT:DEVICE`, and the device whose copies run last.
fn late() -> Option<[usize; 2]> {
    let (count, device) = said().strip_prefix("late:")?.split_once(':')?;
    Some([count.parse().ok()?, device.parse().ok()?])
}

/// The devices that have access to each other's memory.
fn peers() -> Option<Code> {
    let late = late().map(|[count, _]| count as Code);
    number("peers").or(number("weak")).or(late)
}

/// A part of a scene `gpu:MAJOR:MINOR:SHARED:VERSION`: a device of that compute capability, with that much shared memory
/// of a block, behind a driver of that version. As a real driver does, it refuses a text of a later PTX, and one for
/// another device.
fn part(at: usize) -> Option<u32> {
    said().strip_prefix("gpu:")?.split(':').nth(at)?.parse().ok()
}

/// What is wrong with a text for that driver and device.
fn refusal(text: &str) -> Option<&'static [u8; 28]> {
    let [major, minor, _, version] = [0, 1, 2, 3].map(|at| part(at).unwrap_or(0));
    let after = |word: &str| text.split(word).nth(1).and_then(|rest| rest.split_whitespace().next());
    let (text_major, text_minor) = after(".version ")?.split_once('.')?;
    let text = text_major.parse::<u32>().ok()? * 10 + text_minor.parse::<u32>().ok()?;
    let newest = match (version / 1000, version % 1000 / 10) {
        (12, minor) => 80 + minor - u32::from(minor > 5),
        (cuda, minor) => (cuda - 4) * 10 + minor,
    };
    if text > newest {
        return Some(b"Unsupported .version        ");
    }
    let target = after(".target ")?.strip_prefix("sm_")?;
    let device = major * 10 + minor;
    let runs = match target.strip_suffix('a') {
        Some(exact) => exact.parse() == Ok(device),
        None => target.parse::<u32>().is_ok_and(|since| since <= device),
    };
    (!runs).then_some(b"the target is not this GPU's")
}

/// What the assembler says of a text that it does not take.
fn complaint(text: &str) -> Option<&'static [u8; 28]> {
    if scene("assembler") {
        Some(b"ptxas line 8: Unknown symbol")
    } else if part(0).is_some() {
        refusal(text)
    } else {
        None
    }
}

/// How often a function was called.
struct Calls {
    name: &'static str,
    count: AtomicU64,
    total: AtomicU64,
    listed: OnceLock<()>,
}

/// The functions that were called at least once.
static LIST: Mutex<Vec<&'static Calls>> = Mutex::new(Vec::new());

impl Calls {
    const fn new(name: &'static str) -> Calls {
        Calls {
            name,
            count: AtomicU64::new(0),
            total: AtomicU64::new(0),
            listed: OnceLock::new(),
        }
    }

    fn add(&'static self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.listed.get_or_init(|| LIST.lock().unwrap().push(self));
    }
}

/// Counts a call of the function.
macro_rules! counted {
    ($name:ident) => {{
        static CALLS: Calls = Calls::new(stringify!($name));
        CALLS.add();
    }};
}

/// A stream that is being captured.
struct Capture {
    stream: Handle,
    mode: u32,
    thread: ThreadId,
    nodes: usize,
    broken: bool,
}

/// The captures that are going on.
static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

/// The graphs that captures have made, by the number of their nodes.
static GRAPHS: Mutex<Vec<(Handle, usize)>> = Mutex::new(Vec::new());

thread_local! {
    /// What captures forbid a thread.
    static MODE: Cell<u32> = const { Cell::new(0) };
}

/// Not counted: it is called with each free.
#[no_mangle]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(mode: &mut u32) -> Code {
    *mode = MODE.replace(*mode);
    0
}

/// Whether a capture forbids a call that allocates, frees or waits; such captures are broken off. `CU_STREAM_CAPTURE_MODE_GLOBAL`
/// is 0, `THREAD_LOCAL` is 1, `RELAXED` is 2.
fn is_forbidden() -> bool {
    let of_thread = |capture: &Capture| capture.thread == thread::current().id();
    are_broken(|capture| match (MODE.get(), capture.mode) {
        (2, _) | (_, 2) => false,
        (0, 0) => true,
        _ => of_thread(capture),
    })
}

/// Breaks captures off that forbid a call, and returns whether there are any.
fn are_broken(forbids: impl Fn(&Capture) -> bool) -> bool {
    let mut captures = CAPTURES.lock().unwrap();
    let mut found = false;
    for capture in captures.iter_mut().filter(|capture| forbids(capture)) {
        capture.broken = true;
        found = true;
    }
    found
}

/// Returns `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` from the function if a capture forbids it.
macro_rules! outside_capture {
    () => {
        if is_forbidden() {
            return 900;
        }
    };
}

/// Adds work to the graph of its stream, if that is being captured.
fn enqueue(stream: Handle) -> Code {
    let mut captures = CAPTURES.lock().unwrap();
    if let Some(capture) = captures.iter_mut().find(|capture| capture.stream == stream) {
        capture.nodes += 1;
    }
    0
}

/// Writes the counts to the file that the variable names, and begins anew.
fn tell() {
    if let Ok(file) = std::env::var("FAKE_CUDA_TOTALS") {
        let line = |calls: &&Calls| format!("{} {}\n", calls.name, calls.total.load(Ordering::Relaxed));
        // Two threads write one after the other.
        let list = LIST.lock().unwrap();
        let lines: String = list.iter().map(line).collect();
        std::fs::write(file, lines).unwrap();
    }
    let Ok(file) = std::env::var("FAKE_CUDA_CALLS") else {
        return;
    };
    let line = |calls: &&Calls| match calls.count.swap(0, Ordering::Relaxed) {
        0 => String::new(),
        count => format!("{} {count}\n", calls.name),
    };
    let lines: String = LIST.lock().unwrap().iter().map(line).collect();
    std::fs::write(file, lines).unwrap();
}

macro_rules! succeeds {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[no_mangle]
        pub extern "C" fn $name($(_: $argument),*) -> Code {
            counted!($name);
            0
        }
    )*};
}

/// Functions that succeed outside of captures.
macro_rules! succeeds_outside_capture {
    ($($name:ident($($argument:ty),*);)*) => {$(
        #[no_mangle]
        pub extern "C" fn $name($(_: $argument),*) -> Code {
            counted!($name);
            outside_capture!();
            0
        }
    )*};
}

macro_rules! makes {
    ($($name:ident(&mut Handle $(, $argument:ty)*);)*) => {$(
        #[no_mangle]
        pub extern "C" fn $name(handle: &mut Handle $(, _: $argument)*) -> Code {
            counted!($name);
            *handle = 0x1000;
            0
        }
    )*};
}

/// Another handle each time.
fn fresh() -> Handle {
    static NEXT: AtomicUsize = AtomicUsize::new(0x10_0000);
    NEXT.fetch_add(0x100, Ordering::Relaxed)
}

#[no_mangle]
pub extern "C" fn cuDriverGetVersion(version: &mut i32) -> Code {
    counted!(cuDriverGetVersion);
    *version = match part(3) {
        Some(version) => version as i32,
        None if scene("old") => 11040,
        None => 13000,
    };
    0
}

#[no_mangle]
pub extern "C" fn cuInit(_: u32) -> Code {
    counted!(cuInit);
    number("init").unwrap_or(0)
}

#[no_mangle]
pub extern "C" fn cuGetErrorName(code: Code, name: &mut &'static u8) -> Code {
    counted!(cuGetErrorName);
    let known: &'static [u8] = match code {
        1 => b"CUDA_ERROR_INVALID_VALUE\0",
        2 => b"CUDA_ERROR_OUT_OF_MEMORY\0",
        218 => b"CUDA_ERROR_INVALID_PTX\0",
        700 => b"CUDA_ERROR_ILLEGAL_ADDRESS\0",
        719 => b"CUDA_ERROR_LAUNCH_FAILED\0",
        900 => b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\0",
        999 => b"CUDA_ERROR_UNKNOWN\0",
        _ => return 1,
    };
    *name = &known[0];
    0
}

#[no_mangle]
pub extern "C" fn cuGetErrorString(code: Code, text: &mut &'static u8) -> Code {
    counted!(cuGetErrorString);
    match code {
        4242 => 1,
        _ => {
            *text = &b"what the driver says\0"[0];
            0
        }
    }
}

#[no_mangle]
pub extern "C" fn cuDeviceGetCount(count: &mut i32) -> Code {
    counted!(cuDeviceGetCount);
    *count = devices() as i32;
    0
}

/// The number of devices.
fn devices() -> usize {
    let several = peers().or(number("apart"));
    several.map_or(1, |count| count as usize)
}

#[no_mangle]
pub extern "C" fn cuDeviceGet(device: &mut i32, ordinal: i32) -> Code {
    counted!(cuDeviceGet);
    *device = ordinal;
    0
}

#[no_mangle]
pub extern "C" fn cuDeviceGetName(name: &mut [u8; 255], _: i32, _: i32) -> Code {
    counted!(cuDeviceGetName);
    name[..5].copy_from_slice(b"Fake\0");
    0
}

/// Attributes by their numbers in `cuda.h`.
#[no_mangle]
pub extern "C" fn cuDeviceGetAttribute(value: &mut i32, attribute: u32, _: i32) -> Code {
    counted!(cuDeviceGetAttribute);
    *value = match attribute {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        75 if scene("kepler") => 3,
        75 => part(0).unwrap_or(9) as i32,
        76 if scene("kepler") => 7,
        76 => part(1).unwrap_or(0) as i32,
        97 => part(2).unwrap_or(232448) as i32,
        16 => 132,
        39 => 2048,
        81 => 233_472,
        13 => 1_980_000,
        36 | 37 if scene("rateless") => 0,
        36 if scene("h100") => 2_619_000,
        36 => 3_201_000,
        37 if scene("h100") => 5120,
        37 => 6144,
        122 if number("memops").is_some() => 0,
        120 | 122 => 1,
        _ => 0,
    };
    0
}

/// The address of the primary context of device 0, whenever there is one; that of the next device is one more.
const PRIMARY: Handle = 0x2000;

/// The most devices of a scene.
const MOST: usize = 8;

/// The device of a primary context.
fn device_of(context: Handle) -> Option<usize> {
    context.checked_sub(PRIMARY).filter(|device| *device < MOST)
}

/// How often the primary context of each device is retained, and how many there have been.
static PRIMARIES: Mutex<[(u64, u64); MOST]> = Mutex::new([(0, 0); MOST]);

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: &mut Handle, device: i32) -> Code {
    counted!(cuDevicePrimaryCtxRetain);
    *context = PRIMARY + device as usize;
    let primaries = &mut PRIMARIES.lock().unwrap()[device as usize];
    primaries.1 += u64::from(primaries.0 == 0);
    primaries.0 += 1;
    number("retain").unwrap_or(0)
}

#[no_mangle]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Code {
    counted!(cuDevicePrimaryCtxRelease_v2);
    PRIMARIES.lock().unwrap()[device as usize].0 -= 1;
    0
}

/// The contexts of callers that have ended, one entry for each time.
static ENDED_CONTEXTS: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

#[no_mangle]
pub extern "C" fn cuCtxDestroy_v2(context: Handle) -> Code {
    counted!(cuCtxDestroy_v2);
    ENDED_CONTEXTS.lock().unwrap().push(context);
    // Its modules and functions end with it.
    CODE_OF.lock().unwrap().retain(|(_, of)| *of != context);
    0
}

/// A number for each context that there has been.
#[no_mangle]
pub extern "C" fn cuCtxGetId(context: Handle, id: &mut u64) -> Code {
    counted!(cuCtxGetId);
    *id = match device_of(context) {
        Some(device) => PRIMARIES.lock().unwrap()[device].1 * MOST as u64 + device as u64,
        None => {
            let ended = ENDED_CONTEXTS.lock().unwrap();
            let times = ended.iter().filter(|one| **one == context).count();
            context as u64 + ((times as u64) << 32)
        }
    };
    0
}

thread_local! {
    /// The current context of a thread.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

#[no_mangle]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    counted!(cuCtxSetCurrent);
    CURRENT.set(context);
    0
}

#[no_mangle]
pub extern "C" fn cuCtxGetCurrent(context: &mut Handle) -> Code {
    counted!(cuCtxGetCurrent);
    *context = CURRENT.get();
    0
}

#[no_mangle]
pub extern "C" fn cuCtxGetDevice(device: &mut i32) -> Code {
    counted!(cuCtxGetDevice);
    *device = device_of(CURRENT.get()).unwrap_or(0) as i32;
    if CURRENT.get() == 0 { 201 } else { 0 }
}

/// The streams, each with its context.
static STREAMS: Mutex<Vec<(Handle, Handle)>> = Mutex::new(Vec::new());

/// The numbers of streams, of which each has another one, and how many there have been.
static NUMBERS: Mutex<(u64, Vec<(Handle, u64)>)> = Mutex::new((0, Vec::new()));

/// The handles of streams that have ended. In the scene `reused`, new streams have them, as an H200's driver does it.
static ENDED: Mutex<Vec<Handle>> = Mutex::new(Vec::new());

/// A new stream of the current context.
fn new_stream() -> Handle {
    let ended = ENDED.lock().unwrap().pop().filter(|_| scene("reused"));
    let stream = ended.unwrap_or_else(fresh);
    STREAMS.lock().unwrap().push((stream, CURRENT.get()));
    let mut numbers = NUMBERS.lock().unwrap();
    numbers.0 += 1;
    let number = numbers.0;
    numbers.1.retain(|(known, _)| *known != stream);
    numbers.1.push((stream, number));
    stream
}

/// Not counted: it is asked wherever memory is kept for a stream.
#[no_mangle]
pub extern "C" fn cuStreamGetId(stream: Handle, id: &mut u64) -> Code {
    if scene("unnumbered") {
        return 801;
    }
    let numbers = NUMBERS.lock().unwrap();
    match numbers.1.iter().find(|(known, _)| *known == stream) {
        Some((_, number)) => {
            *id = *number;
            0
        }
        None => 400,
    }
}

#[no_mangle]
pub extern "C" fn cuStreamCreate(stream: &mut Handle, _: u32) -> Code {
    counted!(cuStreamCreate);
    *stream = new_stream();
    0
}

#[no_mangle]
pub extern "C" fn cuCtxGetStreamPriorityRange(least: &mut i32, greatest: &mut i32) -> Code {
    counted!(cuCtxGetStreamPriorityRange);
    (*least, *greatest) = (0, -5);
    0
}

#[no_mangle]
pub extern "C" fn cuStreamCreateWithPriority(stream: &mut Handle, _: u32, priority: i32) -> Code {
    counted!(cuStreamCreateWithPriority);
    *stream = new_stream();
    if priority == -5 { 0 } else { 1 }
}

#[no_mangle]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    counted!(cuStreamDestroy_v2);
    STREAMS.lock().unwrap().retain(|(made, _)| *made != stream);
    ENDED.lock().unwrap().push(stream);
    0
}

#[no_mangle]
pub extern "C" fn cuStreamGetCtx(stream: Handle, context: &mut Handle) -> Code {
    counted!(cuStreamGetCtx);
    let streams = STREAMS.lock().unwrap();
    match streams.iter().find(|(made, _)| *made == stream) {
        Some((_, of)) => {
            *context = *of;
            0
        }
        None => 400,
    }
}

#[no_mangle]
pub extern "C" fn cuMemAlloc_v2(address: &mut u64, bytes: usize) -> Code {
    counted!(cuMemAlloc_v2);
    outside_capture!();
    static NEXT: AtomicU64 = AtomicU64::new(0x7000_0000);
    if bytes > 1 << 20 {
        return 2;
    }
    *address = NEXT.fetch_add(1 << 20, Ordering::Relaxed);
    if remembers() {
        MACHINE.lock().unwrap().get_or_insert_default().owners.insert(*address, CURRENT.get());
    }
    0
}

/// Whether the scene has a memory.
fn remembers() -> bool {
    peers().or(number("apart")).is_some()
}

/// The memory of all devices, and the work of the streams that has not run.
static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

#[derive(Default)]
struct Machine {
    /// The words that were written.
    words: HashMap<u64, u32>,
    /// The flags that streams were told to write.
    flags: HashSet<u64>,
    /// The context of each allocation, which has a mebibyte.
    owners: HashMap<u64, Handle>,
    /// The contexts that may use the memory of another one.
    access: Vec<[Handle; 2]>,
    /// The allocations of other processes, with how often each is open.
    opened: HashMap<u64, usize>,
    queues: HashMap<Handle, VecDeque<Step>>,
    /// The steps that have run, and how many had when an event was reached.
    steps: u64,
    reached: HashMap<Handle, u64>,
    /// How often each event was recorded, and how often a stream has come to it.
    recorded: HashMap<Handle, u64>,
    passed: HashMap<Handle, u64>,
    /// How many copies into the memory of each context have not run.
    copies_into: HashMap<Handle, u64>,
    /// The collectives of the fake NCCL that not all ranks have come to, by number.
    collectives: HashMap<u64, Collective>,
    /// The ranks that have left a communicator, each behind its number.
    left: HashSet<u64>,
}

/// A collective: what each rank gives and takes, once its stream has come to it.
#[derive(Default)]
struct Collective {
    ranks: usize,
    words: u64,
    come: HashMap<u64, [u64; 2]>,
    is_over: bool,
}

/// A piece of work of a stream.
enum Step {
    Write { to: u64, words: Vec<u32> },
    Fill { to: u64, word: u32, count: u64 },
    Copy { to: u64, from: u64, count: u64 },
    WaitFor { word: u64, least: u32 },
    Reach { event: Handle },
    /// Waits until streams have come to an event as often as it was recorded before this wait was enqueued.
    After { event: Handle, times: u64 },
    /// A kernel of a context.
    Launch { context: Handle },
    Join { id: u64, rank: u64, ranks: usize, ends: [u64; 2], words: u64 },
}

/// The most words that are remembered of one copy.
const SMALL: usize = 1024;

impl Machine {
    /// Runs all work that no flag and no event holds up, but for copies that run last.
    fn settle(&mut self) {
        let mut queues = std::mem::take(&mut self.queues);
        while queues.values_mut().any(|queue| self.run(queue, false)) {}
        queues.retain(|_, queue| !queue.is_empty());
        self.queues = queues;
    }

    /// Runs one of the copies that run last, and what it held up.
    fn run_late(&mut self) {
        let mut queues = std::mem::take(&mut self.queues);
        let is_copy = |step: Option<&Step>| matches!(step, Some(Step::Copy { .. }));
        let mut copies = queues.values_mut().filter(|queue| is_copy(queue.front()));
        if let Some(queue) = copies.next() {
            self.run(queue, true);
        }
        self.queues = queues;
        self.settle();
    }

    /// The context that has the memory at an address.
    fn owner(&self, address: u64) -> Option<Handle> {
        self.owners.get(&(address >> 20 << 20)).copied()
    }

    /// Whether a copy runs last.
    fn is_late(&self, from: u64) -> bool {
        late().is_some_and(|[_, device]| self.owner(from).and_then(device_of) == Some(device))
    }

    /// Runs the first piece of a queue, and returns whether it could.
    fn run(&mut self, queue: &mut VecDeque<Step>, runs_late: bool) -> bool {
        match queue.front() {
            None => return false,
            Some(Step::Copy { from, .. }) if !runs_late && self.is_late(*from) => return false,
            Some(Step::After { event, times }) => {
                if self.passed.get(event).copied().unwrap_or(0) < *times {
                    return false;
                }
            }
            Some(Step::Launch { context }) => {
                // Not a function of the driver's: the number of kernels that run before a copy into the memory of their device.
                if self.copies_into.get(context).is_some_and(|behind| *behind > 0) {
                    counted!(launches_before_copies);
                }
            }
            Some(Step::WaitFor { word, least }) => {
                let found = self.words.get(word).copied().unwrap_or(0);
                let by_kernel = late().is_some() && !self.flags.contains(word);
                if !by_kernel && (found.wrapping_sub(*least) as i32) < 0 {
                    return false;
                }
            }
            Some(Step::Write { to, words }) => {
                let places = (*to..).step_by(4);
                self.words.extend(places.zip(words.iter().copied()));
            }
            Some(Step::Fill { to, word, count }) => {
                let places = (0..*count).map(|at| to + 4 * at);
                self.words.extend(places.map(|place| (place, *word)));
            }
            Some(Step::Copy { to, from, count }) => {
                if let Some(behind) = self.owner(*to).and_then(|owner| self.copies_into.get_mut(&owner)) {
                    *behind -= 1;
                }
                for at in (0..*count).map(|word| 4 * word) {
                    let word = self.words.get(&(from + at)).copied().unwrap_or(0);
                    self.words.insert(to + at, word);
                }
            }
            Some(Step::Reach { event }) => {
                self.reached.insert(*event, self.steps);
                *self.passed.entry(*event).or_default() += 1;
            }
            Some(&Step::Join { id, rank, ranks, ends, words }) => {
                let collective = self.collectives.entry(id).or_default();
                (collective.ranks, collective.words) = (ranks, words);
                if !collective.is_over && !self.left.contains(&(id >> 32 << 32 | rank)) {
                    collective.come.insert(rank, ends);
                    if collective.come.len() < ranks {
                        return false;
                    }
                    collective.is_over = true;
                    // All others go on at their next look.
                    let all = collective.come.clone();
                    for (from_rank, [from, _]) in &all {
                        for [_, to] in all.values() {
                            let to = to + 4 * from_rank * words;
                            for at in (0..words).map(|word| 4 * word) {
                                let word = self.words.get(&(from + at)).copied().unwrap_or(0);
                                self.words.insert(to + at, word);
                            }
                        }
                    }
                }
            }
        }
        queue.pop_front();
        self.steps += 1;
        true
    }

    /// Whether the current context may use the memory at an address.
    fn may_use(&self, address: u64) -> bool {
        let block = address >> 20 << 20;
        let (current, owner) = (CURRENT.get(), self.owner(address));
        self.opened.contains_key(&block)
            || owner.is_some_and(|owner| owner == current || self.access.contains(&[current, owner]))
    }
}

/// Gives a stream work that uses the memory at some addresses, or adds it to the graph that captures the stream.
fn give(stream: Handle, uses: &[u64], step: Step) -> Code {
    let is_captured = CAPTURES.lock().unwrap().iter().any(|capture| capture.stream == stream);
    if is_captured || !remembers() {
        return enqueue(stream);
    }
    let mut machine = MACHINE.lock().unwrap();
    let machine = machine.get_or_insert_default();
    if !uses.iter().all(|address| machine.may_use(*address)) {
        return 1;
    }
    match &step {
        Step::Copy { to, .. } => {
            if let Some(owner) = machine.owner(*to) {
                *machine.copies_into.entry(owner).or_default() += 1;
            }
        }
        Step::Write { to, words } if words.len() == 1 => drop(machine.flags.insert(*to)),
        Step::Reach { event } => *machine.recorded.entry(*event).or_default() += 1,
        _ => {}
    }
    machine.queues.entry(stream).or_default().push_back(step);
    machine.settle();
    0
}

/// Gives a stream a collective of the fake NCCL, which has access to all memory. The lower half of `slot` is the number of
/// ranks, the upper one the rank.
#[no_mangle]
pub extern "C" fn fakeCollectiveJoin(stream: Handle, id: u64, slot: u64, from: u64, to: u64, words: u64) -> Code {
    let (rank, ranks) = (slot >> 32, slot as u32 as usize);
    give(stream, &[], Step::Join { id, rank, ranks, ends: [from, to], words })
}

/// Ends all collectives of a rank: the upper half is the number of its communicator. Those under way on other ranks end too, and bring
/// nothing: on four H200, a collective whose neighbour had aborted did this without an error.
#[no_mangle]
pub extern "C" fn fakeCollectiveLeave(rank: u64) -> Code {
    let mut machine = MACHINE.lock().unwrap();
    let machine = machine.get_or_insert_default();
    machine.left.insert(rank);
    let of_it = machine.collectives.iter_mut().filter(|(id, _)| *id >> 32 == rank >> 32);
    for (_, collective) in of_it {
        collective.come.remove(&u64::from(rank as u32));
        collective.is_over = true;
    }
    machine.settle();
    0
}

/// The current context, not counted.
#[no_mangle]
pub extern "C" fn fakeCurrentContext() -> Handle {
    CURRENT.get()
}

/// Waits until all streams of a context have ended, as the driver does when memory is freed.
#[no_mangle]
pub extern "C" fn fakeContextSettles(context: Handle) -> Code {
    let start = Instant::now();
    let streams = || -> Vec<Handle> {
        let streams = STREAMS.lock().unwrap();
        let own = streams.iter().filter(|(_, of)| *of == context);
        own.map(|(stream, _)| *stream).collect()
    };
    while streams().iter().any(|stream| is_behind(Some(*stream), None)) {
        // A real wait would never end.
        if start.elapsed() > Duration::from_secs(20) {
            return 999;
        }
        thread::sleep(Duration::from_millis(1));
    }
    0
}

/// Whether a stream has work that has not run, of any kind or up to an event.
fn is_behind(stream: Option<Handle>, event: Option<Handle>) -> bool {
    let mut machine = MACHINE.lock().unwrap();
    let Some(machine) = machine.as_mut() else { return false };
    machine.run_late();
    let is_it = |step: &Step| matches!(step, Step::Reach { event: one } if Some(*one) == event);
    let mut queues = machine.queues.iter();
    match stream {
        Some(stream) => machine.queues.contains_key(&stream),
        None => queues.any(|(_, queue)| queue.iter().any(is_it)),
    }
}

#[no_mangle]
pub extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    counted!(cuStreamQuery);
    outside_capture!();
    if is_behind(Some(stream), None) { 600 } else { 0 }
}

#[no_mangle]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    counted!(cuEventRecord);
    if remembers() { give(stream, &[], Step::Reach { event }) } else { 0 }
}

/// A wait for an event that was never recorded waits for nothing.
#[no_mangle]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _: u32) -> Code {
    counted!(cuStreamWaitEvent);
    let is_captured = CAPTURES.lock().unwrap().iter().any(|capture| capture.stream == stream);
    if is_captured || !remembers() {
        return 0;
    }
    let machine = MACHINE.lock().unwrap();
    let recorded = machine.as_ref().and_then(|machine| machine.recorded.get(&event));
    let times = recorded.copied().unwrap_or(0);
    drop(machine);
    give(stream, &[], Step::After { event, times })
}

#[no_mangle]
pub extern "C" fn cuEventQuery(event: Handle) -> Code {
    counted!(cuEventQuery);
    outside_capture!();
    if is_behind(None, Some(event)) { 600 } else { 0 }
}

#[no_mangle]
pub extern "C" fn cuStreamWriteValue32_v2(stream: Handle, to: u64, value: u32, flags: u32) -> Code {
    counted!(cuStreamWriteValue32_v2);
    match number("memops") {
        Some(code) => code,
        None if flags != 0 => 1,
        None => give(stream, &[to], Step::Write { to, words: vec![value] }),
    }
}

#[no_mangle]
pub extern "C" fn cuStreamWaitValue32_v2(stream: Handle, word: u64, least: u32, flags: u32) -> Code {
    counted!(cuStreamWaitValue32_v2);
    match number("memops") {
        Some(code) => code,
        None if flags != 0 => 1,
        None => give(stream, &[word], Step::WaitFor { word, least }),
    }
}

#[no_mangle]
pub extern "C" fn cuDeviceCanAccessPeer(can: &mut i32, device: i32, peer: i32) -> Code {
    counted!(cuDeviceCanAccessPeer);
    *can = i32::from(peers().is_some() && device != peer);
    0
}

#[no_mangle]
pub extern "C" fn cuDeviceGetP2PAttribute(has: &mut i32, attribute: u32, device: i32, peer: i32) -> Code {
    counted!(cuDeviceGetP2PAttribute);
    *has = i32::from(attribute == 3 && device != peer && number("weak").is_none());
    0
}

#[no_mangle]
pub extern "C" fn cuCtxEnablePeerAccess(peer: Handle, _: u32) -> Code {
    counted!(cuCtxEnablePeerAccess);
    if peers().is_none() {
        return 217;
    }
    let mut machine = MACHINE.lock().unwrap();
    let access = &mut machine.get_or_insert_default().access;
    let pair = [CURRENT.get(), peer];
    if access.contains(&pair) {
        return 704;
    }
    access.push(pair);
    0
}

#[no_mangle]
pub extern "C" fn cuMemFree_v2(address: u64) -> Code {
    counted!(cuMemFree_v2);
    outside_capture!();
    let machine = MACHINE.lock().unwrap();
    if machine.as_ref().is_some_and(|machine| machine.opened.contains_key(&address)) {
        undefined("memory was freed that another process has open");
    }
    let owner = machine.as_ref().and_then(|machine| machine.owner(address));
    drop(machine);
    waits_for(owner.unwrap_or(CURRENT.get()));
    0
}

/// Waits for all streams of a context. A wait that would never end ends the process.
fn waits_for(context: Handle) {
    if fakeContextSettles(context) != 0 {
        undefined("a call waits for streams that never end");
    }
}

#[no_mangle]
pub extern "C" fn cuCtxSynchronize() -> Code {
    counted!(cuCtxSynchronize);
    outside_capture!();
    let streams = STREAMS.lock().unwrap().clone();
    if are_broken(|capture| streams.contains(&(capture.stream, CURRENT.get()))) {
        return 900;
    }
    waits_for(CURRENT.get());
    0
}

/// Ends the process: what a real driver does is undefined, or never ends.
fn undefined(what: &str) -> ! {
    eprintln!("the fake driver: {what}");
    std::process::abort()
}

/// `CUipcMemHandle`: here the address.
#[repr(C)]
pub struct IpcHandle([u8; 64]);

#[no_mangle]
pub extern "C" fn cuIpcGetMemHandle(handle: &mut IpcHandle, address: u64) -> Code {
    counted!(cuIpcGetMemHandle);
    handle.0[..8].copy_from_slice(&address.to_le_bytes());
    0
}

#[no_mangle]
pub extern "C" fn cuIpcOpenMemHandle_v2(address: &mut u64, handle: IpcHandle, flags: u32) -> Code {
    counted!(cuIpcOpenMemHandle_v2);
    *address = u64::from_le_bytes(handle.0[..8].try_into().unwrap());
    let mut machine = MACHINE.lock().unwrap();
    let machine = machine.get_or_insert_default();
    if flags != 1 || !machine.owners.contains_key(address) {
        return 1;
    }
    *machine.opened.entry(*address).or_default() += 1;
    0
}

#[no_mangle]
pub extern "C" fn cuIpcCloseMemHandle(address: u64) -> Code {
    counted!(cuIpcCloseMemHandle);
    outside_capture!();
    let mut machine = MACHINE.lock().unwrap();
    let opened = &mut machine.get_or_insert_default().opened;
    match opened.get_mut(&address) {
        Some(1) => drop(opened.remove(&address)),
        Some(count) => *count -= 1,
        None => undefined("memory was closed that is not open"),
    }
    0
}

#[no_mangle]
pub extern "C" fn cuMemGetAddressRange_v2(base: &mut u64, bytes: &mut usize, address: u64) -> Code {
    counted!(cuMemGetAddressRange_v2);
    (*base, *bytes) = (address >> 20 << 20, 1 << 20);
    0
}

// In a capture a copy from or to pageable memory keeps an address of the host that may be gone at the replay.

#[no_mangle]
pub extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u32, bytes: usize, stream: Handle) -> Code {
    counted!(cuMemcpyHtoDAsync_v2);
    outside_capture!();
    if !remembers() || bytes > 4 * SMALL || bytes % 4 != 0 {
        return 0;
    }
    let words = (0..bytes / 4).map(|at| unsafe { from.add(at).read_unaligned() }).collect();
    give(stream, &[to], Step::Write { to, words })
}

#[no_mangle]
pub extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u32, from: u64, bytes: usize, _: Handle) -> Code {
    counted!(cuMemcpyDtoHAsync_v2);
    outside_capture!();
    if !remembers() || bytes > 4 * SMALL || bytes % 4 != 0 {
        return 0;
    }
    let mut machine = MACHINE.lock().unwrap();
    let machine = machine.get_or_insert_default();
    if !machine.may_use(from) {
        return 1;
    }
    for at in 0..bytes / 4 {
        let word = machine.words.get(&(from + 4 * at as u64)).copied().unwrap_or(0);
        unsafe { to.add(at).write_unaligned(word) };
    }
    0
}

#[no_mangle]
pub extern "C" fn cuMemGetInfo_v2(free: &mut usize, total: &mut usize) -> Code {
    counted!(cuMemGetInfo_v2);
    (*free, *total) = (1 << 20, 1 << 21);
    0
}

#[no_mangle]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    outside_capture!();
    let start = Instant::now();
    while is_behind(Some(stream), None) {
        // A real wait would never end.
        if start.elapsed() > Duration::from_secs(20) {
            return 999;
        }
        thread::sleep(Duration::from_millis(1));
    }
    tell();
    number("synchronize").unwrap_or(0)
}

/// Not counted, as the wait is not: the library asks before it waits.
#[no_mangle]
pub extern "C" fn cuStreamIsCapturing(stream: Handle, status: &mut u32) -> Code {
    let captures = CAPTURES.lock().unwrap();
    let found = captures.iter().find(|capture| capture.stream == stream);
    *status = found.map_or(0, |capture| 1 + u32::from(capture.broken));
    0
}

#[no_mangle]
pub extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: u32) -> Code {
    counted!(cuStreamBeginCapture_v2);
    let thread = thread::current().id();
    let (nodes, broken) = (0, false);
    CAPTURES.lock().unwrap().push(Capture { stream, mode, thread, nodes, broken });
    0
}

#[no_mangle]
pub extern "C" fn cuStreamEndCapture(stream: Handle, graph: &mut Handle) -> Code {
    counted!(cuStreamEndCapture);
    let mut captures = CAPTURES.lock().unwrap();
    let Some(at) = captures.iter().position(|capture| capture.stream == stream) else {
        return 401;
    };
    let capture = captures.remove(at);
    *graph = 0;
    if capture.broken {
        return 901;
    }
    *graph = fresh();
    GRAPHS.lock().unwrap().push((*graph, capture.nodes));
    0
}

#[no_mangle]
pub extern "C" fn cuGraphGetNodes(graph: Handle, _: Handle, count: &mut usize) -> Code {
    counted!(cuGraphGetNodes);
    let graphs = GRAPHS.lock().unwrap();
    *count = graphs.iter().find(|(made, _)| *made == graph).map_or(0, |(_, nodes)| *nodes);
    0
}

#[no_mangle]
pub extern "C" fn cuMemsetD8Async(to: u64, byte: u8, bytes: usize, stream: Handle) -> Code {
    counted!(cuMemsetD8Async);
    if !remembers() || bytes > 4 * SMALL || bytes % 4 != 0 {
        return enqueue(stream);
    }
    give(stream, &[to], Step::Fill { to, word: u32::from_ne_bytes([byte; 4]), count: bytes as u64 / 4 })
}

#[no_mangle]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    counted!(cuMemcpyDtoDAsync_v2);
    let count = (bytes / 4).min(SMALL) as u64;
    give(stream, &[to, from], Step::Copy { to, from, count })
}

/// The modules and functions, each with its context.
static CODE_OF: Mutex<Vec<(Handle, Handle)>> = Mutex::new(Vec::new());

/// The context of a module or a function.
fn context_of(handle: Handle) -> Option<Handle> {
    let of = CODE_OF.lock().unwrap();
    of.iter().find(|(made, _)| *made == handle).map(|(_, context)| *context)
}

#[no_mangle]
pub extern "C" fn cuModuleLoadDataEx(
    module: &mut Handle,
    image: *const c_char,
    _: u32,
    _: Handle,
    values: &'static mut Values,
) -> Code {
    counted!(cuModuleLoadDataEx);
    outside_capture!();
    if let Some(code) = number("load") {
        return code;
    }
    // A text begins with a printed character. Machine code does not.
    let first = unsafe { *image } as u8;
    if first.is_ascii_graphic() {
        let text = unsafe { CStr::from_ptr(image) };
        if let Some(words) = complaint(&text.to_string_lossy()) {
            values.errors[..28].copy_from_slice(words);
            return 218;
        }
    }
    *module = fresh();
    CODE_OF.lock().unwrap().push((*module, CURRENT.get()));
    0
}

#[no_mangle]
pub extern "C" fn cuModuleGetFunction(function: &mut Handle, module: Handle, _: Handle) -> Code {
    counted!(cuModuleGetFunction);
    outside_capture!();
    let Some(context) = context_of(module) else {
        return 400;
    };
    *function = fresh();
    CODE_OF.lock().unwrap().push((*function, context));
    0
}

/// `CUlaunchConfig`, as far as it is read.
#[repr(C)]
pub struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: Handle,
    attributes: *const Attribute,
    attribute_count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
pub struct Attribute {
    id: u32,
    pad: u32,
    value: [u32; 16],
}

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
const COOPERATIVE: u32 = 2;

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const BEGINS_EARLY: u32 = 6;

#[no_mangle]
pub extern "C" fn cuLaunchKernelEx(config: &Config, function: Handle, _: Handle, _: Handle) -> Code {
    counted!(cuLaunchKernelEx);
    let attributes = (0..config.attribute_count as usize)
        .map(|at| unsafe { &*config.attributes.add(at) });
    let has = |id: u32| {
        let mut attributes = attributes.clone();
        attributes.any(|attribute: &Attribute| (attribute.id, attribute.value[0]) == (id, 1))
    };
    if has(COOPERATIVE) {
        // Nor is this one: the number of launches whose blocks run at once. The driver refuses more blocks than the device holds.
        counted!(launches_at_once);
        let blocks: u32 = config.grid.iter().product();
        let threads: u32 = config.block.iter().product();
        let each = (2048 / threads).min(233_472 / (config.shared_bytes + 1024));
        if blocks > 132 * each {
            return 720;
        }
    }
    if has(BEGINS_EARLY) {
        // Not a function of the driver's: the number of launches that may begin before the one before has ended.
        counted!(launches_that_begin_early);
    }
    if scene("grids") && config.grid != [1; 3] {
        // Nor is this one: the number of launches of several blocks. Laws compare all counts, so one scene alone has it.
        counted!(launches_of_several_blocks);
    }
    let current = CURRENT.get();
    let streams = STREAMS.lock().unwrap();
    let stream = streams.iter().find(|(made, _)| *made == config.stream);
    // A default stream is that of the current context.
    let of_stream = stream.map_or(current, |(_, context)| *context);
    if context_of(function) != Some(current) || of_stream != current {
        return 400;
    }
    drop(streams);
    give(config.stream, &[], Step::Launch { context: current })
}

/// The error log of the link that was made last.
static LOG: Mutex<Option<&'static mut [u8; 64 << 10]>> = Mutex::new(None);

/// The values of the options, in the order of the keys: two logs with their lengths, and more.
#[repr(C)]
pub struct Values {
    info: &'static mut [u8; 64 << 10],
    info_bytes: usize,
    errors: &'static mut [u8; 64 << 10],
}

#[no_mangle]
pub extern "C" fn cuLinkCreate_v2(
    _: u32,
    _: Handle,
    values: &'static mut Values,
    link: &mut Handle,
) -> Code {
    counted!(cuLinkCreate_v2);
    *LOG.lock().unwrap() = Some(&mut *values.errors);
    *link = 0x3000;
    0
}

#[no_mangle]
pub extern "C" fn cuLinkAddData_v2(
    _: Handle,
    _: u32,
    text: *const u8,
    bytes: usize,
    _: Handle,
    _: u32,
    _: Handle,
    _: Handle,
) -> Code {
    counted!(cuLinkAddData_v2);
    if scene("silent") {
        return 218;
    }
    let text = unsafe { std::slice::from_raw_parts(text, bytes) };
    let text = String::from_utf8_lossy(text);
    let ignores = text.lines().any(|line| line.trim_start().starts_with("setmaxnreg."));
    let ignored = ignores.then_some(b"(C7504) 'setmaxnreg' ignored");
    let Some(words) = ignored.or_else(|| complaint(&text)) else { return 0 };
    if let Some(log) = LOG.lock().unwrap().as_mut() {
        log[..28].copy_from_slice(words);
    }
    218
}

/// The code, which says by its first byte how often it was made.
static CODE: [u8; 4] = [7; 4];

#[no_mangle]
pub extern "C" fn cuLinkComplete(
    _: Handle,
    code: &mut &'static [u8; 4],
    bytes: &mut usize,
) -> Code {
    counted!(cuLinkComplete);
    (*code, *bytes) = (&CODE, 4);
    0
}

#[no_mangle]
pub extern "C" fn cuFuncGetAttribute(value: &mut i32, attribute: u32, _: Handle) -> Code {
    counted!(cuFuncGetAttribute);
    *value = match attribute {
        0 => 1024,
        4 => 32,
        _ => 0,
    };
    0
}

/// A context of its own, as `cuCtxCreate` makes them.
#[no_mangle]
pub extern "C" fn cuCtxCreate_v4(context: &mut Handle, _: Handle, _: u32, _: i32) -> Code {
    counted!(cuCtxCreate_v4);
    *context = fresh();
    0
}

#[no_mangle]
pub extern "C" fn cuEventCreate(event: &mut Handle, _: u32) -> Code {
    counted!(cuEventCreate);
    *event = fresh();
    0
}

/// A step of a stream takes a microsecond.
#[no_mangle]
pub extern "C" fn cuEventElapsedTime(milliseconds: &mut f32, start: Handle, end: Handle) -> Code {
    counted!(cuEventElapsedTime);
    let machine = MACHINE.lock().unwrap();
    let steps = |event: Handle| {
        let reached = machine.as_ref().and_then(|machine| machine.reached.get(&event));
        reached.copied().unwrap_or(0) as f32
    };
    *milliseconds = (steps(end) - steps(start)) / 1000.0;
    0
}

makes! {
    cuGraphInstantiateWithFlags(&mut Handle, Handle, u64);
}

succeeds! {
    cuEventDestroy_v2(Handle);
    cuGraphLaunch(Handle, Handle);
    cuGraphDestroy(Handle);
    cuGraphExecDestroy(Handle);
    cuLinkDestroy(Handle);
}

succeeds_outside_capture! {
    cuEventSynchronize(Handle);
    cuModuleUnload(Handle);
    cuFuncSetAttribute(Handle, u32, i32);
}

/// Tells what it was given: of a tensor of rank 2, in words that the test reads.
#[cfg(not(without_tensor_maps))]
#[no_mangle]
pub extern "C" fn cuTensorMapEncodeTiled(
    encoded: &mut [u64; 16],
    element: u32,
    rank: u32,
    address: u64,
    dims: &[u64; 2],
    stride: &u64,
    extents: &[u32; 2],
    steps: &[u32; 2],
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Code {
    counted!(cuTensorMapEncodeTiled);
    let small = [extents[0], extents[1], steps[0], steps[1]].map(u64::from);
    let modes = [interleave, swizzle, promotion, fill].map(u64::from);
    let head = [u64::from(element), u64::from(rank), address, dims[0], dims[1], *stride];
    let all = head.into_iter().chain(small).chain(modes);
    encoded.iter_mut().zip(all).for_each(|(word, given)| *word = given);
    0
}

/// The same of a tensor of rank 4.
#[cfg(not(without_tensor_maps))]
#[no_mangle]
pub extern "C" fn cuTensorMapEncodeIm2col(
    encoded: &mut [u64; 16],
    element: u32,
    rank: u32,
    _: u64,
    dims: &[u64; 4],
    strides: &[u64; 3],
    lower: &[i32; 2],
    upper: &[i32; 2],
    channels: u32,
    pixels: u32,
    steps: &[u32; 4],
    interleave: u32,
    swizzle: u32,
    promotion: u32,
    fill: u32,
) -> Code {
    counted!(cuTensorMapEncodeIm2col);
    let corners = [lower[0], lower[1], upper[0], upper[1]].map(|corner| corner as u64);
    let small = [channels, pixels, steps[1], steps[2]].map(u64::from);
    let modes = [interleave, swizzle, promotion, fill].map(u64::from);
    let head = [u64::from(element), u64::from(rank), dims[1], strides[1]];
    let all = head.into_iter().chain(corners).chain(small).chain(modes);
    encoded.iter_mut().zip(all).for_each(|(word, given)| *word = given);
    0
}
