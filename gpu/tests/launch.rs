//! Launches with views: what does not fit the kernel is refused, word for word, before anything runs.

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{AtThread, Builder, TensorKernel};
use colex_gpu::{Device, DeviceKernel, Load};
use colex_tiled::TiledCopy;
use half::f16;

// By its file: it is not public, and a test build of the whole library for it takes longer than most tests.

/// A copy of `(m, n)` by rows, 16 bytes at once, of rows whose stride is a multiple of a vector.
fn copy(device: &Device) -> DeviceKernel {
    let atom = colex_atom::copy("UniversalCopy<uint128_t>").expect("an atom");
    let layout = |text: &str| text.parse::<colex_layout::Layout>().expect("a layout");
    let copy = TiledCopy::new(atom, 32, layout("(4,8):(8,1)"), layout("(1,4):(0,1)"));
    let copy = copy.expect("a tiled copy");
    let mut k = Builder::new("copy", Arch::Sm80, 32);
    let from = k.tensor("from", Ty::F32, "(64,_32):(32,_1)");
    let to = k.tensor("to", Ty::F32, "(64,_32):(32,_1)");
    let (thread, m) = (k.thread(), k.block_index(0));
    let mine = copy.at(&thread);
    let src = mine.partition_src(&from.local_tile((4, 32), (&m, 0))); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&to.local_tile((4, 32), (&m, 0))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&src);
    k.copy_in_bounds(&copy, &src, &held);
    k.copy_in_bounds(&copy, &held, &dst);
    let built = k.finish().unwrap_or_else(|e| panic!("{e}"));
    built.load(device).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_launch_takes_views() {
    let device = Device::simulator(Arch::Sm80);
    let kernel = copy(&device);
    let data: Vec<f32> = (0..320).map(|i| i as f32).collect();
    let from = device.upload(&data).expect("memory");
    let mut to = device.zeros::<f32>(320).expect("memory");
    let (source, target) = (from.view((10, 32)), to.view_mut((10, 32)));
    let done = kernel.launch([10_usize.div_ceil(4)], (source.unwrap(), target.unwrap()));
    done.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(to.download().expect("it is there"), data);
}

#[test]
fn views_that_do_not_fit_are_refused() {
    let device = Device::simulator(Arch::Sm80);
    let kernel = copy(&device);
    let from = device.zeros::<f32>(330).expect("memory");
    let halves = device.zeros::<f16>(330).expect("memory");
    let mut to = device.zeros::<f32>(330).expect("memory");
    let elsewhere = Device::simulator(Arch::Sm80);
    let there = elsewhere.zeros::<f32>(330).expect("memory");
    let shape = (10, 32);
    let odd = from.slice(1..).expect("a part");
    let none = from.view((0, 32)).expect("a view of no elements");
    macro_rules! target {
        () => {
            to.view_mut((10, 32)).expect("a view")
        };
    }
    let said = [
        kernel.launch([3], (from.view(shape).unwrap(),)),
        kernel.launch([3], (halves.view(shape).unwrap(), target!())),
        kernel.launch([3], (from.view((10, 33)).unwrap(), target!())),
        kernel.launch([3], (from.view_t(shape).unwrap(), target!())),
        kernel.launch([3], (odd.view(shape).unwrap(), target!())),
        kernel.launch([3], (there.view(shape).unwrap(), target!())),
        kernel.launch([3], (none, target!())),
        kernel.launch([3], (from.view(shape).unwrap(), from.view(shape).unwrap())),
        kernel.launch([3], (7u32, target!())),
        kernel.launch([1_i64 << 32], (from.view(shape).unwrap(), target!())),
    ]
    .map(|result| result.expect_err("it is refused").to_string());
    let address = from.address() + 4;
    let expected = [
        "1 arguments for 2 tensors and numbers of copy".to_string(),
        "tensor from: elements of f16, and the kernel is built for f32".to_string(),
        "tensor from: (10,33):(33,_1) differs from (64,_32):(32,_1), which the kernel is built for, in a static leaf".to_string(),
        "tensor from: (10,32):(_1,10) differs from (64,_32):(32,_1), which the kernel is built for, in a static leaf".to_string(),
        format!("tensor from: the address {address:#x} is not a multiple of 16 bytes, which its vectors need"),
        "tensor from: the view is of the simulator of sm_80, and the kernel is loaded on the simulator of sm_80".to_string(),
        "tensor from: an extent of the view is 0: there is nothing to launch".to_string(),
        "tensor to: the kernel writes it, and the view is read-only: take `view_mut`".to_string(),
        "argument from is a tensor, and a scalar is given".to_string(),
        "a grid of 4294967296 blocks along an axis: 32 bits hold an extent".to_string(),
    ];
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
    println!("law launch.views: {} cases", said.len());
}

