//! Drawn problems over the whole surface of attention, as JSON, and what another program needs to launch our plans for them.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    AttentionLaunch, AttentionOperands, AttentionPlan, AttentionProblem, AttentionTensor, Mask,
};
use colex_gpu::tensor::Role;
use colex_gpu::{Argument, Device, Launch};
use serde_json::{Value, json};

use super::super::device::commit;
use super::super::host;
use super::super::product::sweep::{Random, Sweep};
use super::{DECODED, candidates, contested, decode_variants, decoded};

/// The heads of the drawn problems: features of Q and K, and those of V.
pub(super) const FEATURES: [[i64; 2]; 6] = [
    [64, 64],
    [96, 96],
    [128, 128],
    [192, 192],
    [256, 256],
    [192, 128],
];

/// The most bytes of the tensors of a problem, and the most operations.
const MOST_BYTES: i64 = 512 << 20;
const MOST_OPERATIONS: f64 = 4e12;

/// Bytes of all operands of a batch of calls together: several times the L2 cache.
const ROTATED: i64 = 240 << 20;

/// The most sets of operands.
const MOST_SETS: i64 = 64;

/// How the rows of a tensor lie in memory.
#[derive(Clone, Copy)]
enum Lying {
    /// Head by head.
    Heads,
    /// Token by token, all heads of each.
    Tokens,
    /// Token by token in rows three times as long, as in a tensor that has Q, K and V side by side.
    Sides,
    /// Head by head, with this number of elements behind each row.
    Padded(i64),
}

impl Lying {
    fn drawn(random: &mut Random) -> Lying {
        match random.below(20) {
            0..=7 => Lying::Heads,
            8..=14 => Lying::Tokens,
            15..=17 => Lying::Sides,
            18 => Lying::Padded(8),
            _ => Lying::Padded(1),
        }
    }

    /// The strides of (batch, head, sequence, feature).
    fn strides(self, [_, heads, length, features]: [i64; 4]) -> [i64; 4] {
        match self {
            Lying::Heads => [heads * length * features, length * features, features, 1],
            Lying::Tokens => [length * heads * features, features, heads * features, 1],
            Lying::Sides => {
                let row = 3 * heads * features;
                [length * row, features, row, 1]
            }
            Lying::Padded(by) => {
                let row = features + by;
                [heads * length * row, length * row, row, 1]
            }
        }
    }
}

/// The elements of memory from the first element of a tensor to its last one.
pub(super) fn span(problem: &AttentionProblem, tensor: AttentionTensor) -> i64 {
    let strides = problem.strides[tensor as usize];
    let last = problem.extents(tensor).into_iter().zip(strides);
    1 + last
        .map(|(extent, stride)| (extent - 1) * stride)
        .sum::<i64>()
}

/// The bytes of Q, K, V and O, each element once.
pub(super) fn bytes(problem: &AttentionProblem) -> i64 {
    let elements = AttentionTensor::ALL.map(|of| problem.extents(of).iter().product::<i64>());
    elements.iter().sum::<i64>() * i64::from(problem.ty.bits()) / 8
}

/// The operations of both products for the keys that the queries see.
pub(super) fn operations(problem: &AttentionProblem) -> f64 {
    let of_query = |i| problem.mask.keys(i, problem.lengths);
    let seen = (0..problem.lengths[0]).map(|i| {
        let keys = of_query(i);
        keys.end - keys.start
    });
    let pairs = seen.sum::<i64>() as f64 * (problem.batch * problem.heads[0]) as f64;
    2.0 * pairs * problem.features.iter().sum::<i64>() as f64
}

/// The number of sets of operands of a problem.
pub(super) fn sets(problem: &AttentionProblem) -> i64 {
    (ROTATED / bytes(problem).max(1) + 1).min(MOST_SETS)
}

