//! What library calls and loads ask of the driver: everything once, and one launch from then on, which a program may
//! capture.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{Attention, AttentionMethod, AttentionPlan};
use colex_gpu::cuda::cudarc::driver::{CudaContext, CudaStream, result, sys};
use colex_gpu::cuda::{BorrowedSlice, RawStream};
use colex_gpu::gemm::Convolution;
use colex_gpu::ir::{Kernel, KernelBuilder, Special, Type};
use colex_gpu::kernels::gemm::{Autotune, Division, Epilogue, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{
    Compute, CopyCall, CopyMethod, Gemm, GemmElement, GemmProblem, Major, Operand, View, ViewMut,
};
use colex_gpu::quantise::Quantise;
use colex_gpu::rowwise::{RowFunction, RowStorage, Rowwise, RowwisePlan};
use colex_gpu::{Buffer, Device, DeviceError, Element, Error, Launch, Repeats, copy, transpose};
use colex_sched::{Order, RasterOrder};
use half::{bf16, f16};

use super::library::{Counts, counted, read, shown};
use super::{TEXT, TOTALS, device, said};

/// A buffer of the fake driver, which gives each a mebibyte.
pub(super) fn buffer<T: Element>(device: &Device) -> Buffer<T> {
    device.uninitialised((1 << 20) / T::BYTES).unwrap()
}

pub(super) fn view<'a, T: Element>(buffer: &'a Buffer<T>, layout: &str) -> View<'a, T> {
    View::new(buffer, layout).unwrap()
}

/// A view to write a buffer that the test goes on using: through another handle, which is never dropped.
pub(super) fn view_mut<T: Element>(buffer: &Buffer<T>, layout: &str) -> ViewMut<'static, T> {
    let handle = Box::leak(Box::new(buffer.clone()));
    ViewMut::new(handle, layout).unwrap()
}

/// A kernel without a line of its own: equal wherever it is built.
fn kernel() -> Kernel {
    let mut k = KernelBuilder::new("k", Arch::Sm90a);
    k.scalar("n", Type::U32);
    k.mov(Type::U32, Special::Tid(0));
    k.finish()
}

/// A product of a problem, into a handle of C that is never dropped.
fn on<'a, T: GemmElement, C: GemmElement>(
    problem: GemmProblem,
    [a, b]: [&'a Buffer<T>; 2],
    c: &Buffer<C>,
) -> Result<Gemm<'a, T, C>, Error> {
    problem.on(a, b, Box::leak(Box::new(c.clone())))
}

/// A stream of `cudarc` in the primary context.
fn cudarc_stream() -> (Arc<CudaContext>, Arc<CudaStream>) {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    (context, stream)
}

/// A device of the raw handles of another.
fn beside(device: &Device) -> Result<Device, DeviceError> {
    let raw = device.raw().expect("the fake driver has contexts");
    // SAFETY: the handles live as long as `device`, and the fake driver follows none of them.
    unsafe { Device::from_raw(raw) }
}

/// A device of another context than the primary one, on its default stream.
fn elsewhere(context: usize) -> Result<Device, DeviceError> {
    let context = std::ptr::without_provenance_mut(context);
    let stream = std::ptr::null_mut();
    // SAFETY: the fake driver follows no handle.
    unsafe { Device::from_raw(RawStream { context, stream }) }
}

pub(super) type Work<'a> = Box<dyn Fn() -> Result<(), Error> + 'a>;

/// A product of operands of a type, by the kernel that the library takes, once prepared and once not.
fn product<'a, T: GemmElement, C: GemmElement>(
    name: &str,
    device: &'a Device,
    problem: GemmProblem,
) -> [(String, Work<'a>, u64); 2] {
    let (a, b) = (buffer::<T>(device), buffer::<T>(device));
    let c = buffer::<C>(device);
    let again = (a.clone(), b.clone(), c.clone());
    let whole: Work<'a> = Box::new(move || on(problem, [&a, &b], &c)?.run());
    let parts: Work<'a> = Box::new(move || {
        let (a, b, c) = &again;
        on(problem, [a, b], c)?.prepare()?.run(a.device())
    });
    [
        (format!("gemm {name}"), whole, 1),
        (format!("prepared gemm {name}"), parts, 1),
    ]
}

/// Every public entry that launches, with how many launches it makes.
fn entries(device: &Device) -> Vec<(String, Work<'_>, u64)> {
    let mut all: Vec<(String, Work<'_>, u64)> = Vec::new();
    let problem = GemmProblem::new(256, 512, 512);
    all.extend(product::<bf16, bf16>("bf16", device, problem));
    all.extend(product::<f16, f32>(
        "f16 to f32, beta",
        device,
        problem.beta(0.5),
    ));
    let first = problem.major(Operand::C, Major::First);
    all.extend(product::<bf16, bf16>("bf16, M fastest in C", device, first));
    let narrow = GemmProblem::new(255, 129, 127);
    all.extend(product::<f16, f16>("f16, odd extents", device, narrow));
    let small = GemmProblem::new(128, 128, 128);
    all.extend(product::<f32, f32>("f32", device, small));
    all.extend(product::<f64, f64>("f64", device, small));
    all.extend(product::<i8, i32>("s8", device, small));

    // Plans in parts also ask whether the stream is being captured (`products_in_parts_are_captured_without_parts`).
    let long = GemmProblem::new(64, 64, 512);
    all.extend(product::<bf16, f32>("bf16, long K", device, long));
    let few = GemmProblem::new(3, 512, 256);
    all.extend(product::<bf16, bf16>("bf16, few rows", device, few));
    // Epilogues with a bias and a second output, alone and in a batch.
    let both = Epilogue::new(Ty::F32, |e| {
        let x =
            e.accumulator() * e.scalar("scale", Ty::F32) + e.tensor("bias", Ty::Bf16).to(Ty::F32);
        e.output("before", x.clone());
        x.relu().to(Ty::Bf16)
    });
    let both = both.unwrap();
    for (name, batch, is_prepared) in [
        ("gemm with an epilogue", "", false),
        ("prepared gemm with an epilogue", "", true),
        ("batch of gemms with an epilogue", "3", false),
        ("prepared batch of gemms with an epilogue", "3", true),
    ] {
        let [a, b, bias, c] = [(); 4].map(|()| buffer::<bf16>(device));
        let (before, both) = (buffer::<f32>(device), both.clone());
        let by = move |extents: &str, strides: &str, apart: i64| match batch {
            "" => format!("({extents}):({strides})"),
            count => format!("({extents},{count}):({strides},{apart})"),
        };
        let work: Work<'_> = Box::new(move || {
            let a = view(&a, &by("256,128", "128,1", 32768));
            let b = view(&b, &by("128,128", "128,1", 0));
            let bias = view(&bias, &by("256,128", "0,1", 128));
            let before = view_mut(&before, &by("256,128", "128,1", 32768));
            let c = view_mut(&c, &by("256,128", "128,1", 32768));
            let product = Gemm::new(&a, &b, &c).epilogue(&both).scalar("scale", 0.5);
            let product = product.tensor("bias", &bias).output("before", &before);
            if is_prepared {
                product.prepare()?.run(device)
            } else {
                product.run()
            }
        });
        all.push((name.to_string(), work, 1));
    }
    // Products that are 0.
    let empty = GemmProblem::new(128, 64, 0);
    all.extend(product::<f16, f16>("K is 0", device, empty));
    let scaled = small.alpha(0.0).beta(0.5);
    all.extend(product::<f32, f32>("alpha is 0", device, scaled));
    let (a, c) = (buffer::<bf16>(device), buffer::<bf16>(device));
    all.push((
        "Gemm::batch_invariant".to_string(),
        Box::new(move || on(few, [&a, &a], &c)?.batch_invariant().run()),
        1,
    ));

    let (a, b, c) = (
        buffer::<f16>(device),
        buffer::<f16>(device),
        buffer::<f32>(device),
    );
    all.push((
        "Gemm::prepare_with".to_string(),
        Box::new(move || {
            let plan = |operands, _| {
                let usual = GemmPlan::new(GemmMethod::Ampere, operands);
                let order = Order::Grouped {
                    width: 4,
                    raster: RasterOrder::AlongM,
                };
                Ok(GemmPlan { order, ..usual })
            };
            let call = on(small, [&a, &b], &c)?.prepare_with(plan)?;
            call.run(a.device())
        }),
        1,
    ));

    let copies = [
        ("copy, one run", None, "65536:1", "65536:1", 1),
        (
            "copy, strided",
            None,
            "(16,5,4):(1,32,160)",
            "(16,5,4):(1,16,80)",
            1,
        ),
        (
            "copy, transposed",
            None,
            "(256,512):(512,1)",
            "(256,512):(1,256)",
            1,
        ),
        (
            "copy, transposed and odd",
            None,
            "(70,45):(45,1)",
            "(70,45):(1,70)",
            1,
        ),
        (
            "CopyCall, naive",
            Some(CopyMethod::Naive),
            "(70,45):(45,1)",
            "(70,45):(1,70)",
            1,
        ),
        (
            "CopyCall, padded",
            Some(CopyMethod::Padded),
            "(70,45):(45,1)",
            "(70,45):(1,70)",
            1,
        ),
        (
            "CopyCall, bulk",
            Some(CopyMethod::Bulk),
            "131072:1",
            "131072:1",
            1,
        ),
        // A map with other dimensions than those that the kernel of this rank was built for.
        (
            "copy, transposed in a batch",
            None,
            "(64,4,128):(512,128,1)",
            "(64,4,128):(1,64,256)",
            1,
        ),
    ];
    for (name, method, from, to, launches) in copies {
        let (source, destination) = (buffer::<f32>(device), buffer::<f32>(device));
        let work: Work<'_> = Box::new(move || {
            let (source, destination) = (view(&source, from), view_mut(&destination, to));
            match method {
                None => copy(&source, &destination),
                _ => CopyCall::new(&source, &destination, method)?.run(source.device()),
            }
        });
        all.push((name.to_string(), work, launches));
    }
    let (source, destination) = (buffer::<u16>(device), buffer::<u16>(device));
    all.push((
        "transpose".to_string(),
        Box::new(move || {
            let source = view(&source, "(256,512):(512,1)");
            transpose(
                &source,
                &view_mut(&destination, "(512,256):(256,1)"),
                &[1, 0],
            )
        }),
        1,
    ));
    let (source, destination) = (buffer::<u16>(device), buffer::<u16>(device));
    all.push((
        "CopyCall::with_squares".to_string(),
        Box::new(move || {
            let source = view(&source, "(256,512):(512,1)");
            let destination = view_mut(&destination, "(256,512):(1,256)");
            CopyCall::with_squares(&source, &destination, [1, 2])?.run(source.device())
        }),
        1,
    ));
    all.push((
        "Device::load and launch".to_string(),
        Box::new(|| {
            let function = device.load(&kernel())?;
            Ok(device.launch(&function, Launch::new(1, 32), &[7u32.into()])?)
        }),
        1,
    ));
    all.push((
        "Device::load_ptx and launch".to_string(),
        Box::new(|| {
            let function = device.load_ptx(TEXT, "k")?;
            Ok(device.launch(&function, Launch::new(1, 32), &[7u32.into()])?)
        }),
        1,
    ));
    let own = |(context, stream): (&Arc<_>, &Arc<_>)| (Arc::clone(context), Arc::clone(stream));
    let (context, stream) = device.cuda().map_or_else(cudarc_stream, own);
    let (a, c) = (buffer::<bf16>(device), buffer::<bf16>(device));
    all.push((
        "from_cuda, load and gemm".to_string(),
        Box::new(move || {
            let beside = Device::from_cuda(context.clone(), stream.clone())?;
            let function = beside.load(&kernel())?;
            beside.launch(&function, Launch::new(1, 32), &[7u32.into()])?;
            on(problem, [&a, &a], &c)?.run()
        }),
        2,
    ));
    let (a, c) = (buffer::<bf16>(device), buffer::<bf16>(device));
    all.push((
        "prepared gemm on a device of raw handles".to_string(),
        Box::new({
            let beside = beside(device).unwrap();
            move || on(problem, [&a, &a], &c)?.prepare()?.run(&beside)
        }),
        1,
    ));
    all.extend(super::between::entries(device));
    all
}

/// Exactly this number of launches, each in the context made current for it.
fn only_launches(launches: u64) -> Counts {
    let names = ["cuCtxSetCurrent", "cuLaunchKernelEx"];
    names.map(|name| (name.to_string(), launches)).into()
}

/// The first call builds and loads; the second to the fifth make their launches and nothing else.
#[test]
fn repeated_calls_only_launch() {
    let act = || {
        let device = device();
        let mut calls = 0;
        let mut rows = Vec::new();
        for (name, work, launches) in entries(&device) {
            let first = counted(&device, &work).unwrap();
            for call in 2..=5 {
                let mut counts = counted(&device, &work).unwrap();
                // How a launch begins is no call of the driver.
                counts.remove("launches_that_begin_early");
                let expected = if super::between::IN_PARTS.contains(&&name[..]) {
                    // In memory of the stream, whose context is made current too: two kernels, which are one in a capture, or one whose
                    // last block adds the parts.
                    let kernels = if name == "reduce, all" { 1 } else { 2 };
                    [("cuCtxSetCurrent", 3), ("cuLaunchKernelEx", kernels)]
                        .map(|(name, count)| (name.to_string(), count))
                        .into()
                } else {
                    only_launches(launches)
                };
                assert_eq!(counts, expected, "{name}, call {call}");
                calls += 1;
            }
            rows.push(format!(
                "{name}: {}; then {}",
                shown(&first),
                shown(&only_launches(launches))
            ));
        }
        rows.push(calls.to_string());
        rows.join("\n")
    };
    let table = said("calls::repeated_calls_only_launch", "whole", act);
    let rows: Vec<&str> = table.split(" / ").collect();
    let (calls, rows) = rows.split_last().expect("the number of calls comes last");
    println!("{}", rows.join("\n"));
    println!("law repeated_calls_only_launch: {calls} cases");
}

