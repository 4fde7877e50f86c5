//! The kernel library on a device: every case of `colex_proof::kernels::copies`, then large ones.

mod bits;
mod capture;
mod copies;
mod products;

use anyhow::{Result, bail, ensure};
use colex_gpu::{Device, Element};
use colex_proof::kernels::{
    attention, dumps as dumped, elementwise, epilogues, fragments, gathers, reduce, reductions,
    rowwise, sequences, top_k,
};

use super::check::{Breaking, Check};

/// How much of the library is checked.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Cases {
    /// Small cases and large ones.
    Every,
    /// Small ones, whose references a build without optimisation computes too.
    #[cfg_attr(
        not(feature = "repository"),
        allow(dead_code, reason = "what `verify` takes")
    )]
    Small,
    /// A few, by every kernel, for tools that slow a device down: compute-sanitizer's racecheck.
    Sample,
}

/// The checks of those cases, in order.
pub(super) fn checks(cases: Cases) -> impl Iterator<Item = &'static Check> {
    let list = match cases {
        Cases::Sample => SAMPLED,
        Cases::Every | Cases::Small => CHECKS,
    };
    let wanted = move |check: &&Check| cases == Cases::Every || !check.name.starts_with("large");
    list.iter().filter(wanted)
}

/// The checks of the library, in order.
#[rustfmt::skip] // A list to read, not a column.
const CHECKS: &[Check] = &[
    Check { name: "copies of u8", run: copies::every::<u8> },
    Check { name: "copies of bf16", run: copies::every::<half::bf16> },
    Check { name: "copies of f32", run: copies::every::<f32> },
    Check { name: "copies of f64", run: copies::every::<f64> },
    Check { name: "maps of small views", run: copies::small_maps },
    Check { name: "large copies", run: copies::large },
    Check { name: "products of f32", run: products::every::<f32, f32> },
    Check { name: "products of f64", run: products::every::<f64, f64> },
    Check { name: "products of f16", run: products::every::<half::f16, half::f16> },
    Check { name: "products of f16 to f32", run: products::every::<half::f16, f32> },
    Check { name: "products of bf16", run: products::every::<half::bf16, half::bf16> },
    Check { name: "products of bf16 to f32", run: products::every::<half::bf16, f32> },
    Check { name: "products of i8", run: products::every::<i8, i32> },
    Check { name: "products of i32", run: products::every::<i32, i32> },
    Check { name: "products of views", run: products::views },
    Check { name: "products in 3xTF32", run: products::three_products },
    Check { name: "large products", run: products::large },
    Check { name: "bits of products", run: bits::of_products },
    Check { name: "epilogues", run: own_epilogues },
    Check { name: "epilogues of groups and lists", run: epilogues_of_parts },
    Check { name: "products in groups", run: products_in_groups },
    Check { name: "convolutions", run: convolutions },
    Check { name: "expressions", run: expressions },
    Check { name: "reductions", run: |device| counted(reductions::check_all(device)) },
    Check { name: "reductions along a mode", run: |device| counted(reductions::along(device)) },
    Check { name: "scans", run: |device| counted(reductions::scans(device)) },
    Check { name: "arg-reductions", run: |device| counted(reductions::arg_reductions(device)) },
    Check { name: "gathers", run: gathered },
    Check { name: "vectors and their rest", run: |device| counted(gathers::vectors(device)) },
    Check { name: "windows", run: |device| counted(gathers::windows(device)) },
    Check { name: "arrays of pointers", run: |device| counted(gathers::pointers(device)) },
    Check { name: "attention", run: drawn_attention },
    Check { name: "attention of packed sequences", run: packed_attention },
    Check { name: "attention to keys in pages", run: paged_attention },
    Check { name: "attention of NaN and infinities", run: special_attention },
    Check { name: "attention of NaN and infinities in packed sequences", run: special_packed_attention },
    Check { name: "attention of NaN and infinities in pages", run: special_paged_attention },
    Check { name: "attention in every field of a plan", run: fields_of_attention },
    Check { name: "functions of rows", run: functions_of_rows },
    Check { name: "maps of tensors", run: mapped },
    Check { name: "gathers of rows", run: gathers_of_rows },
    Check { name: "rotary embeddings", run: turned },
    Check { name: "quantisation", run: quantised },
    Check { name: "reductions along modes", run: reductions_along_modes },
    Check { name: "cumulative sums", run: cumulative_sums },
    Check { name: "selections", run: selections },
    Check { name: "dumps", run: dumps },
    Check { name: "a program's own slices", run: copies::own_slices },
    Check { name: "a product of its slices", run: products::own_slices },
    Check { name: "calls in a graph", run: capture::replayed },
    Check { name: "calls in a graph that are no products", run: capture::replayed_without_products },
    Check { name: "threads and contexts", run: capture::threads },
];

