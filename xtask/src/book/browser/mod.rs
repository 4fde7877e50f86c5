//! The built pages in a headless browser: every page at the width of a phone and of a desk, and in every theme.
//!
//! A server of this process gives the browser the book and a page of its own, `pages.html`, which opens each page of the
//! book in a frame, measures it (`check.js`) and posts what it found. That needs no protocol of the browser's, and all
//! pages have one origin. The browser resolves no name.

mod files;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{env, io};

use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};

use super::server::{Request, Response, Server};
use super::{BookReport, pages, serve};
use crate::workspace::{self, counted};

/// The names under which a browser is looked for.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// How long a browser may be silent: it sends a page every half second, and on a slow, shared machine the largest pages take most of
/// a minute. One that hangs is started again, on the pages that are left.
const SILENCE: Duration = Duration::from_secs(90);

/// How many browsers are started before the check fails.
const STARTS: usize = 3;

/// Where the browser is: what the variable `BROWSER_FOR_CHECKS` names, or one of the usual names in `PATH`.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(path) = env::var_os("BROWSER_FOR_CHECKS") {
        return Some(path.into());
    }
    let folders = env::var_os("PATH")?;
    let folders: Vec<PathBuf> = env::split_paths(&folders).collect();
    let files = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// Where axe-core is: what the variable `AXE_CORE` names, or where `.ci/run` puts it in the target folder.
fn find_axe(root: &Path) -> Option<PathBuf> {
    if let Some(path) = env::var_os("AXE_CORE") {
        return Some(path.into());
    }
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let file = root
        .join(target.unwrap_or_else(|| "target".into()))
        .join("axe/node_modules/axe-core/axe.min.js");
    file.is_file().then_some(file)
}

/// The file of a profile that has what the browser writes.
const WRITTEN: &str = "stderr.txt";

/// What the browser found.
#[derive(Default)]
struct Found {
    pages: usize,
    texts: u64,
    formulas: u64,
    figures: u64,
    /// Copy buttons of programs.
    copies: u64,
    /// What was compared in the explorer's panels, and the rows of the instruction tables that were opened there.
    explored: u64,
    rows: u64,
    /// The figures of chapters that gave way to their panel.
    live: u64,
    /// How often axe-core looked at a panel, and the most rules that it tried on one.
    axe: u64,
    axe_rules: u64,
    /// What takes how long: a name, and the median, the least and the largest of its times in milliseconds.
    times: Vec<(String, [f64; 3])>,
    /// The lowest contrast of a text, and the smallest scale of a drawing.
    lowest: f64,
    smallest: f64,
    complaints: Vec<String>,
}

/// Shows every page of the book in `folder` to the browser `program`; `at` is told each page that was looked at, and each
/// browser that hung.
///
/// # Errors
///
/// Returns an error if the browser does not start, or if three hang or end early, with what the last one wrote.
pub(crate) fn check(program: &Path, folder: &Path, mut at: impl FnMut(&str)) -> Result<BookReport> {
    let mut left = pages::names(folder)?;
    let mut found = Found::new();
    let axe = find_axe(&workspace::root()?);
    if has_module(folder) {
        let (compared, complaints) = files::check(program, folder)?;
        found.explored += compared as u64;
        found.complaints.extend(complaints);
    }
    let mut stops = Vec::new();
    while stops.len() < STARTS {
        let stop = look(program, folder, axe.as_deref(), &mut left, |page| {
            at(page["page"].as_str().unwrap_or_default());
            found.add(page);
        })?;
        let Some(stop) = stop else {
            return Ok(found.report(&stops));
        };
        at(first_line(&stop));
        stops.push(stop);
    }
    bail!(
        "{} was started {STARTS} times and has not seen {}:\n{}",
        program.display(),
        counted(left.len(), "page"),
        stops.join("\n")
    )
}

