//! What the executor makes of drivers that refuse: none, too old, without a device, out of memory, and so on. The
//! driver is a fake library in front of any real one, and every scene runs in a process of its own.
#![cfg(target_os = "linux")]

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

#[path = "fake_driver/ahead.rs"]
mod ahead;
#[path = "fake_driver/between.rs"]
mod between;
#[path = "fake_driver/calls.rs"]
mod calls;
#[cfg(feature = "nccl")]
#[path = "fake_driver/collectives.rs"]
mod collectives;
#[path = "fake_driver/gpus.rs"]
mod gpus;
#[path = "fake_driver/library.rs"]
mod library;
#[path = "fake_driver/peers.rs"]
mod peers;
#[path = "fake_driver/processes.rs"]
mod processes;
#[cfg(feature = "nccl")]
#[path = "fake_driver/processes_nccl.rs"]
mod processes_nccl;
#[path = "fake_driver/ranks.rs"]
mod ranks;
#[cfg(feature = "nccl")]
#[path = "fake_driver/ranks_nccl.rs"]
mod ranks_nccl;
#[path = "fake_driver/refused.rs"]
mod refused;
#[path = "fake_driver/shapes.rs"]
mod shapes;

use colex_atom::{
    Im2colPlan, Im2colTile, Interleave, L2Promotion, OobFill, Taps, TensorMap, TmaElement,
    TmaSwizzle, Ty,
};
use colex_gpu::kernels::gemm::{GemmPlan, Operands};
use colex_gpu::kernels::{GemmProblem, Major};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{Device, Error, Function, Launch, Repeats};

/// A text whose assembling the fake driver does not look at.
const TEXT: &str = ".version 8.0\n.target sm_90a\n.visible .entry k(.param .u32 n)\n{ exit; }";

/// The variable that names the file with the counts of a whole process.
const TOTALS: &str = "FAKE_CUDA_TOTALS";

/// Builds the library, whole or without its tensor maps, in a folder of its own.
fn library(whole: bool) -> PathBuf {
    static BUILT: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    let build = || {
        let name = format!("fake-{}-{}", std::process::id(), u8::from(whole));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        library::build(&folder, whole).unwrap();
        folder
    };
    BUILT[usize::from(whole)].get_or_init(build).clone()
}

/// What `act` says in a process of its own with the fake driver in that scene; after a slash, that of a fake NCCL. `test` is the test that calls this: in
/// its second process it comes here again, acts, and ends.
fn said(test: &str, scene: &str, act: impl FnOnce() -> String) -> String {
    if env::var("FAKE_CUDA_TEST").is_ok_and(|name| name == test) {
        println!("said: {}", act().replace('\n', " / "));
        std::process::exit(0);
    }
    let folder = library(scene != "missing");
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads", "1"]);
    child.env("LD_LIBRARY_PATH", &folder);
    child.env(library::CALLS, folder.join(test.replace("::", "-")));
    let totals = format!("{}-totals", test.replace("::", "-"));
    child.env(TOTALS, folder.join(totals));
    let (scene, nccl) = scene.split_once('/').unwrap_or((scene, ""));
    child
        .env("COLEX_CACHE", "off")
        .env("FAKE_CUDA", scene)
        .env("FAKE_NCCL", nccl)
        .env("FAKE_CUDA_TEST", test);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.split_once("said: "));
    let (_, line) =
        line.unwrap_or_else(|| panic!("it said {text}{}", String::from_utf8_lossy(&output.stderr)));
    line.to_string()
}

fn sentence<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "no error".to_string(),
        Err(error) => error.to_string(),
    }
}

fn device() -> Device {
    Device::gpu(0).expect("the fake driver has a device")
}

fn loaded(device: &Device) -> Function {
    device
        .load_ptx(TEXT, "k")
        .expect("the fake driver assembles everything")
}

#[test]
fn a_whole_driver_opens() {
    let act = || {
        let device = device();
        let limits = device.limits();
        format!(
            "{} {} {} {}",
            device.name(),
            device.arch(),
            limits.shared,
            limits.multiprocessors
        )
    };
    assert_eq!(
        said("a_whole_driver_opens", "whole", act),
        "Fake sm_90a 232448 132"
    );
}

