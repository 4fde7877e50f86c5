//! The hook through which a family hands every operand: of a mutant, one of them is changed.

use std::collections::HashMap;
use std::fmt;

use colex_atom::{Arch, Ty};
use colex_gpu::tensor::{Builder, Index};
use colex_layout::{Int, Layout, Swizzle};

/// What of an operand is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Type,
    Layout,
    Swizzle,
    Count,
    /// Which of several operations, formulas or treatments of what lies outside.
    Operation,
    Space,
    Coordinate,
    Argument,
    Grid,
    /// The calls of a pipeline's participants: left out, twice, too early, of another one.
    Protocol,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Type => "type",
            Kind::Layout => "layout",
            Kind::Swizzle => "swizzle",
            Kind::Count => "count",
            Kind::Operation => "operation",
            Kind::Space => "space",
            Kind::Coordinate => "coordinate",
            Kind::Argument => "argument",
            Kind::Grid => "grid",
            Kind::Protocol => "protocol",
        })
    }
}

/// SplitMix64: the same draws on every run.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    pub(crate) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// A call of the builder and what of it is changed.
pub(crate) type Site = (&'static str, Kind);

/// Numbers the operands of a kernel as they are built, and changes the one it is told to.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) sites: Vec<Site>,
    pub(crate) target: Option<usize>,
    pub(crate) random: Random,
    /// How many other values each operand may have, where they are few.
    pub(crate) values: Vec<Option<usize>>,
    /// Which of the few.
    pub(crate) choice: Option<usize>,
    /// What the change is, in words.
    pub(crate) change: String,
    /// By how much coordinates were moved, for the reference.
    pub(crate) shifts: HashMap<&'static str, i64>,
}

impl Hook {
    pub(crate) fn new(target: Option<usize>, seed: u64) -> Hook {
        Hook {
            sites: Vec::new(),
            target,
            random: Random(seed),
            values: Vec::new(),
            choice: None,
            change: String::new(),
            shifts: HashMap::new(),
        }
    }

    fn is_here(&mut self, call: &'static str, kind: Kind) -> bool {
        self.sites.push((call, kind));
        self.values.push(None);
        self.target == Some(self.sites.len() - 1)
    }

    /// The number of one of `values` values.
    fn one_of(&mut self, values: usize) -> usize {
        match self.choice {
            Some(choice) => choice % values,
            None => self.random.below(values),
        }
    }

    /// The operand, or one of the others.
    pub(crate) fn pick<T: Clone>(
        &mut self,
        call: &'static str,
        kind: Kind,
        own: T,
        others: &[T],
    ) -> T {
        let is_here = self.is_here(call, kind);
        self.values.pop();
        self.values.push(Some(others.len()));
        if !is_here {
            return own;
        }
        let i = self.one_of(others.len());
        self.change = format!("other {i}");
        others[i].clone()
    }

    pub(crate) fn ty(&mut self, call: &'static str, own: Ty) -> Ty {
        let is_here = self.is_here(call, Kind::Type);
        let others: Vec<Ty> = Ty::ALL.into_iter().filter(|ty| *ty != own).collect();
        self.values.pop();
        self.values.push(Some(others.len()));
        if !is_here {
            return own;
        }
        let ty = others[self.one_of(others.len())];
        self.change = format!("{own} -> {ty}");
        ty
    }

    /// A number of threads, stages, arrivals or bytes.
    pub(crate) fn count(&mut self, call: &'static str, own: i64) -> i64 {
        if !self.is_here(call, Kind::Count) {
            return own;
        }
        let r = &mut self.random;
        let by = r.range(1, 9);
        let new = match r.below(14) {
            0 => own * 2,
            1 => own / 2,
            2 => own + by,
            3 => own - by,
            4 => own + 32,
            5 => own - 32,
            6 => own * by,
            7 => by,
            8 => 0,
            9 => 1 << r.range(0, 40),
            10 => -r.range(1, 200),
            11 => own + r.range(1, 200),
            _ => r.range(1, 2100),
        };
        self.change = format!("{own} -> {new}");
        new
    }

    /// Extents of a tile.
    pub(crate) fn tile<const N: usize>(&mut self, call: &'static str, own: [i64; N]) -> [i64; N] {
        if !self.is_here(call, Kind::Layout) {
            return own;
        }
        let mut new = own;
        let i = self.random.below(N);
        let by = by(&mut self.random);
        match self.random.below(6) {
            0 => new[i] *= 2,
            1 => new[i] = (new[i] / 2).max(1),
            2 => new[i] += by,
            3 => new[i] = (new[i] - by).max(1),
            4 => new.reverse(),
            _ => new[i] = by,
        }
        self.change = format!("{own:?} -> {new:?}");
        new
    }

    pub(crate) fn layout(&mut self, call: &'static str, kind: Kind, own: &Layout) -> Layout {
        if !self.is_here(call, kind) {
            return own.clone();
        }
        let new = changed(&mut self.random, own);
        self.change = format!("{own} -> {new}");
        new
    }

    pub(crate) fn swizzle(&mut self, call: &'static str, own: Swizzle) -> Swizzle {
        if !self.is_here(call, Kind::Swizzle) {
            return own;
        }
        let r = &mut self.random;
        let new = loop {
            let (bits, base) = (r.range(0, 4), r.range(0, 5));
            let shift = (bits + r.range(0, 3)) * r.one(&[1, 1, 1, -1]);
            if let Ok(new) = Swizzle::new(bits, base, shift)
                && new != own
            {
                break new;
            }
        };
        self.change = format!("{own} -> {new}");
        new
    }

