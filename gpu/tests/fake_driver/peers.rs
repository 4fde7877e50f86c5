//! Several devices: access, copies, flags, memory of another process, and waits that end.

use std::time::{Duration, Instant};

use colex_gpu::{Device, DeviceError, ExportedBuffer, Flags};

use super::calls::captured;
use super::library::{counted, shown};
use super::{device, said, sentence};

/// A time that no wait of these tests reaches, and one that several do.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// The devices of the scene.
fn devices<const N: usize>() -> [Device; N] {
    let open = |ordinal| Device::gpu(ordinal).expect("the scene has the device");
    std::array::from_fn(open)
}

#[test]
fn every_device_opens() {
    let act = || {
        let devices = devices::<3>();
        let ordinals = devices.each_ref().map(|device| device.ordinal().unwrap());
        assert!(!devices[0].is_same_device(&devices[2]));
        assert!(devices[1].has_stream_flags().unwrap());
        format!(
            "{} {ordinals:?}; {}",
            Device::gpu_count().unwrap(),
            sentence(Device::gpu(3))
        )
    };
    assert_eq!(
        said("peers::every_device_opens", "peers:3", act),
        "3 [0, 1, 2]; there is no device 3: the driver sees 3, counted from 0"
    );
}

#[test]
fn law_peers_copy_in_each_others_memory_once_they_have_access() {
    let act = || {
        let devices = devices::<4>();
        let mut cases = 0u32;
        for (i, own) in devices.iter().enumerate() {
            for (j, other) in devices.iter().enumerate() {
                let numbers = [i as u32, j as u32, 7];
                let from = own.upload(&numbers).unwrap();
                let to = other.zeros::<u32>(5).unwrap();
                if i != j {
                    // Without the handle that gives access nothing is copied.
                    assert_eq!(
                        sentence(own.enqueue_copy(&to.slice(1..4).unwrap(), &from)),
                        "the buffer to be written is on one Fake and is used with another: all that a call uses must be on one device"
                    );
                    assert!(own.can_access(other).unwrap());
                }
                let there = to.as_peer_of(own).unwrap();
                let again = to.as_peer_of(own).unwrap(); // access twice is no error
                assert_eq!(there.address(), again.address());
                own.enqueue_copy(&there.slice(1..4).unwrap(), &from)
                    .unwrap();
                own.synchronize().unwrap();
                assert_eq!(to.download().unwrap(), [0, numbers[0], numbers[1], 7, 0]);
                // The memory outlives the handle of its own device.
                drop(to);
                assert_eq!(again.download().unwrap()[3], 7);
                cases += 1;
            }
        }
        format!("{cases}")
    };
    let test = "peers::law_peers_copy_in_each_others_memory_once_they_have_access";
    let cases = said(test, "peers:4", act);
    assert_eq!(cases, "16");
    println!("law peers_copy_in_each_others_memory_once_they_have_access: {cases} cases");
}

/// All chains of three of the devices: the last device of a chain has access to the memory, also if it has none to the device between.
#[test]
fn law_a_peer_of_a_peer_has_access_to_the_owner() {
    let act = || {
        let devices = devices::<6>();
        let chain = |[owner, between, last]: [usize; 3]| {
            let [owner, between, last] = [owner, between, last].map(|at| &devices[at]);
            let buffer = owner.upload(&[3u32, 5, 7]).unwrap();
            let there = buffer.as_peer_of(between).unwrap().slice(1..).unwrap();
            let accesses = counted(last, || {
                drop(there.as_peer_of(last)?);
                Ok(())
            });
            let there = there.as_peer_of(last).unwrap();
            assert_eq!(there.address(), buffer.address() + 4);
            assert!(there.device().is_same_device(last));
            // Its own memory is a buffer of its own again, which may be exported.
            assert_eq!(there.export().is_ok(), owner.is_same_device(last));
            drop(buffer);
            let copy = last.zeros::<u32>(2).unwrap();
            last.enqueue_copy(&copy, &there).unwrap();
            last.synchronize().unwrap();
            assert_eq!(copy.download().unwrap(), [5, 7]);
            let accesses = accesses.unwrap();
            accesses.get("cuCtxEnablePeerAccess").copied().unwrap_or(0)
        };
        // No device of these chains has access to one of them before.
        let first = [[0, 1, 2], [3, 4, 5]].map(chain);
        let mut cases = 0;
        for code in 0..27 {
            let asked = chain([1, 3, 9].map(|place| code / place % 3));
            assert!(asked <= 1);
            cases += 1;
        }
        format!("{first:?} {cases}")
    };
    let test = "peers::law_a_peer_of_a_peer_has_access_to_the_owner";
    assert_eq!(said(test, "peers:6", act), "[1, 1] 27");
    println!("law a_peer_of_a_peer_has_access_to_the_owner: 27 cases");
}

