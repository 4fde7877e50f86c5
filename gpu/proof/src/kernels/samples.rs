//! The kernels of the library, one of each kind, for the assembler to read.

use colex_atom::{Arch, Ty};
use colex_layout::Layout;

use super::attention::WIDTHS;
use super::fragments::{self, RegisterPlace, TYPES, formula, is_there};
use super::gathers;
use super::plans::listed::of_all_lists;
use super::reductions::{self, Body};
use crate::sample::Sample;
use crate::sweep::Random;
use colex_device::{Device, Rates};
use colex_gpu::attention::{
    AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Mask, Sequences,
};
use colex_gpu::elementwise::{
    ElementwisePlan, Gather, Map, MapExpression, Pairing, Rotary, RotaryCall,
};
use colex_gpu::gemm::{ChunkOrder, Convolution, Epilogue};
use colex_gpu::kernels::gemm::{Division, GemmMethod, GemmPlan, Operands};
use colex_gpu::kernels::{Compute, CopyMethod, CopyPlan, Gemm, LoopNest, Major};
use colex_gpu::quantise::{Quantise, QuantiseAccess, QuantisePlan, TensorScalePlan};
use colex_gpu::ranks::RankDevices;
use colex_gpu::reduce::scan::{ScanPlan, ScanProblem};
use colex_gpu::reduce::top_k::{TopKPlan, TopKProblem};
use colex_gpu::reduce::{ReduceFunction, ReducePlan, ReduceProblem};
use colex_gpu::rowwise::{RowFunction, RowStorage, RowTensor, RowwisePlan, RowwiseProblem};
use colex_gpu::tensor::TensorKernel;
use colex_gpu::{Error, View, ViewMut};
use colex_ir::BinaryOp;
use colex_sched::pipeline::Schedule;
use half::{bf16, f16};

/// Copies and products by every method.
pub(crate) fn samples() -> Result<Vec<Sample>, Error> {
    let mut all = copies()?;
    all.extend(products()?);
    Ok(all)
}

/// Returns kernels of the calls that take no tile: formulas and reductions of every type, gathers, scatters, atomic operations and
/// vectors with a rest. They are drawn, and no program loads them.
///
/// ```
/// let samples = colex_proof::corpus::drawn_samples()?;
/// assert!(samples.iter().all(|sample| sample.kernel.verify().is_ok()));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// Returns why one is not built, in words.
pub fn drawn_samples() -> Result<Vec<Sample>, String> {
    let mut r = Random::new(41);
    let mut all = Vec::new();
    for arch in [Arch::Sm70, Arch::Sm80, Arch::Sm90a] {
        let kinds: Vec<Ty> = TYPES.into_iter().filter(|ty| is_there(arch, *ty)).collect();
        for ty in &kinds {
            let formula = formula(&mut r, &kinds, (*ty, true), 4);
            // Not every architecture has every function of 16-bit floats.
            if let Ok(built) =
                fragments::kernel(arch, &kinds, 4, &formula, &[RegisterPlace::Compact])
            {
                all.push(Sample::new(built.kernel, 140));
            }
        }
        let wide: Body<'_> = &|k, op, x| vec![k.reduce_cluster(op, x, 2)];
        let block: Body<'_> = &|k, op, x| {
            let (before, all) = k.scan_block(op, x, true);
            vec![k.reduce_all(op, x), k.reduce_block(op, x), before, all]
        };
        let body = if arch == Arch::Sm90a { wide } else { block };
        for ty in [Ty::F64, Ty::F32, Ty::F16, Ty::S32, Ty::U8] {
            let built = reductions::kernel(arch, BinaryOp::Max, ty, [128, 4], body);
            let (built, _) = built.map_err(|e| e.to_string())?;
            all.push(Sample::new(built.kernel, 80));
        }
        if arch != Arch::Sm80 {
            let all_of = gathers::kernels(arch, 12)?.into_iter();
            all.extend(all_of.map(|built| Sample::new(built.kernel, 80)));
        }
    }
    all.extend(attention().map_err(|e| e.to_string())?);
    all.extend(gated().map_err(|e| e.to_string())?);
    all.extend(chunks().map_err(|e| e.to_string())?);
    all.extend(rowwise().map_err(|e| e.to_string())?);
    all.extend(reduced().map_err(|e| e.to_string())?);
    all.extend(elementwise().map_err(|e| e.to_string())?);
    all.extend(convolutions().map_err(|e| e.to_string())?);
    all.extend(super::plans::listed::samples()?);
    Ok(all)
}

/// Maps, gathers, rotary embeddings and quantisation: one run and several loops, vectors and single elements.
fn elementwise() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    let device = Device::simulator(Arch::Sm90a);
    let count = 1 << 16;
    let (x, other) = (device.zeros::<bf16>(count)?, device.zeros::<f32>(count)?);
    let index = device.zeros::<i64>(count)?;
    let (mut y, mut wide) = (device.zeros::<bf16>(count)?, device.zeros::<f32>(count)?);
    let (mut narrow, mut scales) = (device.zeros::<u8>(count)?, device.zeros::<f32>(count)?);
    let mut add = |built: Option<&TensorKernel>| {
        all.extend(built.map(|built| Sample::new(built.kernel.clone(), 128)));
    };
    let gelu = MapExpression::new(|m| {
        let x = m.tensor("x", Ty::Bf16).to(Ty::F32) + m.tensor("bias", Ty::F32);
        m.output("y", x.gelu());
    })?;
    let views = [
        ("(256,256):(256,1)", "(256,256):(256,1)"),
        ("(256,256):(256,1)", "(256,256):(0,1)"),
        ("(256,256):(1,256)", "(256,256):(256,1)"),
        ("(16,255,15):(4096,16,1)", "(16,255,15):(1,0,0)"),
    ];
    for (of_x, of_bias) in views {
        let (x, bias) = (View::new(&x, of_x)?, View::new(&other, of_bias)?);
        let to = wide.view_mut(x.shape().clone())?;
        let call = Map::new(&gelu)
            .input("x", &x)
            .input("bias", &bias)
            .output("y", &to);
        for accesses in [1, 4] {
            let call = call.prepare_with(|problem, arch| {
                let plan = ElementwisePlan::fastest(problem, arch)?;
                Ok(ElementwisePlan { accesses, ..plan })
            })?;
            add(call.built());
        }
    }
    for columns in [128, 33] {
        let (table, rows) = (x.view((64, columns))?, index.view(200)?);
        let call = Gather::new(&table, &rows, &y.view_mut((200, columns))?).prepare()?;
        add(call.built());
    }
    let shape = (2, 4, 8, 128);
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        let call = Rotary::new(pairing, &x.view(shape)?, &y.view_mut(shape)?);
        let table = other.view((100, 64))?;
        let positions = index.view(8)?;
        let calls = [
            call.clone().prepare()?,
            call.clone().tables(&table, &table).prepare()?,
            call.clone()
                .tables(&table, &table)
                .positions(&positions)
                .prepare()?,
            call.features(64).positions(&positions).prepare()?,
        ];
        for call in calls.iter().flat_map(RotaryCall::calls) {
            add(call.built());
        }
    }
    for columns in [128, 33, 4096, 32768] {
        let rows = (count as i64 / columns).min(8);
        let (shape, scales) = ((rows, columns), scales.view_mut(rows)?);
        let from = x.view(shape)?;
        let call = Quantise::new(Ty::E4m3, &from, &narrow.view_mut(shape)?).rows(&scales);
        add(call.prepare()?.built());
        let from = other.view(shape)?;
        let call = Quantise::new(Ty::E5m2, &from, &narrow.view_mut(shape)?).rows(&scales);
        add(call.prepare()?.built());
    }
    all.extend(quantised_rows()?);
    all.extend(scales_of_tensors()?);
    Ok(all)
}

