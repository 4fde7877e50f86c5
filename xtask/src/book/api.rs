//! The documentation of the library beside the book: what `cargo doc` has built is copied into `api`, and every chapter
//! ends with links to the items that its code imports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::workspace;

/// The crates that readers depend on, as rustdoc names their folders.
const CRATES: &str = "colex_layout colex_draw colex_atom colex_tiled colex_sched colex_ir colex_sim colex_tensor colex_device \
    colex_gpu";

/// What rustdoc puts beside the crates.
const SHARED: &str =
    "static.files search.index src trait.impl type.impl help.html settings.html src-files.js";

/// Which page of an item is meant by its name, where a module has several.
const KINDS: &str = "struct enum trait type macro fn constant attr derive";

/// The items of the documentation in a folder.
pub(super) struct Api {
    folder: PathBuf,
    names: Names,
}

/// What the names in the modules of the documentation lead to, by the module's folder and the name.
#[derive(Default)]
struct Names {
    /// The page of each item.
    items: BTreeMap<(String, String), String>,
    /// The folder of each module below the crate.
    modules: BTreeMap<(String, String), String>,
}

impl Names {
    /// Adds a page that has the address `page` below the folder of all crates: the item or the module that it describes.
    /// Of several items with one name in one module, such as a trait and its derive macro, the kind that comes first in
    /// `KINDS` stays.
    fn add(&mut self, page: &str, at: Option<(String, String)>) {
        let Some((folder, file)) = page.rsplit_once('/') else {
            return;
        };
        if file == "index.html" {
            let at = at.or_else(|| {
                let (parent, name) = folder.rsplit_once('/')?;
                Some((parent.to_string(), name.to_string()))
            });
            self.modules.extend(at.map(|at| (at, folder.to_string())));
        } else if let Some((kind, name)) = item(file) {
            let at = at.unwrap_or_else(|| (folder.to_string(), name.to_string()));
            let kept = self
                .items
                .get(&at)
                .and_then(|page| item(page.rsplit('/').next()?));
            if kept.is_none_or(|(kept, _)| kind < kept) {
                self.items.insert(at, page.to_string());
            }
        }
    }

    /// Adds what the page of the module in `folder` re-exports from elsewhere.
    fn add_exports(&mut self, folder: &str, page: &str) {
        for (name, href) in exports(page) {
            self.add(&joined(folder, &href), Some((folder.to_string(), name)));
        }
    }

    /// What a path such as `colex_ir::Access` names. A variant and an associated item have the page of their type.
    fn named<'a>(&'a self, path: &'a [String]) -> Option<Named<'a>> {
        let (first, rest) = path.split_first()?;
        let mut folder = first;
        for (at, name) in rest.iter().enumerate() {
            let key = (folder.clone(), name.clone());
            let module = self.modules.get(&key);
            match (self.items.get(&key), module) {
                (Some(page), _) if at + 1 == rest.len() => return Some(Named::Item(page, name)),
                (_, Some(module)) => folder = module,
                (Some(page), None) => return Some(Named::Item(page, name)),
                (None, None) => return None,
            }
        }
        Some(Named::Module)
    }
}

/// What the documentation has under a path.
#[derive(Debug, PartialEq)]
enum Named<'a> {
    /// The page of an item, and its name.
    Item(&'a str, &'a str),
    /// A module, to which a chapter has no link.
    Module,
}

impl Api {
    /// Reads the lists of items that rustdoc wrote into `folder`; nothing where it has not run.
    pub(super) fn read(folder: &Path) -> Result<Option<Api>> {
        let mut names = Names::default();
        for name in CRATES.split(' ') {
            let list = folder.join(name).join("all.html");
            if !list.is_file() {
                return Ok(None);
            }
            for href in hrefs(&workspace::read(&list)?) {
                names.add(&format!("{name}/{href}"), None);
            }
            for index in workspace::files(&folder.join(name), "index.html")? {
                let page = index
                    .strip_prefix(folder)
                    .context("a listed file lies in its folder")?;
                let page = page.to_string_lossy().replace('\\', "/");
                names.add(&page, None);
                let module = page.trim_end_matches("/index.html");
                names.add_exports(module, &workspace::read(&index)?);
            }
        }
        Ok(Some(Api {
            folder: folder.to_path_buf(),
            names,
        }))
    }

