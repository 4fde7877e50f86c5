//! What a product refuses of its epilogue, it refuses before it loads a kernel or allocates memory.

use colex_atom::Ty;
use colex_gpu::gemm::{Epilogue, GemmMethod, Groups};
use colex_gpu::{Buffer, Error, Gemm};
use half::bf16;

use super::calls::{buffer, loads, view, view_mut};
use super::library::counted;
use super::{device, said};

/// Refusals of names, types, shapes, second factors, groups, lists, vectors and closures, each prepared and run, load nothing. The same
/// calls without the fault load a kernel.
#[test]
fn refused_epilogues_load_nothing() {
    let act = || {
        let device = device();
        let memory: Vec<Buffer<bf16>> = (0..3).map(|_| buffer(&device)).collect();
        let (c, bias, other) = (
            buffer::<f32>(&device),
            buffer::<f32>(&device),
            buffer(&device),
        );
        let (whole, short) = ("(64,64):(64,1)", "(64,32):(64,1)");
        let [a, b, b2] = [0, 1, 2].map(|i| view(&memory[i], whole));
        let of_c = view_mut(&c, whole);
        let biased = Epilogue::new(Ty::F32, |e| e.accumulator() + e.tensor("bias", Ty::F32));
        let gated = Epilogue::new(Ty::F32, |e| e.accumulator() * e.second_accumulator());
        let summed = Epilogue::new(Ty::F32, |e| {
            e.row_sums("sums", e.accumulator());
            e.accumulator()
        });
        let meeting = Epilogue::new(Ty::F32, |e| {
            let x = e.accumulator();
            e.apply("meets_all", 1, Ty::F32, [x], |k, [x], _| {
                k.sync();
                Ok(x.into())
            })
        });
        let [biased, gated, summed, meeting] = [biased, gated, summed, meeting].map(Result::unwrap);
        let product = Gemm::new(&a, &b, &of_c);
        let of_bias = view(&bias, "(64,64):(0,1)");
        let (of_short, of_integers) = (view(&bias, short), view(&other, "(64,64):(0,1)"));
        let of_integers: &colex_gpu::View<'_, i32> = &of_integers;
        let with_bias = product.clone().epilogue(&biased);
        let numbers = buffer::<u32>(&device);
        let of_numbers = view(&numbers, "3:1");
        let (experts, listed) = (
            view(&memory[1], "(64,64,2):(64,1,4096)"),
            [view_mut(&c, whole)],
        );
        let (lists_a, lists_b) = ([view(&memory[0], whole)], [view(&memory[1], whole)]);
        let refused = [
            with_bias.clone(),
            with_bias.clone().tensor("bias", &of_short),
            with_bias.clone().tensor("bias", of_integers),
            with_bias.clone().tensor("mask", &of_bias),
            with_bias.clone().tensor("bias", &of_bias).alpha(2.0),
            with_bias.clone().tensor("bias", &of_bias).b2(&b2),
            product.clone().epilogue(&gated),
            product.clone().epilogue(&summed),
            product
                .clone()
                .epilogue(&meeting)
                .method(GemmMethod::Hopper),
            product
                .clone()
                .epilogue(&meeting)
                .method(GemmMethod::Ampere),
            Gemm::new(&a, &experts, &of_c)
                .epilogue(&summed)
                .groups(Groups::Rows, &of_numbers),
            Gemm::lists(&lists_a, &lists_b, &listed)
                .unwrap()
                .b2(&b2)
                .epilogue(&gated),
        ];
        let mut not_refused = Vec::new();
        for (number, call) in refused.iter().enumerate() {
            let work = || {
                let errors: [Result<(), Error>; 2] = [call.prepare().map(drop), call.run()];
                if errors.iter().any(Result::is_ok) {
                    not_refused.push(number);
                }
                Ok(())
            };
            let counts = counted(&device, work).unwrap();
            let is_there = |name: &str| counts.keys().any(|other| other.starts_with(name));
            assert_eq!(loads(&counts), 0, "refusal {number}: {counts:?}");
            assert!(!is_there("cuLaunch"), "refusal {number}: {counts:?}");
            assert!(!is_there("cuMemAlloc"), "refusal {number}: {counts:?}");
        }
        assert!(not_refused.is_empty(), "{not_refused:?} were not refused");
        let right = [
            with_bias.clone().tensor("bias", &of_bias),
            product.clone().b2(&b2).epilogue(&gated),
        ];
        let loaded = right.iter().map(|call| {
            let counts = counted(&device, || call.prepare().map(drop)).unwrap();
            (loads(&counts) > 0).to_string()
        });
        format!(
            "{} refusals; {}",
            refused.len(),
            loaded.collect::<Vec<_>>().join(" ")
        )
    };
    assert_eq!(
        said("refused::refused_epilogues_load_nothing", "whole", act),
        "12 refusals; true true"
    );
}
