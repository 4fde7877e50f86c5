//! The claims of accesses without a predicate about the launch, in the expressions of [`colex_ir::claims`].

mod decide;
mod prove;
mod trap;

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use super::Builder;
use crate::index::walk::Walked;
use crate::index::{Data, Index, Leaf, Node};
use colex_ir::claims::{
    Around, Bound, Certain, Claim, ClaimId, Declared, Expression, Expressions, Part, Term, Test,
    Value,
};
use colex_ir::launch::FREE_LOOPS;
use colex_ir::{Control, Guard, Kernel, Op, ParamId, Reg, Special, Stmt};
use decide::Knows;

/// What opened a body.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// The kernel, or a loop of which nothing is known.
    Other,
    /// A branch, taken where the guard holds.
    Branch(Guard),
    /// A counted loop.
    Loop {
        counter: Leaf,
        start: Index,
        end: Index,
        step: Index,
    },
}

/// What a predicate says.
#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// The integer and the constant are in this order.
    Compare(Index, Ordering, i64),
    /// Both hold.
    Both(Guard, Guard),
    /// The lane is the one that its warp has elected.
    Elected,
}

/// The coordinates that an access reaches along a mode of a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) tensor: String,
    pub(crate) mode: usize,
    pub(crate) low: Index,
    pub(crate) high: Index,
    pub(crate) extent: Index,
}

/// A claim until the kernel is finished.
#[derive(Debug)]
struct Open {
    reaches: Vec<Reach>,
    /// What is declared: an integer, its range, and what it is a multiple of.
    declared: Option<(Index, (i64, i64), i64)>,
    /// What is at least 0 behind the declaration by a theorem.
    implied: Vec<Index>,
    around: Vec<Opened>,
}

/// What a claim demands of an integer.
#[derive(Clone, Debug)]
pub(crate) enum Demand {
    /// `a < b`
    Less(Index, Index),
    /// `a >= b`
    AtLeast(Index, Index),
    /// It is a multiple of a power of two.
    Multiple(Index, i64),
}

impl Demand {
    /// The integer that is at least 0 where the demand is met, if that is what it comes to.
    fn margin(&self) -> Option<Index> {
        match self {
            Demand::Less(a, b) => Some(b - a - 1),
            Demand::AtLeast(a, b) => Some(a - b),
            Demand::Multiple(..) => None,
        }
    }
}

impl Open {
    /// The counters of the loops around it, the outermost first.
    fn counters(&self) -> Vec<Leaf> {
        let counter = |opened: &Opened| match opened {
            Opened::Loop { counter, .. } => Some(*counter),
            Opened::Branch(_) | Opened::Other => None,
        };
        self.around.iter().filter_map(counter).collect()
    }

    /// What the claim demands, unless it is met by every value of the registers.
    fn demands(&self) -> Vec<Demand> {
        let mut demands = Vec::new();
        for Reach {
            low, high, extent, ..
        } in &self.reaches
        {
            demands.push(Demand::Less(high.clone(), extent.clone()));
            if low.range().0 < 0 {
                demands.push(Demand::AtLeast(low.clone(), 0.into()));
            }
        }
        if let Some((value, (first, last), multiple)) = &self.declared {
            // The range of a register is what is declared; what is computed has a range of its own.
            let (least, most) = match &value.0.node {
                Node::Leaf(leaf) if leaf.reg.ty.bits() == 64 => (i64::MIN, i64::MAX),
                Node::Leaf(leaf) if *first < 0 || leaf.is_signed => {
                    (i64::from(i32::MIN), i64::from(i32::MAX))
                }
                Node::Leaf(_) => (0, i64::from(u32::MAX)),
                _ => value.range(),
            };
            if least < *first {
                demands.push(Demand::AtLeast(value.clone(), (*first).into()));
            }
            if most > *last {
                demands.push(Demand::Less(value.clone(), (last + 1).into()));
            }
            if *multiple > 1 {
                demands.push(Demand::Multiple(value.clone(), *multiple));
            }
        }
        demands
    }
}