/// A handle of a peer costs a question for a capture and a wait for the work of its device when it goes, and the memory is freed once, at the
/// end.
#[test]
fn the_memory_of_a_peer_is_freed_once() {
    let act = || {
        let [own, other] = devices::<2>();
        let buffer = own.zeros::<u32>(4).unwrap();
        let there = buffer.as_peer_of(&other).unwrap();
        let first = counted(&own, || {
            drop(buffer);
            Ok(())
        });
        let last = counted(&own, || {
            drop(there);
            Ok(())
        });
        [first, last]
            .map(|counts| shown(&counts.unwrap()))
            .join("; ")
    };
    assert_eq!(
        said("peers::the_memory_of_a_peer_is_freed_once", "peers:2", act),
        "none; cuCtxSetCurrent 3, cuCtxSynchronize 1, cuMemFree_v2 1"
    );
}

#[test]
fn devices_without_peer_access() {
    let act = || {
        let [own, other] = devices::<2>();
        assert!(!own.can_access(&other).unwrap());
        let error = other.zeros::<u32>(4).unwrap().as_peer_of(&own).unwrap_err();
        assert!(error.is_no_peer_access());
        error.to_string()
    };
    assert_eq!(
        said("peers::devices_without_peer_access", "apart:2", act),
        "device 0 (Fake) cannot access the memory of device 1 (Fake): the driver has no peer access between them"
    );
}

#[test]
fn copies_are_checked() {
    let act = || {
        let device = device();
        let [long, short] = [5, 3].map(|length| device.zeros::<u32>(length).unwrap());
        let lengths = sentence(device.enqueue_copy(&long, &short));
        let simulator = Device::simulator(colex_atom::Arch::Sm90a);
        let peer = sentence(long.as_peer_of(&simulator));
        format!("{lengths}; {peer}")
    };
    assert_eq!(
        said("peers::copies_are_checked", "whole", act),
        "the buffer to be written has 5 elements, and 3 were given; the simulator of sm_90a does not share memory with \
         another device: its memory is its own; several simulated devices are `colex_sim::Ranks`"
    );
}

/// A copy and its flag on one device, the wait for it on the other, in either order.
#[test]
fn law_a_wait_ends_once_its_round_is_set() {
    let act = || {
        let [own, other] = devices::<2>();
        let flags = Flags::new(&other, 3).unwrap();
        let theirs = flags.as_peer_of(&own).unwrap();
        let mut cases = 0;
        for round in 1..=20u32 {
            for index in 0..3 {
                let wait = || flags.wait(&other, index, round).unwrap();
                let set = || theirs.set(&own, index, round).unwrap();
                if round % 2 == 0 {
                    set();
                    wait();
                } else {
                    wait();
                    let event = other.record().unwrap();
                    assert!(!event.is_reached().unwrap());
                    assert!(
                        other
                            .synchronize_within(Duration::ZERO)
                            .unwrap_err()
                            .is_deadline()
                    );
                    set();
                    assert!(event.is_reached().unwrap());
                }
                other.synchronize_within(LONG).unwrap();
                // Earlier rounds are over.
                flags.wait(&other, index, 1).unwrap();
                other.synchronize_within(LONG).unwrap();
                cases += 1;
            }
        }
        assert_eq!(flags.buffer().download().unwrap(), [20; 3]);
        format!("{cases}")
    };
    let cases = said(
        "peers::law_a_wait_ends_once_its_round_is_set",
        "peers:2",
        act,
    );
    assert_eq!(cases, "60");
    println!("law a_wait_ends_once_its_round_is_set: {cases} cases");
}

