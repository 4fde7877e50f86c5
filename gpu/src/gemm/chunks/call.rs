//! What a call says of the chunks of its product.

use std::marker::PhantomData;

use colex_device::{Device, View, ViewMut};
use colex_layout::Layout;

use super::departures::GivenDepartures;
use super::{ChunkForm, ChunkOrder, Chunks, MOST_OWNERS, refuse};
use crate::error::{Error, disjoint};
use crate::gemm::call::Gemm;
use crate::gemm::groups::call::contiguous;
use crate::gemm::problem::GemmElement;

/// The chunks of a call, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct GivenChunks<'a> {
    order: ChunkOrder,
    first: i64,
    arrived: Option<Flags>,
    /// The addresses of the owners' matrices of C, if each chunk has one.
    owners: Vec<(u64, u64)>,
    /// Whether chunks are added to what the owners' matrices hold.
    adds: bool,
    /// Whether the chunk that comes last is left out.
    leaves_last: bool,
    pub(super) departs: Option<GivenDepartures>,
    memory: PhantomData<&'a ()>,
}

/// The flags of chunks.
#[derive(Clone, Debug)]
struct Flags {
    bytes: (u64, u64),
    device: Device,
    /// Their number, if they are contiguous.
    count: Option<i64>,
}

impl Default for GivenChunks<'_> {
    fn default() -> Self {
        GivenChunks {
            order: ChunkOrder::Ascending,
            first: 0,
            arrived: None,
            owners: Vec::new(),
            adds: false,
            leaves_last: false,
            departs: None,
            memory: PhantomData,
        }
    }
}

