//! The page that says how to run a kernel: the folders that its commands name are there, and its project depends on every
//! crate that its program imports. It and the files before it show the profile that this workspace gives the simulator.

use std::path::Path;

use anyhow::Result;

use crate::workspace;

const PAGE: &str = "book/chapters/run.md";
const PROGRAM: &str = "book/examples/run.rs";

/// The files that lead to a project of one's own, and what an unoptimised simulator says: Cargo takes profiles from the project's workspace only.
const WITH_PROFILE: [&str; 5] = [
    "README.md",
    "gpu/README.md",
    PAGE,
    "examples/ndarray/Cargo.toml",
    "gpu/sim/src/machine/mod.rs",
];

/// Checks the page's commands.
pub(crate) fn check(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let page = workspace::read(&root.join(PAGE))?;
    let program = workspace::read(&root.join(PROGRAM))?;
    let missing = named(&page).filter(|path| !root.join(path).exists());
    complaints.extend(missing.map(|path| format!("{PAGE}: there is no `{path}` in a clone")));
    for import in imported(&program) {
        let mut added = added(&page);
        let has_crate = |folder: &str| {
            let manifest = workspace::read(&root.join(folder).join("Cargo.toml"));
            manifest.is_ok_and(|text| text.contains(&format!("name = \"{import}\"")))
        };
        if !added.any(has_crate) {
            complaints.push(format!(
                "{PAGE}: no `cargo add` names {import}, which {PROGRAM} imports"
            ));
        }
    }
    profiles(root, complaints)
}

/// Checks that the files show the level at which this workspace optimises the simulator.
fn profiles(root: &Path, complaints: &mut Vec<String>) -> Result<()> {
    let manifest = workspace::read(&root.join("Cargo.toml"))?;
    let own = manifest.split("[profile.dev.package.colex-sim]\n").nth(1);
    let Some(level) = own.and_then(|rest| rest.lines().next()) else {
        complaints.push("Cargo.toml: the simulator has no profile".into());
        return Ok(());
    };
    let lines = format!("[profile.dev.package.\"*\"]\n{level}\n");
    for file in WITH_PROFILE {
        if !workspace::read(&root.join(file))?.contains(&lines) {
            complaints.push(format!(
                "{file}: the profile of dependencies is not `{level}`"
            ));
        }
    }
    Ok(())
}

/// The paths of a clone beside the project: `../colex/PATH`.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let rest = page.split("../colex/").skip(1);
    rest.filter_map(|rest| rest.split([' ', '\n', '`']).next())
}

/// The folders that `cargo add` names.
fn added(page: &str) -> impl Iterator<Item = &str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("cargo add --path ../colex/"))
}

/// The packages of the library that a program imports, as `colex-gpu`.
fn imported(program: &str) -> impl Iterator<Item = String> {
    let lines = program
        .lines()
        .filter_map(|line| line.strip_prefix("use colex_"));
    lines.filter_map(|line| line.split("::").next().map(|name| format!("colex-{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_folders_and_crates() {
        let page = "```sh\ncargo add --path ../colex/gpu\ncp ../colex/book/a.rs src/main.rs\n```\n";
        assert_eq!(named(page).collect::<Vec<_>>(), ["gpu", "book/a.rs"]);
        assert_eq!(added(page).collect::<Vec<_>>(), ["gpu"]);
        let program = "use colex_gpu::Device;\nuse std::fs;\nuse colex_atom::Arch;\n";
        assert_eq!(
            imported(program).collect::<Vec<_>>(),
            ["colex-gpu", "colex-atom"]
        );
    }

    #[test]
    fn what_a_reader_would_lack_is_refused() {
        let root = std::env::temp_dir().join(format!("colex-outsider-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("it has a parent"))
                .expect("it can be made");
            std::fs::write(path, text).expect("it can be written");
        };
        write(
            PAGE,
            "cargo add --path ../colex/gpu\ncargo add --path ../colex/nowhere\n",
        );
        write(PROGRAM, "use colex_gpu::Device;\nuse colex_atom::Arch;\n");
        write("gpu/Cargo.toml", "[package]\nname = \"colex-gpu\"\n");
        write(
            "Cargo.toml",
            "[profile.dev.package.colex-sim]\nopt-level = 2\n",
        );
        let lines = "[profile.dev.package.\"*\"]\nopt-level = 2\n";
        write("README.md", lines);
        write("gpu/README.md", &lines.replace('2', "1"));
        write("examples/ndarray/Cargo.toml", lines);
        write("gpu/sim/src/machine/mod.rs", lines);
        let mut complaints = Vec::new();
        check(&root, &mut complaints).expect("both can be read");
        std::fs::remove_dir_all(&root).expect("it was just made");
        assert_eq!(
            complaints,
            [
                "book/chapters/run.md: there is no `nowhere` in a clone",
                "book/chapters/run.md: no `cargo add` names colex-atom, which book/examples/run.rs imports",
                "gpu/README.md: the profile of dependencies is not `opt-level = 2`",
                "book/chapters/run.md: the profile of dependencies is not `opt-level = 2`"
            ]
        );
    }
}
