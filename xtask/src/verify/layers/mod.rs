//! The layers: no import runs upwards in the list of crates and folders that ARCHITECTURE.md holds, lowest first.
//!
//! What counts is what a module names: in a `use`, and in a path of a type or an expression. Through a `pub use` a path
//! leads to the folder that defines the item. Tests, macros and documentation may name what they like. A folder of sources
//! is seen at a glance, and says what its files have in common.

mod crowded;
mod list;
mod resolve;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value as Json;

use super::Run;
use super::cargo;
use super::outcome::Outcome;
use super::progress::Progress;
use super::wasm::PORTABLE;
use crate::workspace::{counted, read, shown};
use list::{FILE, List};
use resolve::{Home, Sources};
use source::Source;

/// The crates that only a crate with CUDA may need.
const OF_CUDA: [&str; 2] = ["cudarc", "libloading"];

/// A package of the workspace, as far as the layers go.
struct Package {
    name: String,
    manifest: PathBuf,
    /// `src/lib.rs`, or `src/main.rs` where there is no library.
    root: PathBuf,
    /// What its library needs: not its tests and benches.
    dependencies: Vec<String>,
}

/// What the layers of a tree came to.
#[derive(Default)]
struct Found {
    imports: usize,
    folders: usize,
    complaints: Vec<String>,
}

pub(super) fn check(run: &mut Run, progress: &Progress) -> Result<Outcome> {
    let packages = run
        .packages
        .all
        .iter()
        .map(package)
        .collect::<Result<Vec<_>>>()?;
    let list = List::read(&read(&run.root.join(FILE))?)?;
    let mut found = judge(&run.root, &packages, &list)?;
    let portable: Vec<_> = packages
        .iter()
        .filter(|package| PORTABLE.contains(&package.name.as_str()))
        .collect();
    for package in &portable {
        let words = format!(
            "tree --edges normal --prefix none --package {}",
            package.name
        );
        let done = cargo::run(cargo::command(&run.root, &words), progress)?;
        found
            .complaints
            .extend(needs_cuda(&package.name, &done.stdout));
        if !done.ok {
            found.complaints.push(done.all);
        }
    }
    found.complaints.extend(crowded::check(&run.root)?);
    let covered = format!(
        "{} imports of {} folders in {}, {} without CUDA",
        found.imports,
        found.folders,
        counted(packages.len(), "crate"),
        portable.len()
    );
    Ok(Outcome::of(found.imports, covered, &found.complaints))
}

/// What `cargo metadata` says of a package.
fn package(json: &Json) -> Result<Package> {
    let name = json["name"].as_str().context("a package has no name")?;
    let targets = json["targets"]
        .as_array()
        .context("a package has no targets")?;
    let is = |target: &&Json, kind: &str| {
        target["kind"]
            .as_array()
            .is_some_and(|kinds| kinds.contains(&kind.into()))
    };
    // A module of WebAssembly is a library of two kinds.
    let is_library = |target: &&Json| is(target, "lib") || is(target, "rlib");
    let library = targets.iter().find(is_library);
    let target = library.or(targets.iter().find(|target| is(target, "bin")));
    let root = target.and_then(|target| target["src_path"].as_str());
    let dependencies = json["dependencies"].as_array().into_iter().flatten();
    Ok(Package {
        name: name.to_string(),
        manifest: json["manifest_path"].as_str().unwrap_or_default().into(),
        root: root
            .with_context(|| format!("{name} has neither a library nor a binary"))?
            .into(),
        dependencies: dependencies
            .filter(|dependency| dependency["kind"] != "dev")
            .filter_map(|dependency| dependency["name"].as_str())
            .map(str::to_string)
            .collect(),
    })
}

/// What `cargo tree` shows of a crate that runs without CUDA.
fn needs_cuda(name: &str, tree: &str) -> Vec<String> {
    let needed = |line: &&str| {
        OF_CUDA
            .iter()
            .any(|cuda| line.split(' ').next() == Some(cuda))
    };
    tree.lines()
        .filter(needed)
        .map(|line| format!("{name} needs {line}, and has to do without CUDA"))
        .collect()
}