/// The claims of a kernel, and what tells their expressions.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    open: Vec<Open>,
    says: HashMap<Reg, Says>,
    parameters: HashMap<Reg, ParamId>,
}

impl Claims {
    /// Notes what a predicate says.
    pub(crate) fn says(&mut self, pred: Reg, says: Says) {
        self.says.insert(pred, says);
    }

    /// Whether no thread meets both conditions, as far as is known.
    pub(crate) fn excludes(&self, a: Guard, b: Guard) -> bool {
        if a.pred == b.pred {
            return a.when != b.when;
        }
        let equals = |guard: Guard| match self.says.get(&guard.pred) {
            Some(Says::Compare(index, Ordering::Equal, c)) if guard.when => Some((index, c)),
            _ => None,
        };
        match (equals(a), equals(b)) {
            (Some((x, c)), Some((y, d))) => x == y && c != d,
            _ => false,
        }
    }

    /// Whether a condition compares numbers of the launch: all threads of it go one way.
    pub(crate) fn is_of_launch(&self, guard: Guard) -> bool {
        matches!(self.says.get(&guard.pred), Some(Says::Compare(index, ..)) if self.is_number(index))
    }

    /// Whether an integer is computed of numbers of the launch alone.
    fn is_number(&self, index: &Index) -> bool {
        match &index.0.node {
            Node::Leaf(leaf) => self.parameters.contains_key(&leaf.reg),
            Node::Poison(_) => false,
            node => {
                let mut all = true;
                node.parts(&mut |part| all = all && self.is_number(part));
                all
            }
        }
    }

    /// Notes that a register holds a parameter.
    pub(crate) fn parameter(&mut self, reg: Reg, id: ParamId) {
        self.parameters.insert(reg, id);
    }
}

impl Reach {
    /// Grows by another one of the same mode, if their coordinates differ by constants.
    fn join(&mut self, other: &Reach) -> bool {
        if self.mode != other.mode || self.tensor != other.tensor {
            return false;
        }
        let differences = [&other.low - &self.low, &other.high - &self.high];
        let [Some(low), Some(high)] = differences.map(|d| d.as_constant()) else {
            return false;
        };
        if low < 0 {
            self.low = other.low.clone();
        }
        if high > 0 {
            self.high = other.high.clone();
        }
        true
    }
}

impl Builder {
    /// Begins the claim of an access, whose reaches follow.
    pub(crate) fn open_claim(&mut self) -> ClaimId {
        let here = Location::caller();
        let site = self.ir.set_location(None);
        self.ir.set_location(site);
        let around = self.scopes.iter().skip(1).map(|s| s.opened.clone());
        self.claims.open.push(Open {
            reaches: Vec::new(),
            declared: None,
            implied: Vec::new(),
            around: around.collect(),
        });
        // Filled in when the kernel is finished.
        self.ir.claim(Claim {
            bounds: Vec::new(),
            declared: None,
            certain: None,
            at: site.unwrap_or(here),
        })
    }

    /// Claims that an integer lies here where its author says.
    pub(crate) fn claim_range(&mut self, index: &Index, range: (i64, i64), multiple: i64) {
        self.claim_implying(index, range, multiple, Vec::new());
    }

    /// The same of an integer of which a theorem says that others are at least 0 then.
    pub(crate) fn claim_implying(
        &mut self,
        index: &Index,
        range: (i64, i64),
        multiple: i64,
        implied: Vec<Index>,
    ) {
        if index.poison().is_some() {
            return;
        }
        let claim = self.range_claim(index, range);
        let open = &mut self.claims.open[claim.0 as usize];
        open.declared = Some((index.clone(), range, multiple));
        open.implied = implied;
        self.ir.claiming(Some(claim), |k| k.comment(""));
    }