/// The elements that a check compared.
fn counted(elements: Result<usize, String>) -> Result<String> {
    Ok(format!(
        "{} elements",
        elements.map_err(anyhow::Error::msg)?
    ))
}

/// Epilogues of products: drawn formulas, and activations.
fn own_epilogues(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 100 } else { 10 };
    let found = epilogues::check(std::slice::from_ref(device), 21, rounds);
    Ok(found.map_err(anyhow::Error::msg)?.to_string())
}

/// Drawn formulas over products in groups of every kind and over lists of matrices.
fn epilogues_of_parts(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 60 } else { 10 };
    let found = epilogues::check_parts(std::slice::from_ref(device), 23, rounds);
    Ok(found.map_err(anyhow::Error::msg)?.to_string())
}

/// Groups of every kind, with drawn numbers of rows, strides and plans.
fn products_in_groups(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 60 } else { 10 };
    counted(colex_proof::kernels::gemm::groups::check_groups(
        device, 31, rounds,
    ))
}

/// Convolutions with drawn extents, filters, strides and plans, and all small ones.
fn convolutions(device: &Device) -> Result<String> {
    use colex_proof::kernels::gemm::convolution::{check, check_small};
    let rounds = if is_fast(device) { 400 } else { 10 };
    let small = check_small(device, 8, 8).and_then(|n| Ok(n + check_small(device, 3, 5)?));
    counted(small.and_then(|n| Ok(n + check(device, 41, rounds)?)))
}

/// Formulas on fragments of every type.
fn expressions(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 200 } else { 20 };
    counted(fragments::check_all(device, rounds))
}

/// Gathers, scatters and atomic operations of every type.
fn gathered(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 300 } else { 30 };
    counted(gathers::check_all(device, rounds))
}

/// The elements that a check of attention compared, and the plans that wrote them.
fn of_plans(counts: Result<attention::ElementsAndPlans, String>) -> Result<String> {
    let [elements, plans] = counts.map_err(anyhow::Error::msg)?;
    Ok(format!("{elements} elements of {plans} plans"))
}

/// Attention of every head size, mask and alignment, by plans of every kernel.
fn drawn_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 24 } else { 6 };
    of_plans(attention::check(device, 23, rounds))
}

/// Attention of sequences of any lengths in the rows of one tensor.
fn packed_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 24 } else { 6 };
    of_plans(sequences::check_packed(device, 29, rounds))
}

/// Attention to keys in the pages of a pool.
fn paged_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 24 } else { 6 };
    of_plans(attention::pages::check_paged(device, 31, rounds))
}

/// NaN and infinities in Q, K and V.
fn special_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 12 } else { 6 };
    of_plans(attention::check_special(device, 33, rounds))
}

/// NaN and infinities in the rows of packed sequences.
fn special_packed_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 24 } else { 6 };
    of_plans(sequences::check_special_packed(device, 34, rounds))
}

/// NaN and infinities in queries and in the pages of a pool.
fn special_paged_attention(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 24 } else { 6 };
    of_plans(attention::pages::check_special_paged(device, 35, rounds))
}

/// Plans that differ from the default in one field.
fn fields_of_attention(device: &Device) -> Result<String> {
    of_plans(attention::check_fields(device))
}

/// Softmax and norms of every type, with drawn shapes, strides and plans.
fn functions_of_rows(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 600 } else { 20 };
    counted(rowwise::check(device, 25, rounds))
}

/// Maps with drawn formulas, types, shapes, strides and plans.
fn mapped(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 600 } else { 20 };
    counted(elementwise::check(device, 31, rounds))
}

/// Gathers of drawn rows.
fn gathers_of_rows(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 300 } else { 20 };
    counted(elementwise::check_gathers(device, 33, rounds))
}

/// Rotary embeddings of both pairings.
fn turned(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 300 } else { 20 };
    counted(elementwise::check_rotary(device, 35, rounds))
}

/// Quantisation of tensors, rows and blocks.
fn quantised(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 300 } else { 20 };
    counted(elementwise::quantise::check(device, 37, rounds))
}

/// Reductions of every type along any modes, and indices, with drawn shapes, strides and plans.
fn reductions_along_modes(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 1000 } else { 30 };
    counted(reduce::check(device, 31, rounds))
}