/// The problem with a number, of a seed.
///
/// One in four is a step of decoding, with 1 to 8 queries; one in four has fewer queries than keys; the others have as many.
/// Lengths are log-uniform from 16 to 16384, half of them multiples of 8. Two in five have a causal mask, one in five a window.
pub(super) fn drawn(seed: u64, number: u64) -> AttentionProblem {
    let mut random = Random::new(seed, number);
    let random = &mut random;
    let ty = [Ty::Bf16, Ty::Bf16, Ty::F16][random.below(3) as usize];
    let features = FEATURES[random.below(6) as usize];
    let between = |random: &mut Random, least: f64, most: f64| {
        (least.ln() + random.uniform() * (most / least).ln()).exp() as i64
    };
    let mut keys = between(random, 16.0, 16385.0);
    if random.below(2) == 0 {
        keys = keys / 8 * 8;
    }
    let mut queries = match random.below(4) {
        0 => [1, 1, 1, 2, 4, 8][random.below(6) as usize].min(keys),
        1 => between(random, 1.0, keys as f64),
        _ => keys,
    };
    let mask = match random.below(5) {
        0 | 1 => Mask::Full,
        2 | 3 => Mask::Causal,
        _ => Mask::Window {
            left: between(random, 16.0, 4096.0) as u32,
            right: [0, 0, 64][random.below(3) as usize],
        },
    };
    let mut of_keys = 1 << random.below(6);
    let mut heads = of_keys * [1, 1, 1, 2, 4, 8][random.below(6) as usize];
    let mut batch = between(random, 1.0, 65.0);
    let softcap = (random.below(6) == 0).then_some(30.0);
    let log_sum_exp = random.below(4) == 0;
    let sinks = (random.below(6) == 0).then_some(1);
    let all = Lying::drawn(random);
    let each = random.below(4) == 0;
    let lying = [0; 4].map(|_| if each { Lying::drawn(random) } else { all });
    loop {
        let mut problem =
            AttentionProblem::new(ty, batch, [heads, of_keys], [queries, keys], features)
                .mask(mask);
        (problem.softcap, problem.sinks) = (softcap, sinks);
        problem.log_sum_exp = log_sum_exp;
        for (tensor, lying) in AttentionTensor::ALL.into_iter().zip(lying) {
            problem.strides[tensor as usize] = lying.strides(problem.extents(tensor));
        }
        if bytes(&problem) <= MOST_BYTES && operations(&problem) <= MOST_OPERATIONS {
            return problem;
        }
        if batch > 1 {
            batch /= 2;
        } else if of_keys > 1 {
            (heads, of_keys) = (heads / 2, of_keys / 2);
        } else {
            (queries, keys) = (queries.div_euclid(2).max(1), keys / 2);
        }
    }
}

/// A problem as the lines of the bench have it.
pub(super) fn described(problem: &AttentionProblem) -> Value {
    let [left, right] = match problem.mask {
        Mask::Window { left, right } => [json!(left), json!(right)],
        Mask::Full => [Value::Null, Value::Null],
        Mask::Causal => [Value::Null, json!(0)],
    };
    json!({
        "said": problem.to_string(), "type": problem.ty.to_string(), "batch": problem.batch,
        "heads": problem.heads, "lengths": problem.lengths, "features": problem.features,
        "left": left, "right": right, "scale": problem.scale, "softcap": problem.softcap,
        "log_sum_exp": problem.log_sum_exp, "sinks": problem.sinks.is_some(),
        "strides": problem.strides, "sets": sets(problem),
        "operations": operations(problem), "bytes": bytes(problem),
    })
}

/// The names of the memory that the launches of a problem take, in the order of their addresses, and its bytes.
fn memory(problem: &AttentionProblem, workspace: u64) -> Vec<(&'static str, i64)> {
    let width = i64::from(problem.ty.bits()) / 8;
    let tensors = AttentionTensor::ALL.map(|of| (of.name(), span(problem, of) * width));
    let [batch, heads, queries, _] = problem.extents(AttentionTensor::O);
    let sums = (problem.log_sum_exp).then_some(("log_sum_exp", batch * heads * queries * 4));
    let sinks = problem.sinks.map(|_| ("sinks", heads * 4));
    let workspace = (workspace > 0).then_some(("workspace", workspace as i64));
    let behind = [sums, sinks, workspace].into_iter().flatten();
    tensors.into_iter().chain(behind).collect()
}

/// The distance of the addresses that stand for memory.
const APART: u64 = 1 << 40;

/// A plan for a problem, as another program launches it. `file` returns the name of the file of a kernel's text.
fn exported(
    problem: &AttentionProblem,
    device: &Device,
    file: &mut dyn FnMut(&str) -> Result<String>,
) -> Result<Value> {
    // Every tensor begins at a multiple of 256 bytes.
    let operands = AttentionOperands::of(problem, [0; 4]);
    let multiprocessors = device.limits().multiprocessors;
    let plan = AttentionPlan::fastest(problem, operands, device.arch(), multiprocessors)?;
    let memory = memory(problem, plan.workspace(problem));
    let launches = launches(problem, (&plan, &memory), device, file)?;
    Ok(described_launches(problem, &plan, &memory, launches))
}

