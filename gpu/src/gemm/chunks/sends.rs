//! Pieces of A that a kernel sends to the other ranks while it multiplies.
//!
//! Of the producer's four warps one loads. The three others copy: on four H200 copies by multiprocessors bring half as much again to
//! each device as copy engines do while all devices copy, and these warps take no multiprocessor from the product.

use colex_atom::Ty;
use colex_device::{Device, View, ViewMut};
use colex_ir::{
    Access, Address, AtomicOp, Compare, KernelBuilder, Memory, Order, Reg, RegType, Scope, Space,
    Special, Type,
};
use colex_layout::Layout;
use colex_tensor::{Arg, Builder, Index, Tensor};

use super::{ChunkForm, ChunkOrder, MOST_OWNERS, refuse};
use crate::error::{Error, disjoint};
use crate::gemm::call::Gemm;
use crate::gemm::groups::call::contiguous;
use crate::gemm::groups::tiles;
use crate::gemm::problem::GemmElement;

/// The bytes of the vector that a lane copies at once.
const VECTOR: i64 = 16;

/// The vectors of a lane that are under way at once: their registers are most of those that a producer's thread has.
const UNDER_WAY: i64 = 4;

/// The pieces that a call sends, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct GivenSends {
    /// The address and the bytes of the own pieces, and of the words in which warps count.
    own: Place,
    counts: Place,
    /// The pieces and their flags at each peer.
    peers: Vec<[Place; 2]>,
    device: Device,
}

/// Memory of a number of contiguous elements.
#[derive(Clone, Copy, Debug)]
struct Place {
    bytes: (u64, u64),
    /// The elements, if they are contiguous.
    count: Option<i64>,
}

/// The memory of a rank that the kernels of other ranks send to.
#[derive(Debug)]
pub struct SentTo<'a, T> {
    /// Where the pieces of the sender lie in the gathered A of this rank.
    pub pieces: ViewMut<'a, T>,
    /// The flags of these pieces.
    pub arrived: ViewMut<'a, u32>,
}

impl GivenSends {
    /// The number of peers.
    pub(crate) fn peers(&self) -> usize {
        self.peers.len()
    }