/// Shows the pages that are `left` to a browser and takes those that it has seen away. Returns why it stopped before the
/// last, if it did.
fn look(
    program: &Path,
    folder: &Path,
    axe: Option<&Path>,
    left: &mut Vec<String>,
    mut seen: impl FnMut(&Json),
) -> Result<Option<String>> {
    let (sender, heard) = mpsc::channel();
    let files = Files {
        folder: folder.to_path_buf(),
        names: left.clone(),
        axe: axe.map(Path::to_path_buf),
    };
    let server = Server::start(0, move |request| answer(request, &files, &sender))
        .context("no port of localhost is free")?;
    let mut browser = Browser::start(program, &format!("http://{}/-pages.html", server.address()))?;
    let (mut last, mut at) = (Instant::now(), "no request".to_string());
    while !left.is_empty() {
        if let Some(status) = browser.child.try_wait()? {
            return Ok(Some(browser.stopped(&format!("ended with {status}"), &at)));
        }
        if last.elapsed() > SILENCE {
            let what = format!("was silent for {} seconds", SILENCE.as_secs());
            return Ok(Some(browser.stopped(&what, &at)));
        }
        match heard.recv_timeout(Duration::from_millis(200)) {
            Ok(Heard::Request(url)) => at = url,
            Ok(Heard::Asked) => last = Instant::now(),
            Ok(Heard::Page(page)) => {
                let before = left.len();
                left.retain(|name| page["page"] != **name);
                if left.len() < before {
                    last = Instant::now();
                    seen(&page);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the server of the pages has ended"),
        }
    }
    Ok(None)
}

/// What the server hears of the browser.
enum Heard {
    /// It asked for a file.
    Request(String),
    /// It asked what the explorer's page shows, and is not silent.
    Asked,
    /// It found this on a page.
    Page(Json),
}

/// What the browser is given.
struct Files {
    /// The book.
    folder: PathBuf,
    /// The pages to look at.
    names: Vec<String>,
    axe: Option<PathBuf>,
}

/// Whether the book was built with the explorer's module.
fn has_module(folder: &Path) -> bool {
    folder.join("explorer/wasm.js").is_file()
}

/// What the browser gets: a file of the book, or of this check. What it found on a page goes to `heard`.
fn answer(request: Request, files: &Files, heard: &Sender<Heard>) -> Response {
    let script = |text: &str| Response::ok("text/javascript; charset=utf-8", text);
    let (response, heard_of) = match (request.method.as_str(), request.url.as_str()) {
        ("POST", "/-found") => {
            // What is no JSON is of no page, which stays among those that are left.
            let page = serde_json::from_slice(&request.body).unwrap_or_default();
            (Response::ok("text/plain", ""), Heard::Page(page))
        }
        // What the crates answer to what the explorer's page was asked.
        ("POST", "/-answer") => {
            let asked = String::from_utf8_lossy(&request.body);
            let answer = colex_explorer::answer(&asked);
            (Response::ok("application/json", answer), Heard::Asked)
        }
        (_, url) => {
            let response = match url {
                "/-pages.html" => {
                    Response::ok("text/html; charset=utf-8", include_str!("pages.html"))
                }
                "/-check.js" => script(include_str!("check.js")),
                "/-drive.js" => script(include_str!("drive.js")),
                "/-live.js" => script(include_str!("live.js")),
                "/-explorer.js" => script(include_str!("explorer.js")),
                "/-measure.js" => script(include_str!("measure.js")),
                "/-axe.js" => script(include_str!("axe.js")),
                "/-axe-core.js" => {
                    let text = files.axe.as_deref().map(workspace::read);
                    script(&text.and_then(Result::ok).unwrap_or_default())
                }
                "/-pages" => {
                    let module = has_module(&files.folder);
                    let axe = files.axe.is_some();
                    let offered = json!({ "pages": files.names, "module": module, "axe": axe });
                    Response::ok("application/json", offered.to_string())
                }
                url => serve::answer(url, &files.folder),
            };
            (response, Heard::Request(request.url))
        }
    };
    // When all pages were seen, no one listens.
    let _ = heard.send(heard_of);
    response
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

impl Found {
    fn new() -> Found {
        Found {
            lowest: f64::INFINITY,
            smallest: f64::INFINITY,
            ..Found::default()
        }
    }

    fn add(&mut self, page: &Json) {
        let count = |key: &str| page[key].as_u64().unwrap_or(0);
        let name = page["page"].as_str().unwrap_or_default();
        self.pages += 1;
        self.texts += count("texts");
        self.formulas += count("formulas");
        self.figures += count("figures");
        self.copies += count("copies");
        self.explored += count("explored");
        self.rows += count("rows");
        self.live += count("live");
        self.axe += count("axe");
        self.axe_rules = self.axe_rules.max(count("axeRules"));
        for (name, times) in page["times"].as_object().into_iter().flatten() {
            let time = |at: usize| times[at].as_f64().unwrap_or(f64::INFINITY);
            self.times.push((name.clone(), [0, 1, 2].map(time)));
        }
        self.lowest = self
            .lowest
            .min(page["lowest"].as_f64().unwrap_or(f64::INFINITY));
        self.smallest = self
            .smallest
            .min(page["smallest"].as_f64().unwrap_or(f64::INFINITY));
        let complaints = page["complaints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str);
        self.complaints
            .extend(complaints.map(|what| format!("page {name}: {what}")));
    }

    /// The times as a phrase.
    fn measured(&self) -> String {
        let times = self.times.iter().map(|(name, [median, least, largest])| {
            format!("{name} {median:.1} ms ({least:.1} to {largest:.1})")
        });
        times.collect::<Vec<_>>().join(", ")
    }

    /// What was found, after the browsers that `stops` tells of.
    fn report(self, stops: &[String]) -> BookReport {
        // A check that finds nothing to measure has lost its pages, not its mistakes.
        let measured = [self.texts, self.formulas, self.figures, self.copies]
            .iter()
            .all(|count| *count > 0);
        let explorer = match self.explored {
            0 => "the explorer without its module".to_string(),
            _ => format!(
                "{} in the explorer's panels with {} of instructions opened and {} touched, {}, {}",
                counted(self.explored as usize, "comparison"),
                counted(self.rows as usize, "row"),
                counted(self.live as usize, "figure"),
                self.measured(),
                match self.axe {
                    0 => "axe-core not found (npm install axe-core@4.10.3; AXE_CORE)".to_string(),
                    looks => format!("axe-core in {looks} views with {} rules", self.axe_rules),
                }
            ),
        };
        let again = stops.iter().map(|stop| format!("; {}", first_line(stop)));
        let covered = format!(
            "{} in 2 widths and 5 themes: contrast of {} texts from {:.2}, {} formulas, {} figures from {:.2} of their size, {} programs copied, {explorer}{}",
            counted(self.pages, "page"),
            self.texts,
            self.lowest,
            self.formulas,
            self.figures,
            self.smallest,
            self.copies,
            again.collect::<String>()
        );
        BookReport {
            covered,
            count: if measured { self.pages } else { 0 },
            complaints: self.complaints,
        }
    }
}

/// A running browser with a profile of its own; both end with this value.
struct Browser {
    child: Child,
    profile: PathBuf,
}

impl Browser {
    fn start(program: &Path, url: &str) -> Result<Browser> {
        let profile = Browser::profile()?;
        let started = Browser::options(program, &profile).and_then(|mut it| {
            // With a port for tools the browser stays open.
            it.arg("--remote-debugging-port=0").arg(url).spawn()
        });
        match started {
            Ok(child) => Ok(Browser { child, profile }),
            Err(error) => {
                let _ = fs::remove_dir_all(&profile);
                Err(error).with_context(|| format!("{} cannot be started", program.display()))
            }
        }
    }

    /// A new folder for a profile.
    fn profile() -> Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let profile = env::temp_dir().join(format!(
            "colex-browser-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir_all(&profile)
            .with_context(|| format!("{} cannot be made", profile.display()))?;
        Ok(profile)
    }

    fn options(program: &Path, profile: &Path) -> io::Result<Command> {
        let mut command = Command::new(program);
        // Pages of our own need no sandbox, which containers do not have.
        command
            .args(["--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--no-first-run", "--disable-extensions", "--disable-sync"])
            .args(["--disable-background-networking", "--no-proxy-server"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg("--window-size=1400,1000")
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // A file takes all that is written; a pipe that is not read would fill up.
            .stderr(File::create(profile.join(WRITTEN))?);
        Ok(command)
    }

    /// That it stopped, where, and what it wrote last.
    fn stopped(&self, what: &str, at: &str) -> String {
        let written = workspace::read(&self.profile.join(WRITTEN)).unwrap_or_default();
        let lines: Vec<&str> = written.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        format!(
            "a browser {what} after `{at}`\nIt wrote:\n{}",
            last.join("\n")
        )
    }

    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        fs::remove_dir_all(&self.profile)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The system clears its folder for temporary files.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_ends_early_is_started_again_and_then_named() {
        let folder = env::temp_dir().join(format!("colex-pages-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        fs::write(folder.join("a.html"), "<main></main>").expect("it can be written");
        let mut at = Vec::new();
        // It is no browser: it refuses its options.
        let error = check(Path::new("ls"), &folder, |stop| at.push(stop.to_string()));
        fs::remove_dir_all(&folder).expect("it was made");
        let text = error.map(|report| report.covered).unwrap_err().to_string();
        assert!(
            text.starts_with("ls was started 3 times and has not seen 1 page:\na browser ended with exit status: "),
            "{text}"
        );
        assert!(
            text.contains(" after `no request`\nIt wrote:\nls: "),
            "{text}"
        );
        assert_eq!(at.len(), 3);
    }
}