    /// The claim that an integer lies in a range, for the instruction that takes it for granted.
    pub(crate) fn range_claim(&mut self, index: &Index, range: (i64, i64)) -> ClaimId {
        self.claim_owed(index);
        self.check_leaves(index);
        let claim = self.open_claim();
        self.claims.open[claim.0 as usize].declared = Some((index.clone(), range, 1));
        claim
    }

    /// Claims what the value of an integer takes for granted of its parts, unless that is claimed on every way to this place:
    /// that a divisor is at least 1, and that a number of a tile fits.
    #[track_caller]
    pub(crate) fn claim_owed(&mut self, index: &Index) {
        if !index.0.owes || self.failure.is_set() {
            return;
        }
        let mut owed = Vec::new();
        index.owed(&mut owed);
        self.site(Location::caller(), |k| {
            for (part, range) in owed {
                let owed = (part, range);
                if k.scopes.iter().any(|scope| scope.settled.contains(&owed)) {
                    continue;
                }
                if let Some(scope) = k.scopes.last_mut() {
                    scope.settled.insert(owed.clone());
                }
                k.claim_range(&owed.0, owed.1, 1);
            }
        });
    }

    /// Adds coordinates that an access reaches to its claim, unless the tensor has them in every launch.
    pub(crate) fn claim_reach(&mut self, claim: ClaimId, reach: Reach) {
        if self.is_certain(&reach) {
            return;
        }
        // The claim is made of what the registers hold at the access.
        for index in [&reach.low, &reach.high, &reach.extent] {
            self.claim_owed(index);
            self.check_leaves(index);
        }
        let reaches = &mut self.claims.open[claim.0 as usize].reaches;
        if !reaches.iter_mut().any(|known| known.join(&reach)) {
            reaches.push(reach);
        }
    }

    /// Whether the tensor has the coordinates of a reach in every launch.
    pub(crate) fn is_certain(&self, reach: &Reach) -> bool {
        reach.low.range().0 >= 0
            && reach.high.range().1 < reach.extent.range().0
            && self.is_bounded(&reach.low)
            && self.is_bounded(&reach.high)
    }

    /// Notes what opened the innermost body.
    pub(crate) fn opened(&mut self, opened: Opened) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.opened = opened;
        }
    }

    /// The same of a counted loop, by its counter, its first value, its end and its step.
    pub(crate) fn opened_loop(&mut self, now: &Index, [start, end, step]: [&Index; 3]) {
        if let Node::Leaf(counter) = &now.0.node {
            self.opened(Opened::Loop {
                counter: *counter,
                start: start.clone(),
                end: end.clone(),
                step: step.clone(),
            });
        }
    }

    /// The kernel with its claims, and with traps before the accesses whose claims no launch decides.
    pub(crate) fn claimed(&self, mut kernel: Kernel) -> Kernel {
        let lowered = Lowered::of(self);
        let mut runs = HashMap::new();
        Walk::default().block(&kernel.body, &mut Vec::new(), &mut runs);
        let mut trapped = HashMap::new();
        for (i, open) in self.claims.open.iter().enumerate() {
            let (claim, id) = (&mut kernel.claims[i], ClaimId(i as u32));
            let bounds = open.reaches.iter();
            claim.bounds = bounds.filter_map(|reach| lowered.bound(reach)).collect();
            claim.declared = open.declared.as_ref().and_then(|(index, range, multiple)| {
                Some(Declared {
                    value: lowered.expression(index)?,
                    range: *range,
                    multiple: *multiple,
                })
            });
            let mut demands = open.demands();
            let run = runs.get(&id);
            claim.certain = run.and_then(|run| lowered.certain(open, run, claim));
            if let Some(run) = run {
                lowered.retain_undecided(&mut demands, open, run, claim.certain.is_some());
            }
            if !demands.is_empty() {
                trapped.insert(id, demands);
            }
        }
        trap::inserted(kernel, trapped)
    }
}

