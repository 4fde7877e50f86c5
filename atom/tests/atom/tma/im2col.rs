//! Columns of pixels, element by element.

use std::collections::HashMap;

use colex_atom::{Im2colPlan, Im2colTile, PixelBox, Reduction, Taps, TensorMap, TmaElement};
use colex_layout::{ComposedLayout, Layout};

fn plan(
    activations: &str,
    taps: &[Taps],
    shared: &str,
    element: TmaElement,
    multicast: i64,
) -> Result<Im2colPlan, colex_atom::Error> {
    Im2colPlan::new(Im2colTile {
        activations,
        taps,
        shared,
        element,
        multicast,
    })
}

fn taps(count: i64, stride: i64, dilation: i64, padding: [i64; 2]) -> Taps {
    Taps {
        count,
        stride,
        dilation,
        padding,
    }
}

/// The first channel of each pixel of a column: the pixel's number in images of 4 by 4.
fn walked(images: i64, corner: i64, start: [i64; 3], offset: i64) -> Vec<Option<i64>> {
    let pixels = PixelBox {
        lower: vec![corner; 2],
        upper: vec![corner; 2],
    };
    let tensor = [vec![32, 4, 4, images], vec![128, 512, 2048]];
    let map = TensorMap::im2col(TmaElement::F32, tensor, [32, 16], pixels);
    assert_eq!(map.check(), Ok(()));
    let [w, h, n] = start;
    let column = map.loaded_at(&[0, w, h, n], &[offset; 2]).unwrap();
    let pixels = column.iter().step_by(32);
    pixels
        .map(|element| element.global.map(|byte| byte / 128))
        .collect()
}

/// Four columns of which it is published what hardware brings (the tutorial of Gluon on im2col).
#[test]
fn columns_walk_as_it_is_published() {
    let all = |pixels: std::ops::Range<i64>| pixels.map(Some).collect::<Vec<_>>();
    let of = |numbers: [i64; 16]| numbers.map(|x| (x > 0).then_some(x - 1)).to_vec();
    assert_eq!(walked(1, 0, [0, 0, 0], 0), all(0..16));
    assert_eq!(
        walked(1, -1, [-1, -1, 0], 0),
        of([0, 0, 0, 0, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11])
    );
    assert_eq!(walked(1, -1, [-1, -1, 0], 1), all(0..16));
    assert_eq!(walked(2, 0, [3, 1, 0], 0), all(7..23));
    assert_eq!(
        walked(2, -1, [2, 1, 0], 0),
        of([7, 0, 9, 10, 11, 0, 0, 0, 0, 0, 17, 18, 19, 0, 21, 22])
    );
}

/// A convolution, read off its nested loops.
struct Loops {
    extents: Vec<i64>,
    strides: Vec<i64>,
    taps: Vec<Taps>,
}

impl Loops {
    fn of(activations: &str, taps: &[Taps]) -> Loops {
        let layout: Layout = activations.parse().unwrap();
        let leaves = layout.leaves().iter();
        let stride = |leaf: &colex_layout::LeafMode| match leaf.stride {
            colex_layout::Stride::Int(stride) => stride.value(),
            other => panic!("{other}"),
        };
        Loops {
            extents: leaves.clone().map(|leaf| leaf.extent.value()).collect(),
            strides: leaves.map(stride).collect(),
            taps: taps.to_vec(),
        }
    }

    /// Positions of the filter along W, H, D: how often it can be moved by its stride.
    fn outputs(&self) -> Vec<i64> {
        let along = |(taps, extent): (&Taps, &i64)| {
            let [before, after] = taps.padding;
            let last_tap = |q: i64| q * taps.stride + (taps.count - 1) * taps.dilation;
            (0..)
                .take_while(|q| last_tap(*q) < extent + before + after)
                .count() as i64
        };
        self.taps
            .iter()
            .zip(&self.extents[1..])
            .map(along)
            .collect()
    }