    /// Copies the documentation to `to`.
    pub(super) fn copy(&self, to: &Path) -> Result<()> {
        for name in CRATES.split(' ').chain(SHARED.split(' ')) {
            let from = self.folder.join(name);
            let files = if from.is_dir() {
                workspace::files(&from, "")?
            } else {
                vec![from]
            };
            for file in files.iter().filter(|file| file.is_file()) {
                let target = to.join(
                    file.strip_prefix(&self.folder)
                        .context("a listed file lies in its folder")?,
                );
                fs::create_dir_all(target.parent().unwrap_or(to))?;
                fs::copy(file, &target)
                    .with_context(|| format!("{} cannot be copied", file.display()))?;
            }
        }
        Ok(())
    }

    /// Links to the items that `code` imports, as one paragraph of HTML; `up` leads to the root of the book.
    ///
    /// # Errors
    ///
    /// Returns an error if the documentation does not have a name that the code imports: a guess by the name alone would
    /// lead to an item of another crate.
    fn links(&self, code: &str, up: &str) -> Result<Option<String>, String> {
        let mut links: Vec<String> = Vec::new();
        for path in imports(code) {
            if !path
                .first()
                .is_some_and(|name| CRATES.split(' ').any(|one| one == name))
            {
                continue;
            }
            let named = self.names.named(&path).ok_or_else(|| {
                format!(
                    "its code imports `{}`, which the documentation does not have: \
                     without `target/doc`, `cargo xtask verify --only rustdoc` builds it anew",
                    path.join("::")
                )
            })?;
            if let Named::Item(page, item) = named {
                let link = format!("<a href=\"{up}api/{page}\"><code>{item}</code></a>");
                if !links.contains(&link) {
                    links.push(link);
                }
            }
        }
        Ok((!links.is_empty())
            .then(|| format!("<p>In the documentation: {}.</p>", links.join(", "))))
    }
}

/// The foot of the chapter `file` with this text: links to the documentation, where there is one, and where the page and
/// its program are in the repository.
///
/// # Errors
///
/// Returns an error if the chapter's code imports a name that the documentation does not have.
pub(super) fn foot(
    api: Option<&Api>,
    root: &Path,
    file: &str,
    text: &str,
) -> Result<String, String> {
    let up = "../".repeat(file.matches('/').count());
    let program = format!("book/examples/{}.rs", file.trim_end_matches(".md"));
    let code = fs::read_to_string(root.join(&program));
    let repository = fs::read_to_string(root.join("Cargo.toml"))
        .ok()
        .and_then(|text| repository(&text));
    let place = |path: &str| match &repository {
        Some(url) => format!("<a href=\"{url}/blob/main/{path}\"><code>{path}</code></a>"),
        None => format!("<code>{path}</code>"),
    };
    let all = format!("{text}\n{}", code.as_deref().unwrap_or(""));
    let links = api.map_or(Ok(None), |api| api.links(&all, &up))?;
    let program = code.map_or(String::new(), |_| {
        format!(", and its program is {}", place(&program))
    });
    let page = place(&format!("book/chapters/{file}"));
    Ok(format!(
        "\n\n<footer class=\"chapter-foot\">{}<p>In the repository this page is {page}{program}.</p></footer>\n",
        links.unwrap_or_default()
    ))
}

/// The `repository` of the workspace's packages.
fn repository(manifest: &str) -> Option<String> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = \""))?;
    line.strip_suffix('"')
        .map(|url| url.trim_end_matches('/').to_string())
}

