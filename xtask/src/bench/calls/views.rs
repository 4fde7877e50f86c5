//! Calls on ready views that are no products and no copies, each beside its bare launches.

use anyhow::Result;
use colex_atom::Ty;
use colex_gpu::elementwise::{Gather, Map, MapExpression, Pairing, Rotary};
use colex_gpu::gemm::Convolution;
use colex_gpu::kernels::{View, ViewMut};
use colex_gpu::quantise::Quantise;
use colex_gpu::reduce::scan::Scan;
use colex_gpu::reduce::top_k::TopK;
use colex_gpu::{Buffer, Device};
use half::bf16;

use super::{NamedCall, TimedCall, view, view_mut};

/// The launches of a prepared call, which keeps the memory that they need.
macro_rules! bare {
    ($prepared:expr) => {{
        let prepared = $prepared;
        let launches = prepared.bare_launches()?;
        Box::new(move || {
            let _kept = &prepared;
            Ok(launches.iter().try_for_each(|one| one.run())?)
        })
    }};
}

/// The rows of a call by their names: its bare launches, and two ways to run it.
fn rows<'a>(
    [bare, ready, made]: [&'static str; 3],
    launches: TimedCall<'a>,
    run: TimedCall<'a>,
    run_new: TimedCall<'a>,
) -> [NamedCall<'a>; 3] {
    [
        (bare, None, launches),
        (ready, Some(bare), run),
        (made, Some(bare), run_new),
    ]
}

/// What the calls read and write.
pub(super) struct Tensors {
    words: Buffer<f32>,
    halves: Buffer<bf16>,
    /// Numbers of rows.
    index: Buffer<i32>,
    /// The same buffer, for each call that writes it.
    written: [Buffer<f32>; 8],
    written_halves: [Buffer<bf16>; 3],
    indices: Buffer<i32>,
    numbers: [Buffer<i8>; 5],
}

impl Tensors {
    pub(super) fn new(device: &Device) -> Result<Tensors> {
        let words = device.zeros::<f32>((1 << 20) / 4)?;
        let halves = device.zeros::<bf16>((1 << 20) / 2)?;
        let index = device.zeros::<i32>(256)?;
        let numbers = device.zeros::<i8>(1 << 20)?;
        let (to_words, to_halves) = (device.zeros::<f32>(words.len())?, halves.len());
        let to_halves = device.zeros::<bf16>(to_halves)?;
        Ok(Tensors {
            written: [(); 8].map(|()| to_words.clone()),
            written_halves: [(); 3].map(|()| to_halves.clone()),
            indices: device.zeros(256 * 8)?,
            numbers: [(); 5].map(|()| numbers.clone()),
            words,
            halves,
            index,
        })
    }