/// A compact view gives a mode of extent 1 the stride 0, where a kernel may have been built with a static stride.
#[test]
fn compact_views_of_every_extent_are_taken() {
    let device = Device::simulator(Arch::Sm80);
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
    let (data, mut cases) = ((0..54).map(|i| i as f32).collect::<Vec<f32>>(), 0);
    let from = device.upload(&data).expect("memory");
    for by_rows in [true, false] {
        let mut k = Builder::new("copy", Arch::Sm80, 32);
        let built_with = if by_rows {
            "(64,64):(64,_1)"
        } else {
            "(64,64):(_1,64)"
        };
        let built_with: colex_layout::Layout = built_with.parse().expect("a layout");
        let [src, dst] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, &built_with));
        let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
        let mine = copy.at(&thread);
        let src = mine.partition_src(&src.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
        let dst = mine.partition_dst(&dst.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
        let held = k.fragment_like(&src);
        k.copy_in_bounds(&copy, &src, &held);
        k.copy_in_bounds(&copy, &held, &dst);
        let kernel = k.finish().map(|built| built.load(&device));
        let kernel = kernel.expect("a kernel").expect("it loads");
        for (m, n) in (1..=6_usize).flat_map(|m| (1..=9_usize).map(move |n| (m, n))) {
            let mut to = device.zeros::<f32>(54).expect("memory");
            let views = if by_rows {
                (from.view((m, n)).unwrap(), to.view_mut((m, n)).unwrap())
            } else {
                (from.view_t((m, n)).unwrap(), to.view_t_mut((m, n)).unwrap())
            };
            let done = kernel.launch([m.div_ceil(4), n.div_ceil(8)], views);
            done.unwrap_or_else(|e| panic!("{m} by {n}, by rows {by_rows}: {e}"));
            let found = to.download().expect("it is there");
            assert_eq!(
                found[..m * n],
                data[..m * n],
                "{m} by {n}, by rows {by_rows}"
            );
            assert!(found[m * n..].iter().all(|&beyond| beyond == 0.0));
            cases += 1;
        }
    }
    println!("law launch.compact_views: {cases} cases");
}