/// Rows that are quantised where no vector divides them, where the blocks of a cluster share them, and where they are read again: those of the
/// default plans, and others with as many accesses as a thread may have.
fn quantised_rows() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    let device = Device::simulator(Arch::Sm90a);
    let count = 1 << 21;
    let (x, other) = (device.zeros::<bf16>(count)?, device.zeros::<f32>(count)?);
    let (mut narrow, mut scales) = (device.zeros::<u8>(count)?, device.zeros::<f32>(count)?);
    for columns in [
        1,
        31,
        255,
        999,
        4097,
        16385,
        65536,
        65537,
        (1 << 18) + 1,
        1 << 19,
        (1 << 19) + 1,
        1 << 20,
        (1 << 20) + 1,
        1 << 21,
    ] {
        let rows = (count as i64 / columns).min(8);
        let (shape, scales) = ((rows, columns), scales.view_mut(rows)?);
        let to = narrow.view_mut(shape)?;
        let calls = [
            Quantise::new(Ty::E4m3, &x.view(shape)?, &to)
                .rows(&scales)
                .prepare()?,
            Quantise::new(Ty::E5m2, &other.view(shape)?, &to)
                .rows(&scales)
                .prepare()?,
        ];
        for call in calls {
            let plan = *call.plan().expect("there are rows");
            let full = QuantisePlan {
                accesses: 8,
                ..plan
            };
            let again = QuantisePlan {
                held: false,
                ..full
            };
            for plan in [plan, full, again] {
                if plan.check(Arch::Sm90a).is_err() {
                    continue;
                }
                let threads = plan.threads * plan.rows;
                let most = (65536 / threads.max(1024)).min(255) as u32;
                let most = if plan.blocks > 1 { most } else { 128 };
                // ptxas spills 8 or 16 bytes of shifted rows that are read again by eight accesses; by default they have four.
                let is_again = !plan.held && plan.access == QuantiseAccess::Shifted;
                let spilled = if is_again && plan.accesses == 8 {
                    16
                } else {
                    0
                };
                let sample = Sample::new(plan.build(Arch::Sm90a)?.kernel, most);
                all.push(sample.spilling(spilled));
            }
        }
    }
    Ok(all)
}

/// Scales of tensors by two launches, and by blocks that run at once: with as many accesses in registers as by default, and with as many
/// in blocks of more and of fewer threads.
fn scales_of_tensors() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for (from, to) in [
        (Ty::Bf16, Ty::E4m3),
        (Ty::F16, Ty::S8),
        (Ty::F32, Ty::E5m2),
        (Ty::F32, Ty::S8),
    ] {
        let at_once = TensorScalePlan::at_once(from, to, Arch::Sm90a, 132)?;
        for plan in [
            TensorScalePlan::fastest(from, to),
            at_once,
            TensorScalePlan {
                cached: 0,
                ..at_once
            },
            TensorScalePlan { kept: 0, ..at_once },
            TensorScalePlan { held: 0, ..at_once },
            TensorScalePlan {
                accesses: 4,
                held: 18,
                again_first: true,
                ..at_once
            },
            TensorScalePlan {
                threads: 1024,
                held: 6,
                kept: 14,
                accesses: 4,
                ..at_once
            },
            TensorScalePlan {
                threads: 256,
                held: 48,
                kept: 56,
                ..at_once
            },
        ] {
            let most = (65536 / plan.threads).min(255) as u32;
            for built in plan.build(Arch::Sm90a)? {
                all.push(Sample::new(built.kernel, most));
            }
        }
    }
    Ok(all)
}

/// Norms that keep the weight and the bias in shared memory, with a residual and without: with as many registers as the blocks of a
/// multiprocessor share.
fn kept_weights() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for (function, ty, columns) in [
        (RowFunction::LayerNorm, Ty::Bf16, 16384),
        (RowFunction::LayerNorm, Ty::F32, 8192),
        (RowFunction::RmsNorm, Ty::Bf16, 16384),
        (RowFunction::RmsNorm, Ty::F32, 8192),
    ] {
        for ([threads, rows], ahead, has_residual) in [
            ([512, 1], 0, false),
            ([512, 1], 0, true),
            ([512, 1], 1, false),
            ([512, 1], 1, true),
            ([256, 1], 1, false),
            ([256, 2], 1, false),
        ] {
            let problem = RowwiseProblem::new(function, ty, [100, columns]);
            let mut plan = RowwisePlan::fastest(&problem, Arch::Sm90a)?;
            for tensor in [RowTensor::Weight, RowTensor::Bias] {
                plan.operands.given[tensor as usize] = true;
            }
            for tensor in [RowTensor::Residual, RowTensor::Sum] {
                plan.operands.given[tensor as usize] = has_residual;
            }
            let plan = RowwisePlan {
                threads,
                rows,
                accesses: columns / (threads * plan.vector),
                meets_once: function == RowFunction::LayerNorm && rows == 1,
                ..plan
            };
            let plan = plan.keeping_weights(Arch::Sm90a, ahead)?;
            let kernel = plan.build(Arch::Sm90a)?.kernel;
            let beside = i64::from(kernel.min_blocks.unwrap_or(1));
            let most = (65536 / (threads * rows * beside)).min(255);
            all.push(Sample::new(kernel, most as u32));
        }
    }
    Ok(all)
}