/// A device on a stream of `cudarc`, which the test captures.
pub(super) fn on_cudarc() -> Device {
    let (context, stream) = cudarc_stream();
    Device::from_cuda(context, stream).unwrap()
}

/// Captures the device's stream, in the mode that forbids most, while some work is done. Returns the nodes of the graph,
/// or the driver's code if the capture was broken off, and how the work ended.
pub(super) fn captured<T, E>(
    device: &Device,
    work: impl FnOnce() -> Result<T, E>,
) -> (Result<usize, sys::CUresult>, Result<T, E>) {
    let stream = device.raw().unwrap().stream.cast();
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
    // SAFETY: the stream lives as long as the device.
    unsafe { result::stream::begin_capture(stream, mode) }.unwrap();
    assert!(device.is_capturing().unwrap());
    let worked = work();
    // SAFETY: as above; the graph is the one that was captured.
    let nodes = unsafe { result::stream::end_capture(stream) }.map(|graph| {
        let mut nodes = 0;
        // SAFETY: with null for the nodes it stores how many there are.
        unsafe { sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &mut nodes) };
        nodes
    });
    (nodes.map_err(|error| error.0), worked)
}

/// A call that was made before may be captured: it only launches. One that was not is refused, and the capture goes on.
#[test]
fn repeated_calls_are_captured() {
    let act = || {
        let device = on_cudarc();
        let (mut refused, mut calls) = (0, 0);
        for (name, work, launches) in entries(&device) {
            let (nodes, first) = captured(&device, &work);
            match first {
                // Its kernels are those of an entry before it.
                Ok(()) => assert_eq!(nodes, Ok(launches as usize), "{name}, at first"),
                Err(error) => {
                    assert!(error.is_capturing() && nodes.is_ok(), "{name}: {error}");
                    refused += 1;
                    work().unwrap();
                }
            }
            let (nodes, again) = captured(&device, &work);
            assert_eq!((nodes, again), (Ok(launches as usize), Ok(())), "{name}");
            calls += 2;
        }
        format!("{refused} {calls}")
    };
    let counts = said("calls::repeated_calls_are_captured", "whole", act);
    let (refused, calls) = counts.split_once(' ').unwrap();
    assert!(refused.parse::<usize>().unwrap() > 15, "{refused}");
    println!("law repeated_calls_are_captured: {calls} cases");
}

/// A product that packs a matrix needs memory, which a capture cannot allocate and later calls must not overwrite: it is captured
/// where it owns its memory, or was given some.
#[test]
fn packed_products_are_captured_when_they_are_prepared() {
    let act = || {
        let device = on_cudarc();
        // The matrices of 64 x 32 by 32 x 48, each compact and with strides that no kernel takes.
        let layouts = [
            ["(64,32):(32,1)", "(64,32):(128,2)"],
            ["(48,32):(32,1)", "(48,32):(96,3)"],
            ["(64,48):(48,1)", "(64,48):(192,4)"],
        ];
        let mut said = Vec::new();
        for case in 0..16 {
            let [a, b, c, with_beta] = [0, 1, 2, 3].map(|bit| case >> bit & 1);
            let memory = [(); 3].map(|()| buffer::<f32>(&device));
            let views = (
                view(&memory[0], layouts[0][a]),
                view(&memory[1], layouts[1][b]),
                view_mut(&memory[2], layouts[2][c]),
            );
            let product = Gemm::new(&views.0, &views.1, &views.2).beta(with_beta as f64);
            let launches = 1 + a + b + c * (1 + with_beta);
            let bytes = product.workspace().unwrap();
            assert_eq!(bytes > 0, launches > 1, "case {case}");
            product.run().unwrap();
            let mut counts = counted(&device, || product.run()).unwrap();
            // For each matrix that is packed it asks once whether the stream is being captured.
            *counts.get_mut("cuCtxSetCurrent").unwrap() -= (a + b + c) as u64;
            assert_eq!(counts, only_launches(launches as u64), "case {case}");
            let run = captured(&device, || product.run());
            if launches > 1 {
                let error = run.1.unwrap_err();
                assert!(error.is_capturing() && run.0 == Ok(0), "case {case}");
                said.push(error.to_string());
            } else {
                assert_eq!(run, (Ok(1), Ok(())));
            }
            let call = product.prepare().unwrap();
            let run = captured(&device, || call.run(&device));
            assert_eq!(run, (Ok(launches), Ok(())), "case {case}, prepared");
            // Its kernels are known now, and its memory is the caller's: nothing is left that a capture forbids.
            let mut workspace = device.uninitialised::<u8>(bytes).unwrap();
            let run = captured(&device, || product.prepare_in(&mut workspace)?.run(&device));
            assert_eq!(run, (Ok(launches), Ok(())), "case {case}, in a workspace");
            for length in [0, 256, bytes.saturating_sub(1)] {
                let mut short = workspace.slice(..length.min(bytes)).unwrap();
                let is_short = short.len() < bytes;
                let refused = product.prepare_in(&mut short).err();
                assert_eq!(refused.is_some(), is_short, "case {case}");
                assert!(refused.is_none_or(|error| error.is_workspace_refused()));
            }
        }
        // One case, word for word.
        let matrix = "(64,32):(128,2)";
        let memory = [(); 3].map(|()| buffer::<f32>(&device));
        let views = (
            view(&memory[0], matrix),
            view(&memory[1], "(48,32):(32,1)"),
            view_mut(&memory[2], "(64,48):(48,1)"),
        );
        let product = Gemm::new(&views.0, &views.1, &views.2);
        let bytes = product.workspace().unwrap();
        let room = buffer::<u8>(&device);
        let refused = |from: &Buffer<u8>, range: std::ops::Range<usize>| {
            let mut part = from.slice(range).unwrap();
            product.prepare_in(&mut part).unwrap_err().to_string()
        };
        said.push(refused(&room, 0..bytes - 1));
        said.push(
            refused(&room, 8..8 + bytes).replace(&format!("{:#x}", room.address() + 8), "ADDRESS"),
        );
        said.dedup();
        said.join("\n")
    };
    let name = "calls::packed_products_are_captured_when_they_are_prepared";
    let expected = [
        NEEDS_MEMORY,
        "the workspace has 8191 bytes, and the product needs 8192: `Gemm::workspace` returns that number",
        "the workspace begins at ADDRESS, which is not a multiple of 256 bytes",
    ];
    assert_eq!(said(name, "whole", act), expected.join(" / "));
    println!("law packed_products_are_captured_when_they_are_prepared: 16 cases");
}

/// What is said of a product that needs memory of its own in a capture.
const NEEDS_MEMORY: &str = "the product needs memory of its own (packed matrices, parts of factors, columns of a convolution, elements to \
                            be reduced, or a table of addresses), which a capture cannot allocate: prepare it before the capture with \
                            `Gemm::prepare` or `Gemm::prepare_in`, and keep it as long as the graph";

/// Products of every kind that needs memory of its own are refused in a capture by one sentence, and captured when they were prepared.
#[test]
fn products_with_memory_of_their_own_are_captured_when_they_are_prepared() {
    let act = || {
        let device = on_cudarc();
        let floats = [(); 3].map(|()| buffer::<f32>(&device));
        let halves = [(); 6].map(|()| buffer::<bf16>(&device));
        let (rows, strided) = ("(64,32):(32,1)", "(64,32):(128,2)");
        let right = view(&floats[1], "(48,32):(32,1)");
        let c = view_mut(&floats[2], "(64,48):(48,1)");
        let packed = Gemm::new(&view(&floats[0], strided), &right, &c);
        let parts = Gemm::new(&view(&floats[0], rows), &right, &c).compute(Compute::Tf32x3);
        let convolution = Convolution::new(
            &view(&halves[0], "(1,14,14,3):(588,42,3,1)"),
            &view(&halves[1], "(64,7,7,3):(147,21,3,1)"),
            &view_mut(&halves[2], "(1,8,8,64):(4096,512,64,1)"),
        );
        let columns = convolution.product().unwrap();
        let sums = "(acc: f32) -> C { cvt.rn.bf16(acc) } sums: row sums { acc }";
        let sums: Epilogue = sums.parse().unwrap();
        let [a, b] = [0, 1].map(|i| view(&halves[i], rows));
        let reduced = Gemm::new(&a, &b, &view_mut(&halves[2], "(64,64):(64,1)"));
        let reduced = reduced.epilogue(&sums);
        let reduced = reduced.output("sums", &view_mut(&floats[0], "64:1"));
        let [left, right] = [[0, 1], [2, 3]].map(|of| of.map(|i| view(&halves[i], rows)));
        let results = [4, 5].map(|i| view_mut(&halves[i], "(64,64):(64,1)"));
        let listed = Gemm::lists(&left, &right, &results).unwrap();
        fn sentence<T: GemmElement, C: GemmElement>(
            device: &Device,
            (name, launches): (&str, usize),
            product: &Gemm<'_, T, C>,
        ) -> String {
            product.run().unwrap();
            let (nodes, refused) = captured(device, || product.run());
            let refused = refused.unwrap_err();
            assert!(refused.is_capturing() && nodes == Ok(0), "{name}");
            let call = product.prepare().unwrap();
            let run = captured(device, || call.run(device));
            assert_eq!(run, (Ok(launches), Ok(())), "{name}");
            refused.to_string()
        }
        let mut said = vec![
            sentence(&device, ("packed", 2), &packed),
            sentence(&device, ("parts of factors", 3), &parts),
            sentence(&device, ("columns", 3), &columns),
            sentence(&device, ("reduced elements", 2), &reduced),
            sentence(&device, ("lists", 1), &listed),
        ];
        said.dedup();
        said.join("\n")
    };
    let name = "calls::products_with_memory_of_their_own_are_captured_when_they_are_prepared";
    assert_eq!(said(name, "whole", act), NEEDS_MEMORY);
}

/// A product that sums parts of K through memory takes a plan without parts inside a capture, unless it was prepared and
/// owns that memory. Each stream has memory of its own.
#[test]
fn products_in_parts_are_captured_without_parts() {
    let act = || {
        let device = on_cudarc();
        let buffers = |device: &Device| [(); 3].map(|()| buffer::<bf16>(device));
        let [a, b, c] = buffers(&device);
        let mut cases = 0;
        for [m, n, k] in [
            [64, 64, 8192],
            [128, 128, 4096],
            [64, 48, 8192],
            [32, 32, 16384],
            [16, 64, 8192],
            [8, 8, 65536],
        ] {
            let problem = GemmProblem::new(m, n, k);
            let product = on(problem, [&a, &b], &c).unwrap();
            let prepared = product.prepare().unwrap();
            let bytes = |plan: &GemmPlan| plan.workspace(&problem);
            if prepared.plan().map_or(0, bytes) == 0 {
                continue;
            }
            if cases == 0 {
                // No memory is kept yet, and a capture forbids allocating some.
                assert_eq!(captured(&device, || product.run()), (Ok(1), Ok(())));
            }
            let launches = |counts: &Counts| counts["cuLaunchKernelEx"] as usize;
            let allocates = |counts: &Counts| counts.contains_key("cuMemAlloc_v2");
            product.run().unwrap();
            let again = counted(&device, || product.run()).unwrap();
            assert!(!allocates(&again), "{m} x {n} x {k}: {again:?}");
            assert_eq!(captured(&device, || product.run()), (Ok(1), Ok(())));
            let run = captured(&device, || prepared.run(&device));
            assert_eq!(run, (Ok(launches(&again)), Ok(())));
            // The caller's memory may have the parts: with a byte too few, K is not divided.
            assert_eq!(product.workspace().unwrap(), 0);
            let need = prepared.plan().map_or(0, bytes);
            assert_eq!(product.workspace_in_parts().unwrap(), need as usize);
            for (length, in_parts) in [(0, false), (need - 1, false), (need, true)] {
                let mut memory = device.uninitialised::<u8>(length as usize).unwrap();
                let run = captured(&device, || {
                    let call = product.prepare_in(&mut memory)?;
                    assert_eq!(
                        call.plan().map(bytes),
                        Some(if in_parts { need } else { 0 })
                    );
                    call.run(&device)
                });
                let nodes = if in_parts { launches(&again) } else { 1 };
                assert_eq!(run, (Ok(nodes), Ok(())), "{length} bytes of {need}");
            }
            let other = device.on_new_stream().unwrap();
            let [a, b, c] = buffers(&other);
            let product = on(problem, [&a, &b], &c).unwrap();
            let runs = [(); 2].map(|()| counted(&other, || product.run()).unwrap());
            assert_eq!(runs.each_ref().map(allocates), [true, false], "{runs:?}");
            cases += 1;
        }
        assert!(cases > 0, "no plan divides K");
        cases.to_string()
    };
    let name = "calls::products_in_parts_are_captured_without_parts";
    let cases = said(name, "whole", act);
    println!("law products_in_parts_are_captured_without_parts: {cases} cases");
}

/// A device keeps the memory for parts of K of eight streams. The ninth takes the place of another, whose next call allocates again.
#[test]
fn a_ninth_stream_takes_the_place_of_another_for_parts_of_k() {
    let act = || {
        let device = on_cudarc();
        let problem = GemmProblem::new(64, 64, 8192);
        let streams: Vec<_> = (0..9).map(|_| device.on_new_stream().unwrap()).collect();
        let buffers: Vec<_> = (streams.iter())
            .map(|stream| [(); 3].map(|()| buffer::<bf16>(stream)))
            .collect();
        let round = |count: usize| {
            let (mut allocated, mut freed) = (0, 0);
            for (stream, [a, b, c]) in streams.iter().zip(&buffers).take(count) {
                let product = on(problem, [a, b], c).unwrap();
                let counts = counted(stream, || product.run()).unwrap();
                allocated += counts.get("cuMemAlloc_v2").unwrap_or(&0);
                freed += counts.get("cuMemFree_v2").unwrap_or(&0);
            }
            [allocated, freed]
        };
        let prepared = on(problem, [&buffers[0][0], &buffers[0][1]], &buffers[0][2]);
        let prepared = prepared.unwrap().prepare().unwrap();
        let bytes = prepared.plan().map_or(0, |plan| plan.workspace(&problem));
        assert!(bytes > 0, "{prepared}");
        let [first, again, with_ninth] = [8, 8, 9].map(round);
        let [allocated, freed] = round(9);
        assert!(allocated > 0 && allocated == freed, "{allocated}, {freed}");
        format!("{first:?} {again:?} {with_ninth:?}")
    };
    let name = "calls::a_ninth_stream_takes_the_place_of_another_for_parts_of_k";
    assert_eq!(said(name, "whole", act), "[8, 0] [0, 0] [1, 1]");
}