/// What a stream does after a wait happens after it.
#[test]
fn work_after_a_wait_waits() {
    let act = || {
        let [own, other] = devices::<2>();
        let flags = Flags::new(&own, 1).unwrap();
        let (from, to) = (
            own.upload(&[4u32, 5]).unwrap(),
            own.zeros::<u32>(2).unwrap(),
        );
        let copies = own.on_new_stream().unwrap();
        flags.wait(&copies, 0, 1).unwrap();
        copies.enqueue_copy(&to, &from).unwrap();
        let before = to.download().unwrap();
        flags.as_peer_of(&other).unwrap().set(&other, 0, 1).unwrap();
        copies.synchronize_within(LONG).unwrap();
        format!("{before:?} {:?}", to.download().unwrap())
    };
    assert_eq!(
        said("peers::work_after_a_wait_waits", "peers:2", act),
        "[0, 0] [4, 5]"
    );
}

/// A peer that never comes: an error after the time, and the streams end once the flags are released.
#[test]
fn a_peer_that_never_comes() {
    let act = || {
        let device = device();
        let flags = Flags::new(&device, 4).unwrap();
        flags.wait(&device, 2, Flags::LAST_ROUND).unwrap();
        let event = device.record().unwrap();
        let start = Instant::now();
        let stream = sentence(device.synchronize_within(SHORT));
        let at_event = sentence(event.wait_within(SHORT));
        assert!(start.elapsed() >= 2 * SHORT && start.elapsed() < LONG);
        flags.release(LONG).unwrap();
        device.synchronize_within(LONG).unwrap();
        assert_eq!(flags.buffer().download().unwrap(), [Flags::RELEASED; 4]);
        let after = sentence(flags.set(&device, 0, 1));
        format!("{stream}; {at_event}; {after}")
    };
    assert_eq!(
        said("peers::a_peer_that_never_comes", "peers:1", act),
        "the work of the stream on Fake was not done after 20ms; the event on Fake was not done after 20ms; the flags \
         were released after a failure, and every wait for them passes: make new ones"
    );
}

#[test]
fn flags_are_checked() {
    let act = || {
        let [own, other] = devices::<2>();
        let flags = Flags::new(&own, 2).unwrap();
        [
            sentence(flags.set(&own, 2, 1)),
            sentence(flags.wait(&own, 0, 0)),
            sentence(flags.set(&own, 1, Flags::RELEASED)),
            sentence(flags.set(&other, 1, 1)),
        ]
        .join("; ")
    };
    assert_eq!(
        said("peers::flags_are_checked", "peers:2", act),
        "flag 2 of 2, numbered from 0; round 0 of a flag: rounds count from 1 to 2147483646; round 2147483647 of a \
         flag: rounds count from 1 to 2147483646; the flag is on one Fake and is used with another: all that a call \
         uses must be on one device"
    );
}

#[test]
fn a_driver_without_stream_memory_operations() {
    let act = || {
        let device = device();
        let flags = Flags::new(&device, 1).unwrap();
        let error = flags.set(&device, 0, 1).unwrap_err();
        assert!(error.is_unsupported());
        assert_eq!(Err(error.clone()), flags.wait(&device, 0, 1));
        error.to_string()
    };
    assert_eq!(
        said(
            "peers::a_driver_without_stream_memory_operations",
            "memops:801",
            act
        ),
        "Fake does not take flags of streams: its driver has no stream memory operations"
    );
}