    /// The addresses in the order of the kernel's parameters.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        let own = [self.own, self.counts].into_iter();
        let all = own.chain(self.peers.iter().flatten().copied());
        all.map(|place| place.bytes.0)
    }

    /// Checks the numbers of pieces.
    ///
    /// # Errors
    ///
    /// Returns an error if another order than that of pieces is taken, if no flags are awaited, or if a number differs.
    pub(crate) fn checked(
        &self,
        (order, is_awaited): (ChunkOrder, bool),
        chunks: i64,
    ) -> Result<(), Error> {
        let ChunkOrder::OwnPiecesFirst { pieces } = order else {
            return refuse(
                "a kernel that sends its own pieces takes them first: `ChunkOrder::OwnPiecesFirst`"
                    .to_string(),
            );
        };
        if !is_awaited {
            return refuse(
                "a kernel that sends pieces receives others, and waits for their flags: `Gemm::arrivals`"
                    .to_string(),
            );
        }
        if self.peers.len() >= MOST_OWNERS {
            return refuse(format!(
                "a kernel sends to up to {} other ranks, and {} are given",
                MOST_OWNERS - 1,
                self.peers.len()
            ));
        }
        let ranks = chunks / pieces.max(1);
        if self.peers.len() as i64 != ranks - 1 {
            return refuse(format!(
                "a kernel of {ranks} ranks sends to {} others, and {} are given",
                ranks - 1,
                self.peers.len()
            ));
        }
        let counts = [("the counts", self.counts)].into_iter();
        let flags = self
            .peers
            .iter()
            .map(|peer| ("the flags of a peer", peer[1]));
        for (name, place) in counts.chain(flags) {
            if place.count != Some(pieces) {
                return refuse(format!(
                    "{name} are {}, and each of the {pieces} pieces has one",
                    said(place.count)
                ));
            }
        }
        Ok(())
    }

    /// Checks that the own pieces are all of the rank, and that each peer has as many elements.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them has another number of elements, or is no whole number of vectors.
    pub(crate) fn check_pieces(
        &self,
        pieces: i64,
        (elements, bytes): (i64, usize),
    ) -> Result<(), Error> {
        let all = elements.saturating_mul(pieces);
        let own = [("the own pieces", self.own)].into_iter();
        let others = self
            .peers
            .iter()
            .map(|peer| ("the pieces at a peer", peer[0]));
        for (name, place) in own.chain(others) {
            if place.count != Some(all) {
                return refuse(format!(
                    "{name} are {}: {pieces} pieces of {elements} elements are {all}",
                    said(place.count)
                ));
            }
            let whole = elements.saturating_mul(bytes as i64) % VECTOR == 0;
            if !whole || !place.bytes.0.is_multiple_of(VECTOR as u64) {
                return refuse(format!(
                    "{name} have {elements} elements of {bytes} bytes each: a kernel sends whole vectors of {VECTOR} bytes at multiples of \
                     {VECTOR} bytes"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the own pieces lie on the device of the product, and that nothing that is written overlaps C.
    pub(crate) fn check_memory(
        &self,
        device: &Device,
        (name, c): (&'static str, (u64, u64)),
    ) -> Result<(), Error> {
        device.check_same("the own pieces", &self.device)?;
        disjoint(name, c, "the counts", self.counts.bytes)?;
        for [pieces, arrived] in &self.peers {
            disjoint(name, c, "the pieces at a peer", pieces.bytes)?;
            disjoint(name, c, "the flags of a peer", arrived.bytes)?;
            disjoint(
                "the own pieces",
                self.own.bytes,
                "the pieces at a peer",
                pieces.bytes,
            )?;
        }
        for (i, one) in self.peers.iter().enumerate() {
            for other in &self.peers[i + 1..] {
                for (at, name) in ["the pieces", "the flags"].into_iter().enumerate() {
                    let [one, other] = [one, other].map(|peer| peer[at].bytes);
                    disjoint(
                        format!("{name} of a peer"),
                        one,
                        format!("{name} of another"),
                        other,
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// A number of elements, if they are contiguous.
fn said(count: Option<i64>) -> String {
    count.map_or("not contiguous".to_string(), |count| count.to_string())
}

/// The number of addresses that a kernel with this number of peers takes.
pub(crate) fn addresses(peers: usize) -> usize {
    match peers {
        0 => 0,
        _ => 2 + 2 * peers,
    }
}

/// The layouts of the words and of the flags behind these addresses, of pieces of a number of bytes.
pub(crate) fn layouts(form: ChunkForm, bytes: i64) -> [Layout; 2] {
    let pieces = form.order.pieces();
    [tiles::form(pieces * bytes / 4), tiles::form(pieces)]
}

/// The arguments behind those of the flags.
pub(crate) fn arguments<'l>(
    addresses: &[u64],
    [words, flags]: &'l [Layout; 2],
) -> impl Iterator<Item = Arg<'l>> {
    let each = addresses.iter().enumerate();
    each.map(move |(at, address)| {
        let layout = if at % 2 == 0 { words } else { flags };
        Arg::checked(*address, layout)
    })
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Sends the rank's own pieces of A to the other ranks while the kernel multiplies: the ranks of the order
    /// [`ChunkOrder::OwnPiecesFirst`], each on a device of its own, run this product at the same time. Warps that have nothing else to
    /// do copy `own` to every peer, piece by piece, and set the peer's flag of a piece to the number of the round behind it, so that
    /// the peer's [`arrivals`](Gemm::arrivals) let it pass.
    ///
    /// `counts` are words of this device, one for each piece, zeros before the first launch, which the kernel leaves zeros. The peers' memory is
    /// free to be written when the launch begins.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::{ChunkOrder, SentTo};
    /// use colex_gpu::{Device, Gemm, View, ViewMut};
    /// use half::bf16;
    ///
    /// // Rank 1 of two: its rows 8 to 16 of A go to rank 0, whose memory is on the same simulated device here.
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, b) = (device.upload(&[bf16::ONE; 2 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let (mut at_peer, mut arrived_there) = (device.zeros::<bf16>(8 * 16)?, device.zeros::<u32>(1)?);
    /// let (mut c, mut counts) = (device.poisoned::<f32>(2 * 8 * 8)?, device.zeros::<u32>(1)?);
    /// let own = a.slice(8 * 16..)?;
    /// let arrived = device.upload(&[1u32, 1])?; // the piece of rank 0 is there already
    /// {
    ///     let peers = [SentTo { pieces: at_peer.view_mut(8 * 16)?, arrived: arrived_there.view_mut(1)? }];
    ///     let rows = ViewMut::new(&mut c, "(8,8,2):(8,1,64)")?;
    ///     let (a, b) = (View::new(&a, "(8,16,2):(16,1,128)")?, View::new(&b, "(8,16,2):(16,1,0)")?);
    ///     Gemm::new(&a, &b, &rows)
    ///         .chunks(ChunkOrder::OwnPiecesFirst { pieces: 1 }, 1)
    ///         .arrivals(&arrived.view(2)?)
    ///         .sends(&own.view(8 * 16)?, &counts.view_mut(1)?, &peers)
    ///         .run()?;
    /// }
    /// assert_eq!((at_peer.download()?, arrived_there.download()?), (vec![bf16::ONE; 8 * 16], vec![1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sends(
        mut self,
        own: &View<'a, T>,
        counts: &ViewMut<'a, u32>,
        peers: &[SentTo<'a, T>],
    ) -> Self {
        let of = |bytes, count| Place { bytes, count };
        let chunks = self.chunks.get_or_insert_default();
        chunks.sends = Some(GivenSends {
            own: of(own.bytes(), contiguous(own)),
            counts: of(counts.bytes(), contiguous(counts)),
            peers: peers
                .iter()
                .map(|SentTo { pieces, arrived }| {
                    [
                        of(pieces.bytes(), contiguous(pieces)),
                        of(arrived.bytes(), contiguous(arrived)),
                    ]
                })
                .collect(),
            device: own.device().clone(),
        });
        self
    }
}

/// What a kernel sends: its parameters.
pub(crate) struct Sends {
    pieces: i64,
    own: Tensor,
    counts: Tensor,
    /// The pieces and their flags at each peer.
    peers: Vec<[Tensor; 2]>,
}

impl Sends {
    /// Declares the own pieces, the words in which warps count, and the memory of each peer.
    pub(crate) fn declare(k: &mut Builder, form: ChunkForm) -> Sends {
        let mut words = |name: &str| k.tensor(name, Ty::U32, tiles::form(16));
        let (own, counts) = (words("sent"), words("counts"));
        let each = 1..=form.peers;
        let peers = each
            .map(|peer| [format!("to_{peer}"), format!("arrived_{peer}")].map(|name| words(&name)));
        Sends {
            pieces: form.order.pieces(),
            own,
            counts,
            peers: peers.collect(),
        }
    }

    /// Sends the own pieces, one after another, by all workers: warps, called by their number. Every piece goes to all peers at once: if
    /// each rank began with another peer, ranks that fall behind would send to one peer together.
    pub(crate) fn send(&self, k: &mut Builder, round: Reg, [worker, workers]: [&Index; 2]) {
        let words = self.own.extent(0) / self.pieces;
        let [worker, workers, words] = [worker, workers, &words].map(|index| k.value(index));
        let mut first = |tensor: &Tensor| k.addresses(&tensor.elements(0)).regs()[0];
        let (own, counts) = (first(&self.own), first(&self.counts));
        let peers: Vec<[Reg; 2]> = self
            .peers
            .iter()
            .map(|[to, arrived]| [first(to), first(arrived)])
            .collect();
        let pieces = self.pieces;
        k.emit(|ir| {
            let lane = ir.mov(Type::U32, Special::LaneId);
            let step = ir.mul(Type::U32, workers, WARP_WORDS);
            let behind = ir.mul(Type::U32, lane, VECTOR / 4);
            let begin = ir.mad(Type::U32, worker, WARP_WORDS, behind);
            ir.for_range(0, pieces, 1, |ir, piece| {
                let before = ir.mul(Type::U32, piece, words);
                ir.for_range(begin, words, step, |ir, at| {
                    let start = ir.add(Type::U32, at, before);
                    copy(ir, (own, &peers), [at, start, words]);
                });
                // The other lanes' stores come before the count of the first lane.
                ir.warp_sync();
                let is_first = ir.setp(Compare::Eq, Type::U32, lane, 0);
                ir.if_(is_first, |ir| {
                    tell(ir, (counts, &peers), [piece, workers, round])
                });
            });
        });
    }
}

/// The words that a warp copies at once.
const WARP_WORDS: i64 = UNDER_WAY * 32 * VECTOR / 4;

/// Copies the vectors of a lane, of which the first lies `at` words behind the first word of a piece, to all peers.
fn copy(ir: &mut KernelBuilder, (own, peers): (Reg, &[[Reg; 2]]), [at, start, words]: [Reg; 3]) {
    let access = Access::new(Space::Global, Type::U32);
    let bytes = ir.mul_wide(Type::U32, start, 4);
    let apart = 32 * VECTOR;
    let is_there: Vec<Reg> = (0..UNDER_WAY)
        .map(|i| {
            let word = ir.add(Type::U32, at, i * apart / 4);
            ir.setp(Compare::Lt, Type::U32, word, words)
        })
        .collect();
    let from = ir.add(Type::S64, own, bytes);
    let mut vectors = Vec::new();
    for (i, is_there) in (0..UNDER_WAY).zip(&is_there) {
        let vector: Vec<Reg> = (0..VECTOR / 4).map(|_| ir.mov(Type::U32, 0)).collect();
        ir.when(*is_there, |ir| {
            ir.load_to(access, &vector, Address::from(from).at(i * apart))
        });
        vectors.push(vector);
    }
    for [to, _] in peers {
        let to = ir.add(Type::S64, *to, bytes);
        for ((i, is_there), vector) in (0..UNDER_WAY).zip(&is_there).zip(&vectors) {
            ir.when(*is_there, |ir| {
                ir.store_vector(access, Address::from(to).at(i * apart), vector)
            });
        }
    }
}

/// Counts a warp that has stored its part of a piece. The last one tells all peers.
fn tell(
    ir: &mut KernelBuilder,
    (counts, peers): (Reg, &[[Reg; 2]]),
    [piece, workers, round]: [Reg; 3],
) {
    let behind = ir.mul_wide(Type::U32, piece, 4);
    let count = ir.add(Type::S64, counts, behind);
    let before = ir.reg(RegType::B32);
    ir.push(Memory::Atomic {
        op: AtomicOp::Add,
        space: Space::Global,
        ty: Type::U32,
        order: Order::AcqRel(Scope::Sys),
        d: before,
        a: count.into(),
        s: 1.into(),
        t: None,
    });
    let now = ir.add(Type::U32, before, 1);
    let is_last = ir.setp(Compare::Eq, Type::U32, now, workers);
    ir.if_(is_last, |ir| {
        let word = Access::new(Space::Global, Type::U32);
        // For the next launch, which begins after this one.
        ir.store(word.order(Order::Relaxed(Scope::Gpu)), count, 0);
        for [_, arrived] in peers {
            let flag = ir.add(Type::S64, *arrived, behind);
            ir.store(word.order(Order::Release(Scope::Sys)), flag, round);
        }
    });
}