/// Functions of rows: held by a warp, a block and a cluster, and in passes, with vectors and without, by groups that take rows in
/// turn, with as many elements in each thread as there may be, by teams of blocks, in registers and shared memory together, and with the
/// weight and the bias of a norm in shared memory; and rows beside each other.
fn rowwise() -> Result<Vec<Sample>, Error> {
    let mut all = turned_rows()?;
    for (arch, ty) in [
        (Arch::Sm80, Ty::F32),
        (Arch::Sm90a, Ty::Bf16),
        (Arch::Sm90a, Ty::F32),
    ] {
        for function in RowFunction::ALL {
            for columns in [
                33,
                129,
                1000,
                4096,
                4097,
                16384,
                32767,
                65536,
                1 << 18,
                1 << 20,
            ] {
                let problem = RowwiseProblem::new(function, ty, [100, columns]);
                let plan = RowwisePlan::fastest(&problem, arch)?;
                let most = 65536 / (plan.threads * plan.rows).max(256);
                all.push(Sample::new(plan.build(arch)?.kernel, most as u32));
            }
        }
    }
    // A layer norm of rows that shared memory holds alone.
    for of_block in [[512, 2], [256, 4]] {
        let problem = RowwiseProblem::new(RowFunction::LayerNorm, Ty::Bf16, [100, 16384]);
        let plan = RowwisePlan::divided(&problem, Arch::Sm90a, 1, of_block)?;
        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 64));
    }
    all.extend(kept_weights()?);
    for ty in [Ty::F32, Ty::Bf16] {
        for function in RowFunction::ALL {
            let problem = RowwiseProblem::new(function, ty, [100, 65536]);
            let least = if ty == Ty::F32 { 2 } else { 1 };
            for [blocks, threads, groups] in [
                [least, 1024, 1],
                [2 * least, 512, 2],
                [2 * least, 256, 2],
                [8, 256, 3],
                [8, 256, 4],
            ] {
                let of_group = [threads, groups];
                let plan = RowwisePlan::alternating(&problem, Arch::Sm90a, blocks, of_group)?;
                let most = 65536 / (threads * groups);
                all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, most as u32));
            }
            // Rows in registers and shared memory together: by two and four blocks beside each other, and by one.
            for (columns, blocks, of_block) in [
                (40_000, least, [512, 2]),
                (40_000, least, [256, 4]),
                (65536, least, [512, 2]),
                (65536, least, [1024, 1]),
            ] {
                let problem = RowwiseProblem::new(function, ty, [100, columns]);
                let plan = RowwisePlan::divided(&problem, Arch::Sm90a, blocks, of_block)?;
                all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 64));
            }
            // Rows of teams, by the fewest blocks and by all of an H200.
            let problem = RowwiseProblem::new(function, ty, [100, 1 << 20]);
            let least = 16 * least;
            for [blocks, threads, groups] in
                [[least, 1024, 1], [44, 1024, 1], [66, 512, 2], [132, 256, 4]]
            {
                let (of_team, of_group) = ([blocks, 132], [threads, groups]);
                let plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, of_team, of_group)?;
                let most = 65536 / (threads * groups);
                let sample = Sample::new(plan.build(Arch::Sm90a)?.kernel, most as u32);
                // With 64 registers, a thread has no room for the four numbers of its warp beside 32 of its row, and ptxas spills up to 76
                // bytes of them.
                all.push(if function == RowFunction::LayerNorm {
                    sample.spilling(76)
                } else {
                    sample
                });
            }
        }
    }
    all.extend(rows_behind()?);
    Ok(all)
}

/// The plans of an H200 for large tensors whose rows are in teams with a lag: of all lengths, with the weight and the bias of a norm.
fn rows_behind() -> Result<Vec<Sample>, Error> {
    let rates = Rates::of(Arch::Sm90a);
    let mut all: Vec<(RowwisePlan, Sample)> = Vec::new();
    for ty in [Ty::F32, Ty::Bf16, Ty::F16] {
        for function in RowFunction::ALL {
            for log in 14..22 {
                let problem = RowwiseProblem::new(function, ty, [1 << 12, 1 << log]);
                let found = RowwisePlan::fastest_on(&problem, Arch::Sm90a, rates)?;
                let RowStorage::Teams {
                    groups,
                    lag: lag @ 1..,
                    ..
                } = found.storage
                else {
                    continue;
                };
                let (of_team, of_group) = ([found.blocks, 128], [found.threads, groups]);
                let mut plan = RowwisePlan::in_teams(&problem, Arch::Sm90a, of_team, of_group)?;
                plan.operands.given[RowTensor::Weight as usize] = function.is_norm();
                plan.operands.given[RowTensor::Bias as usize] = function == RowFunction::LayerNorm;
                if function.is_norm() {
                    plan = plan.keeping_weights(Arch::Sm90a, 1)?;
                }
                let plan = plan.lagging(Arch::Sm90a, lag)?;
                if all.iter().any(|(of, _)| *of == plan) {
                    continue;
                }
                let most = 65536 / (plan.threads * groups);
                let kernel = plan.build(Arch::Sm90a)?.kernel;
                all.push((plan, Sample::new(kernel, most.min(255) as u32)));
            }
        }
    }
    Ok(all.into_iter().map(|(_, sample)| sample).collect())
}

/// Functions of rows that lie beside each other: of few columns, held by a block and by clusters, and in passes, by vectors and by single
/// elements, and norms with weights and a residual.
fn turned_rows() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for (arch, ty) in [
        (Arch::Sm80, Ty::F32),
        (Arch::Sm80, Ty::F16),
        (Arch::Sm90a, Ty::Bf16),
        (Arch::Sm90a, Ty::F32),
    ] {
        for function in RowFunction::ALL {
            for extents in [
                &[20, 65536][..],
                &[1000, 65536],
                &[4096, 16384],
                &[65536, 1024],
                &[64, 1024, 1024],
                &[1000, 4097],
            ] {
                let along = extents.len() - 2;
                let problem = RowwiseProblem::along(function, ty, extents, along)?;
                let plan = RowwisePlan::fastest(&problem, arch)?;
                let mut with_all = plan;
                with_all.operands.given = [true; 6];
                let both = if function.is_norm() {
                    vec![plan, with_all]
                } else {
                    vec![plan]
                };
                for plan in both {
                    let kernel = plan.build(arch)?.kernel;
                    let threads = plan.threads * (plan.rows / plan.vector);
                    let beside = i64::from(kernel.min_blocks.unwrap_or(1));
                    let most = (65536 / (threads * beside)).min(255);
                    all.push(Sample::new(kernel, most as u32));
                }
            }
        }
    }
    Ok(all)
}

