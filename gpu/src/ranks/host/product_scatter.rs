//! `ProductScatter`: product and reduce-scatter on devices, whose kernels store into the memory of the owners.

use std::time::Duration;

use colex_atom::Ty;
use colex_device::{Buffer, Event, View, ViewMut};
use colex_sched::{Overlap, OverlapPlan};

use super::devices::{RankDevices, wait_for};
use super::gather_product::{RankOptions, chosen, of_rank, rank_error, strided};
use super::links::RankForecast;
use crate::elementwise::{Map, MapExpression};
use crate::error::{Error, HostError};
use crate::gemm::{ChunkOrder, Gemm};
use crate::kernels::GemmElement;
use crate::ranks::{RankPath, RankProblem};

/// Product and reduce-scatter on the devices of one process: C = A B^T, with A (M,K) and B (N,K) over the ranks along K, and the
/// rows of C. All matrices are row-major; rank r has columns `r K/R ..` of A and B as matrices (M,K/R) and (N,K/R), and rows
/// `r M/R ..` of C.
///
/// Each rank multiplies its share of K for the rows of all ranks, its own last, and stores the term of a chunk of rows into a slot
/// of its own in the memory of the chunk's owner. On the path [`RankPath::PeerMemory`] the kernel does that itself, by TMA and
/// one tensor map for each owner, tile by tile. The owner then adds the slots in the order of the ranks, in f32 with one
/// rounding to `C`, so that every run gives the same bits. Slots hold elements `S`: f32, or `C` with half the bytes on
/// the links and one more rounding of each term.
///
/// ```
/// use colex_atom::Arch;
/// use colex_gpu::Device;
/// use colex_gpu::ranks::{ProductScatter, RankDevices, RankOptions, RankProblem};
/// use colex_sched::Overlap;
/// use half::bf16;
/// use std::time::Duration;
///
/// // Two ranks on one simulated device.
/// let device = Device::simulator(Arch::Sm90a);
/// let ranks = RankDevices::new(&[device.clone(), device])?;
/// let problem = RankProblem { overlap: Overlap::ProductScatter, ranks: 2, m: 16, n: 8, k: 32 };
/// let mut product = ProductScatter::<bf16, f32, bf16>::new(&ranks, problem, &RankOptions::default())?;
/// for rank in 0..2 {
///     product.a(rank)?.write(&[bf16::from_f32(rank as f32 + 1.0); 16 * 16])?;
///     product.b(rank)?.write(&[bf16::ONE; 8 * 16])?;
/// }
/// product.run()?;
/// product.wait(Duration::from_secs(10))?;
/// assert_eq!(product.c(1)?.download()?, [bf16::from_f32(16.0 + 32.0); 8 * 8]);
/// # Ok::<(), colex_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct ProductScatter<T, S, C> {
    ranks: RankDevices,
    problem: RankProblem,
    order: OverlapPlan,
    path: RankPath,
    forecast: RankForecast,
    sum: MapExpression,
    a: Vec<Buffer<T>>,
    b: Vec<Buffer<T>>,
    c: Vec<Buffer<C>>,
    /// The slots of all ranks in the memory of each owner, and those of all owners as each rank's work has them.
    slots: Vec<Buffer<S>>,
    peers: Vec<Vec<Buffer<S>>>,
    /// The terms of all chunks of a rank, if copies bring them to the owners.
    terms: Vec<Buffer<S>>,
    /// The events at which each rank came to the last round.
    came: Vec<Event>,
    is_over: bool,
}

/// The sum of the slots in the order of the ranks.
fn sum<S: GemmElement, C: GemmElement>(ranks: i64) -> Result<MapExpression, Error> {
    MapExpression::new(|m| {
        let terms: Vec<_> = (0..ranks)
            .map(|rank| m.tensor(&format!("slot_{rank}"), S::TY).to(Ty::F32))
            .collect();
        let sum = terms.into_iter().reduce(|sum, term| sum + term);
        m.output("c", sum.expect("at least one rank").to(C::TY));
    })
}

impl<T: GemmElement, S: GemmElement, C: GemmElement> ProductScatter<T, S, C> {
    /// Allocates the operands and the slots on all devices, zeros.
    ///
    /// # Errors
    ///
    /// As [`GatherProduct::new`](super::gather_product::GatherProduct::new), but for pieces, of which there is one.
    pub fn new(
        ranks: &RankDevices,
        problem: RankProblem,
        options: &RankOptions,
    ) -> Result<ProductScatter<T, S, C>, Error> {
        let of = (&problem, Overlap::ProductScatter);
        let (path, forecast, order) = chosen::<T, S>(ranks, of, options)?;
        let RankProblem {
            m,
            n,
            k,
            ranks: count,
            ..
        } = problem;
        if let Some(pieces) = options.pieces.filter(|pieces| *pieces != 1) {
            let (rows, most) = (m / count, 1);
            return Err(HostError::Pieces { pieces, rows, most }.into());
        }
        let slots = ranks.buffers::<S>(m.saturating_mul(n))?;
        let terms = match path {
            RankPath::OneAfterAnother => ranks.buffers(m.saturating_mul(n))?,
            _ => Vec::new(),
        };
        Ok(ProductScatter {
            sum: sum::<S, C>(count)?,
            a: ranks.buffers(m.saturating_mul(k / count))?,
            b: ranks.buffers(n.saturating_mul(k / count))?,
            c: ranks.buffers((m / count).saturating_mul(n))?,
            peers: ranks.as_peers(&slots)?,
            slots,
            terms,
            ranks: ranks.clone(),
            problem,
            order,
            path,
            forecast,
            came: Vec::new(),
            is_over: false,
        })
    }

