//! The kernels of a plan: the search for a threshold, the elements that reach it, and their order.

use colex_atom::{Arch, Ty};
use colex_ir::AtomicOp;
use colex_ir::BinaryOp::Add;
use colex_layout::Layout;
use colex_tensor::{
    Builder, Cond, Error, Expr, Fragment, Index, Mask, Outside, Tensor, TensorKernel,
};

use super::plan::{TopKPass, TopKPlan};
use super::problem::TopKProblem;
use crate::reduce::problem::MOST;

/// What a kernel of a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopKStage {
    /// The selection, by blocks that share no row.
    Whole,
    /// The candidates of the parts.
    Part,
    /// The selection among the candidates.
    Combine,
}

/// The bits of a number without its sign.
const MAGNITUDE: i32 = i32::MAX;

/// The bits of an infinite f32, and the key of a NaN.
const INFINITY: i32 = 0x7f80_0000;
const NAN: i32 = 0x7fff_0000;

/// A place that no element has: it comes after all of them.
const EMPTY: i64 = i64::MIN;

/// The words of the state that the threads of a block share: the bin at which a pass ends, the elements of the bins before it, its
/// own, and the number of slots that are taken.
const BIN: i64 = 0;
const BEFORE: i64 = 1;
const OWN: i64 = 2;
const TAKEN: i64 = 3;

/// The rounds of a sort up to which they are written one after the other.
const ROUNDS: i64 = 4;

/// A kernel that is being built.
struct TopKKernel<'a> {
    plan: &'a TopKPlan,
    stage: TopKStage,
    x: Tensor,
    /// What parts leave.
    candidates: Option<Tensor>,
    /// None of parts.
    results: Option<[Tensor; 2]>,
    row: Index,
    part: Index,
    thread: Index,
    /// The extent of what is read, and the number of elements that are selected.
    extent: Index,
    count: Index,
    /// The counts of a pass.
    bins: Tensor,
    state: Tensor,
    slots: Tensor,
}

/// What a thread loads at once: keys, the numbers by which equal keys are ordered if they are loaded too, and its place.
struct Loaded {
    keys: Fragment,
    orders: Option<Fragment>,
    place: Index,
}

/// The threshold as far as it is known: its key as an unsigned number, its number among equal keys, the elements that are still
/// looked for, and whether the search goes on.
struct Search {
    key: Fragment,
    order: Fragment,
    left: Fragment,
    is_open: Fragment,
}

/// Builds the kernel.
pub(crate) fn build(plan: &TopKPlan, arch: Arch, stage: TopKStage) -> Result<TensorKernel, Error> {
    let operands = &plan.operands;
    let name = match stage {
        TopKStage::Whole => "top_k",
        TopKStage::Part => "top_k_part",
        TopKStage::Combine => "top_k_combine",
    };
    let mut k = Builder::new(name, arch, plan.threads as u32);
    let [of_x, of_values, of_indices, of_candidates] =
        TopKProblem::like(operands).layouts(2, 64)?;
    let candidates =
        (stage == TopKStage::Combine).then(|| k.tensor("candidates", Ty::S64, &of_candidates));
    let x = k.tensor("x", operands.ty, &of_x);
    let results = (stage != TopKStage::Part).then(|| {
        [
            k.tensor("values", operands.ty, &of_values),
            k.tensor("indices", operands.index, &of_indices),
        ]
    });
    let candidates = match stage {
        TopKStage::Part => Some(k.tensor("candidates", Ty::S64, &of_candidates)),
        _ => candidates,
    };
    let block = k.block_index(0);
    let block = k.within(block, 0..plan.most_blocks());
    let read = match (&candidates, stage) {
        (Some(candidates), TopKStage::Combine) => candidates,
        _ => &x,
    };
    let extent = k.within(read.extent(1), 1..MOST + 1);
    let count = match &results {
        Some([values, _]) => k.within(values.extent(1), 1..plan.slots + 1),
        None => k.index_argument("count", 1..plan.slots + 1),
    };
    let digit = if plan.digit == 0 { 0 } else { 1 << plan.digit };
    let bins = k.shared_tensor(Ty::S32, column(digit.max(1)));
    let state = k.shared_tensor(Ty::S32, column(4));
    let slots = k.shared_tensor(Ty::S64, column(plan.slots));
    let thread = k.thread();
    let kernel = TopKKernel {
        plan,
        stage,
        x,
        candidates,
        results,
        row: &block / plan.parts,
        part: &block % plan.parts,
        thread,
        extent,
        count,
        bins,
        state,
        slots,
    };
    kernel.select(&mut k);
    k.finish()
}