    /// The element of the activations in row `m` of the matrix, at a channel under a tap; none in the padding.
    fn element(&self, m: i64, channel: i64, tap: &[i64]) -> Option<i64> {
        let (mut rest, mut at) = (m, vec![channel]);
        for ((taps, tap), positions) in self.taps.iter().zip(tap).zip(self.outputs()) {
            at.push(rest % positions * taps.stride + tap * taps.dilation - taps.padding[0]);
            rest /= positions;
        }
        at.push(rest);
        let inside = at
            .iter()
            .zip(&self.extents)
            .all(|(x, end)| (0..*end).contains(x));
        inside.then(|| {
            at.iter()
                .zip(&self.strides)
                .map(|(x, stride)| x * stride)
                .sum()
        })
    }
}

/// Every tap of a filter.
fn every_tap(taps: &[Taps]) -> Vec<Vec<i64>> {
    taps.iter().fold(vec![Vec::new()], |all, taps| {
        let with = |tap: Vec<i64>| (0..taps.count).map(move |t| [tap.clone(), vec![t]].concat());
        all.into_iter().flat_map(with).collect()
    })
}

/// Law `tma.im2col`: after all instructions of a tile, shared memory at `shared(m,c)` has what the loops of the
/// convolution read in row `m` at channel `c`, and the fill value in the padding.
fn check(
    activations: &str,
    taps: &[Taps],
    shared: &str,
    element: TmaElement,
    multicast: i64,
) -> usize {
    let what = format!("{activations} {taps:?} {shared}");
    let plan = plan(activations, taps, shared, element, multicast);
    let plan = plan.unwrap_or_else(|error| panic!("{what}: {error}"));
    let shared: ComposedLayout = shared.parse().unwrap();
    let loops = Loops::of(activations, taps);
    let (rows, channels) = (
        shared.inner().mode(0).unwrap().size(),
        shared.inner().mode(1).unwrap().size(),
    );
    let pixels: i64 = loops.outputs().iter().product::<i64>() * loops.extents.last().unwrap();
    let (bytes, swizzle) = (element.bytes(), plan.map().swizzle.on_bytes());
    let mut cases = 0;
    // The first tile, one across images, and one across the end.
    for row in [0, pixels / 2, pixels - rows / 2] {
        for tap in every_tap(taps) {
            let mut memory = HashMap::new();
            for block in 0..multicast {
                for instruction in plan.slice(block).unwrap() {
                    let start = plan
                        .start(row + instruction.pixel, instruction.channel, &tap)
                        .unwrap();
                    for moved in plan
                        .map()
                        .loaded_at(&start.coordinates, &start.offsets)
                        .unwrap()
                    {
                        let at = swizzle.apply(instruction.shared * bytes + moved.shared);
                        assert_eq!(memory.insert(at, moved.global), None, "{what}: {at} twice");
                    }
                }
            }
            assert_eq!(memory.len() as i64, rows * channels);
            for i in 0..rows * channels {
                let expected = loops
                    .element(row + i % rows, i / rows, &tap)
                    .map(|x| x * bytes);
                let at = shared.at(i).unwrap() * bytes;
                assert_eq!(
                    memory[&at], expected,
                    "{what}: row {row}, {i} under {tap:?}"
                );
                cases += 1;
            }
        }
    }
    cases
}

/// Filters along one to three dimensions, with padding on one side or both, strides and dilations.
const FILTERS: [&[Taps]; 9] = [
    &[Taps {
        count: 3,
        stride: 1,
        dilation: 1,
        padding: [1, 1],
    }],
    &[Taps {
        count: 4,
        stride: 2,
        dilation: 1,
        padding: [0, 3],
    }],
    &[Taps {
        count: 2,
        stride: 1,
        dilation: 3,
        padding: [2, 0],
    }],
    &[Taps {
        count: 1,
        stride: 1,
        dilation: 1,
        padding: [0, 0],
    }; 2],
    &[Taps {
        count: 3,
        stride: 1,
        dilation: 1,
        padding: [1, 1],
    }; 2],
    &[
        Taps {
            count: 3,
            stride: 2,
            dilation: 1,
            padding: [1, 0],
        },
        Taps {
            count: 2,
            stride: 1,
            dilation: 2,
            padding: [0, 2],
        },
    ],
    &[Taps {
        count: 3,
        stride: 3,
        dilation: 2,
        padding: [2, 2],
    }; 2],
    &[Taps {
        count: 2,
        stride: 1,
        dilation: 1,
        padding: [1, 0],
    }; 3],
    &[
        Taps {
            count: 3,
            stride: 1,
            dilation: 1,
            padding: [1, 1],
        },
        Taps {
            count: 1,
            stride: 2,
            dilation: 1,
            padding: [0, 0],
        },
        Taps {
            count: 2,
            stride: 1,
            dilation: 2,
            padding: [2, 1],
        },
    ],
];

