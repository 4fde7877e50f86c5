//! The built pages in a headless browser: every page at the width of a phone and of a desk, and in every theme.
//!
//! A server of this process gives the browser the book and a page of its own, `pages.html`, which opens each page of the
//! book in a frame, measures it (`check.js`) and posts what it found. That needs no protocol of the browser's, and all
//! pages have one origin. The browser resolves no other name than this server's.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value as Json;
use tiny_http::{Header, Method, Request, Response, Server};

use super::{BookReport, pages, serve};
use crate::workspace::counted;

/// The names under which a browser is looked for.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// How long a browser may be silent: it sends a page every half second. One that hangs is started again, on the pages that
/// are left.
const SILENCE: Duration = Duration::from_secs(40);

/// How many browsers may hang.
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

/// What the browser found.
#[derive(Default)]
struct Found {
    pages: usize,
    texts: u64,
    formulas: u64,
    figures: u64,
    /// Copy buttons of programs.
    copies: u64,
    /// The lowest contrast of a text, and the smallest scale of a drawing.
    lowest: f64,
    smallest: f64,
    complaints: Vec<String>,
}

/// Shows every page of the book in `folder` to the browser `program`; `at` is told each page that was looked at. Returns
/// nothing for a browser that opens no page at all on this machine.
///
/// # Errors
///
/// Returns an error if the browser does not start, ends early, or hangs three times.
pub(crate) fn check(
    program: &Path,
    folder: &Path,
    mut at: impl FnMut(&str),
) -> Result<Option<BookReport>> {
    let mut left = pages::names(folder)?;
    let mut found = Found::new();
    for _ in 0..STARTS {
        look(program, folder, &mut left, |page| {
            at(page["page"].as_str().unwrap_or_default());
            found.add(page);
        })?;
        if left.is_empty() {
            return Ok(Some(found.report()));
        }
    }
    if found.pages == 0 {
        return Ok(None);
    }
    bail!(
        "{} hung {STARTS} times, and has not seen {}",
        program.display(),
        counted(left.len(), "page")
    )
}

/// Shows the pages that are `left` to a browser, until it has seen them or is silent; takes those that it has seen away.
fn look(
    program: &Path,
    folder: &Path,
    left: &mut Vec<String>,
    mut seen: impl FnMut(&Json),
) -> Result<()> {
    let server = Server::http("127.0.0.1:0")
        .map_err(|error| anyhow!("no port of localhost is free: {error}"))?;
    let address = server
        .server_addr()
        .to_ip()
        .context("the server has an address")?;
    let mut browser = Browser::start(program, &format!("http://{address}/-pages.html"))?;
    let (asked, mut heard) = (left.clone(), Instant::now());
    while !left.is_empty() && heard.elapsed() < SILENCE {
        if let Some(status) = browser.child.try_wait()? {
            bail!(
                "{} ended before it had seen every page: {status}",
                program.display()
            );
        }
        let Some(mut request) = server.recv_timeout(Duration::from_millis(200))? else {
            continue;
        };
        if (request.method(), request.url()) != (&Method::Post, "/-found") {
            answer(request, folder, &asked);
            continue;
        }
        let page: Json = serde_json::from_reader(request.as_reader())?;
        // A browser that does not wait for the answer ends, which is seen above.
        let _ = request.respond(Response::empty(204));
        let before = left.len();
        left.retain(|name| page["page"] != **name);
        if left.len() < before {
            heard = Instant::now();
            seen(&page);
        }
    }
    Ok(())
}

/// Gives the browser a file of the book, or of this check.
fn answer(request: Request, folder: &Path, names: &[String]) {
    let text = |text: &str, kind: &str| {
        let kind = Header::from_bytes("Content-Type", kind).expect("the content types are ASCII");
        Response::from_string(text).with_header(kind)
    };
    // A browser that has left the page before its file arrived is no error.
    let _ = match request.url() {
        "/-pages.html" => {
            request.respond(text(include_str!("pages.html"), "text/html; charset=utf-8"))
        }
        "/-check.js" => request.respond(text(
            include_str!("check.js"),
            "text/javascript; charset=utf-8",
        )),
        "/-drive.js" => request.respond(text(
            include_str!("drive.js"),
            "text/javascript; charset=utf-8",
        )),
        "/-pages" => request.respond(text(&Json::from(names).to_string(), "application/json")),
        _ => serve::answer(request, folder),
    };
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

    fn report(self) -> BookReport {
        // A check that finds nothing to measure has lost its pages, not its mistakes.
        let measured = [self.texts, self.formulas, self.figures, self.copies]
            .iter()
            .all(|count| *count > 0);
        let covered = format!(
            "{} in 2 widths and 5 themes: contrast of {} texts from {:.2}, {} formulas, {} figures from {:.2} of their size, {} programs copied",
            counted(self.pages, "page"),
            self.texts,
            self.lowest,
            self.formulas,
            self.figures,
            self.smallest,
            self.copies
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
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let profile = env::temp_dir().join(format!(
            "colex-browser-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir_all(&profile)
            .with_context(|| format!("{} cannot be made", profile.display()))?;
        let mut command = Command::new(program);
        // Pages of our own need no sandbox, which containers do not have. With a port for tools the browser stays open.
        command
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args([
                "--no-first-run",
                "--disable-extensions",
                "--disable-background-networking",
                "--disable-sync",
            ])
            .args(["--window-size=1400,1000", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(url);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Ok(Browser { child, profile }),
            Err(error) => {
                let _ = fs::remove_dir_all(&profile);
                Err(error).with_context(|| format!("{} cannot be started", program.display()))
            }
        }
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
