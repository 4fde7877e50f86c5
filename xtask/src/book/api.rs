//! The documentation of the library beside the book: what `cargo doc` has built is copied into `api`, and every chapter
//! ends with links to the items that its code imports.

use std::collections::{BTreeMap, BTreeSet};
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

/// Which page of an item is meant by its name, where a crate has several.
const KINDS: &str = "struct enum trait type macro fn constant attr derive";

/// The items of the documentation in a folder.
pub(super) struct Api {
    folder: PathBuf,
    /// By crate and name: the page.
    items: BTreeMap<(String, String), String>,
}

impl Api {
    /// Reads the lists of items that rustdoc wrote into `folder`; nothing where it has not run.
    pub(super) fn read(folder: &Path) -> Result<Option<Api>> {
        let mut items = BTreeMap::new();
        for name in CRATES.split(' ') {
            let list = folder.join(name).join("all.html");
            if !list.is_file() {
                return Ok(None);
            }
            let mut pages = pages(&workspace::read(&list)?);
            // Of pages with one name, the kind that comes first in `KINDS` and the shortest path stay.
            pages.sort_by_key(|(kind, _, page)| (*kind, page.len()));
            for (_, item, page) in pages {
                items
                    .entry((name.to_string(), item))
                    .or_insert(format!("{name}/{page}"));
            }
        }
        Ok(Some(Api {
            folder: folder.to_path_buf(),
            items,
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

    /// The page of an item of a crate, or, where it comes from another one, of the crate that has it.
    fn page(&self, of: &str, item: &str) -> Option<&str> {
        let key = |name: &str| (name.to_string(), item.to_string());
        let others = CRATES
            .split(' ')
            .filter_map(|name| self.items.get(&key(name)));
        self.items
            .get(&key(of))
            .or_else(|| others.min_by_key(|page| page.len()))
            .map(String::as_str)
    }

    /// Links to the items that `code` imports, as one paragraph of HTML; `up` leads to the root of the book.
    fn links(&self, code: &str, up: &str) -> Option<String> {
        let mut seen = BTreeSet::new();
        let links: Vec<String> = imports(code)
            .into_iter()
            .filter(|import| seen.insert(import.clone()))
            .filter_map(|(name, item)| {
                let page = self.page(&name, &item)?;
                Some(format!(
                    "<a href=\"{up}api/{page}\"><code>{item}</code></a>"
                ))
            })
            .collect();
        (!links.is_empty()).then(|| format!("<p>In the documentation: {}.</p>", links.join(", ")))
    }
}

/// The foot of the chapter `file` with this text: links to the documentation, where there is one, and where the page and
/// its program are in the repository.
pub(super) fn foot(api: Option<&Api>, root: &Path, file: &str, text: &str) -> String {
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
    let links =
        api.and_then(|api| api.links(&format!("{text}\n{}", code.as_deref().unwrap_or("")), &up));
    let program = code.map_or(String::new(), |_| {
        format!(", and its program is {}", place(&program))
    });
    let page = place(&format!("book/chapters/{file}"));
    format!(
        "\n\n<footer class=\"chapter-foot\">{}<p>In the repository this page is {page}{program}.</p></footer>\n",
        links.unwrap_or_default()
    )
}

/// The `repository` of the workspace's packages.
fn repository(manifest: &str) -> Option<String> {
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix("repository = \""))?;
    line.strip_suffix('"')
        .map(|url| url.trim_end_matches('/').to_string())
}

/// The pages that a list of rustdoc's names: the place of the kind in `KINDS`, the item, the page.
fn pages(list: &str) -> Vec<(usize, String, String)> {
    let hrefs = list
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    hrefs
        .filter_map(|href| {
            let file = href.rsplit('/').next()?;
            let (kind, rest) = file.split_once('.')?;
            let kind = KINDS.split(' ').position(|known| known == kind)?;
            Some((
                kind,
                rest.strip_suffix(".html")?.to_string(),
                href.to_string(),
            ))
        })
        .collect()
}

/// What the code imports from the library: crate and item, in order.
fn imports(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rest in code.split("use colex_").skip(1) {
        let Some((name, path)) = rest
            .split_once(';')
            .and_then(|(path, _)| path.split_once("::"))
        else {
            continue;
        };
        // An item is a name that no `::` follows; what comes after `as` is the program's own.
        let mut words = path.replace('{', " ").replace(['}', ','], " , ");
        words = words.replace("::", ":: ");
        let words: Vec<&str> = words.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            let is_renamed = at > 0 && words[at - 1] == "as";
            let is_name = word.chars().all(|c| c.is_alphanumeric() || c == '_')
                && *word != "as"
                && *word != "self";
            if is_name && !is_renamed {
                found.push((format!("colex_{name}"), word.to_string()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_items_of_crates() {
        let code = "use colex_gpu::{Device, ir::{Access, Kernel as K}};\nuse colex_layout::layout;\nuse std::fs;\n# use colex_sched::pipeline::check;";
        let found: Vec<String> = imports(code)
            .into_iter()
            .map(|(name, item)| format!("{name} {item}"))
            .collect();
        assert_eq!(
            found,
            [
                "colex_gpu Device",
                "colex_gpu Access",
                "colex_gpu Kernel",
                "colex_layout layout",
                "colex_sched check"
            ]
        );
    }

    #[test]
    fn a_list_names_pages() {
        let list = "<a href=\"struct.A.html\">A</a><a href=\"ir/enum.B.html\">B</a><a href=\"index.html\">x</a>";
        assert_eq!(
            pages(list),
            [
                (0, "A".to_string(), "struct.A.html".to_string()),
                (1, "B".to_string(), "ir/enum.B.html".to_string())
            ]
        );
    }

    #[test]
    fn an_item_of_another_crate_is_found_there() {
        let item = |name: &str, item: &str, page: &str| {
            ((name.to_string(), item.to_string()), page.to_string())
        };
        let items = [
            item("colex_device", "Device", "colex_device/struct.Device.html"),
            item("colex_layout", "Layout", "colex_layout/struct.Layout.html"),
        ];
        let api = Api {
            folder: PathBuf::new(),
            items: items.into(),
        };
        assert_eq!(
            api.links(
                "use colex_gpu::{Device, Nothing};\nuse colex_gpu::Device;",
                "../"
            )
            .as_deref(),
            Some(
                "<p>In the documentation: <a href=\"../api/colex_device/struct.Device.html\"><code>Device</code></a>.</p>"
            )
        );
        assert_eq!(api.links("let x = 1;", ""), None);
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
