//! The Colex book: every Rust block of every chapter is a test of this crate, or a piece of one of its examples.
//!
//! `cargo test --doc -p colex-book` runs the tests, `cargo run -p colex-book --example layout_composition` an example;
//! `cargo xtask book` runs all examples, compares what they print with the chapters, and makes the pages. `cargo xtask verify` refuses a chapter
//! that is listed in `chapters/SUMMARY.md` and not here, and the reverse.

macro_rules! chapters {
    ($($name:ident = $path:literal;)*) => {
        $(
            #[doc = include_str!(concat!("../chapters/", $path))]
            pub mod $name {}
        )*
    };
}

chapters! {
    introduction = "introduction.md";
    why = "why.md";
    run = "run.md";
    explorer = "explorer.md";
    layout_tuples = "layout/tuples.md";
    layout_layouts = "layout/layouts.md";
    layout_coordinates = "layout/coordinates.md";
    layout_surgery = "layout/surgery.md";
    layout_coalesce = "layout/coalesce.md";
    layout_composition = "layout/composition.md";
    layout_inverses = "layout/inverses.md";
    layout_divide = "layout/divide.md";
    layout_product = "layout/product.md";
    layout_swizzles = "layout/swizzles.md";
    layout_coordinate_strides = "layout/coordinate-strides.md";
    layout_xor = "layout/xor.md";
    layout_drawing = "layout/drawing.md";
    atom_atoms = "atom/atoms.md";
    atom_volta = "atom/volta.md";
    atom_ampere = "atom/ampere.md";
    atom_hopper = "atom/hopper.md";
    atom_copies = "atom/copies.md";
    atom_tma = "atom/tma.md";
    atom_table = "atom/table.md";
    tiled_raked = "tiled/raked.md";
    tiled_copy = "tiled/copy.md";
    tiled_walk = "tiled/walk.md";
    tiled_mma = "tiled/mma.md";
    tiled_report = "tiled/report.md";
    schedule_grid = "schedule/grid.md";
    schedule_swizzle = "schedule/swizzle.md";
    schedule_thresholds = "schedule/thresholds.md";
    schedule_persistent = "schedule/persistent.md";
    schedule_split = "schedule/split.md";
    schedule_pipelines = "schedule/pipelines.md";
    kernel_first = "kernel/first.md";
    kernel_devices = "kernel/devices.md";
    kernel_checks = "kernel/checks.md";
    kernel_instruction = "kernel/instruction.md";
    kernel_proof = "kernel/proof.md";
    kernel_index = "kernel/index.md";
    kernel_tensors = "kernel/tensors.md";
    kernel_expressions = "kernel/expressions.md";
    kernel_gathers = "kernel/gathers.md";
    kernel_leaving = "kernel/leaving.md";
    kernel_simulator = "kernel/simulator.md";
    kernel_inside = "kernel/inside.md";
    kernel_copy = "kernel/copy.md";
    kernel_transpose = "kernel/transpose.md";
    kernel_simt = "kernel/simt.md";
    kernel_call = "kernel/call.md";
    kernel_volta = "kernel/volta.md";
    kernel_ampere = "kernel/ampere.md";
    kernel_hopper = "kernel/hopper.md";
    kernel_hopper_library = "kernel/hopper-library.md";
    kernel_plans = "kernel/plans.md";
    kernel_shapes = "kernel/shapes.md";
    kernel_types = "kernel/types.md";
    kernel_epilogue = "kernel/epilogue.md";
    kernel_epilogue_beyond = "kernel/epilogue-beyond.md";
    kernel_groups = "kernel/groups.md";
    kernel_attention = "kernel/attention.md";
    kernel_attention_loop = "kernel/attention-loop.md";
    kernel_attention_plans = "kernel/attention-plans.md";
    kernel_serving = "kernel/serving.md";
    kernel_serving_plans = "kernel/serving-plans.md";
    rows_introduction = "rows/introduction.md";
    rows_maps = "rows/maps.md";
    rows_convolution = "rows/convolution.md";
    ranks_modes = "ranks/modes.md";
    ranks_overlap = "ranks/overlap.md";
    ranks_paths = "ranks/paths.md";
    ranks_sums = "ranks/sums.md";
    ranks_host = "ranks/host.md";
    rows_quantise = "rows/quantise.md";
    rows_softmax = "rows/softmax.md";
    rows_long_rows = "rows/long-rows.md";
    rows_long_rows_speed = "rows/long-rows-speed.md";
    rows_reduce = "rows/reduce.md";
    rows_top_k = "rows/top_k.md";
    appendix_cheat_sheet = "appendix/cheat-sheet.md";
    appendix_bridge = "appendix/bridge.md";
    appendix_examples = "appendix/examples.md";
    appendix_errata = "appendix/errata.md";
    appendix_disagreements = "appendix/disagreements.md";
    appendix_names = "appendix/names.md";
    appendix_terms = "appendix/terms.md";
}

#[doc = include_str!("../../README.md")]
pub mod readme {}
