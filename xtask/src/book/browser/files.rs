//! The explorer's page opened from `file://`, without a server and a network.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value as Json, json};

use super::Browser;
use crate::workspace;

/// How long a browser may take for one page.
const PATIENCE: Duration = Duration::from_secs(180);
const TRIES: usize = 3;

/// What the pages are asked for: a state in the address.
const STATES: [&str; 3] = [
    "panel=layout&layout=(4,8):(8,1)&color=cycle",
    "panel=algebra&operation=composition&a=(4,6,8):(2,3,5)&b=(4,3):(3,1)",
    "panel=descriptor&of=tile&atom=SM90_64x64x16_F32F16F16_SS&operand=A&tile=Sw<3,3,3> o 0 o (64,16):(64,1)&start=0",
];

/// Opens the explorer's page of `folder` as a file; returns how many comparisons were made, and what is wrong.
pub(super) fn check(program: &Path, folder: &Path) -> Result<(usize, Vec<String>)> {
    let page = folder.join("explorer.html");
    let url = format!("file://{}", page.display());
    let mut complaints = Vec::new();
    for state in STATES {
        let shown = expected(state);
        let dom = opened(program, &format!("{url}#{}", encoded(state)), &shown)?;
        if !dom.contains(&shown) {
            complaints.push(format!(
                "page explorer.html as a file: `{state}` does not show {shown}"
            ));
        }
    }
    Ok((STATES.len(), complaints))
}

/// What the page shows above all for a state: the title, or the sentence of a refusal.
fn expected(state: &str) -> String {
    let fields = state.split('&').filter_map(|field| field.split_once('='));
    let request: Json = fields
        .map(|(name, value)| (name.to_string(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let answer = colex_explorer::answer(&request.to_string());
    let answer: Json = serde_json::from_str(&answer).unwrap_or_default();
    let title = answer["reply"]["title"].as_str();
    let escaped = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    match title {
        Some(title) => format!(
            "<p class=\"explorer-result\"><code>{}</code></p>",
            escaped(title)
        ),
        None => escaped(answer["error"].as_str().unwrap_or("no answer")),
    }
}

/// The state as a part of an address.
fn encoded(state: &str) -> String {
    let keeps = |c: char| c.is_ascii_alphanumeric() || "&=-_.".contains(c);
    state
        .chars()
        .map(|c| {
            if keeps(c) {
                c.to_string()
            } else {
                format!("%{:02X}", u32::from(c))
            }
        })
        .collect()
}

/// The page as the browser has it once its scripts have run.
///
/// The browser's virtual time does not wait for the threads that compile the module. On a loaded machine a page can
/// end before its module has answered, so a page without `shown` is opened again.
fn opened(program: &Path, url: &str, shown: &str) -> Result<String> {
    let mut last = None;
    for _ in 0..TRIES {
        let dom = dumped(program, url)?;
        if let Some(dom) = dom.as_ref().filter(|dom| dom.contains(shown)) {
            return Ok(dom.clone());
        }
        last = dom.or(last);
    }
    last.with_context(|| {
        format!(
            "{} was started {TRIES} times and did not show {url}",
            program.display()
        )
    })
}

fn dumped(program: &Path, url: &str) -> Result<Option<String>> {
    let profile = Browser::profile()?;
    let result = dump(program, &profile, url);
    // The system clears its folder for temporary files.
    let _ = fs::remove_dir_all(&profile);
    result
}

fn dump(program: &Path, profile: &Path, url: &str) -> Result<Option<String>> {
    let file = profile.join("dom.html");
    let mut command = Browser::options(program, profile)?;
    command
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(url)
        .stdout(Stdio::from(File::create(&file)?));
    let mut child = command
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let is_done = ended(&mut child)?;
    let dom = workspace::read(&file).unwrap_or_default();
    Ok((is_done && dom.contains("</html>")).then_some(dom))
}

/// Waits for the process, and ends one that hangs.
fn ended(child: &mut Child) -> Result<bool> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_an_address() {
        assert_eq!(encoded("a=Sw<3> o&b=1"), "a=Sw%3C3%3E%20o&b=1");
    }

    #[test]
    fn a_state_has_a_title_or_a_sentence() {
        assert_eq!(
            expected(STATES[0]),
            "<p class=\"explorer-result\"><code>(4,8):(8,1)</code></p>"
        );
        assert!(expected("panel=layout&layout=4").starts_with("layout: "));
    }
}
