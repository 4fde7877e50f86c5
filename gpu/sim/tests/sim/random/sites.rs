//! Where a kernel can be broken, and what must be said then.

use colex_sim::{Fault, FaultKind};

/// One place.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// What is done there.
    pub(super) name: &'static str,
    /// The kinds that name the mistake; none if the kernel is right without it too.
    pub(super) kinds: Vec<FaultKind>,
    /// The lines at which it may show.
    pub(super) lines: Vec<u32>,
    /// The threads of a block that may be named; all if there are none.
    pub(super) threads: Vec<u32>,
}

impl Site {
    pub(super) fn new(name: &'static str, kinds: &[FaultKind]) -> Self {
        Site {
            name,
            kinds: kinds.to_vec(),
            lines: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// A mistake only if some threads take part.
    pub(super) fn among(mut self, threads: Vec<u32>) -> Self {
        if threads.is_empty() {
            self.kinds.clear();
        }
        self.threads = threads;
        self
    }

    /// Why a fault does not name this mistake, if it does not.
    pub(super) fn complains(&self, fault: &Fault) -> Option<String> {
        let Some(place) = fault.place() else {
            return Some("it names no place".to_string());
        };
        let line = place.at.line();
        let named = |thread: &u32| {
            *thread == place.thread[0] || place.warp && *thread / 32 == place.thread[0] / 32
        };
        // The end of a block may be in any line; the access that it did not wait for is in one of these.
        let ended = place.instruction == "exit";
        let told = |line: &u32| fault.what().contains(&format!(".rs:{line})"));
        let here = place.at.file().contains("/random/") && self.lines.contains(&line);
        let here = here || ended && self.lines.iter().any(told);
        // Of two accesses that nothing orders both are named, and what would order them.
        let meeting = self.name.contains("meeting") && fault.kind() == FaultKind::Race;
        if meeting && !self.lines.iter().any(told) {
            return Some(format!(
                "none of the lines {:?} is the other access",
                self.lines
            ));
        }
        let remedies = remedies(self.name, fault.kind());
        if !remedies.is_empty() && !remedies.iter().any(|word| fault.what().contains(word)) {
            return Some(format!("it asks for none of {remedies:?}"));
        }
        if !self.kinds.contains(&fault.kind()) {
            return Some(format!("{:?} is none of {:?}", fault.kind(), self.kinds));
        }
        if !here {
            return Some(format!("line {line} is none of {:?}", self.lines));
        }
        if ended || self.threads.is_empty() || self.threads.iter().any(named) {
            None
        } else {
            Some(format!("thread {} takes no part", place.thread[0]))
        }
    }
}

/// What a sentence asks for, one of these, if that is left out.
fn remedies(name: &str, kind: FaultKind) -> &'static [&'static str] {
    match (name, kind) {
        (name, FaultKind::Race) if name.contains("meeting") => &["barrier"],
        ("the release" | "the acquire", FaultKind::Race) => &["release"],
        (
            "the first commit" | "the second commit" | "the first wait" | "the second wait",
            FaultKind::Race,
        ) => &["`cp.async.wait_group`"],
        ("the announcement", FaultKind::Race | FaultKind::Barrier) => {
            &["`mbarrier.arrive.expect_tx`"]
        }
        ("the wait", FaultKind::Race) => &["a wait for the barrier that it completes"],
        (
            "the commit" | "the wait for the copy" | "the wait for the whole copy",
            FaultKind::Race,
        ) => &["`cp.async.bulk.wait_group"],
        (_, FaultKind::MissingFence) => &["`fence.proxy.async` is missing"],
        ("an arrival" | "a thread", FaultKind::Deadlock) => &[" arrivals"],
        ("the number of bytes", FaultKind::Deadlock) => &[" and lacks "],
        ("the commit of the product", FaultKind::InFlight) => &["`wgmma.commit_group` and"],
        ("the wait for the product", FaultKind::InFlight) => &["`wgmma.wait_group` must come"],
        ("the fence of the registers", _) => &["`wgmma.fence`"],
        (_, FaultKind::EarlyExit) => &["wait", "barrier"],
        _ => &[],
    }
}
