//! Progress of a long step: a spinner on a terminal, now and then a plain line elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a step may be silent where there is no terminal.
const SILENCE: Duration = Duration::from_secs(30);

/// The progress of one step.
pub(crate) struct Progress {
    name: &'static str,
    started: Instant,
    spoke: Cell<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(name: &'static str) -> Progress {
        let now = Instant::now();
        let bar = io::stderr().is_terminal().then(|| spinner(name));
        Progress {
            name,
            started: now,
            spoke: Cell::new(now),
            bar,
        }
    }

    /// Shows what the step works on.
    pub(crate) fn at(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(what.trim().to_string()),
            None if self.spoke.get().elapsed() >= SILENCE => {
                self.spoke.set(Instant::now());
                println!(
                    "    {}: {} s, {}",
                    self.name,
                    self.started.elapsed().as_secs(),
                    what.trim()
                );
            }
            None => {}
        }
    }

    /// Removes the spinner, so that the step's line can take its place.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn spinner(name: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix:<18} {elapsed:>4}  {wide_msg}")
        .expect("the template is a constant and well formed");
    let bar = ProgressBar::new_spinner()
        .with_style(style)
        .with_prefix(name);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}