/// The addresses that a page links to, in order.
fn hrefs(page: &str) -> impl Iterator<Item = &str> {
    page.split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// The place of the kind in `KINDS` and the name of the item that a file such as `struct.Layout.html` describes.
fn item(file: &str) -> Option<(usize, &str)> {
    let (kind, rest) = file.split_once('.')?;
    let kind = KINDS.split(' ').position(|known| known == kind)?;
    Some((kind, rest.strip_suffix(".html")?))
}

/// What the page of a module re-exports from elsewhere: each name, and the address of its page.
fn exports(page: &str) -> Vec<(String, String)> {
    let rows = page.split("id=\"reexport.").skip(1);
    let row = |row: &str| {
        let (id, rest) = row.split_once('"')?;
        let rest = rest.split("</dt>").next()?;
        // The second row of a name has the number 1 behind it. Of a path, the last name is what is exported.
        let name = id.split('-').next()?;
        Some((name.to_string(), hrefs(rest).last()?.to_string()))
    };
    rows.filter_map(row).collect()
}

/// The address that `href` has on a page in `folder`.
fn joined(folder: &str, href: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in href.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// What the code imports from the library, in order: the names of each path.
fn imports(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for rest in code.split("use colex_").skip(1) {
        let Some((tree, _)) = rest.split_once(';') else {
            continue;
        };
        // A line of an example in the documentation may begin with `#`. Other characters are not those of a path.
        let tree = tree.replace('#', " ");
        let is_path = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_:{},*".contains(c);
        if tree.chars().all(is_path) {
            add_imports(&format!("colex_{tree}"), &[], &mut found);
        }
    }
    found
}

/// Adds the paths of a tree such as `ir::{Access, Kernel as K}` behind a path. What comes after `as` is the program's own.
fn add_imports(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (path, inner) = match tree.split_once('{') {
        Some((path, inner)) => (path, inner.rsplit_once('}').map(|(inner, _)| inner)),
        None => (tree, None),
    };
    let path = path.split(" as ").next().unwrap_or(path);
    let names = path.split("::").map(str::trim);
    let names = names.filter(|name| !name.is_empty() && *name != "self" && *name != "*");
    let path: Vec<String> = before
        .iter()
        .cloned()
        .chain(names.map(String::from))
        .collect();
    let Some(inner) = inner else {
        if path.len() > before.len() {
            found.push(path);
        }
        return;
    };
    let mut depth = 0;
    let branches = inner.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for branch in branches {
        add_imports(branch, &path, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_paths_of_items() {
        let code = "use colex_gpu::{Device, ir::{Access, Kernel as K, launch::{self, Limits}}};\nuse colex_layout::layout;\n\
            use std::fs;\n# use colex_sched::pipeline::check;\nuse colex_tensor::prelude::*;\nTo use colex_gpu, write `x`;";
        let found: Vec<String> = imports(code)
            .into_iter()
            .map(|path| path.join(" "))
            .collect();
        assert_eq!(
            found,
            [
                "colex_gpu Device",
                "colex_gpu ir Access",
                "colex_gpu ir Kernel",
                "colex_gpu ir launch Limits",
                "colex_layout layout",
                "colex_sched pipeline check",
                "colex_tensor prelude",
            ]
        );
    }

    #[test]
    fn a_module_names_what_it_exports() {
        let page = "<dt id=\"reexport.gemm\"><code>pub use crate::<a class=\"mod\" href=\"../gemm/index.html\">gemm</a>;</code>\
            </dt><dt id=\"reexport.gemm-1\"><code>pub use crate::<a href=\"../gemm/index.html\">gemm</a>::\
            <a class=\"fn\" href=\"../gemm/fn.gemm.html\">gemm</a>;</code></dt><dt id=\"reexport.x\"><code>pub use a::x;</code></dt>\
            <a href=\"#functions\">";
        let found = exports(page);
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        assert_eq!(
            found,
            [
                ("gemm", "../gemm/index.html"),
                ("gemm", "../gemm/fn.gemm.html")
            ]
        );
        assert_eq!(
            joined("colex_gpu/kernels", "../gemm/fn.gemm.html"),
            "colex_gpu/gemm/fn.gemm.html"
        );
    }

    /// The names of three crates, two of which have an `Access`.
    fn api() -> Api {
        let mut names = Names::default();
        for page in [
            "colex_ir/index.html",
            "colex_ir/struct.Access.html",
            "colex_ir/enum.Memory.html",
            "colex_ir/enum.BinaryOp.html",
            "colex_ir/launch/index.html",
            "colex_ir/launch/struct.Launch.html",
            "colex_gpu/index.html",
            "colex_gpu/derive.Element.html",
            "colex_gpu/trait.Element.html",
            "colex_gpu/elementwise/index.html",
            "colex_gpu/elementwise/enum.Access.html",
            "colex_gpu/elementwise/fn.gather.html",
            "colex_sim/index.html",
            "colex_sim/struct.Memory.html",
        ] {
            names.add(page, None);
        }
        let exports = ["ir", "sim"].map(|name| {
            format!("<dt id=\"reexport.{name}\"><a class=\"mod\" href=\"../colex_{name}/index.html\"></a></dt>")
        });
        let gather = "<dt id=\"reexport.gather\"><a class=\"fn\" href=\"elementwise/fn.gather.html\"></a></dt>";
        names.add_exports("colex_gpu", &(exports.concat() + gather));
        Api {
            folder: PathBuf::new(),
            names,
        }
    }

    fn linked(code: &str) -> Result<Vec<String>, String> {
        let links = api().links(code, "")?.unwrap_or_default();
        Ok(hrefs(&links).map(String::from).collect())
    }

    #[test]
    fn a_name_that_two_crates_have_is_that_of_the_path() {
        let of = |code: &str| linked(code).expect("the documentation has the names");
        assert_eq!(
            of("use colex_gpu::ir::{Access, BinaryOp::Add};"),
            [
                "api/colex_ir/struct.Access.html",
                "api/colex_ir/enum.BinaryOp.html"
            ]
        );
        assert_eq!(
            of("use colex_gpu::elementwise::Access;\nuse colex_gpu::{gather, Element};"),
            [
                "api/colex_gpu/elementwise/enum.Access.html",
                "api/colex_gpu/elementwise/fn.gather.html",
                "api/colex_gpu/trait.Element.html"
            ]
        );
        assert_eq!(
            of("use colex_gpu::sim::Memory;\nuse colex_gpu::ir::launch::{self, Launch};"),
            [
                "api/colex_sim/struct.Memory.html",
                "api/colex_ir/launch/struct.Launch.html"
            ]
        );
        // Modules, other crates and what is imported twice.
        let twice = "use colex_gpu::ir;\nuse colex_proof::sweep::Kind;\nuse colex_ir::Memory;\nuse colex_gpu::ir::Memory;";
        assert_eq!(of(twice), ["api/colex_ir/enum.Memory.html"]);
        assert_eq!(api().links("let x = 1;", "../"), Ok(None));
    }

    #[test]
    fn a_name_that_the_documentation_does_not_have_is_refused() {
        assert_eq!(
            linked("use colex_gpu::Access;"),
            Err(
                "its code imports `colex_gpu::Access`, which the documentation does not have: \
                 without `target/doc`, `cargo xtask verify --only rustdoc` builds it anew"
                    .to_string()
            )
        );
    }

    #[test]
    fn a_repository_with_an_address_is_linked() {
        assert_eq!(
            repository("[workspace.package]\nrepository = \"https://example.org/a/\"\n").as_deref(),
            Some("https://example.org/a")
        );
        assert_eq!(repository("[workspace.package]\n"), None);
    }
}