/// Reductions and cumulative sums along the last, the first and other modes, with parts and without.
fn reduced() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for (arch, ty) in [
        (Arch::Sm80, Ty::F32),
        (Arch::Sm90a, Ty::Bf16),
        (Arch::Sm90a, Ty::S32),
    ] {
        for function in [
            ReduceFunction::Sum,
            ReduceFunction::SquareSum,
            ReduceFunction::Max,
            ReduceFunction::AbsMax,
            ReduceFunction::ArgMin,
        ] {
            if function == ReduceFunction::AbsMax && ty.is_integer() {
                continue;
            }
            for (extents, mode) in [
                ([4096, 4096], 1),
                ([4096, 4096], 0),
                ([1 << 20, 512], 0),
                ([1 << 20, 33], 1),
                ([64, 1 << 20], 1),
                ([3, 4096], 0),
                ([8191, 4097], 1),
            ] {
                let problem = ReduceProblem::new(function, ty, &extents, &[mode])?;
                let others = [
                    Some(ReducePlan::fastest(&problem)?),
                    ReducePlan::last_adding(&problem)?,
                    ReducePlan::shifted_rows(&problem)?,
                ];
                // ptxas spills four or eight bytes of some kernels of f32 for sm_80 whose last block adds the parts.
                let spilled = if arch == Arch::Sm80 { 8 } else { 0 };
                for plan in others.into_iter().flatten() {
                    let sample = Sample::new(plan.build(arch)?.kernel, 128);
                    all.push(sample.spilling(spilled));
                }
            }
        }
        if arch != Arch::Sm80 {
            all.extend(in_clusters(ty)?);
        }
        for extents in [[64, 4096, 1], [4, 1 << 20, 1], [64, 128, 4096], [5, 100, 3]] {
            let plan = ScanPlan::fastest(&ScanProblem::new(ty, extents)?);
            all.push(Sample::new(plan.build(arch)?.kernel, 128));
        }
        for (extents, k) in [([4096, 128], 8), ([512, 10_000], 50), ([2, 1 << 20], 2048)] {
            let plan = TopKPlan::fastest(&TopKProblem::new(ty, extents, k)?);
            all.push(Sample::new(plan.build(arch)?.kernel, 128));
        }
    }
    Ok(all)
}

/// Reductions of columns and of all elements by clusters, one for a result and several.
fn in_clusters(ty: Ty) -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for function in [
        ReduceFunction::Sum,
        ReduceFunction::Max,
        ReduceFunction::ArgMax,
    ] {
        for (extents, mode) in [([8192, 4096], 0), ([1 << 19, 64], 0), ([1, 1 << 25], 1)] {
            let problem = ReduceProblem::new(function, ty, &extents, &[mode])?;
            let Some(plan) = ReducePlan::last_adding(&problem)? else {
                continue;
            };
            for plan in [ReducePlan { parts: 8, ..plan }, plan] {
                let built = plan.in_clusters(8).build(Arch::Sm90a)?;
                all.push(Sample::new(built.kernel, 128));
            }
            let own = ReducePlan::fastest_on(&problem, Arch::Sm90a)?;
            if own.cluster > 1 {
                all.push(Sample::new(own.build(Arch::Sm90a)?.kernel, 255));
            }
        }
    }
    Ok(all)
}

/// Products in chunks: flags in every plan of the list that divides no K, and the most owners in those that store by TMA.
fn chunks() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    let device = Device::simulator(Arch::Sm90a);
    let flags = device.zeros::<u32>(RankDevices::MOST)?;
    for chunks in [2, RankDevices::MOST] {
        let memory = device.zeros::<bf16>(chunks << 16)?;
        let mut output = device.zeros::<bf16>(chunks << 16)?;
        let mut owned = Vec::new();
        for _ in 0..chunks {
            owned.push(device.zeros::<bf16>(1 << 16)?);
        }
        let apart = |step: i64| {
            let layout = Layout::new((256, 256, chunks as i64), (256, 1, step));
            layout.expect("extents above 0")
        };
        let (a, b) = (
            View::new(&memory, apart(1 << 16))?,
            View::new(&memory, apart(0))?,
        );
        let owners = owned.iter_mut().map(|c| c.view_mut((256, 256)));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let to_owners = Gemm::to_owners(&a, &b, &owners)?.chunks(ChunkOrder::Ascending, 1);
        let c = ViewMut::new(&mut output, apart(1 << 16))?;
        let gathered = Gemm::new(&a, &b, &c).chunks(ChunkOrder::Descending, 1);
        let gathered = gathered.arrivals(&flags.view(chunks as i64)?);
        let mut plans = Vec::new();
        gathered.prepare_with(|operands, arch| {
            let usual = GemmPlan::new(GemmMethod::Hopper, operands);
            plans.push(usual);
            let listed = GemmPlan::candidates(operands, arch).into_iter();
            let is_taken = |plan: &GemmPlan| plan.method == GemmMethod::Hopper && plan.split == 1;
            plans.extend(listed.filter(is_taken).map(|plan| GemmPlan {
                early: false,
                ..plan
            }));
            Ok(usual)
        })?;
        for plan in plans {
            let mut calls = Vec::new();
            if chunks == 2 {
                calls.push(gathered.prepare_with(|_, _| Ok(plan))?);
            }
            match to_owners.prepare_with(|_, _| Ok(plan)) {
                Ok(call) => calls.push(call),
                // Where the threads of a plan store C, it takes no owners.
                Err(why) if why.to_string().contains("the plan's threads store it") => {}
                Err(why) => return Err(why),
            }
            for call in calls {
                let kernel = call.built().map(|built| built.kernel.clone());
                all.extend(kernel.map(|kernel| Sample::new(kernel, 255)));
            }
        }
    }
    Ok(all)
}