/// The default plan of a problem, which is the first one, and the plans beside it, which share one memory.
fn exported_plans(
    problem: &AttentionProblem,
    plans: &[AttentionPlan],
    device: &Device,
    file: &mut dyn FnMut(&str) -> Result<String>,
) -> Result<Value> {
    let plan = plans.first().context("a problem has a plan")?;
    let workspace = plans.iter().map(|plan| plan.workspace(problem)).max();
    let all = memory(problem, workspace.unwrap_or(0));
    let mut others = Vec::new();
    for plan in plans {
        // A plan that needs no workspace has no argument for it.
        let own = memory(problem, plan.workspace(problem));
        let launches = launches(problem, (plan, &own), device, file)?;
        others.push(json!({"plan": plan.to_string(), "launches": launches}));
    }
    let usual = others.remove(0)["launches"].take();
    let mut step = described_launches(problem, plan, &all, usual);
    step["others"] = json!(others);
    Ok(step)
}

/// The launches of a plan for a problem whose tensors lie in the memory.
fn launches(
    problem: &AttentionProblem,
    (plan, memory): (&AttentionPlan, &[(&'static str, i64)]),
    device: &Device,
    file: &mut dyn FnMut(&str) -> Result<String>,
) -> Result<Value> {
    let addresses: Vec<u64> = (1..=memory.len() as u64).map(|i| i * APART).collect();
    let mut launches = Vec::new();
    for one in plan.launches(problem, device, &addresses)? {
        let mut one = launch(&one, memory, file)?;
        one["early"] = json!(plan.early);
        launches.push(one);
    }
    Ok(json!(launches))
}

/// A problem with the launches of a plan for it.
fn described_launches(
    problem: &AttentionProblem,
    plan: &AttentionPlan,
    memory: &[(&'static str, i64)],
    launches: Value,
) -> Value {
    let memory: Vec<Value> = (memory.iter())
        .map(|(name, bytes)| json!({"name": name, "bytes": bytes}))
        .collect();
    json!({
        "problem": described(problem), "plan": plan.to_string(), "memory": memory, "launches": launches,
    })
}

/// A launch with its arguments: numbers by their types, and places in the memory by its name.
fn launch(
    one: &AttentionLaunch,
    memory: &[(&'static str, i64)],
    file: &mut dyn FnMut(&str) -> Result<String>,
) -> Result<Value> {
    let kernel = one.kernel.export()?;
    let place = |address: u64| {
        let (number, offset) = (address / APART, address % APART);
        let (name, _) = memory[number as usize - 1];
        json!([name, offset])
    };
    let mut arguments = Vec::new();
    for (argument, parameter) in one.arguments.iter().zip(&kernel.parameters) {
        arguments.push(match argument {
            Argument::U16(n) => json!({"u16": n}),
            Argument::U32(n) => json!({"u32": n}),
            Argument::U64(n) => json!({"u64": n}),
            Argument::F32(x) => json!({"f32": x}),
            Argument::F64(x) => json!({"f64": x}),
            Argument::Pointer(address) => json!({"pointer": place(*address)}),
            Argument::TensorMap(bound) => {
                let Role::TensorMap(role) = &parameter.role else {
                    anyhow::bail!("{} is no tensor map", parameter.name);
                };
                let map = &bound.map;
                json!({"map": {
                    "place": place(bound.address), "element": role.element.code, "dims": map.dims,
                    "strides": map.strides, "extents": map.extents, "element_strides": map.element_strides,
                    "interleave": role.interleave.code, "swizzle": role.swizzle.code, "l2": role.l2.code,
                    "fill": role.fill.code,
                }})
            }
        });
    }
    ensure!(
        arguments.len() == kernel.parameters.len(),
        "an argument is missing"
    );
    let Launch {
        grid,
        block,
        dynamic_shared,
        ..
    } = one.launch;
    Ok(json!({
        "ptx": file(&kernel.ptx)?, "entry": kernel.entry, "grid": grid, "block": block, "shared": dynamic_shared,
        "arguments": arguments,
    }))
}

/// The files of the launches in a folder of exported kernels: of drawn problems, of the steps of `bench decode`, and of problems
/// with candidates for their default.
const MANIFESTS: [&str; 3] = ["drawn.json", "decode.json", "candidates.json"];

/// Writes the kernels of the default plans of drawn problems as PTX into a folder, and `drawn.json`, which has the problems and
/// says how the kernels are launched; in `decode.json` are those of the steps of decoding, and in `candidates.json`
/// those of defaults with candidates beside them. It needs no GPU: the plans are those of an H100 or H200.
pub(in crate::bench) fn export(folder: &Path, sweep: &Sweep) -> Result<ExitCode> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let device = Device::simulator(Arch::Sm90a);
    let mut files: HashMap<String, String> = HashMap::new();
    let mut file = |ptx: &str| -> Result<String> {
        if let Some(name) = files.get(ptx) {
            return Ok(name.clone());
        }
        let name = format!("drawn-{}.ptx", files.len());
        let path = folder.join(&name);
        std::fs::write(&path, ptx)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        files.insert(ptx.to_string(), name.clone());
        Ok(name)
    };
    let numbers = sweep.numbers();
    let random: Vec<AttentionProblem> = numbers.map(|i| drawn(sweep.seed(), i)).collect();
    let steps: Vec<AttentionProblem> = DECODED.map(decoded).to_vec();
    let mut count = 0;
    for (name, all) in MANIFESTS.into_iter().zip([random, steps, contested()]) {
        let mut problems = Vec::new();
        for problem in all {
            let operands = AttentionOperands::of(&problem, [0; 4]);
            let one = match name {
                "decode.json" => {
                    let plans = decode_variants(&problem, operands, &device);
                    exported_plans(&problem, &plans, &device, &mut file)
                }
                "candidates.json" => {
                    exported_plans(&problem, &candidates(&problem)?, &device, &mut file)
                }
                _ => exported(&problem, &device, &mut file),
            };
            problems.push(one.with_context(|| problem.to_string())?);
        }
        count += problems.len();
        let manifest = json!({
            "bench": "attention", "seed": sweep.seed(), "commit": commit(), "date": host::today(),
            "multiprocessors": device.limits().multiprocessors, "problems": problems,
        });
        let path = folder.join(name);
        std::fs::write(&path, format!("{manifest}\n"))
            .with_context(|| format!("{} cannot be written", path.display()))?;
    }
    println!(
        "{count} problems and {} kernels in {}",
        files.len(),
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use colex_gpu::attention::AttentionMethod;

    fn fastest(problem: &AttentionProblem) -> AttentionPlan {
        let operands = AttentionOperands::of(problem, [0; 4]);
        let plan = AttentionPlan::fastest(problem, operands, Arch::Sm90a, 132);
        plan.unwrap_or_else(|error| panic!("{problem}: {error}"))
    }

    /// Every drawn problem is one that a call takes, and within the bounds; all of the surface is drawn.
    #[test]
    fn law_drawn_problems_are_taken_and_cover_the_surface() {
        let all: Vec<AttentionProblem> = (0..600).map(|i| drawn(5, i)).collect();
        assert_eq!(drawn(5, 17), all[17]);
        for problem in &all {
            assert_eq!(problem.check(), Ok(()), "{problem}");
            assert!(bytes(problem) <= MOST_BYTES && operations(problem) <= MOST_OPERATIONS);
        }
        let plans: Vec<AttentionPlan> = all.iter().map(fastest).collect();
        let shares = |what: &str, of: &dyn Fn(&AttentionProblem) -> bool, least: usize| {
            let count = all.iter().filter(|problem| of(problem)).count();
            assert!(count >= least, "{what}: {count} of {}", all.len());
        };
        for ty in [Ty::Bf16, Ty::F16] {
            shares("a type", &|of| of.ty == ty, 150);
        }
        for features in FEATURES {
            shares("features", &|of| of.features == features, 60);
        }
        shares("full", &|of| of.mask == Mask::Full, 200);
        shares("causal", &|of| of.mask == Mask::Causal, 200);
        shares("windows", &|of| matches!(of.mask, Mask::Window { .. }), 90);
        shares("soft-caps", &|of| of.softcap.is_some(), 60);
        shares("log-sum-exp", &|of| of.log_sum_exp, 100);
        shares("sinks", &|of| of.sinks.is_some(), 60);
        shares("groups of heads", &|of| of.heads[0] > of.heads[1], 200);
        shares("decoding", &|of| of.lengths[0] <= 8, 100);
        shares(
            "as many queries as keys",
            &|of| of.lengths[0] == of.lengths[1],
            200,
        );
        shares("several sequences", &|of| of.batch > 1, 300);
        let by_tokens = |of: &AttentionProblem| of.strides[0][1] == of.features[0];
        shares("token by token", &by_tokens, 150);
        for method in [AttentionMethod::Hopper, AttentionMethod::Ampere] {
            let count = plans.iter().filter(|plan| plan.method == method).count();
            assert!(count > 50, "{method}: {count}");
        }
        assert!(plans.iter().any(|plan| plan.splits > 1));
    }

    /// The operations are those of the mask's definition, query by query and key by key.
    #[test]
    fn law_operations_are_those_of_the_keys_that_are_seen() {
        for mask in [Mask::Full, Mask::Causal, Mask::Window { left: 3, right: 1 }] {
            for lengths in [[1, 1], [5, 9], [9, 9]] {
                let problem = AttentionProblem::new(Ty::F16, 2, [6, 3], lengths, [192, 128]);
                let problem = problem.mask(mask);
                let seen = (0..lengths[0]).map(|i| mask.keys(i, lengths).count());
                let expected = 2 * 2 * 6 * (192 + 128) * seen.sum::<usize>();
                assert_eq!(operations(&problem), expected as f64, "{problem}");
            }
        }
        let problem = AttentionProblem::new(Ty::Bf16, 1, [4, 2], [3, 5], [192, 128]);
        assert_eq!(bytes(&problem), 2 * (4 * 3 + 2 * 5) * (192 + 128));
    }

    /// What is exported can be launched: a text for each launch that has its entry, an argument for each parameter, and places
    /// inside the memory that is named.
    #[test]
    fn exported_launches_have_their_kernels_and_places_in_memory() {
        let device = Device::simulator(Arch::Sm90a);
        let mut texts: Vec<String> = Vec::new();
        let mut file = |ptx: &str| -> Result<String> {
            let found = texts.iter().position(|text| text == ptx);
            let number = found.unwrap_or_else(|| {
                texts.push(ptx.to_string());
                texts.len() - 1
            });
            Ok(number.to_string())
        };
        let mut decode = AttentionProblem::new(Ty::Bf16, 1, [32, 8], [1, 8192], [128; 2]);
        decode.log_sum_exp = true;
        let square = AttentionProblem::new(Ty::F16, 2, [4, 4], [512; 2], [64; 2]);
        let cases = [
            (
                decode,
                vec!["Q", "K", "V", "O", "log_sum_exp", "workspace"],
                2,
            ),
            (square.mask(Mask::Causal), vec!["Q", "K", "V", "O"], 1),
            (square, vec!["Q", "K", "V", "O"], 1),
        ];
        for (problem, names, count) in cases {
            let value = exported(&problem, &device, &mut file).expect("a plan");
            let memory = value["memory"].as_array().expect("memory").clone();
            let found: Vec<&str> = memory.iter().filter_map(|of| of["name"].as_str()).collect();
            assert_eq!(found, names);
            let launches = value["launches"].as_array().expect("launches");
            assert_eq!(launches.len(), count);
            for launch in launches {
                assert!(launch["grid"][0].as_u64() > Some(0), "{launch}");
                let mut places = Vec::new();
                for argument in launch["arguments"].as_array().expect("arguments") {
                    let of_map = &argument["map"]["place"];
                    places.extend(
                        [of_map, &argument["pointer"]]
                            .into_iter()
                            .filter(|of| of.is_array()),
                    );
                }
                assert!(places.len() >= 4, "{launch}");
                for place in places {
                    let of = memory.iter().find(|of| of["name"] == place[0]);
                    let bytes = of.expect("it is named")["bytes"].as_u64();
                    assert!(place[1].as_u64() < bytes, "{place}");
                }
            }
            assert_eq!(value["problem"]["operations"], operations(&problem));
        }
        // Two masks, and the parts of the keys with their combination.
        assert_eq!(texts.len(), 4);
        assert!(texts.iter().all(|text| text.contains(".entry attention_")));
    }
}
