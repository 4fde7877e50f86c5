//! What holds for the error of every crate.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use colex_atom::{Arch, Ty};
use colex_gpu::attention::{
    Attention, AttentionMethod, AttentionOperands, AttentionPlan, AttentionProblem, Sequences,
};
use colex_gpu::kernels::{Compute, GemmProblem};
use colex_gpu::quantise::Quantise;
use colex_gpu::reduce::ReduceFunction;
use colex_gpu::{Device, PlanRefusal, attention, reduce, softmax};
use half::f16;

/// Asserts that an error prints its sentence as `Debug`.
fn says_its_sentence<E: Error>(error: &E) {
    assert_eq!(format!("{error:?}"), error.to_string());
}

/// Asserts the same of an error whose results are one pointer wide.
fn is_one_pointer<E: Error>(error: &E) {
    says_its_sentence(error);
    assert_eq!(size_of::<Result<(), E>>(), size_of::<usize>(), "{error}");
}

/// The public types that are errors: the folder and the name. The tests below compare them with the sources.
const TYPES: [(&str, &str); 16] = [
    ("atom/src", "Error"),
    ("atom/src", "NoSwizzle"),
    ("gpu/device/src", "Error"),
    ("gpu/ir/src", "ArgumentError"),
    ("gpu/ir/src", "Error"),
    ("gpu/ir/src", "Problem"),
    ("gpu/ir/src", "Refused"),
    ("gpu/sim/src", "Error"),
    ("gpu/sim/src", "Fault"),
    ("gpu/src", "Error"),
    ("gpu/tensor/src", "Error"),
    ("layout/draw/src", "Error"),
    ("layout/src", "Error"),
    ("sched/src", "Error"),
    ("sched/src", "Fault"),
    ("tiled/src", "Error"),
];

#[test]
fn every_error_prints_its_sentence_and_is_one_pointer() {
    let device = Device::simulator(Arch::Sm80);
    let layout = "4:".parse::<colex_layout::Layout>().unwrap_err();
    is_one_pointer(&layout);
    is_one_pointer(&colex_draw::Grid::from_fn(0, 4, |_, _| Default::default()).unwrap_err());
    is_one_pointer(&colex_atom::copy("ldmatrix").unwrap_err());
    says_its_sentence(&colex_atom::NoSwizzle {
        tried: 1,
        best: colex_layout::Swizzle::IDENTITY,
        effects: Vec::new(),
        too_wide: None,
    });
    is_one_pointer(&colex_tiled::Error::from(layout.clone()));
    is_one_pointer(&colex_sched::Raster::hilbert(0, 4).unwrap_err());
    says_its_sentence(&colex_sched::pipeline::Fault::Deadlock {
        blocked: Vec::new(),
    });
    says_its_sentence(&colex_ir::verify::Problem::BarrierArrive);
    is_one_pointer(&colex_ir::launch::check_arguments(&[], &[1u32.into()]).unwrap_err());
    is_one_pointer(&colex_ir::launch::ArgumentError::new(
        "1 arguments for 2 tensors",
    ));
    let refused = colex_ir::KernelBuilder::new("2fast", Arch::Sm80).finish();
    is_one_pointer(&refused.verify().unwrap_err());
    is_one_pointer(&colex_sim::Memory::default().read(0, 4).unwrap_err());
    is_one_pointer(&fault());
    is_one_pointer(&colex_tensor::Error::new("copy", "5 rows"));
    let slice = device.zeros::<f32>(4).unwrap().slice(2..9).unwrap_err();
    is_one_pointer(&slice);
    is_one_pointer(&colex_gpu::Error::from(slice));
    println!("law errors.debug_is_display: {} cases", TYPES.len());
}

/// The fault of a kernel that writes where no allocation is.
fn fault() -> colex_sim::Fault {
    use colex_ir::{Access, KernelBuilder, Space, Type};
    let mut k = KernelBuilder::new("stray", Arch::Sm80);
    let data = k.pointer("data\u{1b}");
    let address = k.param(data);
    k.store(Access::new(Space::Global, Type::U32), address, 7);
    let launch = colex_ir::launch::Launch::new(1, 1);
    let arguments = [colex_ir::launch::Argument::Pointer(64)];
    let mut memory = colex_sim::Memory::default();
    let options = colex_sim::SimOptions::default();
    colex_sim::simulate(&k.finish(), &launch, &arguments, &mut memory, &options).unwrap_err()
}