/// SwiGLU by every kernel: its usual plan with two orders of the right factors and, on Hopper, all plans of the list.
fn gated() -> Result<Vec<Sample>, Error> {
    use GemmMethod::{Ampere, Hopper, Simt, Volta};
    let swiglu = Epilogue::new(Ty::F32, |e| {
        (e.accumulator().silu() * e.second_accumulator()).to(Ty::F16)
    })?;
    let mut all = Vec::new();
    for (method, arch) in [
        (Simt, Arch::Sm70),
        (Volta, Arch::Sm70),
        (Ampere, Arch::Sm80),
        (Hopper, Arch::Sm90a),
    ] {
        let device = Device::simulator(arch);
        let memory = device.zeros::<f16>(256 * 256)?;
        let mut output = device.zeros::<f16>(256 * 256)?;
        let (a, c) = (memory.view((256, 256))?, output.view_mut((256, 256))?);
        for b in [memory.view((256, 256))?, memory.view_t((256, 256))?] {
            let product = Gemm::new(&a, &b, &c).b2(&b).epilogue(&swiglu);
            let mut plans = Vec::new();
            product.prepare_with(|operands, arch| {
                let usual = GemmPlan::new(method, operands);
                plans.push(usual);
                if method == Hopper {
                    plans.extend(GemmPlan::candidates(operands, arch));
                }
                Ok(usual)
            })?;
            for plan in plans {
                let call = product.prepare_with(|_, _| Ok(plan))?;
                let kernel = call.built().map(|built| built.kernel.clone());
                // A plan of one consumer begins with 255 registers.
                all.extend(kernel.map(|kernel| Sample::new(kernel, 255)));
            }
        }
    }
    Ok(all)
}

/// Convolutions by im2col tensor maps, by every plan of the list that takes them, and the kernels that write the matrix out.
fn convolutions() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    for (arch, channels, taps) in [
        (Arch::Sm90a, 64, 3),
        (Arch::Sm80, 64, 3),
        (Arch::Sm80, 3, 7),
    ] {
        let device = Device::simulator(arch);
        let (x, filters) = (
            device.zeros::<bf16>(1 << 14)?,
            device.zeros::<bf16>(1 << 18)?,
        );
        let mut y = device.zeros::<bf16>(1 << 14)?;
        let (of_x, of_filters) = ((2, 7, 7, channels), (64, taps, taps, channels));
        let (x, filters) = (x.view(of_x)?, filters.view(of_filters)?);
        let product = Convolution::new(&x, &filters, &y.view_mut((2, 7, 7, 64))?)
            .padding([taps / 2; 2])
            .product()?;
        let mut plans = Vec::new();
        let call = product.prepare_with(|operands, arch| {
            plans.extend(GemmPlan::candidates(operands, arch));
            Ok(plans[0])
        })?;
        all.extend((call.written()).map(|built| Sample::new(built.kernel.clone(), 128)));
        for plan in plans.into_iter().filter(|_| call.written().is_none()) {
            if let Ok(call) = product.prepare_with(|_, _| Ok(plan)) {
                let kernel = call.built().map(|built| built.kernel.clone());
                all.extend(kernel.map(|kernel| Sample::new(kernel, 255)));
            }
        }
    }
    Ok(all)
}

/// Attention with every mask and every number of features.
fn attention() -> Result<Vec<Sample>, Error> {
    let masks = [
        Mask::Full,
        Mask::Causal,
        Mask::Window {
            left: 100,
            right: 10,
        },
    ];
    let mut all = Vec::new();
    for (i, features) in WIDTHS.into_iter().enumerate() {
        let ty = [Ty::F16, Ty::Bf16][i % 2];
        let problem = AttentionProblem {
            softcap: (i % 2 == 1).then_some(30.0),
            log_sum_exp: i % 3 == 1,
            sinks: (i % 3 != 2).then_some(1),
            ..AttentionProblem::new(ty, 1, [8, 2], [1000, 2000], features)
        };
        let operands = AttentionOperands::of(&problem.mask(masks[i % 3]), [0; 4]);
        let plan = AttentionPlan::new(AttentionMethod::Ampere, operands);
        let sample = Sample::new(plan.build(Arch::Sm80)?.kernel, 255);
        // ptxas spills four bytes to use 128 registers, with which four blocks share a multiprocessor.
        all.push(match features {
            [64, 64] => sample.spilling(4),
            _ => sample,
        });
        let packed = AttentionProblem {
            sequences: [Sequences::Packed { rows: 5000 }; 2],
            ..problem
        };
        let of_packed = AttentionOperands::of(&packed.mask(masks[i % 3]), [0; 4]);
        let of_packed = AttentionPlan {
            operands: of_packed,
            ..plan
        };
        all.push(Sample::new(of_packed.build(Arch::Sm80)?.kernel, 255));
        let paged = |problem: AttentionProblem, rows: i64| {
            let pages = Sequences::Paged {
                pages: 1000,
                rows,
                entries: 4000 / rows,
                strides: [4000 / rows, 1],
            };
            AttentionProblem {
                sequences: [problem.sequences[0], pages],
                ..problem
            }
        };
        let of_pages = AttentionPlan {
            operands: AttentionOperands::of(&paged(packed, 16).mask(masks[i % 3]), [0; 4]),
            ..plan
        };
        all.push(Sample::new(of_pages.build(Arch::Sm80)?.kernel, 255));
        // A step of serving: one query, whose heads share a tile.
        let group = [4, 8, 32][i % 3];
        let serving = AttentionProblem {
            heads: [2 * group, 2],
            lengths: [1, 2000],
            ..problem
        };
        let plan = plan.suited_to(&serving, 132);
        for plan in [
            AttentionPlan {
                splits: 1,
                by_lanes: false,
                ..plan
            },
            plan,
        ] {
            all.push(Sample::new(plan.build(Arch::Sm80)?.kernel, 255));
        }
        for rows in [16, 64] {
            let of_pages = paged(serving, rows).mask(masks[i % 3]);
            let operands = AttentionOperands::of(&of_pages, [0; 4]);
            let of_pages = AttentionPlan { operands, ..plan };
            all.push(Sample::new(of_pages.build(Arch::Sm80)?.kernel, 255));
        }
        let combination = plan.build_combination(Arch::Sm80)?;
        all.extend(combination.map(|built| Sample::new(built.kernel, 64)));
        // Kernels that begin early.
        let early = AttentionPlan {
            early: true,
            ..plan
        };
        all.push(Sample::new(early.build(Arch::Sm90a)?.kernel, 255));
        let combination = early.build_combination(Arch::Sm90a)?;
        all.extend(combination.map(|built| Sample::new(built.kernel, 64)));
        for mask in masks {
            let operands = AttentionOperands::of(&problem.mask(mask), [0; 4]);
            let plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
            all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
            // Few queries and keys.
            let small = AttentionProblem {
                lengths: [20, 20],
                ..problem
            };
            let plan = AttentionPlan {
                early: true,
                ..plan.suited_to(&small, 132)
            };
            all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
            for problem in [packed, paged(packed, 16), paged(problem, 64)] {
                if problem.sequences[0] == packed.sequences[0] || mask == Mask::Causal {
                    let operands = AttentionOperands::of(&problem.mask(mask), [0; 4]);
                    let plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
                    all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
                    let sorted = operands.packed[0];
                    let plan = AttentionPlan { sorted, ..plan };
                    if let Some(schedule) = plan.build_schedule(Arch::Sm90a)? {
                        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
                        all.push(Sample::new(schedule.kernel, 64));
                    }
                }
            }
        }
    }
    all.extend(attention_fields()?);
    Ok(all)
}