impl Index {
    /// Whether it reads a register.
    pub(crate) fn reads(&self, reg: Reg) -> bool {
        let mut leaves = Vec::new();
        self.leaves(&mut leaves);
        leaves.iter().any(|leaf| leaf.reg == reg)
    }

    /// The registers that it reads.
    pub(crate) fn leaves(&self, found: &mut Vec<Leaf>) {
        self.leaves_in(found, &mut Walked::default());
    }

    fn leaves_in(&self, found: &mut Vec<Leaf>, walked: &mut Walked<()>) {
        if let Node::Leaf(leaf) = &self.0.node {
            return found.push(*leaf);
        }
        walked.of(self, |walked| {
            (self.0.node).parts(&mut |part| part.leaves_in(found, walked));
        });
    }
}

/// What the tests around a claim read.
#[derive(Default)]
struct Told {
    leaves: Vec<Leaf>,
    /// One lane of each warp, not known which.
    elected: bool,
}

/// What tells the expressions of a kernel.
struct Lowered<'a> {
    builder: &'a Builder,
    specials: HashMap<Reg, Special>,
    parts: RefCell<Parts>,
}

/// The expressions of a kernel, which share their parts.
#[derive(Default)]
struct Parts {
    all: Expressions,
    /// The parts that integers are. A node that is kept here has its address for as long.
    of: HashMap<*const Data, (Index, Option<Part>)>,
    whole: HashMap<Part, Expression>,
}

impl<'a> Lowered<'a> {
    fn of(builder: &'a Builder) -> Self {
        let specials = builder.specials.iter();
        Lowered {
            builder,
            specials: specials.map(|(special, reg)| (*reg, *special)).collect(),
            parts: RefCell::default(),
        }
    }

    fn expression(&self, index: &Index) -> Option<Expression> {
        let mut parts = self.parts.borrow_mut();
        let part = self.part(index, &mut parts)?;
        let Parts { all, whole, .. } = &mut *parts;
        let expression = whole.entry(part).or_insert_with(|| all.expression(part));
        Some(expression.clone())
    }

    /// Not by the node: of a register that is read as signed and as unsigned, the ranges differ.
    fn part(&self, index: &Index, parts: &mut Parts) -> Option<Part> {
        let key = Arc::as_ptr(&index.0);
        if let Some((_, known)) = parts.of.get(&key) {
            return *known;
        }
        let part = self.made(index, parts);
        parts.of.insert(key, (index.clone(), part));
        part
    }

    fn made(&self, index: &Index, parts: &mut Parts) -> Option<Part> {
        let mut two = |operation, a: &Index, b: &Index| {
            let (a, b) = (self.part(a, parts)?, self.part(b, parts)?);
            Some(parts.all.binary(operation, a, b))
        };
        match &index.0.node {
            Node::Leaf(leaf) => Some(self.leaf(*leaf, index.range().0 < 0, &mut parts.all)),
            Node::Sum(terms, constant) => {
                let mut sum: Option<Part> = None;
                for (x, c) in terms {
                    let mut x = self.part(x, parts)?;
                    let all = &mut parts.all;
                    if *c != 1 {
                        let factor = all.number(*c);
                        x = all.binary(Term::Multiply, x, factor);
                    }
                    sum = Some(match sum {
                        None => x,
                        Some(sum) => all.binary(Term::Add, sum, x),
                    });
                }
                let all = &mut parts.all;
                match sum {
                    Some(sum) if *constant == 0 => Some(sum),
                    sum => {
                        let constant = all.number(*constant);
                        Some(match sum {
                            None => constant,
                            Some(sum) => all.binary(Term::Add, sum, constant),
                        })
                    }
                }
            }
            Node::BitField(x, mask, shift) => {
                let of = self.part(x, parts)?;
                Some(parts.all.bits(of, x.kept(*mask, *shift), *shift))
            }
            Node::Product(a, b) => two(Term::Multiply, a, b),
            Node::Quotient(a, b) => two(Term::Quotient, a, b),
            Node::Remainder(a, b) => two(Term::Remainder, a, b),
            Node::Xor(a, b) => two(Term::Xor, a, b),
            Node::Min(a, b) => two(Term::Minimum, a, b),
            Node::Select(of) => {
                let [a, b, then, other] = of.as_ref();
                let [a, b] = [self.part(a, parts)?, self.part(b, parts)?];
                let [then, other] = [self.part(then, parts)?, self.part(other, parts)?];
                Some(parts.all.select([a, b, then, other]))
            }
            Node::Opaque(x) => self.part(x, parts),
            Node::Poison(_) => None,
        }
    }

