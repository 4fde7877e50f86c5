//! Kernels for other launchers: every parameter at its offset, in JSON and in C.

use std::fs;
use std::process::Command;

use colex_atom::{Arch, Ty};
use colex_ir::Type;
use colex_tensor::{Builder, Exported, Role};

/// A kernel with a parameter of every role.
fn exported() -> Exported {
    let mut k = Builder::new("every", Arch::Sm90a, 128);
    k.cluster([2, 1, 1]);
    k.scalar_argument("half", Type::B16);
    k.tensor("a", Ty::F32, "((4,8),_64):((_1,520),65)");
    k.tma_tensor(
        "map",
        Ty::F16,
        "(256,(16,16)):(256,(_1,16))",
        [64, 64],
        "(64,64):(64,1)",
        1,
    );
    k.tma_tensor(
        "rows",
        Ty::Bf16,
        "(100,80):(80,_1)",
        [32, 64],
        "(32,64):(64,1)",
        1,
    );
    k.scalar_argument("alpha", Type::F64);
    k.index_argument("n", -5..100);
    k.shared_bytes(100, 16);
    k.finish()
        .unwrap_or_else(|e| panic!("{e}"))
        .export()
        .expect("a kernel")
}

#[test]
fn parameters_lie_where_the_driver_reads_them() {
    let exported = exported();
    let at = |p: &colex_tensor::ExportedParameter| (p.name.clone(), p.offset, p.bytes);
    let places: Vec<_> = exported.parameters.iter().map(at).collect();
    let names = places
        .iter()
        .map(|(name, offset, bytes)| format!("{name} {offset} {bytes}"));
    assert_eq!(
        names.collect::<Vec<_>>().join(", "),
        "half 0 2, a 8 8, a_extent_0 16 4, a_extent_1 20 4, a_stride_1 24 8, a_stride_2 32 8, map 64 128, rows 192 128, \
         alpha 320 8, n 328 4"
    );
    assert_eq!(
        (exported.argument_bytes, exported.dynamic_shared),
        (332, 100)
    );
    let Role::TensorMap(rows) = &exported.parameters[7].role else {
        panic!("{:?}", exported.parameters[7]);
    };
    let leaves: Vec<_> = rows
        .dimensions
        .iter()
        .map(|d| (d.leaf, d.extent, d.stride_bytes))
        .collect();
    assert_eq!(leaves, [(Some(1), 80, 2), (Some(0), 100, 160)]);
    assert_eq!((&rows.extents[..], rows.element.code), (&[64, 32][..], 9));
    // Two modes in one dimension: no leaf has its extent.
    let Role::TensorMap(map) = &exported.parameters[6].role else {
        panic!("{:?}", exported.parameters[6]);
    };
    assert!(
        map.dimensions.iter().any(|d| d.leaf.is_none()),
        "{:?}",
        map.dimensions
    );
}

#[cfg(feature = "serde")]
#[test]
fn it_is_json() {
    let json = serde_json::to_value(exported()).expect("JSON");
    assert_eq!(json["cluster"], serde_json::json!([2, 1, 1]));
    let stride = &json["parameters"][4];
    assert_eq!(
        *stride,
        serde_json::json!({
            "name": "a_stride_1", "ty": "s64", "bytes": 8, "align": 8, "offset": 24,
            "role": {"kind": "stride", "tensor": "a", "leaf": 1, "multiple_of": 1},
        })
    );
    assert_eq!(
        json["parameters"][7]["role"]["swizzle"]["name"],
        "CU_TENSOR_MAP_SWIZZLE_NONE"
    );
}

/// A kernel whose parameters have names that C or C++ reserves, or that differ in capitals only.
fn reserved() -> Exported {
    let mut k = Builder::new("reserved", Arch::Sm80, 32);
    for name in [
        "new", "new_", "int", "class", "restrict", "_Alignas", "N", "n",
    ] {
        k.scalar_argument(name, Type::U32);
    }
    k.finish()
        .unwrap_or_else(|e| panic!("{e}"))
        .export()
        .expect("a kernel")
}

/// The compilers of C and of C++, where there are some, agree with the offsets, and have the text. A program of two
/// files, of which one is C, sees the same structure.
#[test]
fn compilers_of_c_and_cpp_take_the_header() {
    let exported = exported();
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("header");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("every.h"), exported.c_header()).expect("a file");
    fs::write(folder.join("reserved.h"), reserved().c_header()).expect("a file");
    let program = "#include <stdio.h>\n#include \"every.h\"\n#include \"reserved.h\"\n\
        int main(void) {\n\
            unsigned block[3] = EVERY_BLOCK, cluster[3] = EVERY_CLUSTER;\n\
            long box[EVERY_ROWS_RANK] = EVERY_ROWS_BOX;\n\
            struct every_arguments arguments;\n\
            struct reserved_arguments words = {1, 2, 3, 4, 5, 6, 7, 8};\n\
            arguments.alpha = words.new_ + words.new__ + words.n_ - 11;\n\
            fprintf(stderr, \"%u %u %ld %d %d\", block[0], cluster[0], box[0], EVERY_ROWS_ELEMENT, EVERY_DRIVER);\n\
            fputs(every_ptx, stdout);\n\
            return (int)arguments.alpha + (reserved_ptx[0] == 0);\n}\n";
    for (compiler, standard, file) in [
        ("cc", "-std=c11", "main.c"),
        ("c++", "-std=c++11", "main.cpp"),
    ] {
        fs::write(folder.join(file), program).expect("a file");
        let compiled = Command::new(compiler)
            .args([
                standard, "-Wall", "-Wextra", "-Werror", file, "-o", compiler,
            ])
            .current_dir(&folder)
            .output();
        let Ok(compiled) = compiled else {
            println!("skipped: there is no compiler called {compiler}");
            continue;
        };
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{compiler}: {said}");
        let ran = Command::new(folder.join(compiler))
            .output()
            .expect("the program");
        assert!(ran.status.success(), "{compiler}: {}", ran.status);
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "128 2 64 9 12000");
        assert_eq!(String::from_utf8_lossy(&ran.stdout), exported.ptx);
    }
}