/// The kernels of a product may begin early if the plan says so, and not otherwise.
#[test]
fn kernels_of_a_product_may_begin_early() {
    let act = || {
        let device = device();
        let [a, b, c] = [(); 3].map(|()| buffer::<bf16>(&device));
        let product = on(GemmProblem::new(64, 64, 8192), [&a, &b], &c).unwrap();
        let mut cases = 0;
        let clusters = [[1, 1, 1], [2, 1, 1], [1, 1, 2]];
        for (cluster, split) in clusters.into_iter().zip([4, 1, 2]) {
            for early in [false, true] {
                let call = product.prepare_with(|operands, _| {
                    Ok(GemmPlan {
                        tile: [64, 64, 64],
                        warps: [1, 1],
                        cluster,
                        split,
                        early,
                        ..GemmPlan::new(GemmMethod::Hopper, operands)
                    })
                });
                let call = call.unwrap();
                let counts = counted(&device, || call.run(&device)).unwrap();
                let launches = 1 + u64::from(split > 1);
                assert_eq!(counts["cuLaunchKernelEx"], launches);
                let found = counts.get("launches_that_begin_early").copied();
                assert_eq!(found, early.then_some(launches), "{call}");
                cases += 1;
            }
        }
        cases.to_string()
    };
    let name = "calls::kernels_of_a_product_may_begin_early";
    let cases = said(name, "whole", act);
    println!("law kernels_of_a_product_may_begin_early: {cases} cases");
}

/// A cooperative launch asks the driver for all blocks at once, by a call and inside a capture, and never for an early begin. One that the
/// device does not hold is refused before the driver sees it.
#[test]
fn cooperative_launches_ask_for_all_blocks() {
    let act = || {
        let device = on_cudarc();
        let function = device.load(&kernel()).unwrap();
        let mut cases = 0;
        for (blocks, threads) in [(1, 32), (132, 1024), (264, 1024), (265, 1024), (4225, 32)] {
            let launch = Launch::new(blocks, threads);
            for launch in [launch, launch.cooperative()] {
                let work = || Ok(device.launch(&function, launch, &[1u32.into()])?);
                let fits = !launch.cooperative || blocks * threads <= 264 * 1024 && blocks <= 4224;
                let counts = counted(&device, work);
                let Ok(counts) = counts else {
                    let refused = work().unwrap_err().to_string();
                    assert!(
                        refused.starts_with(&format!(
                            "a cooperative launch has {blocks} blocks, and the device holds at most "
                        )),
                        "{refused}"
                    );
                    assert!(!fits, "{launch:?}");
                    cases += 1;
                    continue;
                };
                assert!(fits, "{launch:?}");
                assert_eq!(counts["cuLaunchKernelEx"], 1);
                let found = counts.get("launches_at_once").copied();
                assert_eq!(found, launch.cooperative.then_some(1), "{launch:?}");
                let (nodes, worked) = captured(&device, work);
                worked.unwrap();
                assert_eq!(nodes, Ok(1));
                cases += 1;
            }
        }
        cases.to_string()
    };
    let name = "calls::cooperative_launches_ask_for_all_blocks";
    let cases = said(name, "whole", act);
    println!("law cooperative_launches_ask_for_all_blocks: {cases} cases");
}

/// A softmax of rows that teams hold is one cooperative launch in memory of the stream. A capture takes the default plan without teams,
/// unless the call was prepared before.
#[test]
fn rows_of_teams_are_launched_at_once() {
    let act = || {
        let device = on_cudarc();
        let [x, y] = [(); 2].map(|()| buffer::<f32>(&device));
        let from = view(&x, "(8,12288):(12288,1)");
        let to = view_mut(&y, "(8,12288):(12288,1)");
        let softmax = Rowwise::new(RowFunction::Softmax, &from, &to);
        let call = softmax.prepare_with(|problem, arch| {
            RowwisePlan::in_teams(problem, arch, [3, 132], [1024, 1])
        });
        let call = call.unwrap();
        let counts = counted(&device, || call.run(&device)).unwrap();
        assert_eq!(counts["cuLaunchKernelEx"], 1);
        assert_eq!(counts["launches_at_once"], 1);
        let (nodes, ran) = captured(&device, || call.run(&device));
        ran.unwrap();
        assert_eq!(nodes, Ok(1));
        // Prepared inside of a capture, the call has no memory to share.
        let (_, plan) = captured(&device, || {
            let call = softmax.prepare_with(|problem, arch| {
                RowwisePlan::in_teams(problem, arch, [3, 132], [1024, 1])
            })?;
            Ok::<_, Error>(call.plan().copied())
        });
        let plan = plan.unwrap().expect("rows");
        assert!(!matches!(plan.storage, RowStorage::Teams { .. }), "{plan}");
        "1".to_string()
    };
    said("calls::rows_of_teams_are_launched_at_once", "whole", act);
}

/// A short product begins early by itself, and in order if its plan says so: by the same kernel, so that nothing is loaded.
#[test]
fn short_products_begin_early_by_themselves() {
    let act = || {
        let device = device();
        let [a, b, c] = [(); 3].map(|()| buffer::<bf16>(&device));
        let mut cases = 0;
        for [m, n, k] in [[64, 64, 64], [64, 48, 8192], [1, 64, 256]] {
            let product = on(GemmProblem::new(m, n, k), [&a, &b], &c).unwrap();
            let call = product.prepare().unwrap();
            let counts = counted(&device, || call.run(&device)).unwrap();
            let found = counts.get("launches_that_begin_early").copied();
            assert_eq!(found, Some(counts["cuLaunchKernelEx"]), "{call}");
            let plan = *call.plan().unwrap();
            let mut late = None;
            let counts = counted(&device, || {
                late = Some(product.prepare_with(|_, _| {
                    Ok(GemmPlan {
                        early: false,
                        ..plan
                    })
                }));
                Ok::<_, Error>(())
            });
            let loads =
                |(name, _): &(&String, &u64)| name.contains("Module") || name.contains("Library");
            assert_eq!(counts.unwrap().iter().find(loads), None, "{call}");
            let late = late.unwrap().unwrap();
            let counts = counted(&device, || late.run(&device)).unwrap();
            assert_eq!(counts.get("launches_that_begin_early"), None, "{late}");
            cases += 2;
        }
        cases.to_string()
    };
    let name = "calls::short_products_begin_early_by_themselves";
    let cases = said(name, "whole", act);
    println!("law short_products_begin_early_by_themselves: {cases} cases");
}

/// The kernels of attention may begin early if the plan says so, and not otherwise: that of a whole problem by both methods, that
/// which adds parts of the keys in both ways, and that which sorts sequences.
#[test]
fn kernels_of_attention_may_begin_early() {
    let act = || {
        let device = device();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let numbers = buffer::<u32>(&device);
        let offsets = view(&numbers, "41:1");
        let one = [
            view(&q, "(1,8,1,64):(512,64,64,1)"),
            view(&k, "(1,2,4096,64):(524288,262144,64,1)"),
        ];
        let packed = [
            view(&q, "(300,8,64):(512,64,1)"),
            view(&k, "(300,2,64):(128,64,1)"),
        ];
        let outputs = [
            view_mut(&o, "(1,8,1,64):(512,64,64,1)"),
            view_mut(&o, "(300,8,64):(512,64,1)"),
        ];
        let whole = Attention::new(&one[0], &one[1], &one[1], &outputs[0]);
        let of_sequences = Attention::new(&packed[0], &packed[1], &packed[1], &outputs[1])
            .query_offsets(&offsets, 200)
            .key_offsets(&offsets, 200);
        let mut cases = 0;
        let (ampere, hopper) = (AttentionMethod::Ampere, AttentionMethod::Hopper);
        for (call, method, splits, by_lanes, sorted) in [
            (&whole, ampere, 1, false, false),
            (&whole, ampere, 4, false, false),
            (&whole, ampere, 9, true, false),
            (&whole, hopper, 1, false, false),
            (&of_sequences, ampere, 1, false, false),
            (&of_sequences, hopper, 1, false, false),
            (&of_sequences, hopper, 1, false, true),
        ] {
            for early in [false, true] {
                let call = call.prepare_with(|operands, _| {
                    Ok(AttentionPlan {
                        splits,
                        by_lanes,
                        sorted,
                        early,
                        prefetch: (early && splits > 1).then_some(2),
                        next_early: early && splits > 4,
                        beside: if splits > 1 { 2 } else { 0 },
                        ..AttentionPlan::new(method, operands)
                    })
                });
                let call = call.unwrap();
                let counts = counted(&device, || call.run(&device)).unwrap();
                let launches = 1 + u64::from(splits > 1 || sorted);
                assert_eq!(counts["cuLaunchKernelEx"], launches);
                let found = counts.get("launches_that_begin_early").copied();
                assert_eq!(found, early.then_some(launches), "{call}");
                cases += 1;
            }
        }
        // A call with parts of the keys begins early by itself.
        let usual = whole.plan().unwrap();
        assert!(usual.early && usual.splits > 1, "{usual}");
        cases.to_string()
    };
    let name = "calls::kernels_of_attention_may_begin_early";
    let cases = said(name, "whole", act);
    println!("law kernels_of_attention_may_begin_early: {cases} cases");
}

/// Packed sequences are sorted by a kernel before that of the products, but not where a capture meets memory that later calls
/// overwrite. With memory of the call or of the caller, a capture has both kernels.
#[test]
fn sorted_sequences_are_captured_with_memory_of_their_own() {
    let act = || {
        let device = on_cudarc();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let numbers = buffer::<u32>(&device);
        let offsets = view(&numbers, "41:1");
        let queries = view(&q, "(300,8,64):(512,64,1)");
        let keys = view(&k, "(300,2,64):(128,64,1)");
        let output = view_mut(&o, "(300,8,64):(512,64,1)");
        let call = Attention::new(&queries, &keys, &keys, &output)
            .query_offsets(&offsets, 200)
            .key_offsets(&offsets, 200);
        let prepared = call.prepare().unwrap();
        let need = call.workspace().unwrap();
        assert!(prepared.plan().sorted && need == 512, "{prepared}: {need}");
        assert_eq!(captured(&device, || call.run()), (Ok(1), Ok(())));
        call.run().unwrap();
        let again = counted(&device, || call.run()).unwrap();
        assert_eq!(again["cuLaunchKernelEx"], 2);
        assert!(!again.contains_key("cuMemAlloc_v2"), "{again:?}");
        assert_eq!(captured(&device, || call.run()), (Ok(1), Ok(())));
        let run = captured(&device, || prepared.run(&device));
        assert_eq!(run, (Ok(2), Ok(())));
        let mut cases = 4;
        for (length, launches) in [(0, 1), (need - 1, 1), (need, 2)] {
            let mut memory = device.uninitialised::<u8>(length).unwrap();
            let run = captured(&device, || {
                let call = call.prepare_in(&mut memory)?;
                assert_eq!(call.plan().sorted, launches == 2);
                call.run(&device)
            });
            assert_eq!(run, (Ok(launches), Ok(())), "{length} bytes of {need}");
            cases += 1;
        }
        cases.to_string()
    };
    let name = "calls::sorted_sequences_are_captured_with_memory_of_their_own";
    let cases = said(name, "whole", act);
    println!("law {}: {cases} cases", &name[7..]);
}

/// Keys are divided as K is: not where a capture meets memory that later calls overwrite, and with memory of the call or of the
/// caller in a capture too.
#[test]
fn parts_of_keys_are_captured_with_memory_of_their_own() {
    let act = || {
        let device = on_cudarc();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let queries = view(&q, "(1,8,1,64):(512,64,64,1)");
        let keys = view(&k, "(1,2,4096,64):(524288,262144,64,1)");
        let output = view_mut(&o, "(1,8,1,64):(512,64,64,1)");
        let call = Attention::new(&queries, &keys, &keys, &output);
        let prepared = call.prepare().unwrap();
        let need = call.workspace().unwrap();
        assert!(prepared.plan().splits > 1 && need > 0, "{prepared}");
        // No memory is kept yet, and a capture forbids allocating some.
        assert_eq!(captured(&device, || call.run()), (Ok(1), Ok(())));
        call.run().unwrap();
        let again = counted(&device, || call.run()).unwrap();
        assert_eq!(again["cuLaunchKernelEx"], 2);
        assert!(!again.contains_key("cuMemAlloc_v2"), "{again:?}");
        assert_eq!(captured(&device, || call.run()), (Ok(1), Ok(())));
        let run = captured(&device, || prepared.run(&device));
        assert_eq!(run, (Ok(2), Ok(())));
        let mut cases = 4;
        for (length, launches) in [(0, 1), (need - 1, 1), (need, 2)] {
            let mut memory = device.uninitialised::<u8>(length).unwrap();
            let run = captured(&device, || {
                let call = call.prepare_in(&mut memory)?;
                assert_eq!(call.plan().splits > 1, launches == 2);
                call.run(&device)
            });
            assert_eq!(run, (Ok(launches), Ok(())), "{length} bytes of {need}");
            cases += 1;
        }
        cases.to_string()
    };
    let name = "calls::parts_of_keys_are_captured_with_memory_of_their_own";
    let cases = said(name, "whole", act);
    println!("law parts_of_keys_are_captured_with_memory_of_their_own: {cases} cases");
}

