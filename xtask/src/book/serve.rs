//! `--serve`: the built book on this machine, and on no other.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, anyhow};

use super::server::{Response, Server};

/// Serves the files of `folder` on localhost until the process is interrupted.
pub(super) fn forever(folder: &Path, port: u16) -> Result<()> {
    let files = folder.to_path_buf();
    let server = Server::start(port, move |request| answer(&request.url, &files));
    let server = server.map_err(|error| {
        anyhow!("port {port} of localhost cannot be used: {error}; choose another with --port")
    })?;
    println!(
        "serving it at http://localhost:{}/ until interrupted (Ctrl-C)",
        server.address().port()
    );
    server.wait();
    Ok(())
}

/// The file of `folder` that `url` names.
pub(super) fn answer(url: &str, folder: &Path) -> Response {
    let file = file(folder, url);
    match file.and_then(|file| Some((fs::read(&file).ok()?, file))) {
        Some((bytes, file)) => Response::ok(content_type(&file), bytes),
        None => Response {
            status: "404 Not Found",
            ..Response::ok("text/plain", "no such page")
        },
    }
}

/// The file that `url` names, if it lies inside `folder`.
fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let path = url
        .split(['?', '#'])
        .next()
        .unwrap_or("")
        .trim_start_matches('/');
    let is_inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let file = folder.join(path);
    is_inside.then(|| {
        if file.is_dir() {
            file.join("index.html")
        } else {
            file
        }
    })
}

/// What tells the browser what `file` is.
fn content_type(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_inside_the_book() {
        let folder = Path::new("/nowhere/book");
        assert_eq!(
            file(folder, "/a.html?x#y"),
            Some("/nowhere/book/a.html".into())
        );
        assert_eq!(file(folder, "/../secret"), None);
        assert_eq!(
            file(folder, "//etc/passwd"),
            Some("/nowhere/book/etc/passwd".into())
        );
        assert_eq!(answer("/a.html", folder).status, "404 Not Found");
    }
}