/// Attention by plans with fields that no call chooses: clusters, rings of three stages, numbers of registers and strips of heads on
/// Hopper; what a block of the Ampere kernel does before it waits for the launch before it, and a sum of parts that lets the next
/// launch begin.
fn attention_fields() -> Result<Vec<Sample>, Error> {
    let mut all = Vec::new();
    type Change = fn(&mut AttentionPlan);
    let of_hopper: [(Mask, Change); 7] = [
        (Mask::Full, |plan| plan.cluster = 2),
        (Mask::Full, |plan| {
            (plan.cluster, plan.tile[1], plan.stages) = (4, 32, 3);
        }),
        (Mask::Full, |plan| {
            (plan.tile[1], plan.stages) = (64, 3);
        }),
        (Mask::Causal, |plan| {
            (plan.tile[1], plan.stages, plan.ahead) = (48, 3, 1);
        }),
        (Mask::Causal, |plan| plan.registers = Some([24, 240])),
        (Mask::Full, |plan| plan.registers = Some([40, 232])),
        (Mask::Causal, |plan| {
            (plan.strip, plan.pairs) = (4, false);
        }),
    ];
    let of_ampere: [Change; 3] = [
        |plan| plan.prefetch = Some(0),
        |plan| (plan.prefetch, plan.beside) = (Some(4), 2),
        |plan| (plan.splits, plan.next_early, plan.prefetch) = (8, true, Some(2)),
    ];
    for features in [[64, 64], [128, 128], [192, 128], [256, 256]] {
        let problem = AttentionProblem::new(Ty::Bf16, 1, [8, 2], [1000, 2000], features);
        for (mask, change) in of_hopper {
            let operands = AttentionOperands::of(&problem.mask(mask), [0; 4]);
            let mut plan = AttentionPlan::new(AttentionMethod::Hopper, operands);
            change(&mut plan);
            // Three stages of large heads are more than a block has.
            if plan.check(Arch::Sm90a).is_ok() {
                all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
            }
        }
        let decode = AttentionProblem {
            lengths: [1, 20_000],
            ..problem
        };
        let operands = AttentionOperands::of(&decode, [0; 4]);
        for change in of_ampere {
            let mut plan =
                AttentionPlan::new(AttentionMethod::Ampere, operands).suited_to(&decode, 132);
            plan.early = true;
            change(&mut plan);
            all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
            let second = plan.build_combination(Arch::Sm90a)?;
            all.extend(second.map(|built| Sample::new(built.kernel, 64)));
        }
    }
    Ok(all)
}

/// Returns copies in elements of 1 to 8 bytes, for the first and the last architecture that have them: the kernel, the layouts,
/// the bytes.
pub fn copy_samples() -> Vec<(CopyMethod, [Layout; 2], i64, Arch)> {
    let crossed = ["(70,45,3):(45,1,3150)", "(70,45,3):(1,70,3150)"];
    let mapped = ["(256,512,3):(512,1,131072)", "(256,512,3):(1,256,131072)"];
    let strided = ["(16,5,4):(1,32,160)", "(16,5,4):(1,16,80)"];
    let cases = [
        (CopyMethod::Flat, ["1000:1", "1000:1"]),
        (CopyMethod::Bulk, ["16384:1", "16384:1"]),
        (CopyMethod::Strided, strided),
        (CopyMethod::Naive, crossed),
        (CopyMethod::Padded, crossed),
        (CopyMethod::Swizzled, crossed),
        (CopyMethod::Tma, mapped),
    ];
    let kinds = [1, 2, 4, 8].map(|bytes| [Arch::Sm70, Arch::Sm90a].map(|arch| (bytes, arch)));
    let mut all = Vec::new();
    for (method, layouts) in cases {
        let layouts = layouts.map(|text| text.parse::<Layout>().expect("a layout"));
        let nest = LoopNest::new(&layouts[0], &layouts[1]).expect("the layouts are of one shape");
        for (bytes, arch) in kinds.into_iter().flatten() {
            // Not every method has every width and architecture.
            if CopyPlan::new(&nest, bytes, [0, 0], arch, method).is_ok() {
                all.push((method, layouts.clone(), bytes, arch));
            }
        }
    }
    all
}

fn copies() -> Result<Vec<Sample>, Error> {
    let build = |(method, [source, destination], bytes, arch): (_, [Layout; 2], _, _)| {
        let nest = LoopNest::new(&source, &destination)?;
        let plan = CopyPlan::new(&nest, bytes, [0, 0], arch, method)?;
        Ok(Sample::new(plan.kernel(arch)?.kernel.clone(), 40))
    };
    copy_samples().into_iter().map(build).collect()
}

