//! Library calls in a program's own CUDA graph, and from several threads in several contexts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use colex_atom::Ty;
use colex_gpu::cuda::RawStream;
use colex_gpu::cuda::cudarc::driver::{CudaContext, CudaGraph, CudaStream, sys};
use colex_gpu::elementwise::{Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::gemm::Convolution;
use colex_gpu::kernels::{GemmProblem, Operand, View, ViewMut, reference};
use colex_gpu::quantise::Quantise;
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::reduce::{Reduce, ReduceFunction};
use colex_gpu::rowwise::{RowFunction, Rowwise};
use colex_gpu::{
    Attention, Buffer, Device, Element, Error, Gemm, copy, gemm, log_softmax, rms_norm, softmax,
    transpose,
};
use colex_layout::Layout;
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

/// Captures functions of rows, reductions, selections, cumulative sums, maps, gathers, rotary embeddings, quantisation and a convolution into a
/// graph of the program's, and runs that with other data each time: the bits are those of the same calls outside of a graph.
pub(super) fn replayed_without_products(device: &Device) -> Result<String> {
    if device.is_simulator() {
        return Ok("none on the simulator".to_string());
    }
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let device = &Device::from_cuda(context, stream.clone())?;
    let (rows, columns, long) = (256_i64, 1024, 1 << 19);
    let (shape, count) = ((rows, columns), (rows * columns) as usize);
    let (of_long, many) = ((2_i64, long), 2 * long as usize);
    let inputs: [Buffer<bf16>; 3] = [
        device.uninitialised(count)?,
        device.uninitialised(count)?,
        device.uninitialised(columns as usize)?,
    ];
    let [x, residual, weight] = &inputs;
    let wide = device.uninitialised::<f32>(many)?;
    let drawn: Vec<i32> = (0..rows as i32).map(|i| i * 37 % rows as i32).collect();
    let names = device.upload(&drawn)?;

    let halved = |count: usize| device.poisoned::<bf16>(count);
    let narrow = [
        halved(count)?,
        halved(count)?,
        halved(count)?,
        halved(columns as usize)?,
        halved(count)?,
        halved(count)?,
        halved(count)?,
        halved(count)?,
        halved(count)?,
        halved(14 * 14 * 8)?,
    ];
    let singles_of = |count: usize| device.poisoned::<f32>(count);
    let long_results = [
        singles_of(many)?,
        singles_of(many)?,
        singles_of(1)?,
        singles_of(2 * 64)?,
        singles_of(rows as usize)?,
        singles_of(1)?,
        singles_of(count / 128)?,
    ];
    let whole = |count: usize| device.poisoned::<i32>(count);
    let places = [whole(rows as usize)?, whole(2 * 64)?];
    let numbers = || device.poisoned::<u8>(count);
    let bytes = [numbers()?, numbers()?, numbers()?];
    let [
        mut y,
        mut normed,
        mut sum,
        mut sums,
        mut mapped,
        mut gathered,
        mut turned,
        mut logs,
        mut scaled,
        mut convolved,
    ] = narrow.clone();
    let [
        mut long_y,
        mut scanned,
        mut total,
        mut best,
        mut scales,
        mut scale,
        mut block_scales,
    ] = long_results.clone();
    let [mut most, mut best_places] = places.clone();
    let [mut by_rows, mut by_tensor, mut by_blocks] = bytes.clone();

    let (xv, rv) = (x.view(shape)?, residual.view(shape)?);
    let wv = wide.view(of_long)?;
    let y = y.view_mut(shape)?;
    let weights = weight.view((columns,))?;
    let normed = normed.view_mut(shape)?;
    let summed = sum.view_mut(shape)?;
    let norm = Rowwise::new(RowFunction::LayerNorm, &xv, &normed).weight(&weights);
    let norm = norm.residual(&rv, &summed).prepare()?;
    let long_y = long_y.view_mut(of_long)?;
    let long_softmax = Rowwise::new(RowFunction::Softmax, &wv, &long_y).prepare()?;
    let along_first = Reduce::new(ReduceFunction::Sum, &xv, &[0], &sums.view_mut((columns,))?);
    let along_first = along_first.prepare()?;
    let all = Reduce::new(ReduceFunction::Sum, &wv, &[0, 1], &total.view_mut((1,))?).prepare()?;
    let most = most.view_mut((rows,))?;
    let scan = Scan::new(&wv, 1, &scanned.view_mut(of_long)?).prepare()?;
    let best = TopK::new(
        &wv,
        1,
        &best.view_mut((2, 64))?,
        &best_places.view_mut((2, 64))?,
    );
    let best = best.prepare()?;
    let gelu = MapExpression::new(|m| {
        let gelu = (m.tensor("x", Ty::Bf16) + m.tensor("r", Ty::Bf16)).gelu();
        m.output("y", gelu);
    })?;
    let mapped = mapped.view_mut(shape)?;
    let map = Map::new(&gelu).input("x", &xv).input("r", &rv);
    let map = map.output("y", &mapped);
    let gather = Gather::new(&xv, &names.view(rows)?, &gathered.view_mut(shape)?).prepare()?;
    let heads = (1_i64, 8, rows, 128);
    let of_heads = Layout::new(heads, (0, 128, columns, 1))?;
    let turned = ViewMut::new(&mut turned, &of_heads)?;
    let rotary = Rotary::new(Pairing::Halves, &View::new(x, &of_heads)?, &turned);
    let (by_rows, scales) = (by_rows.view_mut(shape)?, scales.view_mut(rows)?);
    let of_rows = Quantise::new(Ty::E4m3, &xv, &by_rows).rows(&scales);
    let (by_tensor, scale) = (by_tensor.view_mut(shape)?, scale.view_mut(1)?);
    let of_tensor = Quantise::new(Ty::E4m3, &xv, &by_tensor);
    let of_tensor = of_tensor.tensor_scale(&scale).prepare()?;
    let (by_blocks, block_scales) = (
        by_blocks.view_mut(shape)?,
        block_scales.view_mut((rows, columns / 128))?,
    );
    let of_blocks = Quantise::new(Ty::E4m3, &xv, &by_blocks).blocks(128, &block_scales);
    let logs = logs.view_mut(shape)?;
    let scaled = scaled.view_mut(shape)?;
    let image = x.view((1, 16, 16, columns))?;
    let taps = (8, 3, 3, columns);
    let filters = Layout::new(taps, (9 * columns, 3 * columns, columns, 1))?;
    let filters = View::new(residual, &filters)?;
    let convolved = convolved.view_mut((1, 14, 14, 8))?;
    let convolved = Convolution::new(&image, &filters, &convolved).prepare()?;
    let works: [CapturedCall<'_>; 17] = [
        Box::new(|| softmax(&xv, &y)),
        Box::new(|| log_softmax(&xv, &logs)),
        Box::new(|| rms_norm(&xv, &weights, 1e-5, &scaled)),
        Box::new(|| convolved.run(device)),
        Box::new(|| of_blocks.run()),
        Box::new(|| norm.run(device)),
        Box::new(|| long_softmax.run(device)),
        Box::new(|| along_first.run(device)),
        Box::new(|| all.run(device)),
        Box::new(|| Reduce::index(ReduceFunction::ArgMax, &xv, 1, &most).run()),
        Box::new(|| scan.run(device)),
        Box::new(|| best.run(device)),
        Box::new(|| map.run()),
        Box::new(|| gather.run(device)),
        Box::new(|| rotary.run()),
        Box::new(|| of_rows.run()),
        Box::new(|| of_tensor.run(device)),
    ];
    let write = |seed: usize| -> Result<()> {
        for (at, memory) in inputs.iter().enumerate() {
            memory.write(&halves(memory.len(), seed + 3 * at))?;
        }
        Ok(wide.write(&singles(wide.len(), seed))?)
    };
    let results = || -> Result<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        narrow.iter().try_for_each(|of| taken(of, &mut all))?;
        long_results.iter().try_for_each(|of| taken(of, &mut all))?;
        places.iter().try_for_each(|of| taken(of, &mut all))?;
        bytes.iter().try_for_each(|of| taken(of, &mut all))?;
        Ok(all)
    };
    write(0)?;
    works.iter().try_for_each(|work| work())?;
    let graph = captured(&stream, || works.iter().try_for_each(|work| work()))?;
    let mut last = Vec::new();
    for round in 0..REPLAYS / 10 {
        write(round)?;
        results()?;
        graph.launch()?;
        let found = results()?;
        works.iter().try_for_each(|work| work())?;
        let expected = results()?;
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        ensure!(
            differs.is_none(),
            "replay {round} has other results than the calls: output {differs:?}"
        );
        ensure!(
            found != last,
            "replay {round} has the results of the one before"
        );
        last = found;
    }
    Ok(format!(
        "{} calls in a graph, {} replays with other data, equal to the calls",
        works.len(),
        REPLAYS / 10
    ))
}

/// Takes the bytes of an output and poisons it.
fn taken<T: Element>(memory: &Buffer<T>, all: &mut Vec<Vec<u8>>) -> Result<()> {
    all.push(T::to_bytes(&memory.download()?));
    Ok(memory.fill_bytes(0xff)?)
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