/// Cumulative sums of every type, bit for bit those of the host.
fn cumulative_sums(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 1000 } else { 30 };
    counted(reduce::check_scans(device, 37, rounds))
}

/// The largest and smallest elements of every type along a mode, bit for bit those of the host.
fn selections(device: &Device) -> Result<String> {
    let rounds = if is_fast(device) { 600 } else { 20 };
    counted(top_k::check(device, 41, rounds))
}

/// Dumps of every type and a text of PTX: the lines of the device, in a process of its own, are those of the simulator.
fn dumps(device: &Device) -> Result<String> {
    let arch = device.arch();
    let expected = dumped::expected(arch).map_err(anyhow::Error::msg)?;
    if !device.is_simulator() {
        // A GPU shows the sign of a NaN, which conversions keep or lose.
        let output = DUMPS.apart()?.replace("=-nan", "=nan");
        let mut lines: Vec<&str> = output.lines().filter(|l| l.starts_with("block ")).collect();
        lines.sort_unstable();
        let pairs = lines.iter().zip(&expected);
        if let Some((found, wanted)) = pairs.into_iter().find(|(a, b)| a != b) {
            bail!("the device prints {found:?}, and the simulator {wanted:?}");
        }
        ensure!(
            lines.len() == expected.len(),
            "the device prints {} lines, and the simulator {}",
            lines.len(),
            expected.len()
        );
    }
    Ok(format!("{} lines", expected.len()))
}

/// The kernels whose lines [`dumps`] reads.
pub(super) const DUMPS: Breaking = Breaking {
    name: "dumps",
    run: || {
        let device = Device::gpu(0)?;
        let kernels = dumped::kernels(device.arch())?;
        for kernel in &kernels {
            let function = device.load(kernel)?;
            device.launch(&function, dumped::launch(), &[])?;
        }
        device.synchronize()?;
        Ok(format!("{} kernels", kernels.len()))
    },
};

/// A few cases, those first that such a tool never reached.
#[rustfmt::skip] // A list to read, not a column.
const SAMPLED: &[Check] = &[
    Check { name: "products of i8", run: products::sampled::<i8, i32> },
    Check { name: "products of i32", run: products::sampled::<i32, i32> },
    Check { name: "products of f32", run: products::sampled::<f32, f32> },
    Check { name: "products of bf16", run: products::sampled::<half::bf16, half::bf16> },
    Check { name: "products of bf16 to f32", run: products::sampled::<half::bf16, f32> },
    Check { name: "products of f16", run: products::sampled::<half::f16, half::f16> },
    Check { name: "products of f64", run: products::sampled::<f64, f64> },
    Check { name: "copies of bf16", run: copies::sampled::<half::bf16> },
    Check { name: "copies of f32", run: copies::sampled::<f32> },
    Check { name: "attention", run: |device| of_plans(attention::check(device, 24, 6)) },
    Check { name: "attention of packed sequences", run: |device| of_plans(sequences::check_packed(device, 30, 6)) },
    Check { name: "attention to keys in pages", run: |device| of_plans(attention::pages::check_paged(device, 32, 6)) },
    Check { name: "attention in every field of a plan", run: fields_of_attention },
    Check { name: "epilogues", run: sampled_epilogues },
];

/// A few drawn epilogues, and each activation.
fn sampled_epilogues(device: &Device) -> Result<String> {
    let found = epilogues::check(std::slice::from_ref(device), 22, 8);
    Ok(found.map_err(anyhow::Error::msg)?.to_string())
}

/// Passes if no case of a list failed; says how many each kernel took.
fn tally<T: Element>(outcomes: Vec<Result<String, String>>) -> Result<String> {
    let failures: Vec<&String> = outcomes.iter().filter_map(|o| o.as_ref().err()).collect();
    if let Some(first) = failures.first() {
        bail!(
            "{} of {} cases of {} failed, the first: {first}",
            failures.len(),
            outcomes.len(),
            T::NAME
        );
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    for kernel in outcomes.iter().flatten() {
        match counts.iter_mut().find(|(name, _)| name == kernel) {
            Some((_, count)) => *count += 1,
            None => counts.push((kernel.clone(), 1)),
        }
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    Ok(format!("{} cases: {}", outcomes.len(), counts.join(", ")))
}

/// Whether large cases are worth their time: not on the simulator.
fn is_fast(device: &Device) -> bool {
    !device.is_simulator()
}