    fn leaf(&self, leaf: Leaf, signed: bool, all: &mut Expressions) -> Part {
        let reg = leaf.reg;
        if let Some(special) = self.specials.get(&reg) {
            return all.value(Value::Special(*special));
        }
        if let Some(id) = self.builder.claims.parameters.get(&reg) {
            return all.value(Value::Parameter { id: *id, signed });
        }
        match self.builder.reports.values.groups.get(&reg) {
            Some(threads) => {
                let (thread, threads) = (self.thread(all), all.number(*threads));
                all.binary(Term::Quotient, thread, threads)
            }
            None => all.value(Value::Register { reg, signed }),
        }
    }

    /// The number of the thread in its block.
    fn thread(&self, all: &mut Expressions) -> Part {
        let [x, y, z] = self.builder.block.map(i64::from);
        let mut number = all.value(Value::Special(Special::Tid(0)));
        for (axis, extent, before) in [(1, y, x), (2, z, x * y)] {
            if extent > 1 {
                let along = all.value(Value::Special(Special::Tid(axis)));
                let before = all.number(before);
                let part = all.binary(Term::Multiply, along, before);
                number = all.binary(Term::Add, number, part);
            }
        }
        number
    }

    fn bound(&self, reach: &Reach) -> Option<Bound> {
        let low = (reach.low.range().0 < 0).then(|| self.expression(&reach.low));
        Some(Bound {
            tensor: reach.tensor.clone(),
            mode: reach.mode,
            low: low.flatten(),
            high: self.expression(&reach.high)?,
            extent: self.expression(&reach.extent)?,
        })
    }

    /// What a predicate says, if anything is known of it.
    fn test(&self, guard: Guard, told: &mut Told) -> Option<(Test, bool)> {
        let test = match self.builder.claims.says.get(&guard.pred)? {
            // True of one lane of each warp.
            Says::Elected if guard.when => {
                told.elected = true;
                Test::All(Vec::new())
            }
            Says::Elected => return None,
            Says::Compare(index, order, constant) => {
                index.leaves(&mut told.leaves);
                Test::Compare(self.expression(index)?, *order, *constant)
            }
            Says::Both(a, b) => Test::All(vec![self.test(*a, told)?, self.test(*b, told)?]),
        };
        Some((test, guard.when))
    }

    /// What is known of a register, inside of these loops.
    fn known(&self, leaf: &Leaf, counters: &[Leaf]) -> Knows {
        let Builder {
            claims, reports, ..
        } = self.builder;
        if let Some(special) = self.specials.get(&leaf.reg) {
            Knows::special(*special)
        } else if claims.parameters.contains_key(&leaf.reg) {
            Knows::Launch
        } else if reports.values.groups.contains_key(&leaf.reg) {
            Knows::Thread
        } else {
            let counter = counters.iter().position(|counter| counter == leaf);
            counter.map_or(Knows::Nothing, Knows::Counter)
        }
    }

