//! Every GPU and driver: the library takes the kernel of the device's generation, or says what is missing.

use colex_atom::{Arch, PtxVersion};
use colex_gpu::ir::KernelBuilder;
use colex_gpu::kernels::GemmProblem;
use colex_gpu::{Device, View, ViewMut, copy, transpose};
use half::bf16;

use super::{device, said, sentence};

/// Compute capabilities, with the KiB of shared memory that a block may ask for (CUDA C++ Programming Guide, "Compute
/// capabilities").
const GPUS: [(u32, u32, u32); 20] = [
    (5, 0, 48),
    (5, 2, 48),
    (5, 3, 48),
    (6, 0, 48),
    (6, 1, 48),
    (6, 2, 48),
    (7, 0, 96),
    (7, 2, 96),
    (7, 5, 64),
    (8, 0, 163),
    (8, 6, 99),
    (8, 7, 163),
    (8, 8, 99),
    (8, 9, 99),
    (9, 0, 227),
    (10, 0, 227),
    (10, 3, 227),
    (11, 0, 227),
    (12, 0, 99),
    (12, 1, 99),
];

/// Drivers from the oldest that Colex takes on, and one newer than all that it knows.
const DRIVERS: [u32; 8] = [12000, 12040, 12060, 12070, 12080, 12090, 13000, 13040];

/// What the calls of the library say on that GPU: of f32 and bf16 products, a strided copy and a transpose.
fn calls() -> String {
    let device = device();
    let floats = || device.uninitialised::<f32>(1 << 16).expect("a mebibyte");
    let halves = || device.uninitialised::<bf16>(1 << 16).expect("a mebibyte");
    let (x, mut y) = (floats(), floats());
    let (a, b, mut c) = (halves(), halves(), halves());
    let cube = GemmProblem::new(256, 256, 256);
    let view = |layout: &str| View::new(&x, layout).expect("a view");
    let mut out = floats();
    let said = [
        sentence(cube.on(&x, &x, &mut y).and_then(|call| call.run())),
        sentence(cube.on(&a, &b, &mut c).and_then(|call| call.run())),
        sentence(copy(
            &view("(16,5,4):(1,32,160)"),
            &ViewMut::new(&mut y, "(16,5,4):(1,16,80)").expect("a view"),
        )),
        sentence(transpose(
            &view("(256,128):(128,1)"),
            &ViewMut::new(&mut out, "(128,256):(256,1)").expect("a view"),
            &[1, 0],
        )),
    ];
    let mut said = said.to_vec();
    said.dedup();
    format!(
        "{} {}: {}",
        device.arch(),
        device.limits().shared >> 10,
        said.join("; ")
    )
}

/// Runs the calls with the fake driver as that GPU behind a driver of that version.
fn on(test: &str, (major, minor, kib): (u32, u32, u32), driver: u32) -> String {
    let scene = format!("gpu:{major}:{minor}:{}:{driver}", kib << 10);
    said(test, &scene, calls)
}

/// Whether a real device of the capability works with a driver of that version: by what brought its first target.
fn knows((major, minor, _): (u32, u32, u32), driver: u32) -> bool {
    let since = match (major, minor) {
        (10, 0) => 12070,
        (8, 8) | (10.., _) => 12080,
        _ => 12000,
    };
    driver >= since
}

#[test]
fn law_every_gpu_and_driver() {
    const TEST: &str = "gpus::law_every_gpu_and_driver";
    let every = std::env::var_os("COLEX_EVERY_DRIVER").is_some();
    let mut cases = 0;
    for (at, gpu) in GPUS.into_iter().enumerate() {
        for (of, driver) in DRIVERS.into_iter().enumerate() {
            // Each GPU with one driver, each driver with several GPUs, and with the variable all.
            if !(every || driver == 13000 || (at + of) % 7 == 0) {
                continue;
            }
            cases += 1;
            let heard = on(TEST, gpu, driver);
            let (arch, kib) = (Arch::of_capability(gpu.0, gpu.1).expect("since 5.0"), gpu.2);
            if arch < Arch::Sm70 {
                // Of a generation before the library's.
                assert!(heard.contains("sm_70"), "{gpu:?}, {driver}: {heard}");
                continue;
            }
            let version = arch.ptx_version();
            let brought = version.release().expect("a release");
            let expected = if brought.number() as u32 > driver {
                assert!(!knows(gpu, driver), "{gpu:?} runs with {driver}");
                let (major, minor) = (driver / 1000, driver % 1000 / 10);
                format!(
                    "the text is PTX {version}, which came with {brought}, and the driver implements CUDA {major}.{minor}"
                )
            } else {
                "no error".to_string()
            };
            assert_eq!(
                heard,
                format!("{arch} {kib}: {expected}"),
                "{gpu:?}, {driver}"
            );
        }
    }
    println!("law every_gpu_and_driver: {cases} cases");
}

/// A device that is newer than all targets runs the newest one without an `a`; what a device lacks is refused.
#[test]
fn a_newer_device_runs_the_newest_target() {
    let act = || {
        let device = device();
        let load = |arch| sentence(device.load(&KernelBuilder::new("k", arch).finish()));
        assert_eq!(load(Arch::Sm120), "no error");
        assert_eq!(load(Arch::Sm70), "no error");
        format!("{}; {}", device.arch(), load(Arch::Sm90a))
    };
    assert_eq!(
        said(
            "gpus::a_newer_device_runs_the_newest_target",
            "gpu:13:5:101376:13040",
            act
        ),
        "sm_120; `k` is built for sm_90a, which does not run on Fake (sm_120): build it for that"
    );
}

#[test]
fn a_text_newer_than_the_driver() {
    let text = ".version 8.7\n.target sm_90a\n.visible .entry k()\n{ exit; }";
    let act = || {
        let error = device().load_ptx(text, "k").expect_err("PTX 8.7");
        assert!(error.is_driver_too_old_for_text());
        error.to_string()
    };
    assert_eq!(
        said(
            "gpus::a_text_newer_than_the_driver",
            "gpu:9:0:232448:12040",
            act
        ),
        "the text is PTX 8.7, which came with CUDA 12.8, driver r570, and the driver implements CUDA 12.4"
    );
    assert_eq!(
        PtxVersion(8, 7).release().map(|release| release.number()),
        Some(12080)
    );
}

#[test]
fn a_cubin_is_checked_before_the_driver_sees_it() {
    use colex_gpu::ParameterType::{U32, U64};
    let image = include_bytes!("../../device/tests/add.cubin");
    let act = || {
        let device = device();
        let load = |image: &[u8], entry: &str, parameters: &[_]| {
            sentence(device.load_cubin(image, entry, parameters))
        };
        assert_eq!(load(image, "add", &[U64, U64, U64, U32]), "no error");
        [
            load(image, "add", &[U64, U64, U32]),
            load(image, "sub", &[]),
            load(&image[..3000], "add", &[]),
        ]
        .join("; ")
    };
    assert_eq!(
        said(
            "gpus::a_cubin_is_checked_before_the_driver_sees_it",
            "whole",
            act
        ),
        "the parameters of `add` have 8, 8, 8, 4 bytes, and those of the signature given 8, 8, 4; \
         the module has no entry `sub`: it has add; \
         the image is no machine code of a GPU: it has 3000 bytes, fewer than it says"
    );
    let simulator = Device::simulator(Arch::Sm90a);
    let error = simulator
        .load_cubin(image, "add", &[U64, U64, U64, U32])
        .expect_err("no GPU");
    assert!(error.is_unsupported());
}
