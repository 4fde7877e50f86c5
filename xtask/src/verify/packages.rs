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
        let arguments = [
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "-p",
            name,
        ];
        let done = cargo::run(cargo::command(&run.root, &arguments), progress)?;
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
    lacking
        .map(|fact| {
            format!(
                "{name}: its Cargo.toml does not say `{}`",
                fact.replace('_', "-")
            )
        })
        .collect()
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
            "license": "MIT", "readme": "README.md", "rust_version": "1.95"});
        assert!(lacking_facts("a", &package).is_empty());
        package["keywords"] = json!([]);
        package["rust_version"] = Json::Null;
        assert_eq!(
            lacking_facts("a", &package),
            [
                "a: its Cargo.toml does not say `keywords`",
                "a: its Cargo.toml does not say `rust-version`"
            ]
        );
    }
}