#[test]
fn every_tile_of_a_convolution_arrives() {
    let activations = [
        "(40,9,3):(1,40,400)",
        "(40,7,6,2):(1,40,320,1920)",
        "(32,5,4,3,2):(1,32,160,640,1920)",
    ];
    let mut cases = 0;
    for filter in FILTERS {
        let of = activations[filter.len() - 1];
        cases += check(of, filter, "(16,32):(32,1)", TmaElement::F32, 1);
        cases += check(
            of,
            filter,
            "Sw<3,2,3> o 0 o (16,32):(32,1)",
            TmaElement::F32,
            1,
        );
        // Two columns side by side, and a slice for each of four blocks.
        cases += check(
            of,
            filter,
            "Sw<2,2,3> o 0 o (8,(16,2)):(16,(1,128))",
            TmaElement::F32,
            1,
        );
        cases += check(
            of,
            filter,
            "Sw<2,3,3> o 0 o (24,32):(32,1)",
            TmaElement::F16,
            4,
        );
    }
    assert!(cases > 100_000, "{cases}");
    println!("law tma.im2col: {cases} cases");
}

/// Laws `tma.im2col.matrix`, `tma.im2col.tensor`: the matrix is a layout over the activations where there is no padding,
/// and the layout of coordinates says what `start` computes.
#[test]
fn a_convolution_is_a_layout() {
    let mut cases = 0;
    for (activations, filter) in [
        ("(8,9,3):(1,8,80)", FILTERS[1]),
        ("(8,7,6,2):(1,8,64,384)", FILTERS[5]),
        ("(8,5,4,3,2):(1,8,40,160,480)", FILTERS[8]),
    ] {
        let plan = plan(activations, filter, "(4,8):(8,1)", TmaElement::F32, 1).unwrap();
        let loops = Loops::of(activations, filter);
        let (rows, columns) = (
            plan.matrix().mode(0).unwrap(),
            plan.matrix().mode(1).unwrap(),
        );
        let padding = filter
            .iter()
            .zip(&loops.strides[1..])
            .map(|(taps, stride)| taps.padding[0] * stride);
        let origin = padding.sum::<i64>();
        for m in 0..rows.size() {
            for k in 0..columns.size() {
                let digits = columns.shape().coord(k).unwrap();
                let digits: Vec<i64> = digits.leaves().iter().map(|x| x.value()).collect();
                if let Some(element) = loops.element(m, digits[0], &digits[1..]) {
                    assert_eq!(
                        plan.matrix().at(m + rows.size() * k).unwrap() - origin,
                        element
                    );
                }
                let start = plan.start(m, digits[0], &digits[1..]).unwrap();
                let place = plan.tensor().coord_at(m + rows.size() * k).unwrap();
                let place: Vec<i64> = place.leaves().iter().map(|x| x.value()).collect();
                let lower = &plan.map().im2col.as_ref().unwrap().lower;
                let first = [vec![0], lower.clone(), vec![0; 1 + lower.len()]].concat();
                let summed: Vec<i64> = place.iter().zip(&first).map(|(x, y)| x + y).collect();
                assert_eq!(summed, [start.coordinates, start.offsets].concat());
                cases += 1;
            }
        }
    }
    println!("law tma.im2col.matrix: {cases} cases");
}