impl GivenChunks<'_> {
    /// The address of the flags.
    pub(crate) fn flags(&self) -> Option<u64> {
        self.arrived.as_ref().map(|flags| flags.bytes.0)
    }

    /// The addresses of the owners' matrices behind the first.
    pub(crate) fn other_owners(&self) -> impl Iterator<Item = u64> {
        self.owners.iter().skip(1).map(|bytes| bytes.0)
    }

    /// The memory of the flags, of the owners' matrices and of the words that tell which chunks are stored.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let flags = (self.arrived.iter()).map(|flags| ("the flags".to_string(), flags.bytes));
        let owners = (self.owners.iter().enumerate())
            .map(|(owner, bytes)| (format!("C of owner {owner}"), *bytes));
        let departs = self.departs.iter().flat_map(GivenDepartures::memory);
        flags.chain(owners).chain(departs)
    }

    /// The words that tell which chunks are stored.
    pub(crate) fn departs(&self) -> Option<&GivenDepartures> {
        self.departs.as_ref()
    }

    /// Whether each chunk of C has an owner.
    pub(crate) fn has_owners(&self) -> bool {
        !self.owners.is_empty()
    }

    /// The number of chunks, if the owners say it.
    pub(crate) fn count(&self) -> Option<i64> {
        self.has_owners().then_some(self.owners.len() as i64)
    }

    /// The chunks of a product whose matrices have these extents behind them.
    ///
    /// # Errors
    ///
    /// Returns an error unless these are those of one mode, which has the first chunk and as many flags as are given.
    pub(crate) fn checked(&self, behind: &[i64]) -> Result<Chunks, Error> {
        let count = match behind {
            [one] => *one,
            _ => {
                return refuse(format!(
                    "the matrices have {} modes behind them: the chunks are those of one",
                    behind.len()
                ));
            }
        };
        if !(0..count).contains(&self.first) {
            return refuse(format!(
                "chunk {} comes first, and there are {count}, numbered from 0",
                self.first
            ));
        }
        if self.adds && self.owners.len() < 2 {
            return refuse(format!(
                "the chunks are added to what several owners have, and C has {}: a factor of C adds to one matrix",
                match self.owners.len() {
                    0 => "no owners".to_string(),
                    count => format!("{count} owner"),
                }
            ));
        }
        if self.leaves_last && count < 2 {
            return refuse(
                "the last chunk is left out, and there is one: nothing is left to multiply"
                    .to_string(),
            );
        }
        if let Some(departs) = &self.departs {
            departs.checked(count)?;
        }
        if let Some(flags) = &self.arrived {
            match flags.count {
                None => return refuse("the flags are not contiguous".to_string()),
                Some(found) if found != count => {
                    return refuse(format!(
                        "{found} flags for {count} chunks: each chunk has one"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(Chunks {
            form: ChunkForm {
                order: self.order,
                arrives: self.arrived.is_some(),
                owners: self.owners.len(),
                departs: self.departs.is_some(),
                adds: self.adds,
                leaves_last: self.leaves_last,
            },
            first: self.first,
        })
    }

    /// The memory that the kernel writes beside C or the matrix of the first owner: the matrices of the other owners, and the words that tell
    /// which chunks are stored.
    pub(crate) fn written(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let owners = self.owners.iter().enumerate().skip(1);
        let owners = owners.map(|(chunk, bytes)| (format!("C of chunk {chunk}"), *bytes));
        owners.chain(self.departs.iter().flat_map(GivenDepartures::memory))
    }

    /// The memory that the kernel reads: the flags.
    pub(crate) fn read(&self) -> Option<(&'static str, (u64, u64))> {
        self.arrived
            .as_ref()
            .map(|flags| ("the flags", flags.bytes))
    }

    /// Whether a chunk is left out.
    pub(crate) fn leaves_last(&self) -> bool {
        self.leaves_last
    }

    /// Checks that the words lie on the device of the product, and that what the kernel writes overlaps neither what it reads nor anything
    /// else that it writes. C and what `read` names are apart.
    pub(crate) fn check_memory(
        &self,
        device: &Device,
        c: (u64, u64),
        read: &[(&'static str, (u64, u64))],
    ) -> Result<(), Error> {
        if let Some(flags) = &self.arrived {
            device.check_same("the flags", &flags.device)?;
        }
        if let Some(departs) = &self.departs {
            departs.check_devices(device)?;
        }
        let of_c = if self.has_owners() {
            "C of chunk 0"
        } else {
            "C"
        };
        let mut written = vec![(of_c.to_string(), c)];
        for (name, bytes) in self.written() {
            for (other, others) in &written {
                disjoint(other.clone(), *others, name.clone(), bytes)?;
            }
            written.push((name, bytes));
        }
        for (name, bytes) in &written {
            for (other, others) in read.iter().copied().chain(self.read()) {
                disjoint(name.clone(), *bytes, other, others)?;
            }
        }
        Ok(())
    }
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Takes the products of the batch, the chunks, in an order that begins with one of them: where the mode of the batch is the
    /// rank of a device, with the chunk that the device has. Of the bits of C nothing changes. The Hopper kernel takes chunks.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View, ViewMut};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// // Four chunks of 8 rows of A, (M,K,R), and one B for all of them.
    /// let a: Vec<bf16> = (0..4 * 8 * 16).map(|i| bf16::from_f32((i / 128) as f32)).collect();
    /// let (a, b) = (device.upload(&a)?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let mut c = device.poisoned::<f32>(4 * 8 * 8)?;
    /// let a = View::new(&a, "(8,16,4):(16,1,128)")?;
    /// let b = View::new(&b, "(8,16,4):(16,1,0)")?;
    /// let rows = ViewMut::new(&mut c, "(8,8,4):(8,1,64)")?;
    /// // Chunk 2 first, then 1, 0 and 3.
    /// Gemm::new(&a, &b, &rows).chunks(ChunkOrder::Descending, 2).run()?;
    /// drop(rows);
    /// assert_eq!((c.download()?[0], c.download()?[3 * 64]), (0.0, 48.0));
    ///
    /// let rows = ViewMut::new(&mut c, "(8,8,4):(8,1,64)")?;
    /// let error = Gemm::new(&a, &b, &rows).chunks(ChunkOrder::Descending, 4).run().unwrap_err();
    /// assert_eq!(error.to_string(), "batch: chunks: chunk 4 comes first, and there are 4, numbered from 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn chunks(mut self, order: ChunkOrder, first: i64) -> Self {
        let chunks = self.chunks.get_or_insert_default();
        (chunks.order, chunks.first) = (order, first);
        self
    }

    /// Leaves out the chunk that the order puts last: of a rank's own chunk, another product computes the term, whose epilogue adds
    /// the terms of the other ranks. The matrix of C of this chunk is not written.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View, ViewMut};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// // Three chunks of 8 rows of A, (M,K,R), and one B for all of them.
    /// let (a, b) = (device.upload(&[bf16::ONE; 3 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let mut c = device.upload(&[-1f32; 3 * 8 * 8])?;
    /// let a = View::new(&a, "(8,16,3):(16,1,128)")?;
    /// let b = View::new(&b, "(8,16,3):(16,1,0)")?;
    /// let rows = ViewMut::new(&mut c, "(8,8,3):(8,1,64)")?;
    /// // Chunk 2, then chunk 0, and not chunk 1.
    /// Gemm::new(&a, &b, &rows).chunks(ChunkOrder::Ascending, 2).but_last().run()?;
    /// drop(rows);
    /// let c = c.download()?;
    /// assert_eq!((c[0], c[64], c[128]), (16.0, -1.0, 16.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The call returns an error if there is one chunk.
    pub fn but_last(mut self) -> Self {
        self.chunks.get_or_insert_default().leaves_last = true;
        self
    }

    /// Sets flags, one for each chunk of A, whose numbers say in which round a chunk came last. The flag of the chunk that
    /// [`chunks`](Gemm::chunks) puts first has the number of this round before the kernel begins. Before its first load of
    /// another chunk, the kernel waits until the chunk's flag has at least that number: it acquires the flag at the scope of
    /// the system, so that a copy engine or another device may write the chunk and then the flag while the kernel runs.
    ///
    /// Nothing but that releases the kernel: where a chunk may never come, something else has to write its flag after some time.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View, ViewMut};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, b) = (device.upload(&[bf16::ONE; 2 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let mut c = device.poisoned::<f32>(2 * 8 * 8)?;
    /// let a = View::new(&a, "(8,16,2):(16,1,128)")?;
    /// let b = View::new(&b, "(8,16,2):(16,1,0)")?;
    /// let rows = ViewMut::new(&mut c, "(8,8,2):(8,1,64)")?;
    /// let arrived = device.upload(&[7u32, 7])?; // the seventh round, and both chunks are there
    /// let product = Gemm::new(&a, &b, &rows).chunks(ChunkOrder::Ascending, 1);
    /// product.clone().arrivals(&arrived.view(2)?).run()?;
    ///
    /// let three = device.upload(&[7u32; 3])?;
    /// let error = product.arrivals(&three.view(3)?).run().unwrap_err();
    /// assert_eq!(error.to_string(), "batch: chunks: 3 flags for 2 chunks: each chunk has one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn arrivals(mut self, arrived: &View<'a, u32>) -> Self {
        let chunks = self.chunks.get_or_insert_default();
        chunks.arrived = Some(Flags {
            bytes: arrived.bytes(),
            device: arrived.device().clone(),
            count: contiguous(arrived),
        });
        self
    }

    /// Builds the products of a batch of A (M,K,R) and B (N,K,R), each of which is stored into a matrix C (M,N) of its own, its
    /// owner's. These may lie in the memory of other devices, to which this one has access. All have one layout, whose
    /// rows are whole vectors of 16 bytes at multiples of 16 bytes, so that TMA stores them.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, b) = (device.upload(&[bf16::ONE; 2 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let (mut c, mut d) = (device.poisoned::<f32>(64)?, device.poisoned::<f32>(64)?);
    /// let a = View::new(&a, "(8,16,2):(16,1,128)")?;
    /// let b = View::new(&b, "(8,16,2):(16,1,0)")?;
    /// let owners = [c.view_mut((8, 8))?, d.view_mut((8, 8))?];
    /// Gemm::to_owners(&a, &b, &owners)?.chunks(ChunkOrder::Ascending, 1).run()?;
    /// drop(owners);
    /// assert_eq!((c.download()?[63], d.download()?[0]), (16.0, 16.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error for no owner or more than 16, or if their matrices have different layouts.
    pub fn to_owners(
        a: &View<'a, T>,
        b: &View<'a, T>,
        c: &[ViewMut<'a, C>],
    ) -> Result<Gemm<'a, T, C>, Error> {
        let [first, others @ ..] = c else {
            return refuse("C has no owners: there is one for each chunk".to_string());
        };
        if c.len() > MOST_OWNERS {
            return refuse(format!(
                "C has {} owners: a kernel takes up to {MOST_OWNERS}",
                c.len()
            ));
        }
        let text = |view: &View<'_, C>| match view.layout() {
            Some(layout) => layout.to_string(),
            None => view.shape().to_string(),
        };
        let values = |view: &View<'_, C>| view.layout().map(Layout::to_static);
        for (at, other) in others.iter().enumerate() {
            if other.shape() != first.shape() || values(other) != values(first) {
                return refuse(format!(
                    "C of chunk {} is {}, and that of chunk 0 {}: all have one layout",
                    at + 1,
                    text(other),
                    text(first)
                ));
            }
        }
        let mut gemm = Gemm::new(a, b, first);
        gemm.chunks = Some(GivenChunks {
            owners: c.iter().map(|c| c.bytes()).collect(),
            ..GivenChunks::default()
        });
        Ok(gemm)
    }

    /// Adds each chunk to what the matrix of its owner holds, in place of a store: by reductions of TMA
    /// (`cp.reduce.async.bulk.tensor` with `.add`), one for each part of a tile. So the products of several devices have one sum
    /// in the memory of an owner, which has to hold zeros, or a first term, before the first of them adds.
    ///
    /// Sums have the type of C: f32, f16 or bf16, and are rounded to it at each addition, in the order in which the additions
    /// happen. So the last bits of two runs may differ, unless all sums are exact.
    ///
    /// The PTX ISA makes such an addition atomic among the kernels of one device. For those of several devices it promises nothing:
    /// links between devices may carry them to the device that has the memory.
    /// [`Ranks::reductions_meet`](colex_sim::Ranks::reductions_meet) says so to the simulator.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, b) = (device.upload(&[bf16::ONE; 2 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let (mut c, mut d) = (device.upload(&[0.5f32; 64])?, device.upload(&[100f32; 64])?);
    /// let a = View::new(&a, "(8,16,2):(16,1,128)")?;
    /// let b = View::new(&b, "(8,16,2):(16,1,0)")?;
    /// let owners = [c.view_mut((8, 8))?, d.view_mut((8, 8))?];
    /// Gemm::to_owners(&a, &b, &owners)?.chunks(ChunkOrder::Ascending, 1).adds().run()?;
    /// drop(owners);
    /// assert_eq!((c.download()?[63], d.download()?[0]), (16.5, 116.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The call returns an error if C has fewer than two owners ([`to_owners`](Gemm::to_owners)), or elements that TMA does not add.
    pub fn adds(mut self) -> Self {
        self.chunks.get_or_insert_default().adds = true;
        self
    }
}