/// The rates are those that the driver tells, or the architecture's where it tells none, and the choice of a plan follows them.
#[test]
fn a_device_tells_its_rates() {
    let act = || {
        let device = device();
        let rates = device.rates();
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors: [Major::Second; 3],
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let plans = (1..=64).map(|rows| {
            let problem = GemmProblem::new(100 * rows, 960, 6744);
            GemmPlan::alternatives(&problem, operands, &device)[0].to_string()
        });
        let plans: Vec<String> = plans.collect();
        let memory = rates.memory();
        format!(
            "{memory} {} {}; {}",
            rates.bus,
            rates.clock,
            plans.join("; ")
        )
    };
    let scenes = ["whole", "h100", "rateless"];
    let [h200, h100, rateless] = scenes.map(|scene| said("a_device_tells_its_rates", scene, act));
    assert_eq!(h200, rateless);
    let (rates, plans) = h200.split_once("; ").expect("plans");
    assert_eq!(rates, "4916736 6144 1980000");
    let (rates, others) = h100.split_once("; ").expect("plans");
    assert_eq!(rates, "3352320 5120 1980000");
    assert_ne!(plans, others);
}

/// Groups of threads take rows of 65536 numbers in turn on an H200, and a cluster has one after the other on an H100, whose memory is
/// slower; rows of 49152 numbers are weighed. The call says why. A device that tells no rates has those of its architecture.
#[test]
fn the_rates_of_a_device_choose_the_plan_of_long_rows() {
    let act = || {
        let device = device();
        let told = [65536, 49152, 131_072].map(|columns| {
            let shape = (2, columns);
            let x = device.uninitialised::<f32>(2 * columns).unwrap();
            let mut y = device.uninitialised::<f32>(2 * columns).unwrap();
            let (from, to) = (x.view(shape).unwrap(), y.view_mut(shape).unwrap());
            let call = Rowwise::new(RowFunction::Softmax, &from, &to);
            let call = call.prepare().unwrap();
            let text = call.explain();
            let reason = text.lines().last().unwrap();
            format!("{call}. {reason}")
        });
        told.join(" ").replace(' ', "_")
    };
    let h200 = "softmax f32, vectors of 4, 256 threads for a row, 1 row in a block, 1 access, clusters of 4 blocks, 3 chunks in registers, 13 in \
                shared memory, 4096 clusters, warps meet once. The memory of the device moves 4.9 TB per second: from 4 TB per second on, registers \
                and shared memory hold a row of this length together. \
                softmax f32, vectors of 4, 1024 threads for a row, 1 row in a block, 1 access, 0 chunks in registers, 12 in shared memory, 4096 \
                clusters, warps meet once. The memory of the device moves 4.9 TB per second: from 4 TB per second on, registers and shared memory \
                hold a row of this length together. \
                softmax f32, vectors of 4, 256 threads for a row, 1 row in a block, 1 access, clusters of 8 blocks, 3 chunks in registers, 13 in \
                shared memory, 4096 clusters, warps meet once. The memory of the device moves 4.9 TB per second: from 4 TB per second on, registers \
                and shared memory hold a row of this length together.";
    let h100 = "softmax f32, vectors of 4, 1024 threads for a row, 1 row in a block, 4 accesses, clusters of 4 blocks, rows in registers, 3 \
                tiles ahead, 30 clusters, warps meet once. By the rates of the device, the blocks of a cluster wait 40.0 ns for each other in a row, and a \
                second pass takes 55.2 ns: a cluster has the rows. \
                softmax f32, vectors of 4, 1024 threads for a row, 1 row in a block, 3 accesses, clusters of 4 blocks, rows in registers, 4 \
                tiles ahead, 30 clusters, warps meet once. By the rates of the device, the blocks of a cluster wait 40.0 ns for each other in a row, and a \
                second pass takes 41.4 ns: a cluster has the rows. \
                softmax f32, vectors of 4, 256 threads for a row, 1 row in a block, 16 accesses, clusters of 8 blocks, rows in registers, 2 \
                groups in turn, 2 slots, 14 clusters, warps meet once. The memory of the device moves 3.4 TB per second: below 4 TB per second, two \
                groups of threads take rows of more than 256 KiB in turn.";
    for (scene, told) in [("whole", h200), ("h100", h100), ("rateless", h200)] {
        let found = said(
            "the_rates_of_a_device_choose_the_plan_of_long_rows",
            scene,
            act,
        );
        assert_eq!(found.replace('_', " "), told);
    }
}

/// The words that the fake driver was given for a map.
fn words(map: &TensorMap, count: usize) -> String {
    let buffer = device().uninitialised::<u8>(1 << 16).unwrap();
    let argument = device().tensor_map(map, &buffer).unwrap();
    let words = argument.encoded.expect("a GPU's map is encoded");
    format!(
        "{:?}",
        words[..count]
            .iter()
            .map(|word| *word as i64)
            .collect::<Vec<_>>()
    )
}

