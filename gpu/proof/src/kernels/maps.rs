//! Tensor maps of small views: modes of one element, whose strides a map has to make up.

use colex_atom::{Arch, Ty};
use colex_gpu::ir::FenceKind;
use colex_gpu::tensor::{AtThread, Builder};
use colex_gpu::{Device, DeviceKernel, Error, Load, View};
use colex_layout::C;
use colex_tiled::TiledCopy;

/// Elements of the buffer that every view lies in.
const ELEMENTS: usize = 200;

/// Builds a copy of tiles of `(4,8)` by a tensor map, from rows of any dynamic stride to compact rows.
fn through_map(device: &Device) -> Result<DeviceKernel, Error> {
    let atom = colex_atom::copy("UniversalCopy<uint32_t>").expect("an atom");
    let copy = TiledCopy::new(atom, 32, "(4,8):(8,1)", "(1,1):(0,0)").expect("a tiled copy");
    let mut k = Builder::new("through_map", Arch::Sm90a, 32);
    let from = k.tma_tensor("from", Ty::F32, "(64,64):(64,_1)", [4, 8], "(4,8):(8,1)", 1);
    let to = k.tensor("to", Ty::F32, "(64,64):(64,_1)");
    let here = k.shared_tensor(Ty::F32, "(4,8):(8,1)");
    let landed = k.barriers(1);
    let (thread, m, n) = (k.thread(), k.block_index(0), k.block_index(1));
    let full = landed.at(0);
    let first = k.equal(&thread, &0.into());
    k.if_(first, |k| {
        k.init_barriers(&landed, 1);
        k.fence(FenceKind::MbarrierInit);
        k.arrive_expect(&full, from.tile_bytes());
        k.tma_load(&from, (&m, &n), &here, &full);
    });
    k.sync();
    k.wait(&full, &0.into());
    let mine = copy.at(&thread);
    let source = mine.partition_src(&here); // (CPY, CPY_M, CPY_N)
    let target = mine.partition_dst(&to.local_tile((4, 8), (&m, &n))); // (CPY, CPY_M, CPY_N)
    let held = k.fragment_like(&source);
    k.copy(&copy, &source, &held);
    k.copy_in_bounds(&copy, &held, &target);
    k.finish().expect("a kernel").load(device)
}

/// Copies every view of up to 6 by 9 elements with several strides. Those that the hardware takes are right, and the
/// others are refused by an error that names the stride. Returns how many were taken and how many refused.
///
/// # Errors
///
/// Returns the first view whose copy is wrong, was refused or was taken against the rule, in words.
pub fn check(device: &Device) -> Result<(usize, usize), String> {
    let text = |error: Error| error.to_string();
    let kernel = through_map(device).map_err(text)?;
    let data: Vec<f32> = (1..=ELEMENTS).map(|i| i as f32).collect();
    let from = device.upload(&data).map_err(|error| error.to_string())?;
    let (mut taken, mut refused) = (0, 0);
    for (m, n) in (1..=6_usize).flat_map(|m| (1..=9_usize).map(move |n| (m, n))) {
        for row in [0, 1, n, n + 3, n.next_multiple_of(4), 20] {
            // A stride that repeats or interleaves rows is another test's.
            if m > 1 && row < n {
                continue;
            }
            for column in [0_usize, 1, 5] {
                if n > 1 && column != 1 {
                    continue;
                }
                let form = format!("{m} by {n}, {row} and {column} apart");
                let failed = |why: &dyn std::fmt::Display| format!("{form}: {why}");
                let view = match column {
                    1 => View::new(&from, ((m, n), (row, C::<1>))),
                    _ => View::new(&from, ((m, n), (row, column))),
                };
                let view = view.map_err(|error| failed(&error))?;
                let mut to = device.zeros::<f32>(54).map_err(|error| failed(&error))?;
                let target = to.view_mut((m, n)).map_err(|error| failed(&error))?;
                let done = kernel.launch([m.div_ceil(4), n.div_ceil(8)], (view, target));
                let legal = m == 1 || row % 4 == 0;
                match (legal, done) {
                    (true, Err(error)) => return Err(failed(&error)),
                    (false, Ok(())) => return Err(failed(&"taken, with rows not 16 bytes apart")),
                    (false, Err(error)) if error.to_string().contains("stride") => refused += 1,
                    (false, Err(error)) => return Err(failed(&error)),
                    (true, Ok(())) => {
                        let found = to.download().map_err(|error| failed(&error))?;
                        let right = |i: usize| data[i / n * row + i % n];
                        if let Some(i) = (0..m * n).find(|&i| found[i] != right(i)) {
                            let why = format!("element {i} is {}, not {}", found[i], right(i));
                            return Err(failed(&why));
                        }
                        taken += 1;
                    }
                }
            }
        }
    }
    Ok((taken, refused))
}