/// A name of the caller cannot break a sentence, nor reach the terminal as an escape sequence.
#[test]
fn names_with_control_characters_are_escaped_in_every_sentence() {
    use colex_ir::launch::ArgumentError;
    use colex_ir::{KernelBuilder, ParamType, Type};
    const NAME: &str = "a\n\u{1b}[31mb\r\0";
    const SHOWN: &str = "a\\n\\u{1b}[31mb\\r\\u{0}";
    let mut sentences = vec![
        ArgumentError::new(NAME).to_string(),
        ArgumentError::of_tensor(NAME, "short").to_string(),
        ArgumentError::of_tensor("a", NAME).to_string(),
        ArgumentError::of_scalar(NAME, "7").to_string(),
        ArgumentError::of_form(NAME, "a scalar").to_string(),
        colex_tensor::Error::new("copy", NAME).what(),
    ];
    let mut k = KernelBuilder::new(NAME, Arch::Sm80);
    k.parameter(NAME, ParamType::Scalar(Type::Pred));
    k.parameter(NAME, ParamType::Pointer { align: 12 });
    k.shared(NAME, 0, 12);
    let kernel = k.finish();
    let text = kernel.to_string();
    assert_eq!(text.matches(SHOWN).count(), 4, "{text}");
    let refused = kernel.verify().unwrap_err();
    sentences.extend(
        refused
            .diagnostics()
            .iter()
            .map(|found| found.problem.to_string()),
    );
    let refused = refused.to_string();
    sentences.push(refused.lines().next().expect("a line").to_string());
    let device = Device::simulator(Arch::Sm80);
    let other = KernelBuilder::new(NAME, Arch::Sm90a).finish();
    sentences.push(device.load(&other).unwrap_err().to_string());
    let mut k = colex_tensor::Builder::new("k", Arch::Sm80, 32);
    k.tensor(NAME, colex_atom::Ty::F32, "4:1@0");
    sentences.push(k.finish().unwrap_err().what());
    for sentence in &sentences {
        assert!(sentence.contains(SHOWN), "{sentence:?}");
        assert!(!sentence.contains(char::is_control), "{sentence:?}");
    }
    let region = colex_ir::SharedRegion {
        name: Some(NAME.to_string()),
        what: NAME.to_string(),
        start: 0,
        bytes: 4,
        unit: ("byte", 1),
        ty: None,
        layout: None,
        at: std::panic::Location::caller(),
    };
    assert_eq!(region.describe(0).matches(SHOWN).count(), 2);
    let fault = fault();
    assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    println!("law errors.escaped: {} sentences", sentences.len());
}

/// The `.rs` files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The sources of the crates.
const FOLDERS: [&str; 10] = [
    "layout/src",
    "layout/draw/src",
    "atom/src",
    "tiled/src",
    "sched/src",
    "gpu/src",
    "gpu/ir/src",
    "gpu/sim/src",
    "gpu/tensor/src",
    "gpu/device/src",
];

/// The public type that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = ["pub struct ", "pub enum "]
        .iter()
        .find_map(|start| line.trim_start().strip_prefix(start))?;
    rest.split(['(', ' ', ';', '<', '{']).next()
}

/// The public types of a source that are errors: declared by `opaque_error!`, derived, or implemented by hand.
fn errors(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let declares = line.starts_with("colex_layout::opaque_error! {")
            || line.starts_with("crate::opaque_error! {")
            || line.starts_with("#[derive(") && line.contains("thiserror::Error");
        if declares {
            let next = lines[at + 1..].iter().find(|line| {
                let line = line.trim_start();
                !(line.starts_with("#[") || line.starts_with("//"))
            });
            found.extend(next.and_then(|line| declared(line)));
        }
        let by_hand = line.strip_prefix("impl std::error::Error for ");
        let by_hand = by_hand.and_then(|rest| rest.split(' ').next());
        let is_public = |name: &&str| lines.iter().any(|line| declared(line) == Some(name));
        found.extend(by_hand.filter(is_public));
    }
    found
}

/// Every public type that is an error is in the list above, whose test sees its sentence; and none of those of the GPU
/// crates has a public field.
#[test]
fn no_error_is_missing_from_the_list_and_none_has_public_fields() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut found, mut complaints) = (Vec::new(), Vec::new());
    for folder in FOLDERS {
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        for path in files {
            let text = fs::read_to_string(&path).expect("a source");
            for name in errors(&text) {
                found.push((folder, name.to_string()));
                let body = text.split_once(&format!("pub struct {name} {{"));
                let body = body.and_then(|(_, rest)| rest.split_once("\n}"));
                // What `colex-atom` found is data.
                let is_data = name == "NoSwizzle";
                if body.is_some_and(|(body, _)| body.contains("\n    pub ")) && !is_data {
                    complaints.push(format!("{}: {name} has a public field", path.display()));
                }
            }
        }
    }
    assert_eq!(complaints, [""; 0]);
    found.sort();
    let listed = TYPES.map(|(folder, name)| (folder, name.to_string()));
    assert_eq!(found, listed);
    println!("law errors.listed: {} types", found.len());
}