/// The driver is given a tensor map's numbers in `cuda.h`'s order and codes.
#[test]
fn a_tiled_map_is_encoded() {
    let act = || {
        let map = TensorMap {
            element: TmaElement::F32,
            dims: vec![100, 50],
            strides: vec![416],
            extents: vec![16, 9],
            element_strides: vec![1, 3],
            im2col: None,
            swizzle: TmaSwizzle::B64,
            interleave: Interleave::None,
            l2: L2Promotion::B256,
            fill: OobFill::NanRequestZeroFma,
        };
        words(&map, 14)
    };
    assert_eq!(
        said("a_tiled_map_is_encoded", "whole", act),
        "[7, 2, 1879048192, 100, 50, 416, 16, 9, 1, 3, 0, 2, 3, 1]"
    );
}

/// The corners run from W on, as those that CuTe passes.
#[test]
fn an_im2col_map_is_encoded() {
    let act = || {
        let taps = |count, stride, padding| Taps {
            stride,
            padding,
            ..Taps::new(count)
        };
        let plan = Im2colPlan::new(Im2colTile {
            activations: "(64,8,6,2):(1,64,512,3072)",
            taps: &[taps(3, 2, [1, 0]), taps(2, 1, [4, 3])],
            shared: "Sw<3,3,3> o 0 o (32,64):(64,1)",
            element: TmaElement::F16,
            multicast: 1,
        });
        words(plan.unwrap().map(), 16)
    };
    assert_eq!(
        said("an_im2col_map_is_encoded", "whole", act),
        "[6, 4, 8, 1024, -1, -4, -2, 2, 64, 32, 2, 1, 0, 3, 2, 0]"
    );
}

#[test]
fn too_old() {
    assert_eq!(
        said("too_old", "old", || sentence(Device::gpu(0))),
        "the driver implements CUDA 11.4; CUDA 12.0 or newer is needed"
    );
}

#[test]
fn a_missing_function_is_named() {
    assert_eq!(
        said("a_missing_function_is_named", "missing", || sentence(
            Device::gpu(0)
        )),
        "the driver implements CUDA 13.0 and lacks cuTensorMapEncodeTiled; CUDA 12.0 or newer is needed"
    );
}

#[test]
fn no_device() {
    let act = || format!("{}; {}", sentence(Device::gpu(0)), Device::open().name());
    assert_eq!(
        said("no_device", "init:100", act),
        "the driver sees no CUDA device; the simulator of sm_90a"
    );
}

#[test]
fn a_driver_that_does_not_start() {
    assert_eq!(
        said("a_driver_that_does_not_start", "init:999", || sentence(
            Device::gpu(0)
        )),
        "cuInit returned CUDA_ERROR_UNKNOWN (999): what the driver says"
    );
}

#[test]
fn a_code_that_nobody_knows() {
    assert_eq!(
        said("a_code_that_nobody_knows", "init:4242", || sentence(
            Device::gpu(0)
        )),
        "cuInit returned code 4242 (4242): code 4242"
    );
}

#[test]
fn one_device_too_few() {
    assert_eq!(
        said("one_device_too_few", "whole", || sentence(Device::gpu(1))),
        "there is no device 1: the driver sees 1, counted from 0"
    );
}

#[test]
fn a_device_before_maxwell() {
    assert_eq!(
        said("a_device_before_maxwell", "kepler", || sentence(
            Device::gpu(0)
        )),
        "Fake has compute capability 3.7, and kernels are printed for 5.0 and newer"
    );
}

#[test]
fn out_of_memory() {
    assert_eq!(
        said("out_of_memory", "whole", || sentence(
            device().uninitialised::<f32>(1 << 20)
        )),
        "4194304 bytes were asked of the device, which has 1048576 free of 2097152"
    );
}

/// A GPU refuses what it has no room for, and the host is not asked to hold it.
#[test]
fn absurd_sizes() {
    let act = || {
        let device = device();
        let large = |log: u32| sentence(device.zeros::<u8>(1 << log));
        assert_eq!(
            sentence(device.uninitialised::<f64>(1 << 61)),
            "the largest buffer that can be addressed has 1152921504606846975 elements, and 2305843009213693952 were given"
        );
        assert!((40..63).all(|log| large(log).contains("were asked of the device")));
        large(45)
    };
    assert_eq!(
        said("absurd_sizes", "whole", act),
        "35184372088832 bytes were asked of the device, which has 1048576 free of 2097152"
    );
}

#[test]
fn the_assemblers_words() {
    assert_eq!(
        said("the_assemblers_words", "assembler", || sentence(
            device().load_ptx(TEXT, "k")
        )),
        "the driver's assembler for Fake refused the text: ptxas line 8: Unknown symbol"
    );
}

#[test]
fn an_assembler_without_words() {
    assert_eq!(
        said("an_assembler_without_words", "silent", || sentence(
            device().load_ptx(TEXT, "k")
        )),
        "the driver's assembler for Fake refused the text: CUDA_ERROR_INVALID_PTX, what the driver says"
    );
}