/// Compares what the packages import with the list.
fn judge(root: &Path, packages: &[Package], list: &List) -> Result<Found> {
    let mut sources = Sources::default();
    for package in packages {
        sources
            .crates
            .insert(package.name.replace('-', "_"), Source::read(&package.root)?);
    }
    let layers = Layers {
        root,
        packages,
        list,
    };
    let mut found = Found::default();
    found.complaints.extend(layers.unlisted(&sources));
    found.complaints.extend(layers.dependencies_upwards()?);
    for package in packages {
        let name = package.name.replace('-', "_");
        let source = &sources.crates[&name];
        let folders: BTreeSet<_> = source
            .modules
            .iter()
            .filter_map(|module| module.folder.as_ref())
            .collect();
        found.folders += folders.len();
        for (id, module) in source.modules.iter().enumerate() {
            let own = Home {
                crate_name: &name,
                folder: module.folder.as_deref(),
            };
            let mut said = BTreeSet::new();
            for import in &module.imports {
                let homes = sources.homes(&name, id, import);
                found.imports += usize::from(!homes.is_empty());
                for home in homes.into_iter().filter(|home| layers.is_above(*home, own)) {
                    let (from, to) = (layers.shown(own), layers.shown(home));
                    if said.insert((import.line, home)) {
                        found.complaints.push(format!(
                            "{}:{}: `{from}` imports `{}` from `{to}`, which is above it in the list ({FILE}:{})",
                            shown(root, &module.file),
                            import.line,
                            import.path.join("::"),
                            layers.line(home),
                        ));
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The list, asked about the packages.
struct Layers<'a> {
    root: &'a Path,
    packages: &'a [Package],
    list: &'a List,
}

impl Layers<'_> {
    /// The row of the list that holds a folder, or for a crate's root the last row of the crate.
    fn row(&self, home: Home<'_>) -> Option<usize> {
        let mut rows = self.list.layers.iter();
        rows.rposition(|layer| {
            layer.package.replace('-', "_") == home.crate_name
                && home
                    .folder
                    .is_none_or(|folder| layer.folders.iter().any(|name| name == folder))
        })
    }

    fn line(&self, home: Home<'_>) -> usize {
        self.row(home).map_or(0, |row| self.list.layers[row].line)
    }

    /// Whether what lives in `home` may not be imported by `own`. What is not on the list is a complaint of its own.
    fn is_above(&self, home: Home<'_>, own: Home<'_>) -> bool {
        if home.crate_name == own.crate_name && (home.folder.is_none() || own.folder.is_none()) {
            return home.folder.is_none() && own.folder.is_some();
        }
        match (self.row(home), self.row(own)) {
            (Some(home), Some(own)) => home > own,
            _ => false,
        }
    }

    /// A folder as it is written in messages: `gpu/src/sim`, or `gpu/src` for the crate's root.
    fn shown(&self, home: Home<'_>) -> String {
        let is_it = |package: &&Package| package.name.replace('-', "_") == home.crate_name;
        let folder = self
            .packages
            .iter()
            .find(is_it)
            .and_then(|package| package.root.parent());
        let folder = folder
            .map(|folder| shown(self.root, folder))
            .unwrap_or_default();
        home.folder
            .map_or(folder.clone(), |inner| format!("{folder}/{inner}"))
    }

    /// Crates and folders that are not on the list, and rows of the list that name nothing.
    fn unlisted(&self, sources: &Sources) -> Vec<String> {
        let mut complaints = Vec::new();
        for (crate_name, source) in &sources.crates {
            let folders = source.modules.iter().map(|module| module.folder.as_deref());
            for folder in folders.collect::<BTreeSet<_>>() {
                let home = Home { crate_name, folder };
                if self.row(home).is_none() {
                    complaints.push(format!(
                        "`{}` is not in the list of layers in {FILE}",
                        self.shown(home)
                    ));
                }
            }
        }
        for layer in &self.list.layers {
            let crate_name = layer.package.replace('-', "_");
            let Some(source) = sources.crates.get(&crate_name) else {
                complaints.push(format!(
                    "{FILE}:{}: there is no crate `{}`",
                    layer.line, layer.package
                ));
                continue;
            };
            for folder in &layer.folders {
                if !source
                    .modules
                    .iter()
                    .any(|module| module.folder.as_ref() == Some(folder))
                {
                    let home = Home {
                        crate_name: &crate_name,
                        folder: Some(folder),
                    };
                    complaints.push(format!(
                        "{FILE}:{}: there is no `{}`",
                        layer.line,
                        self.shown(home)
                    ));
                }
            }
        }
        complaints
    }

    /// Dependencies in a Cargo.toml on crates above.
    fn dependencies_upwards(&self) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        for package in self.packages {
            let own_name = package.name.replace('-', "_");
            let own = Home {
                crate_name: &own_name,
                folder: None,
            };
            for dependency in &package.dependencies {
                let name = dependency.replace('-', "_");
                let home = Home {
                    crate_name: &name,
                    folder: None,
                };
                if self.is_above(home, own) {
                    let manifest = read(&package.manifest)?;
                    let line = manifest
                        .lines()
                        .position(|line| line.starts_with(dependency.as_str()));
                    complaints.push(format!(
                        "{}:{}: `{}` depends on `{dependency}`, which is above it in the list ({FILE}:{})",
                        shown(self.root, &package.manifest),
                        line.map_or(1, |line| line + 1),
                        package.name,
                        self.line(home),
                    ));
                }
            }
        }
        Ok(complaints)
    }
}
