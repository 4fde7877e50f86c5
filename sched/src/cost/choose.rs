//! The best order for a problem on a device, with the numbers behind it.

use crate::cost::{Quantization, TileBytes, l2_traffic, wave_costs};
use crate::number::error::{Error, ErrorKind, at_least, product};
use crate::order::Order;
use crate::problem::coord::GemmCoord;
use crate::problem::tiles::{k_tiles, tiled_mn};
use std::fmt;

/// What the cost model knows of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceModel {
    /// The name.
    pub name: &'static str,
    /// Multiprocessors.
    pub sms: i64,
    /// Bytes of the L2 cache.
    pub l2_bytes: i64,
}

impl DeviceModel {
    /// NVIDIA H200 SXM: 132 multiprocessors, 50 MiB of L2 (H100 and H200 data sheets).
    pub const H200: DeviceModel = DeviceModel {
        name: "H200",
        sms: 132,
        l2_bytes: 50 << 20,
    };
    /// NVIDIA A100: 108 multiprocessors, 40 MiB of L2 (A100 data sheet).
    pub const A100: DeviceModel = DeviceModel {
        name: "A100",
        sms: 108,
        l2_bytes: 40 << 20,
    };
}

/// A matrix product and how it is tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TiledGemm {
    /// Elements along m, n, k.
    pub problem: GemmCoord,
    /// Elements of a tile.
    pub tile: GemmCoord,
    /// Batches.
    pub batches: i64,
    /// Bytes of an element of A and of B.
    pub element: i64,
    /// Blocks of a cluster along m and n.
    pub cluster: [i64; 2],
}

impl TiledGemm {
    /// Returns one product of 2-byte elements, without clusters.
    pub const fn new(problem: GemmCoord, tile: GemmCoord) -> Self {
        TiledGemm {
            problem,
            tile,
            batches: 1,
            element: 2,
            cluster: [1, 1],
        }
    }

    /// Returns the output tiles along m and n, and the batches.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1.
    pub fn tiles(&self) -> Result<GemmCoord, Error> {
        at_least("the number of batches", self.batches, 1)?;
        tiled_mn(self.problem, self.tile, self.batches)
    }

    /// Returns the slices the cost model counts.
    ///
    /// # Errors
    ///
    /// Returns an error for an extent below 1, or if a count does not fit in 64 bits.
    pub fn bytes(&self) -> Result<TileBytes, Error> {
        let bytes = TileBytes::new(self.tile, self.element, k_tiles(self.problem, self.tile)?)?;
        at_least("extent m of the cluster", self.cluster[0], 1)?;
        at_least("extent n of the cluster", self.cluster[1], 1)?;
        Ok(TileBytes {
            cluster_blocks: product("the blocks of a cluster", &self.cluster)?,
            ..bytes
        })
    }
}

/// One order and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The order.
    pub order: Order,
    /// The distribution of its tiles over the workers.
    pub quantization: Quantization,
    /// Places without a tile.
    pub idle: i64,
    /// Bytes from L2 to the multiprocessors.
    pub requested: i64,
    /// Bytes from memory to L2.
    pub fetched: i64,
    /// Distinct operand bytes of all waves together: the traffic of a cache that keeps nothing between waves.
    pub wave_bytes: i64,
}

/// The orders for one problem, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// All candidates, best first.
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Returns the best.
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }
}

/// Compares [`Order::candidates`] and ranks them: shortest schedule, then fewest bytes from memory, then fewest
/// distinct bytes a wave, then fewest idle places; the simpler order wins a tie.
///
/// The bytes from memory are those of a simulation of L2 with several k-tiles a step: at least 8 steps, and enough that
/// one step of a wave is an eighth of the cache. It takes at most 2^22 touches of slices, two for each place and step: a
/// larger product has as many steps as fit, which divide its k-tiles, and has all of K in one step at the least.
///
/// # Errors
///
/// Returns an error for an extent, cluster or device count below 1, for a cluster that the device cannot hold, for an
/// order of more than 2^20 places, or if a count does not fit in 64 bits.
///
/// ```
/// use colex_sched::{DeviceModel, GemmCoord, TiledGemm, choose};
/// let gemm = TiledGemm::new(GemmCoord::new(8192, 8192, 8192), GemmCoord::new(128, 256, 64));
/// let choice = choose(&gemm, &DeviceModel::H200)?;
/// let plain = choice.candidates.iter().find(|c| c.order.to_string() == "grouped 1 along m").unwrap();
/// assert!(choice.best().fetched < plain.fetched);
/// # Ok::<(), colex_sched::Error>(())
/// ```
pub fn choose(gemm: &TiledGemm, device: &DeviceModel) -> Result<Choice, Error> {
    choose_among(&Order::candidates(), gemm, device)
}

