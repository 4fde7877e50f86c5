//! Columns of pixels: what a convolution reads, in shared memory.

use colex_atom::{Im2colPlan, Im2colTile, Taps, TensorMap, TmaElement, copy};
use colex_ir::launch::Launch;
use colex_sim::{Fault, SimOptions};

use super::bulk::{argument, data, load_kernel_at, store_kernel};
use super::helpers::*;

/// Two images of 5 by 4 pixels with 8 channels of 32 bits.
const SIZES: [i64; 4] = [8, 5, 4, 2];

fn plan(filter: [Taps; 2]) -> Im2colPlan {
    let tile = Im2colTile {
        activations: "(8,5,4,2):(1,8,40,160)",
        taps: &filter,
        shared: "(16,8):(8,1)",
        element: TmaElement::U32,
        multicast: 1,
    };
    Im2colPlan::new(tile).unwrap()
}

/// Row `m` of the matrix at a channel under a tap: the loops of the convolution, for `Q` by `P` positions.
fn read(filter: [Taps; 2], [q, p]: [i64; 2], m: i64, channel: i64, tap: [i64; 2]) -> Option<usize> {
    let at = |digit: i64, d: usize| {
        let x = digit * filter[d].stride + tap[d] * filter[d].dilation - filter[d].padding[0];
        (0..SIZES[d + 1]).contains(&x).then_some(x)
    };
    let (w, h, n) = (at(m % q, 0)?, at(m / q % p, 1)?, m / q / p);
    (n < SIZES[3]).then_some((channel + 8 * (w + 5 * (h + 4 * n))) as usize)
}

#[test]
fn the_simulator_reads_what_a_convolution_reads() {
    let filters = [
        ([Taps::new(1); 2], [5, 4]),
        (
            [Taps {
                padding: [1, 1],
                ..Taps::new(3)
            }; 2],
            [5, 4],
        ),
        (
            [
                Taps {
                    stride: 2,
                    padding: [1, 0],
                    ..Taps::new(2)
                },
                Taps {
                    dilation: 2,
                    padding: [0, 2],
                    ..Taps::new(2)
                },
            ],
            [3, 4],
        ),
    ];
    let (input, mut cases) = (data(4 * 320), 0);
    for (filter, [q, p]) in filters {
        let plan = plan(filter);
        for row in [0, 7, 2 * q * p - 8] {
            for tap in [[0, 0], [filter[0].count - 1, filter[1].count - 1]] {
                let start = plan.start(row, 0, &tap).unwrap();
                let kernel = load_kernel_at(
                    &plan.load().unwrap(),
                    &start.coordinates,
                    &start.offsets,
                    512,
                );
                let mut host = Host::default();
                let address = host.bytes(&input);
                host.arguments = vec![argument(plan.map(), address)];
                let out = host.empty(512);
                let launch = Launch::new(1, 32).dynamic_shared(512);
                host.run_with(&kernel, launch, &SimOptions::default().seed(cases))
                    .unwrap();
                let found = host.memory.read(out, 512).unwrap();
                for (i, word) in found.chunks(4).enumerate() {
                    let place = read(filter, [q, p], row + i as i64 / 8, i as i64 % 8, tap);
                    let expected = place.map_or(&[0; 4][..], |at| &input[4 * at..][..4]);
                    assert_eq!(word, expected, "{filter:?}: row {row}, {i} under {tap:?}");
                    cases += 1;
                }
            }
        }
    }
    println!("law sim.im2col: {cases} cases");
}

#[test]
fn a_store_writes_the_pixels_themselves() {
    let plan = plan([
        Taps {
            stride: 2,
            ..Taps::new(1)
        },
        Taps::new(1),
    ]);
    let (before, boxed) = (data(4 * 320), vec![0xab; 512]);
    let mut host = Host::default();
    let address = host.bytes(&before);
    host.arguments = vec![argument(plan.map(), address)];
    host.bytes(&boxed);
    let kernel = store_kernel(&plan.store().unwrap(), &[0, 2, 1, 0], 512);
    host.run(&kernel, Launch::new(1, 32).dynamic_shared(512))
        .unwrap();
    let found = host.memory.read(address, 4 * 320).unwrap();
    // From q = 1, p = 1 on, 16 positions: w is 0, 2 or 4.
    let written = |at: usize| {
        let (w, pixel) = (at / 8 % 5, at / 40);
        let position = (w / 2 + 3 * pixel) as i64 - 4;
        w % 2 == 0 && (0..16).contains(&position)
    };
    for (at, (new, old)) in found.chunks(4).zip(before.chunks(4)).enumerate() {
        let expected = if written(at) { &[0xab; 4] } else { old };
        assert_eq!(new, expected, "element {at}");
    }
}

/// What the simulator says of a load.
fn fault(name: &str, map: &TensorMap, at: &[i64], offsets: &[i64]) -> Fault {
    let atom = copy(name).unwrap().with_bits(8 * 512).unwrap();
    let mut host = Host::default();
    let address = host.bytes(&data(4 * 320));
    host.arguments = vec![argument(map, address)];
    host.empty(512);
    let kernel = load_kernel_at(&atom, at, offsets, 512);
    host.run(&kernel, Launch::new(1, 32).dynamic_shared(512))
        .unwrap_err()
}

#[test]
fn a_column_that_is_none_is_a_fault() {
    let map = plan([Taps::new(3); 2]).map().clone();
    let tiled = TensorMap {
        im2col: None,
        extents: vec![8, 4, 4, 1],
        ..map.clone()
    };
    for (name, map, at, offsets, says) in [
        (
            "SM90_TMA_LOAD_4D",
            &map,
            [0, 0, 0, 0],
            &[][..],
            "the tensor map is one for im2col, and the copy is tiled",
        ),
        (
            "SM90_TMA_LOAD_IM2COL_4D",
            &tiled,
            [0, 0, 0, 0],
            &[0, 0],
            "the tensor map is tiled, and the copy is one of im2col",
        ),
        (
            "SM90_TMA_LOAD_IM2COL_4D",
            &map,
            [0, 3, 0, 0],
            &[0, 0],
            "the column begins at 3 along dimension 1, outside of the pixel box from 0 to 2",
        ),
        (
            "SM90_TMA_LOAD_IM2COL_4D",
            &map,
            [0, 0, 0, 0],
            &[0, 256],
            "the filter's offset along dimension 2 is 256, not 0 to 255",
        ),
    ] {
        let said = fault(name, map, &at, offsets).to_string();
        assert!(said.contains(says), "{said}");
    }
}
