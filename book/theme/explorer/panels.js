// The panels: the fields of each, with what stands in them first.
(function (explorer) {
    "use strict";

    const text = (name, label, value, examples) => ({ kind: "text", name, label, value, examples });
    const choice = (name, label, value, options) => ({ kind: "choice", name, label, value, options });
    const player = (name, label) => ({ kind: "player", name, label, value: "0", low: 0, high: 0 });
    // A field that only some choices of another one have.
    const only = (of, values, field) => ({ ...field, only: { of, values } });
    const slider = (name, label, value, low, high) => ({ kind: "slider", name, label, value, low, high });

    const LAYOUTS = [
        "(4,8):(8,1)", "((2,2),(2,4)):((1,4),(2,8))", "(4,(2,2)):(2,(1,8))", "(4,8):(1@0,1@1)",
        "Sw<2,0,3> o 0 o (8,16):(16,1)", "(2,2,2):(^1,^3,^4)",
    ];
    const ELEMENTS = [["8", "8 bits"], ["16", "16 bits"], ["32", "32 bits"], ["64", "64 bits"]];

    // The second operand of each operation.
    const LAYOUT = "B, a layout";
    const TILER = "B, a tiler";
    const SHAPE = "B, a shape";
    const TARGET = "B, a shape; without one, the cosize of A";
    const COUNT = "B, a number";
    const BITS = "Bits of an old and a new element";
    const COORD = "B, a coordinate with _ for some modes";
    explorer.OPERATIONS = {
        composition: LAYOUT, complement: TARGET, coalesce: null, right_inverse: null, left_inverse: null,
        logical_divide: TILER, zipped_divide: TILER, tiled_divide: TILER, flat_divide: TILER, logical_divide_exact: TILER,
        logical_product: TILER, zipped_product: TILER, tiled_product: TILER, flat_product: TILER,
        blocked_product: LAYOUT, raked_product: LAYOUT, tile_to_shape: SHAPE, tile_unzip: TILER, tiles: TILER,
        nullspace: null, max_common_layout: LAYOUT, max_common_vector: LAYOUT, sum: LAYOUT, greatest_common_domain: LAYOUT,
        domain_distribute: COUNT, upcast: COUNT, upcast_exact: COUNT, downcast: COUNT, recast: BITS, recast_exact: BITS,
        max_alignment: null, filter: null, layout_like: null, fragment_like: null, inner_product: "B, strides", slice: COORD, dice: COORD,
    };

    // What the panels can show at once: worked inputs of common kinds, among them those that other explorers offer.
    const algebra = (operation, ...pairs) => pairs.map(([a, b]) => ({ operation, a, b }));
    const THREE_MODES = [["12:1", "3:4"], ["(4,4):(1,4)", "(2,2):(1,4)"], ["(8,8):(1,8)", "<4:2,4:2>"], ["(12,32):(32,1)", "<3:4,8:4>"],
        ["(6,12):(12,1)", "<3:2,4:3>"], ["(8,16):(1,8)", "<(2,2):(1,4),(4,2):(1,8)>"]];
    const BLOCKS = [["(2,2):(1,2)", "(3,3):(1,3)"], ["(2,3):(1,2)", "(3,2):(1,3)"], ["(3,2):(2,1)", "(2,3):(3,1)"],
        ["(2,2):(1,2)", "(4,2):(1,4)"], ["4:1", "(2,3):(1,2)"], ["(2,2):(2,1)", "(2,2):(1,2)"]];
    const layouts = (...texts) => texts.map((layout) => ({ layout, color: "cycle" }));
    const swizzles = (...list) => list.map(([layout, bits, base, shift, lanes]) => ({ bits, base, shift, layout, element: "16", lanes, width: "2" }));
    const copies = (...list) => list.map(([atom, element, threads, values, tensor]) => ({ atom, element, threads, values, tv: "", tiler: "", tensor: tensor || "" }));
    const EXAMPLES = {
        layout: layouts("(10,10):(1,10)", "(10,10):(10,1)", "(8,8):(1,8)", "(8,8):(8,1)", "(8,8):(2,16)",
            "((2,2),(2,2)):((1,4),(2,8))", "((4,2),(4,2)):((1,8),(2,32))", "(4,32):(32,1)"),
        algebra: [
            ...algebra("composition", ["(4,4):(4,1)", "(2,2):(1,2)"], ["(8,8):(1,8)", "(4,4):(1,4)"], ["(8,8):(1,8)", "(2,4):(2,8)"],
                ["(4,8):(8,1)", "(2,4):(1,2)"], ["(4,4):(1,4)", "(4,4):(1,0)"], ["(12,(4,8)):(59,(13,1))", "<3:4,8:2>"],
                ["(12,(4,8)):(59,(13,1))", "<3,8>"], ["(4,8):(8,1)", "<2,4>"]),
            ...algebra("complement", ["(2,2):(1,2)", "16"], ["4:2", "8"], ["3:4", "12"], ["(2,2):(4,1)", "16"]),
            ...algebra("logical_divide", ...THREE_MODES),
            ...algebra("zipped_divide", ...THREE_MODES),
            ...algebra("logical_product", ["5:1", "4:1"], ["(5,3):(1,5)", "2:1"], ["(5,3):(1,5)", "(2,2):(1,2)"], ["(4,3):(3,1)", "<2:1,3:1>"],
                ["(3,5):(1,3)", "<2:1,2:1>"], ["(4,5):(5,1)", "<2:1,2:1>"], ["(5,4):(1,5)", "<3:1,2:1>"]),
            ...algebra("zipped_product", ["5:1", "4:1"], ["(5,3):(1,5)", "2:1"], ["(5,3):(1,5)", "(2,2):(1,2)"], ["(4,3):(3,1)", "(2,3):(1,2)"],
                ["(3,5):(1,3)", "(2,2):(1,2)"]),
            ...algebra("blocked_product", ...BLOCKS),
            ...algebra("raked_product", ...BLOCKS),
            ...algebra("logical_divide_exact", ["(12,32):(32,1)", "<3:4,8:4>"]),
            ...algebra("tile_to_shape", ["(2,4):(4,1)", "(4,8)"]),
            ...algebra("tile_unzip", ["((2,3),(2,4)):((1,2),(6,12))", "<2,2>"]),
            ...algebra("tiles", ["(1000,512,64):(1,1000,512000)", "<128,256>"]),
            ...algebra("nullspace", ["(4,3,2):(1,0,4)", ""]),
            ...algebra("max_common_layout", ["(8,4):(1,8)", "(8,4):(1,16)"]),
            ...algebra("max_common_vector", ["(8,4):(1,8)", "(8,4):(1,16)"]),
            ...algebra("sum", ["(4,8):(1,0)", "(4,8):(0,4)"]),
            ...algebra("greatest_common_domain", ["(4,6):(6,1)", "(8,3):(1,100)"]),
            ...algebra("domain_distribute", ["(15,14):(1,15)", "6"]),
            ...algebra("upcast", ["(4,8):(8,1)", "4"]),
            ...algebra("upcast_exact", ["(4,8):(8,1)", "4"]),
            ...algebra("downcast", ["(4,2):(2,1)", "4"]),
            ...algebra("recast", ["(8,32):(32,1)", "(16,128)"], ["(8,32):(32,1)", "(16,8)"]),
            ...algebra("recast_exact", ["32:1", "(1,32)"]),
            ...algebra("max_alignment", ["(4,(2)):(1,(4))", ""], ["(3,2):(16,8)", ""]),
            ...algebra("filter", ["(4,3,2):(1,0,4)", ""]),
            ...algebra("layout_like", ["(2,3,4):(12,4,1)", ""]),
            ...algebra("fragment_like", ["(2,3,4):(12,4,1)", ""]),
            ...algebra("inner_product", ["((_2,_2),_3):((_1@0,_4@1),_8@0)", "(513,1)"]),
            ...algebra("slice", ["((3,2),((2,3),2)):((4,1),((2,15),100))", "((_,1),_)"]),
            ...algebra("dice", ["((3,2),((2,3),2)):((4,1),((2,15),100))", "((_,1),_)"]),
        ],
        swizzle: swizzles(["(8,8):(8,1)", "3", "0", "3", "(8,4):(8,1)"], ["(16,16):(16,1)", "3", "0", "3", "32:16"], ["(8,32):(32,1)", "3", "3", "3", "(8,4):(32,8)"],
            ["(16,16):(1,16)", "2", "2", "2", "32:1"], ["(8,8):(8,1)", "0", "0", "0", "(8,4):(8,1)"]),
        descriptor: [{ of: "tile", operand: "B", tile: "(64,(8,2)):(8,(1,512))", start: "1024" }, { of: "tile", operand: "A", tile: "Sw<2,3,3> o 0 o (64,16):(32,1)", start: "0" },
            { of: "bits", operand: "A", bits: "0x8000002000010000" }, { of: "im2col", at: "(0,-1,-1,0)", offsets: "(2,1)" }],
        copy: copies(["UniversalCopy<uint32_t>", "32", "(2,3):(3,1)", "(2,2):(2,1)"], ["UniversalCopy<uint32_t>", "32", "(4,4):(1,4)", "(2,2):(1,2)"],
            ["UniversalCopy<uint32_t>", "32", "(4,8):(8,1)", "(2,2):(2,1)"], ["UniversalCopy<uint32_t>", "32", "(8,4):(1,8)", "(2,2):(1,2)"],
            ["UniversalCopy<uint32_t>", "32", "(16,2):(1,16)", "(2,2):(1,2)"],
            ["UniversalCopy<uint32_t>", "16", "(4,8):(8,1)", "(2,2):(2,1)", "(16,64):(64,1)"],
            ["UniversalCopy<uint128_t>", "16", "(4,8):(8,1)", "(2,8):(8,1)", "(16,64):(64,1)"],
            ["UniversalCopy<uint32_t>", "32", "(2,2):(2,1)", "(2,2):(2,1)", "(8,8):(8,1)"],
            ["UniversalCopy<uint64_t>", "32", "(2,4):(4,1)", "(2,2):(2,1)", "(8,16):(16,1)"],
            ["UniversalCopy<uint32_t>", "32", "(8,16):(1,8)", "(2,4):(1,2)", "(24,16):(1,24)"]),
    };

    explorer.PANELS = [
        {
            name: "layout", title: "Layouts", fields: [
                text("layout", "Layout", "(4,(2,2)):(2,(1,8))", LAYOUTS),
                choice("color", "Colours", "cycle", [
                    ["cycle", "by offset modulo 8"], ["offset", "by offset"], ["index", "by index"],
                    ["bank8", "by bank, 8 bits"], ["bank16", "by bank, 16 bits"], ["bank32", "by bank, 32 bits"],
                ]),
            ],
        },
        {
            name: "algebra", title: "Algebra", fields: [
                choice("operation", "Operation", "composition", Object.keys(explorer.OPERATIONS).map((name) => [name, name])),
                text("a", "A, a layout", "(6,2):(8,2)", LAYOUTS.slice(0, 3)),
                text("b", LAYOUT, "(4,3):(3,1)", ["(4,3):(3,1)", "6:3", "<3:3,(2,4):(1,8)>", "(2,4)", "24"]),
            ],
        },
        {
            name: "atom", title: "Instructions", fields: [
                text("query", "Find", "", ["ldmatrix x4", "wgmma f16", "mma.sync bf16", "cp.async", "SM70"]),
                { kind: "list", name: "name", label: "Instruction", value: "SM80_16x8x16_F32F16F16F32_TN" },
            ],
        },
        {
            name: "swizzle", title: "Swizzles", fields: [
                slider("bits", "B, bits", "3", 0, 5),
                slider("base", "M, base", "3", 0, 8),
                slider("shift", "S, shift", "3", -6, 6),
                text("layout", "Tile", "(8,64):(64,1)", ["(8,64):(64,1)", "(8,32):(32,1)", "(64,8):(1,64)"]),
                choice("element", "Element", "16", ELEMENTS),
                text("lanes", "Lanes, the first element of each", "(8,4):(64,8)", ["(8,4):(64,8)", "(8,4):(8,64)", "32:1", "32:64"]),
                choice("width", "A lane moves", "16", [["1", "1 byte"], ["2", "2 bytes"], ["4", "4 bytes"], ["8", "8 bytes"], ["16", "16 bytes"]]),
            ],
        },
        {
            name: "copy", title: "Tiled copies", fields: [
                text("atom", "Atom", "UniversalCopy<uint128_t>", ["UniversalCopy<uint128_t>", "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "SM75_U32x4_LDSM_N"]),
                text("element", "Bits of a value", "32", ["8", "16", "32"]),
                text("threads", "Threads", "(8,4):(1,8)", ["(8,4):(1,8)", "(4,8):(8,1)", "32:1"]),
                text("values", "Values", "(4,1):(1,4)", ["(4,1):(1,4)", "(1,4):(4,1)"]),
                text("tv", "Or the thread-value layout", "", ["((8,4),4):((4,32),1)"]),
                text("tiler", "and its tiler", "", ["<32:1,8:1>"]),
                text("tensor", "Tensor to walk, or nothing", "", ["(32,32):(32,1)", "(24,16):(1,24)"]),
            ],
        },
        {
            name: "mma", title: "Tiled products", fields: [
                text("atom", "Atom", "SM80_16x8x16_F32F16F16F32_TN", ["SM80_16x8x16_F32F16F16F32_TN", "SM70_8x8x4_F32F16F16F32_NT", "SM90_64x64x16_F32F16F16_SS"]),
                text("atoms", "Atoms along M, N and K", "(2,2,1):(1,2,0)", ["(2,2,1):(1,2,0)", "(1,1,1):(0,0,0)", "(2,2):(2,1)"]),
                text("permutation", "Permutation of the tile, or nothing", "", ["(32,32,16)", "(_,(2,8):(8,1),_)"]),
            ],
        },
        {
            name: "tma", title: "TMA boxes", fields: [
                text("tensor", "Tensor, a matrix", "(6,12):(12,1)", ["(6,12):(12,1)", "(16,16):(16,1)", "(16,16):(1,16)"]),
                choice("element", "Element", "f32", [
                    ["u8", "u8"], ["f16", "f16"], ["bf16", "bf16"], ["f32", "f32"], ["tf32", "tf32"], ["s32", "s32"], ["f64", "f64"],
                ]),
                text("box", "Box", "(4,8)", ["(4,8)", "(8,8)", "(8,16)"]),
                text("at", "Where the box begins", "(4,8)", ["(4,8)", "(0,0)", "(-1,-4)"]),
                text("shared", "Layout in shared memory, or nothing for row by row", "", ["(8,8):(8,1)", "Sw<1,2,3> o 0 o (8,8):(8,1)", "(4,8):(1,4)"]),
            ],
        },
        {
            name: "descriptor", title: "Descriptors", fields: [
                choice("of", "Descriptor", "tile", [["tile", "wgmma: of a tile"], ["bits", "wgmma: of its bits"], ["im2col", "tensor map: im2col"]]),
                only("of", ["tile", "bits"], text("atom", "Instruction", "SM90_64x64x16_F32F16F16_SS", ["SM90_64x64x16_F32F16F16_SS", "SM90_64x8x16_F32F16F16_SS"])),
                only("of", ["tile", "bits"], choice("operand", "Operand", "A", [["A", "A"], ["B", "B"]])),
                only("of", ["tile"], text("tile", "Tile in shared memory", "Sw<3,3,3> o 0 o (64,16):(64,1)", ["Sw<3,3,3> o 0 o (64,16):(64,1)", "Sw<2,3,3> o 0 o (64,16):(32,1)", "(64,(8,2)):(8,(1,512))"])),
                only("of", ["tile"], text("start", "Start address in bytes", "0", ["0", "32", "1024"])),
                only("of", ["bits"], text("bits", "Bits", "0x4000004000010000", ["0x4000004000010000"])),
                only("of", ["im2col"], text("image", "Tensor: channels, W, H, images", "(8,4,4,2)", ["(8,4,4,2)"])),
                only("of", ["im2col"], text("lower", "Lower corner along W and H", "(-1,-1)", ["(-1,-1)", "(0,0)"])),
                only("of", ["im2col"], text("upper", "Upper corner along W and H", "(-1,-1)", ["(-1,-1)", "(0,0)"])),
                only("of", ["im2col"], text("column", "Channels of a pixel, pixels of a column", "(8,16)", ["(8,16)", "(4,16)"])),
                only("of", ["im2col"], text("at", "Where the column begins", "(0,2,1,0)", ["(0,2,1,0)", "(0,-1,-1,0)"])),
                only("of", ["im2col"], text("offsets", "Offsets of the filter's tap along W and H", "(0,0)", ["(0,0)", "(2,1)"])),
            ],
        },
        {
            name: "schedule", title: "Schedules", fields: [
                text("order", "Order of the tiles", "GemmIdentity<2>", [
                    "GemmIdentity<1>", "GemmIdentity<2>", "GemmIdentity<8>", "grouped 8 along m", "persistent along n, swizzle 2", "Hilbert", "Morton",
                ]),
                text("tiles", "Tiles along M and N", "4x4", ["4x4", "8x8", "16x12"]),
                text("cluster", "Cluster", "1x1", ["1x1", "2x1", "1x2"]),
                text("workers", "Blocks of a wave", "4", ["4", "8", "132"]),
                text("tile", "Elements of a tile along M, N and K", "128x128x64", ["128x128x64", "128x256x64", "64x64x32"]),
                choice("bytes", "Bytes of an element", "2", [["1", "1"], ["2", "2"], ["4", "4"], ["8", "8"]]),
                text("k", "k-tiles", "16", ["16", "64"]),
                text("cache", "L2 cache in MiB", "1", ["1", "50"]),
                player("wave", "Waves"),
            ],
        },
        {
            name: "pipeline", title: "Pipelines", fields: [
                choice("schedule", "Schedule", "cooperative", [["cooperative", "cooperative"], ["pingpong", "pingpong"], ["multistage", "multistage"]]),
                slider("stages", "Stages", "3", 1, 8),
                slider("tiles", "Output tiles", "1", 1, 4),
                slider("k", "k-tiles", "8", 1, 16),
                slider("consumers", "Consumers, or warps", "1", 1, 4),
                slider("load", "Time of a load", "4", 1, 16),
                slider("multiply", "Time of a multiply", "2", 1, 16),
                slider("epilogue", "Time of an epilogue", "2", 1, 16),
                choice("mistake", "Mistake", "none", [
                    ["none", "none"], ["arrivals", "an arrival too many"], ["parity", "the other parity"], ["wait", "no waits for stages or data"],
                ]),
                player("step", "Events"),
            ],
        },
        {
            name: "kernel", title: "Kernels", fields: [
                choice("kernel", "Kernel", "axpy", [
                    ["axpy", "axpy: y = a x + y"], ["exchange", "exchange: two warps"], ["bulk", "bulk: the asynchronous proxy"], ["transpose", "transpose: a tile of 32 by 32"],
                ]),
                choice("mistake", "Mistake", "none", [["none", "none"], ["planted", "planted"]]),
                only("kernel", ["axpy"], text("n", "Elements", "27", ["27", "64"])),
                only("kernel", ["axpy"], text("blocks", "Blocks", "4", ["4", "8"])),
                only("kernel", ["axpy", "exchange"], text("threads", "Threads of a block", "8", ["8", "64", "256"])),
                only("kernel", ["transpose"], text("shared", "Layout of the tile", "(32,32):(32,1)", ["(32,32):(32,1)", "(32,32):(33,1)", "Sw<5,0,5> o 0 o (32,32):(32,1)"])),
                text("block", "Block that is stepped", "0", ["0", "3"]),
                text("warp", "Warp that is stepped", "0", ["0", "1"]),
                player("step", "Statements"),
            ],
        },
    ];
    explorer.PANELS.forEach((panel) => { panel.examples = EXAMPLES[panel.name] || []; });
})(window.ColexExplorer);
