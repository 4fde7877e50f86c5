//! Drawings wait outside of the chapters while mdBook works on them: the numbers in their cells are not words, and would
//! fill a tenth of the search index.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The drawings of a book, by number; clones share them.
#[derive(Clone, Default)]
pub(super) struct Drawings(Arc<Mutex<Vec<String>>>);

impl Drawings {
    /// `figure` with a comment in place of its drawing, which is kept.
    pub(super) fn keep(&self, figure: &str) -> String {
        let Some((before, drawing, after)) = parts(figure) else {
            return figure.to_string();
        };
        let mut all = self.all();
        let number = all.len();
        all.push(named(drawing, number));
        format!("{before}{}{after}", comment(number))
    }

    /// A comment in place of `html`, which is kept.
    pub(super) fn keep_all(&self, html: &str) -> String {
        let mut all = self.all();
        all.push(html.to_string());
        comment(all.len() - 1)
    }

    /// Puts the drawings into the pages of `folder`, each where its comment stands.
    ///
    /// # Errors
    ///
    /// Returns an error if a page cannot be read or written, or if a drawing's comment is on no page.
    pub(super) fn put_back(&self, folder: &Path) -> Result<()> {
        let mut seen = vec![false; self.all().len()];
        for path in workspace::files(folder, ".html")? {
            let page = workspace::read(&path)?;
            fs::write(&path, self.drawn(&page, &mut seen))
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
        ensure!(!seen.contains(&false), "a drawing has no page");
        Ok(())
    }

    /// The page with its drawings: one walk along it, since the page for the printer has thousands.
    fn drawn(&self, page: &str, seen: &mut [bool]) -> String {
        let all = self.all();
        let mut pieces = page.split(BEFORE);
        let mut drawn = pieces.next().unwrap_or_default().to_string();
        for piece in pieces {
            let place = piece.split_once(AFTER).and_then(|(number, after)| {
                let number: usize = number.parse().ok()?;
                Some((number, all.get(number)?, after))
            });
            match place {
                Some((number, drawing, after)) => {
                    seen[number] = true;
                    drawn.push_str(drawing);
                    drawn.push_str(after);
                }
                None => {
                    drawn.push_str(BEFORE);
                    drawn.push_str(piece);
                }
            }
        }
        drawn
    }

    fn all(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no thread panics while it is locked")
    }
}

/// The drawing with the title and the description that it carries as its name to a screen reader. Their ids are those of
/// one drawing of the book: a page has several, and the page for the printer all.
fn named(drawing: &str, number: usize) -> String {
    let ids = ["title", "desc"].map(|part| format!("drawing-{number}-{part}"));
    let named = format!("role=\"img\" aria-labelledby=\"{} {}\"", ids[0], ids[1]);
    drawing
        .replacen("role=\"img\"", &named, 1)
        .replacen("<title>", &format!("<title id=\"{}\">", ids[0]), 1)
        .replacen("<desc>", &format!("<desc id=\"{}\">", ids[1]), 1)
}

/// What stands before and after a drawing's number in the comment in its place.
const BEFORE: &str = "<!--drawing ";
const AFTER: &str = "-->";

fn comment(number: usize) -> String {
    format!("{BEFORE}{number}{AFTER}")
}

/// What is before the drawing, the drawing, and what is after it.
fn parts(figure: &str) -> Option<(&str, &str, &str)> {
    let start = figure.find("<svg ")?;
    let end = start + figure[start..].rfind("</svg>")? + "</svg>".len();
    Some((&figure[..start], &figure[start..end], &figure[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_comes_back_to_its_place() {
        let drawings = Drawings::default();
        let first = "<figure><svg a><text>7</text></svg><figcaption>x</figcaption></figure>";
        let second = "<figure><svg b></svg></figure>";
        let kept = [first, second].map(|figure| drawings.clone().keep(figure));
        assert_eq!(
            kept[0],
            "<figure><!--drawing 0--><figcaption>x</figcaption></figure>"
        );
        let mut seen = [false, false];
        let page = drawings.drawn(&kept.join(" "), &mut seen);
        assert_eq!(page, format!("{first} {second}"));
        assert_eq!(seen, [true, true]);
        let none = "<!--drawing 2--> <!--drawing x--> <!--drawing 1";
        assert_eq!(drawings.drawn(none, &mut [false; 2]), none);
    }

    #[test]
    fn a_drawing_is_named_by_its_title_and_its_description() {
        let drawing = "<svg role=\"img\"><title>a</title><desc>b</desc></svg>";
        assert_eq!(
            named(drawing, 3),
            "<svg role=\"img\" aria-labelledby=\"drawing-3-title drawing-3-desc\">\
             <title id=\"drawing-3-title\">a</title><desc id=\"drawing-3-desc\">b</desc></svg>"
        );
    }

    #[test]
    fn a_drawing_without_a_page_is_noticed() {
        let drawings = Drawings::default();
        drawings.keep("<figure><svg a></svg></figure>");
        let mut seen = [false];
        assert_eq!(drawings.drawn("<main></main>", &mut seen), "<main></main>");
        assert_eq!(seen, [false]);
    }
}
