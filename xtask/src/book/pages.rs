//! The built pages: how many there are, and that every link between them finds its page and its heading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::BookReport;
use crate::workspace::{self, counted};

/// Where the documentation of the library lies, whose pages are rustdoc's.
const API: &str = "api/";

/// Checks the pages in `folder`.
pub(super) fn check(folder: &Path) -> Result<BookReport> {
    let mut pages = BTreeMap::new();
    for path in workspace::files(folder, ".html")? {
        let name = workspace::shown(folder, &path);
        if name.starts_with(API) {
            continue;
        }
        pages.insert(name, Page::of(&workspace::read(&path)?));
    }
    let mut complaints = Vec::new();
    let (mut links, mut figures) = (0, 0);
    for (name, page) in &pages {
        let fetched = page.fetched.iter();
        complaints.extend(fetched.map(|what| format!("page {name}: {what}")));
    }
    for (name, page) in pages.iter().filter(|(name, _)| is_chapter(name)) {
        figures += page.figures;
        for link in &page.links {
            links += 1;
            if let Some(what) = complaint(folder, &pages, name, link) {
                complaints.push(format!("page {name}: the link `{link}` {what}"));
            }
        }
    }
    let count = pages.keys().filter(|name| is_chapter(name)).count();
    let bytes = size(folder)?;
    let counts = [
        counted(count, "page"),
        counted(figures, "figure"),
        counted(links, "link"),
    ];
    let covered = format!("{}, {:.1} MB", counts.join(", "), bytes as f64 / 1e6);
    Ok(BookReport {
        covered,
        count,
        complaints,
    })
}

/// The pages of the chapters in `folder`, as a browser names them.
pub(super) fn names(folder: &Path) -> Result<Vec<String>> {
    let paths = workspace::files(folder, ".html")?;
    let names = paths.iter().map(|path| workspace::shown(folder, path));
    Ok(names.filter(|name| is_chapter(name)).collect())
}

/// What a page offers and asks for.
struct Page {
    headings: BTreeSet<String>,
    links: Vec<String>,
    figures: usize,
    /// What the browser would fetch from a network.
    fetched: Vec<String>,
}

impl Page {
    fn of(html: &str) -> Page {
        let content = html
            .split("<main>")
            .nth(1)
            .and_then(|rest| rest.split("</main>").next())
            .unwrap_or("");
        Page {
            headings: attributes(html, " id=\"").map(str::to_string).collect(),
            links: attributes(content, " href=\"")
                .map(str::to_string)
                .collect(),
            figures: content.matches("<figure").count(),
            fetched: fetched(html),
        }
    }
}

/// What the tags of a page make a browser fetch from elsewhere.
fn fetched(html: &str) -> Vec<String> {
    let tags = html.split('<').filter_map(|rest| rest.split('>').next());
    tags.filter_map(fetched_by).collect()
}

/// What one tag makes a browser fetch; for a playground, mdBook's script asks a server.
fn fetched_by(tag: &str) -> Option<String> {
    if tag.contains(" class=\"playground\"") {
        return Some("a block with a playground asks a server when the page opens".to_string());
    }
    let start = if tag.starts_with("link ") {
        " href=\""
    } else {
        " src=\""
    };
    let at = attributes(tag, start).find(|at| at.contains("//") && !at.starts_with("data:"))?;
    Some(format!("it loads `{at}`: a page works without a network"))
}

/// The values of an attribute, in order.
fn attributes<'a>(html: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    html.split(start)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// `print.html` repeats every chapter, and `404.html` and the table of contents belong to mdBook.
fn is_chapter(name: &str) -> bool {
    !["print.html", "404.html", "toc.html", "index.html"].contains(&name) && !name.starts_with(API)
}

/// What is wrong with a link on the page `from`.
fn complaint(
    folder: &Path,
    pages: &BTreeMap<String, Page>,
    from: &str,
    link: &str,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() {
        Path::new(from).to_path_buf()
    } else {
        Path::new(from).with_file_name(file)
    };
    let target = normal(&target);
    let Some(page) = pages.get(&*target.to_string_lossy()) else {
        return (!folder.join(&target).exists()).then_some("leads to no page");
    };
    (!heading.is_empty() && !page.headings.contains(heading))
        .then_some("leads to no heading of its page")
}

/// `path` without `..`, as pages are named.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    let is_of_book = |path: &PathBuf| !workspace::shown(folder, path).starts_with(API);
    for path in workspace::files(folder, "")?.into_iter().filter(is_of_book) {
        bytes += fs::metadata(&path)
            .with_context(|| format!("{} cannot be read", path.display()))?
            .len();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> BTreeMap<String, Page> {
        let a = "<nav href=\"x\"><main><h1 id=\"law\">x</h1><a href=\"b.html#top\">b</a></main>";
        let b = "<main><h1 id=\"top\">y</h1></main>";
        [
            ("a.html".to_string(), Page::of(a)),
            ("b.html".to_string(), Page::of(b)),
        ]
        .into()
    }

    #[test]
    fn only_the_content_is_searched_for_links() {
        assert_eq!(pages()["a.html"].links, ["b.html#top"]);
    }

    #[test]
    fn nothing_comes_from_a_network() {
        let here = "<script src=\"book.js\"></script><a href=\"https://example.org\">x</a>";
        assert_eq!(Page::of(here).fetched, Vec::<String>::new());
        let remote = "<link rel=\"stylesheet\" href=\"https://example.org/x.css\">";
        assert_eq!(
            Page::of(remote).fetched,
            ["it loads `https://example.org/x.css`: a page works without a network"]
        );
        assert_eq!(
            Page::of("<img alt=\"\" src=\"//example.org/x.png\">")
                .fetched
                .len(),
            1
        );
        let block = "<pre><pre class=\"playground\"><code>x</code></pre></pre>";
        assert_eq!(
            Page::of(block).fetched,
            ["a block with a playground asks a server when the page opens"]
        );
    }

    #[test]
    fn links_find_their_page_and_heading() {
        let (pages, folder) = (pages(), Path::new("/nowhere"));
        assert_eq!(complaint(folder, &pages, "a.html", "b.html#top"), None);
        assert_eq!(complaint(folder, &pages, "a.html", "#law"), None);
        assert_eq!(
            complaint(folder, &pages, "a.html", "https://example.org"),
            None
        );
        assert_eq!(
            complaint(folder, &pages, "a.html", "c.html"),
            Some("leads to no page")
        );
        assert_eq!(
            complaint(folder, &pages, "a.html", "b.html#law"),
            Some("leads to no heading of its page")
        );
    }
}
