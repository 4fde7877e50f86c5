//! Flags that a kernel sets when a chunk of C is in memory, so that copy engines take it away while the kernel runs.

use colex_atom::Ty;
use colex_device::{Device, ViewMut};
use colex_ir::{Access, AtomicOp, Compare, Memory, Order, Reg, RegType, Scope, Space, Type};
use colex_tensor::{Arg, Builder, Index, Tensor};

use super::refuse;
use crate::error::Error;
use crate::gemm::call::Gemm;
use crate::gemm::groups::call::contiguous;
use crate::gemm::groups::tiles;
use crate::gemm::problem::{GemmElement, MOST_EXTENT};

/// The words of a call that tells which chunks are stored, unchecked.
#[derive(Clone, Debug)]
pub(crate) struct GivenDepartures {
    counts: Words,
    departed: Words,
    devices: [Device; 2],
}

/// The words in sentences: those that count, and the flags.
const NAMES: [&str; 2] = ["the counts", "the flags of departures"];

/// Words of a number, if they are contiguous.
#[derive(Clone, Copy, Debug)]
struct Words {
    bytes: (u64, u64),
    count: Option<i64>,
}

impl GivenDepartures {
    /// The addresses in the order of the kernel's parameters.
    pub(crate) fn addresses(&self) -> [u64; 2] {
        [self.counts, self.departed].map(|words| words.bytes.0)
    }

    /// The memory of both.
    pub(crate) fn memory(&self) -> impl Iterator<Item = (String, (u64, u64))> {
        let words = NAMES.into_iter().zip([self.counts, self.departed]);
        words.map(|(name, words)| (name.to_string(), words.bytes))
    }

    /// Checks the numbers of words.
    ///
    /// # Errors
    ///
    /// Returns an error unless each chunk has a count and a flag, and the round a word behind the flags.
    pub(crate) fn checked(&self, chunks: i64) -> Result<(), Error> {
        let [counts, departed] = NAMES;
        for (name, words, wanted) in [
            (counts, self.counts, chunks),
            (departed, self.departed, chunks + 1),
        ] {
            if words.count != Some(wanted) {
                let found = match words.count {
                    Some(count) => count.to_string(),
                    None => "not contiguous".to_string(),
                };
                return refuse(format!(
                    "{name} are {found}: {chunks} chunks have {wanted}, a count and a flag for each, and the round behind the flags"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the words lie on the device of the product.
    pub(crate) fn check_devices(&self, device: &Device) -> Result<(), Error> {
        for (name, own) in NAMES.into_iter().zip(&self.devices) {
            device.check_same(name, own)?;
        }
        Ok(())
    }
}

/// The arguments behind those of the flags of arrivals.
pub(crate) fn layouts(chunks: i64) -> [colex_layout::Layout; 2] {
    [tiles::form(chunks), tiles::form(chunks + 1)]
}

/// The arguments of a kernel at these addresses.
pub(crate) fn arguments<'l>(
    addresses: &[u64],
    layouts: &'l [colex_layout::Layout; 2],
) -> impl Iterator<Item = Arg<'l>> {
    let both = addresses.iter().zip(layouts);
    both.map(|(address, layout)| Arg::checked(*address, layout))
}

impl<'a, T: GemmElement, C: GemmElement> Gemm<'a, T, C> {
    /// Sets a flag for each chunk of C when it is in memory, while the kernel runs: the kernel counts what is stored of each chunk in `counts`, and
    /// then sets the flag of the chunk in `departed` to the number of the round, at the scope of the system. So a stream that waits
    /// for the flag copies the chunk while the kernel computes the next one.
    ///
    /// `departed` has a flag for each chunk and, as the last word, the number of the round, which was written before the kernel begins.
    /// `counts` are zeros before the first launch, and the kernel leaves zeros.
    ///
    /// ```
    /// use colex_atom::Arch;
    /// use colex_gpu::gemm::ChunkOrder;
    /// use colex_gpu::{Device, Gemm, View, ViewMut};
    /// use half::bf16;
    ///
    /// let device = Device::simulator(Arch::Sm90a);
    /// let (a, b) = (device.upload(&[bf16::ONE; 2 * 8 * 16])?, device.upload(&[bf16::ONE; 8 * 16])?);
    /// let (mut c, mut counts) = (device.poisoned::<f32>(2 * 8 * 8)?, device.zeros::<u32>(2)?);
    /// let mut departed = device.upload(&[0u32, 0, 7])?; // the seventh round
    /// {
    ///     let (a, b) = (View::new(&a, "(8,16,2):(16,1,128)")?, View::new(&b, "(8,16,2):(16,1,0)")?);
    ///     let rows = ViewMut::new(&mut c, "(8,8,2):(8,1,64)")?;
    ///     let product = Gemm::new(&a, &b, &rows).chunks(ChunkOrder::Ascending, 1);
    ///     product.departures(&counts.view_mut(2)?, &departed.view_mut(3)?).run()?;
    /// }
    /// assert_eq!((departed.download()?, counts.download()?), (vec![7, 7, 7], vec![0, 0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn departures(mut self, counts: &ViewMut<'a, u32>, departed: &ViewMut<'a, u32>) -> Self {
        let of = |words: &ViewMut<'a, u32>| Words {
            bytes: words.bytes(),
            count: contiguous(words),
        };
        let chunks = self.chunks.get_or_insert_default();
        chunks.departs = Some(GivenDepartures {
            counts: of(counts),
            departed: of(departed),
            devices: [counts, departed].map(|words| words.device().clone()),
        });
        self
    }
}

/// The words in which a kernel counts and tells: its parameters.
pub(crate) struct Departures {
    counts: Tensor,
    departed: Tensor,
}

impl Departures {
    /// Declares the words.
    pub(crate) fn declare(k: &mut Builder) -> Departures {
        Departures {
            counts: k.tensor("counts", Ty::U32, tiles::form(16)),
            departed: k.tensor("departed", Ty::U32, tiles::form(16)),
        }
    }

    /// Declares that each chunk has a count and a flag, which the launch checks.
    pub(crate) fn agree(&self, k: &mut Builder, chunks: &Index) {
        let apart = self.counts.extent(0) - chunks;
        k.within(apart, 0..1);
        let apart = self.departed.extent(0) - chunks - 1;
        k.within(apart, 0..1);
    }

    /// Counts a part of a chunk whose elements are in memory, in one thread of those that stored it. The last of all parts of the
    /// chunk sets its flag.
    pub(crate) fn tell(&self, k: &mut Builder, chunk: &Index, parts: &Index) {
        let last = self.departed.extent(0) - 1;
        let round = k.within(last, 0..MOST_EXTENT);
        let words = [
            (&self.counts, chunk),
            (&self.departed, chunk),
            (&self.departed, &round),
        ];
        let [count, flag, round] =
            words.map(|(words, at)| k.addresses(&words.elements(at)).regs()[0]);
        let parts = k.value(parts);
        k.emit(|ir| {
            let word = Access::new(Space::Global, Type::U32);
            let before: Reg = ir.reg(RegType::B32);
            // The others' parts come before the flag, so each count releases, and the last one acquires.
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
            let is_last = ir.setp(Compare::Eq, Type::U32, now, parts);
            ir.if_(is_last, |ir| {
                // For the next launch, which begins after this one.
                ir.store(word.order(Order::Relaxed(Scope::Gpu)), count, 0);
                let round = ir.load(word, round);
                ir.store(word.order(Order::Release(Scope::Sys)), flag, round);
            });
        });
    }
}
