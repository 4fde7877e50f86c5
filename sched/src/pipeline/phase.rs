//! Where a pipeline stands: a stage of the ring and the parity of its round.

/// The state of a pipeline: a stage, and the parity bit with which to wait on its barrier.
///
/// Source: `sm90_pipeline.hpp`, `PipelineState`.
///
/// Item `i` of a ring of `stages` uses stage `i % stages` in round `i / stages`. A consumer waits with the parity of
/// the round; a producer with the other one, so that its first wait, on a barrier never used, passes.
///
/// ```
/// use colex_sched::pipeline::Phase;
/// let p = Phase::consumer(4).advance(6);
/// assert_eq!((p.stage, p.parity), (2, 1));
/// assert_eq!(Phase::producer(4).parity, 1);
/// ```
#[doc(alias = "PipelineState")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// The stage.
    pub stage: usize,
    /// The parity to wait with: 0 or 1.
    pub parity: u8,
    stages: usize,
}

impl Phase {
    /// Returns the initial state of a consumer in a ring of `stages` stages (at least 1).
    pub fn consumer(stages: usize) -> Phase {
        Phase {
            stage: 0,
            parity: 0,
            stages: stages.max(1),
        }
    }

    /// Returns the initial state of a producer in a ring of `stages` stages (at least 1).
    pub fn producer(stages: usize) -> Phase {
        Phase {
            parity: 1,
            ..Phase::consumer(stages)
        }
    }

    /// Returns the state `items` items later. A warpgroup skips the items of another warpgroup with it.
    #[must_use]
    pub fn advance(self, items: usize) -> Phase {
        let stages = self.stages as u128;
        let total = self.stage as u128 + items as u128;
        Phase {
            stage: (total % stages) as usize,
            parity: self.parity ^ u8::from(total / stages % 2 == 1),
            ..self
        }
    }
}