    /// Returns the path that the call takes.
    pub fn path(&self) -> RankPath {
        self.path
    }

    /// Returns the part of A of a rank (M,K/R), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn a(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        of_rank(&self.a, rank)
    }

    /// Returns the part of B of a rank (N,K/R), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn b(&self, rank: usize) -> Result<&Buffer<T>, Error> {
        of_rank(&self.b, rank)
    }

    /// Returns the part of C of a rank (M/R,N), row-major.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such rank.
    pub fn c(&self, rank: usize) -> Result<&Buffer<C>, Error> {
        of_rank(&self.c, rank)
    }

    /// Returns the path, the plan of the product on rank 0, and the predicted times of all paths.
    ///
    /// # Errors
    ///
    /// Returns the errors of the product's plan.
    pub fn explain(&self) -> Result<String, Error> {
        let product = self.with_product(0, |product| product.explain())?;
        Ok(format!(
            "{} by {}, slots of {}\n{}\n{}",
            self.problem,
            self.path,
            S::TY,
            product.lines().next().unwrap_or_default(),
            self.forecast
        ))
    }

    /// Enqueues the product on all devices. The parts of C are written in the order of their devices' streams.
    ///
    /// # Errors
    ///
    /// Returns an error after a failure, and the devices' errors.
    pub fn run(&mut self) -> Result<(), Error> {
        if self.is_over {
            return Err(HostError::Over.into());
        }
        let ran = self.enqueue();
        self.is_over = ran.is_err();
        ran
    }

    /// Waits until all ranks are done, for at most `within`.
    ///
    /// # Errors
    ///
    /// Returns an error that names a rank which is not done in time, [`lost_rank`](Error::lost_rank), or the error of a device.
    pub fn wait(&mut self, within: Duration) -> Result<(), Error> {
        let waited = self.ranks.wait(within, (&self.came, &[]));
        self.is_over |= waited.is_err();
        waited
    }

    /// The rows of a chunk.
    fn rows(&self) -> i64 {
        self.problem.m / self.problem.ranks
    }

    /// The part of a number in memory that has one for each rank.
    fn part(&self, of: &Buffer<S>, number: usize) -> Result<Buffer<S>, Error> {
        let each = (self.rows() * self.problem.n) as usize;
        Ok(of.slice(number * each..(number + 1) * each)?)
    }

    fn enqueue(&mut self) -> Result<(), Error> {
        // An owner has added what its slots held before.
        self.came = self.ranks.record()?;
        let (members, ready) = (self.ranks.members(), &self.came);
        for (rank, member) in members.iter().enumerate() {
            wait_for(&member.device, ready)?;
            self.with_product(rank, |product| product.run())?;
        }
        let mut sent = self.ranks.record()?;
        if self.path == RankPath::OneAfterAnother {
            for (rank, member) in members.iter().enumerate() {
                member.copies.wait_for(&sent[rank])?;
                for owner in self.order.chunks(rank as i64).map_err(rank_error)? {
                    let owner = owner as usize;
                    let slot = self.part(&self.peers[rank][owner], rank)?;
                    let term = self.part(&self.terms[rank], owner)?;
                    member.copies.enqueue_copy(&slot, &term)?;
                }
            }
            sent = self.ranks.record_copies()?;
        }
        for (owner, member) in members.iter().enumerate() {
            wait_for(&member.device, &sent)?;
            self.add(owner)?;
        }
        Ok(())
    }

    /// Enqueues the sum of an owner's slots.
    fn add(&self, owner: usize) -> Result<(), Error> {
        let elements = self.rows() * self.problem.n;
        let slots = (0..self.ranks.count()).map(|rank| self.part(&self.slots[owner], rank));
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let mut c = self.c[owner].clone();
        let c = c.view_mut(elements)?;
        let mut map = Map::new(&self.sum).output("c", &c);
        for (rank, slot) in slots.iter().enumerate() {
            map = map.input(&format!("slot_{rank}"), &slot.view(elements)?);
        }
        map.run()
    }

    /// What `act` makes of the product of a rank.
    fn with_product<X>(
        &self,
        rank: usize,
        act: impl FnOnce(Gemm<'_, T, S>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let RankProblem { n, k, ranks, .. } = self.problem;
        let (rows, k) = (self.rows(), k / ranks);
        let a = View::new(
            &self.a[rank],
            strided([(rows, k), (k, 1), (ranks, rows * k)])?,
        )?;
        let b = View::new(&self.b[rank], strided([(n, k), (k, 1), (ranks, 0)])?)?;
        if self.path == RankPath::OneAfterAnother {
            let mut terms = self.terms[rank].clone();
            let layout = strided([(rows, n), (n, 1), (ranks, rows * n)])?;
            return act(Gemm::new(&a, &b, &ViewMut::new(&mut terms, layout)?));
        }
        let owners = (0..self.ranks.count()).map(|owner| self.part(&self.peers[rank][owner], rank));
        let mut owners = owners.collect::<Result<Vec<_>, _>>()?;
        let layout = strided([(rows, n), (n, 1)])?;
        let owners = owners.iter_mut();
        let owners = owners.map(|slot| ViewMut::new(slot, layout.clone()));
        let owners = owners.collect::<Result<Vec<_>, _>>()?;
        let first = self.order.chunks(rank as i64).map_err(rank_error)?[0];
        let product = Gemm::to_owners(&a, &b, &owners)?;
        act(product.chunks(ChunkOrder::Ascending, first))
    }
}
