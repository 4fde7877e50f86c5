//! A library with NCCL's names that does nothing but answer, as the variable `FAKE_NCCL` says: `old`, `refuses` (every
//! collective, with its arguments as the last error), `slow` (collectives stay in progress), `breaks` (an error in the
//! background after the first collective), or nothing.
//!
//! Collectives are work of the fake driver's streams: one runs when the streams of all its ranks have come to it. An
//! all-gather copies its elements; sums are of what kernels compute, and no kernel of the fake driver computes anything.
//!
//! An abort waits for all streams of its device, as NCCL's does: it frees memory.
//!
//! A communicator is in progress until all ranks of its identifier are there, in this process. Every call that ends a
//! communicator is a line of the file that `FAKE_CUDA_CALLS` names, with `.nccl` behind it.
#![allow(non_snake_case)]

use std::ffi::{c_char, c_void, CString};
use std::io::Write;
use std::sync::{Mutex, OnceLock};

type Code = u32;

fn scene(name: &str) -> bool {
    std::env::var("FAKE_NCCL").is_ok_and(|said| said == name)
}

/// A communicator.
struct Rank {
    /// The context in which it was made.
    context: usize,
    id: [u8; 128],
    rank: i32,
    ranks: i32,
    is_slow: bool,
    /// The answers until there is an error in the background.
    breaks: Option<u32>,
    /// The collectives that it has begun.
    begun: u64,
}

/// All communicators; a handle is one more than the index.
static RANKS: Mutex<Vec<Rank>> = Mutex::new(Vec::new());

/// The last error.
static LAST: Mutex<Option<CString>> = Mutex::new(None);

fn fails(code: Code, text: String) -> Code {
    *LAST.lock().unwrap() = CString::new(text).ok();
    code
}

fn tell(line: &str) {
    let Ok(file) = std::env::var("FAKE_CUDA_CALLS") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file + ".nccl");
    writeln!(file.unwrap(), "{line}").unwrap();
}

#[no_mangle]
pub extern "C" fn ncclGetVersion(version: &mut i32) -> Code {
    *version = if scene("old") { 21205 } else { 22703 };
    0
}

#[repr(C)]
pub struct Id([u8; 128]);

#[no_mangle]
pub extern "C" fn ncclGetUniqueId(id: &mut Id) -> Code {
    static NEXT: Mutex<u8> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap();
    *next += 1;
    id.0 = [*next; 128];
    0
}

#[no_mangle]
pub extern "C" fn ncclGetErrorString(code: Code) -> *const c_char {
    let text: &'static [u8] = match code {
        4 => b"invalid argument\0",
        5 => b"invalid usage\0",
        6 => b"remote process exited or there was a network error\0",
        _ => b"unknown result code\0",
    };
    text.as_ptr().cast()
}

#[no_mangle]
pub extern "C" fn ncclGetLastError(_: usize) -> *const c_char {
    let last = LAST.lock().unwrap();
    // The text stays until the next error.
    last.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
}

#[no_mangle]
pub extern "C" fn ncclCommInitRankConfig(
    handle: &mut usize,
    ranks: i32,
    id: Id,
    rank: i32,
    config: &Config,
) -> Code {
    if (config.size, config.magic, config.version, config.blocking) != (24, 0xcafebeef, 21400, 0) {
        return fails(4, "the settings are others".to_string());
    }
    let mut all = RANKS.lock().unwrap();
    if all.iter().any(|one| one.id == id.0 && one.rank == rank) {
        return fails(5, format!("rank {rank} is there already"));
    }
    let context = driver().map_or(0, |driver| (driver.context)());
    all.push(Rank { context, id: id.0, rank, ranks, is_slow: false, breaks: None, begun: 0 });
    *handle = all.len();
    7
}

#[no_mangle]
pub extern "C" fn ncclCommGetAsyncError(handle: usize, state: &mut Code) -> Code {
    let mut all = RANKS.lock().unwrap();
    let id = all[handle - 1].id;
    let come = all.iter().filter(|one| one.id == id).count();
    let own = &mut all[handle - 1];
    let is_broken = own.breaks == Some(0);
    own.breaks = own.breaks.map(|left| left.saturating_sub(1));
    *state = match () {
        () if is_broken => fails(6, format!("rank {}: a rank is gone", own.rank)),
        () if own.is_slow || come < own.ranks as usize => 7,
        () => 0,
    };
    0
}

fn ends(name: &str, handle: usize) -> Code {
    let mut all = RANKS.lock().unwrap();
    let own = &mut all[handle - 1];
    own.is_slow = false;
    tell(&format!("{name} {}", own.rank));
    0
}