    /// When the access certainly runs; none where a launch cannot tell.
    fn certain(&self, open: &Open, run: &ControlPath, claim: &Claim) -> Option<Certain> {
        let mut around = Vec::new();
        let mut told = Told::default();
        if open.around.len() != run.inside.len() {
            return None;
        }
        for (opened, inside) in open.around.iter().zip(&run.inside) {
            match (opened, inside) {
                (Opened::Branch(guard), Inside::Branch(p, taken)) if guard.pred == p.pred => {
                    let (test, when) = self.test(*p, &mut told)?;
                    around.push(Around::Branch(test, when == *taken));
                }
                (
                    Opened::Loop {
                        counter,
                        start,
                        end,
                        step,
                    },
                    Inside::Loop { is_counted: true },
                ) => {
                    [start, end, step]
                        .into_iter()
                        .for_each(|x| x.leaves(&mut told.leaves));
                    around.push(Around::Loop {
                        counter: counter.reg,
                        start: self.expression(start)?,
                        end: self.expression(end)?,
                        step: self.expression(step)?,
                    });
                }
                _ => return None,
            }
        }
        if let Some(guard) = run.guard {
            let (test, when) = self.test(guard, &mut told)?;
            around.push(Around::Branch(test, when));
        }
        for reach in &open.reaches {
            for index in [&reach.low, &reach.high, &reach.extent] {
                index.leaves(&mut told.leaves);
            }
        }
        if let Some((value, ..)) = &open.declared {
            value.leaves(&mut told.leaves);
        }
        // Of a register that is no counter around the access the launch knows nothing, nor of an earlier value of one.
        let counters = open.counters();
        let is_known = |leaf: &Leaf| self.known(leaf, &counters) != Knows::Nothing;
        if !told.leaves.iter().all(is_known) {
            return None;
        }
        let threads = self.threads(&around, claim, told.elected)?;
        Some(Certain { around, threads })
    }

    /// Keeps the demands that neither the launch decides nor a branch around the access.
    fn retain_undecided(
        &self,
        demands: &mut Vec<Demand>,
        open: &Open,
        run: &ControlPath,
        is_certain: bool,
    ) {
        let counters = open.counters();
        let known = |leaf: &Leaf| self.known(leaf, &counters);
        let reads = |leaves: &[Leaf], what: Knows| leaves.iter().all(|leaf| known(leaf) == what);
        let (mut facts, mut is_even) = (Vec::new(), is_certain);
        let mut of_threads = Vec::new();
        let mut branch = |guard: Guard| {
            self.facts(guard, &mut facts);
            let mut told = Told::default();
            let test = self.test(guard, &mut told);
            let is_of_threads = reads(&told.leaves, Knows::Thread);
            of_threads.extend(test.filter(|_| is_of_threads));
            is_of_threads || reads(&told.leaves, Knows::Launch)
        };
        for inside in &run.inside {
            if let Inside::Branch(guard, taken) = *inside {
                let when = guard.when == taken;
                is_even &= branch(Guard { when, ..guard });
            }
        }
        is_even &= run.guard.is_none_or(&mut branch);
        for opened in &open.around {
            if let Opened::Loop {
                counter,
                start,
                end,
                step,
            } = opened
            {
                let counter = Index::leaf(*counter, (start.range().0, end.range().1 - 1), 1, 0);
                facts.extend([end - &counter - 1, &counter - start]);
                let mut leaves = Vec::new();
                [start, end, step]
                    .into_iter()
                    .for_each(|x| x.leaves(&mut leaves));
                is_even &= reads(&leaves, Knows::Launch);
            }
        }
        for claim in &run.declared {
            let before = &self.builder.claims.open[claim.0 as usize];
            facts.extend(before.demands().iter().filter_map(Demand::margin));
            facts.extend(before.implied.iter().cloned());
        }
        demands.retain(|demand| {
            let Some(margin) = demand.margin() else {
                let Demand::Multiple(value, _) = demand else {
                    return true;
                };
                let mut leaves = Vec::new();
                value.leaves(&mut leaves);
                return !(is_even && reads(&leaves, Knows::Launch));
            };
            // What only the thread decides is known here.
            let mut leaves = Vec::new();
            margin.leaves(&mut leaves);
            if reads(&leaves, Knows::Thread)
                && let Some(value) = self.expression(&margin)
            {
                let is_broken = (0..self.builder.threads).any(|thread| {
                    let of = of_thread(self.builder.block, thread, 0);
                    let mut tests = of_threads.iter();
                    tests.all(|(test, wanted)| test.holds(&of) == Some(*wanted))
                        && value.evaluate(&of).is_none_or(|margin| margin < 0)
                });
                return is_broken && !prove::follows(&margin, &facts);
            }
            let is_decided =
                is_even && margin.is_least_at_corners(&known, counters.len(), FREE_LOOPS);
            !is_decided && !prove::follows(&margin, &facts)
        });
    }

