//! What each package would hold if it were published: its licences, a README, and the facts that a registry shows.

use anyhow::Result;
use serde_json::Value as Json;

use super::outcome::Outcome;
use super::progress::Progress;
use super::{Run, cargo};

/// The files that a package cannot be without.
const FILES: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The facts that a registry shows.
const FACTS: [&str; 7] = [
    "categories",
    "description",
    "documentation",
    "keywords",
    "license",
    "readme",
    "rust_version",
];

pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let (mut complaints, mut files) = (Vec::new(), 0);
    let published = run.packages.published();
    for package in &published {
        let name = package["name"].as_str().unwrap_or_default();
        progress.at(name);
        complaints.extend(lacking_facts(name, package));
        complaints.extend(versioned_tests(name, package, &published));
        let words = format!("package --list --allow-dirty --offline -p {name}");
        let done = cargo::run(cargo::command(&run.root, &words), progress)?;
        if !done.ok {
            complaints.push(format!("{name} cannot be packaged: {}", done.all.trim()));
        }
        files += done.stdout.lines().count();
        complaints.extend(lacking_files(name, &done.stdout));
    }
    let count = published.len();
    let covered =
        format!("{count} packages of {files} files, each with its licences and its README");
    Ok(Outcome::of(count, covered, &complaints))
}

fn lacking_files(name: &str, list: &str) -> Vec<String> {
    let has = |file: &str| list.lines().any(|line| line == file);
    let lacking = FILES.iter().filter(|file| !has(file));
    lacking
        .map(|file| format!("{name} would be published without {file}"))
        .collect()
}

fn lacking_facts(name: &str, package: &Json) -> Vec<String> {
    let is_said = |fact: &str| match &package[fact] {
        Json::Null => false,
        Json::Array(list) => !list.is_empty(),
        _ => true,
    };
    let lacking = FACTS.iter().filter(|fact| !is_said(fact));
    let documented = package["metadata"]["docs"]["rs"]["all-features"] == true;
    let undocumented = (!documented).then(|| {
        format!("{name}: docs.rs would not document all features (package.metadata.docs.rs)")
    });
    lacking
        .map(|fact| {
            format!(
                "{name}: its Cargo.toml does not say `{}`",
                fact.replace('_', "-")
            )
        })
        .chain(undocumented)
        .collect()
}

/// The crates of the workspace that only the tests need, and that are not published or not published before this one:
/// with a version beside their path they would stay in the package, which could then not be built.
fn versioned_tests(name: &str, package: &Json, published: &[&Json]) -> Vec<String> {
    let dependencies = |package: &Json| {
        package["dependencies"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let is_named = |package: &&&Json, name: &str| package["name"] == name;
    // Whether a crate needs this one, by the dependencies that a package keeps.
    let needs = |from: &str| {
        let (mut open, mut seen) = (vec![from.to_string()], Vec::new());
        while let Some(next) = open.pop() {
            if next == name {
                return true;
            }
            if seen.contains(&next) {
                continue;
            }
            let package = published.iter().find(|package| is_named(package, &next));
            let kept = package
                .map(|package| dependencies(package))
                .unwrap_or_default();
            let kept = kept.into_iter().filter(|one| one["kind"].is_null());
            open.extend(kept.filter_map(|one| one["name"].as_str().map(str::to_string)));
            seen.push(next);
        }
        false
    };
    let of_tests = dependencies(package)
        .into_iter()
        .filter(|one| one["kind"] == "dev" && !one["path"].is_null());
    let wrong = of_tests.filter(|one| one["req"] != "*").filter_map(|one| {
        let of = one["name"].as_str()?;
        let is_published = published.iter().any(|package| is_named(&package, of));
        (!is_published || needs(of)).then(|| {
            format!("{name}: its tests need {of} with a version, so that its package cannot be built: name the path alone")
        })
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_package_without_its_licence_is_refused() {
        let list = "Cargo.toml\nLICENSE-MIT\nREADME.md\nsrc/LICENSE-APACHE\n";
        assert_eq!(
            lacking_files("a", list),
            ["a would be published without LICENSE-APACHE"]
        );
    }

    #[test]
    fn a_package_that_says_nothing_of_itself_is_refused() {
        let mut package = json!({"categories": ["x"], "description": "d", "documentation": "u", "keywords": ["k"],
            "license": "MIT", "readme": "README.md", "rust_version": "1.88",
            "metadata": {"docs": {"rs": {"all-features": true}}}});
        assert!(lacking_facts("a", &package).is_empty());
        package["keywords"] = json!([]);
        package["rust_version"] = Json::Null;
        package["metadata"] = Json::Null;
        assert_eq!(
            lacking_facts("a", &package),
            [
                "a: its Cargo.toml does not say `keywords`",
                "a: its Cargo.toml does not say `rust-version`",
                "a: docs.rs would not document all features (package.metadata.docs.rs)"
            ]
        );
    }

    #[test]
    fn a_test_that_needs_a_later_crate_by_version_is_refused() {
        let needs = |name: &str, kind: Json, req: &str| json!({"name": name, "kind": kind, "req": req, "path": "/x"});
        let package = |name: &str, needs: &[Json]| json!({"name": name, "dependencies": needs});
        let (upper, lower) = (
            package("upper", &[needs("lower", Json::Null, "^0.2")]),
            package("other", &[]),
        );
        let dev = |name: &str, req| package("lower", &[needs(name, json!("dev"), req)]);
        let found = |package: &Json| versioned_tests("lower", package, &[&upper, &lower, package]);
        assert_eq!(
            found(&dev("upper", "^0.2")),
            [
                "lower: its tests need upper with a version, so that its package cannot be built: name the path alone"
            ]
        );
        assert_eq!(found(&dev("proof", "^0.2")).len(), 1, "it is not published");
        assert!(found(&dev("upper", "*")).is_empty());
        assert!(
            found(&dev("other", "^0.2")).is_empty(),
            "it is published before"
        );
    }
}