/// Returns products of every generation, in three orders of their matrices: the kernel, and what is known of the matrices.
pub fn product_samples() -> Vec<(GemmMethod, Arch, Operands)> {
    use GemmMethod::{Ampere, Gemv, Hopper, Simt, Volta};
    let cases = [
        (Simt, Arch::Sm70, [Ty::F32, Ty::F32]),
        (Simt, Arch::Sm90a, [Ty::F64, Ty::F64]),
        (Simt, Arch::Sm70, [Ty::F16, Ty::F32]),
        (Volta, Arch::Sm70, [Ty::F16, Ty::F32]),
        (Ampere, Arch::Sm80, [Ty::F16, Ty::F16]),
        (Ampere, Arch::Sm90, [Ty::Bf16, Ty::F32]),
        (Gemv, Arch::Sm70, [Ty::F32, Ty::F32]),
        (Gemv, Arch::Sm90a, [Ty::Bf16, Ty::Bf16]),
        (Hopper, Arch::Sm90a, [Ty::Bf16, Ty::Bf16]),
        (Hopper, Arch::Sm90a, [Ty::F16, Ty::F32]),
        (Hopper, Arch::Sm90a, [Ty::Tf32, Ty::F32]),
        (Hopper, Arch::Sm90a, [Ty::S8, Ty::S32]),
    ];
    // C is read by those whose end differs then.
    let cases = cases.into_iter().flat_map(|case| match case.0 {
        Hopper => vec![(case, false), (case, true)],
        _ => vec![(case, false)],
    });
    let (first, second) = (Major::First, Major::Second);
    let orders = [[second; 3], [first, second, second], [second, first, first]];
    let mut all = Vec::new();
    for (((method, arch, [ab, c]), beta), majors) in
        cases.flat_map(|case| orders.map(|majors| (case, majors)))
    {
        let vector = |ty: Ty| 128 / i64::from(ty.bits());
        let operands = Operands {
            ab,
            c,
            majors,
            vectors: [vector(ab), vector(ab), vector(c)],
            beta,
            gated: false,
        };
        all.push((method, arch, operands));
    }
    all
}

fn products() -> Result<Vec<Sample>, Error> {
    let build = |(method, arch, operands): (GemmMethod, Arch, Operands)| {
        let kernel = GemmPlan::new(method, operands).build(arch)?.kernel;
        let registers = match (method, operands.ab) {
            (GemmMethod::Simt, Ty::F64) => 80,
            (GemmMethod::Simt, _) => 140,
            (GemmMethod::Volta, _) => 132,
            (GemmMethod::Ampere, _) => 248,
            (GemmMethod::Gemv, _) => 80,
            (GemmMethod::Hopper, _) => 168,
        };
        Ok(Sample::new(kernel, registers))
    };
    let mut all: Vec<Sample> =
        (product_samples().into_iter().map(build)).collect::<Result<_, Error>>()?;
    // Nothing has run on these targets: the assembler takes their kernels.
    for arch in [Arch::Sm86, Arch::Sm100, Arch::Sm120] {
        let operands = Operands {
            ab: Ty::Bf16,
            c: Ty::F32,
            majors: [Major::Second; 3],
            vectors: [8, 8, 4],
            beta: false,
            gated: false,
        };
        let plan = GemmPlan::new(GemmMethod::Ampere, operands);
        all.push(Sample::new(plan.build(arch)?.kernel, 248));
    }
    for (arch, columns) in [(Arch::Sm80, 64), (Arch::Sm90a, 64), (Arch::Sm90a, 63)] {
        all.extend(high_low_samples(arch, columns)?);
    }
    // A plan of one consumer begins with 255 registers.
    let lists = [(Ty::Bf16, 8), (Ty::Bf16, 1), (Ty::Tf32, 4), (Ty::S8, 16)];
    let plans = lists.into_iter().flat_map(|(ty, n)| listed_plans(ty, n));
    // All widths have the kernel of the widest.
    let is_widest = |plan: &GemmPlan| [0, plan.tile[1]].contains(&plan.columns);
    let plans = plans.filter(is_widest);
    let in_order = |plan: GemmPlan| {
        let late = GemmPlan {
            early: false,
            ..plan
        };
        [plan].into_iter().chain(plan.early.then_some(late))
    };
    for plan in plans.flat_map(in_order) {
        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
        let sum = plan.build_sum(Arch::Sm90a)?;
        all.extend(sum.map(|sum| Sample::new(sum.kernel, 120)));
    }
    let in_parts = listed_plans(Ty::Bf16, 8).into_iter();
    // Two parts that a block adds have another kernel than more.
    let in_parts = in_parts.filter(|plan| plan.split > 1 && is_widest(plan));
    let otherwise = in_parts.flat_map(|plan| {
        use Division::{SplitKFixup, StreamK};
        let of = move |(division, split)| GemmPlan {
            division,
            split,
            ..plan
        };
        let all = [(SplitKFixup, 2), (SplitKFixup, 3), (StreamK, plan.split)];
        // A kernel for several widths is none of stream-K.
        all.into_iter()
            .filter(move |(division, _)| plan.columns == 0 || *division == SplitKFixup)
            .map(of)
    });
    for plan in otherwise {
        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 255));
        let sum = plan.build_sum(Arch::Sm90a)?;
        all.extend(sum.map(|sum| Sample::new(sum.kernel, 120)));
    }
    for plan in pingpong_plans() {
        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 168));
    }
    for plan in plans_of_widths() {
        all.push(Sample::new(plan.build(Arch::Sm90a)?.kernel, 168));
    }
    all.extend(with_epilogues()?);
    Ok(all)
}