/// Copies and flags become part of a graph; waits with a time are refused.
#[test]
fn flags_are_captured() {
    let act = || {
        let device = device();
        let flags = Flags::new(&device, 1).unwrap();
        let one = colex_gpu::Repeats {
            warmups: 1,
            samples: 1,
            batch: 1,
        };
        let timed = device.time(one, |device| {
            flags.set(device, 0, 1)?;
            flags.wait(device, 0, 1)
        });
        assert!(timed.is_ok());
        sentence(device.time(one, |device| device.synchronize_within(SHORT)))
    };
    assert_eq!(
        said("peers::flags_are_captured", "peers:1", act),
        "waiting for the stream may break off the capture of the stream: do it before the capture begins, and prepare \
         library calls there (`Gemm::prepare`, `CopyCall::new`)"
    );
}

/// The drop of memory of another device or process waits for the work of this one, which no capture allows. The capture goes on, and the
/// memory stays.
#[test]
fn memory_of_others_that_is_dropped_in_a_capture_stays() {
    let act = || {
        let [own, other] = devices::<2>();
        let dropped = |is_captured: bool| {
            let buffer = own.upload(&[1u32, 2]).unwrap();
            // What another process has is not freed here.
            let memory = own.zeros::<u32>(2).unwrap();
            let exported = of_another_process(&memory.export().unwrap());
            let opened = other.open_exported::<u32>(&exported).unwrap();
            std::mem::forget(memory);
            let there = buffer.as_peer_of(&other).unwrap();
            drop(buffer);
            let drop_both = move || drop((there, opened));
            let counts = counted(&other, || {
                if is_captured {
                    let run = captured(&other, || {
                        drop_both();
                        Ok::<(), DeviceError>(())
                    });
                    assert_eq!(run, (Ok(0), Ok(())));
                } else {
                    drop_both();
                }
                Ok(())
            });
            let mut counts = counts.unwrap();
            counts.retain(|name, _| {
                ["cuCtxSynchronize", "cuIpcCloseMemHandle", "cuMemFree_v2"].contains(&&name[..])
            });
            shown(&counts)
        };
        format!("{}; {}", dropped(true), dropped(false))
    };
    assert_eq!(
        said(
            "peers::memory_of_others_that_is_dropped_in_a_capture_stays",
            "peers:2",
            act
        ),
        "none; cuCtxSynchronize 2, cuIpcCloseMemHandle 1, cuMemFree_v2 1"
    );
}

/// An exported buffer as another process would receive it: the number of the process is another one.
fn of_another_process(exported: &ExportedBuffer) -> ExportedBuffer {
    let mut bytes = exported.to_bytes();
    bytes[8 + 64] ^= 1;
    ExportedBuffer::from_bytes(&bytes).expect("the bytes of an exported buffer")
}

#[test]
fn another_process_opens_a_buffer() {
    let act = || {
        let [own, other] = devices::<2>();
        let buffer = own.upload(&[1u32, 2, 3, 4, 5]).unwrap();
        let exported = buffer.slice(2..4).unwrap().export().unwrap();
        assert_eq!(
            ExportedBuffer::from_bytes(&exported.to_bytes()),
            Ok(exported.clone())
        );
        let exported = of_another_process(&exported);
        let opened = other.open_exported::<u32>(&exported).unwrap();
        assert!(opened.device().is_same_device(&other));
        assert_eq!(opened.address(), buffer.address() + 8);
        assert_eq!(opened.download().unwrap(), [3, 4]);
        opened.write(&[30, 40]).unwrap();
        assert_eq!(buffer.download().unwrap(), [1, 2, 30, 40, 5]);
        // Not this process's memory to be exported again.
        let again = sentence(opened.export());
        let there = buffer.as_peer_of(&other).unwrap();
        assert_eq!(again, sentence(there.export()));
        // Closed once, with the last handle.
        let part = opened.slice(1..).unwrap();
        let first = counted(&other, || {
            drop(opened);
            Ok(())
        });
        let last = counted(&other, || {
            drop(part);
            Ok(())
        });
        let [first, last] = [first, last].map(|counts| shown(&counts.unwrap()));
        format!("{again}; {first}; {last}")
    };
    assert_eq!(
        said("peers::another_process_opens_a_buffer", "peers:2", act),
        "the buffer's memory belongs to another device or process, and can be exported only there; none; cuCtxSetCurrent \
         3, cuCtxSynchronize 1, cuIpcCloseMemHandle 1"
    );
}