/// A kernel that copies one tensor of two modes to another, with any strides.
fn copying() -> TensorKernel {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
    let mut k = Builder::new("copy", Arch::Sm80, 32);
    let [src, dst] = ["from", "to"].map(|name| k.tensor(name, Ty::F32, "(64,64):(64,64)"));
    let (mine, m, n) = (copy.at(&k.thread()), k.block_index(0), k.block_index(1));
    let src = mine.partition_src(&src.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
    let dst = mine.partition_dst(&dst.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&src);
    k.copy_in_bounds(&copy, &src, &held);
    k.copy_in_bounds(&copy, &held, &dst);
    k.finish().expect("a kernel")
}

/// A buffer has several handles, so that no borrow keeps what is written apart from what is read. Against a list of the
/// elements of both.
#[test]
fn law_what_is_written_is_apart_from_what_is_read() {
    let device = Device::simulator(Arch::Sm80);
    let kernel = copying().load(&device).expect("it loads");
    let from = device.upload(&[1f32; 256]).expect("memory");
    let places = |layout: &str, at: usize| -> Vec<i64> {
        let layout: colex_layout::Layout = layout.parse().expect("a layout");
        (&layout)
            .into_iter()
            .map(|(_, offset)| offset.expect("small") + at as i64)
            .collect()
    };
    let (mut cases, mut accepted, mut refused) = (0, 0, 0);
    let layouts = [
        "(3,4):(4,1)",
        "(3,4):(8,1)",
        "(3,4):(8,2)",
        "(4,3):(1,8)",
        "(3,2):(16,8)",
        "(1,4):(0,1)",
    ];
    for (a, b) in layouts
        .iter()
        .flat_map(|a| layouts.iter().map(move |b| (*a, *b)))
    {
        for (at, beside) in (0..10).flat_map(|at| [(at, 4), (4, at)]) {
            let handle = from.clone();
            let read = handle.slice(at..).expect("a part");
            let mut written = handle.slice(beside..).expect("a part");
            let read = colex_gpu::View::new(&read, a).expect("a view");
            let written = colex_gpu::ViewMut::new(&mut written, b).expect("a view");
            let done = kernel.launch([1], (&read, written));
            let shared = places(a, at)
                .iter()
                .any(|place| places(b, beside).contains(place));
            cases += 1;
            match done {
                Ok(()) => accepted += 1,
                Err(e) => {
                    refused += 1;
                    let said = e.to_string();
                    assert!(said.starts_with("tensor to: it lies at 0x"), "{said}");
                    continue;
                }
            }
            assert!(!shared, "{a} from {at} and {b} from {beside}");
        }
    }
    let halves = ["(3,4):(8,1)", "(3,4):(8,1)"].map(|layout| layout.to_string());
    let (left, mut right) = (from.clone(), from.slice(4..).expect("a part"));
    let left = colex_gpu::View::new(&left, &halves[0][..]).expect("a view");
    let right = colex_gpu::ViewMut::new(&mut right, &halves[1][..]).expect("a view");
    kernel
        .launch([1], (&left, right))
        .expect("two halves of the columns of one matrix");
    assert!(
        accepted > cases / 8 && refused > cases / 8,
        "{accepted} and {refused} of {cases}"
    );
    println!("law launch.apart: {cases} cases");
}

/// What a kernel only reads may have several names, by views that could be written too; what it writes may not.
#[test]
fn several_views_of_what_is_only_read_are_launched() {
    let device = Device::simulator(Arch::Sm80);
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
    let mut k = Builder::new("sum", Arch::Sm80, 32);
    let [x, y, sum] = ["x", "y", "sum"].map(|name| k.tensor(name, Ty::F32, "(_4,_8):(_8,_1)"));
    let mine = copy.at(&k.thread());
    let [x, y] = [x, y].map(|from| mine.partition_src(&from)); // (CPY, CPY_M, CPY_N)
    let sum = mine.partition_dst(&sum); // (CPY, CPY_M, CPY_N)
    let [held, more] = [&x, &y].map(|from| k.fragment_like(from));
    k.copy(&copy, &x, &held);
    k.copy(&copy, &y, &more);
    k.assign(&held, &held + &more);
    k.copy(&copy, &held, &sum);
    let kernel = k
        .finish()
        .expect("a kernel")
        .load(&device)
        .expect("it loads");
    let numbers: Vec<f32> = (0..32u8).map(f32::from).collect();
    let from = device.upload(&numbers).expect("memory");
    let mut to = device.zeros::<f32>(32).expect("memory");
    let [mut first, mut second] = [(); 2].map(|()| from.clone());
    let x = first.view_mut((4, 8)).expect("a view");
    let y = second.view_mut((4, 8)).expect("a view");
    kernel
        .launch([1], (x, y, to.view_mut((4, 8)).expect("a view")))
        .expect("both are only read");
    let twice: Vec<f32> = numbers.iter().map(|x| 2.0 * x).collect();
    assert_eq!(to.download().expect("numbers"), twice);
    let y = second.view_mut((4, 8)).expect("a view");
    let sum = first.view_mut((4, 8)).expect("a view");
    let other = to.view((4, 8)).expect("a view");
    let refused = kernel
        .launch([1], (&other, y, sum))
        .expect_err("it is written");
    let (begin, end) = from.view((4, 8)).expect("a view").bytes();
    assert_eq!(
        refused.to_string(),
        format!(
            "tensor sum: it lies at {begin:#x}..{end:#x} and tensor y at {begin:#x}..{end:#x}: what a kernel writes must \
             not overlap what it reads or writes by another name"
        )
    );
    // A view without elements overlaps nothing.
    let none = from.slice(8..8).expect("a part");
    let none = colex_gpu::View::row_major(&none, "(0,8)").expect("a view");
    let sum = first.view_mut((4, 8)).expect("a view");
    let refused = kernel.launch([1], (&other, &none, sum));
    assert_eq!(
        refused.expect_err("no elements").to_string(),
        "tensor y: an extent of the view is 0: there is nothing to launch"
    );
}

/// Views with modes of one element, whose stride may be any number: no pair of them panics, and what shares an element is refused.
#[test]
fn law_a_mode_of_one_element_has_any_stride() {
    let device = Device::simulator(Arch::Sm80);
    let kernel = copying().load(&device).expect("it loads");
    let handle = device.upload(&[1f32; 16]).expect("memory");
    let strides = [-1, 0, 1, i64::MAX];
    let mut layouts = Vec::new();
    for (extents, first) in [[1, 1], [1, 2], [2, 1], [2, 2]]
        .into_iter()
        .flat_map(|e| strides.map(|s| (e, s)))
    {
        layouts.extend(strides.map(|second| (extents, [first, second])));
    }
    let text = |([m, n], [s, t]): ([i64; 2], [i64; 2])| format!("({m},{n}):({s},{t})");
    let places = |(extents, strides): ([i64; 2], [i64; 2]), at: usize| -> Vec<i64> {
        let all = (0..extents[0]).flat_map(|i| (0..extents[1]).map(move |j| [i, j]));
        let place = |[i, j]: [i64; 2]| {
            i.saturating_mul(strides[0])
                .saturating_add(j.saturating_mul(strides[1]))
        };
        all.map(|index| place(index).saturating_add(at as i64))
            .collect()
    };
    let (mut cases, mut accepted) = (0, 0);
    for (a, b) in layouts
        .iter()
        .flat_map(|a| layouts.iter().map(move |b| (*a, *b)))
    {
        for at in 2..6 {
            let read = handle.slice(at..).expect("a part");
            let mut written = handle.slice(4..).expect("a part");
            let read = colex_gpu::View::new(&read, &text(a)[..]);
            let written = colex_gpu::ViewMut::new(&mut written, &text(b)[..]);
            let (Ok(read), Ok(written)) = (read, written) else {
                continue;
            };
            let done = kernel.launch([1], (&read, written));
            let shared = places(a, at)
                .iter()
                .any(|place| places(b, 4).contains(place));
            assert!(
                done.is_err() || !shared,
                "{} at {at} and {}",
                text(a),
                text(b)
            );
            accepted += u32::from(done.is_ok());
            cases += 1;
        }
    }
    assert!(accepted > 0 && accepted < cases);
    println!("law launch.modes_of_one: {cases} cases");
}

/// A kernel without a fault whose result depends on the order of its warps: each takes the next ticket.
#[test]
fn a_result_that_depends_on_the_schedule_is_refused() {
    use colex_gpu::ir::{Access, Address, AtomicOp, KernelBuilder, Space, Special, Type};
    let mut k = KernelBuilder::new("tickets", Arch::Sm80);
    let [tickets, to] = ["tickets", "to"].map(|name| k.pointer(name));
    let [tickets, to] = [tickets, to].map(|pointer| k.param(pointer));
    let thread = k.mov(Type::U32, Special::Tid(0));
    let first = k.setp(colex_gpu::ir::Compare::Eq, Type::U32, Special::LaneId, 0);
    k.if_(first, |k| {
        let one = k.mov(Type::U32, 1);
        let ticket = k.atomic(AtomicOp::Add, Space::Global, Type::U32, tickets, one);
        let offset = k.mul_wide(Type::U32, ticket, 4);
        let at = k.add(Type::S64, to, offset);
        k.store(
            Access::new(Space::Global, Type::U32),
            Address::from(at),
            thread,
        );
    });
    let kernel = k.finish();
    let run = |device: &Device| {
        let [tickets, to] = [device.zeros::<u32>(1)?, device.poisoned::<u32>(4)?];
        let function = device.load(&kernel)?;
        let arguments =
            [&tickets, &to].map(|buffer| colex_gpu::Argument::Pointer(buffer.address()));
        device.launch(&function, colex_gpu::Launch::new(1, 128), &arguments)?;
        Ok(to.download()?)
    };
    let refused = colex_gpu::testing::in_every_schedule(Arch::Sm80, 20, run)
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("the results under the schedules Latest and Random("),
        "{refused}"
    );
    let sorted = |device: &Device| {
        let mut tickets = run(device)?;
        tickets.sort_unstable();
        Ok(tickets)
    };
    let sorted = colex_gpu::testing::in_every_schedule(Arch::Sm80, 20, sorted);
    assert_eq!(sorted.unwrap(), [0, 32, 64, 96]);
}