/// What a capture forbids is refused before the driver is asked, so that the capture goes on; the rest is captured.
#[test]
fn what_a_capture_forbids_is_refused() {
    let act = || {
        let device = on_cudarc();
        let [from, to] = [(); 2].map(|()| device.uninitialised::<u32>(64).unwrap());
        let known = device.load(&kernel()).unwrap();
        let (start, end) = (device.record().unwrap(), device.record().unwrap());
        let unknown = KernelBuilder::new("unknown", Arch::Sm90a).finish();
        let time = |work: &dyn Fn(&Device) -> Result<(), DeviceError>| {
            device.time(Repeats::default(), work).map(drop)
        };
        type Forbidden<'a> = &'a dyn Fn() -> Result<(), DeviceError>;
        let forbidden: [(&str, Forbidden<'_>); 13] = [
            ("allocating memory", &|| {
                device.uninitialised::<u8>(4).map(drop)
            }),
            ("allocating memory", &|| device.zeros::<u8>(4).map(drop)),
            ("allocating memory", &|| device.poisoned::<u8>(4).map(drop)),
            ("allocating memory", &|| device.upload(&[1u8]).map(drop)),
            ("a copy between host and device", &|| from.write(&[0; 64])),
            ("a copy between host and device", &|| {
                from.download().map(drop)
            }),
            ("a copy between host and device", &|| {
                from.download_array((8, 8)).map(drop)
            }),
            ("waiting for the stream", &|| device.synchronize()),
            ("waiting for an event", &|| {
                end.milliseconds_since(&start).map(drop)
            }),
            ("loading a kernel", &|| device.load(&unknown).map(drop)),
            ("loading a kernel", &|| {
                device.load_kernel(&unknown).map(drop)
            }),
            ("loading a kernel", &|| device.load_ptx(TEXT, "k").map(drop)),
            ("taking the time", &|| {
                time(&|device| device.launch(&known, Launch::new(1, 32), &[7u32.into()]))
            }),
        ];
        for (what, act) in forbidden {
            let (nodes, refused) = captured(&device, act);
            let error = refused.unwrap_err();
            assert!(error.is_capturing() && nodes == Ok(0), "{what}: {error}");
            assert!(error.to_string().starts_with(what), "{error}");
        }
        type Allowed<'a> = &'a dyn Fn() -> Result<(), DeviceError>;
        let allowed: [(usize, Allowed<'_>); 6] = [
            (1, &|| {
                device.launch(&known, Launch::new(1, 32), &[7u32.into()])
            }),
            (1, &|| {
                let again = device.load(&kernel())?;
                device.launch(&again, Launch::new(1, 32), &[7u32.into()])
            }),
            (1, &|| to.copy_from(&from)),
            (1, &|| to.fill_bytes(1)),
            (0, &|| device.record().map(drop)),
            (0, &|| beside(&device).map(drop)),
        ];
        for (launches, act) in allowed {
            assert_eq!(captured(&device, act), (Ok(launches), Ok(())));
        }
        // Memory is freed and code is unloaded, by the thread of the capture and by another one.
        for on_other_thread in [false, true] {
            device.clear_module_cache();
            let text = TEXT.replace("{ exit; }", &format!("{{ exit; }}\n// {on_other_thread}"));
            let function = device.load_ptx(&text, "k").unwrap();
            device.clear_module_cache();
            let buffer = device.uninitialised::<u32>(64).unwrap();
            let last: [(&str, Box<dyn Any + Send>); 2] = [
                ("cuMemFree_v2", Box::new(buffer)),
                ("cuModuleUnload", Box::new(function)),
            ];
            for (call, last) in last {
                let drop_last = move || drop(last);
                let counts = counted(&device, || {
                    let run = captured(&device, || {
                        if on_other_thread {
                            std::thread::spawn(drop_last).join().unwrap();
                        } else {
                            drop_last();
                        }
                        Ok::<(), Error>(())
                    });
                    assert_eq!(run, (Ok(0), Ok(())), "{call}");
                    Ok(())
                });
                assert_eq!(counts.unwrap().get(call), Some(&1), "{call}");
            }
        }
        assert!(!device.is_capturing().unwrap());
        // Beside a capture of another stream, the driver itself refuses, and breaks that capture off.
        let other = device.on_new_stream().unwrap();
        let (nodes, refused) = captured(&other, || device.zeros::<u8>(4));
        format!(
            "{:?}; {}",
            nodes.map_err(|code| code as u32),
            refused.unwrap_err()
        )
    };
    assert_eq!(
        said("calls::what_a_capture_forbids_is_refused", "whole", act),
        "Err(901); cuMemAlloc returned CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): what the driver says"
    );
}

/// Other addresses cost the encoding of tensor maps; other sizes that take the same kernel, new arguments. No kernel is
/// made twice.
#[test]
fn other_addresses_and_sizes_make_no_kernel() {
    let act = || {
        let device = device();
        let fresh = || buffer::<bf16>(&device);
        let (a, b, c) = (fresh(), fresh(), fresh());
        let product = |n: i64, [a, b, c]: [&Buffer<bf16>; 3]| {
            let problem = GemmProblem::new(256, n, 512);
            // The usual plan of a method takes any size.
            let run = || on(problem, [a, b], c)?.method(GemmMethod::Hopper).run();
            counted(&device, run).unwrap()
        };
        let made = product(512, [&a, &b, &c]);
        assert!(made.contains_key("cuModuleLoadDataEx"), "{made:?}");
        let with_maps: Counts = [
            ("cuCtxSetCurrent".to_string(), 4),
            ("cuLaunchKernelEx".to_string(), 1),
            ("cuTensorMapEncodeTiled".to_string(), 3),
        ]
        .into();
        assert_eq!(product(512, [&fresh(), &fresh(), &fresh()]), with_maps);
        assert_eq!(
            product(512, [&a, &b, &c]),
            only_launches(1),
            "both are known"
        );
        let other = product(384, [&a, &b, &c]);
        assert!(!other.contains_key("cuModuleLoadDataEx"), "{other:?}");
        assert_eq!(product(384, [&a, &b, &c]), only_launches(1));

        let (from, to) = (buffer::<f32>(&device), buffer::<f32>(&device));
        let transposed = |from: &Buffer<f32>, to: &Buffer<f32>| {
            let (from, to) = (
                view(from, "(256,512):(512,1)"),
                view_mut(to, "(256,512):(1,256)"),
            );
            counted(&device, || copy(&from, &to)).unwrap()
        };
        transposed(&from, &to);
        let moved = transposed(&to, &from);
        assert_eq!(moved.get("cuTensorMapEncodeTiled"), Some(&2), "{moved:?}");
        assert_eq!(moved.get("cuModuleLoadDataEx"), None, "{moved:?}");
        "done".to_string()
    };
    let name = "calls::other_addresses_and_sizes_make_no_kernel";
    assert_eq!(said(name, "whole", act), "done");
}

/// The calls of the driver that assemble or load a kernel.
pub(super) fn loads(counts: &Counts) -> u64 {
    let is_load = |name: &str| {
        name.starts_with("cuLink") || name.starts_with("cuModule") && name != "cuModuleUnload"
    };
    let loads = counts.iter().filter(|(name, _)| is_load(name));
    loads.map(|(_, count)| count).sum()
}

/// Numbers of rows of each kind: the first ones, powers of two and their neighbours, and drawn ones, evenly and by their logarithms.
fn numbers_of_rows(most: i64) -> Vec<i64> {
    let powers = (0..21).map(|log| 1 << log);
    let near = powers.flat_map(|n: i64| [n - 1, n, n + 1, n + n / 2, n + 8, 3 * n + 4]);
    let drawn = (1..40).map(|i: i64| i * i * 7919 % most);
    let by_logarithm = (1..40).map(|i: i64| {
        let part = (i * i * 7919 % 1009) as f64 / 1009.0;
        (most as f64).powf(part).round() as i64
    });
    let all = (1..20).chain(near).chain(drawn).chain(by_logarithm);
    all.filter(|rows| (1..=most).contains(rows)).collect()
}

/// The rows of the largest products of the law.
const MOST_ROWS: i64 = 16384;

/// Whether a product takes memory besides its matrices and parts of K, of which the fake driver gives a mebibyte at most.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Nothing,
    /// Packed matrices, or the high and low parts of both.
    Copies,
}

/// Memory that the fake driver does not know, of any length: the `number`-th of some that do not overlap.
#[expect(
    clippy::mut_from_ref,
    reason = "each call makes a slice of its own, and leaks it"
)]
pub(super) fn far<T: Element>(
    device: &'static Device,
    number: u64,
) -> &'static mut BorrowedSlice<'static, T> {
    let elements = (1 << 38) / T::BYTES;
    // SAFETY: the fake driver follows no address.
    let slice = unsafe { device.borrow_raw_mut::<T>((1 + number) << 40, elements) };
    Box::leak(Box::new(slice.unwrap()))
}

/// Runs a product of each number of rows after the kernels of one of them were loaded, and returns how many ran, or says which one
/// loaded another kernel.
fn loads_nothing_more<T: GemmElement, C: GemmElement>(
    device: &'static Device,
    (problem, needs): (GemmProblem, Needs),
    change: impl Fn(Gemm<'static, T, C>, i64) -> Gemm<'static, T, C>,
) -> usize {
    let (a, b) = (&*far::<T>(device, 0), &*far::<T>(device, 1));
    let of_rows = |m: i64| {
        let problem = GemmProblem { m, ..problem };
        change(problem.on(a, b, far::<C>(device, 2)).unwrap(), m)
    };
    let first = counted(device, || {
        let loaded = of_rows(problem.m).load_plans()?;
        assert!(loaded > 0, "{problem}");
        Ok(())
    });
    assert!(loads(&first.unwrap()) > 0, "{problem}");
    let most = match needs {
        Needs::Nothing => MOST_ROWS,
        Needs::Copies => (1 << 18) / T::BYTES as i64 / problem.k.max(problem.n),
    };
    let rows = numbers_of_rows(most);
    for m in &rows {
        let mut said = String::new();
        let run = || {
            let call = of_rows(*m);
            call.run()?;
            said = call.prepare()?.to_string();
            Ok(())
        };
        let counts = counted(device, run).unwrap();
        assert_eq!(
            loads(&counts),
            0,
            "{m} rows of {problem}: {said}: {counts:?}"
        );
    }
    rows.len()
}

/// After `load_plans`, a product with any number of rows loads no kernel: of every type, in every order, with rows that TMA loads and
/// others, with beta, with an epilogue, and of products whose bits do not depend on the number of rows.
#[test]
fn law_after_load_plans_no_number_of_rows_loads_a_kernel() {
    let act = || {
        use Needs::{Copies, Nothing};
        let device: &'static Device = Box::leak(Box::new(device()));
        let plain = GemmProblem::new(64, 96, 64);
        let mut cases = loads_nothing_more::<bf16, bf16>(device, (plain, Nothing), |gemm, _| gemm);
        let large = GemmProblem::new(64, 4096, 1024);
        cases += loads_nothing_more::<f16, f16>(device, (large, Nothing), |gemm, _| gemm);
        let long = GemmProblem::new(3, 16, 8192);
        cases += loads_nothing_more::<bf16, f32>(device, (long, Nothing), |gemm, _| gemm);
        let odd = GemmProblem::new(100, 33, 127);
        cases += loads_nothing_more::<bf16, bf16>(device, (odd, Copies), |gemm, _| gemm);
        let first = GemmProblem::new(100, 40, 72)
            .major(Operand::A, Major::First)
            .major(Operand::C, Major::First);
        cases += loads_nothing_more::<f16, f16>(device, (first, Copies), |gemm, _| gemm);
        let of_tf32 = (plain.beta(0.5), Nothing);
        cases +=
            loads_nothing_more::<f32, f32>(device, of_tf32, |gemm, _| gemm.compute(Compute::Tf32));
        let bytes = GemmProblem::new(1, 64, 256);
        cases += loads_nothing_more::<i8, i32>(device, (bytes, Nothing), |gemm, _| gemm);
        cases += loads_nothing_more::<f16, f32>(device, (long, Nothing), |gemm, _| {
            gemm.batch_invariant()
        });
        cases += loads_nothing_more::<f32, f32>(device, (odd, Copies), |gemm, _| {
            gemm.compute(Compute::Tf32x3)
        });
        let zero = GemmProblem::new(64, 96, 0).beta(2.0);
        cases += loads_nothing_more::<bf16, f32>(device, (zero, Nothing), |gemm, _| gemm);
        // A bias and a residual: tensors of one row, and as large as C.
        let sum = Epilogue::new(Ty::F32, |e| {
            let [bias, residual] = ["bias", "residual"].map(|name| e.tensor(name, Ty::Bf16));
            let sum = e.accumulator() + bias.to(Ty::F32) + residual.to(Ty::F32);
            sum.to(Ty::Bf16)
        });
        let sum: &'static Epilogue = Box::leak(Box::new(sum.unwrap()));
        let (bias, residual) = (&*far::<bf16>(device, 3), &*far::<bf16>(device, 4));
        let few = GemmProblem::new(8, 1024, 4096);
        cases += loads_nothing_more::<bf16, bf16>(device, (few, Nothing), |gemm, m| {
            let extents = [m, few.n];
            let bias = View::strided(bias, &extents, &[0, 1]).unwrap();
            let residual = View::strided(residual, &extents, &[few.n, 1]).unwrap();
            let gemm = gemm.epilogue(sum).tensor("bias", &bias);
            gemm.tensor("residual", &residual)
        });
        format!("law load_plans: {cases} cases")
    };
    let name = "calls::law_after_load_plans_no_number_of_rows_loads_a_kernel";
    let said = said(name, "whole", act);
    println!("{said}");
    assert!(said.starts_with("law load_plans: "), "{said}");
}

/// Split-K and stream-K of one tile have kernels of their own. They take any number of parts or shares, so another number loads
/// nothing.
#[test]
fn each_division_of_k_has_its_kernels() {
    let act = || {
        let device = device();
        let (a, b, c) = (buffer(&device), buffer(&device), buffer::<bf16>(&device));
        let problem = GemmProblem::new(64, 64, 2048);
        let load = |split: i64, division: Division| {
            let gemm = on::<bf16, bf16>(problem, [&a, &b], &c).unwrap();
            let prepare = || {
                gemm.prepare_with(|operands, _| {
                    Ok(GemmPlan {
                        tile: [64, 32, 64],
                        warps: [1, 1],
                        cluster: [1; 3],
                        split,
                        division,
                        ..GemmPlan::new(GemmMethod::Hopper, operands)
                    })
                })?;
                Ok(())
            };
            loads(&counted(&device, prepare).unwrap()) > 0
        };
        use Division::{SplitK, StreamK};
        let each = [
            (2, SplitK),
            (5, SplitK),
            (3, StreamK),
            (7, StreamK),
            (3, SplitK),
        ];
        format!("{:?}", each.map(|(split, division)| load(split, division)))
    };
    assert_eq!(
        said("calls::each_division_of_k_has_its_kernels", "whole", act),
        "[true, false, true, false, false]"
    );
}

/// The kernels that `load_plans` loads are those of the least aligned matrix of a list, and the call loads no other.
#[test]
fn lists_load_the_kernels_of_all_their_matrices() {
    let act = || {
        let device = device();
        let memory: Vec<Buffer<bf16>> = (0..4).map(|_| buffer(&device)).collect();
        let (k, mut said) = ("(64,32):(32,1)", Vec::new());
        for shifts in [[0, 0], [0, 8], [0, 1], [4, 2]] {
            let parts = |of: usize| -> Vec<Buffer<bf16>> {
                let part = |i: usize| memory[of + i].slice(shifts[i]..);
                (0..2).map(|i| part(i).unwrap()).collect()
            };
            let (a, b) = (parts(0), parts(2));
            let [a, b] = [&a, &b].map(|all| {
                let views = all.iter().map(|one| view(one, k));
                views.collect::<Vec<_>>()
            });
            let results: Vec<Buffer<bf16>> = (0..2).map(|_| buffer(&device)).collect();
            let results = results.iter().map(|c| view_mut(c, "(64,64):(64,1)"));
            let results: Vec<_> = results.collect();
            let product = Gemm::lists(&a, &b, &results).unwrap();
            let load = || {
                product.load_plans()?;
                Ok(())
            };
            let first = loads(&counted(&device, load).unwrap());
            let then = loads(&counted(&device, || product.run()).unwrap());
            said.push(format!("{shifts:?}: {} and {then}", first > 0));
        }
        said.join("; ")
    };
    assert_eq!(
        said(
            "calls::lists_load_the_kernels_of_all_their_matrices",
            "whole",
            act
        ),
        "[0, 0]: true and 0; [0, 8]: false and 0; [0, 1]: true and 0; [4, 2]: true and 0"
    );
}

/// A wrong shape, a wrong type, a missing tensor and an output that overlaps what is read are found before a kernel is loaded.
#[test]
fn what_an_epilogue_refuses_loads_nothing() {
    let act = || {
        let device = device();
        let matrices: Vec<Buffer<f32>> = (0..3).map(|_| buffer(&device)).collect();
        let c: Buffer<f32> = buffer(&device);
        let before: Buffer<f32> = buffer(&device);
        let halves: Buffer<bf16> = buffer(&device);
        let epilogue = Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator() + e.tensor("bias", Ty::F32);
            e.output("before", x.clone());
            x.relu()
        });
        let epilogue = epilogue.unwrap();
        let (of_a, of_c) = ("(64,32):(32,1)", "(64,64):(64,1)");
        let (a, b) = (view(&matrices[0], of_a), view(&matrices[1], of_a));
        let (of_c, of_before) = (view_mut(&c, of_c), view_mut(&before, of_c));
        let bias = view(&matrices[2], "(64,64):(0,1)");
        let plain = Gemm::new(&a, &b, &of_c).epilogue(&epilogue);
        let whole = plain
            .clone()
            .tensor("bias", &bias)
            .output("before", &of_before);
        let over_a = view_mut(&matrices[0], "(64,64):(64,1)");
        let refused = [
            plain.output("before", &of_before),
            whole
                .clone()
                .tensor("bias", &view(&matrices[2], "(64,32):(0,1)")),
            whole
                .clone()
                .tensor("bias", &view(&halves, "(64,64):(0,1)")),
            whole.clone().output("before", &over_a),
        ];
        let mut said = Vec::new();
        for call in refused {
            let prepare = || {
                let error = call.prepare().unwrap_err();
                assert!(error.is_epilogue_refused() || error.is_overlap(), "{error}");
                Ok(())
            };
            said.push(loads(&counted(&device, prepare).unwrap()).to_string());
        }
        let last = counted(&device, || whole.prepare().map(drop)).unwrap();
        said.push((loads(&last) > 0).to_string());
        said.join(" ")
    };
    assert_eq!(
        said(
            "calls::what_an_epilogue_refuses_loads_nothing",
            "whole",
            act
        ),
        "0 0 0 0 true"
    );
}

