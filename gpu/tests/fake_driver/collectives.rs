//! NCCL: communicators that begin and end, collectives with their arguments, and libraries that refuse or are missing.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs};

use colex_gpu::cuda::{Communicator, NcclElement, NcclId};
use colex_gpu::{Device, DeviceError};
use half::{bf16, f16};

use super::library;
use super::{said, sentence};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

/// Builds a fake NCCL beside the driver.
///
/// # Errors
///
/// What stands in the way, as of [`library::build`].
fn build_nccl(folder: &Path) -> Result<(), String> {
    let text = folder.join("nccl.rs");
    let written = fs::write(&text, include_str!("nccl.rs"));
    written.map_err(|error| format!("{} cannot be written: {error}", text.display()))?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition", "2021", "--crate-type", "cdylib"]);
    rustc.arg("-o").arg(folder.join("libnccl.so.2")).arg(text);
    let output = rustc.output();
    let output = output.map_err(|error| format!("rustc cannot be started: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// What `act` says with a fake NCCL beside the fake driver.
pub(super) fn with_nccl(test: &str, scene: &str, act: impl FnOnce() -> String) -> String {
    static BUILT: OnceLock<()> = OnceLock::new();
    if env::var_os("FAKE_CUDA_TEST").is_none() {
        BUILT.get_or_init(|| build_nccl(&super::library(true)).unwrap());
        let _ = fs::remove_file(lines(&super::library(true).join(test.replace("::", "-"))));
    }
    said(test, scene, act)
}

/// The file with the lines of the fake NCCL.
fn lines(calls: &Path) -> std::path::PathBuf {
    let mut name = calls.as_os_str().to_owned();
    name.push(".nccl");
    name.into()
}

/// The lines of the fake NCCL so far.
pub(super) fn told() -> String {
    let calls = env::var_os(library::CALLS).expect("the variable names the file with the counts");
    let text = fs::read_to_string(lines(calls.as_ref())).unwrap_or_default();
    text.lines().collect::<Vec<_>>().join("; ")
}

fn devices() -> [Device; 2] {
    [0, 1].map(|ordinal| Device::gpu(ordinal).unwrap())
}

#[test]
fn all_ranks_of_one_process() {
    let act = || {
        let devices = devices();
        let ranks = Communicator::all(&devices, LONG).unwrap();
        assert_eq!(ranks[1].rank(), 1);
        assert_eq!(ranks[1].ranks(), 2);
        assert!(ranks[1].device().is_same_device(&devices[1]));
        let parts = devices
            .each_ref()
            .map(|device| device.zeros::<bf16>(8).unwrap());
        let all = devices
            .each_ref()
            .map(|device| device.zeros::<bf16>(16).unwrap());
        let grouped: Result<(), DeviceError> = Communicator::group(&ranks, || {
            for (rank, one) in ranks.iter().enumerate() {
                one.all_gather(&devices[rank], &parts[rank], &all[rank])?;
            }
            Ok(())
        });
        grouped.unwrap();
        drop(ranks);
        told()
    };
    let apart = 2 << 20;
    assert_eq!(
        with_nccl("collectives::all_ranks_of_one_process", "peers:2", act),
        format!(
            "gather 8 of type 9, {apart} of rank 0, groups 1; gather 8 of type 9, {apart} of rank 1, groups 1; finalize 0; \
             destroy 0; finalize 1; destroy 1"
        )
    );
}

#[test]
fn one_rank_in_each_thread() {
    let act = || {
        let id = NcclId::new().unwrap();
        let received = NcclId::from_bytes(id.as_bytes()).unwrap();
        let threads = [0, 1].map(|rank| {
            std::thread::spawn(move || {
                let device = Device::gpu(rank).unwrap();
                Communicator::new(&device, &received, rank, 2, LONG).map(|made| made.rank())
            })
        });
        let ranks = threads.map(|thread| thread.join().unwrap().unwrap());
        format!("{ranks:?}")
    };
    assert_eq!(
        with_nccl("collectives::one_rank_in_each_thread", "peers:2", act),
        "[0, 1]"
    );
}

/// The arguments of the collectives, for every type.
#[test]
fn collectives_and_their_arguments() {
    fn each<T: NcclElement>(device: &Device, rank: &Communicator) {
        let buffer = device.zeros::<T>(4).unwrap();
        let to = buffer.slice(1..3).unwrap();
        let one = buffer.slice(..2).unwrap();
        rank.all_gather(device, &one, &one).unwrap();
        rank.all_reduce(device, &one, &to).unwrap();
        rank.reduce_scatter(device, &to, &one).unwrap();
    }
    let act = || {
        let device = super::device();
        let mut ranks = Communicator::all(std::slice::from_ref(&device), LONG).unwrap();
        each::<f32>(&device, &ranks[0]);
        each::<f16>(&device, &ranks[0]);
        each::<bf16>(&device, &ranks[0]);
        each::<f64>(&device, &ranks[0]);
        each::<i64>(&device, &ranks[0]);
        each::<u64>(&device, &ranks[0]);
        each::<i32>(&device, &ranks[0]);
        each::<u32>(&device, &ranks[0]);
        each::<i8>(&device, &ranks[0]);
        each::<u8>(&device, &ranks[0]);
        ranks.remove(0).abort();
        told()
    };
    let of = |ty: i32, bytes: i32| {
        format!(
            "gather 2 of type {ty}, 0 of rank 0, groups 0; reduce 2 of type {ty} by 0, {bytes} of rank 0, groups 0; scatter \
             2 of type {ty} by 0, -{bytes} of rank 0, groups 0; "
        )
    };
    assert_eq!(
        with_nccl(
            "collectives::collectives_and_their_arguments",
            "peers:1",
            act
        ),
        [
            of(7, 4),
            of(6, 2),
            of(9, 2),
            of(8, 8),
            of(4, 8),
            of(5, 8),
            of(2, 4),
            of(3, 4),
            of(0, 1),
            of(1, 1),
            "abort 0".to_string()
        ]
        .concat()
    );
}

#[test]
fn collectives_are_checked() {
    let act = || {
        let [own, other] = devices();
        let ranks = Communicator::all(&[own.clone(), other.clone()], LONG).unwrap();
        let [four, eight] = [4, 8].map(|length| own.zeros::<f32>(length).unwrap());
        let there = other.zeros::<f32>(8).unwrap();
        [
            sentence(ranks[0].all_gather(&own, &eight, &four)),
            sentence(ranks[0].reduce_scatter(&own, &four, &four)),
            sentence(ranks[0].all_reduce(&own, &four, &eight)),
            sentence(ranks[0].all_gather(&own, &four, &there)),
            sentence(ranks[0].all_gather(&other, &four, &eight)),
            sentence(Communicator::new(&own, &NcclId::new().unwrap(), 2, 2, LONG)),
            sentence(Communicator::all(
                &[Device::simulator(colex_atom::Arch::Sm90a)],
                LONG,
            )),
        ]
        .join("; ")
    };
    assert_eq!(
        with_nccl("collectives::collectives_are_checked", "peers:2", act),
        "the buffer of the gathered elements has 16 elements, and 4 were given; the buffer of the terms has 8 elements, and \
         4 were given; the buffer of the sums has 4 elements, and 8 were given; the buffer to be written is on one Fake \
         and is used with another: all that a call uses must be on one device; the stream is on one Fake and is used with \
         another: all that a call uses must be on one device; rank 2 of a communicator of 2 ranks, numbered from 0; the simulator of sm_90a does not take part in \
         NCCL's collectives: they are kernels of a GPU; several simulated devices are `colex_sim::Ranks`"
    );
}

/// A rank that never comes: an error after the time, and the communicator is aborted once.
#[test]
fn a_rank_that_never_comes() {
    let act = || {
        let start = Instant::now();
        let id = NcclId::new().unwrap();
        let error = Communicator::new(&super::device(), &id, 0, 2, SHORT).unwrap_err();
        assert!(error.is_deadline());
        assert!(start.elapsed() >= SHORT && start.elapsed() < LONG);
        format!("{error}; {}", told())
    };
    assert_eq!(
        with_nccl("collectives::a_rank_that_never_comes", "peers:1", act),
        "the communicator on Fake was not done after 30ms; abort 0"
    );
}

#[test]
fn a_collective_that_never_begins() {
    let act = || {
        let device = super::device();
        let ranks = Communicator::all(std::slice::from_ref(&device), SHORT).unwrap();
        let buffer = device.zeros::<f32>(4).unwrap();
        let reduce = || sentence(ranks[0].all_reduce(&device, &buffer, &buffer));
        let [first, second] = [(); 2].map(|()| reduce());
        drop(ranks);
        format!("{first}; {second}; {}", told())
    };
    assert_eq!(
        with_nccl(
            "collectives::a_collective_that_never_begins",
            "peers:1/slow",
            act
        ),
        "a collective of the communicator on Fake was not done after 30ms; the communicator has failed: a collective of the \
         communicator on Fake was not done after 30ms; reduce 4 of type 7 by 0, 0 of rank 0, groups 0; abort 0"
    );
}

#[test]
fn nccls_own_words() {
    let act = || {
        let device = super::device();
        let id = NcclId::new().unwrap();
        let first = Communicator::new(&device, &id, 0, 1, LONG).unwrap();
        let again = sentence(Communicator::new(&device, &id, 0, 1, LONG));
        let buffer = device.zeros::<f32>(4).unwrap();
        let refused = sentence(first.all_gather(&device, &buffer, &buffer));
        drop(first);
        format!("{again}; {refused}; {}", told())
    };
    assert_eq!(
        with_nccl("collectives::nccls_own_words", "peers:1/refuses", act),
        "ncclCommInitRankConfig returned invalid usage (5): rank 0 is there already; ncclAllGather returned invalid argument \
         (4): rank 0: gather 4 of type 7, 0; abort 0"
    );
}

/// What went wrong after a collective had begun.
#[test]
fn an_error_in_the_background() {
    let act = || {
        let device = super::device();
        let ranks = Communicator::all(std::slice::from_ref(&device), LONG).unwrap();
        ranks[0].check().unwrap();
        let buffer = device.zeros::<f32>(4).unwrap();
        let begun = sentence(ranks[0].all_reduce(&device, &buffer, &buffer));
        let checked = sentence(ranks[0].check());
        drop(ranks);
        format!("{begun}; {checked}; {}", told())
    };
    assert_eq!(
        with_nccl(
            "collectives::an_error_in_the_background",
            "peers:1/breaks",
            act
        ),
        "no error; ncclCommGetAsyncError returned remote process exited or there was a network error (6): rank 0: a rank is \
         gone; reduce 4 of type 7 by 0, 0 of rank 0, groups 0; abort 0"
    );
}

#[test]
fn an_old_nccl() {
    let act = || sentence(NcclId::new());
    assert_eq!(
        with_nccl("collectives::an_old_nccl", "peers:1/old", act),
        "NCCL 2.12.5; NCCL 2.14.0 or newer is needed"
    );
}

/// Without the library there is an error. Where the machine has one, there is an identifier.
#[test]
fn no_nccl() {
    match NcclId::new() {
        Ok(id) => assert_eq!(id.as_bytes().len(), 128),
        Err(error) => {
            assert!(error.is_no_nccl());
            assert_eq!(
                error.to_string(),
                "no NCCL was found (libnccl.so.2 or libnccl.so)"
            );
        }
    }
}