#[test]
fn a_plan_names_its_instructions() {
    let of = |multicast| {
        let filter = [Taps::new(3); 2];
        let shared = "Sw<3,3,3> o 0 o (64,64):(64,1)";
        plan(
            "(64,32,32,8):(1,64,2048,65536)",
            &filter,
            shared,
            TmaElement::F16,
            multicast,
        )
        .unwrap()
    };
    assert_eq!(
        of(1).load().unwrap().name(),
        "SM90_TMA_LOAD_IM2COL_4D<65536>"
    );
    assert_eq!(
        of(2).load().unwrap().name(),
        "SM90_TMA_LOAD_IM2COL_MULTICAST_4D<32768>"
    );
    assert_eq!(
        of(1).store().unwrap().name(),
        "SM90_TMA_STORE_IM2COL_4D<65536>"
    );
    assert_eq!(
        of(1).reduce(Reduction::Add).unwrap().name(),
        "SM90_TMA_REDUCE_ADD_IM2COL_4D<65536>"
    );
    assert_eq!((of(1).tile_bytes(), of(2).tile_bytes()), (8192, 8192));
    assert_eq!(of(1).map().box_bytes(), 8192);
    assert_eq!(of(2).slice(1).unwrap()[0].pixel, 32);
}

#[test]
fn a_column_is_refused_with_a_sentence() {
    let of = |activations: &str, filter: &[Taps], shared: &str| {
        plan(activations, filter, shared, TmaElement::F32, 1)
            .unwrap_err()
            .to_string()
    };
    let (images, shared) = ("(32,8,8,2):(1,32,256,2048)", "(16,32):(32,1)");
    let two = [Taps::new(3); 2];
    assert_eq!(
        of("(32,8):(1,32)", &[], shared),
        "an im2col map has 3 to 5 dimensions, channels, one to three of pixels, and images, not 2"
    );
    assert_eq!(
        of(images, &two[..1], shared),
        "there are 1 filters, not 2: one for each dimension between channels and images"
    );
    assert_eq!(
        of("(32,8,8,2):(2,64,512,4096)", &two, shared),
        "shared memory runs along the channels first, and that has stride 2 in the tensor, not 1: \
         the majorness of shared memory does not match the tensor's"
    );
    let nowhere = "the filter along dimension 2 has nowhere to stand: its taps, stride and dilation are at least 1, and it is \
         no longer than the 8 pixels with their padding";
    for second in [
        Taps::new(9),
        Taps::new(0),
        taps(3, 0, 1, [0, 0]),
        taps(3, 1, 4, [0, 0]),
    ] {
        assert_eq!(of(images, &[Taps::new(3), second], shared), nowhere);
    }
    assert_eq!(
        of(images, &[taps(3, 1, 1, [129, 0]), Taps::new(3)], shared),
        "the pixel box has a corner at -129 along dimension 1, not from -128 to 127"
    );
    // Paddings up to the greatest number.
    for before in [i64::MAX, i64::MAX - 8] {
        assert_eq!(
            of(images, &[taps(1, 1, 1, [before, 0]), Taps::new(3)], shared),
            format!(
                "the pixel box has a corner at -{before} along dimension 1, not from -128 to 127"
            )
        );
    }
    assert_eq!(
        of(
            images,
            &[taps(1, 1, 1, [0, i64::MAX - 7]), Taps::new(3)],
            shared
        ),
        "the pixel box has a corner at 9223372036854775800 along dimension 1, not from -128 to 127"
    );
    assert_eq!(
        of(images, &[taps(3, 9, 1, [0, 0]), Taps::new(3)], shared),
        "dimension 1 has an element stride of 9, not 1 to 8"
    );
    let order = "a column fills shared memory along the channels first, then along the pixels: a layout of \
         (pixels,channels) whose channels are contiguous";
    assert_eq!(of(images, &two, "(16,32):(1,16)"), order);
    assert_eq!(of(images, &two, "512:1"), order);
    assert_eq!(
        of(images, &two, "(1025,32):(32,1)"),
        "a column has 1025 pixels, not 1 to 1024"
    );
    assert_eq!(
        of(images, &two, "(16,6):(6,1)"),
        "a row of the box has 24 bytes, not a multiple of 16"
    );
}

