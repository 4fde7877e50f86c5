//! The paths by NCCL: a collective before or after the product, or one for each piece beside the product of another piece.
//!
//! Collectives in pieces are work of the streams of copies, and products of those of kernels; events order the two on each
//! device, and NCCL orders the ranks.

use colex_device::Device;

use super::collective::{Collectives, Does, RankPart};
use crate::error::Error;
use crate::kernels::GemmElement;
use crate::ranks::RankPath;
use crate::ranks::work::RankWork;
use crate::ranks::work::gather::GatherWork;
use crate::ranks::work::scatter::ScatterWork;

/// Enqueues the collectives of an all-gather before the product, or one for each piece beside the product of the piece before.
pub(crate) fn gather<T: GemmElement, C: GemmElement>(
    collectives: &Collectives,
    works: &[GatherWork<T, C>],
    pieces: i64,
) -> Result<(), Error> {
    let of_all = |piece: i64, in_stream: fn(&GatherWork<T, C>) -> &Device| {
        let part = |work| {
            let (from, to) = GatherWork::ends(work, piece)?;
            let stream = in_stream(work);
            Ok(RankPart { stream, from, to })
        };
        let parts = works.iter().map(part).collect::<Result<Vec<_>, Error>>()?;
        collectives.enqueue(Does::Gather, &parts)
    };
    if works
        .iter()
        .all(|work| work.taken().0 == RankPath::NcclAfter)
    {
        of_all(0, |work| &work.member().device)?;
        // No kernel waits for flags here, so the number of the round is of no use.
        return works.iter().try_for_each(|work| work.multiply(0));
    }
    for work in works {
        let member = work.member();
        member.copies.wait_for(&member.device.record()?)?;
    }
    let mut arrived = Vec::new();
    for piece in 0..pieces {
        of_all(piece, |work| &work.member().copies)?;
        let events = works.iter().map(|work| work.member().copies.record());
        arrived.push(events.collect::<Result<Vec<_>, _>>()?);
    }
    for (piece, arrived) in (0..).zip(&arrived) {
        for (work, arrived) in works.iter().zip(arrived) {
            work.member().device.wait_for(arrived)?;
            work.multiply_piece(piece)?;
        }
    }
    Ok(())
}

/// Enqueues the products of all pieces, and behind each its collective, in the stream of copies; after all of them what rounds the
/// sums.
pub(crate) fn sum<T: GemmElement, S: GemmElement, C: GemmElement>(
    collectives: &Collectives,
    (does, works): (Does, &[ScatterWork<T, S, C>]),
    pieces: i64,
) -> Result<(), Error> {
    for piece in 0..pieces {
        let mut parts = Vec::new();
        for work in works {
            work.multiply(piece)?;
            let member = work.member();
            member.copies.wait_for(&member.device.record()?)?;
            let (from, to) = work.ends(piece)?;
            let stream = &member.copies;
            parts.push(RankPart { stream, from, to });
        }
        collectives.enqueue(does, &parts)?;
    }
    for work in works {
        let member = work.member();
        member.device.wait_for(&member.copies.record()?)?;
        work.round()?;
    }
    Ok(())
}
