//! Two accesses that clash, in words.

use super::block::Group;
use super::clock::Epoch;
use super::fault::{Fault, FaultKind};
use super::lockstep::SEVERAL;
use super::machine::Machine;
use super::port::Who;
use super::shadow::{Clash, Does};

impl Machine<'_, '_> {
    /// The fault of an access to a byte that clashes with another, of the cluster with that number.
    pub(super) fn clash(
        &self,
        g: &Group,
        who: &Who<'_>,
        byte: &str,
        clash: Clash,
        cluster: u32,
        does: Does,
    ) -> Fault {
        let writes = does != Does::Read;
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        match clash {
            Clash::Race {
                other,
                other_writes,
            } => {
                let what = format!(
                    "this {} {byte}, and {} {} it, and nothing orders the two: {}",
                    verb(writes),
                    self.other_of(g, who, other, cluster),
                    verb(other_writes),
                    self.remedy(g, who, other, cluster),
                );
                self.fault(g, &who.spot, FaultKind::Race, what)
            }
            Clash::Fence { other } => {
                let what = format!(
                    "this {} {byte} through the asynchronous proxy, and {} writes it through the generic one: \
                     `fence.proxy.async` is missing after the write",
                    verb(writes),
                    self.other_cluster(g, other, cluster),
                );
                self.fault(g, &who.spot, FaultKind::MissingFence, what)
            }
        }
    }

    /// What would order two accesses.
    fn remedy(&self, g: &Group, who: &Who<'_>, other: Epoch, cluster: u32) -> &'static str {
        let block = |agent: usize| agent / g.warps_per_block();
        match other.agent() < g.warps {
            _ if cluster != g.number => {
                "a release after the one and an acquire before the other are missing"
            }
            true if other.agent() == who.warp => {
                "`bar.warp.sync` or a barrier between them is missing"
            }
            true if block(other.agent()) != who.spot.block => {
                "a barrier of the cluster between them is missing"
            }
            _ => "a barrier between them is missing",
        }
    }

    /// An access by its instruction and its warp, and its lane or its cluster where that tells more.
    fn other_of(&self, g: &Group, who: &Who<'_>, other: Epoch, cluster: u32) -> String {
        let name = self.other_cluster(g, other, cluster);
        match other.lane() {
            _ if cluster != g.number || other.agent() != who.warp => name,
            SEVERAL => format!("{name} in several lanes"),
            lane => format!("{name} in lane {lane}"),
        }
    }

    fn other_cluster(&self, g: &Group, other: Epoch, cluster: u32) -> String {
        match cluster == g.number {
            true => self.other(g, other),
            false => format!("{} of cluster {cluster}", self.other(g, other)),
        }
    }

    /// `` `st.shared.u32 ..` of warp 3 (file.rs:12) ``
    pub(super) fn other(&self, g: &Group, other: Epoch) -> String {
        let stmt = self.program.stmts.get(other.pc()).copied().flatten();
        let owner = match other.agent() < g.warps {
            true => format!(" of warp {}", other.agent() % g.warps_per_block()),
            false => String::new(),
        };
        let block = match g.blocks.len() {
            1 => String::new(),
            _ if other.agent() < g.warps => {
                format!(
                    " of block {} of the cluster",
                    other.agent() / g.warps_per_block()
                )
            }
            _ => String::new(),
        };
        match stmt {
            Some(stmt) => format!(
                "`{}`{owner}{block} ({}:{})",
                self.instruction(stmt),
                stmt.at.file(),
                stmt.at.line()
            ),
            None => format!("something{owner}{block}"),
        }
    }
}