#[no_mangle]
pub extern "C" fn ncclCommFinalize(handle: usize) -> Code {
    ends("finalize", handle)
}

#[no_mangle]
pub extern "C" fn ncclCommDestroy(handle: usize) -> Code {
    ends("destroy", handle)
}

#[no_mangle]
pub extern "C" fn ncclCommAbort(handle: usize) -> Code {
    let (id, rank, context) = {
        let all = RANKS.lock().unwrap();
        let own = &all[handle - 1];
        (own.id[0], own.rank, own.context)
    };
    let told = ends("abort", handle);
    if let Some(driver) = driver() {
        (driver.leave)(u64::from(id) << 32 | rank as u64);
        (driver.settle)(context);
    }
    told
}

/// The groups that are open.
static OPEN: Mutex<i32> = Mutex::new(0);

#[no_mangle]
pub extern "C" fn ncclGroupStart() -> Code {
    *OPEN.lock().unwrap() += 1;
    0
}

#[no_mangle]
pub extern "C" fn ncclGroupEnd() -> Code {
    let mut open = OPEN.lock().unwrap();
    *open -= 1;
    if *open < 0 { fails(5, "no group is open".to_string()) } else { 7 }
}

/// What the fake driver has for collectives.
struct FakeDriver {
    join: extern "C" fn(stream: usize, id: u64, ranks: u64, from: u64, to: u64, words: u64) -> Code,
    leave: extern "C" fn(rank: u64) -> Code,
    settle: extern "C" fn(context: usize) -> Code,
    context: extern "C" fn() -> usize,
}

extern "C" {
    fn dlopen(name: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The fake driver, if it is the one that is loaded.
fn driver() -> Option<&'static FakeDriver> {
    static DRIVER: OnceLock<Option<FakeDriver>> = OnceLock::new();
    let find = || unsafe {
        let library = dlopen(c"libcuda.so.1".as_ptr(), 1);
        if library.is_null() {
            return None;
        }
        let names = [c"fakeCollectiveJoin", c"fakeCollectiveLeave", c"fakeContextSettles", c"fakeCurrentContext"];
        let [join, leave, settle, context] = names.map(|name| dlsym(library, name.as_ptr()));
        (!join.is_null()).then(|| FakeDriver {
            join: std::mem::transmute(join),
            leave: std::mem::transmute(leave),
            settle: std::mem::transmute(settle),
            context: std::mem::transmute(context),
        })
    };
    DRIVER.get_or_init(find).as_ref()
}

/// The arguments of a collective.
struct Call {
    handle: usize,
    stream: usize,
    from: u64,
    to: u64,
    /// The words of 32 bits that each rank gives to every other one.
    words: u64,
}

/// A collective: refused with its arguments, or in progress for ever, or begun.
fn begins(call: Call, text: String) -> Code {
    let mut all = RANKS.lock().unwrap();
    let own = &mut all[call.handle - 1];
    let text = format!("{text}, {}", call.to.wrapping_sub(call.from) as i64);
    if scene("refuses") {
        return fails(4, format!("rank {}: {text}", own.rank));
    }
    own.is_slow = scene("slow");
    own.breaks = scene("breaks").then_some(1);
    own.begun += 1;
    tell(&format!("{text} of rank {}, groups {}", own.rank, OPEN.lock().unwrap()));
    let id = u64::from(own.id[0]) << 32 | own.begun;
    let joined = driver().map_or(0, |driver| {
        let slot = own.ranks as u64 | (own.rank as u64) << 32;
        (driver.join)(call.stream, id, slot, call.from, call.to, call.words)
    });
    if joined == 0 { 7 } else { fails(4, "the stream does not take it".to_string()) }
}

/// The bytes of an element of a type.
fn size(ty: i32) -> u64 {
    match ty {
        0 | 1 => 1,
        6 | 9 => 2,
        4 | 5 | 8 => 8,
        _ => 4,
    }
}

#[no_mangle]
pub extern "C" fn ncclAllGather(from: u64, to: u64, count: usize, ty: i32, handle: usize, stream: usize) -> Code {
    let words = count as u64 * size(ty) / 4;
    begins(Call { handle, stream, from, to, words }, format!("gather {count} of type {ty}"))
}

#[no_mangle]
pub extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    ty: i32,
    op: i32,
    handle: usize,
    stream: usize,
) -> Code {
    begins(Call { handle, stream, from, to, words: 0 }, format!("reduce {count} of type {ty} by {op}"))
}

#[no_mangle]
pub extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    ty: i32,
    op: i32,
    handle: usize,
    stream: usize,
) -> Code {
    begins(Call { handle, stream, from, to, words: 0 }, format!("scatter {count} of type {ty} by {op}"))
}