#[test]
fn an_output_says_what_was_not_written() {
    let device = Device::simulator(Arch::Sm80);
    let mut to = colex_gpu::testing::Output::<f32>::new(&device, 100).unwrap();
    to.buffer().slice(..37).unwrap().write(&[1.0; 37]).unwrap();
    let said = |to: &colex_gpu::testing::Output<f32>| to.elements().unwrap_err().to_string();
    assert_eq!(said(&to), "element 37 of an output of 100 was not written");
    to.buffer().write(&[1.0; 100]).unwrap();
    assert_eq!(to.elements().unwrap(), [1.0; 100]);
}

/// Drawn sums in every type: what is rounded as the type rounds is close, and one more step of the type is not.
#[test]
fn law_close_is_two_roundings() {
    use colex_gpu::kernels::GemmElement;
    use colex_gpu::testing::close;
    fn check<T: GemmElement>(epsilon: f64, cases: &mut u64) {
        for i in 0..2000u64 {
            let exact: Vec<f64> = (0..7)
                .map(|j| ((i * 37 + j * 101) % 199) as f64 / 16.0 - 6.0)
                .collect();
            let rounded: Vec<T> = exact.iter().map(|x| T::from_f64(*x)).collect();
            close(&rounded, &exact, 1).unwrap_or_else(|e| panic!("{e}"));
            let scale = exact.iter().map(|x| x * x).sum::<f64>() / 7.0;
            let mut wrong = rounded.clone();
            let at = (i % 7) as usize;
            wrong[at] = T::from_f64(
                exact[at] + (1.0f64).max(6.0 * epsilon * exact[at].abs().max(scale.sqrt())),
            );
            let said = close(&wrong, &exact, 1).unwrap_err().to_string();
            assert!(said.starts_with(&format!("element {at} is ")), "{said}");
            *cases += 2;
        }
    }
    let mut cases = 0;
    check::<f64>(2f64.powi(-53), &mut cases);
    check::<f32>(2f64.powi(-24), &mut cases);
    check::<f16>(2f64.powi(-11), &mut cases);
    check::<half::bf16>(2f64.powi(-8), &mut cases);
    assert!(close(&[f32::NAN], &[1.0], 1).is_err() && close(&[f32::NAN], &[f64::NAN], 1).is_ok());
    assert!(close(&[f32::INFINITY], &[f64::NEG_INFINITY], 1).is_err());
    assert!(
        close(&[1i32, 2], &[1.0, 2.0], 1).is_ok() && close(&[1i32, 3], &[1.0, 2.0], 1).is_err()
    );
    assert_eq!(
        close::<f32>(&[], &[1.0], 1).unwrap_err().to_string(),
        "0 elements, and 1 are expected"
    );
    println!("law testing.close: {cases} cases");
}