    /// Integers that are at least 0 where a predicate has a value.
    fn facts(&self, guard: Guard, facts: &mut Vec<Index>) {
        match self.builder.claims.says.get(&guard.pred) {
            Some(Says::Compare(x, order, c)) => {
                let (above, below) = (x - *c, Index::constant(*c) - x);
                match (order, guard.when) {
                    (Ordering::Greater, true) => facts.push(above - 1),
                    (Ordering::Greater, false) => facts.push(below),
                    (Ordering::Less, true) => facts.push(below - 1),
                    (Ordering::Less, false) => facts.push(above),
                    (Ordering::Equal, true) => facts.extend([above, below]),
                    (Ordering::Equal, false) => {}
                }
            }
            Some(Says::Both(a, b)) if guard.when => {
                self.facts(*a, facts);
                self.facts(*b, facts);
            }
            Some(Says::Both(..) | Says::Elected) | None => {}
        }
    }

    /// The threads that reach farthest among those that the branches on the thread's number let through.
    fn threads(&self, around: &[Around], claim: &Claim, elected: bool) -> Option<Vec<u32>> {
        let is_thread =
            |value: Value| matches!(value, Value::Special(Special::Tid(_) | Special::LaneId));
        let block = self.builder.block;
        let alone = |test: &Test| {
            let mut alone = true;
            test.visit(&mut |e| alone &= e.values().all(is_thread));
            alone
        };
        let is_through = |thread: &u32| {
            around.iter().all(|around| match around {
                Around::Branch(test, wanted) if alone(test) => {
                    test.holds(&of_thread(block, *thread, 1)) == Some(*wanted)
                }
                Around::Branch(..) | Around::Loop { .. } => true,
            })
        };
        let through: Vec<u32> = (0..self.builder.threads).filter(is_through).collect();
        if elected {
            // The lane is not known at build time, so all lanes of a warp have to be alike.
            let mut all: Vec<&Expression> = Vec::new();
            around
                .iter()
                .for_each(|around| around.visit(&mut |e| all.push(e)));
            claim.visit(&mut |e| all.push(e));
            let is_alike = |e: &&Expression| {
                (0..self.builder.threads).all(|t| {
                    e.evaluate(&of_thread(block, t, 1))
                        == e.evaluate(&of_thread(block, t / 32 * 32, 1))
                })
            };
            if !all
                .iter()
                .filter(|e| e.values().any(is_thread))
                .all(is_alike)
            {
                return None;
            }
        }
        let mut ends = Vec::new();
        for bound in &claim.bounds {
            ends.push((&bound.high, 1));
            ends.extend(bound.low.as_ref().map(|low| (low, -1)));
        }
        if let Some(declared) = &claim.declared {
            ends.extend([(&declared.value, 1), (&declared.value, -1)]);
        }
        let mut chosen = Vec::new();
        for (end, sign) in ends {
            if end.values().any(is_thread) {
                let far = |thread: &u32| {
                    end.evaluate(&of_thread(block, *thread, 1))
                        .map(|x| x * sign)
                };
                let farthest = through.iter().copied();
                chosen.extend(farthest.max_by_key(|t| (far(t), u32::MAX - t)));
            }
        }
        chosen.push(*through.first()?);
        let mut seen = HashSet::new();
        chosen.retain(|thread| seen.insert(*thread));
        Some(chosen)
    }
}