/// A workspace that lies where a product reads is refused, be it a list of rows, the numbers of groups or a matrix of a list behind
/// the first.
#[test]
fn a_workspace_overlaps_nothing_that_a_product_reads() {
    let act = || {
        let device = device();
        let a: Vec<Buffer<f32>> = (0..4).map(|_| buffer(&device)).collect();
        let c: Vec<Buffer<f32>> = (0..2).map(|_| buffer(&device)).collect();
        let numbers: Buffer<u32> = buffer(&device);
        let refused = |product: &Gemm<'_, f32, f32>, address: u64| {
            // SAFETY: nothing is launched.
            let mut memory = unsafe { device.borrow_raw_mut::<u8>(address + 4, 1 << 12) }.unwrap();
            let error = product.prepare_in(&mut memory).unwrap_err();
            assert!(error.is_overlap(), "{error}");
            let text = error.to_string();
            let (from, rest) = text.split_once(" lies at ").unwrap();
            let (_, rest) = rest.split_once(" and ").unwrap();
            let (with, _) = rest.split_once(" at ").unwrap();
            format!("{from} and {with}")
        };
        let residual = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("old", Ty::F32));
        let residual = residual.unwrap();
        let rows = view(&numbers, "64:1");
        let of_c = view_mut(&c[0], "(64,64):(64,1)");
        let old = view(&a[2], "(80,64):(64,1)");
        // A is packed.
        let by_rows = Gemm::new(
            &view(&a[0], "(64,32):(128,2)"),
            &view(&a[1], "(64,32):(32,1)"),
            &of_c,
        );
        let by_rows = by_rows.epilogue(&residual);
        let by_rows = by_rows.tensor_rows("old", &old, &rows);
        let matrix = view(&a[0], "(64,32):(32,1)");
        let experts = view(&a[1], "(64,32,3):(32,1,2048)");
        let grouped = Gemm::new(&matrix, &experts, &of_c)
            .groups(colex_gpu::gemm::Groups::Rows, &view(&numbers, "4:1"));
        let left = [0, 1].map(|i| view(&a[i], "(64,32):(32,1)"));
        let right = [2, 3].map(|i| view(&a[i], "(64,32):(32,1)"));
        let results = [0, 1].map(|i| view_mut(&c[i], "(64,64):(64,1)"));
        let listed = Gemm::lists(&left, &right, &results).unwrap();
        [
            refused(&by_rows, numbers.address()),
            refused(&by_rows, a[2].address()),
            refused(&grouped, numbers.address()),
            refused(&listed, a[1].address()),
            refused(&listed, a[3].address()),
            refused(&listed, c[1].address()),
        ]
        .join("; ")
    };
    assert_eq!(
        said(
            "calls::a_workspace_overlaps_nothing_that_a_product_reads",
            "whole",
            act
        ),
        "the workspace and the rows of old; the workspace and old; the workspace and the vector of offsets; the workspace and A 1; \
         the workspace and B 1; the workspace and C 1"
    );
}

/// Arguments are those of the addresses of each call, be they prepared or bound anew: the fake driver says what a tensor
/// map was encoded of, and the simulator computes.
#[test]
fn a_call_that_was_prepared_for_other_addresses_is_right() {
    let device = Device::simulator(Arch::Sm90a);
    let problem = GemmProblem::new(64, 32, 48);
    let numbers = |count: usize, seed: usize| -> Vec<f16> {
        let number = |i: usize| f16::from_f32(((i * 7 + seed * 13) % 17) as f32 - 8.0);
        (0..count).map(number).collect()
    };
    let mut cases = 0;
    for round in 0..3 {
        for shift in [0, 1, 2, 8] {
            let (a, b) = (numbers(64 * 48 + shift, round), numbers(32 * 48, round + 5));
            let whole = device.upload(&a).unwrap();
            let (da, db) = (whole.slice(shift..).unwrap(), device.upload(&b).unwrap());
            let dc = device.poisoned::<f32>(64 * 32).unwrap();
            on(problem, [&da, &db], &dc).unwrap().run().unwrap();
            let found = dc.download().unwrap();
            for (at, value) in found.iter().enumerate() {
                let (i, j) = (at / 32, at % 32);
                let product = |k: usize| a[shift + i * 48 + k].to_f32() * b[j * 48 + k].to_f32();
                assert_eq!(*value, (0..48).map(product).sum::<f32>());
            }
            let (from, to) = (
                device.upload(&found).unwrap(),
                device.poisoned::<f32>(2048).unwrap(),
            );
            let from = view(&from, "(64,32):(32,1)");
            transpose(&from, &view_mut(&to, "(32,64):(64,1)"), &[1, 0]).unwrap();
            let transposed = to.download().unwrap();
            assert!((0..2048).all(|at| transposed[at] == found[at % 64 * 32 + at / 64]));
            cases += 2;
        }
    }
    println!("law prepared_calls_are_bound_to_their_addresses: {cases} cases");
}

/// A device for every call, as a program beside cudarc makes them: the first asks for the device's limits, later ones
/// ask nothing, and none waits.
#[test]
fn a_device_of_a_context_costs_nothing_the_second_time() {
    let act = || {
        let device = device();
        let (context, stream) = cudarc_stream();
        let cudarc = || Ok(Device::from_cuda(context.clone(), stream.clone()).map(drop)?);
        // Of a context that no device has kept since, the number is asked for; of a stream, its context.
        let default = || Ok(elsewhere(0x9000).map(drop)?);
        let raw = || Ok(beside(&device).map(drop)?);
        let works: [&dyn Fn() -> Result<(), Error>; 3] = [&cudarc, &default, &raw];
        let counts = works.map(|make| {
            let counts = [(); 3].map(|()| counted(&device, make).unwrap());
            assert!(!counts[0].contains_key("cuCtxSynchronize"), "{counts:?}");
            assert_eq!(counts[1], counts[2]);
            format!("{}, then {}", shown(&counts[0]), shown(&counts[1]))
        });
        counts.join("; ")
    };
    let name = "calls::a_device_of_a_context_costs_nothing_the_second_time";
    assert_eq!(
        said(name, "whole", act),
        "none, then none; \
         cuCtxGetDevice 1, cuCtxGetId 1, cuCtxSetCurrent 1, cuDeviceGetAttribute 18, cuDeviceGetName 1, \
         then cuCtxGetId 1; \
         cuStreamGetCtx 1, then cuStreamGetCtx 1"
    );
}

/// Devices of one context are one device, however they were made; those of two contexts are two.
#[test]
fn devices_of_one_context_take_each_others_functions() {
    let act = || {
        let opened = device();
        let (context, stream) = cudarc_stream();
        let other_stream = context.new_stream().unwrap();
        let same = [
            Device::from_cuda(context.clone(), stream.clone()).unwrap(),
            Device::from_cuda(context.clone(), other_stream.clone()).unwrap(),
            // A second owner of the primary context.
            {
                let (again, stream) = cudarc_stream();
                Device::from_cuda(again, stream).unwrap()
            },
            beside(&opened).unwrap(),
            opened.on_new_stream().unwrap(),
            beside(&opened.on_new_stream().unwrap()).unwrap(),
        ];
        let apart = elsewhere(0x9000).unwrap();
        let function = opened.load(&kernel()).unwrap();
        let launch = |device: &Device| device.launch(&function, Launch::new(1, 32), &[7u32.into()]);
        for device in &same {
            assert!(device.is_same_device(&opened) && opened.is_same_device(device));
            launch(device).unwrap();
            assert!(device.load(&kernel()).unwrap().is_same_code(&function));
            let buffer = device.uninitialised::<u8>(16).unwrap();
            opened
                .uninitialised(16)
                .unwrap()
                .copy_from(&buffer)
                .unwrap();
        }
        assert!(!apart.is_same_device(&opened));
        launch(&apart).unwrap_err().to_string()
    };
    let name = "calls::devices_of_one_context_take_each_others_functions";
    assert_eq!(
        said(name, "whole", act),
        "the function is on one Fake and is used with another: all that a call uses must be on one device"
    );
}

/// A context that ends takes its modules with it; one that begins at the same address begins with nothing.
#[test]
fn a_context_at_the_address_of_one_that_ended_begins_anew() {
    let act = || {
        let counting = elsewhere(0x9000).unwrap();
        let load = || {
            // The fake driver has its primary context always at one address.
            let device = Device::gpu(0)?;
            Ok(device.load(&kernel()).map(drop)?)
        };
        let first = counted(&counting, load).unwrap();
        let second = counted(&counting, load).unwrap();
        for counts in [&first, &second] {
            assert_eq!(counts.get("cuModuleLoadDataEx"), Some(&1), "{counts:?}");
            assert_eq!(counts.get("cuModuleUnload"), Some(&1), "{counts:?}");
            assert_eq!(
                counts.get("cuDevicePrimaryCtxRelease_v2"),
                Some(&1),
                "{counts:?}"
            );
        }
        // While an owner lives, what was loaded stays, though all devices are gone.
        let (context, stream) = cudarc_stream();
        let load = || {
            let device = Device::from_cuda(context.clone(), stream.clone())?;
            Ok(device.load(&kernel()).map(drop)?)
        };
        counted(&counting, load).unwrap();
        shown(&counted(&counting, load).unwrap())
    };
    let name = "calls::a_context_at_the_address_of_one_that_ended_begins_anew";
    assert_eq!(said(name, "whole", act), "none");
}

