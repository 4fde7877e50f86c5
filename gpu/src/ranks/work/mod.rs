//! The work of one rank of a product: its device, its operands, the memory of the other ranks, and what it enqueues.
//!
//! What lies between the steps of two ranks is not here: the calls of one process order them by events, and a rank of a process of
//! its own by flags.

pub(crate) mod gather;
pub(crate) mod scatter;

use colex_device::{Buffer, Device, Element, Flags, View, ViewMut};
use colex_layout::Layout;

use crate::error::Error;
use crate::gemm::{ChunkOrder, Gemm};
use crate::kernels::GemmElement;
use crate::ranks::{RankPath, RankSends, RankSums};

/// The most pieces of a chunk.
const MOST_PIECES: i64 = 64;

/// What every work of a rank has.
pub(crate) trait RankWork<T, C> {
    fn member(&self) -> &Member;

    /// The path, and the pieces of a chunk.
    fn taken(&self) -> (RankPath, i64);

    /// What brings and adds the terms of a sum on the path of peer memory.
    fn terms(&self) -> Option<(RankSends, RankSums)>;

    /// What is computed and how, in words.
    fn words(&self) -> String;

    /// The first line of the product's plan.
    fn explain(&self) -> Result<String, Error>;

    /// The parts of the operands of this rank.
    fn a(&self) -> Result<Buffer<T>, Error>;
    fn b(&self) -> &Buffer<T>;
    fn c(&self) -> &Buffer<C>;

    /// The memory into which A is gathered, if it is.
    fn gathered(&self) -> Option<&Buffer<T>>;

    /// The flags of this rank for which kernels and streams wait.
    fn flags(&self) -> Vec<&Flags>;
}

/// A rank's device.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) rank: usize,
    /// With the stream in which kernels run.
    pub(crate) device: Device,
    /// With the stream of copies.
    pub(crate) copies: Device,
    /// With a stream that waits for what other ranks say.
    pub(crate) news: Device,
}

impl Member {
    pub(crate) fn new(rank: usize, device: &Device) -> Result<Member, Error> {
        Ok(Member {
            rank,
            device: device.clone(),
            copies: device.on_new_stream()?,
            news: device.on_new_stream()?,
        })
    }

    /// A buffer of zeros.
    pub(crate) fn buffer<T: Element>(&self, elements: i64) -> Result<Buffer<T>, Error> {
        Ok(self.device.zeros(elements as usize)?)
    }
}

/// A number of pieces in words.
fn counted(pieces: i64) -> String {
    let plural = if pieces == 1 { "" } else { "s" };
    format!("{pieces} piece{plural}")
}

/// A layout `(a,b,..):(x,y,..)` of positive extents.
pub(crate) fn strided<const N: usize>(modes: [(i64, i64); N]) -> Result<Layout, Error> {
    let leaves = modes.map(|(extent, stride)| Layout::leaf(extent, stride));
    let leaves = leaves.into_iter().collect::<Result<Vec<_>, _>>();
    let layout = leaves.and_then(|leaves| Layout::concat(&leaves));
    Ok(layout.map_err(colex_tensor::Error::from)?)
}

/// Matrices of a batch in larger memory: for A and C the memory, where the first matrix begins, and how far the next one is.
struct RankBatch<'a, T, C> {
    /// Rows, columns, K, and the number of matrices.
    sizes: [i64; 4],
    a: (&'a Buffer<T>, i64, i64),
    b: &'a Buffer<T>,
    c: (&'a Buffer<C>, i64, i64),
}

impl<T: GemmElement, C: GemmElement> RankBatch<'_, T, C> {
    /// What `act` makes of the product, which is one in chunks from `first` on if the kernel takes chunks: these have whole sums.
    fn product<X>(
        &self,
        (in_chunks, first): (bool, i64),
        act: impl FnOnce(Gemm<'_, T, C>) -> Result<X, Error>,
    ) -> Result<X, Error> {
        let [rows, n, k, count] = self.sizes;
        let (a, from, apart) = self.a;
        let a = a.slice(from as usize..)?;
        let a = View::new(&a, strided([(rows, k), (k, 1), (count, apart)])?)?;
        let b = View::new(self.b, strided([(n, k), (k, 1), (count, 0)])?)?;
        let (c, from, apart) = self.c;
        let mut c = c.slice(from as usize..)?;
        let c = ViewMut::new(&mut c, strided([(rows, n), (n, 1), (count, apart)])?)?;
        let product = Gemm::new(&a, &b, &c);
        if in_chunks {
            act(product.chunks(ChunkOrder::Descending, first))
        } else {
            act(product)
        }
    }
}

/// A piece of memory, by its number and the number of all.
fn piece_of<X: Element>(of: &Buffer<X>, (piece, pieces): (i64, i64)) -> Result<Buffer<X>, Error> {
    let each = of.len() / pieces as usize;
    let first = piece as usize * each;
    Ok(of.slice(first..first + each)?)
}