/// A load that fails for lack of memory is no refused text, whether the text is assembled by the linker or loaded as it is.
#[test]
fn a_load_without_memory_refuses_no_text() {
    let act = || {
        let whole = TEXT.replace(
            "{ exit; }",
            "{\nsetmaxnreg.dec.sync.aligned.u32 24;\nexit; }",
        );
        let texts = [TEXT, &whole];
        let said = texts.map(|text| sentence(device().load_ptx(text, "k")));
        said.join("; ")
    };
    let name = "a_load_without_memory_refuses_no_text";
    let memory = "cuModuleLoadDataEx returned CUDA_ERROR_OUT_OF_MEMORY (2): what the driver says";
    assert_eq!(said(name, "load:2", act), [memory; 2].join("; "));
    let refused = "the driver's assembler for Fake refused the text: CUDA_ERROR_INVALID_PTX, what the driver says";
    assert_eq!(said(name, "load:218", act), [refused; 2].join("; "));
}

/// The time between events of two contexts of one GPU is none, and the sentence names no simulator.
#[test]
fn events_of_two_devices_have_no_time_between_them() {
    let act = || {
        let raw = colex_gpu::cuda::RawStream {
            context: std::ptr::without_provenance_mut(0x9000),
            stream: std::ptr::null_mut(),
        };
        // SAFETY: the fake driver follows no handle.
        let other = unsafe { Device::from_raw(raw) }.unwrap();
        let simulator = Device::simulator(colex_atom::Arch::Sm90a);
        let [one, two, three] =
            [&device(), &other, &simulator].map(|device| device.record().unwrap());
        let said = [
            two.milliseconds_since(&one),
            one.milliseconds_since(&three),
            three.milliseconds_since(&one),
        ];
        assert!(
            said.iter()
                .all(|said| said.as_ref().is_err_and(|error| error.is_other_device()))
        );
        said.map(sentence).join("; ")
    };
    assert_eq!(
        said(
            "events_of_two_devices_have_no_time_between_them",
            "whole",
            act
        ),
        "the earlier event is on one Fake and is used with another: all that a call uses must be on one device; \
         the earlier event is on a simulator, not on Fake; the earlier event is on Fake, not on a simulator"
    );
}

#[test]
fn a_kernel_that_fails_is_remembered() {
    let act = || {
        let device = device();
        let function = loaded(&device);
        let launch = || device.launch(&function, Launch::new(1, 32), &[7u32.into()]);
        let before = sentence(launch());
        let waiting = sentence(device.synchronize());
        assert_eq!(waiting, sentence(launch()));
        assert_eq!(waiting, sentence(device.upload(&[1u32])));
        assert_eq!(waiting, sentence(Device::gpu(0)));
        format!("{before}; {waiting}")
    };
    assert_eq!(
        said("a_kernel_that_fails_is_remembered", "synchronize:719", act),
        "no error; a kernel broke the context on Fake (CUDA_ERROR_LAUNCH_FAILED, what the driver says, as after a trap: kernels trap where an access without a predicate leaves its tensor, or an integer its declared range, and the simulator names which): nothing more runs there in this process, a new process can open the device again"
    );
}

#[test]
fn a_process_that_lost_the_device_before() {
    assert_eq!(
        said(
            "a_process_that_lost_the_device_before",
            "retain:700",
            || sentence(Device::gpu(0))
        ),
        "a kernel broke the context on Fake (CUDA_ERROR_ILLEGAL_ADDRESS, what the driver says): nothing more runs there in this process, a new process can open the device again"
    );
}

#[test]
fn work_for_another_stream_is_not_timed() {
    let act = || sentence(device().time(Repeats::default(), |_| Ok::<(), Error>(())));
    assert_eq!(
        said("work_for_another_stream_is_not_timed", "whole", act),
        "nothing was captured: give the work to the device that the function is called with"
    );
}

#[test]
fn what_is_wrong_with_a_text_is_seen_before_the_driver_is_asked() {
    let act = || sentence(device().load_ptx(TEXT, "other"));
    assert_eq!(
        said(
            "what_is_wrong_with_a_text_is_seen_before_the_driver_is_asked",
            "assembler",
            act
        ),
        "the module has no entry `other`: it has k"
    );
}

#[test]
fn a_function_of_another_device() {
    let act = || {
        let function = loaded(&device());
        let elsewhere = Device::simulator(colex_atom::Arch::Sm90a);
        sentence(elsewhere.launch(&function, Launch::new(1, 32), &[7u32.into()]))
    };
    assert_eq!(
        said("a_function_of_another_device", "whole", act),
        "the function is on Fake, not on the simulator of sm_90a"
    );
}
