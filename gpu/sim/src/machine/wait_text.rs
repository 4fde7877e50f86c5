//! The sentences about waiting warps.

use super::Machine;
use crate::state::block::Group;
use crate::state::pending::Work;
use crate::state::wait::Wait;
use crate::state::warp::Warp;

impl Machine<'_, '_> {
    /// Of warps that wait, one that keeps the others waiting: the first, or the warp that it waits for if that one waits for
    /// something else, and so on.
    pub(crate) fn cause<'w>(&self, g: &Group, waiting: &[&'w Warp]) -> Option<&'w Warp> {
        let mut seen: Vec<&Warp> = Vec::new();
        let mut at = *waiting.first()?;
        while !seen.iter().any(|warp| warp.index == at.index) {
            seen.push(at);
            let missing = |warp: &&&Warp| match &at.wait {
                Some(Wait::Named { id, .. }) => {
                    let there =
                        matches!(&warp.wait, Some(Wait::Named { id: other, .. }) if other == id);
                    warp.block == at.block && !there
                }
                Some(Wait::Cluster { .. }) => !matches!(warp.wait, Some(Wait::Cluster { .. })),
                Some(Wait::Operations { numbers, .. }) => {
                    let issued = g.pending.iter().filter(|p| numbers.contains(&p.number));
                    issued.into_iter().any(|p| match &p.work {
                        Work::Product(product) => product
                            .missing()
                            .any(|missing| product.group + missing == warp.index),
                        Work::Move(_) | Work::Arrive { .. } => false,
                    })
                }
                _ => false,
            };
            match waiting.iter().find(missing) {
                Some(next) => at = next,
                None => return Some(at),
            }
        }
        // The warps wait for each other in a cycle.
        waiting.first().copied()
    }

    /// `warp 3`, in a cluster `warp 3 of block 1`.
    pub(crate) fn warp_name(&self, g: &Group, warp: &Warp) -> String {
        let number = warp.first / 32;
        match g.blocks.len() {
            1 => format!("warp {number}"),
            _ => format!("warp {number} of block {}", warp.block),
        }
    }

    /// What a warp waits for, and what is missing.
    pub(crate) fn reason(&self, g: &Group, warp: &Warp) -> String {
        let reason = self.event(g, warp);
        match self.side_that_waits(warp) {
            Some(side) => format!("{reason} ({side})"),
            None => reason,
        }
    }

    /// The side of a branch that has not run: here a warp runs one side to its end first, on a device both go on.
    pub(crate) fn side_that_waits(&self, warp: &Warp) -> Option<String> {
        let stmt = self.program.stmts[warp.other_side()?]?;
        let (file, line) = (stmt.at.file(), stmt.at.line());
        Some(format!(
            "the other side of the branch at {file}:{line} has not run"
        ))
    }

    fn event(&self, g: &Group, warp: &Warp) -> String {
        match &warp.wait {
            None => match &warp.idle {
                Some(barrier) => self.missing(g, barrier),
                None => "its turn".to_string(),
            },
            Some(Wait::Named { id, .. }) => {
                let named = &g.blocks[warp.block].named[*id];
                let live = g.blocks[warp.block].live_warps * 32;
                let expected = named.expected.unwrap_or(live);
                format!(
                    "barrier {id}, at which {} of {expected} threads have arrived",
                    named.arrived
                )
            }
            Some(Wait::Cluster { .. }) => format!(
                "the cluster's barrier, at which {} of {} warps have arrived",
                g.barrier.arrived, g.live
            ),
            Some(Wait::Mbarriers(waits, _)) => {
                let reasons: Vec<String> = waits.iter().map(|wait| self.missing(g, wait)).collect();
                reasons.join(" and ")
            }
            Some(Wait::Operations { numbers, .. }) => self.unfinished(g, numbers),
            Some(Wait::Registers(more)) => format!(
                "{} registers more for each of its threads (`setmaxnreg.inc`), and {} are left of those that warps of its \
                 block gave up",
                more / 32,
                g.blocks[warp.block].free_registers / 32
            ),
        }
    }

    fn missing(&self, g: &Group, (block, at, parity): &(usize, usize, u64)) -> String {
        let name = self.barrier_name(*at);
        let Some(barrier) = g.blocks[*block].mbarriers.get(*at) else {
            return name;
        };
        let came = barrier.count - barrier.pending;
        let bytes = match barrier.bytes {
            0 => String::new(),
            missing @ 1.. => format!(" and lacks {missing} bytes"),
            surplus => format!(" and {} bytes more than were announced", -surplus),
        };
        format!(
            "parity {parity} of {name}, whose phase {} has {came} of {} arrivals{bytes}",
            barrier.phase, barrier.count
        )
    }

    fn unfinished(&self, g: &Group, numbers: &[u64]) -> String {
        let mut operations = g.pending.iter().filter(|p| numbers.contains(&p.number));
        match operations.next() {
            Some(operation) => match &operation.work {
                Work::Product(product) if !product.is_complete() => {
                    let warps: Vec<String> = product.missing().map(|w| w.to_string()).collect();
                    format!(
                        "{}, which warps {} of its warpgroup have not issued",
                        self.described(&operation.site),
                        warps.join(", ")
                    )
                }
                Work::Move(_) | Work::Product(_) | Work::Arrive { .. } => {
                    self.described(&operation.site)
                }
            },
            None => "nothing".to_string(),
        }
    }
}
