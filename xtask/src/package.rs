//! `cargo xtask package`: every published crate as one command of cargo packages it, built from its packaged files.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::verdict::{Checked, Ended};
use crate::{output, workspace};

/// Packages the crates that may be published, and says what cargo made of it.
pub(crate) fn task() -> Result<ExitCode> {
    let root = workspace::root()?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(&cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(&root)
        .output()
        .context("cargo cannot be started")?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let is_published = |package: &&Value| {
        package["publish"]
            .as_array()
            .is_none_or(|list| !list.is_empty())
    };
    let published = packages.filter(is_published).filter_map(|package| {
        let version = package["version"].as_str()?;
        Some((package["name"].as_str()?, version))
    });
    let (names, versions): (Vec<&str>, Vec<&str>) = published.unzip();
    let folders = names.iter().zip(versions);
    let folders: Vec<String> = folders.map(|(name, of)| format!("{name}-{of}")).collect();
    let home = home::cargo_home().context("the folder of cargo's registries")?;
    forget(&home.join("registry/src"), &folders)?;
    // Cargo takes a crate of a registry as built when its name and version are: nothing of an earlier run may be there.
    let target = metadata["target_directory"].as_str();
    let built =
        Path::new(target.context("cargo metadata names no target folder")?).join("packaged");
    remove(&built)?;
    let started = Instant::now();
    let mut command = Command::new(&cargo);
    command
        .args(["package", "--allow-dirty", "--target-dir"])
        .arg(&built)
        .current_dir(&root);
    for name in &names {
        command.args(["--package", name]);
    }
    let done = command.output().context("cargo cannot be started")?;
    let seconds = started.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&done.stderr);
    let is_fine = done.status.success();
    let what = format!(
        "{} crates packaged together and built from their packages",
        names.len()
    );
    if is_fine {
        println!("{what} in {seconds:.0} s: {}", names.join(", "));
    } else {
        println!("{}", said.trim());
    }
    Checked {
        seconds: Some(seconds),
        ..Checked::new("cargo package", Ended::of(is_fine), what).complaining(if is_fine {
            ""
        } else {
            said.trim()
        })
    }
    .add();
    Ok(output::code(is_fine))
}

/// Removes what cargo unpacked of `folders`, such as `colex-layout-0.2.0`, from its registries without a host.
///
/// `cargo package` makes such a registry of the packages, and names it by its path. It unpacks a package once for each
/// name and version, so that a second run at the same path builds crates against the first run's sources.
fn forget(sources: &Path, folders: &[String]) -> Result<()> {
    let registries = match fs::read_dir(sources) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        registries => registries.with_context(|| sources.display().to_string())?,
    };
    for registry in registries {
        let registry = registry?;
        // `index.crates.io-1949cf8c6b5b557f` has a host, `-22c3805da5a543b4` has none.
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for folder in folders {
            remove(&registry.path().join(folder))?;
        }
    }
    Ok(())
}

/// Removes a folder if it is there.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the named packages of registries without a host go: what other programs unpacked stays.
    #[test]
    fn what_an_earlier_package_unpacked_is_forgotten() {
        let sources = env::temp_dir().join(format!("colex-package-{}", std::process::id()));
        let folders = ["colex-layout-0.2.0".to_owned(), "colex-ir-0.2.0".to_owned()];
        forget(&sources, &folders).expect("no folder, nothing to forget");
        let all = [
            ("-22c3805da5a543b4/colex-layout-0.2.0", false),
            ("-22c3805da5a543b4/colex-layout-0.1.0", true),
            ("-22c3805da5a543b4/serde-1.0.0", true),
            ("-c7379465c2ebcde1/colex-layout-0.2.0", false),
            ("index.crates.io-1949cf8c6b5b557f/colex-layout-0.2.0", true),
        ];
        for (unpacked, _) in all {
            let src = sources.join(unpacked).join("src");
            fs::create_dir_all(&src).expect("a folder");
            fs::write(src.join("lib.rs"), "").expect("a file");
        }
        forget(&sources, &folders).expect("forgotten");
        let left = all.map(|(unpacked, _)| (unpacked, sources.join(unpacked).exists()));
        fs::remove_dir_all(&sources).expect("the test's folder");
        assert_eq!(left, all);
    }
}
