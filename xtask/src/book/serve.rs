//! `--serve`: the built book on this machine, and on no other.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, anyhow};
use tiny_http::{Header, Request, Response, Server};

/// Serves the files of `folder` on localhost until the process is interrupted.
pub(super) fn forever(folder: &Path, port: u16) -> Result<()> {
    let server = Server::http(("127.0.0.1", port)).map_err(|error| {
        anyhow!("port {port} of localhost cannot be used: {error}; choose another with --port")
    })?;
    println!("serving it at http://localhost:{port}/ until interrupted (Ctrl-C)");
    for request in server.incoming_requests() {
        // A reader that left the page before it arrived is no reason to stop serving.
        let _ = answer(request, folder);
    }
    Ok(())
}

/// Answers with the file of `folder` that the request names.
///
/// # Errors
///
/// Returns an error if the connection closes before the answer is sent.
pub(super) fn answer(request: Request, folder: &Path) -> io::Result<()> {
    let file = file(folder, request.url());
    match file.and_then(|file| Some((fs::read(&file).ok()?, file))) {
        Some((bytes, file)) => {
            request.respond(Response::from_data(bytes).with_header(content_type(&file)))
        }
        None => request.respond(Response::from_string("no such page").with_status_code(404)),
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

/// The header that tells the browser what `file` is.
fn content_type(file: &Path) -> Header {
    let value = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    };
    Header::from_bytes("Content-Type", value).expect("the content types are ASCII")
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
    }
}
