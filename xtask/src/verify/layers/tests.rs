//! Small trees with and without an import that runs upwards, in every spelling.

use std::fs;

use super::*;

/// A crate `low` with the folders `base` and `top`, and a crate `high` that needs it.
const LIST: &str = "\
# Architecture

## Layers

| crate | in `src` | what it holds |
|---|---|---|
| `low-crate` | `base` | the base |
| | `top` | what stands on it |
| `high-crate` | `a` `b` | two that know each other |

## Next
";

/// The files of the tree without faults, by path.
const TREE: [(&str, &str); 8] = [
    ("low/Cargo.toml", "[dependencies]\nserde = \"1\"\n"),
    (
        "low/src/lib.rs",
        "pub mod base;\nmod top;\npub mod prelude { pub use crate::top::Top; }\npub use base::Base;\npub use top::*;\n",
    ),
    (
        "low/src/base/mod.rs",
        "mod inner;\npub use inner::Inner;\npub struct Base;\npub fn own() { inner::f(); std::mem::drop(Base) }\n\
         #[cfg(test)]\nmod tests { use crate::top::Top; }\n",
    ),
    (
        "low/src/base/inner.rs",
        "use super::Base;\n/// Like [`crate::top::Top`].\npub struct Inner(Base);\npub fn f() { println!(\"{}\", crate::top::NUMBER) }\n",
    ),
    (
        "low/src/top.rs",
        "use anyhow::anyhow;\nuse crate::{Base, base::Inner};\npub struct Top(Base, Inner);\npub enum Kind { One }\npub const NUMBER: i32 = 1;\n",
    ),
    (
        "high/Cargo.toml",
        "[dependencies]\nlow-crate.workspace = true\n",
    ),
    ("high/src/main.rs", "mod a;\nmod b;\nfn main() { a::f() }\n"),
    (
        "high/src/a.rs",
        "use low_crate::{Base, Top};\nuse crate::b;\npub fn f() { b::g() }\n",
    ),
];

const B: (&str, &str) = ("high/src/b/mod.rs", "pub fn g() { crate::a::f() }\n");

/// Complaints about the tree with some files replaced or added, under a list.
fn complaints(name: &str, changed: &[(&str, &str)], list: &str) -> Vec<String> {
    let root = std::env::temp_dir().join(format!("colex-layers-{}-{name}", std::process::id()));
    for (file, text) in TREE.iter().chain([&B]).chain(changed) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let package = |name: &str, folder: &str, file: &str, needs: &[&str]| Package {
        name: name.to_string(),
        manifest: root.join(folder).join("Cargo.toml"),
        root: root.join(folder).join("src").join(file),
        dependencies: needs.iter().map(|need| need.to_string()).collect(),
    };
    let packages = [
        package("low-crate", "low", "lib.rs", &["serde"]),
        package("high-crate", "high", "main.rs", &["low-crate"]),
    ];
    let found = List::read(list).and_then(|list| judge(&root, &packages, &list));
    fs::remove_dir_all(&root).unwrap();
    found.unwrap().complaints
}

/// The complaints when `low/src/base/other.rs` has this text.
fn in_base(name: &str, text: &str) -> Vec<String> {
    let parent = (
        "low/src/base/mod.rs",
        "mod inner;\nmod other;\npub use inner::Inner;\npub struct Base;\n",
    );
    complaints(name, &[parent, ("low/src/base/other.rs", text)], LIST)
}

#[test]
fn a_tree_without_faults_passes() {
    assert_eq!(complaints("plain", &[], LIST), [""; 0]);
}

#[test]
fn an_import_upwards_is_named_in_every_spelling() {
    let spellings = [
        ("use", "\nuse crate::top::Top;\n", 2, "crate::top::Top"),
        (
            "rename",
            "use crate::top::Top as Base;\n",
            1,
            "crate::top::Top",
        ),
        (
            "group",
            "use crate::{\n    base::Base,\n    top::{Kind, self as t},\n};\n",
            3,
            "crate::top::Kind",
        ),
        ("glob", "use crate::top::*;\n", 1, "crate::top"),
        (
            "in a body",
            "fn f() {\n    use crate::top::Top;\n}\n",
            2,
            "crate::top::Top",
        ),
        (
            "path in a type",
            "\n\nfn f(\n    _: &[crate::top::Top],\n) {}\n",
            4,
            "crate::top::Top",
        ),
        (
            "path in an expression",
            "fn f() -> i32 {\n    crate::top::NUMBER\n}\n",
            2,
            "crate::top::NUMBER",
        ),
        (
            "path in a pattern",
            "fn f() {\n\n    if let crate::top::Kind::One = g() {}\n}\n",
            3,
            "crate::top::Kind::One",
        ),
        (
            "path in a bound",
            "impl Iterator for X<crate::top::Top> {}\n",
            1,
            "crate::top::Top",
        ),
        (
            "super",
            "use super::super::top::Top;\n",
            1,
            "super::super::top::Top",
        ),
        (
            "self",
            "use self::super::super::top::Top;\n",
            1,
            "self::super::super::top::Top",
        ),
        (
            "super from an inline module",
            "mod m {\n    use super::super::super::top::Top;\n}\n",
            2,
            "super::super::super::top::Top",
        ),
        (
            "re-export at the root",
            "use crate::Top;\n",
            1,
            "crate::Top",
        ),
        (
            "re-export twice",
            "use crate::prelude::Top;\n",
            1,
            "crate::prelude::Top",
        ),
        (
            "own name of the crate",
            "use low_crate::Top;\n",
            1,
            "low_crate::Top",
        ),
        (
            "leading colons",
            "use ::low_crate::top::Top;\n",
            1,
            "low_crate::top::Top",
        ),
        (
            "what a macro defines",
            "use crate::top::made_by_a_macro;\n",
            1,
            "crate::top::made_by_a_macro",
        ),
    ];
    for (name, text, line, path) in spellings {
        let said = format!(
            "low/src/base/other.rs:{line}: `low/src/base` imports `{path}` from `low/src/top`, \
             which is above it in the list (ARCHITECTURE.md:8)"
        );
        assert_eq!(in_base(name, text), [said], "{name}");
    }
}

