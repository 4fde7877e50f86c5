//! Shared-memory banks: how many words of one access meet in a bank.

use std::ops::Range;

use crate::error::{Error, ErrorKind};

use colex_layout::{Int, IntoLayout};

/// The banks of a memory: word `w` lies in bank `w mod count`, and one pass moves one word of each bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Banks {
    count: i64,
    word: i64,
}

impl Banks {
    /// 32 banks of 4 bytes: the shared memory of NVIDIA GPUs from compute capability 5.0 on
    /// (CUDA C++ Programming Guide, "Shared Memory").
    pub const SHARED: Self = Self { count: 32, word: 4 };

    /// Returns `count` banks, whose words have `word` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the two is not a power of two, or both together pass 2^31.
    pub fn new(count: i64, word: i64) -> Result<Self, Error> {
        let is_power = |n: i64| n > 0 && n & (n - 1) == 0;
        let is_right = is_power(count) && is_power(word);
        if is_right && count.checked_mul(word).is_some_and(|row| row <= 1 << 31) {
            Ok(Self { count, word })
        } else {
            Err(ErrorKind::Access {
                operation: "Banks",
                of: format!("{count} banks of {word} bytes"),
                why: "both are powers of two, and their product is at most 2^31".into(),
            }
            .into())
        }
    }

    /// Returns how many banks there are; a power of two.
    #[must_use]
    pub const fn count(self) -> i64 {
        self.count
    }

    /// Returns the bytes of a word; a power of two.
    #[must_use]
    pub const fn word(self) -> i64 {
        self.word
    }

    /// Returns the bytes that one pass can move.
    #[must_use]
    pub const fn row(self) -> i64 {
        self.count * self.word
    }

    /// Returns the bank of a byte address.
    #[must_use]
    pub const fn bank(self, byte: i64) -> i64 {
        byte.div_euclid(self.word).rem_euclid(self.count)
    }
}

/// The most lanes of one [`Access`]: 65,536, 64 times those of the largest block.
pub const MAX_LANES: i64 = 1 << 16;

fn check_lanes(name: &str, lanes: i64) -> Result<(), Error> {
    if lanes <= MAX_LANES {
        return Ok(());
    }
    let (of, count, most) = (name.into(), lanes, MAX_LANES);
    Err(ErrorKind::TooManyLanes { of, count, most }.into())
}

/// One access that many lanes make together: a byte offset for each, and the bytes that each moves.
///
/// # Example
///
/// ```
/// use colex_atom::{Access, Banks};
/// // 8 lanes read 16 bytes each, down a column of a tile with rows of 128 bytes.
/// let column = Access::new("column", "8:64", 2, 16)?;
/// assert_eq!(column.conflicts(Banks::SHARED).degree(), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    name: String,
    offsets: Vec<i64>,
    width: i64,
}

impl Access {
    /// Returns the access in which lane `i` starts at element `lanes.at(i)` of `element` bytes, and moves `width`
    /// bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Access::from_bytes`], and an error for offsets beyond 64 bits or strides that are not
    /// integers.
    pub fn new(
        name: &str,
        lanes: impl IntoLayout,
        element: i64,
        width: i64,
    ) -> Result<Self, Error> {
        let lanes = &lanes.into_layout()?;
        check_lanes(name, lanes.size())?;
        let bytes = lanes
            .table()?
            .into_iter()
            .map(|x| Int::from(x).times(element.into()).map(Int::value));
        Self::from_bytes(name, bytes.collect::<Result<_, _>>()?, width)
    }

    /// Returns the access with these byte offsets, one a lane.
    ///
    /// # Errors
    ///
    /// Returns an error if `width` is not a power of two up to 16, or a lane's offset is negative or not a multiple of
    /// it: the hardware refuses such accesses. Returns an error for more than [`MAX_LANES`] lanes.
    pub fn from_bytes(name: &str, offsets: Vec<i64>, width: i64) -> Result<Self, Error> {
        check_lanes(name, i64::try_from(offsets.len()).unwrap_or(i64::MAX))?;
        let refuse = |why| ErrorKind::Access {
            operation: "Access",
            of: name.into(),
            why,
        };
        if !matches!(width, 1 | 2 | 4 | 8 | 16) {
            return Err(refuse(format!("a lane moves 1, 2, 4, 8 or 16 bytes, not {width}")).into());
        }
        let bad = offsets.iter().position(|x| *x < 0 || x % width != 0);
        match bad {
            Some(lane) => {
                let at = offsets[lane];
                Err(refuse(format!(
                    "lane {lane} starts at byte {at}, not at a multiple of {width}"
                ))
                .into())
            }
            None => Ok(Self {
                name: name.into(),
                offsets,
                width,
            }),
        }
    }