/// The values of a thread of a block, and of anything else.
fn of_thread([x, y, _]: [u32; 3], thread: u32, others: i64) -> impl Fn(Value) -> Option<i64> {
    move |value| {
        Some(match value {
            Value::Special(Special::Tid(axis)) => i64::from(match axis {
                0 => thread % x,
                1 => thread / x % y,
                _ => thread / x / y,
            }),
            Value::Special(Special::LaneId) => i64::from(thread % 32),
            _ => others,
        })
    }
}

/// A block of a kernel that an access lies in.
#[derive(Clone, Copy, Debug)]
enum Inside {
    /// A side of a branch: the one for those where the guard holds, or the other.
    Branch(Guard, bool),
    /// A loop, and whether nothing but its own question leaves it.
    Loop { is_counted: bool },
}

/// How control reaches an access: through blocks that it lies in, after no instruction that may end a thread.
#[derive(Debug)]
struct ControlPath {
    inside: Vec<Inside>,
    guard: Option<Guard>,
    /// The claims on every way to it.
    declared: Vec<ClaimId>,
}

/// A walk through a kernel in program order.
#[derive(Default)]
struct Walk {
    /// A thread may have ended before.
    ends: bool,
    /// The claims of declarations on every way to the current place.
    declared: Vec<ClaimId>,
}

impl Walk {
    fn block(
        &mut self,
        body: &[Stmt],
        inside: &mut Vec<Inside>,
        runs: &mut HashMap<ClaimId, ControlPath>,
    ) {
        let before = self.declared.len();
        for stmt in body {
            if let Some(claim) = stmt.claim.filter(|_| !self.ends) {
                runs.insert(
                    claim,
                    ControlPath {
                        inside: inside.clone(),
                        guard: stmt.guard,
                        declared: self.declared.clone(),
                    },
                );
                if matches!(stmt.op, Op::Control(Control::Comment(_))) && stmt.guard.is_none() {
                    self.declared.push(claim);
                }
            }
            match &stmt.op {
                Op::Control(Control::If { p, then, other }) => {
                    // A branch that is predicated itself is in a branch that was not opened.
                    for (taken, side) in [(true, then), (false, other)] {
                        inside.push(Inside::Branch(*p, taken));
                        self.block(side, inside, runs);
                        inside.pop();
                    }
                }
                Op::Control(Control::Loop { body }) => {
                    let mut leaves = 0;
                    let mut ends = false;
                    leaves_of(body, &mut leaves, &mut ends);
                    self.ends |= ends;
                    inside.push(Inside::Loop {
                        is_counted: leaves == 1 && stmt.guard.is_none(),
                    });
                    self.block(body, inside, runs);
                    inside.pop();
                }
                Op::Control(Control::Exit | Control::Trap) => self.ends = true,
                Op::Control(Control::Break | Control::Continue | Control::Comment(_))
                | Op::Alu(_)
                | Op::Memory(_)
                | Op::Exchange(_)
                | Op::Sync(_)
                | Op::Async(_)
                | Op::Atom(_) => {}
            }
        }
        self.declared.truncate(before);
    }
}

/// How often a loop's body leaves it or begins it again, and whether a thread may end in it.
fn leaves_of(body: &[Stmt], leaves: &mut u32, ends: &mut bool) {
    for stmt in body {
        match &stmt.op {
            Op::Control(Control::Break | Control::Continue) => *leaves += 1,
            Op::Control(Control::Exit | Control::Trap) => *ends = true,
            Op::Control(Control::If { then, other, .. }) => {
                leaves_of(then, leaves, ends);
                leaves_of(other, leaves, ends);
            }
            Op::Control(Control::Loop { body }) => {
                let mut inner = 0;
                leaves_of(body, &mut inner, ends);
            }
            Op::Control(Control::Comment(_))
            | Op::Alu(_)
            | Op::Memory(_)
            | Op::Exchange(_)
            | Op::Sync(_)
            | Op::Async(_)
            | Op::Atom(_) => {}
        }
    }
}