    /// The calls: for each its bare launches, its builder value run again, and a builder value made for each run.
    pub(super) fn works<'a>(&'a mut self) -> Result<Vec<NamedCall<'a>>> {
        let mut all = Vec::new();
        let Tensors {
            words,
            halves,
            index,
            written,
            written_halves,
            indices,
            numbers,
        } = self;
        let (halves, index) = (&*halves, &*index);
        let x: View<'a, f32> = view(words, "(256,512):(512,1)")?;
        let [
            sums,
            values,
            mapped,
            gathered,
            of_rows,
            of_blocks,
            of_uneven,
            computed,
        ] = written;
        let [turned, turned_half, convolved] = written_halves;
        let [by_rows, by_blocks, by_uneven, by_given, by_computed] = numbers;

        let y: ViewMut<'a, f32> = view_mut(sums, "(256,512):(512,1)")?;
        let scan = Scan::new(&x, 1, &y);
        let bare = bare!(scan.prepare()?);
        let again = x.clone();
        all.extend(rows(
            [
                "cuLaunchKernelEx, the cumulative sum's kernel",
                "Scan::run, 256x512 f32",
                "Scan::new and run, the same",
            ],
            bare,
            Box::new(move || scan.run()),
            Box::new(move || Scan::new(&again, 1, &y).run()),
        ));

        let values = view_mut(values, "(256,8):(8,1)")?;
        let indices = view_mut(indices, "(256,8):(8,1)")?;
        let top = TopK::new(&x, 1, &values, &indices);
        let bare = bare!(top.prepare()?);
        let again = x.clone();
        all.extend(rows(
            [
                "cuLaunchKernelEx, the selection's kernel",
                "TopK::run, 8 of each row, 256x512 f32",
                "TopK::new and run, the same",
            ],
            bare,
            Box::new(move || top.run()),
            Box::new(move || TopK::new(&again, 1, &values, &indices).run()),
        ));

        let expression: MapExpression =
            "(x: tensor f32, bias: tensor f32, scale: scalar f32) -> y { fma(x, scale, bias) }"
                .parse()?;
        let bias = view(words, "(256,512):(0,1)")?;
        let y = view_mut(mapped, "(256,512):(512,1)")?;
        let call = |x: &View<'a, f32>, bias: &View<'a, f32>, y: &ViewMut<'a, f32>| {
            let map = Map::new(&expression).input("x", x).input("bias", bias);
            map.scalar("scale", 2.0).output("y", y)
        };
        let map = call(&x, &bias, &y);
        let bare = bare!(map.prepare()?);
        let (again, expression) = (x.clone(), expression.clone());
        all.extend(rows(
            [
                "cuLaunchKernelEx, the map's kernel",
                "Map::run, 256x512 f32 with a bias and a scalar",
                "Map::new and run, the same",
            ],
            bare,
            Box::new(move || map.run()),
            Box::new(move || {
                let map = Map::new(&expression).input("x", &again);
                let map = map.input("bias", &bias).scalar("scale", 2.0);
                map.output("y", &y).run()
            }),
        ));

        let index = view(index, "256:1")?;
        let y = view_mut(gathered, "(256,512):(512,1)")?;
        let table = view(words, "(512,512):(512,1)")?;
        let bare: TimedCall<'a> = bare!(Gather::new(&table, &index, &y).prepare()?);
        let name = "cuLaunchKernelEx, the gather's kernel";
        let gather: TimedCall<'a> = Box::new(move || colex_gpu::gather(&table, &index, &y));
        all.push((name, None, bare));
        all.push(("gather, 256 rows of 512 f32", Some(name), gather));

        let heads = "(1,8,512,64):(262144,32768,64,1)";
        let head = view(halves, heads)?;
        for (names, y, features) in [
            (
                [
                    "cuLaunchKernelEx, the rotary embedding's kernel",
                    "Rotary::run, 8 heads of 512 by 64 bf16",
                    "Rotary::new and run, the same",
                ],
                turned,
                64,
            ),
            (
                [
                    "cuLaunchKernelEx twice, the rotary embedding's kernels",
                    "Rotary::run, 32 of the 64 features, two kernels",
                    "Rotary::new and run, the same two kernels",
                ],
                turned_half,
                32,
            ),
        ] {
            let y = view_mut(y, heads)?;
            let rotary = Rotary::new(Pairing::Halves, &head, &y).features(features);
            let bare = bare!(rotary.prepare()?);
            let again = head.clone();
            all.extend(rows(
                names,
                bare,
                Box::new(move || rotary.run()),
                Box::new(move || {
                    let rotary = Rotary::new(Pairing::Halves, &again, &y);
                    rotary.features(features).run()
                }),
            ));
        }

        for (names, q, scales, form, block) in [
            (
                [
                    "cuLaunchKernelEx, the quantisation's kernel",
                    "Quantise::run by rows, 256x512 f32 to s8",
                    "Quantise::new and run, the same",
                ],
                by_rows,
                of_rows,
                "256:1",
                None,
            ),
            (
                [
                    "cuLaunchKernelEx, the quantisation's kernel, blocks",
                    "Quantise::run by blocks of 128, the same",
                    "Quantise::new and run by blocks, the same",
                ],
                by_blocks,
                of_blocks,
                "(256,4):(4,1)",
                Some(128),
            ),
            (
                [
                    "cuLaunchKernelEx twice, the quantisation's kernels",
                    "Quantise::run by blocks of 100, two kernels",
                    "Quantise::new and run by blocks of 100",
                ],
                by_uneven,
                of_uneven,
                "(256,6):(6,1)",
                Some(100),
            ),
        ] {
            let (q, scales) = (view_mut(q, "(256,512):(512,1)")?, view_mut(scales, form)?);
            let call = Quantise::new(Ty::S8, &x, &q);
            let call = match block {
                None => call.rows(&scales),
                Some(columns) => call.blocks(columns, &scales),
            };
            let bare = bare!(call.prepare()?);
            let again = x.clone();
            all.extend(rows(
                names,
                bare,
                Box::new(move || call.run()),
                Box::new(move || {
                    let call = Quantise::new(Ty::S8, &again, &q);
                    match block {
                        None => call.rows(&scales).run(),
                        Some(columns) => call.blocks(columns, &scales).run(),
                    }
                }),
            ));
        }

        let q = view_mut(by_given, "(256,512):(512,1)")?;
        let call = Quantise::new(Ty::S8, &x, &q).tensor(2.0);
        let bare = bare!(call.prepare()?);
        let again = x.clone();
        all.extend(rows(
            [
                "cuLaunchKernelEx, the kernel of a given scale",
                "Quantise::run by a given scale, the same",
                "Quantise::new and run by a given scale",
            ],
            bare,
            Box::new(move || call.run()),
            Box::new(move || Quantise::new(Ty::S8, &again, &q).tensor(2.0).run()),
        ));

        let q = view_mut(by_computed, "(256,512):(512,1)")?;
        let scale = view_mut(computed, "1:1")?;
        let call = Quantise::new(Ty::S8, &x, &q).tensor_scale(&scale);
        let bare = bare!(call.prepare()?);
        let again = x.clone();
        all.extend(rows(
            [
                "cuLaunchKernelEx, the kernels of a computed scale",
                "Quantise::run by a computed scale, the same",
                "Quantise::new and run by a computed scale",
            ],
            bare,
            Box::new(move || call.run()),
            Box::new(move || {
                let call = Quantise::new(Ty::S8, &again, &q);
                call.tensor_scale(&scale).run()
            }),
        ));

        let pixels = "(4,16,16,64):(16384,1024,64,1)";
        let (image, filters) = (
            view(halves, pixels)?,
            view(halves, "(64,3,3,64):(576,192,64,1)")?,
        );
        let y: ViewMut<'a, bf16> = view_mut(convolved, pixels)?;
        let call = Convolution::new(&image, &filters, &y).padding([1, 1]);
        let bare = bare!(call.prepare()?);
        all.extend(rows(
            [
                "cuLaunchKernelEx, the convolution's kernel",
                "Convolution::run, 3x3 of 64 channels, bf16",
                "Convolution::new and run, the same",
            ],
            bare,
            Box::new(move || call.run()),
            Box::new(move || {
                let call = Convolution::new(&image, &filters, &y);
                call.padding([1, 1]).run()
            }),
        ));
        Ok(all)
    }
}
