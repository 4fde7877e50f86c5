//! A library with NCCL's names that does nothing but answer, as the variable `FAKE_NCCL` says: `old`, `refuses` (every
//! collective, with its arguments as the last error), `slow` (collectives stay in progress), or nothing.
//!
//! A communicator is in progress until all ranks of its identifier are there, in this process. Every call that ends a
//! communicator is a line of the file that `FAKE_CUDA_CALLS` names, with `.nccl` behind it.
#![allow(non_snake_case)]

use std::ffi::{c_char, CString};
use std::io::Write;
use std::sync::Mutex;

type Code = u32;

fn scene(name: &str) -> bool {
    std::env::var("FAKE_NCCL").is_ok_and(|said| said == name)
}

/// A communicator.
struct Rank {
    id: [u8; 128],
    rank: i32,
    ranks: i32,
    is_slow: bool,
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
    all.push(Rank { id: id.0, rank, ranks, is_slow: false });
    *handle = all.len();
    7
}

#[no_mangle]
pub extern "C" fn ncclCommGetAsyncError(handle: usize, state: &mut Code) -> Code {
    let all = RANKS.lock().unwrap();
    let own = &all[handle - 1];
    let come = all.iter().filter(|one| one.id == own.id).count();
    *state = if own.is_slow || come < own.ranks as usize { 7 } else { 0 };
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
    ends("abort", handle)
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

/// A collective: refused with its arguments, or in progress for ever, or begun.
fn begins(handle: usize, text: String) -> Code {
    let mut all = RANKS.lock().unwrap();
    let own = &mut all[handle - 1];
    if scene("refuses") {
        return fails(4, format!("rank {}: {text}", own.rank));
    }
    own.is_slow = scene("slow");
    tell(&format!("{text} of rank {}, groups {}", own.rank, OPEN.lock().unwrap()));
    7
}

#[no_mangle]
pub extern "C" fn ncclAllGather(from: u64, to: u64, count: usize, ty: i32, handle: usize, _: usize) -> Code {
    begins(handle, format!("gather {count} of type {ty}, {}", to.wrapping_sub(from) as i64))
}

#[no_mangle]
pub extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    ty: i32,
    op: i32,
    handle: usize,
    _: usize,
) -> Code {
    begins(handle, format!("reduce {count} of type {ty} by {op}, {}", to.wrapping_sub(from) as i64))
}

#[no_mangle]
pub extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    ty: i32,
    op: i32,
    handle: usize,
    _: usize,
) -> Code {
    begins(handle, format!("scatter {count} of type {ty} by {op}, {}", to.wrapping_sub(from) as i64))
}