/// Products with the epilogues of `cargo xtask bench epilogue`, by the plans that only a product with an epilogue chooses, and the kernels
/// that add their parts of K.
fn with_epilogues() -> Result<Vec<Sample>, Error> {
    let gelu = |is_tanh: bool| {
        Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator() + e.tensor("columns", Ty::Bf16).to(Ty::F32);
            if is_tanh { x.gelu_tanh() } else { x.gelu() }.to(Ty::Bf16)
        })
    };
    let residual = Epilogue::new(Ty::F32, |e| {
        let [bias, all] = ["columns", "all"].map(|name| e.tensor(name, Ty::Bf16).to(Ty::F32));
        (e.accumulator() + bias + all).to(Ty::Bf16)
    });
    let scales = Epilogue::new(Ty::F32, |e| {
        let [rows, columns] = ["rows", "columns"].map(|name| e.tensor(name, Ty::Bf16).to(Ty::F32));
        (e.accumulator() * rows * columns).to(Ty::Bf16)
    });
    let device = Device::simulator(Arch::Sm90a);
    let memory = device.zeros::<bf16>(512 * 512)?;
    let mut output = device.zeros::<bf16>(512 * 512)?;
    let (a, c) = (memory.view((512, 512))?, output.view_mut((512, 512))?);
    let of = |layout: &str| View::new(&memory, layout);
    let (rows, columns) = (of("(512,512):(1,0)")?, of("(512,512):(0,1)")?);
    let product = Gemm::new(&a, &a, &c);
    let mut all = Vec::new();
    for epilogue in [gelu(false)?, gelu(true)?, residual?, scales?] {
        let mut gemm = product.clone().epilogue(&epilogue);
        for (name, view) in [("rows", &rows), ("columns", &columns), ("all", &a)] {
            if epilogue.inputs().any(|input| input.name == name) {
                gemm = gemm.tensor(name, view);
            }
        }
        let (mut own, mut in_parts) = (Vec::new(), None);
        gemm.prepare_with(|operands, arch| {
            let plain = GemmPlan::candidates(operands, arch);
            in_parts = plain.iter().copied().find(|plan| plan.split > 1);
            own = GemmPlan::candidates_with_epilogue(operands, arch);
            // All widths have the kernel of the widest.
            let of_one = GemmPlan::candidates_of_one_with_epilogue(operands, arch).into_iter();
            own.extend(of_one.filter(|plan| plan.columns != 0 && plan.columns == plan.tile[1]));
            own.retain(|plan| !plain.contains(plan));
            Ok(plain[0])
        })?;
        for plan in own {
            let call = gemm.prepare_with(|_, _| Ok(plan))?;
            let kernel = call.built().map(|built| built.kernel.clone());
            // ptxas 12.9 spills four bytes of one kernel for several widths.
            let spilled = if plan.columns == 0 { 0 } else { 4 };
            all.extend(kernel.map(|kernel| Sample::new(kernel, 168).spilling(spilled)));
        }
        if let Some(plan) = in_parts {
            let plan = GemmPlan { split: 2, ..plan };
            let call = gemm.prepare_with(|_, _| Ok(plan))?;
            let kernel = call.built_sum().map(|built| built.kernel.clone());
            all.extend(kernel.map(|kernel| Sample::new(kernel, 104)));
        }
    }
    Ok(all)
}

/// The kernels that write the high and low parts of both factors, whose rows have a number of columns.
fn high_low_samples(arch: Arch, columns: i64) -> Result<Vec<Sample>, Error> {
    let device = Device::simulator(arch);
    let memory = device.zeros::<f32>(columns as usize)?;
    let mut c = device.zeros::<f32>(1)?;
    let row = memory.view((1, columns))?;
    let product = Gemm::new(&row, &row, &c.view_mut((1, 1))?).compute(Compute::Tf32x3);
    let call = product.prepare()?;
    let kernels = call.in_parts().map(|(_, built)| built.kernel.clone());
    Ok(kernels.map(|kernel| Sample::new(kernel, 40)).collect())
}

/// Returns plans whose consumers take tiles in turn: every shape of a tile and of a cluster that fills the registers, with C of 16
/// and of 32 bits, read and not.
pub fn pingpong_plans() -> Vec<GemmPlan> {
    let tiles = [
        ([64, 256, 64], 4, [2, 1, 1]),
        ([128, 128, 64], 6, [2, 1, 1]),
        ([128, 128, 64], 6, [1, 2, 1]),
        ([64, 192, 64], 6, [1, 1, 1]),
        // 192 accumulators of a thread.
        ([128, 192, 64], 4, [2, 1, 1]),
        ([192, 128, 64], 4, [1, 2, 1]),
    ];
    let mut plans = Vec::new();
    for (tile, stages, cluster) in tiles {
        for (c, beta) in [(Ty::Bf16, false), (Ty::Bf16, true), (Ty::F32, true)] {
            let operands = Operands {
                ab: Ty::Bf16,
                c,
                majors: [Major::Second; 3],
                vectors: [8, 8, 128 / i64::from(c.bits())],
                beta,
                gated: false,
            };
            plans.push(GemmPlan {
                tile,
                warps: [1, 1],
                schedule: Schedule::Pingpong,
                cluster,
                stages,
                ..GemmPlan::new(GemmMethod::Hopper, operands)
            });
        }
    }
    plans
}

/// Plans of kernels for several widths: of the largest tile for all types, with A and C in both orders, and of other tiles.
fn plans_of_widths() -> Vec<GemmPlan> {
    let (first, second) = (Major::First, Major::Second);
    let wide = ([128, 256, 64], [2, 1, 1]);
    let kinds = [
        (wide, [Ty::Bf16, Ty::Bf16], [second; 3]),
        (wide, [Ty::F16, Ty::F32], [second; 3]),
        (wide, [Ty::Tf32, Ty::F32], [second; 3]),
        (wide, [Ty::S8, Ty::S32], [second; 3]),
        (wide, [Ty::Bf16, Ty::Bf16], [first, second, first]),
        (
            ([256, 128, 64], [1, 2, 1]),
            [Ty::Bf16, Ty::Bf16],
            [second; 3],
        ),
        (
            ([64, 256, 64], [1, 1, 1]),
            [Ty::Bf16, Ty::Bf16],
            [second; 3],
        ),
    ];
    type Kind = (([i64; 3], [i64; 3]), [Ty; 2], [Major; 3]);
    let plan = |((tile, cluster), [ab, c], majors): Kind| {
        let [rows, widest, halves] = tile;
        let vector = |ty: Ty| 128 / i64::from(ty.bits());
        let operands = Operands {
            ab,
            c,
            majors,
            vectors: [vector(ab), vector(ab), vector(c)],
            beta: false,
            gated: false,
        };
        GemmPlan {
            tile: [rows, widest, halves * 16 / i64::from(ab.bits())],
            columns: widest,
            warps: [(rows / 64).min(2), 1],
            cluster,
            ..GemmPlan::new(GemmMethod::Hopper, operands)
        }
    };
    kinds.into_iter().map(plan).collect()
}

/// Returns the plans that a call on Hopper chooses among, with an epilogue and without, for matrices whose rows are read by `vector`
/// elements. C has the type of 16-bit factors, or that of the accumulators.
pub fn listed_plans(ty: Ty, vector: i64) -> Vec<GemmPlan> {
    let c = match ty {
        Ty::Tf32 => Ty::F32,
        Ty::S8 => Ty::S32,
        _ => ty,
    };
    let operands = Operands {
        ab: ty,
        c,
        majors: [Major::Second; 3],
        vectors: [vector, vector, vector.min(128 / i64::from(c.bits()))],
        beta: false,
        gated: false,
    };
    of_all_lists(operands)
}