/// How often a function was called.
fn count(counts: &Counts, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0)
}

/// How often work called each function, also where it waits for a stream in between, which begins the other counts anew.
fn in_all(device: &Device, work: impl FnOnce() -> Result<(), Error>) -> Result<Counts, Error> {
    let totals = || {
        device.synchronize()?;
        let file = std::env::var_os(TOTALS).expect("the variable names the file with the totals");
        Ok::<_, Error>(read(file))
    };
    let before = totals()?;
    work()?;
    let mut after = totals()?;
    for (name, total) in &mut after {
        *total -= count(&before, name);
    }
    Ok(after)
}

/// Runs a product with parts of K, which leaves memory for them with the device, and one without a K, which leaves zeros.
fn leaves_memory(device: &Device) -> Result<(), Error> {
    let [a, b, mut c] = [(); 3].map(|()| buffer::<bf16>(device));
    for k in [8192, 0] {
        let product = GemmProblem::new(64, 64, k).on(&a, &b, &mut c)?;
        product.run()?;
    }
    Ok(())
}

/// A context that calls have left memory in ends with its last handle, and all memory and modules before it.
#[test]
fn a_context_ends_with_the_memory_that_calls_have_left() {
    let act = || {
        let counting = elsewhere(0x9000).unwrap();
        let work = || leaves_memory(&Device::gpu(0)?);
        for counts in [(); 2].map(|()| in_all(&counting, work).unwrap()) {
            let [allocated, freed] =
                ["cuMemAlloc_v2", "cuMemFree_v2"].map(|name| count(&counts, name));
            // Three matrices, the parts, the zeros.
            assert!(allocated >= 5 && allocated == freed, "{counts:?}");
            let [loaded, unloaded] =
                ["cuModuleLoadDataEx", "cuModuleUnload"].map(|name| count(&counts, name));
            assert!(loaded > 0 && loaded == unloaded, "{counts:?}");
            assert_eq!(
                count(&counts, "cuDevicePrimaryCtxRelease_v2"),
                1,
                "{counts:?}"
            );
        }
        // Where a program has the context too, it goes on with what a graph of its own may read: the zeros.
        let (context, stream) = cudarc_stream();
        let counts = in_all(&counting, || {
            let beside = Device::from_cuda(context.clone(), stream.clone())?;
            work()?;
            drop(beside);
            Ok(())
        });
        let counts = counts.unwrap();
        let [allocated, freed] = ["cuMemAlloc_v2", "cuMemFree_v2"].map(|name| count(&counts, name));
        assert_eq!(allocated, freed + 1, "{counts:?}");
        "ended".to_string()
    };
    let name = "calls::a_context_ends_with_the_memory_that_calls_have_left";
    assert_eq!(said(name, "whole", act), "ended");
}

/// A context of the program that begins at the address of one that the program has destroyed begins with nothing: neither with its
/// functions nor with the memory that calls have left there.
#[test]
fn a_callers_context_at_the_address_of_one_that_ended_begins_anew() {
    let act = || {
        let counting = device();
        let work = || {
            let device = elsewhere(0x9000)?;
            leaves_memory(&device)?;
            let function = device.load(&kernel())?;
            Ok(device.launch(&function, Launch::new(1, 32), &[7u32.into()])?)
        };
        let first = in_all(&counting, work).unwrap();
        let again = in_all(&counting, work).unwrap();
        assert_eq!(count(&again, "cuModuleLoadDataEx"), 0, "{again:?}");
        // The matrices alone.
        assert_eq!(count(&again, "cuMemAlloc_v2"), 3, "{again:?}");
        // SAFETY: no device of the context lives, and the fake driver follows no handle.
        let ended = unsafe { sys::cuCtxDestroy_v2(std::ptr::without_provenance_mut(0x9000)) };
        assert_eq!(ended, sys::CUresult::CUDA_SUCCESS);
        let anew = in_all(&counting, work).unwrap();
        let names = ["cuModuleLoadDataEx", "cuMemAlloc_v2"];
        assert_eq!(
            names.map(|name| count(&anew, name)),
            names.map(|name| count(&first, name)),
            "{anew:?}"
        );
        // What ended with the context is not freed in the new one.
        assert_eq!(count(&anew, "cuMemFree_v2"), 3, "{anew:?}");
        assert_eq!(count(&anew, "cuModuleUnload"), 0, "{anew:?}");
        "anew".to_string()
    };
    let name = "calls::a_callers_context_at_the_address_of_one_that_ended_begins_anew";
    assert_eq!(said(name, "whole", act), "anew");
}

/// A driver gives a new stream the handle of one that has ended, whose kernels may still run: a call there takes none of its memory. A driver
/// that does not tell its streams apart has no memory kept for them.
#[test]
fn a_stream_at_the_handle_of_one_that_ended_takes_none_of_its_memory() {
    let act = || {
        let device = device();
        let (context, _) = cudarc_stream();
        let problem = GemmProblem::new(64, 64, 8192);
        let run = |beside: &Device| {
            let [a, b, mut c] = [(); 3].map(|()| buffer::<bf16>(beside));
            let mut product = || counted(&device, || problem.on(&a, &b, &mut c)?.run()).unwrap();
            let allocated = [product(), product()].map(|counts| count(&counts, "cuMemAlloc_v2"));
            (beside.raw().unwrap().stream.addr(), allocated)
        };
        let own = || run(&device.on_new_stream().unwrap());
        let callers = || {
            let stream = context.new_stream().unwrap();
            let (context, stream) = (context.cu_ctx().cast(), stream.cu_stream().cast());
            // SAFETY: the handles live as long as the device, and the fake driver follows none of them.
            run(&unsafe { Device::from_raw(RawStream { context, stream }) }.unwrap())
        };
        let of_cudarc = || {
            let stream = context.new_stream().unwrap();
            run(&Device::from_cuda(context.clone(), stream).unwrap())
        };
        let works: [&dyn Fn() -> (usize, [u64; 2]); 3] = [&own, &callers, &of_cudarc];
        let found = works.map(|work| {
            let [(first, of_first), (second, of_second)] = [work(), work()];
            assert_eq!(of_first, of_second);
            format!("{} {of_first:?}", first == second)
        });
        found.join("; ")
    };
    let name = "calls::a_stream_at_the_handle_of_one_that_ended_takes_none_of_its_memory";
    assert_eq!(
        said(name, "reused", act),
        "true [1, 0]; true [1, 0]; true [1, 0]"
    );
    assert_eq!(
        said(name, "unnumbered", act),
        "false [1, 1]; false [1, 1]; false [1, 1]"
    );
}

/// What a program loads through raw handles stays loaded between its devices, in more than one context, until it is
/// cleared; at the address of a context that ended it begins anew.
#[test]
fn devices_of_raw_handles_find_what_was_loaded() {
    let act = || {
        let counting = device();
        let load = |context: usize| {
            counted(&counting, || {
                Ok(elsewhere(context)?.load(&kernel()).map(drop)?)
            })
            .unwrap()
        };
        let first = [0x9000, 0xa000].map(load);
        for counts in &first {
            assert_eq!(counts.get("cuModuleLoadDataEx"), Some(&1), "{counts:?}");
        }
        for _ in 0..3 {
            for context in [0x9000, 0xa000] {
                assert_eq!(shown(&load(context)), "cuCtxGetId 1");
            }
        }
        let clear = || {
            elsewhere(0x9000)?.clear_module_cache();
            Ok(())
        };
        let cleared = counted(&counting, clear).unwrap();
        assert_eq!(cleared.get("cuModuleUnload"), Some(&1), "{cleared:?}");
        let again =
            [0x9000, 0xa000].map(|context| load(context).contains_key("cuModuleLoadDataEx"));
        format!("{again:?}")
    };
    let name = "calls::devices_of_raw_handles_find_what_was_loaded";
    assert_eq!(said(name, "whole", act), "[true, false]");
}

/// What cannot be borrowed, and what no device can be made of, in the words of the error.
#[test]
fn raw_handles_that_do_not_fit_are_refused() {
    let act = || {
        let device = device();
        let raw = device.raw().unwrap();
        let null = std::ptr::null_mut();
        let stranger = std::ptr::without_provenance_mut(0x77);
        let made = |context, stream| {
            // SAFETY: the fake driver follows no handle.
            let made = unsafe { Device::from_raw(RawStream { context, stream }) };
            made.unwrap_err().to_string()
        };
        let borrowed = |device: &Device, address, length| {
            // SAFETY: nothing is launched.
            let borrowed = unsafe { device.borrow_raw_mut::<f32>(address, length) };
            borrowed.err().unwrap().to_string()
        };
        let simulator = Device::simulator(Arch::Sm90a);
        let (_, stream) = cudarc_stream();
        let slice = stream.clone_htod(&[1f32]).unwrap();
        let other = device.borrow_slice(&slice).err().unwrap();
        assert!(other.is_other_device() && simulator.raw().is_none());
        let said = [
            made(null, raw.stream),
            made(stranger, raw.stream),
            made(raw.context, stranger),
            borrowed(&device, 0, 1),
            borrowed(&device, 0x7002, 1),
            borrowed(&device, u64::MAX - 7, 3),
            borrowed(&simulator, 0x7000, 1),
            other.to_string(),
        ];
        said.join("\n")
    };
    let name = "calls::raw_handles_that_do_not_fit_are_refused";
    let expected = [
        "the context is null: give the `CUcontext` that the program works in",
        "the stream belongs to another context than the device's",
        "cuStreamGetCtx returned code 400 (400): what the driver says",
        "0x0 is not the address of an element: it must be a multiple of 4, and not 0",
        "0x7002 is not the address of an element: it must be a multiple of 4, and not 0",
        "3 elements from 0xfffffffffffffff8 on end beyond the last address",
        "the simulator of sm_90a does not take raw memory: its memory is made by `upload` and `zeros`, so that every \
         access can be checked",
        "a slice of cudarc is borrowed by a device of cudarc's context and stream: make the device by `Device::from_cuda`",
    ];
    assert_eq!(said(name, "whole", act), expected.join(" / "));
}

/// Eight threads, each with devices of its own of one context, call the same few products and copies: each kernel is
/// made once.
#[test]
fn threads_share_what_was_made() {
    let act = || {
        let device = device();
        let (context, _) = cudarc_stream();
        let buffers: Arc<Vec<Buffer<bf16>>> = Arc::new((0..6).map(|_| buffer(&device)).collect());
        let biased = Epilogue::new(Ty::F32, |e| {
            (e.accumulator() + e.tensor("bias", Ty::Bf16).to(Ty::F32)).to(Ty::Bf16)
        });
        let biased = biased.unwrap();
        let work = |thread: usize, round: usize| {
            let at = |i: usize| &buffers[(thread + round + i) % 6];
            let n = [512, 384, 256][(thread + round) % 3];
            let product = on(GemmProblem::new(256, n, 512), [at(0), at(1)], at(2))?;
            let bias = view(at(5), &format!("(256,{n}):(0,1)"));
            product.epilogue(&biased).tensor("bias", &bias).run()?;
            let from = view(at(3), "(256,512):(512,1)");
            copy(&from, &view_mut(at(4), "(256,512):(1,256)"))
        };
        let all = || {
            std::thread::scope(|scope| {
                let spawn = |thread| {
                    let (work, context) = (&work, context.clone());
                    scope.spawn(move || {
                        (0..50).try_for_each(|round| {
                            let stream = context.new_stream().unwrap();
                            let beside = Device::from_cuda(context.clone(), stream)?;
                            let function = beside.load(&kernel())?;
                            beside.launch(&function, Launch::new(1, 32), &[7u32.into()])?;
                            work(thread, round)
                        })
                    })
                };
                let threads: Vec<_> = (0..8).map(spawn).collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().unwrap())
            })
        };
        let counts = counted(&device, all).unwrap();
        assert_eq!(counts["cuLaunchKernelEx"], 8 * 50 * 3);
        // One plan of products, one of copies; the kernel of the test may be loaded by several threads at once.
        let made = counts["cuModuleLoadDataEx"];
        assert!((3..=10).contains(&made), "{counts:?}");
        assert!(
            counts["cuTensorMapEncodeTiled"] <= 3 * 6 * 3 + 2 * 6,
            "{counts:?}"
        );
        "done".to_string()
    };
    assert_eq!(
        said("calls::threads_share_what_was_made", "whole", act),
        "done"
    );
}