/// Eight threads on two simulated devices at once: products and transposes of all of them are those of the host.
#[test]
fn threads_multiply_on_two_devices() {
    let devices = [Arch::Sm80, Arch::Sm90a].map(Device::simulator);
    let work = |thread: usize| -> Result<usize, colex_gpu::Error> {
        let device = devices[thread % 2].on_new_stream()?;
        let mut cases = 0;
        for round in 0..6 {
            // Threads of one device ask for the same few shapes, and so for the same kernels.
            let [m, n, k] = [17 + (round % 3) as i64, 24, 16];
            let number = |i: i64| ((i * 7 + thread as i64) % 13 - 6) as f32;
            let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32(number(i))).collect();
            let b: Vec<f16> = (0..n * k).map(|i| f16::from_f32(number(i + 5))).collect();
            let (da, db) = (device.upload(&a)?, device.upload(&b)?);
            let mut dc = device.poisoned::<f32>((m * n) as usize)?;
            let mut turned = device.poisoned::<f32>((m * n) as usize)?;
            colex_gpu::gemm(&da.view((m, k))?, &db.view((n, k))?, &dc.view_mut((m, n))?)?;
            colex_gpu::transpose(&dc.view((m, n))?, &turned.view_mut((n, m))?, &[1, 0])?;
            let (c, turned) = (dc.download()?, turned.download()?);
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let product =
                    |l: i64| a[(i * k + l) as usize].to_f32() * b[(j * k + l) as usize].to_f32();
                let sum: f32 = (0..k).map(product).sum();
                assert_eq!(c[(i * n + j) as usize], sum, "thread {thread}, C({i},{j})");
                assert_eq!(turned[(j * m + i) as usize], sum, "thread {thread}");
                cases += 2;
            }
        }
        Ok(cases)
    };
    let cases: usize = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || work(i))).collect();
        let each = threads
            .into_iter()
            .map(|thread| thread.join().expect("nothing panics"));
        each.map(|cases| cases.expect("no error")).sum()
    });
    println!("law threads_multiply_on_two_devices: {cases} cases");
}