    /// Returns what the access is called in explanations.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the byte offset of each lane.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// Returns the bytes that each lane moves.
    #[must_use]
    pub const fn width(&self) -> i64 {
        self.width
    }

    /// Returns the same access with every offset replaced, as by a swizzle.
    #[must_use]
    pub fn map(&self, f: impl Fn(i64) -> i64) -> Self {
        Self {
            name: self.name.clone(),
            offsets: self.offsets.iter().map(|x| f(*x)).collect(),
            width: self.width,
        }
    }

    /// Returns the lanes that are served together: as many as fill one row of the banks.
    ///
    /// 4 bytes or fewer a lane: 32 lanes; 8 bytes: 16 lanes; 16 bytes: 8 lanes.
    pub fn phases(&self, banks: Banks) -> impl Iterator<Item = Range<usize>> + use<> {
        let lanes = banks.lanes(self.width);
        let end = self.offsets.len();
        (0..end)
            .step_by(lanes)
            .map(move |from| from..end.min(from + lanes))
    }

    /// Returns how the words of each phase fall on the banks.
    #[must_use]
    pub fn conflicts(&self, banks: Banks) -> Conflicts {
        let phases = self.phases(banks).map(|lanes| {
            let starts = self.offsets[lanes.clone()].iter().copied();
            banks.phase(lanes, starts, self.width)
        });
        Conflicts {
            phases: phases.collect(),
        }
    }
}

impl Banks {
    /// Returns how many lanes that move `width` bytes each are served together: as many as fill one row of the banks.
    #[must_use]
    pub fn lanes(self, width: i64) -> usize {
        usize::try_from(self.row() / width.max(self.word))
            .unwrap_or(1)
            .max(1)
    }

    /// Returns how the words of lanes that are served together fall on the banks. Each of them begins at one of
    /// `starts` and moves `width` bytes; lanes that name the same word share it.
    #[must_use]
    pub fn phase(
        self,
        lanes: Range<usize>,
        starts: impl IntoIterator<Item = i64>,
        width: i64,
    ) -> Phase {
        let of_lane = |start: i64| {
            let last = start.saturating_add(width - 1);
            start.div_euclid(self.word)..=last.div_euclid(self.word)
        };
        let words = starts.into_iter().flat_map(of_lane);
        let mut words: Vec<(i64, i64)> = words.map(|w| (w.rem_euclid(self.count), w)).collect();
        words.sort_unstable();
        words.dedup();
        let banks = words.chunk_by(|a, b| a.0 == b.0);
        let (bank, degree) = banks
            .map(|bank| (bank[0].0, bank.len()))
            .max_by_key(|(bank, n)| (*n, std::cmp::Reverse(*bank)))
            .unwrap_or((0, 0));
        Phase {
            lanes,
            degree,
            bank,
            words: words.len(),
        }
    }
}

/// How an access falls on the banks, phase by phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// The phases, in order.
    pub phases: Vec<Phase>,
}

/// The lanes that are served together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The lanes.
    pub lanes: Range<usize>,
    /// The largest number of distinct words in one bank: the number of passes that the phase takes.
    pub degree: usize,
    /// The first bank that has this number of distinct words.
    pub bank: i64,
    /// The number of distinct words that the phase moves.
    pub words: usize,
}

impl Phase {
    /// Returns the passes that as many words take which fall on the banks evenly.
    #[must_use]
    pub fn least(&self, banks: Banks) -> usize {
        self.words
            .div_ceil(usize::try_from(banks.count).unwrap_or(usize::MAX))
    }
}

impl Conflicts {
    /// Returns the worst phase's degree; 1 is free of conflicts.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.phases.iter().map(|p| p.degree).max().unwrap_or(0)
    }

    /// Returns the passes that the whole access takes.
    #[must_use]
    pub fn passes(&self) -> usize {
        self.phases.iter().map(|p| p.degree).sum()
    }

    /// Returns whether every phase takes one pass.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.phases.iter().all(|p| p.degree <= 1)
    }
}