/// Eight threads, each with a device of its own of one context, prepare attention and run it, with and without parts of the keys:
/// they make what one thread would, and what was made before only launches.
#[test]
fn threads_share_what_was_made_for_attention() {
    let act = || {
        let device = device();
        let (context, _) = cudarc_stream();
        let buffers: Arc<Vec<Buffer<bf16>>> = Arc::new((0..6).map(|_| buffer(&device)).collect());
        let work = |beside: &Device, thread: usize, round: usize| {
            let at = |i: usize| &buffers[(thread + round + i) % 6];
            let of =
                |length: i64| format!("(4,8,{length},64):({},{},64,1)", 512 * length, 64 * length);
            let keys = [256, 128][(thread + round) % 2];
            let (k, v) = (view(at(1), &of(keys)), view(at(2), &of(keys)));
            let one = Attention::new(&view(at(0), &of(256)), &k, &v, &view_mut(at(3), &of(256)));
            let one = one.prepare()?;
            assert_eq!(one.plan().splits, 1, "{one}");
            one.run(beside)?;
            // A step of decoding: the parts of its keys have memory.
            let long = "(1,4,2048,64):(524288,131072,64,1)";
            let short = "(1,4,1,64):(256,64,64,1)";
            let (k, v) = (view(at(1), long), view(at(2), long));
            let step = Attention::new(&view(at(4), short), &k, &v, &view_mut(at(5), short));
            let step = step.prepare()?;
            assert!(step.plan().splits > 1, "{step}");
            step.run(beside)
        };
        let threads = || {
            std::thread::scope(|scope| {
                let spawn = |thread| {
                    let (work, context) = (&work, context.clone());
                    scope.spawn(move || {
                        let stream = context.new_stream().unwrap();
                        let beside = Device::from_cuda(context.clone(), stream)?;
                        (0..12).try_for_each(|round| work(&beside, thread, round))
                    })
                };
                let threads: Vec<_> = (0..8).map(spawn).collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().unwrap())
            })
        };
        let one_thread = || {
            let all = (0..8).flat_map(|thread| (0..12).map(move |round| (thread, round)));
            all.into_iter()
                .try_for_each(|(thread, round)| work(&device, thread, round))
        };
        const MADE: [&str; 2] = ["cuModuleLoadDataEx", "cuTensorMapEncodeTiled"];
        let made = |counts: &Counts| MADE.map(|name| counts.get(name).copied().unwrap_or(0));
        let at_once = counted(&device, threads).unwrap();
        // A launch of each call, and one that combines the parts.
        assert_eq!(at_once["cuLaunchKernelEx"], 8 * 12 * 3);
        let again = counted(&device, threads).unwrap();
        assert_eq!(again["cuLaunchKernelEx"], 8 * 12 * 3);
        assert_eq!(made(&again), [0, 0], "{again:?}");
        device.clear_module_cache();
        let one = counted(&device, one_thread).unwrap();
        assert!(made(&one)[0] >= 3, "{one:?}");
        assert_eq!(made(&at_once), made(&one));
        "done".to_string()
    };
    assert_eq!(
        said(
            "calls::threads_share_what_was_made_for_attention",
            "whole",
            act
        ),
        "done"
    );
}

/// Eight threads in three contexts at once, each with a device of its own: every launch is of a function of the context of
/// its stream, as the fake driver demands, while one thread drops what its context has loaded.
#[test]
fn threads_work_in_several_contexts() {
    let act = || {
        let primary = device();
        let work = |thread: usize| {
            let device = match thread % 3 {
                0 => primary.on_new_stream()?,
                1 => elsewhere(0x9000)?,
                _ => elsewhere(0xa000)?,
            };
            let memory: Vec<Buffer<bf16>> = (0..3).map(|_| buffer(&device)).collect();
            for round in 0..40 {
                let n = [512, 384, 256][(thread + round) % 3];
                on(
                    GemmProblem::new(256, n, 512),
                    [&memory[0], &memory[1]],
                    &memory[2],
                )?
                .run()?;
                let from = view(&memory[0], "(256,512):(512,1)");
                copy(&from, &view_mut(&memory[1], "(256,512):(1,256)"))?;
                let function = device.load(&kernel())?;
                device.launch(&function, Launch::new(1, 32), &[7u32.into()])?;
                if thread == 4 && round % 10 == 9 {
                    device.clear_module_cache();
                }
            }
            Ok(())
        };
        let all = || {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || work(i))).collect();
                threads
                    .into_iter()
                    .try_for_each(|thread| thread.join().unwrap())
            })
        };
        let counts = counted(&primary, all).unwrap();
        counts["cuLaunchKernelEx"].to_string()
    };
    assert_eq!(
        said("calls::threads_work_in_several_contexts", "whole", act),
        (8 * 40 * 3).to_string()
    );
    println!("law threads_work_in_several_contexts: {} cases", 8 * 40 * 3);
}

/// A bench's launch of the same kernel makes one call of the driver, with the kernel and the arguments of the call, and the simulator
/// has none.
#[test]
fn bare_launches_only_call_the_driver() {
    let act = || {
        let device = device();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
        );
        let product = on(GemmProblem::new(256, 512, 512), [&a, &b], &c).unwrap();
        let product = product.prepare().unwrap();
        let rows = view(&a, "(256,512):(512,1)");
        let columns = CopyCall::new(&rows, &view_mut(&c, "(256,512):(1,256)"), None).unwrap();
        let all = [
            product.bare_launches().unwrap(),
            columns.bare_launches().unwrap(),
        ];
        for bare in all {
            let run = || bare.iter().try_for_each(|one| one.run());
            let counts = counted(&device, || Ok(run()?)).unwrap();
            // The fake driver also counts how many of the launches may begin early.
            let calls = counts.keys().filter(|name| name.starts_with("cu"));
            assert_eq!(calls.collect::<Vec<_>>(), ["cuLaunchKernelEx"]);
            assert_eq!(counts["cuLaunchKernelEx"], 1);
        }
        "done".to_string()
    };
    assert_eq!(
        said("calls::bare_launches_only_call_the_driver", "whole", act),
        "done"
    );
}

/// Ten times what a call may take on a machine that does nothing else.
#[test]
fn repeated_calls_take_microseconds() {
    let act = || {
        let device = device();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
        );
        let problem = GemmProblem::new(256, 512, 512);
        let rows = view(&a, "(256,512):(512,1)");
        let columns = view_mut(&c, "(256,512):(1,256)");
        let transposed = view_mut(&c, "(512,256):(256,1)");
        let flat = (view(&a, "65536:1"), view_mut(&c, "65536:1"));
        let of_products: [(&str, u64, Work<'_>); 4] = [
            ("gemm", 200, Box::new(|| on(problem, [&a, &b], &c)?.run())),
            ("copy", 100, Box::new(|| copy(&flat.0, &flat.1))),
            ("copy, transposed", 100, Box::new(|| copy(&rows, &columns))),
            (
                "transpose",
                100,
                Box::new(|| transpose(&rows, &transposed, &[1, 0])),
            ),
        ];
        let (q, scale) = (buffer::<u8>(&device), buffer::<f32>(&device));
        let bytes = view_mut(&q, "(256,512):(512,1)");
        let scale = view_mut(&scale, "1:1");
        let named = |(name, most, work): (&str, u64, _)| (name.to_string(), most, work);
        let mut works: Vec<(String, u64, Work<'_>)> = of_products.map(named).into();
        // Every call between products. Those in parts also take memory of the stream.
        for (name, work, _) in super::between::entries(&device) {
            works.push((name, 300, work));
        }
        works.push((
            "quantise by a computed scale".to_string(),
            600,
            Box::new(|| {
                let call = Quantise::new(Ty::E4m3, &rows, &bytes);
                call.tensor_scale(&scale).run()
            }),
        ));
        for (name, most, work) in works {
            work().unwrap();
            let mut times: Vec<Duration> = (0..201)
                .map(|_| {
                    let started = Instant::now();
                    work().unwrap();
                    started.elapsed()
                })
                .collect();
            times.sort();
            let median = times[100];
            eprintln!("{name}: {median:?}");
            assert!(
                median < Duration::from_micros(most),
                "{name} takes {median:?}"
            );
        }
        "done".to_string()
    };
    assert_eq!(
        said("calls::repeated_calls_take_microseconds", "whole", act),
        "done"
    );
}

/// A line of a file of plans: the problem, its plan, and a checksum of both (FNV-1a).
fn line_of_plans(problem: &str, plan: &str) -> String {
    let entry = format!("{problem}\t{plan}");
    let sum = entry.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{entry}\t{sum:016x}")
}

/// What is measured is kept in the file and taken from it, also by another process; what the list no longer has, what is
/// damaged and what belongs to another device is measured again.
#[test]
fn measured_plans_are_kept_in_a_file() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let device = device();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer(&device),
            buffer::<bf16>(&device),
        );
        let problem = GemmProblem::new(256, 512, 512);
        let taken = |measured: &Autotune| {
            let c = Box::leak(Box::new(c.clone()));
            let product = problem.on(&a, &b, c).unwrap();
            let call = product.autotune(measured).prepare().unwrap();
            call.plan().unwrap().to_string()
        };
        let entries = || -> Vec<String> {
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.map(str::to_string).collect()
        };
        let measured = Autotune::open(&file).unwrap();
        assert!(measured.is_empty());
        let mut first = String::new();
        let counts = counted(&device, || {
            first = taken(&measured);
            Ok(())
        });
        let counts = counts.unwrap();
        assert!(
            shown(&counts).contains("cuMemFree_v2"),
            "{}",
            shown(&counts)
        );
        assert_eq!((measured.len(), entries().len()), (1, 1));
        assert!(
            entries()[0].contains(&format!("\t{first}\t")),
            "{:?}",
            entries()
        );
        // The same file in another process, and again here.
        for again in [&measured, &Autotune::open(&file).unwrap()] {
            let counts = counted(&device, || {
                assert_eq!(taken(again), first);
                Ok(())
            });
            let counts = counts.unwrap();
            assert!(
                !shown(&counts).contains("cuMemFree_v2"),
                "{}",
                shown(&counts)
            );
        }
        // Another plan of the list, which another process has found since.
        let (problem_text, _) = entries()[0]
            .split_once('\t')
            .map(|(p, q)| (p.to_string(), q.to_string()))
            .unwrap();
        let majors = [Major::Second, Major::Second, Major::Second];
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::Bf16,
            majors,
            vectors: [8; 3],
            beta: false,
            gated: false,
        };
        let plans = GemmPlan::candidates(operands, Arch::Sm90a);
        let other = plans
            .iter()
            .map(GemmPlan::to_string)
            .find(|plan| *plan != first && !plan.contains("parts"))
            .unwrap();
        let with = |text: String| {
            std::fs::write(&file, text).unwrap();
            taken(&Autotune::open(&file).unwrap())
        };
        let whole = line_of_plans(&problem_text, &other);
        assert_eq!(with(format!("{whole}\n")), other);
        // The last entry of a problem is taken.
        let before = line_of_plans(&problem_text, &first);
        assert_eq!(with(format!("{before}\n{whole}\n")), other);
        let elsewhere = |of: &str, to: &str| line_of_plans(&problem_text.replace(of, to), &other);
        let strange = [
            line_of_plans(&problem_text, "Hopper bf16 to bf16, tile 8x8x8"),
            line_of_plans(&problem_text, &other[..other.len() / 2]),
            elsewhere("sm_90a", "sm_80"),
            elsewhere("256x512", "257x512"),
            // Without a checksum, with a part of it, and with that of another plan.
            format!("{problem_text}\t{other}\n"),
            whole[..whole.len() - 1].to_string(),
            whole.replace(&other, &first),
            "\u{0}\u{1}\t\t\n\tx".to_string(),
        ];
        for text in strange {
            assert_eq!(with(text), first);
            assert_eq!(
                entries().last().unwrap(),
                &line_of_plans(&problem_text, &first)
            );
        }
        std::fs::remove_file(&file).unwrap();
        let gone = Autotune::open(file.join("x")).unwrap_err().to_string();
        gone.replace(&file.display().to_string(), "FILE")
    };
    assert_eq!(
        said("calls::measured_plans_are_kept_in_a_file", "whole", act),
        "the file of plans FILE/x cannot be used: No such file or directory (os error 2)"
    );
}

/// A product whose rows begin elsewhere in memory is measured on its own: at lines, at sectors or between them. Pitches of one kind have one
/// entry.
#[test]
fn law_rows_that_begin_elsewhere_are_measured_on_their_own() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let device = device();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer(&device),
            buffer::<bf16>(&device),
        );
        let measured = Autotune::open(&file).unwrap();
        let kinds = [
            ("lines", [512, 576]),
            ("sectors", [528, 560]),
            ("elements", [520, 536]),
        ];
        for operand in Operand::ALL {
            for (_, pitches) in kinds {
                for pitch in pitches {
                    let problem = GemmProblem::new(256, 512, 512).leading(operand, pitch);
                    let product = on(problem, [&a, &b], &c).unwrap();
                    product.autotune(&measured).prepare().unwrap();
                }
            }
        }
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let mut found: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(", rows at "))
            .map(|(_, rest)| rest.split('\t').next().unwrap())
            .collect();
        found.sort_unstable();
        assert_eq!(measured.len(), found.len());
        found.join("; ")
    };
    let name = "calls::law_rows_that_begin_elsewhere_are_measured_on_their_own";
    assert_eq!(
        said(name, "whole", act),
        "elements, lines, lines; lines, elements, lines; lines, lines, elements; lines, lines, lines; lines, lines, sectors; \
         lines, sectors, lines; sectors, lines, lines"
    );
    println!("law gemm.tuned_rows: 18 cases");
}