#[test]
fn the_root_of_a_crate_is_above_its_folders() {
    let lib = (
        "low/src/lib.rs",
        "mod base;\nmod top;\npub use base::Base;\npub fn at_the_root() {}\n",
    );
    let base = (
        "low/src/base/mod.rs",
        "mod inner;\npub use inner::Inner;\npub struct Base;\nuse crate::at_the_root;\n",
    );
    assert_eq!(
        complaints("root", &[lib, base], LIST),
        [
            "low/src/base/mod.rs:4: `low/src/base` imports `crate::at_the_root` from `low/src`, \
          which is above it in the list (ARCHITECTURE.md:8)"
        ]
    );
    let said = in_base("glob of the root", "use crate::*;\n");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("imports `crate` from `low/src`"),
        "{said:?}"
    );
}

#[test]
fn a_crate_upwards_is_named_in_its_source_and_in_its_manifest() {
    let list = LIST
        .replace("`low-crate`", "`x`")
        .replace("`high-crate`", "`low-crate`")
        .replace("`x`", "`high-crate`");
    let list = list
        .replace("`base`", "`a` `b`")
        .replace("| | `top`", "| `low-crate` | `base` `top`")
        .replace("| `low-crate` | `a` `b` | two that know each other |\n", "");
    assert_eq!(
        complaints("crates", &[], &list),
        [
            "high/Cargo.toml:2: `high-crate` depends on `low-crate`, which is above it in the list (ARCHITECTURE.md:8)",
            "high/src/a.rs:1: `high/src/a` imports `low_crate::Base` from `low/src/base`, which is above it in the list (ARCHITECTURE.md:8)",
            "high/src/a.rs:1: `high/src/a` imports `low_crate::Top` from `low/src/top`, which is above it in the list (ARCHITECTURE.md:8)",
        ]
    );
}

#[test]
fn the_list_and_the_tree_name_the_same_folders() {
    let list = LIST.replace(
        "| | `top` | what stands on it |\n",
        "| | `roof` | a roof |\n| `cellar` | | |\n",
    );
    assert_eq!(
        complaints("names", &[], &list),
        [
            "`low/src/top` is not in the list of layers in ARCHITECTURE.md",
            "ARCHITECTURE.md:8: there is no `low/src/roof`",
            "ARCHITECTURE.md:9: there is no crate `cellar`",
        ]
    );
}

#[test]
fn a_document_without_the_list_is_refused() {
    assert_eq!(
        List::read("# Architecture\n").unwrap_err().to_string(),
        "ARCHITECTURE.md has no table of crates and folders below a heading `## Layers`"
    );
}

#[test]
fn cuda_below_a_portable_crate_is_named() {
    let tree = "colex-sim v0.1.0 (/x)\nlibloading v0.9.0\ncudarc v0.19.10\n  cudarc-like v1\n";
    assert_eq!(
        needs_cuda("colex-sim", tree),
        [
            "colex-sim needs libloading v0.9.0, and has to do without CUDA",
            "colex-sim needs cudarc v0.19.10, and has to do without CUDA",
        ]
    );
    assert!(needs_cuda("colex-ir", "colex-ir v0.1.0 (/x)\nhalf v2.7.1\n").is_empty());
}

#[test]
fn a_folder_is_followed_through_its_own_name() {
    let base = (
        "low/src/base/mod.rs",
        "mod inner;\npub use crate::base::inner::{Inner, f};\npub struct Base;\n",
    );
    let top = (
        "low/src/top.rs",
        "use crate::base::Inner;\npub struct Top(Inner);\n",
    );
    let lib = (
        "low/src/lib.rs",
        "pub mod base;\nmod top;\npub use base::{Base, Inner};\npub use top::*;\n",
    );
    assert_eq!(complaints("own-name", &[base, top, lib], LIST), [""; 0]);
}