/// What the hardware asks of a map and a column.
#[test]
fn a_pixel_box_is_checked_by_itself() {
    let good = plan(
        "(32,8,8,2):(1,32,256,2048)",
        &[Taps::new(3); 2],
        "(16,32):(32,1)",
        TmaElement::F32,
        1,
    );
    let good = good.unwrap().map().clone();
    let says = |change: &dyn Fn(&mut TensorMap, &mut PixelBox)| {
        let mut map = good.clone();
        let mut pixels = map.im2col.clone().unwrap();
        change(&mut map, &mut pixels);
        map.im2col = Some(pixels);
        map.check().unwrap_err().to_string()
    };
    assert_eq!(
        says(&|_, pixels| pixels.upper.truncate(1)),
        "there are 1 upper corners, not 2: one for each dimension between channels and images"
    );
    assert_eq!(
        says(&|_, pixels| (pixels.lower[1], pixels.upper[1]) = (3, -5)),
        "the pixel box goes from 3 to 2 along dimension 2: there is no pixel in it"
    );
    assert_eq!(
        says(&|map, _| map.element_strides[3] = 2),
        "dimension 3 has an element stride of 2: an im2col map steps over pixels, not over channels or images"
    );
    assert_eq!(
        says(&|map, _| map.extents.push(1)),
        "a box has 2 coordinates, not 3"
    );
    assert_eq!(
        says(&|map, _| (map.dims, map.strides) = (vec![1 << 32; 4], vec![1 << 39; 3])),
        "a tensor of [4294967296, 4294967296, 4294967296, 4294967296] with these strides ends beyond 2^63 bytes"
    );
}

#[test]
fn a_column_begins_where_it_may() {
    let map = plan(
        "(32,8,8,2):(1,32,256,2048)",
        &[Taps::new(3); 2],
        "(16,32):(32,1)",
        TmaElement::F32,
        1,
    );
    let map = map.unwrap().map().clone();
    let says = |coordinates: &[i64], offsets: &[i64]| {
        map.loaded_at(coordinates, offsets).unwrap_err().to_string()
    };
    assert_eq!(
        says(&[0, 6, 0, 0], &[0, 0]),
        "the column begins at 6 along dimension 1, outside of the pixel box from 0 to 5"
    );
    assert_eq!(
        says(&[0, 0, 0, 0], &[0, 256]),
        "the filter's offset along dimension 2 is 256, not 0 to 255"
    );
    assert_eq!(
        says(&[0, 0, 0, 0], &[0]),
        "there are 1 offsets of the filter, not 2: one for each dimension between channels and images"
    );
    assert_eq!(
        says(&[2, 0, 0, 0], &[0, 0]),
        "the box begins 8 bytes into a row, not at a multiple of 16"
    );
    assert_eq!(
        says(&[0, 0, 0, 1 << 31], &[0, 0]),
        "the coordinate 2147483648 along dimension 3 does not fit 32 bits"
    );
    assert_eq!(
        map.loaded(&[0; 4]).unwrap_err().to_string(),
        "the tensor map is one for im2col, and the copy is tiled"
    );
    assert_eq!(
        map.stored(&[0, -1, 0, 0]).unwrap_err().to_string(),
        "a store begins before the tensor, at -1 along dimension 1: only a load may"
    );
    let plan = plan(
        "(32,8,8,2):(1,32,256,2048)",
        &[Taps::new(3); 2],
        "(16,32):(32,1)",
        TmaElement::F32,
        1,
    );
    let plan = plan.unwrap();
    assert_eq!(
        plan.start(0, 0, &[0, 3]).unwrap_err().to_string(),
        "there is no tap 3: there are 3"
    );
    assert_eq!(
        plan.start(-1, 0, &[0, 0]).unwrap_err().to_string(),
        "there is no pixel -1: there are 9223372036854775807"
    );
}
