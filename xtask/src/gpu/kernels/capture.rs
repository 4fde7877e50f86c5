//! Library calls in a program's own CUDA graph, and from several threads in several contexts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use colex_gpu::cuda::RawStream;
use colex_gpu::cuda::cudarc::driver::{CudaContext, CudaGraph, CudaStream, sys};
use colex_gpu::kernels::{GemmProblem, Operand, View, ViewMut, reference};
use colex_gpu::{Attention, Device, Error, Gemm, copy, gemm, transpose};
use half::bf16;
use libloading::Library;

/// How often a graph runs, each time with other data.
const REPLAYS: usize = 1000;

/// The mode of a capture that forbids most.
const GLOBAL: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;

/// Small integers, other ones for every seed.
fn number(i: usize, seed: usize) -> f32 {
    ((i * 7 + i / 64 * 5 + seed * 13) % 17) as f32 - 8.0
}

fn halves(count: usize, seed: usize) -> Vec<bf16> {
    (0..count)
        .map(|i| bf16::from_f32(number(i, seed)))
        .collect()
}

fn singles(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| number(i, seed)).collect()
}

type CapturedCall<'a> = Box<dyn Fn() -> Result<(), Error> + 'a>;

/// Captures products, copies, transposes and attention into a graph of the program's, in global mode, and runs that with other data
/// each time: the results are those of the same calls outside of a graph, and those of the host.
pub(super) fn replayed(device: &Device) -> Result<String> {
    if device.is_simulator() {
        return Ok("none on the simulator".to_string());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let device = &Device::from_cuda(context, stream.clone())?;
    let (m, n, k, long) = (192_usize, 256, 128, 4096);
    let [a, b] = [m * k, n * k].map(|count| device.uninitialised::<bf16>(count));
    let (a, b) = (a?, b?);
    let [la, lb] = [64 * long; 2].map(|count| device.uninitialised::<bf16>(count));
    let (la, lb) = (la?, lb?);
    let [x, y] = [96 * 64, 80 * 64].map(|count| device.uninitialised::<f32>(count));
    let (x, y) = (x?, y?);
    let [c, d, t] = [m * n; 3].map(|count| device.uninitialised::<bf16>(count));
    let (c, d, t) = (c?, d?, t?);
    let [z, p, q, l] =
        [96 * 80, m * n / 2, m * n / 2, 64 * 64].map(|count| device.uninitialised::<f32>(count));
    let (z, p, q, l) = (z?, p?, q?, l?);
    let [qs, ks] = [4 * 64, 4096 * 64].map(|count| device.uninitialised::<bf16>(count));
    let (qs, ks) = (qs?, ks?);
    let [o, u] = [4 * 64; 2].map(|count| device.uninitialised::<bf16>(count));
    let (o, u) = (o?, u?);
    let mut attended = (o.clone(), u.clone());
    let mut written = (
        c.clone(),
        d.clone(),
        t.clone(),
        z.clone(),
        p.clone(),
        q.clone(),
        l.clone(),
    );

    let [av, bv] = [
        View::new(&a, "(192,128):(128,1)")?,
        View::new(&b, "(256,128):(128,1)")?,
    ];
    // No stride of these is 1: they are packed.
    let scattered = View::new(&a, "(96,64):(256,2)")?;
    let thin = View::new(&b, "(256,64):(128,2)")?;
    let lv = [
        View::new(&la, "(64,4096):(4096,1)")?,
        View::new(&lb, "(64,4096):(4096,1)")?,
    ];
    let xv = [
        View::new(&x, "(96,64):(64,1)")?,
        View::new(&y, "(80,64):(64,1)")?,
    ];
    let c_read = View::new(&c, "(192,256):(256,1)")?;
    let c_written = ViewMut::new(&mut written.0, "(192,256):(256,1)")?;
    let d_written = ViewMut::new(&mut written.1, "(192,256):(1,192)")?;
    let t_written = ViewMut::new(&mut written.2, "(256,192):(192,1)")?;
    let z_written = ViewMut::new(&mut written.3, "(96,80):(1,96)")?;
    let p_written = ViewMut::new(&mut written.4, "(96,256):(256,1)")?;
    let q_written = ViewMut::new(&mut written.5, "(96,256):(256,1)")?;
    let l_written = ViewMut::new(&mut written.6, "(64,64):(64,1)")?;

    let packs = Gemm::new(&scattered, &thin, &p_written);
    let packed = packs.prepare()?;
    let packs_too = Gemm::new(&scattered, &thin, &q_written);
    let mut workspace = device.uninitialised::<u8>(packs_too.workspace()?)?;
    let in_workspace = packs_too.prepare_in(&mut workspace)?;
    ensure!(packed.packed().count() == 2, "nothing is packed: {packed}");
    let (queries, keys) = (qs.view((1, 4, 1, 64))?, ks.view((1, 1, 4096, 64))?);
    let to = attended.0.view_mut((1, 4, 1, 64))?;
    let in_parts = Attention::new(&queries, &keys, &keys, &to).prepare()?;
    let to = attended.1.view_mut((1, 4, 1, 64))?;
    let attends = Attention::new(&queries, &keys, &keys, &to);
    let mut parts = device.uninitialised::<u8>(attends.workspace()?)?;
    let attends = attends.prepare_in(&mut parts)?;
    for call in [&in_parts, &attends] {
        ensure!(call.plan().splits > 1, "no keys are divided: {call}");
    }
    let works: [CapturedCall<'_>; 9] = [
        Box::new(|| gemm(&av, &bv, &c_written)),
        Box::new(|| copy(&c_read, &d_written)),
        Box::new(|| transpose(&c_read, &t_written, &[1, 0])),
        Box::new(|| gemm(&xv[0], &xv[1], &z_written)),
        Box::new(|| packed.run(device)),
        Box::new(|| in_workspace.run(device)),
        Box::new(|| in_parts.run(device)),
        Box::new(|| attends.run(device)),
        Box::new(|| gemm(&lv[0], &lv[1], &l_written)),
    ];
    let write = |seed: usize| -> Result<()> {
        for (at, memory) in [&a, &b, &la, &lb, &qs, &ks].into_iter().enumerate() {
            memory.write(&halves(memory.len(), seed + 3 * at))?;
        }
        for (at, memory) in [&x, &y].into_iter().enumerate() {
            memory.write(&singles(memory.len(), seed + 5 * at))?;
        }
        Ok(())
    };
    let results = || -> Result<(Vec<bf16>, Vec<f32>)> {
        let (mut wide, mut narrow) = (Vec::new(), Vec::new());
        for memory in [&c, &d, &t, &o, &u] {
            narrow.extend(memory.download()?);
            memory.fill_bytes(0xff)?;
        }
        for memory in [&z, &p, &q, &l] {
            wide.extend(memory.download()?);
            memory.fill_bytes(0xff)?;
        }
        Ok((narrow, wide))
    };
    write(0)?;
    works.iter().try_for_each(|work| work())?;
    let graph = captured(&stream, || works.iter().try_for_each(|work| work()))?;
    // A product of another type was never made: it is refused, and the capture goes on.
    let bytes = device.uninitialised::<i8>(64)?;
    let mut sums = device.uninitialised::<i32>(64)?;
    let rows = View::new(&bytes, "(8,8):(8,1)")?;
    let sums = ViewMut::new(&mut sums, "(8,8):(8,1)")?;
    captured(&stream, || match gemm(&rows, &rows, &sums) {
        Err(error) if error.is_capturing() => works[0](),
        other => other,
    })
    .context("a capture with a call that is refused")?;
    for round in 0..REPLAYS {
        write(round)?;
        results()?;
        graph.launch()?;
        let found = results()?;
        works.iter().try_for_each(|work| work())?;
        let expected = results()?;
        ensure!(
            found == expected,
            "replay {round} has other results than the calls"
        );
        if round % 250 == 0 {
            let problem = GemmProblem::new(m as i64, n as i64, k as i64);
            let (a, b) = (halves(m * k, round), halves(n * k, round + 3));
            let expected = reference::gemm(&problem, &a, &b, &vec![bf16::ZERO; m * n]);
            let found = reference::matrix(&problem, Operand::C, &found.0[..m * n]);
            let error = reference::relative_error(&found, &expected);
            ensure!(
                error < 0.01,
                "replay {round}: {error} off the host's product"
            );
        }
    }
    Ok(format!(
        "{} calls in a graph, {REPLAYS} replays with other data, equal to the calls",
        works.len()
    ))
}

/// The graph of some work, captured from a stream of `cudarc`.
fn captured(
    stream: &Arc<CudaStream>,
    work: impl FnOnce() -> Result<(), Error>,
) -> Result<CudaGraph> {
    stream.begin_capture(GLOBAL)?;
    let worked = work();
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
    worked?;
    graph?.context("nothing was captured")
}

/// A device in a context that is not the primary one, as programs make them. The context lives until the process ends.
fn in_a_context_of_its_own() -> Result<Device> {
    type Create = unsafe extern "C" fn(*mut *mut c_void, c_uint, c_int) -> c_int;
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver is loaded, by the names that `colex-device` knows; the type is that of `cuda.h` for the symbol,
    // which stores one handle.
    let code = unsafe {
        let library = Library::new("libcuda.so.1")?;
        let create = library.get::<Create>(b"cuCtxCreate_v2\0")?;
        create(&mut context, 0, 0)
    };
    ensure!(code == 0, "cuCtxCreate returned {code}");
    let stream = std::ptr::null_mut();
    // SAFETY: the context is never destroyed.
    Ok(unsafe { Device::from_raw(RawStream { context, stream }) }?)
}

/// Eight threads in two contexts of one GPU, each with a stream of its own, multiply and transpose at once.
pub(super) fn threads(device: &Device) -> Result<String> {
    if device.is_simulator() {
        return Ok("none on the simulator".to_string());
    }
    let devices = [device.clone(), in_a_context_of_its_own()?];
    let work = |thread: usize| -> Result<usize> {
        let device = devices[thread % 2].on_new_stream()?;
        let mut products = 0;
        for round in 0..60 {
            // Threads of one context ask for the same few shapes, and so for the same kernels.
            let [m, n, k] = [64 + 8 * (round % 5), 128, 72 + 8 * (round % 3)];
            let problem = GemmProblem::new(m as i64, n as i64, k as i64);
            let (a, b) = (
                halves(m * k, thread + round),
                halves(n * k, 2 * thread + round),
            );
            let (da, db) = (device.upload(&a)?, device.upload(&b)?);
            let mut c = device.poisoned::<f32>(m * n)?;
            let mut turned = device.poisoned::<f32>(m * n)?;
            let rows = (m as i64, n as i64);
            problem.on(&da, &db, &mut c)?.run()?;
            transpose(&c.view(rows)?, &turned.view_mut((rows.1, rows.0))?, &[1, 0])?;
            let (c, turned) = (c.download()?, turned.download()?);
            // Sums of small integers are exact.
            let expected = reference::gemm(&problem, &a, &b, &vec![0f32; m * n]);
            for ((i, j), &sum) in expected.indexed_iter() {
                let found = [c[i * n + j], turned[j * m + i]];
                ensure!(
                    found == [sum as f32; 2],
                    "thread {thread}, round {round}, ({i},{j}): {found:?} instead of {sum}"
                );
            }
            products += 1;
        }
        Ok(products)
    };
    let products: Result<Vec<usize>> = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || work(i))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.map_err(|_| anyhow!("a thread panicked"))?)
            .collect()
    });
    let total: usize = products?.iter().sum();
    Ok(format!(
        "{total} products and transposes of 8 threads in 2 contexts"
    ))
}
