//! How fast a device is, for the models that choose plans.

use colex_atom::Arch;
use colex_ir::launch::Limits;

/// The rates of a device, as its driver tells them. A model of time multiplies what it was fitted to on one device by what
/// another has of them.
///
/// ```
/// use colex_device::{Arch, Device, Rates};
///
/// let h200 = Device::simulator(Arch::Sm90a).rates();
/// assert_eq!(h200.memory(), 4_916_736); // bytes in a microsecond
/// let h100 = Rates { memory_clock: 2_619_000, bus: 5120, ..h200 };
/// assert_eq!(h100.memory(), 3_352_320);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// The multiprocessors.
    pub multiprocessors: u32,
    /// The highest clock of the multiprocessors, in kilohertz.
    pub clock: u32,
    /// The highest clock of the memory, in kilohertz.
    pub memory_clock: u32,
    /// The bits that the memory moves at each edge of its clock. The slices of the L2 cache belong to the controllers
    /// of this bus, so that its rate grows with it too.
    pub bus: u32,
}

impl Rates {
    /// Returns the rates of a data-centre part of an architecture: of an H200 for `sm_90` and later, of an A100 for `sm_80` to
    /// `sm_89`, and of a V100 before (NVIDIA's data sheets), with the multiprocessors of [`Limits::of`].
    ///
    /// ```
    /// use colex_device::{Arch, Rates};
    ///
    /// assert_eq!(Rates::of(Arch::Sm80).memory(), 2_039_040); // bytes in a microsecond
    /// ```
    pub fn of(arch: Arch) -> Rates {
        let (clock, memory_clock, bus) = match arch {
            Arch::Sm50 | Arch::Sm61 | Arch::Sm70 | Arch::Sm75 => (1_530_000, 877_000, 4096),
            Arch::Sm80 | Arch::Sm86 | Arch::Sm89 => (1_410_000, 1_593_000, 5120),
            _ => (1_980_000, 3_201_000, 6144),
        };
        Rates {
            multiprocessors: Limits::of(arch).multiprocessors,
            clock,
            memory_clock,
            bus,
        }
    }

    /// Returns the bytes that the memory moves in a microsecond: one bit of each line of the bus at both edges of the clock.
    ///
    /// ```
    /// use colex_device::{Arch, Rates};
    ///
    /// let rates = Rates { memory_clock: 1_000_000, bus: 8, ..Rates::of(Arch::Sm90a) };
    /// assert_eq!(rates.memory(), 2_000); // 2 GB in a second
    /// ```
    pub fn memory(&self) -> u64 {
        // Two edges, 8 bits in a byte, 1000 kilohertz in a megahertz.
        u64::from(self.memory_clock) * u64::from(self.bus) / (8 * 1000 / 2)
    }

    /// The rates with those of the architecture in the place of what a driver does not tell.
    pub(crate) fn or_of(self, arch: Arch) -> Rates {
        let usual = Rates::of(arch);
        let has_memory = self.memory_clock > 0 && self.bus > 0;
        let of_memory = if has_memory { self } else { usual };
        Rates {
            multiprocessors: self.multiprocessors.max(1),
            clock: if self.clock > 0 {
                self.clock
            } else {
                usual.clock
            },
            memory_clock: of_memory.memory_clock,
            bus: of_memory.bus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of small and of extreme numbers, against the same in 128 bits.
    #[test]
    fn law_the_memory_has_a_rate() {
        let numbers = [0, 1, 2, 3, 7, 999, 1000, 3_201_000, u32::MAX - 1, u32::MAX];
        let mut cases = 0;
        for (memory_clock, bus) in numbers
            .iter()
            .flat_map(|c| numbers.iter().map(move |b| (*c, *b)))
        {
            let rates = Rates {
                memory_clock,
                bus,
                ..Rates::of(Arch::Sm90a)
            };
            let exact = u128::from(memory_clock) * u128::from(bus) * 2 / 8 / 1000;
            assert_eq!(u128::from(rates.memory()), exact);
            cases += 1;
        }
        println!("law the_memory_has_a_rate: {cases} cases");
    }

    /// A clock of the memory without a bus says nothing, nor does a bus without a clock.
    #[test]
    fn what_a_driver_does_not_tell_is_that_of_the_architecture() {
        let usual = Rates::of(Arch::Sm90a);
        let told = Rates {
            multiprocessors: 78,
            clock: 1_755_000,
            memory_clock: 2_619_000,
            bus: 5120,
        };
        assert_eq!(told.or_of(Arch::Sm90a), told);
        let no_clock = Rates { clock: 0, ..told };
        assert_eq!(no_clock.or_of(Arch::Sm90a).clock, usual.clock);
        for half in [
            Rates { bus: 0, ..told },
            Rates {
                memory_clock: 0,
                ..told
            },
        ] {
            let whole = half.or_of(Arch::Sm90a);
            assert_eq!(whole.memory(), usual.memory());
            assert_eq!((whole.multiprocessors, whole.clock), (78, 1_755_000));
        }
    }
}