/// The driver counts: each handle is closed once, and the memory is there until the last of them.
#[test]
fn a_buffer_that_is_opened_twice_is_closed_twice() {
    let act = || {
        let [own, other] = devices::<2>();
        let buffer = own.upload(&[1u32, 2]).unwrap();
        let exported = of_another_process(&buffer.export().unwrap());
        let [first, second] = [(); 2].map(|()| other.open_exported::<u32>(&exported).unwrap());
        let closed = counted(&other, || {
            drop(first);
            Ok(())
        });
        assert_eq!(second.download().unwrap(), [1, 2]);
        let again = counted(&other, || {
            drop(second);
            Ok(())
        });
        [closed, again]
            .map(|counts| shown(&counts.unwrap()))
            .join("; ")
    };
    let once = "cuCtxSetCurrent 3, cuCtxSynchronize 1, cuIpcCloseMemHandle 1";
    assert_eq!(
        said(
            "peers::a_buffer_that_is_opened_twice_is_closed_twice",
            "peers:2",
            act
        ),
        format!("{once}; {once}")
    );
}

#[test]
fn exported_buffers_are_checked() {
    let act = || {
        let device = device();
        let buffer = device.zeros::<u32>(16).unwrap();
        let exported = buffer.export().unwrap();
        let own = sentence(device.open_exported::<u32>(&exported));
        let exported = of_another_process(&exported);
        let element = sentence(device.open_exported::<f32>(&exported));
        // Longer than the allocation, and longer than any.
        let longer = |length: u64| {
            let mut bytes = exported.to_bytes();
            let at = ExportedBuffer::BYTES - 16;
            bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
            let longer = ExportedBuffer::from_bytes(&bytes).unwrap();
            sentence(device.open_exported::<u32>(&longer))
        };
        let long = longer(1 << 19);
        assert!(longer(u64::MAX).contains("of 1048576 bytes"));
        // A handle of nothing.
        let mut bytes = exported.to_bytes();
        bytes[8..72].fill(0);
        let nothing = ExportedBuffer::from_bytes(&bytes).unwrap();
        let nothing = sentence(device.open_exported::<u32>(&nothing));
        let mut refused = 0;
        for length in 0..ExportedBuffer::BYTES {
            refused += usize::from(ExportedBuffer::from_bytes(&bytes[..length]).is_err());
        }
        bytes.push(0);
        refused += usize::from(ExportedBuffer::from_bytes(&bytes).is_err());
        bytes[0] = b'C';
        refused += usize::from(ExportedBuffer::from_bytes(&bytes[..refused]).is_err());
        [own, element, long, nothing, refused.to_string()].join("; ")
    };
    assert_eq!(
        said("peers::exported_buffers_are_checked", "peers:1", act),
        "the exported buffer is one of this process: use the buffer itself, or `Buffer::as_peer_of`; the exported buffer \
         has elements of type u32, and was opened for f32; the exported buffer ends 2097152 bytes into an allocation of \
         1048576 bytes; cuIpcOpenMemHandle returned CUDA_ERROR_INVALID_VALUE (1): what the driver says; 106"
    );
}

/// The simulator has one device, and says so.
#[test]
fn the_simulator_shares_nothing() {
    let [one, other] = [(); 2].map(|()| Device::simulator(colex_atom::Arch::Sm90a));
    let buffer = one.zeros::<f32>(4).unwrap();
    let refused: [DeviceError; 2] = [
        buffer.as_peer_of(&other).unwrap_err(),
        buffer.export().unwrap_err(),
    ];
    assert_eq!(
        refused.map(|error| error.to_string()).join("; "),
        "the simulator of sm_90a does not share memory with another device: its memory is its own; several simulated \
         devices are `colex_sim::Ranks`; the simulator of sm_90a does not share memory with another process: its memory \
         is its own; several simulated devices are `colex_sim::Ranks`"
    );
    assert!(buffer.as_peer_of(&one).is_ok());
}