/// Returns the same as [`choose`], among the orders given.
///
/// # Errors
///
/// Returns the errors of [`choose`], and an error if there are no orders.
pub fn choose_among(
    orders: &[Order],
    gemm: &TiledGemm,
    device: &DeviceModel,
) -> Result<Choice, Error> {
    at_least("the number of orders", orders.len() as i64, 1)?;
    let mut candidates = orders
        .iter()
        .map(|order| cost(*order, gemm, device))
        .collect::<Result<Vec<_>, _>>()?;
    candidates.sort_by_key(|c| (c.quantization.rounds, c.fetched, c.wave_bytes, c.idle));
    Ok(Choice { candidates })
}

fn cost(order: Order, gemm: &TiledGemm, device: &DeviceModel) -> Result<Candidate, Error> {
    at_least("the number of multiprocessors", device.sms, 1)?;
    let (tiles, bytes) = (gemm.tiles()?, gemm.bytes()?);
    let workers = device.sms / bytes.cluster_blocks * bytes.cluster_blocks;
    if workers == 0 {
        return Err(ErrorKind::ClusterTooLarge {
            cluster: gemm.cluster,
            sms: device.sms,
        }
        .into());
    }
    let raster = order.raster(tiles, gemm.cluster)?;
    let waves = wave_costs(&raster, workers, &bytes)?;
    let largest = waves.iter().map(|w| w.bytes()).max().unwrap_or(0);
    let steps = slices(largest, device.l2_bytes);
    let coarse = bytes.resliced_for(steps, raster.slots().len() as i64);
    let traffic = l2_traffic(&raster, workers, &coarse, device.l2_bytes)?;
    Ok(Candidate {
        order,
        quantization: Quantization::of_raster(&raster, workers)?,
        idle: raster.idle(),
        requested: traffic.requested,
        fetched: traffic.fetched,
        wave_bytes: waves.iter().map(|w| w.bytes()).sum(),
    })
}

/// Steps along k that the simulation should have: at least 8, and enough that one step of a wave is an eighth of the cache.
fn slices(wave: i64, cache: i64) -> i64 {
    (wave / (cache / 8).max(1) + 1).clamp(8, 1 << 12)
}

impl fmt::Display for Choice {
    /// A table, best first: order, rounds, efficiency, idle places, megabytes requested, fetched, and touched by the
    /// waves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "order", "rounds", "eff.", "idle", "L2 MB", "DRAM MB", "wave MB",
        ];
        let [order, rounds, eff, idle, l2, dram, wave] = head;
        writeln!(
            f,
            "{order:<32} {rounds:>6} {eff:>6} {idle:>6} {l2:>9} {dram:>9} {wave:>9}"
        )?;
        for c in &self.candidates {
            let mb = |bytes: i64| bytes as f64 / 1e6;
            writeln!(
                f,
                "{:<32} {:>6} {:>6.3} {:>6} {:>9.1} {:>9.1} {:>9.1}",
                c.order.to_string(),
                c.quantization.rounds,
                c.quantization.efficiency(),
                c.idle,
                mb(c.requested),
                mb(c.fetched),
                mb(c.wave_bytes)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceModel, TiledGemm, choose, slices};
    use crate::GemmCoord;

    #[test]
    fn a_step_of_a_wave_is_an_eighth_of_the_cache() {
        assert_eq!(
            [slices(0, 800), slices(1_000, 800), slices(1_000, 0)],
            [8, 11, 1_001]
        );
        assert_eq!(slices(1 << 40, 800), 1 << 12);
    }

    #[test]
    fn bytes_are_shown_in_megabytes() {
        let (problem, tile) = (
            GemmCoord::new(1000, 1000, 1000),
            GemmCoord::new(1000, 1000, 1000),
        );
        let choice = choose(&TiledGemm::new(problem, tile), &DeviceModel::H200).expect("one tile");
        assert_eq!(choice.best().requested, 4_000_000);
        assert!(
            choice.to_string().contains("      4.0       4.0       4.0"),
            "{choice}"
        );
    }

    #[test]
    fn devices_are_those_of_their_data_sheets() {
        let mebibyte = 1024 * 1024;
        let of = |device: DeviceModel| {
            (
                device.sms,
                device.l2_bytes / mebibyte,
                device.l2_bytes % mebibyte,
            )
        };
        assert_eq!(of(DeviceModel::H200), (132, 50, 0));
        assert_eq!(of(DeviceModel::A100), (108, 40, 0));
    }
}