/// The layout of a vector.
fn column(count: i64) -> Layout {
    Layout::column_major(count)
        .expect("a vector has elements")
        .to_static()
}

/// The same bits as numbers of another type of 32 bits.
fn bits_as(k: &mut Builder, from: &Fragment, ty: Ty) -> Fragment {
    let to = k.fragment(ty, column(from.layout().size()));
    k.emit(|ir| {
        for (to, from) in to.regs().iter().zip(from.regs()) {
            ir.mov_to(*to, *from);
        }
    });
    to
}

/// A key and the number that orders equal keys, as one number.
fn joined(key: impl Into<Expr>, order: impl Into<Expr>) -> Expr {
    key.into().to(Ty::S64) * (1_i64 << 32) + order.into().to(Ty::S64)
}

impl TopKKernel<'_> {
    fn select(&self, k: &mut Builder) {
        let zero = k.fragment(Ty::S32, column(1));
        k.fill(&zero, 0.0);
        self.each_own(k, self.bins.layout().size(), |k, at| {
            k.scatter(&zero, &self.bins.elements(at));
        });
        self.each_own(k, self.plan.slots, |k, at| {
            k.scatter(EMPTY, &self.slots.elements(at));
        });
        self.put_state(k, TAKEN, 0);
        k.sync();
        let search = self.search(k);
        let held = self.plan.held.then(|| self.load(k, &Index::constant(0)));
        for pass in self.plan.passes() {
            self.pass(k, &search, pass, held.as_deref());
        }
        let threshold = k.map(joined(Expr::from(&search.key) ^ i32::MIN, &search.order));
        self.over_elements(k, held.as_deref(), |k, loaded| {
            self.take(k, &threshold, loaded);
        });
        k.sync();
        match &self.results {
            None => self.leave(k),
            Some(results) => {
                self.sort(k);
                self.store(k, results);
            }
        }
    }

    /// Calls `body` with each of `count` numbers that the thread has.
    fn each_own(&self, k: &mut Builder, count: i64, body: impl Fn(&mut Builder, &Index)) {
        k.for_(&self.thread, count, self.plan.threads, |k, at| body(k, at));
    }

    /// The first thread stores a word of the state.
    fn put_state(&self, k: &mut Builder, word: i64, value: i64) {
        let is_first = Expr::from(&self.thread).equals(0);
        k.scatter(value, &self.state.elements(word).only(is_first));
    }

    /// The search before its first pass: over already if the slots take the whole row.
    fn search(&self, k: &mut Builder) -> Search {
        let word = |k: &mut Builder| k.fragment(Ty::S32, column(1));
        let [key, order, left, is_open] = [(); 4].map(|()| word(k));
        k.assign(&key, 0);
        // The upper bits of all orders are ones.
        let low = (1_i64 << self.plan.index_bits) - 1;
        k.assign(&order, i64::from(MAGNITUDE) - low);
        k.assign(&left, Expr::from(&self.count));
        let is_longer = Expr::from(&self.extent).gt(self.plan.slots);
        k.assign(&is_open, is_longer.select(1, 0));
        Search {
            key,
            order,
            left,
            is_open,
        }
    }

    /// Loads the vectors of a turn.
    fn load(&self, k: &mut Builder, turn: &Index) -> Vec<Loaded> {
        let TopKPlan {
            vector,
            threads,
            accesses,
            ..
        } = *self.plan;
        let first = turn * self.plan.chunk() + &self.thread * vector;
        let places = (0..accesses).map(|access| &first + access * (threads * vector));
        let from = match (&self.candidates, self.stage) {
            (Some(candidates), TopKStage::Combine) => candidates,
            _ => &self.x,
        };
        let raw: Vec<(Fragment, Index)> = places
            .map(|place| {
                let at = from.elements((&self.row, &place));
                (k.gather(&at.vectors(1, vector)), place)
            })
            .collect();
        raw.into_iter()
            .map(|(raw, place)| self.keyed(k, &raw, place))
            .collect()
    }

    /// The keys of what was loaded.
    fn keyed(&self, k: &mut Builder, raw: &Fragment, place: Index) -> Loaded {
        if self.stage == TopKStage::Combine {
            let keys = k.map((Expr::from(raw) >> 32).to(Ty::S32));
            let orders = Some(k.map(Expr::from(raw).to(Ty::S32)));
            return Loaded {
                keys,
                orders,
                place,
            };
        }
        let smallest = self.plan.operands.smallest;
        let keys = if raw.ty().is_integer() {
            let x = Expr::from(raw);
            if smallest { !x } else { x }
        } else {
            let wide = k.map(Expr::from(raw).to(Ty::F32));
            let bits = Expr::from(bits_as(k, &wide, Ty::S32));
            let size = &bits & MAGNITUDE;
            // Both zeros have the key 0.
            let number = bits.lt(0).select(-&size, &size);
            let key = size.gt(INFINITY).select(NAN, number);
            if smallest { -key } else { key }
        };
        Loaded {
            keys: k.map(keys),
            orders: None,
            place,
        }
    }

    /// Calls `body` with all that the thread loads.
    fn over_elements(
        &self,
        k: &mut Builder,
        held: Option<&[Loaded]>,
        body: impl Fn(&mut Builder, &Loaded),
    ) {
        if let Some(held) = held {
            return held.iter().for_each(|loaded| body(k, loaded));
        }
        let chunk = self.plan.chunk();
        let turns = (&self.extent + (chunk - 1)) / chunk;
        k.for_(&self.part, turns, self.plan.parts, |k, turn| {
            for loaded in self.load(k, turn) {
                body(k, &loaded);
            }
        });
    }

    /// Calls `body` with each element: its key, its number among equal keys, and whether there is one.
    fn each(
        &self,
        k: &mut Builder,
        loaded: &Loaded,
        body: impl Fn(&mut Builder, &Fragment, Expr, Cond),
    ) {
        let inside = k.less(&loaded.place, &self.extent);
        for i in 0..self.plan.vector {
            let order = match &loaded.orders {
                Some(orders) => Expr::from(orders.values(i, 1)),
                None => Expr::from(-(&loaded.place + i) + i64::from(MAGNITUDE)),
            };
            body(k, &loaded.keys.values(i, 1), order, inside);
        }
    }

    /// One pass: counts the elements by some of their bits, and takes those of the threshold.
    fn pass(&self, k: &mut Builder, search: &Search, pass: TopKPass, held: Option<&[Loaded]>) {
        let is_open = k.condition(Expr::from(&search.is_open).differs(0));
        k.if_(is_open, |k| {
            self.over_elements(k, held, |k, loaded| {
                self.each(k, loaded, |k, key, order, inside| {
                    self.tally(k, search, pass, (key, order, inside));
                });
            });
        });
        k.sync();
        // Without a bin that has the threshold, all elements that are counted reach it.
        let last = (1 << pass.width) - 1;
        for (word, value) in [(BIN, last), (BEFORE, 0), (OWN, 0)] {
            self.put_state(k, word, value);
        }
        self.find(k, search);
        k.sync();
        let [bin, before, own] =
            [BIN, BEFORE, OWN].map(|word| k.gather(&self.state.elements(word)));
        let threshold = if pass.of_index {
            &search.order
        } else {
            &search.key
        };
        let digit = Expr::from(last) - &bin;
        k.assign(threshold, Expr::from(threshold) | digit << pass.shift);
        k.assign(&search.left, &search.left - &before);
        let reach = Expr::from(&self.count) - &search.left + &own;
        let goes_on = Expr::from(&search.is_open).differs(0) & reach.gt(self.plan.slots);
        k.assign(&search.is_open, goes_on.select(1, 0));
    }

    /// Counts an element in its bin, if it has the bits of the threshold so far.
    fn tally(
        &self,
        k: &mut Builder,
        search: &Search,
        pass: TopKPass,
        (key, order, inside): (&Fragment, Expr, Cond),
    ) {
        let key = Expr::from(key) ^ i32::MIN;
        let above = pass.shift + pass.width;
        let mut mask = Mask::from(inside);
        let (bits, threshold) = if pass.of_index {
            mask = mask & key.equals(&search.key);
            (order, &search.order)
        } else {
            (key, &search.key)
        };
        if above < 32 {
            mask = mask & ((&bits ^ threshold) >> above).equals(0);
        }
        let bin = !bits >> pass.shift & ((1 << pass.width) - 1);
        let at = self.bins.elements(bin).outside(Outside::Stated);
        k.atomic_update(AtomicOp::Add, &at.only(mask), 1);
    }

    /// Finds the bin in which the count reaches the elements that are looked for, and clears the bins.
    fn find(&self, k: &mut Builder, search: &Search) {
        let bins = self.bins.layout().size();
        let own = (bins / self.plan.threads).max(1);
        let counts = k.fragment(Ty::S32, column(own));
        let place = |i: i64| &self.thread * own + i;
        for i in 0..own {
            let count = k.gather(&self.bins.elements(place(i)));
            k.assign(&counts.values(i, 1), &count);
        }
        for i in 0..own {
            k.scatter(0, &self.bins.elements(place(i)));
        }
        let (before, _) = k.scan_block(Add, &counts, true);
        for i in 0..own {
            let [before, count] = [&before, &counts].map(|all| Expr::from(all.values(i, 1)));
            let left = &search.left;
            let reaches = before.lt(left) & (&before + &count).ge(left);
            for (word, value) in [(BIN, Expr::from(place(i))), (BEFORE, before), (OWN, count)] {
                let at = self.state.elements(word).only(reaches.clone());
                k.scatter(value, &at);
            }
        }
    }

    /// Stores the elements that reach the threshold in slots.
    fn take(&self, k: &mut Builder, threshold: &Fragment, loaded: &Loaded) {
        self.each(k, loaded, |k, key, order, inside| {
            let element = k.map(joined(key, order));
            let reaches = k.condition(Expr::from(&element).ge(threshold));
            let reaches = k.both(inside, reaches);
            k.if_(reaches, |k| {
                let slot = k.atomic(AtomicOp::Add, &self.state.elements(TAKEN), 1);
                k.scatter(&element, &self.slots.elements(&slot));
            });
        });
    }

    /// Stores the slots as the candidates of a part.
    fn leave(&self, k: &mut Builder) {
        let Some(candidates) = &self.candidates else {
            return;
        };
        self.each_own(k, self.plan.slots, |k, at| {
            let one = k.gather(&self.slots.elements(at));
            let to = candidates.elements((&self.row, &self.part * self.plan.slots + at));
            k.scatter(&one, &to);
        });
    }

    /// Sorts the slots by a bitonic network, the largest first.
    fn sort(&self, k: &mut Builder) {
        let TopKPlan { slots, threads, .. } = *self.plan;
        let rounds = (slots / 2 / threads).max(1);
        let mut steps = Vec::new();
        let mut size = 2;
        while size <= slots {
            let mut distance = size / 2;
            while distance > 0 {
                steps.push((size, distance));
                distance /= 2;
            }
            size *= 2;
        }
        for (i, &(size, distance)) in steps.iter().enumerate() {
            let exchange = |k: &mut Builder, round: &Index| {
                let pair = round * threads + &self.thread;
                self.exchange(k, &pair, size, distance);
            };
            if rounds <= ROUNDS {
                (0..rounds).for_each(|round| exchange(k, &round.into()));
            } else {
                k.for_(0, rounds, 1, exchange);
            }
            // Up to this distance, the pairs of a warp lie in 64 slots of its own.
            let is_near = |(_, distance): &(i64, i64)| *distance <= 32;
            if is_near(&steps[i]) && steps.get(i + 1).is_some_and(is_near) {
                k.emit(|ir| ir.warp_sync());
            } else {
                k.sync();
            }
        }
    }

    /// Puts two slots in the order of their sequence: those of every second sequence of `size` slots ascend.
    fn exchange(&self, k: &mut Builder, pair: &Index, size: i64, distance: i64) {
        let low = pair / distance * (2 * distance) + pair % distance;
        let places = [low.clone(), &low + distance];
        let [a, b] = places
            .each_ref()
            .map(|at| k.gather(&self.slots.elements(at)));
        let descends = Expr::from(&low / size % 2).equals(0);
        let swaps = Expr::from(&a).lt(&b) ^ !descends;
        let first = k.map(swaps.select(&b, &a));
        let second = k.map(swaps.select(&a, &b));
        for (at, one) in places.iter().zip([first, second]) {
            k.scatter(&one, &self.slots.elements(at));
        }
    }

    /// Stores the results in their order.
    fn store(&self, k: &mut Builder, [values, indices]: &[Tensor; 2]) {
        k.for_(&self.thread, &self.count, self.plan.threads, |k, at| {
            let element = k.gather(&self.slots.elements(at));
            let index = k.map(Expr::from(MAGNITUDE) - Expr::from(&element).to(Ty::S32));
            let from = self.x.elements([Expr::from(&self.row), Expr::from(&index)]);
            let value = k.gather(&from.outside(Outside::Stated));
            k.scatter(&value, &values.elements((&self.row, at)));
            let index = k.map(Expr::from(&index).to(self.plan.operands.index));
            k.scatter(&index, &indices.elements((&self.row, at)));
        });
    }
}