/// The public enumerations that list what can be wrong and are data: callers match them to draw or to group findings.
const DATA: [(&str, &str); 2] = [("gpu/ir/src", "Problem"), ("sched/src", "Fault")];

/// Whether the documentation and the attributes above a declaration say that it is data and may grow.
fn is_growing_data(text: &str, declaration: &str) -> bool {
    let above = text.split(declaration).next().unwrap_or_default();
    let about = above.rsplit("\n\n").next().unwrap_or_default();
    about.contains("/// It is data") && about.contains("#[non_exhaustive]")
}

/// What is in an error may change without breaking a caller: no crate has a public enumeration of errors except those
/// that are data, and what implements `Error` by hand has its sentence as `Debug`.
#[test]
fn no_error_is_a_public_enumeration() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut complaints, mut data, mut read) = (Vec::new(), Vec::new(), 0);
    for folder in FOLDERS {
        let mut files = Vec::new();
        sources(&root.join(folder), &mut files);
        read += files.len();
        for path in files {
            let text = fs::read_to_string(&path).expect("a source");
            let of_errors = errors(&text);
            for line in text.lines() {
                let name = line.trim_start().strip_prefix("pub enum ");
                let name = name.and_then(|name| name.split([' ', '<']).next());
                if let Some(name) = name {
                    let is_data = DATA.contains(&(folder, name)) && is_growing_data(&text, line);
                    if is_data {
                        data.push((folder, name.to_string()));
                    } else if name.ends_with("Error") || of_errors.contains(&name) {
                        complaints.push(format!("{}: {line}", path.display()));
                    }
                }
                let by_hand = line.strip_prefix("impl std::error::Error for ");
                if let Some(name) = by_hand.and_then(|rest| rest.split(' ').next())
                    && of_errors.contains(&name)
                    && !text.contains(&format!("debug_as_display!({name})"))
                {
                    complaints.push(format!(
                        "{}: the `Debug` of {name} is not its sentence",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    data.sort();
    assert_eq!(data, DATA.map(|(folder, name)| (folder, name.to_string())));
    println!("law errors.no_public_enumeration: {read} files");
}

/// What no kernel computes, or not the kernel that is named, is told from what is wrong by itself and from a plan that is
/// refused, over the calls of the library.
#[test]
fn law_an_error_says_whether_the_call_is_unsupported() {
    let device = Device::simulator(Arch::Sm80);
    let halves = device.zeros::<f16>(1 << 12).expect("memory");
    let (ints, singles) = (device.zeros::<i32>(64), device.zeros::<f32>(64));
    let (ints, singles) = (ints.expect("memory"), singles.expect("memory"));
    let doubles = device.zeros::<f64>(64).expect("memory");
    let error = |of: Result<(), colex_gpu::Error>| of.expect_err("it is refused");
    let attends = |features: [i64; 2], method| {
        let mut o = device.zeros::<f16>(1 << 12).expect("memory");
        let [q, keys] = features.map(|n| halves.view((1, 1, 7, n)).expect("a view"));
        let o = o.view_mut((1, 1, 7, features[0])).expect("a view");
        match method {
            Some(method) => Attention::new(&q, &keys, &keys, &o).method(method).run(),
            None => attention(&q, &keys, &keys, &o),
        }
    };
    let problem = AttentionProblem::new(Ty::F16, 1, [8, 2], [7, 100], [64; 2]);
    let planned = |method, arch, change: fn(&mut AttentionPlan)| {
        let mut plan = AttentionPlan::new(method, AttentionOperands::of(&problem, [0; 4]));
        change(&mut plan);
        error(plan.check(arch))
    };
    let pages = Sequences::Paged {
        pages: 1,
        rows: 16,
        entries: 1,
        strides: [1, 1],
    };
    let (ampere, hopper) = (AttentionMethod::Ampere, AttentionMethod::Hopper);
    let products = GemmProblem::new(4, 4, 4);
    let mut more = [(); 3].map(|()| device.zeros::<f32>(64).expect("memory"));
    let [c, y, short] = &mut more;
    let mut other = device.zeros::<f64>(64).expect("memory");
    let mut bytes = device.zeros::<i8>(64).expect("memory");
    let of_doubles = doubles.view((8, 8)).expect("a view");
    let mut unsupported = vec![
        error(attends([80; 2], None)),
        error(attends([64; 2], Some(hopper))),
        error(
            AttentionProblem {
                ty: Ty::F32,
                ..problem
            }
            .check(),
        ),
        error(
            AttentionProblem {
                sequences: [pages, Sequences::Batch],
                ..problem
            }
            .check(),
        ),
        planned(ampere, Arch::Sm75, |_| ()),
        planned(ampere, Arch::Sm80, |plan| plan.operands.features = [80; 2]),
        error(products.on(&doubles, &doubles, c).expect("operands").run()),
    ];
    let in_tf32 = products.compute(Compute::Tf32);
    let call = in_tf32.on(&doubles, &doubles, &mut other);
    unsupported.push(error(call.expect("operands").run()));
    {
        let to = other.view_mut((8, 8)).expect("a view");
        unsupported.push(error(softmax(&of_doubles, &to)));
    }
    {
        let to = other.view_mut(8).expect("a view");
        let sum = reduce(ReduceFunction::Sum, &of_doubles, &[1], &to);
        unsupported.push(error(sum));
    }
    {
        let of_ints = ints.view((8, 8)).expect("a view");
        let mut means = device.zeros::<i32>(8).expect("memory");
        let to = means.view_mut(8).expect("a view");
        let mean = reduce(ReduceFunction::Mean, &of_ints, &[1], &to);
        unsupported.push(error(mean));
    }
    {
        let q = bytes.view_mut((8, 8)).expect("a view");
        let x = singles.view((8, 8)).expect("a view");
        unsupported.push(error(Quantise::new(Ty::S8, &of_doubles, &q).run()));
        unsupported.push(error(Quantise::new(Ty::S16, &x, &q).run()));
    }
    let peer = device.enable_access(&Device::simulator(Arch::Sm80));
    unsupported.push(peer.expect_err("simulators share no memory").into());
    for error in &unsupported {
        assert!(error.is_unsupported(), "{error}");
        assert_eq!(error.plan(), None, "{error}");
    }

    let x = singles.view((8, 8)).expect("a view");
    let of_rows = y.view_mut((4, 8)).expect("a view");
    let of_none = short.view_mut(3).expect("a view");
    let wrong = [
        error(attends([64, 128], None)),
        error(
            AttentionProblem {
                heads: [8, 3],
                ..problem
            }
            .check(),
        ),
        error(softmax(&x, &of_rows)),
        error(reduce(ReduceFunction::Sum, &x, &[1], &of_none)),
        device
            .zeros::<f32>(4)
            .expect("memory")
            .slice(2..9)
            .expect_err("beyond")
            .into(),
    ];
    for error in &wrong {
        assert!(!error.is_unsupported(), "{error}");
        assert_eq!(error.plan(), None, "{error}");
    }
    let of_plans = [
        (
            planned(hopper, Arch::Sm90a, |plan| plan.packs = 2),
            PlanRefusal::Combination,
        ),
        (
            planned(hopper, Arch::Sm90a, |plan| plan.cluster = 9),
            PlanRefusal::Number,
        ),
        (
            planned(hopper, Arch::Sm90a, |plan| plan.operands.vectors[0] = 4),
            PlanRefusal::Vector,
        ),
        (
            planned(hopper, Arch::Sm90a, |plan| {
                plan.operands.features = [256; 2];
                (plan.tile, plan.consumers) = ([192, 32], 3);
                (plan.stages, plan.ahead) = (1, 1);
            }),
            PlanRefusal::Limit,
        ),
        (
            planned(ampere, Arch::Sm80, |plan| plan.by_lanes = true),
            PlanRefusal::Combination,
        ),
        (
            planned(ampere, Arch::Sm80, |plan| plan.stages = 1),
            PlanRefusal::Number,
        ),
        (
            planned(ampere, Arch::Sm80, |plan| {
                (plan.stages, plan.tile[1]) = (8, 128)
            }),
            PlanRefusal::Limit,
        ),
    ];
    for (error, part) in &of_plans {
        assert!(!error.is_unsupported(), "{error}");
        assert_eq!(error.plan(), Some(*part), "{error}");
    }
    println!(
        "law errors.unsupported: {} calls, {} wrong ones, {} plans",
        unsupported.len(),
        wrong.len(),
        of_plans.len()
    );
}