/// An epilogue travels as its text, and text that is none is refused where it arrives.
#[cfg(feature = "serde")]
#[test]
fn epilogues_are_serialised_as_their_text() {
    use colex_gpu::gemm::Epilogue;
    let texts = [
        "(acc: f32) -> C { acc }",
        "(acc: f32, acc2: f32) -> C { cvt.rn.bf16(mul(acc, acc2)) } before { acc }",
        "(acc: s32, c: s32, bias: tensor s32, s: scalar f32) -> C { add(acc, add(c, bias)) } sums: row sums { acc }",
        "(acc: f32, row: s32, column: s32) -> C { add(acc, cvt.rn.f32(sub(column, row))) } most: column maxima { acc }",
    ];
    for text in texts {
        let epilogue: Epilogue = text.parse().expect("an epilogue");
        let json = serde_json::to_string(&epilogue).expect("text");
        assert_eq!(json, format!("\"{epilogue}\""));
        let read: Epilogue = serde_json::from_str(&json).expect("the epilogue");
        assert_eq!(read, epilogue);
        // A reader hands out borrowed text, or its own.
        let value = serde_json::to_value(&epilogue).expect("a value");
        let read: Epilogue = serde_json::from_value(value).expect("the epilogue");
        assert_eq!(read, epilogue);
    }
    let refused = |json: &str| {
        let read = serde_json::from_str::<Epilogue>(json);
        read.unwrap_err().to_string()
    };
    assert_eq!(
        refused("\"(acc: f16) -> C { acc }\""),
        "epilogue: no product has accumulators of f16: they are f32, f64 or s32"
    );
    assert!(refused("7").starts_with("invalid type: integer `7`, expected a"));
}