    /// A coordinate that the reference follows by name.
    pub(crate) fn moved(&mut self, call: &'static str, name: &'static str, own: &Index) -> Index {
        if !self.is_here(call, Kind::Coordinate) {
            return own.clone();
        }
        let by = match self.random.below(4) {
            0 => -1,
            1 => 1,
            2 => self.random.range(-90, -1),
            _ => self.random.range(1, 90),
        };
        self.shifts.insert(name, by);
        self.change = format!("{name} {by:+}");
        own + by
    }

    /// A place or a thread number: for every change of it, the numbers are to stay right.
    pub(crate) fn place(&mut self, call: &'static str, own: &Index) -> Index {
        if !self.is_here(call, Kind::Coordinate) {
            return own.clone();
        }
        let r = &mut self.random;
        let by = by(r) * r.one(&[1, 1, 4]);
        let (new, words) = match r.below(8) {
            6 => (of_another_builder(), "of another builder".to_string()),
            0 => (own + by, format!("+ {by}")),
            1 => (own - by, format!("- {by}")),
            2 => (own % by, format!("% {by}")),
            3 => (own / 2 * 2, "/ 2 * 2".to_string()),
            4 => (Index::constant(by), by.to_string()),
            5 => (own * 2, "* 2".to_string()),
            _ => (own.clone() / by, format!("/ {by}")),
        };
        self.change = words;
        new
    }

    /// A place, a stage or a rank: a change that leaves those there are.
    pub(crate) fn beyond(&mut self, call: &'static str, own: &Index) -> Index {
        if !self.is_here(call, Kind::Coordinate) {
            return own.clone();
        }
        let by = by(&mut self.random) * self.random.one(&[1, 1, 4]);
        let (new, words) = match self.random.below(4) {
            2 => (of_another_builder(), "of another builder".to_string()),
            0 => (own + by, format!("+ {by}")),
            1 => (own - by, format!("- {by}")),
            _ => (own * (by + 1) + 1, format!("* {} + 1", by + 1)),
        };
        self.change = words;
        new
    }

    pub(crate) fn shift(&self, name: &str) -> i64 {
        self.shifts.get(name).copied().unwrap_or(0)
    }
}

/// The number of a thread, as another kernel has it.
fn of_another_builder() -> Index {
    Builder::new("other", Arch::Sm90a, 1).thread()
}

/// How much is added, mostly a little.
fn by(r: &mut Random) -> i64 {
    match r.below(2) {
        0 => r.range(1, 17),
        _ => r.range(1, 150),
    }
}

/// The text of a tuple with other leaves.
fn written(like: &str, leaves: &[Int]) -> String {
    let mut leaves = leaves.iter();
    let mut text = String::new();
    let mut inside = false;
    for c in like.chars() {
        let is_leaf = !matches!(c, '(' | ')' | ',');
        if is_leaf && !inside {
            text += &leaves.next().expect("as many").to_string();
        } else if !is_leaf {
            text.push(c);
        }
        inside = is_leaf;
    }
    text
}

/// A layout that differs in one leaf, in the order of its strides, or in how its modes stand; a few differ in two.
pub(crate) fn changed(r: &mut Random, own: &Layout) -> Layout {
    let new = changed_once(r, own);
    match r.below(5) {
        0 => {
            let twice = changed_once(r, &new);
            if twice.to_string() == own.to_string() {
                new
            } else {
                twice
            }
        }
        _ => new,
    }
}

fn changed_once(r: &mut Random, own: &Layout) -> Layout {
    loop {
        let mut extents: Vec<Int> = own.leaves().iter().map(|l| l.extent).collect();
        let mut strides: Vec<Int> = own
            .leaves()
            .iter()
            .map(|l| l.stride.coefficient())
            .collect();
        let n = extents.len();
        let (i, j) = (r.below(n), r.below(n));
        let by = by(r);
        let (e, d) = (extents[i].value(), strides[i].value());
        match r.below(12) {
            0 => strides[i] = strides[i].with_value(d + by),
            1 => strides[i] = strides[i].with_value(d - by),
            2 => strides[i] = strides[i].with_value(0),
            3 => strides[i] = strides[i].with_value(-d),
            4 => strides[i] = strides[i].with_value(d * 2),
            5 => strides[i] = strides[i].with_value(d / 2),
            6 => strides.swap(i, j),
            7 => extents.swap(i, j),
            8 => extents[i] = extents[i].with_value(e + by),
            9 => extents[i] = extents[i].with_value((e - by).max(1)),
            10 => {
                strides[i] = match strides[i] {
                    Int::Static(d) => Int::Dynamic(d),
                    Int::Dynamic(d) => Int::Static(d),
                }
            }
            _ => {
                extents[i] = match extents[i] {
                    Int::Static(n) => Int::Dynamic(n),
                    Int::Dynamic(n) => Int::Static(n),
                }
            }
        }
        let like = own.shape().to_string();
        let text = format!("{}:{}", written(&like, &extents), written(&like, &strides));
        if let Ok(new) = text.parse::<Layout>()
            && new.to_string() != own.to_string()
        {
            return new;
        }
    }
}
