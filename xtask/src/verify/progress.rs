//! Progress of long steps: a spinner each on a terminal, now and then a plain line elsewhere.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::outcome::report::Said;

/// How long a step may be silent where there is no terminal.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a step says what it works on.
const OFTEN: Duration = Duration::from_millis(100);

/// What a step says of its progress, to the run that started it.
#[derive(Default)]
pub(crate) struct Progress {
    spoke: Cell<Option<Instant>>,
}

impl Progress {
    /// Says what the step works on.
    pub(crate) fn at(&self, what: &str) {
        if self
            .spoke
            .get()
            .is_none_or(|spoke| spoke.elapsed() >= OFTEN)
        {
            self.spoke.set(Some(Instant::now()));
            if let Ok(line) = Said::At(what.trim().to_string()).line() {
                println!("{line}");
            }
        }
    }
}

/// What a run shows of the steps under way.
pub(super) struct Display {
    bars: Option<MultiProgress>,
}

impl Display {
    pub(super) fn new() -> Display {
        Display {
            bars: io::stderr().is_terminal().then(MultiProgress::new),
        }
    }

    /// Shows that a step has begun.
    pub(super) fn begin(&self, name: &'static str) -> StepDisplay<'_> {
        let bar = self.bars.as_ref().map(|bars| bars.add(spinner(name)));
        let now = Instant::now();
        StepDisplay {
            display: self,
            name,
            started: now,
            spoke: now,
            bar,
        }
    }

    fn print(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }
}

/// A step under way, as it is shown.
pub(super) struct StepDisplay<'a> {
    display: &'a Display,
    name: &'static str,
    started: Instant,
    spoke: Instant,
    bar: Option<ProgressBar>,
}

impl StepDisplay<'_> {
    /// Shows what the step works on.
    pub(super) fn at(&mut self, what: String) {
        match &self.bar {
            Some(bar) => bar.set_message(what),
            None if self.spoke.elapsed() >= SILENCE => {
                self.spoke = Instant::now();
                let seconds = self.started.elapsed().as_secs();
                self.display
                    .print(&format!("    {}: {seconds} s, {what}", self.name));
            }
            None => {}
        }
    }

    /// Removes the spinner; `text` takes its place.
    pub(super) fn finish(self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.display.print(text);
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