/// Attention is measured and kept as products are, in the same file: the entry is taken again, also by another process, and what
/// the list no longer has is measured again. Packed sequences and keys in pages are measured with lengths of the library's own, so
/// that their entries name the sequences and the longest. A call with a method is not measured.
#[test]
fn measured_plans_of_attention_are_kept_in_a_file() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let device = device();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let queries = view(&q, "(1,8,200,64):(102400,12800,64,1)");
        let keys = view(&k, "(1,2,300,64):(38400,19200,64,1)");
        let output = view_mut(&o, "(1,8,200,64):(102400,12800,64,1)");
        let call = Attention::new(&queries, &keys, &keys, &output);
        let taken = |measured: &Autotune| {
            let call = call.clone().autotune(measured).prepare().unwrap();
            call.plan().to_string()
        };
        let entries = || -> Vec<String> {
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.map(str::to_string).collect()
        };
        let measured = Autotune::open(&file).unwrap();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer(&device),
            buffer::<bf16>(&device),
        );
        let product = on(GemmProblem::new(256, 512, 512), [&a, &b], &c).unwrap();
        product.autotune(&measured).prepare().unwrap();
        let mut first = String::new();
        let counts = counted(&device, || {
            first = taken(&measured);
            Ok(())
        });
        let counts = counts.unwrap();
        assert!(counts.contains_key("cuMemFree_v2"), "{}", shown(&counts));
        assert_eq!((measured.len(), entries().len()), (2, 2));
        let entry = entries()[1].clone();
        assert!(entry.contains(&format!("\t{first}\t")), "{entry}");
        for again in [&measured, &Autotune::open(&file).unwrap()] {
            let counts = counted(&device, || {
                assert_eq!(taken(again), first);
                // The scale is no part of the entry.
                call.clone().scale(3.0).autotune(again).prepare().map(drop)
            });
            let counts = counts.unwrap();
            assert!(!counts.contains_key("cuMemFree_v2"), "{}", shown(&counts));
        }
        // Another plan of the list, which another process has found since, is taken; one that no list has is measured again.
        let (problem, _) = entry.split_once('\t').unwrap();
        let usual = call.plan().unwrap();
        let other = AttentionPlan {
            turns: !usual.turns,
            ..usual
        };
        let with = |text: String| {
            std::fs::write(&file, text).unwrap();
            taken(&Autotune::open(&file).unwrap())
        };
        let other = other.to_string();
        assert_eq!(with(line_of_plans(problem, &other)), other);
        for text in [
            line_of_plans(problem, "Hopper bf16, features 64, tile 8x8"),
            line_of_plans(&problem.replace("300 keys", "301 keys"), &other),
        ] {
            assert_eq!(with(text), first);
            assert_eq!(entries().last(), Some(&entry));
        }
        // What is not measured.
        let before = entries().len();
        let measured = Autotune::open(&file).unwrap();
        let method = call
            .clone()
            .autotune(&measured)
            .method(AttentionMethod::Ampere);
        assert_eq!(
            method.prepare().unwrap().plan().method,
            AttentionMethod::Ampere
        );
        let numbers = buffer::<u32>(&device);
        let offsets = view(&numbers, "3:1");
        let (rows, keys) = (
            view(&q, "(200,8,64):(512,64,1)"),
            view(&k, "(300,2,64):(128,64,1)"),
        );
        let output = view_mut(&o, "(200,8,64):(512,64,1)");
        assert_eq!(entries().len(), before);
        // What is measured without its numbers on the device, once each.
        let packed = Attention::new(&rows, &keys, &keys, &output)
            .query_offsets(&offsets, 100)
            .key_offsets(&offsets, 100);
        let table = buffer::<i32>(&device);
        let (table, lengths) = (view(&table, "(2,9):(9,1)"), view(&numbers, "2:1"));
        let pool = view(&k, "(50,2,16,64):(8192,64,256,1)");
        let (queries, output) = (
            view(&q, "(2,8,3,64):(1536,192,64,1)"),
            view_mut(&o, "(2,8,3,64):(1536,192,64,1)"),
        );
        let paged = Attention::new(&queries, &pool, &pool, &output).pages(&table, &lengths, 130);
        for (i, (call, name)) in [
            (
                packed,
                "up to 100 queries in 200 rows, up to 100 keys in 300 rows",
            ),
            (paged, "3 queries, up to 130 keys in 18 pages of 16"),
        ]
        .into_iter()
        .enumerate()
        {
            let taken = |measured| {
                let prepared = call.clone().autotune(measured).prepare().unwrap();
                prepared.plan().to_string()
            };
            let plan = taken(&measured);
            let entry = entries().last().cloned().unwrap();
            assert_eq!(entries().len(), before + i + 1);
            assert!(entry.contains(name), "{entry}");
            assert!(entry.contains(&format!("\t{plan}\t")), "{entry}");
            assert_eq!(taken(&Autotune::open(&file).unwrap()), plan);
            assert_eq!(entries().len(), before + i + 1);
        }
        std::fs::remove_file(&file).unwrap();
        "done".to_string()
    };
    let name = "calls::measured_plans_of_attention_are_kept_in_a_file";
    assert_eq!(said(name, "whole", act), "done");
}

/// A call whose measurement finds no memory takes the plan of the model: the fake driver gives at most a mebibyte, and a copy of a
/// tensor of as much needs more. Nothing is appended, and later calls do not ask again.
#[test]
fn calls_without_memory_for_a_measurement_take_the_plan_of_the_model() {
    let act = || {
        let name = format!("colex-unmeasured-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let measured = Autotune::open(&file).unwrap();
        let device = device();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let queries = view(&q, "(1,8,200,64):(102400,12800,64,1)");
        // The reach is the whole buffer, of which the call reads a part.
        let keys = view(&k, "(1,2,300,64):(38400,505024,64,1)");
        let output = view_mut(&o, "(1,8,200,64):(102400,12800,64,1)");
        let call = Attention::new(&queries, &keys, &keys, &output);
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer(&device),
            buffer::<bf16>(&device),
        );
        let product = || on(GemmProblem::new(512, 512, 1024), [&a, &b], &c).unwrap();
        let usual = (
            call.plan().unwrap().to_string(),
            product().prepare().unwrap().plan().unwrap().to_string(),
        );
        for round in 0..3 {
            let mut found = (String::new(), String::new());
            let counts = counted(&device, || {
                let call = call.clone().autotune(&measured).prepare()?;
                let product = product().autotune(&measured).prepare()?;
                found.0 = call.plan().to_string();
                found.1 = product.plan().unwrap().to_string();
                Ok(())
            });
            let counts = counts.unwrap();
            assert_eq!(found, usual, "round {round}");
            // The driver refuses the memory of both measurements, and gives the names of its errors.
            let refused = counts.get("cuGetErrorName").copied().unwrap_or(0);
            assert_eq!(
                refused,
                if round == 0 { 2 } else { 0 },
                "{}",
                shown(&counts)
            );
        }
        assert!(measured.is_empty());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(text.trim(), "");
        "done".to_string()
    };
    let name = "calls::calls_without_memory_for_a_measurement_take_the_plan_of_the_model";
    assert_eq!(said(name, "whole", act), "done");
}

/// Threads that ask for one product measure it once.
#[test]
fn threads_measure_a_product_once() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let measured = Autotune::open(&file).unwrap();
        let device = device();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (a, b) = (buffer::<bf16>(&device), buffer(&device));
                    let c = Box::leak(Box::new(buffer::<bf16>(&device)));
                    for n in [256, 512] {
                        let product = GemmProblem::new(n, 512, 512).on(&a, &b, c).unwrap();
                        product.autotune(&measured).run().unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty()).count();
        format!(
            "{lines} lines, {} products, {:?}",
            measured.len(),
            measured.unsaved()
        )
    };
    assert_eq!(
        said("calls::threads_measure_a_product_once", "whole", act),
        "2 lines, 2 products, []"
    );
}

/// Inside a capture, and on the simulator, nothing is measured: the model's plan is taken, and not kept.
#[test]
fn nothing_is_measured_inside_a_capture() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let measured = Autotune::open(&file).unwrap();
        let device = on_cudarc();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer(&device),
            buffer::<bf16>(&device),
        );
        let product = on(GemmProblem::new(256, 512, 512), [&a, &b], &c).unwrap();
        product.prepare().unwrap();
        let product = product.autotune(&measured);
        let inside = captured(&device, || product.run());
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        format!("{inside:?}, {:?}", (measured.len(), text))
    };
    assert_eq!(
        said("calls::nothing_is_measured_inside_a_capture", "whole", act),
        "(Ok(1), Ok(())), (0, \"\")"
    );
}

/// One plan, with which no other one is compared, is not appended: it is the model's.
#[test]
fn one_plan_is_not_measured() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let device = device();
        let [a, b, c] = [(); 3].map(|()| buffer::<bf16>(&device));
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let product = on(GemmProblem::new(256, 512, 512), [&a, &b], &c).unwrap();
        let queries = view(&q, "(1,8,200,64):(102400,12800,64,1)");
        let keys = view(&k, "(1,2,300,64):(38400,19200,64,1)");
        let output = view_mut(&o, "(1,8,200,64):(102400,12800,64,1)");
        let attention = Attention::new(&queries, &keys, &keys, &output);
        let plans = |measured: &Autotune| {
            let product = product.clone().autotune(measured).prepare().unwrap();
            let attention = attention.clone().autotune(measured).prepare().unwrap();
            (product.plan().copied(), *attention.plan())
        };
        let by_model = (
            product.prepare().unwrap().plan().copied(),
            *attention.prepare().unwrap().plan(),
        );
        for few in [0, 1] {
            let measured = Autotune::open(&file).unwrap().candidates(few);
            for _ in 0..2 {
                assert_eq!(plans(&measured), by_model);
                assert_eq!((measured.len(), measured.unsaved()), (0, Vec::new()));
                assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
            }
            if few == 1 {
                // More are measured afterwards.
                let measured = measured.candidates(2);
                plans(&measured);
                assert_eq!(measured.len(), 2);
            }
        }
        std::fs::remove_file(&file).unwrap();
        "done".to_string()
    };
    assert_eq!(
        said("calls::one_plan_is_not_measured", "whole", act),
        "done"
    );
}

/// Where no plan has memory for its parts, none is measured, and nothing is appended: the fake driver gives at most a mebibyte.
#[test]
fn plans_whose_parts_have_no_memory_are_not_measured() {
    let act = || {
        let file = std::env::temp_dir().join(format!("colex-plans-{}", std::process::id()));
        let device = device();
        let [q, k, o] = [(); 3].map(|()| buffer::<bf16>(&device));
        let queries = view(&q, "(1,32,64,64):(131072,4096,64,1)");
        let keys = view(&k, "(1,1,8000,64):(512000,512000,64,1)");
        let output = view_mut(&o, "(1,32,64,64):(131072,4096,64,1)");
        let call = Attention::new(&queries, &keys, &keys, &output);
        let wanted = call.plan().unwrap();
        let bytes = call.workspace().unwrap();
        assert!(wanted.splits > 1 && bytes > 1 << 20, "{wanted}: {bytes}");
        // The first plans differ in one number, and have as many parts.
        let measured = Autotune::open(&file).unwrap().candidates(2);
        for round in 0..2 {
            let counts = counted(&device, || {
                call.clone().autotune(&measured).prepare().map(drop)
            });
            let counts = counts.unwrap();
            let is_measured = counts.contains_key("cuMemFree_v2");
            assert_eq!(is_measured, round == 0, "{}", shown(&counts));
            assert!(measured.is_empty());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
        }
        std::fs::remove_file(&file).unwrap();
        "done".to_string()
    };
    let name = "calls::plans_whose_parts_have_no_memory_are_not_measured";
    assert_eq!(said(name, "whole", act), "done");
}

/// A product by three products of tf32 has its parts in memory of its own, or of the caller, and is then captured with the
/// kernels that write them. Without, a capture refuses it, as one that packs a matrix.
#[test]
fn products_in_high_and_low_parts_are_captured_when_they_are_prepared() {
    let act = || {
        let device = on_cudarc();
        let memory = [(); 3].map(|()| buffer::<f32>(&device));
        let mut said = Vec::new();
        // A and B along K are read where they are; one with other strides is packed before.
        for (layout, launches) in [("(64,48):(48,1)", 3), ("(64,48):(1,64)", 4)] {
            let views = (
                view(&memory[0], layout),
                view(&memory[1], "(32,48):(48,1)"),
                view_mut(&memory[2], "(64,32):(32,1)"),
            );
            let product = Gemm::new(&views.0, &views.1, &views.2).compute(Compute::Tf32x3);
            product.run().unwrap();
            let mut counts = counted(&device, || product.run()).unwrap();
            // For each factor it asks once whether the stream is being captured.
            *counts.get_mut("cuCtxSetCurrent").unwrap() -= 2;
            // The product waits for the kernels that write its factors.
            assert_eq!(counts.remove("launches_that_begin_early"), Some(1));
            assert_eq!(counts, only_launches(launches as u64), "{layout}");
            let (nodes, refused) = captured(&device, || product.run());
            let refused = refused.unwrap_err();
            assert!(refused.is_capturing() && nodes == Ok(0), "{layout}");
            said.push(refused.to_string());
            let call = product.prepare().unwrap();
            let run = captured(&device, || call.run(&device));
            assert_eq!(run, (Ok(launches), Ok(())), "{layout}, prepared");
            // The rows of A and B, three times 48 numbers each.
            let bytes = product.workspace().unwrap();
            assert_eq!(bytes, (64 + 32) * 144 * 4);
            let mut workspace = device.uninitialised::<u8>(bytes).unwrap();
            let run = captured(&device, || product.prepare_in(&mut workspace)?.run(&device));
            assert_eq!(run, (Ok(launches), Ok(())), "{layout}, in a workspace");
        }
        said.dedup();
        said.join("\n")
    };
    let name = "calls::products_in_high_and_low_parts_are_captured_when_they_are_prepared";
    assert_eq!(said(name, "whole", act), NEEDS_MEMORY);
}

/// Processes that measure the same products at once append whole lines to one file, and a later process measures nothing.
#[test]
fn processes_share_a_file_of_plans() {
    const TEST: &str = "calls::processes_share_a_file_of_plans";
    let file = |parent: u32| {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
        folder.join(format!("shared-plans-{parent}"))
    };
    let act = || {
        let measured = Autotune::open(file(std::os::unix::process::parent_id())).unwrap();
        let known = measured.len();
        let device = device();
        let (a, b, c) = (
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
            buffer::<bf16>(&device),
        );
        for n in [128, 256, 512] {
            let product = on(GemmProblem::new(n, 512, 512), [&a, &b], &c).unwrap();
            product.autotune(&measured).run().unwrap();
        }
        format!("{known} {} {:?}", measured.len(), measured.unsaved())
    };
    let said = || said(TEST, "whole", act);
    if std::env::var("FAKE_CUDA_TEST").is_ok() {
        // One of the processes: it acts once, and ends.
        said();
    }
    let found: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(said)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(
        found.iter().all(|said| said.ends_with(" 3 []")),
        "{found:?}"
    );
    let path = file(std::process::id());
    let read = || std::fs::read_to_string(&path).unwrap();
    let (text, later) = (read(), said());
    assert_eq!((later.as_str(), read()), ("3 3 []", text.clone()));
    std::fs::remove_file(&path).unwrap();
    let mut plans = std::collections::BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (problem, plan) = line.split_once('\t').expect("a whole line");
        let first = plans.entry(problem).or_insert(plan);
        assert_eq!(*first, plan, "{problem}");
    }
    assert_eq!(plans.len(), 3, "{text}");
    println!("law processes_share_a_file_of_plans: 5 cases");
}
